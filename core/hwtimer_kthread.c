// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the worker of a wheel is a thread. Callbacks run in process context.
 *
 * The thread is not freezable: like timers, timeouts expire while tasks are frozen.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/sched/task.h>

#include "hwtimer_driver.h"
#include "hwtimer_step.h"

static void worker_kick(struct hwtimer_wheel *wheel)
{
	/* [wake_up_process: sleep-broken-kick] */
	wake_up_process(to_driven(wheel)->task);
}

static void worker_call(struct hwtimer_wheel *wheel, struct hwtimer_timeout *t,
			hwtimer_fn_t fn, u64 deadline)
{
	hwtimer_worker_call(to_driven(wheel), t, fn, deadline);
	/* Yield here, too, because one queue_advance() may run many callbacks. */
	if (cond_resched())
		wheel->pass.in_row = false;
}

/**
 * hwtimer_kthread_valid - check the parameters that are for the thread
 * @params: the parameters of a wheel
 *
 * Return: true if they are valid.
 */
bool hwtimer_kthread_valid(const struct hwtimer_wheel_params *params)
{
	if (params->sched < HWTIMER_SCHED_NORMAL || params->sched > HWTIMER_SCHED_FIFO)
		return false;
	if (params->sched != HWTIMER_SCHED_NORMAL)
		return !params->nice;
	return params->nice >= MIN_NICE && params->nice <= MAX_NICE;
}

static void set_sched(enum hwtimer_sched sched, int nice)
{
	switch (sched) {
	case HWTIMER_SCHED_NORMAL:
		sched_set_normal(current, nice);
		break;
	case HWTIMER_SCHED_FIFO_LOW:
		sched_set_fifo_low(current);
		break;
	case HWTIMER_SCHED_FIFO:
		sched_set_fifo(current);
		break;
	}
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
	ktime_t until;
	u64 now, ns;

	set_sched(driven->sched, driven->nice);
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
		hwtimer_worker_sleeps(driven, ns);
		if (ns == QUEUE_IDLE) {
			schedule();
		} else {
			until = hwtimer_driven_ktime(driven, ns);
			schedule_hrtimeout_range_clock(&until, 0, HRTIMER_MODE_ABS,
						       hwtimer_clockid(driven));
		}
		__set_current_state(TASK_RUNNING);
		hwtimer_worker_woke(driven);
	}
	return 0;
}

/**
 * hwtimer_kthread_create - create the thread of a wheel
 * @driven: the driven wheel
 * @params: its parameters
 *
 * It sleeps until the first kick. It sets hwtimer_driven.actor, and alone calls the wheel's
 * functions for the worker.
 *
 * Context: Process context, like the two functions below.
 *
 * Return: 0 or -errno.
 */
int hwtimer_kthread_create(struct hwtimer_driven *driven,
			   const struct hwtimer_wheel_params *params)
{
	struct worker_start start = { .driven = driven, .cpus = params->cpus };
	struct task_struct *task;

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
	if (start.ret) {
		kthread_stop(task);
		put_task_struct(task);
	}
	return start.ret;
}

/**
 * hwtimer_kthread_end - end the thread of a wheel that is shut down
 * @driven: the driven wheel
 *
 * When this returns, the thread does not run and never will again. Kicks may still come. Called
 * once.
 */
void hwtimer_kthread_end(struct hwtimer_driven *driven)
{
	kthread_stop(driven->task);
}

/**
 * hwtimer_kthread_destroy - give back the thread of a wheel, when no more kicks come
 * @driven: the driven wheel
 */
void hwtimer_kthread_destroy(struct hwtimer_driven *driven)
{
	put_task_struct(driven->task);
}

const struct queue_ops hwtimer_kthread_ops = {
	.kick	= worker_kick,
	.call	= worker_call,
};
