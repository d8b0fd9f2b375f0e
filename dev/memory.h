/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HWTIMER_DEV_MEMORY_H
#define HWTIMER_DEV_MEMORY_H

#include <linux/gfp.h>
#include <linux/types.h>

/* A program at its cgroup's limit gets -ENOMEM, not the OOM killer. */
#define GFP_MEMORY	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

struct memory_user;

struct memory_user *hwtimer_memory_user_get(void);
void hwtimer_memory_user_put(struct memory_user *user);
int hwtimer_memory_charge(struct memory_user *user, unsigned long bytes);
void hwtimer_memory_uncharge(struct memory_user *user, unsigned long bytes);
void *hwtimer_memory_page(struct memory_user *user);
void hwtimer_memory_page_free(void *page, struct memory_user *user);
void hwtimer_memory_pages_free(void **pages, u32 nr, struct memory_user *user);

#endif /* HWTIMER_DEV_MEMORY_H */
