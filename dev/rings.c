// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: how a context of /dev/hwtimer with rings takes submissions and reports through rings.
 *
 * Submissions are taken under ctx->lock, in their order: by HWTIMER_IOC_ENTER, with which a program
 * kicks, and by other ioctls, in the context of the program; and by the wheel's worker in two
 * callbacks:
 *
 *	poll		of a timeout that belongs to the rings, and is armed as long as the program
 *			submits now and then. Deadlines from sleep_until on, which is three ticks
 *			after the next poll is due, need no kick
 *	dev_expired	of each timeout of the program. Operations that were submitted before
 *			its deadline must take effect first. Everything submitted before the time
 *			"seen" has been taken; if "seen" is before the deadline, the callback takes
 *			submissions first. The worker's budget per tick may make the expiry wait
 *			for the next tick. A program that keeps submitting cannot delay it for
 *			ever, because only the entries found by one read of sq_tail have to be
 *			taken
 *
 * A program that submits a deadline before sleep_until calls ENTER. It writes sq_tail, then reads
 * sleep_until; the kernel writes sleep_until, then reads sq_tail; both execute a full barrier in
 * between. So either the program sees the new sleep_until, and calls ENTER if necessary, or the
 * kernel sees the entry, and polls again at the next tick. That tick is before the old sleep_until,
 * because the current poll was due three ticks before it, and runs less than two ticks late.
 *
 * HWTIMER_RINGS_RELAXED
 * ---------------------
 *
 * Without this flag the program executes a full barrier between sq_tail and sleep_until, and one
 * between an entry's NOP and sq_claimed. With it, the program leaves out the second one, and the
 * first one for deadlines from relaxed_until on. Instead, the kernel waits for RCU grace periods,
 * by polling. Like MEMBARRIER_CMD_GLOBAL of membarrier(2), this relies on a grace period to act as
 * a full barrier on each CPU, at some time between its start and its end: it interrupts a CPU in
 * user mode or in a guest, and to become idle, or to switch tasks, is a full barrier anyway. This
 * holds for all programs that have mapped the rings. (If context tracking tells RCU that a CPU is
 * in user mode, as with nohz_full, it is not interrupted, so the flag is refused then.) So if a
 * load of the program misses what the kernel wrote before a grace period, then after the grace
 * period the kernel sees all stores that the program made before that load.
 *
 *	an entry is taken	The kernel executes an entry at once. If the program has taken it
 *	back			back, and the kernel has missed the NOP, a timeout is pending that
 *				the program does not know of. So entries are confirmed after a grace
 *				period: the kernel reads them once more, and cancels the timeout of
 *				a NOP. Until then the program may not reuse their places, so the
 *				sq_head that it sees is "confirmed". If the program schedules a
 *				timeout with the same index meanwhile, it has written the NOP before
 *				that, so the kernel finds the NOP in the entry that the pending
 *				timeout came from
 *	a deadline needs	The program compares it with relaxed_until, which is more than a
 *	no kick			second after sleep_until. If it read an old value, and the kernel
 *				has missed the new sq_tail, then one of the next polls finds the
 *				entry in time. Before the polls end, sleep_until and relaxed_until
 *				are HWTIMER_RING_IDLE for a grace period, and one more poll follows.
 *				(If the grace period takes longer than a second, an entry that this
 *				poll finds may be late.)
 *
 * The ioctls need no grace period, because the program orders its calls with its submissions. It
 * need not do so for STOP, after which no timeout is pending, whether it was taken back or not.
 *
 * Records
 * -------
 *
 * All records go through the list of done timeouts, as for read(2), and from there to the ring when
 * there is room, so there is one order of records. A program that finds HWTIMER_RING_CQ_FULL set
 * after it made room kicks. Full barriers between cq_head and flags on both sides ensure that the
 * program sees this flag or the kernel sees the room. A failed submission has no timeout that could
 * be listed: the entry stays at the head of the submission ring until its failure has been
 * reported.
 */
#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/eventfd.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/poll.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/time.h>

#include "../debug/trace.h"
#include "../core/hwtimer_compat.h"
#include "../core/hwtimer_step.h"
#include "rings.h"

