// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: /dev/hwtimer, timeouts for programs. The first user of hwtimer.h;
 * what programs see is in uapi/linux/hwtimer.h.
 *
 * Each open file description has a context (hwtimer_ctx.c), with or without rings
 * (hwtimer_rings.c). Here is what programs call.
 *
 * Lock order: ctx->control, then ctx->read_lock, then ctx->lock. Who holds the first two may wait
 * for a page of the program's, as long as another one likes: so wait for them killably.
 */
#include <linux/capability.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/wait.h>

#include "hwtimer.h"
#include "hwtimer_ctx.h"
#include "hwtimer_dev.h"
#include "hwtimer_ring.h"
#include "hwtimer_rings.h"
#include "hwtimer_shared.h"
#include "hwtimer_trace.h"
#include "hwtimer_user.h"
#include "uapi/linux/hwtimer.h"

/* How many records are copied to a reader at a time; they are on the stack. */
#define READ_BATCH	16

/* What comes with an operation of a batch, or goes with one of a list, is so in one go. */
#define MAX_OP_SIZE	4096

static_assert(sizeof(struct hwtimer_setup) == 32);
static_assert(sizeof(struct hwtimer_schedule) == 64);
static_assert(sizeof(struct hwtimer_touch) == 32);
static_assert(sizeof(struct hwtimer_cancel) == 16);
static_assert(sizeof(struct hwtimer_query) == 64);
static_assert(sizeof(struct hwtimer_stop) == 16);
static_assert(sizeof(struct hwtimer_stats) == 88);
static_assert(sizeof(struct hwtimer_record) == 48);
static_assert(sizeof(struct hwtimer_op) == 72);
static_assert(sizeof(struct hwtimer_batch) == 24);
static_assert(sizeof(struct hwtimer_rings) == 40);
static_assert(sizeof(struct hwtimer_enter) == 16);
static_assert(sizeof(struct hwtimer_list) == 32);

static unsigned long long min_tick_ns = NSEC_PER_MSEC;
module_param(min_tick_ns, ullong, 0644);
MODULE_PARM_DESC(min_tick_ns,
		 "a context's own wheel needs CAP_SYS_RESOURCE for a shorter tick (default 1000000)");

static unsigned int max_user_slots = 1 << 16;
module_param(max_user_slots, uint, 0644);
MODULE_PARM_DESC(max_user_slots,
		 "a context's own wheel needs CAP_SYS_RESOURCE for more slots (default 65536)");

/* Tell the program what it does not know yet: for whoever may have made a timeout done. */
static void tell(struct dev_ctx *ctx)
{
	lockdep_assert_held(&ctx->lock);
	if (ctx->rings)
		rings_tell(ctx);
	ctx_end_if_over(ctx);
}

static bool readable(struct dev_ctx *ctx)
{
	const struct dev_rings *r = rings_of(ctx);

	return READ_ONCE(ctx->done) || (r && rings_unread(r));
}

/* The callback, in the wheel's worker. */
static void dev_expired(struct hwtimer_timeout *t)
{
	struct dev_timeout *dt = container_of(t, struct dev_timeout, timeout);
	struct dev_ctx *ctx = dt->ctx;
	struct dev_rings *r = rings_of(ctx);

	/*
	 * What was submitted before the deadline may be to touch or to cancel it. A 32-bit
	 * kernel may read half of an old time here; under the lock it finds out, and waits.
	 */
	if (r && rings_unseen(r, READ_ONCE(dt->deadline)))
		rings_take_in_worker(ctx);

	ctx_lock(ctx);
	if (ctx->closed || dt->state != DEV_PENDING || hwtimer_is_pending(t)) {
		/* Touched, cancelled, stopped or closed since it expired: nothing to report. */
	} else if (r && rings_await(r, dt->deadline) &&
		   !hwtimer_schedule_at(t, dt->deadline)) {
		/* The budget is used up. At the next tick we shall know more. */
	} else {
		ctx_expire(ctx, dt);
	}
	if (!ctx->closed)
		tell(ctx);
	ctx_unlock(ctx);
}

/* Any size from the first version's on; what we do not know must be 0. */
static int get_arg(void *arg, size_t size, size_t first_size,
		   const void __user *from, size_t user_size)
{
	if (user_size < first_size)
		return -EINVAL;
	return copy_struct_from_user(arg, size, from, user_size);
}

