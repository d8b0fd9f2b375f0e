// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: /dev/hwtimer, timeouts for programs. The first user of hwtimer.h;
 * what programs see is in uapi/linux/hwtimer.h.
 *
 * Each open file description has a context, and the context a table of
 * timeouts that only grows until the file is closed. So a timeout's memory stays
 * what it is as long as anybody can name it, and a cancelled one can be used
 * again at once, wherever the wheel still has it: it is simply armed anew.
 *
 * An id is the timeout's index in the table, and above it a generation that goes
 * up at each use. A timeout whose generations are used up is not used again, so
 * an id never means another timeout than it did.
 *
 *	FREE ---reserve---> RESERVED ---arm---> PENDING ---callback---> DONE
 *	  ^                     |                 |  |                   ^ |
 *	  |<-----unreserve------+                 |  +-------stop--------+ |
 *	  |<------------------cancel--------------+                        |
 *	  |<---------------------------read--------------------------------+
 *
 * A periodic timeout has a struct dev_period beside it, from schedule until it is
 * FREE. It stays PENDING while it expires, and what is unread of it is told by
 * numbers there, so it needs no more memory however often that is:
 *
 *	unread	how often it expired, all the overruns included
 *	run	how many of these, the last ones, have a record each, their deadlines
 *		one period apart. With HWTIMER_MISFIRE_MAKE_UP all, as long as nobody
 *		touches it; else the last one only
 *
 * The first record of the run has all before it for its overruns. A reader looks at
 * records and takes them later, and it may expire in between: so what is taken
 * is subtracted from unread, by what the records told, and of the run there remains
 * what unread has room for. It is on the list of done timeouts while unread is not 0,
 * whatever its state; cancelled or stopped, it goes on to DONE and is free, or
 * handed back, when that has been read. Also, it is pending for programs even in
 * the moment between its expiry and its callback: who cancels, touches or
 * stops it then was first, and the callback finds it not PENDING, or armed.
 *
 * ctx->lock protects the states, the lists of free and of done timeouts, and
 * the counts. It is held around arm, touch and cancel of a timeout found by its
 * id, so that nobody can use the timeout again between the look at the id and
 * the operation. The callback takes it to go from PENDING to DONE; whoever
 * finds PENDING, but cannot cancel or touch the timeout any more, came between
 * the expiry and that, and treats it as expired.
 *
 * Lock order: ctx->control, then ctx->read_lock, then ctx->lock.
 */
#include <linux/bits.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/math64.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "hwtimer.h"
#include "hwtimer_dev.h"
#include "hwtimer_period.h"
#include "uapi/linux/hwtimer.h"

#define ID_INDEX_BITS	24
#define ID_INDEX_MASK	GENMASK_ULL(ID_INDEX_BITS - 1, 0)
#define ID_LAST_GEN	(U64_MAX >> ID_INDEX_BITS)
#define MAX_CAP		BIT_ULL(ID_INDEX_BITS)

/* A program at its cgroup's limit gets -ENOMEM, not the OOM killer. */
#define GFP_TABLE	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* How many records are copied to a reader at a time; they are on the stack. */
#define READ_BATCH	16

static_assert(sizeof(struct hwtimer_setup) == 32);
static_assert(sizeof(struct hwtimer_schedule) == 64);
static_assert(sizeof(struct hwtimer_touch) == 32);
static_assert(sizeof(struct hwtimer_cancel) == 16);
static_assert(sizeof(struct hwtimer_query) == 64);
static_assert(sizeof(struct hwtimer_stop) == 16);
static_assert(sizeof(struct hwtimer_stats) == 88);
static_assert(sizeof(struct hwtimer_record) == 48);

static_assert(HWTIMER_MISFIRE_ONCE == HWTIMER_FIRE_ONCE);
static_assert(HWTIMER_MISFIRE_SKIP == HWTIMER_SKIP);
static_assert(HWTIMER_MISFIRE_MAKE_UP == HWTIMER_MAKE_UP);

static unsigned long long tick_ns = NSEC_PER_MSEC;
module_param(tick_ns, ullong, 0444);
MODULE_PARM_DESC(tick_ns, "tick of the shared wheel of /dev/hwtimer in ns (default 1000000)");

static unsigned int slots = 4096;
module_param(slots, uint, 0444);
MODULE_PARM_DESC(slots, "slots per level of the shared wheel, which grows (default 4096)");

static unsigned long long min_tick_ns = NSEC_PER_MSEC;
module_param(min_tick_ns, ullong, 0644);
MODULE_PARM_DESC(min_tick_ns,
		 "a context's own wheel needs CAP_SYS_RESOURCE for a shorter tick (default 1000000)");

static unsigned int max_user_slots = 1 << 16;
module_param(max_user_slots, uint, 0644);
MODULE_PARM_DESC(max_user_slots,
		 "a context's own wheel needs CAP_SYS_RESOURCE for more slots (default 65536)");

static unsigned long max_user_timeouts = 1 << 20;
module_param(max_user_timeouts, ulong, 0644);
MODULE_PARM_DESC(max_user_timeouts,
		 "timeouts of one user without CAP_SYS_RESOURCE (default 1048576)");

static unsigned long max_user_wheels = 16;
module_param(max_user_wheels, ulong, 0644);
MODULE_PARM_DESC(max_user_wheels,
		 "own wheels of one user's contexts without CAP_SYS_RESOURCE (default 16)");

static unsigned long max_user_rate = 100000;
module_param(max_user_rate, ulong, 0644);
MODULE_PARM_DESC(max_user_rate,
		 "how often the periodic timeouts of one user without CAP_SYS_RESOURCE may expire in a second, all together; those that make up for what they missed: at each tick (default 100000)");

