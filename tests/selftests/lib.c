// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhwtimer, with ioctls and with rings: every function and every error; that no event is early,
 * lost or reported twice, in any order of calls and from any thread; that touches and cancels make
 * no system calls; and when memory is allocated and given back.
 *
 * The linker redirects all calls of ioctl(), malloc() and so on to the wrappers below (--wrap).
 * SEED=N repeats a run's random operations.
 */
#include "hwt.h"

#include <stdarg.h>
#include <sys/resource.h>

#include <libhwtimer.h>

/* Faults to inject: the ioctl, its errno, and how often it fails (-1: always). */
static unsigned long fail_command;
static int fail_errno;
static int fail_times = -1;
static int fail_allocation = -1;	/* allocations that succeed before one fails */
static bool fail_mmap;			/* of rings */
static int fail_map = -1;		/* mappings of other memory that succeed before one fails */

/* By how much a single HWTIMER_IOC_RESIZE shrank the kernel's table at most. */
static __u32 in_kernel, most_shrunk;

/* The library's latest mapping of its rings, and how many bytes of other memory it has mapped. */
static void *lib_rings;
static size_t mapped;

static int first_context = -1;

static atomic_ulong ioctls, reads, polls, allocations;

/* A ring, and the smallest number of unread records seen in it at any HWTIMER_IOC_ENTER. */
static const struct hwtimer_ring *counted_ring;
static __u32 least_records;

int __real_ioctl(int fd, unsigned long command, void *arg);
ssize_t __real_read(int fd, void *buffer, size_t size);
int __real_ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask);
void *__real_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *addr, size_t size);
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);

int __wrap_ioctl(int fd, unsigned long command, ...);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
int __wrap_ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask);
void *__wrap_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *addr, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);

int __wrap_ioctl(int fd, unsigned long command, ...)
{
	va_list args;
	void *arg;
	int ret;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	atomic_fetch_add(&ioctls, 1);
	if (command == HWTIMER_IOC_SETUP && first_context < 0)
		first_context = fd;
	if (counted_ring && command == HWTIMER_IOC_ENTER) {
		__u32 n = counted_ring->cq_tail - counted_ring->cq_head;

		least_records = n < least_records ? n : least_records;
	}
	if (fail_errno && command == fail_command && fail_times) {
		fail_times -= fail_times > 0;
		errno = fail_errno;
		return -1;
	}
	ret = __real_ioctl(fd, command, arg);
	if (command == HWTIMER_IOC_RESIZE && !ret) {
		const struct hwtimer_resize *resize = arg;

		if (resize->timeouts + most_shrunk < in_kernel)
			most_shrunk = in_kernel - resize->timeouts;
		in_kernel = resize->timeouts;
	}
	return ret;
}

ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
	atomic_fetch_add(&reads, 1);
	return __real_read(fd, buffer, size);
}

int __wrap_ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	atomic_fetch_add(&polls, 1);
	return __real_ppoll(p, n, ts, mask);
}

void *__wrap_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (fail_mmap && fd >= 0) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	if (fd < 0 && fail_map >= 0 && !fail_map--) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	addr = __real_mmap(addr, size, prot, flags, fd, offset);
	if (fd >= 0)
		lib_rings = addr;
	else if (addr != MAP_FAILED)
		mapped += size;
	return addr;
}

int __wrap_munmap(void *addr, size_t size)
{
	if (addr != lib_rings)
		mapped -= size;
	return __real_munmap(addr, size);
}

static bool no_memory(void)
{
	atomic_fetch_add(&allocations, 1);
	return fail_allocation >= 0 && !fail_allocation--;
}

void *__wrap_malloc(size_t size)
{
	return no_memory() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return no_memory() ? NULL : __real_calloc(n, size);
}

static unsigned long system_calls(void)
{
	return atomic_load(&ioctls) + atomic_load(&reads) + atomic_load(&polls);
}

static struct hwtimer_options options(unsigned int flags)
{
	return (struct hwtimer_options){
		.size = sizeof(struct hwtimer_options), .flags = flags,
	};
}

static int try_open(struct hwtimer_options o)
{
	struct hwtimer *h = (struct hwtimer *)(uintptr_t)POISON;
	int ret = hwtimer_open(&h, &o);

	if (!ret != !!h)
		return DIRTY;
	hwtimer_close(h);
	return ret;
}

static struct hwtimer *must_open_lib(const struct hwtimer_options *o)
{
	struct hwtimer *h;
	int ret = hwtimer_open(&h, o);

	if (ret)
		die("hwtimer_open: %s", strerror(-ret));
	return h;
}

/* Open with these flags; the further arguments are members of the options. */
#define MUST_OPEN(flags_, ...) must_open_lib(&(struct hwtimer_options){		\
	.size = sizeof(struct hwtimer_options), .flags = (flags_), __VA_ARGS__	\
})

/* Wait for @n events, never more. Returns fewer after PATIENCE without one, or after a stop. */
static int collect(struct hwtimer *h, struct hwtimer_event *events, int n)
{
	int got = 0, ret;

	memset(events, 0xa5, n * sizeof(*events));
	while (got < n) {
		ret = hwtimer_wait(h, events + got, n - got, PATIENCE);
		if (ret == -EINTR)
			continue;
		if (ret <= 0 || ret > n - got)
			return ret < 0 && ret != -ESHUTDOWN ? ret : got;
		got += ret;
	}
	return got;
}

static bool valid_event(const struct hwtimer_event *e, unsigned int kind)
{
	return e->id && e->kind == kind && e->fired_ns && e->fired_ns <= now_ns() &&
	       (kind != HWTIMER_KIND_EXPIRED || e->fired_ns >= e->deadline_ns) &&
	       (e->overruns ? e->last_ns >= e->deadline_ns : e->last_ns == e->deadline_ns);
}

/* The descriptor of @h, or if it has several contexts, of the first context of the test. */
static int context_fd(struct hwtimer *h)
{
	struct hwtimer_stats s = { 0 };

	return __real_ioctl(hwtimer_fd(h), HWTIMER_IOC_STATS, &s) ? first_context : hwtimer_fd(h);
}

static bool readable(struct hwtimer *h, int ms)
{
	struct pollfd p = { .fd = hwtimer_fd(h), .events = POLLIN };

	return poll(&p, 1, ms) == 1;
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

/* Wait until the kernel has counted @n expiries. */
static void wait_expired(struct hwtimer *h, __u64 n)
{
	struct hwtimer_stats s;

	eventually(({
		if (hwtimer_stats(h, &s, sizeof(s)))
			die("stats");
		s.expired >= n;
	}));
}

/* Does the kernel know HWTIMER_IOC_RESIZE? */
static bool resizable(void)
{
	struct hwtimer_info info = { 0 };
	int fd = must_open(O_RDONLY);

	if (ioctl(fd, HWTIMER_IOC_INFO, &info))
		die("info");
	close(fd);
	return info.features & HWTIMER_FEATURE_RESIZE;
}

FIXTURE(lib)
{
	struct hwtimer *h;
	__u64 tick;
};

FIXTURE_VARIANT(lib)
{
	unsigned int flags;
};

FIXTURE_VARIANT_ADD(lib, ioctl)
{
	.flags = HWTIMER_OPEN_NO_RINGS,
};

FIXTURE_VARIANT_ADD(lib, rings)
{
	.flags = HWTIMER_OPEN_RINGS,
};

FIXTURE_VARIANT_ADD(lib, ioctl_threads)
{
	.flags = HWTIMER_OPEN_NO_RINGS | HWTIMER_OPEN_THREADS,
};

FIXTURE_VARIANT_ADD(lib, rings_threads)
{
	.flags = HWTIMER_OPEN_RINGS | HWTIMER_OPEN_THREADS,
};

FIXTURE_SETUP(lib)
{
	self->h = MUST_OPEN(variant->flags);
	self->tick = hwtimer_tick_ns(self->h);
}

FIXTURE_TEARDOWN(lib)
{
	hwtimer_close(self->h);
}

TEST_F(lib, what_it_says)
{
	__u64 before = now_ns(), now = hwtimer_now(self->h), after = now_ns();
	struct hwtimer_stats stats;

	EXPECT_LE(before, now);
	EXPECT_LE(now, after);
	EXPECT_EQ(!!(variant->flags & HWTIMER_OPEN_RINGS), hwtimer_has_rings(self->h));
	EXPECT_EQ(must_fdinfo(context_fd(self->h), "tick_ns"), self->tick);
	EXPECT_EQ(FD_CLOEXEC, fcntl(hwtimer_fd(self->h), F_GETFD));
	memset(&stats, 0xa5, sizeof(stats));
	ASSERT_EQ(0, hwtimer_stats(self->h, &stats, sizeof(stats)));
	EXPECT_LE(after, stats.now);
	EXPECT_EQ(0, stats.pending);
	EXPECT_EQ(0, stats.scheduled);
}

/* A newer program gets zeros beyond what the library knows; nothing else is written. */
TEST_F(lib, stats_sizes)
{
	const size_t first = 96;
	struct hwtimer_stats s;
	size_t size, i;
	union {
		struct hwtimer_stats	s;
		unsigned char		bytes[sizeof(struct hwtimer_stats) + 64];
	} u;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 1, NULL));
	ASSERT_EQ(0, hwtimer_flush(self->h));
	for (size = 0; size <= sizeof(u); size++) {
		memset(&u, 0xa5, sizeof(u));
		if (size < first || size % 8) {
			EXPECT_EQ(-EINVAL, hwtimer_stats(self->h, &u.s, size));
			EXPECT_EQ(0xa5, u.bytes[0]);
			continue;
		}
		ASSERT_EQ(0, hwtimer_stats(self->h, &u.s, size));
		EXPECT_EQ(1, u.s.scheduled);
		EXPECT_EQ(1, u.s.pending);
		s = must_stats(context_fd(self->h));
		EXPECT_EQ(0, memcmp(&s.scheduled, &u.s.scheduled,
				    offsetof(struct hwtimer_stats, cap) -
				    offsetof(struct hwtimer_stats, scheduled)));
		for (i = sizeof(struct hwtimer_stats); i < sizeof(u); i++)
			EXPECT_EQ(i < size ? 0 : 0xa5, u.bytes[i]);
	}
}

TEST_F(lib, expires)
{
	const __u64 delays[] = { 0, 1, self->tick, 30 * NSEC_PER_MSEC };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(delays); i++) {
		struct hwtimer_event e;
		__u64 before, after;
		hwtimer_id id = POISON;

		before = now_ns();
		ASSERT_EQ(0, hwtimer_schedule(self->h, delays[i], i, &id));
		after = now_ns();
		ASSERT_NE(POISON, id);
		ASSERT_NE(0, id);
		ASSERT_EQ(1, collect(self->h, &e, 1));
		EXPECT_TRUE(valid_event(&e, HWTIMER_KIND_EXPIRED));
		EXPECT_EQ(id, e.id);
		EXPECT_EQ(i, e.user_data);
		EXPECT_EQ(0, e.overruns);
		EXPECT_LE(before + delays[i], e.deadline_ns);
		EXPECT_LE(e.deadline_ns, after + delays[i]);
		EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, id));
		EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, id, 0));
	}
	EXPECT_EQ(0, hwtimer_wait(self->h, &(struct hwtimer_event){ 0 }, 1, 0));
}

TEST_F(lib, schedule_at)
{
	__u64 deadline = now_ns() + 20 * NSEC_PER_MSEC;
	const struct hwtimer_event *past, *near;
	struct hwtimer_event e[3];
	hwtimer_id id;

	ASSERT_EQ(0, hwtimer_schedule_at(self->h, deadline, 1, &id));
	/* In the past, and no id is returned. */
	ASSERT_EQ(0, hwtimer_schedule_at(self->h, 0, 2, NULL));
	ASSERT_EQ(0, hwtimer_schedule_at(self->h, HWTIMER_NEVER, 3, NULL));
	ASSERT_EQ(0, hwtimer_schedule(self->h, HWTIMER_NEVER, 4, NULL));
	ASSERT_EQ(0, hwtimer_schedule(self->h, HWTIMER_NEVER - 1, 5, NULL));
	ASSERT_EQ(2, collect(self->h, e, 2));
	/* Their order depends on how long the calls above took. */
	past = &e[e[0].user_data != 2];
	near = &e[e[0].user_data == 2];
	EXPECT_EQ(2, past->user_data);
	EXPECT_EQ(0, past->deadline_ns);
	EXPECT_EQ(id, near->id);
	EXPECT_EQ(deadline, near->deadline_ns);
	EXPECT_TRUE(valid_event(near, HWTIMER_KIND_EXPIRED));
	ASSERT_EQ(0, hwtimer_stop(self->h));
	ASSERT_EQ(3, collect(self->h, e, 3));
	EXPECT_EQ(12, e[0].user_data + e[1].user_data + e[2].user_data);
}

/* A worker that no longer polls the rings is kicked by a schedule, a touch, and a re-arm. */
TEST_F(lib, after_a_rest)
{
	/* Polls are at most 250 ms apart, and six of them find nothing. */
	const __u64 rest = 3 * NSEC_PER_SEC;
	struct hwtimer_event e;
	__u64 deadline;
	hwtimer_id id;

	if (variant->flags != HWTIMER_OPEN_RINGS)
		SKIP(return, "only with rings and one thread");

	/* The next poll is a timeout of the wheel, too. */
	ASSERT_EQ(0, must_wheel_value("dev", "pending"));
	ASSERT_EQ(0, hwtimer_schedule(self->h, 2 * self->tick, 1, NULL));
	ASSERT_EQ(1, collect(self->h, &e, 1));
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 2, &id));
	ASSERT_EQ(0, hwtimer_flush(self->h));
	ASSERT_EQ(2, must_wheel_value("dev", "pending"));
	eventually(must_wheel_value("dev", "pending") == 1);
	ASSERT_EQ(0, hwtimer_touch(self->h, id, 2 * self->tick));
	ASSERT_EQ(1, collect(self->h, &e, 1));

	ASSERT_EQ(0, hwtimer_schedule(self->h, rest, 3, &id));
	deadline = now_ns() + rest + 20 * self->tick;
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, deadline));
	ASSERT_EQ(1, collect(self->h, &e, 1));
	EXPECT_EQ(3, e.user_data);
	EXPECT_EQ(deadline, e.deadline_ns);
}

