/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the limits of a user of /dev/hwtimer, over all contexts.
 */
#ifndef DEV_USER_H
#define DEV_USER_H

#include <linux/rbtree.h>
#include <linux/types.h>
#include <linux/uidgid.h>

struct hwtimer_user;
struct seq_file;

/**
 * enum hwtimer_limit - what is limited per user without CAP_SYS_RESOURCE
 * @HWTIMER_LIMIT_TIMEOUTS: timeouts in the tables of its contexts
 * @HWTIMER_LIMIT_WHEELS: own wheels
 * @HWTIMER_LIMIT_RATE: the most expiries per second of its periodic timeouts, rounded up for each.
 *	To limit their number is not enough, as they expire without any system call
 * @HWTIMER_LIMIT_RING_KIB: memory of the rings of its contexts, in KiB
 * @HWTIMER_LIMIT_SHARED_WHEELS: shared wheels that its contexts use, and unused ones until they are
 *	destroyed
 * @HWTIMER_LIMITS: number of limits
 */
enum hwtimer_limit {
	HWTIMER_LIMIT_TIMEOUTS,
	HWTIMER_LIMIT_WHEELS,
	HWTIMER_LIMIT_RATE,
	HWTIMER_LIMIT_RING_KIB,
	HWTIMER_LIMIT_SHARED_WHEELS,
	HWTIMER_LIMITS,
};

/**
 * struct hwtimer_use - a context uses a wheel
 * @node: among the uses of its user
 * @wheel: the wheel's id; 0: none, and @node is not in use
 */
struct hwtimer_use {
	struct rb_node	node;
	u64		wheel;
};

struct hwtimer_user *hwtimer_user_get(void);
struct hwtimer_user *hwtimer_user_hold(struct hwtimer_user *user);
void hwtimer_user_put(struct hwtimer_user *user);
kuid_t hwtimer_user_uid(const struct hwtimer_user *user);
bool hwtimer_user_charge(struct hwtimer_user *user, enum hwtimer_limit limit,
			 unsigned long n);
void hwtimer_user_uncharge(struct hwtimer_user *user, enum hwtimer_limit limit,
			   unsigned long n);
void hwtimer_user_closing(struct hwtimer_user *user);
void hwtimer_user_closed(struct hwtimer_user *user);
void hwtimer_user_uses(struct hwtimer_user *user, struct hwtimer_use *use, u64 wheel);
u64 hwtimer_user_next_wheel(struct hwtimer_user *user, u64 from);
void hwtimer_user_show(struct seq_file *m, const struct hwtimer_user *user);
void hwtimer_user_exit(void);

#endif /* DEV_USER_H */
