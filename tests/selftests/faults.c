// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fault injection: each allocation, and each copy from and to the program, fails once, in every
 * call of /dev/hwtimer, and while the module is loaded (tests/kunit does it for the API of other
 * modules). The nth of a call fails, from the first until a call completes without a failure
 * (/proc/PID/fail-nth); then again with all later allocations failing, too
 * (/proc/PID/make-it-fail).
 *
 * A call that failed has returned a documented error, has left everything as it was, and works
 * when repeated. Kernels without fault injection skip all of it.
 */
#include "hwt.h"
#include "ring.h"

#include <sys/eventfd.h>

#define MODULE		"hwtimer"

/* A user without other contexts; the process keeps root's capabilities. */
#define SOMEBODY	4711

/* The user_data of the timeout that is pending in each context before the call. */
#define KEPT		0x6b657074ULL
/* More than the allocations and copies of any call. */
#define MOST		5000U

/* Ids in contexts with rings: of the timeout that is kept, and of others. */
#define RING_KEPT	HWTIMER_ID(0, 1)
#define RING_OTHER(n)	HWTIMER_ID(1 + (n), 1)

#define BACKLOG		40	/* read() copies 16 records at a time */

/**
 * struct world - the state in which a call is made
 * @fd: the context, or -1
 * @kept: a timeout that is pending in it
 * @before: its counters before the call
 * @ring: its rings, or NULL
 * @params: parameters of the rings that the call creates
 * @id: the timeout on which the call operates
 * @mapping: the mapping that the call created
 * @records: records that the call read
 * @ret: what the call that succeeded returned
 */
struct world {
	int fd;
	__u64 kept;
	struct hwtimer_stats before;
	struct ring *ring;
	struct hwtimer_rings params;
	__u64 id;
	struct hwtimer_ring *mapping;
	struct hwtimer_record records[BACKLOG];
	int ret;
};

/**
 * struct call - a call that is made to fail
 * @prepare: create the context, in which nothing happens until @make; NULL: a new context
 * @make: make the call; returns 0 or more, or -errno
 * @undone: check that a failed call had no effect; NULL: only check_undone()
 * @done: check that the call had its effect, once
 * @errors: the errors that it may return
 * @fewest: the least number of allocations and copies that it needs
 */
struct call {
	void (*prepare)(struct world *w);
	int (*make)(struct world *w);
	void (*undone)(struct world *w);
	void (*done)(struct world *w);
	int errors[4];
	unsigned int fewest;
};

/* The number of the allocation or copy that fails. */
static unsigned int nth;
/* Another context of the same user, whose fdinfo shows what is charged; -1: none. */
static int beside = -1;

#define check(condition) do {						\
	if (!(condition))						\
		die("failure %u: check failed: %s", nth, #condition);		\
} while (0)

/* Set a parameter of fault injection. */
static void turn(const char *what, const char *knob, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", what, knob);
	if (write_file(path, value))
		die("%s: %s", path, strerror(errno));
}

/* Set fault injection up; false: this kernel has none. @rest: later allocations fail, too. */
static bool faults_on_demand(bool rest)
{
	static const char *const all[] = { "failslab", "fail_page_alloc", "fail_usercopy" };
	unsigned int i;

	if (access("/proc/self/fail-nth", W_OK) || access("/proc/self/make-it-fail", W_OK))
		return false;
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		/* Silent, for tasks that ask for it, without a limit. */
		turn(all[i], "verbose", "0");
		turn(all[i], "task-filter", "Y");
		turn(all[i], "times", "-1");
	}
	/* All allocations, whether they may sleep or not. */
	turn("failslab", "ignore-gfp-wait", "N");
	turn("fail_page_alloc", "ignore-gfp-wait", "N");
	turn("fail_page_alloc", "ignore-gfp-highmem", "N");
	turn("fail_page_alloc", "min-order", "0");
	turn("failslab", "probability", rest ? "100" : "0");
	turn("fail_page_alloc", "probability", rest ? "100" : "0");
	return true;
}

/**
 * struct victim - a thread whose allocations and copies fail
 * @nth: a descriptor of its /proc/PID/fail-nth
 * @rest: a descriptor of its /proc/PID/make-it-fail, for failures after the nth
 */
struct victim {
	int nth, rest;
};

static struct victim must_open_victim(pid_t tid)
{
	struct victim v;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fail-nth", tid);
	v.nth = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/make-it-fail", tid);
	v.rest = open(path, O_RDWR | O_CLOEXEC);
	if (v.nth < 0 || v.rest < 0)
		die("%s: %s", path, strerror(errno));
	return v;
}

static void close_victim(const struct victim *v)
{
	close(v->nth);
	close(v->rest);
}

