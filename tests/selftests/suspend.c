// SPDX-License-Identifier: GPL-2.0-only
/*
 * The machine is suspended, and woken by its RTC: a timeout on CLOCK_BOOTTIME that became due
 * meanwhile fires at once; on CLOCK_MONOTONIC the time asleep does not count. For guests only, as
 * it suspends the machine.
 */
#include "hwt_guest.h"
#include "suspend.h"

/* Sleep for longer on a machine that is too slow to tell. */
static int try_suspend(const char *clock)
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

TEST(monotonic)
{
	if (!can_suspend())
		SKIP(return, "no suspend to memory, or no clock to wake it");
	EXPECT_EQ(0, try_suspend("monotonic"));
}

TEST(boottime)
{
	if (!can_suspend())
		SKIP(return, "no suspend to memory, or no clock to wake it");
	EXPECT_EQ(0, try_suspend("boottime"));
}

TEST_HARNESS_MAIN
