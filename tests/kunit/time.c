// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_time: extreme cases of time, on a clock that the case moves: a
 * worker that is held off, a million expiries at one tick, the end of the range.
 */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>

#include "wheel_rig.h"

static const struct shape {
	const char	*desc;
	u64		tick_ns;
	unsigned int	slots;
	unsigned int	levels;
} time_shapes[] = {
	{ "1 ns, 8 slots", 1, 8, 1 },
	{ "7 us, 4 slots", 7 * NSEC_PER_USEC, 4, 1 },
	{ "1 ms, 1 slot", NSEC_PER_MSEC, 1, 1 },
	{ "1 s, 8 slots", NSEC_PER_SEC, 8, 1 },
	{ "1 h, 16 slots", HOUR, 16, 1 },
	{ "1 ns, 3 levels of 4", 1, 4, 3 },
	{ "999983 ns, 2 levels of 4", 999983, 4, 2 },
	{ "1 min, 4 levels of 4", 60ULL * NSEC_PER_SEC, 4, 4 },
	{ "1 h, 2 levels of 8", HOUR, 8, 2 },
	{ "3 ns, all levels of 2", 3, 2, 0 },
	{ "1 ms, all levels of 4", NSEC_PER_MSEC, 4, 0 },
	{ "1 h, all levels of 4", HOUR, 4, 0 },
};

KUNIT_ARRAY_PARAM_DESC(shape, time_shapes, desc);

/* A round in ticks: of the top level or, if all levels up to the horizon are there, of level 0. */
static u64 round_of(const struct shape *s)
{
	unsigned int levels = s->levels ?: 1;

	return int_pow(s->slots, levels) >> (levels - 1);
}

static struct probe *make(struct rig *rig, const struct shape *s, unsigned int n)
{
	return probes(shape_of(rig, s->tick_ns, s->slots, s->levels), n);
}

/* With a budget smaller than a worker's. */
static void advance_slowly(struct rig *rig, u64 now, unsigned int budget)
{
	rig->now = now;
	while (queue_advance(&rig->wheel, now, budget))
		;
}

/* The first tick after the current time. */
static u64 next_tick(const struct rig *rig)
{
	return div64_u64(min(rig->now, HWTIMER_HORIZON - 1), rig->wheel.tick_ns) + 1;
}

/* The tick at which @deadline expires if armed now; U64_MAX: never. */
static u64 due_tick(const struct rig *rig, u64 deadline)
{
	u64 tick_ns = rig->wheel.tick_ns, rest, tick;

	if (deadline >= HWTIMER_HORIZON)
		return U64_MAX;
	tick = div64_u64_rem(deadline, tick_ns, &rest) + !!rest;
	tick = max(tick, next_tick(rig));
	return tick > div64_u64(HWTIMER_HORIZON - 1, tick_ns) ? U64_MAX : tick;
}

static void arm_due(struct probe *p, u64 deadline)
{
	p->due = due_tick(p->rig, deadline);
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm(p, deadline));
}

/*
 * The worker is on time at tick @start, then @by ticks late. For some rounds there are deadlines
 * before, at and after the boundary of each tick.
 */
