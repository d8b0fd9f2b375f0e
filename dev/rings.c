// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: how a context of /dev/hwtimer with rings takes submissions and tells of
 * what became of them.
 *
 * Submissions are taken by whoever comes by, under ctx->lock, in their order: the bell
 * and all other ioctls in the program's time, the wheel's worker in two callbacks:
 *
 *	look		a timeout of our own, armed as long as the program submits every
 *			now and then. sleep_until tells the program until when it need
 *			not ring: three ticks after the next look is due
 *	an expiry	of any timeout of the context, which has to know what was submitted
 *			before its deadline. "seen" is the time up to which everything
 *			was taken; if that is before the deadline, it takes what
 *			there is first. The worker has a budget for each tick, so it may
 *			have to wait for the next; a program that submits without end does
 *			not keep it from getting there, as only what was there at the
 *			last look at the program's index has to be taken
 *
 * The program that submits something due before sleep_until rings. It writes sq_tail,
 * then reads sleep_until; we write sleep_until, then read sq_tail; full barriers between.
 * So either it sees the new promise, and rings if need be, or we see its entry and look
 * again at the next tick, which is before the old promise ends: that was for three
 * ticks after a look that is running now.
 *
 * Records go through the list of done timeouts, as for read(), and from there to the ring
 * when there is room: so their order is one. A program that finds CQ_FULL after it made
 * room rings; the same kind of pair, cq_head against flags, sees to it that it finds it,
 * or that we find the room. A failed submission has no timeout to be listed by: it stays
 * where it is, at the head of its ring, until it can be told.
 */
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/eventfd.h>
#include <linux/minmax.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/time.h>

#include "../debug/trace.h"
#include "../hwtimer_compat.h"
#include "rings.h"

/* How many entries are taken, or records put, without letting go of the lock. */
#define CHUNK		64U
/* How many the shared wheel's worker takes of one context in one tick. */
#define TAKE_BUDGET	1024
/* How long the worker may leave a submission ring alone while it is in use. */
#define REST_NS		(250 * NSEC_PER_MSEC)
/* How often it looks in vain before it does so for good. */
#define REST_POLLS	4
/*
 * It comes by less than two ticks after it meant to, and what it finds must be due at a
 * later tick than that, to be on time.
 */
#define REST_MARGIN	3
/* What is due within fewer ticks is rung for, however often the worker looks. */
#define SOON		(2 * (REST_MARGIN + 1))

void hwtimer_rings_free(struct ctx_rings *r)
{
	hwtimer_shm_destroy(&r->pair);
	if (r->eventfd)
		eventfd_ctx_put(r->eventfd);
	hwtimer_user_uncharge(r->ctx->user, HWTIMER_LIMIT_RING_KIB, r->kib);
	kfree(r);
}

/* Is there room for a record? */
static bool room(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;
	bool bad, there = hwtimer_shm_room(&r->pair, &bad);

	lockdep_assert_held(&ctx->lock);
	/* That the other index is bad is known while nothing is taken. */
	if (bad && hwtimer_shm_set_flag(&r->pair, HWTIMER_RING_BAD, true))
		ctx->news |= EPOLLERR;
	return there;
}

/*
 * The same, and if not, the program will see that records wait, and ring when it has
 * made room. Unless it made some before it could see that: then there is.
 */
static bool room_or_full(struct hwtimer_ctx *ctx)
{
	if (room(ctx))
		return true;
	hwtimer_shm_set_flag(&ctx->rings->pair, HWTIMER_RING_CQ_FULL, true);
	/* Pairs with the program's, between cq_head and flags. */
	smp_mb();
	return room(ctx);
}

/* Look at both of the program's indexes. */
bool hwtimer_rings_check(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;
	bool sq_bad, cq_bad;
	u32 tail;

	lockdep_assert_held(&ctx->lock);
	/* Entries that were there are taken before anything else is believed. */
	sq_bad = r->pair.sq_head == r->mark &&
		 !hwtimer_shm_submitted(&r->pair, &tail);
	hwtimer_shm_room(&r->pair, &cq_bad);
	if (hwtimer_shm_set_flag(&r->pair, HWTIMER_RING_BAD, sq_bad || cq_bad) &&
	    (sq_bad || cq_bad))
		ctx->news |= EPOLLERR;
	return sq_bad || cq_bad;
}