/**
 * struct dev_user - what one user has, over all contexts
 * @node: in users
 * @uid: who opened the device
 * @contexts: how many refer to this; protected by users_lock
 * @timeouts: in the tables of its contexts
 * @wheels: own wheels
 * @rate: how often its periodic timeouts expire in a second at the worst, each rounded
 *	up. They go on without the program, so it is not enough to count them
 */
struct dev_user {
	struct hlist_node	node;
	kuid_t			uid;
	unsigned long		contexts;
	atomic_long_t		timeouts;
	atomic_long_t		wheels;
	atomic_long_t		rate;
};

enum dev_state {
	DEV_FREE,
	DEV_RESERVED,
	DEV_PENDING,
	DEV_DONE,
};

/**
 * struct dev_period - what a periodic timeout has beside the others
 * @period: how it comes back; constant
 * @deadline: the one that it expired for last
 * @fired: when that was
 * @unread: how often it expired without that having been read
 * @run: how many of these have a record each; see above
 * @skipped: deadlines skipped since it expired last
 * @handed_back: when it was handed back
 *
 * Protected by ctx->lock.
 */
struct dev_period {
	struct hwtimer_period	period;
	u64			deadline;
	u64			fired;
	u64			unread;
	u64			run;
	u64			skipped;
	u64			handed_back;
};

/**
 * struct dev_timeout - one timeout of a context
 * @timeout: the timeout
 * @ctx: whose it is; constant
 * @next: the next free or done one; protected by ctx->lock, as all that follows
 * @id: its present id, or its last one
 * @user_data: the program's
 * @deadline: in ns, or HWTIMER_NEVER
 * @fired: when it expired or was handed back; DEV_DONE, not periodic
 * @period: periodic only
 * @state: enum dev_state
 * @kind: HWTIMER_EXPIRED or HWTIMER_HANDED_BACK; DEV_DONE
 * @periodic: it is; DEV_PENDING and DEV_DONE
 */
struct dev_timeout {
	struct hwtimer_timeout	timeout;
	struct dev_ctx		*ctx;
	struct dev_timeout	*next;
	u64			id;
	u64			user_data;
	u64			deadline;
	union {
		u64			fired;
		struct dev_period	*period;
	};
	u8			state;
	u8			kind;
	bool			periodic;
};

static_assert(sizeof(void *) != 8 || sizeof(struct dev_timeout) == 104);

/**
 * struct dev_ctx - an open file description
 * @user: who opened it
 * @control: one SETUP or STOP at a time
 * @read_lock: one reader at a time takes records off @done
 * @wait: readers and pollers
 * @table: all its timeouts by index
 * @held: timeouts that a wheel may hold after the close, and one for the close
 * @free_work: frees it when there are none
 * @lock: protects what follows
 * @wheel: the wheel in use; constant once @used is set
 * @own_wheel: @wheel belongs to this context
 * @set_up: SETUP was called
 * @used: a timeout was scheduled
 * @stopped: STOP was called
 * @ended: and nothing is pending any more
 * @free: timeouts to use again, last in first out
 * @done: timeouts with records to read, oldest first
 * @done_tail: where the next record is linked
 * @cap: most live timeouts
 * @live: timeouts not DEV_FREE
 * @allocated: timeouts in @table
 * @stats: what STATS tells
 */
struct dev_ctx {
	struct dev_user		*user;
	struct mutex		control;	/* one SETUP or STOP at a time */
	struct mutex		read_lock;	/* one reader at a time */
	wait_queue_head_t	wait;
	struct xarray		table;
	atomic_long_t		held;
	struct work_struct	free_work;

	spinlock_t		lock;		/* of what follows */
	struct hwtimer_wheel	*wheel;
	bool			own_wheel;
	bool			set_up;
	bool			used;
	bool			stopped;
	bool			ended;
	struct dev_timeout	*free;
	struct dev_timeout	*done;
	struct dev_timeout	**done_tail;
	u64			cap;
	u64			live;
	u64			allocated;
	struct hwtimer_stats	stats;
};

static DEFINE_HASHTABLE(users, 6);
static DEFINE_MUTEX(users_lock);

static struct hwtimer_wheel *shared_wheel;
static struct kmem_cache *timeout_cache;
/* Frees contexts: what a close leaves to be done may be long. */
static struct workqueue_struct *free_wq;

/* Users and their limits. */

static struct dev_user *user_get(void)
{
	kuid_t uid = current_uid();
	struct dev_user *user;

