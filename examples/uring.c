// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * uring: timeouts of libhwtimer in the event loop of a program that uses io_uring, which polls
 * hwtimer_fd() among whatever else the program has submitted. Of three timeouts, one is pushed
 * back, one is cancelled, and two expire. Uses liburing.
 */
#include <err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libhwtimer.h>
#include <liburing.h>

#define MS(n)	((n) * 1000000ULL)

static struct io_uring ring;

static int must(const char *what, int ret)
{
	if (ret < 0)
		errx(1, "%s: %s", what, strerror(-ret));
	return ret;
}

/* A poll that ends with its first completion. Submit it again once there is nothing to take. */
static void submit_poll(int fd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe)
		errx(1, "the submission queue is full");
	io_uring_prep_poll_add(sqe, fd, POLLIN);
}

/* Submit what is queued, and wait for a completion. */
static void next(void)
{
	struct __kernel_timespec minute = { .tv_sec = 60 };
	struct io_uring_cqe *cqe;

	must("io_uring", io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &minute, NULL));
	must("poll", cqe->res);
	io_uring_cqe_seen(&ring, cqe);
}

int main(void)
{
	static const uint64_t expected[] = { 2, 1 };
	hwtimer_id first, third;
	struct hwtimer_event e;
	unsigned int seen = 0;
	struct hwtimer *h;

	must("io_uring", io_uring_queue_init(8, &ring, 0));
	must("open", hwtimer_open(&h, NULL));
	must("schedule", hwtimer_schedule(h, MS(10000), 1, &first));
	must("schedule", hwtimer_schedule(h, MS(200), 2, NULL));
	must("schedule", hwtimer_schedule(h, MS(10000), 3, &third));
	must("touch", hwtimer_touch(h, first, MS(400)));
	must("cancel", hwtimer_cancel(h, third));

	while (seen < 2) {
		submit_poll(hwtimer_fd(h));
		next();
		while (must("wait", hwtimer_wait(h, &e, 0))) {
			printf("timeout %llu expired %.3f ms after its deadline\n",
			       (unsigned long long)e.user_data,
			       (e.taken_ns - e.deadline_ns) / 1e6);
			if (seen >= 2 || e.user_data != expected[seen] ||
			    e.taken_ns < e.deadline_ns)
				errx(1, "that is wrong");
			seen++;
		}
	}
	io_uring_queue_exit(&ring);
	hwtimer_close(h);
	return EXIT_SUCCESS;
}
