// SPDX-License-Identifier: GPL-2.0-only OR LGPL-2.1-or-later OR MIT
/*
 * hwtimer: the wheel, a hashed and hierarchical timing wheel after schemes 6 and 7 of G. Varghese
 * and A. Lauck, "Hashed and hierarchical timing wheels" (1987). With one level it is Netty's
 * HashedWheelTimer; its levels are those of the kernel's own timer wheel, but no node is taken late
 * because its slot is wide.
 *
 * The owner files nodes for ticks, and takes those whose tick has come. The wheel does not know
 * whether a node that it hands over is really due: most timeouts are pushed back or cancelled
 * before they expire, so the owner looks at each one, and drops it, lets it expire, or files it
 * again for the tick that it then has. An owner who stops taking continues later where it was.
 *
 * Levels: level 0 has slots of one tick. A slot of each further level is half as wide as the level
 * below reaches, so that it fits into that level from wherever the level stands:
 *
 *	level 0  64 slots of    1 tick   a round:    64 ticks
 *	level 1  64 slots of   32 ticks  a round:  2048 ticks
 *	level 2  64 slots of 1024 ticks  a round: 65536 ticks, and so on
 *
 * With ticks of 1 ms, 8 levels of 64 slots reach 69 years and take 19 KiB.
 *
 * A node is filed by distance, in the lowest level that reaches its tick. Level 0 reaches a round
 * ahead of @cur; each further level a round less a slot, as the slot of @cur has begun. So the
 * slots of a level hold ticks of one round, in order, and the first occupied one from the slot of
 * @cur on is due first. Only the top level also holds what is more than a round ahead: in the slot
 * of its tick, for a later round.
 *
 * Each bucket stores a tick before which none of its nodes is due, and each level a tick before
 * which none of its buckets has to be visited, so what comes next is a minimum over the levels.
 * At its tick a bucket is visited, not when its slot begins (but see below): one whose only node
 * is due late in its slot is visited once. The owner gets the nodes of a visited bucket. Those
 * of level 0 are due or, if it is the top level, for a later round; those of a higher level
 * cascade: the owner files them again, in lower levels, or by their new distance if they were
 * pushed back. Of what is due at the same tick, the highest level cascades first, and level 0
 * comes last. @cur is moved from one such tick to the next and skips what is between them.
 *
 * To cascade many nodes at the tick of their bucket would make what is due then late. So a
 * bucket with more than 1024 nodes is full: it is visited earlier, by a tick for each 1024
 * nodes, and the owner gets 1024 at each tick, which is a step. The first step does not come
 * before the level below reaches the end of the slot, so each node cascades once. (So there are
 * steps at no more ticks than a slot has. What exceeds 1024 nodes for each of these cascades at
 * the first one.) A full bucket of the top level has a second list, for nodes of later rounds,
 * which take no part in this. It becomes the list of the bucket when that is empty.
 *
 * While level 0 is visited, @cur is already the next tick, so nothing is filed for the tick that
 * is being taken; otherwise that tick might never end. On level 0, nodes that the owner files
 * again in the visited bucket, those of later rounds, keep their place before what is newly
 * filed there. So on a wheel of one level, what is filed for a tick is taken in the order of
 * filing; a node that was pushed back counts from when the owner filed it again. With more
 * levels no order within a tick is kept: nodes for one tick may come down from several levels.
 */
#ifndef HWTIMER_WHEEL_SHIM
#include <linux/bitmap.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <kunit/visibility.h>
#endif

#include "core/hwtimer_wheel.h"

static unsigned int level_slots(const struct wheel_level *l)
{
	return l->mask + 1U;
}

/* The slot of tick @tick, counted from tick 0 and, as an index, within its round. */
static u64 slot_number(const struct wheel_level *l, u64 tick)
{
	return tick >> l->shift;
}

static unsigned int slot_index(const struct wheel_level *l, u64 number)
{
	return number & l->mask;
}

static struct wheel_level *top_level(struct wheel *w)
{
	return &w->level[w->levels - 1];
}

static struct wheel_level *never_level(struct wheel *w)
{
	return &w->level[w->levels];
}

