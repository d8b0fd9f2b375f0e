// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_period: hwtimer_schedule_forward() on real wheels.
 *
 * Made for User-Mode Linux with time-travel=inf-cpu, where the clock almost stands still while
 * anything runs: each read takes some 100 ns, as loops that wait for a time would not end
 * otherwise. A callback that sleeps until a time returns within SLACK. So the bounds are tested to
 * SLACK here, and to the ns in period_decision.c.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/sched.h>

#include "../../core/hwtimer_driver.h"
#include "../../hwtimer_period.h"
#include "hwtimer_kunit.h"

#define MS	NSEC_PER_MSEC
#define SEC	NSEC_PER_SEC
#define TICK	(10 * MS)
#define PERIOD	(100 * MS)
#define SLACK	(50 * NSEC_PER_USEC)

static const enum hwtimer_policy policies[] = {
	HWTIMER_PERIOD_ONCE, HWTIMER_PERIOD_SKIP, HWTIMER_PERIOD_MAKE_UP,
};

/* The wheel is the data of the case. */

static void unmake(struct kunit *test)
{
	if (test->priv)
		hwtimer_wheel_stop(test->priv, NULL);
	hwtimer_wheel_destroy(test->priv);
	test->priv = NULL;
}

static struct hwtimer_wheel *make_ticking(struct kunit *test, u64 tick_ns, unsigned long cap)
{
	struct hwtimer_wheel_params params = {
		.name = "period", .tick_ns = tick_ns, .slots = 64, .cap = cap,
	};

	unmake(test);
	test->priv = hwtimer_wheel_create(&params);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, test->priv);
	return test->priv;
}

static struct hwtimer_wheel *make(struct kunit *test, unsigned long cap)
{
	return make_ticking(test, TICK, cap);
}

/* The boundary of a tick, between @ticks and @ticks + 1 from now. */
static u64 boundary(const struct hwtimer_wheel *wheel, unsigned int ticks)
{
	u64 start = to_driven(wheel)->start_ns;

	return start + (div64_u64(ktime_get_ns() - start, TICK) + 1 + ticks) * TICK;
}

/* A timeout that re-arms itself. */
struct self {
	struct hwtimer_timeout	t;
	struct completion	over;
	struct rnd_state	rnd;
	u64			period;
	u64			due;	/* the next deadline */
	u64			n;	/* deadlines so far, met or missed */
	u64			fired;
	u64			until;	/* ends with so many deadlines */
	unsigned int		wrong;
};

static void self_fired(struct hwtimer_timeout *t)
{
	struct self *s = container_of(t, struct self, t);
	const struct hwtimer_period period = { s->period, .misfire_ns = 1 };
	struct hwtimer_decision d = { };
	u64 now;

	s->fired++;
	s->wrong += hwtimer_deadline(t) != s->due;
	s->wrong += hwtimer_wheel_now(t->wheel) < s->due;
	/* Some callbacks take from less than a period to several. */
	if (s->rnd.s1 && !(prandom_u32_state(&s->rnd) % 64))
		nap(prandom_u32_state(&s->rnd) % (5 * s->period));
	now = hwtimer_wheel_now(t->wheel);
	s->wrong += hwtimer_schedule_forward(t, now, &period, &d) != 0;
	s->wrong += !d.fire;
	s->n += 1 + d.overruns;
	s->due += (1 + d.overruns) * s->period;
	s->wrong += hwtimer_deadline(t) != s->due || d.next_ns != s->due;
	s->wrong += s->due <= now || s->due - s->period > now;
	if (s->n >= s->until) {
		hwtimer_cancel(t);
		complete(&s->over);
	}
}

/* short ticks, as a case may take 300 s of the guest's time */
#define SHORT_TICK	(200 * NSEC_PER_USEC)

/* a multiple of the tick, none, and shorter than a tick */
static const u64 drift_periods[] = { SHORT_TICK, 3 * SHORT_TICK + 12345, SHORT_TICK / 3 };
KUNIT_ARRAY_PARAM(drift, drift_periods, NULL);

