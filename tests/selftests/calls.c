// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/hwtimer, contexts by calls: SCHEDULE, TOUCH, CANCEL, QUERY, and read(2).
 */
#include "calls.h"

#include <linux/userfaultfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#define RECORD_SIZE	sizeof(struct hwtimer_record)

FIXTURE(calls)
{
	int fd;
};

FIXTURE_SETUP(calls)
{
	self->fd = must_open(0);
}

FIXTURE_TEARDOWN(calls)
{
	close(self->fd);
}

static __u64 schedule_at(int fd, __u64 time, __u64 user_data)
{
	struct hwtimer_schedule s = { .time = time, .user_data = user_data };
	int ret = hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);

	if (ret)
		die("SCHEDULE: %d", ret);
	return s.id;
}

static int touch_at(int fd, __u64 id, __u64 time)
{
	struct hwtimer_touch t = { .id = id, .time = time };

	return hwt_ioctl(fd, HWTIMER_IOC_TOUCH, &t);
}

static struct hwtimer_query query(int fd, __u64 id)
{
	struct hwtimer_query q = { .id = id };
	int ret = hwt_ioctl(fd, HWTIMER_IOC_QUERY, &q);

	if (ret || q.id != id)
		die("QUERY: %d", ret);
	return q;
}

static void nonblock(int fd)
{
	if (fcntl(fd, F_SETFL, O_NONBLOCK))
		die("fcntl");
}

/* Have @n timeouts ready to be read, whose user_data is 0, 1, ... */
static void ready(int fd, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		must_schedule(fd, 0, i);
	wait_until(now_ns() + 3 * NSEC_PER_MSEC);
	/* Each slice looks at some. */
	for (i = 0; i < n; i++)
		poll_in(fd, 0);
}

/* Deadlines and data come back as they were given, by SCHEDULE or by TOUCH. */
TEST_F(calls, absolute)
{
	static const __u64 data[] = {
		0, 1, 0xffffffff, 1ULL << 32, 1ULL << 63, ~0ULL, 0x0123456789abcdef,
	};
	const __u64 times[] = { 0, 1, now_ns() - NSEC_PER_SEC, now_ns() };
	struct hwtimer_query q;
	struct hwtimer_record r;
	__u64 id, time;
	unsigned int i;

	for (i = 0; i < 30; i++) {
		time = i < ARRAY_SIZE(times) ? times[i] : now_ns() + i * 1111111;
		if (i % 2) {
			id = schedule_at(self->fd, FAR + now_ns(), data[i % ARRAY_SIZE(data)]);
			ASSERT_EQ(0, touch_at(self->fd, id, time));
		} else {
			id = schedule_at(self->fd, time, data[i % ARRAY_SIZE(data)]);
		}
		q = query(self->fd, id);
		EXPECT_EQ(data[i % ARRAY_SIZE(data)], q.user_data);
		EXPECT_EQ(time, q.deadline_ns);
		EXPECT_EQ(0, q.period_ns);
		ASSERT_EQ(1, calls_read(self->fd, &r, 1));
		EXPECT_EQ(id, r.id);
		EXPECT_EQ(data[i % ARRAY_SIZE(data)], r.user_data);
		EXPECT_EQ(time, r.deadline_ns);
		EXPECT_LE(time, r.taken_ns);
	}
}

/* Even if the reader is late, and all has been due for long. */
TEST_F(calls, order_of_ticks)
{
	struct hwtimer_record r[300];
	int i, n = 0, got;
	__u64 last = 0;

	for (i = 0; i < 300; i++)
		must_schedule(self->fd, (i * 37) % 300 * 3 * NSEC_PER_MSEC, i);
	wait_until(now_ns() + NSEC_PER_SEC);
	for (; n < 300; n += got) {
		got = calls_read(self->fd, r, 300);
		ASSERT_LT(0, got);
		for (i = 0; i < got; i++) {
			ASSERT_LE(last, r[i].deadline_ns + 2 * NSEC_PER_MSEC);
			last = r[i].deadline_ns;
		}
	}
	ASSERT_EQ(0, must_stats(self->fd).pending);
}

/* All calls fail for an id without a pending timeout. */
static void refuses_id(struct __test_metadata *_metadata, int fd, __u64 id)
{
	struct hwtimer_query q = { .id = id };

	EXPECT_EQ(-ENOENT, calls_cancel(fd, id))
		TH_LOG("id %llx", (unsigned long long)id);
	EXPECT_EQ(-ENOENT, hwt_ioctl(fd, HWTIMER_IOC_QUERY, &q));
	EXPECT_EQ(-ENOENT, calls_touch(fd, id, FAR));
	EXPECT_EQ(-ENOENT, touch_at(fd, id, 0));
}

TEST_F(calls, invented_ids)
{
	__u64 id = must_schedule(self->fd, FAR, 1), random = seed(), other;
	int i;

	refuses_id(_metadata, self->fd, 0);
	refuses_id(_metadata, self->fd, ~0ULL);
	refuses_id(_metadata, self->fd, id + 1);
	refuses_id(_metadata, self->fd, id - 1);
	for (i = 0; i < 64; i++)
		refuses_id(_metadata, self->fd, id ^ (1ULL << i));
	for (i = 0; i < 1000; i++) {
		other = rnd(&random);
		if (other != id)
			refuses_id(_metadata, self->fd, other);
	}
	EXPECT_EQ(0, calls_cancel(self->fd, id));
}

