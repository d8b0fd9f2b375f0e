// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_planted: harmless faults, to prove that each checker of a kernel
 * with CONFIG_DEBUG_OBJECTS would report one. The suite comes last, because some checkers stop
 * after their first reports: lockdep after one of its own or of KASAN's, debugobjects after five.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../../core/hwtimer_compat.h"
#include "hwtimer_kunit.h"
#include "misuse.h"

static void need(struct kunit *test, bool enabled, const char *config)
{
	if (!enabled)
		kunit_skip(test, "no %s", config);
}

/*
 * Each allocation of a wheel fails once; kmemleak finds what that leaks. In
 * turn n the n-th allocation of the task fails. The kernel's checkers allocate now and then, too,
 * which changes the numbers from one turn to the next, so one of the allocations may be missed,
 * though not in User-Mode Linux, with one CPU and virtual time.
 */
#ifdef CONFIG_FAILSLAB
static int wheel_and_back(unsigned int kind)
{
	const struct hwtimer_wheel_params params[] = {
		{ .name = "misuse", .tick_ns = TICK, .slots = 64, .levels = 1 },
		{ .name = "misuse", .tick_ns = TICK, .slots = 64, .levels = 4 },
	};
	struct hwtimer_wheel *wheel = hwtimer_wheel_create(&params[kind]);
	unsigned int left = current->fail_nth;
	unsigned int tries = 0;
	static struct job job;
	int ret = 0;

	if (IS_ERR(wheel))
		return PTR_ERR(wheel);
	/* A wheel that was created without the failed allocation has to work. */
	current->fail_nth = 0;
	job.fired = 0;
	hwtimer_init(&job.t, wheel, job_fired);
	if (hwtimer_schedule(&job.t, 0))
		ret = -EIO;
	/* On a busy machine it is late. */
	while (!ret && !READ_ONCE(job.fired) && tries++ < 1000)
		nap(TICK);
	if (hwtimer_cancel_sync(&job.t) || job.fired != 1)
		ret = -EIO;
	current->fail_nth = left;
	hwtimer_wheel_destroy(wheel);
	return ret;
}

static void fail_each(struct kunit *test, unsigned int kind)
{
	unsigned int n, failed = 0;
	bool all = false;
	int ret;

	for (n = 1; n < 1000 && !all; n++) {
		current->fail_nth = n;
		ret = wheel_and_back(kind);
		all = current->fail_nth;
		current->fail_nth = 0;
		if (!ret)
			continue;	/* an optional allocation, as for debugfs */
		KUNIT_EXPECT_EQ(test, -ENOMEM, ret);
		failed++;
	}
	kunit_info(test, "%u of %u allocations are needed\n", failed, n - 2);
	KUNIT_EXPECT_TRUE(test, all);
	KUNIT_EXPECT_GE(test, failed, IS_ENABLED(CONFIG_UML) ? 3 : 1);
}
#endif

/* Promise 11. */
static void no_memory(struct kunit *test)
{
#ifdef CONFIG_FAILSLAB
	fail_each(test, 0);
	/* with more levels */
	fail_each(test, 1);
#else
	need(test, false, "CONFIG_FAILSLAB");
#endif
}

/* Operations on memory that was never initialised are reported once, and fail. */
static void uninitialised(struct kunit *test)
{
	struct job *j;

	need(test, DEBUG_OBJECTS, "CONFIG_DEBUG_OBJECTS");
	j = kunit_kzalloc(test, sizeof(*j), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, j);
	memset(&j->t, 0x5a, sizeof(j->t));
	expect_report("ODEBUG: assert_init not available .* hwtimer_timeout");
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_schedule(&j->t, SEC));
	/* no more reports */
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_touch(&j->t, SEC));
	KUNIT_EXPECT_FALSE(test, hwtimer_cancel(&j->t));
	KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&j->t));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_cancel_sync(&j->t));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_shutdown_sync(&j->t));
	KUNIT_EXPECT_FALSE(test, hwtimer_release(&j->t, job_released));
	KUNIT_EXPECT_EQ(test, 1, j->released);
}

