// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite of the timeouts that run on a workqueue, with the worker's kthread, real
 * workqueues and the machine's clock.
 *
 * Made for User-Mode Linux with time-travel=inf-cpu, where the clock stands still while anything
 * runs, and sleeping takes no time.
 */
#include <linux/completion.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../../core/hwtimer_compat.h"
#include "../../core/hwtimer_driver.h"
#include "../../hwtimer_work.h"
#include "hwtimer_kunit.h"
#include "kunit_wheels.h"
#include "step.h"

#define MS	NSEC_PER_MSEC
#define SEC	NSEC_PER_SEC
#define TICK	(10 * MS)
/* After so long, an item scheduled without delay has expired, and has begun to run if it can. */
#define SOON	(2 * TICK)

/* A work item that records its runs. */
struct item {
	struct hwtimer_work	w;
	struct kunit		*test;
	/* a run takes @nap, then calls @then */
	s64			nap;
	void			(*then)(struct item *i);
	struct item		*other;
	int			ret;
	/* armings; those that re-arm do not count. Runs that began, and that ended */
	unsigned int		armed;
	unsigned int		runs;
	unsigned int		ended;
	unsigned int		released;
	/* start of the last run */
	u64			at;
};

static struct hwtimer_wheel *driven_wheel(struct kunit *test, u64 tick)
{
	struct hwtimer_wheel_params params = {
		.name = "kunit-work", .tick_ns = tick, .slots = 64,
	};

	return keep(test, hwtimer_wheel_create(&params));
}

static struct hwtimer_wheel *a_wheel(struct kunit *test)
{
	return driven_wheel(test, TICK);
}

/* A workqueue that runs one item at a time. */
static struct workqueue_struct *single(struct kunit *test)
{
	return ((struct bench *)test->priv)->single;
}

static void item_run(struct hwtimer_work *w)
{
	struct item *i = container_of(w, struct item, w);

	KUNIT_EXPECT_TRUE(i->test, current->flags & PF_WQ_WORKER);
	KUNIT_EXPECT_FALSE(i->test, in_interrupt() || irqs_disabled());
	/* the runs of one item never overlap, and follow no release */
	KUNIT_EXPECT_EQ(i->test, i->runs, i->ended);
	KUNIT_EXPECT_EQ(i->test, 0, i->released);
	i->at = ktime_get_ns();
	i->runs++;
	if (i->nap)
		nap(i->nap);
	if (i->then)
		i->then(i);
	i->ended++;
}

static void item_released(struct hwtimer_work *w)
{
	struct item *i = container_of(w, struct item, w);

	KUNIT_EXPECT_PTR_EQ(i->test, current_work(), &w->work);
	KUNIT_EXPECT_EQ(i->test, i->runs, i->ended);
	KUNIT_EXPECT_FALSE(i->test, work_pending(&w->work));
	i->released++;
}

static struct item *items(struct kunit *test, struct hwtimer_wheel *wheel,
			  struct workqueue_struct *wq, unsigned int n)
{
	struct item *i = kunit_kzalloc(test, n * sizeof(*i), GFP_KERNEL);
	unsigned int k;

	KUNIT_ASSERT_NOT_NULL(test, i);
	for (k = 0; k < n; k++) {
		i[k].test = test;
		hwtimer_work_init(&i[k].w, wheel, wq, item_run);
	}
	return i;
}

/* It may be armed already, or released. */
static void arm(struct item *i)
{
	i->ret = hwtimer_work_schedule(&i->w, 0);
	i->armed += !i->ret;
}

/* Let @i expire @n times, one tick or more apart. */
static void expire(struct item *i, unsigned int n)
{
	while (n--) {
		arm(i);
		KUNIT_EXPECT_EQ(i->test, 0, i->ret);
		nap(SOON);
	}
}

/* Keep the single workqueue busy for @ns. */
static struct item *block(struct kunit *test, struct hwtimer_wheel *wheel, s64 ns)
{
	struct item *i = items(test, wheel, single(test), 1);

	i->nap = ns;
	expire(i, 1);
	KUNIT_EXPECT_EQ(test, 1, i->runs);
	KUNIT_EXPECT_EQ(test, 0, i->ended);
	return i;
}

