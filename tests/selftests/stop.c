// SPDX-License-Identifier: GPL-2.0-only
/*
 * STOP: what is pending is handed back, nothing is armed any more, and whatever races with it,
 * each timeout ends exactly once.
 */
#define OWN_TICK_NS	NSEC_PER_MSEC
#define OWN_SLOTS	256

#include "ring.h"
#include "wheels.h"

/* The history of a timeout, whose user_data is its index. */
struct life {
	__aligned_u64 id;
	atomic_uchar armed, cancelled, records;
};

/* A thread that reads to the end of file. */
struct reader {
	pthread_t thread;
	int fd;
	struct life *lives;
	unsigned int max, kinds[3];
};

static void *read_to_the_end(void *arg)
{
	struct reader *r = arg;
	struct hwtimer_record rec[64];
	int ret, i;

	while ((ret = hwt_read(r->fd, rec, ARRAY_SIZE(rec))) > 0) {
		for (i = 0; i < ret; i++) {
			if (rec[i].user_data >= r->max || rec[i].kind > 2 ||
			    !valid_record(&rec[i], rec[i].kind))
				die("record: user_data %llu kind %u", rec[i].user_data,
				    rec[i].kind);
			r->kinds[rec[i].kind]++;
			atomic_fetch_add(&r->lives[rec[i].user_data].records, 1);
		}
	}
	if (ret)
		die("read: %d", ret);
	return NULL;
}

/* Each arming has ended once, and STATS agrees; @back were handed back. */
static void check_lives(struct __test_metadata *_metadata, const struct reader *readers,
			unsigned int n, __u64 back)
{
	struct hwtimer_stats s = must_stats(readers->fd);
	unsigned int i, armed = 0, cancelled = 0, expired = 0, handed_back = 0;

	for (i = 0; i < readers->max; i++) {
		struct life *l = &readers->lives[i];

		ASSERT_EQ(l->armed, l->cancelled + l->records)
			TH_LOG("timeout %u: armed %u cancelled %u records %u", i, l->armed,
			       l->cancelled, l->records);
		armed += l->armed;
		cancelled += l->cancelled;
	}
	for (i = 0; i < n; i++) {
		expired += readers[i].kinds[HWTIMER_KIND_EXPIRED];
		handed_back += readers[i].kinds[HWTIMER_KIND_HANDED_BACK];
	}
	EXPECT_EQ(armed, s.scheduled);
	EXPECT_EQ(cancelled, s.cancelled);
	EXPECT_EQ(expired, s.expired);
	EXPECT_EQ(handed_back, s.handed_back);
	EXPECT_EQ(back, s.handed_back);
	EXPECT_EQ(0, s.pending);
	EXPECT_EQ(0, s.unread);
	EXPECT_TRUE(balanced(&s));
}

/* None, one, two and thousands. */
TEST_F(context, hands_back)
{
	static const unsigned int counts[] = { 0, 1, 2, 5000 };
	struct hwtimer_record *rec = must_alloc(5001, sizeof(*rec));
	unsigned char *seen = must_alloc(5000, 1);
	__u64 *ids = must_alloc(5000, sizeof(*ids));
	__u64 *deadlines = must_alloc(5000, sizeof(*deadlines));
	unsigned int i, k, n;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		int fd = open_context(variant->own);
		__u64 handed_back, before;

		n = counts[i];
		for (k = 0; k < n; k++) {
			/* Some are touched, some are never due. */
			ASSERT_EQ(0, hwt_schedule(fd, HWTIMER_RELATIVE,
						  k % 5 ? FAR + k : HWTIMER_NEVER, k,
						  &ids[k], &deadlines[k]));
			if (k % 3 == 1) {
				ASSERT_EQ(0, hwt_touch(fd, HWTIMER_RELATIVE, ids[k],
						       FAR / 2 + k, &deadlines[k]));
			}
		}
		before = now_ns();
		ASSERT_EQ(0, hwt_stop(fd, &handed_back));
		EXPECT_EQ(n, handed_back);
		EXPECT_STATS(fd, .scheduled = n, .touched = (n + 1) / 3, .handed_back = n,
			     .unread = n);
		ASSERT_EQ(n, hwt_collect(fd, rec, n + 1));
		memset(seen, 0, n);
		for (k = 0; k < n; k++) {
			ASSERT_TRUE(valid_record(&rec[k], HWTIMER_KIND_HANDED_BACK));
			ASSERT_GT(n, rec[k].user_data);
			ASSERT_EQ(0, seen[rec[k].user_data]++);
			ASSERT_EQ(ids[rec[k].user_data], rec[k].id);
			ASSERT_EQ(deadlines[rec[k].user_data], rec[k].deadline);
			ASSERT_LE(before, rec[k].fired);
		}
		/* End of file, repeatedly. */
		EXPECT_EQ(0, hwt_read(fd, rec, 1));
		EXPECT_EQ(0, hwt_read(fd, rec, 1));
		close(fd);
	}
}