/**
 * wheel_levels - how many levels a wheel needs
 * @bits: the base-2 logarithm of the slots of each level
 * @n: how many levels there are at most; up to WHEEL_MAX_LEVELS
 * @last: the last tick that is to be within reach
 *
 * Return: the number of levels whose rounds reach @last, or @n if none does. 0 if a level has more
 * than WHEEL_MAX_BITS bits, or if a level of fewer than 2 bits has a level above it, which would
 * reach no further.
 */
unsigned int wheel_levels(const unsigned char *bits, unsigned int n, u64 last)
{
	unsigned int level, round = 0;

	for (level = 0; level < n; level++) {
		if (bits[level] > WHEEL_MAX_BITS || (level && bits[level - 1] < 2))
			return 0;
		/* A slot is half as wide as the level below reaches. */
		round += bits[level] - !!level;
		if (round >= 64 || !(last >> round))
			return level + 1;
	}
	return n;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_levels);

static size_t level_words(unsigned char bits)
{
	return BITS_TO_LONGS(1U << bits);
}

/**
 * wheel_size - how much memory the buckets of a wheel take
 * @bits: the base-2 logarithm of the slots of each level
 * @levels: number of levels, from 1 to WHEEL_MAX_LEVELS
 *
 * Return: the size in bytes.
 */
size_t wheel_size(const unsigned char *bits, unsigned int levels)
{
	size_t buckets = 1, words = 1;
	unsigned int level;

	for (level = 0; level < levels; level++) {
		buckets += 1U << bits[level];
		words += level_words(bits[level]);
	}
	/* What is for later rounds. Level 0 needs none. */
	if (levels > 1)
		buckets += 1U << bits[levels - 1];
	return buckets * sizeof(struct wheel_bucket) + words * sizeof(long);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_size);

/**
 * wheel_init - initialise a wheel
 * @w: the wheel
 * @bits: the base-2 logarithm of the slots of each level; see wheel_levels()
 * @levels: number of levels, from 1 to what wheel_levels() returns for WHEEL_NEVER
 * @memory: wheel_size() bytes, which the caller frees after the last use of the wheel
 */
void wheel_init(struct wheel *w, const unsigned char *bits, unsigned int levels, void *memory)
{
	struct wheel_bucket *b = memory;
	unsigned int level, round = 0;
	struct wheel_level *l;
	unsigned long *words;

	memset(w, 0, sizeof(*w));
	/* Not 0: the distance of WHEEL_NEVER has to be below the last reach. */
	w->cur = 1;
	w->levels = levels;
	w->step = WHEEL_STEP;
	w->visited = WHEEL_NO_BUCKET;
	INIT_LIST_HEAD(&w->visit.nodes);
	INIT_LIST_HEAD(&w->kept.nodes);
	for (level = 0; level <= levels; level++) {
		l = &w->level[level];
		l->buckets = b;
		l->next = WHEEL_NEVER;
		l->number = level;
		if (level < levels) {
			l->bits = bits[level];
			l->mask = (1U << l->bits) - 1;
			l->shift = level ? round - 1 : 0;
			/* The slot of @cur has begun, so all but one are ahead as a whole. */
			l->reach = level ? (u64)l->mask << l->shift : l->mask + 1ULL;
			/* The end of the slot has to be within reach of the level below. */
			l->lead = level ? l[-1].reach - (1ULL << l->shift) : 0;
			round = l->shift + l->bits;
		}
		for (; b < l->buckets + level_slots(l); b++) {
			INIT_LIST_HEAD(&b->nodes);
			b->count = 0;
		}
	}
	top_level(w)->reach = 1ULL << 63;
	never_level(w)->reach = WHEEL_NEVER;
	w->later = b;
	if (levels > 1)
		for (; b < w->later + level_slots(top_level(w)); b++)
			INIT_LIST_HEAD(&b->nodes);
	words = (void *)b;
	for (level = 0; level <= levels; level++) {
		l = &w->level[level];
		l->occupied = words;
		words += level_words(l->bits);
		memset(l->occupied, 0, level_words(l->bits) * sizeof(long));
	}
}
EXPORT_SYMBOL_IF_KUNIT(wheel_init);

/* The level for @tick, which is not before @cur. */
static __always_inline struct wheel_level *level_for(struct wheel *w, u64 tick)
{
	u64 distance = tick - w->cur;
	struct wheel_level *l = w->level;

	while (distance >= l->reach)
		l++;
	return l;
}

