// SPDX-License-Identifier: GPL-2.0-only
/*
 * 100,000 timeouts on one descriptor: each ends exactly once, their memory is charged to the
 * caller's cgroup, and it is no more than documented.
 */
#include "cgroup.h"
#include "ring.h"

#define MANY	100000U

struct book {
	__u64 id;
	__u64 deadline;		/* the last that was granted */
	bool cancelled;
	unsigned char records;
};

/* Read what is there, and check it against the books. */
static unsigned int settle(int fd, struct book *books, struct hwtimer_record *rec,
			   unsigned int room)
{
	unsigned int n = 0, i;
	int ret;

	while ((ret = hwt_read(fd, rec, room)) > 0) {
		for (i = 0; i < (unsigned int)ret; i++) {
			struct book *b = &books[rec[i].user_data];

			if (rec[i].user_data >= MANY)
				die("user_data %llu", rec[i].user_data);
			if (!valid_record(&rec[i], HWTIMER_KIND_EXPIRED))
				die("record %llu: deadline %llu fired %llu kind %u",
				    rec[i].user_data, rec[i].deadline, rec[i].fired,
				    rec[i].kind);
			if (b->id != rec[i].id || b->deadline != rec[i].deadline)
				die("record %llu: id %llx, not %llx; deadline %llu, not %llu",
				    rec[i].user_data, rec[i].id, b->id,
				    rec[i].deadline, b->deadline);
			if (b->cancelled || b->records)
				die("record %llu: ended twice", rec[i].user_data);
			b->records++;
		}
		n += ret;
	}
	if (ret != -EAGAIN)
		die("read: %d", ret);
	return n;
}

/* All timeouts, on one descriptor. */
struct crowd {
	int fd;
	struct book *books;
	__u64 random, began;
	unsigned int touched, cancelled, expired;
};

/* A quarter of them with the same deadline. */
static void arm_crowd(struct __test_metadata *_metadata, struct crowd *c)
{
	__u64 burst = c->began + 4 * NSEC_PER_SEC;
	unsigned int i;

	for (i = 0; i < MANY; i++) {
		__u64 time = i % 4 ? c->began + 2 * NSEC_PER_SEC +
			     rnd(&c->random) % (4 * NSEC_PER_SEC) : burst;

		ASSERT_EQ(0, hwt_schedule(c->fd, 0, time, i, &c->books[i].id,
					  &c->books[i].deadline));
	}
	printf("# armed in %llu ms\n", (now_ns() - c->began) / NSEC_PER_MSEC);
}

/* About a quarter is cancelled, and a quarter touched. */
static void disturb_crowd(struct crowd *c)
{
	unsigned int i;

	for (i = 0; i < MANY; i++) {
		struct book *b = &c->books[i];
		int ret;

		switch (rnd(&c->random) % 8) {
		case 0:
		case 1:
			ret = hwt_cancel(c->fd, b->id);
			if (!ret) {
				b->cancelled = true;
				c->cancelled++;
			}
			break;
		case 2:	/* later */
			ret = hwt_touch(c->fd, HWTIMER_RELATIVE, b->id,
					4 * NSEC_PER_SEC, &b->deadline);
			c->touched += !ret;
			break;
		case 3:	/* earlier, or later */
			ret = hwt_touch(c->fd, HWTIMER_RELATIVE, b->id,
					rnd(&c->random) % NSEC_PER_SEC, &b->deadline);
			c->touched += !ret;
			break;
		default:
			ret = 0;
		}
		/* It may have expired on a slow machine. */
		if (ret && ret != -ENOENT)
			die("%u: %d", i, ret);
	}
	printf("# touched %u, cancelled %u after %llu ms\n", c->touched, c->cancelled,
	       (now_ns() - c->began) / NSEC_PER_MSEC);
}

/* Read until all that were not cancelled have expired. */
static void await_crowd(struct __test_metadata *_metadata, struct crowd *c)
{
	struct hwtimer_record *rec = must_alloc(1024, sizeof(*rec));
	struct pollfd pfd = { .fd = c->fd, .events = POLLIN };
	__u64 end = now_ns() + PATIENCE;

	while (c->expired < MANY - c->cancelled) {
		ASSERT_GT(end, now_ns())
			TH_LOG("%u of %u expired", c->expired, MANY - c->cancelled);
		if (poll(&pfd, 1, 1000) > 0)
			c->expired += settle(c->fd, c->books, rec, 1024);
	}
	printf("# all expired after %llu ms\n", (now_ns() - c->began) / NSEC_PER_MSEC);
	free(rec);
}

