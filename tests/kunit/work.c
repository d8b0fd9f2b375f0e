// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite of the timeouts that run on a workqueue, with the worker's
 * kthread, real workqueues and the machine's clock.
 *
 * Made for User-Mode Linux with time-travel=inf-cpu, where the clock stands still
 * while anything runs, and sleeping takes no time.
 */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/prandom.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "work_rig.h"

/* Cancel in each state, and what it returns. */
static void cancel(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	struct item *q = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);

	/* idle, pending, done */
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i->w));
	hwtimer_work_schedule(&i->w, SEC);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i->w));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 0, i->runs);
	expire(i, 1);
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i->w));

	/* running; running and due; running and pending */
	i->nap = SEC;
	expire(i, 1);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i->w));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancelled(&i->w));
	expire(i, 2);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i->w));
	hwtimer_work_schedule(&i->w, SEC);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
	expect_counts(test, wheel, 4, 2, 0, 2, 0);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i->ended);
	KUNIT_EXPECT_EQ(test, 1, i->cancelled);
	/* the cancel does not affect the next run */
	expire(i, 1);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancelled(&i->w));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i->cancelled);

	/* queued; queued and cancelled; expired again while its cancelled entry is queued */
	block(test, wheel, SEC);
	expire(q, 1);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_is_pending(&q->w));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&q->w));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&q->w));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&q->w));
	expire(q, 1);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&q->w));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 0, q->runs);
	expect_counts(test, wheel, 8, 4, 0, 4, 0);
	block(test, wheel, SEC);
	expire(q, 1);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&q->w));
	expire(q, 1);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, q->ended);
	KUNIT_EXPECT_EQ(test, 0, q->cancelled);
	expect_counts(test, wheel, 11, 6, 0, 5, 0);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->active));
}

static void cancel_sync(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 5);
	struct item *q = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 2);
	u64 now;

	/* idle, pending, done, cancelled */
	hwtimer_work_schedule(&i[1].w, 50 * SEC);
	hwtimer_work_schedule(&i[3].w, 50 * SEC);
	expire(&i[2], 1);
	hwtimer_work_cancel(&i[3].w);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i[0].w));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i[1].w));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i[1].w));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i[2].w));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i[3].w));
	KUNIT_EXPECT_EQ(test, 1, i[2].ended);
	expect_nobody(&i[0]);
	expect_nobody(&i[1]);
	expect_nobody(&i[2]);
	expect_nobody(&i[3]);

	/* queued; queued and cancelled: the call does not wait for the workqueue */
	block(test, wheel, 10 * SEC);
	now = ktime_get_ns();
	expire(&q[0], 2);
	expire(&q[1], 1);
	hwtimer_work_cancel(&q[1].w);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&q[0].w));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&q[1].w));
	KUNIT_EXPECT_LT(test, ktime_get_ns(), now + SEC);
	/* the item can be used again */
	expire(&q[0], 1);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&q[0].w));
	expect_nobody(&q[0]);
	expect_nobody(&q[1]);
	expect_counts(test, wheel, 6, 2, 0, 4, 0);

	/* running, also with another run due, or pending: the call waits */
	i[4].nap = SEC;
	expire(&i[4], 1);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i[4].w));
	KUNIT_EXPECT_EQ(test, 1, i[4].ended);
	KUNIT_EXPECT_EQ(test, 1, i[4].cancelled);
	expire(&i[4], 2);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i[4].w));
	KUNIT_EXPECT_EQ(test, 2, i[4].ended);
	expire(&i[4], 1);
	hwtimer_work_schedule(&i[4].w, 50 * SEC);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i[4].w));
	KUNIT_EXPECT_EQ(test, 3, i[4].ended);
	expect_nobody(&i[4]);
	nap(100 * SEC);
	KUNIT_EXPECT_EQ(test, 0, q[0].runs + q[1].runs);
	KUNIT_EXPECT_EQ(test, 3, i[4].runs);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->active));
}

struct armer {
	struct hwtimer_timeout	t;
	struct item		*i;
};

static void armer_fn(struct hwtimer_timeout *t)
{
	hwtimer_work_schedule(&container_of(t, struct armer, t)->i->w, 0);
}

