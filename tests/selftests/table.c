// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/hwtimer, contexts by a table: the protocol, as lib/table.h has it.
 */
#include "calls.h"
#include "cgroup.h"

#include "../../lib/table.h"

FIXTURE(table)
{
	struct table t;
};

static int table_open(struct table *t, __u32 slots, __u64 slack_ns)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC,
		.flags = HWTIMER_SETUP_TABLE,
		.slack_ns = slack_ns,
		.slots = slots,
	};
	int ret;

	*t = (struct table){ .fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC),
			     .page = sysconf(_SC_PAGESIZE) };
	if (t->fd < 0)
		return -errno;
	ret = hwt_ioctl(t->fd, HWTIMER_IOC_SETUP, &setup);
	return ret ?: table_map(t);
}

static void table_end(struct table *t)
{
	table_close(t);
	close(t->fd);
}

FIXTURE_SETUP(table)
{
	ASSERT_EQ(0, table_open(&self->t, 256, 0));
}

FIXTURE_TEARDOWN(table)
{
	table_end(&self->t);
}

static int arm(struct table *t, __u32 i, __u64 delay, __u32 arming)
{
	return table_arm(t, i, table_word(now_ns() + delay, arming));
}

static int touch(struct table *t, __u32 i, __u64 delay, __u32 arming)
{
	return table_touch(t, i, table_word(now_ns() + delay, arming));
}

/* Take what is due without waiting: the word, and the slot; 0: nothing. */
static __u64 take_now(struct table *t, __u32 *index)
{
	__u32 g, head;
	__u64 word;

	while (table_peek(t, index, &g, &head) > 0) {
		if (*index >= t->slots)
			die("record of slot %u", *index);
		word = table_look(t, *index, now_ns(), NULL, NULL);
		table_took(t, g, head);
		if (word)
			return word;
	}
	return 0;
}

static __u64 take(struct table *t, __u32 *index)
{
	__u64 word;

	while (!(word = take_now(t, index)))
		if (poll_in(t->fd, -1) != POLLIN)
			die("not readable");
	if (table_deadline(word) > now_ns())
		die("early");
	return word;
}

TEST_F(table, expires_once)
{
	__u32 i;

	ASSERT_EQ(0, poll_in(self->t.fd, 0));
	ASSERT_EQ(0, arm(&self->t, 5, 10 * NSEC_PER_MSEC, 77));
	ASSERT_EQ(1, must_stats(self->t.fd).pending);
	ASSERT_EQ(77, take(&self->t, &i) & TABLE_ARMING);
	ASSERT_EQ(5, i);
	ASSERT_EQ(0, take_now(&self->t, &i));
	ASSERT_EQ(0, poll_in(self->t.fd, 0));
	ASSERT_EQ(-ENOENT, table_cancel(&self->t, 5, 77));
	ASSERT_EQ(0, must_stats(self->t.fd).pending);
	/* Now the kernel expects nothing, and has to be told. */
	ASSERT_EQ(0, arm(&self->t, 5, 10 * NSEC_PER_MSEC, 78));
	ASSERT_EQ(-ENOENT, table_cancel(&self->t, 5, 77));
	ASSERT_EQ(-ENOENT, touch(&self->t, 5, FAR, 77));
	ASSERT_EQ(78, take(&self->t, &i) & TABLE_ARMING);
}

/* A reader who is late gets what is due in the order of ticks all the same. */
TEST_F(table, order_of_ticks)
{
	struct table *t = &self->t;
	__u64 word, last = 0;
	__u32 i, n;

	for (i = 0; i < 200; i++)
		ASSERT_EQ(0, arm(t, i, i * 37 % 200 * 3 * NSEC_PER_MSEC, 1));
	ASSERT_EQ(0, table_enter(t));
	wait_until(now_ns() + NSEC_PER_SEC);
	for (n = 0; n < 200; n++) {
		word = take(t, &i);
		ASSERT_LE(last, table_deadline(word) + 2 * NSEC_PER_MSEC);
		last = table_deadline(word);
	}
}

