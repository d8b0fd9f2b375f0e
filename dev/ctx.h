/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the timeouts of an open /dev/hwtimer, and their states. This part does not know how a
 * program submits operations and reads records.
 */
#ifndef DEV_CTX_H
#define DEV_CTX_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/poll.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/time.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "../hwtimer.h"
#include "../hwtimer_period.h"
#include "../uapi/linux/hwtimer.h"
#include "dates.h"
#include "table.h"
#include "user.h"

/**
 * struct ctx_period - additional state of a periodic timeout
 * @period: period, misfire limit and policy; constant
 * @done_next: the next timeout on ctx->done
 * @user_data: from the program, copied to records
 * @next: the deadline on the wheel's clock: in ns, or HWTIMER_NEVER. Exact even if it is before the
 *	wheel was created
 * @deadline: the deadline of the last expiry. This and the following times are on the program's
 *	clock
 * @last: the last deadline that was met or missed: @deadline or a later one
 * @fired: when the last expiry happened
 * @unread: number of expiries, overruns included, that have not been read
 * @run: how many of the unread expiries have a record each; see dev/ctx.c
 * @skipped: deadlines skipped since the last expiry
 *
 * Protected by ctx->lock.
 */
struct ctx_period {
	struct hwtimer_period	period;
	struct ctx_timeout	*done_next;
	u64			user_data;
	u64			next;
	u64			deadline;
	u64			last;
	u64			fired;
	u64			unread;
	u64			run;
	u64			skipped;
};

struct ctx_rings;
struct eventfd_ctx;
struct hwtimer_shared;

/**
 * struct hwtimer_ctx - an open file description
 * @user: the user who opened the file
 * @use: lets the user see the statistics of @wheel. Changed under @lock, and at the last close
 * @expired: the callback of its timeouts; constant
 * @released: their release function; constant
 * @control: serializes SETUP, RINGS and STOP
 * @size_lock: serializes changes of the size of @table
 * @read_lock: serializes readers, which take records off @done
 * @wait: waiting readers and pollers
 * @held: pages that are out of @table and not freed yet, plus one until dev_release() is done, and
 *	one while the rings' poll is being released
 * @lock: protects the members below
 * @wheel: the wheel in use, "dev" until one is chosen; constant once @used is set
 * @shared: a reference to the chosen shared wheel, or NULL. @wheel is this one, unless @own_wheel
 * @own_wheel: @wheel belongs to this context
 * @set_up: SETUP succeeded
 * @clock: on CLOCK_REALTIME: its settings, and the deadlines on it; otherwise NULL. Constant once
 *	@used is set
 * @offset_ns: how far the program's clock is ahead of the wheel's: the offset of the time namespace
 *	(constant once @used is set), or with @clock that of CLOCK_REALTIME from CLOCK_BOOTTIME
 * @used: wheel and rings are final: RINGS succeeded, or a SCHEDULE has begun to use them
 * @table: all timeouts, by the index in their ids
 * @rings: the rings, or NULL; then the kernel chooses the ids. Constant once @used is set
 * @eventfd: the eventfd of @rings, signalled when records were put there; or NULL
 * @news: poll events for which hwtimer_ctx_unlock() wakes waiters
 * @stopped: STOP was called, or the file is closed
 * @ended: @stopped, and nothing is pending any more
 * @closed: the file is closed: timeouts are being freed, and nobody reads records
 * @handed_back_ns: when it was stopped, on the program's clock
 * @spare: without rings: pages with free timeouts; those without any other are last
 * @fresh: without rings: the page of which not all timeouts have been charged, or NULL
 * @charged: how many timeouts in @table are charged; @table.nr counts those of holes, too
 * @done: timeouts with records to read, oldest first
 * @done_tail: where the next timeout is linked to @done
 * @ended_pages: pages with further records to read: struct ctx_page's ended
 * @cap: how many timeouts may be live
 * @live: timeouts that are not TIMEOUT_FREE
 * @stats: what STATS reports
 * @late: expiries more than two ticks after their deadlines, including deadlines that were past
 *	when they were armed
 */
struct hwtimer_ctx {
	struct hwtimer_user	*user;
	struct hwtimer_use	use;
	hwtimer_fn_t		expired;
	hwtimer_released_fn_t	released;
	struct mutex		control;	/* see above */
	struct mutex		size_lock;	/* see above */
	struct mutex		read_lock;	/* see above */
	wait_queue_head_t	wait;
	refcount_t		held;

	spinlock_t		lock;		/* protects the members below */
	struct hwtimer_wheel	*wheel;
	struct hwtimer_shared	*shared;
	bool			own_wheel;
	bool			set_up;
	struct ctx_clock	*clock;
	s64			offset_ns;
	bool			used;
	struct ctx_table	table;
	struct ctx_rings	*rings;
	struct eventfd_ctx	*eventfd;
	__poll_t		news;
	bool			stopped;
	bool			ended;
	bool			closed;
	u64			handed_back_ns;
	struct list_head	spare;
	struct ctx_page		*fresh;
	u32			charged;
	struct ctx_timeout	*done;
	struct ctx_timeout	**done_tail;
	struct list_head	ended_pages;
	u64			cap;
	u64			live;
	struct hwtimer_stats	stats;
	u64			late;
};

