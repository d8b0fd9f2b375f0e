// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_bench: the interfaces that are compared, each used as its documentation suggests: with
 * deadlines relative to now, the documented functions, and defaults. Only these few lines differ
 * between subjects; the loops around them are the same.
 */
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "../../hwtimer_compat.h"
#include "bench.h"

/* A gap of more than this between two reads of the clock: another task had the CPU. */
#define GAP_NS		2000

#define TIMER_OPS	(BIT(BENCH_ARM) | BIT(BENCH_ARM_AT) | BIT(BENCH_CANCEL) | \
			 BIT(BENCH_ARM_CANCEL) | BIT(BENCH_REARM) | BIT(BENCH_TOUCH_LATER) | \
			 BIT(BENCH_TOUCH_EARLIER))

/* Number of expiries in this turn; each subject expires in a single context. */
unsigned long bench_fired;

static void fired(struct bench_conn *c)
{
	c->fired++;
	WRITE_ONCE(bench_fired, bench_fired + 1);
}

/* Number of operations between two points where other tasks may run. */
#define STRIDE		256

/* The next conn of the range, and its delay; @done operations have been done. */
static __always_inline struct bench_conn *next_conn(struct bench_range *r,
						    unsigned long done,
						    struct bench_when *when)
{
	unsigned long i = r->first + r->at;
	const struct bench_when *delay;

	if (done % STRIDE == STRIDE - 1)
		cond_resched();
	if (!r->in_order)
		i = *bench_order_at(i);
	delay = &bench_delay[i % BENCH_DELAYS];
	when->ns = delay->ns + r->shift.ns;
	when->jiffies = delay->jiffies + r->shift.jiffies;
	if (++r->at == r->size) {
		/*
		 * In the next pass deadlines are a jiffy later, so that a touch moves them later.
		 */
		r->at = 0;
		r->shift.jiffies++;
		r->shift.ns += TICK_NSEC;
	}
	return bench_conn(i);
}

typedef void (*arm_fn)(struct bench_conn *c, const struct bench_when *when);
typedef void (*cancel_fn)(struct bench_conn *c);

/* The functions are constants, and are inlined into the loops. */
static __always_inline void run_ops(enum bench_op op, struct bench_range *range, arm_fn arm,
				    arm_fn arm_at, arm_fn touch, cancel_fn cancel)
{
	struct bench_range r = *range;
	struct bench_when when;
	struct bench_conn *c;
	unsigned long i;

	switch (op) {
	case BENCH_ARM:
		for (i = 0; i < r.n; i++) {
			c = next_conn(&r, i, &when);
			arm(c, &when);
		}
		break;
	case BENCH_ARM_AT:
		for (i = 0; i < r.n; i++) {
			c = next_conn(&r, i, &when);
			arm_at(c, &r.deadline);
		}
		break;
	case BENCH_CANCEL:
		for (i = 0; i < r.n; i++) {
			c = next_conn(&r, i, &when);
			cancel(c);
		}
		break;
	case BENCH_ARM_CANCEL:
		for (i = 0; i < r.n; i++) {
			c = next_conn(&r, i, &when);
			arm(c, &when);
			cancel(c);
		}
		break;
	case BENCH_REARM:
		for (i = 0; i < r.n; i++) {
			c = next_conn(&r, i, &when);
			cancel(c);
			arm(c, &when);
		}
		break;
	case BENCH_TOUCH_LATER:
	case BENCH_TOUCH_EARLIER:
		for (i = 0; i < r.n; i++) {
			c = next_conn(&r, i, &when);
			touch(c, &when);
		}
		break;
	default:
		break;
	}
	*range = r;
}

/*
 * Sleep until shortly before @deadline, as expiries must not have begun. With an hrtimer: msleep()
 * may be late by an eighth.
 */
static void sleep_until(u64 deadline)
{
	u64 now = ktime_get_ns(), before = 50 * MSEC;
	unsigned long us;

	if (deadline > now + before) {
		us = div_u64(deadline - now - before, NSEC_PER_USEC);
		usleep_range(us, us + 100);
	}
}

