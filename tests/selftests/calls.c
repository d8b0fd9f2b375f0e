// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/hwtimer-table, contexts by calls: SCHEDULE, TOUCH, CANCEL, QUERY, and read(2).
 */
#include "common.h"

#include <linux/hwtimer_table.h>
#include <linux/userfaultfd.h>

FIXTURE(calls)
{
	int fd;
};

FIXTURE_SETUP(calls)
{
	self->fd = open("/dev/hwtimer-table", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(calls)
{
	close(self->fd);
}

static __u64 schedule(int fd, __u64 delay, __u64 user_data)
{
	struct hwtimer_schedule s = {
		.time = delay, .flags = HWTIMER_RELATIVE, .user_data = user_data,
	};
	int ret = hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);

	if (ret)
		die("SCHEDULE: %d", ret);
	return s.id;
}

static int touch(int fd, __u64 id, __u64 delay)
{
	struct hwtimer_touch t = { .id = id, .time = delay, .flags = HWTIMER_RELATIVE };

	return hwt_ioctl(fd, HWTIMER_IOC_TOUCH, &t);
}

static int cancel(int fd, __u64 id)
{
	struct hwtimer_cancel c = { .id = id };

	return hwt_ioctl(fd, HWTIMER_IOC_CANCEL, &c);
}

/* Read up to @n records: how many, or -errno. */
static int take(int fd, struct hwtimer_record *r, int n)
{
	ssize_t ret = read(fd, r, n * sizeof(*r));

	return ret < 0 ? -errno : ret / (ssize_t)sizeof(*r);
}

static struct hwtimer_stats stats(int fd)
{
	struct hwtimer_stats s;

	if (ioctl(fd, HWTIMER_IOC_STATS, &s))
		die("STATS");
	return s;
}

static void nonblock(int fd)
{
	if (fcntl(fd, F_SETFL, O_NONBLOCK))
		die("fcntl");
}

TEST_F(calls, expires_once)
{
	__u64 begin = now_ns(), id = schedule(self->fd, 20 * NSEC_PER_MSEC, 7);
	struct hwtimer_record r[2];

	ASSERT_EQ(1, take(self->fd, r, 2));
	ASSERT_EQ(id, r[0].id);
	ASSERT_EQ(7, r[0].user_data);
	ASSERT_EQ(HWTIMER_KIND_EXPIRED, r[0].kind);
	ASSERT_EQ(0, r[0].overruns);
	ASSERT_LE(begin + 20 * NSEC_PER_MSEC, r[0].deadline_ns);
	ASSERT_LE(r[0].deadline_ns, r[0].taken_ns);
	ASSERT_LE(r[0].taken_ns, now_ns());
	nonblock(self->fd);
	ASSERT_EQ(-EAGAIN, take(self->fd, r, 2));
	ASSERT_EQ(-ENOENT, cancel(self->fd, id));
	ASSERT_EQ(-ENOENT, touch(self->fd, id, 0));
	ASSERT_EQ(0, stats(self->fd).pending);
	ASSERT_EQ(1, stats(self->fd).records);
}

/* Even if the reader is late, and all has been due for long. */
TEST_F(calls, order_of_ticks)
{
	struct hwtimer_record r[300];
	int i, n = 0, got;
	__u64 last = 0;

	for (i = 0; i < 300; i++)
		schedule(self->fd, (i * 37) % 300 * 3 * NSEC_PER_MSEC, i);
	wait_until(now_ns() + NSEC_PER_SEC);
	for (; n < 300; n += got) {
		got = take(self->fd, r, 300);
		ASSERT_LT(0, got);
		for (i = 0; i < got; i++) {
			ASSERT_LE(last, r[i].deadline_ns + 2 * NSEC_PER_MSEC);
			last = r[i].deadline_ns;
		}
	}
	ASSERT_EQ(0, stats(self->fd).pending);
}

TEST_F(calls, cancelled_and_moved)
{
	__u64 early = schedule(self->fd, 10 * NSEC_PER_MSEC, 1);
	__u64 moved = schedule(self->fd, 20 * NSEC_PER_MSEC, 2);
	__u64 far = schedule(self->fd, FAR, 3);
	struct hwtimer_query q = { .id = far };
	struct hwtimer_record r[4];

	ASSERT_EQ(0, cancel(self->fd, early));
	ASSERT_EQ(-ENOENT, cancel(self->fd, early));
	ASSERT_EQ(0, touch(self->fd, moved, FAR));
	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_QUERY, &q));
	ASSERT_EQ(3, q.user_data);
	ASSERT_EQ(0, q.period_ns);
	ASSERT_LT(now_ns(), q.deadline_ns);
	ASSERT_EQ(0, touch(self->fd, far, 50 * NSEC_PER_MSEC));
	ASSERT_EQ(1, take(self->fd, r, 4));
	ASSERT_EQ(far, r[0].id);
	q.id = early;
	ASSERT_EQ(-ENOENT, hwt_ioctl(self->fd, HWTIMER_IOC_QUERY, &q));
	ASSERT_EQ(1, stats(self->fd).pending);
}