/* fail-nth last, as the copies of these writes count as well. */
static void fail_from_now(const struct victim *v)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", nth);
	if (pwrite(v->rest, "1", 1, 0) != 1 ||
	    pwrite(v->nth, text, strlen(text), 0) != (ssize_t)strlen(text))
		die("/proc/PID/fail-nth: %s", strerror(errno));
}

/* Disable it; has anything failed? The copies of this function count as well, and are retried. */
static bool has_failed(const struct victim *v)
{
	char text[16] = { 0 };
	bool failed = pread(v->nth, text, sizeof(text) - 1, 0) > 0 && !strtoul(text, NULL, 10);

	if ((pwrite(v->nth, "0", 1, 0) != 1 && pwrite(v->nth, "0", 1, 0) != 1) ||
	    pwrite(v->rest, "0", 1, 0) != 1)
		die("/proc/PID/fail-nth: %s", strerror(errno));
	return failed;
}

static bool may_fail(const struct call *c, int ret)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(c->errors); i++)
		if (c->errors[i] && c->errors[i] == -ret)
			return true;
	return false;
}

/* The timeout armed before the call is still pending, with its data. */
static void check_kept(struct world *w)
{
	__u64 data;

	check(!hwt_query(w->fd, w->kept, &data, NULL));
	check(data == KEPT);
}

/* The kept timeout is still pending; it expires, and nothing else does. */
static void expire_kept(struct world *w)
{
	struct hwtimer_record rec;

	check_kept(w);
	check(!hwt_touch(w->fd, HWTIMER_RELATIVE, w->kept, 0, NULL));
	if (w->ring)
		check(ring_collect(w->ring, &rec, 1) == 1);
	else
		check(hwt_collect(w->fd, &rec, 1) == 1);
	check(rec.id == w->kept && rec.user_data == KEPT);
}

/* What holds after every failed call. */
static void check_undone(struct world *w)
{
	check(unchanged(w->fd, &w->before));
}

/*
 * Find the name of our context's own wheel; false if there is none. It is pid-N, with a suffix if
 * an earlier wheel has not released that name yet.
 */
static bool find_own_wheel(char name[NAME_MAX + 1])
{
	DIR *dir = opendir(HWT_DEBUGFS);
	const struct dirent *entry;
	char prefix[32];
	bool there = false;
	size_t len;

	if (!dir)
		return false;
	len = snprintf(prefix, sizeof(prefix), "pid-%d", getpid());
	while (!there && (entry = readdir(dir))) {
		there = !strncmp(entry->d_name, prefix, len) &&
			(!entry->d_name[len] || entry->d_name[len] == '.');
		if (there)
			snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
	}
	closedir(dir);
	return there;
}

static bool own_wheel_there(void)
{
	char name[NAME_MAX + 1];

	return find_own_wheel(name);
}

/* Nothing is left of the closed context. */
static void check_nothing_left(void)
{
	check(!own_wheel_there());
	if (beside < 0)
		return;
	/* Timeouts are charged until they are freed. */
	eventually(!must_fdinfo(beside, "user_timeouts") && !must_fdinfo(beside, "user_ring_kib"));
	check(!must_fdinfo(beside, "user_wheels"));
	check(!must_fdinfo(beside, "user_rate"));
	check(module_references() == 1);
}

static void close_world(struct world *w)
{
	if (w->ring)
		ring_unmap(w->ring);
	if (w->fd >= 0)
		close(w->fd);
	check_nothing_left();
}

/* Make the call with its nth allocation or copy failing; false: it has fewer. */
static bool try_nth(const struct call *c, const struct victim *self, unsigned int *refused)
{
	struct world w = { .fd = -1 };
	bool failed;

	if (c->prepare)
		c->prepare(&w);
	fail_from_now(self);
	w.ret = c->make(&w);
	failed = has_failed(self);
	if (w.ret < 0) {
		if (!failed || !may_fail(c, w.ret))
			die("failure %u: %d (%s)", nth, w.ret, strerror(-w.ret));
		++*refused;
		if (c->undone)
			c->undone(&w);
		else
			check_undone(&w);
		w.ret = c->make(&w);
		if (w.ret < 0)
			die("failure %u: the second call: %d (%s)", nth, w.ret, strerror(-w.ret));
	}
	c->done(&w);
	close_world(&w);
	return failed;
}

/*
 * Make the call with each of its allocations and copies failing in turn. Kernel checkers sometimes
 * allocate in between, which may hide a number: if too few failures were reported, and always in a
 * thorough run, repeat it.
 */
