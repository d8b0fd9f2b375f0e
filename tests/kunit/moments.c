// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_moments: each case brings about a race at one point of the code: a
 * slice that interrupts a task, a stop as the worker goes to sleep, an expiry during the arm. For
 * one CPU, with the hook between the steps of the module.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "../../core/hwtimer_compat.h"
#include "../../core/hwtimer_driver.h"
#include "hwtimer_kunit.h"
#include "step.h"

#define SEC		NSEC_PER_SEC
#define MS		NSEC_PER_MSEC

static struct hwtimer_wheel *make(struct kunit *test)
{
	const struct hwtimer_wheel_params params = {
		.name = "moments", .tick_ns = MS, .slots = 64,
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

/* A stop between the worker's last check and its sleep does not wait for the next expiry. */
static void stop_about_to_sleep(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test);
	struct hwtimer_timeout t;
	u64 began;

	hwtimer_init_on_stack(&t, wheel, note_current);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&t, 3600 * SEC));
	/* Until the worker has found that no more is armed, and sleeps until the deadline. */
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

/* A wheel that is driven by hand, at step @n of the arm. */
static struct {
	struct hwtimer_wheel	*wheel;
	u64			now;
	unsigned int		step;
	unsigned int		n;
	struct queue_counts	counts;
} overtaken;

static void hand_kick(struct hwtimer_wheel *w)
{
}

static void hand_call(struct hwtimer_wheel *w, struct hwtimer_timeout *t, hwtimer_fn_t fn,
		      u64 deadline)
{
	fn(t);
}

static const struct queue_ops hand_ops = {
	.kick	= hand_kick,
	.call	= hand_call,
};

static struct hwtimer_wheel *hand_wheel(struct kunit *test, const struct queue_ops *ops,
					unsigned long cap)
{
	const struct hwtimer_wheel_params shape = { .tick_ns = MS, .slots = 64, .cap = cap };
	struct hwtimer_wheel *wheel = kunit_kzalloc(test, sizeof(*wheel), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, wheel);
	KUNIT_ASSERT_EQ(test, 0, queue_init(wheel, &shape, ops));
	return wheel;
}

