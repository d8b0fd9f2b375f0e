// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contexts on CLOCK_REALTIME, while the clock is set forward and back. For guests only, as it sets
 * the machine's clock.
 */
#include "hwt.h"

#include <sys/timex.h>

#include "ring.h"

#define HOUR	(3600 * NSEC_PER_SEC)
#define TICK	NSEC_PER_MSEC

static __u64 real_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static void must_set_clock(__u64 to)
{
	struct timespec ts = { to / NSEC_PER_SEC, to % NSEC_PER_SEC };

	if (clock_settime(CLOCK_REALTIME, &ts))
		die("clock_settime: %s", strerror(errno));
}

static void must_step(__s64 by)
{
	must_set_clock(real_ns() + by);
}

static int open_clock(void)
{
	struct hwtimer_setup setup = {
		.flags = HWTIMER_SETUP_OWN_WHEEL,
		.clockid = CLOCK_REALTIME, .tick_ns = TICK, .slots = 512,
	};
	int fd = must_open(O_NONBLOCK), ret = hwt_setup(fd, &setup);

	if (ret)
		die("setup: %d (%s)", ret, strerror(-ret));
	return fd;
}

static __u64 must_arm_at(int fd, __u32 flags, __u64 time, __u64 user_data)
{
	__u64 id, deadline;
	int ret = hwt_schedule(fd, flags, time, user_data, &id, &deadline);

	if (ret)
		die("schedule: %d (%s)", ret, strerror(-ret));
	if (!(flags & HWTIMER_RELATIVE) && deadline != time)
		die("the deadline is %llu, not %llu", deadline, time);
	return id;
}

FIXTURE(clock)
{
	int fd;
	__s64 ahead;
};

FIXTURE_SETUP(clock)
{
	self->ahead = real_ns() - clock_ns(CLOCK_BOOTTIME);
	self->fd = open_clock();
}

FIXTURE_TEARDOWN(clock)
{
	struct hwtimer_stats s = must_stats(self->fd);

	EXPECT_TRUE(balanced(&s));
	close(self->fd);
	must_set_clock(clock_ns(CLOCK_BOOTTIME) + self->ahead);
}

#define EXPECT_RECORD(rec, _kind, _user_data, _deadline) do {			\
	EXPECT_EQ(_kind, (rec)->kind);						\
	EXPECT_EQ(_user_data, (rec)->user_data);				\
	EXPECT_EQ(_deadline, (rec)->deadline);					\
	EXPECT_LE((rec)->fired, real_ns());					\
	if ((rec)->kind == HWTIMER_KIND_EXPIRED) {					\
		EXPECT_GE((rec)->fired, (rec)->deadline);			\
	}									\
} while (0)

TEST_F(clock, arguments)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_REALTIME };
	int fd = must_open(0);
	__u64 before, now, id;

	EXPECT_EQ(CLOCK_REALTIME, must_fdinfo(self->fd, "clockid"));
	before = real_ns();
	now = must_stats(self->fd).now;
	EXPECT_LE(before, now);
	EXPECT_LE(now, real_ns());
	EXPECT_EQ(-EINVAL, hwt_setup(fd, &setup));
	EXPECT_EQ(-EINVAL, hwt_schedule(fd, HWTIMER_CANCEL_ON_SET, HWTIMER_NEVER, 0, NULL, NULL));
	EXPECT_EQ(-EINVAL, hwt_schedule(self->fd, HWTIMER_CANCEL_ON_SET | HWTIMER_RELATIVE, FAR, 0,
					NULL, NULL));
	id = must_arm_at(self->fd, HWTIMER_CANCEL_ON_SET, real_ns() + HOUR, 0);
	EXPECT_EQ(-EINVAL, hwt_touch(self->fd, HWTIMER_CANCEL_ON_SET, id, FAR, NULL));
	EXPECT_EQ(0, hwt_cancel(self->fd, id));
	close(fd);
}