static int put_arg(void __user *to, size_t user_size, const void *arg, size_t size)
{
	return copy_to_user(to, arg, min(size, user_size)) ? -EFAULT : 0;
}

/* The same, and what the program knows beyond that is 0. */
static int put_longer(void __user *to, size_t user_size, const void *arg, size_t size)
{
	int ret = put_arg(to, user_size, arg, size);

	if (!ret && user_size > size && clear_user(to + size, user_size - size))
		ret = -EFAULT;
	return ret;
}

#define GET_ARG(arg, from, user_size)	\
	get_arg(&(arg), sizeof(arg), sizeof(arg), from, user_size)
/* The same for what has grown: @last was the last member of the first version. */
#define GET_GROWN(arg, last, from, user_size)	\
	get_arg(&(arg), sizeof(arg), offsetofend(typeof(arg), last), from, user_size)
#define PUT_ARG(to, user_size, arg)	\
	put_arg(to, user_size, &(arg), sizeof(arg))

/*
 * What the program is told about an operation that will have had success, before it
 * takes effect: a fault must not leave one that the program knows nothing of.
 */
struct answer {
	void __user	*to;
	const void	*from;
	size_t		size;
};

static int give(const struct answer *answer)
{
	return put_arg(answer->to, answer->size, answer->from, answer->size);
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
		.nice = task_nice(current),
	};
	struct hwtimer_wheel *wheel;
	char name[HWTIMER_NAME_LEN];

	if (!arg->tick_ns || !arg->slots || arg->slots > HWTIMER_MAX_SLOTS)
		return ERR_PTR(-EINVAL);
	if ((arg->tick_ns < READ_ONCE(min_tick_ns) ||
	     arg->slots > READ_ONCE(max_user_slots)) && !capable(CAP_SYS_RESOURCE))
		return ERR_PTR(-EPERM);
	if (!hwtimer_user_charge(ctx->user, HWTIMER_LIMIT_WHEELS, 1))
		return ERR_PTR(-EDQUOT);

	snprintf(name, sizeof(name), "pid-%d", task_tgid_nr(current));
	params.name = name;
	wheel = hwtimer_wheel_create(&params);
	if (IS_ERR(wheel))
		hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_WHEELS, 1);
	return wheel;
}

/*
 * Its place is given back after its memory: a user who opens and closes in a loop never has
 * more than the limit, and can have another one as soon as the close returns.
 */
static void free_own_wheel(struct dev_ctx *ctx, struct hwtimer_wheel *wheel)
{
	hwtimer_wheel_destroy(wheel);
	hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_WHEELS, 1);
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
	/* Asked for its shape, if there is no own one. */
	struct hwtimer_wheel *wheel = hwtimer_shared_wheel(NULL);
	struct hwtimer_setup arg;
	bool own;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (!setup_valid(&arg))
		return -EINVAL;
	own = arg.flags & HWTIMER_SETUP_OWN_WHEEL;

	if (mutex_lock_killable(&ctx->control))
		return -EINTR;
	ctx_lock(ctx);
	if (ctx->stopped)
		ret = -ESHUTDOWN;
	else if (ctx->set_up || ctx->used)
		ret = -EBUSY;
	ctx_unlock(ctx);
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
		ctx_lock(ctx);
		if (ctx->used) {
			ret = -EBUSY;
		} else {
			ctx->set_up = true;
			ctx->own_wheel = own;
			if (own)
				WRITE_ONCE(ctx->wheel, wheel);
			ctx->cap = arg.cap;
		}
		ctx_unlock(ctx);
	}
	if (ret && own)
		free_own_wheel(ctx, wheel);
out:
	mutex_unlock(&ctx->control);
	return ret;
}

/* Choose a shared wheel before the first timeout, unless the context has its own wheel. */
static int choose_wheel(struct dev_ctx *ctx)
{
	struct hwtimer_shared *shared;
	bool chosen;
	int ret;

	if (likely(READ_ONCE(ctx->used)))
		return 0;
	ctx_lock(ctx);
	chosen = ctx->shared || ctx->own_wheel;
	ctx_unlock(ctx);
	if (chosen)
		return 0;

	shared = hwtimer_shared_get(ctx->user);
	ret = PTR_ERR_OR_ZERO(shared);
	/* -EAGAIN, for one, would say that the context is at its cap. */
	if (ret)
		return ret == -EINTR || ret == -EDQUOT ? ret : -ENOMEM;
	ctx_lock(ctx);
	/* Another thread may have chosen one, or SETUP made one. */
	if (!ctx->shared && !ctx->own_wheel) {
		ctx->shared = shared;
		WRITE_ONCE(ctx->wheel, hwtimer_shared_wheel(shared));
		shared = NULL;
	}
	ctx_unlock(ctx);
	if (shared)
		hwtimer_shared_put(shared);
	return 0;
}