/* Moved to an earlier deadline while they are filed in one bucket, which is visited later. */
TEST_F(table, moved_while_filed)
{
	struct table *t = &self->t;
	__u32 i, n;

	for (i = 0; i < 10; i++)
		ASSERT_EQ(0, arm(t, i, 300 * NSEC_PER_MSEC, 1));
	ASSERT_EQ(0, arm(t, 10, 600 * NSEC_PER_MSEC, 1));
	ASSERT_EQ(0, table_enter(t));
	for (i = 0; i < 10; i++)
		ASSERT_EQ(0, touch(t, i, 0, 1));
	for (n = 0; n <= 10; n++) {
		take(t, &i);
		ASSERT_TRUE(n == 10 ? i == 10 : i < 10);
	}
}

/* The kernel is asked to look again at a tick earlier, and for nothing less. */
TEST(asks_for_a_tick)
{
	const __u64 unit = 1ULL << HWTIMER_UNIT_SHIFT, ticks = 4, tick = 16 * unit;
	__u64 late, deadline;
	struct table t;

	for (late = tick; late <= ticks * tick; late *= ticks) {
		ASSERT_EQ(0, table_open(&t, 256, late - tick));
		deadline = (now_ns() + FAR) / late * late;
		ASSERT_EQ(0, table_arm(&t, 0, table_word(deadline, 1)));
		ASSERT_EQ(0, table_enter(&t));
		EXPECT_TRUE(table_holds(&t.slot[0], table_word(deadline - late + unit, 1)));
		EXPECT_FALSE(table_holds(&t.slot[0], table_word(deadline - late, 1)));
		table_end(&t);
	}
}

/* What is pushed does not keep a slice from what is due. */
TEST_F(table, due_beside_pushed)
{
	struct table *t = &self->t;
	__u32 i;

	ASSERT_EQ(0, arm(t, 0, NSEC_PER_MSEC, 1));
	for (i = 1; i < t->slots; i++) {
		table_store(&t->slot[i].visit, 0);
		table_put(&t->slot[i], table_word(HWTIMER_NEVER, 1));
		table_push(t, i);
	}
	wait_until(now_ns() + 5 * NSEC_PER_MSEC);
	ASSERT_EQ(POLLIN, poll_in(t->fd, 0));
	/* This one was pushed first, and comes last. */
	ASSERT_NE(HWTIMER_LINK_NONE, table_load(&t->slot[1].next));
}

/*
 * Many are armed for a tick, and the kernel has taken one of them when it comes: all are due at it,
 * not at the next one. That is seen in a try in which the machine does not stall.
 */
TEST(pushed_for_a_tick)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = HWTIMER_SETUP_TABLE, .slots = 256,
		.tick_ns = 20 * NSEC_PER_MSEC,
	};
	struct table t = { .page = sysconf(_SC_PAGESIZE) };
	__u64 tick, taken = 0;
	int tries = 20, k;
	__u32 i;

	t.fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC);
	ASSERT_EQ(0, hwt_ioctl(t.fd, HWTIMER_IOC_SETUP, &setup));
	ASSERT_EQ(0, table_map(&t));
	do {
		tick = (now_ns() / setup.tick_ns + 2) * setup.tick_ns;
		for (i = 0; i < t.slots; i++)
			ASSERT_EQ(0, table_arm(&t, i, table_word(tick, 1)));
		for (k = 0; k < (int)t.slots; k++)
			take(&t, &i);
		taken = now_ns();
	} while (taken >= tick + setup.tick_ns && --tries);
	EXPECT_LT(0, tries);
	table_end(&t);
}

/*
 * What was filed for a tick is due at it, even if more than a slice takes at first is pushed before
 * each slice. As above, that is seen in a try in which the machine does not stall.
 */
