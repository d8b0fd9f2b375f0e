// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: how much memory the contexts of /dev/hwtimer may take.
 *
 * Memory cgroups are charged by GFP_KERNEL_ACCOUNT. This is the bound for machines without them:
 * all contexts together may take max_memory, and one user half of what the others leave of that.
 * Who is a user is decided in the initial user namespace, or subordinate uids would have a share
 * each: a task in another namespace counts as the user who created it.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "memory.h"

static unsigned long max_memory;
module_param(max_memory, ulong, 0644);
MODULE_PARM_DESC(max_memory,
		 "most memory of all contexts of /dev/hwtimer, in KiB, of which a user may have half of what the others leave; 0: an eighth of the machine's (default 0)");

/**
 * struct memory_user - what the contexts of one user take
 * @node: in users
 * @uid: the user
 * @contexts: number of references
 * @bytes: what is charged
 */
struct memory_user {
	struct list_head	node;
	kuid_t			uid;
	unsigned long		contexts;
	unsigned long		bytes;
};

/* Protects the list, its elements, and the sum of their bytes. Nothing sleeps while it is held. */
static DEFINE_SPINLOCK(users_lock);
static LIST_HEAD(users);
static unsigned long all_bytes;

static kuid_t memory_uid(void)
{
	const struct user_namespace *ns = current_user_ns();
	kuid_t uid = current_euid();

	for (; ns->parent; ns = ns->parent)
		uid = ns->owner;
	return uid;
}

static struct memory_user *memory_user_find(kuid_t uid)
{
	struct memory_user *user;

	list_for_each_entry(user, &users, node)
		if (uid_eq(user->uid, uid))
			return user;
	return NULL;
}

/**
 * hwtimer_memory_user_get - the user of the calling task
 *
 * Return: the user, with a reference; NULL: no memory.
 */
struct memory_user *hwtimer_memory_user_get(void)
{
	struct memory_user *new, *user;

	new = kzalloc(sizeof(*new), GFP_MEMORY);
	if (!new)
		return NULL;
	new->uid = memory_uid();
	spin_lock(&users_lock);
	user = memory_user_find(new->uid);
	if (!user) {
		user = new;
		list_add(&user->node, &users);
		new = NULL;
	}
	user->contexts++;
	spin_unlock(&users_lock);
	kfree(new);
	return user;
}

/**
 * hwtimer_memory_user_put - drop a reference
 * @user: what hwtimer_memory_user_get() returned; all that was charged for it is uncharged
 */
void hwtimer_memory_user_put(struct memory_user *user)
{
	bool last;

	spin_lock(&users_lock);
	last = !--user->contexts;
	if (last)
		list_del(&user->node);
	spin_unlock(&users_lock);
	if (last)
		kfree(user);
}

static unsigned long memory_limit(void)
{
	unsigned long kib = READ_ONCE(max_memory);

	return kib ? min(kib, ULONG_MAX >> 10) << 10 : totalram_pages() / 8 * PAGE_SIZE;
}

/* Charge a user who may have one part in @parts of what the others leave. */
static bool memory_take(struct memory_user *user, unsigned long bytes, unsigned int parts)
{
	unsigned long limit = memory_limit(), left;
	bool fits;

	spin_lock(&users_lock);
	left = (limit - min(limit, all_bytes - user->bytes)) / parts;
	fits = user->bytes <= left && bytes <= left - user->bytes;
	if (fits) {
		user->bytes += bytes;
		all_bytes += bytes;
	}
	spin_unlock(&users_lock);
	return fits;
}

/**
 * hwtimer_memory_charge - before memory is allocated
 * @user: who is charged
 * @bytes: how much
 *
 * With CAP_SYS_RESOURCE, only the bound of all users counts.
 *
 * Return: 0, or -ENOMEM.
 */
int hwtimer_memory_charge(struct memory_user *user, unsigned long bytes)
{
	/* Without need, the capability is not asked for: that may be logged. */
	if (memory_take(user, bytes, 2))
		return 0;
	return capable(CAP_SYS_RESOURCE) && memory_take(user, bytes, 1) ? 0 : -ENOMEM;
}

/**
 * hwtimer_memory_uncharge - after memory was freed
 * @user: who was charged
 * @bytes: how much
 */
void hwtimer_memory_uncharge(struct memory_user *user, unsigned long bytes)
{
	spin_lock(&users_lock);
	user->bytes -= bytes;
	all_bytes -= bytes;
	spin_unlock(&users_lock);
}

/**
 * hwtimer_memory_page - allocate a page of zeros
 * @user: who is charged
 *
 * Context: A task that may sleep.
 *
 * Return: the page, or NULL.
 */
void *hwtimer_memory_page(struct memory_user *user)
{
	void *page;

	if (hwtimer_memory_charge(user, PAGE_SIZE))
		return NULL;
	page = (void *)get_zeroed_page(GFP_MEMORY);
	if (!page)
		hwtimer_memory_uncharge(user, PAGE_SIZE);
	return page;
}

/**
 * hwtimer_memory_page_free - free a page
 * @page: what hwtimer_memory_page() returned, or NULL. Others may still hold a reference, such as
 *	process_vm_readv()
 * @user: who was charged
 */
void hwtimer_memory_page_free(void *page, struct memory_user *user)
{
	if (!page)
		return;
	put_page(virt_to_page(page));
	hwtimer_memory_uncharge(user, PAGE_SIZE);
}

/**
 * hwtimer_memory_pages_free - free pages, and their array
 * @pages: the array, from kvcalloc(), or NULL
 * @nr: how many pages it has
 * @user: who was charged
 *
 * Context: A task that may sleep.
 */
void hwtimer_memory_pages_free(void **pages, u32 nr, struct memory_user *user)
{
	while (nr--) {
		hwtimer_memory_page_free(pages[nr], user);
		cond_resched();
	}
	kvfree(pages);
}
