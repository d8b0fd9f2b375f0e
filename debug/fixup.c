// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: fixups for mistakes that debugobjects finds, and timeouts on the stack, which must be
 * announced to debugobjects. Built with CONFIG_DEBUG_OBJECTS only.
 */
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>

#include "../hwtimer.h"
#include "../core/hwtimer_driver.h"
#include "../core/hwtimer_queue.h"
#include "odebug.h"

/* A stopped wheel, for timeouts that were never initialised. */
static struct lock_class_key nowhere_key __maybe_unused;
static struct hwtimer_driven nowhere = {
	.name			= "nowhere",
	.wheel.tick_ns		= 1,
	.wheel.state		= QUEUE_STOPPED,
#ifdef CONFIG_LOCKDEP
	.wheel.callback_map	= STATIC_LOCKDEP_MAP_INIT("hwtimer_nowhere", &nowhere_key),
#endif
};

/*
 * Ensure that the callback will not run. If we may sleep, also wait until the wheel has released
 * the timeout, at most for a second: the caller may be a callback, or hold a lock that a callback
 * needs.
 */
static void end(struct hwtimer_timeout *timeout)
{
	if (preemptible() && !rcu_preempt_depth()) {
		queue_end_sync(timeout, queue_timeout_shutdown, HZ);
	} else {
		queue_timeout_shutdown(timeout);
		queue_detach(timeout);
	}
}

static void adopt(struct hwtimer_timeout *timeout)
{
	queue_timeout_init(timeout, &nowhere.wheel, NULL);
}

/**
 * hwtimer_fixup_init - register the fixups that depend on the wheel
 */
void __init hwtimer_fixup_init(void)
{
	static const struct hwtimer_odebug_ops ops = { .end = end, .adopt = adopt };

	hwtimer_odebug_set_ops(&ops);
}

/**
 * hwtimer_init_on_stack - prepare a timeout that is on the stack
 * @timeout: as for hwtimer_init()
 * @wheel: as for hwtimer_init()
 * @fn: as for hwtimer_init()
 *
 * debugobjects reports an object on the stack as a mistake unless it is initialised by this
 * function. To be followed by hwtimer_destroy_on_stack().
 *
 * Context: Any context.
 */
void hwtimer_init_on_stack(struct hwtimer_timeout *timeout, struct hwtimer_wheel *wheel,
			   hwtimer_fn_t fn)
{
	/* debugobjects knows the object now, so hwtimer_init() causes no report. */
	if (hwtimer_odebug_init_on_stack(timeout))
		hwtimer_init(timeout, wheel, fn);
}
EXPORT_SYMBOL_GPL(hwtimer_init_on_stack);

/**
 * hwtimer_destroy_on_stack - the end of a timeout on the stack
 * @timeout: the timeout; the wheel has released it: hwtimer_cancel_sync() or
 *	hwtimer_shutdown_sync() returned, or the callback of hwtimer_release() was called
 *
 * Must be called before the function returns whose local variable @timeout is.
 *
 * Context: Any context.
 */
void hwtimer_destroy_on_stack(struct hwtimer_timeout *timeout)
{
	hwtimer_odebug_free(timeout);
}
EXPORT_SYMBOL_GPL(hwtimer_destroy_on_stack);
