// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the case of KUnit suite hwtimer_interleave about work items (hwtimer_work.c). The wheel
 * is driven by hand, and so is the workqueue: a work_struct that blocks occupies it, so that the
 * work_struct of the item stays queued until the case takes it off and runs it.
 */
#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../../hwtimer_driver.h"
#include "../../hwtimer_step.h"
#include "../../hwtimer_work.h"
#include "hwtimer_kunit.h"
#include "interleave.h"

struct work_scene;

struct work_rig {
	struct kunit		*test;
	/* driven by hand */
	struct hwtimer_driven	driven;
	struct workqueue_struct	*wq;
	struct work_struct	blocker;
	struct completion	over;
	struct hwtimer_work	w;
	u64			now;
	const struct work_play	*victim;
	/* the scene to set up within the function */
	const struct work_scene	*within;
	/* the function arms the item once more */
	bool			again;
	unsigned int		running;
	/* the current run has to see hwtimer_work_cancelled() */
	bool			to_stop;
	bool			released;
	/* the victim still uses the item, so its release function must not free it */
	bool			needed;
	bool			freed;
	unsigned int		reported;
	/* in all scenes */
	unsigned long		armed;
	unsigned long		runs;
	unsigned long		refused;
	/* armings and runs that the intruder ended */
	unsigned long		foreign;
	/* the thread of work_wait() has ended */
	struct completion	waited;
	/* the intruder comes in at step @n of @task */
	struct task_struct	*task;
	const struct work_play	*intruder;
	unsigned int		n;
	unsigned int		step;
	bool			inside;
	unsigned long		interleavings;
	unsigned long		at;
	const char		*wrong;
};

/* What happened to the item before. */
struct work_scene {
	struct work_play	before;
	bool			again;
	/* @before and the victim are run from within the function */
	bool			running;
};

static struct work_rig *work_stage;

static void work_wrong(struct work_rig *rig, const char *what)
{
	if (!rig->wrong)
		rig->wrong = what;
}

/* How many armings and runs were cancelled. */
static unsigned long work_ended(struct work_rig *rig)
{
	bool inside = rig->inside;
	struct wheel_counts c;

	/* Without an intruder. */
	rig->inside = true;
	wheel_count(&rig->driven.wheel, &c);
	rig->inside = inside;
	return c.cancelled + atomic_long_read(&rig->driven.lanes.cancelled);
}

static void work_crank(struct work_rig *rig)
{
	rig->now += 2 * TICK;
	/* One worker at a time: this may wake work_wait(), which advances the wheel, too. */
	preempt_disable();
	while (wheel_advance(&rig->driven.wheel, rig->now, WHEEL_BUDGET))
		;
	preempt_enable();
}

static void work_arm_at(struct work_rig *rig, u64 deadline)
{
	if (!rig->freed && !wheel_arm(&rig->w.timeout, deadline))
		rig->armed++;
}

static void work_arm(struct work_rig *rig)
{
	work_arm_at(rig, rig->now + LATER * TICK);
}

static void work_due(struct work_rig *rig)
{
	work_arm_at(rig, 0);
}

static void work_expire(struct work_rig *rig)
{
	work_due(rig);
	work_crank(rig);
}

static void work_by_hand(struct work_rig *rig)
{
	if (!rig->freed && cancel_work(&rig->w.work))
		rig->w.work.func(&rig->w.work);
}

/* hwtimer_work_cancel() has to return whether it ended anything. */
static void work_cancel(struct work_rig *rig)
{
	unsigned long before = work_ended(rig) - rig->foreign, ended;
	bool ret;

	if (rig->freed)
		return;
	rig->to_stop = true;
	ret = hwtimer_work_cancel(&rig->w);
	ended = work_ended(rig) - rig->foreign - before;
	if (ret != !!ended)
		work_wrong(rig, "cancel returns the wrong value");
	if (rig->inside)
		rig->foreign += ended;
}

static void work_bury(struct work_rig *rig)
{
	rig->freed = true;
	memset(&rig->w, 0x6b, sizeof(rig->w));
}