/* Expiries are read before what was handed back. */
TEST_F(context, after_the_expiries)
{
	struct hwtimer_record rec[201];
	__u64 handed_back;
	int i;

	for (i = 0; i < 100; i++)
		must_schedule(self->fd, FAR, 100 + i);
	for (i = 0; i < 100; i++)
		must_schedule(self->fd, 0, i);
	eventually(must_stats(self->fd).expired == 100);
	ASSERT_EQ(0, hwt_stop(self->fd, &handed_back));
	EXPECT_EQ(100, handed_back);
	ASSERT_EQ(200, hwt_collect(self->fd, rec, 201));
	for (i = 0; i < 200; i++) {
		__u32 kind = i < 100 ? HWTIMER_KIND_EXPIRED : HWTIMER_KIND_HANDED_BACK;

		ASSERT_TRUE(valid_record(&rec[i], kind));
		ASSERT_EQ(kind == HWTIMER_KIND_EXPIRED, rec[i].user_data < 100);
	}
}

/* Afterwards only reads and queries are possible. Promise 6. */
/* Timeouts that come due while STOP goes through the pages are handed back, not expired later. */
TEST(amid_the_expiries)
{
	enum { TIMEOUTS = 65536 };
	unsigned int i, back, after;
	struct hwtimer_record rec;
	struct ring *r;
	__u64 start;
	int round;

	for (round = 0; round < 4; round++) {
		r = must_ring(must_open(O_NONBLOCK), TIMEOUTS, TIMEOUTS, TIMEOUTS);
		start = now_ns() + 300 * NSEC_PER_MSEC;
		for (i = 0; i < TIMEOUTS; i++)
			must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(i, 1),
				 start + (TIMEOUTS - i) * 2000ULL, i);
		must_enter(r);
		while (now_ns() < start + 30 * NSEC_PER_MSEC)
			;
		ASSERT_LE(0, hwt_stop(r->fd, NULL));
		for (i = back = after = 0; ring_reap(r, &rec, 1); i++) {
			back += rec.kind == HWTIMER_KIND_HANDED_BACK;
			after += back && rec.kind == HWTIMER_KIND_EXPIRED;
		}
		EXPECT_EQ(TIMEOUTS, i);
		EXPECT_EQ(0, after);
		ring_close(r);
	}
}

