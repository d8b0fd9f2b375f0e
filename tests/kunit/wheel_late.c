// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_late, _late_4 and _late_grow:
 * the worker comes late, or has much to do at once.
 */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/minmax.h>

#include "wheel_rig.h"

/* Within a round: in the order of ticks, none skipped. Promise 10. */
static void catch_up(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i;

	rig_remake(rig, TICK, 256, 0);
	p = probes(rig, 400);
	to_tick(rig, 77);
	/* 7 is prime to 200 */
	for (i = 0; i < 200; i++)
		arm_tick(&p[(i * 7) % 200], 78 + (i * 7) % 200);
	/* and not those of later rounds, nor those that are not due */
	for (i = 200; i < 400; i++)
		arm_tick(&p[i], 78 + 200 + i);
	to_tick(rig, 77 + 200);
	expect_in_order(rig, p, 200);
	for (i = 0; i < 200; i++)
		expect_fired(&p[i], 1, 78 + i);
	KUNIT_EXPECT_EQ(test, 200UL, counts(rig).pending);
}

/* As long as a round, a tick less, a tick more; from some tick to some other. */
static void catch_up_round(struct kunit *test)
{
	struct rig *rig = test->priv;
	u64 from, by, ticks;
	struct probe *p;
	unsigned int i;

	for (from = 0; from < SLOTS; from += 5) {
		for (by = SLOTS - 1; by <= SLOTS + 1; by++) {
			rig_remake(rig, TICK, SLOTS, 0);
			p = probes(rig, 3 * SLOTS);
			to_tick(rig, from);
			for (i = 0; i < 3 * SLOTS; i++)
				arm_tick(&p[i], from + 1 + i);
			to_tick(rig, from + by);
			KUNIT_EXPECT_EQ(test, (unsigned int)by, rig->fired);
			for (i = 0; i < by; i++)
				KUNIT_EXPECT_EQ(test, 1, p[i].fired);
			if (by <= SLOTS || !has_rounds(rig))
				expect_in_order(rig, p, by);
			/* each bucket once; with more levels, each tick */
			ticks = has_rounds(rig) ? min_t(u64, by, SLOTS) : by;
			KUNIT_EXPECT_EQ(test, ticks, (u64)counts(rig).ticks);
			step_to_tick(rig, from + 3 * SLOTS - 1);
			KUNIT_EXPECT_EQ(test, 3U * SLOTS - 1, rig->fired);
		}
	}
}

/*
 * Many rounds: each bucket once, what is due fires and nothing else does. With more
 * levels there are no rounds to jump over: each tick, in order.
 * Promise 10.
 */
static void jump(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 400);
	struct wheel_counts before, after;
	unsigned int i;
	u64 target;

	to_tick(rig, 3);
	for (i = 0; i < 400; i++)
		arm_tick(&p[i], 4 + 3 * i);
	to_tick(rig, 3);
	for (target = 100; target <= 1300; target += 300) {
		before = counts(rig);
		to_tick(rig, target);
		after = counts(rig);
		for (i = 0; i < 400; i++)
			KUNIT_EXPECT_EQ(test, 4 + 3 * i <= target, p[i].fired);
		if (has_rounds(rig)) {
			KUNIT_EXPECT_LE(test, after.ticks - before.ticks, (unsigned long)SLOTS);
			/* looked at once each */
			KUNIT_EXPECT_LE(test, after.visits - before.visits, before.pending);
		}
	}
	if (!has_rounds(rig)) {
		expect_in_order(rig, p, 400);
		/* once per level, and once more when the wheel grew */
		KUNIT_EXPECT_LE(test, counts(rig).visits,
				400UL * (rig->wheel.levels + 1));
	}
	KUNIT_EXPECT_EQ(test, 400, rig->fired);
	KUNIT_EXPECT_EQ(test, 0UL, rig->wheel.filed);
}

