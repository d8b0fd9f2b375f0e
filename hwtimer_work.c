// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: timeouts whose function runs on a workqueue.
 *
 * The state of an item is one word:
 *
 *	QUEUED		its work_struct is on a workqueue, or about to be queued
 *	RUNNING		its function runs
 *	CANCELLED	RUNNING, and the function should stop soon
 *	GONE		the item was released, and the wheel does not hold its timeout any more
 *	DROPPED		an expiry was dropped because of ENDING
 *	ENDING		a count: the callers that wait for the item's end; while it is not 0,
 *			expiries are dropped. A release adds 1 for ever
 *	DUE		a count: runs that were dispatched and have not begun
 *
 * An item is idle if neither QUEUED nor RUNNING is set. The transitions, each a single atomic
 * operation:
 *
 *	dispatch	DUE + 1, unless the run replaces one that is due; if idle, set QUEUED
 *	begin		clear QUEUED; with DUE: DUE - 1, set RUNNING; else idle
 *	end		clear RUNNING; with DUE: set QUEUED; else idle
 *	drop		DUE = 0; if RUNNING, set CANCELLED
 *	take off	with no DUE: clear QUEUED, so idle, after cancel_work() succeeded
 *
 * Invariants:
 *
 *  (a) QUEUED and RUNNING are never both set. So an item is queued or running at most once,
 *      whatever workqueues it moves between. (Workqueues guarantee that only for a work_struct
 *      that stays on one of them.)
 *  (b) DUE implies QUEUED or RUNNING, so work_run() will begin the runs that are due.
 *  (c) The caller that sets QUEUED queues the work_struct. The caller that clears it has removed
 *      the work_struct from the workqueue, as its work function or by cancel_work().
 *  (d) The caller that makes the item idle does not access it afterwards, unless that operation
 *      found GONE set: then this caller calls @released. If GONE is set on an idle item, the
 *      caller that sets it calls @released.
 *
 * Cancelling a run leaves the work_struct queued. So a cancel is one cmpxchg, in any context, and a
 * dispatch before the work_struct comes up keeps its place in the queue. Only a caller that waits
 * for the item's end takes the work_struct off the workqueue.
 *
 * What races with what:
 *
 *  - dispatch and dispatch: never for one item, because a wheel has one worker.
 *  - dispatch and end: either the end sees DUE and queues the work_struct, or the dispatch sees an
 *    idle item and queues it.
 *  - cancel and begin: both change DUE by cmpxchg, so a run either begins or is cancelled.
 *  - cancel and an expiry whose callback already runs: a run that is dispatched after the cancel is
 *    not cancelled, and the cancel does not return true for it. Callers that need more use
 *    cancel_sync.
 *  - cancel_sync and a function that arms its own item again and again: with ENDING set, and no
 *    callback running (hwtimer_cancel_sync()), nothing is dispatched any more, so the current run
 *    is the last. After it, cancel_sync cancels the timeout that it may have armed.
 *  - cancel_sync and dispatch: cancel_sync sets ENDING, then hwtimer_cancel_sync() waits for the
 *    callback. By then a dispatch has either seen ENDING or queued the work_struct, so
 *    cancel_work() never runs between its setting QUEUED and its queue_work(). But cancel_work()
 *    may do so for an end. Therefore the end repeats queue_work(), which fails while cancel_work()
 *    holds the work_struct (for a few instructions with interrupts off), and then wakes the
 *    waiters, which call cancel_work() again.
 *  - cancel_sync and cancel_sync: ENDING is a count.
 *  - release and dispatch: the wheel releases the timeout only while no callback runs, so a
 *    dispatch may access the item until it returns, even if its run has ended.
 *  - release and end: the wheel releases the timeout first, then GONE is set; see (d).
 *  - hwtimer_wheel_destroy() and all of these: a stopped wheel dispatches nothing, so @busy, the
 *    number of items that are not idle, only decreases. Decrementing it to 0 is the last access to
 *    the wheel; after that only the address of @busy is used. An end queues the work_struct on the
 *    workqueue on which it ran, which is allowed even while that workqueue is drained.
 */
#define pr_fmt(fmt) "hwtimer: " fmt

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/processor.h>
#include <linux/printk.h>
#include <linux/wait_bit.h>

#include "hwtimer_driver.h"
#include "hwtimer_step.h"
#include "hwtimer_work.h"

