// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: contexts by a table: the kernel's part of the protocol of uapi/linux/hwtimer.h.
 *
 * The deadline of a timeout is the word of its slot, which only programs write. The kernel files
 * the slot for some tick, and tells the program by @visit which words it will see in time. What the
 * program arms, moves or cancels after that needs nothing more, unless its word is before @visit:
 * then it pushes the slot. So a slot is looked at when it was pushed, and when a deadline that was
 * found in it comes, and by then it mostly has a later one.
 *
 * Pushed slots are linked through the slots themselves: the llist of other wheels, in memory that
 * both sides may write. A slot that was taken from the list is unlinked before its word is read, so
 * who finds it linked after writing a word may rely on that word being seen.
 *
 * A record in a ring, too, says "look at this slot". Who takes it decides with whoever cancels by
 * one compare-and-swap of the word; the kernel has no part in that. So it need not matter here what
 * becomes of a slot between the look and the record.
 *
 * What the pairs of accesses ensure, each with a full barrier in between on both sides:
 *
 *	a program writes	then reads		the kernel writes	then reads
 *	word			visit			visit			word
 *	word			next			next = 0		word
 *	pushed			kick_before		kick_before, wake_at	pushed
 *	word			STOPPED, visit = ~0	STOPPED, visit = ~0	(a program: word)
 *
 * The first: an arming that finds no need to push is seen, or visit is written after it was looked
 * at, and then the second look at the word finds it. That look does not go on until both agree: a
 * program that never rests would keep it busy. The slot is filed as due instead, and is looked at
 * again in its turn.
 *
 * Nothing that a program writes is trusted: links and indexes are checked, a word is just a number,
 * cq_head and walked decide only what poll(2) answers and whether a record has room, and the
 * budgets of slices bound how often anything is looked at.
 */
#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/sched/signal.h>

#include "../core/hwtimer_compat.h"
#include "../core/hwtimer_step.h"
#include "../debug/trace.h"
#include "area.h"
#include "slots.h"

/* The largest deadline of a word, in units; what is later never comes. */
#define LAST_UNIT	(U64_MAX >> HWTIMER_ARMING_BITS)

/* 64-bit accesses that are not torn, on 32-bit machines either. */
static u64 word_read(u64 *word)
{
	return atomic64_read((atomic64_t *)word);
}

static void word_write(u64 *word, u64 value)
{
	atomic64_set((atomic64_t *)word, value);
}

static u64 word_units(u64 word)
{
	return word >> HWTIMER_ARMING_BITS;
}

static u64 word_ns(u64 word)
{
	return word_units(word) << HWTIMER_UNIT_SHIFT;
}

static u64 tick_units(const struct context *c)
{
	return c->tick_ns >> HWTIMER_UNIT_SHIFT;
}

static u64 word_tick(const struct context *c, u64 word)
{
	return context_tick(c, word_ns(word));
}

/* Has the tick of a word been visited? A word may be due before, but earlier ticks come first. */
static bool word_visited(const struct context *c, u64 word)
{
	return word_tick(c, word) < c->wheel.cur;
}

/* A number of units as a word. */
static u64 units_word(u64 units)
{
	return units > LAST_UNIT ? ~0ULL : units << HWTIMER_ARMING_BITS;
}

/* The first word that is in time if the kernel looks at tick @tick. */
static u64 tick_serves(const struct context *c, u64 tick)
{
	u64 units = tick * tick_units(c);

	if (tick == WHEEL_NEVER)
		return ~0ULL;
	return units_word(units > c->late_units ? units - c->late_units : 1);
}

static void record_put(struct context *c, u32 index)
{
	struct area *a = c->data;
	u32 last = a->last, tail = a->ring[last].tail;
	struct area_ring *r = &a->ring[last];

	c->made++;
	/* [READ_ONCE: table-room-broken-check] */
	if (tail - READ_ONCE(a->table->cq_head[last]) > r->mask) {
		WRITE_ONCE(a->walk, a->walk + 1);
		/*
		 * The program sees all that we have seen in the slot.
		 * [smp_store_release: table-walk-broken-release]
		 */
		smp_store_release(&a->table->walk, a->walk);
		return;
	}
	/* Published by the release of cq_tail in slots_publish(). */
	WRITE_ONCE(*area_record(r, tail), index);
	WRITE_ONCE(r->tail, tail + 1);
	c->stats.records++;
}

/*
 * The node is not filed: look at its slot. @handed: the wheel has just handed it over. Only then is
 * a record made, so that records come in the order of ticks.
 */