TEST_F(clock, expires)
{
	struct hwtimer_record rec;
	__u64 at = real_ns() + 30 * NSEC_PER_MSEC, later = at + 10 * NSEC_PER_MSEC;

	must_arm_at(self->fd, 0, later, 2);
	must_arm_at(self->fd, 0, at, 1);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 1, at);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 2, later);
	/* The past, even before the machine started. */
	must_arm_at(self->fd, 0, 5, 3);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 3, 5);
}

TEST_F(clock, forward)
{
	__u64 at = real_ns() + HOUR;
	struct hwtimer_record rec;

	must_arm_at(self->fd, 0, at, 7);
	must_step(HOUR);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 7, at);
}

/* The clock goes back just before the deadlines, so that expiries are under way. */
TEST_F(clock, back)
{
	enum { N = 200 };
	struct hwtimer_record rec[N];
	__u64 base = real_ns() + 100 * NSEC_PER_MSEC, set, taken, deadline, begun;
	__u64 ids[N], due[N];
	int i, early;

	for (i = 0; i < N; i++) {
		due[i] = base + (i == N - 1 ? HOUR : i * TICK / 2);
		ids[i] = must_arm_at(self->fd, 0, due[i], i);
	}
	while (real_ns() < base + N / 4 * TICK)
		;
	begun = now_ns();
	set = real_ns();
	must_set_clock(set - 2 * HOUR);
	taken = now_ns() - begun;
	EXPECT_GE(set, must_stats(self->fd).now);
	wait_until(begun + 300 * NSEC_PER_MSEC);
	early = hwt_read(self->fd, rec, N);
	if (early == -EAGAIN)
		early = 0;
	ASSERT_GE(early, 0);
	/* Only what was due before the clock was set, which took some time. */
	for (i = 0; i < early; i++) {
		EXPECT_GE(rec[i].fired, rec[i].deadline);
		EXPECT_LE(rec[i].deadline, set + taken);
	}
	ASSERT_LT(early, N);
	EXPECT_EQ(0, hwt_query(self->fd, ids[N - 1], NULL, &deadline));
	EXPECT_EQ(due[N - 1], deadline);
	must_step(4 * HOUR);
	ASSERT_EQ(N - early, hwt_collect(self->fd, rec, N - early));
	for (i = 0; i < N - early; i++)
		EXPECT_RECORD(&rec[i], HWTIMER_KIND_EXPIRED, rec[i].user_data,
			      due[rec[i].user_data]);
}

/* Delays do not change, forward or back. */
TEST_F(clock, relative)
{
	__u64 id = must_arm_at(self->fd, HWTIMER_RELATIVE, 3 * HOUR, 1), before, after;
	struct hwtimer_record rec;
	__u64 begun = now_ns();

	must_arm_at(self->fd, HWTIMER_RELATIVE, 200 * NSEC_PER_MSEC, 2);
	ASSERT_EQ(0, hwt_query(self->fd, id, NULL, &before));
	must_step(5 * HOUR);
	ASSERT_EQ(0, hwt_query(self->fd, id, NULL, &after));
	/* Reading and setting the clock takes some time. */
	EXPECT_GE(after - before, 5 * HOUR - PATIENCE);
	EXPECT_LE(after - before, 5 * HOUR);
	must_step(-7LL * (__s64)HOUR);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 2, rec.deadline);
	EXPECT_GE(now_ns() - begun, 200 * NSEC_PER_MSEC);
	EXPECT_STATS(self->fd, .scheduled = 2, .expired = 1, .pending = 1);
	/* Touched by a delay, an absolute one is relative, and the other way round. */
	EXPECT_EQ(0, hwt_touch(self->fd, 0, id, real_ns() + HOUR, NULL));
	must_step(HOUR);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 1, rec.deadline);
	id = must_arm_at(self->fd, 0, real_ns() + HOUR, 3);
	EXPECT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, id, 2 * HOUR, NULL));
	must_step(9 * HOUR);
	/* Set again, so that all of the first setting is over. */
	must_arm_at(self->fd, HWTIMER_CANCEL_ON_SET, HWTIMER_NEVER, 4);
	must_step(NSEC_PER_SEC);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_EQ(4, rec.user_data);
	EXPECT_EQ(1, must_stats(self->fd).pending);
}

