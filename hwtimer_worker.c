// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what the workers of all drivers share: how they call back, and what is measured.
 *
 * Each wheel has a worker that a driver chosen at its creation moves: it sleeps on
 * an absolute hrtimer of the wheel's clock until the next tick at which something is
 * due, at the most for WHEEL_DRAIN_NS while timeouts are being armed, and until it
 * is kicked when nothing is pending.
 *
 * CPU hotplug needs nothing of us. A producer's section is not preemptible, so a CPU
 * that goes has pushed what it began to push; its queue and its counts stay where
 * they are, and the worker looks at those of all possible CPUs. The worker's hrtimer
 * is moved to another CPU with all others (hrtimers_cpu_dying()), and a kick from a
 * CPU that is past that is started on another one. A kthread that may only run on
 * CPUs that have gone is sent elsewhere by the scheduler (select_fallback_rq()), for
 * good: nobody remembers its mask.
 *
 * Suspend: the kthread is not freezable, as timers are not. While tasks are frozen it
 * goes on, and so do softirqs, until the clocks stop. A callback that must not run
 * then queues a work item on a freezable workqueue. Time stands still from then on
 * for CLOCK_MONOTONIC; CLOCK_BOOTTIME has jumped at resume, when the kernel looks at
 * all hrtimers anew, so the worker wakes at once and settles what is due: the wheel
 * is a late worker's that catches up.
 */
#define pr_fmt(fmt) "hwtimer: " fmt

#include <linux/cache.h>
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/memcontrol.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "debug/trace.h"
#include "hwtimer_driver.h"
#include "hwtimer_period.h"
#include "hwtimer_work.h"

/* How many functions of callbacks that take too long are warned about. */
#define LONG_FNS	32

static unsigned int callback_limit_us = 10000;
module_param(callback_limit_us, uint, 0644);
MODULE_PARM_DESC(callback_limit_us,
		 "a callback that takes longer is warned about, once per function, counted and named in debugfs; 0: none is (default 10000)");

/* The callbacks of all periodic timeouts, and of all work items. */
static hwtimer_fn_t periodic_fn __ro_after_init;
static hwtimer_fn_t work_fn __ro_after_init;

/**
 * hwtimer_worker_init - note the callbacks that many owners share
 * @periodic: that of all periodic timeouts, struct hwtimer_periodic
 * @work: that of all work items, struct hwtimer_work
 */
void __init hwtimer_worker_init(hwtimer_fn_t periodic, hwtimer_fn_t work)
{
	periodic_fn = periodic;
	work_fn = work;
}

/**
 * hwtimer_owner_fn - whose timeout is it?
 * @t: a timeout that is not going away
 * @fn: its callback
 *
 * Periodic timeouts and work items share a callback each; their owner is told by the function that
 * this calls in turn.
 *
 * Return: the owner's function.
 */
