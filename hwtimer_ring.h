/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: a submission and a completion ring in memory that is shared with a program.
 * What is in them is not known here. The ABI is in uapi/linux/hwtimer.h.
 */
#ifndef HWTIMER_RING_H
#define HWTIMER_RING_H

#include <linux/types.h>

#include "uapi/linux/hwtimer.h"

struct page;
struct vm_area_struct;

/** define HWTIMER_RING_MAX - the most entries that a ring can have */
#define HWTIMER_RING_MAX	65536U

/**
 * struct hwtimer_ring_pair - both rings, as the kernel sees them
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
struct hwtimer_ring_pair {
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

void hwtimer_ring_plan(struct hwtimer_ring_pair *pair, u32 sq_entries, u32 cq_entries);
int hwtimer_ring_create(struct hwtimer_ring_pair *pair, u32 sq_entries, u32 cq_entries,
			gfp_t gfp);
void hwtimer_ring_destroy(struct hwtimer_ring_pair *pair);
int hwtimer_ring_map(const struct hwtimer_ring_pair *pair, struct vm_area_struct *vma);
u32 hwtimer_ring_sq_offset(const struct hwtimer_ring_pair *pair);
u32 hwtimer_ring_cq_offset(const struct hwtimer_ring_pair *pair);
u64 hwtimer_ring_size(const struct hwtimer_ring_pair *pair);

bool hwtimer_ring_submitted(const struct hwtimer_ring_pair *pair, u32 *tail);
void hwtimer_ring_claim(const struct hwtimer_ring_pair *pair, u32 claim);
void hwtimer_ring_get(const struct hwtimer_ring_pair *pair, struct hwtimer_sqe *sqe);
void hwtimer_ring_taken(struct hwtimer_ring_pair *pair);
bool hwtimer_ring_room(const struct hwtimer_ring_pair *pair, bool *bad);
void hwtimer_ring_put(struct hwtimer_ring_pair *pair, const struct hwtimer_record *rec);
bool hwtimer_ring_unread(const struct hwtimer_ring_pair *pair);
bool hwtimer_ring_set_flag(struct hwtimer_ring_pair *pair, u32 flag, bool on);
void hwtimer_ring_set_sleep(struct hwtimer_ring_pair *pair, u64 until);

#endif /* HWTIMER_RING_H */