/* What is due and was not read can still be cancelled and moved. */
TEST_F(calls, due_and_not_taken)
{
	__u64 a = must_schedule(self->fd, 0, 1), b = must_schedule(self->fd, 0, 2);
	__u64 c = must_schedule(self->fd, 0, 3);
	struct hwtimer_record r[4];

	ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
	wait_until(now_ns() + 3 * NSEC_PER_MSEC);
	ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
	ASSERT_EQ(3, must_stats(self->fd).pending);
	ASSERT_EQ(0, calls_cancel(self->fd, a));
	ASSERT_EQ(0, calls_touch(self->fd, b, FAR));
	ASSERT_EQ(1, calls_read(self->fd, r, 4));
	ASSERT_EQ(c, r[0].id);
	ASSERT_EQ(0, poll_in(self->fd, 0));
	ASSERT_EQ(0, calls_cancel(self->fd, b));
}

/* What is past is due at the next tick, not before: the timer goes off once. */
TEST_F(calls, past)
{
	struct hwtimer_schedule s = { };
	struct hwtimer_record r;
	int i;

	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
		ASSERT_EQ(1, calls_read(self->fd, &r, 1));
		ASSERT_EQ(s.id, r.id);
	}
	ASSERT_GE(50, must_stats(self->fd).timers);
}

static short poll_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	if (poll(&p, 1, 0) < 0)
		die("poll");
	return p.revents;
}

/* What is asked for, and the end in any case. */
TEST_F(calls, poll)
{
	const short in = POLLIN | POLLRDNORM;
	struct hwtimer_record r;

	must_schedule(self->fd, FAR, 0);
	EXPECT_EQ(0, poll_for(self->fd, in | POLLOUT | POLLPRI));
	ready(self->fd, 2);
	EXPECT_EQ(in, poll_for(self->fd, in | POLLOUT | POLLPRI));
	EXPECT_EQ(POLLIN, poll_for(self->fd, POLLIN));
	EXPECT_EQ(1, calls_read(self->fd, &r, 1));
	EXPECT_EQ(in, poll_for(self->fd, in));
	EXPECT_EQ(1, calls_read(self->fd, &r, 1));
	EXPECT_EQ(0, poll_for(self->fd, in));
	/* Stopped with a timeout left, and without. */
	ASSERT_EQ(0, ioctl(self->fd, HWTIMER_IOC_STOP));
	EXPECT_EQ(in | POLLHUP, poll_for(self->fd, in));
	EXPECT_EQ(POLLHUP, poll_for(self->fd, 0));
	EXPECT_EQ(1, calls_read(self->fd, &r, 1));
	EXPECT_EQ(POLLHUP, poll_for(self->fd, in));
	EXPECT_EQ(0, calls_read(self->fd, &r, 1));
	EXPECT_EQ(POLLHUP, poll_for(self->fd, in));
}

/* Whoever polls without asking for input does no work for others. */
TEST_F(calls, stranger)
{
	struct pollfd p = { .fd = self->fd, .events = POLLERR };
	__u64 before;

	must_schedule(self->fd, 0, 1);
	wait_until(now_ns() + 5 * NSEC_PER_MSEC);
	before = must_stats(self->fd).runs;
	ASSERT_EQ(0, poll(&p, 1, 0));
	ASSERT_EQ(before, must_stats(self->fd).runs);
	ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
	ASSERT_LT(before, must_stats(self->fd).runs);
}

static int periodic(int fd, __u64 period_ms, __u64 misfire_ms, __u32 policy, __u64 *id)
{
	struct hwtimer_schedule s = {
		.time = now_ns(),
		.period_ns = period_ms * NSEC_PER_MSEC,
		.misfire_ns = misfire_ms * NSEC_PER_MSEC,
		.policy = policy,
	};
	int ret = hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);

	*id = s.id;
	return ret;
}

/* What periods and misfires may be. */
TEST_F(calls, period_refused)
{
	const __u64 tick = 1 << 20;
	const struct {
		__u64 period, misfire;
		__u32 policy;
		int ret;
	} cases[] = {
		{ 1, 0, HWTIMER_MISFIRE_ONCE, -EINVAL },
		{ tick - 1, 0, HWTIMER_MISFIRE_ONCE, -EINVAL },
		{ tick, 0, HWTIMER_MISFIRE_ONCE, 0 },
		{ tick + 1, 0, HWTIMER_MISFIRE_ONCE, 0 },
		{ tick - 1, 0, HWTIMER_MISFIRE_SKIP, -EINVAL },
		{ tick, 0, HWTIMER_MISFIRE_SKIP, 0 },
		{ tick - 1, 0, HWTIMER_MISFIRE_MAKE_UP, -EINVAL },
		{ tick, 0, HWTIMER_MISFIRE_MAKE_UP, 0 },
		{ ~0ULL, 0, HWTIMER_MISFIRE_ONCE, 0 },
		{ 1ULL << 63, 0, HWTIMER_MISFIRE_ONCE, 0 },
		{ FAR, 1, HWTIMER_MISFIRE_ONCE, -EINVAL },
		{ FAR, tick - 1, HWTIMER_MISFIRE_ONCE, -EINVAL },
		{ FAR, tick - 1, HWTIMER_MISFIRE_SKIP, -EINVAL },
		{ FAR, tick - 1, HWTIMER_MISFIRE_MAKE_UP, -EINVAL },
		{ FAR, tick, HWTIMER_MISFIRE_SKIP, 0 },
		{ FAR, ~0ULL, HWTIMER_MISFIRE_SKIP, 0 },
		{ FAR, 0, 3, -EINVAL }, { FAR, 0, 4, -EINVAL }, { FAR, 0, 256, -EINVAL },
		{ FAR, 0, 0x80000000, -EINVAL }, { FAR, 0, ~0U, -EINVAL },
		{ 0, 0, HWTIMER_MISFIRE_ONCE, 0 }, { 0, tick, HWTIMER_MISFIRE_ONCE, -EINVAL },
		{ 0, 1, HWTIMER_MISFIRE_ONCE, -EINVAL },
		{ 0, ~0ULL, HWTIMER_MISFIRE_ONCE, -EINVAL },
		{ 0, 0, HWTIMER_MISFIRE_SKIP, -EINVAL },
		{ 0, 0, HWTIMER_MISFIRE_MAKE_UP, -EINVAL }, { 0, 0, 3, -EINVAL },
	};
	unsigned int i, pending = 0;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hwtimer_schedule s = {
			.id = POISON, .time = FAR, .flags = HWTIMER_RELATIVE,
			.period_ns = cases[i].period, .misfire_ns = cases[i].misfire,
			.policy = cases[i].policy,
		};

		ASSERT_EQ(cases[i].ret, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s))
			TH_LOG("case %u", i);
		pending += !cases[i].ret;
		ASSERT_EQ(pending, must_stats(self->fd).pending);
		if (cases[i].ret) {
			EXPECT_EQ(POISON, s.id);
		} else {
			EXPECT_EQ(cases[i].period, query(self->fd, s.id).period_ns);
		}
	}
}