TEST_F(lib, many_and_few_at_a_time)
{
	enum { N = 1000 };
	unsigned char seen[N] = { 0 };
	struct hwtimer_event e[7];
	int i, n, left = N;

	for (i = 0; i < N; i++) {
		ASSERT_EQ(0, hwtimer_schedule(self->h, (i % 10) * NSEC_PER_MSEC, i, NULL));
	}
	while (left) {
		/* Some have not been reported, so the descriptor must become readable. */
		ASSERT_TRUE(readable(self->h, 60000));
		n = hwtimer_wait(self->h, e, ARRAY_SIZE(e), 0);
		ASSERT_LE(0, n);
		ASSERT_GE(7, n);
		for (i = 0; i < n; i++) {
			ASSERT_TRUE(valid_event(&e[i], HWTIMER_KIND_EXPIRED));
			ASSERT_GT(N, e[i].user_data);
			ASSERT_EQ(1, ++seen[e[i].user_data]);
		}
		left -= n;
	}
	EXPECT_FALSE(readable(self->h, 0));
}

TEST_F(lib, touch_to_later)
{
	struct hwtimer_event e;
	__u64 deadline = 0;
	unsigned long calls;
	hwtimer_id id;
	int i;

	ASSERT_EQ(0, hwtimer_schedule(self->h, 20 * NSEC_PER_MSEC, 1, &id));
	calls = system_calls();
	for (i = 0; i < 1000; i++) {
		deadline = now_ns() + 100 * NSEC_PER_MSEC;
		ASSERT_EQ(0, hwtimer_touch_at(self->h, id, deadline));
	}
	EXPECT_EQ(calls, system_calls());
	ASSERT_EQ(1, collect(self->h, &e, 1));
	EXPECT_TRUE(valid_event(&e, HWTIMER_KIND_EXPIRED));
	EXPECT_EQ(id, e.id);
	EXPECT_EQ(deadline, e.deadline_ns);
	EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, id, 0));
}

TEST_F(lib, touch_to_sooner)
{
	struct hwtimer_event e;
	__u64 deadline;
	hwtimer_id id;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 1, &id));
	ASSERT_EQ(0, hwtimer_touch(self->h, id, 2 * FAR));
	ASSERT_EQ(0, hwtimer_touch(self->h, id, FAR / 2));
	deadline = now_ns() + 10 * NSEC_PER_MSEC;
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, deadline));
	ASSERT_EQ(1, collect(self->h, &e, 1));
	EXPECT_TRUE(valid_event(&e, HWTIMER_KIND_EXPIRED));
	EXPECT_EQ(deadline, e.deadline_ns);
}

/* Touch a timeout that the kernel has expired, before the event was read. */
TEST_F(lib, touch_what_has_expired)
{
	struct hwtimer_event e;
	__u64 deadline;
	hwtimer_id id;

	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 1, &id));
	wait_expired(self->h, 1);
	ASSERT_EQ(0, hwtimer_touch(self->h, id, FAR));
	EXPECT_EQ(0, hwtimer_wait(self->h, &e, 1, 0));
	deadline = now_ns() + 10 * NSEC_PER_MSEC;
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, deadline));
	wait_expired(self->h, 2);
	/* Past by the time the library reads the record, so the event is reported, not re-armed. */
	deadline = now_ns();
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, deadline));
	ASSERT_EQ(1, hwtimer_wait(self->h, &e, 1, 0));
	EXPECT_TRUE(valid_event(&e, HWTIMER_KIND_EXPIRED));
	EXPECT_EQ(deadline, e.deadline_ns);
	EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, id, 0));
}

/*
 * Expired, but touched to later: looked at without giving an event. There is a limit for one call,
 * and the descriptor is readable as long as others are left.
 */
TEST_F(lib, touched_by_the_thousand)
{
	enum { MOST = 1024, N = MOST + 1 };
	struct hwtimer_event e;
	unsigned int n, i;
	hwtimer_id ids[N];

	for (n = MOST - 1; n <= N; n++) {
		__u64 before = must_stats(context_fd(self->h)).expired;

		for (i = 0; i < n; i++) {
			ASSERT_EQ(0, hwtimer_schedule(self->h, 0, i, &ids[i]));
		}
		wait_expired(self->h, before + n);
		for (i = 0; i < n; i++) {
			ASSERT_EQ(0, hwtimer_touch(self->h, ids[i], FAR));
		}
		EXPECT_EQ(0, hwtimer_wait(self->h, &e, 1, 0));
		EXPECT_EQ(n > MOST, readable(self->h, 0));
		EXPECT_EQ(0, hwtimer_flush(self->h));
		EXPECT_EQ(n < MOST ? n : MOST, must_stats(context_fd(self->h)).pending);
		EXPECT_EQ(0, hwtimer_wait(self->h, &e, 1, 0));
		EXPECT_EQ(0, hwtimer_flush(self->h));
		EXPECT_EQ(n, must_stats(context_fd(self->h)).pending);
		for (i = 0; i < n; i++) {
			ASSERT_EQ(0, hwtimer_cancel(self->h, ids[i]));
		}
		EXPECT_EQ(0, hwtimer_flush(self->h));
	}
}

TEST_F(lib, query)
{
	struct hwtimer_repeat r = { .period_ns = FAR, .policy = HWTIMER_MISFIRE_SKIP };
	__u64 before = hwtimer_now(self->h), after;
	struct hwtimer_state state;
	hwtimer_id id, periodic;

	ASSERT_EQ(0, hwtimer_schedule_at(self->h, before + FAR, 1, &id));
	ASSERT_EQ(0, hwtimer_query(self->h, id, &state));
	after = hwtimer_now(self->h);
	EXPECT_EQ(1, state.user_data);
	EXPECT_EQ(before + FAR, state.deadline_ns);
	EXPECT_GE(FAR, state.remaining_ns);
	EXPECT_LE(before + FAR - after, state.remaining_ns);
	EXPECT_EQ(0, state.period_ns);
	/* A touch that stays in the library, and one to a time that has passed. */
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, before + 2 * FAR));
	ASSERT_EQ(0, hwtimer_query(self->h, id, &state));
	EXPECT_EQ(before + 2 * FAR, state.deadline_ns);
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, HWTIMER_NEVER));
	ASSERT_EQ(0, hwtimer_query(self->h, id, &state));
	EXPECT_EQ(HWTIMER_NEVER, state.remaining_ns);
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, before));
	ASSERT_EQ(0, hwtimer_query(self->h, id, &state));
	EXPECT_EQ(before, state.deadline_ns);
	EXPECT_EQ(0, state.remaining_ns);
	ASSERT_EQ(0, hwtimer_cancel(self->h, id));
	EXPECT_EQ(-ENOENT, hwtimer_query(self->h, id, &state));

	r.first_ns = before + FAR;
	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 2, &periodic));
	ASSERT_EQ(0, hwtimer_query(self->h, periodic, &state));
	EXPECT_EQ(2, state.user_data);
	EXPECT_EQ(before + FAR, state.deadline_ns);
	EXPECT_EQ(FAR, state.period_ns);
	EXPECT_EQ(FAR, state.misfire_ns);
	EXPECT_EQ(HWTIMER_MISFIRE_SKIP, state.policy);
	ASSERT_EQ(0, hwtimer_stop(self->h));
	EXPECT_EQ(-ESHUTDOWN, hwtimer_query(self->h, periodic, &state));
}

TEST_F(lib, cancel)
{
	struct hwtimer_stats stats, kernel;
	struct hwtimer_event e;
	hwtimer_id id, other;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 1, &id));
	ASSERT_EQ(0, hwtimer_cancel(self->h, id));
	EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, id));
	EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, id, 0));
	/* The id of the next timeout in the same slot differs; the old id stays invalid. */
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 2, &other));
	EXPECT_NE(id, other);
	EXPECT_EQ(HWTIMER_ID_INDEX(id), HWTIMER_ID_INDEX(other));
	EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, id));
	EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, id, FAR));
	ASSERT_EQ(1, collect(self->h, &e, 1));
	EXPECT_EQ(other, e.id);

	/* Expired by the kernel, but the event was not read. */
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 3, &id));
	wait_expired(self->h, 2);
	EXPECT_EQ(0, hwtimer_cancel(self->h, id));
	EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, id, 0));
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 4, &other));
	EXPECT_EQ(0, hwtimer_wait(self->h, &e, 1, 0));
	ASSERT_EQ(0, hwtimer_cancel(self->h, other));
	ASSERT_EQ(0, hwtimer_flush(self->h));
	ASSERT_EQ(0, hwtimer_stats(self->h, &stats, sizeof(stats)));
	EXPECT_EQ(0, stats.pending);
	EXPECT_EQ(2, stats.expired);
	EXPECT_EQ(stats.scheduled, stats.cancelled + 2);
	/* One thread uses one context. */
	kernel = must_stats(context_fd(self->h));
	kernel.now = stats.now;
	EXPECT_EQ(0, memcmp(&stats, &kernel, sizeof(stats)));
}

TEST_F(lib, no_such_timeout)
{
	hwtimer_id id, bad[6];
	unsigned int i;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 1, &id));
	bad[0] = 0;
	bad[1] = ~0ULL;
	bad[2] = id + 1;			/* a slot never used */
	bad[3] = id + HWTIMER_ID(0, 1);		/* a tag not yet used */
	bad[4] = id - HWTIMER_ID(0, 1);
	bad[5] = HWTIMER_ID(0xffffff, 1);	/* no slot */
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, bad[i], 0));
		EXPECT_EQ(-ENOENT, hwtimer_touch_at(self->h, bad[i], 0));
		EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, bad[i]));
	}
	EXPECT_EQ(0, hwtimer_cancel(self->h, id));
}

TEST_F(lib, wait_and_its_errors)
{
	struct hwtimer_event e;
	__u64 before;

	EXPECT_EQ(-EINVAL, hwtimer_wait(self->h, &e, 0, 0));
	EXPECT_EQ(-EINVAL, hwtimer_wait(self->h, &e, -1, -1));
	EXPECT_EQ(0, hwtimer_wait(self->h, &e, 1, 0));
	before = now_ns();
	EXPECT_EQ(0, hwtimer_wait(self->h, &e, 1, 20 * NSEC_PER_MSEC));
	EXPECT_LE(before + 20 * NSEC_PER_MSEC, now_ns());
	/* The longest wait, and the lowest negative one. */
	ASSERT_EQ(0, hwtimer_schedule(self->h, 20 * NSEC_PER_MSEC, 1, NULL));
	EXPECT_EQ(1, hwtimer_wait(self->h, &e, 1, INT64_MAX));
	ASSERT_EQ(0, hwtimer_schedule(self->h, 20 * NSEC_PER_MSEC, 1, NULL));
	EXPECT_EQ(1, hwtimer_wait(self->h, &e, 1, INT64_MIN));
}

struct sleeper {
	struct hwtimer *h;
	pthread_t thread;
	atomic_int tid;
	struct hwtimer_event event;
	int ret;
};

static void *sleep_in_wait(void *arg)
{
	struct sleeper *s = arg;

	atomic_store(&s->tid, my_tid());
	s->ret = hwtimer_wait(s->h, &s->event, 1, -1);
	return NULL;
}

static bool sleeps(struct sleeper *s)
{
	pid_t tid = atomic_load(&s->tid);

	if (!tid)
		return false;
#ifdef SYS_ppoll_time64
	if (sleeps_in(tid, SYS_ppoll_time64))
		return true;
#endif
	return sleeps_in(tid, SYS_ppoll);
}

static void start_sleeper(struct sleeper *s, struct hwtimer *h)
{
	*s = (struct sleeper){ .h = h };
	start(&s->thread, sleep_in_wait, s);
	eventually(sleeps(s));
}

static void no_handler(int signal)
{
	(void)signal;
}

TEST_F(lib, signal)
{
	struct sigaction action = { .sa_handler = no_handler };
	struct sleeper s;

	sigaction(SIGUSR1, &action, NULL);
	start_sleeper(&s, self->h);
	pthread_kill(s.thread, SIGUSR1);
	pthread_join(s.thread, NULL);
	EXPECT_EQ(-EINTR, s.ret);
}

