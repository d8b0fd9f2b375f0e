/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: steps for tests. hwtimer_step() is called between the steps of the lock-free protocols,
 * where another CPU may come in between; hwtimer_step_stall() where others may wait for the caller;
 * hwtimer_step_locked() where a lock is held. The torture test delays there
 * (tests/torture/delays.c); KUnit calls a function of the test (tests/kunit/step.c). In other
 * builds they are empty. See Kbuild.
 */
#ifndef HWTIMER_STEP_H
#define HWTIMER_STEP_H

#if defined(HWTIMER_TORTURE) || defined(HWTIMER_STEP_HOOK)
void hwtimer_step(void);
void hwtimer_step_stall(void);
void hwtimer_step_locked(void);
#else
static inline void hwtimer_step(void) { }
static inline void hwtimer_step_stall(void) { }
static inline void hwtimer_step_locked(void) { }
#endif

#endif /* HWTIMER_STEP_H */
