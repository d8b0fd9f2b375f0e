// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite of the shared memory of the rings: indexes at their limits and where they
 * wrap, which programs do not reach within the time of a test, and programs that write invalid
 * values.
 */
#include <kunit/test.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/prandom.h>

#include "../../dev/shm.h"
#include "hwtimer_kunit.h"

/* Start values of the indexes: at and near the wrap, and half way to it. */
static const u32 begins[] = { 0, 1, U32_MAX - 9, U32_MAX, S32_MAX - 2, (u32)S32_MIN };

/* Entries and records are larger than the kernel knows them, by @more bytes. */
static void create_larger(struct kunit *test, struct hwtimer_shm *pair, u32 sq_entries,
			  u32 cq_entries, u32 more)
{
	struct hwtimer_rings arg = {
		.sq_entries = sq_entries, .cq_entries = cq_entries,
		.sqe_size = sizeof(struct hwtimer_sqe) + more,
		.record_size = sizeof(struct hwtimer_record) + more,
	};

	KUNIT_ASSERT_EQ(test, 0, hwtimer_shm_create(pair, &arg, GFP_KERNEL));
}

static void create(struct kunit *test, struct hwtimer_shm *pair, u32 sq_entries,
		   u32 cq_entries)
{
	create_larger(test, pair, sq_entries, cq_entries, 0);
}

/* As if @begin entries and records had passed. */
static void begin_at(struct hwtimer_shm *pair, u32 begin)
{
	pair->sq_head = begin;
	pair->cq_tail = begin;
	pair->shared->sq_head = begin;
	pair->shared->sq_tail = begin;
	pair->shared->cq_head = begin;
	pair->shared->cq_tail = begin;
}

static void sizes(struct kunit *test)
{
	static const struct {
		u32 asked;
		u32 entries;
	} cases[] = {
		{ 1, 1 }, { 2, 2 }, { 3, 4 }, { 4, 4 }, { 5, 8 }, { 1000, 1024 },
		{ HWTIMER_RING_MAX - 1, HWTIMER_RING_MAX },
		{ HWTIMER_RING_MAX, HWTIMER_RING_MAX },
	};
	struct hwtimer_shm pair;
	u64 sq_end, cq_end;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (j = 0; j < ARRAY_SIZE(cases); j++) {
			create(test, &pair, cases[i].asked, cases[j].asked);
			KUNIT_EXPECT_EQ(test, cases[i].entries - 1, pair.sq_mask);
			KUNIT_EXPECT_EQ(test, cases[j].entries - 1, pair.cq_mask);
			/* the parts do not overlap, and fit */
			sq_end = hwtimer_shm_sq_offset(&pair) +
				 cases[i].entries * sizeof(struct hwtimer_sqe);
			cq_end = hwtimer_shm_cq_offset(&pair) +
				 cases[j].entries * sizeof(struct hwtimer_record);
			KUNIT_EXPECT_EQ(test, sizeof(struct hwtimer_ring),
					hwtimer_shm_sq_offset(&pair));
			KUNIT_EXPECT_EQ(test, sq_end, hwtimer_shm_cq_offset(&pair));
			KUNIT_EXPECT_EQ(test, PAGE_ALIGN(cq_end), hwtimer_shm_size(&pair));
			KUNIT_EXPECT_EQ(test, pair.nr_pages << PAGE_SHIFT,
					hwtimer_shm_size(&pair));
			KUNIT_EXPECT_PTR_EQ(test, (void *)pair.shared + sizeof(*pair.shared),
					    pair.sqes);
			KUNIT_EXPECT_PTR_EQ(test, (void *)pair.shared + sq_end,
					    pair.cqes);
			/* The program sees zeroes, and no data of others. */
			KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, pair.shared->sleep_until);
			KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, pair.shared->relaxed_until);
			pair.shared->sleep_until = 0;
			pair.shared->relaxed_until = 0;
			KUNIT_EXPECT_NULL(test, memchr_inv(pair.shared, 0,
							   hwtimer_shm_size(&pair)));
			hwtimer_shm_destroy(&pair);
		}
	}
}

/* All pages are freed: an extra reference is the only one left then. */
static void freed(struct kunit *test)
{
	struct hwtimer_shm pair;
	struct page *pages[16];
	unsigned long n, i;

	create(test, &pair, 256, 256);
	n = pair.nr_pages;
	KUNIT_ASSERT_GT(test, n, 1UL);
	KUNIT_ASSERT_LE(test, n, ARRAY_SIZE(pages));
	for (i = 0; i < n; i++) {
		pages[i] = pair.pages[i];
		get_page(pages[i]);
	}
	hwtimer_shm_destroy(&pair);
	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_EQ(test, 1, page_count(pages[i]));
		put_page(pages[i]);
	}
}

