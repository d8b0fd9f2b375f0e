// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_time and _time_4: expiries are never early and
 * less than a tick late, for any tick, number of rounds and age of the wheel.
 */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/mm.h>

#include "wheel_rig.h"

/* Deadlines @k ticks ahead, and 1 ns earlier and later, as the wheel ages. */
static void expect_boundaries(struct rig *rig, u64 k, bool steps)
{
	struct probe *p = probes(rig, 1);
	u64 tick_ns = rig->wheel.tick_ns, begin, due;
	int off;

	for (off = -1; off <= 1; off++) {
		begin = div64_u64(rig->now, tick_ns);
		due = begin + k;
		if (off > 0)
			due++;
		if (off < 0 && tick_ns == 1 && k > 1)
			due--;
		KUNIT_ASSERT_EQ(rig->test, 0, arm(p, (begin + k) * tick_ns + off));
		p->fired = 0;
		if (steps)
			step_to_tick(rig, due - 1);
		advance_to(rig, due * tick_ns - 1);
		KUNIT_EXPECT_EQ_MSG(rig->test, 0, p->fired, "tick %llu, %llu%+d",
				    tick_ns, k, off);
		KUNIT_EXPECT_TRUE(rig->test, queue_pending(&p->t));
		advance_to(rig, due * tick_ns);
		KUNIT_EXPECT_EQ_MSG(rig->test, 1, p->fired, "tick %llu, %llu%+d",
				    tick_ns, k, off);
		KUNIT_EXPECT_EQ(rig->test, due, p->tick);
		KUNIT_EXPECT_FALSE(rig->test, queue_pending(&p->t));
	}
	kvfree(rig->bulk);
	rig->bulk = NULL;
}

/* A timeout is filed for the end of the tick that it is due in, so that one visit suffices. */
static void visited_once(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);

	arm(p, 5 * TICK - 1);
	step_to_tick(rig, 5);
	expect_fired(p, 1, 5);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).visits);
}

/* Promise 1. */
static void boundaries(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int i, j, steps;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		u64 slots = shapes[i].slots;
		u64 k[] = { 1, 2, 3, slots - 1, slots, slots + 1, 2 * slots,
			    3 * slots + 1, 100 * slots - 1, 100 * slots,
			    100 * slots + 1 };

		rig_remake(rig, shapes[i].tick, slots, 0);
		for (j = 0; j < ARRAY_SIZE(k); j++)
			for (steps = 0; steps <= 1; steps++)
				if (k[j])
					expect_boundaries(rig, k[j], steps);
	}
}

/* Promise 1. */
static void past(struct kunit *test)
{
	static const u64 deadlines[] = { 10 * TICK, 0, 1, 9 * TICK, 10 * TICK - 1 };
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, ARRAY_SIZE(deadlines));
	unsigned int i;

	to_tick(rig, 10);
	for (i = 0; i < ARRAY_SIZE(deadlines); i++)
		KUNIT_EXPECT_EQ(test, 0, arm(&p[i], deadlines[i]));
	to_tick(rig, 10);
	advance_to(rig, 11 * TICK - 1);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	to_tick(rig, 11);
	expect_in_order(rig, p, ARRAY_SIZE(deadlines));
	for (i = 0; i < ARRAY_SIZE(deadlines); i++)
		expect_fired(&p[i], 1, 11);
}

/* Promise 1. */
static void forever(struct kunit *test)
{
	static const u64 deadlines[] = { HWTIMER_HORIZON, HWTIMER_HORIZON + 1, 1ULL << 63,
					 U64_MAX };
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		u64 nows[] = { 0, HWTIMER_HORIZON >> 1, HWTIMER_HORIZON - 2 * shapes[i].tick,
			       HWTIMER_HORIZON - 2, HWTIMER_HORIZON - 1, HWTIMER_HORIZON,
			       HWTIMER_HORIZON + 1, U64_MAX };

		rig_remake(rig, shapes[i].tick, shapes[i].slots, 0);
		p = probes(rig, ARRAY_SIZE(deadlines));
		for (j = 0; j < ARRAY_SIZE(deadlines); j++)
			KUNIT_EXPECT_EQ(test, 0, arm(&p[j], deadlines[j]));
		for (j = 0; j < ARRAY_SIZE(nows); j++)
			advance_to(rig, nows[j]);
		KUNIT_EXPECT_EQ(test, 0, rig->fired);
		/* They do not keep the worker awake, whatever the age of the wheel. */
		rig->now = HWTIMER_HORIZON + 10 * shapes[i].tick;
		for (j = 0; j < 3; j++) {
			KUNIT_EXPECT_GT(test, sleep_until(rig), rig->now);
			queue_awake(&rig->wheel);
		}
		for (j = 0; j < ARRAY_SIZE(deadlines); j++) {
			KUNIT_EXPECT_EQ(test, HWTIMER_HORIZON, queue_deadline(&p[j].t));
			KUNIT_EXPECT_TRUE(test, queue_cancel(&p[j].t));
		}
	}
}

