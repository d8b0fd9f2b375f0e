// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites of time that does not go as one would like: a worker that is
 * held off, clocks that jump, a million expiries at one tick, the end of the range.
 *
 * hwtimer_time has a clock of its own, as the suites of wheel_kunit.c; hwtimer_time_driver
 * has the drivers and the machine's clocks. That one is made for User-Mode Linux with
 * time-travel=inf-cpu: there is nothing to wait for, and late is what is later than the
 * boundary of a tick.
 */
#include <kunit/test.h>
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../hwtimer_internal.h"
#include "../hwtimer_period.h"
#include "hwtimer_kunit.h"

#define MS		((u64)NSEC_PER_MSEC)
#define SEC		((u64)NSEC_PER_SEC)
#define HOUR		(3600 * SEC)

struct item;

/* A wheel, and a case in the place of its driver. */
struct rig {
	struct kunit		*test;
	struct hwtimer_wheel	wheel;
	bool			made;
	u64			now;
	struct item		*items;
	unsigned int		n;
	unsigned int		fired;
	/* what callbacks do besides */
	void			(*then)(struct rig *rig, struct item *it);
};

/* A timeout, and what is expected of it. */
struct item {
	struct hwtimer_timeout	t;
	/* the tick that it has to expire at */
	u64			due;
	/* of the last time that it expired: the tick, and its rank among all */
	u64			tick;
	unsigned int		rank;
	unsigned int		fired;
};

static void rig_kick(struct hwtimer_wheel *w)
{
}

static void rig_expire(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		       hwtimer_fn_t fn, u64 deadline)
{
	struct rig *rig = container_of(w, struct rig, wheel);
	u64 end = w->now_tick * w->tick_ns;

	if (deadline > end || end > rig->now)
		KUNIT_FAIL(rig->test, "early: deadline %llu, tick ends at %llu, now %llu",
			   deadline, end, rig->now);
	fn(t);
}

static void *rig_alloc(struct hwtimer_wheel *w, size_t size)
{
	return kvzalloc(size, GFP_KERNEL);
}

static const struct wheel_ops rig_ops = {
	.kick	= rig_kick,
	.expire	= rig_expire,
	.alloc	= rig_alloc,
};

static void item_fired(struct hwtimer_timeout *t)
{
	struct item *it = container_of(t, struct item, t);
	struct rig *rig = container_of(t->wheel, struct rig, wheel);

	it->tick = rig->wheel.now_tick;
	it->rank = ++rig->fired;
	it->fired++;
	if (rig->then)
		rig->then(rig, it);
}

static const struct shape {
	const char	*desc;
	u64		tick_ns;
	unsigned int	slots;
	unsigned int	levels;
	bool		grow;
} shapes[] = {
	{ "1 ns, 8 slots", 1, 8, 1 },
	{ "7 us, 4 slots", 7 * NSEC_PER_USEC, 4, 1 },
	{ "1 ms, 1 slot", NSEC_PER_MSEC, 1, 1 },
	{ "1 s, 8 slots", NSEC_PER_SEC, 8, 1 },
	{ "1 h, 16 slots", HOUR, 16, 1 },
	{ "1 ns, 3 levels of 4", 1, 4, 3 },
	{ "999983 ns, 2 levels of 4", 999983, 4, 2 },
	{ "1 min, 4 levels of 2", 60 * SEC, 2, 4 },
	{ "1 h, 2 levels of 8", HOUR, 8, 2 },
	{ "3 ns, growing, 2 slots", 3, 2, 1, true },
	{ "1 ms, growing, 4 slots", NSEC_PER_MSEC, 4, 1, true },
	{ "1 h, growing from 2, 4 slots", HOUR, 4, 2, true },
};

