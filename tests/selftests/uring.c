// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands by io_uring (IORING_OP_URING_CMD): they do what the ioctls do, in whatever way they are
 * submitted; and what read.c does not test of reads and polls by io_uring.
 */
#include "hwt.h"
#include "uring.h"
#include "users.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

/* The headers of the build machine may lack it. */
#define OP_READ_MULTISHOT	49

FIXTURE(uring) {
	int fd;
	struct uring ring;
};

FIXTURE_VARIANT(uring) {
	__u32 setup;
	__u8 flags;
};

FIXTURE_VARIANT_ADD(uring, inline) { };
FIXTURE_VARIANT_ADD(uring, io_wq) { .flags = IOSQE_ASYNC };
FIXTURE_VARIANT_ADD(uring, sqpoll) { .setup = IORING_SETUP_SQPOLL };
FIXTURE_VARIANT_ADD(uring, large) { .setup = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 };

FIXTURE_SETUP(uring)
{
	int ret = open_ring(&self->ring, variant->setup);

	if (ret == -ENOSYS)
		SKIP(return, "this kernel has no io_uring");
	ASSERT_EQ(0, ret);
	self->fd = must_open(0);
}

FIXTURE_TEARDOWN(uring)
{
	close(self->fd);
	close_ring(&self->ring);
}

static struct io_uring_sqe command(int fd, __u32 cmd, void *arg, __u8 flags)
{
	struct hwtimer_uring_cmd payload = { .arg = (uintptr_t)arg };
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_URING_CMD, .flags = flags, .fd = fd, .off = cmd,
	};

	memcpy((char *)&sqe + 48, &payload, sizeof(payload));
	return sqe;
}

static int result(struct uring *ring)
{
	struct io_uring_cqe cqe;

	eventually(completed(ring, &cqe));
	return cqe.res;
}

/* Execute a command, and return its result. */
static int run(struct uring *ring, int fd, __u32 cmd, void *arg, __u8 flags)
{
	struct io_uring_sqe sqe = command(fd, cmd, arg, flags);

	submit(ring, &sqe);
	return result(ring);
}

#define RUN(cmd, arg)	run(&self->ring, self->fd, cmd, arg, variant->flags)

TEST_F(uring, operations)
{
	struct hwtimer_schedule s = {
		.flags = HWTIMER_RELATIVE, .time = FAR, .user_data = 7,
		.id = POISON, .deadline = POISON,
	};
	struct hwtimer_stats stats = { 0 };
	struct hwtimer_info info = { 0 };
	struct hwtimer_record rec;
	struct hwtimer_touch t;
	struct hwtimer_cancel c;
	struct hwtimer_query q;
	__u64 deadline;

	ASSERT_EQ(0, RUN(HWTIMER_IOC_INFO, &info));
	EXPECT_TRUE(info.features & HWTIMER_FEATURE_URING);

	ASSERT_EQ(0, RUN(HWTIMER_IOC_SCHEDULE, &s));
	ASSERT_EQ(0, hwt_query(self->fd, s.id, NULL, &deadline));
	EXPECT_EQ(s.deadline, deadline);

	q = (struct hwtimer_query){ .id = s.id };
	ASSERT_EQ(0, RUN(HWTIMER_IOC_QUERY, &q));
	EXPECT_EQ(7, q.user_data);
	EXPECT_EQ(s.deadline, q.deadline);

	t = (struct hwtimer_touch){ .id = s.id, .time = s.deadline + NSEC_PER_SEC };
	ASSERT_EQ(0, RUN(HWTIMER_IOC_TOUCH, &t));
	ASSERT_EQ(0, hwt_query(self->fd, s.id, NULL, &deadline));
	EXPECT_EQ(t.time, deadline);

	c = (struct hwtimer_cancel){ .id = s.id };
	ASSERT_EQ(0, RUN(HWTIMER_IOC_CANCEL, &c));
	EXPECT_EQ(-ENOENT, RUN(HWTIMER_IOC_CANCEL, &c));
	EXPECT_EQ(-ENOENT, RUN(HWTIMER_IOC_TOUCH, &t));
	EXPECT_EQ(-ENOENT, RUN(HWTIMER_IOC_QUERY, &q));

	s.time = 0;
	ASSERT_EQ(0, RUN(HWTIMER_IOC_SCHEDULE, &s));
	ASSERT_EQ(1, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(s.id, rec.id);
	ASSERT_EQ(0, RUN(HWTIMER_IOC_STATS, &stats));
	EXPECT_EQ(2, stats.scheduled);
	EXPECT_EQ(1, stats.touched);
	EXPECT_TRUE(balanced(&stats));
}

/* At the cap SCHEDULE is refused once, not executed again. */
TEST_F(uring, cap)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 2 };
	struct hwtimer_schedule s = { .flags = HWTIMER_RELATIVE, .time = FAR };
	struct hwtimer_stats stats;

	ASSERT_EQ(0, hwt_setup(self->fd, &setup));
	EXPECT_EQ(0, RUN(HWTIMER_IOC_SCHEDULE, &s));
	EXPECT_EQ(0, RUN(HWTIMER_IOC_SCHEDULE, &s));
	EXPECT_EQ(-EAGAIN, RUN(HWTIMER_IOC_SCHEDULE, &s));
	EXPECT_EQ(-EAGAIN, RUN(HWTIMER_IOC_SCHEDULE, &s));
	stats = must_stats(self->fd);
	EXPECT_EQ(2, stats.scheduled);
	EXPECT_EQ(2, stats.rejected);
}

