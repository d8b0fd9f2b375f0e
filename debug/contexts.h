/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HWTIMER_DEBUG_CONTEXTS_H
#define HWTIMER_DEBUG_CONTEXTS_H

#include <linux/fs.h>

extern const struct file_operations hwtimer_contexts_fops;

#endif /* HWTIMER_DEBUG_CONTEXTS_H */