/* A sentinel tells of each setting once, and of none that came before it. */
TEST_F(clock, sentinel)
{
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };
	struct hwtimer_record rec;
	int i;

	for (i = 0; i < 20; i++) {
		must_arm_at(self->fd, HWTIMER_CANCEL_ON_SET, HWTIMER_NEVER, i);
		must_step(i % 2 ? HOUR : -HOUR);
		ASSERT_EQ(1, poll(&pfd, 1, PATIENCE / NSEC_PER_MSEC));
		ASSERT_EQ(1, hwt_read(self->fd, &rec, 1));
		EXPECT_RECORD(&rec, HWTIMER_KIND_CLOCK_SET, i, HWTIMER_NEVER);
		EXPECT_EQ(HWTIMER_NEVER, rec.last);
		EXPECT_LE(real_ns() - rec.fired, PATIENCE);
	}
	EXPECT_STATS(self->fd, .scheduled = 20, .clock_set = 20);
	/* It expires if the clock is not set. */
	must_arm_at(self->fd, HWTIMER_CANCEL_ON_SET, real_ns() + TICK, i);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_EQ(HWTIMER_KIND_EXPIRED, rec.kind);
}

/* Each context is told, also when there are more than are told at a time. */
TEST_F(clock, many_contexts)
{
	struct hwtimer_record rec;
	unsigned int i;
	int fds[70];

	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = open_clock();
		must_arm_at(fds[i], HWTIMER_CANCEL_ON_SET, HWTIMER_NEVER, i);
	}
	must_step(HOUR);
	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		ASSERT_EQ(1, hwt_collect(fds[i], &rec, 1));
		EXPECT_RECORD(&rec, HWTIMER_KIND_CLOCK_SET, i, HWTIMER_NEVER);
		close(fds[i]);
	}
}

/* As soon as the clock has been set, CANCEL and TOUCH fail, and a new sentinel stays. */
TEST_F(clock, sentinel_at_once)
{
	struct hwtimer_record rec[3];
	__u64 a = must_arm_at(self->fd, HWTIMER_CANCEL_ON_SET, real_ns() + 9 * HOUR, 1);
	__u64 b = must_arm_at(self->fd, HWTIMER_CANCEL_ON_SET, real_ns() + 9 * HOUR, 2);

	EXPECT_EQ(0, hwt_touch(self->fd, 0, b, real_ns() + 8 * HOUR, NULL));
	must_step(HOUR);
	must_arm_at(self->fd, HWTIMER_CANCEL_ON_SET, HWTIMER_NEVER, 3);
	EXPECT_EQ(-ENOENT, hwt_touch(self->fd, 0, b, HWTIMER_NEVER, NULL));
	EXPECT_EQ(-ENOENT, hwt_cancel(self->fd, a));
	ASSERT_EQ(2, hwt_collect(self->fd, rec, 2));
	EXPECT_EQ(HWTIMER_KIND_CLOCK_SET, rec[0].kind);
	EXPECT_EQ(HWTIMER_KIND_CLOCK_SET, rec[1].kind);
	EXPECT_EQ(3, rec[0].user_data + rec[1].user_data);
	EXPECT_EQ(1, must_stats(self->fd).pending);
	must_step(HOUR);
	ASSERT_EQ(1, hwt_collect(self->fd, rec, 1));
	EXPECT_EQ(3, rec[0].user_data);
	EXPECT_STATS(self->fd, .scheduled = 3, .touched = 1, .clock_set = 3);
}

/* A clock that is slewed is not set. */
TEST_F(clock, slewed)
{
	struct timeval delta = { .tv_usec = 200000 }, none = { 0 };
	struct hwtimer_record rec;

	must_arm_at(self->fd, HWTIMER_CANCEL_ON_SET, HWTIMER_NEVER, 1);
	ASSERT_EQ(0, adjtime(&delta, NULL));
	wait_until(now_ns() + 2 * NSEC_PER_SEC);
	EXPECT_EQ(-EAGAIN, hwt_read(self->fd, &rec, 1));
	ASSERT_EQ(0, adjtime(&none, NULL));
	EXPECT_STATS(self->fd, .scheduled = 1, .pending = 1);
}

