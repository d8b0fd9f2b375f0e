/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libhwtimer: handles in the process, private to the library. See process.c.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include "handle.h"

int hwtimer_process_open(struct hwtimer *h, const struct hwtimer_options *o);
void hwtimer_process_free(struct hwtimer *h);
int hwtimer_process_grow(struct hwtimer *h, uint32_t slots);
void hwtimer_process_stop(struct hwtimer *h);
int hwtimer_process_advance(struct hwtimer *h, uint64_t ns);
bool hwtimer_process_take(struct hwtimer *h, uint32_t *index);
void hwtimer_process_stats(struct hwtimer *h, struct hwtimer_stats *stats);

#endif /* PROCESS_H */