static void spin_until(u64 ns)
{
	while (ktime_get_ns() < ns)
		cpu_relax();
}

/*
 * hwtimer. A tick is a jiffy, as with timer_list; two levels of 512 slots span 44 minutes at
 * HZ=100.
 */
struct hwtimer_wheel *bench_wheel;

static int wheel_begin(enum hwtimer_driver driver)
{
	const struct hwtimer_wheel_params params = {
		.name = "bench",
		.tick_ns = TICK_NSEC,
		.slots = 512,
		.levels = 2,
		.driver = driver,
		/* Softirqs, in which timer_list expires, precede tasks as well. */
		.sched = driver == HWTIMER_DRIVER_KTHREAD ? HWTIMER_SCHED_FIFO_LOW :
							    HWTIMER_SCHED_NORMAL,
	};

	bench_wheel = hwtimer_wheel_create(&params);
	return PTR_ERR_OR_ZERO(bench_wheel);
}

static int kthread_begin(void)
{
	return wheel_begin(HWTIMER_DRIVER_KTHREAD);
}

static int softirq_begin(void)
{
	return wheel_begin(HWTIMER_DRIVER_HRTIMER);
}

static void wheel_end(void)
{
	/* Pending timeouts are handed back: no need to cancel each. */
	hwtimer_wheel_stop(bench_wheel, NULL);
	hwtimer_wheel_destroy(bench_wheel);
	bench_wheel = NULL;
}

static void wheel_fired(struct hwtimer_timeout *t)
{
	fired(container_of(t, struct bench_conn, timer.hwtimer));
}

static void wheel_init_conn(struct bench_conn *c)
{
	hwtimer_init(&c->timer.hwtimer, bench_wheel, wheel_fired);
}

static void wheel_arm_after(struct bench_conn *c, const struct bench_when *when)
{
	hwtimer_schedule(&c->timer.hwtimer, when->ns);
}

static void wheel_arm_at(struct bench_conn *c, const struct bench_when *when)
{
	hwtimer_schedule_at(&c->timer.hwtimer, when->ns);
}

static void wheel_touch_after(struct bench_conn *c, const struct bench_when *when)
{
	hwtimer_touch(&c->timer.hwtimer, when->ns);
}

static void wheel_touch_at(struct bench_conn *c, const struct bench_when *when)
{
	hwtimer_touch_at(&c->timer.hwtimer, when->ns);
}

static void wheel_cancel_conn(struct bench_conn *c)
{
	hwtimer_cancel(&c->timer.hwtimer);
}

static void wheel_run(enum bench_op op, struct bench_range *r)
{
	run_ops(op, r, wheel_arm_after, wheel_arm_at, wheel_touch_after, wheel_cancel_conn);
}

/* A caller that reads the clock once for many timeouts, as an event loop does. */
static void wheel_run_at(enum bench_op op, struct bench_range *r)
{
	u64 now = hwtimer_wheel_now(bench_wheel);

	r->shift.ns += now;
	run_ops(op, r, wheel_arm_at, wheel_arm_at, wheel_touch_at, wheel_cancel_conn);
	r->shift.ns -= now;
}

/* With one CPU, the time that passes is the worker's and that of two context switches. */
static u64 kthread_settle(void)
{
	u64 start = ktime_get_ns();

	hwtimer_wheel_barrier(bench_wheel);
	return ktime_get_ns() - start;
}

static u64 kthread_expire(const struct bench_range *r, unsigned long n)
{
	bool early;
	u64 start;

	sleep_until(r->deadline.ns);
	preempt_disable();
	spin_until(r->deadline.ns + 2 * TICK_NSEC);
	early = READ_ONCE(bench_fired);
	start = ktime_get_ns();
	preempt_enable();
	if (early)
		return 0;
	hwtimer_wheel_barrier(bench_wheel);
	return ktime_get_ns() - start;
}

