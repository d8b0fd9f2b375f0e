// SPDX-License-Identifier: GPL-2.0-only
/*
 * The witness: a program that uses the device correctly while others do not. Its timeouts expire
 * once each, never early, and not extremely late, whatever the others do. There are two, one by
 * ioctl and read, one by rings.
 */
#include "fuzz.h"
#include "rings.h"

#define TIMEOUTS	48
#define LONGEST		(700 * NSEC_PER_MSEC)

/*
 * What is submitted before the deadline takes effect. If the machine may have taken the CPU away
 * in between, it is unknown whether the submission was in time: the operation is open until its
 * failure is reported, or all records were read.
 */
struct arming {
	__u64 id, deadline;
	__u64 previous;		/* open: the deadline before */
	bool live, open;
};

struct witness {
	struct arming armings[TIMEOUTS];
	struct ring ring;
	__u64 random, tag;
	__u64 scheduled, touched, cancelled, expired;
	int fd, number;
	bool rings;
};

static void submit(struct witness *w, __u32 op, __u64 id, __u64 time, __u64 user_data)
{
	struct hwtimer_sqe sqe = {
		.op = op, .id = id, .time = time, .user_data = user_data,
	};

	while (!ring_submit(&w->ring, &sqe))
		if (ring_enter(w->fd, NULL))
			fail("enter: %s", strerror(errno));
	if (op != HWTIMER_OP_CANCEL &&
	    time < __atomic_load_n(&w->ring.shared->sleep_until, __ATOMIC_SEQ_CST) &&
	    ring_enter(w->fd, NULL))
		fail("enter: %s", strerror(errno));
}

static void schedule(struct witness *w, unsigned int i)
{
	__u64 deadline = now_ns() + below(&w->random, LONGEST);
	struct arming *a = &w->armings[i];

	if (w->rings) {
		a->id = HWTIMER_ID(i, w->tag++);
		a->deadline = deadline;
		submit(w, HWTIMER_OP_SCHEDULE, a->id, deadline, i);
	} else if (hwt_schedule(w->fd, 0, deadline, i, &a->id, &a->deadline)) {
		fail("schedule: %s", strerror(errno));
	}
	if (a->deadline != deadline)
		fail("asked for %llu, was given %llu", deadline, a->deadline);
	a->live = true;
	w->scheduled++;
}

static void collect(struct witness *w, int wait_ms);

static bool unread(const struct witness *w)
{
	__u32 head;

	return must_stats(w->fd).unread || (w->rings && ring_records(&w->ring, &head));
}

static void collect_all(struct witness *w)
{
	while (unread(w))
		collect(w, 100);
}

/* By ring: operate on a timeout that was to expire at @previous. */
static void submit_late(struct witness *w, struct arming *a, __u32 op, __u64 time)
{
	a->previous = a->deadline;
	if (op == HWTIMER_OP_TOUCH)
		a->deadline = time;
	else
		a->live = false;
	a->open = true;
	submit(w, op, a->id, time, a - w->armings);
	if (now_ns() >= a->previous) {
		if (ring_enter(w->fd, NULL))
			fail("enter: %s", strerror(errno));
		collect_all(w);
	}
	a->open = false;
}

static void touch(struct witness *w, struct arming *a)
{
	__u64 deadline = now_ns() + below(&w->random, LONGEST), granted = deadline;
	int ret = 0;

	w->touched++;
	if (w->rings) {
		submit_late(w, a, HWTIMER_OP_TOUCH, deadline);
		return;
	}
	ret = hwt_touch(w->fd, 0, a->id, deadline, &granted);
	if (ret == -ENOENT && now_ns() > a->deadline) {
		w->touched--;
		return;
	}
	if (ret || granted != deadline)
		fail("touch: %d, %llu for %llu", ret, granted, deadline);
	a->deadline = deadline;
}

static void cancel(struct witness *w, struct arming *a)
{
	int ret = 0;

	w->cancelled++;
	if (w->rings) {
		submit_late(w, a, HWTIMER_OP_CANCEL, 0);
		return;
	}
	ret = hwt_cancel(w->fd, a->id);
	if (ret == -ENOENT && now_ns() > a->deadline) {
		w->cancelled--;
		return;
	}
	if (ret)
		fail("cancel: %d", ret);
	a->live = false;
}

/* A submission that came too late is reported as failed. */
static void undo(struct witness *w, const struct hwtimer_record *r)
{
	const struct arming *a = &w->armings[r->user_data];

	if (r->error != -ENOENT || r->id != a->id || !a->open || r->fired < a->previous)
		fail("operation %u on %llx failed: %d", r->op, r->id,
		     r->error);
	if (r->op == HWTIMER_OP_TOUCH)
		w->touched--;
	else if (r->op == HWTIMER_OP_CANCEL)
		w->cancelled--;
	else
		fail("operation %u failed", r->op);
}

