// SPDX-License-Identifier: GPL-2.0-only
/*
 * HWTIMER_IOC_BATCH: each operation does what its ioctl does. The number of operations done is
 * returned, whatever stops the batch: these have their results, and later ones had no effect.
 */
#define OWN_TICK_NS	(4 * NSEC_PER_MSEC)
#define OWN_SLOTS	64

#include "lives.h"
#include "ring.h"
#include "wheels.h"

#include <sys/time.h>

#define OP_SIZE		((unsigned int)sizeof(struct hwtimer_op))
#define MANY		quick_or(20000, 100000)
#define LONG		20000U	/* long enough to be interrupted or killed in between */
#define USER_DATA	0x0123456789abcdefULL

/* Element @i of elements of @size bytes. */
static struct hwtimer_op *at(void *ops, unsigned int size, unsigned int i)
{
	return (struct hwtimer_op *)((char *)ops + (size_t)i * size);
}

static void must_write(void *to, const struct hwtimer_op *op)
{
	memcpy(to, op, sizeof(*op));
}

/* The output fields of an operation that was not done are as before. */
static bool not_done(const struct hwtimer_op *op)
{
	return op->result == NO_RESULT && op->schedule.id == POISON &&
	       op->schedule.deadline == POISON;
}

/* An empty batch has no effect, whatever its address. */
TEST_F(context, none)
{
	struct hwtimer_stats before = must_stats(self->fd);

	EXPECT_EQ(0, hwt_batch(self->fd, NULL, OP_SIZE, 0));
	EXPECT_EQ(0, hwt_batch(self->fd, (void *)-1L, OP_SIZE, 0));
	EXPECT_EQ(0, hwt_batch(self->fd, must_fence(1), OP_SIZE, 0));
	EXPECT_TRUE(unchanged(self->fd, &before));
}

TEST_F(context, each_operation)
{
	__u64 time = now_ns() + FAR, later = time + FAR, before, id, deadline, data;
	struct hwtimer_op op[2];

	op[0] = op_schedule(0, time, USER_DATA);
	before = now_ns();
	op[1] = op_schedule(HWTIMER_RELATIVE, FAR, 2);
	must_batch(self->fd, op, 2);
	EXPECT_EQ(0, op[0].result);
	EXPECT_EQ(0, op[1].result);
	EXPECT_EQ(time, op[0].schedule.deadline);
	EXPECT_LE(before + FAR, op[1].schedule.deadline);
	EXPECT_GE(now_ns() + FAR, op[1].schedule.deadline);
	EXPECT_NE(0, op[0].schedule.id);
	EXPECT_NE(op[0].schedule.id, op[1].schedule.id);
	EXPECT_EQ(HWTIMER_OP_SCHEDULE, op[0].op);
	EXPECT_EQ(time, op[0].schedule.time);
	EXPECT_EQ(USER_DATA, op[0].schedule.user_data);
	id = op[0].schedule.id;
	ASSERT_EQ(0, hwt_query(self->fd, id, &data, &deadline));
	EXPECT_EQ(USER_DATA, data);
	EXPECT_EQ(time, deadline);

	/* Operations are done in order: the query sees the effect of the touch. */
	op[0] = op_touch(0, id, later);
	op[1] = op_query(id);
	must_batch(self->fd, op, 2);
	EXPECT_EQ(0, op[0].result);
	EXPECT_EQ(later, op[0].touch.deadline);
	EXPECT_EQ(0, op[1].result);
	EXPECT_EQ(USER_DATA, op[1].query.user_data);
	EXPECT_EQ(later, op[1].query.deadline);
	EXPECT_EQ(0, op[1].query.period);
	EXPECT_EQ(0, op[1].query.misfire);
	EXPECT_EQ(0, op[1].query.unread);
	EXPECT_EQ(0, op[1].query.policy);

	op[0] = op_cancel(id);
	op[1] = op_query(id);
	must_batch(self->fd, op, 2);
	EXPECT_EQ(0, op[0].result);
	EXPECT_EQ(-ENOENT, op[1].result);
	EXPECT_STATS(self->fd, .scheduled = 2, .touched = 1, .cancelled = 1, .pending = 1);
}

TEST_F(context, expires)
{
	struct hwtimer_record rec[16];
	struct hwtimer_op op[16];
	unsigned int i, seen = 0;

	for (i = 0; i < 16; i++)
		op[i] = op_schedule(HWTIMER_RELATIVE, i * NSEC_PER_MSEC, i);
	must_batch(self->fd, op, 16);
	ASSERT_EQ(16, hwt_collect(self->fd, rec, 16));
	for (i = 0; i < 16; i++) {
		ASSERT_TRUE(valid_record(&rec[i], HWTIMER_KIND_EXPIRED));
		ASSERT_GT(16, rec[i].user_data);
		EXPECT_EQ(op[rec[i].user_data].schedule.id, rec[i].id);
		EXPECT_EQ(op[rec[i].user_data].schedule.deadline, rec[i].deadline);
		seen |= 1U << rec[i].user_data;
	}
	EXPECT_EQ(0xffff, seen);
}

/* Do the operation by its own ioctl. */
static int by_ioctl(int fd, struct hwtimer_op *op)
{
	switch (op->op) {
	case HWTIMER_OP_SCHEDULE:
		return hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &op->schedule);
	case HWTIMER_OP_TOUCH:
		return hwt_ioctl(fd, HWTIMER_IOC_TOUCH, &op->touch);
	case HWTIMER_OP_CANCEL:
		return hwt_ioctl(fd, HWTIMER_IOC_CANCEL, &op->cancel);
	case HWTIMER_OP_QUERY:
		return hwt_ioctl(fd, HWTIMER_IOC_QUERY, &op->query);
	default:
		return -EINVAL;
	}
}

