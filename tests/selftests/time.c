// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disturbed time: the wall clock is set, the program or the whole guest is stopped for a while,
 * the worker is held off, a million timeouts are due at once. Nothing is early, and everything
 * expires once. For guests only, as it sets the clock.
 *
 * The program prints a request to be stopped, which scripts/guest/boot -s follows.
 */
#define _GNU_SOURCE
#include <sys/time.h>
#include <sys/timex.h>

#include "hwt_guest.h"
#include "ring.h"

/* Far more than expiries take, and far less than the steps of the wall clock. */
#define LATE_AT_MOST	(PATIENCE / 2)
#define HOUR		3600LL

/**
 * struct context - a descriptor and what is pending on it
 * @fd: the descriptor
 * @clock: its clock
 * @tick_ns: its tick
 * @ordered: timeouts expire in the order of their deadlines: the wheel has several levels, or a
 *	round that is longer than a test
 * @n: how many timeouts
 * @deadlines: of each
 * @ids: of each
 * @fired: when they expired; 0: not yet
 * @got: how many have expired
 * @armed: when the last of them had been armed
 * @latest: the latest deadline after @armed that has expired
 */
struct context {
	int fd;
	clockid_t clock;
	__u64 tick_ns;
	bool ordered;
	unsigned int n;
	__u64 *deadlines;
	__u64 *ids;
	__u64 *fired;
	unsigned int got;
	__u64 armed;
	__u64 latest;
};

/* Without @slots, a context on the shared wheel. */
static void open_context(struct context *c, clockid_t clock, __u32 slots, __u32 levels)
{
	struct hwtimer_setup setup = {
		.flags = slots ? HWTIMER_SETUP_OWN_WHEEL : 0, .clockid = clock,
		.tick_ns = slots ? NSEC_PER_MSEC : 0, .slots = slots, .levels = levels,
	};

	memset(c, 0, sizeof(*c));
	c->fd = must_open(O_NONBLOCK);
	c->clock = clock;
	if (hwt_setup(c->fd, &setup))
		die("setup: clock %d, %u slots", clock, slots);
	c->tick_ns = setup.tick_ns;
	/* All timeouts here are due within 16 s. */
	c->ordered = setup.tick_ns * setup.slots > 16 * NSEC_PER_SEC || levels != 1;
}

/* Arm @n timeouts, the first due in @from ns, and then one every @every ns. */
static void arm_all(struct context *c, unsigned int n, __u64 from, __u64 every)
{
	__u64 begin = clock_ns(c->clock) + from;
	unsigned int i, k;

	c->n = n;
	c->deadlines = must_alloc(n, sizeof(__u64));
	c->ids = must_alloc(n, sizeof(__u64));
	c->fired = must_alloc(n, sizeof(__u64));
	for (i = 0; i < n; i++) {
		/* In a shuffled order; 619 is a prime. */
		k = i * 619ULL % n;
		c->deadlines[k] = begin + k * every;
		if (hwt_schedule(c->fd, 0, c->deadlines[k], k, &c->ids[k], NULL))
			die("schedule");
	}
	c->armed = clock_ns(c->clock);
}

/* Read what has expired. */
static void take(struct context *c)
{
	struct hwtimer_record rec[64];
	__u64 now;
	int n, i;

	while ((n = hwt_read(c->fd, rec, ARRAY_SIZE(rec))) > 0) {
		now = clock_ns(c->clock);
		for (i = 0; i < n; i++) {
			struct hwtimer_record *r = &rec[i];

			if (r->kind != HWTIMER_KIND_EXPIRED || r->overruns || r->error ||
			    r->user_data >= c->n || r->id != c->ids[r->user_data] ||
			    r->deadline != c->deadlines[r->user_data])
				die("record: id %llx user_data %llu deadline %llu", r->id,
				    r->user_data, r->deadline);
			if (c->fired[r->user_data])
				die("number %llu: reported twice", r->user_data);
			if (r->fired < r->deadline || r->fired > now)
				die("number %llu: deadline %llu, fired %llu, now %llu",
				    r->user_data, r->deadline, r->fired, now);
			/* There is no order of deadlines within a tick. */
			if (c->ordered && r->deadline > c->armed &&
			    r->deadline + c->tick_ns <= c->latest)
				die("number %llu: after one due %llu ns later", r->user_data,
				    c->latest - r->deadline);
			if (r->deadline > c->armed && r->deadline > c->latest)
				c->latest = r->deadline;
			c->fired[r->user_data] = r->fired;
			c->got++;
		}
	}
	if (n != -EAGAIN)
		die("read: %d", n);
}

