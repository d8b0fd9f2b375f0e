/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libhwtimer: the table of timeouts. Private to libhwtimer.c, which includes it once.
 *
 * The timeouts are in chunks of CHUNK. A chunk is mapped when the table grows, never moves, and is
 * unmapped when the table shrinks; an id is looked up in an array of pointers to chunks. This array
 * and the bitmaps have their full size from the beginning, but only the pages that are used take
 * memory. Chunks that were mapped together may share pages, which may be larger than a chunk.
 *
 * Free timeouts are either on a short stack, or set in a bitmap. A timeout is taken from the stack,
 * the last freed one first, because it is most likely in the cache, and because the stack tells
 * which ones are next, so that they can be fetched early. When the stack is empty it is filled with
 * the lowest free timeouts of the bitmap. When it is full its older half goes to the bitmap, as do
 * high ones while few are used. So low indexes are preferred, and chunks at the end become free.
 * Each bit of levels[n + 1] says whether a word of levels[n] is not 0.
 *
 * When a chunk is unmapped, the largest tag in it is kept, and its timeouts go on from there if it
 * is mapped again: no id is used twice.
 */
#ifndef TIMEOUTS_H
#define TIMEOUTS_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libhwtimer.h"

#define MAX_TIMEOUTS	0x1000000U	/* what an id can number */
/* Timeouts of a chunk. Tests have smaller ones, and pages of other sizes. */
#ifndef CHUNK
#define CHUNK		1024U
#endif
#ifndef PAGE_BYTES
#define PAGE_BYTES	sysconf(_SC_PAGESIZE)
#endif
/*
 * A table grows by its size, and shrinks at once, but at most by this at a time, to bound for how
 * long other threads wait.
 */
#define GROW_MOST	(16 * CHUNK)
#define LEVELS		4		/* 64^4 is MAX_TIMEOUTS */
#define FREE_STACK	64U

/* timeout.next at the end of the list */
#define NO_TIMEOUT		(~0U)

/**
 * struct repeat - the rare fields of a periodic timeout
 * @fired: valid with REPORTS_EXPIRY: when it expired
 * @overruns: valid with REPORTS_EXPIRY: overruns of the next event
 * @last: valid with REPORTS_EXPIRY: the last deadline that the next event stands for
 * @ended: valid with REPORTS_END: when it was handed back
 * @deadline: valid with REPORTS_END: the kernel's deadline at that time
 */
struct repeat {
	uint64_t	fired;
	uint64_t	overruns;
	uint64_t	last;
	uint64_t	ended;
	uint64_t	deadline;
};

/**
 * struct timeout - a timeout, or a free place for one
 * @id: its id; the last id if it is free; 0: it was never used
 * @user_data: the program's
 * @wanted: the program's deadline. Periodic: the deadline of the last expiry
 * @known: not periodic: the kernel's deadline
 * @repeat: periodic: its other fields
 * @kernel_id: valid while ARMED, without rings: the kernel's id. Periodic: valid until it is free
 * @entry: valid while ARMED, with rings, not periodic: index of the entry that armed it
 * @fired: not periodic, valid with REPORTS_EXPIRY: when it expired; 0: the kernel refused to arm it
 * @ended: not periodic, valid with REPORTS_END: when it was handed back
 * @next: valid if @listed: index of the next timeout on the list, or NO_TIMEOUT
 * @used: false: it is free
 * @periodic: it is periodic
 * @touched: it was touched since it was armed
 * @watch: it waits until the clock is set; then @periodic is set, too
 * @listed: it is on the list of timeouts that report something. It stays there even if it was
 *	cancelled or armed again meanwhile
 * @reports: REPORTS_*; 0: ARMED. If it is not periodic, at most one of them
 */
struct timeout {
	uint64_t		id;
	uint64_t		user_data;
	uint64_t		wanted;
	union {
		uint64_t	known;
		struct repeat	*repeat;
	};
	union {
		uint64_t	kernel_id;
		uint32_t	entry;
		uint64_t	fired;
		uint64_t	ended;
	};
	uint32_t		next;
	bool			used;
	bool			periodic : 1;
	bool			touched : 1;
	bool			watch : 1;
	bool			listed;
	uint8_t			reports;
};

