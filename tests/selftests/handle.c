// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhwtimer on /dev/hwtimer and in the process: every function and every error; that no
 * event is early, lost or reported twice, in any order of calls and from any thread; and what
 * others can do to it. (tests/native has random operations, and threads on real processors.)
 */
#include "library.h"

#include <sys/mount.h>
#include <sys/resource.h>

#include "../../lib/table.h"

FIXTURE(handle)
{
	struct hwtimer *h;
};

FIXTURE_VARIANT(handle)
{
	unsigned int flags;
};

FIXTURE_VARIANT_ADD(handle, one) { 0 };
FIXTURE_VARIANT_ADD(handle, threads) { HWTIMER_OPEN_THREADS };
FIXTURE_VARIANT_ADD(handle, process) { HWTIMER_OPEN_PROCESS };
FIXTURE_VARIANT_ADD(handle, process_threads) { HWTIMER_OPEN_PROCESS | HWTIMER_OPEN_THREADS };

FIXTURE_SETUP(handle)
{
	self->h = MUST_OPEN(variant->flags);
}

FIXTURE_TEARDOWN(handle)
{
	hwtimer_close(self->h);
}

/* What only handles on the device have. */
FIXTURE(device)
{
	struct hwtimer *h;
};

ON_DEVICE(device);

FIXTURE_SETUP(device)
{
	self->h = MUST_OPEN(variant->flags);
}

FIXTURE_TEARDOWN(device)
{
	hwtimer_close(self->h);
}

/* What opens its own handles, for several threads. */
FIXTURE(ground)
{
};

FIXTURE_VARIANT(ground)
{
	unsigned int flags;
};

FIXTURE_VARIANT_ADD(ground, device) { HWTIMER_OPEN_DEVICE | HWTIMER_OPEN_THREADS };
FIXTURE_VARIANT_ADD(ground, process) { HWTIMER_OPEN_PROCESS | HWTIMER_OPEN_THREADS };

FIXTURE_SETUP(ground)
{
}

FIXTURE_TEARDOWN(ground)
{
}

static struct hwtimer_stats stats(struct hwtimer *h)
{
	struct hwtimer_stats s;

	if (hwtimer_stats(h, &s, sizeof(s)))
		die("hwtimer_stats");
	return s;
}

/* Another mapping of the first page of a handle's table. */
static struct hwtimer_table *must_map(struct hwtimer *h)
{
	return must_mmap(sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, hwtimer_fd(h));
}

TEST_F(handle, what_it_says)
{
	__u64 before = now_ns(), now = hwtimer_now(self->h);

	EXPECT_LE(before, now);
	EXPECT_GE(now_ns(), now);
	EXPECT_LE(NSEC_PER_MSEC, hwtimer_tick_ns(self->h));
	EXPECT_GE(NSEC_PER_MSEC + UNIT, hwtimer_tick_ns(self->h));
	EXPECT_EQ(FD_CLOEXEC, fcntl(hwtimer_fd(self->h), F_GETFD));
	EXPECT_EQ(0, poll_in(hwtimer_fd(self->h), 0));
	EXPECT_EQ(!!(variant->flags & HWTIMER_OPEN_PROCESS), hwtimer_in_process(self->h));
}

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

TEST(options)
{
	int files = open_files();
	struct {
		struct hwtimer_options o;
		__u64 more;
	} later = { .o = { .size = sizeof(later) } };
	struct hwtimer_options o = { .size = sizeof(o) };
	struct hwtimer *h = (void *)1;

	o.device = "/dev/null";
	EXPECT_EQ(-ENOTTY, hwtimer_open(&h, &o));
	EXPECT_EQ(NULL, h);
	o.device = "/dev/none";
	EXPECT_EQ(-ENOENT, hwtimer_open(&h, &o));
	o.device = NULL;
	o.flags = 32;
	EXPECT_EQ(-EINVAL, hwtimer_open(&h, &o));
	o.flags = HWTIMER_OPEN_DEVICE | HWTIMER_OPEN_PROCESS;
	EXPECT_EQ(-EINVAL, hwtimer_open(&h, &o));
	o.flags = HWTIMER_OPEN_DEVICE | HWTIMER_OPEN_VIRTUAL;
	EXPECT_EQ(-EINVAL, hwtimer_open(&h, &o));
	o.flags = 0;
	o.timeouts = HWTIMER_MAX_SLOTS;
	EXPECT_EQ(-EINVAL, hwtimer_open(&h, &o));
	o.timeouts = HWTIMER_MAX_SLOTS - 1;
	EXPECT_EQ(0, hwtimer_open(&h, &o));
	hwtimer_close(h);
	o.timeouts = 0;
	o.tick_ns = 1;
	EXPECT_EQ(-EINVAL, hwtimer_open(&h, &o));
	o.size = sizeof(size_t) - 1;
	EXPECT_EQ(-EINVAL, hwtimer_open(&h, &o));
	/* All but the size is left out. */
	o.size = sizeof(size_t);
	EXPECT_EQ(0, hwtimer_open(&h, &o));
	hwtimer_close(h);
	later.o.tick_ns = 10 * NSEC_PER_MSEC;
	later.o.flags = HWTIMER_OPEN_BOOTTIME;
	ASSERT_EQ(0, hwtimer_open(&h, &later.o));
	EXPECT_LE(10 * NSEC_PER_MSEC, hwtimer_tick_ns(h));
	EXPECT_LE(now_ns(), hwtimer_now(h) + 1);
	hwtimer_close(h);
	later.more = 1;
	EXPECT_EQ(-E2BIG, hwtimer_open(&h, &later.o));
	EXPECT_EQ(NULL, h);
	hwtimer_close(NULL);
	EXPECT_EQ(files, open_files());
}

/* What SETUP refuses and rounds, handles in the process do, too. */
TEST(options_in_process)
{
	static const struct {
		__u64 tick_ns, slack_ns;
	} times[] = {
		{ 0, 0 }, { 131072, 0 }, { 131073, 1 }, { 10 * NSEC_PER_SEC, 1ULL << 40 },
		{ 1000000, 999999 }, { 1000000, 3145728 }, { 1000000, 3145727 }, { 131071, 0 },
		{ 10 * NSEC_PER_SEC + 1, 0 }, { 0, (1ULL << 40) + 1 }, { ~0ULL, ~0ULL },
	};
	struct hwtimer_options o = { .size = sizeof(o) };
	struct hwtimer *device, *process;
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(times); i++) {
		o.tick_ns = times[i].tick_ns;
		o.slack_ns = times[i].slack_ns;
		o.flags = HWTIMER_OPEN_DEVICE;
		ret = hwtimer_open(&device, &o);
		o.flags = HWTIMER_OPEN_PROCESS;
		ASSERT_EQ(ret, hwtimer_open(&process, &o));
		if (ret)
			continue;
		ASSERT_EQ(hwtimer_tick_ns(device), hwtimer_tick_ns(process));
		hwtimer_close(device);
		hwtimer_close(process);
	}
}

/* Returns how opening the default device ends, as a status of wait(2): 99: in the process. */
static int child_open(unsigned int flags, const char *device)
{
	struct hwtimer_options o = { .size = sizeof(o), .flags = flags, .device = device };
	struct hwtimer *h;
	pid_t pid;
	int ret;

	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", "/dev", "tmpfs", 0, NULL))
			_exit(98);
		ret = hwtimer_open(&h, &o);
		if (ret)
			_exit(-ret);
		if (!hwtimer_in_process(h) || hwtimer_schedule(h, 0, 7, NULL) ||
		    must_wait(h).user_data != 7)
			_exit(97);
		hwtimer_close(h);
		_exit(99);
	}
	return reap(pid);
}

