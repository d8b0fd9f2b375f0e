// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_late and _late_4: the worker is late, or has much
 * to do at once.
 */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/sched.h>

#include "wheel_rig.h"

/* A row of callbacks, which share readings of the clock, ends with its tick. */
static void rows_of_callbacks(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 5);
	unsigned int i;

	for (i = 0; i < 5; i++)
		arm_tick(&p[i], i < 3 ? 3 : 2 * SLOTS);
	to_tick(rig, 1);
	to_tick(rig, 2 * SLOTS);
	KUNIT_EXPECT_EQ(test, 5, rig->fired);
	KUNIT_EXPECT_EQ(test, 2U + 1, rig->in_row);
}

static void two_jiffies(struct probe *p)
{
	schedule_timeout_uninterruptible(2);
}

/* Callbacks that take long do not keep others waiting for their shares of the worker's time. */
static void long_callbacks(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 5);
	unsigned int i;

	for (i = 0; i < 5; i++)
		arm_tick(&p[i], 2);
	to_tick(rig, 1);
	for (i = 0; i < 4; i++)
		p[i].then = two_jiffies;
	queue_release(&p[4].t, probe_released);
	rig->now = 2 * TICK;
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, i < 3, queue_advance(&rig->wheel, rig->now, QUEUE_BUDGET));
		KUNIT_EXPECT_EQ(test, i + 1, rig->fired);
		KUNIT_EXPECT_EQ(test, 1, p[4].released);
	}
}

static void released_slowly(struct hwtimer_timeout *t)
{
	probe_released(t);
	schedule_timeout_uninterruptible(2);
}

/* Nor do release functions that take long. */
static void long_releases(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 6);
	unsigned int i;

	for (i = 0; i < 6; i++)
		arm_tick(&p[i], 2 + i);
	to_tick(rig, 1);
	for (i = 0; i < 3; i++)
		queue_release(&p[i].t, released_slowly);
	for (i = 0; i < 3; i++) {
		rig->now = (5 + i) * TICK;
		KUNIT_EXPECT_EQ(test, i < 2, queue_advance(&rig->wheel, rig->now, QUEUE_BUDGET));
		KUNIT_EXPECT_EQ(test, i + 1, p[0].released + p[1].released + p[2].released);
		expect_fired(&p[3 + i], 1, 5 + i);
	}
}

/* Looks at a bucket, and counts what is shown. */
struct view {
	struct queue_look	look;
	unsigned int		shown;
	u64			last;
};

static void view_show(struct queue_look *look, struct hwtimer_timeout *t, u64 deadline)
{
	struct view *v = container_of(look, struct view, look);

	v->shown++;
	v->last = deadline;
}

static struct view *view_of(struct rig *rig, u32 bucket, unsigned int budget)
{
	struct view *v = kunit_kzalloc(rig->test, sizeof(*v), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(rig->test, v);
	v->look.bucket = bucket;
	v->look.show = view_show;
	rig->answers = budget;
	KUNIT_EXPECT_EQ(rig->test, 0, queue_look(&rig->wheel, &v->look));
	rig->answers = 0;
	return v;
}

/* A look while the worker visits the bucket sees what it still holds, in order. */
static void look_midway(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 10);
	struct view *v;
	unsigned int i;

	for (i = 0; i < 10; i++)
		arm_tick(&p[i], 3 + i * SLOTS);
	to_tick(rig, 1);
	rig->now = 3 * TICK;
	/* The worker has taken the one that is due, and with one level has the others to visit. */
	v = view_of(rig, WHEEL_BUCKET(0, 3), 1);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
	if (has_rounds(rig))
		KUNIT_EXPECT_EQ(test, WHEEL_BUCKET(0, 3), rig->wheel.wheel.visited);
	KUNIT_EXPECT_EQ(test, has_rounds(rig) ? 9U : 0U, v->shown);
	KUNIT_EXPECT_FALSE(test, v->look.more);
	drive(rig, NULL, 3 * TICK);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

/* What was armed before a look is seen, although the worker had drained already. */
static void look_in_pass(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);

	arm_tick(&p[0], 2);
	arm_tick(&p[1], 2);
	to_tick(rig, 1);
	rig->now = 2 * TICK;
	KUNIT_ASSERT_TRUE(test, queue_advance(&rig->wheel, rig->now, 1));
	KUNIT_ASSERT_EQ(test, 1, rig->fired);
	arm_tick(&p[2], 5);
	KUNIT_EXPECT_EQ(test, 1U, view_of(rig, WHEEL_BUCKET(0, 5), 1)->shown);
	KUNIT_EXPECT_EQ(test, 2, rig->fired);
}

