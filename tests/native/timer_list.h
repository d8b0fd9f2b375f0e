/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the kernel's timer_list, as a part of the benchmark.
 */
#ifndef NATIVE_TIMER_LIST_H
#define NATIVE_TIMER_LIST_H

#include <native.h>

/* The C library has a function of this name. */
#define timer_delete	kernel_timer_delete
#include <linux/timer.h>

extern u64 jiffies_64;	/* advanced by the benchmark */

void timer_list_begin(void);
void timer_list_run(void);

#endif /* NATIVE_TIMER_LIST_H */
