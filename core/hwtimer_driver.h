/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: driven wheels: a wheel and its worker, see hwtimer_worker.c.
 */
#ifndef HWTIMER_DRIVER_H
#define HWTIMER_DRIVER_H

#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/time.h>
#include <linux/timekeeping.h>
#include <linux/types.h>
#include <asm/local.h>
#include <asm/local64.h>

#include "../hwtimer.h"
#include "hwtimer_queue.h"

struct dentry;
struct hwtimer_driven;

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
 * @lock: protects the members below
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
 * struct hwtimer_driven - a driven wheel: a wheel and its worker
 * @wheel: the wheel
 * @monitor: measurements of the worker
 * @owner: the module that created it, or NULL. Constant
 * @clock: as in the parameters. Constant
 * @start_ns: when the wheel was created, on its clock. Constant
 * @name: unique among the live wheels
 * @module: the name of @owner, which may be gone while readers have references
 * @actor: the task that acts as the worker: the thread, or the task that stops the wheel
 * @sched: as in the parameters
 * @nice: as in the parameters
 * @task: the thread, with a reference, or NULL
 * @debugfs: the wheel's directory, or an error pointer
 * @list: on the list of live wheels. This and the next two members are hwtimer_stats.c's
 * @id: never given to another wheel. Constant
 * @refs: references: one until the wheel is destroyed, and those of readers
 */
struct hwtimer_driven {
	struct hwtimer_wheel	wheel;
	struct hwtimer_monitor	monitor;
	const struct module	*owner;
	enum hwtimer_clock	clock;
	u64			start_ns;
	char			name[HWTIMER_NAME_LEN + 12];
	char			module[MODULE_NAME_LEN];
	struct task_struct	*actor;

	enum hwtimer_sched	sched;
	int			nice;
	struct task_struct	*task;

	struct dentry		*debugfs;

	struct list_head	list;
	u64			id;
	refcount_t		refs;
};

static inline struct hwtimer_driven *to_driven(const struct hwtimer_wheel *w)
{
	return container_of(w, struct hwtimer_driven, wheel);
}

/* The current time on the wheel's clock. */
static inline u64 hwtimer_clock_ns(const struct hwtimer_driven *driven)
{
	return driven->clock == HWTIMER_CLOCK_BOOTTIME ? ktime_get_boottime_ns() :
							 ktime_get_ns();
}

/* The current time in ns since the wheel was created, as hwtimer_queue.c counts. */
static inline u64 hwtimer_driven_now(const struct hwtimer_driven *driven)
{
	return hwtimer_clock_ns(driven) - driven->start_ns;
}

/* hwtimer_worker.c */
extern const struct queue_ops hwtimer_worker_ops;
void hwtimer_worker_init(hwtimer_fn_t work);
const void *hwtimer_owner_fn(struct hwtimer_timeout *t, hwtimer_fn_t fn);
int hwtimer_worker_create(struct hwtimer_driven *driven,
			  const struct hwtimer_wheel_params *params);

/* hwtimer_api.c */
void hwtimer_wheels_forgotten(struct module *owner);

/* hwtimer_work.c */
void hwtimer_work_dispatch(struct hwtimer_timeout *timeout);

/* debug/fixup.c, with CONFIG_DEBUG_OBJECTS */
void hwtimer_fixup_init(void);

/* hwtimer_stats.c */
void hwtimer_stats_add(struct hwtimer_driven *driven, const char *name);
void hwtimer_stats_remove(struct hwtimer_driven *driven);
void hwtimer_stats_put(struct hwtimer_driven *driven);
struct hwtimer_driven *hwtimer_stats_of(const struct module *owner);

/* debug/debugfs.c */
void hwtimer_debugfs_init(void);
void hwtimer_debugfs_exit(void);
void hwtimer_debugfs_add(struct hwtimer_driven *driven);
void hwtimer_debugfs_remove(struct hwtimer_driven *driven);

#endif /* HWTIMER_DRIVER_H */