static void held_off_by(struct rig *rig, const struct shape *s, u64 start, u64 by)
{
	unsigned int n = 3 * round_of(s) + 2, seen = 0, wrong = 0, i;
	u64 tick_ns = s->tick_ns, target = start + by, last = start + n + (tick_ns > 1);
	u64 tick, ticks, visits;
	struct queue_counts before, after;
	struct probe *p = make(rig, s, 3 * n);

	advance_to(rig, start * tick_ns);
	/* Around the boundary, unless each ns is a boundary. */
	for (i = 0; i < 3 * n; i++)
		arm_due(&p[i], (start + 1 + i / 3) * tick_ns + (tick_ns > 1 ? i % 3 : 1) - 1);
	advance_to(rig, start * tick_ns);
	KUNIT_ASSERT_EQ(rig->test, 0, rig->fired);
	before = counts(rig);

	/* At the beginning of a tick, within it, or at its end. */
	advance_slowly(rig, target * tick_ns + by % 3 * (tick_ns - 1) / 2, 5);
	after = counts(rig);
	for (i = 0; i < 3 * n; i++) {
		bool due = p[i].due <= target;

		seen += due;
		/* Armed in the order of their ticks. */
		/* With more levels the order within a tick is open. */
		wrong += p[i].fired != due ||
			 (due && (p[i].tick != p[i].due ||
				  (has_rounds(rig) && p[i].rank != i + 1)));
	}
	KUNIT_EXPECT_EQ_MSG(rig->test, 0, wrong, "from %llu by %llu", start, by);
	KUNIT_EXPECT_EQ_MSG(rig->test, seen, rig->fired, "from %llu by %llu", start, by);

	ticks = after.ticks - before.ticks;
	visits = after.visits - before.visits;
	KUNIT_EXPECT_EQ(rig->test, min_t(u64, by, last - start), ticks);
	/* Each timeout is visited once per round, and once per level that it cascades through. */
	if (!has_rounds(rig))
		KUNIT_EXPECT_LE_MSG(rig->test, visits, 3ULL * n * (rig->wheel.wheel.levels + 3),
				    "from %llu by %llu", start, by);

	/* The rest is on time. */
	for (tick = target + 1; tick <= last; tick++)
		advance_to(rig, tick * tick_ns);
	for (i = 0; i < 3 * n; i++)
		wrong += p[i].fired != 1 || (p[i].due > target && p[i].tick != p[i].due);
	KUNIT_EXPECT_EQ_MSG(rig->test, 0, wrong, "from %llu by %llu, then", start, by);
}

static void held_off(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 slots = s->slots, round = round_of(s);
	const u64 starts[] = { 0, slots - 1, round - 1, 2 * round + slots / 2 };
	const u64 bys[] = {
		1, 2, slots - 1, slots, slots + 1, round - 1, round, round + 1,
		round + slots, 2 * round - 1, 2 * round, 2 * round + 1, 7 * round + 3,
		1000 * round,
	};
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(starts); i++)
		for (k = 0; k < ARRAY_SIZE(bys); k++)
			if (bys[k])
				held_off_by(test->priv, s, starts[i], bys[k]);
}

/* Exactly the timeouts that are due have expired, once, each at its tick. */
static void expect_due(struct rig *rig, const struct probe *p, unsigned int n)
{
	u64 tick = next_tick(rig) - 1;
	unsigned int i;

	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_EQ_MSG(rig->test, p[i].due <= tick, p[i].fired,
				    "probe %u, due at tick %llu, at tick %llu", i, p[i].due, tick);
		if (p[i].fired)
			KUNIT_EXPECT_EQ(rig->test, p[i].due, p[i].tick);
	}
}

/* The worker sleeps at most until the next expiry, and not beyond the range of ktime_t. */
static void expect_sleep(struct rig *rig, const struct probe *p, unsigned int n)
{
	u64 until, first = U64_MAX;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!p[i].fired)
			first = min(first, p[i].due);
	/* First the worker sleeps lightly, as timeouts were armed, then soundly. */
	for (i = 0; i < 2; i++) {
		until = sleep_until(rig);
		queue_awake(&rig->wheel);
		KUNIT_EXPECT_GT(rig->test, until, rig->now);
		if (first != U64_MAX)
			KUNIT_EXPECT_LE(rig->test, until, first * rig->wheel.tick_ns);
		/* The expiry of an hrtimer, which adds the time at which the wheel began. */
		KUNIT_EXPECT_LE(rig->test, until, max(2 * (HWTIMER_HORIZON + 1),
						      rig->now + QUEUE_DRAIN_NS));
	}
}