/* The longest delay. */
static __u64 most_late(const struct context *c)
{
	__u64 most = 0;
	unsigned int i;

	for (i = 0; i < c->n; i++)
		if (c->fired[i] - c->deadlines[i] > most)
			most = c->fired[i] - c->deadlines[i];
	return most;
}

/* Read until all have expired, and check the counters. */
static void take_the_rest(struct __test_metadata *_metadata, struct context *c)
{
	struct pollfd pfd = { .fd = c->fd, .events = POLLIN };
	__u64 end = now_ns() + PATIENCE;
	struct hwtimer_stats s;

	while (c->got < c->n) {
		ASSERT_GT(end, now_ns())
			TH_LOG("%u of %u expired", c->got, c->n);
		poll(&pfd, 1, 1000);
		take(c);
	}
	s = must_stats(c->fd);
	EXPECT_TRUE(balanced(&s));
	EXPECT_EQ(c->n, s.expired);
	EXPECT_EQ(0, s.pending + s.unread);
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

FIXTURE(clocks)
{
	struct context c[5];
};

FIXTURE_SETUP(clocks)
{
	open_context(&self->c[0], CLOCK_MONOTONIC, 0, 0);
	open_context(&self->c[1], CLOCK_MONOTONIC, 64, 1);
	open_context(&self->c[2], CLOCK_MONOTONIC, 64, 3);
	open_context(&self->c[3], CLOCK_BOOTTIME, 64, 1);
	open_context(&self->c[4], CLOCK_BOOTTIME, 64, 3);
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
	__u64 far[ARRAY_SIZE(self->c)], deadlines[ARRAY_SIZE(self->c)], deadline;
	unsigned int i, k;

	for (k = 0; k < ARRAY_SIZE(self->c); k++) {
		struct context *c = &self->c[k];

		ASSERT_EQ(0, hwt_schedule(c->fd, HWTIMER_RELATIVE, HOUR * NSEC_PER_SEC, ~0ULL,
					  &far[k], &deadlines[k]));
		arm_all(c, 300, 20 * NSEC_PER_MSEC, 7 * NSEC_PER_MSEC);
	}
	for (i = 0; i < ARRAY_SIZE(moves); i++) {
		moves[i].move(moves[i].by);
		EXPECT_TRUE(wall_is_off(moves[i].off))
			TH_LOG("move %u had no effect", i);
		for (k = 0; k < ARRAY_SIZE(self->c); k++) {
			ASSERT_EQ(0, hwt_query(self->c[k].fd, far[k], NULL, &deadline));
			EXPECT_EQ(deadlines[k], deadline);
			take(&self->c[k]);
		}
		wait_until(now_ns() + 250 * NSEC_PER_MSEC);
	}
	for (k = 0; k < ARRAY_SIZE(self->c); k++) {
		/* FAR is not over, whatever the wall clock says. */
		ASSERT_EQ(0, hwt_cancel(self->c[k].fd, far[k]));
		take_the_rest(_metadata, &self->c[k]);
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
		take_the_rest(_metadata, &self->c[k]);
}

/* Stopped by SIGSTOP: timeouts expire meanwhile, and are read afterwards. */
TEST(program_stopped)
{
	struct pollfd pfd[2];
	struct context c[2];
	pid_t child;
	int status;

	open_context(&c[0], CLOCK_MONOTONIC, 0, 0);
	open_context(&c[1], CLOCK_BOOTTIME, 256, 3);
	arm_all(&c[0], 2000, 500 * NSEC_PER_MSEC, NSEC_PER_MSEC);
	arm_all(&c[1], 2000, 500 * NSEC_PER_MSEC, NSEC_PER_MSEC);
	child = must_fork();
	if (!child) {
		raise(SIGSTOP);
		for (status = 0; status < 2; status++)
			pfd[status] = (struct pollfd){ .fd = c[status].fd, .events = POLLIN };
		while (c[0].got < c[0].n || c[1].got < c[1].n) {
			poll(pfd, 2, 1000);
			take(&c[0]);
			take(&c[1]);
		}
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	/* The parent has the same contexts, and does not read. */
	eventually(!must_stats(c[0].fd).pending && !must_stats(c[1].fd).pending);
	EXPECT_EQ(2000, must_stats(c[0].fd).unread);
	EXPECT_EQ(2000, must_stats(c[1].fd).unread);
	ASSERT_EQ(0, kill(child, SIGCONT));
	EXPECT_EQ(0, reap(child));
	EXPECT_EQ(0, must_stats(c[0].fd).unread + must_stats(c[1].fd).unread);
	close(c[0].fd);
	close(c[1].fd);
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
	struct context c[4];
};

FIXTURE_SETUP(guest)
{
	if (!getenv("guest_stop"))
		SKIP(return, "this machine cannot be stopped");
	open_context(&self->c[0], CLOCK_MONOTONIC, 0, 0);
	open_context(&self->c[1], CLOCK_MONOTONIC, 64, 1);
	open_context(&self->c[2], CLOCK_BOOTTIME, 16384, 1);
	open_context(&self->c[3], CLOCK_BOOTTIME, 64, 3);
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

		take_the_rest(_metadata, c);
		/*
		 * What became due during the stop expired after it; and there must have been some.
		 */
		for (late = 0, k = 0; k < c->n; k++)
			late += c->fired[k] - c->deadlines[k] > NSEC_PER_SEC / 2;
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
		take_the_rest(_metadata, &self->c[i]);
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

/* Very many on the device. */

#define MANY		quick_or(200000, 1000000)

static atomic_bool over;

/* A thread with a few timeouts on another wheel. */
struct bystander {
	unsigned int expired;
	__u64 most_late;
};

static void *stand_by(void *arg)
{
	struct bystander *b = arg;
	struct hwtimer_record rec;
	int fd = must_open(0);

	while (!atomic_load(&over)) {
		must_schedule(fd, 2 * NSEC_PER_MSEC, 0);
		if (hwt_collect(fd, &rec, 1) != 1 || rec.fired < rec.deadline)
			die("no record, or early");
		if (now_ns() - rec.deadline > b->most_late)
			b->most_late = now_ns() - rec.deadline;
		b->expired++;
	}
	close(fd);
	return NULL;
}

/* Arm @n for @due. Returns how many were armed before @tick. */
static unsigned int arm_many(int fd, unsigned int n, __u64 due, __u64 tick)
{
	unsigned int i, in_time = 0;
	int ret;

	for (i = 0; i < n; i++) {
		ret = hwt_schedule(fd, 0, due, i, NULL, NULL);
		if (ret)
			die("number %u: %d", i, ret);
		if (now_ns() < tick)
			in_time = i + 1;
	}
	return in_time;
}

/* All at one tick, on a wheel whose tick is long enough to arm most of them in the first one. */
TEST(million)
{
	struct hwtimer_record *rec = must_alloc(4096, sizeof(*rec));
	unsigned char *seen = must_alloc(MANY, 1);
	struct bystander bystander = { 0 };
	unsigned int got = 0, in_time;
	__u64 began, deadline, took, tick_ns, last = 0;
	struct pollfd pfd;
	pthread_t thread;
	int fd, n, i;

	/* Measure how long arming takes. */
	fd = must_open(0);
	began = now_ns();
	arm_many(fd, MANY / 40, began + FAR, 0);
	took = now_ns() - began;
	close(fd);
	tick_ns = 80 * took < 20 * NSEC_PER_SEC ? 80 * took : 20 * NSEC_PER_SEC;

	fd = must_open(O_NONBLOCK);
	pfd = (struct pollfd){ .fd = fd, .events = POLLIN };
	began = now_ns();
	ASSERT_EQ(0, hwt_own_wheel(fd, tick_ns, 64, 0));
	/* In the first tick; the wheel knows no deadline before its own beginning. */
	deadline = now_ns();
	in_time = arm_many(fd, MANY, deadline, began + tick_ns);
	/* The rest expires a tick later. */
	start(&thread, stand_by, &bystander);
	while (got < MANY) {
		ASSERT_LT(0, poll(&pfd, 1, PATIENCE / NSEC_PER_MSEC))
			TH_LOG("%u have expired", got);
		while ((n = hwt_read(fd, rec, 4096)) > 0) {
			for (i = 0; i < n; i++) {
				if (rec[i].user_data >= MANY || seen[rec[i].user_data]++)
					die("number %llu: reported twice", rec[i].user_data);
				if (!valid_record(&rec[i], HWTIMER_KIND_EXPIRED) ||
				    rec[i].deadline != deadline || rec[i].fired < began + tick_ns)
					die("number %llu: deadline %llu, fired %llu",
					    rec[i].user_data, rec[i].deadline, rec[i].fired);
				last = rec[i].fired;
			}
			got += n;
		}
		ASSERT_EQ(-EAGAIN, n);
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	printf("# %u in a tick of %llu ms, all read %llu ms later; others: %u, late by %llu us\n",
	       in_time, tick_ns / NSEC_PER_MSEC, (last - began - tick_ns) / NSEC_PER_MSEC,
	       bystander.expired,
	       bystander.most_late / NSEC_PER_USEC);
	EXPECT_LT(0, bystander.expired);
	EXPECT_GT(LATE_AT_MOST, bystander.most_late);
	EXPECT_STATS(fd, .scheduled = MANY, .expired = MANY);
	close(fd);
	free(rec);
	free(seen);
}

TEST_HARNESS_MAIN