TEST(due_beside_many)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = HWTIMER_SETUP_TABLE, .slots = 1 << 16,
		.tick_ns = 5 * NSEC_PER_MSEC,
	};
	int tries = 20, n, ret;
	__u64 tick, taken;
	struct table t;
	__u32 i, next;

	do {
		t = (struct table){ .fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC),
				    .page = sysconf(_SC_PAGESIZE) };
		ASSERT_EQ(0, hwt_ioctl(t.fd, HWTIMER_IOC_SETUP, &setup));
		ASSERT_EQ(0, table_map(&t));
		tick = (now_ns() / setup.tick_ns + 2) * setup.tick_ns;
		ASSERT_EQ(0, table_arm(&t, 0, table_word(tick, 1)));
		ASSERT_EQ(0, poll_in(t.fd, 0));
		/* There are enough slots from here on until a tick later. */
		wait_until(tick - NSEC_PER_MSEC);
		next = 1;
		do {
			/* Slots that the kernel does not hold yet. */
			for (n = 0; n < 40 && next < t.slots; n++)
				ASSERT_EQ(0, table_arm(&t, next++, table_word(now_ns() + FAR, 1)));
			ret = poll_in(t.fd, 0);
		} while (!ret);
		ASSERT_NE(0, take_now(&t, &i));
		taken = now_ns();
		table_end(&t);
	} while (taken >= tick + setup.tick_ns && --tries);
	EXPECT_LT(0, tries);
}

/* The first timer in /proc/timer_list with this function: its range; -1: there is none. */
static long long timer_range(const char *function)
{
	FILE *f = fopen("/proc/timer_list", "r");
	unsigned long long from, to;
	long long range = -1;
	char line[256];
	bool found = false;

	while (f && range < 0 && fgets(line, sizeof(line), f)) {
		if (found && sscanf(line, " # expires at %llu-%llu", &from, &to) == 2)
			range = to - from;
		found = strstr(line, function);
	}
	if (f)
		fclose(f);
	return range;
}

/* Only the timer for what is not due yet may be late by the rest of the slack. */
TEST(range_of_timer)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = HWTIMER_SETUP_TABLE, .slots = 256,
		.tick_ns = 1ULL << 33, .slack_ns = 2ULL << 33,
	};
	struct table t = { .page = sysconf(_SC_PAGESIZE) };
	long long range;
	int due;

	for (due = 0; due < 2; due++) {
		/* The timer may go off before it is seen. */
		do {
			t.fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC);
			ASSERT_EQ(0, hwt_ioctl(t.fd, HWTIMER_IOC_SETUP, &setup));
			ASSERT_EQ(0, table_map(&t));
			ASSERT_EQ(0, table_arm(&t, 0, table_word(due ? 0 : now_ns() + FAR, 1)));
			range = timer_range("context_timer");
			table_end(&t);
		} while (range < 0);
		EXPECT_EQ(due ? 0 : (long long)setup.tick_ns, range);
	}
}

/* Its clock is ahead by more than the machine is up: what is to be done now is done now. */
TEST(time_namespace)
{
	__u64 before = now_ns();
	struct table t;
	pid_t pid;
	__u32 i;

	if (!unshare_time("monotonic 1000000 0"))
		SKIP(return, "no time namespaces");
	pid = fork();
	if (!pid) {
		if (now_ns() < before + 1000000 * NSEC_PER_SEC || table_open(&t, 256, 0))
			_exit(1);
		for (i = 0; i < 200; i++)
			arm(&t, i, 20 * NSEC_PER_MSEC, 1);
		for (i = 0; i < 200; i++)
			touch(&t, i, FAR, 1);
		arm(&t, 200, 60 * NSEC_PER_MSEC, 1);
		take(&t, &i);
		_exit(i != 200);
	}
	ASSERT_EQ(0, reap(pid));
}

/* Many at once: all come, each once, in slices. */
TEST_F(table, crowd)
{
	const __u32 n = quick_or(20000, 1000000);
	char *seen = calloc(n, 1);
	struct hwtimer_grow grow = { .slots = n };
	struct table *t = &self->t;
	__u64 due = now_ns() + 50 * NSEC_PER_MSEC;
	__u32 i, k;

	ASSERT_EQ(0, arm(t, 0, 0, 1));
	ASSERT_EQ(POLLIN, poll_in(t->fd, -1));
	/* The record is in the first ring, the others will be in another one. */
	ASSERT_EQ(0, hwt_ioctl(t->fd, HWTIMER_IOC_GROW, &grow));
	ASSERT_LE(n, grow.slots);
	ASSERT_LT(0, grow.ring);
	ASSERT_EQ(0, table_map(t));
	ASSERT_EQ(grow.slots, t->slots);
	for (i = 1; i < n; i++)
		ASSERT_EQ(0, table_arm(t, i, table_word(due, 1)));
	ASSERT_EQ(n, must_stats(t->fd).pending);
	for (k = 0; k < n; k++) {
		take(t, &i);
		ASSERT_EQ(0, seen[i]);
		seen[i] = 1;
		ASSERT_TRUE(k || !i);
	}
	ASSERT_EQ(0, must_stats(t->fd).pending);
	ASSERT_EQ(0, poll_in(t->fd, 0));
	free(seen);
}