TEST(without_device)
{
	EXPECT_EQ(99, child_open(0, NULL));
	EXPECT_EQ(99, child_open(HWTIMER_OPEN_PROCESS, NULL));
	EXPECT_EQ(ENOENT, child_open(HWTIMER_OPEN_DEVICE, NULL));
	EXPECT_EQ(ENOENT, child_open(0, "/dev/hwtimer"));
}

#define HUGE_PAGES	"/sys/kernel/mm/transparent_hugepage/enabled"

static __u64 huge_kib(void)
{
	return must_number("/proc/self/smaps_rollup", "AnonHugePages");
}

/* A handle has address space for many timeouts, but no memory before it has them. */
TEST_F(handle, no_huge_pages)
{
	struct hwtimer_options o = {
		.flags = variant->flags, .timeouts = HWTIMER_MAX_SLOTS - 2,
	};
	__u64 before;
	char *mode;

	if (access(HUGE_PAGES, F_OK))
		SKIP(return, "no huge pages");
	/* "always [madvise] never" */
	mode = strchr(must_slurp(HUGE_PAGES), '[') + 1;
	*strchr(mode, ']') = 0;
	ASSERT_EQ(0, write_file(HUGE_PAGES, "always"));
	before = huge_kib();
	hwtimer_close(self->h);
	self->h = must_open(o);
	EXPECT_EQ(0, hwtimer_schedule(self->h, FAR, 1, NULL));
	EXPECT_EQ(before, huge_kib());
	ASSERT_EQ(0, write_file(HUGE_PAGES, mode));
}

TEST_F(handle, expires)
{
	struct hwtimer_event e;
	hwtimer_id id = 0;
	__u64 deadline = hwtimer_now(self->h) + 5 * NSEC_PER_MSEC;

	ASSERT_EQ(0, hwtimer_wait(self->h, &e, 0));
	ASSERT_EQ(0, hwtimer_schedule_at(self->h, deadline, 1234, &id));
	ASSERT_NE(0, id);
	ASSERT_EQ(1, stats(self->h).pending);
	e = must_wait(self->h);
	EXPECT_EQ(id, e.id);
	EXPECT_EQ(1234, e.user_data);
	EXPECT_EQ(ROUND_UP(deadline), e.deadline_ns);
	EXPECT_EQ(0, e.overruns);
	EXPECT_EQ(HWTIMER_KIND_EXPIRED, e.kind);
	EXPECT_EQ(0, hwtimer_wait(self->h, &e, NSEC_PER_MSEC));
	EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, id));
	EXPECT_EQ(0, stats(self->h).pending);
	/* Now and past, never, and without an id. */
	ASSERT_EQ(0, hwtimer_schedule_at(self->h, HWTIMER_NEVER, 2, NULL));
	ASSERT_EQ(0, hwtimer_schedule(self->h, HWTIMER_NEVER - 1, 2, NULL));
	ASSERT_EQ(0, hwtimer_schedule_at(self->h, 0, 3, NULL));
	EXPECT_EQ(3, must_wait(self->h).user_data);
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 4, NULL));
	EXPECT_EQ(4, must_wait(self->h).user_data);
	EXPECT_EQ(0, poll_in(hwtimer_fd(self->h), 0));
	EXPECT_EQ(2, stats(self->h).pending);
}

/* By a program that never sleeps, and never polls. */
TEST_F(handle, without_waiting)
{
	struct hwtimer_event e;
	unsigned int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, i * 3 * NSEC_PER_MSEC, i, NULL));
	for (i = 0; i < 3; i++) {
		while (hwtimer_wait(self->h, &e, 0) == 0)
			;
		ASSERT_EQ(i, e.user_data);
	}
}

/* With a slack, ticks are looked at together, and never early. */
TEST_F(handle, slack)
{
	struct hwtimer *h = MUST_OPEN(variant->flags, .slack_ns = 64 * NSEC_PER_MSEC);
	const __u64 tick = hwtimer_tick_ns(h), step = 32 * tick;
	__u64 base = (hwtimer_now(h) / step + 2) * step;
	struct hwtimer_event e;
	int i;

	/* One after the other, for ticks that share a look, which is at the end of the slack. */
	for (i = 1; i < 32; i++)
		ASSERT_EQ(0, hwtimer_schedule_at(h, base + i * tick, i, NULL));
	for (i = 1; i < 32; i++) {
		e = must_wait(h);
		ASSERT_LE(base + step, e.taken_ns);
	}
	hwtimer_close(h);
}

/* The clock is read for several events at once, but not for those that come later. */
TEST_F(handle, taken)
{
	struct hwtimer_event e;
	__u64 before;
	int i;

	for (i = 0; i < 3; i++) {
		before = hwtimer_now(self->h);
		ASSERT_EQ(0, hwtimer_schedule_at(self->h, 0, 1, NULL));
		ASSERT_EQ(0, hwtimer_schedule_at(self->h, 0, 2, NULL));
		e = must_wait(self->h);
		ASSERT_LE(before, e.taken_ns);
		e = must_wait(self->h);
		ASSERT_LE(before, e.taken_ns);
		ASSERT_GE(hwtimer_now(self->h), e.taken_ns);
		ASSERT_EQ(0, hwtimer_wait(self->h, &e, 0));
	}
}

/* What is done about an event holds for the next one: of two that are due, one ends the other. */
TEST_F(handle, one_event_at_a_time)
{
	struct hwtimer_event e;
	hwtimer_id id[2];
	int i, round;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < 2; i++)
			ASSERT_EQ(0, hwtimer_schedule_at(self->h, 0, i, &id[i]));
		wait_until(now_ns() + 3 * NSEC_PER_MSEC);
		i = must_wait(self->h).id == id[0];
		ASSERT_EQ(0, round ? hwtimer_cancel(self->h, id[i]) :
				     hwtimer_touch(self->h, id[i], FAR));
		ASSERT_EQ(0, hwtimer_wait(self->h, &e, 0));
	}
}

/* A periodic timeout goes on, even if another one was found due before it. */
TEST_F(handle, periodic_among_others)
{
	struct hwtimer_repeat r = {
		.first_ns = now_ns(), .period_ns = 5 * NSEC_PER_MSEC,
		.policy = HWTIMER_MISFIRE_MAKE_UP,
	};
	int i, periodic = 0;

	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 1, NULL));
	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 2, NULL));
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 1, NULL));
	for (i = 0; i < 5; i++)
		periodic += must_wait(self->h).user_data == 2;
	ASSERT_EQ(3, periodic);
}

TEST_F(handle, touch)
{
	struct hwtimer_event e;
	hwtimer_id later, sooner, due;

	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 1, &later));
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 2, &sooner));
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 3, &due));
	ASSERT_EQ(0, hwtimer_touch(self->h, later, 30 * NSEC_PER_MSEC));
	/* This one has expired, as far as the kernel is concerned. */
	ASSERT_EQ(POLLIN, poll_in(hwtimer_fd(self->h), -1));
	ASSERT_EQ(0, hwtimer_touch(self->h, due, FAR));
	ASSERT_EQ(0, hwtimer_wait(self->h, &e, 0));
	ASSERT_EQ(0, hwtimer_touch(self->h, sooner, 0));
	EXPECT_EQ(2, must_wait(self->h).user_data);
	EXPECT_EQ(1, must_wait(self->h).user_data);
	EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, sooner, 0));
	EXPECT_EQ(-ENOENT, hwtimer_touch_at(self->h, later, 0));
	ASSERT_EQ(0, hwtimer_touch_at(self->h, due, 0));
	EXPECT_EQ(3, must_wait(self->h).user_data);
}

