// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_arm and _arm_4: each arming ends once, and the
 * owner learns how; what callbacks may do.
 */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/string.h>

#include "wheel_rig.h"

/* Which operations push a request. */
static void requests(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);
	unsigned int i;

	/* arm, cancel, arm again, touch within the tick: one request */
	arm_tick(&p[0], 5);
	for (i = 0; i < 10; i++) {
		queue_cancel(&p[0].t);
		arm_tick(&p[0], 5);
	}
	touch_tick(&p[0], 4);
	touch_tick(&p[0], 6);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).drained);

	/* pushed back several times: no request, and filed again once */
	for (i = 7; i < 12; i++)
		touch_tick(&p[0], i);
	/* cancelled and armed for the same or a later tick: no request */
	queue_cancel(&p[0].t);
	arm_tick(&p[0], 11);
	queue_cancel(&p[0].t);
	arm_tick(&p[0], 12);
	to_tick(rig, 6);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).drained);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).refiled);

	/* touched to an earlier tick twice: one request */
	touch_tick(&p[0], 11);
	touch_tick(&p[0], 10);
	to_tick(rig, 7);
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).drained);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).refiled);

	/* touched to a later round of its bucket */
	touch_tick(&p[0], 10 + SLOTS);
	step_to_tick(rig, 9 + SLOTS);
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).refiled);
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).drained);
	expect_fired(&p[0], 0, 0);
	to_tick(rig, 10 + SLOTS);
	expect_fired(&p[0], 1, 10 + SLOTS);

	/* armed and cancelled: one request, which has no effect */
	arm_tick(&p[1], 40);
	queue_cancel(&p[1].t);
	to_tick(rig, 30);
	KUNIT_EXPECT_EQ(test, 3UL, counts(rig).drained);
	KUNIT_EXPECT_EQ(test, 0UL, rig->wheel.wheel.filed);
}

static void shut_down(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);
	struct queue_counts before, after;

	to_tick(rig, 1);
	KUNIT_EXPECT_FALSE(test, queue_timeout_shutdown(&p[0].t));
	arm_tick(&p[1], 5);
	KUNIT_EXPECT_TRUE(test, queue_timeout_shutdown(&p[1].t));
	arm_tick(&p[2], 5);
	to_tick(rig, 2);
	KUNIT_EXPECT_TRUE(test, queue_timeout_shutdown(&p[2].t));
	KUNIT_EXPECT_FALSE(test, queue_timeout_shutdown(&p[2].t));
	KUNIT_EXPECT_FALSE(test, queue_cancel(&p[2].t));
	before = counts(rig);
	KUNIT_EXPECT_EQ(test, 0UL, before.pending);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[0], 9));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[1], 9));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[2], 9));
	after = counts(rig);
	KUNIT_EXPECT_EQ(test, 0, memcmp(&before, &after, sizeof(before)));
	step_to_tick(rig, 20);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[2].t));
	/* it can be initialised again */
	queue_timeout_init(&p[2].t, &rig->wheel, probe_fired);
	KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[2], 25));
	to_tick(rig, 25);
	expect_fired(&p[2], 1, 25);
}

enum before_release { IDLE, QUEUED, FILED, CANCELLED_QUEUED, CANCELLED_FILED,
		      TOUCHED_EARLIER, KILLED_FILED, DETACHED, EXPIRED, N_BEFORE };

static void release(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, N_BEFORE);
	unsigned int i;

	for (i = 0; i < N_BEFORE; i++)
		if (i != IDLE && i != QUEUED && i != CANCELLED_QUEUED)
			arm_tick(&p[i], i == EXPIRED ? 1 : 50 + i);
	to_tick(rig, 1);
	arm_tick(&p[QUEUED], 50);
	arm_tick(&p[CANCELLED_QUEUED], 50);
	queue_cancel(&p[CANCELLED_QUEUED].t);
	queue_cancel(&p[CANCELLED_FILED].t);
	touch_tick(&p[TOUCHED_EARLIER], 20);
	queue_timeout_shutdown(&p[KILLED_FILED].t);
	queue_cancel(&p[DETACHED].t);
	queue_detach(&p[DETACHED].t);

	for (i = 0; i < N_BEFORE; i++) {
		bool pending = i == QUEUED || i == FILED || i == TOUCHED_EARLIER;

		KUNIT_EXPECT_EQ_MSG(test, pending, queue_release(&p[i].t, probe_released),
				    "%u", i);
		KUNIT_EXPECT_FALSE(test, queue_pending(&p[i].t));
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[i], 60));
		KUNIT_EXPECT_FALSE(test, queue_cancel(&p[i].t));
		KUNIT_EXPECT_EQ(test, 0, p[i].released);
	}
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	to_tick(rig, 1);
	for (i = 0; i < N_BEFORE; i++) {
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
		KUNIT_EXPECT_FALSE(test, queue_holds(&p[i].t));
	}
	KUNIT_EXPECT_EQ(test, 0UL, rig->wheel.wheel.filed);
	step_to_tick(rig, 100);
	for (i = 0; i < N_BEFORE; i++)
		KUNIT_EXPECT_EQ(test, 1, p[i].released);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

static void reuse(struct hwtimer_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);

	KUNIT_EXPECT_FALSE(p->rig->test, queue_holds(t));
	queue_timeout_init(t, t->wheel, probe_fired);
	p->released++;
	p->ret = arm_tick(p, 5);
}

/* The released callback may reuse the memory at once, also for another timeout. */
static void release_reuse(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	/* one filed, one on a request queue */
	arm_tick(&p[0], 50);
	to_tick(rig, 1);
	arm_tick(&p[1], 50);
	queue_release(&p[0].t, reuse);
	queue_release(&p[1].t, reuse);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 1, p[0].released);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0, p[1].ret);
	step_to_tick(rig, 5);
	expect_fired(&p[0], 1, 5);
	expect_fired(&p[1], 1, 5);
}

static void release_stopped(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 5);
	struct list_head pending;

	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	to_tick(rig, 1);
	arm_tick(&p[2], 5);
	/* released before the stop, which calls back and does not hand them back */
	KUNIT_EXPECT_TRUE(test, queue_release(&p[1].t, probe_released));
	KUNIT_EXPECT_TRUE(test, queue_release(&p[2].t, probe_released));
	KUNIT_EXPECT_FALSE(test, queue_release(&p[3].t, probe_released));
	KUNIT_EXPECT_EQ(test, 1, rig_stop(rig, &pending));
	KUNIT_EXPECT_PTR_EQ(test, pending.next, &p[0].t.node);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_EQ(test, 1, p[2].released);
	KUNIT_EXPECT_EQ(test, 1, p[3].released);
	/* released after the stop: called back within queue_release() */
	KUNIT_EXPECT_FALSE(test, queue_release(&p[0].t, probe_released));
	KUNIT_EXPECT_EQ(test, 1, p[0].released);
	KUNIT_EXPECT_FALSE(test, queue_release(&p[4].t, probe_released));
	KUNIT_EXPECT_EQ(test, 1, p[4].released);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
}

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

WHEEL_SUITES(arm,
	KUNIT_CASE(requests),
	KUNIT_CASE(shut_down),
	KUNIT_CASE(release),
	KUNIT_CASE(release_reuse),
	KUNIT_CASE(release_stopped),
	KUNIT_CASE(rearm_at_once),
	KUNIT_CASE(node_of_owner));
