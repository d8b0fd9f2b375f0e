// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the timeouts of an open /dev/hwtimer, and their states.
 *
 * Each open file description has a context with a table of timeouts (dev/table.c). A cancelled
 * timeout can be used again at once, even if the wheel still holds it: it is simply armed again.
 *
 * Only timeouts that are NEW or FREE are taken out of the table before the file is closed
 * (dev/resize.c), under the lock. So a struct ctx_timeout stays valid while the lock is held, while
 * the timeout is in any other state, and during its callback, because its release function runs
 * after that.
 *
 * An id consists of the timeout's index in the table (the low bits) and a tag (the bits above it).
 * With rings the program chooses both. Otherwise the tag is incremented at each use, and a timeout
 * whose tags are used up is not used again, so an id is never reused.
 *
 *	NEW
 *	  |
 *	FREE ---reserve---> RESERVED ---arm---> PENDING ---callback---> DONE
 *	  ^                     |                 |  |                   ^ |
 *	  |<-----unreserve------+                 |  +--stop, clock set--+ |
 *	  |<------------------cancel--------------+                        |
 *	  |<---------------------------read--------------------------------+
 *
 * A periodic timeout has a struct ctx_period, from its schedule until it is FREE. It stays
 * PENDING when it expires. Its unread expiries are not stored one by one, but as two counts, so
 * they need no memory however many there are:
 *
 *	unread	the number of unread expiries, overruns included
 *	run	how many of these, counted from the last one, have a record each; their
 *		deadlines are one period apart. With HWTIMER_MISFIRE_MAKE_UP, all unread ones
 *		unless the timeout was touched; otherwise only the last one
 *
 * The first record of the run reports all earlier unread expiries as its overruns. read(2) peeks
 * at records, copies them, and takes them afterwards; the timeout may expire in between. So taking
 * a record subtracts 1 + overruns, as the record had them, from unread, and limits run to unread.
 * A periodic timeout is on the done list while unread is not 0, in any state. A cancelled one is
 * DONE until its expiries have been read. One that a stop or a setting of the clock ends is DONE,
 * and on the list, until the record that says so has been read, too. That is its last one.
 *
 * The callback takes the lock before it changes the state from PENDING. To programs, a timeout is
 * still pending between its expiry and that point. A cancel, touch or stop in this window wins:
 * the callback finds the timeout not PENDING, or armed again, and does nothing. (It cannot have
 * expired a second time, because the worker runs one callback at a time.)
 *
 * A timeout has one cache line. So its deadline is only in struct hwtimer_timeout, which keeps it
 * until the timeout is armed again. What an expiry adds overlays the list node, which the wheel
 * does not use from then on (struct ctx_done). But a timeout that was cancelled may still be in a
 * bucket. So those that a stop hands back, or a setting of the clock ends, are not on the done
 * list, unless they are periodic: a bitmap in the header of their page (ended) has them, and the
 * page is on ctx->ended_pages. Their records come before those of the done list, but after them
 * once the context is stopped. Their time is that of the stop or, on CLOCK_REALTIME, in struct
 * ctx_date.
 *
 * ctx->lock protects the states, the lists, and the counts. It is held from the lookup of an id
 * until the timeout has been armed, touched or cancelled, so that the timeout cannot be reused in
 * between.
 */
#include <linux/bits.h>
#include <linux/err.h>
#include <linux/eventfd.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/nospec.h>
#include <linux/prefetch.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/time_namespace.h>

#include "../debug/trace.h"
#include "../core/hwtimer_compat.h"
#include "ctx.h"

/* In tables of at least so many timeouts, those of the next entries are prefetched. */
#define PREFETCH_FROM	8192

static_assert(HWTIMER_MISFIRE_ONCE == HWTIMER_PERIOD_ONCE);
static_assert(HWTIMER_MISFIRE_SKIP == HWTIMER_PERIOD_SKIP);
static_assert(HWTIMER_MISFIRE_MAKE_UP == HWTIMER_PERIOD_MAKE_UP);

/* Wake waiters for the poll events @news. EPOLLIN means new records, so signal the eventfd, too. */
void hwtimer_ctx_wake(struct hwtimer_ctx *ctx, __poll_t news)
{
	/*
	 * Pairs with the waiter's barrier between queueing itself and checking its condition.
	 * [wq_has_sleeper: wait-broken-waker]
	 */
	if (wq_has_sleeper(&ctx->wait))
		wake_up_poll(&ctx->wait, news);
	if (ctx->eventfd && news & EPOLLIN)
		eventfd_signal(ctx->eventfd);
}

