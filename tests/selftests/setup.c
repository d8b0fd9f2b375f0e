// SPDX-License-Identifier: GPL-2.0-only
/*
 * HWTIMER_IOC_SETUP, the caps of contexts, and the quotas of users: each limit at n - 1, n and n +
 * 1, and each refusal with everything else valid.
 */
#include "cgroup.h"
#include "ring.h"
#include "users.h"

#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static const char *const parameters[] = {
	"max_user_timeouts", "max_user_wheels", "max_user_rate", "max_user_ring_kib", "min_tick_ns",
	"max_user_slots", "max_user_shared_wheels",
};

FIXTURE(context)
{
	int fd;
	__u64 values[ARRAY_SIZE(parameters)];
};

FIXTURE_SETUP(context)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(parameters); i++)
		self->values[i] = must_get_parameter(parameters[i]);
	make_node();
	self->fd = must_open(0);
}

FIXTURE_TEARDOWN(context)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(parameters); i++) {
		EXPECT_EQ(0, set_parameter(parameters[i], self->values[i]));
	}
	remove_node();
	close(self->fd);
}

static bool between(__u64 from, __u64 time, __u64 to)
{
	return from <= time && time <= to;
}

/* SETUP in a new context, as a second one in the same context returns -EBUSY. */
static int try_setup(struct hwtimer_setup setup)
{
	int fd = must_open(0);
	int ret = hwt_setup(fd, &setup);

	close(fd);
	return ret;
}

static const struct hwtimer_setup shared = { .clockid = CLOCK_MONOTONIC };
static const struct hwtimer_setup own = {
	.flags = HWTIMER_SETUP_OWN_WHEEL,
	.clockid = CLOCK_MONOTONIC,
	.tick_ns = NSEC_PER_MSEC,
	.slots = 64,
};

/* A valid setup with one field changed. */
#define setup_with(base, field, value) ({		\
	struct hwtimer_setup setup_ = base;		\
	setup_.field = (value);				\
	try_setup(setup_);				\
})

TEST_F(context, valid)
{
	EXPECT_EQ(0, try_setup(shared));
	EXPECT_EQ(0, try_setup(own));
}

TEST_F(context, own_wheel_answers)
{
	struct hwtimer_setup setup = own;
	char path[64];

	setup.tick_ns = 1234567;
	setup.slots = 5;
	setup.cap = 77;
	ASSERT_EQ(0, hwt_setup(self->fd, &setup));
	EXPECT_EQ(HWTIMER_SETUP_OWN_WHEEL, setup.flags);
	EXPECT_EQ(CLOCK_MONOTONIC, setup.clockid);
	EXPECT_EQ(1234567, setup.tick_ns);
	EXPECT_EQ(8, setup.slots);
	/* They reach 122 days; there are no more. */
	EXPECT_EQ(16, setup.levels);
	EXPECT_EQ(77, setup.cap);
	EXPECT_EQ(77, must_stats(self->fd).cap);
	snprintf(path, sizeof(path), "pid-%d", getpid());
	EXPECT_EQ(1234567, must_wheel_value(path, "tick_ns"));
	EXPECT_EQ(8, must_wheel_value(path, "slots"));
	must_schedule(self->fd, FAR, 0);
	EXPECT_EQ(1, must_wheel_value(path, "pending"));
}

TEST_F(context, clockid)
{
	static const __u32 clocks[] = {
		CLOCK_REALTIME, CLOCK_PROCESS_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
		CLOCK_BOOTTIME, CLOCK_TAI, 1 << 31 | CLOCK_MONOTONIC, ~0U,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		EXPECT_EQ(-EINVAL, setup_with(shared, clockid, clocks[i]))
			TH_LOG("clock %u", clocks[i]);
		if (clocks[i] == CLOCK_BOOTTIME || clocks[i] == CLOCK_REALTIME)
			continue;
		EXPECT_EQ(-EINVAL, setup_with(own, clockid, clocks[i]))
			TH_LOG("clock %u", clocks[i]);
	}
}

/* All times of the context are on its clock. Promise 12. */
TEST_F(context, boottime)
{
	struct hwtimer_setup setup = own;
	struct hwtimer_record record;
	__u64 before, now, deadline;

	setup.clockid = CLOCK_BOOTTIME;
	ASSERT_EQ(0, hwt_setup(self->fd, &setup));
	EXPECT_EQ(CLOCK_BOOTTIME, setup.clockid);
	EXPECT_EQ(CLOCK_BOOTTIME, must_fdinfo(self->fd, "clockid"));
	before = clock_ns(CLOCK_BOOTTIME);
	now = must_stats(self->fd).now;
	EXPECT_LE(before, now);
	EXPECT_LE(now, clock_ns(CLOCK_BOOTTIME));

	deadline = clock_ns(CLOCK_BOOTTIME) + 20 * NSEC_PER_MSEC;
	ASSERT_EQ(0, hwt_schedule(self->fd, 0, deadline, 1, NULL, NULL));
	ASSERT_EQ(sizeof(record), read(self->fd, &record, sizeof(record)));
	EXPECT_EQ(deadline, record.deadline);
	EXPECT_LE(deadline, record.fired);
	EXPECT_LE(record.fired, clock_ns(CLOCK_BOOTTIME));
}

/* All times of @fd, whose clock is @clock, are those of this task's clock_gettime(). */
static void expect_own_times(int fd, clockid_t clock)
{
	struct hwtimer_query q = { };
	struct hwtimer_list list = {
		.size = sizeof(q), .queries = (uintptr_t)&q, .count = 1,
	};
	__u64 before = clock_ns(clock), now = must_stats(fd).now, id, at, deadline;
	struct hwtimer_record rec;

	expect(1, between(before, now, clock_ns(clock)));
	at = before + FAR;
	expect(0, hwt_schedule(fd, 0, at, 1, &id, &deadline));
	expect(1, deadline == at);
	at += NSEC_PER_MSEC;
	expect(0, hwt_touch(fd, 0, id, at, &deadline));
	expect(1, deadline == at);
	expect(0, hwt_query(fd, id, NULL, &deadline));
	expect(1, deadline == at);
	expect(1, hwt_ioctl(fd, HWTIMER_IOC_LIST, &list));
	expect(1, q.deadline == at);
	at = clock_ns(clock) + 20 * NSEC_PER_MSEC;
	expect(0, hwt_touch(fd, 0, id, at, NULL));
	expect(1, hwt_collect(fd, &rec, 1));
	expect(1, rec.deadline == at && rec.last == at);
	expect(1, between(at, rec.fired, clock_ns(clock)));

	before = clock_ns(clock);
	expect(0, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 2, &id, &deadline));
	expect(1, between(before + FAR, deadline, clock_ns(clock) + FAR));
	expect(0, hwt_touch(fd, 0, id, HWTIMER_NEVER - 1, &deadline));
	expect(1, deadline == HWTIMER_NEVER);
	/* Before the start of the machine. */
	expect(0, hwt_schedule(fd, 0, 1, 3, NULL, NULL));
	expect(1, hwt_collect(fd, &rec, 1));
	expect(1, rec.user_data == 3 && rec.deadline <= before);
	before = clock_ns(clock);
	expect(0, hwt_stop(fd, NULL));
	expect(1, hwt_collect(fd, &rec, 1));
	expect(1, rec.kind == HWTIMER_KIND_HANDED_BACK && rec.deadline == HWTIMER_NEVER);
	expect(1, between(before, rec.fired, clock_ns(clock)));
	close(fd);
}