/* Operations as they come by ioctl, alone or in a batch. */

static int do_schedule(struct dev_ctx *ctx, struct hwtimer_schedule *arg,
		       const struct answer *answer)
{
	struct dev_period *period;
	struct dev_timeout *dt;
	int ret;

	if (arg->flags & ~HWTIMER_RELATIVE || arg->pad || arg->pad2 ||
	    (!arg->period && (arg->misfire || arg->policy)))
		return -EINVAL;
	ret = choose_wheel(ctx);
	if (ret)
		return ret;
	period = ctx_make_period(ctx, arg);
	if (IS_ERR(period))
		return PTR_ERR(period);

	dt = ctx_reserve(ctx, arg->id);
	if (IS_ERR(dt)) {
		ctx_free_period(ctx, period);
		return PTR_ERR(dt);
	}
	arg->id = dt->id;
	arg->deadline = ctx_deadline(ctx->wheel, arg->flags, arg->time);
	/* Once armed, it cannot be undone for sure. */
	ret = give(answer);

	ctx_lock(ctx);
	if (ret)
		ctx_make_free(ctx, dt);
	else
		ret = ctx_arm(ctx, dt, arg->deadline, arg->user_data, period);
	ctx_unlock(ctx);
	if (ret)
		ctx_free_period(ctx, period);
	return ret;
}

static int do_touch(struct dev_ctx *ctx, struct hwtimer_touch *arg,
		    const struct answer *answer)
{
	int ret;

	if (arg->flags & ~HWTIMER_RELATIVE || arg->pad)
		return -EINVAL;
	/* With ctx->wheel not settled yet there is nothing to be found either. */
	arg->deadline = ctx_deadline(READ_ONCE(ctx->wheel), arg->flags, arg->time);
	ret = give(answer);
	if (ret)
		return ret;

	ctx_lock(ctx);
	ret = ctx_touch(ctx, arg->id, arg->deadline);
	ctx_unlock(ctx);
	return ret;
}

static int do_cancel(struct dev_ctx *ctx, const struct hwtimer_cancel *arg,
		     const struct answer *answer)
{
	int ret;

	if (arg->flags || arg->pad)
		return -EINVAL;
	ret = give(answer);
	if (ret)
		return ret;

	ctx_lock(ctx);
	ret = ctx_cancel(ctx, arg->id);
	ctx_unlock(ctx);
	return ret;
}

/* What there is to say of one that is pending. */
static void describe(const struct dev_timeout *dt, struct hwtimer_query *arg)
{
	const struct hwtimer_period *period;

	lockdep_assert_held(&dt->ctx->lock);
	*arg = (struct hwtimer_query){
		.id = dt->id,
		.user_data = dt->user_data,
		.deadline = dt->deadline,
	};
	if (dt->periodic) {
		period = &dt->period->period;
		arg->period = period->period_ns;
		arg->misfire = period->misfire_ns;
		arg->unread = dt->period->unread;
		arg->policy = period->policy;
	}
}

static int do_query(struct dev_ctx *ctx, struct hwtimer_query *arg,
		    const struct answer *answer)
{
	struct dev_timeout *dt;

	if (arg->flags || arg->pad || arg->pad2)
		return -EINVAL;
	ctx_lock(ctx);
	dt = ctx_find_pending(ctx, arg->id);
	if (dt)
		describe(dt, arg);
	ctx_unlock(ctx);
	return dt ? give(answer) : -ENOENT;
}

/* What the program gave, or less if it knows more than we do. */
#define ANSWER(to, arg, user_size)	\
	(&(struct answer){ to, &(arg), min(sizeof(arg), user_size) })

static long dev_schedule(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_schedule arg;
	int ret = GET_GROWN(arg, deadline, uarg, size);

	return ret ?: do_schedule(ctx, &arg, ANSWER(uarg, arg, size));
}

static long dev_touch(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_touch arg;
	int ret = GET_ARG(arg, uarg, size);

	return ret ?: do_touch(ctx, &arg, ANSWER(uarg, arg, size));
}

