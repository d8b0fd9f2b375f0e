// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: timeouts whose function runs on a workqueue.
 *
 * The state of an item is one word:
 *
 *	DUE	a count: runs that are due, one for each expiry
 *	ENDING	a count: the callers that wait in hwtimer_work_cancel_sync(). While it is not 0,
 *		no run begins, and what becomes due is dropped by whom it waits for
 *	QUEUED	the work_struct is on the workqueue, or about to be queued
 *	GONE	the item was released, and the wheel does not hold its timeout any more
 *
 * The transitions, each a single atomic operation, and so a full barrier:
 *
 *	expire	DUE + 1; unless ENDING, set QUEUED
 *	begin	unless ENDING, DUE - 1. If more are due, keep QUEUED, else clear it; then with GONE
 *		the item ends
 *	drop	DUE = 0; the runs that were due are cancelled
 *	gone	set GONE and QUEUED
 *
 * Who sets QUEUED queues the work_struct, and nobody else does. The begin of a run that keeps it
 * queues the work_struct again, which then follows that run, as a work_struct on one workqueue
 * never runs twice at a time. So if runs are due, and nobody waits, one will begin; and each run is
 * taken from DUE either by its begin or by one drop. Dropping leaves the work_struct queued: a
 * cancel is one atomic operation in any context, and what is queued finds nothing due.
 *
 * What races with what:
 *
 *  - expire and expire: never for one item, because a wheel has one worker.
 *  - expire and begin: who finds QUEUED set accesses the item no more, because the run may already
 *    begin, and free it. Who sets it has queued the work_struct before a run can begin.
 *  - expire and cancel: between its expiry and DUE + 1 an arming is in the callback, where a cancel
 *    neither finds nor ends it: the cancel returns false, and the run will begin.
 *  - expire and release: the wheel calls work_gone() only while no callback runs, and none will.
 *    What becomes due in between runs first: GONE counts when nothing is due any more.
 *  - expire and cancel_sync: when hwtimer_cancel_sync() returns, no callback runs, and any later
 *    one sees ENDING. So one that did not has queued the work_struct, where cancel_work_sync()
 *    finds it, and waits for the run that may be in progress. If that run queues it again
 *    meanwhile, cancel_work_sync() prevents or undoes that. Then nobody has it, and QUEUED is
 *    cleared together with DUE and this caller's ENDING. What the last run armed is pending, or
 *    was dropped, or has expired and counts as due; all of that ends here, too.
 *  - cancel_sync and cancel_sync: ENDING is a count. A caller that clears QUEUED while another one
 *    waits changes nothing for that one, as only who sees no ENDING sets it.
 *  - arming by the function: it is an arming like any other. Its run follows the present one.
 *  - stop: a stopped wheel calls no callback. What is due runs without the wheel.
 */
#define pr_fmt(fmt) "hwtimer: " fmt

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/printk.h>

#include "hwtimer_compat.h"
#include "hwtimer_driver.h"
#include "hwtimer_step.h"
#include "../hwtimer_work.h"

#define DUE_ONE		BIT_ULL(0)
#define DUE_MASK	GENMASK_ULL(39, 0)
#define ENDING_ONE	BIT_ULL(40)
#define ENDING_MASK	GENMASK_ULL(61, 40)
#define QUEUED		BIT_ULL(62)
#define GONE		BIT_ULL(63)

static void work_run(struct work_struct *ws)
{
	struct hwtimer_work *work = container_of(ws, struct hwtimer_work, work);
	s64 old = atomic64_read(&work->state), new;
	bool run, more;

	do {
		run = old & DUE_MASK && !(old & ENDING_MASK);
		new = run ? old - DUE_ONE : old;
		more = run && new & DUE_MASK;
		if (!more)
			new &= ~QUEUED;
		hwtimer_step();
		/* [atomic64_try_cmpxchg: as an item has one word, the workqueue orders the rest] */
	} while (!atomic64_try_cmpxchg(&work->state, &old, new));
	hwtimer_step();
	if (more)
		queue_work(work->wq, ws);
	if (run)
		work->fn(work);
	/* The function may have freed the item, unless it was released. */
	if (new & GONE && !more)
		work->released(work);
}

/**
 * hwtimer_work_dispatch - the callback of the timeouts of all items
 * @timeout: the timeout of the item
 */
void hwtimer_work_dispatch(struct hwtimer_timeout *timeout)
{
	struct hwtimer_work *work = container_of(timeout, struct hwtimer_work, timeout);
	s64 old = atomic64_read(&work->state), new;

	do {
		new = old + DUE_ONE;
		if (!(old & ENDING_MASK))
			new |= QUEUED;
		hwtimer_step();
		/* [atomic64_try_cmpxchg: as an item has one word, the workqueue orders the rest] */
	} while (!atomic64_try_cmpxchg(&work->state, &old, new));
	hwtimer_step();
	if (!(old & (ENDING_MASK | QUEUED)))
		queue_work(work->wq, &work->work);
}

/**
 * __hwtimer_work_init - see hwtimer_work_init()
 * @work: the item
 * @wheel: its wheel
 * @wq: its workqueue, or NULL
 * @fn: its function
 * @key: the lock class of the item
 * @name: the name of that class
 */
