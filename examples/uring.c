// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * uring: timeouts in the event loop of a program that uses io_uring: their records are read by
 * IORING_OP_READ, among whatever else the program has submitted. Of three timeouts, one is pushed
 * back, one is cancelled, and two expire. Uses liburing.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <liburing.h>
#include <linux/hwtimer.h>

#define MS(n)	((n) * 1000000ULL)

static struct io_uring ring;
static int fd;

static void device(unsigned long cmd, void *arg)
{
	if (ioctl(fd, cmd, arg))
		err(1, "ioctl");
}

/* Read into @records, which have to stay in place until the completion. */
static void submit_read(struct hwtimer_record *records, unsigned int size)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe)
		errx(1, "the submission queue is full");
	io_uring_prep_read(sqe, fd, records, size, -1);
}

/* Submit what is queued, and wait for a completion; returns its result. */
static int next(void)
{
	struct __kernel_timespec minute = { .tv_sec = 60 };
	struct io_uring_cqe *cqe;
	int ret = io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &minute, NULL);

	if (ret < 0)
		errx(1, "io_uring: %s", strerror(-ret));
	ret = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	if (ret < 0)
		errx(1, "read: %s", strerror(-ret));
	return ret;
}

int main(void)
{
	static const __u64 expected[] = { 2, 1 };
	struct hwtimer_schedule s[] = {
		{ .flags = HWTIMER_RELATIVE, .time = MS(10000), .user_data = 1 },
		{ .flags = HWTIMER_RELATIVE, .time = MS(200), .user_data = 2 },
		{ .flags = HWTIMER_RELATIVE, .time = MS(10000), .user_data = 3 },
	};
	struct hwtimer_touch touch = { .flags = HWTIMER_RELATIVE, .time = MS(400) };
	struct hwtimer_cancel cancel = { 0 };
	struct hwtimer_record records[8];
	unsigned int seen = 0, i, n;
	int ret;

	fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		err(1, "/dev/hwtimer");
	ret = io_uring_queue_init(8, &ring, 0);
	if (ret)
		errx(1, "io_uring: %s", strerror(-ret));

	for (i = 0; i < 3; i++)
		device(HWTIMER_IOC_SCHEDULE, &s[i]);
	touch.id = s[0].id;
	device(HWTIMER_IOC_TOUCH, &touch);
	cancel.id = s[2].id;
	device(HWTIMER_IOC_CANCEL, &cancel);
	while (seen < 2) {
		submit_read(records, sizeof(records));
		n = next() / sizeof(*records);
		for (i = 0; i < n; i++, seen++) {
			printf("timeout %llu expired %.3f ms after its deadline\n",
			       records[i].user_data,
			       (records[i].fired - records[i].deadline) / 1e6);
			if (seen >= 2 || records[i].user_data != expected[seen] ||
			    records[i].fired < records[i].deadline)
				errx(1, "that is wrong");
		}
	}
	io_uring_queue_exit(&ring);
	close(fd);
	return EXIT_SUCCESS;
}
