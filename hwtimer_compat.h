/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what differs between kernel versions. The code uses the names of
 * mainline; this file provides them on older kernels.
 */
#ifndef HWTIMER_COMPAT_H
#define HWTIMER_COMPAT_H

#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "hwtimer needs Linux 6.1 or later"
#endif

/* Namespaces of symbols are strings from 6.13 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define HWTIMER_IMPORT_NS(ns)	MODULE_IMPORT_NS(ns)
#else
#define HWTIMER_IMPORT_NS(ns)	MODULE_IMPORT_NS(#ns)
#endif

#endif /* HWTIMER_COMPAT_H */