TEST_F(handle, cancel)
{
	struct hwtimer_event e;
	hwtimer_id id[3], again;
	int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, i == 1 ? FAR : 0, i, &id[i]));
	ASSERT_EQ(POLLIN, poll_in(hwtimer_fd(self->h), -1));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, hwtimer_cancel(self->h, id[i]));
		ASSERT_EQ(-ENOENT, hwtimer_cancel(self->h, id[i]));
	}
	ASSERT_EQ(0, hwtimer_wait(self->h, &e, 0));
	ASSERT_EQ(0, poll_in(hwtimer_fd(self->h), 0));
	/* The same slot, but another timeout. */
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 9, &again));
	for (i = 0; i < 3; i++) {
		ASSERT_NE(id[i], again);
		ASSERT_EQ(-ENOENT, hwtimer_cancel(self->h, id[i]));
		ASSERT_EQ(-ENOENT, hwtimer_touch(self->h, id[i], 0));
	}
	ASSERT_EQ(0, hwtimer_cancel(self->h, again));
}

TEST_F(handle, no_such_timeout)
{
	struct hwtimer_state s;
	hwtimer_id id, none;
	unsigned int i;

	EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, 0));
	EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, 0, FAR));
	EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, ~0ULL));
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &id));
	for (i = 0; i < 64; i++) {
		none = id ^ 1ULL << i;
		ASSERT_EQ(-ENOENT, hwtimer_cancel(self->h, none));
		ASSERT_EQ(-ENOENT, hwtimer_touch(self->h, none, 0));
		ASSERT_EQ(-ENOENT, hwtimer_touch(self->h, none, 2 * FAR));
		ASSERT_EQ(-ENOENT, hwtimer_query(self->h, none, &s));
	}
	ASSERT_EQ(0, hwtimer_cancel(self->h, id));
	ASSERT_EQ(-ENOENT, hwtimer_touch(self->h, id, 2 * FAR));
	ASSERT_EQ(-ENOENT, hwtimer_cancel(self->h, id));
}

/* A slot is used again and again: no id comes back, nor does the arming get to 0. */
TEST_F(handle, generations)
{
	const unsigned int n = quick_or(3U << 18, 3U << 20);
	hwtimer_id id, first, last = 0;
	unsigned int i;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &first));
	ASSERT_EQ(0, hwtimer_cancel(self->h, first));
	for (i = 0; i < n; i++) {
		ASSERT_EQ(0, hwtimer_schedule_at(self->h, i % 2 ? FAR : HWTIMER_NEVER, i, &id));
		ASSERT_LT(last, id);
		ASSERT_EQ((id ^ first) & 0xffffff, 0);
		/* The 64th one has the same lower half of an id as the first one. */
		if (i % (1 << 16) == 0 || i == 63) {
			ASSERT_EQ(-ENOENT, hwtimer_cancel(self->h, first));
			ASSERT_EQ(-ENOENT, hwtimer_touch_at(self->h, first, TABLE_NEVER));
		}
		ASSERT_EQ(0, hwtimer_cancel(self->h, id));
		last = id;
	}
}

TEST_F(handle, query)
{
	struct hwtimer_repeat r = {
		.first_ns = now_ns() + FAR,
		.period_ns = 3 * NSEC_PER_SEC,
		.misfire_ns = NSEC_PER_SEC,
		.policy = HWTIMER_MISFIRE_SKIP,
	};
	struct hwtimer_state s;
	hwtimer_id id, never, periodic;
	__u64 deadline = FAR / UNIT * UNIT;

	ASSERT_EQ(0, hwtimer_schedule_at(self->h, deadline, 5, &id));
	ASSERT_EQ(0, hwtimer_schedule_at(self->h, HWTIMER_NEVER, 6, &never));
	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 7, &periodic));
	ASSERT_EQ(0, hwtimer_query(self->h, id, &s));
	EXPECT_EQ(5, s.user_data);
	EXPECT_EQ(deadline, s.deadline_ns);
	EXPECT_EQ(0, s.period_ns);
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, deadline + 1));
	ASSERT_EQ(0, hwtimer_query(self->h, id, &s));
	EXPECT_EQ(deadline + UNIT, s.deadline_ns);
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, (1ULL << 60) + 2 * deadline));
	ASSERT_EQ(0, hwtimer_query(self->h, id, &s));
	EXPECT_EQ(HWTIMER_NEVER, s.deadline_ns);
	ASSERT_EQ(0, hwtimer_query(self->h, never, &s));
	EXPECT_EQ(HWTIMER_NEVER, s.deadline_ns);
	ASSERT_EQ(0, hwtimer_query(self->h, periodic, &s));
	EXPECT_EQ(7, s.user_data);
	EXPECT_EQ(r.first_ns, s.deadline_ns);
	EXPECT_EQ(r.period_ns, s.period_ns);
	EXPECT_EQ(r.misfire_ns, s.misfire_ns);
	EXPECT_EQ(r.policy, s.policy);
	ASSERT_EQ(0, hwtimer_touch_at(self->h, periodic, r.first_ns - 12345));
	ASSERT_EQ(0, hwtimer_query(self->h, periodic, &s));
	EXPECT_EQ(r.first_ns - 12345, s.deadline_ns);
	ASSERT_EQ(0, hwtimer_cancel(self->h, id));
	EXPECT_EQ(-ENOENT, hwtimer_query(self->h, id, &s));
}

static void nothing(int sig)
{
	(void)sig;
}

struct signaller {
	pthread_t	to;
	atomic_bool	end;
};

static void *signaller(void *arg)
{
	struct signaller *s = arg;

	while (!atomic_load(&s->end)) {
		pthread_kill(s->to, SIGUSR1);
		usleep(1000);
	}
	return NULL;
}

TEST_F(handle, wait)
{
	struct sigaction action = { .sa_handler = nothing };
	struct signaller s = { .to = pthread_self() };
	struct hwtimer_event e;
	pthread_t thread;
	__u64 before = now_ns();
	int ret;

	/* For so long, and no longer than needed. */
	ASSERT_EQ(0, hwtimer_wait(self->h, &e, 30 * NSEC_PER_MSEC));
	ASSERT_LE(before + 30 * NSEC_PER_MSEC, now_ns());
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 1, NULL));
	ASSERT_EQ(1, hwtimer_wait(self->h, &e, FAR));
	/* The longest wait, and the lowest negative one. */
	ASSERT_EQ(0, hwtimer_schedule(self->h, 20 * NSEC_PER_MSEC, 1, NULL));
	ASSERT_EQ(1, hwtimer_wait(self->h, &e, INT64_MAX));
	ASSERT_EQ(0, hwtimer_schedule(self->h, 20 * NSEC_PER_MSEC, 1, NULL));
	ASSERT_EQ(1, hwtimer_wait(self->h, &e, INT64_MIN));
	/* Signals, one of which comes while it sleeps, lose nothing. */
	sigaction(SIGUSR1, &action, NULL);
	start(&thread, signaller, &s);
	ASSERT_EQ(-EINTR, hwtimer_wait(self->h, &e, -1));
	ASSERT_EQ(0, hwtimer_schedule(self->h, 20 * NSEC_PER_MSEC, 2, NULL));
	while ((ret = hwtimer_wait(self->h, &e, -1)) == -EINTR)
		;
	ASSERT_EQ(1, ret);
	ASSERT_EQ(2, e.user_data);
	atomic_store(&s.end, true);
	pthread_join(thread, NULL);
}

