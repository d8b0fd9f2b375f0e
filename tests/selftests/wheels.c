// SPDX-License-Identifier: GPL-2.0-only
/*
 * HWTIMER_IOC_WHEELS: who sees which wheels, page by page, each once; their statistics, as debugfs
 * shows them; and invalid arguments.
 */
#include "ring.h"
#include "users.h"

#include <linux/capability.h>
#include <sys/prctl.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON	38
#endif

#define WHEELS		5
#define MANY		512

static long hwt_wheels(int fd, struct hwtimer_wheel_stats *wheels, __u32 count, __u64 *next)
{
	struct hwtimer_wheels arg = {
		.size = sizeof(*wheels), .wheels = (uintptr_t)wheels, .count = count,
		.next = *next,
	};
	int ret = ioctl(fd, HWTIMER_IOC_WHEELS, &arg);

	if (ret < 0)
		return -errno;
	if (arg.flags || arg.pad || arg.size != sizeof(*wheels) || arg.count != count ||
	    arg.wheels != (uintptr_t)wheels || ret > (long)count)
		return DIRTY;
	*next = arg.next;
	return ret;
}

/* What one descriptor sees. */
static struct hwtimer_wheel_stats seen[MANY];
static unsigned int n_seen;

/* Read all wheels, @page at a time. */
static void must_see(int fd, __u32 page)
{
	__u64 next = 0, last = 0;
	long got, i;

	n_seen = 0;
	while ((got = hwt_wheels(fd, seen + n_seen, page, &next)) > 0) {
		for (i = 0; i < got; i++) {
			if (seen[n_seen].id <= last || seen[n_seen].id >= next)
				die("id %llu after %llu, next %llu", seen[n_seen].id, last, next);
			last = seen[n_seen++].id;
		}
		if (n_seen + page > MANY)
			die("more than %u wheels", MANY);
	}
	if (got)
		die("wheels: %ld", got);
}

static const struct hwtimer_wheel_stats *find(const char *name)
{
	unsigned int i;

	for (i = 0; i < n_seen; i++)
		if (!strcmp(seen[i].name, name))
			return &seen[i];
	return NULL;
}

/* Open a context with an own wheel, which tests find by its number of slots. */
static int must_own(int (*open)(void), __u32 slots)
{
	int fd = open();

	if (hwt_own_wheel(fd, NSEC_PER_MSEC, slots, 0))
		die("no wheel");
	return fd;
}

static int open_device(void)
{
	return must_open(0);
}

/* How many wheels of @slots slots are seen. */
static unsigned int with_slots(__u32 slots)
{
	unsigned int i, n = 0;

	for (i = 0; i < n_seen; i++)
		n += seen[i].slots == slots;
	return n;
}

/* Lines of debugfs, and the fields with the same number. */
#define FIELD(name)	{ #name, offsetof(struct hwtimer_wheel_stats, name), \
			  sizeof(((struct hwtimer_wheel_stats *)0)->name) }

static const struct {
	const char *name;
	size_t offset, size;
} fields[] = {
	FIELD(worker_pid), FIELD(worker_nice), FIELD(tick_ns), FIELD(slots), FIELD(levels),
	FIELD(cap), FIELD(pending), FIELD(armed), FIELD(touched),
	FIELD(cancelled), FIELD(expired), FIELD(handed_back), FIELD(rejected), FIELD(wakeups),
	FIELD(long_callbacks), FIELD(longest_callback_ns), FIELD(lateness_sum_ns),
};

/* Expect that @text, debugfs's stats, has a line with this name and value. */
static void expect_line(const char *text, const char *name, const char *value)
{
	char line[320];

	snprintf(line, sizeof(line), "%s %s\n", name, value);
	if (!strstr(text, line))
		die("no '%s %s' in:\n%s", name, value, text);
}

static void expect_number(const char *text, const char *name, long long number)
{
	char value[32];

	snprintf(value, sizeof(value), "%lld", number);
	expect_line(text, name, value);
}

