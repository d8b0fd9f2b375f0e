/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the KUnit suites share.
 */
#ifndef HWTIMER_KUNIT_H
#define HWTIMER_KUNIT_H

#include <linux/types.h>

/* For randomised suites: the module's parameter, or another one each time. */
u64 hwtimer_kunit_seed(void);

#endif /* HWTIMER_KUNIT_H */