static void try_each(struct __test_metadata *_metadata, const struct call *c)
{
	struct victim self = must_open_victim(my_tid());
	unsigned int failures = 0, refused = 0, pass;

	for (pass = 0; pass < 2 && (!pass || quick_or(refused < c->fewest, 1)); pass++) {
		for (nth = 1; try_nth(c, &self, &refused); nth++) {
			check(nth <= MOST);
			failures++;
		}
	}
	close_victim(&self);
	printf("# %u failures, %u of them reported\n", failures, refused);
	EXPECT_LE(c->fewest, refused);
}

static void prepare_process(void)
{
	if (setresuid(SOMEBODY, -1, -1))
		die("setresuid: %s", strerror(errno));
	/* Page faults of our own must not fail; without memory they would be retried forever. */
	must_have_pages();
	eventually(!module_references());
	beside = must_open(0);
}

FIXTURE(faults)
{
};

FIXTURE_VARIANT(faults)
{
	bool rest;
};

FIXTURE_VARIANT_ADD(faults, one)
{
	.rest = false,
};

FIXTURE_VARIANT_ADD(faults, rest)
{
	.rest = true,
};

FIXTURE_SETUP(faults)
{
	if (!faults_on_demand(variant->rest))
		SKIP(return, "this kernel has no fault injection");
	prepare_process();
}

FIXTURE_TEARDOWN(faults)
{
	if (beside >= 0)
		close(beside);
	eventually(!module_references());
}

/* A case; the arguments after its name are the members of struct call. */
#define FAULTS(name, ...)						\
	static const struct call call_##name = { __VA_ARGS__ };		\
	TEST_F(faults, name)						\
	{								\
		try_each(_metadata, &call_##name);			\
	}

/* The context of most calls: one pending timeout. */
static void one_pending(struct world *w)
{
	w->fd = must_open(O_NONBLOCK);
	w->kept = must_schedule(w->fd, FAR, KEPT);
	w->before = must_stats(w->fd);
}

static void nothing_pending(struct world *w)
{
	w->fd = must_open(O_NONBLOCK);
	w->before = must_stats(w->fd);
}

/* The context still works. */
static void check_works(struct world *w)
{
	struct hwtimer_stats s;

	w->kept = must_schedule(w->fd, FAR, KEPT);
	expire_kept(w);
	s = must_stats(w->fd);
	check(s.scheduled == 1 && s.expired == 1 && !s.pending && !s.unread);
}

/* open() */
static void nobody_else(struct world *w)
{
	w->fd = -1;
	if (beside >= 0)
		close(beside);
	beside = -1;
	/* Make the next context the first one of this user. */
	eventually(!module_references());
}

static int make_open(struct world *w)
{
	w->fd = hwt_open(0);
	return w->fd;
}

static void not_opened(struct world *w)
{
	(void)w;
	check(!module_references());
}

static void opened(struct world *w)
{
	check_works(w);
}

/* At least the path, the file, the context and the user. */
FAULTS(open, nobody_else, make_open, not_opened, opened, { ENOMEM, EFAULT }, 4)

/* SETUP */
static int make_shared(struct world *w)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 10 };

	return hwt_setup(w->fd, &setup);
}

static int make_own(struct world *w)
{
	struct hwtimer_setup setup = {
		.flags = HWTIMER_SETUP_OWN_WHEEL, .clockid = CLOCK_BOOTTIME, .cap = 10,
		.tick_ns = NSEC_PER_MSEC, .slots = 64, .levels = 4,
	};

	return hwt_setup(w->fd, &setup);
}

/* No wheel in debugfs, and none charged. */
static void not_set_up(struct world *w)
{
	check_undone(w);
	check(!own_wheel_there());
	check(!must_fdinfo(w->fd, "own_wheel"));
	check(!must_fdinfo(beside, "user_wheels"));
}

static void is_set_up(struct world *w)
{
	check(must_fdinfo(beside, "user_wheels") == must_fdinfo(w->fd, "own_wheel"));
	check(must_stats(w->fd).cap == 10);
	check_works(w);
}

FAULTS(setup_shared, nothing_pending, make_shared, not_set_up, is_set_up, { EFAULT }, 2)

/* At least two copies, the wheel, its buckets and its thread. */
FAULTS(setup_own, nothing_pending, make_own, not_set_up, is_set_up, { EFAULT, ENOMEM }, 5)

/* SCHEDULE */
static int make_schedule(struct world *w)
{
	return hwt_schedule(w->fd, HWTIMER_RELATIVE, FAR, 1, &w->id, NULL);
}

static void scheduled(struct world *w)
{
	__u64 data;

	check(must_stats(w->fd).pending == w->before.pending + 1);
	check(must_stats(w->fd).scheduled == w->before.scheduled + 1);
	check(!hwt_query(w->fd, w->id, &data, NULL) && data == 1);
	expire_kept(w);
	check(!hwt_cancel(w->fd, w->id));
}

