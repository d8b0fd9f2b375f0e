// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite of the API for other modules, with both drivers and both of
 * the machine's clocks.
 *
 * Made for User-Mode Linux with time-travel=inf-cpu, where the clock stands still
 * while anything runs, and sleeping takes no time.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timer.h>

#include "../../hwtimer_compat.h"
#include "../../hwtimer_internal.h"
#include "../../hwtimer_step.h"
#include "hwtimer_kunit.h"
#include "kunit_wheels.h"
#include "modes.h"

#define MS	NSEC_PER_MSEC
#define SEC	NSEC_PER_SEC
#define TICK	(10 * MS)
#define SLOTS	64
/* What the machine may add to a tick. */
#define SLACK	MS

/* A timeout that takes notes. */
struct job {
	struct hwtimer_timeout	t;
	struct kunit		*test;
	unsigned int		fired;
	unsigned int		released;
	/* when it fired last */
	u64			at;
	/* who called it when it was released */
	struct task_struct	*by;
	/* what the callback does, and with what */
	void			(*then)(struct job *j);
	struct job		*other;
	s64			delay;
	int			ret;
	bool			over;
};

/* For what is of the kthread's, and for callbacks that sleep. */
static const struct mode thread_modes[] = {
	{ "kthread, monotonic" },
	{ "kthread, boottime", .clock = HWTIMER_CLOCK_BOOTTIME },
};

static const struct mode softirq_modes[] = {
	{ "hrtimer, monotonic", HWTIMER_DRIVER_HRTIMER },
	{ "hrtimer, boottime", HWTIMER_DRIVER_HRTIMER, HWTIMER_CLOCK_BOOTTIME },
};

KUNIT_ARRAY_PARAM(thread_mode, thread_modes, mode_desc);
KUNIT_ARRAY_PARAM(softirq_mode, softirq_modes, mode_desc);

static struct hwtimer_wheel *make(struct kunit *test, u64 tick_ns, unsigned int slots,
				  unsigned long cap)
{
	const struct mode *mode = test->param_value;
	struct hwtimer_wheel_params params = {
		.name = "kunit", .tick_ns = tick_ns, .slots = slots, .cap = cap,
		.driver = mode->driver, .clock = mode->clock,
	};

	return keep(test, hwtimer_wheel_create(&params));
}

static struct hwtimer_wheel *a_wheel(struct kunit *test)
{
	return make(test, TICK, SLOTS, 0);
}

static int bench_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct bench), GFP_KERNEL);
	return test->priv ? 0 : -ENOMEM;
}

static void bench_exit(struct kunit *test)
{
	struct bench *bench = test->priv;
	unsigned int i;

	for (i = 0; bench && i < MAX_WHEELS; i++) {
		if (!bench->wheels[i])
			continue;
		hwtimer_wheel_stop(bench->wheels[i], NULL);
		hwtimer_wheel_destroy(bench->wheels[i]);
	}
}

static void job_fired(struct hwtimer_timeout *t)
{
	struct job *j = container_of(t, struct job, t);

	j->at = hwtimer_wheel_now(t->wheel);
	KUNIT_EXPECT_EQ(j->test, to_worker(t->wheel)->driver->ops.softirq, !!in_softirq());
	j->fired++;
	if (j->then)
		j->then(j);
}

static void job_released(struct hwtimer_timeout *t)
{
	container_of(t, struct job, t)->released++;
}

static struct job *jobs(struct kunit *test, struct hwtimer_wheel *wheel, unsigned int n)
{
	struct job *j = kunit_kzalloc(test, n * sizeof(*j), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, j);
	for (i = 0; i < n; i++) {
		j[i].test = test;
		if (wheel)
			hwtimer_init(&j[i].t, wheel, job_fired);
	}
	return j;
}

static struct wheel_counts counts(struct hwtimer_wheel *wheel)
{
	struct wheel_counts c;

	wheel_count(wheel, &c);
	return c;
}

static unsigned long wakeups(struct hwtimer_wheel *wheel)
{
	return to_worker(wheel)->monitor.wakeups;
}

/* Fired @n times, the last time at the first boundary at or after @deadline. */
static void expect_on_time(struct job *j, unsigned int n, u64 deadline)
{
	KUNIT_EXPECT_EQ(j->test, n, j->fired);
	KUNIT_EXPECT_GE(j->test, j->at, deadline);
	KUNIT_EXPECT_LT(j->test, j->at, deadline + j->t.wheel->tick_ns + SLACK);
}

/* A thread beside that of the case. */
struct helper {
	struct task_struct	*task;
	struct completion	done;
	void			(*run)(struct helper *h);
	struct hwtimer_wheel	*wheel;
	struct job		*jobs;
	unsigned int		n;
	struct list_head	list;
	unsigned long		armed;
	unsigned long		cancelled;
	u32			seed;
	int			ret;
};

static int helper_fn(void *data)
{
	struct helper *h = data;

	h->run(h);
	/* The module may go as soon as the case does. */
	kthread_complete_and_exit(&h->done, 0);
}

static void help(struct kunit *test, struct helper *h, void (*run)(struct helper *h))
{
	h->run = run;
	init_completion(&h->done);
	h->task = kthread_run(helper_fn, h, "hwtimer_kunit");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, h->task);
}

static bool helped(struct helper *h)
{
	return wait_for_completion_timeout(&h->done, 20 * HZ);
}

/* A wheel without a timeout: its worker stays asleep. Promise 6. */
static void lazy_worker(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);

	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 0UL, wakeups(wheel));
	KUNIT_EXPECT_EQ(test, (int)WHEEL_INIT, wheel->state);
	KUNIT_EXPECT_FALSE(test, hwtimer_cancel(&j->t));
	KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_touch(&j->t, SEC));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 0UL, wakeups(wheel));

	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, SEC));
	KUNIT_EXPECT_EQ(test, (int)WHEEL_STARTED, wheel->state);
	nap(MS);
	KUNIT_EXPECT_EQ(test, 1UL, wakeups(wheel));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);

	/* idle again, for as long as it takes */
	nap(SEC);
	KUNIT_EXPECT_LE(test, wakeups(wheel), 10UL);
	KUNIT_EXPECT_EQ(test, 1UL, counts(wheel).kicks);
}

static void start(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);

	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_start(wheel));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_start(wheel));
	KUNIT_EXPECT_EQ(test, (int)WHEEL_STARTED, wheel->state);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 0UL, wakeups(wheel));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_wheel_start(wheel));
}

static const s64 delays[] = {
	1, MS, TICK - 1, TICK, TICK + 1, 2 * TICK, 35 * MS, SLOTS * TICK - 1, SLOTS * TICK,
	SLOTS * TICK + 1, 3 * SLOTS * TICK + 17, 20 * SLOTS * TICK,
};

/* All at once, on a wheel of so many slots; an odd one, too, and short rounds. Promise 1. */
static void on_time(struct kunit *test)
{
	static const struct {
		u64		tick;
		unsigned int	slots;
	} shapes[] = {
		{ TICK, SLOTS }, { TICK, 1 }, { TICK, 4 }, { TICK, 4096 },
		{ 7 * MS + 1, 8 }, { 2 * MS, 16 }, { 300 * MS, 16 },
	};
	unsigned int i, k;

	for (k = 0; k < ARRAY_SIZE(shapes); k++) {
		struct hwtimer_wheel *wheel = make(test, shapes[k].tick, shapes[k].slots, 0);
		struct job *j = jobs(test, wheel, ARRAY_SIZE(delays));
		u64 now;

		/* not on a boundary */
		nap(123456);
		now = hwtimer_wheel_now(wheel);
		for (i = 0; i < ARRAY_SIZE(delays); i++) {
			KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[i].t, delays[i]));
			KUNIT_EXPECT_TRUE(test, hwtimer_is_pending(&j[i].t));
			KUNIT_EXPECT_GE(test, hwtimer_deadline(&j[i].t), now + delays[i]);
			KUNIT_EXPECT_LE(test, hwtimer_deadline(&j[i].t),
					now + delays[i] + SLACK);
		}
		KUNIT_EXPECT_EQ(test, ARRAY_SIZE(delays), hwtimer_wheel_pending(wheel));
		nap(15 * SEC);
		for (i = 0; i < ARRAY_SIZE(delays); i++) {
			expect_on_time(&j[i], 1, now + delays[i]);
			KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&j[i].t));
		}
		KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
	}
}

/* One after the other, each armed while the worker sleeps. */
static void on_time_each(struct kunit *test)
{
	static const unsigned int slots[] = { 1, 8, SLOTS, 1024 };
	unsigned int i, k;

	for (k = 0; k < ARRAY_SIZE(slots); k++) {
		struct hwtimer_wheel *wheel = make(test, TICK, slots[k], 0);
		struct job *j = jobs(test, wheel, 2);
		u64 now;

		/* with something far away, and without */
		for (i = 0; i < 2 * ARRAY_SIZE(delays); i++) {
			s64 delay = delays[i / 2];

			if (i % 2)
				hwtimer_schedule(&j[1].t, 1000 * SEC);
			else
				hwtimer_cancel(&j[1].t);
			nap(1234567);
			now = hwtimer_wheel_now(wheel);
			KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, delay));
			nap(delay + 2 * TICK);
			expect_on_time(&j[0], i + 1, now + delay);
		}
		KUNIT_EXPECT_EQ(test, 0, j[1].fired);
	}
}

static void absolute(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 4);
	u64 now;

	nap(SEC + 1);
	now = hwtimer_wheel_now(wheel);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[0].t, now + 55 * MS));
	KUNIT_EXPECT_EQ(test, now + 55 * MS, hwtimer_deadline(&j[0].t));
	/* past, before the wheel, at the beginning of time */
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[1].t, now - 1));
	KUNIT_EXPECT_EQ(test, now - 1, hwtimer_deadline(&j[1].t));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[2].t, now - 2 * SEC));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[3].t, 0));
	KUNIT_EXPECT_EQ(test, 0, j[1].fired + j[2].fired + j[3].fired);
	nap(SEC);
	expect_on_time(&j[0], 1, now + 55 * MS);
	expect_on_time(&j[1], 1, now);
	expect_on_time(&j[2], 1, now);
	expect_on_time(&j[3], 1, now);
}

static void no_delay(struct kunit *test)
{
	static const s64 none[] = { 0, -1, -5000 * SEC, S64_MIN };
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, ARRAY_SIZE(none));
	unsigned int i;
	u64 now;

	nap(SEC);
	now = hwtimer_wheel_now(wheel);
	for (i = 0; i < ARRAY_SIZE(none); i++)
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[i].t, none[i]));
	nap(SEC);
	for (i = 0; i < ARRAY_SIZE(none); i++)
		expect_on_time(&j[i], 1, now);
}

