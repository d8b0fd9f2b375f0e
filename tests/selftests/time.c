// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disturbed time: the wall clock is set, the program or the whole guest is stopped for a while, the
 * worker of a module's wheel is held off. Nothing is early, and everything expires once. For guests
 * only, as it sets the clock.
 *
 * The program prints a request to be stopped, which scripts/guest/boot -s follows.
 */
#include "calls.h"

#include <sys/time.h>
#include <sys/timex.h>

#include <libhwtimer.h>

/* Far more than expiries take, and far less than the steps of the wall clock. */
#define LATE_AT_MOST	(PATIENCE / 2)
#define HOUR		3600LL

/* The length of a unit of the library's deadlines. */
#define UNIT		65536

enum ground {
	CALLS,		/* a context by calls */
	TABLE,		/* a handle of the library on the device */
	PROCESS,	/* a handle in the process */
};

/**
 * struct context - what timeouts are pending on
 * @fd: to poll
 * @handle: NULL: a context by calls
 * @clock: its clock
 * @tick_ns: its tick
 * @ordered: timeouts come in the order of ticks. In a table not if the program is late: what is due
 *	may come before other slots that were pushed, and at which the kernel has yet to look
 * @n: how many timeouts
 * @deadlines: of each
 * @ids: of each
 * @taken: when they were taken; 0: not yet
 * @got: how many were taken
 * @armed: when the last of them had been armed
 * @latest: the latest deadline after @armed that was taken
 */
struct context {
	int fd;
	struct hwtimer *handle;
	clockid_t clock;
	__u64 tick_ns;
	bool ordered;
	unsigned int n;
	__u64 *deadlines;
	__u64 *ids;
	__u64 *taken;
	unsigned int got;
	__u64 armed;
	__u64 latest;
};

static void open_context(struct context *c, clockid_t clock, enum ground ground)
{
	struct hwtimer_setup setup = { .clockid = clock };
	struct hwtimer_options options = {
		.size = sizeof(options),
		.flags = (ground == PROCESS ? HWTIMER_OPEN_PROCESS : HWTIMER_OPEN_DEVICE) |
			 (clock == CLOCK_BOOTTIME ? HWTIMER_OPEN_BOOTTIME : 0),
	};

	*c = (struct context){ .clock = clock, .ordered = ground != TABLE };
	if (ground == CALLS) {
		c->fd = must_open(O_NONBLOCK);
		if (ioctl(c->fd, HWTIMER_IOC_SETUP, &setup))
			die("SETUP: %s", strerror(errno));
		c->tick_ns = setup.tick_ns;
	} else {
		if (hwtimer_open(&c->handle, &options))
			die("hwtimer_open");
		c->fd = hwtimer_fd(c->handle);
		c->tick_ns = hwtimer_tick_ns(c->handle);
	}
}

static __u64 arm_at(struct context *c, __u64 deadline, __u64 user_data)
{
	struct hwtimer_schedule s = { .time = deadline, .user_data = user_data };
	hwtimer_id id;
	int ret;

	if (c->handle) {
		ret = hwtimer_schedule_at(c->handle, deadline, user_data, &id);
	} else {
		ret = hwt_ioctl(c->fd, HWTIMER_IOC_SCHEDULE, &s);
		id = s.id;
	}
	if (ret)
		die("schedule: %d", ret);
	return id;
}

/* Arm @n timeouts, the first due in @from ns, and then one every @every ns. */
static void arm_all(struct context *c, unsigned int n, __u64 from, __u64 every)
{
	__u64 begin = clock_ns(c->clock) + from;
	unsigned int i, k;

	c->n = n;
	c->deadlines = must_alloc(n, sizeof(__u64));
	c->ids = must_alloc(n, sizeof(__u64));
	c->taken = must_alloc(n, sizeof(__u64));
	for (i = 0; i < n; i++) {
		/* In a shuffled order; 619 is a prime. */
		k = i * 619ULL % n;
		c->deadlines[k] = begin + k * every;
		c->ids[k] = arm_at(c, c->deadlines[k], k);
	}
	c->armed = clock_ns(c->clock);
}

