// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the hooks between the steps of the protocol, for KUnit only: hwtimer_step.h.
 */
#include <linux/export.h>
#include <kunit/visibility.h>

#include "../../core/hwtimer_step.h"

hwtimer_step_hook_t hwtimer_step_hook;
EXPORT_SYMBOL_IF_KUNIT(hwtimer_step_hook);
