/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: a wheel with what moves it. The drivers (hwtimer_kthread.c, hwtimer_hrtimer.c) are
 * tables of operations; hwtimer_worker.c has all that they share, debug/debugfs.c shows it.
 */
#ifndef HWTIMER_DRIVER_H
#define HWTIMER_DRIVER_H

#include <linux/atomic.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/time.h>
#include <linux/timekeeping.h>
#include <linux/types.h>

#include "hwtimer.h"
#include "hwtimer_wheel.h"

struct dentry;
struct hwtimer_driven;
struct mem_cgroup;
struct workqueue_struct;

/* Bins of the histogram of lateness: below 1, 2, 4, ... us; the last: the rest. */
#define HWTIMER_LATE_BINS	25

/**
 * struct hwtimer_monitor - what is measured while callbacks run
 * @late: how many expired so late; written by the worker only
 * @wakeups: times that the worker woke from sleep; written by the worker only
 * @ended_ns: when the last callback ended, CLOCK_MONOTONIC; the worker's
 * @lock: protects what follows; taken with softirqs off, as callbacks of some
 *	wheels run in one
 * @long_callbacks: callbacks that took longer than the limit
 * @long_fn: the last of them
 * @longest_ns: the longest callback so far took this long
 * @longest_fn: and this is its name
 */
struct hwtimer_monitor {
	unsigned long	late[HWTIMER_LATE_BINS];
	unsigned long	wakeups;
	u64		ended_ns;
	spinlock_t	lock;	/* of what follows */
	unsigned long	long_callbacks;
	char		long_fn[KSYM_NAME_LEN];
	u64		longest_ns;
	char		longest_fn[KSYM_NAME_LEN];
};

/**
 * struct hwtimer_driver_ops - what moves wheels
 * @name: for debugfs
 * @ops: what the wheel asks of it
 * @valid: may a wheel have these parameters, as far as they are for drivers?
 * @create: make what it takes to move @driven's wheel, at rest until the first
 *	kick; 0 or -errno. Process context, as all that follows
 * @end: when this returns, nothing moves the wheel, and will not; kicks may come
 *	still. Called once, with the wheel shut down
 * @destroy: free what @create made; nobody kicks any more
 *
 * A driver calls wheel_advance(), wheel_prepare_sleep() and wheel_awake() from
 * one place at a time, and lets hwtimer_driven.actor say who does.
 */
struct hwtimer_driver_ops {
	const char	*name;
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
 * struct hwtimer_lanes - runs on workqueues; see hwtimer_work.c and hwtimer_lanes.c
 * @fast: the lane of most; NULL without HWTIMER_WHEEL_WORK, as @slow
 * @slow: the lane of items with slow runs
 * @slow_ns: a run is slow that takes longer. Constant, as the next two
 * @slow_runs: more of these in a minute lead to the slow lane
 * @max_queued: bound of @queued; 0: none
 * @dispatched: expiries that became a run, at least for a while; written by the
 *	wheel's worker only, as the next three
 * @to_slow: of these, those to the slow lane
 * @replaced: runs that a later one took the place of before they began
 * @refused: expiries that did not become a run
 * @runs: runs that began; dispatched = runs + replaced + cancelled + those due
 * @cancelled: runs that were cancelled before they began
 * @queued: runs due on the lanes, if there is a bound
 * @busy: items that are queued or running, wherever
 */
struct hwtimer_lanes {
	struct workqueue_struct	*fast;
	struct workqueue_struct	*slow;
	u64			slow_ns;
	unsigned int		slow_runs;
	unsigned long		max_queued;
	unsigned long		dispatched;
	unsigned long		to_slow;
	unsigned long		replaced;
	unsigned long		refused;
	atomic_long_t		runs;
	atomic_long_t		cancelled;
	atomic_long_t		queued;
	atomic_long_t		busy;
};

/**
 * struct hwtimer_driven - a wheel and what moves it
 * @wheel: the wheel
 * @monitor: what is measured
 * @lanes: runs on workqueues
 * @driver: what moves it. Constant
 * @clock: as in the parameters. Constant
 * @account: HWTIMER_WHEEL_ACCOUNT. Constant
 * @memcg: pays for levels to be added; NULL: nobody in particular
 * @start_ns: when the wheel began, on its clock. Constant
 * @name: unique among the live wheels
 * @actor: the task that does the worker's part. The kthread; or the task that a
 *	slice in softirq runs in or on top of, until it ends; or who stops the wheel
 * @sched: kthread: as in the parameters
 * @nice: the same
 * @task: kthread: a reference of its own
 * @timer: hrtimer: runs the slices
 * @kicked: hrtimer: somebody kicked since the last slice began
 * @ended: hrtimer: do not start the timer any more
 * @asleep: hrtimer: the last slice found that it could sleep. The slices' own
 * @debugfs: the wheel's directory, or an error
 * @list: on the list of live wheels
 */
struct hwtimer_driven {
	struct hwtimer_wheel	wheel;
	struct hwtimer_monitor	monitor;
	struct hwtimer_lanes	lanes;
	const struct hwtimer_driver_ops *driver;
	enum hwtimer_clock	clock;
	bool			account;
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
};

static inline struct hwtimer_driven *to_driven(const struct hwtimer_wheel *w)
{
	return container_of(w, struct hwtimer_driven, wheel);
}

static inline clockid_t hwtimer_clockid(const struct hwtimer_driven *driven)
{
	return driven->clock == HWTIMER_CLOCK_BOOTTIME ? CLOCK_BOOTTIME : CLOCK_MONOTONIC;
}

/* The time on the wheel's clock. */
static inline u64 hwtimer_clock_ns(const struct hwtimer_driven *driven)
{
	return driven->clock == HWTIMER_CLOCK_BOOTTIME ? ktime_get_boottime_ns() :
							 ktime_get_ns();
}

/* The same, as the wheel counts: from its beginning on. */
static inline u64 hwtimer_driven_now(const struct hwtimer_driven *driven)
{
	return hwtimer_clock_ns(driven) - driven->start_ns;
}

/* And back. */
static inline ktime_t hwtimer_driven_ktime(const struct hwtimer_driven *driven, u64 ns)
{
	return ns_to_ktime(ns + driven->start_ns);
}

/* hwtimer_worker.c */
void hwtimer_worker_init(hwtimer_fn_t periodic, hwtimer_fn_t work);
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
u64 hwtimer_after(struct hwtimer_timeout *timeout, s64 delay_ns);

/* hwtimer_periodic.c */
void hwtimer_periodic_expired(struct hwtimer_timeout *t);

/* hwtimer_work.c */
void hwtimer_work_dispatch(struct hwtimer_timeout *timeout);

/* debug/fixup.c */
#ifdef CONFIG_DEBUG_OBJECTS
void hwtimer_fixup_init(void);
#else
static inline void hwtimer_fixup_init(void) { }
#endif

/* hwtimer_lanes.c */
bool hwtimer_lanes_check(const struct hwtimer_wheel_params *params);
int hwtimer_lanes_init(struct hwtimer_driven *driven,
		       const struct hwtimer_wheel_params *params);
void hwtimer_lanes_end(struct hwtimer_driven *driven);

/* debug/debugfs.c */
void hwtimer_debugfs_init(void);
void hwtimer_debugfs_exit(void);
void hwtimer_debugfs_add(struct hwtimer_driven *driven);
void hwtimer_debugfs_remove(struct hwtimer_driven *driven);

#endif /* HWTIMER_DRIVER_H */