/* Entries and records come out unchanged and in order, across wraps. */
static void wraps(struct kunit *test)
{
	struct hwtimer_shm pair;
	struct hwtimer_record rec = {};
	struct hwtimer_sqe sqe;
	unsigned int i, n;
	u32 tail, at;
	bool bad;

	create(test, &pair, 4, 2);
	for (i = 0; i < ARRAY_SIZE(begins); i++) {
		begin_at(&pair, begins[i]);
		for (n = 0; n < 20; n++) {
			at = begins[i] + n;
			KUNIT_EXPECT_TRUE(test, hwtimer_shm_submitted(&pair, &tail));
			KUNIT_EXPECT_EQ(test, at, tail);
			*hwtimer_shm_sqe(&pair, at % 4) = (struct hwtimer_sqe){
				.op = n, .flags = ~n, .id = at, .time = ~(u64)at,
				.user_data = (u64)at << 32,
			};
			pair.shared->sq_tail = at + 1;
			KUNIT_EXPECT_TRUE(test, hwtimer_shm_submitted(&pair, &tail));
			KUNIT_EXPECT_EQ(test, at + 1, tail);
			KUNIT_EXPECT_TRUE(test, hwtimer_shm_get(&pair, &sqe));
			KUNIT_EXPECT_EQ(test, n, sqe.op);
			KUNIT_EXPECT_EQ(test, ~n, sqe.flags);
			KUNIT_EXPECT_EQ(test, (u64)at, sqe.id);
			KUNIT_EXPECT_EQ(test, ~(u64)at, sqe.time);
			KUNIT_EXPECT_EQ(test, (u64)at << 32, sqe.user_data);
			pair.sq_head++;
			KUNIT_EXPECT_EQ(test, at, pair.shared->sq_head);
			hwtimer_shm_taken(&pair, pair.sq_head);
			KUNIT_EXPECT_EQ(test, at + 1, pair.shared->sq_head);

			KUNIT_EXPECT_FALSE(test, hwtimer_shm_unread(&pair));
			KUNIT_EXPECT_TRUE(test, hwtimer_shm_room(&pair, &bad));
			KUNIT_EXPECT_FALSE(test, bad);
			rec.id = at;
			hwtimer_shm_put(&pair, &rec);
			KUNIT_EXPECT_TRUE(test, hwtimer_shm_unread(&pair));
			KUNIT_EXPECT_EQ(test, at + 1, pair.shared->cq_tail);
			KUNIT_EXPECT_EQ(test, (u64)at, hwtimer_shm_record(&pair, at % 2)->id);
			pair.shared->cq_head = at + 1;
		}
	}
	hwtimer_shm_destroy(&pair);
}

/* A newer program knows larger entries and records. What the kernel does not know has to be 0. */
static void larger(struct kunit *test)
{
	static const u32 more[] = { 8, 32, 192 };
	struct hwtimer_record rec = { .id = 3, .error = -1 };
	struct hwtimer_shm pair;
	struct hwtimer_sqe sqe;
	u64 sq_end, cq_end;
	unsigned int i, k;
	u8 *unknown;

	for (i = 0; i < ARRAY_SIZE(more); i++) {
		create_larger(test, &pair, 64, 64, more[i]);
		/* the parts do not overlap, and fit */
		sq_end = hwtimer_shm_sq_offset(&pair) + 64 * (sizeof(sqe) + more[i]);
		cq_end = sq_end + 64 * (sizeof(rec) + more[i]);
		KUNIT_ASSERT_EQ(test, sq_end, hwtimer_shm_cq_offset(&pair));
		KUNIT_ASSERT_EQ(test, PAGE_ALIGN(cq_end), hwtimer_shm_size(&pair));
		memset(pair.sqes, 0xa5, 64 * pair.sqe_size);
		memset(pair.cqes, 0xa5, 64 * pair.record_size);
		unknown = (u8 *)(hwtimer_shm_sqe(&pair, 2) + 1);
		memset(unknown, 0, more[i]);
		pair.sq_head = 2;
		KUNIT_EXPECT_TRUE(test, hwtimer_shm_get(&pair, &sqe));
		KUNIT_EXPECT_EQ(test, 0xa5a5a5a5, sqe.op);
		for (k = 0; k < more[i]; k++) {
			unknown[k] = 1;
			KUNIT_EXPECT_FALSE(test, hwtimer_shm_get(&pair, &sqe));
			unknown[k] = 0;
		}
		pair.cq_tail = 66;
		hwtimer_shm_put(&pair, &rec);
		KUNIT_EXPECT_MEMEQ(test, hwtimer_shm_record(&pair, 2), &rec, sizeof(rec));
		KUNIT_EXPECT_NULL(test, memchr_inv(hwtimer_shm_record(&pair, 2) + 1, 0, more[i]));
		KUNIT_EXPECT_EQ(test, 0xa5, *(u8 *)hwtimer_shm_record(&pair, 3));
		hwtimer_shm_destroy(&pair);
	}
}