bool hwtimer_ctx_ended(struct hwtimer_ctx *ctx)
{
	/*
	 * Pairs with hwtimer_ctx_end_if_over(): a caller that sees the end sees all records.
	 * [smp_load_acquire: dev-publish-broken-acquire]
	 */
	return smp_load_acquire(&ctx->ended);
}

void hwtimer_ctx_end_if_over(struct hwtimer_ctx *ctx)
{
	lockdep_assert_held(&ctx->lock);
	/* Nothing becomes pending after a stop. */
	if (!ctx->stopped || ctx->stats.pending)
		return;
	/* Pairs with hwtimer_ctx_ended(). [smp_store_release: dev-publish-broken-release] */
	smp_store_release(&ctx->ended, true);
	ctx->news |= EPOLLHUP;
}

/*
 * The most expiries per second that the timeout can have. One that is late, and does not skip the
 * deadlines that it missed, expires at each tick; programs can choose deadlines in the past, and
 * so make it late at will.
 */
static unsigned long rate_of(const struct hwtimer_ctx *ctx, const struct ctx_period *p)
{
	u64 each = p->period.period_ns;

	if (p->period.policy == HWTIMER_PERIOD_MAKE_UP || p->period.misfire_ns > each)
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

/* Without rings: @ct is free. Pages of which all timeouts are free are last on the list. */
static void add_spare(struct hwtimer_ctx *ctx, const struct ctx_timeout *ct)
{
	struct ctx_page *page = hwtimer_page_of(ct);
	bool first = !page->free;

	page->free |= hwtimer_page_bit(ct);
	if (hwtimer_ctx_unused(page))
		list_move_tail(&page->spare, &ctx->spare);
	else if (first)
		list_add(&page->spare, &ctx->spare);
}

/* Take a free timeout of a context without rings; NULL if there is none. */
static struct ctx_timeout *take_spare(struct hwtimer_ctx *ctx)
{
	struct ctx_page *page = list_first_entry_or_null(&ctx->spare, struct ctx_page, spare);
	struct ctx_timeout *ct;

	if (!page)
		return NULL;
	ct = &page->timeouts[__ffs64(page->free)];
	page->free &= ~hwtimer_page_bit(ct);
	if (!page->free)
		list_del_init(&page->spare);
	return ct;
}

void hwtimer_ctx_make_free(struct hwtimer_ctx *ctx, struct ctx_timeout *ct)
{
	lockdep_assert_held(&ctx->lock);
	if (ct->periodic)
		hwtimer_ctx_free_period(ctx, ct->period);
	ct->periodic = false;
	ct->state = TIMEOUT_FREE;
	ctx->live--;
	/* With rings the program chooses the timeout to use. Otherwise: are its tags used up? */
	if (!ctx->rings && ct->tag != ID_LAST_TAG)
		add_spare(ctx, ct);
}

/* Up to one tick of lateness is promised, and the worker may need another. Count any more. */
static void note_lateness(struct hwtimer_ctx *ctx, u64 deadline, u64 now)
{
	if (now > deadline + 2 * hwtimer_wheel_tick_ns(ctx->wheel))
		ctx->late++;
}

/*
 * There is something new to read. Also if there was before: with EPOLLET each expiry is an edge.
 * With rings, waiters are woken when the record is in the ring.
 */
static void note_news(struct hwtimer_ctx *ctx)
{
	if (!ctx->rings)
		ctx->news |= EPOLLIN | EPOLLRDNORM;
}

/* The link of @ct in the done list. */
static struct ctx_timeout **done_next(struct ctx_timeout *ct)
{
	return ct->periodic ? &ct->period->done_next : &ct->done.next;
}

/* @ct has something to read: append it to the done list. */
static void add_done(struct hwtimer_ctx *ctx, struct ctx_timeout *ct)
{
	*done_next(ct) = NULL;
	WRITE_ONCE(*ctx->done_tail, ct);
	ctx->done_tail = done_next(ct);
	note_news(ctx);
}

/* @ct, which is not periodic and was cancelled, has something to read. */
static void add_ended(struct hwtimer_ctx *ctx, const struct ctx_timeout *ct)
{
	struct ctx_page *page = hwtimer_page_of(ct);

	if (!page->ended)
		list_add_tail(&page->ended_node, &ctx->ended_pages);
	page->ended |= hwtimer_page_bit(ct);
	note_news(ctx);
}

static struct ctx_date *date_of(const struct hwtimer_ctx *ctx, const struct ctx_timeout *ct)
{
	return hwtimer_dates_find(ctx->clock, hwtimer_id_of(ct) & ID_INDEX_MASK);
}

/* The deadline of a timeout that is PENDING or DONE, on the program's clock. */
u64 hwtimer_ctx_due(const struct hwtimer_ctx *ctx, const struct ctx_timeout *ct)
{
	const struct ctx_date *date = ctx->clock ? date_of(ctx, ct) : NULL;

	lockdep_assert_held(&ctx->lock);
	if (date && !(date->flags & HWTIMER_RELATIVE))
		return date->deadline;
	return hwtimer_ctx_to_program(ctx, hwtimer_ctx_deadline_of(ct));
}

/* The time on the program's clock. */
u64 hwtimer_ctx_now(struct hwtimer_ctx *ctx)
{
	lockdep_assert_held(&ctx->lock);
	if (ctx->clock)
		hwtimer_dates_notice(ctx->clock, &ctx->offset_ns);
	return hwtimer_ctx_to_program(ctx, hwtimer_wheel_now(ctx->wheel));
}

/* Convert @time of the program to a deadline of the wheel. */
static u64 to_deadline(const struct hwtimer_ctx *ctx, u64 time)
{
	/* SETUP may be choosing the wheel, but then there are no timeouts yet. */
	const struct hwtimer_wheel *wheel = READ_ONCE(ctx->wheel);
	u64 deadline = hwtimer_ctx_to_wheel(ctx, time);

	return deadline < hwtimer_wheel_horizon(wheel) ? deadline : HWTIMER_NEVER;
}

/*
 * Note what @ct, which is settled, is armed for: @deadline as hwtimer_ctx_deadline() returned it.
 * Return the deadline on the wheel's clock.
 */
static u64 note_deadline(struct hwtimer_ctx *ctx, const struct ctx_timeout *ct, u32 flags,
			 u64 deadline)
{
	if (!ctx->clock)
		return deadline;
	*date_of(ctx, ct) = (struct ctx_date){
		.deadline = deadline,
		.set = ctx->clock->set,
		.flags = flags,
	};
	return flags & HWTIMER_RELATIVE ? deadline : to_deadline(ctx, deadline);
}

/* @ct has ended: note when, and its deadline on the clock as it is now. */
static void note_end(struct hwtimer_ctx *ctx, const struct ctx_timeout *ct, u64 now)
{
	struct ctx_date *date;

	if (!ctx->clock)
		return;
	date = date_of(ctx, ct);
	date->deadline = hwtimer_ctx_due(ctx, ct);
	date->fired = now;
	date->flags &= ~HWTIMER_RELATIVE;
}

static void make_done(struct hwtimer_ctx *ctx, struct ctx_timeout *ct, u8 kind)
{
	ct->state = TIMEOUT_DONE;
	ct->kind = kind;
	ctx->stats.pending--;
}

/* Set how many of the unread expiries have a record of their own. */
static void set_run(struct hwtimer_ctx *ctx, struct ctx_period *p, u64 run)
{
	ctx->stats.unread += run - p->run;
	p->run = run;
}

/*
 * Count an expiry of a periodic timeout, for @deadline. Overruns are the deadlines skipped before
 * it, and the @missed ones after it.
 */
static void add_expiry(struct hwtimer_ctx *ctx, struct ctx_timeout *ct, u64 deadline, u64 now,
		       u64 missed)
{
	struct ctx_period *p = ct->period;
	u64 overruns = missed + p->skipped;
	bool goes_on = p->period.policy == HWTIMER_PERIOD_MAKE_UP && !overruns &&
		       deadline == p->deadline + p->period.period_ns;

	if (p->unread)
		note_news(ctx);
	else
		add_done(ctx, ct);
	set_run(ctx, p, goes_on ? p->run + 1 : 1);
	p->unread += 1 + overruns;
	p->deadline = deadline;
	p->last = deadline + missed * p->period.period_ns;
	p->fired = now;
	p->skipped = 0;
	/* Each expiry implies a new schedule, so that scheduled = pending + expired + ... holds. */
	ctx->stats.scheduled += 1 + overruns;
	ctx->stats.expired += 1 + overruns;
}

/* Take @n expiries: those that one record reported. */
static void take_expiries(struct hwtimer_ctx *ctx, struct ctx_period *p, u64 n)
{
	p->unread -= n;
	set_run(ctx, p, min(p->run, p->unread));
}

/* End a periodic timeout: it does not expire any more. Its unread expiries remain. */
static void end_periodic(struct hwtimer_ctx *ctx, struct ctx_timeout *ct, u8 kind)
{
	struct ctx_period *p = ct->period;

	make_done(ctx, ct, kind);
	if (kind != HWTIMER_KIND_EXPIRED) {
		note_end(ctx, ct, hwtimer_ctx_now(ctx));
		ctx->stats.unread++;
		if (!p->unread)
			add_done(ctx, ct);
	} else if (!p->unread) {
		hwtimer_ctx_make_free(ctx, ct);
	}
}

/* Prefetch timeout @id, which may not exist, if there are too many for the caches. */
void hwtimer_ctx_prefetch(const struct hwtimer_ctx *ctx, u64 id)
{
	if (ctx->table.nr >= PREFETCH_FROM)
		prefetchw(hwtimer_table_find(&ctx->table, id & ID_INDEX_MASK));
}

/* Find the timeout with this index, and settle it. Return NULL if there is none. */
static struct ctx_timeout *find(struct hwtimer_ctx *ctx, u32 index)
{
	struct ctx_timeout *ct = hwtimer_table_find(&ctx->table, index);

	if (ct)
		hwtimer_ctx_settle(ctx, ct);
	return ct;
}

struct ctx_timeout *hwtimer_ctx_find_pending(struct hwtimer_ctx *ctx, u64 id)
{
	struct ctx_timeout *ct = find(ctx, id & ID_INDEX_MASK);

	lockdep_assert_held(&ctx->lock);
	if (!ct || ct->tag != id >> ID_INDEX_BITS || ct->state != TIMEOUT_PENDING)
		return NULL;
	return ct;
}

/*
 * Iterate over all timeouts that were ever used: return the next one from *@index on. Start with 0.
 * The lock is dropped before each page, so the result is valid only until the next call.
 */
struct ctx_timeout *hwtimer_ctx_next_timeout(struct hwtimer_ctx *ctx, unsigned long *index)
	__must_hold(&ctx->lock)
{
	struct ctx_timeout *ct;

	lockdep_assert_held(&ctx->lock);
	while (*index < ctx->table.nr) {
		if (!(*index % PAGE_TIMEOUTS)) {
			hwtimer_ctx_unlock(ctx);
			cond_resched();
			hwtimer_ctx_lock(ctx);
		}
		ct = find(ctx, *index);
		*index = ct ? *index + 1 : roundup(*index + 1, PAGE_TIMEOUTS);
		if (ct && ct->state != TIMEOUT_NEW)
			return ct;
	}
	return NULL;
}

/* Arm a periodic timeout for its next deadline, and count the expiry unless its policy skips it. */
static void expire_periodic(struct hwtimer_ctx *ctx, struct ctx_timeout *ct)
{
	u64 wheel_now = hwtimer_wheel_now(ctx->wheel), now = hwtimer_ctx_to_program(ctx, wheel_now);
	u64 deadline = hwtimer_ctx_due(ctx, ct);
	struct ctx_period *p = ct->period;
	struct hwtimer_decision d;

	note_lateness(ctx, p->next, wheel_now);
	d = hwtimer_period_decide(&p->period, deadline, now);
	if (d.fire)
		add_expiry(ctx, ct, deadline, now, d.overruns);
	else
		p->skipped += d.overruns;
	p->next = to_deadline(ctx, d.next_ns);
	if (ctx->clock)
		date_of(ctx, ct)->deadline = d.next_ns;
	/* Fails only while the context is being closed, so nobody sees the result. */
	if (hwtimer_schedule_at(&ct->timeout, p->next)) {
		ctx->stats.scheduled--;
		end_periodic(ctx, ct, HWTIMER_KIND_EXPIRED);
	}
}

/* Expire @ct. Called in its callback; @ct is TIMEOUT_PENDING, and was not armed again. */
void hwtimer_ctx_expire(struct hwtimer_ctx *ctx, struct ctx_timeout *ct)
{
	u64 now;

	lockdep_assert_held(&ctx->lock);
	trace_hwtimer_dev_expire(ctx, &ct->timeout, hwtimer_id_of(ct), hwtimer_ctx_user_data(ct),
				 hwtimer_ctx_deadline_of(ct));
	if (ct->periodic) {
		expire_periodic(ctx, ct);
		return;
	}
	ctx->stats.expired++;
	ctx->stats.unread++;
	make_done(ctx, ct, HWTIMER_KIND_EXPIRED);
	/* The wheel does not hold it: it is PENDING, so the arming that expired was the last. */
	now = hwtimer_wheel_now(ctx->wheel);
	ct->done.fired = hwtimer_ctx_to_program(ctx, now);
	note_end(ctx, ct, ct->done.fired);
	note_lateness(ctx, hwtimer_deadline(&ct->timeout), now);
	add_done(ctx, ct);
}

/* From now on nothing is armed. */
void hwtimer_ctx_stop(struct hwtimer_ctx *ctx)
{
	lockdep_assert_held(&ctx->lock);
	if (!ctx->stopped)
		ctx->handed_back_ns = hwtimer_ctx_now(ctx);
	ctx->stopped = true;
	hwtimer_ctx_end_if_over(ctx);
}

/* End @ct, which is TIMEOUT_PENDING, with a record of @kind. */
static void end(struct hwtimer_ctx *ctx, struct ctx_timeout *ct, u8 kind)
{
	hwtimer_cancel(&ct->timeout);
	if (ct->periodic) {
		end_periodic(ctx, ct, kind);
		return;
	}
	ctx->stats.unread++;
	make_done(ctx, ct, kind);
	note_end(ctx, ct, hwtimer_ctx_now(ctx));
	add_ended(ctx, ct);
}

/* Hand back @ct, which is TIMEOUT_PENDING. The context is stopped. */
void hwtimer_ctx_hand_back(struct hwtimer_ctx *ctx, struct ctx_timeout *ct)
{
	lockdep_assert_held(&ctx->lock);
	ctx->stats.handed_back++;
	end(ctx, ct, HWTIMER_KIND_HANDED_BACK);
}

/*
 * If CLOCK_REALTIME was set since @ct was armed, end it, or arm it again for the same time on that
 * clock. May be called in its callback.
 */
void hwtimer_ctx_settle(struct hwtimer_ctx *ctx, struct ctx_timeout *ct)
{
	struct ctx_date *date;
	u64 deadline;

	lockdep_assert_held(&ctx->lock);
	/* Once the file is closed, nobody reads records. */
	if (likely(!ctx->clock) || ct->state != TIMEOUT_PENDING || ctx->closed)
		return;
	hwtimer_dates_notice(ctx->clock, &ctx->offset_ns);
	date = date_of(ctx, ct);
	if (date->set == ctx->clock->set)
		return;
	date->set = ctx->clock->set;
	if (date->flags & HWTIMER_CANCEL_ON_SET) {
		ctx->stats.clock_set++;
		end(ctx, ct, HWTIMER_KIND_CLOCK_SET);
		hwtimer_ctx_end_if_over(ctx);
	} else if (!(date->flags & HWTIMER_RELATIVE)) {
		deadline = to_deadline(ctx, date->deadline);
		if (ct->periodic)
			ct->period->next = deadline;
		/* Fails only while the context is being closed, so nobody sees the result. */
		hwtimer_schedule_at(&ct->timeout, deadline);
	}
}

/* Add a page whose timeouts are not charged yet. Called without the lock; may sleep. */
static int add_page(struct hwtimer_ctx *ctx)
{
	struct ctx_page *page;
	int ret = 0;

	if (mutex_lock_killable(&ctx->size_lock))
		return -EINTR;
	/* Another task may have added one. */
	if (READ_ONCE(ctx->fresh))
		goto out;
	ret = hwtimer_table_prepare(&ctx->table);
	if (ret)
		goto out;
	ret = -ENOMEM;
	page = hwtimer_page_alloc(ctx);
	if (!page)
		goto out;
	hwtimer_ctx_lock(ctx);
	hwtimer_table_insert(&ctx->table, page);
	WRITE_ONCE(ctx->fresh, page);
	hwtimer_ctx_unlock(ctx);
	ret = 0;
out:
	mutex_unlock(&ctx->size_lock);
	return ret;
}

/* Add a free timeout to a context without rings. Called without the lock; may sleep. */
static int grow(struct hwtimer_ctx *ctx)
{
	struct ctx_page *page;
	int ret = 0;

	if (!hwtimer_user_charge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, 1))
		return -EDQUOT;
	hwtimer_ctx_lock(ctx);
	while (!ctx->fresh && !ret) {
		hwtimer_ctx_unlock(ctx);
		ret = add_page(ctx);
		hwtimer_ctx_lock(ctx);
	}
	page = ctx->fresh;
	if (page) {
		ret = 0;
		page->nr++;
		ctx->charged++;
		ctx->table.nr = max(ctx->table.nr, page->first + page->nr);
		if (page->nr == PAGE_TIMEOUTS || page->first + page->nr == MAX_CAP)
			WRITE_ONCE(ctx->fresh, NULL);
		add_spare(ctx, &page->timeouts[page->nr - 1]);
	}
	hwtimer_ctx_unlock(ctx);
	if (ret)
		hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, 1);
	return ret;
}

