// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what the cases of work items share.
 */
#include <linux/atomic.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "work_rig.h"

struct hwtimer_wheel *work_wheel(struct kunit *test, unsigned int flags, unsigned int slow_ms,
				 unsigned int slow_runs, unsigned long max_queued)
{
	struct hwtimer_wheel_params params = {
		.name = "kunit-work", .tick_ns = TICK, .slots = SLOTS, .flags = flags,
		.slow_ms = slow_ms, .slow_runs = slow_runs, .max_queued = max_queued,
	};

	return keep(test, hwtimer_wheel_create(&params));
}

void item_run(struct hwtimer_work *w)
{
	struct item *i = container_of(w, struct item, w);

	KUNIT_EXPECT_TRUE(i->test, current->flags & PF_WQ_WORKER);
	KUNIT_EXPECT_FALSE(i->test, in_interrupt() || irqs_disabled());
	/* the runs of one item never overlap */
	KUNIT_EXPECT_EQ(i->test, i->runs, i->ended);
	i->at = hwtimer_wheel_now(w->timeout.wheel);
	i->on = w->on;
	i->runs++;
	if (i->nap)
		nap(i->nap);
	i->cancelled += hwtimer_work_cancelled(w);
	i->ended++;
	if (i->then)
		i->then(i);
}

static void item_refused(struct hwtimer_work *w, enum hwtimer_refused reason)
{
	struct item *i = container_of(w, struct item, w);

	/* the refused callback runs in the wheel's worker */
	KUNIT_EXPECT_PTR_EQ(i->test, current, to_driven(w->timeout.wheel)->task);
	i->refused[reason]++;
	if (i->on_refusal)
		i->on_refusal(i);
}

void item_released(struct hwtimer_work *w)
{
	container_of(w, struct item, w)->released++;
}

void prepare(struct item *i, struct hwtimer_wheel *wheel, struct workqueue_struct *wq,
	     enum hwtimer_work_policy policy)
{
	struct hwtimer_work_params params = {
		.wq = wq, .policy = policy, .refused = item_refused,
	};

	KUNIT_ASSERT_EQ(i->test, 0, hwtimer_work_init(&i->w, wheel, item_run, &params));
}

struct item *items(struct kunit *test, struct hwtimer_wheel *wheel,
		   struct workqueue_struct *wq, enum hwtimer_work_policy policy,
		   unsigned int n)
{
	struct item *i = kunit_kzalloc(test, n * sizeof(*i), GFP_KERNEL);
	unsigned int k;

	KUNIT_ASSERT_NOT_NULL(test, i);
	for (k = 0; k < n; k++) {
		i[k].test = test;
		if (wheel)
			prepare(&i[k], wheel, wq, policy);
	}
	return i;
}

/* Let @i expire @n times, one tick or more apart. */
void expire(struct item *i, unsigned int n)
{
	while (n--) {
		KUNIT_EXPECT_EQ(i->test, 0, hwtimer_work_schedule(&i->w, 0));
		nap(SOON);
	}
}

/* Keep the single workqueue busy for @ns. */
struct item *block(struct kunit *test, struct hwtimer_wheel *wheel, s64 ns)
{
	struct item *i = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);

	i->nap = ns;
	expire(i, 1);
	KUNIT_EXPECT_EQ(test, 1, i->runs);
	KUNIT_EXPECT_EQ(test, 0, i->ended);
	return i;
}

void again(struct item *i)
{
	KUNIT_EXPECT_EQ(i->test, 0, hwtimer_work_schedule(&i->w, 0));
}

void once_more(struct item *i)
{
	/* not checked here: the item may be armed already, or shut down */
	i->ret = hwtimer_work_schedule(&i->w, 0);
}

/* Check the wheel's counts. Each expiry was dispatched or refused. */
void expect_counts(struct kunit *test, struct hwtimer_wheel *wheel,
		   unsigned long dispatched, unsigned long runs, unsigned long replaced,
		   unsigned long cancelled, unsigned long refused)
{
	struct hwtimer_lanes *w = wheel_lanes(wheel);
	struct wheel_counts c;

	KUNIT_EXPECT_EQ(test, dispatched, w->dispatched);
	KUNIT_EXPECT_EQ(test, runs, (unsigned long)atomic_long_read(&w->runs));
	KUNIT_EXPECT_EQ(test, replaced, w->replaced);
	KUNIT_EXPECT_EQ(test, cancelled, (unsigned long)atomic_long_read(&w->cancelled));
	KUNIT_EXPECT_EQ(test, refused, w->refused);
	wheel_count(wheel, &c);
	KUNIT_EXPECT_EQ(test, c.expired, w->dispatched + w->refused);
}

/* Check that neither the wheel nor a workqueue uses the item; then overwrite its memory. */
void expect_nobody(struct item *i)
{
	struct kunit *test = i->test;

	KUNIT_EXPECT_FALSE(test, wheel_holds(&i->w.timeout));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&i->w));
	KUNIT_EXPECT_FALSE(test, work_busy(&i->w.work));
	KUNIT_EXPECT_EQ(test, i->runs, i->ended);
	memset(&i->w, 0x6b, sizeof(i->w));
}