/* Touched ones and cancelled ones in a jump, and what is due at its very end. */
static void jump_touched(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 6);

	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	arm_tick(&p[2], 5);
	arm_tick(&p[3], 1000);
	arm_tick(&p[4], 1001);
	arm_tick(&p[5], 6);
	to_tick(rig, 1);
	touch_tick(&p[0], 900);
	touch_tick(&p[1], 1000);
	touch_tick(&p[2], 1001);
	wheel_cancel(&p[5].t);
	to_tick(rig, 1000);
	KUNIT_EXPECT_EQ(test, 1, p[0].fired);
	KUNIT_EXPECT_EQ(test, 1, p[1].fired);
	KUNIT_EXPECT_EQ(test, 0, p[2].fired);
	KUNIT_EXPECT_EQ(test, 1, p[3].fired);
	KUNIT_EXPECT_EQ(test, 0, p[4].fired);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[5].t));
	to_tick(rig, 1001);
	KUNIT_EXPECT_EQ(test, 5, rig->fired);
}

#define BURST	120000

/* Many at one tick, in slices. Promise 10. */
static void burst(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, BURST);
	unsigned int i, fired, slices = 0, wrong = 0;

	for (i = 0; i < BURST; i++)
		arm_tick(&p[i], 2 * SLOTS + 5);
	/* the requests in slices, too */
	rig->now = TICK;
	while (wheel_advance(&rig->wheel, TICK, 64))
		slices++;
	KUNIT_EXPECT_GE(test, slices, BURST / 64 - 1);
	KUNIT_EXPECT_EQ(test, (unsigned long)BURST, rig->wheel.filed);
	to_tick(rig, 2 * SLOTS + 4);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);

	rig->now = (2 * SLOTS + 5) * TICK;
	for (;;) {
		bool more;

		fired = rig->fired;
		more = wheel_advance(&rig->wheel, rig->now, 64);
		if (rig->fired - fired > 64)
			wrong++;
		if (!more)
			break;
		slices++;
		/* time goes on meanwhile */
		rig->now += TICK / 10;
	}
	KUNIT_EXPECT_EQ(test, 0, wrong);
	KUNIT_EXPECT_GE(test, slices, 2 * (BURST / 64 - 1));
	KUNIT_EXPECT_EQ(test, BURST, rig->fired);
	for (i = 0; i < BURST; i++)
		wrong += p[i].fired != 1 || p[i].rank != i + 1 ||
			 p[i].tick != 2 * SLOTS + 5;
	KUNIT_EXPECT_EQ(test, 0, wrong);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
}

/* A step at a time, and between the steps some are cancelled, some pushed back. */
static void burst_changed(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 300);
	unsigned int i, n = 0, cancelled = 0, touched = 0, again = 0;

	for (i = 0; i < 300; i++)
		arm_tick(&p[i], 5);
	to_tick(rig, 1);
	rig->now = 5 * TICK;
	while (wheel_advance(&rig->wheel, rig->now, 1)) {
		i = (n++ * 37) % 300;
		if (p[i].fired)
			continue;
		switch (n % 4) {
		case 0:
			cancelled += wheel_cancel(&p[i].t);
			break;
		case 1:
			touched += !touch_tick(&p[i], 8);
			break;
		case 2:
			/* already pushed back to 8, or cancelled: stays */
			again += wheel_touch(&p[i].t, 5 * TICK) == 0;
			break;
		}
	}
	KUNIT_EXPECT_GT(test, cancelled, 10);
	KUNIT_EXPECT_GT(test, touched, 10);
	KUNIT_EXPECT_GT(test, again, 10);
	to_tick(rig, 20);
	KUNIT_EXPECT_EQ(test, 300 - cancelled, rig->fired);
	for (i = 0; i < 300; i++)
		KUNIT_EXPECT_LE(test, p[i].fired, 1);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(test, 300UL - cancelled, counts(rig).expired);
}