void __hwtimer_work_init(struct hwtimer_work *work, struct hwtimer_wheel *wheel,
			 struct workqueue_struct *wq, hwtimer_work_fn_t fn,
			 struct lock_class_key *key, const char *name)
{
	hwtimer_init(&work->timeout, wheel, hwtimer_work_dispatch);
	INIT_WORK(&work->work, work_run);
	lockdep_init_map(&work->work.lockdep_map, name, key, 0);
	atomic64_set(&work->state, 0);
	work->wq = wq ?: system_dfl_wq;
	work->fn = fn;
	work->released = NULL;
}
EXPORT_SYMBOL_GPL(__hwtimer_work_init);

/* Cancel the runs that are due, add @ending, and clear @bits. True if any run was due. */
static bool drop(struct hwtimer_work *work, s64 ending, u64 bits)
{
	s64 old = atomic64_read(&work->state);

	do {
		hwtimer_step();
		/* [atomic64_try_cmpxchg: as an item has one word, the workqueue orders the rest] */
	} while (!atomic64_try_cmpxchg(&work->state, &old,
				       (old & ~(DUE_MASK | bits)) + ending));
	return old & DUE_MASK;
}

/**
 * hwtimer_work_cancel - end a pending item and its runs that have not begun
 * @work: the item
 *
 * The wheel and the workqueue may hold @work for some time afterwards: it may be armed again but
 * must not be freed. To free it, use hwtimer_work_cancel_sync() or hwtimer_work_release().
 *
 * Context: Any context but NMI. Lock-free.
 *
 * Return: true if the item was pending or runs were due; these runs will never begin. False if not;
 * a run may be in progress, or begin if the item is expiring right now.
 */
bool hwtimer_work_cancel(struct hwtimer_work *work)
{
	bool ended = hwtimer_cancel(&work->timeout);

	hwtimer_step();
	/* After hwtimer_cancel(): this finds the run if the item expired before. */
	return drop(work, 0, 0) || ended;
}
EXPORT_SYMBOL_GPL(hwtimer_work_cancel);

/**
 * hwtimer_work_cancel_sync - end an item and wait until neither the wheel nor a workqueue holds it
 * @work: the item; not released
 *
 * When this returns, @work is neither pending nor queued, and its function does not run, so the
 * memory may be freed, unless another caller armed @work meanwhile. (If its own function arms it,
 * or if it expires meanwhile, that is cancelled.) The caller must not hold a lock that the
 * function, or any callback of the wheel, needs.
 *
 * Context: Process context, may sleep. Functions of other items may call it, even on the same
 * workqueue, and so may callbacks of the wheel.
 *
 * Return:
 * * 1 - the item was pending or runs were due; they will never begin
 * * 0 - it was not
 * * -EDEADLK - called by its own function: a bug, which is logged. The item is not pending and no
 *   run is due, but one is in progress
 */
int hwtimer_work_cancel_sync(struct hwtimer_work *work)
{
	bool ended;

	if (current_work() == &work->work) {
		pr_err_ratelimited("wheel %s: work %ps waits for itself\n",
				   to_driven(work->timeout.wheel)->name, work->fn);
		hwtimer_work_cancel(work);
		return -EDEADLK;
	}

	ended = drop(work, ENDING_ONE, 0);
	hwtimer_step();
	/* Never -EDEADLK: the callback of the timeout is ours. */
	ended |= hwtimer_cancel_sync(&work->timeout);
	hwtimer_step();
	cancel_work_sync(&work->work);
	hwtimer_step();
	/* The last run may have armed the item. */
	ended |= hwtimer_cancel_sync(&work->timeout);
	hwtimer_step();
	return drop(work, -ENDING_ONE, QUEUED) || ended;
}
EXPORT_SYMBOL_GPL(hwtimer_work_cancel_sync);

/* The wheel has released the timeout of a released item: no callback runs or will run. */
static void work_gone(struct hwtimer_timeout *timeout)
{
	struct hwtimer_work *work = container_of(timeout, struct hwtimer_work, timeout);

	hwtimer_step();
	/* [atomic64_fetch_or: as an item has one word, the workqueue orders the rest] */
	if (!(atomic64_fetch_or(GONE | QUEUED, &work->state) & QUEUED))
		queue_work(work->wq, &work->work);
}

/**
 * hwtimer_work_release - end an item for good, and call back when it may be freed
 * @work: the item; not released before
 * @released: called once with @work, on its workqueue, when nobody holds it and its function does
 *	not run
 *
 * For callers that must not sleep. The function of an item may release it. If the item is on a list
 * that hwtimer_wheel_stop() hands back, @released must not free it as long as the list is in use.
 *
 * Context: Any context but NMI. Lock-free but for queue_work(); does not allocate.
 *
 * Return: true if the item was pending or runs were due; these runs will never begin. Arming fails
 * with -ESHUTDOWN from now on.
 */
bool hwtimer_work_release(struct hwtimer_work *work, hwtimer_work_fn_t released)
{
	bool ended;

	work->released = released;
	ended = drop(work, 0, 0);
	hwtimer_step();
	/* The last access to @work: on a stopped wheel it may be freed when this returns. */
	return hwtimer_release(&work->timeout, work_gone) || ended;
}
EXPORT_SYMBOL_GPL(hwtimer_work_release);
