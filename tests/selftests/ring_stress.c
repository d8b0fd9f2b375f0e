// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rings that overflow, that contain nonsense, that are never idle; and how many system calls their
 * use takes. Whatever one context does, nothing is lost or reported twice, and other contexts are
 * not harmed.
 *
 * SEED=N repeats the random part.
 */
#include "ring.h"

#define SLOTS		4000U
/* The longest acceptable delay: far more than the slowest machine needs. */
#define GENEROUS	(30 * NSEC_PER_SEC)

FIXTURE(overflow)
{
	struct ring *r;
	int fd;
	__u64 tick_ns;
};

FIXTURE_VARIANT(overflow)
{
	bool own;
	__u32 cq_entries;
};

FIXTURE_VARIANT_ADD(overflow, of_1)
{
	.cq_entries = 1,
};

FIXTURE_VARIANT_ADD(overflow, of_2)
{
	.own = true,
	.cq_entries = 2,
};

FIXTURE_VARIANT_ADD(overflow, of_4)
{
	.cq_entries = 4,
};

FIXTURE_SETUP(overflow)
{
	self->fd = must_open(0);
	self->tick_ns = must_get_parameter("tick_ns");
	if (variant->own) {
		/*
		 * The wheel's round is longer than any delay, so that timeouts of all delays stay
		 * in order.
		 */
		self->tick_ns = NSEC_PER_MSEC;
		ASSERT_EQ(0, hwt_own_wheel(self->fd, self->tick_ns, 16384, 0));
	}
	self->r = must_ring(self->fd, 256, variant->cq_entries, SLOTS);
}

FIXTURE_TEARDOWN(overflow)
{
	struct hwtimer_stats s = must_stats(self->fd);

	EXPECT_TRUE(balanced(&s));
	EXPECT_EQ(0, s.unread);
	EXPECT_EQ(0, ring_unread(self->r));
	EXPECT_EQ(0, ring_flags(self->r));
	ring_close(self->r);
}

static short poll_now(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) > 0 ? pfd.revents : 0;
}

/* The completion ring is full, and more records wait. */
static void check_full(struct __test_metadata *_metadata, struct ring *r)
{
	EXPECT_EQ(r->params.cq_entries, ring_unread(r));
	EXPECT_EQ(HWTIMER_RING_CQ_FULL, ring_flags(r));
	EXPECT_EQ(POLLIN, poll_now(r->fd));
}

/* Print the counters of a run. */
static void print_books(const struct ring *r, unsigned long reported)
{
	struct hwtimer_stats s = must_stats(r->fd);

	printf("# ring of %u, scheduled %llu cancelled %llu expired %llu ",
	       r->params.cq_entries, s.scheduled, s.cancelled, s.expired);
	printf("handed_back %llu pending %llu: reported %lu, %lu kicks\n", s.handed_back, s.pending,
	       reported, atomic_load(&r->enters));
	fflush(stdout);
}

/* Thousands of timeouts expire, whose records fill the ring many times. */
TEST_F(overflow, one_shots)
{
	__u64 *deadlines = must_alloc(SLOTS, sizeof(*deadlines)), random = seed(), latest = 0;
	unsigned char *seen = must_alloc(SLOTS, 1);
	__u64 base = now_ns() + 500 * NSEC_PER_MSEC, fired = 0, armed;
	unsigned int i, reported = 0, n;
	struct hwtimer_record rec;

	for (i = 0; i < SLOTS; i++) {
		deadlines[i] = base + rnd(&random) % (300 * NSEC_PER_MSEC);
		must_arm(self->r, HWTIMER_ID(i, i), deadlines[i], i);
	}
	armed = now_ns();
	/* Timeouts expire even if the ring is full. */
	eventually(must_stats(self->fd).expired == SLOTS);
	check_full(_metadata, self->r);
	EXPECT_EQ(0, must_stats(self->fd).pending);
	EXPECT_EQ(SLOTS - self->r->params.cq_entries, must_stats(self->fd).unread);
	while ((n = ring_reap(self->r, &rec, 1))) {
		__u64 which = rec.user_data;

		ASSERT_GT(SLOTS, which);
		ASSERT_EQ(0, seen[which]++);
		ASSERT_EQ(HWTIMER_KIND_EXPIRED, rec.kind);
		ASSERT_EQ(HWTIMER_ID(which, which), rec.id);
		ASSERT_EQ(deadlines[which], rec.deadline);
		ASSERT_LE(rec.deadline, rec.fired);
		/*
		 * Records are in the order of expiry. Of the timeouts armed in time, none comes
		 * after one that is due a tick later.
		 */
		ASSERT_LE(fired, rec.fired);
		fired = rec.fired;
		if (rec.deadline > armed) {
			ASSERT_GT(rec.deadline + self->tick_ns, latest);
			latest = rec.deadline > latest ? rec.deadline : latest;
		}
		reported++;
	}
	EXPECT_EQ(SLOTS, reported);
	print_books(self->r, reported);
	free(seen);
	free(deadlines);
}

/* A stop hands back what is pending. */
TEST_F(overflow, stop)
{
	unsigned char *seen = must_alloc(SLOTS, 1);
	unsigned int i, reported = 0, kinds[4] = { 0 };
	struct hwtimer_record rec;
	__u64 back;

	for (i = 0; i < SLOTS; i++)
		must_arm(self->r, HWTIMER_ID(i, 1), i % 2 ? now_ns() + FAR : 0, i);
	eventually(must_stats(self->fd).expired == SLOTS / 2);
	ASSERT_EQ(0, hwt_stop(self->fd, &back));
	EXPECT_EQ(SLOTS / 2, back);
	EXPECT_EQ(POLLIN | POLLHUP, poll_now(self->fd));
	while (ring_reap(self->r, &rec, 1)) {
		ASSERT_GT(SLOTS, rec.user_data);
		ASSERT_EQ(0, seen[rec.user_data]++);
		ASSERT_EQ(rec.user_data % 2 ? HWTIMER_KIND_HANDED_BACK : HWTIMER_KIND_EXPIRED,
			  rec.kind);
		/* Records of expiries come before those of the stop. */
		ASSERT_TRUE(rec.kind == HWTIMER_KIND_HANDED_BACK ||
			    !kinds[HWTIMER_KIND_HANDED_BACK]);
		kinds[rec.kind]++;
		reported++;
	}
	EXPECT_EQ(SLOTS, reported);
	EXPECT_EQ(POLLHUP, poll_now(self->fd));
	print_books(self->r, reported);
	free(seen);
}

/* HWTIMER_MISFIRE_ONCE, _SKIP, _MAKE_UP, and so on. */
#define POLICY(i)	((i) % 3)

