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
	int fd;
};

FIXTURE_VARIANT(suspend)
{
	clockid_t	clock;
	const char	*parameters;
};

FIXTURE_VARIANT_ADD(suspend, monotonic) { CLOCK_MONOTONIC, "" };
FIXTURE_VARIANT_ADD(suspend, boottime) { CLOCK_BOOTTIME, "boottime=1" };

FIXTURE_SETUP(suspend)
{
	char *states = access(STATE, R_OK) ? NULL : must_slurp(STATE);
	struct hwtimer_setup setup = { .clockid = variant->clock };

	if (!states || !strstr(states, "mem") || access(ALARM, W_OK))
		SKIP(return, "no suspend to memory, or no clock to wake it");
	free(states);
	self->fd = must_open(0);
	ASSERT_EQ(0, ioctl(self->fd, HWTIMER_IOC_SETUP, &setup));
	ASSERT_EQ(0, load(REMOTE, variant->parameters));
}

FIXTURE_TEARDOWN(suspend)
{
	close(self->fd);
	EXPECT_EQ(0, unload(REMOTE));
}

static void alarm_after(__u64 seconds)
{
	char text[16];

	snprintf(text, sizeof(text), "+%llu", seconds);
	/* An alarm that is set has to be cleared first. */
	if (write_file(ALARM, "0") || write_file(ALARM, text))
		die("%s: %s", ALARM, strerror(errno));
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

TEST_F(suspend, asleep)
{
	const bool counts = variant->clock == CLOCK_BOOTTIME;
	__u64 seconds, span, due, slept, expired = 0, id;
	pthread_t thread;
	bool came, proved;

	/* Sleep for longer on a machine that is too slow to tell. */
	for (seconds = 3, proved = false; !proved; seconds *= 2) {
		ASSERT_GE(48, seconds);
		/* If the alarm comes before the machine sleeps, nothing else wakes it. */
		alarm_after(4 * seconds);
		span = seconds * NSEC_PER_SEC;
		slept = asleep_ns();
		due = now_ns() + span;
		id = must_schedule(self->fd, span, 0);
		ASSERT_EQ(0, tell_remote("arm 0 1 %llu", span));
		ASSERT_EQ(0, tell_remote("arm 1 1 %llu", 1000 * span));
		if (counts)
			start(&thread, reader, &self->fd);
		ASSERT_EQ(0, write_file(STATE, "mem"));
		slept = asleep_ns() - slept;
		if (counts) {
			pthread_join(thread, NULL);
			eventually(must_wheel_value(REMOTE, "expired") == expired + 1);
		}
		came = poll_in(self->fd, 0) || must_wheel_value(REMOTE, "expired") > expired;
		/* By now, it would have come without a suspend. */
		proved = slept >= span && now_ns() < due;
		ASSERT_TRUE(came == counts || !proved);
		calls_cancel(self->fd, id);
		tell_remote("cancel 0 1");
		expired = must_wheel_value(REMOTE, "expired");
		EXPECT_EQ(1, must_wheel_value(REMOTE, "pending"));
	}
}

TEST_HARNESS_MAIN
