/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: how a context of /dev/hwtimer with rings takes submissions and reports through rings.
 */
#ifndef DEV_RINGS_H
#define DEV_RINGS_H

#include "ctx.h"
#include "shm.h"

struct eventfd_ctx;

/**
 * struct ctx_rings - the rings of a context, and when they are polled
 * @ctx: the context. Constant
 * @eventfd: signalled when records were put into the ring; or NULL. Constant
 * @kib: memory that is charged to the user, in KiB. Constant
 * @relaxed: HWTIMER_RINGS_RELAXED. Constant
 * @poll: the timeout by which the worker polls the submission ring
 * @pair: the rings. This and all members up to @interval are protected by ctx->lock
 * @poll_at: when @poll is due, in ns; HWTIMER_RING_IDLE: it is not armed
 * @mark: the program's sq_tail as last read: entries before it are in the ring
 * @mark_ns: when sq_tail was last read, on the wheel's clock
 * @claimed: the program knows that entries before this one may have been read
 * @confirmed: entries before this one cannot be taken back any more: the program may reuse their
 *	places
 * @armed: bitmap of the taken entries that have scheduled a timeout, by index modulo the size of
 *	the ring. This and all up to @resting are used with @relaxed only
 * @grace: a grace period, as start_poll_synchronize_rcu() returned it
 * @grace_end: entries before this one were taken when @grace began
 * @resting: sleep_until is HWTIMER_RING_IDLE, but @poll is still armed
 * @seen: everything submitted before this time was taken, in ns. May be read without the lock
 * @unreported: error of the entry at the head, if its record waits for room; or 0
 * @failed: a copy of that entry; later changes by the program have no effect
 * @stuck: no entry can be taken, because of @unreported or a bad sq_tail
 * @took: an entry was taken since @poll last ran
 * @idle_polls: how many runs of @poll in a row found that no entry was taken
 * @soonest: the shortest time to a deadline among timeouts scheduled since @poll last ran, in ns;
 *	those that need a kick anyway are left out
 * @interval: time between polls, in ns
 * @refill: when the budget is renewed, in ns. This and @budget are used by the worker only
 * @budget: how many entries the worker may take until then
 */
struct ctx_rings {
	struct hwtimer_ctx	*ctx;
	struct eventfd_ctx	*eventfd;
	unsigned long		kib;
	bool			relaxed;
	struct hwtimer_timeout	poll;

	struct hwtimer_shm	pair;
	u64			poll_at;
	u32			mark;
	u32			claimed;
	u32			confirmed;
	unsigned long		*armed;
	unsigned long		grace;
	u32			grace_end;
	bool			resting;
	u64			mark_ns;
	u64			seen;
	int			unreported;
	struct hwtimer_sqe	failed;
	bool			stuck;
	bool			took;
	unsigned int		idle_polls;
	u64			soonest;
	u64			interval;

	u64			refill;
	unsigned int		budget;
};

/* The rings, or NULL. Lockless. */
static inline struct ctx_rings *hwtimer_rings_of(const struct hwtimer_ctx *ctx)
{
	/* Pairs with rings_publish(). [smp_load_acquire: dev-publish-broken-acquire] */
	return smp_load_acquire(&ctx->rings);
}

/* Called without ctx->lock. */
struct ctx_rings *hwtimer_rings_create(struct hwtimer_ctx *ctx, const struct hwtimer_rings *arg);
void hwtimer_rings_free(struct ctx_rings *r);
unsigned int hwtimer_rings_take_all(struct hwtimer_ctx *ctx);
void hwtimer_rings_take_in_worker(struct hwtimer_ctx *ctx);
int hwtimer_rings_enter(struct hwtimer_ctx *ctx, u32 *taken);
bool hwtimer_rings_unread(const struct ctx_rings *r);
bool hwtimer_rings_unseen(const struct ctx_rings *r, u64 deadline);

/* Called under ctx->lock. */
bool hwtimer_rings_await(const struct ctx_rings *r, u64 deadline);
bool hwtimer_rings_report_some(struct hwtimer_ctx *ctx, unsigned int max);
bool hwtimer_rings_report(struct hwtimer_ctx *ctx);
bool hwtimer_rings_check(struct hwtimer_ctx *ctx);
void hwtimer_rings_clock_set(struct hwtimer_ctx *ctx);

/* Call this after timeouts may have become done: it fills the completion ring, if there is one. */
static inline void hwtimer_report(struct hwtimer_ctx *ctx)
{
	lockdep_assert_held(&ctx->lock);
	if (ctx->rings)
		hwtimer_rings_report(ctx);
	hwtimer_ctx_end_if_over(ctx);
}

/*
 * The same for a loop that adds at most one record each time, and holds the lock for a page of
 * timeouts. It moves two, so that records which had no room before do not keep new ones waiting.
 */
static inline void hwtimer_report_one(struct hwtimer_ctx *ctx)
{
	lockdep_assert_held(&ctx->lock);
	if (ctx->rings)
		hwtimer_rings_report_some(ctx, 2);
	hwtimer_ctx_end_if_over(ctx);
}

#endif /* DEV_RINGS_H */
