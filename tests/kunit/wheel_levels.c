// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_wheel_levels: how often a timeout is visited. The other suites show
 * that everything else holds with any number of levels.
 */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "hwtimer_kunit.h"
#include "wheel_rig.h"

#define DAY		(24 * HOUR)

/* With any budget, a few steps suffice to skip many levels which are all empty. */
static void budget_of_levels(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int steps = 0;
	struct probe *p = probes(shape_of(rig, 1, 4, 16), 1);

	arm(p, DAY);
	rig->now = DAY - 1;
	while (queue_advance(&rig->wheel, rig->now, 1))
		steps++;
	KUNIT_EXPECT_LE(test, steps, 64);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	drive(rig, NULL, DAY);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

static const struct {
	const char	*name;
	u64		ns;
} spans[] = {
	{ "1 ms", NSEC_PER_MSEC }, { "10 ms", 10 * NSEC_PER_MSEC },
	{ "100 ms", 100 * NSEC_PER_MSEC }, { "1 s", NSEC_PER_SEC },
	{ "10 s", 10 * NSEC_PER_SEC }, { "1 min", 60 * NSEC_PER_SEC },
	{ "10 min", 600 * NSEC_PER_SEC }, { "1 h", HOUR }, { "1 day", DAY },
	{ "10 days", 10 * DAY }, { "30 days", 30 * DAY }, { "1 year", 365 * DAY },
};

static const struct {
	const char	*name;
	unsigned int	levels;
} kinds[] = { { "1 level", 1 }, { "4 levels", 4 }, { "all levels", 0 } };

/* Re-arm a timeout that is due in each round, in the slot of another one that is far away. */
static void next_round(struct probe *p)
{
	p->deadline += (u64)rig_slots(p->rig) * p->rig->wheel.tick_ns;
	if (p->deadline < p->other->deadline)
		arm(p, p->deadline);
}

/*
 * Count the visits of one timeout from arming to expiry. With rounds, another timeout makes the
 * worker visit its bucket in each round. With levels, all slots come up one after the other, for up
 * to 100000 steps.
 */
static unsigned long life(struct rig *rig, u64 span)
{
	u64 tick_ns = rig->wheel.tick_ns, round = tick_ns * rig_slots(rig), rest;
	u64 step = max(div_u64(span, 100000), tick_ns);
	struct probe *p = probes(rig, 2);
	unsigned long n;

	p[0].deadline = span;
	arm(&p[0], span);
	if (has_rounds(rig)) {
		step = round;
		div64_u64_rem(span, round, &rest);
		rig->now = rest;
		p[1].then = next_round;
		p[1].other = &p[0];
		p[1].deadline = rest;
		if (rest && rest < span)
			arm(&p[1], rest);
		else
			next_round(&p[1]);
	}
	for (n = 0; rig->now < span; n++) {
		advance_to(rig, rig->now);
		KUNIT_EXPECT_EQ(rig->test, 0, p[0].fired);
		rig->now = min(rig->now + step, span);
		if (!(n % 65536))
			cond_resched();
	}
	advance_to(rig, span);
	expect_fired(&p[0], 1, div64_u64(span, tick_ns));
	return counts(rig).visits - p[1].fired;
}

/* The table of docs/modules.rst. */
static void visits_per_life(struct kunit *test)
{
	struct rig *rig = test->priv;
	char n[ARRAY_SIZE(kinds)][16];
	unsigned int i, k;
	unsigned long v;

	kunit_info(test, "visits in the life of a timeout, tick 1 ms, 512 slots\n");
	kunit_info(test, "%-8s %10s %10s %10s\n", "span", kinds[0].name, kinds[1].name,
		   kinds[2].name);
	for (i = 0; i < ARRAY_SIZE(spans); i++) {
		for (k = 0; k < ARRAY_SIZE(kinds); k++) {
			strscpy(n[k], "-", sizeof(n[k]));
			/* with KASAN, so many rounds take too long */
			if (!k && spans[i].ns >= DAY && IS_ENABLED(CONFIG_KASAN))
				continue;
			shape_of(rig, NSEC_PER_MSEC, 512, kinds[k].levels);
			v = life(rig, spans[i].ns);
			snprintf(n[k], sizeof(n[k]), "%lu", v);
			if (k)
				KUNIT_EXPECT_LE(test, v, (unsigned long)rig->wheel.wheel.levels);
			else
				KUNIT_EXPECT_EQ(test, v, (unsigned long)
						DIV_ROUND_UP_ULL(spans[i].ns,
								 512 * NSEC_PER_MSEC));
		}
		kunit_info(test, "%-8s %10s %10s %10s\n", spans[i].name, n[0], n[1], n[2]);
	}
}

#define MANY		1000000U

static void no_fn(struct hwtimer_timeout *t)
{
}

/* A million distant timeouts cost nothing at most ticks, and few visits until they expire. */
static void far_million(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct hwtimer_timeout *t;
	struct queue_counts c;
	unsigned int i, k;
	u64 until;

	for (k = 1; k < ARRAY_SIZE(kinds); k++) {
		shape_of(rig, NSEC_PER_MSEC, 512, kinds[k].levels);
		t = kvcalloc(MANY + 1, sizeof(*t), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, t);
		rig->bulk = t;
		for (i = 0; i < MANY; i++) {
			queue_timeout_init(&t[i], &rig->wheel, no_fn);
			/*
			 * one every 2592 ms from the second hour on; every other one 1 ns, so one
			 * tick, later
			 */
			queue_arm(&t[i], HOUR + i * 2592ULL * NSEC_PER_MSEC + i % 2);
		}
		advance_to(rig, 0);
		c = counts(rig);
		KUNIT_EXPECT_EQ(test, (unsigned long)MANY, c.drained);
		KUNIT_EXPECT_EQ(test, 0UL, c.visits);

		/* The worker may sleep past all of them. */
		KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
		queue_awake(&rig->wheel);
		advance_to(rig, QUEUE_DRAIN_NS);
		until = sleep_until(rig);
		queue_awake(&rig->wheel);
		KUNIT_EXPECT_EQ(test, HOUR, until);
		c = counts(rig);
		for (i = 251; i <= 60000; i++)
			to_tick(rig, i);
		/* a minute of ticks: only the cascades to the level below count */
		kunit_info(test, "%s: %lu visits in 60000 ticks, a million pending\n",
			   kinds[k].name, counts(rig).visits - c.visits);
		KUNIT_EXPECT_LE(test, counts(rig).visits - c.visits, MANY / 1000UL);
		KUNIT_EXPECT_EQ(test, 0UL, counts(rig).ticks);

		drive(rig, NULL, 31 * DAY);
		c = counts(rig);
		KUNIT_EXPECT_EQ(test, (unsigned long)MANY, c.expired);
		KUNIT_EXPECT_LE(test, c.visits, (unsigned long)MANY * rig->wheel.wheel.levels);
		kunit_info(test, "%s: %lu visits in all\n", kinds[k].name, c.visits);
	}
}

#define CROWD		500000U

/* Arm a crowd of timeouts that are due within half a second, from second 100 on. */
static void arm_crowd(struct rig *rig)
{
	struct hwtimer_timeout *t = kvcalloc(CROWD, sizeof(*t), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(rig->test, t);
	rig->bulk = t;
	for (i = 0; i < CROWD; i++) {
		queue_timeout_init(&t[i], &rig->wheel, no_fn);
		queue_arm(&t[i], 100 * NSEC_PER_SEC + i * 1000ULL);
	}
}

/*
 * However many timeouts are due within a second, a few of them cascade at each tick, so that they
 * do not make others late. Promise 13.
 */
static void crowd_cascades_in_steps(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned long before, most;
	unsigned int i, k;

	for (k = 1; k < ARRAY_SIZE(kinds); k++) {
		shape_of(rig, NSEC_PER_MSEC, 512, kinds[k].levels);
		arm_crowd(rig);
		for (i = 0, most = 0; i <= 100500; i++) {
			before = rig->wheel.cascaded;
			to_tick(rig, i);
			most = max(most, rig->wheel.cascaded - before);
		}
		KUNIT_EXPECT_EQ(test, (unsigned long)CROWD, counts(rig).expired);
		/* All are in level 1. The buckets of two slots may cascade at the same tick. */
		kunit_info(test, "%s: at most %lu cascade at a tick\n", kinds[k].name, most);
		KUNIT_EXPECT_LE(test, most, 2UL * WHEEL_STEP);
		KUNIT_EXPECT_EQ(test, (unsigned long)CROWD, rig->wheel.cascaded);
	}
}

/* On a wheel with slack, one wake-up serves the steps of many ticks. */
static void crowd_wakes_seldom(struct kunit *test)
{
	const struct hwtimer_wheel_params shape = {
		.tick_ns = NSEC_PER_MSEC, .slots = 64, .levels = 4, .slack_ns = 64 * NSEC_PER_MSEC,
	};
	struct rig *rig = test->priv;
	unsigned int wakes;
	u64 until;

	rig_end(rig);
	rig_set_up(rig, &shape);
	arm_crowd(rig);
	for (wakes = 0; counts(rig).pending; wakes++) {
		advance_to(rig, rig->now);
		until = sleep_until(rig);
		queue_awake(&rig->wheel);
		if (until != QUEUE_IDLE)
			rig->now = max(rig->now, until);
	}
	kunit_info(test, "%u wakes until %llu ms\n", wakes, div_u64(rig->now, NSEC_PER_MSEC));
	KUNIT_EXPECT_LE(test, wakes, 50U);
}

WHEEL_SUITE(levels, one_level, "levels",
	KUNIT_CASE(visits_per_life),
	KUNIT_CASE(far_million),
	KUNIT_CASE(crowd_cascades_in_steps),
	KUNIT_CASE(crowd_wakes_seldom),
	KUNIT_CASE(budget_of_levels));