	mutex_lock(&users_lock);
	hash_for_each_possible(users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			goto found;
	user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
	if (!user)
		goto out;
	user->uid = uid;
	hash_add(users, &user->node, __kuid_val(uid));
found:
	user->contexts++;
out:
	mutex_unlock(&users_lock);
	return user;
}

static void user_put(struct dev_user *user)
{
	mutex_lock(&users_lock);
	if (!--user->contexts) {
		hash_del(&user->node);
		kfree(user);
	}
	mutex_unlock(&users_lock);
}

/*
 * Count @n more, up to @max or with CAP_SYS_RESOURCE. It counts for the user who
 * opened the device; it is the capability of the caller that matters.
 */
static bool charge(atomic_long_t *count, unsigned long n, unsigned long max)
{
	unsigned long old = atomic_long_read(count);

	do {
		if (old >= max || n > max - old) {
			if (!capable(CAP_SYS_RESOURCE))
				return false;
			atomic_long_add(n, count);
			return true;
		}
	} while (!atomic_long_try_cmpxchg(count, (long *)&old, old + n));
	return true;
}

/* Timeouts and their states; under ctx->lock unless it says otherwise. */

static bool readable(struct dev_ctx *ctx)
{
	return READ_ONCE(ctx->done);
}

static bool ended(struct dev_ctx *ctx)
{
	/* Pairs with end_if_over(): who sees the end sees all records. */
	return smp_load_acquire(&ctx->ended);
}

static void end_if_over(struct dev_ctx *ctx)
{
	/* Nothing becomes pending after a stop. */
	if (!ctx->stopped || ctx->stats.pending)
		return;
	/* Pairs with ended(). */
	smp_store_release(&ctx->ended, true);
	wake_up_poll(&ctx->wait, EPOLLHUP | EPOLLIN | EPOLLRDNORM);
}

/*
 * How often in a second, at the worst: one that is late and does not skip what it
 * missed expires at each tick. Programs may make it as late as they like.
 */
static unsigned long rate_of(const struct dev_ctx *ctx, const struct dev_period *p)
{
	u64 each = p->period.period_ns;

	if (p->period.policy == HWTIMER_MAKE_UP || p->period.misfire_ns > each)
		each = hwtimer_wheel_tick_ns(ctx->wheel);
	return div64_u64(NSEC_PER_SEC - 1, each) + 1;
}

static void free_period(struct dev_ctx *ctx, struct dev_period *p)
{
	if (!p)
		return;
	atomic_long_sub(rate_of(ctx, p), &ctx->user->rate);
	kfree(p);
}

static void make_free(struct dev_ctx *ctx, struct dev_timeout *dt)
{
	if (dt->periodic)
		free_period(ctx, dt->period);
	dt->periodic = false;
	dt->state = DEV_FREE;
	ctx->live--;
	if (dt->id >> ID_INDEX_BITS == ID_LAST_GEN)
		return;
	dt->next = ctx->free;
	ctx->free = dt;
}

/* There is something to read of @dt: put it at the end of those. */
static void add_done(struct dev_ctx *ctx, struct dev_timeout *dt)
{
	dt->next = NULL;
	WRITE_ONCE(*ctx->done_tail, dt);
	/* With records before it, everybody was woken when the first came. */
	if (ctx->done_tail == &ctx->done)
		wake_up_poll(&ctx->wait, EPOLLIN | EPOLLRDNORM);
	ctx->done_tail = &dt->next;
}

static void make_done(struct dev_ctx *ctx, struct dev_timeout *dt, u8 kind)
{
	dt->state = DEV_DONE;
	dt->kind = kind;
	dt->fired = hwtimer_wheel_now(ctx->wheel);
	add_done(ctx, dt);
	ctx->stats.unread++;
	ctx->stats.pending--;
	end_if_over(ctx);
}

/* How many of the unread expiries have a record of their own from now on. */
static void set_run(struct dev_ctx *ctx, struct dev_period *p, u64 run)
{
	ctx->stats.unread += run - p->run;
	p->run = run;
}

/* A periodic one expired for dt->deadline, and missed some others. */
static void add_expiry(struct dev_ctx *ctx, struct dev_timeout *dt, u64 now, u64 missed)
{
	struct dev_period *p = dt->period;
	bool goes_on = p->period.policy == HWTIMER_MAKE_UP && !missed &&
		       dt->deadline == p->deadline + p->period.period_ns;

	if (!p->unread)
		add_done(ctx, dt);
	set_run(ctx, p, goes_on ? p->run + 1 : 1);
	p->unread += 1 + missed;
	p->deadline = dt->deadline;
	p->fired = now;
	/* Each of them was scheduled, as what is pending now will have been. */
	ctx->stats.scheduled += 1 + missed;
	ctx->stats.expired += 1 + missed;
}

/* Take @n expiries, as a record told them. */
static void take_expiries(struct dev_ctx *ctx, struct dev_period *p, u64 n)
{
	p->unread -= n;
	set_run(ctx, p, min(p->run, p->unread));
}

/* A periodic one will expire no more. What it has for a reader remains. */
static void end_periodic(struct dev_ctx *ctx, struct dev_timeout *dt, u8 kind)
{
	struct dev_period *p = dt->period;

	dt->state = DEV_DONE;
	dt->kind = kind;
	ctx->stats.pending--;
	if (kind == HWTIMER_HANDED_BACK) {
		p->handed_back = hwtimer_wheel_now(ctx->wheel);
		ctx->stats.unread++;
		if (!p->unread)
			add_done(ctx, dt);
	} else if (!p->unread) {
		make_free(ctx, dt);
	}
	end_if_over(ctx);
}

static struct dev_timeout *find_pending(struct dev_ctx *ctx, u64 id)
{
	struct dev_timeout *dt = xa_load(&ctx->table, id & ID_INDEX_MASK);

