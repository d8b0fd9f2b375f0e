// SPDX-License-Identifier: GPL-2.0-only
/*
 * HWTIMER_IOC_RINGS, mmap(), HWTIMER_IOC_ENTER, and what the rings promise to a program that keeps
 * the rules.
 *
 * Indexes wrap around the number of entries many times here. That they also wrap at 2^32 is not
 * tested: they begin at 0, and getting there would take too long.
 */
#include "ring.h"

#include <sys/eventfd.h>

#define SLOTS		256
#define USER_DATA	0x0123456789abcdefULL

/* Any tag. */
#define ID(slot)	HWTIMER_ID(slot, 0x5a5a5a5a5aULL)

FIXTURE(rings)
{
	struct ring *r;
	int fd;
};

FIXTURE_VARIANT(rings)
{
	bool own;
	__u32 sq_entries, cq_entries;
};

FIXTURE_VARIANT_ADD(rings, shared)
{
	.sq_entries = 128,
	.cq_entries = 512,
};

FIXTURE_VARIANT_ADD(rings, own)
{
	.own = true,
	.sq_entries = 64,
	.cq_entries = 512,
};

FIXTURE_SETUP(rings)
{
	self->fd = must_open(O_NONBLOCK);
	if (variant->own) {
		ASSERT_EQ(0, hwt_own_wheel(self->fd, 4 * NSEC_PER_MSEC, 64, 0));
	}
	self->r = must_ring(self->fd, variant->sq_entries, variant->cq_entries, SLOTS);
}

FIXTURE_TEARDOWN(rings)
{
	struct hwtimer_stats s = must_stats(self->fd);

	EXPECT_TRUE(balanced(&s));
	EXPECT_EQ(0, ring_flags(self->r));
	ring_close(self->r);
}

/* No record of a timeout that was due by now is unread: a later one comes alone. */
static void must_be_quiet(struct ring *r)
{
	struct hwtimer_record rec;
	__u64 id = HWTIMER_ID(r->params.timeouts - 1, 4711);

	must_arm(r, id, now_ns() + NSEC_PER_MSEC, 4711);
	rec = must_ring_expire(r);
	if (rec.id != id || rec.user_data != 4711)
		die("an unexpected record: id %llx user_data %llu", rec.id,
		    rec.user_data);
	if (ring_unread(r) || must_stats(r->fd).unread)
		die("unread records");
}

/* Setup. */

static int try_rings(struct hwtimer_rings params)
{
	int fd = must_open(0), ret = hwt_rings(fd, &params);

	close(fd);
	return ret;
}

/* Limits at n - 1, n and n + 1, and rounding up. */
TEST(entries)
{
	static const struct {
		__u32 asked, given;
	} entries[] = {
		{ 0, 0 }, { 1, 1 }, { 2, 2 }, { 3, 4 }, { 4, 4 }, { 5, 8 }, { 1000, 1024 },
		{ 1023, 1024 }, { 1024, 1024 }, { 1025, 2048 }, { 65535, 65536 },
		{ 65536, 65536 }, { 65537, 0 }, { 1U << 31, 0 }, { (1U << 31) + 1, 0 },
		{ ~0U, 0 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		struct hwtimer_rings as_many = { .sq_entries = entries[i].asked, .timeouts = 10 };
		struct hwtimer_rings few = as_many, many = as_many, cq = as_many;
		int fds[4] = { must_open(0), must_open(0), must_open(0), must_open(0) }, k;
		int ret = entries[i].given ? 0 : -EINVAL;

		few.cq_entries = 1;
		many.cq_entries = 65536;
		cq.sq_entries = 16;
		cq.cq_entries = entries[i].asked;
		ASSERT_EQ(ret, hwt_rings(fds[0], &as_many))
			TH_LOG("%u entries", entries[i].asked);
		ASSERT_EQ(ret, hwt_rings(fds[1], &few));
		ASSERT_EQ(ret, hwt_rings(fds[2], &many));
		ASSERT_EQ(entries[i].asked ? ret : 0, hwt_rings(fds[3], &cq));
		if (!ret) {
			EXPECT_EQ(entries[i].given, as_many.sq_entries);
			EXPECT_EQ(entries[i].given, as_many.cq_entries);
			EXPECT_EQ(entries[i].given, few.sq_entries);
			EXPECT_EQ(1, few.cq_entries);
			EXPECT_EQ(entries[i].given, many.sq_entries);
			EXPECT_EQ(65536, many.cq_entries);
			EXPECT_EQ(16, cq.sq_entries);
			EXPECT_EQ(entries[i].given, cq.cq_entries);
		}
		if (!entries[i].asked) {
			EXPECT_EQ(16, cq.cq_entries);
		}
		for (k = 0; k < 4; k++)
			close(fds[k]);
	}
}

/* The number of slots is not rounded. All of them can be used, and no others. */
TEST(slots)
{
	static const __u32 numbers[] = { 1, 2, 3, 5, 63, 64, 65, 1000, 4097 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		__u32 n = numbers[i];
		struct ring *r = must_ring(must_open(0), 8, 8, n);

		EXPECT_EQ(n, r->params.timeouts);
		EXPECT_EQ(0, hwt_schedule_id(r->fd, HWTIMER_RELATIVE, ID(0), FAR, 0));
		EXPECT_EQ(n > 1 ? 0 : -EEXIST,
			  hwt_schedule_id(r->fd, HWTIMER_RELATIVE, ID(n - 1), FAR, 0));
		EXPECT_EQ(-EINVAL, hwt_schedule_id(r->fd, HWTIMER_RELATIVE, ID(n), FAR, 0));
		EXPECT_EQ(-EINVAL, hwt_schedule_id(r->fd, HWTIMER_RELATIVE, ID(n + 1), FAR, 0));
		EXPECT_EQ(-EINVAL, hwt_schedule_id(r->fd, HWTIMER_RELATIVE, ID(0xffffff), FAR,
						   0));
		EXPECT_EQ(n > 1 ? 2 : 1, must_stats(r->fd).pending);
		ring_close(r);
	}
	EXPECT_EQ(-EINVAL, try_rings((struct hwtimer_rings){ .sq_entries = 1 }));
	EXPECT_EQ(-EINVAL, try_rings((struct hwtimer_rings){ .sq_entries = 1,
							     .timeouts = (1U << 24) + 1 }));
	EXPECT_EQ(-EINVAL, try_rings((struct hwtimer_rings){ .sq_entries = 1, .timeouts = ~0U }));
}

/* A refused call leaves the context without rings, and otherwise usable. */
TEST(refused)
{
	struct hwtimer_rings good = {
		.sq_entries = 4, .cq_entries = 4, .timeouts = 4, ENTRY_SIZES,
	}, bad, copy;
	struct hwtimer_stats before;
	int fds[2], fd = must_open(0);
	struct hwtimer_enter e = { 0 };

	ASSERT_EQ(0, pipe(fds));
	before = must_stats(fd);
	refuses_frame(_metadata, fd, HWTIMER_IOC_RINGS, &good);
	refuses_bits(_metadata, fd, HWTIMER_IOC_RINGS, &good,
		     offsetof(struct hwtimer_rings, flags),
		     HWTIMER_RINGS_EVENTFD | HWTIMER_RINGS_RELAXED);
	refuses_bits(_metadata, fd, HWTIMER_IOC_RINGS, &good,
		     offsetof(struct hwtimer_rings, eventfd), 0);
	refuses_bits(_metadata, fd, HWTIMER_IOC_RINGS, &good,
		     offsetof(struct hwtimer_rings, pad), 0);
	bad = good;
	bad.flags = HWTIMER_RINGS_EVENTFD;
	bad.eventfd = -1;
	EXPECT_EQ(-EBADF, hwt_rings(fd, &bad));
	bad.eventfd = 1 << 20;
	EXPECT_EQ(-EBADF, hwt_rings(fd, &bad));
	bad.eventfd = INT_MIN;
	EXPECT_EQ(-EBADF, hwt_rings(fd, &bad));
	bad.eventfd = fds[1];
	EXPECT_EQ(-EINVAL, hwt_rings(fd, &bad));
	bad.eventfd = fd;
	EXPECT_EQ(-EINVAL, hwt_rings(fd, &bad));
	bad = good;
	bad.cq_entries = 65537;
	copy = bad;
	EXPECT_EQ(-EINVAL, hwt_rings(fd, &bad));
	/* Nor were the caller's sizes rounded. */
	EXPECT_EQ(copy.sq_entries, bad.sq_entries);
	EXPECT_EQ(copy.cq_entries, bad.cq_entries);

	EXPECT_EQ(-ENXIO, hwt_ioctl(fd, HWTIMER_IOC_ENTER, &e));
	EXPECT_TRUE(unchanged(fd, &before));
	EXPECT_EQ(0, hwt_rings(fd, &good));
	EXPECT_EQ(0, hwt_ioctl(fd, HWTIMER_IOC_ENTER, &e));
	close(fds[0]);
	close(fds[1]);
	close(fd);
}

TEST(enter_refused)
{
	struct ring *r = must_ring(must_open(0), 4, 4, 4);
	char buf[sizeof(struct hwtimer_enter) + 4096] = { 0 };
	struct hwtimer_enter e = { 0 };

	refuses_frame(_metadata, r->fd, HWTIMER_IOC_ENTER, &e);
	refuses_bits(_metadata, r->fd, HWTIMER_IOC_ENTER, &e,
		     offsetof(struct hwtimer_enter, flags), 0);
	refuses_bits(_metadata, r->fd, HWTIMER_IOC_ENTER, &e,
		     offsetof(struct hwtimer_enter, pad), 0);
	refuses_bits(_metadata, r->fd, HWTIMER_IOC_ENTER, &e,
		     offsetof(struct hwtimer_enter, pad2), 0);
	/* The larger structure of a newer program that requests nothing new. */
	EXPECT_EQ(0, hwt_ioctl(r->fd, with_size(HWTIMER_IOC_ENTER, sizeof(buf)), buf));
	ring_close(r);
}

/* The result cannot be written, but the submissions are taken. */
TEST(enter_unwritable)
{
	struct hwtimer_enter *e = must_read_only("", 1);
	struct ring *r = must_ring(must_open(0), 4, 4, 4);

	must_put(r, HWTIMER_OP_SCHEDULE, 0, ID(0), now_ns() + FAR, 0);
	EXPECT_EQ(-EFAULT, hwt_ioctl(r->fd, HWTIMER_IOC_ENTER, e));
	EXPECT_EQ(0, ring_untaken(r));
	EXPECT_EQ(1, seen_pending(r));
	ring_close(r);
}

/* The result cannot be written: there are no rings, and a second call creates them. */
TEST(unwritable)
{
	long page = sysconf(_SC_PAGESIZE);
	struct hwtimer_rings good = { .sq_entries = 4, .timeouts = 4, ENTRY_SIZES };
	struct hwtimer_rings *bad = must_read_only(&good, sizeof(good));
	int fd = must_open(0), i;

	for (i = 0; i < 50; i++) {
		ASSERT_EQ(-EFAULT, hwt_ioctl(fd, HWTIMER_IOC_RINGS, bad));
	}
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(ENXIO, errno);
	ASSERT_EQ(0, hwt_rings(fd, &good));
	close(fd);
}

static int try_setup(int fd)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 3 };

	return hwt_setup(fd, &setup);
}

