// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit cases of how expired work items get their runs: the policies, the bound on
 * queued items, the lanes, and workqueues of callers.
 */
#include <linux/err.h>
#include <linux/math64.h>
#include <linux/workqueue.h>

#include "../../hwtimer_compat.h"
#include "work_rig.h"

/* how many items of the slow lane run at a time */
#define SLOW_ACTIVE	16

void runs(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 3);
	unsigned int k;
	u64 now;

	KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_work_touch(&i[0].w, SEC));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&i[0].w));
	nap(123456);
	now = hwtimer_wheel_now(wheel);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_schedule(&i[0].w, 55 * MS));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_schedule_at(&i[1].w, now + 5 * SEC));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_schedule_at(&i[1].w, now + 75 * MS));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_schedule(&i[2].w, MS));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_touch(&i[2].w, SEC));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_touch_at(&i[2].w, now + 125 * MS));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_is_pending(&i[0].w));
	nap(SEC);
	for (k = 0; k < 3; k++) {
		u64 due = now + (k == 0 ? 55 : k == 1 ? 75 : 125) * MS;

		KUNIT_EXPECT_EQ(test, 1, i[k].runs);
		KUNIT_EXPECT_EQ(test, 1, i[k].ended);
		KUNIT_EXPECT_GE(test, i[k].at, due);
		KUNIT_EXPECT_LT(test, i[k].at, due + TICK + MS);
		KUNIT_EXPECT_PTR_EQ(test, i[k].on, wheel_lanes(wheel)->fast);
		KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&i[k].w));
	}
	KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_work_touch_at(&i[0].w, now + 5 * SEC));
	expect_counts(test, wheel, 3, 3, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 0UL, wheel_lanes(wheel)->to_slow);
}

/* A run that blocks holds up neither the wheel nor the run of another item. */
void blocks_nobody(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 2);

	i[0].nap = SEC;
	expire(&i[0], 1);
	expire(&i[1], 5);
	KUNIT_EXPECT_EQ(test, 0, i[0].ended);
	KUNIT_EXPECT_EQ(test, 5, i[1].ended);
	KUNIT_EXPECT_EQ(test, 0UL, to_driven(wheel)->monitor.long_callbacks);
}

void init_params(struct kunit *test)
{
	static const enum hwtimer_work_policy bad[] = { -1, HWTIMER_WORK_REPLACE + 1 };
	struct hwtimer_wheel *bare = work_wheel(test, 0, 0, 0, 0), *wheel = a_wheel(test);
	struct item *i = items(test, NULL, NULL, 0, 4);
	unsigned int k;

	KUNIT_EXPECT_EQ(test, -EINVAL, hwtimer_work_init(&i[0].w, bare, item_run, NULL));
	for (k = 0; k < ARRAY_SIZE(bad); k++) {
		struct hwtimer_work_params params = { .policy = bad[k] };

		KUNIT_EXPECT_EQ(test, -EINVAL,
				hwtimer_work_init(&i[1 + k].w, wheel, item_run, &params));
	}
	for (k = 0; k < 3; k++) {
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_schedule(&i[k].w, 0));
		KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i[k].w));
		KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i[k].w));
		KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[k].w, item_released));
	}
	nap(SEC);
	for (k = 0; k < 3; k++) {
		KUNIT_EXPECT_EQ(test, 0, i[k].runs);
		KUNIT_EXPECT_EQ(test, 1, i[k].released);
	}
	/* an item with a workqueue of the caller needs no lanes */
	prepare(&i[0], bare, single(test), HWTIMER_WORK_SERIAL);
	expire(&i[0], 1);
	KUNIT_EXPECT_EQ(test, 1, i[0].runs);
	/* a wheel with lanes needs no parameters */
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_init(&i[3].w, wheel, item_run, NULL));
	expire(&i[3], 1);
	KUNIT_EXPECT_EQ(test, 1, i[3].runs);
}

