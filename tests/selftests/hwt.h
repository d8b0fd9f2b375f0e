/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of /dev/hwtimer share.
 *
 * Helpers that return int return 0 or more, or -errno.
 */
#ifndef HWT_H
#define HWT_H

#include "guest.h"

#include <linux/hwtimer.h>

#define HWT_DEVICE	"/dev/hwtimer"

#define RECORD_SIZE	((int)sizeof(struct hwtimer_record))
/* In struct hwtimer_rings. */
#define ENTRY_SIZES	.sqe_size = sizeof(struct hwtimer_sqe), .record_size = RECORD_SIZE

static inline int hwt_open(int flags)
{
	int fd = open(HWT_DEVICE, O_RDWR | O_CLOEXEC | flags);

	return fd < 0 ? -errno : fd;
}

static inline int must_open(int flags)
{
	int fd = hwt_open(flags);

	if (fd < 0)
		die("%s: %s", HWT_DEVICE, strerror(-fd));
	return fd;
}

/* The command as a program with another version of the header would have compiled it. */
static inline unsigned long with_size(unsigned long cmd, unsigned int size)
{
	return _IOC(_IOC_DIR(cmd), _IOC_TYPE(cmd), _IOC_NR(cmd), size);
}

static inline int hwt_setup(int fd, struct hwtimer_setup *setup)
{
	struct hwtimer_setup old = *setup;
	int ret = hwt_ioctl(fd, HWTIMER_IOC_SETUP, setup);

	if (setup->flags != old.flags || setup->clockid != old.clockid)
		return DIRTY;
	return ret;
}

/* Give @fd an own wheel. */
static inline int hwt_own_wheel(int fd, __u64 tick_ns, __u32 slots, __u64 cap)
{
	struct hwtimer_setup setup = {
		.flags = HWTIMER_SETUP_OWN_WHEEL,
		.clockid = CLOCK_MONOTONIC,
		.tick_ns = tick_ns,
		.slots = slots,
		.levels = 1,
		.cap = cap,
	};

	return hwt_setup(fd, &setup);
}

static inline int hwt_schedule(int fd, __u32 flags, __u64 time, __u64 user_data,
			       __u64 *id, __u64 *deadline)
{
	struct hwtimer_schedule s = {
		.flags = flags, .time = time, .user_data = user_data,
		.id = POISON, .deadline = POISON,
	};
	int ret = hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);

	if (s.flags != flags || s.pad || s.time != time || s.user_data != user_data)
		return DIRTY;
	if (ret < 0)
		return ret;
	if (!s.id || s.id == POISON || s.deadline == POISON)
		return DIRTY;
	if (id)
		*id = s.id;
	if (deadline)
		*deadline = s.deadline;
	return ret;
}

/* Schedule, @delay from now; die on failure. */
static inline __u64 must_schedule(int fd, __u64 delay, __u64 user_data)
{
	__u64 id;
	int ret = hwt_schedule(fd, HWTIMER_RELATIVE, delay, user_data, &id, NULL);

	if (ret)
		die("schedule: %d (%s)", ret, strerror(-ret));
	return id;
}

static inline int hwt_touch(int fd, __u32 flags, __u64 id, __u64 time,
			    __u64 *deadline)
{
	struct hwtimer_touch t = {
		.flags = flags, .id = id, .time = time, .deadline = POISON,
	};
	int ret = hwt_ioctl(fd, HWTIMER_IOC_TOUCH, &t);

	if (t.flags != flags || t.pad || t.id != id || t.time != time ||
	    (ret >= 0 && t.deadline == POISON))
		return DIRTY;
	if (!ret && deadline)
		*deadline = t.deadline;
	return ret;
}

static inline int hwt_cancel(int fd, __u64 id)
{
	struct hwtimer_cancel c = { .id = id };
	int ret = hwt_ioctl(fd, HWTIMER_IOC_CANCEL, &c);

	if (c.flags || c.pad || c.id != id)
		return DIRTY;
	return ret;
}

