// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: timeouts whose function runs on a workqueue.
 *
 * The state of an item is one word:
 *
 *	QUEUED		its work_struct is on a workqueue, or about to be, and has not
 *			begun
 *	RUNNING		its function runs
 *	CANCELLED	and is to stop soon
 *	GONE		it was released, and the wheel holds nothing of it any more
 *	DROPPED		an expiry was dropped because of ENDING
 *	ENDING		a count: who waits for its end; while it is not 0, expiries are
 *			dropped. A released item has one for ever
 *	DUE		a count: runs that were dispatched and have not begun
 *
 * Idle is neither QUEUED nor RUNNING. What changes the word, each by one cmpxchg:
 *
 *	dispatch	DUE + 1, and QUEUED if it was idle
 *	begin		DUE - 1, and RUNNING for QUEUED; with no DUE: idle for QUEUED
 *	end		with DUE: QUEUED for RUNNING; else idle for RUNNING
 *	drop		DUE = 0, and CANCELLED if RUNNING
 *	take off	idle for QUEUED, with no DUE, by who took it from the workqueue
 *
 * Invariants:
 *
 *  (a) QUEUED and RUNNING are never both set. So there is at the most one work_struct
 *      queued or running, whatever workqueues it moves between. (Workqueues promise
 *      that only for one that stays.)
 *  (b) DUE implies QUEUED or RUNNING: somebody comes by.
 *  (c) Who turns QUEUED on queues the work_struct; who turns it off had it from the
 *      workqueue, by beginning or by cancel_work().
 *  (d) Who makes it idle does not touch the item after, unless GONE was set in that
 *      same step: then it calls @released. If GONE is set on an idle item, who sets
 *      it does.
 *
 * A cancelled run leaves its work_struct queued: it costs a cancel one cmpxchg, in any
 * context, and the next dispatch a place in the queue. Only who waits takes it off.
 *
 * What races with what:
 *
 *  - dispatch and dispatch: never of one item, as the wheel has one worker.
 *  - dispatch and end: either the end sees DUE and queues, or the dispatch sees idle
 *    and does.
 *  - cancel and begin: both take DUE away; one of them does.
 *  - cancel and an expiry whose callback runs already: what is dispatched after the
 *    cancel is not cancelled, and cancel does not claim so. Who needs more waits.
 *  - cancel_sync and a function that arms its own item, for ever: with ENDING set,
 *    and no callback running (hwtimer_cancel_sync()), nothing is dispatched any
 *    more, so the run that goes on is the last. When it is over, what it armed is
 *    ended as the timeout that it is.
 *  - cancel_sync and dispatch: ENDING is set, then hwtimer_cancel_sync() waits for the
 *    callback. A dispatch sees ENDING, or has queued the work_struct by then; so
 *    cancel_work() does not come between QUEUED and queue_work() there. It may between
 *    those of an end, which tries again (cancel_work() holds the work_struct
 *    for a few instructions with interrupts off), and wakes who waits, to look again.
 *  - cancel_sync and cancel_sync: ENDING counts.
 *  - release and dispatch: the wheel lets go of the timeout when no callback runs, so
 *    a dispatch may touch the item until it returns, even if its run is over.
 *  - release and end: (d). The wheel lets go of the timeout first, then GONE is set.
 *  - destroying the wheel and all of these: nobody dispatches on a stopped wheel, so
 *    @busy, items that are not idle, only goes down. Its last user is who brings
 *    it to 0, and behind that only its address is used. Ends queue where they ran,
 *    which a workqueue that is being drained allows.
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

#define STATE_BUSY	(STATE_QUEUED | STATE_RUNNING)

static struct hwtimer_lanes *lanes_of(const struct hwtimer_work *work)
{
	return &to_driven(work->timeout.wheel)->lanes;
}

static unsigned int minute(u64 ns)
{
	return div64_u64(ns, 60ULL * NSEC_PER_SEC);
}

/* Counts of the wheel's worker's are written by it alone. */
static void count(unsigned long *counter)
{
	WRITE_ONCE(*counter, *counter + 1);
}

/* Places are for the lanes; (queued never exceeds the bound). */
static bool take_place(struct hwtimer_lanes *lanes, const struct hwtimer_work *work)
{
	return work->wq || !lanes->max_queued ||
	       atomic_long_add_unless(&lanes->queued, 1, lanes->max_queued);
}

static void leave_places(struct hwtimer_lanes *lanes, const struct hwtimer_work *work,
			 unsigned long n)
{
	if (!work->wq && lanes->max_queued)
		atomic_long_sub(n, &lanes->queued);
}

/* Where a run goes that is dispatched now. The item is ours: it was idle. */
static struct workqueue_struct *choose_lane(const struct hwtimer_lanes *lanes,
					    const struct hwtimer_work *work)
{
	if (work->wq)
		return work->wq;
	if (work->slow_runs > lanes->slow_runs && work->minute == minute(ktime_get_ns()))
		return lanes->slow;
	return lanes->fast;
}