#define STATE_QUEUED	BIT_ULL(0)
#define STATE_RUNNING	BIT_ULL(1)
#define STATE_CANCELLED	BIT_ULL(2)
#define STATE_GONE	BIT_ULL(3)
#define STATE_DROPPED	BIT_ULL(4)
#define ENDING_ONE	BIT_ULL(8)
#define ENDING_MASK	GENMASK_ULL(31, 8)
#define DUE_ONE		BIT_ULL(32)
#define DUE_MASK	GENMASK_ULL(63, 32)

#define STATE_ACTIVE	(STATE_QUEUED | STATE_RUNNING)

static struct hwtimer_lanes *lanes_of(const struct hwtimer_work *work)
{
	return &to_driven(work->timeout.wheel)->lanes;
}

static unsigned int minute(u64 ns)
{
	return div64_u64(ns, 60ULL * NSEC_PER_SEC);
}

/* For counters that only the wheel's worker writes. */
static void count(unsigned long *counter)
{
	WRITE_ONCE(*counter, *counter + 1);
}

/* Only runs on the lanes take a place. @queued never exceeds @max_queued. */
static bool reserve_run(struct hwtimer_lanes *lanes, const struct hwtimer_work *work)
{
	return work->wq || !lanes->max_queued ||
	       atomic_long_add_unless(&lanes->queued, 1, lanes->max_queued);
}

static void unreserve_runs(struct hwtimer_lanes *lanes, const struct hwtimer_work *work,
			 unsigned long n)
{
	if (!work->wq && lanes->max_queued)
		atomic_long_sub(n, &lanes->queued);
}

/* Choose the workqueue of a run. The caller found the item idle and so owns its members. */
static struct workqueue_struct *choose_lane(const struct hwtimer_lanes *lanes,
					    const struct hwtimer_work *work)
{
	if (work->wq)
		return work->wq;
	if (work->slow_count > lanes->slow_runs && work->minute == minute(ktime_get_ns()))
		return lanes->slow;
	return lanes->fast;
}

/* Count a slow run. The caller still owns the item, which is RUNNING. */
static void note_run(const struct hwtimer_lanes *lanes, struct hwtimer_work *work,
		     u64 start, u64 end)
{
	if (work->minute != minute(end)) {
		work->minute = minute(end);
		work->slow_count = 0;
	}
	if (end - start > lanes->slow_ns)
		work->slow_count++;
}

/* Called after setting QUEUED. */
static void enqueue(struct hwtimer_work *work)
{
	hwtimer_step();
	/* It fails while try_dequeue() holds the work_struct in cancel_work(). */
	while (!queue_work(work->on, &work->work))
		cpu_relax();
}

/* Called after making the item idle. @state is the new state; see (d). */
static void became_idle(struct hwtimer_lanes *lanes, struct hwtimer_work *work, u64 state)
{
	hwtimer_step();
	/*
	 * @work may have been freed: this uses only its address. The caller's atomic operation was
	 * a full barrier.
	 */
	wake_up_var(&work->state);
	if (state & STATE_GONE)
		work->released(work);
	hwtimer_step();
	/* The decrement to 0 is a full barrier, too; after it the wheel may be freed. */
	if (atomic_long_dec_and_test(&lanes->active))
		wake_up_var(&lanes->active);
}

static void work_run(struct work_struct *ws)
{
	struct hwtimer_work *work = container_of(ws, struct hwtimer_work, work);
	struct hwtimer_lanes *lanes = lanes_of(work);
	u64 old, new, start;

	old = atomic64_read(&work->state);
	do {
		new = old & ~STATE_QUEUED;
		if (old & DUE_MASK)
			new = (new | STATE_RUNNING) - DUE_ONE;
		hwtimer_step();
	} while (!atomic64_try_cmpxchg(&work->state, (s64 *)&old, new));
	if (!(new & STATE_RUNNING)) {
		became_idle(lanes, work, new);
		return;
	}
	hwtimer_step();
	unreserve_runs(lanes, work, 1);
	atomic_long_inc(&lanes->runs);

	start = ktime_get_ns();
	work->fn(work);
	note_run(lanes, work, start, ktime_get_ns());

	old = atomic64_read(&work->state);
	do {
		new = old & ~(STATE_RUNNING | STATE_CANCELLED);
		if (old & DUE_MASK)
			new |= STATE_QUEUED;
		hwtimer_step();
	} while (!atomic64_try_cmpxchg(&work->state, (s64 *)&old, new));
	if (new & STATE_QUEUED) {
		/* On the workqueue where it ran: allowed even while that is drained. */
		enqueue(work);
		hwtimer_step();
		/*
		 * For waiters in try_dequeue(), which could not cancel it before it was queued. Uses
		 * only the address: @work may have been freed.
		 */
		wake_up_var(&work->state);
	} else {
		became_idle(lanes, work, new);
	}
}

