// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_callback and _callback_4: what callbacks may
 * do.
 */
#include <kunit/test.h>
#include <linux/slab.h>
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

static void then_rearm_and_drain(struct probe *p)
{
	/* Bounded, in case the wheel calls it again and again within a tick. */
	if (p->fired < 100)
		arm(p, 0);
	queue_drain_all(&p->rig->wheel);
}

/* A timeout that is re-armed and filed within its callback fires at the next tick, not this one. */
static void rearm_and_drain(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);

	p->then = then_rearm_and_drain;
	arm(p, 0);
	to_tick(rig, 1);
	expect_fired(p, 1, 1);
	to_tick(rig, 2);
	expect_fired(p, 2, 2);
	/* late: it fires for each tick that passed */
	to_tick(rig, 10);
	expect_fired(p, 10, 10);
	to_tick(rig, 10);
	expect_fired(p, 10, 10);
}

static void then_rearm_later(struct probe *p)
{
	arm(p, queue_deadline(&p->t) + p->deadline);
}

static void rearm_later(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	unsigned int tick;

	/* 1.5 rounds apart, not on a boundary */
	p->then = then_rearm_later;
	p->deadline = 24 * TICK;
	arm(p, 24 * TICK - 1);
	for (tick = 1; tick <= 240; tick++) {
		to_tick(rig, tick);
		expect_fired(p, tick / 24, tick / 24 * 24);
	}
}

static void then_cancel_other(struct probe *p)
{
	p->ret = queue_cancel(&p->other->t);
}

/* Two timeouts are due at a tick: the first can cancel the second, but not vice versa. */
static void cancel_other(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	p[0].then = then_cancel_other;
	p[0].other = &p[1];
	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	step_to_tick(rig, 40);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	expect_fired(&p[0], 1, 5);
	expect_fired(&p[1], 0, 0);
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[1].t));

	arm_tick(&p[1], 45);
	arm_tick(&p[0], 45);
	step_to_tick(rig, 80);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	expect_fired(&p[0], 2, 45);
	expect_fired(&p[1], 1, 45);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).cancelled);
	KUNIT_EXPECT_EQ(test, 3UL, counts(rig).expired);
}

static void then_cancel_arm_other(struct probe *p)
{
	KUNIT_EXPECT_TRUE(p->rig->test, queue_cancel(&p->other->t));
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm(p->other, p->deadline));
}

static void then_touch_other(struct probe *p)
{
	KUNIT_EXPECT_EQ(p->rig->test, 0, queue_touch(&p->other->t, p->deadline));
}

/*
 * A callback moves another timeout that is due at the same tick. Moved to a later tick, it fires
 * then. Otherwise, it fires at this tick if that takes no request, and at the next tick, the first
 * one after the call, if it does.
 */
static void move_other(struct kunit *test)
{
	static const struct {
		u64 deadline, due;
	} moves[] = {
		{ 5 * TICK - 20, 6 }, { 5 * TICK - 10, 5 }, { 5 * TICK, 5 },
		{ 5 * TICK + 1, 6 }, { 0, 6 }, { 9 * TICK, 9 }, { 21 * TICK, 21 },
		{ 100 * TICK, 100 },
	};
	struct rig *rig = test->priv;
	unsigned int i, how;
	struct probe *p;

	for (i = 0; i < ARRAY_SIZE(moves); i++) {
		for (how = 0; how <= 1; how++) {
			p = probes(rig_remake(rig, TICK, SLOTS, 0), 3);
			p[0].then = how ? then_cancel_arm_other : then_touch_other;
			p[0].other = &p[1];
			p[0].deadline = moves[i].deadline;
			arm_tick(&p[0], 5);
			arm(&p[1], 5 * TICK - 10);
			arm_tick(&p[2], 5);
			step_to_tick(rig, 120);
			expect_fired(&p[0], 1, 5);
			expect_fired(&p[1], 1, moves[i].due);
			expect_fired(&p[2], 1, 5);
			KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
		}
	}
}

/* A callback arms other timeouts: for now (that is the next tick), and for later. */
static void then_arm_others(struct probe *p)
{
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm(&p->other[0], 0));
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm_tick(&p->other[1], 5));
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm_tick(&p->other[2], 6));
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm_tick(&p->other[3], 5 + SLOTS));
}

static void arm_others(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 5);

	p[0].then = then_arm_others;
	p[0].other = &p[1];
	arm_tick(&p[0], 5);
	to_tick(rig, 5);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
	step_to_tick(rig, 50);
	expect_fired(&p[1], 1, 6);
	expect_fired(&p[2], 1, 6);
	expect_fired(&p[3], 1, 6);
	expect_fired(&p[4], 1, 5 + SLOTS);
	expect_in_order(rig, p, 5);
}

/* A timeout in memory that its callback frees. */
struct mortal {
	struct hwtimer_timeout	t;
	unsigned int		*freed;
};

static void mortal_fired(struct hwtimer_timeout *t)
{
	struct mortal *m = container_of(t, struct mortal, t);

	++*m->freed;
	/* poison what the wheel would read after the callback */
	memset(m, 0x6b, sizeof(*m));
	kfree(m);
}

