// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the memory of a table: pages that the kernel uses by their own addresses, and that
 * programs map.
 *
 *	offset			bytes		what
 *	0			page / 2	struct hwtimer_table
 *	page / 2 << g		page / 2 << g	ring g; the first one is in the page of the header
 *	HWTIMER_OFFSET_SLOTS	32 a slot	the slots
 *
 * Beside each slot there is a node, by which the kernel files it; programs do not see these. Slots
 * and nodes never move. When there are more slots than the ring in use has records, the next ring
 * gets a record for each slot. The old one stays, for programs to take what is in it.
 *
 * What the kernel needs to rely on it does not read from shared pages.
 */
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "../core/hwtimer_compat.h"
#include "../core/hwtimer_step.h"
#include "area.h"
#include "memory.h"

static_assert(sizeof(struct hwtimer_slot) == 32);
static_assert(offsetof(struct hwtimer_table, pushed) == 64);
static_assert(offsetof(struct hwtimer_table, cq_head) == 128);
static_assert(offsetof(struct hwtimer_table, cq_tail) == 256);
static_assert(sizeof(struct hwtimer_table) == 416);
static_assert(HWTIMER_MAX_RINGS <= 32);

/* How many records ring @g has. */
static u64 ring_size(u32 g)
{
	return (u64)PAGE_RECORDS / 2 << g;
}

/**
 * hwtimer_area_create - a table without slots
 * @user: who is charged
 *
 * Return: the table, or NULL.
 */
struct area *hwtimer_area_create(struct memory_user *user)
{
	struct area *a = kzalloc(sizeof(*a), GFP_MEMORY);

	if (!a)
		return NULL;
	a->table = hwtimer_memory_page(user);
	if (!a->table) {
		kfree(a);
		return NULL;
	}
	a->table->wake_at = ~0ULL;
	a->table->kick_before = ~0ULL;
	a->table->pushed = HWTIMER_LINK_END;
	a->chain = HWTIMER_LINK_END;
	a->ring[0].records = (void *)a->table + PAGE_SIZE / 2;
	a->ring[0].mask = ring_size(0) - 1;
	return a;
}

/**
 * hwtimer_area_free - free a table, which no program has mapped any more
 * @a: the table
 * @user: who was charged
 */
void hwtimer_area_free(struct area *a, struct memory_user *user)
{
	u32 i;

	hwtimer_memory_pages_free(a->slots, a->nr / PAGE_SLOTS, user);
	hwtimer_memory_pages_free(a->nodes, a->nr / PAGE_NODES, user);
	for (i = 1; i <= a->last; i++)
		hwtimer_memory_pages_free(a->ring[i].pages, a->ring[i].nr_pages, user);
	hwtimer_memory_page_free(a->table, user);
	kfree(a);
}

/* Make a ring with a record for each slot, if the one in use has fewer. */
static int area_ring_add(struct context *c, u32 slots)
{
	struct area *a = c->data;
	struct area_ring new = { };
	u32 g = a->last, i;

	while (ring_size(g) < slots)
		g++;
	if (g == a->last)
		return 0;
	new.mask = ring_size(g) - 1;
	i = DIV_ROUND_UP(ring_size(g), PAGE_RECORDS);
	new.pages = kvcalloc(i, sizeof(*new.pages), GFP_MEMORY);
	if (!new.pages)
		return -ENOMEM;
	while (new.nr_pages < i) {
		void *page = fatal_signal_pending(current) ? NULL : hwtimer_memory_page(c->user);

		if (!page) {
			hwtimer_memory_pages_free(new.pages, new.nr_pages, c->user);
			return -ENOMEM;
		}
		new.pages[new.nr_pages++] = page;
		cond_resched();
	}
	spin_lock(&c->lock);
	/*
	 * slots_unread() may read @last, and then @tail, which is 0 in a new ring, without the
	 * lock.
	 */
	a->ring[g].pages = new.pages;
	a->ring[g].nr_pages = new.nr_pages;
	a->ring[g].mask = new.mask;
	WRITE_ONCE(a->last, g);
	/*
	 * A program that finds the new ring in use finds all of the old one.
	 * [smp_store_release: table-ring-broken-release]
	 */
	smp_store_release(&a->table->ring, g);
	spin_unlock(&c->lock);
	return 0;
}

/* Make room for more pages of slots and nodes. */
static int area_reserve(struct context *c, u32 slots)
{
	struct area *a = c->data;
	u32 max = roundup_pow_of_two(slots);
	int ret;

	if (slots <= a->max)
		return 0;
	ret = hwtimer_context_reserve(c, &a->slots, a->nr / PAGE_SLOTS, max / PAGE_SLOTS) ?:
	      hwtimer_context_reserve(c, &a->nodes, a->nr / PAGE_NODES, max / PAGE_NODES);
	if (!ret)
		a->max = max;
	return ret;
}