/* Neither the wheel nor a workqueue uses the item. */
static void expect_nobody(struct item *i)
{
	KUNIT_EXPECT_FALSE(i->test, queue_holds(&i->w.timeout));
	KUNIT_EXPECT_FALSE(i->test, hwtimer_is_pending(&i->w.timeout));
	KUNIT_EXPECT_EQ(i->test, 0, work_busy(&i->w.work));
	KUNIT_EXPECT_EQ(i->test, i->runs, i->ended);
	/* nor is anything remembered for its next use */
	KUNIT_EXPECT_EQ(i->test, 0LL, atomic64_read(&i->w.state));
}

/* And so its memory may be used for something else. */
static void reuse(struct item *i)
{
	expect_nobody(i);
	memset(&i->w, 0x6b, sizeof(i->w));
}

/* Items run on time, on any workqueue, or the kernel's. */
static void runs(struct kunit *test)
{
	struct workqueue_struct *wqs[] = { NULL, single(test), system_freezable_wq };
	struct hwtimer_wheel *wheel = a_wheel(test);
	unsigned int k;
	u64 now, due;

	for (k = 0; k < ARRAY_SIZE(wqs); k++) {
		struct item *i = items(test, wheel, wqs[k], 1);

		KUNIT_EXPECT_PTR_EQ(test, wqs[k] ?: system_dfl_wq, i->w.wq);
		KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_work_touch(&i->w, SEC));
		nap(123456);
		now = hwtimer_wheel_now(wheel);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_work_schedule(&i->w, 5 * SEC));
		KUNIT_EXPECT_EQ(test, 1, hwtimer_work_schedule(&i->w, 55 * MS));
		KUNIT_EXPECT_EQ(test, 0, hwtimer_work_touch(&i->w, 125 * MS));
		due = hwtimer_deadline(&i->w.timeout);
		KUNIT_EXPECT_GE(test, due, now + 125 * MS);
		nap(SEC);
		KUNIT_EXPECT_EQ(test, 1, i->runs);
		KUNIT_EXPECT_GE(test, i->at, due);
		KUNIT_EXPECT_LT(test, i->at, due + TICK + MS);
		KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_work_touch(&i->w, SEC));
	}
}

/* A run that blocks holds up neither the wheel nor the run of another item. */
static void blocks_nobody(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, 2);

	i[0].nap = SEC;
	expire(&i[0], 1);
	expire(&i[1], 5);
	KUNIT_EXPECT_EQ(test, 0, i[0].ended);
	KUNIT_EXPECT_EQ(test, 5, i[1].ended);
	KUNIT_EXPECT_EQ(test, 0UL, to_driven(wheel)->monitor.long_callbacks);
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i[0].ended);
}

/* Each expiry gets a run; the runs follow one another, in the order of the workqueue. */
static void each_expiry(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, 1);
	struct item *q = items(test, wheel, single(test), 3);
	unsigned int k;

	i->nap = 500 * MS;
	expire(i, 5);
	KUNIT_EXPECT_EQ(test, 1, i->runs);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 3, i->runs);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 5, i->ended);

	/* also those of an item that has not begun to run */
	block(test, wheel, SEC);
	for (k = 0; k < 3; k++) {
		q[k].nap = 50 * MS;
		expire(&q[k], 1 + k);
	}
	nap(5 * SEC);
	for (k = 0; k < 3; k++)
		KUNIT_EXPECT_EQ(test, 1 + k, q[k].ended);
	KUNIT_EXPECT_LT(test, q[0].at, q[1].at);
	KUNIT_EXPECT_LT(test, q[1].at, q[2].at);
}

/* Cancel in each state, and what it returns. */
static void cancel(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, 1);
	struct item *q = items(test, wheel, single(test), 1);

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
	expire(i, 2);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i->w));
	hwtimer_work_schedule(&i->w, SEC);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i->ended);

	/* queued; queued and cancelled; expired again while its cancelled entry is queued */
	block(test, wheel, SEC);
	expire(q, 2);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&q->w));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&q->w));
	expire(q, 1);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&q->w));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 0, q->runs);
	block(test, wheel, SEC);
	expire(q, 1);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&q->w));
	expire(q, 1);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, q->ended);
	/* and the item can go on being used */
	expire(q, 1);
	KUNIT_EXPECT_EQ(test, 2, q->ended);
}