TEST_F(lib, stop)
{
	struct hwtimer_event e[5];
	hwtimer_id ids[6], id;
	unsigned int i, seen = 0;

	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, hwtimer_schedule(self->h, FAR + i, i, &ids[i]));
	}
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 4, &ids[4]));
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 5, &ids[5]));
	wait_expired(self->h, 2);
	ASSERT_EQ(0, hwtimer_touch_at(self->h, ids[1], 2 * FAR + now_ns()));
	/* Expired, but touched to later: the library would arm it again, were it not stopped. */
	ASSERT_EQ(0, hwtimer_touch(self->h, ids[4], FAR));
	ASSERT_EQ(0, hwtimer_stop(self->h));
	ASSERT_EQ(0, hwtimer_stop(self->h));
	id = POISON;
	EXPECT_EQ(-ESHUTDOWN, hwtimer_schedule(self->h, 0, 9, &id));
	EXPECT_EQ(POISON, id);
	EXPECT_EQ(-ESHUTDOWN, hwtimer_touch(self->h, ids[0], FAR));
	/* Its "handed back" event has not been read; the first cancel drops it. */
	EXPECT_EQ(0, hwtimer_cancel(self->h, ids[2]));
	EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, ids[2]));
	EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, ids[2], 0));
	ASSERT_EQ(5, collect(self->h, e, 5));
	for (i = 0; i < 5; i++) {
		EXPECT_TRUE(valid_event(&e[i], e[i].user_data == 5 ? HWTIMER_KIND_EXPIRED :
								     HWTIMER_KIND_HANDED_BACK));
		ASSERT_GT(6, e[i].user_data);
		EXPECT_EQ(ids[e[i].user_data], e[i].id);
		seen |= 1 << e[i].user_data;
	}
	EXPECT_EQ(0x3b, seen);
	EXPECT_EQ(-ESHUTDOWN, hwtimer_wait(self->h, e, 1, 0));
	EXPECT_EQ(-ESHUTDOWN, hwtimer_wait(self->h, e, 1, -1));
	EXPECT_EQ(-ESHUTDOWN, hwtimer_schedule_repeat(self->h, &(struct hwtimer_repeat){
						      .period_ns = NSEC_PER_SEC }, 0, &id));
	EXPECT_EQ(0, hwtimer_flush(self->h));
	EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, ids[0], FAR));
}

/* A stop through the descriptor, which the library learns of later: no event is lost. */
TEST_F(lib, stopped_behind_its_back)
{
	struct hwtimer_event e[3];
	hwtimer_id ids[3];
	int i;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, hwtimer_schedule(self->h, i ? FAR : 0, i, &ids[i]));
	}
	wait_expired(self->h, 1);
	ASSERT_EQ(0, hwtimer_touch(self->h, ids[0], FAR));
	ASSERT_EQ(0, hwt_stop(context_fd(self->h), NULL));
	ASSERT_EQ(3, collect(self->h, e, 3));
	for (i = 0; i < 3; i++) {
		EXPECT_TRUE(valid_event(&e[i], HWTIMER_KIND_HANDED_BACK));
	}
	/* By now the library knows. */
	EXPECT_EQ(-ESHUTDOWN, hwtimer_wait(self->h, e, 1, -1));
	EXPECT_EQ(-ESHUTDOWN, hwtimer_schedule(self->h, 0, 0, NULL));
}

/* What the library submits after such a stop fails at once: it does not poll until that happens. */
TEST_F(lib, submitted_after_a_stop)
{
	bool rings = variant->flags & HWTIMER_OPEN_RINGS;
	struct hwtimer_event e[2];
	unsigned long calls;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, NULL));
	ASSERT_EQ(0, hwt_stop(context_fd(self->h), NULL));
	/* The kernel polls now and then, so there is no kick. */
	ASSERT_EQ(rings ? 0 : -ESHUTDOWN, hwtimer_schedule(self->h, FAR, 1, NULL));
	calls = system_calls();
	ASSERT_EQ(1 + rings, collect(self->h, e, 1 + rings));
	EXPECT_EQ(-ESHUTDOWN, hwtimer_wait(self->h, e, 1, -1));
	EXPECT_GE(20, system_calls() - calls);
}

/* There is nothing to return, and nobody sleeps in hwtimer_wait(). */
TEST_F(lib, stopped_while_empty)
{
	struct hwtimer_event e;

	EXPECT_EQ(0, hwtimer_wait(self->h, &e, 1, 0));
	ASSERT_EQ(0, hwt_stop(context_fd(self->h), NULL));
	eventually(hwtimer_wait(self->h, &e, 1, 0) == -ESHUTDOWN);
	EXPECT_EQ(-ESHUTDOWN, hwtimer_schedule(self->h, 0, 0, NULL));
}

#define PERIODS	5

TEST_F(lib, periodic)
{
	struct hwtimer_repeat r = {
		.first_ns = now_ns() + 10 * NSEC_PER_MSEC,
		.period_ns = 10 * NSEC_PER_MSEC,
		.policy = HWTIMER_MISFIRE_MAKE_UP,
	};
	__u64 reported = 0, touched, deadline;
	struct hwtimer_event e;
	hwtimer_id id;

	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 7, &id));
	while (reported < PERIODS) {
		ASSERT_EQ(1, collect(self->h, &e, 1));
		ASSERT_TRUE(valid_event(&e, HWTIMER_KIND_EXPIRED));
		EXPECT_EQ(id, e.id);
		EXPECT_EQ(7, e.user_data);
		reported += 1 + e.overruns;
		EXPECT_EQ(r.first_ns + (reported - 1) * r.period_ns, e.deadline_ns);
	}
	/*
	 * Expiries before the touch are reported. FAR first, so that none reaches the new
	 * deadline.
	 */
	ASSERT_EQ(0, hwtimer_touch(self->h, id, FAR));
	touched = now_ns() + 100 * NSEC_PER_MSEC;
	ASSERT_EQ(0, hwtimer_touch_at(self->h, id, touched));
	do {
		ASSERT_EQ(1, collect(self->h, &e, 1));
		deadline = e.deadline_ns;
		EXPECT_TRUE(deadline >= touched || e.fired_ns < touched);
	} while (deadline < touched);
	EXPECT_EQ(0, (deadline - touched) % r.period_ns);
	ASSERT_EQ(0, hwtimer_cancel(self->h, id));
	EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, id));
	EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, id, 0));
	ASSERT_EQ(0, hwtimer_flush(self->h));
	EXPECT_EQ(0, hwtimer_wait(self->h, &e, 1, 0));
	EXPECT_EQ(0, hwtimer_wait(self->h, &e, 1, 30 * NSEC_PER_MSEC));
}

/* An expiry that comes two and a half periods late stands for the two deadlines after it, too. */
TEST_F(lib, periodic_missed)
{
	struct hwtimer_repeat r = { .period_ns = NSEC_PER_SEC / 2 };
	struct hwtimer_event e;
	hwtimer_id id;

	r.first_ns = now_ns() - r.period_ns * 5 / 2;
	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 7, &id));
	ASSERT_EQ(1, collect(self->h, &e, 1));
	ASSERT_TRUE(valid_event(&e, HWTIMER_KIND_EXPIRED));
	EXPECT_LE(2, e.overruns);
	EXPECT_EQ(r.first_ns + e.overruns * r.period_ns, e.last_ns);
	ASSERT_EQ(0, hwtimer_cancel(self->h, id));
}

TEST_F(lib, periodic_and_its_errors)
{
	struct hwtimer_repeat r = { .period_ns = 0 };

	EXPECT_EQ(-EINVAL, hwtimer_schedule_repeat(self->h, &r, 0, NULL));
	r.period_ns = self->tick - 1;
	EXPECT_EQ(-EINVAL, hwtimer_schedule_repeat(self->h, &r, 0, NULL));
	r.period_ns = self->tick;
	r.misfire_ns = self->tick - 1;
	EXPECT_EQ(-EINVAL, hwtimer_schedule_repeat(self->h, &r, 0, NULL));
	r.misfire_ns = 0;
	r.policy = HWTIMER_MISFIRE_MAKE_UP + 1;
	EXPECT_EQ(-EINVAL, hwtimer_schedule_repeat(self->h, &r, 0, NULL));
	r.policy = HWTIMER_MISFIRE_ONCE;
	r.flags = HWTIMER_RELATIVE;
	EXPECT_EQ(-EINVAL, hwtimer_schedule_repeat(self->h, &r, 0, NULL));
	/* The failed calls took no slot. */
	EXPECT_EQ(0, must_stats(context_fd(self->h)).pending);
}

/* An expiry and the handing back are two events. */
TEST_F(lib, periodic_stopped)
{
	struct hwtimer_repeat r = {
		.first_ns = now_ns(), .period_ns = 5 * NSEC_PER_MSEC,
	};
	__u64 reported = 0, last = 0;
	struct hwtimer_event e;
	hwtimer_id id;

	ASSERT_EQ(0, hwtimer_schedule_repeat(self->h, &r, 0, &id));
	wait_expired(self->h, 3);
	ASSERT_EQ(0, hwtimer_stop(self->h));
	EXPECT_EQ(-ESHUTDOWN, hwtimer_touch(self->h, id, 0));
	for (;;) {
		ASSERT_EQ(1, collect(self->h, &e, 1));
		EXPECT_EQ(id, e.id);
		if (e.kind != HWTIMER_KIND_EXPIRED)
			break;
		ASSERT_TRUE(valid_event(&e, HWTIMER_KIND_EXPIRED));
		reported += 1 + e.overruns;
		last = e.deadline_ns;
	}
	ASSERT_TRUE(valid_event(&e, HWTIMER_KIND_HANDED_BACK));
	EXPECT_EQ(must_stats(context_fd(self->h)).expired, reported);
	/* The deadline after the last one reported, or later if deadlines were missed. */
	EXPECT_LT(last, e.deadline_ns);
	EXPECT_EQ(0, (e.deadline_ns - last) % r.period_ns);
	EXPECT_EQ(-ESHUTDOWN, hwtimer_wait(self->h, &e, 1, 0));
}

/* Only a periodic timeout needs memory of its own. */
TEST_F(lib, no_allocation_after_open)
{
	unsigned long before = atomic_load(&allocations);
	struct hwtimer_repeat r = { .first_ns = 0, .period_ns = NSEC_PER_SEC };
	static struct hwtimer_event e[500];
	hwtimer_id ids[1000], id;
	void *volatile p;
	int i;

	/* The counter works. */
	p = malloc(1);
	free(p);
	ASSERT_EQ(before + 1, atomic_load(&allocations));
	for (i = 0; i < 1000; i++) {
		hwtimer_schedule(self->h, i % 2 ? FAR : 0, i, &ids[i]);
		hwtimer_touch(self->h, ids[i], FAR / 2);
	}
	for (i = 0; i < 1000; i++) {
		hwtimer_touch(self->h, ids[i], i % 4 ? FAR : 0);
		if (i % 4 == 1)
			hwtimer_cancel(self->h, ids[i]);
	}
	hwtimer_schedule_repeat(self->h, &r, 0, &id);
	hwtimer_wait(self->h, e, ARRAY_SIZE(e), -1);
	hwtimer_stop(self->h);
	while (hwtimer_wait(self->h, e, ARRAY_SIZE(e), -1) > 0)
		;
	EXPECT_EQ(before + 2, atomic_load(&allocations));
}

/* With rings, only a full ring and a sleeping worker cost system calls. */
TEST_F(lib, system_calls)
{
	bool rings = variant->flags & HWTIMER_OPEN_RINGS;
	const unsigned int rounds = rings ? 200000 : 10000;
	unsigned long before, calls, in_schedule = 0, in_touch = 0, in_cancel = 0, rest = 0;
	__u64 began = now_ns(), took;
	hwtimer_id id, later;
	unsigned int i;

	before = system_calls();
	for (i = 0; i < rounds; i++) {
		calls = system_calls();
		ASSERT_EQ(0, hwtimer_schedule(self->h, 30 * NSEC_PER_SEC, i, &id));
		in_schedule += system_calls() - calls;
		calls = system_calls();
		ASSERT_EQ(0, hwtimer_touch(self->h, id, 30 * NSEC_PER_SEC));
		in_touch += system_calls() - calls;
		calls = system_calls();
		ASSERT_EQ(0, hwtimer_cancel(self->h, id));
		in_cancel += system_calls() - calls;
	}
	took = now_ns() - began;
	calls = system_calls() - before;
	printf("# %u times arm, touch, cancel: %lu + %lu + %lu system calls\n", rounds,
	       in_schedule, in_touch, in_cancel);
	printf("# of a million operations %llu, %llu ns for each operation\n",
	       calls * 1000000ULL / (3 * rounds), took / (3 * rounds));
	EXPECT_EQ(0, in_touch);
	if (!rings) {
		EXPECT_EQ(rounds, in_schedule);
		EXPECT_EQ(rounds, in_cancel);
		return;
	}
	/*
	 * Each round submits a schedule and a cancel; and the worker may fall asleep now and then.
	 */
	EXPECT_GE(2 * rounds / 4096 + 10 + took / (NSEC_PER_SEC / 10), calls);

	/* No system calls while there is room in the ring. */
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &later));
	ASSERT_EQ(0, hwtimer_flush(self->h));
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &id));
		calls = system_calls();
		ASSERT_EQ(0, hwtimer_cancel(self->h, id));
		ASSERT_EQ(0, hwtimer_touch(self->h, later, FAR + i));
		ASSERT_EQ(0, hwtimer_wait(self->h, &(struct hwtimer_event){ 0 }, 1, 0));
		rest += system_calls() - calls;
	}
	/* hwtimer_wait() looks for a stop 100 times per second. */
	EXPECT_GE(1 + (now_ns() - began) / (NSEC_PER_SEC / 100), rest);
}

/* How many mappings the rings of all handles have. */
static unsigned int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int found = 0;
	char line[512];

	while (fgets(line, sizeof(line), maps))
		found += !!strstr(line, "/dev/hwtimer");
	fclose(maps);
	return found;
}

/* A mapping would keep the file open, and with it the timeouts. */
TEST_F(lib, close_unmaps)
{
	EXPECT_EQ(hwtimer_has_rings(self->h), !!mappings());
	hwtimer_close(self->h);
	self->h = NULL;
	EXPECT_EQ(0, mappings());
}

