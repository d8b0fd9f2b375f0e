// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the timeouts of an open /dev/hwtimer, and what becomes of them.
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
 * A periodic timeout has a struct ctx_period beside it, from schedule until it is
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
 * handed back, when that has been read.
 *
 * The callback takes the lock to go on from PENDING. Any timeout is pending for programs
 * even in the moment between its expiry and that: who cancels, touches or stops it then
 * was first, and the callback finds it not PENDING, or armed. (It cannot find it expired
 * for a second time: the worker calls back one after the other.)
 *
 * With rings the program chooses the ids. The table is an array then, whose size never
 * changes, and what is above the index is the program's.
 *
 * ctx->lock protects the states, the lists of free and of done timeouts, and
 * the counts. It is held around arm, touch and cancel of a timeout found by its
 * id, so that nobody can use the timeout again between the look at the id and
 * the operation.
 */
#include <linux/bits.h>
#include <linux/err.h>
#include <linux/eventfd.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "../debug/trace.h"
#include "../hwtimer_compat.h"
#include "ctx.h"

static_assert(HWTIMER_MISFIRE_ONCE == HWTIMER_FIRE_ONCE);
static_assert(HWTIMER_MISFIRE_SKIP == HWTIMER_SKIP);
static_assert(HWTIMER_MISFIRE_MAKE_UP == HWTIMER_MAKE_UP);

static struct kmem_cache *timeout_cache;

int hwtimer_ctx_cache_create(void)
{
	timeout_cache = KMEM_CACHE(ctx_timeout, 0);
	return timeout_cache ? 0 : -ENOMEM;
}

void hwtimer_ctx_cache_destroy(void)
{
	kmem_cache_destroy(timeout_cache);
}

/* Wake those who wait for any of @news, poll events. EPOLLIN: new records, so the eventfd, too. */
void hwtimer_ctx_wake(struct hwtimer_ctx *ctx, __poll_t news)
{
	/* Pairs with the waiter's barrier, between queueing itself and looking for news. */
	if (wq_has_sleeper(&ctx->wait))
		wake_up_poll(&ctx->wait, news);
	if (ctx->eventfd && news & EPOLLIN)
		eventfd_signal(ctx->eventfd);
}

/* Free @dt, unless it is a slot. The file is closed, and the wheel does not hold it any more. */
void hwtimer_ctx_free_timeout(struct hwtimer_ctx *ctx, struct ctx_timeout *dt)
{
	/* Slots are one array, which hwtimer_ctx_free_table() frees. */
	if (ctx->timeouts)
		return;
	xa_erase(&ctx->table, dt->id & ID_INDEX_MASK);
	kmem_cache_free(timeout_cache, dt);
	hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, 1);
}

/* Free what held the timeouts: the table, empty by now, or the array of timeouts. */
void hwtimer_ctx_free_table(struct hwtimer_ctx *ctx)
{
	xa_destroy(&ctx->table);
	kvfree(ctx->timeouts);
	hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, ctx->nr_timeouts);
}

/* To go through all that were ever used: begin with *@index 0. Not under the lock. */
struct ctx_timeout *hwtimer_ctx_next_timeout(struct hwtimer_ctx *ctx, unsigned long *index)
{
	/* Pairs with dev_rings(): with them comes @nr_timeouts, and that they are zeroed. */
	struct ctx_timeout *timeouts = smp_load_acquire(&ctx->timeouts), *dt;

	cond_resched();
	if (!timeouts) {
		dt = xa_find(&ctx->table, index, ULONG_MAX, XA_PRESENT);
		++*index;
		return dt;
	}
	while (*index < ctx->nr_timeouts) {
		dt = &timeouts[array_index_nospec(*index, ctx->nr_timeouts)];
		++*index;
		/* Set under the lock, before it can be armed. */
		if (READ_ONCE(dt->ctx))
			return dt;
		if (!(*index % 4096))
			cond_resched();
	}
	return NULL;
}

bool hwtimer_ctx_ended(struct hwtimer_ctx *ctx)
{
	/* Pairs with hwtimer_ctx_end_if_over(): who sees the end sees all records. */
	return smp_load_acquire(&ctx->ended);
}

