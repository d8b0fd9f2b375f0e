// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite of the timeouts that run on a workqueue, with the worker's
 * kthread, real workqueues and the machine's clock.
 *
 * Made for User-Mode Linux with time-travel=inf-cpu, where the clock stands still
 * while anything runs, and sleeping takes no time.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/prandom.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../../hwtimer_compat.h"
#include "../../hwtimer_driver.h"
#include "../../hwtimer_step.h"
#include "../../hwtimer_work.h"
#include "hwtimer_kunit.h"
#include "kunit_wheels.h"

#define MS	NSEC_PER_MSEC
#define SEC	NSEC_PER_SEC
#define MINUTE	(60ULL * SEC)
#define TICK	(10 * MS)
#define SLOTS	64
/* After this, what was scheduled for now has expired, and what can run runs. */
#define SOON	(2 * TICK)

/* How many of the slow lane run at a time. */
#define SLOW_ACTIVE	16

/* An item that takes notes. */
struct item {
	struct hwtimer_work	w;
	struct kunit		*test;
	/* what a run does: takes so long, then @then */
	s64			nap;
	void			(*then)(struct item *i);
	void			(*on_refusal)(struct item *i);
	struct item		*other;
	int			ret;
	/* runs: that began, that ended, that saw the flag in the end */
	unsigned int		runs;
	unsigned int		ended;
	unsigned int		told;
	unsigned int		refused[2];
	unsigned int		released;
	/* when the last run began */
	u64			at;
	struct workqueue_struct	*on;
};

static struct hwtimer_wheel *make(struct kunit *test, unsigned int flags, unsigned int slow_ms,
				  unsigned int slow_runs, unsigned long max_queued)
{
	struct hwtimer_wheel_params params = {
		.name = "kunit-work", .tick_ns = TICK, .slots = SLOTS, .flags = flags,
		.slow_ms = slow_ms, .slow_runs = slow_runs, .max_queued = max_queued,
	};

	return keep(test, hwtimer_wheel_create(&params));
}

static struct hwtimer_wheel *a_wheel(struct kunit *test)
{
	return make(test, HWTIMER_WHEEL_WORK, 0, 0, 0);
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

static struct workqueue_struct *single(struct kunit *test)
{
	return ((struct bench *)test->priv)->single;
}

static struct hwtimer_lanes *wheel_lanes(struct hwtimer_wheel *wheel)
{
	return &to_driven(wheel)->lanes;
}

static void item_run(struct hwtimer_work *w)
{
	struct item *i = container_of(w, struct item, w);

	KUNIT_EXPECT_TRUE(i->test, current->flags & PF_WQ_WORKER);
	KUNIT_EXPECT_FALSE(i->test, in_interrupt() || irqs_disabled());
	/* never two at a time */
	KUNIT_EXPECT_EQ(i->test, i->runs, i->ended);
	i->at = hwtimer_wheel_now(w->timeout.wheel);
	i->on = w->on;
	i->runs++;
	if (i->nap)
		nap(i->nap);
	i->told += hwtimer_work_cancelled(w);
	i->ended++;
	if (i->then)
		i->then(i);
}

static void item_refused(struct hwtimer_work *w, enum hwtimer_refused reason)
{
	struct item *i = container_of(w, struct item, w);

	/* in the wheel's worker */
	KUNIT_EXPECT_PTR_EQ(i->test, current, to_driven(w->timeout.wheel)->task);
	i->refused[reason]++;
	if (i->on_refusal)
		i->on_refusal(i);
}

static void item_released(struct hwtimer_work *w)
{
	container_of(w, struct item, w)->released++;
}

static void prepare(struct item *i, struct hwtimer_wheel *wheel, struct workqueue_struct *wq,
		    enum hwtimer_work_policy policy)
{
	struct hwtimer_work_params params = {
		.wq = wq, .policy = policy, .refused = item_refused,
	};

	KUNIT_ASSERT_EQ(i->test, 0, hwtimer_work_init(&i->w, wheel, item_run, &params));
}

static struct item *items(struct kunit *test, struct hwtimer_wheel *wheel,
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

/* Expire @n times, not at once. */
static void expire(struct item *i, unsigned int n)
{
	while (n--) {
		KUNIT_EXPECT_EQ(i->test, 0, hwtimer_work_schedule(&i->w, 0));
		nap(SOON);
	}
}

/* Keep the single workqueue busy for so long. */
static struct item *block(struct kunit *test, struct hwtimer_wheel *wheel, s64 ns)
{
	struct item *i = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);

	i->nap = ns;
	expire(i, 1);
	KUNIT_EXPECT_EQ(test, 1, i->runs);
	KUNIT_EXPECT_EQ(test, 0, i->ended);
	return i;
}

/* The wheel's counts; what is due is what they leave. */
static void expect_counts(struct kunit *test, struct hwtimer_wheel *wheel,
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

/* Nobody has it; then the memory is ours. */
static void expect_nobody(struct item *i)
{
	struct kunit *test = i->test;

	KUNIT_EXPECT_FALSE(test, wheel_holds(&i->w.timeout));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&i->w));
	KUNIT_EXPECT_FALSE(test, work_busy(&i->w.work));
	KUNIT_EXPECT_EQ(test, i->runs, i->ended);
	memset(&i->w, 0x6b, sizeof(i->w));
}