/* A callback of the wheel arms the item while hwtimer_work_cancel_sync() waits for its run. */
static void cancel_sync_drops(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	struct armer *armer = kunit_kzalloc(test, sizeof(*armer), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, armer);
	armer->i = i;
	i->nap = SEC;
	hwtimer_init(&armer->t, wheel, armer_fn);
	expire(i, 1);
	hwtimer_schedule(&armer->t, 500 * MS);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i->w));
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	KUNIT_EXPECT_EQ(test, 2UL, wheel_lanes(wheel)->dispatched);
	KUNIT_EXPECT_EQ(test, 1L, atomic_long_read(&wheel_lanes(wheel)->cancelled));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i->runs);
	/* the item is usable again, and the next call does not report that cancel again */
	expire(i, 1);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i->ended);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i->w));
}

static void then_cancel_sync(struct item *i)
{
	i->ret = hwtimer_work_cancel_sync(&(i->other ?: i)->w);
}

static void then_shutdown_sync(struct item *i)
{
	i->ret = hwtimer_work_shutdown_sync(&i->w);
}

static void then_rearm_cancel_sync(struct item *i)
{
	again(i);
	nap(SOON);
	again(i);
	KUNIT_EXPECT_TRUE(i->test, hwtimer_work_is_pending(&i->w));
	then_cancel_sync(i);
	KUNIT_EXPECT_FALSE(i->test, hwtimer_work_is_pending(&i->w));
	KUNIT_EXPECT_TRUE(i->test, hwtimer_work_cancelled(&i->w));
}

static void cancel_sync_self(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);

	i->then = then_cancel_sync;
	expire(i, 1);
	KUNIT_EXPECT_EQ(test, -EDEADLK, i->ret);
	i->then = then_rearm_cancel_sync;
	i->ret = 0;
	expire(i, 1);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, -EDEADLK, i->ret);
	KUNIT_EXPECT_EQ(test, 2, i->runs);
	expect_counts(test, wheel, 3, 2, 0, 1, 0);
	/* the item keeps working until it is shut down */
	i->then = then_shutdown_sync;
	i->ret = 0;
	expire(i, 1);
	KUNIT_EXPECT_EQ(test, -EDEADLK, i->ret);
	KUNIT_EXPECT_EQ(test, 3, i->ended);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_schedule(&i->w, 0));
}

/* An item cancelled synchronously by its own refused callback, which must not sleep otherwise. */
static void cancel_sync_refused(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_DISCARD, 1);

	i->nap = SEC;
	i->on_refusal = then_cancel_sync;
	expire(i, 2);
	KUNIT_EXPECT_EQ(test, -EDEADLK, i->ret);
	KUNIT_EXPECT_EQ(test, 0, i->ended);
	nap(5 * SEC);
	expire(i, 1);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i->ended);
}

/* An item cancelled by the function of another one, which occupies the workqueue of both. */
static void cancel_sync_other(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);
	struct hwtimer_work_params params = { .wq = single(test) };
	struct item *q = items(test, NULL, NULL, 0, 1);

	/* Initialised here to have a lockdep class of its own. */
	KUNIT_ASSERT_EQ(test, 0, hwtimer_work_init(&q->w, wheel, item_run, &params));
	i->nap = SEC;
	i->then = then_cancel_sync;
	i->other = q;
	expire(i, 1);
	expire(q, 2);
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i->ret);
	expect_nobody(q);
	KUNIT_EXPECT_EQ(test, 0, q->runs);
	expect_nobody(i);
}

/* Items that arm themselves with each run: short runs, runs of several ticks, long ones. */
static void rearming(struct kunit *test)
{
	static const s64 naps[] = { 0, 35 * MS, 300 * MS };
	struct hwtimer_wheel *wheel = a_wheel(test);
	unsigned int k, n, runs;

	for (k = 0; k < ARRAY_SIZE(naps); k++) {
		struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 2);

		for (n = 0; n < 2; n++) {
			i[n].nap = naps[k];
			i[n].then = again;
			again(&i[n]);
		}
		nap(10 * SEC + 3 * MS);
		KUNIT_EXPECT_GE(test, i[0].runs, 30);
		KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i[0].w));
		KUNIT_EXPECT_EQ(test, i[0].runs, i[0].ended);
		runs = i[0].runs;
		i[1].then = once_more;
		hwtimer_work_shutdown_sync(&i[1].w);
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_schedule(&i[1].w, 0));
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_touch(&i[1].w, 0));
		nap(10 * SEC);
		KUNIT_EXPECT_EQ(test, runs, i[0].runs);
		expect_nobody(&i[0]);
		expect_nobody(&i[1]);
	}
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
}