void wheel_params(struct kunit *test)
{
	struct hwtimer_wheel_params good = { .name = "w", .tick_ns = TICK, .slots = SLOTS };
	struct hwtimer_wheel_params p[] = { good, good, good };
	struct hwtimer_wheel *wheel;
	unsigned int k;

	p[0].slow_ms = 1;
	p[1].slow_runs = 1;
	p[2].max_queued = 1;
	for (k = 0; k < ARRAY_SIZE(p); k++) {
		wheel = hwtimer_wheel_create(&p[k]);
		KUNIT_EXPECT_EQ_MSG(test, -EINVAL, PTR_ERR_OR_ZERO(wheel), "%u", k);
		if (!IS_ERR(wheel))
			hwtimer_wheel_destroy(wheel);
		p[k].flags = HWTIMER_WHEEL_WORK;
		wheel = keep(test, hwtimer_wheel_create(&p[k]));
		KUNIT_EXPECT_NOT_NULL(test, wheel_lanes(wheel)->fast);
		KUNIT_EXPECT_NOT_NULL(test, wheel_lanes(wheel)->slow);
		unmake(test, wheel);
	}
	/* names too long for the name of a workqueue */
	good.flags = HWTIMER_WHEEL_WORK;
	good.name = "1234567890123456789012345678901";
	keep(test, hwtimer_wheel_create(&good));
	keep(test, hwtimer_wheel_create(&good));
}

/* Each expiry gets a run; the runs follow one another. */
void serial(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	u64 first;

	i->nap = 500 * MS;
	expire(i, 1);
	first = i->at;
	expire(i, 4);
	KUNIT_EXPECT_EQ(test, 1, i->runs);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_is_pending(&i->w));
	expect_counts(test, wheel, 5, 1, 0, 0, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 3, i->runs);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 5, i->ended);
	KUNIT_EXPECT_GE(test, i->at, first + 4 * 500 * MS);
	KUNIT_EXPECT_LT(test, i->at, first + 4 * 500 * MS + 10 * MS);
	KUNIT_EXPECT_EQ(test, 0, i->cancelled);
	expect_counts(test, wheel, 5, 5, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->active));
}

/* Expiries while the item is queued get a run each, and other items run in between. */
void serial_queued(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 2);

	block(test, wheel, SEC);
	expire(&i[0], 3);
	expire(&i[1], 1);
	KUNIT_EXPECT_EQ(test, 0, i[0].runs);
	i[0].nap = 100 * MS;
	nap(SEC + 50 * MS);
	KUNIT_EXPECT_EQ(test, 2, i[0].runs);
	KUNIT_EXPECT_EQ(test, 1, i[1].ended);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 3, i[0].ended);
	expect_counts(test, wheel, 5, 5, 0, 0, 0);
}

void discard(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_DISCARD, 1);

	i->nap = 500 * MS;
	expire(i, 4);
	KUNIT_EXPECT_EQ(test, 1, i->runs);
	KUNIT_EXPECT_EQ(test, 3, i->refused[HWTIMER_REFUSED_BUSY]);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&i->w));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	expire(i, 1);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 2, i->ended);
	KUNIT_EXPECT_EQ(test, 0, i->cancelled);
	KUNIT_EXPECT_EQ(test, 3, i->refused[HWTIMER_REFUSED_BUSY]);
	KUNIT_EXPECT_EQ(test, 0, i->refused[HWTIMER_REFUSED_FULL]);
	expect_counts(test, wheel, 2, 2, 0, 0, 3);
}

void discard_queued(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, single(test), HWTIMER_WORK_DISCARD, 1);

	block(test, wheel, SEC);
	expire(i, 2);
	KUNIT_EXPECT_EQ(test, 1, i->refused[HWTIMER_REFUSED_BUSY]);
	/* a cancelled item is still queued, but no longer busy */
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
	expire(i, 2);
	KUNIT_EXPECT_EQ(test, 2, i->refused[HWTIMER_REFUSED_BUSY]);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	expect_counts(test, wheel, 3, 2, 0, 1, 2);
}

/* An item without a refused callback. */
void refused_by_nobody(struct kunit *test)
{
	struct hwtimer_work_params params = { .policy = HWTIMER_WORK_DISCARD };
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, NULL, NULL, 0, 1);

	KUNIT_ASSERT_EQ(test, 0, hwtimer_work_init(&i->w, wheel, item_run, &params));
	i->nap = 500 * MS;
	expire(i, 3);
	expect_counts(test, wheel, 1, 1, 0, 0, 2);
}