/* Set the id of a free timeout, and initialise it if it is new. */
static void begin_use(struct hwtimer_ctx *ctx, struct ctx_timeout *ct, u64 tag)
{
	if (ct->state == TIMEOUT_NEW)
		hwtimer_init(&ct->timeout, ctx->wheel, ctx->expired);
	ctx->live++;
	ct->tag = tag;
	ct->state = TIMEOUT_RESERVED;
}

/* Reserve the timeout that the program chose by the index in @id, and count it against the cap. */
struct ctx_timeout *hwtimer_ctx_reserve_index(struct hwtimer_ctx *ctx, u64 id)
{
	struct ctx_timeout *ct = find(ctx, id & ID_INDEX_MASK);

	lockdep_assert_held(&ctx->lock);
	if (ctx->stopped)
		return ERR_PTR(-ESHUTDOWN);
	if (!ct)
		return ERR_PTR(-EINVAL);
	if (ct->state > TIMEOUT_FREE)
		return ERR_PTR(ct->state == TIMEOUT_PENDING ? -EEXIST : -EBUSY);
	if (ctx->live >= ctx->cap) {
		ctx->stats.rejected++;
		return ERR_PTR(-EAGAIN);
	}
	begin_use(ctx, ct, id >> ID_INDEX_BITS);
	return ct;
}

