/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the deadlines of the timeouts of a context on CLOCK_REALTIME, on that clock.
 */
#ifndef DEV_DATES_H
#define DEV_DATES_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include "../hwtimer.h"

struct hwtimer_ctx;

/**
 * struct ctx_date - what a timeout is scheduled for
 * @deadline: on CLOCK_REALTIME, as the program gave it; periodic: the next one. Invalid if
 *	HWTIMER_RELATIVE is in @flags
 * @fired: when the timeout ended, on CLOCK_REALTIME as it was then; valid in TIMEOUT_DONE
 * @set: how often the clock had been set when the timeout was armed
 * @flags: HWTIMER_RELATIVE (until the timeout ends), HWTIMER_CANCEL_ON_SET
 */
struct ctx_date {
	u64	deadline;
	u64	fired;
	u32	set;
	u32	flags;
};

/**
 * struct ctx_clock - CLOCK_REALTIME as a context knows it
 * @ctx: the context. Constant
 * @list: on the list "clocks" of dev/clock.c
 * @follow: a timeout whose callback arms the context's timeouts again
 * @blocks: the dates, in blocks, one for each page of timeouts
 * @set: how many settings of the clock the context has noticed. This and @followed are protected by
 *	ctx->lock
 * @followed: the value of @set when @follow last began to arm timeouts again
 */
struct ctx_clock {
	struct hwtimer_ctx	*ctx;
	struct list_head	list;
	struct hwtimer_timeout	follow;
	struct xarray		blocks;
	u32			set;
	u32			followed;
};

struct ctx_clock *hwtimer_dates_create(struct hwtimer_ctx *ctx, gfp_t gfp);
void hwtimer_dates_free(struct ctx_clock *clock);
int hwtimer_dates_reserve(struct ctx_clock *clock, u32 index, gfp_t gfp);
int hwtimer_dates_reserve_all(struct ctx_clock *clock, u32 timeouts, gfp_t gfp);
void hwtimer_dates_drop(struct ctx_clock *clock, u32 first);
void hwtimer_dates_trim(struct ctx_clock *clock, u32 timeouts);
struct ctx_date *hwtimer_dates_find(struct ctx_clock *clock, u32 index);
s64 hwtimer_dates_offset(void);
void hwtimer_dates_notice(struct ctx_clock *clock, s64 *offset_ns);

#endif /* DEV_DATES_H */