/* Each way to refuse an operation, with everything else valid. */
static unsigned int refusals(struct hwtimer_op *op, __u64 id, __u64 gone, __u64 tick_ns)
{
	static const __u32 unknown[] = { 0, 5, 6, 0x80000001, ~0U };
	const struct hwtimer_op schedule = op_schedule(HWTIMER_RELATIVE, FAR, 0);
	unsigned int n = 0, i;

	/* @valid with one field changed. */
#define WITH(valid, field, value) do {					\
	op[n] = valid;							\
	op[n++].field = value;						\
} while (0)
	for (i = 0; i < ARRAY_SIZE(unknown); i++)
		WITH(schedule, op, unknown[i]);
	for (i = 1; i < 32; i++)
		WITH(schedule, schedule.flags, 1U << i);
	WITH(schedule, schedule.pad, 1);
	WITH(schedule, schedule.pad2, 1);
	WITH(schedule, schedule.misfire, 2 * tick_ns);
	WITH(schedule, schedule.policy, HWTIMER_MISFIRE_SKIP);
	WITH(schedule, schedule.period, tick_ns - 1);
	WITH(schedule, schedule.period, tick_ns);
	op[n - 1].schedule.policy = 3;
	for (i = 1; i < 32; i++)
		op[n++] = op_touch(1U << i, id, FAR);
	WITH(op_touch(0, id, FAR), touch.pad, 1);
	op[n++] = op_touch(0, gone, FAR);
	op[n++] = op_touch(0, 0, FAR);
	op[n++] = op_touch(0, ~0ULL, FAR);
	WITH(op_cancel(id), cancel.flags, 1);
	WITH(op_cancel(id), cancel.pad, 1);
	op[n++] = op_cancel(gone);
	op[n++] = op_cancel(id ^ 1ULL << 40);
	WITH(op_query(id), query.flags, 1);
	WITH(op_query(id), query.pad, 1);
	WITH(op_query(id), query.pad2, 1);
	op[n++] = op_query(gone);
#undef WITH
	return n;
}

/* Each error is that of the ioctl, has no effect, and does not stop later operations. */
TEST_F(context, each_error)
{
	struct hwtimer_op *op = must_alloc(256, sizeof(*op)), copy, *batch;
	__u64 id, gone, deadline, data;
	struct hwtimer_stats before;
	unsigned int n, i;
	int ret;

	ASSERT_EQ(0, hwt_schedule(self->fd, HWTIMER_RELATIVE, FAR, USER_DATA, &id, &deadline));
	gone = must_schedule(self->fd, FAR, 0);
	ASSERT_EQ(0, hwt_cancel(self->fd, gone));
	n = refusals(op, id, gone, self->tick_ns);
	before = must_stats(self->fd);
	batch = must_alloc(2 * n, sizeof(*batch));
	for (i = 0; i < n; i++) {
		batch[2 * i] = op[i];
		batch[2 * i + 1] = op_query(id);
		copy = op[i];
		ret = by_ioctl(self->fd, &copy);
		ASSERT_GT(0, ret)
			TH_LOG("refusal %u of op %u succeeded", i, op[i].op);
		op[i].result = ret;
	}
	must_batch(self->fd, batch, 2 * n);
	for (i = 0; i < n; i++) {
		EXPECT_EQ(op[i].result, batch[2 * i].result)
			TH_LOG("refusal %u of op %u", i, op[i].op);
		EXPECT_EQ(0, batch[2 * i + 1].result);
		EXPECT_EQ(USER_DATA, batch[2 * i + 1].query.user_data);
		EXPECT_EQ(deadline, batch[2 * i + 1].query.deadline);
	}
	EXPECT_TRUE(unchanged(self->fd, &before));
	ASSERT_EQ(0, hwt_query(self->fd, id, &data, NULL));

	/* Alone in a batch, the error is still the operation's result, not that of the ioctl. */
	for (i = 0; i < n; i++) {
		ret = op[i].result;
		op[i].result = NO_RESULT;
		ASSERT_EQ(1, hwt_batch(self->fd, &op[i], OP_SIZE, 1));
		EXPECT_EQ(ret, op[i].result);
	}
	EXPECT_TRUE(unchanged(self->fd, &before));
	free(batch);
	free(op);
}

TEST_F(context, stopped)
{
	__u64 id = must_schedule(self->fd, FAR, 1);
	struct hwtimer_op op[4] = {
		op_schedule(HWTIMER_RELATIVE, 0, 2), op_touch(HWTIMER_RELATIVE, id, 0),
		op_cancel(id), op_query(id),
	};

	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	must_batch(self->fd, op, 4);
	EXPECT_EQ(-ESHUTDOWN, op[0].result);
	EXPECT_EQ(-ESHUTDOWN, op[1].result);
	EXPECT_EQ(-ENOENT, op[2].result);
	EXPECT_EQ(-ENOENT, op[3].result);
	EXPECT_STATS(self->fd, .scheduled = 1, .handed_back = 1, .unread = 1);
}

/* At the cap, further schedules are refused; a cancel makes room for the next one. */
TEST(cap)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 10 };
	struct hwtimer_op op[12];
	int fd = must_open(0), i;
	__u64 first;

	ASSERT_EQ(0, hwt_setup(fd, &setup));
	for (i = 0; i < 12; i++)
		op[i] = op_schedule(HWTIMER_RELATIVE, FAR, i);
	must_batch(fd, op, 12);
	for (i = 0; i < 12; i++) {
		EXPECT_EQ(i < 10 ? 0 : -EAGAIN, op[i].result);
	}
	EXPECT_EQ(10, must_stats(fd).pending);
	EXPECT_EQ(2, must_stats(fd).rejected);
	first = op[0].schedule.id;
	op[0] = op_schedule(HWTIMER_RELATIVE, FAR, 0);
	op[1] = op_cancel(first);
	op[2] = op_schedule(HWTIMER_RELATIVE, FAR, 0);
	op[3] = op_schedule(HWTIMER_RELATIVE, FAR, 0);
	must_batch(fd, op, 4);
	EXPECT_EQ(-EAGAIN, op[0].result);
	EXPECT_EQ(0, op[1].result);
	EXPECT_EQ(0, op[2].result);
	EXPECT_EQ(-EAGAIN, op[3].result);
	close(fd);
}

