// SPDX-License-Identifier: GPL-2.0-only
/*
 * What people and programs read about wheels of modules, in /sys/kernel/debug/hwtimer/<wheel>/ and
 * by HWTIMER_IOC_WHEELS, and about contexts in /proc/PID/fdinfo. The lines can be parsed, the
 * numbers add up, and reading does no harm. (seen.c has debugfs of contexts.)
 */
#include "calls.h"

#include <linux/capability.h>
#include <sys/prctl.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON	38
#endif

static const char *const numbers[] = {
	"worker_pid", "worker_nice", "tick_ns", "slots", "levels", "cap", "start_ns",
	"now_ns", "pending", "filed", "armed", "touched", "cancelled", "expired",
	"handed_back", "rejected", "drained", "kicks", "wakeups",
	"ticks", "visits", "cascaded", "refiled", "long_callbacks",
	"longest_callback_ns", "lateness_sum_ns",
	"late_below_1us", "late_below_2us", "late_below_1024us",
	"late_below_1048576us", "late_above",
};

static const char *const words[] = {
	"name", "clock", "worker_sched", "state", "longest_callback",
};

#define MAX_LINES	200

/* Parsed stats. */
struct stats {
	char *text;
	unsigned int n;
	const char *names[MAX_LINES], *values[MAX_LINES];
};

/* Each line has a name, one space and a value; no name comes twice. */
static bool parse(struct stats *s)
{
	char *line = s->text, *end, *space;
	unsigned int i;

	s->n = 0;
	while (*line) {
		end = strchr(line, '\n');
		if (!end || s->n == MAX_LINES)
			return false;
		*end = 0;
		space = strchr(line, ' ');
		if (!space || space == line || !space[1] || space[1] == ' ' ||
		    strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_") !=
		    (size_t)(space - line))
			return false;
		*space = 0;
		for (i = 0; i < s->n; i++)
			if (!strcmp(s->names[i], line))
				return false;
		s->names[s->n] = line;
		s->values[s->n++] = space + 1;
		line = end + 1;
	}
	return s->n;
}

static const char *word(const struct stats *s, const char *name)
{
	unsigned int i;

	for (i = 0; i < s->n; i++)
		if (!strcmp(s->names[i], name))
			return s->values[i];
	die("no line '%s'", name);
}

static __u64 number(const struct stats *s, const char *name)
{
	const char *text = word(s, name);
	char *end;
	__u64 value = strtoull(text, &end, 10);

	if (*end || end == text)
		die("%s: not a number: '%s'", name, text);
	return value;
}

static struct stats must_wheel_stats(const char *wheel)
{
	char path[PATH_MAX];
	struct stats s;

	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/stats", wheel);
	s.text = must_slurp(path);
	if (!parse(&s))
		die("%s: line %u is not 'name value'", path, s.n + 1);
	return s;
}

static bool adds_up(const struct stats *s)
{
	return number(s, "armed") == number(s, "pending") + number(s, "cancelled") +
				     number(s, "expired") + number(s, "handed_back");
}

static __u64 lateness_sum(const struct stats *s)
{
	__u64 sum = 0;
	unsigned int i;

	for (i = 0; i < s->n; i++)
		if (!strncmp(s->names[i], "late_", 5))
			sum += number(s, s->names[i]);
	return sum;
}

/* The wheel of the module that does what it is told; no other test uses it. */
FIXTURE(wheel)
{
};

FIXTURE_SETUP(wheel)
{
	ASSERT_EQ(0, load(REMOTE, "slots=1000 levels=1"));
}

FIXTURE_TEARDOWN(wheel)
{
	EXPECT_EQ(0, unload(REMOTE));
	/* The directory is removed with the wheel. */
	EXPECT_EQ(-1, access(HWT_DEBUGFS "/" REMOTE, F_OK));
	EXPECT_EQ(ENOENT, errno);
}