/* How many entries are taken, or records put, before the lock is dropped. */
#define CHUNK		64U
/* How many entries ahead a timeout is fetched from memory. */
#define AHEAD		8
/* How many entries of one context the worker of a shared wheel takes per tick. */
#define TAKE_BUDGET	1024
/* The longest interval between polls of a submission ring that is in use. */
#define MAX_INTERVAL_NS		(250 * NSEC_PER_MSEC)
/* After this many polls in a row that found no entry, the worker stops polling until a kick. */
#define IDLE_POLLS	4
/*
 * How far relaxed_until is after sleep_until: several times the longest interval between polls,
 * because more than one of them may miss a store that is on its way.
 */
#define RELAXED_NS	NSEC_PER_SEC
#define RELAXED_TICKS	8
/*
 * How far sleep_until is after the next poll, in ticks. A poll runs less than two ticks late, and
 * an entry that it finds is on time only if it is due at a later tick.
 */
#define SLEEP_MARGIN	3
/* Deadlines fewer ticks ahead need a kick at any interval, so they do not shorten it. */
#define SOON		(2 * (SLEEP_MARGIN + 1))

void hwtimer_rings_free(struct ctx_rings *r)
{
	hwtimer_shm_destroy(&r->pair);
	if (r->eventfd)
		eventfd_ctx_put(r->eventfd);
	hwtimer_user_uncharge(r->ctx->user, HWTIMER_LIMIT_RING_KIB, r->kib);
	bitmap_free(r->armed);
	kfree(r);
}

/*
 * Read sq_tail. Return false if it is out of range: the program may reuse the places before
 * r->confirmed only, which is the sq_head that it sees.
 */
static bool read_tail(const struct ctx_rings *r, u32 *tail)
{
	return hwtimer_shm_submitted(&r->pair, tail) && *tail - r->confirmed <= r->pair.sq_mask + 1;
}

/* Return true if there is room for a record. */
static bool room(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;
	bool bad, has_room = hwtimer_shm_room(&r->pair, &bad);

	lockdep_assert_held(&ctx->lock);
	/* Only set the flag: hwtimer_rings_check(), which checks sq_tail as well, clears it. */
	if (bad && hwtimer_shm_set_flag(&r->pair, HWTIMER_RING_BAD, true))
		ctx->news |= EPOLLERR;
	return has_room;
}

/*
 * Like room(), but if there is none, set HWTIMER_RING_CQ_FULL, so that the program kicks after it
 * has made room. Then check again, as it may have made room without seeing the flag.
 */
static bool room_or_full(struct hwtimer_ctx *ctx)
{
	if (room(ctx))
		return true;
	hwtimer_shm_set_flag(&ctx->rings->pair, HWTIMER_RING_CQ_FULL, true);
	/*
	 * Pairs with the program's full barrier between cq_head and flags.
	 * [smp_mb: ring-full-broken-kernel; after hwtimer_shm_set_flag]
	 */
	smp_mb();
	return room(ctx);
}

/* Check both of the program's indexes: set or clear HWTIMER_RING_BAD. Return true if it is set. */
bool hwtimer_rings_check(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;
	bool sq_bad, cq_bad;
	u32 tail;

	lockdep_assert_held(&ctx->lock);
	/* sq_tail is not read again before the entries up to r->mark have been taken. */
	sq_bad = r->pair.sq_head == r->mark && !read_tail(r, &tail);
	hwtimer_shm_room(&r->pair, &cq_bad);
	if (hwtimer_shm_set_flag(&r->pair, HWTIMER_RING_BAD, sq_bad || cq_bad) &&
	    (sq_bad || cq_bad))
		ctx->news |= EPOLLERR;
	return sq_bad || cq_bad;
}

/*
 * Move records into the completion ring while there is room, up to @max of them. Return true if
 * there may be more to move. Those that are left wait for the next ENTER, poll or expiry;
 * HWTIMER_RING_CQ_FULL is set then. Where @max is the reason, it is set before the last record is
 * published, so a program that has read all of them sees it.
 */
