/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: driven wheels. A driver (hwtimer_kthread.c, hwtimer_hrtimer.c) provides the worker of a
 * wheel; hwtimer_worker.c has the code that drivers share.
 */
#ifndef HWTIMER_DRIVER_H
#define HWTIMER_DRIVER_H

#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/time.h>
#include <linux/timekeeping.h>
#include <linux/types.h>
#include <asm/local.h>
#include <asm/local64.h>

#include "../hwtimer.h"
#include "../hwtimer_wheel.h"

struct dentry;
struct hwtimer_driven;
struct hwtimer_wheel_stats;
struct mem_cgroup;

/* Bins of the lateness histogram: below 1, 2, 4, ... us; the last bin counts all others. */
#define HWTIMER_LATE_BINS	25

/**
 * struct hwtimer_monitor - measurements of a worker and its callbacks
 * @late: lateness histogram: expiries per bin; written by the worker only. A local_t, though the
 *	worker may change its CPU, because adding to it is one instruction on x86
 * @lateness_ns: the lateness of all expiries together; likewise, and 64 bits wide everywhere
 * @wakeups: how often the worker woke from sleep; written by the worker only
 * @ended_ns: when a callback ended last whose end was measured, CLOCK_MONOTONIC. This and the next
 *	three members are used by the worker only
 * @jiffies: jiffies at @ended_ns
 * @unmeasured: number of callbacks in a row since @ended_ns
 * @quick: the last callbacks in this row were so quick that not each one's end needs to be
 *	measured
 * @lock: protects the members below. Taken with softirqs disabled, because callbacks of some
 *	wheels run in softirq
 * @long_callbacks: number of callbacks that took longer than callback_limit_us
 * @long_fn: name of the last of these callbacks
 * @longest_ns: duration of the longest callback so far
 * @longest_fn: name of that callback
 */
struct hwtimer_monitor {
	local_t		late[HWTIMER_LATE_BINS];
	local64_t	lateness_ns;
	unsigned long	wakeups;
	u64		ended_ns;
	unsigned long	jiffies;
	unsigned int	unmeasured;
	bool		quick;
	spinlock_t	lock;	/* protects the members below */
	unsigned long	long_callbacks;
	char		long_fn[KSYM_NAME_LEN];
	u64		longest_ns;
	char		longest_fn[KSYM_NAME_LEN];
};

/**
 * struct hwtimer_driver_ops - the operations of a driver
 * @ops: the operations that the wheel calls
 * @valid: check the parameters that are for drivers; true if the driver accepts them
 * @create: create the worker of @driven, which sleeps until the first kick; 0 or -errno. Process
 *	context, like @end and @destroy
 * @end: end the worker: when this returns, it does not run and never will again. Kicks may still
 *	come. Called once, with the wheel shut down
 * @destroy: free what @create allocated; no more kicks come
 *
 * A driver never runs wheel_advance(), wheel_prepare_sleep() and wheel_awake() concurrently for
 * one wheel, and sets hwtimer_driven.actor to the task that calls them.
 */
struct hwtimer_driver_ops {
	struct wheel_ops ops;
	bool		(*valid)(const struct hwtimer_wheel_params *params);
	int		(*create)(struct hwtimer_driven *driven,
				  const struct hwtimer_wheel_params *params);
	void		(*end)(struct hwtimer_driven *driven);
	void		(*destroy)(struct hwtimer_driven *driven);
};

extern const struct hwtimer_driver_ops hwtimer_driver_kthread;
extern const struct hwtimer_driver_ops hwtimer_driver_hrtimer;

/**
 * struct hwtimer_driven - a driven wheel: a wheel and its worker
 * @wheel: the wheel
 * @monitor: measurements of the worker
 * @owner: the module that created it, or NULL. Constant
 * @driver: the driver. Constant
 * @clock: as in the parameters. Constant
 * @account: HWTIMER_WHEEL_ACCOUNT was given. Constant
 * @kind: whose wheel it is: HWTIMER_WHEEL_F_* of the UAPI header. Constant
 * @memcg: the memory cgroup that added levels are charged to; NULL: they are not charged
 * @start_ns: when the wheel was created, on its clock. Constant
 * @name: unique among the live wheels
 * @actor: the task that acts as the worker: the thread; the task that a slice runs in or
 *	interrupted, until the slice ends; or the task that stops the wheel
 * @sched: kthread driver: as in the parameters
 * @nice: kthread driver: as in the parameters
 * @task: kthread driver: the thread, with a reference
 * @timer: hrtimer driver: runs the slices
 * @kicked: hrtimer driver: a kick came since the last slice began
 * @ended: hrtimer driver: @timer must not be started any more
 * @asleep: hrtimer driver: the last slice put the worker to sleep. Used by slices only
 * @debugfs: the wheel's directory, or an error pointer
 * @list: on the list of live wheels
 * @id: never given to another wheel. Constant; this and the next two members are hwtimer_stats.c's
 * @stats_node: in the tree of wheels whose statistics programs can read
 * @refs: references: one until the wheel is destroyed, and those of readers
 */
