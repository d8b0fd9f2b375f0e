// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fault injection: each allocation fails once, in every call of /dev/hwtimer that allocates, and
 * while the module is loaded (tests/kunit does it for the API of other modules); so does each copy
 * from and to the program there. The nth of a call fails, from the first until a call completes
 * without a failure (/proc/PID/fail-nth); then again with all later allocations failing, too
 * (/proc/PID/make-it-fail). calls.c and abi.c have memory of the program that is not accessible.
 *
 * A call that failed has returned a documented error, has left everything as it was, and works
 * when repeated. Kernels without fault injection skip all of it.
 */
#include "calls.h"

#include "../../lib/table.h"

#define MODULE		"hwtimer"

/* The user_data of the timeout that is pending in each context before the call. */
#define KEPT		0x6b657074ULL
/* More than the allocations and copies of any call. */
#define MOST		5000U

#define SLOTS		256
/* So many timeouts fit in a page. */
#define PAGE		64

/**
 * struct world - the state in which a call is made
 * @fd: the context, or -1
 * @kept: a timeout that is pending in it, or 0
 * @pending: how many there are before the call
 * @slots: of a table: likewise
 * @id: the timeout that the call has scheduled
 * @mapping: the mapping that the call created
 */
struct world {
	int fd;
	__u64 kept;
	__u64 pending;
	__u32 slots;
	__u64 id;
	void *mapping;
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

/* The kept timeout is still pending; it expires, and nothing else does. */
static void expire_kept(struct world *w)
{
	struct hwtimer_record rec;

	check(!calls_touch(w->fd, w->kept, 0));
	check(poll_in(w->fd, -1) == POLLIN);
	check(calls_read(w->fd, &rec, 1) == 1);
	check(rec.id == w->kept && rec.user_data == KEPT && rec.kind == HWTIMER_KIND_EXPIRED);
	check(calls_read(w->fd, &rec, 1) == -EAGAIN);
}

static struct hwtimer_info must_info(int fd)
{
	struct hwtimer_info info;

	check(!ioctl(fd, HWTIMER_IOC_INFO, &info));
	return info;
}

/* What holds after every failed call. */
static void check_undone(struct world *w)
{
	struct hwtimer_query q = { .id = w->kept };
	struct hwtimer_info info;

	if (!w->kept && !w->slots) {
		/* There was no SETUP. */
		check(ioctl(w->fd, HWTIMER_IOC_INFO, &info) && errno == ENXIO);
		return;
	}
	check(must_stats(w->fd).pending == w->pending);
	check(!w->slots || must_info(w->fd).slots == w->slots);
	if (w->kept)
		check(!ioctl(w->fd, HWTIMER_IOC_QUERY, &q) && q.user_data == KEPT);
}

static bool is_loaded(void)
{
	return !access("/sys/module/" MODULE "/refcnt", F_OK);
}

static void close_world(struct world *w)
{
	if (w->fd >= 0)
		close(w->fd);
	check(!is_loaded() || (!contexts() && !module_references()));
}

/* Make the call with its nth allocation or copy failing; false: it has fewer. */
static bool try_nth(const struct call *c, const struct victim *self, unsigned int *refused)
{
	struct world w = { .fd = -1 };
	bool failed;
	int ret;

	if (c->prepare)
		c->prepare(&w);
	fail_from_now(self);
	ret = c->make(&w);
	failed = has_failed(self);
	if (ret < 0) {
		if (!failed || !may_fail(c, ret))
			die("failure %u: %d (%s)", nth, ret, strerror(-ret));
		++*refused;
		if (c->undone)
			c->undone(&w);
		else
			check_undone(&w);
		ret = c->make(&w);
		if (ret < 0)
			die("failure %u: the second call: %d (%s)", nth, ret, strerror(-ret));
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
	struct victim self = must_open_victim(getpid());
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
	/* Page faults of our own must not fail; without memory they would be retried forever. */
	must_have_pages();
	eventually(!module_references());
	/* In KiB: what a failed call does not give back is missed soon. */
	check(!set_parameter("max_memory", 192));
}

static void release_process(void)
{
	check(!set_parameter("max_memory", 0));
	check(!module_references());
}

FIXTURE(faults)
{
};

FIXTURE_VARIANT(faults)
{
	bool rest;
};

FIXTURE_VARIANT_ADD(faults, one) { false };
FIXTURE_VARIANT_ADD(faults, rest) { true };

FIXTURE_SETUP(faults)
{
	if (!faults_on_demand(variant->rest))
		SKIP(return, "this kernel has no fault injection");
	prepare_process();
}

FIXTURE_TEARDOWN(faults)
{
	release_process();
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
	w->pending = 1;
}

static void nothing_pending(struct world *w)
{
	w->fd = must_open(O_NONBLOCK);
}

/* A context by calls works. */
static void check_works(struct world *w)
{
	w->kept = must_schedule(w->fd, FAR, KEPT);
	expire_kept(w);
	check(!must_stats(w->fd).pending);
}

/* A table works: its last slot expires. */
static void check_table(struct world *w)
{
	struct table t = { .fd = w->fd, .page = sysconf(_SC_PAGESIZE) };
	__u32 last, index, g, head;

	check(!table_map(&t));
	last = t.slots - 1;
	check(!table_arm(&t, last, table_word(now_ns(), 1)));
	check(poll_in(w->fd, -1) == POLLIN);
	check(table_peek(&t, &index, &g, &head) > 0 && index == last);
	check(table_look(&t, index, now_ns(), NULL, NULL));
	table_took(&t, g, head);
	table_close(&t);
}

/* open() */
static int make_open(struct world *w)
{
	w->fd = calls_open(O_NONBLOCK);
	return w->fd;
}

static void not_opened(struct world *w)
{
	(void)w;
	check(!module_references());
}

/* At least the path, the file, the context and the user. */
FAULTS(open, NULL, make_open, not_opened, check_works, { ENOMEM, EFAULT }, 4)

/* SETUP: the copies, the wheel and, of a table, its page and those of its slots */
static int make_setup(struct world *w)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_BOOTTIME, .slots = 10 };