static void forever(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 5);
	unsigned int i;
	u64 now = hwtimer_wheel_now(wheel);

	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, S64_MAX));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[1].t, HWTIMER_FOREVER));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[2].t, U64_MAX));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[3].t, now + HWTIMER_FOREVER));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[4].t, SEC));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_touch(&j[4].t, S64_MAX));
	nap(100 * SEC);
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ(test, 0, j[i].fired);
		KUNIT_EXPECT_EQ(test, U64_MAX, hwtimer_deadline(&j[i].t));
		KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&j[i].t));
	}
}

static void touch(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 3);
	u64 now;

	KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_touch(&j[0].t, SEC));
	KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_touch_at(&j[0].t, 0));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, SEC));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_schedule(&j[0].t, 2 * SEC));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[1].t, 100 * SEC));
	nap(500 * MS);
	/* later; and earlier, which has to wake the worker */
	now = hwtimer_wheel_now(wheel);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_touch(&j[0].t, 3 * SEC));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_touch_at(&j[1].t, now + 25 * MS));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 0, j[0].fired);
	expect_on_time(&j[1], 1, now + 25 * MS);
	KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_touch(&j[1].t, 0));
	nap(2 * SEC);
	expect_on_time(&j[0], 1, now + 3 * SEC);
	hwtimer_schedule(&j[2].t, SEC);
	hwtimer_cancel(&j[2].t);
	KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_touch(&j[2].t, SEC));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 0, j[2].fired);
}

static void cancel(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);

	KUNIT_EXPECT_FALSE(test, hwtimer_cancel(&j[0].t));
	hwtimer_schedule(&j[0].t, SEC);
	hwtimer_schedule(&j[1].t, SEC);
	KUNIT_EXPECT_EQ(test, 2UL, hwtimer_wheel_pending(wheel));
	KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&j[0].t));
	KUNIT_EXPECT_EQ(test, 1UL, hwtimer_wheel_pending(wheel));
	KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&j[0].t));
	nap(500 * MS);
	KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&j[1].t));
	KUNIT_EXPECT_FALSE(test, hwtimer_cancel(&j[1].t));
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 0, j[0].fired + j[1].fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, SEC));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_FALSE(test, hwtimer_cancel(&j[0].t));
}

/* Of what is idle, queued, filed, cancelled, expired. Then the memory is ours. */
static void cancel_sync(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 5);
	unsigned int i;

	hwtimer_schedule(&j[2].t, 50 * SEC);
	hwtimer_schedule(&j[3].t, 50 * SEC);
	hwtimer_schedule(&j[4].t, 0);
	nap(SEC);
	hwtimer_schedule(&j[1].t, 50 * SEC);
	hwtimer_cancel(&j[3].t);
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ_MSG(test, i == 1 || i == 2, hwtimer_cancel_sync(&j[i].t),
				    "%u", i);
		KUNIT_EXPECT_FALSE(test, wheel_holds(&j[i].t));
		KUNIT_EXPECT_EQ(test, i == 4, j[i].fired);
		memset(&j[i], 0x6b, sizeof(j[i]));
	}
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
	KUNIT_EXPECT_EQ(test, 0UL, wheel->filed);
	nap(100 * SEC);
}

static void then_nap(struct job *j)
{
	nap(j->delay);
	j->over = true;
}

/* Promise 4. */
static void cancel_sync_waits(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);

	j[0].then = then_nap;
	j[0].delay = 500 * MS;
	hwtimer_schedule(&j[0].t, 0);
	hwtimer_schedule(&j[1].t, 20 * MS);
	nap(100 * MS);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_FALSE(test, j[0].over);
	/* only the answer does not have to wait */
	KUNIT_EXPECT_FALSE(test, hwtimer_cancel(&j[0].t));
	KUNIT_EXPECT_FALSE(test, j[0].over);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_cancel_sync(&j[0].t));
	KUNIT_EXPECT_TRUE(test, j[0].over);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&j[0].t));
	nap(100 * MS);
	KUNIT_EXPECT_EQ(test, 1, j[1].fired);
}

#ifdef CONFIG_UML	/* where the module has a hook between its steps */
/*
 * Somebody looks whether the wheel holds a timeout. At one of his steps its callback begins,
 * or has before the first; at another one, or the same, it arms it again and returns.
 */
static struct {
	struct task_struct	*task;
	struct job		*j;
	unsigned int		step;
	unsigned int		begins;
	unsigned int		ends;
	bool			go;
} looker;

static void then_rearm_later(struct job *j)
{
	while (!READ_ONCE(looker.go))
		nap(MS);
	hwtimer_schedule(&j->t, 50 * SEC);
}

static void looker_step(void)
{
	struct job *j = looker.j;

	if (current != looker.task)
		return;
	looker.step++;
	while (looker.step == looker.begins && !READ_ONCE(j->fired))
		nap(MS);
	if (looker.step != looker.ends)
		return;
	WRITE_ONCE(looker.go, true);
	while (READ_ONCE(j->t.wheel->running) == &j->t)
		nap(MS);
}

static void look_while_rearming(struct kunit *test, unsigned int begins, unsigned int ends)
{
	struct job *j = jobs(test, a_wheel(test), 1);

	j->then = then_rearm_later;
	looker.j = j;
	looker.step = 0;
	looker.begins = begins;
	looker.ends = ends;
	looker.go = false;
	hwtimer_schedule(&j->t, 0);
	while (!begins && !READ_ONCE(j->fired))
		nap(MS);

	looker.task = current;
	WRITE_ONCE(hwtimer_step_hook, looker_step);
	KUNIT_EXPECT_TRUE_MSG(test, wheel_holds(&j->t), "%u to %u", begins, ends);
	WRITE_ONCE(hwtimer_step_hook, NULL);

	WRITE_ONCE(looker.go, true);
	hwtimer_cancel_sync(&j->t);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&j->t));
}

static void holds_rearming(struct kunit *test)
{
	unsigned int begins, ends;

	for (begins = 0; begins <= 2; begins++)
		for (ends = max(begins, 1U); ends <= 2; ends++)
			look_while_rearming(test, begins, ends);
}
#endif

static void then_cancel_sync(struct job *j)
{
	struct job *whom = j->other ?: j;

	j->ret = hwtimer_cancel_sync(&whom->t);
	if (whom != j)
		KUNIT_EXPECT_FALSE(j->test, wheel_holds(&whom->t));
}

static void cancel_sync_self(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);

	j->then = then_cancel_sync;
	hwtimer_schedule(&j->t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);
	KUNIT_EXPECT_EQ(test, -EDEADLK, j->ret);
	/* it goes on */
	j->then = NULL;
	hwtimer_schedule(&j->t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 2, j->fired);
}

static void then_rearm_cancel_sync(struct job *j)
{
	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_schedule(&j->t, 0));
	j->ret = hwtimer_cancel_sync(&j->t);
	KUNIT_EXPECT_FALSE(j->test, hwtimer_is_pending(&j->t));
}

/* It had armed itself again: that is ended nevertheless. */
static void cancel_sync_self_rearmed(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);

	j->then = then_rearm_cancel_sync;
	hwtimer_schedule(&j->t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);
	KUNIT_EXPECT_EQ(test, -EDEADLK, j->ret);
	KUNIT_EXPECT_EQ(test, 1UL, counts(wheel).cancelled);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_cancel_sync(&j->t));
}

static void then_arm_cancel_sync(struct job *j)
{
	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_schedule(&j->other->t, SEC));
	then_cancel_sync(j);
}

/* From another's callback: idle, far, due in the same tick, and just armed. */
static void cancel_sync_other(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 8);
	unsigned int i;
	u64 now;

	hwtimer_schedule(&j[5].t, 50 * SEC);
	nap(SEC);
	now = hwtimer_wheel_now(wheel);
	for (i = 0; i < 4; i++) {
		j[i].then = i == 3 ? then_arm_cancel_sync : then_cancel_sync;
		j[i].other = &j[4 + i];
		hwtimer_schedule_at(&j[i].t, now + SEC);
	}
	hwtimer_schedule_at(&j[6].t, now + SEC);
	nap(3 * SEC);
	for (i = 0; i < 4; i++) {
		expect_on_time(&j[i], 1, now + SEC);
		KUNIT_EXPECT_EQ_MSG(test, i != 0, j[i].ret, "%u", i);
		KUNIT_EXPECT_EQ(test, 0, j[4 + i].fired);
	}
	KUNIT_EXPECT_EQ(test, 0UL, wheel->filed);
}

static void shutdown_sync(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);

	hwtimer_schedule(&j[0].t, SEC);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_shutdown_sync(&j[0].t));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_shutdown_sync(&j[0].t));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_shutdown_sync(&j[1].t));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_schedule(&j[0].t, 0));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_touch(&j[0].t, 0));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_schedule(&j[1].t, 0));
	KUNIT_EXPECT_FALSE(test, hwtimer_cancel(&j[0].t));
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 0, j[0].fired + j[1].fired);
	hwtimer_init(&j[0].t, wheel, job_fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, 0));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
}

static void then_rearm(struct job *j)
{
	j->ret = hwtimer_schedule(&j->t, j->delay);
}

/* Over and over with no delay: once per tick, until it is ended. */
static void rearming(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);
	unsigned int fired;

	j[0].then = then_rearm;
	j[1].then = then_rearm;
	hwtimer_schedule(&j[0].t, 0);
	hwtimer_schedule(&j[1].t, 0);
	nap(100 * TICK);
	KUNIT_EXPECT_GE(test, j[0].fired, 99);
	KUNIT_EXPECT_LE(test, j[0].fired, 101);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_cancel_sync(&j[0].t));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_shutdown_sync(&j[1].t));
	fired = j[0].fired;
	KUNIT_EXPECT_EQ(test, fired, j[1].fired);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, fired, j[0].fired);
	KUNIT_EXPECT_EQ(test, fired, j[1].fired);
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
}

static void then_nap_rearm(struct job *j)
{
	then_nap(j);
	then_rearm(j);
}

/* Ended while its callback runs, which then arms it again. */
static void rearming_running(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);
	unsigned int i;

	for (i = 0; i < 2; i++) {
		j[i].then = then_nap_rearm;
		j[i].delay = 200 * MS;
		hwtimer_schedule(&j[i].t, 0);
		nap(100 * MS);
		KUNIT_EXPECT_EQ(test, 1, j[i].fired);
		KUNIT_EXPECT_FALSE(test, j[i].over);
		if (i)
			KUNIT_EXPECT_EQ(test, 0, hwtimer_shutdown_sync(&j[i].t));
		else
			KUNIT_EXPECT_EQ(test, 1, hwtimer_cancel_sync(&j[i].t));
		KUNIT_EXPECT_TRUE(test, j[i].over);
		KUNIT_EXPECT_EQ(test, i ? -ESHUTDOWN : 0, j[i].ret);
		KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&j[i].t));
		nap(SEC);
		KUNIT_EXPECT_EQ(test, 1, j[i].fired);
	}
}