/* The program's indexes: entries + 1 values are valid, whatever the module's indexes are. */
static void bounds(struct kunit *test)
{
	struct hwtimer_shm pair;
	bool submitted, room, bad;
	unsigned int i;
	u32 tail, d;

	create(test, &pair, 8, 4);
	for (i = 0; i < ARRAY_SIZE(begins); i++) {
		begin_at(&pair, begins[i]);
		for (d = 0; d < 20; d++) {
			pair.shared->sq_tail = begins[i] + d;
			submitted = hwtimer_shm_submitted(&pair, &tail);
			KUNIT_EXPECT_EQ(test, d <= 8, submitted);
			pair.shared->sq_tail = begins[i] - d;
			submitted = hwtimer_shm_submitted(&pair, &tail);
			KUNIT_EXPECT_EQ(test, !d, submitted);

			pair.shared->cq_head = begins[i] - d;
			room = hwtimer_shm_room(&pair, &bad);
			KUNIT_EXPECT_EQ(test, d < 4, room);
			KUNIT_EXPECT_EQ(test, d > 4, bad);
			pair.shared->cq_head = begins[i] + d;
			room = hwtimer_shm_room(&pair, &bad);
			KUNIT_EXPECT_EQ(test, !d, room);
			KUNIT_EXPECT_EQ(test, d != 0, bad);
		}
	}
	hwtimer_shm_destroy(&pair);
}

/* Values that the program writes to the module's fields have no effect on the module. */
static void nothing_trusted(struct kunit *test)
{
	struct hwtimer_record rec = { .id = 5 };
	struct rnd_state random;
	struct hwtimer_shm pair;
	unsigned int i;
	u64 seed = hwtimer_kunit_seed();
	u32 tail;
	bool bad;

	kunit_info(test, "seed %llu\n", seed);
	prandom_seed_state(&random, seed);
	create(test, &pair, 2, 2);
	for (i = 0; i < 1000; i++) {
		prandom_bytes_state(&random, pair.shared, hwtimer_shm_size(&pair));
		pair.shared->sq_tail = pair.sq_head + 1;
		pair.shared->cq_head = pair.cq_tail - 1;
		KUNIT_ASSERT_TRUE(test, hwtimer_shm_submitted(&pair, &tail));
		KUNIT_ASSERT_EQ(test, (u32)i + 1, tail);
		KUNIT_ASSERT_TRUE(test, hwtimer_shm_room(&pair, &bad));
		pair.sq_head++;
		hwtimer_shm_taken(&pair, pair.sq_head);
		KUNIT_ASSERT_EQ(test, (u32)i + 1, pair.shared->sq_head);
		hwtimer_shm_put(&pair, &rec);
		KUNIT_ASSERT_EQ(test, (u32)i + 1, pair.shared->cq_tail);
		KUNIT_ASSERT_EQ(test, 5ULL, hwtimer_shm_record(&pair, i)->id);
	}
	hwtimer_shm_destroy(&pair);
}

static void flags(struct kunit *test)
{
	struct hwtimer_shm pair;

	create(test, &pair, 1, 1);
	KUNIT_EXPECT_FALSE(test, hwtimer_shm_set_flag(&pair, HWTIMER_RING_BAD, false));
	KUNIT_EXPECT_TRUE(test, hwtimer_shm_set_flag(&pair, HWTIMER_RING_BAD, true));
	KUNIT_EXPECT_FALSE(test, hwtimer_shm_set_flag(&pair, HWTIMER_RING_BAD, true));
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_BAD, pair.shared->flags);
	KUNIT_EXPECT_TRUE(test, hwtimer_shm_set_flag(&pair, HWTIMER_RING_CQ_FULL, true));
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_BAD | HWTIMER_RING_CQ_FULL, pair.shared->flags);
	KUNIT_EXPECT_TRUE(test, hwtimer_shm_set_flag(&pair, HWTIMER_RING_BAD, false));
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_CQ_FULL, pair.shared->flags);
	hwtimer_shm_set_sleep(&pair, 12345678901234ULL, 2 * 12345678901234ULL);
	KUNIT_EXPECT_EQ(test, 12345678901234ULL, pair.shared->sleep_until);
	KUNIT_EXPECT_EQ(test, 2 * 12345678901234ULL, pair.shared->relaxed_until);
	KUNIT_EXPECT_EQ(test, 0U, pair.shared->sq_claimed);
	hwtimer_shm_claim(&pair, 0xfffffffeU);
	KUNIT_EXPECT_EQ(test, 0xfffffffeU, pair.shared->sq_claimed);
	KUNIT_EXPECT_EQ(test, 0U, pair.shared->pad3);
	hwtimer_shm_destroy(&pair);
}

static struct kunit_case ring_cases[] = {
	KUNIT_CASE(sizes),
	KUNIT_CASE(larger),
	KUNIT_CASE(freed),
	KUNIT_CASE(wraps),
	KUNIT_CASE(bounds),
	KUNIT_CASE(nothing_trusted),
	KUNIT_CASE(flags),
	{}
};

SUITE(ring, "shm");
