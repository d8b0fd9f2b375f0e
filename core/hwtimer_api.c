// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the functions of hwtimer.h, the API for other modules.
 */
#define pr_fmt(fmt) "hwtimer: " fmt

#include <linux/err.h>
#include <linux/export.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/prefetch.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../debug/odebug.h"
#include "../debug/trace.h"
#include "hwtimer_driver.h"

static_assert(BIT(WHEEL_MAX_BITS) == HWTIMER_WHEEL_MAX_SLOTS);
static_assert(HWTIMER_MAX_LEVELS == WHEEL_MAX_LEVELS);
static_assert(sizeof_field(struct hwtimer_driven, name) <= HWTIMER_TRACE_NAME_LEN);

/* If a wheel is destroyed with timeouts pending, this many are named in the log. */
#define NAMED_OWNERS	8

/* Turn a time on the wheel's clock into ns since the wheel was created. */
static u64 wheel_time(const struct hwtimer_wheel *wheel, u64 ns)
{
	u64 start = to_driven(wheel)->start_ns;

	return ns > start ? ns - start : 0;
}

/*
 * Traced variants of arm, touch and cancel. They read the callback before the operation, because
 * the timeout may be freed after it. Out of line, so that the callers contain only the test whether
 * the tracepoint is enabled.
 */
static const void *traced_fn(struct hwtimer_timeout *t)
{
	return hwtimer_owner_fn(t, READ_ONCE(t->fn));
}

static noinline int arm_traced(struct hwtimer_timeout *t, u64 deadline_ns, bool touch)
{
	struct hwtimer_wheel *wheel = timeout_wheel(t);
	u64 deadline = wheel_time(wheel, deadline_ns);
	const void *fn = traced_fn(t);
	int ret = touch ? queue_touch(t, deadline) : queue_arm(t, deadline);

	if (touch)
		trace_hwtimer_touch(t, wheel, fn, deadline_ns, ret);
	else
		trace_hwtimer_arm(t, wheel, fn, deadline_ns, ret);
	return ret;
}

static noinline bool cancel_traced(struct hwtimer_timeout *t)
{
	struct hwtimer_wheel *wheel = timeout_wheel(t);
	const void *fn = traced_fn(t);
	bool ret = queue_cancel(t);

	trace_hwtimer_cancel(t, wheel, fn, ret);
	return ret;
}

/* The time @delay_ns from now, in ns on the clock of the timeout's wheel; below 0 counts as 0. */
static u64 deadline_after(struct hwtimer_timeout *timeout, s64 delay_ns)
{
	const struct hwtimer_driven *driven;
	u64 now;

	/*
	 * A processor reads its clock only when all earlier loads are done. So prefetch the
	 * timeout, and read CLOCK_MONOTONIC, which most wheels use, before loading the timeout to
	 * find out which clock its wheel has.
	 */
	prefetchw(&timeout->word);
	now = ktime_get_ns();
	driven = to_driven(timeout_wheel(timeout));
	if (unlikely(driven->clock != HWTIMER_CLOCK_MONOTONIC))
		now = hwtimer_clock_ns(driven);

	/* Both are below 2^63: the sum does not overflow. */
	return delay_ns > 0 ? now + delay_ns : now;
}

/*
 * Is the caller inside a callback or a release function of this wheel? For functions that sleep; an
 * interrupt of the worker would be taken for a callback, but must not call them.
 */
static bool is_worker(const struct hwtimer_driven *driven)
{
	return READ_ONCE(driven->actor) == current;
}

/* Let lockdep check that no callback needs a lock that the caller holds. */
static void might_wait_for_callbacks(struct hwtimer_wheel *wheel)
{
	lock_map_acquire(&wheel->callback_map);
	lock_map_release(&wheel->callback_map);
}

static bool name_valid(const char *name)
{
	size_t len = name ? strnlen(name, HWTIMER_NAME_LEN) : 0;

	return len && len < HWTIMER_NAME_LEN && !strchr(name, '/') &&
	       strcmp(name, ".") && strcmp(name, "..");
}