bool hwtimer_rings_report_some(struct hwtimer_ctx *ctx, unsigned int max)
{
	struct ctx_rings *r = ctx->rings;
	struct hwtimer_record rec;
	unsigned int n = 0;

	lockdep_assert_held(&ctx->lock);
	while (n < max && hwtimer_ctx_has_records(ctx) && room_or_full(ctx)) {
		hwtimer_ctx_peek(ctx, &rec, 1);
		if (n + 1 == max)
			hwtimer_shm_set_flag(&r->pair, HWTIMER_RING_CQ_FULL, true);
		hwtimer_shm_put(&r->pair, &rec);
		hwtimer_ctx_take(ctx, &rec, 1);
		n++;
	}
	if (!hwtimer_ctx_has_records(ctx) && !r->unreported)
		hwtimer_shm_set_flag(&r->pair, HWTIMER_RING_CQ_FULL, false);
	if (n)
		ctx->news |= EPOLLIN | EPOLLRDNORM;
	return n == max;
}

bool hwtimer_rings_report(struct hwtimer_ctx *ctx)
{
	return hwtimer_rings_report_some(ctx, CHUNK);
}

/* Report a failed entry. Return false if there is no room, or records before it wait for room. */
static bool report_failure(struct hwtimer_ctx *ctx, const struct hwtimer_sqe *sqe, int error)
{
	struct hwtimer_record rec = {
		.id = sqe->id,
		.user_data = sqe->user_data,
		.deadline = sqe->time,
		.last = sqe->time,
		.fired = hwtimer_ctx_now(ctx),
		.kind = HWTIMER_KIND_FAILED,
		.op = sqe->op,
		.error = error,
	};

	hwtimer_rings_report(ctx);
	/* If records are left, CQ_FULL is set: the program has to kick. */
	if (hwtimer_ctx_has_records(ctx) || !room_or_full(ctx))
		return false;
	hwtimer_shm_put(&ctx->rings->pair, &rec);
	ctx->news |= EPOLLIN | EPOLLRDNORM;
	return true;
}

/*
 * If a timeout with the index in @id is pending because of an entry that is not confirmed, and the
 * program has taken this entry back, cancel the timeout and return true.
 */
static bool cancel_taken_back(struct hwtimer_ctx *ctx, u64 id)
{
	struct ctx_timeout *ct = hwtimer_table_find(&ctx->table, HWTIMER_ID_INDEX(id));
	const struct ctx_rings *r = ctx->rings;

	lockdep_assert_held(&ctx->lock);
	if (!ct || ct->state != TIMEOUT_PENDING ||
	    (u16)(ct->entry - r->confirmed) >= r->pair.sq_head - r->confirmed ||
	    !test_bit(ct->entry & r->pair.sq_mask, r->armed))
		return false;
	return hwtimer_shm_taken_back(&r->pair, ct->entry, &id) && id == hwtimer_id_of(ct) &&
	       !hwtimer_ctx_cancel(ctx, id);
}

/* Reserve a timeout for an entry. */
static struct ctx_timeout *reserve(struct hwtimer_ctx *ctx, u64 id)
{
	struct ctx_timeout *ct = hwtimer_ctx_reserve_index(ctx, id);

	if (ctx->rings->relaxed && ct == ERR_PTR(-EEXIST) && cancel_taken_back(ctx, id))
		ct = hwtimer_ctx_reserve_index(ctx, id);
	return ct;
}

/* Execute an entry. @known: it has no unknown field that is not 0. Return 0 or an error. */
static int do_entry(struct hwtimer_ctx *ctx, const struct hwtimer_sqe *sqe, bool known)
{
	struct ctx_rings *r = ctx->rings;
	struct ctx_timeout *ct;
	u64 deadline;
	int ret;

	if (sqe->op == HWTIMER_OP_NOP)
		return 0;
	if (!known)
		return -E2BIG;
	if (sqe->flags & ~HWTIMER_SQE_QUIET)
		return -EINVAL;
	switch (sqe->op) {
	case HWTIMER_OP_SCHEDULE:
		ct = reserve(ctx, sqe->id);
		if (IS_ERR(ct))
			return PTR_ERR(ct);
		ct->entry = r->pair.sq_head;
		ret = hwtimer_ctx_arm(ctx, ct, 0, hwtimer_ctx_deadline(ctx, 0, sqe->time),
				      sqe->user_data, NULL);
		deadline = hwtimer_deadline(&ct->timeout);
		if (!ret && deadline > r->mark_ns + SOON * hwtimer_wheel_tick_ns(ctx->wheel))
			r->soonest = min(r->soonest, deadline - r->mark_ns);
		return ret;
	case HWTIMER_OP_TOUCH:
		return hwtimer_ctx_touch(ctx, sqe->id, 0,
					 hwtimer_ctx_deadline(ctx, 0, sqe->time));
	case HWTIMER_OP_CANCEL:
		return sqe->time ? -EINVAL : hwtimer_ctx_cancel(ctx, sqe->id);
	default:
		return -EINVAL;
	}
}

