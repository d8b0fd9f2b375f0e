// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the lanes of a wheel, two workqueues on which its work items run.
 */
#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/time.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>

#include "hwtimer_driver.h"

/* The defaults, for parameters that are 0. */
#define SLOW_MS		500
#define SLOW_RUNS	10
/*
 * How many items of the slow lane run at once. The fast lane has the default of workqueues, which
 * is much higher.
 */
#define SLOW_ACTIVE	16

/**
 * hwtimer_lanes_check - check the parameters that are for lanes
 * @params: the parameters of a wheel
 *
 * Return: true if they are valid.
 */
bool hwtimer_lanes_check(const struct hwtimer_wheel_params *params)
{
	return params->flags & HWTIMER_WHEEL_WORK ||
	       !(params->slow_ms || params->slow_runs || params->max_queued);
}

/**
 * hwtimer_lanes_init - create the lanes of a wheel with HWTIMER_WHEEL_WORK
 * @driven: the driven wheel; its lanes are zeroed and its name is set
 * @params: the parameters of the wheel
 *
 * Return: 0 or -ENOMEM. On error the caller must not call hwtimer_lanes_end().
 */
int hwtimer_lanes_init(struct hwtimer_driven *driven,
		       const struct hwtimer_wheel_params *params)
{
	struct hwtimer_lanes *lanes = &driven->lanes;

	if (!(params->flags & HWTIMER_WHEEL_WORK))
		return 0;
	lanes->slow_ns = (u64)(params->slow_ms ?: SLOW_MS) * NSEC_PER_MSEC;
	lanes->slow_runs = params->slow_runs ?: SLOW_RUNS;
	lanes->max_queued = params->max_queued;
	/* The name of a workqueue has at most 23 characters. */
	lanes->fast = alloc_workqueue("hwt_fast/%.14s", WQ_UNBOUND, 0, driven->name);
	lanes->slow = alloc_workqueue("hwt_slow/%.14s", WQ_UNBOUND, SLOW_ACTIVE,
				      driven->name);
	if (lanes->fast && lanes->slow)
		return 0;
	hwtimer_lanes_end(driven);
	return -ENOMEM;
}

/**
 * hwtimer_lanes_end - wait for all runs, and destroy the lanes
 * @driven: the driven wheel, which was stopped or never started
 */
void hwtimer_lanes_end(struct hwtimer_driven *driven)
{
	struct hwtimer_lanes *lanes = &driven->lanes;

	/*
	 * Also wait for items on workqueues of callers, because they use the wheel. Pairs with
	 * became_idle().
	 */
	wait_var_event(&lanes->active, !atomic_long_read_acquire(&lanes->active));
	if (lanes->fast)
		destroy_workqueue(lanes->fast);
	if (lanes->slow)
		destroy_workqueue(lanes->slow);
}