	return dt && dt->id == id && dt->state == DEV_PENDING ? dt : NULL;
}

/* Arm a periodic one for its next deadline, and note the expiry, if it is one. */
static void expire_periodic(struct dev_ctx *ctx, struct dev_timeout *dt)
{
	u64 now = hwtimer_wheel_now(ctx->wheel);
	struct dev_period *p = dt->period;
	struct hwtimer_decision d;

	d = hwtimer_period_decide(&p->period, dt->deadline, now);
	if (d.fire) {
		add_expiry(ctx, dt, now, d.overruns + p->skipped);
		p->skipped = 0;
	} else {
		p->skipped += d.overruns;
	}
	dt->deadline = d.next_ns < hwtimer_wheel_horizon(ctx->wheel) ? d.next_ns :
								       HWTIMER_NEVER;
	/* Fails only if the context is being closed: nobody sees what comes of it. */
	if (hwtimer_schedule_at(&dt->timeout, dt->deadline)) {
		ctx->stats.scheduled--;
		end_periodic(ctx, dt, HWTIMER_EXPIRED);
	}
}

/* The callback, in the wheel's worker. */
static void dev_expired(struct hwtimer_timeout *t)
{
	struct dev_timeout *dt = container_of(t, struct dev_timeout, timeout);
	struct dev_ctx *ctx = dt->ctx;

	spin_lock(&ctx->lock);
	if (dt->state != DEV_PENDING || hwtimer_is_pending(t)) {
		/* It was a periodic one, and somebody came before us; see above. */
	} else if (dt->periodic) {
		expire_periodic(ctx, dt);
	} else {
		ctx->stats.expired++;
		make_done(ctx, dt, HWTIMER_EXPIRED);
	}
	spin_unlock(&ctx->lock);
}

/* Add a timeout to the table. Not under the lock; may sleep. */
static int grow(struct dev_ctx *ctx)
{
	struct dev_timeout *dt;
	u32 index;
	int ret;

	if (!charge(&ctx->user->timeouts, 1, READ_ONCE(max_user_timeouts)))
		return -EDQUOT;
	ret = -ENOMEM;
	dt = kmem_cache_zalloc(timeout_cache, GFP_TABLE);
	if (!dt)
		goto uncharge;
	dt->ctx = ctx;
	hwtimer_init(&dt->timeout, ctx->wheel, dev_expired);
	ret = xa_alloc(&ctx->table, &index, dt, XA_LIMIT(0, ID_INDEX_MASK), GFP_TABLE);
	if (ret)
		goto free;

	spin_lock(&ctx->lock);
	ctx->allocated++;
	dt->id = index;
	dt->next = ctx->free;
	ctx->free = dt;
	spin_unlock(&ctx->lock);
	return 0;

free:
	kmem_cache_free(timeout_cache, dt);
uncharge:
	atomic_long_dec(&ctx->user->timeouts);
	return ret == -EBUSY ? -EAGAIN : ret;
}

/* Take a free timeout, and so a place below the caps. Not under the lock. */
static struct dev_timeout *reserve(struct dev_ctx *ctx)
{
	struct dev_timeout *dt;
	int ret;

	spin_lock(&ctx->lock);
	/* The wheel does not change from here on. */
	ctx->used = true;
	for (;;) {
		ret = -ESHUTDOWN;
		if (ctx->stopped)
			break;
		ret = -EAGAIN;
		if (ctx->live >= ctx->cap)
			break;
		dt = ctx->free;
		if (dt) {
			ctx->free = dt->next;
			ctx->live++;
			dt->id += 1ULL << ID_INDEX_BITS;
			dt->state = DEV_RESERVED;
			spin_unlock(&ctx->lock);
			return dt;
		}
		spin_unlock(&ctx->lock);
		ret = grow(ctx);
		spin_lock(&ctx->lock);
		if (ret)
			break;
	}
	if (ret == -EAGAIN || ret == -EDQUOT)
		ctx->stats.rejected++;
	spin_unlock(&ctx->lock);
	return ERR_PTR(ret);
}

/* Commands. */

/* Any size from the first version's on; what we do not know must be 0. */
static int get_arg(void *arg, size_t size, size_t first_size,
		   const void __user *from, size_t user_size)
{
	if (user_size < first_size)
		return -EINVAL;
	return copy_struct_from_user(arg, size, from, user_size);
}

/* The same for what begins with flags and pad, as all but SETUP does. */
static int get_flagged(void *arg, size_t size, size_t first_size,
		       const void __user *from, size_t user_size, u32 known)
{
	const struct {
		u32 flags;
		u32 pad;
	} *head = arg;
	int ret = get_arg(arg, size, first_size, from, user_size);

	if (!ret && (head->flags & ~known || head->pad))
		ret = -EINVAL;
	return ret;
}

static int put_arg(void __user *to, size_t user_size, const void *arg, size_t size)
{
	return copy_to_user(to, arg, min(size, user_size)) ? -EFAULT : 0;
}

#define GET_ARG(arg, from, user_size)	\
	get_arg(&(arg), sizeof(arg), sizeof(arg), from, user_size)
#define GET_FLAGGED(arg, from, user_size, known)	\
	get_flagged(&(arg), sizeof(arg), sizeof(arg), from, user_size, known)
/* The same for what has grown: @last was the last member of the first version. */
#define GET_GROWN(arg, last, from, user_size, known)	\
	get_flagged(&(arg), sizeof(arg), offsetofend(typeof(arg), last), from, \
		    user_size, known)
#define PUT_ARG(to, user_size, arg)	\
	put_arg(to, user_size, &(arg), sizeof(arg))

/* The deadline in ns that a program means, or HWTIMER_NEVER. */
static u64 asked_deadline(const struct hwtimer_wheel *wheel, u32 flags, u64 time)
{
	u64 deadline = time;

	if (flags & HWTIMER_RELATIVE &&
	    check_add_overflow(hwtimer_wheel_now(wheel), time, &deadline))
		deadline = HWTIMER_NEVER;
	return deadline < hwtimer_wheel_horizon(wheel) ? deadline : HWTIMER_NEVER;
}

static struct hwtimer_wheel *own_wheel(struct dev_ctx *ctx,
				       const struct hwtimer_setup *arg)
{
	struct hwtimer_wheel_params params = {
		.tick_ns = arg->tick_ns,
		.slots = arg->slots,
		.levels = arg->levels,
		.flags = HWTIMER_WHEEL_ACCOUNT |
			 (arg->flags & HWTIMER_SETUP_GROW ? HWTIMER_WHEEL_GROW : 0),
		.clock = arg->clockid == CLOCK_BOOTTIME ? HWTIMER_CLOCK_BOOTTIME :
							  HWTIMER_CLOCK_MONOTONIC,
	};
	struct hwtimer_wheel *wheel;
	char name[HWTIMER_NAME_LEN];

	if (!arg->tick_ns || !arg->slots || arg->slots > HWTIMER_MAX_SLOTS)
		return ERR_PTR(-EINVAL);
	if ((arg->tick_ns < READ_ONCE(min_tick_ns) ||
	     arg->slots > READ_ONCE(max_user_slots)) && !capable(CAP_SYS_RESOURCE))
		return ERR_PTR(-EPERM);
	if (!charge(&ctx->user->wheels, 1, READ_ONCE(max_user_wheels)))
		return ERR_PTR(-EDQUOT);

	snprintf(name, sizeof(name), "pid-%d", task_tgid_nr(current));
	params.name = name;
	wheel = hwtimer_wheel_create(&params);
	if (IS_ERR(wheel))
		atomic_long_dec(&ctx->user->wheels);
	return wheel;
}

/* What depends on the wheel's shape is for hwtimer_wheel_create() to say. */
static bool setup_valid(const struct hwtimer_setup *arg)
{
	if (arg->flags & ~(HWTIMER_SETUP_OWN_WHEEL | HWTIMER_SETUP_GROW) ||
	    arg->cap > MAX_CAP)
		return false;
	if (arg->flags & HWTIMER_SETUP_OWN_WHEEL)
		return arg->clockid == CLOCK_MONOTONIC || arg->clockid == CLOCK_BOOTTIME;
	return arg->clockid == CLOCK_MONOTONIC && !(arg->flags & HWTIMER_SETUP_GROW) &&
	       !arg->tick_ns && !arg->slots && arg->levels <= 1;
}

static long dev_setup(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_wheel *wheel = shared_wheel;
	struct hwtimer_setup arg;
	bool own;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (!setup_valid(&arg))
		return -EINVAL;
	own = arg.flags & HWTIMER_SETUP_OWN_WHEEL;

	mutex_lock(&ctx->control);
	spin_lock(&ctx->lock);
	if (ctx->stopped)
		ret = -ESHUTDOWN;
	else if (ctx->set_up || ctx->used)
		ret = -EBUSY;
	spin_unlock(&ctx->lock);
	if (ret)
		goto out;
	if (own) {
		wheel = own_wheel(ctx, &arg);
		if (IS_ERR(wheel)) {
			ret = PTR_ERR(wheel);
			goto out;
		}
	}

	arg.tick_ns = hwtimer_wheel_tick_ns(wheel);
	arg.slots = hwtimer_wheel_slots(wheel);
	arg.levels = hwtimer_wheel_levels(wheel);
	arg.cap = arg.cap ?: MAX_CAP;
	ret = PUT_ARG(uarg, size, arg);
	if (!ret) {
		/* A schedule may have been faster. */
		spin_lock(&ctx->lock);
		if (ctx->used) {
			ret = -EBUSY;
		} else {
			ctx->set_up = true;
			ctx->own_wheel = own;
			WRITE_ONCE(ctx->wheel, wheel);
			ctx->cap = arg.cap;
		}
		spin_unlock(&ctx->lock);
	}
	if (ret && own) {
		hwtimer_wheel_destroy(wheel);
		atomic_long_dec(&ctx->user->wheels);
	}
out:
	mutex_unlock(&ctx->control);
	return ret;
}

/* What a periodic timeout needs, NULL for one that is not. Not under the lock. */
static struct dev_period *make_period(struct dev_ctx *ctx, const struct hwtimer_schedule *arg)
{
	struct hwtimer_period period = {
		.period_ns = arg->period,
		.misfire_ns = arg->misfire,
		.policy = arg->policy,
	};
	struct dev_period *p;

