/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the timeouts of an open /dev/hwtimer, and what becomes of them. How a program
 * asks and is told is not known here.
 */
#ifndef HWTIMER_CTX_H
#define HWTIMER_CTX_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/gfp.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "hwtimer.h"
#include "hwtimer_period.h"
#include "hwtimer_user.h"
#include "uapi/linux/hwtimer.h"

#define ID_INDEX_BITS	24
#define ID_INDEX_MASK	GENMASK_ULL(ID_INDEX_BITS - 1, 0)
#define ID_LAST_GEN	(U64_MAX >> ID_INDEX_BITS)
#define MAX_CAP		BIT_ULL(ID_INDEX_BITS)

/* A program at its cgroup's limit gets -ENOMEM, not the OOM killer. */
#define GFP_TABLE	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

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
 * @run: how many of these have a record each; see hwtimer_ctx.c
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

struct dev_rings;
struct eventfd_ctx;
struct hwtimer_shared;

/**
 * struct dev_ctx - an open file description
 * @user: who opened it
 * @expired: the callback of its timeouts; constant
 * @control: one SETUP or STOP at a time
 * @read_lock: one reader at a time takes records off @done
 * @wait: readers and pollers
 * @table: all its timeouts by index; empty with @slots
 * @held: timeouts that a wheel may hold after the close, and one for the close
 * @lock: protects what follows
 * @wheel: the wheel in use, "dev" until one is chosen; constant once @used is set
 * @shared: a reference to the shared wheel that was chosen; or NULL. @wheel, unless @own_wheel
 * @own_wheel: @wheel belongs to this context
 * @set_up: SETUP was called
 * @used: RINGS, or a SCHEDULE that got far enough: wheel and rings are chosen
 * @slots: with rings: its timeouts by the slot that the program chose; else NULL.
 *	Constant once @used is set, as the next three
 * @nr_slots: how many there are
 * @rings: the rings; else NULL
 * @eventfd: that of @rings, signalled when records come; or NULL
 * @news: poll events that waiters are woken for when the lock is dropped
 * @stopped: STOP was called, or the file is closed
 * @ended: and nothing is pending any more
 * @closed: the file is closed: timeouts are being freed, and nobody reads
 * @free: timeouts to use again, last in first out
 * @done: timeouts with records to read, oldest first
 * @done_tail: where the next record is linked
 * @cap: most live timeouts
 * @live: timeouts not DEV_FREE
 * @stats: what STATS tells
 * @late: expiries more than two ticks after their deadlines, be these past already when armed
 */
struct dev_ctx {
	struct hwtimer_user	*user;
	hwtimer_fn_t		expired;
	struct mutex		control;	/* one SETUP or STOP at a time */
	struct mutex		read_lock;	/* one reader at a time */
	wait_queue_head_t	wait;
	struct xarray		table;
	refcount_t		held;

	spinlock_t		lock;		/* of what follows */
	struct hwtimer_wheel	*wheel;
	struct hwtimer_shared	*shared;
	bool			own_wheel;
	bool			set_up;
	bool			used;
	struct dev_timeout	*slots;
	u32			nr_slots;
	struct dev_rings	*rings;
	struct eventfd_ctx	*eventfd;
	__poll_t		news;
	bool			stopped;
	bool			ended;
	bool			closed;
	struct dev_timeout	*free;
	struct dev_timeout	*done;
	struct dev_timeout	**done_tail;
	u64			cap;
	u64			live;
	struct hwtimer_stats	stats;
	u64			late;
};

/* Not under the lock. */
int ctx_cache_create(void);
void ctx_cache_destroy(void);
void ctx_wake(struct dev_ctx *ctx, __poll_t news);
void ctx_free_timeout(struct dev_ctx *ctx, struct dev_timeout *dt);
void ctx_free_table(struct dev_ctx *ctx);
struct dev_timeout *ctx_next_timeout(struct dev_ctx *ctx, unsigned long *index);
bool ctx_ended(struct dev_ctx *ctx);
struct dev_period *ctx_make_period(struct dev_ctx *ctx,
				   const struct hwtimer_schedule *arg);
void ctx_free_period(struct dev_ctx *ctx, struct dev_period *p);
struct dev_timeout *ctx_reserve(struct dev_ctx *ctx, u64 id);
u64 ctx_deadline(const struct hwtimer_wheel *wheel, u32 flags, u64 time);

static inline void ctx_lock(struct dev_ctx *ctx) __acquires(&ctx->lock)
{
	spin_lock(&ctx->lock);
}

/* Drop the lock, and only then wake the waiters, who may be thousands. Nothing else drops it. */
static inline void ctx_unlock(struct dev_ctx *ctx) __releases(&ctx->lock)
{
	__poll_t news = ctx->news;

	ctx->news = 0;
	spin_unlock(&ctx->lock);
	if (unlikely(news))
		ctx_wake(ctx, news);
}

/* Under the lock. */
struct dev_timeout *ctx_reserve_slot(struct dev_ctx *ctx, u64 id);
void ctx_make_free(struct dev_ctx *ctx, struct dev_timeout *dt);
int ctx_arm(struct dev_ctx *ctx, struct dev_timeout *dt, u64 deadline, u64 user_data,
	    struct dev_period *period);
struct dev_timeout *ctx_find_pending(struct dev_ctx *ctx, u64 id);
int ctx_touch(struct dev_ctx *ctx, u64 id, u64 deadline);
int ctx_cancel(struct dev_ctx *ctx, u64 id);
void ctx_expire(struct dev_ctx *ctx, struct dev_timeout *dt);
void ctx_hand_back(struct dev_ctx *ctx, struct dev_timeout *dt);
void ctx_end_if_over(struct dev_ctx *ctx);
unsigned int ctx_peek(struct dev_ctx *ctx, struct hwtimer_record *records,
		      unsigned int max);
void ctx_take(struct dev_ctx *ctx, const struct hwtimer_record *records, unsigned int n);

#endif /* HWTIMER_CTX_H */