/* Setup, then rings, then timeouts; each once. */
TEST(order_of_setup)
{
	struct hwtimer_rings params = { .sq_entries = 4, .timeouts = 4 };
	int fd;

	/* All three, in order. */
	fd = must_open(0);
	EXPECT_EQ(0, try_setup(fd));
	EXPECT_EQ(0, hwt_rings(fd, &params));
	EXPECT_EQ(-EBUSY, hwt_rings(fd, &params));
	EXPECT_EQ(-EBUSY, try_setup(fd));
	EXPECT_EQ(0, hwt_schedule_id(fd, HWTIMER_RELATIVE, ID(0), FAR, 0));
	EXPECT_EQ(-EBUSY, hwt_rings(fd, &params));
	EXPECT_EQ(-EBUSY, try_setup(fd));
	close(fd);

	/* The rings settle the wheel: a later setup is refused. */
	fd = must_open(0);
	EXPECT_EQ(0, hwt_rings(fd, &params));
	EXPECT_EQ(-EBUSY, hwt_own_wheel(fd, NSEC_PER_MSEC, 64, 0));
	EXPECT_EQ(0, must_fdinfo(fd, "own_wheel"));
	close(fd);

	/* A timeout, or an attempt to schedule one, comes first. */
	fd = must_open(0);
	must_schedule(fd, FAR, 0);
	EXPECT_EQ(-EBUSY, hwt_rings(fd, &params));
	EXPECT_EQ(1, must_stats(fd).pending);
	close(fd);
	fd = must_open(0);
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, must_read_only("", 1)));
	EXPECT_EQ(-EBUSY, hwt_rings(fd, &params));
	close(fd);

	fd = must_open(0);
	EXPECT_EQ(0, hwt_stop(fd, NULL));
	EXPECT_EQ(-ESHUTDOWN, hwt_rings(fd, &params));
	close(fd);
}

/* The initial content of the rings. */
TEST(begins_with)
{
	struct ring *r = must_ring(must_open(0), 4, 8, 4);
	__u32 taken = 9;
	unsigned int i;

	EXPECT_EQ(0, r->shared->sq_tail);
	EXPECT_EQ(0, r->shared->sq_head);
	EXPECT_EQ(0, r->shared->cq_tail);
	EXPECT_EQ(0, r->shared->cq_head);
	EXPECT_EQ(0, r->shared->flags);
	EXPECT_EQ(0, r->shared->pad2);
	EXPECT_EQ(HWTIMER_RING_IDLE, ring_sleep_until(r));
	/* No other content of kernel memory. */
	for (i = 0; i < r->params.size; i++) {
		bool time = i / 8 == offsetof(struct hwtimer_ring, sleep_until) / 8 ||
			    i / 8 == offsetof(struct hwtimer_ring, relaxed_until) / 8;

		ASSERT_EQ(time ? 0xff : 0, ((unsigned char *)r->shared)[i]);
	}
	EXPECT_EQ(0, ring_enter(r, &taken));
	EXPECT_EQ(0, taken);
	ring_close(r);
}

TEST(not_with_read)
{
	struct ring *r = must_ring(must_open(O_NONBLOCK), 4, 4, 4);
	struct hwtimer_record rec[2];
	int ret = read(r->fd, rec, sizeof(rec));

	EXPECT_EQ(-1, ret);
	EXPECT_EQ(EOPNOTSUPP, errno);
	must_arm(r, ID(0), 0, 1);
	eventually(ring_unread(r) == 1);
	ret = read(r->fd, rec, sizeof(rec));
	EXPECT_EQ(-1, ret);
	EXPECT_EQ(EOPNOTSUPP, errno);
	must_ring_expire(r);
	ring_close(r);
}

/* Without rings. */
TEST(no_rings)
{
	struct hwtimer_enter e = { 0 };
	int fd = must_open(0);

	EXPECT_EQ(-ENXIO, hwt_ioctl(fd, HWTIMER_IOC_ENTER, &e));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(ENXIO, errno);
	must_schedule(fd, FAR, 0);
	EXPECT_EQ(-ENXIO, hwt_ioctl(fd, HWTIMER_IOC_ENTER, &e));
	close(fd);
}

/* The mapping. */

static int try_mmap(size_t size, int flags, int fd, long long at)
{
	return mmap64(NULL, size, PROT_READ, flags, fd, at) == MAP_FAILED ? -errno : 0;
}

TEST_F(rings, mmap_refused)
{
	size_t size = self->r->params.size, page = sysconf(_SC_PAGESIZE);
	size_t most = (size + page - 1) / page * page;

	EXPECT_EQ(-ENXIO, try_mmap(most + 1, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(-ENXIO, try_mmap(16 * most, MAP_SHARED, self->fd, 0));
	EXPECT_EQ(-ENXIO, try_mmap(most, MAP_SHARED, self->fd, page));
	EXPECT_EQ(-ENXIO, try_mmap(page, MAP_SHARED, self->fd, most));
	/* 32-bit kernels: -EOVERFLOW */
	EXPECT_GT(0, try_mmap(page, MAP_SHARED, self->fd, 1LL << 43));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE,
				   self->fd, 0));
	EXPECT_EQ(-EINVAL, try_mmap(size, MAP_PRIVATE, self->fd, 0));
	EXPECT_EQ(0, try_mmap(size, MAP_SHARED, self->fd, 0));
	must_be_quiet(self->r);
}

/* The rings can be mapped several times; all mappings are the same memory. */
TEST_F(rings, mmap_twice)
{
	size_t size = self->r->params.size;
	struct ring other = { .fd = self->fd, .params = self->r->params };
	struct hwtimer_ring *view = must_map(self->fd, size, PROT_READ);

	ring_at(&other, must_map(self->fd, size, PROT_READ | PROT_WRITE));
	/* Submitted through one mapping, read through the other. */
	must_arm(self->r, ID(1), 0, USER_DATA);
	eventually(ring_unread(&other) == 1);
	EXPECT_EQ(1, load_acquire(&view->cq_tail));
	EXPECT_EQ(1, load_acquire(&view->sq_head));
	EXPECT_EQ(ID(1), must_ring_expire(&other).id);
	EXPECT_EQ(1, load_acquire(&self->r->shared->cq_head));
	self->r->cq_head = 1;
	ASSERT_EQ(0, munmap(other.shared, size));
	must_be_quiet(self->r);
	ASSERT_EQ(0, munmap(view, size));
}

#define FAULTED	99

/* A handler, as the kernel would log an unhandled signal. */
static void faulted(int signal)
{
	(void)signal;
	_exit(FAULTED);
}

static bool faults(volatile char *where, bool write)
{
	pid_t child = must_fork();
	int end;

	if (!child) {
		signal(SIGSEGV, faulted);
		signal(SIGBUS, faulted);
		if (write)
			*where = 1;
		else
			(void)*where;
		_exit(0);
	}
	end = reap(child);
	if (end && end != FAULTED)
		die("the child's status was %d", end);
	return end;
}

TEST_F(rings, read_only)
{
	struct hwtimer_ring *view = must_map(self->fd, self->r->params.size, PROT_READ);

	EXPECT_TRUE(faults((char *)&view->sq_tail, true));
	EXPECT_EQ(0, view->sq_tail);
	must_be_quiet(self->r);
	EXPECT_EQ(1, load_acquire(&view->sq_tail));
}

/* Rings need a descriptor for reading and writing, and a shared mapping. */
TEST(access_modes)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };
	struct hwtimer_rings params = { .sq_entries = 4, .timeouts = 4 };
	void *map;
	int i, fd;

	for (i = 0; i < 3; i++) {
		fd = open(HWT_DEVICE, modes[i] | O_CLOEXEC);
		ASSERT_LE(0, fd);
		EXPECT_EQ(modes[i] == O_RDONLY ? -EBADF : 0, hwt_rings(fd, &params));
		map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		EXPECT_EQ(modes[i] == O_RDWR, map != MAP_FAILED);
		EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
		close(fd);
	}
}

