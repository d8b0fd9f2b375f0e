// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading and unloading: unloading fails while the module is in use, and succeeds at any other
 * time, whatever was pending a moment ago. The modules are in $MODULES, or /modules; hwtimer is
 * loaded before and after each case.
 */
#include "calls.h"

#define MODULE		"hwtimer"
#define EXAMPLE		"hwtimer_example"
#define FORGET		"hwtimer_forget"

static bool loaded(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/module/%s/refcnt", name);
	return !access(path, F_OK);
}

static void must_load(const char *name, const char *parameters)
{
	int ret = load(name, parameters);

	if (ret)
		die("cannot load %s: %s", name, strerror(-ret));
}

static void must_unload(const char *name)
{
	int ret = unload(name);

	if (ret)
		die("cannot unload %s: %s", name, strerror(-ret));
}

FIXTURE(module)
{
};

FIXTURE_SETUP(module)
{
	ASSERT_TRUE(loaded(MODULE));
	eventually(!module_references());
}

FIXTURE_TEARDOWN(module)
{
	if (loaded(EXAMPLE)) {
		EXPECT_EQ(0, unload(EXAMPLE));
	}
	if (!loaded(MODULE)) {
		EXPECT_EQ(0, load(MODULE, ""));
	}
}

TEST_F(module, in_use)
{
	int fd = must_open(0), copy;

	EXPECT_EQ(-EWOULDBLOCK, unload(MODULE));
	arm_many(fd, 100, FAR);
	EXPECT_EQ(-EWOULDBLOCK, unload(MODULE));
	copy = dup(fd);
	close(fd);
	EXPECT_EQ(-EWOULDBLOCK, unload(MODULE));
	EXPECT_EQ(0, ioctl(copy, HWTIMER_IOC_STOP));
	EXPECT_EQ(-EWOULDBLOCK, unload(MODULE));
	/* The module works as before. */
	EXPECT_EQ(100, must_stats(copy).pending);
	close(copy);
	EXPECT_EQ(0, unload(MODULE));
	EXPECT_FALSE(loaded(MODULE));
	EXPECT_EQ(-ENOENT, calls_open(0));
	EXPECT_EQ(-1, access(HWT_DEBUGFS, F_OK));
}

/* Loading works each time. */
TEST_F(module, loads_again)
{
	struct hwtimer_record rec;
	int i, fd;

	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, unload(MODULE));
		ASSERT_EQ(0, load(MODULE, ""));
		fd = must_open(0);
		must_schedule(fd, NSEC_PER_MSEC, i);
		ASSERT_EQ(1, calls_read(fd, &rec, 1));
		ASSERT_EQ(i, rec.user_data);
		close(fd);
	}
	EXPECT_EQ(-EEXIST, load(MODULE, ""));
}

static bool logged(int kmsg, const char *text)
{
	char record[8192];
	bool found = false;
	ssize_t len;

	while ((len = read(kmsg, record, sizeof(record) - 1)) > 0 || errno == EPIPE) {
		record[len > 0 ? len : 0] = 0;
		found |= !!strstr(record, text);
	}
	return found;
}

/*
 * A module that goes away, or fails to load, with a wheel that it has not destroyed: the wheel is
 * named, and goes with it. Its timeout comes again each ms, so the worker would call what is no
 * longer there.
 */
TEST_F(module, forgotten_wheel)
{
	int kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC), fails;

	ASSERT_LE(0, kmsg);
	ASSERT_LE(0, lseek(kmsg, 0, SEEK_END));
	for (fails = 0; fails < 2; fails++) {
		ASSERT_EQ(fails ? -EINVAL : 0, load(FORGET, fails ? "fails=1" : ""));
		if (!fails) {
			EXPECT_EQ(0, access(HWT_DEBUGFS "/" FORGET, F_OK));
			eventually(must_wheel_value(FORGET, "expired") > 10);
			EXPECT_FALSE(logged(kmsg, FORGET));
			must_unload(FORGET);
		}
		EXPECT_EQ(-1, access(HWT_DEBUGFS "/" FORGET, F_OK));
		EXPECT_TRUE(logged(kmsg, "module " FORGET " is gone without destroying its wheel "
				   FORGET "; timeouts pending: "));
	}
	close(kmsg);
	wait_until(now_ns() + 100 * NSEC_PER_MSEC);
	EXPECT_EQ(0, unload(MODULE));
}

