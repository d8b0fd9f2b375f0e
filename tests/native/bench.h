/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the files of the native benchmark share. That of the library includes it, too,
 * without the kernel.
 */
#ifndef NATIVE_BENCH_H
#define NATIVE_BENCH_H

#include <linux/types.h>

#include "shim.h"

/* Operations measured at once, before the worker runs; fewer than WHEEL_DEPTH. */
#define PORTION		1000UL
/* Conns that are not pending, and operations in a turn. */
#define IDLE		100000UL
#define SAMPLES		4096
#define DELAYS		256

/* Values of a round. */
struct samples {
	double		values[SAMPLES];
	unsigned int	n;
};

extern unsigned long pending, idle;
extern __u32 *order;		/* of accesses */
extern __u64 delays_ns[DELAYS];

__u64 now_ns(void);
void sample(struct samples *s, __u64 ns, unsigned long n);
double median(struct samples *s);
void result(const char *subject, const char *op, unsigned int threads, unsigned int round,
	    double value, const char *unit);
unsigned int turn_of(unsigned int i, unsigned int n, unsigned int round);
void *large_pages(size_t size);
__u64 settle_shared(void);

/* cases of other files */
void ring(unsigned int round);

#endif /* NATIVE_BENCH_H */
