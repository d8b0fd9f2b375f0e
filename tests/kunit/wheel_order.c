// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_wheel_order: with one level, timeouts of a tick expire in the order
 * of arming.
 */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/mm.h>

#include "wheel_rig.h"

/*
 * Arm five timeouts for one tick, @span ticks ahead, each with an earlier deadline than the one
 * before, and check their order. Others for the same bucket and its neighbours are armed in
 * between, and some are cancelled. With @filed, the worker runs after each arming.
 */
static void expect_order(struct rig *rig, u64 span, bool filed)
{
	struct probe *p = probes(rig, 30), *mine = p, *others = p + 5;
	u64 due = div64_u64(rig->now, TICK) + span, now = due - span;
	unsigned int i, rank = 0;

	for (i = 0; i < 5; i++) {
		arm_tick(&others[5 * i], due + SLOTS);
		arm_tick(&others[5 * i + 1], due + 1);
		arm_tick(&others[5 * i + 2], due > SLOTS ? due - SLOTS : due + 2 * SLOTS);
		arm_tick(&others[5 * i + 3], due);
		arm(&mine[i], due * TICK - 10 * i);
		arm_tick(&others[5 * i + 4], due - 1);
		queue_cancel(&others[5 * i + 3].t);
		if (filed)
			advance_to(rig, now * TICK + i);
	}
	step_to_tick(rig, due);
	for (i = 0; i < 5; i++) {
		expect_fired(&mine[i], 1, due);
		KUNIT_EXPECT_GT_MSG(rig->test, mine[i].rank, rank, "span %llu, %u", span, i);
		rank = mine[i].rank;
	}
	to_tick(rig, due + 5 * SLOTS);
	for (i = 0; i < 25; i++)
		KUNIT_EXPECT_EQ(rig->test, i % 5 == 3 ? 0 : 1, others[i].fired);
	kvfree(rig->bulk);
	rig->bulk = NULL;
}

/* Promise 5. */
static void order_at_each_span(struct kunit *test)
{
	static const u64 spans[] = { 1, 2, 5, SLOTS - 1, SLOTS, SLOTS + 1, 3 * SLOTS + 5,
				     100 * SLOTS, 100 * SLOTS + 7 };
	struct rig *rig = test->priv;
	unsigned int i, filed;

	for (i = 0; i < ARRAY_SIZE(spans); i++)
		for (filed = 0; filed <= 1; filed++)
			expect_order(rig, spans[i], filed);
}

WHEEL_SUITE(order, one_level, "order",
	KUNIT_CASE(order_at_each_span));