void hwtimer_ctx_end_if_over(struct hwtimer_ctx *ctx)
{
	lockdep_assert_held(&ctx->lock);
	/* Nothing becomes pending after a stop. */
	if (!ctx->stopped || ctx->stats.pending)
		return;
	/* Pairs with hwtimer_ctx_ended(). */
	smp_store_release(&ctx->ended, true);
	ctx->news |= EPOLLHUP;
}

/*
 * How often in a second, at the worst: one that is late and does not skip what it
 * missed expires at each tick. Programs may make it as late as they like.
 */
static unsigned long rate_of(const struct hwtimer_ctx *ctx, const struct ctx_period *p)
{
	u64 each = p->period.period_ns;

	if (p->period.policy == HWTIMER_MAKE_UP || p->period.misfire_ns > each)
		each = hwtimer_wheel_tick_ns(ctx->wheel);
	return div64_u64(NSEC_PER_SEC - 1, each) + 1;
}

void hwtimer_ctx_free_period(struct hwtimer_ctx *ctx, struct ctx_period *p)
{
	if (!p)
		return;
	hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_RATE, rate_of(ctx, p));
	kfree(p);
}

void hwtimer_ctx_make_free(struct hwtimer_ctx *ctx, struct ctx_timeout *dt)
{
	lockdep_assert_held(&ctx->lock);
	if (dt->periodic)
		hwtimer_ctx_free_period(ctx, dt->period);
	dt->periodic = false;
	dt->state = TIMEOUT_FREE;
	ctx->live--;
	/* The program chooses; or all generations were used. */
	if (ctx->timeouts || dt->id >> ID_INDEX_BITS == ID_LAST_GEN)
		return;
	dt->next = ctx->free;
	ctx->free = dt;
}

/* A tick is the promise, and another one is for the worker: what is later than that counts. */
static void note_lateness(struct hwtimer_ctx *ctx, const struct ctx_timeout *dt, u64 now)
{
	if (now > dt->deadline + 2 * hwtimer_wheel_tick_ns(ctx->wheel))
		ctx->late++;
}

/* There is something to read of @dt: put it at the end of those. */
static void add_done(struct hwtimer_ctx *ctx, struct ctx_timeout *dt)
{
	dt->next = NULL;
	WRITE_ONCE(*ctx->done_tail, dt);
	/*
	 * With records before it, everybody was woken when the first came. With rings
	 * everybody is when it is in the ring.
	 */
	if (ctx->done_tail == &ctx->done && !ctx->rings)
		ctx->news |= EPOLLIN | EPOLLRDNORM;
	ctx->done_tail = &dt->next;
}

static void make_done(struct hwtimer_ctx *ctx, struct ctx_timeout *dt, u8 kind)
{
	dt->state = TIMEOUT_DONE;
	dt->kind = kind;
	dt->fired = hwtimer_wheel_now(ctx->wheel);
	add_done(ctx, dt);
	ctx->stats.unread++;
	ctx->stats.pending--;
}

/* How many of the unread expiries have a record of their own from now on. */
static void set_run(struct hwtimer_ctx *ctx, struct ctx_period *p, u64 run)
{
	ctx->stats.unread += run - p->run;
	p->run = run;
}

