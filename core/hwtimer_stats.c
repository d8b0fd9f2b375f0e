// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the statistics of the live wheels.
 *
 * hwtimer_stats_collect() reads them for debugfs and for /dev/hwtimer. A reader of debugfs
 * delays the end of the wheel. The ioctl must not, as the wheel may be another user's: it takes a
 * reference. The last reference frees the wheel, and what the statistics need of it.
 *
 * The lock is held for one search or one change of a tree, whose time grows with the logarithm of
 * the number of wheels. No wheel is read or freed under the lock.
 */
#include <linux/pid.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "hwtimer_driver.h"
#include "hwtimer_stats.h"
#include "../uapi/linux/hwtimer.h"

static_assert(sizeof_field(struct hwtimer_driven, name) <=
	      sizeof_field(struct hwtimer_wheel_stats, name));
static_assert(ARRAY_SIZE(((struct hwtimer_wheel_stats *)0)->late) >= HWTIMER_LATE_BINS);

/* Wheels by id; new ones have higher ids. */
static struct rb_root stats_wheels = RB_ROOT;
static u64 last_id;
static DEFINE_SPINLOCK(stats_lock);

static struct hwtimer_driven *entry(struct rb_node *node)
{
	return rb_entry(node, struct hwtimer_driven, stats_node);
}

static bool less(struct rb_node *a, const struct rb_node *b)
{
	return entry(a)->id < rb_entry(b, struct hwtimer_driven, stats_node)->id;
}

/* The wheel with the lowest id that is not below @from, or NULL. */
static struct hwtimer_driven *first_from(u64 from)
{
	struct rb_node *node = stats_wheels.rb_node;
	struct hwtimer_driven *found = NULL;

	lockdep_assert_held(&stats_lock);
	while (node) {
		if (entry(node)->id >= from) {
			found = entry(node);
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
	rb_add(&driven->stats_node, &stats_wheels, less);
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
	hwtimer_kthread_destroy(driven);
	queue_free(&driven->wheel);
	kfree(driven);
}

/**
 * hwtimer_stats_collect - read the statistics of a wheel
 * @driven: the wheel
 * @s: filled in
 * @c: filled in with all counters of the wheel, those that only debugfs shows included
 *
 * The counters may change meanwhile.
 */
void hwtimer_stats_collect(struct hwtimer_driven *driven, struct hwtimer_wheel_stats *s,
			   struct queue_counts *c)
{
	static const u32 states[] = {
		[QUEUE_INIT] = HWTIMER_WHEEL_STATE_INIT,
		[QUEUE_STARTED] = HWTIMER_WHEEL_STATE_STARTED,
		[QUEUE_SHUTDOWN] = HWTIMER_WHEEL_STATE_SHUTDOWN,
		[QUEUE_STOPPED] = HWTIMER_WHEEL_STATE_SHUTDOWN,
	};
	static const u32 scheds[] = {
		[HWTIMER_SCHED_NORMAL] = HWTIMER_WHEEL_SCHED_NORMAL,
		[HWTIMER_SCHED_FIFO_LOW] = HWTIMER_WHEEL_SCHED_FIFO_LOW,
		[HWTIMER_SCHED_FIFO] = HWTIMER_WHEEL_SCHED_FIFO,
	};
	struct hwtimer_wheel *wheel = &driven->wheel;
	struct hwtimer_monitor *monitor = &driven->monitor;
	int i;

	queue_count(wheel, c);
	*s = (struct hwtimer_wheel_stats){
		.id = driven->id,
		.flags = driven->kind,
		.clockid = hwtimer_clockid(driven),
		.state = states[READ_ONCE(wheel->state)],
		.slots = queue_slots(wheel),
		.levels = wheel->wheel.levels,
		.late_bins = HWTIMER_LATE_BINS,
		.late_first_ns = NSEC_PER_USEC,
		.tick_ns = wheel->tick_ns,
		.cap = places_number(wheel->places),
		.pending = c->pending,
		.armed = c->armed,
		.touched = c->touched,
		.cancelled = c->cancelled,
		.expired = c->expired,
		.handed_back = c->handed_back,
		.rejected = c->rejected,
		.wakeups = READ_ONCE(monitor->wakeups),
		.lateness_sum_ns = local64_read(&monitor->lateness_ns),
		.worker_pid = task_pid_vnr(driven->task),
		.worker_nice = driven->nice,
		.sched = scheds[driven->sched],
	};
	strscpy(s->name, driven->name, sizeof(s->name));
	spin_lock(&monitor->lock);
	s->long_callbacks = monitor->long_callbacks;
	s->longest_callback_ns = monitor->longest_ns;
	spin_unlock(&monitor->lock);
	for (i = 0; i < HWTIMER_LATE_BINS; i++)
		s->late[i] = local_read(&monitor->late[i]);
}

/**
 * hwtimer_wheel_id - the id by which programs know a wheel
 * @wheel: the wheel
 *
 * Context: Any context.
 *
 * Return: the id, which is above 0. No other wheel gets it while the module is loaded.
 */
u64 hwtimer_wheel_id(const struct hwtimer_wheel *wheel)
{
	return to_driven(wheel)->id;
}

/**
 * hwtimer_stats_next - find the next wheel
 * @from: an id, of a wheel or not
 *
 * Context: Process context.
 *
 * Return: the lowest id of a live wheel that is not below @from, or 0. The wheel may end any time.
 */
u64 hwtimer_stats_next(u64 from)
{
	struct hwtimer_driven *driven;
	u64 id;

	spin_lock(&stats_lock);
	driven = first_from(from);
	id = driven ? driven->id : 0;
	spin_unlock(&stats_lock);
	return id;
}

/**
 * hwtimer_stats_find - find a wheel
 * @id: its id
 *
 * Context: Process context.
 *
 * Return: the wheel, with a reference; NULL: there is no such wheel (any more).
 */
struct hwtimer_driven *hwtimer_stats_find(u64 id)
{
	struct hwtimer_driven *driven;

	spin_lock(&stats_lock);
	driven = first_from(id);
	if (driven && driven->id == id)
		refcount_inc(&driven->refs);
	else
		driven = NULL;
	spin_unlock(&stats_lock);
	return driven;
}

/**
 * hwtimer_stats_get - read the statistics of a wheel
 * @id: its id
 * @stats: filled in
 *
 * Context: Process context, may sleep.
 *
 * Return: true, or false if there is no such wheel (any more).
 */
bool hwtimer_stats_get(u64 id, struct hwtimer_wheel_stats *stats)
{
	struct hwtimer_driven *driven = hwtimer_stats_find(id);
	struct queue_counts counts;

	if (!driven)
		return false;
	hwtimer_stats_collect(driven, stats, &counts);
	hwtimer_stats_put(driven);
	return true;
}
