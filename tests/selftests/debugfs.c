// SPDX-License-Identifier: GPL-2.0-only
/*
 * What people read: /sys/kernel/debug/hwtimer/<wheel>/ and /proc/PID/fdinfo. The lines can be
 * parsed, the numbers add up, and reading does no harm.
 */
#include "hwt.h"

static const char *const numbers[] = {
	"worker_pid", "worker_nice", "tick_ns", "slots", "levels", "cap", "start_ns",
	"now_ns", "pending", "filed", "armed", "touched", "cancelled", "expired",
	"handed_back", "rejected", "drained", "coalesced", "kicks", "wakeups",
	"ticks", "visits", "cascaded", "refiled", "long_callbacks",
	"longest_callback_ns", "lateness_sum_ns",
	"late_below_1us", "late_below_2us", "late_below_1024us",
	"late_below_1048576us", "late_above",
};

static const char *const words[] = {
	"name", "clock", "worker_sched", "state", "longest_callback",
};

#define MAX_LINES	200
/* The maximum of any wheel. */
#define MAX_LEVELS	16

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

/* The sum over lines "bucket <level> <slot> <timeouts>"; dies if a line has another form. */
static __u64 must_sum_buckets(const char *wheel, __u64 slots)
{
	char path[PATH_MAX], *text, *line;
	long last = -1;
	__u64 sum = 0;

	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/buckets", wheel);
	text = must_slurp(path);
	for (line = text; *line; line = strchr(line, '\n') + 1) {
		unsigned long level, slot, filed;
		int len = 0;

		if (!strchr(line, '\n') ||
		    sscanf(line, "bucket %lu %lu %lu%n", &level, &slot, &filed, &len) != 3 ||
		    line[len] != '\n' || (long)(level * slots + slot) <= last ||
		    level >= MAX_LEVELS || slot >= slots || !filed)
			die("%s: '%.40s'", path, line);
		last = level * slots + slot;
		sum += filed;
	}
	free(text);
	return sum;
}

FIXTURE(wheel)
{
	int fd;
	char name[64];
};

/* A wheel that only this test uses. */
FIXTURE_SETUP(wheel)
{
	self->fd = must_open(0);
	ASSERT_EQ(0, hwt_own_wheel(self->fd, NSEC_PER_MSEC, 1000, 0));
	snprintf(self->name, sizeof(self->name), "pid-%d", getpid());
}

FIXTURE_TEARDOWN(wheel)
{
	char path[PATH_MAX];

	close(self->fd);
	/* The directory is removed with the wheel. */
	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s", self->name);
	EXPECT_EQ(-1, access(path, F_OK));
	EXPECT_EQ(ENOENT, errno);
}

TEST(modes)
{
	struct stat st;

	ASSERT_EQ(0, stat(HWT_DEBUGFS, &st));
	EXPECT_TRUE(S_ISDIR(st.st_mode));
	ASSERT_EQ(0, stat(HWT_DEBUGFS "/dev/stats", &st));
	EXPECT_EQ(0444, st.st_mode & 07777);
	ASSERT_EQ(0, stat(HWT_DEBUGFS "/dev/buckets", &st));
	EXPECT_EQ(0444, st.st_mode & 07777);
}

TEST(shared_wheel)
{
	struct stats s = must_wheel_stats("dev");

	EXPECT_STREQ("dev", word(&s, "name"));
	EXPECT_EQ(must_get_parameter("tick_ns"), number(&s, "tick_ns"));
	EXPECT_EQ(must_get_parameter("slots"), number(&s, "slots"));
}

TEST_F(wheel, lines)
{
	__u64 before = now_ns();
	struct stats s = must_wheel_stats(self->name);
	unsigned int i;

	EXPECT_LE(number(&s, "start_ns"), before);
	EXPECT_LE(before, number(&s, "now_ns"));
	EXPECT_LE(number(&s, "now_ns"), now_ns());

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		number(&s, numbers[i]);
	for (i = 0; i < ARRAY_SIZE(words); i++)
		word(&s, words[i]);
	EXPECT_STREQ(self->name, word(&s, "name"));
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
	must_schedule(self->fd, FAR, 0);
	s = must_wheel_stats(self->name);
	EXPECT_STREQ("STARTED", word(&s, "state"));
}