/* Periodic timeouts of all policies, while nobody reads, and while the reader is too slow. */
TEST_F(overflow, periodic)
{
	enum { PERIODIC = 9 };
	const __u64 period = 2 * NSEC_PER_MSEC;
	__u64 reported[PERIODIC] = { 0 }, last[PERIODIC] = { 0 }, sum = 0, records = 0, stalls = 0;
	struct hwtimer_record rec;
	struct hwtimer_stats s;
	unsigned int i, round;
	bool more = true;

	for (i = 0; i < PERIODIC; i++) {
		struct hwtimer_schedule p = {
			.flags = HWTIMER_RELATIVE, .user_data = i, .id = HWTIMER_ID(i, 1),
			.deadline = POISON, .period = period,
			.misfire = i % 2 ? FAR : 0, .policy = POLICY(i),
		};

		ASSERT_EQ(0, hwt_ioctl(self->fd, HWTIMER_IOC_SCHEDULE, &p));
	}
	for (round = 0; more; round++) {
		unsigned int k, want = round % 10 + 1;

		s = must_stats(self->fd);
		if (round == 40) {
			for (i = 0; i < PERIODIC; i++)
				must_put(self->r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(i, 1), 0, 0);
			must_enter(self->r);
			EXPECT_EQ(0, must_stats(self->fd).pending);
		} else if (round < 40) {
			/* Full for a while. */
			eventually(must_stats(self->fd).expired >= s.expired + 50);
			stalls += ring_flags(self->r) == HWTIMER_RING_CQ_FULL;
		}
		for (k = 0; round >= 40 || k < want; k++) {
			if (!ring_reap(self->r, &rec, 1)) {
				more = round < 40;
				break;
			}
			i = rec.user_data;
			ASSERT_GT(PERIODIC, i);
			ASSERT_EQ(HWTIMER_ID(i, 1), rec.id);
			ASSERT_EQ(HWTIMER_KIND_EXPIRED, rec.kind);
			ASSERT_LE(rec.deadline, rec.fired);
			reported[i] += 1 + rec.overruns;
			if (last[i] && i % 2 == 0 && POLICY(i) == HWTIMER_MISFIRE_ONCE) {
				/* Overruns include deadlines missed after the reported one. */
				ASSERT_EQ(0, (rec.deadline - last[i]) % period);
				ASSERT_LT(last[i], rec.deadline);
			} else if (last[i]) {
				/*
				 * None is left out: the deadlines are 1 + overruns periods apart.
				 */
				ASSERT_EQ(last[i] + (1 + rec.overruns) * period, rec.deadline)
					TH_LOG("%u: overruns %llu", i, rec.overruns);
			}
			if (POLICY(i) == HWTIMER_MISFIRE_MAKE_UP) {
				ASSERT_EQ(0, rec.overruns);
			}
			last[i] = rec.deadline;
			records++;
		}
	}
	s = must_stats(self->fd);
	for (i = 0; i < PERIODIC; i++) {
		EXPECT_LT(0, reported[i]);
		sum += reported[i];
	}
	EXPECT_EQ(s.expired, sum);
	EXPECT_LT(0, stalls);
	printf("# %llu records for %llu expiries\n", records, sum);
	print_books(self->r, sum);
}

/* A submission that fails waits for room for its record, and later submissions wait behind it. */
TEST(failures_wait)
{
	struct ring *r = must_ring(must_open(0), 16, 2, 16);
	__u64 since = now_ns(), far = since + FAR;
	struct hwtimer_sqe first = { HWTIMER_OP_CANCEL, 0, HWTIMER_ID(9, 1), 0, 1 };
	struct hwtimer_sqe third = { HWTIMER_OP_TOUCH, 0, HWTIMER_ID(9, 3), far, 3 };
	struct hwtimer_record rec;
	__u32 taken, head;

	must_arm(r, HWTIMER_ID(0, 1), 0, 100);
	must_arm(r, HWTIMER_ID(1, 1), 0, 101);
	eventually(ring_unread(r) == 2);
	EXPECT_EQ(0, ring_flags(r));
	head = load_acquire(&r->shared->sq_head);

	/* Submissions that succeed or are quiet need no room. */
	must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(2, 1), far, 0);
	must_put(r, HWTIMER_OP_TOUCH, HWTIMER_SQE_QUIET, HWTIMER_ID(9, 1), far, 0);
	ASSERT_EQ(0, ring_enter(r, &taken));
	EXPECT_EQ(head + 2, load_acquire(&r->shared->sq_head));
	EXPECT_EQ(1, seen_pending(r));
	EXPECT_EQ(0, ring_flags(r));

	ASSERT_TRUE(ring_put(r, &first));
	must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(3, 1), far, 0);
	ASSERT_TRUE(ring_put(r, &third));
	must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(4, 1), far, 0);
	ASSERT_EQ(0, ring_enter(r, &taken));
	EXPECT_EQ(0, taken);
	EXPECT_EQ(head + 2, load_acquire(&r->shared->sq_head));
	EXPECT_EQ(1, seen_pending(r));
	check_full(_metadata, r);
	/* An ioctl does not overtake it. */
	EXPECT_EQ(1, must_stats(r->fd).pending);

	/* Make room for one record. */
	EXPECT_EQ(1, ring_unread(r) - 1);
	ASSERT_EQ(1, ring_reap(r, &rec, 1));
	EXPECT_EQ(HWTIMER_KIND_EXPIRED, rec.kind);
	EXPECT_EQ(head + 4, load_acquire(&r->shared->sq_head));
	EXPECT_EQ(2, seen_pending(r));
	check_full(_metadata, r);
	ASSERT_EQ(1, ring_reap(r, &rec, 1));
	EXPECT_EQ(HWTIMER_KIND_EXPIRED, rec.kind);
	EXPECT_EQ(head + 6, load_acquire(&r->shared->sq_head));
	EXPECT_EQ(3, seen_pending(r));
	EXPECT_EQ(0, ring_flags(r));
	ASSERT_EQ(1, ring_reap(r, &rec, 1));
	EXPECT_TRUE(reports_failure(&rec, &first, -ENOENT, since));
	ASSERT_EQ(1, ring_reap(r, &rec, 1));
	EXPECT_TRUE(reports_failure(&rec, &third, -ENOENT, since));
	EXPECT_EQ(0, ring_reap(r, &rec, 1));
	EXPECT_EQ(0, poll_now(r->fd));
	ring_close(r);
}

