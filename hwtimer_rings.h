/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: how a context of /dev/hwtimer with rings takes submissions and tells of
 * what became of them.
 */
#ifndef HWTIMER_RINGS_H
#define HWTIMER_RINGS_H

#include "hwtimer_ctx.h"
#include "hwtimer_ring.h"

struct eventfd_ctx;

/**
 * struct dev_rings - what a context with rings has beside the others
 * @ctx: whose it is. Constant, as @eventfd
 * @eventfd: signalled when records came; or NULL
 * @kib: memory that is charged to the user, in KiB. Constant
 * @claims: the program is told what is about to be read. Constant
 * @look: has the worker look at the submission ring
 * @pair: the rings. Protected by ctx->lock, as all that follows up to @refill
 * @look_at: when @look comes, in ns; HWTIMER_RING_IDLE: it is not armed
 * @mark: up to here entries were there at @mark_ns
 * @mark_ns: when the program's index was looked at last, on the wheel's clock
 * @claimed: entries before this one may have been read; @claims
 * @seen: what was submitted before this was taken
 * @untold: how the entry at the head failed, which waits for room to say so; or 0
 * @failed: that entry, as it was taken: what the program makes of it since is nothing
 * @stuck: no entry can be taken, for that reason or because the ring is bad
 * @took: entries taken since @look ran
 * @vain: how often @look has found that there were none
 * @soonest: the shortest time that a timeout was submitted ahead, since @look ran
 * @interval: how far apart looks are
 * @refill: when there is a new budget; the worker's, as @budget
 * @budget: how many entries the worker may take until then
 */
struct dev_rings {
	struct dev_ctx		*ctx;
	struct eventfd_ctx	*eventfd;
	unsigned long		kib;
	bool			claims;
	struct hwtimer_timeout	look;

	struct hwtimer_ring_pair pair;
	u64			look_at;
	u32			mark;
	u32			claimed;
	u64			mark_ns;
	u64			seen;
	int			untold;
	struct hwtimer_sqe	failed;
	bool			stuck;
	bool			took;
	unsigned int		vain;
	u64			soonest;
	u64			interval;

	u64			refill;
	unsigned int		budget;
};

/* Without the lock: the rings, or NULL. */
static inline struct dev_rings *rings_of(const struct dev_ctx *ctx)
{
	/* Pairs with dev_rings(). */
	return smp_load_acquire(&ctx->rings);
}

/* Not under the lock. */
struct dev_rings *rings_make(struct dev_ctx *ctx, const struct hwtimer_rings *arg);
void rings_free(struct dev_rings *r);
unsigned int rings_take_all(struct dev_ctx *ctx);
void rings_take_in_worker(struct dev_ctx *ctx);
int rings_enter(struct dev_ctx *ctx, u32 *taken);
bool rings_unread(const struct dev_rings *r);
bool rings_unseen(const struct dev_rings *r, u64 deadline);

/* Under the lock. */
bool rings_await(const struct dev_rings *r, u64 deadline);
bool rings_tell(struct dev_ctx *ctx);
bool rings_check(struct dev_ctx *ctx);

#endif /* HWTIMER_RINGS_H */
