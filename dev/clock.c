// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: how contexts on CLOCK_REALTIME follow the clock when it is set.
 *
 * The kernel tells pvclock_gtod notifiers that the clock was set. It holds the lock of the
 * timekeeper then, with interrupts off: even reading a clock would deadlock. So an irq_work queues
 * a work, which arms ctx_clock.follow of each context for the next tick of its wheel. The work is
 * shared by all contexts, so it does no more than that.
 *
 * follow() runs in the worker of the context's own wheel, which is charged to its user. It goes
 * through the timeouts that were armed before the clock was set. It ends those with
 * HWTIMER_CANCEL_ON_SET, and arms the others again for the same time of day. It drops ctx->lock
 * between pages. The program may do anything meanwhile, and the clock may be set again:
 *
 *  - Schedule, touch, cancel and query notice by themselves that the clock was set
 *    (hwtimer_dates_notice()). If follow() has not come to the timeout that they work on, they do
 *    what it would do (hwtimer_ctx_settle()). So for them, once clock_settime(2) has returned,
 *    follow() has finished.
 *
 *  - ctx_date.set says after which setting a timeout was armed. So each setting ends or moves a
 *    timeout once, and does not end one that was scheduled after the setting was noticed. If the
 *    clock is set again, follow() goes through all timeouts again, and begins from the deadlines
 *    that the program gave.
 *
 *  - An expiry notices first, too. If the timeout has to be settled, it is armed again and expires
 *    at a later tick. So even before follow() runs, nothing is reported early.
 */
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/notifier.h>
#include <linux/pvclock_gtod.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "../debug/trace.h"
#include "../core/hwtimer_compat.h"
#include "clock.h"
#include "rings.h"

/* How many contexts are told before others get the lock. */
#define TOLD_AT_ONCE	64

/* Protects the three variables below. The notifier does not take it. */
static DEFINE_SPINLOCK(clocks_lock);
static LIST_HEAD(clocks);
static unsigned int nr_clocks;
static bool registered;

static void tell_contexts(struct work_struct *work)
{
	struct ctx_clock *clock;
	unsigned int n;

	spin_lock(&clocks_lock);
	/* Those that are told go to the end. If some leave meanwhile, others are told twice. */
	for (n = nr_clocks; n && !list_empty(&clocks); n--) {
		clock = list_first_entry(&clocks, struct ctx_clock, list);
		list_move_tail(&clock->list, &clocks);
		hwtimer_schedule_at(&clock->follow, 0);
		if (!(n % TOLD_AT_ONCE)) {
			spin_unlock(&clocks_lock);
			cond_resched();
			spin_lock(&clocks_lock);
		}
	}
	spin_unlock(&clocks_lock);
}

static DECLARE_WORK(tell_work, tell_contexts);

static void queue_tell_work(struct irq_work *work)
{
	queue_work(system_dfl_wq, &tell_work);
}

static DEFINE_IRQ_WORK(queue_irq_work, queue_tell_work);

/* Called at each update of the timekeeper, so it must be quick. */
static int clock_updated(struct notifier_block *nb, unsigned long was_set, void *tk)
{
	if (was_set)
		irq_work_queue(&queue_irq_work);
	return NOTIFY_OK;
}

/*
 * Registered with the first context, until the module is unloaded: to register calls all notifiers
 * of the kernel as if the clock had been set.
 */
static struct notifier_block clock_notifier = {
	.notifier_call = clock_updated,
};

static void follow(struct hwtimer_timeout *t)
{
	struct ctx_clock *clock = container_of(t, struct ctx_clock, follow);
	struct hwtimer_ctx *ctx = clock->ctx;
	unsigned long index = 0;
	bool followed;

	hwtimer_ctx_lock(ctx);
	hwtimer_dates_notice(clock, &ctx->offset_ns);
	followed = ctx->closed || clock->followed == clock->set;
	clock->followed = clock->set;
	if (!followed && ctx->rings)
		hwtimer_rings_clock_set(ctx);
	/*
	 * hwtimer_ctx_next_timeout() settles each timeout, and drops the lock before each page.
	 * Once the file is closed, it finds nothing.
	 */
	while (!followed && hwtimer_ctx_next_timeout(ctx, &index) && !ctx->closed)
		hwtimer_report_one(ctx);
	hwtimer_ctx_unlock(ctx);
}

/* Make @clock the context's, under the ctx->lock under which its wheel is chosen. */
void hwtimer_clock_publish(struct hwtimer_ctx *ctx, struct ctx_clock *clock)
{
	lockdep_assert_held(&ctx->lock);
	hwtimer_init(&clock->follow, ctx->wheel, follow);
	/* SCHEDULE reads it without the lock. */
	WRITE_ONCE(ctx->clock, clock);
}

/* Have the context told from now on when the clock is set. Called without ctx->lock. */
void hwtimer_clock_add(struct hwtimer_ctx *ctx)
{
	spin_lock(&clocks_lock);
	if (!registered)
		pvclock_gtod_register_notifier(&clock_notifier);
	registered = true;
	nr_clocks++;
	list_add_tail(&ctx->clock->list, &clocks);
	spin_unlock(&clocks_lock);
	/* It may have been set before we were on the list. */
	hwtimer_ctx_lock(ctx);
	hwtimer_dates_notice(ctx->clock, &ctx->offset_ns);
	hwtimer_ctx_unlock(ctx);
}

/* The file is being closed: do not tell the context any more. Called without ctx->lock. */
void hwtimer_clock_remove(struct hwtimer_ctx *ctx)
{
	spin_lock(&clocks_lock);
	list_del(&ctx->clock->list);
	nr_clocks--;
	spin_unlock(&clocks_lock);
}

/* No file is open. */
void hwtimer_clock_exit(void)
{
	if (registered)
		pvclock_gtod_unregister_notifier(&clock_notifier);
	irq_work_sync(&queue_irq_work);
	cancel_work_sync(&tell_work);
}