/* As above, for rings. */
static void expect_own_ring_times(void)
{
	struct ring *r = must_ring(must_open(0), 4, 4, 2);
	struct hwtimer_record rec;
	__u64 before = now_ns(), at = before + 20 * NSEC_PER_MSEC, deadline;

	must_arm(r, HWTIMER_ID(0, 1), at, 1);
	/* The clock's range, not that of another clock. */
	expect(1, between(before, ring_sleep_until(r), before + FAR));
	rec = must_ring_expire(r);
	expect(1, rec.deadline == at && between(at, rec.fired, now_ns()));
	before = now_ns();
	must_put(r, HWTIMER_OP_TOUCH, 0, HWTIMER_ID(1, 1), 7, 2);
	must_enter(r);
	expect(1, ring_collect(r, &rec, 1));
	expect(1, rec.kind == HWTIMER_KIND_FAILED && rec.deadline == 7);
	expect(1, between(before, rec.fired, now_ns()));
	must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(1, 1), before + FAR, 3);
	must_put(r, HWTIMER_OP_TOUCH, 0, HWTIMER_ID(1, 1), before + 2 * FAR, 0);
	expect(0, hwt_query(r->fd, HWTIMER_ID(1, 1), NULL, &deadline));
	expect(1, deadline == before + 2 * FAR);
	ring_close(r);
}

/* Times are those of the time namespace of the opener, or of the caller of SETUP. */
TEST_F(context, time_namespaces)
{
	/* Ahead, and behind: nobody can be born before the machine was started. */
	static const struct {
		const char *offsets;
		__s64 monotonic;
	} cases[] = {
		{ "monotonic 100000 123456789\nboottime 7 1\n", 100000123456789 },
		{ "monotonic -1 500000000\nboottime -1 0\n", -500000000 },
	};
	struct hwtimer_setup boot = own, monotonic = shared;
	unsigned int i;
	int inherited;

	boot.clockid = CLOCK_BOOTTIME;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		inherited = must_open(0);
		/* For the children from now on. */
		if (!unshare_time(cases[i].offsets))
			SKIP(return, "no time namespaces");
		in_child(must_fork()) {
			int fd = must_open(0);
			__u64 before = now_ns() - cases[i].monotonic, now;

			/* The parent's descriptor has the parent's clock. */
			now = must_stats(self->fd).now;
			expect(1, between(before, now, now_ns() - cases[i].monotonic));
			expect_own_times(must_open(0), CLOCK_MONOTONIC);
			expect_own_ring_times();
			expect(0, hwt_setup(fd, &boot));
			expect_own_times(fd, CLOCK_BOOTTIME);
			expect(0, hwt_setup(inherited, &monotonic));
			expect_own_times(inherited, CLOCK_MONOTONIC);
		}
		close(inherited);
	}
}

TEST_F(context, levels)
{
	struct hwtimer_setup setup = own;

	EXPECT_EQ(0, setup_with(shared, levels, 0));
	EXPECT_EQ(-EINVAL, setup_with(shared, levels, 1));
	EXPECT_EQ(-EINVAL, setup_with(shared, levels, ~0U));
	EXPECT_EQ(0, setup_with(own, levels, 0));
	EXPECT_EQ(0, setup_with(own, levels, 1));
	EXPECT_EQ(0, setup_with(own, levels, 2));
	/* 64 slots of 1 ms: 8 levels reach 69 years, and 2^60 ns are 36 */
	EXPECT_EQ(0, setup_with(own, levels, 8));
	EXPECT_EQ(-EINVAL, setup_with(own, levels, 9));
	setup.slots = 4;
	EXPECT_EQ(0, setup_with(setup, levels, 16));
	EXPECT_EQ(-EINVAL, setup_with(setup, levels, 17));
	EXPECT_EQ(-EINVAL, setup_with(setup, levels, ~0U));
	setup.slots = 2;
	EXPECT_EQ(0, setup_with(setup, levels, 1));
	EXPECT_EQ(-EINVAL, setup_with(setup, levels, 2));

	setup.slots = 64;
	setup.levels = 3;
	ASSERT_EQ(0, hwt_setup(self->fd, &setup));
	EXPECT_EQ(3, setup.levels);
	EXPECT_EQ(3, must_fdinfo(self->fd, "levels"));
}

/* The parameters of a shared wheel cannot be chosen. */
TEST_F(context, shared_wheel_is_given)
{
	EXPECT_EQ(-EINVAL, setup_with(shared, tick_ns, 1));
	EXPECT_EQ(-EINVAL, setup_with(shared, tick_ns, must_get_parameter("tick_ns")));
	EXPECT_EQ(-EINVAL, setup_with(shared, slots, 1));
	EXPECT_EQ(-EINVAL, setup_with(shared, slots, must_get_parameter("slots")));
}

TEST_F(context, slots)
{
	EXPECT_EQ(-EINVAL, setup_with(own, slots, 0));
	EXPECT_EQ(0, setup_with(own, slots, 1));
	EXPECT_EQ(0, setup_with(own, slots, 2));
	EXPECT_EQ(0, setup_with(own, slots, 65536));
	EXPECT_EQ(-EINVAL, setup_with(own, slots, 65537));
	EXPECT_EQ(-EINVAL, setup_with(own, slots, ~0U));
}

TEST_F(context, tick)
{
	EXPECT_EQ(-EINVAL, setup_with(own, tick_ns, 0));
	EXPECT_EQ(0, setup_with(own, tick_ns, NSEC_PER_SEC));
	EXPECT_EQ(-EINVAL, setup_with(own, tick_ns, ~0ULL));
}

TEST_F(context, a_round)
{
	struct hwtimer_setup setup = own;
	int bits;

	/* The limit is on the product of slots and tick: 2^60 - 1. */
	for (bits = 0; bits <= 10; bits += 5) {
		setup.slots = 1U << bits;
		EXPECT_EQ(0, setup_with(setup, tick_ns, (1ULL << (60 - bits)) - 1))
			TH_LOG("2^%d slots", bits);
		EXPECT_EQ(-EINVAL, setup_with(setup, tick_ns, 1ULL << (60 - bits)))
			TH_LOG("2^%d slots", bits);
		EXPECT_EQ(-EINVAL, setup_with(setup, tick_ns, 1ULL << 63))
			TH_LOG("2^%d slots", bits);
		/* Products that overflow to 0 in 64 bits. */
		EXPECT_EQ(-EINVAL, setup_with(setup, tick_ns,
					      bits ? 1ULL << (64 - bits) : ~0ULL))
			TH_LOG("2^%d slots", bits);
	}
}

