// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_wheel: hwtimer_wheel.c alone, against a naive model. It needs
 * nothing else of the module, and tests/native builds it as a program.
 */
#ifdef HWTIMER_WHEEL_SHIM
#include "wheel_kunit.h"
#else
#include <kunit/test.h>
#include <linux/slab.h>
#endif

#include "../../hwtimer_wheel.h"

#define ITEMS	300

static const unsigned char one_bit[] = { 0 }, netty[] = { 4 }, textbook[] = { 6, 6, 5 };
static const unsigned char two[] = { 2, 2 }, three[] = { 3, 2, 4 }, large[] = { 12 };
static const unsigned char eight[] = { 6, 6, 6, 6, 6, 6, 6, 6 };

static const struct shape {
	const unsigned char	*bits;
	unsigned int		levels;
} shapes[] = {
	{ one_bit, 1 }, { netty, 1 }, { textbook, 3 }, { two, 2 }, { three, 3 }, { eight, 8 },
	{ eight, 2 }, { large, 1 },
};

/* A node, and what the model knows of it. */
struct item {
	struct list_head	node;
	u64			tick;
	unsigned int		order;	/* of filing; 0: it was pushed back since */
	bool			filed;
};

/* A wheel beside its model. */
struct rig {
	struct kunit	*test;
	struct wheel	wheel;
	u64		reach;		/* of all levels, in ticks */
	u64		random;
	unsigned int	order;
	unsigned int	levels;
	struct item	items[ITEMS];
};

static u64 draw(struct rig *rig)
{
	rig->random ^= rig->random << 13;
	rig->random ^= rig->random >> 7;
	rig->random ^= rig->random << 17;
	return rig->random;
}

static unsigned int below(struct rig *rig, unsigned int n)
{
	return (u32)(draw(rig) >> 20) % n;
}

static struct rig *rig_of(struct kunit *test, const struct shape *shape)
{
	struct rig *rig = kunit_kzalloc(test, sizeof(*rig), GFP_KERNEL);
	void *memory = kunit_kzalloc(test, wheel_size(shape->bits, shape->levels), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rig);
	KUNIT_ASSERT_NOT_NULL(test, memory);
	rig->test = test;
	rig->random = 88172645463325252ULL;
	rig->levels = shape->levels;
	wheel_init(&rig->wheel, shape->bits, shape->levels, memory);
	rig->reach = 1ULL << (rig->wheel.level[shape->levels - 1].shift +
			      rig->wheel.level[shape->levels - 1].bits);
	return rig;
}

static struct item *item_of(struct list_head *node)
{
	return (struct item *)((char *)node - offsetof(struct item, node));
}

static void item_file(struct rig *rig, struct item *item, u64 tick)
{
	item->tick = tick < rig->wheel.cur ? rig->wheel.cur : tick;
	item->order = ++rig->order;
	item->filed = true;
	wheel_file(&rig->wheel, &item->node, tick);
}

/* The first tick of the model. */
static u64 first_tick(struct rig *rig)
{
	u64 first = WHEEL_NEVER;
	unsigned int i;

	for (i = 0; i < ITEMS; i++)
		if (rig->items[i].filed && rig->items[i].tick < first)
			first = rig->items[i].tick;
	return first;
}

/*
 * Take all up to @last, with budgets of up to @most, and file again what is not due. Returns how
 * many came due. @meanwhile: file others now and then.
 */
static unsigned int take_until(struct rig *rig, u64 last, unsigned int most, bool meanwhile)
{
	struct wheel *w = &rig->wheel;
	unsigned int budget, taken = 0, order = 0;
	u64 before = 0, cur = 0, due;
	struct list_head *node;
	struct item *item;

	do {
		budget = 1 + below(rig, most);
		while ((node = wheel_take(w, last, &budget))) {
			item = item_of(node);
			due = w->cur - 1;
			KUNIT_ASSERT_GE(rig->test, w->cur, cur);
			cur = w->cur;
			KUNIT_ASSERT_TRUE(rig->test, item->filed);
			KUNIT_ASSERT_LE(rig->test, due, last);
			if (item->tick > due) {
				wheel_file_again(w, node, item->tick);
				continue;
			}
			/* Never late, in the order of ticks and, on one level, of filing. */
			KUNIT_ASSERT_EQ(rig->test, item->tick, due);
			KUNIT_ASSERT_GE(rig->test, due, before);
			if (due != before)
				order = 0;
			if (rig->levels == 1 && item->order) {
				KUNIT_ASSERT_GT(rig->test, item->order, order);
				order = item->order;
			}
			before = due;
			item->filed = false;
			taken++;
			if (meanwhile && !below(rig, 3))
				item_file(rig, item, w->cur + below(rig, 40));
		}
		if (meanwhile && !below(rig, 4)) {
			item = &rig->items[below(rig, ITEMS)];
			if (item->filed)
				wheel_unfile(w, &item->node);
			item_file(rig, item, w->cur + below(rig, 100));
		}
	} while (!wheel_took_all(w, last));
	KUNIT_ASSERT_GT(rig->test, first_tick(rig), last);
	return taken;
}

