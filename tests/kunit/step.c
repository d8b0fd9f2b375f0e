// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what happens between the steps of the protocol, in the module that KUnit tests:
 * hwtimer_step.h.
 */
#include <linux/compiler.h>
#include <linux/export.h>
#include <kunit/visibility.h>

#include "../../core/hwtimer_step.h"
#include "step.h"

hwtimer_step_hook_t hwtimer_step_hook;
EXPORT_SYMBOL_IF_KUNIT(hwtimer_step_hook);

void hwtimer_step(void)
{
	hwtimer_step_hook_t hook = READ_ONCE(hwtimer_step_hook);

	if (unlikely(hook))
		hook();
}

void hwtimer_step_stall(void)
{
	hwtimer_step();
}

/* No test steps in here. */
void hwtimer_step_locked(void)
{
}