/* A touch moves the next deadline and all later ones. */
TEST_F(calls, period_touched)
{
	const __u64 period = 5 * NSEC_PER_MSEC;
	__u64 id, time = now_ns() + 20 * NSEC_PER_MSEC + 1;
	struct hwtimer_record r;
	int i;

	ASSERT_EQ(0, periodic(self->fd, 5, 0, HWTIMER_MISFIRE_MAKE_UP, &id));
	ASSERT_EQ(0, touch_at(self->fd, id, time));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(1, calls_read(self->fd, &r, 1));
		EXPECT_EQ(time + i * period, r.deadline_ns);
	}
	ASSERT_EQ(0, calls_touch(self->fd, id, HWTIMER_NEVER));
	EXPECT_EQ(HWTIMER_NEVER, query(self->fd, id).deadline_ns);
	EXPECT_EQ(period, query(self->fd, id).period_ns);
	wait_until(now_ns() + 10 * period);
	nonblock(self->fd);
	EXPECT_EQ(-EAGAIN, calls_read(self->fd, &r, 1));
	time = now_ns() + 3 * period;
	ASSERT_EQ(0, touch_at(self->fd, id, time));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
		ASSERT_EQ(1, calls_read(self->fd, &r, 1));
		EXPECT_EQ(time + i * period, r.deadline_ns);
	}
	EXPECT_EQ(1, must_stats(self->fd).pending);
}

/* Lateness beyond the bound is a misfire, lateness up to it is not; the record shows which. */
TEST_F(calls, misfire_bound)
{
	const __u64 period = 5 * NSEC_PER_MSEC;
	int i, ret, normal = 0, misfires = 0;
	struct hwtimer_record r;

	nonblock(self->fd);
	for (i = 0; i < 30; i++) {
		struct hwtimer_schedule s = {
			.period_ns = FAR, .misfire_ns = i % 3 == 2 ? FAR : 20 * period,
			.policy = HWTIMER_MISFIRE_SKIP,
		};

		/*
		 * Depending on i, the bound is exceeded for certain, or not, or perhaps: find out
		 * from the record.
		 */
		s.time = now_ns() - 20 * period + (i % 3 ? 20 : -2) * (__s64)NSEC_PER_MSEC;
		ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
		ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
		ret = calls_read(self->fd, &r, 1);
		if (ret == 1) {
			EXPECT_EQ(s.time, r.deadline_ns);
			EXPECT_EQ(0, r.overruns);
			EXPECT_LE(r.taken_ns, s.time + s.misfire_ns);
			normal++;
		} else {
			ASSERT_EQ(-EAGAIN, ret);
			EXPECT_LT(s.time + s.misfire_ns, now_ns());
			misfires++;
		}
		EXPECT_EQ(s.time + FAR, query(self->fd, s.id).deadline_ns);
		ASSERT_EQ(0, calls_cancel(self->fd, s.id));
	}
	printf("# %d on time, %d misfires\n", normal, misfires);
	EXPECT_LE(10, misfires);
	EXPECT_LE(10, normal);
}

/* Each missed deadline counts once, whatever the policy is. */
TEST_F(calls, misfires)
{
	__u32 policy;

	for (policy = HWTIMER_MISFIRE_ONCE; policy <= HWTIMER_MISFIRE_SKIP; policy++) {
		struct hwtimer_record first, next;
		__u64 id, begin = now_ns();

		ASSERT_EQ(0, periodic(self->fd, 10, 2, policy, &id));
		wait_until(begin + 45 * NSEC_PER_MSEC);
		ASSERT_EQ(1, calls_read(self->fd, &first, 1));
		ASSERT_EQ(1, calls_read(self->fd, &next, 1));
		if (policy == HWTIMER_MISFIRE_ONCE) {
			ASSERT_LE(4, first.overruns);
		} else {
			ASSERT_LE(5, first.overruns);
		}
		/* Each has the last deadline that it stands for. */
		ASSERT_EQ(first.deadline_ns + (1 + next.overruns) * 10 * NSEC_PER_MSEC,
			  next.deadline_ns);
		ASSERT_EQ(0, calls_cancel(self->fd, id));
	}
}

/* How many events MAKE_UP has does not depend on how many a reader asks for. */
TEST_F(calls, make_up)
{
	struct hwtimer_record r[64];
	__u64 id, begin = now_ns(), last = 0;
	int i, n, all = 0;

	ASSERT_EQ(0, periodic(self->fd, 2, 2, HWTIMER_MISFIRE_MAKE_UP, &id));
	wait_until(begin + 40 * NSEC_PER_MSEC);
	while (all < 20) {
		n = calls_read(self->fd, r, 64);
		ASSERT_LT(0, n);
		for (i = 0; i < n; i++, all++) {
			ASSERT_EQ(0, r[i].overruns);
			if (last) {
				ASSERT_EQ(last + 2 * NSEC_PER_MSEC, r[i].deadline_ns);
			}
			last = r[i].deadline_ns;
		}
	}
}

