// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: cases of KUnit suite hwtimer_api: cancelling a timeout and waiting for its callback.
 */
#include <kunit/test.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "hwtimer_kunit.h"
#include "api.h"
#include "step.h"

/* Idle, queued, filed, cancelled and expired timeouts; after the call the owner may free them. */
void cancel_sync(struct kunit *test)
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
		KUNIT_EXPECT_FALSE(test, queue_holds(&j[i].t));
		KUNIT_EXPECT_EQ(test, i == 4, j[i].fired);
		memset(&j[i], 0x6b, sizeof(j[i]));
	}
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
	KUNIT_EXPECT_EQ(test, 0UL, wheel->wheel.filed);
	nap(100 * SEC);
}

/* Promise 4. */
void cancel_sync_waits(struct kunit *test)
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
	/* hwtimer_cancel() does not wait */
	KUNIT_EXPECT_FALSE(test, hwtimer_cancel(&j[0].t));
	KUNIT_EXPECT_FALSE(test, j[0].over);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_cancel_sync(&j[0].t));
	KUNIT_EXPECT_TRUE(test, j[0].over);
	KUNIT_EXPECT_FALSE(test, queue_holds(&j[0].t));
	nap(100 * MS);
	KUNIT_EXPECT_EQ(test, 1, j[1].fired);
}

/* Two callbacks in a row: the waiter for the first does not wait for the second. Promise 13. */
void cancel_sync_in_row(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);
	u64 deadline = hwtimer_wheel_now(wheel) + MS;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		j[i].then = then_nap;
		j[i].delay = 500 * MS;
		hwtimer_schedule_at(&j[i].t, deadline);
	}
	nap(100 * MS);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_FALSE(test, j[0].over);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_cancel_sync(&j[0].t));
	KUNIT_EXPECT_TRUE(test, j[0].over);
	KUNIT_EXPECT_FALSE(test, j[1].over);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_cancel_sync(&j[1].t));
	KUNIT_EXPECT_TRUE(test, j[1].over);
}

#ifdef CONFIG_UML	/* where the module has a hook between its steps */
/*
 * A task calls queue_holds(). At step @begins of that, or before if it is 0, the callback begins;
 * at step @ends the callback arms its timeout again and returns.
 */
static struct {
	struct task_struct	*task;
	struct job		*j;
	unsigned int		step;
	unsigned int		begins;
	unsigned int		ends;
	bool			go;
} reader;

static void then_rearm_later(struct job *j)
{
	while (!READ_ONCE(reader.go))
		nap(MS);
	hwtimer_schedule(&j->t, 50 * SEC);
}

static void reader_step(void)
{
	struct job *j = reader.j;

	if (current != reader.task)
		return;
	reader.step++;
	while (reader.step == reader.begins && !READ_ONCE(j->fired))
		nap(MS);
	if (reader.step != reader.ends)
		return;
	WRITE_ONCE(reader.go, true);
	while (READ_ONCE(j->t.wheel->running) == &j->t)
		nap(MS);
}

static void read_while_rearming(struct kunit *test, unsigned int begins, unsigned int ends)
{
	struct job *j = jobs(test, a_wheel(test), 1);

	j->then = then_rearm_later;
	reader.j = j;
	reader.step = 0;
	reader.begins = begins;
	reader.ends = ends;
	reader.go = false;
	hwtimer_schedule(&j->t, 0);
	while (!begins && !READ_ONCE(j->fired))
		nap(MS);

	reader.task = current;
	WRITE_ONCE(hwtimer_step_hook, reader_step);
	KUNIT_EXPECT_TRUE_MSG(test, queue_holds(&j->t), "%u to %u", begins, ends);
	WRITE_ONCE(hwtimer_step_hook, NULL);

	WRITE_ONCE(reader.go, true);
	hwtimer_cancel_sync(&j->t);
	KUNIT_EXPECT_FALSE(test, queue_holds(&j->t));
}

void holds_rearming(struct kunit *test)
{
	unsigned int begins, ends;

	for (begins = 0; begins <= 2; begins++)
		for (ends = max(begins, 1U); ends <= 2; ends++)
			read_while_rearming(test, begins, ends);
}
#endif

static void then_cancel_sync(struct job *j)
{
	struct job *whom = j->other ?: j;

	j->ret = hwtimer_cancel_sync(&whom->t);
	if (whom != j)
		KUNIT_EXPECT_FALSE(j->test, queue_holds(&whom->t));
}