void replace(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_REPLACE, 1);
	u64 first;

	i->nap = 500 * MS;
	expire(i, 1);
	first = i->at;
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancelled(&i->w));
	expire(i, 1);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancelled(&i->w));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_is_pending(&i->w));
	expect_counts(test, wheel, 2, 1, 0, 0, 0);
	expire(i, 2);
	expect_counts(test, wheel, 4, 1, 2, 0, 0);
	nap(500 * MS);
	/* the first run has ended, cancelled, and the last one goes on, not cancelled */
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	KUNIT_EXPECT_EQ(test, 1, i->cancelled);
	KUNIT_EXPECT_EQ(test, 2, i->runs);
	KUNIT_EXPECT_GE(test, i->at, first + 500 * MS);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancelled(&i->w));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i->ended);
	KUNIT_EXPECT_EQ(test, 1, i->cancelled);
	expect_counts(test, wheel, 4, 2, 2, 0, 0);
}

void replace_queued(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, single(test), HWTIMER_WORK_REPLACE, 1);

	block(test, wheel, SEC);
	expire(i, 4);
	expect_counts(test, wheel, 5, 1, 3, 0, 0);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
	expire(i, 1);
	expect_counts(test, wheel, 6, 1, 3, 1, 0);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	KUNIT_EXPECT_EQ(test, 0, i->cancelled);
	expect_counts(test, wheel, 6, 2, 3, 1, 0);
}

/* A refused item arms itself again until it gets a run. */
void refused_rearms(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_DISCARD, 1);

	i->nap = 500 * MS;
	i->on_refusal = again;
	expire(i, 1);
	hwtimer_work_schedule(&i->w, 0);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i->ended);
	KUNIT_EXPECT_GE(test, i->refused[HWTIMER_REFUSED_BUSY], 45);
	KUNIT_EXPECT_LE(test, i->refused[HWTIMER_REFUSED_BUSY], 51);
	expect_counts(test, wheel, 2, 2, 0, 0, i->refused[HWTIMER_REFUSED_BUSY]);
}

/* At most 3 items may be queued. Each item runs, and expires again meanwhile. */
void bound(struct kunit *test)
{
	struct hwtimer_wheel *wheel = work_wheel(test, HWTIMER_WHEEL_WORK, 0, 0, 3);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 2);
	struct item *newest = items(test, wheel, NULL, HWTIMER_WORK_REPLACE, 1);
	struct item *own = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);

	i[0].nap = 2 * SEC;
	i[1].nap = 2 * SEC;
	newest->nap = 2 * SEC;
	own->nap = 2 * SEC;
	expire(&i[0], 1);
	expire(&i[1], 1);
	expire(newest, 1);
	expire(own, 5);
	/* running items and items on another workqueue do not count */
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->queued));
	expire(&i[0], 1);
	expire(&i[1], 1);
	KUNIT_EXPECT_EQ(test, 2L, atomic_long_read(&wheel_lanes(wheel)->queued));
	expire(newest, 1);
	KUNIT_EXPECT_EQ(test, 3L, atomic_long_read(&wheel_lanes(wheel)->queued));
	KUNIT_EXPECT_EQ(test, 0UL, wheel_lanes(wheel)->refused);
	expire(&i[0], 1);
	KUNIT_EXPECT_EQ(test, 1, i[0].refused[HWTIMER_REFUSED_FULL]);
	KUNIT_EXPECT_EQ(test, 0, i[0].refused[HWTIMER_REFUSED_BUSY]);
	/* the expiry replaces the one that is queued */
	expire(newest, 1);
	KUNIT_EXPECT_EQ(test, 0, newest->refused[HWTIMER_REFUSED_FULL]);
	KUNIT_EXPECT_EQ(test, 1UL, wheel_lanes(wheel)->replaced);
	KUNIT_EXPECT_EQ(test, 3L, atomic_long_read(&wheel_lanes(wheel)->queued));
	/* a cancel makes room for one item */
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i[1].w));
	KUNIT_EXPECT_EQ(test, 2L, atomic_long_read(&wheel_lanes(wheel)->queued));
	expire(&i[0], 1);
	KUNIT_EXPECT_EQ(test, 1, i[0].refused[HWTIMER_REFUSED_FULL]);
	expire(&i[0], 1);
	KUNIT_EXPECT_EQ(test, 2, i[0].refused[HWTIMER_REFUSED_FULL]);
	/* and so does the start of a run */
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i[0].runs);
	KUNIT_EXPECT_EQ(test, 2, newest->runs);
	KUNIT_EXPECT_EQ(test, 1L, atomic_long_read(&wheel_lanes(wheel)->queued));
	expire(&i[0], 1);
	KUNIT_EXPECT_EQ(test, 2L, atomic_long_read(&wheel_lanes(wheel)->queued));
	/* cancelled while running, with more runs due */
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i[0].w));
	nap(20 * SEC);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->queued));
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->active));
	KUNIT_EXPECT_EQ(test, 5, own->ended);
}