/* Only whole records are returned, and nothing beyond them is written. */
TEST_F(calls, whole_records)
{
	__u64 id = must_schedule(self->fd, FAR, 0);
	char buf[5 * RECORD_SIZE];
	unsigned int i, size;

	/* Whether something is due or not. */
	for (i = 0; i < 2; i++) {
		for (size = 0; size < RECORD_SIZE; size++) {
			ASSERT_EQ(-1, read(self->fd, buf, size));
			ASSERT_EQ(EINVAL, errno);
		}
		if (!i)
			ready(self->fd, 3);
	}
	ASSERT_EQ(0, calls_cancel(self->fd, id));
	memset(buf, 0x5a, sizeof(buf));
	ASSERT_EQ(2 * RECORD_SIZE, read(self->fd, buf, 3 * RECORD_SIZE - 1));
	for (i = 2 * RECORD_SIZE; i < sizeof(buf); i++)
		ASSERT_EQ(0x5a, buf[i]);
	ASSERT_EQ(1, must_stats(self->fd).pending);
	memset(buf, 0x5a, sizeof(buf));
	ASSERT_EQ(RECORD_SIZE, read(self->fd, buf, sizeof(buf)));
	for (i = RECORD_SIZE; i < sizeof(buf); i++)
		ASSERT_EQ(0x5a, buf[i]);
}

/* If a record, or a part of it, cannot be copied, its timeout is not consumed. */
TEST_F(calls, fault)
{
	struct hwtimer_record r[3];
	char *fence = must_fence(1);
	unsigned int part;

	for (part = 0; part < RECORD_SIZE; part++) {
		char *buf = fence - RECORD_SIZE - part;

		ready(self->fd, 3);
		ASSERT_EQ(-EFAULT, calls_read(self->fd, fence - part, 3));
		ASSERT_EQ(3, must_stats(self->fd).pending);
		ASSERT_EQ(1, calls_read(self->fd, buf, 3));
		memcpy(&r[0], buf, RECORD_SIZE);
		ASSERT_EQ(2, must_stats(self->fd).pending);
		ASSERT_EQ(2, calls_read(self->fd, &r[1], 2));
		ASSERT_EQ(7, 1 << r[0].user_data | 1 << r[1].user_data | 1 << r[2].user_data);
	}
}

/* A fault beyond the records that the kernel copies at a time. */
TEST_F(calls, fault_after_many)
{
	char *fence = must_fence(1), *buf = fence - 40 * RECORD_SIZE - 11;
	struct hwtimer_record r[100];
	char seen[100] = { };
	int i, got;

	ready(self->fd, 100);
	ASSERT_EQ(40, calls_read(self->fd, buf, 100));
	memcpy(r, buf, 40 * RECORD_SIZE);
	ASSERT_EQ(60, must_stats(self->fd).pending);
	for (i = 40; i < 100; i += got) {
		got = calls_read(self->fd, &r[i], 100 - i);
		ASSERT_LT(0, got);
	}
	for (i = 0; i < 100; i++) {
		ASSERT_GT(100, r[i].user_data);
		ASSERT_EQ(0, seen[r[i].user_data]++);
	}
}

/* A record of a periodic timeout that could not be copied is not consumed, nor its overruns. */
TEST_F(calls, fault_of_periodic)
{
	char *torn = must_fence(1) - RECORD_SIZE + 1;
	const __u64 period = 5 * NSEC_PER_MSEC;
	struct hwtimer_record r;
	__u64 id, first, sum;
	__u32 policy;
	int i;

	for (policy = HWTIMER_MISFIRE_ONCE; policy <= HWTIMER_MISFIRE_MAKE_UP; policy++) {
		ASSERT_EQ(0, periodic(self->fd, 5, 0, policy, &id));
		first = query(self->fd, id).deadline_ns;
		for (i = 0, sum = 0; i < 4; i++) {
			if (i % 2)
				wait_until(now_ns() + 3 * period);
			ASSERT_EQ(-EFAULT, calls_read(self->fd, torn, 2));
			ASSERT_EQ(1, calls_read(self->fd, &r, 1));
			ASSERT_EQ(id, r.id);
			sum += 1 + r.overruns;
			ASSERT_EQ(first + (sum - 1) * period, r.deadline_ns);
		}
		ASSERT_EQ(0, calls_cancel(self->fd, id));
	}
}

TEST_F(calls, no_seek_no_write)
{
	char buf[RECORD_SIZE] = { 0 };
	struct iovec iov = { buf, sizeof(buf) };

	ready(self->fd, 1);
	EXPECT_EQ(-1, lseek(self->fd, 0, SEEK_SET));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, pread(self->fd, buf, sizeof(buf), 0));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, preadv(self->fd, &iov, 1, 0));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, pwrite(self->fd, buf, sizeof(buf), 0));
	EXPECT_EQ(-1, write(self->fd, buf, sizeof(buf)));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ftruncate(self->fd, 0));
	EXPECT_EQ(1, must_stats(self->fd).pending);
}

/* A read(2) whose memory is not there yet. */
struct slow {
	int fd, ret;
	struct hwtimer_record *to;
};

static void *read_slowly(void *arg)
{
	struct slow *s = arg;

	s->ret = calls_read(s->fd, s->to, 2);
	return NULL;
}