/* A mapping can be shrunk and moved, but not enlarged. */
TEST_F(rings, mremap)
{
	size_t size = self->r->params.size, page = sysconf(_SC_PAGESIZE);
	char *p = (char *)must_map(self->fd, size, PROT_READ | PROT_WRITE), *q;
	size_t all = (size + page - 1) / page * page;

	EXPECT_EQ(MAP_FAILED, mremap(p, all, all + 4 * page, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	q = mremap(p, all, page, 0);
	ASSERT_EQ(p, q);
	EXPECT_FALSE(faults(p, false));
	if (all > page) {
		EXPECT_TRUE(faults(p + page, false));
	}
	must_be_quiet(self->r);
	EXPECT_EQ(1, load_acquire(&((struct hwtimer_ring *)p)->sq_tail));
	EXPECT_EQ(MAP_FAILED, mremap(p, page, 2 * page, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	/* A mapping that was moved still works. */
	p = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	q = mremap(self->r->shared, all, all, MREMAP_MAYMOVE | MREMAP_FIXED, p);
	ASSERT_EQ(p, q);
	ring_at(self->r, (void *)q);
	must_be_quiet(self->r);
}

TEST_F(rings, mprotect_and_madvise)
{
	static const int advice[] = {
		MADV_DONTNEED, MADV_REMOVE, MADV_FREE, MADV_WILLNEED, MADV_MERGEABLE,
		MADV_HUGEPAGE, MADV_COLD, MADV_PAGEOUT, MADV_WIPEONFORK, MADV_DONTFORK,
	};
	size_t size = self->r->params.size;
	char *p = (char *)self->r->shared;
	unsigned int i;

	must_arm(self->r, ID(0), now_ns() + FAR, 0);
	ASSERT_EQ(0, mprotect(p, size, PROT_READ));
	EXPECT_TRUE(faults(p, true));
	ASSERT_EQ(0, mprotect(p, size, PROT_NONE));
	EXPECT_TRUE(faults(p, false));
	/* The kernel has a mapping of its own. */
	EXPECT_EQ(0, hwt_schedule_id(self->fd, HWTIMER_RELATIVE, ID(1), 0, 0));
	eventually(must_stats(self->fd).expired == 1);
	ASSERT_EQ(0, mprotect(p, size, PROT_READ | PROT_WRITE));
	EXPECT_EQ(ID(1), must_ring_expire(self->r).id);

	/* No advice loses shared data or exposes other memory. */
	for (i = 0; i < ARRAY_SIZE(advice); i++) {
		p = (char *)must_map(self->fd, size, PROT_READ | PROT_WRITE);
		madvise(p, size, advice[i]);
		EXPECT_TRUE(faults(p, false) || *(volatile __u32 *)p == 1);
		mlock(p, size);
		munlock(p, size);
		ASSERT_EQ(0, munmap(p, size));
		EXPECT_EQ(1, load_acquire(&self->r->shared->sq_tail));
		EXPECT_EQ(1, load_acquire(&self->r->shared->sq_head));
	}
	must_be_quiet(self->r);
	EXPECT_EQ(1, must_stats(self->fd).pending);
}

TEST_F(rings, no_truncate)
{
	EXPECT_EQ(-1, ftruncate(self->fd, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ftruncate(self->fd, 1 << 20));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, fallocate(self->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	must_be_quiet(self->r);
}

/* A mapping keeps the context alive as a descriptor does. */
TEST(mapping_outlives_descriptor)
{
	struct ring *r = must_ring(must_open(0), 8, 8, 8);
	int references = module_references();
	struct hwtimer_record rec;

	must_arm(r, ID(0), now_ns() + 50 * NSEC_PER_MSEC, 1);
	must_arm(r, ID(1), now_ns() + FAR, 2);
	must_enter(r);
	close(r->fd);
	eventually(ring_unread(r) == 1);
	EXPECT_EQ(1, ring_reap(r, &rec, 1));
	EXPECT_EQ(ID(0), rec.id);
	EXPECT_EQ(HWTIMER_KIND_EXPIRED, rec.kind);
	EXPECT_LE(rec.deadline, rec.fired);
	EXPECT_EQ(references, module_references());
	ring_unmap(r);
	eventually(module_references() == references - 1);
}

TEST(descriptor_outlives_mapping)
{
	struct ring *r = must_ring(must_open(0), 8, 8, 8);
	struct hwtimer_record rec;
	struct hwtimer_rings params = r->params;
	int fd = r->fd;

	must_arm(r, ID(0), now_ns() + 20 * NSEC_PER_MSEC, 1);
	/* Submitted without the doorbell, it reaches the kernel with the next expiry. */
	must_put(r, HWTIMER_OP_SCHEDULE, 0, ID(1), now_ns() + FAR, 2);
	ring_unmap(r);
	eventually(must_stats(fd).expired == 1);
	EXPECT_EQ(0, hwt_schedule_id(fd, HWTIMER_RELATIVE, ID(2), 0, 3));
	eventually(must_stats(fd).expired == 2);
	EXPECT_EQ(1, must_stats(fd).pending);
	/* A new mapping has all records. */
	r = must_alloc(1, sizeof(*r));
	r->fd = fd;
	r->params = params;
	ring_at(r, must_map(fd, params.size, PROT_READ | PROT_WRITE));
	r->sq_tail = r->shared->sq_tail;
	EXPECT_EQ(2, r->sq_tail);
	ASSERT_EQ(2, ring_unread(r));
	EXPECT_EQ(1, ring_reap(r, &rec, 1));
	EXPECT_EQ(ID(0), rec.id);
	EXPECT_EQ(ID(2), must_ring_expire(r).id);
	ring_close(r);
	eventually(!module_references());
}

/* Parent and child share the context, until both have closed it. */
TEST_F(rings, fork)
{
	struct hwtimer_record rec[2];
	pid_t child;

	must_arm(self->r, ID(0), now_ns() + FAR, 0);
	child = must_fork();
	if (!child) {
		/*
		 * Only if the mapping was inherited. The parent waits, so there is one writer at a
		 * time.
		 */
		must_arm(self->r, ID(1), 0, 1);
		ring_unmap(self->r);
		_exit(0);
	}
	ASSERT_EQ(0, reap(child));
	EXPECT_EQ(2, must_stats(self->fd).scheduled);
	eventually(ring_unread(self->r) == 1);
	EXPECT_EQ(1, ring_reap(self->r, rec, 1));
	EXPECT_EQ(ID(1), rec[0].id);
	self->r->sq_tail = load_acquire(&self->r->shared->sq_tail);
	EXPECT_EQ(2, self->r->sq_tail);
	must_be_quiet(self->r);
}

/* Two writers that do not synchronise get nonsense, but harm only themselves. */
TEST(two_writers)
{
	struct ring *r = must_ring(must_open(0), 16, 16, 16), *other;
	struct hwtimer_record rec[16];
	pid_t children[2];
	int i;

	other = must_ring(must_open(0), 16, 16, 16);
	for (i = 0; i < 2; i++) {
		children[i] = must_fork();
		if (!children[i]) {
			__u64 random = i + 1, end = now_ns();

			end += quick_or(400, 2000) * NSEC_PER_MSEC;
			while (now_ns() < end) {
				struct hwtimer_sqe sqe = {
					.op = rnd(&random) % 3 + 1, .id = ID(rnd(&random) % 16),
				};

				if (sqe.op != HWTIMER_OP_CANCEL)
					sqe.time = now_ns() + rnd(&random) % NSEC_PER_MSEC;
				/* It does not know how the other writer changed the indexes. */
				if (!ring_put(r, &sqe))
					r->sq_tail = load_acquire(&r->shared->sq_head);
				ring_enter(r, NULL);
				if (ring_unread(r) <= 16)
					ring_reap(r, rec, 16);
				else
					store_release(&r->shared->cq_head,
						      load_acquire(&r->shared->cq_tail));
			}
			_exit(0);
		}
	}
	for (i = 0; i < 100; i++) {
		must_arm(other, ID(i % 16), now_ns() + 5 * NSEC_PER_MSEC, i);
		*rec = must_ring_expire(other);
		ASSERT_EQ(ID(i % 16), rec->id);
		ASSERT_EQ(i, rec->user_data);
	}
	for (i = 0; i < 2; i++) {
		int end = reap(children[i]);

		/* Between two reads of the index it may find more records than fit, and abort. */
		EXPECT_TRUE(end == 0 || end == 128 + SIGABRT);
	}
	/* With the indexes repaired, the rings work again. */
	r->sq_tail = load_acquire(&r->shared->sq_head);
	store_release(&r->shared->sq_tail, r->sq_tail);
	r->cq_head = load_acquire(&r->shared->cq_tail);
	store_release(&r->shared->cq_head, r->cq_head);
	ring_enter(r, NULL);
	while (must_stats(r->fd).pending || ring_unread(r) || must_stats(r->fd).unread) {
		usleep(1000);
		ring_reap(r, rec, 16);
		must_enter(r);
	}
	EXPECT_EQ(0, ring_flags(r));
	must_be_quiet(r);
	ring_close(r);
	ring_close(other);
}

/* exec() closes the mapping and the descriptor: the context ends. */
TEST(exec)
{
	char *const arguments[] = { "sleep", "1000", NULL };
	int references = module_references(), status[2];
	pid_t child;
	char c;

	ASSERT_EQ(0, pipe2(status, O_CLOEXEC));
	child = must_fork();
	if (!child) {
		struct ring *r = must_ring(must_open(0), 8, 8, 8);

		must_arm(r, ID(0), now_ns() + FAR, 0);
		must_enter(r);
		expect(references + 1, module_references());
		execv("/bin/sleep", arguments);
		if (write(status[1], "!", 1) != 1)
			die("write");
		_exit(1);
	}
	close(status[1]);
	/* End of file: the exec closed the pipe. */
	EXPECT_EQ(0, read(status[0], &c, 1));
	eventually(module_references() == references);
	must_kill(child);
	close(status[0]);
}

/* Operations. */

TEST_F(rings, schedule)
{
	static const __s64 delays[] = { -FAR, -1, 0, 1, 999999, 1000000, 3999999, 4000001,
		20000000, 33333333 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(delays); i++) {
		__u64 deadline = now_ns() + delays[i];
		struct hwtimer_record rec;

		if (!i)
			deadline = 0;
		must_arm(self->r, ID(i), deadline, USER_DATA + i);
		rec = must_ring_expire(self->r);
		EXPECT_EQ(ID(i), rec.id);
		EXPECT_EQ(USER_DATA + i, rec.user_data);
		/* The wheel, which was created later than 0, counts from its creation. */
		EXPECT_EQ(i ? deadline : rec.last, rec.deadline);
		EXPECT_GE(rec.fired, rec.deadline);
		EXPECT_EQ(i + 1, must_stats(self->fd).scheduled);
		EXPECT_EQ(i + 1, must_stats(self->fd).expired);
	}
	EXPECT_EQ(0, must_stats(self->fd).unread);
	EXPECT_EQ(0, must_stats(self->fd).pending);
	must_be_quiet(self->r);
}

/* Also the id 0, and an id of all ones. */
TEST_F(rings, tags)
{
	static const __u64 tags[] = { 0, 1, 0x5555555555, 0xaaaaaaaaaa, (1ULL << 40) - 1 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tags); i++) {
		__u64 id = HWTIMER_ID(0, tags[i]), far = now_ns() + FAR, deadline, data;

		must_put(self->r, HWTIMER_OP_SCHEDULE, 0, id, far, i);
		ASSERT_EQ(0, hwt_query(self->fd, id, &data, &deadline));
		EXPECT_EQ(far, deadline);
		EXPECT_EQ(i, data);
		EXPECT_EQ(-ENOENT, hwt_query(self->fd, id ^ 1ULL << 63, NULL, NULL));
		EXPECT_EQ(-ENOENT, hwt_cancel(self->fd, id ^ 1ULL << 24));
		must_submit(self->r, HWTIMER_OP_TOUCH, 0, id, 0, 0);
		EXPECT_EQ(id, must_ring_expire(self->r).id);
	}
	must_be_quiet(self->r);
}

TEST_F(rings, never)
{
	__u64 deadline;

	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(0), HWTIMER_NEVER, 1);
	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(1), 1ULL << 62, 1);
	ASSERT_EQ(0, hwt_query(self->fd, ID(0), NULL, &deadline));
	EXPECT_EQ(HWTIMER_NEVER, deadline);
	ASSERT_EQ(0, hwt_query(self->fd, ID(1), NULL, &deadline));
	EXPECT_EQ(HWTIMER_NEVER, deadline);
	must_be_quiet(self->r);
	must_submit(self->r, HWTIMER_OP_TOUCH, 0, ID(0), 0, 0);
	EXPECT_EQ(ID(0), must_ring_expire(self->r).id);
	must_put(self->r, HWTIMER_OP_CANCEL, 0, ID(1), 0, 0);
	must_be_quiet(self->r);
	EXPECT_EQ(1, must_stats(self->fd).cancelled);
}

TEST_F(rings, touch)
{
	__u64 deadline = now_ns() + FAR, data;
	struct hwtimer_record rec;

	must_arm(self->r, ID(7), deadline, USER_DATA);
	/* The user_data of a touch is only reported if the touch fails. */
	must_submit(self->r, HWTIMER_OP_TOUCH, 0, ID(7), deadline + 1, 666);
	ASSERT_EQ(0, hwt_query(self->fd, ID(7), &data, &deadline));
	EXPECT_EQ(USER_DATA, data);
	deadline = now_ns() + 20 * NSEC_PER_MSEC;
	must_submit(self->r, HWTIMER_OP_TOUCH, 0, ID(7), deadline, 666);
	rec = must_ring_expire(self->r);
	EXPECT_EQ(ID(7), rec.id);
	EXPECT_EQ(USER_DATA, rec.user_data);
	EXPECT_EQ(deadline, rec.deadline);
	EXPECT_EQ(2, must_stats(self->fd).touched);
	must_be_quiet(self->r);
}

/* Submissions are taken in order. */
TEST_F(rings, in_order)
{
	__u64 far = now_ns() + FAR;
	unsigned int i;

	for (i = 0; i < 1000; i++) {
		must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(3), far, i);
		must_put(self->r, HWTIMER_OP_TOUCH, 0, ID(3), far + i, i);
		must_put(self->r, HWTIMER_OP_CANCEL, 0, ID(3), 0, i);
	}
	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(3), far, 0);
	must_enter(self->r);
	EXPECT_EQ(0, ring_untaken(self->r));
	EXPECT_STATS(self->fd, .scheduled = 1001, .touched = 1000, .cancelled = 1000, .pending = 1);
	EXPECT_EQ(0, ring_unread(self->r));
	must_be_quiet(self->r);
}

/* A debugger disturbs nothing: what only reports takes no submissions, nor does what fails. */
TEST_F(rings, reports_take_nothing)
{
	struct hwtimer_query q;
	struct hwtimer_list list = {
		.size = sizeof(q), .queries = (uintptr_t)&q, .count = 1,
	};
	struct hwtimer_wheel_stats s;
	struct hwtimer_wheels wheels = {
		.size = sizeof(s), .wheels = (uintptr_t)&s, .count = 1,
	};

	/* The kernel polls until nothing has been submitted for some time, and then not. */
	must_enter(self->r);
	eventually(ring_sleep_until(self->r) == HWTIMER_RING_IDLE);
	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(0), now_ns() + FAR, 7);
	EXPECT_EQ(0, must_stats(self->fd).scheduled);
	EXPECT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_LIST, &list));
	EXPECT_EQ(1, hwt_ioctl(self->fd, HWTIMER_IOC_WHEELS, &wheels));
	EXPECT_EQ(-ENOTTY, hwt_ioctl(self->fd, with_size(HWTIMER_IOC_RESIZE, 0) + 1, NULL));
	EXPECT_EQ(1, ring_untaken(self->r));
	ASSERT_EQ(0, hwt_query(self->fd, ID(0), NULL, NULL));
	EXPECT_EQ(0, ring_untaken(self->r));
	EXPECT_EQ(1, must_stats(self->fd).scheduled);
}

