// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hostile use of rings: memory runs out, threads interfere, pages are kept after the close.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <sys/uio.h>

#include "cgroup.h"
#include "ring.h"

/* Schedule by ring; use the doorbell until there is room. */
static void put_patiently(struct ring *r, __u32 flags, __u64 id, __u64 time)
{
	struct hwtimer_sqe sqe = {
		.op = HWTIMER_OP_SCHEDULE, .flags = flags, .id = id, .time = time,
	};

	while (!ring_put(r, &sqe))
		ring_enter(r, NULL);
}

static void must_schedule_id(int fd, __u64 id, __u64 time, __u64 period)
{
	struct hwtimer_schedule s = {
		.time = time, .id = id, .period = period,
	};
	int ret = hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);

	if (ret)
		die("schedule: %d", ret);
}

/* Rings that fail to be allocated at various points, by the memory limit of a cgroup. */
TEST(no_memory_for_rings)
{
	unsigned int kb, failed = 0;
	char limit[32];
	pid_t child;

	if (!make_limited_group("max"))
		SKIP(return, "no memory controller in " CGROUPS);
	for (kb = 1024; kb < 10 * 1024; kb += 512) {
		snprintf(limit, sizeof(limit), "%uK", kb);
		ASSERT_EQ(0, set_group(GROUP, "memory.max", limit));
		child = must_fork();
		if (!child) {
			struct hwtimer_rings params = {
				.sq_entries = 65536, .cq_entries = 65536, .timeouts = 16,
			};
			int fd, ret;

			enter_group(GROUP);
			fd = hwt_open(0);
			if (fd < 0)
				_exit(1);
			ret = hwt_rings(fd, &params);
			_exit(ret == -ENOMEM ? 1 : ret ? 2 : 0);
		}
		switch (reap(child)) {
		case 1:
			failed++;
			break;
		case 0:
		case 128 + SIGKILL:
			break;
		default:
			ASSERT_TRUE(false);
		}
	}
	printf("# %u times out of memory\n", failed);
	EXPECT_LT(0, failed);
	remove_group(GROUP);
}

/* A reader that enters read() while the context gets rings must not consume records. */
static atomic_int reader_fd;
static atomic_bool reader_end;

