// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: cases of KUnit suite hwtimer_api: releases, and hwtimer_wheel_barrier().
 */
#include <kunit/test.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "hwtimer_kunit.h"
#include "api.h"

void release(struct kunit *test)
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
	/* soon, without waiting for a tick at which a timeout is due */
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

/* A release function is not called before the callback has returned. Promise 4. */
void release_running(struct kunit *test)
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
	/* @j may not be freed yet */
	KUNIT_EXPECT_EQ(j->test, 0, j->released);
}

/* A connection with two timeouts ends in the callback of one: release this, cancel the other. */
void release_self(struct kunit *test)
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

/* Timeouts that were never armed, pending, expired or cancelled when they were released. */
void waits_for_released(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 6);
	unsigned int i;

	/* without a release, on a wheel that was never used */
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
	/* other timeouts are not affected */
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

/* A barrier waits for a callback that runs, whether or not its timeout was released. */
void waits_for_callback(struct kunit *test)
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

/* A barrier in a callback does not wait for that callback. */
void barrier_from_callback(struct kunit *test)
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

/* Several barriers at a time, more releases than fit into the budget of a pass, and a stop. */
void barriers(struct kunit *test)
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

/* Releases its timeout again, until @over is set; @fired counts the calls during a barrier. */
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

/* A barrier ends although releases never stop: it waits only for older ones. Promise 13. */
void barrier_in_stream(struct kunit *test)
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
	/* The rest of the release cycle that has begun, and another cycle. */
	KUNIT_EXPECT_LE(test, j[0].fired, 2);
	WRITE_ONCE(j[0].over, true);
	hwtimer_wheel_barrier(wheel);
	KUNIT_EXPECT_LT(test, 1, j[0].released);
}
