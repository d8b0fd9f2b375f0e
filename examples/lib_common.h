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
	int ret = hwtimer_open(&timers, options);

	if (ret == -ENOENT || ret == -ENXIO || ret == -ENODEV)
		errx(1, "there is no /dev/hwtimer: is the module loaded? (insmod hwtimer.ko)");
	if (ret == -EACCES || ret == -EPERM)
		errx(1, "no right to use /dev/hwtimer, which is root's, or what udev made it");
	must(ret, "/dev/hwtimer");
	return timers;
}

#endif /* LIB_COMMON_H */
