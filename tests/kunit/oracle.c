// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite that compares real wheels with a naive model, for every combination of
 * levels and clock. Like hwtimer_wheel_random, but through the API, with real workers, on
 * the machine's clocks.
 *
 * Made for User-Mode Linux with time-travel=inf-cpu, where the clock stands still while anything
 * runs, so that lateness is exact. The seed is printed; it is a parameter of the module.
 */
#include <kunit/test.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "../../core/hwtimer_driver.h"
#include "hwtimer_kunit.h"

#define TICK		NSEC_PER_MSEC
#define SLOTS		16
/* lateness that the machine adds to a tick */
#define SLACK		(NSEC_PER_MSEC / 10)
#define ENTRIES		64
#define OPERATIONS	20000

/**
 * struct entry - a timeout and its state in the model
 * @t: the timeout
 * @o: the oracle it belongs to
 * @armed: pending, or expired without the model having noticed yet
 * @claimed: number of expiries whose callbacks are yet to come
 * @deadline: the deadline, if @armed
 * @last: the latest deadline of the @claimed expiries
 */
struct entry {
	struct hwtimer_timeout	t;
	struct oracle		*o;
	bool			armed;
	unsigned int		claimed;
	u64			deadline;
	u64			last;
};

struct oracle {
	struct kunit		*test;
	struct hwtimer_wheel	*wheel;
	struct rnd_state	rnd;
	u64			began;
	spinlock_t		lock;	/* protects the following fields and the entries */
	unsigned long		armed;
	unsigned long		cancelled;
	unsigned long		expired;
	unsigned long		operations;
	bool			failed;
	struct entry		entries[ENTRIES];
};

static u64 used_seed;

static const struct combination {
	const char		*desc;
	unsigned int		levels;
	enum hwtimer_clock	clock;
} combinations[] = {
	{ "1 level, monotonic", 1, HWTIMER_CLOCK_MONOTONIC },
	{ "4 levels, monotonic", 4, HWTIMER_CLOCK_MONOTONIC },
	{ "all levels, monotonic", 0, HWTIMER_CLOCK_MONOTONIC },
	{ "1 level, boottime", 1, HWTIMER_CLOCK_BOOTTIME },
	{ "4 levels, boottime", 4, HWTIMER_CLOCK_BOOTTIME },
	{ "all levels, boottime", 0, HWTIMER_CLOCK_BOOTTIME },
};

KUNIT_ARRAY_PARAM_DESC(combination, combinations, desc);

static void agree(struct oracle *o, bool holds, const char *what, const struct entry *e)
{
	if (holds || o->failed)
		return;
	o->failed = true;
	KUNIT_FAIL(o->test, "%s: operation %lu, now %llu, deadline %llu, entry %td", what,
		   o->operations, hwtimer_wheel_now(o->wheel), e->deadline, e - o->entries);
}

static u32 below(struct oracle *o, u32 n)
{
	return prandom_u32_state(&o->rnd) % n;
}

/* Due at the first boundary at or after the deadline, so less than a tick later. */
static bool overdue(const struct oracle *o, u64 deadline)
{
	return hwtimer_wheel_now(o->wheel) > deadline + TICK + SLACK;
}

static void entry_fired(struct hwtimer_timeout *t)
{
	struct entry *e = container_of(t, struct entry, t);
	struct oracle *o = e->o;
	u64 now = hwtimer_wheel_now(o->wheel);

	spin_lock(&o->lock);
	o->expired++;
	if (e->claimed) {
		e->claimed--;
		agree(o, now >= e->last && !overdue(o, e->last), "claimed, not on time", e);
	} else {
		agree(o, e->armed, "fired, but was not armed", e);
		agree(o, now >= e->deadline, "early", e);
		agree(o, !overdue(o, e->deadline), "late", e);
		e->armed = false;
	}
	spin_unlock(&o->lock);
}

/* The wheel reports that the timeout is not pending, while the model has it as armed. */
static void claimed(struct oracle *o, struct entry *e)
{
	agree(o, hwtimer_wheel_now(o->wheel) >= e->deadline, "lost", e);
	e->claimed++;
	e->last = e->deadline;
	e->armed = false;
}

/* Some ticks, a round or two, or far ahead; or in the past, but within the wheel's life. */
static u64 some_deadline(struct oracle *o)
{
	static const u64 spans[] = { 4, 4, SLOTS, 3 * SLOTS, 60 * SLOTS, 3600 * SLOTS };
	u64 now = hwtimer_wheel_now(o->wheel);
	u64 span = spans[below(o, ARRAY_SIZE(spans))] * TICK;

	if (!below(o, 16))
		return max(now - below(o, 1000), o->began);
	return now + ((u64)prandom_u32_state(&o->rnd) * (span >> 16) >> 16);
}