/* 1: an event; 0: there is none. */
static int take_one(struct context *c, struct hwtimer_event *e)
{
	struct hwtimer_record r;
	int ret;

	if (c->handle)
		return hwtimer_wait(c->handle, e, 0);
	ret = calls_read(c->fd, &r, 1);
	*e = (struct hwtimer_event){ r.id, r.user_data, r.deadline_ns, r.taken_ns, r.overruns,
				     r.kind, r.pad };
	return ret == -EAGAIN ? 0 : ret;
}

/* Take what has expired. */
static void take(struct context *c)
{
	struct hwtimer_event e;
	__u64 now, k;
	int ret;

	while ((ret = take_one(c, &e)) > 0) {
		now = clock_ns(c->clock);
		k = e.user_data;
		if (k >= c->n || e.id != c->ids[k] || e.kind || e.overruns || e.pad ||
		    e.deadline_ns < c->deadlines[k] || e.deadline_ns >= c->deadlines[k] + UNIT)
			die("event: id %llx, number %llu, deadline %llu", (__u64)e.id, k,
			    (__u64)e.deadline_ns);
		if (c->taken[k])
			die("number %llu: twice", k);
		if (e.taken_ns < e.deadline_ns || e.taken_ns > now)
			die("number %llu: deadline %llu, taken %llu, now %llu", k,
			    (__u64)e.deadline_ns, (__u64)e.taken_ns, now);
		/* There is no order of deadlines within a tick. */
		if (c->ordered && e.deadline_ns > c->armed &&
		    e.deadline_ns + c->tick_ns <= c->latest)
			die("number %llu: after one due %llu ns later", k,
			    c->latest - e.deadline_ns);
		if (e.deadline_ns > c->armed && e.deadline_ns > c->latest)
			c->latest = e.deadline_ns;
		c->taken[k] = e.taken_ns;
		c->got++;
	}
	if (ret)
		die("take: %d", ret);
}

/* The longest delay. */
static __u64 most_late(const struct context *c)
{
	__u64 most = 0;
	unsigned int i;

	for (i = 0; i < c->n; i++)
		if (c->taken[i] - c->deadlines[i] > most)
			most = c->taken[i] - c->deadlines[i];
	return most;
}

/* Take until all have expired. */
static void take_the_rest(struct context *c)
{
	__u64 end = now_ns() + PATIENCE;

	while (c->got < c->n) {
		if (now_ns() > end)
			die("%u of %u expired", c->got, c->n);
		poll_in(c->fd, 1000);
		take(c);
	}
	if (poll_in(c->fd, 0))
		die("more than %u", c->n);
}

/* Ways to move the wall clock, and how to restore it. */

static __u64 wall_offset;

static void set_wall(long long by)
{
	__u64 ns = wall_offset + now_ns() + by * (long long)NSEC_PER_SEC;
	struct timespec ts = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };

	if (clock_settime(CLOCK_REALTIME, &ts))
		die("clock_settime: %s", strerror(errno));
}

static void set_time_of_day(long long by)
{
	__u64 ns = wall_offset + now_ns() + by * (long long)NSEC_PER_SEC;
	struct timeval tv = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC / 1000 };

	if (settimeofday(&tv, NULL))
		die("settimeofday: %s", strerror(errno));
}

static void step_wall(long long by)
{
	struct timex tx = { .modes = ADJ_SETOFFSET, .time = { by, 0 } };

	if (adjtimex(&tx) < 0)
		die("adjtimex: %s", strerror(errno));
}

/* Is the wall clock about @by seconds off? */
static bool wall_is_off(long long by)
{
	long long off = (long long)(clock_ns(CLOCK_REALTIME) - now_ns() - wall_offset) -
			by * (long long)NSEC_PER_SEC;

	return llabs(off) < (long long)LATE_AT_MOST;
}

