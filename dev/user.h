/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what a user has of /dev/hwtimer, over all contexts, and may have.
 */
#ifndef DEV_USER_H
#define DEV_USER_H

#include <linux/types.h>
#include <linux/uidgid.h>

struct hwtimer_user;
struct seq_file;

/**
 * enum hwtimer_limit - what is limited per user, without CAP_SYS_RESOURCE
 * @HWTIMER_LIMIT_TIMEOUTS: timeouts in the tables of its contexts
 * @HWTIMER_LIMIT_WHEELS: own wheels
 * @HWTIMER_LIMIT_RATE: how often its periodic timeouts expire in a second at the worst, each
 *	rounded up. They go on without the program, so it is not enough to count them
 * @HWTIMER_LIMIT_RING_KIB: memory of the rings of its contexts, in KiB
 * @HWTIMER_LIMIT_SHARED_WHEELS: wheels that its contexts share, until they are destroyed
 * @HWTIMER_LIMITS: how many limits there are
 */
enum hwtimer_limit {
	HWTIMER_LIMIT_TIMEOUTS,
	HWTIMER_LIMIT_WHEELS,
	HWTIMER_LIMIT_RATE,
	HWTIMER_LIMIT_RING_KIB,
	HWTIMER_LIMIT_SHARED_WHEELS,
	HWTIMER_LIMITS,
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
void hwtimer_user_show(struct seq_file *m, const struct hwtimer_user *user);

#endif /* DEV_USER_H */
