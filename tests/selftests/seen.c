// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/hwtimer, what is seen of contexts: LIST for programs, debugfs for root, and tracepoints.
 * (debugfs.c and ctl.c have WHEELS.)
 */
#include "context.h"

#include <sys/mount.h>
#include <sys/prctl.h>

#define TRACING		"/sys/kernel/tracing"
#define EVENTS		TRACING "/events/hwtimer"
#define USER		1001
#define TIMEOUTS	1000

/* LIST: how many, or -errno. */
static int list(int fd, void *entries, size_t size, __u32 count, __u64 *cursor)
{
	struct hwtimer_list l = {
		.cursor = *cursor, .entries = (uintptr_t)entries, .size = size, .count = count,
	};
	int ret = hwt_ioctl(fd, HWTIMER_IOC_LIST, &l);

	if (ret)
		return ret;
	if (l.entries != (uintptr_t)entries || l.size != size || l.count > count)
		return DIRTY;
	*cursor = l.cursor;
	return l.count;
}

static int list_some(int fd, struct hwtimer_query *q, __u32 count, __u64 *cursor)
{
	return list(fd, q, sizeof(*q), count, cursor);
}

/* Note in @listed how often each user_data below TIMEOUTS is listed, @page at a time: how many. */
static __u32 list_all(struct context *c, __u32 page, unsigned char *listed)
{
	struct hwtimer_query *q = calloc(page, sizeof(*q));
	__u64 cursor = 0;
	__u32 n = 0;
	int got, i;

	if (!q)
		die("no memory");
	memset(listed, 0, TIMEOUTS);
	do {
		got = list_some(c->t.fd, q, page, &cursor);
		if (got < 0)
			die("LIST: %d", got);
		for (i = 0; i < got; i++) {
			__u64 data = q[i].user_data;

			if (data < TIMEOUTS) {
				listed[data]++;
				if (q[i].id != (c->table ? data : c->name[data]) || q[i].period_ns)
					die("timeout %llu", (unsigned long long)data);
			} else if (c->table && q[i].deadline_ns != data) {
				die("user data of another timeout");
			}
		}
		n += got;
	} while (got == (int)page);
	if (list_some(c->t.fd, q, page, &cursor))
		n += TIMEOUTS;
	free(q);
	return n;
}

static const __u32 pages[] = { 1, 7, 64, TIMEOUTS, 4 * TIMEOUTS };

FIXTURE(seen)
{
	struct context c;
};

FIXTURE_VARIANT(seen)
{
	bool table;
};

FIXTURE_VARIANT_ADD(seen, calls) { false };
FIXTURE_VARIANT_ADD(seen, table) { true };

FIXTURE_SETUP(seen)
{
	context_open(&self->c, variant->table, TIMEOUTS, 0);
}

FIXTURE_TEARDOWN(seen)
{
	context_close(&self->c);
}

/* Each that is armed once, whatever the page; those that are due, too, but not those that ended. */
TEST_F(seen, list)
{
	unsigned char listed[TIMEOUTS];
	struct context *c = &self->c;
	__u64 far = now_ns() + FAR;
	unsigned int i, j;

	ASSERT_EQ(0, list_all(c, 10, listed));
	for (i = 0; i < TIMEOUTS; i++)
		arm_at(c, i, i % 3 == 1 ? 0 : far);
	for (i = 2; i < TIMEOUTS; i += 3)
		cancel(c, i);
	ASSERT_EQ(POLLIN, poll_in(c->t.fd, -1));
	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		ASSERT_EQ(TIMEOUTS - TIMEOUTS / 3, list_all(c, pages[i], listed));
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
	struct context *c = &self->c;
	__u64 cursor = 0;
	int i;

	arm_at(c, 3, now_ns() + FAR);
	arm_at(c, 4, now_ns() + 2 * FAR);
	if (!c->table) {
		ASSERT_EQ(0, hwt_ioctl(c->t.fd, HWTIMER_IOC_SCHEDULE, &periodic));
	}
	memset(listed, 0xa5, sizeof(listed));
	ASSERT_EQ(2 + !c->table, list_some(c->t.fd, listed, 4, &cursor));
	for (i = 0; i < 2 + !c->table; i++) {
		q = (struct hwtimer_query){ .id = listed[i].id, .user_data = 3 + i };
		if (!c->table) {
			ASSERT_EQ(0, hwt_ioctl(c->t.fd, HWTIMER_IOC_QUERY, &q));
		} else {
			ASSERT_EQ(3 + i, q.id);
			q.deadline_ns = table_deadline(c->t.slot[3 + i].word);
		}
		ASSERT_EQ(0, memcmp(&q, &listed[i], sizeof(q)));
	}
}

