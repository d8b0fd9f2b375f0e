// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: periodic timeouts, a user of hwtimer.h.
 *
 * A periodic timeout is armed again before its callback runs, so that the callback may cancel it,
 * and nothing of it is accessed afterwards. Between the expiry, where the wheel disarms it, and
 * that arming it is not pending. Whoever cancels it then must not find it armed again later:
 *
 *	worker                          elsewhere
 *	  expires: not pending
 *	                                hwtimer_periodic_cancel(): was not pending
 *	  armed again ???
 *
 * So its lock is held around everything that arms and cancels it. Under the lock the worker
 * checks whether it is still started (@going), and whether somebody started it again meanwhile (it
 * is pending). In both cases the expiry came first, and is called back. A release or a stop needs
 * no lock: after it, arming fails.
 *
 * It is a raw lock, because it is taken wherever a timeout may be armed.
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/spinlock.h>

#include "hwtimer.h"
#include "hwtimer_driver.h"
#include "hwtimer_period.h"
#include "hwtimer_step.h"

/**
 * hwtimer_periodic_expired - the callback of all periodic timeouts
 * @t: the timeout
 */
void hwtimer_periodic_expired(struct hwtimer_timeout *t)
{
	struct hwtimer_periodic *p = container_of(t, struct hwtimer_periodic, timeout);
	struct hwtimer_decision d = { .fire = true };
	unsigned long flags;

	raw_spin_lock_irqsave(&p->lock, flags);
	/* Pending: it was started anew since, and that has no overruns yet. */
	if (!hwtimer_is_pending(t)) {
		d = hwtimer_period_decide(&p->period, p->deadline,
					  hwtimer_wheel_now(t->wheel));
		p->deadline = d.next_ns;
		p->skipped += d.overruns;
		hwtimer_step();
		if (p->going && hwtimer_schedule_at(t, d.next_ns)) {
			/* It ends here. The owner has to know, whatever the policy. */
			p->going = false;
			p->skipped -= !d.fire;	/* called back for this one */
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
 * @periodic: not armed, and not held by a wheel any more; see hwtimer_init()
 * @wheel: the wheel that it will be armed on
 * @period: its period; not needed after the call
 * @fn: its callback
 *
 * Context: Any context.
 *
 * Return: 0, or -EINVAL as from hwtimer_period_check().
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
 * @delay_ns: from now to the first deadline; 0 and less: now
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
 * @first_ns: its first deadline, on the wheel's clock. One in the past expires at the next tick,
 *	late by the time since, and the policy decides about missed periods. One beyond the
 *	wheel's range never comes
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
		/* If it expires this moment, it waits for the lock. */
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
 * It may be started again but not be freed, see hwtimer_cancel().
 *
 * Context: Any context but NMI.
 *
 * Return: true if it was pending: there will be no callback for the next deadline. In any case the
 * callback for the last deadline may be running or about to run, because the timeout is armed
 * again first: see hwtimer_periodic_cancel_sync().
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
 * Like hwtimer_cancel_sync(), with the same rule about locks that the caller holds. If nobody
 * starts it meanwhile, it may be freed when this returns.
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
 * @released: called once with its @timeout, as by hwtimer_release()
 *
 * The callback may release its own timeout; @released is called after it returns.
 *
 * Context: Any context but NMI.
 *
 * Return: as hwtimer_periodic_cancel().
 */
bool hwtimer_periodic_release(struct hwtimer_periodic *periodic,
			      hwtimer_released_fn_t released)
{
	/* No lock: @released may be called at once, and free it. */
	return hwtimer_release(&periodic->timeout, released);
}
EXPORT_SYMBOL_GPL(hwtimer_periodic_release);