/* Sizes of entries and records that no header can have. */
TEST(entry_sizes_refused)
{
	static const __u32 sizes[] = { 0, 8, 31, 33, 36, 63, 68, 264, 4096, ~7U, ~0U };
	struct hwtimer_rings good = { .sq_entries = 4, .timeouts = 4, ENTRY_SIZES }, bad;
	int fd = must_open(0);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		bad = good;
		bad.sqe_size = sizes[i];
		EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_RINGS, &bad));
		bad = good;
		bad.record_size = sizes[i];
		EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_RINGS, &bad));
	}
	bad.record_size = RECORD_SIZE - 8;
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_RINGS, &bad));
	EXPECT_EQ(0, hwt_ioctl(fd, HWTIMER_IOC_RINGS, &good));
	close(fd);
}

/* A newer program has larger entries. It may not use their new fields. */
TEST(larger_entries)
{
	struct hwtimer_rings params = {
		.sq_entries = 4, .cq_entries = 4, .timeouts = 4, .sqe_size = 64,
		.record_size = 256,
	};
	struct ring *r = must_ring_params(must_open(O_NONBLOCK), &params);
	char *sqe, *unknown;
	struct hwtimer_record *rec;
	unsigned int i, k;

	for (i = 0; i < 10; i++) {
		sqe = (char *)r->sqes + i % 4 * 64;
		memset(sqe, 0, 64);
		*(struct hwtimer_sqe *)sqe = (struct hwtimer_sqe){
			.op = HWTIMER_OP_SCHEDULE, .id = HWTIMER_ID(0, 1 + i), .user_data = i,
		};
		sqe[63 - 3 * i] = i % 2;
		rec = (void *)((char *)r->records + i % 4 * 256);
		unknown = (char *)(rec + 1);
		memset(rec, 0xa5, 256);
		store_release(&r->shared->sq_tail, ++r->sq_tail);
		must_enter(r);
		eventually(ring_unread(r) == 1);
		EXPECT_EQ(i, rec->user_data);
		EXPECT_EQ(i % 2 ? HWTIMER_KIND_FAILED : HWTIMER_KIND_EXPIRED, rec->kind);
		EXPECT_EQ(i % 2 ? -E2BIG : 0, rec->error);
		for (k = 0; k < 256 - sizeof(*rec); k++) {
			ASSERT_EQ(0, unknown[k]);
		}
		store_release(&r->shared->cq_head, ++r->cq_head);
	}
	/* It may take back an entry that has them. */
	sqe = (char *)r->sqes + i % 4 * 64;
	memset(sqe, 0xa5, 64);
	*(struct hwtimer_sqe *)sqe = (struct hwtimer_sqe){ .op = HWTIMER_OP_NOP };
	store_release(&r->shared->sq_tail, ++r->sq_tail);
	must_enter(r);
	EXPECT_EQ(0, ring_untaken(r));
	EXPECT_EQ(0, ring_unread(r));
	ring_close(r);
}

/* ENTER returns how many submissions it took. */
TEST_F(rings, taken)
{
	__u64 far = now_ns() + FAR;
	__u32 taken, i;

	for (i = 0; i < self->r->params.sq_entries; i++)
		must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(i), far, i);
	EXPECT_EQ(self->r->params.sq_entries, self->r->sq_tail);
	ASSERT_EQ(0, ring_enter(self->r, &taken));
	/* The worker may have taken some before. */
	EXPECT_GE(self->r->params.sq_entries, taken);
	EXPECT_EQ(0, ring_untaken(self->r));
	EXPECT_EQ(i, must_fdinfo(self->fd, "pending"));
	ASSERT_EQ(0, ring_enter(self->r, &taken));
	EXPECT_EQ(0, taken);
}

/* Each way in which a submission can fail, with everything else valid. */
struct failure {
	struct hwtimer_sqe sqe;
	int error;
};

static unsigned int failures(struct failure *f, __u64 far)
{
	static const __u32 unknown[] = { 0, 4, 6, 0x101, 0x80000001, ~0U };
	/* ID(0) is pending, ID(1) never was, ID(2) was cancelled. */
	__u64 old = HWTIMER_ID(0, 1);
	unsigned int n = 0, i;

	for (i = 0; i < ARRAY_SIZE(unknown); i++)
		f[n++] = (struct failure){ { unknown[i], 0, ID(1), far, 10 + i }, -EINVAL };
	for (i = 1; i < 32; i++) {
		f[n++] = (struct failure){ { HWTIMER_OP_SCHEDULE, 1U << i, ID(1), far, i },
					   -EINVAL };
		f[n++] = (struct failure){ { HWTIMER_OP_TOUCH, 1U << i, ID(0), far, i },
					   -EINVAL };
		f[n++] = (struct failure){ { HWTIMER_OP_CANCEL, 1U << i, ID(0), 0, i },
					   -EINVAL };
	}
	f[n++] = (struct failure){ { HWTIMER_OP_CANCEL, 0, ID(0), 1, USER_DATA }, -EINVAL };
	f[n++] = (struct failure){ { HWTIMER_OP_CANCEL, 0, ID(0), 1ULL << 63, 1 }, -EINVAL };
	f[n++] = (struct failure){ { HWTIMER_OP_SCHEDULE, 0, ID(SLOTS), far, 1 }, -EINVAL };
	f[n++] = (struct failure){ { HWTIMER_OP_SCHEDULE, 0, ID(0xffffff), far, ~0ULL },
				   -EINVAL };
	f[n++] = (struct failure){ { HWTIMER_OP_SCHEDULE, 0, ID(0), far, 1 }, -EEXIST };
	f[n++] = (struct failure){ { HWTIMER_OP_SCHEDULE, 0, old, 0, 1 }, -EEXIST };
	f[n++] = (struct failure){ { HWTIMER_OP_TOUCH, 0, old, 0, 1 }, -ENOENT };
	f[n++] = (struct failure){ { HWTIMER_OP_CANCEL, 0, old, 0, 1 }, -ENOENT };
	f[n++] = (struct failure){ { HWTIMER_OP_TOUCH, 0, ID(1), 0, 1 }, -ENOENT };
	f[n++] = (struct failure){ { HWTIMER_OP_CANCEL, 0, ID(1), 0, 1 }, -ENOENT };
	f[n++] = (struct failure){ { HWTIMER_OP_TOUCH, 0, ID(2), far, 1 }, -ENOENT };
	f[n++] = (struct failure){ { HWTIMER_OP_CANCEL, 0, ID(2), 0, 1 }, -ENOENT };
	f[n++] = (struct failure){ { HWTIMER_OP_TOUCH, 0, ID(SLOTS), far, 1 }, -ENOENT };
	f[n++] = (struct failure){ { HWTIMER_OP_CANCEL, 0, ID(SLOTS), 0, 1 }, -ENOENT };
	f[n++] = (struct failure){ { HWTIMER_OP_TOUCH, 0, ~0ULL, far, 1 }, -ENOENT };
	f[n++] = (struct failure){ { HWTIMER_OP_CANCEL, 0, ~0ULL, 0, 1 }, -ENOENT };
	return n;
}

