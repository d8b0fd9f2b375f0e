// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the limits of a user of /dev/hwtimer, over all contexts.
 *
 * A charge to a user in a user namespace is also a charge to the user who created the namespace,
 * and so on up to the initial namespace, as with ucounts. Otherwise a user with subordinate uids
 * would have the limits of each of them.
 *
 * Memory is charged until it is freed. A page of timeouts that is given back, and a closed context,
 * are freed when the wheel has released their timeouts. So a charge that fails waits until as many
 * are freed as the user had given back or closed before the charge, then tries again: a user who
 * closes a context has room for the next one. (But not for another shared wheel, which stays for a
 * moment after its last context.) It does not wait for those of other users, nor for those closed
 * later.
 */
#include <linux/atomic.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/moduleparam.h>
#include <linux/rbtree.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>
#include <linux/wait.h>

#include "user.h"

static unsigned long max_user_timeouts = 1 << 20;
module_param(max_user_timeouts, ulong, 0644);
MODULE_PARM_DESC(max_user_timeouts,
		 "most timeouts of one user without CAP_SYS_RESOURCE (default 1048576)");

static unsigned long max_user_wheels = 16;
module_param(max_user_wheels, ulong, 0644);
MODULE_PARM_DESC(max_user_wheels,
		 "most own wheels of one user without CAP_SYS_RESOURCE (default 16)");

static unsigned long max_user_rate = 100000;
module_param(max_user_rate, ulong, 0644);
MODULE_PARM_DESC(max_user_rate,
		 "most expiries per second of one user's periodic timeouts without CAP_SYS_RESOURCE; those that make up for missed deadlines count as expiring at each tick (default 100000)");

static unsigned long max_user_ring_kib = 1 << 17;
module_param(max_user_ring_kib, ulong, 0644);
MODULE_PARM_DESC(max_user_ring_kib,
		 "most memory of one user's rings without CAP_SYS_RESOURCE, in KiB (default 131072)");

static unsigned long max_user_shared_wheels = 64;
module_param(max_user_shared_wheels, ulong, 0644);
MODULE_PARM_DESC(max_user_shared_wheels,
		 "most shared wheels of one user without CAP_SYS_RESOURCE, one for each set of cgroups in which contexts schedule their first timeout or make their rings (default 64)");

static const struct {
	const char		*name;
	const unsigned long	*max;
} limits[HWTIMER_LIMITS] = {
	[HWTIMER_LIMIT_TIMEOUTS] = { "timeouts", &max_user_timeouts },
	[HWTIMER_LIMIT_WHEELS] = { "wheels", &max_user_wheels },
	[HWTIMER_LIMIT_RATE] = { "rate", &max_user_rate },
	[HWTIMER_LIMIT_RING_KIB] = { "ring_kib", &max_user_ring_kib },
	[HWTIMER_LIMIT_SHARED_WHEELS] = { "shared_wheels", &max_user_shared_wheels },
};

/**
 * struct hwtimer_user - a user in a user namespace
 * @node: in users
 * @uid: the uid of a user who has opened the device, or who is a @parent
 * @parent: the user who created the user namespace of this one; NULL in the initial namespace
 * @refs: number of references: of contexts, shared wheels, and users whose @parent it is. Protected
 *	by users_lock
 * @count: what is charged, by enum hwtimer_limit
 * @closing: how many contexts and pages the user has closed or given back so far; may wrap
 * @closed: how many of these are freed; may wrap
 * @wait: charges that wait for @closed
 * @uses_lock: protects @uses. Only tasks of the user, and those with its descriptors, take it
 * @uses: the wheels that the user's contexts use: one struct hwtimer_use per context, ordered by
 *	the wheel's id
 */
struct hwtimer_user {
	struct rb_node		node;
	kuid_t			uid;
	struct hwtimer_user	*parent;
	unsigned long		refs;
	atomic_long_t		count[HWTIMER_LIMITS];
	atomic_t		closing;
	atomic_t		closed;
	wait_queue_head_t	wait;
	spinlock_t		uses_lock;	/* see above */
	struct rb_root		uses;
};

/*
 * Ordered by uid and parent. A tree, because all users share the lock, and one user can be here
 * many times, by subordinate uids and nested namespaces.
 */
static struct rb_root users = RB_ROOT;
static DEFINE_SPINLOCK(users_lock);

