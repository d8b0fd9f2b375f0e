// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what a worker does beside driving its wheel: it calls callbacks and measures them.
 *
 * The worker of a wheel sleeps on an absolute hrtimer on the wheel's clock until the next tick at
 * which a timeout is due; while timeouts are being armed or released, for at most QUEUE_DRAIN_NS;
 * and while no timeout is pending, until it is kicked.
 *
 * CPU hotplug needs no code here. Producers push with preemption disabled, so a CPU that goes
 * offline has finished its pushes; its request queue and counts remain, and the worker visits
 * those of all possible CPUs. The kernel moves the worker's hrtimer to another CPU
 * (hrtimers_cpu_dying()), and starts it on another CPU if a dying CPU kicks after that. If all
 * CPUs that a kthread is bound to go offline, the scheduler lets it run on others
 * (select_fallback_rq()), and does not restore its CPU mask later.
 *
 * Suspend: like timers, the worker is not frozen. It runs while tasks are frozen, until the clocks
 * stop. A callback whose work must not be done then queues it on a freezable workqueue.
 * CLOCK_MONOTONIC stands still during suspend. CLOCK_BOOTTIME has advanced at resume, when the
 * kernel reprograms all hrtimers, so the worker wakes at once and catches up like any late worker.
 */
#define pr_fmt(fmt) "hwtimer: " fmt

#include <linux/bottom_half.h>
#include <linux/cache.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kallsyms.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "../debug/trace.h"
#include "hwtimer_driver.h"
#include "../hwtimer_work.h"

/* At most this many functions are named in warnings about long callbacks. */
#define LONG_FNS	32

static unsigned int callback_limit_us = 10000;
module_param(callback_limit_us, uint, 0644);
MODULE_PARM_DESC(callback_limit_us,
		 "longest time that a callback may take, in us; longer ones are counted and named in debugfs, and logged once per function; 0: no limit (default 10000)");

/* The common callback of all work items */
static hwtimer_fn_t work_fn __ro_after_init;

/**
 * hwtimer_worker_init - set the callback that work items share
 * @work: the common callback of struct hwtimer_work
 */
void __init hwtimer_worker_init(hwtimer_fn_t work)
{
	work_fn = work;
}

/**
 * hwtimer_owner_fn - find the function that the owner of a timeout passed
 * @t: the timeout, which must not be freed meanwhile
 * @fn: its callback
 *
 * All work items have the same callback, which does not identify an owner, but the function that it
 * calls does.
 *
 * Return: the owner's function.
 */
const void *hwtimer_owner_fn(struct hwtimer_timeout *t, hwtimer_fn_t fn)
{
	if (fn == work_fn)
		return container_of(t, struct hwtimer_work, timeout)->fn;
	return fn;
}

static bool too_long(u64 ns)
{
	unsigned int limit = READ_ONCE(callback_limit_us);

	return limit && ns > (u64)limit * NSEC_PER_USEC;
}

/*
 * While callbacks in a row take less than QUICK_NS on average, the clock is read after QUICK_ROW of
 * them, and not after each one, but sooner if jiffies moved. A callback that takes longer than a
 * jiffy moves jiffies, so if the limit is at least two, each one that exceeds it is found: those
 * before it in the row have taken less than a jiffy together. If a row took long, but no callback
 * exceeds the limit, nobody knows which one it was; then each of the next ones is measured, as is
 * the first one of each row.
 */
#define QUICK_NS	1000
#define QUICK_ROW	16

static bool may_skip(void)
{
	unsigned int limit = READ_ONCE(callback_limit_us);

	return !limit || (u64)limit * NSEC_PER_USEC >= 2 * TICK_NSEC;
}

/*
 * Warn once about each function. The workers of all wheels call this concurrently, so they claim
 * entries of the table by cmpxchg; entries are never freed. If a module is unloaded and another
 * function is loaded at the same address, there is no warning about that function.
 */
static void warn_long(const struct hwtimer_driven *driven, const void *fn, u64 ns)
{
	static const void *warned[LONG_FNS];
	const void *other;
	unsigned int i;

	for (i = 0; i < LONG_FNS; i++) {
		/* [cmpxchg: as it only decides which caller is the first] */
		other = READ_ONCE(warned[i]) ?: cmpxchg(&warned[i], NULL, fn);
		if (other == fn)
			return;
		if (!other) {
			pr_warn("wheel %s: %ps took %llu us, callback_limit_us is %u\n",
				driven->name, fn, div_u64(ns, NSEC_PER_USEC),
				READ_ONCE(callback_limit_us));
			return;
		}
	}
	pr_warn_once("more than %d functions take too long, no more are named\n",
		     LONG_FNS);
}

static void note_name(char name[KSYM_NAME_LEN], const void *fn)
{
	snprintf(name, KSYM_NAME_LEN, "%ps", fn);
	/* Cut off " [module]": readers of debugfs expect a single word. */
	*strchrnul(name, ' ') = '\0';
	/* Without a symbol this is the address, which programs must not see. */
	if (name[0] == '0')
		strscpy(name, "unknown", KSYM_NAME_LEN);
}

