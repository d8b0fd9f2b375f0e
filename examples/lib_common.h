/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Code that examples with libhwtimer share: opening it, and calls that must not fail.
 */
#ifndef LIB_COMMON_H
#define LIB_COMMON_H

#include <libhwtimer.h>

#include "idle_common.h"

/* Exit if a call failed that must not fail. Otherwise return its result, @ret. */
static inline int must(int ret, const char *what)
{
	if (ret < 0) {
		errno = -ret;
		err(1, "%s", what);
	}
	return ret;
}

static inline struct hwtimer *open_timers(const struct hwtimer_options *options)
{
	struct hwtimer *timers;

	must(hwtimer_open(&timers, options), "hwtimer_open");
	return timers;
}

#endif /* LIB_COMMON_H */
