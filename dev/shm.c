// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the rings that /dev/hwtimer shares with a program.
 *
 * The program may write what it likes, when it likes, from as many threads as it likes.
 * So what the kernel has to know about the rings it keeps to itself, and
 * only shows (sq_head, sq_claimed, cq_tail, flags, sleep_until). It reads sq_tail, cq_head and
 * the entries, each of them once for each use, and checks the copy: an index by its
 * distance from ours, which is a number of entries or nonsense, whatever wrapped. The
 * entries are the caller's to check.
 *
 * Who can meet whom:
 *
 *	entry against get	smp_load_acquire() of sq_tail in hwtimer_shm_submitted()
 *				pairs with the program's release: what was written
 *				before is seen. A program that breaks that gives us
 *				an entry torn between two, each field of which is
 *				checked like any other
 *	get against reuse	smp_store_release() of sq_head in hwtimer_shm_taken()
 *				comes after the copy; pairs with the program's acquire
 *	put against read	smp_store_release() of cq_tail in hwtimer_shm_put();
 *				pairs with the program's acquire
 *	read against reuse	smp_load_acquire() of cq_head in hwtimer_shm_room(); pairs
 *				with the program's release
 *	claim against entry	sq_claimed, then a full barrier, then the entry is read;
 *				the program writes the entry, then reads sq_claimed. So
 *				we see what it wrote, or it sees that we may not
 *	sleep_until, flags	set, then a full barrier (the caller's), then a look at
 *				sq_tail or cq_head; the program does the opposite. So
 *				one of them sees what the other did
 */
#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include <kunit/visibility.h>

#include "shm.h"

static_assert(sizeof(atomic64_t) == sizeof(u64));
static_assert(sizeof(struct hwtimer_sqe) == 32);
static_assert(sizeof(struct hwtimer_record) == 48);
static_assert(sizeof(struct hwtimer_ring) == 192);
static_assert(offsetof(struct hwtimer_ring, cq_head) == 64);
static_assert(offsetof(struct hwtimer_ring, sq_head) == 128);
static_assert(offsetof(struct hwtimer_ring, sleep_until) == 144);
static_assert(offsetof(struct hwtimer_ring, sq_claimed) == 152);

/* In the mapping: the header, the submission ring, the completion ring. */
u32 hwtimer_shm_sq_offset(const struct hwtimer_shm *pair)
{
	return sizeof(struct hwtimer_ring);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_sq_offset);

u32 hwtimer_shm_cq_offset(const struct hwtimer_shm *pair)
{
	return sizeof(struct hwtimer_ring) +
	       (pair->sq_mask + 1) * sizeof(struct hwtimer_sqe);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_cq_offset);

u64 hwtimer_shm_size(const struct hwtimer_shm *pair)
{
	return PAGE_ALIGN(hwtimer_shm_cq_offset(pair) +
			  (pair->cq_mask + 1) * sizeof(struct hwtimer_record));
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_size);

/**
 * hwtimer_shm_plan - say how large rings would be, for hwtimer_shm_size()
 * @pair: out
 * @sq_entries: 1 to HWTIMER_RING_MAX, rounded up to a power of two
 * @cq_entries: the same
 */
void hwtimer_shm_plan(struct hwtimer_shm *pair, u32 sq_entries, u32 cq_entries)
{
	*pair = (struct hwtimer_shm){
		.sq_mask = roundup_pow_of_two(sq_entries) - 1,
		.cq_mask = roundup_pow_of_two(cq_entries) - 1,
	};
}

/**
 * hwtimer_shm_create - make the rings, empty
 * @pair: out
 * @sq_entries: as for hwtimer_shm_plan()
 * @cq_entries: the same
 * @gfp: how to allocate
 *
 * Context: Process context, may sleep.
 *
 * Return: 0 or -ENOMEM, and there is nothing to be freed.
 */
int hwtimer_shm_create(struct hwtimer_shm *pair, u32 sq_entries, u32 cq_entries,
		       gfp_t gfp)
{
	unsigned long i;

	hwtimer_shm_plan(pair, sq_entries, cq_entries);
	i = hwtimer_shm_size(pair) >> PAGE_SHIFT;
	pair->pages = kvcalloc(i, sizeof(*pair->pages), gfp);
	if (!pair->pages)
		return -ENOMEM;
	while (pair->nr_pages < i) {
		struct page *page = alloc_page(gfp | __GFP_ZERO);

		if (!page)
			goto err;
		pair->pages[pair->nr_pages++] = page;
	}
	pair->shared = vmap(pair->pages, pair->nr_pages, VM_MAP, PAGE_KERNEL);
	if (!pair->shared)
		goto err;
	pair->sqes = (void *)pair->shared + hwtimer_shm_sq_offset(pair);
	pair->cqes = (void *)pair->shared + hwtimer_shm_cq_offset(pair);
	hwtimer_shm_set_sleep(pair, HWTIMER_RING_IDLE);
	return 0;

err:
	hwtimer_shm_destroy(pair);
	return -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_create);

/**
 * hwtimer_shm_destroy - free the rings
 * @pair: the rings; no program has them mapped any more. Out: none, which can be freed, too
 *
 * Context: Process context, may sleep.
 */
void hwtimer_shm_destroy(struct hwtimer_shm *pair)
{
	if (pair->shared)
		vunmap(pair->shared);
	/* Somebody else may still have a reference, by process_vm_readv() and the like. */
	while (pair->nr_pages)
		put_page(pair->pages[--pair->nr_pages]);
	kvfree(pair->pages);
	*pair = (struct hwtimer_shm){ };
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_destroy);

/**
 * hwtimer_shm_map - map the rings, or a part of them, into a program
 * @pair: the rings
 * @vma: where, and which part
 *
 * Context: In the mmap file operation.
 *
 * Return: 0; -ENXIO: @vma goes beyond them; -ENOMEM.
 */
int hwtimer_shm_map(const struct hwtimer_shm *pair, struct vm_area_struct *vma)
{
	return vm_map_pages(vma, pair->pages, pair->nr_pages);
}

/**
 * hwtimer_shm_submitted - look at how far the program has submitted
 * @pair: the rings
 * @tail: out: entries from pair->sq_head on, up to this one, are there
 *
 * Return: false if the program's index cannot be.
 */
bool hwtimer_shm_submitted(const struct hwtimer_shm *pair, u32 *tail)
{
	/* Pairs with the program's release, after it wrote entries. */
	*tail = smp_load_acquire(&pair->shared->sq_tail);
	return *tail - pair->sq_head <= pair->sq_mask + 1;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_submitted);

/**
 * hwtimer_shm_claim - tell that entries will be read
 * @pair: the rings
 * @claim: those before this one
 */
void hwtimer_shm_claim(const struct hwtimer_shm *pair, u32 claim)
{
	WRITE_ONCE(pair->shared->sq_claimed, claim);
	/* Pairs with the program's, between the op of an entry and sq_claimed. */
	smp_mb();
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_claim);

/**
 * hwtimer_shm_get - copy the entry to be taken next
 * @pair: the rings; hwtimer_shm_submitted() told that it is there
 * @sqe: out
 */
void hwtimer_shm_get(const struct hwtimer_shm *pair, struct hwtimer_sqe *sqe)
{
	const struct hwtimer_sqe *from = &pair->sqes[pair->sq_head & pair->sq_mask];

	sqe->op = READ_ONCE(from->op);
	sqe->flags = READ_ONCE(from->flags);
	sqe->id = READ_ONCE(from->id);
	sqe->time = READ_ONCE(from->time);
	sqe->user_data = READ_ONCE(from->user_data);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_get);

/**
 * hwtimer_shm_taken - the program may use the places below sq_head again
 * @pair: the rings
 */
void hwtimer_shm_taken(struct hwtimer_shm *pair)
{
	/* Pairs with the program's acquire, before it writes entries. */
	smp_store_release(&pair->shared->sq_head, pair->sq_head);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_taken);

/**
 * hwtimer_shm_room - may a record be put?
 * @pair: the rings
 * @bad: out: the program's index cannot be
 *
 * Return: true if there is room.
 */
bool hwtimer_shm_room(const struct hwtimer_shm *pair, bool *bad)
{
	/* Pairs with the program's release, after it read records. */
	u32 used = pair->cq_tail - smp_load_acquire(&pair->shared->cq_head);

	*bad = used > pair->cq_mask + 1;
	return used <= pair->cq_mask;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_room);

/**
 * hwtimer_shm_put - put a record
 * @pair: the rings; there is room
 * @rec: the record
 */
void hwtimer_shm_put(struct hwtimer_shm *pair, const struct hwtimer_record *rec)
{
	pair->cqes[pair->cq_tail & pair->cq_mask] = *rec;
	WRITE_ONCE(pair->cq_tail, pair->cq_tail + 1);
	/* Pairs with the program's acquire, before it reads records. */
	smp_store_release(&pair->shared->cq_tail, pair->cq_tail);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_put);

/**
 * hwtimer_shm_unread - has the program something to read?
 * @pair: the rings; no lock needed
 *
 * Return: true if so, as far as it tells.
 */
bool hwtimer_shm_unread(const struct hwtimer_shm *pair)
{
	return READ_ONCE(pair->shared->cq_head) != READ_ONCE(pair->cq_tail);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_unread);

/**
 * hwtimer_shm_set_flag - set or clear a flag
 * @pair: the rings
 * @flag: HWTIMER_RING_*
 * @on: set it
 *
 * Return: true if that is a change.
 */
bool hwtimer_shm_set_flag(struct hwtimer_shm *pair, u32 flag, bool on)
{
	u32 flags = on ? pair->flags | flag : pair->flags & ~flag;

	if (flags == pair->flags)
		return false;
	pair->flags = flags;
	WRITE_ONCE(pair->shared->flags, flags);
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_set_flag);

/**
 * hwtimer_shm_set_sleep - tell until when nobody will look at submissions
 * @pair: the rings
 * @until: ns, or HWTIMER_RING_IDLE
 *
 * One store of 64 bits, since the program reads it by one load: half of an old time with half
 * of a new one may be too early, and the program would not ring the bell.
 */
void hwtimer_shm_set_sleep(struct hwtimer_shm *pair, u64 until)
{
#ifdef CONFIG_64BIT
	WRITE_ONCE(pair->shared->sleep_until, until);
#else
	atomic64_t *sleep_until = (atomic64_t *)&pair->shared->sleep_until;
	s64 old = atomic64_read(sleep_until);
	int tries = 3;

	/* Give up after three: a program that keeps writing here harms only itself. */
	while (!atomic64_try_cmpxchg(sleep_until, &old, until) && --tries)
		;
#endif
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_set_sleep);