const void *hwtimer_owner_fn(struct hwtimer_timeout *t, hwtimer_fn_t fn)
{
	if (fn == periodic_fn)
		return container_of(t, struct hwtimer_periodic, timeout)->fn;
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
 * Warn once about each function. The workers of all wheels come here; a place in the
 * table is taken by cmpxchg and kept. Should a function's module go and another's
 * function come to the same address, that one is not warned about.
 */
static void warn_long(const struct hwtimer_driven *driven, const void *fn, u64 ns)
{
	static const void *warned[LONG_FNS];
	const void *other;
	unsigned int i;

	for (i = 0; i < LONG_FNS; i++) {
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
	/* Without " [module]", to be one word. */
	*strchrnul(name, ' ') = '\0';
}

/* The callback took longer than any before, or longer than it may. */
static noinline void note_duration(struct hwtimer_monitor *m, const void *fn, u64 ns)
{
	/* By name, and now: its module may be gone when somebody looks. */
	spin_lock_bh(&m->lock);
	if (ns > m->longest_ns) {
		m->longest_ns = ns;
		note_name(m->longest_fn, fn);
	}
	if (too_long(ns)) {
		m->long_callbacks++;
		note_name(m->long_fn, fn);
	}
	spin_unlock_bh(&m->lock);
}

/**
 * hwtimer_worker_call - run a callback, and measure it
 * @driven: the worker
 * @t: the timeout; gone when this returns
 * @fn: its callback
 * @deadline: the one that was reached
 *
 * For drivers, in their wheel_ops.expire.
 */
void hwtimer_worker_call(struct hwtimer_driven *driven, struct hwtimer_timeout *t,
			 hwtimer_fn_t fn, u64 deadline)
{
	struct hwtimer_monitor *m = &driven->monitor;
	const void *owner = hwtimer_owner_fn(t, fn);	/* while there is a timeout */
	u64 start, ns;
	unsigned int bin;

	/*
	 * To look at the clock is most of what an expiry costs, so of callbacks in a row
	 * each begins where the one before ended. Who preempts us just there counts as this
	 * callback's time, as who preempts it does, and not as lateness.
	 */
	start = driven->wheel.in_row ? m->ended_ns : ktime_get_ns();
	/* Bin 0: below 1 us; bin n: below 2^n us. */
	ns = driven->clock == HWTIMER_CLOCK_MONOTONIC ? start : hwtimer_clock_ns(driven);
	trace_hwtimer_expire_entry(t, &driven->wheel, owner, driven->start_ns + deadline, ns);
	ns -= driven->start_ns + deadline;
	bin = ns < NSEC_PER_USEC ? 0 : ilog2(div_u64(ns, NSEC_PER_USEC)) + 1;
	bin = min_t(unsigned int, bin, HWTIMER_LATE_BINS - 1);
	WRITE_ONCE(m->late[bin], m->late[bin] + 1);

	fn(t);
	trace_hwtimer_expire_exit(t, &driven->wheel);

	/* The time that the machine was suspended is not the callback's. */
	m->ended_ns = ktime_get_ns();
	ns = m->ended_ns - start;
	driven->wheel.in_row = likely(ns <= m->longest_ns && !too_long(ns));
	if (driven->wheel.in_row)
		return;
	note_duration(m, owner, ns);
	if (too_long(ns))
		warn_long(driven, owner, ns);
}

/**
 * hwtimer_worker_alloc - memory for another level
 * @driven: the worker
 * @size: in bytes
 * @gfp: GFP_KERNEL | __GFP_RETRY_MAYFAIL, or GFP_NOWAIT
 *
 * For drivers. In the name of who made the wheel, if that is who pays for it.
 *
 * Return: memory, to be freed by kvfree(); NULL if there is none.
 */
void *hwtimer_worker_alloc(struct hwtimer_driven *driven, size_t size, gfp_t gfp)
{
	struct mem_cgroup *old;
	void *memory;

	gfp |= __GFP_NOWARN;
	if (!driven->memcg)
		return kvmalloc(size, gfp);
	old = set_active_memcg(driven->memcg);
	memory = kvmalloc(size, gfp | __GFP_ACCOUNT);
	set_active_memcg(old);
	return memory;
}

/**
 * hwtimer_worker_sleeps - note that the worker is about to sleep
 * @driven: the worker
 * @until: as wheel_prepare_sleep() said
 *
 * For drivers.
 */
void hwtimer_worker_sleeps(struct hwtimer_driven *driven, u64 until)
{
	trace_hwtimer_worker_sleep(&driven->wheel, until == WHEEL_IDLE ? U64_MAX :
				   until + driven->start_ns);
}

/**
 * hwtimer_worker_woke - note that the worker has slept, and runs again
 * @driven: the worker
 *
 * For drivers, before they call wheel_advance() again.
 */
void hwtimer_worker_woke(struct hwtimer_driven *driven)
{
	struct hwtimer_monitor *m = &driven->monitor;

	wheel_awake(&driven->wheel);
	trace_hwtimer_worker_wake(&driven->wheel);
	WRITE_ONCE(m->wakeups, m->wakeups + 1);
}