/* Errors are those of the ioctl. */
TEST_F(uring, errors)
{
	struct hwtimer_schedule s = { .flags = HWTIMER_RELATIVE, .time = FAR }, larger[2];
	struct {
		__u32 cmd;
		void *arg;
	} bad[] = {
		{ 0, &s },
		{ HWTIMER_IOC_INFO + 0x20, &s },
		{ HWTIMER_IOC_SCHEDULE ^ 0x100, &s },
		{ with_size(HWTIMER_IOC_SCHEDULE, 8), &s },
		{ with_size(HWTIMER_IOC_SCHEDULE, sizeof(s) + 4), &s },
		{ with_size(HWTIMER_IOC_SCHEDULE, sizeof(larger)), larger },
		{ HWTIMER_IOC_SCHEDULE, NULL },
		{ HWTIMER_IOC_SCHEDULE, (void *)-64 },
		{ HWTIMER_IOC_TOUCH, NULL },
		{ HWTIMER_IOC_CANCEL, NULL },
		{ HWTIMER_IOC_QUERY, NULL },
		{ HWTIMER_IOC_STATS, NULL },
		{ HWTIMER_IOC_INFO, NULL },
		{ HWTIMER_IOC_ENTER, larger },
	};
	static const __u32 by_ioctl_only[] = {
		HWTIMER_IOC_SETUP, HWTIMER_IOC_STOP, HWTIMER_IOC_RINGS,
		HWTIMER_IOC_LIST, HWTIMER_IOC_WHEELS, HWTIMER_IOC_RESIZE,
	};
	struct iovec buffer = { larger, sizeof(larger) };
	struct io_uring_sqe sqe;
	unsigned int i;

	memset(larger, 0, sizeof(larger));
	larger[1].id = 1;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		int ret = hwt_ioctl(self->fd, bad[i].cmd, bad[i].arg);

		ASSERT_GT(0, ret);
		EXPECT_EQ(ret, RUN(bad[i].cmd, bad[i].arg))
			TH_LOG("command %u", i);
	}
	for (i = 0; i < ARRAY_SIZE(by_ioctl_only); i++) {
		EXPECT_EQ(-EOPNOTSUPP, RUN(by_ioctl_only[i], larger));
	}

	/* The pad, and a flag of the entry. */
	sqe = command(self->fd, HWTIMER_IOC_SCHEDULE, &s, variant->flags);
	((char *)&sqe)[48 + 8] = 1;
	submit(&self->ring, &sqe);
	EXPECT_EQ(-EINVAL, result(&self->ring));
	sqe = command(self->fd, HWTIMER_IOC_SCHEDULE, &s, variant->flags);
	sqe.rw_flags = IORING_URING_CMD_FIXED;
	ASSERT_EQ(0, syscall(__NR_io_uring_register, self->ring.fd, IORING_REGISTER_BUFFERS,
			     &buffer, 1));
	submit(&self->ring, &sqe);
	EXPECT_EQ(-EINVAL, result(&self->ring));
	EXPECT_EQ(0, must_stats(self->fd).scheduled);
}

TEST_F(uring, read_only)
{
	struct hwtimer_schedule s = { .flags = HWTIMER_RELATIVE, .time = FAR };
	struct hwtimer_query q = { .id = 1 };

	close(self->fd);
	self->fd = open(HWT_DEVICE, O_RDONLY);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(-EBADF, RUN(HWTIMER_IOC_SCHEDULE, &s));
	EXPECT_EQ(-EBADF, RUN(HWTIMER_IOC_STOP, &s));
	EXPECT_EQ(-ENOENT, RUN(HWTIMER_IOC_QUERY, &q));
}

