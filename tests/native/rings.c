// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the library and the module, each on its side of the rings; each thread is a program. A
 * scheduled timeout gives one event unless it is cancelled, no event is early, and no submission
 * waits for a missing kick.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libhwtimer.h"
#include "shim.h"

#define THREADS	16
#define ENTRIES	64
#define EVENTS	32

struct entry {
	hwtimer_id	id;	/* 0: none */
	__u64		wanted;
};

struct program {
	struct hwtimer	*h;
	struct entry	entries[ENTRIES];
	__u64		scheduled, cancelled, expired, handed_back;
};

/* by thread */
static __u64 done[THREADS];
static unsigned int turns[THREADS];

/* After each call that may have to kick: will the worker poll in time? */
static void check_kick(struct program *p, __u64 deadline)
{
	if (hwtimer_has_rings(p->h) && native_kick_lost(hwtimer_fd(p->h), deadline))
		native_fail("submitted, without a kick, and the next poll is too late");
}

static void schedule(struct program *p, struct entry *e, __u64 deadline)
{
	int ret = hwtimer_schedule_at(p->h, deadline, e - p->entries, &e->id);

	if (ret) {
		native_fail("scheduling returned %d", ret);
		return;
	}
	e->wanted = deadline;
	p->scheduled++;
	check_kick(p, deadline);
}

static void touch(struct program *p, struct entry *e, __u64 deadline)
{
	__u32 before = native_submitted(hwtimer_fd(p->h));
	int ret = hwtimer_touch_at(p->h, e->id, deadline);

	if (ret) {
		native_fail("touching returned %d", ret);
		return;
	}
	e->wanted = deadline;
	/* No submission for a later deadline, or if the expiry is about to be reported. */
	if (native_submitted(hwtimer_fd(p->h)) != before)
		check_kick(p, deadline);
}

static void cancel(struct program *p, struct entry *e)
{
	hwtimer_id id = e->id;
	int ret = hwtimer_cancel(p->h, id);

	if (ret)
		native_fail("cancelling returned %d", ret);
	e->id = 0;
	p->cancelled++;
	if (hwtimer_cancel(p->h, id) != -ENOENT)
		native_fail("cancelled twice");
}

/* Returns false if the timeouts were stopped and all events collected. */
static bool collect(struct program *p, __s64 timeout_ns)
{
	struct hwtimer_event events[EVENTS];
	int n = hwtimer_wait(p->h, events, EVENTS, timeout_ns), i;

	if (n < 0 && n != -ESHUTDOWN)
		native_fail("wait: %d", n);
	for (i = 0; i < n; i++) {
		struct entry *e = &p->entries[events[i].user_data % ENTRIES];

		if (!e->id || e->id != events[i].id) {
			native_fail("an event of a timeout that has ended");
			continue;
		}
		if (events[i].kind == HWTIMER_KIND_EXPIRED) {
			if (events[i].fired_ns < e->wanted || events[i].deadline_ns != e->wanted)
				native_fail("early: wanted at %llu, fired at %llu",
					    (unsigned long long)e->wanted,
					    (unsigned long long)events[i].fired_ns);
			p->expired++;
		} else {
			p->handed_back++;
		}
		e->id = 0;
	}
	return n >= 0;
}

static bool any(const struct program *p)
{
	unsigned int i;

	for (i = 0; i < ENTRIES; i++)
		if (p->entries[i].id)
			return true;
	return false;
}

static __u64 choose(const struct program *p, __u64 *random)
{
	__u64 now = hwtimer_now(p->h);

	switch (below(random, 4)) {
	case 0:
		return now - below(random, 1000000);
	case 1:
		return now + below(random, 20000000);
	default:
		return now + below(random, 3000000);
	}
}

static void operate(struct program *p, __u64 *random)
{
	struct entry *e = &p->entries[below(random, ENTRIES)];
	__u32 dice = below(random, 256);

	if (dice < 8)
		collect(p, dice ? 0 : below(random, 1000000));
	else if (dice == 8)
		hwtimer_flush(p->h);
	else if (!e->id)
		schedule(p, e, choose(p, random));
	else if (dice < 150)
		touch(p, e, choose(p, random));
	else
		cancel(p, e);
}

static void finish(struct program *p, bool stop)
{
	struct hwtimer_stats stats;

	while (!stop && any(p) && !native_failures)
		collect(p, 1000000);
	hwtimer_stop(p->h);
	while (collect(p, -1))
		;
	if (any(p) || p->scheduled != p->cancelled + p->expired + p->handed_back)
		native_fail("scheduled %llu, cancelled %llu, expired %llu, handed back %llu",
			    (unsigned long long)p->scheduled, (unsigned long long)p->cancelled,
			    (unsigned long long)p->expired, (unsigned long long)p->handed_back);
	hwtimer_stats(p->h, &stats, sizeof(stats));
	if (stats.pending || stats.unread ||
	    stats.scheduled != stats.cancelled + stats.expired + stats.handed_back)
		native_fail("the kernel's books do not balance");
}