/*
 * Put what there is to be told into the completion ring, as far as there is room; not
 * all of it at once if it is much. False if there is no more that could be done. What is
 * left waits for the bell, with CQ_FULL set since it did not go out when it came.
 */
bool hwtimer_rings_report(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;
	struct hwtimer_record rec;
	unsigned int n = 0;

	lockdep_assert_held(&ctx->lock);
	while (n < CHUNK && ctx->done && room_or_full(ctx)) {
		hwtimer_ctx_peek(ctx, &rec, 1);
		hwtimer_shm_put(&r->pair, &rec);
		hwtimer_ctx_take(ctx, &rec, 1);
		n++;
	}
	if (!ctx->done && !r->unreported)
		hwtimer_shm_set_flag(&r->pair, HWTIMER_RING_CQ_FULL, false);
	if (n)
		ctx->news |= EPOLLIN | EPOLLRDNORM;
	return n == CHUNK;
}

/* False: it has to wait, behind what else does. */
static bool report_failure(struct hwtimer_ctx *ctx, const struct hwtimer_sqe *sqe, int error)
{
	struct hwtimer_record rec = {
		.id = sqe->id,
		.user_data = sqe->user_data,
		.deadline = sqe->time,
		.fired = hwtimer_wheel_now(ctx->wheel),
		.overruns = sqe->op,
		.kind = HWTIMER_FAILED,
		.error = error,
	};

	hwtimer_rings_report(ctx);
	if (ctx->done || !room_or_full(ctx))
		return false;
	hwtimer_shm_put(&ctx->rings->pair, &rec);
	ctx->news |= EPOLLIN | EPOLLRDNORM;
	return true;
}

static int do_entry(struct hwtimer_ctx *ctx, const struct hwtimer_sqe *sqe)
{
	struct ctx_rings *r = ctx->rings;
	struct ctx_timeout *dt;

	if (sqe->op == HWTIMER_OP_NOP)
		return 0;
	if (sqe->flags & ~HWTIMER_SQE_QUIET)
		return -EINVAL;
	switch (sqe->op) {
	case HWTIMER_OP_SCHEDULE:
		dt = hwtimer_ctx_reserve_index(ctx, sqe->id);
		if (IS_ERR(dt))
			return PTR_ERR(dt);
		if (sqe->time > r->mark_ns + SOON * hwtimer_wheel_tick_ns(ctx->wheel))
			r->soonest = min(r->soonest, sqe->time - r->mark_ns);
		return hwtimer_ctx_arm(ctx, dt, hwtimer_ctx_deadline(ctx->wheel, 0, sqe->time),
			   sqe->user_data, NULL);
	case HWTIMER_OP_TOUCH:
		return hwtimer_ctx_touch(ctx, sqe->id,
					 hwtimer_ctx_deadline(ctx->wheel, 0, sqe->time));
	case HWTIMER_OP_CANCEL:
		return sqe->time ? -EINVAL : hwtimer_ctx_cancel(ctx, sqe->id);
	default:
		return -EINVAL;
	}
}

/* Is there an entry to be taken? */
static bool submitted(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;

	if (r->pair.sq_head != r->mark)
		return true;
	WRITE_ONCE(r->seen, r->mark_ns);
	r->mark_ns = hwtimer_wheel_now(ctx->wheel);
	/* What was submitted before mark_ns must not escape the look after it. */
	smp_rmb();
	if (!hwtimer_shm_submitted(&r->pair, &r->mark)) {
		r->mark = r->pair.sq_head;
		WRITE_ONCE(r->stuck, true);
		hwtimer_rings_check(ctx);
		return false;
	}
	if (r->pair.flags & HWTIMER_RING_BAD)
		hwtimer_rings_check(ctx);
	if (r->pair.sq_head != r->mark)
		return true;
	WRITE_ONCE(r->seen, r->mark_ns);
	return false;
}