/* Expiries do not wait for a failure that waits, and are reported before or after it. */
TEST(expires_while_failures_wait)
{
	struct ring *r = must_ring(must_open(0), 16, 1, 16);
	unsigned int i, kinds[4] = { 0 };
	__u64 due = now_ns() + 20 * NSEC_PER_MSEC, pending;
	struct hwtimer_record rec;

	must_arm(r, HWTIMER_ID(0, 1), 0, 0);
	eventually(ring_unread(r) == 1);
	for (i = 1; i <= 8; i++)
		must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(i, 1), due, i);
	must_put(r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(9, 1), 0, 9);
	must_put(r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(8, 1), 0, 0);
	must_enter(r);
	EXPECT_EQ(HWTIMER_RING_CQ_FULL, ring_flags(r));
	pending = seen_pending(r);
	if (now_ns() < due) {
		EXPECT_EQ(8, pending);
	}
	eventually(!seen_pending(r));
	EXPECT_EQ(9, must_fdinfo(r->fd, "unread") + 1);
	while (ring_reap(r, &rec, 1)) {
		ASSERT_GT(4, rec.kind);
		kinds[rec.kind]++;
	}
	/*
	 * 0 to 8 expired; of the failures, one timeout never existed, and one cancel came too
	 * late.
	 */
	EXPECT_EQ(9, kinds[HWTIMER_KIND_EXPIRED]);
	EXPECT_EQ(2, kinds[HWTIMER_KIND_FAILED]);
	EXPECT_EQ(0, ring_flags(r));
	ring_close(r);
}

/* A slot whose record waits in the kernel is busy; one whose record is in the ring is free. */
TEST(busy_slot)
{
	struct ring *r = must_ring(must_open(0), 8, 1, 4);
	struct hwtimer_record rec;
	unsigned int i, kinds[4] = { 0 };

	must_arm(r, HWTIMER_ID(0, 1), 0, 0);
	eventually(ring_unread(r) == 1);
	must_arm(r, HWTIMER_ID(1, 1), 0, 1);
	eventually(must_stats(r->fd).expired == 2);
	EXPECT_EQ(HWTIMER_RING_CQ_FULL, ring_flags(r));
	EXPECT_EQ(-EBUSY, hwt_schedule_id(r->fd, HWTIMER_RELATIVE, HWTIMER_ID(1, 2), FAR, 0));
	EXPECT_EQ(-ENOENT, hwt_cancel(r->fd, HWTIMER_ID(1, 1)));
	EXPECT_EQ(-ENOENT, hwt_query(r->fd, HWTIMER_ID(1, 1), NULL, NULL));
	EXPECT_EQ(0, hwt_schedule_id(r->fd, HWTIMER_RELATIVE, HWTIMER_ID(0, 2), FAR, 0));
	EXPECT_EQ(-EEXIST, hwt_schedule_id(r->fd, HWTIMER_RELATIVE, HWTIMER_ID(0, 3), FAR, 0));
	/*
	 * By ring: the schedule fails, or succeeds if the slot becomes free while the failure
	 * waits for room.
	 */
	must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(1, 2), now_ns() + FAR, 0);
	must_enter(r);
	EXPECT_EQ(1, seen_pending(r));
	for (i = 0; ring_reap(r, &rec, 1); i++) {
		ASSERT_GT(4, rec.kind);
		kinds[rec.kind]++;
		if (rec.kind == HWTIMER_KIND_FAILED) {
			EXPECT_EQ(-EBUSY, rec.error);
		}
	}
	EXPECT_EQ(2, kinds[HWTIMER_KIND_EXPIRED]);
	EXPECT_EQ(0, kinds[HWTIMER_KIND_HANDED_BACK]);
	EXPECT_EQ(2, kinds[HWTIMER_KIND_FAILED] + must_stats(r->fd).pending);
	ring_close(r);
}

/*
 * One thread submits and one reads, all the time, through a small ring. Slots are reused before
 * the last record was read: each timeout is reported, or its schedule has failed.
 */
struct traffic {
	pthread_t thread;
	struct ring *r;
	unsigned int count;
	__u64 random;
	__u32 *tags;		/* by slot: the latest tag submitted */
	unsigned long schedules, cancels;
};

static void insist(struct ring *r, struct hwtimer_sqe sqe)
{
	while (!ring_put(r, &sqe)) {
		must_enter(r);
		sched_yield();
	}
}

static void *drive(void *arg)
{
	struct traffic *t = arg;
	unsigned int i;

	for (i = 0; i < t->count; i++) {
		unsigned int slot = rnd(&t->random) % (SLOTS / 8);
		struct hwtimer_sqe sqe = {
			.op = HWTIMER_OP_SCHEDULE, .user_data = slot,
			.time = now_ns() + rnd(&t->random) % (3 * NSEC_PER_MSEC),
		};

		if (t->tags[slot]) {
			insist(t->r, (struct hwtimer_sqe){
				.op = HWTIMER_OP_CANCEL, .user_data = slot,
				.id = HWTIMER_ID(slot, t->tags[slot]) });
			t->cancels++;
		}
		sqe.id = HWTIMER_ID(slot, ++t->tags[slot]);
		t->schedules++;
		insist(t->r, sqe);
		if (kick_due(t->r, sqe.time))
			must_enter(t->r);
	}
	return NULL;
}

TEST_F(overflow, against_a_producer)
{
	struct traffic t = {
		.r = self->r, .count = 8000, .random = seed(),
		.tags = must_alloc(SLOTS, sizeof(*t.tags)),
	};
	__u64 *reported = must_alloc(SLOTS, sizeof(*reported));
	unsigned long expired = 0, not_cancelled = 0, not_scheduled = 0;
	struct hwtimer_record rec[4];
	struct hwtimer_stats s;
	bool joined = false, over = false;
	unsigned int n, i;

	start(&t.thread, drive, &t);
	for (;;) {
		n = ring_reap(self->r, rec, 4);
		for (i = 0; i < n; i++) {
			unsigned int slot = HWTIMER_ID_INDEX(rec[i].id);

			ASSERT_GT(SLOTS, slot);
			ASSERT_EQ(slot, rec[i].user_data);
			if (rec[i].kind == HWTIMER_KIND_EXPIRED) {
				/*
				 * Each is reported once, in the order in which they used the slot.
				 */
				ASSERT_LT(reported[slot], HWTIMER_ID_TAG(rec[i].id));
				reported[slot] = HWTIMER_ID_TAG(rec[i].id);
				ASSERT_LE(rec[i].deadline, rec[i].fired);
				expired++;
				continue;
			}
			ASSERT_EQ(HWTIMER_KIND_FAILED, rec[i].kind);
			if (rec[i].op == HWTIMER_OP_CANCEL) {
				/* It has expired before, or its schedule had failed. */
				ASSERT_EQ(-ENOENT, rec[i].error);
				not_cancelled++;
			} else {
				/* The slot's last record waits. */
				ASSERT_TRUE(rec[i].error == -EBUSY || rec[i].error == -EEXIST);
				not_scheduled++;
			}
		}
		if (n)
			continue;
		if (over)
			break;
		joined = joined || !pthread_tryjoin_np(t.thread, NULL);
		if (joined) {
			must_enter(self->r);
			eventually(!must_stats(self->fd).pending);
			over = !ring_untaken(self->r) && !ring_flags(self->r);
		}
	}
	s = must_stats(self->fd);
	EXPECT_EQ(t.schedules - not_scheduled, s.scheduled);
	EXPECT_EQ(expired, s.expired);
	EXPECT_EQ(t.cancels - not_cancelled, s.cancelled);
	EXPECT_EQ(0, s.pending);
	printf("# of %lu schedules %lu failed, of %lu cancels %lu\n", t.schedules, not_scheduled,
	       t.cancels, not_cancelled);
	print_books(self->r, expired);
	free(reported);
	free(t.tags);
}