static int order(struct rb_node *a, const struct rb_node *b)
{
	const struct hwtimer_user *x = rb_entry(a, struct hwtimer_user, node);
	const struct hwtimer_user *y = rb_entry(b, struct hwtimer_user, node);

	if (!uid_eq(x->uid, y->uid))
		return uid_lt(x->uid, y->uid) ? -1 : 1;
	return x->parent < y->parent ? -1 : x->parent > y->parent;
}

/**
 * hwtimer_user_exit - check that each reference to a user was dropped
 *
 * No file is open, and no shared wheel is left.
 */
void hwtimer_user_exit(void)
{
	WARN_ON(!RB_EMPTY_ROOT(&users));
}

/* Find or make a user, and its parents. Recurses at most 33 times, as deep as namespaces nest. */
static struct hwtimer_user *get(const struct user_namespace *ns, kuid_t uid)
{
	struct hwtimer_user *parent = NULL, *user;
	struct rb_node *found;

	if (ns->parent) {
		parent = get(ns->parent, ns->owner);
		if (!parent)
			return NULL;
	}
	/* Not under the lock: this may wait for a cgroup at its limit. */
	user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
	if (!user) {
		hwtimer_user_put(parent);
		return NULL;
	}
	user->uid = uid;
	user->parent = parent;
	user->refs = 1;
	init_waitqueue_head(&user->wait);
	spin_lock_init(&user->uses_lock);
	user->uses = RB_ROOT;

	spin_lock(&users_lock);
	found = rb_find_add(&user->node, &users, order);
	if (found)
		rb_entry(found, struct hwtimer_user, node)->refs++;
	spin_unlock(&users_lock);
	if (!found)
		return user;
	kfree(user);
	hwtimer_user_put(parent);
	return rb_entry(found, struct hwtimer_user, node);
}

/**
 * hwtimer_user_get - find or make the user that the caller is
 *
 * Context: Process context, may sleep.
 *
 * Return: a reference, or NULL if there is no memory.
 */
struct hwtimer_user *hwtimer_user_get(void)
{
	return get(current_user_ns(), current_uid());
}

/**
 * hwtimer_user_hold - take another reference
 * @user: the user
 *
 * Context: Process context.
 *
 * Return: @user.
 */
struct hwtimer_user *hwtimer_user_hold(struct hwtimer_user *user)
{
	spin_lock(&users_lock);
	user->refs++;
	spin_unlock(&users_lock);
	return user;
}

/**
 * hwtimer_user_put - drop a reference
 * @user: the user, or NULL. The holder of the reference has uncharged what it had charged
 *
 * Context: Process context, may sleep.
 */
void hwtimer_user_put(struct hwtimer_user *user)
{
	struct hwtimer_user *parent;

	spin_lock(&users_lock);
	while (user && !--user->refs) {
		parent = user->parent;
		rb_erase(&user->node, &users);
		kfree(user);
		user = parent;
	}
	spin_unlock(&users_lock);
}

/**
 * hwtimer_user_uid - the uid in the initial user namespace that a user counts as
 * @user: the user
 *
 * Context: Any context.
 *
 * Return: the user's uid in the initial namespace. A user of another namespace counts as the owner
 * of the outermost one that contains it, below the initial one.
 */
kuid_t hwtimer_user_uid(const struct hwtimer_user *user)
{
	while (user->parent)
		user = user->parent;
	return user->uid;
}

/* Return true if a user that has @has may have @n more. */
static bool fits(enum hwtimer_limit limit, unsigned long has, unsigned long n)
{
	unsigned long max = READ_ONCE(*limits[limit].max);

	return has < max && n <= max - has;
}

/* Charge @n to @user alone. */
static bool charge_one(struct hwtimer_user *user, enum hwtimer_limit limit, unsigned long n)
{
	atomic_long_t *count = &user->count[limit];
	unsigned long old = atomic_long_read(count);

	do {
		if (!fits(limit, old, n)) {
			if (!capable(CAP_SYS_RESOURCE))
				return false;
			atomic_long_add(n, count);
			return true;
		}
		/* [atomic_long_try_cmpxchg: place-broken-store] */
	} while (!atomic_long_try_cmpxchg(count, (long *)&old, old + n));
	return true;
}

/* Charge @n to @user and all its parents. If one of them is at its limit, charge nothing. */
static bool charge(struct hwtimer_user *user, enum hwtimer_limit limit, unsigned long n)
{
	struct hwtimer_user *each, *undo;

	for (each = user; each; each = each->parent) {
		if (charge_one(each, limit, n))
			continue;
		for (undo = user; undo != each; undo = undo->parent)
			atomic_long_sub(n, &undo->count[limit]);
		return false;
	}
	return true;
}