/* The tick at which to visit a bucket that is not empty. It may be over. */
static u64 bucket_tick(const struct wheel *w, const struct wheel_level *l,
		       const struct wheel_bucket *b)
{
	u64 steps;

	/* Does it cascade in steps? (Those of level 0 do not.) */
	if (likely(b->count <= w->step))
		return b->next;
	/* Those before @next. */
	steps = (b->count - 1) / w->step;
	return max(b->next - l->lead, (b->next - min(steps, l->lead)) & ~w->align);
}

/* A bucket of this level has to be visited at @tick. */
static __always_inline void level_visits(struct wheel_level *l, u64 tick, unsigned int slot)
{
	if (tick < l->next) {
		l->next = tick;
		l->first = slot;
	}
}

/* @n nodes will be added to the list, the first one of them for @tick. */
static __always_inline void bucket_add(struct wheel_level *l, struct wheel_bucket *b, u64 tick,
				       unsigned int n)
{
	unsigned int slot = b - l->buckets;

	b->count += n;
	if (list_empty(&b->nodes)) {
		b->next = tick;
		__set_bit(slot, l->occupied);
		l->in_use++;
	} else {
		b->next = min(b->next, tick);
	}
	level_visits(l, tick, slot);
}

/* Nodes were added: a bucket that is full now may be the first one of its level to be visited. */
static void bucket_added(const struct wheel *w, struct wheel_level *l, const struct wheel_bucket *b)
{
	level_visits(l, bucket_tick(w, l, b), b - l->buckets);
}

static void bucket_emptied(struct wheel_level *l, struct wheel_bucket *b)
{
	__clear_bit(b - l->buckets, l->occupied);
	l->in_use--;
	b->count = 0;
}

/* What a bucket of the top level has for later rounds; NULL for those of other levels. */
static struct wheel_bucket *later_of(const struct wheel *w, const struct wheel_level *l,
				     const struct wheel_bucket *b)
{
	return l->lead && l == &w->level[w->levels - 1] ? &w->later[b - l->buckets] : NULL;
}

/* As bucket_add(), for nodes of a bucket that are in no level: later ones, or those kept. */
static void aside_add(struct wheel_bucket *aside, u64 tick, unsigned int n)
{
	if (list_empty(&aside->nodes)) {
		aside->next = tick;
		aside->count = 0;
	}
	aside->next = min(aside->next, tick);
	aside->count += n;
}

static void aside_move(struct wheel_bucket *aside, struct wheel_bucket *from)
{
	if (list_empty(&from->nodes))
		return;
	aside_add(aside, from->next, from->count);
	list_splice_init(&from->nodes, &aside->nodes);
}

/* Move what is aside to the front of its bucket. */
static void bucket_move(const struct wheel *w, struct wheel_level *l, struct wheel_bucket *b,
			struct wheel_bucket *aside)
{
	if (!aside || list_empty(&aside->nodes))
		return;
	bucket_add(l, b, aside->next, aside->count);
	list_splice_init(&aside->nodes, &b->nodes);
	bucket_added(w, l, b);
}

static __always_inline struct wheel_bucket *bucket_for(const struct wheel_level *l, u64 tick)
{
	return &l->buckets[slot_index(l, slot_number(l, tick))];
}

/* Add a node to a full bucket. */
static noinline void node_add_to_full(struct wheel *w, struct wheel_level *l,
				      struct wheel_bucket *b, struct list_head *node, u64 tick)
{
	struct wheel_bucket *later = later_of(w, l, b);

	if (later && slot_number(l, tick) > slot_number(l, b->next)) {
		aside_add(later, tick, 1);
		list_add_tail(node, &later->nodes);
		return;
	}
	bucket_add(l, b, tick, 1);
	list_add_tail(node, &b->nodes);
	bucket_added(w, l, b);
}

static __always_inline void node_add(struct wheel *w, struct wheel_level *l,
				     struct wheel_bucket *b, struct list_head *node, u64 tick)
{
	w->filed++;
	/* Only what is sooner, or makes one step more, changes when a full bucket is visited. */
	if (unlikely(b->count >= w->step) && l->lead &&
	    (l == top_level(w) || tick < b->next || !(b->count % w->step))) {
		node_add_to_full(w, l, b, node, tick);
		return;
	}
	bucket_add(l, b, tick, 1);
	list_add_tail(node, &b->nodes);
}