/**
 * __hwtimer_wheel_create - see hwtimer_wheel_create()
 * @params: the parameters
 * @owner: the module of the caller; NULL: it is built in
 *
 * Return: as hwtimer_wheel_create().
 */
struct hwtimer_wheel *__hwtimer_wheel_create(const struct hwtimer_wheel_params *params,
					     struct module *owner)
{
	struct hwtimer_driven *driven;
	int ret;

	if (!name_valid(params->name) || (unsigned int)params->clock > HWTIMER_CLOCK_BOOTTIME)
		return ERR_PTR(-EINVAL);

	driven = kzalloc(sizeof(*driven), GFP_KERNEL);
	if (!driven)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&driven->monitor.lock);
	driven->owner = owner;
	strscpy(driven->module, module_name(owner), sizeof(driven->module));
	driven->clock = params->clock;
	driven->start_ns = hwtimer_clock_ns(driven);

	ret = queue_init(&driven->wheel, params, &hwtimer_worker_ops);
	if (ret) {
		kfree(driven);
		return ERR_PTR(ret);
	}
	hwtimer_stats_add(driven, params->name);
	ret = hwtimer_worker_create(driven, params);
	if (ret) {
		hwtimer_stats_remove(driven);
		hwtimer_stats_put(driven);
		return ERR_PTR(ret);
	}
	hwtimer_debugfs_add(driven);
	trace_hwtimer_wheel_create(&driven->wheel, driven->name, params->tick_ns,
				   BIT(driven->wheel.wheel.level[0].bits),
				   driven->wheel.wheel.levels);
	return &driven->wheel;
}
EXPORT_SYMBOL_GPL(__hwtimer_wheel_create);

/**
 * hwtimer_wheel_start - start a wheel
 * @wheel: the wheel
 *
 * Optional: the first arm also starts the wheel.
 *
 * Context: Any context.
 *
 * Return: 0, or -ESHUTDOWN if the wheel was stopped.
 */
int hwtimer_wheel_start(struct hwtimer_wheel *wheel)
{
	return queue_start(wheel);
}
EXPORT_SYMBOL_GPL(hwtimer_wheel_start);

/**
 * hwtimer_wheel_stop - stop a wheel and take back the pending timeouts
 * @wheel: the wheel
 * @pending: out: the list of the timeouts that were pending, linked by their @node; NULL: end them
 *	without a list
 *
 * As soon as this begins, arming fails with -ESHUTDOWN. When it returns, no callback runs, and each
 * timeout whose arming had succeeded has expired, was cancelled, or is on the list. The memory of
 * the timeouts on the list belongs to the caller. While the list is made or in use, owners may
 * cancel and release timeouts that are on it, but have to defer freeing them, for example by an RCU
 * grace period. If two stops race, one gets the list, and both return when it is complete.
 *
 * Context: Process context, may sleep. Waits for callbacks, so the caller must not hold a lock that
 * any callback of this wheel needs.
 *
 * Return: 0, also if the wheel was stopped before (@pending is empty then); -EDEADLK if a callback
 * of this wheel calls it, which changes nothing.
 */
int hwtimer_wheel_stop(struct hwtimer_wheel *wheel, struct list_head *pending)
{
	struct hwtimer_driven *driven = to_driven(wheel);

	if (pending)
		INIT_LIST_HEAD(pending);
	if (is_worker(driven)) {
		pr_err_ratelimited("wheel %s: a callback stops its wheel\n",
				   driven->name);
		return -EDEADLK;
	}

	might_wait_for_callbacks(wheel);
	mutex_lock(&wheel->worker_lock);
	if (queue_shutdown(wheel)) {
		kthread_stop(driven->task);
		WRITE_ONCE(driven->actor, current);
		queue_sweep(wheel, pending);
		WRITE_ONCE(driven->actor, NULL);
		trace_hwtimer_wheel_stop(wheel, wheel->handed_back);
	}
	mutex_unlock(&wheel->worker_lock);
	return 0;
}
EXPORT_SYMBOL_GPL(hwtimer_wheel_stop);

