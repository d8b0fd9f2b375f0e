// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU goes offline and online: timeouts scheduled on it, with the worker pinned to it, all
 * expire, and none early. tests/torture does this from inside the kernel.
 */
#include "hwt.h"

#define ONLINE	"/sys/devices/system/cpu/cpu1/online"

/* Retry: the kernel may be busy. */
static void cpu1(bool online)
{
	__u64 end = now_ns() + PATIENCE;
	int fd = open(ONLINE, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		die("%s: %s", ONLINE, strerror(errno));
	while (write(fd, online ? "1" : "0", 1) != 1) {
		if (errno != EBUSY || now_ns() > end)
			die("cpu1 does not go %s: %s", online ? "online" : "offline",
			    strerror(errno));
		usleep(10000);
	}
	close(fd);
}

static bool pin(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(pid, sizeof(set), &set);
}

/* The worker of the shared wheel. */
static pid_t worker_pid(void)
{
	char *text = must_slurp(HWT_DEBUGFS "/dev/stats"), *line;
	long pid = -1;

	line = strstr(text, "\nworker_pid ");
	if (line)
		pid = atol(line + strlen("\nworker_pid "));
	free(text);
	if (pid <= 0)
		die("no worker_pid in the stats");
	return pid;
}

#define ARMED	200

FIXTURE(hotplug)
{
	int fd;
};

FIXTURE_SETUP(hotplug)
{
	if (access(ONLINE, W_OK)) {
		SKIP(return, "no second CPU that can go offline");
	}
	cpu1(true);
	self->fd = must_open(O_NONBLOCK);
}

FIXTURE_TEARDOWN(hotplug)
{
	cpu_set_t all;
	int i;

	if (access(ONLINE, W_OK))
		return;
	close(self->fd);
	cpu1(true);
	CPU_ZERO(&all);
	for (i = 0; i < CPU_SETSIZE; i++)
		CPU_SET(i, &all);
	sched_setaffinity(worker_pid(), sizeof(all), &all);
}

/* Schedule on that CPU, with several delays; it goes offline before or while they are due. */
TEST_F(hotplug, nothing_is_lost)
{
	static __u64 deadlines[ARMED];
	static unsigned int seen[ARMED];
	struct hwtimer_record rec;
	struct hwtimer_stats s;
	int rounds = quick_or(6, 12), round, i, n;

	for (round = 0; round < rounds; round++) {
		ASSERT_TRUE(pin(worker_pid(), 1));
		ASSERT_TRUE(pin(0, 1));
		memset(seen, 0, sizeof(seen));
		for (i = 0; i < ARMED; i++) {
			ASSERT_EQ(0, hwt_schedule(self->fd, HWTIMER_RELATIVE,
						  i * 2 * NSEC_PER_MSEC, i, NULL,
						  &deadlines[i]));
		}
		/* The other CPU has to take it offline. */
		ASSERT_TRUE(pin(0, 0));
		if (round % 3)
			usleep(round * 10000);
		cpu1(false);
		for (n = 0; n < ARMED; n++) {
			ASSERT_EQ(1, hwt_collect(self->fd, &rec, 1));
			ASSERT_GT(ARMED, rec.user_data);
			EXPECT_EQ(0, seen[rec.user_data]);
			seen[rec.user_data]++;
			EXPECT_LE(deadlines[rec.user_data], rec.fired);
			if (n == ARMED / 2 && round % 2)
				cpu1(true);
		}
		cpu1(true);
	}
	s = must_stats(self->fd);
	EXPECT_TRUE(balanced(&s));
	EXPECT_EQ(rounds * ARMED, s.expired);
	EXPECT_EQ(0, s.pending);
}

static atomic_bool busy;

static void *keep_switching(void *arg)
{
	atomic_uint *switched = arg;

	while (atomic_load(&busy)) {
		/*
		 * Not while the CPU goes offline: sched_setaffinity() would move a runnable
		 * kthread to it, and the kernel would complain ("Dying CPU not properly
		 * vacated!").
		 */
		pin(worker_pid(), 1);
		cpu1(false);
		cpu1(true);
		atomic_fetch_add(switched, 1);
	}
	return NULL;
}

/* Offline and online all the time, with the worker pinned to the CPU again each time. */
TEST_F(hotplug, under_load)
{
	unsigned int expired = 0, i;
	atomic_uint switched = 0;
	struct hwtimer_record rec[64];
	struct hwtimer_stats s;
	pthread_t thread;
	__u64 end = now_ns() + quick_or(5, 10) * NSEC_PER_SEC;
	int n;

	atomic_store(&busy, true);
	start(&thread, keep_switching, &switched);
	/* At least twice. */
	for (i = 0; now_ns() < end || switched < 2; i++) {
		pin(0, i % 2);
		for (n = 0; n < 50; n++)
			must_schedule(self->fd, (i * 7 + n) % 40 * NSEC_PER_MSEC, 0);
		while ((n = hwt_read(self->fd, rec, ARRAY_SIZE(rec))) > 0) {
			expired += n;
			while (n--) {
				EXPECT_LE(rec[n].deadline, rec[n].fired);
			}
		}
	}
	atomic_store(&busy, false);
	pthread_join(thread, NULL);
	eventually(!must_stats(self->fd).pending);
	while ((n = hwt_read(self->fd, rec, ARRAY_SIZE(rec))) > 0)
		expired += n;
	s = must_stats(self->fd);
	EXPECT_TRUE(balanced(&s));
	EXPECT_EQ(50 * i, expired);
	printf("# switched %u times, %u expired\n", switched, expired);
}

TEST_HARNESS_MAIN