/* A look shows what is pending, QUEUE_SHOWN at most, and nothing of a bucket that is empty. */
static void look_at_most(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, QUEUE_SHOWN + 1);
	struct view *v;
	unsigned int i;

	to_tick(rig, 1);
	for (i = 0; i < QUEUE_SHOWN - 1; i++)
		arm_tick(&p[i], 5);
	/* The worker drains first, also with a budget that is too small for all. */
	v = view_of(rig, WHEEL_BUCKET(0, 5), 100);
	KUNIT_EXPECT_EQ(test, QUEUE_SHOWN - 1U, v->shown);
	KUNIT_EXPECT_EQ(test, 5ULL * TICK, v->last);
	KUNIT_EXPECT_FALSE(test, v->look.more);
	arm_tick(&p[i], 5);
	arm_tick(&p[i + 1], 5);
	queue_cancel(&p[0].t);
	v = view_of(rig, WHEEL_BUCKET(0, 5), 100);
	KUNIT_EXPECT_EQ(test, QUEUE_SHOWN - 1U, v->shown);
	KUNIT_EXPECT_EQ(test, (unsigned int)QUEUE_SHOWN, v->look.n);
	KUNIT_EXPECT_TRUE(test, v->look.more);
	v = view_of(rig, WHEEL_BUCKET(0, 6), 100);
	KUNIT_EXPECT_EQ(test, 0U, v->look.n);
	KUNIT_EXPECT_FALSE(test, v->look.more);
}

/* What never expires has a bucket of its own, after the last level. */
static void look_at_never(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);
	struct view *v;

	arm(&p[0], HWTIMER_HORIZON);
	arm_tick(&p[1], 5);
	v = view_of(rig, WHEEL_BUCKET(rig->wheel.wheel.levels, 0), 100);
	KUNIT_EXPECT_EQ(test, 1U, v->shown);
	KUNIT_EXPECT_EQ(test, HWTIMER_HORIZON, v->last);
}

/* Before the first arming, and after a stop, there is nothing to see. */
static void look_at_nothing(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct list_head pending;

	KUNIT_EXPECT_EQ(test, 0U, view_of(rig, 0, 100)->look.n);
	arm_tick(probes(rig, 1), 5);
	rig_stop(rig, &pending);
	KUNIT_EXPECT_EQ(test, 0U, view_of(rig, 5, 100)->look.n);
}

/* All budgets give the same result. Promise 13. */
static void budgets(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int budget, i;
	struct probe *p;

	for (budget = 1; budget <= 40; budget++) {
		p = probes(rig_remake(rig, TICK, SLOTS, 0), 30);
		for (i = 0; i < 30; i++)
			arm_tick(&p[i], 2 + i / 3);
		rig->now = 9 * TICK;
		/* Those who wait for a callback are woken before the next slice. */
		while (queue_advance(&rig->wheel, rig->now, budget))
			KUNIT_ASSERT_NULL(test, rig->wheel.pass.ended);
		expect_in_order(rig, p, 24);
		for (i = 0; i < 24; i++)
			expect_fired(&p[i], 1, 2 + i / 3);
		KUNIT_EXPECT_EQ(test, 6UL, counts(rig).pending);
	}
}

/*
 * Timeouts that become due during a pass of several calls are left to the next pass. The worker
 * does not sleep before that.
 */
static void due_meanwhile(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 10);
	unsigned int tick, i;

	for (i = 0; i < 8; i++)
		arm_tick(&p[i], i < 4 ? 1 : 5);
	arm_tick(&p[8], 2);
	arm_tick(&p[9], 6);
	/* The first pass drains requests as well; the second only expires. */
	for (tick = 1; tick <= 5; tick += 4) {
		rig->now = tick * TICK;
		KUNIT_EXPECT_TRUE(test, queue_advance(&rig->wheel, rig->now, 1));
		rig->now += TICK;
		while (queue_advance(&rig->wheel, rig->now, 1))
			;
		KUNIT_EXPECT_EQ(test, tick == 1 ? 4 : 9, rig->fired);
		KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
		to_tick(rig, tick + 1);
		KUNIT_EXPECT_EQ(test, tick == 1 ? 5 : 10, rig->fired);
		KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
		queue_awake(&rig->wheel);
	}
}

/*
 * A drain of more than a tick delays the timeouts whose requests it has not come to, and no others.
 * Promise 13.
 */
static void drain_over_ticks(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 100);
	unsigned int i, calls = 0;
	u64 begun[2] = { };

	rig->wheel.drain.share = 1;
	arm_tick(&p[0], 3);
	arm_tick(&p[1], 9);
	to_tick(rig, 1);
	/* The drain reverses the list, then handles it: 2 calls for each request. */
	for (i = 2; i < 100; i++)
		arm_tick(&p[i], 4 + i % 8);
	while (queue_advance(&rig->wheel, rig->now, 1)) {
		for (i = 0; i < 2; i++)
			if (p[i].fired && !begun[i])
				begun[i] = rig->now;
		rig->now += TICK / 4;
		calls++;
	}
	KUNIT_EXPECT_GE(test, begun[0], 3ULL * TICK);
	KUNIT_EXPECT_LT(test, begun[0], 5ULL * TICK);
	KUNIT_EXPECT_GE(test, begun[1], 9ULL * TICK);
	KUNIT_EXPECT_LT(test, begun[1], 11ULL * TICK);
	/* It has not taken much longer. */
	KUNIT_EXPECT_LT(test, calls, 500U);
	to_tick(rig, div_u64(rig->now, TICK) + 2);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, 1, p[i].fired);
	for (i = 2; i + 8 < 100; i++)
		KUNIT_EXPECT_LT(test, p[i].rank, p[i + 8].rank);
}

