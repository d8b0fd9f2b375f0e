/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: differences between kernel versions. The code uses the names of mainline; this file
 * provides them on older kernels.
 */
#ifndef HWTIMER_COMPAT_H
#define HWTIMER_COMPAT_H

#include <linux/cacheinfo.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/version.h>
#include <linux/workqueue.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "hwtimer needs Linux 6.1 or later"
#endif

/* hrtimer_setup() is new in 6.13; it replaces hrtimer_init(), which 6.15 removed. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define hrtimer_setup(timer, fn, clock_id, mode)				\
do {										\
	struct hrtimer *timer_ = timer;						\
										\
	hrtimer_init(timer_, clock_id, mode);					\
	timer_->function = fn;							\
} while (0)
#endif

/* vm_flags_set() is new in 6.3. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}
#endif

/* cpu_dcache_is_aliasing() is new in 6.9. Before, no macro says it for all architectures. */
#ifndef cpu_dcache_is_aliasing
#define cpu_dcache_is_aliasing()	false
#endif

/*
 * 6.17 renamed system_unbound_wq to system_dfl_wq, and added WQ_PERCPU for workqueues that had been
 * per CPU by default. Later kernels warn about the old name, and about workqueues without WQ_PERCPU
 * or WQ_UNBOUND.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define WQ_PERCPU	0
#define system_dfl_wq	system_unbound_wq
#endif

#endif /* HWTIMER_COMPAT_H */