TEST_F(wheel, modes)
{
	struct stat st;

	ASSERT_EQ(0, stat(HWT_DEBUGFS, &st));
	EXPECT_TRUE(S_ISDIR(st.st_mode));
	ASSERT_EQ(0, stat(HWT_DEBUGFS "/" REMOTE "/stats", &st));
	EXPECT_EQ(0444, st.st_mode & 07777);
	ASSERT_EQ(0, stat(HWT_DEBUGFS "/" REMOTE "/pending", &st));
	EXPECT_EQ(0400, st.st_mode & 07777);
}

TEST_F(wheel, lines)
{
	__u64 before = now_ns();
	struct stats s = must_wheel_stats(REMOTE);
	unsigned int i;

	EXPECT_LE(number(&s, "start_ns"), before);
	EXPECT_LE(before, number(&s, "now_ns"));
	EXPECT_LE(number(&s, "now_ns"), now_ns());

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		number(&s, numbers[i]);
	for (i = 0; i < ARRAY_SIZE(words); i++)
		word(&s, words[i]);
	EXPECT_STREQ(REMOTE, word(&s, "name"));
	EXPECT_STREQ("monotonic", word(&s, "clock"));
	EXPECT_STREQ("INIT", word(&s, "state"));
	EXPECT_STREQ("-", word(&s, "longest_callback"));
	EXPECT_EQ(NSEC_PER_MSEC, number(&s, "tick_ns"));
	EXPECT_EQ(1024, number(&s, "slots"));
	EXPECT_EQ(1, number(&s, "levels"));
	EXPECT_EQ(0, number(&s, "armed"));
	EXPECT_EQ(0, number(&s, "wakeups"));
	EXPECT_EQ(0, number(&s, "ticks"));
	EXPECT_TRUE(adds_up(&s));
	ASSERT_EQ(0, tell_remote("arm 0 1 -1"));
	s = must_wheel_stats(REMOTE);
	EXPECT_STREQ("STARTED", word(&s, "state"));
}

/* What expires is in the histogram of lateness, and its function is named. */
TEST_F(wheel, expired)
{
	struct stats s;

	ASSERT_EQ(0, tell_remote("arm 0 100 %llu", FAR));
	ASSERT_EQ(0, tell_remote("touch 30 40 0"));
	eventually(must_wheel_value(REMOTE, "expired") == 40);
	s = must_wheel_stats(REMOTE);
	EXPECT_EQ(60, number(&s, "pending"));
	EXPECT_TRUE(adds_up(&s));
	EXPECT_EQ(40, lateness_sum(&s));
	EXPECT_LT(0, number(&s, "ticks"));
	/* The 40 timeouts have been filed and visited. */
	EXPECT_LE(40, number(&s, "drained"));
	EXPECT_LE(40, number(&s, "visits"));
	EXPECT_LT(0, number(&s, "longest_callback_ns"));
	EXPECT_EQ(0, strncmp("remote_fired", word(&s, "longest_callback"), 12));
}

/* A reader may be killed while the worker looks at the wheel for it. */
TEST_F(wheel, killed_during_look)
{
	__u64 random = seed();
	unsigned int n = 0, i;
	char *text, *line;
	pid_t child;

	ASSERT_EQ(0, tell_remote("arm 0 5000 %llu 50000", FAR));
	eventually(must_wheel_value(REMOTE, "filed") == 5000);
	for (i = 0; i < 100; i++) {
		child = must_fork();
		while (!child)
			free(must_slurp(HWT_DEBUGFS "/" REMOTE "/pending"));
		usleep(rnd(&random) % 3000);
		must_kill(child);
	}
	text = must_slurp(HWT_DEBUGFS "/" REMOTE "/pending");
	for (line = text; (line = strchr(line, '\n')); line++)
		n++;
	EXPECT_EQ(5000, n);
	free(text);
}

/* While one callback follows the other, other tasks run. Promise 10. */
TEST(burst)
{
	const unsigned int n = 400;
	__u64 expired;

	ASSERT_EQ(0, load(REMOTE, "call_ms=1"));
	ASSERT_EQ(0, tell_remote("arm 0 %u 0", n));
	eventually((expired = must_wheel_value(REMOTE, "expired")));
	EXPECT_GT(n, expired);
	eventually(must_wheel_value(REMOTE, "expired") == n);
	EXPECT_EQ(0, unload(REMOTE));
}