/* Return true if there is an entry to take. Reads sq_tail if all entries known so far are taken. */
static bool submitted(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;

	if (r->pair.sq_head != r->mark)
		return true;
	/* [WRITE_ONCE: model ring-submit-seen-late] */
	WRITE_ONCE(r->seen, r->mark_ns);
	hwtimer_step_locked();
	r->mark_ns = hwtimer_wheel_now(ctx->wheel);
	/*
	 * Read sq_tail after the clock: it then includes everything submitted before mark_ns.
	 * [smp_rmb: ring-mark-broken-rmb; after WRITE_ONCE]
	 */
	smp_rmb();
	if (!read_tail(r, &r->mark)) {
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

/* Take the next entry. Return false if there is none, or its failure cannot be reported yet. */
static bool take_entry(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;
	struct hwtimer_sqe sqe;
	bool known;
	int ret;

	/* [lockdep_assert_held: claim-doorbell-broken-lock] */
	lockdep_assert_held(&ctx->lock);
	WRITE_ONCE(r->stuck, false);
	if (!submitted(ctx))
		return false;
	if (r->pair.sq_head == r->claimed) {
		r->claimed += min(r->mark - r->claimed, CHUNK);
		hwtimer_shm_claim(&r->pair, r->claimed);
	}
	/* If this entry has failed before, and only the report waits, do not do it again. */
	if (r->unreported) {
		sqe = r->failed;
		ret = r->unreported;
	} else {
		if (r->claimed - r->pair.sq_head > AHEAD)
			hwtimer_ctx_prefetch(ctx, hwtimer_shm_ahead(&r->pair, AHEAD));
		/* [hwtimer_shm_get: claim-broken-late; after hwtimer_shm_claim] */
		known = hwtimer_shm_get(&r->pair, &sqe);
		ret = do_entry(ctx, &sqe, known);
		if (r->relaxed)
			__assign_bit(r->pair.sq_head & r->pair.sq_mask, r->armed,
				     !ret && sqe.op == HWTIMER_OP_SCHEDULE);
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

/* Return how many of the entries before @end, which were taken, are not confirmed. */
static u32 unconfirmed(const struct ctx_rings *r, u32 end)
{
	/* Another task may have confirmed more. */
	return max((s32)(end - r->confirmed), 0);
}

/* The entries before @end are confirmed: the program may reuse their places. */
static void set_confirmed(struct ctx_rings *r, u32 end)
{
	r->confirmed = end;
	/* An old one must not seem to be ahead when indexes wrap. */
	if (!unconfirmed(r, r->grace_end))
		r->grace_end = end;
	hwtimer_shm_taken(&r->pair, end);
}

/*
 * Confirm the entries before @end. They were taken, and whatever the program did to them before
 * that is visible. The lock is dropped now and then. As the worker takes few entries per tick, it
 * has few to confirm.
 */
static void confirm(struct hwtimer_ctx *ctx, u32 end) __must_hold(&ctx->lock)
{
	struct ctx_rings *r = ctx->rings;
	u32 n, i, next;
	u64 id;

	lockdep_assert_held(&ctx->lock);
	while (unconfirmed(r, end)) {
		/* Do not go beyond the end of the bitmap. */
		i = r->confirmed & r->pair.sq_mask;
		n = min3(unconfirmed(r, end), CHUNK, r->pair.sq_mask + 1 - i);
		next = i + n;
		for_each_set_bit_from(i, r->armed, next)
			if (hwtimer_shm_taken_back(&r->pair, i, &id))
				cancel_taken_back(ctx, id);
		set_confirmed(r, r->confirmed + n);
		hwtimer_ctx_unlock(ctx);
		cond_resched();
		hwtimer_ctx_lock(ctx);
	}
}

/*
 * Take up to @max entries of the submission ring, and return how many. Called without the lock.
 * Other tasks may take entries at the same time; all are taken in order. @final: confirm them, too:
 * all earlier ones are confirmed, and the program changes none meanwhile.
 */
static unsigned int take_entries(struct hwtimer_ctx *ctx, unsigned int max, bool final)
{
	struct ctx_rings *r = ctx->rings;
	unsigned int n = 0, end;
	bool more = true;

	while (more && n < max) {
		end = min(n + CHUNK, max);
		hwtimer_ctx_lock(ctx);
		while (n < end && (more = take_entry(ctx)))
			n++;
		if (final)
			set_confirmed(r, r->pair.sq_head);
		hwtimer_ctx_unlock(ctx);
		cond_resched();
	}
	if (n)
		trace_hwtimer_dev_take(ctx, n);
	return n;
}

/*
 * Take everything that was submitted up to now: the entries found by the last read of sq_tail,
 * those found by reading it now, and one more call of submitted(), which updates @seen. The limit
 * ends the loop even if the program keeps submitting.
 */
static unsigned int take_all(struct hwtimer_ctx *ctx, bool final)
{
	return take_entries(ctx, 2 * (ctx->rings->pair.sq_mask + 1) + 1, final);
}

/*
 * The same in an ioctl. With HWTIMER_RINGS_RELAXED, the program neither submits nor takes back
 * meanwhile, so that all entries can be confirmed at once.
 */
unsigned int hwtimer_rings_take_all(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;

	if (r->relaxed) {
		hwtimer_ctx_lock(ctx);
		confirm(ctx, r->pair.sq_head);
		hwtimer_ctx_unlock(ctx);
	}
	return take_all(ctx, true);
}

/* Return true if something submitted before @deadline may not have been taken yet. */
bool hwtimer_rings_unseen(const struct ctx_rings *r, u64 deadline)
{
	/* [READ_ONCE: model ring-submit-without-check-at-expiry] */
	return deadline > READ_ONCE(r->seen);
}

/* Like hwtimer_rings_unseen(), but false if no entry can be taken, so that waiting is no use. */
bool hwtimer_rings_await(const struct ctx_rings *r, u64 deadline)
{
	lockdep_assert_held(&r->ctx->lock);
	return !r->stuck && hwtimer_rings_unseen(r, deadline);
}

/* Begin a grace period, after which the entries taken so far can be confirmed. */
static void begin_grace(struct ctx_rings *r)
{
	/* [start_poll_synchronize_rcu: claim-grace-broken-early ring-rest-broken-early] */
	r->grace = start_poll_synchronize_rcu();
	r->grace_end = r->pair.sq_head;
}

/* Arm the next poll for @at, or none for HWTIMER_RING_IDLE, and publish sleep_until. */
static void set_next_poll(struct hwtimer_ctx *ctx, u64 at)
{
	u64 tick = hwtimer_wheel_tick_ns(ctx->wheel), until = at, relaxed;
	struct ctx_rings *r = ctx->rings;

	lockdep_assert_held(&ctx->lock);
	/* hwtimer_schedule_at() fails only while the context is being closed. */
	if (at != HWTIMER_RING_IDLE) {
		hwtimer_schedule_at(&r->poll, at);
		until += SLEEP_MARGIN * tick;
	}
	r->poll_at = at;
	r->resting = false;
	until = hwtimer_ctx_to_program(ctx, until);
	/* If CLOCK_REALTIME is set, old times are worth nothing. */
	if (!r->relaxed || ctx->clock ||
	    check_add_overflow(until, RELAXED_NS + RELAXED_TICKS * tick, &relaxed))
		relaxed = HWTIMER_RING_IDLE;
	hwtimer_shm_set_sleep(&r->pair, until, relaxed);
}

/*
 * Poll the submission ring again at @at. But if something was submitted meanwhile, the program may
 * have relied on the old sleep_until: then poll at the next tick. That is before the old
 * sleep_until, which is three ticks after the old poll_at, as a poll runs less than two ticks late.
 */
static void poll_again_at(struct hwtimer_ctx *ctx, u64 at)
{
	struct ctx_rings *r = ctx->rings;
	u32 tail;

	set_next_poll(ctx, at);
	/*
	 * Pairs with the program's full barrier between sq_tail and sleep_until.
	 * [smp_mb: ring-bell-broken-kernel; after set_next_poll]
	 */
	smp_mb();
	if (!r->stuck && read_tail(r, &tail) && tail != r->pair.sq_head)
		set_next_poll(ctx, hwtimer_wheel_now(ctx->wheel));
}

/*
 * CLOCK_REALTIME was set, so sleep_until has to be another time of day. A program that read the old
 * one may have kicked in vain, or not kicked for a deadline that is near on the clock as it is now.
 * In the latter case this finds the entry, which is late by the ticks until the context follows the
 * clock. An old HWTIMER_RING_IDLE is still right.
 */
void hwtimer_rings_clock_set(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;

	lockdep_assert_held(&ctx->lock);
	if (r->poll_at != HWTIMER_RING_IDLE)
		poll_again_at(ctx, r->poll_at);
}

/*
 * Stop polling: from now on, the program has to kick for any deadline. With
 * HWTIMER_RINGS_RELAXED it may not know that yet, so go on polling until a poll comes after a
 * grace period.
 */
static void rest(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;
	bool resting = r->resting;
	/*
	 * Look at this before sq_tail is read for the last time.
	 * [poll_state_synchronize_rcu: ring-rest-broken-early]
	 */
	bool over = resting && poll_state_synchronize_rcu(r->grace);

	poll_again_at(ctx, HWTIMER_RING_IDLE);
	if (!r->relaxed || r->stuck || r->poll_at != HWTIMER_RING_IDLE)
		return;
	if (over && r->confirmed == r->pair.sq_head)
		return;
	if (!resting)
		begin_grace(r);
	r->resting = true;
	r->poll_at = hwtimer_wheel_now(ctx->wheel) + r->interval;
	hwtimer_schedule_at(&r->poll, r->poll_at);
}

/*
 * In the worker: confirm the entries whose grace period is over, and begin another one for those
 * that were taken meanwhile.
 */
static void confirm_in_worker(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;

	hwtimer_ctx_lock(ctx);
	/* [poll_state_synchronize_rcu: claim-grace-broken-early] */
	if (unconfirmed(r, r->grace_end) && poll_state_synchronize_rcu(r->grace))
		confirm(ctx, r->grace_end);
	if (r->confirmed != r->pair.sq_head && !unconfirmed(r, r->grace_end))
		begin_grace(r);
	/* Taken by an expiry while the rings are not polled: poll until they are confirmed. */
	if (r->confirmed != r->pair.sq_head && r->poll_at == HWTIMER_RING_IDLE)
		rest(ctx);
	hwtimer_ctx_unlock(ctx);
}

/*
 * Take submissions in the worker. On a shared wheel, take at most the context's budget per tick,
 * so that other contexts of the wheel are served.
 */
void hwtimer_rings_take_in_worker(struct hwtimer_ctx *ctx)
{
	struct ctx_rings *r = ctx->rings;
	u64 now = hwtimer_wheel_now(ctx->wheel);

	if (ctx->own_wheel) {
		take_all(ctx, !r->relaxed);
	} else {
		if (now >= r->refill) {
			/* Half a tick: the worker may run a little earlier within the next tick. */
			r->refill = now + hwtimer_wheel_tick_ns(ctx->wheel) / 2;
			r->budget = TAKE_BUDGET;
		}
		r->budget -= take_entries(ctx, r->budget, !r->relaxed);
	}
	if (r->relaxed)
		confirm_in_worker(ctx);
}

/* Poll the submission ring, and choose the time of the next poll. The callback of r->poll. */
static void poll(struct hwtimer_timeout *t)
{
	struct ctx_rings *r = container_of(t, struct ctx_rings, poll);
	struct hwtimer_ctx *ctx = r->ctx;
	u64 tick = hwtimer_wheel_tick_ns(ctx->wheel);

	hwtimer_rings_take_in_worker(ctx);
	hwtimer_ctx_lock(ctx);
	hwtimer_rings_report(ctx);
	r->idle_polls = r->took ? 0 : r->idle_polls + 1;
	r->took = false;
	r->interval = min3(2 * r->interval, r->soonest / 2, (u64)MAX_INTERVAL_NS);
	r->interval = max(r->interval, tick);
	r->soonest = U64_MAX;
	if (r->stuck || r->idle_polls >= IDLE_POLLS)
		rest(ctx);
	else
		poll_again_at(ctx, hwtimer_wheel_now(ctx->wheel) + r->interval);
	hwtimer_ctx_unlock(ctx);
}

/* Return true if records are in the ring, or a failure waits to be reported. Lockless. */
bool hwtimer_rings_unread(const struct ctx_rings *r)
{
	return READ_ONCE(r->unreported) || hwtimer_shm_unread(&r->pair);
}

/* HWTIMER_IOC_ENTER: the program kicks. Called without the lock. */
int hwtimer_rings_enter(struct hwtimer_ctx *ctx, u32 *taken)
{
	struct ctx_rings *r = ctx->rings;
	u64 tick = hwtimer_wheel_tick_ns(ctx->wheel), at;
	bool bad;

	*taken = hwtimer_rings_take_all(ctx);
	hwtimer_ctx_lock(ctx);
	/* The program may read and make room meanwhile, so this may move very many records. */
	while (hwtimer_rings_report(ctx) && !fatal_signal_pending(current)) {
		hwtimer_ctx_unlock(ctx);
		cond_resched();
		hwtimer_ctx_lock(ctx);
	}
	bad = hwtimer_rings_check(ctx);
	r->interval = max(min(r->interval, r->soonest / 2), tick);
	r->idle_polls = 0;
	at = hwtimer_wheel_now(ctx->wheel) + r->interval;
	if (!r->stuck && (r->poll_at > at || r->resting))
		poll_again_at(ctx, at);
	hwtimer_ctx_unlock(ctx);
	return bad ? -EBADFD : 0;
}

/* Make the rings of a context. Called without the lock; may sleep. */
struct ctx_rings *hwtimer_rings_create(struct hwtimer_ctx *ctx, const struct hwtimer_rings *arg)
{
	struct ctx_rings *r = kzalloc(sizeof(*r), GFP_TABLE);
	unsigned long kib;
	int ret = -ENOMEM;

	if (!r)
		return ERR_PTR(-ENOMEM);
	r->ctx = ctx;
	r->relaxed = arg->flags & HWTIMER_RINGS_RELAXED;
	r->poll_at = HWTIMER_RING_IDLE;
	r->soonest = U64_MAX;
	r->interval = MAX_INTERVAL_NS;
	hwtimer_init(&r->poll, ctx->wheel, poll);
	if (arg->flags & HWTIMER_RINGS_EVENTFD) {
		r->eventfd = eventfd_ctx_fdget(arg->eventfd);
		if (IS_ERR(r->eventfd)) {
			ret = PTR_ERR(r->eventfd);
			r->eventfd = NULL;
			goto err;
		}
	}
	hwtimer_shm_plan(&r->pair, arg);
	kib = hwtimer_shm_size(&r->pair) / 1024;
	ret = -EDQUOT;
	if (!hwtimer_user_charge(ctx->user, HWTIMER_LIMIT_RING_KIB, kib))
		goto err;
	r->kib = kib;
	ret = -ENOMEM;
	if (r->relaxed)
		r->armed = bitmap_zalloc(r->pair.sq_mask + 1, GFP_TABLE);
	if ((r->relaxed && !r->armed) || hwtimer_shm_create(&r->pair, arg, GFP_TABLE))
		goto err;
	return r;

err:
	hwtimer_rings_free(r);
	return ERR_PTR(ret);
}