/* A tick up to a few rounds ahead, near or far. */
static u64 any_tick(struct rig *rig)
{
	u64 span = rig->reach < 1ULL << 40 ? 3 * rig->reach : rig->reach;
	unsigned int bits = 0;

	while (span >> bits)
		bits++;
	return rig->wheel.cur + (draw(rig) & ((1ULL << below(rig, bits + 1)) - 1)) % span;
}

/* Random filing, removing, touching and taking agrees with the model on every shape. */
static void agrees_with_model(struct kunit *test)
{
	unsigned int i, n, filed, round;
	struct item *item;
	struct rig *rig;
	u64 next;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		rig = rig_of(test, &shapes[i]);
		for (round = 0; round < 400; round++) {
			for (n = below(rig, 20); n; n--) {
				item = &rig->items[below(rig, ITEMS)];
				if (item->filed && below(rig, 2)) {
					/* Pushed back: only the owner knows. */
					item->tick += below(rig, 50);
					item->order = 0;
					continue;
				}
				if (item->filed)
					wheel_unfile(&rig->wheel, &item->node);
				item->filed = false;
				if (below(rig, 4))
					item_file(rig, item, any_tick(rig));
			}
			for (filed = 0, n = 0; n < ITEMS; n++)
				filed += rig->items[n].filed;
			KUNIT_ASSERT_EQ(test, (unsigned long)filed, rig->wheel.filed);
			next = below(rig, 2) ? any_tick(rig) : WHEEL_NEVER;
			next = wheel_next(&rig->wheel, next, 1 + below(rig, 100));
			KUNIT_ASSERT_GE(test, next, rig->wheel.cur);
			KUNIT_ASSERT_LE(test, next, first_tick(rig));
			next = below(rig, 8) ? rig->wheel.cur + below(rig, 30) : any_tick(rig);
			take_until(rig, next, below(rig, 3) ? 1000 : 3, below(rig, 2));
		}
	}
}

/* What nobody touches is handed over at most once per level, and only when something is due. */
static void visits_are_few(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[5]);
	static const u64 ticks[] = { 1, 63, 64, 65, 2047, 2048, 100000, 1ULL << 25, 1ULL << 40 };
	unsigned int i, visits, budget;
	struct list_head *node;
	u64 next, cur;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		cur = rig->wheel.cur;
		item_file(rig, &rig->items[0], cur + ticks[i]);
		for (visits = 1;; visits++) {
			/* Nothing wakes the owner earlier. */
			next = wheel_next(&rig->wheel, WHEEL_NEVER, 1);
			KUNIT_ASSERT_EQ(test, cur + ticks[i], next);
			budget = 10;
			node = wheel_take(&rig->wheel, next, &budget);
			KUNIT_ASSERT_PTR_EQ(test, &rig->items[0].node, node);
			if (rig->wheel.cur > next)
				break;
			wheel_file_again(&rig->wheel, node, next);
		}
		KUNIT_EXPECT_LE(test, visits, 2U);
		budget = 10;
		KUNIT_ASSERT_NULL(test, wheel_take(&rig->wheel, next, &budget));
		KUNIT_EXPECT_EQ(test, 10U, budget);
	}
}

/* No bucket gathers what lies on both sides of a round: filed by distance. */
static void filed_by_distance(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[5]);
	struct wheel *w = &rig->wheel;
	u64 at = 1 << 20;

	/* The last tick of a round of level 0: the next ones are near all the same. */
	take_until(rig, at - 2, 1000, false);
	KUNIT_EXPECT_EQ(test, WHEEL_BUCKET(0, 0), wheel_bucket(w, at));
	KUNIT_EXPECT_EQ(test, WHEEL_BUCKET(0, 62), wheel_bucket(w, at + 62));
	KUNIT_EXPECT_EQ(test, WHEEL_BUCKET(1, 1), wheel_bucket(w, at + 63));
	/* The slot of now is half over. */
	take_until(rig, at + 15, 1000, false);
	KUNIT_EXPECT_EQ(test, WHEEL_BUCKET(1, 63), wheel_bucket(w, at + 63 * 32 + 15));
	KUNIT_EXPECT_EQ(test, WHEEL_BUCKET(2, 1), wheel_bucket(w, at + 63 * 32 + 16));
	KUNIT_EXPECT_EQ(test, WHEEL_BUCKET(8, 0), wheel_bucket(w, WHEEL_NEVER));
	wheel_file(w, &rig->items[0].node, at + 63);
	KUNIT_EXPECT_TRUE(test, wheel_occupied(w, WHEEL_BUCKET(0, 63)));
}

