// SPDX-License-Identifier: GPL-2.0-only
/*
 * What schedule, touch, cancel and query mean, what ids are, and what the records say. Nothing may
 * be early; lateness is not judged.
 */
#define OWN_TICK_NS	(4 * NSEC_PER_MSEC)
/* Few slots, so that a second is many rounds. */
#define OWN_SLOTS	8

#include "wheels.h"

/* The next record, which must be one of an expiry. */
static struct hwtimer_record must_expire(int fd)
{
	struct hwtimer_record rec;

	if (hwt_collect(fd, &rec, 1) != 1)
		die("no record");
	if (now_ns() < rec.deadline || rec.fired < rec.deadline)
		die("early: deadline %llu fired %llu", rec.deadline, rec.fired);
	if (!valid_record(&rec, HWTIMER_KIND_EXPIRED))
		die("record: id %llx deadline %llu fired %llu overruns %llu kind %u error %d",
		    rec.id, rec.deadline, rec.fired, rec.overruns, rec.kind, rec.error);
	return rec;
}

/* No record of a timeout that was due by now is unread: a later one comes alone. */
static void must_be_quiet(int fd)
{
	__u64 id = must_schedule(fd, 0, 4711);
	struct hwtimer_record rec = must_expire(fd);

	if (rec.id != id || rec.user_data != 4711)
		die("an unexpected record: id %llx user_data %llu", rec.id,
		    rec.user_data);
	if (must_stats(fd).unread)
		die("unread records");
}

TEST_F(context, relative)
{
	static const __u64 delays[] = {
		0, 1, 999999, 1000000, 1000001, 3999999, 4000000, 4000001,
		20 * NSEC_PER_MSEC, 33 * NSEC_PER_MSEC, 150 * NSEC_PER_MSEC,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(delays); i++) {
		__u64 before = now_ns(), id, deadline, after;
		struct hwtimer_record rec;

		ASSERT_EQ(0, hwt_schedule(self->fd, HWTIMER_RELATIVE, delays[i],
					  1000 + i, &id, &deadline));
		after = now_ns();
		EXPECT_LE(before + delays[i], deadline);
		EXPECT_GE(after + delays[i], deadline);
		rec = must_expire(self->fd);
		EXPECT_EQ(id, rec.id);
		EXPECT_EQ(1000 + i, rec.user_data);
		EXPECT_EQ(deadline, rec.deadline);
		EXPECT_LE(before + delays[i], rec.fired);
	}
}

TEST_F(context, absolute)
{
	unsigned int i;

	for (i = 0; i < 20; i++) {
		__u64 time = now_ns() + i * 3333333, id, deadline;
		struct hwtimer_record rec;

		ASSERT_EQ(0, hwt_schedule(self->fd, 0, time, i, &id, &deadline));
		EXPECT_EQ(time, deadline);
		rec = must_expire(self->fd);
		EXPECT_EQ(id, rec.id);
		EXPECT_EQ(i, rec.user_data);
		EXPECT_EQ(time, rec.deadline);
		EXPECT_LE(time, rec.fired);
	}
}

/* Due at the next tick, but armed all the same. */
TEST_F(context, past)
{
	__u64 times[] = { 0, 1, now_ns() - NSEC_PER_SEC, now_ns() - 1, now_ns() };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(times); i++) {
		__u64 before = now_ns(), id, deadline;
		struct hwtimer_record rec;

		ASSERT_EQ(0, hwt_schedule(self->fd, 0, times[i], i, &id, &deadline));
		EXPECT_GE(now_ns(), deadline);
		rec = must_expire(self->fd);
		EXPECT_EQ(id, rec.id);
		EXPECT_EQ(deadline, rec.deadline);
		EXPECT_LE(before, rec.fired);
	}
}

