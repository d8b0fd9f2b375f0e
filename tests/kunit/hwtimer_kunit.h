/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the KUnit suites share.
 */
#ifndef HWTIMER_KUNIT_H
#define HWTIMER_KUNIT_H

#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/types.h>

#include "../../hwtimer.h"

/* For randomised suites: the module's parameter, or another one each time. */
u64 hwtimer_kunit_seed(void);

/* What moves the wheels of a case, and on which clock. */
struct mode {
	const char		*desc;
	enum hwtimer_driver	driver;
	enum hwtimer_clock	clock;
};

/* Sleep until @ns on CLOCK_MONOTONIC. In User-Mode Linux that takes no time. */
static inline void nap_until(u64 ns)
{
	ktime_t until = ns_to_ktime(ns);

	/* Stopping a kthread wakes it, whatever it waits for. */
	do {
		set_current_state(TASK_UNINTERRUPTIBLE);
	} while (schedule_hrtimeout(&until, HRTIMER_MODE_ABS));
}

static inline void nap(u64 ns)
{
	nap_until(ktime_get_ns() + ns);
}

#endif /* HWTIMER_KUNIT_H */