/* A SCHEDULE in a batch settles the wheel, even if refused; a CANCEL does not. */
TEST(setup_after_batch)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC }, copy = setup;
	struct hwtimer_op op = op_cancel(1);
	int fd = must_open(0);

	must_batch(fd, &op, 1);
	EXPECT_EQ(-ENOENT, op.result);
	EXPECT_EQ(0, hwt_setup(fd, &copy));
	close(fd);
	fd = must_open(0);
	op = op_schedule(HWTIMER_RELATIVE, FAR, 0);
	must_batch(fd, &op, 1);
	EXPECT_EQ(0, op.result);
	EXPECT_EQ(-EBUSY, hwt_setup(fd, &setup));
	close(fd);
}

/* Element sizes that no header can have, and counts that are too large. */
TEST_F(context, refused)
{
	static const __u32 counts[] = { 1U << 31, (1U << 31) + 1, ~0U };
	struct hwtimer_op op = op_schedule(HWTIMER_RELATIVE, 0, 0);
	struct hwtimer_stats before = must_stats(self->fd);
	unsigned int i;

	for (i = 0; i < OP_SIZE + 8; i++) {
		if (i != OP_SIZE)
			ASSERT_EQ(-EINVAL, hwt_batch(self->fd, &op, i, 1));
	}
	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		EXPECT_EQ(-EINVAL, hwt_batch(self->fd, &op, OP_SIZE, counts[i]));
	}
	EXPECT_TRUE(not_done(&op));
	EXPECT_TRUE(unchanged(self->fd, &before));
	EXPECT_EQ(0, must_stats(self->fd).scheduled);
}

/* Each operation can get more fields in the union, behind its own; see larger_with_more. */
TEST_F(context, rest_of_the_union)
{
	static const __u32 ops[] = { HWTIMER_OP_TOUCH, HWTIMER_OP_CANCEL };
	static const size_t used[] = {
		sizeof(struct hwtimer_touch), sizeof(struct hwtimer_cancel),
	};
	__u64 id = must_schedule(self->fd, FAR, 0);
	struct hwtimer_stats before = must_stats(self->fd);
	struct hwtimer_op op;
	unsigned int i;
	size_t at;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		for (at = used[i]; at < sizeof(op.schedule); at++) {
			op = (struct hwtimer_op){ .op = ops[i], .touch.id = id };
			((char *)&op.schedule)[at] = 1;
			must_batch(self->fd, &op, 1);
			ASSERT_EQ(-E2BIG, op.result)
				TH_LOG("op %u, byte %zu", ops[i], at);
		}
	}
	EXPECT_TRUE(unchanged(self->fd, &before));
}

/* The checks of the argument itself. */
TEST_F(context, frame)
{
	struct hwtimer_op op = op_schedule(HWTIMER_RELATIVE, 0, 0);
	struct hwtimer_batch b = { .size = OP_SIZE, .ops = (uintptr_t)&op, .count = 1 };
	char buf[8192] = { 0 };

	refuses_frame(_metadata, self->fd, HWTIMER_IOC_BATCH, &b);
	refuses_bits(_metadata, self->fd, HWTIMER_IOC_BATCH, &b,
		     offsetof(struct hwtimer_batch, flags), 0);
	refuses_bits(_metadata, self->fd, HWTIMER_IOC_BATCH, &b,
		     offsetof(struct hwtimer_batch, pad), 0);
	EXPECT_TRUE(not_done(&op));
	EXPECT_EQ(0, must_stats(self->fd).scheduled);
	/* The larger structure of a newer program that requests nothing new. */
	memcpy(buf, &b, sizeof(b));
	EXPECT_EQ(1, hwt_ioctl(self->fd, with_size(HWTIMER_IOC_BATCH, sizeof(b) + 4096), buf));
	EXPECT_EQ(0, op.result);
}

/* The highest count, with memory for three operations only. */
TEST_F(context, count_of_the_most)
{
	char *fence = must_fence(3 * OP_SIZE);
	struct hwtimer_op op = op_schedule(HWTIMER_RELATIVE, FAR, 0);
	int i;

	for (i = 1; i <= 3; i++)
		must_write(fence - i * OP_SIZE, &op);
	EXPECT_EQ(3, hwt_batch(self->fd, fence - 3 * OP_SIZE, OP_SIZE, INT_MAX));
	EXPECT_EQ(3, must_stats(self->fd).pending);
	/* The highest count at the end of the address space. */
	EXPECT_EQ(-EFAULT, hwt_batch(self->fd, (void *)-(long)OP_SIZE, OP_SIZE, INT_MAX));
	EXPECT_EQ(3, must_stats(self->fd).pending);
}

/* Larger elements of a newer program that requests nothing new. */
TEST_F(context, larger_with_zeros)
{
	static const unsigned int sizes[] = { 80, 128, 1000, 4096 };
	unsigned int i, k, n = 0, b;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		unsigned int size = sizes[i];
		struct hwtimer_op op = op_schedule(HWTIMER_RELATIVE, FAR, i);
		unsigned char *ops = must_alloc(20, size);

		for (k = 0; k < 20; k++)
			must_write(at(ops, size, k), &op);
		ASSERT_EQ(20, hwt_batch(self->fd, ops, size, 20))
			TH_LOG("size %u", size);
		for (k = 0; k < 20; k++) {
			__u64 data = 0;

			memcpy(&op, at(ops, size, k), sizeof(op));
			ASSERT_EQ(0, op.result);
			ASSERT_EQ(0, hwt_query(self->fd, op.schedule.id, &data, NULL));
			EXPECT_EQ(i, data);
			for (b = OP_SIZE; b < size; b++) {
				ASSERT_EQ(0, ops[k * size + b]);
			}
		}
		n += 20;
		EXPECT_EQ(n, must_stats(self->fd).pending);
		free(ops);
	}
}