/**
 * wheel_file - file a node
 * @w: the wheel
 * @node: the node, which is not filed
 * @tick: the tick for which to file it, below 2^63; one before @cur counts as @cur. WHEEL_NEVER:
 *	only wheel_take() with WHEEL_NEVER takes the node
 */
void wheel_file(struct wheel *w, struct list_head *node, u64 tick)
{
	struct wheel_level *l;

	tick = max(tick, w->cur);
	l = level_for(w, tick);
	node_add(w, l, bucket_for(l, tick), node, tick);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_file);

/**
 * wheel_file_again - file the node that was taken last
 * @w: the wheel
 * @node: what wheel_take() returned last
 * @tick: as for wheel_file()
 *
 * If @node belongs to the bucket from which it was taken, it stays there; on level 0, before
 * what was filed there since.
 */
void wheel_file_again(struct wheel *w, struct list_head *node, u64 tick)
{
	struct wheel_bucket *b;
	struct wheel_level *l;

	tick = max(tick, w->cur);
	l = level_for(w, tick);
	b = bucket_for(l, tick);
	if (b != w->visiting) {
		node_add(w, l, b, node, tick);
		return;
	}
	aside_add(&w->kept, tick, 1);
	list_add_tail(node, &w->kept.nodes);
	w->filed++;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_file_again);

/**
 * wheel_bucket - where would a node be filed now?
 * @w: the wheel
 * @tick: as for wheel_file()
 *
 * Return: the bucket.
 */
u32 wheel_bucket(struct wheel *w, u64 tick)
{
	struct wheel_level *l;

	tick = max(tick, w->cur);
	l = level_for(w, tick);
	return WHEEL_BUCKET(l->number, slot_index(l, slot_number(l, tick)));
}
EXPORT_SYMBOL_IF_KUNIT(wheel_bucket);

/**
 * wheel_unfile - remove a node
 * @w: the wheel
 * @node: the node, which is filed
 */
void wheel_unfile(struct wheel *w, struct list_head *node)
{
	struct list_head *head = node->next;
	bool last = head == node->prev;
	struct wheel_bucket *b;
	struct wheel_level *l;
	size_t offset;

	list_del(node);
	w->filed--;
	if (!last)
		return;
	/* The list is empty now. Is @head a bucket, and not another list? */
	for (l = w->level; l <= never_level(w); l++) {
		offset = (char *)head - (char *)l->buckets;
		if (offset < level_slots(l) * sizeof(struct wheel_bucket)) {
			b = &l->buckets[offset / sizeof(struct wheel_bucket)];
			bucket_emptied(l, b);
			bucket_move(w, l, b, later_of(w, l, b));
			return;
		}
	}
}
EXPORT_SYMBOL_IF_KUNIT(wheel_unfile);

/* The first occupied slot from @number on, counted from tick 0, or @end, at most a round later. */
static u64 occupied_slot(const struct wheel_level *l, u64 number, u64 end)
{
	unsigned int slots = level_slots(l), i = slot_index(l, number), found;

	found = find_next_bit(l->occupied, slots, i);
	number += found - i;
	/* From the beginning of the bitmap on. */
	if (found == slots && number < end)
		number += find_next_bit(l->occupied, end - number, 0);
	return min(number, end);
}

/* The bucket of a slot, counted from tick 0, need not be visited before this tick. */
static u64 slot_tick(const struct wheel_level *l, u64 number)
{
	u64 start = number << l->shift;

	return start - min(start, l->lead);
}

/* No bucket that an open search has not reached need be visited before this tick. */
static u64 unsearched(struct wheel *w)
{
	return slot_tick(top_level(w), top_level(w)->scan);
}

/*
 * Does the bucket @first of a level have to be visited at @next, or has no bucket been found? If
 * neither, that bucket was visited or changed since, and the level has to be searched.
 */
static bool level_searched(const struct wheel *w, const struct wheel_level *l)
{
	const struct wheel_bucket *b = &l->buckets[l->first];

	return l->next == WHEEL_NEVER ||
	       (!list_empty(&b->nodes) && bucket_tick(w, l, b) == l->next);
}