static long dev_cancel(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_cancel arg;
	int ret = GET_ARG(arg, uarg, size);

	/* There is nothing to tell. */
	return ret ?: do_cancel(ctx, &arg, &(struct answer){ });
}

static long dev_query(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_query arg;
	int ret = GET_GROWN(arg, deadline, uarg, size);

	return ret ?: do_query(ctx, &arg, ANSWER(uarg, arg, size));
}

/*
 * One of a batch: 0 if it was done, its result told, be it an error. Otherwise it had no
 * effect: what was to be told of a success went out before it, and a failure has none.
 */
static int do_op(struct dev_ctx *ctx, void __user *to, size_t size)
{
	struct hwtimer_op op;
	const struct answer *answer = ANSWER(to, op, size);
	int ret;

	ret = GET_ARG(op, to, size);
	if (ret)
		return ret;
	op.result = 0;
	switch (op.op) {
	case HWTIMER_OP_SCHEDULE:
		ret = do_schedule(ctx, &op.schedule, answer);
		break;
	case HWTIMER_OP_TOUCH:
		ret = do_touch(ctx, &op.touch, answer);
		break;
	case HWTIMER_OP_CANCEL:
		ret = do_cancel(ctx, &op.cancel, answer);
		break;
	case HWTIMER_OP_QUERY:
		ret = do_query(ctx, &op.query, answer);
		break;
	default:
		ret = -EINVAL;
	}
	if (!ret || ret == -EFAULT)
		return ret;
	op.result = ret;
	return give(answer);
}

static long dev_batch(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_batch arg;
	void __user *ops;
	u32 i;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad || arg.count > INT_MAX ||
	    arg.size < sizeof(struct hwtimer_op))
		return -EINVAL;
	if (arg.size > MAX_OP_SIZE)
		return -E2BIG;

	ops = u64_to_user_ptr(arg.ops);
	for (i = 0; i < arg.count; i++) {
		ret = signal_pending(current) ? -ERESTARTSYS :
						do_op(ctx, ops + (size_t)i * arg.size, arg.size);
		if (ret)
			return i ? i : (long)ret;
		cond_resched();
	}
	return i;
}

static long dev_stop(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_stop arg;
	struct dev_timeout *dt;
	unsigned long index = 0;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad)
		return -EINVAL;

	arg.handed_back = 0;
	if (mutex_lock_killable(&ctx->control))
		return -EINTR;
	ctx_lock(ctx);
	ctx->stopped = true;
	ctx_end_if_over(ctx);
	ctx_unlock(ctx);
	while ((dt = ctx_next_timeout(ctx, &index))) {
		ctx_lock(ctx);
		if (dt->state == DEV_PENDING) {
			ctx_hand_back(ctx, dt);
			arg.handed_back++;
			tell(ctx);
		}
		ctx_unlock(ctx);
	}
	mutex_unlock(&ctx->control);
	trace_hwtimer_dev_stop(ctx, arg.handed_back);
	return PUT_ARG(uarg, size, arg);
}

static long dev_stats(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_stats arg;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad)
		return -EINVAL;

	ctx_lock(ctx);
	arg = ctx->stats;
	arg.cap = ctx->cap;
	arg.now = hwtimer_wheel_now(ctx->wheel);
	ctx_unlock(ctx);
	return PUT_ARG(uarg, size, arg);
}

static long dev_list(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	const size_t first_size = offsetofend(struct hwtimer_query, deadline);
	struct hwtimer_query query;
	struct hwtimer_list arg;
	struct dev_timeout *dt;
	unsigned long index;
	bool pending;
	u32 n = 0, most;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad || arg.size < first_size || !arg.count)
		return -EINVAL;
	if (arg.size > MAX_OP_SIZE)
		return -E2BIG;

	most = min_t(u32, arg.count, INT_MAX);
	index = min_t(u64, arg.next, ULONG_MAX);
	while (n < most && !fatal_signal_pending(current)) {
		dt = ctx_next_timeout(ctx, &index);
		if (!dt)
			break;
		ctx_lock(ctx);
		pending = dt->state == DEV_PENDING;
		if (pending)
			describe(dt, &query);
		ctx_unlock(ctx);
		if (pending) {
			ret = put_longer(u64_to_user_ptr(arg.queries) + n * (u64)arg.size,
					 arg.size, &query, sizeof(query));
			if (ret)
				break;
			n++;
		}
		arg.next = index;
	}
	if (ret && !n)
		return ret;
	return PUT_ARG(uarg, size, arg) ?: (long)n;
}