/* A bucket that cascades ahead of its slot, or within it, is not filed in itself. */
static void cascades_leave_the_bucket(struct kunit *test)
{
	struct rig *rig;
	struct wheel *w;
	u64 tick;
	u32 bucket;
	unsigned int i, ahead;

	for (i = 0; i < 2; i++) {
		for (ahead = 0; ahead < 64; ahead++) {
			rig = rig_of(test, &shapes[5]);
			w = &rig->wheel;
			tick = 1000 * 32 + i * 31;
			w->cur = tick - 1024;
			bucket = wheel_bucket(w, tick);
			wheel_file(w, &rig->items[0].node, tick);
			KUNIT_ASSERT_EQ(test, 1U, WHEEL_LEVEL_OF(bucket));
			wheel_unfile(w, &rig->items[0].node);
			/* Up to half of what level 0 reaches before the slot, and within it. */
			w->cur = 1000 * 32 - 32 + ahead;
			if (w->cur > tick)
				continue;
			bucket = wheel_bucket(w, tick);
			wheel_file(w, &rig->items[0].node, tick);
			KUNIT_EXPECT_EQ(test, 0U, WHEEL_LEVEL_OF(bucket));
		}
	}
}

/* At equal ticks the higher level comes first, so that what cascades is still in time. */
static void higher_level_first(struct kunit *test)
{
	struct rig *rig;
	unsigned int i;

	/* With levels above them, and as the top one. */
	for (i = 5; i < 7; i++) {
		rig = rig_of(test, &shapes[i]);
		item_file(rig, &rig->items[0], 5000);
		take_until(rig, 4900, 1000, false);
		item_file(rig, &rig->items[1], 5000);
		take_until(rig, 4950, 1000, false);
		item_file(rig, &rig->items[2], 5000);
		KUNIT_EXPECT_EQ(test, 3U, take_until(rig, 5000, 1, false));
		KUNIT_EXPECT_EQ(test, 5001ULL, rig->wheel.cur);
	}
}

/* What never comes is not taken before the wheel is emptied, and then last. */
static void never_comes_last(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[1]);
	struct wheel *w = &rig->wheel;
	unsigned int budget = 100, i;
	struct list_head *node;

	item_file(rig, &rig->items[0], WHEEL_NEVER);
	KUNIT_EXPECT_EQ(test, (u64)WHEEL_NEVER, wheel_next(w, WHEEL_NEVER, 1));
	for (i = 1; i < 4; i++)
		item_file(rig, &rig->items[i], 1000 * (4 - i));
	KUNIT_EXPECT_EQ(test, 2U, take_until(rig, 2000, 1, false));
	node = wheel_take(w, WHEEL_NEVER, &budget);
	KUNIT_EXPECT_PTR_EQ(test, &rig->items[1].node, node);
	node = wheel_take(w, WHEEL_NEVER, &budget);
	KUNIT_EXPECT_PTR_EQ(test, &rig->items[0].node, node);
	KUNIT_EXPECT_NULL(test, wheel_take(w, WHEEL_NEVER, &budget));
	KUNIT_EXPECT_EQ(test, 0UL, w->filed);
}

/* Buckets of later rounds cost probes, and a search that runs out of them still gets on. */
static void later_rounds_are_skipped(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[1]);
	struct wheel *w = &rig->wheel;
	unsigned int i, budget, calls;

	for (i = 0; i < 15; i++)
		item_file(rig, &rig->items[i], 1600 + i);
	/* It was the first one. */
	wheel_file(w, &rig->items[15].node, 15);
	wheel_unfile(w, &rig->items[15].node);
	KUNIT_EXPECT_EQ(test, wheel_next(w, WHEEL_NEVER, 5), w->cur + 5);
	/* Filed and gone again while the search is open, which then has to be made again. */
	wheel_file(w, &rig->items[15].node, 1599);
	wheel_unfile(w, &rig->items[15].node);
	for (calls = 0; !wheel_took_all(w, 1599) && calls < 20; calls++) {
		budget = 3;
		KUNIT_ASSERT_NULL(test, wheel_take(w, 1599, &budget));
	}
	/* The rest of 10 buckets, and 15. */
	KUNIT_EXPECT_EQ(test, calls, 9U);
	KUNIT_EXPECT_EQ(test, 1600ULL, wheel_next(w, WHEEL_NEVER, 0));
	KUNIT_EXPECT_EQ(test, 15U, take_until(rig, 1615, 3, false));
}

