/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: a hashed timing wheel for approximate timeouts, the in-kernel API.
 *
 * For timeouts that are often armed, pushed back and cancelled but rarely expire: idle connections,
 * heartbeats, request deadlines, leases. Callbacks run in process context.
 *
 *	struct conn {
 *		struct hwtimer_timeout	idle;
 *		struct socket		*socket;
 *	};
 *
 *	wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
 *			.name = "conns", .tick_ns = 10 * NSEC_PER_MSEC,
 *			.slots = 512 });
 *
 *	hwtimer_init(&c->idle, wheel, conn_idle);
 *	hwtimer_schedule(&c->idle, 30LL * NSEC_PER_SEC);
 *	hwtimer_touch(&c->idle, 30LL * NSEC_PER_SEC);	// on every message
 *	hwtimer_release(&c->idle, conn_free);		// on close
 *
 * docs/promises lists what a wheel promises. hwtimer_work.h has timeouts that run on a workqueue.
 *
 * Calls
 * -----
 *
 * Where each function may be called, and what it does to a timeout ("ends: X": the pending arming
 * ends as X):
 *
 *	                          contexts   pending          not pending
 *	hwtimer_schedule[_at]     any        re-armed         armed
 *	hwtimer_touch[_at]        any        re-armed         -ENOENT
 *	hwtimer_schedule_forward  any        -EBUSY           armed
 *	hwtimer_schedule_unless_due
 *	                          any        re-armed         armed, or -ETIME
 *	hwtimer_cancel            any        ends: cancelled  nothing
 *	hwtimer_cancel_sync       may sleep  ends: cancelled  waits for the callback
 *	hwtimer_shutdown_sync     may sleep  ends: cancelled  waits for the callback; for good
 *	hwtimer_release           any        ends: cancelled  calls @released; for good
 *	hwtimer_wheel_stop        may sleep  handed back      waits for the callback
 *	hwtimer_wheel_barrier     may sleep  nothing          waits for callbacks and releases
 *
 * "Any" is process, softirq and hardirq context, with interrupts on or off, also inside callbacks;
 * but not NMI, and not where waking a task is forbidden (under the scheduler's own locks).
 * Functions that may be called in any context do not sleep, allocate, or take a lock of the wheel.
 * A callback may call hwtimer_cancel_sync() and hwtimer_shutdown_sync() for other timeouts of its
 * wheel.
 *
 * If two calls for the same timeout race, they take effect one after the other, in the order in
 * which they change its word. Each arming ends exactly once.
 *
 *	             arm/touch        cancel            expire
 *	arm/touch    last one counts  in either order   armed again after expiring,
 *	                                                or touched before expiring
 *	cancel                        one returns true  cancelled or expired;
 *	                                                cancel returns which
 *
 * While hwtimer_wheel_stop() runs, owners may call all of these functions; arming fails. The
 * caller of the stop gets a list of the timeouts that were pending, and owns them. So an owner that
 * cancels or releases a timeout during a stop must not free it as long as that list is in use.
 *
 * Cost
 * ----
 *
 * Reading the clock takes longer than the rest of hwtimer_schedule() and
 * hwtimer_touch(). To arm many timeouts, read hwtimer_wheel_now() once and use the
 * _at variants. If a CPU arms very many timeouts in a row, create the wheel with
 * HWTIMER_SCHED_FIFO_LOW, so that the worker can run in between. docs/performance has figures.
 *
 * Deadlock
 * --------
 *
 * hwtimer_cancel_sync() and the other functions that sleep wait for the worker, which removes the
 * timeout from the wheel and may have to finish other callbacks before. So unlike with
 * timer_delete_sync(), the caller must not hold a lock that any callback of the wheel needs, even
 * the callback of another timeout:
 *
 *	CPU0 (worker)                   CPU1
 *	                                mutex_lock(&l);
 *	callback() of any timeout
 *	  mutex_lock(&l);   (waits)
 *	                                hwtimer_cancel_sync(t);  (waits: for ever)
 *
 * Nor may callbacks of two wheels wait for each other's timeouts. Lockdep reports both.
 * hwtimer_release() does not wait, so it may be called with any lock held.
 */
#ifndef HWTIMER_H
#define HWTIMER_H

#include <linux/bits.h>
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/module.h>

#include "hwtimer_period.h"
#include "hwtimer_types.h"

/** define HWTIMER_NAME_LEN - the size of a wheel's name, including its final 0 */
#define HWTIMER_NAME_LEN	32
/** define HWTIMER_WHEEL_MAX_SLOTS - the most slots that a wheel can have */
#define HWTIMER_WHEEL_MAX_SLOTS	BIT(16)
/**
 * define HWTIMER_HORIZON - the deadline that never comes
 *
 * In ns since the wheel was created: 36.5 years. A timeout with this deadline or a later one stays
 * pending until it is cancelled.
 */
#define HWTIMER_HORIZON		((1ULL << 60) - 1)

/**
 * enum hwtimer_sched - how a wheel's worker is scheduled
 * @HWTIMER_SCHED_NORMAL: SCHED_NORMAL with the nice value of the parameters
 * @HWTIMER_SCHED_FIFO_LOW: the priority of sched_set_fifo_low(): above all SCHED_NORMAL tasks
 * @HWTIMER_SCHED_FIFO: the priority of sched_set_fifo(): above HWTIMER_SCHED_FIFO_LOW, too
 */
enum hwtimer_sched {
	HWTIMER_SCHED_NORMAL,
	HWTIMER_SCHED_FIFO_LOW,
	HWTIMER_SCHED_FIFO,
};

/**
 * enum hwtimer_clock - the clock of a wheel
 * @HWTIMER_CLOCK_MONOTONIC: CLOCK_MONOTONIC: stands still while the machine is suspended, so
 *	timeouts do not become due meanwhile
 * @HWTIMER_CLOCK_BOOTTIME: CLOCK_BOOTTIME: goes on during suspend. A timeout that becomes
 *	due while the machine is suspended expires after the resume, and the time since its
 *	deadline counts as lateness. It does not wake the machine
 *
 * Workers are not frozen with tasks: like timers, timeouts expire until the clocks stop, and again
 * as soon as the clocks run. A callback that must not do its work while the machine suspends or
 * resumes queues the work on a freezable workqueue (system_freezable_wq).
 */
enum hwtimer_clock {
	HWTIMER_CLOCK_MONOTONIC,
	HWTIMER_CLOCK_BOOTTIME,
};

/** define HWTIMER_MAX_LEVELS - the most levels that a wheel can have */
#define HWTIMER_MAX_LEVELS	16

/**
 * struct hwtimer_wheel_params - the parameters of a wheel
 * @name: the name of the wheel in debugfs, of its thread and in messages; 1 to HWTIMER_NAME_LEN - 1
 *	characters, no '/', not "." or "..". If another wheel has that name, ".2" is appended, or
 *	a number above those in use
 * @tick_ns: the length of a tick, and so how late a timeout may normally expire
 * @slack_ns: by how much later it may expire, so that one wake-up of the worker serves many
 *	timeouts: they expire only at each nth tick, where n is the largest power of two for which
 *	this makes none later. Up to HWTIMER_HORIZON; 0: at each tick. As the precision of
 *	FreeBSD's callout_reset_sbt()
 * @slots: slots per level, 1 to HWTIMER_WHEEL_MAX_SLOTS, rounded up to a power of two; with more
 *	than one level, at least 4
 * @levels: how many levels, 1 to HWTIMER_MAX_LEVELS; 0: as many as reach HWTIMER_HORIZON, at most
 *	HWTIMER_MAX_LEVELS, but one if there are 1 or 2 slots. A slot of a level is half as wide as
 *	the level below reaches. The worker visits a timeout that nobody touches at most once per
 *	level. While a timeout is further ahead than the top level reaches, the worker may also
 *	visit it once per round of that level
 * @bits: instead of @slots and @levels, which are 0 then: the base-2 logarithm of the slots of each
 *	level, up to the first 0; each from 1 to 16, and at least 2 with another level above. { 9 }:
 *	one level of 512 slots, as in Netty; { 6, 6, 5 }: as the hands of a clock
 * @clock: the clock of the wheel
 * @cap: how many timeouts may be pending at once; 0: any number. While two CPUs arm the same
 *	timeout, it counts twice. With a cap, arming takes a spinlock once in many calls, and may
 *	take a step per possible CPU when few places are left
 * @cpus: CPUs that the thread may run on; NULL: any. If all of them go offline, the thread runs
 *	elsewhere, and stays there
 * @sched: the thread's scheduling class
 * @nice: nice value with HWTIMER_SCHED_NORMAL, -20 to 19; else 0
 */
struct hwtimer_wheel_params {
	const char		*name;
	u64			tick_ns;
	u64			slack_ns;
	unsigned int		slots;
	unsigned int		levels;
	unsigned char		bits[HWTIMER_MAX_LEVELS];
	enum hwtimer_clock	clock;
	unsigned long		cap;
	const struct cpumask	*cpus;
	enum hwtimer_sched	sched;
	int			nice;
};

struct hwtimer_wheel *__hwtimer_wheel_create(const struct hwtimer_wheel_params *params,
					     struct module *owner);

/**
 * hwtimer_wheel_create - create a wheel and its worker
 * @params: its parameters; not needed after the call
 *
 * The worker sleeps until the first timeout is armed. The wheel belongs to the module that calls
 * this: if that goes away without destroying the wheel, this is logged, and the wheel is destroyed
 * before its callbacks would be called where no code is any more. (Netty's leak detector reports a
 * timer that was not stopped.)
 *
 * Context: Process context, may sleep.
 *
 * Return: the wheel, to be destroyed by hwtimer_wheel_destroy(), or an ERR_PTR():
 *
 * * -EINVAL - no name, or an invalid one; @tick_ns is 0; @slack_ns is above HWTIMER_HORIZON;
 *   @slots and @bits are 0, or neither is;
 *   @slots above HWTIMER_WHEEL_MAX_SLOTS; one round (@tick_ns times the rounded @slots) longer than
 *   HWTIMER_HORIZON; a level above one that reaches HWTIMER_HORIZON, or above one of fewer than 4
 *   slots; an unknown clock or scheduling class; @nice out of range; no CPU of @cpus is
 *   online
 * * -ENOMEM - no memory
 * * -EAGAIN - the limit on threads was reached
 * * -EINTR - the caller was killed meanwhile
 */
static inline struct hwtimer_wheel *hwtimer_wheel_create(const struct hwtimer_wheel_params *params)
{
	return __hwtimer_wheel_create(params, THIS_MODULE);
}

int hwtimer_wheel_start(struct hwtimer_wheel *wheel);
int hwtimer_wheel_stop(struct hwtimer_wheel *wheel, struct list_head *pending);
void hwtimer_wheel_destroy(struct hwtimer_wheel *wheel);
unsigned long hwtimer_wheel_pending(const struct hwtimer_wheel *wheel);
u64 hwtimer_wheel_now(const struct hwtimer_wheel *wheel);
void hwtimer_wheel_barrier(struct hwtimer_wheel *wheel);

void hwtimer_init(struct hwtimer_timeout *timeout, struct hwtimer_wheel *wheel,
		  hwtimer_fn_t fn);
/*
 * For timeouts on the stack. Without CONFIG_DEBUG_OBJECTS, hwtimer_init_on_stack() is
 * hwtimer_init(), and hwtimer_destroy_on_stack() does nothing.
 */
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
int hwtimer_schedule_forward(struct hwtimer_timeout *timeout, u64 now_ns,
			     const struct hwtimer_period *period,
			     struct hwtimer_decision *decision);
int hwtimer_schedule_unless_due(struct hwtimer_timeout *timeout, u64 deadline_ns);
int hwtimer_touch(struct hwtimer_timeout *timeout, s64 delay_ns);
int hwtimer_touch_at(struct hwtimer_timeout *timeout, u64 deadline_ns);
bool hwtimer_cancel(struct hwtimer_timeout *timeout);
int hwtimer_cancel_sync(struct hwtimer_timeout *timeout);
int hwtimer_shutdown_sync(struct hwtimer_timeout *timeout);
bool hwtimer_release(struct hwtimer_timeout *timeout, hwtimer_released_fn_t released);
bool hwtimer_is_pending(const struct hwtimer_timeout *timeout);
u64 hwtimer_deadline(const struct hwtimer_timeout *timeout);

#endif /* HWTIMER_H */