static void shape_desc(const struct shape *shape, char *desc)
{
	strscpy(desc, shape->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(shape, shapes, shape_desc);

static void rig_make(struct rig *rig, const struct shape *s, unsigned int n)
{
	const struct wheel_shape shape = {
		.tick_ns = s->tick_ns, .slots = s->slots, .levels = s->levels, .grow = s->grow,
	};
	unsigned int i;

	KUNIT_ASSERT_EQ(rig->test, 0, wheel_init(&rig->wheel, &shape, &rig_ops, GFP_KERNEL));
	rig->made = true;
	rig->now = 0;
	rig->fired = 0;
	rig->then = NULL;
	rig->items = kvcalloc(n, sizeof(*rig->items), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(rig->test, rig->items);
	rig->n = n;
	for (i = 0; i < n; i++)
		wheel_timeout_init(&rig->items[i].t, &rig->wheel, item_fired);
}

/* Whatever a case did: in the end the wheel holds nothing. */
static void rig_end(struct rig *rig)
{
	struct wheel_counts c;

	if (!rig->made)
		return;
	rig->made = false;
	/* Stopping takes a grace period. */
	if (rig->wheel.filed) {
		wheel_shutdown(&rig->wheel);
		wheel_sweep(&rig->wheel, NULL);
	}
	wheel_count(&rig->wheel, &c);
	KUNIT_EXPECT_EQ(rig->test, 0UL, c.pending);
	wheel_free(&rig->wheel);
	kvfree(rig->items);
	rig->items = NULL;
}

static int rig_init(struct kunit *test)
{
	struct rig *rig = kunit_kzalloc(test, sizeof(*rig), GFP_KERNEL);

	test->priv = rig;
	if (!rig)
		return -ENOMEM;
	rig->test = test;
	return 0;
}

static void rig_exit(struct kunit *test)
{
	if (test->priv)
		rig_end(test->priv);
}

static struct wheel_counts counts(const struct hwtimer_wheel *wheel)
{
	struct wheel_counts c;

	wheel_count(wheel, &c);
	return c;
}

static void advance_to(struct rig *rig, u64 now, unsigned int budget)
{
	rig->now = now;
	while (wheel_advance(&rig->wheel, now, budget))
		;
}

/* The tick after the last one that is over. */
static u64 next_tick(const struct rig *rig)
{
	return div64_u64(min(rig->now, WHEEL_FOREVER - 1), rig->wheel.tick_ns) + 1;
}

/* The first boundary at or after @deadline, that is not past; U64_MAX: none. */
static u64 due_tick(const struct rig *rig, u64 deadline)
{
	u64 tick_ns = rig->wheel.tick_ns, rest, tick;

	if (deadline >= WHEEL_FOREVER)
		return U64_MAX;
	tick = div64_u64_rem(deadline, tick_ns, &rest) + !!rest;
	tick = max(tick, next_tick(rig));
	return tick > div64_u64(WHEEL_FOREVER - 1, tick_ns) ? U64_MAX : tick;
}

static void arm(struct rig *rig, unsigned int i, u64 deadline)
{
	struct item *it = &rig->items[i];

	it->due = due_tick(rig, deadline);
	KUNIT_EXPECT_EQ(rig->test, 0, wheel_arm(&it->t, deadline));
}

/* How many ticks there are until a slot of the top level comes again. */
static u64 round_of(const struct hwtimer_wheel *w)
{
	return 1ULL << w->levels * w->slot_bits;
}

/*
 * The worker comes @by ticks late, having been on time at tick @start. At each tick there
 * is something due, before, at and after the boundary, for some rounds.
 */
static void held_off_by(struct rig *rig, const struct shape *s, u64 start, u64 by)
{
	unsigned int n = 3 * int_pow(s->slots, s->levels) + 2, seen = 0, wrong = 0, i;
	u64 tick_ns = s->tick_ns, target = start + by, last = start + n + (tick_ns > 1);
	u64 round, tick, ticks, visits, looks = 0;
	struct wheel_counts before, after;
	bool ordered;

	rig_make(rig, s, 3 * n);
	advance_to(rig, start * tick_ns, WHEEL_BUDGET);
	/* Around the boundary, if there is anything but boundaries. */
	for (i = 0; i < 3 * n; i++)
		arm(rig, i, (start + 1 + i / 3) * tick_ns + (tick_ns > 1 ? i % 3 : 1) - 1);
	advance_to(rig, start * tick_ns, WHEEL_BUDGET);
	KUNIT_ASSERT_EQ(rig->test, 0, rig->fired);
	round = round_of(&rig->wheel);
	ordered = by <= round;
	before = counts(&rig->wheel);

	/* At the very beginning of a tick, within it, and at its end. */
	advance_to(rig, target * tick_ns + by % 3 * (tick_ns - 1) / 2, 5);
	after = counts(&rig->wheel);
	for (i = 0; i < 3 * n; i++) {
		struct item *it = &rig->items[i];
		bool due = it->due <= target;

		seen += due;
		/* Armed in the order of their ticks. */
		wrong += it->fired != due || (due && ordered &&
					      (it->tick != it->due || it->rank != i + 1));
		/* Of the same slot as a tick that is over. */
		looks += by >= round || ((it->due - start - 1) & (round - 1)) < by;
	}
	KUNIT_EXPECT_EQ_MSG(rig->test, 0, wrong, "from %llu by %llu", start, by);
	KUNIT_EXPECT_EQ_MSG(rig->test, seen, rig->fired, "from %llu by %llu", start, by);

	ticks = after.ticks - before.ticks;
	visits = after.visits - before.visits;
	if (ordered)
		KUNIT_EXPECT_EQ(rig->test, min_t(u64, by, last - start), ticks);
	/* Each bucket once; and so each timeout, or as often as it has levels to fall. */
	if (rig->wheel.max_levels == 1) {
		KUNIT_EXPECT_EQ(rig->test, min(by, round), ticks);
		KUNIT_EXPECT_EQ(rig->test, looks, visits);
	} else {
		/* and what is left of the slot that it is in */
		KUNIT_EXPECT_LE_MSG(rig->test, ticks, round + round / s->slots,
				    "from %llu by %llu", start, by);
		KUNIT_EXPECT_LE_MSG(rig->test, visits, 3ULL * n * rig->wheel.levels,
				    "from %llu by %llu", start, by);
	}

	/* The rest is on time. */
	for (tick = target + 1; tick <= last; tick++)
		advance_to(rig, tick * tick_ns, WHEEL_BUDGET);
	for (i = 0; i < 3 * n; i++) {
		struct item *it = &rig->items[i];

		wrong += it->fired != 1 || (it->due > target && it->tick != it->due);
	}
	KUNIT_EXPECT_EQ_MSG(rig->test, 0, wrong, "from %llu by %llu, then", start, by);
	rig_end(rig);
}

static void held_off(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 slots = s->slots, round = int_pow(s->slots, s->levels);
	const u64 starts[] = { 0, slots - 1, round - 1, 2 * round + slots / 2 };
	const u64 bys[] = {
		1, 2, slots - 1, slots, slots + 1, round - 1, round, round + 1,
		round + slots, 2 * round - 1, 2 * round, 2 * round + 1, 7 * round + 3,
		1000 * round,
	};
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(starts); i++)
		for (k = 0; k < ARRAY_SIZE(bys); k++)
			if (bys[k])
				held_off_by(test->priv, s, starts[i], bys[k]);
}

/* What is due by now has expired, once and at its tick, and nothing else has. */
static void expect_due(struct rig *rig)
{
	u64 tick = next_tick(rig) - 1;
	unsigned int i;

	for (i = 0; i < rig->n; i++) {
		struct item *it = &rig->items[i];

		KUNIT_EXPECT_EQ_MSG(rig->test, it->due <= tick, it->fired,
				    "item %u, due at tick %llu, at tick %llu", i, it->due, tick);
		if (it->fired)
			KUNIT_EXPECT_EQ(rig->test, it->due, it->tick);
	}
}

/* The worker sleeps, not beyond what is due, and not beyond what a ktime_t can tell. */
static void expect_sleep(struct rig *rig)
{
	u64 until, first = U64_MAX;
	unsigned int i;

	for (i = 0; i < rig->n; i++)
		if (!rig->items[i].fired)
			first = min(first, rig->items[i].due);
	/* Once it is busy, as there was armed, and once it is not. */
	for (i = 0; i < 2; i++) {
		until = wheel_prepare_sleep(&rig->wheel, rig->now);
		wheel_awake(&rig->wheel);
		KUNIT_EXPECT_GT(rig->test, until, rig->now);
		if (first != U64_MAX)
			KUNIT_EXPECT_LE(rig->test, until, first * rig->wheel.tick_ns);
		/* An hrtimer's, added to some hundred years since the boot. */
		KUNIT_EXPECT_LE(rig->test, until, max(2 * (WHEEL_FOREVER + 1),
						      rig->now + WHEEL_DRAIN_NS));
	}
}

/* A wheel becomes @age old, with deadlines around the last ones there are. */
static void old(struct rig *rig, const struct shape *s, u64 age, bool touched)
{
	u64 last = div64_u64(WHEEL_FOREVER - 1, s->tick_ns), end = last * s->tick_ns;
	const u64 deadlines[] = {
		0, age - 1, age, age + 1, age + s->tick_ns, end - s->tick_ns, end - 1, end,
		end + 1, WHEEL_FOREVER - 2, WHEEL_FOREVER - 1, WHEEL_FOREVER, WHEEL_FOREVER + 1,
		1ULL << 61, 1ULL << 63, U64_MAX - 1, U64_MAX,
	};
	u64 nows[] = {
		end - s->tick_ns, end - 1, end, WHEEL_FOREVER - 2, WHEEL_FOREVER - 1,
		WHEEL_FOREVER, WHEEL_FOREVER + 1, WHEEL_FOREVER + s->tick_ns, 1ULL << 62,
	};
	unsigned int i;

	rig_make(rig, s, ARRAY_SIZE(deadlines));
	advance_to(rig, age, WHEEL_BUDGET);
	for (i = 0; touched && i < rig->n; i++)
		arm(rig, i, i % 2 ? U64_MAX : end + s->tick_ns);
	advance_to(rig, age, WHEEL_BUDGET);
	for (i = 0; i < rig->n; i++) {
		struct item *it = &rig->items[i];

		if (touched)
			KUNIT_EXPECT_EQ(rig->test, 0, wheel_touch(&it->t, deadlines[i]));
		else
			arm(rig, i, deadlines[i]);
		it->due = due_tick(rig, deadlines[i]);
		KUNIT_EXPECT_EQ(rig->test, min(deadlines[i], WHEEL_FOREVER),
				wheel_deadline(&it->t));
	}
	advance_to(rig, age, WHEEL_BUDGET);
	expect_due(rig);
	expect_sleep(rig);
	for (i = 0; i < ARRAY_SIZE(nows); i++) {
		if (nows[i] < rig->now)
			continue;
		advance_to(rig, nows[i], 3);
		expect_due(rig);
		expect_sleep(rig);
	}
	advance_to(rig, U64_MAX, WHEEL_BUDGET);
	expect_due(rig);
	for (i = 0; i < rig->n; i++) {
		struct item *it = &rig->items[i];

		KUNIT_EXPECT_EQ(rig->test, !it->fired, wheel_pending(&it->t));
		KUNIT_EXPECT_EQ(rig->test, !it->fired, wheel_cancel(&it->t));
	}
	rig_end(rig);
}

static void end_of_range(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 end = div64_u64(WHEEL_FOREVER - 1, s->tick_ns) * s->tick_ns;
	const u64 ages[] = {
		end - 2 * s->tick_ns, end - s->tick_ns, end - 1, end, WHEEL_FOREVER - 2,
		WHEEL_FOREVER - 1, WHEEL_FOREVER, WHEEL_FOREVER + 1,
		WHEEL_FOREVER + 3 * s->tick_ns,
	};
	unsigned int i, touched;

	for (i = 0; i < ARRAY_SIZE(ages); i++)
		for (touched = 0; touched <= 1; touched++)
			old(test->priv, s, ages[i], touched);
}

/* What period_steps() is told; deadlines come a tick after one another. */
static u64 period_deadline, period_reached;

static void period_steps(struct rig *rig, struct item *it)
{
	u64 next, missed = hwtimer_period_forward(period_deadline, rig->now,
						  rig->wheel.tick_ns, &next);

	KUNIT_EXPECT_EQ(rig->test, period_deadline, wheel_deadline(&it->t));
	period_reached += 1 + missed;
	period_deadline = next;
	KUNIT_EXPECT_EQ(rig->test, 0, wheel_arm(&it->t, next));
}

/* One that comes back until there is no deadline any more; the worker is on time, or late. */
static void period_to_the_end(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 last = div64_u64(WHEEL_FOREVER - 1, s->tick_ns), begin = last - 50;
	struct rig *rig = test->priv;
	unsigned int by, i;
	u64 tick;

	for (by = 1; by <= 60; by += by < 5 ? 1 : 11) {
		rig_make(rig, s, 1);
		advance_to(rig, (begin - 1) * s->tick_ns, WHEEL_BUDGET);
		rig->then = period_steps;
		period_deadline = begin * s->tick_ns;
		period_reached = 0;
		arm(rig, 0, period_deadline);
		for (tick = begin; tick <= last; tick += by) {
			advance_to(rig, tick * s->tick_ns, WHEEL_BUDGET);
			KUNIT_EXPECT_EQ(test, tick - begin + 1, period_reached);
			KUNIT_EXPECT_EQ(test, (tick + 1) * s->tick_ns, period_deadline);
		}
		/* Late for the last ones, after the end of time. */
		for (i = 0; i < 3; i++)
			advance_to(rig, WHEEL_FOREVER + i * s->tick_ns, WHEEL_BUDGET);
		KUNIT_EXPECT_GE(test, period_reached, 51ULL);
		KUNIT_EXPECT_GE(test, period_deadline, WHEEL_FOREVER);
		KUNIT_EXPECT_EQ(test, WHEEL_FOREVER, wheel_deadline(&rig->items[0].t));
		KUNIT_EXPECT_TRUE(test, wheel_pending(&rig->items[0].t));
		rig_end(rig);
	}
}

/* With checkers it takes twenty times as long. */
#define MILLION		(IS_ENABLED(CONFIG_DEBUG_OBJECTS) ? 50000U : 1000000U)
#define CHANGES		1000U
#define BURST_TICK	100ULL

/* One in so many callbacks changes what is to come of the same tick, and is armed again. */
static void burst_changes(struct rig *rig, struct item *it)
{
	struct item *next = it + CHANGES / 2;
	u64 tick_ns = rig->wheel.tick_ns;

	if ((it - rig->items) % CHANGES || it - rig->items >= MILLION || it->fired > 1)
		return;
	KUNIT_EXPECT_TRUE(rig->test, wheel_cancel(&next[0].t));
	next[0].due = U64_MAX;
	KUNIT_EXPECT_EQ(rig->test, 0, wheel_touch(&next[1].t, (BURST_TICK + 3) * tick_ns));
	next[1].due = BURST_TICK + 3;
	/* to what is past, which is a request: the next tick is right for it */
	KUNIT_EXPECT_EQ(rig->test, 0, wheel_touch(&next[2].t, 0));
	next[2].due = BURST_TICK + 1;
	/* cancelled and armed again, for the tick that is under way */
	KUNIT_EXPECT_TRUE(rig->test, wheel_cancel(&next[3].t));
	KUNIT_EXPECT_EQ(rig->test, 0, wheel_arm(&next[3].t, BURST_TICK * tick_ns));
	KUNIT_EXPECT_EQ(rig->test, 0, wheel_arm(&it->t, (BURST_TICK + 2) * tick_ns));
	it->due = BURST_TICK + 2;
}

static const struct shape bursts[] = {
	{ "1 ms, 64 slots", NSEC_PER_MSEC, 64, 1 },
	{ "1 ms, 2 levels of 64", NSEC_PER_MSEC, 64, 2 },
};

KUNIT_ARRAY_PARAM(burst, bursts, shape_desc);

/* All at one tick: in slices, in order, and some are changed while that goes on. Promise 10. */
static void million(struct kunit *test)
{
	unsigned int slices = 0, long_slices = 0, wrong = 0, between = 0, fired, i;
	const struct shape *s = test->param_value;
	struct rig *rig = test->priv;
	bool more;

	/* and some more, armed between the slices */
	rig_make(rig, s, MILLION + CHANGES);
	for (i = 0; i < MILLION; i++)
		arm(rig, i, BURST_TICK * s->tick_ns - i % s->tick_ns);
	advance_to(rig, BURST_TICK * s->tick_ns - 1, WHEEL_BUDGET);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	rig->then = burst_changes;
	rig->now = BURST_TICK * s->tick_ns;
	do {
		fired = rig->fired;
		more = wheel_advance(&rig->wheel, rig->now, WHEEL_BUDGET);
		long_slices += rig->fired - fired > WHEEL_BUDGET;
		slices++;
		if (between < MILLION / 2000 && more)
			arm(rig, MILLION + between++, BURST_TICK * s->tick_ns);
	} while (more);
	KUNIT_EXPECT_EQ(test, 0, long_slices);
	/* A look at it in its bucket, if that has rounds, and a decision. */
	KUNIT_EXPECT_GE(test, slices, MILLION / WHEEL_BUDGET);
	KUNIT_EXPECT_LE(test, slices, (s->levels == 1 ? 2 : 1) * MILLION / WHEEL_BUDGET + 2);
	KUNIT_EXPECT_EQ(test, MILLION / 2000, between);
	for (i = 0; i < 4; i++)
		advance_to(rig, (BURST_TICK + i) * s->tick_ns, WHEEL_BUDGET);

	fired = 0;
	for (i = 0; i < MILLION + between; i++) {
		struct item *it = &rig->items[i];
		unsigned int times = it->due == U64_MAX ? 0 : 1;

		if (i < MILLION && i % CHANGES == 0)
			times = 2;
		wrong += it->fired != times || (times && it->tick != it->due);
		/* What nobody changed has kept its order. */
		if (times == 1 && it->due == BURST_TICK && i % CHANGES < CHANGES / 2) {
			wrong += it->rank <= fired;
			fired = it->rank;
		}
	}
	KUNIT_EXPECT_EQ(test, 0, wrong);
	KUNIT_EXPECT_EQ(test, MILLION + between, rig->fired);
	KUNIT_EXPECT_EQ(test, 0UL, counts(&rig->wheel).pending);
}

static struct kunit_case driven_cases[] = {
	KUNIT_CASE_PARAM(held_off, shape_gen_params),
	KUNIT_CASE_PARAM(end_of_range, shape_gen_params),
	KUNIT_CASE_PARAM(period_to_the_end, shape_gen_params),
	KUNIT_CASE_PARAM(million, burst_gen_params),
	{}
};

static struct kunit_suite driven_suite = {
	.name		= "hwtimer_time",
	.init		= rig_init,
	.exit		= rig_exit,
	.test_cases	= driven_cases,
};

/* From here on: what moves the wheel is a driver. */

/* What the machine may add. */
#define SLACK		(100 * NSEC_PER_USEC)
#define HELD_SLACK	(4 * MS)
#define KINDS		3

/* In how many levels, all of them side by side. */
static const struct kind {
	unsigned int	levels;
	unsigned int	flags;
} kinds[KINDS] = {
	{ 1, 0 }, { 3, 0 }, { 1, HWTIMER_WHEEL_GROW },
};

static const struct mode {
	const char		*desc;
	enum hwtimer_driver	driver;
	enum hwtimer_clock	clock;
} modes[] = {
	{ "kthread, monotonic" },
	{ "kthread, boottime", .clock = HWTIMER_CLOCK_BOOTTIME },
	{ "hrtimer, monotonic", HWTIMER_DRIVER_HRTIMER },
	{ "hrtimer, boottime", HWTIMER_DRIVER_HRTIMER, HWTIMER_CLOCK_BOOTTIME },
};

static void mode_desc(const struct mode *mode, char *desc)
{
	strscpy(desc, mode->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(mode, modes, mode_desc);

#define JOBS		200

/* A timeout that takes notes, on the wheel's own time. */
struct job {
	struct hwtimer_timeout	t;
	u64			deadline;
	u64			at;
	unsigned int		fired;
	unsigned int		rank;
};

/* And one that comes back. */
struct beat {
	struct hwtimer_periodic	p;
	struct kunit		*test;
	u64			first;
	u64			reached;
	unsigned int		fired;
};

/* A wheel of each kind. */
struct bench {
	struct bench_wheel {
		struct hwtimer_wheel	*wheel;
		struct job		jobs[JOBS];
		struct beat		beats[3];
		unsigned int		fired;
	} w[KINDS];
};

static void job_fired(struct hwtimer_timeout *t)
{
	struct job *j = container_of(t, struct job, t);
	struct hwtimer_worker *worker = to_worker(t->wheel);

	j->at = hwtimer_worker_now(worker);
	j->fired++;
	j->rank = worker->wheel.expired;
}

static void unmake(struct bench *bench)
{
	unsigned int k;

	for (k = 0; k < KINDS; k++) {
		if (IS_ERR_OR_NULL(bench->w[k].wheel))
			continue;
		hwtimer_wheel_stop(bench->w[k].wheel, NULL);
		hwtimer_wheel_destroy(bench->w[k].wheel);
	}
	memset(bench, 0, sizeof(*bench));
}

static struct bench *make(struct kunit *test, u64 tick_ns, unsigned int slots)
{
	const struct mode *mode = test->param_value;
	struct bench *bench = test->priv;
	unsigned int k, i;

	unmake(bench);
	for (k = 0; k < KINDS; k++) {
		struct hwtimer_wheel_params params = {
			.name = "time", .tick_ns = tick_ns, .slots = slots,
			.levels = kinds[k].levels, .flags = kinds[k].flags,
			.driver = mode->driver, .clock = mode->clock,
		};

		bench->w[k].wheel = hwtimer_wheel_create(&params);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, bench->w[k].wheel);
		for (i = 0; i < JOBS; i++)
			hwtimer_init(&bench->w[k].jobs[i].t, bench->w[k].wheel, job_fired);
	}
	return bench;
}

static int bench_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct bench), GFP_KERNEL);
	return test->priv ? 0 : -ENOMEM;
}

