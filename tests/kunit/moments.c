// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite of single moments, each of which a case brings about: a task that is
 * interrupted by a slice, a worker that is stopped as it goes to sleep, an arm that is
 * overtaken by the expiry. For one CPU, and with the hook between the steps of the module.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "../../hwtimer_compat.h"
#include "../../hwtimer_driver.h"
#include "../../hwtimer_step.h"
#include "hwtimer_kunit.h"

#define SEC		NSEC_PER_SEC
#define MS		NSEC_PER_MSEC

static struct hwtimer_wheel *make(struct kunit *test, enum hwtimer_driver driver)
{
	const struct hwtimer_wheel_params params = {
		.name = "moments", .tick_ns = MS, .slots = 64, .driver = driver,
	};
	struct hwtimer_wheel *wheel = hwtimer_wheel_create(&params);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, wheel);
	return wheel;
}

static struct task_struct *interrupted;

static void note_current(struct hwtimer_timeout *t)
{
	WRITE_ONCE(interrupted, current);
}

/* The task that a slice interrupted counts as the worker only during that slice. */
static void interrupted_task(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, HWTIMER_DRIVER_HRTIMER);
	u64 end = ktime_get_ns() + SEC;
	struct hwtimer_timeout t;

	interrupted = NULL;
	hwtimer_init_on_stack(&t, wheel, note_current);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&t, 5 * MS));
	/* Time passes, and the slice comes, while we look at the clock. */
	while (!READ_ONCE(interrupted) && ktime_get_ns() < end)
		cpu_relax();
	KUNIT_EXPECT_PTR_EQ(test, current, READ_ONCE(interrupted));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	hwtimer_destroy_on_stack(&t);
	hwtimer_wheel_destroy(wheel);
}

static struct task_struct *held;
static struct completion holding;

/* Hold the worker, between its check of kthread_should_stop() and its sleep, until a stop. */
static void hold_worker(void)
{
	u64 end = ktime_get_ns() + SEC;

	if (current != held)
		return;
	held = NULL;
	complete(&holding);
	while (!kthread_should_stop() && ktime_get_ns() < end)
		nap(MS);
}

/* A stop that comes between the worker's look and its sleep need not wait for what is due. */
static void stop_about_to_sleep(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, HWTIMER_DRIVER_KTHREAD);
	struct hwtimer_timeout t;
	u64 began;

	hwtimer_init_on_stack(&t, wheel, note_current);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&t, 3600 * SEC));
	/* Until the worker sleeps soundly. */
	nap(2 * SEC);
	init_completion(&holding);
	held = to_driven(wheel)->task;
	WRITE_ONCE(hwtimer_step_hook, hold_worker);
	wheel->ops->kick(wheel);
	wait_for_completion(&holding);
	began = ktime_get_ns();
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	KUNIT_EXPECT_LT(test, ktime_get_ns() - began, (u64)SEC / 2);
	WRITE_ONCE(hwtimer_step_hook, NULL);
	hwtimer_destroy_on_stack(&t);
	hwtimer_wheel_destroy(wheel);
}

/* A wheel that is moved on by hand, in the n-th step of who arms. */
static struct {
	struct hwtimer_wheel	*wheel;
	u64			now;
	unsigned int		step;
	unsigned int		n;
	struct wheel_counts	counts;
} overtaken;

static void hand_kick(struct hwtimer_wheel *w)
{
}

static void hand_expire(struct hwtimer_wheel *w, struct hwtimer_timeout *t, hwtimer_fn_t fn,
			u64 deadline)
{
	fn(t);
}

static const struct wheel_ops hand_ops = {
	.kick	= hand_kick,
	.expire	= hand_expire,
};

static void overtake(void)
{
	if (++overtaken.step != overtaken.n)
		return;
	overtaken.now += MS;
	while (wheel_advance(overtaken.wheel, overtaken.now, WHEEL_BUDGET))
		;
	wheel_count(overtaken.wheel, &overtaken.counts);
}