/* Deadlines beyond the range become HWTIMER_NEVER: they do not wrap, and do not fire. */
TEST_F(context, never)
{
	static const struct {
		__u32 flags;
		__u64 time;
	} forms[] = {
		{ 0, HWTIMER_NEVER }, { HWTIMER_RELATIVE, HWTIMER_NEVER },
		{ 0, HWTIMER_NEVER - 1 }, { HWTIMER_RELATIVE, HWTIMER_NEVER - 1 },
		{ 0, 1ULL << 63 }, { HWTIMER_RELATIVE, 1ULL << 63 },
		{ 0, INT64_MAX }, { HWTIMER_RELATIVE, INT64_MAX },
		{ HWTIMER_RELATIVE, 1ULL << 60 },
	};
	__u64 ids[ARRAY_SIZE(forms)], deadline, user_data, soon = 100 * NSEC_PER_MSEC;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		ASSERT_EQ(0, hwt_schedule(self->fd, forms[i].flags, forms[i].time,
					  i, &ids[i], &deadline))
			TH_LOG("form %u", i);
		EXPECT_EQ(HWTIMER_NEVER, deadline)
			TH_LOG("form %u", i);
	}
	must_schedule(self->fd, 50 * NSEC_PER_MSEC, 99);
	EXPECT_EQ(99, must_expire(self->fd).user_data);
	EXPECT_EQ(ARRAY_SIZE(forms), must_stats(self->fd).pending);
	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		ASSERT_EQ(0, hwt_query(self->fd, ids[i], &user_data, &deadline));
		EXPECT_EQ(HWTIMER_NEVER, deadline);
		EXPECT_EQ(i, user_data);
	}
	/* A timeout that is never due can be touched ... */
	ASSERT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, ids[0], 0, &deadline));
	EXPECT_NE(HWTIMER_NEVER, deadline);
	EXPECT_EQ(ids[0], must_expire(self->fd).id);
	/* ... and cancelled, ... */
	EXPECT_EQ(0, hwt_cancel(self->fd, ids[1]));
	/* ... and a timeout that is due soon can be touched to HWTIMER_NEVER. */
	ids[1] = must_schedule(self->fd, soon, 1);
	while (hwt_touch(self->fd, HWTIMER_RELATIVE, ids[1], HWTIMER_NEVER, &deadline)) {
		/* Too slow: it has expired. */
		ASSERT_EQ(ids[1], must_expire(self->fd).id);
		soon *= 2;
		ids[1] = must_schedule(self->fd, soon, 1);
	}
	EXPECT_EQ(HWTIMER_NEVER, deadline);
	wait_until(now_ns() + 2 * soon);
	must_be_quiet(self->fd);
	EXPECT_EQ(ARRAY_SIZE(forms) - 1, must_stats(self->fd).pending);
}

/* Far deadlines within the range are exact to the ns. */
TEST_F(context, far)
{
	__u64 time, id, deadline;
	int bit;

	/* From a delay that is longer than any test. */
	for (bit = 39; bit < 60; bit++) {
		time = now_ns() + (1ULL << bit);
		ASSERT_EQ(0, hwt_schedule(self->fd, 0, time, 0, &id, &deadline));
		EXPECT_EQ(time, deadline)
			TH_LOG("bit %d", bit);
		ASSERT_EQ(0, hwt_query(self->fd, id, NULL, &deadline));
		EXPECT_EQ(time, deadline);
	}
	must_be_quiet(self->fd);
}

TEST_F(context, user_data)
{
	static const __u64 values[] = {
		0, 1, 0xffffffff, 1ULL << 32, 1ULL << 63, ~0ULL, 0x0123456789abcdef,
	};
	__u64 seen, id;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		id = must_schedule(self->fd, FAR, values[i]);
		ASSERT_EQ(0, hwt_query(self->fd, id, &seen, NULL));
		EXPECT_EQ(values[i], seen);
		ASSERT_EQ(0, hwt_touch(self->fd, HWTIMER_RELATIVE, id, 0, NULL));
		EXPECT_EQ(values[i], must_expire(self->fd).user_data);
	}
}