static void bench_exit(struct kunit *test)
{
	if (test->priv)
		unmake(test->priv);
}

static u64 worker_now(const struct bench_wheel *b)
{
	return hwtimer_worker_now(to_worker(b->wheel));
}

/* @deadline is on the wheel's own time. */
static void arm_job(struct kunit *test, struct bench_wheel *b, unsigned int i, u64 deadline)
{
	b->jobs[i].deadline = deadline;
	KUNIT_EXPECT_EQ(test, 0, wheel_arm(&b->jobs[i].t, deadline));
}

/* At the first boundary from the deadline on, or when there was a worker, by @held. */
static void expect_on_time(struct kunit *test, const struct bench_wheel *b, unsigned int i,
			   u64 held)
{
	const struct job *j = &b->jobs[i];
	u64 tick_ns = b->wheel->tick_ns, end;
	u64 due = div64_u64(j->deadline + tick_ns - 1, tick_ns) * tick_ns;

	/* Behind all that has become due meanwhile. */
	end = held ? held + HELD_SLACK : due + SLACK;
	due = max(due, held);
	KUNIT_EXPECT_EQ_MSG(test, 1, j->fired, "tick %llu, deadline %llu", tick_ns, j->deadline);
	KUNIT_EXPECT_GE_MSG(test, j->at, due, "tick %llu, deadline %llu", tick_ns, j->deadline);
	KUNIT_EXPECT_LT_MSG(test, j->at, end, "tick %llu, deadline %llu", tick_ns, j->deadline);
}