/* The figures of a wheel that is idle are those of debugfs, each in its field. */
TEST(as_debugfs)
{
	struct hwtimer_setup setup = {
		.flags = HWTIMER_SETUP_OWN_WHEEL, .clockid = CLOCK_BOOTTIME,
		.tick_ns = NSEC_PER_MSEC, .slots = 8, .levels = 2,
	};
	int fd = must_open(0);
	const struct hwtimer_wheel_stats *s = NULL;
	char name[64], path[256], *before = NULL, *text = NULL;
	unsigned int i;
	__u64 sum = 0;

	ASSERT_EQ(0, hwt_setup(fd, &setup));
	snprintf(name, sizeof(name), "pid-%d", getpid());
	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/stats", name);
	for (i = 0; i < 40; i++)
		must_schedule(fd, i * NSEC_PER_MSEC / 4, i);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, hwt_cancel(fd, must_schedule(fd, FAR, i)));
	must_schedule(fd, FAR, 0);
	eventually(must_stats(fd).expired == 40);
	/* The worker goes to sleep, and on looking for work from time to time. */
	do {
		free(before);
		free(text);
		before = must_slurp(path);
		must_see(fd, 7);
		text = must_slurp(path);
		remove_now(before);
		remove_now(text);
	} while (strcmp(before, text));
	s = find(name);
	ASSERT_NE(NULL, s);
	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		__u64 number = 0;

		memcpy(&number, (const char *)s + fields[i].offset, fields[i].size);
		expect_number(text, fields[i].name, fields[i].size == 4 ? (int)number :
									 (long long)number);
	}
	expect_line(text, "name", s->name);
	ASSERT_EQ(25, s->late_bins);
	for (i = 0; i < s->late_bins - 1; i++) {
		snprintf(path, sizeof(path), "late_below_%lluus",
			 (s->late_first_ns << i) / NSEC_PER_USEC);
		expect_number(text, path, s->late[i]);
		sum += s->late[i];
	}
	expect_number(text, "late_above", s->late[i]);
	EXPECT_EQ(s->expired, sum + s->late[i++]);
	for (; i < ARRAY_SIZE(s->late); i++)
		EXPECT_EQ(0, s->late[i]);
	EXPECT_EQ(HWTIMER_WHEEL_F_OWN, s->flags);
	EXPECT_EQ(CLOCK_BOOTTIME, s->clockid);
	EXPECT_EQ(HWTIMER_WHEEL_STATE_STARTED, s->state);
	EXPECT_EQ(HWTIMER_WHEEL_SCHED_NORMAL, s->sched);
	EXPECT_EQ(44, s->armed);
	EXPECT_EQ(40, s->expired);
	EXPECT_EQ(1, s->pending);
	s = find("dev");
	ASSERT_NE(NULL, s);
	EXPECT_EQ(HWTIMER_WHEEL_F_SHARED, s->flags);
	EXPECT_EQ(CLOCK_MONOTONIC, s->clockid);
	close(fd);
	must_see(fd = must_open(0), 7);
	EXPECT_EQ(NULL, find(name));
	close(fd);
}

TEST(pages)
{
	static const __u32 pages[] = { 1, 2, 7, 64 };
	struct hwtimer_wheel_stats s;
	int fd = must_open(O_RDONLY), fds[WHEELS];
	unsigned int i;
	__u64 next;

	for (i = 0; i < WHEELS; i++)
		fds[i] = must_own(open_device, 256);
	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		must_see(fd, pages[i]);
		EXPECT_EQ(WHEELS, with_slots(256));
	}
	/* By its id; the last one, beyond the end, and far beyond it. */
	next = seen[n_seen - 2].id;
	EXPECT_EQ(1, hwt_wheels(fd, &s, 1, &next));
	EXPECT_EQ(seen[n_seen - 2].id, s.id);
	EXPECT_EQ(1, hwt_wheels(fd, &s, 1, &next));
	EXPECT_EQ(seen[n_seen - 1].id, s.id);
	EXPECT_EQ(0, hwt_wheels(fd, &s, 1, &next));
	EXPECT_EQ(seen[n_seen - 1].id + 1, next);
	next = ~0ULL;
	EXPECT_EQ(0, hwt_wheels(fd, &s, 1, &next));
	EXPECT_EQ(~0ULL, next);
	for (i = 0; i < WHEELS; i++)
		close(fds[i]);
	close(fd);
}

/* A wheel that ends is skipped, and its id is not given to the next one. */
TEST(gone_meanwhile)
{
	struct hwtimer_wheel_stats s;
	int fd = must_open(0), fds[3], i;
	__u64 id, next;

	for (i = 0; i < 3; i++)
		fds[i] = must_own(open_device, 128);
	must_see(fd, 64);
	ASSERT_EQ(3, with_slots(128));
	id = seen[n_seen - 2].id;
	next = seen[n_seen - 3].id;
	ASSERT_EQ(1, hwt_wheels(fd, &s, 1, &next));
	close(fds[1]);
	ASSERT_EQ(1, hwt_wheels(fd, &s, 1, &next));
	EXPECT_EQ(seen[n_seen - 1].id, s.id);
	fds[1] = must_own(open_device, 128);
	ASSERT_EQ(1, hwt_wheels(fd, &s, 1, &next));
	EXPECT_LT(seen[n_seen - 1].id, s.id);
	EXPECT_LT(id, s.id);
	for (i = 0; i < 3; i++)
		close(fds[i]);
	close(fd);
}