/* The wheel detects a copy of a timeout that it holds, which debugobjects does not know. */
static void initialised_copy(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);
	struct job *copy = kunit_kzalloc(test, sizeof(*copy), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, copy);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, SEC));
	*copy = *j;
	expect_report("initialised while the wheel holds it: job_fired");
	hwtimer_init(&copy->t, wheel, job_released);
	KUNIT_EXPECT_PTR_EQ(test, &job_fired, copy->t.fn);
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);
	KUNIT_EXPECT_EQ(test, 0, copy->released);
	hwtimer_wheel_destroy(wheel);
}

/* Freed while the wheel still holds the timeout, which was cancelled. */
static void freed(struct kunit *test)
{
	struct hwtimer_wheel *wheel;
	struct job *j;

	need(test, IS_ENABLED(CONFIG_DEBUG_OBJECTS_FREE), "CONFIG_DEBUG_OBJECTS_FREE");
	wheel = a_wheel(test);
	j = kzalloc(sizeof(*j), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, j);
	hwtimer_init(&j->t, wheel, job_fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, SEC));
	nap(SEC / 2);
	KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&j->t));
	KUNIT_EXPECT_EQ(test, 1UL, wheel->wheel.filed);
	expect_report("ODEBUG: free active .* hwtimer_timeout hint: job_fired");
	kfree(j);
	KUNIT_EXPECT_EQ(test, 0UL, wheel->wheel.filed);
	nap(2 * SEC);
	hwtimer_wheel_destroy(wheel);
}

/* A callback that holds the worker. */
struct hold {
	struct hwtimer_timeout	t;
	struct completion	began, over;
};

static void hold_worker(struct hwtimer_timeout *t)
{
	struct hold *h = container_of(t, struct hold, t);

	complete(&h->began);
	wait_for_completion(&h->over);
}

/*
 * A function that may not sleep is about to return while a timeout on its stack is pending: the
 * wheel drops the timeout soon. Not before tracking has ended, as the worker is held until then.
 */
static void left_on_stack(struct kunit *test)
{
	struct hwtimer_wheel *wheel;
	struct job j = { };
	struct hold h;

	need(test, DEBUG_OBJECTS, "CONFIG_DEBUG_OBJECTS");
	wheel = a_wheel(test);
	init_completion(&h.began);
	init_completion(&h.over);
	hwtimer_init_on_stack(&h.t, wheel, hold_worker);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&h.t, 0));
	wait_for_completion(&h.began);
	hwtimer_init_on_stack(&j.t, wheel, job_fired);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j.t, SEC));
	expect_report("ODEBUG: free active .* hwtimer_timeout hint: job_fired");
	/* by the worker, when it drops the timeout */
	expect_report("ODEBUG: deactivate not available .* hwtimer_timeout hint: job_fired");
	preempt_disable();
	hwtimer_destroy_on_stack(&j.t);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
	complete(&h.over);
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 0UL, wheel->wheel.filed);
	KUNIT_EXPECT_EQ(test, 0, j.fired);
	hwtimer_cancel_sync(&h.t);
	hwtimer_destroy_on_stack(&h.t);
	hwtimer_wheel_destroy(wheel);
}

/* A wait in atomic context is reported even if there is nothing to wait for. */
static void atomic(struct kunit *test)
{
	struct hwtimer_wheel *wheel;
	struct job *j;

	need(test, IS_ENABLED(CONFIG_DEBUG_ATOMIC_SLEEP), "CONFIG_DEBUG_ATOMIC_SLEEP");
	wheel = a_wheel(test);
	j = jobs(test, wheel, 1);
	/* the report is limited to one a second */
	nap(2 * SEC);
	expect_report("BUG: sleeping function called from invalid context");
	expect_report("Call Trace");
	preempt_disable();
	hwtimer_cancel_sync(&j->t);
	preempt_enable();
	hwtimer_wheel_destroy(wheel);
}

static DEFINE_MUTEX(needed);

static void takes_needed(struct hwtimer_timeout *t)
{
	mutex_lock(&needed);
	job_fired(t);
	mutex_unlock(&needed);
}