/*
 * It becomes @now, as the worker sleeps and nothing is due before. The machine's clock is
 * not ours to move, so it is the wheel's beginning.
 */
static void skip_to(struct bench *bench, u64 now)
{
	unsigned int k;

	for (k = 0; k < KINDS; k++) {
		struct hwtimer_worker *worker = to_worker(bench->w[k].wheel);

		worker->start_ns = hwtimer_clock_ns(worker) - now;
		worker->wheel.ops->kick(&worker->wheel);
	}
}

static const unsigned int away[] = { 1, 2, 3, 4, 5, 9, 17, 20 };

#define AWAY		(3 * ARRAY_SIZE(away))

/* Before, at and after boundaries, near, and in later rounds. */
static void arm_away(struct kunit *test, struct bench_wheel *b, u64 begin)
{
	unsigned int i;

	for (i = 0; i < AWAY; i++)
		arm_job(test, b, i, (begin + away[i / 3]) * b->wheel->tick_ns + i % 3 - 1);
}

/* From the shortest one on. */
static void short_ticks(struct kunit *test)
{
	static const u64 ticks[] = {
		1, 1000, 65536, 100001, 999983, MS, 7 * MS + 1, 1ULL << 30,
	};
	unsigned int i, j, k;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		struct bench *bench = make(test, ticks[i], 4);

		for (k = 0; k < KINDS; k++) {
			u64 begin = div64_u64(worker_now(&bench->w[k]), ticks[i]) + 1;

			/* What is as short as the machine's own time comes later. */
			if (ticks[i] < SLACK)
				begin += div64_u64(10 * SLACK, ticks[i]);
			arm_away(test, &bench->w[k], begin);
		}
		nap(23 * ticks[i] + 20 * SLACK);
		for (k = 0; k < KINDS; k++)
			for (j = 0; j < AWAY; j++)
				expect_on_time(test, &bench->w[k], j, 0);
	}
}

