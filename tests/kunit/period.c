// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_period: hwtimer_schedule_forward() on real wheels.
 *
 * Made for User-Mode Linux with time-travel=inf-cpu, where sleeping takes no real time. What
 * follows from how late a callback is, is tested in period_decision.c.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/prandom.h>

#include "../../core/hwtimer_driver.h"
#include "../../core/hwtimer_period.h"
#include "hwtimer_kunit.h"

#define SEC	NSEC_PER_SEC
#define TICK	(10 * NSEC_PER_MSEC)

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

static int period_init(struct kunit *test)
{
	test->priv = NULL;
	return 0;
}

static struct kunit_case period_cases[] = {
	KUNIT_CASE_PARAM(forward_drift, drift_gen_params),
	KUNIT_CASE(forward_refuses),
	KUNIT_CASE(forward_never),
	{}
};

SUITE(period, "period", .init = period_init, .exit = unmake);
