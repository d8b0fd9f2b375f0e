// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the wheels that contexts of /dev/hwtimer share, and how users are kept apart.
 *
 * What a program does with its timeouts costs CPU time in two places: in its own system calls, and
 * in the worker of its wheel, which takes submissions, cascades, expires, reports and frees.
 * (Workqueues only move workers to cgroups, and destroy wheels.) If two users shared a worker, each
 * could make the other late, and the worker's time could be charged to neither. Dividing the time
 * fairly would need a queue per user at each stage, down to the buckets of the wheel. The scheduler
 * does that for threads already. So users share no worker:
 *
 *  - A context uses a wheel of the user who opened it, in the cgroups of the task that schedules
 *    its first timeout or makes its rings. The wheel's worker is a thread in these cgroups, and
 *    is charged, weighted and throttled with them. If a user's timeouts need more than that share,
 *    they expire late; "late" in fdinfo counts such expiries. The thread of a context's own wheel
 *    (HWTIMER_SETUP_OWN_WHEEL) is in the cgroups of the task that called SETUP, and has its nice
 *    value.
 *
 *  - A user is a uid of the initial user namespace. A user of another namespace counts as the owner
 *    of the outermost one that contains it, below the initial one: otherwise a user with
 *    subordinate uids would have a worker for each of them.
 *
 *  - A worker takes ctx->lock of its own user's contexts only. If the holder of the lock is
 *    throttled or preempted, only that worker waits, so only that user's timeouts are late. (The
 *    holder may belong to another user, if the descriptor was passed on.) Users do share spinlocks,
 *    which are held to walk a list at most. To make and destroy a wheel, they also share locks of
 *    the kernel: those of cgroups, which a kworker takes on their behalf, and that of a directory
 *    in debugfs.
 *
 *  - A worker or system call that causes poll events wakes the waiters after it dropped ctx->lock.
 *    Waking thousands of pollers costs CPU time of their own user.
 *
 *  - The worker frees the timeouts of a closed context one by one, as it releases them (on an own
 *    wheel, close(2) does). The worker or close(2), whichever comes last, frees the rest: the
 *    context, its rings, and with rings the array of timeouts.
 *
 *  - Wheel "dev" is the shared wheel of root in the root cgroup. It exists as long as the module is
 *    loaded. Its worker joins no cgroup, and so stays in the one in which kthreads start.
 *
 * The price is a wheel and its thread for each set of cgroups from which a user schedules timeouts.
 * A wheel is made for the first timeout, or rings, not in open(2): misc_open() holds a lock that
 * all misc devices share, and making a wheel may wait for memory and cgroup locks. Without
 * CAP_SYS_RESOURCE, a user has at most max_user_shared_wheels. A wheel is destroyed LINGER after
 * its last context was freed. Not at once, because joining cgroups stalls all forks for a moment,
 * and a program that opens and closes in a loop must not cause that each time. Not much later,
 * because the worker keeps its cgroup from being removed.
 *
 * Limitations: from Linux 6.18 on, cpu.max does not throttle kernel threads. A worker is still
 * charged to its cgroups, and has their weight, but no limit. pids.current counts the workers, but
 * pids.max does not limit them; max_user_wheels and max_user_shared_wheels do. If a cgroup has a
 * worker in it, cgroup.events never reports it as frozen (cgroup.freeze), although its processes
 * are frozen.
 *
 * Operations and expiries cost the same as on one wheel for all users, except that a tick at which
 * timeouts of several users expire wakes a worker for each of them.
 */
#define pr_fmt(fmt) "hwtimer: " fmt

#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/time.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "../hwtimer.h"
#include "shared.h"
#include "user.h"

/* How long a wheel stays after its last context was freed, in jiffies. */
#define LINGER	(HZ / 5)

static unsigned long long tick_ns = NSEC_PER_MSEC;
module_param(tick_ns, ullong, 0444);
MODULE_PARM_DESC(tick_ns, "tick of the shared wheels of /dev/hwtimer in ns (default 1000000)");

