/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the cases of work items share. work.c has the suite, and the cases that cancel
 * and release work items and stop wheels.
 */
#ifndef WORK_RIG_H
#define WORK_RIG_H

#include <kunit/test.h>
#include <linux/time64.h>
#include <linux/workqueue.h>

#include "../../hwtimer_driver.h"
#include "../../hwtimer_work.h"
#include "hwtimer_kunit.h"
#include "kunit_wheels.h"

#define MS	NSEC_PER_MSEC
#define SEC	NSEC_PER_SEC
#define MINUTE	(60ULL * SEC)
#define TICK	(10 * MS)
#define SLOTS	64
/* After so long, an item scheduled without delay has expired, and has begun to run if it can. */
#define SOON	(2 * TICK)

/* A work item that records its runs. */
struct item {
	struct hwtimer_work	w;
	struct kunit		*test;
	/* a run takes @nap, then calls @then */
	s64			nap;
	void			(*then)(struct item *i);
	void			(*on_refusal)(struct item *i);
	struct item		*other;
	int			ret;
	/*
	 * runs: those that began, those that ended, those that saw themselves cancelled when they
	 * ended
	 */
	unsigned int		runs;
	unsigned int		ended;
	unsigned int		cancelled;
	unsigned int		refused[2];
	unsigned int		released;
	/* start of the last run */
	u64			at;
	struct workqueue_struct	*on;
};

struct hwtimer_wheel *work_wheel(struct kunit *test, unsigned int flags, unsigned int slow_ms,
				 unsigned int slow_runs, unsigned long max_queued);
void item_run(struct hwtimer_work *w);
void item_released(struct hwtimer_work *w);
void prepare(struct item *i, struct hwtimer_wheel *wheel, struct workqueue_struct *wq,
	     enum hwtimer_work_policy policy);
struct item *items(struct kunit *test, struct hwtimer_wheel *wheel,
		   struct workqueue_struct *wq, enum hwtimer_work_policy policy,
		   unsigned int n);
void expire(struct item *i, unsigned int n);
struct item *block(struct kunit *test, struct hwtimer_wheel *wheel, s64 ns);
void again(struct item *i);
void once_more(struct item *i);
void expect_counts(struct kunit *test, struct hwtimer_wheel *wheel,
		   unsigned long dispatched, unsigned long runs, unsigned long replaced,
		   unsigned long cancelled, unsigned long refused);
void expect_nobody(struct item *i);

static inline struct hwtimer_wheel *a_wheel(struct kunit *test)
{
	return work_wheel(test, HWTIMER_WHEEL_WORK, 0, 0, 0);
}

static inline struct workqueue_struct *single(struct kunit *test)
{
	return ((struct bench *)test->priv)->single;
}

static inline struct hwtimer_lanes *wheel_lanes(struct hwtimer_wheel *wheel)
{
	return &to_driven(wheel)->lanes;
}

typedef void work_case(struct kunit *test);

/* work_dispatch.c */
work_case runs, blocks_nobody, init_params, wheel_params, serial, serial_queued, discard,
	discard_queued, refused_by_nobody, replace, replace_queued, refused_rearms, bound,
	bound_replace, lanes, lanes_own_figures, lanes_over_the_minute, slow_holds_up_slow,
	callers_workqueue;
/* work_steps.c */
work_case each_step;

#endif /* WORK_RIG_H */