/* ADJ_SETOFFSET sets it. */
TEST_F(clock, stepped)
{
	struct timex tx = { .modes = ADJ_SETOFFSET | ADJ_NANO, .time.tv_usec = 1 };
	struct hwtimer_record rec;

	must_arm_at(self->fd, HWTIMER_CANCEL_ON_SET, HWTIMER_NEVER, 1);
	ASSERT_LE(0, adjtimex(&tx));
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_EQ(HWTIMER_KIND_CLOCK_SET, rec.kind);
}

/* Far away, neither the start of the machine nor the horizon of the wheel limits deadlines. */
TEST_F(clock, the_seventies)
{
	__u64 year = 365 * 24 * HOUR, at = real_ns() + 300 * NSEC_PER_MSEC, deadline, id, day;
	struct hwtimer_record rec;

	id = must_arm_at(self->fd, 0, at, 1);
	must_set_clock(year);
	ASSERT_EQ(0, hwt_query(self->fd, id, NULL, &deadline));
	EXPECT_EQ(at, deadline);
	EXPECT_GE(must_stats(self->fd).now, year);
	EXPECT_LE(must_stats(self->fd).now, year + PATIENCE);
	day = must_arm_at(self->fd, 0, at + HOUR, 2);
	must_set_clock(at - 100 * NSEC_PER_MSEC);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 1, at);
	ASSERT_EQ(0, hwt_query(self->fd, day, NULL, &deadline));
	EXPECT_EQ(at + HOUR, deadline);
	must_step(HOUR);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 2, at + HOUR);
}

/* Records that wait show what the clock showed. */
TEST_F(clock, unread)
{
	__u64 at = real_ns(), id;
	struct hwtimer_record rec[2];
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };

	must_arm_at(self->fd, 0, at, 1);
	id = must_arm_at(self->fd, HWTIMER_RELATIVE, 0, 2);
	eventually(must_stats(self->fd).unread == 2);
	EXPECT_EQ(-ENOENT, hwt_cancel(self->fd, id));
	must_step(5 * HOUR);
	must_arm_at(self->fd, 0, real_ns() + HOUR, 3);
	ASSERT_EQ(1, poll(&pfd, 1, PATIENCE / NSEC_PER_MSEC));
	ASSERT_EQ(2, hwt_read(self->fd, rec, 2));
	EXPECT_LE(rec[0].deadline - at, PATIENCE);
	EXPECT_LE(rec[0].fired - at, PATIENCE);
	EXPECT_LE(rec[1].deadline - at, PATIENCE);
	EXPECT_LE(rec[1].fired - at, PATIENCE);
	EXPECT_GE(rec[1].fired, rec[1].deadline);
}

static __u64 must_repeat(int fd, __u32 flags, __u64 first, __u64 period)
{
	struct hwtimer_schedule s = {
		.flags = flags, .time = first, .period = period, .user_data = 1,
	};
	int ret = hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);

	if (ret)
		die("schedule: %d (%s)", ret, strerror(-ret));
	return s.id;
}

TEST_F(clock, periodic)
{
	__u64 first = real_ns() + HOUR, id = must_repeat(self->fd, 0, first, HOUR), deadline;
	struct hwtimer_record rec;

	/* The deadlines skipped are missed. */
	must_set_clock(first + 5 * HOUR / 2);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 1, first);
	EXPECT_EQ(2, rec.overruns);
	EXPECT_EQ(first + 2 * HOUR, rec.last);
	ASSERT_EQ(0, hwt_query(self->fd, id, NULL, &deadline));
	EXPECT_EQ(first + 3 * HOUR, deadline);
	/* No deadline comes twice. */
	must_set_clock(first - HOUR / 2);
	ASSERT_EQ(0, hwt_query(self->fd, id, NULL, &deadline));
	EXPECT_EQ(first + 3 * HOUR, deadline);
	must_set_clock(first + HOUR);
	must_set_clock(first + 3 * HOUR);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 1, first + 3 * HOUR);
	EXPECT_EQ(0, rec.overruns);
	EXPECT_EQ(0, hwt_cancel(self->fd, id));
	/* By delays it does not notice. */
	id = must_repeat(self->fd, HWTIMER_RELATIVE, HOUR, HOUR);
	must_step(10 * HOUR);
	must_arm_at(self->fd, 0, real_ns(), 2);
	ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
	EXPECT_EQ(2, rec.user_data);
	EXPECT_EQ(0, hwt_cancel(self->fd, id));
}