static bool at_rest(const struct hwtimer_driven *worker)
{
	int cpu;

	for_each_possible_cpu(cpu)
		if (!llist_empty(&per_cpu_ptr(worker->wheel.cpus, cpu)->requests))
			return false;
	return READ_ONCE(worker->asleep);
}

/*
 * The slices of the hrtimer driver interrupt this task, with pauses in between. Their time is what
 * is missing between consecutive reads of the clock, from @start on.
 */
static u64 missed_until_rest(const struct hwtimer_driven *worker, u64 start)
{
	u64 last = start, missed = 0, now;

	while (!at_rest(worker)) {
		now = ktime_get_ns();
		if (now - last > GAP_NS)
			missed += now - last;
		last = now;
	}
	return missed;
}

static u64 softirq_settle(void)
{
	struct hwtimer_driven *worker = to_driven(bench_wheel);
	u64 start = ktime_get_ns();

	preempt_disable();
	bench_wheel->ops->kick(bench_wheel);
	preempt_enable();
	return missed_until_rest(worker, start);
}

static u64 softirq_expire(const struct bench_range *r, unsigned long n)
{
	u64 start, missed = 0;

	sleep_until(r->deadline.ns);
	local_bh_disable();
	spin_until(r->deadline.ns + 2 * TICK_NSEC);
	if (!READ_ONCE(bench_fired)) {
		start = ktime_get_ns();
		local_bh_enable();
		missed = missed_until_rest(to_driven(bench_wheel), start);
		local_bh_disable();
	}
	local_bh_enable();
	return missed;
}

const struct bench_subject bench_hwtimer = {
	.name		= "hwtimer",
	.ops		= TIMER_OPS,
	.begin		= kthread_begin,
	.init		= wheel_init_conn,
	.run		= wheel_run,
	.arm		= wheel_arm_after,
	.touch		= wheel_touch_after,
	.cancel		= wheel_cancel_conn,
	.settle		= kthread_settle,
	.expire		= kthread_expire,
	.end		= wheel_end,
};

const struct bench_subject bench_hwtimer_at = {
	.name		= "hwtimer_at",
	.ops		= TIMER_OPS,
	.begin		= kthread_begin,
	.init		= wheel_init_conn,
	.run		= wheel_run_at,
	.arm		= wheel_arm_at,
	.touch		= wheel_touch_at,
	.cancel		= wheel_cancel_conn,
	.absolute	= true,
	.settle		= kthread_settle,
	.end		= wheel_end,
};

const struct bench_subject bench_hwtimer_softirq = {
	.name		= "hwtimer_softirq",
	.ops		= TIMER_OPS,
	.begin		= softirq_begin,
	.init		= wheel_init_conn,
	.run		= wheel_run,
	.settle		= softirq_settle,
	.expire		= softirq_expire,
	.end		= wheel_end,
};

/**
 * bench_worker_ns - CPU time of the wheel's thread
 *
 * Return: the time in ns, as the scheduler counts it.
 */
u64 bench_worker_ns(void)
{
	return READ_ONCE(to_driven(bench_wheel)->task->se.sum_exec_runtime);
}

/* timer_list */
static void list_fired(struct timer_list *t)
{
	fired(container_of(t, struct bench_conn, timer.list));
}

static void list_init_conn(struct bench_conn *c)
{
	timer_setup(&c->timer.list, list_fired, 0);
}

static void list_arm(struct bench_conn *c, const struct bench_when *when)
{
	mod_timer(&c->timer.list, jiffies + when->jiffies);
}

static void list_arm_at(struct bench_conn *c, const struct bench_when *when)
{
	mod_timer(&c->timer.list, when->jiffies);
}

static void list_cancel(struct bench_conn *c)
{
	timer_delete(&c->timer.list);
}

static void list_run(enum bench_op op, struct bench_range *r)
{
	run_ops(op, r, list_arm, list_arm_at, list_arm, list_cancel);
}

