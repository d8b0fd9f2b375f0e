/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HWTIMER_DEV_CALLS_H
#define HWTIMER_DEV_CALLS_H

#include <linux/uio.h>

#include "context.h"

int hwtimer_calls_setup(struct context *c, struct hwtimer_setup *s);
int hwtimer_calls_schedule(struct context *c, struct hwtimer_schedule *s);
int hwtimer_calls_touch(struct context *c, const struct hwtimer_touch *t);
int hwtimer_calls_cancel(struct context *c, const struct hwtimer_cancel *t);
int hwtimer_calls_query(struct context *c, struct hwtimer_query *q);
ssize_t hwtimer_calls_read(struct context *c, struct iov_iter *to, bool block);

#endif /* HWTIMER_DEV_CALLS_H */