/* Impossible indexes are rejected; once they are repaired, the rings work again. */
FIXTURE(hostile)
{
	struct ring *r;
	int fd;
};

FIXTURE_SETUP(hostile)
{
	self->fd = must_open(0);
	self->r = must_ring(self->fd, 8, 8, 64);
}

FIXTURE_TEARDOWN(hostile)
{
	struct hwtimer_stats s = must_stats(self->fd);

	EXPECT_TRUE(balanced(&s));
	ring_close(self->r);
}

/* The context still works. */
static void must_work(struct ring *r)
{
	struct hwtimer_record rec;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		must_arm(r, HWTIMER_ID(63, 1000 + i), now_ns() + NSEC_PER_MSEC, i);
		rec = must_ring_expire(r);
		if (rec.id != HWTIMER_ID(63, 1000 + i) || rec.user_data != i)
			die("an unexpected record: id %llx", rec.id);
	}
	if (ring_flags(r))
		die("flags %x", ring_flags(r));
}

/* Impossible distances from the kernel's index. */
static const __u32 nonsense[] = {
	9, 10, 16, 17, 256, 65536, 65537, 1U << 30, (1U << 31) - 1, 1U << 31, (1U << 31) + 1,
	-65536U, -256U, -9U, -8U, -2U, -1U,
};

TEST_F(hostile, sq_tail)
{
	struct hwtimer_record rec;
	unsigned int i;
	__u32 taken;

	for (i = 0; i < ARRAY_SIZE(nonsense); i++) {
		__u64 id = HWTIMER_ID(i, 1), deadline = now_ns() + 20 * NSEC_PER_MSEC;
		__u32 head = self->r->sq_tail + 1;

		must_arm(self->r, id, deadline, i);
		must_enter(self->r);
		store_release(&self->r->shared->sq_tail, head + nonsense[i]);
		EXPECT_EQ(-EBADFD, ring_enter(self->r, NULL))
			TH_LOG("distance %u", nonsense[i]);
		EXPECT_EQ(HWTIMER_RING_BAD, ring_flags(self->r));
		EXPECT_EQ(POLLERR, poll_now(self->fd) & POLLERR);
		EXPECT_EQ(head, load_acquire(&self->r->shared->sq_head));
		/* ioctls are not affected, and pending timeouts expire. */
		EXPECT_EQ(0, hwt_schedule_id(self->fd, HWTIMER_RELATIVE, HWTIMER_ID(62, i), FAR,
					     0));
		EXPECT_EQ(0, hwt_cancel(self->fd, HWTIMER_ID(62, i)));
		EXPECT_EQ(head, load_acquire(&self->r->shared->sq_head));
		eventually(ring_unread(self->r) == 1);
		EXPECT_EQ(POLLERR | POLLIN, poll_now(self->fd));
		rec = must_ring_expire(self->r);
		EXPECT_EQ(id, rec.id);
		EXPECT_EQ(deadline, rec.deadline);
		/* Repaired, with a submission. */
		store_release(&self->r->shared->sq_tail, self->r->sq_tail);
		must_put(self->r, HWTIMER_OP_SCHEDULE, 0, id, now_ns() + FAR, i);
		ASSERT_EQ(0, ring_enter(self->r, &taken));
		/* The worker may have taken it before. */
		EXPECT_GE(1, taken);
		EXPECT_EQ(0, ring_untaken(self->r));
		EXPECT_EQ(0, ring_flags(self->r));
		EXPECT_EQ(0, poll_now(self->fd));
		must_put(self->r, HWTIMER_OP_CANCEL, 0, id, 0, 0);
		must_work(self->r);
	}
	EXPECT_EQ(0, must_stats(self->fd).pending);
}

/* The worker finds a bad index without a kick, too. */
TEST_F(hostile, sq_tail_without_doorbell)
{
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };

	must_arm(self->r, HWTIMER_ID(0, 1), now_ns() + FAR, 0);
	store_release(&self->r->shared->sq_tail, self->r->sq_tail + 100);
	ASSERT_EQ(1, poll(&pfd, 1, PATIENCE / NSEC_PER_MSEC));
	EXPECT_EQ(POLLERR, pfd.revents);
	EXPECT_EQ(HWTIMER_RING_BAD, ring_flags(self->r));
	store_release(&self->r->shared->sq_tail, self->r->sq_tail);
	/* Repaired: poll() and the flags no longer report it. */
	EXPECT_EQ(0, poll_now(self->fd));
	EXPECT_EQ(0, ring_flags(self->r));
	must_work(self->r);
}

/* A waiter is woken when an index becomes bad. */
static void *poll_err(void *arg)
{
	struct pollfd pfd = { .fd = *(int *)arg, .events = POLLIN };

	if (poll(&pfd, 1, PATIENCE / NSEC_PER_MSEC) != 1)
		return NULL;
	return (void *)(long)pfd.revents;
}

TEST_F(hostile, bad_wakes)
{
	pthread_t thread;
	void *events;

	start(&thread, poll_err, &self->fd);
	/* Whether the waiter sleeps yet or not; ENTER makes the kernel check the index. */
	store_release(&self->r->shared->sq_tail, self->r->sq_tail + 100);
	EXPECT_EQ(-EBADFD, ring_enter(self->r, NULL));
	pthread_join(thread, &events);
	EXPECT_EQ(POLLERR, (long)events);
	store_release(&self->r->shared->sq_tail, self->r->sq_tail);
	must_enter(self->r);
	must_work(self->r);
}