/* Each failure is reported, in order, has no effect, and does not hold up later submissions. */
TEST_F(rings, each_failure)
{
	__u64 far = now_ns() + FAR, since, deadline;
	struct hwtimer_stats before, after;
	struct failure f[256];
	struct hwtimer_record rec;
	unsigned int n = failures(f, far), i;

	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(0), far, 7);
	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(2), far, 7);
	must_put(self->r, HWTIMER_OP_CANCEL, 0, ID(2), 0, 7);
	must_enter(self->r);
	before = must_stats(self->fd);

	/* One at a time. */
	for (i = 0; i < n; i++) {
		since = now_ns();
		ASSERT_TRUE(ring_put(self->r, &f[i].sqe));
		must_enter(self->r);
		ASSERT_EQ(1, ring_reap(self->r, &rec, 1))
			TH_LOG("failure %u", i);
		ASSERT_TRUE(reports_failure(&rec, &f[i].sqe, f[i].error, since));
	}
	/* All of them, each followed by a submission that succeeds. */
	since = now_ns();
	for (i = 0; i < n; i++) {
		must_put(self->r, HWTIMER_OP_TOUCH, 0, ID(0), far + i + 1, 0);
		must_put(self->r, f[i].sqe.op, f[i].sqe.flags, f[i].sqe.id, f[i].sqe.time,
			 f[i].sqe.user_data);
	}
	must_enter(self->r);
	for (i = 0; i < n; i++) {
		ASSERT_EQ(1, ring_reap(self->r, &rec, 1));
		ASSERT_TRUE(reports_failure(&rec, &f[i].sqe, f[i].error, since));
	}
	ASSERT_EQ(0, hwt_query(self->fd, ID(0), NULL, &deadline));
	EXPECT_EQ(far + n, deadline);
	after = must_stats(self->fd);
	EXPECT_EQ(before.touched + n, after.touched);
	after.touched = before.touched;
	EXPECT_TRUE(same_stats(&before, &after));

	/* With HWTIMER_SQE_QUIET, the failures are not reported. */
	for (i = 0; i < n; i++) {
		if (f[i].sqe.flags)
			continue;
		must_put(self->r, f[i].sqe.op, HWTIMER_SQE_QUIET, f[i].sqe.id, f[i].sqe.time,
			 f[i].sqe.user_data);
	}
	must_enter(self->r);
	EXPECT_EQ(0, ring_unread(self->r));
	after = must_stats(self->fd);
	after.touched = before.touched;
	EXPECT_TRUE(same_stats(&before, &after));
	/* QUIET suppresses the report of a failure, not that of an expiry. */
	must_submit(self->r, HWTIMER_OP_SCHEDULE, HWTIMER_SQE_QUIET, ID(5), 0, 55);
	EXPECT_EQ(55, must_ring_expire(self->r).user_data);
	must_be_quiet(self->r);
}

/* A NOP has no effect and is not reported, whatever its other fields hold. */
TEST_F(rings, nop)
{
	struct hwtimer_stats before = must_stats(self->fd);
	__u32 taken;

	must_put(self->r, HWTIMER_OP_NOP, 0, 0, 0, 0);
	must_put(self->r, HWTIMER_OP_NOP, ~0U, ~0ULL, ~0ULL, ~0ULL);
	must_put(self->r, HWTIMER_OP_NOP, HWTIMER_SQE_QUIET, ID(0), now_ns(), 1);
	ASSERT_EQ(0, ring_enter(self->r, &taken));
	EXPECT_EQ(3, taken);
	EXPECT_EQ(0, ring_unread(self->r));
	EXPECT_TRUE(unchanged(self->fd, &before));
	EXPECT_EQ(3, load_acquire(&self->r->shared->sq_claimed));
	must_be_quiet(self->r);
}

/* A failure that waits for room is reported as it was taken, even if the entry changes later. */
TEST(failed_and_changed)
{
	struct ring *r = must_ring(must_open(O_NONBLOCK), 4, 1, SLOTS);
	struct hwtimer_record rec;
	__u32 taken;

	must_put(r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(0, 1), 0, 7);
	must_put(r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(1, 1), 0, 8);
	ASSERT_EQ(0, ring_enter(r, &taken));
	ASSERT_EQ(1, taken);
	r->sqes[1] = (struct hwtimer_sqe){
		.op = HWTIMER_OP_NOP, .flags = HWTIMER_SQE_QUIET, .user_data = 9,
	};
	ASSERT_EQ(1, ring_reap(r, &rec, 1));
	EXPECT_EQ(7, rec.user_data);
	/* ring_reap() rings the doorbell. */
	ASSERT_EQ(1, ring_reap(r, &rec, 1));
	EXPECT_EQ(HWTIMER_KIND_FAILED, rec.kind);
	EXPECT_EQ(-ENOENT, rec.error);
	EXPECT_EQ(HWTIMER_OP_CANCEL, rec.op);
	EXPECT_EQ(HWTIMER_ID(1, 1), rec.id);
	EXPECT_EQ(8, rec.user_data);
	EXPECT_EQ(0, ring_untaken(r));
	ring_close(r);
}

/* A submission can be taken back until it is claimed, not after. */
TEST(taken_back)
{
	struct ring *r = must_ring(must_open(O_NONBLOCK), 64, 0, SLOTS);
	__u64 far = now_ns() + FAR;
	unsigned int i;

	for (i = 0; i < 300; i++) {
		__u32 first = r->sq_tail;

		EXPECT_EQ(first, load_acquire(&r->shared->sq_claimed));
		must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(0, i), far, i);
		must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(1, i), far, i);
		must_put(r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(1, i), 0, i);
		/* The worker may have polled meanwhile, and taken the submission. */
		if (!ring_take_back(r, first))
			must_put(r, HWTIMER_OP_CANCEL, HWTIMER_SQE_QUIET, HWTIMER_ID(0, i), 0, i);
		EXPECT_EQ(-ENOENT, hwt_query(r->fd, HWTIMER_ID(0, i), NULL, NULL));
		must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(2, i), far, i);
		must_enter(r);
		EXPECT_EQ(0, hwt_query(r->fd, HWTIMER_ID(2, i), NULL, NULL));
		EXPECT_FALSE(ring_take_back(r, r->sq_tail - 1));
		EXPECT_EQ(0, hwt_cancel(r->fd, HWTIMER_ID(2, i)));
		EXPECT_EQ(0, ring_unread(r));
	}
	EXPECT_EQ(0, must_stats(r->fd).pending);
	ring_close(r);
}

static atomic_bool enough;

static void *keep_entering(void *arg)
{
	struct ring *r = arg;

	while (!atomic_load(&enough))
		must_enter(r);
	return NULL;
}

/*
 * While the kernel takes submissions: one that was taken back had no effect, and one that could
 * not be taken back can be cancelled.
 */
TEST(taken_back_or_not)
{
	struct ring *r = must_ring(must_open(O_NONBLOCK), 256, 0, SLOTS);
	__u64 random = 1, far = now_ns() + FAR;
	unsigned int i, back = 0;
	pthread_t ringing;

	atomic_store(&enough, false);
	ASSERT_EQ(0, pthread_create(&ringing, NULL, keep_entering, r));
	for (i = 0; i < 20000; i++) {
		__u64 id = HWTIMER_ID(i % SLOTS, i);
		unsigned int spin = rnd(&random) % 5000;

		must_put(r, HWTIMER_OP_SCHEDULE, 0, id, far, i);
		while (spin--)
			__asm__ volatile("" : : : "memory");
		if (ring_take_back(r, r->sq_tail - 1))
			back++;
		else
			must_put(r, HWTIMER_OP_CANCEL, HWTIMER_SQE_QUIET, id, 0, i);
		/* The query takes all submissions first. */
		ASSERT_EQ(-ENOENT, hwt_query(r->fd, id, NULL, NULL))
			TH_LOG("number %u, %u were taken back", i, back);
	}
	atomic_store(&enough, true);
	pthread_join(ringing, NULL);
	printf("# %u of %u were taken back\n", back, i);
	EXPECT_EQ(0, must_stats(r->fd).pending);
	EXPECT_EQ(0, ring_unread(r));
	ring_close(r);
}

/* A slot is free once its record is in the completion ring, read or not. */
TEST_F(rings, slot_is_free)
{
	unsigned int i;

	for (i = 0; i < 100; i++) {
		__u64 id = HWTIMER_ID(9, i), since = now_ns();
		struct hwtimer_sqe sqe = { HWTIMER_OP_CANCEL, 0, id - (1 << 24), 0, 1 };
		struct hwtimer_record rec;

		must_arm(self->r, id, 0, i);
		eventually(ring_unread(self->r) == 1);
		/*
		 * The record of the slot's old timeout is correct although there is a new timeout.
		 */
		must_put(self->r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(9, 1000 + i),
			 now_ns() + FAR, 0);
		ASSERT_EQ(0, hwt_query(self->fd, HWTIMER_ID(9, 1000 + i), NULL, NULL));
		ASSERT_EQ(id, must_ring_expire(self->r).id);
		ASSERT_EQ(-ENOENT, hwt_cancel(self->fd, id));
		sqe.id = id;
		ASSERT_TRUE(ring_put(self->r, &sqe));
		must_put(self->r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(9, 1000 + i), 0, 0);
		must_enter(self->r);
		ASSERT_EQ(1, ring_reap(self->r, &rec, 1));
		ASSERT_TRUE(reports_failure(&rec, &sqe, -ENOENT, since));
	}
	EXPECT_EQ(0, must_stats(self->fd).pending);
	must_be_quiet(self->r);
}

/* Ioctls that use ids take earlier submissions first, and use the same ids. */
TEST_F(rings, ioctls_beside)
{
	__u64 far = now_ns() + FAR, data, deadline, back;
	struct hwtimer_record rec[4];
	unsigned int i;

	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(0), far, 10);
	ASSERT_EQ(0, hwt_query(self->fd, ID(0), &data, &deadline));
	EXPECT_EQ(10, data);
	EXPECT_EQ(far, deadline);
	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(1), far, 11);
	ASSERT_EQ(0, hwt_touch(self->fd, 0, ID(1), far + 1, &deadline));
	EXPECT_EQ(far + 1, deadline);
	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(2), far, 12);
	ASSERT_EQ(0, hwt_cancel(self->fd, ID(2)));
	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(3), far, 13);
	ASSERT_EQ(-EEXIST, hwt_schedule_id(self->fd, 0, ID(3), far, 0));
	must_put(self->r, HWTIMER_OP_CANCEL, 0, ID(3), 0, 0);
	ASSERT_EQ(0, hwt_schedule_id(self->fd, 0, ID(3), far, 14));
	must_put(self->r, HWTIMER_OP_TOUCH, 0, ID(3), far + 3, 0);
	must_enter(self->r);
	EXPECT_STATS(self->fd, .scheduled = 5, .touched = 2, .cancelled = 2, .pending = 3);
	/* A failed ioctl returns its error, and adds no record. */
	EXPECT_EQ(-ENOENT, hwt_cancel(self->fd, ID(2)));
	EXPECT_EQ(0, ring_unread(self->r));
	/* A timeout scheduled by ioctl can be cancelled by ring. */
	must_put(self->r, HWTIMER_OP_CANCEL, 0, ID(3), 0, 0);
	ASSERT_EQ(-ENOENT, hwt_query(self->fd, ID(3), NULL, NULL));
	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(3), far, 13);
	ASSERT_EQ(0, hwt_stop(self->fd, &back));
	EXPECT_EQ(3, back);
	ASSERT_EQ(3, ring_reap(self->r, rec, 4));
	for (i = 0; i < 3; i++) {
		EXPECT_TRUE(valid_record(&rec[i], HWTIMER_KIND_HANDED_BACK));
		EXPECT_EQ(ID(rec[i].user_data - 10), rec[i].id);
	}
}

