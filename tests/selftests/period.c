// SPDX-License-Identifier: GPL-2.0-only
/*
 * Periodic timeouts: invalid arguments; the records of each policy, read early and late; and that
 * no expiry is lost or reported twice.
 *
 * The machine may be late at any time. Where that must not be a misfire, the misfire bound is FAR;
 * where a misfire is wanted, the deadline is in the past.
 */
#define OWN_TICK_NS	(4 * NSEC_PER_MSEC)
#define OWN_SLOTS	8

#include "wheels.h"

#define FIRE_ONCE	HWTIMER_MISFIRE_ONCE
#define SKIPPING	HWTIMER_MISFIRE_SKIP
#define MAKE_UP	HWTIMER_MISFIRE_MAKE_UP

#define PERIOD	(5 * NSEC_PER_MSEC)

static int schedule(int fd, __u32 flags, __u64 time, __u64 period, __u64 misfire,
		    __u32 policy, struct hwtimer_schedule *out)
{
	struct hwtimer_schedule s = {
		.flags = flags, .time = time, .user_data = 7, .id = POISON,
		.deadline = POISON, .period = period, .misfire = misfire,
		.policy = policy,
	};
	int ret = hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);

	if (s.flags != flags || s.pad || s.time != time || s.user_data != 7 ||
	    s.period != period || s.misfire != misfire || s.policy != policy || s.pad2)
		return DIRTY;
	if (!ret && (!s.id || s.id == POISON || s.deadline == POISON))
		return DIRTY;
	if (out)
		*out = s;
	return ret;
}

/* First expiry in @delay, then every PERIOD; only a deadline in the past is a misfire. */
static struct hwtimer_schedule must_repeat(int fd, __u64 delay, __u32 policy)
{
	struct hwtimer_schedule s;
	int ret = schedule(fd, HWTIMER_RELATIVE, delay, PERIOD, FAR, policy, &s);

	if (ret)
		die("schedule: %d (%s)", ret, strerror(-ret));
	return s;
}

static struct hwtimer_query must_query(int fd, __u64 id)
{
	struct hwtimer_query q = { .id = id, .user_data = POISON, .deadline = POISON,
		.period = POISON, .misfire = POISON, .unread = POISON, .policy = ~0U };
	int ret = hwt_ioctl(fd, HWTIMER_IOC_QUERY, &q);

	if (ret)
		die("query: %d (%s)", ret, strerror(-ret));
	if (q.flags || q.pad || q.pad2 || q.id != id || q.user_data == POISON ||
	    q.deadline == POISON || q.period == POISON || q.misfire == POISON ||
	    q.unread == POISON || q.policy == ~0U)
		die("query: a field was not filled in");
	return q;
}

/* Read one record, which must be an expiry. */
static struct hwtimer_record must_read(int fd)
{
	struct hwtimer_record rec;

	if (hwt_collect(fd, &rec, 1) != 1)
		die("no record");
	if (rec.error || !rec.id || rec.fired > now_ns() ||
	    (rec.kind == HWTIMER_KIND_EXPIRED && rec.fired < rec.deadline) ||
	    (rec.kind == HWTIMER_KIND_HANDED_BACK && rec.overruns) || rec.op || rec.pad ||
	    rec.last < rec.deadline || (!rec.overruns && rec.last != rec.deadline))
		die("record: id %llx deadline %llu last %llu fired %llu overruns %llu kind %u "
		    "error %d", rec.id, rec.deadline, rec.last, rec.fired, rec.overruns, rec.kind,
		    rec.error);
	return rec;
}

static bool quiet(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return !poll(&pfd, 1, 0);
}

/* Invalid arguments, with everything else valid, have no effect. */
TEST_F(context, refused)
{
	const __u64 tick = self->tick_ns;
	const struct {
		__u64 period, misfire;
		__u32 policy;
		int ret;
	} cases[] = {
		{ 1, 0, FIRE_ONCE, -EINVAL },
		{ tick - 1, 0, FIRE_ONCE, -EINVAL },
		{ tick, 0, FIRE_ONCE, 0 }, { tick + 1, 0, FIRE_ONCE, 0 },
		{ tick - 1, 0, SKIPPING, -EINVAL }, { tick, 0, SKIPPING, 0 },
		{ tick - 1, 0, MAKE_UP, -EINVAL }, { tick, 0, MAKE_UP, 0 },
		{ ~0ULL, 0, FIRE_ONCE, 0 }, { 1ULL << 63, 0, FIRE_ONCE, 0 },
		{ FAR, 1, FIRE_ONCE, -EINVAL }, { FAR, tick - 1, FIRE_ONCE, -EINVAL },
		{ FAR, tick - 1, SKIPPING, -EINVAL }, { FAR, tick - 1, MAKE_UP, -EINVAL },
		{ FAR, tick, SKIPPING, 0 }, { FAR, tick + 1, SKIPPING, 0 },
		{ FAR, ~0ULL, SKIPPING, 0 },
		{ FAR, 0, 3, -EINVAL }, { FAR, 0, 4, -EINVAL }, { FAR, 0, 256, -EINVAL },
		{ FAR, 0, 0x80000000, -EINVAL }, { FAR, 0, ~0U, -EINVAL },
		{ 0, 0, FIRE_ONCE, 0 }, { 0, tick, FIRE_ONCE, -EINVAL },
		{ 0, 1, FIRE_ONCE, -EINVAL },
		{ 0, ~0ULL, FIRE_ONCE, -EINVAL }, { 0, 0, SKIPPING, -EINVAL },
		{ 0, 0, MAKE_UP, -EINVAL }, { 0, 0, 3, -EINVAL },
	};
	struct hwtimer_stats before;
	struct hwtimer_schedule s;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		before = must_stats(self->fd);
		ASSERT_EQ(cases[i].ret, schedule(self->fd, HWTIMER_RELATIVE, FAR,
						 cases[i].period, cases[i].misfire,
						 cases[i].policy, &s))
			TH_LOG("case %u", i);
		if (cases[i].ret) {
			EXPECT_EQ(POISON, s.id);
			EXPECT_EQ(POISON, s.deadline);
			EXPECT_TRUE(unchanged(self->fd, &before));
		}
	}
}

