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

/**
 * struct hwtimer_shm - both rings, and the kernel's own copies of their indexes
 * @shared: the header, which the program can write: do not trust its contents. This is the
 *	kernel's mapping, which is independent of the program's mappings
 * @sqes: the submission ring
 * @cqes: the completion ring
 * @sq_mask: number of entries of @sqes - 1
 * @cq_mask: number of entries of @cqes - 1
 * @sq_head: the next entry to take; @shared has a copy for the program
 * @cq_tail: where the next record goes; @shared has a copy for the program
 * @flags: HWTIMER_RING_*; @shared has a copy for the program
 * @pages: the pages of the header and both rings
 * @nr_pages: number of @pages
 *
 * Protected by a lock of the caller: ctx->lock. @cq_tail may be read without the lock.
 */
struct hwtimer_shm {
	struct hwtimer_ring	*shared;
	struct hwtimer_sqe	*sqes;
	struct hwtimer_record	*cqes;
	u32			sq_mask;
	u32			cq_mask;
	u32			sq_head;
	u32			cq_tail;
	u32			flags;
	struct page		**pages;
	unsigned long		nr_pages;
};

void hwtimer_shm_plan(struct hwtimer_shm *pair, u32 sq_entries, u32 cq_entries);
int hwtimer_shm_create(struct hwtimer_shm *pair, u32 sq_entries, u32 cq_entries,
		       gfp_t gfp);
void hwtimer_shm_destroy(struct hwtimer_shm *pair);
int hwtimer_shm_map(const struct hwtimer_shm *pair, struct vm_area_struct *vma);
u32 hwtimer_shm_sq_offset(const struct hwtimer_shm *pair);
u32 hwtimer_shm_cq_offset(const struct hwtimer_shm *pair);
u64 hwtimer_shm_size(const struct hwtimer_shm *pair);

bool hwtimer_shm_submitted(const struct hwtimer_shm *pair, u32 *tail);
void hwtimer_shm_claim(const struct hwtimer_shm *pair, u32 claim);
void hwtimer_shm_get(const struct hwtimer_shm *pair, struct hwtimer_sqe *sqe);
u64 hwtimer_shm_ahead(const struct hwtimer_shm *pair, u32 n);
void hwtimer_shm_taken(struct hwtimer_shm *pair);
bool hwtimer_shm_room(const struct hwtimer_shm *pair, bool *bad);
void hwtimer_shm_put(struct hwtimer_shm *pair, const struct hwtimer_record *rec);
bool hwtimer_shm_unread(const struct hwtimer_shm *pair);
bool hwtimer_shm_set_flag(struct hwtimer_shm *pair, u32 flag, bool on);
void hwtimer_shm_set_sleep(struct hwtimer_shm *pair, u64 until);

#endif /* DEV_SHM_H */
