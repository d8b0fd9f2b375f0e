// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the lanes of a wheel, two workqueues on which its work items run.
 */
#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/time.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>

#include "hwtimer_internal.h"

/* Parameters that are 0. */
#define SLOW_MS		500
#define SLOW_RUNS	10
/*
 * How many of the slow lane run at a time. The fast lane has the default of
 * workqueues, which is far more.
 */
#define SLOW_ACTIVE	16

/**
 * hwtimer_works_check - are these parameters right?
 * @params: the wheel's
 *
 * Return: true if they are.
 */
bool hwtimer_works_check(const struct hwtimer_wheel_params *params)
{
	return params->flags & HWTIMER_WHEEL_WORK ||
	       !(params->slow_ms || params->slow_runs || params->max_queued);
}

/**
 * hwtimer_works_init - make the lanes, if they are asked for
 * @worker: zeroed but for its name
 * @params: the wheel's
 *
 * Return: 0, -ENOMEM. On error there is nothing to be ended.
 */
int hwtimer_works_init(struct hwtimer_worker *worker,
		       const struct hwtimer_wheel_params *params)
{
	struct hwtimer_works *works = &worker->works;

	if (!(params->flags & HWTIMER_WHEEL_WORK))
		return 0;
	works->slow_ns = (u64)(params->slow_ms ?: SLOW_MS) * NSEC_PER_MSEC;
	works->slow_runs = params->slow_runs ?: SLOW_RUNS;
	works->max_queued = params->max_queued;
	/* Names of workqueues have 23 characters at the most. */
	works->fast = alloc_workqueue("hwt_fast/%.14s", WQ_UNBOUND, 0, worker->name);
	works->slow = alloc_workqueue("hwt_slow/%.14s", WQ_UNBOUND, SLOW_ACTIVE,
				      worker->name);
	if (works->fast && works->slow)
		return 0;
	hwtimer_works_end(worker);
	return -ENOMEM;
}

/**
 * hwtimer_works_end - wait for all runs, and free the lanes
 * @worker: whose wheel was stopped, or never started
 */
void hwtimer_works_end(struct hwtimer_worker *worker)
{
	struct hwtimer_works *works = &worker->works;

	/* On the workqueues of others, too: they use the wheel. Pairs with became_idle(). */
	wait_var_event(&works->busy, !atomic_long_read_acquire(&works->busy));
	if (works->fast)
		destroy_workqueue(works->fast);
	if (works->slow)
		destroy_workqueue(works->slow);
}