TEST_F(context, touch_later)
{
	__u64 first = 30 * NSEC_PER_MSEC, id, old, deadline = 0;
	struct hwtimer_record rec;
	int i, touched = 0;

	id = must_schedule(self->fd, first, 1);
	/* Repeatedly, over many ticks and rounds. */
	for (i = 0; i < 30; i++) {
		old = deadline;
		if (hwt_touch(self->fd, HWTIMER_RELATIVE, id, first, &deadline))
			break;	/* too slow: it has expired */
		touched++;
		EXPECT_LE(old, deadline);
		wait_until(now_ns() + 2 * NSEC_PER_MSEC);
	}
	rec = must_expire(self->fd);
	EXPECT_EQ(id, rec.id);
	if (touched) {
		EXPECT_EQ(deadline, rec.deadline);
	}
	EXPECT_EQ(touched, must_stats(self->fd).touched);
	must_be_quiet(self->fd);
}

TEST_F(context, touch_earlier)
{
	__u64 id = must_schedule(self->fd, FAR, 1), deadline = 0, time;
	struct hwtimer_record rec;

	time = now_ns() + 20 * NSEC_PER_MSEC;
	ASSERT_EQ(0, hwt_touch(self->fd, 0, id, time, &deadline));
	EXPECT_EQ(time, deadline);
	rec = must_expire(self->fd);
	EXPECT_EQ(id, rec.id);
	EXPECT_EQ(time, rec.deadline);
	must_be_quiet(self->fd);
}

TEST_F(context, touch_into_the_past)
{
	__u64 id = must_schedule(self->fd, FAR, 1);

	ASSERT_EQ(0, hwt_touch(self->fd, 0, id, 1, NULL));
	EXPECT_EQ(id, must_expire(self->fd).id);
	must_be_quiet(self->fd);
}

/* Earlier and later in turn; the last touch counts. */
TEST_F(context, touch_to_and_fro)
{
	__u64 random = seed(), id, deadline, time = 0, data;
	int i;

	id = must_schedule(self->fd, FAR, 7);
	for (i = 0; i < 1000; i++) {
		time = now_ns() + 60 * NSEC_PER_SEC + rnd(&random) % FAR;
		ASSERT_EQ(0, hwt_touch(self->fd, 0, id, time, &deadline));
		EXPECT_EQ(time, deadline);
		ASSERT_EQ(0, hwt_query(self->fd, id, &data, &deadline));
		EXPECT_EQ(time, deadline);
		EXPECT_EQ(7, data);
	}
	EXPECT_EQ(1000, must_stats(self->fd).touched);
	time = now_ns() + 5 * NSEC_PER_MSEC;
	ASSERT_EQ(0, hwt_touch(self->fd, 0, id, time, NULL));
	EXPECT_EQ(time, must_expire(self->fd).deadline);
	must_be_quiet(self->fd);
}

TEST_F(context, cancelled_never_expires)
{
	__u64 deadline, last = 0, id;
	int i, cancelled = 0, ours = 0;

	for (i = 0; i < 500; i++) {
		ASSERT_EQ(0, hwt_schedule(self->fd, HWTIMER_RELATIVE,
					  50 * NSEC_PER_MSEC, 666, &id, &deadline));
		if (!hwt_cancel(self->fd, id))
			cancelled++;
		last = deadline;
	}
	/* On any machine, some cancels are in time. */
	ASSERT_LT(0, cancelled);
	wait_until(last);
	id = must_schedule(self->fd, 20 * NSEC_PER_MSEC, 1);
	/* There is no order across rounds. */
	for (i = cancelled; i <= 500; i++)
		ours += must_expire(self->fd).id == id;
	EXPECT_EQ(1, ours);
	EXPECT_EQ(cancelled, must_stats(self->fd).cancelled);
	EXPECT_EQ(0, must_stats(self->fd).unread);
	EXPECT_EQ(0, must_stats(self->fd).pending);
}