TEST_F(context, afterwards)
{
	__u64 id = must_schedule(self->fd, FAR, 1), gone, handed_back;
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC };
	struct hwtimer_stats before;
	struct hwtimer_record rec;
	int read_too;

	gone = must_schedule(self->fd, FAR, 2);
	ASSERT_EQ(0, hwt_cancel(self->fd, gone));
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	/* Before and after the record was read. */
	for (read_too = 0; read_too < 2; read_too++) {
		before = must_stats(self->fd);
		EXPECT_EQ(-ESHUTDOWN, hwt_schedule(self->fd, HWTIMER_RELATIVE, 0, 0,
						   NULL, NULL));
		EXPECT_EQ(-ESHUTDOWN, hwt_schedule(self->fd, 0, now_ns() + FAR, 0,
						   NULL, NULL));
		EXPECT_EQ(-ESHUTDOWN, hwt_touch(self->fd, HWTIMER_RELATIVE, id, 0, NULL));
		EXPECT_EQ(-ESHUTDOWN, hwt_touch(self->fd, HWTIMER_RELATIVE, gone, FAR,
						NULL));
		EXPECT_EQ(-ENOENT, hwt_cancel(self->fd, id));
		EXPECT_EQ(-ENOENT, hwt_query(self->fd, id, NULL, NULL));
		EXPECT_EQ(-ENOENT, hwt_cancel(self->fd, gone));
		EXPECT_EQ(-ESHUTDOWN, hwt_setup(self->fd, &setup));
		handed_back = 77;
		EXPECT_EQ(0, hwt_stop(self->fd, &handed_back));
		EXPECT_EQ(0, handed_back);
		EXPECT_TRUE(unchanged(self->fd, &before));
		if (!read_too) {
			ASSERT_EQ(1, hwt_read(self->fd, &rec, 1));
			EXPECT_EQ(id, rec.id);
		}
	}
	EXPECT_EQ(0, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(0, must_stats(self->fd).unread);
}