static void operate(struct oracle *o)
{
	struct entry *e = &o->entries[below(o, ENTRIES)];
	u64 deadline = some_deadline(o);
	int ret;

	spin_lock(&o->lock);
	o->operations++;
	switch (below(o, 8)) {
	case 0 ... 3:
		ret = hwtimer_schedule_at(&e->t, deadline);
		agree(o, ret == 0 || ret == 1, "schedule returns", e);
		if (!ret && e->armed)
			claimed(o, e);
		agree(o, ret == e->armed, "schedule finds it pending", e);
		o->armed += !ret;
		e->armed = true;
		e->deadline = deadline;
		break;
	case 4 ... 5:
		ret = hwtimer_touch_at(&e->t, deadline);
		agree(o, ret == 0 || ret == -ENOENT, "touch returns", e);
		if (ret && e->armed)
			claimed(o, e);
		agree(o, !ret == e->armed, "touch finds it pending", e);
		if (!ret)
			e->deadline = deadline;
		break;
	case 6:
		ret = hwtimer_cancel(&e->t);
		if (!ret && e->armed)
			claimed(o, e);
		agree(o, ret == e->armed, "cancel finds it pending", e);
		o->cancelled += ret;
		e->armed = false;
		break;
	default:
		agree(o, e->armed || !hwtimer_is_pending(&e->t), "is pending", e);
		agree(o, !e->armed || hwtimer_deadline(&e->t) == e->deadline, "deadline", e);
	}
	spin_unlock(&o->lock);
}

/* Check that no timeout is overdue. */
static void check_overdue(struct oracle *o)
{
	struct entry *e;

	spin_lock(&o->lock);
	for (e = o->entries; e < o->entries + ENTRIES; e++) {
		agree(o, !e->claimed, "claimed, and never called", e);
		agree(o, !e->armed || !overdue(o, e->deadline), "has not fired", e);
		agree(o, hwtimer_is_pending(&e->t) == e->armed, "pending", e);
	}
	spin_unlock(&o->lock);
}

/* Promises 1 and 2. */
static void model(struct kunit *test)
{
	const struct combination *c = test->param_value;
	const struct hwtimer_wheel_params params = {
		.name = "oracle", .tick_ns = TICK, .slots = SLOTS, .levels = c->levels,
		.clock = c->clock,
	};
	struct oracle *o = kunit_kzalloc(test, sizeof(*o), GFP_KERNEL);
	unsigned long left = 0, pending;
	struct list_head list, *pos;
	unsigned int i, levels;

	KUNIT_ASSERT_NOT_NULL(test, o);
	o->test = test;
	spin_lock_init(&o->lock);
	prandom_seed_state(&o->rnd, used_seed + (c - combinations));
	o->wheel = hwtimer_wheel_create(&params);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, o->wheel);
	o->began = hwtimer_wheel_now(o->wheel);
	for (i = 0; i < ENTRIES; i++) {
		o->entries[i].o = o;
		hwtimer_init(&o->entries[i].t, o->wheel, entry_fired);
	}

	while (o->operations < OPERATIONS && !o->failed) {
		for (i = below(o, 8); i; i--)
			operate(o);
		nap(below(o, 64) ? below(o, 3 * TICK) : (u64)below(o, 100) * SLOTS * TICK);
		/* After SLACK, whatever was due a tick ago has fired. */
		nap(SLACK);
		check_overdue(o);
	}

	levels = o->wheel->wheel.levels;
	pending = hwtimer_wheel_pending(o->wheel);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(o->wheel, &list));
	list_for_each(pos, &list)
		left++;
	kunit_info(test, "seed %llu, %lu operations, %u levels: %lu armed, %lu cancelled, %lu expired, %lu handed back\n",
		   used_seed, o->operations, levels, o->armed, o->cancelled, o->expired, left);
	/* Timeouts that became due while the stop waited for a grace period have expired. */
	KUNIT_EXPECT_GE(test, pending, left);
	KUNIT_EXPECT_EQ(test, o->armed, o->cancelled + o->expired + left);
	KUNIT_EXPECT_GT(test, o->expired, 1000UL);
	if (!c->levels)
		KUNIT_EXPECT_GT(test, levels, 4);
	else
		KUNIT_EXPECT_EQ(test, levels, c->levels);
	hwtimer_wheel_destroy(o->wheel);
}

static int oracle_suite_init(struct kunit_suite *suite)
{
	used_seed = hwtimer_kunit_seed();
	/* Timers have the resolution of a jiffy for a moment after boot. */
	nap(NSEC_PER_SEC);
	return 0;
}

static struct kunit_case oracle_cases[] = {
	KUNIT_CASE_PARAM(model, combination_gen_params),
	{}
};

SUITE(oracle, "oracle", .suite_init = oracle_suite_init);
