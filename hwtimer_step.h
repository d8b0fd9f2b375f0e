/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: where one step of the lock-free protocol ends and another CPU's may come in
 * between. The torture test makes that last longer; KUnit has a hook there. Nothing at
 * all in other builds: Kbuild says which is which.
 */
#ifndef HWTIMER_STEP_H
#define HWTIMER_STEP_H

#include <linux/compiler.h>

/* For hwtimer_step() to call, in the context of who comes by: any. NULL by default. */
typedef void (*hwtimer_step_hook_t)(void);
extern hwtimer_step_hook_t hwtimer_step_hook;

#if defined(HWTIMER_TORTURE)
void hwtimer_step(void);
void hwtimer_step_stall(void);
#elif defined(HWTIMER_STEP_HOOK)
static inline void hwtimer_step(void)
{
	hwtimer_step_hook_t hook = READ_ONCE(hwtimer_step_hook);

	if (unlikely(hook))
		hook();
}

static inline void hwtimer_step_stall(void)
{
	hwtimer_step();
}
#else
static inline void hwtimer_step(void) { }
static inline void hwtimer_step_stall(void) { }
#endif

#endif /* HWTIMER_STEP_H */