/* The copies, and the timeout. Its slot of the table is allocated in two attempts. */
FAULTS(schedule, one_pending, make_schedule, NULL, scheduled, { EFAULT, ENOMEM }, 3)

/* The first timeout of a user in a set of cgroups creates a shared wheel. */
static bool shared_wheel_there(void)
{
	static struct hwtimer_wheel_stats all[16];
	struct hwtimer_wheels arg = {
		.size = sizeof(all[0]), .wheels = (uintptr_t)all, .count = ARRAY_SIZE(all),
	};
	int n = ioctl(beside, HWTIMER_IOC_WHEELS, &arg);
	bool there = false;
	char name[64];

	check(n > 0);
	snprintf(name, sizeof(name), "uid-%d", SOMEBODY);
	while (n--)
		there |= !strcmp(all[n].name, name);
	return there;
}

static void no_shared_wheel(struct world *w)
{
	/* It is uncharged last. */
	eventually(!must_fdinfo(beside, "user_shared_wheels"));
	nothing_pending(w);
}

/* If the SCHEDULE failed after it had made the wheel, this remains. Otherwise none is charged. */
static void wheel_or_none(struct world *w)
{
	check_undone(w);
	check(must_fdinfo(w->fd, "user_shared_wheels") == shared_wheel_there());
}

static void first_scheduled(struct world *w)
{
	check(must_stats(w->fd).pending == 1);
	check(!hwt_cancel(w->fd, w->id));
}

FAULTS(first_schedule, no_shared_wheel, make_schedule, wheel_or_none, first_scheduled,
	{ EFAULT, ENOMEM }, 5)

/* Fill a node of the table, so that the next timeout needs another level. */
static void full_node(struct world *w)
{
	int i;

	one_pending(w);
	for (i = 1; i < 64; i++)
		must_schedule(w->fd, FAR, 0);
	w->before = must_stats(w->fd);
}

FAULTS(schedule_the_65th, full_node, make_schedule, NULL, scheduled, { EFAULT, ENOMEM }, 3)

/* Schedule where another timeout was cancelled. */
static void one_cancelled(struct world *w)
{
	one_pending(w);
	check(!hwt_cancel(w->fd, must_schedule(w->fd, FAR, 0)));
	w->before = must_stats(w->fd);
}

FAULTS(schedule_again, one_cancelled, make_schedule, NULL, scheduled, { EFAULT }, 2)

/* A timeout due at once: if the call fails, it must not expire. */
static int make_due(struct world *w)
{
	return hwt_schedule(w->fd, HWTIMER_RELATIVE, 0, 1, &w->id, NULL);
}

static void was_due(struct world *w)
{
	struct hwtimer_record rec;

	check(hwt_collect(w->fd, &rec, 1) == 1 && rec.id == w->id && rec.user_data == 1);
	expire_kept(w);
	check(must_stats(w->fd).expired == 2);
}

FAULTS(schedule_due, one_pending, make_due, NULL, was_due, { EFAULT, ENOMEM }, 3)

/* Periodic */
static int make_periodic(struct world *w)
{
	struct hwtimer_schedule s = {
		.flags = HWTIMER_RELATIVE, .time = FAR, .user_data = 1,
		.period = NSEC_PER_SEC, .policy = nth % 3,
	};
	int ret = hwt_ioctl(w->fd, HWTIMER_IOC_SCHEDULE, &s);

	w->id = s.id;
	return ret;
}

static void not_periodic(struct world *w)
{
	check_undone(w);
	check(!must_fdinfo(beside, "user_rate"));
}

static void periodic(struct world *w)
{
	struct hwtimer_query q = { .id = w->id };
	struct hwtimer_record rec;

	check(!hwt_ioctl(w->fd, HWTIMER_IOC_QUERY, &q));
	check(q.period == NSEC_PER_SEC && q.policy == nth % 3);
	check(must_fdinfo(beside, "user_rate"));
	check(!hwt_touch(w->fd, HWTIMER_RELATIVE, w->id, NSEC_PER_MSEC, NULL));
	check(hwt_collect(w->fd, &rec, 1) == 1 && rec.id == w->id);
	check(!hwt_cancel(w->fd, w->id));
	/* Unread expiries can be read; then all is released. */
	while (must_stats(w->fd).unread)
		check(hwt_read(w->fd, &rec, 1) == 1 && rec.id == w->id);
	check(!must_fdinfo(beside, "user_rate"));
	w->id = must_schedule(w->fd, FAR, 1);
	check(must_stats(w->fd).pending == 2);
	expire_kept(w);
}

