// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/hwtimer, what is seen of it: LIST and WHEELS for programs, the contexts in debugfs for
 * root, and the tracepoints.
 */
#include "common.h"

#include <sys/mount.h>
#include <sys/prctl.h>

#include "../../lib/table.h"

#define CONTEXTS	"/sys/kernel/debug/hwtimer/contexts"
#define TRACING		"/sys/kernel/tracing"
#define EVENTS		TRACING "/events/hwtimer"
#define USER		1001
#define TIMEOUTS	1000

/**
 * struct subject - a context of either kind
 * @t: the table; only its descriptor is used by calls
 * @by_calls: its kind
 * @ids: by calls: what SCHEDULE has returned
 */
struct subject {
	struct table	t;
	bool		by_calls;
	__u64		ids[TIMEOUTS];
};

static int subject_open(struct subject *s, bool by_calls, __u32 slots)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = by_calls ? 0 : HWTIMER_SETUP_TABLE,
		.slots = slots,
	};
	int ret;

	s->by_calls = by_calls;
	s->t = (struct table){ .fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC),
			       .page = sysconf(_SC_PAGESIZE) };
	if (s->t.fd < 0)
		return -errno;
	ret = hwt_ioctl(s->t.fd, HWTIMER_IOC_SETUP, &setup);
	return ret || by_calls ? ret : table_map(&s->t);
}

static void subject_close(struct subject *s)
{
	if (!s->by_calls)
		table_close(&s->t);
	close(s->t.fd);
}

static void arm(struct subject *s, __u32 i, __u64 deadline_ns)
{
	struct hwtimer_schedule schedule = { .time = deadline_ns, .user_data = i };
	int ret;

	if (s->by_calls) {
		ret = hwt_ioctl(s->t.fd, HWTIMER_IOC_SCHEDULE, &schedule);
		s->ids[i] = schedule.id;
	} else {
		table_store(&s->t.slot[i].user_data, i);
		ret = table_arm(&s->t, i, table_word(deadline_ns, 1));
		s->ids[i] = i;
	}
	if (ret)
		die("arm: %d", ret);
}

static void cancel(struct subject *s, __u32 i)
{
	struct hwtimer_cancel arg = { .id = s->ids[i] };

	if (s->by_calls ? hwt_ioctl(s->t.fd, HWTIMER_IOC_CANCEL, &arg) :
			  table_cancel(&s->t, i, 1))
		die("cancel");
}

/* LIST or WHEELS: how many, or -errno. */
static int list(int fd, unsigned long cmd, void *entries, size_t size, __u32 count, __u64 *cursor)
{
	struct hwtimer_list l = {
		.cursor = *cursor, .entries = (uintptr_t)entries, .size = size, .count = count,
	};
	int ret = hwt_ioctl(fd, cmd, &l);

	if (ret)
		return ret;
	if (l.entries != (uintptr_t)entries || l.size != size || l.count > count)
		return DIRTY;
	*cursor = l.cursor;
	return l.count;
}

static int list_some(int fd, struct hwtimer_query *q, __u32 count, __u64 *cursor)
{
	return list(fd, HWTIMER_IOC_LIST, q, sizeof(*q), count, cursor);
}

/* Note in @listed how often each user_data below TIMEOUTS is listed, @page at a time: how many. */
static __u32 list_all(struct subject *s, __u32 page, unsigned char *listed)
{
	struct hwtimer_query *q = calloc(page, sizeof(*q));
	__u64 cursor = 0;
	__u32 n = 0;
	int got, i;

	if (!q)
		die("no memory");
	memset(listed, 0, TIMEOUTS);
	do {
		got = list_some(s->t.fd, q, page, &cursor);
		if (got < 0)
			die("LIST: %d", got);
		for (i = 0; i < got; i++) {
			__u64 data = q[i].user_data;

			if (data < TIMEOUTS) {
				listed[data]++;
				if (q[i].id != s->ids[data] || q[i].period_ns)
					die("timeout %llu", (unsigned long long)data);
			} else if (!s->by_calls && q[i].deadline_ns != data) {
				die("user data of another timeout");
			}
		}
		n += got;
	} while (got == (int)page);
	if (list_some(s->t.fd, q, page, &cursor))
		n += TIMEOUTS;
	free(q);
	return n;
}