/* Somebody looks at a bucket in the middle of a visit: he sees timeouts, and nothing else. */
static void look_midway(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 10);
	struct looked l = { .first = p, .last = &p[9] };
	unsigned int i, looks = 0;

	for (i = 0; i < 10; i++)
		arm_tick(&p[i], 3 + i * SLOTS);
	to_tick(rig, 1);
	rig->now = 3 * TICK;
	rig->answers = true;
	while (wheel_advance(&rig->wheel, rig->now, 1)) {
		if (list_empty(&rig->wheel.cursor))
			continue;
		l.n = 0;
		KUNIT_EXPECT_EQ(test, 0, wheel_survey(&rig->wheel, 0, 0, SLOTS, looked_at, &l));
		KUNIT_EXPECT_EQ(test, 0, l.strangers);
		/* the first one is due, and is in no bucket once it was visited */
		KUNIT_EXPECT_GE(test, l.n, 9);
		KUNIT_EXPECT_LE(test, l.n, 10);
		looks++;
	}
	rig->answers = false;
	KUNIT_EXPECT_EQ(test, has_rounds(rig) ? 10 : 0, looks);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

static void pause_expire(struct rig *rig)
{
	pause_noted(rig);
	to_tick(rig, 5);
}

static void pause_cancel(struct rig *rig)
{
	unsigned int i;

	for (i = 0; looked.pauses == 0 && i < LOOKED; i++) {
		wheel_cancel(&looked.first[i].t);
		wheel_detach(&looked.first[i].t);
	}
	pause_noted(rig);
	wheel_drain_all(&rig->wheel);
}

/* What is beyond the top level makes it fall, in a wheel that grows. */
static void pause_grow(struct rig *rig)
{
	if (looked.pauses == 1)
		arm_tick(looked.last, HOUR / TICK);
	pause_noted(rig);
	to_tick(rig, 2);
}

/* All of them are filed anew, behind the place at which it goes on. */
static void pause_refile(struct rig *rig)
{
	unsigned int i;

	pause_noted(rig);
	for (i = 0; i < LOOKED; i++)
		wheel_arm(&looked.first[i].t, wheel_deadline(&looked.first[i].t) - 1);
	wheel_drain_all(&rig->wheel);
}

static void pause_stop(struct rig *rig)
{
	struct list_head pending;

	KUNIT_EXPECT_EQ(rig->test, LOOKED, rig_stop(rig, &pending));
}

/* The worker looks at a few, does its work, and goes on, whatever became of the bucket. */
static void look_in_parts(struct kunit *test)
{
	static void (*const meanwhile[])(struct rig *rig) = {
		pause_noted, pause_expire, pause_cancel, pause_grow, pause_refile, pause_stop,
	};
	struct rig *rig = test->priv;
	unsigned int i, k, slots_used;
	struct probe *p;

	for (k = 0; k < ARRAY_SIZE(meanwhile); k++) {
		rig_remake(rig, TICK, SLOTS, 0);
		p = probes(rig, LOOKED + 1);
		/* the last in a bucket of its own */
		for (i = 0; i < LOOKED; i++)
			arm_tick(&p[i], i < LOOKED - 1 ? 5 : 9);
		to_tick(rig, 1);
		looked = (struct looked) { .first = p, .last = &p[LOOKED] };
		rig->meanwhile = meanwhile[k];
		rig->answers = true;
		KUNIT_EXPECT_EQ(test, 0,
				wheel_survey(&rig->wheel, 0, 0, SLOTS, looked_at, &looked));
		rig->answers = false;
		KUNIT_EXPECT_EQ(test, 0, looked.strangers);
		KUNIT_EXPECT_TRUE(test, list_empty(&rig->wheel.place));
		/* It ends, and finds what stayed where it was. */
		KUNIT_EXPECT_LE(test, looked.n, LOOKED + (meanwhile[k] == pause_refile));
		if (meanwhile[k] == pause_stop)
			continue;
		if (meanwhile[k] == pause_noted || meanwhile[k] == pause_refile)
			KUNIT_EXPECT_EQ(test, 1, looked.alone);
		if (meanwhile[k] == pause_noted) {
			KUNIT_EXPECT_EQ(test, LOOKED, looked.n);
			KUNIT_EXPECT_EQ(test, WHEEL_SURVEY, looked.at_once);
		}
		if (meanwhile[k] == pause_expire)
			KUNIT_EXPECT_EQ(test, WHEEL_SURVEY + 1, looked.n);
		if (meanwhile[k] == pause_cancel)
			KUNIT_EXPECT_EQ(test, WHEEL_SURVEY, looked.n);
		/* A bucket that was left empty is known to be. */
		slots_used = bitmap_weight(rig->wheel.level[0].occupied, SLOTS);
		if (meanwhile[k] != pause_grow && meanwhile[k] != pause_refile)
			KUNIT_EXPECT_EQ(test, looked.n == LOOKED ? 2 : looked.n % 2, slots_used);
		drive(rig, NULL, 20 * TICK);
		KUNIT_EXPECT_EQ(test, meanwhile[k] == pause_cancel ? 0 : LOOKED, rig->fired);
	}
}