/* Rings, as commands. */

static bool rings_valid(const struct hwtimer_rings *arg)
{
	return !(arg->flags & ~(HWTIMER_RINGS_EVENTFD | HWTIMER_RINGS_CLAIMS)) && !arg->pad &&
	       (arg->flags & HWTIMER_RINGS_EVENTFD || !arg->eventfd) &&
	       arg->sq_entries && arg->sq_entries <= HWTIMER_RING_MAX &&
	       arg->cq_entries <= HWTIMER_RING_MAX &&
	       arg->slots && arg->slots <= MAX_CAP;
}

/* May there be rings yet, or any more? */
static int rings_possible(const struct dev_ctx *ctx)
{
	lockdep_assert_held(&ctx->lock);
	if (ctx->stopped)
		return -ESHUTDOWN;
	return ctx->used ? -EBUSY : 0;
}

/* From here on the context has rings. A schedule, or a stop, may have been faster. */
static int rings_publish(struct dev_ctx *ctx, struct dev_rings *r,
			 struct dev_timeout *slots, u32 nr_slots)
{
	int ret;

	ctx_lock(ctx);
	ret = rings_possible(ctx);
	if (!ret) {
		WRITE_ONCE(ctx->used, true);
		ctx->nr_slots = nr_slots;
		/* Pairs with ctx_next_timeout(). */
		smp_store_release(&ctx->slots, slots);
		/* Pairs with rings_of(). */
		smp_store_release(&ctx->rings, r);
		ctx->eventfd = r->eventfd;
		/* Who waits in read() shall not do so for ever. No EPOLLIN: there is no record. */
		ctx->news |= EPOLLRDNORM;
	}
	ctx_unlock(ctx);
	return ret;
}

static long dev_rings(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_rings arg;
	struct dev_timeout *slots;
	struct dev_rings *r;
	int ret;

	/* hwtimer_ring_set_sleep() takes an atomic64_t that is not made of a lock. */
	if (IS_ENABLED(CONFIG_GENERIC_ATOMIC64))
		return -EOPNOTSUPP;
	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (!rings_valid(&arg))
		return -EINVAL;
	ret = choose_wheel(ctx);
	if (ret)
		return ret;

	if (mutex_lock_killable(&ctx->control))
		return -EINTR;
	ctx_lock(ctx);
	ret = rings_possible(ctx);
	ctx_unlock(ctx);
	if (ret)
		goto out;
	ret = -EDQUOT;
	if (!hwtimer_user_charge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, arg.slots))
		goto out;
	ret = -ENOMEM;
	slots = kvcalloc(arg.slots, sizeof(*slots), GFP_TABLE);
	if (!slots)
		goto uncharge;
	r = rings_make(ctx, &arg);
	if (IS_ERR(r)) {
		ret = PTR_ERR(r);
		goto free_slots;
	}

	arg.sq_entries = r->pair.sq_mask + 1;
	arg.cq_entries = r->pair.cq_mask + 1;
	arg.sq_offset = hwtimer_ring_sq_offset(&r->pair);
	arg.cq_offset = hwtimer_ring_cq_offset(&r->pair);
	arg.size = hwtimer_ring_size(&r->pair);
	ret = PUT_ARG(uarg, size, arg) ?: rings_publish(ctx, r, slots, arg.slots);
	if (!ret)
		goto out;
	rings_free(r);
free_slots:
	kvfree(slots);
uncharge:
	hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, arg.slots);
out:
	mutex_unlock(&ctx->control);
	return ret;
}

static long dev_enter(struct dev_ctx *ctx, void __user *uarg, size_t size)
{
	struct hwtimer_enter arg;
	int ret;

	ret = GET_ARG(arg, uarg, size);
	if (ret)
		return ret;
	if (arg.flags || arg.pad || arg.pad2)
		return -EINVAL;
	if (!rings_of(ctx))
		return -ENXIO;
	ret = rings_enter(ctx, &arg.taken);
	return PUT_ARG(uarg, size, arg) ?: ret;
}

/* File operations. */

/* A command whatever the size of its argument. */
#define COMMAND(cmd)	((cmd) & ~IOCSIZE_MASK)