TEST_F(hostile, cq_head)
{
	struct hwtimer_record rec[4];
	unsigned int i, n;
	__u32 taken;

	for (i = 0; i < ARRAY_SIZE(nonsense); i++) {
		__u64 before = must_stats(self->fd).expired, far = now_ns() + FAR;

		/* Here the distance is that of the kernel's index from the program's. */
		store_release(&self->r->shared->cq_head, self->r->cq_head - nonsense[i]);
		EXPECT_EQ(-EBADFD, ring_enter(self->r, NULL))
			TH_LOG("distance %u", nonsense[i]);
		EXPECT_EQ(HWTIMER_RING_BAD, ring_flags(self->r));
		EXPECT_EQ(POLLERR, poll_now(self->fd) & POLLERR);
		/* Submissions are still taken. */
		must_put(self->r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(1, i), far, i);
		must_put(self->r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(2, i), 0, i);
		EXPECT_EQ(-EBADFD, ring_enter(self->r, NULL));
		EXPECT_EQ(0, ring_untaken(self->r));
		EXPECT_EQ(0, hwt_cancel(self->fd, HWTIMER_ID(1, i)));
		/* No record is written, and none is lost. */
		eventually(must_stats(self->fd).expired == before + 1);
		EXPECT_EQ(0, ring_unread(self->r));
		EXPECT_EQ(1, must_stats(self->fd).unread);
		EXPECT_EQ(HWTIMER_RING_BAD | HWTIMER_RING_CQ_FULL, ring_flags(self->r));
		store_release(&self->r->shared->cq_head, self->r->cq_head);
		ASSERT_EQ(0, ring_enter(self->r, &taken));
		EXPECT_EQ(0, ring_flags(self->r));
		n = ring_reap(self->r, rec, 4);
		ASSERT_EQ(1, n);
		EXPECT_EQ(HWTIMER_ID(2, i), rec[0].id);
		must_work(self->r);
	}
	EXPECT_EQ(0, must_stats(self->fd).pending);
}

/* Indexes at the largest valid distance. */
TEST_F(hostile, almost)
{
	struct hwtimer_record rec[8];
	unsigned int i;
	__u32 taken;

	/* Invalid entries, but a valid index. */
	memset(self->r->sqes, 0xff, 8 * sizeof(struct hwtimer_sqe));
	for (i = 0; i < 8; i++)
		self->r->sqes[i].flags = 0;
	store_release(&self->r->shared->sq_tail, self->r->sq_tail + 8);
	ASSERT_EQ(0, ring_enter(self->r, &taken));
	EXPECT_EQ(8, taken);
	self->r->sq_tail += 8;
	EXPECT_EQ(0, ring_flags(self->r));
	ASSERT_EQ(8, ring_unread(self->r));
	EXPECT_EQ(8, ring_reap(self->r, rec, 8));
	for (i = 0; i < 8; i++) {
		EXPECT_EQ(HWTIMER_KIND_FAILED, rec[i].kind);
		EXPECT_EQ(-EINVAL, rec[i].error);
		EXPECT_EQ(~0U, rec[i].op);
		EXPECT_EQ(~0ULL, rec[i].id);
	}
	/* Moving cq_head back by a whole ring means "all unread", that is full, which is valid. */
	store_release(&self->r->shared->cq_head, self->r->cq_head - 8);
	EXPECT_EQ(0, ring_enter(self->r, NULL));
	EXPECT_EQ(0, ring_flags(self->r));
	must_put(self->r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(0, 1), 0, 1);
	must_enter(self->r);
	eventually(must_stats(self->fd).expired == 1);
	EXPECT_EQ(HWTIMER_RING_CQ_FULL, ring_flags(self->r));
	store_release(&self->r->shared->cq_head, self->r->cq_head);
	must_enter(self->r);
	EXPECT_EQ(HWTIMER_ID(0, 1), must_ring_expire(self->r).id);
	must_work(self->r);
}

/* Overwriting the kernel's fields has no effect: the kernel does not read them. */
TEST_F(hostile, kernels_part)
{
	struct hwtimer_ring *shared = self->r->shared;
	struct hwtimer_record rec;
	unsigned int i;

	for (i = 0; i < 20; i++) {
		__u32 tail = load_acquire(&shared->cq_tail);

		/* While the kernel has nothing to write itself. */
		store_release(&shared->sq_head, ~0U);
		store_release(&shared->cq_tail, 0x55555555U);
		store_release(&shared->flags, 0);
		store_release(&shared->sleep_until, 0);
		shared->pad2 = ~0U;
		store_release(&shared->sq_claimed, ~0U);
		shared->pad3 = ~0U;
		memset(shared->pad0, 0xff, sizeof(shared->pad0));
		memset(shared->pad1, 0xff, sizeof(shared->pad1));
		self->r->sqes[self->r->sq_tail % 8] = (struct hwtimer_sqe){
			.op = HWTIMER_OP_SCHEDULE, .id = HWTIMER_ID(i, i), .user_data = i,
		};
		store_release(&shared->sq_tail, ++self->r->sq_tail);
		ASSERT_EQ(0, ring_enter(self->r, NULL));
		eventually(must_stats(self->fd).expired == i + 1);
		/* The kernel restores its fields. */
		EXPECT_EQ(self->r->sq_tail, load_acquire(&shared->sq_head));
		EXPECT_EQ(tail + 1, load_acquire(&shared->cq_tail));
		rec = must_ring_expire(self->r);
		EXPECT_EQ(HWTIMER_ID(i, i), rec.id);
	}
}