/* All calls fail for an id without a pending timeout. */
static void refuses_id(struct __test_metadata *_metadata, int fd, __u64 id)
{
	struct hwtimer_stats before = must_stats(fd);

	EXPECT_EQ(-ENOENT, hwt_cancel(fd, id))
		TH_LOG("id %llx", id);
	EXPECT_EQ(-ENOENT, hwt_query(fd, id, NULL, NULL))
		TH_LOG("id %llx", id);
	EXPECT_EQ(-ENOENT, hwt_touch(fd, HWTIMER_RELATIVE, id, FAR, NULL))
		TH_LOG("id %llx", id);
	EXPECT_EQ(-ENOENT, hwt_touch(fd, 0, id, 0, NULL))
		TH_LOG("id %llx", id);
	EXPECT_TRUE(unchanged(fd, &before));
}

TEST_F(context, stale_after_cancel)
{
	__u64 id = must_schedule(self->fd, FAR, 1);

	ASSERT_EQ(0, hwt_cancel(self->fd, id));
	refuses_id(_metadata, self->fd, id);
}

TEST_F(context, stale_after_expiry)
{
	__u64 id = must_schedule(self->fd, 0, 1);

	eventually(must_stats(self->fd).unread == 1);
	refuses_id(_metadata, self->fd, id);
	EXPECT_EQ(id, must_expire(self->fd).id);
	refuses_id(_metadata, self->fd, id);
}

/* The memory of a timeout is reused, its id is not. */
TEST_F(context, stale_after_reuse)
{
	__u64 old, id, data, deadline;
	int i;

	for (i = 0; i < 100; i++) {
		old = must_schedule(self->fd, FAR, 1);
		ASSERT_EQ(0, hwt_cancel(self->fd, old));
		id = must_schedule(self->fd, FAR, 2);
		ASSERT_NE(old, id);
		refuses_id(_metadata, self->fd, old);
		ASSERT_EQ(0, hwt_query(self->fd, id, &data, &deadline));
		EXPECT_EQ(2, data);
		ASSERT_EQ(0, hwt_cancel(self->fd, id));
	}
}

TEST_F(context, invented_ids)
{
	__u64 id = must_schedule(self->fd, FAR, 1), random = seed(), other;
	int i;

	refuses_id(_metadata, self->fd, 0);
	refuses_id(_metadata, self->fd, ~0ULL);
	refuses_id(_metadata, self->fd, id + 1);
	refuses_id(_metadata, self->fd, id - 1);
	for (i = 0; i < 64; i++)
		refuses_id(_metadata, self->fd, id ^ (1ULL << i));
	for (i = 0; i < 1000; i++) {
		other = rnd(&random);
		if (other != id) {
			refuses_id(_metadata, self->fd, other);
		}
	}
	EXPECT_EQ(0, hwt_cancel(self->fd, id));
}

/* Ids are valid in their own context only. */
TEST_F(context, ids_of_another)
{
	int other = must_open(0), i;
	__u64 ids[16];

	for (i = 0; i < 16; i++)
		ids[i] = must_schedule(self->fd, FAR, i);
	for (i = 0; i < 16; i++)
		refuses_id(_metadata, other, ids[i]);
	/* Even if both contexts use the same ids, these are different timeouts. */
	ids[0] = must_schedule(other, FAR, 100);
	for (i = 0; i < 16; i++)
		hwt_cancel(other, ids[i]);
	EXPECT_EQ(16, must_stats(self->fd).pending);
	EXPECT_EQ(0, must_stats(other).pending);
	EXPECT_EQ(1, must_stats(other).cancelled);
	close(other);
	EXPECT_EQ(16, must_stats(self->fd).pending);
}

