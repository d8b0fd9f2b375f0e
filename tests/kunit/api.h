/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the files of KUnit suite hwtimer_api share, and the cases outside of api.c.
 */
#ifndef API_H
#define API_H

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/sched.h>

#include "../../core/hwtimer_driver.h"
#include "kunit_wheels.h"

#define MS	NSEC_PER_MSEC
#define SEC	NSEC_PER_SEC
#define TICK	(10 * MS)
#define SLOTS	64
/* How late the machine may be, in addition to the tick. */
#define SLACK	MS

/* A timeout that records its expiries. */
struct job {
	struct hwtimer_timeout	t;
	struct kunit		*test;
	unsigned int		fired;
	unsigned int		released;
	/* its last expiry */
	u64			at;
	/* the task that called the release function */
	struct task_struct	*by;
	/* called by the callback; it uses the fields below */
	void			(*then)(struct job *j);
	struct job		*other;
	s64			delay;
	int			ret;
	bool			over;
};

/* Another thread beside the case's own. */
struct helper {
	struct task_struct	*task;
	struct completion	done;
	void			(*run)(struct helper *h);
	struct hwtimer_wheel	*wheel;
	struct job		*jobs;
	unsigned int		n;
	struct list_head	list;
	u32			seed;
	int			ret;
};

struct hwtimer_wheel *make(struct kunit *test, u64 tick_ns, unsigned int slots,
			   unsigned long cap);
struct job *jobs(struct kunit *test, struct hwtimer_wheel *wheel, unsigned int n);
void job_fired(struct hwtimer_timeout *t);
void then_nap(struct job *j);
void then_nap_rearm(struct job *j);
void expect_on_time(struct job *j, unsigned int n, u64 deadline);
void help(struct kunit *test, struct helper *h, void (*run)(struct helper *h));

static inline struct hwtimer_wheel *a_wheel(struct kunit *test)
{
	return make(test, TICK, SLOTS, 0);
}

static inline void job_released(struct hwtimer_timeout *t)
{
	container_of(t, struct job, t)->released++;
}

static inline struct queue_counts counts(struct hwtimer_wheel *wheel)
{
	struct queue_counts c;

	queue_count(wheel, &c);
	return c;
}

static inline unsigned long wakeups(struct hwtimer_wheel *wheel)
{
	return to_driven(wheel)->monitor.wakeups;
}

static inline bool helped(struct helper *h)
{
	return wait_for_completion_timeout(&h->done, 20 * HZ);
}

typedef void api_case(struct kunit *test);

/* api_arm.c */
api_case lazy_worker, start, on_time, forever, far_rounds_wakeups, contexts, unless_due, jump;
/* api_cancel.c */
api_case cancel_sync, cancel_sync_waits, cancel_sync_in_row, holds_rearming, cancel_sync_self,
	cancel_sync_self_rearmed, cancel_sync_other, shutdown_sync, rearming_twice, rearming_past,
	waits_for_one, waits_while_released, waits_while_armed, waits_release_self,
	cancel_sync_released, init_self, no_kick_in_callback;
/* api_release.c */
api_case release, release_running, release_self, waits_for_released, waits_for_callback,
	barrier_from_callback, barriers, barrier_in_stream;
/* api_stop.c */
api_case stop, stop_asleep, stop_from_callback, stop_other_from_callback, stop_twice,
	stop_releases;
/* api_worker.c */
api_case scheduling, slow_callback, callbacks_in_row, shows_counters;

#endif /* API_H */
