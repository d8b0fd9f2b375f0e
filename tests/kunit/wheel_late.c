// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_late and _late_4: the worker is late, or has much
 * to do at once.
 */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/minmax.h>

#include "wheel_rig.h"

/*
 * Late by less than a round: timeouts fire in the order of ticks, and none is skipped. Promise 10.
 */
static void catch_up(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig_remake(rig, TICK, 256, 0), 400);
	unsigned int i;

	to_tick(rig, 77);
	/* 7 is prime to 200 */
	for (i = 0; i < 200; i++)
		arm_tick(&p[(i * 7) % 200], 78 + (i * 7) % 200);
	/* these are due later, or in later rounds, and do not fire */
	for (i = 200; i < 400; i++)
		arm_tick(&p[i], 78 + 200 + i);
	to_tick(rig, 77 + 200);
	expect_in_order(rig, p, 200);
	for (i = 0; i < 200; i++)
		expect_fired(&p[i], 1, 78 + i);
	KUNIT_EXPECT_EQ(test, 200UL, counts(rig).pending);
}

/* Late by a round, a tick less or a tick more, from several starting points. */
static void catch_up_round(struct kunit *test)
{
	struct rig *rig = test->priv;
	u64 from, by, ticks;
	struct probe *p;
	unsigned int i;

	for (from = 0; from < SLOTS; from += 5) {
		for (by = SLOTS - 1; by <= SLOTS + 1; by++) {
			p = probes(rig_remake(rig, TICK, SLOTS, 0), 3 * SLOTS);
			to_tick(rig, from);
			for (i = 0; i < 3 * SLOTS; i++)
				arm_tick(&p[i], from + 1 + i);
			to_tick(rig, from + by);
			KUNIT_EXPECT_EQ(test, (unsigned int)by, rig->fired);
			for (i = 0; i < by; i++)
				KUNIT_EXPECT_EQ(test, 1, p[i].fired);
			if (by <= SLOTS || !has_rounds(rig))
				expect_in_order(rig, p, by);
			/* each bucket is visited once; with more levels, each tick */
			ticks = has_rounds(rig) ? min_t(u64, by, SLOTS) : by;
			KUNIT_EXPECT_EQ(test, ticks, (u64)counts(rig).ticks);
			step_to_tick(rig, from + 3 * SLOTS - 1);
			KUNIT_EXPECT_EQ(test, 3U * SLOTS - 1, rig->fired);
		}
	}
}

/*
 * Late by many rounds: each bucket is visited once, and exactly the due timeouts fire. With more
 * levels there are no rounds: each tick is handled in order. Promise 10.
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
			/* each timeout is visited at most once */
			KUNIT_EXPECT_LE(test, after.visits - before.visits, before.pending);
		}
	}
	if (!has_rounds(rig)) {
		expect_in_order(rig, p, 400);
		/* one visit per level */
		KUNIT_EXPECT_LE(test, counts(rig).visits, 400UL * rig->wheel.levels);
	}
	KUNIT_EXPECT_EQ(test, 400, rig->fired);
	KUNIT_EXPECT_EQ(test, 0UL, rig->wheel.filed);
}

/* A late worker with touched and cancelled timeouts, and with one due at the last tick. */
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

/* Many timeouts at one tick expire in slices. Promise 10. */
static void burst(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, BURST);
	unsigned int i, fired, slices = 0, wrong = 0;

	for (i = 0; i < BURST; i++)
		arm_tick(&p[i], 2 * SLOTS + 5);
	/* requests are drained in slices, too */
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
		/* time passes between the slices */
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

/* Timeouts are cancelled and pushed back between the steps of a burst. */
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
			/* pushed back to 8 or cancelled before: unchanged */
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