/* What loading refuses, and what root can change later. */
TEST_F(module, parameters)
{
	static const char *const names[] = { "max_memory", "callback_limit_us" };
	char text[64];
	unsigned int i;

	must_unload(MODULE);
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(text, sizeof(text), "%s=x", names[i]);
		EXPECT_EQ(-EINVAL, load(MODULE, text));
		EXPECT_FALSE(loaded(MODULE));
		EXPECT_EQ(-ENOENT, calls_open(0));
		EXPECT_EQ(-1, access(HWT_DEBUGFS, F_OK));
		snprintf(text, sizeof(text), "%s=4711", names[i]);
		must_load(MODULE, text);
		EXPECT_EQ(4711, must_get_parameter(names[i]));
		EXPECT_EQ(0, set_parameter(names[i], 4712));
		EXPECT_EQ(4712, must_get_parameter(names[i]));
		must_unload(MODULE);
	}
}

static atomic_bool busy;

/* Load for both CPUs, without the module. */
static atomic_bool burning;

static void *burn(void *arg)
{
	while (atomic_load(&busy)) {
		if (atomic_load(&burning))
			free(must_slurp("/proc/self/status"));
		else
			usleep(1000);
	}
	return arg;
}

/* With thousands pending, some of them due: close and unload at once. */
TEST_F(module, close_and_unload)
{
	pthread_t burners[2];
	int rounds = quick_or(16, 100), i;

	atomic_store(&busy, true);
	for (i = 0; i < 2; i++)
		start(&burners[i], burn, NULL);
	for (i = 0; i < rounds; i++) {
		int fd = must_open(0), table = must_open(0);

		ASSERT_EQ(0, ioctl(table, HWTIMER_IOC_SETUP, &(struct hwtimer_setup){
				.clockid = CLOCK_MONOTONIC, .flags = HWTIMER_SETUP_TABLE,
				.slots = 5000 }));
		arm_many(fd, 1000, NSEC_PER_MSEC);
		arm_many(fd, 1000, FAR);
		/* Only every other time, as loading then takes ten times as long. */
		atomic_store(&burning, i % 2);
		close(table);
		close(fd);
		must_unload(MODULE);
		atomic_store(&burning, false);
		must_load(MODULE, "");
	}
	atomic_store(&busy, false);
	for (i = 0; i < 2; i++)
		pthread_join(burners[i], NULL);
}

/* By SIGKILL: the exit closes the last descriptor. */
TEST_F(module, kill_and_unload)
{
	int i;

	for (i = 0; i < 20; i++) {
		pid_t child = must_fork();

		if (!child) {
			struct hwtimer_record rec;
			int fd = must_open(0);

			arm_many(fd, 2000, FAR);
			calls_read(fd, &rec, 1);
			_exit(1);
		}
		eventually(sleeps_in(child, SYS_read));
		ASSERT_EQ(-EWOULDBLOCK, unload(MODULE));
		must_kill(child);
		must_unload(MODULE);
		must_load(MODULE, "");
	}
}

/* Open while the module is unloaded: one of them succeeds. */
struct opener {
	pthread_t thread;
	atomic_uint opened;
	unsigned int refused;
	int error;
};

static void *keep_opening(void *arg)
{
	struct opener *o = arg;

	while (atomic_load(&busy)) {
		int fd = calls_open(0);

		if (fd >= 0) {
			atomic_fetch_add(&o->opened, 1);
			arm_many(fd, 10, o->opened % 2 ? FAR : NSEC_PER_MSEC);
			close(fd);
		} else if (fd == -ENOENT || fd == -ENODEV || fd == -ENXIO) {
			o->refused++;
		} else {
			o->error = fd;
		}
		/* Give the unloading a chance. */
		usleep(o->opened % 8 ? 100 : 3000);
	}
	return NULL;
}