static void then_arm_backlog(struct item *i)
{
	/* the run before may have armed the item already */
	once_more(i);
	nap(SOON);
	once_more(i);
}

/* Whenever a run ends, the next one is due, and one more is pending. */
static void rearming_backlog(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	unsigned int runs;

	i->then = then_arm_backlog;
	again(i);
	nap(SEC);
	KUNIT_EXPECT_GT(test, i->runs, 10);
	runs = i->runs;
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i->w));
	KUNIT_EXPECT_LE(test, i->runs, runs + 1);
	runs = i->runs;
	nap(SEC);
	KUNIT_EXPECT_EQ(test, runs, i->runs);
	expect_nobody(i);
}

/* Release in each state. The owner may reuse the memory in the released callback. */
static void release(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 5);
	struct item *q = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 2);
	unsigned int k;

	/* idle, pending, done */
	expire(&i[2], 1);
	hwtimer_work_schedule(&i[1].w, 50 * SEC);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[0].w, item_released));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_release(&i[1].w, item_released));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[2].w, item_released));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_schedule(&i[0].w, 0));
	nap(SOON);
	for (k = 0; k < 3; k++) {
		KUNIT_EXPECT_EQ(test, 1, i[k].released);
		expect_nobody(&i[k]);
	}

	/* running; running, due and pending */
	i[3].nap = SEC;
	i[4].nap = SEC;
	expire(&i[3], 1);
	expire(&i[4], 2);
	hwtimer_work_schedule(&i[4].w, 50 * SEC);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[3].w, item_released));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_release(&i[4].w, item_released));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancelled(&i[3].w));
	nap(SOON);
	for (k = 3; k < 5; k++)
		KUNIT_EXPECT_EQ(test, 0, i[k].released);
	nap(2 * SEC);
	for (k = 3; k < 5; k++) {
		KUNIT_EXPECT_EQ(test, 1, i[k].released);
		KUNIT_EXPECT_EQ(test, 1, i[k].runs);
		KUNIT_EXPECT_EQ(test, 1, i[k].cancelled);
		expect_nobody(&i[k]);
	}

	/* queued; queued and cancelled: released when the workqueue reaches the entry */
	block(test, wheel, SEC);
	expire(&q[0], 1);
	expire(&q[1], 1);
	hwtimer_work_cancel(&q[1].w);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_release(&q[0].w, item_released));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&q[1].w, item_released));
	nap(500 * MS);
	KUNIT_EXPECT_EQ(test, 0, q[0].released + q[1].released);
	nap(SEC);
	for (k = 0; k < 2; k++) {
		KUNIT_EXPECT_EQ(test, 1, q[k].released);
		KUNIT_EXPECT_EQ(test, 0, q[k].runs);
		expect_nobody(&q[k]);
	}
	expect_counts(test, wheel, 7, 4, 0, 3, 0);
	nap(100 * SEC);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->active));
}

static unsigned int freed, ran;

static void free_it(struct hwtimer_work *w)
{
	struct item *i = container_of(w, struct item, w);

	KUNIT_EXPECT_FALSE(i->test, work_pending(&w->work));
	freed++;
	memset(i, 0x6b, sizeof(*i));
	kfree(i);
}

static void release_it(struct hwtimer_work *w)
{
	struct item *i = container_of(w, struct item, w);
	s64 ns = i->nap;

	ran++;
	/* with another run due as well */
	if (ns)
		again(i);
	nap(ns);
	KUNIT_EXPECT_EQ(i->test, !!ns, hwtimer_work_release(w, free_it));
	KUNIT_EXPECT_TRUE(i->test, hwtimer_work_cancelled(w));
	KUNIT_EXPECT_EQ(i->test, -ESHUTDOWN, hwtimer_work_schedule(w, 0));
	/* With a nap, the worker handles the release while the function runs. */
	nap(ns);
}