/* 100,000 uses of the same memory: no id is reused, and no other timeout is affected. */
TEST_F(context, recycled)
{
	const unsigned int rounds = 100000;
	__u64 *ids = must_alloc(rounds + 1, sizeof(*ids));
	__u64 random = seed(), witness, deadline, seen, data;
	unsigned int i;

	ASSERT_EQ(0, hwt_schedule(self->fd, HWTIMER_RELATIVE, FAR, 1, &witness,
				  &deadline));
	for (i = 0; i < rounds; i++) {
		ids[i] = must_schedule(self->fd, FAR, 2);
		if (hwt_cancel(self->fd, ids[i]))
			die("cancel");
		/* Any id of the past. */
		if (!(i % 4) && hwt_cancel(self->fd, ids[rnd(&random) % (i + 1)]) != -ENOENT)
			die("a stale id hit another timeout");
	}
	ids[rounds] = witness;
	EXPECT_TRUE(all_different(ids, rounds + 1));
	EXPECT_NE(0, ids[0]);
	ASSERT_EQ(0, hwt_query(self->fd, witness, &data, &seen));
	EXPECT_EQ(1, data);
	EXPECT_EQ(deadline, seen);
	EXPECT_EQ(1, must_stats(self->fd).pending);
	EXPECT_EQ(rounds, must_stats(self->fd).cancelled);
}

/* Reuse after expiry and read instead of cancel. */
TEST_F(context, recycled_by_expiry)
{
	const unsigned int rounds = 100, each = 100;
	__u64 *ids = must_alloc(rounds * each, sizeof(*ids));
	struct hwtimer_record rec[100];
	unsigned int i, k;

	for (i = 0; i < rounds; i++) {
		for (k = 0; k < each; k++)
			ids[i * each + k] = must_schedule(self->fd, 0, k);
		ASSERT_EQ(each, hwt_collect(self->fd, rec, each));
		for (k = 0; k < each; k++) {
			ASSERT_TRUE(valid_record(&rec[k], HWTIMER_KIND_EXPIRED));
			ASSERT_GT(each, rec[k].user_data);
			ASSERT_EQ(ids[i * each + rec[k].user_data], rec[k].id);
		}
	}
	EXPECT_TRUE(all_different(ids, rounds * each));
	EXPECT_EQ(rounds * each, must_stats(self->fd).expired);
}

/* A query changes nothing. */
TEST_F(context, query)
{
	__u64 time = now_ns() + 50 * NSEC_PER_MSEC, id, data, deadline;
	struct hwtimer_stats before, after;
	int ret;

	ASSERT_EQ(0, hwt_schedule(self->fd, 0, time, 42, &id, NULL));
	before = must_stats(self->fd);
	ret = hwt_query(self->fd, id, &data, &deadline);
	after = must_stats(self->fd);
	if (now_ns() < time) {
		ASSERT_EQ(0, ret);
		EXPECT_EQ(42, data);
		EXPECT_EQ(time, deadline);
		EXPECT_TRUE(same_stats(&before, &after));
	}
	/* It can be queried until it expires. */
	while (!hwt_query(self->fd, id, &data, &deadline)) {
		ASSERT_EQ(42, data);
		ASSERT_EQ(time, deadline);
	}
	EXPECT_LE(time, now_ns());
	EXPECT_EQ(id, must_expire(self->fd).id);
}

/*
 * Cancel at about the deadline: either the cancel succeeds, or there is a record, or will be soon.
 */
TEST_F(context, cancel_or_expire)
{
	const unsigned int rounds = quick_or(100, 400);
	unsigned int i, cancelled = 0, expired = 0;
	__u64 random = seed();

	for (i = 0; i < rounds; i++) {
		__u64 id, deadline, until;
		int ret;

		ASSERT_EQ(0, hwt_schedule(self->fd, HWTIMER_RELATIVE,
					  rnd(&random) % (2 * self->tick_ns), i,
					  &id, &deadline));
		until = deadline + rnd(&random) % (self->tick_ns + NSEC_PER_MSEC);
		while (now_ns() < until)
			;
		ret = hwt_cancel(self->fd, id);
		if (!ret) {
			cancelled++;
		} else {
			struct hwtimer_record rec = must_expire(self->fd);

			ASSERT_EQ(-ENOENT, ret);
			ASSERT_EQ(id, rec.id);
			ASSERT_EQ(i, rec.user_data);
			ASSERT_EQ(deadline, rec.deadline);
			expired++;
		}
	}
	printf("# %u cancelled, %u expired\n", cancelled, expired);
	EXPECT_EQ(cancelled, must_stats(self->fd).cancelled);
	EXPECT_EQ(expired, must_stats(self->fd).expired);
	must_be_quiet(self->fd);
}