TEST_F(lib, fork)
{
	struct hwtimer_repeat repeat = { .period_ns = FAR };
	struct hwtimer_event e[2];
	struct hwtimer_state state;
	struct hwtimer_stats stats;
	hwtimer_id id;

	ASSERT_EQ(0, hwtimer_schedule(self->h, 200 * NSEC_PER_MSEC, 1, &id));
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 2, NULL));
	in_child(must_fork()) {
		expect(-EPERM, hwtimer_schedule(self->h, 0, 3, NULL));
		expect(-EPERM, hwtimer_schedule_repeat(self->h, &repeat, 3, NULL));
		expect(-EPERM, hwtimer_touch(self->h, id, FAR));
		expect(-EPERM, hwtimer_query(self->h, id, &state));
		expect(-EPERM, hwtimer_cancel(self->h, id));
		expect(-EPERM, hwtimer_wait(self->h, e, 2, -1));
		expect(-EPERM, hwtimer_flush(self->h));
		expect(-EPERM, hwtimer_shrink(self->h));
		expect(-EPERM, hwtimer_stop(self->h));
		expect(-EPERM, hwtimer_stats(self->h, &stats, sizeof(stats)));
		hwtimer_close(self->h);
	}
	EXPECT_LE(1, must_stats(context_fd(self->h)).pending);
	ASSERT_EQ(1, collect(self->h, e, 1));
	EXPECT_EQ(id, e[0].id);
	ASSERT_EQ(0, hwtimer_touch(self->h, id, 0) + ENOENT);
	ASSERT_EQ(0, hwtimer_stop(self->h));
	ASSERT_EQ(1, collect(self->h, e, 2));
	EXPECT_EQ(2, e[0].user_data);
}

TEST_F(lib, timeouts_up_to_the_limit)
{
	enum { LIMIT = 3 };
	struct hwtimer_event e[LIMIT + 1];
	hwtimer_id ids[LIMIT], id = POISON;
	struct hwtimer *h;
	int i;

	h = MUST_OPEN(variant->flags, .timeouts = LIMIT);
	for (i = 0; i < LIMIT; i++) {
		ASSERT_EQ(0, hwtimer_schedule(h, FAR, i, &ids[i]));
	}
	EXPECT_EQ(-EAGAIN, hwtimer_schedule(h, 0, 9, &id));
	EXPECT_EQ(POISON, id);
	/* A cancel frees the slot at once. */
	ASSERT_EQ(0, hwtimer_cancel(h, ids[1]));
	ASSERT_EQ(0, hwtimer_schedule(h, 0, 1, &ids[1]));
	EXPECT_EQ(-EAGAIN, hwtimer_schedule(h, 0, 9, &id));
	wait_expired(h, 1);
	EXPECT_EQ(-EAGAIN, hwtimer_schedule(h, 0, 9, &id));
	ASSERT_EQ(0, hwtimer_cancel(h, ids[1]));
	ASSERT_EQ(0, hwtimer_schedule(h, 0, 1, &ids[1]));
	EXPECT_EQ(-EAGAIN, hwtimer_schedule_repeat(h, &(struct hwtimer_repeat){
						   .period_ns = NSEC_PER_SEC }, 9, &id));
	ASSERT_EQ(1, collect(h, e, 1));
	EXPECT_EQ(ids[1], e[0].id);
	ASSERT_EQ(0, hwtimer_schedule(h, FAR, 1, &ids[1]));
	EXPECT_EQ(-EAGAIN, hwtimer_schedule(h, 0, 9, &id));
	ASSERT_EQ(0, hwtimer_stop(h));
	EXPECT_EQ(LIMIT, collect(h, e, LIMIT + 1));
	hwtimer_close(h);
}

/* A handle grows, fails without harm if it cannot, and gives memory back when asked. */
TEST_F(lib, grows_and_shrinks)
{
	enum { N = 5000 };
	bool rings = variant->flags & HWTIMER_OPEN_RINGS;
	struct hwtimer_event e[N + 1];
	hwtimer_id ids[N], id = POISON;
	size_t before;
	int i;

	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 0, &ids[0]));
	before = mapped;
	for (i = 1; i < 1024; i++) {
		ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, i, &ids[i]));
	}
	EXPECT_EQ(before, mapped);
	fail_command = HWTIMER_IOC_RESIZE;
	fail_errno = EDQUOT;
	if (rings && resizable()) {
		EXPECT_EQ(-EDQUOT, hwtimer_schedule(self->h, 0, 9, &id));
	}
	fail_errno = 0;
	fail_map = 0;
	EXPECT_EQ(-ENOMEM, hwtimer_schedule(self->h, 0, 9, &id));
	EXPECT_EQ(POISON, id);
	for (i = 1024; i < N; i++) {
		ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, i, &ids[i]));
	}
	EXPECT_LT(before, mapped);
	/* Those in use stay, wherever they are. */
	EXPECT_EQ(0, hwtimer_shrink(self->h));
	for (i = 1; i < N - 1; i++) {
		ASSERT_EQ(0, hwtimer_cancel(self->h, ids[i]));
	}
	EXPECT_EQ(0, hwtimer_shrink(self->h));
	EXPECT_LT(before, mapped);
	EXPECT_EQ(0, hwtimer_touch(self->h, ids[N - 1], 2 * FAR));
	ASSERT_EQ(0, hwtimer_cancel(self->h, ids[N - 1]));
	EXPECT_EQ(0, hwtimer_shrink(self->h));
	EXPECT_EQ(before, mapped);
	if (rings && resizable()) {
		EXPECT_EQ(1024, must_fdinfo(context_fd(self->h), "timeouts"));
	}
	/* No id is valid again, nor used again. */
	EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, ids[N - 1]));
	for (i = 1; i < N; i++) {
		ASSERT_EQ(0, hwtimer_schedule(self->h, i % 2 ? 0 : FAR, i, &id));
		ASSERT_NE(ids[i], id);
		if (i == N - 1) {
			EXPECT_EQ(-ENOENT, hwtimer_touch(self->h, ids[N - 1], 0));
		}
	}
	EXPECT_EQ(N / 2, collect(self->h, e, N / 2));
	ASSERT_EQ(0, hwtimer_stop(self->h));
	EXPECT_EQ(N - N / 2, collect(self->h, e, N + 1));
	EXPECT_EQ(0, hwtimer_shrink(self->h));
}

/*
 * Schedule 40,000 timeouts, and cancel all but the first. Returns how much memory was mapped when
 * there was only that one.
 */
static size_t must_grow_and_empty(struct hwtimer *h)
{
	static hwtimer_id ids[40000];
	size_t before = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		if (hwtimer_schedule(h, FAR, i, &ids[i]))
			die("timeout %u cannot be scheduled", i);
		if (!i)
			before = mapped;
	}
	for (i = 1; i < ARRAY_SIZE(ids); i++)
		if (hwtimer_cancel(h, ids[i]))
			die("timeout %u cannot be cancelled", i);
	return before;
}

/*
 * A handle of which little was used for seconds gives memory back when it waits: not more than 16
 * chunks at a time, and the next ones before it sleeps.
 */
TEST_F(lib, shrinks_when_idle)
{
	enum { STEP = 16 * 1024 };
	size_t before, now;

	if (variant->flags & HWTIMER_OPEN_THREADS)
		SKIP(return, "as with one thread");
	before = must_grow_and_empty(self->h);
	/* All were used since the last look. */
	EXPECT_EQ(0, hwtimer_wait(self->h, &(struct hwtimer_event){ 0 }, 1, 0));
	EXPECT_LT(before, mapped);
	wait_until(now_ns() + 5 * NSEC_PER_SEC + NSEC_PER_SEC / 10);
	EXPECT_EQ(0, hwtimer_wait(self->h, &(struct hwtimer_event){ 0 }, 1, 0));
	wait_until(now_ns() + 5 * NSEC_PER_SEC + NSEC_PER_SEC / 10);
	most_shrunk = 0;
	now = mapped;
	EXPECT_EQ(0, hwtimer_wait(self->h, &(struct hwtimer_event){ 0 }, 1, 0));
	EXPECT_EQ(STEP * 48, now - mapped);
	EXPECT_EQ(0, hwtimer_wait(self->h, &(struct hwtimer_event){ 0 }, 1, NSEC_PER_SEC));
	EXPECT_EQ(before, mapped);
	EXPECT_GE(STEP, most_shrunk);
}

/* A large handle shrinks in steps, between which other threads get the lock. */
TEST_F(lib, shrinks_in_steps)
{
	size_t before;

	before = must_grow_and_empty(self->h);
	most_shrunk = 0;
	ASSERT_EQ(0, hwtimer_shrink(self->h));
	EXPECT_EQ(before, mapped);
	EXPECT_GE(16 * 1024, most_shrunk);
}

/*
 * The kernel has more to report than the completion ring holds, and nobody waits for events.
 * Timeouts are scheduled and cancelled meanwhile, also in slots whose records are unread.
 */
static void nobody_waits(struct __test_metadata *_metadata, unsigned int flags,
			 __u32 sq_entries, __u32 cq_entries)
{
	enum { N = 296 };
	unsigned int i, k, reported = 0, cancelled = 0;
	unsigned char ends[3 * N] = { 0 };
	struct hwtimer_event e[3];
	hwtimer_id ids[3 * N];
	struct hwtimer *h;
	int n;

	h = MUST_OPEN(flags, .timeouts = 2 * N, .sq_entries = sq_entries, .cq_entries = cq_entries);
	for (i = 0; i < N; i++) {
		ASSERT_EQ(0, hwtimer_schedule(h, 0, i, &ids[i]));
	}
	wait_expired(h, N);
	/* Slots whose records have not been read; some of the records are still in the kernel. */
	for (i = 0; i < N; i += 2) {
		ASSERT_EQ(0, hwtimer_cancel(h, ids[i]));
		ends[i]++;
		cancelled++;
	}
	for (i = N; i < 3 * N - N / 2; i++) {
		ASSERT_EQ(0, hwtimer_schedule(h, i % 3 ? FAR : NSEC_PER_MSEC, i, &ids[i]));
	}
	EXPECT_EQ(-EAGAIN, hwtimer_schedule(h, 0, 0, NULL));
	ASSERT_EQ(0, hwtimer_flush(h));
	for (i = N; i < 3 * N - N / 2; i += 4) {
		ASSERT_EQ(0, hwtimer_touch(h, ids[i], 0));
		ASSERT_EQ(0, hwtimer_touch(h, ids[i + 1], FAR));
		ASSERT_EQ(0, hwtimer_cancel(h, ids[i + 2]));
		ends[i + 2]++;
		cancelled++;
	}
	/* All that is due is reported, and until then the descriptor is readable. */
	for (i = k = 0; i < N; i++)
		k += !ends[i];
	for (i = N; i < 3 * N - N / 2; i++)
		k += !ends[i] && (!((i - N) % 4) || ((i - N) % 4 == 3 && !(i % 3)));
	while (reported < k) {
		ASSERT_TRUE(readable(h, 60000));
		n = hwtimer_wait(h, e, ARRAY_SIZE(e), 0);
		ASSERT_LE(0, n);
		while (n--) {
			ASSERT_TRUE(valid_event(&e[n], HWTIMER_KIND_EXPIRED));
			ASSERT_EQ(ids[e[n].user_data], e[n].id);
			ASSERT_EQ(1, ++ends[e[n].user_data])
				TH_LOG("timeout %llu", (unsigned long long)e[n].user_data);
			reported++;
		}
	}
	ASSERT_EQ(0, hwtimer_stop(h));
	while ((n = hwtimer_wait(h, e, ARRAY_SIZE(e), PATIENCE)) > 0) {
		while (n--) {
			ASSERT_TRUE(valid_event(&e[n], HWTIMER_KIND_HANDED_BACK));
			ASSERT_EQ(1, ++ends[e[n].user_data]);
			reported++;
		}
	}
	EXPECT_EQ(-ESHUTDOWN, n);
	EXPECT_EQ(3 * N - N / 2, reported + cancelled);
	hwtimer_close(h);
}