/* While a record of a periodic timeout is being copied, the timeout goes on, and can be ended. */
TEST_F(calls, cancelled_during_read)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zero = { };
	struct slow s = { .fd = self->fd };
	struct hwtimer_record r;
	struct uffd_msg fault;
	__u64 ended, moved;
	pthread_t thread;
	pid_t pid;
	int uffd;

	uffd = syscall(__NR_userfaultfd, O_CLOEXEC);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api))
		SKIP(return, "no userfaultfd");
	s.to = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (unsigned long)s.to;
	range.range.len = page;
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_REGISTER, &range));

	ASSERT_EQ(0, periodic(self->fd, 5, 0, HWTIMER_MISFIRE_ONCE, &ended));
	ASSERT_EQ(0, periodic(self->fd, 5, 0, HWTIMER_MISFIRE_ONCE, &moved));
	wait_until(now_ns() + 3 * NSEC_PER_MSEC);
	ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_slowly, &s));
	ASSERT_EQ(sizeof(fault), read(uffd, &fault, sizeof(fault)));
	ASSERT_EQ(0, calls_cancel(self->fd, ended));
	ASSERT_EQ(-ENOENT, calls_cancel(self->fd, ended));
	ASSERT_EQ(0, calls_touch(self->fd, moved, FAR));
	/* Who waits for that can be killed. */
	pid = must_fork();
	if (!pid)
		_exit(calls_read(self->fd, &r, 1));
	eventually(task_state(pid) == 'S');
	kill(pid, SIGKILL);
	ASSERT_EQ(128 + SIGKILL, reap(pid));
	/* Who does not want to wait does not wait for that, either. */
	nonblock(self->fd);
	ASSERT_EQ(-EAGAIN, calls_read(self->fd, &r, 1));
	zero.range = range.range;
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
	pthread_join(thread, NULL);
	ASSERT_EQ(2, s.ret);
	wait_until(now_ns() + 20 * NSEC_PER_MSEC);
	ASSERT_EQ(-EAGAIN, calls_read(self->fd, &r, 1));
	ASSERT_EQ(1, must_stats(self->fd).pending);
	ASSERT_EQ(0, calls_cancel(self->fd, moved));
	close(uffd);
	munmap(s.to, page);
}

/* None, one, two and thousands, some of which were touched or are never due. */
TEST_F(calls, hands_back)
{
	static const unsigned int counts[] = { 0, 1, 2, 5000 };
	static __u64 ids[5000], deadlines[5000];
	static struct hwtimer_record r[5001];
	unsigned int i, k, n;
	__u64 before;
	int got;

	must_schedule(self->fd, FAR, 0);
	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		int fd = must_open(0);
		char seen[5000] = { };

		if (!counts[i]) {
			ASSERT_EQ(0, calls_cancel(fd, must_schedule(fd, 0, 0)));
		}
		for (k = 0; k < counts[i]; k++) {
			deadlines[k] = k % 5 ? now_ns() + FAR + k : HWTIMER_NEVER;
			ids[k] = schedule_at(fd, deadlines[k], k);
			if (k % 3 == 1) {
				deadlines[k] = now_ns() + FAR / 2 + k;
				ASSERT_EQ(0, touch_at(fd, ids[k], deadlines[k]));
			}
		}
		before = now_ns();
		ASSERT_EQ(0, ioctl(fd, HWTIMER_IOC_STOP));
		for (n = 0; (got = calls_read(fd, r + n, 5001 - n)) > 0; n += got)
			;
		/* The end, again and again. */
		ASSERT_EQ(0, got);
		EXPECT_EQ(0, calls_read(fd, r + n, 1));
		ASSERT_EQ(counts[i], n);
		for (k = 0; k < n; k++) {
			ASSERT_EQ(HWTIMER_KIND_HANDED_BACK, r[k].kind);
			ASSERT_GT(n, r[k].user_data);
			ASSERT_EQ(0, seen[r[k].user_data]++);
			ASSERT_EQ(ids[r[k].user_data], r[k].id);
			ASSERT_EQ(deadlines[r[k].user_data], r[k].deadline_ns);
			ASSERT_LE(before, r[k].taken_ns);
		}
		close(fd);
	}
	/* Another context was not stopped. */
	must_schedule(self->fd, 0, 3);
	ASSERT_EQ(1, calls_read(self->fd, &r[0], 1));
	EXPECT_EQ(3, r[0].user_data);
	EXPECT_EQ(HWTIMER_KIND_EXPIRED, r[0].kind);
}

/* Afterwards nothing is armed or moved. What was not handed back yet can be cancelled. */
TEST_F(calls, after_stop)
{
	__u64 id, other = must_schedule(self->fd, FAR, 2), gone;
	struct hwtimer_schedule s = { .time = FAR, .flags = HWTIMER_RELATIVE };
	struct hwtimer_record r[3];
	int read_too;

	ASSERT_EQ(0, periodic(self->fd, 50, 0, HWTIMER_MISFIRE_ONCE, &id));
	gone = must_schedule(self->fd, FAR, 3);
	ASSERT_EQ(0, calls_cancel(self->fd, gone));
	ASSERT_EQ(0, ioctl(self->fd, HWTIMER_IOC_STOP));
	EXPECT_EQ(-ESHUTDOWN, calls_touch(self->fd, id, 0));
	EXPECT_EQ(50 * NSEC_PER_MSEC, query(self->fd, id).period_ns);
	EXPECT_EQ(0, calls_cancel(self->fd, other));
	for (read_too = 0; read_too < 2; read_too++) {
		EXPECT_EQ(-ESHUTDOWN, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
		refuses_id(_metadata, self->fd, other);
		refuses_id(_metadata, self->fd, gone);
		EXPECT_EQ(0, ioctl(self->fd, HWTIMER_IOC_STOP));
		if (!read_too) {
			ASSERT_EQ(1, calls_read(self->fd, r, 3));
			EXPECT_EQ(id, r[0].id);
		}
	}
	refuses_id(_metadata, self->fd, id);
	EXPECT_EQ(0, calls_read(self->fd, r, 3));
}

struct starter {
	pthread_t thread;
	int fd;
	atomic_int *go;
	/* SETUP with so many slots; 0: SCHEDULE */
	__u32 slots;
	int ret;
};

static void *stop_at_once(void *arg)
{
	struct starter *s = arg;

	while (!atomic_load(s->go))
		;
	s->ret = hwt_ioctl(s->fd, HWTIMER_IOC_STOP, NULL);
	return NULL;
}

/* The end comes after the last record, even while a STOP hands back. */
TEST_F(calls, end_is_last)
{
	struct hwtimer_record r;
	atomic_int go = 1;
	int i, n, ret;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU");
	for (i = 0; i < 2000; i++) {
		struct starter s = { .go = &go };

		s.fd = must_open(O_NONBLOCK);
		must_schedule(s.fd, FAR, i);
		start(&s.thread, stop_at_once, &s);
		for (n = 0; (ret = calls_read(s.fd, &r, 1)); n += ret > 0)
			ASSERT_EQ(ret < 0 ? -EAGAIN : 1, ret);
		pthread_join(s.thread, NULL);
		ASSERT_EQ(1, n)
			TH_LOG("round %d", i);
		close(s.fd);
	}
}

static void *set_up_at_once(void *arg)
{
	struct starter *s = arg;
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .slots = s->slots };
	struct hwtimer_schedule schedule = { .time = HWTIMER_NEVER };

	while (!atomic_load(s->go))
		;
	s->ret = s->slots ? hwt_ioctl(s->fd, HWTIMER_IOC_SETUP, &setup) :
			    hwt_ioctl(s->fd, HWTIMER_IOC_SCHEDULE, &schedule);
	return NULL;
}