/* Warn about timeouts that were @pending when the wheel was destroyed; name some owners. */
static void complain(const struct hwtimer_driven *driven, struct list_head *pending)
{
	struct hwtimer_timeout *t, *next;
	unsigned long n = 0;

	list_for_each_entry_safe(t, next, pending, node) {
		list_del_init(&t->node);
		if (n++ < NAMED_OWNERS)
			pr_warn("wheel %s: was pending: %p, %ps\n", driven->name, t,
				hwtimer_owner_fn(t, t->fn));
		cond_resched();
	}
	WARN(n, "hwtimer: wheel %s destroyed, timeouts pending: %lu\n", driven->name, n);
}

/**
 * hwtimer_wheel_destroy - free a wheel
 * @wheel: the wheel, an error pointer or NULL. Once this has been called, the wheel and timeouts
 *	that were initialised for it must not be used
 *
 * Call hwtimer_wheel_stop() first, unless no timeout can be pending. If the wheel was not stopped,
 * this stops it, ends the timeouts that are pending, and warns about them, with the functions of
 * some of their owners.
 *
 * Waits for no run of a work item (hwtimer_work.h).
 *
 * Context: Process context, may sleep; not from a callback of this wheel.
 */
void hwtimer_wheel_destroy(struct hwtimer_wheel *wheel)
{
	struct hwtimer_driven *driven;
	struct list_head pending;

	if (IS_ERR_OR_NULL(wheel))
		return;
	driven = to_driven(wheel);
	if (WARN_ON(hwtimer_wheel_stop(wheel, &pending)))
		return;
	complain(driven, &pending);
	hwtimer_debugfs_remove(driven);
	hwtimer_stats_remove(driven);
	hwtimer_stats_put(driven);
}
EXPORT_SYMBOL_GPL(hwtimer_wheel_destroy);

/**
 * hwtimer_wheels_forgotten - destroy the wheels that a module has left behind
 * @owner: the module; its exit function has returned, but its code is still there
 *
 * Names each of them, as a leak detector does. Their workers would soon call functions that are no
 * longer there. Context: Process context, may sleep.
 */
void hwtimer_wheels_forgotten(struct module *owner)
{
	struct hwtimer_driven *driven;

	while ((driven = hwtimer_stats_of(owner))) {
		pr_err("module %s is gone without destroying its wheel %s; timeouts pending: %lu\n",
		       module_name(owner), driven->name, hwtimer_wheel_pending(&driven->wheel));
		hwtimer_wheel_stop(&driven->wheel, NULL);
		hwtimer_wheel_destroy(&driven->wheel);
	}
}

/**
 * hwtimer_wheel_pending - the number of pending timeouts
 * @wheel: the wheel
 *
 * Context: Any context. Adds up the counts of all CPUs.
 *
 * Return: the number; exact while no timeout is being armed or ended, otherwise never too low.
 */
unsigned long hwtimer_wheel_pending(const struct hwtimer_wheel *wheel)
{
	struct queue_counts counts;

	queue_count(wheel, &counts);
	return counts.pending;
}
EXPORT_SYMBOL_GPL(hwtimer_wheel_pending);

/**
 * hwtimer_wheel_now - the current time of a wheel
 * @wheel: the wheel
 *
 * Context: Any context.
 *
 * Return: ns on the wheel's clock, as for hwtimer_schedule_at().
 */
u64 hwtimer_wheel_now(const struct hwtimer_wheel *wheel)
{
	return hwtimer_clock_ns(to_driven(wheel));
}
EXPORT_SYMBOL_GPL(hwtimer_wheel_now);

/**
 * hwtimer_wheel_barrier - wait for release functions and callbacks
 * @wheel: the wheel
 *
 * When this returns, the release function of each hwtimer_release() that had returned before the
 * call has returned, and so has each callback that had begun. It does not wait for timeouts that
 * are released later, not even by such a callback. Modelled on rcu_barrier(): for a module that
 * used another module's wheel and is about to be unloaded.
 *
 * Context: Process context, may sleep. Waits for callbacks, so the caller must not hold a lock that
 * any callback of this wheel needs. A callback of this wheel must not call this; if it does, this
 * logs the bug and returns at once.
 */
