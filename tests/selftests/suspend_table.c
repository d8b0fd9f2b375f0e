// SPDX-License-Identifier: GPL-2.0-only
/*
 * As suspend.c, for /dev/hwtimer-table: what became due on CLOCK_BOOTTIME while the machine was
 * suspended can be taken when it has been woken, and wakes who waits; on CLOCK_MONOTONIC the time
 * asleep does not count.
 */
#include "common.h"
#include "suspend.h"

#include <linux/hwtimer_table.h>

static int calls_open(clockid_t clockid)
{
	struct hwtimer_setup setup = { .clockid = clockid };
	int fd = open("/dev/hwtimer-table", O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, HWTIMER_IOC_SETUP, &setup))
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

	if (read(fd, &r, sizeof(r)) != sizeof(r) || r.taken_ns < r.deadline_ns ||
	    r.taken_ns > clock_ns(CLOCK_BOOTTIME))
		die("read");
	return NULL;
}

static __u64 asleep_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME) - now_ns();
}

TEST(calls)
{
	int boot = calls_open(CLOCK_BOOTTIME), mono = calls_open(CLOCK_MONOTONIC);
	__u64 before, slept, deadline, seconds = 3;
	struct hwtimer_cancel cancel;
	pthread_t thread;

	if (!can_suspend())
		SKIP(return, "no suspend to memory, or no clock to wake it");
	/* Sleep for longer on a machine that is too slow to tell. */
	do {
		ASSERT_GE(48, seconds);
		/* If the alarm comes before the machine sleeps, nothing else wakes it. */
		alarm_after(4 * seconds);
		before = asleep_ns();
		deadline = now_ns() + seconds * NSEC_PER_SEC;
		cancel.id = schedule(mono, deadline);
		schedule(boot, clock_ns(CLOCK_BOOTTIME) + seconds * NSEC_PER_SEC);
		ASSERT_EQ(0, pthread_create(&thread, NULL, reader, &boot));
		ASSERT_EQ(0, write_file(STATE, "mem"));
		slept = asleep_ns() - before;
		if (poll_in(mono, 0)) {
			/* By its own clock, it may have come by now. */
			ASSERT_LE(deadline, now_ns());
		}
		pthread_join(thread, NULL);
		if (ioctl(mono, HWTIMER_IOC_CANCEL, &cancel)) {
			ASSERT_LE(deadline, now_ns());
			slept = 0;
		}
		seconds *= 2;
	} while (slept < seconds / 2 * NSEC_PER_SEC || now_ns() >= deadline);
	close(boot);
	close(mono);
}

TEST_HARNESS_MAIN