/*
 * A drain during which a tick begins makes nothing of this tick late, if it ends within the tick.
 * Promise 1.
 */
static void drain_into_tick(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int begun, i;
	struct probe *p;

	/* The pass begins in the tick before, or one earlier, so that it is interrupted. */
	for (begun = 2; begun; begun--) {
		p = probes(rig_remake(rig, TICK, SLOTS, 0), 10);
		rig->wheel.drain.share = 1;
		for (i = 0; i < 10; i++)
			arm_tick(&p[i], 3);
		KUNIT_EXPECT_TRUE(test, queue_advance(&rig->wheel, begun * TICK, 1));
		rig->now = 3 * TICK - 100;
		while (queue_advance(&rig->wheel, rig->now, 1))
			rig->now += 20;
		KUNIT_EXPECT_GT(test, rig->now, 3ULL * TICK);
		advance_to(rig, rig->now);
		for (i = 0; i < 10; i++)
			expect_fired(&p[i], 1, 3);
		expect_in_order(rig, p, 10);
	}
}

/* A drain that is interrupted makes progress even if each call takes a tick. Promise 13. */
static void drain_while_late(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 20);
	unsigned int i, calls = 0, cuts = 0;
	u64 target = 1;

	rig->wheel.drain.share = 10;
	to_tick(rig, 1);
	for (i = 0; i < 20; i++)
		arm_tick(&p[i], 2);
	while (queue_advance(&rig->wheel, rig->now, 1) && calls < 500) {
		rig->now += TICK;
		calls++;
		cuts += rig->wheel.pass.target != target;
		target = rig->wheel.pass.target;
	}
	KUNIT_EXPECT_LT(test, calls, 500U);
	/* Each request is reversed, and handled. */
	KUNIT_EXPECT_LE(test, cuts, 2 * 20U / 10);
	to_tick(rig, div_u64(rig->now, TICK) + 1);
	expect_in_order(rig, p, 20);
}

/* A worker that is held off for long in the middle of a drain catches up in order. Promise 10. */
static void drain_held_off(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 20);
	unsigned int i;

	arm_tick(&p[19], 9);
	to_tick(rig, 1);
	for (i = 0; i < 19; i++)
		arm_tick(&p[i], 3 + i / 4);
	for (i = 0; i < 25; i++)
		queue_advance(&rig->wheel, rig->now, 1);
	rig->now = 12 * TICK;
	while (queue_advance(&rig->wheel, rig->now, 1))
		;
	to_tick(rig, 13);
	expect_in_order(rig, p, 20);
}

/* A look waits until such a drain is over, too. */
static void look_in_overdue(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 40);
	struct view *v = kunit_kzalloc(test, sizeof(*v), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, v);
	rig->wheel.drain.share = 1;
	for (i = 20; i < 40; i++)
		arm_tick(&p[i], 2);
	to_tick(rig, 1);
	for (i = 0; i < 20; i++)
		arm_tick(&p[i], 12);
	/* As queue_look() does, but time goes on. */
	v->look.bucket = WHEEL_BUCKET(0, 12);
	v->look.show = view_show;
	init_completion(&v->look.done);
	rig->wheel.look = &v->look;
	while (!completion_done(&v->look.done)) {
		queue_advance(&rig->wheel, rig->now, 1);
		rig->now += TICK / 8;
	}
	KUNIT_EXPECT_LT(test, 0, rig->fired);
	KUNIT_EXPECT_EQ(test, 20U, v->shown);
}

WHEEL_SUITES(late,
	KUNIT_CASE(due_meanwhile),
	KUNIT_CASE(drain_over_ticks),
	KUNIT_CASE(drain_into_tick),
	KUNIT_CASE(drain_held_off),
	KUNIT_CASE(drain_while_late),
	KUNIT_CASE(look_in_overdue),
	KUNIT_CASE(look_midway),
	KUNIT_CASE(look_in_pass),
	KUNIT_CASE(look_at_most),
	KUNIT_CASE(look_at_never),
	KUNIT_CASE(look_at_nothing),
	KUNIT_CASE(rows_of_callbacks),
	KUNIT_CASE(long_callbacks),
	KUNIT_CASE(long_releases),
	KUNIT_CASE(budgets));