/* Slots that come during the walk move nothing. */
TEST_F(seen, list_and_grow)
{
	struct hwtimer_grow grow = { .slots = 50000 };
	struct hwtimer_query q[10];
	struct context *c = &self->c;
	unsigned char listed[TIMEOUTS] = { };
	__u64 cursor = 0, far = now_ns() + FAR;
	int i, n;

	for (i = 0; i < 100; i++)
		arm_at(c, i, far);
	while ((n = list_some(c->t.fd, q, 10, &cursor)) > 0) {
		for (i = 0; i < n; i++)
			listed[q[i].user_data]++;
		if (grow.slots == 50000 && c->table) {
			ASSERT_EQ(0, hwt_ioctl(c->t.fd, HWTIMER_IOC_GROW, &grow));
			ASSERT_EQ(0, table_map(&c->t));
		}
		if (!listed[999])
			for (i = 100; i < TIMEOUTS; i++)
				arm_at(c, i, far);
		listed[999] = 1;
	}
	ASSERT_EQ(0, n);
	for (i = 0; i < 100; i++)
		ASSERT_EQ(1, listed[i]);
	if (c->table) {
		table_store(&c->t.slot[grow.slots - 1].word, table_word(far, 1));
		ASSERT_EQ(grow.slots, cursor--);
		ASSERT_EQ(1, list_some(c->t.fd, q, 10, &cursor));
		ASSERT_EQ(grow.slots - 1, q[0].id);
	}
}

/* Entries of a newer program are longer. */
TEST_F(seen, list_longer)
{
	static const __u32 sizes[] = { 32, 40, 4096 };
	unsigned char buf[3 * 4096];
	unsigned int i, j, k;
	__u64 cursor, id;

	arm(&self->c, 0, FAR);
	arm(&self->c, 1, FAR);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(buf, 0xa5, sizeof(buf));
		cursor = 0;
		ASSERT_EQ(2, list(self->c.t.fd, buf, sizes[i], 3, &cursor));
		for (j = 0; j < 2; j++) {
			id = variant->table ? j : self->c.name[j];
			ASSERT_EQ(0, memcmp(buf + j * sizes[i], &id, sizeof(id)));
			for (k = 32; k < sizes[i]; k++)
				ASSERT_EQ(0, buf[j * sizes[i] + k]);
		}
		for (k = 2 * sizes[i]; k < sizeof(buf); k++)
			ASSERT_EQ(0xa5, buf[k]);
	}
}

