// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_stop and _stop_4: which timeouts a stop hands
 * back.
 */
#include <kunit/test.h>
#include <linux/bitops.h>
#include <linux/list.h>

#include "wheel_rig.h"

/* Stop, and expect exactly those of @p[0..@n) with @expected, each once. */
static void expect_back(struct rig *rig, struct probe *p, unsigned int n,
			const bool *expected)
{
	unsigned int back[32] = {}, i;
	struct hwtimer_timeout *t;
	struct list_head pending;

	KUNIT_ASSERT_LE(rig->test, n, (unsigned int)ARRAY_SIZE(back));
	rig_stop(rig, &pending);
	list_for_each_entry(t, &pending, node) {
		i = container_of(t, struct probe, t) - p;
		KUNIT_ASSERT_LT(rig->test, i, n);
		back[i]++;
	}
	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_EQ_MSG(rig->test, (unsigned int)expected[i], back[i],
				    "probe %u", i);
		KUNIT_EXPECT_FALSE(rig->test, queue_pending(&p[i].t));
		KUNIT_EXPECT_FALSE(rig->test, queue_holds(&p[i].t));
		KUNIT_EXPECT_FALSE(rig->test, queue_cancel(&p[i].t));
		KUNIT_EXPECT_EQ(rig->test, -ESHUTDOWN, arm(&p[i], 0));
	}
	KUNIT_EXPECT_EQ(rig->test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(rig->test, 0UL, rig->wheel.wheel.filed);
}

/* Promise 8. */
static void hands_back(struct kunit *test)
{
	static const unsigned int due[] = { 0, 1, 2, 3, 6, 7, 8, 10, 12 };
	bool expected[16] = {};
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 16);
	unsigned int i;

	/* filed: near, in the same bucket in later rounds, distant, never */
	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5 + SLOTS);
	arm_tick(&p[2], 5 + 100 * SLOTS);
	arm(&p[3], U64_MAX);
	/* filed, then cancelled, shut down, touched, armed again, expired */
	for (i = 4; i <= 9; i++)
		arm_tick(&p[i], i == 9 ? 1 : 7);
	arm_tick(&p[14], 5);
	to_tick(rig, 2);
	queue_cancel(&p[4].t);
	queue_timeout_shutdown(&p[5].t);
	touch_tick(&p[6], 20);
	touch_tick(&p[7], 3);
	queue_cancel(&p[8].t);
	arm_tick(&p[8], 4);
	/* on a queue: armed, cancelled, armed again, shut down */
	arm_tick(&p[10], 5);
	arm_tick(&p[11], 5);
	queue_cancel(&p[11].t);
	arm_tick(&p[12], 5);
	queue_cancel(&p[12].t);
	arm_tick(&p[12], 6);
	arm_tick(&p[13], 5);
	queue_timeout_shutdown(&p[13].t);
	/* cancelled and being detached */
	queue_cancel(&p[14].t);
	queue_detach(&p[14].t);

	for (i = 0; i < ARRAY_SIZE(due); i++)
		expected[due[i]] = true;
	KUNIT_EXPECT_EQ(test, 9UL, counts(rig).pending);
	expect_back(rig, p, 16, expected);
	KUNIT_EXPECT_EQ(test, 9UL, counts(rig).handed_back);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

/*
 * Stop after each possible number of steps of a pass: each timeout that has not fired is handed
 * back, wherever it was.
 */
static void hands_back_midway(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int steps, i, n;
	bool expected[20];
	struct probe *p;
	bool over = false;

	for (steps = 0; !over; steps++) {
		p = probes(rig_remake(rig, TICK, SLOTS, 20), 20);
		/* every other timeout is for the next round of its bucket */
		for (i = 0; i < 16; i++)
			arm_tick(&p[i], 3 + i / 8 + (i % 2) * SLOTS);
		to_tick(rig, 1);
		/* some have to be drained first */
		for (i = 16; i < 20; i++)
			arm_tick(&p[i], 4);
		rig->now = 5 * TICK;
		for (n = 0; n < steps && !over; n++)
			over = !queue_advance(&rig->wheel, rig->now, 1);
		for (i = 0; i < 20; i++)
			expected[i] = !p[i].fired;
		/* due timeouts fire in order, at most one per step */
		KUNIT_EXPECT_LE(test, rig->fired, steps);
		expect_back(rig, p, 20, expected);
		KUNIT_EXPECT_EQ(test, 20UL - rig->fired, counts(rig).handed_back);
	}
	KUNIT_EXPECT_EQ(test, 12, rig->fired);
	/* 4 are drained in two steps each, and 12 are due; on one level, 8 are in their buckets */
	KUNIT_EXPECT_GE(test, steps, 2 * 4 + 12 + (has_rounds(rig) ? 8 : 0));
}

