// SPDX-License-Identifier: GPL-2.0-only
/*
 * HWTIMER_IOC_RESIZE: a context grows and shrinks, keeps what is in use, and gives memory back.
 */
#include "cgroup.h"
#include "ring.h"
#include "users.h"

/* Timeouts of a page. */
#define PAGE	63U
#define MANY	1000U

/* The memory of so many timeouts. */
static unsigned int kib_of(unsigned int timeouts)
{
	return 4 * ((timeouts + PAGE - 1) / PAGE);
}

/* Is there a timeout with this index? It must not be in use. */
static bool has_index(int fd, __u32 index)
{
	int ret = hwt_schedule_id(fd, HWTIMER_RELATIVE, HWTIMER_ID(index, 1), FAR, 0);

	if (ret == -EINVAL)
		return false;
	expect(0, ret);
	expect(0, hwt_cancel(fd, HWTIMER_ID(index, 1)));
	return true;
}

/* One below each limit, at it, and one above. */
TEST(limits)
{
	static const __u32 sizes[] = {
		1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 1, 2 * PAGE, 2 * PAGE + 1, 8 * PAGE,
		8 * PAGE + 1, 100, 24 * PAGE + 1, 24 * PAGE, 2, 1, 0, 1, 65536, 1,
	};
	struct hwtimer_resize flag = { .flags = 1 };
	struct ring *r = must_ring(must_open(0), 4, 4, 1);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_EQ(sizes[i], hwt_resize(r->fd, sizes[i]));
		EXPECT_FALSE(has_index(r->fd, sizes[i]));
		EXPECT_FALSE(has_index(r->fd, sizes[i] + 1));
		EXPECT_EQ(sizes[i] > 0, sizes[i] && has_index(r->fd, sizes[i] - 1));
		EXPECT_EQ(sizes[i] > 0, has_index(r->fd, 0));
		EXPECT_EQ(sizes[i], must_fdinfo(r->fd, "timeouts"));
		eventually(must_fdinfo(r->fd, "user_timeouts") == sizes[i]);
		eventually(must_fdinfo(r->fd, "timeouts_kib") == kib_of(sizes[i]));
	}
	EXPECT_EQ(-EINVAL, hwt_resize(r->fd, (1 << 24) + 1));
	EXPECT_EQ(-EINVAL, hwt_resize(r->fd, ~0U));
	EXPECT_EQ(-EINVAL, hwt_ioctl(r->fd, HWTIMER_IOC_RESIZE, &flag));
	EXPECT_EQ(1, must_fdinfo(r->fd, "timeouts"));
	ring_close(r);
}

/* Timeouts that are pending or unread keep their page, and those below, wherever they are. */
TEST(keeps_what_is_used)
{
	static const __u32 used[] = { 0, PAGE - 1, PAGE, 500, MANY - 1 };
	struct ring *r = must_ring(must_open(0), 8, 2, MANY);
	struct hwtimer_record rec;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(used); i++)
		must_arm(r, HWTIMER_ID(used[i], 7), now_ns() + FAR, used[i]);
	must_enter(r);
	for (i = ARRAY_SIZE(used); i--;) {
		EXPECT_EQ(used[i] + 1, hwt_resize(r->fd, used[i] / 2));
		EXPECT_EQ(used[i] + 1, hwt_resize(r->fd, 0));
		EXPECT_EQ(0, hwt_query(r->fd, HWTIMER_ID(used[i], 7), NULL, NULL));
		EXPECT_EQ(0, hwt_cancel(r->fd, HWTIMER_ID(used[i], 7)));
	}
	EXPECT_EQ(0, hwt_resize(r->fd, 0));
	EXPECT_EQ(MANY, hwt_resize(r->fd, MANY));

	/* Two records are in the ring; the third one waits, and so does its timeout. */
	for (i = 0; i < 3; i++) {
		must_arm(r, HWTIMER_ID(100 * i, 8), 0, i);
		eventually(must_stats(r->fd).expired == i + 1);
	}
	EXPECT_EQ(201, hwt_resize(r->fd, 1));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(1, ring_collect(r, &rec, 1));
		EXPECT_EQ(HWTIMER_ID(100 * i, 8), rec.id);
		must_enter(r);
	}
	EXPECT_EQ(1, hwt_resize(r->fd, 1));
	ring_close(r);
}