/* Have as many been freed as were counted in @closing? The counts may wrap. */
static bool caught_up(const struct hwtimer_user *user, int closing)
{
	/*
	 * Pairs with hwtimer_user_closed(): sees the uncharges of those counted in @closed.
	 * [atomic_read_acquire: user-closed-broken-acquire]
	 */
	return atomic_read_acquire(&user->closed) - closing >= 0;
}

/**
 * hwtimer_user_charge - charge a user and its parents
 * @user: the user
 * @limit: the limit that counts
 * @n: how many
 *
 * The limit does not apply to a caller with CAP_SYS_RESOURCE. If there is no room, but @n alone is
 * within the limit, waits until as much is freed as the user had closed or given back before the
 * call, and tries again.
 *
 * Context: Process context, may sleep.
 *
 * Return: true, or false if the limit would be exceeded or the caller was killed. Then nothing is
 * charged.
 */
bool hwtimer_user_charge(struct hwtimer_user *user, enum hwtimer_limit limit,
			 unsigned long n)
{
	int closing = atomic_read(&user->closing);

	if (charge(user, limit, n))
		return true;
	return fits(limit, 0, n) &&
	       !wait_event_killable(user->wait, caught_up(user, closing)) &&
	       charge(user, limit, n);
}

/**
 * hwtimer_user_uncharge - undo hwtimer_user_charge()
 * @user: the user
 * @limit: the limit that counts
 * @n: how many
 *
 * Context: Any context.
 */
void hwtimer_user_uncharge(struct hwtimer_user *user, enum hwtimer_limit limit,
			   unsigned long n)
{
	for (; user; user = user->parent)
		atomic_long_sub(n, &user->count[limit]);
}

/**
 * hwtimer_user_closing - count a context or a page that is about to be freed
 * @user: the user who opened the context
 *
 * Context: Process context.
 */
void hwtimer_user_closing(struct hwtimer_user *user)
{
	atomic_inc(&user->closing);
}

/**
 * hwtimer_user_closed - count as closed what has been uncharged; wake waiting charges
 * @user: the user who opened the context
 *
 * Context: Any context.
 */
void hwtimer_user_closed(struct hwtimer_user *user)
{
	/*
	 * Release, so that it comes after the uncharges. Pairs with caught_up().
	 * [atomic_inc_return_release: user-closed-broken-release]
	 */
	atomic_inc_return_release(&user->closed);
	wake_up_all(&user->wait);
}

static bool less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct hwtimer_use, node)->wheel <
	       rb_entry(b, struct hwtimer_use, node)->wheel;
}

/**
 * hwtimer_user_uses - say which wheel a context uses
 * @user: the user who opened it
 * @use: the context's
 * @wheel: id of the wheel; 0: none any more
 *
 * Context: Process context. Calls for one @use must not run at the same time.
 */
void hwtimer_user_uses(struct hwtimer_user *user, struct hwtimer_use *use, u64 wheel)
{
	spin_lock(&user->uses_lock);
	if (use->wheel)
		rb_erase(&use->node, &user->uses);
	use->wheel = wheel;
	if (wheel)
		rb_add(&use->node, &user->uses, less);
	spin_unlock(&user->uses_lock);
}

/**
 * hwtimer_user_next_wheel - find the next wheel that a user's contexts use
 * @user: the user
 * @from: an id, of a wheel or not
 *
 * Context: Process context. The time grows with the logarithm of the number of the user's contexts.
 *
 * Return: the lowest id of such a wheel that is not below @from, or 0.
 */
u64 hwtimer_user_next_wheel(struct hwtimer_user *user, u64 from)
{
	const struct hwtimer_use *use;
	struct rb_node *node;
	u64 id = 0;

	spin_lock(&user->uses_lock);
	node = user->uses.rb_node;
	while (node) {
		use = rb_entry(node, struct hwtimer_use, node);
		if (use->wheel >= from)
			id = use->wheel;
		node = use->wheel >= from ? node->rb_left : node->rb_right;
	}
	spin_unlock(&user->uses_lock);
	return id;
}

/**
 * hwtimer_user_show - print what a user has charged, and its limits, for fdinfo
 * @m: the file
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