TEST_F(context, pads)
{
	struct hwtimer_stats before = must_stats(self->fd);
	int bit, periodic;
	__u64 id;

	for (bit = 0; bit < 32; bit++) {
		for (periodic = 0; periodic < 2; periodic++) {
			struct hwtimer_schedule s = {
				.flags = HWTIMER_RELATIVE, .time = FAR,
				.period = periodic ? FAR : 0, .pad2 = 1U << bit,
			};

			ASSERT_EQ(-EINVAL, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &s));
		}
	}
	EXPECT_TRUE(unchanged(self->fd, &before));
	id = must_repeat(self->fd, FAR, FIRE_ONCE).id;
	for (bit = 0; bit < 32; bit++) {
		struct hwtimer_query q = { .id = id, .pad2 = 1U << bit };

		ASSERT_EQ(-EINVAL, hwt_ioctl(self->fd, HWTIMER_IOC_QUERY, &q));
	}
}

TEST_F(context, query)
{
	struct hwtimer_schedule s;
	struct hwtimer_query q;
	__u32 policy;

	for (policy = FIRE_ONCE; policy <= MAKE_UP; policy++) {
		ASSERT_EQ(0, schedule(self->fd, 0, now_ns() + FAR, 2 * FAR, 0, policy, &s));
		q = must_query(self->fd, s.id);
		EXPECT_EQ(7, q.user_data);
		EXPECT_EQ(s.deadline, q.deadline);
		EXPECT_EQ(2 * FAR, q.period);
		EXPECT_EQ(2 * FAR, q.misfire);
		EXPECT_EQ(policy, q.policy);
		EXPECT_EQ(0, q.unread);
		ASSERT_EQ(0, schedule(self->fd, 0, now_ns() + FAR, 2 * FAR, FAR, policy, &s));
		q = must_query(self->fd, s.id);
		EXPECT_EQ(FAR, q.misfire);
	}
	q = must_query(self->fd, must_schedule(self->fd, FAR, 1));
	EXPECT_EQ(0, q.period);
	EXPECT_EQ(0, q.misfire);
	EXPECT_EQ(0, q.policy);
	EXPECT_EQ(0, q.unread);
	/* The deadline moves by whole periods, and only by as many as are reported. */
	for (policy = FIRE_ONCE; policy <= MAKE_UP; policy++) {
		s = must_repeat(self->fd, 0, policy);
		do {
			q = must_query(self->fd, s.id);
			ASSERT_EQ(s.deadline + q.unread * PERIOD, q.deadline);
		} while (q.unread < 5);
		EXPECT_EQ(0, hwt_cancel(self->fd, s.id));
	}
}

/* Read in time or late, each record follows from those before. */
TEST_F(context, in_step)
{
	__u64 sum, k;
	__u32 policy;
	int i, lazy;

	for (policy = FIRE_ONCE; policy <= MAKE_UP; policy++) {
		for (lazy = 0; lazy < 2; lazy++) {
			struct hwtimer_schedule s = must_repeat(self->fd, PERIOD / 2, policy);

			for (i = 0, sum = 0; i < 30; i++) {
				struct hwtimer_record rec = must_read(self->fd);

				ASSERT_EQ(s.id, rec.id);
				ASSERT_EQ(7, rec.user_data);
				ASSERT_EQ(HWTIMER_KIND_EXPIRED, rec.kind);
				ASSERT_EQ(0, (rec.deadline - s.deadline) % PERIOD);
				k = (rec.deadline - s.deadline) / PERIOD;
				if (policy == MAKE_UP) {
					ASSERT_EQ(0, rec.overruns);
				}
				sum += 1 + rec.overruns;
				ASSERT_EQ(sum - 1, k);
				ASSERT_EQ(rec.deadline, rec.last);
				if (lazy)
					wait_until(now_ns() + i % 4 * PERIOD);
			}
			ASSERT_EQ(0, hwt_cancel(self->fd, s.id));
			while (!quiet(self->fd))
				must_read(self->fd);
		}
	}
}

