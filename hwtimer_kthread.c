// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: wheels moved by a kthread each. Callbacks run in process context.
 *
 * The thread is not freezable, so that timeouts go on while tasks are frozen, as
 * timers do.
 */
#include <linux/cgroup.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/prio.h>
#include <linux/sched/task.h>
#include <linux/workqueue.h>

#include "hwtimer_driver.h"
#include "hwtimer_step.h"

static void worker_kick(struct hwtimer_wheel *wheel)
{
	wake_up_process(to_driven(wheel)->task);
}

static void worker_expire(struct hwtimer_wheel *wheel, struct hwtimer_timeout *t,
			  hwtimer_fn_t fn, u64 deadline)
{
	hwtimer_worker_call(to_driven(wheel), t, fn, deadline);
	/* One wheel_advance() may run many callbacks. */
	if (cond_resched())
		wheel->in_row = false;
}

/*
 * For a wheel that grows. No I/O, whose own timeout may be on this wheel. And no OOM
 * killer in the cgroup that is charged: the wheel can do without another level.
 */
static void *worker_alloc(struct hwtimer_wheel *wheel, size_t size)
{
	unsigned int noio = memalloc_noio_save();
	void *memory = hwtimer_worker_alloc(to_driven(wheel), size,
					    GFP_KERNEL | __GFP_RETRY_MAYFAIL);

	memalloc_noio_restore(noio);
	return memory;
}

static bool worker_valid(const struct hwtimer_wheel_params *params)
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
 * struct worker_start - how a worker begins
 * @driven: what it works for
 * @cpus: where it may run; NULL: anywhere
 * @ret: the worker's answer
 * @done: it has answered
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
	/* Not in the creator: later kernels set a kthread's affinity anew when it first runs. */
	start->ret = start->cpus ? set_cpus_allowed_ptr(current, start->cpus) : 0;
	complete(&start->done);	/* and it is gone */

	while (!kthread_should_stop()) {
		now = hwtimer_driven_now(driven);
		if (wheel_advance(wheel, now, WHEEL_BUDGET)) {
			cond_resched();
			continue;
		}

		/* Idle: not in the load average, nor a hung task. */
		set_current_state(TASK_IDLE);
		ns = wheel_prepare_sleep(wheel, now);
		hwtimer_step();
		if (!ns || kthread_should_stop()) {
			__set_current_state(TASK_RUNNING);
			cond_resched();
			continue;
		}
		hwtimer_worker_sleeps(driven, ns);
		if (ns == WHEEL_IDLE) {
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

/* Ordered: one join at a time. Our own: users of a shared workqueue would wait for it, too. */
static struct workqueue_struct *join_wq;

/**
 * hwtimer_kthread_init - make the workqueue on which workers join cgroups
 *
 * Return: 0 or -ENOMEM.
 */
int __init hwtimer_kthread_init(void)
{
	join_wq = alloc_ordered_workqueue("hwtimer_join", 0);
	return join_wq ? 0 : -ENOMEM;
}

/**
 * hwtimer_kthread_exit - destroy that workqueue; no wheel is left
 */
void hwtimer_kthread_exit(void)
{
	destroy_workqueue(join_wq);
}

/**
 * struct worker_join - how a worker joins the cgroups of another task
 * @work: does it on join_wq
 * @from: the other task; NULL: the kworker that runs @work, which is in the root cgroups
 * @task: the worker
 * @ret: what cgroup_attach_task_all() returned
 * @done: @ret is valid
 */
struct worker_join {
	struct work_struct	work;
	struct task_struct	*from;
	struct task_struct	*task;
	int			ret;
	struct completion	done;
};

static void join_fn(struct work_struct *work)
{
	struct worker_join *join = container_of(work, struct worker_join, work);

	join->ret = cgroup_attach_task_all(join->from ?: current, join->task);
	complete(&join->done);
}

/*
 * Move @task to the cgroups of @from; NULL: to the root cgroups. All forks wait for the locks that
 * this takes, so a workqueue does it: the caller and @task can be throttled, a kworker cannot.
 */
static int join_cgroups(struct task_struct *from, struct task_struct *task)
{
	struct worker_join join = { .from = from, .task = task };

	init_completion(&join.done);
	INIT_WORK_ONSTACK(&join.work, join_fn);
	queue_work(join_wq, &join.work);
	wait_for_completion(&join.done);
	destroy_work_on_stack(&join.work);
	return join.ret;
}

/* Make the kthread, in the cgroups that are to be charged. It sleeps until the first arm. */
static int worker_create(struct hwtimer_driven *driven,
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
	/* A reference: the thread exits before the wheel is STOPPED, and kicks come until then. */
	driven->task = get_task_struct(task);
	driven->actor = task;
	wake_up_process(task);
	wait_for_completion(&start.done);
	if (!start.ret && params->flags & HWTIMER_WHEEL_ACCOUNT)
		start.ret = join_cgroups(current, task);
	if (start.ret) {
		kthread_stop(task);
		put_task_struct(task);
	}
	return start.ret;
}

static void worker_end(struct hwtimer_driven *driven)
{
	/*
	 * Leave the cgroups first: the stop, or close(2), must not wait for a throttled thread.
	 * If that failed, they would have to wait; but the root cgroups refuse no one.
	 */
	if (driven->account)
		join_cgroups(NULL, driven->task);
	kthread_stop(driven->task);
}

static void worker_destroy(struct hwtimer_driven *driven)
{
	put_task_struct(driven->task);
}

const struct hwtimer_driver_ops hwtimer_driver_kthread = {
	.name		= "kthread",
	.ops		= {
		.kick	= worker_kick,
		.expire	= worker_expire,
		.alloc	= worker_alloc,
	},
	.valid		= worker_valid,
	.create		= worker_create,
	.end		= worker_end,
	.destroy	= worker_destroy,
};