static long dev_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct dev_ctx *ctx = file->private_data;
	void __user *uarg = (void __user *)arg;
	size_t size = _IOC_SIZE(cmd);

	/* The program's operations take effect in its order. */
	if (rings_of(ctx) && COMMAND(cmd) != COMMAND(HWTIMER_IOC_ENTER))
		rings_take_all(ctx);

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
	case COMMAND(HWTIMER_IOC_BATCH):
		return dev_batch(ctx, uarg, size);
	case COMMAND(HWTIMER_IOC_RINGS):
		return dev_rings(ctx, uarg, size);
	case COMMAND(HWTIMER_IOC_ENTER):
		return dev_enter(ctx, uarg, size);
	case COMMAND(HWTIMER_IOC_LIST):
		return dev_list(ctx, uarg, size);
	default:
		return -ENOTTY;
	}
}

/* Records are taken when they have been copied, so a fault loses none. */
static ssize_t read_records(struct dev_ctx *ctx, struct iov_iter *to)
{
	struct hwtimer_record records[READ_BATCH];
	size_t size = sizeof(records[0]), copied;
	ssize_t done = 0;
	unsigned int n;

	/* Nobody else takes what we look at. */
	lockdep_assert_held(&ctx->read_lock);
	do {
		ctx_lock(ctx);
		/* There may be some since our caller looked, and then they are not ours. */
		n = ctx->rings ? 0 :
				 ctx_peek(ctx, records, min_t(size_t, READ_BATCH,
							      iov_iter_count(to) / size));
		ctx_unlock(ctx);
		if (!n)
			return done;
		copied = copy_to_iter(records, n * size, to);
		ctx_lock(ctx);
		ctx_take(ctx, records, copied / size);
		ctx_unlock(ctx);
		done += copied - copied % size;
		cond_resched();
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

		if (rings_of(ctx))
			return -EOPNOTSUPP;
		if (nowait) {
			if (!mutex_trylock(&ctx->read_lock))
				return -EAGAIN;
		} else if (mutex_lock_interruptible(&ctx->read_lock)) {
			return -ERESTARTSYS;
		}
		/* Looked at first: all records come before the end. */
		last = ctx_ended(ctx);
		ret = read_records(ctx, to);
		mutex_unlock(&ctx->read_lock);
		if (ret || last)
			return ret;
		if (!block)
			return -EAGAIN;
		ret = wait_event_interruptible(ctx->wait,
					       readable(ctx) || ctx_ended(ctx) ||
					       rings_of(ctx));
		if (ret)
			return ret;
	}
}

static __poll_t dev_poll(struct file *file, poll_table *wait)
{
	struct dev_ctx *ctx = file->private_data;
	__poll_t events = 0;

	poll_wait(file, &ctx->wait, wait);
	/* Pairs with ctx_wake(): it sees us wait, or we see the news. */
	smp_mb();
	if (rings_of(ctx)) {
		ctx_lock(ctx);
		if (rings_check(ctx))
			events |= EPOLLERR;
		ctx_unlock(ctx);
	}
	if (readable(ctx))
		events |= EPOLLIN | EPOLLRDNORM;
	if (ctx_ended(ctx))
		events |= EPOLLHUP;
	return events;
}

static int dev_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct dev_ctx *ctx = file->private_data;
	struct dev_rings *r = rings_of(ctx);

	if (!r)
		return -ENXIO;
	/* VM_SHARED is not set for a descriptor that cannot be written to. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	return hwtimer_ring_map(&r->pair, vma);
}

static void dev_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct dev_ctx *ctx = file->private_data;
	const struct dev_rings *r = rings_of(ctx);
	const struct hwtimer_wheel *wheel;
	u64 pending, unread, late, cap;
	bool own, stopped;

	ctx_lock(ctx);
	wheel = ctx->wheel;
	own = ctx->own_wheel;
	stopped = ctx->stopped;
	pending = ctx->stats.pending;
	unread = ctx->stats.unread;
	late = ctx->late;
	cap = ctx->cap;
	ctx_unlock(ctx);

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
	seq_printf(m, "late: %llu\n", late);
	seq_printf(m, "cap: %llu\n", cap);
	if (r) {
		seq_printf(m, "sq_entries: %u\n", r->pair.sq_mask + 1);
		seq_printf(m, "cq_entries: %u\n", r->pair.cq_mask + 1);
		seq_printf(m, "ring_slots: %u\n", ctx->nr_slots);
	}
	hwtimer_user_show(m, ctx->user);
}

/* Called by close(2), and by the worker for each timeout that it lets go of: the user pays. */
static void put_ctx(struct dev_ctx *ctx)
{
	if (!refcount_dec_and_test(&ctx->held))
		return;
	ctx_free_table(ctx);
	if (ctx->rings)
		rings_free(ctx->rings);
	if (ctx->shared)
		hwtimer_shared_put(ctx->shared);
	hwtimer_user_closed(ctx->user);
	hwtimer_user_put(ctx->user);
	kfree(ctx);
}

