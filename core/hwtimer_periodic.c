// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: periodic timeouts, a user of hwtimer.h.
 *
 * The worker arms a periodic timeout again before it runs the callback. So the callback may cancel
 * the timeout, and the worker need not access it afterwards. But from the expiry until this arming
 * the timeout is not pending, and a cancel in between must not be undone:
 *
 *	worker                          another CPU
 *	  expires: not pending
 *	                                hwtimer_periodic_cancel(): was not pending
 *	  armed again ???
 *
 * Therefore the timeout is armed and cancelled under its lock. Under the lock the worker checks
 * whether the timeout was cancelled since it expired (@going is false) or started again (it is
 * pending). In both cases it does not arm the timeout; but it handles the expiry, which came first.
 * A release or a stop needs no lock: arming fails after it.
 *
 * The lock is a raw spinlock, because timeouts may be armed in any context.
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/spinlock.h>

#include "../hwtimer.h"
#include "hwtimer_driver.h"
#include "../hwtimer_period.h"
#include "hwtimer_step.h"

/**
 * hwtimer_periodic_expired - the callback of all periodic timeouts
 * @t: the timeout of struct hwtimer_periodic
 */
void hwtimer_periodic_expired(struct hwtimer_timeout *t)
{
	struct hwtimer_periodic *p = container_of(t, struct hwtimer_periodic, timeout);
	struct hwtimer_decision d = { .fire = true };
	unsigned long flags;

	raw_spin_lock_irqsave(&p->lock, flags);
	/* If it is pending, it was started again, with @deadline and @skipped set anew. */
	if (!hwtimer_is_pending(t)) {
		d = hwtimer_period_decide(&p->period, p->deadline,
					  hwtimer_wheel_now(t->wheel));
		p->deadline = d.next_ns;
		p->skipped += d.overruns;
		hwtimer_step();
		if (p->going && hwtimer_schedule_at(t, d.next_ns)) {
			/* Arming failed, so it has ended. Report this by a callback in any case. */
			p->going = false;
			p->skipped -= !d.fire;	/* this deadline fires after all */
			d.fire = true;
		}
		d.overruns = p->skipped;
		if (d.fire)
			p->skipped = 0;
	}
	raw_spin_unlock_irqrestore(&p->lock, flags);

	hwtimer_step();
	if (d.fire)
		p->fn(p, d.overruns);
}

/**
 * hwtimer_periodic_init - prepare a periodic timeout
 * @periodic: the timeout; not armed, and not held by a wheel; see hwtimer_init()
 * @wheel: the wheel on which it will be armed
 * @period: its period; not needed after the call
 * @fn: its callback
 *
 * Context: Any context.
 *
 * Return: 0, or -EINVAL as hwtimer_period_check() returns it.
 */
int hwtimer_periodic_init(struct hwtimer_periodic *periodic, struct hwtimer_wheel *wheel,
			  const struct hwtimer_period *period, hwtimer_periodic_fn_t fn)
{
	periodic->period = *period;
	if (hwtimer_period_check(&periodic->period, hwtimer_wheel_tick_ns(wheel)))
		return -EINVAL;
	hwtimer_init(&periodic->timeout, wheel, hwtimer_periodic_expired);
	raw_spin_lock_init(&periodic->lock);
	periodic->fn = fn;
	periodic->deadline = 0;
	periodic->skipped = 0;
	periodic->going = false;
	return 0;
}
EXPORT_SYMBOL_GPL(hwtimer_periodic_init);

/**
 * hwtimer_periodic_start - start a periodic timeout after a delay
 * @periodic: the timeout
 * @delay_ns: the time from now to the first deadline; less than 0 counts as 0
 *
 * Context: Any context but NMI.
 *
 * Return: as hwtimer_periodic_start_at().
 */
int hwtimer_periodic_start(struct hwtimer_periodic *periodic, s64 delay_ns)
{
	return hwtimer_periodic_start_at(periodic,
					 hwtimer_after(&periodic->timeout, delay_ns));
}
EXPORT_SYMBOL_GPL(hwtimer_periodic_start);

/**
 * hwtimer_periodic_start_at - start a periodic timeout, or restart it
 * @periodic: the timeout
 * @first_ns: its first deadline, in ns on the wheel's clock. If this is in the past, the timeout
 *	expires at the next tick, late by the time since @first_ns, and the policy decides about
 *	missed deadlines. At hwtimer_wheel_horizon() and beyond, it never expires
 *
 * Context: Any context but NMI. Does not allocate.
 *
 * Return: as hwtimer_schedule_at(). On error nothing has changed.
 */
int hwtimer_periodic_start_at(struct hwtimer_periodic *periodic, u64 first_ns)
{
	unsigned long flags;
	int ret;

	raw_spin_lock_irqsave(&periodic->lock, flags);
	ret = hwtimer_schedule_at(&periodic->timeout, first_ns);
	if (ret >= 0) {
		/* If it has just expired, its callback waits for the lock before it reads these. */
		periodic->deadline = first_ns;
		periodic->skipped = 0;
		periodic->going = true;
	}
	raw_spin_unlock_irqrestore(&periodic->lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(hwtimer_periodic_start_at);

/**
 * hwtimer_periodic_cancel - end a periodic timeout
 * @periodic: the timeout
 *
 * It may be started again but must not be freed, see hwtimer_cancel().
 *
 * Context: Any context but NMI.
 *
 * Return: true if it was pending: there will be no callback for the next deadline. In any case the
 * callback for the last deadline may be running or about to run, because the timeout is armed again
 * before its callback runs; hwtimer_periodic_cancel_sync() waits for that.
 */
bool hwtimer_periodic_cancel(struct hwtimer_periodic *periodic)
{
	unsigned long flags;
	bool pending;

	raw_spin_lock_irqsave(&periodic->lock, flags);
	periodic->going = false;
	pending = hwtimer_cancel(&periodic->timeout);
	raw_spin_unlock_irqrestore(&periodic->lock, flags);
	return pending;
}
EXPORT_SYMBOL_GPL(hwtimer_periodic_cancel);

/**
 * hwtimer_periodic_cancel_sync - end a periodic timeout and wait for its callback
 * @periodic: the timeout
 *
 * Like hwtimer_cancel_sync(), with the same rule about locks that the caller holds. When this
 * returns, the timeout may be freed, unless another task started it meanwhile.
 *
 * Context: Process context, may sleep.
 *
 * Return: as hwtimer_cancel_sync().
 */
int hwtimer_periodic_cancel_sync(struct hwtimer_periodic *periodic)
{
	bool pending = hwtimer_periodic_cancel(periodic);
	int ret = hwtimer_cancel_sync(&periodic->timeout);

	return ret < 0 ? ret : pending || ret;
}
EXPORT_SYMBOL_GPL(hwtimer_periodic_cancel_sync);

/**
 * hwtimer_periodic_release - end a periodic timeout, and call back when it may be freed
 * @periodic: the timeout; not released before
 * @released: called once with &periodic->timeout, as by hwtimer_release()
 *
 * The callback may release its own timeout; @released is called after the callback returns.
 *
 * Context: Any context but NMI.
 *
 * Return: as hwtimer_periodic_cancel().
 */
bool hwtimer_periodic_release(struct hwtimer_periodic *periodic,
			      hwtimer_released_fn_t released)
{
	/* Without the lock, because @released may run inside this call and free @periodic. */
	return hwtimer_release(&periodic->timeout, released);
}
EXPORT_SYMBOL_GPL(hwtimer_periodic_release);
