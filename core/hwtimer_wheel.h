/* SPDX-License-Identifier: GPL-2.0-only OR LGPL-2.1-or-later OR MIT */
/*
 * hwtimer: the wheel: buckets of nodes by tick. See hwtimer_wheel.c.
 *
 * A wheel has one owner, who calls its functions one at a time; wheel_occupied() alone may be
 * called by others. It knows no clock, no lock and no timeout: ticks are numbers that the owner
 * passes, and a node is a struct list_head in whatever the owner files.
 */
#ifndef HWTIMER_WHEEL_H
#define HWTIMER_WHEEL_H

#ifdef HWTIMER_WHEEL_SHIM
/* For programs: a header with what is used of the kernel here, such as hwtimer_wheel_shim.h */
#include HWTIMER_WHEEL_SHIM
#else
#include <linux/list.h>
#include <linux/types.h>
#endif

/* The most levels of a wheel, and the most bits of a level. */
#define WHEEL_MAX_LEVELS	16
#define WHEEL_MAX_BITS		16
/* So many nodes of a bucket cascade at a tick. */
#define WHEEL_STEP		1024
/* The tick that never comes. */
#define WHEEL_NEVER		U64_MAX

/*
 * The number of a bucket: its level and its slot. The bucket after the last level holds what is
 * filed for WHEEL_NEVER.
 */
#define WHEEL_BUCKET(level, slot)	((u32)(level) << WHEEL_MAX_BITS | (slot))
#define WHEEL_LEVEL_OF(bucket)		((bucket) >> WHEEL_MAX_BITS)
#define WHEEL_SLOT_OF(bucket)		((bucket) & ((1U << WHEEL_MAX_BITS) - 1))
#define WHEEL_NO_BUCKET			(~0U)

/**
 * struct wheel_bucket - the nodes of one slot, or some of them
 * @nodes: the nodes, in the order of filing, but those that a visit has kept come first
 * @next: a tick before which none of the nodes is due; undefined if there are none
 * @count: at least the number of nodes (what is removed counts until there are none); modulo 2^32
 */
struct wheel_bucket {
	struct list_head	nodes;
	u64			next;
	u32			count;
};

/**
 * struct wheel_level - one level
 * @buckets: its buckets, 1 << @bits of them
 * @occupied: bitmap: a bit is set if @nodes of the bucket is not empty
 * @in_use: how many bits are set there
 * @reach: a tick that is less than this far from @cur is filed in this level, or below. That of the
 *	top level is 2^63: it takes every tick but WHEEL_NEVER
 * @lead: by how many ticks a bucket may begin to cascade before its tick. 0 if its nodes do not
 *	cascade: in level 0, and in the one for WHEEL_NEVER
 * @scan: the slot where a search for the first bucket to visit goes on, counted from tick 0
 * @scan_end: the slot after the last one of that search
 * @next: a tick before which no bucket of this level has to be visited; but see @scanning
 * @first: the slot whose bucket has to be visited at @next. If that bucket is empty, or has to be
 *	visited at another tick, the level has to be searched. Undefined if @next is WHEEL_NEVER
 * @mask: the number of slots, less 1
 * @number: of this level; the lowest one is 0
 * @bits: the base-2 logarithm of the number of slots
 * @shift: the base-2 logarithm of the width of a slot in ticks
 */
struct wheel_level {
	struct wheel_bucket	*buckets;
	unsigned long		*occupied;
	u64			reach;
	u64			lead;
	u64			scan;
	u64			scan_end;
	u64			next;
	unsigned int		in_use;
	u16			first;
	u16			mask;
	unsigned char		number;
	unsigned char		bits;
	unsigned char		shift;
};