/* Larger elements of a newer program that requests something new: the batch ends there. */
TEST_F(context, larger_with_more)
{
	static const unsigned int sizes[] = { 80, 4096 };
	static const unsigned int places[] = { 0, 1, 7, 19 };
	unsigned int i, k, p, done = 0;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (p = 0; p < ARRAY_SIZE(places); p++) {
			unsigned int size = sizes[i], bad = places[p];
			struct hwtimer_op op = op_schedule(HWTIMER_RELATIVE, FAR, 0);
			unsigned char *ops = must_alloc(20, size);

			for (k = 0; k < 20; k++)
				must_write(at(ops, size, k), &op);
			ops[(size_t)bad * size + size - 1] = 1;
			ASSERT_EQ(bad ? (int)bad : -E2BIG, hwt_batch(self->fd, ops, size, 20));
			done += bad;
			EXPECT_EQ(done, must_stats(self->fd).pending);
			for (k = 0; k < 20; k++) {
				memcpy(&op, at(ops, size, k), sizeof(op));
				ASSERT_EQ(k >= bad, not_done(&op));
				ASSERT_TRUE(k >= bad || !op.result);
			}
			/* A batch that begins there returns the error. */
			EXPECT_EQ(-E2BIG, hwt_batch(self->fd, at(ops, size, bad), size,
						    20 - bad));
			EXPECT_EQ(done, must_stats(self->fd).pending);
			free(ops);
		}
	}
}

/* Exactly @done operations were done, by their results, the counters, and what expires. */
static void check_done(struct __test_metadata *_metadata, int fd, unsigned int *expired,
		       char *ops, unsigned int done)
{
	struct hwtimer_record *rec = must_alloc(done + 1, sizeof(*rec));
	unsigned char *seen = must_alloc(done + 1, 1);
	struct hwtimer_op op;
	unsigned int i;
	__u64 id;

	for (i = 0; i < done; i++) {
		memcpy(&op, at(ops, OP_SIZE, i), sizeof(op));
		ASSERT_EQ(0, op.result);
		ASSERT_NE(POISON, op.schedule.id);
	}
	*expired += done;
	EXPECT_EQ(*expired, must_stats(fd).scheduled);
	ASSERT_EQ(done, hwt_collect(fd, rec, done));
	for (i = 0; i < done; i++) {
		ASSERT_TRUE(valid_record(&rec[i], HWTIMER_KIND_EXPIRED));
		ASSERT_GT(done, rec[i].user_data);
		ASSERT_EQ(0, seen[rec[i].user_data]++);
		memcpy(&op, at(ops, OP_SIZE, rec[i].user_data), sizeof(op));
		ASSERT_EQ(op.schedule.id, rec[i].id);
	}
	/* When this timeout expires, all that were due before have expired. */
	id = must_schedule(fd, 10 * NSEC_PER_MSEC, ~0ULL);
	++*expired;
	ASSERT_EQ(1, hwt_collect(fd, rec, 1));
	EXPECT_EQ(id, rec[0].id);
	EXPECT_EQ(*expired, must_stats(fd).expired);
	EXPECT_EQ(0, must_stats(fd).unread);
	free(seen);
	free(rec);
}

static const unsigned int whole[] = { 0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 500 };
static const unsigned int parts[] = { 0, 1, 4, 7, 8, 24, 40, 71 };

/* The batch ends at inaccessible memory, also in the middle of an element. */
TEST_F(context, unreadable)
{
	unsigned int i, p, k, expired = 0;

	for (i = 0; i < ARRAY_SIZE(whole); i++) {
		for (p = 0; p < ARRAY_SIZE(parts); p++) {
			unsigned int n = whole[i];
			char *fence = must_fence((n + 1) * OP_SIZE);
			char *ops = fence - n * OP_SIZE - parts[p];
			struct hwtimer_op op;

			for (k = 0; k < n; k++) {
				op = op_schedule(HWTIMER_RELATIVE, 0, k);
				must_write(at(ops, OP_SIZE, k), &op);
			}
			op = op_schedule(HWTIMER_RELATIVE, 0, n);
			memcpy(fence - parts[p], &op, parts[p]);
			ASSERT_EQ(n ? (int)n : -EFAULT,
				  hwt_batch(self->fd, ops, OP_SIZE, n + 3))
				TH_LOG("%u elements and %u bytes", n, parts[p]);
			check_done(_metadata, self->fd, &expired, ops, n);
			/* The part of the next element that is accessible was not written. */
			ASSERT_EQ(0, memcmp(fence - parts[p], &op, parts[p]));
			ASSERT_EQ(-EFAULT, hwt_batch(self->fd, fence - parts[p], OP_SIZE, 1));
		}
		/* A batch that ends at the inaccessible page is complete. */
		if (whole[i]) {
			unsigned int n = whole[i];
			char *ops = must_fence(n * OP_SIZE) - n * OP_SIZE;

			for (k = 0; k < n; k++) {
				struct hwtimer_op op = op_schedule(HWTIMER_RELATIVE, 0, k);

				must_write(at(ops, OP_SIZE, k), &op);
			}
			ASSERT_EQ(n, hwt_batch(self->fd, ops, OP_SIZE, n));
			check_done(_metadata, self->fd, &expired, ops, n);
		}
	}
}

/* The first operation is inaccessible. */
TEST_F(context, unreadable_first)
{
	struct hwtimer_stats before = must_stats(self->fd);

	EXPECT_EQ(-EFAULT, hwt_batch(self->fd, NULL, OP_SIZE, 1));
	EXPECT_EQ(-EFAULT, hwt_batch(self->fd, (void *)-1L, OP_SIZE, 1));
	EXPECT_EQ(-EFAULT, hwt_batch(self->fd, (void *)LONG_MIN, OP_SIZE, 1));
	EXPECT_EQ(-EFAULT, hwt_batch(self->fd, must_fence(1), OP_SIZE, 1));
	EXPECT_TRUE(unchanged(self->fd, &before));
}

