// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_time_driver: a worker that is held off, clocks that jump, and the
 * end of the range, with real workers and the machine's clocks.
 *
 * Made for User-Mode Linux with time-travel=inf-cpu, where sleeping takes no real time and any
 * expiry after the boundary of its tick, plus a slack, is late.
 */
#include <kunit/test.h>
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "../../core/hwtimer_driver.h"
#include "hwtimer_kunit.h"
#include "modes.h"

#define MS		((u64)NSEC_PER_MSEC)
#define SEC		((u64)NSEC_PER_SEC)
#define HOUR		(3600 * SEC)

/* How much the machine may be late. */
#define SLACK		(100 * NSEC_PER_USEC)
#define HELD_SLACK	(4 * MS)
#define KINDS		3

/* Levels of the wheels, which run side by side. */
static const unsigned int levels[KINDS] = { 1, 3, 0 };

#define JOBS		200

/* A timeout that records its expiry, on the wheel's own time. */
struct job {
	struct hwtimer_timeout	t;
	u64			deadline;
	u64			at;
	unsigned int		fired;
	unsigned int		rank;
};

/* A periodic timeout. */
struct beat {
	struct hwtimer_timeout	t;
	struct hwtimer_period	period;
	struct kunit		*test;
	u64			first;
	u64			reached;
	unsigned int		fired;
};

/* A wheel of each kind. */
struct bench {
	struct bench_wheel {
		struct hwtimer_wheel	*wheel;
		struct job		jobs[JOBS];
		struct beat		beats[3];
		unsigned int		fired;
	} w[KINDS];
};

static void job_fired(struct hwtimer_timeout *t)
{
	struct job *j = container_of(t, struct job, t);
	struct hwtimer_driven *driven = to_driven(t->wheel);

	j->at = hwtimer_driven_now(driven);
	j->fired++;
	j->rank = driven->wheel.expired;
}

static void unmake(struct bench *bench)
{
	unsigned int k;

	for (k = 0; k < KINDS; k++) {
		if (IS_ERR_OR_NULL(bench->w[k].wheel))
			continue;
		hwtimer_wheel_stop(bench->w[k].wheel, NULL);
		hwtimer_wheel_destroy(bench->w[k].wheel);
	}
	memset(bench, 0, sizeof(*bench));
}

static struct bench *make(struct kunit *test, u64 tick_ns, unsigned int slots)
{
	const struct mode *mode = test->param_value;
	struct bench *bench = test->priv;
	unsigned int k, i;

	unmake(bench);
	for (k = 0; k < KINDS; k++) {
		struct hwtimer_wheel_params params = {
			.name = "time", .tick_ns = tick_ns, .slots = slots,
			.levels = levels[k], .clock = mode->clock,
		};

		bench->w[k].wheel = hwtimer_wheel_create(&params);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, bench->w[k].wheel);
		for (i = 0; i < JOBS; i++)
			hwtimer_init(&bench->w[k].jobs[i].t, bench->w[k].wheel, job_fired);
	}
	return bench;
}

static int bench_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct bench), GFP_KERNEL);
	return test->priv ? 0 : -ENOMEM;
}

static void bench_exit(struct kunit *test)
{
	if (test->priv)
		unmake(test->priv);
}

static u64 worker_now(const struct bench_wheel *b)
{
	return hwtimer_driven_now(to_driven(b->wheel));
}

/* @deadline is on the wheel's own time. */
static void arm_job(struct kunit *test, struct bench_wheel *b, unsigned int i, u64 deadline)
{
	b->jobs[i].deadline = deadline;
	KUNIT_EXPECT_EQ(test, 0, queue_arm(&b->jobs[i].t, deadline));
}

/*
 * Expired right after the first boundary at or after the deadline; or right after @held, unless
 * that is 0, if the worker was held off until then.
 */
static void expect_on_time(struct kunit *test, const struct bench_wheel *b, unsigned int i,
			   u64 held)
{
	const struct job *j = &b->jobs[i];
	u64 tick_ns = b->wheel->tick_ns, end;
	u64 due = div64_u64(j->deadline + tick_ns - 1, tick_ns) * tick_ns;

	/* The worker has to catch up with everything that became due meanwhile. */
	end = held ? held + HELD_SLACK : due + SLACK;
	due = max(due, held);
	KUNIT_EXPECT_EQ_MSG(test, 1, j->fired, "tick %llu, deadline %llu", tick_ns, j->deadline);
	KUNIT_EXPECT_GE_MSG(test, j->at, due, "tick %llu, deadline %llu", tick_ns, j->deadline);
	KUNIT_EXPECT_LT_MSG(test, j->at, end, "tick %llu, deadline %llu", tick_ns, j->deadline);
}

/*
 * Set the time of the wheels to @now. Their workers sleep, and nothing is due before. The case
 * cannot set the machine's clock, so it moves the time at which the wheels began.
 */
static void skip_to(struct bench *bench, u64 now)
{
	unsigned int k;

	for (k = 0; k < KINDS; k++) {
		struct hwtimer_driven *driven = to_driven(bench->w[k].wheel);

		driven->start_ns = hwtimer_clock_ns(driven) - now;
		driven->wheel.ops->kick(&driven->wheel);
	}
}