/* Two set up the same context: one wins. A SCHEDULE sets it up, or finds that others did. */
TEST_F(calls, setup_against_setup)
{
	static const __u32 slots[][2] = { { 5, 6 }, { 5, 0 }, { 0, 6 }, { 0, 0 } };
	int rounds = quick_or(80, 400), i, k, winner;
	struct hwtimer_info info;

	for (i = 0; i < rounds; i++) {
		int fd = must_open(0);
		struct starter s[2];
		atomic_int go = 0;

		for (k = 0; k < 2; k++) {
			s[k] = (struct starter){ .fd = fd, .go = &go, .slots = slots[i % 4][k] };
			start(&s[k].thread, set_up_at_once, &s[k]);
		}
		atomic_store(&go, 1);
		for (k = 0; k < 2; k++)
			pthread_join(s[k].thread, NULL);
		ASSERT_EQ(0, hwt_ioctl(fd, HWTIMER_IOC_INFO, &info));
		ASSERT_EQ(!s[0].slots + !s[1].slots, must_stats(fd).pending);
		for (k = 0, winner = -1; k < 2; k++) {
			if (s[k].slots && !s[k].ret) {
				ASSERT_EQ(-1, winner);
				winner = k;
			} else {
				ASSERT_EQ(s[k].slots ? -EBUSY : 0, s[k].ret);
			}
		}
		/* Two that set up cannot both be late. */
		ASSERT_TRUE(winner >= 0 || i % 4);
		ASSERT_EQ(winner < 0 ? HWTIMER_FREE_SLOTS : s[winner].slots, info.slots);
		close(fd);
	}
}

TEST_F(calls, cap)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .slots = 100 };
	struct hwtimer_schedule s = { .time = FAR, .flags = HWTIMER_RELATIVE };
	int i;

	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &setup));
	ASSERT_EQ(-EBUSY, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &setup));
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
	ASSERT_EQ(-ENOSPC, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
	ASSERT_EQ(0, calls_cancel(self->fd, s.id));
	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
}

/* Many pages of entries; ids are never the same. */
TEST_F(calls, many)
{
	const int n = quick_or(20000, 1000000);
	__u64 *ids = calloc(n, sizeof(*ids));
	int i;

	for (i = 0; i < n; i++)
		ids[i] = must_schedule(self->fd, FAR + i, i);
	ASSERT_EQ(n, must_stats(self->fd).pending);
	for (i = 0; i < n; i += 2) {
		ASSERT_EQ(0, calls_cancel(self->fd, ids[i]));
		ASSERT_NE(ids[i], must_schedule(self->fd, FAR, i));
		ASSERT_EQ(-ENOENT, calls_cancel(self->fd, ids[i]));
	}
	for (i = 1; i < n; i += 2)
		ASSERT_EQ(0, calls_touch(self->fd, ids[i], FAR * 2));
	free(ids);
}

TEST_F(calls, sets_up)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_BOOTTIME, .tick_ns = 1000000, .slack_ns = 64000000,
	};
	struct hwtimer_record r;
	struct hwtimer_info info;

	ASSERT_EQ(-ENXIO, hwt_ioctl(self->fd, HWTIMER_IOC_INFO, &info));
	ASSERT_EQ(-ENXIO, calls_read(self->fd, &r, 1));
	ASSERT_EQ(0, poll_in(self->fd, 0));
	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &setup));
	/* Tick and slack are multiples of 65,536 ns. */
	ASSERT_EQ(16 * 65536, setup.tick_ns);
	ASSERT_EQ(64000000 / 65536 * 65536, setup.slack_ns);
	ASSERT_EQ(1 << 20, setup.slots);
	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_INFO, &info));
	ASSERT_EQ(setup.tick_ns, info.tick_ns);
	ASSERT_EQ(setup.slack_ns, info.slack_ns);
	ASSERT_EQ(CLOCK_BOOTTIME, info.clockid);
	ASSERT_EQ(0, info.flags);
	ASSERT_EQ(0, info.offset_ns);
	ASSERT_EQ(1 << 20, info.slots);
}