/* The batch ends at a page that can be read, but not written. */
TEST_F(context, unwritable)
{
	long page = sysconf(_SC_PAGESIZE);
	unsigned int i, p, k, expired = 0;

	for (i = 0; i < ARRAY_SIZE(whole); i++) {
		for (p = 0; p < ARRAY_SIZE(parts); p++) {
			unsigned int n = whole[i];
			char *end = must_fence((n + 1) * OP_SIZE + page);
			char *fence = end - page, *ops = fence - n * OP_SIZE - parts[p];
			struct hwtimer_op op, seen;

			for (k = 0; k < n + 3; k++) {
				op = op_schedule(HWTIMER_RELATIVE, 0, k);
				must_write(at(ops, OP_SIZE, k), &op);
			}
			ASSERT_EQ(0, mprotect(fence, page, PROT_READ));
			ASSERT_EQ(n ? (int)n : -EFAULT,
				  hwt_batch(self->fd, ops, OP_SIZE, n + 3))
				TH_LOG("%u elements and %u bytes", n, parts[p]);
			check_done(_metadata, self->fd, &expired, ops, n);
			memcpy(&seen, at(ops, OP_SIZE, n + 1), sizeof(seen));
			ASSERT_TRUE(not_done(&seen));
			ASSERT_EQ(-EFAULT, hwt_batch(self->fd, at(ops, OP_SIZE, n),
						     OP_SIZE, 1));
			EXPECT_EQ(expired, must_stats(self->fd).scheduled);
		}
	}
}

/* No touch or cancel takes effect if its result cannot be written. */
TEST_F(context, unwritable_others)
{
	long page = sysconf(_SC_PAGESIZE);
	char *fence = must_fence(2 * page) - page;
	__u64 time = now_ns() + FAR, id, deadline;
	struct hwtimer_op op[3];
	int i;

	ASSERT_EQ(0, hwt_schedule(self->fd, 0, time, USER_DATA, &id, NULL));
	op[0] = op_touch(0, id, time + FAR);
	op[1] = op_cancel(id);
	op[2] = op_query(id);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, mprotect(fence, page, PROT_READ | PROT_WRITE));
		must_write(fence, &op[i]);
		ASSERT_EQ(0, mprotect(fence, page, PROT_READ));
		EXPECT_EQ(-EFAULT, hwt_batch(self->fd, fence, OP_SIZE, 1));
		ASSERT_EQ(0, mprotect(fence, page, PROT_READ | PROT_WRITE));
		memcpy(fence - OP_SIZE, &op[2], OP_SIZE);
		must_write(fence, &op[i]);
		ASSERT_EQ(0, mprotect(fence, page, PROT_READ));
		EXPECT_EQ(1, hwt_batch(self->fd, fence - OP_SIZE, OP_SIZE, 2));
		ASSERT_EQ(0, hwt_query(self->fd, id, NULL, &deadline));
		EXPECT_EQ(time, deadline);
	}
	EXPECT_EQ(0, must_stats(self->fd).touched);
	EXPECT_EQ(0, must_stats(self->fd).cancelled);
}

/* 100,000 operations of each kind in one call. */
TEST_F(context, many)
{
	struct hwtimer_op *ops = must_alloc(MANY, sizeof(*ops));
	__u64 *ids = must_alloc(MANY, sizeof(*ids)), began = now_ns(), time = began + FAR;
	unsigned int i;

	for (i = 0; i < MANY; i++)
		ops[i] = op_schedule(0, time + i, i);
	must_batch(self->fd, ops, MANY);
	printf("# scheduled after %llu ms\n", (now_ns() - began) / NSEC_PER_MSEC);
	for (i = 0; i < MANY; i++) {
		ASSERT_EQ(0, ops[i].result);
		ASSERT_EQ(time + i, ops[i].schedule.deadline);
		ids[i] = ops[i].schedule.id;
		ops[i] = op_touch(0, ids[i], time + FAR + i);
	}
	must_batch(self->fd, ops, MANY);
	for (i = 0; i < MANY; i++) {
		ASSERT_EQ(0, ops[i].result);
		ASSERT_EQ(time + FAR + i, ops[i].touch.deadline);
		ops[i] = op_query(ids[i]);
	}
	must_batch(self->fd, ops, MANY);
	for (i = 0; i < MANY; i++) {
		ASSERT_EQ(0, ops[i].result);
		ASSERT_EQ(i, ops[i].query.user_data);
		ASSERT_EQ(time + FAR + i, ops[i].query.deadline);
		ops[i] = i % 2 ? op_cancel(ids[i]) : op_touch(HWTIMER_RELATIVE, ids[i], 0);
	}
	must_batch(self->fd, ops, MANY);
	for (i = 0; i < MANY; i++) {
		ASSERT_EQ(0, ops[i].result);
		ops[i] = op_cancel(ids[i]);
	}
	eventually(must_stats(self->fd).expired == MANY / 2);
	must_batch(self->fd, ops, MANY);
	for (i = 0; i < MANY; i++) {
		ASSERT_EQ(-ENOENT, ops[i].result);
	}
	printf("# all after %llu ms\n", (now_ns() - began) / NSEC_PER_MSEC);
	EXPECT_STATS(self->fd, .scheduled = MANY, .touched = MANY + MANY / 2, .cancelled = MANY / 2,
		     .expired = MANY / 2, .unread = MANY / 2);
	EXPECT_TRUE(all_different(ids, MANY));
	free(ids);
	free(ops);
}

