// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: a KUnit case that ends a work item between any two steps of its dispatch and runs.
 */
#include <linux/completion.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "../../hwtimer_compat.h"
#include "../../hwtimer_step.h"
#include "work_rig.h"

/*
 * Ends an item at a given step of its dispatch or of its runs, as another CPU may do at any time.
 */
struct ender {
	struct work_struct	work;
	struct completion	done;
	struct item		*i;
	/* if not NULL, queued behind @i on the same workqueue */
	struct item		*behind;
	/* returns whether a pending expiry or due run was ended */
	bool			(*end)(struct item *i);
	/* acts at step @n of the dispatch, or else of the runs */
	bool			dispatch;
	unsigned int		n;
	unsigned int		step;
	/* state of @behind at that step; result of @end */
	unsigned int		behind_ended;
	bool			ended;
};

static struct ender *ender;

static bool end_by_cancel(struct item *i)
{
	return hwtimer_work_cancel(&i->w);
}

static bool end_by_cancel_sync(struct item *i)
{
	bool ended = hwtimer_work_cancel_sync(&i->w) == 1;

	KUNIT_EXPECT_EQ(i->test, i->runs, i->ended);
	return ended;
}

static bool end_by_release(struct item *i)
{
	return hwtimer_work_release(&i->w, item_released);
}

static void ender_run(struct work_struct *work)
{
	struct ender *e = container_of(work, struct ender, work);

	e->ended = e->end(e->i);
	/* Ending an item does not wait for items queued behind it. */
	if (e->behind)
		KUNIT_EXPECT_EQ(e->i->test, e->behind_ended, e->behind->ended);
	complete(&e->done);
}

static void ender_step(void)
{
	struct hwtimer_timeout *t = &ender->i->w.timeout;

	if (!in_task())
		return;
	if (ender->dispatch ? current != to_driven(t->wheel)->task || t->wheel->running != t :
			      current_work() != &ender->i->w.work)
		return;
	if (++ender->step != ender->n)
		return;
	if (ender->behind)
		ender->behind_ended = ender->behind->ended;
	queue_work(system_dfl_wq, &ender->work);
	/* Let @end proceed as far as it can. */
	nap(MS);
}

/*
 * End an item with @before runs due or active at step @n. Returns false if there are fewer steps.
 */
static bool end_at(struct kunit *test, struct hwtimer_wheel *wheel, struct ender *e,
		   enum hwtimer_work_policy policy, unsigned int before)
{
	struct hwtimer_lanes *w = wheel_lanes(wheel);
	unsigned long armed = before + e->dispatch, had, replaced = w->replaced;
	struct wheel_counts c;
	struct item *i;

	i = items(test, wheel, e->behind ? single(test) : NULL, policy, 1);
	e->i = i;
	e->step = 0;
	e->ended = false;
	reinit_completion(&e->done);
	i->nap = 8 * TICK;
	expire(i, before);
	if (e->behind) {
		e->behind->ended = 0;
		e->behind->runs = 0;
		expire(e->behind, 1);
	}
	ender = e;
	WRITE_ONCE(hwtimer_step_hook, ender_step);
	if (e->dispatch)
		hwtimer_work_schedule(&i->w, 0);
	nap(500 * MS);
	WRITE_ONCE(hwtimer_step_hook, NULL);

	KUNIT_EXPECT_EQ(test, e->step >= e->n, completion_done(&e->done));
	if (e->end == end_by_release)
		KUNIT_EXPECT_EQ(test, e->step >= e->n, i->released);
	/* Expiries that got no run, and were neither refused nor replaced, were ended. */
	had = i->runs + i->refused[0] + i->refused[1] + w->replaced - replaced;
	if (e->end != end_by_release)
		KUNIT_EXPECT_EQ(test, e->ended, had < armed);
	KUNIT_EXPECT_LE(test, had, armed);
	KUNIT_EXPECT_EQ(test, i->runs, i->ended);
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&w->queued));
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&w->active));
	wheel_count(wheel, &c);
	KUNIT_EXPECT_EQ(test, c.expired, w->dispatched + w->refused);
	KUNIT_EXPECT_EQ(test, w->dispatched, w->replaced + (unsigned long)
			(atomic_long_read(&w->runs) + atomic_long_read(&w->cancelled)));
	return e->step >= e->n;
}

/* Steps of a dispatch; of runs; of runs with another item queued behind. */
enum { DISPATCH, RUNS, RUNS_AND_BEHIND, KINDS };

void each_step(struct kunit *test)
{
	static bool (*const ends[])(struct item *i) = {
		end_by_cancel, end_by_cancel_sync, end_by_release,
	};
	struct hwtimer_wheel *wheel = work_wheel(test, HWTIMER_WHEEL_WORK, 0, 0, 4);
	struct item *behind = items(test, wheel, single(test), HWTIMER_WORK_SERIAL, 1);
	struct ender *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	unsigned int k, how, policy, before, kind;

	KUNIT_ASSERT_NOT_NULL(test, e);
	INIT_WORK(&e->work, ender_run);
	init_completion(&e->done);
	behind->nap = 10 * TICK;
	for (k = 0; k < ARRAY_SIZE(ends) * 3 * 3 * KINDS; k++) {
		kind = k % KINDS;
		before = k / KINDS % 3;
		policy = k / KINDS / 3 % 3;
		how = k / KINDS / 9;
		if (kind != DISPATCH && !before)
			continue;
		e->end = ends[how];
		e->dispatch = kind == DISPATCH;
		e->behind = kind == RUNS_AND_BEHIND ? behind : NULL;
		for (e->n = 1; end_at(test, wheel, e, policy, before); e->n++)
			;
		KUNIT_EXPECT_GT(test, e->n, 1);
	}
}