TEST_F(wheel, worker)
{
	struct stats s = must_wheel_stats(self->name);
	char path[64], want[128], *comm;

	snprintf(path, sizeof(path), "/proc/%llu/comm", number(&s, "worker_pid"));
	comm = must_slurp(path);
	/* As much of it as fits in a task's name. */
	snprintf(want, sizeof(want), "hwtimer/%s", self->name);
	EXPECT_EQ(0, strncmp(want, comm, strlen(comm) - 1));
}

TEST_F(wheel, counts)
{
	struct stats s;
	__u64 ids[100];
	int i;

	for (i = 0; i < 100; i++)
		ids[i] = must_schedule(self->fd, FAR, i);
	for (i = 0; i < 30; i++) {
		ASSERT_EQ(0, hwt_cancel(self->fd, ids[i]));
	}
	for (i = 30; i < 70; i++) {
		ASSERT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, ids[i], 0, NULL));
	}
	eventually(must_stats(self->fd).expired == 40);
	s = must_wheel_stats(self->name);
	EXPECT_EQ(100, number(&s, "armed"));
	EXPECT_EQ(40, number(&s, "touched"));
	EXPECT_EQ(30, number(&s, "cancelled"));
	EXPECT_EQ(40, number(&s, "expired"));
	EXPECT_EQ(30, number(&s, "pending"));
	EXPECT_EQ(0, number(&s, "handed_back"));
	EXPECT_TRUE(adds_up(&s));
	EXPECT_EQ(40, lateness_sum(&s));
	EXPECT_LT(0, number(&s, "ticks"));
	/* The 40 timeouts have been filed and visited. */
	EXPECT_LE(40, number(&s, "drained"));
	EXPECT_LE(40, number(&s, "visits"));
	EXPECT_LT(0, number(&s, "longest_callback_ns"));
	EXPECT_EQ(0, strncmp("dev_expired", word(&s, "longest_callback"), 11));
}

/* A sleeping worker is kicked, and wakes up. */
TEST_F(wheel, wakes)
{
	__u64 end = now_ns() + PATIENCE, n = 0;

	while (!must_wheel_value(self->name, "wakeups") ||
	       !must_wheel_value(self->name, "kicks")) {
		ASSERT_GT(end, now_ns());
		must_schedule(self->fd, 0, 0);
		n++;
		eventually(must_stats(self->fd).expired == n);
	}
}

/* Failed calls are not counted, except as rejected at the wheel's cap. */
TEST_F(wheel, failures_do_not_count)
{
	struct hwtimer_schedule bad = { .flags = 2 };
	struct stats s;

	ASSERT_EQ(-EINVAL, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &bad));
	ASSERT_EQ(-ENOENT, hwt_cancel(self->fd, 1));
	ASSERT_EQ(-ENOENT, hwt_touch(self->fd, 0, 1, 1, NULL));
	s = must_wheel_stats(self->name);
	EXPECT_EQ(0, number(&s, "armed"));
	EXPECT_EQ(0, number(&s, "touched"));
	EXPECT_EQ(0, number(&s, "cancelled"));
	EXPECT_EQ(0, number(&s, "rejected"));
	EXPECT_STREQ("INIT", word(&s, "state"));
}

/* How many timeouts are filed, and where. */
TEST_F(wheel, buckets)
{
	__u64 ids[1000], random = seed();
	struct stats s;
	int i;

	EXPECT_EQ(0, must_sum_buckets(self->name, 1024));
	for (i = 0; i < 1000; i++)
		ids[i] = must_schedule(self->fd, FAR + rnd(&random) % NSEC_PER_SEC, i);
	/* The worker has filed all of them. */
	eventually(must_wheel_value(self->name, "filed") == 1000);
	EXPECT_EQ(1000, must_sum_buckets(self->name, 1024));
	s = must_wheel_stats(self->name);
	EXPECT_EQ(1000, number(&s, "pending"));
	EXPECT_EQ(1000, number(&s, "filed"));
	for (i = 0; i < 1000; i++) {
		ASSERT_EQ(0, hwt_cancel(self->fd, ids[i]));
	}
	EXPECT_EQ(0, must_wheel_value(self->name, "pending"));
	EXPECT_EQ(must_wheel_value(self->name, "filed"),
		  must_sum_buckets(self->name, 1024));
}

