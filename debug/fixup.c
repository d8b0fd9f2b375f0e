// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: how mistakes are mended that debugobjects has found, and timeouts on the stack, which it
 * has to be told of. Built with CONFIG_DEBUG_OBJECTS only.
 */
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>

#include "../hwtimer.h"
#include "../hwtimer_driver.h"
#include "../hwtimer_wheel.h"
#include "odebug.h"

/* Where timeouts live that were never initialised. */
static struct lock_class_key nowhere_key __maybe_unused;
static struct hwtimer_driven nowhere = {
	.name			= "nowhere",
	.driver			= &hwtimer_driver_kthread,
	.wheel.tick_ns		= 1,
	.wheel.state		= WHEEL_STOPPED,
#ifdef CONFIG_LOCKDEP
	.wheel.callback_map	= STATIC_LOCKDEP_MAP_INIT("hwtimer_nowhere", &nowhere_key),
#endif
};

/*
 * The callback will not run; and if we may wait for the worker, nothing else happens
 * either. Not for ever: the caller may hold what a callback needs, or be one.
 */
static void end(struct hwtimer_timeout *timeout)
{
	if (preemptible() && !rcu_preempt_depth()) {
		wheel_end_sync(timeout, wheel_kill, HZ);
	} else {
		wheel_kill(timeout);
		wheel_detach(timeout);
	}
}

static void adopt(struct hwtimer_timeout *timeout)
{
	wheel_timeout_init(timeout, &nowhere.wheel, NULL);
}

/**
 * hwtimer_fixup_init - tell debugobjects how mistakes are mended
 */
void __init hwtimer_fixup_init(void)
{
	static const struct hwtimer_odebug_ops ops = { .end = end, .adopt = adopt };

	hwtimer_odebug_set_ops(&ops);
}

/**
 * hwtimer_init_on_stack - prepare a timeout that is on the stack
 * @timeout: as for hwtimer_init()
 * @wheel: the same
 * @fn: the same
 *
 * For debugobjects, which takes an object on the stack for a mistake unless it is
 * told. To be followed by hwtimer_destroy_on_stack().
 *
 * Context: Any context.
 */
void hwtimer_init_on_stack(struct hwtimer_timeout *timeout, struct hwtimer_wheel *wheel,
			   hwtimer_fn_t fn)
{
	/* It is known now, and not taken amiss. */
	if (hwtimer_odebug_init_on_stack(timeout))
		hwtimer_init(timeout, wheel, fn);
}
EXPORT_SYMBOL_GPL(hwtimer_init_on_stack);

/**
 * hwtimer_destroy_on_stack - the end of a timeout on the stack
 * @timeout: the timeout; the wheel has let go of it (hwtimer_cancel_sync(),
 *	hwtimer_shutdown_sync(), or its callback has said so)
 *
 * Before the function returns whose variable it is.
 *
 * Context: Any context.
 */
void hwtimer_destroy_on_stack(struct hwtimer_timeout *timeout)
{
	hwtimer_odebug_free(timeout);
}
EXPORT_SYMBOL_GPL(hwtimer_destroy_on_stack);
