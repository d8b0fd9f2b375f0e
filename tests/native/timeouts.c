// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhwtimer's table of timeouts against a naive one: each free timeout is found, none is given out
 * twice, no id is used twice, low indexes come first, and memory is given back.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim.h"

/* Pages of another size: only whole ones are unmapped. */
static size_t page_bytes = 4096, mapped;

static size_t whole(size_t size)
{
	return (size + page_bytes - 1) & -page_bytes;
}

static void *paged_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	size_t all = whole(size) + page_bytes, before;
	char *p = native_mmap(at, all, prot, flags, fd, offset);

	if (p == MAP_FAILED)
		return p;
	before = whole((size_t)p) - (size_t)p;
	if (before)
		native_munmap(p, before);
	native_munmap(p + before + whole(size), page_bytes - before);
	mapped += whole(size);
	return p + before;
}

static void paged_munmap(void *at, size_t size)
{
	if ((size_t)at % page_bytes || native_munmap(at, whole(size)))
		native_fail("a part of a page cannot be unmapped");
	mapped -= whole(size);
}

#undef mmap
#undef munmap
#define PAGE_BYTES	page_bytes
#define mmap		paged_mmap
#define munmap		paged_munmap
#include "timeouts.h"

#define MOST	(40 * CHUNK + 3)
#define MANY	1000000U

/* by index: its last id, and whether it is used */
static hwtimer_id last[MOST];
static bool used[MOST];

static void must(bool good, const char *what)
{
	if (!good)
		native_fail("%s", what);
}

static __u32 take(struct table *t)
{
	struct timeout *timeout;
	__u32 index;

	if (!t->nr_free) {
		if (!t->in_bitmap)
			must(table_grow(t, table_wish(t)), "not enough");
		fill_stack(t);
	}
	index = t->free[--t->nr_free];
	timeout = timeout_at(t, index);
	timeout->id = (timeout->id + HWTIMER_ID(0, 1)) | index;
	timeout->used = true;
	return index;
}

static void give(struct table *t, __u32 index)
{
	timeout_at(t, index)->used = false;
	put_free(t, index);
}

/* Shrink in steps. Each but the last one unmaps as much as it may, and no step more than that. */
static void shrink_to(struct table *t, __u32 size)
{
	__u32 before;
	bool more;

	do {
		before = nr_chunks(t->size);
		more = table_shrink(t, size);
		must(before - nr_chunks(t->size) <= GROW_MOST / CHUNK, "too much at once");
		must(!more || before - nr_chunks(t->size) == GROW_MOST / CHUNK, "too little");
	} while (more && !native_failures);
}

static __u32 highest(void)
{
	__u32 i = MOST;

	while (i && !used[i - 1])
		i--;
	return i;
}

/* Up to @most timeouts in use, which goes up and down. */
static __u64 model(void)
{
	__u64 random = seeded(0), n;
	struct table t = { 0 };
	__u32 i, wish, most = MOST;

	memset(last, 0, sizeof(last));
	memset(used, 0, sizeof(used));
	must(!table_init(&t, MOST), "not enough");
	for (n = 0; go_on(n); n++) {
		if (!below(&random, 4096))
			most = below(&random, MOST) + 1;
		i = below(&random, MOST);
		if (nr_live(&t) < most && below(&random, 8)) {
			i = take(&t);
			must(i < t.size && !used[i], "given out twice");
			must(timeout_at(&t, i)->id > last[i], "an id is used twice");
			last[i] = timeout_at(&t, i)->id;
			used[i] = true;
		} else if (used[i]) {
			give(&t, i);
			used[i] = false;
		}
		if (below(&random, 4096))
			continue;
		wish = below(&random, MOST);
		shrink_to(&t, wish);
		must(t.size >= highest(), "gave back what is used");
		must(t.size <= CHUNK || nr_chunks(t.size) <= nr_chunks(wish) ||
		     nr_chunks(t.size) == nr_chunks(highest()), "kept what is not used");
	}
	table_destroy(&t);
	must(!mapped, "memory remains mapped");
	return n;
}

/* With pages of which a chunk is a part, or not a multiple. */
static __u64 large_pages(void)
{
	__u64 n = 0;

	for (page_bytes = 16384; page_bytes <= 65536; page_bytes *= 2)
		n += model();
	page_bytes = 4096;
	return n;
}

/* Of many timeouts few remain in use, anywhere; others come and go. The high chunks become free. */
static __u64 low_first(void)
{
	__u64 random = seeded(1);
	__u32 i, n, queue[CHUNK / 2];
	struct table t = { 0 };

	must(!table_init(&t, MOST), "not enough");
	for (i = 0; i < MOST; i++)
		take(&t);
	must(t.size == MOST && table_wish(&t) == MOST, "exceeds its limit");
	for (i = 0; i < MOST; i++)
		give(&t, i);
	for (i = 0; i < CHUNK / 2; i++)
		queue[i] = take(&t);
	for (n = 0; n < 100 * CHUNK; n++) {
		i = below(&random, CHUNK / 2);
		give(&t, queue[i]);
		queue[i] = take(&t);
	}
	shrink_to(&t, CHUNK);
	must(t.size == CHUNK, "high chunks remain in use");
	table_destroy(&t);
	return n;
}

static unsigned long resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	must(file && fscanf(file, "%*u %lu", &pages) == 1, "no statm");
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

/* A timeout takes 48 bytes, and the bitmaps less than one. All of it is given back. */
static __u64 size(void)
{
	struct table t = { 0 };
	unsigned long before, full;
	__u32 i;

	must(!table_init(&t, MAX_TIMEOUTS), "not enough");
	before = resident();
	for (i = 0; i < MANY; i++)
		take(&t);
	full = resident() - before;
	native_log("%.2f bytes for each of %u timeouts", (double)full / MANY, MANY);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)
	must(full < 49UL * MANY, "too much memory");
#endif
	for (i = 0; i < MANY; i++)
		give(&t, i);
	shrink_to(&t, 0);
	must(t.size == CHUNK, "not all was given back");
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)
	must(resident() - before < MANY, "memory was not given back");
#endif
	table_destroy(&t);
	return MANY;
}

int main(int argc, char **argv)
{
	static const struct test tests[4] = {
		{ "model", model },
		{ "large_pages", large_pages },
		{ "low_first", low_first },
		{ "size", size },
	};

	return native_main(argc, argv, tests, 4);
}
