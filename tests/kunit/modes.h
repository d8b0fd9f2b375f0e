/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: parameters of cases that run on each clock.
 */
#ifndef MODES_H
#define MODES_H

#include <kunit/test.h>

#include "hwtimer_kunit.h"

static const struct mode modes[] = {
	{ "monotonic" },
	{ "boottime", .clock = HWTIMER_CLOCK_BOOTTIME },
};

KUNIT_ARRAY_PARAM_DESC(mode, modes, desc);

#endif /* MODES_H */
