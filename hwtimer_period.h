/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: periodic timeouts, part of the in-kernel API.
 *
 *	static void beat(struct hwtimer_periodic *periodic, u64 overruns)
 *	{
 *		struct peer *p = container_of(periodic, struct peer, heartbeat);
 *
 *		peer_send(p, HEARTBEAT);
 *	}
 *
 *	hwtimer_periodic_init(&p->heartbeat, wheel, &(struct hwtimer_period){
 *			.period_ns = NSEC_PER_SEC, .policy = HWTIMER_PERIOD_SKIP }, beat);
 *	hwtimer_periodic_start(&p->heartbeat, NSEC_PER_SEC);
 *	hwtimer_periodic_release(&p->heartbeat, peer_free);
 *
 * The deadlines of a periodic timeout are the first one and those that are a whole number of
 * periods later. They do not depend on when callbacks run, so they do not drift. A policy decides
 * what happens if a deadline is missed; see hwtimer_period_decide().
 *
 * As an alternative, the callback of an ordinary timeout can re-arm it by
 * hwtimer_schedule_forward() of hwtimer.h.
 */
#ifndef HWTIMER_PERIOD_H
#define HWTIMER_PERIOD_H

#include <linux/spinlock.h>
#include <linux/types.h>

#include "hwtimer_types.h"

/**
 * enum hwtimer_policy - what happens in a misfire, an expiry that is too late
 * @HWTIMER_PERIOD_ONCE: fire once for all missed deadlines, and go on with the first deadline in
 *	the future
 * @HWTIMER_PERIOD_SKIP: do not fire, and go on with the first deadline in the future
 * @HWTIMER_PERIOD_MAKE_UP: fire for each missed deadline, one per tick. If the period is as short
 *	as the tick, this never catches up
 */
enum hwtimer_policy {
	HWTIMER_PERIOD_ONCE,
	HWTIMER_PERIOD_SKIP,
	HWTIMER_PERIOD_MAKE_UP,
};

/**
 * struct hwtimer_period - the period of a timeout
 * @period_ns: the time from one deadline to the next; at least the wheel's tick
 * @misfire_ns: an expiry that is late by more than this is a misfire. At least the wheel's tick,
 *	because timeouts are normally late by up to a tick; 0: one period
 * @policy: what happens in a misfire
 */
struct hwtimer_period {
	u64			period_ns;
	u64			misfire_ns;
	enum hwtimer_policy	policy;
};

/**
 * struct hwtimer_decision - what hwtimer_period_decide() decided
 * @fire: the callback is to be called
 * @overruns: the number of deadlines that do not fire, including this one if @fire is false
 * @next_ns: the next deadline; U64_MAX: there is none
 */
struct hwtimer_decision {
	bool			fire;
	u64			overruns;
	u64			next_ns;
};

struct hwtimer_periodic;

/**
 * typedef hwtimer_periodic_fn_t - the callback of a periodic timeout
 * @periodic: the timeout; it is already armed for its next deadline
 * @overruns: how many deadlines since the last callback were missed or skipped, and so had no
 *	callback
 *
 * Runs like a hwtimer_fn_t. It may cancel @periodic and start it again. Unlike a hwtimer_fn_t it
 * must not free the timeout, because the wheel holds it again; use hwtimer_periodic_release().
 *
 * If hwtimer_is_pending(&periodic->timeout) is false in the callback, and the timeout was not
 * cancelled, it could not be armed again and has ended: the wheel was stopped or has reached its
 * cap, or @periodic was released.
 */
typedef void (*hwtimer_periodic_fn_t)(struct hwtimer_periodic *periodic, u64 overruns);

/**
 * struct hwtimer_periodic - a periodic timeout, embedded in its owner's structure
 * @timeout: the timeout that is armed for the next deadline, and that hwtimer_wheel_stop() hands
 *	back. May be passed to hwtimer_is_pending() and hwtimer_shutdown_sync(); only the
 *	functions below may arm and cancel it
 * @fn: the callback. Constant
 * @period: the period, with a misfire_ns that is not 0. Constant
 * @lock: protects the members below, and is held while @timeout is armed or cancelled. Not held
 *	during the callback
 * @deadline: the next deadline
 * @skipped: how many deadlines were missed or skipped since the last callback
 * @going: it was started, and since then neither cancelled nor ended because arming failed
 *
 * Must not be on the stack.
 */
struct hwtimer_periodic {
	struct hwtimer_timeout	timeout;
	hwtimer_periodic_fn_t	fn;
	struct hwtimer_period	period;
	raw_spinlock_t		lock;	/* see above */
	u64			deadline;
	u64			skipped;
	bool			going;
};

/* Pure functions, but for hwtimer_period_check(), which sets a misfire_ns of 0. */
int hwtimer_period_check(struct hwtimer_period *period, u64 tick_ns);
u64 hwtimer_period_forward(u64 deadline_ns, u64 now_ns, u64 period_ns, u64 *next_ns);
struct hwtimer_decision hwtimer_period_decide(const struct hwtimer_period *period,
					      u64 deadline_ns, u64 now_ns);

int hwtimer_periodic_init(struct hwtimer_periodic *periodic, struct hwtimer_wheel *wheel,
			  const struct hwtimer_period *period, hwtimer_periodic_fn_t fn);
int hwtimer_periodic_start(struct hwtimer_periodic *periodic, s64 delay_ns);
int hwtimer_periodic_start_at(struct hwtimer_periodic *periodic, u64 first_ns);
bool hwtimer_periodic_cancel(struct hwtimer_periodic *periodic);
int hwtimer_periodic_cancel_sync(struct hwtimer_periodic *periodic);
bool hwtimer_periodic_release(struct hwtimer_periodic *periodic,
			      hwtimer_released_fn_t released);

#endif /* HWTIMER_PERIOD_H */
