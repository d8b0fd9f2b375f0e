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
 * docs/promises.rst lists what a wheel promises. hwtimer_work.h has timeouts that run on a
 * workqueue.
 *
 * Calls
 * -----
 *
 * Where each function may be called, and what it does to a timeout ("ends: X": the pending arming
 * ends as X):
 *
 *	                         contexts  pending         not pending
 *	hwtimer_schedule[_at]    any       re-armed        armed
 *	hwtimer_touch[_at]       any       re-armed        -ENOENT
 *	hwtimer_schedule_forward any       -EBUSY          armed
 *	hwtimer_schedule_unless_due
 *	                         any       re-armed        armed, or -ETIME
 *	hwtimer_cancel           any       ends: cancelled nothing
 *	hwtimer_cancel_sync      may sleep ends: cancelled waits for callback
 *	hwtimer_shutdown_sync    may sleep ends: cancelled likewise; for good
 *	hwtimer_release          any       ends: cancelled @released; for good
 *	hwtimer_wheel_stop       may sleep handed back     waits for callback
 *	hwtimer_wheel_barrier    may sleep nothing         waits for callbacks
 *	                                                   and for releases
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
 *	           arm/touch        cancel            expire
 *	arm/touch  last one counts  in either order   armed again after expiring,
 *	                                              or touched before expiring
 *	cancel                      one returns true  cancelled or expired;
 *	                                              cancel returns which
 *
 * While hwtimer_wheel_stop() runs, owners may call all of these functions; arming fails. The
 * caller of the stop gets a list of the timeouts that were pending, and owns them. So an owner that
 * cancels or releases a timeout during a stop must not free it as long as that list is in use.
 *
 * Cost
 * ----
 *
 * Reading the clock takes a third of the instructions of hwtimer_schedule(), and half of those of
 * hwtimer_touch() (docs/performance.rst). To arm many timeouts, read hwtimer_wheel_now() once and
 * use the _at variants. If a CPU arms very many timeouts in a row, create the wheel with
 * HWTIMER_SCHED_FIFO_LOW, so that the worker can run in between.
 *
 * Deadlock
 * --------
 *
 * hwtimer_cancel_sync() and the other functions that sleep wait for the worker, which removes the
 * timeout from the wheel and may have to finish other callbacks before. So unlike with
 * timer_delete_sync(), the caller must not hold a lock that any callback of the wheel needs, even
 * the callback of another timeout:
 *
 *	CPU0 (worker)               CPU1
 *	                            mutex_lock(&l);
 *	callback() of any timeout
 *	  mutex_lock(&l);  (waits)
 *	                            hwtimer_cancel_sync(t);  (waits: for ever)
 *
 * Nor may callbacks of two wheels wait for each other's timeouts. Lockdep reports both.
 * hwtimer_release() does not wait, so it may be called with any lock held.
 */
#ifndef HWTIMER_H
#define HWTIMER_H

#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/module.h>

#include "core/hwtimer_period.h"
#include "core/hwtimer_types.h"

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
 * * -EINVAL - a parameter is invalid; one round (@tick_ns times the rounded @slots) is longer than
 *   HWTIMER_HORIZON; a level is above one that reaches HWTIMER_HORIZON; no CPU of @cpus is online
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