TEST_F(context, cap_range)
{
	EXPECT_EQ(0, setup_with(shared, cap, 0));
	EXPECT_EQ(0, setup_with(shared, cap, 1));
	EXPECT_EQ(0, setup_with(shared, cap, (1ULL << 24) - 1));
	EXPECT_EQ(0, setup_with(shared, cap, 1ULL << 24));
	EXPECT_EQ(-EINVAL, setup_with(shared, cap, (1ULL << 24) + 1));
	EXPECT_EQ(-EINVAL, setup_with(shared, cap, 1ULL << 32));
	EXPECT_EQ(-EINVAL, setup_with(shared, cap, ~0ULL));
	EXPECT_EQ(0, setup_with(own, cap, 1ULL << 24));
	EXPECT_EQ(-EINVAL, setup_with(own, cap, (1ULL << 24) + 1));
}

/* A refused setup leaves the context as it was: a good one can follow. */
TEST_F(context, refused_then_granted)
{
	struct hwtimer_setup bad = own, good = own;

	bad.slots = 0;
	ASSERT_EQ(-EINVAL, hwt_setup(self->fd, &bad));
	bad = own;
	bad.clockid = CLOCK_MONOTONIC_RAW;
	ASSERT_EQ(-EINVAL, hwt_setup(self->fd, &bad));
	EXPECT_EQ(0, hwt_setup(self->fd, &good));
}

/* SETUP works once, and before the first SCHEDULE. */
TEST_F(context, busy)
{
	struct hwtimer_schedule bad = { .time = FAR, .period = NSEC_PER_SEC, .policy = ~0U };
	struct hwtimer_setup setup = shared;
	int fd;

	ASSERT_EQ(0, hwt_setup(self->fd, &setup));
	setup = shared;
	EXPECT_EQ(-EBUSY, hwt_setup(self->fd, &setup));
	setup = own;
	EXPECT_EQ(-EBUSY, hwt_setup(self->fd, &setup));

	fd = must_open(0);
	setup = own;
	ASSERT_EQ(0, hwt_setup(fd, &setup));
	setup = shared;
	EXPECT_EQ(-EBUSY, hwt_setup(fd, &setup));
	close(fd);

	fd = must_open(0);
	ASSERT_EQ(0, hwt_cancel(fd, must_schedule(fd, FAR, 0)));
	setup = shared;
	EXPECT_EQ(-EBUSY, hwt_setup(fd, &setup));
	close(fd);

	/* Calls that need no wheel do not settle it, and a SCHEDULE that is not valid does not. */
	fd = must_open(0);
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &bad));
	must_stats(fd);
	EXPECT_EQ(-ENOENT, hwt_query(fd, 1, NULL, NULL));
	EXPECT_EQ(-ENOENT, hwt_cancel(fd, 1));
	EXPECT_EQ(0, poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0));
	setup = own;
	EXPECT_EQ(0, hwt_setup(fd, &setup));
	close(fd);
}

TEST_F(context, stopped)
{
	struct hwtimer_setup setup = shared;

	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	EXPECT_EQ(-ESHUTDOWN, hwt_setup(self->fd, &setup));
	setup = own;
	EXPECT_EQ(-ESHUTDOWN, hwt_setup(self->fd, &setup));
}

/* Threads that race a setup against a setup or a schedule: one wins. */
struct contest {
	int fd;
	bool own;
	atomic_int *go;
	int ret;
	__u64 cap;
};

static void *contend_setup(void *arg)
{
	struct contest *c = arg;
	struct hwtimer_setup setup = c->own ? own : shared;

	setup.cap = c->cap;
	while (!atomic_load(c->go))
		;
	c->ret = hwt_setup(c->fd, &setup);
	return NULL;
}

static void *contend_schedule(void *arg)
{
	struct contest *c = arg;

	while (!atomic_load(c->go))
		;
	c->ret = hwt_schedule(c->fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL);
	return NULL;
}

TEST_F(context, setup_against_setup)
{
	int rounds = quick_or(40, 100), i, winner;

	for (i = 0; i < rounds; i++) {
		atomic_int go = 0;
		struct contest c[2] = {
			{ must_open(0), i & 1, &go, 1, 5 }, { 0, i & 2, &go, 1, 6 },
		};
		pthread_t threads[2];

		c[1].fd = c[0].fd;
		start(&threads[0], contend_setup, &c[0]);
		start(&threads[1], contend_setup, &c[1]);
		atomic_store(&go, 1);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		winner = c[0].ret ? 1 : 0;
		ASSERT_EQ(0, c[winner].ret);
		ASSERT_EQ(-EBUSY, c[!winner].ret);
		ASSERT_EQ(5 + winner, must_stats(c[0].fd).cap);
		close(c[0].fd);
	}
}

TEST_F(context, setup_against_schedule)
{
	int rounds = quick_or(60, 200), i;

	for (i = 0; i < rounds; i++) {
		atomic_int go = 0;
		struct contest c[2] = {
			{ must_open(0), i & 1, &go, 1, 5 }, { 0, 0, &go, 1, 0 },
		};
		pthread_t threads[2];
		struct hwtimer_stats s;

		c[1].fd = c[0].fd;
		start(&threads[0], contend_setup, &c[0]);
		start(&threads[1], contend_schedule, &c[1]);
		atomic_store(&go, 1);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		ASSERT_EQ(0, c[1].ret);
		s = must_stats(c[0].fd);
		ASSERT_EQ(1, s.pending);
		if (c[0].ret) {
			ASSERT_EQ(-EBUSY, c[0].ret);
			ASSERT_NE(5, s.cap);
		} else {
			ASSERT_EQ(5, s.cap);
		}
		close(c[0].fd);
	}
}

/* The cap is exact, and counts unread timeouts. Promise 9. */
TEST_F(context, cap)
{
	static const unsigned int caps[] = { 1, 2, 3, 100 };
	struct hwtimer_record rec[100];
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(caps); i++) {
		struct hwtimer_setup setup = i & 1 ? own : shared;
		unsigned int cap = caps[i];
		int fd = must_open(0);
		__u64 ids[100];

		setup.cap = cap;
		ASSERT_EQ(0, hwt_setup(fd, &setup));
		EXPECT_EQ(cap, setup.cap);
		for (k = 0; k < cap; k++)
			ids[k] = must_schedule(fd, FAR, k);
		EXPECT_EQ(-EAGAIN, hwt_schedule(fd, HWTIMER_RELATIVE, 0, 0, NULL, NULL));
		EXPECT_EQ(-EAGAIN, hwt_schedule(fd, HWTIMER_RELATIVE, 0, 0, NULL, NULL));
		EXPECT_STATS(fd, .scheduled = cap, .rejected = 2, .pending = cap);
		/* A touch needs no room. */
		EXPECT_EQ(0, hwt_touch(fd, HWTIMER_RELATIVE, ids[0], FAR, NULL));
		/* A cancel makes room at once. */
		ASSERT_EQ(0, hwt_cancel(fd, ids[0]));
		ids[0] = must_schedule(fd, FAR, 0);
		EXPECT_EQ(-EAGAIN, hwt_schedule(fd, HWTIMER_RELATIVE, 0, 0, NULL, NULL));
		/* An expiry does not, reading it does. */
		ASSERT_EQ(0, hwt_touch(fd, HWTIMER_RELATIVE, ids[0], 0, NULL));
		eventually(must_stats(fd).unread == 1);
		EXPECT_EQ(-EAGAIN, hwt_schedule(fd, HWTIMER_RELATIVE, 0, 0, NULL, NULL));
		ASSERT_EQ(1, hwt_read(fd, rec, 1));
		ids[0] = must_schedule(fd, 0, 0);
		eventually(must_stats(fd).unread == 1);
		EXPECT_EQ(-EAGAIN, hwt_schedule(fd, HWTIMER_RELATIVE, 0, 0, NULL, NULL));
		ASSERT_EQ(1, hwt_read(fd, rec, 1));
		EXPECT_EQ(cap - 1, must_stats(fd).pending);
		close(fd);
	}
}