/* Up to an hour. A case must not take as long, not even of virtual time. */
static void long_ticks(struct kunit *test)
{
	static const u64 ticks[] = { 10 * SEC + 3, 1ULL << 36, HOUR - 1, HOUR };
	unsigned int i, j, k, tick;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		struct bench *bench = make(test, ticks[i], 4);

		skip_to(bench, 5 * ticks[i]);
		for (k = 0; k < KINDS; k++)
			arm_away(test, &bench->w[k], 7);
		for (tick = 8; tick <= 7 + 20 + 1; tick++) {
			skip_to(bench, tick * ticks[i] - MS);
			nap(2 * MS);
		}
		for (k = 0; k < KINDS; k++)
			for (j = 0; j < AWAY; j++)
				expect_on_time(test, &bench->w[k], j, 0);
	}
}

/* Nobody runs but us, and interrupts: neither a thread nor a softirq. Says until when. */
static void hold_off(struct bench *bench, u64 ns, u64 *until)
{
	u64 end = ktime_get_ns() + ns;
	unsigned int k;

	local_bh_disable();
	/* In User-Mode Linux this is what lets time go on. */
	while (ktime_get_ns() < end)
		mdelay(1);
	for (k = 0; k < KINDS; k++)
		until[k] = worker_now(&bench->w[k]);
	local_bh_enable();
}