/* Files of a wheel that is gone can still be read. */
TEST_F(wheel, outlived)
{
	int stats = open(HWT_DEBUGFS "/" REMOTE "/stats", O_RDONLY | O_CLOEXEC);
	int pending = open(HWT_DEBUGFS "/" REMOTE "/pending", O_RDONLY | O_CLOEXEC);
	char buf[64];

	ASSERT_LE(0, stats);
	ASSERT_LE(0, pending);
	ASSERT_EQ(0, tell_remote("arm 0 1 %llu", FAR));
	ASSERT_LT(0, read(stats, buf, sizeof(buf)));
	ASSERT_EQ(0, unload(REMOTE));
	EXPECT_EQ(-1, access(HWT_DEBUGFS "/" REMOTE, F_OK));
	EXPECT_GT(0, read(stats, buf, sizeof(buf)));
	EXPECT_GT(0, pread(stats, buf, sizeof(buf), 0));
	EXPECT_GT(0, read(pending, buf, sizeof(buf)));
	close(stats);
	close(pending);
	ASSERT_EQ(0, load(REMOTE, ""));
}

/* The keys of /proc/self/fdinfo/N are exactly these, in this order, and what they say is true. */
TEST(fdinfo)
{
	static const char *const keys[] = {
		"context", "kind", "clockid", "tick_ns", "slack_ns", "slots", "stopped", "looks",
		"records", "runs", "timers", "late_ns", "pending",
	};
	char path[64], *text, *line, *end;
	int fd = must_open(0), table;
	unsigned int i;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	text = must_slurp(path);
	EXPECT_EQ(NULL, strstr(text, "context:"));
	free(text);
	for (table = 0; table < 2; table++) {
		struct hwtimer_setup setup = {
			.clockid = CLOCK_BOOTTIME, .tick_ns = 3 * NSEC_PER_MSEC, .slots = 300,
			.flags = table ? HWTIMER_SETUP_TABLE : 0,
		};

		ASSERT_EQ(0, ioctl(fd, HWTIMER_IOC_SETUP, &setup));
		text = must_slurp(path);
		line = strstr(text, "context:");
		ASSERT_NE(NULL, line);
		for (i = 0; *line; i++, line = end + 1) {
			end = strchr(line, '\n');
			ASSERT_NE(NULL, end);
			ASSERT_GT(ARRAY_SIZE(keys), i);
			ASSERT_EQ(0, strncmp(line, keys[i], strlen(keys[i])));
			ASSERT_EQ(0, strncmp(line + strlen(keys[i]), ": ", 2));
		}
		/* In a table, timeouts are only counted by looking at each slot. */
		EXPECT_EQ(ARRAY_SIZE(keys) - table, i);
		EXPECT_NE(NULL, strstr(text, table ? "\nkind: table\n" : "\nkind: calls\n"));
		free(text);
		EXPECT_EQ(CLOCK_BOOTTIME, must_fdinfo(fd, "clockid"));
		EXPECT_EQ(setup.tick_ns, must_fdinfo(fd, "tick_ns"));
		EXPECT_EQ(setup.slots, must_fdinfo(fd, "slots"));
		EXPECT_EQ(0, must_fdinfo(fd, "stopped"));
		if (!table) {
			arm_many(fd, 5, 0);
			ASSERT_EQ(POLLIN, poll_in(fd, -1));
			EXPECT_EQ(5, must_fdinfo(fd, "pending"));
			EXPECT_EQ(must_stats(fd).looks, must_fdinfo(fd, "looks"));
			EXPECT_EQ(must_stats(fd).runs, must_fdinfo(fd, "runs"));
			EXPECT_EQ(must_stats(fd).timers, must_fdinfo(fd, "timers"));
			EXPECT_EQ(must_stats(fd).late_ns, must_fdinfo(fd, "late_ns"));
		}
		ASSERT_EQ(0, ioctl(fd, HWTIMER_IOC_STOP));
		EXPECT_EQ(1, must_fdinfo(fd, "stopped"));
		close(fd);
		/* The same number, so the same path. */
		ASSERT_EQ(fd, must_open(0));
	}
	close(fd);
}

