// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_wheel: hwtimer_wheel.c alone, against a naive model. It needs
 * nothing else of the module, and is a program of tests/native, too.
 */
#include <kunit/test.h>

#include "../../core/hwtimer_wheel.h"

#define ITEMS	300

static const unsigned char one_bit[] = { 0 }, netty[] = { 4 }, textbook[] = { 6, 6, 5 };
static const unsigned char two[] = { 2, 2 }, three[] = { 3, 2, 4 }, large[] = { 12 };
static const unsigned char top_of_one[] = { 2, 0 }, top_of_two[] = { 2, 1 };
static const unsigned char eight[] = { 6, 6, 6, 6, 6, 6, 6, 6 };

static const struct shape {
	const unsigned char	*bits;
	unsigned int		levels;
} shapes[] = {
	{ one_bit, 1 }, { netty, 1 }, { textbook, 3 }, { two, 2 }, { three, 3 }, { eight, 8 },
	{ eight, 2 }, { large, 1 }, { top_of_one, 2 }, { top_of_two, 2 },
};

/* A node, and what the model knows of it. */
struct item {
	struct list_head	node;
	u64			tick;
	unsigned int		order;	/* of filing; 0: it was pushed back since */
	unsigned int		handed;	/* how often it was handed out since */
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
	unsigned int	most;		/* nodes of a level that cascaded at one tick, at most */
	u64		begun;		/* the tick of the first cascade since @most was 0 */
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
	size_t size = wheel_size(shape->bits, shape->levels);
	void *memory = kunit_kzalloc(test, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rig);
	KUNIT_ASSERT_NOT_NULL(test, memory);
	memset(memory, 0xff, size);
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
	item->handed = 0;
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
	u64 before = 0, cur = w->cur, due;
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

/* Take all up to @last, tick by tick, and note how much cascades at a tick. */
static void watch_until(struct rig *rig, u64 last)
{
	unsigned int budget, level, handed[WHEEL_MAX_LEVELS];
	struct wheel *w = &rig->wheel;
	struct list_head *node;
	struct item *item;
	u64 tick;

	for (tick = w->cur; tick <= last; tick++) {
		memset(handed, 0, sizeof(handed));
		budget = 10 * ITEMS;
		while ((node = wheel_take(w, tick, &budget))) {
			item = item_of(node);
			item->handed++;
			level = WHEEL_LEVEL_OF(w->visited);
			if (!level) {
				KUNIT_ASSERT_EQ(rig->test, item->tick, tick);
				item->filed = false;
				continue;
			}
			if (!rig->most)
				rig->begun = tick;
			if (rig->most < ++handed[level])
				rig->most = handed[level];
			wheel_file_again(w, node, item->tick);
		}
		KUNIT_ASSERT_GT(rig->test, budget, 0U);
	}
	KUNIT_ASSERT_GT(rig->test, first_tick(rig), last);
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

	for (i = 0; i < 4 * ARRAY_SIZE(shapes); i++) {
		rig = rig_of(test, &shapes[i / 4]);
		/* Full buckets cascade in steps. */
		if (i % 4) {
			rig->wheel.step = 1 << (i % 4 - 1);
			rig->wheel.align = (1 << below(rig, 4)) - 1;
		}
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

/* File @n items, each @every-th one from @from on, in turn for the @width ticks from @tick on. */
static void file_row(struct rig *rig, unsigned int from, unsigned int n, unsigned int every,
		     u64 tick, unsigned int width)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		item_file(rig, &rig->items[from + i * every], tick + i % width);
}

/* How often was the one of these items handed out that was handed out most often? */
static unsigned int handed_most(const struct rig *rig, unsigned int from, unsigned int n)
{
	unsigned int i, most = 0;

	for (i = from; i < from + n; i++)
		if (rig->items[i].handed > most)
			most = rig->items[i].handed;
	return most;
}

/* A full bucket cascades ahead of its tick, so many at a tick, and each of its nodes once. */
static void cascades_in_steps(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[5]);
	const u64 slot = 100 * 32;

	rig->wheel.step = 4;
	take_until(rig, slot - 200, 1000, false);
	/* A slot of level 1 has 32 ticks, and may begin as many ticks before. */
	file_row(rig, 0, 4 * 25 + 1, 1, slot + 3, 29);
	watch_until(rig, slot + 32);
	KUNIT_EXPECT_EQ(test, 4U, rig->most);
	KUNIT_EXPECT_EQ(test, slot + 3 - 25, rig->begun);
	KUNIT_EXPECT_EQ(test, 2U, handed_most(rig, 0, 101));
	/* One pass suffices: at its tick, and not before. */
	rig->most = 0;
	take_until(rig, 2 * slot - 200, 1000, false);
	file_row(rig, 0, 4, 1, 2 * slot + 3, 29);
	watch_until(rig, 2 * slot + 32);
	KUNIT_EXPECT_EQ(test, 4U, rig->most);
	KUNIT_EXPECT_EQ(test, 2 * slot + 3, rig->begun);
	/* What is too much for that begins no earlier than the level below reaches. */
	rig->most = 0;
	take_until(rig, 3 * slot - 200, 1000, false);
	file_row(rig, 0, ITEMS, 1, 3 * slot, 32);
	watch_until(rig, 3 * slot + 32);
	KUNIT_EXPECT_EQ(test, ITEMS - 32 * 4U, rig->most);
	KUNIT_EXPECT_EQ(test, 3 * slot - 32, rig->begun);
	KUNIT_EXPECT_EQ(test, 2U, handed_most(rig, 0, ITEMS));
}

/* A full bucket whose slot comes later may begin before the one of the slot before it. */
static void next_slot_begins_first(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[5]);
	const u64 slot = 100 * 32;