static_assert(sizeof(struct timeout) == 48, "size of a timeout");

/**
 * struct table - the timeouts of a handle
 * @chunks: the chunks; NULL: not mapped
 * @free: stack of free timeouts
 * @nr_free: its length
 * @size: there are timeouts 0 to @size - 1
 * @in_bitmap: how many of them are free, and not on the stack
 * @high: timeouts from this index on go to the bitmap when they become free
 * @peak: at least as many as were used at once since @peak was last set
 * @periodic: how many periodic ones are used
 * @most: @size does not exceed it
 * @levels: bitmaps, see above
 * @tags: for each chunk, the largest tag that its timeouts had when it was unmapped, as an id
 * @map: the mapping of all arrays but @free
 * @map_size: its size
 */
struct table {
	struct timeout	**chunks;
	uint32_t	free[FREE_STACK];
	uint32_t	nr_free;
	uint32_t	size;
	uint32_t	in_bitmap;
	uint32_t	high;
	uint32_t	peak;
	uint32_t	periodic;
	uint32_t	most;
	uint64_t	*levels[LEVELS];
	uint64_t	*tags;
	void		*map;
	size_t		map_size;
};

static inline uint32_t nr_chunks(uint32_t timeouts)
{
	return (timeouts + CHUNK - 1) / CHUNK;
}

static inline struct timeout *timeout_at(const struct table *t, uint32_t index)
{
	return &t->chunks[index / CHUNK][index % CHUNK];
}

static inline uint32_t index_of(const struct timeout *timeout)
{
	return HWTIMER_ID_INDEX(timeout->id);
}

/* How many timeouts are used. */
static inline uint32_t nr_live(const struct table *t)
{
	return t->size - t->in_bitmap - t->nr_free;
}

static void *map_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	return p;
}

/* Make a table for up to @most timeouts, without any so far. */
static int table_init(struct table *t, uint32_t most)
{
	size_t words[LEVELS] = { ((size_t)most + 63) / 64 }, all = words[0];
	uint64_t *p;
	int i;

	for (i = 1; i < LEVELS; i++) {
		words[i] = (words[i - 1] + 63) / 64;
		all += words[i];
	}
	t->map_size = (all + nr_chunks(most)) * sizeof(*p) + nr_chunks(most) * sizeof(*t->chunks);
	p = map_memory(t->map_size);
	if (!p)
		return -ENOMEM;
	t->map = p;
	t->most = most;
	for (i = 0; i < LEVELS; i++) {
		t->levels[i] = p;
		p += words[i];
	}
	t->tags = p;
	t->chunks = (struct timeout **)(p + nr_chunks(most));
	return 0;
}

/*
 * Unmap a chunk, and the rest of its last page, which belongs to the chunks after it: those were
 * unmapped before. The first page remains if a part of it belongs to the chunk before it.
 */
static void unmap_chunk(struct timeout *timeouts)
{
	uintptr_t mask = PAGE_BYTES - 1, from = ((uintptr_t)timeouts + mask) & ~mask,
		  to = ((uintptr_t)(timeouts + CHUNK) + mask) & ~mask;

	if (from < to)
		munmap((void *)from, to - from);
}

static void table_destroy(struct table *t)
{
	struct timeout *timeout;
	uint32_t i;

	if (!t->map)
		return;
	for (i = 0; t->periodic && i < t->size; i++) {
		timeout = timeout_at(t, i);
		if (timeout->used && timeout->periodic) {
			free(timeout->repeat);
			t->periodic--;
		}
	}
	for (i = nr_chunks(t->size); i--;)
		unmap_chunk(t->chunks[i]);
	munmap(t->map, t->map_size);
}

static void set_free(struct table *t, uint32_t index)
{
	uint64_t before;
	int i;

	t->in_bitmap++;
	for (i = 0; i < LEVELS; i++, index /= 64) {
		before = t->levels[i][index / 64];
		t->levels[i][index / 64] = before | 1ULL << index % 64;
		if (before)
			break;
	}
}

/* Clear bit @index of levels[@i], and what says that its word is not 0. */
static void set_used(struct table *t, int i, uint32_t index)
{
	for (; i < LEVELS; i++, index /= 64) {
		t->levels[i][index / 64] &= ~(1ULL << index % 64);
		if (t->levels[i][index / 64])
			break;
	}
}