/* After 100,000 periods the deadlines are exact to the ns, with late callbacks or without. */
static void forward_drift(struct kunit *test)
{
	u64 period = *(const u64 *)test->param_value, first;
	unsigned int late;

	for (late = 0; late < 2; late++) {
		struct hwtimer_wheel *wheel = make_ticking(test, SHORT_TICK, 0);
		struct self s = { .period = period, .until = 100000 };

		init_completion(&s.over);
		if (late)
			prandom_seed_state(&s.rnd, 42);
		hwtimer_init_on_stack(&s.t, wheel, self_fired);
		first = hwtimer_wheel_now(wheel) + 1234567;
		s.due = first;
		KUNIT_ASSERT_EQ(test, 0, hwtimer_schedule_at(&s.t, first));
		KUNIT_ASSERT_NE(test, 0UL, wait_for_completion_timeout(&s.over, 1000 * HZ));
		unmake(test);
		hwtimer_destroy_on_stack(&s.t);
		KUNIT_EXPECT_EQ(test, 0, s.wrong);
		KUNIT_EXPECT_EQ(test, first + s.n * period, s.due);
		KUNIT_EXPECT_GE(test, s.n, s.until);
		/* without delays of a period, no deadline is missed */
		if (!late && period > SHORT_TICK)
			KUNIT_EXPECT_EQ(test, s.n, s.fired);
		else if (late || period < SHORT_TICK)
			KUNIT_EXPECT_GT(test, s.n, s.fired);
	}
}

static void no_fn(struct hwtimer_timeout *t)
{
}

static void forward_refuses(struct kunit *test)
{
	static const struct hwtimer_period none = { 0 }, second = { SEC };
	struct hwtimer_wheel *wheel = make(test, 1);
	u64 now = hwtimer_wheel_now(wheel);
	struct hwtimer_timeout t, other;
	struct hwtimer_decision d;

	hwtimer_init_on_stack(&t, wheel, no_fn);
	hwtimer_init_on_stack(&other, wheel, no_fn);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&t, now + SEC));
	KUNIT_EXPECT_EQ(test, -EINVAL, hwtimer_schedule_forward(&t, now, &none, &d));
	KUNIT_EXPECT_EQ(test, -EBUSY, hwtimer_schedule_forward(&t, now + 5 * SEC, &second, &d));
	KUNIT_EXPECT_TRUE(test, hwtimer_is_pending(&t));
	KUNIT_EXPECT_EQ(test, now + SEC, hwtimer_deadline(&t));
	hwtimer_cancel(&t);
	KUNIT_EXPECT_EQ(test, -EINVAL, hwtimer_schedule_forward(&t, now, &none, NULL));
	KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&t));

	/* @now before the deadline, late by a period, and by more */
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_forward(&t, now, &second, &d));
	KUNIT_EXPECT_EQ(test, 0ULL, d.overruns);
	KUNIT_EXPECT_EQ(test, now + 2 * SEC, hwtimer_deadline(&t));
	hwtimer_cancel(&t);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_forward(&t, now + 3 * SEC, &second, &d));
	KUNIT_EXPECT_EQ(test, 0ULL, d.overruns);
	KUNIT_EXPECT_EQ(test, now + 3 * SEC, hwtimer_deadline(&t));
	hwtimer_cancel(&t);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_forward(&t, now + 4 * SEC + 1, &second, &d));
	KUNIT_EXPECT_EQ(test, 1ULL, d.overruns);
	KUNIT_EXPECT_EQ(test, now + 5 * SEC, hwtimer_deadline(&t));
	hwtimer_cancel(&t);

	/* with the cap reached, and on a stopped wheel */
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&other, SEC));
	KUNIT_EXPECT_EQ(test, -EAGAIN, hwtimer_schedule_forward(&t, now, &second, &d));
	KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&t));
	hwtimer_cancel(&other);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_schedule_forward(&t, now, &second, &d));
	unmake(test);
	hwtimer_destroy_on_stack(&t);
	hwtimer_destroy_on_stack(&other);
}