	return hwt_ioctl(w->fd, HWTIMER_IOC_SETUP, &setup);
}

static void was_set_up(struct world *w)
{
	check(must_info(w->fd).slots == 10);
	check_works(w);
}

static int make_table(struct world *w)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = HWTIMER_SETUP_TABLE, .slots = SLOTS,
	};

	return hwt_ioctl(w->fd, HWTIMER_IOC_SETUP, &setup);
}

/* If the result could not be copied, it is set up. */
static void is_set_up_or_not(struct world *w)
{
	struct hwtimer_info info;

	if (ioctl(w->fd, HWTIMER_IOC_INFO, &info))
		return check_undone(w);
	close(w->fd);
	nothing_pending(w);
}

FAULTS(setup_calls, nothing_pending, make_setup, is_set_up_or_not, was_set_up,
	{ EFAULT, ENOMEM }, 4)

FAULTS(setup_table, nothing_pending, make_table, is_set_up_or_not, check_table,
	{ EFAULT, ENOMEM }, 8)

/* SCHEDULE */
static int make_schedule(struct world *w)
{
	struct hwtimer_schedule s = {
		.time = FAR, .flags = HWTIMER_RELATIVE, .user_data = 1,
	};
	int ret = hwt_ioctl(w->fd, HWTIMER_IOC_SCHEDULE, &s);

	w->id = s.id;
	return ret;
}

static void scheduled(struct world *w)
{
	struct hwtimer_query q = { .id = w->id };

	check(must_stats(w->fd).pending == w->pending + 1);
	check(!ioctl(w->fd, HWTIMER_IOC_QUERY, &q) && q.user_data == 1);
	if (w->kept)
		expire_kept(w);
	check(!calls_cancel(w->fd, w->id));
}

/* It does the SETUP, which may remain; but not the timeout. */
static void not_scheduled(struct world *w)
{
	struct hwtimer_stats s = { };

	check(ioctl(w->fd, HWTIMER_IOC_STATS, &s) ? errno == ENXIO : !s.pending);
}

FAULTS(schedule_first, nothing_pending, make_schedule, not_scheduled, scheduled,
	{ EFAULT, ENOMEM }, 5)