/* A periodic one expired for dt->deadline, and missed some others. */
static void add_expiry(struct hwtimer_ctx *ctx, struct ctx_timeout *dt, u64 now, u64 missed)
{
	struct ctx_period *p = dt->period;
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
static void take_expiries(struct hwtimer_ctx *ctx, struct ctx_period *p, u64 n)
{
	p->unread -= n;
	set_run(ctx, p, min(p->run, p->unread));
}

/* A periodic one will expire no more. What it has for a reader remains. */
static void end_periodic(struct hwtimer_ctx *ctx, struct ctx_timeout *dt, u8 kind)
{
	struct ctx_period *p = dt->period;

	dt->state = TIMEOUT_DONE;
	dt->kind = kind;
	ctx->stats.pending--;
	if (kind == HWTIMER_HANDED_BACK) {
		p->handed_back = hwtimer_wheel_now(ctx->wheel);
		ctx->stats.unread++;
		if (!p->unread)
			add_done(ctx, dt);
	} else if (!p->unread) {
		hwtimer_ctx_make_free(ctx, dt);
	}
}

static struct ctx_timeout *find(struct hwtimer_ctx *ctx, u32 index)
{
	if (!ctx->timeouts)
		return xa_load(&ctx->table, index);
	if (index >= ctx->nr_timeouts)
		return NULL;
	return &ctx->timeouts[array_index_nospec(index, ctx->nr_timeouts)];
}

struct ctx_timeout *hwtimer_ctx_find_pending(struct hwtimer_ctx *ctx, u64 id)
{
	struct ctx_timeout *dt = find(ctx, id & ID_INDEX_MASK);

	lockdep_assert_held(&ctx->lock);
	return dt && dt->id == id && dt->state == TIMEOUT_PENDING ? dt : NULL;
}

/* Arm a periodic one for its next deadline, and note the expiry, if it is one. */
static void expire_periodic(struct hwtimer_ctx *ctx, struct ctx_timeout *dt)
{
	u64 now = hwtimer_wheel_now(ctx->wheel);
	struct ctx_period *p = dt->period;
	struct hwtimer_decision d;
	u64 next;

	note_lateness(ctx, dt, now);
	d = hwtimer_period_decide(&p->period, dt->deadline, now);
	if (d.fire) {
		add_expiry(ctx, dt, now, d.overruns + p->skipped);
		p->skipped = 0;
	} else {
		p->skipped += d.overruns;
	}
	next = d.next_ns < hwtimer_wheel_horizon(ctx->wheel) ? d.next_ns : HWTIMER_NEVER;
	WRITE_ONCE(dt->deadline, next);
	/* Fails only if the context is being closed: nobody sees what comes of it. */
	if (hwtimer_schedule_at(&dt->timeout, next)) {
		ctx->stats.scheduled--;
		end_periodic(ctx, dt, HWTIMER_EXPIRED);
	}
}

/* In the callback of one that is pending, and not armed any more. */
void hwtimer_ctx_expire(struct hwtimer_ctx *ctx, struct ctx_timeout *dt)
{
	lockdep_assert_held(&ctx->lock);
	trace_hwtimer_dev_expire(ctx, &dt->timeout, dt->id, dt->user_data, dt->deadline);
	if (dt->periodic) {
		expire_periodic(ctx, dt);
	} else {
		ctx->stats.expired++;
		make_done(ctx, dt, HWTIMER_EXPIRED);
		note_lateness(ctx, dt, dt->fired);
	}
}

/* Stop one that is pending. */
void hwtimer_ctx_hand_back(struct hwtimer_ctx *ctx, struct ctx_timeout *dt)
{
	lockdep_assert_held(&ctx->lock);
	hwtimer_cancel(&dt->timeout);
	ctx->stats.handed_back++;
	if (dt->periodic)
		end_periodic(ctx, dt, HWTIMER_HANDED_BACK);
	else
		make_done(ctx, dt, HWTIMER_HANDED_BACK);
}

/* Add a timeout to the table. Not under the lock; may sleep. */
static int grow(struct hwtimer_ctx *ctx)
{
	struct ctx_timeout *dt;
	u32 index;
	int ret;

	if (!hwtimer_user_charge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, 1))
		return -EDQUOT;
	ret = -ENOMEM;
	dt = kmem_cache_zalloc(timeout_cache, GFP_TABLE);
	if (!dt)
		goto uncharge;
	dt->ctx = ctx;
	hwtimer_init(&dt->timeout, ctx->wheel, ctx->expired);
	ret = xa_alloc(&ctx->table, &index, dt, XA_LIMIT(0, ID_INDEX_MASK), GFP_TABLE);
	if (ret)
		goto free;

	hwtimer_ctx_lock(ctx);
	dt->id = index;
	dt->next = ctx->free;
	ctx->free = dt;
	hwtimer_ctx_unlock(ctx);
	return 0;

free:
	kmem_cache_free(timeout_cache, dt);
uncharge:
	hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, 1);
	return ret == -EBUSY ? -EAGAIN : ret;
}