static void refuse(struct hwtimer_lanes *lanes, struct hwtimer_work *work,
		   enum hwtimer_refused reason)
{
	count(&lanes->refused);
	if (work->refused)
		work->refused(work, reason);
}

/*
 * An expiry was dispatched to @work, whose state was @old. The item is not freed before this
 * returns; see "release and dispatch" at the top.
 */
static void dispatched(struct hwtimer_lanes *lanes, struct hwtimer_work *work, u64 old, bool reserved,
		       bool replaces)
{
	count(&lanes->dispatched);
	if (old & ENDING_MASK) {
		if (reserved)
			unreserve_runs(lanes, work, 1);
		atomic_long_inc(&lanes->cancelled);
		return;
	}
	if (replaces)
		count(&lanes->replaced);
	if (!(old & STATE_ACTIVE)) {
		atomic_long_inc(&lanes->active);
		work->on = choose_lane(lanes, work);
	}
	/* Only the worker changes @on, so it may be read even if the run has ended. */
	if (work->on == lanes->slow && lanes->slow)
		count(&lanes->to_slow);
	if (!(old & STATE_ACTIVE))
		enqueue(work);
}

/**
 * hwtimer_work_dispatch - the callback of the timeouts of all items
 * @timeout: the timeout of the item
 */
void hwtimer_work_dispatch(struct hwtimer_timeout *timeout)
{
	struct hwtimer_work *work = container_of(timeout, struct hwtimer_work, timeout);
	struct hwtimer_lanes *lanes = lanes_of(work);
	bool reserved = false, busy, replaces;
	u64 old, new;

	old = atomic64_read(&work->state);
	do {
		new = old;
		replaces = false;
		busy = old & (STATE_RUNNING | DUE_MASK);
		if (old & ENDING_MASK) {
			new |= STATE_DROPPED;
			continue;
		}
		/*
		 * Only the worker makes an idle item busy. So if an earlier round of this loop took
		 * a place, the run is neither refused nor replaces another one now.
		 */
		if (busy && work->policy == HWTIMER_WORK_DISCARD) {
			refuse(lanes, work, HWTIMER_REFUSED_BUSY);
			return;
		}
		if (busy && work->policy == HWTIMER_WORK_REPLACE) {
			/* A run that is due becomes the new run: nothing to count or to queue. */
			replaces = old & DUE_MASK;
			if (old & STATE_RUNNING)
				new |= STATE_CANCELLED;
		}
		if (!replaces) {
			if ((old & DUE_MASK) == DUE_MASK ||
			    (!reserved && !reserve_run(lanes, work))) {
				refuse(lanes, work, HWTIMER_REFUSED_FULL);
				return;
			}
			reserved = true;
			new += DUE_ONE;
		}
		if (!(old & STATE_ACTIVE))
			new |= STATE_QUEUED;
		hwtimer_step();
	} while (!atomic64_try_cmpxchg(&work->state, (s64 *)&old, new));

	hwtimer_step();
	dispatched(lanes, work, old, reserved, replaces);
}

/**
 * __hwtimer_work_init - see hwtimer_work_init()
 * @work: the item
 * @wheel: its wheel
 * @fn: its function
 * @params: its parameters, or NULL
 * @key: the lock class of the item
 * @name: the name of that class
 *
 * Return: 0 or -EINVAL.
 */
int __hwtimer_work_init(struct hwtimer_work *work, struct hwtimer_wheel *wheel,
			hwtimer_work_fn_t fn, const struct hwtimer_work_params *params,
			struct lock_class_key *key, const char *name)
{
	static const struct hwtimer_work_params none;

	if (!params)
		params = &none;
	hwtimer_init(&work->timeout, wheel, hwtimer_work_dispatch);
	INIT_WORK(&work->work, work_run);
#ifdef CONFIG_LOCKDEP
	lockdep_init_map(&work->work.lockdep_map, name, key, 0);
#endif
	atomic64_set(&work->state, 0);
	work->fn = fn;
	work->refused = params->refused;
	work->wq = params->wq;
	work->policy = params->policy;
	work->released = NULL;
	work->on = NULL;
	work->minute = 0;
	work->slow_count = 0;
	if ((!work->wq && !lanes_of(work)->fast) ||
	    params->policy < HWTIMER_WORK_SERIAL || params->policy > HWTIMER_WORK_REPLACE) {
		wheel_timeout_shutdown(&work->timeout);
		return -EINVAL;
	}
	return 0;
}
EXPORT_SYMBOL_GPL(__hwtimer_work_init);