/* A deadline beyond the range is never, and remains so. */
static void forward_never(struct kunit *test)
{
	static const u64 periods[] = { 29, 1, 1, U64_MAX };
	struct hwtimer_wheel *wheel = make(test, 0);
	u64 horizon = to_driven(wheel)->start_ns + HWTIMER_HORIZON;
	struct hwtimer_timeout t;
	unsigned int i;

	hwtimer_init_on_stack(&t, wheel, no_fn);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&t, horizon - 30));
	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		const struct hwtimer_period period = { periods[i] };
		struct hwtimer_decision d;

		if (periods[i] == U64_MAX)
			KUNIT_EXPECT_EQ(test, 1, hwtimer_schedule(&t, SEC));
		hwtimer_cancel(&t);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_forward(&t, 0, &period, &d));
		KUNIT_EXPECT_EQ(test, 0ULL, d.overruns);
		KUNIT_EXPECT_EQ(test, i ? U64_MAX : horizon - 1, hwtimer_deadline(&t));
	}
	nap(SEC);
	KUNIT_EXPECT_TRUE(test, hwtimer_is_pending(&t));
	unmake(test);
	hwtimer_destroy_on_stack(&t);
}

/* A periodic timeout that records what its deadlines come to. */

#define NOTES	16

struct beat {
	struct hwtimer_timeout	t;
	struct hwtimer_period	period;
	u64			skipped;	/* deadlines since the last one that counted */
	unsigned int		fired;
	struct {
		u64		at;
		u64		overruns;
		u64		next;
	} notes[NOTES];
	u64			until;	/* the first callback returns then */
};

static void beat_fired(struct hwtimer_timeout *t)
{
	struct beat *b = container_of(t, struct beat, t);
	u64 now = hwtimer_wheel_now(t->wheel);
	struct hwtimer_decision d;
	unsigned int n;

	if (hwtimer_schedule_forward(t, now, &b->period, &d))
		return;
	b->skipped += d.overruns;
	if (!d.fire)
		return;
	n = b->fired++;
	if (n < NOTES) {
		b->notes[n].at = now;
		b->notes[n].overruns = b->skipped;
		b->notes[n].next = d.next_ns;
	}
	b->skipped = 0;
	if (!n && b->until)
		nap_until(b->until);
}

static struct beat *a_beat(struct kunit *test, struct hwtimer_wheel *wheel, u64 misfire,
			   enum hwtimer_policy policy)
{
	struct beat *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, b);
	b->period = (struct hwtimer_period){ PERIOD, misfire, policy };
	hwtimer_init(&b->t, wheel, beat_fired);
	return b;
}

/* Without lateness, all policies fire in step. */
static void steady(struct kunit *test)
{
	unsigned int i, k;
	u64 first, now;

	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		struct hwtimer_wheel *wheel = make(test, 0);
		struct beat *b = a_beat(test, wheel, TICK + MS, policies[i]);

		/* not on a boundary */
		now = hwtimer_wheel_now(wheel);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&b->t, 77 * MS + 1));
		first = hwtimer_deadline(&b->t);
		KUNIT_EXPECT_GE(test, first, now + 77 * MS + 1);
		KUNIT_EXPECT_LT(test, first, now + 77 * MS + 1 + SLACK);
		nap_until(first + 500 * PERIOD - MS);
		KUNIT_EXPECT_EQ(test, 500, b->fired);
		KUNIT_EXPECT_EQ(test, first + 500 * PERIOD, hwtimer_deadline(&b->t));
		for (k = 0; k < NOTES; k++) {
			KUNIT_EXPECT_EQ(test, 0ULL, b->notes[k].overruns);
			KUNIT_EXPECT_GE(test, b->notes[k].at, first + k * PERIOD);
			KUNIT_EXPECT_LT(test, b->notes[k].at,
					first + k * PERIOD + TICK + SLACK);
		}
		KUNIT_EXPECT_EQ(test, 1UL, hwtimer_wheel_pending(wheel));
		KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&b->t));
		KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
		nap(10 * PERIOD);
		KUNIT_EXPECT_EQ(test, 500, b->fired);
		unmake(test);
	}
}

/*
 * Callback 0, for deadline 0, returns @until ns after that deadline. Then @n callbacks follow, each
 * with its overruns and the number of the deadline after it.
 */
