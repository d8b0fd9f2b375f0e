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

WHEEL_SUITES(time,
	KUNIT_CASE(boundaries));
