/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libhwtimer: the program's part of the protocol of <linux/hwtimer_table.h>, on slots by index.
 *
 * Whoever uses this decides which slot is whose, and gives each use of a slot another arming. All
 * functions may be called by any thread at any time, but only one thread may arm a free slot. What
 * the kernel or another program has written to the table is checked as far as memory of this
 * program depends on it.
 *
 * Functions that return int return 0 or a negative errno.
 */
#ifndef HWTIMER_TABLE_H
#define HWTIMER_TABLE_H

#include <errno.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/hwtimer_table.h>

/* How often a word that others keep changing is read again. */
#define TABLE_TRIES	8
#define TABLE_ARMING	((1U << HWTIMER_ARMING_BITS) - 1)

/**
 * struct table - a table that is mapped
 * @fd: its descriptor
 * @head: its header
 * @slot: its slots
 * @slots: how many of them are mapped
 * @ring: its rings; NULL: there is none, or it is not mapped
 * @page: the size of a page
 */
struct table {
	int			fd;
	struct hwtimer_table	*head;
	struct hwtimer_slot	*slot;
	__u32		slots;
	__u32		*ring[HWTIMER_MAX_RINGS];
	size_t			page;
};

#define table_load(at)		__atomic_load_n(at, __ATOMIC_RELAXED)
#define table_store(at, value)	__atomic_store_n(at, value, __ATOMIC_RELAXED)