/* A line for each pending timeout, with its function and its deadline. */
TEST(pending)
{
	const unsigned int n = 5000;
	unsigned int reported = 0, more = 0;
	char *text, *line, *end;
	__u64 before, deadline = 0;

	/* One level of 64 slots: all are in one bucket, more than the file lists. */
	ASSERT_EQ(0, load(REMOTE, "tick_ns=1000000000 slots=64 levels=1"));
	before = now_ns();
	ASSERT_EQ(0, tell_remote("arm 0 %u %llu", n + 1, FAR));
	eventually(must_wheel_value(REMOTE, "filed") == n + 1);
	/* The wheel still holds it, but it is not pending. */
	ASSERT_EQ(0, tell_remote("cancel %u 1", n));
	text = must_slurp(HWT_DEBUGFS "/" REMOTE "/pending");
	for (line = text; *line; line = end + 1) {
		unsigned int level, slot;
		unsigned long long at;
		char function[64];

		end = strchr(line, '\n');
		ASSERT_NE(NULL, end);
		*end = 0;
		if (sscanf(line, "more %u %u", &level, &slot) == 2) {
			EXPECT_EQ(0, level);
			more++;
			continue;
		}
		ASSERT_EQ(4, sscanf(line, "timeout %u %u %llu %63s", &level, &slot, &at, function))
			TH_LOG("%s", line);
		EXPECT_EQ(0, level);
		EXPECT_GT(64, slot);
		EXPECT_TRUE(at >= before + FAR && at <= now_ns() + FAR);
		EXPECT_TRUE(!deadline || at == deadline);
		deadline = at;
		EXPECT_STREQ("remote_fired", function);
		reported++;
	}
	EXPECT_EQ(1024, reported);
	EXPECT_EQ(1, more);
	free(text);
	EXPECT_EQ(0, unload(REMOTE));
}

/* Each level has its buckets: near timeouts are in the lowest level, far ones in higher ones. */
TEST(pending_in_levels)
{
	/* The levels reach 6.4 s, 3.4 min and 1.8 h. */
	static const __u64 delays[] = { 60, 3600, 7200, 14400 };
	unsigned int level, at[3] = { 0 }, i;
	char *text, *line;

	ASSERT_EQ(0, load(REMOTE, "tick_ns=100000000 slots=64 levels=3"));
	for (i = 0; i < ARRAY_SIZE(delays); i++)
		ASSERT_EQ(0, tell_remote("arm %u 1 %llu", i, delays[i] * NSEC_PER_SEC));
	eventually(must_wheel_value(REMOTE, "filed") == ARRAY_SIZE(delays));
	text = must_slurp(HWT_DEBUGFS "/" REMOTE "/pending");
	for (line = text; *line; line = strchr(line, '\n') + 1) {
		if (sscanf(line, "timeout %u", &level) != 1 || level > 2)
			die("'%.40s'", line);
		at[level]++;
	}
	free(text);
	EXPECT_EQ(0, at[0]);
	EXPECT_EQ(1, at[1]);
	EXPECT_EQ(3, at[2]);
	EXPECT_EQ(0, unload(REMOTE));
}

/* Filed for a tick, then touched to "never". */
TEST(pending_never)
{
	char *text;

	/* A round is longer than FAR. */
	ASSERT_EQ(0, load(REMOTE, "tick_ns=1000000000 slots=4096 levels=1"));
	ASSERT_EQ(0, tell_remote("arm 0 1 %llu", FAR));
	eventually(must_wheel_value(REMOTE, "filed") == 1);
	ASSERT_EQ(0, tell_remote("touch 0 1 -1"));
	text = must_slurp(HWT_DEBUGFS "/" REMOTE "/pending");
	EXPECT_NE(NULL, strstr(text, " 18446744073709551615 remote_fired"))
		TH_LOG("%s", text);
	free(text);
	EXPECT_EQ(0, unload(REMOTE));
}

