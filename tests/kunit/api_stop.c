// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: cases of KUnit suite hwtimer_api: stopping a wheel.
 */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/sched.h>

#include "hwtimer_kunit.h"
#include "api.h"

void stop(struct kunit *test)
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
	/* j[2] to j[6], and j[8] unless it has just expired */
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
	/* a second stop returns an empty list */
	pending.next = NULL;
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &pending));
	KUNIT_EXPECT_TRUE(test, list_empty(&pending));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
}

/* A wheel that was never used, and one whose worker sleeps for ever. */
void stop_asleep(struct kunit *test)
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
void stop_from_callback(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 2);

	j[0].then = then_stop;
	hwtimer_schedule(&j[0].t, 0);
	hwtimer_schedule(&j[1].t, SEC);
	nap(500 * MS);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_EQ(test, -EDEADLK, j[0].ret);
	/* the wheel still works */
	KUNIT_EXPECT_EQ(test, (int)QUEUE_STARTED, wheel->state);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, 10 * SEC));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[1].fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
}

/* A callback may stop another wheel. */
static void then_stop_other(struct job *j)
{
	struct list_head pending;

	j->ret = hwtimer_wheel_stop(j->other->t.wheel, &pending);
	KUNIT_EXPECT_PTR_EQ(j->test, pending.next, &j->other->t.node);
}

void stop_other_from_callback(struct kunit *test)
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
	/* also for the caller that does not get the list */
	KUNIT_EXPECT_TRUE(h->jobs->test, h->jobs->over);
	KUNIT_EXPECT_EQ(h->jobs->test, 0UL, hwtimer_wheel_pending(h->wheel));
	list_for_each(pos, &h->list)
		h->n++;
}

/* Two stops at a time wait for a callback; one of them gets the list. Promise 8. */
void stop_twice(struct kunit *test)
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

/* Stop, and fail if a release function that the stop calls waits for the stop itself. */
static void stop_by_helper(struct kunit *test, struct helper *h)
{
	bool hangs;

	help(test, h, stop_and_count);
	hangs = !helped(h);
	KUNIT_EXPECT_FALSE_MSG(test, hangs, "stop waits for itself");
	if (hangs) {
		/* Drain in place of the stop, so that it ends. */
		queue_drain_all(h->wheel);
		KUNIT_ASSERT_TRUE(test, helped(h));
	}
}

/*
 * Release functions that a stop calls in place of the worker may wait for another timeout, as in
 * the worker. The worker first calls the function of the last release, which takes long. When that
 * returns, the worker has been told to end, and its budget ends before the first release.
 */
void stop_releases(struct kunit *test)
{
	enum { PLENTY = QUEUE_BUDGET + 1, N = PLENTY + 2 };
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, N);
	struct helper h = { .wheel = wheel, .jobs = j };
	unsigned int i;

	j[0].other = &j[1];
	hwtimer_schedule(&j[0].t, 50 * SEC);
	hwtimer_schedule(&j[1].t, 50 * SEC);
	nap(500 * MS);
	/* The worker must not drain before all of them are released. */
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