#define EVENTS	20

TEST_F(handle, stop)
{
	struct hwtimer_repeat r = { .first_ns = now_ns() + FAR, .period_ns = NSEC_PER_SEC };
	unsigned int i, back = 0;
	char seen[EVENTS + 1] = { };
	struct hwtimer_event e;
	struct hwtimer_state s;
	hwtimer_id id, other;
	int ret;

	for (i = 0; i < EVENTS; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, i % 2 ? FAR : 0, i, &id));
	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, EVENTS, NULL));
	ASSERT_EQ(POLLIN, poll_in(hwtimer_fd(self->h), -1));
	ASSERT_EQ(0, hwtimer_stop(self->h));
	ASSERT_EQ(0, hwtimer_stop(self->h));
	ASSERT_NE(0, poll_in(hwtimer_fd(self->h), -1) &
		  (hwtimer_in_process(self->h) ? POLLIN : POLLHUP));
	other = POISON;
	ASSERT_EQ(-ESHUTDOWN, hwtimer_schedule(self->h, 0, 0, &other));
	ASSERT_EQ(0, other);
	other = POISON;
	ASSERT_EQ(-ESHUTDOWN, hwtimer_schedule_repeat(self->h, &r, 0, &other));
	ASSERT_EQ(0, other);
	ASSERT_EQ(-ESHUTDOWN, hwtimer_touch(self->h, id, 0));
	ASSERT_EQ(-ENOENT, hwtimer_touch(self->h, 0, 0));
	ASSERT_EQ(0, hwtimer_query(self->h, id, &s));
	ASSERT_EQ(0, hwtimer_cancel(self->h, id));
	ASSERT_EQ(-ENOENT, hwtimer_touch(self->h, id, 0));
	while ((ret = hwtimer_wait(self->h, &e, -1)) == 1) {
		ASSERT_GE(EVENTS, e.user_data);
		ASSERT_EQ(0, seen[e.user_data]++);
		if (e.user_data == EVENTS) {
			ASSERT_EQ(r.first_ns, e.deadline_ns);
		}
		ASSERT_EQ(HWTIMER_KIND_HANDED_BACK, e.kind);
		back++;
	}
	ASSERT_EQ(-ESHUTDOWN, ret);
	/* All but the one that was cancelled. */
	ASSERT_EQ(EVENTS, back);
	ASSERT_EQ(-ESHUTDOWN, hwtimer_wait(self->h, &e, 0));
	ASSERT_EQ(0, stats(self->h).pending);
}

/* Who polls finds out about a stop. */
TEST_F(handle, stop_is_seen)
{
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, NULL));
	ASSERT_EQ(0, poll_in(hwtimer_fd(self->h), 0));
	ASSERT_EQ(0, hwtimer_stop(self->h));
	ASSERT_NE(0, poll_in(hwtimer_fd(self->h), -1));
}

/* The id of what is handed back next, or 0. */
static hwtimer_id back(struct hwtimer *h)
{
	struct hwtimer_event e;
	int ret = hwtimer_wait(h, &e, -1);

	if (ret == -ESHUTDOWN)
		return 0;
	if (ret != 1 || e.kind != HWTIMER_KIND_HANDED_BACK)
		die("hwtimer_wait: %d", ret);
	return e.id;
}

/* Records of timeouts that were due, or of slots in use again, do not get in the way of a stop. */
TEST_F(handle, stop_with_records)
{
	struct hwtimer_repeat r = { .period_ns = NSEC_PER_SEC };
	hwtimer_id id, again, periodic;

	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 0, &id));
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 0, &again));
	ASSERT_EQ(POLLIN, poll_in(hwtimer_fd(self->h), -1));
	ASSERT_EQ(0, hwtimer_touch(self->h, id, FAR));
	ASSERT_EQ(0, hwtimer_cancel(self->h, again));
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &again));
	ASSERT_EQ(0, hwtimer_stop(self->h));
	ASSERT_EQ(id ^ again, back(self->h) ^ back(self->h));
	ASSERT_EQ(0, back(self->h));

	for (r.policy = 0; r.policy < 3; r.policy++) {
		struct hwtimer *h = MUST_OPEN(variant->flags);

		r.first_ns = now_ns();
		ASSERT_EQ(0, hwtimer_schedule_repeat(h, &r, 0, &periodic));
		ASSERT_EQ(POLLIN, poll_in(hwtimer_fd(h), -1));
		wait_until(r.first_ns + 2 * r.period_ns);
		ASSERT_EQ(0, hwtimer_stop(h));
		ASSERT_EQ(periodic, back(h));
		ASSERT_EQ(0, back(h));
		hwtimer_close(h);
	}
}

/* The flag is there before STOP has come to its end: who sees it waits for that. */
TEST_F(device, stop_in_progress)
{
	struct hwtimer_table *head = must_map(self->h);
	hwtimer_id id;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &id));
	table_store(&head->flags, HWTIMER_TABLE_STOPPED);
	ASSERT_EQ(id, back(self->h));
	ASSERT_EQ(POLLHUP, poll_in(hwtimer_fd(self->h), 0) & POLLHUP);
	ASSERT_EQ(0, back(self->h));
}

/* What was due when somebody else stops it is handed back, even after a first event. */
TEST_F(device, stopped_with_records)
{
	hwtimer_id id[2];
	int i;

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 0, &id[i]));
	ASSERT_EQ(POLLIN, poll_in(hwtimer_fd(self->h), -1));
	i = must_wait(self->h).id == id[0];
	ASSERT_EQ(0, ioctl(hwtimer_fd(self->h), HWTIMER_IOC_STOP));
	ASSERT_EQ(id[i], back(self->h));
	ASSERT_EQ(0, back(self->h));
}

/* Nor does a touch while somebody else stops it, before the library knows. */
TEST_F(device, touch_beside_stop)
{
	struct hwtimer_repeat r = { .first_ns = now_ns() + FAR, .period_ns = NSEC_PER_SEC };
	hwtimer_id id, periodic;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &id));
	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 0, &periodic));
	ASSERT_EQ(0, ioctl(hwtimer_fd(self->h), HWTIMER_IOC_STOP));
	ASSERT_EQ(-ESHUTDOWN, hwtimer_touch(self->h, id, 0));
	ASSERT_EQ(-ESHUTDOWN, hwtimer_touch(self->h, periodic, 0));
	ASSERT_EQ(id ^ periodic, back(self->h) ^ back(self->h));
	ASSERT_EQ(0, back(self->h));
}

static void *wait_for_stop(void *arg)
{
	struct hwtimer_event e;
	long back = 0;
	int ret;

	while ((ret = hwtimer_wait(arg, &e, -1)) == 1)
		back++;
	return (void *)(ret == -ESHUTDOWN ? back : -1);
}

/* By somebody else who has got the descriptor, while this one sleeps. */
TEST_F(device, stopped_behind_its_back)
{
	pthread_t thread;
	void *back;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, NULL));
	ASSERT_EQ(0, hwtimer_schedule(self->h, HWTIMER_NEVER, 0, NULL));
	start(&thread, wait_for_stop, self->h);
	ASSERT_EQ(0, ioctl(hwtimer_fd(self->h), HWTIMER_IOC_STOP));
	pthread_join(thread, &back);
	ASSERT_EQ(2, (long)back);
}