/* A run has ended. The item is still ours. */
static void note_run(const struct hwtimer_lanes *lanes, struct hwtimer_work *work,
		     u64 start, u64 end)
{
	if (work->minute != minute(end)) {
		work->minute = minute(end);
		work->slow_runs = 0;
	}
	if (end - start > lanes->slow_ns)
		work->slow_runs++;
}

/* By who turned QUEUED on. */
static void enqueue(struct hwtimer_work *work)
{
	hwtimer_step();
	/* False: end_sync() looks whether it is there yet. */
	while (!queue_work(work->on, &work->work))
		cpu_relax();
}

/* By who made the item idle, leaving it with @state; see (d). */
static void became_idle(struct hwtimer_lanes *lanes, struct hwtimer_work *work, u64 state)
{
	hwtimer_step();
	/* Only the address: @work may be gone. Behind the full barrier of who did. */
	wake_up_var(&work->state);
	if (state & STATE_GONE)
		work->released(work);
	hwtimer_step();
	/* And now the wheel may be; the same. */
	if (atomic_long_dec_and_test(&lanes->busy))
		wake_up_var(&lanes->busy);
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
	leave_places(lanes, work, 1);
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
		/* The same workqueue, so that it may be drained meanwhile. */
		enqueue(work);
		hwtimer_step();
		/* Somebody may wait to take it off. From here on only the address. */
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
 * An expiry was dispatched to @work, whose state was @old. The item does not go before we return;
 * see "release and dispatch".
 */
static void dispatched(struct hwtimer_lanes *lanes, struct hwtimer_work *work, u64 old, bool placed,
		       bool replaces)
{
	count(&lanes->dispatched);
	if (old & ENDING_MASK) {
		if (placed)
			leave_places(lanes, work, 1);
		atomic_long_inc(&lanes->cancelled);
		return;
	}
	if (replaces)
		count(&lanes->replaced);
	if (!(old & STATE_BUSY)) {
		atomic_long_inc(&lanes->busy);
		work->on = choose_lane(lanes, work);
	}
	/* Only we change it, so it may be looked at after an end. */
	if (work->on == lanes->slow && lanes->slow)
		count(&lanes->to_slow);
	if (!(old & STATE_BUSY))
		enqueue(work);
}

/**
 * hwtimer_work_dispatch - the callback of the timeouts of all items
 * @timeout: the timeout
 */
void hwtimer_work_dispatch(struct hwtimer_timeout *timeout)
{
	struct hwtimer_work *work = container_of(timeout, struct hwtimer_work, timeout);
	struct hwtimer_lanes *lanes = lanes_of(work);
	bool placed = false, busy, replaces;
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
		/* Only we make an item busy: with a place it is neither refused nor replaces. */
		if (busy && work->policy == HWTIMER_WORK_DISCARD) {
			refuse(lanes, work, HWTIMER_REFUSED_BUSY);
			return;
		}
		if (busy && work->policy == HWTIMER_WORK_REPLACE) {
			/* What is due is as good as new, in the other one's place. */
			replaces = old & DUE_MASK;
			if (old & STATE_RUNNING)
				new |= STATE_CANCELLED;
		}
		if (!replaces) {
			if ((old & DUE_MASK) == DUE_MASK ||
			    (!placed && !take_place(lanes, work))) {
				refuse(lanes, work, HWTIMER_REFUSED_FULL);
				return;
			}
			placed = true;
			new += DUE_ONE;
		}
		if (!(old & STATE_BUSY))
			new |= STATE_QUEUED;
		hwtimer_step();
	} while (!atomic64_try_cmpxchg(&work->state, (s64 *)&old, new));

	hwtimer_step();
	dispatched(lanes, work, old, placed, replaces);
}

/**
 * __hwtimer_work_init - see hwtimer_work_init()
 * @work: the item
 * @wheel: its wheel
 * @fn: what it runs
 * @params: how
 * @key: of lockdep
 * @name: for lockdep
 *
 * Return: 0, -EINVAL.
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
	work->slow_runs = 0;
	if ((!work->wq && !lanes_of(work)->fast) ||
	    params->policy < HWTIMER_WORK_SERIAL || params->policy > HWTIMER_WORK_REPLACE) {
		wheel_kill(&work->timeout);
		return -EINVAL;
	}
	return 0;
}
EXPORT_SYMBOL_GPL(__hwtimer_work_init);

/*
 * Cancel what is due, tell what runs, and add @ending to the word. True if anything
 * was due.
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
	leave_places(lanes, work, old / DUE_ONE);
	return true;
}

/**
 * hwtimer_work_cancel - end a pending item and its runs that have not begun
 * @work: the item
 *
 * A run that goes on is told, see hwtimer_work_cancelled(). The wheel and the workqueue may hold
 * @work for some time afterwards: it may be armed again but not be freed. To free it, use
 * hwtimer_work_cancel_sync() or hwtimer_work_release().
 *
 * Context: Any context but NMI. Lock-free.
 *
 * Return: true if it was pending or runs were due; they will never begin. False if not; a run may
 * go on, or begin if the item is expiring right now.
 */