/*
 * Search a level for the bucket to visit first, and set @next and @first. Below the top level
 * that is the first occupied one, or the next one if that begins to cascade earlier. In the top
 * level, each bucket that is due in a later round takes one of @probes. The search of the top
 * level stays open, with @scanning, when @probes run out or when it gets beyond @last; the next
 * call goes on. False if @probes ran out.
 *
 * While a search is open, @next is the first of what was searched, or filed since: bucket_add()
 * sees to that. If the bucket @first was visited or emptied, the search goes on all the same, or
 * emptying buckets again and again would keep it from getting on. It ends with the last slot that
 * may have to be visited at @next, and the next search begins anew.
 */
static bool level_search(struct wheel *w, struct wheel_level *l, u64 last, unsigned int *probes)
{
	const struct wheel_bucket *b;
	u64 end;

	if (l != top_level(w) || !w->scanning) {
		l->scan = slot_number(l, w->cur);
		l->scan_end = l->scan + level_slots(l);
		l->next = WHEEL_NEVER;
	}
	while (l->in_use && l->scan < l->scan_end && slot_tick(l, l->scan) <= l->next) {
		if (l == top_level(w)) {
			w->scanning = true;
			if (unsearched(w) > last)
				return true;
		}
		end = l->scan_end;
		/* What comes after these slots is visited after @next. */
		if (l->next != WHEEL_NEVER)
			end = min(end, slot_number(l, l->next + l->lead) + 1);
		l->scan = occupied_slot(l, l->scan, end);
		if (l->scan == end)
			break;
		b = &l->buckets[slot_index(l, l->scan)];
		if (slot_number(l, b->next) > l->scan) {
			if (!*probes)
				return false;
			--*probes;
		}
		level_visits(l, bucket_tick(w, l, b), slot_index(l, l->scan));
		l->scan++;
	}
	if (l == top_level(w))
		w->scanning = false;
	return true;
}

/* The level to visit first; at equal ticks the highest one. */
static struct wheel_level *first_level(struct wheel *w)
{
	struct wheel_level *l, *first = w->level;

	for (l = first + 1; l < never_level(w); l++)
		if (l->next <= first->next)
			first = l;
	return first;
}

/* Begin a visit that hands out @n nodes at most. If that may not be all, it is a step. */
static void visit_begin(struct wheel *w, struct wheel_level *l, struct wheel_bucket *b,
			unsigned int n)
{
	w->left = n;
	w->visit.count = b->count - n;
	w->visit.next = b->next;
	/* Now the bucket is empty, so the level will have to be searched. */
	WRITE_ONCE(w->visited, WHEEL_BUCKET(l->number, b - l->buckets));
	w->visiting = b;
	list_splice_init(&b->nodes, &w->visit.nodes);
	bucket_emptied(l, b);
}

static void visit_end(struct wheel *w)
{
	struct wheel_level *l = &w->level[WHEEL_LEVEL_OF(w->visited)];
	struct wheel_bucket *b = w->visiting, *later = later_of(w, l, b);

	if (list_empty(&w->visit.nodes)) {
		bucket_move(w, l, b, &w->kept);
		bucket_move(w, l, b, later);
	} else {
		/*
		 * The end of a step. What was filed here since, and kept, is for later rounds. In
		 * levels below the top there is none: @later is NULL.
		 */
		if (!list_empty(&b->nodes)) {
			aside_move(later, b);
			bucket_emptied(l, b);
		}
		aside_move(later, &w->kept);
		bucket_move(w, l, b, &w->visit);
	}
	WRITE_ONCE(w->visited, WHEEL_NO_BUCKET);
	w->visiting = NULL;
}

/**
 * wheel_took_all - has all been taken that is due?
 * @w: the wheel
 * @last: as for wheel_take()
 *
 * Return: true if wheel_take() has returned NULL for lack of nodes, and not of budget. @last is not
 * WHEEL_NEVER.
 */
bool wheel_took_all(const struct wheel *w, u64 last)
{
	return w->visited == WHEEL_NO_BUCKET && w->cur > last;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_took_all);

/* Visit any bucket, in the order of levels and slots. False if all are empty. */
static bool visit_any(struct wheel *w)
{
	struct wheel_level *l;
	u64 number;

	for (l = w->level; l <= never_level(w); l++) {
		if (!l->in_use)
			continue;
		number = slot_number(l, w->cur);
		number = occupied_slot(l, number, number + level_slots(l));
		visit_begin(w, l, &l->buckets[slot_index(l, number)], UINT_MAX);
		return true;
	}
	return false;
}

