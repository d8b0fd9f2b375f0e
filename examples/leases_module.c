// SPDX-License-Identifier: GPL-2.0-only
/*
 * leases_module: a node that holds a lease, and all that quickstart_module does not show of
 * hwtimer.h and hwtimer_work.h.
 *
 *	lease		is pushed back by a store; its callback looks at what was stored
 *	heartbeat	is periodic, and does not drift
 *	renewal		runs on a workqueue, so it may block
 *	question	has its timeout on the stack of the task that waits for the answer
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/module.h>

#include <hwtimer.h>
#include <hwtimer_work.h>

#define LEASE_NS	(100LL * NSEC_PER_MSEC)
#define RENEWAL_NS	(20LL * NSEC_PER_MSEC)
#define BEAT_NS		(5LL * NSEC_PER_MSEC)
#define ANSWER_NS	(10LL * NSEC_PER_MSEC)
#define HOUR_NS		(3600LL * NSEC_PER_SEC)

/* Of each. */
#define ENOUGH		3

/**
 * struct holder - who holds the lease
 * @lease: expires at @until, or earlier, and then looks at @until
 * @until: when the lease ends, on the clock of the wheel. Atomic, so that 32-bit machines never
 *	read half of it
 * @expired: completed when the lease has ended
 * @heartbeat: a periodic timeout
 * @beats: number of heartbeats
 * @missed: number of heartbeats that were missed
 * @beaten: completed after ENOUGH heartbeats
 * @renewal: renews the lease
 * @renewals: how often it has done so
 * @renewed: completed after ENOUGH renewals
 */
struct holder {
	struct hwtimer_timeout	lease;
	atomic64_t		until;
	struct completion	expired;

	struct hwtimer_timeout	heartbeat;
	unsigned int		beats;
	u64			missed;
	struct completion	beaten;

	struct hwtimer_work	renewal;
	unsigned int		renewals;
	struct completion	renewed;
};

static struct hwtimer_wheel *wheel;
static struct holder holder;

static void lease_expire(struct hwtimer_timeout *timeout)
{
	struct holder *h = container_of(timeout, struct holder, lease);

	/*
	 * If the lease was renewed, this arms the timeout again. On a wheel with a cap, -EAGAIN
	 * would need an answer, too.
	 */
	if (hwtimer_schedule_unless_due(timeout, atomic64_read(&h->until)) == -ETIME)
		complete(&h->expired);
}

static void holder_beat(struct hwtimer_timeout *timeout)
{
	static const struct hwtimer_period period = {
		.period_ns = BEAT_NS, .policy = HWTIMER_PERIOD_ONCE };
	struct holder *h = container_of(timeout, struct holder, heartbeat);
	struct hwtimer_decision decision;

	/* -ESHUTDOWN: this was the last one. */
	if (hwtimer_schedule_forward(timeout, hwtimer_wheel_now(wheel), &period, &decision))
		return;
	h->missed += decision.overruns;
	if (++h->beats == ENOUGH)
		complete(&h->beaten);
}

/* Runs on a workqueue. */
static void holder_renew(struct hwtimer_work *work)
{
	struct holder *h = container_of(work, struct holder, renewal);

	usleep_range(100, 200);	/* ask a server */
	atomic64_set(&h->until, hwtimer_wheel_now(wheel) + LEASE_NS);
	if (++h->renewals == ENOUGH)
		complete(&h->renewed);
	hwtimer_work_schedule(work, RENEWAL_NS);
}

/**
 * struct question - a question whose answer a task waits for
 * @deadline: when it is too late for an answer
 * @over: completed by the answer, or at @deadline
 *
 * In a real module, who answers finds the question in a list, under a lock, under which the task
 * removes it before it returns.
 */
struct question {
	struct hwtimer_timeout	deadline;
	struct completion	over;
};

static void question_late(struct hwtimer_timeout *timeout)
{
	complete(&container_of(timeout, struct question, deadline)->over);
}