/* Take the next entry, if there is one and it can be. */
static bool take_entry(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;
	struct hwtimer_sqe sqe;
	int ret;

	lockdep_assert_held(&ctx->lock);
	WRITE_ONCE(r->stuck, false);
	if (!submitted(ctx))
		return false;
	if (r->claims && r->pair.sq_head == r->claimed) {
		r->claimed += min(r->mark - r->claimed, CHUNK);
		hwtimer_shm_claim(&r->pair, r->claimed);
	}
	/* Once is enough, to read it and to do it. */
	if (r->unreported) {
		sqe = r->failed;
		ret = r->unreported;
	} else {
		hwtimer_shm_get(&r->pair, &sqe);
		ret = do_entry(ctx, &sqe);
	}
	if (ret && !(sqe.flags & HWTIMER_SQE_QUIET) && !report_failure(ctx, &sqe, ret)) {
		WRITE_ONCE(r->stuck, true);
		WRITE_ONCE(r->unreported, ret);
		r->failed = sqe;
		return false;
	}
	WRITE_ONCE(r->unreported, 0);
	r->pair.sq_head++;
	r->took = true;
	return true;
}

/*
 * Take up to @max entries of the submission ring. Not under the lock. Whoever comes at the
 * same time takes those that follow, in between. Return how many.
 */
static unsigned int take_entries(struct hwtimer_ctx *ctx, unsigned int max)
{
	struct ctx_rings *r = ctx->rings;
	unsigned int n = 0, end;
	bool more = true;

	while (more && n < max) {
		end = min(n + CHUNK, max);
		hwtimer_ctx_lock(ctx);
		while (n < end && (more = take_entry(ctx)))
			n++;
		hwtimer_shm_taken(&r->pair);
		hwtimer_ctx_unlock(ctx);
		cond_resched();
	}
	if (n)
		trace_hwtimer_dev_take(ctx, n);
	return n;
}

/*
 * All that was submitted up to now: what there was at the last look, and at another one,
 * which is now, and a third to know that. A program that goes on cannot hold us up.
 */
unsigned int hwtimer_rings_take_all(struct hwtimer_ctx *ctx)
{
	return take_entries(ctx, 2 * (ctx->rings->pair.sq_mask + 1) + 1);
}

/*
 * The same, in the worker: from a context on the shared wheel not more than the
 * budget of a tick, so that the others come to theirs.
 */
void hwtimer_rings_take_in_worker(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;
	u64 now = hwtimer_wheel_now(ctx->wheel);

	if (ctx->own_wheel) {
		hwtimer_rings_take_all(ctx);
		return;
	}
	if (now >= r->refill) {
		/* At the next tick we may come a little sooner than at this one. */
		r->refill = now + hwtimer_wheel_tick_ns(ctx->wheel) / 2;
		r->budget = TAKE_BUDGET;
	}
	r->budget -= take_entries(ctx, r->budget);
}

/* May something have been submitted before @deadline that is not taken yet? */
bool hwtimer_rings_unseen(const struct ctx_rings *r, u64 deadline)
{
	return deadline > READ_ONCE(r->seen);
}

/* The same, and it is worth waiting for. */
bool hwtimer_rings_await(const struct ctx_rings *r, u64 deadline)
{
	lockdep_assert_held(&r->ctx->lock);
	return !r->stuck && hwtimer_rings_unseen(r, deadline);
}

/* The worker comes by at @at: say so. */
static void rest_until(struct hwtimer_ctx *ctx, u64 at)
{
	struct ctx_rings *r = ctx->rings;
	u64 until = at;

	lockdep_assert_held(&ctx->lock);
	/* Fails only if the context is being closed. */
	if (at != HWTIMER_RING_IDLE) {
		hwtimer_schedule_at(&r->poll, at);
		until += REST_MARGIN * hwtimer_wheel_tick_ns(ctx->wheel);
	}
	r->poll_at = at;
	hwtimer_shm_set_sleep(&r->pair, until);
}

/*
 * Rest until @at, unless something was submitted in the meantime by somebody who may have
 * relied on the last promise. That was not to be away longer than until three ticks from
 * what is now the next look, and it is kept if the next look is at the next tick.
 */
static void rest(struct hwtimer_ctx *ctx, u64 at)
{
	struct ctx_rings *r = ctx->rings;
	u32 tail;

	rest_until(ctx, at);
	/* Pairs with the program's, between sq_tail and sleep_until. */
	smp_mb();
	if (!r->stuck && hwtimer_shm_submitted(&r->pair, &tail) &&
	    tail != r->pair.sq_head)
		rest_until(ctx, hwtimer_wheel_now(ctx->wheel));
}

