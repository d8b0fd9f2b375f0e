// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: debugobjects for timeouts, after kernel/time/timer.c. Built with
 * CONFIG_DEBUG_OBJECTS only. debug/odebug.h explains when a timeout is active, and why this needs
 * no lock.
 *
 * These mistakes are reported, with the name of the callback, and fixed up:
 *
 *	init of an active timeout	is skipped: the timeout stays armed
 *	free of an active timeout	the timeout is cancelled; where the kernel may sleep,
 *					the free waits for the wheel to release it
 *	use of a timeout that was	the timeout is given to a stopped wheel, so arming it
 *	never initialised		fails with -ESHUTDOWN
 *
 * Tracking ends when the memory is freed (DEBUG_OBJECTS_FREE drops objects that are not active),
 * and by hwtimer_destroy_on_stack(). So memory from an allocator needs hwtimer_init() after each
 * allocation, even if a constructor of its kmem_cache called it before. Static memory, and memory
 * that its owner keeps, may be initialised repeatedly.
 */
#include <linux/cache.h>
#include <linux/debugobjects.h>
#include <linux/init.h>

#include "odebug.h"

/* Fixups that depend on the wheel. Set when the module is loaded. */
static const struct hwtimer_odebug_ops *ops __ro_after_init;

/*
 * The active timeout whose initialisation fixup_init() refused, read by accepted(). There is one
 * variable for all CPUs: if two CPUs make the mistake at the same moment, both are reported, but
 * one of them may go on and initialise its timeout.
 */
static struct hwtimer_timeout *refused;

static bool accepted(struct hwtimer_timeout *timeout)
{
	/* [cmpxchg: as it only decides which caller is the first] */
	return likely(READ_ONCE(refused) != timeout) ||
	       cmpxchg(&refused, timeout, NULL) != timeout;
}

static void *timeout_hint(void *addr)
{
	struct hwtimer_timeout *timeout = addr;

	return READ_ONCE(timeout->fn);
}

/* Init of an active timeout. The worker may have linked it, so refuse to change it. */
static bool fixup_init(void *addr, enum debug_obj_state state)
{
	if (state != ODEBUG_STATE_ACTIVE)
		return false;
	WRITE_ONCE(refused, addr);
	return true;
}

/* Free of an active timeout. */
static bool fixup_free(void *addr, enum debug_obj_state state)
{
	struct hwtimer_timeout *timeout = addr;

	if (state != ODEBUG_STATE_ACTIVE)
		return false;
	ops->end(timeout);
	/* Even if end() failed: debugobjects calls us again until the object is inactive. */
	hwtimer_odebug_deactivate(timeout);
	hwtimer_odebug_free(timeout);
	return true;
}

/* Use of a timeout that was never initialised. */
static bool fixup_assert_init(void *addr, enum debug_obj_state state)
{
	if (state != ODEBUG_STATE_NOTAVAILABLE)
		return false;
	ops->adopt(addr);
	return true;
}

static const struct debug_obj_descr timeout_descr = {
	.name			= "hwtimer_timeout",
	.debug_hint		= timeout_hint,
	.fixup_init		= fixup_init,
	.fixup_free		= fixup_free,
	.fixup_assert_init	= fixup_assert_init,
};

/**
 * hwtimer_odebug_set_ops - set the fixups that depend on the wheel
 * @how: fixups; set before the module uses a timeout
 */
void __init hwtimer_odebug_set_ops(const struct hwtimer_odebug_ops *how)
{
	ops = how;
}

/**
 * hwtimer_odebug_init - a timeout is about to be initialised
 * @timeout: the timeout
 *
 * Return: false if it must not be initialised, because it is active. This was reported.
 */
bool hwtimer_odebug_init(struct hwtimer_timeout *timeout)
{
	debug_object_init(timeout, &timeout_descr);
	return accepted(timeout);
}

/**
 * hwtimer_odebug_assert_init - a timeout is about to be used
 * @timeout: the timeout; if it was not initialised, this is reported and fixed up
 */
void hwtimer_odebug_assert_init(struct hwtimer_timeout *timeout)
{
	debug_object_assert_init(timeout, &timeout_descr);
}

/**
 * hwtimer_odebug_activate - the wheel holds a timeout from now on
 * @timeout: the timeout
 */
void hwtimer_odebug_activate(struct hwtimer_timeout *timeout)
{
	debug_object_activate(timeout, &timeout_descr);
}

/**
 * hwtimer_odebug_deactivate - the wheel is about to release a timeout
 * @timeout: the timeout
 */
void hwtimer_odebug_deactivate(struct hwtimer_timeout *timeout)
{
	debug_object_deactivate(timeout, &timeout_descr);
}

/**
 * hwtimer_odebug_init_on_stack - a timeout on the stack is about to be initialised
 * @timeout: the timeout
 *
 * Return: as hwtimer_odebug_init(), which may be called after this.
 */
bool hwtimer_odebug_init_on_stack(struct hwtimer_timeout *timeout)
{
	debug_object_init_on_stack(timeout, &timeout_descr);
	return accepted(timeout);
}

/**
 * hwtimer_odebug_free - a timeout is not tracked any more
 * @timeout: the timeout
 */
void hwtimer_odebug_free(struct hwtimer_timeout *timeout)
{
	debug_object_free(timeout, &timeout_descr);
}