static void work_released(struct hwtimer_work *w)
{
	struct work_rig *rig = container_of(w, struct work_rig, w);

	if (rig->reported++ || rig->running || rig->freed || work_pending(&w->work))
		work_wrong(rig, "reports a release twice or too early");
	if (!rig->needed)
		work_bury(rig);
}

static void work_release(struct work_rig *rig)
{
	unsigned long before;

	if (rig->freed || rig->released)
		return;
	rig->released = true;
	rig->to_stop = true;
	before = work_ended(rig) - rig->foreign;
	hwtimer_work_release(&rig->w, work_released);
	if (rig->inside)
		rig->foreign = work_ended(rig) - before;
}

static int work_wait(void *data)
{
	unsigned long before, ended;
	struct work_rig *rig = data;
	int ret;

	before = work_ended(rig) - rig->foreign;
	rig->task = current;
	rig->to_stop = true;
	ret = hwtimer_work_cancel_sync(&rig->w);
	rig->task = NULL;
	ended = work_ended(rig) - rig->foreign - before;
	if (ret != !!ended)
		work_wrong(rig, "cancel_sync returns the wrong value");
	/* A run may be preempted before it decrements @busy; a destroy waits for that. */
	if (rig->running || work_pending(&rig->w.work))
		work_wrong(rig, "runs or is queued after cancel_sync");
	/* What the intruder armed may still be pending. */
	if (rig->intruder->acts[0] == work_arm && hwtimer_work_is_pending(&rig->w))
		goto out;
	if (wheel_holds(&rig->w.timeout) || hwtimer_work_is_pending(&rig->w))
		work_wrong(rig, "is held after cancel_sync");
	else if (hwtimer_work_cancel_sync(&rig->w))
		work_wrong(rig, "a second cancel_sync ends something");
	else
		work_bury(rig);
out:
	kthread_complete_and_exit(&rig->waited, 0);
}

/* Advance the wheel, but run nothing that is queued: cancel_sync() must not need that. */
static void work_watch(struct work_rig *rig)
{
	unsigned int rounds;

	for (rounds = 0; rounds < 10 && !completion_done(&rig->waited); rounds++) {
		nap(NSEC_PER_USEC);
		work_crank(rig);
	}
}

static void work_cancel_sync(struct work_rig *rig)
{
	reinit_completion(&rig->waited);
	if (IS_ERR(kthread_run(work_wait, rig, "hwtimer_kunit")))
		work_wrong(rig, "nobody waits");
	else
		work_watch(rig);
}

static void work_perform(struct work_rig *rig, const struct work_play *play)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(play->acts) && play->acts[i]; i++)
		play->acts[i](rig);
}

static void work_step_in(void)
{
	struct work_rig *rig = work_stage;

	if (rig->inside || in_serving_softirq() || rig->task != current || ++rig->step != rig->n)
		return;
	rig->inside = true;
	rig->at = _RET_IP_;
	work_perform(rig, rig->intruder);
	rig->inside = false;
}

static void work_act(struct work_rig *rig, const struct work_scene *s)
{
	work_perform(rig, &s->before);
	rig->again = s->again;
	if (rig->victim->acts[0] == work_crank)
		work_due(rig);
	work_stage = rig;
	/* work_wait() is another task and sets @task itself. */
	if (rig->victim->acts[0] != work_cancel_sync)
		rig->task = current;
	WRITE_ONCE(hwtimer_step_hook, work_step_in);
	work_perform(rig, rig->victim);
	if (rig->task == current)
		rig->task = NULL;
}

static void work_fn(struct hwtimer_work *w)
{
	struct work_rig *rig = container_of(w, struct work_rig, w);
	struct hwtimer_lanes *lanes = &rig->driven.lanes;
	const struct work_scene *within = rig->within;
	unsigned long dispatched;

	if (rig->freed || rig->running++)
		work_wrong(rig, "runs when it must not");
	rig->runs++;
	rig->to_stop = false;
	dispatched = lanes->dispatched;
	rig->within = NULL;
	if (within)
		work_act(rig, within);
	if (rig->again) {
		rig->again = false;
		work_due(rig);
	}
	if (w->policy == HWTIMER_WORK_REPLACE)
		rig->to_stop |= lanes->dispatched != dispatched;
	if (rig->to_stop && !hwtimer_work_cancelled(w))
		work_wrong(rig, "does not see that it is cancelled");
	rig->running--;
}

