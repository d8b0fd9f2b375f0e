/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: periodic timeouts, part of the in-kernel API.
 *
 *	static void beat(struct hwtimer_periodic *periodic, u64 overruns)
 *	{
 *		struct peer *p = container_of(periodic, struct peer, heartbeat);
 *		...
 *	}
 *
 *	hwtimer_periodic_init(&p->heartbeat, wheel, &(struct hwtimer_period){
 *			.period_ns = NSEC_PER_SEC, .policy = HWTIMER_SKIP }, beat);
 *	hwtimer_periodic_start(&p->heartbeat, NSEC_PER_SEC);
 *	hwtimer_periodic_release(&p->heartbeat, peer_free);
 *
 * The deadlines of a periodic timeout are the first one and those that are a whole number of
 * periods later. They do not depend on when a callback ran, so there is no drift. A policy
 * decides what happens if a deadline is missed; see hwtimer_period_decide().
 *
 * A callback that re-arms its own timeout uses hwtimer_forward() in hwtimer.h.
 */
#ifndef HWTIMER_PERIOD_H
#define HWTIMER_PERIOD_H

#include <linux/spinlock.h>
#include <linux/types.h>

#include "hwtimer_types.h"

/**
 * enum hwtimer_policy - what to do about a misfire
 * @HWTIMER_FIRE_ONCE: fire once for all missed deadlines, and go on with the next deadline
 * @HWTIMER_SKIP: do not fire, and go on with the next deadline
 * @HWTIMER_MAKE_UP: fire for each missed deadline, one per tick. If the period is as short as the
 *	tick, this never catches up
 */
enum hwtimer_policy {
	HWTIMER_FIRE_ONCE,
	HWTIMER_SKIP,
	HWTIMER_MAKE_UP,
};

/**
 * struct hwtimer_period - the period of a timeout
 * @period_ns: from one deadline to the next; at least the wheel's tick
 * @misfire_ns: an expiry that is later than this is a misfire. At least the wheel's tick, because
 *	so much lateness is normal; 0: one period
 * @policy: what to do about a misfire
 */
struct hwtimer_period {
	u64			period_ns;
	u64			misfire_ns;
	enum hwtimer_policy	policy;
};

/**
 * struct hwtimer_decision - what hwtimer_period_decide() decided
 * @fire: call back
 * @overruns: how many deadlines will not fire; includes this one, unless @fire
 * @next_ns: the next deadline; U64_MAX: never
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
 * @overruns: how many deadlines were missed or skipped since the last callback, without a
 *	callback of their own
 *
 * Runs like a hwtimer_fn_t. It may cancel @periodic, which ends it, and start it again. Unlike a
 * hwtimer_fn_t it must not free the timeout, which the wheel holds again; use
 * hwtimer_periodic_release().
 *
 * If hwtimer_is_pending(&periodic->timeout) is false in the callback, and nobody cancelled it, it
 * could not be armed again: the wheel was stopped or has reached its cap, or @periodic was
 * released.
 */
typedef void (*hwtimer_periodic_fn_t)(struct hwtimer_periodic *periodic, u64 overruns);

/**
 * struct hwtimer_periodic - a periodic timeout, embedded in its owner's structure
 * @timeout: may be passed to hwtimer_is_pending() and hwtimer_shutdown_sync(), and is what
 *	hwtimer_wheel_stop() hands back; only the functions below arm and cancel it
 * @fn: the callback. Constant
 * @period: constant; its misfire_ns is not 0
 * @lock: protects the members below, and is held to arm and to cancel @timeout. Not held
 *	during the callback
 * @deadline: the next deadline
 * @skipped: deadlines skipped since the last callback
 * @going: started, and not cancelled since
 *
 * Not on the stack.
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

/* Without side effects. */
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
