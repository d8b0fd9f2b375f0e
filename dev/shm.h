/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: a submission and a completion ring in memory that is shared with a program. This part
 * does not interpret the entries. The ABI is in uapi/linux/hwtimer.h.
 */
#ifndef DEV_SHM_H
#define DEV_SHM_H

#include <linux/types.h>

#include "../uapi/linux/hwtimer.h"

struct page;
struct vm_area_struct;

/** define HWTIMER_RING_MAX - the most entries that a ring can have */
#define HWTIMER_RING_MAX	65536U
/** define HWTIMER_ENTRY_MAX - the largest size of an entry or a record, in bytes */
#define HWTIMER_ENTRY_MAX	256U

/**
 * struct hwtimer_shm - both rings, and the kernel's own copies of their indexes
 * @shared: the header, which the program can write: do not trust its contents. This is the
 *	kernel's mapping, which is independent of the program's mappings
 * @sqes: the submission ring
 * @cqes: the completion ring
 * @sqe_size: size of its entries as the program has it: that of struct hwtimer_sqe or larger
 * @record_size: likewise, of struct hwtimer_record
 * @sq_mask: number of entries of @sqes - 1
 * @cq_mask: number of entries of @cqes - 1
 * @sq_head: the next entry to take; hwtimer_shm_taken() tells the program, at once or later
 * @cq_tail: where the next record goes; @shared has a copy for the program
 * @flags: HWTIMER_RING_*; @shared has a copy for the program
 * @pages: the pages of the header and both rings
 * @nr_pages: number of @pages
 *
 * Protected by a lock of the caller: ctx->lock. @cq_tail may be read without the lock.
 */
struct hwtimer_shm {
	struct hwtimer_ring	*shared;
	void			*sqes;
	void			*cqes;
	u32			sqe_size;
	u32			record_size;
	u32			sq_mask;
	u32			cq_mask;
	u32			sq_head;
	u32			cq_tail;
	u32			flags;
	struct page		**pages;
	unsigned long		nr_pages;
};

/* The place of entry @index of the submission ring. Indexes wrap, so any is valid. */
static inline struct hwtimer_sqe *hwtimer_shm_sqe(const struct hwtimer_shm *pair, u32 index)
{
	return pair->sqes + (size_t)(index & pair->sq_mask) * pair->sqe_size;
}

/* The place of record @index of the completion ring, likewise. */
static inline struct hwtimer_record *hwtimer_shm_record(const struct hwtimer_shm *pair, u32 index)
{
	return pair->cqes + (size_t)(index & pair->cq_mask) * pair->record_size;
}

void hwtimer_shm_plan(struct hwtimer_shm *pair, const struct hwtimer_rings *arg);
int hwtimer_shm_create(struct hwtimer_shm *pair, const struct hwtimer_rings *arg, gfp_t gfp);
void hwtimer_shm_destroy(struct hwtimer_shm *pair);
int hwtimer_shm_map(const struct hwtimer_shm *pair, struct vm_area_struct *vma);
u32 hwtimer_shm_sq_offset(const struct hwtimer_shm *pair);
u32 hwtimer_shm_cq_offset(const struct hwtimer_shm *pair);
u64 hwtimer_shm_size(const struct hwtimer_shm *pair);

bool hwtimer_shm_submitted(const struct hwtimer_shm *pair, u32 *tail);
void hwtimer_shm_claim(const struct hwtimer_shm *pair, u32 claim);
bool hwtimer_shm_get(const struct hwtimer_shm *pair, struct hwtimer_sqe *sqe);
u64 hwtimer_shm_ahead(const struct hwtimer_shm *pair, u32 n);
bool hwtimer_shm_taken_back(const struct hwtimer_shm *pair, u32 index, u64 *id);
void hwtimer_shm_taken(const struct hwtimer_shm *pair, u32 head);
bool hwtimer_shm_room(const struct hwtimer_shm *pair, bool *bad);
void hwtimer_shm_put(struct hwtimer_shm *pair, const struct hwtimer_record *rec);
bool hwtimer_shm_unread(const struct hwtimer_shm *pair);
bool hwtimer_shm_set_flag(struct hwtimer_shm *pair, u32 flag, bool on);
void hwtimer_shm_set_sleep(struct hwtimer_shm *pair, u64 until, u64 relaxed);

#endif /* DEV_SHM_H */