static void beat_fired(struct hwtimer_periodic *p, u64 overruns)
{
	struct beat *b = container_of(p, struct beat, p);

	b->fired++;
	b->reached += 1 + overruns;
	/* In step, whatever was missed. */
	KUNIT_EXPECT_EQ(b->test, b->first + b->reached * p->period.period_ns,
			hwtimer_deadline(&p->timeout));
	KUNIT_EXPECT_GE(b->test, hwtimer_wheel_now(p->timeout.wheel),
			b->first + (b->reached - 1) * p->period.period_ns);
}

#define HELD_TICK	(10 * MS)
#define HELD_SLOTS	8
#define HELD_PERIOD	(25 * MS)

/* Jobs half a tick apart, and a beat of each policy. */
static void held_begin(struct kunit *test, struct bench_wheel *b)
{
	unsigned int j;

	for (j = 0; j < JOBS; j++)
		arm_job(test, b, j, 2 * HELD_TICK + j * HELD_TICK / 2);
	for (j = 0; j < ARRAY_SIZE(b->beats); j++) {
		const struct hwtimer_period period = {
			.period_ns = HELD_PERIOD, .policy = j,
		};
		struct beat *beat = &b->beats[j];

		beat->test = test;
		beat->first = hwtimer_wheel_now(b->wheel) + HELD_PERIOD;
		KUNIT_EXPECT_EQ(test, 0, hwtimer_periodic_init(&beat->p, b->wheel, &period,
							       beat_fired));
		KUNIT_EXPECT_EQ(test, 0, hwtimer_periodic_start_at(&beat->p, beat->first));
	}
}

