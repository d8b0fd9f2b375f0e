// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_table: the table of the timeouts of a context, at the limits of its
 * size, pages and segments, and its holes.
 */
#include <kunit/test.h>
#include <linux/math.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "../../dev/table.h"
#include "hwtimer_kunit.h"

/* How many pages a table may have. */
#define NUMBERS	((u32)DIV_ROUND_UP(MAX_CAP, PAGE_TIMEOUTS))

static struct ctx_page *add_page(struct kunit *test, struct ctx_table *table)
{
	struct ctx_page *page;

	KUNIT_ASSERT_EQ(test, 0, hwtimer_table_prepare(table));
	page = hwtimer_page_alloc(NULL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	hwtimer_table_insert(table, page);
	return page;
}

/* Each index below the size has a timeout, which has the index in its id; the others have none. */
static void expect_size(struct kunit *test, const struct ctx_table *table, u32 nr)
{
	u32 i;

	KUNIT_EXPECT_EQ(test, DIV_ROUND_UP(nr, PAGE_TIMEOUTS), table->numbers);
	for (i = 0; i < nr; i++) {
		struct ctx_timeout *ct = hwtimer_table_find(table, i);

		KUNIT_ASSERT_NOT_NULL(test, ct);
		KUNIT_ASSERT_EQ(test, (u64)i, hwtimer_id_of(ct));
	}
	KUNIT_EXPECT_NULL(test, hwtimer_table_find(table, nr));
	KUNIT_EXPECT_NULL(test, hwtimer_table_find(table, nr + 1));
	KUNIT_EXPECT_NULL(test, hwtimer_table_find(table, U32_MAX));
}

static void resize(struct kunit *test, struct ctx_table *table, u32 nr)
{
	if (nr > table->nr) {
		KUNIT_ASSERT_EQ(test, 0, hwtimer_table_extend(table, NULL, nr));
		table->nr = nr;
	} else {
		table->nr = nr;
		hwtimer_table_trim(table);
	}
}

/* One below, at, and one above the end of pages and segments: the first two segments have 24. */
static const u32 sizes[] = {
	1, 2, PAGE_TIMEOUTS - 1, PAGE_TIMEOUTS, PAGE_TIMEOUTS + 1,
	8 * PAGE_TIMEOUTS - 1, 8 * PAGE_TIMEOUTS, 8 * PAGE_TIMEOUTS + 1,
	24 * PAGE_TIMEOUTS - 1, 24 * PAGE_TIMEOUTS, 24 * PAGE_TIMEOUTS + 1,
};

static void grows(struct kunit *test)
{
	struct ctx_timeout *first = NULL;
	struct ctx_table table = {};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		resize(test, &table, sizes[i]);
		expect_size(test, &table, sizes[i]);
		/* What was there stays where it is. */
		first = first ?: hwtimer_table_find(&table, 0);
		KUNIT_EXPECT_PTR_EQ(test, first, hwtimer_table_find(&table, 0));
		/* Nothing to do. */
		KUNIT_EXPECT_EQ(test, 0, hwtimer_table_extend(&table, NULL, sizes[i]));
		expect_size(test, &table, sizes[i]);
	}
	resize(test, &table, 0);
}

static void shrinks(struct kunit *test)
{
	static const u32 segment_ends[] = { 8, 24, 56 };
	struct ctx_table table = {};
	unsigned int i, j;
	u32 pages;

	for (i = ARRAY_SIZE(sizes); i--; ) {
		resize(test, &table, 25 * PAGE_TIMEOUTS);
		hwtimer_table_find(&table, sizes[i] - 1)->tag = 5;
		hwtimer_table_find(&table, 25 * PAGE_TIMEOUTS - 1)->tag = 7;
		resize(test, &table, sizes[i]);
		KUNIT_EXPECT_TRUE(test, hwtimer_table_find(&table, sizes[i] - 1)->tag == 5);
		hwtimer_table_find(&table, sizes[i] - 1)->tag = 0;
		expect_size(test, &table, sizes[i]);
		pages = DIV_ROUND_UP(sizes[i], PAGE_TIMEOUTS);
		for (j = 0; j < ARRAY_SIZE(segment_ends); j++)
			KUNIT_EXPECT_EQ(test, pages > (j ? segment_ends[j - 1] : 0),
					!!table.segments[j]);
	}
	/* New pages know nothing of those that were freed. */
	resize(test, &table, 25 * PAGE_TIMEOUTS);
	expect_size(test, &table, 25 * PAGE_TIMEOUTS);
	resize(test, &table, 0);
	expect_size(test, &table, 0);
	for (j = 0; j < TABLE_SEGMENTS; j++)
		KUNIT_EXPECT_NULL(test, table.segments[j]);
}