static __always_inline void slot_settle(struct context *c, u32 index, struct list_head *node,
					bool handed)
{
	struct area *a = c->data;
	struct hwtimer_slot *slot = area_slot(a, index);
	u64 word = word_read(&slot->word), visit, moved;
	u64 tick = word && !c->stopped ? word_tick(c, word) : WHEEL_NEVER;
	bool due = tick < c->wheel.cur;

	if (due)
		tick = handed ? WHEEL_NEVER : c->wheel.cur;
	/* A program that has pushed it has written 0, but others may have written since. */
	visit = due && !handed ? 0 : tick_serves(c, tick);
	hwtimer_step_locked();
	word_write(&slot->visit, visit);
	/*
	 * Either we see a word that was written meanwhile, or its writer sees @visit.
	 * [smp_mb: table-look-broken-kernel table-touch-broken-kernel]
	 */
	smp_mb();
	moved = word_read(&slot->word);
	if (due && handed && moved && (moved == word || word_visited(c, moved))) {
		trace_hwtimer_context_look(c->id, index, word_ns(moved), HWTIMER_LOOK_DUE);
		context_note_late(c, word_ns(moved));
		record_put(c, index);
		return;
	}
	if (moved && moved < visit && !c->stopped) {
		word_write(&slot->visit, 0);
		tick = c->wheel.cur;
	} else if (tick == WHEEL_NEVER) {
		trace_hwtimer_context_look(c->id, index, word_ns(moved), HWTIMER_LOOK_NOTHING);
		return;
	}
	trace_hwtimer_context_look(c->id, index, word_ns(moved), HWTIMER_LOOK_FILED);
	if (handed)
		wheel_file_again(&c->wheel, node, tick);
	else
		wheel_file(&c->wheel, node, tick);
}

static __always_inline void slot_take(struct context *c, u32 index)
{
	struct list_head *node = area_node(c->data, index);

	c->stats.looks++;
	if (!list_empty(node)) {
		wheel_unfile(&c->wheel, node);
		INIT_LIST_HEAD(node);
	}
	slot_settle(c, index, node, false);
}

static bool slots_pushed(struct context *c, unsigned int *budget)
{
	struct area *a = c->data;
	unsigned int left = *budget;
	u32 chain = a->chain, index;

	while (left) {
		if (chain <= HWTIMER_LINK_END) {
			if (READ_ONCE(a->table->pushed) == HWTIMER_LINK_END)
				break;
			/* [xchg: table-push-broken-kernel] */
			chain = xchg(&a->table->pushed, HWTIMER_LINK_END);
		}
		left--;
		/* A program may have written anything. The rest of its list is lost then. */
		index = chain - HWTIMER_LINK(0);
		chain = HWTIMER_LINK_END;
		if (index >= a->nr)
			continue;
		index = array_index_nospec(index, a->nr);
		/*
		 * Before the word is read: either we see a word that was written meanwhile, or its
		 * writer finds the slot unlinked, and pushes it again.
		 * [xchg: table-claimed-broken-kernel table-claimed-broken-late
		 * table-claim-broken-kernel]
		 */
		chain = xchg(&area_slot(a, index)->next, HWTIMER_LINK_NONE);
		hwtimer_step_locked();
		slot_take(c, index);
	}
	*budget = left;
	a->chain = chain;
	/* What is pushed from now on is found by slots_publish(). */
	return chain > HWTIMER_LINK_END || READ_ONCE(a->table->pushed) != HWTIMER_LINK_END;
}

static void slots_due(struct context *c, u64 last, unsigned int *budget)
{
	struct list_head *node;

	while ((node = wheel_take(&c->wheel, last, budget))) {
		c->stats.looks++;
		INIT_LIST_HEAD(node);
		slot_settle(c, area_index(node), node, true);
	}
}

static bool slots_publish(struct context *c, u64 next)
{
	struct area *a = c->data;
	struct hwtimer_table *table = a->table;
	u64 wake_at = next == WHEEL_NEVER ? ~0ULL : units_word(next * tick_units(c));

	/*
	 * A program that finds a record finds its index, and what we have seen in the slot.
	 * [smp_store_release: table-record-broken-release]
	 */
	smp_store_release(&table->cq_tail[a->last], a->ring[a->last].tail);
	word_write(&table->wake_at, wake_at);
	word_write(&table->kick_before, next ? tick_serves(c, next) : 0);
	/*
	 * Either we see a slot that is pushed meanwhile, or who pushes it sees kick_before.
	 * [smp_mb: table-end-broken-kernel table-end-broken-order table-queued-broken-kernel; after
	 * tick_serves]
	 */
	smp_mb();
	hwtimer_step_locked();
	return READ_ONCE(table->pushed) != HWTIMER_LINK_END;
}