/*
 * Armed and cancelled again and again, when it is due already: without a reader the ring gets full,
 * and whoever reads it has to look at all slots.
 */
TEST_F(table, full_ring)
{
	struct table *t = &self->t;
	__u32 i, walked, walk, seen = 0;

	for (i = 1; t->head->walk == 0 && i < TABLE_ARMING; i++) {
		ASSERT_EQ(0, arm(t, i % 200, 0, i));
		while (t->head->cq_tail[0] < i && t->head->walk == 0)
			ASSERT_EQ(0, table_enter(t));
		if (i > 1) {
			ASSERT_EQ(0, table_cancel(t, (i - 1) % 200, i - 1));
		}
	}
	ASSERT_EQ(t->page / 8, t->head->cq_tail[0]);
	ASSERT_EQ(POLLIN, poll_in(t->fd, -1));
	while (take_now(t, &i))
		seen++;
	ASSERT_TRUE(table_walk(t, &walked, &walk));
	ASSERT_EQ(POLLIN, poll_in(t->fd, -1));
	for (i = 0; i < t->slots; i++)
		seen += !!table_look(t, i, now_ns(), NULL, NULL);
	table_walked(t, walked, walk);
	ASSERT_FALSE(table_walk(t, &walked, &walk));
	ASSERT_EQ(1, seen);
	ASSERT_EQ(0, poll_in(t->fd, 0));
}

/* What a slice looks at is bounded, and it is not less without need. */
TEST_F(table, slices)
{
	struct hwtimer_grow grow = { .slots = 4096 };
	struct hwtimer_stats before, after;
	struct table *t = &self->t;
	__u32 i;

	ASSERT_EQ(0, hwt_ioctl(t->fd, HWTIMER_IOC_GROW, &grow));
	ASSERT_EQ(0, table_map(t));
	before = must_stats(t->fd);
	/* One is due before all others are armed: later ones make no call. */
	for (i = 0; i < 4096; i++)
		ASSERT_EQ(0, arm(t, i, i ? 2 * NSEC_PER_SEC : NSEC_PER_SEC, 1));
	ASSERT_EQ(0, table_enter(t));
	after = must_stats(t->fd);
	ASSERT_LE(4096, after.looks - before.looks);
	ASSERT_GE(64 * (after.runs - before.runs), after.looks - before.looks);
	wait_until(now_ns() + 3 * NSEC_PER_SEC);
	before = must_stats(t->fd);
	ASSERT_EQ(0, table_enter(t));
	after = must_stats(t->fd);
	ASSERT_LE(4096, after.looks - before.looks);
	ASSERT_GE(64 * (after.runs - before.runs), after.looks - before.looks);
	/* A step of a full bucket may be the end of a slice, and so is the end. */
	ASSERT_LE(32 * (after.runs - before.runs), after.looks - before.looks + 64);
}

TEST_F(table, stop)
{
	struct table *t = &self->t;
	struct hwtimer_grow grow = { .slots = 5000 };
	__u32 i, back = 0;

	for (i = 0; i < 200; i++)
		ASSERT_EQ(0, arm(t, i, i % 2 ? FAR : 0, 1));
	ASSERT_EQ(POLLIN, poll_in(t->fd, -1));
	ASSERT_EQ(0, ioctl(t->fd, HWTIMER_IOC_STOP));
	ASSERT_EQ(POLLHUP, poll_in(t->fd, -1) & POLLHUP);
	for (i = 0; i < t->slots; i++)
		back += !!__atomic_exchange_n(&t->slot[i].word, 0, __ATOMIC_SEQ_CST);
	ASSERT_EQ(200, back);
	/* This one was pushed last, so the kernel has filed it. */
	ASSERT_EQ(-ESHUTDOWN, arm(t, 199, 2 * FAR, 1));
	ASSERT_EQ(-ESHUTDOWN, arm(t, 3, 0, 1));
	ASSERT_EQ(0, t->slot[3].word);
	ASSERT_EQ(-ESHUTDOWN, hwt_ioctl(t->fd, HWTIMER_IOC_GROW, &grow));
}

