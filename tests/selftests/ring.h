/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rings, used by the rules of linux/hwtimer.h. A test that breaks a rule on purpose
 * writes to the mapping in struct ring itself.
 */
#ifndef RING_H
#define RING_H

#include "hwt.h"

#define POISON32	0xa5a5a5a5U

/* Each access to shared memory is a single access to the whole field. */
#define load_acquire(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store_release(p, value)	__atomic_store_n(p, value, __ATOMIC_RELEASE)
#define full_barrier()		__atomic_thread_fence(__ATOMIC_SEQ_CST)

/**
 * struct ring - the rings of a context
 * @fd: the descriptor of the context
 * @params: what HWTIMER_IOC_RINGS returned
 * @shared: the mapping
 * @sqes: the submission ring
 * @records: the completion ring
 * @sq_tail: the next entry to submit; the mapping may hold something else
 * @cq_head: the next record to read; the mapping may hold something else
 * @enters: number of HWTIMER_IOC_ENTER calls
 */
struct ring {
	int fd;
	struct hwtimer_rings params;
	struct hwtimer_ring *shared;
	struct hwtimer_sqe *sqes;
	struct hwtimer_record *records;
	__u32 sq_tail;
	__u32 cq_head;
	atomic_ulong enters;
};

static inline bool power_of_two(__u32 n)
{
	return n && !(n & (n - 1));
}

/*
 * Output fields are poisoned before the call, and checked if it succeeds. Entry sizes of 0 are set
 * to those of this header.
 */
static inline int hwt_rings(int fd, struct hwtimer_rings *params)
{
	struct hwtimer_rings old;
	int ret;

	if (!params->sqe_size)
		params->sqe_size = sizeof(struct hwtimer_sqe);
	if (!params->record_size)
		params->record_size = RECORD_SIZE;
	params->sq_offset = POISON32;
	params->cq_offset = POISON32;
	params->size = POISON;
	old = *params;
	ret = hwt_ioctl(fd, HWTIMER_IOC_RINGS, params);
	if (params->flags != old.flags || params->eventfd != old.eventfd ||
	    params->timeouts != old.timeouts || params->pad != old.pad ||
	    params->sqe_size != old.sqe_size || params->record_size != old.record_size)
		return DIRTY;
	if (ret)
		return ret;
	if (!power_of_two(params->sq_entries) || params->sq_entries < old.sq_entries ||
	    !power_of_two(params->cq_entries) || params->cq_entries < old.cq_entries ||
	    params->sq_offset % 8 || params->sq_offset < sizeof(struct hwtimer_ring) ||
	    params->cq_offset % 8 || params->cq_offset < sizeof(struct hwtimer_ring) ||
	    params->sq_offset + (__u64)params->sq_entries * params->sqe_size > params->size ||
	    params->cq_offset + (__u64)params->cq_entries * params->record_size > params->size ||
	    params->size > SIZE_MAX)
		return DIRTY;
	return 0;
}

static inline struct hwtimer_ring *must_map(int fd, size_t size, int protection)
{
	return must_mmap(size, protection, MAP_SHARED, fd);
}

static inline void ring_at(struct ring *r, struct hwtimer_ring *shared)
{
	r->shared = shared;
	r->sqes = (void *)((char *)shared + r->params.sq_offset);
	r->records = (void *)((char *)shared + r->params.cq_offset);
}

/* Set up rings for @fd with @params; ring_close() ends them. */
static inline struct ring *must_ring_params(int fd, const struct hwtimer_rings *params)
{
	struct ring *r = must_alloc(1, sizeof(*r));
	int ret;

	r->fd = fd;
	r->params = *params;
	ret = hwt_rings(fd, &r->params);
	if (ret)
		die("rings: %d (%s)", ret, strerror(-ret));
	ring_at(r, must_map(fd, r->params.size, PROT_READ | PROT_WRITE));
	return r;
}