static void *reader(void *arg)
{
	size_t size = 16 * sizeof(struct hwtimer_record);
	void *rec = must_mmap(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	stay_on(1);
	while (!reader_end) {
		int fd = reader_fd;

		/* A page fault in read() widens the window. */
		madvise(rec, 4096, MADV_DONTNEED);
		if (fd >= 0 && read(fd, rec, size) > 0)
			atomic_fetch_add((atomic_uint *)arg, 1);
	}
	munmap(rec, 4096);
	return NULL;
}

static void *hog(void *arg)
{
	(void)arg;
	stay_on(1);
	while (!reader_end)
		;
	return NULL;
}

TEST(read_against_rings)
{
	enum { READERS = 24 };
	__u64 end = now_ns() + quick_or(3, 10) * NSEC_PER_SEC;
	pthread_t threads[READERS], hogs[2];
	unsigned int i, k, rounds = 0;
	atomic_uint stolen = 0;

	if (online_cpus() < 2)
		SKIP(return, "one CPU");
	reader_fd = -1;
	stay_on(0);
	for (i = 0; i < READERS; i++)
		start(&threads[i], reader, &stolen);
	for (i = 0; i < 2; i++)
		start(&hogs[i], hog, NULL);
	while (now_ns() < end) {
		int fd = must_open(O_NONBLOCK);
		struct ring *r;

		reader_fd = fd;
		usleep(20000);
		r = must_ring(fd, 64, 1, 512);
		/* One record fits into the ring, the others wait. */
		for (k = 0; k < 20; k++) {
			for (i = 0; i < 64; i++) {
				put_patiently(r, HWTIMER_SQE_QUIET,
					      HWTIMER_ID((k * 64 + i) % 512, k), 1);
			}
			ring_enter(r, NULL);
			usleep(1000);
			for (i = 0; i < 70; i++) {
				store_release(&r->shared->cq_head,
					      load_acquire(&r->shared->cq_tail));
				ring_enter(r, NULL);
			}
		}
		reader_fd = -1;
		ring_close(r);
		rounds++;
	}
	reader_end = true;
	for (i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < 2; i++)
		pthread_join(hogs[i], NULL);
	printf("# %u rounds, %u records read\n", rounds, stolen);
	EXPECT_EQ(0, stolen);
}

/* A reader that sleeps in read() when the context gets rings is woken, as no record will come. */
struct sleeper {
	int fd;
	atomic_int tid;
	atomic_int ret;
};

static void *sleep_in_read(void *arg)
{
	struct hwtimer_record rec;
	struct sleeper *s = arg;

	s->tid = my_tid();
	s->ret = read(s->fd, &rec, sizeof(rec)) < 0 ? -errno : 1;
	return NULL;
}

TEST(rings_wake_readers)
{
	enum { READERS = 3 };
	struct sleeper sleepers[READERS] = { 0 };
	pthread_t threads[READERS];
	int fd = must_open(0);
	struct ring *r;
	unsigned int i;

	for (i = 0; i < READERS; i++) {
		sleepers[i].fd = fd;
		start(&threads[i], sleep_in_read, &sleepers[i]);
		eventually(sleepers[i].tid && sleeps_in(sleepers[i].tid, SYS_read));
	}
	r = must_ring(fd, 64, 64, 64);
	for (i = 0; i < READERS; i++) {
		eventually(sleepers[i].ret);
		EXPECT_EQ(-EOPNOTSUPP, sleepers[i].ret);
		pthread_join(threads[i], NULL);
	}
	ring_close(r);
}

/* After the last close, does the kernel still write to the rings? Pages that are kept show it. */
TEST(after_close)
{
	enum { PERIODIC = 32, SLOTS = 100000 };
	struct hwtimer_record rec[64];
	unsigned int rounds = quick_or(3, 3), i, found = 0, round;

	for (round = 0; round < rounds; round++) {
		struct ring *r = must_ring(must_open(0), 1024, 64, SLOTS);
		__u64 base = now_ns() + 600 * NSEC_PER_MSEC, at;
		struct iovec iov = { r->records, sizeof(rec) };
		int pipes[2];

		ASSERT_EQ(0, pipe(pipes));
		/* 64 records fill the ring; those of periodic timeouts wait. */
		for (i = 0; i < 64; i++)
			must_schedule_id(r->fd, HWTIMER_ID(1000 + i, 0), 1, 0);
		eventually(load_acquire(&r->shared->cq_tail) == 64);
		for (i = 0; i < PERIODIC; i++)
			must_schedule_id(r->fd, HWTIMER_ID(i, 0), 1, 3600 * NSEC_PER_SEC);
		/* One expires in each tick, for a while. */
		for (i = 2000; i < SLOTS; i++) {
			/* Most of them later, so that the close takes long. */
			at = i < SLOTS - 2000 ? FAR + now_ns() :
						base + (i - SLOTS + 2000) * NSEC_PER_MSEC;
			put_patiently(r, 0, HWTIMER_ID(i, 0), at);
		}
		ring_enter(r, NULL);
		wait_until(base + 50 * NSEC_PER_MSEC);
		ASSERT_EQ(sizeof(rec), vmsplice(pipes[1], &iov, 1, 0));
		/* In the middle of a tick. */
		while (now_ns() % NSEC_PER_MSEC < 400000 || now_ns() % NSEC_PER_MSEC > 600000)
			;
		store_release(&r->shared->cq_head, load_acquire(&r->shared->cq_tail));
		ring_close(r);
		wait_until(base + 600 * NSEC_PER_MSEC);
		ASSERT_EQ(sizeof(rec), read(pipes[0], rec, sizeof(rec)));
		for (i = 0; i < 64; i++)
			found += rec[i].fired > now_ns();
		close(pipes[0]);
		close(pipes[1]);
	}
	EXPECT_EQ(0, found);
}

/* A submission that waits to be reported as failed counts as rejected once. */
TEST(rejected_once)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 2 };
	int fd = must_open(0), i;
	struct ring *r;

	ASSERT_EQ(0, hwt_setup(fd, &setup));
	r = must_ring(fd, 8, 1, 16);
	/* One record fills the ring, and another waits. */
	must_schedule_id(fd, 0, 1, 0);
	eventually(load_acquire(&r->shared->cq_tail) == 1);
	must_schedule_id(fd, 1, FAR + now_ns(), 0);
	must_schedule_id(fd, 2, FAR + now_ns(), 0);
	must_put(r, HWTIMER_OP_SCHEDULE, 0, 3, FAR + now_ns(), 0);
	for (i = 0; i < 10; i++)
		ring_enter(r, NULL);
	EXPECT_EQ(1, must_stats(fd).rejected);
	ring_close(r);
}

TEST_HARNESS_MAIN