TEST_F(lib, nobody_waits)
{
	static const __u32 entries[][2] = {
		{ 1, 1 }, { 1, 2 }, { 1, 64 }, { 2, 2 }, { 64, 4 }, { 4096, 8 }, { 0, 0 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(entries); i++)
		nobody_waits(_metadata, variant->flags, entries[i][0], entries[i][1]);
}

#define PERIODIC	20

struct periodic {
	hwtimer_id id;
	__u64 first, reported;
	bool over;
};

static void periodic_events(struct __test_metadata *_metadata, struct periodic *p, __u64 period,
			    const struct hwtimer_event *e, int n)
{
	for (; n--; e++) {
		struct periodic *its = &p[e->user_data];

		ASSERT_GT(PERIODIC, e->user_data);
		ASSERT_EQ(its->id, e->id);
		ASSERT_FALSE(its->over);
		ASSERT_TRUE(valid_event(e, e->kind));
		if (e->kind == HWTIMER_KIND_EXPIRED) {
			its->reported += 1 + e->overruns;
			/*
			 * With ONCE, overruns include deadlines that were missed after the
			 * reported one.
			 */
			EXPECT_EQ(its->first + (its->reported - 1) * period, e->last_ns);
			EXPECT_GE(e->last_ns, e->deadline_ns);
			continue;
		}
		its->over = true;
		/* Every deadline was reported, except that SKIP may have skipped the last ones. */
		if (e->user_data % 3 != HWTIMER_MISFIRE_SKIP) {
			EXPECT_EQ(its->first + its->reported * period, e->deadline_ns);
		}
	}
}

/* Periodic timeouts are armed in slots that are being vacated, while unread records pile up. */
TEST_F(lib, nobody_waits_for_periodic)
{
	struct hwtimer_repeat r = { .period_ns = 2 * NSEC_PER_MSEC };
	struct periodic p[PERIODIC] = { 0 };
	struct hwtimer_event e[3];
	int i, n, unreported;
	struct hwtimer *h;
	hwtimer_id id;
	__u64 end;

	h = MUST_OPEN(variant->flags, .timeouts = PERIODIC, .sq_entries = 1, .cq_entries = 2);
	r.first_ns = now_ns();
	for (i = 0; i < PERIODIC; i++) {
		r.policy = i % 3;
		ASSERT_EQ(0, hwtimer_schedule_repeat(h, &r, i, &p[i].id));
	}
	wait_expired(h, 10 * PERIODIC);
	for (i = 0; i < PERIODIC; i++) {
		ASSERT_EQ(0, hwtimer_cancel(h, p[i].id));
		r.policy = i % 3;
		r.first_ns = now_ns();
		p[i].first = r.first_ns;
		ASSERT_EQ(0, hwtimer_schedule_repeat(h, &r, i, &p[i].id));
		EXPECT_EQ(-EAGAIN, hwtimer_schedule(h, 0, 0, &id));
	}
	wait_expired(h, must_stats(context_fd(h)).expired + 10 * PERIODIC);
	end = now_ns() + PATIENCE;
	do {
		n = hwtimer_wait(h, e, ARRAY_SIZE(e), PATIENCE);
		ASSERT_LT(0, n);
		periodic_events(_metadata, p, r.period_ns, e, n);
		for (i = unreported = 0; i < PERIODIC; i++)
			unreported += !p[i].reported;
		ASSERT_GT(end, now_ns());
	} while (unreported);
	ASSERT_EQ(0, hwtimer_stop(h));
	while ((n = hwtimer_wait(h, e, ARRAY_SIZE(e), PATIENCE)) > 0)
		periodic_events(_metadata, p, r.period_ns, e, n);
	EXPECT_EQ(-ESHUTDOWN, n);
	for (i = 0; i < PERIODIC; i++) {
		EXPECT_TRUE(p[i].over);
	}
	hwtimer_close(h);
}

/* Random operations, checked against a naive model. With one thread, each result is known. */
#define MODEL	64	/* timeouts */

struct model {
	hwtimer_id id;
	__u64 serial;
	__u64 deadline;
	bool live;
};

struct modelled {
	struct hwtimer *h;
	struct model m[MODEL];
	unsigned int live;
	__u64 random, serial, events, again;
	__u64 began;
};

static __u64 model_deadline(struct modelled *c)
{
	__u64 r = rnd(&c->random);

	switch (r % 8) {
	case 0:
		return 0;
	case 1:
		return HWTIMER_NEVER;
	case 2:
	case 3:
		return now_ns() + FAR + r % FAR;
	default:
		return now_ns() + r / 8 % (8 * NSEC_PER_MSEC);
	}
}

static struct model *model_any(struct modelled *c)
{
	return &c->m[rnd(&c->random) % MODEL];
}

static void model_events(struct __test_metadata *_metadata, struct modelled *c,
			 const struct hwtimer_event *e, int n, bool stopped)
{
	struct model *m;
	int i, k;

	for (i = 0; i < n; i++) {
		for (k = 0, m = NULL; k < MODEL; k++)
			if (c->m[k].live && c->m[k].id == e[i].id)
				m = &c->m[k];
		ASSERT_NE(NULL, m)
			TH_LOG("event %llx of a timeout that is over", (unsigned long long)e[i].id);
		ASSERT_EQ(m->serial, e[i].user_data);
		ASSERT_EQ(m->deadline, e[i].deadline_ns);
		ASSERT_TRUE(valid_event(&e[i], stopped && e[i].kind != HWTIMER_KIND_EXPIRED ?
					       HWTIMER_KIND_HANDED_BACK : HWTIMER_KIND_EXPIRED))
			TH_LOG("kind %u deadline %llu fired %llu", e[i].kind,
			       (unsigned long long)e[i].deadline_ns,
			       (unsigned long long)e[i].fired_ns);
		m->live = false;
		c->live--;
		c->events++;
	}
}

static void model_step(struct __test_metadata *_metadata, struct modelled *c,
		       unsigned int limit)
{
	struct hwtimer_event e[10];
	struct model *m = model_any(c);
	__u64 deadline = model_deadline(c);
	int ret, max;

	switch (rnd(&c->random) % 16) {
	case 0 ... 5:
		if (m->live)
			break;
		m->serial = ++c->serial;
		m->deadline = deadline;
		ret = hwtimer_schedule_at(c->h, deadline, m->serial, &m->id);
		ASSERT_EQ(c->live < limit ? 0 : -EAGAIN, ret);
		m->live = !ret;
		c->live += !ret;
		break;
	case 6 ... 10:
		ret = hwtimer_touch_at(c->h, m->id, deadline);
		ASSERT_EQ(m->live ? 0 : -ENOENT, ret);
		if (m->live)
			m->deadline = deadline;
		break;
	case 11 ... 12:
		ASSERT_EQ(m->live ? 0 : -ENOENT, hwtimer_cancel(c->h, m->id));
		c->live -= m->live;
		m->live = false;
		break;
	case 13:
		wait_until(now_ns() + rnd(&c->random) % NSEC_PER_MSEC);
		break;
	default:
		/* Only now and then, so that events pile up. */
		if (rnd(&c->random) % 4)
			break;
		max = rnd(&c->random) % ARRAY_SIZE(e) + 1;
		ret = hwtimer_wait(c->h, e, max, rnd(&c->random) % 2 * NSEC_PER_MSEC);
		ASSERT_LE(0, ret);
		ASSERT_GE(max, ret);
		model_events(_metadata, c, e, ret, false);
	}
}

static void model(struct __test_metadata *_metadata, struct hwtimer_options o, __u64 random,
		  unsigned int steps)
{
	struct modelled c = { .random = random, .began = now_ns() };
	struct hwtimer_event e[5];
	struct hwtimer_stats stats;
	unsigned int i, due;
	__u64 end;
	int ret;

	c.h = must_open_lib(&o);
	for (i = 0; i < steps; i++)
		model_step(_metadata, &c, o.timeouts);
	/* All that is due is reported. */
	for (end = now_ns() + PATIENCE; ; ) {
		for (i = due = 0; i < MODEL; i++)
			due += c.m[i].live && c.m[i].deadline < c.began + FAR;
		if (!due)
			break;
		ASSERT_GT(end, now_ns());
		ret = hwtimer_wait(c.h, e, ARRAY_SIZE(e), NSEC_PER_SEC);
		ASSERT_LE(0, ret);
		model_events(_metadata, &c, e, ret, false);
	}
	ASSERT_EQ(0, hwtimer_stop(c.h));
	while ((ret = hwtimer_wait(c.h, e, ARRAY_SIZE(e), -1)) > 0)
		model_events(_metadata, &c, e, ret, true);
	ASSERT_EQ(-ESHUTDOWN, ret);
	EXPECT_EQ(0, c.live);
	ASSERT_EQ(0, hwtimer_stats(c.h, &stats, sizeof(stats)));
	EXPECT_EQ(0, stats.pending);
	EXPECT_TRUE(balanced(&stats));
	printf("# rings of %u and %u: %llu scheduled, %llu events, %llu expiries in the kernel\n",
	       o.sq_entries, o.cq_entries, (unsigned long long)c.serial,
	       (unsigned long long)c.events, stats.expired);
	hwtimer_close(c.h);
}

TEST_F(lib, model)
{
	static const __u32 entries[][3] = {
		{ 1, 2, 40 }, { 2, 2, 5 }, { 4, 16, 64 }, { 0, 0, 40 },
	};
	struct hwtimer_options o = options(variant->flags);
	__u64 random = seed();
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		o.sq_entries = entries[i][0];
		o.cq_entries = entries[i][1];
		o.timeouts = entries[i][2];
		model(_metadata, o, rnd(&random) | 1, quick_or(2500, 8000));
	}
	/* An own wheel, with another tick. */
	o.flags |= HWTIMER_OPEN_OWN_WHEEL;
	o.tick_ns = 300 * NSEC_PER_USEC;
	o.slots = 64;
	model(_metadata, o, rnd(&random) | 1, quick_or(2500, 8000));
}

/* Threads, with a record for each timeout, which only one thread touches and cancels. */
#define WORKERS	3
#define WAITERS	2
#define OWN	50	/* timeouts that a thread keeps track of */

struct book {
	hwtimer_id id;
	atomic_ullong floor;	/* no event may have an earlier deadline */
	atomic_uchar events;
	bool armed, cancelled;
};

struct stress {
	struct hwtimer *h;
	struct book *books;
	unsigned int ops;
	atomic_int error;
	atomic_bool begun, stopping;
};

struct worker {
	struct stress *s;
	pthread_t thread;
	unsigned int number;
	__u64 random;
};

static void complain(struct stress *s, int line, long long value)
{
	printf("# lib.c:%d: %lld\n", line, value);
	fflush(stdout);
	atomic_store(&s->error, line);
}

static __u64 stress_deadline(__u64 *random)
{
	__u64 r = rnd(random);

	return r % 4 ? now_ns() + r / 4 % (4 * NSEC_PER_MSEC) : now_ns() + FAR;
}

/* Returns false if the timeout is over. */
static bool stress_touch(struct worker *w, struct book *b)
{
	__u64 deadline = stress_deadline(&w->random), floor = atomic_load(&b->floor);
	int ret;

	if (deadline < floor)
		atomic_store(&b->floor, deadline);
	ret = hwtimer_touch_at(w->s->h, b->id, deadline);
	/* A later deadline is guaranteed only once the touch has returned. */
	if (!ret)
		atomic_store(&b->floor, deadline);
	else if (ret != -ENOENT && (ret != -ESHUTDOWN || !atomic_load(&w->s->stopping)))
		complain(w->s, __LINE__, ret);
	return !ret;
}

static void *stress_work(void *arg)
{
	struct book *mine[OWN] = { NULL }, *b;
	struct worker *w = arg;
	struct stress *s = w->s;
	unsigned int i, place;
	int ret;

	for (i = 0; i < s->ops; i++) {
		place = rnd(&w->random) % OWN;
		b = mine[place];
		switch (rnd(&w->random) % 8) {
		case 0 ... 2:
			if (b)
				break;
			b = &s->books[w->number * s->ops + i];
			atomic_store(&b->floor, stress_deadline(&w->random));
			ret = hwtimer_schedule_at(s->h, b->floor, b - s->books, &b->id);
			b->armed = !ret;
			if (!ret) {
				mine[place] = b;
				atomic_store(&s->begun, true);
			} else if (ret != -EAGAIN &&
				   (ret != -ESHUTDOWN || !atomic_load(&s->stopping))) {
				complain(s, __LINE__, ret);
			}
			break;
		case 3 ... 5:
			if (b && !stress_touch(w, b))
				mine[place] = NULL;
			break;
		default:
			if (!b)
				break;
			ret = hwtimer_cancel(s->h, b->id);
			if (!ret)
				b->cancelled = true;
			else if (ret != -ENOENT)
				complain(s, __LINE__, ret);
			mine[place] = NULL;
		}
	}
	return NULL;
}

static void *stress_wait(void *arg)
{
	struct hwtimer_event e[20];
	struct worker *w = arg;
	struct stress *s = w->s;
	int ret, i, max;

	for (;;) {
		max = rnd(&w->random) % ARRAY_SIZE(e) + 1;
		ret = hwtimer_wait(s->h, e, max, -1);
		if (ret < 0)
			break;
		for (i = 0; i < ret; i++) {
			struct book *b = &s->books[e[i].user_data];

			if (!valid_event(&e[i], e[i].kind) ||
			    (e[i].kind != HWTIMER_KIND_EXPIRED && !atomic_load(&s->stopping)))
				complain(s, __LINE__, e[i].user_data);
			if (e[i].deadline_ns < atomic_load(&b->floor))
				complain(s, __LINE__, e[i].user_data);
			atomic_fetch_add(&b->events, 1);
		}
	}
	if (ret != -ESHUTDOWN || !atomic_load(&s->stopping))
		complain(s, __LINE__, ret);
	return NULL;
}

static void stress(struct __test_metadata *_metadata, struct hwtimer_options o, bool early,
		   __u64 random)
{
	struct worker workers[WORKERS + WAITERS];
	struct stress s = { .ops = quick_or(20000, 100000) };
	unsigned long armed = 0, cancelled = 0, events = 0;
	unsigned int i;

	s.h = must_open_lib(&o);
	s.books = must_alloc(WORKERS * s.ops, sizeof(*s.books));
	for (i = 0; i < ARRAY_SIZE(workers); i++) {
		workers[i] = (struct worker){
			.s = &s, .number = i, .random = rnd(&random) | 1,
		};
		start(&workers[i].thread, i < WORKERS ? stress_work : stress_wait,
		      &workers[i]);
	}
	eventually(atomic_load(&s.begun));
	if (early)
		wait_until(now_ns() + rnd(&random) % (200 * NSEC_PER_MSEC));
	for (i = 0; i < WORKERS && !early; i++)
		pthread_join(workers[i].thread, NULL);
	atomic_store(&s.stopping, true);
	EXPECT_EQ(0, hwtimer_stop(s.h));
	for (i = early ? 0 : WORKERS; i < ARRAY_SIZE(workers); i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < WORKERS * s.ops; i++) {
		struct book *b = &s.books[i];

		ASSERT_EQ(b->armed, b->cancelled + b->events)
			TH_LOG("book %u: id %llx armed %d cancelled %d events %u", i,
			       (unsigned long long)b->id, b->armed, b->cancelled, b->events);
		armed += b->armed;
		cancelled += b->cancelled;
		events += b->events;
	}
	printf("# %lu armed, %lu cancelled, %lu events\n", armed, cancelled, events);
	EXPECT_EQ(0, atomic_load(&s.error));
	EXPECT_LT(0, armed);
	hwtimer_close(s.h);
	free(s.books);
}

