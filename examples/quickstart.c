// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * quickstart: timeouts in a program, by ioctls. Three are scheduled, one
 * of them is touched and one cancelled; two expire.
 */
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/hwtimer.h>

#define MS(n)	((n) * 1000000ULL)

static int fd;

static void device(const char *what, unsigned long command, void *arg)
{
	if (ioctl(fd, command, arg))
		err(1, "%s", what);
}

static __u64 schedule(__u64 name, __u64 delay)
{
	struct hwtimer_schedule s = {
		.flags = HWTIMER_RELATIVE, .time = delay, .user_data = name,
	};

	device("schedule", HWTIMER_IOC_SCHEDULE, &s);
	return s.id;
}

int main(void)
{
	static const __u64 expected[] = { 2, 1 };
	struct hwtimer_setup setup = {
		.tick_ns = MS(10), .clockid = CLOCK_MONOTONIC,
	};
	struct hwtimer_touch touch = {
		.flags = HWTIMER_RELATIVE, .time = MS(400),
	};
	struct hwtimer_query query = { 0 };
	struct hwtimer_cancel cancel = { 0 };
	struct hwtimer_record records[8];
	struct pollfd p = { .events = POLLIN };
	unsigned int seen = 0, i, n;
	ssize_t len;

	fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		err(1, "/dev/hwtimer");
	/* Only if another tick is wanted. */
	device("setup", HWTIMER_IOC_SETUP, &setup);

	touch.id = schedule(1, MS(10000));
	schedule(2, MS(200));
	cancel.id = schedule(3, MS(10000));
	/* ENOENT: it has expired, so read() has returned it. */
	device("touch", HWTIMER_IOC_TOUCH, &touch);
	query.id = touch.id;
	device("query", HWTIMER_IOC_QUERY, &query);
	device("cancel", HWTIMER_IOC_CANCEL, &cancel);
	printf("timeout %llu is due at %.3f s\n", query.user_data,
	       query.deadline_ns / 1e9);

	p.fd = fd;
	while (seen < 2) {
		if (poll(&p, 1, 60000) != 1)
			errx(1, "nothing expired within a minute");
		len = read(fd, records, sizeof(records));
		if (len < 0)
			err(1, "read");
		n = len / sizeof(*records);
		for (i = 0; i < n; i++, seen++) {
			printf("timeout %llu expired %.3f ms after its deadline\n",
			       records[i].user_data,
			       (records[i].taken_ns - records[i].deadline_ns) / 1e6);
			if (seen >= 2 || records[i].user_data != expected[seen] ||
			    records[i].taken_ns < records[i].deadline_ns)
				errx(1, "that is wrong");
		}
	}
	return EXIT_SUCCESS;
}
