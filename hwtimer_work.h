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
 *	hwtimer_work_init(&l->renewal, wheel, NULL, lease_renew);
 *	hwtimer_work_schedule(&l->renewal, 30LL * NSEC_PER_SEC);
 *	hwtimer_work_release(&l->renewal, lease_free);		// finally
 *
 * Each expiry makes a run of the function due, and is followed by one run, unless that is cancelled
 * before it begins. Runs of one item follow one another. An item can be pending, have runs due, and
 * have a run in progress, all at once; then several columns apply:
 *
 *	             contexts   pending      run due      in progress  idle
 *	schedule     any        re-armed     armed        armed        armed
 *	touch        any        re-armed     -ENOENT      -ENOENT      -ENOENT
 *	cancel       any        ended: true  ended: true  false        false
 *	cancel_sync  may sleep  ended: 1     ended: 1     waits        0
 *	release      any        ended: true  ended: true  false        false
 *	                        and calls the release function when idle
 *
 *	hwtimer_wheel_stop()    handed back  goes on      goes on
 *
 * hwtimer_schedule_at(), hwtimer_touch_at(), hwtimer_is_pending() and hwtimer_deadline() may be
 * called for the timeout of an item. All others must be called for the item. On a list of
 * hwtimer_wheel_stop(), a timeout whose @fn is no callback of yours is that of an item.
 *
 * The workqueue must outlive whatever may be queued on it, and the wheel whatever the function does
 * with its item. So first stop the wheel, or end the items; then destroy the workqueue; then
 * destroy the wheel. A module that leaves its items to the workqueues of the kernel ends them by
 * hwtimer_work_cancel_sync(), or calls flush_workqueue() after hwtimer_wheel_barrier(), before it
 * is unloaded.
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
 * typedef hwtimer_work_fn_t - the function of an item, or its release function
 * @work: the item
 *
 * Runs on the workqueue of the item, in process context. It may block, and it may arm, cancel and
 * release its own item and others. As a release function it may free @work, which is not accessed
 * any more; else it may do so only if nothing has armed the item since it expired.
 */
typedef void (*hwtimer_work_fn_t)(struct hwtimer_work *work);

/**
 * struct hwtimer_work - a timeout with a work_struct, embedded in its owner's structure
 * @timeout: the timeout
 * @work: what is queued, by the caller that sets QUEUED in @state
 * @state: private to hwtimer_work.c
 * @wq: the workqueue. Constant
 * @fn: the function. Constant
 * @released: the release function; set by hwtimer_work_release()
 *
 * Must not be on the stack.
 */
struct hwtimer_work {
	struct hwtimer_timeout	timeout;
	struct work_struct	work;
	atomic64_t		state;
	struct workqueue_struct	*wq;
	hwtimer_work_fn_t	fn;
	hwtimer_work_fn_t	released;
};

void __hwtimer_work_init(struct hwtimer_work *work, struct hwtimer_wheel *wheel,
			 struct workqueue_struct *wq, hwtimer_work_fn_t fn,
			 struct lock_class_key *key, const char *name);

/**
 * hwtimer_work_init() - prepare an item
 * @_work: the item; idle, and not held by a wheel (see hwtimer_work_cancel_sync() and
 *	hwtimer_work_release())
 * @_wheel: the wheel on which it will be armed
 * @_wq: the workqueue on which it runs, without WQ_BH; NULL: system_dfl_wq, the kernel's for work
 *	that is not bound to a CPU
 * @_fn: its function
 *
 * A macro, like INIT_DELAYED_WORK(), because lockdep classifies items by where they are
 * initialised. So lockdep reports a function that waits (hwtimer_work_cancel_sync()) for another
 * item that was initialised in the same place.
 *
 * Context: Any context.
 */
#define hwtimer_work_init(_work, _wheel, _wq, _fn)				\
do {										\
	static struct lock_class_key __key;					\
										\
	__hwtimer_work_init(_work, _wheel, _wq, _fn, &__key, #_work);		\
} while (0)

/**
 * hwtimer_work_schedule() - arm an item to run after a delay
 * @work: the item
 * @delay_ns: as for hwtimer_schedule()
 *
 * Context: As hwtimer_schedule_at().
 *
 * Return: as hwtimer_schedule_at().
 */
static inline int hwtimer_work_schedule(struct hwtimer_work *work, s64 delay_ns)
{
	return hwtimer_schedule(&work->timeout, delay_ns);
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

bool hwtimer_work_cancel(struct hwtimer_work *work);
int hwtimer_work_cancel_sync(struct hwtimer_work *work);
bool hwtimer_work_release(struct hwtimer_work *work, hwtimer_work_fn_t released);

#endif /* HWTIMER_WORK_H */