/* Allocate the date of @ct, which is reserved. Called without the lock; may sleep. */
static struct ctx_timeout *reserve_date(struct hwtimer_ctx *ctx, struct ctx_timeout *ct)
{
	if (!ctx->clock ||
	    !hwtimer_dates_reserve(ctx->clock, hwtimer_id_of(ct) & ID_INDEX_MASK, GFP_TABLE))
		return ct;
	hwtimer_ctx_lock(ctx);
	hwtimer_ctx_make_free(ctx, ct);
	hwtimer_ctx_unlock(ctx);
	return ERR_PTR(-ENOMEM);
}

/*
 * Reserve a free timeout, with rings that of @id, and count it against the caps. Called without
 * the lock.
 */
struct ctx_timeout *hwtimer_ctx_reserve(struct hwtimer_ctx *ctx, u64 id)
{
	struct ctx_timeout *ct;
	int ret;

	hwtimer_ctx_lock(ctx);
	/* From here on, neither the wheel nor the rings change. */
	WRITE_ONCE(ctx->used, true);
	if (ctx->rings) {
		ct = hwtimer_ctx_reserve_index(ctx, id);
		hwtimer_ctx_unlock(ctx);
		return ct;
	}
	for (;;) {
		ret = -ESHUTDOWN;
		if (ctx->stopped)
			break;
		ret = -EAGAIN;
		if (ctx->live >= ctx->cap)
			break;
		ct = take_spare(ctx);
		if (ct) {
			begin_use(ctx, ct, ct->tag + 1);
			hwtimer_ctx_unlock(ctx);
			return reserve_date(ctx, ct);
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

/*
 * Arm a reserved timeout for @deadline, as hwtimer_ctx_deadline() returned it. On success it takes
 * over @period, which may be NULL.
 */
int hwtimer_ctx_arm(struct hwtimer_ctx *ctx, struct ctx_timeout *ct, u32 flags, u64 deadline,
		    u64 user_data, struct ctx_period *period)
{
	int ret;

	lockdep_assert_held(&ctx->lock);
	if (ctx->clock)
		hwtimer_dates_notice(ctx->clock, &ctx->offset_ns);
	deadline = note_deadline(ctx, ct, flags, deadline);
	ret = ctx->stopped ? -ESHUTDOWN : hwtimer_schedule_at(&ct->timeout, deadline);
	if (ret) {
		hwtimer_ctx_make_free(ctx, ct);
		return ret;
	}
	ct->user_data = user_data;
	if (period) {
		period->user_data = user_data;
		period->next = deadline;
		ct->period = period;
		ct->periodic = true;
	}
	ct->state = TIMEOUT_PENDING;
	ctx->stats.scheduled++;
	ctx->stats.pending++;
	trace_hwtimer_dev_schedule(ctx, &ct->timeout, hwtimer_id_of(ct), user_data, deadline);
	return 0;
}

int hwtimer_ctx_touch(struct hwtimer_ctx *ctx, u64 id, u32 flags, u64 deadline)
{
	struct ctx_timeout *ct = hwtimer_ctx_find_pending(ctx, id);
	int ret;

	lockdep_assert_held(&ctx->lock);
	if (ctx->stopped)
		return -ESHUTDOWN;
	if (!ct)
		return -ENOENT;
	if (ctx->clock)
		flags |= date_of(ctx, ct)->flags & HWTIMER_CANCEL_ON_SET;
	deadline = note_deadline(ctx, ct, flags, deadline);
	if (ct->periodic)
		ct->period->next = deadline;
	/* Not hwtimer_touch_at(), which fails if the callback is about to run. */
	ret = hwtimer_schedule_at(&ct->timeout, deadline);
	/* Fails only while the context is being closed, so nobody sees the result. */
	if (ret < 0)
		return ret;
	ctx->stats.touched++;
	return 0;
}

int hwtimer_ctx_cancel(struct hwtimer_ctx *ctx, u64 id)
{
	struct ctx_timeout *ct = hwtimer_ctx_find_pending(ctx, id);

	lockdep_assert_held(&ctx->lock);
	if (!ct)
		return -ENOENT;
	/* If the callback is about to run already, it finds that the state is not PENDING. */
	hwtimer_cancel(&ct->timeout);
	ctx->stats.cancelled++;
	if (ct->periodic) {
		end_periodic(ctx, ct, HWTIMER_KIND_EXPIRED);
	} else {
		ctx->stats.pending--;
		hwtimer_ctx_make_free(ctx, ct);
	}
	hwtimer_ctx_end_if_over(ctx);
	return 0;
}

/* How far the clock is ahead of that of its wheel, for this task. */
s64 hwtimer_ctx_time_offset(clockid_t clockid)
{
	struct timespec64 offset = { };

	if (clockid == CLOCK_REALTIME)
		return hwtimer_dates_offset();
	if (clockid == CLOCK_BOOTTIME)
		timens_add_boottime(&offset);
	else
		timens_add_monotonic(&offset);
	return timespec64_to_ns(&offset);
}

/*
 * Convert @time as a program gives it to a deadline of the wheel in ns, or HWTIMER_NEVER. It may be
 * before the wheel was created: that is for the first deadline of a periodic timeout, on which all
 * others depend. An absolute time on CLOCK_REALTIME is returned as it is, since that clock may be
 * set at any time.
 */
u64 hwtimer_ctx_first_deadline(const struct hwtimer_ctx *ctx, u32 flags, u64 time)
{
	/*
	 * SETUP may be choosing the wheel, but then there are no timeouts yet.
	 * [READ_ONCE: as it is constant once a timeout is armed, and an earlier reader finds none]
	 */
	const struct hwtimer_wheel *wheel = READ_ONCE(ctx->wheel);
	u64 deadline;

	if (!(flags & HWTIMER_RELATIVE))
		return READ_ONCE(ctx->clock) ? time : to_deadline(ctx, time);
	if (check_add_overflow(hwtimer_wheel_now(wheel), time, &deadline) ||
	    deadline >= hwtimer_wheel_horizon(wheel))
		return HWTIMER_NEVER;
	return deadline;
}

/* The same, but not before the wheel was created: such times are not in the word of a timeout. */
u64 hwtimer_ctx_deadline(const struct hwtimer_ctx *ctx, u32 flags, u64 time)
{
	/*
	 * [READ_ONCE: as it is constant once a timeout is armed, and an earlier reader finds none]
	 */
	u64 created = hwtimer_wheel_horizon(READ_ONCE(ctx->wheel)) - HWTIMER_HORIZON;

	if (READ_ONCE(ctx->clock))
		created = 0;
	return max(hwtimer_ctx_first_deadline(ctx, flags, time), created);
}

/* What to tell the program about @deadline, as hwtimer_ctx_deadline() returned it. */
u64 hwtimer_ctx_answer(struct hwtimer_ctx *ctx, u32 flags, u64 deadline)
{
	if (!READ_ONCE(ctx->clock))
		return hwtimer_ctx_to_program(ctx, deadline);
	if (flags & HWTIMER_RELATIVE) {
		hwtimer_ctx_lock(ctx);
		hwtimer_dates_notice(ctx->clock, &ctx->offset_ns);
		deadline = hwtimer_ctx_to_program(ctx, deadline);
		hwtimer_ctx_unlock(ctx);
	}
	return deadline;
}

/* Make the state of a periodic timeout; NULL if @arg is not periodic. Called without the lock. */
struct ctx_period *hwtimer_ctx_make_period(struct hwtimer_ctx *ctx,
					   const struct hwtimer_schedule *arg)
{
	struct hwtimer_period period = {
		.period_ns = arg->period,
		.misfire_ns = arg->misfire ?: arg->period,
		.policy = arg->policy,
	};
	struct ctx_period *p;
	bool valid;

	if (!arg->period)
		return NULL;
	/* The check depends on the wheel's tick, so the wheel must not change any more. */
	hwtimer_ctx_lock(ctx);
	valid = !hwtimer_period_check(&period, hwtimer_wheel_tick_ns(ctx->wheel));
	if (valid)
		WRITE_ONCE(ctx->used, true);
	hwtimer_ctx_unlock(ctx);
	if (!valid)
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

/* Fill in the record of @ct that follows the first @seen ones. Return false if there is none. */
static bool fill_record(const struct hwtimer_ctx *ctx, const struct ctx_timeout *ct, u64 seen,
			struct hwtimer_record *rec)
{
	const struct ctx_period *p = ct->periodic ? ct->period : NULL;
	u64 deadline = hwtimer_ctx_due(ctx, ct);

	*rec = (struct hwtimer_record){
		.id = hwtimer_id_of(ct),
		.user_data = hwtimer_ctx_user_data(ct),
		.deadline = deadline,
		.last = deadline,
		.kind = ct->kind,
	};
	if (!p || !p->unread) {
		/* A periodic one was ended; otherwise it would not be on the done list. */
		if (ct->kind == HWTIMER_KIND_EXPIRED)
			rec->fired = ct->done.fired;
		else if (ctx->clock)
			rec->fired = date_of(ctx, ct)->fired;
		else
			rec->fired = ctx->handed_back_ns;
		return !seen;
	}
	if (seen == p->run)
		return false;
	rec->kind = HWTIMER_KIND_EXPIRED;
	rec->deadline = p->deadline - (p->run - 1 - seen) * p->period.period_ns;
	rec->last = seen == p->run - 1 ? p->last : rec->deadline;
	rec->fired = p->fired;
	rec->overruns = seen ? 0 : p->unread - p->run;
	return true;
}

/* As hwtimer_ctx_peek(), for ctx->ended_pages, after the first @n records. */
static unsigned int peek_ended(struct hwtimer_ctx *ctx, struct hwtimer_record *records,
			       unsigned int n, unsigned int max)
{
	struct ctx_page *page;
	u64 ended;

	list_for_each_entry(page, &ctx->ended_pages, ended_node) {
		if (n == max)
			break;
		for (ended = page->ended; ended && n < max; ended &= ended - 1)
			fill_record(ctx, &page->timeouts[__ffs64(ended)], 0, &records[n++]);
	}
	return n;
}

/*
 * Copy up to @max records to @records without taking them. Return how many. Those of a set clock
 * come first, as the done list may never become empty; those of a stop come last.
 */
unsigned int hwtimer_ctx_peek(struct hwtimer_ctx *ctx, struct hwtimer_record *records,
			      unsigned int max)
{
	struct ctx_timeout *ct;
	unsigned int n = 0;
	u64 seen;

	lockdep_assert_held(&ctx->lock);
	if (!ctx->stopped)
		n = peek_ended(ctx, records, n, max);
	for (ct = ctx->done; ct && n < max; ct = *done_next(ct))
		for (seen = 0; n < max && fill_record(ctx, ct, seen, &records[n]); seen++)
			n++;
	if (ctx->stopped)
		n = peek_ended(ctx, records, n, max);
	return n;
}

/* If the record is that of a timeout which did not expire, take it, and return true. */
static bool take_ended(struct hwtimer_ctx *ctx, const struct hwtimer_record *record)
{
	struct ctx_timeout *ct = hwtimer_table_find(&ctx->table, record->id & ID_INDEX_MASK);
	/* Not NULL: it has been TIMEOUT_DONE since the peek, so it stays in the table. */
	struct ctx_page *page = hwtimer_page_of(ct);

	if (!(page->ended & hwtimer_page_bit(ct)))
		return false;
	page->ended &= ~hwtimer_page_bit(ct);
	if (!page->ended)
		list_del_init(&page->ended_node);
	ctx->stats.unread--;
	hwtimer_ctx_make_free(ctx, ct);
	return true;
}

/*
 * Take the first @n records; @records has them as hwtimer_ctx_peek() returned them. If the lock was
 * dropped since, there may be more, and a periodic timeout may have expired again, or been touched,
 * cancelled or handed back.
 */
void hwtimer_ctx_take(struct hwtimer_ctx *ctx, const struct hwtimer_record *records, unsigned int n)
{
	struct ctx_timeout *ct;
	struct ctx_period *p;
	unsigned int i = 0;
	bool more;

	lockdep_assert_held(&ctx->lock);
	while (i < n) {
		if (records[i].kind != HWTIMER_KIND_EXPIRED && take_ended(ctx, &records[i])) {
			i++;
			continue;
		}
		ct = ctx->done;
		p = ct->periodic ? ct->period : NULL;
		more = p && p->unread;
		if (!more) {
			ctx->stats.unread--;
			i++;
		}
		while (more && i < n && records[i].id == hwtimer_id_of(ct))
			take_expiries(ctx, p, 1 + records[i++].overruns);
		/* Its expiries that @records does not include stay first in the list. */
		if (more && p->unread && i == n)
			break;

		WRITE_ONCE(ctx->done, *done_next(ct));
		if (!ctx->done)
			ctx->done_tail = &ctx->done;
		if (more && (p->unread || (ct->state == TIMEOUT_DONE &&
					   ct->kind != HWTIMER_KIND_EXPIRED)))
			add_done(ctx, ct);	/* newer records go to the end */
		else if (ct->state == TIMEOUT_DONE)
			hwtimer_ctx_make_free(ctx, ct);
	}
}