static struct mortal *mortal(struct rig *rig, unsigned int *freed)
{
	struct mortal *m = kzalloc(sizeof(*m), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(rig->test, m);
	m->freed = freed;
	queue_timeout_init(&m->t, &rig->wheel, mortal_fired);
	return m;
}

static void frees_itself(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int freed = 0, i;

	for (i = 0; i < 50; i++) {
		struct mortal *m = mortal(rig, &freed);

		queue_arm(&m->t, (5 + i % 3) * TICK);
		if (i % 2)
			queue_touch(&m->t, 8 * TICK);
	}
	step_to_tick(rig, 10);
	KUNIT_EXPECT_EQ(test, 50, freed);
	for (i = 0; i < 50; i++)
		queue_release(&mortal(rig, &freed)->t, mortal_fired);
	to_tick(rig, 10);
	KUNIT_EXPECT_EQ(test, 100, freed);
}

static void then_touch_mortals(struct probe *p)
{
	struct mortal **m = (struct mortal **)p->other;
	unsigned int i;

	/* The first and the last one are not touched. */
	for (i = 1; i < 4; i++)
		KUNIT_EXPECT_EQ(p->rig->test, 0, queue_touch(&m[i]->t, i));
}

/* A due timeout with a request queued is left to the drain, and freed only once. */
static void frees_itself_queued(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	struct mortal *m[5];
	unsigned int freed = 0, i;

	p->then = then_touch_mortals;
	p->other = (struct probe *)m;
	arm_tick(p, 5);
	for (i = 0; i < 5; i++) {
		m[i] = mortal(rig, &freed);
		queue_arm(&m[i]->t, 5 * TICK);
	}
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 2, freed);
	KUNIT_EXPECT_EQ(test, 3UL, counts(rig).pending);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 2, freed);
	to_tick(rig, 6);
	KUNIT_EXPECT_EQ(test, 5, freed);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	to_tick(rig, 100);
	KUNIT_EXPECT_EQ(test, 5, freed);
}

static void then_release(struct probe *p)
{
	struct probe *whom = p->other ?: p;

	p->ret = queue_release(&whom->t, probe_released);
	KUNIT_EXPECT_EQ(p->rig->test, 0, whom->released);
	KUNIT_EXPECT_EQ(p->rig->test, -ESHUTDOWN, arm(whom, 0));
}

static void then_release_self_and_drain(struct probe *p)
{
	queue_release(&p->t, probe_released);
	queue_drain_all(&p->rig->wheel);
	/* Draining within a callback does not end the callback: nothing is released yet. */
	p->ret = p->released;
}

static void release_self(struct kunit *test)
{
	static void (*const ways[])(struct probe *p) = {
		then_release, then_release_self_and_drain,
	};
	struct rig *rig = test->priv;
	unsigned int i;
	struct probe *p;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		p = probes(rig_remake(rig, TICK, SLOTS, 0), 1);
		p->then = ways[i];
		arm_tick(p, 5);
		to_tick(rig, 5);
		expect_fired(p, 1, 5);
		KUNIT_EXPECT_EQ(test, 0, p->ret);
		to_tick(rig, 5);
		KUNIT_EXPECT_EQ(test, 1, p->released);
		KUNIT_EXPECT_FALSE(test, queue_holds(&p->t));
		step_to_tick(rig, 50);
		KUNIT_EXPECT_EQ(test, 1, p->released);
		expect_fired(p, 1, 5);
	}
}

/* Release another timeout that is due at the same tick, and one that is not. */
static void release_other(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);

	p[0].then = then_release;
	p[0].other = &p[1];
	p[2].then = then_release;
	p[2].other = &p[3];
	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	arm_tick(&p[2], 5);
	arm_tick(&p[3], 50);
	to_tick(rig, 5);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 1, p[2].ret);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_EQ(test, 1, p[3].released);
	step_to_tick(rig, 100);
	KUNIT_EXPECT_EQ(test, 2, rig->fired);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_EQ(test, 1, p[3].released);
}

static void then_drop_others(struct probe *p)
{
	struct rig *rig = p->rig;
	unsigned int i;

	/* What hwtimer_cancel_sync() does when called by a callback. */
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_TRUE(rig->test, queue_cancel(&p->other[i].t));
		queue_detach(&p->other[i].t);
		KUNIT_EXPECT_TRUE(rig->test, queue_holds(&p->other[i].t));
		queue_drain_all(&rig->wheel);
		KUNIT_EXPECT_FALSE(rig->test, queue_holds(&p->other[i].t));
		probe_setup(rig, &p->other[i]);
	}
}

/*
 * A callback detaches others while the worker handles a tick: the one that is due next, one of a
 * later round in the same bucket, one of the next tick, and one not filed yet.
 */
static void drop_others(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int budget;
	struct probe *p;

	for (budget = 1; budget <= 12; budget++) {
		p = probes(rig_remake(rig, TICK, SLOTS, 0), 7);
		p[0].then = then_drop_others;
		p[0].other = &p[2];
		arm_tick(&p[0], 5);
		arm_tick(&p[2], 5);
		arm_tick(&p[3], 5 + SLOTS);
		arm_tick(&p[1], 5);
		arm_tick(&p[4], 6);
		arm_tick(&p[6], 5 + 2 * SLOTS);
		to_tick(rig, 1);
		arm_tick(&p[5], 6);
		rig->now = 5 * TICK;
		while (queue_advance(&rig->wheel, rig->now, budget))
			;
		expect_in_order(rig, p, 2);
		KUNIT_EXPECT_EQ(test, 1UL, rig->wheel.wheel.filed);
		step_to_tick(rig, 100);
		KUNIT_EXPECT_EQ(test, 3, rig->fired);
		expect_fired(&p[6], 1, 5 + 2 * SLOTS);
		KUNIT_EXPECT_EQ(test, 4UL, counts(rig).cancelled);
	}
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
	KUNIT_CASE(rearm_and_drain),
	KUNIT_CASE(rearm_later),
	KUNIT_CASE(cancel_other),
	KUNIT_CASE(move_other),
	KUNIT_CASE(arm_others),
	KUNIT_CASE(frees_itself),
	KUNIT_CASE(frees_itself_queued),
	KUNIT_CASE(release_self),
	KUNIT_CASE(release_other),
	KUNIT_CASE(drop_others),
	KUNIT_CASE(node_of_owner));