static void runs(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 3);
	unsigned int k;
	u64 now;

	KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_work_touch(&i[0].w, SEC));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&i[0].w));
	nap(123456);
	now = hwtimer_wheel_now(wheel);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_schedule(&i[0].w, 55 * MS));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_schedule_at(&i[1].w, now + 5 * SEC));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_schedule_at(&i[1].w, now + 75 * MS));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_schedule(&i[2].w, MS));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_touch(&i[2].w, SEC));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_touch_at(&i[2].w, now + 125 * MS));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_is_pending(&i[0].w));
	nap(SEC);
	for (k = 0; k < 3; k++) {
		u64 due = now + (k == 0 ? 55 : k == 1 ? 75 : 125) * MS;

		KUNIT_EXPECT_EQ(test, 1, i[k].runs);
		KUNIT_EXPECT_EQ(test, 1, i[k].ended);
		KUNIT_EXPECT_GE(test, i[k].at, due);
		KUNIT_EXPECT_LT(test, i[k].at, due + TICK + MS);
		KUNIT_EXPECT_PTR_EQ(test, i[k].on, wheel_lanes(wheel)->fast);
		KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&i[k].w));
	}
	KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_work_touch_at(&i[0].w, now + 5 * SEC));
	expect_counts(test, wheel, 3, 3, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 0UL, wheel_lanes(wheel)->to_slow);
}

/* A run that blocks holds up neither the wheel nor the run of another item. */
static void blocks_nobody(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 2);

	i[0].nap = SEC;
	expire(&i[0], 1);
	expire(&i[1], 5);
	KUNIT_EXPECT_EQ(test, 0, i[0].ended);
	KUNIT_EXPECT_EQ(test, 5, i[1].ended);
	KUNIT_EXPECT_EQ(test, 0UL, to_driven(wheel)->monitor.long_callbacks);
}

static void init_params(struct kunit *test)
{
	static const enum hwtimer_work_policy bad[] = { -1, HWTIMER_WORK_REPLACE + 1 };
	struct hwtimer_wheel *bare = make(test, 0, 0, 0, 0), *wheel = a_wheel(test);
	struct item *i = items(test, NULL, NULL, 0, 4);
	unsigned int k;

	KUNIT_EXPECT_EQ(test, -EINVAL, hwtimer_work_init(&i[0].w, bare, item_run, NULL));
	for (k = 0; k < ARRAY_SIZE(bad); k++) {
		struct hwtimer_work_params params = { .policy = bad[k] };

		KUNIT_EXPECT_EQ(test, -EINVAL,
				hwtimer_work_init(&i[1 + k].w, wheel, item_run, &params));
	}
	for (k = 0; k < 3; k++) {
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_schedule(&i[k].w, 0));
		KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i[k].w));
		KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i[k].w));
		KUNIT_EXPECT_FALSE(test, hwtimer_work_release(&i[k].w, item_released));
	}
	nap(SEC);
	for (k = 0; k < 3; k++) {
		KUNIT_EXPECT_EQ(test, 0, i[k].runs);
		KUNIT_EXPECT_EQ(test, 1, i[k].released);
	}
	/* a workqueue of the caller's is enough */
	prepare(&i[0], bare, single(test), HWTIMER_WORK_SERIAL);
	expire(&i[0], 1);
	KUNIT_EXPECT_EQ(test, 1, i[0].runs);
	/* and so is no parameter at all with lanes */
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_init(&i[3].w, wheel, item_run, NULL));
	expire(&i[3], 1);
	KUNIT_EXPECT_EQ(test, 1, i[3].runs);
}

