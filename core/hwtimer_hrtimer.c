// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the hrtimer driver: each wheel has an hrtimer. Callbacks run in softirq, on PREEMPT_RT
 * in a softirq thread.
 *
 * The worker runs in slices. A slice is one call of the timer's function: it advances the wheel,
 * and starts the timer for the time of the next slice. Slices of a wheel do not overlap, whatever
 * CPU they run on: while a timer's function runs, the kernel neither moves the timer to another
 * CPU nor calls the function again.
 *
 * A slice ends with the first wheel_advance() that begins SLICE_NS or more after the slice. The
 * longest step of wheel_advance() adds a level: it clears a bitmap, and the kernel may clear all
 * the memory that it allocates. One softirq runs at most one slice,
 * because the timer is always started for a time that the softirq's clock has not reached. If a
 * slice leaves work undone, the next one comes after a pause as long as the slice was (within
 * bounds), in which other softirqs and tasks run. The same pause follows if a producer is between
 * setting QUEUED and its push. (A kthread tries again at once. But this softirq may have
 * interrupted that producer, and would wait for it in vain.)
 *
 *
 * Kicks come in any context and on any CPU, even while a slice runs. A slice that starts the timer
 * for later must not undo a kick:
 *
 *	kick                                 slice
 *	  (request made)                       kicked = 0              F1
 *	  kicked = 1                  K1       wheel_advance()
 *	  start the timer for now     K2       wheel_prepare_sleep()
 *	                                       start the timer for t   F2
 *	                                       kicked? start for now   F3
 *
 * K2 and F2 both hold the lock of the timer's base. It is the same base, because the timer is not
 * moved while its function runs. So there are three cases:
 *
 *  - K2 after F2: the timer is started for now.
 *  - K2 before F2, K1 after F1: F3 sees K1, because of the lock, and starts the timer for now.
 *  - K2 before F2, K1 before F1: F1, an exchange, reads the store of K1 or a later one, so this
 *    slice sees the request and F2 may undo K2.
 *
 * A slice that does not start the timer (nothing is pending) undoes no kick: the kernel dequeued
 * the timer before it called the function, so if the timer is queued, K2 has queued it. For the
 * same reason the function starts the timer itself and never returns HRTIMER_RESTART, for which it
 * would have to set the expiry of a timer that may be queued.
 *
 *
 * End: kicks come from sections with preemption disabled or under the wheel's worker_lock, which
 * the stop holds. So a grace period after @ended is set no kick starts the timer any more, and
 * hrtimer_cancel() ends it for good.
 */
#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "hwtimer_compat.h"
#include "hwtimer_driver.h"
#include "hwtimer_step.h"

/*
 * A slice calls wheel_advance() at most SLICE_BATCHES times, each time with a budget of
 * BATCH_BUDGET, and at most once after SLICE_NS. From arm to expiry a timeout costs about four
 * units of the budget.
 */
#define SLICE_NS	(100 * NSEC_PER_USEC)
#define SLICE_BATCHES	8
#define BATCH_BUDGET	32
/* Bounds of the pause after a slice that left work undone. */
#define MIN_PAUSE_NS	(20 * NSEC_PER_USEC)
#define MAX_PAUSE_NS	(1 * NSEC_PER_MSEC)

static void start_at(struct hwtimer_driven *driven, u64 ns)
{
	hrtimer_start(&driven->timer, hwtimer_driven_ktime(driven, ns),
		      HRTIMER_MODE_ABS_SOFT);
}

/*
 * Start the timer for a moment that is still to come, not for 0. A softirq that is running the
 * timers of this CPU runs all that are due at the time it read at its beginning. So it would call
 * slice() again and again as long as kicks come.
 */
static void start_now(struct hwtimer_driven *driven)
{
	start_at(driven, hwtimer_driven_now(driven) + 1);
}