/* Longer elements. */
TEST(sizes)
{
	static const unsigned int sizes[] = { 488, 496, 4096 };
	static unsigned char buf[3 * 4096];
	struct hwtimer_wheels arg;
	int fd = must_own(open_device, 64);
	unsigned int i, j;
	__u64 id;

	must_see(fd, 7);
	id = seen[n_seen - 1].id;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(buf, 0xa5, sizeof(buf));
		arg = (struct hwtimer_wheels){
			.size = sizes[i], .wheels = (uintptr_t)buf, .count = 3, .next = id,
		};
		ASSERT_EQ(1, ioctl(fd, HWTIMER_IOC_WHEELS, &arg));
		EXPECT_EQ(0, memcmp(buf, &id, 8));
		for (j = 488; j < sizes[i]; j++)
			ASSERT_EQ(0, buf[j]);
		for (j = sizes[i]; j < sizeof(buf); j++)
			ASSERT_EQ(0xa5, buf[j]);
	}
	close(fd);
}

TEST(refused)
{
	static struct hwtimer_wheel_stats s[4];
	struct hwtimer_wheels good = {
		.size = sizeof(s[0]), .wheels = (uintptr_t)s, .count = 4,
	}, bad;
	int fd = must_open(0);

	refuses_frame(_metadata, fd, HWTIMER_IOC_WHEELS, &good);
	refuses_bits(_metadata, fd, HWTIMER_IOC_WHEELS, &good,
		     offsetof(struct hwtimer_wheels, flags), 0);
	refuses_bits(_metadata, fd, HWTIMER_IOC_WHEELS, &good,
		     offsetof(struct hwtimer_wheels, pad), 0);
	bad = good;
	bad.count = 0;
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_WHEELS, &bad));
	bad = good;
	bad.size = sizeof(s[0]) - 8;
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_WHEELS, &bad));
	bad.size = sizeof(s[0]) + 4;
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_WHEELS, &bad));
	bad.size = 4104;
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_WHEELS, &bad));
	bad = good;
	bad.wheels = 8;
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, HWTIMER_IOC_WHEELS, &bad));
	EXPECT_EQ(0, bad.next);
	EXPECT_LT(0, ioctl(fd, HWTIMER_IOC_WHEELS, &good));
	close(fd);
}

/* Two elements are writable: two wheels are returned, and @next is that of the third. */
TEST(half_unwritable)
{
	struct hwtimer_wheel_stats *s = (void *)must_fence(1), rest;
	int fds[4], i;
	__u64 next, third;

	for (i = 0; i < 4; i++)
		fds[i] = must_own(open_device, 32);
	must_see(fds[0], 7);
	next = seen[n_seen - 4].id;
	third = seen[n_seen - 2].id;
	ASSERT_EQ(2, hwt_wheels(fds[0], s - 2, 4, &next));
	ASSERT_EQ(1, hwt_wheels(fds[0], &rest, 1, &next));
	EXPECT_EQ(third, rest.id);
	for (i = 0; i < 4; i++)
		close(fds[i]);
}

/* Become a user with no capability but @cap (-1: with none). */
static void become_with(uid_t uid, int cap)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (prctl(PR_SET_KEEPCAPS, 1))
		die("prctl: %s", strerror(errno));
	become(uid);
	if (cap >= 0) {
		data[cap / 32].permitted = 1U << cap % 32;
		data[cap / 32].effective = 1U << cap % 32;
	}
	if (syscall(SYS_capset, &header, data))
		die("capset: %s", strerror(errno));
}