static void wheel_params(struct kunit *test)
{
	struct hwtimer_wheel_params good = { .name = "w", .tick_ns = TICK, .slots = SLOTS };
	struct hwtimer_wheel_params p[] = { good, good, good };
	struct hwtimer_wheel *wheel;
	unsigned int k;

	p[0].slow_ms = 1;
	p[1].slow_runs = 1;
	p[2].max_queued = 1;
	for (k = 0; k < ARRAY_SIZE(p); k++) {
		wheel = hwtimer_wheel_create(&p[k]);
		KUNIT_EXPECT_EQ_MSG(test, -EINVAL, PTR_ERR_OR_ZERO(wheel), "%u", k);
		if (!IS_ERR(wheel))
			hwtimer_wheel_destroy(wheel);
		p[k].flags = HWTIMER_WHEEL_WORK;
		wheel = keep(test, hwtimer_wheel_create(&p[k]));
		KUNIT_EXPECT_NOT_NULL(test, wheel_lanes(wheel)->fast);
		KUNIT_EXPECT_NOT_NULL(test, wheel_lanes(wheel)->slow);
		unmake(test, wheel);
	}
	/* names longer than those of workqueues */
	good.flags = HWTIMER_WHEEL_WORK;
	good.name = "1234567890123456789012345678901";
	keep(test, hwtimer_wheel_create(&good));
	keep(test, hwtimer_wheel_create(&good));
}

/* Each expiry gets a run, one after the other. */
static void serial(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	u64 first;

	i->nap = 500 * MS;
	expire(i, 1);
	first = i->at;
	expire(i, 4);
	KUNIT_EXPECT_EQ(test, 1, i->runs);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_is_pending(&i->w));
	expect_counts(test, wheel, 5, 1, 0, 0, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 3, i->runs);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 5, i->ended);
	KUNIT_EXPECT_GE(test, i->at, first + 4 * 500 * MS);
	KUNIT_EXPECT_LT(test, i->at, first + 4 * 500 * MS + 10 * MS);
	KUNIT_EXPECT_EQ(test, 0, i->told);
	expect_counts(test, wheel, 5, 5, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->busy));
}

/* While the item waits in the queue. And the backlog lets others in between. */
static void serial_queued(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 2);

	block(test, wheel, SEC);
	expire(&i[0], 3);
	expire(&i[1], 1);
	KUNIT_EXPECT_EQ(test, 0, i[0].runs);
	i[0].nap = 100 * MS;
	nap(SEC + 50 * MS);
	KUNIT_EXPECT_EQ(test, 2, i[0].runs);
	KUNIT_EXPECT_EQ(test, 1, i[1].ended);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 3, i[0].ended);
	expect_counts(test, wheel, 5, 5, 0, 0, 0);
}

static void discard(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_DISCARD, 1);

	i->nap = 500 * MS;
	expire(i, 4);
	KUNIT_EXPECT_EQ(test, 1, i->runs);
	KUNIT_EXPECT_EQ(test, 3, i->refused[HWTIMER_REFUSED_BUSY]);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_is_pending(&i->w));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	expire(i, 1);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 2, i->ended);
	KUNIT_EXPECT_EQ(test, 0, i->told);
	KUNIT_EXPECT_EQ(test, 3, i->refused[HWTIMER_REFUSED_BUSY]);
	KUNIT_EXPECT_EQ(test, 0, i->refused[HWTIMER_REFUSED_FULL]);
	expect_counts(test, wheel, 2, 2, 0, 0, 3);
}

static void discard_queued(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, single(test), HWTIMER_WORK_DISCARD, 1);

	block(test, wheel, SEC);
	expire(i, 2);
	KUNIT_EXPECT_EQ(test, 1, i->refused[HWTIMER_REFUSED_BUSY]);
	/* cancelled: it is still in the queue, but not busy */
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
	expire(i, 2);
	KUNIT_EXPECT_EQ(test, 2, i->refused[HWTIMER_REFUSED_BUSY]);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	expect_counts(test, wheel, 3, 2, 0, 1, 2);
}

/* Nobody wants to be told. */
static void refused_by_nobody(struct kunit *test)
{
	struct hwtimer_work_params params = { .policy = HWTIMER_WORK_DISCARD };
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, NULL, NULL, 0, 1);

	KUNIT_ASSERT_EQ(test, 0, hwtimer_work_init(&i->w, wheel, item_run, &params));
	i->nap = 500 * MS;
	expire(i, 3);
	expect_counts(test, wheel, 1, 1, 0, 0, 2);
}

static void replace(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_REPLACE, 1);
	u64 first;

	i->nap = 500 * MS;
	expire(i, 1);
	first = i->at;
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancelled(&i->w));
	expire(i, 1);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancelled(&i->w));
	KUNIT_EXPECT_TRUE(test, hwtimer_work_is_pending(&i->w));
	expect_counts(test, wheel, 2, 1, 0, 0, 0);
	expire(i, 2);
	expect_counts(test, wheel, 4, 1, 2, 0, 0);
	nap(500 * MS);
	/* the first has ended, and the last runs, which nobody cancelled */
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	KUNIT_EXPECT_EQ(test, 1, i->told);
	KUNIT_EXPECT_EQ(test, 2, i->runs);
	KUNIT_EXPECT_GE(test, i->at, first + 500 * MS);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancelled(&i->w));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i->ended);
	KUNIT_EXPECT_EQ(test, 1, i->told);
	expect_counts(test, wheel, 4, 2, 2, 0, 0);
}