static const __u32 pages[] = { 1, 7, 64, TIMEOUTS, 4 * TIMEOUTS };

FIXTURE(seen)
{
	struct subject s;
};

FIXTURE_VARIANT(seen)
{
	bool by_calls;
};

FIXTURE_VARIANT_ADD(seen, calls)
{
	.by_calls = true,
};

FIXTURE_VARIANT_ADD(seen, table)
{
	.by_calls = false,
};

FIXTURE_SETUP(seen)
{
	ASSERT_EQ(0, subject_open(&self->s, variant->by_calls, TIMEOUTS));
}

FIXTURE_TEARDOWN(seen)
{
	subject_close(&self->s);
}

/* Each that is armed once, whatever the page; those that are due, too, but not those that ended. */
TEST_F(seen, list)
{
	unsigned char listed[TIMEOUTS];
	struct subject *s = &self->s;
	__u64 far = now_ns() + FAR;
	unsigned int i, j;

	ASSERT_EQ(0, list_all(s, 10, listed));
	for (i = 0; i < TIMEOUTS; i++)
		arm(s, i, i % 3 == 1 ? 0 : far);
	for (i = 2; i < TIMEOUTS; i += 3)
		cancel(s, i);
	ASSERT_EQ(POLLIN, poll_in(s->t.fd, -1));
	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		ASSERT_EQ(TIMEOUTS - TIMEOUTS / 3, list_all(s, pages[i], listed));
		for (j = 0; j < TIMEOUTS; j++)
			ASSERT_EQ(j % 3 != 2, listed[j]);
	}
}

/* LIST tells what QUERY tells, and what is in the slot. */
TEST_F(seen, list_as_query)
{
	struct hwtimer_schedule periodic = {
		.time = now_ns() + FAR, .user_data = 5, .period_ns = NSEC_PER_SEC,
	};
	struct hwtimer_query listed[4], q;
	struct subject *s = &self->s;
	__u64 cursor = 0;
	int i;

	arm(s, 3, now_ns() + FAR);
	arm(s, 4, now_ns() + 2 * FAR);
	if (s->by_calls) {
		ASSERT_EQ(0, hwt_ioctl(s->t.fd, HWTIMER_IOC_SCHEDULE, &periodic));
	}
	memset(listed, 0xa5, sizeof(listed));
	ASSERT_EQ(2 + s->by_calls, list_some(s->t.fd, listed, 4, &cursor));
	for (i = 0; i < 2 + s->by_calls; i++) {
		q = (struct hwtimer_query){ .id = listed[i].id, .user_data = 3 + i };
		if (s->by_calls) {
			ASSERT_EQ(0, hwt_ioctl(s->t.fd, HWTIMER_IOC_QUERY, &q));
		} else {
			ASSERT_EQ(3 + i, q.id);
			q.deadline_ns = table_deadline(s->t.slot[3 + i].word);
		}
		ASSERT_EQ(0, memcmp(&q, &listed[i], sizeof(q)));
	}
}