static unsigned int slots = 64;
module_param(slots, uint, 0444);
MODULE_PARM_DESC(slots, "slots per level of the shared wheels (default 64)");

/**
 * struct hwtimer_shared - a shared wheel
 * @list: in shared_wheels; empty while the wheel is being destroyed. Protected by shared_lock
 * @user: the user of the wheel, who is charged for it; NULL for "dev", which is root's and charged
 *	to nobody. Constant
 * @wheel: the wheel. Constant
 * @contexts: how many contexts use the wheel; for "dev" one more, so that it stays. Protected by
 *	shared_lock
 * @destroy_work: destroys the wheel if it is still unused
 */
struct hwtimer_shared {
	struct list_head	list;
	struct hwtimer_user	*user;
	struct hwtimer_wheel	*wheel;
	unsigned long		contexts;
	struct delayed_work	destroy_work;
};

static LIST_HEAD(shared_wheels);
static DEFINE_SPINLOCK(shared_lock);
static struct hwtimer_shared *root_shared;
/* Not a system workqueue, because the module's exit waits for wheels that are being destroyed. */
static struct workqueue_struct *destroy_wq;

static void destroy(struct hwtimer_shared *s)
{
	hwtimer_wheel_destroy(s->wheel);
	if (s->user) {
		hwtimer_user_uncharge(s->user, HWTIMER_LIMIT_SHARED_WHEELS, 1);
		hwtimer_user_put(s->user);
	}
	kfree(s);
}

/* Destroy the wheel, unless it is in use again. */
static void destroy_unused(struct work_struct *work)
{
	struct hwtimer_shared *s = container_of(to_delayed_work(work), struct hwtimer_shared,
						destroy_work);
	bool unused;

	spin_lock(&shared_lock);
	/* Used and unused again since? Then the work is pending, and its next run destroys. */
	unused = !s->contexts && !delayed_work_pending(&s->destroy_work) && !list_empty(&s->list);
	if (unused)
		list_del_init(&s->list);
	spin_unlock(&shared_lock);
	if (unused)
		destroy(s);
}

static struct hwtimer_shared *create(const struct hwtimer_wheel_params *params)
{
	struct hwtimer_shared *s = kzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);
	struct hwtimer_wheel *wheel;

	if (!s)
		return ERR_PTR(-ENOMEM);
	wheel = hwtimer_wheel_create(params);
	if (IS_ERR(wheel)) {
		kfree(s);
		return ERR_CAST(wheel);
	}
	s->wheel = wheel;
	s->contexts = 1;
	INIT_DELAYED_WORK(&s->destroy_work, destroy_unused);
	return s;
}

static kuid_t uid_of(const struct hwtimer_shared *s)
{
	return s->user ? hwtimer_user_uid(s->user) : GLOBAL_ROOT_UID;
}

/* The wheel of @uid whose worker is in the caller's cgroups, or NULL. */
static struct hwtimer_shared *find(kuid_t uid)
{
	struct hwtimer_shared *s;

	lockdep_assert_held(&shared_lock);
	list_for_each_entry(s, &shared_wheels, list)
		if (uid_eq(uid_of(s), uid) && hwtimer_wheel_in_my_cgroups(s->wheel))
			return s;
	return NULL;
}

/* Find the caller's wheel and count one more context; if there is none, add @made (or NULL). */
static struct hwtimer_shared *find_or_add(kuid_t uid, struct hwtimer_shared *made)
{
	struct hwtimer_shared *s;

	spin_lock(&shared_lock);
	s = find(uid);
	if (s) {
		s->contexts++;
	} else if (made) {
		list_add_tail(&made->list, &shared_wheels);
		s = made;
	}
	spin_unlock(&shared_lock);
	return s;
}

#define PARAMS(_name, _flags)	{						\
	.name = (_name),							\
	.tick_ns = tick_ns,							\
	.slots = slots,								\
	.flags = (_flags) | HWTIMER_WHEEL_SHARED,				\
}

