/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: changing the size of a context of /dev/hwtimer.
 */
#ifndef DEV_RESIZE_H
#define DEV_RESIZE_H

#include <linux/types.h>

struct hwtimer_ctx;

int hwtimer_ctx_resize(struct hwtimer_ctx *ctx, u32 timeouts);
void hwtimer_ctx_give_back_all(struct hwtimer_ctx *ctx);

#endif /* DEV_RESIZE_H */