static void work_refused(struct hwtimer_work *w, enum hwtimer_refused reason)
{
	container_of(w, struct work_rig, w)->refused++;
}

static void work_hand_call(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
			   hwtimer_fn_t fn, u64 deadline)
{
	fn(t);
}

static void work_hand_kick(struct hwtimer_wheel *w)
{
}

static const struct wheel_ops work_ops = {
	.kick	= work_hand_kick,
	.call	= work_hand_call,
};

static const struct {
	enum hwtimer_work_policy	policy;
	unsigned long			max_queued;
} work_grounds[] = {
	{ HWTIMER_WORK_SERIAL, 0 }, { HWTIMER_WORK_SERIAL, 1 }, { HWTIMER_WORK_DISCARD, 2 },
	{ HWTIMER_WORK_REPLACE, 1 },
};

static const struct work_scene work_scenes[] = {
	{{ "idle" }},
	{{ "pending", { work_arm, work_crank }}},
	{{ "due", { work_expire }}},
	{{ "due, and arms itself", { work_expire }}, .again = true },
	{{ "due twice", { work_expire, work_expire }}},
	{{ "due and cancelled", { work_expire, work_cancel }}},
	{{ "runs" }, .running = true },
	{{ "runs, and arms itself" }, .again = true, .running = true },
	{{ "runs, and is due", { work_expire }}, .running = true },
	{{ "runs, and is pending", { work_arm, work_crank }}, .running = true },
};

const struct work_play work_victims[] = {
	{ "dispatch", { work_crank }},
	{ "run", { work_by_hand }},
	{ "cancel", { work_cancel }},
	{ "cancel_sync", { work_cancel_sync }},
	{ "release", { work_release }},
};

static const struct work_play work_intruders[] = {
	{ "nothing" },
	{ "armed", { work_arm }},
	{ "expires", { work_expire }},
	{ "expires twice", { work_expire, work_expire }},
	{ "runs", { work_by_hand }},
	{ "expires and runs", { work_expire, work_by_hand }},
	{ "runs and expires", { work_by_hand, work_expire }},
	{ "cancelled", { work_cancel }},
	{ "cancelled and expires", { work_cancel, work_expire }},
	{ "released", { work_release }},
	{ "released, and the worker runs", { work_release, work_crank }},
};

static bool work_does(const struct work_play *play, work_op_t op)
{
	return play->acts[0] == op || play->acts[1] == op;
}

/* May owners run @intruder during @victim, and is that possible here? */
static bool work_allowed(const struct work_scene *s, const struct work_play *victim,
			 const struct work_play *intruder)
{
	if (victim->acts[0] == work_by_hand)
		return work_does(&s->before, work_expire) && !s->running;
	if (victim->acts[0] == work_crank)
		return !work_does(intruder, work_expire) && !work_does(intruder, work_crank);
	if (victim->acts[0] == work_cancel_sync || victim->acts[0] == work_release)
		return !work_does(intruder, work_release);
	return true;
}

/* Let the worker and the workqueue run until the item is idle and released. */
static void work_drive(struct work_rig *rig)
{
	unsigned int rounds;

	for (rounds = 0; rounds < 10; rounds++) {
		work_crank(rig);
		work_by_hand(rig);
	}
	rig->needed = false;
	work_release(rig);
	for (rounds = 0; rounds < 3; rounds++) {
		work_crank(rig);
		work_by_hand(rig);
	}
}

static void work_books(struct work_rig *rig)
{
	struct hwtimer_lanes *lanes = &rig->driven.lanes;
	struct wheel_counts c;

	wheel_count(&rig->driven.wheel, &c);
	if (rig->reported != rig->released)
		work_wrong(rig, "a release was not reported once");
	if (rig->freed && memchr_inv(&rig->w, 0x6b, sizeof(rig->w)))
		work_wrong(rig, "freed memory was written");
	if (c.pending || c.armed != rig->armed || c.armed != c.expired + c.cancelled ||
	    c.expired != lanes->dispatched + lanes->refused || lanes->refused != rig->refused ||
	    atomic_long_read(&lanes->runs) != rig->runs ||
	    lanes->dispatched != rig->runs + lanes->replaced + atomic_long_read(&lanes->cancelled))
		work_wrong(rig, "an arming did not end once");
	if (rig->driven.wheel.filed || atomic_long_read(&lanes->active) ||
	    atomic_long_read(&lanes->queued))
		work_wrong(rig, "a timeout or a run is left");
}