/* In the worker: look at the submission ring, and see when to do it again. */
static void poll(struct hwtimer_timeout *t)
{
	struct ctx_rings *r = container_of(t, struct ctx_rings, poll);
	struct hwtimer_ctx *ctx = r->ctx;
	u64 tick = hwtimer_wheel_tick_ns(ctx->wheel);

	hwtimer_rings_take_in_worker(ctx);
	hwtimer_ctx_lock(ctx);
	hwtimer_rings_report(ctx);
	r->in_vain = r->took ? 0 : r->in_vain + 1;
	r->took = false;
	r->interval = min3(2 * r->interval, r->soonest / 2, (u64)REST_NS);
	r->interval = max(r->interval, tick);
	r->soonest = U64_MAX;
	if (r->stuck || r->in_vain >= REST_POLLS)
		rest(ctx, HWTIMER_RING_IDLE);
	else
		rest(ctx, hwtimer_wheel_now(ctx->wheel) + r->interval);
	hwtimer_ctx_unlock(ctx);
}

/* Has the program something to read? Without the lock. */
bool hwtimer_rings_unread(const struct ctx_rings *r)
{
	return READ_ONCE(r->unreported) || hwtimer_shm_unread(&r->pair);
}

/* The bell. Not under the lock. */
int hwtimer_rings_enter(struct hwtimer_ctx *ctx, u32 *taken)
{
	struct ctx_rings *r = ctx->rings;
	u64 tick = hwtimer_wheel_tick_ns(ctx->wheel), at;
	bool bad;

	*taken = hwtimer_rings_take_all(ctx);
	hwtimer_ctx_lock(ctx);
	/* Whoever reads at the same time may make room for very many. */
	while (hwtimer_rings_report(ctx) && !fatal_signal_pending(current)) {
		hwtimer_ctx_unlock(ctx);
		cond_resched();
		hwtimer_ctx_lock(ctx);
	}
	bad = hwtimer_rings_check(ctx);
	r->interval = max(min(r->interval, r->soonest / 2), tick);
	r->in_vain = 0;
	at = hwtimer_wheel_now(ctx->wheel) + r->interval;
	if (!r->stuck && r->poll_at > at)
		rest(ctx, at);
	hwtimer_ctx_unlock(ctx);
	return bad ? -EBADFD : 0;
}

/* Make the rings of a context; not under the lock, may sleep. */
struct ctx_rings *hwtimer_rings_create(struct hwtimer_ctx *ctx, const struct hwtimer_rings *arg)
{
	struct ctx_rings *r = kzalloc(sizeof(*r), GFP_TABLE);
	u32 cq_entries = arg->cq_entries ?: arg->sq_entries;
	unsigned long kib;
	int ret = -ENOMEM;

	if (!r)
		return ERR_PTR(-ENOMEM);
	r->ctx = ctx;
	r->poll_at = HWTIMER_RING_IDLE;
	r->soonest = U64_MAX;
	r->interval = REST_NS;
	r->claims = arg->flags & HWTIMER_RINGS_CLAIMS;
	hwtimer_init(&r->poll, ctx->wheel, poll);
	if (arg->flags & HWTIMER_RINGS_EVENTFD) {
		r->eventfd = eventfd_ctx_fdget(arg->eventfd);
		if (IS_ERR(r->eventfd)) {
			ret = PTR_ERR(r->eventfd);
			r->eventfd = NULL;
			goto err;
		}
	}
	hwtimer_shm_plan(&r->pair, arg->sq_entries, cq_entries);
	kib = hwtimer_shm_size(&r->pair) / 1024;
	ret = -EDQUOT;
	if (!hwtimer_user_charge(ctx->user, HWTIMER_LIMIT_RING_KIB, kib))
		goto err;
	r->kib = kib;
	ret = -ENOMEM;
	if (hwtimer_shm_create(&r->pair, arg->sq_entries, cq_entries, GFP_TABLE))
		goto err;
	return r;

err:
	hwtimer_rings_free(r);
	return ERR_PTR(ret);
}