static void turn(unsigned int self, __u64 *random, unsigned int flags)
{
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = flags, .timeouts = ENTRIES,
		.sq_entries = 4 << below(random, 7), .cq_entries = 2 << below(random, 6),
	};
	unsigned int n = 1000 + below(random, 10000);
	struct program p = { 0 };

	if (below(random, 2)) {
		o.flags |= HWTIMER_OPEN_OWN_WHEEL;
		o.tick_ns = 10000 << below(random, 7);
		o.slots = 512;
	}
	if (hwtimer_open(&p.h, &o)) {
		native_fail("open failed");
		return;
	}
	while (n-- && !native_failures) {
		operate(&p, random);
		done[self]++;
	}
	finish(&p, below(random, 2));
	hwtimer_close(p.h);
}

/*
 * Some deadlines are so far ahead that the worker polls only every ten ticks. Then an earlier one
 * is submitted just as the worker publishes the time of its next poll.
 */
static void kick_turn(unsigned int self, __u64 *random)
{
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = HWTIMER_OPEN_RINGS | HWTIMER_OPEN_OWN_WHEEL,
		.timeouts = ENTRIES, .tick_ns = 2000, .slots = 512,
	};
	struct program p = { 0 };
	unsigned int n = 100000;
	struct entry *e;
	__u64 ticks;

	if (hwtimer_open(&p.h, &o)) {
		native_fail("open failed");
		return;
	}
	while (n-- && go_on(done[self]++)) {
		e = &p.entries[n % ENTRIES];
		if (n % 16 == 0)
			collect(&p, 0);
		if (e->id)
			cancel(&p, e);
		ticks = below(random, 2) ? 4 + below(random, 4) : 18 + below(random, 8);
		schedule(&p, e, hwtimer_now(p.h) + ticks * o.tick_ns);
	}
	finish(&p, false);
	hwtimer_close(p.h);
}

/*
 * One handle for all threads. Each schedules, and touches and cancels what any has scheduled;
 * others wait for events. Each timeout ends once.
 */
#define BOOKS	16384
#define PLACES	256
#define WAITERS	2

struct book {
	hwtimer_id	id;
	unsigned int	ends;	/* cancelled, or an event */
};

static struct shared {
	struct hwtimer	*h;
	struct book	books[BOOKS];
	unsigned int	books_used;
	unsigned int	places[PLACES];	/* a book's number + 1, or 0 */
} shared;

static void count_end(struct book *b)
{
	if (__atomic_add_fetch(&b->ends, 1, __ATOMIC_RELAXED) != 1)
		native_fail("a timeout ended twice");
}

static void *shared_wait(void *arg)
{
	struct hwtimer_event events[EVENTS];
	int n, i;

	native_enter();
	while ((n = hwtimer_wait(shared.h, events, EVENTS, -1)) > 0)
		for (i = 0; i < n; i++)
			count_end(&shared.books[events[i].user_data]);
	if (n != -ESHUTDOWN)
		native_fail("wait: %d", n);
	native_leave();
	return arg;
}

static void shared_schedule(unsigned int *place, __u64 deadline)
{
	unsigned int n = __atomic_fetch_add(&shared.books_used, 1, __ATOMIC_RELAXED);
	struct book *b = &shared.books[n];
	hwtimer_id id;
	int ret;

	if (n >= BOOKS)
		return;
	ret = hwtimer_schedule_at(shared.h, deadline, n, &id);
	__atomic_store_n(&b->id, id, __ATOMIC_RELAXED);
	if (ret)
		native_fail("scheduling returned %d", ret);
	else
		__atomic_store_n(place, n + 1, __ATOMIC_RELEASE);
}

static void *shared_operate(void *arg)
{
	__u64 random = seeded((__UINTPTR_TYPE__)arg);
	unsigned int *place, number;
	struct hwtimer_state state;
	__u64 deadline;
	struct book *b;
	int ret;

	native_enter();
	while (__atomic_load_n(&shared.books_used, __ATOMIC_RELAXED) < BOOKS && !native_failures) {
		place = &shared.places[below(&random, PLACES)];
		number = __atomic_load_n(place, __ATOMIC_ACQUIRE);
		deadline = hwtimer_now(shared.h) + below(&random, 3000000);
		if (!number) {
			shared_schedule(place, deadline);
			continue;
		}
		b = &shared.books[number - 1];
		switch (below(&random, 8)) {
		case 0:
			ret = hwtimer_cancel(shared.h, b->id);
			if (!ret)
				count_end(b);
			break;
		case 1:
			ret = hwtimer_query(shared.h, b->id, &state);
			if (!ret && state.user_data != number - 1)
				native_fail("the state of another timeout");
			break;
		default:
			ret = hwtimer_touch_at(shared.h, b->id, deadline);
		}
		if (ret == -ENOENT)
			__atomic_compare_exchange_n(place, &number, 0, false, __ATOMIC_RELAXED,
						    __ATOMIC_RELAXED);
		else if (ret)
			native_fail("returned %d", ret);
		if (!below(&random, 1024))
			hwtimer_shrink(shared.h);
	}
	native_leave();
	return NULL;
}

