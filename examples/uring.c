// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * uring: timeouts in the event loop of a program that uses io_uring. Three are scheduled by one
 * system call, which also begins to read; one of them is touched and one cancelled by the next;
 * two expire. Uses liburing.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <liburing.h>
#include <linux/hwtimer.h>

#define MS(n)	((n) * 1000000ULL)

/* user_data of completions */
enum { COMMAND, READ };

static struct io_uring ring;

/* An entry for the first of the registered files, which is /dev/hwtimer. */
static struct io_uring_sqe *entry(int opcode, __u64 user_data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe)
		errx(1, "the submission queue is full");
	io_uring_prep_rw(opcode, sqe, 0, NULL, 0, 0);
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->user_data = user_data;
	return sqe;
}

/* The argument has to stay in place until the command completes. */
static void command(__u32 cmd, void *arg)
{
	struct hwtimer_uring_cmd payload = { .arg = (uintptr_t)arg };
	struct io_uring_sqe *sqe = entry(IORING_OP_URING_CMD, COMMAND);

	sqe->cmd_op = cmd;
	memcpy(sqe->cmd, &payload, sizeof(payload));
}

static void read_records(struct hwtimer_record *records, size_t size)
{
	struct io_uring_sqe *sqe = entry(IORING_OP_READ, READ);

	sqe->addr = (uintptr_t)records;
	sqe->len = size;
	sqe->off = -1;
}

/* Submit what is queued, and wait for a completion; returns its result, and user_data in @which. */
static int next(__u64 *which)
{
	struct __kernel_timespec minute = { .tv_sec = 60 };
	struct io_uring_cqe *cqe;
	int ret = io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &minute, NULL);

	if (ret < 0)
		errx(1, "io_uring: %s", strerror(-ret));
	ret = cqe->res;
	*which = cqe->user_data;
	io_uring_cqe_seen(&ring, cqe);
	if (ret < 0)
		errx(1, "%s: %s", *which == READ ? "read" : "command", strerror(-ret));
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
	unsigned int commands = 0, seen = 0;
	__u64 which;
	int ret, fd;

	fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		err(1, "/dev/hwtimer");
	ret = io_uring_queue_init(8, &ring, 0);
	if (!ret)
		ret = io_uring_register_files(&ring, &fd, 1);
	if (ret)
		errx(1, "io_uring: %s", strerror(-ret));

	for (unsigned int i = 0; i < 3; i++)
		command(HWTIMER_IOC_SCHEDULE, &s[i]);
	read_records(records, sizeof(records));
	while (seen < 2) {
		ret = next(&which);
		if (which == COMMAND) {
			if (++commands != 3)
				continue;
			touch.id = s[0].id;
			cancel.id = s[2].id;
			command(HWTIMER_IOC_TOUCH, &touch);	/* -ENOENT: it has expired */
			command(HWTIMER_IOC_CANCEL, &cancel);
			continue;
		}
		for (unsigned int i = 0; i < ret / sizeof(*records); i++, seen++) {
			printf("timeout %llu expired %.3f ms after its deadline\n",
			       records[i].user_data,
			       (records[i].fired - records[i].deadline) / 1e6);
			if (seen >= 2 || records[i].user_data != expected[seen] ||
			    records[i].fired < records[i].deadline)
				errx(1, "that is wrong");
		}
		if (seen < 2)
			read_records(records, sizeof(records));
	}
	if (commands != 5)
		errx(1, "%u of 5 commands completed", commands);
	io_uring_queue_exit(&ring);
	return EXIT_SUCCESS;
}