/* A cancel that was submitted before counts. */
TEST(takes_submissions)
{
	struct ring *r = must_ring(must_open(0), 8, 8, MANY);

	must_arm(r, HWTIMER_ID(MANY - 1, 1), now_ns() + FAR, 0);
	must_enter(r);
	must_put(r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(MANY - 1, 1), 0, 0);
	EXPECT_EQ(1, hwt_resize(r->fd, 1));
	ring_close(r);
}

static void arm_all(int fd, __u64 *ids)
{
	unsigned int i;

	for (i = 0; i < MANY; i++)
		ids[i] = must_schedule(fd, FAR, i);
}

static void cancel_but(int fd, const __u64 *ids, unsigned int kept)
{
	unsigned int i;

	for (i = 0; i < MANY; i++)
		if (i != kept)
			expect(0, hwt_cancel(fd, ids[i]));
}

/* Without rings: pages that are not in use are given back, and no id is used again. */
TEST(without_rings)
{
	__u64 *ids = must_alloc(3 * MANY, sizeof(*ids));
	int fd = must_open(0);
	unsigned int i;
	__u64 data;

	if (sizeof(long) == 4)
		SKIP(return, "gives nothing back on a 32-bit kernel");
	EXPECT_EQ(0, hwt_resize(fd, 0));
	EXPECT_EQ(0, hwt_resize(fd, MANY));
	arm_all(fd, ids);
	EXPECT_EQ(MANY, hwt_resize(fd, 0));
	cancel_but(fd, ids, MANY / 2);
	EXPECT_EQ(MANY, hwt_resize(fd, MANY));
	EXPECT_EQ(MANY, hwt_resize(fd, MANY - 1));
	/* The last page has fewer. */
	EXPECT_EQ(MANY - MANY % PAGE, hwt_resize(fd, MANY - MANY % PAGE));
	EXPECT_EQ(15 * PAGE, hwt_resize(fd, 14 * PAGE + 1));
	EXPECT_EQ(14 * PAGE, hwt_resize(fd, 14 * PAGE));
	EXPECT_EQ(PAGE, hwt_resize(fd, 0));
	EXPECT_EQ(PAGE, must_fdinfo(fd, "timeouts"));
	eventually(must_fdinfo(fd, "timeouts_kib") == kib_of(PAGE));
	EXPECT_EQ(PAGE, must_fdinfo(fd, "user_timeouts"));

	/* Holes are filled again. */
	data = ids[MANY / 2];
	arm_all(fd, ids + MANY);
	cancel_but(fd, ids + MANY, MANY / 3);
	EXPECT_GE(2 * PAGE, hwt_resize(fd, 0));
	arm_all(fd, ids + 2 * MANY);
	EXPECT_GE(MANY + 2 * PAGE, must_fdinfo(fd, "timeouts"));
	for (i = 0; i < 2 * MANY; i++) {
		if (i != MANY / 2 && i != MANY + MANY / 3) {
			ASSERT_EQ(-ENOENT, hwt_cancel(fd, ids[i]));
		}
	}
	ASSERT_EQ(0, hwt_query(fd, data, &data, NULL));
	EXPECT_EQ(MANY / 2, data);
	EXPECT_EQ(MANY + 2, must_stats(fd).pending);
	EXPECT_TRUE(all_different(ids, 3 * MANY));
	close(fd);
	free(ids);
}

/* Unread records keep their timeouts. */
TEST(unread_without_rings)
{
	struct hwtimer_record rec[MANY];
	__u64 back;
	unsigned int i, n;
	int fd = must_open(0);

	for (i = 0; i < MANY; i++)
		must_schedule(fd, i % 2 ? 0 : FAR, i);
	eventually(must_stats(fd).unread == MANY / 2);
	EXPECT_EQ(MANY, hwt_resize(fd, 0));
	ASSERT_EQ(0, hwt_stop(fd, &back));
	EXPECT_EQ(MANY / 2, back);
	EXPECT_EQ(MANY, hwt_resize(fd, 0));
	for (n = 0; n < MANY; n += i) {
		i = hwt_read(fd, rec + n, MANY - n);
		ASSERT_LT(0, (int)i);
	}
	for (i = 0; i < MANY; i++) {
		ASSERT_TRUE(valid_record(&rec[i], i < MANY / 2 ? HWTIMER_KIND_EXPIRED :
								 HWTIMER_KIND_HANDED_BACK));
		ASSERT_EQ(i < MANY / 2, rec[i].user_data % 2);
	}
	EXPECT_EQ(0, hwt_read(fd, rec, 1));
	EXPECT_EQ(sizeof(long) == 4 ? MANY : 0, hwt_resize(fd, 0));
	close(fd);
}