/* Record a callback that took longer than all before, or longer than the limit. */
static noinline void note_duration(struct hwtimer_monitor *m, const void *fn, u64 ns)
{
	/* Store the name, not the address: the module may be unloaded before debugfs is read. */
	spin_lock(&m->lock);
	if (ns > m->longest_ns) {
		m->longest_ns = ns;
		note_name(m->longest_fn, fn);
	}
	if (too_long(ns)) {
		m->long_callbacks++;
		note_name(m->long_fn, fn);
	}
	spin_unlock(&m->lock);
}

/*
 * A callback has returned with preemption or bottom halves disabled: like the kernel's timers, say
 * which one, and repair it. @count: the preempt_count with which it was called. Lockdep reports a
 * lock that is still held.
 */
static noinline void callback_leaked(const struct hwtimer_driven *driven, const void *fn, int count)
{
	pr_err_ratelimited("wheel %s: %ps returned with preempt_count %x, was called with %x\n",
			   driven->name, fn, preempt_count(), count);
	if (irqs_disabled())
		local_irq_enable();
	while (softirq_count())
		local_bh_enable();
	preempt_count_set(count);
}

/* To look at them after each callback would be too expensive, so it may have been another one. */
static noinline void interrupts_leaked(const struct hwtimer_driven *driven, const void *fn)
{
	pr_err_ratelimited("wheel %s: interrupts are off after %ps, or after a callback before it\n",
			   driven->name, fn);
	local_irq_enable();
}

/**
 * hwtimer_worker_call - run a callback, and measure it
 * @driven: the driven wheel
 * @t: the timeout; the callback may free it
 * @fn: its callback
 * @deadline: its deadline, in ns since the wheel was created
 *
 * From wheel_ops.call.
 */
void hwtimer_worker_call(struct hwtimer_driven *driven, struct hwtimer_timeout *t,
			 hwtimer_fn_t fn, u64 deadline)
{
	struct hwtimer_monitor *m = &driven->monitor;
	const void *owner = hwtimer_owner_fn(t, fn);	/* before fn() may free @t */
	int count = preempt_count();
	u64 start, ns;
	unsigned int bin;

	/*
	 * Reading the clock is most of the cost of an expiry. So if callbacks run back to back,
	 * each one counts from the end of the last one that was measured. If the worker is
	 * preempted in between, that time counts as part of this callback and not as lateness, as
	 * if the callback had been preempted.
	 */
	if (!driven->wheel.pass.in_row) {
		m->jiffies = jiffies;
		m->ended_ns = ktime_get_ns();
		m->unmeasured = 0;
		m->quick = false;
	}
	start = m->ended_ns;
	/* Bin 0: below 1 us; bin n: below 2^n us. */
	ns = driven->clock == HWTIMER_CLOCK_MONOTONIC ? start : hwtimer_clock_ns(driven);
	trace_hwtimer_expire_entry(t, &driven->wheel, owner, driven->start_ns + deadline, ns);
	ns -= driven->start_ns + deadline;
	bin = ns < NSEC_PER_USEC ? 0 : ilog2(div_u64(ns, NSEC_PER_USEC)) + 1;
	bin = min_t(unsigned int, bin, HWTIMER_LATE_BINS - 1);
	local_inc(&m->late[bin]);
	local64_add(ns, &m->lateness_ns);

	fn(t);
	if (unlikely(preempt_count() != count))
		callback_leaked(driven, owner, count);
	trace_hwtimer_expire_exit(t, &driven->wheel);

	m->unmeasured++;
	if (m->quick && m->unmeasured < QUICK_ROW && !time_after(jiffies, m->jiffies) &&
	    !trace_hwtimer_expire_entry_enabled()) {
		driven->wheel.pass.in_row = true;
		return;
	}
	if (unlikely(irqs_disabled()))
		interrupts_leaked(driven, owner);
	/* CLOCK_MONOTONIC: time in suspend does not count as the callback's. */
	m->ended_ns = ktime_get_ns();
	ns = m->ended_ns - start;
	m->quick = may_skip() && ns < QUICK_NS * m->unmeasured && ns <= m->longest_ns;
	m->jiffies = jiffies;
	driven->wheel.pass.in_row = likely(ns <= m->longest_ns && !too_long(ns));
	if (!driven->wheel.pass.in_row && (m->unmeasured == 1 || too_long(ns))) {
		note_duration(m, owner, ns);
		if (too_long(ns))
			warn_long(driven, owner, ns);
	}
	m->unmeasured = 0;
}

/**
 * hwtimer_worker_sleeps - note that the worker is about to sleep
 * @driven: the driven wheel
 * @until: what queue_prepare_sleep() returned
 */
void hwtimer_worker_sleeps(struct hwtimer_driven *driven, u64 until)
{
	trace_hwtimer_worker_sleep(&driven->wheel, until == QUEUE_IDLE ? U64_MAX :
				   until + driven->start_ns);
}

/**
 * hwtimer_worker_woke - note that the worker has slept and runs again
 * @driven: the driven wheel
 *
 * Called before queue_advance() is called again.
 */
void hwtimer_worker_woke(struct hwtimer_driven *driven)
{
	struct hwtimer_monitor *m = &driven->monitor;

	queue_awake(&driven->wheel);
	trace_hwtimer_worker_wake(&driven->wheel);
	WRITE_ONCE(m->wakeups, m->wakeups + 1);
}
