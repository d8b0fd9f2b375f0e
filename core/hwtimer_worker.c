// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the worker of a wheel, a thread, which calls callbacks and measures them.
 *
 * It sleeps on an absolute hrtimer on the wheel's clock, for as long as queue_prepare_sleep() says.
 *
 * CPU hotplug needs no code here. Producers push with preemption disabled, so a CPU that goes
 * offline has finished its pushes; its request queue and counts remain, and the worker visits
 * those of all possible CPUs. The kernel moves the worker's hrtimer to another CPU
 * (hrtimers_cpu_dying()), and starts it on another CPU if a dying CPU kicks after that. If all
 * CPUs that a kthread is bound to go offline, the scheduler lets it run on others
 * (select_fallback_rq()), and does not restore its CPU mask later.
 *
 * Suspend: the worker is not frozen with tasks, see enum hwtimer_clock. CLOCK_BOOTTIME has advanced
 * at resume, when the kernel reprograms all hrtimers, so the worker wakes at once and catches up
 * like any late worker.
 */
#define pr_fmt(fmt) "hwtimer: " fmt

#include <linux/bottom_half.h>
#include <linux/cache.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/sched/task.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "../debug/trace.h"
#include "../hwtimer_work.h"
#include "hwtimer_driver.h"
#include "hwtimer_step.h"

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

/* Run a callback, which may free @t, and measure it. */
static void worker_measure(struct hwtimer_driven *driven, struct hwtimer_timeout *t,
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

static void worker_kick(struct hwtimer_wheel *wheel)
{
	/* [wake_up_process: sleep-broken-kick] */
	wake_up_process(to_driven(wheel)->task);
}

static void worker_call(struct hwtimer_wheel *wheel, struct hwtimer_timeout *t,
			hwtimer_fn_t fn, u64 deadline)
{
	worker_measure(to_driven(wheel), t, fn, deadline);
	/* Yield here, too, because one queue_advance() may run many callbacks. */
	if (cond_resched())
		wheel->pass.in_row = false;
}

const struct queue_ops hwtimer_worker_ops = {
	.kick	= worker_kick,
	.call	= worker_call,
};

static bool worker_valid(const struct hwtimer_wheel_params *params)
{
	if (params->sched != HWTIMER_SCHED_NORMAL)
		return (unsigned int)params->sched <= HWTIMER_SCHED_FIFO && !params->nice;
	return params->nice >= MIN_NICE && params->nice <= MAX_NICE;
}

/**
 * struct worker_start - passed to a new thread by its creator
 * @driven: the thread's driven wheel
 * @cpus: the CPUs that the thread may run on; NULL: any
 * @ret: set by the thread: 0 or -errno
 * @done: completed by the thread when @ret is valid
 */
struct worker_start {
	struct hwtimer_driven	*driven;
	const struct cpumask	*cpus;
	int			ret;
	struct completion	done;
};

static int worker_fn(void *data)
{
	struct worker_start *start = data;
	struct hwtimer_driven *driven = start->driven;
	struct hwtimer_wheel *wheel = &driven->wheel;
	clockid_t clockid = CLOCK_MONOTONIC;
	ktime_t until;
	u64 now, ns;

	if (driven->clock == HWTIMER_CLOCK_BOOTTIME)
		clockid = CLOCK_BOOTTIME;
	if (driven->sched == HWTIMER_SCHED_FIFO)
		sched_set_fifo(current);
	else if (driven->sched == HWTIMER_SCHED_FIFO_LOW)
		sched_set_fifo_low(current);
	else
		sched_set_normal(current, driven->nice);
	/*
	 * The thread sets its own affinity, because since 6.14 a kthread that first runs overwrites
	 * what its creator has set.
	 */
	start->ret = start->cpus ? set_cpus_allowed_ptr(current, start->cpus) : 0;
	complete(&start->done);	/* the creator frees @start */

	while (!kthread_should_stop()) {
		now = hwtimer_driven_now(driven);
		if (queue_advance(wheel, now, QUEUE_BUDGET)) {
			cond_resched();
			continue;
		}

		/*
		 * TASK_IDLE: counts neither for the load average nor as a hung task.
		 * [set_current_state: sleep-broken-worker; before queue_prepare_sleep]
		 */
		set_current_state(TASK_IDLE);
		ns = queue_prepare_sleep(wheel, now);
		hwtimer_step();
		if (!ns || kthread_should_stop()) {
			__set_current_state(TASK_RUNNING);
			cond_resched();
			continue;
		}
		if (ns != QUEUE_IDLE)
			ns += driven->start_ns;
		trace_hwtimer_worker_sleep(wheel, ns);
		until = ns_to_ktime(ns);
		schedule_hrtimeout_range_clock(ns == QUEUE_IDLE ? NULL : &until, 0,
					       HRTIMER_MODE_ABS, clockid);
		__set_current_state(TASK_RUNNING);
		queue_awake(wheel);
		trace_hwtimer_worker_wake(wheel);
		WRITE_ONCE(driven->monitor.wakeups, driven->monitor.wakeups + 1);
	}
	return 0;
}

/**
 * hwtimer_worker_create - create the thread of a wheel
 * @driven: the driven wheel
 * @params: its parameters
 *
 * It sleeps until the first kick. It alone calls the wheel's functions for the worker.
 *
 * Context: Process context.
 *
 * Return: 0 or -errno.
 */
int hwtimer_worker_create(struct hwtimer_driven *driven,
			  const struct hwtimer_wheel_params *params)
{
	struct worker_start start = { .driven = driven, .cpus = params->cpus };
	struct task_struct *task;

	if (!worker_valid(params))
		return -EINVAL;
	driven->sched = params->sched;
	driven->nice = params->nice;
	init_completion(&start.done);
	task = kthread_create(worker_fn, &start, "hwtimer/%s", driven->name);
	if (IS_ERR(task))
		return PTR_ERR(task);
	/* Take a reference: kicks come until the wheel is STOPPED, and the thread exits before. */
	driven->task = get_task_struct(task);
	driven->actor = task;
	/* [wake_up_process: as only the new thread reads this] */
	wake_up_process(task);
	wait_for_completion(&start.done);
	if (start.ret)
		kthread_stop(task);
	return start.ret;
}