static void check_record(struct witness *w, const struct hwtimer_record *r)
{
	struct arming *a;
	__u64 late;

	if (r->user_data >= TIMEOUTS)
		fail("a record of %llu", r->user_data);
	if (r->kind == HWTIMER_KIND_FAILED) {
		undo(w, r);
		return;
	}
	a = &w->armings[r->user_data];
	if (!valid_record(r, HWTIMER_KIND_EXPIRED))
		fail("a record of %llx: kind %u error %d deadline %llu fired %llu now %llu", r->id,
		     r->kind, r->error, r->deadline, r->fired, now_ns());
	if (!(a->live || a->open) || r->id != a->id)
		fail("%llx expired, and was %s", r->id,
		     r->id == a->id ? "over" : "unknown");
	if (r->deadline != a->deadline && !(a->open && r->deadline == a->previous))
		fail("expired by %llu, not by %llu", r->deadline, a->deadline);
	late = r->fired - r->deadline;
	if (late > PATIENCE)
		fail("expired %llu ns late", late);
	if (late > atomic_load(&shared->witnessed_late[w->number]))
		atomic_store(&shared->witnessed_late[w->number], late);
	a->live = false;
	w->expired++;
	atomic_fetch_add(&shared->witnessed[w->number], 1);
}

static void collect(struct witness *w, int wait_ms)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };
	struct hwtimer_record records[16];
	int ret = poll(&p, 1, wait_ms), i;
	__u32 head, n;

	if (ret < 0)
		fail("poll: %s", strerror(errno));
	if (!ret)
		return;
	if (p.revents != POLLIN)
		fail("poll() says %x", p.revents);
	if (w->rings) {
		for (n = ring_records(&w->ring, &head); n; n--, head++)
			check_record(w, &w->ring.cq[head & (w->ring.cq_entries - 1)]);
		if (ring_read(&w->ring, head))
			fail("the ring is full although there is room");
		return;
	}
	ret = hwt_read(w->fd, records, ARRAY_SIZE(records));
	if (ret <= 0)
		fail("read: %d", ret);
	for (i = 0; i < ret; i++)
		check_record(w, &records[i]);
}

/* Check for timeouts that should have expired long ago. */
static unsigned int check_overdue(struct witness *w)
{
	unsigned int live = 0, i;
	__u64 now = now_ns();

	for (i = 0; i < TIMEOUTS; i++) {
		if (!w->armings[i].live)
			continue;
		live++;
		if (w->armings[i].deadline + PATIENCE < now)
			fail("%llx has not expired: it is %llu ns late",
			     w->armings[i].id, now - w->armings[i].deadline);
	}
	return live;
}

static void step(struct witness *w)
{
	struct arming *a = &w->armings[below(&w->random, TIMEOUTS)];

	switch (below(&w->random, 8)) {
	case 0:
		if (a->live)
			cancel(w, a);
		break;
	case 1 ... 3:
		if (a->live)
			touch(w, a);
		break;
	default:
		if (!a->live)
			schedule(w, a - w->armings);
	}
}

static void check_books(struct witness *w)
{
	struct hwtimer_stats s = must_stats(w->fd);

	if (!balanced(&s) || s.scheduled != w->scheduled || s.touched != w->touched ||
	    s.cancelled != w->cancelled || s.expired != w->expired || s.handed_back ||
	    s.rejected || s.pending || s.unread) {
		print_stats(&s);
		fail("scheduled %llu touched %llu cancelled %llu expired %llu",
		     w->scheduled, w->touched, w->cancelled, w->expired);
	}
}

/**
 * be_witness - run until the state is WITNESS_SETTLE, then end
 * @number: 0: by ioctl and read; 1: by rings
 * @random: the seed
 */
void be_witness(int number, __u64 random)
{
	struct witness *w = must_alloc(1, sizeof(*w));
	atomic_int *state = &shared->witness[number];
	struct hwtimer_rings rings = {
		/*
		 * The submission ring is short, and full at times. The completion ring never is:
		 * if it were, timeouts would expire without a check of earlier submissions.
		 */
		.sq_entries = 8, .cq_entries = 2 * TIMEOUTS, .timeouts = TIMEOUTS,
		ENTRY_SIZES,
	};
	unsigned int i;
	int ret;

	snprintf(who_i_am, sizeof(who_i_am), "witness by %s", number ? "rings" : "ioctl");
	w->number = number;
	w->random = random;
	w->fd = must_open(O_NONBLOCK);
	w->rings = number;
	w->tag = 1;	/* no id is 0 */
	if (w->rings) {
		ret = hwt_ioctl(w->fd, HWTIMER_IOC_RINGS, &rings);
		if (!ret)
			ret = ring_map(&w->ring, w->fd, &rings);
		if (ret)
			fail("rings: %s", strerror(-ret));
	}
	/* Allocate all the memory that it will use, before it is counted. */
	for (i = 0; i < TIMEOUTS; i++)
		schedule(w, i);
	must_stats(w->fd);
	atomic_store(state, WITNESS_READY);
	while (atomic_load(state) != WITNESS_SETTLE) {
		for (i = below(&w->random, 8); i; i--)
			step(w);
		collect(w, 5);
		check_overdue(w);
	}
	while (check_overdue(w))
		collect(w, 100);
	collect_all(w);
	check_books(w);
	_exit(0);
}