/* Take the slot that the program chose, and so a place below the cap. */
struct ctx_timeout *hwtimer_ctx_reserve_index(struct hwtimer_ctx *ctx, u64 id)
{
	struct ctx_timeout *dt = find(ctx, id & ID_INDEX_MASK);

	lockdep_assert_held(&ctx->lock);
	if (ctx->stopped)
		return ERR_PTR(-ESHUTDOWN);
	if (!dt)
		return ERR_PTR(-EINVAL);
	if (dt->state != TIMEOUT_FREE)
		return ERR_PTR(dt->state == TIMEOUT_PENDING ? -EEXIST : -EBUSY);
	if (ctx->live >= ctx->cap) {
		ctx->stats.rejected++;
		return ERR_PTR(-EAGAIN);
	}
	if (!dt->ctx) {
		hwtimer_init(&dt->timeout, ctx->wheel, ctx->expired);
		/* Pairs with hwtimer_ctx_next_timeout(). */
		WRITE_ONCE(dt->ctx, ctx);
	}
	ctx->live++;
	dt->id = id;
	dt->state = TIMEOUT_RESERVED;
	return dt;
}

/*
 * Take a free timeout, with rings that of @id, and so a place below the caps. Not under
 * the lock.
 */
struct ctx_timeout *hwtimer_ctx_reserve(struct hwtimer_ctx *ctx, u64 id)
{
	struct ctx_timeout *dt;
	int ret;

	hwtimer_ctx_lock(ctx);
	/* Neither wheel nor rings change from here on. */
	WRITE_ONCE(ctx->used, true);
	if (ctx->timeouts) {
		dt = hwtimer_ctx_reserve_index(ctx, id);
		hwtimer_ctx_unlock(ctx);
		return dt;
	}
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
			dt->state = TIMEOUT_RESERVED;
			hwtimer_ctx_unlock(ctx);
			return dt;
		}
		hwtimer_ctx_unlock(ctx);
		ret = grow(ctx);
		hwtimer_ctx_lock(ctx);
		if (ret)
			break;
	}
	if (ret == -EAGAIN || ret == -EDQUOT)
		ctx->stats.rejected++;
	hwtimer_ctx_unlock(ctx);
	return ERR_PTR(ret);
}

/* Operations. */

/* Arm one that is reserved. @period is NULL, or becomes its, if that succeeds. */
int hwtimer_ctx_arm(struct hwtimer_ctx *ctx, struct ctx_timeout *dt, u64 deadline, u64 user_data,
		    struct ctx_period *period)
{
	int ret;

	lockdep_assert_held(&ctx->lock);
	/* First: its callback looks at this before it waits for us. */
	WRITE_ONCE(dt->deadline, deadline);
	ret = ctx->stopped ? -ESHUTDOWN : hwtimer_schedule_at(&dt->timeout, deadline);
	if (ret) {
		hwtimer_ctx_make_free(ctx, dt);
		return ret;
	}
	dt->user_data = user_data;
	dt->periodic = period;
	if (period)
		dt->period = period;
	dt->state = TIMEOUT_PENDING;
	ctx->stats.scheduled++;
	ctx->stats.pending++;
	trace_hwtimer_dev_schedule(ctx, &dt->timeout, dt->id, user_data, deadline);
	return 0;
}

int hwtimer_ctx_touch(struct hwtimer_ctx *ctx, u64 id, u64 deadline)
{
	struct ctx_timeout *dt = hwtimer_ctx_find_pending(ctx, id);
	int ret;

	lockdep_assert_held(&ctx->lock);
	if (ctx->stopped)
		return -ESHUTDOWN;
	if (!dt)
		return -ENOENT;
	/* First, as in hwtimer_ctx_arm(). */
	WRITE_ONCE(dt->deadline, deadline);
	/* Not hwtimer_touch_at(): its callback may be about to run. */
	ret = hwtimer_schedule_at(&dt->timeout, deadline);
	/* Fails only if the context is being closed: nobody sees what comes of it. */
	if (ret < 0)
		return ret;
	ctx->stats.touched++;
	return 0;
}