/* A periodic sentinel reports its unread expiries first. */
TEST_F(clock, periodic_sentinel)
{
	struct hwtimer_record rec[2];

	must_repeat(self->fd, HWTIMER_CANCEL_ON_SET, real_ns(), 2 * TICK);
	eventually(must_stats(self->fd).expired);
	must_step(HOUR);
	eventually(must_stats(self->fd).clock_set);
	ASSERT_EQ(2, hwt_collect(self->fd, rec, 2));
	EXPECT_EQ(HWTIMER_KIND_EXPIRED, rec[0].kind);
	EXPECT_RECORD(&rec[1], HWTIMER_KIND_CLOCK_SET, 1, rec[1].deadline);
	EXPECT_EQ(must_stats(self->fd).expired, 1 + rec[0].overruns);
	EXPECT_EQ(0, must_stats(self->fd).pending);
}

/* Set twice at once: each sentinel ends once, and deadlines are what they were. */
TEST_F(clock, twice)
{
	enum { N = 1000 };
	static struct hwtimer_record rec[N];
	__u64 base = real_ns() + 5 * HOUR, ids[N], deadline;
	unsigned int i;

	for (i = 0; i < N; i++)
		ids[i] = must_arm_at(self->fd, i % 2 ? HWTIMER_CANCEL_ON_SET : 0, base + i, i);
	must_step(HOUR);
	must_step(-2 * (__s64)HOUR);
	must_step(3 * HOUR);
	ASSERT_EQ(N / 2, hwt_collect(self->fd, rec, N / 2));
	for (i = 0; i < N / 2; i++)
		EXPECT_RECORD(&rec[i], HWTIMER_KIND_CLOCK_SET, rec[i].user_data | 1,
			      base + rec[i].user_data);
	for (i = 0; i < N; i += 2) {
		ASSERT_EQ(0, hwt_query(self->fd, ids[i], NULL, &deadline));
		EXPECT_EQ(base + i, deadline);
	}
	must_step(4 * HOUR);
	ASSERT_EQ(N / 2, hwt_collect(self->fd, rec, N / 2));
	EXPECT_STATS(self->fd, .scheduled = N, .expired = N / 2, .clock_set = N / 2);
}

/* How many timeouts are armed again while the test does something else. */
static unsigned int many(void)
{
	return quick_or(20000, 100000);
}

/* The program touches, cancels and schedules, and the clock is set, while timeouts are moved. */
TEST_F(clock, busy)
{
	__u64 base = real_ns() + 10 * HOUR, state = seed(), id;
	unsigned int n = many(), i, sets;
	__u64 *ids = must_alloc(n, sizeof(*ids));
	struct hwtimer_record rec[64];
	struct hwtimer_stats s;
	int got, j;

	for (i = 0; i < n; i++)
		ids[i] = must_arm_at(self->fd, i % 10 ? 0 : HWTIMER_CANCEL_ON_SET, base + i, i);
	for (sets = 0; sets < 20; sets++) {
		must_step(sets % 2 ? -HOUR : HOUR);
		for (i = 0; i < 200; i++) {
			id = rnd(&state) % n;
			switch (rnd(&state) % 3) {
			case 0:
				hwt_cancel(self->fd, ids[id]);
				break;
			case 1:
				hwt_touch(self->fd, 0, ids[id], base + id, NULL);
				break;
			default:
				if (hwt_cancel(self->fd, ids[id]) && id % 10)
					break;
				ids[id] = must_arm_at(self->fd, 0, base + id, id);
			}
		}
		/* Only the clock can end a timeout before its time. */
		while ((got = hwt_read(self->fd, rec, ARRAY_SIZE(rec))) > 0) {
			for (j = 0; j < got; j++) {
				EXPECT_EQ(HWTIMER_KIND_CLOCK_SET, rec[j].kind);
				EXPECT_EQ(base + rec[j].user_data, rec[j].deadline);
			}
		}
	}
	must_set_clock(base + HOUR);
	do {
		got = hwt_collect(self->fd, rec, 1);
		ASSERT_EQ(1, got);
		EXPECT_EQ(base + rec[0].user_data, rec[0].deadline);
		s = must_stats(self->fd);
		ASSERT_TRUE(balanced(&s));
	} while (s.pending || s.unread);
	free(ids);
}