/* After a fatal signal, the table is what it was. */
static void interrupted(struct kunit *test)
{
	struct ctx_table table = {};
	int ret;

	resize(test, &table, PAGE_TIMEOUTS);
	sigaddset(&current->pending.signal, SIGKILL);
	set_thread_flag(TIF_SIGPENDING);
	ret = hwtimer_table_extend(&table, NULL, 100 * PAGE_TIMEOUTS);
	sigdelset(&current->pending.signal, SIGKILL);
	clear_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_EQ(test, -EINTR, ret);
	expect_size(test, &table, PAGE_TIMEOUTS);
	resize(test, &table, 0);
}

/* Holes are filled, the last one first, with timeouts whose ids are new. */
static void holes(struct kunit *test)
{
	static const u32 made[] = { 3, 8, 0, 9, 7 };
	struct ctx_table table = {};
	struct ctx_page *pages[10];
	unsigned int i, j;

	if (!IS_ENABLED(CONFIG_64BIT))
		kunit_skip(test, "a hole is an address of 64 bits");
	for (i = 0; i < ARRAY_SIZE(pages); i++)
		pages[i] = add_page(test, &table);
	table.nr = ARRAY_SIZE(pages) * PAGE_TIMEOUTS;
	expect_size(test, &table, table.nr);
	for (i = 0; i < ARRAY_SIZE(made); i++) {
		/* Any timeout may have the highest tag. */
		pages[made[i]]->timeouts[0].tag = 1;
		pages[made[i]]->timeouts[made[i] * 7 % PAGE_TIMEOUTS].tag = ID_LAST_TAG - made[i];
		KUNIT_ASSERT_TRUE(test, hwtimer_table_hole(&table, pages[made[i]]));
		kfree(pages[made[i]]);
		pages[made[i]] = NULL;
		for (j = 0; j < table.nr; j++)
			KUNIT_ASSERT_EQ(test, !!pages[j / PAGE_TIMEOUTS],
					!!hwtimer_table_find(&table, j));
	}
	KUNIT_EXPECT_EQ(test, (u32)ARRAY_SIZE(pages), table.numbers);
	for (i = ARRAY_SIZE(made); i--; ) {
		struct ctx_page *page = add_page(test, &table);

		KUNIT_EXPECT_EQ(test, made[i] * PAGE_TIMEOUTS, page->first);
		KUNIT_EXPECT_PTR_EQ(test, page, hwtimer_table_page(&table, made[i]));
		for (j = 0; j < PAGE_TIMEOUTS; j++) {
			KUNIT_ASSERT_EQ(test, ID_LAST_TAG - made[i], (u64)page->timeouts[j].tag);
			page->timeouts[j].tag = 0;
		}
	}
	KUNIT_EXPECT_EQ(test, (u32)ARRAY_SIZE(pages), table.numbers);
	expect_size(test, &table, table.nr);
	KUNIT_EXPECT_EQ(test, 10U * PAGE_TIMEOUTS, add_page(test, &table)->first);
	resize(test, &table, 0);
}

/* The last page that a table may have, also as a hole. Those below it are left out. */
static void largest(struct kunit *test)
{
	struct ctx_table table = { .nr = MAX_CAP, .numbers = NUMBERS - 1 };
	struct ctx_page *page = add_page(test, &table), *second;
	u32 last = MAX_CAP - 1;

	KUNIT_EXPECT_EQ(test, NUMBERS, table.numbers);
	KUNIT_EXPECT_EQ(test, -EAGAIN, hwtimer_table_prepare(&table));
	KUNIT_EXPECT_EQ(test, (u64)last, hwtimer_id_of(hwtimer_table_find(&table, last)));
	KUNIT_EXPECT_NULL(test, hwtimer_table_find(&table, MAX_CAP));
	if (hwtimer_table_hole(&table, page)) {
		KUNIT_EXPECT_NULL(test, hwtimer_table_find(&table, last));
		KUNIT_EXPECT_EQ(test, NUMBERS, table.hole);
		second = add_page(test, &table);
		KUNIT_EXPECT_EQ(test, page->first, second->first);
		KUNIT_EXPECT_EQ(test, 0U, table.hole);
		KUNIT_EXPECT_EQ(test, -EAGAIN, hwtimer_table_prepare(&table));
		kfree(second);
	}
	kfree(page);
	kvfree(table.segments[TABLE_SEGMENTS - 1]);
}

static struct kunit_case table_cases[] = {
	KUNIT_CASE(grows),
	KUNIT_CASE(shrinks),
	KUNIT_CASE(interrupted),
	KUNIT_CASE(holes),
	KUNIT_CASE(largest),
	{}
};

SUITE(table, "table");