static const unsigned int away[] = { 1, 2, 3, 4, 5, 9, 17, 20 };

#define AWAY		(3 * ARRAY_SIZE(away))

/* Deadlines before, at and after boundaries, near and in later rounds. */
static void arm_away(struct kunit *test, struct bench_wheel *b, u64 begin)
{
	unsigned int i;

	for (i = 0; i < AWAY; i++)
		arm_job(test, b, i, (begin + away[i / 3]) * b->wheel->tick_ns + i % 3 - 1);
}

static void expect_away(struct kunit *test, const struct bench *bench)
{
	unsigned int j, k;

	for (k = 0; k < KINDS; k++)
		for (j = 0; j < AWAY; j++)
			expect_on_time(test, &bench->w[k], j, 0);
}

static void short_ticks(struct kunit *test)
{
	static const u64 ticks[] = {
		1, 1000, 65536, 100001, 999983, MS, 7 * MS + 1, 1ULL << 30,
	};
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		struct bench *bench = make(test, ticks[i], 4);

		for (k = 0; k < KINDS; k++) {
			u64 begin = div64_u64(worker_now(&bench->w[k]), ticks[i]) + 1;

			/* If a tick is shorter than arming takes, begin later. */
			if (ticks[i] < SLACK)
				begin += div64_u64(10 * SLACK, ticks[i]);
			arm_away(test, &bench->w[k], begin);
		}
		nap(23 * ticks[i] + 20 * SLACK);
		expect_away(test, bench);
	}
}

/* Up to an hour. A case must not take that long, not even in virtual time. */
static void long_ticks(struct kunit *test)
{
	static const u64 ticks[] = { 10 * SEC + 3, 1ULL << 36, HOUR - 1, HOUR };
	unsigned int i, k, tick;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		struct bench *bench = make(test, ticks[i], 4);

		skip_to(bench, 5 * ticks[i]);
		for (k = 0; k < KINDS; k++)
			arm_away(test, &bench->w[k], 7);
		for (tick = 8; tick <= 7 + 20 + 1; tick++) {
			skip_to(bench, tick * ticks[i] - MS);
			nap(2 * MS);
		}
		expect_away(test, bench);
	}
}

/* Keep the workers from running for @ns. Sets @until to the time of each wheel at the end. */
static void hold_off(struct bench *bench, u64 ns, u64 *until)
{
	u64 end = ktime_get_ns() + ns;
	unsigned int k;

	preempt_disable();
	/* In User-Mode Linux mdelay() makes time go on. */
	while (ktime_get_ns() < end)
		mdelay(1);
	for (k = 0; k < KINDS; k++)
		until[k] = worker_now(&bench->w[k]);
	preempt_enable();
}

#define HELD_TICK	(10 * MS)
#define HELD_SLOTS	8
#define HELD_PERIOD	(25 * MS)

static void beat_fired(struct hwtimer_timeout *t)
{
	struct beat *b = container_of(t, struct beat, t);
	u64 now = hwtimer_wheel_now(t->wheel);
	struct hwtimer_decision d = { };

	KUNIT_EXPECT_EQ(b->test, 0, hwtimer_schedule_forward(t, now, &b->period, &d));
	b->fired += d.fire;
	b->reached += d.fire + d.overruns;
	/* In phase, whatever was missed. */
	KUNIT_EXPECT_EQ(b->test, b->first + b->reached * HELD_PERIOD, hwtimer_deadline(t));
	KUNIT_EXPECT_GE(b->test, now, b->first + (b->reached - 1) * HELD_PERIOD);
}

/* Timeouts half a tick apart, and a periodic one of each policy. */
static void held_begin(struct kunit *test, struct bench_wheel *b)
{
	unsigned int j;

	for (j = 0; j < JOBS; j++)
		arm_job(test, b, j, 2 * HELD_TICK + j * HELD_TICK / 2);
	for (j = 0; j < ARRAY_SIZE(b->beats); j++) {
		struct beat *beat = &b->beats[j];

		beat->test = test;
		beat->period = (struct hwtimer_period){ .period_ns = HELD_PERIOD, .policy = j };
		beat->first = hwtimer_wheel_now(b->wheel) + HELD_PERIOD;
		hwtimer_init(&beat->t, b->wheel, beat_fired);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&beat->t, beat->first));
	}
}

/* The worker was held off from @began to @held. */
static void held_jobs(struct kunit *test, struct bench_wheel *b, u64 began, u64 held,
		      bool ordered)
{
	unsigned int j;

	for (j = 0; j < JOBS; j++) {
		u64 due = DIV_ROUND_UP_ULL(b->jobs[j].deadline, HELD_TICK);
		bool meanwhile = due * HELD_TICK > began && due * HELD_TICK <= held;

		expect_on_time(test, b, j, meanwhile ? held : 0);
		if (j && ordered)
			KUNIT_EXPECT_LT(test, b->jobs[j - 1].rank, b->jobs[j].rank);
	}
}