/* Ask, and wait. Returns 0, -ETIMEDOUT if the deadline came first, or another error. */
static int holder_ask(bool answered)
{
	struct question q;
	int ret;

	init_completion(&q.over);
	hwtimer_init_on_stack(&q.deadline, wheel, question_late);
	ret = hwtimer_schedule(&q.deadline, HOUR_NS);
	if (!ret) {
		if (answered)
			complete(&q.over);
		else
			hwtimer_touch_at(&q.deadline, hwtimer_wheel_now(wheel) + ANSWER_NS);
		wait_for_completion(&q.over);
		/* After this the wheel does not hold the timeout, and its callback does not run. */
		ret = hwtimer_cancel_sync(&q.deadline);
		if (ret >= 0)
			ret = ret ? 0 : -ETIMEDOUT;
	}
	hwtimer_destroy_on_stack(&q.deadline);
	return ret;
}

static void lease_released(struct hwtimer_timeout *timeout)
{
	pr_info("the lease has been released\n");
}

/* In this order: what arms others first. */
static void holder_end(struct holder *h)
{
	struct list_head pending;

	/* The function runs no more, and arms nothing. */
	hwtimer_work_cancel_sync(&h->renewal);
	/* As hwtimer_cancel_sync(), and the callback cannot arm it again. */
	hwtimer_shutdown_sync(&h->heartbeat);
	/* For who must not sleep. This module is about to go, so it waits for the release. */
	hwtimer_release(&h->lease, lease_released);
	hwtimer_wheel_barrier(wheel);
	WARN_ON_ONCE(hwtimer_wheel_pending(wheel));
	hwtimer_wheel_stop(wheel, &pending);
	WARN_ON_ONCE(!list_empty(&pending));
	hwtimer_wheel_destroy(wheel);
}

/* Returns 0 if all has happened as it should. */
static int holder_run(struct holder *h)
{
	int ret;

	ret = holder_ask(true);
	if (ret)
		return ret;
	if (holder_ask(false) != -ETIMEDOUT)
		return -EPROTO;
	wait_for_completion(&h->beaten);
	wait_for_completion(&h->renewed);
	pr_info("%u heartbeats, %llu missed; %u renewals\n", ENOUGH, h->missed, ENOUGH);
	/* If the machine is very slow, the lease has ended in between. */
	if (hwtimer_is_pending(&h->lease))
		pr_info("the wheel looks at the lease %lld ns before it ends\n",
			(s64)(atomic64_read(&h->until) - hwtimer_deadline(&h->lease)));
	/* Without renewals it ends. */
	hwtimer_work_cancel_sync(&h->renewal);
	wait_for_completion(&h->expired);
	pr_info("the lease has expired\n");
	return 0;
}

static int __init leases_init(void)
{
	/* The hands of a clock: 64 ticks, 64 slots of 32 ticks, 32 slots of 1024 ticks. */
	static const struct hwtimer_wheel_params params = {
		.name = "leases",
		.tick_ns = NSEC_PER_MSEC,
		.bits = { 6, 6, 5 },
	};
	struct holder *h = &holder;
	u64 now;
	int ret;

	wheel = hwtimer_wheel_create(&params);
	if (IS_ERR(wheel))
		return PTR_ERR(wheel);
	init_completion(&h->expired);
	init_completion(&h->beaten);
	init_completion(&h->renewed);
	hwtimer_init(&h->lease, wheel, lease_expire);
	hwtimer_init(&h->heartbeat, wheel, holder_beat);
	hwtimer_work_init(&h->renewal, wheel, NULL, holder_renew);

	/* Optional: the first arm starts a wheel, too. */
	hwtimer_wheel_start(wheel);
	/* To arm several timeouts, read the clock once. */
	now = hwtimer_wheel_now(wheel);
	atomic64_set(&h->until, now + LEASE_NS);
	ret = hwtimer_schedule_at(&h->lease, now + LEASE_NS) ?:
	      hwtimer_schedule_at(&h->heartbeat, now) ?:
	      hwtimer_work_schedule(&h->renewal, RENEWAL_NS) ?:
	      holder_run(h);
	if (ret)
		holder_end(h);
	return ret;
}
module_init(leases_init);

static void __exit leases_exit(void)
{
	holder_end(&holder);
}
module_exit(leases_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A lease, an example of the use of hwtimer");
