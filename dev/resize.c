// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: changing the size of a context of /dev/hwtimer. With rings it grows and shrinks; without
 * rings it only gives memory back here, and grows in dev/ctx.c. When the file is closed, it gives
 * back everything.
 *
 * The lock is taken for one page at a time. Operations go on in between, and what they use is kept.
 * dev/table.c explains how a page is freed that the wheel may still hold.
 */
#include <linux/errno.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "ctx.h"
#include "dates.h"
#include "resize.h"
#include "table.h"
#include "user.h"

/* Free a page that is out of the table as soon as the wheel has released its timeouts. */
static void give_back(struct hwtimer_ctx *ctx, struct ctx_page *page)
{
	/* Its timeouts are free, so nobody reads their dates. */
	if (ctx->clock)
		hwtimer_dates_drop(ctx->clock, page->first);
	refcount_inc(&ctx->held);
	hwtimer_user_closing(ctx->user);
	hwtimer_page_release(page, ctx->released);
	/*
	 * Our caller has another reference to the context.
	 * [refcount_dec: as a decrement releases, the last one acquires]
	 */
	if (hwtimer_page_put(page, ctx->user))
		refcount_dec(&ctx->held);
}

static int grow(struct hwtimer_ctx *ctx, u32 timeouts)
{
	u32 more = timeouts - ctx->table.nr;
	int ret;

	if (!hwtimer_user_charge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, more))
		return -EDQUOT;
	ret = ctx->clock ? hwtimer_dates_reserve_all(ctx->clock, timeouts, GFP_TABLE) : 0;
	if (!ret)
		ret = hwtimer_table_extend(&ctx->table, ctx, timeouts);
	if (ret) {
		if (ctx->clock)
			hwtimer_dates_trim(ctx->clock, ctx->table.nr);
		hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, more);
		return ret;
	}
	hwtimer_ctx_lock(ctx);
	ctx->table.nr = timeouts;
	ctx->charged = timeouts;
	hwtimer_ctx_unlock(ctx);
	return 0;
}

/*
 * With rings: give back the timeouts at the end of the last page that are not in use, but keep at
 * least @timeouts in the table. Return true if the page before it may have more to give back.
 */
static bool shrink_rings(struct hwtimer_ctx *ctx, u32 timeouts)
{
	struct ctx_table *table = &ctx->table;
	struct ctx_page *page;
	u32 nr, gone;

	hwtimer_ctx_lock(ctx);
	if (table->nr <= timeouts) {
		hwtimer_ctx_unlock(ctx);
		return false;
	}
	page = hwtimer_table_page(table, (table->nr - 1) / PAGE_TIMEOUTS);
	for (nr = table->nr; nr > max(timeouts, page->first); nr--)
		if (page->timeouts[nr - 1 - page->first].state > TIMEOUT_FREE)
			break;
	gone = table->nr - nr;
	table->nr = nr;
	ctx->charged = nr;
	if (nr > page->first) {
		/* Their memory is not freed, as others use the page, but they are uncharged. */
		hwtimer_ctx_unlock(ctx);
		hwtimer_user_uncharge(ctx->user, HWTIMER_LIMIT_TIMEOUTS, gone);
		return false;
	}
	page->nr = gone;
	*hwtimer_table_slot(table, --table->numbers) = NULL;
	hwtimer_ctx_unlock(ctx);
	give_back(ctx, page);
	return true;
}

/* Without rings: give back a page that is not in use. False: there is none, or too few remain. */
static bool shrink_free(struct hwtimer_ctx *ctx, u32 timeouts)
{
	struct ctx_page *page = NULL;

	hwtimer_ctx_lock(ctx);
	if (!list_empty(&ctx->spare))
		page = list_last_entry(&ctx->spare, struct ctx_page, spare);
	if (page && (!hwtimer_ctx_unused(page) || ctx->charged - page->nr < timeouts ||
		     !hwtimer_table_hole(&ctx->table, page)))
		page = NULL;
	if (page) {
		list_del_init(&page->spare);
		if (ctx->fresh == page)
			WRITE_ONCE(ctx->fresh, NULL);
		ctx->charged -= page->nr;
	}
	hwtimer_ctx_unlock(ctx);
	if (page)
		give_back(ctx, page);
	return page;
}

/**
 * hwtimer_ctx_resize - grow to a number of timeouts, or shrink towards it
 * @ctx: the context; the caller holds its size_lock
 * @timeouts: how many timeouts it should have
 *
 * Without rings, this only shrinks. Timeouts in use are kept.
 *
 * Context: Process context, may sleep.
 *
 * Return: 0. -EDQUOT, -ENOMEM or -EINTR if a context with rings should have grown and did not.
 */
int hwtimer_ctx_resize(struct hwtimer_ctx *ctx, u32 timeouts)
{
	bool rings, more = true, given = false;

	lockdep_assert_held(&ctx->size_lock);
	hwtimer_ctx_lock(ctx);
	rings = ctx->rings;
	hwtimer_ctx_unlock(ctx);
	if (rings && timeouts > ctx->table.nr)
		return grow(ctx, timeouts);
	while (more && !fatal_signal_pending(current)) {
		more = rings ? shrink_rings(ctx, timeouts) : shrink_free(ctx, timeouts);
		given |= more;
		/* A SCHEDULE may wait to get a page. */
		mutex_unlock(&ctx->size_lock);
		cond_resched();
		mutex_lock(&ctx->size_lock);
	}
	if (rings)
		hwtimer_table_trim(&ctx->table);
	/* Somebody may wait for what was given back. */
	if (given)
		hwtimer_wheel_hurry(ctx->wheel);
	return 0;
}

/**
 * hwtimer_ctx_give_back_all - take all pages out of the table of a closed context
 * @ctx: the context; the caller has a reference to it
 *
 * Context: Process context, may sleep.
 */
void hwtimer_ctx_give_back_all(struct hwtimer_ctx *ctx)
{
	struct ctx_table *table = &ctx->table;
	struct ctx_timeout *ct;
	struct ctx_page *page;
	u32 number, nr;

	hwtimer_ctx_lock(ctx);
	/* Nothing is found from now on. */
	nr = table->nr;
	table->nr = 0;
	hwtimer_ctx_unlock(ctx);
	for (number = 0; number < table->numbers; number++) {
		page = hwtimer_table_page(table, number);
		if (!page)
			continue;
		hwtimer_ctx_lock(ctx);
		for (ct = page->timeouts; ct < page->timeouts + PAGE_TIMEOUTS; ct++) {
			/* Uncharge the rate now; the worker may take a while to release it. */
			if (ct->periodic)
				hwtimer_ctx_free_period(ctx, ct->period);
			ct->periodic = false;
			ct->state = min_t(u8, ct->state, TIMEOUT_FREE);
		}
		if (ctx->rings)
			page->nr = min_t(u32, nr - page->first, PAGE_TIMEOUTS);
		hwtimer_ctx_unlock(ctx);
		give_back(ctx, page);
		cond_resched();
	}
	/* The segments remain until the context is freed. */
	table->numbers = 0;
}