static void cancel_sync(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, 5);
	struct item *q = items(test, wheel, single(test), 2);
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
	reuse(&i[0]);
	reuse(&i[1]);
	reuse(&i[2]);
	reuse(&i[3]);

	/* queued; queued and cancelled: the call does not wait for the workqueue */
	block(test, wheel, 10 * SEC);
	now = ktime_get_ns();
	expire(&q[0], 2);
	expire(&q[1], 1);
	hwtimer_work_cancel(&q[1].w);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&q[0].w));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&q[1].w));
	KUNIT_EXPECT_LT(test, ktime_get_ns(), now + SEC);
	expect_nobody(&q[0]);
	reuse(&q[1]);
	/* the item can be used again */
	expire(&q[0], 1);
	nap(20 * SEC);
	KUNIT_EXPECT_EQ(test, 1, q[0].ended);

	/* running, also with another run due, or pending: the call waits */
	i[4].nap = SEC;
	expire(&i[4], 1);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i[4].w));
	KUNIT_EXPECT_EQ(test, 1, i[4].ended);
	expire(&i[4], 2);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i[4].w));
	KUNIT_EXPECT_EQ(test, 2, i[4].ended);
	expire(&i[4], 1);
	hwtimer_work_schedule(&i[4].w, 50 * SEC);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i[4].w));
	KUNIT_EXPECT_EQ(test, 3, i[4].ended);
	reuse(&i[4]);
	nap(100 * SEC);
	KUNIT_EXPECT_EQ(test, 3, i[4].runs);
}

/* A plain timeout whose callback calls @fn for an item. */
struct caller {
	struct hwtimer_timeout	t;
	struct item		*i;
	void			(*fn)(struct item *i);
};

static void caller_fn(struct hwtimer_timeout *t)
{
	struct caller *c = container_of(t, struct caller, t);

	c->fn(c->i);
}

static void call_after(struct kunit *test, struct hwtimer_wheel *wheel, struct item *i,
		       void (*fn)(struct item *i), s64 ns)
{
	struct caller *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	c->i = i;
	c->fn = fn;
	hwtimer_init(&c->t, wheel, caller_fn);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&c->t, ns));
}

/* A callback of the wheel arms the item while hwtimer_work_cancel_sync() waits for its run. */
static void cancel_sync_drops(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, 1);

	i->nap = SEC;
	expire(i, 1);
	call_after(test, wheel, i, arm, 500 * MS);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i->w));
	KUNIT_EXPECT_EQ(test, 2, i->armed);
	expect_nobody(i);
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

static void then_arm_cancel_sync(struct item *i)
{
	arm(i);
	nap(SOON);
	arm(i);
	then_cancel_sync(i);
	KUNIT_EXPECT_FALSE(i->test, hwtimer_is_pending(&i->w.timeout));
}

/* A function that would wait for itself. The item keeps working. */
static void deadlocks(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, 1);

	i->then = then_arm_cancel_sync;
	expire(i, 1);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, -EDEADLK, i->ret);
	KUNIT_EXPECT_EQ(test, 3, i->armed);
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	i->then = NULL;
	expire(i, 1);
	KUNIT_EXPECT_EQ(test, 2, i->ended);
}

/*
 * An item is cancelled by the function of another one, which occupies the workqueue of both, and by
 * a callback of the wheel.
 */
static void cancel_sync_other(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, single(test), 1);
	struct item *q = items(test, wheel, single(test), 1);
	struct item *r = items(test, wheel, NULL, 1);

	/* Initialised here to have lockdep classes of their own: the function of @i waits, too. */
	hwtimer_work_init(&q->w, wheel, single(test), item_run);
	hwtimer_work_init(&r->w, wheel, NULL, item_run);
	i->nap = SEC;
	i->then = then_cancel_sync;
	i->other = q;
	expire(i, 1);
	expire(q, 2);
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i->ret);
	KUNIT_EXPECT_EQ(test, 0, q->runs);
	reuse(q);
	reuse(i);

	r->nap = SEC;
	expire(r, 2);
	call_after(test, wheel, r, then_cancel_sync, 0);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, r->ret);
	KUNIT_EXPECT_EQ(test, 1, r->runs);
	reuse(r);
}