struct hwtimer_driven {
	struct hwtimer_wheel	wheel;
	struct hwtimer_monitor	monitor;
	const struct module	*owner;
	const struct hwtimer_driver_ops *driver;
	enum hwtimer_clock	clock;
	bool			account;
	u32			kind;
	struct mem_cgroup	*memcg;
	u64			start_ns;
	char			name[HWTIMER_NAME_LEN + 12];
	struct task_struct	*actor;

	enum hwtimer_sched	sched;
	int			nice;
	struct task_struct	*task;

	struct hrtimer		timer;
	int			kicked;
	bool			ended;
	bool			asleep;

	struct dentry		*debugfs;
	struct list_head	list;

	u64			id;
	struct rb_node		stats_node;
	refcount_t		refs;
};

static inline struct hwtimer_driven *to_driven(const struct hwtimer_wheel *w)
{
	return container_of(w, struct hwtimer_driven, wheel);
}

static inline clockid_t hwtimer_clockid(const struct hwtimer_driven *driven)
{
	return driven->clock == HWTIMER_CLOCK_BOOTTIME ? CLOCK_BOOTTIME : CLOCK_MONOTONIC;
}

/* The current time on the wheel's clock. */
static inline u64 hwtimer_clock_ns(const struct hwtimer_driven *driven)
{
	return driven->clock == HWTIMER_CLOCK_BOOTTIME ? ktime_get_boottime_ns() :
							 ktime_get_ns();
}

/* The current time in ns since the wheel was created, as hwtimer_wheel.c counts. */
static inline u64 hwtimer_driven_now(const struct hwtimer_driven *driven)
{
	return hwtimer_clock_ns(driven) - driven->start_ns;
}

/* Turn ns since the wheel was created into a time on its clock. */
static inline ktime_t hwtimer_driven_ktime(const struct hwtimer_driven *driven, u64 ns)
{
	return ns_to_ktime(ns + driven->start_ns);
}

/* hwtimer_worker.c */
void hwtimer_worker_init(hwtimer_fn_t work);
const void *hwtimer_owner_fn(struct hwtimer_timeout *t, hwtimer_fn_t fn);
void hwtimer_worker_call(struct hwtimer_driven *driven, struct hwtimer_timeout *t,
			 hwtimer_fn_t fn, u64 deadline);
void *hwtimer_worker_alloc(struct hwtimer_driven *driven, size_t size, gfp_t gfp);
void hwtimer_worker_sleeps(struct hwtimer_driven *driven, u64 until);
void hwtimer_worker_woke(struct hwtimer_driven *driven);

/* hwtimer_kthread.c */
int hwtimer_kthread_init(void);
void hwtimer_kthread_exit(void);

/* hwtimer_api.c */
void hwtimer_wheels_forgotten(const struct module *owner);

/* hwtimer_work.c */
void hwtimer_work_dispatch(struct hwtimer_timeout *timeout);

/* debug/fixup.c */
#ifdef CONFIG_DEBUG_OBJECTS
void hwtimer_fixup_init(void);
#else
static inline void hwtimer_fixup_init(void) { }
#endif

/* hwtimer_stats.c */
void hwtimer_stats_add(struct hwtimer_driven *driven);
void hwtimer_stats_remove(struct hwtimer_driven *driven);
void hwtimer_stats_put(struct hwtimer_driven *driven);
void hwtimer_stats_collect(struct hwtimer_driven *driven, struct hwtimer_wheel_stats *s,
			   struct wheel_counts *c);

/* debug/debugfs.c */
void hwtimer_debugfs_init(void);
void hwtimer_debugfs_exit(void);
void hwtimer_debugfs_add(struct hwtimer_driven *driven);
void hwtimer_debugfs_remove(struct hwtimer_driven *driven);

#endif /* HWTIMER_DRIVER_H */