static void replace_queued(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, single(test), HWTIMER_WORK_REPLACE, 1);

	block(test, wheel, SEC);
	expire(i, 4);
	expect_counts(test, wheel, 5, 1, 3, 0, 0);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
	expire(i, 1);
	expect_counts(test, wheel, 6, 1, 3, 1, 0);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	KUNIT_EXPECT_EQ(test, 0, i->told);
	expect_counts(test, wheel, 6, 2, 3, 1, 0);
}

static void again(struct item *i)
{
	KUNIT_EXPECT_EQ(i->test, 0, hwtimer_work_schedule(&i->w, 0));
}

static void once_more(struct item *i)
{
	/* somebody else may have armed it, or ended it for good */
	hwtimer_work_schedule(&i->w, 0);
}

/* Refused, it tries again until there is a run for it. */
static void refused_rearms(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_DISCARD, 1);

	i->nap = 500 * MS;
	i->on_refusal = again;
	expire(i, 1);
	hwtimer_work_schedule(&i->w, 0);
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i->ended);
	KUNIT_EXPECT_GE(test, i->refused[HWTIMER_REFUSED_BUSY], 45);
	KUNIT_EXPECT_LE(test, i->refused[HWTIMER_REFUSED_BUSY], 51);
	expect_counts(test, wheel, 2, 2, 0, 0, i->refused[HWTIMER_REFUSED_BUSY]);
}

/* The bound is 3. Each item runs, and has more due behind. */
static void bound(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, HWTIMER_WHEEL_WORK, 0, 0, 3);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 2);
	struct item *newest = items(test, wheel, NULL, HWTIMER_WORK_REPLACE, 1);
	struct item *own = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);

	i[0].nap = 2 * SEC;
	i[1].nap = 2 * SEC;
	newest->nap = 2 * SEC;
	own->nap = 2 * SEC;
	expire(&i[0], 1);
	expire(&i[1], 1);
	expire(newest, 1);
	expire(own, 5);
	/* running, or on another workqueue: no place is taken */
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->queued));
	expire(&i[0], 1);
	expire(&i[1], 1);
	KUNIT_EXPECT_EQ(test, 2L, atomic_long_read(&wheel_lanes(wheel)->queued));
	expire(newest, 1);
	KUNIT_EXPECT_EQ(test, 3L, atomic_long_read(&wheel_lanes(wheel)->queued));
	KUNIT_EXPECT_EQ(test, 0UL, wheel_lanes(wheel)->refused);
	expire(&i[0], 1);
	KUNIT_EXPECT_EQ(test, 1, i[0].refused[HWTIMER_REFUSED_FULL]);
	KUNIT_EXPECT_EQ(test, 0, i[0].refused[HWTIMER_REFUSED_BUSY]);
	/* in the place of the one before it */
	expire(newest, 1);
	KUNIT_EXPECT_EQ(test, 0, newest->refused[HWTIMER_REFUSED_FULL]);
	KUNIT_EXPECT_EQ(test, 1UL, wheel_lanes(wheel)->replaced);
	KUNIT_EXPECT_EQ(test, 3L, atomic_long_read(&wheel_lanes(wheel)->queued));
	/* a cancel frees a place */
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i[1].w));
	KUNIT_EXPECT_EQ(test, 2L, atomic_long_read(&wheel_lanes(wheel)->queued));
	expire(&i[0], 1);
	KUNIT_EXPECT_EQ(test, 1, i[0].refused[HWTIMER_REFUSED_FULL]);
	expire(&i[0], 1);
	KUNIT_EXPECT_EQ(test, 2, i[0].refused[HWTIMER_REFUSED_FULL]);
	/* and so does the begin of a run */
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 2, i[0].runs);
	KUNIT_EXPECT_EQ(test, 2, newest->runs);
	KUNIT_EXPECT_EQ(test, 1L, atomic_long_read(&wheel_lanes(wheel)->queued));
	expire(&i[0], 1);
	KUNIT_EXPECT_EQ(test, 2L, atomic_long_read(&wheel_lanes(wheel)->queued));
	/* wait for the end; cancelled and waited for, too */
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i[0].w));
	nap(20 * SEC);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->queued));
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->busy));
	KUNIT_EXPECT_EQ(test, 5, own->ended);
}