/* False when the victim has no n-th step. */
static bool work_interleave(struct work_rig *rig, const struct work_scene *s,
			    enum hwtimer_work_policy policy, const struct work_play *victim)
{
	struct hwtimer_work_params params = { .policy = policy, .refused = work_refused };

	if (hwtimer_work_init(&rig->w, &rig->driven.wheel, work_fn, &params))
		work_wrong(rig, "cannot be initialised");
	rig->released = false;
	rig->freed = false;
	rig->reported = 0;
	rig->step = 0;
	rig->again = false;
	rig->victim = victim;
	rig->needed = victim->acts[0] == work_cancel;
	complete_all(&rig->waited);

	if (s->running) {
		rig->within = s;
		work_expire(rig);
		work_by_hand(rig);
	} else {
		work_act(rig, s);
	}
	work_watch(rig);
	unstage();
	if (!completion_done(&rig->waited)) {
		work_wrong(rig, "waits for ever");
		return false;
	}
	work_drive(rig);
	work_books(rig);
	if (!rig->step)
		work_wrong(rig, "no steps");
	return !rig->wrong && rig->step >= rig->n;
}

static void work_block(struct work_struct *blocker)
{
	wait_for_completion(&container_of(blocker, struct work_rig, blocker)->over);
}

static void work_each_scene(struct work_rig *rig, unsigned int ground,
			    const struct work_play *victim)
{
	unsigned int s, i;

	for (s = 0; s < ARRAY_SIZE(work_scenes); s++) {
		for (i = 0; i < ARRAY_SIZE(work_intruders); i++) {
			rig->intruder = &work_intruders[i];
			if (!work_allowed(&work_scenes[s], victim, rig->intruder))
				continue;
			for (rig->n = 1; work_interleave(rig, &work_scenes[s],
							 work_grounds[ground].policy, victim);
			     rig->n++)
				rig->interleavings++;
			if (!rig->wrong)
				continue;
			KUNIT_FAIL(rig->test, "%s; %s; ground %u; %s at step %u, %pS: %s",
				   victim->name, work_scenes[s].before.name, ground,
				   rig->intruder->name, rig->n, (void *)rig->at, rig->wrong);
			return;
		}
	}
}

void work_item(struct kunit *test)
{
	const struct wheel_shape shape = { .tick_ns = TICK, .slots = 64 };
	const struct work_play *victim = test->param_value;
	unsigned long interleavings = 0;
	struct work_rig *rig;
	unsigned int g;

	for (g = 0; g < ARRAY_SIZE(work_grounds); g++) {
		/* Not freed after a failure: a task may still be waiting. */
		rig = kzalloc(sizeof(*rig), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, rig);
		rig->test = test;
		rig->wq = alloc_workqueue("hwt_interleave", WQ_UNBOUND, 1);
		KUNIT_ASSERT_NOT_NULL(test, rig->wq);
		KUNIT_ASSERT_EQ(test, 0, wheel_init(&rig->driven.wheel, &shape, &work_ops,
						    GFP_KERNEL));
		rig->driven.lanes.fast = rig->wq;
		rig->driven.lanes.slow_ns = U64_MAX;
		rig->driven.lanes.max_queued = work_grounds[g].max_queued;
		init_completion(&rig->over);
		init_completion(&rig->waited);
		INIT_WORK(&rig->blocker, work_block);
		queue_work(rig->wq, &rig->blocker);
		work_each_scene(rig, g, victim);
		complete(&rig->over);
		if (rig->wrong)
			return;
		interleavings += rig->interleavings;
		destroy_workqueue(rig->wq);
		wheel_free(&rig->driven.wheel);
		kfree(rig);
	}
	kunit_info(test, "%lu interleavings\n", interleavings);
}