/* A pass that finds nothing due leaves its budget to what comes after it. */
static void nothing_due_costs_nothing(struct kunit *test)
{
	static const struct shape shape = { netty, 1 };
	struct rig *rig = rig_of(test, &shape);
	unsigned int i, budget = 100;

	for (i = 0; i < 10; i++)
		item_file(rig, &rig->items[i], 20 + i);
	item_file(rig, &rig->items[i], 3);
	KUNIT_EXPECT_PTR_EQ(test, wheel_take(&rig->wheel, 3, &budget), &rig->items[i].node);
	KUNIT_EXPECT_NULL(test, wheel_take(&rig->wheel, 3, &budget));
	KUNIT_EXPECT_TRUE(test, wheel_took_all(&rig->wheel, 3));
	KUNIT_EXPECT_EQ(test, budget, 99U);
}

/* The search for what is due ends there, whatever is in later rounds; it goes on later. */
static void searches_what_is_due(struct kunit *test)
{
	static const struct shape shape = { large, 1 };
	struct rig *rig = rig_of(test, &shape);
	struct wheel *w = &rig->wheel;
	unsigned int i, budget = 100;

	for (i = 0; i < 200; i++)
		item_file(rig, &rig->items[i], 4096 * 10 + i + 20);
	/* This one is gone, so the level has to be searched: up to the tick that matters. */
	wheel_file(w, &rig->items[200].node, 5);
	wheel_unfile(w, &rig->items[200].node);
	KUNIT_EXPECT_EQ(test, 25ULL, wheel_next(w, 24, 1000));
	item_file(rig, &rig->items[200], 10);
	KUNIT_EXPECT_PTR_EQ(test, wheel_take(w, 30, &budget), &rig->items[200].node);
	rig->items[200].filed = false;
	KUNIT_EXPECT_NULL(test, wheel_take(w, 30, &budget));
	KUNIT_EXPECT_TRUE(test, wheel_took_all(w, 30));
	/* One for what was due, one for each of the slots 20 to 30. */
	KUNIT_EXPECT_EQ(test, budget, 100 - 12U);
	/* What is filed now is found, and what is gone again is not. */
	item_file(rig, &rig->items[201], 33);
	item_file(rig, &rig->items[202], 32);
	wheel_unfile(w, &rig->items[202].node);
	rig->items[202].filed = false;
	KUNIT_EXPECT_EQ(test, 1U, take_until(rig, 40, 100, false));
	KUNIT_EXPECT_EQ(test, 200U, take_until(rig, 50000, 3, false));
}

/* A search gets on although the bucket that is the first one is emptied each time. */
static void searches_get_on(struct kunit *test)
{
	static const struct shape shape = { large, 1 };
	struct rig *rig = rig_of(test, &shape);
	struct wheel *w = &rig->wheel;
	unsigned int i, budget, calls;
	struct list_head *first;

	for (i = 0; i < 200; i++)
		item_file(rig, &rig->items[i], 4096 * 10 + i + 20);
	item_file(rig, &rig->items[200], 300);
	wheel_file(w, &rig->items[201].node, 10);
	wheel_unfile(w, &rig->items[201].node);
	for (calls = 0; rig->items[200].filed && calls < 100; calls++) {
		budget = 10;
		if (wheel_take(w, 300, &budget))
			rig->items[200].filed = false;
		first = w->level[0].buckets[w->level[0].first].nodes.next;
		for (i = 0; i < 200; i++) {
			if (first != &rig->items[i].node)
				continue;
			wheel_unfile(w, first);
			item_file(rig, &rig->items[i], rig->items[i].tick + 4096);
		}
	}
	KUNIT_EXPECT_LT(test, calls, 50U);
}