/* Random entries: each is taken, and either succeeds or is reported as failed. */
TEST_F(hostile, garbage)
{
	struct ring *r = must_ring(must_open(0), 256, 1024, 64);
	unsigned long taken = 0, failed = 0, expired = 0;
	__u64 random = seed();
	struct hwtimer_record rec[64];
	struct hwtimer_stats s;
	unsigned int round, i, n;

	/* The first expiry takes a tick or more. */
	for (round = 0; round < 400 || !expired; round++) {
		for (i = 0; i < 128; i++) {
			struct hwtimer_sqe sqe = {
				.op = rnd(&random) % 8 ? rnd(&random) % 4 : rnd(&random),
				.flags = rnd(&random) % 8 ? 0 : rnd(&random) & ~HWTIMER_SQE_QUIET,
				.id = rnd(&random) % 8 ? HWTIMER_ID(rnd(&random) % 66,
								    rnd(&random) % 2) :
				      rnd(&random),
				.time = rnd(&random) % 2 ? 0 :
					rnd(&random) % 2 ? now_ns() + rnd(&random) % NSEC_PER_SEC :
					rnd(&random),
				.user_data = rnd(&random),
			};

			ASSERT_TRUE(ring_put(r, &sqe));
			taken++;
		}
		must_enter(r);
		ASSERT_EQ(0, ring_untaken(r));
		while ((n = ring_reap(r, rec, 64))) {
			for (i = 0; i < n; i++) {
				if (rec[i].kind == HWTIMER_KIND_FAILED) {
					ASSERT_GT(0, rec[i].error);
					failed++;
				} else {
					ASSERT_EQ(HWTIMER_KIND_EXPIRED, rec[i].kind);
					ASSERT_LE(rec[i].deadline, rec[i].fired);
					expired++;
				}
			}
		}
	}
	for (i = 0; i < 64; i++) {
		hwt_cancel(r->fd, HWTIMER_ID(i, 0));
		hwt_cancel(r->fd, HWTIMER_ID(i, 1));
	}
	/* Except those whose tags were random. */
	while (ring_reap(r, rec, 1))
		expired++;
	s = must_stats(r->fd);
	printf("# %lu entries, %lu failed\n", taken, failed);
	print_stats(&s);
	EXPECT_TRUE(balanced(&s));
	/* The counters include the cancels by ioctl. */
	EXPECT_LE(taken - failed, s.scheduled + s.touched + s.cancelled);
	EXPECT_EQ(expired, s.expired);
	EXPECT_LT(0, failed);
	ring_close(r);
}

/*
 * Witnesses: other contexts, which must not notice anything, and a thread that just sleeps, as a
 * measure of the machine's delays.
 */
enum { IOCTLS, RINGS, SLEEP, WITNESSES };

struct witness {
	pthread_t thread;
	atomic_bool done;
	int how;
	unsigned int rounds;
	__u64 worst;
};

/* Wait for one timeout; returns by how much it was late. */
static __u64 wait_for_one(struct witness *w, int fd, struct ring *r)
{
	__u64 deadline = now_ns() + 3 * NSEC_PER_MSEC, n = w->rounds++, id;
	struct hwtimer_record rec;

	if (w->how == SLEEP) {
		wait_until(deadline);
		return now_ns() - deadline;
	}
	if (w->how == RINGS) {
		id = HWTIMER_ID(n % 16, n);
		must_arm(r, id, deadline, n);
		rec = must_ring_expire(r);
	} else {
		if (hwt_schedule(fd, 0, deadline, n, &id, NULL) ||
		    hwt_collect(fd, &rec, 1) != 1)
			die("witness");
		if (!valid_record(&rec, HWTIMER_KIND_EXPIRED))
			die("witness: kind %u", rec.kind);
	}
	if (rec.id != id || rec.user_data != n || rec.deadline != deadline)
		die("witness: id %llx, not %llx; user_data %llu, not %llu", rec.id, id,
		    rec.user_data, n);
	return rec.fired - rec.deadline;
}

static void *witness(void *arg)
{
	struct witness *w = arg;
	int fd = must_open(0);
	struct ring *r = w->how == RINGS ? must_ring(fd, 16, 16, 16) : NULL;

	while (!atomic_load(&w->done)) {
		__u64 late = wait_for_one(w, fd, r);

		w->worst = late > w->worst ? late : w->worst;
	}
	if (r)
		ring_unmap(r);
	close(fd);
	return NULL;
}

static void begin_witnesses(struct witness w[WITNESSES])
{
	int i;

	for (i = 0; i < WITNESSES; i++) {
		w[i] = (struct witness){ .how = i };
		start(&w[i].thread, witness, &w[i]);
	}
}

static void end_witnesses(struct __test_metadata *_metadata, struct witness w[WITNESSES])
{
	static const char *const names[] = { "ioctls", "rings", "clock_nanosleep" };
	int i;

	for (i = 0; i < WITNESSES; i++) {
		atomic_store(&w[i].done, true);
		pthread_join(w[i].thread, NULL);
		printf("# witness, %s: %u timeouts, at most %llu us late\n", names[i],
		       w[i].rounds, w[i].worst / NSEC_PER_USEC);
		EXPECT_GT(GENEROUS, w[i].worst);
		EXPECT_LT(0, w[i].rounds);
	}
}

/* Threads that write random values into the rings. */
struct scribbler {
	pthread_t thread;
	char *where;
	size_t size;
	__u64 random;
	bool theirs;	/* do not write to the kernel's fields */
	atomic_bool done;
};

static void *scribble(void *arg)
{
	struct scribbler *s = arg;

	while (!atomic_load(&s->done)) {
		__u64 value = rnd(&s->random);
		size_t at;
		int i;

		/* Mostly to the indexes. */
		switch (rnd(&s->random) % 4) {
		case 0:
			at = offsetof(struct hwtimer_ring, sq_tail);
			break;
		case 1:
			at = offsetof(struct hwtimer_ring, cq_head);
			break;
		default:
			at = rnd(&s->random) % (s->size / 4) * 4;
		}
		if (s->theirs && at >= offsetof(struct hwtimer_ring, sq_head) &&
		    at < sizeof(struct hwtimer_ring))
			continue;
		/* Also small numbers, some of them valid. */
		if (value % 4)
			value = value >> 32 & (value % 4 == 1 ? 0x7 : 0x3ff);
		store_release((__u32 *)(s->where + at), (__u32)value);
		for (i = 0; i < (int)(value % 8); i++)
			sched_yield();
	}
	return NULL;
}

enum { SCRIBBLERS = 2 };

static void begin_scribblers(struct scribbler s[SCRIBBLERS], struct ring *r, bool theirs,
			     __u64 *random)
{
	int i;

	for (i = 0; i < SCRIBBLERS; i++) {
		s[i] = (struct scribbler){
			.where = (char *)r->shared, .size = r->params.size,
			.random = rnd(random) | 1, .theirs = theirs,
		};
		start(&s[i].thread, scribble, &s[i]);
	}
}

static void end_scribblers(struct scribbler s[SCRIBBLERS])
{
	int i;

	for (i = 0; i < SCRIBBLERS; i++) {
		atomic_store(&s[i].done, true);
		pthread_join(s[i].thread, NULL);
	}
}

/* How often ENTER rejected the rings, and how often it did not. */
struct verdicts {
	unsigned int bad, fine;
};

/* A random call. Whatever the rings hold, only documented errors are returned. */
static void call_any(struct __test_metadata *_metadata, struct ring *r, __u64 *random,
		     struct verdicts *v)
{
	__u64 id = HWTIMER_ID(rnd(random) % 64, rnd(random) % 4);
	struct hwtimer_stats s;
	int ret;