FAULTS(schedule_periodic, one_pending, make_periodic, not_periodic, periodic, { EFAULT, ENOMEM }, 4)

/* TOUCH */
static int make_touch(struct world *w)
{
	return hwt_touch(w->fd, 0, w->kept, now_ns() + 2 * FAR, NULL);
}

static void not_touched(struct world *w)
{
	__u64 deadline;

	check_undone(w);
	check(!hwt_query(w->fd, w->kept, NULL, &deadline));
	check(deadline <= now_ns() + FAR);
}

static void touched(struct world *w)
{
	__u64 deadline;

	check(must_stats(w->fd).touched == 1);
	check(!hwt_query(w->fd, w->kept, NULL, &deadline));
	check(deadline > now_ns() + FAR);
	expire_kept(w);
}

FAULTS(touch, one_pending, make_touch, not_touched, touched, { EFAULT }, 2)

/* CANCEL */
static int make_cancel(struct world *w)
{
	return hwt_cancel(w->fd, w->kept);
}

static void not_cancelled(struct world *w)
{
	check_undone(w);
	check_kept(w);
}

static void cancelled(struct world *w)
{
	check(must_stats(w->fd).cancelled == 1);
	check(!must_stats(w->fd).pending);
	check(hwt_cancel(w->fd, w->kept) == -ENOENT);
}

FAULTS(cancel, one_pending, make_cancel, not_cancelled, cancelled, { EFAULT }, 1)

/* QUERY and STATS, and the same in fdinfo and debugfs */
static int make_query(struct world *w)
{
	return hwt_query(w->fd, w->kept, NULL, NULL);
}

static void queried(struct world *w)
{
	check(!w->ret);
	check_undone(w);
	expire_kept(w);
}

FAULTS(query, one_pending, make_query, NULL, queried, { EFAULT }, 2)

static int make_stats(struct world *w)
{
	struct hwtimer_stats s = { .flags = 0 };

	return hwt_ioctl(w->fd, HWTIMER_IOC_STATS, &s);
}

FAULTS(stats, one_pending, make_stats, NULL, queried, { EFAULT }, 2)

/* A short read is no error, and its content is correct. */
static int read_whole(const char *path)
{
	char buf[4096];
	ssize_t len;
	int fd, ret;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	do {
		len = read(fd, buf, sizeof(buf));
	} while (len > 0);
	ret = len < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static int make_fdinfo(struct world *w)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", w->fd);
	return read_whole(path);
}

FAULTS(fdinfo, one_pending, make_fdinfo, NULL, queried, { EFAULT, ENOMEM }, 3)

static int read_stats(struct world *w)
{
	(void)w;
	return read_whole(HWT_DEBUGFS "/dev/stats");
}

FAULTS(debugfs_stats, one_pending, read_stats, NULL, queried, { EFAULT, ENOMEM }, 3)

static int read_buckets(struct world *w)
{
	(void)w;
	return read_whole(HWT_DEBUGFS "/dev/buckets");
}

FAULTS(debugfs_buckets, one_pending, read_buckets, NULL, queried, { EFAULT, ENOMEM }, 3)

/* STOP, which takes effect even if its result cannot be written. */
static int make_stop(struct world *w)
{
	return hwt_stop(w->fd, &w->id);
}

static void stopped_or_not(struct world *w)
{
	struct hwtimer_stats s = must_stats(w->fd);

	if (!same_stats(&w->before, &s))
		check(s.handed_back == 1 && !s.pending && s.unread == 1);
}

static void stopped(struct world *w)
{
	struct hwtimer_record rec;

	check(w->id <= 1);
	check(hwt_collect(w->fd, &rec, 1) == 1);
	check(rec.id == w->kept && rec.kind == HWTIMER_KIND_HANDED_BACK);
	check(!hwt_read(w->fd, &rec, 1));
}

FAULTS(stop, one_pending, make_stop, stopped_or_not, stopped, { EFAULT }, 2)

/* read() */
static void backlog(struct world *w)
{
	int i;

	one_pending(w);
	for (i = 0; i < BACKLOG; i++)
		must_schedule(w->fd, 0, i);
	eventually(must_stats(w->fd).unread == BACKLOG);
	w->before = must_stats(w->fd);
}

static int make_read(struct world *w)
{
	return hwt_read(w->fd, w->records, BACKLOG);
}