/* Release by the function of the item. */
static void release_self(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	unsigned int k;

	freed = 0;
	ran = 0;
	for (k = 0; k < 8; k++) {
		struct item *i = kzalloc(sizeof(*i), GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, i);
		i->test = test;
		i->nap = k % 2 ? SOON : 0;
		KUNIT_EXPECT_EQ(test, 0, hwtimer_work_init(&i->w, wheel, release_it, NULL));
		again(i);
		if (k / 2 % 2)
			nap(SEC);
	}
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 8, ran);
	KUNIT_EXPECT_EQ(test, 8, freed);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->active));
}

static void then_release(struct item *i)
{
	KUNIT_EXPECT_FALSE(i->test, hwtimer_work_release(&i->w, item_released));
}

/* Release by the refused callback of the item. */
static void release_refused(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_DISCARD, 1);

	i->nap = SEC;
	i->on_refusal = then_release;
	expire(i, 2);
	nap(500 * MS);
	KUNIT_EXPECT_EQ(test, 0, i->released);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, i->released);
	KUNIT_EXPECT_EQ(test, 1, i->cancelled);
	expect_nobody(i);
}

/* Stopping a wheel hands back pending items; dispatched ones run. */
static void stop(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 4);
	struct item *q = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 2);
	struct hwtimer_timeout plain, *t;
	struct list_head pending;
	unsigned int n = 0, back = 0;

	block(test, wheel, SEC);
	i[0].nap = SEC;
	i[1].nap = SEC;
	i[3].nap = SEC;
	i[1].then = once_more;
	expire(&i[0], 2);
	expire(&i[1], 1);
	expire(&i[3], 1);
	expire(&q[0], 1);
	expire(&q[1], 1);
	hwtimer_work_schedule(&i[0].w, 50 * SEC);
	hwtimer_work_schedule(&i[2].w, 50 * SEC);
	hwtimer_init_on_stack(&plain, wheel, armer_fn);
	hwtimer_schedule(&plain, 50 * SEC);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &pending));
	list_for_each_entry(t, &pending, node) {
		if (t == &plain)
			KUNIT_EXPECT_NULL(test, hwtimer_work_of(t));
		else
			back += hwtimer_work_of(t) == &i[0].w || hwtimer_work_of(t) == &i[2].w;
		n++;
	}
	hwtimer_destroy_on_stack(&plain);
	KUNIT_EXPECT_EQ(test, 3, n);
	KUNIT_EXPECT_EQ(test, 2, back);
	KUNIT_EXPECT_EQ(test, 0, i[0].ended + i[1].ended);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_schedule(&i[2].w, 0));

	/* released at once; when the run ends; when the workqueue reaches it */
	KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[2].w, item_released));
	KUNIT_EXPECT_EQ(test, 1, i[2].released);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[3].w, item_released));
	KUNIT_EXPECT_EQ(test, 0, i[3].released);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_release(&q[1].w, item_released));
	KUNIT_EXPECT_EQ(test, 0, q[1].released);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i[0].ended);
	KUNIT_EXPECT_EQ(test, 1, i[1].ended);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, i[1].ret);
	KUNIT_EXPECT_EQ(test, 1, q[0].ended);
	KUNIT_EXPECT_EQ(test, 1, i[3].released);
	KUNIT_EXPECT_EQ(test, 1, q[1].released);
	KUNIT_EXPECT_EQ(test, 0, q[1].runs);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i[0].w));
}

/* Destroying a wheel waits for queued and running items, including those that arm themselves. */
static void destroy_waits(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 2);
	struct item *q = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);
	struct item *r = kzalloc(sizeof(*r), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, r);
	freed = 0;
	r->test = test;
	r->nap = 200 * MS;
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_init(&r->w, wheel, item_run, NULL));
	i[0].nap = 200 * MS;
	i[1].nap = 200 * MS;
	q->nap = 200 * MS;
	i[1].then = once_more;
	expire(q, 3);
	expire(&i[1], 1);
	expire(r, 2);
	expire(&i[0], 3);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_release(&r->w, free_it));
	unmake(test, wheel);
	KUNIT_EXPECT_EQ(test, 3, i[0].ended);
	KUNIT_EXPECT_EQ(test, 1, i[1].ended);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, i[1].ret);
	KUNIT_EXPECT_EQ(test, 3, q->ended);
	KUNIT_EXPECT_EQ(test, 1, freed);
	KUNIT_EXPECT_EQ(test, 0, work_busy(&q->w.work));
}