/* There is nothing to return, and nobody sleeps in hwtimer_wait(). */
TEST_F(device, stopped_while_empty)
{
	struct hwtimer_event e;

	ASSERT_EQ(0, hwtimer_wait(self->h, &e, 0));
	ASSERT_EQ(0, ioctl(hwtimer_fd(self->h), HWTIMER_IOC_STOP));
	ASSERT_EQ(-ESHUTDOWN, hwtimer_wait(self->h, &e, 0));
	ASSERT_EQ(-ESHUTDOWN, hwtimer_schedule(self->h, 0, 0, NULL));
}

TEST_F(handle, periodic)
{
	struct hwtimer_repeat r = {
		.first_ns = now_ns() + 3456789,
		.period_ns = 5 * NSEC_PER_MSEC + 1,
		/* So that none is left out, however late we are. */
		.policy = HWTIMER_MISFIRE_MAKE_UP,
	};
	struct hwtimer_event e;
	hwtimer_id id;
	unsigned int i;

	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 8, &id));
	for (i = 0; i < 30; i++) {
		e = must_wait(self->h);
		ASSERT_EQ(id, e.id);
		ASSERT_EQ(8, e.user_data);
		ASSERT_EQ(0, e.overruns);
		ASSERT_EQ(r.first_ns + i * r.period_ns, e.deadline_ns);
	}
	/* From another deadline on. */
	r.first_ns = now_ns() + 7654321;
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, r.first_ns));
	for (i = 0; i < 3; i++) {
		e = must_wait(self->h);
		ASSERT_EQ(r.first_ns + i * r.period_ns, e.deadline_ns);
	}
	ASSERT_EQ(0, hwtimer_cancel(self->h, id));
	ASSERT_EQ(-ENOENT, hwtimer_cancel(self->h, id));
	ASSERT_EQ(0, hwtimer_wait(self->h, &e, 0));
	ASSERT_EQ(0, stats(self->h).pending);
}

/* Nobody waited for five periods, or more: policies differ, and nothing else. */
TEST_F(handle, periodic_missed)
{
	struct hwtimer_repeat r = { .period_ns = 50 * NSEC_PER_MSEC };
	__u64 seen[3] = { }, events[3] = { }, last[3] = { };
	struct hwtimer_event e;
	hwtimer_id id[3];

	r.first_ns = now_ns();
	for (r.policy = 0; r.policy < 3; r.policy++)
		ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, r.policy, &id[r.policy]));
	wait_until(r.first_ns + 6 * r.period_ns + r.period_ns / 2);
	while (events[0] < 3 || events[1] < 2 || events[2] < 8) {
		e = must_wait(self->h);
		ASSERT_EQ(0, (e.deadline_ns - r.first_ns) % r.period_ns);
		ASSERT_LE(last[e.user_data], e.deadline_ns);
		last[e.user_data] = e.deadline_ns;
		if (!events[e.user_data]++ && e.user_data != HWTIMER_MISFIRE_MAKE_UP) {
			ASSERT_LE(6, e.overruns);
		}
		if (e.user_data == HWTIMER_MISFIRE_MAKE_UP) {
			ASSERT_EQ(0, e.overruns);
		}
		seen[e.user_data] += 1 + e.overruns;
		/* Each deadline up to this one was accounted for, once. */
		ASSERT_EQ((e.deadline_ns - r.first_ns) / r.period_ns + 1, seen[e.user_data]);
	}
}

/* As of when it is a misfire, a program can say. The last deadline was well before the next one. */
TEST_F(handle, misfire)
{
	struct hwtimer_repeat r = { .period_ns = now_ns() / 4 * 3, .policy = HWTIMER_MISFIRE_SKIP };
	struct hwtimer_event e;
	hwtimer_id id;
	unsigned int i;

	/* Later than a period, and in time all the same. */
	r.misfire_ns = HWTIMER_NEVER;
	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 0, &id));
	for (i = 0; i < 2; i++) {
		e = must_wait(self->h);
		ASSERT_EQ(i * r.period_ns, e.deadline_ns);
		ASSERT_EQ(0, e.overruns);
	}
	ASSERT_EQ(0, hwtimer_cancel(self->h, id));
	/* Sooner than a period, and too late. It was skipped, which whoever stops it is told. */
	r.period_ns = FAR;
	r.first_ns = now_ns() - 4 * NSEC_PER_MSEC;
	r.misfire_ns = 2 * NSEC_PER_MSEC;
	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 0, &id));
	ASSERT_EQ(POLLIN, poll_in(hwtimer_fd(self->h), -1));
	ASSERT_EQ(0, hwtimer_wait(self->h, &e, 0));
	ASSERT_EQ(0, hwtimer_stop(self->h));
	ASSERT_EQ(1, hwtimer_wait(self->h, &e, 0));
	ASSERT_EQ(id, e.id);
	ASSERT_EQ(HWTIMER_KIND_HANDED_BACK, e.kind);
	ASSERT_EQ(r.first_ns + r.period_ns, e.deadline_ns);
	ASSERT_EQ(1, e.overruns);
}

/* Each has its own period, whichever of the others end. */
TEST_F(handle, periodic_apart)
{
	struct hwtimer_repeat r = { .first_ns = now_ns() + FAR };
	struct hwtimer_state s;
	hwtimer_id id[40];
	unsigned int i;

	for (i = 0; i < 60; i++) {
		if (i >= 40) {
			ASSERT_EQ(0, hwtimer_cancel(self->h, id[i - 40]));
		}
		r.period_ns = NSEC_PER_SEC + i;
		ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, i, &id[i % 40]));
	}
	for (i = 20; i < 60; i++) {
		ASSERT_EQ(0, hwtimer_query(self->h, id[i % 40], &s));
		ASSERT_EQ(i, s.user_data);
		ASSERT_EQ(NSEC_PER_SEC + i, s.period_ns);
	}
}

TEST_F(handle, periodic_errors)
{
	struct hwtimer_repeat r = { .period_ns = NSEC_PER_SEC };
	hwtimer_id id;

	r.flags = 1;
	EXPECT_EQ(-EINVAL, hwtimer_schedule_repeat(self->h, &r, 0, &id));
	r.flags = 0;
	r.policy = 3;
	EXPECT_EQ(-EINVAL, hwtimer_schedule_repeat(self->h, &r, 0, &id));
	r.policy = 0;
	r.misfire_ns = 1;
	EXPECT_EQ(-EINVAL, hwtimer_schedule_repeat(self->h, &r, 0, &id));
	r.misfire_ns = 0;
	r.period_ns = hwtimer_tick_ns(self->h) - 1;
	EXPECT_EQ(-EINVAL, hwtimer_schedule_repeat(self->h, &r, 0, &id));
	/* One that comes once, and then never. */
	r.period_ns = HWTIMER_NEVER;
	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 4, &id));
	EXPECT_EQ(4, must_wait(self->h).user_data);
	EXPECT_EQ(0, hwtimer_cancel(self->h, id));
	EXPECT_EQ(0, stats(self->h).pending);
}

