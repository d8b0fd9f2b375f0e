// SPDX-License-Identifier: GPL-2.0-only
/*
 * The machine is suspended, and woken by its RTC. What became due on CLOCK_BOOTTIME meanwhile
 * expires then: on a module's wheel, and in a context, where it can be taken and wakes who waits.
 * On CLOCK_MONOTONIC the time asleep does not count. For guests only, as it suspends the machine.
 */
#include "calls.h"

#define STATE	"/sys/power/state"
#define ALARM	"/sys/class/rtc/rtc0/wakealarm"

FIXTURE(suspend)
{
};

FIXTURE_SETUP(suspend)
{
	char *states = access(STATE, R_OK) ? NULL : must_slurp(STATE);

	if (!states || !strstr(states, "mem") || access(ALARM, W_OK))
		SKIP(return, "no suspend to memory, or no clock to wake it");
	free(states);
}

FIXTURE_TEARDOWN(suspend)
{
}

static void alarm_after(unsigned int seconds)
{
	char text[16];

	snprintf(text, sizeof(text), "+%u", seconds);
	/* An alarm that is set has to be cleared first. */
	if (write_file(ALARM, "0") || write_file(ALARM, text))
		die("%s: %s", ALARM, strerror(errno));
}

/* Sleep for longer on a machine that is too slow to tell. */
static int module_on(const char *clock)
{
	unsigned int seconds = 3;
	char more[32];
	int ret;

	do {
		/* If the alarm comes before the machine sleeps, nothing else wakes it. */
		alarm_after(4 * seconds);
		snprintf(more, sizeof(more), "seconds=%u", seconds);
		ret = run_guest("suspend", clock, more);
		seconds *= 2;
	} while (ret == -EAGAIN && seconds <= 48);
	return ret;
}

TEST_F(suspend, monotonic)
{
	EXPECT_EQ(0, module_on("monotonic"));
}

TEST_F(suspend, boottime)
{
	EXPECT_EQ(0, module_on("boottime"));
}

static int must_open_on(clockid_t clockid)
{
	struct hwtimer_setup setup = { .clockid = clockid };
	int fd = must_open(0);

	if (ioctl(fd, HWTIMER_IOC_SETUP, &setup))
		die("SETUP: %s", strerror(errno));
	return fd;
}

static __u64 schedule(int fd, __u64 time)
{
	struct hwtimer_schedule s = { .time = time };

	if (ioctl(fd, HWTIMER_IOC_SCHEDULE, &s))
		die("SCHEDULE: %s", strerror(errno));
	return s.id;
}

static void *reader(void *arg)
{
	int fd = *(int *)arg;
	struct hwtimer_record r;

	if (calls_read(fd, &r, 1) != 1 || r.taken_ns < r.deadline_ns ||
	    r.taken_ns > clock_ns(CLOCK_BOOTTIME))
		die("read");
	return NULL;
}

static __u64 asleep_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME) - now_ns();
}

TEST_F(suspend, contexts)
{
	int boot = must_open_on(CLOCK_BOOTTIME), mono = must_open_on(CLOCK_MONOTONIC);
	__u64 before, slept, deadline, seconds = 3;
	pthread_t thread;
	__u64 id;

	/* Sleep for longer on a machine that is too slow to tell. */
	do {
		ASSERT_GE(48, seconds);
		/* If the alarm comes before the machine sleeps, nothing else wakes it. */
		alarm_after(4 * seconds);
		before = asleep_ns();
		deadline = now_ns() + seconds * NSEC_PER_SEC;
		id = schedule(mono, deadline);
		schedule(boot, clock_ns(CLOCK_BOOTTIME) + seconds * NSEC_PER_SEC);
		start(&thread, reader, &boot);
		ASSERT_EQ(0, write_file(STATE, "mem"));
		slept = asleep_ns() - before;
		if (poll_in(mono, 0)) {
			/* By its own clock, it may have come by now. */
			ASSERT_LE(deadline, now_ns());
		}
		pthread_join(thread, NULL);
		if (calls_cancel(mono, id)) {
			ASSERT_LE(deadline, now_ns());
			slept = 0;
		}
		seconds *= 2;
	} while (slept < seconds / 2 * NSEC_PER_SEC || now_ns() >= deadline);
	close(boot);
	close(mono);
}

TEST_HARNESS_MAIN