static void hands_back_nothing(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	struct list_head pending;

	KUNIT_EXPECT_EQ(test, 0, rig_stop(rig, &pending));
	KUNIT_EXPECT_TRUE(test, list_empty(&pending));

	p = probes(rig_remake(rig, TICK, SLOTS, 0), 1);
	arm_tick(p, 1);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 0, rig_stop(rig, &pending));

	/* pending timeouts need not be handed back */
	p = probes(rig_remake(rig, TICK, SLOTS, 0), 1);
	arm_tick(p, 1);
	queue_shutdown(&rig->wheel);
	queue_sweep(&rig->wheel, NULL);
	rig->stopped = true;
	KUNIT_EXPECT_FALSE(test, queue_pending(&p->t));
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).handed_back);
}

/* Detach between the two halves of a stop, and after it. */
static void detach_while_stopping(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);
	struct list_head pending;

	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	arm_tick(&p[2], 5);
	to_tick(rig, 1);
	INIT_LIST_HEAD(&pending);
	queue_shutdown(&rig->wheel);
	KUNIT_EXPECT_TRUE(test, queue_cancel(&p[0].t));
	queue_detach(&p[0].t);
	KUNIT_EXPECT_TRUE(test, queue_release(&p[1].t, probe_released));
	KUNIT_EXPECT_EQ(test, 0, p[1].released);
	queue_sweep(&rig->wheel, &pending);
	rig->stopped = true;
	KUNIT_EXPECT_PTR_EQ(test, pending.next, &p[2].t.node);
	KUNIT_EXPECT_PTR_EQ(test, pending.prev, &p[2].t.node);
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[0].t));
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	rig->kicks = 0;
	queue_detach(&p[2].t);
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[2].t));
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
}

static void release_next(struct hwtimer_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);

	p->released++;
	if (p->other)
		p->ret = queue_release(&p->other->t, release_next);
}

/* Releases during a release cycle get another cycle before the worker sleeps. */
static void release_in_cycle(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);
	unsigned int i;

	to_tick(rig, 1);
	for (i = 0; i < 3; i++)
		queue_release(&p[i].t, probe_released);
	KUNIT_EXPECT_TRUE(test, queue_advance(&rig->wheel, rig->now, 2));
	KUNIT_EXPECT_EQ(test, 0, p[3].released);
	/* released by a request */
	arm_tick(&p[3], 5);
	queue_release(&p[3].t, probe_released);
	drive(rig, NULL, rig->now);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
}

/* A release cycle whose budget ran out continues, and completes the barrier at its end. */
static void barrier_in_pieces(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);
	unsigned int i;

	to_tick(rig, 1);
	/* Three timeouts released by a request, and one put on the list of the CPU. */
	for (i = 0; i < 3; i++)
		arm_tick(&p[i], 5);
	for (i = 0; i < 4; i++)
		queue_release(&p[i].t, probe_released);
	/* like queue_barrier() */
	smp_store_release(&rig->wheel.barrier, &done);
	for (i = 0; i < 100 && !completion_done(&done); i++)
		queue_advance(&rig->wheel, rig->now, 1);
	KUNIT_EXPECT_TRUE(test, completion_done(&done));
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
}

/* The caller of queue_barrier() may be gone once the barrier is complete. */
static void barrier_then_stop(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct rig *rig = test->priv;
	struct list_head pending;

	/* like queue_barrier() */
	smp_store_release(&rig->wheel.barrier, &done);
	to_tick(rig, 1);
	KUNIT_EXPECT_TRUE(test, completion_done(&done));
	reinit_completion(&done);
	rig_stop(rig, &pending);
	KUNIT_EXPECT_FALSE(test, completion_done(&done));
}

/* A callback of a release by the stop releases another timeout, and so on: filed, idle, filed. */
static void release_while_stopping(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);
	struct list_head pending;
	unsigned int i, n;

	for (i = 0; i < 3; i++)
		p[i].other = &p[i + 1];
	arm_tick(&p[1], 5);
	arm_tick(&p[3], 5);
	to_tick(rig, 1);
	queue_release(&p[0].t, release_next);
	n = rig_stop(rig, &pending);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0, p[1].ret);
	/* the last one is handed back if it was found before it was released */
	KUNIT_EXPECT_EQ(test, (unsigned int)!p[2].ret, n);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
}

WHEEL_SUITES(stop,
	KUNIT_CASE(hands_back),
	KUNIT_CASE(hands_back_midway),
	KUNIT_CASE(hands_back_nothing),
	KUNIT_CASE(detach_while_stopping),
	KUNIT_CASE(release_in_cycle),
	KUNIT_CASE(barrier_in_pieces),
	KUNIT_CASE(barrier_then_stop),
	KUNIT_CASE(release_while_stopping));