	if (arg->pad2)
		return ERR_PTR(-EINVAL);
	if (!arg->period)
		return arg->misfire || arg->policy ? ERR_PTR(-EINVAL) : NULL;
	/* Ticks differ, and from here on the wheel does not. */
	spin_lock(&ctx->lock);
	ctx->used = true;
	spin_unlock(&ctx->lock);
	if (hwtimer_period_check(&period, hwtimer_wheel_tick_ns(ctx->wheel)))
		return ERR_PTR(-EINVAL);

	p = kzalloc(sizeof(*p), GFP_TABLE);
	if (!p)
		return ERR_PTR(-ENOMEM);
	p->period = period;
	if (!charge(&ctx->user->rate, rate_of(ctx, p), READ_ONCE(max_user_rate))) {
		kfree(p);
		spin_lock(&ctx->lock);
		ctx->stats.rejected++;
		spin_unlock(&ctx->lock);
		return ERR_PTR(-EDQUOT);
	}
	return p;
}

static long dev_schedule(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_schedule arg;
	struct dev_period *period;
	struct dev_timeout *dt;
	int ret;

	ret = GET_GROWN(arg, deadline, uarg, size, HWTIMER_RELATIVE);
	if (ret)
		return ret;
	period = make_period(ctx, &arg);
	if (IS_ERR(period))
		return PTR_ERR(period);

	dt = reserve(ctx);
	if (IS_ERR(dt)) {
		free_period(ctx, period);
		return PTR_ERR(dt);
	}
	arg.id = dt->id;
	arg.deadline = asked_deadline(ctx->wheel, arg.flags, arg.time);
	/* The answer first: once armed, it cannot be undone for sure. */
	ret = PUT_ARG(uarg, size, arg);

	spin_lock(&ctx->lock);
	if (!ret && ctx->stopped)
		ret = -ESHUTDOWN;
	if (!ret)
		ret = hwtimer_schedule_at(&dt->timeout, arg.deadline);
	if (ret) {
		make_free(ctx, dt);
	} else {
		dt->user_data = arg.user_data;
		dt->deadline = arg.deadline;
		dt->periodic = period;
		if (period)
			dt->period = period;
		dt->state = DEV_PENDING;
		ctx->stats.scheduled++;
		ctx->stats.pending++;
	}
	spin_unlock(&ctx->lock);
	if (ret)
		free_period(ctx, period);
	return ret;
}

static long dev_touch(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_touch arg;
	struct dev_timeout *dt;
	int ret;

	ret = GET_FLAGGED(arg, uarg, size, HWTIMER_RELATIVE);
	if (ret)
		return ret;

	/* With ctx->wheel not settled yet there is nothing to be found either. */
	arg.deadline = asked_deadline(READ_ONCE(ctx->wheel), arg.flags, arg.time);
	ret = PUT_ARG(uarg, size, arg);
	if (ret)
		return ret;

	spin_lock(&ctx->lock);
	dt = find_pending(ctx, arg.id);
	if (ctx->stopped)
		ret = -ESHUTDOWN;
	else if (dt && dt->periodic)	/* also one that is about to be armed again */
		ret = min(hwtimer_schedule_at(&dt->timeout, arg.deadline), 0);
	else if (dt)
		ret = hwtimer_touch_at(&dt->timeout, arg.deadline);
	else
		ret = -ENOENT;
	if (!ret) {
		dt->deadline = arg.deadline;
		ctx->stats.touched++;
	}
	spin_unlock(&ctx->lock);
	return ret;
}

static long dev_cancel(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_cancel arg;
	struct dev_timeout *dt;
	int ret;

	ret = GET_FLAGGED(arg, uarg, size, 0);
	if (ret)
		return ret;

	spin_lock(&ctx->lock);
	dt = find_pending(ctx, arg.id);
	if (dt && dt->periodic) {
		hwtimer_cancel(&dt->timeout);
		ctx->stats.cancelled++;
		end_periodic(ctx, dt, HWTIMER_EXPIRED);
	} else if (dt && hwtimer_cancel(&dt->timeout)) {
		ctx->stats.cancelled++;
		ctx->stats.pending--;
		make_free(ctx, dt);
		end_if_over(ctx);
	} else {
		ret = -ENOENT;
	}
	spin_unlock(&ctx->lock);
	return ret;
}

static long dev_query(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_query arg;
	struct dev_timeout *dt;
	int ret;

	ret = GET_GROWN(arg, deadline, uarg, size, 0);
	if (!ret && arg.pad2)
		ret = -EINVAL;
	if (ret)
		return ret;

	arg.period = 0;
	arg.misfire = 0;
	arg.unread = 0;
	arg.policy = 0;
	spin_lock(&ctx->lock);
	dt = find_pending(ctx, arg.id);
	if (dt && (dt->periodic || hwtimer_is_pending(&dt->timeout))) {
		arg.user_data = dt->user_data;
		arg.deadline = dt->deadline;
		if (dt->periodic) {
			arg.period = dt->period->period.period_ns;
			arg.misfire = dt->period->period.misfire_ns;
			arg.unread = dt->period->unread;
			arg.policy = dt->period->period.policy;
		}
	} else {
		ret = -ENOENT;
	}
	spin_unlock(&ctx->lock);
	return ret ?: PUT_ARG(uarg, size, arg);
}

static long dev_stop(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_stop arg;
	struct dev_timeout *dt;
	unsigned long index;
	int ret;

	ret = GET_FLAGGED(arg, uarg, size, 0);
	if (ret)
		return ret;

	arg.handed_back = 0;
	mutex_lock(&ctx->control);
	spin_lock(&ctx->lock);
	ctx->stopped = true;
	end_if_over(ctx);
	spin_unlock(&ctx->lock);
	xa_for_each(&ctx->table, index, dt) {
		spin_lock(&ctx->lock);
		/* A periodic one ends here even if it is about to be armed again. */
		if (dt->state == DEV_PENDING &&
		    (hwtimer_cancel(&dt->timeout) || dt->periodic)) {
			ctx->stats.handed_back++;
			arg.handed_back++;
			if (dt->periodic)
				end_periodic(ctx, dt, HWTIMER_HANDED_BACK);
			else
				make_done(ctx, dt, HWTIMER_HANDED_BACK);
		}
		spin_unlock(&ctx->lock);
		cond_resched();
	}
	mutex_unlock(&ctx->control);
	return PUT_ARG(uarg, size, arg);
}

static long dev_stats(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_stats arg;
	int ret;

	ret = GET_FLAGGED(arg, uarg, size, 0);
	if (ret)
		return ret;

	spin_lock(&ctx->lock);
	arg = ctx->stats;
	arg.cap = ctx->cap;
	arg.now = hwtimer_wheel_now(ctx->wheel);
	spin_unlock(&ctx->lock);
	return PUT_ARG(uarg, size, arg);
}

/* File operations. */

/* A command whatever the size of its argument. */
#define COMMAND(cmd)	((cmd) & ~IOCSIZE_MASK)

static long dev_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct dev_ctx *ctx = file->private_data;
	void __user *uarg = (void __user *)arg;
	size_t size = _IOC_SIZE(cmd);