/* The worker was held off from @began to @held. */
static void held_jobs(struct kunit *test, struct bench_wheel *b, u64 began, u64 held,
		      bool ordered)
{
	unsigned int j;

	for (j = 0; j < JOBS; j++) {
		u64 due = DIV_ROUND_UP_ULL(b->jobs[j].deadline, HELD_TICK);
		bool meanwhile = due * HELD_TICK > began && due * HELD_TICK <= held;

		expect_on_time(test, b, j, meanwhile ? held : 0);
		if (j && ordered)
			KUNIT_EXPECT_LT(test, b->jobs[j - 1].rank, b->jobs[j].rank);
	}
}

static void held_beats(struct kunit *test, struct bench_wheel *b, u64 now, bool missed)
{
	unsigned int j;

	for (j = 0; j < ARRAY_SIZE(b->beats); j++) {
		struct beat *beat = &b->beats[j];
		u64 reached = div64_u64(now - beat->first, HELD_PERIOD) + 1;

		/* At the next tick, or not before the tick after. */
		KUNIT_EXPECT_GE(test, beat->reached, reached - 1);
		KUNIT_EXPECT_LE(test, beat->reached, reached);
		if (j == HWTIMER_MAKE_UP || !missed)
			KUNIT_EXPECT_EQ(test, beat->reached, (u64)beat->fired);
		else
			KUNIT_EXPECT_LT(test, beat->fired, beat->reached);
		KUNIT_EXPECT_TRUE(test, hwtimer_periodic_cancel(&beat->p));
	}
}