/* Two threads share a cap of one: never two timeouts, and never a failure with room left. */
static void *one_place(void *arg)
{
	int fd = *(int *)arg, i, ret;
	__u64 id;

	for (i = 0; i < 5000; i++) {
		ret = hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, &id, NULL);
		if (ret == -EAGAIN)
			continue;
		if (ret)
			return (void *)(long)ret;
		if (must_stats(fd).pending > 1)
			return (void *)1L;
		ret = hwt_cancel(fd, id);
		if (ret)
			return (void *)(long)ret;
	}
	return NULL;
}

TEST_F(context, cap_of_one_by_two)
{
	struct hwtimer_setup setup = shared;
	pthread_t threads[2];
	struct hwtimer_stats s;
	void *ret;
	int i;

	setup.cap = 1;
	ASSERT_EQ(0, hwt_setup(self->fd, &setup));
	for (i = 0; i < 2; i++)
		start(&threads[i], one_place, &self->fd);
	for (i = 0; i < 2; i++) {
		pthread_join(threads[i], &ret);
		EXPECT_EQ(NULL, ret);
	}
	s = must_stats(self->fd);
	EXPECT_EQ(0, s.pending);
	EXPECT_EQ(10000, s.scheduled + s.rejected);
	EXPECT_EQ(s.scheduled, s.cancelled);
}

static void drop_capability(int capability)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		die("capget");
	data[capability / 32].effective &= ~(1U << capability % 32);
	data[capability / 32].permitted &= ~(1U << capability % 32);
	data[capability / 32].inheritable &= ~(1U << capability % 32);
	if (syscall(SYS_capset, &header, data))
		die("capset");
}

/* As try_setup(), with the rights of the current process. */
static int try_setup_here(struct hwtimer_setup setup)
{
	int fd = open_node(), ret = hwt_setup(fd, &setup);

	close(fd);
	return ret;
}

/* For min_tick_ns=500000 max_user_slots=256. */
static void check_limits_of_own_wheels(int refusal)
{
	const __u64 min_tick = 500000, max_slots = 256;
	struct hwtimer_setup setup;

	setup = own;
	setup.tick_ns = min_tick + 1;
	expect(0, try_setup_here(setup));
	setup.tick_ns = min_tick;
	expect(0, try_setup_here(setup));
	setup.tick_ns = min_tick - 1;
	expect(refusal, try_setup_here(setup));
	setup.tick_ns = 1;
	expect(refusal, try_setup_here(setup));
	setup = own;
	setup.slots = max_slots - 1;
	expect(0, try_setup_here(setup));
	setup.slots = max_slots;
	expect(0, try_setup_here(setup));
	setup.slots = max_slots + 1;
	expect(refusal, try_setup_here(setup));
	/* Invalid values are refused for everybody. */
	setup.slots = 0;
	expect(-EINVAL, try_setup_here(setup));
	setup.slots = ~0U;
	expect(-EINVAL, try_setup_here(setup));
}

TEST_F(context, privileged_wheels)
{

	ASSERT_EQ(0, set_parameter("max_user_slots", 256));
	ASSERT_EQ(0, set_parameter("min_tick_ns", 500000));

	/* Root without the capability. */
	in_child(must_fork()) {
		drop_capability(CAP_SYS_RESOURCE);
		check_limits_of_own_wheels(-EPERM);
	}

	/* An ordinary user. */
	in_child(fork_as(USER_A))
		check_limits_of_own_wheels(-EPERM);

	/* A process with the capability has no limits. */
	in_child(must_fork())
		check_limits_of_own_wheels(0);
}