	switch (COMMAND(cmd)) {
	case COMMAND(HWTIMER_IOC_SETUP):
		return dev_setup(ctx, uarg, size);
	case COMMAND(HWTIMER_IOC_SCHEDULE):
		return dev_schedule(ctx, uarg, size);
	case COMMAND(HWTIMER_IOC_TOUCH):
		return dev_touch(ctx, uarg, size);
	case COMMAND(HWTIMER_IOC_CANCEL):
		return dev_cancel(ctx, uarg, size);
	case COMMAND(HWTIMER_IOC_QUERY):
		return dev_query(ctx, uarg, size);
	case COMMAND(HWTIMER_IOC_STOP):
		return dev_stop(ctx, uarg, size);
	case COMMAND(HWTIMER_IOC_STATS):
		return dev_stats(ctx, uarg, size);
	default:
		return -ENOTTY;
	}
}

/* The next record of @dt, of which @seen were looked at before; false: no more. */
static bool look(const struct dev_timeout *dt, u64 seen, struct hwtimer_record *rec)
{
	const struct dev_period *p = dt->periodic ? dt->period : NULL;

	*rec = (struct hwtimer_record){
		.id = dt->id,
		.user_data = dt->user_data,
		.deadline = dt->deadline,
		.kind = dt->kind,
	};
	if (!p) {
		rec->fired = dt->fired;
		return !seen;
	}
	if (!p->unread) {
		/* Else it would not be on the list. */
		rec->fired = p->handed_back;
		return !seen;
	}
	if (seen == p->run)
		return false;
	rec->kind = HWTIMER_EXPIRED;
	rec->deadline = p->deadline - (p->run - 1 - seen) * p->period.period_ns;
	rec->fired = p->fired;
	rec->overruns = seen ? 0 : p->unread - p->run;
	return true;
}