TEST_F(context, periodic)
{
	static const __u32 policies[] = {
		HWTIMER_MISFIRE_ONCE, HWTIMER_MISFIRE_SKIP, HWTIMER_MISFIRE_MAKE_UP,
	};
	__u64 reported[3] = { 0 }, ids[3], total = 0;
	struct hwtimer_op ops[3];
	struct hwtimer_record rec[16];
	int ret, i;

	for (i = 0; i < 3; i++) {
		ops[i] = op_schedule(HWTIMER_RELATIVE, 0, i);
		ops[i].schedule.period = 5 * NSEC_PER_MSEC;
		ops[i].schedule.misfire = FAR;
		ops[i].schedule.policy = policies[i];
	}
	must_batch(self->fd, ops, 3);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, ops[i].result);
		ids[i] = ops[i].schedule.id;
		ops[i] = op_query(ids[i]);
	}
	must_batch(self->fd, ops, 3);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, ops[i].result);
		EXPECT_EQ(5 * NSEC_PER_MSEC, ops[i].query.period);
		EXPECT_EQ(FAR, ops[i].query.misfire);
		EXPECT_EQ(policies[i], ops[i].query.policy);
		EXPECT_EQ(i, ops[i].query.user_data);
	}
	eventually(must_stats(self->fd).expired >= 60);
	for (i = 0; i < 3; i++)
		ops[i] = op_cancel(ids[i]);
	must_batch(self->fd, ops, 3);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, ops[i].result);
	}
	while (must_stats(self->fd).unread) {
		ret = hwt_read(self->fd, rec, 16);
		ASSERT_LT(0, ret);
		for (i = 0; i < ret; i++) {
			ASSERT_GT(3, rec[i].user_data);
			EXPECT_EQ(ids[rec[i].user_data], rec[i].id);
			reported[rec[i].user_data] += 1 + rec[i].overruns;
			total += 1 + rec[i].overruns;
		}
	}
	EXPECT_EQ(must_stats(self->fd).expired, total);
	for (i = 0; i < 3; i++) {
		EXPECT_LT(0, reported[i]);
	}
}

/* A thread that sends signals, as fast as it can, to the one that runs the batches. */
struct pest {
	pthread_t thread, victim;
	atomic_bool done;
};

static void ignore(int signal)
{
	(void)signal;
}

static void *send_signals(void *arg)
{
	struct pest *p = arg;

	while (!atomic_load(&p->done)) {
		pthread_kill(p->victim, SIGUSR1);
		usleep(50);
	}
	return NULL;
}

/* Do all of @ops, however often interrupted; returns the number of interruptions. */
static unsigned int insist(int fd, struct hwtimer_op *ops, unsigned int count)
{
	unsigned int done = 0, interrupted = 0, i;
	int ret;

	while (done < count) {
		ret = hwt_batch(fd, ops + done, OP_SIZE, count - done);
		if (!ret || (ret < 0 && ret != -EINTR) || ret > (int)(count - done))
			die("batch: %d with %u of %u done", ret, done, count);
		for (i = 0; ret > 0 && i < (unsigned int)ret; i++)
			if (ops[done + i].result == NO_RESULT)
				die("no result of %u", done + i);
		done += ret > 0 ? ret : 0;
		interrupted += done < count;
		/* The next operation, and the last, were not done. */
		if (done < count && (!not_done(&ops[done]) || !not_done(&ops[count - 1])))
			die("%u of %u done, and more", done, count);
	}
	return interrupted;
}

/* With and without SA_RESTART, the number of operations done is returned. */
TEST_F(context, interrupted)
{
	struct hwtimer_op *ops = must_alloc(LONG, sizeof(*ops));
	struct pest pest = { .victim = pthread_self() };
	struct sigaction action = { .sa_handler = ignore };
	unsigned int i, n, rounds = 0, total = 0;
	__u64 end;

	for (i = 0; i < 2; i++) {
		action.sa_flags = i ? SA_RESTART : 0;
		ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
		atomic_store(&pest.done, false);
		start(&pest.thread, send_signals, &pest);
		end = now_ns() + PATIENCE;
		/* At least three interruptions. */
		for (n = 0; n < 3; rounds++) {
			unsigned int k;

			ASSERT_GT(end, now_ns());
			for (k = 0; k < LONG; k++)
				ops[k] = op_schedule(HWTIMER_RELATIVE, FAR, k);
			n += insist(self->fd, ops, LONG);
			ASSERT_EQ(LONG, must_stats(self->fd).pending);
			for (k = 0; k < LONG; k++) {
				ASSERT_EQ(0, ops[k].result);
				ops[k] = op_cancel(ops[k].schedule.id);
			}
			for (k = 0; k < LONG; ) {
				int ret = hwt_batch(self->fd, ops + k, OP_SIZE, LONG - k);

				ASSERT_TRUE(ret > 0 || ret == -EINTR);
				k += ret > 0 ? ret : 0;
				n += k < LONG;
			}
			for (k = 0; k < LONG; k++) {
				ASSERT_EQ(0, ops[k].result);
			}
			ASSERT_EQ(0, must_stats(self->fd).pending);
		}
		total += n;
		atomic_store(&pest.done, true);
		pthread_join(pest.thread, NULL);
	}
	printf("# interrupted %u times in %u rounds\n", total, rounds);
	EXPECT_STATS(self->fd, .scheduled = rounds * LONG, .cancelled = rounds * LONG);
	free(ops);
}

/* Killed in the middle: operations with a result were done, others were not. */
TEST_F(context, killed)
{
	unsigned int round, middle = 0, i;
	struct hwtimer_op *ops = must_share(LONG * sizeof(*ops));
	__u64 random = seed();

	for (round = 0; round < 10; round++) {
		unsigned int done = 0, when = rnd(&random) % (LONG / 2) + 1;
		int fd = must_open(0);
		struct hwtimer_stats s;
		pid_t child;

		for (i = 0; i < LONG; i++)
			ops[i] = op_schedule(HWTIMER_RELATIVE, FAR, i);
		child = must_fork();
		if (!child) {
			hwt_batch(fd, ops, OP_SIZE, LONG);
			pause();
		}
		eventually(must_stats(fd).scheduled >= when);
		must_kill(child);
		s = must_stats(fd);
		ASSERT_TRUE(balanced(&s));
		while (done < LONG && ops[done].result != NO_RESULT)
			done++;
		for (i = 0; i < done; i++) {
			ASSERT_EQ(0, ops[i].result);
		}
		for (i = done; i < LONG; i++) {
			ASSERT_TRUE(not_done(&ops[i]));
		}
		ASSERT_EQ(done, s.scheduled);
		ASSERT_EQ(done, s.pending);
		middle += done < LONG;
		/* The context still works. */
		ASSERT_EQ(0, hwt_stop(fd, NULL));
		EXPECT_EQ(done, must_stats(fd).unread);
		close(fd);
	}
	printf("# in the middle of %u batches of 10\n", middle);
	munmap(ops, LONG * sizeof(*ops));
}