TEST_F(lib, threads)
{
	struct hwtimer_options o = options(variant->flags);
	__u64 random = seed();

	if (!(variant->flags & HWTIMER_OPEN_THREADS))
		SKIP(return, "one thread only");
	o.timeouts = 100;
	stress(_metadata, o, false, rnd(&random) | 1);
	stress(_metadata, o, true, rnd(&random) | 1);
	o.sq_entries = 2;
	o.cq_entries = 2;
	stress(_metadata, o, false, rnd(&random) | 1);
	stress(_metadata, o, true, rnd(&random) | 1);
}

/* All waiting threads are woken: by what another thread schedules, and by a stop. */
TEST_F(lib, threads_that_sleep)
{
	struct sleeper s[3];
	unsigned int i, reported = 0;

	if (!(variant->flags & HWTIMER_OPEN_THREADS))
		SKIP(return, "one thread only");
	for (i = 0; i < ARRAY_SIZE(s); i++)
		start_sleeper(&s[i], self->h);
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 0, NULL));
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 1, NULL));
	wait_expired(self->h, 2);
	/* Two of the threads get one event each, before the stop or after it. */
	ASSERT_EQ(0, hwtimer_stop(self->h));
	for (i = 0; i < ARRAY_SIZE(s); i++) {
		pthread_join(s[i].thread, NULL);
		EXPECT_TRUE(s[i].ret == 1 || s[i].ret == -ESHUTDOWN)
			TH_LOG("sleeper %u: %d", i, s[i].ret);
		reported += s[i].ret == 1;
	}
	EXPECT_EQ(2, reported);
}

/* The child has a copy of the handle as it was at the fork, possibly with its lock held. */
TEST_F(lib, fork_of_threads)
{
	struct sleeper s;

	if (!(variant->flags & HWTIMER_OPEN_THREADS))
		SKIP(return, "one thread only");
	start_sleeper(&s, self->h);
	in_child(must_fork()) {
		hwtimer_close(self->h);
	}
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 5, NULL));
	pthread_join(s.thread, NULL);
	EXPECT_EQ(1, s.ret);
	EXPECT_EQ(5, s.event.user_data);
}

static void *cancelled(void *arg)
{
	struct hwtimer_event e;
	struct sleeper *s = arg;
	struct hwtimer *other;
	hwtimer_id id;

	pthread_cancel(pthread_self());
	s->ret = hwtimer_schedule(s->h, 0, 0, &id);
	if (!s->ret)
		s->ret = hwtimer_open(&other, NULL);
	if (!s->ret)
		hwtimer_close(other);
	while (!s->ret)
		s->ret = hwtimer_wait(s->h, &e, 1, 0);
	hwtimer_wait(s->h, &e, 1, -1);
	return NULL;
}

/* A thread that was cancelled ends where it waits, with no lock and no event. */
TEST_F(lib, cancelled_thread)
{
	struct sleeper s = { .h = self->h };
	struct hwtimer_event e;
	void *result;

	start(&s.thread, cancelled, &s);
	pthread_join(s.thread, &result);
	EXPECT_EQ(PTHREAD_CANCELED, result);
	EXPECT_EQ(1, s.ret);
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 1, NULL));
	ASSERT_EQ(1, collect(self->h, &e, 1));
	EXPECT_EQ(1, e.user_data);
}

/* In a time namespace, times are those of clock_gettime(), to the ns. */
TEST_F(lib, time_namespace)
{
	struct hwtimer_event e;
	struct hwtimer *h;

	if (!unshare_time("1 100000 123456789"))
		SKIP(return, "no time namespaces");
	in_child(must_fork()) {
		__u64 before, deadline;

		h = MUST_OPEN(variant->flags);
		before = now_ns();
		expect(1, before <= hwtimer_now(h) && hwtimer_now(h) <= now_ns());
		deadline = before + 20 * NSEC_PER_MSEC;
		expect(0, hwtimer_schedule_at(h, deadline, 1, NULL));
		expect(1, collect(h, &e, 1));
		expect(1, e.deadline_ns == deadline && e.fired_ns >= deadline);
		expect(1, e.fired_ns <= now_ns());
		hwtimer_close(h);
	}
}

TEST_F(lib, own_wheel)
{
	const unsigned int own = HWTIMER_OPEN_OWN_WHEEL | HWTIMER_OPEN_BOOTTIME;
	struct hwtimer_event e;
	struct timespec ts;
	struct hwtimer *h;
	__u64 now;

	h = MUST_OPEN(variant->flags | own, .tick_ns = 1234567, .slots = 64, .levels = 2);
	EXPECT_EQ(1234567, hwtimer_tick_ns(h));
	EXPECT_EQ(2, must_fdinfo(context_fd(h), "levels"));
	EXPECT_EQ(CLOCK_BOOTTIME, must_fdinfo(context_fd(h), "clockid"));
	now = hwtimer_now(h);
	clock_gettime(CLOCK_BOOTTIME, &ts);
	EXPECT_LE(now, ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec);
	ASSERT_EQ(0, hwtimer_schedule_at(h, now + 10 * NSEC_PER_MSEC, 1, NULL));
	ASSERT_EQ(1, collect(h, &e, 1));
	EXPECT_EQ(now + 10 * NSEC_PER_MSEC, e.deadline_ns);
	EXPECT_LE(e.deadline_ns, e.fired_ns);
	hwtimer_close(h);
}

static void step_clock(__s64 by)
{
	__u64 to = clock_ns(CLOCK_REALTIME) + by;
	struct timespec ts = { to / NSEC_PER_SEC, to % NSEC_PER_SEC };

	if (clock_settime(CLOCK_REALTIME, &ts))
		die("clock_settime: %s", strerror(errno));
}

/*
 * Deadlines are times of day, also those that the library has not told the kernel, and somebody
 * sets the clock, forward and back.
 */
TEST_F(lib, realtime)
{
	const unsigned int own = HWTIMER_OPEN_OWN_WHEEL | HWTIMER_OPEN_REALTIME;
	const __s64 hour = 3600 * NSEC_PER_SEC;
	struct hwtimer_state state;
	struct hwtimer_stats stats;
	struct hwtimer_event e;
	struct hwtimer *h;
	hwtimer_id id, late, watch;
	__u64 now;

	EXPECT_EQ(-EINVAL, hwtimer_watch_clock(self->h, 1, NULL));
	h = MUST_OPEN(variant->flags | own, .tick_ns = NSEC_PER_MSEC, .slots = 512);
	now = clock_ns(CLOCK_REALTIME);
	EXPECT_LE(now, hwtimer_now(h));
	ASSERT_EQ(0, hwtimer_schedule_at(h, now + 5 * NSEC_PER_MSEC, 1, NULL));
	ASSERT_EQ(1, collect(h, &e, 1));
	EXPECT_EQ(now + 5 * NSEC_PER_MSEC, e.deadline_ns);
	EXPECT_LE(e.deadline_ns, e.fired_ns);

	/* The kernel does not know of the touch. */
	ASSERT_EQ(0, hwtimer_schedule_at(h, now + hour, 2, &id));
	ASSERT_EQ(0, hwtimer_schedule_at(h, now + hour, 3, &late));
	ASSERT_EQ(0, hwtimer_touch_at(h, id, now + 3 * hour));
	ASSERT_EQ(0, hwtimer_watch_clock(h, 4, &watch));
	ASSERT_EQ(0, hwtimer_query(h, watch, &state));
	EXPECT_EQ(HWTIMER_NEVER, state.deadline_ns);
	EXPECT_EQ(0, state.period_ns);
	step_clock(2 * hour);
	ASSERT_EQ(1, collect(h, &e, 1));
	/* In any order, and no event of the first one. */
	EXPECT_EQ(e.user_data == 3 ? HWTIMER_KIND_EXPIRED : HWTIMER_KIND_CLOCK_SET, e.kind);
	EXPECT_EQ(e.user_data == 3 ? late : watch, e.id);
	now = e.user_data;
	ASSERT_EQ(1, collect(h, &e, 1));
	EXPECT_EQ(3 + 4 - now, e.user_data);
	EXPECT_EQ(e.user_data == 3 ? HWTIMER_KIND_EXPIRED : HWTIMER_KIND_CLOCK_SET, e.kind);
	EXPECT_EQ(-ENOENT, hwtimer_touch(h, watch, 5));
	EXPECT_EQ(-ENOENT, hwtimer_query(h, watch, &state));
	EXPECT_EQ(-ENOENT, hwtimer_cancel(h, watch));
	EXPECT_EQ(0, hwtimer_wait(h, &e, 1, 0));
	ASSERT_EQ(0, hwtimer_query(h, id, &state));
	EXPECT_LE(state.remaining_ns, hour);

	/* Between its expiry in the kernel and here, the clock goes back. */
	ASSERT_EQ(0, hwtimer_touch_at(h, id, hwtimer_now(h) + hour / 4));
	ASSERT_EQ(0, hwtimer_touch_at(h, id, hwtimer_now(h) + hour / 2));
	step_clock(hour / 3);
	ASSERT_EQ(0, hwtimer_flush(h));
	step_clock(-hour);
	EXPECT_EQ(0, hwtimer_wait(h, &e, 1, 50 * NSEC_PER_MSEC));
	ASSERT_EQ(0, hwtimer_query(h, id, &state));
	EXPECT_GE(state.remaining_ns, (__u64)hour);
	step_clock(2 * hour);
	ASSERT_EQ(1, collect(h, &e, 1));
	EXPECT_EQ(id, e.id);
	EXPECT_LE(e.deadline_ns, e.fired_ns);

	ASSERT_EQ(0, hwtimer_stats(h, &stats, sizeof(stats)));
	EXPECT_EQ(1, stats.clock_set);
	EXPECT_TRUE(balanced(&stats));

	/* A watch that nobody sees is cancelled, or handed back. */
	ASSERT_EQ(0, hwtimer_watch_clock(h, 5, &watch));
	EXPECT_EQ(0, hwtimer_cancel(h, watch));
	ASSERT_EQ(0, hwtimer_watch_clock(h, 6, &watch));
	ASSERT_EQ(0, hwtimer_stop(h));
	ASSERT_EQ(1, collect(h, &e, 1));
	EXPECT_EQ(6, e.user_data);
	EXPECT_EQ(HWTIMER_KIND_HANDED_BACK, e.kind);
	hwtimer_close(h);
	step_clock(-2 * hour - hour / 3);
}

/* The clock goes back when they have expired in the kernel, and then they are touched. */
TEST_F(lib, realtime_touched)
{
	const unsigned int own = HWTIMER_OPEN_OWN_WHEEL | HWTIMER_OPEN_REALTIME;
	const __s64 hour = 3600 * NSEC_PER_SEC;
	struct hwtimer_state state;
	struct hwtimer_event e;
	struct hwtimer *h;
	hwtimer_id later, same, untouched;
	__u64 now;

	h = MUST_OPEN(variant->flags | own, .tick_ns = NSEC_PER_MSEC, .slots = 512);
	now = hwtimer_now(h);
	ASSERT_EQ(0, hwtimer_schedule_at(h, now, 1, &later));
	ASSERT_EQ(0, hwtimer_schedule_at(h, now, 2, &same));
	ASSERT_EQ(0, hwtimer_schedule_at(h, now, 3, &untouched));
	wait_expired(h, 3);
	step_clock(-hour);
	ASSERT_EQ(0, hwtimer_touch(h, later, 30 * NSEC_PER_SEC));
	ASSERT_EQ(0, hwtimer_touch_at(h, same, now));
	/* Not touched: the clock had reached its deadline. */
	ASSERT_EQ(1, hwtimer_wait(h, &e, 1, NSEC_PER_SEC));
	EXPECT_EQ(untouched, e.id);
	EXPECT_EQ(now, e.deadline_ns);
	EXPECT_EQ(0, hwtimer_wait(h, &e, 1, 50 * NSEC_PER_MSEC));
	ASSERT_EQ(0, hwtimer_query(h, later, &state));
	EXPECT_GE(30 * NSEC_PER_SEC, state.remaining_ns);
	ASSERT_EQ(0, hwtimer_query(h, same, &state));
	EXPECT_EQ(now, state.deadline_ns);
	ASSERT_EQ(0, hwtimer_flush(h));
	EXPECT_EQ(2, must_stats(hwtimer_fd(h)).pending);
	step_clock(hour);
	ASSERT_EQ(1, collect(h, &e, 1));
	EXPECT_LE(e.deadline_ns, e.fired_ns);
	ASSERT_EQ(1, collect(h, &e, 1));
	EXPECT_LE(e.deadline_ns, e.fired_ns);

	ASSERT_EQ(0, hwtimer_watch_clock(h, 4, &later));
	EXPECT_EQ(-EINVAL, hwtimer_touch(h, later, 0));
	EXPECT_EQ(0, hwtimer_cancel(h, later));
	hwtimer_close(h);
}

