/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the places of a wheel with a cap, see hwtimer_places.c.
 */
#ifndef HWTIMER_PLACES_H
#define HWTIMER_PLACES_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/threads.h>
#include <linux/types.h>

/* The credit of a CPU that is closed. */
#define PLACES_CLOSED		(-1)

/*
 * @open of struct places has the number of open CPUs in its low bits. Above them it counts how
 * often a CPU was to be opened.
 */
#define PLACES_OPEN_CPUS	(2 * roundup_pow_of_two(CONFIG_NR_CPUS) - 1UL)
#define PLACES_OPENING		(PLACES_OPEN_CPUS + 1)

/**
 * struct places - the places of a wheel
 * @number: how many there are. Constant
 * @share: how many places a CPU gets as its credit, and up to how many it keeps there of those that
 *	are given back; 0: no CPU gets a credit. Constant
 * @many: a CPU gets a credit only if so many places are free. Constant
 * @credit: the credit of each CPU, changed by atomic operations; from and to PLACES_CLOSED only
 *	with @lock held
 * @free: the number of places that are neither taken nor in a credit
 * @open: see PLACES_OPEN_CPUS. Written with @lock held
 * @lock: held while places move between @free and a credit
 */
struct places {
	unsigned long		number;
	int			share;
	long			many;
	atomic_t __percpu	*credit;

	atomic_long_t		free ____cacheline_aligned;
	unsigned long		open;
	raw_spinlock_t		lock;	/* see above */
};

struct places *places_create(unsigned long number);
void places_free(struct places *p);
bool places_take(struct places *p);
void places_give(struct places *p);

/* For tests: how many places are taken, if nobody takes or gives back one meanwhile. */
static inline unsigned long places_taken(const struct places *p)
{
	unsigned long taken;
	int cpu;

	if (!p)
		return 0;
	taken = p->number - atomic_long_read(&p->free);
	for_each_possible_cpu(cpu)
		taken -= max(atomic_read(per_cpu_ptr(p->credit, cpu)), 0);
	return taken;
}

#endif /* HWTIMER_PLACES_H */