/* A refused later one does not end the earlier. */
static void bound_replace(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, HWTIMER_WHEEL_WORK, 0, 0, 1);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	struct item *newest = items(test, wheel, NULL, HWTIMER_WORK_REPLACE, 1);

	i->nap = SEC;
	newest->nap = SEC;
	expire(newest, 1);
	expire(i, 2);
	expire(newest, 1);
	KUNIT_EXPECT_EQ(test, 1, newest->refused[HWTIMER_REFUSED_FULL]);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancelled(&newest->w));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, newest->ended);
	KUNIT_EXPECT_EQ(test, 0, newest->told);
	expect_counts(test, wheel, 3, 3, 0, 0, 1);
}

/* Sleep until a minute of CLOCK_MONOTONIC has just begun. */
static void new_minute(void)
{
	u64 now = ktime_get_ns();

	nap((div64_u64(now, MINUTE) + 1) * MINUTE - now + TICK);
}

/* Run it once, and tell whether that was on the slow lane. */
static bool ran_slow(struct item *i)
{
	struct hwtimer_lanes *w = wheel_lanes(i->w.timeout.wheel);
	unsigned int before = i->ended;

	expire(i, 1);
	nap(i->nap);
	KUNIT_EXPECT_EQ(i->test, before + 1, i->ended);
	KUNIT_EXPECT_TRUE(i->test, i->on == w->fast || i->on == w->slow);
	return i->on == w->slow;
}

static void lanes(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 3);
	unsigned int k;

	new_minute();
	i[0].nap = 510 * MS;
	/* the eleventh is the one that is too many, so it is the last there */
	for (k = 0; k < 11; k++)
		KUNIT_EXPECT_FALSE_MSG(test, ran_slow(&i[0]), "%u", k);
	KUNIT_EXPECT_EQ(test, 0UL, wheel_lanes(wheel)->to_slow);
	KUNIT_EXPECT_TRUE(test, ran_slow(&i[0]));
	/* also when it is quick again */
	i[0].nap = 0;
	KUNIT_EXPECT_TRUE(test, ran_slow(&i[0]));
	KUNIT_EXPECT_EQ(test, 2UL, wheel_lanes(wheel)->to_slow);
	/* another item is none of its business */
	KUNIT_EXPECT_FALSE(test, ran_slow(&i[1]));
	/* long, but not slow */
	i[2].nap = 490 * MS;
	for (k = 0; k < 20; k++)
		KUNIT_EXPECT_FALSE(test, ran_slow(&i[2]));
	KUNIT_EXPECT_TRUE(test, ran_slow(&i[0]));
	new_minute();
	KUNIT_EXPECT_FALSE(test, ran_slow(&i[0]));
	/* ten here, ten there */
	i[0].nap = 510 * MS;
	for (k = 0; k < 10; k++)
		KUNIT_EXPECT_FALSE(test, ran_slow(&i[0]));
	new_minute();
	for (k = 0; k < 10; k++)
		KUNIT_EXPECT_FALSE(test, ran_slow(&i[0]));
	KUNIT_EXPECT_EQ(test, 3UL, wheel_lanes(wheel)->to_slow);
}

static void lanes_own_figures(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, HWTIMER_WHEEL_WORK, 50, 2, 0);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 2);
	unsigned int k;

	new_minute();
	i[0].nap = 51 * MS;
	i[1].nap = 49 * MS;
	for (k = 0; k < 3; k++)
		KUNIT_EXPECT_FALSE(test, ran_slow(&i[0]));
	KUNIT_EXPECT_TRUE(test, ran_slow(&i[0]));
	for (k = 0; k < 10; k++)
		KUNIT_EXPECT_FALSE(test, ran_slow(&i[1]));
	/* what is due behind a slow run stays there */
	expire(&i[0], 2);
	nap(SEC);
	KUNIT_EXPECT_PTR_EQ(test, i[0].on, wheel_lanes(wheel)->slow);
	KUNIT_EXPECT_EQ(test, 3UL, wheel_lanes(wheel)->to_slow);
}

/* A run counts in the minute in which it ends. */
static void lanes_over_the_minute(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, HWTIMER_WHEEL_WORK, 50, 1, 0);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	u64 end;

	new_minute();
	end = (div64_u64(ktime_get_ns(), MINUTE) + 1) * MINUTE;
	nap_until(end - 5 * TICK);
	i->nap = 200 * MS;
	KUNIT_EXPECT_FALSE(test, ran_slow(i));
	KUNIT_EXPECT_LT(test, i->at, end);
	KUNIT_EXPECT_FALSE(test, ran_slow(i));
	KUNIT_EXPECT_TRUE(test, ran_slow(i));
}