void hwtimer_wheel_barrier(struct hwtimer_wheel *wheel)
{
	struct hwtimer_driven *driven = to_driven(wheel);

	if (is_worker(driven)) {
		pr_err_ratelimited("wheel %s: a callback waits for callbacks\n",
				   driven->name);
		return;
	}
	might_sleep();
	might_wait_for_callbacks(wheel);
	queue_barrier(wheel);
}
EXPORT_SYMBOL_GPL(hwtimer_wheel_barrier);

/**
 * hwtimer_init - prepare a timeout
 * @timeout: the timeout; not armed, and not held by a wheel (see hwtimer_cancel_sync() and
 *	hwtimer_release())
 * @wheel: the wheel on which it will be armed
 * @fn: its callback
 *
 * If @wheel still holds the timeout, or if the memory is a copy of such a timeout, this warns and
 * changes nothing. Call this again whenever the memory has been allocated or moved. For a timeout
 * on the stack use hwtimer_init_on_stack(). A callback may initialise its own timeout, for the same
 * wheel; a caller that waits for the timeout still waits until the callback returns.
 *
 * Context: Any context.
 */
void hwtimer_init(struct hwtimer_timeout *timeout, struct hwtimer_wheel *wheel,
		  hwtimer_fn_t fn)
{
	queue_timeout_init(timeout, wheel, fn);
	trace_hwtimer_init(timeout, wheel, fn);
}
EXPORT_SYMBOL_GPL(hwtimer_init);

/**
 * hwtimer_schedule - arm a timeout to expire after a delay
 * @timeout: the timeout
 * @delay_ns: from now; 0 or less: at the next tick
 *
 * Calls hwtimer_schedule_at() with the current time plus @delay_ns.
 *
 * Context: Any context but NMI.
 *
 * Return: as hwtimer_schedule_at().
 */
int hwtimer_schedule(struct hwtimer_timeout *timeout, s64 delay_ns)
{
	u64 deadline;

	/* To call hwtimer_schedule_at() here would take six instructions more; so in touch. */
	if (trace_hwtimer_arm_enabled())
		return arm_traced(timeout, deadline_after(timeout, delay_ns), false);
	deadline = deadline_after(timeout, delay_ns);
	return queue_arm(timeout, wheel_time(timeout_wheel(timeout), deadline));
}
EXPORT_SYMBOL_GPL(hwtimer_schedule);

/**
 * hwtimer_schedule_at - arm a timeout, or re-arm a pending one
 * @timeout: the timeout
 * @deadline_ns: when it is due, in ns on the wheel's clock. If this is in the past, the timeout
 *	expires at the next tick; from HWTIMER_HORIZON after the wheel was created on, never
 *
 * The callback runs at the first tick at or after the deadline. It may run before this returns, so
 * after a success the caller must not access @timeout unless it knows that the callback does not
 * free it. Timeouts that one CPU arms for the same tick expire in the order of arming, if the wheel
 * did not hold them before.
 *
 * Context: Any context but NMI. Does not allocate. Lock-free, but see @cap of struct
 * hwtimer_wheel_params.
 *
 * Return:
 * * 0 - armed
 * * 1 - it was pending, and now has the new deadline
 * * -EAGAIN - as many timeouts are pending as the wheel's cap allows
 * * -ESHUTDOWN - the wheel was stopped, or the timeout was shut down or released
 *
 * On error nothing has changed.
 */
int hwtimer_schedule_at(struct hwtimer_timeout *timeout, u64 deadline_ns)
{
	if (trace_hwtimer_arm_enabled())
		return arm_traced(timeout, deadline_ns, false);
	return queue_arm(timeout, wheel_time(timeout_wheel(timeout), deadline_ns));
}
EXPORT_SYMBOL_GPL(hwtimer_schedule_at);