/* The limit of a user: one below, at it, one above. What was given back can be had at once. */
TEST(quota)
{
	__u64 limit = must_get_parameter("max_user_timeouts");
	unsigned int i;

	make_node();
	ASSERT_EQ(0, set_parameter("max_user_timeouts", 500));
	in_child(fork_as(USER_A)) {
		int other = open_node();
		struct ring *r = must_ring(open_node(), 4, 4, 1);

		must_schedule(other, FAR, 0);
		expect(499, hwt_resize(r->fd, 499));
		expect(-EDQUOT, hwt_resize(r->fd, 500));
		expect(true, has_index(r->fd, 498));
		expect(false, has_index(r->fd, 499));
		expect(498, hwt_resize(r->fd, 498));
		expect(499, hwt_resize(r->fd, 499));
		expect(500, must_fdinfo(r->fd, "user_timeouts"));
		/* The wheel holds these until they are released. */
		for (i = 0; i < 499; i++)
			must_arm(r, HWTIMER_ID(i, 1), now_ns() + FAR, 0);
		for (i = 0; i < 499; i++)
			expect(0, hwt_cancel(r->fd, HWTIMER_ID(i, 1)));
		expect(-EDQUOT, hwt_schedule(other, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
		expect(10, hwt_resize(r->fd, 10));
		for (i = 0; i < 489; i++)
			must_schedule(other, FAR, 0);
		expect(-EDQUOT, hwt_schedule(other, HWTIMER_RELATIVE, FAR, 0, NULL, NULL));
		expect(-EDQUOT, hwt_resize(r->fd, 11));
		expect(-EDQUOT, hwt_resize(r->fd, 1 << 24));
		expect(10, must_fdinfo(r->fd, "timeouts"));
	}
	EXPECT_EQ(0, set_parameter("max_user_timeouts", limit));
	remove_node();
}

/* The cgroup gets its memory back, and a limit makes growing fail without an effect. */
TEST(memory)
{
	const unsigned int many = with_checkers() ? 30000 : 100000;

	if (!make_limited_group("8M"))
		SKIP(return, "no memory controller in " CGROUPS);
	in_child(must_fork()) {
		struct ring *r;
		__u64 before, large;

		enter_group(GROUP);
		r = must_ring(must_open(0), 4, 4, 1);
		must_have_pages();
		before = group_memory(GROUP);
		expect(many, hwt_resize(r->fd, many));
		large = group_memory(GROUP);
		expect(true, large >= before + many * 64);
		expect(-ENOMEM, hwt_resize(r->fd, 3 * many));
		expect(many, must_fdinfo(r->fd, "timeouts"));
		expect(many, must_fdinfo(r->fd, "user_timeouts"));
		must_arm(r, HWTIMER_ID(many - 1, 1), now_ns() + FAR, 0);
		expect(0, hwt_cancel(r->fd, HWTIMER_ID(many - 1, 1)));
		expect(1, hwt_resize(r->fd, 1));
		/* Allocators keep some. */
		eventually(group_memory(GROUP) < before + (large - before) / 4);
	}
	EXPECT_EQ(0, group_value(GROUP, "memory.events", "oom_kill"));
	remove_group(GROUP);
}

/* After it has failed to grow, and freed what it had, it can grow by less. */
TEST(grows_after_failing)
{
	const unsigned int more = 200;

	if (!make_limited_group("8M"))
		SKIP(return, "no memory controller in " CGROUPS);
	in_child(must_fork()) {
		struct ring *r;

		enter_group(GROUP);
		r = must_ring(must_open(0), 4, 4, 1);
		must_have_pages();
		expect(-ENOMEM, hwt_resize(r->fd, 300000));
		expect(more, hwt_resize(r->fd, more));
		must_arm(r, HWTIMER_ID(more - 1, 1), now_ns() + FAR, 0);
		expect(0, hwt_cancel(r->fd, HWTIMER_ID(more - 1, 1)));
	}
	remove_group(GROUP);
}

/*
 * A RESIZE that is killed while it allocates changes nothing. It charges the user first and sets
 * the size last. If it has set the size before the signal arrives, it is tried again.
 */
TEST(killed_while_growing)
{
	const unsigned int many = 1 << 20;
	struct hwtimer_setup setup = {
		.flags = HWTIMER_SETUP_OWN_WHEEL, .clockid = CLOCK_REALTIME,
		.tick_ns = NSEC_PER_MSEC, .slots = 64,
	};
	unsigned int realtime, tries;

	for (realtime = 0; realtime < 2; realtime++) {
		int fd = must_open(0);
		struct ring *r;
		__u64 before;

		if (realtime) {
			ASSERT_EQ(0, hwt_setup(fd, &setup));
		}
		r = must_ring(fd, 4, 4, 1);
		before = must_fdinfo(fd, "user_timeouts");
		for (tries = 0; tries < 20; tries++) {
			pid_t pid = must_fork();

			if (!pid) {
				hwt_resize(fd, many);
				pause();
			}
			while (must_fdinfo(fd, "user_timeouts") == before)
				;
			must_kill(pid);
			if (must_fdinfo(fd, "timeouts") != many)
				break;
			ASSERT_EQ(1, hwt_resize(fd, 1));
			eventually(must_fdinfo(fd, "user_timeouts") == before);
		}
		EXPECT_EQ(1, must_fdinfo(fd, "timeouts"));
		EXPECT_EQ(before, must_fdinfo(fd, "user_timeouts"));
		EXPECT_EQ(4, must_fdinfo(fd, "timeouts_kib"));
		EXPECT_EQ(200, hwt_resize(fd, 200));
		EXPECT_TRUE(has_index(fd, 199));
		EXPECT_FALSE(has_index(fd, 200));
		ring_close(r);
	}
}

/* On CLOCK_REALTIME, what is known of timeouts is given back with them. */
TEST(realtime_memory)
{
	/* All dates together would exceed the limit. */
	enum { TIMES = 16, PART = 30000 };

	if (!make_limited_group("8M"))
		SKIP(return, "no memory controller in " CGROUPS);
	in_child(must_fork()) {
		struct hwtimer_setup setup = {
			.flags = HWTIMER_SETUP_OWN_WHEEL, .clockid = CLOCK_REALTIME,
			.tick_ns = NSEC_PER_MSEC, .slots = 64,
		};
		struct ring *r;
		unsigned int i;
		__u64 before;
		int fd;

		enter_group(GROUP);
		must_have_pages();
		for (i = 0; i < TIMES; i++) {
			fd = must_open(0);
			expect(0, hwt_setup(fd, &setup));
			r = must_ring(fd, 4, 4, 1);
			expect(PART, hwt_resize(fd, PART));
			expect(1, hwt_resize(fd, 1));
			eventually(must_fdinfo(r->fd, "user_timeouts") == i + 1);
			if (i)
				continue;
			/* What it got before it failed, too. */
			before = group_memory(GROUP);
			expect(-ENOMEM, hwt_resize(fd, 1 << 24));
			eventually(group_memory(GROUP) < before + (1 << 20));
		}
	}
	remove_group(GROUP);
}

/* Close it while the wheel holds timeouts of pages that were given back; also an own wheel. */
TEST(closed_meanwhile)
{
	unsigned int round, i;
	int fd, beside = must_open(0);

	for (round = 0; round < 200; round++) {
		fd = must_open(0);
		if (round % 2) {
			ASSERT_EQ(0, hwt_own_wheel(fd, NSEC_PER_MSEC, 64, 0));
		}
		if (round % 4 < 2) {
			__u64 ids[MANY];

			arm_all(fd, ids);
			cancel_but(fd, ids, round);
			hwt_resize(fd, 0);
			close(fd);
			continue;
		}
		struct ring *r = must_ring(fd, 4, 4, MANY);

		for (i = 0; i < MANY; i++)
			ASSERT_EQ(0, hwt_schedule_id(fd, 0, HWTIMER_ID(i, 1), now_ns() + FAR, 0));
		for (i = round; i < MANY; i++)
			ASSERT_EQ(0, hwt_cancel(fd, HWTIMER_ID(i, 1)));
		EXPECT_EQ(round, hwt_resize(fd, 0));
		EXPECT_EQ(MANY, hwt_resize(fd, MANY));
		EXPECT_EQ(round, hwt_resize(fd, 0));
		ring_close(r);
	}
	eventually(!must_fdinfo(beside, "user_timeouts"));
	close(beside);
}

/**
 * struct crowd - threads that use a context while it is resized
 * @fd: the context
 * @ring: its rings, or NULL
 * @over: the threads have to end
 * @ended: timeouts cancelled by the threads, and records read by them
 */
struct crowd {
	int fd;
	struct ring *ring;
	atomic_bool over;
	atomic_ulong ended;
};

/* Schedule, cancel or let expire. Each thread uses indexes of its own, from low to high. */
static void *use(void *arg)
{
	static atomic_uint threads;
	struct crowd *c = arg;
	__u64 random = seed() + threads++, id;
	unsigned int n = 0;

	while (!c->over) {
		__u64 delay = rnd(&random) % 3 ? rnd(&random) % (4 * NSEC_PER_MSEC) : FAR;
		int ret;

		if (c->ring) {
			id = HWTIMER_ID(rnd(&random) % MANY, 1);
			ret = hwt_schedule_id(c->fd, HWTIMER_RELATIVE, id, delay, n++);
			/* That index is not there at the moment, or in use. */
			if (ret == -EINVAL || ret == -EEXIST || ret == -EBUSY)
				continue;
		} else {
			ret = hwt_schedule(c->fd, HWTIMER_RELATIVE, delay, n++, &id, NULL);
		}
		if (ret == -ESHUTDOWN)
			break;
		if (ret)
			die("schedule: %d", ret);
		/* With rings another thread may have cancelled it, and used it again. */
		if ((delay == FAR || rnd(&random) % 2) && !hwt_cancel(c->fd, id))
			c->ended++;
	}
	return NULL;
}

static void *list(void *arg)
{
	struct hwtimer_query queries[100];
	struct crowd *c = arg;
	int n;

	while (!c->over) {
		struct hwtimer_list l = {
			.size = sizeof(queries[0]), .queries = (uintptr_t)queries, .count = 100,
		};

		do {
			n = ioctl(c->fd, HWTIMER_IOC_LIST, &l);
			if (n < 0)
				die("list: %s", strerror(errno));
		} while (n);
	}
	return NULL;
}

/* Collect what expires. */
static void drain(struct crowd *c)
{
	struct hwtimer_record rec[64];
	int n;

	do {
		if (c->ring) {
			must_enter(c->ring);
			n = ring_reap(c->ring, rec, 64);
		} else {
			n = hwt_read(c->fd, rec, 64);
		}
		if (n > 0)
			c->ended += n;
	} while (n > 0);
}

static void resize_in_use(struct __test_metadata *_metadata, struct crowd *c)
{
	__u64 random = seed(), end = now_ns() + quick_or(1, 20) * NSEC_PER_SEC;
	pthread_t threads[3];
	struct hwtimer_stats s;
	unsigned int i, n = 0;
	__u64 back;
	int ret;

	start(&threads[0], use, c);
	start(&threads[1], use, c);
	start(&threads[2], list, c);
	while (now_ns() < end) {
		ret = hwt_resize(c->fd, rnd(&random) % (MANY + 1));
		ASSERT_LE(0, ret);
		drain(c);
		n++;
	}
	ASSERT_EQ(0, hwt_stop(c->fd, &back));
	c->over = true;
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	drain(c);
	s = must_stats(c->fd);
	EXPECT_TRUE(balanced(&s));
	EXPECT_EQ(0, s.pending);
	EXPECT_EQ(0, s.unread);
	EXPECT_EQ(s.scheduled, c->ended);
	EXPECT_EQ(s.handed_back, back);
	ret = hwt_resize(c->fd, 0);
	if (c->ring || sizeof(long) == 8) {
		EXPECT_EQ(0, ret);
	}
	printf("# %u times, %llu timeouts\n", n, s.scheduled);
	eventually(must_fdinfo(c->fd, "timeouts_kib") == kib_of(ret));
}

TEST(in_use)
{
	struct crowd c = { .fd = must_open(O_NONBLOCK) };

	resize_in_use(_metadata, &c);
	close(c.fd);
}

TEST(rings_in_use)
{
	struct crowd c = { .fd = must_open(O_NONBLOCK) };

	c.ring = must_ring(c.fd, 64, 64, MANY);
	resize_in_use(_metadata, &c);
	ring_close(c.ring);
}

TEST_HARNESS_MAIN