/* Look at up to @max records, without taking them. */
static unsigned int peek(struct dev_ctx *ctx, struct hwtimer_record *records,
			 unsigned int max)
{
	const struct dev_timeout *dt;
	unsigned int n = 0;
	u64 seen;

	spin_lock(&ctx->lock);
	for (dt = ctx->done; dt && n < max; dt = dt->next)
		for (seen = 0; n < max && look(dt, seen, &records[n]); seen++)
			n++;
	spin_unlock(&ctx->lock);
	return n;
}

/*
 * Take the first @n, which is what @records tell. What became of them since: the
 * list is longer, a periodic one may have expired again, been touched, cancelled or
 * handed back.
 */
static void take(struct dev_ctx *ctx, const struct hwtimer_record *records,
		 unsigned int n)
{
	struct dev_timeout *dt;
	struct dev_period *p;
	unsigned int i = 0;
	bool more;

	spin_lock(&ctx->lock);
	while (i < n) {
		dt = ctx->done;
		p = dt->periodic ? dt->period : NULL;
		more = p && p->unread;
		if (!more) {
			ctx->stats.unread--;
			i++;
		}
		while (more && i < n && records[i].id == dt->id)
			take_expiries(ctx, p, 1 + records[i++].overruns);
		/* Those that were not looked at, or did not fit, are the next. */
		if (more && p->unread && i == n)
			break;

		WRITE_ONCE(ctx->done, dt->next);
		if (!ctx->done)
			ctx->done_tail = &ctx->done;
		if (more && (p->unread || (dt->state == DEV_DONE &&
					   dt->kind == HWTIMER_HANDED_BACK)))
			add_done(ctx, dt);	/* and these come after others */
		else if (dt->state == DEV_DONE)
			make_free(ctx, dt);
	}
	spin_unlock(&ctx->lock);
}

/*
 * Records are taken when they have been copied, so a fault loses none. Under
 * read_lock, so nobody else takes what we look at.
 */
static ssize_t read_records(struct dev_ctx *ctx, struct iov_iter *to)
{
	struct hwtimer_record records[READ_BATCH];
	size_t size = sizeof(records[0]), copied;
	ssize_t done = 0;
	unsigned int n;

	do {
		n = peek(ctx, records, min_t(size_t, READ_BATCH,
					     iov_iter_count(to) / size));
		if (!n)
			return done;
		copied = copy_to_iter(records, n * size, to);
		take(ctx, records, copied / size);
		done += copied - copied % size;
	} while (copied == n * size);
	return done ?: -EFAULT;
}

static ssize_t dev_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct dev_ctx *ctx = iocb->ki_filp->private_data;
	bool nowait = iocb->ki_flags & IOCB_NOWAIT;
	bool block = !nowait && !(iocb->ki_filp->f_flags & O_NONBLOCK);
	ssize_t ret;

	if (iov_iter_count(to) < sizeof(struct hwtimer_record))
		return -EINVAL;

	for (;;) {
		bool last;

		if (nowait) {
			if (!mutex_trylock(&ctx->read_lock))
				return -EAGAIN;
		} else if (mutex_lock_interruptible(&ctx->read_lock)) {
			return -ERESTARTSYS;
		}
		/* Looked at first: all records come before the end. */
		last = ended(ctx);
		ret = read_records(ctx, to);
		mutex_unlock(&ctx->read_lock);
		if (ret || last)
			return ret;
		if (!block)
			return -EAGAIN;
		ret = wait_event_interruptible(ctx->wait,
					       readable(ctx) || ended(ctx));
		if (ret)
			return ret;
	}
}

static __poll_t dev_poll(struct file *file, poll_table *wait)
{
	struct dev_ctx *ctx = file->private_data;
	__poll_t events = 0;

	poll_wait(file, &ctx->wait, wait);
	if (readable(ctx))
		events |= EPOLLIN | EPOLLRDNORM;
	if (ended(ctx))
		events |= EPOLLHUP;
	return events;
}

static void dev_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct dev_ctx *ctx = file->private_data;
	const struct hwtimer_wheel *wheel;
	u64 pending, unread, cap;
	bool own, stopped;

	spin_lock(&ctx->lock);
	wheel = ctx->wheel;
	own = ctx->own_wheel;
	stopped = ctx->stopped;
	pending = ctx->stats.pending;
	unread = ctx->stats.unread;
	cap = ctx->cap;
	spin_unlock(&ctx->lock);

	seq_printf(m, "clockid: %d\n",
		   hwtimer_wheel_clock(wheel) == HWTIMER_CLOCK_BOOTTIME ? CLOCK_BOOTTIME :
									  CLOCK_MONOTONIC);
	seq_printf(m, "own_wheel: %d\n", own);
	seq_printf(m, "tick_ns: %llu\n", hwtimer_wheel_tick_ns(wheel));
	seq_printf(m, "slots: %u\n", hwtimer_wheel_slots(wheel));
	seq_printf(m, "levels: %u\n", hwtimer_wheel_levels(wheel));
	seq_printf(m, "stopped: %d\n", stopped);
	seq_printf(m, "pending: %llu\n", pending);
	seq_printf(m, "unread: %llu\n", unread);
	seq_printf(m, "cap: %llu\n", cap);
	seq_printf(m, "user_timeouts: %ld\n", atomic_long_read(&ctx->user->timeouts));
	seq_printf(m, "max_user_timeouts: %lu\n", READ_ONCE(max_user_timeouts));
	seq_printf(m, "user_wheels: %ld\n", atomic_long_read(&ctx->user->wheels));
	seq_printf(m, "max_user_wheels: %lu\n", READ_ONCE(max_user_wheels));
	seq_printf(m, "user_rate: %ld\n", atomic_long_read(&ctx->user->rate));
	seq_printf(m, "max_user_rate: %lu\n", READ_ONCE(max_user_rate));
}

