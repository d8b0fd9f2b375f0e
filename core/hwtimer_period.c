// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the arithmetic of periods, without wheels or clocks.
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/overflow.h>
#include <kunit/visibility.h>

#include "hwtimer_period.h"

/**
 * hwtimer_period_check - check whether a period is valid for a wheel
 * @period: the period
 * @tick_ns: the length of the wheel's tick
 *
 * Context: Any context.
 *
 * Return: 0, or -EINVAL if period_ns is less than the tick, misfire_ns is not 0 but less than the
 * tick, or the policy is unknown.
 */
int hwtimer_period_check(const struct hwtimer_period *period, u64 tick_ns)
{
	if (period->period_ns < tick_ns || (period->misfire_ns && period->misfire_ns < tick_ns) ||
	    (unsigned int)period->policy > HWTIMER_PERIOD_MAKE_UP)
		return -EINVAL;
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_period_check);

/**
 * hwtimer_period_decide - decide whether a deadline fires, and which one is next
 * @period: the period; period_ns is not 0
 * @deadline_ns: the deadline that was reached
 * @now_ns: the current time
 *
 * An expiry that is late by misfire_ns or less is on time: it fires without overruns, and the next
 * deadline is one period later, even if that is in the past, too. A later expiry is a misfire.
 *
 * Context: Any context.
 *
 * Return: the decision.
 */
struct hwtimer_decision hwtimer_period_decide(const struct hwtimer_period *period,
					      u64 deadline_ns, u64 now_ns)
{
	u64 late = now_ns > deadline_ns ? now_ns - deadline_ns : 0, missed = 0;
	bool misfire = late > (period->misfire_ns ?: period->period_ns) &&
		       period->policy != HWTIMER_PERIOD_MAKE_UP;
	struct hwtimer_decision d;

	if (misfire)
		missed = div64_u64(late, period->period_ns);
	/* The last missed deadline is not after now_ns, so only the second sum can overflow. */
	if (check_add_overflow(deadline_ns + missed * period->period_ns, period->period_ns,
			       &d.next_ns))
		d.next_ns = U64_MAX;
	d.fire = !misfire || period->policy != HWTIMER_PERIOD_SKIP;
	d.overruns = missed + !d.fire;
	return d;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_period_decide);