/* By some ticks, about a round, and many: all comes, in order, and once. */
static void worker_held_off(struct kunit *test)
{
	static const u64 holds[] = {
		1, HELD_SLOTS - 1, HELD_SLOTS, HELD_SLOTS + 1, 2 * HELD_SLOTS + 1, 190,
	};
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(holds); i++) {
		struct bench *bench = make(test, HELD_TICK, HELD_SLOTS);
		u64 began[KINDS], held[KINDS], now;

		for (k = 0; k < KINDS; k++)
			held_begin(test, &bench->w[k]);
		nap(5 * HELD_TICK + HELD_TICK / 4);
		for (k = 0; k < KINDS; k++)
			began[k] = worker_now(&bench->w[k]);
		hold_off(bench, holds[i] * HELD_TICK, held);
		nap(JOBS * HELD_TICK);
		now = hwtimer_wheel_now(bench->w[0].wheel);

		for (k = 0; k < KINDS; k++) {
			held_jobs(test, &bench->w[k], began[k], held[k],
				  kinds[k].levels > 1 || kinds[k].flags ||
				  holds[i] <= HELD_SLOTS);
			held_beats(test, &bench->w[k], now, holds[i] > 1);
		}
	}
}

/*
 * The wheel's age is near the end of the range: what there are boundaries for expires at
 * them, what there are none for is pending, and the worker does not run wild.
 */
static void age(struct kunit *test)
{
	static const u64 ticks[] = { 7 * MS, 64 * MS };
	unsigned int i, j, k;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		struct bench *bench = make(test, ticks[i], 4);
		u64 tick_ns = ticks[i], last = div64_u64(WHEEL_FOREVER - 1, tick_ns);
		unsigned long wakeups;

		skip_to(bench, (last - 30) * tick_ns);
		for (k = 0; k < KINDS; k++) {
			for (j = 0; j < 25; j++)
				arm_job(test, &bench->w[k], j, (last - 25 + j) * tick_ns + j % 2);
			arm_job(test, &bench->w[k], 25, last * tick_ns + 1);
			arm_job(test, &bench->w[k], 26, WHEEL_FOREVER - 1);
			arm_job(test, &bench->w[k], 27, WHEEL_FOREVER);
			arm_job(test, &bench->w[k], 28, U64_MAX);
			arm_job(test, &bench->w[k], 29, last * tick_ns - SEC);
			KUNIT_EXPECT_EQ(test, 0, wheel_touch(&bench->w[k].jobs[29].t,
							     last * tick_ns));
			bench->w[k].jobs[29].deadline = last * tick_ns;
		}
		nap(40 * tick_ns);
		wakeups = to_worker(bench->w[0].wheel)->monitor.wakeups;
		nap(10 * SEC);
		KUNIT_EXPECT_LE(test, to_worker(bench->w[0].wheel)->monitor.wakeups - wakeups,
				45UL);
		for (k = 0; k < KINDS; k++) {
			struct bench_wheel *b = &bench->w[k];

			for (j = 0; j < 25; j++)
				expect_on_time(test, b, j, 0);
			expect_on_time(test, b, 29, 0);
			/* Beyond the range, and armed when nothing is left of it. */
			arm_job(test, b, 30, WHEEL_FOREVER - 1);
			arm_job(test, b, 31, worker_now(b) + SEC);
		}
		nap(3 * SEC);
		for (k = 0; k < KINDS; k++) {
			struct list_head pending, *pos;
			unsigned int n = 0;

			for (j = 0; j < 32; j++) {
				if (j < 25 || j == 29)
					continue;
				KUNIT_EXPECT_EQ(test, 0, bench->w[k].jobs[j].fired);
				KUNIT_EXPECT_TRUE(test,
						  hwtimer_is_pending(&bench->w[k].jobs[j].t));
			}
			KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(bench->w[k].wheel, &pending));
			list_for_each(pos, &pending)
				n++;
			KUNIT_EXPECT_EQ(test, 6, n);
		}
	}
}

static int driver_suite_init(struct kunit_suite *suite)
{
	/* Timers are no better than a jiffy before the machine's first ones. */
	nap(SEC);
	return 0;
}

static struct kunit_case driver_cases[] = {
	KUNIT_CASE_PARAM(short_ticks, mode_gen_params),
	KUNIT_CASE_PARAM(long_ticks, mode_gen_params),
	KUNIT_CASE_PARAM(worker_held_off, mode_gen_params),
	KUNIT_CASE_PARAM(age, mode_gen_params),
	{}
};

static struct kunit_suite driver_suite = {
	.name		= "hwtimer_time_driver",
	.suite_init	= driver_suite_init,
	.init		= bench_init,
	.exit		= bench_exit,
	.test_cases	= driver_cases,
};

kunit_test_suites(&driven_suite, &driver_suite);
