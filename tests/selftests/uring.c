// SPDX-License-Identifier: GPL-2.0-only
/*
 * What read.c does not test of reads and polls by io_uring, in whatever way they are submitted.
 */
#include "hwt.h"
#include "uring.h"

#include <sys/eventfd.h>

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

static int result(struct uring *ring)
{
	struct io_uring_cqe cqe;

	eventually(completed(ring, &cqe));
	return cqe.res;
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

TEST_HARNESS_MAIN
