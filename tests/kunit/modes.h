/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: parameters of cases that run with each driver, on each clock.
 */
#ifndef MODES_H
#define MODES_H

#include <kunit/test.h>

#include "hwtimer_kunit.h"

static const struct mode modes[] = {
	{ "kthread, monotonic" },
	{ "kthread, boottime", .clock = HWTIMER_CLOCK_BOOTTIME },
	{ "hrtimer, monotonic", HWTIMER_DRIVER_HRTIMER },
	{ "hrtimer, boottime", HWTIMER_DRIVER_HRTIMER, HWTIMER_CLOCK_BOOTTIME },
};

/* Those of one driver, an array. */
#define MODES_OF(driver)	(*(const struct mode (*)[2])(modes + 2 * (driver)))

KUNIT_ARRAY_PARAM_DESC(mode, modes, desc);

#endif /* MODES_H */
