// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the places of a wheel with a cap: each pending timeout takes one.
 *
 * If all CPUs took places from one counter, its cache line would move between them at each
 * operation. So while many places are free, a CPU that takes one gets some more as its credit. Then
 * it takes places from its credit, and those that are given back on this CPU fill it up. Such a CPU
 * is open. A CPU that only gives back has no credit.
 *
 * When the free places run out and some are left in credits, whoever needs one closes all CPUs:
 * what was in credits is free for all again. CPUs stay closed until many places are free again;
 * then each is opened by the next one who takes a place there. After a close, at most @share places
 * per CPU are free, and it takes twice as many to open a CPU: so many have been given back in
 * between that a close, a step per possible CPU, costs little for each of them. A wheel with a
 * small cap opens no CPU.
 *
 * Places move between @free and a credit only with @lock held, and while a CPU counts as open:
 *
 *  - to a credit: the CPU counts as open before the places leave @free
 *  - from a credit: the CPU counts as open until the places are in @free
 *
 * So a refusal is exact. It reads, in this order, that no CPU is open, that no place is free, and
 * that no CPU was opened since the first read. Then all places were taken at the second one.
 *
 * percpu_counter_limited_add() has the same purpose, but modules cannot call it. It disables
 * interrupts at each call, and adds up the counters of all online CPUs for each refusal.
 */
#include <linux/irqflags.h>
#include <linux/limits.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <kunit/visibility.h>

#include "hwtimer_places.h"
#include "hwtimer_step.h"

/* The smallest and the largest credit. A smaller one would save less than a close costs. */
#define LEAST_SHARE	8
#define LARGEST_SHARE	64

/**
 * places_create - create the places of a wheel
 * @number: how many there are, at least 1; more than LONG_MAX count as LONG_MAX
 *
 * Return: the places, to be freed by places_free(), or NULL.
 */
struct places *places_create(unsigned long number)
{
	struct places *p = kzalloc(sizeof(*p), GFP_KERNEL);
	int cpu;

	if (!p)
		return NULL;
	p->credit = alloc_percpu(atomic_t);
	if (!p->credit) {
		kfree(p);
		return NULL;
	}
	for_each_possible_cpu(cpu)
		atomic_set(per_cpu_ptr(p->credit, cpu), PLACES_CLOSED);
	p->number = min_t(unsigned long, number, LONG_MAX);
	p->share = min_t(unsigned long, p->number / num_possible_cpus() / 4, LARGEST_SHARE);
	if (p->share < LEAST_SHARE)
		p->share = 0;
	p->many = p->share ? 2L * p->share * num_possible_cpus() : LONG_MAX;
	atomic_long_set(&p->free, p->number);
	raw_spin_lock_init(&p->lock);
	return p;
}
EXPORT_SYMBOL_IF_KUNIT(places_create);

/**
 * places_free - free what places_create() has returned
 * @p: the places, or NULL
 */
void places_free(struct places *p)
{
	if (!p)
		return;
	free_percpu(p->credit);
	kfree(p);
}
EXPORT_SYMBOL_IF_KUNIT(places_free);

/* Take a place, and as many as a credit has. False if not so many are free. */
static bool take_many(struct places *p)
{
	long free = atomic_long_read(&p->free);

	while (free >= p->many) {
		/* [atomic_long_try_cmpxchg: cap-open-broken-take] */
		if (atomic_long_try_cmpxchg(&p->free, &free, free - p->share - 1))
			return true;
	}
	return false;
}