	switch (rnd(random) % 8) {
	case 0 ... 2:
		ret = ring_enter(r, NULL);
		ASSERT_TRUE(!ret || ret == -EBADFD);
		v->bad += !!ret;
		v->fine += !ret;
		break;
	case 3:
		poll_now(r->fd);
		break;
	case 4:
		ret = hwt_schedule_id(r->fd, HWTIMER_RELATIVE, id,
				      rnd(random) % (20 * NSEC_PER_MSEC), 0);
		ASSERT_TRUE(!ret || ret == -EEXIST || ret == -EBUSY);
		break;
	case 5:
		ret = hwt_touch(r->fd, HWTIMER_RELATIVE, id,
				rnd(random) % (20 * NSEC_PER_MSEC), NULL);
		ASSERT_TRUE(!ret || ret == -ENOENT);
		break;
	case 6:
		ret = hwt_cancel(r->fd, id);
		ASSERT_TRUE(!ret || ret == -ENOENT);
		break;
	default:
		s = must_stats(r->fd);
		ASSERT_TRUE(balanced(&s));
	}
}

/*
 * Repair the program's fields (the kernel's are intact), and empty the rings. Submissions that the
 * kernel knows of and has not taken, for lack of room, will be taken.
 */
static void put_right(struct ring *r)
{
	struct hwtimer_record rec[64];
	int i, tag;

	eventually(({
		r->cq_head = load_acquire(&r->shared->cq_tail);
		store_release(&r->shared->cq_head, r->cq_head);
		r->sq_tail = load_acquire(&r->shared->sq_head);
		store_release(&r->shared->sq_tail, r->sq_tail);
		!ring_enter(r, NULL) && !ring_untaken(r) && !ring_flags(r);
	}));
	for (i = 0; i < 64; i++) {
		/* Timeouts scheduled by ioctl; the tags of the others are not known. */
		for (tag = 0; tag < 4; tag++)
			hwt_cancel(r->fd, HWTIMER_ID(i, tag));
	}
	while (ring_reap(r, rec, 64))
		;
}

/* After the repair, a timeout in a free slot expires. */
static void check_right(struct __test_metadata *_metadata, struct ring *r)
{
	struct hwtimer_record rec;
	int i;

	for (i = 0; i < 64; i++)
		if (!hwt_schedule_id(r->fd, HWTIMER_RELATIVE, HWTIMER_ID(i, 1), 0, 4711))
			break;
	ASSERT_GT(64, i);
	do {
		ASSERT_EQ(1, ring_collect(r, &rec, 1));
	} while (rec.id != HWTIMER_ID(i, 1) || rec.user_data != 4711);
	EXPECT_EQ(0, ring_flags(r));
}

static void scribbled(struct __test_metadata *_metadata, bool theirs)
{
	struct ring *r = must_ring(must_open(O_NONBLOCK), 64, 64, 64);
	__u64 random = seed(), end = now_ns() + quick_or(2, 6) * NSEC_PER_SEC, back;
	struct scribbler scribblers[SCRIBBLERS];
	struct witness w[WITNESSES];
	struct verdicts v = { 0 };
	struct hwtimer_stats s;
	unsigned int ops;

	begin_witnesses(w);
	begin_scribblers(scribblers, r, theirs, &random);
	for (ops = 0; now_ns() < end; ops++)
		call_any(_metadata, r, &random, &v);
	end_scribblers(scribblers);
	end_witnesses(_metadata, w);
	printf("# %u operations, the rings bad %u times, fine %u times\n", ops, v.bad, v.fine);
	EXPECT_LT(0, v.bad);
	EXPECT_LT(0, v.fine);

	if (theirs) {
		put_right(r);
		check_right(_metadata, r);
	}
	s = must_stats(r->fd);
	print_stats(&s);
	ASSERT_TRUE(balanced(&s));
	EXPECT_EQ(0, hwt_stop(r->fd, &back));
	EXPECT_EQ(0, must_stats(r->fd).pending);
	ring_close(r);
}

TEST(scribbled_over)
{
	scribbled(_metadata, false);
}

TEST(scribbled_over_and_put_right)
{
	scribbled(_metadata, true);
}

/* Close, unmap and kill while the rings are overwritten. */
TEST(killed)
{
	__u64 random = seed();
	int i;

	for (i = 0; i < 20; i++) {
		pid_t child = must_fork();

		if (!child) {
			struct ring *r = must_ring(must_open(0), 64, 2, 64);
			struct scribbler s = {
				.where = (char *)r->shared, .size = r->params.size,
				.random = rnd(&random) | 1,
			};
			unsigned int n = 0;

			if (i % 2)
				start(&s.thread, scribble, &s);
			for (;;) {
				struct hwtimer_sqe sqe = {
					.op = n % 3 + 1, .id = HWTIMER_ID(n % 64, 0),
					.time = n % 3 == 2 ? 0 : now_ns() + n % 7 * NSEC_PER_MSEC,
				};

				n++;
				ring_put(r, &sqe);
				if (n % 16 == 0)
					ring_enter(r, NULL);
			}
		}
		wait_until(now_ns() + rnd(&random) % (60 * NSEC_PER_MSEC));
		must_kill(child);
	}
	eventually(!module_references());
}

/*
 * A program that keeps its ring full forever starves neither others nor its own timeouts, although
 * there are always submissions to take.
 */
struct spinner {
	struct ring *r;
	struct hwtimer_record *rec;
	bool kicks;
	__u64 random;
	unsigned long submitted, full;
	bool mine;		/* a timeout is pending that is waited for */
	__u64 due, worst;	/* its deadline; the longest delay of all */
	unsigned long expiries;
};

/* Submit up to 512 entries. When the ring is full, ring the doorbell or, without @kicks, stop. */
static void submit_work(struct spinner *s)
{
	unsigned int i;

	for (i = 0; i < 512; i++) {
		struct hwtimer_sqe sqe = {
			.op = rnd(&s->random) % 3 + 1, .flags = HWTIMER_SQE_QUIET,
			.id = HWTIMER_ID(1 + rnd(&s->random) % 65535, 0),
		};

		if (sqe.op != HWTIMER_OP_CANCEL)
			sqe.time = now_ns() + FAR;
		if (!ring_put(s->r, &sqe)) {
			s->full++;
			if (s->kicks)
				must_enter(s->r);
			else
				break;
		} else {
			s->submitted++;
		}
	}
}

/* Submit one's own timeout, if there is room. */
static void submit_own(struct spinner *s)
{
	struct hwtimer_sqe sqe = {
		.op = HWTIMER_OP_SCHEDULE, .id = HWTIMER_ID(0, s->expiries),
		.time = now_ns() + 5 * NSEC_PER_MSEC, .user_data = s->expiries,
	};

	if (!ring_put(s->r, &sqe))
		return;
	s->mine = true;
	s->due = sqe.time;
	if (s->kicks && kick_due(s->r, s->due))
		must_enter(s->r);
}