/* Another process arms, this one waits: by descriptor alone, through the table. */
TEST_F(table, shared)
{
	struct table *t = &self->t, other;
	pid_t pid;
	__u32 i;

	pid = fork();
	if (!pid) {
		other = (struct table){ .fd = t->fd, .page = t->page };
		_exit(table_map(&other) || arm(&other, 42, 20 * NSEC_PER_MSEC, 1));
	}
	ASSERT_EQ(0, reap(pid));
	take(t, &i);
	ASSERT_EQ(42, i);
}

TEST_F(table, misuse)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .flags = HWTIMER_SETUP_TABLE };
	struct hwtimer_schedule schedule = { };
	struct table *t = &self->t;
	size_t page = t->page;

	ASSERT_EQ(-EBUSY, hwt_ioctl(t->fd, HWTIMER_IOC_SETUP, &setup));
	ASSERT_EQ(-EOPNOTSUPP, hwt_ioctl(t->fd, HWTIMER_IOC_SCHEDULE, &schedule));
	ASSERT_EQ(-EOPNOTSUPP, read(t->fd, &setup, sizeof(setup)) < 0 ? -errno : 0);
	ASSERT_EQ(-EINVAL, hwt_ioctl(t->fd, HWTIMER_IOC_GROW,
				&(struct hwtimer_grow){ .slots = HWTIMER_MAX_SLOTS + 1 }));
	/* Beyond what there is; private; a ring that was never made. */
	ASSERT_EQ(MAP_FAILED, mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, t->fd, 0));
	ASSERT_EQ(ENXIO, errno);
	ASSERT_EQ(MAP_FAILED, mmap(NULL, page, PROT_READ, MAP_PRIVATE, t->fd, 0));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(MAP_FAILED, mmap(NULL, page, PROT_READ, MAP_SHARED, t->fd,
				   HWTIMER_OFFSET_SLOTS + t->slots * 32));
	ASSERT_EQ(ENXIO, errno);
	/* Fewer slots than there are: nothing changes. */
	ASSERT_EQ(0, hwt_ioctl(t->fd, HWTIMER_IOC_GROW, &(struct hwtimer_grow){ .slots = 1 }));
	ASSERT_EQ(t->slots, t->head->slots);
}

/* A table needs a descriptor for writing; to map it, one for reading and writing. */
TEST(access_modes)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = HWTIMER_SETUP_TABLE, .slots = 1,
	};
	void *map;
	int i, fd;

	for (i = 0; i < 3; i++) {
		fd = open("/dev/hwtimer", modes[i] | O_CLOEXEC);
		ASSERT_LE(0, fd);
		EXPECT_EQ(modes[i] == O_RDONLY ? -EBADF : 0,
			  hwt_ioctl(fd, HWTIMER_IOC_SETUP, &setup));
		map = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
		EXPECT_EQ(modes[i] == O_RDWR, map != MAP_FAILED);
		close(fd);
	}
}

/* Would an access fault? Without a signal; a write writes 0. */
static bool faults(void *where, bool write_it)
{
	static int file = -1;
	ssize_t ret;

	if (file < 0)
		file = memfd_create("faults", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, 2))
		die("memfd_create: %s", strerror(errno));
	ret = write_it ? pread(file, where, 1, 0) : pwrite(file, where, 1, 1);
	if (ret != 1 && errno != EFAULT)
		die("%s", strerror(errno));
	return ret != 1;
}

