// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the table of the timeouts of a context, by index.
 *
 * Timeouts are allocated in pages (struct ctx_page) of 4096 bytes: a header, and 63 timeouts, each
 * in a cache line of its own. So the page of a timeout, and its context, are found by its address.
 * Page n has the indexes from 63 n on. The table of pages consists of segments, each twice as large
 * as the one before it: it grows without copying, and a lookup takes the same time at any size.
 *
 * With rings, pages are added and removed at the end. Without rings, the kernel chooses the ids,
 * and any page may be given back. It leaves a hole, which the next new page fills. An id must not
 * be used again, so the hole stores the highest tag of the old page's timeouts, and the tags of the
 * new ones begin there.
 *
 * Giving back: the wheel may still hold timeouts of a page, as cancelled timeouts stay in their
 * buckets. So the page is taken out of the table, under the lock, and its timeouts are released.
 * When the wheel has released the last one, the page is freed and the user uncharged. Meanwhile
 * another page may have the same number.
 */
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include <kunit/visibility.h>

#include "table.h"
#include "user.h"

/* How many pages there may be. */
#define TABLE_NUMBERS	DIV_ROUND_UP(MAX_CAP, PAGE_TIMEOUTS)

static_assert(TABLE_NUMBERS + TABLE_FIRST <= TABLE_FIRST << TABLE_SEGMENTS);

/*
 * A hole, in place of the page's address: bit 0 is set; above it are the highest tag, and the
 * number of the next hole plus 1 (or 0). An address of 32 bits has no room for them.
 */
#define HOLE_TAG_SHIFT	1
#define HOLE_NEXT_SHIFT	(HOLE_TAG_SHIFT + 64 - ID_INDEX_BITS)

static_assert(TABLE_NUMBERS < 1ULL << (64 - HOLE_NEXT_SHIFT));

/* The number of the first page of a segment. */
static u32 segment_first(unsigned int segment)
{
	return (TABLE_FIRST << segment) - TABLE_FIRST;
}

/**
 * hwtimer_table_prepare - make room for one more page
 * @table: the table; no other task changes its size meanwhile
 *
 * Context: Process context, may sleep.
 *
 * Return: 0, -EAGAIN if the table has its largest size, or -ENOMEM.
 */
int hwtimer_table_prepare(struct ctx_table *table)
{
	unsigned int segment = fls(table->numbers + TABLE_FIRST) - fls(TABLE_FIRST);

	if (table->hole)
		return 0;
	if (table->numbers == TABLE_NUMBERS)
		return -EAGAIN;
	if (!table->segments[segment])
		table->segments[segment] = kvcalloc(TABLE_FIRST << segment,
						    sizeof(struct ctx_page *), GFP_TABLE);
	return table->segments[segment] ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_table_prepare);

/**
 * hwtimer_page_alloc - allocate a page of timeouts
 * @ctx: their context
 *
 * Context: Process context, may sleep.
 *
 * Return: a page, to be freed by kfree() if it is not used; or NULL.
 */
struct ctx_page *hwtimer_page_alloc(struct hwtimer_ctx *ctx)
{
	struct ctx_page *page = kzalloc(sizeof(*page), GFP_TABLE);

	if (page) {
		page->ctx = ctx;
		INIT_LIST_HEAD(&page->spare);
		INIT_LIST_HEAD(&page->ended_node);
	}
	return page;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_page_alloc);

/**
 * hwtimer_table_insert - fill a hole, or add a page at the end
 * @table: the table, after hwtimer_table_prepare()
 * @page: the page
 */
void hwtimer_table_insert(struct ctx_table *table, struct ctx_page *page)
{
	u32 number = table->hole ? table->hole - 1 : table->numbers++;
	struct ctx_page **slot = hwtimer_table_slot(table, number);
	u64 hole = (unsigned long)*slot;
	unsigned int i;

	if (hole) {
		table->hole = hole >> HOLE_NEXT_SHIFT;
		for (i = 0; i < PAGE_TIMEOUTS; i++)
			page->timeouts[i].tag = hole >> HOLE_TAG_SHIFT;
	}
	page->first = number * PAGE_TIMEOUTS;
	*slot = page;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_table_insert);