/* A refused expiry does not cancel the run that it would have replaced. */
void bound_replace(struct kunit *test)
{
	struct hwtimer_wheel *wheel = work_wheel(test, HWTIMER_WHEEL_WORK, 0, 0, 1);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	struct item *newest = items(test, wheel, NULL, HWTIMER_WORK_REPLACE, 1);

	i->nap = SEC;
	newest->nap = SEC;
	expire(newest, 1);
	expire(i, 2);
	expire(newest, 1);
	KUNIT_EXPECT_EQ(test, 1, newest->refused[HWTIMER_REFUSED_FULL]);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancelled(&newest->w));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, newest->ended);
	KUNIT_EXPECT_EQ(test, 0, newest->cancelled);
	expect_counts(test, wheel, 3, 3, 0, 0, 1);
}

/* Sleep until a minute of CLOCK_MONOTONIC has just begun. */
static void new_minute(void)
{
	u64 now = ktime_get_ns();

	nap((div64_u64(now, MINUTE) + 1) * MINUTE - now + TICK);
}

/* Run the item once. Returns whether it ran on the slow lane. */
static bool ran_slow(struct item *i)
{
	struct hwtimer_lanes *w = wheel_lanes(i->w.timeout.wheel);
	unsigned int before = i->ended;

	expire(i, 1);
	nap(i->nap);
	KUNIT_EXPECT_EQ(i->test, before + 1, i->ended);
	KUNIT_EXPECT_TRUE(i->test, i->on == w->fast || i->on == w->slow);
	return i->on == w->slow;
}

void lanes(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 3);
	unsigned int k;

	new_minute();
	i[0].nap = 510 * MS;
	/* the eleventh slow run in a minute is one too many, and the last one on the fast lane */
	for (k = 0; k < 11; k++)
		KUNIT_EXPECT_FALSE_MSG(test, ran_slow(&i[0]), "%u", k);
	KUNIT_EXPECT_EQ(test, 0UL, wheel_lanes(wheel)->to_slow);
	KUNIT_EXPECT_TRUE(test, ran_slow(&i[0]));
	/* in that minute the item stays on the slow lane, even if its runs are short again */
	i[0].nap = 0;
	KUNIT_EXPECT_TRUE(test, ran_slow(&i[0]));
	KUNIT_EXPECT_EQ(test, 2UL, wheel_lanes(wheel)->to_slow);
	/* other items stay on the fast lane */
	KUNIT_EXPECT_FALSE(test, ran_slow(&i[1]));
	/* long, but below the limit */
	i[2].nap = 490 * MS;
	for (k = 0; k < 20; k++)
		KUNIT_EXPECT_FALSE(test, ran_slow(&i[2]));
	KUNIT_EXPECT_TRUE(test, ran_slow(&i[0]));
	new_minute();
	KUNIT_EXPECT_FALSE(test, ran_slow(&i[0]));
	/* ten slow runs in each of two minutes are not too many */
	i[0].nap = 510 * MS;
	for (k = 0; k < 10; k++)
		KUNIT_EXPECT_FALSE(test, ran_slow(&i[0]));
	new_minute();
	for (k = 0; k < 10; k++)
		KUNIT_EXPECT_FALSE(test, ran_slow(&i[0]));
	KUNIT_EXPECT_EQ(test, 3UL, wheel_lanes(wheel)->to_slow);
}

