/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: how a context of /dev/hwtimer with rings takes submissions and tells of
 * what became of them.
 */
#ifndef DEV_RINGS_H
#define DEV_RINGS_H

#include "ctx.h"
#include "shm.h"

struct eventfd_ctx;

/**
 * struct ctx_rings - what a context with rings has beside the others
 * @ctx: whose it is. Constant, as @eventfd
 * @eventfd: signalled when records came; or NULL
 * @kib: memory that is charged to the user, in KiB. Constant
 * @claims: the program is told what is about to be read. Constant
 * @poll: has the worker look at the submission ring
 * @pair: the rings. Protected by ctx->lock, as all that follows up to @refill
 * @poll_at: when @poll comes, in ns; HWTIMER_RING_IDLE: it is not armed
 * @mark: up to here entries were there at @mark_ns
 * @mark_ns: when the program's index was looked at last, on the wheel's clock
 * @claimed: entries before this one may have been read; @claims
 * @seen: what was submitted before this was taken
 * @unreported: how the entry at the head failed, which waits for room to say so; or 0
 * @failed: that entry, as it was taken: what the program makes of it since is nothing
 * @stuck: no entry can be taken, for that reason or because the ring is bad
 * @took: entries taken since @poll ran
 * @in_vain: how often @poll has found that there were none
 * @soonest: the shortest time that a timeout was submitted ahead, since @poll ran
 * @interval: how far apart looks are
 * @refill: when there is a new budget; the worker's, as @budget
 * @budget: how many entries the worker may take until then
 */
struct ctx_rings {
	struct hwtimer_ctx		*ctx;
	struct eventfd_ctx	*eventfd;
	unsigned long		kib;
	bool			claims;
	struct hwtimer_timeout	poll;

	struct hwtimer_shm pair;
	u64			poll_at;
	u32			mark;
	u32			claimed;
	u64			mark_ns;
	u64			seen;
	int			unreported;
	struct hwtimer_sqe	failed;
	bool			stuck;
	bool			took;
	unsigned int		in_vain;
	u64			soonest;
	u64			interval;

	u64			refill;
	unsigned int		budget;
};

/* Without the lock: the rings, or NULL. */
static inline struct ctx_rings *hwtimer_rings_of(const struct hwtimer_ctx *ctx)
{
	/* Pairs with dev_rings(). */
	return smp_load_acquire(&ctx->rings);
}

/* Not under the lock. */
struct ctx_rings *hwtimer_rings_create(struct hwtimer_ctx *ctx, const struct hwtimer_rings *arg);
void hwtimer_rings_free(struct ctx_rings *r);
unsigned int hwtimer_rings_take_all(struct hwtimer_ctx *ctx);
void hwtimer_rings_take_in_worker(struct hwtimer_ctx *ctx);
int hwtimer_rings_enter(struct hwtimer_ctx *ctx, u32 *taken);
bool hwtimer_rings_unread(const struct ctx_rings *r);
bool hwtimer_rings_unseen(const struct ctx_rings *r, u64 deadline);

/* Under the lock. */
bool hwtimer_rings_await(const struct ctx_rings *r, u64 deadline);
bool hwtimer_rings_report(struct hwtimer_ctx *ctx);
bool hwtimer_rings_check(struct hwtimer_ctx *ctx);

/* Tell the program what it does not know yet: for whoever may have made a timeout done. */
static inline void hwtimer_report(struct hwtimer_ctx *ctx)
{
	lockdep_assert_held(&ctx->lock);
	if (ctx->rings)
		hwtimer_rings_report(ctx);
	hwtimer_ctx_end_if_over(ctx);
}

#endif /* DEV_RINGS_H */
