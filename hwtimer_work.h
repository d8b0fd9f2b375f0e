/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: work items, timeouts whose function runs on a workqueue.
 *
 * A work item is to struct hwtimer_timeout what delayed_work is to timer_list: at the expiry
 * the wheel's worker only queues a work_struct. The function may block as long as it has to
 * and delays no other timeout.
 *
 *	struct lease {
 *		struct hwtimer_work	renewal;
 *		...
 *	};
 *
 *	wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
 *			.name = "leases", .tick_ns = 10 * NSEC_PER_MSEC,
 *			.slots = 512, .flags = HWTIMER_WHEEL_WORK });
 *
 *	ret = hwtimer_work_init(&l->renewal, wheel, lease_renew, NULL);
 *	hwtimer_work_schedule(&l->renewal, 30LL * NSEC_PER_SEC);
 *	hwtimer_work_release(&l->renewal, lease_free);		in the end
 *
 * Terms: an arming expires. The expiry is dispatched as a run, or refused. A run is due until it
 * begins, and goes on until the function returns. At most one run of an item goes on at a
 * time, wherever it was queued.
 *
 * What each operation does, by the state of the item. An item can be pending, have runs due,
 * and have a run that goes on, all at once; then several columns apply. "Wheel" is process context
 * with the kthread driver, softirq with the hrtimer driver.
 *
 *	                 contexts   pending      run due       run goes on   idle
 *	schedule[_at]    any        re-armed     armed         armed         armed
 *	touch[_at]       any        re-armed     -ENOENT       -ENOENT       -ENOENT
 *	cancel           any        ended: true  ended: true   told; false   false
 *	cancel_sync      may sleep  ended: 1     ended: 1      told, waits   0
 *	shutdown_sync    may sleep  the same; from then on arming fails
 *	release          any        ended: true  ended: true   told; false   false
 *	                            and calls back when all is over
 *	is_pending       any        true         true          false         false
 *
 *	expiry, by policy
 *	  SERIAL         wheel                   one more due  one more due  dispatched
 *	  DISCARD        wheel                   refused       refused       dispatched
 *	  REPLACE        wheel                   takes its     told, one     dispatched
 *	                                         place         due after it
 *
 *	hwtimer_wheel_stop()        handed back  goes on       goes on
 *	hwtimer_wheel_destroy()     dropped      waits         waits
 *
 * "Told": hwtimer_work_cancelled() returns true in the run that goes on. Inside the function,
 * cancel_sync and shutdown_sync return -EDEADLK; all other operations are allowed.
 *
 * hwtimer_work_of() finds the item of a timeout that hwtimer_wheel_stop() handed back. After a
 * stop, arming fails with -ESHUTDOWN, also inside the function.
 *
 * Workqueues: an item runs on the workqueue in its parameters, or on one of the wheel's two
 * lanes, which are unbound workqueues without WQ_MEM_RECLAIM. If more than slow_runs runs of an
 * item took longer than slow_ms within the current minute of CLOCK_MONOTONIC, the item is
 * dispatched to the slow lane until the minute is over, so that slow items delay only each other.
 * The lane is chosen when the item is neither queued nor running; runs that become due behind
 * another one follow it on its lane.
 *
 * The function runs in process context with interrupts on, so the workqueue must not be a WQ_BH
 * one. A workqueue of the caller must outlive everything that may be dispatched to it: stop the
 * wheel, or end the items, before you drain or destroy it. Destroy it before hwtimer.ko can be
 * unloaded, because a run ends with code of hwtimer.ko. The wheel takes care of its lanes.
 *
 * Suspend: the lanes are not freezable. Put work that must not run while the machine suspends on
 * a workqueue with WQ_FREEZABLE, such as system_freezable_wq. A run that is dispatched while the
 * workqueue is frozen is due until the thaw, and hwtimer_wheel_destroy() and a release wait for
 * it.
 *
 * Deadlock: the rule of hwtimer_cancel_sync() holds, see "Deadlock" in hwtimer.h. Besides, a
 * caller that waits for a run must not hold a lock that the function takes, as with
 * cancel_delayed_work_sync(). Lockdep checks both. If a callback of the wheel waits for a run, all
 * timeouts of the wheel wait.
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
 * Runs in process context on a workqueue. It may block, and arm, cancel and release its own item
 * and others. It must not free @work, which is accessed after it returns; use
 * hwtimer_work_release() for that.
 */