static bool slots_unread(const struct context *c)
{
	const struct area *a = c->data;
	u32 g = READ_ONCE(a->last) + 1;

	/* Mostly in the one in use. */
	while (g--)
		if (READ_ONCE(a->ring[g].tail) != READ_ONCE(a->table->cq_head[g]))
			return true;
	return READ_ONCE(a->walk) != READ_ONCE(a->table->walked);
}

static u64 slots_pending(struct context *c)
{
	struct area *a = c->data;
	u64 pending = 0;
	u32 i;

	for (i = 0; i < a->nr && !fatal_signal_pending(current); i++) {
		pending += !!word_read(&area_slot(a, i)->word);
		cond_resched();
	}
	return pending;
}

static int slots_describe(struct context *c, u32 index, struct hwtimer_query *q)
{
	struct area *a = c->data;
	struct hwtimer_slot *slot;
	u64 before, word;

	if (index >= a->nr)
		return -ENOENT;
	slot = area_slot(a, array_index_nospec(index, a->nr));
	before = word_read(&slot->word);
	/* [smp_rmb: as user_data is written before the word that arms] */
	smp_rmb();
	*q = (struct hwtimer_query){ .id = index, .user_data = word_read(&slot->user_data) };
	/* [smp_rmb: as user_data of the next use is written after the word that ends this one] */
	smp_rmb();
	word = word_read(&slot->word);
	q->deadline_ns = word_units(word) < LAST_UNIT - 1 ? word_ns(word) : HWTIMER_NEVER;
	/* It may have been moved, but the user data has to be that of the same arming. */
	return before && word && !((before ^ word) & ((1U << HWTIMER_ARMING_BITS) - 1));
}

static int slots_stop(struct context *c)
{
	struct area *a = c->data;
	int ret = 0;
	u32 i;

	WRITE_ONCE(a->table->flags, HWTIMER_TABLE_STOPPED);
	for (i = 0; i < a->nr && !ret; i++) {
		word_write(&area_slot(a, i)->visit, ~0ULL);
		cond_resched();
		if (fatal_signal_pending(current))
			ret = -EINTR;
	}
	/*
	 * Now the program exchanges all words: either it gets one that is written meanwhile, or the
	 * writer finds @visit, and then the flag.
	 * [smp_mb: table-stop-broken-stop table-stop-broken-visit]
	 */
	smp_mb();
	return ret;
}

static void slots_free(struct context *c)
{
	hwtimer_area_free(c->data, c->user);
}

const struct context_kind hwtimer_table_kind = {
	.name		= "table",
	.pushed		= slots_pushed,
	.due		= slots_due,
	.unread		= slots_unread,
	.publish	= slots_publish,
	.pending	= slots_pending,
	.describe	= slots_describe,
	.stop		= slots_stop,
	.free		= slots_free,
};

/**
 * hwtimer_slots_setup - make a context one by a table
 * @c: the context, before SETUP, with @control held
 * @s: what SETUP asks for; out: what it gets
 *
 * Return: 0, -EINVAL, -EPERM, -ENOMEM, -EOVERFLOW, or -EOPNOTSUPP: this machine cannot access 64
 * bits at once, or the kernel and programs see different caches.
 */
int hwtimer_slots_setup(struct context *c, struct hwtimer_setup *s)
{
	struct area *a;
	int ret;

	if (IS_ENABLED(CONFIG_GENERIC_ATOMIC64) || cpu_dcache_is_aliasing())
		return -EOPNOTSUPP;
	ret = hwtimer_context_shape(c, s);
	if (ret)
		return ret;
	/* Words have to reach further than any program will run. */
	ret = -EOVERFLOW;
	if (hwtimer_context_now(c) >> HWTIMER_UNIT_SHIFT > LAST_UNIT / 2)
		goto unshape;
	ret = -ENOMEM;
	a = hwtimer_area_create(c->user);
	if (!a)
		goto unshape;
	c->data = a;
	ret = hwtimer_area_grow(c, s->slots);
	if (ret)
		goto free;
	s->slots = a->nr;
	hwtimer_context_begin(c, &hwtimer_table_kind);
	return 0;

free:
	hwtimer_area_free(a, c->user);
	c->data = NULL;
	c->slots = 0;
unshape:
	hwtimer_context_unshape(c);
	return ret;
}