/* Take a place, and give this CPU a credit. False if not enough places are free. */
static bool places_open(struct places *p, atomic_t *credit)
{
	unsigned long flags;
	bool closed, taken;

	/* [raw_spin_lock_irqsave: model cap-opened-while-closing] */
	raw_spin_lock_irqsave(&p->lock, flags);
	/* An interrupt may have opened the CPU. [atomic_dec_if_positive: place-broken-store] */
	taken = atomic_dec_if_positive(credit) >= 0;
	if (taken)
		goto unlock;
	closed = atomic_read(credit) == PLACES_CLOSED;
	if (closed)
		/* [WRITE_ONCE: cap-open-broken-take; before take_many] */
		WRITE_ONCE(p->open, p->open + PLACES_OPENING + 1);
	hwtimer_step_locked();
	taken = take_many(p);
	hwtimer_step_locked();
	if (taken)
		/* Not a store: in an open CPU, an NMI may give a place back. */
		atomic_add(p->share - (closed ? PLACES_CLOSED : 0), credit);
	else if (closed)
		WRITE_ONCE(p->open, p->open - 1);
unlock:
	raw_spin_unlock_irqrestore(&p->lock, flags);
	return taken;
}

static void places_close_one(struct places *p, atomic_t *credit)
{
	int places;

	if (atomic_read(credit) == PLACES_CLOSED)
		return;
	/* [atomic_xchg: model cap-closed-by-store] */
	places = atomic_xchg(credit, PLACES_CLOSED);
	hwtimer_step_locked();
	atomic_long_add(places, &p->free);
	hwtimer_step_locked();
	/* [smp_store_release: cap-close-broken-release] */
	smp_store_release(&p->open, p->open - 1);
}

/*
 * Close all CPUs. Each caller begins with another CPU, so that they do not all wait for the lock at
 * one CPU after the other. It is held for one CPU at a time.
 */
static void places_close(struct places *p)
{
	int cpu, own = raw_smp_processor_id();
	unsigned long flags;

	for_each_cpu_wrap(cpu, cpu_possible_mask, own) {
		atomic_t *credit = per_cpu_ptr(p->credit, cpu);

		/* For one CPU, always take the lock: to wait if another CPU is being opened. */
		if (cpu != own && atomic_read(credit) == PLACES_CLOSED)
			continue;
		raw_spin_lock_irqsave(&p->lock, flags);
		places_close_one(p, credit);
		raw_spin_unlock_irqrestore(&p->lock, flags);
	}
}

/**
 * places_take - take a place
 * @p: the places
 *
 * Context: any but NMI. Takes a spinlock and a step per possible CPU at most, unless others take
 * places and give them back all the time.
 *
 * Return: true; false if all places were taken, at some moment during the call.
 */
bool places_take(struct places *p)
{
	atomic_t *credit = raw_cpu_ptr(p->credit);
	unsigned long open;
	long free;

	/* [atomic_dec_if_positive: place-broken-store] */
	if (atomic_dec_if_positive(credit) >= 0)
		return true;
	for (;;) {
		hwtimer_step();
		/* [smp_load_acquire: cap-close-broken-acquire; before atomic_long_read] */
		open = smp_load_acquire(&p->open);
		hwtimer_step();
		free = atomic_long_read(&p->free);
		hwtimer_step();
		if (free >= p->many && places_open(p, credit))
			return true;
		/* [atomic_long_try_cmpxchg: place-broken-store] */
		if (free > 0 && atomic_long_try_cmpxchg(&p->free, &free, free - 1))
			return true;
		if (free > 0)
			continue;
		if (open & PLACES_OPEN_CPUS) {
			places_close(p);
			continue;
		}
		/* [smp_rmb: cap-open-broken-rmb; after atomic_long_read; before READ_ONCE] */
		smp_rmb();
		if (READ_ONCE(p->open) == open)
			return false;
	}
}
EXPORT_SYMBOL_IF_KUNIT(places_take);

/**
 * places_give - give back a place
 * @p: the places
 *
 * Context: any.
 */
void places_give(struct places *p)
{
	/* If the task migrates, it fills the credit of another CPU, which does no harm. */
	atomic_t *credit = raw_cpu_ptr(p->credit);
	int places = atomic_read(credit);

	while (places >= 0 && places < p->share) {
		hwtimer_step();
		/* [atomic_try_cmpxchg: model cap-given-to-closed] */
		if (atomic_try_cmpxchg(credit, &places, places + 1))
			return;
	}
	atomic_long_inc(&p->free);
}
EXPORT_SYMBOL_IF_KUNIT(places_give);