/* Nothing but those timeouts expires. */
static void reap_own(struct __test_metadata *_metadata, struct spinner *s)
{
	unsigned int n = ring_reap(s->r, s->rec, 1024), i;

	for (i = 0; i < n; i++) {
		ASSERT_EQ(HWTIMER_KIND_EXPIRED, s->rec[i].kind);
		ASSERT_EQ(HWTIMER_ID(0, s->expiries), s->rec[i].id);
		ASSERT_EQ(s->due, s->rec[i].deadline);
		ASSERT_LE(s->due, s->rec[i].fired);
		if (now_ns() - s->due > s->worst)
			s->worst = now_ns() - s->due;
		s->expiries++;
		s->mine = false;
	}
}

static void await_own(struct __test_metadata *_metadata, struct spinner *s)
{
	while (s->mine) {
		must_enter(s->r);
		if (!ring_reap(s->r, s->rec, 1)) {
			sched_yield();
			continue;
		}
		ASSERT_EQ(HWTIMER_ID(0, s->expiries), s->rec[0].id);
		s->expiries++;
		s->mine = false;
	}
}

static void spin(struct __test_metadata *_metadata, bool kicks)
{
	struct spinner s = {
		.r = must_ring(must_open(0), 65536, 65536, 65536),
		.rec = must_alloc(1024, sizeof(*s.rec)), .kicks = kicks, .random = seed(),
	};
	__u64 end = now_ns() + quick_or(2, 6) * NSEC_PER_SEC;
	struct witness w[WITNESSES];

	begin_witnesses(w);
	while (now_ns() < end) {
		submit_work(&s);
		if (!s.mine)
			submit_own(&s);
		reap_own(_metadata, &s);
		/* Without kicks, with a full ring: the worker must have announced when it polls. */
		if (!kicks && ring_sleep_until(s.r) == HWTIMER_RING_IDLE)
			must_enter(s.r);
	}
	await_own(_metadata, &s);
	printf("# %lu submitted, found full %lu times, %lu kicks; own: %lu, at most %llu us late\n",
	       s.submitted, s.full, atomic_load(&s.r->enters), s.expiries,
	       s.worst / NSEC_PER_USEC);
	end_witnesses(_metadata, w);
	EXPECT_LT(0, s.expiries);
	EXPECT_GT(GENEROUS, s.worst);
	EXPECT_EQ(s.expiries, must_stats(s.r->fd).expired);
	ring_close(s.r);
	free(s.rec);
}

TEST(spinning_with_doorbells)
{
	spin(_metadata, true);
}

TEST(spinning_without_doorbells)
{
	spin(_metadata, false);
}

/*
 * The system calls of a million operations. A busy program needs the doorbell when the ring is
 * full, and when the worker sleeps.
 */
#define TABLE		100000U
#define MILLION		1000000U
/* Allowance for the first doorbell, and for those after the program was not scheduled for long. */
#define SMALL		100

struct load {
	struct ring *r;
	bool *armed;
	__u64 random;
	unsigned long pending, operations, expired;
};

/* A random schedule, touch or cancel. */
static void operate(struct load *l)
{
	unsigned int slot = rnd(&l->random) % TABLE;
	__u64 deadline = now_ns() + FAR, id = HWTIMER_ID(slot, 1);

	l->operations++;
	if (!l->armed[slot]) {
		must_submit(l->r, HWTIMER_OP_SCHEDULE, 0, id, deadline, slot);
		l->armed[slot] = true;
		l->pending++;
	} else if (rnd(&l->random) % 4) {
		/* A later deadline needs no kick. */
		must_put(l->r, HWTIMER_OP_TOUCH, HWTIMER_SQE_QUIET, id, deadline, slot);
	} else {
		must_put(l->r, HWTIMER_OP_CANCEL, HWTIMER_SQE_QUIET, id, 0, slot);
		l->armed[slot] = false;
		l->pending--;
	}
}

static struct load begin_load(__u32 sq_entries)
{
	return (struct load){
		.r = must_ring(must_open(0), sq_entries, 65536, TABLE),
		.armed = must_alloc(TABLE, sizeof(bool)), .random = seed(),
	};
}

static void end_load(struct __test_metadata *_metadata, struct load *l)
{
	struct hwtimer_stats s;

	must_enter(l->r);
	s = must_stats(l->r->fd);
	EXPECT_EQ(l->operations, s.scheduled + s.touched + s.cancelled);
	EXPECT_EQ(l->pending, s.pending);
	EXPECT_EQ(0, ring_unread(l->r));
	ring_close(l->r);
	free(l->armed);
}

static void busy(struct __test_metadata *_metadata, __u32 sq_entries)
{
	struct load l = begin_load(sq_entries);
	__u64 began = now_ns(), took;
	unsigned long calls;

	while (l.operations < MILLION)
		operate(&l);
	took = now_ns() - began;
	calls = atomic_load(&l.r->enters);
	printf("# rings: %lu calls per million operations, busy, ring of %u; %llu ns each\n",
	       calls, sq_entries, took / MILLION);
	EXPECT_GE(MILLION / sq_entries + SMALL, calls);
	end_load(_metadata, &l);
}

TEST(calls_ring_of_1024)
{
	busy(_metadata, 1024);
}

TEST(calls_ring_of_4096)
{
	busy(_metadata, 4096);
}

TEST(calls_ring_of_65536)
{
	busy(_metadata, 65536);
}

/* A hundred operations at a time, with pauses after which the worker no longer polls. */
TEST(calls_with_pauses)
{
	enum { EACH = 100 };
	unsigned int bursts = quick_or(4, 12), i, k;
	struct load l = begin_load(1024);
	__u64 began = now_ns();
	unsigned long calls;

	for (i = 0; i < bursts; i++) {
		eventually(ring_sleep_until(l.r) == HWTIMER_RING_IDLE);
		EXPECT_EQ(0, ring_untaken(l.r));
		for (k = 0; k < EACH; k++)
			operate(&l);
	}
	calls = atomic_load(&l.r->enters);
	printf("# rings: %lu calls per million operations, %u between pauses; idle %llu ms each\n",
	       calls * MILLION / (bursts * EACH), EACH,
	       (now_ns() - began) / bursts / NSEC_PER_MSEC);
	/* A kick for each burst; a slow one may need another, the worker being idle again. */
	EXPECT_LE(bursts, calls);
	EXPECT_GE(2 * bursts, calls);
	end_load(_metadata, &l);
}

TEST_HARNESS_MAIN