/* What the kernel holds already needs no system call. */
TEST_F(device, needs_no_kernel)
{
	struct hwtimer_table *head = must_map(self->h);
	struct hwtimer_stats before;
	hwtimer_id id;
	unsigned int i;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &id));
	ASSERT_EQ(0, ioctl(hwtimer_fd(self->h), HWTIMER_IOC_ENTER));
	before = stats(self->h);
	for (i = 0; i < 1000; i++) {
		ASSERT_EQ(0, hwtimer_touch(self->h, id, FAR + i));
		ASSERT_EQ(0, hwtimer_cancel(self->h, id));
		ASSERT_EQ(0, hwtimer_schedule(self->h, FAR + i, i, &id));
	}
	ASSERT_EQ(before.runs, stats(self->h).runs);
	ASSERT_EQ(before.looks, stats(self->h).looks);
	ASSERT_EQ(HWTIMER_LINK_END, table_load(&head->pushed));
}

TEST_F(handle, up_to_the_limit)
{
	struct hwtimer *h = MUST_OPEN(variant->flags, .timeouts = 1000);
	struct hwtimer_event e;
	hwtimer_id id[1000], other;
	unsigned int i, round;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < 1000; i++)
			ASSERT_EQ(0, hwtimer_schedule(h, round == 1 ? 0 : FAR, i, &id[i]));
		other = POISON;
		ASSERT_EQ(-ENOSPC, hwtimer_schedule(h, 0, 0, &other));
		ASSERT_EQ(0, other);
		if (round == 1) {
			for (i = 0; i < 1000; i++)
				must_wait(h);
			continue;
		}
		ASSERT_EQ(0, hwtimer_cancel(h, id[500]));
		ASSERT_EQ(0, hwtimer_schedule(h, 0, 0, &id[500]));
		ASSERT_EQ(-ENOSPC, hwtimer_schedule(h, 0, 0, &other));
		for (i = 0; i < 1000; i++)
			ASSERT_EQ(0, hwtimer_cancel(h, id[i]));
	}
	ASSERT_EQ(0, hwtimer_wait(h, &e, 0));
	hwtimer_close(h);
}

/* More and more, some of which are due meanwhile, so that their records are in several rings. */
TEST_F(handle, grows)
{
	const unsigned int n = quick_or(20000, 1000000);
	char *seen = calloc(n, 1);
	struct hwtimer_event e;
	unsigned int i;

	for (i = 0; i < n; i++) {
		ASSERT_EQ(0, hwtimer_schedule(self->h, i % 3 * 20 * NSEC_PER_MSEC, i, NULL));
		if (i % 1000 == 0)
			poll_in(hwtimer_fd(self->h), 0);
	}
	for (i = 0; i < n; i++) {
		e = must_wait(self->h);
		ASSERT_EQ(0, seen[e.user_data]++);
	}
	ASSERT_EQ(0, hwtimer_wait(self->h, &e, 0));
	free(seen);
}

/* Somebody else who shares the table makes it larger: records are in a ring that is not mapped. */
TEST_F(device, grown_by_others)
{
	struct hwtimer_grow grow = { .slots = 10000 };
	unsigned int i, seen = 0;

	for (i = 0; i < 5; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, 0, i, NULL));
	ASSERT_EQ(POLLIN, poll_in(hwtimer_fd(self->h), -1));
	ASSERT_EQ(0, hwt_ioctl(hwtimer_fd(self->h), HWTIMER_IOC_GROW, &grow));
	/* For these there are slots, so the library need not know yet. */
	for (; i < 200; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, 0, i, NULL));
	for (i = 0; i < 200; i++)
		seen += must_wait(self->h).user_data;
	for (; i < 2000; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, 0, i, NULL));
	for (i = 200; i < 2000; i++)
		seen += must_wait(self->h).user_data;
	ASSERT_EQ(1999 * 1000, seen);
}

/*
 * There is no ring of some sizes. Where it would be, nothing is taken from the rest of the program.
 */
TEST_F(device, rings_skipped)
{
	const size_t size = sysconf(_SC_PAGESIZE);
	struct hwtimer *h = MUST_OPEN(variant->flags, .timeouts = 100000);
	struct hwtimer_grow grow = { .slots = 70000 };
	char *p[256];
	int i;

	ASSERT_EQ(0, hwtimer_schedule(h, FAR, 0, NULL));
	ASSERT_EQ(0, hwt_ioctl(hwtimer_fd(h), HWTIMER_IOC_GROW, &grow));
	for (i = 0; i < 300; i++)
		ASSERT_EQ(0, hwtimer_schedule(h, FAR, 0, NULL));
	for (i = 0; i < 256; i++) {
		p[i] = must_mmap(size << i % 8, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1);
		*p[i] = 1;
	}
	hwtimer_close(h);
	for (i = 0; i < 256; i++) {
		ASSERT_EQ(1, *p[i]);
		munmap(p[i], size << i % 8);
	}
}

/* By one write, nobody makes the library pass over a ring for good. */
TEST_F(device, forged_ring)
{
	struct hwtimer_table *head = must_map(self->h);
	struct hwtimer_event e;
	__u32 ring;

	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 1, NULL));
	EXPECT_EQ(1, must_wait(self->h).user_data);
	ring = table_load(&head->ring);
	table_store(&head->ring, 23);
	EXPECT_EQ(0, hwtimer_wait(self->h, &e, 0));
	table_store(&head->ring, ring);
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 2, NULL));
	EXPECT_EQ(2, must_wait(self->h).user_data);
	munmap(head, sysconf(_SC_PAGESIZE));
}

/* Somebody else invents a timeout in a slot that is free: it gives no event, and is not freed. */
TEST_F(device, invented)
{
	struct table t = { .fd = hwtimer_fd(self->h), .page = sysconf(_SC_PAGESIZE) };
	hwtimer_id id[3], other[2];
	struct hwtimer_event e;
	__u32 was;
	int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, i, &id[i]));
	/* Before them, there is one that is no invention. */
	ASSERT_EQ(0, hwtimer_schedule_at(self->h, 0, 7, NULL));
	ASSERT_EQ(POLLIN, poll_in(t.fd, -1));
	ASSERT_EQ(0, hwtimer_cancel(self->h, id[1]));
	was = id[1] & 0xffffff;
	ASSERT_EQ(0, table_map(&t));
	/* The one that never will be in use, one that was, and one that never was. */
	ASSERT_EQ(0, table_arm(&t, 0, table_word(1, 7)));
	ASSERT_EQ(0, table_arm(&t, was, table_word(1, 5)));
	ASSERT_EQ(0, table_arm(&t, 9, table_word(1, 6)));
	ASSERT_EQ(POLLIN, poll_in(t.fd, -1));
	wait_until(now_ns() + 3 * NSEC_PER_MSEC);
	ASSERT_EQ(0, ioctl(t.fd, HWTIMER_IOC_ENTER));
	ASSERT_EQ(7, must_wait(self->h).user_data);
	ASSERT_EQ(0, hwtimer_wait(self->h, &e, 0));
	ASSERT_EQ(0, table_load(&t.slot[was].word) | table_load(&t.slot[9].word) |
		     table_load(&t.slot[0].word));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, i, &other[i]));
	ASSERT_NE(0, (other[0] ^ other[1]) & 0xffffff);
	/* Or ends one. */
	ASSERT_NE(0, table_steal(&t, id[0] & 0xffffff));
	ASSERT_EQ(-ENOENT, hwtimer_touch(self->h, id[0], 2 * FAR));
	table_close(&t);
}