typedef void (*hwtimer_work_fn_t)(struct hwtimer_work *work);

/**
 * typedef hwtimer_work_released_fn_t - the release function of an item
 * @work: the item, which neither the wheel nor a workqueue knows any more
 *
 * Runs in the wheel's worker, on the workqueue of the last run or, if the wheel was stopped before
 * the release, inside hwtimer_work_release(). It must not sleep if one of these must not; kfree()
 * is always allowed.
 */
typedef void (*hwtimer_work_released_fn_t)(struct hwtimer_work *work);

/**
 * enum hwtimer_work_policy - what happens to an expiry while an earlier run is due or goes on
 * @HWTIMER_WORK_SERIAL: it gets a run of its own, after those
 * @HWTIMER_WORK_DISCARD: it is refused
 * @HWTIMER_WORK_REPLACE: an earlier run that has not begun is dropped; one that goes on is told
 *	to stop, and the new run follows it
 */
enum hwtimer_work_policy {
	HWTIMER_WORK_SERIAL,
	HWTIMER_WORK_DISCARD,
	HWTIMER_WORK_REPLACE,
};

/**
 * enum hwtimer_refused - why an expiry did not get its run
 * @HWTIMER_REFUSED_BUSY: an earlier run is due or goes on (HWTIMER_WORK_DISCARD)
 * @HWTIMER_REFUSED_FULL: as many runs are due on the wheel's lanes as max_queued
 *	allows; or 2^32 - 1 of this item
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
 * struct hwtimer_work_params - how an item is run
 * @wq: the workqueue; NULL: the lanes of the wheel
 * @policy: what happens to an expiry while an earlier run is due or goes on
 * @refused: called for each expiry that is refused; may be NULL. Refused expiries are counted in
 *	any case
 */
struct hwtimer_work_params {
	struct workqueue_struct		*wq;
	enum hwtimer_work_policy	policy;
	hwtimer_work_refused_fn_t	refused;
};

/**
 * struct hwtimer_work - a timeout with a work item, embedded in its owner's structure
 * @timeout: the timeout; may be passed to hwtimer_deadline()
 * @work: what is queued. Whoever sets QUEUED in @state queues it
 * @state: what is due, queued and running; only hwtimer_work.c looks inside
 * @fn: the function. Constant, like all members up to @policy
 * @refused: as in the parameters
 * @wq: the same
 * @policy: the same
 * @released: set by hwtimer_work_release(), before @state says so
 * @on: where @work was queued last. Changed only by the wheel's worker, when the item is idle
 * @minute: in which minute the last run ended. Accessed by whoever set QUEUED or RUNNING, like the
 *	next one
 * @slow_runs: how many that ended in that minute were slow
 *
 * Not on the stack.
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
	unsigned int			slow_runs;
};

int __must_check __hwtimer_work_init(struct hwtimer_work *work, struct hwtimer_wheel *wheel,
				     hwtimer_work_fn_t fn,
				     const struct hwtimer_work_params *params,
				     struct lock_class_key *key, const char *name);

/**
 * hwtimer_work_init() - prepare an item
 * @_work: the item; idle, and not held by a wheel any more (see
 *	hwtimer_work_cancel_sync() and hwtimer_work_release())
 * @_wheel: the wheel that it will be armed on
 * @_fn: its function
 * @_params: its parameters; not needed after the call; NULL: one run after the other on the
 *	lanes of the wheel
 *
 * A macro, like INIT_DELAYED_WORK(), because lockdep classifies items by where they are
 * initialised. So it reports a function that waits (hwtimer_work_cancel_sync()) for another item
 * that was initialised in the same place.
 *
 * Context: Any context.
 *
 * Return:
 * * 0 - it may be armed
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
 * When it expires, it runs once more even if a run is due or goes on, unless its policy says
 * otherwise.
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
 * Return: as hwtimer_touch_at(): -ENOENT if it has expired, run or not.
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
 * Return: as hwtimer_touch_at(): -ENOENT if it has expired, run or not.
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