struct late {
	const char		*name;
	enum hwtimer_policy	policy;
	u64			misfire;
	u64			until;
	unsigned int		n;
	struct {
		unsigned int overruns, next;
	} expected[5];
};

static const struct late lates[] = {
	/* late by one period: still on time */
	{ "once, 1", HWTIMER_PERIOD_ONCE, 0, PERIOD, 2, { { 0, 2 }, { 0, 3 } } },
	{ "skip, 1", HWTIMER_PERIOD_SKIP, 0, PERIOD, 2, { { 0, 2 }, { 0, 3 } } },
	{ "make up, 1", HWTIMER_PERIOD_MAKE_UP, 0, PERIOD, 2, { { 0, 2 }, { 0, 3 } } },
	/* late by 3.5 periods: deadlines 1, 2 and 3 have passed */
	{ "once, 3.5", HWTIMER_PERIOD_ONCE, 0, 7 * PERIOD / 2, 3,
	  { { 2, 4 }, { 0, 5 }, { 0, 6 } } },
	{ "skip, 3.5", HWTIMER_PERIOD_SKIP, 0, 7 * PERIOD / 2, 3,
	  { { 3, 5 }, { 0, 6 }, { 0, 7 } } },
	{ "make up, 3.5", HWTIMER_PERIOD_MAKE_UP, 0, 7 * PERIOD / 2, 5,
	  { { 0, 2 }, { 0, 3 }, { 0, 4 }, { 0, 5 }, { 0, 6 } } },
	/* near the bound of one period, for deadline 1 */
	{ "once, bound", HWTIMER_PERIOD_ONCE, 0, 2 * PERIOD - SLACK, 3,
	  { { 0, 2 }, { 0, 3 }, { 0, 4 } } },
	{ "once, bound + 1", HWTIMER_PERIOD_ONCE, 0, 2 * PERIOD + 1, 2, { { 1, 3 }, { 0, 4 } } },
	{ "skip, bound", HWTIMER_PERIOD_SKIP, 0, 2 * PERIOD - SLACK, 2, { { 0, 2 }, { 0, 3 } } },
	{ "skip, bound + 1", HWTIMER_PERIOD_SKIP, 0, 2 * PERIOD + 1, 2, { { 2, 4 }, { 0, 5 } } },
	{ "make up, bound + 1", HWTIMER_PERIOD_MAKE_UP, 0, 2 * PERIOD + 1, 3,
	  { { 0, 2 }, { 0, 3 }, { 0, 4 } } },
	/* near a bound shorter than the period */
	{ "once, 30 ms", HWTIMER_PERIOD_ONCE, 30 * MS, PERIOD + 30 * MS - SLACK, 2,
	  { { 0, 2 }, { 0, 3 } } },
	{ "once, 30 ms + 1", HWTIMER_PERIOD_ONCE, 30 * MS, PERIOD + 30 * MS + 1, 2,
	  { { 0, 2 }, { 0, 3 } } },
	{ "skip, 30 ms", HWTIMER_PERIOD_SKIP, 30 * MS, PERIOD + 30 * MS - SLACK, 2,
	  { { 0, 2 }, { 0, 3 } } },
	{ "skip, 30 ms + 1", HWTIMER_PERIOD_SKIP, 30 * MS, PERIOD + 30 * MS + 1, 2,
	  { { 1, 3 }, { 0, 4 } } },
	/* near a bound longer than the period */
	{ "once, 230 ms", HWTIMER_PERIOD_ONCE, 230 * MS, 330 * MS - SLACK, 5,
	  { { 0, 2 }, { 0, 3 }, { 0, 4 }, { 0, 5 }, { 0, 6 } } },
	{ "once, 230 ms + 1", HWTIMER_PERIOD_ONCE, 230 * MS, 330 * MS + 1, 2,
	  { { 2, 4 }, { 0, 5 } } },
};

KUNIT_ARRAY_PARAM_DESC(late, lates, name);