/*
 * Another thread keeps changing the protection of the batch's pages: what is reported as done was
 * done, and nothing else.
 */
struct protector {
	pthread_t thread;
	char *ops;
	size_t size;
	atomic_bool begun, done;
	__u64 random;
};

static void *change_protection(void *arg)
{
	static const int ways[] = { PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE };
	struct protector *p = arg;
	long page = sysconf(_SC_PAGESIZE);

	while (!atomic_load(&p->done)) {
		char *where = p->ops + rnd(&p->random) % (p->size / page) * page;

		mprotect(where, page, ways[rnd(&p->random) % 3]);
		mprotect(where, page, PROT_READ | PROT_WRITE);
		atomic_store(&p->begun, true);
	}
	return NULL;
}

TEST_F(context, protection_changes)
{
	enum { N = 2000 };
	struct protector p = { .random = seed() };
	struct hwtimer_op *ops = must_alloc(N, sizeof(*ops));
	unsigned int round, partial = 0, i;
	__u64 scheduled = 0, end = now_ns() + PATIENCE / 2;

	p.ops = must_fence(N * OP_SIZE);
	p.size = (N * OP_SIZE + sysconf(_SC_PAGESIZE) - 1) & -sysconf(_SC_PAGESIZE);
	p.ops -= p.size;
	/* At least until a batch has ended early. */
	for (round = 0; !partial || (round < quick_or(30, 300) && now_ns() < end); round++) {
		int ret;

		for (i = 0; i < N; i++)
			ops[i] = op_schedule(HWTIMER_RELATIVE, FAR, i);
		memcpy(p.ops, ops, N * OP_SIZE);
		atomic_store(&p.begun, false);
		atomic_store(&p.done, false);
		start(&p.thread, change_protection, &p);
		while (!atomic_load(&p.begun))
			sched_yield();
		ret = hwt_batch(self->fd, p.ops, OP_SIZE, N);
		atomic_store(&p.done, true);
		pthread_join(p.thread, NULL);
		ASSERT_TRUE(ret > 0 || ret == -EFAULT);
		ASSERT_GE(N, ret);
		memcpy(ops, p.ops, N * OP_SIZE);
		for (i = 0; ret > 0 && i < (unsigned int)ret; i++) {
			ASSERT_EQ(0, ops[i].result);
			ASSERT_EQ(0, hwt_cancel(self->fd, ops[i].schedule.id));
		}
		scheduled += ret > 0 ? ret : 0;
		partial += ret < N;
		ASSERT_EQ(scheduled, must_stats(self->fd).scheduled);
		ASSERT_EQ(0, must_stats(self->fd).pending);
	}
	printf("# %u of %u batches ended early\n", partial, round);
	free(ops);
}

/*
 * An operation changes while the kernel reads it: it is copied once, so that either the old or the
 * new one is done.
 */
struct changer {
	pthread_t thread;
	struct hwtimer_op *op;
	atomic_bool done;
};

static void *change_op(void *arg)
{
	struct changer *c = arg;
	volatile __u32 *op = &c->op->op, *flags = &c->op->schedule.flags;

	while (!atomic_load(&c->done)) {
		*op = HWTIMER_OP_SCHEDULE;
		*flags = HWTIMER_RELATIVE;
		*op = ~0U;
		*flags = ~0U;
	}
	return NULL;
}

TEST_F(context, changes_meanwhile)
{
	struct hwtimer_op op = op_schedule(HWTIMER_RELATIVE, FAR, 0);
	struct changer c = { .op = &op };
	unsigned int i, ok = 0;

	start(&c.thread, change_op, &c);
	for (i = 0; i < 20000; i++) {
		ASSERT_EQ(1, hwt_batch(self->fd, &op, OP_SIZE, 1));
		ASSERT_TRUE(op.result == 0 || op.result == -EINVAL);
		ok += !op.result;
	}
	atomic_store(&c.done, true);
	pthread_join(c.thread, NULL);
	EXPECT_EQ(ok, must_stats(self->fd).scheduled);
}

/* Batches of several threads, with and without a stop. */
#define THREADS	3
#define LENGTH	200

struct worker {
	pthread_t thread;
	int fd;
	unsigned int number, batches, touched;
	__u64 random;
	struct life *lives;
	atomic_uint *begun;
	bool stopped;
};