/**
 * wheel_visit - end the visit in progress, move @cur, and begin the next visit
 * @w: the wheel
 * @last: as for wheel_take(), which alone calls this
 * @budget: likewise
 *
 * Return: false if nothing is left up to @last, and @cur is after it, or if the budget ran out.
 */
bool wheel_visit(struct wheel *w, u64 last, unsigned int *budget)
{
	struct wheel_bucket *b;
	struct wheel_level *l;

	if (w->visited != WHEEL_NO_BUCKET)
		visit_end(w);
	if (last == WHEEL_NEVER)
		return visit_any(w);
	while (*budget) {
		if (w->scanning && unsearched(w) <= last &&
		    !level_search(w, top_level(w), last, budget))
			break;
		l = first_level(w);
		if (l->next > last) {
			w->cur = max(w->cur, last + 1);
			break;
		}
		if (level_searched(w, l)) {
			/* While level 0 is visited, its tick has begun. */
			w->cur = max(w->cur, l == w->level ? l->next + 1 : l->next);
			b = &l->buckets[l->first];
			visit_begin(w, l, b, w->cur < b->next ? w->step : UINT_MAX);
			return true;
		}
		level_search(w, l, last, budget);
	}
	return false;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_visit);

/**
 * wheel_next - until when is there nothing to take?
 * @w: the wheel
 * @last: the last tick that matters: the search goes no further
 * @probes: how many buckets of later rounds to skip; with 0 there is no progress. If they do not
 *	suffice, the result is the first tick that was not searched, and the next call goes on
 *
 * Return: a tick before which wheel_take() returns no node. If it is not after @last, it may return
 * one then. WHEEL_NEVER: there is nothing to take at any tick.
 */
u64 wheel_next(struct wheel *w, u64 last, unsigned int probes)
{
	struct wheel_level *l;
	u64 first = WHEEL_NEVER;

	if (w->visited != WHEEL_NO_BUCKET)
		return w->cur;
	for (l = w->level; l < top_level(w); l++) {
		if (!level_searched(w, l))
			level_search(w, l, WHEEL_NEVER, &probes);
		first = min(first, l->next);
	}
	while ((l->next <= last && !level_searched(w, l)) || (w->scanning && unsearched(w) <= last))
		if (!level_search(w, l, last, &probes))
			break;
	if (w->scanning)
		first = min(first, unsearched(w));
	/* The slot where the search goes on may have begun. */
	return max(w->cur, min(first, l->next));
}
EXPORT_SYMBOL_IF_KUNIT(wheel_next);

static unsigned int copy_nodes(const struct wheel_bucket *b, struct list_head **nodes,
			       unsigned int n, unsigned int max)
{
	struct list_head *node;

	for (node = b->nodes.next; node != &b->nodes && n < max; node = node->next)
		nodes[n++] = node;
	return n;
}

/**
 * wheel_list - look at the nodes of a bucket
 * @w: the wheel
 * @bucket: the bucket
 * @nodes: filled with the first nodes of the bucket
 * @max: length of @nodes
 *
 * Return: how many of @nodes were filled in.
 */
unsigned int wheel_list(const struct wheel *w, u32 bucket, struct list_head **nodes,
			unsigned int max)
{
	const struct wheel_level *l = &w->level[WHEEL_LEVEL_OF(bucket)];
	const struct wheel_bucket *b = &l->buckets[WHEEL_SLOT_OF(bucket)];
	const struct wheel_bucket *later = later_of(w, l, b);
	unsigned int n = 0;

	if (bucket == w->visited) {
		n = copy_nodes(&w->visit, nodes, n, max);
		n = copy_nodes(&w->kept, nodes, n, max);
	}
	n = copy_nodes(b, nodes, n, max);
	return later ? copy_nodes(later, nodes, n, max) : n;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_list);

/**
 * wheel_occupied - are there nodes in a bucket?
 * @w: the wheel
 * @bucket: the bucket
 *
 * Others than the owner may call this; the answer may be out of date then.
 *
 * Return: true if there are, or if the bucket is being visited.
 */
bool wheel_occupied(const struct wheel *w, u32 bucket)
{
	const struct wheel_level *l = &w->level[WHEEL_LEVEL_OF(bucket)];

	return READ_ONCE(w->visited) == bucket || test_bit(WHEEL_SLOT_OF(bucket), l->occupied);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_occupied);