/* An arming is counted before it can end, so the pending count never drops below zero. */
static void never_too_few(struct kunit *test)
{
	static const struct wheel_shape shape = { .tick_ns = MS, .slots = 64 };
	struct hwtimer_timeout *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	unsigned int n;
	bool reached;

	memset(&overtaken, 0, sizeof(overtaken));
	overtaken.wheel = kunit_kzalloc(test, sizeof(*overtaken.wheel), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_NOT_NULL(test, overtaken.wheel);
	KUNIT_ASSERT_EQ(test, 0, wheel_init(overtaken.wheel, &shape, &hand_ops, GFP_KERNEL));
	for (n = 1, reached = true; reached; n++) {
		wheel_timeout_init(t, overtaken.wheel, note_current);
		overtaken.n = n;
		overtaken.step = 0;
		memset(&overtaken.counts, 0, sizeof(overtaken.counts));
		WRITE_ONCE(hwtimer_step_hook, overtake);
		KUNIT_EXPECT_EQ(test, 0, wheel_arm(t, 0));
		WRITE_ONCE(hwtimer_step_hook, NULL);
		reached = overtaken.step >= n;
		KUNIT_EXPECT_LE_MSG(test, overtaken.counts.pending, 1UL, "at step %u", n);
		/* Whatever is left of it. */
		overtaken.now += 2 * MS;
		while (wheel_advance(overtaken.wheel, overtaken.now, WHEEL_BUDGET))
			;
		KUNIT_EXPECT_FALSE(test, wheel_holds(t));
	}
	/* The look at the word, the count of those in flight, the push, the bell. */
	KUNIT_EXPECT_GT(test, n, 4);
	wheel_count(overtaken.wheel, &overtaken.counts);
	KUNIT_EXPECT_EQ(test, (unsigned long)n - 1, overtaken.counts.expired);
	KUNIT_EXPECT_TRUE(test, wheel_shutdown(overtaken.wheel));
	wheel_sweep(overtaken.wheel, NULL);
	wheel_free(overtaken.wheel);
}

/* A timeout that a stop hands back, at each step of the stop. */
static struct {
	struct hwtimer_timeout	*t;
	struct list_head	pending;
	unsigned int		steps;
	bool			looking;
	bool			unlinked;
	size_t			back;
} handed;

static void look_at_list(void)
{
	/* The look has steps of its own. */
	if (handed.looking)
		return;
	handed.looking = true;
	handed.steps++;
	if (!wheel_holds(handed.t) && list_empty(&handed.pending))
		handed.unlinked = true;
	handed.looking = false;
}

/* A stop hands back a timeout, with this hook at each of its steps. */
static void hand_back(struct kunit *test, void (*hook)(void))
{
	struct hwtimer_wheel *wheel = make(test, HWTIMER_DRIVER_KTHREAD);
	struct hwtimer_timeout t;

	memset(&handed, 0, sizeof(handed));
	INIT_LIST_HEAD(&handed.pending);
	handed.t = &t;
	hwtimer_init_on_stack(&t, wheel, note_current);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&t, 3600 * SEC));
	nap(2 * SEC);
	WRITE_ONCE(hwtimer_step_hook, hook);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &handed.pending));
	WRITE_ONCE(hwtimer_step_hook, NULL);
	handed.back = list_count_nodes(&handed.pending);
	hwtimer_destroy_on_stack(&t);
	hwtimer_wheel_destroy(wheel);
}

/* When the wheel has let go of a timeout that was pending, it is on the list. */
static void handed_back_linked(struct kunit *test)
{
	hand_back(test, look_at_list);
	KUNIT_EXPECT_GT(test, handed.steps, 2);
	KUNIT_EXPECT_FALSE(test, handed.unlinked);
	KUNIT_EXPECT_EQ(test, 1, handed.back);
}

/* Those who wait for a timeout of a wheel that is moved on by hand. */
static struct ender {
	struct hwtimer_timeout	*t;
	struct completion	done;
	bool			ended;
} enders[3];

