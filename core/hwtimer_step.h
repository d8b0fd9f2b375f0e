/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: hooks for tests. hwtimer_step() is called between the steps of the lock-free protocols,
 * where another CPU may come in between. The torture test delays there (tests/torture/delays.c);
 * KUnit calls a function of the test (tests/kunit/step.c). In other builds it is empty. See Kbuild.
 *
 * hwtimer_step_locked() is for places where a lock is held.
 */
#ifndef HWTIMER_STEP_H
#define HWTIMER_STEP_H

#include <linux/compiler.h>

/* What hwtimer_step() calls, in whatever context it runs; NULL: none. */
typedef void (*hwtimer_step_hook_t)(void);
extern hwtimer_step_hook_t hwtimer_step_hook;

#if defined(HWTIMER_TORTURE)
void hwtimer_step(void);
void hwtimer_step_stall(void);

static inline void hwtimer_step_locked(void)
{
	hwtimer_step();
}
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

/* No test steps in here. */
static inline void hwtimer_step_locked(void) { }
#else
static inline void hwtimer_step(void) { }
static inline void hwtimer_step_stall(void) { }
static inline void hwtimer_step_locked(void) { }
#endif

#endif /* HWTIMER_STEP_H */