/*
 * Cancel the runs that are due, set CANCELLED if one is running, and add @ending to the word. True
 * if any run was due.
 */
static bool drop(struct hwtimer_work *work, u64 ending)
{
	struct hwtimer_lanes *lanes = lanes_of(work);
	u64 old, new;

	old = atomic64_read(&work->state);
	do {
		new = (old & ~DUE_MASK) + ending;
		if (old & STATE_RUNNING)
			new |= STATE_CANCELLED;
		hwtimer_step();
	} while (new != old &&
		 !atomic64_try_cmpxchg(&work->state, (s64 *)&old, new));
	if (!(old & DUE_MASK))
		return false;
	hwtimer_step();
	atomic_long_add(old / DUE_ONE, &lanes->cancelled);
	unreserve_runs(lanes, work, old / DUE_ONE);
	return true;
}

/**
 * hwtimer_work_cancel - end a pending item and its runs that have not begun
 * @work: the item
 *
 * A running function can notice, see hwtimer_work_cancelled(). The wheel and the workqueue may hold
 * @work for some time afterwards: it may be armed again but must not be freed. To free it, use
 * hwtimer_work_cancel_sync() or hwtimer_work_release().
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
	/* After hwtimer_cancel(): drop() then finds the run if the item expired before. */
	return drop(work, 0) || ended;
}
EXPORT_SYMBOL_GPL(hwtimer_work_cancel);

/* Is the item idle? If it is queued, take it off the workqueue. No run is or becomes due. */
static bool try_dequeue(struct hwtimer_work *work)
{
	struct hwtimer_lanes *lanes = lanes_of(work);
	u64 state = atomic64_read_acquire(&work->state);

	hwtimer_step();
	if (state & STATE_QUEUED && cancel_work(&work->work)) {
		hwtimer_step();
		state = atomic64_fetch_andnot(STATE_QUEUED, &work->state);
		state &= ~STATE_QUEUED;
		became_idle(lanes, work, state);
	}
	return !(state & STATE_ACTIVE);
}

static int end_sync(struct hwtimer_work *work, int (*end)(struct hwtimer_timeout *))
{
	bool ended, inside;
	u64 old, new;
	int ret;

	might_sleep();
	inside = atomic64_read(&work->state) & STATE_RUNNING && current_work() == &work->work;
	if (!inside) {
		/* Let lockdep check that the run does not need a lock that the caller holds. */
		lock_map_acquire(&work->work.lockdep_map);
		lock_map_release(&work->work.lockdep_map);
	}

	ended = drop(work, ENDING_ONE);
	hwtimer_step();
	ret = end(&work->timeout);
	ended |= ret > 0;
	/* No callback is running, and later ones see ENDING. Cancel what was dispatched before. */
	ended |= drop(work, 0);
	if (inside) {
		pr_err_ratelimited("wheel %s: work %ps waits for itself\n",
				   to_driven(work->timeout.wheel)->name, work->fn);
		ret = -EDEADLK;
	} else if (ret >= 0) {
		wait_var_event(&work->state, try_dequeue(work));
		/* The last run may have armed the item. */
		ended |= end(&work->timeout) > 0;
	}

	old = atomic64_read(&work->state);
	do {
		new = (old & ~STATE_DROPPED) - ENDING_ONE;
		hwtimer_step();
	} while (!atomic64_try_cmpxchg(&work->state, (s64 *)&old, new));
	ended |= !!(old & STATE_DROPPED);
	return ret < 0 ? ret : ended;
}

/**
 * hwtimer_work_cancel_sync - end an item and wait until neither the wheel nor a workqueue holds it
 * @work: the item
 *
 * When this returns, @work is neither pending nor queued, and its function does not run, so the
 * memory may be freed, unless another caller armed @work meanwhile. (If its own function arms it,
 * or if it expires meanwhile, that is cancelled.) Runs that have not begun are cancelled. A running
 * function can notice, see hwtimer_work_cancelled(), and is waited for. The caller must not hold a
 * lock that the function, or any callback of the wheel, needs.
 *
 * Context: Process context, may sleep. Functions of other items may call it, even on the same
 * workqueue, and so may callbacks of the wheel.
 *
 * Return:
 * * 1 - the item was pending or runs were due; they will never begin
 * * 0 - it was not
 * * -EDEADLK - called by its own function or its own refused callback: a bug, which is logged. The
 *   item is not pending and no run is due, but the caller is still running
 */
