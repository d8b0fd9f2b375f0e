// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what a user has of /dev/hwtimer, over all contexts, and may have.
 */
#include <linux/atomic.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "hwtimer_user.h"

static unsigned long max_user_timeouts = 1 << 20;
module_param(max_user_timeouts, ulong, 0644);
MODULE_PARM_DESC(max_user_timeouts,
		 "timeouts of one user without CAP_SYS_RESOURCE (default 1048576)");

static unsigned long max_user_wheels = 16;
module_param(max_user_wheels, ulong, 0644);
MODULE_PARM_DESC(max_user_wheels,
		 "own wheels of one user's contexts without CAP_SYS_RESOURCE (default 16)");

static unsigned long max_user_rate = 100000;
module_param(max_user_rate, ulong, 0644);
MODULE_PARM_DESC(max_user_rate,
		 "how often the periodic timeouts of one user without CAP_SYS_RESOURCE may expire in a second, all together; those that make up for what they missed: at each tick (default 100000)");

static const struct {
	const char		*name;
	const unsigned long	*max;
} limits[HWTIMER_LIMITS] = {
	[HWTIMER_LIMIT_TIMEOUTS] = { "timeouts", &max_user_timeouts },
	[HWTIMER_LIMIT_WHEELS] = { "wheels", &max_user_wheels },
	[HWTIMER_LIMIT_RATE] = { "rate", &max_user_rate },
};

/**
 * struct hwtimer_user - one user
 * @node: in users
 * @uid: who opened the device
 * @contexts: how many refer to this; protected by users_lock
 * @count: by enum hwtimer_limit
 */
struct hwtimer_user {
	struct hlist_node	node;
	kuid_t			uid;
	unsigned long		contexts;
	atomic_long_t		count[HWTIMER_LIMITS];
};

static DEFINE_HASHTABLE(users, 6);
static DEFINE_MUTEX(users_lock);

/**
 * hwtimer_user_get - the user of the caller
 *
 * Context: Process context, may sleep.
 *
 * Return: a reference, or NULL: no memory.
 */
struct hwtimer_user *hwtimer_user_get(void)
{
	kuid_t uid = current_uid();
	struct hwtimer_user *user;

	mutex_lock(&users_lock);
	hash_for_each_possible(users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			goto found;
	user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
	if (!user)
		goto out;
	user->uid = uid;
	hash_add(users, &user->node, __kuid_val(uid));
found:
	user->contexts++;
out:
	mutex_unlock(&users_lock);
	return user;
}

/**
 * hwtimer_user_put - drop a reference
 * @user: the user; nothing of what the reference was for is charged any more
 *
 * Context: Process context, may sleep.
 */
void hwtimer_user_put(struct hwtimer_user *user)
{
	mutex_lock(&users_lock);
	if (!--user->contexts) {
		hash_del(&user->node);
		kfree(user);
	}
	mutex_unlock(&users_lock);
}

/**
 * hwtimer_user_charge - count more
 * @user: who opened the device
 * @limit: of what
 * @n: how many
 *
 * It is the capability of the caller that matters.
 *
 * Context: Process context.
 *
 * Return: false if it would be above the limit; nothing is counted then.
 */
bool hwtimer_user_charge(struct hwtimer_user *user, enum hwtimer_limit limit,
			 unsigned long n)
{
	unsigned long max = READ_ONCE(*limits[limit].max);
	atomic_long_t *count = &user->count[limit];
	unsigned long old = atomic_long_read(count);

	do {
		if (old >= max || n > max - old) {
			if (!capable(CAP_SYS_RESOURCE))
				return false;
			atomic_long_add(n, count);
			return true;
		}
	} while (!atomic_long_try_cmpxchg(count, (long *)&old, old + n));
	return true;
}

/**
 * hwtimer_user_uncharge - count fewer
 * @user: the user
 * @limit: of what
 * @n: how many
 *
 * Context: Any context.
 */
void hwtimer_user_uncharge(struct hwtimer_user *user, enum hwtimer_limit limit,
			   unsigned long n)
{
	atomic_long_sub(n, &user->count[limit]);
}

/**
 * hwtimer_user_show - for fdinfo
 * @m: where to
 * @user: the user
 */
void hwtimer_user_show(struct seq_file *m, const struct hwtimer_user *user)
{
	unsigned int i;

	for (i = 0; i < HWTIMER_LIMITS; i++) {
		seq_printf(m, "user_%s: %ld\n", limits[i].name,
			   atomic_long_read(&user->count[i]));
		seq_printf(m, "max_user_%s: %lu\n", limits[i].name,
			   READ_ONCE(*limits[i].max));
	}
}