/* Timeouts with the same deadline share a bucket. */
TEST_F(wheel, one_bucket)
{
	__u64 time = now_ns() + FAR;
	char path[PATH_MAX], *text;
	int i;

	for (i = 0; i < 500; i++) {
		ASSERT_EQ(0, hwt_schedule(self->fd, 0, time, i, NULL, NULL));
	}
	eventually(must_wheel_value(self->name, "filed") == 500);
	EXPECT_EQ(500, must_sum_buckets(self->name, 1024));
	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/buckets", self->name);
	text = must_slurp(path);
	EXPECT_EQ(strchr(text, '\n'), strrchr(text, '\n'));
	free(text);
}

/* A reader may be killed while the worker looks at the wheel for it. */
TEST_F(wheel, killed_during_look)
{
	__u64 random = seed();
	pid_t child;
	int i;

	for (i = 0; i < 5000; i++)
		must_schedule(self->fd, FAR + i * NSEC_PER_MSEC / 20, i);
	eventually(must_wheel_value(self->name, "filed") == 5000);
	for (i = 0; i < 100; i++) {
		child = must_fork();
		while (!child)
			must_sum_buckets(self->name, 1024);
		usleep(rnd(&random) % 3000);
		must_kill(child);
	}
	EXPECT_EQ(5000, must_sum_buckets(self->name, 1024));
}

/* Each level has its buckets: near timeouts are in the lowest level, far ones in higher ones. */
TEST(buckets_of_levels)
{
	struct hwtimer_setup setup = {
		.flags = HWTIMER_SETUP_OWN_WHEEL, .clockid = CLOCK_MONOTONIC,
		.tick_ns = 100 * NSEC_PER_MSEC, .slots = 64, .levels = 3,
	};
	/* the levels reach 6.4 s, 3.4 min and 1.8 h */
	static const __u64 delays[] = { 60, 3600, 7200, 14400 };
	unsigned int level, slot, filed, at[3] = { 0 }, i;
	char wheel[32], path[PATH_MAX], *text, *line;
	int fd = must_open(0);

	ASSERT_EQ(0, hwt_setup(fd, &setup));
	snprintf(wheel, sizeof(wheel), "pid-%d", getpid());
	for (i = 0; i < ARRAY_SIZE(delays); i++)
		must_schedule(fd, delays[i] * NSEC_PER_SEC, i);
	eventually(must_wheel_value(wheel, "filed") == ARRAY_SIZE(delays));
	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/buckets", wheel);
	text = must_slurp(path);
	for (line = text; *line; line = strchr(line, '\n') + 1) {
		if (sscanf(line, "bucket %u %u %u", &level, &slot, &filed) != 3 || level > 2)
			die("%s: '%.40s'", path, line);
		at[level] += filed;
	}
	free(text);
	EXPECT_EQ(0, at[0]);
	EXPECT_EQ(1, at[1]);
	EXPECT_EQ(3, at[2]);
	close(fd);
}

/* With nothing pending, the worker sleeps until a timeout is armed. */
TEST_F(wheel, idle_costs_nothing)
{
	__u64 before, after;

	must_schedule(self->fd, 0, 0);
	eventually(must_stats(self->fd).expired == 1);
	/* One more wake-up may be needed to find that nothing is pending. */
	eventually((before = must_wheel_value(self->name, "wakeups"),
		    wait_until(now_ns() + NSEC_PER_SEC),
		    after = must_wheel_value(self->name, "wakeups"),
		    before == after));
}

/* With only far timeouts pending, it wakes a few times a second, not 1000 times. */
TEST_F(wheel, far_costs_little)
{
	__u64 before, after, began;
	int i;

	for (i = 0; i < 100; i++)
		must_schedule(self->fd, FAR, 0);
	eventually(must_wheel_value(self->name, "filed") == 100);
	began = now_ns();
	before = must_wheel_value(self->name, "wakeups");
	wait_until(began + 2 * NSEC_PER_SEC);
	after = must_wheel_value(self->name, "wakeups");
	EXPECT_GE(10 * ((now_ns() - began) / NSEC_PER_SEC + 1), after - before);
	printf("# %llu wake-ups in %llu ms\n", after - before,
	       (now_ns() - began) / NSEC_PER_MSEC);
}