static inline struct ring *must_ring(int fd, __u32 sq_entries, __u32 cq_entries, __u32 timeouts)
{
	struct hwtimer_rings params = {
		.sq_entries = sq_entries, .cq_entries = cq_entries, .timeouts = timeouts,
	};

	return must_ring_params(fd, &params);
}

/* The descriptor stays open. */
static inline void ring_unmap(struct ring *r)
{
	if (munmap(r->shared, r->params.size))
		die("munmap: %s", strerror(errno));
	free(r);
}

static inline void ring_close(struct ring *r)
{
	int fd = r->fd;

	ring_unmap(r);
	close(fd);
}

static inline __u32 ring_flags(const struct ring *r)
{
	return load_acquire(&r->shared->flags);
}

/* The barrier orders earlier submissions and reads before the load. */
static inline __u64 ring_sleep_until(const struct ring *r)
{
	full_barrier();
	return load_acquire(&r->shared->sleep_until);
}

/* How many entries the kernel has not taken. */
static inline __u32 ring_untaken(const struct ring *r)
{
	return r->sq_tail - load_acquire(&r->shared->sq_head);
}

/* Turn entry @entry into a NOP. Returns false if the kernel may have claimed it already. */
static inline bool ring_take_back(struct ring *r, __u32 entry)
{
	struct hwtimer_sqe *sqe = &r->sqes[entry & (r->params.sq_entries - 1)];

	__atomic_store_n(&sqe->op, HWTIMER_OP_NOP, __ATOMIC_RELAXED);
	full_barrier();
	return (__s32)(entry - load_acquire(&r->shared->sq_claimed)) >= 0;
}

/* How many records are unread. */
static inline __u32 ring_unread(const struct ring *r)
{
	return load_acquire(&r->shared->cq_tail) - r->cq_head;
}

/* Ring the doorbell. */
static inline int ring_enter(struct ring *r, __u32 *taken)
{
	struct hwtimer_enter e = { .taken = POISON32 };
	int ret = hwt_ioctl(r->fd, HWTIMER_IOC_ENTER, &e);

	atomic_fetch_add(&r->enters, 1);
	if (e.flags || e.pad || e.pad2 || (!ret && e.taken == POISON32))
		return DIRTY;
	if (!ret && taken)
		*taken = e.taken;
	return ret;
}

static inline void must_enter(struct ring *r)
{
	int ret = ring_enter(r, NULL);

	if (ret)
		die("enter: %d (%s)", ret, strerror(-ret));
}

/* Submit, without the doorbell. Returns false if the ring is full. */
static inline bool ring_put(struct ring *r, const struct hwtimer_sqe *sqe)
{
	if (ring_untaken(r) >= r->params.sq_entries)
		return false;
	r->sqes[r->sq_tail & (r->params.sq_entries - 1)] = *sqe;
	store_release(&r->shared->sq_tail, ++r->sq_tail);
	return true;
}

/* Submit, with the doorbell if the ring is full. There must be room for completions. */
static inline void must_put(struct ring *r, __u32 op, __u32 flags, __u64 id, __u64 time,
			    __u64 user_data)
{
	struct hwtimer_sqe sqe = {
		.op = op, .flags = flags, .id = id, .time = time, .user_data = user_data,
	};

	if (ring_put(r, &sqe))
		return;
	must_enter(r);
	if (!ring_put(r, &sqe))
		die("the submission ring is full after the doorbell, flags %x", ring_flags(r));
}

/* Does @deadline, already submitted, need the doorbell? */
static inline bool kick_due(const struct ring *r, __u64 deadline)
{
	return deadline < ring_sleep_until(r);
}

/* Submit a request that may have to expire by @time, with the doorbell if needed. */
static inline void must_submit(struct ring *r, __u32 op, __u32 flags, __u64 id, __u64 time,
			       __u64 user_data)
{
	must_put(r, op, flags, id, time, user_data);
	if (op != HWTIMER_OP_CANCEL && kick_due(r, time))
		must_enter(r);
}