	rig->wheel.step = 2;
	take_until(rig, slot - 200, 1000, false);
	item_file(rig, &rig->items[0], slot + 30);
	file_row(rig, 1, 64, 1, slot + 32, 1);
	KUNIT_EXPECT_EQ(test, slot + 1, wheel_next(&rig->wheel, WHEEL_NEVER, 0));
	watch_until(rig, slot + 100);
	/* A step, and the only node of the slot before. */
	KUNIT_EXPECT_EQ(test, 3U, rig->most);
	KUNIT_EXPECT_EQ(test, slot + 1, rig->begun);
	/* Both are full. */
	rig->most = 0;
	take_until(rig, 2 * slot - 200, 1000, false);
	file_row(rig, 0, 64, 1, 2 * slot + 31, 1);
	file_row(rig, 64, 64, 1, 2 * slot + 32, 1);
	watch_until(rig, 2 * slot + 100);
	KUNIT_EXPECT_EQ(test, 4U, rig->most);
	KUNIT_EXPECT_EQ(test, 2U, handed_most(rig, 0, 128));
}

/* What a full bucket has for later rounds is handed out in its round, or the one before. */
static void later_rounds_stay(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[6]);
	const u64 slot = 50 * 32, round = 64 * 32;
	unsigned int i;

	rig->wheel.step = 4;
	/* Every other node is for two rounds later. */
	for (i = 0; i < 100; i++)
		item_file(rig, &rig->items[i], slot + 20 + i % 2 * 2 * round);
	/* In the middle of the cascade, others are filed in its bucket. */
	watch_until(rig, slot + 14);
	file_row(rig, 100, 9, 1, slot + round + 20, 1);
	file_row(rig, 109, 9, 1, slot + 2 * round + 5, 1);
	watch_until(rig, slot + 32);
	/* Two were filed before the bucket was full, and so are handed out with the others. */
	KUNIT_EXPECT_EQ(test, slot + 20 - 12, rig->begun);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, i % 2 ? i < 4 : 2U, rig->items[i].handed);
	KUNIT_EXPECT_EQ(test, 0U, handed_most(rig, 100, 18));
	watch_until(rig, slot + round + 32);
	for (i = 1; i < 100; i += 2)
		KUNIT_EXPECT_EQ(test, 1U + (i < 4), rig->items[i].handed);
	KUNIT_EXPECT_EQ(test, 2U, handed_most(rig, 100, 9));
	KUNIT_EXPECT_EQ(test, 1U, handed_most(rig, 109, 9));
	watch_until(rig, slot + 2 * round + 32);
	KUNIT_EXPECT_EQ(test, 4U, rig->most);
	for (i = 1; i < 100; i += 2)
		KUNIT_EXPECT_EQ(test, 3U + (i < 4), rig->items[i].handed);
	KUNIT_EXPECT_EQ(test, 0UL, rig->wheel.filed);
}