/* A misfire by five and a half periods, as the first deadline is past. */
TEST_F(context, misfire)
{
	struct hwtimer_record rec;
	struct hwtimer_schedule s;
	__u64 first, sum = 0, k;
	int i, touched;

	/* By schedule, then by touch. */
	for (touched = 0; touched < 2; touched++) {
		for (i = 0; i < 10; i++) {
			first = now_ns() - 11 * PERIOD / 2;
			ASSERT_EQ(0, schedule(self->fd, 0, touched ? first + FAR : first,
					      PERIOD, 0, FIRE_ONCE, &s));
			if (touched) {
				ASSERT_EQ(0, hwt_touch(self->fd, 0, s.id, first, NULL));
			}
			eventually(must_query(self->fd, s.id).unread);
			ASSERT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, s.id, FAR, NULL));
			rec = must_read(self->fd);
			EXPECT_LE(5, rec.overruns);
			/* The record stands for these deadlines, a period apart. */
			EXPECT_EQ(first + rec.overruns * PERIOD, rec.last);
			/* Exact if no other expiry came in between. */
			if (rec.deadline == first) {
				EXPECT_EQ((rec.fired - first) / PERIOD, rec.overruns);
			}
			ASSERT_EQ(0, hwt_cancel(self->fd, s.id));
			ASSERT_TRUE(quiet(self->fd));

			first = now_ns() - 11 * PERIOD / 2;
			ASSERT_EQ(0, schedule(self->fd, 0, first, PERIOD, 0, SKIPPING, &s));
			rec = must_read(self->fd);
			k = (rec.deadline - first) / PERIOD;
			EXPECT_LE(6, rec.overruns);
			EXPECT_EQ(k, rec.overruns);
			EXPECT_EQ(rec.deadline, rec.last);
			EXPECT_EQ(0, (rec.deadline - first) % PERIOD);
			/* What it skipped is reported once. */
			first = rec.deadline;
			rec = must_read(self->fd);
			EXPECT_EQ(first + (1 + rec.overruns) * PERIOD, rec.deadline);
			ASSERT_EQ(0, hwt_cancel(self->fd, s.id));
			while (!quiet(self->fd))
				must_read(self->fd);
		}
	}

	/* All missed deadlines are made up for, in order, and then it goes on. */
	first = now_ns() - 50 * PERIOD - PERIOD / 2;
	ASSERT_EQ(0, schedule(self->fd, 0, first, PERIOD, 0, MAKE_UP, &s));
	for (sum = 0; sum < 60; sum++) {
		rec = must_read(self->fd);
		ASSERT_EQ(0, rec.overruns);
		ASSERT_EQ(first + sum * PERIOD, rec.deadline);
	}
}

/* Lateness beyond the bound is a misfire, lateness up to it is not; the record shows which. */
TEST_F(context, bound)
{
	struct hwtimer_record rec;
	struct hwtimer_schedule s;
	__u64 first, late;
	int i, normal = 0, misfires = 0;

	for (i = 0; i < 60; i++) {
		const __u64 misfire = i % 3 == 2 ? FAR : 20 * PERIOD;

		/*
		 * Depending on i, the bound is exceeded for certain, or not, or perhaps: find out
		 * from the record.
		 */
		first = now_ns() - 20 * PERIOD + (i % 3 ? 20 : -2) * (__s64)self->tick_ns;
		ASSERT_EQ(0, schedule(self->fd, 0, first, FAR, misfire, SKIPPING, &s));
		eventually(must_query(self->fd, s.id).deadline != first);
		if (must_query(self->fd, s.id).unread) {
			rec = must_read(self->fd);
			late = rec.fired - first;
			EXPECT_EQ(first, rec.deadline);
			EXPECT_EQ(0, rec.overruns);
			EXPECT_GE(misfire, late);
			normal++;
		} else {
			EXPECT_LT(first + misfire, now_ns());
			misfires++;
		}
		EXPECT_EQ(first + FAR, must_query(self->fd, s.id).deadline);
		ASSERT_EQ(0, hwt_cancel(self->fd, s.id));
		ASSERT_TRUE(quiet(self->fd));
	}
	printf("# %d on time, %d misfires\n", normal, misfires);
	EXPECT_LE(20, misfires);
	EXPECT_LE(20, normal);
}

/* Unread expiries are one record, which is kept up to date. */
TEST_F(context, unread_is_one)
{
	struct hwtimer_record rec;
	struct hwtimer_schedule s;
	struct hwtimer_query q;
	__u32 policy;

	for (policy = FIRE_ONCE; policy <= SKIPPING; policy++) {
		s = must_repeat(self->fd, 0, policy);
		eventually(must_query(self->fd, s.id).unread >= 10);
		EXPECT_EQ(1, must_stats(self->fd).unread);
		EXPECT_EQ(1, must_stats(self->fd).pending);
		/* FAR: from here on the record does not change. */
		ASSERT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, s.id, FAR, NULL));
		q = must_query(self->fd, s.id);
		rec = must_read(self->fd);
		EXPECT_EQ(s.id, rec.id);
		EXPECT_EQ(q.unread, 1 + rec.overruns);
		EXPECT_EQ(s.deadline + rec.overruns * PERIOD, rec.deadline);
		EXPECT_EQ(rec.deadline, rec.last);
		EXPECT_EQ(0, must_query(self->fd, s.id).unread);
		EXPECT_EQ(0, must_stats(self->fd).unread);
		EXPECT_TRUE(quiet(self->fd));
		ASSERT_EQ(0, hwt_cancel(self->fd, s.id));
	}
}