/* What was armed before is looked at, though the worker has not taken all requests over. */
static void look_after_drain(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 21);
	unsigned int i;

	to_tick(rig, 1);
	for (i = 0; i < 20; i++)
		arm_tick(&p[i], 5);
	looked = (struct looked) { .first = p, .last = &p[20] };
	rig->answers = true;
	rig->budget = 1;
	KUNIT_EXPECT_EQ(test, 0,
				wheel_survey(&rig->wheel, 0, 0, SLOTS, looked_at, &looked));
	KUNIT_EXPECT_EQ(test, 20, looked.n);
}

/* Any budget gives the same result as any other. Promise 13. */
static void budgets(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int budget, i;
	struct probe *p;

	for (budget = 1; budget <= 40; budget++) {
		rig_remake(rig, TICK, SLOTS, 0);
		p = probes(rig, 30);
		for (i = 0; i < 30; i++)
			arm_tick(&p[i], 2 + i / 3);
		rig->now = 9 * TICK;
		while (wheel_advance(&rig->wheel, rig->now, budget))
			;
		expect_in_order(rig, p, 24);
		for (i = 0; i < 24; i++)
			expect_fired(&p[i], 1, 2 + i / 3);
		KUNIT_EXPECT_EQ(test, 6UL, counts(rig).pending);
	}
}

/*
 * The time goes on during a pass that takes several calls, and what has become due
 * meanwhile is not for it. The worker does not sleep over that.
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
	/* Once it is busy, as there was armed, and once it is not. */
	for (tick = 1; tick <= 5; tick += 4) {
		rig->now = tick * TICK;
		KUNIT_EXPECT_TRUE(test, wheel_advance(&rig->wheel, rig->now, 1));
		rig->now += TICK;
		while (wheel_advance(&rig->wheel, rig->now, 1))
			;
		KUNIT_EXPECT_EQ(test, tick == 1 ? 4 : 9, rig->fired);
		KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
		to_tick(rig, tick + 1);
		KUNIT_EXPECT_EQ(test, tick == 1 ? 5 : 10, rig->fired);
		KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
		wheel_awake(&rig->wheel);
	}
}

SUITES(late,
	KUNIT_CASE(due_meanwhile),
	KUNIT_CASE(catch_up),
	KUNIT_CASE(catch_up_round),
	KUNIT_CASE(jump),
	KUNIT_CASE(jump_touched),
	KUNIT_CASE(burst),
	KUNIT_CASE(burst_changed),
	KUNIT_CASE(look_midway),
	KUNIT_CASE(look_in_parts),
	KUNIT_CASE(look_after_drain),
	KUNIT_CASE(budgets));
