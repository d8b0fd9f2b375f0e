/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HWTIMER_DEV_SLOTS_H
#define HWTIMER_DEV_SLOTS_H

#include "context.h"

int hwtimer_slots_setup(struct context *c, struct hwtimer_setup *s);

#endif /* HWTIMER_DEV_SLOTS_H */