/* Unread expiries are a record each, and can be read in pieces. */
TEST_F(context, unread_is_each)
{
	struct hwtimer_schedule s = must_repeat(self->fd, 0, MAKE_UP);
	unsigned int n, i, got = 0;
	struct hwtimer_record *rec;
	struct hwtimer_stats st;

	eventually(must_query(self->fd, s.id).unread >= 40);
	ASSERT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, s.id, FAR, NULL));
	n = must_query(self->fd, s.id).unread;
	st = must_stats(self->fd);
	EXPECT_EQ(n, st.unread);
	EXPECT_EQ(n, st.expired);
	EXPECT_EQ(n + 1, st.scheduled);
	EXPECT_EQ(1, st.pending);
	rec = must_alloc(n + 1, sizeof(*rec));
	for (i = 1; got < 20; i++) {
		ASSERT_EQ(i, hwt_read(self->fd, rec + got, i));
		got += i;
		ASSERT_EQ(n - got, must_stats(self->fd).unread);
		ASSERT_EQ(n - got, must_query(self->fd, s.id).unread);
	}
	ASSERT_EQ(n - got, hwt_read(self->fd, rec + got, n + 1 - got));
	for (i = 0; i < n; i++) {
		ASSERT_EQ(s.id, rec[i].id);
		ASSERT_EQ(s.deadline + i * PERIOD, rec[i].deadline);
		ASSERT_EQ(rec[i].deadline, rec[i].last);
		ASSERT_EQ(0, rec[i].overruns);
		ASSERT_LE(rec[i].deadline, rec[i].fired);
		ASSERT_EQ(HWTIMER_KIND_EXPIRED, rec[i].kind);
	}
	EXPECT_TRUE(quiet(self->fd));
	EXPECT_EQ(0, must_stats(self->fd).unread);
	free(rec);
}

/* A record that could not be copied is not consumed, nor are its overruns. */
TEST_F(context, faults)
{
	char *fence = must_fence(1);
	struct hwtimer_record rec;
	struct hwtimer_schedule s;
	__u64 n, sum = 0;
	__u32 policy;

	for (policy = FIRE_ONCE; policy <= MAKE_UP; policy++) {
		s = must_repeat(self->fd, 0, policy);
		eventually(must_query(self->fd, s.id).unread >= 3);
		ASSERT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, s.id, FAR, NULL));
		n = must_query(self->fd, s.id).unread;
		EXPECT_EQ(-1, read(self->fd, fence - RECORD_SIZE + 1, 2 * RECORD_SIZE));
		EXPECT_EQ(EFAULT, errno);
		EXPECT_EQ(n, must_query(self->fd, s.id).unread);
		ASSERT_EQ(RECORD_SIZE, read(self->fd, fence - RECORD_SIZE - 9,
					    2 * RECORD_SIZE));
		memcpy(&rec, fence - RECORD_SIZE - 9, RECORD_SIZE);
		sum = 1 + rec.overruns;
		EXPECT_EQ(n - sum, must_query(self->fd, s.id).unread);
		while (!quiet(self->fd))
			sum += 1 + must_read(self->fd).overruns;
		EXPECT_EQ(n, sum);
		ASSERT_EQ(0, hwt_cancel(self->fd, s.id));
	}
}

/* A touch moves the next deadline and all later ones. */
TEST_F(context, touch)
{
	struct hwtimer_schedule s = must_repeat(self->fd, FAR, MAKE_UP);
	__u64 time = now_ns() + 20 * NSEC_PER_MSEC + 1, deadline;
	struct hwtimer_stats st;
	int i;

	ASSERT_EQ(0, hwt_touch(self->fd, 0, s.id, time, &deadline));
	EXPECT_EQ(time, deadline);
	for (i = 0; i < 5; i++) {
		EXPECT_EQ(time + i * PERIOD, must_read(self->fd).deadline);
	}
	ASSERT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, s.id, HWTIMER_NEVER, &deadline));
	EXPECT_EQ(HWTIMER_NEVER, deadline);
	EXPECT_EQ(HWTIMER_NEVER, must_query(self->fd, s.id).deadline);
	while (!quiet(self->fd))
		must_read(self->fd);
	wait_until(now_ns() + 10 * PERIOD);
	EXPECT_TRUE(quiet(self->fd));
	time = now_ns() + 3 * PERIOD;
	ASSERT_EQ(0, hwt_touch(self->fd, 0, s.id, time, NULL));
	EXPECT_EQ(time, must_read(self->fd).deadline);
	EXPECT_EQ(time + PERIOD, must_read(self->fd).deadline);
	st = must_stats(self->fd);
	EXPECT_EQ(3, st.touched);
	EXPECT_EQ(1, st.pending);
}

/*
 * Expiries that were unread before a touch are reported: each with its deadline until another one
 * comes after the touch, and then as overruns.
 */
TEST_F(context, touch_with_unread)
{
	struct hwtimer_schedule s = must_repeat(self->fd, 0, MAKE_UP);
	struct hwtimer_record rec, recs[4];
	__u64 n, i, time;

	eventually(must_query(self->fd, s.id).unread >= 5);
	ASSERT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, s.id, FAR, NULL));
	n = must_query(self->fd, s.id).unread;
	/* Read two of them; the others keep their deadlines. */
	for (i = 0; i < 2; i++) {
		rec = must_read(self->fd);
		EXPECT_EQ(s.deadline + i * PERIOD, rec.deadline);
		EXPECT_EQ(0, rec.overruns);
	}
	EXPECT_EQ(n - 2, must_stats(self->fd).unread);
	time = now_ns() + 1234567;
	ASSERT_EQ(0, hwt_touch(self->fd, 0, s.id, time, NULL));
	eventually(must_query(self->fd, s.id).unread >= n - 2 + 4);
	ASSERT_EQ(4, hwt_read(self->fd, recs, 4));
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(time + i * PERIOD, recs[i].deadline);
		EXPECT_EQ(recs[i].deadline, recs[i].last);
		EXPECT_EQ(i ? 0 : n - 2, recs[i].overruns);
	}
}