static void late(struct kunit *test)
{
	const struct late *late = test->param_value;
	struct hwtimer_wheel *wheel = make(test, 0);
	struct beat *b = a_beat(test, wheel, late->misfire, late->policy);
	u64 first = boundary(wheel, 5), fires = 0, tick = 0;
	unsigned int i;

	b->until = first + late->until;
	KUNIT_ASSERT_EQ(test, 0, hwtimer_schedule_at(&b->t, first));
	nap_until(first + 20 * PERIOD);
	KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&b->t));
	KUNIT_ASSERT_GT(test, b->fired, late->n);
	KUNIT_EXPECT_GE(test, b->notes[0].at, first);
	KUNIT_EXPECT_LT(test, b->notes[0].at, first + SLACK);
	KUNIT_EXPECT_EQ(test, 0ULL, b->notes[0].overruns);
	KUNIT_EXPECT_EQ(test, first + PERIOD, b->notes[0].next);
	for (i = 0; i < late->n; i++) {
		u64 next = first + late->expected[i].next * PERIOD;

		KUNIT_EXPECT_EQ_MSG(test, late->expected[i].overruns,
				    b->notes[i + 1].overruns, "callback %u", i + 1);
		KUNIT_EXPECT_EQ_MSG(test, next, b->notes[i + 1].next, "callback %u", i + 1);
		/* Never early: the deadline before the next one has passed. */
		KUNIT_EXPECT_GE(test, b->notes[i + 1].at, next - PERIOD -
				b->notes[i + 1].overruns * PERIOD);
		KUNIT_EXPECT_GE(test, b->notes[i + 1].at, b->until);
	}
	/* The first callback after the late one comes at once, unless skipped. */
	if (late->policy != HWTIMER_PERIOD_SKIP)
		KUNIT_EXPECT_LT(test, b->notes[1].at, b->until + SLACK);
	for (i = 0; i < b->fired && i < NOTES; i++) {
		fires += 1 + b->notes[i].overruns;
		KUNIT_EXPECT_EQ(test, first + fires * PERIOD, b->notes[i].next);
		/* at most one callback per tick */
		if (i)
			KUNIT_EXPECT_GT(test, div64_u64(b->notes[i].at - first, TICK), tick);
		tick = div64_u64(b->notes[i].at - first, TICK);
	}
	unmake(test);
}

/* Periods count from a first deadline in the past. */
static void first_in_the_past(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		struct hwtimer_wheel *wheel = make(test, 0);
		struct beat *b = a_beat(test, wheel, 0, policies[i]);
		u64 first;

		nap(SEC);
		first = boundary(wheel, 0) - 5 * PERIOD - PERIOD / 2;
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&b->t, first));
		nap(PERIOD);
		KUNIT_ASSERT_GE(test, b->fired, 1);
		switch (policies[i]) {
		case HWTIMER_PERIOD_ONCE:
			KUNIT_EXPECT_EQ(test, 5ULL, b->notes[0].overruns);
			KUNIT_EXPECT_EQ(test, first + 6 * PERIOD, b->notes[0].next);
			break;
		case HWTIMER_PERIOD_SKIP:
			KUNIT_EXPECT_EQ(test, 6ULL, b->notes[0].overruns);
			KUNIT_EXPECT_EQ(test, first + 7 * PERIOD, b->notes[0].next);
			break;
		case HWTIMER_PERIOD_MAKE_UP:
			KUNIT_EXPECT_GE(test, b->fired, 6);
			KUNIT_EXPECT_EQ(test, first + PERIOD, b->notes[0].next);
			KUNIT_EXPECT_EQ(test, first + 6 * PERIOD, b->notes[5].next);
			break;
		}
		unmake(test);
	}
}

static int period_init(struct kunit *test)
{
	test->priv = NULL;
	return 0;
}

static struct kunit_case period_cases[] = {
	KUNIT_CASE_PARAM(forward_drift, drift_gen_params),
	KUNIT_CASE(forward_refuses),
	KUNIT_CASE(forward_never),
	KUNIT_CASE(steady),
	KUNIT_CASE_PARAM(late, late_gen_params),
	KUNIT_CASE(first_in_the_past),
	{}
};

SUITE(period, "period", .init = period_init, .exit = unmake);
