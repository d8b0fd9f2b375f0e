/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * io_uring for tests, using the kernel's header only.
 */
#ifndef URING_H
#define URING_H

#include <linux/io_uring.h>

#include "common.h"

struct uring {
	int fd;
	void *rings;
	struct io_uring_sqe *sqes;
	size_t size, sqes_size;
	struct io_uring_params params;
};

/* Open an io_uring; -ENOSYS if the kernel has none. */
static inline int open_ring(struct uring *ring, __u32 flags)
{
	struct io_uring_params *p = &ring->params;

	/* A sysctl may have disabled it. */
	write_file("/proc/sys/kernel/io_uring_disabled", "0");
	memset(ring, 0, sizeof(*ring));
	p->flags = flags;
	p->sq_thread_idle = 1;
	ring->fd = syscall(__NR_io_uring_setup, 8, p);
	if (ring->fd < 0)
		return -errno;
	if (!(p->features & IORING_FEAT_SINGLE_MMAP))
		die("io_uring: two maps");
	ring->size = p->sq_off.array + p->sq_entries * sizeof(__u32);
	if (ring->size < p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe))
		ring->size = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
	ring->sqes_size = p->sq_entries * sizeof(struct io_uring_sqe);
	ring->rings = mmap(NULL, ring->size, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
	ring->sqes = mmap(NULL, ring->sqes_size, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
	if (ring->rings == MAP_FAILED || ring->sqes == MAP_FAILED)
		die("io_uring: mmap: %s", strerror(errno));
	return 0;
}

static inline void close_ring(struct uring *ring)
{
	munmap(ring->rings, ring->size);
	munmap(ring->sqes, ring->sqes_size);
	close(ring->fd);
}

#define RING(ring, type, offset)	((_Atomic type *)((char *)(ring)->rings + (offset)))

static inline void submit(struct uring *ring, const struct io_uring_sqe *sqe)
{
	const struct io_sqring_offsets *off = &ring->params.sq_off;
	bool thread = ring->params.flags & IORING_SETUP_SQPOLL;
	__u32 tail = atomic_load(RING(ring, __u32, off->tail)), index;

	index = tail & atomic_load(RING(ring, __u32, off->ring_mask));
	ring->sqes[index] = *sqe;
	atomic_store(RING(ring, __u32, off->array) + index, index);
	atomic_store(RING(ring, __u32, off->tail), tail + 1);
	if (syscall(__NR_io_uring_enter, ring->fd, 1, 0, thread ? IORING_ENTER_SQ_WAKEUP : 0,
		    NULL, 0) != 1)
		die("io_uring_enter: %s", strerror(errno));
}

static inline bool completed(struct uring *ring, struct io_uring_cqe *cqe)
{
	const struct io_cqring_offsets *off = &ring->params.cq_off;
	__u32 head = atomic_load(RING(ring, __u32, off->head));
	struct io_uring_cqe *cqes = (void *)((char *)ring->rings + off->cqes);

	/* This also runs deferred work of the request in this task. */
	syscall(__NR_io_uring_enter, ring->fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0);
	if (head == atomic_load(RING(ring, __u32, off->tail)))
		return false;
	*cqe = cqes[head & atomic_load(RING(ring, __u32, off->ring_mask))];
	atomic_store(RING(ring, __u32, off->head), head + 1);
	return true;
}

#endif /* URING_H */
