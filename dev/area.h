/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the memory of a table that is shared with programs, and what belongs to it.
 */
#ifndef HWTIMER_DEV_AREA_H
#define HWTIMER_DEV_AREA_H

#include <linux/list.h>
#include <linux/mm.h>

#include "context.h"

#define PAGE_SLOTS	(PAGE_SIZE / sizeof(struct hwtimer_slot))
#define PAGE_NODES	(PAGE_SIZE / sizeof(struct list_head))
#define PAGE_RECORDS	(PAGE_SIZE / sizeof(u32))
/* Slots come by the number that fills a page of nodes. */
#define AREA_STEP	PAGE_NODES

/**
 * struct area_ring - a completion ring
 * @pages: its records, PAGE_RECORDS in each page
 * @nr_pages: how many
 * @records: the first one, if they are in the page of the header
 * @tail: cq_tail; what the program sees is a copy
 * @mask: number of records, less 1; 0: there is no such ring
 */
struct area_ring {
	void	**pages;
	u32	nr_pages;
	u32	*records;
	u32	tail;
	u32	mask;
};

/**
 * struct area - the memory of a table
 * @table: the header, in a page of its own with ring 0
 * @slots: pages of slots
 * @nodes: pages of nodes, one for each slot
 * @nr: how many slots there are, a multiple of AREA_STEP
 * @max: how many @slots and @nodes have places for
 * @ring: the rings
 * @last: the ring in use
 * @chain: the link of the next slot of those that were taken from the list of pushed ones
 * @walk: that of the header
 */
struct area {
	struct hwtimer_table	*table;
	void			**slots;
	void			**nodes;
	u32			nr;
	u32			max;
	struct area_ring	ring[HWTIMER_MAX_RINGS];
	u32			last;
	u32			chain;
	u32			walk;
};

struct area *hwtimer_area_create(struct memory_user *user);
void hwtimer_area_free(struct area *a, struct memory_user *user);
int hwtimer_area_grow(struct context *c, u32 slots);
u32 hwtimer_area_rings(const struct area *a);
int hwtimer_area_map(struct context *c, struct vm_area_struct *vma);

static inline struct hwtimer_slot *area_slot(const struct area *a, u32 index)
{
	return (struct hwtimer_slot *)a->slots[index / PAGE_SLOTS] + index % PAGE_SLOTS;
}

static inline struct list_head *area_node(const struct area *a, u32 index)
{
	return (struct list_head *)a->nodes[index / PAGE_NODES] + index % PAGE_NODES;
}

/* The slot of a node. */
static inline u32 area_index(const struct list_head *node)
{
	return page_private(virt_to_page(node)) * PAGE_NODES +
	       offset_in_page(node) / sizeof(*node);
}

static inline u32 *area_record(const struct area_ring *r, u32 index)
{
	index &= r->mask;
	if (r->records)
		return &r->records[index];
	return (u32 *)r->pages[index / PAGE_RECORDS] + index % PAGE_RECORDS;
}

#endif /* HWTIMER_DEV_AREA_H */