/* Slots that come during the walk move nothing. */
TEST_F(seen, list_and_grow)
{
	struct hwtimer_grow grow = { .slots = 50000 };
	struct hwtimer_query q[10];
	struct subject *s = &self->s;
	unsigned char listed[TIMEOUTS] = { };
	__u64 cursor = 0, far = now_ns() + FAR;
	int i, n;

	for (i = 0; i < 100; i++)
		arm(s, i, far);
	while ((n = list_some(s->t.fd, q, 10, &cursor)) > 0) {
		for (i = 0; i < n; i++)
			listed[q[i].user_data]++;
		if (grow.slots == 50000 && !s->by_calls) {
			ASSERT_EQ(0, hwt_ioctl(s->t.fd, HWTIMER_IOC_GROW, &grow));
			ASSERT_EQ(0, table_map(&s->t));
		}
		if (!listed[999])
			for (i = 100; i < TIMEOUTS; i++)
				arm(s, i, far);
		listed[999] = 1;
	}
	ASSERT_EQ(0, n);
	for (i = 0; i < 100; i++)
		ASSERT_EQ(1, listed[i]);
	if (!s->by_calls) {
		table_store(&s->t.slot[grow.slots - 1].word, table_word(far, 1));
		ASSERT_EQ(grow.slots, cursor--);
		ASSERT_EQ(1, list_some(s->t.fd, q, 10, &cursor));
		ASSERT_EQ(grow.slots - 1, q[0].id);
	}
}

/* A thread that arms, moves and cancels, and makes slots. */
struct churn {
	struct subject *s;
	atomic_bool end;
};

static void *churn(void *arg)
{
	struct churn *c = arg;
	struct subject *s = c->s;
	struct hwtimer_grow grow = { .slots = TIMEOUTS };
	struct hwtimer_cancel ids[500];
	__u64 deadline = now_ns() + FAR, random = 1;
	__u32 i;

	while (!atomic_load(&c->end)) {
		struct hwtimer_schedule schedule = { .time = deadline, .user_data = ~0ULL };

		if (s->by_calls) {
			for (i = 0; i < ARRAY_SIZE(ids); i++) {
				if (hwt_ioctl(s->t.fd, HWTIMER_IOC_SCHEDULE, &schedule))
					die("SCHEDULE");
				ids[i].id = schedule.id;
			}
			for (i = 0; i < ARRAY_SIZE(ids); i++)
				if (hwt_ioctl(s->t.fd, HWTIMER_IOC_CANCEL, &ids[i]))
					die("CANCEL");
			continue;
		}
		if (grow.slots < 100000) {
			grow.slots += 2000;
			if (hwt_ioctl(s->t.fd, HWTIMER_IOC_GROW, &grow))
				die("GROW");
		}
		for (i = 300; i < 900; i++) {
			__u32 arming = rnd(&random) % TABLE_ARMING + 1;
			__u64 word = table_word(deadline + i * NSEC_PER_MSEC, arming);

			table_touch(&s->t, i - 300, table_word(deadline + i, 1));
			table_store(&s->t.slot[i].user_data, table_deadline(word));
			if (table_arm(&s->t, i, word) || table_cancel(&s->t, i, arming))
				die("arm or cancel");
		}
	}
	return NULL;
}

/* Those that stay are listed once, whatever others do. */
TEST_F(seen, list_and_churn)
{
	struct churn c = { .s = &self->s };
	unsigned char listed[TIMEOUTS];
	__u64 far = now_ns() + FAR;
	pthread_t thread;
	unsigned int i, j;

	for (i = 0; i < 300; i++)
		arm(&self->s, i, far);
	/* By calls, there is room for so many beside the others. */
	ASSERT_EQ(0, pthread_create(&thread, NULL, churn, &c));
	for (j = 0; j < quick_or(60, 5000); j++) {
		ASSERT_LE(300, list_all(&self->s, pages[j % 3], listed));
		for (i = 0; i < 300; i++)
			ASSERT_EQ(1, listed[i]);
	}
	atomic_store(&c.end, true);
	pthread_join(thread, NULL);
}

/* Entries of a newer program are longer. */
TEST_F(seen, list_longer)
{
	static const __u32 sizes[] = { 32, 40, 4096 };
	unsigned char buf[3 * 4096];
	unsigned int i, j, k;
	__u64 cursor;

	arm(&self->s, 0, now_ns() + FAR);
	arm(&self->s, 1, now_ns() + FAR);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(buf, 0xa5, sizeof(buf));
		cursor = 0;
		ASSERT_EQ(2, list(self->s.t.fd, HWTIMER_IOC_LIST, buf, sizes[i], 3, &cursor));
		for (j = 0; j < 2; j++) {
			ASSERT_EQ(0, memcmp(buf + j * sizes[i], &self->s.ids[j], 8));
			for (k = 32; k < sizes[i]; k++)
				ASSERT_EQ(0, buf[j * sizes[i] + k]);
		}
		for (k = 2 * sizes[i]; k < sizeof(buf); k++)
			ASSERT_EQ(0xa5, buf[k]);
	}
}