/* Let the clock run faster or slower; 0: normally. */
static void set_speed(long percent)
{
	struct timex tx = { .modes = ADJ_TICK };

	tx.tick = 1000000 / sysconf(_SC_CLK_TCK);
	tx.tick += tx.tick * percent / 100;
	if (adjtimex(&tx) < 0)
		die("adjtimex: %s", strerror(errno));
}

/* One of each kind, on each clock. */
static void open_contexts(struct context c[6])
{
	unsigned int i;

	for (i = 0; i < 6; i++)
		open_context(&c[i], i < 3 ? CLOCK_MONOTONIC : CLOCK_BOOTTIME, i % 3);
}

FIXTURE(clocks)
{
	struct context c[6];
};

FIXTURE_SETUP(clocks)
{
	open_contexts(self->c);
	wall_offset = clock_ns(CLOCK_REALTIME) - now_ns();
}

FIXTURE_TEARDOWN(clocks)
{
	set_speed(0);
	set_wall(0);
}

/* Set by hours, forward and back, with timeouts pending: these are not affected. */
TEST_F(clocks, set)
{
	static const struct {
		void (*move)(long long by);
		long long by, off;
	} moves[] = {
		{ set_wall, 5 * HOUR, 5 * HOUR }, { set_wall, -3 * HOUR, -3 * HOUR },
		{ set_time_of_day, 24 * HOUR, 24 * HOUR }, { set_time_of_day, -HOUR, -HOUR },
		{ step_wall, 7 * HOUR, 6 * HOUR }, { step_wall, -12 * HOUR, -6 * HOUR },
		{ set_wall, 0, 0 },
	};
	unsigned int i, k;

	for (k = 0; k < ARRAY_SIZE(self->c); k++) {
		struct context *c = &self->c[k];

		/* It does not come, whatever the wall clock says. */
		arm_at(c, clock_ns(c->clock) + FAR, ~0ULL);
		arm_all(c, 300, 20 * NSEC_PER_MSEC, 7 * NSEC_PER_MSEC);
	}
	for (i = 0; i < ARRAY_SIZE(moves); i++) {
		moves[i].move(moves[i].by);
		EXPECT_TRUE(wall_is_off(moves[i].off))
			TH_LOG("move %u had no effect", i);
		for (k = 0; k < ARRAY_SIZE(self->c); k++)
			take(&self->c[k]);
		wait_until(now_ns() + 250 * NSEC_PER_MSEC);
	}
	for (k = 0; k < ARRAY_SIZE(self->c); k++) {
		take_the_rest(&self->c[k]);
		EXPECT_GT(LATE_AT_MOST, most_late(&self->c[k]));
	}
}

/* A tenth faster and slower, the limits of adjtimex(): this affects the wheels' clocks, too. */
TEST_F(clocks, speed)
{
	unsigned int i, k;

	for (k = 0; k < ARRAY_SIZE(self->c); k++)
		arm_all(&self->c[k], 300, 20 * NSEC_PER_MSEC, 5 * NSEC_PER_MSEC);
	for (i = 0; i < 8; i++) {
		set_speed(i % 2 ? -10 : 10);
		wait_until(now_ns() + 180 * NSEC_PER_MSEC);
		for (k = 0; k < ARRAY_SIZE(self->c); k++)
			take(&self->c[k]);
	}
	for (k = 0; k < ARRAY_SIZE(self->c); k++)
		take_the_rest(&self->c[k]);
}

