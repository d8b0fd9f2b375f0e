/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the KUnit suites share.
 */
#ifndef HWTIMER_KUNIT_H
#define HWTIMER_KUNIT_H

#include <kunit/test.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/namei.h>
#include <linux/path.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/types.h>

#include "../../hwtimer.h"

/* The seed of randomised suites: the module's parameter, or a new one each time. */
u64 hwtimer_kunit_seed(void);

/* The clock of a case's wheels */
struct mode {
	const char		*desc;
	enum hwtimer_clock	clock;
};

/* Suite "hwtimer_@title" of @suite_cases; the further arguments are members of its structure. */
#define SUITE(suite, title, ...)						\
	static struct kunit_suite suite##_suite = {				\
		.name = "hwtimer_" title, .test_cases = suite##_cases, __VA_ARGS__ \
	};									\
	kunit_test_suite(suite##_suite)

#ifndef KUNIT_ARRAY_PARAM_DESC	/* Linux 6.1 */
#define KUNIT_ARRAY_PARAM_DESC(name, array, desc_member)			\
	static void name##_desc(typeof((array)[0]) param[], char *desc)		\
	{									\
		strscpy(desc, param[0].desc_member, KUNIT_PARAM_DESC_SIZE);	\
	}									\
	KUNIT_ARRAY_PARAM(name, array, name##_desc)
#endif

/* Suites that are built into a kernel run before it mounts a file system. */
static inline void need_files(struct kunit *test)
{
	struct path path;

	if (kern_path("/sys/kernel/debug", 0, &path))
		kunit_skip(test, "no file system is mounted yet");
	path_put(&path);
}

/* Sleep until @ns on CLOCK_MONOTONIC. With time-travel=inf-cpu that takes no real time. */
static inline void nap_until(u64 ns)
{
	ktime_t until = ns_to_ktime(ns);

	/* kthread_stop() wakes a kthread early. */
	do {
		set_current_state(TASK_UNINTERRUPTIBLE);
	} while (schedule_hrtimeout(&until, HRTIMER_MODE_ABS));
}

static inline void nap(u64 ns)
{
	nap_until(ktime_get_ns() + ns);
}

/* A suite_init: timers have the resolution of a jiffy for a moment after boot. */
static inline int settle_timers(struct kunit_suite *suite)
{
	nap(NSEC_PER_SEC);
	return 0;
}

#endif /* HWTIMER_KUNIT_H */