static void slices_kick(struct hwtimer_wheel *wheel)
{
	struct hwtimer_driven *driven = to_driven(wheel);

	if (READ_ONCE(driven->ended))
		return;
	hwtimer_step();
	/* Pairs with the exchange in slice(). */
	smp_store_release(&driven->kicked, 1);
	hwtimer_step();
	start_now(driven);
}

static void slices_call(struct hwtimer_wheel *wheel, struct hwtimer_timeout *t,
			hwtimer_fn_t fn, u64 deadline)
{
	hwtimer_worker_call(to_driven(wheel), t, fn, deadline);
}

/*
 * Never waits, as it runs in softirq. vmalloc() is not possible there, so a level needs contiguous
 * pages. If it fails, the wheel tries again when the next far timeout comes.
 */
static void *slices_alloc(struct hwtimer_wheel *wheel, size_t size, bool wait)
{
	return hwtimer_worker_alloc(to_driven(wheel), size, GFP_NOWAIT);
}

/* Advance the wheel. Returns the time of the next slice, or WHEEL_IDLE. */
static u64 run_slice(struct hwtimer_driven *driven)
{
	struct hwtimer_wheel *wheel = &driven->wheel;
	u64 began = hwtimer_driven_now(driven), until = 0, now;
	unsigned int batches = 0;
	bool more;

	if (driven->asleep)
		hwtimer_worker_woke(driven);
	driven->asleep = false;

	do {
		now = hwtimer_driven_now(driven);
		more = wheel_advance(wheel, now, BATCH_BUDGET);
	} while (more && ++batches < SLICE_BATCHES && now - began < SLICE_NS);

	if (!more)
		until = wheel_prepare_sleep(wheel, now);
	if (until) {
		hwtimer_worker_sleeps(driven, until);
		driven->asleep = true;
		return until;
	}
	now = hwtimer_driven_now(driven);
	return now + clamp_t(u64, now - began, MIN_PAUSE_NS, MAX_PAUSE_NS);
}

static enum hrtimer_restart slice(struct hrtimer *timer)
{
	struct hwtimer_driven *driven = container_of(timer, struct hwtimer_driven, timer);
	u64 until;

	/* Before anything else: see "Kicks" above. Pairs with slices_kick(). */
	xchg(&driven->kicked, 0);
	hwtimer_step();
	if (READ_ONCE(driven->ended))
		return HRTIMER_NORESTART;

	WRITE_ONCE(driven->actor, current);
	until = run_slice(driven);
	WRITE_ONCE(driven->actor, NULL);

	hwtimer_step();
	if (until != WHEEL_IDLE) {
		start_at(driven, until);
		hwtimer_step();
		if (READ_ONCE(driven->kicked))
			start_now(driven);
	}
	return HRTIMER_NORESTART;
}

static bool slices_valid(const struct hwtimer_wheel_params *params)
{
	return !params->cpus && !params->nice && params->sched == HWTIMER_SCHED_NORMAL;
}

static int slices_create(struct hwtimer_driven *driven,
			 const struct hwtimer_wheel_params *params)
{
	/* So that the first slice calls hwtimer_worker_woke(). */
	driven->asleep = true;
	hrtimer_setup(&driven->timer, slice, hwtimer_clockid(driven), HRTIMER_MODE_ABS_SOFT);
	return 0;
}

static void slices_end(struct hwtimer_driven *driven)
{
	lockdep_assert_held(&driven->wheel.worker_lock);
	WRITE_ONCE(driven->ended, true);
	hwtimer_step();
	/* Wait for kicks that did not see @ended: they have started the timer when this returns. */
	synchronize_rcu();
	hrtimer_cancel(&driven->timer);
}

static void slices_destroy(struct hwtimer_driven *driven)
{
}

const struct hwtimer_driver_ops hwtimer_driver_hrtimer = {
	.ops		= {
		.kick	= slices_kick,
		.call	= slices_call,
		.alloc	= slices_alloc,
		.softirq = true,
	},
	.valid		= slices_valid,
	.create		= slices_create,
	.end		= slices_end,
	.destroy	= slices_destroy,
};