static void then_arm_backlog(struct item *i)
{
	/* the run before may have armed the item already */
	arm(i);
	nap(SOON);
	arm(i);
}

/*
 * Items that arm themselves with each run: short runs, runs of several ticks, long ones; or so that
 * whenever a run ends, the next one is due, and one more is pending.
 */
static void rearming(struct kunit *test)
{
	static const struct {
		s64	nap;
		void	(*then)(struct item *i);
	} ways[] = { { 0, arm }, { 35 * MS, arm }, { 300 * MS, arm }, { 0, then_arm_backlog } };
	struct hwtimer_wheel *wheel = a_wheel(test);
	unsigned int k, runs;

	for (k = 0; k < ARRAY_SIZE(ways); k++) {
		struct item *i = items(test, wheel, NULL, 1);

		i->nap = ways[k].nap;
		i->then = ways[k].then;
		arm(i);
		nap(10 * SEC + 3 * MS);
		KUNIT_EXPECT_GE(test, i->runs, 30);
		runs = i->runs;
		KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i->w));
		KUNIT_EXPECT_LE(test, i->runs, runs + 1);
		reuse(i);
		runs = i->runs;
		nap(10 * SEC);
		KUNIT_EXPECT_EQ(test, runs, i->runs);
	}
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
}

/* Release in each state. The owner may reuse the memory in the released callback. */
static void release(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, 5);
	struct item *q = items(test, wheel, single(test), 2);
	unsigned int k;

	/* idle, pending, done */
	expire(&i[2], 1);
	hwtimer_work_schedule(&i[1].w, 50 * SEC);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[0].w, item_released));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_release(&i[1].w, item_released));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[2].w, item_released));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_schedule(&i[0].w, 0));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_touch(&i[0].w, 0));
	nap(SOON);
	for (k = 0; k < 3; k++)
		KUNIT_EXPECT_EQ(test, 1, i[k].released);

	/* running; running, due and pending */
	i[3].nap = SEC;
	i[4].nap = SEC;
	expire(&i[3], 1);
	expire(&i[4], 2);
	hwtimer_work_schedule(&i[4].w, 50 * SEC);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[3].w, item_released));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_release(&i[4].w, item_released));
	nap(SOON);
	for (k = 3; k < 5; k++)
		KUNIT_EXPECT_EQ(test, 0, i[k].released);
	nap(2 * SEC);
	for (k = 3; k < 5; k++) {
		KUNIT_EXPECT_EQ(test, 1, i[k].released);
		KUNIT_EXPECT_EQ(test, 1, i[k].runs);
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
	}
	for (k = 0; k < 5; k++)
		KUNIT_EXPECT_EQ(test, 0, work_busy(&i[k].w.work));
}

static unsigned int freed;

static void free_it(struct hwtimer_work *w)
{
	struct item *i = container_of(w, struct item, w);

	freed++;
	memset(i, 0x6b, sizeof(*i));
	kfree(i);
}

static void release_it(struct hwtimer_work *w)
{
	struct item *i = container_of(w, struct item, w);
	s64 ns = i->nap;

	/* with another run due as well */
	if (ns)
		arm(i);
	nap(ns);
	KUNIT_EXPECT_EQ(i->test, !!ns, hwtimer_work_release(w, free_it));
	KUNIT_EXPECT_EQ(i->test, -ESHUTDOWN, hwtimer_work_schedule(w, 0));
	/* With a nap, the worker handles the release while the function runs. */
	nap(ns);
}

/* The function of an item releases it, or frees it at once. */
static void end_self(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	unsigned int k;

	freed = 0;
	for (k = 0; k < 8; k++) {
		struct item *i = kzalloc(sizeof(*i), GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, i);
		i->test = test;
		i->nap = k % 2 ? SOON : 0;
		hwtimer_work_init(&i->w, wheel, single(test), k < 4 ? release_it : free_it);
		/* The entry that was cancelled is still queued when the item expires again. */
		if (k % 4 > 1) {
			block(test, wheel, 100 * MS);
			expire(i, 1);
			KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
		}
		arm(i);
		nap(SEC);
		KUNIT_EXPECT_EQ(test, k + 1, freed);
	}
}