/**
 * hwtimer_schedule_forward - arm a periodic timeout for its next deadline
 * @timeout: the timeout; not armed. Usually its own callback calls this
 * @now_ns: the current time, from hwtimer_wheel_now()
 * @period: its period; a misfire_ns shorter than the wheel's tick takes many deadlines for missed
 * @decision: out: whether the deadline that was reached counts, and how many were missed; may be
 *	NULL
 *
 * The next deadline is a whole number of periods after the last one, which hwtimer_deadline()
 * returns; the policy says how many. So the timeout does not drift, however late its
 * callback runs. Modelled on hrtimer_forward(), which does not arm and knows no policies. A last
 * deadline before the creation of the wheel counts as the time of its creation::
 *
 *	static void beat(struct hwtimer_timeout *t)
 *	{
 *		static const struct hwtimer_period period = {
 *			.period_ns = NSEC_PER_SEC,
 *			.policy = HWTIMER_PERIOD_SKIP,
 *		};
 *		struct hwtimer_decision d;
 *
 *		if (hwtimer_schedule_forward(t, hwtimer_wheel_now(t->wheel),
 *					     &period, &d))
 *			return;
 *		if (d.fire)
 *			peer_send(t, d.overruns);
 *	}
 *
 * Context: As hwtimer_schedule_at().
 *
 * Return: as hwtimer_schedule_at(), and
 *
 * * -EINVAL - the length of the period is 0; @decision is undefined
 * * -EBUSY - it is pending; @decision is undefined
 *
 * On error nothing has changed. After -ESHUTDOWN @decision is undefined if the timeout was shut
 * down or released; on a stopped wheel it is valid, and so it is after -EAGAIN.
 */
int hwtimer_schedule_forward(struct hwtimer_timeout *timeout, u64 now_ns,
			     const struct hwtimer_period *period,
			     struct hwtimer_decision *decision)
{
	struct hwtimer_decision d;

	if (!period->period_ns)
		return -EINVAL;
	if (hwtimer_is_pending(timeout))
		return -EBUSY;
	d = hwtimer_period_decide(period, hwtimer_deadline(timeout), now_ns);
	/* Before arming, after which the callback may free the memory of *@decision. */
	if (decision)
		*decision = d;
	return hwtimer_schedule_at(timeout, d.next_ns);
}
EXPORT_SYMBOL_GPL(hwtimer_schedule_forward);

/**
 * hwtimer_schedule_unless_due - in its callback, arm a timeout again if its deadline has moved
 * @timeout: the timeout whose callback runs
 * @deadline_ns: the deadline that its owner has stored, in ns on the wheel's clock
 *
 * For the cheapest way to push a timeout back, as TCP does with its timers: the owner keeps the
 * deadline in a variable of its own (on 32-bit machines an atomic64_t, or under a lock), and only
 * stores a later one there. The callback begins with
 *
 *	if (hwtimer_schedule_unless_due(t, READ_ONCE(conn->deadline)) != -ETIME)
 *		return;
 *
 * hwtimer_touch_at() is a locked operation on the timeout, but then the worker does this, and its
 * caller learns whether it was in time. Here each old deadline costs an expiry and an arming, and
 * the owner has to serialise with the callback. If it stores a later deadline after the callback
 * has read the variable, and found it due, that has no effect. If it calls hwtimer_cancel(), or
 * arms the timeout for an earlier deadline, between this read and the arming, the callback arms it
 * again for what it has read. So for these two, owner and callback hold a lock of theirs.
 * hwtimer_cancel_sync(), hwtimer_shutdown_sync() and hwtimer_release() need no lock.
 *
 * Context: As hwtimer_schedule_at().
 *
 * Return: as hwtimer_schedule_at(), and
 *
 * * -ETIME - @deadline_ns is reached: the callback does its work
 *
 * On error nothing has changed. On a wheel with a cap the callback has to handle -EAGAIN, because
 * its place was given up before the callback: the timeout is not armed, and not due. On -ESHUTDOWN,
 * the wheel was stopped meanwhile, and the timeout is not handed back.
 */