/* A stop while timeouts are moved hands back each one, or the clock ended it. */
TEST_F(clock, stop)
{
	unsigned int n = many(), i, set = 0, back = 0;
	__u64 base = real_ns() + 10 * HOUR, handed_back;
	struct hwtimer_record rec;

	for (i = 0; i < n; i++)
		must_arm_at(self->fd, i % 2 ? 0 : HWTIMER_CANCEL_ON_SET, base + i, i);
	must_step(HOUR);
	ASSERT_EQ(0, hwt_stop(self->fd, &handed_back));
	while (hwt_collect(self->fd, &rec, 1) == 1) {
		EXPECT_EQ(base + rec.user_data, rec.deadline);
		set += rec.kind == HWTIMER_KIND_CLOCK_SET;
		back += rec.kind == HWTIMER_KIND_HANDED_BACK;
	}
	EXPECT_EQ(n, set + back);
	EXPECT_EQ(handed_back, back);
	EXPECT_EQ(set, must_stats(self->fd).clock_set);
}

/* A close while timeouts are moved. */
TEST_F(clock, close)
{
	unsigned int n = many() / 10, i, round;
	__u64 base = real_ns() + 10 * HOUR;
	int fd;

	for (round = 0; round < 10; round++) {
		fd = open_clock();
		for (i = 0; i < n; i++)
			must_arm_at(fd, i % 2 ? 0 : HWTIMER_CANCEL_ON_SET, base + i, i);
		must_step(round % 2 ? HOUR : -HOUR);
		/* Sooner or later in its course. */
		wait_until(now_ns() + round * NSEC_PER_MSEC);
		close(fd);
	}
}