int hwtimer_ctx_cancel(struct hwtimer_ctx *ctx, u64 id)
{
	struct ctx_timeout *dt = hwtimer_ctx_find_pending(ctx, id);

	lockdep_assert_held(&ctx->lock);
	if (!dt)
		return -ENOENT;
	/* Or its callback, which is about to run, finds that it is not pending. */
	hwtimer_cancel(&dt->timeout);
	ctx->stats.cancelled++;
	if (dt->periodic) {
		end_periodic(ctx, dt, HWTIMER_EXPIRED);
	} else {
		ctx->stats.pending--;
		hwtimer_ctx_make_free(ctx, dt);
	}
	hwtimer_ctx_end_if_over(ctx);
	return 0;
}

/* The deadline in ns that a program means, or HWTIMER_NEVER. */
u64 hwtimer_ctx_deadline(const struct hwtimer_wheel *wheel, u32 flags, u64 time)
{
	u64 deadline = time;

	if (flags & HWTIMER_RELATIVE &&
	    check_add_overflow(hwtimer_wheel_now(wheel), time, &deadline))
		deadline = HWTIMER_NEVER;
	return deadline < hwtimer_wheel_horizon(wheel) ? deadline : HWTIMER_NEVER;
}

/* What a periodic timeout needs, NULL for one that is not. Not under the lock. */
struct ctx_period *hwtimer_ctx_make_period(struct hwtimer_ctx *ctx,
					   const struct hwtimer_schedule *arg)
{
	struct hwtimer_period period = {
		.period_ns = arg->period,
		.misfire_ns = arg->misfire,
		.policy = arg->policy,
	};
	struct ctx_period *p;

	if (!arg->period)
		return NULL;
	/* Ticks differ, and from here on the wheel does not. */
	hwtimer_ctx_lock(ctx);
	WRITE_ONCE(ctx->used, true);
	hwtimer_ctx_unlock(ctx);
	if (hwtimer_period_check(&period, hwtimer_wheel_tick_ns(ctx->wheel)))
		return ERR_PTR(-EINVAL);

	p = kzalloc(sizeof(*p), GFP_TABLE);
	if (!p)
		return ERR_PTR(-ENOMEM);
	p->period = period;
	if (!hwtimer_user_charge(ctx->user, HWTIMER_LIMIT_RATE, rate_of(ctx, p))) {
		kfree(p);
		hwtimer_ctx_lock(ctx);
		ctx->stats.rejected++;
		hwtimer_ctx_unlock(ctx);
		return ERR_PTR(-EDQUOT);
	}
	return p;
}

/* The next record of @dt, of which @seen were looked at before; false: no more. */
static bool look(const struct ctx_timeout *dt, u64 seen, struct hwtimer_record *rec)
{
	const struct ctx_period *p = dt->periodic ? dt->period : NULL;

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
unsigned int hwtimer_ctx_peek(struct hwtimer_ctx *ctx, struct hwtimer_record *records,
			      unsigned int max)
{
	const struct ctx_timeout *dt;
	unsigned int n = 0;
	u64 seen;

	lockdep_assert_held(&ctx->lock);
	for (dt = ctx->done; dt && n < max; dt = dt->next)
		for (seen = 0; n < max && look(dt, seen, &records[n]); seen++)
			n++;
	return n;
}

/*
 * Take the first @n, which is what @records tell. What became of them since, if the
 * lock was let go of: the list is longer, a periodic one may have expired again, been
 * touched, cancelled or handed back.
 */
void hwtimer_ctx_take(struct hwtimer_ctx *ctx, const struct hwtimer_record *records, unsigned int n)
{
	struct ctx_timeout *dt;
	struct ctx_period *p;
	unsigned int i = 0;
	bool more;

	lockdep_assert_held(&ctx->lock);
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
		if (more && (p->unread || (dt->state == TIMEOUT_DONE &&
					   dt->kind == HWTIMER_HANDED_BACK)))
			add_done(ctx, dt);	/* and these come after others */
		else if (dt->state == TIMEOUT_DONE)
			hwtimer_ctx_make_free(ctx, dt);
	}
}