/*
 * Many are due at once, and are cancelled from last to first while they expire from first to last:
 * the two meet once in each round. Promise 2.
 */
TEST_F(context, cancel_meets_expiry)
{
	enum { ROUNDS = 300, EACH = 64 };
	unsigned int i, k, cancelled = 0, expired = 0, met = 0;
	struct hwtimer_record rec[EACH];

	for (i = 0; i < ROUNDS; i++) {
		__u64 ids[EACH], deadline = now_ns() + 2 * self->tick_ns;
		unsigned char ends[EACH] = { 0 };
		unsigned int left = EACH;

		for (k = 0; k < EACH; k++) {
			ASSERT_EQ(0, hwt_schedule(self->fd, 0, deadline, k, &ids[k],
						  NULL));
		}
		/* Until the first one has expired. */
		while (!hwt_query(self->fd, ids[0], NULL, NULL))
			;
		for (k = EACH; k--; ) {
			int ret = hwt_cancel(self->fd, ids[k]);

			if (!ret) {
				ends[k]++;
				cancelled++;
				left--;
			} else {
				ASSERT_EQ(-ENOENT, ret);
			}
		}
		met += left && left < EACH;
		ASSERT_EQ(left, hwt_collect(self->fd, rec, left));
		for (k = 0; k < left; k++) {
			ASSERT_TRUE(valid_record(&rec[k], HWTIMER_KIND_EXPIRED));
			ASSERT_GT(EACH, rec[k].user_data);
			ASSERT_EQ(ids[rec[k].user_data], rec[k].id);
			ends[rec[k].user_data]++;
			expired++;
		}
		for (k = 0; k < EACH; k++) {
			ASSERT_EQ(1, ends[k])
				TH_LOG("round %u, timeout %u", i, k);
		}
		ASSERT_EQ(0, must_stats(self->fd).pending);
	}
	printf("# %u cancelled, %u expired, met in %u rounds\n", cancelled, expired, met);
	EXPECT_EQ(cancelled, must_stats(self->fd).cancelled);
	EXPECT_EQ(expired, must_stats(self->fd).expired);
	must_be_quiet(self->fd);
}

/* As cancel_meets_expiry: each touch succeeds, or the timeout has expired. */
TEST_F(context, touch_or_expire)
{
	enum { ROUNDS = 300, EACH = 64 };
	struct hwtimer_record rec[EACH];
	unsigned int i, k, touched = 0;

	for (i = 0; i < ROUNDS; i++) {
		__u64 ids[EACH], moved[EACH], deadline = now_ns() + 2 * self->tick_ns;
		int ret[EACH];

		for (k = 0; k < EACH; k++)
			ASSERT_EQ(0, hwt_schedule(self->fd, 0, deadline, k, &ids[k], NULL));
		while (!hwt_query(self->fd, ids[0], NULL, NULL))
			;
		for (k = EACH; k--; )
			ret[k] = hwt_touch(self->fd, HWTIMER_RELATIVE, ids[k], 2 * self->tick_ns,
					   &moved[k]);
		ASSERT_EQ(EACH, hwt_collect(self->fd, rec, EACH));
		for (k = 0; k < EACH; k++) {
			__u64 t = rec[k].user_data;

			ASSERT_LT(t, EACH);
			ASSERT_EQ(ids[t], rec[k].id);
			ASSERT_EQ(ret[t] ? deadline : moved[t], rec[k].deadline);
			ASSERT_TRUE(!ret[t] || ret[t] == -ENOENT);
			ids[t] = 0;
			touched += !ret[t];
		}
	}
	printf("# %u touched, %u expired before\n", touched, ROUNDS * EACH - touched);
	EXPECT_EQ(touched, must_stats(self->fd).touched);
	EXPECT_EQ(ROUNDS * EACH, must_stats(self->fd).expired);
	must_be_quiet(self->fd);
}

#define IN_ORDER	500