int hwtimer_schedule_unless_due(struct hwtimer_timeout *timeout, u64 deadline_ns)
{
	if (deadline_ns <= hwtimer_wheel_now(timeout_wheel(timeout)))
		return -ETIME;
	return hwtimer_schedule_at(timeout, deadline_ns);
}
EXPORT_SYMBOL_GPL(hwtimer_schedule_unless_due);

/**
 * hwtimer_touch - push back a pending timeout by a delay from now
 * @timeout: the timeout
 * @delay_ns: as for hwtimer_schedule()
 *
 * Context: Any context but NMI.
 *
 * Return: as hwtimer_touch_at().
 */
int hwtimer_touch(struct hwtimer_timeout *timeout, s64 delay_ns)
{
	u64 deadline;

	if (trace_hwtimer_touch_enabled())
		return arm_traced(timeout, deadline_after(timeout, delay_ns), true);
	deadline = deadline_after(timeout, delay_ns);
	return queue_touch(timeout, wheel_time(timeout_wheel(timeout), deadline));
}
EXPORT_SYMBOL_GPL(hwtimer_touch);

/**
 * hwtimer_touch_at - give a pending timeout another deadline
 * @timeout: the timeout
 * @deadline_ns: as for hwtimer_schedule_at(). A later deadline than before costs one atomic
 *	operation, an earlier one a request to the worker
 *
 * Unlike hwtimer_schedule_at(), this does not arm a timeout that has expired or was cancelled.
 * Modelled on mod_timer_pending().
 *
 * Context: Any context but NMI. Lock-free; does not allocate.
 *
 * Return:
 * * 0 - it is pending, with the new deadline
 * * -ENOENT - it was not pending
 * * -ESHUTDOWN - the wheel was stopped, or the timeout was shut down or released
 */
int hwtimer_touch_at(struct hwtimer_timeout *timeout, u64 deadline_ns)
{
	if (trace_hwtimer_touch_enabled())
		return arm_traced(timeout, deadline_ns, true);
	return queue_touch(timeout, wheel_time(timeout_wheel(timeout), deadline_ns));
}
EXPORT_SYMBOL_GPL(hwtimer_touch_at);

/**
 * hwtimer_cancel - end a pending timeout
 * @timeout: the timeout
 *
 * The wheel may hold @timeout for some time afterwards: it may be armed again but must not be
 * freed. To free it, use hwtimer_cancel_sync() or hwtimer_release().
 *
 * Context: Any context. Lock-free.
 *
 * Return: true if it was pending: the callback of this arming will never run.
 * False if not; the callback may be running.
 */
bool hwtimer_cancel(struct hwtimer_timeout *timeout)
{
	if (trace_hwtimer_cancel_enabled())
		return cancel_traced(timeout);
	return queue_cancel(timeout);
}
EXPORT_SYMBOL_GPL(hwtimer_cancel);

static int end_sync(struct hwtimer_timeout *t, queue_end_fn end)
{
	struct hwtimer_wheel *wheel = timeout_wheel(t);
	struct hwtimer_driven *driven = to_driven(wheel);
	int ret;

	might_sleep();
	if (!is_worker(driven)) {
		might_wait_for_callbacks(wheel);
		ret = queue_end_sync(t, end, MAX_SCHEDULE_TIMEOUT);
	} else if (READ_ONCE(wheel->running) != t) {
		ret = queue_end_in_callback(t, end);
	} else {
		/* The callback of @t would wait for itself. */
		end(t);
		pr_err_ratelimited("wheel %s: %ps waits for itself\n", driven->name, t->fn);
		ret = -EDEADLK;
	}
	/* @t still belongs to the caller, so it may be read here. */
	if (trace_hwtimer_cancel_enabled())
		trace_hwtimer_cancel(t, wheel, traced_fn(t), ret);
	return ret;
}