/* What is due and was not read can still be cancelled and moved. */
TEST_F(calls, due_and_not_taken)
{
	__u64 a = schedule(self->fd, 0, 1), b = schedule(self->fd, 0, 2);
	__u64 c = schedule(self->fd, 0, 3);
	struct hwtimer_record r[4];

	ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
	wait_until(now_ns() + 3 * NSEC_PER_MSEC);
	ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
	ASSERT_EQ(3, stats(self->fd).pending);
	ASSERT_EQ(0, cancel(self->fd, a));
	ASSERT_EQ(0, touch(self->fd, b, FAR));
	ASSERT_EQ(1, take(self->fd, r, 4));
	ASSERT_EQ(c, r[0].id);
	ASSERT_EQ(0, poll_in(self->fd, 0));
	ASSERT_EQ(0, cancel(self->fd, b));
}

/* Nobody is woken for what was cancelled or moved, and nothing is left to wake for. */
TEST_F(calls, wakes_for_nothing)
{
	__u64 ids[100], timers;
	struct hwtimer_record r;
	int i, ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN }, got;

	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->fd, &event));
	for (i = 0; i < 100; i++)
		ids[i] = schedule(self->fd, 20 * NSEC_PER_MSEC, i);
	for (i = 0; i < 100; i += 2)
		ASSERT_EQ(0, cancel(self->fd, ids[i]));
	for (; i > 0; i -= 2)
		ASSERT_EQ(0, touch(self->fd, ids[i - 1], FAR));
	schedule(self->fd, 60 * NSEC_PER_MSEC, 100);
	ASSERT_EQ(1, epoll_wait(ep, &got, 1, -1));
	ASSERT_EQ(1, take(self->fd, &r, 1));
	ASSERT_EQ(100, r.user_data);
	timers = stats(self->fd).timers;
	ASSERT_LE(1, timers);
	ASSERT_GE(10, timers);
	close(ep);
}

TEST_F(calls, edge_triggered)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET }, got;
	int i, inner = epoll_create1(EPOLL_CLOEXEC), outer = epoll_create1(EPOLL_CLOEXEC);
	struct hwtimer_record r[8];

	ASSERT_EQ(0, epoll_ctl(inner, EPOLL_CTL_ADD, self->fd, &event));
	ASSERT_EQ(0, epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event));
	/* Nothing is read: each expiry is an edge all the same, through both sets. */
	for (i = 0; i < 5; i++) {
		schedule(self->fd, 3 * NSEC_PER_MSEC, i);
		ASSERT_EQ(1, epoll_wait(outer, &got, 1, -1));
		ASSERT_EQ(1, epoll_wait(inner, &got, 1, -1));
	}
	ASSERT_EQ(5, take(self->fd, r, 8));
	close(inner);
	close(outer);
}

/* What is past is due at the next tick, not before: the timer goes off once. */
TEST_F(calls, past)
{
	struct hwtimer_schedule s = { };
	struct hwtimer_record r;
	int i;

	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
		ASSERT_EQ(1, take(self->fd, &r, 1));
		ASSERT_EQ(s.id, r.id);
	}
	ASSERT_GE(50, stats(self->fd).timers);
}