/* A bucket lists its nodes in order, those of a visit first. */
static void lists_a_bucket(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[1]);
	struct list_head *nodes[8], *node;
	struct wheel *w = &rig->wheel;
	unsigned int budget = 2, i;
	u32 bucket = 0;

	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ(test, i > 0, wheel_occupied(w, WHEEL_BUCKET(0, 3)));
		item_file(rig, &rig->items[i], i == 1 || i == 4 ? 3 : 19);
		bucket = WHEEL_BUCKET(0, 3);
	}
	KUNIT_EXPECT_EQ(test, 5U, wheel_list(w, bucket, nodes, 8));
	KUNIT_EXPECT_PTR_EQ(test, &rig->items[4].node, nodes[4]);
	KUNIT_EXPECT_EQ(test, 2U, wheel_list(w, bucket, nodes, 2));
	while ((node = wheel_take(w, 3, &budget)))
		if (item_of(node)->tick > 3)
			wheel_file_again(w, node, item_of(node)->tick);
	item_file(rig, &rig->items[5], 19);
	/* 1 was due; 2, 3 and 4 still wait; 0 was kept; 5 is new. */
	KUNIT_EXPECT_EQ(test, 5U, wheel_list(w, bucket, nodes, 8));
	KUNIT_EXPECT_PTR_EQ(test, &rig->items[2].node, nodes[0]);
	KUNIT_EXPECT_PTR_EQ(test, &rig->items[0].node, nodes[3]);
	KUNIT_EXPECT_PTR_EQ(test, &rig->items[5].node, nodes[4]);
	KUNIT_EXPECT_TRUE(test, wheel_occupied(w, bucket));
	KUNIT_EXPECT_FALSE(test, wheel_took_all(w, 3));
	budget = 8;
	while ((node = wheel_take(w, 3, &budget)))
		if (item_of(node)->tick > 3)
			wheel_file_again(w, node, item_of(node)->tick);
	KUNIT_EXPECT_EQ(test, 4U, wheel_list(w, bucket, nodes, 8));
	KUNIT_EXPECT_PTR_EQ(test, &rig->items[0].node, nodes[0]);
	KUNIT_EXPECT_PTR_EQ(test, &rig->items[5].node, nodes[3]);
}

/* Levels reach half as far as their slots together, each from the one below. */
static void levels_that_reach(struct kunit *test)
{
	static const unsigned char narrow[] = { 1, 6 }, wide[] = { 17 }, widest[] = { 16, 16 };
	static const unsigned char bytes[16] = { 8, 8, 8, 8, 8, 8, 8, 8, 8 };
	struct rig *rig = rig_of(test, &shapes[2]);

	KUNIT_EXPECT_EQ(test, 1U, wheel_levels(eight, 8, 63));
	KUNIT_EXPECT_EQ(test, 2U, wheel_levels(eight, 8, 64));
	KUNIT_EXPECT_EQ(test, 2U, wheel_levels(eight, 8, 2047));
	KUNIT_EXPECT_EQ(test, 3U, wheel_levels(eight, 8, 2048));
	/* 69 years of 1 ms. */
	KUNIT_EXPECT_EQ(test, 8U, wheel_levels(eight, 8, (1ULL << 41) - 1));
	KUNIT_EXPECT_EQ(test, 8U, wheel_levels(eight, 8, 1ULL << 50));
	KUNIT_EXPECT_EQ(test, 7U, wheel_levels(eight, 8, (1ULL << 36) - 1));
	KUNIT_EXPECT_EQ(test, 0U, wheel_levels(narrow, 2, 100));
	KUNIT_EXPECT_EQ(test, 0U, wheel_levels(wide, 1, 100));
	KUNIT_EXPECT_EQ(test, 2U, wheel_levels(widest, 2, 1ULL << 40));
	/* 9 levels reach 64 bits. */
	KUNIT_EXPECT_EQ(test, 9U, wheel_levels(bytes, 16, WHEEL_NEVER));
	KUNIT_EXPECT_EQ(test, 0, rig->wheel.level[0].shift);
	KUNIT_EXPECT_EQ(test, 5, rig->wheel.level[1].shift);
	KUNIT_EXPECT_EQ(test, 10, rig->wheel.level[2].shift);
	KUNIT_EXPECT_LE(test, wheel_size(eight, 8), (size_t)13 * 1024);
}

static struct kunit_case wheel_cases[] = {
	KUNIT_CASE(agrees_with_model),
	KUNIT_CASE(visits_are_few),
	KUNIT_CASE(filed_by_distance),
	KUNIT_CASE(cascades_leave_the_bucket),
	KUNIT_CASE(higher_level_first),
	KUNIT_CASE(never_comes_last),
	KUNIT_CASE(later_rounds_are_skipped),
	KUNIT_CASE(nothing_due_costs_nothing),
	KUNIT_CASE(searches_what_is_due),
	KUNIT_CASE(searches_get_on),
	KUNIT_CASE(lists_a_bucket),
	KUNIT_CASE(levels_that_reach),
	{}
};

static struct kunit_suite wheel_suite = {
	.name = "hwtimer_wheel",
	.test_cases = wheel_cases,
};

kunit_test_suite(wheel_suite);