int hwtimer_work_cancel_sync(struct hwtimer_work *work)
{
	return end_sync(work, hwtimer_cancel_sync);
}
EXPORT_SYMBOL_GPL(hwtimer_work_cancel_sync);

/**
 * hwtimer_work_shutdown_sync - end an item for good and wait, like hwtimer_work_cancel_sync()
 * @work: the item
 *
 * As soon as this begins, arming fails with -ESHUTDOWN. hwtimer_work_init() makes the item usable
 * again.
 *
 * Context: Process context, may sleep.
 *
 * Return: as hwtimer_work_cancel_sync().
 */
int hwtimer_work_shutdown_sync(struct hwtimer_work *work)
{
	return end_sync(work, hwtimer_shutdown_sync);
}
EXPORT_SYMBOL_GPL(hwtimer_work_shutdown_sync);

/* The wheel has released the timeout of a released item: no callback runs or will run. */
static void work_released(struct hwtimer_timeout *timeout)
{
	struct hwtimer_work *work = container_of(timeout, struct hwtimer_work, timeout);

	hwtimer_step();
	if (!(atomic64_fetch_or(STATE_GONE, &work->state) & STATE_ACTIVE))
		work->released(work);
}

/**
 * hwtimer_work_release - end an item for good, and call back when it may be freed
 * @work: the item; not released before
 * @released: called once with @work when neither the wheel nor a workqueue holds it and its
 *	function does not run
 *
 * The counterpart of hwtimer_work_shutdown_sync() for callers that must not sleep. An item's
 * function may release its own item. A running function can notice the release, see
 * hwtimer_work_cancelled(). If an item is on a list that hwtimer_wheel_stop() handed back, the
 * owner of the list frees it, as soon as it is idle.
 *
 * hwtimer_wheel_barrier() does not wait for runs, so it does not wait for @released if that is
 * called after a run. A module that is about to be unloaded therefore runs its items on a workqueue
 * of its own and destroys that after the barrier, or calls hwtimer_work_shutdown_sync().
 *
 * Context: Any context but NMI. Lock-free; does not allocate.
 *
 * Return: true if the item was pending or runs were due; these runs will never begin.
 */
bool hwtimer_work_release(struct hwtimer_work *work, hwtimer_work_released_fn_t released)
{
	bool ended;

	work->released = released;
	/*
	 * ENDING is never decremented again. The cmpxchg orders the store of @released before the
	 * operation that finds GONE, and so before the load of @released.
	 */
	ended = drop(work, ENDING_ONE);
	hwtimer_step();
	/* The last access to @work: on a stopped wheel it may be freed when this returns. */
	return hwtimer_release(&work->timeout, work_released) || ended;
}
EXPORT_SYMBOL_GPL(hwtimer_work_release);

/**
 * hwtimer_work_is_pending - is this item armed, or a run of it due?
 * @work: the item
 *
 * Modelled on delayed_work_pending(). Between its expiry and its dispatch an item is neither.
 *
 * Context: Any context.
 *
 * Return: true if it is; unless the caller prevents that, the item may have been ended since. A run
 * in progress does not count.
 */
bool hwtimer_work_is_pending(const struct hwtimer_work *work)
{
	return hwtimer_is_pending(&work->timeout) ||
	       atomic64_read(&work->state) & DUE_MASK;
}
EXPORT_SYMBOL_GPL(hwtimer_work_is_pending);

/**
 * hwtimer_work_cancelled - should this run stop?
 * @work: the item whose function is running
 *
 * A function that takes long should call this from time to time.
 *
 * Context: The item's function, and functions that it calls.
 *
 * Return: true if the item was cancelled or released after the run began, or if a later run follows
 * in its place (HWTIMER_WORK_REPLACE).
 */
bool hwtimer_work_cancelled(const struct hwtimer_work *work)
{
	return atomic64_read(&work->state) & STATE_CANCELLED;
}
EXPORT_SYMBOL_GPL(hwtimer_work_cancelled);

/**
 * hwtimer_work_of - find the item that a timeout belongs to
 * @timeout: a timeout, for example from hwtimer_wheel_stop(); not released
 *
 * Context: Any context.
 *
 * Return: the item; NULL if the timeout does not belong to an item.
 */
struct hwtimer_work *hwtimer_work_of(struct hwtimer_timeout *timeout)
{
	if (timeout->fn != hwtimer_work_dispatch)
		return NULL;
	return container_of(timeout, struct hwtimer_work, timeout);
}
EXPORT_SYMBOL_GPL(hwtimer_work_of);