/* Keep softirqs disabled until all are due; then they expire inside local_bh_enable(). */
static u64 list_expire_to(const struct bench_range *r, unsigned long n,
			  struct workqueue_struct *wq)
{
	u64 start, ns = 0;

	sleep_until(r->deadline.ns);
	local_bh_disable();
	while (time_before_eq(jiffies, r->deadline.jiffies + r->late))
		cpu_relax();
	if (READ_ONCE(bench_fired)) {
		local_bh_enable();
		return 0;
	}
	start = ktime_get_ns();
	local_bh_enable();
	do {
		if (wq)
			flush_workqueue(wq);
		ns = ktime_get_ns() - start;
		cond_resched();
	} while (READ_ONCE(bench_fired) < n && ns < 60 * SEC);
	return ns;
}

static u64 list_expire(const struct bench_range *r, unsigned long n)
{
	return list_expire_to(r, n, NULL);
}

static void list_forget(struct bench_conn *c)
{
	timer_delete_sync(&c->timer.list);
}

const struct bench_subject bench_timer_list = {
	.name		= "timer_list",
	.ops		= TIMER_OPS,
	.init		= list_init_conn,
	.run		= list_run,
	.arm		= list_arm,
	.touch		= list_arm,
	.cancel		= list_cancel,
	.expire		= list_expire,
	.forget		= list_forget,
};

/*
 * timer_list with a separate deadline: pushing the deadline back is a store, and the timer
 * function checks it. TCP does so, and any user could.
 */
static void lazy_fired(struct timer_list *t)
{
	struct bench_conn *c = container_of(t, struct bench_conn, timer.list);
	unsigned long deadline = READ_ONCE(c->deadline);

	if (time_before(jiffies, deadline))
		mod_timer(t, deadline);
	else
		fired(c);
}

static void lazy_init_conn(struct bench_conn *c)
{
	timer_setup(&c->timer.list, lazy_fired, 0);
}

static void lazy_arm(struct bench_conn *c, const struct bench_when *when)
{
	WRITE_ONCE(c->deadline, jiffies + when->jiffies);
	mod_timer(&c->timer.list, c->deadline);
}

static void lazy_touch(struct bench_conn *c, const struct bench_when *when)
{
	if (timer_pending(&c->timer.list))
		WRITE_ONCE(c->deadline, jiffies + when->jiffies);
}

static void lazy_run(enum bench_op op, struct bench_range *r)
{
	run_ops(op, r, lazy_arm, list_arm_at, lazy_touch, list_cancel);
}

const struct bench_subject bench_timer_lazy = {
	.name		= "timer_list_lazy",
	.ops		= BIT(BENCH_TOUCH_LATER),
	.init		= lazy_init_conn,
	.run		= lazy_run,
	.forget		= list_forget,
};

/* hrtimer, which expires in hardirq context by default. */
static enum hrtimer_restart hr_fired(struct hrtimer *t)
{
	fired(container_of(t, struct bench_conn, timer.hrtimer));
	return HRTIMER_NORESTART;
}