/**
 * struct wheel - a wheel. It must not be moved: it has list heads
 * @cur: the first tick for which level 0 has not been visited; at first 1. Nothing is filed before
 *	it
 * @filed: how many nodes the wheel holds
 * @levels: number of levels. Constant
 * @scanning: the search of the top level is open: its @next does not count the buckets that it has
 *	not reached, none of which has to be visited before the slot @scan begins
 * @visited: the number of the bucket that is being visited, or WHEEL_NO_BUCKET
 * @visiting: the same bucket, or NULL
 * @visit: what of @visited has not been handed to the owner yet. Its @count does not count @left
 * @left: how many nodes of it this visit hands out, at most. In a step, what is left then goes back
 *	to the bucket
 * @kept: what of this visit was filed again in @visited, which gets it back at the end
 * @later: for each bucket of the top level, unless that is level 0, the nodes of later rounds that
 *	were filed while it was full
 * @step: WHEEL_STEP, or what the owner sets after wheel_init(), at least 1
 * @align: a power of two, less 1: steps come at multiples of that power, or as early as they may if
 *	that is later. 0, or what the owner sets after wheel_init()
 * @level: the levels, followed by one that has the bucket for WHEEL_NEVER
 *
 * The owner may read @cur, @filed, @levels, @visited, @visit, and the @bits of each level. Others
 * may read @levels and @bits, which are constant, and @filed, which may be out of date then.
 */
struct wheel {
	u64			cur;
	unsigned long		filed;
	unsigned int		levels;
	bool			scanning;
	u32			visited;
	struct wheel_bucket	*visiting;
	struct wheel_bucket	visit;
	unsigned int		left;
	struct wheel_bucket	kept;
	struct wheel_bucket	*later;
	u64			align;
	unsigned int		step;
	struct wheel_level	level[WHEEL_MAX_LEVELS + 1];
};

unsigned int wheel_levels(const unsigned char *bits, unsigned int n, u64 last);
size_t wheel_size(const unsigned char *bits, unsigned int levels);
void wheel_init(struct wheel *w, const unsigned char *bits, unsigned int levels, void *memory);

void wheel_file(struct wheel *w, struct list_head *node, u64 tick);
void wheel_file_again(struct wheel *w, struct list_head *node, u64 tick);
void wheel_unfile(struct wheel *w, struct list_head *node);
u32 wheel_bucket(struct wheel *w, u64 tick);
bool wheel_visit(struct wheel *w, u64 last, unsigned int *budget);
bool wheel_took_all(const struct wheel *w, u64 last);
u64 wheel_next(struct wheel *w, u64 last, unsigned int probes);
unsigned int wheel_list(const struct wheel *w, u32 bucket, struct list_head **nodes,
			unsigned int max);
bool wheel_occupied(const struct wheel *w, u32 bucket);

/**
 * wheel_take - take a node that is due, or that has to cascade, out of the wheel
 * @w: the wheel
 * @last: the last tick that may be visited, below 2^63. WHEEL_NEVER empties the wheel, in no
 *	particular order; nothing may be filed after that
 * @budget: how many nodes to take, and buckets of later rounds to skip; decreased. Each visit also
 *	takes a look at each level, and a few at the bitmap of each
 *
 * If the tick of the node is @cur or later, it cascades, is for a later round, or was pushed back:
 * unless the owner drops it, it is filed by wheel_file_again() before another one is taken.
 * Otherwise the node is due. The owner may call any function of the wheel in between. Level 0 is
 * visited in the order of ticks.
 *
 * Return: the node; NULL if *@budget is 0, or if there is nothing more to take.
 */
static inline struct list_head *wheel_take(struct wheel *w, u64 last, unsigned int *budget)
{
	struct list_head *node;

	if ((list_empty(&w->visit.nodes) || !w->left) && !wheel_visit(w, last, budget))
		return NULL;
	if (!*budget)
		return NULL;
	--*budget;
	--w->left;
	node = w->visit.nodes.next;
	__list_del_entry(node);
	w->filed--;
	return node;
}

#endif /* HWTIMER_WHEEL_H */