static void shared_turn(__u64 *random)
{
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = HWTIMER_OPEN_THREADS, .timeouts = 4096,
		.sq_entries = 4 << below(random, 7), .cq_entries = 2 << below(random, 6),
	};
	pthread_t threads[THREADS + WAITERS];
	unsigned int i, live = 0;

	o.flags |= below(random, 4) ? HWTIMER_OPEN_RINGS : HWTIMER_OPEN_NO_RINGS;
	memset(&shared, 0, sizeof(shared));
	if (hwtimer_open(&shared.h, &o)) {
		native_fail("open failed");
		return;
	}
	for (i = 0; i < options.threads + WAITERS; i++)
		pthread_create(&threads[i], NULL, i < WAITERS ? shared_wait : shared_operate,
			       (void *)(__UINTPTR_TYPE__)draw(random));
	for (i = WAITERS; i < options.threads + WAITERS; i++)
		pthread_join(threads[i], NULL);
	if (hwtimer_stop(shared.h))
		native_fail("stop failed");
	for (i = 0; i < WAITERS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < BOOKS; i++)
		live += !shared.books[i].ends;
	if (live)
		native_fail("%u timeouts have not ended", live);
	hwtimer_close(shared.h);
}

static __u64 with_threads(void)
{
	__u64 random = seeded(0), n = 0;

	while (go_on(n)) {
		shared_turn(&random);
		n += BOOKS;
	}
	return n;
}

static unsigned int flags;
static bool kicking;

static void *thread(void *arg)
{
	unsigned int self = (__UINTPTR_TYPE__)arg;
	__u64 random = seeded(self);

	native_enter();
	while (go_on(done[self])) {
		if (kicking)
			kick_turn(self, &random);
		else
			turn(self, &random, flags);
		turns[self]++;
		if (!self)
			__atomic_store_n(&native_rough, below(&random, 3), __ATOMIC_RELAXED);
	}
	native_leave();
	return NULL;
}

static __u64 run(unsigned int how)
{
	pthread_t threads[THREADS];
	unsigned int i, handles = 0;
	__u64 sum = 0;

	flags = how;
	memset(done, 0, sizeof(done));
	memset(turns, 0, sizeof(turns));
	for (i = 0; i < options.threads; i++)
		pthread_create(&threads[i], NULL, thread, (void *)(__UINTPTR_TYPE__)i);
	for (i = 0; i < options.threads; i++) {
		pthread_join(threads[i], NULL);
		sum += done[i];
		handles += turns[i];
	}
	__atomic_store_n(&native_rough, 0, __ATOMIC_RELAXED);
	native_log("%u handles", handles);
	return sum;
}

static __u64 with_rings(void)
{
	return run(HWTIMER_OPEN_RINGS);
}

static __u64 by_ioctl(void)
{
	return run(HWTIMER_OPEN_NO_RINGS);
}

static __u64 kicks(void)
{
	__u64 n;

	kicking = true;
	n = run(0);
	kicking = false;
	return n;
}

/* The same with a kernel that does not make up for the library's barriers. */
static __u64 kicks_with_barriers(void)
{
	__u64 n;

	native_nohz_full = true;
	n = kicks();
	native_nohz_full = false;
	return n;
}

/*
 * The completion ring is full, and more records wait in the kernel. Reading all of them one at a
 * time takes one kick for each ring full of records, not one for each record.
 */
static __u64 backlog(void)
{
	enum { CQ = 64, N = 20 * CQ };
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = HWTIMER_OPEN_RINGS, .timeouts = N,
		.sq_entries = N, .cq_entries = CQ,
	};
	struct hwtimer_stats stats = { 0 };
	struct hwtimer_event e;
	unsigned long before;
	struct hwtimer *h;
	unsigned int i;

	if (hwtimer_open(&h, &o)) {
		native_fail("open failed");
		return 0;
	}
	for (i = 0; i < N; i++)
		if (hwtimer_schedule(h, 0, i, NULL))
			native_fail("schedule failed");
	while (stats.expired < N && !native_failures)
		hwtimer_stats(h, &stats, sizeof(stats));
	before = __atomic_load_n(&native_enters, __ATOMIC_RELAXED);
	for (i = 0; i < N && !native_failures; i++)
		if (hwtimer_wait(h, &e, 1, 60000000000LL) != 1)
			native_fail("no event");
	before = __atomic_load_n(&native_enters, __ATOMIC_RELAXED) - before;
	native_log("%d records, a ring of %d: %lu kicks", N, CQ, before);
	if (before > N / CQ)
		native_fail("%lu kicks", before);
	hwtimer_close(h);
	return N;
}

