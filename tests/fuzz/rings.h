/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rings of a context, used by the protocol: one thread submits, one reads.
 */
#ifndef RINGS_H
#define RINGS_H

#include "hwt.h"

struct ring {
	struct hwtimer_ring *shared;
	struct hwtimer_sqe *sq;
	struct hwtimer_record *cq;
	__u32 sq_entries, cq_entries, timeouts;
	__u64 size;
	int eventfd;
};

static inline __u32 ring_load(const __u32 *index)
{
	return __atomic_load_n(index, __ATOMIC_ACQUIRE);
}

static inline void ring_store(__u32 *index, __u32 value)
{
	__atomic_store_n(index, value, __ATOMIC_RELEASE);
}

/* Use the rings that are mapped at @p. */
static inline void ring_use(struct ring *r, char *p, const struct hwtimer_rings *made)
{
	r->shared = (void *)p;
	r->sq = (void *)(p + made->sq_offset);
	r->cq = (void *)(p + made->cq_offset);
	r->sq_entries = made->sq_entries;
	r->cq_entries = made->cq_entries;
	r->timeouts = made->timeouts;
	r->size = made->size;
}

static inline int ring_map(struct ring *r, int fd, const struct hwtimer_rings *made)
{
	char *p = mmap(NULL, made->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	ring_use(r, p, made);
	return 0;
}

/* Returns false if the ring is full. */
static inline bool ring_submit(struct ring *r, const struct hwtimer_sqe *sqe)
{
	__u32 tail = r->shared->sq_tail;

	if (tail - ring_load(&r->shared->sq_head) >= r->sq_entries)
		return false;
	r->sq[tail & (r->sq_entries - 1)] = *sqe;
	ring_store(&r->shared->sq_tail, tail + 1);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return true;
}

/* How many records are unread, from @head on. */
static inline __u32 ring_records(const struct ring *r, __u32 *head)
{
	*head = r->shared->cq_head;
	return ring_load(&r->shared->cq_tail) - *head;
}

/* Mark records as read up to @head; returns true if the doorbell is needed. */
static inline bool ring_read(struct ring *r, __u32 head)
{
	ring_store(&r->shared->cq_head, head);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return ring_load(&r->shared->flags) & HWTIMER_RING_CQ_FULL;
}

static inline int ring_enter(int fd, __u32 *taken)
{
	struct hwtimer_enter e = { .taken = ~0U };
	int ret = hwt_ioctl(fd, HWTIMER_IOC_ENTER, &e);

	if (taken)
		*taken = e.taken;
	return ret;
}

#endif /* RINGS_H */
