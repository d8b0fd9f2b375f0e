/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Contexts of /dev/hwtimer by calls, for tests of what such a context is part of. (calls.c
 * tests the calls themselves.)
 */
#ifndef CALLS_H
#define CALLS_H

#include "guest.h"

#include <linux/hwtimer.h>

#define DEVICE		"/dev/hwtimer"
#define CONTEXTS	HWT_DEBUGFS "/contexts"

static inline int calls_open(int flags)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC | flags);

	return fd < 0 ? -errno : fd;
}

static inline int must_open(int flags)
{
	int fd = calls_open(flags);

	if (fd < 0)
		die(DEVICE ": %s", strerror(-fd));
	return fd;
}

/* Schedule, @delay from now, and return the id. */
static inline __u64 must_schedule(int fd, __u64 delay, __u64 user_data)
{
	struct hwtimer_schedule s = {
		.time = delay, .flags = HWTIMER_RELATIVE, .user_data = user_data,
	};

	if (ioctl(fd, HWTIMER_IOC_SCHEDULE, &s))
		die("SCHEDULE: %s", strerror(errno));
	return s.id;
}

static inline void arm_many(int fd, unsigned int n, __u64 delay)
{
	while (n--)
		must_schedule(fd, delay, n);
}

static inline int calls_touch(int fd, __u64 id, __u64 delay)
{
	struct hwtimer_touch t = { .id = id, .time = delay, .flags = HWTIMER_RELATIVE };

	return hwt_ioctl(fd, HWTIMER_IOC_TOUCH, &t);
}

static inline int calls_cancel(int fd, __u64 id)
{
	struct hwtimer_cancel c = { .id = id };

	return hwt_ioctl(fd, HWTIMER_IOC_CANCEL, &c);
}

/* Read up to @n records: how many, or -errno. 0: it is stopped, and all were read. */
static inline int calls_read(int fd, void *to, unsigned int n)
{
	ssize_t ret = read(fd, to, n * sizeof(struct hwtimer_record));

	return ret < 0 ? -errno : ret / (ssize_t)sizeof(struct hwtimer_record);
}

static inline struct hwtimer_stats must_stats(int fd)
{
	struct hwtimer_stats s;

	if (ioctl(fd, HWTIMER_IOC_STATS, &s))
		die("STATS: %s", strerror(errno));
	return s;
}

/* How many contexts there are after a SETUP, and before their last close. */
static inline unsigned int contexts(void)
{
	char *text = must_slurp(CONTEXTS), *at = text;
	unsigned int n = 0;

	for (; (at = strstr(at, "context: ")); at++)
		n++;
	free(text);
	return n;
}

#endif /* CALLS_H */
