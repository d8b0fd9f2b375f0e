// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: HWTIMER_IOC_WHEELS: the live wheels, and their figures for programs.
 *
 * A reader of debugfs delays the end of a wheel. The ioctl must not, as anybody with CAP_PERFMON
 * may call it: it takes a reference. The last reference frees the wheel.
 *
 * The lock is held for one search or one change of a tree, whose time grows with the logarithm of
 * the number of wheels. No wheel is read or freed under the lock.
 */
#include <linux/rbtree.h>
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

/* Wheels by id; new ones have higher ids. */
static struct rb_root stats_wheels = RB_ROOT;
static u64 last_id;
static DEFINE_SPINLOCK(stats_lock);

static struct hwtimer_driven *stats_entry(struct rb_node *node)
{
	return rb_entry(node, struct hwtimer_driven, stats_node);
}

static bool stats_less(struct rb_node *a, const struct rb_node *b)
{
	return stats_entry(a)->id < rb_entry(b, struct hwtimer_driven, stats_node)->id;
}

/* The wheel with the lowest id that is not below @from, or NULL. */
static struct hwtimer_driven *stats_first(u64 from)
{
	struct rb_node *node = stats_wheels.rb_node;
	struct hwtimer_driven *found = NULL;

	lockdep_assert_held(&stats_lock);
	while (node) {
		if (stats_entry(node)->id >= from) {
			found = stats_entry(node);
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

/**
 * hwtimer_stats_add - give a wheel its id, and let programs see it
 * @driven: the wheel, complete
 */
void hwtimer_stats_add(struct hwtimer_driven *driven)
{
	refcount_set(&driven->refs, 1);
	spin_lock(&stats_lock);
	driven->id = ++last_id;
	rb_add(&driven->stats_node, &stats_wheels, stats_less);
	spin_unlock(&stats_lock);
}

/**
 * hwtimer_stats_remove - let no more readers find a wheel
 * @driven: the wheel. Readers that have found it may still read
 */
void hwtimer_stats_remove(struct hwtimer_driven *driven)
{
	spin_lock(&stats_lock);
	rb_erase(&driven->stats_node, &stats_wheels);
	spin_unlock(&stats_lock);
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
	put_task_struct(driven->task);
	queue_free(&driven->wheel);
	kfree(driven);
}

/* The same, with a reference. */
static struct hwtimer_driven *stats_find(u64 from)
{
	struct hwtimer_driven *driven;

	spin_lock(&stats_lock);
	driven = stats_first(from);
	if (driven)
		refcount_inc(&driven->refs);
	spin_unlock(&stats_lock);
	return driven;
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