/* Find a wheel by HWTIMER_IOC_WHEELS: 1, 0, or -errno. */
static int find_wheel(const char *name, struct hwtimer_wheel_info *found)
{
	struct hwtimer_wheel_info all[32];
	struct hwtimer_list l = {
		.entries = (uintptr_t)all, .size = sizeof(all[0]), .count = ARRAY_SIZE(all),
	};
	int fd = must_open(0), ret = hwt_ioctl(fd, HWTIMER_IOC_WHEELS, &l);

	close(fd);
	if (ret)
		return ret;
	if (l.count == ARRAY_SIZE(all))
		die("more than %zu wheels", ARRAY_SIZE(all));
	while (l.count--)
		if (!strcmp(all[l.count].name, name)) {
			*found = all[l.count];
			ret++;
		}
	return ret;
}

/* The figures of a wheel that is idle are those of debugfs, each in its field. */
TEST_F(wheel, by_ioctl)
{
	struct hwtimer_wheel_info w;
	struct stats s;
	char name[32];
	__u64 sum = 0;
	int i;

	ASSERT_EQ(0, tell_remote("arm 0 40 0 250000"));
	ASSERT_EQ(0, tell_remote("arm 100 20 %llu", FAR));
	ASSERT_EQ(0, tell_remote("touch 100 7 %llu", 2 * FAR));
	ASSERT_EQ(0, tell_remote("cancel 100 3"));
	eventually(must_wheel_value(REMOTE, "expired") == 40);
	ASSERT_EQ(0, tell_remote("stop"));
	ASSERT_EQ(1, find_wheel(REMOTE, &w));
	s = must_wheel_stats(REMOTE);
	EXPECT_STREQ(REMOTE, w.module);
	EXPECT_EQ(number(&s, "tick_ns"), w.tick_ns);
	EXPECT_EQ(0, w.pending);
	EXPECT_EQ(60, w.armed);
	EXPECT_EQ(7, w.touched);
	EXPECT_EQ(3, w.cancelled);
	EXPECT_EQ(40, w.expired);
	EXPECT_EQ(17, w.handed_back);
	EXPECT_TRUE(adds_up(&s));
	for (i = 0; i < HWTIMER_LATE; i++) {
		snprintf(name, sizeof(name), "late_below_%uus", 1U << i);
		EXPECT_EQ(number(&s, i < HWTIMER_LATE - 1 ? name : "late_above"), w.late[i]);
		sum += w.late[i];
	}
	EXPECT_EQ(40, sum);
}

/* Become a user with no capability but @cap. */
static void become_with(int cap)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (prctl(PR_SET_KEEPCAPS, 1))
		die("prctl: %s", strerror(errno));
	become(1001);
	data[cap / 32].permitted = 1U << cap % 32;
	data[cap / 32].effective = 1U << cap % 32;
	if (syscall(SYS_capset, &header, data))
		die("capset: %s", strerror(errno));
}

/* CAP_PERFMON is enough to see the wheels, CAP_SYS_ADMIN as well, and others are not. */
TEST_F(wheel, capabilities)
{
	static const struct {
		int cap, ret;
	} cases[] = {
		{ CAP_PERFMON, 1 }, { CAP_SYS_ADMIN, 1 }, { CAP_SYS_RESOURCE, -EPERM },
		{ CAP_SYS_PTRACE, -EPERM }, { CAP_DAC_READ_SEARCH, -EPERM },
	};
	struct hwtimer_wheel_info w;
	unsigned int i;

	ASSERT_EQ(0, chmod(DEVICE, 0666));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		in_child(must_fork()) {
			become_with(cases[i].cap);
			expect(cases[i].ret, find_wheel(REMOTE, &w));
		}
	}
	/* Root of a container has all capabilities, but only there. */
	in_child(must_fork()) {
		if (access("/proc/self/ns/user", F_OK))
			_exit(0);
		if (unshare(CLONE_NEWUSER))
			die("unshare: %s", strerror(errno));
		expect(-EPERM, find_wheel(REMOTE, &w));
	}
	ASSERT_EQ(0, chmod(DEVICE, 0600));
}

TEST_HARNESS_MAIN