TEST_F(seen, list_misuse)
{
	struct hwtimer_query q[4], *half = mmap(NULL, 2 * self->c.t.page, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = self->c.t.fd, ro = open("/dev/hwtimer", O_RDONLY | O_CLOEXEC);
	struct hwtimer_list longer = { .entries = (uintptr_t)q, .size = 32, .count = 4 };
	__u64 cursor = 0, end;
	__u32 i;

	for (i = 0; i < 4; i++)
		arm(&self->c, i, FAR);
	ASSERT_EQ(-EINVAL, list(fd, q, 24, 4, &cursor));
	ASSERT_EQ(-EINVAL, list(fd, q, 36, 4, &cursor));
	ASSERT_EQ(-EINVAL, list(fd, q, 0, 4, &cursor));
	ASSERT_EQ(-E2BIG, list(fd, q, 4104, 4, &cursor));
	ASSERT_EQ(-E2BIG, list(fd, q, ~7U, 4, &cursor));
	ASSERT_EQ(-EINVAL, list_some(fd, q, 0, &cursor));
	ASSERT_EQ(-EFAULT, list_some(fd, (void *)8, 4, &cursor));
	ASSERT_EQ(-EFAULT, list_some(fd, (void *)(uintptr_t)-8L, 4, &cursor));
	ASSERT_EQ(-EFAULT, hwt_ioctl(fd, HWTIMER_IOC_LIST, NULL));
	ASSERT_EQ(-EINVAL, hwt_ioctl(fd, _IOWR(HWTIMER_IOC_MAGIC, 0x1a, __u64[2]), &longer));
	ASSERT_EQ(0, cursor);
	/* So many need not fit if there are fewer. Two fit here, so four do not. */
	ASSERT_EQ(4, list_some(fd, half, ~0U, &cursor));
	ASSERT_EQ(0, mprotect((char *)half + self->c.t.page, self->c.t.page, PROT_NONE));
	half = (void *)((char *)half + self->c.t.page - 2 * sizeof(*half));
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

/* Each call frees what the one before has returned. */
static char *slurp(const char *path)
{
	static char *text;

	free(text);
	text = must_slurp(path);
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
	return must_fdinfo(fd, "context");
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
	struct context *c = &self->c;
	struct hwtimer_stats stats;
	char pid[16], number[24];
	__u64 late = 0;
	char *at;
	int i;

	snprintf(pid, sizeof(pid), "%d", getpid());
	for (i = 0; i < 20; i++)
		arm_at(c, i, i < 5 ? 0 : now_ns() + FAR);
	ASSERT_EQ(POLLIN, poll_in(c->t.fd, -1));
	EXPECT_LINE(c->t.fd, "kind", !c->table ? "calls" : "table");
	EXPECT_LINE(c->t.fd, "pid", pid);
	EXPECT_LINE(c->t.fd, "uid", "0");
	EXPECT_LINE(c->t.fd, "clockid", "1");
	EXPECT_LINE(c->t.fd, "stopped", "0");
	EXPECT_LINE(c->t.fd, "pending", "20");
	for (i = 10; i < 15; i++)
		cancel(c, i);
	EXPECT_LINE(c->t.fd, "pending", "15");
	/* Each that was found due is in the histogram. */
	do {
		poll_in(c->t.fd, 0);
		late = 0;
		at = strstr(find_context(context_of(c->t.fd)), "\nlate:") + 6;
		for (i = 0; i < HWTIMER_LATE; i++)
			late += strtoull(at, &at, 10);
		ASSERT_EQ('\n', *at);
	} while (late < 5);
	ASSERT_EQ(5, late);
	stats = must_stats(c->t.fd);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)stats.looks);
	EXPECT_LINE(c->t.fd, "looks", number);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)stats.late_ns);
	EXPECT_LINE(c->t.fd, "late_ns", number);
	/* The program's word is marked as such. */
	ASSERT_EQ(!c->table ? 0 : 4, count(find_context(context_of(c->t.fd)), "\nprogram_"));
	if (!c->table)
		return;
	c->t.head->armed = 7;
	c->t.head->touched = 8;
	c->t.head->cancelled = 9;
	c->t.head->expired = ~0ULL;
	EXPECT_LINE(c->t.fd, "program_armed", "7");
	EXPECT_LINE(c->t.fd, "program_touched", "8");
	EXPECT_LINE(c->t.fd, "program_cancelled", "9");
	EXPECT_LINE(c->t.fd, "program_expired", "18446744073709551615");
	ASSERT_EQ(0, ioctl(c->t.fd, HWTIMER_IOC_STOP));
	EXPECT_LINE(c->t.fd, "stopped", "1");
}