/* As before, and somebody had armed it for the first time while it ran. */
static void rearming_twice(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);

	j->then = then_nap_rearm;
	j->delay = 200 * MS;
	hwtimer_schedule(&j->t, 0);
	nap(100 * MS);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, SEC));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_cancel_sync(&j->t));
	KUNIT_EXPECT_EQ(test, 0, j->ret);
	KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&j->t));
	KUNIT_EXPECT_FALSE(test, wheel_holds(&j->t));
	KUNIT_EXPECT_EQ(test, 2UL, counts(wheel).cancelled);
	nap(3 * SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);
}

/* Longer than a tick, and then due at once: it would go on for ever. */
static void then_nap_rearm_past(struct job *j)
{
	j->over = false;
	then_nap(j);
	j->ret = hwtimer_schedule_at(&j->t, 0);
}

/* Whoever ends it waits for the callback that runs, and for no other one. Promise 13. */
static void rearming_past(struct kunit *test)
{
	struct job *j = jobs(test, a_wheel(test), 1);
	unsigned int fired;

	j->then = then_nap_rearm_past;
	j->delay = 3 * TICK;
	hwtimer_schedule(&j->t, 0);
	nap(10 * TICK);
	KUNIT_EXPECT_FALSE(test, j->over);
	fired = j->fired;
	KUNIT_EXPECT_LT(test, 1, fired);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_cancel_sync(&j->t));
	KUNIT_EXPECT_EQ(test, fired, j->fired);
	KUNIT_EXPECT_TRUE(test, j->over);
	KUNIT_EXPECT_EQ(test, 0, j->ret);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, fired, j->fired);
	KUNIT_EXPECT_EQ(test, 1UL, counts(j->t.wheel).cancelled);
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(j->t.wheel));
}

static void count_sleeps(struct helper *h)
{
	unsigned long before = current->nvcsw;

	h->ret = hwtimer_cancel_sync(&h->jobs->t);
	h->n = current->nvcsw - before;
}

/* Who waits for one timeout is not woken for the callbacks of others. */
static void waits_for_one(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 41);
	struct helper h = { .jobs = &j[40] };
	unsigned int i;

	hwtimer_schedule(&j[40].t, 50 * SEC);
	nap(SEC);
	for (i = 0; i < 40; i++) {
		j[i].then = then_nap;
		j[i].delay = MS;
		hwtimer_schedule(&j[i].t, 0);
	}
	while (!READ_ONCE(j[0].fired))
		nap(MS / 10);
	help(test, &h, count_sleeps);
	KUNIT_ASSERT_TRUE(test, helped(&h));
	KUNIT_EXPECT_EQ(test, 1, h.ret);
	KUNIT_EXPECT_EQ(test, 1, j[39].fired);
	KUNIT_EXPECT_LE(test, h.n, 3);
}

/*
 * While the worker is held up, somebody waits for a timeout that is filed; and before the worker
 * comes to it, somebody else does @meanwhile.
 */
static void wait_meanwhile(struct kunit *test, void (*meanwhile)(struct job *j), int ended)
{
	struct job *j = jobs(test, a_wheel(test), 2);
	struct helper h = { .jobs = &j[1] };
	u64 began;

	hwtimer_schedule(&j[1].t, 10 * SEC);
	nap(SEC);
	j[0].then = then_nap;
	j[0].delay = 10 * TICK;
	hwtimer_schedule(&j[0].t, 0);
	nap(3 * TICK);
	help(test, &h, count_sleeps);
	nap(TICK);
	meanwhile(&j[1]);
	began = hwtimer_wheel_now(j->t.wheel);
	KUNIT_ASSERT_TRUE(test, helped(&h));
	KUNIT_EXPECT_LT(test, hwtimer_wheel_now(j->t.wheel) - began, SEC);
	KUNIT_EXPECT_EQ(test, ended, h.ret);
	KUNIT_EXPECT_EQ(test, 0, j[1].fired);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&j[1].t));
}

static void release_job(struct job *j)
{
	hwtimer_release(&j->t, job_released);
}

static void waits_while_released(struct kunit *test)
{
	wait_meanwhile(test, release_job, 1);
}

static void arm_job(struct job *j)
{
	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_schedule(&j->t, 10 * SEC));
}

static void arm_job_for_ever(struct job *j)
{
	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_schedule_at(&j->t, U64_MAX));
}

static void waits_while_armed(struct kunit *test)
{
	wait_meanwhile(test, arm_job, 1);
	wait_meanwhile(test, arm_job_for_ever, 1);
}

static void then_nap_release(struct job *j)
{
	then_nap(j);
	release_job(j);
}

/* Its callback releases it, while somebody waits for the callback. */
static void waits_release_self(struct kunit *test)
{
	struct job *j = jobs(test, a_wheel(test), 1);
	struct helper h = { .jobs = j };

	j->then = then_nap_release;
	j->delay = 10 * TICK;
	hwtimer_schedule(&j->t, 0);
	nap(5 * TICK);
	help(test, &h, count_sleeps);
	KUNIT_ASSERT_TRUE(test, helped(&h));
	KUNIT_EXPECT_EQ(test, 1, j->fired);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&j->t));
	hwtimer_wheel_barrier(j->t.wheel);
	KUNIT_EXPECT_EQ(test, 1, j->released);
}

static void then_nap_cancel_sync(struct job *j)
{
	then_nap(j);
	j->ret = hwtimer_cancel_sync(&j->other->t);
}

/* A callback does not wait for what was released: that is called when it has returned. */
static void cancel_sync_released(struct kunit *test)
{
	struct job *j = jobs(test, a_wheel(test), 2);

	hwtimer_schedule(&j[1].t, 10 * SEC);
	nap(SEC);
	j[0].then = then_nap_cancel_sync;
	j[0].other = &j[1];
	j[0].delay = 10 * TICK;
	j[0].ret = 1;
	hwtimer_schedule(&j[0].t, 0);
	nap(3 * TICK);
	release_job(&j[1]);
	nap(20 * TICK);
	KUNIT_EXPECT_EQ(test, 0, j[0].ret);
	KUNIT_EXPECT_EQ(test, 1, j[1].released);
}

static void then_init_nap(struct job *j)
{
	hwtimer_init(&j->t, j->t.wheel, job_fired);
	then_nap(j);
	/* It is known not to be waited for. */
	if (j->other)
		j->ret = hwtimer_cancel_sync(&j->t);
}

/* It is initialised by its own callback, which others wait for nevertheless. */
static void init_self(struct kunit *test)
{
	struct job *j = jobs(test, a_wheel(test), 2);
	unsigned int i;

	j[1].other = &j[1];
	for (i = 0; i < 2; i++) {
		j[i].then = then_init_nap;
		j[i].delay = 10 * TICK;
		j[i].ret = 1;
		hwtimer_schedule(&j[i].t, 0);
		nap(5 * TICK);
		KUNIT_EXPECT_EQ(test, 1, j[i].fired);
		KUNIT_EXPECT_FALSE(test, j[i].over);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_cancel_sync(&j[i].t));
		KUNIT_EXPECT_TRUE(test, j[i].over);
		KUNIT_EXPECT_FALSE(test, wheel_holds(&j[i].t));
	}
	KUNIT_EXPECT_EQ(test, 1, j[0].ret);
	KUNIT_EXPECT_EQ(test, 0, j[1].ret);
}

static void then_arm_past(struct job *j)
{
	unsigned long kicks = counts(j->t.wheel).kicks;

	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_schedule_at(&j->other->t, 0));
	KUNIT_EXPECT_EQ(j->test, kicks, counts(j->t.wheel).kicks);
}

/* In a callback the worker is awake, and needs no kick. */
static void no_kick_in_callback(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 3);
	u64 now;

	hwtimer_schedule(&j[2].t, 100 * SEC);
	nap(SEC);
	now = hwtimer_wheel_now(wheel);
	j[0].then = then_arm_past;
	j[0].other = &j[1];
	hwtimer_schedule(&j[0].t, SEC);
	nap(2 * SEC);
	expect_on_time(&j[0], 1, now + SEC);
	KUNIT_EXPECT_GE(test, j[1].at, j[0].at);
	KUNIT_EXPECT_LT(test, j[1].at, j[0].at + TICK + SLACK);
}

static void release(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 4);
	unsigned int i;

	hwtimer_schedule(&j[1].t, SEC);
	hwtimer_schedule(&j[2].t, 0);
	nap(500 * MS);
	hwtimer_schedule(&j[3].t, 50 * SEC);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, i % 2 == 1, hwtimer_release(&j[i].t, job_released));
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_schedule(&j[i].t, 0));
	}
	/* soon, not only when a tick comes that has something due */
	nap(MS);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ_MSG(test, 1, j[i].released, "%u", i);
		memset(&j[i].t, 0x6b, sizeof(j[i].t));
	}
	nap(100 * SEC);
	KUNIT_EXPECT_EQ(test, 0, j[1].fired + j[3].fired);
	KUNIT_EXPECT_EQ(test, 1, j[2].fired);

	j = jobs(test, wheel, 1);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	KUNIT_EXPECT_FALSE(test, hwtimer_release(&j->t, job_released));
	KUNIT_EXPECT_EQ(test, 1, j->released);
}

/* Not before the callback is over. Promise 4. */
static void release_running(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);

	j->then = then_nap;
	j->delay = 500 * MS;
	hwtimer_schedule(&j->t, 0);
	nap(100 * MS);
	KUNIT_EXPECT_FALSE(test, hwtimer_release(&j->t, job_released));
	nap(300 * MS);
	KUNIT_EXPECT_FALSE(test, j->over);
	KUNIT_EXPECT_EQ(test, 0, j->released);
	nap(200 * MS);
	KUNIT_EXPECT_TRUE(test, j->over);
	KUNIT_EXPECT_EQ(test, 1, j->released);
}

static void then_release_cancel_sync(struct job *j)
{
	KUNIT_EXPECT_FALSE(j->test, hwtimer_release(&j->t, job_released));
	KUNIT_EXPECT_EQ(j->test, 1, hwtimer_cancel_sync(&j->other->t));
	/* so its memory still is its own */
	KUNIT_EXPECT_EQ(j->test, 0, j->released);
}

/* The usual end of a connection, from its own callback; it has another timeout. */
static void release_self(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);

	j[0].then = then_release_cancel_sync;
	j[0].other = &j[1];
	hwtimer_schedule(&j[0].t, 0);
	hwtimer_schedule(&j[1].t, SEC);
	nap(100 * MS);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_EQ(test, 1, j[0].released);
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 1, j[0].released);
	KUNIT_EXPECT_EQ(test, 0, j[1].fired);
}

struct mortal {
	struct hwtimer_timeout	t;
	unsigned int		*freed;
};

static void mortal_free(struct hwtimer_timeout *t)
{
	struct mortal *m = container_of(t, struct mortal, t);

	++*m->freed;
	memset(m, 0x6b, sizeof(*m));
	kfree(m);
}

static void mortal_release(struct hwtimer_timeout *t)
{
	hwtimer_release(t, mortal_free);
}