/* Called without ctx->lock. */
void hwtimer_ctx_wake(struct hwtimer_ctx *ctx, __poll_t news);
bool hwtimer_ctx_ended(struct hwtimer_ctx *ctx);
struct ctx_period *hwtimer_ctx_make_period(struct hwtimer_ctx *ctx,
					   const struct hwtimer_schedule *arg);
void hwtimer_ctx_free_period(struct hwtimer_ctx *ctx, struct ctx_period *p);
struct ctx_timeout *hwtimer_ctx_reserve(struct hwtimer_ctx *ctx, u64 id);
u64 hwtimer_ctx_deadline(const struct hwtimer_ctx *ctx, u32 flags, u64 time);
u64 hwtimer_ctx_first_deadline(const struct hwtimer_ctx *ctx, u32 flags, u64 time);
u64 hwtimer_ctx_answer(struct hwtimer_ctx *ctx, u32 flags, u64 deadline);
s64 hwtimer_ctx_time_offset(clockid_t clockid);

/*
 * Convert @time to a clock that is @by ahead. A result below 0 becomes 0, one that is too large
 * HWTIMER_NEVER. HWTIMER_NEVER is not changed.
 */
static inline u64 hwtimer_ctx_shift(u64 time, s64 by)
{
	u64 shifted;

	if (likely(!by) || time == HWTIMER_NEVER)
		return time;
	if (by < 0)
		return time > -(u64)by ? time + by : 0;
	return check_add_overflow(time, (u64)by, &shifted) ? HWTIMER_NEVER : shifted;
}

/* A time on the program's clock, to a time on the wheel's. */
static inline u64 hwtimer_ctx_to_wheel(const struct hwtimer_ctx *ctx, u64 time)
{
	return hwtimer_ctx_shift(time, -READ_ONCE(ctx->offset_ns));
}

/* A time on the wheel's clock, to a time on the program's. */
static inline u64 hwtimer_ctx_to_program(const struct hwtimer_ctx *ctx, u64 time)
{
	return hwtimer_ctx_shift(time, READ_ONCE(ctx->offset_ns));
}

/* The deadline on the wheel's clock, or HWTIMER_NEVER. Called under the lock. */
static inline u64 hwtimer_ctx_deadline_of(const struct ctx_timeout *ct)
{
	return ct->periodic ? ct->period->next : hwtimer_deadline(&ct->timeout);
}

static inline u64 hwtimer_ctx_user_data(const struct ctx_timeout *ct)
{
	return ct->periodic ? ct->period->user_data : ct->user_data;
}

/* Without rings: are all timeouts of the page free? */
static inline bool hwtimer_ctx_unused(const struct ctx_page *page)
{
	return page->free == BIT_ULL(page->nr) - 1;
}

/* Are there records to read? May be called without the lock. */
static inline bool hwtimer_ctx_has_records(const struct hwtimer_ctx *ctx)
{
	return READ_ONCE(ctx->done) || !list_empty(&ctx->ended_pages);
}

static inline void hwtimer_ctx_lock(struct hwtimer_ctx *ctx) __acquires(&ctx->lock)
{
	spin_lock(&ctx->lock);
}

/*
 * Drop the lock, and only then wake the waiters: there may be thousands. The lock must be dropped
 * by this function only.
 */
static inline void hwtimer_ctx_unlock(struct hwtimer_ctx *ctx) __releases(&ctx->lock)
{
	__poll_t news = ctx->news;

	ctx->news = 0;
	spin_unlock(&ctx->lock);
	if (unlikely(news))
		hwtimer_ctx_wake(ctx, news);
}

/* Called under ctx->lock. */
struct ctx_timeout *hwtimer_ctx_next_timeout(struct hwtimer_ctx *ctx, unsigned long *index);
struct ctx_timeout *hwtimer_ctx_reserve_index(struct hwtimer_ctx *ctx, u64 id);
void hwtimer_ctx_make_free(struct hwtimer_ctx *ctx, struct ctx_timeout *ct);
int hwtimer_ctx_arm(struct hwtimer_ctx *ctx, struct ctx_timeout *ct, u32 flags, u64 deadline,
		    u64 user_data, struct ctx_period *period);
void hwtimer_ctx_prefetch(const struct hwtimer_ctx *ctx, u64 id);
struct ctx_timeout *hwtimer_ctx_find_pending(struct hwtimer_ctx *ctx, u64 id);
int hwtimer_ctx_touch(struct hwtimer_ctx *ctx, u64 id, u32 flags, u64 deadline);
u64 hwtimer_ctx_due(const struct hwtimer_ctx *ctx, const struct ctx_timeout *ct);
u64 hwtimer_ctx_now(struct hwtimer_ctx *ctx);
void hwtimer_ctx_settle(struct hwtimer_ctx *ctx, struct ctx_timeout *ct);
int hwtimer_ctx_cancel(struct hwtimer_ctx *ctx, u64 id);
void hwtimer_ctx_expire(struct hwtimer_ctx *ctx, struct ctx_timeout *ct);
void hwtimer_ctx_stop(struct hwtimer_ctx *ctx);
void hwtimer_ctx_hand_back(struct hwtimer_ctx *ctx, struct ctx_timeout *ct);
void hwtimer_ctx_end_if_over(struct hwtimer_ctx *ctx);
unsigned int hwtimer_ctx_peek(struct hwtimer_ctx *ctx, struct hwtimer_record *records,
			      unsigned int max);
void hwtimer_ctx_take(struct hwtimer_ctx *ctx, const struct hwtimer_record *records,
		      unsigned int n);

#endif /* DEV_CTX_H */