/**
 * hwtimer_table_hole - take a page out of the table, and leave a hole
 * @table: the table of a context without rings
 * @page: the page
 *
 * Return: false if holes cannot be stored; nothing has changed then.
 */
bool hwtimer_table_hole(struct ctx_table *table, const struct ctx_page *page)
{
	u32 number = page->first / PAGE_TIMEOUTS;
	unsigned int i;
	u64 tag = 0;

	if (!IS_ENABLED(CONFIG_64BIT))
		return false;
	for (i = 0; i < PAGE_TIMEOUTS; i++)
		tag = max_t(u64, tag, page->timeouts[i].tag);
	*hwtimer_table_slot(table, number) =
		(void *)(unsigned long)(1 | tag << HOLE_TAG_SHIFT |
					(u64)table->hole << HOLE_NEXT_SHIFT);
	table->hole = number + 1;
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_table_hole);

/**
 * hwtimer_table_trim - free the pages and segments that the table has beyond its size
 * @table: the table of a context with rings, or one without pages. No other task changes its size
 *	meanwhile, and no timeout of the pages beyond the size was ever used
 *
 * Context: Process context, may sleep.
 */
void hwtimer_table_trim(struct ctx_table *table)
{
	u32 numbers = DIV_ROUND_UP(table->nr, PAGE_TIMEOUTS);
	struct ctx_page **slot;
	unsigned int segment;

	while (table->numbers > numbers) {
		slot = hwtimer_table_slot(table, --table->numbers);
		kfree(*slot);
		/* Otherwise hwtimer_table_insert() would take it for a hole. */
		*slot = NULL;
		cond_resched();
	}
	for (segment = 0; segment < TABLE_SEGMENTS; segment++) {
		if (segment_first(segment) >= numbers) {
			kvfree(table->segments[segment]);
			table->segments[segment] = NULL;
		}
	}
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_table_trim);

/**
 * hwtimer_table_extend - allocate the pages for a larger size
 * @table: the table of a context with rings; no other task changes its size meanwhile
 * @ctx: the context
 * @nr: the size that the caller is about to set
 *
 * Context: Process context, may sleep.
 *
 * Return: 0, -ENOMEM, or -EINTR after a fatal signal; the table has not changed then.
 */
int hwtimer_table_extend(struct ctx_table *table, struct hwtimer_ctx *ctx, u32 nr)
{
	struct ctx_page *page;
	int ret = 0;

	while (!ret && table->numbers < DIV_ROUND_UP(nr, PAGE_TIMEOUTS)) {
		ret = fatal_signal_pending(current) ? -EINTR : hwtimer_table_prepare(table);
		if (ret)
			break;
		page = hwtimer_page_alloc(ctx);
		if (page)
			hwtimer_table_insert(table, page);
		else
			ret = -ENOMEM;
		cond_resched();
	}
	if (ret)
		hwtimer_table_trim(table);
	return ret;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_table_extend);

/**
 * hwtimer_page_release - release the timeouts of a page
 * @page: a page that was taken out of the table
 * @released: their release function; calls hwtimer_page_put()
 *
 * The caller has a reference, which it drops by hwtimer_page_put() afterwards.
 *
 * Context: Any context. If the wheel was stopped, @released is called here.
 */
void hwtimer_page_release(struct ctx_page *page, hwtimer_released_fn_t released)
{
	unsigned int i;

	refcount_set(&page->held, 1);
	for (i = 0; i < PAGE_TIMEOUTS; i++) {
		if (page->timeouts[i].state == TIMEOUT_NEW)
			continue;
		refcount_inc(&page->held);
		hwtimer_release(&page->timeouts[i].timeout, released);
	}
}

/**
 * hwtimer_page_put - drop a reference to a page
 * @page: the page. With the last reference it is freed and uncharged
 * @user: the user
 *
 * Context: Any context.
 *
 * Return: true if the page was freed.
 */
bool hwtimer_page_put(struct ctx_page *page, struct hwtimer_user *user)
{
	/* [refcount_dec_and_test: as a decrement releases, the last one acquires] */
	if (!refcount_dec_and_test(&page->held))
		return false;
	hwtimer_user_uncharge(user, HWTIMER_LIMIT_TIMEOUTS, page->nr);
	kfree(page);
	hwtimer_user_closed(user);
	return true;
}