void lanes_own_figures(struct kunit *test)
{
	struct hwtimer_wheel *wheel = work_wheel(test, HWTIMER_WHEEL_WORK, 50, 2, 0);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 2);
	unsigned int k;

	new_minute();
	i[0].nap = 51 * MS;
	i[1].nap = 49 * MS;
	for (k = 0; k < 3; k++)
		KUNIT_EXPECT_FALSE(test, ran_slow(&i[0]));
	KUNIT_EXPECT_TRUE(test, ran_slow(&i[0]));
	for (k = 0; k < 10; k++)
		KUNIT_EXPECT_FALSE(test, ran_slow(&i[1]));
	/* runs that become due during a slow run use the slow lane as well */
	expire(&i[0], 2);
	nap(SEC);
	KUNIT_EXPECT_PTR_EQ(test, i[0].on, wheel_lanes(wheel)->slow);
	KUNIT_EXPECT_EQ(test, 3UL, wheel_lanes(wheel)->to_slow);
}

/* A run counts in the minute in which it ends. */
void lanes_over_the_minute(struct kunit *test)
{
	struct hwtimer_wheel *wheel = work_wheel(test, HWTIMER_WHEEL_WORK, 50, 1, 0);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	u64 end;

	new_minute();
	end = (div64_u64(ktime_get_ns(), MINUTE) + 1) * MINUTE;
	nap_until(end - 5 * TICK);
	i->nap = 200 * MS;
	KUNIT_EXPECT_FALSE(test, ran_slow(i));
	KUNIT_EXPECT_LT(test, i->at, end);
	KUNIT_EXPECT_FALSE(test, ran_slow(i));
	KUNIT_EXPECT_TRUE(test, ran_slow(i));
}

/* When the slow lane is full, items of the slow lane wait, and those of the fast lane do not. */
void slow_holds_up_slow(struct kunit *test)
{
	struct hwtimer_wheel *wheel = work_wheel(test, HWTIMER_WHEEL_WORK, 1, 1, 0);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, SLOW_ACTIVE + 4);
	struct item *quick = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	unsigned int k, n, running = 0;

	new_minute();
	for (n = 0; n < 3; n++) {
		for (k = 0; k < SLOW_ACTIVE + 4; k++) {
			i[k].nap = n < 2 ? 2 * MS : 5 * SEC;
			hwtimer_work_schedule(&i[k].w, 0);
		}
		nap(5 * TICK);
	}
	for (k = 0; k < SLOW_ACTIVE + 4; k++)
		running += i[k].runs - i[k].ended;
	KUNIT_EXPECT_EQ(test, SLOW_ACTIVE, running);
	KUNIT_EXPECT_EQ(test, SLOW_ACTIVE + 4UL, wheel_lanes(wheel)->to_slow);
	KUNIT_EXPECT_FALSE(test, ran_slow(quick));
	nap(20 * SEC);
	for (k = 0; k < SLOW_ACTIVE + 4; k++)
		KUNIT_EXPECT_EQ(test, 3, i[k].ended);
}

void callers_workqueue(struct kunit *test)
{
	struct hwtimer_wheel *wheel = work_wheel(test, HWTIMER_WHEEL_WORK, 1, 1, 1);
	struct workqueue_struct *wqs[] = {
		alloc_workqueue("hwt_kunit_own", WQ_PERCPU, 0), system_freezable_wq, system_dfl_wq,
		single(test),
	};
	unsigned int k;

	KUNIT_ASSERT_NOT_NULL(test, wqs[0]);
	new_minute();
	for (k = 0; k < ARRAY_SIZE(wqs); k++) {
		struct item *i = items(test, wheel, wqs[k], HWTIMER_WORK_SERIAL, 1);

		/* lanes and bound do not apply */
		i->nap = 100 * MS;
		expire(i, 10);
		nap(2 * SEC);
		KUNIT_EXPECT_EQ(test, 10, i->ended);
		KUNIT_EXPECT_PTR_EQ(test, i->on, wqs[k]);
		expire(i, 1);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_work_shutdown_sync(&i->w));
		expect_nobody(i);
	}
	expect_counts(test, wheel, 44, 44, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 0UL, wheel_lanes(wheel)->to_slow);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->queued));
	destroy_workqueue(wqs[0]);
}