/* Destroying a wheel also waits for a cancelled item that is still queued. */
static void destroy_waits_cancelled(struct kunit *test)
{
	struct hwtimer_wheel *other = a_wheel(test), *wheel = a_wheel(test);
	struct item *q = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);
	struct item *b = block(test, other, SEC);

	expire(q, 1);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&q->w));
	unmake(test, wheel);
	KUNIT_EXPECT_EQ(test, 1, b->ended);
	KUNIT_EXPECT_EQ(test, 0, q->runs);
	KUNIT_EXPECT_EQ(test, 0, work_busy(&q->w.work));
}

/* Calls with interrupts disabled. */
static void contexts(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 4);
	unsigned long flags;

	i[2].nap = SEC;
	expire(&i[2], 2);
	local_irq_save(flags);
	hwtimer_work_schedule(&i[0].w, 0);
	hwtimer_work_schedule(&i[1].w, 50 * SEC);
	hwtimer_work_touch(&i[1].w, 40 * SEC);
	hwtimer_work_cancel(&i[1].w);
	hwtimer_work_cancel(&i[2].w);
	hwtimer_work_release(&i[3].w, item_released);
	KUNIT_EXPECT_TRUE(test, irqs_disabled());
	local_irq_restore(flags);
	nap(100 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i[0].ended);
	KUNIT_EXPECT_EQ(test, 0, i[1].runs);
	KUNIT_EXPECT_EQ(test, 1, i[2].ended);
	KUNIT_EXPECT_EQ(test, 1, i[3].released);
}

#define N_BOOKS	48

/* One operation on @j, chosen by the random numbers @r and @what. */
static void books_step(struct kunit *test, struct hwtimer_wheel *wheel, struct item *j, u32 r,
		       u32 what)
{
	j->nap = r % 7 ? r % 7 * 9 * MS : 0;
	j->then = r % 11 ? NULL : once_more;
	switch (what % 64) {
	case 0:
		nap(r % (300 * MS));
		break;
	case 1 ... 3:
		hwtimer_work_cancel(&j->w);
		break;
	case 4:
		j->then = NULL;
		hwtimer_work_cancel_sync(&j->w);
		KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&j->w));
		KUNIT_EXPECT_EQ(test, j->runs, j->ended);
		break;
	case 5:
		if (r % 8)
			break;
		hwtimer_work_release(&j->w, item_released);
		while (!j->released)
			nap(TICK);
		KUNIT_EXPECT_FALSE(test, wheel_holds(&j->w.timeout));
		KUNIT_EXPECT_EQ(test, j->runs, j->ended);
		KUNIT_EXPECT_EQ(test, 1, j->released);
		j->released = 0;
		memset(&j->w, 0x6b, sizeof(j->w));
		prepare(j, wheel, r % 4 ? NULL : single(test), r % 3);
		break;
	case 6 ... 9:
		hwtimer_work_touch(&j->w, r % (300 * MS));
		break;
	default:
		hwtimer_work_schedule(&j->w, r % (100 * MS));
		nap(r % (2 * MS));
	}
}

/* Check the counts of an idle wheel. */
static void books_balance(struct kunit *test, struct hwtimer_wheel *wheel,
			  const struct item *i)
{
	struct hwtimer_lanes *w = wheel_lanes(wheel);
	unsigned int k, refused = 0, runs = 0;
	struct wheel_counts c;

	for (k = 0; k < N_BOOKS; k++) {
		KUNIT_EXPECT_EQ(test, i[k].runs, i[k].ended);
		KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&i[k].w));
		runs += i[k].runs;
		refused += i[k].refused[0] + i[k].refused[1];
	}
	wheel_count(wheel, &c);
	kunit_info(test, "expired %lu = runs %u + refused %u + replaced %lu + cancelled %ld, slow %lu\n",
		   c.expired, runs, refused, w->replaced, atomic_long_read(&w->cancelled),
		   w->to_slow);
	KUNIT_EXPECT_EQ(test, c.expired, runs + refused + w->replaced +
			(unsigned long)atomic_long_read(&w->cancelled));
	KUNIT_EXPECT_EQ(test, (unsigned long)runs, (unsigned long)atomic_long_read(&w->runs));
	KUNIT_EXPECT_EQ(test, (unsigned long)refused, w->refused);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&w->queued));
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&w->active));
	/* each kind of end occurred often */
	KUNIT_EXPECT_GT(test, runs, 1000);
	KUNIT_EXPECT_GT(test, refused, 100);
	KUNIT_EXPECT_GT(test, w->replaced, 100UL);
	KUNIT_EXPECT_GT(test, atomic_long_read(&w->cancelled), 100L);
	KUNIT_EXPECT_GT(test, w->to_slow, 100UL);
}