/* A cancelled timeout remains until its expiries are read, and no longer. */
TEST_F(context, cancel_with_unread)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 1 };
	struct hwtimer_schedule s, other;
	struct hwtimer_record rec;
	struct hwtimer_stats st;
	__u64 sum, expired;
	__u32 policy;

	close(self->fd);
	self->fd = must_open(0);
	ASSERT_EQ(0, hwt_setup(self->fd, &setup));
	for (policy = FIRE_ONCE; policy <= MAKE_UP; policy++) {
		/* Nothing unread: released at once. */
		s = must_repeat(self->fd, FAR, policy);
		EXPECT_EQ(-EAGAIN, schedule(self->fd, 0, 0, FAR, 0, FIRE_ONCE, NULL));
		ASSERT_EQ(0, hwt_cancel(self->fd, s.id));
		EXPECT_EQ(0, must_stats(self->fd).unread);

		expired = must_stats(self->fd).expired;
		s = must_repeat(self->fd, 0, policy);
		eventually(must_query(self->fd, s.id).unread >= 4);
		EXPECT_EQ(-EAGAIN, schedule(self->fd, 0, 0, FAR, 0, FIRE_ONCE, NULL));
		ASSERT_EQ(0, hwt_cancel(self->fd, s.id));
		st = must_stats(self->fd);
		EXPECT_EQ(0, st.pending);
		EXPECT_TRUE(balanced(&st));
		EXPECT_EQ(policy == MAKE_UP ? st.expired - expired : 1, st.unread);
		EXPECT_EQ(-ENOENT, hwt_cancel(self->fd, s.id));
		EXPECT_EQ(-ENOENT, hwt_query(self->fd, s.id, NULL, NULL));
		EXPECT_EQ(-ENOENT, hwt_touch(self->fd, 0, s.id, 0, NULL));
		for (sum = 0; sum < st.expired - expired; sum += 1 + rec.overruns) {
			EXPECT_EQ(-EAGAIN, schedule(self->fd, 0, 0, FAR, 0, FIRE_ONCE, NULL));
			rec = must_read(self->fd);
			EXPECT_EQ(s.id, rec.id);
			EXPECT_EQ(HWTIMER_KIND_EXPIRED, rec.kind);
		}
		EXPECT_EQ(st.expired - expired, sum);
		EXPECT_TRUE(quiet(self->fd));
		EXPECT_EQ(0, must_stats(self->fd).unread);
		/* There is room again, for a timeout with another id. */
		ASSERT_EQ(0, schedule(self->fd, HWTIMER_RELATIVE, FAR, 0, 0, 0, &other));
		EXPECT_NE(s.id, other.id);
		EXPECT_EQ(0, must_query(self->fd, other.id).period);
		ASSERT_EQ(0, hwt_cancel(self->fd, other.id));
	}
}

/* After a stop: all expiries, then all timeouts handed back, each once, in pieces of any size. */
TEST_F(context, stop_with_unread)
{
	static const unsigned int pieces[] = { 1, 2, 3, 15, 16, 17, 1000 };
	struct hwtimer_schedule s[4];
	struct hwtimer_record *rec;
	unsigned int p, i, k, n;
	int ret;

	for (p = 0; p < ARRAY_SIZE(pieces); p++) {
		__u64 back, sums[4] = { 0 }, backs[4] = { 0 }, one_shots = 0;
		int fd = must_open(0);
		struct hwtimer_stats st;
		bool handed_back = false;

		must_schedule(fd, 0, 1);
		for (i = 0; i < 4; i++)
			s[i] = must_repeat(fd, i < 3 ? 0 : FAR, i % 3);
		must_schedule(fd, FAR, 1);
		eventually(must_query(fd, s[2].id).unread >= 20);
		ASSERT_EQ(0, hwt_stop(fd, &back));
		EXPECT_EQ(5, back);
		st = must_stats(fd);
		EXPECT_EQ(0, st.pending);
		EXPECT_EQ(5, st.handed_back);
		EXPECT_TRUE(balanced(&st));
		rec = must_alloc(st.unread + pieces[p], sizeof(*rec));
		for (n = 0; (ret = hwt_read(fd, rec + n, pieces[p])) > 0; n += ret) {
			if (st.unread - n >= pieces[p]) {
				/* whole records, as many as fit */
				EXPECT_EQ(pieces[p], ret);
			}
			ASSERT_EQ(st.unread - n - ret, must_stats(fd).unread);
		}
		ASSERT_EQ(0, ret);
		EXPECT_EQ(st.unread, n);
		for (k = 0; k < n; k++) {
			if (rec[k].kind == HWTIMER_KIND_HANDED_BACK) {
				handed_back = true;
				EXPECT_EQ(0, rec[k].overruns);
			} else {
				ASSERT_FALSE(handed_back);
			}
			for (i = 0; i < 4 && rec[k].id != s[i].id; i++)
				;
			if (i == 4) {
				one_shots++;
			} else if (rec[k].kind == HWTIMER_KIND_EXPIRED) {
				sums[i] += 1 + rec[k].overruns;
			} else {
				EXPECT_EQ(s[i].deadline + sums[i] * PERIOD, rec[k].deadline);
				backs[i]++;
			}
		}
		EXPECT_EQ(2, one_shots);
		for (i = 0; i < 4; i++) {
			EXPECT_EQ(1, backs[i]);
		}
		EXPECT_EQ(0, sums[3]);
		EXPECT_EQ(st.expired, 1 + sums[0] + sums[1] + sums[2]);
		free(rec);
		close(fd);
	}
}

