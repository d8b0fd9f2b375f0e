// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the wheels that contexts of /dev/hwtimer share, and how users are kept apart.
 *
 * What a program asks of the kernel costs CPU time in three places: in its own system calls, in
 * the worker of its wheel (taking submissions, cascading, expiring, reporting), and where
 * contexts are freed. If the workers of two users were one, each could make the other late, and
 * nobody would be charged for what the worker does. Dividing one worker's time fairly among
 * users would need a queue for each user at each step, down to the buckets of the wheel. The
 * scheduler does that already, for threads. So users share no worker:
 *
 *  - The contexts that a user opens in one set of cgroups share a wheel, whose worker is a
 *    thread in these cgroups. It is charged to them, weighted by them and throttled by them. Who
 *    asks for more than his share is late himself: fdinfo has a counter ("late") of that. The
 *    wheel of a context's own (HWTIMER_SETUP_OWN_WHEEL) has its thread there, too, at the nice
 *    value of the task that made it. vhost charges its workers in this way.
 *
 *  - A user is the owner of the outermost user namespace below the initial one, as for limits
 *    (hwtimer_user.c). Or else whoever has subordinate uids would have a worker for each.
 *
 *  - Locks: a worker takes the locks of its own contexts only, whose holders can be throttled
 *    or preempted for as long as the user likes. It makes nobody else late by waiting.
 *
 *  - Waiters are woken by the worker, and by nobody else, after it has dropped the lock of the
 *    context: thousands of pollers are the time of the worker that serves them.
 *
 *  - Timeouts of a context that is closed are freed by the worker, too, one by one as it
 *    releases them. A workqueue does what is left: unmapping the rings, and freeing the
 *    slots. That takes a fraction of what the user was charged for when he made them.
 *
 *  - Wheel "dev" is that of root in the root cgroup. It is made when the module is loaded, and
 *    always there. Its worker is in the root cgroup, as all kernel threads are.
 *
 * The price is a thread and a wheel, about 100 KiB, for each user and each set of cgroups. It is
 * made for the first timeout, not in open(2): misc_open() holds a lock that all misc devices
 * share, and the thread may have to wait for CPU time of its cgroup. max_user_cgroups limits how
 * many wheels one user has: beyond that, contexts share the one that was made last. A wheel is
 * destroyed LINGER after its last context was closed: joining cgroups stalls forks for a moment,
 * and who opens and closes in a loop must not do that each time. It must not stay long, for its
 * worker keeps the cgroup from being removed.
 *
 * An operation costs the same as before. An expiry is not dearer, either, but workers of several
 * users wake one by one.
 */
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

#include "hwtimer.h"
#include "hwtimer_shared.h"
#include "hwtimer_user.h"

/* How long a wheel stays when its last context has been closed. */
#define LINGER	(HZ / 5)

static unsigned long long tick_ns = NSEC_PER_MSEC;
module_param(tick_ns, ullong, 0444);
MODULE_PARM_DESC(tick_ns, "tick of the shared wheels of /dev/hwtimer in ns (default 1000000)");

static unsigned int slots = 4096;
module_param(slots, uint, 0444);
MODULE_PARM_DESC(slots, "slots per level of the shared wheels, which grow (default 4096)");

static unsigned int max_user_cgroups = 64;
module_param(max_user_cgroups, uint, 0644);
MODULE_PARM_DESC(max_user_cgroups,
		 "shared wheels of one user: one for each set of cgroups that he opens the device in (default 64)");

/**
 * struct hwtimer_shared - a shared wheel
 * @list: in shared_wheels; empty: it is being destroyed. Protected by shared_lock, as @contexts
 * @uid: whose it is. Constant
 * @wheel: the wheel. Constant
 * @contexts: how many use it; of "dev" one more, so that it stays
 * @free_work: destroys it
 */
struct hwtimer_shared {
	struct list_head	list;
	kuid_t			uid;
	struct hwtimer_wheel	*wheel;
	unsigned long		contexts;
	struct delayed_work	free_work;
};

static LIST_HEAD(shared_wheels);
static DEFINE_SPINLOCK(shared_lock);
static struct hwtimer_shared *dev;
/* Of its own: to destroy a wheel, one may have to wait for a thread that is throttled. */
static struct workqueue_struct *free_wq;

static void destroy(struct hwtimer_shared *s)
{
	hwtimer_wheel_destroy(s->wheel);
	kfree(s);
}

/* Destroy it, unless it is in use again. */
static void free_shared(struct work_struct *work)
{
	struct hwtimer_shared *s = container_of(to_delayed_work(work), struct hwtimer_shared,
						free_work);
	bool unused;

	spin_lock(&shared_lock);
	/* If it was used in the meantime and is not any more, the work is pending once more. */
	unused = !s->contexts && !delayed_work_pending(&s->free_work) && !list_empty(&s->list);
	if (unused)
		list_del_init(&s->list);
	spin_unlock(&shared_lock);
	if (unused)
		destroy(s);
}