/* A wheel of age @age, with deadlines around the end of the range. */
static void old(struct rig *rig, const struct shape *s, u64 age, bool touched)
{
	u64 last = div64_u64(HWTIMER_HORIZON - 1, s->tick_ns), end = last * s->tick_ns;
	const u64 deadlines[] = {
		0, age - 1, age, age + 1, age + s->tick_ns, end - s->tick_ns, end - 1, end,
		end + 1, HWTIMER_HORIZON - 2, HWTIMER_HORIZON - 1, HWTIMER_HORIZON,
		HWTIMER_HORIZON + 1, 1ULL << 61, 1ULL << 63, U64_MAX - 1, U64_MAX,
	};
	u64 nows[] = {
		end - s->tick_ns, end - 1, end, HWTIMER_HORIZON - 2, HWTIMER_HORIZON - 1,
		HWTIMER_HORIZON, HWTIMER_HORIZON + 1, HWTIMER_HORIZON + s->tick_ns, 1ULL << 62,
	};
	unsigned int n = ARRAY_SIZE(deadlines), i;
	struct probe *p = make(rig, s, n);

	advance_to(rig, age);
	for (i = 0; touched && i < n; i++)
		arm_due(&p[i], i % 2 ? U64_MAX : end + s->tick_ns);
	advance_to(rig, age);
	for (i = 0; i < n; i++) {
		if (touched)
			KUNIT_EXPECT_EQ(rig->test, 0, queue_touch(&p[i].t, deadlines[i]));
		else
			arm_due(&p[i], deadlines[i]);
		p[i].due = due_tick(rig, deadlines[i]);
		KUNIT_EXPECT_EQ(rig->test, min(deadlines[i], HWTIMER_HORIZON),
				queue_deadline(&p[i].t));
	}
	advance_to(rig, age);
	expect_due(rig, p, n);
	expect_sleep(rig, p, n);
	for (i = 0; i < ARRAY_SIZE(nows); i++) {
		if (nows[i] < rig->now)
			continue;
		advance_slowly(rig, nows[i], 3);
		expect_due(rig, p, n);
		expect_sleep(rig, p, n);
	}
	advance_to(rig, U64_MAX);
	expect_due(rig, p, n);
	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_EQ(rig->test, !p[i].fired, queue_pending(&p[i].t));
		KUNIT_EXPECT_EQ(rig->test, !p[i].fired, queue_cancel(&p[i].t));
	}
}

static void end_of_range(struct kunit *test)
{
	const struct shape *s = test->param_value;
	u64 end = div64_u64(HWTIMER_HORIZON - 1, s->tick_ns) * s->tick_ns;
	const u64 ages[] = {
		end - 2 * s->tick_ns, end - s->tick_ns, end - 1, end, HWTIMER_HORIZON - 2,
		HWTIMER_HORIZON - 1, HWTIMER_HORIZON, HWTIMER_HORIZON + 1,
		HWTIMER_HORIZON + 3 * s->tick_ns,
	};
	unsigned int i, touched;

	for (i = 0; i < ARRAY_SIZE(ages); i++)
		for (touched = 0; touched <= 1; touched++)
			old(test->priv, s, ages[i], touched);
}

/* Debug kernels take twenty times as long. */
#define MILLION		(IS_ENABLED(CONFIG_DEBUG_OBJECTS) ? 50000U : 1000000U)
#define CHANGES		1000U
#define BURST_TICK	100ULL

