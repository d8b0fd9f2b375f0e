// SPDX-License-Identifier: GPL-2.0-only
/*
 * The witness: a program that uses a context correctly while others do not. Nobody else has its
 * descriptor. Its timeouts expire once each, never early, and none is forgotten. There are two, one
 * by calls, one by a table.
 */
#include "fuzz.h"
#include "../../lib/table.h"

#define TIMEOUTS	48
#define LONGEST		(700 * NSEC_PER_MSEC)

/**
 * struct timeout - a timeout of a witness
 * @id: by calls: its id; by a table: its arming
 * @deadline: when it is due
 * @live: it has not ended
 */
struct timeout {
	__u64	id;
	__u64	deadline;
	bool	live;
};

static struct timeout timeouts[TIMEOUTS];
static struct table table = { .page = 4096, .max = 4096 };
static bool by_table;
static int self, device;
static __u64 seed_of_it;

/* A deadline; a table rounds it up. */
static __u64 deadline_within(__u64 ns)
{
	__u64 deadline = now_ns() + below(&seed_of_it, ns);

	return by_table ? table_deadline(table_word(deadline, 1)) : deadline;
}

static void schedule(__u32 i)
{
	struct timeout *w = &timeouts[i];
	struct hwtimer_schedule s = { .user_data = i };
	int ret;

	w->deadline = deadline_within(LONGEST);
	s.time = w->deadline;
	if (by_table) {
		w->id = (w->id + 1) & TABLE_ARMING ?: 1;
		table.slot[i].user_data = i;
		ret = table_arm(&table, i, table_word(w->deadline, w->id));
	} else {
		ret = hwt_ioctl(device, HWTIMER_IOC_SCHEDULE, &s);
		w->id = s.id;
	}
	if (ret)
		fail("arm: %d", ret);
	w->live = true;
}

/* Each of these ends, or moves, a timeout if and only if it has not ended. */
static int touch(__u32 i, __u64 deadline)
{
	struct timeout *w = &timeouts[i];
	struct hwtimer_touch t = { .id = w->id, .time = deadline };

	if (by_table)
		return table_touch(&table, i, table_word(deadline, w->id));
	return hwt_ioctl(device, HWTIMER_IOC_TOUCH, &t);
}

static int cancel(__u32 i)
{
	struct timeout *w = &timeouts[i];
	struct hwtimer_cancel c = { .id = w->id };

	return by_table ? table_cancel(&table, i, w->id) :
			  hwt_ioctl(device, HWTIMER_IOC_CANCEL, &c);
}

static void expired(__u64 i, __u64 id, __u64 deadline, __u64 taken)
{
	struct timeout *w = &timeouts[i];
	__u64 late = taken - deadline;

	if (i >= TIMEOUTS)
		fail("a record of %llu", i);
	if (!w->live || id != w->id)
		fail("%llx expired, and was %s", id, id == w->id ? "over" : "unknown");
	if (deadline != w->deadline || taken < deadline || taken > now_ns())
		fail("%llx expired by %llu, not by %llu, at %llu", id, deadline, w->deadline,
		     taken);
	if (late > atomic_load(&shared->late_ns[self]))
		atomic_store(&shared->late_ns[self], late);
	w->live = false;
	atomic_fetch_add(&shared->expired[self], 1);
}

static void look(__u32 i)
{
	__u64 now = now_ns(), word;

	if (i >= TIMEOUTS)
		fail("a record of slot %u", i);
	word = table_look(&table, i, now, NULL, NULL);
	if (word)
		expired(i, word & TABLE_ARMING, table_deadline(word), now);
}

static void take_from_table(void)
{
	__u32 i, g, head, walked, walk;

	if (table_walk(&table, &walked, &walk)) {
		for (i = 0; i < TIMEOUTS; i++)
			look(i);
		table_walked(&table, walked, walk);
	}
	while (table_peek(&table, &i, &g, &head) > 0) {
		look(i);
		table_took(&table, g, head);
	}
}