static void frees_itself(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	unsigned int freed = 0, i;

	for (i = 0; i < 400; i++) {
		struct mortal *m = kmalloc(sizeof(*m), GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, m);
		m->freed = &freed;
		hwtimer_init(&m->t, wheel, i % 2 ? mortal_free : mortal_release);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&m->t, (i % 7) * TICK));
		if (i % 4 == 3)
			hwtimer_release(&m->t, mortal_free);
		if (i % 50 == 0)
			nap(TICK / 2);
	}
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 400, freed);
	KUNIT_EXPECT_EQ(test, 300UL, counts(wheel).expired);
	KUNIT_EXPECT_EQ(test, 100UL, counts(wheel).cancelled);
}

static void stop(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 10), *back;
	unsigned int i, n = 0, seen = 0;
	struct list_head pending;

	for (i = 0; i < 8; i++)
		hwtimer_schedule(&j[i].t, (i + 1) * SEC);
	nap(2 * SEC + 500 * MS);
	hwtimer_cancel(&j[7].t);
	hwtimer_schedule(&j[8].t, 0);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &pending));
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
	list_for_each_entry(back, &pending, t.node) {
		n++;
		seen |= 1U << (back - j);
	}
	/* 2 to 6; and 8, unless it has just fired */
	KUNIT_EXPECT_EQ(test, 0x7cU, seen & ~0x100U);
	KUNIT_EXPECT_EQ(test, 5U + !j[8].fired, n);
	KUNIT_EXPECT_EQ(test, !j[8].fired, !!(seen & 0x100));
	KUNIT_EXPECT_EQ(test, 2, j[0].fired + j[1].fired);

	for (i = 0; i < 10; i++) {
		KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&j[i].t));
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_schedule(&j[i].t, 0));
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_touch(&j[i].t, 0));
		KUNIT_EXPECT_EQ(test, 0, hwtimer_cancel_sync(&j[i].t));
	}
	nap(20 * SEC);
	KUNIT_EXPECT_EQ(test, 2 + !!j[8].fired,
			j[0].fired + j[1].fired + j[2].fired + j[7].fired + j[8].fired);
	/* a second time: nothing comes, and the list is made empty */
	pending.next = NULL;
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &pending));
	KUNIT_EXPECT_TRUE(test, list_empty(&pending));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
}

/* A wheel that never ran, and one that sleeps for ever. */
static void stop_asleep(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct list_head pending;
	struct job *j;

	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &pending));
	KUNIT_EXPECT_TRUE(test, list_empty(&pending));
	wheel = a_wheel(test);
	j = jobs(test, wheel, 1);
	hwtimer_schedule(&j->t, 0);
	nap(10 * SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &pending));
	KUNIT_EXPECT_TRUE(test, list_empty(&pending));
}

static void then_stop(struct job *j)
{
	struct list_head pending = {};

	j->ret = hwtimer_wheel_stop(j->t.wheel, &pending);
	KUNIT_EXPECT_TRUE(j->test, list_empty(&pending));
}

/* Promise 8. */
static void stop_from_callback(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);

	j[0].then = then_stop;
	hwtimer_schedule(&j[0].t, 0);
	hwtimer_schedule(&j[1].t, SEC);
	nap(500 * MS);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_EQ(test, -EDEADLK, j[0].ret);
	/* which has changed nothing */
	KUNIT_EXPECT_EQ(test, (int)WHEEL_STARTED, wheel->state);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, 10 * SEC));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[1].fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
}

/* Of another wheel it may. */
static void then_stop_other(struct job *j)
{
	struct list_head pending;

	j->ret = hwtimer_wheel_stop(j->other->t.wheel, &pending);
	KUNIT_EXPECT_PTR_EQ(j->test, pending.next, &j->other->t.node);
}

static void stop_other_from_callback(struct kunit *test)
{
	struct job *j = jobs(test, a_wheel(test), 1);

	j->then = then_stop_other;
	j->ret = -1;
	j->other = jobs(test, a_wheel(test), 1);
	hwtimer_schedule(&j->other->t, 50 * SEC);
	hwtimer_schedule(&j->t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);
	KUNIT_EXPECT_EQ(test, 0, j->ret);
}

static void stop_and_count(struct helper *h)
{
	struct list_head *pos;

	h->ret = hwtimer_wheel_stop(h->wheel, &h->list);
	/* whoever gets the list: by now everything has ended */
	KUNIT_EXPECT_TRUE(h->jobs->test, h->jobs->over);
	KUNIT_EXPECT_EQ(h->jobs->test, 0UL, hwtimer_wheel_pending(h->wheel));
	list_for_each(pos, &h->list)
		h->n++;
}

/* Two at a time, both waiting for a callback: one gets the list. Promise 8. */
static void stop_twice(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 6);
	struct helper h[2] = {};
	unsigned int i;

	j[0].then = then_nap_rearm;
	j[0].delay = SEC;
	for (i = 0; i < 6; i++)
		hwtimer_schedule(&j[i].t, i * 50 * SEC);
	nap(500 * MS);
	for (i = 0; i < 2; i++) {
		h[i].wheel = wheel;
		h[i].jobs = j;
		help(test, &h[i], stop_and_count);
	}
	nap(100 * MS);
	KUNIT_EXPECT_FALSE(test, j[0].over);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_schedule(&j[1].t, 0));
	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_TRUE(test, helped(&h[i]));
		KUNIT_EXPECT_EQ(test, 0, h[i].ret);
	}
	KUNIT_EXPECT_EQ(test, 5, h[0].n + h[1].n);
	KUNIT_EXPECT_EQ(test, 0, h[0].n * h[1].n);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, j[0].ret);
}

static void released_nap(struct hwtimer_timeout *t)
{
	nap(SEC);
}

static void released_cancel_sync(struct hwtimer_timeout *t)
{
	struct job *j = container_of(t, struct job, t);

	j->by = current;
	j->ret = hwtimer_cancel_sync(&j->other->t);
	j->over = true;
	j->released++;
}

/* Stop, and give up if a callback in it waits for what only stop could do. */
static void stop_by_helper(struct kunit *test, struct helper *h)
{
	bool hangs;

	help(test, h, stop_and_count);
	hangs = !helped(h);
	KUNIT_EXPECT_FALSE_MSG(test, hangs, "stop waits for itself");
	if (hangs) {
		/* Help it out. */
		wheel_drain_all(h->wheel);
		KUNIT_ASSERT_TRUE(test, helped(h));
	}
}

/*
 * What is released by a stop, in the place of the worker, may wait for another timeout as
 * it may in the worker. The last one released is called first and takes long. When it is
 * over, the worker's budget ends before it comes to the first one, and it has been stopped.
 */
static void stop_releases(struct kunit *test)
{
	enum { PLENTY = WHEEL_BUDGET + 1, N = PLENTY + 2 };
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, N);
	struct helper h = { .wheel = wheel, .jobs = j };
	unsigned int i;

	j[0].other = &j[1];
	hwtimer_schedule(&j[0].t, 50 * SEC);
	hwtimer_schedule(&j[1].t, 50 * SEC);
	nap(500 * MS);
	/* All of them before the worker looks. */
	preempt_disable();
	KUNIT_EXPECT_TRUE(test, hwtimer_release(&j[0].t, released_cancel_sync));
	for (i = 2; i < PLENTY + 1; i++)
		hwtimer_release(&j[i].t, job_released);
	hwtimer_release(&j[i].t, released_nap);
	preempt_enable();
	nap(500 * MS);
	stop_by_helper(test, &h);
	KUNIT_EXPECT_EQ(test, 1, j[0].released);
	KUNIT_EXPECT_PTR_EQ(test, h.task, j[0].by);
	KUNIT_EXPECT_EQ(test, 1, j[0].ret);
	KUNIT_EXPECT_EQ(test, 0, h.n);
}

static void produce(struct helper *h)
{
	struct rnd_state rnd;
	unsigned int i;
	int ret = 0;

	prandom_seed_state(&rnd, h->seed);
	for (;;) {
		u32 r = prandom_u32_state(&rnd);
		struct job *j = &h->jobs[r % h->n];
		s64 delay = prandom_u32_state(&rnd) % (100 * MS);

		switch ((r >> 16) % 8) {
		case 0 ... 3:
			ret = hwtimer_schedule(&j->t, delay);
			h->armed += !ret;
			break;
		case 4 ... 5:
			ret = hwtimer_touch(&j->t, delay);
			break;
		case 6:
			h->cancelled += hwtimer_cancel(&j->t);
			break;
		case 7:
			if ((r >> 24) % 8 == 0)
				h->cancelled += hwtimer_cancel_sync(&j->t);
			break;
		}
		if (ret == -ESHUTDOWN)
			break;
		if ((r >> 20) % 8 == 0)
			nap(r >> 12);
	}
	/* nothing comes after it */
	for (i = 0; i < h->n; i++)
		h->armed += !hwtimer_schedule(&h->jobs[i].t, 0);
}

/* Two producers and a stop: each arming is accounted for. Promise 9. */
static void books(struct kunit *test)
{
	unsigned int round, i, k;

	for (round = 0; round < 40; round++) {
		struct hwtimer_wheel *wheel = make(test, MS, 32, round % 2 ? 30 : 0);
		unsigned long armed = 0, ended = 0;
		struct helper h[2] = {};
		struct list_head pending, *pos;
		struct job *j[2];

		for (k = 0; k < 2; k++) {
			j[k] = jobs(test, wheel, 40);
			h[k].wheel = wheel;
			h[k].jobs = j[k];
			h[k].n = 40;
			h[k].seed = 2 * round + k;
			help(test, &h[k], produce);
		}
		nap((100 + 7 * round) * MS + 1000 * round);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &pending));
		for (k = 0; k < 2; k++)
			KUNIT_ASSERT_TRUE(test, helped(&h[k]));
		for (k = 0; k < 2; k++) {
			armed += h[k].armed;
			ended += h[k].cancelled;
			for (i = 0; i < 40; i++)
				ended += j[k][i].fired;
		}
		list_for_each(pos, &pending)
			ended++;
		KUNIT_EXPECT_GT(test, armed, 100UL);
		KUNIT_EXPECT_EQ(test, armed, ended);
		KUNIT_EXPECT_EQ(test, armed, counts(wheel).armed);
		KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
		unmake(test, wheel);
	}
}