static inline void must_arm(struct ring *r, __u64 id, __u64 deadline, __u64 user_data)
{
	must_submit(r, HWTIMER_OP_SCHEDULE, 0, id, deadline, user_data);
}

/* Read at most @n records, and ring the doorbell if others wait for room. */
static inline unsigned int ring_reap(struct ring *r, struct hwtimer_record *rec, unsigned int n)
{
	__u32 there = ring_unread(r), i;

	if (there > r->params.cq_entries)
		die("%u records in a ring of %u", there, r->params.cq_entries);
	for (i = 0; i < there && i < n; i++)
		rec[i] = r->records[(r->cq_head + i) & (r->params.cq_entries - 1)];
	if (!i)
		return 0;
	r->cq_head += i;
	store_release(&r->shared->cq_head, r->cq_head);
	full_barrier();
	if (ring_flags(r) & HWTIMER_RING_CQ_FULL)
		must_enter(r);
	return i;
}

/* Read until there are @n records; fewer only if PATIENCE ran out. */
static inline unsigned int ring_collect(struct ring *r, struct hwtimer_record *rec,
					unsigned int n)
{
	struct pollfd pfd = { .fd = r->fd, .events = POLLIN };
	__u64 end = now_ns() + PATIENCE;
	unsigned int got = 0;

	for (;;) {
		got += ring_reap(r, rec + got, n - got);
		if (got == n || now_ns() > end)
			return got;
		if (poll(&pfd, 1, 1000) < 0 && errno != EINTR)
			die("poll: %s", strerror(errno));
	}
}

/* Wait for the next record, which must be an expiry. */
static inline struct hwtimer_record must_ring_expire(struct ring *r)
{
	struct hwtimer_record rec;

	if (ring_collect(r, &rec, 1) != 1)
		die("no record");
	if (now_ns() < rec.deadline || rec.fired < rec.deadline)
		die("early: deadline %llu fired %llu", rec.deadline, rec.fired);
	if (rec.kind != HWTIMER_KIND_EXPIRED || rec.error || rec.overruns || rec.fired > now_ns())
		die("record: id %llx deadline %llu fired %llu overruns %llu kind %u error %d",
		    rec.id, rec.deadline, rec.fired, rec.overruns, rec.kind, rec.error);
	return rec;
}

/* Does @rec report that @sqe, taken after @since, failed with @error? */
static inline bool reports_failure(const struct hwtimer_record *rec, const struct hwtimer_sqe *sqe,
				   int error, __u64 since)
{
	if (rec->kind == HWTIMER_KIND_FAILED && rec->error == error && rec->id == sqe->id &&
	    rec->user_data == sqe->user_data && rec->deadline == sqe->time &&
	    rec->last == sqe->time && rec->op == sqe->op && !rec->overruns && !rec->pad &&
	    rec->fired >= since && rec->fired <= now_ns())
		return true;
	printf("# op %u id %llx time %llu user_data %llx: expected %d, seen ", sqe->op, sqe->id,
	       sqe->time, sqe->user_data, error);
	printf("id %llx user_data %llx deadline %llu fired %llu op %u kind %u error %d\n",
	       rec->id, rec->user_data, rec->deadline, rec->fired, rec->op, rec->kind,
	       rec->error);
	fflush(stdout);
	return false;
}

/* Schedule by ioctl in a context with rings. */
static inline int hwt_schedule_id(int fd, __u32 flags, __u64 id, __u64 time, __u64 user_data)
{
	struct hwtimer_schedule s = {
		.flags = flags, .time = time, .user_data = user_data, .id = id,
		.deadline = POISON,
	};
	int ret = hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);

	if (s.flags != flags || s.time != time || s.user_data != user_data || s.id != id ||
	    (!ret && s.deadline == POISON))
		return DIRTY;
	return ret;
}