TEST_F(clock, ring)
{
	struct hwtimer_rings params = {
		.flags = nohz_full() ? 0 : HWTIMER_RINGS_RELAXED,
		.sq_entries = 64, .timeouts = 64,
	};
	struct ring *r = must_ring_params(self->fd, &params);
	struct hwtimer_record rec;
	__u64 at = real_ns() + HOUR, until;
	unsigned int i;

	ASSERT_EQ(0, hwt_schedule_id(self->fd, HWTIMER_CANCEL_ON_SET, HWTIMER_ID(9, 1),
				     HWTIMER_NEVER, 9));
	for (i = 0; i < 4; i++)
		must_arm(r, HWTIMER_ID(i, 1), at + i * HOUR, i);
	must_enter(r);
	/* A program could not rely on a later one if the clock is set. */
	EXPECT_EQ(params.flags ? HWTIMER_RING_IDLE : 0, load_acquire(&r->shared->relaxed_until));
	must_step(HOUR / 2);
	ASSERT_EQ(1, ring_collect(r, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_CLOCK_SET, 9, HWTIMER_NEVER);
	/* sleep_until is on the new clock. */
	until = ring_sleep_until(r);
	if (until != HWTIMER_RING_IDLE) {
		EXPECT_GE(until, at - HOUR / 2);
	}
	/* A cancel that was submitted before the clock reached the deadline counts. */
	must_put(r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(1, 1), 0, 0);
	must_step(5 * HOUR / 2);
	ASSERT_EQ(1, ring_collect(r, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 0, at);
	ASSERT_EQ(1, ring_collect(r, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 2, at + 2 * HOUR);
	EXPECT_EQ(1, must_stats(self->fd).cancelled);
	/* Soon, on the new clock. */
	at = real_ns() + 20 * NSEC_PER_MSEC;
	must_arm(r, HWTIMER_ID(1, 2), at, 1);
	ASSERT_EQ(1, ring_collect(r, &rec, 1));
	EXPECT_RECORD(&rec, HWTIMER_KIND_EXPIRED, 1, at);
	ring_unmap(r);
}

/*
 * As soon as the clock has been set, a sentinel has ended. Its index is still in use, because the
 * completion ring is full, and so its record is not there yet.
 */
TEST_F(clock, ring_sentinel_at_once)
{
	struct ring *r = must_ring(self->fd, 4, 1, 64);
	int i;

	must_arm(r, HWTIMER_ID(1, 1), 0, 1);
	must_enter(r);
	eventually(ring_unread(r) == 1);
	for (i = 2; i < 22; i++) {
		ASSERT_EQ(0, hwt_schedule_id(self->fd, HWTIMER_CANCEL_ON_SET, HWTIMER_ID(i, 1),
					     HWTIMER_NEVER, i));
		must_step(i % 2 ? HOUR : -HOUR);
		ASSERT_EQ(-EBUSY, hwt_schedule_id(self->fd, 0, HWTIMER_ID(i, 2), HWTIMER_NEVER, i));
	}
	EXPECT_EQ(20, must_stats(self->fd).clock_set);
	ring_unmap(r);
}

/*
 * More records wait than are moved at once, and the worker does not run for seconds: a failed entry
 * does not wait for ever, although the ring has room.
 */
TEST_F(clock, ring_failure_behind_many)
{
	const struct hwtimer_setup setup = {
		.flags = HWTIMER_SETUP_OWN_WHEEL,
		.clockid = CLOCK_REALTIME, .tick_ns = 3 * NSEC_PER_SEC, .slots = 512,
	};
	int fd = must_open(O_NONBLOCK), i, n = 0;
	struct hwtimer_setup arg = setup;
	struct hwtimer_record rec;
	struct ring *r;

	ASSERT_EQ(0, hwt_setup(fd, &arg));
	r = must_ring(fd, 256, 1024, 256);
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, hwt_schedule_id(fd, HWTIMER_CANCEL_ON_SET, HWTIMER_ID(i, 1),
					     HWTIMER_NEVER, i));
	must_step(HOUR);
	for (i = 0; i < 100; i++)
		ASSERT_EQ(-ENOENT, hwt_query(fd, HWTIMER_ID(i, 1), NULL, NULL));
	must_put(r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(200, 1), 0, 777);
	must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(201, 1), HWTIMER_NEVER, 778);
	must_enter(r);
	eventually((n += ring_reap(r, &rec, 1)) == 101);
	EXPECT_EQ(HWTIMER_KIND_FAILED, rec.kind);
	eventually(!ring_untaken(r));
	ring_close(r);
}

/* However many records are unread, and however many more come, that of a sentinel is read soon. */
TEST_F(clock, sentinel_first)
{
	struct hwtimer_record rec;
	int i;

	must_arm_at(self->fd, HWTIMER_CANCEL_ON_SET, HWTIMER_NEVER, 999);
	for (i = 0; i < 5; i++)
		must_arm_at(self->fd, 0, real_ns(), i);
	while (must_stats(self->fd).unread < 5)
		usleep(1000);
	must_step(HOUR);
	while (must_stats(self->fd).clock_set < 1)
		usleep(1000);
	ASSERT_EQ(1, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(HWTIMER_KIND_CLOCK_SET, rec.kind);
	EXPECT_EQ(999, rec.user_data);
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(1, hwt_read(self->fd, &rec, 1));
		EXPECT_EQ(HWTIMER_KIND_EXPIRED, rec.kind);
	}
}

TEST_HARNESS_MAIN