/* STOP of a context that was not used, which cannot be used afterwards either. */
TEST_F(context, unused)
{
	__u64 handed_back;
	struct hwtimer_record rec;

	ASSERT_EQ(0, hwt_stop(self->fd, &handed_back));
	EXPECT_EQ(0, handed_back);
	EXPECT_EQ(0, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(-ESHUTDOWN, hwt_schedule(self->fd, HWTIMER_RELATIVE, 0, 0, NULL, NULL));
}

/* Other contexts are not stopped. */
TEST_F(context, not_others)
{
	int other = open_context(variant->own);
	struct hwtimer_record rec;
	__u64 id, handed_back;

	id = must_schedule(other, FAR, 1);
	must_schedule(self->fd, FAR, 1);
	ASSERT_EQ(0, hwt_stop(self->fd, &handed_back));
	EXPECT_EQ(1, handed_back);
	EXPECT_EQ(1, must_stats(other).pending);
	ASSERT_EQ(0, hwt_touch(other, HWTIMER_RELATIVE, id, 0, NULL));
	ASSERT_EQ(1, hwt_collect(other, &rec, 1));
	EXPECT_EQ(id, rec.id);
	close(other);
}

#define ARMERS	2
#define EACH	3000

struct armer {
	pthread_t thread;
	int fd;
	unsigned int first;
	__u64 random;
	__u64 max_delay;
	struct life *lives;
	atomic_int *armed;
	int error;
};

/* Arm and cancel until all were armed, or the context is stopped. */
static void *arm_and_cancel(void *arg)
{
	struct armer *a = arg;
	__u64 ids[16] = { 0 };
	unsigned int which[16], i, k;
	int ret;

	for (i = 0; i < EACH; i++) {
		struct hwtimer_schedule s = {
			.flags = HWTIMER_RELATIVE,
			.time = rnd(&a->random) % a->max_delay,
			.user_data = a->first + i,
		};

		ret = hwt_ioctl(a->fd, HWTIMER_IOC_SCHEDULE, &s);
		if (ret) {
			if (ret != -ESHUTDOWN)
				a->error = ret;
			break;
		}
		a->lives[a->first + i].armed = 1;
		atomic_fetch_add(a->armed, 1);
		k = rnd(&a->random) % 16;
		if (ids[k] && rnd(&a->random) % 2) {
			ret = hwt_cancel(a->fd, ids[k]);
			if (!ret)
				a->lives[which[k]].cancelled++;
			else if (ret != -ENOENT)
				a->error = ret;
		}
		ids[k] = s.id;
		which[k] = a->first + i;
	}
	return NULL;
}

/* One round: armers, readers, and a stop at some time. */
static void race(struct __test_metadata *_metadata, bool own, __u64 *random,
		 __u64 max_delay, unsigned int stop_after, unsigned int *handed_back)
{
	struct life *lives = must_alloc(ARMERS * EACH, sizeof(*lives));
	struct armer armers[ARMERS];
	struct reader readers[2];
	int fd = open_context(own);
	atomic_int count = 0;
	unsigned int i;
	__u64 back;

	for (i = 0; i < 2; i++) {
		readers[i] = (struct reader){ .fd = fd, .lives = lives, .max = ARMERS * EACH };
		start(&readers[i].thread, read_to_the_end, &readers[i]);
	}
	for (i = 0; i < ARMERS; i++) {
		armers[i] = (struct armer){
			.fd = fd, .first = i * EACH, .random = rnd(random) | 1,
			.max_delay = max_delay, .lives = lives, .armed = &count,
		};
		start(&armers[i].thread, arm_and_cancel, &armers[i]);
	}
	while (atomic_load(&count) < (int)stop_after)
		sched_yield();
	ASSERT_EQ(0, hwt_stop(fd, &back));
	for (i = 0; i < ARMERS; i++) {
		pthread_join(armers[i].thread, NULL);
		ASSERT_EQ(0, armers[i].error);
	}
	for (i = 0; i < 2; i++)
		pthread_join(readers[i].thread, NULL);
	check_lives(_metadata, readers, 2, back);
	*handed_back += back;
	close(fd);
	free(lives);
}

static void races(struct __test_metadata *_metadata, bool own, __u64 max_delay,
		  unsigned int rounds)
{
	__u64 random = seed();
	unsigned int i, handed_back = 0;

	for (i = 0; i < rounds; i++)
		race(_metadata, own, &random, max_delay, rnd(&random) % 2000,
		     &handed_back);
	printf("# %u rounds, %u handed back\n", rounds, handed_back);
	EXPECT_LT(0, handed_back);
}

/* Most are pending at the stop. */
TEST_F(context, against_arm_and_cancel)
{
	races(_metadata, variant->own, FAR, quick_or(20, 60));
}

/* Most are about to expire at the stop. Promise 2. */
TEST_F(context, against_expiry)
{
	races(_metadata, variant->own, 3 * NSEC_PER_MSEC, quick_or(20, 60));
}

/* Two concurrent stops: together they hand back everything. */
struct stopper {
	pthread_t thread;
	int fd, ret;
	__u64 handed_back;
	atomic_int *go;
};

static void *stop_it(void *arg)
{
	struct stopper *s = arg;

	while (!atomic_load(s->go))
		;
	s->ret = hwt_stop(s->fd, &s->handed_back);
	return NULL;
}

/* Promise 8. */
TEST_F(context, against_stop)
{
	int i, k;

	for (i = 0; i < 30; i++) {
		struct stopper stoppers[3];
		struct hwtimer_record rec[501];
		atomic_int go = 0;
		int fd = open_context(variant->own);
		__u64 sum = 0;

		for (k = 0; k < 500; k++)
			must_schedule(fd, k % 2 ? FAR : 2 * NSEC_PER_MSEC, k);
		for (k = 0; k < 3; k++) {
			stoppers[k] = (struct stopper){ .fd = fd, .go = &go };
			start(&stoppers[k].thread, stop_it, &stoppers[k]);
		}
		atomic_store(&go, 1);
		for (k = 0; k < 3; k++) {
			pthread_join(stoppers[k].thread, NULL);
			ASSERT_EQ(0, stoppers[k].ret);
			sum += stoppers[k].handed_back;
		}
		ASSERT_EQ(500, hwt_collect(fd, rec, 501));
		ASSERT_EQ(sum, must_stats(fd).handed_back);
		ASSERT_EQ(500, sum + must_stats(fd).expired);
		close(fd);
	}
}

TEST_HARNESS_MAIN