static void take_by_read(void)
{
	struct hwtimer_record r[16];
	ssize_t ret = read(device, r, sizeof(r)), i;

	if (ret <= 0 || ret % sizeof(r[0]))
		fail("read: %zd, %s", ret, strerror(errno));
	for (i = 0; i < ret / (ssize_t)sizeof(r[0]); i++) {
		if (r[i].kind != HWTIMER_KIND_EXPIRED || r[i].overruns || r[i].pad)
			fail("a record of %llx: kind %u", r[i].id, r[i].kind);
		expired(r[i].user_data, r[i].id, r[i].deadline_ns, r[i].taken_ns);
	}
}

static void take(int wait_ms)
{
	struct pollfd p = { .fd = device, .events = POLLIN };
	int ret = poll(&p, 1, wait_ms);

	if (ret < 0 || p.revents & ~POLLIN)
		fail("poll: %d, %x", ret, p.revents);
	if (ret && by_table)
		take_from_table();
	else if (ret)
		take_by_read();
}

/* Returns how many are live. */
static unsigned int expect_none_forgotten(void)
{
	__u64 now = now_ns();
	unsigned int live = 0, i;

	for (i = 0; i < TIMEOUTS; i++) {
		live += timeouts[i].live;
		if (timeouts[i].live && timeouts[i].deadline + PATIENCE < now)
			fail("%llx has not expired: it is %llu ns late", timeouts[i].id,
			     now - timeouts[i].deadline);
	}
	return live;
}

static void step(void)
{
	__u32 i = below(&seed_of_it, TIMEOUTS);
	struct timeout *w = &timeouts[i];
	int want = w->live ? 0 : -ENOENT, ret;
	__u64 deadline;

	switch (below(&seed_of_it, 8)) {
	case 0:
		ret = cancel(i);
		if (ret != want)
			fail("cancel: %d, not %d", ret, want);
		w->live = false;
		break;
	case 1 ... 3:
		deadline = deadline_within(LONGEST);
		ret = touch(i, deadline);
		if (ret != want)
			fail("touch: %d, not %d", ret, want);
		w->deadline = deadline;
		break;
	default:
		if (!w->live)
			schedule(i);
	}
}

/* All have ended: no more comes, and STATS agrees. */
static void expect_end(void)
{
	struct hwtimer_stats s = { };

	if (poll_in(device, 0))
		take(0);
	if (hwt_ioctl(device, HWTIMER_IOC_STATS, &s) || s.pending ||
	    (!by_table && s.records != atomic_load(&shared->expired[self])))
		fail("stats: pending %llu, records %llu", s.pending, s.records);
}

/**
 * be_witness - run until the state is WITNESS_SETTLE, then end
 * @number: 0: by calls; 1: by a table
 * @random: the seed
 */
void be_witness(int number, __u64 random)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .slots = number ? TIMEOUTS : 0,
		.flags = number ? HWTIMER_SETUP_TABLE : 0,
	};
	unsigned int i;

	snprintf(who_i_am, sizeof(who_i_am), "witness by %s", number ? "a table" : "calls");
	self = number;
	seed_of_it = random;
	by_table = number;
	device = open(DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	table.fd = device;
	if (hwt_ioctl(device, HWTIMER_IOC_SETUP, &setup) || (by_table && table_map(&table)))
		fail("setup: %s", strerror(errno));
	/* Allocate all the memory that it will use, before it is counted. */
	for (i = 0; i < TIMEOUTS; i++)
		schedule(i);
	atomic_store(&shared->witness[number], WITNESS_READY);
	while (atomic_load(&shared->witness[number]) != WITNESS_SETTLE) {
		for (i = below(&seed_of_it, 8); i; i--)
			step();
		take(5);
		expect_none_forgotten();
	}
	while (expect_none_forgotten())
		take(100);
	expect_end();
	_exit(0);
}
