/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the timeouts of an open /dev/hwtimer, and what becomes of them. How a program
 * asks and is told is not known here.
 */
#ifndef DEV_CTX_H
#define DEV_CTX_H

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

#include "../hwtimer.h"
#include "../hwtimer_period.h"
#include "../uapi/linux/hwtimer.h"
#include "user.h"

#define ID_INDEX_BITS	24
#define ID_INDEX_MASK	GENMASK_ULL(ID_INDEX_BITS - 1, 0)
#define ID_LAST_GEN	(U64_MAX >> ID_INDEX_BITS)
#define MAX_CAP		BIT_ULL(ID_INDEX_BITS)

/* A program at its cgroup's limit gets -ENOMEM, not the OOM killer. */
#define GFP_TABLE	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

enum ctx_timeout_state {
	TIMEOUT_FREE,
	TIMEOUT_RESERVED,
	TIMEOUT_PENDING,
	TIMEOUT_DONE,
};

/**
 * struct ctx_period - what a periodic timeout has beside the others
 * @period: how it comes back; constant
 * @deadline: the one that it expired for last
 * @fired: when that was
 * @unread: how often it expired without that having been read
 * @run: how many of these have a record each; see dev/ctx.c
 * @skipped: deadlines skipped since it expired last
 * @handed_back: when it was handed back
 *
 * Protected by ctx->lock.
 */
struct ctx_period {
	struct hwtimer_period	period;
	u64			deadline;
	u64			fired;
	u64			unread;
	u64			run;
	u64			skipped;
	u64			handed_back;
};

/**
 * struct ctx_timeout - one timeout of a context
 * @timeout: the timeout
 * @ctx: whose it is; constant
 * @next: the next free or done one; protected by ctx->lock, as all that follows
 * @id: its present id, or its last one
 * @user_data: the program's
 * @deadline: in ns, or HWTIMER_NEVER
 * @fired: when it expired or was handed back; TIMEOUT_DONE, not periodic
 * @period: periodic only
 * @state: enum ctx_timeout_state
 * @kind: HWTIMER_EXPIRED or HWTIMER_HANDED_BACK; TIMEOUT_DONE
 * @periodic: it is; TIMEOUT_PENDING and TIMEOUT_DONE
 */
struct ctx_timeout {
	struct hwtimer_timeout	timeout;
	struct hwtimer_ctx		*ctx;
	struct ctx_timeout	*next;
	u64			id;
	u64			user_data;
	u64			deadline;
	union {
		u64			fired;
		struct ctx_period	*period;
	};
	u8			state;
	u8			kind;
	bool			periodic;
};

static_assert(sizeof(void *) != 8 || sizeof(struct ctx_timeout) == 104);

struct ctx_rings;
struct eventfd_ctx;
struct hwtimer_shared;

/**
 * struct hwtimer_ctx - an open file description
 * @user: who opened it
 * @expired: the callback of its timeouts; constant
 * @control: one SETUP or STOP at a time
 * @read_lock: one reader at a time takes records off @done
 * @wait: readers and pollers
 * @table: all its timeouts by index; empty with @timeouts
 * @held: timeouts that a wheel may hold after the close, and one for the close
 * @lock: protects what follows
 * @wheel: the wheel in use, "dev" until one is chosen; constant once @used is set
 * @shared: a reference to the shared wheel that was chosen; or NULL. @wheel, unless @own_wheel
 * @own_wheel: @wheel belongs to this context
 * @set_up: SETUP was called
 * @used: RINGS, or a SCHEDULE that got far enough: wheel and rings are chosen
 * @timeouts: with rings: its timeouts by the slot that the program chose; else NULL.
 *	Constant once @used is set, as the next three
 * @nr_timeouts: how many there are
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
 * @live: timeouts not TIMEOUT_FREE
 * @stats: what STATS tells
 * @late: expiries more than two ticks after their deadlines, be these past already when armed
 */
struct hwtimer_ctx {
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
	struct ctx_timeout	*timeouts;
	u32			nr_timeouts;
	struct ctx_rings	*rings;
	struct eventfd_ctx	*eventfd;
	__poll_t		news;
	bool			stopped;
	bool			ended;
	bool			closed;
	struct ctx_timeout	*free;
	struct ctx_timeout	*done;
	struct ctx_timeout	**done_tail;
	u64			cap;
	u64			live;
	struct hwtimer_stats	stats;
	u64			late;
};

/* Not under the lock. */
int hwtimer_ctx_cache_create(void);
void hwtimer_ctx_cache_destroy(void);
void hwtimer_ctx_wake(struct hwtimer_ctx *ctx, __poll_t news);
void hwtimer_ctx_free_timeout(struct hwtimer_ctx *ctx, struct ctx_timeout *dt);
void hwtimer_ctx_free_table(struct hwtimer_ctx *ctx);
struct ctx_timeout *hwtimer_ctx_next_timeout(struct hwtimer_ctx *ctx, unsigned long *index);
bool hwtimer_ctx_ended(struct hwtimer_ctx *ctx);
struct ctx_period *hwtimer_ctx_make_period(struct hwtimer_ctx *ctx,
					   const struct hwtimer_schedule *arg);
void hwtimer_ctx_free_period(struct hwtimer_ctx *ctx, struct ctx_period *p);
struct ctx_timeout *hwtimer_ctx_reserve(struct hwtimer_ctx *ctx, u64 id);
u64 hwtimer_ctx_deadline(const struct hwtimer_wheel *wheel, u32 flags, u64 time);

static inline void hwtimer_ctx_lock(struct hwtimer_ctx *ctx) __acquires(&ctx->lock)
{
	spin_lock(&ctx->lock);
}

/* Drop the lock, and only then wake the waiters, who may be thousands. Nothing else drops it. */
static inline void hwtimer_ctx_unlock(struct hwtimer_ctx *ctx) __releases(&ctx->lock)
{
	__poll_t news = ctx->news;

	ctx->news = 0;
	spin_unlock(&ctx->lock);
	if (unlikely(news))
		hwtimer_ctx_wake(ctx, news);
}

/* Under the lock. */
struct ctx_timeout *hwtimer_ctx_reserve_index(struct hwtimer_ctx *ctx, u64 id);
void hwtimer_ctx_make_free(struct hwtimer_ctx *ctx, struct ctx_timeout *dt);
int hwtimer_ctx_arm(struct hwtimer_ctx *ctx, struct ctx_timeout *dt, u64 deadline, u64 user_data,
		    struct ctx_period *period);
struct ctx_timeout *hwtimer_ctx_find_pending(struct hwtimer_ctx *ctx, u64 id);
int hwtimer_ctx_touch(struct hwtimer_ctx *ctx, u64 id, u64 deadline);
int hwtimer_ctx_cancel(struct hwtimer_ctx *ctx, u64 id);
void hwtimer_ctx_expire(struct hwtimer_ctx *ctx, struct ctx_timeout *dt);
void hwtimer_ctx_hand_back(struct hwtimer_ctx *ctx, struct ctx_timeout *dt);
void hwtimer_ctx_end_if_over(struct hwtimer_ctx *ctx);
unsigned int hwtimer_ctx_peek(struct hwtimer_ctx *ctx, struct hwtimer_record *records,
			      unsigned int max);
void hwtimer_ctx_take(struct hwtimer_ctx *ctx, const struct hwtimer_record *records,
		      unsigned int n);

#endif /* DEV_CTX_H */
