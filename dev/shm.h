/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: a submission and a completion ring in memory that is shared with a program.
 * What is in them is not known here. The ABI is in uapi/linux/hwtimer.h.
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
 * struct hwtimer_shm - both rings, as the kernel sees them
 * @shared: the header, in our own mapping: what becomes of the program's does not
 *	matter. Nothing in it is to be believed
 * @sqes: the submission ring
 * @cqes: the completion ring
 * @sq_mask: its entries - 1
 * @cq_mask: the same
 * @sq_head: the entry to be taken next; what the program sees is a copy
 * @cq_tail: where the next record goes; the same
 * @flags: HWTIMER_RING_*; the same
 * @pages: what all that is made of
 * @nr_pages: how many
 *
 * Its user's lock protects it. @cq_tail may be read without.
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
void hwtimer_shm_taken(struct hwtimer_shm *pair);
bool hwtimer_shm_room(const struct hwtimer_shm *pair, bool *bad);
void hwtimer_shm_put(struct hwtimer_shm *pair, const struct hwtimer_record *rec);
bool hwtimer_shm_unread(const struct hwtimer_shm *pair);
bool hwtimer_shm_set_flag(struct hwtimer_shm *pair, u32 flag, bool on);
void hwtimer_shm_set_sleep(struct hwtimer_shm *pair, u64 until);

#endif /* DEV_SHM_H */
