/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the suites of misuse and of planted faults share.
 *
 * A report (of WARN() or a checker) that has to come is announced by a line for
 * scripts/judge/klog-scan, which checks that it comes exactly once. The cases themselves count the
 * lines of pr_warn().
 */
#ifndef MISUSE_H
#define MISUSE_H

#include <kunit/test.h>

#include "../../core/hwtimer_driver.h"

#define MS	NSEC_PER_MSEC
#define SEC	NSEC_PER_SEC
#define TICK	(10 * MS)

#define DEBUG_OBJECTS	IS_ENABLED(CONFIG_DEBUG_OBJECTS)

/* A timeout that counts its expiries and releases. */
struct job {
	struct hwtimer_timeout	t;
	unsigned int		fired;
	unsigned int		released;
};

static inline void expect_report(const char *regex)
{
	pr_info("klog-expect: %s\n", regex);
}

static inline void job_fired(struct hwtimer_timeout *t)
{
	container_of(t, struct job, t)->fired++;
}

static inline void job_released(struct hwtimer_timeout *t)
{
	container_of(t, struct job, t)->released++;
}

static inline struct hwtimer_wheel *a_wheel(struct kunit *test)
{
	struct hwtimer_wheel_params params = {
		.name = "misuse", .tick_ns = TICK, .slots = 64,
	};
	struct hwtimer_wheel *wheel = hwtimer_wheel_create(&params);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, wheel);
	return wheel;
}

static inline struct job *jobs(struct kunit *test, struct hwtimer_wheel *wheel, unsigned int n)
{
	struct job *j = kunit_kzalloc(test, n * sizeof(*j), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, j);
	for (i = 0; i < n; i++)
		hwtimer_init(&j[i].t, wheel, job_fired);
	return j;
}

#endif /* MISUSE_H */