/* A survey while the worker visits a bucket passes nothing but timeouts to its callback. */
static void survey_midway(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 10);
	struct seen l = { .first = p, .last = &p[9] };
	unsigned int i, surveys = 0;

	for (i = 0; i < 10; i++)
		arm_tick(&p[i], 3 + i * SLOTS);
	to_tick(rig, 1);
	rig->now = 3 * TICK;
	rig->answers = true;
	while (wheel_advance(&rig->wheel, rig->now, 1)) {
		if (list_empty(&rig->wheel.cursor))
			continue;
		l.n = 0;
		KUNIT_EXPECT_EQ(test, 0, wheel_survey(&rig->wheel, 0, 0, SLOTS, count_visit, &l));
		KUNIT_EXPECT_EQ(test, 0, l.strangers);
		/* The one that is due is in no bucket after its visit. */
		KUNIT_EXPECT_GE(test, l.n, 9);
		KUNIT_EXPECT_LE(test, l.n, 10);
		surveys++;
	}
	rig->answers = false;
	KUNIT_EXPECT_EQ(test, has_rounds(rig) ? 10 : 0, surveys);
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

	for (i = 0; seen.pauses == 0 && i < TO_SURVEY; i++) {
		wheel_cancel(&seen.first[i].t);
		wheel_detach(&seen.first[i].t);
	}
	pause_noted(rig);
	wheel_drain_all(&rig->wheel);
}

/* Refile all timeouts after the place at which the survey continues. */
static void pause_refile(struct rig *rig)
{
	unsigned int i;

	pause_noted(rig);
	for (i = 0; i < TO_SURVEY; i++)
		wheel_arm(&seen.first[i].t, wheel_deadline(&seen.first[i].t) - 1);
	wheel_drain_all(&rig->wheel);
}

static void pause_stop(struct rig *rig)
{
	struct list_head pending;

	KUNIT_EXPECT_EQ(rig->test, TO_SURVEY, rig_stop(rig, &pending));
}

/* A survey pauses after WHEEL_SURVEY timeouts and continues, whatever happened to the bucket. */
static void survey_in_parts(struct kunit *test)
{
	static void (*const meanwhile[])(struct rig *rig) = {
		pause_noted, pause_expire, pause_cancel, pause_refile, pause_stop,
	};
	struct rig *rig = test->priv;
	unsigned int i, k, slots_used;
	struct probe *p;

	for (k = 0; k < ARRAY_SIZE(meanwhile); k++) {
		p = probes(rig_remake(rig, TICK, SLOTS, 0), TO_SURVEY + 1);
		/* the last one is alone in its bucket */
		for (i = 0; i < TO_SURVEY; i++)
			arm_tick(&p[i], i < TO_SURVEY - 1 ? 5 : 9);
		to_tick(rig, 1);
		seen = (struct seen) { .first = p, .last = &p[TO_SURVEY] };
		rig->meanwhile = meanwhile[k];
		rig->answers = true;
		KUNIT_EXPECT_EQ(test, 0,
				wheel_survey(&rig->wheel, 0, 0, SLOTS, count_visit, &seen));
		rig->answers = false;
		KUNIT_EXPECT_EQ(test, 0, seen.strangers);
		KUNIT_EXPECT_TRUE(test, list_empty(&rig->wheel.survey_cursor));
		/* The survey ends, and visits the timeouts that have not moved. */
		KUNIT_EXPECT_LE(test, seen.n, TO_SURVEY + (meanwhile[k] == pause_refile));
		if (meanwhile[k] == pause_stop)
			continue;
		if (meanwhile[k] == pause_noted || meanwhile[k] == pause_refile)
			KUNIT_EXPECT_EQ(test, 1, seen.alone);
		if (meanwhile[k] == pause_noted) {
			KUNIT_EXPECT_EQ(test, TO_SURVEY, seen.n);
			KUNIT_EXPECT_EQ(test, WHEEL_SURVEY, seen.at_once);
		}
		if (meanwhile[k] == pause_expire)
			KUNIT_EXPECT_EQ(test, WHEEL_SURVEY + 1, seen.n);
		if (meanwhile[k] == pause_cancel)
			KUNIT_EXPECT_EQ(test, WHEEL_SURVEY, seen.n);
		/* Empty buckets are marked as empty. */
		slots_used = bitmap_weight(rig->wheel.level[0].occupied, SLOTS);
		if (meanwhile[k] != pause_refile)
			KUNIT_EXPECT_EQ(test, seen.n == TO_SURVEY ? 2 : seen.n % 2, slots_used);
		drive(rig, NULL, 20 * TICK);
		KUNIT_EXPECT_EQ(test, meanwhile[k] == pause_cancel ? 0 : TO_SURVEY, rig->fired);
	}
}

