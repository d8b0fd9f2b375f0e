/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: how contexts on CLOCK_REALTIME follow the clock when it is set.
 */
#ifndef DEV_CLOCK_H
#define DEV_CLOCK_H

#include "ctx.h"

/* Called under ctx->lock. */
void hwtimer_clock_publish(struct hwtimer_ctx *ctx, struct ctx_clock *clock);

/* Called without ctx->lock. */
void hwtimer_clock_add(struct hwtimer_ctx *ctx);
void hwtimer_clock_remove(struct hwtimer_ctx *ctx);
void hwtimer_clock_exit(void);

#endif /* DEV_CLOCK_H */
