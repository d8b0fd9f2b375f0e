// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the arithmetic of periods, which knows neither wheel nor clock.
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/overflow.h>

#include "hwtimer_period.h"

/**
 * hwtimer_period_check - is this a period for a wheel of that tick?
 * @period: what is asked for; a @misfire_ns of 0 is replaced by what it stands for
 * @tick_ns: the wheel's tick
 *
 * Context: Any context.
 *
 * Return: 0, or -EINVAL: @period_ns is below the tick; @misfire_ns is, and is not
 * 0; there is no such policy.
 */
int hwtimer_period_check(struct hwtimer_period *period, u64 tick_ns)
{
	if (period->period_ns < tick_ns ||
	    (period->misfire_ns && period->misfire_ns < tick_ns))
		return -EINVAL;
	switch (period->policy) {
	case HWTIMER_FIRE_ONCE:
	case HWTIMER_SKIP:
	case HWTIMER_MAKE_UP:
		break;
	default:
		return -EINVAL;
	}
	if (!period->misfire_ns)
		period->misfire_ns = period->period_ns;
	return 0;
}
EXPORT_SYMBOL_GPL(hwtimer_period_check);

/**
 * hwtimer_period_forward - find the first deadline of a schedule that is to come
 * @deadline_ns: the deadline that was reached
 * @now_ns: the present time; before @deadline_ns is as if at it
 * @period_ns: not 0
 * @next_ns: out: @deadline_ns plus the smallest number of periods, 1 at least, that
 *	is after @now_ns; U64_MAX if that is beyond what can be told
 *
 * Context: Any context.
 *
 * Return: how many deadlines are between the two.
 */
u64 hwtimer_period_forward(u64 deadline_ns, u64 now_ns, u64 period_ns, u64 *next_ns)
{
	u64 late = now_ns > deadline_ns ? now_ns - deadline_ns : 0;
	u64 missed = late < period_ns ? 0 : div64_u64(late, period_ns);

	/* Up to the last one missed it is not after now, and cannot overflow. */
	if (check_add_overflow(deadline_ns + missed * period_ns, period_ns, next_ns))
		*next_ns = U64_MAX;
	return missed;
}
EXPORT_SYMBOL_GPL(hwtimer_period_forward);

/**
 * hwtimer_period_decide - what is to be done about a deadline that was reached?
 * @period: as hwtimer_period_check() left it
 * @deadline_ns: the deadline
 * @now_ns: the present time
 *
 * Up to @misfire_ns late is on time: it fires, without overruns, and next comes the
 * deadline one period later, even if that is past, too. Later is a misfire:
 *
 *	                   fires  overruns            next
 *	HWTIMER_FIRE_ONCE  yes    those missed since  the first after now
 *	HWTIMER_SKIP       no     the same, and this  the first after now
 *	HWTIMER_MAKE_UP    yes    0                   one period later
 *
 * For who keeps deadlines of his own; struct hwtimer_periodic does it by itself.
 *
 * Context: Any context.
 *
 * Return: the decision.
 */
struct hwtimer_decision hwtimer_period_decide(const struct hwtimer_period *period,
					      u64 deadline_ns, u64 now_ns)
{
	u64 late = now_ns > deadline_ns ? now_ns - deadline_ns : 0;
	struct hwtimer_decision d = { .fire = true };

	if (late <= period->misfire_ns || period->policy == HWTIMER_MAKE_UP) {
		if (check_add_overflow(deadline_ns, period->period_ns, &d.next_ns))
			d.next_ns = U64_MAX;
		return d;
	}
	d.overruns = hwtimer_period_forward(deadline_ns, now_ns, period->period_ns,
					    &d.next_ns);
	if (period->policy == HWTIMER_SKIP) {
		d.fire = false;
		d.overruns++;
	}
	return d;
}
EXPORT_SYMBOL_GPL(hwtimer_period_decide);
