/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what differs between kernel versions. The code uses the names of
 * mainline; this file provides them on older kernels.
 */
#ifndef HWTIMER_COMPAT_H
#define HWTIMER_COMPAT_H

#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/version.h>
#include <linux/workqueue.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "hwtimer needs Linux 6.1 or later"
#endif

/* Namespaces of symbols are strings from 6.13 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define HWTIMER_IMPORT_NS(ns)	MODULE_IMPORT_NS(ns)
#else
#define HWTIMER_IMPORT_NS(ns)	MODULE_IMPORT_NS(#ns)
#endif

/* hrtimer_init() is gone from 6.15 on; hrtimer_setup() came in 6.13. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}
#endif

/* eventfd_signal() adds 1 from 6.8 on, and was told how much before. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
#define eventfd_signal(ctx)	eventfd_signal(ctx, 1)
#endif

/* timer_destroy_on_stack() was destroy_timer_on_stack() before 6.16. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
#define timer_destroy_on_stack(timer)	destroy_timer_on_stack(timer)
#endif

/*
 * Before 6.17 system_dfl_wq was system_unbound_wq, and a workqueue was per CPU if its flags
 * did not say otherwise. Later kernels warn of both.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define WQ_PERCPU	0
#define system_dfl_wq	system_unbound_wq
#endif

#endif /* HWTIMER_COMPAT_H */