/* Only some slots of a table are looked at: "N+". */
TEST(contexts_large)
{
	struct hwtimer_grow grow = { .slots = 4097 };
	struct context c;

	context_open(&c, true, 4096, 0);
	arm(&c, 7, FAR);
	table_store(&c.t.slot[4095].word, table_word(now_ns() + FAR, 1));
	EXPECT_LINE(c.t.fd, "pending", "2");
	ASSERT_EQ(0, hwt_ioctl(c.t.fd, HWTIMER_IOC_GROW, &grow));
	ASSERT_EQ(0, table_map(&c.t));
	table_store(&c.t.slot[grow.slots - 1].word, table_word(now_ns() + FAR, 1));
	EXPECT_LINE(c.t.fd, "pending", "2+");
	context_close(&c);
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
	fd = must_open(0);
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
	struct context c[40];
	char line[32];
	ssize_t got;
	int fd;

	for (i = 0; i < 40; i++) {
		context_open(&c[i], i % 2, 256, 0);
		ids[i] = context_of(c[i].t.fd);
	}
	fd = open(CONTEXTS, O_RDONLY | O_CLOEXEC);
	while ((got = read(fd, text + n, 100)) > 0 && n < sizeof(text) - 200) {
		/* The first one has been read in part. */
		for (i = 0; !n && i < 40; i++)
			if (i % 4 > 1)
				context_close(&c[i]);
		n += got;
	}
	ASSERT_EQ(0, got);
	text[n] = 0;
	for (i = 0; i < 40; i++) {
		snprintf(line, sizeof(line), "context: %u\n", ids[i]);
		ASSERT_EQ(i % 4 < 2, count(text, line));
		if (i % 4 < 2)
			context_close(&c[i]);
	}
	close(fd);
	for (i = 0; i < 40; i++)
		ASSERT_EQ(NULL, find_context(ids[i]));
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
	struct context *c = &self->c, own = { };
	__u64 looks = 0, records = 0;
	struct hwtimer_stats stats;
	unsigned int id;

	if (access(TRACING "/trace", F_OK) && mount("tracefs", TRACING, "tracefs", 0, NULL)) {
		SKIP(return, "this kernel has no tracefs");
	}
	if (access(EVENTS, F_OK)) {
		SKIP(return, "this kernel has no events of modules");
	}
	ASSERT_EQ(0, write_file(TRACING "/buffer_size_kb", "4096"));
	ASSERT_EQ(0, write_file(TRACING "/trace", ""));
	ASSERT_EQ(0, write_file(EVENTS "/enable", "1"));
	context_open(&own, c->table, 256, 0);
	id = context_of(own.t.fd);
	arm(&own, 5, 20 * NSEC_PER_MSEC);
	arm(&own, 6, FAR);
	if (c->table) {
		arm(&own, 7, FAR);
		cancel(&own, 7);
		ASSERT_EQ(0, table_enter(&own.t));
	}
	ASSERT_EQ(POLLIN, poll_in(own.t.fd, -1));
	stats = must_stats(own.t.fd);
	ASSERT_EQ(0, ioctl(own.t.fd, HWTIMER_IOC_STOP));
	context_close(&own);
	ASSERT_EQ(0, write_file(EVENTS "/enable", "0"));

	EXPECT_EQ(1, events(id, "setup", !c->table ? "kind=calls tick_ns=1048576 slots=256" :
						       "kind=table tick_ns=1048576 slots=256",
			    NULL));
	EXPECT_EQ(1, events(id, "look", "found=due", NULL));
	if (c->table) {
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
	EXPECT_EQ(0, events(context_of(c->t.fd), "slice", "", NULL));
	ASSERT_EQ(0, write_file(TRACING "/trace", ""));
}

TEST_HARNESS_MAIN