/* A mapping can be shrunk and moved, but not enlarged. */
TEST_F(table, mremap)
{
	struct table *t = &self->t;
	size_t page = t->page, all = t->slots * sizeof(*t->slot);
	struct hwtimer_slot *slot;
	char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd,
		       HWTIMER_OFFSET_SLOTS), *q;

	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, arm(t, 5, FAR, 1));
	EXPECT_EQ(MAP_FAILED, mremap(p, all, all + 4 * page, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(p, mremap(p, all, page, 0));
	EXPECT_FALSE(faults(p, false));
	EXPECT_EQ(all > page, faults(p + page, false));
	EXPECT_EQ(MAP_FAILED, mremap(p, page, 2 * page, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	/* A mapping that was moved still works. */
	q = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_EQ(q, mremap(p, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, q));
	slot = (void *)q;
	EXPECT_EQ(t->slot[5].word, slot[5].word);
	slot[5].word = 0;
	EXPECT_EQ(-ENOENT, table_cancel(t, 5, 1));
	ASSERT_EQ(0, munmap(q, page));
}

/* A mapping keeps the context alive as a descriptor does. */
TEST(mapping_outlives_descriptor)
{
	const char *const references = "/sys/module/hwtimer/refcnt";
	__u64 before = must_number(references, NULL);
	struct table t;

	ASSERT_EQ(0, table_open(&t, 256, 0));
	ASSERT_EQ(0, arm(&t, 1, 10 * NSEC_PER_MSEC, 1));
	close(t.fd);
	wait_until(now_ns() + 20 * NSEC_PER_MSEC);
	EXPECT_EQ(before + 1, must_number(references, NULL));
	EXPECT_NE(0, t.slot[1].word);
	table_close(&t);
	eventually(must_number(references, NULL) == before);
}

/* What a user may have: memory is bounded, and what was not allocated leaves nothing behind. */
TEST_F(table, memory)
{
	struct hwtimer_grow grow = { .slots = HWTIMER_FREE_SLOTS };
	struct table *t = &self->t, other;
	FILE *f = fopen("/sys/module/hwtimer/parameters/max_memory", "w");
	__u32 i;

	ASSERT_NE(NULL, f);
	/* In KiB: enough for some, not for a million. */
	ASSERT_LT(0, fprintf(f, "4096"));
	ASSERT_EQ(0, fflush(f));
	ASSERT_EQ(-ENOMEM, hwt_ioctl(t->fd, HWTIMER_IOC_GROW, &grow));
	ASSERT_EQ(0, table_map(t));
	ASSERT_EQ(0, arm(t, t->slots - 1, 0, 1));
	take(t, &i);
	/* Nothing is lost by the failure, or by closing. */
	for (i = 0; i < 200; i++) {
		ASSERT_EQ(0, table_open(&other, 256, 0));
		table_end(&other);
	}
	rewind(f);
	ASSERT_LT(0, fprintf(f, "0"));
	ASSERT_EQ(0, fclose(f));
}

#define MANY	100000

/* Have room for @n timeouts, of either kind: 0 or -errno. */
static int reserve(int fd, bool by_calls, __u32 n)
{
	struct hwtimer_schedule s = { .time = HWTIMER_NEVER };
	struct hwtimer_grow grow = { .slots = n };
	int ret = 0;

	if (!by_calls)
		return hwt_ioctl(fd, HWTIMER_IOC_GROW, &grow);
	while (!ret && n--)
		ret = hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);
	return ret;
}

static int must_set_up(bool by_calls)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = by_calls ? 0 : HWTIMER_SETUP_TABLE,
	};
	int fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, HWTIMER_IOC_SETUP, &setup))
		die("SETUP: %s", strerror(errno));
	return fd;
}

FIXTURE(group)
{
};

FIXTURE_VARIANT(group)
{
	bool by_calls;
};

FIXTURE_VARIANT_ADD(group, calls) { true };
FIXTURE_VARIANT_ADD(group, table) { false };

FIXTURE_SETUP(group)
{
	if (!make_limited_group("max"))
		SKIP(return, "no memory controller in " CGROUPS);
}

FIXTURE_TEARDOWN(group)
{
	remove_group(GROUP);
}

