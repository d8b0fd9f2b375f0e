/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libhwtimer: the program's part of the protocol of <linux/hwtimer.h>, on slots by index.
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

#include <linux/hwtimer.h>

/* How often a word that others keep changing is read again. */
#define TABLE_TRIES	8
#define TABLE_ARMING	((1U << HWTIMER_ARMING_BITS) - 1)
#define TABLE_COLD	__attribute__((__noinline__, cold, unused))

/**
 * struct table - a table that is mapped
 * @fd: its descriptor
 * @head: its header, and address space for all of its rings
 * @slot: its slots, and address space for more: they do not move when there are more
 * @max: for how many slots there is address space, a multiple of what GROW adds
 * @slots: how many of them are mapped
 * @rings: a bit for each ring that is mapped
 * @first: rings before this one are empty for good
 * @page: the size of a page
 * @enter: what ENTER would do, for a table that is not the kernel's; or NULL
 */
struct table {
	int			fd;
	struct hwtimer_table	*head;
	struct hwtimer_slot	*slot;
	__u32			max;
	__u32			slots;
	__u32			rings;
	__u32			first;
	size_t			page;
	int			(*enter)(struct table *t);
};

#define table_load(at)		__atomic_load_n(at, __ATOMIC_RELAXED)
#define table_store(at, value)	__atomic_store_n(at, value, __ATOMIC_RELAXED)