/* Armed and cancelled when due, again and again, so that the ring gets full. */
TEST_F(device, full_ring)
{
	struct hwtimer_table *head = must_map(self->h);
	struct hwtimer_event e;
	__u32 round, records, walk;
	hwtimer_id id, keep;

	for (round = 0; round < 2; round++) {
		walk = table_load(&head->walk);
		ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 1, &keep));
		while (table_load(&head->walk) == walk) {
			records = table_load(&head->cq_tail[0]);
			ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 2, &id));
			while (table_load(&head->cq_tail[0]) == records &&
			       table_load(&head->walk) == walk)
				ASSERT_EQ(0, ioctl(hwtimer_fd(self->h), HWTIMER_IOC_ENTER));
			ASSERT_EQ(0, hwtimer_cancel(self->h, id));
		}
		/* Its record has no room, either. */
		walk = table_load(&head->walk);
		ASSERT_EQ(0, hwtimer_touch(self->h, keep, 0));
		while (table_load(&head->walk) == walk)
			ASSERT_EQ(0, ioctl(hwtimer_fd(self->h), HWTIMER_IOC_ENTER));
		ASSERT_EQ(1, must_wait(self->h).user_data);
		while (hwtimer_wait(self->h, &e, 0))
			ASSERT_EQ(2, e.user_data);
		ASSERT_EQ(0, poll_in(hwtimer_fd(self->h), 0));
		ASSERT_EQ(table_load(&head->walk), table_load(&head->walked));
	}
	/* If all slots have to be looked at, and the table is stopped. */
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 1, &keep));
	table_store(&head->walked, table_load(&head->walk) - 1);
	ASSERT_EQ(0, hwtimer_stop(self->h));
	ASSERT_EQ(keep, back(self->h));
	ASSERT_EQ(0, back(self->h));
}

/* The program's own counts, for whoever looks at the context. */
TEST_F(device, counts)
{
	struct hwtimer_table *head = must_map(self->h);
	struct hwtimer_event e;
	hwtimer_id id;
	int i;

	for (i = 0; i < 5; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &id));
	ASSERT_EQ(0, hwtimer_touch(self->h, id, 0));
	must_wait(self->h);
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &id));
	ASSERT_EQ(0, hwtimer_cancel(self->h, id));
	/* They may be some ms old. */
	do {
		ASSERT_EQ(0, hwtimer_wait(self->h, &e, NSEC_PER_MSEC));
	} while (table_load(&head->cancelled) != 1);
	EXPECT_EQ(6, table_load(&head->armed));
	EXPECT_EQ(1, table_load(&head->touched));
	EXPECT_EQ(1, table_load(&head->cancelled));
	EXPECT_EQ(1, table_load(&head->expired));
}

TEST_F(handle, stats)
{
	struct hwtimer_stats s;
	char longer[sizeof(s) + 64];

	/* A deadline long ago does not make it late. */
	ASSERT_EQ(0, hwtimer_schedule_at(self->h, 0, 0, NULL));
	must_wait(self->h);
	ASSERT_EQ(0, hwtimer_stats(self->h, &s, sizeof(s)));
	EXPECT_GT(now_ns() / 2, s.late_ns);
	memset(longer, 1, sizeof(longer));
	EXPECT_EQ(-EINVAL, hwtimer_stats(self->h, &s, sizeof(s) - 8));
	EXPECT_EQ(-E2BIG, hwtimer_stats(self->h, &s, 1 << 16));
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, NULL));
	ASSERT_EQ(0, hwtimer_stats(self->h, (void *)longer, sizeof(longer)));
	memcpy(&s, longer, sizeof(s));
	EXPECT_EQ(1, s.pending);
	EXPECT_EQ(0, longer[sizeof(s)]);
	EXPECT_EQ(0, longer[sizeof(longer) - 1]);
}

/* How many mappings of the first page of a table there are. */
static unsigned int maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned int n = 0;
	char line[256];

	while (fgets(line, sizeof(line), f))
		n += strstr(line, " 00000000 ") && strstr(line, "hwtimer");
	fclose(f);
	return n;
}

/* Memory runs out: an error, and what there is works. */
TEST_F(device, out_of_memory)
{
	FILE *f = fopen("/sys/module/hwtimer/parameters/max_memory", "w");
	struct rlimit limit, none;
	unsigned int i, before;
	struct hwtimer *h;
	int ret;

	/* Wherever it fails, nothing of the table stays mapped. */
	ASSERT_EQ(0, getrlimit(RLIMIT_AS, &limit));
	none = limit;
	before = maps();
	for (none.rlim_cur = 1 << 20, ret = -ENOMEM; ret; none.rlim_cur += 1 << 20) {
		ASSERT_EQ(0, setrlimit(RLIMIT_AS, &none));
		ret = hwtimer_open(&h, NULL);
		ASSERT_TRUE(!ret || ret == -ENOMEM);
		ASSERT_EQ(0, setrlimit(RLIMIT_AS, &limit));
		ASSERT_EQ(before + !ret, maps());
	}
	/* What a handle may need has been reserved. */
	none.rlim_cur -= 1 << 20;
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &none));
	for (i = 0; i < 5000; i++)
		ASSERT_EQ(0, hwtimer_schedule(h, 0, 0, NULL));
	while (i--)
		must_wait(h);
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &limit));
	hwtimer_close(h);
	ASSERT_EQ(before, maps());
	ASSERT_NE(NULL, f);
	/* In KiB. */
	ASSERT_LT(0, fprintf(f, "4096"));
	ASSERT_EQ(0, fflush(f));
	for (i = 0, ret = 0; !ret; i++)
		ret = hwtimer_schedule(self->h, 0, 0, NULL);
	ASSERT_EQ(-ENOMEM, ret);
	ASSERT_LT(1000, i);
	while (--i)
		must_wait(self->h);
	rewind(f);
	ASSERT_LT(0, fprintf(f, "0"));
	ASSERT_EQ(0, fclose(f));
}

struct place {
	char	*at;
	size_t	size;
};

/* Where tables are mapped: how many places. */
static int places(struct place *p, int max)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[256];
	int n = 0;

	while (n < max && fgets(line, sizeof(line), f))
		if (strstr(line, "hwtimer") && sscanf(line, "%lx-%lx", &from, &to) == 2)
			p[n++] = (struct place){ (char *)from, to - from };
	fclose(f);
	return n;
}