/* Arm all of them; false if the first may have been due before the last was armed. */
static bool arm_in_time(int fd, __u64 margin, const __u64 *offsets)
{
	__u64 base = now_ns() + margin;
	int i;

	for (i = 0; i < IN_ORDER; i++)
		if (hwt_schedule(fd, 0, base + offsets[i], i, NULL, NULL))
			die("schedule");
	return now_ns() < base;
}

/* A timeout that is due a tick before another is reported before it. */
static void expire_in_order(struct __test_metadata *_metadata, int fd, __u64 tick_ns,
			    const __u64 *offsets)
{
	struct hwtimer_record *rec = must_alloc(IN_ORDER, sizeof(*rec));
	__u64 margin = 250 * NSEC_PER_MSEC, latest = 0;
	int i;

	while (!arm_in_time(fd, margin, offsets)) {
		margin *= 2;
		ASSERT_GT(32 * NSEC_PER_SEC, margin);
		ASSERT_EQ(IN_ORDER, hwt_collect(fd, rec, IN_ORDER));
	}
	ASSERT_EQ(IN_ORDER, hwt_collect(fd, rec, IN_ORDER));
	for (i = 0; i < IN_ORDER; i++) {
		ASSERT_TRUE(valid_record(&rec[i], HWTIMER_KIND_EXPIRED));
		/* No earlier record was for a deadline more than a tick later. */
		ASSERT_GT(rec[i].deadline + tick_ns, latest)
			TH_LOG("record %d", i);
		if (rec[i].deadline > latest)
			latest = rec[i].deadline;
		if (i) {
			ASSERT_LE(rec[i - 1].fired, rec[i].fired);
			/* With equal deadlines: in the order of arming. */
			if (rec[i - 1].deadline == rec[i].deadline) {
				ASSERT_LT(rec[i - 1].user_data, rec[i].user_data);
			}
		}
	}
	free(rec);
}

/* The wheel's round is longer than any delay, as there is no order across rounds. Promise 1. */
TEST(order_of_deadlines)
{
	int fd = must_open(0), i;
	__u64 offsets[IN_ORDER], random = seed();

	ASSERT_EQ(0, hwt_own_wheel(fd, NSEC_PER_MSEC, 65536, 0));
	for (i = 0; i < IN_ORDER; i++)
		offsets[i] = rnd(&random) % (200 * NSEC_PER_MSEC);
	expire_in_order(_metadata, fd, NSEC_PER_MSEC, offsets);
	/* Descending deadlines. */
	for (i = 0; i < IN_ORDER; i++)
		offsets[i] = (IN_ORDER - i) * NSEC_PER_MSEC / 2;
	expire_in_order(_metadata, fd, NSEC_PER_MSEC, offsets);
}

TEST(order_within_a_tick)
{
	int fd = must_open(0);
	__u64 offsets[IN_ORDER] = { 0 };

	stay_on(0);
	ASSERT_EQ(0, hwt_own_wheel(fd, NSEC_PER_MSEC, 65536, 0));
	expire_in_order(_metadata, fd, NSEC_PER_MSEC, offsets);
}

/* Own wheels have their own ticks: two contexts do not wait for each other. */
TEST(separate_wheels)
{
	int slow = must_open(0), fast = must_open(0);
	__u64 id, slow_id;

	ASSERT_EQ(0, hwt_own_wheel(slow, 3600 * NSEC_PER_SEC, 4, 0));
	ASSERT_EQ(0, hwt_own_wheel(fast, NSEC_PER_MSEC, 4, 0));
	slow_id = must_schedule(slow, 0, 1);
	id = must_schedule(fast, 0, 2);
	EXPECT_EQ(id, must_expire(fast).id);
	/* Its first tick takes an hour. */
	EXPECT_EQ(0, hwt_query(slow, slow_id, NULL, NULL));
	EXPECT_EQ(1, must_stats(slow).pending);
	EXPECT_EQ(0, must_stats(slow).unread);
	close(slow);
	id = must_schedule(fast, 0, 3);
	EXPECT_EQ(id, must_expire(fast).id);
}

TEST_HARNESS_MAIN