/* The slow lane is full. */
static void slow_holds_up_slow(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, HWTIMER_WHEEL_WORK, 1, 1, 0);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, SLOW_ACTIVE + 4);
	struct item *quick = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	unsigned int k, n, running = 0;

	new_minute();
	for (n = 0; n < 3; n++) {
		for (k = 0; k < SLOW_ACTIVE + 4; k++) {
			i[k].nap = n < 2 ? 2 * MS : 5 * SEC;
			hwtimer_work_schedule(&i[k].w, 0);
		}
		nap(5 * TICK);
	}
	for (k = 0; k < SLOW_ACTIVE + 4; k++)
		running += i[k].runs - i[k].ended;
	KUNIT_EXPECT_EQ(test, SLOW_ACTIVE, running);
	KUNIT_EXPECT_EQ(test, SLOW_ACTIVE + 4UL, wheel_lanes(wheel)->to_slow);
	KUNIT_EXPECT_FALSE(test, ran_slow(quick));
	nap(20 * SEC);
	for (k = 0; k < SLOW_ACTIVE + 4; k++)
		KUNIT_EXPECT_EQ(test, 3, i[k].ended);
}

/* Each state, and the answer. */
static void cancel(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	struct item *q = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);

	/* idle; pending; done */
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i->w));
	hwtimer_work_schedule(&i->w, SEC);
	KUNIT_EXPECT_TRUE(test, hwtimer_work_cancel(&i->w));
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i->w));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 0, i->runs);
	expire(i, 1);
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancel(&i->w));

	/* running: told; running and due; running and pending */
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
	KUNIT_EXPECT_EQ(test, 1, i->told);
	/* the next run is not that one */
	expire(i, 1);
	KUNIT_EXPECT_FALSE(test, hwtimer_work_cancelled(&i->w));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i->told);

	/* queued; queued and cancelled; due again in the same place */
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
	KUNIT_EXPECT_EQ(test, 0, q->told);
	expect_counts(test, wheel, 11, 6, 0, 5, 0);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->busy));
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

	/* queued, and queued but cancelled: without waiting for the queue */
	block(test, wheel, 10 * SEC);
	now = ktime_get_ns();
	expire(&q[0], 2);
	expire(&q[1], 1);
	hwtimer_work_cancel(&q[1].w);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&q[0].w));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&q[1].w));
	KUNIT_EXPECT_LT(test, ktime_get_ns(), now + SEC);
	/* it may be used again */
	expire(&q[0], 1);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&q[0].w));
	expect_nobody(&q[0]);
	expect_nobody(&q[1]);
	expect_counts(test, wheel, 6, 2, 0, 4, 0);

	/* running: waits; and due and pending besides */
	i[4].nap = SEC;
	expire(&i[4], 1);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_work_cancel_sync(&i[4].w));
	KUNIT_EXPECT_EQ(test, 1, i[4].ended);
	KUNIT_EXPECT_EQ(test, 1, i[4].told);
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
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->busy));
}

struct bell {
	struct hwtimer_timeout	t;
	struct item		*i;
};

static void bell_fn(struct hwtimer_timeout *t)
{
	hwtimer_work_schedule(&container_of(t, struct bell, t)->i->w, 0);
}

/* A callback of the same wheel arms the item while somebody waits for its end. */
static void cancel_sync_drops(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, NULL, HWTIMER_WORK_SERIAL, 1);
	struct bell *bell = kunit_kzalloc(test, sizeof(*bell), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bell);
	bell->i = i;
	i->nap = SEC;
	hwtimer_init(&bell->t, wheel, bell_fn);
	expire(i, 1);
	hwtimer_schedule(&bell->t, 500 * MS);
	KUNIT_EXPECT_EQ(test, 1, hwtimer_work_cancel_sync(&i->w));
	KUNIT_EXPECT_EQ(test, 1, i->ended);
	KUNIT_EXPECT_EQ(test, 2UL, wheel_lanes(wheel)->dispatched);
	KUNIT_EXPECT_EQ(test, 1L, atomic_long_read(&wheel_lanes(wheel)->cancelled));
	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 1, i->runs);
	/* that is over; and its answer was for once */
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
	/* it goes on, until shut down */
	i->then = then_shutdown_sync;
	i->ret = 0;
	expire(i, 1);
	KUNIT_EXPECT_EQ(test, -EDEADLK, i->ret);
	KUNIT_EXPECT_EQ(test, 3, i->ended);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_work_schedule(&i->w, 0));
}

/* By its own refused callback, too, which must not sleep in general. */
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

/* By the function of another one, that has the workqueue for itself. */
static void cancel_sync_other(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct item *i = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);
	struct hwtimer_work_params params = { .wq = single(test) };
	struct item *q = items(test, NULL, NULL, 0, 1);

	/* Here, so that it is of another kind for lockdep. */
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

/* It arms itself, again and again: at once; when its run ends; late. */
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
	/* the one before may have armed it, too */
	once_more(i);
	nap(SOON);
	once_more(i);
}

/* When a run ends, the next one is due, and one more is pending. */
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