static inline bool table_swap(__u64 *word, __u64 old, __u64 new)
{
	/* [__atomic_compare_exchange_n: as callers have fences where they need them] */
	return __atomic_compare_exchange_n(word, &old, new, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static inline bool table_swap_link(__u32 *link, __u32 old, __u32 new)
{
	/* [__atomic_compare_exchange_n: table-push-broken-program table-room-broken-release] */
	return __atomic_compare_exchange_n(link, &old, new, false, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

/* A deadline in ns, rounded up, as a word; what is too late never comes. @arming is not 0. */
static inline __u64 table_word(__u64 deadline_ns, __u32 arming)
{
	const __u64 last = ~0ULL >> HWTIMER_ARMING_BITS;
	__u64 units = deadline_ns >> HWTIMER_UNIT_SHIFT;

	if (deadline_ns & ((1U << HWTIMER_UNIT_SHIFT) - 1))
		units++;
	if (units > last - 1)
		units = last - 1;
	return units << HWTIMER_ARMING_BITS | (arming & TABLE_ARMING);
}

static inline __u64 table_deadline(__u64 word)
{
	return word >> HWTIMER_ARMING_BITS << HWTIMER_UNIT_SHIFT;
}

static inline int table_enter(struct table *t)
{
	return ioctl(t->fd, HWTIMER_IOC_ENTER) ? -errno : 0;
}

static inline void table_push(struct table *t, __u32 index)
{
	__u32 *next = &t->slot[index].next, head;

	if (!table_swap_link(next, HWTIMER_LINK_NONE, HWTIMER_LINK_END))
		return;
	do {
		head = table_load(&t->head->pushed);
		table_store(next, head);
	} while (!table_swap_link(&t->head->pushed, head, HWTIMER_LINK(index)));
}

/* The table is stopped: take back what has just been armed, unless somebody has got it. */
static inline int table_refuse(struct table *t, __u32 index, __u64 word)
{
	__u64 *at = &t->slot[index].word, now = table_load(at);

	while (now && !((now ^ word) & TABLE_ARMING)) {
		if (table_swap(at, now, 0))
			return -ESHUTDOWN;
		now = table_load(at);
	}
	return 0;
}

/* See that the kernel will look at a slot in time. The caller has executed a fence since @word. */
static inline int table_check(struct table *t, __u32 index, __u64 word)
{
	struct hwtimer_slot *slot = &t->slot[index];
	__u64 visit = table_load(&slot->visit);

	if (visit && word >= visit)
		return 0;
	if (visit) {
		table_store(&slot->visit, 0);
		/*
		 * A compare-and-swap that fails need not be a barrier.
		 * [__atomic_thread_fence: table-claim-broken-program]
		 */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		table_push(t, index);
	}
	/* [__atomic_thread_fence: table-end-broken-program] */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (table_load(&t->head->flags) & HWTIMER_TABLE_STOPPED)
		return table_refuse(t, index, word);
	/* Others may have moved it before it was pushed, and rely on that. */
	word = table_load(&slot->word);
	return word && word < table_load(&t->head->kick_before) ? table_enter(t) : 0;
}

/* Arm a free slot: @word is not 0. */
static inline int table_arm(struct table *t, __u32 index, __u64 word)
{
	table_store(&t->slot[index].word, word);
	/*
	 * [__atomic_thread_fence: table-look-broken-program table-claimed-broken-program
	 * table-stop-broken-arm]
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return table_check(t, index, word);
}

/* Give a timeout, which has the arming of @word, the deadline of @word. -ENOENT: it has ended. */
static inline int table_touch(struct table *t, __u32 index, __u64 word)
{
	__u64 *at = &t->slot[index].word, old = table_load(at);

	while (old && !((old ^ word) & TABLE_ARMING)) {
		if (!table_swap(at, old, word)) {
			old = table_load(at);
			continue;
		}
		if (word >= old)
			return 0;
		/* [__atomic_thread_fence: table-touch-broken-program] */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		return table_check(t, index, word);
	}
	return -ENOENT;
}

/* End a timeout. -ENOENT: it has ended already; otherwise nobody will take it. */
static inline int table_cancel(struct table *t, __u32 index, __u32 arming)
{
	__u64 *at = &t->slot[index].word, old = table_load(at);

	while (old && !((old ^ arming) & TABLE_ARMING)) {
		if (table_swap(at, old, 0))
			return 0;
		old = table_load(at);
	}
	return -ENOENT;
}

/* The next word of a periodic timeout that was due at @word, or 0 to end it. */
typedef __u64 (*table_next_t)(struct table *t, __u32 index, __u64 word);

/**
 * table_look - look at a slot: is it due?
 * @t: the table
 * @index: the slot, which is mapped
 * @now_ns: the time on the clock of the table
 * @next: for periodic timeouts, or NULL
 *
 * Return: the word of the timeout that was taken, or 0.
 */
static inline __u64 table_look(struct table *t, __u32 index, __u64 now_ns, table_next_t next)
{
	__u64 *at = &t->slot[index].word, word = table_load(at), new;
	int tries;

	for (tries = 0; word && table_deadline(word) <= now_ns && tries < TABLE_TRIES; tries++) {
		new = next ? next(t, index, word) : 0;
		if (table_swap(at, word, new)) {
			/* [__atomic_thread_fence: as in table_touch()] */
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (new)
				table_check(t, index, new);
			return word;
		}
		word = table_load(at);
	}
	/*
	 * Not due, or it moves all the time: the kernel has to look again.
	 * [__atomic_thread_fence: as in table_touch()]
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (word)
		table_check(t, index, word);
	return 0;
}

/* The next record: the slot, which may be beyond what is mapped, its ring and its place there. */
static inline bool table_peek(struct table *t, __u32 *index, __u32 *g, __u32 *head)
{
	/*
	 * Before the tails: the kernel puts nothing into an older ring any more.
	 * [__atomic_load_n: table-ring-broken-acquire table-ring-broken-late]
	 */
	__u32 last = __atomic_load_n(&t->head->ring, __ATOMIC_ACQUIRE), tail, records;

	for (*g = 0; *g <= last && *g < HWTIMER_MAX_RINGS; ++*g) {
		if (!t->ring[*g])
			continue;
		*head = table_load(&t->head->cq_head[*g]);
		/* [__atomic_load_n: table-record-broken-acquire] */
		tail = __atomic_load_n(&t->head->cq_tail[*g], __ATOMIC_ACQUIRE);
		if (*head == tail)
			continue;
		records = t->page / 8 << *g;
		*index = table_load(&t->ring[*g][*head & (records - 1)]);
		return true;
	}
	return false;
}

/* After table_look() at that slot. */
static inline void table_took(struct table *t, __u32 g, __u32 head)
{
	table_swap_link(&t->head->cq_head[g], head, head + 1);
}

/* Had a record no room? Then all slots have to be looked at, before table_walked(). */
static inline bool table_walk(struct table *t, __u32 *walked, __u32 *walk)
{
	*walked = table_load(&t->head->walked);
	/* [__atomic_load_n: table-walk-broken-acquire] */
	*walk = __atomic_load_n(&t->head->walk, __ATOMIC_ACQUIRE);
	return *walked != *walk;
}

static inline void table_walked(struct table *t, __u32 walked, __u32 walk)
{
	table_swap_link(&t->head->walked, walked, walk);
}

static inline void *table_mmap(struct table *t, size_t bytes, off_t at)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, at);

	return p == MAP_FAILED ? NULL : p;
}

/* Unmap a table; the descriptor stays open. */
static inline void table_close(struct table *t)
{
	__u32 g;

	if (t->slot)
		munmap(t->slot, t->slots * sizeof(*t->slot));
	for (g = 1; g < HWTIMER_MAX_RINGS; g++)
		if (t->ring[g])
			munmap(t->ring[g], t->page / 2 << g);
	if (t->head)
		munmap(t->head, t->page);
	*t = (struct table){ .fd = t->fd, .page = t->page };
}

/* Map what SETUP, or GROW since, has made. No other thread uses @t meanwhile. */
static inline int table_map(struct table *t)
{
	struct hwtimer_info info;
	void *slot;
	__u32 g;

	if (ioctl(t->fd, HWTIMER_IOC_INFO, &info))
		return -errno;
	if (!t->head) {
		t->head = table_mmap(t, t->page, 0);
		if (!t->head)
			return -errno;
		t->ring[0] = (__u32 *)((char *)t->head + t->page / 2);
	}
	for (g = 1; g <= info.ring && g < HWTIMER_MAX_RINGS; g++) {
		if (!t->ring[g])
			t->ring[g] = table_mmap(t, t->page / 2 << g, (off_t)(t->page / 2) << g);
		/* Those that GROW has skipped are not there. */
		if (!t->ring[g] && (g == info.ring || errno != ENXIO))
			return -errno;
	}
	if (info.slots == t->slots)
		return 0;
	slot = table_mmap(t, info.slots * sizeof(*t->slot), HWTIMER_OFFSET_SLOTS);
	if (!slot)
		return -errno;
	if (t->slot)
		munmap(t->slot, t->slots * sizeof(*t->slot));
	t->slot = slot;
	t->slots = info.slots;
	return 0;
}

#endif /* HWTIMER_TABLE_H */
