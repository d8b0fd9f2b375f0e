/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the live wheels and their statistics, for /dev/hwtimer and /dev/hwtimer-table.
 */
#ifndef HWTIMER_STATS_H
#define HWTIMER_STATS_H

#include <linux/types.h>

struct hwtimer_wheel;
struct hwtimer_wheel_info;
struct hwtimer_wheel_stats;

u64 hwtimer_wheel_id(const struct hwtimer_wheel *wheel);
u64 hwtimer_stats_next(u64 from);
bool hwtimer_stats_get(u64 id, struct hwtimer_wheel_stats *stats);

/* hwtimer_wheels.c */
bool hwtimer_wheels_get(u64 id, struct hwtimer_wheel_info *info);

#endif /* HWTIMER_STATS_H */
