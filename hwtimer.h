/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: a hashed timing wheel for approximate timeouts, the in-kernel API.
 *
 * For timeouts that are armed, pushed back and cancelled all the time and that
 * rarely fire: idle connections, heartbeats, request deadlines, leases. Their
 * callbacks run in process context or, if the wheel asks for it, in softirq.
 *
 *	struct conn {
 *		struct hwtimer_timeout	idle;
 *		...
 *	};
 *
 *	wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
 *			.name = "conns", .tick_ns = 10 * NSEC_PER_MSEC,
 *			.slots = 512 });
 *
 *	hwtimer_init(&c->idle, wheel, conn_idle);
 *	hwtimer_schedule(&c->idle, 30LL * NSEC_PER_SEC);
 *	hwtimer_touch(&c->idle, 30LL * NSEC_PER_SEC);	on every message
 *	hwtimer_release(&c->idle, conn_free);		on close
 *
 * What may be called from where, and what it does to what (one timeout; "ends"
 * tells how the arming that was pending before the call ends):
 *
 *	                       contexts   pending          not pending
 *	hwtimer_schedule[_at]  any        re-armed         armed
 *	hwtimer_touch[_at]     any        re-armed         -ENOENT
 *	hwtimer_forward        any        -EBUSY           armed
 *	hwtimer_cancel         any        ends: cancelled  nothing
 *	hwtimer_cancel_sync    may sleep  ends: cancelled  waits for the callback
 *	hwtimer_shutdown_sync  may sleep  ends: cancelled  the same; for good
 *	hwtimer_release        any        ends: cancelled  calls back; for good
 *	hwtimer_wheel_stop     may sleep  handed back      waits for the callback
 *	hwtimer_wheel_barrier  may sleep  nothing          waits for the callback
 *
 * "Any" is process, softirq and hardirq context, interrupts on or off, inside
 * callbacks; not NMI, and not where waking a task is forbidden (under the
 * scheduler's own locks). None of these sleeps, allocates, or takes a lock of
 * the wheel's. Callbacks may call what may sleep for other timeouts of their wheel,
 * but those that run in softirq must not: they have hwtimer_release().
 *
 * Two of them at once on the same timeout: the word of the timeout decides who
 * was first; each arming ends exactly once.
 *
 *	             arm/touch        cancel            expire
 *	arm/touch    last one counts  in either order   armed anew, or touched
 *	                                                and not yet expired
 *	cancel                        one returns true  cancelled or expired,
 *	                                                cancel tells which
 *
 * While hwtimer_wheel_stop() runs, owners may call all of these. Arming fails. But what the stop
 * hands back is its caller's, who goes through a list: who cancels or releases a timeout
 * beside a stop must not free it before that is over.
 *
 * Cost: to look at the clock takes longer than all else that hwtimer_schedule() and
 * hwtimer_touch() do. Who has many to arm, or knows the time already, asks
 * hwtimer_wheel_now() once and calls the _at functions. Where a CPU arms very many in
 * a row, the worker should be let in between: HWTIMER_SCHED_FIFO_LOW. Figures are in
 * docs/performance.
 *
 * What a wheel promises is in README ("Promises"). Timeouts that come back by
 * themselves are in hwtimer_period.h.
 *
 * Deadlock: hwtimer_cancel_sync() and its like wait for the worker, which has to
 * take the timeout out of the wheel. So unlike with timer_delete_sync() the caller
 * must not hold what any callback of the wheel needs, be it of another timeout:
 *
 *	CPU0 (worker)                   CPU1
 *	                                mutex_lock(&l);
 *	callback() of any timeout
 *	  mutex_lock(&l);   (waits)
 *	                                hwtimer_cancel_sync(t);  (waits: for ever)
 *
 * Nor may callbacks of two wheels wait for timeouts of each other's. Lockdep knows
 * and reports both. hwtimer_release() has no such rule.
 */
#ifndef HWTIMER_H
#define HWTIMER_H

#include <linux/bits.h>
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/list.h>

#include "hwtimer_types.h"

/** define HWTIMER_NAME_LEN - room for a wheel's name, its final 0 included */
#define HWTIMER_NAME_LEN	32
/** define HWTIMER_MAX_SLOTS - the most slots that a wheel can have */
#define HWTIMER_MAX_SLOTS	BIT(30)
/**
 * define HWTIMER_FOREVER - the deadline that never comes
 *
 * In ns since the wheel was created: 36.5 years. Later deadlines become this
 * one; they stay pending until they are cancelled.
 */
#define HWTIMER_FOREVER		((1ULL << 60) - 1)

/**
 * enum hwtimer_sched - how a wheel's worker is scheduled
 * @HWTIMER_SCHED_NORMAL: SCHED_NORMAL with the nice value of the parameters
 * @HWTIMER_SCHED_FIFO_LOW: as sched_set_fifo_low(): before all normal tasks
 * @HWTIMER_SCHED_FIFO: as sched_set_fifo(): before those, too
 */
enum hwtimer_sched {
	HWTIMER_SCHED_NORMAL,
	HWTIMER_SCHED_FIFO_LOW,
	HWTIMER_SCHED_FIFO,
};

/**
 * enum hwtimer_driver - what moves a wheel, and so where its callbacks run
 * @HWTIMER_DRIVER_KTHREAD: a thread of the wheel's own; callbacks run in process
 *	context and may sleep for a short while
 * @HWTIMER_DRIVER_HRTIMER: an hrtimer; callbacks run in softirq (on PREEMPT_RT in
 *	a thread that stands for it) on some CPU, one at a time, and must not sleep.
 *	hwtimer_wheel_stop() calls what was released with softirqs off, too. A
 *	burst is dealt with in slices, with time for others in between. Not for
 *	wheels of very many slots: some looks take as long as there are slots
 */
enum hwtimer_driver {
	HWTIMER_DRIVER_KTHREAD,
	HWTIMER_DRIVER_HRTIMER,
};

/**
 * enum hwtimer_clock - what a wheel's time is
 * @HWTIMER_CLOCK_MONOTONIC: CLOCK_MONOTONIC: stands still while the machine is
 *	suspended, and so do the timeouts
 * @HWTIMER_CLOCK_BOOTTIME: CLOCK_BOOTTIME: goes on; what became due while the
 *	machine was suspended expires when it has been resumed, as late as that is
 *	counted. Does not wake the machine
 *
 * Neither driver is frozen with tasks: until the clocks stop, and from when they go
 * on, timeouts expire, as timers do. A callback that must not run while the machine
 * goes down, or comes up, queues a work item on a freezable workqueue
 * (system_freezable_wq).
 */
enum hwtimer_clock {
	HWTIMER_CLOCK_MONOTONIC,
	HWTIMER_CLOCK_BOOTTIME,
};

/**
 * define HWTIMER_WHEEL_ACCOUNT - charge the wheel to the cgroups of its creator
 *
 * Its memory, and with HWTIMER_DRIVER_KTHREAD the CPU time of its thread, which joins these
 * cgroups (cgroup_attach_task_all()) and stays there if the creator is moved. Not the CPU time of
 * the lanes of HWTIMER_WHEEL_WORK, which are workqueues.
 */
#define HWTIMER_WHEEL_ACCOUNT	BIT(0)
/**
 * define HWTIMER_WHEEL_GROW - add levels when a timeout needs them
 *
 * By the worker. In softirq (HWTIMER_DRIVER_HRTIMER) there may well be no memory for
 * a level of many slots; give such a wheel its levels from the start.
 */
#define HWTIMER_WHEEL_GROW	BIT(1)
/** define HWTIMER_WHEEL_WORK - make the two lanes of hwtimer_work.h, workqueues */
#define HWTIMER_WHEEL_WORK	BIT(2)

/** define HWTIMER_MAX_LEVELS - the most levels that a wheel can have */
#define HWTIMER_MAX_LEVELS	16

/**
 * struct hwtimer_wheel_params - what a wheel is made of
 * @name: names the wheel in debugfs, in the worker's name and in messages; 1
 *	to HWTIMER_NAME_LEN - 1 characters, no '/'. A second wheel of the same
 *	name gets ".2" behind it, the next a number above those in use.
 * @tick_ns: the time one slot stands for, and so how late a timeout may be
 * @slots: slots per level, 1 to HWTIMER_MAX_SLOTS, rounded up to a power of
 *	two; with more than one level, or HWTIMER_WHEEL_GROW, at least 2
 * @levels: levels to begin with, 1 to HWTIMER_MAX_LEVELS; 0: 1. Each slot of a
 *	level is as wide as the whole level below it. A timeout is looked at once
 *	in each level at the most, but one that is further out than a round
 *	of the top level once more in each round of that
 * @flags: HWTIMER_WHEEL_ACCOUNT, HWTIMER_WHEEL_GROW, HWTIMER_WHEEL_WORK, or 0
 * @driver: what moves the wheel
 * @clock: the wheel's clock
 * @cap: how many timeouts may be pending at once; 0: any number. Two CPUs that
 *	arm the same timeout at the same moment take two places for that moment
 * @cpus: CPUs that the thread may run on; NULL: any. When none of them is online
 *	any more, it runs elsewhere, from then on
 * @sched: the thread's scheduling class
 * @nice: nice value with HWTIMER_SCHED_NORMAL, -20 to 19; else 0
 * @slow_ms: a run of a struct hwtimer_work on the lanes is slow if it takes longer;
 *	0: 500
 * @slow_runs: an item with more slow runs than this within the present minute goes
 *	to the slow lane; 0: 10
 * @max_queued: how many runs may be dispatched to the lanes without having begun;
 *	0: any number
 *
 * @cpus, @sched and @nice are for HWTIMER_DRIVER_KTHREAD; with another driver they
 * must be NULL and 0. So must @slow_ms, @slow_runs and @max_queued be without
 * HWTIMER_WHEEL_WORK.
 */
struct hwtimer_wheel_params {
	const char		*name;
	u64			tick_ns;
	unsigned int		slots;
	unsigned int		levels;
	unsigned int		flags;
	enum hwtimer_driver	driver;
	enum hwtimer_clock	clock;
	unsigned long		cap;
	const struct cpumask	*cpus;
	enum hwtimer_sched	sched;
	int			nice;
	unsigned int		slow_ms;
	unsigned int		slow_runs;
	unsigned long		max_queued;
};

struct hwtimer_wheel *hwtimer_wheel_create(const struct hwtimer_wheel_params *params);
int hwtimer_wheel_start(struct hwtimer_wheel *wheel);
int hwtimer_wheel_stop(struct hwtimer_wheel *wheel, struct list_head *pending);
void hwtimer_wheel_destroy(struct hwtimer_wheel *wheel);
unsigned long hwtimer_wheel_pending(const struct hwtimer_wheel *wheel);
u64 hwtimer_wheel_now(const struct hwtimer_wheel *wheel);
u64 hwtimer_wheel_horizon(const struct hwtimer_wheel *wheel);
u64 hwtimer_wheel_tick_ns(const struct hwtimer_wheel *wheel);
unsigned int hwtimer_wheel_slots(const struct hwtimer_wheel *wheel);
unsigned int hwtimer_wheel_levels(const struct hwtimer_wheel *wheel);
enum hwtimer_clock hwtimer_wheel_clock(const struct hwtimer_wheel *wheel);
bool hwtimer_wheel_in_my_cgroups(const struct hwtimer_wheel *wheel);
void hwtimer_wheel_barrier(struct hwtimer_wheel *wheel);

void hwtimer_init(struct hwtimer_timeout *timeout, struct hwtimer_wheel *wheel,
		  hwtimer_fn_t fn);
/* For timeouts on the stack; as hwtimer_init() and nothing but with debugobjects. */
#ifdef CONFIG_DEBUG_OBJECTS
void hwtimer_init_on_stack(struct hwtimer_timeout *timeout, struct hwtimer_wheel *wheel,
			   hwtimer_fn_t fn);
void hwtimer_destroy_on_stack(struct hwtimer_timeout *timeout);
#else
static inline void hwtimer_init_on_stack(struct hwtimer_timeout *timeout,
					 struct hwtimer_wheel *wheel, hwtimer_fn_t fn)
{
	hwtimer_init(timeout, wheel, fn);
}

static inline void hwtimer_destroy_on_stack(struct hwtimer_timeout *timeout) { }
#endif
int hwtimer_schedule(struct hwtimer_timeout *timeout, s64 delay_ns);
int hwtimer_schedule_at(struct hwtimer_timeout *timeout, u64 deadline_ns);
int hwtimer_forward(struct hwtimer_timeout *timeout, u64 now_ns, u64 period_ns,
		    u64 *overruns);
int hwtimer_touch(struct hwtimer_timeout *timeout, s64 delay_ns);
int hwtimer_touch_at(struct hwtimer_timeout *timeout, u64 deadline_ns);
bool hwtimer_cancel(struct hwtimer_timeout *timeout);
int hwtimer_cancel_sync(struct hwtimer_timeout *timeout);
int hwtimer_shutdown_sync(struct hwtimer_timeout *timeout);
bool hwtimer_release(struct hwtimer_timeout *timeout, hwtimer_released_fn_t released);
bool hwtimer_is_pending(const struct hwtimer_timeout *timeout);
u64 hwtimer_deadline(const struct hwtimer_timeout *timeout);

#endif /* HWTIMER_H */
