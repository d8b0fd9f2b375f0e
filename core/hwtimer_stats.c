// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the live wheels, their names, and HWTIMER_IOC_WHEELS: their figures for programs.
 *
 * A reader of debugfs delays the end of a wheel. The ioctl must not, as anybody with CAP_PERFMON
 * may call it: it takes a reference. The last reference frees the wheel.
 *
 * The lock is held for a walk of the wheels, which are few (MANY_WHEELS). It is a spinlock, because
 * a task that holds a mutex may be throttled by its cgroup.
 */
#define pr_fmt(fmt) "hwtimer: " fmt

#include <linux/kstrtox.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/printk.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "hwtimer_driver.h"
#include "hwtimer_stats.h"
#include "../uapi/linux/hwtimer.h"

static_assert(sizeof_field(struct hwtimer_driven, name) <=
	      sizeof_field(struct hwtimer_wheel_info, name));
static_assert(sizeof_field(struct hwtimer_wheel_info, module) >= MODULE_NAME_LEN);
static_assert(HWTIMER_LATE_BINS == HWTIMER_LATE);

/* More live wheels than this suggest that a module creates a wheel per object. */
#define MANY_WHEELS	64

/* By id; new wheels have higher ids. */
static LIST_HEAD(wheels);
static u64 last_id;
static DEFINE_SPINLOCK(wheels_lock);

/*
 * 1 if @name is @base, N if it is @base.N, 0 if it is neither. Names can be duplicate if a caller
 * itself names a wheel x.2147483646.
 */
static unsigned int name_number(const char *name, const char *base)
{
	size_t len = strlen(base);
	unsigned int n;

	if (strncmp(name, base, len))
		return 0;
	if (!name[len])
		return 1;
	if (name[len] != '.' || kstrtouint(name + len + 1, 10, &n) || n < 2 || n >= INT_MAX)
		return 0;
	return n;
}

/**
 * hwtimer_stats_add - give a wheel its id and a unique name, and let programs see it
 * @driven: the wheel, which has no worker yet
 * @name: the name that was asked for
 */
void hwtimer_stats_add(struct hwtimer_driven *driven, const char *name)
{
	unsigned int n, last = 1, live = 1;
	struct hwtimer_driven *other;
	bool taken = false;

	refcount_set(&driven->refs, 1);
	spin_lock(&wheels_lock);
	list_for_each_entry(other, &wheels, list) {
		n = name_number(other->name, name);
		taken |= n == 1;
		last = max(last, n);
		live++;
	}
	if (taken)
		snprintf(driven->name, sizeof(driven->name), "%s.%u", name, last + 1);
	else
		strscpy(driven->name, name, sizeof(driven->name));
	driven->id = ++last_id;
	list_add_tail(&driven->list, &wheels);
	spin_unlock(&wheels_lock);
	if (live > MANY_WHEELS)
		pr_warn_once("more than %d wheels; one is meant to serve many timeouts\n",
			     MANY_WHEELS);
}

/**
 * hwtimer_stats_remove - let no more readers find a wheel, and free its name
 * @driven: the wheel. Readers that have found it may still read
 */
void hwtimer_stats_remove(struct hwtimer_driven *driven)
{
	spin_lock(&wheels_lock);
	list_del(&driven->list);
	spin_unlock(&wheels_lock);
}

/**
 * hwtimer_stats_put - drop a reference to a wheel, and free it if that was the last one
 * @driven: the wheel
 *
 * Context: Process context, may sleep.
 */
void hwtimer_stats_put(struct hwtimer_driven *driven)
{
	/* [refcount_dec_and_test: as a decrement releases, the last one acquires] */
	if (!refcount_dec_and_test(&driven->refs))
		return;
	if (driven->task)
		put_task_struct(driven->task);
	queue_free(&driven->wheel);
	kfree(driven);
}

/**
 * hwtimer_stats_of - find a wheel of a module
 * @owner: the module, which is about to go
 *
 * Return: a wheel that it has created and not destroyed, or NULL.
 */
struct hwtimer_driven *hwtimer_stats_of(const struct module *owner)
{
	struct hwtimer_driven *driven, *found = NULL;

	spin_lock(&wheels_lock);
	list_for_each_entry(driven, &wheels, list)
		if (driven->owner == owner)
			found = driven;
	spin_unlock(&wheels_lock);
	return found;
}

/* The wheel with the lowest id that is not below @from, with a reference, or NULL. */
static struct hwtimer_driven *stats_find(u64 from)
{
	struct hwtimer_driven *driven, *found = NULL;

	spin_lock(&wheels_lock);
	list_for_each_entry(driven, &wheels, list) {
		if (driven->id >= from) {
			refcount_inc(&driven->refs);
			found = driven;
			break;
		}
	}
	spin_unlock(&wheels_lock);
	return found;
}

/**
 * hwtimer_stats_next - read the figures of the next wheel
 * @from: an id, of a wheel or not; ids are above 0, and no id comes back while the module is loaded
 * @info: filled in for the wheel with the lowest id that is not below @from. The figures may change
 *	meanwhile
 *
 * Context: Process context, may sleep.
 *
 * Return: the id of that wheel, or 0: there is none.
 */
u64 hwtimer_stats_next(u64 from, struct hwtimer_wheel_info *info)
{
	struct hwtimer_driven *driven = stats_find(from);
	struct queue_counts counts;
	u64 id;
	int i;

	if (!driven)
		return 0;
	queue_count(&driven->wheel, &counts);
	*info = (struct hwtimer_wheel_info){
		.tick_ns = driven->wheel.tick_ns,
		.pending = counts.pending,
		.armed = counts.armed,
		.touched = counts.touched,
		.cancelled = counts.cancelled,
		.expired = counts.expired,
		.handed_back = counts.handed_back,
	};
	for (i = 0; i < HWTIMER_LATE; i++)
		info->late[i] = local_read(&driven->monitor.late[i]);
	strscpy(info->name, driven->name, sizeof(info->name));
	strscpy(info->module, driven->module, sizeof(info->module));
	id = driven->id;
	hwtimer_stats_put(driven);
	return id;
}