/* A stop hands back what is pending. What is due runs, and needs the wheel no more. Promise 8. */
static void stop(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *b = block(test, wheel, SEC);
	struct item *i = items(test, wheel, NULL, 3);
	struct item *q = items(test, wheel, single(test), 2);
	struct hwtimer_timeout *t;
	struct list_head pending;
	unsigned int n = 0;

	i[0].nap = SEC;
	i[1].nap = SEC;
	i[1].then = arm;
	expire(&i[0], 2);
	expire(&i[1], 1);
	expire(&q[0], 1);
	expire(&q[1], 1);
	hwtimer_work_schedule(&i[0].w, 50 * SEC);
	hwtimer_work_schedule(&i[2].w, 50 * SEC);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, &pending));
	list_for_each_entry(t, &pending, node)
		n += t == &i[0].w.timeout || t == &i[2].w.timeout ? 1 : 10;
	KUNIT_EXPECT_EQ(test, 2, n);
	KUNIT_EXPECT_EQ(test, 0, i[0].ended + i[1].ended + b->ended);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_schedule(&i[2].w, 0));

	/* released at once, and when the workqueue reaches it */
	KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[2].w, item_released));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_release(&q[1].w, item_released));
	KUNIT_EXPECT_EQ(test, 0, q[1].released);
	nap(MS);
	KUNIT_EXPECT_EQ(test, 1, i[2].released);
	KUNIT_EXPECT_EQ(test, 0, q[1].released);
	nap(SEC + 500 * MS);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, i[1].ret);
	/* one run is still in progress, and uses its item only */
	KUNIT_EXPECT_EQ(test, 1, i[0].ended);
	KUNIT_EXPECT_EQ(test, 2, i[0].runs);
	unmake(test, wheel);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i[0].ended);
	KUNIT_EXPECT_EQ(test, 1, i[1].ended);
	KUNIT_EXPECT_EQ(test, 1, q[0].ended);
	KUNIT_EXPECT_EQ(test, 1, q[1].released);
	KUNIT_EXPECT_EQ(test, 0, q[1].runs);
}

/* Calls with interrupts disabled. */
static void contexts(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, 4);
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

#ifdef CONFIG_UML
/* Which steps another task comes in at: of the callback, of the runs, or of the call that ends. */
enum victim { CALLBACK, RUNS, CALL, CALL_AND_CANCEL, VICTIMS };

/* One item, and a task that ends it by @end. At step @n of @victim, others do what they can. */
struct trial {
	struct work_struct	work;
	struct completion	done;
	struct item		*i;
	/* keeps the workqueue of @i busy after a run */
	struct item		*behind;
	bool			(*end)(struct item *i);
	enum victim		victim;
	unsigned int		n;
	unsigned int		step;
	/* the results of @end, and of the cancel that comes in */
	bool			ended;
	bool			cancelled;
};

static struct trial *trial;

static bool end_by_cancel(struct item *i)
{
	return hwtimer_work_cancel(&i->w);
}

static bool end_by_cancel_sync(struct item *i)
{
	bool ended = hwtimer_work_cancel_sync(&i->w) == 1;

	expect_nobody(i);
	return ended;
}

static bool end_by_release(struct item *i)
{
	return hwtimer_work_release(&i->w, item_released);
}

static void trial_end(struct work_struct *work)
{
	trial->ended = trial->end(trial->i);
	complete(&trial->done);
}

static bool is_victim(struct hwtimer_timeout *t)
{
	switch (trial->victim) {
	case CALLBACK:
		return current == to_driven(t->wheel)->task && t->wheel->running == t;
	case RUNS:
		return current_work() == &trial->i->w.work;
	default:
		return current_work() == &trial->work;
	}
}