/* Add AREA_STEP slots. */
static int area_step(struct context *c)
{
	struct hwtimer_slot *slots[AREA_STEP / PAGE_SLOTS] = { };
	struct area *a = c->data;
	struct list_head *nodes;
	u32 i, j;

	nodes = hwtimer_memory_page(c->user);
	for (i = 0; i < ARRAY_SIZE(slots); i++) {
		slots[i] = hwtimer_memory_page(c->user);
		if (!nodes || !slots[i])
			goto err;
		for (j = 0; j < PAGE_SLOTS; j++)
			slots[i][j].visit = ~0ULL;
	}
	for (i = 0; i < PAGE_NODES; i++)
		INIT_LIST_HEAD(&nodes[i]);
	set_page_private(virt_to_page(nodes), a->nr / PAGE_NODES);

	spin_lock(&c->lock);
	for (i = 0; i < ARRAY_SIZE(slots); i++)
		a->slots[a->nr / PAGE_SLOTS + i] = slots[i];
	a->nodes[a->nr / PAGE_NODES] = nodes;
	a->nr += AREA_STEP;
	WRITE_ONCE(c->slots, a->nr);
	/* [smp_store_release: as whoever walks over the slots acquires] */
	smp_store_release(&a->table->slots, a->nr);
	spin_unlock(&c->lock);
	return 0;

err:
	hwtimer_memory_page_free(nodes, c->user);
	for (i = 0; i < ARRAY_SIZE(slots); i++)
		hwtimer_memory_page_free(slots[i], c->user);
	return -ENOMEM;
}

/**
 * hwtimer_area_grow - make sure that a table has so many slots
 * @c: the context, with @control held, or before it is used
 * @slots: how many, up to HWTIMER_MAX_SLOTS
 *
 * Context: A task that may sleep.
 *
 * Return: 0; -ENOMEM, also if the task is being killed: some may have been added.
 */
int hwtimer_area_grow(struct context *c, u32 slots)
{
	struct area *a = c->data;
	int ret;

	slots = round_up(slots, (u32)AREA_STEP);
	if (slots <= a->nr)
		return 0;
	ret = area_ring_add(c, slots);
	if (!ret)
		ret = area_reserve(c, slots);
	while (!ret && a->nr < slots) {
		if (fatal_signal_pending(current))
			return -ENOMEM;
		ret = area_step(c);
		cond_resched();
	}
	return ret;
}

/* The page at an offset of the mapping, in pages, or NULL. With the lock of the context held. */
static void *area_page_at(struct area *a, unsigned long at)
{
	const unsigned long slots = HWTIMER_OFFSET_SLOTS >> PAGE_SHIFT;
	u32 g;

	if (!at)
		return a->table;
	if (at >= slots) {
		at -= slots;
		if (at >= a->nr / PAGE_SLOTS)
			return NULL;
		return a->slots[array_index_nospec(at, a->nr / PAGE_SLOTS)];
	}
	/* Ring g has the pages from 2^(g - 1) on. */
	g = ilog2(at) + 1;
	return g <= a->last && a->ring[g].mask ? a->ring[g].pages[at - (1UL << (g - 1))] : NULL;
}

/**
 * hwtimer_area_rings - which completion rings are there?
 * @a: the table, with the lock of its context held
 *
 * Return: a bit for each of them.
 */
u32 hwtimer_area_rings(const struct area *a)
{
	u32 rings = 0, g;

	for (g = 0; g <= a->last; g++)
		if (a->ring[g].mask)
			rings |= BIT(g);
	return rings;
}

/**
 * hwtimer_area_map - the mmap file operation
 * @c: the context
 * @vma: where, and which part
 *
 * Called with mmap_lock held, for which page faults wait, so it takes only a spinlock.
 *
 * Return: 0; -EINVAL: not shared; -ENXIO: @vma goes beyond the table; -ENOMEM; -EINTR.
 */
int hwtimer_area_map(struct context *c, struct vm_area_struct *vma)
{
	unsigned long addr, at = vma->vm_pgoff;
	int ret = 0;
	void *page;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTCOPY);
	for (addr = vma->vm_start; !ret && addr < vma->vm_end; addr += PAGE_SIZE) {
		/* The table may grow meanwhile; pages stay until the last close. */
		spin_lock(&c->lock);
		page = area_page_at(c->data, at++);
		spin_unlock(&c->lock);
		if (!page)
			return -ENXIO;
		ret = vm_insert_page(vma, addr, virt_to_page(page));
		cond_resched();
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return ret;
}
