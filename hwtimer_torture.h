/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: where one step of the lock-free protocol ends and another CPU's may come in
 * between, the torture test makes that last longer. Nothing at all in other builds.
 */
#ifndef HWTIMER_TORTURE_H
#define HWTIMER_TORTURE_H

#ifdef HWTIMER_TORTURE
void hwtimer_torture_delay(void);
void hwtimer_torture_stall(void);
#else
static inline void hwtimer_torture_delay(void) { }
static inline void hwtimer_torture_stall(void) { }
#endif

#endif /* HWTIMER_TORTURE_H */