static void trial_step(void)
{
	struct trial *c = trial;

	/* Some steps of arming are in a section that is not preemptible, where nobody can sleep. */
	if (preempt_count() || !is_victim(&c->i->w.timeout) || ++c->step != c->n)
		return;
	if (c->victim <= RUNS) {
		queue_work(system_dfl_wq, &c->work);
		/* It proceeds as far as it can. */
		nap(MS / 10);
		return;
	}
	if (c->victim == CALL_AND_CANCEL)
		c->cancelled = hwtimer_work_cancel(&c->i->w);
	/* Meanwhile the item expires, and runs if it can. */
	nap(2 * MS);
	if (c->end != end_by_release || c->i->released)
		return;
	/* Once more, so that two runs may be due when it is released. */
	arm(c->i);
	nap(2 * MS);
}

static void arm_once(struct item *i)
{
	i->then = NULL;
	arm(i);
}

/* With @before runs due or in progress. Returns false if there are fewer steps. */
static bool try_step(struct kunit *test, struct hwtimer_wheel *wheel, unsigned int before,
		     bool again)
{
	struct item *i = items(test, wheel, single(test), 1);
	struct trial *c = trial;

	c->i = i;
	c->step = 0;
	c->ended = false;
	c->cancelled = false;
	reinit_completion(&c->done);
	i->nap = 4 * MS;
	i->then = again ? arm_once : NULL;
	while (before--) {
		arm(i);
		nap(2 * MS);
	}
	arm(c->behind);
	nap(MS);
	WRITE_ONCE(hwtimer_step_hook, trial_step);
	arm(i);
	if (c->victim >= CALL)
		queue_work(system_dfl_wq, &c->work);
	nap(35 * MS);
	WRITE_ONCE(hwtimer_step_hook, NULL);

	KUNIT_EXPECT_EQ(test, c->victim >= CALL || c->step >= c->n, completion_done(&c->done));
	if (c->end == end_by_release)
		KUNIT_EXPECT_EQ(test, completion_done(&c->done), i->released);
	/* Each arming got a run or was ended, and whoever ended any said so. */
	KUNIT_EXPECT_LE(test, i->runs, i->armed);
	KUNIT_EXPECT_EQ(test, i->runs < i->armed, c->ended || c->cancelled);
	KUNIT_EXPECT_EQ(test, i->runs, i->ended);
	KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&i->w.timeout));
	KUNIT_EXPECT_EQ(test, 0, work_busy(&i->w.work));
	return c->step >= c->n;
}

/*
 * A task ends an item between any two steps of its callback or of its runs, or the item expires and
 * runs between any two steps of that task.
 */
static void each_step(struct kunit *test)
{
	static bool (*const ends[])(struct item *i) = {
		end_by_cancel, end_by_cancel_sync, end_by_release,
	};
	struct hwtimer_wheel *wheel = driven_wheel(test, MS);
	unsigned int k, steps = 0;

	trial = kunit_kzalloc(test, sizeof(*trial), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, trial);
	trial->behind = items(test, wheel, single(test), 1);
	trial->behind->nap = 6 * MS;
	INIT_WORK(&trial->work, trial_end);
	init_completion(&trial->done);
	for (k = 0; k < ARRAY_SIZE(ends) * VICTIMS * 3 * 2; k++) {
		trial->end = ends[k / 2 / 3 / VICTIMS];
		trial->victim = k / 2 / 3 % VICTIMS;
		/* A cancel must not come after a release. */
		if (trial->end == end_by_release && trial->victim == CALL_AND_CANCEL)
			continue;
		for (trial->n = 1; try_step(test, wheel, k / 2 % 3, k % 2); trial->n++)
			steps++;
		KUNIT_EXPECT_GT(test, trial->n, 1);
	}
	kunit_info(test, "%u steps\n", steps);
}
#endif

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
	KUNIT_CASE(each_expiry),
	KUNIT_CASE(cancel),
	KUNIT_CASE(cancel_sync),
	KUNIT_CASE(cancel_sync_drops),
	KUNIT_CASE(deadlocks),
	KUNIT_CASE(cancel_sync_other),
	KUNIT_CASE(rearming),
	KUNIT_CASE(release),
	KUNIT_CASE(end_self),
	KUNIT_CASE(stop),
	KUNIT_CASE(contexts),
#ifdef CONFIG_UML
	KUNIT_CASE(each_step),
#endif
	{}
};

SUITE(work, "work", .init = bench_init, .exit = bench_exit);
