// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_cap and _cap_4: the cap is exact.
 */
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/prandom.h>
#include <linux/string.h>

#include "wheel_rig.h"

/* Promise 9. */
static void cap(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct queue_counts before, after;
	unsigned int n, i;
	struct probe *p;

	for (n = 1; n <= 5; n++) {
		p = probes(rig_remake(rig, TICK, SLOTS, n), n + 1);
		for (i = 0; i < n; i++)
			KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[i], 5));
		before = counts(rig);
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm_tick(&p[n], 5));
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm_tick(&p[n], 5));
		KUNIT_EXPECT_FALSE(test, queue_pending(&p[n].t));
		KUNIT_EXPECT_FALSE(test, queue_holds(&p[n].t));
		after = counts(rig);
		KUNIT_EXPECT_EQ(test, 2UL, after.rejected);
		after.rejected = 0;
		KUNIT_EXPECT_EQ(test, 0, memcmp(&before, &after, sizeof(before)));
		/* pending timeouts can be moved */
		KUNIT_EXPECT_EQ(test, 0, touch_tick(&p[0], 6));
		KUNIT_EXPECT_EQ(test, 1, arm_tick(&p[0], 4));
		KUNIT_EXPECT_EQ(test, 1, arm_tick(&p[0], 5));
		/* a cancel makes room, at once and for one timeout */
		KUNIT_EXPECT_TRUE(test, queue_cancel(&p[0].t));
		KUNIT_EXPECT_FALSE(test, queue_cancel(&p[0].t));
		KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[n], 5));
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm_tick(&p[0], 5));
		to_tick(rig, 1);
		/* the same limits apply once the timeouts are filed */
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm_tick(&p[0], 5));
		KUNIT_EXPECT_TRUE(test, queue_cancel(&p[n].t));
		KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[0], 5));
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm_tick(&p[n], 5));
		KUNIT_EXPECT_TRUE(test, queue_timeout_shutdown(&p[0].t));
		KUNIT_EXPECT_FALSE(test, queue_timeout_shutdown(&p[0].t));
		KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[n], 5));
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[0], 5));
		KUNIT_EXPECT_EQ(test, 5UL, counts(rig).rejected);
		KUNIT_EXPECT_EQ(test, (unsigned long)n, counts(rig).pending);
		to_tick(rig, 5);
		KUNIT_EXPECT_EQ(test, n, rig->fired);
		KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
		KUNIT_EXPECT_EQ(test, 0UL, places_taken(rig->wheel.places));
	}
}

static void then_arm_at_cap(struct probe *p)
{
	/* Only the place of the timeout whose callback runs is free. */
	KUNIT_EXPECT_EQ(p->rig->test, 2UL, counts(p->rig).pending);
	p->ret = arm(p->other, p->rig->now + TICK);
	KUNIT_EXPECT_EQ(p->rig->test, -EAGAIN, arm(&p->other[1], 0));
}

/* Promise 9. */
static void cap_in_callback(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig_remake(rig, TICK, SLOTS, 3), 5);
	unsigned int i;

	arm(&p[3], U64_MAX);
	arm(&p[4], U64_MAX);
	arm_tick(&p[0], 1);
	p[0].then = then_arm_at_cap;
	p[0].ret = -1;
	p[0].other = &p[1];
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);

	/* re-arming itself */
	p[1].then = probe_rearm;
	for (i = 2; i < 50; i++) {
		p[1].deadline = (i + 1) * TICK;
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm(&p[2], 0));
		to_tick(rig, i);
		expect_fired(&p[1], i - 1, i);
		KUNIT_EXPECT_EQ(test, 3UL, counts(rig).pending);
	}
	KUNIT_EXPECT_EQ(test, 49UL, counts(rig).rejected);
}

/* Places are taken and given back at random: a take fails only if all are taken. */
static void cap_credit(struct kunit *test)
{
	static const unsigned long places[] = { 1, 2, 31, 32, 33, 64, 255, 256, 257, 1000 };
	struct rnd_state random;
	unsigned int i, step;
	unsigned long taken;
	struct places *cap;
	bool fill, credit;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		cap = places_create(places[i]);
		KUNIT_ASSERT_NOT_NULL(test, cap);
		prandom_seed_state(&random, places[i]);
		taken = 0;
		fill = true;
		credit = false;
		for (step = 0; step < 10000; step++) {
			if (taken == (fill ? places[i] : 0))
				fill = !fill;
			if (prandom_u32_state(&random) % 4 ? fill : !fill) {
				KUNIT_ASSERT_EQ(test, taken < places[i], places_take(cap));
				taken += taken < places[i];
			} else if (taken) {
				places_give(cap);
				taken--;
			}
			KUNIT_ASSERT_EQ(test, taken, places_taken(cap));
			credit |= atomic_read(raw_cpu_ptr(cap->credit)) > 0;
		}
		KUNIT_EXPECT_EQ(test, places[i] >= 32 * num_possible_cpus(), credit);
		places_free(cap);
	}
}

WHEEL_SUITES(cap,
	KUNIT_CASE(cap),
	KUNIT_CASE(cap_in_callback),
	KUNIT_CASE(cap_credit));