/* Returns how many timeouts the context has now, or -errno. */
static inline int hwt_resize(int fd, __u32 timeouts)
{
	struct hwtimer_resize arg = { .timeouts = timeouts };
	int ret = hwt_ioctl(fd, HWTIMER_IOC_RESIZE, &arg);

	if (arg.flags)
		return DIRTY;
	return ret ?: (int)arg.timeouts;
}

/* "pending" from fdinfo; reading it does not make the kernel take submissions. */
static inline __u64 seen_pending(const struct ring *r)
{
	return must_fdinfo(r->fd, "pending");
}

/*
 * Sizes that no header can have, requests of newer programs, and inaccessible memory are refused.
 * @valid is a valid argument of @cmd.
 */
static inline void refuses_frame(struct __test_metadata *_metadata, int fd, unsigned long cmd,
				 const void *valid)
{
	static const unsigned int more[] = { 8, 104, 4096 };
	unsigned int size = _IOC_SIZE(cmd), i, k;
	struct hwtimer_stats before = must_stats(fd);
	char buf[8192] = { 0 }, copy[8192], *fence = must_fence(1);

	memcpy(buf, valid, size);
	for (i = 0; i < size + 16; i++) {
		if (i >= size && i % 8 == 0)
			continue;
		ASSERT_EQ(-EINVAL, hwt_ioctl(fd, with_size(cmd, i), buf))
			TH_LOG("command %lx, size %u", cmd, i);
	}
	ASSERT_EQ(0, memcmp(buf, valid, size));
	for (i = 0; i < ARRAY_SIZE(more); i++) {
		/* In the first and in the last byte. */
		for (k = 0; k < 2; k++) {
			memcpy(copy, buf, sizeof(copy));
			copy[size + k * (more[i] - 1)] = 1;
			ASSERT_EQ(-E2BIG, hwt_ioctl(fd, with_size(cmd, size + more[i]), copy))
				TH_LOG("command %lx, %u more", cmd, more[i]);
			copy[size + k * (more[i] - 1)] = 0;
			ASSERT_EQ(0, memcmp(buf, copy, sizeof(buf)));
		}
	}
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, cmd, NULL));
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, cmd, (void *)-1L));
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, cmd, (void *)LONG_MIN));
	/* A part of it is accessible. */
	for (i = 0; i < size; i++) {
		memcpy(fence - i, valid, i);
		ASSERT_EQ(-EFAULT, hwt_ioctl(fd, cmd, fence - i))
			TH_LOG("command %lx, %u bytes accessible", cmd, i);
	}
	/* The known fields are accessible, but not the announced size. */
	memcpy(fence - size, valid, size);
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, with_size(cmd, size + 8), fence - size));
	EXPECT_TRUE(unchanged(fd, &before));
}

/* Each bit outside @known in the word at @offset is refused with -EINVAL. */
static inline void refuses_bits(struct __test_metadata *_metadata, int fd, unsigned long cmd,
				const void *valid, size_t offset, __u32 known)
{
	struct hwtimer_stats before = must_stats(fd);
	unsigned int size = _IOC_SIZE(cmd), bit;
	char buf[128], copy[128];
	__u32 word;

	for (bit = 0; bit < 32; bit++) {
		if (known & (1U << bit))
			continue;
		memcpy(buf, valid, size);
		memcpy(&word, buf + offset, sizeof(word));
		word |= 1U << bit;
		memcpy(buf + offset, &word, sizeof(word));
		memcpy(copy, buf, size);
		ASSERT_EQ(-EINVAL, hwt_ioctl(fd, cmd, buf))
			TH_LOG("command %lx, bit %u of the word at %zu", cmd, bit, offset);
		ASSERT_EQ(0, memcmp(buf, copy, size));
	}
	EXPECT_TRUE(unchanged(fd, &before));
}

#endif /* RING_H */