/* A read linked behind a SCHEDULE gets its record; a failed SCHEDULE cancels the read. */
TEST_F(uring, linked)
{
	struct hwtimer_schedule s = { .flags = HWTIMER_RELATIVE, .time = NSEC_PER_MSEC };
	struct hwtimer_record rec;
	struct io_uring_sqe sqes[] = {
		command(self->fd, HWTIMER_IOC_SCHEDULE, &s, variant->flags | IOSQE_IO_LINK), {
			.opcode = IORING_OP_READ, .fd = self->fd,
			.addr = (uintptr_t)&rec, .len = sizeof(rec), .off = -1,
		},
	};

	queue(&self->ring, sqes, 2);
	submit_queued(&self->ring, 2);
	EXPECT_EQ(0, result(&self->ring));
	EXPECT_EQ(RECORD_SIZE, result(&self->ring));
	EXPECT_EQ(s.id, rec.id);

	s.pad = 1;
	queue(&self->ring, sqes, 2);
	submit_queued(&self->ring, 2);
	EXPECT_EQ(-EINVAL, result(&self->ring));
	EXPECT_EQ(-ECANCELED, result(&self->ring));
}

TEST_F(uring, fixed_file)
{
	struct hwtimer_schedule s = { .flags = HWTIMER_RELATIVE, .time = FAR };
	struct io_uring_sqe sqe = command(0, HWTIMER_IOC_SCHEDULE, &s,
					  variant->flags | IOSQE_FIXED_FILE);

	ASSERT_EQ(0, syscall(__NR_io_uring_register, self->ring.fd, IORING_REGISTER_FILES,
			     &self->fd, 1));
	submit(&self->ring, &sqe);
	EXPECT_EQ(0, result(&self->ring));
	EXPECT_EQ(0, hwt_cancel(self->fd, s.id));
}

/* Give a context rings with 4 entries each, and map them; returns the submission ring in @sq. */
static struct hwtimer_ring *map_rings(int fd, struct hwtimer_sqe **sq)
{
	struct hwtimer_rings rings = { ENTRY_SIZES,
		.sq_entries = 4, .cq_entries = 4, .timeouts = 4,
	};
	struct hwtimer_ring *ring;

	if (hwt_ioctl(fd, HWTIMER_IOC_RINGS, &rings))
		die("HWTIMER_IOC_RINGS");
	ring = must_mmap(rings.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	*sq = (void *)((char *)ring + rings.sq_offset);
	return ring;
}

/* On a context with rings: what was submitted to the ring before takes effect first. */
TEST_F(uring, rings)
{
	struct hwtimer_enter enter = { .taken = DIRTY };
	struct hwtimer_query q = { .id = HWTIMER_ID(1, 5) };
	struct hwtimer_sqe *sq;
	struct hwtimer_ring *ring = map_rings(self->fd, &sq);

	sq[0] = (struct hwtimer_sqe){
		.op = HWTIMER_OP_SCHEDULE, .id = q.id, .time = now_ns() + FAR, .user_data = 9,
	};
	__atomic_store_n(&ring->sq_tail, 1, __ATOMIC_RELEASE);
	EXPECT_EQ(0, RUN(HWTIMER_IOC_QUERY, &q));
	EXPECT_EQ(9, q.user_data);
	EXPECT_EQ(1, __atomic_load_n(&ring->sq_head, __ATOMIC_ACQUIRE));

	sq[1] = (struct hwtimer_sqe){ .op = HWTIMER_OP_CANCEL, .id = q.id };
	__atomic_store_n(&ring->sq_tail, 2, __ATOMIC_RELEASE);
	EXPECT_EQ(0, RUN(HWTIMER_IOC_ENTER, &enter));
	EXPECT_EQ(2, __atomic_load_n(&ring->sq_head, __ATOMIC_ACQUIRE));
	EXPECT_EQ(0, must_stats(self->fd).pending);
}

/* With rings, each expiry is an edge of a multishot poll, and signals an eventfd; reads fail. */
TEST_F(uring, rings_poll)
{
	struct hwtimer_record rec;
	struct io_uring_sqe read_sqe = {
		.opcode = IORING_OP_READ, .flags = variant->flags, .fd = self->fd,
		.addr = (uintptr_t)&rec, .len = sizeof(rec), .off = -1,
	}, sqe = {
		.opcode = IORING_OP_POLL_ADD, .fd = self->fd,
		.poll32_events = POLLIN, .len = IORING_POLL_ADD_MULTI,
	};
	int i, event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct hwtimer_enter enter = { 0 };
	struct io_uring_cqe cqe;
	struct hwtimer_sqe *sq;
	struct hwtimer_ring *ring = map_rings(self->fd, &sq);
	__u64 n;

	ASSERT_LE(0, event);
	ASSERT_EQ(0, syscall(__NR_io_uring_register, self->ring.fd, IORING_REGISTER_EVENTFD,
			     &event, 1));
	submit(&self->ring, &sqe);
	for (i = 0; i < 3; i++) {
		sq[i] = (struct hwtimer_sqe){
			.op = HWTIMER_OP_SCHEDULE, .id = HWTIMER_ID(1, i),
			.time = now_ns() + NSEC_PER_MSEC,
		};
		__atomic_store_n(&ring->sq_tail, i + 1, __ATOMIC_RELEASE);
		ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_ENTER, &enter));
		eventually(read(event, &n, sizeof(n)) == sizeof(n));
		ASSERT_TRUE(completed(&self->ring, &cqe));
		EXPECT_EQ(POLLIN, cqe.res);
		EXPECT_TRUE(cqe.flags & IORING_CQE_F_MORE);
	}
	submit(&self->ring, &read_sqe);
	EXPECT_EQ(-EOPNOTSUPP, result(&self->ring));
	close(event);
}