/* Each has ended once, and STATS agrees. */
static void check_crowd(struct __test_metadata *_metadata, struct crowd *c)
{
	unsigned int i;

	for (i = 0; i < MANY; i++) {
		ASSERT_EQ(1, c->books[i].cancelled + c->books[i].records)
			TH_LOG("timeout %u", i);
	}
	EXPECT_EQ(MANY - c->cancelled, c->expired);
	EXPECT_STATS(c->fd, .scheduled = MANY, .touched = c->touched, .cancelled = c->cancelled,
		     .expired = c->expired);
	/* No id is valid any more. */
	for (i = 0; i < MANY; i += 97) {
		ASSERT_EQ(-ENOENT, hwt_cancel(c->fd, c->books[i].id));
	}
}

/* Arm, touch, cancel a part, and let the rest expire. */
static void hundred_thousand(struct __test_metadata *_metadata, int fd)
{
	struct crowd c = {
		.fd = fd, .books = must_alloc(MANY, sizeof(*c.books)),
		.random = seed(), .began = now_ns(),
	};

	arm_crowd(_metadata, &c);
	disturb_crowd(&c);
	await_crowd(_metadata, &c);
	check_crowd(_metadata, &c);
	free(c.books);
}

TEST(shared_wheel)
{
	int fd = must_open(O_NONBLOCK);

	hundred_thousand(_metadata, fd);
	close(fd);
}

TEST(own_wheel)
{
	int fd = must_open(O_NONBLOCK);

	/* One slot: every tick visits all of them. */
	ASSERT_EQ(0, hwt_own_wheel(fd, 200 * NSEC_PER_MSEC, 1, MANY));
	hundred_thousand(_metadata, fd);
	close(fd);
}

/* The memory of thousands is reused, their ids are not. */
TEST(all_ids_differ)
{
	__u64 *ids = must_alloc(2 * MANY, sizeof(*ids));
	int fd = must_open(0);
	unsigned int i;

	for (i = 0; i < MANY; i++)
		ids[i] = must_schedule(fd, FAR, i);
	for (i = 0; i < MANY; i++) {
		ASSERT_EQ(0, hwt_cancel(fd, ids[i]));
		ids[MANY + i] = must_schedule(fd, FAR, i);
	}
	EXPECT_EQ(MANY, must_stats(fd).pending);
	EXPECT_TRUE(all_different(ids, 2 * MANY));
	close(fd);
	free(ids);
}

/*
 * A timeout takes about 65 bytes. The kernel charges 64 pages at a time, for each CPU, so a
 * group's memory is exact to 256 KiB a CPU only: 3 bytes each of these.
 */
#define BYTES_AT_LEAST	50

TEST(charged)
{
	int ready[2];
	__u64 before;
	pid_t child;
	char c;

	if (!make_limited_group("max"))
		SKIP(return, "no memory controller in " CGROUPS);
	ASSERT_EQ(0, pipe(ready));
	child = must_fork();
	if (!child) {
		unsigned int i;
		int fd;

		enter_group(GROUP);
		fd = must_open(0);
		if (write(ready[1], "1", 1) != 1)
			_exit(1);
		for (i = 0; i < MANY; i++)
			must_schedule(fd, FAR, i);
		if (write(ready[1], "2", 1) != 1)
			_exit(1);
		pause();
	}
	ASSERT_EQ(1, read(ready[0], &c, 1));
	before = group_memory(GROUP);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	printf("# %llu kB, then %llu kB\n", before / 1024,
	       group_memory(GROUP) / 1024);
	EXPECT_LE(before + MANY * BYTES_AT_LEAST, group_memory(GROUP));
	must_kill(child);
	/* All memory is freed after the last close. */
	eventually(group_memory(GROUP) < MANY * BYTES_AT_LEAST / 3);
	remove_group(GROUP);
}

/*
 * Kernel memory per pending timeout, including tables, rings, and slack of the allocators. Not
 * more than documented.
 */
#define BYTES_AT_MOST	72

static void arm_many(int fd)
{
	unsigned int i;

	for (i = 0; i < MANY; i++)
		must_schedule(fd, FAR, i);
}

static void arm_many_by_rings(int fd)
{
	struct ring *r = must_ring(fd, 1024, 1024, MANY);
	__u64 deadline = now_ns() + FAR;
	unsigned int i;

	for (i = 0; i < MANY; i++)
		must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(i, 1), deadline, i);
	must_enter(r);
}