static struct hwtimer_shared *create(kuid_t uid, const struct hwtimer_wheel_params *params)
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
	s->uid = uid;
	s->wheel = wheel;
	s->contexts = 1;
	INIT_DELAYED_WORK(&s->free_work, free_shared);
	return s;
}

/* A wheel of @uid whose worker is in the caller's cgroups, or any if there are too many. */
static struct hwtimer_shared *find(kuid_t uid)
{
	struct hwtimer_shared *s, *other = NULL;
	unsigned int n = 0;

	list_for_each_entry(s, &shared_wheels, list) {
		if (!uid_eq(s->uid, uid))
			continue;
		if (hwtimer_wheel_in_my_cgroups(s->wheel))
			return s;
		other = s;
		n++;
	}
	return n < READ_ONCE(max_user_cgroups) ? NULL : other;
}

/* The wheel that is to be used, counted; or else add @made, which may be NULL. */
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

/* With 1 slot there is nothing to grow. */
#define PARAMS(_name, _flags)	{						\
	.name = (_name),							\
	.tick_ns = tick_ns,							\
	.slots = slots,								\
	.flags = (_flags) | (slots > 1 ? HWTIMER_WHEEL_GROW : 0),		\
}

/**
 * hwtimer_shared_get - the shared wheel of a context
 * @user: who opened it. The cgroups are the caller's
 *
 * Context: Process context, may sleep.
 *
 * Return: to be given back by hwtimer_shared_put(), or an ERR_PTR() as hwtimer_wheel_create().
 */
struct hwtimer_shared *hwtimer_shared_get(const struct hwtimer_user *user)
{
	kuid_t uid = hwtimer_user_uid(user);
	struct hwtimer_shared *s = find_or_add(uid, NULL), *made;
	char name[HWTIMER_NAME_LEN];
	struct hwtimer_wheel_params params = PARAMS(name, HWTIMER_WHEEL_ACCOUNT);

	if (s)
		return s;
	snprintf(name, sizeof(name), "uid-%u", from_kuid(&init_user_ns, uid));
	/* Not under the lock: this may wait for the memory, or the CPU, of the caller's cgroup. */
	made = create(uid, &params);
	if (IS_ERR(made))
		return made;
	s = find_or_add(uid, made);
	if (s != made)
		destroy(made);
	return s;
}

/**
 * hwtimer_shared_put - a context does not need its shared wheel any more
 * @s: the wheel, which holds none of the context's timeouts
 *
 * Context: Process context, may sleep.
 */
void hwtimer_shared_put(struct hwtimer_shared *s)
{
	spin_lock(&shared_lock);
	if (!--s->contexts)
		mod_delayed_work(free_wq, &s->free_work, LINGER);
	spin_unlock(&shared_lock);
}

/**
 * hwtimer_shared_wheel - the wheel itself
 * @s: the shared wheel. NULL: "dev", which has the clock, tick and slots of all others
 *
 * Context: Any context.
 *
 * Return: the wheel.
 */
struct hwtimer_wheel *hwtimer_shared_wheel(const struct hwtimer_shared *s)
{
	return s ? s->wheel : dev->wheel;
}

/**
 * hwtimer_shared_init - make "dev"
 *
 * Return: 0 or a negative error.
 */
int __init hwtimer_shared_init(void)
{
	const struct hwtimer_wheel_params params = PARAMS("dev", 0);

	free_wq = alloc_workqueue("hwtimer_wheels", WQ_UNBOUND, 0);
	if (!free_wq)
		return -ENOMEM;
	dev = create(GLOBAL_ROOT_UID, &params);
	if (IS_ERR(dev)) {
		pr_err("hwtimer: no wheel of tick_ns=%llu slots=%u: %ld\n", tick_ns, slots,
		       PTR_ERR(dev));
		destroy_workqueue(free_wq);
		return PTR_ERR(dev);
	}
	list_add_tail(&dev->list, &shared_wheels);
	return 0;
}

/**
 * hwtimer_shared_stop - have all timeouts released
 *
 * No file is open any more. The workers, or stop in their place, release what contexts left.
 */
void hwtimer_shared_stop(void)
{
	struct hwtimer_shared *s;

	spin_lock(&shared_lock);
	list_for_each_entry(s, &shared_wheels, list) {
		/* So that it stays on the list. */
		s->contexts++;
		spin_unlock(&shared_lock);
		hwtimer_wheel_stop(s->wheel, NULL);
		spin_lock(&shared_lock);
		s->contexts--;
	}
	spin_unlock(&shared_lock);
}

/**
 * hwtimer_shared_exit - destroy all
 *
 * No context is left. Waits for the workqueue, too, which may be destroying one.
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
		cancel_delayed_work_sync(&s->free_work);
		destroy(s);
	}
	destroy_workqueue(free_wq);
}