/* Whoever polls without asking for input does no work for others. */
TEST_F(calls, stranger)
{
	struct pollfd p = { .fd = self->fd, .events = POLLERR };
	__u64 before;

	schedule(self->fd, 0, 1);
	wait_until(now_ns() + 5 * NSEC_PER_MSEC);
	before = stats(self->fd).runs;
	ASSERT_EQ(0, poll(&p, 1, 0));
	ASSERT_EQ(before, stats(self->fd).runs);
	ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
	ASSERT_LT(before, stats(self->fd).runs);
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

TEST_F(calls, period)
{
	struct hwtimer_record r;
	__u64 id, last = 0;
	int i;

	ASSERT_EQ(0, periodic(self->fd, 5, 0, HWTIMER_MISFIRE_MAKE_UP, &id));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(1, take(self->fd, &r, 1));
		ASSERT_EQ(id, r.id);
		ASSERT_EQ(0, r.overruns);
		if (last) {
			ASSERT_EQ(last + 5 * NSEC_PER_MSEC, r.deadline_ns);
		}
		last = r.deadline_ns;
	}
	ASSERT_EQ(0, cancel(self->fd, id));
	nonblock(self->fd);
	ASSERT_EQ(-EAGAIN, take(self->fd, &r, 1));
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
		ASSERT_EQ(1, take(self->fd, &first, 1));
		ASSERT_EQ(1, take(self->fd, &next, 1));
		if (policy == HWTIMER_MISFIRE_ONCE) {
			ASSERT_LE(4, first.overruns);
		} else {
			ASSERT_LE(5, first.overruns);
		}
		/* Each has the last deadline that it stands for. */
		ASSERT_EQ(first.deadline_ns + (1 + next.overruns) * 10 * NSEC_PER_MSEC,
			  next.deadline_ns);
		ASSERT_EQ(0, cancel(self->fd, id));
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
		n = take(self->fd, r, 64);
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

/* A timeout whose id cannot be copied does not stay: nobody could cancel it. */
TEST_F(calls, id_lost)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	struct hwtimer_schedule *s = must_mmap(page, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1);

	*s = (struct hwtimer_schedule){ .time = FAR, .flags = HWTIMER_RELATIVE };
	ASSERT_EQ(0, mprotect(s, page, PROT_READ));
	ASSERT_EQ(-EFAULT, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, s));
	ASSERT_EQ(0, stats(self->fd).pending);
}

/* A record that cannot be copied is not lost, and the timeout keeps its id. */
TEST_F(calls, fault)
{
	long page = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct hwtimer_record *r = (void *)(p + page - sizeof(*r)), again[4];
	__u64 a = schedule(self->fd, 0, 1);
	__u64 b;

	ASSERT_EQ(0, munmap(p + page, page));
	ASSERT_EQ(-EFAULT, take(self->fd, (void *)(p + page), 1));
	b = schedule(self->fd, 4 * NSEC_PER_MSEC, 2);
	wait_until(now_ns() + 10 * NSEC_PER_MSEC);
	ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
	ASSERT_EQ(1, take(self->fd, r, 2));
	ASSERT_EQ(a, r->id);
	ASSERT_EQ(1, take(self->fd, again, 4));
	ASSERT_EQ(b, again[0].id);
	munmap(p, page);
}

/* A read(2) whose memory is not there yet. */
struct slow {
	int fd, ret;
	struct hwtimer_record *to;
};

static void *read_slowly(void *arg)
{
	struct slow *s = arg;

	s->ret = take(s->fd, s->to, 2);
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
	ASSERT_EQ(0, cancel(self->fd, ended));
	ASSERT_EQ(-ENOENT, cancel(self->fd, ended));
	ASSERT_EQ(0, touch(self->fd, moved, FAR));
	/* Who does not want to wait does not wait for that, either. */
	nonblock(self->fd);
	ASSERT_EQ(-EAGAIN, take(self->fd, &r, 1));
	zero.range = range.range;
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
	pthread_join(thread, NULL);
	ASSERT_EQ(2, s.ret);
	wait_until(now_ns() + 20 * NSEC_PER_MSEC);
	ASSERT_EQ(-EAGAIN, take(self->fd, &r, 1));
	ASSERT_EQ(1, stats(self->fd).pending);
	ASSERT_EQ(0, cancel(self->fd, moved));
	close(uffd);
	munmap(s.to, page);
}

TEST_F(calls, stop)
{
	struct hwtimer_schedule refused = { };
	struct hwtimer_record r[8];
	int i, n, all = 0, seen = 0;
	__u64 id;

	for (i = 0; i < 100; i++)
		schedule(self->fd, i % 2 ? FAR : 0, i);
	ASSERT_EQ(0, periodic(self->fd, 50, 0, HWTIMER_MISFIRE_ONCE, &id));
	ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
	ASSERT_EQ(0, ioctl(self->fd, HWTIMER_IOC_STOP));
	ASSERT_EQ(0, ioctl(self->fd, HWTIMER_IOC_STOP));
	ASSERT_EQ(POLLIN | POLLHUP, poll_in(self->fd, -1));
	while ((n = take(self->fd, r, 8)) > 0)
		for (i = 0; i < n; i++, all++) {
			ASSERT_EQ(HWTIMER_KIND_HANDED_BACK, r[i].kind);
			seen += r[i].id == id;
		}
	ASSERT_EQ(0, n);
	ASSERT_EQ(101, all);
	ASSERT_EQ(1, seen);
	ASSERT_EQ(POLLHUP, poll_in(self->fd, -1));
	ASSERT_EQ(0, stats(self->fd).pending);
	ASSERT_EQ(-ESHUTDOWN, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &refused));
}

