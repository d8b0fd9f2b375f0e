/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: timeouts whose function runs on a workqueue.
 *
 * To struct hwtimer_timeout what delayed_work is to timer_list: at the expiry the
 * wheel's worker does no more than to queue a work item, and the function, which
 * may block for as long as it has to, holds up no other timeout.
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
 * Words: an arming expires; the expiry is dispatched as a run, or refused; a run is
 * due until it begins, and then goes on until the function returns. Of one item at
 * the most one run goes on at a time, wherever it was queued.
 *
 * What an operation does in which state of the item; more than one may apply, as the
 * item can be armed, have runs due and have one that goes on. "Wheel" is process
 * context with the kthread driver, softirq with the hrtimer driver.
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
 * "Told": hwtimer_work_cancelled() is true in the run that goes on. From inside the
 * function, cancel_sync and shutdown_sync are -EDEADLK; all others may be called.
 *
 * Of what hwtimer_wheel_stop() hands back, hwtimer_work_of() finds the item. From
 * then on arming fails with -ESHUTDOWN, in the function, too.
 *
 * Workqueues. An item runs on the workqueue of its parameters, or on one of the
 * wheel's two lanes. The lanes are unbound workqueues, without WQ_MEM_RECLAIM. An
 * item whose runs took longer than slow_ms for more than slow_runs times in this
 * minute is dispatched to the slow lane until the minute is over, so that what is
 * slow holds up only its like. Minutes are those of CLOCK_MONOTONIC. The lane is
 * chosen when nothing of the item is queued or running; runs that are due after
 * another one follow it on its lane. A workqueue of the caller's has no such rule.
 *
 * The function runs in process context with interrupts on, so not on a WQ_BH
 * workqueue. A workqueue of the caller's must outlive what may be dispatched to it:
 * stop the wheel, or end the items, before it is drained or destroyed; and do that before
 * hwtimer.ko may be unloaded, for the last instructions of a run are there. The wheel does
 * so with its lanes.
 *
 * Suspend: the lanes are not freezable. What must not run while the machine is
 * being suspended goes to a workqueue with WQ_FREEZABLE, such as
 * system_freezable_wq; what expires while it is frozen is due until the thaw, and
 * so is what waits for it: hwtimer_wheel_destroy(), hwtimer_work_release().
 *
 * Deadlock: as for hwtimer_cancel_sync(), see "Deadlock" in hwtimer.h; besides, who
 * waits for a run must not hold what the function takes, as with
 * cancel_delayed_work_sync(). Lockdep knows both. A callback of the wheel that waits
 * for a run makes all timeouts of the wheel wait.
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
 * typedef hwtimer_work_fn_t - what an item runs
 * @work: the item
 *
 * In process context on a workqueue. May block, arm, cancel and release its own
 * item and others. It must not free @work, which is looked at when it returns: that
 * is what hwtimer_work_release() is for.
 */
typedef void (*hwtimer_work_fn_t)(struct hwtimer_work *work);

/**
 * typedef hwtimer_work_released_fn_t - what hwtimer_work_release() calls
 * @work: the item, which neither the wheel nor a workqueue knows any more
 *
 * In the wheel's worker, on the workqueue on which the last run went on, or, if the
 * wheel was stopped before the release, inside hwtimer_work_release(). So it must not
 * sleep where one of these must not; kfree() is always right.
 */
typedef void (*hwtimer_work_released_fn_t)(struct hwtimer_work *work);

/**
 * enum hwtimer_work_policy - an expiry while an earlier run is due or goes on
 * @HWTIMER_WORK_SERIAL: one more run, after those: each expiry gets one
 * @HWTIMER_WORK_DISCARD: is refused
 * @HWTIMER_WORK_REPLACE: an earlier run that has not begun is dropped, one that
 *	goes on is told to stop, and the later runs after it
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
 * typedef hwtimer_work_refused_fn_t - tells the owner of a refused expiry
 * @work: the item
 * @reason: why
 *
 * In the wheel's worker, like a callback of a timeout: in softirq, if that is an
 * hrtimer. It may arm, cancel and release the item but not free it.
 */
typedef void (*hwtimer_work_refused_fn_t)(struct hwtimer_work *work,
					  enum hwtimer_refused reason);

/**
 * struct hwtimer_work_params - how an item is run
 * @wq: the workqueue; NULL: the lanes of the wheel
 * @policy: what becomes of an expiry while an earlier run is due or goes on
 * @refused: called for each expiry that was refused; may be NULL. They are counted
 *	in any case
 */
struct hwtimer_work_params {
	struct workqueue_struct		*wq;
	enum hwtimer_work_policy	policy;
	hwtimer_work_refused_fn_t	refused;
};

/**
 * struct hwtimer_work - a timeout with a work item, embedded in its owner's structure
 * @timeout: the timeout; hwtimer_deadline() may be asked about it
 * @work: what is queued. Whoever turns QUEUED on in @state queues it
 * @state: what is due, queued and running; only hwtimer_work.c looks inside
 * @fn: what it runs. Constant, as all up to @policy
 * @refused: as in the parameters
 * @wq: the same
 * @policy: the same
 * @released: set by hwtimer_work_release(), before @state tells of it
 * @on: where @work was queued last. Changed by dispatches only, which are of the
 *	wheel's worker, and only when it was idle
 * @minute: in which minute the last run ended. Of who turned QUEUED or RUNNING
 *	on, as the next one
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
 * @_fn: what it will run
 * @_params: how; not needed after the call; NULL: one run after the other on the
 *	lanes of the wheel
 *
 * A macro, as INIT_DELAYED_WORK() is: lockdep tells items apart by where they are
 * initialised. Items of one place are of one kind, so it reports a function that
 * waits (hwtimer_work_cancel_sync()) for another item of its own kind.
 *
 * Context: Any context.
 *
 * Return:
 * * 0 - it may be armed
 * * -EINVAL - no workqueue was given, and the wheel was made without
 *   HWTIMER_WHEEL_WORK; or there is no such policy. Arming fails with -ESHUTDOWN;
 *   all else may be called
 */
#define hwtimer_work_init(_work, _wheel, _fn, _params)				\
({										\
	static struct lock_class_key __key;					\
										\
	__hwtimer_work_init(_work, _wheel, _fn, _params, &__key, #_work);	\
})

/**
 * hwtimer_work_schedule() - arm an item to run after a while
 * @work: the item
 * @delay_ns: as for hwtimer_schedule()
 *
 * It runs once more for it, even if a run is due or goes on, as far as its policy
 * allows.
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
 * hwtimer_work_touch() - give a pending item a deadline a while from now
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