static int ender_fn(void *data)
{
	struct ender *e = data;

	e->ended = wheel_end_sync(e->t, wheel_cancel, MAX_SCHEDULE_TIMEOUT);
	kthread_complete_and_exit(&e->done, 0);
}

/*
 * @n of them wait for @t, which somebody arms once more. Returns how many of them ended an
 * arming.
 */
static unsigned int end_rearmed(struct kunit *test, struct hwtimer_timeout *t, unsigned int n)
{
	unsigned int i, tries, ended = 0;

	KUNIT_EXPECT_EQ(test, 0, wheel_arm(t, 5 * MS));
	while (wheel_advance(t->wheel, 0, WHEEL_BUDGET))
		;
	for (i = 0; i < n; i++) {
		enders[i].t = t;
		init_completion(&enders[i].done);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(ender_fn, &enders[i], "ender"));
		nap(MS);
	}
	/* As its callback may, had it begun by then. */
	KUNIT_EXPECT_EQ(test, 0, wheel_arm(t, 5 * MS));
	while (wheel_advance(t->wheel, 5 * MS, WHEEL_BUDGET))
		;
	for (i = 0; i < n; i++) {
		/* Woken in the middle of that, they may have asked to let go of it once more. */
		for (tries = 0; tries < 1000 && !completion_done(&enders[i].done); tries++) {
			nap(MS);
			while (wheel_advance(t->wheel, 5 * MS, WHEEL_BUDGET))
				;
		}
		KUNIT_ASSERT_TRUE(test, completion_done(&enders[i].done));
		ended += enders[i].ended;
	}
	return ended;
}

/* Whoever waits is woken, and what is cancelled for them is cancelled once, and counted. */
static void cancelled_for_three(struct kunit *test)
{
	static const struct wheel_shape shape = { .tick_ns = MS, .slots = 64, .cap = 1 };
	struct hwtimer_wheel *wheel = kunit_kzalloc(test, sizeof(*wheel), GFP_KERNEL);
	struct hwtimer_timeout *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct wheel_counts c;
	unsigned int ended;

	KUNIT_ASSERT_NOT_NULL(test, wheel);
	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_EQ(test, 0, wheel_init(wheel, &shape, &hand_ops, GFP_KERNEL));
	wheel_timeout_init(t, wheel, note_current);
	ended = end_rearmed(test, t, 3);
	/* Both armings may have been ended by, or for, the same one. */
	KUNIT_EXPECT_LE(test, 1U, ended);
	KUNIT_EXPECT_LE(test, ended, 2U);
	KUNIT_EXPECT_FALSE(test, wheel_holds(t));
	wheel_count(wheel, &c);
	KUNIT_EXPECT_EQ(test, 0UL, c.expired);
	KUNIT_EXPECT_EQ(test, 2UL, c.cancelled);
	KUNIT_EXPECT_EQ(test, 0UL, c.pending);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel->places));
	KUNIT_EXPECT_TRUE(test, wheel_shutdown(wheel));
	wheel_sweep(wheel, NULL);
	wheel_free(wheel);
}

/* What is due in the meantime is not cancelled, whatever part of the table it is in. */
static void cancelled_for_no_other(struct kunit *test)
{
	static const struct wheel_shape shape = { .tick_ns = MS, .slots = 64 };
	struct hwtimer_wheel *wheel = kunit_kzalloc(test, sizeof(*wheel), GFP_KERNEL);
	const unsigned int n = 1000;
	struct hwtimer_timeout *t = kunit_kcalloc(test, n + 1, sizeof(*t), GFP_KERNEL);
	struct wheel_counts c;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, wheel);
	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_EQ(test, 0, wheel_init(wheel, &shape, &hand_ops, GFP_KERNEL));
	for (i = 0; i <= n; i++)
		wheel_timeout_init(&t[i], wheel, note_current);
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, 0, wheel_arm(&t[i], 5 * MS));
	KUNIT_EXPECT_EQ(test, 1U, end_rearmed(test, &t[n], 1));
	wheel_count(wheel, &c);
	KUNIT_EXPECT_EQ(test, (unsigned long)n, c.expired);
	KUNIT_EXPECT_EQ(test, 2UL, c.cancelled);
	KUNIT_EXPECT_EQ(test, 0UL, c.pending);
	KUNIT_EXPECT_TRUE(test, wheel_shutdown(wheel));
	wheel_sweep(wheel, NULL);
	wheel_free(wheel);
}

