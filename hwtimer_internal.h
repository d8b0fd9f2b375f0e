/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what moves a wheel, as whoever shows it sees it.
 */
#ifndef HWTIMER_INTERNAL_H
#define HWTIMER_INTERNAL_H

#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "hwtimer.h"
#include "hwtimer_wheel.h"

struct dentry;
struct mem_cgroup;

/* Bins of the histogram of lateness: below 1, 2, 4, ... us; the last: the rest. */
#define HWTIMER_LATE_BINS	25

/**
 * struct hwtimer_monitor - what is measured while callbacks run
 * @late: how many expired so late; written by the worker only
 * @wakeups: times that the worker woke from sleep; written by the worker only
 * @lock: protects what follows
 * @long_callbacks: callbacks that took longer than the limit
 * @long_fn: the last of them
 * @longest_ns: the longest callback so far took this long
 * @longest_fn: and this is its name
 */
struct hwtimer_monitor {
	unsigned long	late[HWTIMER_LATE_BINS];
	unsigned long	wakeups;
	spinlock_t	lock;	/* of what follows */
	unsigned long	long_callbacks;
	char		long_fn[KSYM_NAME_LEN];
	u64		longest_ns;
	char		longest_fn[KSYM_NAME_LEN];
};

/**
 * struct hwtimer_worker - a wheel and what moves it
 * @wheel: the wheel
 * @monitor: what is measured
 * @memcg: pays for levels to be added; NULL: nobody in particular
 * @start_ns: when the wheel began, on its clock
 * @name: unique among the live wheels
 * @sched: as in the parameters
 * @nice: the same
 * @task: the kthread; a reference of its own
 * @actor: who does the worker's part: @task, or who stops the wheel
 * @debugfs: the wheel's directory, or an error
 * @list: on the list of live wheels
 */
struct hwtimer_worker {
	struct hwtimer_wheel	wheel;
	struct hwtimer_monitor	monitor;
	struct mem_cgroup	*memcg;
	u64			start_ns;
	char			name[HWTIMER_NAME_LEN + 12];
	enum hwtimer_sched	sched;
	int			nice;
	struct task_struct	*task;
	struct task_struct	*actor;
	struct dentry		*debugfs;
	struct list_head	list;
};

static inline struct hwtimer_worker *to_worker(const struct hwtimer_wheel *w)
{
	return container_of(w, struct hwtimer_worker, wheel);
}

/* hwtimer_debugfs.c */
void hwtimer_debugfs_init(void);
void hwtimer_debugfs_exit(void);
void hwtimer_debugfs_add(struct hwtimer_worker *worker);
void hwtimer_debugfs_remove(struct hwtimer_worker *worker);

#endif /* HWTIMER_INTERNAL_H */