static const struct create_param {
	const char			*desc;
	struct hwtimer_wheel_params	params;
	int				ret;
} create_params[] = {
#define GOOD .name = "w", .tick_ns = TICK, .slots = SLOTS
	{ "good", { GOOD } },
	{ "name of 31", { .name = "1234567890123456789012345678901",
			  .tick_ns = TICK, .slots = 1 } },
	{ "name of 32", { .name = "12345678901234567890123456789012",
			  .tick_ns = TICK, .slots = 1 }, -EINVAL },
	{ "name of 1", { .name = ".x", .tick_ns = TICK, .slots = 1 } },
	{ "no name", { .tick_ns = TICK, .slots = SLOTS }, -EINVAL },
	{ "empty name", { .name = "", .tick_ns = TICK, .slots = SLOTS }, -EINVAL },
	{ "name with slash", { .name = "a/b", .tick_ns = TICK, .slots = 1 }, -EINVAL },
	{ "name .", { .name = ".", .tick_ns = TICK, .slots = 1 }, -EINVAL },
	{ "name ..", { .name = "..", .tick_ns = TICK, .slots = 1 }, -EINVAL },
	{ "tick 0", { .name = "w", .slots = SLOTS }, -EINVAL },
	{ "tick too long", { .name = "w", .tick_ns = HWTIMER_FOREVER / SLOTS + 1,
			     .slots = SLOTS }, -EINVAL },
	{ "longest tick", { .name = "w", .tick_ns = HWTIMER_FOREVER / SLOTS,
			    .slots = SLOTS } },
	{ "slots 0", { .name = "w", .tick_ns = TICK }, -EINVAL },
	{ "too many slots", { .name = "w", .tick_ns = 1,
			      .slots = HWTIMER_MAX_SLOTS + 1 }, -EINVAL },
	{ "most slots", { .name = "w", .tick_ns = 1, .slots = HWTIMER_MAX_SLOTS }, -ENOMEM },
	{ "accounted", { GOOD, .flags = HWTIMER_WHEEL_ACCOUNT } },
	{ "unknown flag", { GOOD, .flags = 1U << 8 }, -EINVAL },
	{ "unknown high flag", { GOOD, .flags = 1U << 31 }, -EINVAL },
	{ "nice -20", { GOOD, .nice = -20 } },
	{ "nice 19", { GOOD, .nice = 19 } },
	{ "nice -21", { GOOD, .nice = -21 }, -EINVAL },
	{ "nice 20", { GOOD, .nice = 20 }, -EINVAL },
	{ "FIFO", { GOOD, .sched = HWTIMER_SCHED_FIFO } },
	{ "FIFO, low", { GOOD, .sched = HWTIMER_SCHED_FIFO_LOW } },
	{ "FIFO and nice", { GOOD, .sched = HWTIMER_SCHED_FIFO, .nice = 1 }, -EINVAL },
	{ "FIFO, low, and nice", { GOOD, .sched = HWTIMER_SCHED_FIFO_LOW, .nice = -1 },
	  -EINVAL },
	{ "unknown class", { GOOD, .sched = HWTIMER_SCHED_FIFO + 1 }, -EINVAL },
	{ "negative class", { GOOD, .sched = -1 }, -EINVAL },
	{ "boottime", { GOOD, .clock = HWTIMER_CLOCK_BOOTTIME } },
	{ "hrtimer", { GOOD, .driver = HWTIMER_DRIVER_HRTIMER } },
	{ "hrtimer, boottime", { GOOD, .driver = HWTIMER_DRIVER_HRTIMER,
				 .clock = HWTIMER_CLOCK_BOOTTIME } },
	{ "hrtimer and nice", { GOOD, .driver = HWTIMER_DRIVER_HRTIMER, .nice = 1 }, -EINVAL },
	{ "hrtimer and FIFO", { GOOD, .driver = HWTIMER_DRIVER_HRTIMER,
				.sched = HWTIMER_SCHED_FIFO }, -EINVAL },
	{ "hrtimer and unknown class", { GOOD, .driver = HWTIMER_DRIVER_HRTIMER,
					 .sched = -1 }, -EINVAL },
	{ "hrtimer and CPUs", { GOOD, .driver = HWTIMER_DRIVER_HRTIMER,
				.cpus = cpu_possible_mask }, -EINVAL },
	{ "unknown driver", { GOOD, .driver = HWTIMER_DRIVER_HRTIMER + 1 }, -EINVAL },
	{ "negative driver", { GOOD, .driver = -1 }, -EINVAL },
	{ "unknown clock", { GOOD, .clock = HWTIMER_CLOCK_BOOTTIME + 1 }, -EINVAL },
	{ "negative clock", { GOOD, .clock = -1 }, -EINVAL },
	{ "all CPUs", { GOOD, .cpus = cpu_possible_mask } },
	{ "no CPU", { GOOD, .cpus = cpu_none_mask }, -EINVAL },
#undef GOOD
};

static void create_desc(const struct create_param *param, char *desc)
{
	strscpy(desc, param->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(create, create_params, create_desc);

/* Promise 11. */
static void create(struct kunit *test)
{
	const struct create_param *param = test->param_value;
	struct hwtimer_wheel *wheel = hwtimer_wheel_create(&param->params);
	struct job *j;

	if (param->ret) {
		KUNIT_EXPECT_PTR_EQ(test, wheel, ERR_PTR(param->ret));
		if (!IS_ERR(wheel))
			keep(test, wheel);
		return;
	}
	keep(test, wheel);
	KUNIT_EXPECT_EQ(test, param->params.tick_ns, hwtimer_wheel_tick_ns(wheel));
	KUNIT_EXPECT_EQ(test, param->params.slots, hwtimer_wheel_slots(wheel));
	KUNIT_EXPECT_STREQ(test, param->params.name, to_worker(wheel)->name);
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
	j = jobs(test, wheel, 1);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, 0));
	nap(2 * TICK);
	if (param->params.tick_ns == TICK)
		KUNIT_EXPECT_EQ(test, 1, j->fired);
}

static void slots_round_up(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1, hwtimer_wheel_slots(make(test, TICK, 1, 0)));
	KUNIT_EXPECT_EQ(test, 4, hwtimer_wheel_slots(make(test, TICK, 3, 0)));
	KUNIT_EXPECT_EQ(test, 1024, hwtimer_wheel_slots(make(test, TICK, 1000, 0)));
	KUNIT_EXPECT_EQ(test, 1024, hwtimer_wheel_slots(make(test, TICK, 1024, 0)));
}

static void same_name(struct kunit *test)
{
	static const char *const names[] = { "kunit", "kunit.2", "kunit.3", "kunit.4" };
	static const char *const others[] = { "kunit.7", "kunit.4294967295", "kunit.x", "kun" };
	struct hwtimer_wheel_params params = { .tick_ns = TICK, .slots = SLOTS };
	struct hwtimer_wheel *wheels[ARRAY_SIZE(names)];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		wheels[i] = a_wheel(test);
		KUNIT_EXPECT_STREQ(test, to_worker(wheels[i])->name, names[i]);
	}
	KUNIT_EXPECT_EQ(test, 0, strncmp(to_worker(wheels[0])->task->comm, "hwtimer/kunit", 13));
	/* never one that is in use */
	unmake(test, wheels[2]);
	KUNIT_EXPECT_STREQ(test, to_worker(a_wheel(test))->name, "kunit.5");
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		params.name = others[i];
		keep(test, hwtimer_wheel_create(&params));
	}
	KUNIT_EXPECT_STREQ(test, to_worker(a_wheel(test))->name, "kunit.8");
	/* free again once it is gone */
	unmake(test, wheels[0]);
	KUNIT_EXPECT_STREQ(test, to_worker(a_wheel(test))->name, "kunit");
}

static void many_wheels(struct kunit *test)
{
	struct hwtimer_wheel *wheels[MAX_WHEELS];
	unsigned int i, k;
	struct job *j;

	for (k = 0; k < 3; k++) {
		for (i = 0; i < MAX_WHEELS; i++)
			wheels[i] = a_wheel(test);
		j = jobs(test, NULL, MAX_WHEELS);
		for (i = 0; i < MAX_WHEELS; i++) {
			hwtimer_init(&j[i].t, wheels[i], job_fired);
			hwtimer_schedule(&j[i].t, (i % 3) * SEC);
		}
		nap(SEC + SEC / 2);
		for (i = 0; i < MAX_WHEELS; i++)
			KUNIT_EXPECT_EQ(test, i % 3 < 2, j[i].fired);
		/* some with a timeout pending */
		for (i = 0; i < MAX_WHEELS; i++) {
			hwtimer_wheel_stop(wheels[i], NULL);
			unmake(test, wheels[i]);
		}
		nap(SEC);
	}
}

static void destroy_nothing(struct kunit *test)
{
	hwtimer_wheel_destroy(NULL);
	hwtimer_wheel_destroy(ERR_PTR(-ENOMEM));
}

/* Does debugfs say @line of @wheel? */
static bool shown(struct kunit *test, struct hwtimer_wheel *wheel, const char *line)
{
	char *path = kunit_kzalloc(test, PATH_MAX, GFP_KERNEL);
	struct seq_file *m;
	struct file *f;
	bool found;

	KUNIT_ASSERT_NOT_NULL(test, path);
	snprintf(path, PATH_MAX, "/sys/kernel/debug/hwtimer/%s/stats", to_worker(wheel)->name);
	f = filp_open(path, O_RDONLY, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, f);
	/* Read as read() would, which is for memory of programs. The buffer goes with the file. */
	m = f->private_data;
	m->size = SZ_64K;
	m->buf = kvzalloc(m->size, GFP_KERNEL);
	found = m->buf && !m->op->show(m, NULL) && strnstr(m->buf, line, m->count);
	filp_close(f, NULL);
	return found;
}

static void scheduling(struct kunit *test)
{
	static const struct {
		enum hwtimer_sched sched;
		int nice, policy, prio;
		const char *shown;
	} as[] = {
		{ HWTIMER_SCHED_NORMAL, 0, SCHED_NORMAL, 0, "\nworker_sched normal\n" },
		{ HWTIMER_SCHED_NORMAL, -7, SCHED_NORMAL, 0, "\nworker_nice -7\n" },
		{ HWTIMER_SCHED_NORMAL, 19, SCHED_NORMAL, 0, "\nworker_nice 19\n" },
		{ HWTIMER_SCHED_FIFO_LOW, 0, SCHED_FIFO, 1, "\nworker_sched fifo_low\n" },
		{ HWTIMER_SCHED_FIFO, 0, SCHED_FIFO, MAX_RT_PRIO / 2,
		  "\nworker_sched fifo\n" },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(as); i++) {
		struct hwtimer_wheel_params params = {
			.name = "kunit", .tick_ns = TICK, .slots = SLOTS,
			.clock = ((const struct mode *)test->param_value)->clock,
			.sched = as[i].sched, .nice = as[i].nice, .cpus = cpumask_of(0),
		};
		struct hwtimer_wheel *wheel = keep(test, hwtimer_wheel_create(&params));
		struct task_struct *task = to_worker(wheel)->task;

		nap(10 * MS);
		KUNIT_EXPECT_EQ(test, as[i].policy, task->policy);
		KUNIT_EXPECT_EQ(test, as[i].prio, task->rt_priority);
		if (as[i].policy == SCHED_NORMAL)
			KUNIT_EXPECT_EQ(test, as[i].nice, task_nice(task));
		KUNIT_EXPECT_TRUE(test, cpumask_equal(task->cpus_ptr, cpumask_of(0)));
		KUNIT_EXPECT_TRUE(test, shown(test, wheel, as[i].shown));
	}
}