/* Each is read once. */
static void all_read(struct world *w)
{
	bool seen[BACKLOG] = { 0 };
	unsigned int i;

	check(must_stats(w->fd).unread == (__u64)(BACKLOG - w->ret));
	if (w->ret < BACKLOG)
		check(hwt_read(w->fd, w->records + w->ret, BACKLOG - w->ret) == BACKLOG - w->ret);
	for (i = 0; i < BACKLOG; i++) {
		const struct hwtimer_record *r = &w->records[i];

		check(valid_record(r, HWTIMER_KIND_EXPIRED));
		check(r->user_data < BACKLOG && !seen[r->user_data]);
		seen[r->user_data] = true;
	}
	check(!must_stats(w->fd).unread);
	expire_kept(w);
}

FAULTS(read, backlog, make_read, NULL, all_read, { EFAULT }, 1)

/* poll(), epoll */
static int make_poll(struct world *w)
{
	struct pollfd pfd = { .fd = w->fd, .events = POLLIN };
	int ret = poll(&pfd, 1, 0);

	if (ret == 1)
		check(pfd.revents == POLLIN);
	return ret < 0 ? -errno : ret;
}

static int make_epoll(struct world *w)
{
	struct epoll_event e = { .events = EPOLLIN };
	int fd = epoll_create1(EPOLL_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = epoll_ctl(fd, EPOLL_CTL_ADD, w->fd, &e);
	if (!ret)
		ret = epoll_wait(fd, &e, 1, 0);
	if (ret < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* Events are reported, and nothing changes. */
static void polled(struct world *w)
{
	check(w->ret == 1);
	check_undone(w);
	w->ret = 0;
	all_read(w);
}

FAULTS(poll, backlog, make_poll, NULL, polled, { EFAULT, ENOMEM }, 1)

FAULTS(epoll, backlog, make_epoll, NULL, polled, { EFAULT, ENOMEM }, 3)

/* RINGS */
static int try_rings(struct world *w, __u32 flags, int eventfd)
{
	w->params = (struct hwtimer_rings){
		.flags = flags, .eventfd = eventfd,
		.sq_entries = 8, .cq_entries = 256, .timeouts = 100,
	};
	return hwt_rings(w->fd, &w->params);
}

static int make_rings(struct world *w)
{
	return try_rings(w, HWTIMER_RINGS_RELAXED, 0);
}

static int make_rings_with_eventfd(struct world *w)
{
	return try_rings(w, HWTIMER_RINGS_EVENTFD, (int)w->id);
}

static void no_rings(struct world *w)
{
	struct hwtimer_enter e = { .flags = 0 };

	check_undone(w);
	check(!must_fdinfo(beside, "user_timeouts"));
	check(!must_fdinfo(beside, "user_ring_kib"));
	check(hwt_ioctl(w->fd, HWTIMER_IOC_ENTER, &e) == -ENXIO);
	check(mmap(NULL, 4096, PROT_READ, MAP_SHARED, w->fd, 0) == MAP_FAILED);
}

static void arm_kept_in_ring(struct world *w)
{
	w->kept = RING_KEPT;
	must_arm(w->ring, w->kept, now_ns() + FAR, KEPT);
	check_kept(w);
}

static void rings_made(struct world *w)
{
	check(must_fdinfo(beside, "user_timeouts") == 100);
	w->ring = must_alloc(1, sizeof(*w->ring));
	w->ring->fd = w->fd;
	w->ring->params = w->params;
	ring_at(w->ring, must_map(w->fd, w->ring->params.size, PROT_READ | PROT_WRITE));
	arm_kept_in_ring(w);
	expire_kept(w);
}

/* The copies, the slots, and the rings: their pages, the array of these, the mapping. */
FAULTS(rings, nothing_pending, make_rings, no_rings, rings_made, { EFAULT, ENOMEM }, 8)

static void with_eventfd(struct world *w)
{
	nothing_pending(w);
	w->id = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void rings_made_with_eventfd(struct world *w)
{
	__u64 reported;

	rings_made(w);
	eventually(read(w->id, &reported, sizeof(reported)) == sizeof(reported));
	close(w->id);
}

FAULTS(rings_with_eventfd, with_eventfd, make_rings_with_eventfd, no_rings, rings_made_with_eventfd,
	{ EFAULT, ENOMEM }, 8)

/* A context with rings, in which one timeout is pending. */
static void ring_pending(struct world *w)
{
	w->fd = must_open(O_NONBLOCK);
	w->ring = must_ring(w->fd, 8, 256, 100);
	arm_kept_in_ring(w);
	w->before = must_stats(w->fd);
}

/* RESIZE: the copies, the segments of the table, and its pages */
static int make_resize(struct world *w)
{
	int ret = hwt_resize(w->fd, 1000);

	check(ret < 0 || ret == 1000);
	return ret < 0 ? ret : 0;
}

/* Only the copy of the result may fail after it has grown. */
static void not_resized(struct world *w)
{
	__u64 timeouts = must_fdinfo(w->fd, "timeouts");

	check_undone(w);
	check(timeouts == 100 || timeouts == 1000);
	check(timeouts == must_fdinfo(beside, "user_timeouts"));
	check((timeouts + 62) / 63 * 4 == must_fdinfo(w->fd, "timeouts_kib"));
}

static void resized(struct world *w)
{
	check(must_fdinfo(w->fd, "timeouts") == 1000);
	check(must_fdinfo(beside, "user_timeouts") == 1000);
	expire_kept(w);
	w->kept = HWTIMER_ID(999, 1);
	must_arm(w->ring, w->kept, now_ns() + FAR, KEPT);
	expire_kept(w);
}

FAULTS(resize, ring_pending, make_resize, not_resized, resized, { EFAULT, ENOMEM }, 16)

/* mmap(), a second time. */
static int make_mmap(struct world *w)
{
	size_t size = w->ring->params.size;

	w->mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	return w->mapping == MAP_FAILED ? -errno : 0;
}

static void mapped(struct world *w)
{
	/* Both mappings are the same memory. */
	expire_kept(w);
	check(load_acquire(&w->mapping->cq_tail) == load_acquire(&w->ring->shared->cq_tail));
	munmap(w->mapping, w->ring->params.size);
}

FAULTS(mmap, ring_pending, make_mmap, NULL, mapped, { ENOMEM }, 2)

/* ENTER, which takes effect even if its result cannot be written. */
#define SUBMITTED	5

static void submitted(struct world *w)
{
	unsigned int i;

	ring_pending(w);
	for (i = 0; i < SUBMITTED; i++)
		must_put(w->ring, HWTIMER_OP_SCHEDULE, 0, RING_OTHER(i), now_ns() + FAR, i);
}

static int make_enter(struct world *w)
{
	return ring_enter(w->ring, NULL);
}

static void taken_or_not(struct world *w)
{
	__u32 untaken = ring_untaken(w->ring);

	check(!untaken || untaken == SUBMITTED);
}

static void taken(struct world *w)
{
	__u64 data;
	unsigned int i;

	check(!ring_untaken(w->ring));
	for (i = 0; i < SUBMITTED; i++)
		check(!hwt_query(w->fd, RING_OTHER(i), &data, NULL) && data == i);
	check(must_stats(w->fd).pending == 1 + SUBMITTED);
	expire_kept(w);
}

FAULTS(enter, submitted, make_enter, taken_or_not, taken, { EFAULT }, 2)

/* SCHEDULE by ioctl takes earlier submissions, whether it fails or not. */
static int make_schedule_in_slot(struct world *w)
{
	w->id = RING_OTHER(SUBMITTED);
	return hwt_schedule_id(w->fd, HWTIMER_RELATIVE, w->id, FAR, 1);
}

static void only_submissions(struct world *w)
{
	check(must_stats(w->fd).pending == 1 + SUBMITTED);
	check(hwt_query(w->fd, w->id, NULL, NULL) == -ENOENT);
}

static void scheduled_in_slot(struct world *w)
{
	check(must_stats(w->fd).pending == 2 + SUBMITTED);
	check(!hwt_cancel(w->fd, w->id));
	expire_kept(w);
}

FAULTS(schedule_beside_rings, submitted, make_schedule_in_slot, only_submissions, scheduled_in_slot,
	{ EFAULT }, 2)

/* close(), which cannot fail. */
static int make_close(struct world *w)
{
	int fd = w->fd;

	w->fd = -1;
	return close(fd) ? -errno : 0;
}

static void closed(struct world *w)
{
	(void)w;
	check(!must_wheel_value("dev", "pending"));
}

FAULTS(close, backlog, make_close, NULL, closed, { 0 }, 0)

static void own_and_periodic(struct world *w)
{
	w->fd = must_open(O_NONBLOCK);
	check(!make_own(w));
	must_schedule(w->fd, FAR, KEPT);
	check(!make_periodic(w));
}

FAULTS(close_own_wheel, own_and_periodic, make_close, NULL, closed, { 0 }, 0)

/* A mapping keeps the context after close(). */
static int make_munmap(struct world *w)
{
	int ret = munmap(w->ring->shared, w->ring->params.size) ? -errno : 0;

	if (!ret) {
		free(w->ring);
		w->ring = NULL;
	}
	return ret;
}

static void rings_closed(struct world *w)
{
	submitted(w);
	close(w->fd);
	w->fd = -1;
}

static void still_mapped(struct world *w)
{
	(void)w;
	check(must_fdinfo(beside, "user_timeouts") == 100);
}

FAULTS(munmap, rings_closed, make_munmap, still_mapped, closed, { ENOMEM }, 0)

/* Loading and unloading, with one failure each. */
FIXTURE(modules)
{
};

FIXTURE_SETUP(modules)
{
	if (!faults_on_demand(false))
		SKIP(return, "this kernel has no fault injection");
	prepare_process();
	close(beside);
	beside = -1;
}

FIXTURE_TEARDOWN(modules)
{
}

/* Load from memory, so that the module's own allocations fail, and not the reading of the file. */
static void *image;
static size_t image_size;

static void must_read_image(void)
{
	const char *dir = getenv("MODULES") ?: "/modules";
	char path[PATH_MAX];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/%s.ko", dir, MODULE);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die("%s: %s", path, strerror(errno));
	image_size = st.st_size;
	image = must_alloc(1, image_size);
	if (read(fd, image, image_size) != st.st_size)
		die("%s: %s", path, strerror(errno));
	close(fd);
}

static int load_image(const char *parameters)
{
	return syscall(SYS_init_module, image, image_size, parameters) ? -errno : 0;
}

static int make_load(struct world *w)
{
	(void)w;
	return load_image("");
}

/*
 * How many allocations and copies there are until the module's parameters are parsed, which is
 * before its code runs: up to there, loading is the same for any module.
 */
static unsigned int failures_before_module(void)
{
	struct victim self = must_open_victim(my_tid());
	char text[16] = { 0 };
	int ret;

	if (pwrite(self.nth, "1000000", 7, 0) != 7)
		die("fail-nth: %s", strerror(errno));
	ret = load_image("tick_ns=x");
	if (pread(self.nth, text, sizeof(text) - 1, 0) <= 0)
		die("fail-nth: %s", strerror(errno));
	has_failed(&self);
	close_victim(&self);
	if (ret != -EINVAL)
		die("tick_ns=x: %d", ret);
	return 1000000 - strtoul(text, NULL, 10);
}

static bool is_loaded(void)
{
	return !access("/sys/module/" MODULE "/refcnt", F_OK);
}

static void not_loaded(struct world *w)
{
	(void)w;
	check(!is_loaded());
	check(hwt_open(0) == -ENOENT);
	/* access(2) would ask whether SOMEBODY may see it. */
	check(faccessat(AT_FDCWD, HWT_DEBUGFS, F_OK, AT_EACCESS));
	check(access("/sys/class/misc/" MODULE, F_OK));
}

/* Files in debugfs may be missing; everything else works. */
static void is_loaded_and_works(struct world *w)
{
	w->fd = must_open(O_NONBLOCK);
	check_works(w);
	close(w->fd);
	w->fd = -1;
	check(!unload(MODULE));
	not_loaded(w);
}

/* There are hundreds, and loading is slow: skip up to 15 at a time, or none with ALL=1. */
TEST_F(modules, load)
{
	static const struct call call = {
		.make = make_load, .undone = not_loaded, .done = is_loaded_and_works,
		/* The count varies, so the last failure may hit the copy of the parameters. */
		.errors = { ENOMEM, EFAULT },
	};
	unsigned int stride = getenv("ALL") ? 1 : 16, failures = 0, refused = 0;
	struct victim us = must_open_victim(my_tid());
	__u64 random = seed();

	must_read_image();
	if (unload(MODULE))
		die("cannot unload " MODULE);
	nth = failures_before_module();
	while (try_nth(&call, &us, &refused)) {
		nth += 1 + rnd(&random) % stride;
		check(nth <= MOST);
		failures++;
	}
	close_victim(&us);
	printf("# %u failures, %u of them reported\n", failures, refused);
	EXPECT_LE(10, refused);
	EXPECT_EQ(0, load(MODULE, ""));
}

/* Timeouts of a context that is being closed expire while others of it are freed. */
TEST(closed_while_expiring)
{
	enum { BEFORE = 15000, DUE = 1500 };
	int round, i, fd;
	__u64 base;

	for (round = 0; round < 2; round++) {
		fd = must_open(0);
		/* Freed first; it has expired, and is the last of the list of unread timeouts. */
		must_schedule(fd, 0, 0);
		eventually(must_stats(fd).unread == 1);
		for (i = 0; i < BEFORE; i++)
			must_schedule(fd, FAR, 0);
		base = now_ns() + 2 * NSEC_PER_SEC;
		for (i = DUE - 1; i >= 0; i--)
			ASSERT_EQ(0, hwt_schedule(fd, 0, base + i * NSEC_PER_MSEC, 0, NULL, NULL));
		wait_until(base - 60 * NSEC_PER_MSEC);
		close(fd);
	}
	/* The close is over when the module is no longer in use. */
	eventually(!module_references());
}

TEST_HARNESS_MAIN