/* See exactly the wheels of the caller's own user that are made here. */
static void see_own(uid_t uid)
{
	const struct hwtimer_wheel_stats *s;
	char name[32];
	int fd, own;

	become(uid);
	fd = open_node();
	must_see(fd, 7);
	/* The context has chosen no wheel yet. */
	expect(0, n_seen);
	own = must_own(open_node, 32);
	must_see(fd, 7);
	expect(1, n_seen);
	snprintf(name, sizeof(name), "pid-%d", getpid());
	expect(0, strncmp(seen[0].name, name, strlen(name)));
	/* A closed file's wheel is gone, that of the first timeout has come. */
	close(own);
	must_schedule(fd, FAR, 1);
	must_see(fd, 7);
	expect(1, n_seen);
	snprintf(name, sizeof(name), "uid-%u", uid);
	s = find(name);
	expect(1, s && s->flags == HWTIMER_WHEEL_F_SHARED && s->armed >= 1);
	/* A second context on it does not list it twice, and takes it along when it is the last. */
	own = open_node();
	must_schedule(own, FAR, 1);
	close(fd);
	must_see(own, 7);
	expect(1, n_seen);
	fd = open_node();
	close(own);
	must_see(fd, 7);
	expect(0, n_seen);
}

/* Others' wheels exist all the time: root's, and user A's while user B looks. */
TEST(users)
{
	int of_root = must_own(open_device, 512), up[2];
	pid_t a;
	char c;

	make_node();
	ASSERT_EQ(0, pipe(up));
	in_child(must_fork())
		see_own(USER_A);
	a = must_fork();
	if (!a) {
		become(USER_A);
		must_schedule(open_node(), FAR, 1);
		must_own(open_node, 1024);
		if (write(up[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	ASSERT_EQ(1, read(up[0], &c, 1));
	in_child(must_fork())
		see_own(USER_B);
	/* Another process of A sees both, root sees all. */
	in_child(must_fork()) {
		become(USER_A);
		must_see(open_node(), 7);
		expect(2, n_seen);
		expect(1, with_slots(1024));
	}
	must_see(of_root, 7);
	EXPECT_EQ(1, with_slots(1024));
	EXPECT_EQ(1, with_slots(512));
	kill(a, SIGKILL);
	waitpid(a, NULL, 0);
	remove_node();
	close(of_root);
}

/* CAP_PERFMON is enough to see all, CAP_SYS_ADMIN as well, other capabilities are not. */
TEST(capabilities)
{
	static const struct {
		int cap;
		bool all;
	} cases[] = {
		{ -1, false }, { CAP_PERFMON, true }, { CAP_SYS_ADMIN, true },
		{ CAP_SYS_RESOURCE, false }, { CAP_SYS_PTRACE, false },
	};
	int of_root = must_own(open_device, 512);
	unsigned int i;

	make_node();
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		in_child(must_fork()) {
			become_with(USER_A, cases[i].cap);
			must_see(open_node(), 7);
			expect(cases[i].all, with_slots(512));
			expect(cases[i].all, !!find("dev"));
			expect(1, cases[i].all || !n_seen);
		}
	}
	/* The user of root's, without capabilities, sees what root's contexts use. */
	in_child(must_fork()) {
		become_with(0, -1);
		must_see(open_node(), 7);
		expect(1, with_slots(512));
	}
	remove_node();
	close(of_root);
}

/* Root of a container has all capabilities there, and sees only the container's wheels. */
TEST(container)
{
	int of_root = must_own(open_device, 512), fd;

	fd = must_open(0);
	must_schedule(fd, FAR, 1);
	make_node();
	in_child(must_fork()) {
		int inside;

		if (unshare(CLONE_NEWUSER))
			die("unshare: %s", strerror(errno));
		inside = open_node();
		must_see(inside, 7);
		expect(0, n_seen);
		close(must_own(open_node, 32));
		must_see(inside, 7);
		expect(0, n_seen);
		must_own(open_node, 32);
		must_see(inside, 7);
		expect(1, n_seen);
		expect(1, with_slots(32));
		/* A descriptor from outside shows what its opener's contexts use. */
		must_see(of_root, 7);
		expect(1, with_slots(512));
		expect(0, with_slots(32));
	}
	remove_node();
	close(fd);
	close(of_root);
}

static atomic_bool enough;

static void *churn(void *arg)
{
	while (!atomic_load(&enough))
		close(must_own(open_device, 16));
	return arg;
}

/* Wheels that stay are returned once, whatever others do; reading does no harm to those that go. */
TEST(while_others_come_and_go)
{
	pthread_t threads[2];
	int fd = must_open(0), fds[WHEELS];
	unsigned int i;

	for (i = 0; i < WHEELS; i++)
		fds[i] = must_own(open_device, 256);
	atomic_store(&enough, false);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, churn, NULL));
	for (i = 0; i < quick_or(300, 3000); i++) {
		must_see(fd, 1 + i % 5);
		ASSERT_EQ(WHEELS, with_slots(256));
	}
	atomic_store(&enough, true);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < WHEELS; i++)
		close(fds[i]);
	close(fd);
}

TEST_HARNESS_MAIN