bool hwtimer_work_cancel(struct hwtimer_work *work)
{
	bool ended = hwtimer_cancel(&work->timeout);

	hwtimer_step();
	/* In this order: what expires before the one is met by the other. */
	return drop(work, 0) || ended;
}
EXPORT_SYMBOL_GPL(hwtimer_work_cancel);

/* Is it idle? If it is queued, make it so. Nothing is due, nor will be. */
static bool taken_off(struct hwtimer_work *work)
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
	return !(state & STATE_BUSY);
}

static int end_sync(struct hwtimer_work *work, int (*end)(struct hwtimer_timeout *))
{
	bool ended, inside;
	u64 old, new;
	int ret;

	might_sleep();
	inside = atomic64_read(&work->state) & STATE_RUNNING && current_work() == &work->work;
	if (!inside) {
		/* The run must not need what we hold. */
		lock_map_acquire(&work->work.lockdep_map);
		lock_map_release(&work->work.lockdep_map);
	}

	ended = drop(work, ENDING_ONE);
	hwtimer_step();
	ret = end(&work->timeout);
	ended |= ret > 0;
	/* No callback, so no dispatch; from here on all of them see ENDING. */
	ended |= drop(work, 0);
	if (inside) {
		pr_err_ratelimited("wheel %s: work %ps waits for itself\n",
				   to_driven(work->timeout.wheel)->name, work->fn);
		ret = -EDEADLK;
	} else if (ret >= 0) {
		wait_var_event(&work->state, taken_off(work));
		/* The last run may have armed it. */
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
 * When it returns, @work is neither pending nor queued, and its function does not run, unless
 * somebody else armed it meanwhile. (If its own function arms it, or if it expires meanwhile, that
 * is cancelled.) The memory may then be freed. This tells a run that goes on, see
 * hwtimer_work_cancelled(), and waits for it; it takes a queued run off the workqueue. The caller
 * must not hold what the function, or any callback of the wheel, needs.
 *
 * Context: Process context, may sleep. Functions of other items may call it, even on the same
 * workqueue, and so may callbacks of the wheel.
 *
 * Return:
 * * 1 - it was pending or a run was due, and will never run
 * * 0 - it was not
 * * -EDEADLK - called by its own function or its own refused callback: a bug, which is logged. The
 *   item is not pending and no run is due, but the caller's run goes on
 */
int hwtimer_work_cancel_sync(struct hwtimer_work *work)
{
	return end_sync(work, hwtimer_cancel_sync);
}
EXPORT_SYMBOL_GPL(hwtimer_work_cancel_sync);

/**
 * hwtimer_work_shutdown_sync - the same as hwtimer_work_cancel_sync(), but for good
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

/* The wheel has let go of a released item: no callback runs, and none will. */
static void work_released(struct hwtimer_timeout *timeout)
{
	struct hwtimer_work *work = container_of(timeout, struct hwtimer_work, timeout);

	hwtimer_step();
	if (!(atomic64_fetch_or(STATE_GONE, &work->state) & STATE_BUSY))
		work->released(work);
}

/**
 * hwtimer_work_release - end an item for good, and call back when it may be freed
 * @work: the item; not released before
 * @released: called once with @work when neither the wheel nor a workqueue holds it and its
 *	function does not run
 *
 * The counterpart of hwtimer_work_shutdown_sync() for callers that must not sleep. The function
 * may release its own item. A run that goes on is told, see hwtimer_work_cancelled(). An item on a
 * list that hwtimer_wheel_stop() handed back is freed by the owner of the list, as soon as it is
 * idle.
 *
 * hwtimer_wheel_barrier() does not wait for runs, so it does not wait for @released after a run. A
 * module that is about to be unloaded runs its items on a workqueue of its own and destroys that
 * after the barrier, or calls hwtimer_work_shutdown_sync().
 *
 * Context: Any context but NMI. Lock-free; does not allocate.
 *
 * Return: true if it was pending or runs were due; they will never begin.
 */
bool hwtimer_work_release(struct hwtimer_work *work, hwtimer_work_released_fn_t released)
{
	bool ended;

	work->released = released;
	/* ENDING for ever. The cmpxchg is before that of who reads @released. */
	ended = drop(work, ENDING_ONE);
	hwtimer_step();
	/* The last use of it: if the wheel was stopped, it may be gone behind. */
	return hwtimer_release(&work->timeout, work_released) || ended;
}
EXPORT_SYMBOL_GPL(hwtimer_work_release);

/**
 * hwtimer_work_is_pending - is this item armed, or a run of it due?
 * @work: the item
 *
 * Modelled on delayed_work_pending(). Between the expiry and the dispatch it is neither.
 *
 * Context: Any context.
 *
 * Return: true if it is. Unless the caller keeps others from ending it, it may have ended since. A
 * run that goes on does not count.
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
 * A function that takes long should call this now and then.
 *
 * Context: Inside the item's function, and functions that it calls.
 *
 * Return: true if somebody cancelled or released the item after the run began, or a
 * later run takes its place (HWTIMER_WORK_REPLACE).
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