static void hr_init_conn(struct bench_conn *c)
{
	hrtimer_setup(&c->timer.hrtimer, hr_fired, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}

static void hr_arm(struct bench_conn *c, const struct bench_when *when)
{
	hrtimer_start(&c->timer.hrtimer, ns_to_ktime(when->ns), HRTIMER_MODE_REL);
}

static void hr_arm_at(struct bench_conn *c, const struct bench_when *when)
{
	hrtimer_start(&c->timer.hrtimer, ns_to_ktime(when->ns), HRTIMER_MODE_ABS);
}

static void hr_cancel(struct bench_conn *c)
{
	hrtimer_cancel(&c->timer.hrtimer);
}

static void hr_run(enum bench_op op, struct bench_range *r)
{
	run_ops(op, r, hr_arm, hr_arm_at, hr_arm, hr_cancel);
}

static u64 hr_expire(const struct bench_range *r, unsigned long n)
{
	u64 start, ns = 0;

	sleep_until(r->deadline.ns);
	local_irq_disable();
	spin_until(r->deadline.ns + TICK_NSEC);
	if (READ_ONCE(bench_fired)) {
		local_irq_enable();
		return 0;
	}
	start = ktime_get_ns();
	local_irq_enable();
	while (READ_ONCE(bench_fired) < n && ns < 60 * SEC)
		ns = ktime_get_ns() - start;
	return ktime_get_ns() - start;
}

const struct bench_subject bench_hrtimer = {
	.name		= "hrtimer",
	.ops		= TIMER_OPS,
	.init		= hr_init_conn,
	.run		= hr_run,
	.arm		= hr_arm,
	.touch		= hr_arm,
	.cancel		= hr_cancel,
	.expire		= hr_expire,
	.forget		= hr_cancel,
};

/* delayed_work, on the user's own workqueue */
static struct workqueue_struct *workqueue;

static int dwork_begin(void)
{
	workqueue = alloc_workqueue("hwtimer_bench", WQ_PERCPU, 0);
	return workqueue ? 0 : -ENOMEM;
}

static void dwork_end(void)
{
	destroy_workqueue(workqueue);
}

static void dwork_fired(struct work_struct *work)
{
	fired(container_of(work, struct bench_conn, timer.dwork.work));
}

static void dwork_init_conn(struct bench_conn *c)
{
	INIT_DELAYED_WORK(&c->timer.dwork, dwork_fired);
}

static void dwork_arm(struct bench_conn *c, const struct bench_when *when)
{
	queue_delayed_work(workqueue, &c->timer.dwork, when->jiffies);
}

static void dwork_arm_at(struct bench_conn *c, const struct bench_when *when)
{
	unsigned long now = jiffies;

	queue_delayed_work(workqueue, &c->timer.dwork,
			   time_after(when->jiffies, now) ? when->jiffies - now : 0);
}

static void dwork_touch(struct bench_conn *c, const struct bench_when *when)
{
	mod_delayed_work(workqueue, &c->timer.dwork, when->jiffies);
}

static void dwork_cancel(struct bench_conn *c)
{
	cancel_delayed_work(&c->timer.dwork);
}

static void dwork_run(enum bench_op op, struct bench_range *r)
{
	run_ops(op, r, dwork_arm, dwork_arm_at, dwork_touch, dwork_cancel);
}

static u64 dwork_expire(const struct bench_range *r, unsigned long n)
{
	return list_expire_to(r, n, workqueue);
}

static void dwork_forget(struct bench_conn *c)
{
	cancel_delayed_work_sync(&c->timer.dwork);
}

const struct bench_subject bench_delayed_work = {
	.name		= "delayed_work",
	.ops		= TIMER_OPS,
	.begin		= dwork_begin,
	.init		= dwork_init_conn,
	.run		= dwork_run,
	.arm		= dwork_arm,
	.touch		= dwork_touch,
	.cancel		= dwork_cancel,
	.expire		= dwork_expire,
	.forget		= dwork_forget,
	.end		= dwork_end,
};

/* Only the accesses to the memory, in the same order. */
static void memory_run(enum bench_op op, struct bench_range *range)
{
	struct bench_range r = *range;
	unsigned long i, sum = 0;
	struct bench_when when;

	if (op == BENCH_READ)
		for (i = 0; i < r.n; i++)
			sum += READ_ONCE(next_conn(&r, i, &when)->timer.next);
	else
		for (i = 0; i < r.n; i++)
			r.at += READ_ONCE(next_conn(&r, i, &when)->timer.next);
	OPTIMIZER_HIDE_VAR(sum);
	*range = r;
}

const struct bench_subject bench_memory = {
	.name		= "memory",
	.ops		= BIT(BENCH_READ) | BIT(BENCH_READ_SERIAL),
	.run		= memory_run,
};