/* Each state; the memory is the owner's when it has been told. */
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
		KUNIT_EXPECT_EQ(test, 1, i[k].told);
		expect_nobody(&i[k]);
	}

	/* queued; queued and cancelled: when the workqueue comes to it */
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
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->busy));
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
	/* due again, too */
	if (ns)
		again(i);
	nap(ns);
	KUNIT_EXPECT_EQ(i->test, !!ns, hwtimer_work_release(w, free_it));
	KUNIT_EXPECT_TRUE(i->test, hwtimer_work_cancelled(w));
	KUNIT_EXPECT_EQ(i->test, -ESHUTDOWN, hwtimer_work_schedule(w, 0));
	/* The wheel has been here, or not. */
	nap(ns);
}

/* From inside the function. */
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
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->busy));
}

static void then_release(struct item *i)
{
	KUNIT_EXPECT_FALSE(i->test, hwtimer_work_release(&i->w, item_released));
}

/* From inside the refused callback. */
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
	KUNIT_EXPECT_EQ(test, 1, i->told);
	expect_nobody(i);
}

static void then_rearm_stopped(struct item *i)
{
	i->ret = hwtimer_work_schedule(&i->w, 0);
}

/* What is pending comes back; what has been dispatched goes on. */
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
	i[1].then = then_rearm_stopped;
	expire(&i[0], 2);
	expire(&i[1], 1);
	expire(&i[3], 1);
	expire(&q[0], 1);
	expire(&q[1], 1);
	hwtimer_work_schedule(&i[0].w, 50 * SEC);
	hwtimer_work_schedule(&i[2].w, 50 * SEC);
	hwtimer_init_on_stack(&plain, wheel, bell_fn);
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

	/* released: at once, when it ends, when it is taken from the queue */
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

/* It waits for what is queued and running, also for what arms itself, wherever. */
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
	i[1].then = then_rearm_stopped;
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

/* Only what was cancelled is left on the workqueue. */
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

static void callers_workqueue(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, HWTIMER_WHEEL_WORK, 1, 1, 1);
	struct workqueue_struct *wqs[] = {
		alloc_workqueue("hwt_kunit_own", WQ_PERCPU, 0), system_freezable_wq, system_dfl_wq,
		single(test),
	};
	unsigned int k;

	KUNIT_ASSERT_NOT_NULL(test, wqs[0]);
	new_minute();
	for (k = 0; k < ARRAY_SIZE(wqs); k++) {
		struct item *i = items(test, wheel, wqs[k], HWTIMER_WORK_SERIAL, 1);

		/* slow or not, and as many as they like */
		i->nap = 100 * MS;
		expire(i, 10);
		nap(2 * SEC);
		KUNIT_EXPECT_EQ(test, 10, i->ended);
		KUNIT_EXPECT_PTR_EQ(test, i->on, wqs[k]);
		expire(i, 1);
		KUNIT_EXPECT_EQ(test, 0, hwtimer_work_shutdown_sync(&i->w));
		expect_nobody(i);
	}
	expect_counts(test, wheel, 44, 44, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 0UL, wheel_lanes(wheel)->to_slow);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&wheel_lanes(wheel)->queued));
	destroy_workqueue(wqs[0]);
}

/* With interrupts off. */
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

#ifdef CONFIG_UML	/* where the module has a hook between its steps */
/*
 * Somebody ends an item, at one step after the other of its dispatch or of its runs. In
 * between the steps of one CPU that is what another one can do.
 */
struct ender {
	struct work_struct	work;
	struct completion	done;
	struct item		*i;
	/* waits on the same workqueue, behind the item */
	struct item		*behind;
	/* returns whether it ended anything */
	bool			(*end)(struct item *i);
	/* comes in at step @n of the dispatch, or of the runs */
	bool			dispatch;
	unsigned int		n;
	unsigned int		step;
	/* by then */
	unsigned int		behind_ended;
	bool			ended;
};

static struct ender *ender;

static bool end_by_cancel(struct item *i)
{
	return hwtimer_work_cancel(&i->w);
}

static bool end_by_cancel_sync(struct item *i)
{
	bool ended = hwtimer_work_cancel_sync(&i->w) == 1;

	KUNIT_EXPECT_EQ(i->test, i->runs, i->ended);
	return ended;
}

static bool end_by_release(struct item *i)
{
	return hwtimer_work_release(&i->w, item_released);
}

static void ender_run(struct work_struct *work)
{
	struct ender *e = container_of(work, struct ender, work);

	e->ended = e->end(e->i);
	/* What is behind it is not waited for. */
	if (e->behind)
		KUNIT_EXPECT_EQ(e->i->test, e->behind_ended, e->behind->ended);
	complete(&e->done);
}