struct looked {
	unsigned int		filed;
	unsigned int		armed;
	struct hwtimer_timeout	*last;
};

static void look_at(void *arg, unsigned int i, struct hwtimer_timeout *t, bool armed,
		    u64 deadline)
{
	struct looked *l = arg;

	l->filed++;
	l->armed += armed;
	l->last = t;
}

/* More than the worker looks at in one go. */
#define LOOKED	(2 * WHEEL_SURVEY + 1)

/* What is in the buckets, cancelled or not; those of a level that is not there are empty. */
static void looks(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, LOOKED);
	unsigned int level, i;
	struct looked l;

	KUNIT_EXPECT_EQ(test, 0, wheel_look(wheel, 0, 0, SLOTS, look_at, &l));
	for (i = 0; i < LOOKED; i++)
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[i].t, SEC));
	for (level = 0; level < 2; level++) {
		l = (struct looked){ };
		KUNIT_EXPECT_EQ(test, 0, wheel_look(wheel, level, 0, SLOTS, look_at, &l));
		KUNIT_EXPECT_EQ(test, level ? 0U : LOOKED, l.filed);
		KUNIT_EXPECT_EQ(test, level ? 0U : LOOKED, l.armed);
	}
	KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&j[0].t));
	l = (struct looked){ };
	KUNIT_EXPECT_EQ(test, 0, wheel_look(wheel, 0, 0, SLOTS, look_at, &l));
	KUNIT_EXPECT_EQ(test, LOOKED, l.filed);
	KUNIT_EXPECT_EQ(test, LOOKED - 1, l.armed);
	KUNIT_EXPECT_PTR_EQ(test, &j[LOOKED - 1].t, l.last);
}

static noinline void slow_fired(struct hwtimer_timeout *t)
{
	nap(container_of(t, struct job, t)->delay);
}

static void slow_callback(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct hwtimer_monitor *m = &to_worker(wheel)->monitor;
	struct job *j = jobs(test, wheel, 3);
	unsigned long late = 0;
	unsigned int i;

	/* the limit is 10 ms */
	hwtimer_schedule(&j[0].t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 0UL, m->long_callbacks);
	hwtimer_init(&j[1].t, wheel, slow_fired);
	j[1].delay = 9 * MS;
	hwtimer_schedule(&j[1].t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 0UL, m->long_callbacks);
	j[1].delay = 12 * MS;
	hwtimer_schedule(&j[1].t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1UL, m->long_callbacks);
	KUNIT_EXPECT_GE(test, m->longest_ns, 12ULL * MS);
	KUNIT_EXPECT_LT(test, m->longest_ns, 13ULL * MS);
	KUNIT_EXPECT_EQ(test, 0, strncmp(m->longest_fn, "slow_fired", 10));
	/* another one, not as long, though too long */
	j[2].then = then_nap;
	j[2].delay = 11 * MS;
	hwtimer_schedule(&j[2].t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 2UL, m->long_callbacks);
	KUNIT_EXPECT_EQ(test, 0, strncmp(m->longest_fn, "slow_fired", 10));
	for (i = 0; i < HWTIMER_LATE_BINS; i++)
		late += m->late[i];
	KUNIT_EXPECT_EQ(test, 4UL, late);
	KUNIT_EXPECT_EQ(test, 4UL, counts(wheel).expired);
}

/* Each has its own lateness and its own time, whatever was measured only once. */
static void callbacks_in_row(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct hwtimer_monitor *m = &to_worker(wheel)->monitor;
	struct job *j = jobs(test, wheel, 6);
	u64 now = hwtimer_wheel_now(wheel);
	unsigned long late = 0;
	unsigned int i;

	hwtimer_init(&j[0].t, wheel, slow_fired);
	j[0].delay = 200 * MS;
	j[2].then = then_nap;
	j[2].delay = 5 * MS;
	for (i = 0; i < 6; i++)
		hwtimer_schedule_at(&j[i].t, now + 100 * MS);
	/* one that only has to be filed anew, and one that is dropped, in the middle */
	nap(50 * MS);
	hwtimer_touch_at(&j[3].t, now + 2 * SEC);
	hwtimer_cancel(&j[4].t);
	nap(600 * MS);
	KUNIT_EXPECT_EQ(test, 1UL, m->long_callbacks);
	KUNIT_EXPECT_GE(test, m->longest_ns, 200ULL * MS);
	KUNIT_EXPECT_LT(test, m->longest_ns, 201ULL * MS);
	KUNIT_EXPECT_EQ(test, 0, strncmp(m->longest_fn, "slow_fired", 10));
	/* 1, 2 and 5 were held up by 0 for 200 ms, and 5 by 2, too: from 131 to 262 ms */
	KUNIT_EXPECT_EQ(test, 3UL, m->late[18]);
	for (i = 0; i < HWTIMER_LATE_BINS; i++)
		late += m->late[i];
	KUNIT_EXPECT_EQ(test, 4UL, late);
	KUNIT_EXPECT_EQ(test, 4UL, counts(wheel).expired);
	/* what follows in another tick is not late */
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 3UL, m->late[18]);
	KUNIT_EXPECT_EQ(test, 1UL, j[3].fired);
}

/* A callback makes the worker late, by less than a round: it catches up, in order. */
static void catch_up(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 40);
	unsigned int i;
	u64 now = hwtimer_wheel_now(wheel);

	j[0].then = then_nap;
	j[0].delay = 500 * MS;
	for (i = 0; i < 40; i++)
		hwtimer_schedule_at(&j[i].t, now + (i + 5) * TICK);
	nap(540 * MS);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_EQ(test, 0, j[1].fired);
	nap(2 * SEC);
	for (i = 1; i < 40; i++) {
		expect_on_time(&j[i], 1, now + 50 * MS + 500 * MS);
		KUNIT_EXPECT_GE(test, j[i].at, j[i - 1].at);
	}
}

static void then_rearm_at_cap(struct job *j)
{
	/* its own place is free again, and the only one */
	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_schedule(&j->t, 0));
	KUNIT_EXPECT_EQ(j->test, -EAGAIN, hwtimer_schedule(&j->other->t, 0));
}

static void cap(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, TICK, SLOTS, 3);
	struct job *j = jobs(test, wheel, 4);
	unsigned int i;

	j[0].then = then_rearm_at_cap;
	j[0].other = &j[3];
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[i].t, i * 50 * SEC));
	KUNIT_EXPECT_EQ(test, -EAGAIN, hwtimer_schedule(&j[3].t, SEC));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_touch(&j[2].t, 60 * SEC));
	nap(20 * TICK);
	KUNIT_EXPECT_GT(test, j[0].fired, 10);
	KUNIT_EXPECT_EQ(test, 3UL, hwtimer_wheel_pending(wheel));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_cancel_sync(&j[0].t));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[3].t, 0));
	KUNIT_EXPECT_EQ(test, -EAGAIN, hwtimer_schedule(&j[0].t, 0));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[3].fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[3].t, 0));
	KUNIT_EXPECT_EQ(test, 1UL + j[0].fired + 1, counts(wheel).rejected);
}

/* Only far ones, one of them pushed back all the time. Promise 7. */
static void far_wakeups(struct kunit *test)
{
	static const u64 ticks[] = { MS, 10 * MS, 70 * MS };
	unsigned int i, k;

	for (k = 0; k < ARRAY_SIZE(ticks); k++) {
		struct hwtimer_wheel *wheel = make(test, ticks[k], 1024, 0);
		struct job *j = jobs(test, wheel, 3);
		unsigned long before;

		hwtimer_schedule(&j[0].t, 200 * SEC);
		hwtimer_schedule(&j[1].t, S64_MAX);
		hwtimer_schedule(&j[2].t, 100 * SEC);
		nap(SEC);
		before = wakeups(wheel);
		for (i = 0; i < 1000; i++) {
			hwtimer_touch(&j[2].t, 100 * SEC);
			nap(10 * MS);
		}
		KUNIT_EXPECT_LE(test, wakeups(wheel) - before, 50UL);
		KUNIT_EXPECT_EQ(test, 3UL, counts(wheel).drained);
		KUNIT_EXPECT_EQ(test, 1000UL, counts(wheel).touched);
		KUNIT_EXPECT_EQ(test, 1UL, counts(wheel).kicks);
	}
}

struct soft {
	struct timer_list	timer;
	struct job		*jobs;
};

static void soft_fn(struct timer_list *timer)
{
	struct soft *s = container_of(timer, struct soft, timer);
	struct job *j = s->jobs;

	KUNIT_EXPECT_TRUE(j->test, in_softirq());
	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_schedule(&j[0].t, 0));
	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_touch(&j[1].t, SEC));
	KUNIT_EXPECT_TRUE(j->test, hwtimer_cancel(&j[2].t));
	KUNIT_EXPECT_TRUE(j->test, hwtimer_release(&j[3].t, job_released));
}

/* From softirq context, and with interrupts off. */
/* All buckets are occupied, by later rounds: to pass over them does not wake it often. */
static void far_rounds_wakeups(struct kunit *test)
{
	const unsigned int n = 4096;
	struct hwtimer_wheel *wheel = make(test, MS / 10, n, 0);
	struct job *j = jobs(test, wheel, n);
	u64 now = hwtimer_wheel_now(wheel);
	unsigned long before;
	unsigned int i;

	for (i = 0; i < n; i++)
		hwtimer_schedule_at(&j[i].t, now + 3600 * SEC + i * (MS / 10));
	nap(5 * SEC);
	before = wakeups(wheel);
	nap(60 * SEC);
	KUNIT_EXPECT_LE(test, wakeups(wheel) - before, 60UL * NSEC_PER_SEC / WHEEL_DRAIN_NS);
	KUNIT_EXPECT_EQ(test, 0UL, counts(wheel).expired);
}

/* Promise 3. */
static void contexts(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct soft s = { .jobs = jobs(test, wheel, 4) };
	struct job *j = s.jobs;
	unsigned long flags;
	unsigned int i;

	for (i = 1; i < 4; i++)
		hwtimer_schedule(&j[i].t, 50 * SEC);
	timer_setup_on_stack(&s.timer, soft_fn, 0);
	mod_timer(&s.timer, jiffies + HZ);
	nap(2 * SEC);
	timer_delete_sync(&s.timer);
	timer_destroy_on_stack(&s.timer);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_EQ(test, 1, j[1].fired);
	KUNIT_EXPECT_EQ(test, 0, j[2].fired + j[3].fired);
	KUNIT_EXPECT_EQ(test, 1, j[3].released);

	local_irq_save(flags);
	hwtimer_schedule(&j[0].t, 0);
	hwtimer_schedule(&j[1].t, 50 * SEC);
	hwtimer_touch(&j[1].t, 0);
	hwtimer_schedule(&j[2].t, 0);
	hwtimer_cancel(&j[2].t);
	KUNIT_EXPECT_TRUE(test, irqs_disabled());
	local_irq_restore(flags);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 2, j[0].fired);
	KUNIT_EXPECT_EQ(test, 2, j[1].fired);
	KUNIT_EXPECT_EQ(test, 0, j[2].fired);
}