static void free_ctx(struct work_struct *work)
{
	struct dev_ctx *ctx = container_of(work, struct dev_ctx, free_work);
	struct dev_timeout *dt;
	unsigned long index;

	xa_for_each(&ctx->table, index, dt) {
		kmem_cache_free(timeout_cache, dt);
		cond_resched();
	}
	xa_destroy(&ctx->table);
	if (ctx->own_wheel)
		hwtimer_wheel_destroy(ctx->wheel);
	user_put(ctx->user);
	kfree(ctx);
}

static void put_ctx(struct dev_ctx *ctx)
{
	if (atomic_long_dec_and_test(&ctx->held))
		queue_work(free_wq, &ctx->free_work);
}

static void dev_released(struct hwtimer_timeout *t)
{
	put_ctx(container_of(t, struct dev_timeout, timeout)->ctx);
}

static int dev_open(struct inode *inode, struct file *file)
{
	struct dev_ctx *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);

	if (!ctx)
		return -ENOMEM;
	ctx->user = user_get();
	if (!ctx->user) {
		kfree(ctx);
		return -ENOMEM;
	}
	mutex_init(&ctx->control);
	mutex_init(&ctx->read_lock);
	spin_lock_init(&ctx->lock);
	init_waitqueue_head(&ctx->wait);
	xa_init_flags(&ctx->table, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);
	atomic_long_set(&ctx->held, 1);
	INIT_WORK(&ctx->free_work, free_ctx);
	ctx->wheel = shared_wheel;
	ctx->done_tail = &ctx->done;
	ctx->cap = MAX_CAP;
	file->private_data = ctx;
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

/*
 * The last close. Does not wait for the shared wheel's worker: each timeout is
 * released, and the last one that the worker lets go of has the context freed.
 */
static int dev_release(struct inode *inode, struct file *file)
{
	struct dev_ctx *ctx = file->private_data;
	struct dev_timeout *dt;
	unsigned long index;

	atomic_long_sub(ctx->allocated, &ctx->user->timeouts);
	if (ctx->own_wheel) {
		/* Now, so that the user may have another one at once. */
		hwtimer_wheel_stop(ctx->wheel, NULL);
		atomic_long_dec(&ctx->user->wheels);
	}
	xa_for_each(&ctx->table, index, dt) {
		/* The rate, too, is the user's again at once. */
		spin_lock(&ctx->lock);
		if (dt->periodic)
			free_period(ctx, dt->period);
		dt->periodic = false;
		dt->state = DEV_FREE;
		spin_unlock(&ctx->lock);
		atomic_long_inc(&ctx->held);
		hwtimer_release(&dt->timeout, dev_released);
		cond_resched();
	}
	put_ctx(ctx);
	return 0;
}

static const struct file_operations dev_fops = {
	.owner		= THIS_MODULE,
	.open		= dev_open,
	.release	= dev_release,
	.read_iter	= dev_read_iter,
	.poll		= dev_poll,
	.unlocked_ioctl	= dev_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= dev_show_fdinfo,
};

static struct miscdevice dev_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "hwtimer",
	.fops	= &dev_fops,
	.mode	= 0600,
};

/**
 * hwtimer_dev_init - bring up the device and its shared wheel
 *
 * Return: 0 or a negative error.
 */
int __init hwtimer_dev_init(void)
{
	struct hwtimer_wheel_params params = {
		.name = "dev",
		.tick_ns = tick_ns,
		.slots = slots,
		/* With 1 slot there is nothing to grow. */
		.flags = slots > 1 ? HWTIMER_WHEEL_GROW : 0,
	};
	int ret;

	timeout_cache = KMEM_CACHE(dev_timeout, 0);
	if (!timeout_cache)
		return -ENOMEM;
	free_wq = alloc_workqueue("hwtimer_free", WQ_UNBOUND, 0);
	if (!free_wq) {
		ret = -ENOMEM;
		goto err_cache;
	}
	shared_wheel = hwtimer_wheel_create(&params);
	if (IS_ERR(shared_wheel)) {
		ret = PTR_ERR(shared_wheel);
		pr_err("hwtimer: no wheel of tick_ns=%llu slots=%u: %d\n", tick_ns,
		       slots, ret);
		goto err_wq;
	}
	ret = misc_register(&dev_misc);
	if (ret)
		goto err_wheel;
	return 0;

err_wheel:
	hwtimer_wheel_destroy(shared_wheel);
err_wq:
	destroy_workqueue(free_wq);
err_cache:
	kmem_cache_destroy(timeout_cache);
	return ret;
}

/**
 * hwtimer_dev_exit - take it down; no file is open any more
 */
void hwtimer_dev_exit(void)
{
	misc_deregister(&dev_misc);
	/* The worker, or stop in its place, lets go of what was released. */
	hwtimer_wheel_stop(shared_wheel, NULL);
	/* Waits until all contexts are freed. */
	destroy_workqueue(free_wq);
	hwtimer_wheel_destroy(shared_wheel);
	kmem_cache_destroy(timeout_cache);
}