static struct hwtimer_timeout *hand_timeouts(struct kunit *test, struct hwtimer_wheel *wheel,
					     unsigned int n)
{
	struct hwtimer_timeout *t = kunit_kcalloc(test, n, sizeof(*t), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	for (i = 0; i < n; i++)
		queue_timeout_init(&t[i], wheel, note_current);
	return t;
}

static void advance(struct hwtimer_wheel *wheel, u64 now)
{
	while (queue_advance(wheel, now, QUEUE_BUDGET))
		;
}

static void free_hand_wheel(struct kunit *test, struct hwtimer_wheel *wheel)
{
	KUNIT_EXPECT_TRUE(test, queue_shutdown(wheel));
	queue_sweep(wheel, NULL);
	queue_free(wheel);
}

static void overtake(void)
{
	if (++overtaken.step != overtaken.n)
		return;
	overtaken.now += MS;
	advance(overtaken.wheel, overtaken.now);
	queue_count(overtaken.wheel, &overtaken.counts);
}

/* An arming is counted before it can end, so the pending count never drops below zero. */
static void never_too_few(struct kunit *test)
{
	struct hwtimer_timeout *t;
	unsigned int n;
	bool reached;

	memset(&overtaken, 0, sizeof(overtaken));
	overtaken.wheel = hand_wheel(test, &hand_ops, 0);
	t = hand_timeouts(test, overtaken.wheel, 1);
	for (n = 1, reached = true; reached; n++) {
		queue_timeout_init(t, overtaken.wheel, note_current);
		overtaken.n = n;
		overtaken.step = 0;
		memset(&overtaken.counts, 0, sizeof(overtaken.counts));
		WRITE_ONCE(hwtimer_step_hook, overtake);
		KUNIT_EXPECT_EQ(test, 0, queue_arm(t, 0));
		WRITE_ONCE(hwtimer_step_hook, NULL);
		reached = overtaken.step >= n;
		KUNIT_EXPECT_LE_MSG(test, overtaken.counts.pending, 1UL, "at step %u", n);
		/* Should it not have expired by now. */
		overtaken.now += 2 * MS;
		advance(overtaken.wheel, overtaken.now);
		KUNIT_EXPECT_FALSE(test, queue_holds(t));
	}
	/* The read of the word, the count of producers in flight, the push, the kick. */
	KUNIT_EXPECT_GT(test, n, 4);
	queue_count(overtaken.wheel, &overtaken.counts);
	KUNIT_EXPECT_EQ(test, (unsigned long)n - 1, overtaken.counts.expired);
	free_hand_wheel(test, overtaken.wheel);
}

/* A timeout that a stop hands back, at each step of the stop. */
static struct {
	struct hwtimer_timeout	*t;
	struct list_head	pending;
	unsigned int		steps;
	bool			inside;
	bool			unlinked;
	size_t			back;
} handed;

static void check_list(void)
{
	/* queue_holds() has steps of its own. */
	if (handed.inside)
		return;
	handed.inside = true;
	handed.steps++;
	if (!queue_holds(handed.t) && list_empty(&handed.pending))
		handed.unlinked = true;
	handed.inside = false;
}

/* A stop hands back a timeout, and @hook runs at each step of the stop. */
static void hand_back(struct kunit *test, void (*hook)(void))
{
	struct hwtimer_wheel *wheel = make(test);
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

/* When the wheel no longer holds a timeout that was pending, the timeout is on the list. */
static void handed_back_linked(struct kunit *test)
{
	hand_back(test, check_list);
	KUNIT_EXPECT_GT(test, handed.steps, 2);
	KUNIT_EXPECT_FALSE(test, handed.unlinked);
	KUNIT_EXPECT_EQ(test, 1, handed.back);
}

/* Tasks that wait for a timeout of a wheel that is driven by hand. */
static struct ender {
	struct hwtimer_timeout	*t;
	struct completion	done;
	unsigned int		ended;
} enders[3];

static int ender_fn(void *data)
{
	struct ender *e = data;

	e->ended = queue_end_sync(e->t, queue_cancel, MAX_SCHEDULE_TIMEOUT);
	kthread_complete_and_exit(&e->done, 0);
}

/* @n tasks end @t, which is armed @times more meanwhile. Returns how many armings they ended. */
static unsigned int end_rearmed(struct kunit *test, struct hwtimer_timeout *t, unsigned int n,
				unsigned int times)
{
	unsigned int i, tries, ended = 0;

	KUNIT_EXPECT_EQ(test, 0, queue_arm(t, 5 * MS));
	advance(t->wheel, 0);
	for (i = 0; i < n; i++) {
		enders[i].t = t;
		init_completion(&enders[i].done);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(ender_fn, &enders[i], "ender"));
		nap(MS);
	}
	/* A callback that had begun by then could do the same. */
	for (i = 0; i < times; i++) {
		KUNIT_EXPECT_EQ(test, 0, queue_arm(t, 5 * MS));
		advance(t->wheel, (5 + i) * MS);
	}
	for (i = 0; i < n; i++) {
		/* A waiter that was woken during a pass may have detached @t again: advance. */
		for (tries = 0; tries < 1000 && !completion_done(&enders[i].done); tries++) {
			nap(MS);
			advance(t->wheel, 5 * MS);
		}
		KUNIT_ASSERT_TRUE(test, completion_done(&enders[i].done));
		ended += enders[i].ended;
	}
	return ended;
}

/* All waiters are woken; what the worker cancels for them is cancelled and counted once. */
static void cancelled_for_three(struct kunit *test)
{
	struct hwtimer_wheel *wheel = hand_wheel(test, &hand_ops, 1);
	struct hwtimer_timeout *t = hand_timeouts(test, wheel, 1);
	struct queue_counts c;

	KUNIT_EXPECT_EQ(test, 2U, end_rearmed(test, t, 3, 1));
	KUNIT_EXPECT_FALSE(test, queue_holds(t));
	queue_count(wheel, &c);
	KUNIT_EXPECT_EQ(test, 0UL, c.expired);
	KUNIT_EXPECT_EQ(test, 2UL, c.cancelled);
	KUNIT_EXPECT_EQ(test, 0UL, c.pending);
	KUNIT_EXPECT_EQ(test, 0UL, places_taken(wheel->places));
	free_hand_wheel(test, wheel);
}

/* The worker cancels again for a waiter that has not run since. */
static void cancelled_twice_for_one(struct kunit *test)
{
	struct hwtimer_wheel *wheel = hand_wheel(test, &hand_ops, 1);
	struct hwtimer_timeout *t = hand_timeouts(test, wheel, 1);
	struct queue_counts c;
	unsigned int ended;

	ended = end_rearmed(test, t, 1, 2);
	queue_count(wheel, &c);
	/* On a preemptible kernel it may have run, and have left before the last arming. */
	KUNIT_EXPECT_EQ(test, (unsigned long)ended, c.cancelled);
	KUNIT_EXPECT_EQ(test, 3UL, c.cancelled + c.expired);
	free_hand_wheel(test, wheel);
}

/* Timeouts without a waiter expire, whichever bucket of the table of waiters is theirs. */
static void cancelled_for_no_other(struct kunit *test)
{
	struct hwtimer_wheel *wheel = hand_wheel(test, &hand_ops, 0);
	const unsigned int n = 1000;
	struct hwtimer_timeout *t = hand_timeouts(test, wheel, n + 1);
	struct queue_counts c;
	unsigned int i;

	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, 0, queue_arm(&t[i], 5 * MS));
	KUNIT_EXPECT_EQ(test, 2U, end_rearmed(test, &t[n], 1, 1));
	queue_count(wheel, &c);
	KUNIT_EXPECT_EQ(test, (unsigned long)n, c.expired);
	KUNIT_EXPECT_EQ(test, 2UL, c.cancelled);
	KUNIT_EXPECT_EQ(test, 0UL, c.pending);
	free_hand_wheel(test, wheel);
}