TEST_F(rings, stopped)
{
	struct hwtimer_sqe sqes[] = {
		{ HWTIMER_OP_SCHEDULE, 0, ID(1), now_ns() + FAR, 1 },
		{ HWTIMER_OP_TOUCH, 0, ID(0), now_ns() + FAR, 2 },
		{ HWTIMER_OP_TOUCH, 0, ID(1), now_ns() + FAR, 2 },
		{ HWTIMER_OP_CANCEL, 0, ID(0), 0, 3 },
		{ HWTIMER_OP_CANCEL, HWTIMER_SQE_QUIET, ID(0), 0, 3 },
	};
	static const int errors[] = { -ESHUTDOWN, -ESHUTDOWN, -ESHUTDOWN, -ENOENT };
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };
	__u64 since = now_ns(), back;
	struct hwtimer_record rec[8];
	unsigned int i;

	must_arm(self->r, ID(0), now_ns() + FAR, 7);
	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(2), now_ns() + FAR, 8);
	ASSERT_EQ(0, hwt_stop(self->fd, &back));
	EXPECT_EQ(2, back);
	ASSERT_EQ(2, ring_collect(self->r, rec, 2));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(HWTIMER_KIND_HANDED_BACK, rec[i].kind);
		EXPECT_LE(since, rec[i].fired);
	}
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	EXPECT_EQ(POLLHUP, pfd.revents);
	for (i = 0; i < ARRAY_SIZE(sqes); i++) {
		ASSERT_TRUE(ring_put(self->r, &sqes[i]));
	}
	must_enter(self->r);
	ASSERT_EQ(4, ring_reap(self->r, rec, 8));
	for (i = 0; i < 4; i++) {
		EXPECT_TRUE(reports_failure(&rec[i], &sqes[i], errors[i], since));
	}
	EXPECT_EQ(2, must_stats(self->fd).scheduled);
	ASSERT_EQ(0, hwt_stop(self->fd, &back));
	EXPECT_EQ(0, back);
}

/* The cap of the setup holds for the rings. */
TEST(cap)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 2 };
	struct hwtimer_sqe third = { HWTIMER_OP_SCHEDULE, 0, ID(2), now_ns() + FAR, 3 };
	__u64 since = now_ns();
	struct hwtimer_record rec;
	int fd = must_open(0);
	struct ring *r;

	ASSERT_EQ(0, hwt_setup(fd, &setup));
	r = must_ring(fd, 8, 8, 8);
	must_put(r, HWTIMER_OP_SCHEDULE, 0, ID(0), third.time, 1);
	must_put(r, HWTIMER_OP_SCHEDULE, 0, ID(1), third.time, 2);
	ASSERT_TRUE(ring_put(r, &third));
	must_put(r, HWTIMER_OP_CANCEL, 0, ID(0), 0, 0);
	must_put(r, HWTIMER_OP_SCHEDULE, 0, ID(2), third.time, 3);
	must_enter(r);
	ASSERT_EQ(1, ring_reap(r, &rec, 1));
	EXPECT_TRUE(reports_failure(&rec, &third, -EAGAIN, since));
	EXPECT_STATS(fd, .scheduled = 3, .cancelled = 1, .rejected = 1, .pending = 2);
	ring_close(r);
}

/*
 * A periodic timeout is scheduled by ioctl; its records come through the ring, by which it can
 * also be touched and cancelled.
 */
TEST_F(rings, periodic)
{
	static const __u32 policies[] = {
		HWTIMER_MISFIRE_ONCE, HWTIMER_MISFIRE_SKIP, HWTIMER_MISFIRE_MAKE_UP,
	};
	__u64 reported[3] = { 0 }, last[3] = { 0 }, total = 0;
	unsigned int i, records = 0;
	struct hwtimer_record rec;

	for (i = 0; i < 3; i++) {
		struct hwtimer_schedule s = {
			.flags = HWTIMER_RELATIVE, .user_data = i, .id = ID(i),
			.deadline = POISON, .period = 5 * NSEC_PER_MSEC, .misfire = FAR,
			.policy = policies[i],
		};

		ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
		EXPECT_EQ(ID(i), s.id);
	}
	/* There may be many of the first timeout before one of the second. */
	while (records < 60 || !reported[0] || !reported[1] || !reported[2]) {
		ASSERT_EQ(1, ring_collect(self->r, &rec, 1));
		ASSERT_EQ(HWTIMER_KIND_EXPIRED, rec.kind);
		ASSERT_GT(3, rec.user_data);
		EXPECT_EQ(ID(rec.user_data), rec.id);
		EXPECT_LE(rec.deadline, rec.fired);
		EXPECT_LT(last[rec.user_data], rec.deadline);
		last[rec.user_data] = rec.deadline;
		reported[rec.user_data] += 1 + rec.overruns;
		records++;
	}
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(-EEXIST, hwt_schedule_id(self->fd, HWTIMER_RELATIVE, ID(i), FAR, 0));
		must_put(self->r, HWTIMER_OP_TOUCH, 0, ID(i), now_ns() + FAR, 0);
	}
	EXPECT_EQ(3, must_stats(self->fd).pending);
	for (i = 0; i < 3; i++)
		must_put(self->r, HWTIMER_OP_CANCEL, 0, ID(i), 0, 0);
	must_enter(self->r);
	EXPECT_EQ(0, must_stats(self->fd).pending);
	EXPECT_EQ(3, must_stats(self->fd).cancelled);
	/* Unread records of a cancelled timeout remain. */
	while (ring_reap(self->r, &rec, 1))
		reported[rec.user_data] += 1 + rec.overruns;
	for (i = 0; i < 3; i++)
		total += reported[i];
	EXPECT_EQ(must_stats(self->fd).expired, total);
	must_be_quiet(self->r);
}

/* Rings cannot schedule periodic timeouts, but a slot can hold either kind in turn. */
TEST_F(rings, periodic_then_not)
{
	struct hwtimer_schedule s = {
		.flags = HWTIMER_RELATIVE, .time = FAR, .id = ID(0), .deadline = POISON,
		.period = 5 * NSEC_PER_MSEC,
	};
	int i;

	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
		must_put(self->r, HWTIMER_OP_CANCEL, 0, ID(0), 0, 0);
		must_arm(self->r, ID(0), 0, i);
		ASSERT_EQ(i, must_ring_expire(self->r).user_data);
	}
	must_be_quiet(self->r);
}

/* Indexes wrap around many times in rings of a few entries. */
static void go_round(struct __test_metadata *_metadata, __u32 sq, __u32 cq)
{
	struct ring *r = must_ring(must_open(0), sq, cq, 8);
	unsigned int i, failed = 0, expired = 0;
	struct hwtimer_record rec;

	for (i = 0; i < quick_or(1500, 1500); i++) {
		__u64 id = HWTIMER_ID(i % 8, i);

		must_put(r, HWTIMER_OP_SCHEDULE, 0, id, now_ns() + FAR, i);
		if (i % 3 == 0) {
			must_put(r, HWTIMER_OP_CANCEL, 0, id, 0, 0);
			/* The second cancel fails. */
			must_put(r, HWTIMER_OP_CANCEL, 0, id, 0, i);
			must_enter(r);
			ASSERT_EQ(1, ring_collect(r, &rec, 1));
			ASSERT_EQ(HWTIMER_KIND_FAILED, rec.kind);
			ASSERT_EQ(-ENOENT, rec.error);
			ASSERT_EQ(i, rec.user_data);
			failed++;
		} else {
			must_put(r, HWTIMER_OP_TOUCH, 0, id, 0, 0);
			must_enter(r);
			rec = must_ring_expire(r);
			ASSERT_EQ(id, rec.id);
			ASSERT_EQ(i, rec.user_data);
			expired++;
		}
		ASSERT_EQ(r->sq_tail, load_acquire(&r->shared->sq_head));
	}
	EXPECT_EQ(failed + expired, load_acquire(&r->shared->cq_tail));
	EXPECT_EQ(3 * failed + 2 * expired, r->sq_tail);
	EXPECT_EQ(expired, must_stats(r->fd).expired);
	ring_close(r);
}

TEST(ring_of_1)
{
	go_round(_metadata, 1, 1);
}

TEST(ring_of_2)
{
	go_round(_metadata, 2, 2);
}

TEST(ring_of_4)
{
	go_round(_metadata, 4, 4);
}

TEST(rings_of_1_and_64)
{
	go_round(_metadata, 1, 64);
	go_round(_metadata, 64, 1);
}

/* The times at which the worker polls. */

/* Wait until the worker no longer polls, having found nothing for a while. */
static void must_idle(struct ring *r)
{
	eventually(ring_sleep_until(r) == HWTIMER_RING_IDLE);
}