/* Random operations; in the end each expiry must be accounted for once. */
static void books(struct kunit *test)
{
	struct hwtimer_wheel *wheel = work_wheel(test, HWTIMER_WHEEL_WORK, 30, 3, 12);
	struct item *i = items(test, NULL, NULL, 0, N_BOOKS), *j;
	u32 seed = (u32)ktime_get_real_ns(), r;
	struct rnd_state rnd;
	unsigned int k, n;

	kunit_info(test, "seed %u\n", seed);
	prandom_seed_state(&rnd, seed);
	for (k = 0; k < N_BOOKS; k++)
		prepare(&i[k], wheel, k % 4 ? NULL : single(test), k % 3);
	for (n = 0; n < 50000; n++) {
		j = &i[prandom_u32_state(&rnd) % N_BOOKS];
		r = prandom_u32_state(&rnd);
		books_step(test, wheel, j, r, prandom_u32_state(&rnd));
		KUNIT_EXPECT_LE(test, atomic_long_read(&wheel_lanes(wheel)->queued), 12L);
	}
	for (k = 0; k < N_BOOKS; k++)
		i[k].then = NULL;
	nap(100 * SEC);
	books_balance(test, wheel, i);
}

static int bench_init(struct kunit *test)
{
	struct bench *bench = kunit_kzalloc(test, sizeof(*bench), GFP_KERNEL);

	test->priv = bench;
	if (!bench)
		return -ENOMEM;
	bench->single = alloc_workqueue("hwt_kunit", WQ_UNBOUND, 1);
	return bench->single ? 0 : -ENOMEM;
}

static void bench_exit(struct kunit *test)
{
	struct bench *bench = test->priv;
	unsigned int n;

	if (!bench)
		return;
	for (n = 0; n < MAX_WHEELS; n++)
		hwtimer_wheel_destroy(bench->wheels[n]);
	if (bench->single)
		destroy_workqueue(bench->single);
}

static struct kunit_case work_cases[] = {
	KUNIT_CASE(runs),
	KUNIT_CASE(blocks_nobody),
	KUNIT_CASE(init_params),
	KUNIT_CASE(wheel_params),
	KUNIT_CASE(serial),
	KUNIT_CASE(serial_queued),
	KUNIT_CASE(discard),
	KUNIT_CASE(discard_queued),
	KUNIT_CASE(refused_by_nobody),
	KUNIT_CASE(replace),
	KUNIT_CASE(replace_queued),
	KUNIT_CASE(refused_rearms),
	KUNIT_CASE(bound),
	KUNIT_CASE(bound_replace),
	KUNIT_CASE(lanes),
	KUNIT_CASE(lanes_own_figures),
	KUNIT_CASE(lanes_over_the_minute),
	KUNIT_CASE(slow_holds_up_slow),
	KUNIT_CASE(cancel),
	KUNIT_CASE(cancel_sync),
	KUNIT_CASE(cancel_sync_drops),
	KUNIT_CASE(cancel_sync_self),
	KUNIT_CASE(cancel_sync_refused),
	KUNIT_CASE(cancel_sync_other),
	KUNIT_CASE(rearming),
	KUNIT_CASE(rearming_backlog),
	KUNIT_CASE(release),
	KUNIT_CASE(release_self),
	KUNIT_CASE(release_refused),
	KUNIT_CASE(stop),
	KUNIT_CASE(destroy_waits),
	KUNIT_CASE(destroy_waits_cancelled),
	KUNIT_CASE(callers_workqueue),
	KUNIT_CASE(contexts),
#ifdef CONFIG_UML
	KUNIT_CASE(each_step),
#endif
	KUNIT_CASE(books),
	{}
};

SUITE(work, "work", .init = bench_init, .exit = bench_exit);
