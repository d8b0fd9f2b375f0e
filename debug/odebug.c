// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: timeouts for debugobjects, as kernel/time/timer.c does it for timers.
 * Built with CONFIG_DEBUG_OBJECTS only. When a timeout is active, and why this needs
 * no lock, is in debug/odebug.h.
 *
 * Reported, each with the name of the callback:
 *
 *	init of an active one	nothing is changed, its arming goes on
 *	free of an active one	its arming is ended; where the kernel may sleep, the
 *				wheel has let go when the memory is freed
 *	use of one that was	it is given to a wheel that was stopped, so arming
 *	never initialised	it fails with -ESHUTDOWN
 *
 * What leaves the tracking as it should: freeing the memory (DEBUG_OBJECTS_FREE drops
 * what is not active), and hwtimer_destroy_on_stack(). So memory that comes from
 * an allocator needs hwtimer_init() each time, be it that a constructor of a
 * kmem_cache did it once; static memory and such as is kept by its owner may
 * be initialised again and again.
 */
#include <linux/cache.h>
#include <linux/debugobjects.h>
#include <linux/init.h>

#include "odebug.h"

/* Set when the module is loaded: what has to know the wheel. */
static const struct hwtimer_odebug_ops *ops __ro_after_init;

/*
 * What the fixup of an init says to who wanted it, on the same CPU or not. When two
 * CPUs are wrong at the same moment, one may not get to know and goes on; both
 * are reported.
 */
static struct hwtimer_timeout *refused;

static bool accepted(struct hwtimer_timeout *timeout)
{
	return likely(READ_ONCE(refused) != timeout) ||
	       cmpxchg(&refused, timeout, NULL) != timeout;
}

static void *timeout_hint(void *addr)
{
	struct hwtimer_timeout *timeout = addr;

	return READ_ONCE(timeout->fn);
}

/* An active one is initialised. The worker has it linked: leave it alone. */
static bool fixup_init(void *addr, enum debug_obj_state state)
{
	if (state != ODEBUG_STATE_ACTIVE)
		return false;
	WRITE_ONCE(refused, addr);
	return true;
}

/* An active one is freed. */
static bool fixup_free(void *addr, enum debug_obj_state state)
{
	struct hwtimer_timeout *timeout = addr;

	if (state != ODEBUG_STATE_ACTIVE)
		return false;
	ops->end(timeout);
	/* Whatever came of it: debugobjects asks until it is not active. */
	hwtimer_odebug_deactivate(timeout);
	hwtimer_odebug_free(timeout);
	return true;
}

/* Nobody has initialised it. */
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
 * hwtimer_odebug_set_ops - say how mistakes are mended
 * @how: operations; not used before the module uses a timeout
 */
void __init hwtimer_odebug_set_ops(const struct hwtimer_odebug_ops *how)
{
	ops = how;
}

/**
 * hwtimer_odebug_init - a timeout is about to be initialised
 * @timeout: the timeout
 *
 * Return: false if it must not be, which has been reported.
 */
bool hwtimer_odebug_init(struct hwtimer_timeout *timeout)
{
	debug_object_init(timeout, &timeout_descr);
	return accepted(timeout);
}

/**
 * hwtimer_odebug_assert_init - a timeout is about to be used
 * @timeout: the timeout, initialised when this returns
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
 * hwtimer_odebug_deactivate - the wheel is about to let go of a timeout
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
 * Return: as hwtimer_odebug_init(), which may be called after this, too.
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