/* A child can close the handle, and nothing else, and so harms neither itself nor its parent. */
TEST_F(handle, fork)
{
	struct hwtimer_repeat r = { .period_ns = NSEC_PER_SEC };
	struct hwtimer_event e;
	struct hwtimer_state s;
	struct hwtimer_stats st;
	int i, n, bad = 0;
	struct place p[8];
	hwtimer_id id;
	pid_t pid;

	ASSERT_EQ(0, hwtimer_schedule(self->h, 20 * NSEC_PER_MSEC, 1, &id));
	n = places(p, ARRAY_SIZE(p));
	ASSERT_LE(hwtimer_in_process(self->h) ? 0 : 2, n);
	pid = fork();
	if (!pid) {
		if (hwtimer_wait(self->h, &e, 0) != -EPERM)
			_exit(4);
		/* Where the table was, there is something else. */
		for (i = 0; i < n; i++) {
			if (mmap(p[i].at, p[i].size, PROT_READ | PROT_WRITE, MAP_PRIVATE |
				 MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != p[i].at)
				_exit(3);
			*p[i].at = 1;
		}
		if (hwtimer_schedule(self->h, 0, 0, NULL) != -EPERM ||
		    hwtimer_schedule_repeat(self->h, &r, 0, NULL) != -EPERM ||
		    hwtimer_touch(self->h, id, 0) != -EPERM ||
		    hwtimer_cancel(self->h, id) != -EPERM ||
		    hwtimer_query(self->h, id, &s) != -EPERM ||
		    hwtimer_wait(self->h, &e, -1) != -EPERM ||
		    hwtimer_stats(self->h, &st, sizeof(st)) != -EPERM ||
		    hwtimer_stop(self->h) != -EPERM)
			_exit(1);
		hwtimer_close(self->h);
		/* A handle of its own. */
		if (hwtimer_open(&self->h, NULL) || hwtimer_schedule(self->h, 0, 2, NULL) ||
		    must_wait(self->h).user_data != 2)
			_exit(2);
		hwtimer_close(self->h);
		/* Advice on what is not mapped fails. */
		for (i = 0; i < n; i++)
			bad += madvise(p[i].at, p[i].size, MADV_NORMAL) || *p[i].at != 1;
		_exit(bad);
	}
	ASSERT_EQ(0, reap(pid));
	ASSERT_EQ(id, must_wait(self->h).id);
}

static void *wait_for_event(void *arg)
{
	return (void *)(uintptr_t)must_wait(arg).user_data;
}

/* Does hwtimer_fd() say that there is an event, as long as it is not taken? */
static bool has_event(struct hwtimer *h)
{
	return poll_in(hwtimer_fd(h), 0);
}

/* Ten years, of which nobody waits for a moment. */
TEST_F(handle, advance)
{
	const __u64 day = 86400 * NSEC_PER_SEC;
	const struct hwtimer_repeat yearly = { .first_ns = 365 * day, .period_ns = 365 * day };
	unsigned int flags = HWTIMER_OPEN_VIRTUAL | (variant->flags & HWTIMER_OPEN_THREADS);
	struct hwtimer *h = MUST_OPEN(flags);
	struct hwtimer_event e;
	hwtimer_id moved, gone;
	unsigned int i;

	EXPECT_EQ(-EINVAL, hwtimer_advance(self->h, 1));
	EXPECT_TRUE(hwtimer_in_process(h));
	EXPECT_EQ(0, hwtimer_now(h));
	ASSERT_EQ(0, hwtimer_schedule(h, day, 1, NULL));
	ASSERT_EQ(0, hwtimer_schedule(h, day / 2, 2, &moved));
	ASSERT_EQ(0, hwtimer_schedule(h, day / 2, 3, &gone));
	ASSERT_EQ(0, hwtimer_schedule_repeat(h, &yearly, 4, NULL));
	ASSERT_EQ(0, hwtimer_touch(h, moved, 2 * day));
	EXPECT_EQ(0, hwtimer_advance(h, day - 1));
	EXPECT_EQ(day - 1, hwtimer_now(h));
	/* It has expired, but is not taken. */
	EXPECT_TRUE(has_event(h));
	ASSERT_EQ(0, hwtimer_cancel(h, gone));
	EXPECT_EQ(0, hwtimer_wait(h, &e, 0));
	EXPECT_FALSE(has_event(h));
	EXPECT_EQ(0, hwtimer_advance(h, hwtimer_tick_ns(h)));
	EXPECT_TRUE(has_event(h));
	e = must_wait(h);
	EXPECT_EQ(1, e.user_data);
	EXPECT_EQ(hwtimer_now(h), e.taken_ns);
	EXPECT_FALSE(has_event(h));
	EXPECT_EQ(0, hwtimer_advance(h, 2 * day));
	EXPECT_EQ(2, must_wait(h).user_data);
	for (i = 1; i <= 10; i++) {
		EXPECT_FALSE(has_event(h));
		EXPECT_EQ(0, hwtimer_advance(h, i * 365 * day - hwtimer_now(h) +
					     hwtimer_tick_ns(h)));
		e = must_wait(h);
		EXPECT_EQ(4, e.user_data);
		EXPECT_EQ(i * 365 * day, e.deadline_ns);
		EXPECT_EQ(0, e.overruns);
	}
	/* Three years at once: one event, late, with those that were missed. */
	EXPECT_EQ(0, hwtimer_advance(h, 3 * 365 * day));
	e = must_wait(h);
	EXPECT_EQ(13 * 365 * day, e.deadline_ns);
	EXPECT_EQ(2, e.overruns);
	EXPECT_EQ(-EOVERFLOW, hwtimer_advance(h, 10 * 365 * day));
	EXPECT_EQ(-EOVERFLOW, hwtimer_advance(h, ~0ULL));
	ASSERT_EQ(0, hwtimer_stop(h));
	EXPECT_EQ(0, hwtimer_advance(h, day));
	EXPECT_EQ(HWTIMER_KIND_HANDED_BACK, must_wait(h).kind);
	in_child(must_fork())
		expect(-EPERM, hwtimer_advance(h, 1));
	hwtimer_close(h);
}

/* Whoever waits in real time is woken. */
TEST_F(ground, advance_wakes)
{
	struct hwtimer *h = MUST_OPEN(HWTIMER_OPEN_VIRTUAL | HWTIMER_OPEN_THREADS);
	pthread_t thread;
	void *user_data;

	ASSERT_EQ(0, hwtimer_schedule(h, FAR, 7, NULL));
	start(&thread, wait_for_event, h);
	ASSERT_EQ(0, hwtimer_advance(h, 2 * FAR));
	pthread_join(thread, &user_data);
	ASSERT_EQ(7, (uintptr_t)user_data);
	hwtimer_close(h);
}

/* Words do not reach as far as a namespace may be ahead. */
TEST_F(ground, time_namespace_too_far)
{
	struct hwtimer *h;
	pid_t pid;

	if (!unshare_time("monotonic 1000000000 0"))
		SKIP(return, "no time namespaces");
	pid = fork();
	if (!pid) {
		struct hwtimer_options o = { .size = sizeof(o), .flags = variant->flags };

		_exit(hwtimer_open(&h, &o) != -EOVERFLOW);
	}
	ASSERT_EQ(0, reap(pid));
}

/* A thread that is cancelled while it waits takes nothing with it. */
TEST_F(ground, cancelled_thread)
{
	struct hwtimer *h = MUST_OPEN(variant->flags);
	pthread_t thread;
	void *result;

	start(&thread, wait_for_event, h);
	ASSERT_EQ(0, pthread_cancel(thread));
	pthread_join(thread, &result);
	ASSERT_EQ(PTHREAD_CANCELED, result);
	ASSERT_EQ(0, hwtimer_schedule(h, 0, 3, NULL));
	ASSERT_EQ(3, must_wait(h).user_data);
	hwtimer_close(h);
}

/* Only to wait is a cancellation point: a thread that is to be cancelled closes all of a handle. */
static void *closer(void *arg)
{
	struct hwtimer *h;
	hwtimer_id id;

	(void)arg;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	h = MUST_OPEN(HWTIMER_OPEN_THREADS);
	if (hwtimer_schedule(h, 0, 0, &id) || hwtimer_touch(h, id, 0) || hwtimer_cancel(h, id) ||
	    hwtimer_stop(h))
		die("a call failed");
	hwtimer_close(h);
	return NULL;
}

TEST(closed_by_cancelled_thread)
{
	unsigned int before = maps();
	pthread_t thread;
	void *result;

	start(&thread, closer, NULL);
	pthread_join(thread, &result);
	ASSERT_EQ(NULL, result);
	ASSERT_EQ(before, maps());
}

TEST_HARNESS_MAIN