/* Two wheels of one process, one of which goes away. */
TEST_F(wheel, second_wheel)
{
	unsigned int dirs = 0, mine = 0;
	int other = must_open(0);
	struct dirent *entry;
	DIR *dir;

	ASSERT_EQ(0, hwt_own_wheel(other, 5 * NSEC_PER_MSEC, 8, 0));
	dir = opendir(HWT_DEBUGFS);
	ASSERT_NE(NULL, dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		dirs++;
		if (strncmp(entry->d_name, self->name, strlen(self->name)))
			continue;
		mine++;
		must_wheel_stats(entry->d_name);
		must_sum_buckets(entry->d_name, 1024);
	}
	closedir(dir);
	EXPECT_EQ(2, mine);
	EXPECT_LE(3, dirs);
	close(other);
	EXPECT_EQ(NSEC_PER_MSEC, must_wheel_value(self->name, "tick_ns"));
}

/* Files of a wheel that is gone can still be read. */
TEST_F(wheel, outlived)
{
	char path[PATH_MAX], buf[64];
	int stats, buckets;

	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/stats", self->name);
	stats = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, stats);
	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/buckets", self->name);
	buckets = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, buckets);
	must_schedule(self->fd, FAR, 0);
	ASSERT_LT(0, read(stats, buf, sizeof(buf)));
	close(self->fd);
	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s", self->name);
	EXPECT_EQ(-1, access(path, F_OK));
	EXPECT_GT(0, read(stats, buf, sizeof(buf)));
	EXPECT_GT(0, pread(stats, buf, sizeof(buf), 0));
	EXPECT_GT(0, read(buckets, buf, sizeof(buf)));
	close(stats);
	close(buckets);
	self->fd = must_open(0);
}

/* Reads of a few bytes, as a script may do. */
TEST_F(wheel, small_reads)
{
	char path[PATH_MAX], *whole, pieces[8192];
	size_t size = 0;
	ssize_t ret;
	int fd;

	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/stats", self->name);
	whole = must_slurp(path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	while ((ret = read(fd, pieces + size, 7)) > 0)
		size += ret;
	ASSERT_EQ(0, ret);
	pieces[size] = 0;
	/* Nothing happened in between, so the content is the same. */
	remove_now(whole);
	remove_now(pieces);
	EXPECT_STREQ(whole, pieces);
	close(fd);
	free(whole);
}

/* Reading while everything changes. */
static atomic_bool busy;

static void *change(void *arg)
{
	__u64 random = (uintptr_t)arg * 77 + 1;

	while (atomic_load(&busy)) {
		int fd = must_open(0), i;
		__u64 ids[64] = { 0 };

		if (arg && hwt_own_wheel(fd, NSEC_PER_MSEC, 300, 0))
			die("no wheel");
		for (i = 0; i < 3000; i++) {
			unsigned int k = rnd(&random) % 64;

			if (ids[k] && rnd(&random) % 2)
				hwt_cancel(fd, ids[k]);
			else if (ids[k])
				hwt_touch(fd, HWTIMER_RELATIVE, ids[k],
					  rnd(&random) % (5 * NSEC_PER_MSEC), NULL);
			ids[k] = must_schedule(fd, rnd(&random) % (5 * NSEC_PER_MSEC), k);
		}
		close(fd);
	}
	return NULL;
}

struct file_reader {
	pthread_t thread;
	unsigned int reads, gone, bad;
};

/* Read @wheel/@file; NULL if it disappears. */
static char *slurp_if_there(const char *wheel, const char *file, struct file_reader *l)
{
	char path[PATH_MAX], *text = must_alloc(1, 65536);
	size_t size = 0;
	ssize_t ret = -1;
	int fd;

	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/%s", wheel, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		while ((ret = read(fd, text + size, 65535 - size)) > 0)
			size += ret;
		close(fd);
	}
	l->reads++;
	if (!ret && size < 65535)
		return text;
	free(text);
	l->gone++;
	/* The shared wheel does not disappear. */
	if (!strcmp(wheel, "dev"))
		l->bad++;
	return NULL;
}

static void *keep_reading(void *arg)
{
	struct file_reader *l = arg;

	while (atomic_load(&busy)) {
		DIR *dir = opendir(HWT_DEBUGFS);
		struct dirent *entry;

		while (dir && (entry = readdir(dir))) {
			struct stats s;

			if (entry->d_name[0] == '.')
				continue;
			s.text = slurp_if_there(entry->d_name, "stats", l);
			if (s.text && !parse(&s))
				l->bad++;
			free(s.text);
			free(slurp_if_there(entry->d_name, "buckets", l));
		}
		if (dir)
			closedir(dir);
	}
	return NULL;
}