static void *stop_soon(void *arg)
{
	int fd = *(int *)arg;

	wait_until(now_ns() + 10 * NSEC_PER_MSEC);
	if (ioctl(fd, HWTIMER_IOC_STOP))
		die("STOP");
	return NULL;
}

TEST_F(calls, stop_ends_read)
{
	struct hwtimer_record r;
	pthread_t thread;
	__u64 id = schedule(self->fd, FAR, 0);

	ASSERT_EQ(0, pthread_create(&thread, NULL, stop_soon, &self->fd));
	ASSERT_EQ(1, take(self->fd, &r, 1));
	ASSERT_EQ(id, r.id);
	ASSERT_EQ(0, take(self->fd, &r, 1));
	pthread_join(thread, NULL);
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
	ASSERT_EQ(0, cancel(self->fd, s.id));
	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
}

/* Many pages of entries; ids are never the same. */
TEST_F(calls, many)
{
	const int n = quick_or(20000, 1000000);
	__u64 *ids = calloc(n, sizeof(*ids));
	int i;

	for (i = 0; i < n; i++)
		ids[i] = schedule(self->fd, FAR + i, i);
	ASSERT_EQ(n, stats(self->fd).pending);
	for (i = 0; i < n; i += 2) {
		ASSERT_EQ(0, cancel(self->fd, ids[i]));
		ASSERT_NE(ids[i], schedule(self->fd, FAR, i));
		ASSERT_EQ(-ENOENT, cancel(self->fd, ids[i]));
	}
	for (i = 1; i < n; i += 2)
		ASSERT_EQ(0, touch(self->fd, ids[i], FAR * 2));
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
	ASSERT_EQ(-ENXIO, take(self->fd, &r, 1));
	ASSERT_EQ(0, poll_in(self->fd, 0));
	ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &setup));
	/* A tick is a multiple of 65,536 ns, the slack a number of 2^n - 1 ticks. */
	ASSERT_EQ(16 * 65536, setup.tick_ns);
	ASSERT_EQ(31 * setup.tick_ns, setup.slack_ns);
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
		schedule(self->fd, i * NSEC_PER_MSEC, i);
	for (; n < 100; n += got) {
		got = take(self->fd, &r[n], 100 - n);
		ASSERT_LT(0, got);
	}
	/* 100 ms are 95 ticks, which are at most four periods of 64 ticks or parts of these. */
	ASSERT_GE(8, stats(self->fd).timers);
}

