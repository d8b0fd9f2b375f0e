// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_callback and _callback_4: what callbacks may
 * do.
 */
#include <kunit/test.h>
#include <linux/string.h>

#include "wheel_rig.h"

/* A callback that re-arms itself for now fires once per tick, also if the worker is late. */
static void rearm_at_once(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	u64 tick;

	p->then = probe_rearm;
	arm(p, 0);
	for (tick = 1; tick <= 40; tick++) {
		to_tick(rig, tick);
		expect_fired(p, tick, tick);
		to_tick(rig, tick);
		advance_to(rig, tick * TICK + TICK / 2);
		expect_fired(p, tick, tick);
	}
	/* late by less and by more than a round: once for each call of queue_advance() */
	to_tick(rig, 45);
	expect_fired(p, 41, 41);
	to_tick(rig, 46);
	expect_fired(p, 42, 46);
	p->then = NULL;
	to_tick(rig, 1000);
	KUNIT_EXPECT_EQ(test, 43, p->fired);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(test, 43UL, counts(rig).armed);
}

static void then_use_node(struct probe *p)
{
	memset(&p->t.node, 0xa5, sizeof(p->t.node));
}

static void node_is_ours(struct probe *p)
{
	KUNIT_EXPECT_PTR_EQ(p->rig->test, NULL,
			    memchr_inv(&p->t.node, 0xa5, sizeof(p->t.node)));
}

/* From the callback on, the list node belongs to the owner until the next arm. */
static void node_of_owner(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);
	unsigned int i, round;

	p[1].then = then_use_node;
	for (round = 1; round <= 2; round++) {
		/* Neighbours in the bucket, before and behind it. */
		for (i = 0; i < 3; i++)
			arm_tick(&p[i], 40 * round);
		step_to_tick(rig, 40 * round);
		expect_fired(&p[1], round, 40 * round);
		node_is_ours(&p[1]);
		KUNIT_EXPECT_FALSE(test, queue_cancel(&p[1].t));
		queue_detach(&p[1].t);
		step_to_tick(rig, 40 * round + 2 * SLOTS);
		node_is_ours(&p[1]);
	}
	queue_release(&p[1].t, probe_released);
	to_tick(rig, 200);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	node_is_ours(&p[1]);
}

WHEEL_SUITES(callback,
	KUNIT_CASE(rearm_at_once),
	KUNIT_CASE(node_of_owner));
