// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: giving back the memory of a context of /dev/hwtimer when the file is closed. How
 * dev/table.c frees a page that the wheel may still hold is explained there.
 */
#include <linux/minmax.h>
#include <linux/refcount.h>
#include <linux/sched.h>

#include "ctx.h"
#include "resize.h"
#include "table.h"
#include "user.h"

/* Free a page that is out of the table, once the wheel has released its timeouts. */
static void give_back(struct hwtimer_ctx *ctx, struct ctx_page *page)
{
	refcount_inc(&ctx->held);
	hwtimer_user_closing(ctx->user);
	hwtimer_page_release(page, ctx->released);
	/* Our caller has another reference to the context. */
	if (hwtimer_page_put(page, ctx->user))
		refcount_dec(&ctx->held);
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