/* Arguments that are wrong, and those of other versions. */
TEST_F(calls, misuse)
{
	struct hwtimer_setup bad[] = {
		{ .clockid = CLOCK_REALTIME },
		{ .clockid = CLOCK_MONOTONIC, .flags = 2 },
		{ .clockid = CLOCK_MONOTONIC, .pad = 1 },
		{ .clockid = CLOCK_MONOTONIC, .tick_ns = 131071 },
		{ .clockid = CLOCK_MONOTONIC, .tick_ns = 10000000001 },
		{ .clockid = CLOCK_MONOTONIC, .slack_ns = (1ULL << 40) + 1 },
		{ .clockid = CLOCK_MONOTONIC, .slots = HWTIMER_MAX_SLOTS + 1 },
	};
	struct hwtimer_schedule wrong[] = {
		{ .flags = 2 },
		{ .period_ns = 10000000, .policy = 3 },
		{ .policy = HWTIMER_MISFIRE_SKIP },
		{ .misfire_ns = 1000000 },
		{ .period_ns = 1000 },
		{ .period_ns = 10000000, .misfire_ns = 1000 },
	};
	struct hwtimer_touch bits = { .flags = 2 }, pad = { .pad = 2 };
	struct { struct hwtimer_cancel c; __u64 more; } longer = { { 1 }, 0 };
	unsigned int i;
	char byte;
	int ro;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		ASSERT_EQ(-EINVAL, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &bad[i]));
	for (i = 0; i < ARRAY_SIZE(wrong); i++)
		ASSERT_EQ(-EINVAL, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &wrong[i]));
	ASSERT_EQ(-EINVAL, hwt_ioctl(self->fd, HWTIMER_IOC_TOUCH, &bits));
	ASSERT_EQ(-EINVAL, hwt_ioctl(self->fd, HWTIMER_IOC_TOUCH, &pad));
	ASSERT_EQ(-EFAULT, hwt_ioctl(self->fd, HWTIMER_IOC_CANCEL, NULL));
	ASSERT_EQ(-ENOTTY, hwt_ioctl(self->fd, _IO(HWTIMER_IOC_MAGIC, 0x7f), NULL));
	ASSERT_EQ(-EINVAL, read(self->fd, &byte, 1) < 0 ? -errno : 0);
	ASSERT_EQ(-EOPNOTSUPP, hwt_ioctl(self->fd, HWTIMER_IOC_ENTER, NULL));
	ASSERT_EQ(-EOPNOTSUPP, hwt_ioctl(self->fd, HWTIMER_IOC_GROW, &(struct hwtimer_grow){ }));
	ASSERT_EQ(-ENOENT, cancel(self->fd, 0));
	ASSERT_EQ(-ENOENT, cancel(self->fd, ~0ULL));
	ASSERT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, self->fd, 0));

	/* A newer program has a longer structure: what is not known here has to be 0. */
	ASSERT_EQ(-ENOENT, hwt_ioctl(self->fd, _IOW(HWTIMER_IOC_MAGIC, 0x13, longer), &longer));
	longer.more = 1;
	ASSERT_EQ(-E2BIG, hwt_ioctl(self->fd, _IOW(HWTIMER_IOC_MAGIC, 0x13, longer), &longer));
	ASSERT_EQ(-EINVAL, hwt_ioctl(self->fd, _IOW(HWTIMER_IOC_MAGIC, 0x13, __u32), &longer));

	ro = open("/dev/hwtimer-table", O_RDONLY | O_CLOEXEC);
	ASSERT_EQ(-EBADF, hwt_ioctl(ro, HWTIMER_IOC_SCHEDULE, &wrong[0]));
	close(ro);
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
	ASSERT_EQ(1, take(self->fd, &r, 1));
	ASSERT_EQ(1, r.user_data);
	ASSERT_EQ(2 * ARRAY_SIZE(times), stats(self->fd).pending);
}

/* The clock is that of the time namespace, also if it is CLOCK_BOOTTIME. */
TEST_F(calls, boottime_namespace)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_BOOTTIME };
	struct hwtimer_record r;
	struct timespec ts;
	pid_t pid;

	if (!unshare_time("monotonic 1000 0\nboottime 1000000 0"))
		SKIP(return, "no time namespaces");
	pid = fork();
	if (!pid) {
		clock_gettime(CLOCK_BOOTTIME, &ts);
		if (hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, &setup))
			_exit(1);
		schedule(self->fd, 0, 0);
		if (take(self->fd, &r, 1) != 1)
			_exit(2);
		_exit(r.taken_ns < ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec ? 3 : 0);
	}
	ASSERT_EQ(0, reap(pid));
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
	*fd = open("/dev/hwtimer-table", O_RDWR | O_CLOEXEC);
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
	const char map[] = "0 1001 1\n1 1002 1\n";
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
		fd = open("/dev/hwtimer-table", O_RDWR | O_CLOEXEC);
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

	ASSERT_EQ(0, chmod("/dev/hwtimer-table", 0666));
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
	ASSERT_EQ(0, chmod("/dev/hwtimer-table", 0600));
	close(fd[0]);
	close(fd[1]);
	close(fd[2]);
}

/* Whoever is another user in a namespace of this one has no share of his own. */
TEST_F(calls, subordinate)
{
	const char *const parameter = "/sys/module/hwtimer/parameters/max_memory";
	int fd;
	pid_t pid;

	if (access("/proc/self/ns/user", F_OK))
		SKIP(return, "no user namespaces");
	ASSERT_EQ(0, chmod("/dev/hwtimer-table", 0666));
	ASSERT_EQ(0, write_file(parameter, "1024"));
	ASSERT_LT(0, fill(USER, &fd));
	pid = fill_subordinate();
	ASSERT_EQ(0, reap(pid));
	ASSERT_EQ(0, write_file(parameter, "0"));
	ASSERT_EQ(0, chmod("/dev/hwtimer-table", 0600));
	close(fd);
}

TEST_HARNESS_MAIN
