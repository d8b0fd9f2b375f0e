/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: work items, timeouts whose function runs on a workqueue.
 *
 * A work item is to struct hwtimer_timeout what delayed_work is to timer_list: when it expires,
 * the wheel's worker only queues a work_struct. So its function may block, and delays no other
 * timeout.
 *
 *	struct lease {
 *		struct hwtimer_work	renewal;
 *		struct socket		*server;
 *	};
 *
 *	wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
 *			.name = "leases", .tick_ns = 10 * NSEC_PER_MSEC,
 *			.slots = 512, .flags = HWTIMER_WHEEL_WORK });
 *
 *	ret = hwtimer_work_init(&l->renewal, wheel, lease_renew, NULL);
 *	hwtimer_work_schedule(&l->renewal, 30LL * NSEC_PER_SEC);
 *	hwtimer_work_release(&l->renewal, lease_free);		// finally
 *
 * Terms: when an item expires, a run of it is dispatched, or the expiry is refused. A dispatched
 * run is due until it begins, and in progress until the function returns. At most one run of an
 * item is in progress at a time, whatever workqueues its runs are queued on.
 *
 * The table shows what each operation does, by the state of the item. An item can be pending, have
 * runs due, and have a run in progress, all at once; then several columns apply. "Worker" is
 * process context with the kthread driver and softirq with the hrtimer driver.
 *
 *	                 contexts   pending      run due       in progress     idle
 *	schedule[_at]    any        re-armed     armed         armed           armed
 *	touch[_at]       any        re-armed     -ENOENT       -ENOENT         -ENOENT
 *	cancel           any        ended: true  ended: true   marked; false   false
 *	cancel_sync      may sleep  ended: 1     ended: 1      marked, waits   0
 *	shutdown_sync    may sleep  as cancel_sync; from then on arming fails
 *	release          any        ended: true  ended: true   marked; false   false
 *	                            and calls the release function when the item is idle
 *	is_pending       any        true         true          false           false
 *
 *	expiry, by policy
 *	  SERIAL         worker                  one more due  one more due    dispatched
 *	  DISCARD        worker                  refused       refused         dispatched
 *	  REPLACE        worker                  replaced      marked, one     dispatched
 *	                                                       more due
 *
 *	hwtimer_wheel_stop()        handed back  goes on       goes on
 *	hwtimer_wheel_destroy()     dropped      waits         waits
 *
 * "Marked": hwtimer_work_cancelled() returns true in the run that is in progress. Inside the
 * function, cancel_sync and shutdown_sync return -EDEADLK; all other operations are allowed.
 *
 * hwtimer_work_of() finds the item of a timeout that hwtimer_wheel_stop() handed back. After a
 * stop, arming fails with -ESHUTDOWN, also inside the function.
 *
 * Workqueues: an item runs on the workqueue in its parameters, or on one of the wheel's two lanes,
 * which are unbound workqueues without WQ_MEM_RECLAIM. If more than slow_runs runs of an item that
 * ended in the current minute of CLOCK_MONOTONIC took longer than slow_ms, the item is dispatched
 * to the slow lane until the minute is over, so that slow items delay only each other. The lane is
 * chosen when the item is neither queued nor running; runs that become due after an earlier run use
 * the same lane as that run.
 *
 * The function runs in process context with interrupts on, so the workqueue must not be a WQ_BH
 * one. A workqueue of the caller must outlive everything that may be dispatched to it: stop the
 * wheel, or end the items, before you drain or destroy the workqueue. Destroy it before hwtimer.ko
 * can be unloaded, because each run ends with code of hwtimer.ko. The wheel creates and destroys
 * its lanes.
 *
 * Suspend: the lanes are not freezable. Put work that must not run while the machine suspends on
 * a workqueue with WQ_FREEZABLE, such as system_freezable_wq. A run that is dispatched while the
 * workqueue is frozen is due until the thaw, and hwtimer_wheel_destroy() waits for it, and so
 * does the release function of its item.
 *
 * Deadlock: the rule of hwtimer_cancel_sync() holds, see "Deadlock" in hwtimer.h. In addition, a
 * caller that waits for a run must not hold a lock that the function takes, as with
 * cancel_delayed_work_sync(). Lockdep checks both. While a callback of the wheel waits for a run,
 * no other timeout of the wheel expires.
 */