static void held_beats(struct kunit *test, struct bench_wheel *b, u64 now, bool missed)
{
	unsigned int j;

	for (j = 0; j < ARRAY_SIZE(b->beats); j++) {
		struct beat *beat = &b->beats[j];
		u64 reached = div64_u64(now - beat->first, HELD_PERIOD) + 1;

		/* The last deadline may not have expired yet. */
		KUNIT_EXPECT_GE(test, beat->reached, reached - 1);
		KUNIT_EXPECT_LE(test, beat->reached, reached);
		if (j == HWTIMER_PERIOD_MAKE_UP || !missed)
			KUNIT_EXPECT_EQ(test, beat->reached, (u64)beat->fired);
		else
			KUNIT_EXPECT_LT(test, beat->fired, beat->reached);
		KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&beat->t));
	}
}

/* Held off by some ticks, about a round, and many: all expire once, in order. */
static void worker_held_off(struct kunit *test)
{
	static const u64 holds[] = {
		1, HELD_SLOTS - 1, HELD_SLOTS, HELD_SLOTS + 1, 2 * HELD_SLOTS + 1, 190,
	};
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(holds); i++) {
		struct bench *bench = make(test, HELD_TICK, HELD_SLOTS);
		u64 began[KINDS], held[KINDS], now;

		for (k = 0; k < KINDS; k++)
			held_begin(test, &bench->w[k]);
		nap(5 * HELD_TICK + HELD_TICK / 4);
		for (k = 0; k < KINDS; k++)
			began[k] = worker_now(&bench->w[k]);
		hold_off(bench, holds[i] * HELD_TICK, held);
		nap(JOBS * HELD_TICK);
		now = hwtimer_wheel_now(bench->w[0].wheel);

		for (k = 0; k < KINDS; k++) {
			held_jobs(test, &bench->w[k], began[k], held[k],
				  levels[k] != 1 || holds[i] <= HELD_SLOTS);
			held_beats(test, &bench->w[k], now, holds[i] > 1);
		}
	}
}

/*
 * Wheels near the end of the range: deadlines that have a boundary expire there, later ones stay
 * pending, and the worker does not spin.
 */
static void age(struct kunit *test)
{
	static const u64 ticks[] = { 7 * MS, 64 * MS };
	unsigned int i, j, k;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		struct bench *bench = make(test, ticks[i], 4);
		u64 tick_ns = ticks[i], last = div64_u64(HWTIMER_HORIZON - 1, tick_ns);
		unsigned long wakeups;

		skip_to(bench, (last - 30) * tick_ns);
		for (k = 0; k < KINDS; k++) {
			for (j = 0; j < 25; j++)
				arm_job(test, &bench->w[k], j, (last - 25 + j) * tick_ns + j % 2);
			arm_job(test, &bench->w[k], 25, last * tick_ns + 1);
			arm_job(test, &bench->w[k], 26, HWTIMER_HORIZON - 1);
			arm_job(test, &bench->w[k], 27, HWTIMER_HORIZON);
			arm_job(test, &bench->w[k], 28, U64_MAX);
			arm_job(test, &bench->w[k], 29, last * tick_ns - SEC);
			KUNIT_EXPECT_EQ(test, 0, queue_touch(&bench->w[k].jobs[29].t,
							     last * tick_ns));
			bench->w[k].jobs[29].deadline = last * tick_ns;
		}
		nap(40 * tick_ns);
		wakeups = to_driven(bench->w[0].wheel)->monitor.wakeups;
		nap(10 * SEC);
		KUNIT_EXPECT_LE(test, to_driven(bench->w[0].wheel)->monitor.wakeups - wakeups,
				45UL);
		for (k = 0; k < KINDS; k++) {
			struct bench_wheel *b = &bench->w[k];

			for (j = 0; j < 25; j++)
				expect_on_time(test, b, j, 0);
			expect_on_time(test, b, 29, 0);
			/* Deadlines beyond the range, armed after its end. */
			arm_job(test, b, 30, HWTIMER_HORIZON - 1);
			arm_job(test, b, 31, worker_now(b) + SEC);
		}
		nap(3 * SEC);
		for (k = 0; k < KINDS; k++) {
			struct list_head pending, *pos;
			unsigned int n = 0;

			for (j = 0; j < 32; j++) {
				if (j < 25 || j == 29)
					continue;
				KUNIT_EXPECT_EQ(test, 0, bench->w[k].jobs[j].fired);
				KUNIT_EXPECT_TRUE(test,
						  hwtimer_is_pending(&bench->w[k].jobs[j].t));
			}
			KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(bench->w[k].wheel, &pending));
			list_for_each(pos, &pending)
				n++;
			KUNIT_EXPECT_EQ(test, 6, n);
		}
	}
}

static struct kunit_case driver_cases[] = {
	KUNIT_CASE_PARAM(short_ticks, mode_gen_params),
	KUNIT_CASE_PARAM(long_ticks, mode_gen_params),
	KUNIT_CASE_PARAM(worker_held_off, mode_gen_params),
	KUNIT_CASE_PARAM(age, mode_gen_params),
	{}
};

SUITE(driver, "time_driver", .suite_init = settle_timers, .init = bench_init, .exit = bench_exit);
