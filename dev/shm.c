// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the rings that /dev/hwtimer shares with a program.
 *
 * The program may write anything to this memory, at any time and from many threads. So the kernel
 * keeps its own copies of sq_head, sq_claimed, cq_tail and flags; it writes these, sleep_until and
 * relaxed_until here, but does not rely on what it finds there. It reads sq_tail, cq_head and the
 * entries once per use, and checks the copy. An index is checked by its distance from the kernel's
 * index, which must not exceed the number of entries; this is right even if indexes have wrapped.
 * The caller checks the entries.
 *
 * Memory ordering:
 *
 *	the program writes	smp_load_acquire() of sq_tail in hwtimer_shm_submitted() pairs with
 *	an entry, the kernel	the program's release: the kernel sees the whole entry. Without that
 *	reads it		release, the entry may be torn, but its fields are checked like
 *				those of any other entry
 *	the kernel has read	smp_store_release() of sq_head in hwtimer_shm_taken() comes after
 *	an entry, the program	the copy; it pairs with the program's acquire
 *	reuses it
 *	the kernel writes a	smp_store_release() of cq_tail in hwtimer_shm_put() pairs with the
 *	record, the program	program's acquire
 *	reads it
 *	the program has read	smp_load_acquire() of cq_head in hwtimer_shm_room() pairs with the
 *	a record, the kernel	program's release
 *	reuses its place
 *	the kernel claims an	The kernel writes sq_claimed, executes a full barrier, and reads the
 *	entry, the program	entry; the program changes the entry, executes a full barrier, and
 *	takes it back		reads sq_claimed. So the kernel sees the change, or the program sees
 *				that the kernel may not have seen it
 *	sleep_until, flags	The kernel writes one of them, executes a full barrier (in the
 *				caller), and reads sq_tail or cq_head; the program writes its index,
 *				executes a full barrier, and reads the other. So at least one side
 *				sees what the other wrote
 *
 * With HWTIMER_RINGS_RELAXED, the program has no barrier between an entry and sq_claimed, and
 * often none between sq_tail and sleep_until; see dev/rings.c.
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

#include "../core/hwtimer_step.h"
#include "shm.h"

static_assert(sizeof(atomic64_t) == sizeof(u64));
static_assert(sizeof(struct hwtimer_sqe) == 32);
static_assert(sizeof(struct hwtimer_record) == 64);
static_assert(sizeof(struct hwtimer_ring) == 192);
static_assert(offsetof(struct hwtimer_ring, cq_head) == 64);
static_assert(offsetof(struct hwtimer_ring, sq_head) == 128);
static_assert(offsetof(struct hwtimer_ring, sleep_until) == 144);
static_assert(offsetof(struct hwtimer_ring, sq_claimed) == 152);
static_assert(offsetof(struct hwtimer_ring, relaxed_until) == 160);

/* Layout of the mapping: the header, the submission ring, the completion ring. */
u32 hwtimer_shm_sq_offset(const struct hwtimer_shm *pair)
{
	return sizeof(struct hwtimer_ring);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_sq_offset);

u32 hwtimer_shm_cq_offset(const struct hwtimer_shm *pair)
{
	return sizeof(struct hwtimer_ring) +
	       (pair->sq_mask + 1) * pair->sqe_size;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_cq_offset);

u64 hwtimer_shm_size(const struct hwtimer_shm *pair)
{
	return PAGE_ALIGN(hwtimer_shm_cq_offset(pair) +
			  (pair->cq_mask + 1) * pair->record_size);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_size);

/**
 * hwtimer_shm_plan - set the numbers and sizes of entries, for hwtimer_shm_size()
 * @pair: out
 * @arg: what the program asks for; it has been checked
 */
void hwtimer_shm_plan(struct hwtimer_shm *pair, const struct hwtimer_rings *arg)
{
	*pair = (struct hwtimer_shm){
		.sq_mask = roundup_pow_of_two(arg->sq_entries) - 1,
		.cq_mask = roundup_pow_of_two(arg->cq_entries ?: arg->sq_entries) - 1,
		.sqe_size = arg->sqe_size,
		.record_size = arg->record_size,
	};
}