#ifndef HWTIMER_WORK_H
#define HWTIMER_WORK_H

#include <linux/atomic.h>
#include <linux/lockdep.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "hwtimer.h"

struct hwtimer_work;

/**
 * typedef hwtimer_work_fn_t - the function of an item
 * @work: the item
 *
 * Runs in process context on a workqueue. It may block, and it may arm, cancel and release its own
 * item and others. It must not free @work, which is accessed after the function returns; use
 * hwtimer_work_release() for that.
 */
typedef void (*hwtimer_work_fn_t)(struct hwtimer_work *work);

/**
 * typedef hwtimer_work_released_fn_t - the release function of an item
 * @work: the item, which neither the wheel nor a workqueue holds any more
 *
 * Runs in the wheel's worker, in hwtimer_wheel_stop(), on the workqueue of the last run or, if the
 * wheel was stopped before the release, inside hwtimer_work_release(). It must not sleep unless all
 * of these may sleep; kfree() is always allowed.
 */
typedef void (*hwtimer_work_released_fn_t)(struct hwtimer_work *work);

/**
 * enum hwtimer_work_policy - what an expiry does while an earlier run is due or in progress
 * @HWTIMER_WORK_SERIAL: it dispatches a run that follows the earlier ones
 * @HWTIMER_WORK_DISCARD: it is refused
 * @HWTIMER_WORK_REPLACE: it replaces an earlier run that has not begun. For one in progress,
 *	hwtimer_work_cancelled() becomes true, and the new run follows it
 */
enum hwtimer_work_policy {
	HWTIMER_WORK_SERIAL,
	HWTIMER_WORK_DISCARD,
	HWTIMER_WORK_REPLACE,
};

/**
 * enum hwtimer_refused - why an expiry was refused
 * @HWTIMER_REFUSED_BUSY: an earlier run is due or in progress (HWTIMER_WORK_DISCARD)
 * @HWTIMER_REFUSED_FULL: as many runs are due on the wheel's lanes as max_queued allows, or
 *	2^32 - 1 runs of this item are due
 */
enum hwtimer_refused {
	HWTIMER_REFUSED_BUSY,
	HWTIMER_REFUSED_FULL,
};

/**
 * typedef hwtimer_work_refused_fn_t - called when an expiry is refused
 * @work: the item
 * @reason: the reason
 *
 * Runs in the wheel's worker, like the callback of a timeout, so in softirq with the hrtimer
 * driver. It may arm, cancel and release the item but not free it.
 */
typedef void (*hwtimer_work_refused_fn_t)(struct hwtimer_work *work,
					  enum hwtimer_refused reason);

/**
 * struct hwtimer_work_params - the parameters of an item
 * @wq: the workqueue on which it runs; NULL: the lanes of the wheel
 * @policy: what an expiry does while an earlier run is due or in progress
 * @refused: called for each expiry that is refused; may be NULL. The wheel counts refused expiries
 *	in any case
 */
struct hwtimer_work_params {
	struct workqueue_struct		*wq;
	enum hwtimer_work_policy	policy;
	hwtimer_work_refused_fn_t	refused;
};

/**
 * struct hwtimer_work - a timeout with a work item, embedded in its owner's structure
 * @timeout: the timeout; may be passed to hwtimer_deadline()
 * @work: the work_struct that is queued, by the caller that sets QUEUED in @state
 * @state: the state of the item and the number of runs due; private to hwtimer_work.c
 * @fn: the function. Constant
 * @refused: as in the parameters. Constant
 * @wq: as in the parameters. Constant
 * @policy: as in the parameters. Constant
 * @released: the release function; set by hwtimer_work_release() before it changes @state
 * @on: the workqueue on which @work was queued last. Changed only by the wheel's worker, when the
 *	item becomes active
 * @minute: the minute of CLOCK_MONOTONIC in which the last run ended. Accessed only by the caller
 *	that set QUEUED or RUNNING
 * @slow_count: how many slow runs ended in that minute. Accessed like @minute
 *
 * Must not be on the stack.
 */
struct hwtimer_work {
	struct hwtimer_timeout		timeout;
	struct work_struct		work;
	atomic64_t			state;
	hwtimer_work_fn_t		fn;
	hwtimer_work_refused_fn_t	refused;
	struct workqueue_struct		*wq;
	enum hwtimer_work_policy	policy;
	hwtimer_work_released_fn_t	released;
	struct workqueue_struct		*on;
	unsigned int			minute;
	unsigned int			slow_count;
};