/* Without barriers in the program, the kernel keeps entries until a grace period is over. */
TEST(no_barriers)
{
	struct hwtimer_rings params = {
		.flags = HWTIMER_RINGS_RELAXED, .sq_entries = 64, .timeouts = SLOTS,
	};
	int fd = must_open(O_NONBLOCK);
	__u64 far = now_ns() + FAR, margin = NSEC_PER_SEC + 8 * must_fdinfo(fd, "tick_ns"), until;
	struct ring *r;
	__u32 i;

	if (nohz_full()) {
		EXPECT_EQ(-EOPNOTSUPP, hwt_rings(fd, &params));
		close(fd);
		return;
	}
	r = must_ring_params(fd, &params);
	EXPECT_EQ(HWTIMER_RING_IDLE, load_acquire(&r->shared->relaxed_until));
	must_arm(r, ID(0), far, 0);
	EXPECT_EQ(0, ring_untaken(r));
	/* It is written after sleep_until; both are HWTIMER_RING_IDLE if this takes too long. */
	eventually(({
		until = ring_sleep_until(r);
		load_acquire(&r->shared->relaxed_until) ==
		(until == HWTIMER_RING_IDLE ? until : until + margin);
	}));
	for (i = 1; i < 4; i++)
		must_put(r, HWTIMER_OP_SCHEDULE, 0, ID(i), far, i);
	/* A timeout that was taken back gives no record, and its index can be used at once. */
	if (!ring_take_back(r, 2))
		must_put(r, HWTIMER_OP_CANCEL, HWTIMER_SQE_QUIET, ID(2), 0, 0);
	must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(2, 9), far, 2);
	eventually(seen_pending(r) == 4 && !ring_untaken(r));
	EXPECT_EQ(-ENOENT, hwt_query(fd, ID(2), NULL, NULL));
	EXPECT_EQ(0, hwt_query(fd, HWTIMER_ID(2, 9), NULL, NULL));
	eventually(load_acquire(&r->shared->relaxed_until) == HWTIMER_RING_IDLE);
	EXPECT_EQ(HWTIMER_RING_IDLE, ring_sleep_until(r));
	EXPECT_EQ(0, ring_unread(r));
	ring_close(r);
}

TEST_F(rings, idles)
{
	struct hwtimer_record rec;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		__u64 until, deadline = now_ns() + 5 * NSEC_PER_MSEC;

		must_arm(self->r, ID(0), now_ns() + FAR, 0);
		/* The worker polls again in time, or it is idle. */
		until = ring_sleep_until(self->r);
		EXPECT_TRUE(until == HWTIMER_RING_IDLE || until <= now_ns() + FAR);
		must_idle(self->r);
		/* The doorbell wakes the worker. */
		must_put(self->r, HWTIMER_OP_CANCEL, 0, ID(0), 0, 0);
		must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(1), deadline, 1);
		if (kick_due(self->r, deadline))
			must_enter(self->r);
		rec = must_ring_expire(self->r);
		EXPECT_EQ(ID(1), rec.id);
	}
	EXPECT_EQ(0, must_stats(self->fd).pending);
}

/*
 * An entry that was submitted without the doorbell, because the worker had announced a poll, is
 * taken at that time or a little later. Random pauses let the worker fall asleep in between.
 */
TEST_F(rings, polls_by_itself)
{
	unsigned int rounds = quick_or(10, 24), i, silent = 0, idle = 0;
	__u64 random = seed(), worst = 0;

	for (i = 0; i < rounds; i++) {
		__u64 far = now_ns() + FAR, until, late, pause;

		must_put(self->r, i % 2 ? HWTIMER_OP_CANCEL : HWTIMER_OP_SCHEDULE, 0, ID(0),
			 i % 2 ? 0 : far, 0);
		until = ring_sleep_until(self->r);
		if (until == HWTIMER_RING_IDLE) {
			idle++;
			must_enter(self->r);
		} else {
			silent++;
			/* Reading fdinfo does not take submissions. */
			eventually(seen_pending(self->r) == !(i % 2));
			ASSERT_EQ(0, ring_untaken(self->r));
			late = now_ns() > until ? now_ns() - until : 0;
			worst = late > worst ? late : worst;
		}
		/* The worker becomes idle after more than a second without submissions. */
		pause = rnd(&random) % (i % 6 ? 20 : 2000);
		wait_until(now_ns() + pause * NSEC_PER_MSEC);
	}
	printf("# %u without a kick, %u when idle; at most %llu us after sleep_until\n", silent,
	       idle, worst / NSEC_PER_USEC);
	EXPECT_LT(0, silent);
	EXPECT_EQ((rounds + 1) / 2, must_stats(self->fd).scheduled);
	EXPECT_EQ(rounds / 2, must_stats(self->fd).cancelled);
	/* Generous, as the guest itself may be delayed. */
	EXPECT_GT(PATIENCE, worst);
}

/*
 * The doorbell is needed only for deadlines before sleep_until. No timeout is early, and each
 * expires. tests/kunit tests in virtual time that none is late; here the machine may be late.
 */
TEST_F(rings, deadline_and_doorbell)
{
	unsigned int i, kicked = 0, silent = 0;
	__u64 random = seed(), worst = 0;

	for (i = 0; i < quick_or(60, 150); i++) {
		__u64 deadline = now_ns() + rnd(&random) % (60 * NSEC_PER_MSEC), late;
		struct hwtimer_record rec;

		must_put(self->r, HWTIMER_OP_SCHEDULE, 0, ID(i % SLOTS), deadline, i);
		if (kick_due(self->r, deadline)) {
			must_enter(self->r);
			kicked++;
		} else {
			silent++;
		}
		rec = must_ring_expire(self->r);
		ASSERT_EQ(ID(i % SLOTS), rec.id);
		ASSERT_EQ(deadline, rec.deadline);
		late = rec.fired - rec.deadline;
		worst = late > worst ? late : worst;
	}
	printf("# %u kicks, %u without; at most %llu us late\n", kicked, silent,
	       worst / NSEC_PER_USEC);
	EXPECT_GT(PATIENCE, worst);
}

/* Many at a time, few of which need the doorbell. */
TEST_F(rings, many_deadlines)
{
	struct hwtimer_record *rec = must_alloc(SLOTS, sizeof(*rec));
	unsigned char *seen = must_alloc(SLOTS, 1);
	__u64 *deadlines = must_alloc(SLOTS, sizeof(*deadlines)), random = seed(), worst = 0;
	unsigned int round, i;

	for (round = 0; round < quick_or(4, 8); round++) {
		memset(seen, 0, SLOTS);
		for (i = 0; i < SLOTS; i++) {
			deadlines[i] = now_ns() + rnd(&random) % (300 * NSEC_PER_MSEC);
			must_arm(self->r, HWTIMER_ID(i, round), deadlines[i], i);
		}
		ASSERT_EQ(SLOTS, ring_collect(self->r, rec, SLOTS));
		for (i = 0; i < SLOTS; i++) {
			__u64 n = rec[i].user_data;

			ASSERT_GT(SLOTS, n);
			ASSERT_EQ(HWTIMER_KIND_EXPIRED, rec[i].kind);
			ASSERT_EQ(HWTIMER_ID(n, round), rec[i].id);
			ASSERT_EQ(deadlines[n], rec[i].deadline);
			ASSERT_LE(deadlines[n], rec[i].fired);
			ASSERT_EQ(0, seen[n]++);
			if (i) {
				ASSERT_LE(rec[i - 1].fired, rec[i].fired);
			}
			if (rec[i].fired - deadlines[n] > worst)
				worst = rec[i].fired - deadlines[n];
		}
	}
	printf("# %lu kicks for %u timeouts; at most %llu us late\n",
	       atomic_load(&self->r->enters), round * SLOTS, worst / NSEC_PER_USEC);
	EXPECT_GT(PATIENCE, worst);
	must_be_quiet(self->r);
	free(deadlines);
	free(seen);
	free(rec);
}

/*
 * A submission published before a deadline takes effect without the doorbell: a cancelled timeout
 * gets no record, and a touched one gets none for its old deadline. If publishing was too close to
 * the deadline, either may come first, but not both.
 */
static void beat_the_deadline(struct __test_metadata *_metadata, struct ring *r, __u32 op)
{
	unsigned int rounds = quick_or(120, 250), i, in_time = 0, first = 0, too_late = 0;
	bool cancel = op == HWTIMER_OP_CANCEL;
	__u64 random = seed();

	/* A busy machine needs more rounds until enough submissions were in time. */
	for (i = 0; i < rounds || in_time < rounds / 20; i++) {
		struct hwtimer_sqe sqe = { .op = op, .user_data = i };
		__u64 deadline, until, published;
		bool expired = false, failed = false;
		struct hwtimer_record rec[3];
		unsigned int n;

		sqe.id = HWTIMER_ID(i % SLOTS, i + 1);
		deadline = now_ns() + 2 * NSEC_PER_MSEC + rnd(&random) % (4 * NSEC_PER_MSEC);
		must_arm(r, sqe.id, deadline, i);
		if (!cancel)
			sqe.time = deadline + 3 * NSEC_PER_MSEC;
		/* Some submissions after the deadline, most just before it. */
		if (i % 4 == 0)
			until = deadline + rnd(&random) % (4 * NSEC_PER_MSEC);
		else if (i % 4 == 1)
			until = deadline - rnd(&random) % (2 * NSEC_PER_MSEC);
		else
			until = deadline - rnd(&random) % (50 * NSEC_PER_USEC);
		while (now_ns() < until)
			;
		ASSERT_TRUE(ring_put(r, &sqe));
		published = now_ns();

		/* An ioctl would take the submission. A pending SCHEDULE may wait as well. */
		eventually(ring_untaken(r) <= 1 && !seen_pending(r));
		/* If it came too late, it may not have been taken yet. */
		must_enter(r);
		n = ring_reap(r, rec, 3);
		while (n--) {
			if (rec[n].kind == HWTIMER_KIND_FAILED) {
				ASSERT_TRUE(reports_failure(&rec[n], &sqe, -ENOENT, deadline));
				ASSERT_FALSE(failed);
				failed = true;
				continue;
			}
			ASSERT_EQ(HWTIMER_KIND_EXPIRED, rec[n].kind);
			ASSERT_EQ(sqe.id, rec[n].id);
			ASSERT_FALSE(expired);
			expired = true;
			ASSERT_LE(rec[n].deadline, rec[n].fired);
			/* In reverse order, so that it is known whether the touch failed. */
			ASSERT_EQ(cancel || failed ? deadline : sqe.time, rec[n].deadline);
		}
		ASSERT_EQ(cancel ? failed : true, expired);
		if (published < deadline) {
			ASSERT_FALSE(failed)
				TH_LOG("round %u: published %llu ns before its deadline",
				       i, deadline - published);
			in_time++;
		} else if (failed) {
			too_late++;
		} else {
			first++;
		}
	}
	printf("# %u in time; of the others %u took effect, %u did not\n", in_time,
	       first, too_late);
	EXPECT_EQ(in_time + first, cancel ? must_stats(r->fd).cancelled :
					    must_stats(r->fd).touched);
}

TEST_F(rings, cancel_before_the_deadline)
{
	beat_the_deadline(_metadata, self->r, HWTIMER_OP_CANCEL);
}

TEST_F(rings, touch_before_the_deadline)
{
	beat_the_deadline(_metadata, self->r, HWTIMER_OP_TOUCH);
}

