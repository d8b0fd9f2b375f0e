/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HWTIMER_DEBUG_CONTEXTS_H
#define HWTIMER_DEBUG_CONTEXTS_H

struct dentry;

void hwtimer_contexts_add(struct dentry *dir);

#endif /* HWTIMER_DEBUG_CONTEXTS_H */
