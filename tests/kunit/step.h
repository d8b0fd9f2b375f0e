/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the hook of step.c.
 */
#ifndef HWTIMER_KUNIT_STEP_H
#define HWTIMER_KUNIT_STEP_H

/* What hwtimer_step() calls, in whatever context it runs; NULL: nothing. */
typedef void (*hwtimer_step_hook_t)(void);
extern hwtimer_step_hook_t hwtimer_step_hook;

#endif /* HWTIMER_KUNIT_STEP_H */