/*
 * A full bucket hands out once what it keeps for later rounds, and again when the first of it is
 * due, however many others are filed and removed.
 */
static void kept_once(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[6]);
	const u64 slot = 50 * 32, round = 64 * 32;
	struct wheel *w = &rig->wheel;
	unsigned int i, k;

	w->step = 4;
	/* The first ones get into the bucket before there are any for this round. */
	file_row(rig, 0, 40, 1, slot + 20 + 9 * round, 1);
	file_row(rig, 40, 12, 1, slot + 20, 1);
	for (i = 0; i < 9; i++) {
		for (k = 0; k < 200; k++) {
			wheel_file(w, &rig->items[100].node, slot + 20 + (i + 12) * round);
			wheel_unfile(w, &rig->items[100].node);
		}
		watch_until(rig, slot + i * round + 32);
		KUNIT_EXPECT_EQ(test, 1U, handed_most(rig, 0, 40));
		KUNIT_EXPECT_EQ(test, 2U, handed_most(rig, 40, 12));
	}
	watch_until(rig, slot + 9 * round + 32);
	KUNIT_EXPECT_EQ(test, 3U, handed_most(rig, 0, 40));
	KUNIT_EXPECT_EQ(test, 0UL, w->filed);
}

/* If all of this round are removed, those of later rounds are what the bucket has. */
static void later_rounds_take_over(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[6]);
	const u64 slot = 50 * 32, round = 64 * 32;
	struct list_head *nodes[30];
	struct wheel *w = &rig->wheel;
	unsigned int i;

	w->step = 4;
	file_row(rig, 0, 5, 1, slot, 32);
	file_row(rig, 5, 20, 1, slot + round, 32);
	KUNIT_EXPECT_EQ(test, 25U, wheel_list(w, WHEEL_BUCKET(1, 50), nodes, 30));
	for (i = 0; i < 5; i++) {
		wheel_unfile(w, &rig->items[i].node);
		rig->items[i].filed = false;
	}
	KUNIT_EXPECT_EQ(test, 20U, wheel_list(w, WHEEL_BUCKET(1, 50), nodes, 30));
	KUNIT_EXPECT_EQ(test, slot + round - 4, wheel_next(w, WHEEL_NEVER, 10));
	watch_until(rig, slot + round + 32);
	KUNIT_EXPECT_EQ(test, 0UL, w->filed);
}

/* What is filed in the bucket during a step, for later rounds, comes after the rest of it. */
static void filed_in_a_step(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[6]);
	const u64 slot = 50 * 32, round = 64 * 32;
	struct wheel *w = &rig->wheel;
	unsigned int budget = 1;
	struct list_head *node;

	w->step = 2;
	file_row(rig, 0, 20, 1, slot + 20, 1);
	node = wheel_take(w, slot + 11, &budget);
	KUNIT_ASSERT_NOT_NULL(test, node);
	wheel_file_again(w, node, slot + 20);
	KUNIT_EXPECT_EQ(test, slot + 11, w->cur);
	file_row(rig, 20, 20, 1, slot + round + 20, 1);
	file_row(rig, 40, 20, 1, slot + 2 * round, 32);
	watch_until(rig, slot + 2 * round + 32);
	KUNIT_EXPECT_EQ(test, 2U, rig->most);
	KUNIT_EXPECT_EQ(test, 0UL, w->filed);
}