/* Touched from HWTIMER_HORIZON to the present, and vice versa. */
static void forever_touched(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm(&p[0], U64_MAX);
	arm_tick(&p[1], 5);
	to_tick(rig, 2);
	KUNIT_EXPECT_EQ(test, 0, touch_tick(&p[0], 5));
	KUNIT_EXPECT_EQ(test, 0, queue_touch(&p[1].t, U64_MAX));
	KUNIT_EXPECT_EQ(test, HWTIMER_HORIZON, queue_deadline(&p[1].t));
	step_to_tick(rig, 1000);
	expect_fired(&p[0], 1, 5);
	expect_fired(&p[1], 0, 0);
	KUNIT_EXPECT_TRUE(test, queue_pending(&p[1].t));
}

/* The last ticks in the range of a wheel. */
static void old_age(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i, j;
	u64 last, until;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		p = probes(rig_remake(rig, shapes[i].tick, shapes[i].slots, 0), 22);
		last = div64_u64(HWTIMER_HORIZON - 1, shapes[i].tick);
		to_tick(rig, last - 20);
		/* the last one is beyond the range */
		for (j = 0; j <= 21; j++)
			arm_tick(&p[j], last - 20 + j);
		for (j = 1; j <= 20; j++) {
			to_tick(rig, last - 20 + j);
			KUNIT_EXPECT_EQ(test, j + 1, rig->fired);
			expect_fired(&p[j], 1, last - 20 + j);
			until = sleep_until(rig);
			KUNIT_EXPECT_GT(test, until, rig->now);
			queue_awake(&rig->wheel);
		}
		expect_fired(&p[0], 1, last - 19);
		KUNIT_EXPECT_TRUE(test, queue_pending(&p[21].t));
		advance_to(rig, U64_MAX);
		expect_fired(&p[21], 0, 0);
	}
}

/* HWTIMER_HORIZON is later than the last tick at which a wheel expires timeouts. */
static void end_touched(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	/* With ticks of 3 ns, one ends at HWTIMER_HORIZON. */
	KUNIT_ASSERT_EQ(test, 0ULL, HWTIMER_HORIZON % 3);
	p = probes(rig_remake(rig, 3, SLOTS, 0), 1);
	advance_to(rig, HWTIMER_HORIZON - 100);
	KUNIT_EXPECT_EQ(test, 0, arm(&p[0], HWTIMER_HORIZON - 1));
	advance_to(rig, HWTIMER_HORIZON - 90);
	KUNIT_EXPECT_EQ(test, 0, queue_touch(&p[0].t, HWTIMER_HORIZON));
	advance_to(rig, HWTIMER_HORIZON);
	advance_to(rig, U64_MAX);
	expect_fired(&p[0], 0, 0);
	KUNIT_EXPECT_TRUE(test, queue_pending(&p[0].t));
}

static void clock_backwards(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);

	to_tick(rig, 10);
	queue_advance(&rig->wheel, 5 * TICK, QUEUE_BUDGET);
	arm_tick(p, 7);
	queue_advance(&rig->wheel, 7 * TICK, QUEUE_BUDGET);
	to_tick(rig, 10);
	expect_fired(p, 0, 0);
	to_tick(rig, 11);
	expect_fired(p, 1, 11);
}

WHEEL_SUITES(time,
	KUNIT_CASE(boundaries),
	KUNIT_CASE(visited_once),
	KUNIT_CASE(past),
	KUNIT_CASE(forever),
	KUNIT_CASE(forever_touched),
	KUNIT_CASE(old_age),
	KUNIT_CASE(end_touched),
	KUNIT_CASE(clock_backwards));