/* A survey drains all requests first, also with a budget that is too small for them. */
static void survey_after_drain(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 21);
	unsigned int i;

	to_tick(rig, 1);
	for (i = 0; i < 20; i++)
		arm_tick(&p[i], 5);
	seen = (struct seen) { .first = p, .last = &p[20] };
	rig->answers = true;
	rig->budget = 1;
	KUNIT_EXPECT_EQ(test, 0,
				wheel_survey(&rig->wheel, 0, 0, SLOTS, count_visit, &seen));
	KUNIT_EXPECT_EQ(test, 20, seen.n);
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
		while (wheel_advance(&rig->wheel, rig->now, budget))
			KUNIT_ASSERT_NULL(test, rig->wheel.ended);
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

	rig->wheel.drain_share = 0;
	arm_tick(&p[0], 3);
	arm_tick(&p[1], 9);
	to_tick(rig, 1);
	/* The drain reverses the list, then handles it: 2 calls for each request. */
	for (i = 2; i < 100; i++)
		arm_tick(&p[i], 4 + i % 8);
	while (wheel_advance(&rig->wheel, rig->now, 1)) {
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
		rig->wheel.drain_share = 0;
		for (i = 0; i < 10; i++)
			arm_tick(&p[i], 3);
		KUNIT_EXPECT_TRUE(test, wheel_advance(&rig->wheel, begun * TICK, 1));
		rig->now = 3 * TICK - 100;
		while (wheel_advance(&rig->wheel, rig->now, 1))
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
	unsigned int i, calls = 0;

	rig->wheel.drain_share = 0;
	to_tick(rig, 1);
	for (i = 0; i < 20; i++)
		arm_tick(&p[i], 2);
	while (wheel_advance(&rig->wheel, rig->now, 1) && calls < 500) {
		rig->now += TICK;
		calls++;
	}
	KUNIT_EXPECT_LT(test, calls, 500U);
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
		wheel_advance(&rig->wheel, rig->now, 1);
	rig->now = 12 * TICK;
	while (wheel_advance(&rig->wheel, rig->now, 1))
		;
	to_tick(rig, 13);
	expect_in_order(rig, p, 20);
}

/* A survey waits until such a drain is over, too. */
static void survey_after_overdue(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 41);
	unsigned int i;

	rig->wheel.drain_share = 0;
	for (i = 20; i < 40; i++)
		arm_tick(&p[i], 2);
	to_tick(rig, 1);
	for (i = 0; i < 20; i++)
		arm_tick(&p[i], 40);
	while (rig->wheel.drained < 30) {
		KUNIT_ASSERT_TRUE(test, wheel_advance(&rig->wheel, rig->now, 1));
		rig->now += TICK / 8;
	}
	seen = (struct seen) { .first = p, .last = &p[40] };
	rig->answers = true;
	rig->budget = 1;
	KUNIT_EXPECT_EQ(test, 0,
			wheel_survey(&rig->wheel, 0, 0, SLOTS, count_visit, &seen));
	KUNIT_EXPECT_EQ(test, has_rounds(rig) ? 20 : 0, seen.n);
}

WHEEL_SUITES(late,
	KUNIT_CASE(due_meanwhile),
	KUNIT_CASE(drain_over_ticks),
	KUNIT_CASE(drain_into_tick),
	KUNIT_CASE(drain_held_off),
	KUNIT_CASE(drain_while_late),
	KUNIT_CASE(survey_after_overdue),
	KUNIT_CASE(catch_up),
	KUNIT_CASE(catch_up_round),
	KUNIT_CASE(jump),
	KUNIT_CASE(jump_touched),
	KUNIT_CASE(burst),
	KUNIT_CASE(burst_changed),
	KUNIT_CASE(survey_midway),
	KUNIT_CASE(survey_in_parts),
	KUNIT_CASE(survey_after_drain),
	KUNIT_CASE(budgets));