/* Each expiry is an edge of a multishot poll, although nothing is read. */
TEST_F(uring, poll_multishot)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_POLL_ADD, .fd = self->fd,
		.poll32_events = POLLIN, .len = IORING_POLL_ADD_MULTI,
	};
	struct io_uring_cqe cqe;
	int i;

	submit(&self->ring, &sqe);
	for (i = 0; i < 5; i++) {
		must_schedule(self->fd, NSEC_PER_MSEC, 0);
		eventually(completed(&self->ring, &cqe));
		EXPECT_EQ(POLLIN, cqe.res);
		EXPECT_TRUE(cqe.flags & IORING_CQE_F_MORE);
	}
	EXPECT_EQ(5, must_stats(self->fd).unread);
}

/* A multishot read takes each record into a buffer of its own. */
TEST_F(uring, read_multishot)
{
	struct hwtimer_record *rec = must_alloc(4, sizeof(*rec));
	struct io_uring_sqe provide = {
		.opcode = IORING_OP_PROVIDE_BUFFERS, .fd = 4,
		.addr = (uintptr_t)rec, .len = sizeof(*rec),
	}, sqe = {
		.opcode = OP_READ_MULTISHOT, .fd = self->fd,
		.flags = IOSQE_BUFFER_SELECT, .off = -1,
	};
	struct io_uring_cqe cqe;
	__u64 id;
	int i;

	submit(&self->ring, &provide);
	ASSERT_LE(0, result(&self->ring));
	submit(&self->ring, &sqe);
	for (i = 0; i < 3; i++) {
		id = must_schedule(self->fd, NSEC_PER_MSEC, i);
		eventually(completed(&self->ring, &cqe));
		if (!i && cqe.res == -EINVAL)
			SKIP(goto out, "this kernel has no multishot read");
		ASSERT_EQ(RECORD_SIZE, cqe.res);
		EXPECT_TRUE(cqe.flags & IORING_CQE_F_MORE);
		EXPECT_EQ(id, rec[cqe.flags >> IORING_CQE_BUFFER_SHIFT].id);
	}
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	EXPECT_EQ(0, result(&self->ring));
out:
	free(rec);
}

/* The descriptor is closed while a read is pending: the context lives until the read ends. */
TEST_F(uring, close_during_read)
{
	struct hwtimer_record rec;
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_READ, .fd = self->fd,
		.addr = (uintptr_t)&rec, .len = sizeof(rec), .off = -1,
	};
	__u64 id;

	submit(&self->ring, &sqe);
	id = must_schedule(self->fd, 20 * NSEC_PER_MSEC, 3);
	/* With IORING_SETUP_SQPOLL, it may not have been taken yet. */
	eventually(atomic_load(RING(&self->ring, __u32, self->ring.params.sq_off.head)) == 1);
	close(self->fd);
	self->fd = must_open(0);
	EXPECT_EQ(RECORD_SIZE, result(&self->ring));
	EXPECT_EQ(id, rec.id);
}

