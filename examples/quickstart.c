// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * quickstart: timeouts in a program, by ioctls. Three are scheduled, one of them is touched and
 * one cancelled; two expire.
 */
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/hwtimer.h>

#define MS(n)	((n) * 1000000ULL)

static __u64 schedule(int fd, __u64 name, __u64 delay)
{
	struct hwtimer_schedule s = {
		.flags = HWTIMER_RELATIVE, .time = delay, .user_data = name,
	};

	if (ioctl(fd, HWTIMER_IOC_SCHEDULE, &s))
		err(1, "schedule");
	return s.id;
}

int main(void)
{
	static const __u64 expected[] = { 2, 1 };
	struct hwtimer_touch touch = { .flags = HWTIMER_RELATIVE, .time = MS(400) };
	struct hwtimer_cancel cancel = { 0 };
	struct hwtimer_record records[8];
	struct pollfd p = { .events = POLLIN };
	unsigned int seen = 0, i, n;
	ssize_t len;

	p.fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (p.fd < 0)
		err(1, "/dev/hwtimer");

	touch.id = schedule(p.fd, 1, MS(10000));
	schedule(p.fd, 2, MS(200));
	cancel.id = schedule(p.fd, 3, MS(10000));
	if (ioctl(p.fd, HWTIMER_IOC_TOUCH, &touch))
		err(1, "touch");	/* ENOENT: it has expired */
	if (ioctl(p.fd, HWTIMER_IOC_CANCEL, &cancel))
		err(1, "cancel");	/* ENOENT: it has expired */

	while (seen < 2) {
		if (poll(&p, 1, 60000) != 1)
			errx(1, "nothing expired within a minute");
		len = read(p.fd, records, sizeof(records));
		if (len < 0)
			err(1, "read");
		n = len / sizeof(*records);
		for (i = 0; i < n; i++, seen++) {
			printf("timeout %llu expired %.3f ms after its deadline\n",
			       records[i].user_data,
			       (records[i].fired - records[i].deadline) / 1e6);
			if (seen >= 2 || records[i].user_data != expected[seen] ||
			    records[i].fired < records[i].deadline)
				errx(1, "that is wrong");
		}
	}
	return EXIT_SUCCESS;
}