/* Nodes that were removed may make a cascade begin early. Without nodes, a bucket begins anew. */
static void removed_begin_early(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[5]);
	const u64 slot = 100 * 32;
	struct list_head *node;
	unsigned int i, budget;
	u64 next;

	rig->wheel.step = 1;
	take_until(rig, slot - 200, 1000, false);
	file_row(rig, 0, 100, 1, slot + 20, 1);
	for (i = 1; i < 100; i++) {
		wheel_unfile(&rig->wheel, &rig->items[i].node);
		rig->items[i].filed = false;
	}
	watch_until(rig, slot + 32);
	KUNIT_EXPECT_EQ(test, 2U, rig->items[0].handed);
	/* All of them: the bucket begins anew. */
	take_until(rig, 2 * slot - 200, 1000, false);
	file_row(rig, 0, 100, 1, 2 * slot + 20, 1);
	for (i = 0; i < 100; i++) {
		wheel_unfile(&rig->wheel, &rig->items[i].node);
		rig->items[i].filed = false;
	}
	item_file(rig, &rig->items[0], 2 * slot + 20);
	KUNIT_EXPECT_EQ(test, 2 * slot + 20, wheel_next(&rig->wheel, WHEEL_NEVER, 0));
	/* And what is kept. */
	rig = rig_of(test, &shapes[6]);
	rig->wheel.step = 2;
	for (i = 0; i < 60; i++) {
		budget = 1;
		item_file(rig, &rig->items[0], rig->wheel.cur + 100);
		node = wheel_take(&rig->wheel, rig->wheel.cur + 100, &budget);
		KUNIT_ASSERT_PTR_EQ(test, &rig->items[0].node, node);
		wheel_file_again(&rig->wheel, node, rig->wheel.cur + 64 * 32);
		wheel_unfile(&rig->wheel, node);
		rig->items[0].filed = false;
	}
	item_file(rig, &rig->items[0], rig->wheel.cur + 100);
	budget = 1;
	node = wheel_take(&rig->wheel, rig->wheel.cur + 100, &budget);
	next = rig->wheel.cur + 64 * 32;
	wheel_file_again(&rig->wheel, node, next);
	KUNIT_EXPECT_NULL(test, wheel_take(&rig->wheel, rig->wheel.cur, &budget));
	KUNIT_EXPECT_EQ(test, next, wheel_next(&rig->wheel, WHEEL_NEVER, 10));
}

/* A cascade that would begin before the wheel did. */
static void steps_of_a_young_wheel(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[5]);

	rig->wheel.step = 1;
	file_row(rig, 0, 100, 1, 70, 1);
	KUNIT_EXPECT_EQ(test, 70ULL - 32, wheel_next(&rig->wheel, WHEEL_NEVER, 0));
	watch_until(rig, 70);
}

/* With an alignment, one wake-up serves the steps of several ticks. */
static void steps_are_aligned(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[5]);
	const u64 slot = 100 * 32;
	struct wheel *w = &rig->wheel;
	unsigned int budget, wakes = 0;
	struct list_head *node;
	u64 next;

	w->step = 2;
	w->align = 7;
	take_until(rig, slot - 200, 1000, false);
	file_row(rig, 0, 41, 1, slot + 31, 1);
	do {
		next = wheel_next(w, WHEEL_NEVER, 0);
		KUNIT_EXPECT_TRUE(test, next % 8 == 0 || next == slot + 31);
		budget = 10 * ITEMS;
		while ((node = wheel_take(w, next, &budget)))
			if (WHEEL_LEVEL_OF(w->visited))
				wheel_file_again(w, node, slot + 31);
		wakes++;
	} while (w->filed);
	/* From 20 ticks before, at three multiples of 8, and at its tick. */
	KUNIT_EXPECT_EQ(test, 4U, wakes);
	/* As many as a step has need none. */
	rig = rig_of(test, &shapes[5]);
	w = &rig->wheel;
	w->step = 2;
	take_until(rig, 2 * slot - 200, 1000, false);
	file_row(rig, 50, 2, 1, 2 * slot + 31, 1);
	KUNIT_EXPECT_EQ(test, 2 * slot + 31, wheel_next(w, WHEEL_NEVER, 0));
}