/* Does a worker of io_uring sleep? It has begun its work then. */
static bool worker_sleeps(void)
{
	char command[80];

	snprintf(command, sizeof(command), "grep -qs '(iou-wrk-[0-9]*) S' /proc/%d/task/*/stat",
		 getpid());
	return !system(command);
}

/* A read that is cancelled takes no record. */
TEST_F(uring, cancel_read)
{
	struct hwtimer_record rec = { .id = POISON };
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_READ, .flags = variant->flags, .fd = self->fd,
		.addr = (uintptr_t)&rec, .len = sizeof(rec), .off = -1, .user_data = 1,
	}, cancel = {
		.opcode = IORING_OP_ASYNC_CANCEL, .addr = 1, .user_data = 2,
	};
	bool reading = true, cancelling = false;
	struct io_uring_cqe cqe;
	__u64 id;

	submit(&self->ring, &sqe);
	if (variant->flags & IOSQE_ASYNC)
		eventually(worker_sleeps());
	/* A worker that is just executing the read may miss the first cancel. */
	while (reading || cancelling) {
		if (!cancelling)
			submit(&self->ring, &cancel);
		cancelling = true;
		eventually(completed(&self->ring, &cqe));
		if (cqe.user_data == 2) {
			cancelling = false;
			continue;
		}
		EXPECT_EQ(-ECANCELED, cqe.res);
		reading = false;
	}
	id = must_schedule(self->fd, 0, 0);
	ASSERT_EQ(1, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(id, rec.id);
}

/* A command has the memory of who submits it; the thread of SQPOLL has that of its creator. */
TEST_F(uring, fork)
{
	struct hwtimer_schedule s = { .flags = HWTIMER_RELATIVE, .time = FAR, .id = POISON };
	bool creators = variant->setup & IORING_SETUP_SQPOLL;

	in_child(must_fork()) {
		expect(0, RUN(HWTIMER_IOC_SCHEDULE, &s));
		expect(creators, s.id == POISON);
	}
	EXPECT_EQ(!creators, s.id == POISON);
	EXPECT_EQ(1, must_stats(self->fd).pending);
}

/*
 * Capabilities are those of who submits; the thread of SQPOLL has those with which the io_uring was
 * set up. Those of a user namespace do not count.
 */
TEST_F(uring, credentials)
{
	struct hwtimer_schedule s = { .flags = HWTIMER_RELATIVE, .time = FAR };
	__u64 limit = must_get_parameter("max_user_timeouts");
	int root;

	make_node();
	ASSERT_EQ(0, set_parameter("max_user_timeouts", 1));
	for (root = 0; root < 2; root++) {
		in_child(must_fork()) {
			struct uring ring;
			int fd;

			if (root)
				expect(0, open_ring(&ring, variant->setup));
			become(USER_A);
			fd = open_node();
			if (!root) {
				/* If there are no user namespaces, without one. */
				unshare(CLONE_NEWUSER);
				expect(0, open_ring(&ring, variant->setup));
			}
			expect(0, run(&ring, fd, HWTIMER_IOC_SCHEDULE, &s, variant->flags));
			expect(root && variant->setup & IORING_SETUP_SQPOLL ? 0 : -EDQUOT,
			       run(&ring, fd, HWTIMER_IOC_SCHEDULE, &s, variant->flags));
			close(fd);
			close_ring(&ring);
		}
	}
	EXPECT_EQ(0, set_parameter("max_user_timeouts", limit));
	remove_node();
}

/* With IORING_SETUP_IOPOLL, which is for block devices, newer kernels execute commands as well. */
TEST(iopoll)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 1 };
	struct hwtimer_schedule s = { .flags = HWTIMER_RELATIVE, .time = FAR };
	int fd = must_open(0), ret, i;
	struct uring ring;

	ret = open_ring(&ring, IORING_SETUP_IOPOLL);
	if (ret == -ENOSYS)
		SKIP(return, "this kernel has no io_uring");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, hwt_setup(fd, &setup));
	for (i = 0; i < 3; i++) {
		ret = run(&ring, fd, HWTIMER_IOC_SCHEDULE, &s, 0);
		if (ret == -EOPNOTSUPP)
			break;
		EXPECT_EQ(i ? -EAGAIN : 0, ret);
	}
	EXPECT_EQ(!!i, must_stats(fd).pending);
	close_ring(&ring);
	close(fd);
}

TEST_HARNESS_MAIN