TEST(under_load)
{
	struct file_reader readers[2] = { 0 };
	pthread_t changers[3];
	struct stats s;
	int i;

	atomic_store(&busy, true);
	for (i = 0; i < 3; i++)
		start(&changers[i], change, (void *)(uintptr_t)i);
	for (i = 0; i < 2; i++)
		start(&readers[i].thread, keep_reading, &readers[i]);
	wait_until(now_ns() + quick_or(1, 5) * NSEC_PER_SEC);
	eventually(readers[0].reads > 100 && readers[1].reads > 100);
	atomic_store(&busy, false);
	for (i = 0; i < 2; i++) {
		pthread_join(readers[i].thread, NULL);
		printf("# %u reads, %u of files that had gone\n", readers[i].reads,
		       readers[i].gone);
		EXPECT_EQ(0, readers[i].bad);
	}
	for (i = 0; i < 3; i++)
		pthread_join(changers[i], NULL);
	/* At rest, the counters add up. */
	eventually(!must_wheel_value("dev", "filed"));
	s = must_wheel_stats("dev");
	EXPECT_EQ(0, number(&s, "pending"));
	EXPECT_TRUE(adds_up(&s));
	EXPECT_EQ(number(&s, "expired"), lateness_sum(&s));
	EXPECT_EQ(0, must_sum_buckets("dev", number(&s, "slots")));
}

/* /proc/self/fdinfo/N */
TEST(fdinfo_shared)
{
	struct hwtimer_record rec;
	int fd = must_open(0);
	__u64 user = 0;

	/* What earlier cases have closed is released first. */
	eventually(must_fdinfo(fd, "user_timeouts") == user);
	EXPECT_EQ(CLOCK_MONOTONIC, must_fdinfo(fd, "clockid"));
	EXPECT_EQ(0, must_fdinfo(fd, "own_wheel"));
	EXPECT_EQ(must_get_parameter("tick_ns"), must_fdinfo(fd, "tick_ns"));
	EXPECT_EQ(must_get_parameter("slots"), must_fdinfo(fd, "slots"));
	EXPECT_EQ(0, must_fdinfo(fd, "stopped"));
	EXPECT_EQ(0, must_fdinfo(fd, "pending"));
	EXPECT_EQ(0, must_fdinfo(fd, "unread"));
	EXPECT_EQ(1ULL << 24, must_fdinfo(fd, "cap"));
	EXPECT_EQ(0, must_fdinfo(fd, "user_wheels"));
	must_schedule(fd, FAR, 0);
	must_schedule(fd, FAR, 0);
	must_schedule(fd, 0, 0);
	eventually(must_fdinfo(fd, "unread") == 1);
	EXPECT_EQ(2, must_fdinfo(fd, "pending"));
	EXPECT_EQ(user + 3, must_fdinfo(fd, "user_timeouts"));
	ASSERT_EQ(1, hwt_read(fd, &rec, 1));
	/* The freed timeout is kept for reuse, and charged. */
	EXPECT_EQ(user + 3, must_fdinfo(fd, "user_timeouts"));
	EXPECT_EQ(must_get_parameter("max_user_timeouts"), must_fdinfo(fd, "max_user_timeouts"));
	EXPECT_EQ(must_get_parameter("max_user_wheels"), must_fdinfo(fd, "max_user_wheels"));
	ASSERT_EQ(0, hwt_stop(fd, NULL));
	EXPECT_EQ(1, must_fdinfo(fd, "stopped"));
	EXPECT_EQ(0, must_fdinfo(fd, "pending"));
	EXPECT_EQ(2, must_fdinfo(fd, "unread"));
}

