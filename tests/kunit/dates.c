// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_dates: conversion between the program's clock and the wheel's at the
 * limits, the table of dates, and noticing that CLOCK_REALTIME was set, without setting it.
 */
#include <kunit/test.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/timekeeping.h>

#include "../../dev/ctx.h"
#include "hwtimer_kunit.h"

static void shifts(struct kunit *test)
{
	static const struct {
		u64 time;
		s64 by;
		u64 shifted;
	} cases[] = {
		{ 0, 0, 0 }, { 5, 0, 5 }, { 5, 3, 8 },
		/* before the beginning */
		{ 5, -4, 1 }, { 5, -5, 0 }, { 5, -6, 0 }, { 0, -1, 0 }, { 0, S64_MIN, 0 },
		{ BIT_ULL(63), S64_MIN, 0 }, { BIT_ULL(63) + 1, S64_MIN, 1 },
		/* after the end */
		{ U64_MAX - 5, 4, U64_MAX - 1 }, { U64_MAX - 5, 5, HWTIMER_NEVER },
		{ U64_MAX - 5, 6, HWTIMER_NEVER }, { U64_MAX - 5, S64_MAX, HWTIMER_NEVER },
		{ U64_MAX - S64_MAX - 1, S64_MAX, U64_MAX - 1 },
		/* never stays never */
		{ HWTIMER_NEVER, 1, HWTIMER_NEVER }, { HWTIMER_NEVER, -1, HWTIMER_NEVER },
		{ HWTIMER_NEVER, S64_MIN, HWTIMER_NEVER },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, cases[i].shifted,
				    hwtimer_ctx_shift(cases[i].time, cases[i].by), "case %u", i);
}

/* Each timeout has a date of its own, which stays where it is when others are reserved. */
static void table(struct kunit *test)
{
	static const u32 indexes[] = {
		0, 1, 255, 256, 257, 511, 512, 65535, 65536, MAX_CAP - 257, MAX_CAP - 1,
	};
	struct ctx_clock *clock = hwtimer_dates_create(NULL, GFP_KERNEL);
	struct ctx_date *dates[ARRAY_SIZE(indexes)];
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, clock);
	for (i = 0; i < ARRAY_SIZE(indexes); i++) {
		KUNIT_ASSERT_EQ(test, 0, hwtimer_dates_reserve(clock, indexes[i], GFP_KERNEL));
		KUNIT_ASSERT_EQ(test, 0, hwtimer_dates_reserve(clock, indexes[i], GFP_KERNEL));
		dates[i] = hwtimer_dates_find(clock, indexes[i]);
		KUNIT_EXPECT_EQ(test, 0ULL, dates[i]->deadline);
		dates[i]->deadline = i + 1;
	}
	for (i = 0; i < ARRAY_SIZE(indexes); i++) {
		KUNIT_EXPECT_PTR_EQ(test, dates[i], hwtimer_dates_find(clock, indexes[i]));
		KUNIT_EXPECT_EQ(test, i + 1ULL, dates[i]->deadline);
	}
	hwtimer_dates_free(clock);
	hwtimer_dates_free(NULL);
}

static void no_callback(struct hwtimer_timeout *t)
{
}

static void notices(struct kunit *test)
{
	struct hwtimer_wheel *wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
		.name = "dates", .tick_ns = 10 * NSEC_PER_MSEC, .slots = 16,
		.clock = HWTIMER_CLOCK_BOOTTIME });
	struct ctx_clock *clock = hwtimer_dates_create(NULL, GFP_KERNEL);
	s64 offset = hwtimer_dates_offset(), real = offset;
	u64 now;

	KUNIT_ASSERT_FALSE(test, IS_ERR(wheel));
	KUNIT_ASSERT_NOT_NULL(test, clock);
	now = ktime_get_real_ns();
	KUNIT_EXPECT_GE(test, hwtimer_wheel_now(wheel) + real, now);
	now = hwtimer_wheel_now(wheel) + real;
	KUNIT_EXPECT_GE(test, ktime_get_real_ns(), now);
	hwtimer_init(&clock->follow, wheel, no_callback);
	hwtimer_dates_notice(clock, &offset);
	KUNIT_EXPECT_EQ(test, 0U, clock->set);
	KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&clock->follow));
	for (offset--; clock->set < 2; offset += 2) {
		u32 set = clock->set;

		hwtimer_dates_notice(clock, &offset);
		KUNIT_ASSERT_EQ(test, set + 1, clock->set);
		KUNIT_EXPECT_EQ(test, real, offset);
		KUNIT_EXPECT_TRUE(test, hwtimer_is_pending(&clock->follow));
		KUNIT_EXPECT_EQ(test, 0, hwtimer_cancel_sync(&clock->follow) < 0);
	}
	hwtimer_wheel_destroy(wheel);
	hwtimer_dates_free(clock);
}

static struct kunit_case dates_cases[] = {
	KUNIT_CASE(shifts),
	KUNIT_CASE(table),
	KUNIT_CASE(notices),
	{}
};

SUITE(dates, "dates");