TEST_F(seen, list_misuse)
{
	struct hwtimer_query q[4], *half = mmap(NULL, 2 * self->s.t.page, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = self->s.t.fd, ro = open("/dev/hwtimer", O_RDONLY | O_CLOEXEC);
	struct hwtimer_list longer = { .entries = (uintptr_t)q, .size = 32, .count = 4 };
	__u64 cursor = 0, end;
	__u32 i;

	for (i = 0; i < 4; i++)
		arm(&self->s, i, now_ns() + FAR);
	ASSERT_EQ(-EINVAL, list(fd, HWTIMER_IOC_LIST, q, 24, 4, &cursor));
	ASSERT_EQ(-EINVAL, list(fd, HWTIMER_IOC_LIST, q, 36, 4, &cursor));
	ASSERT_EQ(-EINVAL, list(fd, HWTIMER_IOC_LIST, q, 0, 4, &cursor));
	ASSERT_EQ(-E2BIG, list(fd, HWTIMER_IOC_LIST, q, 4104, 4, &cursor));
	ASSERT_EQ(-E2BIG, list(fd, HWTIMER_IOC_LIST, q, ~7U, 4, &cursor));
	ASSERT_EQ(-EINVAL, list_some(fd, q, 0, &cursor));
	ASSERT_EQ(-EFAULT, list_some(fd, (void *)8, 4, &cursor));
	ASSERT_EQ(-EFAULT, list_some(fd, (void *)(uintptr_t)-8L, 4, &cursor));
	ASSERT_EQ(-EFAULT, hwt_ioctl(fd, HWTIMER_IOC_LIST, NULL));
	ASSERT_EQ(-EINVAL, hwt_ioctl(fd, _IOWR(HWTIMER_IOC_MAGIC, 0x1a, __u64[2]), &longer));
	ASSERT_EQ(0, cursor);
	/* So many need not fit if there are fewer. Two fit here, so four do not. */
	ASSERT_EQ(4, list_some(fd, half, ~0U, &cursor));
	ASSERT_EQ(0, mprotect((char *)half + self->s.t.page, self->s.t.page, PROT_NONE));
	half = (void *)((char *)half + self->s.t.page - 2 * sizeof(*half));
	cursor = 0;
	ASSERT_EQ(-EFAULT, list_some(fd, half, 4, &cursor));
	ASSERT_EQ(2, list_some(fd, half, 2, &cursor));
	ASSERT_EQ(2, list_some(fd, half, 2, &cursor));
	/* Beyond the end there is nothing. */
	for (end = 1ULL << 20; end; end <<= 1)
		ASSERT_EQ(0, list_some(fd, q, 4, (cursor = end, &cursor)));
	cursor = ~0ULL;
	ASSERT_EQ(0, list_some(fd, q, 4, &cursor));
	ASSERT_EQ(-EBADF, list_some(ro, q, 4, &cursor));
	close(ro);
}

static void load(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s.ko", getenv("MODULES") ?: "/modules", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		die("%s: %s", path, strerror(errno));
	close(fd);
}

static void unload(const char *name)
{
	if (syscall(SYS_delete_module, name, O_NONBLOCK))
		die("%s: %s", name, strerror(errno));
}

/* Find the wheel of a module, @page at a time. */
static bool find_wheel(int fd, __u32 page, const char *module, struct hwtimer_wheel_info *found)
{
	struct hwtimer_wheel_info w[8];
	unsigned int times = 0;
	__u64 cursor = 0;
	int n, i;

	do {
		n = list(fd, HWTIMER_IOC_WHEELS, w, sizeof(w[0]), page, &cursor);
		if (n < 0)
			die("WHEELS: %d", n);
		for (i = 0; i < n; i++)
			if (!strcmp(w[i].module, module)) {
				*found = w[i];
				times++;
			}
	} while (n == (int)page);
	if (times > 1)
		die("the same wheel twice");
	return times;
}

/* How many expiries of a wheel had their lateness counted. */
static __u64 wheel_late(const struct hwtimer_wheel_info *w)
{
	__u64 late = 0;
	int i;

	for (i = 0; i < HWTIMER_LATE; i++)
		late += w->late[i];
	return late;
}

/* The wheels of modules, without SETUP, and by a descriptor that is read-only. */
TEST(wheels)
{
	int fd = open("/dev/hwtimer", O_RDONLY | O_CLOEXEC);
	struct hwtimer_wheel_info w;
	__u64 cursor = 0;
	__u32 page;
	pid_t pid;

	ASSERT_EQ(0, list(fd, HWTIMER_IOC_WHEELS, &w, sizeof(w), 1, &cursor));
	load("quickstart_module");
	load("leases_module");
	/* The lateness is counted last. */
	eventually(find_wheel(fd, 1, "quickstart_module", &w) && wheel_late(&w) == 1);
	for (page = 1; page < 4; page++) {
		ASSERT_TRUE(find_wheel(fd, page, "leases_module", &w));
		ASSERT_TRUE(find_wheel(fd, page, "quickstart_module", &w));
		ASSERT_STREQ("quickstart", w.name);
		ASSERT_EQ(10 * NSEC_PER_MSEC, w.tick_ns);
		ASSERT_EQ(2, w.armed);
		ASSERT_EQ(1, w.touched);
		ASSERT_EQ(1, w.cancelled);
		ASSERT_EQ(1, w.expired);
		ASSERT_EQ(1, wheel_late(&w));
		ASSERT_EQ(0, w.pending);
		ASSERT_EQ(0, w.handed_back);
	}
	ASSERT_EQ(-EINVAL, list(fd, HWTIMER_IOC_WHEELS, &w, sizeof(w) - 8, 1, &cursor));
	ASSERT_EQ(-EINVAL, list(fd, HWTIMER_IOC_WHEELS, &w, sizeof(w), 0, &cursor));
	ASSERT_EQ(-E2BIG, list(fd, HWTIMER_IOC_WHEELS, &w, 4104, 1, &cursor));
	cursor = ~0ULL;
	ASSERT_EQ(0, list(fd, HWTIMER_IOC_WHEELS, &w, sizeof(w), 1, &cursor));
	cursor = 0;
	ASSERT_EQ(-EFAULT, list(fd, HWTIMER_IOC_WHEELS, (void *)8, sizeof(w), 1, &cursor));
	pid = fork();
	if (!pid) {
		if (setresuid(USER, USER, USER))
			_exit(1);
		_exit(list(fd, HWTIMER_IOC_WHEELS, &w, sizeof(w), 1, &cursor) != -EPERM);
	}
	ASSERT_EQ(0, reap(pid));
	unload("quickstart_module");
	unload("leases_module");
	ASSERT_FALSE(find_wheel(fd, 2, "quickstart_module", &w));
	close(fd);
}

static char *slurp(const char *path)
{
	static char text[1 << 20];
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		die("%s: %s", path, strerror(errno));
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	return text;
}

static unsigned int count(const char *text, const char *what)
{
	unsigned int n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* The context of a descriptor, as in debugfs and in events. */
static unsigned int context_of(int fd)
{
	unsigned int id;
	char path[64], *at;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	at = strstr(slurp(path), "context:");
	if (!at || sscanf(at, "context: %u", &id) != 1)
		die("no context in %s", path);
	return id;
}

/* The lines of a context in debugfs; NULL: it is not there. */
static char *find_context(unsigned int id)
{
	char *text = slurp(CONTEXTS), line[32], *at, *end;

	snprintf(line, sizeof(line), "context: %u\n", id);
	at = strstr(text, line);
	if (!at)
		return NULL;
	end = strstr(at + 1, "\ncontext: ");
	if (end)
		end[1] = 0;
	return at;
}

static bool has_line(const char *text, const char *name, const char *value)
{
	char line[256];

	snprintf(line, sizeof(line), "\n%s: %s\n", name, value);
	return text && strstr(text, line);
}

#define EXPECT_LINE(fd, name, value) do {					\
	char *text_ = find_context(context_of(fd));				\
										\
	EXPECT_TRUE(has_line(text_, name, value))				\
		TH_LOG("no %s: %s in %s", name, value, text_);			\
} while (0)

/* Who has made it, and what is pending. */
TEST_F(seen, contexts)
{
	struct subject *s = &self->s;
	struct hwtimer_stats stats;
	char pid[16], number[24];
	__u64 late = 0;
	char *at;
	int i;

	snprintf(pid, sizeof(pid), "%d", getpid());
	for (i = 0; i < 20; i++)
		arm(s, i, i < 5 ? 0 : now_ns() + FAR);
	ASSERT_EQ(POLLIN, poll_in(s->t.fd, -1));
	EXPECT_LINE(s->t.fd, "kind", s->by_calls ? "calls" : "table");
	EXPECT_LINE(s->t.fd, "pid", pid);
	EXPECT_LINE(s->t.fd, "uid", "0");
	EXPECT_LINE(s->t.fd, "clockid", "1");
	EXPECT_LINE(s->t.fd, "stopped", "0");
	EXPECT_LINE(s->t.fd, "pending", "20");
	for (i = 10; i < 15; i++)
		cancel(s, i);
	EXPECT_LINE(s->t.fd, "pending", "15");
	/* Each that was found due is in the histogram. */
	do {
		poll_in(s->t.fd, 0);
		late = 0;
		at = strstr(find_context(context_of(s->t.fd)), "\nlate:") + 6;
		for (i = 0; i < HWTIMER_LATE; i++)
			late += strtoull(at, &at, 10);
		ASSERT_EQ('\n', *at);
	} while (late < 5);
	ASSERT_EQ(5, late);
	ASSERT_EQ(0, hwt_ioctl(s->t.fd, HWTIMER_IOC_STATS, &stats));
	snprintf(number, sizeof(number), "%llu", (unsigned long long)stats.looks);
	EXPECT_LINE(s->t.fd, "looks", number);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)stats.late_ns);
	EXPECT_LINE(s->t.fd, "late_ns", number);
	/* The program's word is marked as such. */
	ASSERT_EQ(s->by_calls ? 0 : 4, count(find_context(context_of(s->t.fd)), "\nprogram_"));
	if (s->by_calls)
		return;
	s->t.head->armed = 7;
	s->t.head->touched = 8;
	s->t.head->cancelled = 9;
	s->t.head->expired = ~0ULL;
	EXPECT_LINE(s->t.fd, "program_armed", "7");
	EXPECT_LINE(s->t.fd, "program_touched", "8");
	EXPECT_LINE(s->t.fd, "program_cancelled", "9");
	EXPECT_LINE(s->t.fd, "program_expired", "18446744073709551615");
	ASSERT_EQ(0, ioctl(s->t.fd, HWTIMER_IOC_STOP));
	EXPECT_LINE(s->t.fd, "stopped", "1");
}