/* In a separate cgroup, as memory that others leave behind is freed asynchronously. */
static __u64 bytes_each(void (*arm)(int fd))
{
	__u64 before, after;
	pid_t child;

	if (!make_limited_group("max"))
		die("the memory controller has gone");
	child = must_fork();
	if (!child) {
		int fd;

		enter_group(GROUP);
		fd = must_open(0);
		/* First allocate what is allocated once per process or context. */
		must_schedule(must_open(0), FAR, 0);
		ring_close(must_ring(must_open(0), 1, 1, 1));
		raise(SIGSTOP);
		arm(fd);
		expect(MANY, must_stats(fd).pending);
		raise(SIGSTOP);
		_exit(0);
	}
	must_stop(child);
	before = group_memory(GROUP);
	kill(child, SIGCONT);
	must_stop(child);
	after = group_memory(GROUP);
	must_kill(child);
	remove_group(GROUP);
	return (after - before) / MANY;
}

TEST(bytes_per_timeout)
{
	__u64 ioctls, rings;

	if (!make_limited_group("max"))
		SKIP(return, "no memory controller in " CGROUPS);
	remove_group(GROUP);
	ioctls = bytes_each(arm_many);
	rings = bytes_each(arm_many_by_rings);
	printf("# bytes per timeout: ioctl %llu, rings %llu\n", ioctls, rings);
	EXPECT_LE(BYTES_AT_LEAST, ioctls);
	EXPECT_GE(BYTES_AT_MOST, ioctls);
	EXPECT_LE(BYTES_AT_LEAST, rings);
	EXPECT_GE(BYTES_AT_MOST, rings);
}

/*
 * Rings at a cgroup's memory limit, where they are allocated as a whole: rings that are too large
 * are refused, no process is killed, and smaller ones can be had afterwards.
 */
TEST(limited_rings)
{
	static const struct hwtimer_rings too_much[] = {
		{ .sq_entries = 1, .timeouts = 1 << 24 },
		{ .sq_entries = 1, .timeouts = 100000 },
		{ .sq_entries = 65536, .cq_entries = 65536, .timeouts = 1 },
		{ .sq_entries = 65536, .cq_entries = 65536, .timeouts = 30000 },
		{ .sq_entries = 1, .cq_entries = 65536, .timeouts = 50000 },
	};
	struct hwtimer_rings fits = { .sq_entries = 1024, .timeouts = 1000 };
	__u64 limit = 5 << 20;

	if (!make_limited_group("5M"))
		SKIP(return, "no memory controller in " CGROUPS);
	in_child(must_fork()) {
		unsigned int i, k;
		struct ring *r;
		__u64 back;
		int fd;

		enter_group(GROUP);
		fd = must_open(0);
		for (k = 0; k < 10; k++) {
			for (i = 0; i < ARRAY_SIZE(too_much); i++) {
				struct hwtimer_rings params = too_much[i];

				expect(-ENOMEM, hwt_rings(fd, &params));
			}
		}
		expect(0, must_stats(fd).scheduled);
		r = must_ring_params(fd, &fits);
		for (i = 0; i < 1000; i++)
			must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(i, 1), now_ns() + FAR, i);
		must_enter(r);
		expect(1000, must_stats(fd).pending);
		expect(0, hwt_stop(fd, &back));
		expect(1000, back);
	}
	EXPECT_EQ(0, group_value(GROUP, "memory.events", "oom_kill"));
	eventually(group_memory(GROUP) < limit / 4);
	remove_group(GROUP);
}

/*
 * At the memory limit, a caller gets an error, and is killed only if it needs memory of another
 * kind. Timeouts that were armed before still work.
 */
TEST(limited)
{
	const __u64 limit = 8 << 20;
	unsigned int most = limit / BYTES_AT_LEAST;

	if (!make_limited_group("8M"))
		SKIP(return, "no memory controller in " CGROUPS);
	in_child(must_fork()) {
		unsigned int armed = 0;
		struct hwtimer_stats s;
		__u64 id = 0;
		int fd, ret;

		enter_group(GROUP);
		fd = must_open(0);
		must_have_pages();
		do {
			ret = hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, &id, NULL);
			armed += !ret;
		} while (!ret && armed < 10 * most);
		expect(-ENOMEM, ret);
		expect(1, armed > 1000);
		expect(1, armed < most);
		s = must_stats(fd);
		expect(armed, s.pending);
		expect(armed, s.scheduled);
		expect(1, balanced(&s));
		/* Stopping them needs no memory. */
		expect(0, hwt_stop(fd, &id));
		expect(armed, id);
	}
	EXPECT_EQ(0, group_value(GROUP, "memory.events", "oom_kill"));
	eventually(group_memory(GROUP) < limit / 4);
	remove_group(GROUP);
}

TEST_HARNESS_MAIN