/* Cancels what the stop is about to hand back. */
static void cancel_linked(void)
{
	if (handed.looking || list_empty(&handed.pending))
		return;
	handed.looking = true;
	handed.unlinked |= hwtimer_cancel(handed.t);
	handed.looking = false;
}

/* What is cancelled while the stop hands it back is not on the list. */
static void handed_back_cancelled(struct kunit *test)
{
	hand_back(test, cancel_linked);
	KUNIT_EXPECT_TRUE(test, handed.unlinked);
	KUNIT_EXPECT_EQ(test, 0, handed.back);
}

/* Who has taken it upon himself to wake the worker does so before any interrupt. */
static struct {
	struct hwtimer_wheel	*wheel;
	bool			kicked;
	bool			open;
} bell;

static void look_at_bell(void)
{
	if (!bell.kicked && !atomic64_read(&bell.wheel->kick_below) && !irqs_disabled())
		bell.open = true;
}

static void bell_kick(struct hwtimer_wheel *w)
{
	bell.open |= !irqs_disabled();
	bell.kicked = true;
}

static const struct wheel_ops bell_ops = {
	.kick	= bell_kick,
	.expire	= hand_expire,
};

static void kick_uninterrupted(struct kunit *test)
{
	static const struct wheel_shape shape = { .tick_ns = MS, .slots = 64 };
	struct hwtimer_timeout *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	memset(&bell, 0, sizeof(bell));
	bell.wheel = kunit_kzalloc(test, sizeof(*bell.wheel), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_NOT_NULL(test, bell.wheel);
	KUNIT_ASSERT_EQ(test, 0, wheel_init(bell.wheel, &shape, &bell_ops, GFP_KERNEL));
	wheel_timeout_init(t, bell.wheel, note_current);
	WRITE_ONCE(hwtimer_step_hook, look_at_bell);
	KUNIT_EXPECT_EQ(test, 0, wheel_arm(t, 5 * MS));
	WRITE_ONCE(hwtimer_step_hook, NULL);
	KUNIT_EXPECT_TRUE(test, bell.kicked);
	KUNIT_EXPECT_FALSE(test, bell.open);
	KUNIT_EXPECT_FALSE(test, irqs_disabled());
	KUNIT_EXPECT_TRUE(test, wheel_cancel(t));
	KUNIT_EXPECT_TRUE(test, wheel_shutdown(bell.wheel));
	wheel_sweep(bell.wheel, NULL);
	wheel_free(bell.wheel);
}

static int moments_suite_init(struct kunit_suite *suite)
{
	/* Timers are no better than a jiffy before the machine's first ones. */
	nap(SEC);
	return 0;
}

static struct kunit_case moments_cases[] = {
	KUNIT_CASE(interrupted_task),
	KUNIT_CASE(stop_about_to_sleep),
	KUNIT_CASE(never_too_few),
	KUNIT_CASE(handed_back_linked),
	KUNIT_CASE(kick_uninterrupted),
	KUNIT_CASE(handed_back_cancelled),
	KUNIT_CASE(cancelled_for_no_other),
	KUNIT_CASE(cancelled_for_three),
	{}
};

static struct kunit_suite moments_suite = {
	.name		= "hwtimer_moments",
	.suite_init	= moments_suite_init,
	.test_cases	= moments_cases,
};

kunit_test_suites(&moments_suite);
