// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading and unloading: unloading fails while the module is in use, and succeeds at any other
 * time, whatever was pending a moment ago. The modules are in $MODULES, or /modules; hwtimer is
 * loaded before and after each case.
 */
#include "calls.h"

#define MODULE		"hwtimer"
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

/* With thousands pending, some of them due: close and unload at once, and load again. */
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

TEST_HARNESS_MAIN