/* Stopped by SIGSTOP: what becomes due meanwhile is taken afterwards. */
TEST(program_stopped)
{
	struct context c[6];
	pid_t child;
	int status;

	child = must_fork();
	if (!child) {
		open_contexts(c);
		for (status = 0; status < 6; status++)
			arm_all(&c[status], 2000, 500 * NSEC_PER_MSEC, NSEC_PER_MSEC);
		raise(SIGSTOP);
		for (status = 0; status < 6; status++)
			take_the_rest(&c[status]);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	wait_until(now_ns() + 3 * NSEC_PER_SEC);
	ASSERT_EQ(0, kill(child, SIGCONT));
	EXPECT_EQ(0, reap(child));
}

#define RTC	"/sys/class/rtc/rtc0/since_epoch"

static __u64 rtc_ns(void)
{
	return must_number(RTC, NULL) * NSEC_PER_SEC;
}

#define STOP_SECONDS	4
/* Distinguishes a stop from a busy host. */
#define STOP_SEEN	(STOP_SECONDS * NSEC_PER_SEC - 3 * NSEC_PER_SEC / 2)

FIXTURE(guest)
{
	struct context c[6];
};

FIXTURE_SETUP(guest)
{
	if (!getenv("guest_stop"))
		SKIP(return, "this machine cannot be stopped");
	open_contexts(self->c);
}

FIXTURE_TEARDOWN(guest)
{
}

static void arm_and_ask(struct context *c, unsigned int n, const char *how)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		arm_all(&c[i], 2500, 300 * NSEC_PER_MSEC, 5 * NSEC_PER_MSEC / 2);
	printf("# guest-stop %s %d s\n", how, STOP_SECONDS);
	fflush(stdout);
}

/* QEMU is stopped, but the clock of its processor goes on: time jumps when it continues. */
TEST_F(guest, process_stopped)
{
	__u64 before, now = now_ns(), end = now + PATIENCE;
	unsigned int i, k, late;

	arm_and_ask(self->c, ARRAY_SIZE(self->c), "process");
	do {
		before = now;
		now = now_ns();
		ASSERT_GT(end, now)
			TH_LOG("not stopped");
	} while (now - before < STOP_SEEN);
	printf("# the clock jumped by %llu ms\n", (now - before) / NSEC_PER_MSEC);
	for (i = 0; i < ARRAY_SIZE(self->c); i++) {
		struct context *c = &self->c[i];

		take_the_rest(c);
		/*
		 * What became due during the stop expired after it; and there must have been some.
		 */
		for (late = 0, k = 0; k < c->n; k++)
			late += c->taken[k] - c->deadlines[k] > NSEC_PER_SEC / 2;
		EXPECT_LT(100, late);
		EXPECT_GT(now - before + LATE_AT_MOST, most_late(c));
		printf("# %u of %u late, by %llu ms at the most\n", late, c->n,
		       most_late(c) / NSEC_PER_MSEC);
	}
}

/*
 * The virtual machine is stopped: all its clocks stand still, except that of the RTC. Promise 12.
 */
TEST_F(guest, machine_stopped)
{
	__u64 offset, end = now_ns() + PATIENCE;
	unsigned int i;

	if (access(RTC, R_OK))
		SKIP(return, "no clock to measure it by: " RTC);
	offset = rtc_ns() - now_ns();
	arm_and_ask(self->c, ARRAY_SIZE(self->c), "machine");
	while ((long long)(rtc_ns() - now_ns() - offset) < (long long)STOP_SEEN) {
		ASSERT_GT(end, now_ns())
			TH_LOG("not stopped");
		usleep(10000);
		for (i = 0; i < ARRAY_SIZE(self->c); i++)
			take(&self->c[i]);
	}
	for (i = 0; i < ARRAY_SIZE(self->c); i++)
		take_the_rest(&self->c[i]);
}

/* The worker is held off, from inside the kernel. */

/* A callback takes seconds. */
TEST(held)
{
	EXPECT_EQ(0, run_guest("held", "monotonic", ""));
}

/* Interrupts are disabled for a second, on all CPUs. */
TEST(irqs_off)
{
	EXPECT_EQ(0, run_guest("irqs_off", "monotonic", ""));
}

/* Very many callbacks; other threads still run. */
TEST(burst)
{
	const char *timeouts = getenv("THOROUGH") ? "timeouts=1000000" : "timeouts=100000";

	EXPECT_EQ(0, run_guest("burst", "monotonic", timeouts));
}

TEST_HARNESS_MAIN