TEST_F(context, wakes)
{
	struct hwtimer_schedule s = must_repeat(self->fd, 30 * NSEC_PER_MSEC, FIRE_ONCE);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC), i;
	struct hwtimer_record rec;
	__u64 sum = 0, unread;
	bool silent;

	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
	silent = quiet(self->fd);
	unread = must_query(self->fd, s.id).unread;
	if (now_ns() < s.deadline) {
		EXPECT_TRUE(silent);
		EXPECT_EQ(0, unread);
	}
	ASSERT_EQ(1, poll(&pfd, 1, PATIENCE / NSEC_PER_MSEC));
	EXPECT_EQ(POLLIN, pfd.revents);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->fd, &event));
	/* Edge-triggered: an edge for each expiry, though nothing is read. */
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(1, epoll_wait(ep, &event, 1, 60000));
	}
	EXPECT_LE(5, must_query(self->fd, s.id).unread);
	/* And with everything read after each edge. */
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(1, epoll_wait(ep, &event, 1, 60000));
		while (hwt_read(self->fd, &rec, 1) == 1) {
			sum += 1 + rec.overruns;
			EXPECT_EQ(s.deadline + (sum - 1) * PERIOD, rec.deadline);
		}
	}
	close(ep);
}

/* The counters add up at any time, and in the end. */
TEST_F(context, books)
{
	struct hwtimer_schedule s[6];
	struct hwtimer_stats st;
	struct hwtimer_record rec;
	__u64 sum = 0, i;

	for (i = 0; i < 6; i++) {
		ASSERT_EQ(0, schedule(self->fd, 0, now_ns() - i * PERIOD, self->tick_ns, 0,
				      i % 3, &s[i]));
	}
	for (i = 0; i < 500; i++) {
		st = must_stats(self->fd);
		ASSERT_TRUE(balanced(&st));
		ASSERT_EQ(6, st.pending);
		while (!quiet(self->fd) && i % 7 == 0 && sum < 10000)
			sum += 1 + must_read(self->fd).overruns;
	}
	for (i = 0; i < 6; i++) {
		EXPECT_EQ(0, hwt_cancel(self->fd, s[i].id));
	}
	while (!quiet(self->fd)) {
		rec = must_read(self->fd);
		sum += 1 + rec.overruns;
	}
	st = must_stats(self->fd);
	EXPECT_EQ(sum, st.expired);
	EXPECT_EQ(6, st.cancelled);
	EXPECT_EQ(sum + 6, st.scheduled);
	EXPECT_EQ(0, st.pending);
	EXPECT_EQ(0, st.unread);
}

/*
 * Cancelled at about the time of the expiry: the cancel never fails, the next user of the memory
 * does not expire in its place, and no expiry comes later.
 */
TEST_F(context, cancel_or_expire)
{
	const __u64 tick = self->tick_ns;
	__u64 random = seed(), sum = 0, until;
	struct hwtimer_schedule s, next;
	struct hwtimer_record rec[64];
	int i, ret, unread = 0;

	for (i = 0; i < 300; i++) {
		ASSERT_EQ(0, schedule(self->fd, HWTIMER_RELATIVE, rnd(&random) % tick, tick, FAR,
				      i % 3, &s));
		until = s.deadline + rnd(&random) % (3 * tick);
		while (now_ns() < until)
			;
		switch (i % 4) {
		case 0:
			ASSERT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, s.id, FAR, NULL));
			ASSERT_EQ(0, hwt_query(self->fd, s.id, NULL, NULL));
			ASSERT_EQ(0, hwt_cancel(self->fd, s.id));
			break;
		default:
			ASSERT_EQ(0, hwt_cancel(self->fd, s.id));
			break;
		}
		ASSERT_EQ(0, schedule(self->fd, HWTIMER_RELATIVE, FAR, i % 2 ? FAR : 0, 0, 0,
				      &next));
		while (!quiet(self->fd)) {
			ret = hwt_read(self->fd, rec, 64);
			ASSERT_LT(0, ret);
			unread++;
			while (ret--) {
				ASSERT_EQ(s.id, rec[ret].id);
				sum += 1 + rec[ret].overruns;
			}
		}
		ASSERT_EQ(next.deadline, must_query(self->fd, next.id).deadline);
		ASSERT_EQ(0, hwt_cancel(self->fd, next.id));
		ASSERT_EQ(sum, must_stats(self->fd).expired);
	}
	printf("# %d of 300 had expired before the cancel\n", unread);
}