static inline int hwt_query(int fd, __u64 id, __u64 *user_data, __u64 *deadline)
{
	struct hwtimer_query q = {
		.id = id, .user_data = POISON, .deadline = POISON,
	};
	int ret = hwt_ioctl(fd, HWTIMER_IOC_QUERY, &q);

	if (q.flags || q.pad || q.id != id || (ret >= 0 && q.deadline == POISON))
		return DIRTY;
	if (!ret && user_data)
		*user_data = q.user_data;
	if (!ret && deadline)
		*deadline = q.deadline;
	return ret;
}

static inline int hwt_stop(int fd, __u64 *handed_back)
{
	struct hwtimer_stop s = { .handed_back = POISON };
	int ret = hwt_ioctl(fd, HWTIMER_IOC_STOP, &s);

	if (s.flags || s.pad || (ret >= 0 && s.handed_back == POISON))
		return DIRTY;
	if (!ret && handed_back)
		*handed_back = s.handed_back;
	return ret;
}

static inline struct hwtimer_stats must_stats(int fd)
{
	struct hwtimer_stats s;
	int ret;

	memset(&s, 0xa5, sizeof(s));
	s.flags = 0;
	s.pad = 0;
	ret = hwt_ioctl(fd, HWTIMER_IOC_STATS, &s);
	if (ret)
		die("stats: %d (%s)", ret, strerror(-ret));
	if (s.flags || s.pad || s.now == POISON || s.scheduled == POISON ||
	    s.touched == POISON || s.cancelled == POISON || s.expired == POISON ||
	    s.handed_back == POISON || s.rejected == POISON ||
	    s.pending == POISON || s.unread == POISON || s.cap == POISON ||
	    s.clock_set == POISON)
		die("stats: a field was not filled in");
	return s;
}

static inline bool balanced(const struct hwtimer_stats *s)
{
	return s->scheduled == s->pending + s->cancelled + s->expired +
			       s->handed_back + s->clock_set;
}

/* All counters are equal. */
static inline bool same_stats(const struct hwtimer_stats *a,
			      const struct hwtimer_stats *b)
{
	struct hwtimer_stats x = *a, y = *b;

	x.now = 0;
	y.now = 0;
	return !memcmp(&x, &y, sizeof(x));
}

static inline void print_stats(const struct hwtimer_stats *s)
{
	printf("# scheduled %llu touched %llu cancelled %llu expired %llu handed_back %llu",
	       s->scheduled, s->touched, s->cancelled, s->expired, s->handed_back);
	printf(" rejected %llu pending %llu unread %llu cap %llu clock_set %llu\n", s->rejected,
	       s->pending, s->unread, s->cap, s->clock_set);
	fflush(stdout);
}

/* Are the counters as they were? */
static inline bool unchanged(int fd, const struct hwtimer_stats *before)
{
	struct hwtimer_stats after = must_stats(fd);

	if (same_stats(before, &after))
		return true;
	print_stats(before);
	print_stats(&after);
	return false;
}

/* Expect these counters, and 0 in those that are not named; the cap may be any. */
#define EXPECT_STATS(fd, ...)	EXPECT_TRUE(has_stats(fd, (struct hwtimer_stats){ __VA_ARGS__ }))

static inline bool has_stats(int fd, struct hwtimer_stats expected)
{
	expected.cap = must_stats(fd).cap;
	return unchanged(fd, &expected);
}

/* Read at most @n records with one read(). Returns -EBADMSG for parts of records. */
static inline int hwt_read(int fd, struct hwtimer_record *rec, unsigned int n)
{
	ssize_t ret;

	memset(rec, 0xa5, n * sizeof(*rec));
	ret = read(fd, rec, n * sizeof(*rec));
	if (ret < 0)
		return -errno;
	if (ret % RECORD_SIZE || (size_t)ret > n * sizeof(*rec))
		return -EBADMSG;
	return ret / RECORD_SIZE;
}