/*
 * A timeout is cancelled as soon as it is scheduled, while the worker takes submissions at each
 * tick, because of a periodic timeout. It may take what the library takes back, and notices later.
 */
static __u64 taken_back(void)
{
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = HWTIMER_OPEN_RINGS | HWTIMER_OPEN_OWN_WHEEL,
		.timeouts = ENTRIES, .sq_entries = 1024, .tick_ns = 2000, .slots = 512,
	};
	struct hwtimer_repeat repeat = { .period_ns = o.tick_ns };
	struct hwtimer_stats stats;
	hwtimer_id id, periodic;
	struct hwtimer_event e;
	struct hwtimer *h;
	__u64 n = 0, far;

	if (hwtimer_open(&h, &o)) {
		native_fail("open failed");
		return 0;
	}
	if (hwtimer_schedule_repeat(h, &repeat, 0, &periodic))
		native_fail("schedule failed");
	far = hwtimer_now(h) + 1000000000000ULL;
	for (; go_on(n); n++) {
		if (hwtimer_schedule_at(h, far, n, &id) || hwtimer_cancel(h, id))
			native_fail("schedule or cancel failed");
		while (n % 256 == 0 && hwtimer_wait(h, &e, 1, 0) > 0)
			if (e.id != periodic)
				native_fail("an event of a timeout that was cancelled");
	}
	hwtimer_flush(h);
	hwtimer_stats(h, &stats, sizeof(stats));
	native_log("the worker scheduled %llu of %llu", stats.scheduled - stats.expired - 1, n);
	if (stats.pending != 1)
		native_fail("%llu are pending that were cancelled", stats.pending - 1);
	hwtimer_close(h);
	return n;
}

/*
 * The worker takes an entry at each tick, and grace periods last for several ticks. It confirms
 * entries nevertheless, so the submission ring never becomes full: only then does a cancel kick.
 */
static __u64 confirmed(void)
{
	enum { N = 1000 };
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = HWTIMER_OPEN_RINGS | HWTIMER_OPEN_OWN_WHEEL,
		.timeouts = N + 1, .sq_entries = N / 4, .cq_entries = 65536, .tick_ns = 20000,
		.slots = 512,
	};
	struct hwtimer_repeat repeat = { .period_ns = o.tick_ns };
	struct hwtimer_stats stats;
	struct hwtimer_event e;
	unsigned long before;
	hwtimer_id ids[N + 1];
	unsigned int graces;
	struct hwtimer *h;
	int i;

	native_grace_polls = 4;
	if (hwtimer_open(&h, &o) || hwtimer_schedule_repeat(h, &repeat, 0, &ids[N])) {
		native_fail("open or schedule failed");
		return 0;
	}
	for (i = 0; i < N; i++)
		if (hwtimer_schedule(h, 1000000000000ULL, i, &ids[i]))
			native_fail("schedule failed");
	hwtimer_flush(h);
	before = __atomic_load_n(&native_enters, __ATOMIC_RELAXED);
	for (i = 0; i < N; i++) {
		if (hwtimer_cancel(h, ids[i]))
			native_fail("cancel failed");
		do {
			hwtimer_wait(h, &e, 1, 0);
			hwtimer_stats(h, &stats, sizeof(stats));
		} while (stats.cancelled <= (__u64)i);
	}
	before = __atomic_load_n(&native_enters, __ATOMIC_RELAXED) - before;
	if (before)
		native_fail("%lu kicks", before);
	/* Polls end, because they do not begin the grace period anew that they wait for. */
	hwtimer_cancel(h, ids[N]);
	graces = __atomic_load_n(&native_graces, __ATOMIC_RELAXED);
	hwtimer_schedule(h, 0, 0, &ids[N]);
	for (i = 0; i < 10000 && __atomic_load_n(&native_graces, __ATOMIC_RELAXED) == graces; i++)
		native_usleep(1000);
	if (i == 10000)
		native_fail("polls do not end");
	hwtimer_close(h);
	native_grace_polls = 0;
	return N;
}

int main(int argc, char **argv)
{
	static const struct test tests[8] = {
		{ "rings", with_rings },
		{ "ioctls", by_ioctl },
		{ "bell", kicks },
		{ "barriers", kicks_with_barriers },
		{ "backlog", backlog },
		{ "taken_back", taken_back },
		{ "confirmed", confirmed },
		{ "threads", with_threads },
	};

	return native_main(argc, argv, tests, 8);
}