/**
 * hwtimer_shared_get - get the shared wheel for a context: that of @user in the caller's cgroups
 * @user: the user who opened the context
 *
 * Context: Process context, may sleep.
 *
 * Return: the wheel, to be put with hwtimer_shared_put(); -EDQUOT if the user has reached
 * max_user_shared_wheels, or if the caller was killed; or an error of hwtimer_wheel_create().
 */
struct hwtimer_shared *hwtimer_shared_get(struct hwtimer_user *user)
{
	kuid_t uid = hwtimer_user_uid(user);
	struct hwtimer_shared *s, *made;
	char name[HWTIMER_NAME_LEN];
	struct hwtimer_wheel_params params = PARAMS(name, HWTIMER_WHEEL_ACCOUNT);

	s = find_or_add(uid, NULL);
	if (s)
		return s;
	snprintf(name, sizeof(name), "uid-%u", from_kuid(&init_user_ns, uid));
	if (!hwtimer_user_charge(user, HWTIMER_LIMIT_SHARED_WHEELS, 1))
		return ERR_PTR(-EDQUOT);
	/* Not under the lock: this may wait for memory or CPU time of the caller's cgroup. */
	made = create(&params);
	if (IS_ERR(made)) {
		hwtimer_user_uncharge(user, HWTIMER_LIMIT_SHARED_WHEELS, 1);
		return made;
	}
	made->user = hwtimer_user_hold(user);
	s = find_or_add(uid, made);
	if (s != made)
		destroy(made);
	return s;
}

/**
 * hwtimer_shared_put - put the shared wheel of a context
 * @s: the wheel, which does not hold timeouts of the context any more
 *
 * Context: Process context.
 */
void hwtimer_shared_put(struct hwtimer_shared *s)
{
	spin_lock(&shared_lock);
	if (!--s->contexts)
		mod_delayed_work(destroy_wq, &s->destroy_work, LINGER);
	spin_unlock(&shared_lock);
}

/**
 * hwtimer_shared_wheel - the wheel itself
 * @s: the shared wheel; NULL: "dev", whose clock, tick and slots all shared wheels have
 *
 * Context: Any context.
 *
 * Return: the wheel.
 */
struct hwtimer_wheel *hwtimer_shared_wheel(const struct hwtimer_shared *s)
{
	return s ? s->wheel : root_shared->wheel;
}

/**
 * hwtimer_shared_init - create wheel "dev"
 *
 * Return: 0 or a negative error.
 */
int __init hwtimer_shared_init(void)
{
	const struct hwtimer_wheel_params params = PARAMS("dev", 0);

	destroy_wq = alloc_workqueue("hwtimer_wheels", WQ_UNBOUND, 0);
	if (!destroy_wq)
		return -ENOMEM;
	root_shared = create(&params);
	if (IS_ERR(root_shared)) {
		pr_err("no wheel of tick_ns=%llu slots=%u: %ld\n", tick_ns, slots,
		       PTR_ERR(root_shared));
		destroy_workqueue(destroy_wq);
		return PTR_ERR(root_shared);
	}
	list_add_tail(&root_shared->list, &shared_wheels);
	return 0;
}

/**
 * hwtimer_shared_exit - destroy all shared wheels
 *
 * No file is open. The workers, or hwtimer_wheel_stop(), free the closed contexts that are left.
 * Waits for wheels that the workqueue is destroying.
 */
void hwtimer_shared_exit(void)
{
	struct hwtimer_shared *s;

	for (;;) {
		spin_lock(&shared_lock);
		s = list_first_entry_or_null(&shared_wheels, struct hwtimer_shared, list);
		if (s)
			list_del_init(&s->list);
		spin_unlock(&shared_lock);
		if (!s)
			break;
		/* This frees the last contexts, which may queue destroy_work. */
		hwtimer_wheel_stop(s->wheel, NULL);
		cancel_delayed_work_sync(&s->destroy_work);
		destroy(s);
	}
	destroy_workqueue(destroy_wq);
}