/*
 * Many are due at once, and are cancelled or touched in the same order while they expire. Some are
 * between the expiry and the callback, where the context still counts them as pending.
 */
TEST_F(context, chase)
{
	const unsigned int n = 300, rounds = 60;
	__u64 *ids = must_alloc(n, sizeof(*ids)), first, random = seed();
	struct hwtimer_schedule s;
	struct hwtimer_record rec[64];
	unsigned int i, k, from;
	struct hwtimer_stats st;
	__u64 sum = 0;
	int ret;

	for (i = 0; i < rounds; i++) {
		first = now_ns() + 15 * NSEC_PER_MSEC;
		for (k = 0; k < n; k++) {
			ASSERT_EQ(0, schedule(self->fd, 0, first, self->tick_ns, FAR, k % 3, &s));
			ids[k] = s.id;
		}
		from = rnd(&random) % n;
		while (!must_query(self->fd, ids[from]).unread)
			;
		for (k = from; k < n; k++) {
			ASSERT_EQ(0, i % 2 ? hwt_cancel(self->fd, ids[k]) :
				     hwt_touch(self->fd, HWTIMER_RELATIVE, ids[k], FAR, NULL))
				TH_LOG("round %u, timeout %u", i, k);
		}
		for (k = 0; k < (i % 2 ? from : n); k++) {
			ASSERT_EQ(0, hwt_cancel(self->fd, ids[k]));
		}
		while (!quiet(self->fd)) {
			ret = hwt_read(self->fd, rec, 64);
			ASSERT_LT(0, ret);
			while (ret--)
				sum += 1 + rec[ret].overruns;
		}
		st = must_stats(self->fd);
		ASSERT_EQ(0, st.pending);
		ASSERT_EQ(0, st.unread);
		ASSERT_EQ(sum, st.expired);
		ASSERT_EQ((i + 1) * n, st.cancelled);
	}
	free(ids);
}

/* No memory is leaked. */
static __u64 slab_kib(void)
{
	char *text = must_slurp("/proc/meminfo");
	__u64 value;

	if (!find_value(text, "SUnreclaim", &value))
		die("no SUnreclaim");
	free(text);
	return value;
}

static void no_leaks(struct __test_metadata *_metadata, void (*once)(int fd, void *page))
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 2 };
	struct hwtimer_schedule s = {
		.flags = HWTIMER_RELATIVE, .time = FAR, .period = FAR,
	};
	void *page = must_read_only(&s, sizeof(s));
	int fd = must_open(0), i;
	__u64 before;

	ASSERT_EQ(0, hwt_setup(fd, &setup));
	must_repeat(fd, FAR, FIRE_ONCE);
	for (i = 0; i < 100; i++)
		once(fd, page);
	before = slab_kib();
	for (i = 0; i < 25000; i++)
		once(fd, page);
	/*
	 * 96 bytes lost each time would be 2.3 MiB. Memory that waits for a grace period comes
	 * back.
	 */
	eventually(slab_kib() < before + 1024);
	close(fd);
}

static void once_cancelled(int fd, void *page)
{
	(void)page;
	if (hwt_cancel(fd, must_repeat(fd, FAR, FIRE_ONCE).id))
		die("cancel");
}

static void once_unwritable(int fd, void *page)
{
	if (hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, page) != -EFAULT)
		die("writable");
}

static void once_refused(int fd, void *page)
{
	__u64 id = must_schedule(fd, FAR, 0);

	(void)page;
	if (schedule(fd, 0, 0, FAR, 0, FIRE_ONCE, NULL) != -EAGAIN)
		die("no cap");
	hwt_cancel(fd, id);
}

static void once_closed(int fd, void *page)
{
	static int n;

	(void)fd;
	(void)page;
	if (n++ % 16)
		return;
	/* some are closed while they expire */
	fd = must_open(0);
	for (n = 1; n < 16; n++)
		must_repeat(fd, n % 2 ? FAR : 0, n % 3);
	close(fd);
}

TEST(leaks_cancelled)
{
	no_leaks(_metadata, once_cancelled);
}

TEST(leaks_unwritable)
{
	no_leaks(_metadata, once_unwritable);
}

TEST(leaks_refused)
{
	no_leaks(_metadata, once_refused);
}

TEST(leaks_closed)
{
	no_leaks(_metadata, once_closed);
}

/* A call whose result cannot be written adds no record, however soon the deadline. */
TEST(unwritable)
{
	const struct hwtimer_schedule soon = { .period = PERIOD };
	struct hwtimer_schedule *s = must_read_only(&soon, sizeof(soon));
	int fd = must_open(0), i;
	struct hwtimer_stats st;

	for (i = 0; i < 500; i++) {
		ASSERT_EQ(-EFAULT, hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, s));
	}
	must_schedule(fd, 3 * PERIOD, 1);
	EXPECT_EQ(1, must_read(fd).user_data);
	EXPECT_TRUE(quiet(fd));
	st = must_stats(fd);
	EXPECT_EQ(1, st.scheduled);
	EXPECT_EQ(1, st.expired);
	EXPECT_EQ(-ESHUTDOWN, (hwt_stop(fd, NULL),
			       schedule(fd, 0, 0, FAR, 0, FIRE_ONCE, NULL)));
	close(fd);
}