/* Only some slots of a table are looked at: "N+". */
TEST(contexts_large)
{
	struct hwtimer_grow grow = { .slots = 4097 };
	struct subject s;

	ASSERT_EQ(0, subject_open(&s, false, 4096));
	arm(&s, 7, now_ns() + FAR);
	table_store(&s.t.slot[4095].word, table_word(now_ns() + FAR, 1));
	EXPECT_LINE(s.t.fd, "pending", "2");
	ASSERT_EQ(0, hwt_ioctl(s.t.fd, HWTIMER_IOC_GROW, &grow));
	ASSERT_EQ(0, table_map(&s.t));
	table_store(&s.t.slot[grow.slots - 1].word, table_word(now_ns() + FAR, 1));
	EXPECT_LINE(s.t.fd, "pending", "2+");
	subject_close(&s);
}

/* Another user's context is that user's, and its name cannot make lines. */
TEST(contexts_owner)
{
	int ready[2], end[2], fd, status;
	struct hwtimer_setup setup = { .clockid = CLOCK_BOOTTIME };
	char pid[16], byte;
	pid_t child;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(end));
	fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC);
	child = fork();
	if (!child) {
		if (prctl(PR_SET_NAME, "a\nuid: 0\\") || setresuid(USER, USER, USER) ||
		    ioctl(fd, HWTIMER_IOC_SETUP, &setup))
			_exit(1);
		if (write(ready[1], "", 1) != 1 || read(end[0], &byte, 1) != 1)
			_exit(2);
		_exit(open(CONTEXTS, O_RDONLY) >= 0 || errno != EACCES);
	}
	snprintf(pid, sizeof(pid), "%d", child);
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	EXPECT_LINE(fd, "pid", pid);
	EXPECT_LINE(fd, "uid", "1001");
	EXPECT_LINE(fd, "comm", "a\\nuid: 0\\\\");
	EXPECT_LINE(fd, "clockid", "7");
	ASSERT_EQ(1, write(end[1], "", 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	/* Its process has ended, the context has not. */
	EXPECT_LINE(fd, "pid", pid);
	close(fd);
}

/* For root alone, even if others may search debugfs. */
TEST(contexts_refused)
{
	struct stat st;
	pid_t pid;

	ASSERT_EQ(0, stat(CONTEXTS, &st));
	ASSERT_EQ(0400, st.st_mode & 07777);
	ASSERT_EQ(0, chmod("/sys/kernel/debug", 0755));
	pid = fork();
	if (!pid) {
		if (setresuid(USER, USER, USER))
			_exit(1);
		_exit(access("/sys/kernel/debug/hwtimer", X_OK) || open(CONTEXTS, O_RDONLY) >= 0 ||
		      errno != EACCES);
	}
	ASSERT_EQ(0, reap(pid));
	ASSERT_EQ(0, chmod("/sys/kernel/debug", 0700));
}

/* Contexts are closed while the file is read: the others are there, each once. */
TEST(contexts_closed)
{
	static char text[1 << 16];
	unsigned int i, n = 0, ids[40];
	struct subject s[40];
	char line[32];
	ssize_t got;
	int fd;

	for (i = 0; i < 40; i++) {
		ASSERT_EQ(0, subject_open(&s[i], i % 2, 256));
		ids[i] = context_of(s[i].t.fd);
	}
	fd = open(CONTEXTS, O_RDONLY | O_CLOEXEC);
	while ((got = read(fd, text + n, 100)) > 0 && n < sizeof(text) - 200) {
		/* The first one has been read in part. */
		for (i = 0; !n && i < 40; i++)
			if (i % 4 > 1)
				subject_close(&s[i]);
		n += got;
	}
	ASSERT_EQ(0, got);
	text[n] = 0;
	for (i = 0; i < 40; i++) {
		snprintf(line, sizeof(line), "context: %u\n", ids[i]);
		ASSERT_EQ(i % 4 < 2, count(text, line));
		if (i % 4 < 2)
			subject_close(&s[i]);
	}
	close(fd);
	for (i = 0; i < 40; i++)
		ASSERT_EQ(NULL, find_context(ids[i]));
}

static void *opener(void *arg)
{
	struct churn *c = arg;
	struct subject s;
	unsigned int i;

	for (i = 0; !atomic_load(&c->end); i++) {
		if (subject_open(&s, i % 2, 256))
			die("open");
		subject_close(&s);
	}
	return NULL;
}

TEST(contexts_churn)
{
	struct churn c = { };
	struct subject stays;
	pthread_t thread;
	unsigned int i;

	ASSERT_EQ(0, pthread_create(&thread, NULL, opener, &c));
	ASSERT_EQ(0, subject_open(&stays, true, 0));
	for (i = 0; i < quick_or(200, 20000); i++)
		EXPECT_LINE(stays.t.fd, "pending", "0");
	atomic_store(&c.end, true);
	pthread_join(thread, NULL);
	subject_close(&stays);
}

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die("%s: %s", path, strerror(errno));
	close(fd);
}

