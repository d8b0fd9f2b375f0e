/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: timeouts that come back, part of the in-kernel API.
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
 * A schedule is a first deadline and all those a whole number of periods later.
 * None of them depends on when a callback ran, so nothing drifts. What becomes of
 * a deadline that is met too late is the policy's to say; see
 * hwtimer_period_decide().
 *
 * hwtimer_forward() in hwtimer.h is for a callback that re-arms itself.
 */
#ifndef HWTIMER_PERIOD_H
#define HWTIMER_PERIOD_H

#include <linux/spinlock.h>
#include <linux/types.h>

#include "hwtimer_types.h"

/**
 * enum hwtimer_policy - what to do about a misfire
 * @HWTIMER_FIRE_ONCE: fire once for all that were missed, and go on with the first
 *	deadline still to come
 * @HWTIMER_SKIP: do not fire, and go on in the same way
 * @HWTIMER_MAKE_UP: fire for each one, as fast as the ticks come: one a tick. If
 *	the period is the tick, that never catches up
 */
enum hwtimer_policy {
	HWTIMER_FIRE_ONCE,
	HWTIMER_SKIP,
	HWTIMER_MAKE_UP,
};

/**
 * struct hwtimer_period - how a timeout comes back
 * @period_ns: from one deadline to the next; at least the wheel's tick
 * @misfire_ns: later than this after its deadline it is a misfire. At least the
 *	wheel's tick, for that late is nothing unusual; 0: one period
 * @policy: what is done about a misfire
 */
struct hwtimer_period {
	u64			period_ns;
	u64			misfire_ns;
	enum hwtimer_policy	policy;
};

/**
 * struct hwtimer_decision - what hwtimer_period_decide() decided
 * @fire: call back
 * @overruns: deadlines that will not be fired for: beside this one if @fire, and
 *	this one included if not
 * @next_ns: the next deadline; U64_MAX: never
 */
struct hwtimer_decision {
	bool			fire;
	u64			overruns;
	u64			next_ns;
};

struct hwtimer_periodic;

/**
 * typedef hwtimer_periodic_fn_t - what a periodic timeout calls
 * @periodic: what expired; it is armed for its next deadline already
 * @overruns: how many deadlines were missed, or skipped, since the callback
 *	before, for which there was and will be no callback
 *
 * Runs as a hwtimer_fn_t does. It may cancel @periodic, upon which nothing
 * follows, and start it anew. As the wheel holds @periodic again, it must not free
 * it as a hwtimer_fn_t may: hwtimer_periodic_release() does that.
 *
 * If hwtimer_is_pending(&periodic->timeout) is false in here, and nobody cancelled
 * it, it could not be armed again: the wheel was stopped or has as many timeouts
 * pending as its cap allows, or @periodic was released.
 */
typedef void (*hwtimer_periodic_fn_t)(struct hwtimer_periodic *periodic, u64 overruns);

/**
 * struct hwtimer_periodic - a timeout that comes back, embedded in its owner's
 * @timeout: for hwtimer_is_pending(), hwtimer_shutdown_sync(), and to be found by
 *	on the list of hwtimer_wheel_stop(); armed and cancelled here only
 * @fn: constant
 * @period: constant, with the bound that holds
 * @lock: protects what follows, and is held while @timeout is armed and while it is
 *	cancelled. Not held by the callback
 * @deadline: the one that comes next
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