/* With slack, one wake-up serves many ticks, and nothing is later than tick and slack allow. */
TEST_F(calls, slack)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .slack_ns = 70000000 };
	struct hwtimer_record r[100];
	int i, n = 0, got;

	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &setup));
	for (i = 0; i < 100; i++)
		must_schedule(self->fd, i * NSEC_PER_MSEC, i);
	for (; n < 100; n += got) {
		got = calls_read(self->fd, &r[n], 100 - n);
		ASSERT_LT(0, got);
	}
	/* 100 ms are 95 ticks, which are at most four periods of 64 ticks or parts of these. */
	ASSERT_GE(8, must_stats(self->fd).timers);
}

/*
 * What is left of the slack, if that is no 2^n - 1 ticks, is the timer's: it goes off together with
 * another one that comes a little later. Mostly: the kernel's own timers may come between.
 */
TEST_F(calls, slack_of_timer)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .slack_ns = 3000000 };
	int other = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), together = 0, i;
	struct pollfd p[2] = {
		{ .fd = self->fd, .events = POLLIN }, { .fd = other, .events = POLLIN },
	};
	struct hwtimer_record r;
	struct itimerspec at = { };
	__u64 tick, count;

	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &setup));
	for (i = 0; i < 50; i++) {
		/* A tick at which it is looked at, with a slack of one tick, and 1 ms later. */
		tick = (now_ns() / setup.tick_ns / 2 + 4) * 2 * setup.tick_ns;
		schedule_at(self->fd, tick, i);
		at.it_value.tv_nsec = (tick + NSEC_PER_MSEC) % NSEC_PER_SEC;
		at.it_value.tv_sec = (tick + NSEC_PER_MSEC) / NSEC_PER_SEC;
		ASSERT_EQ(0, timerfd_settime(other, TFD_TIMER_ABSTIME, &at, NULL));
		ASSERT_LE(1, poll(p, 2, -1));
		together += p[0].revents && p[1].revents;
		ASSERT_EQ(1, calls_read(self->fd, &r, 1));
		ASSERT_LE(tick, r.taken_ns);
		ASSERT_LE(1, poll(&p[1], 1, -1));
		ASSERT_EQ(sizeof(count), read(other, &count, sizeof(count)));
	}
	close(other);
	ASSERT_LE(26, together);
}

/* What is refused leaves the context as it was. */
TEST_F(calls, setup_refused)
{
	struct hwtimer_setup bad[] = {
		{ .clockid = CLOCK_REALTIME },
		{ .clockid = CLOCK_PROCESS_CPUTIME_ID },
		{ .clockid = CLOCK_MONOTONIC_RAW },
		{ .clockid = CLOCK_TAI },
		{ .clockid = 1U << 31 | CLOCK_MONOTONIC },
		{ .clockid = ~0U },
		{ .clockid = CLOCK_MONOTONIC, .tick_ns = 131071 },
		{ .clockid = CLOCK_MONOTONIC, .tick_ns = 10000000001 },
		{ .clockid = CLOCK_MONOTONIC, .slack_ns = (1ULL << 40) + 1 },
		{ .clockid = CLOCK_MONOTONIC, .slots = HWTIMER_MAX_SLOTS + 1 },
	}, good = { .clockid = CLOCK_MONOTONIC };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		ASSERT_EQ(-EINVAL, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &bad[i]))
			TH_LOG("case %u", i);
	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &good));
	ASSERT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, self->fd, 0));
	ASSERT_EQ(ENXIO, errno);
}

/* Deadlines that are extreme. */
TEST_F(calls, extremes)
{
	static const __u64 times[] = {
		HWTIMER_NEVER, HWTIMER_NEVER - 1, 1ULL << 63, (1ULL << 63) - 1, 1ULL << 62,
	};
	struct hwtimer_schedule s = { };
	struct hwtimer_record r;
	unsigned int i, flags;

	for (flags = 0; flags <= HWTIMER_RELATIVE; flags++)
		for (i = 0; i < ARRAY_SIZE(times); i++) {
			s = (struct hwtimer_schedule){ .time = times[i], .flags = flags };
			ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
		}
	s = (struct hwtimer_schedule){ .user_data = 1 };
	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
	ASSERT_EQ(1, calls_read(self->fd, &r, 1));
	ASSERT_EQ(1, r.user_data);
	ASSERT_EQ(2 * ARRAY_SIZE(times), must_stats(self->fd).pending);
}

static void must(bool good, int line)
{
	if (!good)
		die("line %d", line);
}

#define MUST(condition)	must(condition, __LINE__)

/* All times of a context are those of this task's clock_gettime(). */
static void must_have_own_times(int fd, clockid_t clock)
{
	struct hwtimer_setup setup = { .clockid = clock };
	__u64 before = clock_ns(clock), at = before + FAR, id;
	struct hwtimer_record r;
	struct hwtimer_query q;

	MUST(!hwt_ioctl(fd, HWTIMER_IOC_SETUP, &setup));
	id = schedule_at(fd, at, 1);
	MUST(query(fd, id).deadline_ns == at);
	at = clock_ns(clock) + 20 * NSEC_PER_MSEC;
	MUST(!touch_at(fd, id, at) && query(fd, id).deadline_ns == at);
	MUST(calls_read(fd, &r, 1) == 1 && r.id == id && r.deadline_ns == at);
	MUST(at <= r.taken_ns && r.taken_ns <= clock_ns(clock));
	before = clock_ns(clock);
	id = must_schedule(fd, FAR, 2);
	q = query(fd, id);
	MUST(before + FAR <= q.deadline_ns && q.deadline_ns <= clock_ns(clock) + FAR);
	/* Before the start of the machine. */
	schedule_at(fd, 1, 3);
	MUST(calls_read(fd, &r, 1) == 1 && r.user_data == 3 && r.deadline_ns == 1);
	before = clock_ns(clock);
	MUST(!hwt_ioctl(fd, HWTIMER_IOC_STOP, NULL));
	MUST(calls_read(fd, &r, 1) == 1 && r.kind == HWTIMER_KIND_HANDED_BACK);
	MUST(r.deadline_ns == q.deadline_ns);
	MUST(before <= r.taken_ns && r.taken_ns <= clock_ns(clock));
}