/* While few are used, high ones do not stay on the stack, where they would soon be used again. */
static void set_high(struct table *t)
{
	t->high = 2 * nr_live(t) + CHUNK;
}

/* Fill the lower half of the empty stack with the lowest free timeouts, the lowest on top. */
static void fill_stack(struct table *t)
{
	uint32_t n = t->in_bitmap < FREE_STACK / 2 ? t->in_bitmap : FREE_STACK / 2, word;
	uint64_t bits;
	int i;

	t->in_bitmap -= n;
	t->nr_free = n;
	while (n) {
		for (word = 0, i = LEVELS; --i;)
			word = word * 64 + __builtin_ctzll(t->levels[i][word]);
		for (bits = t->levels[0][word]; bits && n; bits &= bits - 1)
			t->free[--n] = word * 64 + __builtin_ctzll(bits);
		t->levels[0][word] = bits;
		if (!bits)
			set_used(t, 1, word);
	}
	if (nr_live(t) + t->nr_free > t->peak)
		t->peak = nr_live(t) + t->nr_free;
	set_high(t);
}

/* Return the oldest @n on the stack to the bitmap. */
static void empty_stack(struct table *t, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		set_free(t, t->free[i]);
	t->nr_free -= n;
	memmove(t->free, t->free + n, t->nr_free * sizeof(*t->free));
	set_high(t);
}

/* Timeout @index becomes free. */
static inline void put_free(struct table *t, uint32_t index)
{
	if (index >= t->high) {
		set_free(t, index);
		return;
	}
	if (t->nr_free == FREE_STACK)
		empty_stack(t, FREE_STACK / 2);
	t->free[t->nr_free++] = index;
}

/* The size to which a full table should grow. */
static uint32_t table_wish(const struct table *t)
{
	uint32_t more = t->size < CHUNK ? CHUNK - t->size : t->size;

	if (more > GROW_MOST)
		more = GROW_MOST;
	return more < t->most - t->size ? t->size + more : t->most;
}

/* Grow to @size. Returns false if there is no memory. */
static bool table_grow(struct table *t, uint32_t size)
{
	uint32_t first = nr_chunks(t->size), end = nr_chunks(size), chunk, i;
	struct timeout *timeouts = NULL;

	if (end > first) {
		timeouts = (struct timeout *)map_memory((end - first) * CHUNK * sizeof(*timeouts));
		if (!timeouts)
			return false;
	}
	for (chunk = first; chunk < end; chunk++, timeouts += CHUNK) {
		t->chunks[chunk] = timeouts;
		for (i = 0; t->tags[chunk] && i < CHUNK; i++)
			timeouts[i].id = t->tags[chunk] | (chunk * CHUNK + i);
	}
	while (t->size < size)
		set_free(t, t->size++);
	return true;
}

/* Unmap the last chunk if none of its timeouts is used or on a list. The stack is empty. */
static bool unmap_last(struct table *t)
{
	uint32_t chunk = nr_chunks(t->size) - 1, n = t->size - chunk * CHUNK, i;
	struct timeout *timeouts = t->chunks[chunk];
	uint64_t tag = 0;

	for (i = 0; i < n; i++) {
		if (timeouts[i].used || timeouts[i].listed)
			return false;
		if (timeouts[i].id > tag)
			tag = timeouts[i].id;
	}
	t->tags[chunk] = tag & ~(uint64_t)0xffffff;
	t->in_bitmap -= n;
	while (n--)
		set_used(t, 0, --t->size);
	t->chunks[chunk] = NULL;
	unmap_chunk(timeouts);
	return true;
}

/*
 * Shrink to about @size, but no further than to the first chunk, or to the last that is in use.
 * Returns true if there is more to do.
 */
static bool table_shrink(struct table *t, uint32_t size)
{
	uint32_t n;

	empty_stack(t, t->nr_free);
	for (n = 0; nr_chunks(t->size) > nr_chunks(size) && t->size > CHUNK; n++)
		if (n == GROW_MOST / CHUNK || !unmap_last(t))
			return n == GROW_MOST / CHUNK;
	return false;
}

#endif /* TIMEOUTS_H */
