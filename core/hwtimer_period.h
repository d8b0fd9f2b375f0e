/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the arithmetic of periods, for hwtimer_schedule_forward() and for whoever keeps
 * deadlines of their own. Pure functions.
 *
 * The deadlines of a period are the first one and those that are a whole number of periods later.
 * They do not depend on when callbacks run, so they do not drift. A policy decides what happens if
 * a deadline is missed.
 */
#ifndef HWTIMER_PERIOD_H
#define HWTIMER_PERIOD_H

#include <linux/types.h>

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
 * @fire: this deadline counts; false: HWTIMER_PERIOD_SKIP skips it
 * @overruns: the number of deadlines that do not fire, including this one if @fire is false
 * @next_ns: the next deadline; U64_MAX: there is none
 */
struct hwtimer_decision {
	bool			fire;
	u64			overruns;
	u64			next_ns;
};

int hwtimer_period_check(const struct hwtimer_period *period, u64 tick_ns);
struct hwtimer_decision hwtimer_period_decide(const struct hwtimer_period *period,
					      u64 deadline_ns, u64 now_ns);

#endif /* HWTIMER_PERIOD_H */