/**
 * hwtimer_shm_create - allocate empty rings
 * @pair: out
 * @arg: as for hwtimer_shm_plan()
 * @gfp: how to allocate
 *
 * Context: Process context, may sleep.
 *
 * Return: 0, or -ENOMEM; then there is nothing to free.
 */
int hwtimer_shm_create(struct hwtimer_shm *pair, const struct hwtimer_rings *arg, gfp_t gfp)
{
	unsigned long i;

	hwtimer_shm_plan(pair, arg);
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
	hwtimer_shm_set_sleep(pair, HWTIMER_RING_IDLE, HWTIMER_RING_IDLE);
	return 0;

err:
	hwtimer_shm_destroy(pair);
	return -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_create);

/**
 * hwtimer_shm_destroy - free the rings
 * @pair: the rings, which no program has mapped any more, or zeros. It is zeros after the call
 *
 * Context: Process context, may sleep.
 */
void hwtimer_shm_destroy(struct hwtimer_shm *pair)
{
	if (pair->shared)
		vunmap(pair->shared);
	/* Others may still hold a reference to a page, such as process_vm_readv(). */
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
 * Context: The mmap file operation.
 *
 * Return: 0; -ENXIO: @vma goes beyond them; -ENOMEM.
 */
int hwtimer_shm_map(const struct hwtimer_shm *pair, struct vm_area_struct *vma)
{
	return vm_map_pages(vma, pair->pages, pair->nr_pages);
}

/**
 * hwtimer_shm_submitted - read how far the program has submitted
 * @pair: the rings
 * @tail: out: entries from pair->sq_head to *@tail - 1 are in the ring
 *
 * Return: false if sq_tail is invalid.
 */
bool hwtimer_shm_submitted(const struct hwtimer_shm *pair, u32 *tail)
{
	/*
	 * Pairs with the program's release, after it wrote entries.
	 * [smp_load_acquire: ring-fill-broken-acquire claim-reuse-broken-acquire]
	 */
	*tail = smp_load_acquire(&pair->shared->sq_tail);
	hwtimer_step_locked();
	return *tail - pair->sq_head <= pair->sq_mask + 1;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_submitted);

/**
 * hwtimer_shm_claim - tell the program that entries will be read
 * @pair: the rings
 * @claim: the index after the last of these entries
 */
void hwtimer_shm_claim(const struct hwtimer_shm *pair, u32 claim)
{
	/* [WRITE_ONCE: claim-broken-late] */
	WRITE_ONCE(pair->shared->sq_claimed, claim);
	/*
	 * Pairs with the program's full barrier between the op of an entry and sq_claimed.
	 * [smp_mb: claim-broken-kernel; after WRITE_ONCE]
	 */
	smp_mb();
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_claim);

/**
 * hwtimer_shm_get - copy the next entry
 * @pair: the rings; according to hwtimer_shm_submitted() there is an entry
 * @sqe: out
 *
 * Return: false if the entry has a field that this version does not know and that is not 0.
 */
bool hwtimer_shm_get(const struct hwtimer_shm *pair, struct hwtimer_sqe *sqe)
{
	const struct hwtimer_sqe *from = hwtimer_shm_sqe(pair, pair->sq_head);
	const u64 *unknown = (const u64 *)(from + 1);
	u64 bits = 0;
	size_t left;

	/* [READ_ONCE: claim-broken-late] */
	sqe->op = READ_ONCE(from->op);
	sqe->flags = READ_ONCE(from->flags);
	sqe->id = READ_ONCE(from->id);
	sqe->time = READ_ONCE(from->time);
	sqe->user_data = READ_ONCE(from->user_data);
	for (left = pair->sqe_size - sizeof(*sqe); left; left -= sizeof(*unknown))
		bits |= READ_ONCE(*unknown++);
	return !bits;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_get);

/**
 * hwtimer_shm_ahead - the id in a submission entry that will be taken later
 * @pair: the rings
 * @n: the number of entries before it; the program has submitted it and does not change it
 *
 * Return: the id. A hostile program may change it until hwtimer_shm_get() copies the entry, so it
 * is only a hint.
 */
u64 hwtimer_shm_ahead(const struct hwtimer_shm *pair, u32 n)
{
	return READ_ONCE(hwtimer_shm_sqe(pair, pair->sq_head + n)->id);
}

/**
 * hwtimer_shm_taken_back - has the program turned an entry into a NOP?
 * @pair: the rings
 * @index: the entry, below pair->sq_head, whose place has not been reused
 * @id: out, if so: its id
 *
 * Return: true if it is a NOP now.
 */
bool hwtimer_shm_taken_back(const struct hwtimer_shm *pair, u32 index, u64 *id)
{
	const struct hwtimer_sqe *sqe = hwtimer_shm_sqe(pair, index);

	if (READ_ONCE(sqe->op) != HWTIMER_OP_NOP)
		return false;
	*id = READ_ONCE(sqe->id);
	return true;
}

/**
 * hwtimer_shm_taken - publish sq_head: the program may reuse the entries before it
 * @pair: the rings
 * @head: sq_head
 */
void hwtimer_shm_taken(const struct hwtimer_shm *pair, u32 head)
{
	/*
	 * Pairs with the program's acquire, before it writes entries.
	 * [smp_store_release: ring-place-broken-release]
	 */
	smp_store_release(&pair->shared->sq_head, head);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_taken);

/**
 * hwtimer_shm_room - is there room for a record?
 * @pair: the rings
 * @bad: out: cq_head is invalid
 *
 * Return: true if there is room.
 */
bool hwtimer_shm_room(const struct hwtimer_shm *pair, bool *bad)
{
	/*
	 * Pairs with the program's release, after it read records.
	 * [smp_load_acquire: ring-place-broken-acquire]
	 */
	u32 used = pair->cq_tail - smp_load_acquire(&pair->shared->cq_head);

	*bad = used > pair->cq_mask + 1;
	return used <= pair->cq_mask;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_room);

/**
 * hwtimer_shm_put - put a record into the completion ring
 * @pair: the rings; there is room
 * @rec: the record
 */
void hwtimer_shm_put(struct hwtimer_shm *pair, const struct hwtimer_record *rec)
{
	struct hwtimer_record *to = hwtimer_shm_record(pair, pair->cq_tail);

	*to = *rec;
	memset(to + 1, 0, pair->record_size - sizeof(*to));
	WRITE_ONCE(pair->cq_tail, pair->cq_tail + 1);
	/*
	 * Pairs with the program's acquire, before it reads records.
	 * [smp_store_release: ring-fill-broken-release]
	 */
	smp_store_release(&pair->shared->cq_tail, pair->cq_tail);
	hwtimer_step_locked();
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_put);

/**
 * hwtimer_shm_unread - are there records that the program has not read?
 * @pair: the rings; the lock is not needed
 *
 * Return: true if so, according to the program's cq_head.
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
 * @on: true: set, false: clear
 *
 * Return: true if the flag has changed.
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

/*
 * A single 64-bit store, as the program reads it by a single load. A value torn between an old and
 * a new time may be too early, so that the program would not kick.
 */
static void store_time(u64 *to, u64 time)
{
#ifdef CONFIG_64BIT
	WRITE_ONCE(*to, time);
#else
	s64 old = atomic64_read((atomic64_t *)to);
	int tries = 3;

	/*
	 * Give up after three tries: a program that keeps writing here harms only itself.
	 * [atomic64_try_cmpxchg: as it only stores 64 bits at once]
	 */
	while (!atomic64_try_cmpxchg((atomic64_t *)to, &old, time) && --tries)
		;
#endif
}

/**
 * hwtimer_shm_set_sleep - set sleep_until: deadlines before it need a kick
 * @pair: the rings
 * @until: ns, or HWTIMER_RING_IDLE
 * @relaxed: relaxed_until, likewise: deadlines from then on need no barrier to know that
 */
void hwtimer_shm_set_sleep(struct hwtimer_shm *pair, u64 until, u64 relaxed)
{
	store_time(&pair->shared->sleep_until, until);
	store_time(&pair->shared->relaxed_until, relaxed);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_shm_set_sleep);