/* Each batch has new timeouts, and operations on those of all threads. */
static void *run_batches(void *arg)
{
	struct worker *w = arg;
	unsigned int first = w->number * w->batches * LENGTH, b, i;
	struct hwtimer_op ops[LENGTH];
	unsigned int which[LENGTH];

	for (b = 0; b < w->batches && !w->stopped; b++) {
		unsigned int all = THREADS * w->batches * LENGTH;

		for (i = 0; i < LENGTH; i++) {
			unsigned int n = rnd(&w->random) % all;
			__u64 id = load_acquire(&w->lives[n].id);

			/* Mostly on existing timeouts. */
			if (!id && rnd(&w->random) % 4)
				n = first + rnd(&w->random) % (b * LENGTH + 1);
			id = load_acquire(&w->lives[n].id);
			which[i] = n;
			switch (rnd(&w->random) % 8) {
			case 0 ... 3:
				which[i] = first + b * LENGTH + i;
				ops[i] = op_schedule(HWTIMER_RELATIVE, rnd(&w->random) %
						     (rnd(&w->random) % 2 ? FAR :
						      20 * NSEC_PER_MSEC), which[i]);
				break;
			case 4:
				ops[i] = op_touch(HWTIMER_RELATIVE, id,
						  rnd(&w->random) % (20 * NSEC_PER_MSEC));
				break;
			case 5:
			case 6:
				ops[i] = op_cancel(id);
				break;
			default:
				ops[i] = op_query(id);
			}
		}
		must_batch(w->fd, ops, LENGTH);
		for (i = 0; i < LENGTH; i++) {
			struct life *l = &w->lives[which[i]];
			int ret = ops[i].result;

			if (ret == -ESHUTDOWN && ops[i].op != HWTIMER_OP_CANCEL)
				w->stopped = true;
			else if (ret && (ret != -ENOENT || ops[i].op == HWTIMER_OP_SCHEDULE))
				die("op %u: %d", ops[i].op, ret);
			else if (w->stopped && ops[i].op == HWTIMER_OP_SCHEDULE)
				die("scheduled after the stop");
			if (ret)
				continue;
			if (ops[i].op == HWTIMER_OP_SCHEDULE) {
				store_release(&l->id, ops[i].schedule.id);
				atomic_fetch_add(&l->armed, 1);
			} else if (ops[i].op == HWTIMER_OP_CANCEL) {
				atomic_fetch_add(&l->cancelled, 1);
			} else if (ops[i].op == HWTIMER_OP_TOUCH) {
				w->touched++;
			} else if (ops[i].query.user_data != which[i]) {
				die("query of %u: %llu", which[i], ops[i].query.user_data);
			}
		}
		atomic_fetch_add(w->begun, 1);
	}
	return NULL;
}

/* Returns the number of timeouts that were handed back. */
static unsigned int race(struct __test_metadata *_metadata, bool own, __u64 *random,
			 unsigned int batches, unsigned int stop_after)
{
	unsigned int max = THREADS * batches * LENGTH, i;
	struct life *lives = must_alloc(max, sizeof(*lives));
	struct worker workers[THREADS];
	struct reader reader = { .fd = open_context(own), .lives = lives, .max = max };
	atomic_uint begun = 0;
	__u64 back, touched = 0;
	int fd = reader.fd;

	start(&reader.thread, read_to_the_end, &reader);
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.fd = fd, .number = i, .batches = batches, .lives = lives,
			.random = rnd(random) | 1, .begun = &begun,
		};
		start(&workers[i].thread, run_batches, &workers[i]);
	}
	if (stop_after) {
		while (atomic_load(&begun) < stop_after)
			sched_yield();
	} else {
		for (i = 0; i < THREADS; i++)
			pthread_join(workers[i].thread, NULL);
	}
	if (hwt_stop(fd, &back))
		die("stop");
	for (i = 0; i < THREADS; i++) {
		if (stop_after)
			pthread_join(workers[i].thread, NULL);
		touched += workers[i].touched;
	}
	pthread_join(reader.thread, NULL);
	check_lives(_metadata, &reader, 1, back);
	EXPECT_EQ(touched, must_stats(fd).touched);
	close(fd);
	free(lives);
	return back;
}

TEST_F(context, against_batches)
{
	__u64 random = seed();

	race(_metadata, variant->own, &random, quick_or(100, 300), 0);
}

TEST_F(context, against_stop)
{
	unsigned int i, back = 0;
	__u64 random = seed();

	for (i = 0; i < quick_or(4, 16); i++)
		back += race(_metadata, variant->own, &random, 100,
			     rnd(&random) % (THREADS * 60) + 1);
	printf("# %u handed back\n", back);
	EXPECT_LT(0, back);
}

/* In a context with rings: ids are the program's, and earlier submissions are taken first. */
TEST_F(context, with_rings)
{
	struct ring *r = must_ring(self->fd, 8, 8, 4);
	__u64 far = now_ns() + FAR, a = HWTIMER_ID(0, 1), b = HWTIMER_ID(1, 2);
	struct hwtimer_record rec;
	struct hwtimer_op op[9];

	must_put(r, HWTIMER_OP_SCHEDULE, 0, a, far, 7);
	op[0] = op_query(a);
	op[1] = op_schedule(0, far, 1);
	op[1].schedule.id = HWTIMER_ID(0, 9);
	op[2] = op_schedule(0, far, 2);
	op[2].schedule.id = b;
	op[3] = op_touch(0, b, far + 1);
	op[4] = op_query(b);
	op[5] = op_cancel(b);
	op[6] = op_query(b);
	op[7] = op_schedule(0, far, 3);
	op[7].schedule.id = HWTIMER_ID(4, 1);
	op[8] = op_schedule(HWTIMER_RELATIVE, 0, 4);
	op[8].schedule.id = HWTIMER_ID(1, 3);
	must_batch(self->fd, op, 9);
	EXPECT_EQ(0, op[0].result);
	EXPECT_EQ(7, op[0].query.user_data);
	EXPECT_EQ(-EEXIST, op[1].result);
	EXPECT_EQ(0, op[2].result);
	EXPECT_EQ(b, op[2].schedule.id);
	EXPECT_EQ(far, op[2].schedule.deadline);
	EXPECT_EQ(0, op[3].result);
	EXPECT_EQ(0, op[4].result);
	EXPECT_EQ(2, op[4].query.user_data);
	EXPECT_EQ(far + 1, op[4].query.deadline);
	EXPECT_EQ(0, op[5].result);
	EXPECT_EQ(-ENOENT, op[6].result);
	EXPECT_EQ(-EINVAL, op[7].result);
	EXPECT_EQ(0, op[8].result);
	rec = must_ring_expire(r);
	EXPECT_EQ(HWTIMER_ID(1, 3), rec.id);
	EXPECT_EQ(4, rec.user_data);
	EXPECT_EQ(1, must_stats(self->fd).pending);
	/* Results of a batch do not add records. */
	EXPECT_EQ(0, ring_unread(r));
	ring_unmap(r);
}

TEST_HARNESS_MAIN