/* Timeouts of a closed file are no longer pending in the wheel. */
TEST(close_pending)
{
	__u64 before = must_wheel_value("dev", "pending");
	int i, k;

	for (i = 0; i < 50; i++) {
		int fd = must_open(0);

		for (k = 0; k < 100; k++)
			must_repeat(fd, k % 5 * NSEC_PER_MSEC, k % 3);
		if (i % 2)
			eventually(must_stats(fd).unread);
		close(fd);
	}
	eventually(must_wheel_value("dev", "pending") == before);
	/* A periodic one that was left would be armed again. */
	wait_until(now_ns() + 5 * PERIOD);
	EXPECT_EQ(before, must_wheel_value("dev", "pending"));
}

/* Threads that read, in pieces of all sizes, and threads that schedule, touch and cancel. */
#define BEATS	24

struct books {
	int fd;
	atomic_bool over;
	atomic_ullong reported, records, backs, cancelled, touched;
	atomic_ullong ids[BEATS];
	__u64 seeds[4];
};

struct worker {
	pthread_t thread;
	struct books *b;
	__u64 random;
	int error;
};

static void *read_all(void *arg)
{
	struct worker *w = arg;
	struct hwtimer_record rec[40];
	int ret, i;

	/* Until the end of file, after the stop. */
	while ((ret = hwt_read(w->b->fd, rec, 1 + rnd(&w->random) % 40)) > 0) {
		for (i = 0; i < ret; i++) {
			atomic_fetch_add(&w->b->records, 1);
			if (rec[i].kind == HWTIMER_KIND_HANDED_BACK)
				atomic_fetch_add(&w->b->backs, 1);
			else
				atomic_fetch_add(&w->b->reported, 1 + rec[i].overruns);
			if (rec[i].kind == HWTIMER_KIND_EXPIRED && rec[i].fired < rec[i].deadline)
				w->error = -ETIME;
		}
		if (!(rnd(&w->random) % 8))
			usleep(rnd(&w->random) % 5000);
	}
	if (ret)
		w->error = ret;
	return NULL;
}

static __u64 another(struct books *b, __u64 *random)
{
	__u64 period = NSEC_PER_MSEC * (1 + rnd(random) % 4);
	struct hwtimer_schedule s;
	int ret = schedule(b->fd, HWTIMER_RELATIVE, rnd(random) % period, period,
			   rnd(random) % 2 ? 0 : FAR, rnd(random) % 3, &s);

	if (ret)
		die("schedule: %d", ret);
	return s.id;
}

static void *stir(void *arg)
{
	struct worker *w = arg;
	struct books *b = w->b;
	int ret;

	while (!atomic_load(&b->over)) {
		unsigned int i = rnd(&w->random) % BEATS;
		/* The exchange makes this thread the only one that uses the id. */
		__u64 id = atomic_exchange(&b->ids[i], 0);

		if (!id)
			continue;
		if (rnd(&w->random) % 2) {
			ret = hwt_cancel(b->fd, id);
			atomic_fetch_add(&b->cancelled, 1);
			id = another(b, &w->random);
		} else {
			ret = hwt_touch(b->fd, HWTIMER_RELATIVE, id,
					rnd(&w->random) % (3 * NSEC_PER_MSEC), NULL);
			atomic_fetch_add(&b->touched, 1);
		}
		if (ret)
			w->error = ret;
		atomic_store(&b->ids[i], id);
		if (rnd(&w->random) % 4)
			usleep(rnd(&w->random) % 2000);
	}
	return NULL;
}

TEST(stress)
{
	struct books b = { .fd = must_open(0) };
	struct worker w[4] = { 0 };
	__u64 random = seed(), back;
	struct hwtimer_stats st;
	int looks = quick_or(30, 80), i;

	for (i = 0; i < BEATS; i++)
		atomic_store(&b.ids[i], another(&b, &random));
	for (i = 0; i < 4; i++) {
		w[i].b = &b;
		w[i].random = rnd(&random) | 1;
		start(&w[i].thread, i < 2 ? read_all : stir, &w[i]);
	}
	for (i = 0; i < looks; i++) {
		wait_until(now_ns() + 100 * NSEC_PER_MSEC);
		st = must_stats(b.fd);
		ASSERT_TRUE(balanced(&st));
		/* read and counted: never more than the kernel has counted */
		ASSERT_LE(atomic_load(&b.reported), must_stats(b.fd).expired);
	}
	atomic_store(&b.over, true);
	pthread_join(w[2].thread, NULL);
	pthread_join(w[3].thread, NULL);
	ASSERT_EQ(0, hwt_stop(b.fd, &back));
	pthread_join(w[0].thread, NULL);
	pthread_join(w[1].thread, NULL);
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(0, w[i].error);
	}
	st = must_stats(b.fd);
	print_stats(&st);
	printf("# %llu records\n", (unsigned long long)atomic_load(&b.records));
	EXPECT_TRUE(balanced(&st));
	EXPECT_EQ(BEATS, back);
	EXPECT_EQ(BEATS, atomic_load(&b.backs));
	EXPECT_EQ(atomic_load(&b.reported), st.expired);
	EXPECT_EQ(atomic_load(&b.cancelled), st.cancelled);
	EXPECT_EQ(atomic_load(&b.touched), st.touched);
	EXPECT_EQ(0, st.unread);
	EXPECT_EQ(0, st.pending);
	close(b.fd);
}

TEST_HARNESS_MAIN
