// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: wheels moved by an hrtimer each. Callbacks run in softirq, on PREEMPT_RT
 * in a thread that stands for it.
 *
 * The timer's function is one slice of a worker's life: it moves the wheel on and
 * starts the timer for when it has to come back. Slices of a wheel do not overlap,
 * whatever CPU they run on: a timer whose function runs is not moved to another one,
 * and not run again before that returns.
 *
 * A slice is bounded by SLICE_NS and its last step. The longest step adds a level: it clears a
 * bitmap, and the kernel may clear all that it allocates. There is one slice per softirq,
 * because the timer is never started for a time that the softirq's own clock has reached.
 * When it has not finished, it comes back after as much time as it took (within bounds),
 * which is for others. The same when a producer is between QUEUED and its push, which in
 * the kthread is a matter of going round: here the producer may be the one that this
 * softirq came on top of, and would be waited for in vain.
 *
 *
 * Kicks come in any context and on any CPU, also while a slice runs. A slice that
 * starts the timer for later must not undo the start of a kick:
 *
 *	kick                                 slice
 *	  (request made)                       kicked = 0              F1
 *	  kicked = 1                  K1       wheel_advance()
 *	  start the timer for now     K2       wheel_prepare_sleep()
 *	                                       start the timer for t   F2
 *	                                       kicked? start for now   F3
 *
 * K2 and F2 both hold the lock of the timer's base, the same one, as the timer is
 * not moved while its function runs. So there are three ways:
 *
 *  - K2 after F2: the timer is started for now.
 *  - K2 before F2, K1 after F1: F3 sees K1, by the lock, and starts it for now.
 *  - K2 before F2, K1 before F1: F1, an exchange, sees K1 or what came after it,
 *    and so this slice sees the request. Nothing is left to be undone.
 *
 * A slice that does not start the timer (nothing is pending) undoes nothing: it was
 * taken from its queue before the function was called, and K2 has put it back. That
 * is also why the function never returns HRTIMER_RESTART after having set its
 * expiry: the timer may be on a queue already.
 *
 *
 * End: kicks come from sections that are not preemptible, or with the wheel's
 * worker_lock, which stop has. So once @ended is set and a grace period is over, no
 * kick starts the timer, and hrtimer_cancel() is the end of it.
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
 * A slice is so many batches at the most, and begins none after so long. The budget
 * is wheel_advance()'s: a timeout costs about four between arm and expiry.
 */
#define SLICE_NS	(100 * NSEC_PER_USEC)
#define SLICE_BATCHES	8
#define BATCH_BUDGET	32
/* How long others have between two slices of which the first had not finished. */
#define MIN_PAUSE_NS	(20 * NSEC_PER_USEC)
#define MAX_PAUSE_NS	(1 * NSEC_PER_MSEC)

static void start_at(struct hwtimer_driven *driven, u64 ns)
{
	hrtimer_start(&driven->timer, hwtimer_driven_ktime(driven, ns),
		      HRTIMER_MODE_ABS_SOFT);
}

/*
 * Not for 0: a softirq that is running the timers of this CPU would call the
 * function again and again as long as kicks come. It stops at the time at which
 * it began.
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

static void slices_expire(struct hwtimer_wheel *wheel, struct hwtimer_timeout *t,
			  hwtimer_fn_t fn, u64 deadline)
{
	hwtimer_worker_call(to_driven(wheel), t, fn, deadline);
}

/*
 * For a wheel that grows. In softirq, so of pages in a row; what fails now is tried
 * again with the next timeout that is too far.
 */
static void *slices_alloc(struct hwtimer_wheel *wheel, size_t size)
{
	return hwtimer_worker_alloc(to_driven(wheel), size, GFP_NOWAIT);
}

/* Move the wheel on. Returns when to come back, or WHEEL_IDLE. */
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

	/* First of all: see "Kicks" above. Pairs with slices_kick(). */
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
	/* The first kick finds a worker that sleeps. */
	driven->asleep = true;
	hrtimer_setup(&driven->timer, slice, hwtimer_clockid(driven), HRTIMER_MODE_ABS_SOFT);
	return 0;
}

static void slices_end(struct hwtimer_driven *driven)
{
	lockdep_assert_held(&driven->wheel.worker_lock);
	WRITE_ONCE(driven->ended, true);
	hwtimer_step();
	/* Kicks that did not see it have started the timer when this returns. */
	synchronize_rcu();
	hrtimer_cancel(&driven->timer);
}

static void slices_destroy(struct hwtimer_driven *driven)
{
}

const struct hwtimer_driver_ops hwtimer_driver_hrtimer = {
	.name		= "hrtimer",
	.ops		= {
		.kick	= slices_kick,
		.expire	= slices_expire,
		.alloc	= slices_alloc,
		.softirq = true,
	},
	.valid		= slices_valid,
	.create		= slices_create,
	.end		= slices_end,
	.destroy	= slices_destroy,
};