#define BURST	100000

static unsigned int burst_rank, burst_wrong;

struct spark {
	struct hwtimer_timeout	t;
	unsigned int		rank;
};

static void spark_fired(struct hwtimer_timeout *t)
{
	if (container_of(t, struct spark, t)->rank != burst_rank++)
		burst_wrong++;
}

/* Many in one tick, in order, and then all cancelled, and all handed back. */
static void burst(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct spark *s = kvcalloc(BURST, sizeof(*s), GFP_KERNEL);
	u64 deadline = hwtimer_wheel_now(wheel) + SEC;
	unsigned int i, back = 0, cancelled = 0;
	struct list_head pending, *pos;

	KUNIT_ASSERT_NOT_NULL(test, s);
	burst_rank = 0;
	burst_wrong = 0;
	for (i = 0; i < BURST; i++) {
		s[i].rank = i;
		hwtimer_init(&s[i].t, wheel, spark_fired);
		hwtimer_schedule_at(&s[i].t, deadline);
	}
	KUNIT_EXPECT_EQ(test, (unsigned long)BURST, hwtimer_wheel_pending(wheel));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, BURST, burst_rank);
	KUNIT_EXPECT_EQ(test, 0, burst_wrong);
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));

	for (i = 0; i < BURST; i++)
		hwtimer_schedule(&s[i].t, SEC);
	nap(500 * MS);
	for (i = 0; i < BURST; i += 2)
		cancelled += hwtimer_cancel(&s[i].t);
	KUNIT_EXPECT_EQ(test, BURST / 2, cancelled);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &pending));
	list_for_each(pos, &pending)
		back++;
	KUNIT_EXPECT_EQ(test, BURST / 2, back);
	KUNIT_EXPECT_EQ(test, BURST, burst_rank);
	/* The wheel, which holds none of them, is destroyed later on. */
	kvfree(s);
}

/* What has been released is told: never armed, pending, expired; or cancelled. */
static void waits_for_released(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 6);
	unsigned int i;

	/* nothing was released, on a wheel that was never used */
	hwtimer_wheel_barrier(wheel);
	hwtimer_release(&j[0].t, job_released);
	hwtimer_wheel_barrier(wheel);
	KUNIT_EXPECT_EQ(test, 1, j[0].released);

	hwtimer_schedule(&j[1].t, 0);
	hwtimer_schedule(&j[2].t, 50 * SEC);
	hwtimer_schedule(&j[3].t, 50 * SEC);
	nap(SEC);
	hwtimer_cancel(&j[3].t);
	hwtimer_schedule(&j[4].t, SEC);
	for (i = 1; i < 5; i++)
		hwtimer_release(&j[i].t, job_released);
	hwtimer_wheel_barrier(wheel);
	for (i = 1; i < 5; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, j[i].released, "%u", i);
	/* which costs the others nothing */
	hwtimer_schedule(&j[5].t, 50 * MS);
	hwtimer_wheel_barrier(wheel);
	KUNIT_EXPECT_TRUE(test, hwtimer_is_pending(&j[5].t));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[5].fired);

	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	hwtimer_release(&j[5].t, job_released);
	hwtimer_wheel_barrier(wheel);
	KUNIT_EXPECT_EQ(test, 1, j[5].released);
}

/* For a callback that runs, too, released or not. */
static void waits_for_callback(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);
	unsigned int i;

	for (i = 0; i < 2; i++) {
		j[i].then = then_nap;
		j[i].delay = 500 * MS;
		hwtimer_schedule(&j[i].t, 0);
		nap(100 * MS);
		KUNIT_EXPECT_EQ(test, 1, j[i].fired);
		KUNIT_EXPECT_FALSE(test, j[i].over);
		if (i)
			hwtimer_release(&j[i].t, job_released);
		hwtimer_wheel_barrier(wheel);
		KUNIT_EXPECT_TRUE(test, j[i].over);
		KUNIT_EXPECT_EQ(test, i, j[i].released);
	}
}

static void then_barrier(struct job *j)
{
	hwtimer_wheel_barrier(j->t.wheel);
	j->over = true;
}

/* It does not wait for itself. */
static void barrier_from_callback(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);

	j->then = then_barrier;
	hwtimer_schedule(&j->t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);
	KUNIT_EXPECT_TRUE(test, j->over);
	hwtimer_wheel_barrier(wheel);
}

static void release_and_wait(struct helper *h)
{
	struct rnd_state rnd;
	unsigned int i = 0, k, end;

	prandom_seed_state(&rnd, h->seed);
	while (i < h->n) {
		end = min(h->n, i + 1 + prandom_u32_state(&rnd) % 2000);
		while (i < end)
			hwtimer_release(&h->jobs[i++].t, job_released);
		hwtimer_wheel_barrier(h->wheel);
		for (k = 0; k < end && h->jobs[k].released == 1; k++)
			;
		KUNIT_EXPECT_EQ(h->jobs->test, end, k);
	}
}

/* Several at a time, with more released than a slice has room for, and a stop. */
static void barriers(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct helper h[3] = {};
	unsigned int i, k;

	for (i = 0; i < 3; i++) {
		h[i].wheel = wheel;
		h[i].n = 20000;
		h[i].jobs = kvcalloc(h[i].n, sizeof(struct job), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, h[i].jobs);
		for (k = 0; k < h[i].n; k++) {
			h[i].jobs[k].test = test;
			hwtimer_init(&h[i].jobs[k].t, wheel, job_fired);
			if (k % 3)
				hwtimer_schedule(&h[i].jobs[k].t, k * 5 * MS);
		}
		h[i].seed = 7 + i;
	}
	nap(500 * MS);
	for (i = 0; i < 3; i++)
		help(test, &h[i], release_and_wait);
	nap(10 * MS);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_TRUE(test, helped(&h[i]));
	for (i = 0; i < 3; i++)
		kvfree(h[i].jobs);
}

/* Releases another one, which does the same, until it is @over. */
static void released_goes_on(struct hwtimer_timeout *t)
{
	struct job *j = container_of(t, struct job, t);

	j->fired += !!READ_ONCE(t->wheel->barrier);
	j->released++;
	if (READ_ONCE(j->over))
		return;
	hwtimer_init(t, t->wheel, job_fired);
	hwtimer_release(t, released_goes_on);
}

static void wait_at_barrier(struct helper *h)
{
	hwtimer_wheel_barrier(h->wheel);
	h->ret = 1;
}

/* A barrier does not wait for what is released later, though it never ends. Promise 13. */
static void barrier_in_stream(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);
	struct helper h = { .wheel = wheel };

	hwtimer_schedule(&j[1].t, 50 * SEC);
	nap(SEC);
	hwtimer_release(&j[0].t, released_goes_on);
	help(test, &h, wait_at_barrier);
	KUNIT_EXPECT_TRUE(test, helped(&h));
	KUNIT_EXPECT_EQ(test, 1, h.ret);
	/* The rest of a round, and the next one. */
	KUNIT_EXPECT_LE(test, j[0].fired, 2);
	WRITE_ONCE(j[0].over, true);
	hwtimer_wheel_barrier(wheel);
	KUNIT_EXPECT_LT(test, 1, j[0].released);
}

static void then_wait_for_all(struct job *j)
{
	struct list_head pending = {};

	KUNIT_EXPECT_EQ(j->test, -EDEADLK, hwtimer_cancel_sync(&j->other[0].t));
	KUNIT_EXPECT_FALSE(j->test, hwtimer_is_pending(&j->other[0].t));
	KUNIT_EXPECT_EQ(j->test, -EDEADLK, hwtimer_shutdown_sync(&j->other[1].t));
	KUNIT_EXPECT_EQ(j->test, -ESHUTDOWN, hwtimer_schedule(&j->other[1].t, 0));
	KUNIT_EXPECT_EQ(j->test, -EDEADLK, hwtimer_cancel_sync(&j->t));
	KUNIT_EXPECT_EQ(j->test, -EDEADLK, hwtimer_wheel_stop(j->t.wheel, &pending));
	KUNIT_EXPECT_TRUE(j->test, list_empty(&pending));
	hwtimer_wheel_barrier(j->t.wheel);
	/* The way there. */
	KUNIT_EXPECT_TRUE(j->test, hwtimer_release(&j->other[2].t, job_released));
	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_schedule(&j->other[0].t, 0));
	j->over = true;
}

static void released_wait(struct hwtimer_timeout *t)
{
	struct job *j = container_of(t, struct job, t);

	KUNIT_EXPECT_TRUE(j->test, in_softirq());
	j->ret = hwtimer_cancel_sync(&j->other->t);
	j->released++;
}

/* Callbacks in softirq must not wait, for anything. */
static void refused(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 5);
	unsigned int i;

	j[0].then = then_wait_for_all;
	j[0].other = &j[1];
	for (i = 1; i < 4; i++)
		hwtimer_schedule(&j[i].t, 50 * SEC);
	nap(SEC);
	hwtimer_schedule(&j[0].t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_TRUE(test, j[0].over);
	KUNIT_EXPECT_EQ(test, 1, j[1].fired);
	KUNIT_EXPECT_EQ(test, 0, j[2].fired + j[3].fired);
	KUNIT_EXPECT_EQ(test, 1, j[3].released);
	KUNIT_EXPECT_EQ(test, (int)WHEEL_STARTED, wheel->state);

	j[4].other = &j[0];
	hwtimer_release(&j[4].t, released_wait);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[4].released);
	KUNIT_EXPECT_EQ(test, -EDEADLK, j[4].ret);
	/* and the task that one came on top of may */
	KUNIT_EXPECT_EQ(test, 0, hwtimer_cancel_sync(&j[0].t));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_shutdown_sync(&j[2].t));
	KUNIT_EXPECT_PTR_EQ(test, to_worker(wheel)->actor, (struct task_struct *)NULL);
}

static void released_softirq(struct hwtimer_timeout *t)
{
	struct job *j = container_of(t, struct job, t);

	j->released++;
	j->ret = !!in_softirq();
}

/* What stop calls, it calls as the worker would: it must not wait either. */
static void stop_softirqs_off(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 4);
	struct helper h = { .wheel = wheel, .jobs = j };
	unsigned int i;

	hwtimer_schedule(&j[0].t, 50 * SEC);
	hwtimer_schedule(&j[3].t, 50 * SEC);
	/* No slice comes in between. */
	WRITE_ONCE(to_worker(wheel)->ended, true);
	for (i = 0; i < 2; i++)
		hwtimer_release(&j[i].t, released_softirq);
	j[2].other = &j[3];
	hwtimer_release(&j[2].t, released_wait);
	nap(SEC);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, 0, j[i].released);
	j[0].over = true;
	stop_by_helper(test, &h);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, 1, j[i].released);
		KUNIT_EXPECT_EQ(test, 1, j[i].ret);
	}
	KUNIT_EXPECT_EQ(test, 1, j[2].released);
	KUNIT_EXPECT_EQ(test, -EDEADLK, j[2].ret);
	KUNIT_EXPECT_EQ(test, 0, h.n);
}