/* The keys are exactly those that docs/abi lists, in the same order. */
static void check_keys(struct __test_metadata *_metadata, int fd, bool rings)
{
	static const char *const keys[] = {
		"clockid", "own_wheel", "tick_ns", "slots", "levels", "stopped", "pending",
		"unread", "late", "cap", "timeouts", "timeouts_kib", "sq_entries", "cq_entries",
		"user_timeouts", "max_user_timeouts", "user_wheels", "max_user_wheels",
		"user_rate", "max_user_rate", "user_ring_kib", "max_user_ring_kib",
		"user_shared_wheels", "max_user_shared_wheels",
	};
	char path[64], *text, *line, *colon, *end;
	unsigned int i = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	text = must_slurp(path);
	line = strstr(text, "clockid:");
	ASSERT_NE(NULL, line);
	for (; *line; line = end + 1) {
		end = strchr(line, '\n');
		ASSERT_NE(NULL, end);
		*end = 0;
		colon = strchr(line, ':');
		ASSERT_NE(NULL, colon);
		*colon = 0;
		if (!rings && !strcmp(keys[i], "sq_entries"))
			i += 2;
		ASSERT_GT(ARRAY_SIZE(keys), i);
		ASSERT_STREQ(keys[i++], line);
		ASSERT_EQ(strlen(colon + 2), strspn(colon + 2, "0123456789"));
	}
	EXPECT_EQ(ARRAY_SIZE(keys), i);
	free(text);
}

TEST(fdinfo_keys)
{
	struct hwtimer_rings rings = {
		.sq_entries = 4, .timeouts = 4, .sqe_size = sizeof(struct hwtimer_sqe),
		.record_size = sizeof(struct hwtimer_record),
	};
	int fd = must_open(0);

	check_keys(_metadata, fd, false);
	ASSERT_EQ(0, hwt_ioctl(fd, HWTIMER_IOC_RINGS, &rings));
	check_keys(_metadata, fd, true);
	close(fd);
}

TEST(fdinfo_own)
{
	int fd = must_open(0);

	ASSERT_EQ(0, hwt_own_wheel(fd, 3 * NSEC_PER_MSEC, 100, 42));
	EXPECT_EQ(1, must_fdinfo(fd, "own_wheel"));
	EXPECT_EQ(3 * NSEC_PER_MSEC, must_fdinfo(fd, "tick_ns"));
	EXPECT_EQ(128, must_fdinfo(fd, "slots"));
	EXPECT_EQ(42, must_fdinfo(fd, "cap"));
	EXPECT_EQ(1, must_fdinfo(fd, "user_wheels"));
}

/* A line for each pending timeout, with its function and its deadline. */
TEST(pending)
{
	const unsigned int n = 5000;
	unsigned int i, reported = 0, more = 0;
	char *text, *line, *end, path[128], wheel[32];
	__u64 deadline, id = 0;
	int fd = must_open(0);

	/* One level of 64 slots: all are in one bucket, more than the file lists. */
	ASSERT_EQ(0, hwt_own_wheel(fd, NSEC_PER_SEC, 64, 0));
	snprintf(path, sizeof(path), HWT_DEBUGFS "/pid-%d/pending", getpid());
	deadline = now_ns() + FAR;
	for (i = 0; i <= n; i++)
		ASSERT_EQ(0, hwt_schedule(fd, 0, deadline, i, &id, NULL));
	must_schedule(fd, 1, 0);	/* filed in the first slot */
	snprintf(wheel, sizeof(wheel), "pid-%d", getpid());
	eventually(must_stats(fd).unread == 1 && must_wheel_value(wheel, "filed") == n + 1);
	/* The wheel still holds it, but it is not pending. */
	ASSERT_EQ(0, hwt_cancel(fd, id));
	text = must_slurp(path);
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
		EXPECT_EQ(deadline, at);
		EXPECT_EQ(0, strcmp("dev_expired", function))
			TH_LOG("%s", function);
		reported++;
	}
	EXPECT_EQ(1024, reported);
	EXPECT_EQ(1, more);
	free(text);
	close(fd);
}

/* Filed for a tick, then touched to HWTIMER_NEVER. */
TEST(pending_never)
{
	char *text, path[128], wheel[32];
	int fd = must_open(0);
	__u64 id;

	ASSERT_EQ(0, hwt_own_wheel(fd, NSEC_PER_SEC, 4096, 0));	/* a round is longer than FAR */
	snprintf(wheel, sizeof(wheel), "pid-%d", getpid());
	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/pending", wheel);
	id = must_schedule(fd, FAR, 0);
	eventually(must_wheel_value(wheel, "filed") == 1);
	ASSERT_EQ(0, hwt_touch(fd, 0, id, HWTIMER_NEVER, NULL));
	text = must_slurp(path);
	EXPECT_NE(NULL, strstr(text, " 18446744073709551615 dev_expired"))
		TH_LOG("%s", text);
	free(text);
	close(fd);
}

TEST_HARNESS_MAIN