/*
 * See "Deadlock" in hwtimer.h: a task waits with a lock that a callback of the wheel takes. No
 * callback runs at the time.
 */
static void deadlock(struct kunit *test)
{
	struct hwtimer_wheel *wheel;
	struct job *j;

	need(test, IS_ENABLED(CONFIG_PROVE_LOCKING), "CONFIG_PROVE_LOCKING");
	wheel = a_wheel(test);
	j = jobs(test, wheel, 2);
	hwtimer_init(&j[0].t, wheel, takes_needed);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, 0));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	expect_report("WARNING: possible circular locking dependency detected");
	expect_report("Call Trace");
	mutex_lock(&needed);
	hwtimer_cancel_sync(&j[1].t);
	mutex_unlock(&needed);
	hwtimer_wheel_destroy(wheel);
}

/* A fault in a work item: in the thread of the case the report would make the case fail. */
struct doing {
	struct work_struct	work;
	struct job		*job;
	unsigned int		by;
};

static void in_a_work(struct doing *d, work_func_t fn)
{
	INIT_WORK_ONSTACK(&d->work, fn);
	schedule_work(&d->work);
	flush_work(&d->work);
	destroy_work_on_stack(&d->work);
}

static void read_freed(struct work_struct *work)
{
	struct doing *d = container_of(work, struct doing, work);

	hwtimer_is_pending(&d->job->t);
}

static void used_after_free(struct kunit *test)
{
	struct doing d = { };
	unsigned int i;

	need(test, IS_ENABLED(CONFIG_KASAN_GENERIC), "CONFIG_KASAN_GENERIC");
	d.job = kzalloc(sizeof(*d.job), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, d.job);
	kfree(d.job);
	/* KASAN checks the kernel's atomic64_read() twice */
	for (i = 0; i < 2; i++) {
		expect_report("BUG: KASAN: (slab-)?use-after-free in .*pending");
		expect_report("Call Trace");
	}
	in_a_work(&d, read_freed);
}

static void shift_too_far(struct work_struct *work)
{
	struct doing *d = container_of(work, struct doing, work);

	d->by = 1 << d->by;
}

static void shifted(struct kunit *test)
{
	struct doing d = { .by = 77 };

	need(test, IS_ENABLED(CONFIG_UBSAN_SHIFT), "CONFIG_UBSAN_SHIFT");
	expect_report("UBSAN: shift-out-of-bounds in .*planted");
	in_a_work(&d, shift_too_far);
}

/* Clears about 6 KB of stack below the caller's frame, with pointers that earlier calls left. */
static noinline void wipe_stack(unsigned int depth)
{
	unsigned long words[64];

	memzero_explicit(words, sizeof(words));
	if (depth)
		wipe_stack(depth - 1);
	barrier_data(words);
}

/*
 * For kmemleak, which scans at the end, when the modules are unloaded. It takes any word with the
 * address of a block for a reference. It scans whole stacks, and another task may reuse the pages
 * of this one. A block of the freelist contains the address of the next one, and keeps that
 * when it is allocated without being cleared. So the case leaks several small, cleared blocks, one
 * of which has to be found. The module allocates no block of this size.
 */
static void leaked(struct kunit *test)
{
	unsigned int i;

	need(test, IS_ENABLED(CONFIG_DEBUG_KMEMLEAK), "CONFIG_DEBUG_KMEMLEAK");
	expect_report("unreferenced object .*size 8.: *comm .kunit_try_catch.");
	for (i = 0; i < 16; i++)
		KUNIT_EXPECT_TRUE(test, kzalloc(8, GFP_KERNEL));
	wipe_stack(11);
}

static struct kunit_case planted_cases[] = {
	KUNIT_CASE(no_memory),
	KUNIT_CASE(uninitialised),
	KUNIT_CASE(initialised_copy),
	KUNIT_CASE(freed),
	KUNIT_CASE(left_on_stack),
	KUNIT_CASE(atomic),
	KUNIT_CASE(deadlock),
	KUNIT_CASE(used_after_free),
	KUNIT_CASE(shifted),
	KUNIT_CASE(leaked),
	{}
};

SUITE(planted, "planted");