/* Cancels the timeout that the stop is about to hand back. */
static void cancel_linked(void)
{
	if (handed.inside || list_empty(&handed.pending))
		return;
	handed.inside = true;
	handed.unlinked |= hwtimer_cancel(handed.t);
	handed.inside = false;
}

/* A timeout that is cancelled while the stop hands it back is not on the list. */
static void handed_back_cancelled(struct kunit *test)
{
	hand_back(test, cancel_linked);
	KUNIT_EXPECT_TRUE(test, handed.unlinked);
	KUNIT_EXPECT_EQ(test, 0, handed.back);
}

/* A producer that has set @kick_below to 0 kicks before it can be interrupted. */
static struct {
	struct hwtimer_wheel	*wheel;
	bool			kicked;
	bool			open;
} kick;

static void check_irqs(void)
{
	if (!kick.kicked && !atomic64_read(&kick.wheel->kick_below) && !irqs_disabled())
		kick.open = true;
}

static void kick_noted(struct hwtimer_wheel *w)
{
	kick.open |= !irqs_disabled();
	kick.kicked = true;
}

static const struct queue_ops kick_ops = {
	.kick	= kick_noted,
	.call	= hand_call,
};

static void kick_uninterrupted(struct kunit *test)
{
	struct hwtimer_timeout *t;

	memset(&kick, 0, sizeof(kick));
	kick.wheel = hand_wheel(test, &kick_ops, 0);
	t = hand_timeouts(test, kick.wheel, 1);
	WRITE_ONCE(hwtimer_step_hook, check_irqs);
	KUNIT_EXPECT_EQ(test, 0, queue_arm(t, 5 * MS));
	WRITE_ONCE(hwtimer_step_hook, NULL);
	KUNIT_EXPECT_TRUE(test, kick.kicked);
	KUNIT_EXPECT_FALSE(test, kick.open);
	KUNIT_EXPECT_FALSE(test, irqs_disabled());
	KUNIT_EXPECT_TRUE(test, queue_cancel(t));
	free_hand_wheel(test, kick.wheel);
}

static struct places *stepped;

static void take_another(void)
{
	WRITE_ONCE(hwtimer_step_hook, NULL);
	places_take(stepped);
}

/* An interrupt opens the CPU while places_take() is about to do so: it gets one credit, not two. */
static void opened_by_interrupt(struct kunit *test)
{
	stepped = places_create(4 * 16 * num_possible_cpus());
	KUNIT_ASSERT_NOT_NULL(test, stepped);
	WRITE_ONCE(hwtimer_step_hook, take_another);
	KUNIT_EXPECT_TRUE(test, places_take(stepped));
	KUNIT_EXPECT_PTR_EQ(test, NULL, READ_ONCE(hwtimer_step_hook));
	KUNIT_EXPECT_EQ(test, 16 - 1, atomic_read(raw_cpu_ptr(stepped->credit)));
	KUNIT_EXPECT_EQ(test, 4L * 16 * num_possible_cpus() - 16 - 1,
			atomic_long_read(&stepped->free));
	places_free(stepped);
}

static struct kunit_case moments_cases[] = {
	KUNIT_CASE(stop_about_to_sleep),
	KUNIT_CASE(never_too_few),
	KUNIT_CASE(handed_back_linked),
	KUNIT_CASE(kick_uninterrupted),
	KUNIT_CASE(opened_by_interrupt),
	KUNIT_CASE(handed_back_cancelled),
	KUNIT_CASE(cancelled_for_no_other),
	KUNIT_CASE(cancelled_for_three),
	KUNIT_CASE(cancelled_twice_for_one),
	{}
};

SUITE(moments, "moments", .suite_init = settle_timers);