int __must_check __hwtimer_work_init(struct hwtimer_work *work, struct hwtimer_wheel *wheel,
				     hwtimer_work_fn_t fn,
				     const struct hwtimer_work_params *params,
				     struct lock_class_key *key, const char *name);

/**
 * hwtimer_work_init() - prepare an item
 * @_work: the item; idle, and not held by a wheel (see hwtimer_work_cancel_sync() and
 *	hwtimer_work_release())
 * @_wheel: the wheel on which it will be armed
 * @_fn: its function
 * @_params: its parameters; not needed after the call; NULL: HWTIMER_WORK_SERIAL on the lanes of
 *	the wheel, without a refused callback
 *
 * A macro, like INIT_DELAYED_WORK(), because lockdep classifies items by where they are
 * initialised. So lockdep reports a function that waits (hwtimer_work_cancel_sync()) for another
 * item that was initialised in the same place.
 *
 * Context: Any context.
 *
 * Return:
 * * 0 - the item may be armed
 * * -EINVAL - no workqueue was given and the wheel has no lanes (HWTIMER_WHEEL_WORK), or the
 *   policy is unknown. Arming then fails with -ESHUTDOWN; all other functions may be called
 */
#define hwtimer_work_init(_work, _wheel, _fn, _params)				\
({										\
	static struct lock_class_key __key;					\
										\
	__hwtimer_work_init(_work, _wheel, _fn, _params, &__key, #_work);	\
})

/**
 * hwtimer_work_schedule() - arm an item to run after a delay
 * @work: the item
 * @delay_ns: as for hwtimer_schedule()
 *
 * When the item expires while an earlier run is due or in progress, its policy decides what
 * happens.
 *
 * Context: Any context but NMI. Lock-free; does not allocate.
 *
 * Return: as hwtimer_schedule_at().
 */
static inline int hwtimer_work_schedule(struct hwtimer_work *work, s64 delay_ns)
{
	return hwtimer_schedule(&work->timeout, delay_ns);
}

/**
 * hwtimer_work_schedule_at() - arm an item, or re-arm a pending one
 * @work: the item
 * @deadline_ns: as for hwtimer_schedule_at()
 *
 * Context: Any context but NMI. Lock-free; does not allocate.
 *
 * Return: as hwtimer_schedule_at().
 */
static inline int hwtimer_work_schedule_at(struct hwtimer_work *work, u64 deadline_ns)
{
	return hwtimer_schedule_at(&work->timeout, deadline_ns);
}

/**
 * hwtimer_work_touch() - push back a pending item by a delay from now
 * @work: the item
 * @delay_ns: as for hwtimer_schedule()
 *
 * Context: Any context but NMI. Lock-free; does not allocate.
 *
 * Return: as hwtimer_touch_at(): -ENOENT if it has expired, even if its run has not begun.
 */
static inline int hwtimer_work_touch(struct hwtimer_work *work, s64 delay_ns)
{
	return hwtimer_touch(&work->timeout, delay_ns);
}

/**
 * hwtimer_work_touch_at() - give a pending item another deadline
 * @work: the item
 * @deadline_ns: as for hwtimer_schedule_at()
 *
 * Context: Any context but NMI. Lock-free; does not allocate.
 *
 * Return: as hwtimer_touch_at(): -ENOENT if it has expired, even if its run has not begun.
 */
static inline int hwtimer_work_touch_at(struct hwtimer_work *work, u64 deadline_ns)
{
	return hwtimer_touch_at(&work->timeout, deadline_ns);
}

bool hwtimer_work_cancel(struct hwtimer_work *work);
int hwtimer_work_cancel_sync(struct hwtimer_work *work);
int hwtimer_work_shutdown_sync(struct hwtimer_work *work);
bool hwtimer_work_release(struct hwtimer_work *work, hwtimer_work_released_fn_t released);
bool hwtimer_work_is_pending(const struct hwtimer_work *work);
bool hwtimer_work_cancelled(const struct hwtimer_work *work);
struct hwtimer_work *hwtimer_work_of(struct hwtimer_timeout *timeout);

#endif /* HWTIMER_WORK_H */