static void ender_step(void)
{
	struct hwtimer_timeout *t = &ender->i->w.timeout;

	if (!in_task())
		return;
	if (ender->dispatch ? current != to_driven(t->wheel)->task || t->wheel->running != t :
			      current_work() != &ender->i->w.work)
		return;
	if (++ender->step != ender->n)
		return;
	if (ender->behind)
		ender->behind_ended = ender->behind->ended;
	queue_work(system_dfl_wq, &ender->work);
	/* It has done what it can. */
	nap(MS);
}

/* The @n-th step, of an item with @before runs due or going on; false if there is none. */
static bool end_at(struct kunit *test, struct hwtimer_wheel *wheel, struct ender *e,
		   enum hwtimer_work_policy policy, unsigned int before)
{
	struct hwtimer_lanes *w = wheel_lanes(wheel);
	unsigned long armed = before + e->dispatch, had, replaced = w->replaced;
	struct wheel_counts c;
	struct item *i;

	i = items(test, wheel, e->behind ? single(test) : NULL, policy, 1);
	e->i = i;
	e->step = 0;
	e->ended = false;
	reinit_completion(&e->done);
	i->nap = 8 * TICK;
	expire(i, before);
	if (e->behind) {
		e->behind->ended = 0;
		e->behind->runs = 0;
		expire(e->behind, 1);
	}
	ender = e;
	WRITE_ONCE(hwtimer_step_hook, ender_step);
	if (e->dispatch)
		hwtimer_work_schedule(&i->w, 0);
	nap(500 * MS);
	WRITE_ONCE(hwtimer_step_hook, NULL);

	KUNIT_EXPECT_EQ(test, e->step >= e->n, completion_done(&e->done));
	if (e->end == end_by_release)
		KUNIT_EXPECT_EQ(test, e->step >= e->n, i->released);
	/* What did not have its run, and was not refused or replaced either, was ended. */
	had = i->runs + i->refused[0] + i->refused[1] + w->replaced - replaced;
	if (e->end != end_by_release)
		KUNIT_EXPECT_EQ(test, e->ended, had < armed);
	KUNIT_EXPECT_LE(test, had, armed);
	KUNIT_EXPECT_EQ(test, i->runs, i->ended);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&w->queued));
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&w->busy));
	wheel_count(wheel, &c);
	KUNIT_EXPECT_EQ(test, c.expired, w->dispatched + w->refused);
	KUNIT_EXPECT_EQ(test, w->dispatched, w->replaced + (unsigned long)
			(atomic_long_read(&w->runs) + atomic_long_read(&w->cancelled)));
	return e->step >= e->n;
}

/* A dispatch; runs; runs that something waits behind. */
enum { DISPATCH, RUNS, RUNS_AND_BEHIND, KINDS };

static void each_step(struct kunit *test)
{
	static bool (*const ends[])(struct item *i) = {
		end_by_cancel, end_by_cancel_sync, end_by_release,
	};
	struct hwtimer_wheel *wheel = make(test, HWTIMER_WHEEL_WORK, 0, 0, 4);
	struct item *behind = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);
	struct ender *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	unsigned int k, how, policy, before, kind;

	KUNIT_ASSERT_NOT_NULL(test, e);
	INIT_WORK(&e->work, ender_run);
	init_completion(&e->done);
	behind->nap = 10 * TICK;
	for (k = 0; k < ARRAY_SIZE(ends) * 3 * 3 * KINDS; k++) {
		kind = k % KINDS;
		before = k / KINDS % 3;
		policy = k / KINDS / 3 % 3;
		how = k / KINDS / 9;
		if (kind != DISPATCH && !before)
			continue;
		e->end = ends[how];
		e->dispatch = kind == DISPATCH;
		e->behind = kind == RUNS_AND_BEHIND ? behind : NULL;
		for (e->n = 1; end_at(test, wheel, e, policy, before); e->n++)
			;
		KUNIT_EXPECT_GT(test, e->n, 1);
	}
}
#endif

#define N_BOOKS	48

/* One operation on @j, by two random numbers. */
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

/* Nothing goes on any more. */
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
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&w->busy));
	/* it has been everywhere */
	KUNIT_EXPECT_GT(test, runs, 1000);
	KUNIT_EXPECT_GT(test, refused, 100);
	KUNIT_EXPECT_GT(test, w->replaced, 100UL);
	KUNIT_EXPECT_GT(test, atomic_long_read(&w->cancelled), 100L);
	KUNIT_EXPECT_GT(test, w->to_slow, 100UL);
}

/* At random, and in the end the books have to balance. */
static void books(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, HWTIMER_WHEEL_WORK, 30, 3, 12);
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

static struct kunit_suite work_suite = {
	.name		= "hwtimer_work",
	.init		= bench_init,
	.exit		= bench_exit,
	.test_cases	= work_cases,
};

kunit_test_suite(work_suite);
