/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: random numbers, of the torture test and of all programs in tests/native.
 */
#ifndef HWTIMER_TEST_RANDOM_H
#define HWTIMER_TEST_RANDOM_H

#include <linux/types.h>

/* xorshift64* */
static inline __u32 draw(__u64 *random)
{
	*random ^= *random >> 12;
	*random ^= *random << 25;
	*random ^= *random >> 27;
	return *random * 0x2545f4914f6cdd1dULL >> 32;
}

static inline __u32 below(__u64 *random, __u32 n)
{
	return (__u64)draw(random) * n >> 32;
}

#endif /* HWTIMER_TEST_RANDOM_H */