/* An error of the kernel's ioctl is returned, and no slot is taken. */
TEST_F(lib, refused)
{
	struct hwtimer_repeat r = { .period_ns = NSEC_PER_SEC };
	struct hwtimer_stats stats;
	hwtimer_id id = POISON;
	struct hwtimer *h;

	h = MUST_OPEN(variant->flags, .timeouts = 1);
	fail_command = HWTIMER_IOC_SCHEDULE;
	fail_errno = ENOMEM;
	EXPECT_EQ(-ENOMEM, hwtimer_schedule_repeat(h, &r, 0, &id));
	if (variant->flags & HWTIMER_OPEN_NO_RINGS) {
		EXPECT_EQ(-ENOMEM, hwtimer_schedule(h, 0, 0, &id));
	}
	EXPECT_EQ(POISON, id);
	fail_errno = 0;
	ASSERT_EQ(0, hwtimer_schedule(h, FAR, 0, &id));
	fail_command = HWTIMER_IOC_STOP;
	fail_errno = EFAULT;
	EXPECT_EQ(-EFAULT, hwtimer_stop(h));
	fail_command = HWTIMER_IOC_STATS;
	EXPECT_EQ(-EFAULT, hwtimer_stats(h, &stats, sizeof(stats)));
	fail_errno = 0;
	EXPECT_EQ(0, hwtimer_touch(h, id, FAR));
	hwtimer_close(h);
}

/*
 * Without rings: arming again fails. This needs a program that misuses the descriptor; still, the
 * error is returned, and no timeout is lost or early.
 */
TEST(not_armed_again)
{
	struct hwtimer *h = MUST_OPEN(HWTIMER_OPEN_NO_RINGS);
	struct hwtimer_event e;
	hwtimer_id id;

	ASSERT_EQ(0, hwtimer_schedule(h, 0, 1, &id));
	wait_expired(h, 1);
	ASSERT_EQ(0, hwtimer_touch(h, id, FAR));
	fail_command = HWTIMER_IOC_SCHEDULE;
	fail_errno = ENOMEM;
	EXPECT_EQ(-ENOMEM, hwtimer_wait(h, &e, 1, -1));
	EXPECT_EQ(-ENOMEM, hwtimer_wait(h, &e, 1, -1));
	fail_errno = 0;
	EXPECT_EQ(0, hwtimer_wait(h, &e, 1, 0));
	EXPECT_EQ(1, must_stats(context_fd(h)).pending);
	ASSERT_EQ(0, hwtimer_touch(h, id, 0));
	ASSERT_EQ(1, collect(h, &e, 1));
	EXPECT_EQ(id, e.id);
	hwtimer_close(h);
}

/* Rings and records that the test can modify. */
struct seen_rings {
	struct hwtimer *h;
	struct hwtimer_ring *ring;
	struct hwtimer_record *records;
};

static struct seen_rings must_see_rings(void)
{
	struct seen_rings s;

	s.h = MUST_OPEN(HWTIMER_OPEN_RINGS, .sq_entries = 4, .cq_entries = 4);
	s.ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, hwtimer_fd(s.h), 0);
	if (s.ring == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	s.records = (void *)(s.ring + 1) + 4 * sizeof(struct hwtimer_sqe);
	return s;
}

/* Schedule a timeout that is due at once, and turn its record into that of a failed schedule. */
static hwtimer_id must_fail(struct seen_rings *s, __u64 user_data, int error)
{
	__u64 n = must_stats(context_fd(s->h)).expired;
	struct hwtimer_record *r = &s->records[s->ring->cq_tail % 4];
	hwtimer_id id;

	if (hwtimer_schedule(s->h, 0, user_data, &id))
		die("schedule");
	wait_expired(s->h, n + 1);
	if (r->id != id || r->kind != HWTIMER_KIND_EXPIRED)
		die("this is not its record");
	r->kind = HWTIMER_KIND_FAILED;
	r->error = error;
	r->op = HWTIMER_OP_SCHEDULE;
	return id;
}

/*
 * Schedules that fail in the ring. Today the kernel reports no -EEXIST to the library, and the
 * other errors only in case of faults, so the records are forged.
 */
TEST(failed_in_the_ring)
{
	static const int again[] = { -EEXIST, -EBUSY };
	static const int ends[] = { -ESHUTDOWN, -EINVAL, -EAGAIN, -ENOMEM };
	struct seen_rings s = must_see_rings();
	struct hwtimer_event e;
	unsigned int i;
	hwtimer_id id;

	for (i = 0; i < ARRAY_SIZE(again); i++) {
		/* Its deadline is past. */
		id = must_fail(&s, 1, again[i]);
		ASSERT_EQ(1, hwtimer_wait(s.h, &e, 1, 0));
		EXPECT_TRUE(valid_event(&e, HWTIMER_KIND_EXPIRED));
		EXPECT_EQ(id, e.id);
		/* Its deadline is in the future: it is armed again. */
		id = must_fail(&s, 2, again[i]);
		ASSERT_EQ(0, hwtimer_touch(s.h, id, FAR));
		EXPECT_EQ(0, hwtimer_wait(s.h, &e, 1, 0));
		EXPECT_EQ(0, hwtimer_flush(s.h));
		EXPECT_EQ(1, must_stats(context_fd(s.h)).pending);
		ASSERT_EQ(0, hwtimer_touch(s.h, id, 10 * NSEC_PER_MSEC));
		ASSERT_EQ(1, collect(s.h, &e, 1));
		EXPECT_TRUE(valid_event(&e, HWTIMER_KIND_EXPIRED));
		EXPECT_EQ(2, e.user_data);
		/* It has been cancelled. */
		id = must_fail(&s, 3, again[i]);
		ASSERT_EQ(0, hwtimer_cancel(s.h, id));
		EXPECT_EQ(0, hwtimer_wait(s.h, &e, 1, 0));
		EXPECT_EQ(0, must_stats(context_fd(s.h)).pending);
	}
	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		id = must_fail(&s, 4, ends[i]);
		ASSERT_EQ(1, hwtimer_wait(s.h, &e, 1, 0));
		EXPECT_TRUE(valid_event(&e, HWTIMER_KIND_HANDED_BACK));
		EXPECT_EQ(id, e.id);
		EXPECT_EQ(-ENOENT, hwtimer_cancel(s.h, id));
	}
	hwtimer_close(s.h);
}

/*
 * A slot is reused while its record waits in the kernel, so the new submission waits in the ring.
 * The library reads records to make room, but leaves one, for a program that polls.
 */
TEST(readable_when_room_was_made)
{
	struct seen_rings s = must_see_rings();
	unsigned int i, seen = 0;
	struct hwtimer_event e;
	hwtimer_id ids[5];

	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, hwtimer_schedule(s.h, 0, i, &ids[i]));
		wait_expired(s.h, i + 1);
	}
	ASSERT_EQ(4, s.ring->cq_tail - s.ring->cq_head);
	ASSERT_EQ(0, hwtimer_cancel(s.h, ids[4]));
	ASSERT_EQ(0, hwtimer_schedule(s.h, FAR, 4, &ids[4]));
	least_records = ~0U;
	counted_ring = s.ring;
	ASSERT_EQ(0, hwtimer_flush(s.h));
	counted_ring = NULL;
	/* The library made room, and left one record. */
	EXPECT_EQ(1, least_records);
	ASSERT_EQ(s.ring->sq_tail, s.ring->sq_head);
	for (i = 0; i < 4; i++) {
		ASSERT_TRUE(readable(s.h, 60000));
		ASSERT_EQ(1, hwtimer_wait(s.h, &e, 1, 0));
		ASSERT_TRUE(valid_event(&e, HWTIMER_KIND_EXPIRED));
		seen |= 1 << e.user_data;
	}
	EXPECT_EQ(0xf, seen);
	EXPECT_EQ(0, hwtimer_wait(s.h, &e, 1, 0));
	EXPECT_EQ(0, hwtimer_flush(s.h));
	EXPECT_EQ(1, must_stats(context_fd(s.h)).pending);
	ASSERT_EQ(0, hwtimer_cancel(s.h, ids[4]));
	hwtimer_close(s.h);
}

/* Let timeouts @first to @last expire; their records fill the ring, and that of @last waits. */
static void must_fill(struct seen_rings *s, unsigned int first, unsigned int last, hwtimer_id *ids)
{
	__u64 n = must_stats(context_fd(s->h)).expired;
	unsigned int i;

	for (i = first; i <= last; i++) {
		if (hwtimer_schedule(s->h, 0, i, &ids[i]))
			die("schedule");
		wait_expired(s->h, ++n);
	}
	/* Reuse its slot, so that the library has to make room. */
	if (hwtimer_cancel(s->h, ids[last]) || hwtimer_schedule(s->h, FAR, last, &ids[last]) ||
	    hwtimer_flush(s->h))
		die("no room was made");
}

/* Timeouts with unread records are cancelled, and their slots reused: nothing is lost. */
TEST(reused_with_unread)
{
	struct seen_rings s = must_see_rings();
	struct hwtimer_event e[6];
	unsigned int i, seen = 0;
	hwtimer_id ids[9];

	must_fill(&s, 0, 4, ids);
	ASSERT_EQ(0, hwtimer_cancel(s.h, ids[0]));
	must_fill(&s, 5, 8, ids);
	ASSERT_EQ(HWTIMER_ID_INDEX(ids[0]), HWTIMER_ID_INDEX(ids[5]));
	ASSERT_EQ(6, collect(s.h, e, 6));
	for (i = 0; i < 6; i++)
		seen |= 1 << e[i].user_data;
	EXPECT_EQ(1 << 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7, seen);
	ASSERT_EQ(0, hwtimer_stop(s.h));
	ASSERT_EQ(2, collect(s.h, e, 3));
	EXPECT_EQ(4 + 8, e[0].user_data + e[1].user_data);
	hwtimer_close(s.h);
}

/* The slot's last record still waits when a periodic timeout is first scheduled there. */
TEST(periodic_in_a_place_in_use)
{
	struct hwtimer_repeat r = { .period_ns = 2 * NSEC_PER_MSEC };
	struct seen_rings s = must_see_rings();
	struct hwtimer_event e;
	hwtimer_id id;

	fail_command = HWTIMER_IOC_SCHEDULE;
	fail_errno = EEXIST;
	fail_times = 3;
	ASSERT_EQ(0, hwtimer_schedule_repeat(s.h, &r, 5, &id));
	EXPECT_EQ(0, fail_times);
	ASSERT_EQ(1, collect(s.h, &e, 1));
	EXPECT_EQ(id, e.id);
	EXPECT_EQ(5, e.user_data);
	hwtimer_close(s.h);
}

/* A program that damages its rings harms only itself, and gets an error. */
TEST(damaged)
{
	struct seen_rings s = must_see_rings();
	struct hwtimer_event e;
	__u32 head;

	ASSERT_EQ(0, hwtimer_schedule(s.h, FAR, 1, NULL));
	head = s.ring->cq_head;
	s.ring->cq_head = head + 12345678;
	EXPECT_EQ(-EBADFD, hwtimer_wait(s.h, &e, 1, -1));
	s.ring->cq_head = head;
	ASSERT_EQ(0, hwtimer_schedule(s.h, 0, 2, NULL));
	ASSERT_EQ(1, collect(s.h, &e, 1));
	EXPECT_EQ(2, e.user_data);
	hwtimer_close(s.h);
}

TEST(usual_options)
{
	struct hwtimer *h = must_open_lib(NULL);
	struct hwtimer_event e;

	/* This kernel has rings. */
	EXPECT_TRUE(hwtimer_has_rings(h));
	EXPECT_EQ(4096, must_fdinfo(context_fd(h), "sq_entries"));
	EXPECT_EQ(4096, must_fdinfo(context_fd(h), "cq_entries"));
	EXPECT_EQ(resizable() ? 1024 : 65536, must_fdinfo(context_fd(h), "timeouts"));
	ASSERT_EQ(0, hwtimer_schedule(h, 0, 1, NULL));
	ASSERT_EQ(1, collect(h, &e, 1));
	hwtimer_close(h);
	hwtimer_close(NULL);
}

#define open_with(flags, field, value) ({			\
	struct hwtimer_options o_ = options(flags);		\
	o_.field = (value);					\
	try_open(o_);						\
})

TEST(every_option)
{
	const unsigned int backends[] = {
		0, HWTIMER_OPEN_RINGS, HWTIMER_OPEN_NO_RINGS, HWTIMER_OPEN_THREADS,
	};
	int files = open_files();
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(backends); i++) {
		unsigned int f = backends[i];
		int ret;

		EXPECT_EQ(0, try_open(options(f)));
		EXPECT_EQ(-EINVAL, open_with(f, size, sizeof(struct hwtimer_options) - 1));
		EXPECT_EQ(-EINVAL, open_with(f, size, sizeof(struct hwtimer_options) + 1));
		EXPECT_EQ(-EINVAL, open_with(f, size, 0));
		EXPECT_EQ(-EINVAL, open_with(0, flags, f | 0x40));
		EXPECT_EQ(0, open_with(f, timeouts, 1));
		ret = open_with(f, timeouts, (1 << 24) - 1);
		EXPECT_TRUE(!ret || ret == -ENOMEM);
		ret = open_with(f, timeouts, 1 << 24);
		EXPECT_TRUE(!ret || ret == -ENOMEM);
		EXPECT_EQ(-EINVAL, open_with(f, timeouts, (1 << 24) + 1));
		EXPECT_EQ(0, open_with(f, sq_entries, 1));
		EXPECT_EQ(0, open_with(f, sq_entries, 65535));
		EXPECT_EQ(0, open_with(f, sq_entries, 65536));
		EXPECT_EQ(-EINVAL, open_with(f, sq_entries, 65537));
		EXPECT_EQ(0, open_with(f, cq_entries, 1));
		EXPECT_EQ(0, open_with(f, cq_entries, 65535));
		EXPECT_EQ(0, open_with(f, cq_entries, 65536));
		EXPECT_EQ(-EINVAL, open_with(f, cq_entries, 65537));
		/*
		 * The kernel accepts these options for own wheels only, or needs others with them.
		 */
		EXPECT_EQ(-EINVAL, open_with(f, tick_ns, NSEC_PER_MSEC));
		EXPECT_EQ(-EINVAL, open_with(f, slots, 64));
		EXPECT_EQ(-EINVAL, open_with(f, levels, 2));
		EXPECT_EQ(-EINVAL, try_open(options(f | HWTIMER_OPEN_BOOTTIME)));
		EXPECT_EQ(-EINVAL, try_open(options(f | HWTIMER_OPEN_REALTIME)));
		EXPECT_EQ(-EINVAL, try_open(options(f | HWTIMER_OPEN_BOOTTIME |
						    HWTIMER_OPEN_REALTIME)));
		EXPECT_EQ(-EINVAL, try_open(options(f | HWTIMER_OPEN_OWN_WHEEL)));
		EXPECT_EQ(-ENOENT, open_with(f, device, "/dev/no-such"));
		EXPECT_EQ(-ENOTTY, open_with(f, device, "/dev/null"));
		EXPECT_EQ(0, open_with(f, device, HWT_DEVICE));
	}
	EXPECT_EQ(-EINVAL, try_open(options(HWTIMER_OPEN_RINGS | HWTIMER_OPEN_NO_RINGS)));
	EXPECT_EQ(files, open_files());
}

