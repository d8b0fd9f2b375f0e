// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU goes offline and online: timeouts of a context whose timer runs there, and of a module's
 * wheel whose worker is pinned to it, all expire, and none early. tests/torture does this to wheels
 * from inside the kernel.
 */
#include "calls.h"

#define ONLINE	"/sys/devices/system/cpu/cpu1/online"

/* Retry: the kernel may be busy. */
static void cpu1(bool online)
{
	eventually(write_file(ONLINE, online ? "1" : "0") != -EBUSY);
	if (must_number(ONLINE, NULL) != online)
		die("cpu1 does not go %s", online ? "online" : "offline");
}

static void pin(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(pid, sizeof(set), &set))
		die("sched_setaffinity: %s", strerror(errno));
}

#define ARMED	200

FIXTURE(hotplug)
{
	int fd;
};

FIXTURE_SETUP(hotplug)
{
	if (access(ONLINE, W_OK))
		SKIP(return, "no second CPU that can go offline");
	cpu1(true);
	self->fd = must_open(O_NONBLOCK);
	ASSERT_EQ(0, load(REMOTE, ""));
}

FIXTURE_TEARDOWN(hotplug)
{
	if (access(ONLINE, W_OK))
		return;
	close(self->fd);
	cpu1(true);
	EXPECT_EQ(0, unload(REMOTE));
}

/* Take what comes until @n records have come; each once. */
static void take(int fd, bool *seen, unsigned int n)
{
	struct hwtimer_record r;

	while (n--) {
		if (poll_in(fd, -1) != POLLIN || calls_read(fd, &r, 1) != 1)
			die("no record");
		if (r.user_data >= ARMED || seen[r.user_data])
			die("number %llu: twice", (unsigned long long)r.user_data);
		if (r.taken_ns < r.deadline_ns || r.taken_ns > now_ns())
			die("early");
		seen[r.user_data] = true;
	}
}

/* Armed on that CPU, with several delays; it goes offline before or while they are due. */
TEST_F(hotplug, nothing_is_lost)
{
	int rounds = quick_or(6, 12), round, i;
	pid_t worker = must_wheel_value(REMOTE, "worker_pid");

	for (round = 0; round < rounds; round++) {
		bool seen[ARMED] = { };

		pin(worker, 1);
		pin(0, 1);
		/* Where it is polled last, the timer is set. */
		for (i = ARMED; i--;)
			must_schedule(self->fd, i * 2 * NSEC_PER_MSEC, i);
		ASSERT_EQ(0, tell_remote("arm 0 %u 0 2000000", ARMED));
		poll_in(self->fd, 0);
		/* The other CPU has to take it offline. */
		pin(0, 0);
		if (round % 3)
			usleep(round * 10000);
		cpu1(false);
		take(self->fd, seen, ARMED / 2);
		cpu1(round % 2);
		take(self->fd, seen, ARMED / 2);
		cpu1(true);
		eventually(must_wheel_value(REMOTE, "expired") == ARMED * (round + 1ULL));
	}
	EXPECT_EQ(0, must_stats(self->fd).pending);
	EXPECT_EQ(0, must_wheel_value(REMOTE, "pending"));
}

static atomic_bool busy;

static void *keep_switching(void *arg)
{
	atomic_uint *switched = arg;

	pin(0, 0);
	while (atomic_load(&busy)) {
		cpu1(false);
		cpu1(true);
		atomic_fetch_add(switched, 1);
	}
	return NULL;
}

/* Offline and online all the time, while others arm there and take. */
TEST_F(hotplug, under_load)
{
	unsigned int taken = 0, armed = 0, i;
	atomic_uint switched = 0;
	struct hwtimer_record rec[64];
	__u64 end = now_ns() + quick_or(5, 10) * NSEC_PER_SEC;
	cpu_set_t set;
	pthread_t thread;
	int n;

	atomic_store(&busy, true);
	start(&thread, keep_switching, &switched);
	/* At least twice. */
	for (i = 0; now_ns() < end || atomic_load(&switched) < 2; i++) {
		CPU_ZERO(&set);
		CPU_SET(i % 2, &set);
		/* It may be offline. */
		sched_setaffinity(0, sizeof(set), &set);
		for (n = 0; n < 50; n++, armed++)
			must_schedule(self->fd, (i * 7 + n) % 40 * NSEC_PER_MSEC, 0);
		while ((n = calls_read(self->fd, rec, ARRAY_SIZE(rec))) > 0) {
			taken += n;
			while (n--)
				if (rec[n].taken_ns < rec[n].deadline_ns)
					die("early");
		}
	}
	atomic_store(&busy, false);
	pthread_join(thread, NULL);
	while (taken < armed) {
		ASSERT_EQ(POLLIN, poll_in(self->fd, -1));
		taken += calls_read(self->fd, rec, ARRAY_SIZE(rec));
	}
	EXPECT_EQ(armed, taken);
	EXPECT_EQ(0, must_stats(self->fd).pending);
	printf("# switched %u times, %u expired\n", switched, taken);
}

TEST_HARNESS_MAIN
