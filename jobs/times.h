/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Times, in ns: on the wall clock, since 1970 in UTC, or on CLOCK_MONOTONIC.
 */
#ifndef TIMES_H
#define TIMES_H

#include <stdbool.h>
#include <time.h>

#include <linux/types.h>

#define NS_PER_MS	1000000LL
#define NS_PER_S	1000000000LL
/* There are no more due times. */
#define NEVER		(-1LL)

/* What becomes of a due time that is too late, but not by the scheduler's own delay. */
enum misfire { MISFIRE_NOTHING, MISFIRE_ONCE, MISFIRE_ALL };

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

#define EVERY_MIN	(10 * NS_PER_MS)
#define EVERY_MAX	(3650 * 86400 * NS_PER_S)

/* Parses "1.5s"; units are ms, s, m, h and d. Returns false if invalid or above EVERY_MAX. */
bool parse_duration(const char *text, __s64 *ns);

#define DURATION_SIZE	32
#define TIME_SIZE	48

/* In the format of parse_duration(). */
const char *show_duration(__s64 ns, char text[DURATION_SIZE]);
/* In a time zone that there is; NULL: the machine's. */
const char *show_time(__s64 wall, const char *zone, char text[TIME_SIZE]);

static inline __s64 clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static inline __s64 wall_now(void)
{
	return clock_ns(CLOCK_REALTIME);
}

#endif /* TIMES_H */