/*
 * Read until there are @n records. Returns fewer if the context is stopped and drained, or
 * PATIENCE ran out.
 */
static inline int hwt_collect(int fd, struct hwtimer_record *rec, unsigned int n)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	__u64 end = now_ns() + PATIENCE;
	unsigned int got = 0;
	int ret;

	while (got < n && now_ns() < end) {
		ret = poll(&pfd, 1, 1000);
		if (ret < 0 && errno != EINTR)
			return -errno;
		if (ret <= 0)
			continue;
		ret = hwt_read(fd, rec + got, n - got);
		if (ret == -EAGAIN)
			continue;
		if (ret < 0)
			return ret;
		if (!ret)
			break;
		got += ret;
	}
	return got;
}

static inline int must_epoll(int fd, __u32 events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event))
		die("epoll: %s", strerror(errno));
	return ep;
}

/* Wait up to @ms; returns the events, or 0. */
static inline __u32 epoll_events(int ep, int ms)
{
	struct epoll_event event = { 0 };

	if (epoll_wait(ep, &event, 1, ms) < 0)
		die("epoll_wait: %s", strerror(errno));
	return event.events;
}

/* Is the record as read() promises? */
static inline bool valid_record(const struct hwtimer_record *r, __u32 kind)
{
	return r->id && r->kind == kind && !r->op && !r->error && !r->overruns && !r->pad &&
	       r->last == r->deadline &&
	       r->fired <= now_ns() && r->fired &&
	       (kind != HWTIMER_KIND_EXPIRED ||
		(r->fired >= r->deadline && r->deadline != HWTIMER_NEVER));
}

/* Pin the calling thread to one CPU. */
static inline void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Are there CPUs that run programs without ticks? */
static inline bool nohz_full(void)
{
	FILE *f = fopen("/sys/devices/system/cpu/nohz_full", "r");
	int c = f ? fgetc(f) : EOF;

	if (f)
		fclose(f);
	return c >= '0' && c <= '9';
}

static inline int online_cpus(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN);
}

/* For qsort() and bsearch(). */
static inline int compare_u64(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static inline bool all_different(__u64 *values, size_t n)
{
	size_t i;

	qsort(values, n, sizeof(*values), compare_u64);
	for (i = 1; i < n; i++)
		if (values[i] == values[i - 1])
			return false;
	return true;
}

static inline void *must_alloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		die("no memory");
	return p;
}

/* Does the kernel have debugging checks, which make everything slow? */
static inline bool with_checkers(void)
{
	return !access("/sys/kernel/debug/kmemleak", F_OK) ||
	       !access("/proc/lockdep_stats", F_OK);
}

/* Fault in all pages now, with some of the stack, so that later calls do not fault. */
static inline void must_have_pages(void)
{
	char deep[64 * 1024];

	memset(deep, 1, sizeof(deep));
	__asm__ volatile("" : : "r"(deep) : "memory");
	if (mlockall(MCL_CURRENT))
		die("mlockall: %s", strerror(errno));
}

static inline void become(uid_t uid)
{
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		die("setresuid: %s", strerror(errno));
}

/* Fork a child of another user. */
static inline pid_t fork_as(uid_t uid)
{
	pid_t pid = must_fork();

	if (!pid)
		become(uid);
	return pid;
}

/*
 * The block that follows is run by a child process, which @fork makes, and must come to its end
 * there: in_child(fork_as(uid)) { ... }
 */
#define in_child(fork)								\
	for (pid_t in_child_ = (fork);						\
	     !in_child_ || ({ EXPECT_EQ(0, reap(in_child_)); false; }); _exit(0))

static inline void must_kill(pid_t pid)
{
	if (kill(pid, SIGKILL) || reap(pid) != 128 + SIGKILL)
		die("the child exited before it was killed");
}

#endif /* HWT_H */