TEST_F(module, open_against_unload)
{
	struct opener openers[2] = { 0 };
	unsigned int most = quick_or(8, 30), unloads = 0, in_use = 0;
	int i, ret;
	__u64 end;

	atomic_store(&busy, true);
	for (i = 0; i < 2; i++)
		start(&openers[i].thread, keep_opening, &openers[i]);
	/* Both have begun. */
	for (i = 0; i < 2; i++)
		eventually(openers[i].opened);
	end = now_ns() + PATIENCE;	/* per unloading */
	while (unloads < most) {
		ASSERT_GT(end, now_ns());
		ret = unload(MODULE);
		if (!ret) {
			unloads++;
			end = now_ns() + PATIENCE;
			must_load(MODULE, "");
			/* Let it be used. */
			usleep(1000);
		} else {
			ASSERT_EQ(-EWOULDBLOCK, ret);
			in_use++;
			usleep(200);
		}
	}
	atomic_store(&busy, false);
	for (i = 0; i < 2; i++) {
		pthread_join(openers[i].thread, NULL);
		EXPECT_EQ(0, openers[i].error);
		printf("# opened %u refused %u\n", openers[i].opened, openers[i].refused);
	}
	printf("# unloaded %u, in use %u\n", unloads, in_use);
}

/* A reader of debugfs: unloading works, and the reader gets an error. */
TEST_F(module, debugfs_against_unload)
{
	int file = open(CONTEXTS, O_RDONLY | O_CLOEXEC), ret;
	char buf[64];

	ASSERT_LE(0, file);
	ret = unload(MODULE);
	EXPECT_TRUE(!ret || ret == -EWOULDBLOCK);
	ret = read(file, buf, sizeof(buf));
	EXPECT_EQ(loaded(MODULE), !ret);
	close(file);
	if (loaded(MODULE)) {
		EXPECT_EQ(0, unload(MODULE));
	}
}

static atomic_int at_work;

/* Use the device as long as @busy; @at_work counts the threads that have seen an expiry. */
static void *use_device(void *arg)
{
	__u64 random = (uintptr_t)arg * 99 + 1;
	int fd = must_open(O_NONBLOCK);
	struct hwtimer_record rec[16];
	__u64 ids[64] = { 0 };
	bool expired = false;

	while (atomic_load(&busy)) {
		unsigned int k = rnd(&random) % 64;

		if (ids[k] && rnd(&random) % 2)
			calls_cancel(fd, ids[k]);
		ids[k] = must_schedule(fd, rnd(&random) % (10 * NSEC_PER_MSEC), k);
		while (calls_read(fd, rec, ARRAY_SIZE(rec)) > 0) {
			if (!expired)
				atomic_fetch_add(&at_work, 1);
			expired = true;
		}
	}
	close(fd);
	return NULL;
}

/* A module that uses the exported functions is loaded and unloaded while the device is busy. */
TEST_F(module, example_under_load)
{
	pthread_t users[2];
	int i, ret;

	atomic_store(&busy, true);
	for (i = 0; i < 2; i++)
		start(&users[i], use_device, (void *)(uintptr_t)i);
	eventually(atomic_load(&at_work) == 2);
	for (i = 0; i < 10; i++) {
		ret = load(EXAMPLE, "");
		if (ret)
			break;
		EXPECT_EQ(-EWOULDBLOCK, unload(MODULE));
		/* 100 ms are enough for some of its requests to time out. */
		usleep(i % 3 * 150000);
		ret = unload(EXAMPLE);
		if (ret)
			break;
	}
	atomic_store(&busy, false);
	for (i = 0; i < 2; i++)
		pthread_join(users[i], NULL);
	EXPECT_EQ(0, ret);
}

/* The module that has a wheel of its own holds a reference to hwtimer. */
TEST_F(module, example_holds_the_module)
{
	ASSERT_EQ(0, load(EXAMPLE, ""));
	EXPECT_LT(0, module_references());
	EXPECT_EQ(-EWOULDBLOCK, unload(MODULE));
	EXPECT_EQ(0, unload(EXAMPLE));
	EXPECT_EQ(0, unload(MODULE));
}

TEST_HARNESS_MAIN