static void dev_released(struct hwtimer_timeout *t)
{
	struct dev_timeout *dt = container_of(t, struct dev_timeout, timeout);
	struct dev_ctx *ctx = dt->ctx;

	ctx_free_timeout(ctx, dt);
	put_ctx(ctx);
}

static void look_released(struct hwtimer_timeout *t)
{
	put_ctx(container_of(t, struct dev_rings, look)->ctx);
}

static int dev_open(struct inode *inode, struct file *file)
{
	struct dev_ctx *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);

	if (!ctx)
		return -ENOMEM;
	ctx->user = hwtimer_user_get();
	if (!ctx->user) {
		kfree(ctx);
		return -ENOMEM;
	}
	mutex_init(&ctx->control);
	mutex_init(&ctx->read_lock);
	spin_lock_init(&ctx->lock);
	init_waitqueue_head(&ctx->wait);
	xa_init_flags(&ctx->table, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);
	refcount_set(&ctx->held, 1);
	ctx->expired = dev_expired;
	ctx->wheel = hwtimer_shared_wheel(NULL);
	ctx->done_tail = &ctx->done;
	ctx->cap = MAX_CAP;
	file->private_data = ctx;
	file->f_mode |= FMODE_NOWAIT;
	trace_hwtimer_dev_open(ctx, 0);
	return stream_open(inode, file);
}

/*
 * The last close. It releases the timeouts without waiting for the shared wheel's worker,
 * which frees the context if it lets go of the last of them.
 */
static int dev_release(struct inode *inode, struct file *file)
{
	struct dev_ctx *ctx = file->private_data;
	struct dev_timeout *dt;
	unsigned long index = 0;

	/* Whatever is still in the submission ring. */
	ctx_lock(ctx);
	ctx->stopped = true;
	ctx->closed = true;
	trace_hwtimer_dev_close(ctx, ctx->stats.pending);
	ctx_unlock(ctx);

	hwtimer_user_closing(ctx->user);
	/* From here on, a release is done when it returns. */
	if (ctx->own_wheel)
		hwtimer_wheel_stop(ctx->wheel, NULL);
	if (ctx->rings) {
		refcount_inc(&ctx->held);
		hwtimer_release(&ctx->rings->look, look_released);
	}
	while ((dt = ctx_next_timeout(ctx, &index))) {
		/* The rate, too, is the user's again at once. */
		ctx_lock(ctx);
		if (dt->periodic)
			ctx_free_period(ctx, dt->period);
		/* It may be told of still, in memory that others may have a reference to. */
		dt->fired = 0;
		dt->periodic = false;
		dt->state = DEV_FREE;
		ctx_unlock(ctx);
		refcount_inc(&ctx->held);
		hwtimer_release(&dt->timeout, dev_released);
	}
	if (ctx->own_wheel)
		free_own_wheel(ctx, ctx->wheel);
	put_ctx(ctx);
	return 0;
}

static const struct file_operations dev_fops = {
	.owner		= THIS_MODULE,
	.open		= dev_open,
	.release	= dev_release,
	.read_iter	= dev_read_iter,
	.poll		= dev_poll,
	.mmap		= dev_mmap,
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
 * hwtimer_dev_init - bring up the device and wheel "dev"
 *
 * Return: 0 or a negative error.
 */
int __init hwtimer_dev_init(void)
{
	int ret;

	ret = ctx_cache_create();
	if (ret)
		return ret;
	ret = hwtimer_shared_init();
	if (ret)
		goto err_cache;
	ret = misc_register(&dev_misc);
	if (ret)
		goto err_shared;
	return 0;

err_shared:
	hwtimer_shared_exit();
err_cache:
	ctx_cache_destroy();
	return ret;
}

/**
 * hwtimer_dev_exit - take it down; no file is open any more
 */
void hwtimer_dev_exit(void)
{
	misc_deregister(&dev_misc);
	/* Frees all closed contexts that are left. */
	hwtimer_shared_exit();
	ctx_cache_destroy();
}