/* A full ring of cancels is published just before the deadline of all their timeouts. */
TEST_F(rings, cancel_many_before_the_deadline)
{
	unsigned int n = self->r->params.sq_entries, round, i, in_time = 0;
	struct hwtimer_record rec[256];

	/* Published earlier and earlier, until it was in time. */
	for (round = 0; round < 100 || !in_time; round++) {
		__u64 lead = (round < 100 ? round : round * (round - 99)) * NSEC_PER_USEC;
		__u64 deadline = now_ns() + 6 * NSEC_PER_MSEC + lead, published;
		unsigned int failed = 0, expired = 0, got;

		for (i = 0; i < n; i++)
			must_put(self->r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(i, round), deadline,
				 i);
		must_enter(self->r);
		while (now_ns() < deadline - lead)
			;
		for (i = 0; i < n; i++) {
			struct hwtimer_sqe sqe = { HWTIMER_OP_CANCEL, 0, HWTIMER_ID(i, round), 0,
						   i };

			self->r->sqes[(self->r->sq_tail + i) % n] = sqe;
		}
		self->r->sq_tail += n;
		store_release(&self->r->shared->sq_tail, self->r->sq_tail);
		published = now_ns();
		eventually(!seen_pending(self->r));
		must_enter(self->r);
		while ((got = ring_reap(self->r, rec, 256))) {
			for (i = 0; i < got; i++) {
				failed += rec[i].kind == HWTIMER_KIND_FAILED;
				expired += rec[i].kind == HWTIMER_KIND_EXPIRED;
			}
		}
		ASSERT_EQ(failed, expired);
		if (published < deadline) {
			ASSERT_EQ(0, expired)
				TH_LOG("round %u: published %llu ns before its deadline",
				       round, deadline - published);
			in_time++;
		}
	}
	printf("# %u of %u rounds in time\n", in_time, round);
}

/* Poll, epoll, eventfd. */

static short poll_now(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLRDNORM };

	return poll(&pfd, 1, 0) > 0 ? pfd.revents : 0;
}

TEST_F(rings, poll)
{
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };

	EXPECT_EQ(0, poll_now(self->fd));
	must_arm(self->r, ID(0), now_ns() + FAR, 0);
	EXPECT_EQ(0, poll_now(self->fd));
	must_arm(self->r, ID(1), 0, 0);
	ASSERT_EQ(1, poll(&pfd, 1, PATIENCE / NSEC_PER_MSEC));
	EXPECT_EQ(POLLIN, pfd.revents);
	EXPECT_EQ(POLLIN | POLLRDNORM, poll_now(self->fd));
	must_ring_expire(self->r);
	EXPECT_EQ(0, poll_now(self->fd));
	/* A failure is a record, too. */
	must_put(self->r, HWTIMER_OP_CANCEL, 0, ID(1), 0, 0);
	must_enter(self->r);
	EXPECT_EQ(POLLIN | POLLRDNORM, poll_now(self->fd));
}

TEST_F(rings, epoll_level)
{
	int ep = must_epoll(self->fd, EPOLLIN);

	EXPECT_EQ(0, epoll_events(ep, 0));
	must_arm(self->r, ID(0), now_ns() + 5 * NSEC_PER_MSEC, 0);
	EXPECT_EQ(EPOLLIN, epoll_events(ep, PATIENCE / NSEC_PER_MSEC));
	EXPECT_EQ(EPOLLIN, epoll_events(ep, 0));
	must_ring_expire(self->r);
	EXPECT_EQ(0, epoll_events(ep, 0));
	close(ep);
}

/* A producer, and a consumer that waits for edges only, and reads everything at each. */
struct producer {
	pthread_t thread;
	struct ring *r;
	unsigned int count;
	__u64 random;
	atomic_uint read;
};

static void *produce(void *arg)
{
	struct producer *p = arg;
	unsigned int i;

	for (i = 0; i < p->count; i++) {
		must_arm(p->r, HWTIMER_ID(i % SLOTS, i), now_ns() + rnd(&p->random) %
			 (2 * NSEC_PER_MSEC), i);
		/* Slots, and the room for their records, are reused. */
		if (i % (SLOTS / 2) == 0)
			eventually(atomic_load(&p->read) + SLOTS / 2 > i);
		if (rnd(&p->random) % 8 == 0)
			wait_until(now_ns() + rnd(&p->random) % (3 * NSEC_PER_MSEC));
	}
	return NULL;
}

/* Wait on @fd: an edge-triggered epoll of the context, or its eventfd. */
static void consume(struct __test_metadata *_metadata, struct ring *r, int fd, bool is_eventfd)
{
	struct producer p = { .r = r, .count = 1500, .random = seed() };
	struct hwtimer_record rec[64];
	unsigned int got = 0, waits = 0;
	__u64 sum = 0, value;

	start(&p.thread, produce, &p);
	while (got < p.count) {
		unsigned int n;

		if (is_eventfd) {
			ASSERT_EQ(8, read(fd, &value, 8));
			EXPECT_LT(0, value);
			sum += value;
		} else {
			/* A lost event would never come. */
			ASSERT_EQ(EPOLLIN, epoll_events(fd, PATIENCE / NSEC_PER_MSEC))
				TH_LOG("%u of %u", got, p.count);
		}
		waits++;
		while ((n = ring_reap(r, rec, 64))) {
			got += n;
			atomic_store(&p.read, got);
		}
	}
	ASSERT_EQ(p.count, got);
	pthread_join(p.thread, NULL);
	printf("# %u records, waited %u times\n", got, waits);
	if (is_eventfd) {
		printf("# eventfd: %llu\n", sum);
		EXPECT_GE(p.count, sum);
	}
	must_be_quiet(r);
}

TEST_F(rings, epoll_edge)
{
	int ep = must_epoll(self->fd, EPOLLIN | EPOLLET), i;

	EXPECT_EQ(0, epoll_events(ep, 0));
	must_arm(self->r, ID(0), 0, 0);
	EXPECT_EQ(EPOLLIN, epoll_events(ep, PATIENCE / NSEC_PER_MSEC));
	EXPECT_EQ(0, epoll_events(ep, 0));
	must_ring_expire(self->r);
	EXPECT_EQ(0, epoll_events(ep, 0));
	/* Also if the records before have not been read. */
	for (i = 0; i < 3; i++) {
		must_arm(self->r, ID(i), 0, i);
		EXPECT_EQ(EPOLLIN, epoll_events(ep, PATIENCE / NSEC_PER_MSEC));
		EXPECT_EQ(0, epoll_events(ep, 0));
	}
	for (i = 0; i < 3; i++)
		EXPECT_EQ(i, must_ring_expire(self->r).user_data);
	close(ep);
}

TEST_F(rings, epoll_edge_loses_nothing)
{
	int ep = must_epoll(self->fd, EPOLLIN | EPOLLET);

	consume(_metadata, self->r, ep, false);
	close(ep);
}

static struct ring *must_ring_eventfd(int event)
{
	struct hwtimer_rings params = {
		.flags = HWTIMER_RINGS_EVENTFD, .eventfd = event, .sq_entries = 64,
		.cq_entries = 256, .timeouts = SLOTS,
	};

	return must_ring_params(must_open(0), &params);
}

TEST(eventfd_counts)
{
	int event = eventfd(0, EFD_CLOEXEC);
	struct ring *r = must_ring_eventfd(event);
	struct pollfd pfd = { .fd = event, .events = POLLIN };
	__u64 value, i;

	EXPECT_EQ(0, poll(&pfd, 1, 0));
	must_arm(r, ID(0), now_ns() + FAR, 0);
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	/* One signal for each record, if they come apart. */
	for (i = 1; i <= 5; i++) {
		must_arm(r, ID(i), 0, 0);
		ASSERT_EQ(8, read(event, &value, 8));
		EXPECT_EQ(1, value);
		must_ring_expire(r);
	}
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	/* Whether the record before was read or not. */
	for (i = 1; i <= 5; i++) {
		must_arm(r, ID(i), 0, 0);
		ASSERT_EQ(8, read(event, &value, 8));
		EXPECT_EQ(1, value);
		EXPECT_EQ(i, ring_unread(r));
	}
	/* A failure counts as any record. */
	must_put(r, HWTIMER_OP_CANCEL, 0, ID(1), 0, 0);
	must_enter(r);
	ASSERT_EQ(1, poll(&pfd, 1, PATIENCE / NSEC_PER_MSEC));
	ASSERT_EQ(8, read(event, &value, 8));
	EXPECT_EQ(1, value);
	/* A quiet failure is not signalled. */
	must_put(r, HWTIMER_OP_CANCEL, HWTIMER_SQE_QUIET, ID(1), 0, 0);
	must_enter(r);
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	/* A full eventfd does not hold up records. */
	value = ~0ULL - 1;
	ASSERT_EQ(8, write(event, &value, 8));
	must_arm(r, ID(9), 0, 0);
	eventually(ring_unread(r) == 7);
	ring_close(r);
	close(event);
}

TEST(eventfd_loses_nothing)
{
	int event = eventfd(0, EFD_CLOEXEC);
	struct ring *r = must_ring_eventfd(event);

	consume(_metadata, r, event, true);
	ring_close(r);
	close(event);
}

/* The kernel keeps the eventfd when the program closes it. */
TEST(eventfd_closed)
{
	int event = eventfd(0, EFD_CLOEXEC), other;
	struct ring *r = must_ring_eventfd(event);
	__u64 value;

	close(event);
	/* The number now belongs to another eventfd, which is not signalled. */
	other = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	EXPECT_EQ(event, other);
	must_arm(r, ID(0), 0, 0);
	must_ring_expire(r);
	EXPECT_EQ(-1, read(other, &value, 8));
	EXPECT_EQ(EAGAIN, errno);
	must_be_quiet(r);
	ring_close(r);
	close(other);
}

/* A failure is reported after the records that already wait, although room appears before that. */
TEST(failure_behind_expiries)
{
	enum { WAIT = 300, CQ = 128 };
	struct ring *r = must_ring(must_open(O_NONBLOCK), 512, CQ, 512);
	struct hwtimer_record rec[WAIT + 1];
	unsigned int i;

	for (i = 0; i < WAIT; i++)
		must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(i, 1), 0, i);
	must_enter(r);
	eventually(must_stats(r->fd).unread == WAIT - CQ);
	must_put(r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(511, 1), 0, 7);
	ASSERT_EQ(WAIT + 1, ring_collect(r, rec, WAIT + 1));
	for (i = 0; i < WAIT; i++) {
		ASSERT_EQ(HWTIMER_KIND_EXPIRED, rec[i].kind)
			TH_LOG("record %u", i);
	}
	EXPECT_EQ(HWTIMER_KIND_FAILED, rec[WAIT].kind);
	ring_close(r);
}

TEST_HARNESS_MAIN