/* One callback in CHANGES changes later timeouts of the same tick, and arms its own again. */
static void burst_changes(struct probe *p)
{
	struct probe *next = p + CHANGES / 2;
	u64 tick_ns = p->rig->wheel.tick_ns;
	struct kunit *test = p->rig->test;

	if (p->fired > 1)
		return;
	KUNIT_EXPECT_TRUE(test, queue_cancel(&next[0].t));
	next[0].due = U64_MAX;
	KUNIT_EXPECT_EQ(test, 0, queue_touch(&next[1].t, (BURST_TICK + 3) * tick_ns));
	next[1].due = BURST_TICK + 3;
	/* A deadline in the past takes a request, and expires at the next tick. */
	KUNIT_EXPECT_EQ(test, 0, queue_touch(&next[2].t, 0));
	next[2].due = BURST_TICK + 1;
	/* Cancelled, and armed again for the tick whose timeouts are expiring. */
	KUNIT_EXPECT_TRUE(test, queue_cancel(&next[3].t));
	KUNIT_EXPECT_EQ(test, 0, arm(&next[3], BURST_TICK * tick_ns));
	KUNIT_EXPECT_EQ(test, 0, arm(p, (BURST_TICK + 2) * tick_ns));
	p->due = BURST_TICK + 2;
}

static const struct shape bursts[] = {
	{ "1 ms, 64 slots", NSEC_PER_MSEC, 64, 1 },
	{ "1 ms, 2 levels of 64", NSEC_PER_MSEC, 64, 2 },
};

KUNIT_ARRAY_PARAM_DESC(burst, bursts, desc);

/* A million expiries at one tick, in slices, in order; some change meanwhile. Promise 10. */
static void million(struct kunit *test)
{
	unsigned int slices = 0, long_slices = 0, wrong = 0, between = 0, fired, i;
	const struct shape *s = test->param_value;
	struct rig *rig = test->priv;
	struct probe *p;
	bool more;

	/* CHANGES more, some of which are armed between the slices */
	p = make(rig, s, MILLION + CHANGES);
	for (i = 0; i < MILLION; i++) {
		if (i % CHANGES == 0)
			p[i].then = burst_changes;
		arm_due(&p[i], BURST_TICK * s->tick_ns - i % s->tick_ns);
	}
	advance_to(rig, BURST_TICK * s->tick_ns - 1);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	rig->now = BURST_TICK * s->tick_ns;
	do {
		fired = rig->fired;
		more = queue_advance(&rig->wheel, rig->now, QUEUE_BUDGET);
		long_slices += rig->fired - fired > QUEUE_BUDGET;
		slices++;
		if (between < MILLION / 2000 && more)
			arm_due(&p[MILLION + between++], BURST_TICK * s->tick_ns);
	} while (more);
	KUNIT_EXPECT_EQ(test, 0, long_slices);
	/* The budget pays for each expiry and, with more levels, for the cascades before it. */
	KUNIT_EXPECT_GE(test, slices, MILLION / QUEUE_BUDGET);
	KUNIT_EXPECT_LE(test, slices, rig->wheel.wheel.levels * MILLION / QUEUE_BUDGET + 2);
	KUNIT_EXPECT_EQ(test, MILLION / 2000, between);
	for (i = 0; i < 4; i++)
		advance_to(rig, (BURST_TICK + i) * s->tick_ns);

	fired = 0;
	for (i = 0; i < MILLION + between; i++) {
		unsigned int times = p[i].due == U64_MAX ? 0 : 1;

		if (i < MILLION && i % CHANGES == 0)
			times = 2;
		wrong += p[i].fired != times || (times && p[i].tick != p[i].due);
		/* With one level, the timeouts that were not changed keep their order. */
		if (s->levels == 1 && times == 1 && p[i].due == BURST_TICK &&
		    i % CHANGES < CHANGES / 2) {
			wrong += p[i].rank <= fired;
			fired = p[i].rank;
		}
	}
	KUNIT_EXPECT_EQ(test, 0, wrong);
	KUNIT_EXPECT_EQ(test, MILLION + between, rig->fired);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
}

static struct kunit_case time_cases[] = {
	KUNIT_CASE_PARAM(held_off, shape_gen_params),
	KUNIT_CASE_PARAM(end_of_range, shape_gen_params),
	KUNIT_CASE_PARAM(million, burst_gen_params),
	{}
};

SUITE(time, "time", .init = rig_init, .exit = rig_exit);