/* How many events of this context have this name, and contain this text. */
static unsigned int events(unsigned int id, const char *name, const char *what, __u64 *sum)
{
	char prefix[64], *line, *text = slurp(TRACING "/trace");
	unsigned int n = 0;

	snprintf(prefix, sizeof(prefix), ": hwtimer_context_%s: ctx=%u", name, id);
	while ((line = strsep(&text, "\n"))) {
		char *at = strstr(line, prefix), *found;

		if (!at || !strchr(" ", at[strlen(prefix)]))
			continue;
		found = strstr(at, what);
		n += !!found;
		if (found && sum)
			*sum += strtoull(found + strlen(what), NULL, 0);
	}
	return n;
}

/* From SETUP to the last close: what was set up, looked at, found due, and stopped. */
TEST_F(seen, events)
{
	struct subject *s = &self->s, own = { };
	__u64 looks = 0, records = 0;
	struct hwtimer_stats stats;
	unsigned int id;

	if (access(TRACING "/trace", F_OK) && mount("tracefs", TRACING, "tracefs", 0, NULL)) {
		SKIP(return, "this kernel has no tracefs");
	}
	if (access(EVENTS, F_OK)) {
		SKIP(return, "this kernel has no events of modules");
	}
	write_to(TRACING "/buffer_size_kb", "4096");
	write_to(TRACING "/trace", "");
	write_to(EVENTS "/enable", "1");
	ASSERT_EQ(0, subject_open(&own, s->by_calls, 256));
	id = context_of(own.t.fd);
	arm(&own, 5, now_ns() + 20 * NSEC_PER_MSEC);
	arm(&own, 6, now_ns() + FAR);
	if (!s->by_calls) {
		arm(&own, 7, now_ns() + FAR);
		cancel(&own, 7);
		ASSERT_EQ(0, table_enter(&own.t));
	}
	ASSERT_EQ(POLLIN, poll_in(own.t.fd, -1));
	ASSERT_EQ(0, hwt_ioctl(own.t.fd, HWTIMER_IOC_STATS, &stats));
	ASSERT_EQ(0, ioctl(own.t.fd, HWTIMER_IOC_STOP));
	subject_close(&own);
	write_to(EVENTS "/enable", "0");

	EXPECT_EQ(1, events(id, "setup", s->by_calls ? "kind=calls tick_ns=1048576 slots=256" :
						       "kind=table tick_ns=1048576 slots=256",
			    NULL));
	EXPECT_EQ(1, events(id, "look", "found=due", NULL));
	if (!s->by_calls) {
		EXPECT_EQ(1, events(id, "look", "id=0x6 ", NULL));
		EXPECT_EQ(1, events(id, "look", "found=nothing", NULL));
	}
	EXPECT_EQ(stats.runs, events(id, "slice", " looks=", &looks));
	EXPECT_EQ(stats.looks, looks);
	EXPECT_EQ(stats.runs, events(id, "slice", " records=", &records));
	EXPECT_EQ(1, records);
	EXPECT_EQ(stats.timers, events(id, "timer", "", NULL));
	EXPECT_EQ(1, events(id, "stop", "", NULL));
	EXPECT_EQ(1, events(id, "close", "", NULL));
	/* Of the other context, which did nothing, there is nothing. */
	EXPECT_EQ(0, events(context_of(s->t.fd), "slice", "", NULL));
	write_to(TRACING "/trace", "");
}

TEST_HARNESS_MAIN