/* The next one needs another page. */
static void full_page(struct world *w)
{
	one_pending(w);
	arm_many(w->fd, PAGE - 1, FAR);
	w->pending = PAGE;
}

FAULTS(schedule_another_page, full_page, make_schedule, NULL, scheduled, { EFAULT, ENOMEM }, 3)

/* GROW: the copies, a ring, and pages */
static void a_table(struct world *w)
{
	nothing_pending(w);
	check(!make_table(w));
	w->slots = must_info(w->fd).slots;
}

static int make_grow(struct world *w)
{
	struct hwtimer_grow grow = { .slots = 10 * SLOTS };

	return hwt_ioctl(w->fd, HWTIMER_IOC_GROW, &grow);
}

/* There may be more slots than before, all of which can be used. */
static void grown_or_not(struct world *w)
{
	check(must_info(w->fd).slots >= w->slots);
	check_table(w);
}

static void grown(struct world *w)
{
	check(must_info(w->fd).slots >= 10 * SLOTS);
	check_table(w);
}

FAULTS(grow, a_table, make_grow, grown_or_not, grown, { EFAULT, ENOMEM }, 16)

/* mmap() */
static int make_mmap(struct world *w)
{
	w->mapping = mmap(NULL, SLOTS * sizeof(struct hwtimer_slot), PROT_READ | PROT_WRITE,
			  MAP_SHARED, w->fd, HWTIMER_OFFSET_SLOTS);
	return w->mapping == MAP_FAILED ? -errno : 0;
}

static void mapped(struct world *w)
{
	struct hwtimer_slot *slot = w->mapping;

	slot[SLOTS - 1].word = table_word(now_ns() + FAR, 1);
	check(must_stats(w->fd).pending == 1);
	slot[SLOTS - 1].word = 0;
	check_table(w);
	munmap(w->mapping, SLOTS * sizeof(struct hwtimer_slot));
}

FAULTS(mmap, a_table, make_mmap, NULL, mapped, { ENOMEM }, 2)

/* Load from memory, so that the module's own allocations fail, and not the reading of the file. */
static void *image;
static size_t image_size;

static void must_read_image(void)
{
	int fd = open("/modules/" MODULE ".ko", O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		die(MODULE ".ko: %s", strerror(errno));
	image_size = st.st_size;
	image = must_alloc(1, image_size);
	if (read(fd, image, image_size) != st.st_size)
		die(MODULE ".ko: %s", strerror(errno));
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
	struct victim self = must_open_victim(getpid());
	char text[16] = { 0 };
	int ret;

	if (pwrite(self.nth, "1000000", 7, 0) != 7)
		die("fail-nth: %s", strerror(errno));
	ret = load_image("max_memory=x");
	if (pread(self.nth, text, sizeof(text) - 1, 0) <= 0)
		die("fail-nth: %s", strerror(errno));
	has_failed(&self);
	close_victim(&self);
	if (ret != -EINVAL)
		die("max_memory=x: %d", ret);
	return 1000000 - strtoul(text, NULL, 10);
}

static void not_loaded(struct world *w)
{
	(void)w;
	check(!is_loaded());
	check(calls_open(0) == -ENOENT);
	check(access(HWT_DEBUGFS, F_OK));
	check(access("/sys/class/misc/hwtimer", F_OK));
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

/*
 * Loading and unloading, with one failure each. There are hundreds, and loading is slow: skip up to
 * 15 at a time, or none with ALL=1.
 */
TEST(loading)
{
	static const struct call call = {
		.make = make_load, .undone = not_loaded, .done = is_loaded_and_works,
		/* The count varies, so the last failure may hit the copy of the parameters. */
		.errors = { ENOMEM, EFAULT },
	};
	unsigned int stride = getenv("ALL") ? 1 : 16, failures = 0, refused = 0;
	__u64 random = seed();
	struct victim us;

	if (!faults_on_demand(false))
		SKIP(return, "this kernel has no fault injection");
	prepare_process();
	us = must_open_victim(getpid());
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
	release_process();
}

TEST_HARNESS_MAIN