static void then_kick(struct job *j)
{
	struct hwtimer_wheel *wheel = j->t.wheel;

	wheel->ops->kick(wheel);
}

/* A slice that goes to sleep for long does not undo a kick that came meanwhile. */
static void kick_in_slice(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);
	unsigned long before;
	unsigned int i;

	j[0].then = then_kick;
	for (i = 0; i < 2; i++) {
		/* with something to wake up for in the end, and without */
		if (!i)
			hwtimer_schedule(&j[1].t, 100 * SEC);
		else
			hwtimer_cancel(&j[1].t);
		nap(SEC);
		hwtimer_schedule(&j[0].t, 0);
		do {
			before = wakeups(wheel);
			nap(MS / 4);
		} while (j[0].fired == i);
		/* the expiry and the kick, within a quarter of a ms */
		KUNIT_EXPECT_EQ(test, before + 2, wakeups(wheel));
		nap(SEC);
	}
}

struct storm {
	struct hrtimer		timer;
	struct hwtimer_wheel	*wheel;
	struct job		*jobs;
	unsigned int		left;
};

/* In hardirq, every 7 us; arms one of the jobs every now and then. */
static enum hrtimer_restart storm_fn(struct hrtimer *timer)
{
	struct storm *s = container_of(timer, struct storm, timer);

	KUNIT_EXPECT_TRUE(s->jobs->test, !!in_hardirq());
	s->wheel->ops->kick(s->wheel);
	if (!s->left--)
		return HRTIMER_NORESTART;
	if (s->left % 10 == 0)
		KUNIT_EXPECT_EQ(s->jobs->test, 0,
				hwtimer_schedule(&s->jobs[s->left / 10].t, s->left * 1000));
	hrtimer_forward_now(timer, ns_to_ktime(7000));
	return HRTIMER_RESTART;
}

static void then_delay(struct job *j)
{
	/* Where time stands still otherwise, this lets interrupts come. */
	ndelay(15 * NSEC_PER_USEC);
}

/* Nothing is late, early or lost, however often somebody kicks. */
static void kick_storm(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, 100 * NSEC_PER_USEC, SLOTS, 0);
	struct job *j = jobs(test, wheel, 1000);
	struct storm *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->wheel = wheel;
	s->jobs = j;
	s->left = 10000;
	for (i = 0; i < 1000; i++)
		j[i].then = then_delay;
	hrtimer_setup(&s->timer, storm_fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&s->timer, ns_to_ktime(7000), HRTIMER_MODE_REL_HARD);
	nap(SEC);
	hrtimer_cancel(&s->timer);
	KUNIT_EXPECT_EQ(test, UINT_MAX, s->left);
	for (i = 0; i < 1000; i++) {
		KUNIT_EXPECT_EQ(test, 1, j[i].fired);
		KUNIT_EXPECT_GE(test, j[i].at, hwtimer_deadline(&j[i].t));
	}
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
}

/* Many at once, in more than one slice: tasks run in between. */
static void slices(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, MS, SLOTS, 0);
	struct job *j = kvcalloc(5000, sizeof(*j), GFP_KERNEL);
	unsigned int i, seen, looks = 0;
	u64 now;

	KUNIT_ASSERT_NOT_NULL(test, j);
	now = hwtimer_wheel_now(wheel);
	for (i = 0; i < 5000; i++) {
		j[i].test = test;
		hwtimer_init(&j[i].t, wheel, job_fired);
		hwtimer_schedule_at(&j[i].t, now + SEC);
	}
	nap(990 * MS);
	do {
		nap(10 * NSEC_PER_USEC);
		for (seen = 0; seen < 5000 && j[seen].fired; seen++)
			;
		looks += seen > 0 && seen < 5000;
	} while (seen < 5000 && hwtimer_wheel_now(wheel) < now + 2 * SEC);
	KUNIT_EXPECT_EQ(test, 5000, seen);
	KUNIT_EXPECT_GT(test, looks, 10);
	for (i = 0; i < 5000; i++) {
		KUNIT_EXPECT_EQ(test, 1, j[i].fired);
		KUNIT_EXPECT_GE(test, j[i].at, now + SEC);
	}
	kvfree(j);
}

/*
 * The clock jumps, as CLOCK_BOOTTIME does in suspend, and the kernel looks at the
 * worker's hrtimer anew: what became due meanwhile expires at once, the rest is on
 * time. The machine's clock is not ours to move, so it is the wheel's beginning.
 */
static void jump(struct kunit *test)
{
	u64 leap = 100ULL * SEC, now;
	struct hwtimer_worker *worker;
	struct hwtimer_wheel *wheel;
	struct job *j;
	unsigned int i;

	/* It must not begin before the clock did. */
	nap(leap);
	wheel = a_wheel(test);
	worker = to_worker(wheel);
	j = jobs(test, wheel, 6);
	for (i = 0; i < 6; i++)
		hwtimer_schedule(&j[i].t, i < 5 ? (i + 1) * 19LL * SEC : leap + 5 * SEC);
	nap(SEC);
	/* Not while it runs: it sleeps, with nothing due for long. */
	worker->start_ns -= leap;
	now = hwtimer_wheel_now(wheel);
	wheel->ops->kick(wheel);
	nap(MS);
	for (i = 0; i < 5; i++)
		expect_on_time(&j[i], 1, now);
	KUNIT_EXPECT_EQ(test, 0, j[5].fired);
	nap(10 * SEC);
	expect_on_time(&j[5], 1, now + 4 * SEC);
	/* and it goes on */
	now = hwtimer_wheel_now(wheel);
	hwtimer_schedule(&j[0].t, SEC);
	nap(2 * SEC);
	expect_on_time(&j[0], 2, now + SEC);
}

static struct kunit_case api_cases[] = {
	KUNIT_CASE_PARAM(lazy_worker, mode_gen_params),
	KUNIT_CASE_PARAM(start, mode_gen_params),
	KUNIT_CASE_PARAM(on_time, mode_gen_params),
	KUNIT_CASE_PARAM(on_time_each, mode_gen_params),
	KUNIT_CASE_PARAM(absolute, mode_gen_params),
	KUNIT_CASE_PARAM(no_delay, mode_gen_params),
	KUNIT_CASE_PARAM(forever, mode_gen_params),
	KUNIT_CASE_PARAM(touch, mode_gen_params),
	KUNIT_CASE_PARAM(cancel, mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync, mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_waits, thread_mode_gen_params),
#ifdef CONFIG_UML
	KUNIT_CASE_PARAM(holds_rearming, thread_mode_gen_params),
#endif
	KUNIT_CASE_PARAM(cancel_sync_self, mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_self_rearmed, mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_other, thread_mode_gen_params),
	KUNIT_CASE_PARAM(shutdown_sync, mode_gen_params),
	KUNIT_CASE_PARAM(rearming, mode_gen_params),
	KUNIT_CASE_PARAM(rearming_running, thread_mode_gen_params),
	KUNIT_CASE_PARAM(rearming_twice, thread_mode_gen_params),
	KUNIT_CASE_PARAM(rearming_past, thread_mode_gen_params),
	KUNIT_CASE_PARAM(waits_for_one, thread_mode_gen_params),
	KUNIT_CASE_PARAM(waits_while_released, thread_mode_gen_params),
	KUNIT_CASE_PARAM(waits_while_armed, thread_mode_gen_params),
	KUNIT_CASE_PARAM(waits_release_self, thread_mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_released, thread_mode_gen_params),
	KUNIT_CASE_PARAM(init_self, thread_mode_gen_params),
	KUNIT_CASE_PARAM(no_kick_in_callback, mode_gen_params),
	KUNIT_CASE_PARAM(release, mode_gen_params),
	KUNIT_CASE_PARAM(release_running, thread_mode_gen_params),
	KUNIT_CASE_PARAM(release_self, thread_mode_gen_params),
	KUNIT_CASE_PARAM(frees_itself, mode_gen_params),
	KUNIT_CASE_PARAM(stop, mode_gen_params),
	KUNIT_CASE_PARAM(stop_asleep, mode_gen_params),
	KUNIT_CASE_PARAM(stop_from_callback, mode_gen_params),
	KUNIT_CASE_PARAM(stop_other_from_callback, thread_mode_gen_params),
	KUNIT_CASE_PARAM(stop_twice, thread_mode_gen_params),
	KUNIT_CASE_PARAM(stop_releases, thread_mode_gen_params),
	KUNIT_CASE_PARAM(books, mode_gen_params),
	KUNIT_CASE_PARAM(create, create_gen_params),
	KUNIT_CASE_PARAM(slots_round_up, mode_gen_params),
	KUNIT_CASE_PARAM(same_name, thread_mode_gen_params),
	KUNIT_CASE_PARAM(many_wheels, mode_gen_params),
	KUNIT_CASE(destroy_nothing),
	KUNIT_CASE_PARAM(scheduling, thread_mode_gen_params),
	KUNIT_CASE_PARAM(looks, thread_mode_gen_params),
	KUNIT_CASE_PARAM(slow_callback, thread_mode_gen_params),
	KUNIT_CASE_PARAM(callbacks_in_row, thread_mode_gen_params),
	KUNIT_CASE_PARAM(catch_up, thread_mode_gen_params),
	KUNIT_CASE_PARAM(cap, mode_gen_params),
	KUNIT_CASE_PARAM(far_wakeups, mode_gen_params),
	KUNIT_CASE_PARAM(far_rounds_wakeups, mode_gen_params),
	KUNIT_CASE_PARAM(contexts, mode_gen_params),
	KUNIT_CASE_PARAM(burst, mode_gen_params),
	KUNIT_CASE_PARAM(waits_for_released, mode_gen_params),
	KUNIT_CASE_PARAM(waits_for_callback, thread_mode_gen_params),
	KUNIT_CASE_PARAM(barrier_from_callback, mode_gen_params),
	KUNIT_CASE_PARAM(barriers, mode_gen_params),
	KUNIT_CASE_PARAM(barrier_in_stream, mode_gen_params),
	KUNIT_CASE_PARAM(refused, softirq_mode_gen_params),
	KUNIT_CASE_PARAM(stop_softirqs_off, softirq_mode_gen_params),
	KUNIT_CASE_PARAM(kick_in_slice, softirq_mode_gen_params),
	KUNIT_CASE_PARAM(kick_storm, mode_gen_params),
	KUNIT_CASE_PARAM(slices, softirq_mode_gen_params),
	KUNIT_CASE_PARAM(jump, mode_gen_params),
	{}
};

static struct kunit_suite api_suite = {
	.name		= "hwtimer_api",
	.init		= bench_init,
	.exit		= bench_exit,
	.test_cases	= api_cases,
};

kunit_test_suite(api_suite);