void cancel_sync_self(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);

	j->then = then_cancel_sync;
	hwtimer_schedule(&j->t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);
	KUNIT_EXPECT_EQ(test, -EDEADLK, j->ret);
	/* the timeout can still be used */
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

/* The callback has armed its timeout again; the call ends that arming, too. */
void cancel_sync_self_rearmed(struct kunit *test)
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

/* From the callback of another timeout: idle, far, due in the same tick, and just armed. */
void cancel_sync_other(struct kunit *test)
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
	KUNIT_EXPECT_EQ(test, 0UL, wheel->wheel.filed);
}

void shutdown_sync(struct kunit *test)
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

/* While the callback runs, another task arms the timeout; then the callback does as well. */
void rearming_twice(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);

	j->then = then_nap_rearm;
	j->delay = 200 * MS;
	hwtimer_schedule(&j->t, 0);
	nap(100 * MS);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, SEC));
	KUNIT_EXPECT_EQ(test, 2, hwtimer_cancel_sync(&j->t));
	KUNIT_EXPECT_EQ(test, 0, j->ret);
	KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&j->t));
	KUNIT_EXPECT_FALSE(test, queue_holds(&j->t));
	KUNIT_EXPECT_EQ(test, 2UL, counts(wheel).cancelled);
	nap(3 * SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);
}

/* Takes longer than a tick and arms its timeout for the past: it is always due again. */
static void then_nap_rearm_past(struct job *j)
{
	j->over = false;
	then_nap(j);
	j->ret = hwtimer_schedule_at(&j->t, 0);
}

/* hwtimer_cancel_sync() waits for the callback that runs, and for no later one. Promise 13. */
void rearming_past(struct kunit *test)
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

/*
 * A task that waits for a timeout is not woken for the callbacks of others, of which there are some
 * meanwhile if it waits behind too many requests for the worker to handle between two callbacks.
 */
void waits_for_one(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 41 + QUEUE_BUDGET);
	struct helper h = { .jobs = &j[40] };
	unsigned int i;

	wheel->drain.share = QUEUE_BUDGET / 2;
	hwtimer_schedule(&j[40].t, 50 * SEC);
	nap(SEC);
	for (i = 0; i < 40; i++) {
		j[i].then = then_nap;
		j[i].delay = MS;
		hwtimer_schedule(&j[i].t, 0);
	}
	while (!READ_ONCE(j[0].fired))
		nap(MS / 10);
	for (i = 0; i < QUEUE_BUDGET; i++)
		hwtimer_schedule(&j[41 + i].t, 50 * SEC);
	help(test, &h, count_sleeps);
	KUNIT_ASSERT_TRUE(test, helped(&h));
	KUNIT_EXPECT_EQ(test, 1, h.ret);
	KUNIT_EXPECT_EQ(test, 1, j[39].fired);
	KUNIT_EXPECT_LE(test, h.n, 3);
}

/*
 * While a callback holds up the worker, a thread waits for a timeout that is filed, and before
 * the worker handles its request, @meanwhile is called.
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
	KUNIT_EXPECT_FALSE(test, queue_holds(&j[1].t));
}

static void release_job(struct job *j)
{
	hwtimer_release(&j->t, job_released);
}

void waits_while_released(struct kunit *test)
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

void waits_while_armed(struct kunit *test)
{
	wait_meanwhile(test, arm_job, 2);
	wait_meanwhile(test, arm_job_for_ever, 2);
}

static void then_nap_release(struct job *j)
{
	then_nap(j);
	release_job(j);
}

/* The callback releases its timeout while a thread waits for the callback. */
void waits_release_self(struct kunit *test)
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
	KUNIT_EXPECT_FALSE(test, queue_holds(&j->t));
	hwtimer_wheel_barrier(j->t.wheel);
	KUNIT_EXPECT_EQ(test, 1, j->released);
}

static void then_nap_cancel_sync(struct job *j)
{
	then_nap(j);
	j->ret = hwtimer_cancel_sync(&j->other->t);
}

/* A callback does not wait for a released timeout, whose function runs after the callback. */
void cancel_sync_released(struct kunit *test)
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
	/* The worker must not wait for itself. */
	if (j->other)
		j->ret = hwtimer_cancel_sync(&j->t);
}

/* The callback initialises its own timeout; other tasks wait for the callback all the same. */
void init_self(struct kunit *test)
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
		KUNIT_EXPECT_FALSE(test, queue_holds(&j[i].t));
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

/* An arm in a callback needs no kick, as the worker is awake. */
void no_kick_in_callback(struct kunit *test)
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