/* A program that was built against the header of a later library. */
TEST(options_of_a_later_library)
{
	struct {
		struct hwtimer_options o;
		__u64 more[2];
	} later = { .o = options(0) };
	struct hwtimer *h;

	later.o.size = sizeof(later);
	ASSERT_EQ(0, hwtimer_open(&h, &later.o));
	hwtimer_close(h);
	later.more[1] = 1;
	EXPECT_EQ(-E2BIG, hwtimer_open(&h, &later.o));
	EXPECT_EQ(NULL, h);
	/* The last word is not an option any more. */
	later.o.size = sizeof(later) - sizeof(later.more[1]);
	ASSERT_EQ(0, hwtimer_open(&h, &later.o));
	hwtimer_close(h);
	later.more[0] = 1ULL << 63;
	EXPECT_EQ(-E2BIG, hwtimer_open(&h, &later.o));
	later.o.size = sizeof(later) - 4;
	EXPECT_EQ(-EINVAL, hwtimer_open(&h, &later.o));
}

/* A kernel without rings, or without memory for them. */
TEST(no_rings)
{
	const int errors[] = { EDQUOT, ENOMEM, EINVAL, ENOTTY };
	struct hwtimer_event e;
	struct hwtimer *h;
	unsigned int i;
	int files = open_files();

	fail_command = HWTIMER_IOC_RINGS;
	fail_errno = EOPNOTSUPP;
	EXPECT_EQ(-EOPNOTSUPP, try_open(options(HWTIMER_OPEN_RINGS)));
	h = must_open_lib(NULL);
	EXPECT_FALSE(hwtimer_has_rings(h));
	ASSERT_EQ(0, hwtimer_schedule(h, 0, 1, NULL));
	ASSERT_EQ(1, collect(h, &e, 1));
	hwtimer_close(h);
	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		fail_errno = errors[i];
		EXPECT_EQ(-errors[i], try_open(options(0)));
		EXPECT_EQ(-errors[i], try_open(options(HWTIMER_OPEN_RINGS)));
		EXPECT_EQ(0, try_open(options(HWTIMER_OPEN_NO_RINGS)));
	}
	fail_errno = 0;
	fail_mmap = true;
	EXPECT_EQ(-ENOMEM, try_open(options(0)));
	EXPECT_EQ(0, try_open(options(HWTIMER_OPEN_NO_RINGS)));
	fail_mmap = false;
	fail_command = HWTIMER_IOC_SETUP;
	fail_errno = EPERM;
	EXPECT_EQ(-EPERM, try_open(options(0)));
	fail_errno = 0;
	EXPECT_EQ(files, open_files());
}

/* Schedule and cancel @n timeouts; returns how many schedules reached the kernel. */
static __u64 seen_of_cancelled(struct __test_metadata *_metadata, struct hwtimer *h,
			       unsigned int n)
{
	struct hwtimer_stats s;
	hwtimer_id id, sooner;
	unsigned int i;

	ASSERT_EQ(0, hwtimer_schedule(h, FAR, 0, &sooner));
	for (i = 1; i < n; i++) {
		ASSERT_EQ(0, hwtimer_schedule(h, 2 * FAR, i, &id));
		/* The touch to an earlier deadline has reached the kernel. */
		if (i % 3 == 0) {
			ASSERT_EQ(0, hwtimer_touch(h, id, FAR + i));
		}
		ASSERT_EQ(0, hwtimer_cancel(h, id));
	}
	ASSERT_EQ(0, hwtimer_cancel(h, sooner));
	EXPECT_EQ(0, hwtimer_flush(h));
	EXPECT_EQ(0, hwtimer_wait(h, &(struct hwtimer_event){ 0 }, 1, 0));
	s = must_stats(context_fd(h));
	EXPECT_EQ(0, s.pending);
	EXPECT_EQ(s.scheduled, s.cancelled);
	return s.scheduled;
}

/* A schedule cancelled before the kernel polled never gets there, but its end is reported. */
TEST(taken_back)
{
	const unsigned int n = 20000;
	struct hwtimer *h = must_open_lib(NULL);
	__u64 seen = seen_of_cancelled(_metadata, h, n);

	printf("# the kernel has seen %llu of %u\n", seen, n);
	/* A ring of 4096 is seldom full, and each time it is, at most one schedule gets through. */
	EXPECT_GT(n / 2, seen);
	hwtimer_close(h);
}

/*
 * Submissions that the library takes back are on a write-protected page. When the library writes
 * there, it has seen that the kernel has not claimed the entry; the handler of the fault then has
 * the kernel claim it.
 */
static struct {
	int		fd;
	char		*page;
	size_t		size;
	const void	*op;
	unsigned int	times;
} trap;

static void claim_entry(int sig, siginfo_t *info, void *context)
{
	struct hwtimer_enter arg = { 0 };
	char *at = info->si_addr;

	(void)context;
	if (at < trap.page || at >= trap.page + trap.size ||
	    mprotect(trap.page, trap.size, PROT_READ | PROT_WRITE)) {
		signal(sig, SIG_DFL);
		return;
	}
	if (at != trap.op)
		return;
	if (__real_ioctl(trap.fd, HWTIMER_IOC_ENTER, &arg))
		_exit(1);
	trap.times++;
}

/* A submission that the kernel claims while the library takes it back is cancelled anyway. */
TEST(claimed_meanwhile)
{
	struct sigaction action = { .sa_sigaction = claim_entry, .sa_flags = SA_SIGINFO };
	struct hwtimer *h = must_open_lib(NULL);
	struct hwtimer_ring *ring = lib_rings;
	struct hwtimer_stats s;
	unsigned int i;
	hwtimer_id id;
	char *sqe;

	ASSERT_EQ(0, sigaction(SIGSEGV, &action, NULL));
	trap.fd = hwtimer_fd(h);
	trap.size = sysconf(_SC_PAGESIZE);
	ASSERT_EQ(0, hwtimer_schedule(h, FAR, 0, NULL));
	/* Usually the kernel does not poll in between. */
	for (i = 0; i < 300 || !trap.times; i++) {
		ASSERT_EQ(0, hwtimer_schedule(h, 2 * FAR, i, &id));
		sqe = (char *)(ring + 1) +
		      (ring->sq_tail - 1) % 4096 * sizeof(struct hwtimer_sqe);
		trap.op = sqe + offsetof(struct hwtimer_sqe, op);
		trap.page = sqe - (uintptr_t)sqe % trap.size;
		if (trap.page > (char *)ring) {
			/* Not the header: the kernel has to write sq_claimed there. */
			ASSERT_EQ(0, mprotect(trap.page, trap.size, PROT_READ));
		}
		ASSERT_EQ(0, hwtimer_cancel(h, id));
		ASSERT_EQ(0, mprotect(trap.page, trap.size, PROT_READ | PROT_WRITE));
	}
	ASSERT_EQ(0, hwtimer_flush(h));
	s = must_stats(context_fd(h));
	printf("# %u of %u claimed meanwhile\n", trap.times, i);
	EXPECT_EQ(1, s.pending);
	EXPECT_EQ(s.scheduled, s.cancelled + 1);
	hwtimer_close(h);
	signal(SIGSEGV, SIG_DFL);
}

TEST(out_of_memory)
{
	int files = open_files(), n;
	size_t before;

	ASSERT_EQ(0, try_open(options(0)));
	before = mapped;
	for (n = 0; ; n++) {
		int ret;

		fail_allocation = n;
		ret = try_open(options(0));
		if (fail_allocation >= 0)
			break;
		ASSERT_EQ(-ENOMEM, ret);
	}
	fail_allocation = -1;
	/* The handle. */
	EXPECT_EQ(1, n);
	fail_map = 0;
	EXPECT_EQ(-ENOMEM, try_open(options(0)));
	EXPECT_EQ(files, open_files());
	EXPECT_EQ(before, mapped);
}

/* Threads of one handle: each schedules, then exits; the last one ends all. */
struct scheduler {
	struct hwtimer *h;
	pthread_t thread;
	hwtimer_id id;
	int ret;
};

static void *schedule_far(void *arg)
{
	struct scheduler *s = arg;

	s->ret = hwtimer_schedule(s->h, FAR, (uintptr_t)s, &s->id);
	return NULL;
}

static void schedule_by_thread(struct scheduler *s, struct hwtimer *h)
{
	s->h = h;
	start(&s->thread, schedule_far, s);
	pthread_join(s->thread, NULL);
}

/*
 * Threads come and go, and with them no more than so many contexts. What they have scheduled can be
 * touched and cancelled by others. Without descriptors for more contexts they share those that
 * there are.
 */
TEST(many_threads)
{
	enum { N = 100 };
	static struct scheduler s[N];
	struct rlimit limit, low;
	struct hwtimer_stats stats;
	struct hwtimer_event e;
	struct hwtimer_state state;
	struct hwtimer *h;
	int round, i, files;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
	for (round = 0; round < 2; round++) {
		char device[] = HWT_DEVICE;

		h = MUST_OPEN(HWTIMER_OPEN_THREADS, .device = device);
		/* The library has a copy. */
		device[0] = 0;
		files = open_files();
		low = (struct rlimit){ dup(0) + (round ? 0 : 100), limit.rlim_max };
		close(low.rlim_cur - (round ? 0 : 100));
		ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &low));
		for (i = 0; i < N; i++)
			schedule_by_thread(&s[i], h);
		ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
		if (round) {
			EXPECT_EQ(files, open_files());
		} else {
			EXPECT_LT(files, open_files());
		}
		EXPECT_GE(files + 2 * SHARDS, open_files());
		for (i = 0; i < N; i++) {
			ASSERT_EQ(0, s[i].ret);
			ASSERT_EQ(0, hwtimer_query(h, s[i].id, &state));
			EXPECT_EQ((uintptr_t)&s[i], state.user_data);
			EXPECT_EQ(0, hwtimer_touch(h, s[i].id, FAR / 2));
			if (i >= N / 2) {
				EXPECT_EQ(0, hwtimer_cancel(h, s[i].id));
			}
		}
		EXPECT_EQ(-ENOENT, hwtimer_cancel(h, s[N - 1].id));
		EXPECT_EQ(-ENOENT, hwtimer_cancel(h, s[0].id | 15ULL << 60));
		EXPECT_EQ(-ENOENT, hwtimer_touch(h, s[0].id | 15ULL << 60, 0));
		EXPECT_EQ(-ENOENT, hwtimer_query(h, s[0].id | 15ULL << 60, &state));
		ASSERT_EQ(0, hwtimer_flush(h));
		ASSERT_EQ(0, hwtimer_stats(h, &stats, sizeof(stats)));
		EXPECT_EQ(N / 2, stats.pending);
		for (i = 0; i < 2; i++) {
			EXPECT_EQ(0, hwtimer_touch(h, s[i].id, 0));
			EXPECT_EQ(1, hwtimer_wait(h, &e, 1, -1));
			EXPECT_EQ(s[i].id, e.id);
		}
		in_child(must_fork()) {
			hwtimer_close(h);
		}
		ASSERT_EQ(0, hwtimer_stop(h));
		schedule_by_thread(&s[0], h);
		EXPECT_EQ(-ESHUTDOWN, s[0].ret);
		for (i = 0; i < N / 2 - 2; i++) {
			EXPECT_EQ(1, hwtimer_wait(h, &e, 1, -1));
		}
		EXPECT_EQ(-ESHUTDOWN, hwtimer_wait(h, &e, 1, -1));
		hwtimer_close(h);
	}
}

/* All threads together may have so many timeouts, wherever these are. */
TEST(limit_of_all_threads)
{
	enum { N = 10 };
	struct hwtimer *h = MUST_OPEN(HWTIMER_OPEN_THREADS, .timeouts = N);
	struct scheduler s[N + 1] = { 0 };
	int i;

	for (i = 0; i <= N; i++)
		schedule_by_thread(&s[i], h);
	for (i = 0; i < N; i++) {
		EXPECT_EQ(0, s[i].ret);
	}
	EXPECT_EQ(-EAGAIN, s[N].ret);
	ASSERT_EQ(0, hwtimer_cancel(h, s[3].id));
	schedule_by_thread(&s[N], h);
	EXPECT_EQ(0, s[N].ret);
	hwtimer_close(h);
}

TEST_HARNESS_MAIN