/* For max_user_timeouts=10, by a user without timeouts. */
static void check_limit_of_timeouts(void)
{
	struct hwtimer_record rec;
	struct hwtimer_stats s;
	int fd = open_node(), other = open_node(), i;
	__u64 ids[10], id;

	/* The limit is for both contexts together. */
	for (i = 0; i < 10; i++)
		ids[i] = must_schedule(i & 1 ? fd : other, FAR, i);
	expect(-EDQUOT, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, &id, NULL));
	expect(-EDQUOT, hwt_schedule(other, HWTIMER_RELATIVE, FAR, 0, &id, NULL));
	s = must_stats(fd);
	expect(5, s.pending);
	expect(5, s.scheduled);
	expect(1, s.rejected);
	expect(1, balanced(&s));
	/* A cancel makes room at once, in its own context only. */
	expect(0, hwt_cancel(fd, ids[1]));
	expect(-EDQUOT, hwt_schedule(other, HWTIMER_RELATIVE, FAR, 0, &id, NULL));
	expect(0, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
	expect(-EDQUOT, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
	/* Unread timeouts count. */
	expect(0, hwt_touch(fd, HWTIMER_RELATIVE, ids[3], 0, NULL));
	eventually(must_stats(fd).unread == 1);
	expect(-EDQUOT, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
	expect(1, hwt_read(fd, &rec, 1));
	expect(0, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
	expect(-EDQUOT, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
	/* A close makes room at once. */
	close(other);
	for (i = 0; i < 5; i++)
		must_schedule(fd, FAR, 0);
	expect(-EDQUOT, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
	/* A stopped context keeps its timeouts charged until it is closed. */
	expect(0, hwt_stop(fd, NULL));
	other = open_node();
	expect(1, hwt_read(fd, &rec, 1));
	expect(-EDQUOT, hwt_schedule(other, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
	close(fd);
	for (i = 0; i < 10; i++)
		must_schedule(other, FAR, 0);
	expect(-EDQUOT, hwt_schedule(other, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
}

/* Timeouts are charged to the opener; whether the limit applies depends on the caller. */
TEST_F(context, user_timeouts)
{
	int i;

	ASSERT_EQ(0, set_parameter("max_user_timeouts", 10));
	in_child(fork_as(USER_A))
		check_limit_of_timeouts();

	/* All is given back when the last process has exited. */
	in_child(fork_as(USER_A)) {
		int fd = open_node();

		for (i = 0; i < 10; i++)
			must_schedule(fd, FAR, i);
		expect(-EDQUOT, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
	}

	/* Root with the capability may exceed it. */
	for (i = 0; i < 20; i++)
		must_schedule(self->fd, FAR, i);
	EXPECT_EQ(20, must_fdinfo(self->fd, "user_timeouts"));
	/* Without the capability, root is limited as other users are. */
	in_child(must_fork()) {
		drop_capability(CAP_SYS_RESOURCE);
		expect(-EDQUOT, hwt_schedule(self->fd, HWTIMER_RELATIVE, FAR, 0, NULL,
					     NULL));
	}
}

static int try_rings(int fd, __u32 slots)
{
	struct hwtimer_rings params = { .sq_entries = 4, .timeouts = slots };

	return hwt_rings(fd, &params);
}

/* Slots count whether used or not, until the context is closed. */
TEST_F(context, user_rings)
{

	ASSERT_EQ(0, set_parameter("max_user_timeouts", 10));
	in_child(fork_as(USER_A)) {
		int fd = open_node(), other = open_node(), third;

		expect(-EDQUOT, try_rings(fd, 11));
		expect(-EDQUOT, try_rings(fd, 1 << 24));
		expect(0, must_fdinfo(fd, "user_timeouts"));
		expect(0, try_rings(fd, 9));
		expect(9, must_fdinfo(fd, "user_timeouts"));
		expect(-EDQUOT, try_rings(other, 2));
		expect(0, try_rings(other, 1));
		third = open_node();
		expect(-EDQUOT, try_rings(third, 1));
		expect(-EDQUOT, hwt_schedule(third, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
		/* A refused call succeeds once there is room. */
		close(fd);
		eventually(must_fdinfo(other, "user_timeouts") == 1);
		fd = open_node();
		expect(0, try_rings(fd, 9));
		/* A mapping keeps the context as a descriptor does. */
		if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
			die("mmap: %s", strerror(errno));
		close(fd);
		expect(10, must_fdinfo(other, "user_timeouts"));
		fd = open_node();
		expect(-EDQUOT, try_rings(fd, 1));
	}

	/* With the capability, the limit may be exceeded. */
	EXPECT_EQ(0, try_rings(self->fd, 100));
	/* Everything was given back. */
	in_child(fork_as(USER_A))
		expect(0, try_rings(open_node(), 10));
}

/* The memory of rings has a limit of its own. */
TEST_F(context, user_ring_memory)
{
	struct hwtimer_rings large = { .sq_entries = 512, .timeouts = 1 };	/* 52 KiB */
	struct hwtimer_rings larger = {
		.sq_entries = 512, .timeouts = 1, .sqe_size = 64, .record_size = 128,
	};									/* 100 KiB */

	ASSERT_EQ(0, set_parameter("max_user_ring_kib", 110));
	in_child(fork_as(USER_A)) {
		int fds[3] = { open_node(), open_node(), open_node() };

		expect(0, hwt_rings(fds[0], &large));
		expect(52, must_fdinfo(fds[0], "user_ring_kib"));
		expect(110, must_fdinfo(fds[0], "max_user_ring_kib"));
		expect(0, hwt_rings(fds[1], &large));
		expect(-EDQUOT, hwt_rings(fds[2], &large));
		expect(104, must_fdinfo(fds[2], "user_ring_kib"));
		expect(2, must_fdinfo(fds[2], "user_timeouts"));
		expect(0, try_rings(fds[2], 1));
		expect(108, must_fdinfo(fds[2], "user_ring_kib"));
		/* A close makes room. */
		close(fds[0]);
		expect(0, hwt_rings(open_node(), &large));
		close(fds[1]);
		close(fds[2]);
	}
	in_child(fork_as(USER_B)) {
		int fd = open_node();

		expect(0, hwt_rings(fd, &larger));
		expect(100, must_fdinfo(fd, "user_ring_kib"));
	}
}

/* A closed context is charged until its memory is free. Promise 14. */
TEST_F(context, quota_follows_memory)
{
	enum { MANY = 100000 };
	__u64 after = 0;
	int i, round;

	for (round = 0; !after && round < 20; round++) {
		int fd = must_open(0);

		eventually(!must_fdinfo(self->fd, "user_timeouts"));
		for (i = 0; i < MANY; i++)
			must_schedule(fd, FAR, i);
		close(fd);
		/* Freeing so many takes a while; retry if it was over before fdinfo was read. */
		after = must_fdinfo(self->fd, "user_timeouts");
	}
	EXPECT_LT(0, after);
	EXPECT_GE(MANY, after);
	eventually(!must_fdinfo(self->fd, "user_timeouts"));
}

static bool wheel_there(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/stats", name);
	return !access(path, F_OK);
}

static void write_map(pid_t pid, const char *file, const char *map)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, map, strlen(map)) != (ssize_t)strlen(map))
		die("%s: %s", path, strerror(errno));
	close(fd);
}

/* A process of USER_B in a user namespace of USER_A, which has five timeouts and waits. */
static pid_t subordinate(int answer, int *go)
{
	pid_t pid = must_fork();
	int fd, i;
	bool refused;
	char c;

	if (pid)
		return pid;
	close(go[1]);
	become(USER_A);
	if (unshare(CLONE_NEWUSER) || write(answer, "u", 1) != 1 || read(go[0], &c, 1) != 1)
		die("unshare: %s", strerror(errno));
	become(1);
	fd = open_node();
	/* Another one, for which the user is there already. */
	close(open_node());
	for (i = 0; i < 5; i++)
		must_schedule(fd, FAR, i);
	expect(5, must_fdinfo(fd, "user_timeouts"));
	expect(1, write(answer, "t", 1));
	/* What the owner of the namespace has no room for is not charged here, either. */
	expect(1, read(go[0], &c, 1));
	refused = hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL) == -EDQUOT &&
		  must_fdinfo(fd, "user_timeouts") == 5;
	expect(1, write(answer, refused ? "r" : "n", 1));
	pause();
	_exit(1);
}

/* Subordinate uids do not multiply a user's limits. Promise 14. */
TEST_F(context, user_namespaces)
{
	static const char map[] = "0 1001 1\n1 1002 1\n";
	int answer[2], go[2], i;
	pid_t child, other;
	char c;

	if (access("/proc/self/ns/user", F_OK))
		SKIP(return, "no user namespaces");
	eventually(!wheel_there("uid-1001"));
	ASSERT_EQ(0, set_parameter("max_user_timeouts", 10));
	ASSERT_EQ(0, pipe(answer));
	ASSERT_EQ(0, pipe(go));
	other = subordinate(answer[1], go);
	ASSERT_EQ(1, read(answer[0], &c, 1));
	write_map(other, "uid_map", map);
	write_map(other, "gid_map", map);
	ASSERT_EQ(1, write(go[1], "g", 1));
	ASSERT_EQ(1, read(answer[0], &c, 1));
	/* All of them use the worker of the namespace's owner. */
	EXPECT_EQ(5, must_wheel_value("uid-1001", "pending"));
	EXPECT_FALSE(wheel_there("uid-1002"));
	in_child(fork_as(USER_A)) {
		int fd = open_node();

		expect(5, must_fdinfo(fd, "user_timeouts"));
		for (i = 0; i < 5; i++)
			must_schedule(fd, FAR, i);
		expect(-EDQUOT, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
		expect(1, write(go[1], "g", 1));
		expect(1, read(answer[0], &c, 1));
		expect('r', c);
	}
	/* The same uid outside the namespace is another user. */
	in_child(fork_as(USER_B)) {
		int fd = open_node();

		for (i = 0; i < 10; i++)
			must_schedule(fd, FAR, i);
	}
	/* The owner, whose processes still run, gets back what they release. */
	child = fork_as(USER_A);
	if (!child) {
		int fd = open_node();

		expect(5, must_fdinfo(fd, "user_timeouts"));
		expect(1, write(answer[1], "r", 1));
		eventually(!must_fdinfo(fd, "user_timeouts"));
		_exit(0);
	}
	/* Nothing comes if the child finds something wrong. */
	ASSERT_EQ(1, poll(&(struct pollfd){ answer[0], POLLIN, 0 }, 1, PATIENCE / NSEC_PER_MSEC));
	must_kill(other);
	EXPECT_EQ(0, reap(child));
}

/* CAP_SYS_RESOURCE in a user namespace of the program, if the kernel has them, does not count. */
TEST_F(context, capable_in_user_namespace)
{
	ASSERT_EQ(0, set_parameter("max_user_timeouts", 1));
	in_child(fork_as(USER_A)) {
		int fd = open_node();

		unshare(CLONE_NEWUSER);
		must_schedule(fd, FAR, 0);
		expect(-EDQUOT, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
	}
}

TEST_F(context, user_wheels)
{

	ASSERT_EQ(0, set_parameter("max_user_wheels", 2));
	in_child(fork_as(USER_A)) {
		struct hwtimer_setup setup;
		int fds[3] = { open_node(), open_node(), open_node() };

		setup = own;
		expect(0, hwt_setup(fds[0], &setup));
		setup = own;
		expect(0, hwt_setup(fds[1], &setup));
		setup = own;
		expect(-EDQUOT, hwt_setup(fds[2], &setup));
		/* A refused or failed setup is not charged. */
		setup = own;
		expect(-EDQUOT, hwt_setup(fds[2], &setup));
		close(fds[0]);
		setup = own;
		setup.slots = 0;
		expect(-EINVAL, hwt_setup(fds[2], &setup));
		setup = own;
		setup.tick_ns = 1ULL << 59;
		expect(-EINVAL, hwt_setup(fds[2], &setup));
		setup = own;
		expect(0, hwt_setup(fds[2], &setup));
		/* The shared wheel is not limited. */
		expect(0, try_setup_here(shared));
		expect(-EDQUOT, try_setup_here(own));
	}
}

static int repeat_if(int fd, __u64 period, __u64 misfire, __u32 policy, __u64 *id)
{
	struct hwtimer_schedule s = {
		.flags = HWTIMER_RELATIVE, .time = FAR, .period = period,
		.misfire = misfire, .policy = policy,
	};
	int ret = ioctl(fd, HWTIMER_IOC_SCHEDULE, &s) ? -errno : 0;

	*id = s.id;
	return ret;
}

/* Fork a process of @uid in @group, at nice 7, with a timeout pending on the wheel of @setup. */
static pid_t fork_holder(uid_t uid, const char *group, struct hwtimer_setup setup)
{
	int answer[2], fd;
	char c = 0;
	pid_t child;

	if (pipe(answer))
		die("pipe");
	child = must_fork();
	if (child) {
		close(answer[1]);
		expect(1, read(answer[0], &c, 1));
		close(answer[0]);
		return child;
	}
	enter_group(group);
	become(uid);
	if (setpriority(PRIO_PROCESS, 0, 7))
		die("setpriority");
	fd = open_node();
	expect(0, hwt_setup(fd, &setup));
	must_schedule(fd, FAR, 0);
	expect(1, write(answer[1], "a", 1));
	pause();
	_exit(1);
}

/* How many tasks are in @group; *@nice is the highest nice value of a worker there, or -20. */
static int count_members(const char *group, int *nice)
{
	char path[PATH_MAX], *text, *line, *rest, *stat;
	int n = 0, value;

	*nice = -20;
	snprintf(path, sizeof(path), CGROUPS "/%s/cgroup.procs", group);
	text = must_slurp(path);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		n++;
		snprintf(path, sizeof(path), "/proc/%s/stat", line);
		stat = must_slurp(path);
		value = getpriority(PRIO_PROCESS, atoi(line));
		if (strstr(stat, "(hwtimer/") && value > *nice)
			*nice = value;
		free(stat);
	}
	free(text);
	return n;
}

#define ROOT_GROUP	"."
#define GROUP_A		"hwtimer-setup-a"
#define GROUP_B		"hwtimer-setup-b"

/* Users do not share a worker. */
TEST_F(context, shared_wheels)
{
	__u64 before = must_wheel_value("dev", "pending");
	pid_t holders[3];
	unsigned int i;

	/* Wheels of earlier tests must be gone first. */
	eventually(!wheel_there("uid-1001") && !wheel_there("uid-1002"));
	for (i = 0; i < ARRAY_SIZE(holders); i++)
		holders[i] = fork_holder(i ? USER_B : USER_A, ROOT_GROUP, shared);
	EXPECT_EQ(1, must_wheel_value("uid-1001", "pending"));
	EXPECT_EQ(2, must_wheel_value("uid-1002", "pending"));
	EXPECT_EQ(must_get_parameter("tick_ns"), must_wheel_value("uid-1001", "tick_ns"));
	EXPECT_EQ(must_get_parameter("slots"), must_wheel_value("uid-1001", "slots"));
	must_schedule(self->fd, FAR, 0);
	EXPECT_EQ(before + 1, must_wheel_value("dev", "pending"));
	/* Each wheel exists as long as a context uses it. */
	must_kill(holders[0]);
	must_kill(holders[1]);
	eventually(!wheel_there("uid-1001"));
	eventually(must_wheel_value("uid-1002", "pending") == 1);
	must_kill(holders[2]);
	eventually(!wheel_there("uid-1002"));
}

/* A wheel that is used again lingers for 200 ms after the last use, not after the first. */
TEST_F(context, shared_wheel_lingers)
{
	__u64 unused, killed;
	pid_t holder;

	do {
		eventually(!wheel_there("uid-1001"));
		holder = fork_holder(USER_A, ROOT_GROUP, shared);
		unused = now_ns();
		must_kill(holder);
		wait_until(unused + 100 * NSEC_PER_MSEC);
		holder = fork_holder(USER_A, ROOT_GROUP, shared);
		killed = now_ns();
		must_kill(holder);
		eventually(!wheel_there("uid-1001"));
		/* If too late, it may have been a new wheel. */
	} while (killed >= unused + 170 * NSEC_PER_MSEC);
	/* Jiffies may lag by some ticks. */
	EXPECT_LE(killed + 180 * NSEC_PER_MSEC, now_ns());
}

static pthread_barrier_t first_ones;

static void *schedule_first(void *arg)
{
	pthread_barrier_wait(&first_ones);
	must_schedule(*(int *)arg, FAR, 0);
	return NULL;
}

/* Several threads create a shared wheel at once: one wheel is kept and charged. */
TEST_F(context, first_ones)
{

	eventually(!wheel_there("uid-1001"));
	in_child(fork_as(USER_A)) {
		pthread_t threads[8];
		int fds[ARRAY_SIZE(threads)];
		unsigned int i;

		fds[0] = open_node();
		eventually(!must_fdinfo(fds[0], "user_shared_wheels"));
		close(fds[0]);
		pthread_barrier_init(&first_ones, NULL, ARRAY_SIZE(threads));
		for (i = 0; i < ARRAY_SIZE(threads); i++) {
			fds[i] = open_node();
			start(&threads[i], schedule_first, &fds[i]);
		}
		for (i = 0; i < ARRAY_SIZE(threads); i++)
			pthread_join(threads[i], NULL);
		expect(1, must_fdinfo(fds[0], "user_shared_wheels"));
		/* Its name may be any of uid-1001.N. */
		for (i = 1; i < ARRAY_SIZE(threads); i++)
			close(fds[i]);
		fds[1] = open_node();
		close(fds[0]);
		eventually(!must_fdinfo(fds[1], "user_shared_wheels"));
	}
}

/* Cgroups do not share a worker either: each is charged for its own. */
TEST_F(context, cgroups)
{
	pid_t holders[4];
	unsigned int i;
	__u64 id;
	int nice;

	eventually(!wheel_there("uid-1001") && !wheel_there("uid-1002"));
	make_group(GROUP_A);
	make_group(GROUP_B);
	holders[0] = fork_holder(USER_A, GROUP_A, shared);
	EXPECT_EQ(1 + 1, count_members(GROUP_A, &nice));
	EXPECT_EQ(0, nice);
	holders[1] = fork_holder(USER_A, GROUP_A, shared);
	EXPECT_EQ(2 + 1, count_members(GROUP_A, &nice));
	EXPECT_EQ(2, must_wheel_value("uid-1001", "pending"));
	/* max_user_shared_wheels limits that. */
	ASSERT_EQ(0, set_parameter("max_user_shared_wheels", 1));
	in_child(must_fork()) {
		int fd;

		enter_group(GROUP_B);
		become(USER_A);
		fd = open_node();
		expect(1, must_fdinfo(fd, "user_shared_wheels"));
		expect(-EDQUOT, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
		/* Invalid values are refused first. */
		expect(-EINVAL, repeat_if(fd, 0, 1, HWTIMER_MISFIRE_ONCE, &id));
	}
	EXPECT_EQ(0, count_members(GROUP_B, &nice));
	ASSERT_EQ(0, set_parameter("max_user_shared_wheels", 2));
	holders[2] = fork_holder(USER_A, GROUP_B, shared);
	EXPECT_EQ(1 + 1, count_members(GROUP_B, &nice));
	EXPECT_EQ(1, must_wheel_value("uid-1001.2", "pending"));
	holders[3] = fork_holder(USER_B, GROUP_B, shared);
	EXPECT_EQ(2 + 2, count_members(GROUP_B, &nice));
	EXPECT_EQ(1, must_wheel_value("uid-1002", "pending"));
	for (i = 0; i < ARRAY_SIZE(holders); i++)
		must_kill(holders[i]);
	remove_group(GROUP_A);
	remove_group(GROUP_B);
}

/* The thread of an own wheel is in its creator's cgroups, with its creator's nice value. */
TEST_F(context, own_wheel_thread)
{
	pid_t holder;
	int nice;

	make_group(GROUP_A);
	holder = fork_holder(0, GROUP_A, own);
	EXPECT_EQ(1 + 1, count_members(GROUP_A, &nice));
	EXPECT_EQ(7, nice);
	must_kill(holder);
	remove_group(GROUP_A);
}

/* Deadlines in the past count as late at once: fdinfo counts one-shot and periodic timeouts. */
TEST_F(context, late)
{
	struct hwtimer_schedule periodic = {
		.time = 1, .period = FAR, .policy = HWTIMER_MISFIRE_ONCE,
	};

	EXPECT_EQ(0, must_fdinfo(self->fd, "late"));
	must_schedule(self->fd, FAR, 0);
	ASSERT_EQ(0, hwt_schedule(self->fd, 0, 1, 0, NULL, NULL));
	eventually(must_stats(self->fd).unread == 1);
	EXPECT_EQ(1, must_fdinfo(self->fd, "late"));
	ASSERT_EQ(0, ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &periodic));
	eventually(must_stats(self->fd).unread == 2);
	EXPECT_EQ(2, must_fdinfo(self->fd, "late"));
}

/* Up to two ticks do not count as late; one of them is promised. */
TEST_F(context, not_late)
{
	const __u64 tick = NSEC_PER_SEC, begin = now_ns();
	unsigned int i;

	ASSERT_EQ(0, hwt_own_wheel(self->fd, tick, 64, 0));
	/* Deadlines all over the tick, some just after its end. */
	for (i = 0; i < 1000; i++)
		ASSERT_EQ(0, hwt_schedule(self->fd, 0, begin + i * tick / 1000, i, NULL, NULL));
	eventually(must_stats(self->fd).unread == 1000);
	EXPECT_EQ(0, must_fdinfo(self->fd, "late"));
}

static int repeat(int fd, __u64 period, __u64 *id)
{
	return repeat_if(fd, period, 0, HWTIMER_MISFIRE_ONCE, id);
}

/* The limit of a user's rate of periodic expiries, over all contexts. */
TEST_F(context, user_rate)
{

	ASSERT_EQ(0, set_parameter("max_user_rate", 100));
	in_child(fork_as(USER_A)) {
		struct hwtimer_schedule soon = {
			.flags = HWTIMER_RELATIVE, .time = NSEC_PER_MSEC,
			.period = 20 * NSEC_PER_MSEC, .policy = HWTIMER_MISFIRE_ONCE,
		};
		__u64 slow, fast, other;
		int fd[2] = { open_node(), open_node() };

		/* 101 per second, and 100 */
		expect(-EDQUOT, repeat(fd[0], 10 * NSEC_PER_MSEC - 1, &fast));
		expect(1, must_stats(fd[0]).rejected);
		expect(0, repeat(fd[0], 10 * NSEC_PER_MSEC, &fast));
		expect(100, must_fdinfo(fd[0], "user_rate"));
		expect(-EDQUOT, repeat(fd[1], 3600 * NSEC_PER_SEC, &other));
		/* one-shot timeouts are not counted */
		must_schedule(fd[1], FAR, 0);
		/* 50 + 49 + 1: a rate below 1 counts as 1 */
		expect(0, hwt_cancel(fd[0], fast));
		expect(0, must_fdinfo(fd[0], "user_rate"));
		expect(0, repeat(fd[0], 20 * NSEC_PER_MSEC, &fast));
		expect(0, repeat(fd[1], NSEC_PER_SEC / 49 + 1, &other));
		expect(0, repeat(fd[1], 3600 * NSEC_PER_SEC, &slow));
		expect(100, must_fdinfo(fd[1], "user_rate"));
		expect(-EDQUOT, repeat(fd[0], 3600 * NSEC_PER_SEC, &slow));
		/* a call that fails otherwise is not charged */
		expect(-EINVAL, repeat(fd[0], 1, &slow));
		/* a close gives the rate back at once */
		close(fd[1]);
		expect(50, must_fdinfo(fd[0], "user_rate"));
		/* as does the cancel of a timeout with unread expiries */
		fd[1] = open_node();
		expect(0, hwt_ioctl(fd[1], HWTIMER_IOC_SCHEDULE, &soon));
		eventually(must_stats(fd[1]).unread);
		expect(0, hwt_cancel(fd[1], soon.id));
		close(fd[1]);
		expect(50, must_fdinfo(fd[0], "user_rate"));
	}
}

/* A timeout whose deadline is past, or is touched to be, may expire at each tick. */
TEST_F(context, user_rate_late)
{
	const __u64 ticks = NSEC_PER_SEC / must_get_parameter("tick_ns");

	ASSERT_EQ(0, set_parameter("max_user_rate", ticks + 1));
	in_child(fork_as(USER_A)) {
		__u64 id, other;
		int fd = open_node();

		expect(0, repeat_if(fd, NSEC_PER_SEC, 0, HWTIMER_MISFIRE_MAKE_UP, &id));
		expect(ticks, must_fdinfo(fd, "user_rate"));
		expect(-EDQUOT, repeat_if(fd, FAR, 0, HWTIMER_MISFIRE_MAKE_UP, &other));
		expect(-EDQUOT, repeat_if(fd, FAR, FAR + 1, HWTIMER_MISFIRE_ONCE, &other));
		expect(-EDQUOT, repeat_if(fd, FAR, FAR + 1, HWTIMER_MISFIRE_SKIP, &other));
		expect(0, repeat_if(fd, FAR, FAR, HWTIMER_MISFIRE_SKIP, &other));
		expect(ticks + 1, must_fdinfo(fd, "user_rate"));
		expect(0, hwt_cancel(fd, id));
		expect(1, must_fdinfo(fd, "user_rate"));
	}
}

/* With max_user_timeouts=10 max_user_wheels=1. */
static void reach_both_limits(void)
{
	struct hwtimer_setup setup = own;
	int fd = open_node(), i;

	expect(0, hwt_setup(fd, &setup));
	for (i = 0; i < 10; i++)
		must_schedule(fd, FAR, i);
	expect(-EDQUOT, hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
	expect(-EDQUOT, try_setup_here(own));
}

/* One user's timeouts do not count for another. */
TEST_F(context, two_users)
{
	int pipe_fds[2];
	pid_t child;
	char c;

	ASSERT_EQ(0, pipe(pipe_fds));
	ASSERT_EQ(0, set_parameter("max_user_timeouts", 10));
	ASSERT_EQ(0, set_parameter("max_user_wheels", 1));
	child = fork_as(USER_A);
	if (!child) {
		reach_both_limits();
		expect(1, write(pipe_fds[1], "x", 1));
		pause();
		_exit(1);
	}
	close(pipe_fds[1]);
	ASSERT_EQ(1, read(pipe_fds[0], &c, 1));
	in_child(fork_as(USER_B))
		reach_both_limits();
	must_kill(child);
}

/* Without a udev rule, only root may open the device. */
TEST_F(context, root_alone)
{
	int dev = open("/dev", O_PATH | O_DIRECTORY);

	in_child(fork_as(USER_A)) {
		expect(-1, openat(dev, "hwtimer", O_RDONLY));
		expect(EACCES, errno);
		expect(-1, openat(dev, "hwtimer", O_RDWR));
		expect(EACCES, errno);
	}
}

static void protect(int uffd, void *page, bool on)
{
	struct uffdio_writeprotect arg = {
		.range = { (uintptr_t)page, getpagesize() },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	if (ioctl(uffd, UFFDIO_WRITEPROTECT, &arg))
		die("UFFDIO_WRITEPROTECT: %s", strerror(errno));
}

/*
 * A setup in a write-protected page, writes to which block. Returns -1 if userfaultfd cannot
 * protect.
 */
static int protected_setup(struct hwtimer_setup **setup)
{
	int uffd = syscall(__NR_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	void *page = must_mmap(getpagesize(), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct uffdio_register range = {
		.range = { (uintptr_t)page, getpagesize() }, .mode = UFFDIO_REGISTER_MODE_WP,
	};

	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api))
		return -1;
	*setup = page;
	**setup = own;
	if (ioctl(uffd, UFFDIO_REGISTER, &range))
		die("UFFDIO_REGISTER: %s", strerror(errno));
	protect(uffd, page, true);
	return uffd;
}

static int faulting_fd;

static void *set_up(void *setup)
{
	return (void *)(intptr_t)hwt_ioctl(faulting_fd, HWTIMER_IOC_SETUP, setup);
}

static char state_of(pid_t pid)
{
	char path[32], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		die("%s", path);
	fclose(f);
	return state;
}

/* A SETUP blocks on the page of its result, and a STOP waits for the SETUP: both can be killed. */
TEST(killed_behind_a_fault)
{
	struct hwtimer_setup *page;
	int uffd = protected_setup(&page);
	struct uffd_msg msg;
	pthread_t thread;
	void *ret;
	pid_t child;
	int status;

	if (uffd < 0)
		SKIP(return, "userfaultfd cannot write-protect");
	faulting_fd = must_open(0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, set_up, page));
	ASSERT_EQ(sizeof(msg), read(uffd, &msg, sizeof(msg)));

	child = must_fork();
	if (!child) {
		hwt_ioctl(faulting_fd, HWTIMER_IOC_STOP, &(struct hwtimer_stop){ 0 });
		_exit(0);
	}
	/* Uninterruptible, and not stopped by ptrace. */
	eventually(state_of(child) == 'D');
	kill(child, SIGKILL);
	eventually(waitpid(child, &status, WNOHANG) == child);
	EXPECT_TRUE(WIFSIGNALED(status));

	protect(uffd, page, false);
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(NULL, ret);
	close(faulting_fd);
	close(uffd);
}

/* While a SETUP blocks on the page of its result, a schedule settles the wheel. */
TEST(overtaken_by_schedule)
{
	struct hwtimer_setup *page;
	int uffd = protected_setup(&page);
	struct hwtimer_record rec;
	struct uffd_msg msg;
	pthread_t thread;
	void *ret;

	if (uffd < 0)
		SKIP(return, "userfaultfd cannot write-protect");
	faulting_fd = must_open(0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, set_up, page));
	ASSERT_EQ(sizeof(msg), read(uffd, &msg, sizeof(msg)));
	must_schedule(faulting_fd, 0, 7);
	protect(uffd, page, false);
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(-EBUSY, (intptr_t)ret);
	EXPECT_EQ(0, must_fdinfo(faulting_fd, "own_wheel"));
	EXPECT_EQ(0, must_fdinfo(faulting_fd, "user_wheels"));
	EXPECT_EQ(1, hwt_collect(faulting_fd, &rec, 1));
	close(faulting_fd);
	close(uffd);
}

/* A SETUP whose result cannot be written leaves nothing behind. */
TEST_F(context, unanswered)
{
	struct hwtimer_setup *page = must_read_only(&own, sizeof(own));

	EXPECT_EQ(-EFAULT, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, page));
	EXPECT_EQ(0, must_fdinfo(self->fd, "own_wheel"));
	EXPECT_EQ(0, must_fdinfo(self->fd, "user_wheels"));
	ASSERT_EQ(0, mprotect(page, getpagesize(), PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SETUP, page));
	EXPECT_EQ(1, must_fdinfo(self->fd, "user_wheels"));
}

TEST_HARNESS_MAIN