/**
 * hwtimer_cancel_sync - end a pending timeout and wait until the wheel does not hold it
 * @timeout: the timeout
 *
 * When this returns, the callback does not run and the memory may be freed, provided that no other
 * task arms @timeout meanwhile (if its callback arms it, that is cancelled), and that @timeout is
 * not on a list that hwtimer_wheel_stop() hands back. While this waits, at most one more callback
 * of @timeout begins. The caller must not hold a lock that any callback of this wheel needs: see
 * "Deadlock" at the top of hwtimer.h. If a callback calls this for a timeout that was released, it
 * does not wait: the release function runs later.
 *
 * Context: Process context, may sleep. A callback may call this for another timeout of its wheel.
 *
 * Return:
 * * the number of armings that this has cancelled, whose callbacks will never run: 0 if it was
 *   never pending; more than 1 if it was armed again meanwhile
 * * -EDEADLK - called by its own callback: a bug, which is logged. The timeout is not pending, but
 *   the wheel may hold it, and its callback runs
 */
int hwtimer_cancel_sync(struct hwtimer_timeout *timeout)
{
	return end_sync(timeout, queue_cancel);
}
EXPORT_SYMBOL_GPL(hwtimer_cancel_sync);

/**
 * hwtimer_shutdown_sync - end a timeout for good and wait, like hwtimer_cancel_sync()
 * @timeout: the timeout
 *
 * As soon as this begins, arming fails with -ESHUTDOWN, so that the timeout cannot be armed again
 * during a teardown. Modelled on timer_shutdown_sync(). hwtimer_init() makes the timeout usable
 * again.
 *
 * Context: Process context, may sleep.
 *
 * Return: as hwtimer_cancel_sync().
 */
int hwtimer_shutdown_sync(struct hwtimer_timeout *timeout)
{
	return end_sync(timeout, queue_timeout_shutdown);
}
EXPORT_SYMBOL_GPL(hwtimer_shutdown_sync);

/**
 * hwtimer_release - end a timeout for good, and call back when it may be freed
 * @timeout: the timeout; not released before
 * @released: called once with @timeout when the wheel does not hold it and its callback does not
 *	run. The worker calls it, like a callback; on a stopped wheel this function calls it
 *
 * The counterpart of hwtimer_shutdown_sync() for callers that must not sleep. @released is called
 * within 250 ms, or at once if there are many or hwtimer_wheel_barrier() waits. A callback may
 * release its own timeout. If the timeout is on a list that hwtimer_wheel_stop() hands back,
 * @released must not free it as long as the list is in use: see hwtimer_wheel_stop().
 *
 * Context: Any context but NMI. Lock-free; does not allocate.
 *
 * Return: true if it was pending: its callback will never run.
 */
bool hwtimer_release(struct hwtimer_timeout *timeout, hwtimer_released_fn_t released)
{
	struct hwtimer_wheel *wheel = timeout_wheel(timeout);
	const void *fn = NULL;
	bool ret;

	if (trace_hwtimer_cancel_enabled())
		fn = traced_fn(timeout);
	ret = queue_release(timeout, released);
	trace_hwtimer_cancel(timeout, wheel, fn, ret);
	return ret;
}
EXPORT_SYMBOL_GPL(hwtimer_release);

/**
 * hwtimer_is_pending - is this timeout armed?
 * @timeout: the timeout
 *
 * Context: Any context.
 *
 * Return: true if it is; unless the caller prevents that, it may have ended since.
 */
bool hwtimer_is_pending(const struct hwtimer_timeout *timeout)
{
	return queue_pending(timeout);
}
EXPORT_SYMBOL_GPL(hwtimer_is_pending);

/**
 * hwtimer_deadline - the deadline of a timeout
 * @timeout: a timeout that is pending, or whose callback runs; neither shut down nor released,
 *	because that takes the lowest bit of the deadline
 *
 * Context: Any context.
 *
 * Return: ns on the wheel's clock; U64_MAX if it never expires.
 */
u64 hwtimer_deadline(const struct hwtimer_timeout *timeout)
{
	u64 deadline = queue_deadline(timeout);

	if (deadline == HWTIMER_HORIZON)
		return U64_MAX;
	return deadline + to_driven(timeout->wheel)->start_ns;
}
EXPORT_SYMBOL_GPL(hwtimer_deadline);
