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
 * hwtimer_period_check - check a period for a wheel with a certain tick
 * @period: the period; a @misfire_ns of 0 is replaced by @period_ns
 * @tick_ns: the wheel's tick
 *
 * Context: Any context.
 *
 * Return: 0, or -EINVAL if @period_ns is below the tick, @misfire_ns is below the tick and not 0,
 * or the policy is unknown.
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
 * hwtimer_period_forward - find the first periodic deadline that is not past
 * @deadline_ns: the deadline that was reached
 * @now_ns: the current time; if it is before @deadline_ns, that is used instead
 * @period_ns: not 0
 * @next_ns: out: @deadline_ns plus the smallest number of periods, at least 1, that is after
 *	@now_ns; U64_MAX if that overflows
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
 * hwtimer_period_decide - decide what to do about a deadline that was reached
 * @period: a period that passed hwtimer_period_check()
 * @deadline_ns: the deadline
 * @now_ns: the current time
 *
 * An expiry at most @misfire_ns late is on time: it fires without overruns, and the next deadline
 * is one period later, even if that is past, too. A later one is a misfire:
 *
 *	                   fires  overruns            next
 *	HWTIMER_FIRE_ONCE  yes    those missed since  the first after now
 *	HWTIMER_SKIP       no     the same, and this  the first after now
 *	HWTIMER_MAKE_UP    yes    0                   one period later
 *
 * For code that keeps its own deadlines; struct hwtimer_periodic calls this by itself.
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