static inline bool table_swap(__u64 *word, __u64 old, __u64 new)
{
	/* [__atomic_compare_exchange_n: as who gets the word reads the slot after that] */
	return __atomic_compare_exchange_n(word, &old, new, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static inline bool table_swap_link(__u32 *link, __u32 old, __u32 new)
{
	/* [__atomic_compare_exchange_n: table-push-broken-program table-room-broken-release] */
	return __atomic_compare_exchange_n(link, &old, new, false, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

/* The last deadline of a word, in ns: what is later never comes. */
#define TABLE_NEVER	(((~0ULL >> HWTIMER_ARMING_BITS) - 1) << HWTIMER_UNIT_SHIFT)

/* A deadline in ns, rounded up, as a word. @arming is not 0. */
static inline __u64 table_word(__u64 deadline_ns, __u32 arming)
{
	const __u64 unit = 1ULL << HWTIMER_UNIT_SHIFT;

	if (deadline_ns > TABLE_NEVER)
		deadline_ns = TABLE_NEVER;
	return (deadline_ns + unit - 1) / unit << HWTIMER_ARMING_BITS | (arming & TABLE_ARMING);
}

/*
 * As table_word() with the arming of @old, for a deadline that is not after TABLE_NEVER. 0 if that
 * is before the one of @old, or if @old is 0.
 */
static inline __u64 table_later(__u64 old, __u64 deadline_ns)
{
	const __u64 unit = 1ULL << HWTIMER_UNIT_SHIFT;
	__u64 units = (deadline_ns + unit - 1) / unit;
	__u64 word = units << HWTIMER_ARMING_BITS | (old & TABLE_ARMING);

	return old - 1 < word ? word : 0;
}

static inline __u64 table_deadline(__u64 word)
{
	return word >> HWTIMER_ARMING_BITS << HWTIMER_UNIT_SHIFT;
}

static inline int table_enter(struct table *t)
{
	if (t->enter)
		return t->enter(t);
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

/* Have the kernel look at a slot. -ESHUTDOWN; 1: table_enter() has to follow. */
static inline int table_ask(struct table *t, __u32 index)
{
	struct hwtimer_slot *slot = &t->slot[index];
	__u64 word;

	if (table_load(&slot->visit)) {
		table_store(&slot->visit, 0);
		/*
		 * A compare-and-swap that fails need not be a barrier.
		 * [__atomic_thread_fence: table-claim-broken-program]
		 */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		table_push(t, index);
		/* [__atomic_thread_fence: table-end-broken-program table-queued-broken-program] */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	}
	if (table_load(&t->head->flags) & HWTIMER_TABLE_STOPPED)
		return -ESHUTDOWN;
	/* Others may have moved it before it was pushed, and rely on that. */
	word = table_load(&slot->word);
	return word && word < table_load(&t->head->kick_before);
}

/* The rare part of table_check(). */
static TABLE_COLD int table_ask_apart(struct table *t, __u32 index)
{
	int ret = table_ask(t, index);

	return ret > 0 ? table_enter(t) : ret;
}

/* Does the kernel look at a slot in time as it is? The caller has executed a fence since @word. */
static inline bool table_holds(struct hwtimer_slot *slot, __u64 word)
{
	__u64 visit = table_load(&slot->visit);

	return visit && word >= visit;
}

/* See that it does. -ESHUTDOWN: there is no need, the table is stopped. */
static inline int table_check(struct table *t, __u32 index, __u64 word)
{
	return table_holds(&t->slot[index], word) ? 0 : table_ask_apart(t, index);
}

/* Arm a free slot: @word is not 0. table_check() has to follow. */
static inline void table_put(struct hwtimer_slot *slot, __u64 word)
{
	/*
	 * Who takes the timeout finds what the slot says of it.
	 * [__atomic_store_n: table-data-broken-release]
	 */
	__atomic_store_n(&slot->word, word, __ATOMIC_RELEASE);
	/*
	 * [__atomic_thread_fence: table-look-broken-program table-claimed-broken-program
	 * table-queued-broken-arm table-stop-broken-arm]
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/*
 * If the table is stopped, what has just been armed is taken back, unless somebody has got it. What
 * was armed before need not be: who hands back will find it.
 */
static inline int table_arm(struct table *t, __u32 index, __u64 word)
{
	int ret;

	table_put(&t->slot[index], word);
	ret = table_check(t, index, word);
	return ret == -ESHUTDOWN && table_cancel(t, index, word) ? 0 : ret;
}

/*
 * Give a timeout, which has the arming of @word, the deadline of @word. Returns 1 if that is
 * earlier: then table_moved() has to be called. -ENOENT: it has ended.
 */
static inline int table_move(struct table *t, __u32 index, __u64 word)
{
	__u64 *at = &t->slot[index].word, old = table_load(at);

	while (old && !((old ^ word) & TABLE_ARMING)) {
		if (table_swap(at, old, word))
			return word < old;
		old = table_load(at);
	}
	return -ENOENT;
}

static inline int table_moved(struct table *t, __u32 index, __u64 word)
{
	/* [__atomic_thread_fence: table-touch-broken-program] */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return table_check(t, index, word);
}

static inline int table_touch(struct table *t, __u32 index, __u64 word)
{
	int ret = table_move(t, index, word);

	return ret > 0 ? table_moved(t, index, word) : ret;
}

/* How many slots are mapped. */
static inline __u32 table_slots(const struct table *t)
{
	/* [__atomic_load_n: as table_map() releases] */
	return __atomic_load_n(&t->slots, __ATOMIC_ACQUIRE);
}

/* End a timeout of whatever arming: its word, or 0. */
static inline __u64 table_steal(struct table *t, __u32 index)
{
	/* [__atomic_exchange_n: as one of those who exchange it gets the word] */
	return __atomic_exchange_n(&t->slot[index].word, 0, __ATOMIC_SEQ_CST);
}

/*
 * The next word of a periodic timeout that was due at @word, or 0 to end it. Somebody else may have
 * taken it meanwhile; then the result is not used.
 */
typedef __u64 (*table_next_t)(void *data, __u32 index, __u64 word);

/**
 * table_look - look at a slot: is it due?
 * @t: the table
 * @index: the slot, which is mapped
 * @now_ns: the time on the clock of the table
 * @next: for periodic timeouts, or NULL
 * @data: for @next
 *
 * Return: the word of the timeout that was taken, or 0.
 */
static inline __u64 table_look(struct table *t, __u32 index, __u64 now_ns, table_next_t next,
			       void *data)
{
	__u64 *at = &t->slot[index].word, word = table_load(at), new;
	int tries;

	for (tries = 0; word && table_deadline(word) <= now_ns && tries < TABLE_TRIES; tries++) {
		new = next ? next(data, index, word) : 0;
		if (table_swap(at, word, new)) {
			/* [__atomic_thread_fence: as in table_moved()] */
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (new)
				table_check(t, index, new);
			return word;
		}
		word = table_load(at);
	}
	/*
	 * Not due, or it moves all the time: the kernel has to look again.
	 * [__atomic_thread_fence: as in table_moved()]
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (word)
		table_check(t, index, word);
	return 0;
}

/* Ring g follows g - 1, as in the kernel's view; the first one is the second half of a page. */
static inline __u32 *table_ring(const struct table *t, __u32 g)
{
	return (__u32 *)((char *)t->head + (t->page / 2 << g));
}

/* As table_peek(), but false also if it is not as simple as mostly. */
static inline bool table_first(const struct table *t, __u32 *index, __u32 *g, __u32 *head)
{
	__u32 records, tail;

	*g = table_load(&t->first);
	records = t->page / 8 << *g;
	*head = table_load(&t->head->cq_head[*g]);
	/* [__atomic_load_n: table-record-broken-acquire] */
	tail = __atomic_load_n(&t->head->cq_tail[*g], __ATOMIC_ACQUIRE);
	if (tail - *head - 1 >= records || !(table_load(&t->rings) & 1U << *g))
		return false;
	*index = table_load(table_ring(t, *g) + (*head & (records - 1)));
	return true;
}

/*
 * The next record: the slot, which may be beyond what is mapped, its ring and its place there.
 * Returns 1; 0: there is none; -EAGAIN: it is in a ring that table_map() has not mapped yet.
 */
static inline int table_peek(struct table *t, __u32 *index, __u32 *g, __u32 *head)
{
	/*
	 * Before the tails: the kernel puts nothing into an older ring any more.
	 * [__atomic_load_n: table-ring-broken-acquire table-ring-broken-late]
	 */
	__u32 last = __atomic_load_n(&t->head->ring, __ATOMIC_ACQUIRE), tail, records, rings;

	for (*g = table_load(&t->first); *g <= last && *g < HWTIMER_MAX_RINGS; ++*g) {
		*head = table_load(&t->head->cq_head[*g]);
		/* [__atomic_load_n: table-record-broken-acquire] */
		tail = __atomic_load_n(&t->head->cq_tail[*g], __ATOMIC_ACQUIRE);
		if (*head == tail) {
			/*
			 * Others may set it back: an older value only costs time. There is a ring
			 * after it, whatever somebody else has written to @ring.
			 */
			if (*g < last && *g == table_load(&t->first) &&
			    table_load(&t->rings) >> (*g + 1))
				table_store(&t->first, *g + 1);
			continue;
		}
		/* [__atomic_load_n: as table_map_rings() releases] */
		rings = __atomic_load_n(&t->rings, __ATOMIC_ACQUIRE);
		if (!(rings & 1U << *g))
			return -EAGAIN;
		records = t->page / 8 << *g;
		/* Somebody else has written that: there are no more records than this. */
		if (tail - *head > records) {
			table_swap_link(&t->head->cq_head[*g], *head, tail - records);
			*head = tail - records;
		}
		*index = table_load(table_ring(t, *g) + (*head & (records - 1)));
		return 1;
	}
	return 0;
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

/* The bytes of address space for the header and all rings of @max slots. */
static inline size_t table_head_size(const struct table *t)
{
	size_t size = t->page;

	while (size < 2 * sizeof(__u32) * t->max)
		size *= 2;
	return size;
}

static inline void *table_reserve(size_t size)
{
	return mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Map a part of the table where address space for it was reserved. */
static inline int table_mmap(struct table *t, void *to, size_t size, off_t at)
{
	const int none = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	int ret;

	if (mmap(to, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, t->fd, at) == to)
		return 0;
	ret = -errno;
	/* The reservation is gone, and others must not get what table_close() unmaps. */
	mmap(to, size, PROT_NONE, none, -1, 0);
	return ret;
}

/* Unmap a table; the descriptor stays open. */
static inline void table_close(struct table *t)
{
	if (t->slot)
		munmap(t->slot, t->max * sizeof(*t->slot));
	if (t->head)
		munmap(t->head, table_head_size(t));
	*t = (struct table){ .fd = t->fd, .max = t->max, .page = t->page };
}

static inline int table_map_begin(struct table *t)
{
	void *head, *slot;
	int ret;

	t->max = t->max ?: HWTIMER_FREE_SLOTS;
	head = table_reserve(table_head_size(t));
	if (head == MAP_FAILED)
		return -errno;
	ret = table_mmap(t, head, t->page, 0);
	slot = ret ? MAP_FAILED : table_reserve(t->max * sizeof(*t->slot));
	if (slot == MAP_FAILED) {
		munmap(head, table_head_size(t));
		return ret ?: -ENOMEM;
	}
	t->head = head;
	t->slot = slot;
	t->rings = 1;
	return 0;
}

/* @rings: a bit for each ring that there is: GROW may skip some. */
static inline int table_map_rings(struct table *t, __u32 rings)
{
	size_t size = t->page;
	__u32 g;
	int ret;

	for (g = 1; rings >> g; g++, size *= 2) {
		if (~(rings & ~t->rings) & 1U << g)
			continue;
		if (2 * size > table_head_size(t))
			return -E2BIG;
		ret = table_mmap(t, table_ring(t, g), size, size);
		if (ret)
			return ret;
		/* [__atomic_store_n: as table_peek() acquires] */
		__atomic_store_n(&t->rings, t->rings | 1U << g, __ATOMIC_RELEASE);
	}
	return 0;
}

/*
 * Map what SETUP, or GROW since, has made, up to @max slots. Only one thread may do so at a time;
 * others may use the table meanwhile. After an error, table_close() unmaps what was mapped.
 */
static inline int table_map(struct table *t)
{
	struct hwtimer_info info;
	int ret = 0;

	if (ioctl(t->fd, HWTIMER_IOC_INFO, &info))
		return -errno;
	if (!t->slot)
		ret = table_map_begin(t);
	if (!ret)
		ret = table_map_rings(t, info.rings);
	if (info.slots > t->max)
		info.slots = t->max;
	if (ret || info.slots <= t->slots)
		return ret;
	ret = table_mmap(t, t->slot + t->slots, (info.slots - t->slots) * sizeof(*t->slot),
			 HWTIMER_OFFSET_SLOTS + (off_t)t->slots * sizeof(*t->slot));
	if (ret)
		return ret;
	/* [__atomic_store_n: as table_slots() acquires] */
	__atomic_store_n(&t->slots, info.slots, __ATOMIC_RELEASE);
	return 0;
}

#endif /* HWTIMER_TABLE_H */
