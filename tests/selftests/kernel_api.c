// SPDX-License-Identifier: GPL-2.0-only
/*
 * The API for other modules, on this kernel: loads hwtimer_guest (tests/guest) once
 * for each case and driver, and with the other clock where that matters. What failed
 * is in the kernel's log, and is shown here.
 */
#include "hwt_guest.h"

FIXTURE(kernel_api)
{
};

FIXTURE_VARIANT(kernel_api)
{
	const char *driver;
};

FIXTURE_VARIANT_ADD(kernel_api, kthread)
{
	.driver = "kthread",
};

FIXTURE_VARIANT_ADD(kernel_api, hrtimer)
{
	.driver = "hrtimer",
};

FIXTURE_TEARDOWN(kernel_api)
{
}

FIXTURE_SETUP(kernel_api)
{
}

TEST_F(kernel_api, books)
{
	EXPECT_EQ(0, run_guest("books", variant->driver, "monotonic"));
}

TEST_F(kernel_api, books_boottime)
{
	EXPECT_EQ(0, run_guest("books", variant->driver, "boottime"));
}

TEST_F(kernel_api, stop)
{
	EXPECT_EQ(0, run_guest("stop", variant->driver, "monotonic"));
}

TEST_F(kernel_api, stops)
{
	EXPECT_EQ(0, run_guest("stops", variant->driver, "monotonic"));
}

TEST_F(kernel_api, sync)
{
	EXPECT_EQ(0, run_guest("sync", variant->driver, "monotonic"));
}

TEST_F(kernel_api, barrier)
{
	EXPECT_EQ(0, run_guest("barrier", variant->driver, "monotonic"));
}

TEST_F(kernel_api, burst)
{
	EXPECT_EQ(0, run_guest("burst", variant->driver, "monotonic"));
}

TEST_F(kernel_api, hotplug)
{
	int ret = run_guest("hotplug", variant->driver, "monotonic");

	if (ret == -EOPNOTSUPP)
		SKIP(return, "no second CPU");
	EXPECT_EQ(0, ret);
}

TEST_F(kernel_api, hotplug_boottime)
{
	int ret = run_guest("hotplug", variant->driver, "boottime");

	if (ret == -EOPNOTSUPP)
		SKIP(return, "no second CPU");
	EXPECT_EQ(0, ret);
}

TEST_HARNESS_MAIN