/* The clock is that of the time namespace of whoever does the SETUP. Promise 12. */
TEST_F(calls, time_namespaces)
{
	/* Ahead, and behind: nobody can be born before the machine was started. */
	static const char *const offsets[] = {
		"monotonic 100000 123456789\nboottime 7 1\n",
		"monotonic -1 500000000\nboottime -1 0\n",
		"monotonic 1000 0\nboottime 1000000 0\n",
	};
	unsigned int i;

	must_have_own_times(self->fd, CLOCK_BOOTTIME);
	for (i = 0; i < 2 * ARRAY_SIZE(offsets); i++) {
		int fd = must_open(0);
		pid_t pid;

		/* For the children from now on. */
		if (!unshare_time(offsets[i / 2]))
			SKIP(return, "no time namespaces");
		pid = must_fork();
		if (!pid) {
			must_have_own_times(fd, i % 2 ? CLOCK_BOOTTIME : CLOCK_MONOTONIC);
			_exit(0);
		}
		EXPECT_EQ(0, reap(pid));
		close(fd);
	}
}

#define USER	1001

/* How many timeouts a user has memory for. */
static long fill(uid_t user, int *fd)
{
	struct hwtimer_schedule s = { .time = HWTIMER_NEVER };
	long n = 0;
	int ret;

	if (seteuid(user))
		die("seteuid");
	*fd = must_open(0);
	if (*fd < 0)
		die("open");
	while (!(ret = hwt_ioctl(*fd, HWTIMER_IOC_SCHEDULE, &s)))
		n++;
	if (ret != -ENOMEM || seteuid(0))
		die("SCHEDULE: %d", ret);
	return n;
}

/* In a user namespace of USER, as another user: it has no share of its own. */
static pid_t fill_subordinate(void)
{
	static const char map[] = "0 1001 1\n1 1002 1\n";
	int begun[2], go[2], fd;
	char path[64], c;
	pid_t pid;

	if (pipe(begun) || pipe(go))
		die("pipe");
	pid = fork();
	if (!pid) {
		if (setresuid(USER, USER, USER) || unshare(CLONE_NEWUSER) ||
		    write(begun[1], "b", 1) != 1 || read(go[0], &c, 1) != 1 || setuid(1))
			_exit(1);
		fd = must_open(0);
		_exit(hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &(struct hwtimer_schedule){ }) !=
		      -ENOMEM);
	}
	close(begun[1]);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	if (read(begun[0], &c, 1) != 1 || write_file(path, map) || write(go[1], "g", 1) != 1)
		die("uid_map");
	return pid;
}

/* A user may have half of the memory that the others leave, and so many slots. */
TEST_F(calls, shares)
{
	const char *const parameter = "/sys/module/hwtimer/parameters/max_memory";
	struct hwtimer_setup many = {
		.clockid = CLOCK_MONOTONIC, .slots = HWTIMER_FREE_SLOTS + 1,
	};
	int fd[3];
	long n[3];

	ASSERT_EQ(0, chmod("/dev/hwtimer", 0666));
	ASSERT_EQ(0, write_file(parameter, "1024"));
	n[0] = fill(USER, &fd[0]);
	/* A timeout takes at least 64 bytes, and a page has one at least. */
	ASSERT_LE(128, n[0]);
	ASSERT_GE(512 * 1024 / 64, n[0]);
	n[1] = fill(USER + 1, &fd[1]);
	ASSERT_LT(0, n[1]);
	ASSERT_GE(n[0], 2 * n[1]);
	/* With CAP_SYS_RESOURCE, all that is left. */
	n[2] = fill(0, &fd[2]);
	ASSERT_LE(n[1], n[2]);
	ASSERT_EQ(0, write_file(parameter, "0"));
	ASSERT_EQ(0, seteuid(USER));
	ASSERT_EQ(-EPERM, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &many));
	ASSERT_EQ(0, seteuid(0));
	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &many));
	ASSERT_EQ(0, chmod("/dev/hwtimer", 0600));
	close(fd[0]);
	close(fd[1]);
	close(fd[2]);
}

/* CAP_SYS_RESOURCE in a user namespace of the program does not count. */
TEST_F(calls, capable_in_user_namespace)
{
	struct hwtimer_setup many = {
		.clockid = CLOCK_MONOTONIC, .slots = HWTIMER_FREE_SLOTS + 1,
	};
	pid_t pid;

	if (access("/proc/self/ns/user", F_OK))
		SKIP(return, "no user namespaces");
	pid = must_fork();
	if (!pid) {
		if (setresuid(USER, USER, USER) || unshare(CLONE_NEWUSER))
			_exit(1);
		_exit(hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &many) != -EPERM);
	}
	ASSERT_EQ(0, reap(pid));
	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &many));
}

/* Whoever is another user in a namespace of this one has no share of his own. Promise 14. */
TEST_F(calls, subordinate)
{
	const char *const parameter = "/sys/module/hwtimer/parameters/max_memory";
	int fd;
	pid_t pid;

	if (access("/proc/self/ns/user", F_OK))
		SKIP(return, "no user namespaces");
	ASSERT_EQ(0, chmod("/dev/hwtimer", 0666));
	ASSERT_EQ(0, write_file(parameter, "1024"));
	ASSERT_LT(0, fill(USER, &fd));
	pid = fill_subordinate();
	ASSERT_EQ(0, reap(pid));
	ASSERT_EQ(0, write_file(parameter, "0"));
	ASSERT_EQ(0, chmod("/dev/hwtimer", 0600));
	close(fd);
}

TEST_HARNESS_MAIN