/* A sweep in the middle of a step takes everything. */
static void emptied_in_a_step(struct kunit *test)
{
	const u64 slot = 50 * 32, round = 64 * 32;
	unsigned int i, budget, taken;
	struct list_head *node;
	struct rig *rig;

	for (i = 1; i < 10; i++) {
		rig = rig_of(test, &shapes[6]);
		rig->wheel.step = 4;
		/* Those of a later round come first, and are kept. */
		file_row(rig, 0, 50, 2, slot + 2 * round + 20, 1);
		file_row(rig, 1, 50, 2, slot + 20, 1);
		take_until(rig, slot - 5, 1000, false);
		budget = i;
		while ((node = wheel_take(&rig->wheel, rig->wheel.cur, &budget)))
			wheel_file_again(&rig->wheel, node, item_of(node)->tick);
		KUNIT_EXPECT_EQ(test, i < 4 ? 0U : i - 4, budget);
		budget = 1000;
		for (taken = 0; wheel_take(&rig->wheel, WHEEL_NEVER, &budget); taken++)
			;
		KUNIT_EXPECT_EQ(test, 100U, taken);
		KUNIT_EXPECT_EQ(test, 0UL, rig->wheel.filed);
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

/* A search that ends at a tick ends after the buckets that begin to cascade by then. */
static void searches_what_cascades(struct kunit *test)
{
	struct rig *rig = rig_of(test, &shapes[6]);
	struct wheel *w = &rig->wheel;
	const u64 slot = 50 * 32;

	w->step = 2;
	file_row(rig, 0, 100, 1, slot, 1);
	/* In the slot before it, for a later round. */
	item_file(rig, &rig->items[100], slot - 32 + 64 * 32);
	/* This one is gone, so the level has to be searched. */
	wheel_file(w, &rig->items[101].node, 100);
	wheel_unfile(w, &rig->items[101].node);
	KUNIT_EXPECT_EQ(test, slot - 32, wheel_next(w, slot - 31, 1));
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
	KUNIT_EXPECT_LE(test, wheel_size(eight, 8), (size_t)19 * 1024);
}

static struct kunit_case wheel_cases[] = {
	KUNIT_CASE(agrees_with_model),
	KUNIT_CASE(visits_are_few),
	KUNIT_CASE(filed_by_distance),
	KUNIT_CASE(cascades_in_steps),
	KUNIT_CASE(next_slot_begins_first),
	KUNIT_CASE(later_rounds_stay),
	KUNIT_CASE(kept_once),
	KUNIT_CASE(later_rounds_take_over),
	KUNIT_CASE(filed_in_a_step),
	KUNIT_CASE(removed_begin_early),
	KUNIT_CASE(steps_of_a_young_wheel),
	KUNIT_CASE(steps_are_aligned),
	KUNIT_CASE(emptied_in_a_step),
	KUNIT_CASE(higher_level_first),
	KUNIT_CASE(never_comes_last),
	KUNIT_CASE(later_rounds_are_skipped),
	KUNIT_CASE(nothing_due_costs_nothing),
	KUNIT_CASE(searches_what_is_due),
	KUNIT_CASE(searches_get_on),
	KUNIT_CASE(searches_what_cascades),
	KUNIT_CASE(lists_a_bucket),
	KUNIT_CASE(levels_that_reach),
	{}
};

static struct kunit_suite wheel_suite = {
	.name = "hwtimer_wheel",
	.test_cases = wheel_cases,
};

kunit_test_suite(wheel_suite);