/*
 * Kernel memory is charged to the caller's cgroup: per timeout 64 bytes by calls and, in a table,
 * 48 and a record, for as many as a ring has; on 32-bit kernels 8 less. The kernel charges 64 pages
 * at a time, for each CPU, so a group's memory is exact to 256 KiB a CPU only: 3 bytes each.
 */
TEST_F(group, charged)
{
	__u64 before, after;
	pid_t child;
	int fd;

	child = must_fork();
	if (!child) {
		enter_group(GROUP);
		/* First allocate what is allocated once per process or context. */
		must_set_up(variant->by_calls);
		fd = must_set_up(variant->by_calls);
		raise(SIGSTOP);
		if (reserve(fd, variant->by_calls, MANY))
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	must_stop(child);
	before = group_memory(GROUP);
	kill(child, SIGCONT);
	must_stop(child);
	after = group_memory(GROUP);
	printf("# %llu bytes per timeout\n", (after - before) / MANY);
	EXPECT_LE(before + 42 * MANY, after);
	EXPECT_GE(before + 72 * MANY, after);
	kill(child, SIGKILL);
	ASSERT_EQ(128 + SIGKILL, reap(child));
	/* All memory is freed after the last close. */
	eventually(group_memory(GROUP) < before + 20 * MANY);
}

/* At the memory limit, a caller gets an error, and is not killed. */
TEST_F(group, limited)
{
	int status;
	pid_t child;

	ASSERT_EQ(0, set_group(GROUP, "memory.max", "8M"));
	child = must_fork();
	if (!child) {
		enter_group(GROUP);
		_exit(-reserve(must_set_up(variant->by_calls), variant->by_calls, 10 * MANY));
	}
	status = reap(child);
	EXPECT_EQ(ENOMEM, status);
	EXPECT_EQ(0, group_value(GROUP, "memory.events", "oom_kill"));
	eventually(group_memory(GROUP) < 2 << 20);
}

static void expire(struct table *t, bool by_calls, __u64 delay)
{
	struct hwtimer_record r;
	__u32 i;

	if (by_calls) {
		must_schedule(t->fd, delay, 0);
		if (calls_read(t->fd, &r, 1) != 1)
			die("read");
	} else {
		if (arm(t, 0, delay, 1))
			die("arm");
		take(t, &i);
	}
}

/*
 * Only a program's own tasks work for it, so a cgroup that is frozen uses no CPU time, and nobody
 * else looks at its timeouts, although they are due; and after cgroup.kill nothing is left in it.
 */
TEST_F(group, owns_its_work)
{
	struct table t = { .fd = must_set_up(variant->by_calls), .page = sysconf(_SC_PAGESIZE) };
	atomic_uint *rounds = must_share(sizeof(*rounds));
	unsigned int seen;
	__u64 used, runs;
	pid_t child;

	ASSERT_EQ(0, reserve(t.fd, variant->by_calls, 1));
	child = must_fork();
	if (!child) {
		enter_group(GROUP);
		if (!variant->by_calls && table_map(&t))
			die("table_map");
		for (;; atomic_fetch_add(rounds, 1))
			expire(&t, variant->by_calls, 200 * NSEC_PER_MSEC);
	}
	eventually(atomic_load(rounds));
	ASSERT_EQ(0, set_group(GROUP, "cgroup.freeze", "1"));
	eventually(group_value(GROUP, "cgroup.events", "frozen"));
	runs = must_stats(t.fd).runs;
	seen = atomic_load(rounds);
	used = group_value(GROUP, "cpu.stat", "usage_usec");
	wait_until(now_ns() + NSEC_PER_SEC / 2);
	EXPECT_EQ(runs, must_stats(t.fd).runs);
	EXPECT_EQ(seen, atomic_load(rounds));
	EXPECT_EQ(used, group_value(GROUP, "cpu.stat", "usage_usec"));
	ASSERT_EQ(0, set_group(GROUP, "cgroup.freeze", "0"));
	eventually(atomic_load(rounds) > seen + 1);
	ASSERT_EQ(0, set_group(GROUP, "cgroup.kill", "1"));
	EXPECT_EQ(128 + SIGKILL, reap(child));
	eventually(!rmdir(CGROUPS "/" GROUP));
	close(t.fd);
}

TEST_HARNESS_MAIN
