/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the live wheels and their figures, for the device.
 */
#ifndef HWTIMER_STATS_H
#define HWTIMER_STATS_H

#include <linux/types.h>

struct hwtimer_wheel_info;

u64 hwtimer_stats_next(u64 from, struct hwtimer_wheel_info *info);

#endif /* HWTIMER_STATS_H */
