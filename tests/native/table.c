// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/hwtimer and libhwtimer on real threads: each timeout ends once, none is early, none is
 * forgotten. A thread plays the interrupts of timers, and nobody else wakes those who wait: they
 * sleep without limit. Records of contexts by calls have the form of the library's events, so both
 * kinds of context get the same tests. With IN_PROCESS, the handles are in the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../lib/handle.h"
#include "shim.h"

#ifdef IN_PROCESS
#define GROUND	HWTIMER_OPEN_PROCESS
#else
#define GROUND	HWTIMER_OPEN_DEVICE
#endif
#define US	1000ULL
#define MS	1000000ULL
#define FAR	(1000000 * MS)
/* The shortest tick. */
#define TICK	131072
#define MOST	1048576UL	/* timeouts of a case */
#define PLACES	64
#define THREADS	3
/* In user_data. */
#define REPEATS	0x8000000000000000ULL
/* If nothing happens for so long, in ms, nothing will. */
#define PATIENCE	20000

static __u64 now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static __u64 draw64(__u64 *random)
{
	return (__u64)draw(random) << 32 | draw(random);
}

static void must(bool good, const char *what)
{
	if (!good)
		native_fail("%s", what);
}

/**
 * struct books - what threads have done to one context
 * @h: a handle, or NULL: a context by calls ...
 * @fd: ... with this descriptor
 * @takers: that many threads take
 * @most: that many timeouts are armed, unless the time is over before
 * @grows: more are armed than moved and cancelled, and somebody else lets the table grow
 * @late: nobody takes until all are armed
 * @stops: the context is stopped meanwhile, not when all have expired
 * @id: timeouts, which any thread moves and cancels
 * @serial: that many were armed, or refused
 * @due: how many of them have to expire. Those that are periodic need not
 * @events: how many events were taken
 * @stopping: it is being stopped, so timeouts may be handed back
 * @seeds: random seeds that were given out
 * @gone: takers that have seen the stop
 * @ends: how often the timeout of each serial number has ended
 */
struct books {
	struct hwtimer	*h;
	int		fd;
	unsigned int	takers;
	unsigned long	most;
	bool		grows, late, stops;
	hwtimer_id	id[PLACES];
	unsigned long	serial;
	long		due;
	unsigned long	events;
	unsigned int	stopping, seeds, gone;
	unsigned char	*ends;
};

static struct hwtimer *must_open(unsigned int flags, __u32 timeouts, __u64 slack_ns)
{
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = flags | GROUND, .timeouts = timeouts, .tick_ns = TICK,
		.slack_ns = slack_ns,
	};
	struct hwtimer *h;

	must(!hwtimer_open(&h, &o), "open failed");
	return h;
}

static int must_setup(void)
{
	struct hwtimer_setup setup = {
		.tick_ns = TICK, .clockid = CLOCK_MONOTONIC, .slots = 20000,
	};
	int fd = open("/dev/hwtimer", O_RDWR);

	must(fd >= 0 && !ioctl(fd, HWTIMER_IOC_SETUP, &setup), "setup failed");
	return fd;
}

static __u64 seed(struct books *b)
{
	return seeded(__atomic_fetch_add(&b->seeds, 1, __ATOMIC_RELAXED) + now());
}

static void book_end(struct books *b, __u64 user_data)
{
	__u64 serial = user_data & ~REPEATS;

	if (serial >= MOST || __atomic_fetch_add(&b->ends[serial], 1, __ATOMIC_ACQ_REL))
		native_fail("timeout %llu has ended twice", (unsigned long long)serial);
	if (!(user_data & REPEATS))
		__atomic_sub_fetch(&b->due, 1, __ATOMIC_ACQ_REL);
}

static int book_schedule(struct books *b, __u64 delay, __u64 period, __u64 data, hwtimer_id *id)
{
	struct hwtimer_schedule s = {
		.time = delay, .flags = HWTIMER_RELATIVE, .period_ns = period, .user_data = data,
	};
	struct hwtimer_repeat repeat = { .first_ns = now() + delay, .period_ns = period };
	int ret;

	if (b->h)
		return period ? hwtimer_schedule_repeat(b->h, &repeat, data, id) :
				hwtimer_schedule(b->h, delay, data, id);
	ret = ioctl(b->fd, HWTIMER_IOC_SCHEDULE, &s) ? -errno : 0;
	*id = s.id;
	return ret;
}

static int book_touch(struct books *b, __u64 id, __u64 delay)
{
	struct hwtimer_touch t = { .id = id, .time = delay, .flags = HWTIMER_RELATIVE };

	if (b->h)
		return hwtimer_touch(b->h, id, delay);
	return ioctl(b->fd, HWTIMER_IOC_TOUCH, &t) ? -errno : 0;
}

/* Returns 0, and what it had as user_data. */
static int book_cancel(struct books *b, __u64 id, __u64 *data)
{
	struct hwtimer_query q = { .id = id };
	struct hwtimer_state s;
	int ret;

	if (!b->h) {
		ret = ioctl(b->fd, HWTIMER_IOC_QUERY, &q);
		*data = q.user_data;
		return ret ?: ioctl(b->fd, HWTIMER_IOC_CANCEL, &q);
	}
	ret = hwtimer_query(b->h, id, &s);
	*data = s.user_data;
	return ret ?: hwtimer_cancel(b->h, id);
}

/* Returns how many events. */
static int book_wait(struct books *b, struct hwtimer_event e[4])
{
	ssize_t n;

	if (b->h)
		return hwtimer_wait(b->h, e, -1);
	n = native_read(b->fd, e, 4 * sizeof(*e));
	return n < 0 ? -errno : n ? n / (int)sizeof(*e) : -ESHUTDOWN;
}

static void *taker(void *arg)
{
	struct books *b = arg;
	struct hwtimer_event e[4];
	int ret, i;

	while ((ret = book_wait(b, e)) > 0) {
		for (i = 0; i < ret; i++) {
			__atomic_add_fetch(&b->events, 1, __ATOMIC_RELAXED);
			if (e[i].kind == HWTIMER_KIND_HANDED_BACK)
				must(table_load(&b->stopping), "handed back without a stop");
			else if (e[i].taken_ns < e[i].deadline_ns)
				native_fail("early");
			if (e[i].kind == HWTIMER_KIND_HANDED_BACK || !(e[i].user_data & REPEATS))
				book_end(b, e[i].user_data);
		}
	}
	if (ret != -ESHUTDOWN)
		native_fail("waiting returned %d", ret);
	__atomic_add_fetch(&b->gone, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Returns false when nothing can be armed any more. */
static bool player_schedule(struct books *b, __u64 r, __u64 delay, hwtimer_id *at)
{
	unsigned long serial = __atomic_fetch_add(&b->serial, 1, __ATOMIC_RELAXED);
	__u64 data = serial, period = 0;
	hwtimer_id id;
	int ret;

	if (serial >= b->most) {
		__atomic_fetch_sub(&b->serial, 1, __ATOMIC_RELAXED);
		return false;
	}
	if (r >> 40 & 127) {
		__atomic_add_fetch(&b->due, 1, __ATOMIC_RELAXED);
	} else {
		data |= REPEATS;
		period = 50 * MS;
	}
	ret = book_schedule(b, delay, period, data, &id);
	if (ret)
		book_end(b, data);
	else
		__atomic_store_n(at, id, __ATOMIC_RELEASE);
	if (ret == -ESHUTDOWN)
		return false;
	if (ret && ret != -ENOSPC)
		native_fail("schedule returned %d", ret);
	return true;
}

static void *player(void *arg)
{
	struct books *b = arg;
	__u64 random = seed(b), n, data;

	for (n = 0; b->stops || go_on(n); n++) {
		__u64 r = draw64(&random), delay = r % (r >> 50 & 15 ? 2 * MS : 200 * MS);
		hwtimer_id *at = &b->id[r >> 32 & (PLACES - 1)];
		hwtimer_id id = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		unsigned int dice = r >> 56 & 15;

		if (dice < (b->grows ? 12 : 4)) {
			if (!player_schedule(b, r, delay, at))
				break;
		} else if (dice < (b->grows ? 13 : 8)) {
			if (!book_cancel(b, id, &data))
				book_end(b, data);
		} else {
			book_touch(b, id, delay);
		}
	}
	return (void *)n;
}

static void *grower(void *arg)
{
	struct books *b = arg;
	struct hwtimer_grow grow = { .slots = 1 };

	/* In the process, nobody else can. */
	for (; !(GROUND & HWTIMER_OPEN_PROCESS) && grow.slots < 10000; grow.slots += 256)
		must(!ioctl(hwtimer_fd(b->h), HWTIMER_IOC_GROW, &grow), "grow failed");
	return NULL;
}

static void begin(pthread_t *t, unsigned int n, void *(*run)(void *arg), void *arg)
{
	while (n--)
		must(!pthread_create(&t[n], NULL, run, arg), "no thread");
}

static __u64 join(pthread_t *t, unsigned int n)
{
	__u64 sum = 0;
	void *result;

	while (n--) {
		pthread_join(t[n], &result);
		sum += (__UINTPTR_TYPE__)result;
	}
	return sum;
}

/* All that is left is due within 0.2 s. */
static void expect_all(struct books *b)
{
	unsigned long before = 0, events;
	unsigned int ms = 0;

	while (__atomic_load_n(&b->due, __ATOMIC_ACQUIRE) && ms < PATIENCE && !native_failures) {
		native_usleep(1000);
		events = table_load(&b->events);
		/* Events of periodic timeouts alone are too few to matter. */
		ms = events - before > PLACES * PLACES ? 0 : ms + 1;
		before = ms ? before : events;
	}
	if (ms == PATIENCE)
		native_fail("%ld timeouts were forgotten", table_load(&b->due));
}

/* All have ended: each slot that was ever used is free, once, and none has a period. */
static void expect_all_free(struct hwtimer *h)
{
	__u32 i, at, slots = 0;

	for (i = 0; i <= h->shard_mask; i++)
		for (at = h->threads ? h->own.shard[i].free : h->own.free;
		     at && slots < h->fresh; slots++)
			at = h->link[at] & INDEX_MASK;
	/* Slot 0 is not used. */
	if (slots != h->fresh - 1)
		native_fail("%u of %u slots are free", slots, h->fresh);
	for (i = 0; h->repeat && i < h->fresh; i++)
		if (h->repeat[i].period_ns)
			native_fail("slot %u still has a period", i);
}

/* Any thread does anything with any timeout. */
static __u64 play(struct books *b)
{
	pthread_t players[THREADS], takers[THREADS], g;
	unsigned long i;
	unsigned int ms;
	__u64 n = 0;

	b->ends = calloc(MOST, 1);
	begin(takers, b->late ? 0 : b->takers, taker, b);
	begin(players, THREADS, player, b);
	begin(&g, b->grows, grower, b);
	while (b->stops && table_load(&b->serial) < b->most / 2)
		native_usleep(10);
	if (!b->stops) {
		n = join(players, THREADS);
		begin(takers, b->late ? b->takers : 0, taker, b);
		expect_all(b);
	}
	join(&g, b->grows);
	table_store(&b->stopping, 1);
	must(!(b->h ? hwtimer_stop(b->h) : ioctl(b->fd, HWTIMER_IOC_STOP)), "stop failed");
	if (b->stops)
		n = join(players, THREADS);
	for (ms = 0; table_load(&b->gone) < b->takers && ms < PATIENCE; ms++)
		native_usleep(1000);
	if (ms == PATIENCE) {
		native_fail("a stop has not woken all");
		return n;
	}
	join(takers, b->takers);
	for (i = 0; i < b->serial && !native_failures; i++)
		if (b->ends[i] != 1)
			native_fail("timeout %lu has ended %d times", i, b->ends[i]);
	free(b->ends);
	if (b->h && !native_failures)
		expect_all_free(b->h);
	hwtimer_close(b->h);
	if (!b->h)
		close(b->fd);
	return n;
}

static __u64 race_of_one_taker(void)
{
	struct books b = { .takers = 1, .most = MOST };

	b.h = must_open(HWTIMER_OPEN_THREADS, 20000, 0);
	return play(&b);
}

static __u64 race_of_takers(void)
{
	struct books b = { .takers = THREADS, .most = MOST };

	b.h = must_open(HWTIMER_OPEN_THREADS, 20000, 3 * TICK);
	return play(&b);
}

/* A thread that has no free slot finds those of others, and there are never enough. */
static __u64 scarce(void)
{
	struct books b = { .takers = 2, .most = MOST };

	b.h = must_open(HWTIMER_OPEN_THREADS, 40, 0);
	return play(&b);
}

/* The rings get full, so all slots have to be looked at. */
static __u64 late_takers(void)
{
	struct books b = { .takers = 2, .most = 100000, .late = true };

	b.h = must_open(HWTIMER_OPEN_THREADS, 20000, 0);
	return play(&b);
}

static __u64 race_of_calls(void)
{
	struct books b = { .takers = 2, .most = MOST };

	b.fd = must_setup();
	return play(&b);
}

static __u64 grow(void)
{
	__u64 n = 0;

	do {
		struct books b = { .takers = 2, .most = 6000, .grows = true };

		b.h = must_open(HWTIMER_OPEN_THREADS, 50000, 0);
		n += play(&b);
	} while (go_on(10 * n));
	return n;
}

static __u64 stop(void)
{
	__u64 n = 0;

	do {
		struct books b = { .takers = 2, .most = 3000, .grows = true, .stops = true };

		b.h = must_open(HWTIMER_OPEN_THREADS, 50000, 0);
		n += play(&b);
	} while (go_on(10 * n));
	return n;
}

static void *filler(void *arg)
{
	struct books *b = arg;
	hwtimer_id id;

	while (__atomic_fetch_add(&b->serial, 1, __ATOMIC_RELAXED) < b->most)
		must(!book_schedule(b, 3600000 * MS, 0, 0, &id), "schedule failed");
	return NULL;
}

/* Each page of entries is needed by all threads at once. */
static __u64 grow_of_calls(void)
{
	pthread_t t[THREADS];
	__u64 n = 0;

	do {
		struct books b = { .most = 3000, .fd = must_setup() };

		begin(t, THREADS, filler, &b);
		join(t, THREADS);
		close(b.fd);
		n += b.most;
	} while (go_on(n));
	return n;
}

static __u64 stop_of_calls(void)
{
	__u64 n = 0;

	do {
		struct books b = { .takers = 2, .most = 3000, .stops = true };

		b.fd = must_setup();
		n += play(&b);
	} while (go_on(10 * n));
	return n;
}

/* With one thread, each result is known. */
struct model {
	hwtimer_id	id;
	__u64		deadline;
	bool		live;
};

static __u64 model_deadline(__u64 r)
{
	if (r % 8 < 2)
		return r % 8 ? HWTIMER_NEVER : 0;
	return now() + (r % 8 < 4 ? FAR : r / 8 % (2 * MS));
}

static void model_event(struct model *m, const struct hwtimer_event *e)
{
	m += e->user_data;
	must(m->live && m->id == e->id, "event of a timeout that is over");
	must(e->kind == HWTIMER_KIND_EXPIRED && e->taken_ns >= m->deadline, "early");
	m->live = false;
}

static void model_step(struct hwtimer *h, struct model *all, __u64 r)
{
	struct model *m = &all[r >> 32 & (PLACES - 1)];
	__u64 deadline = model_deadline(r >> 8);
	int expected = m->live ? 0 : -ENOENT;

	if ((r & 15) < 6 && !m->live) {
		must(!hwtimer_schedule_at(h, deadline, m - all, &m->id), "schedule failed");
		m->live = true;
		m->deadline = deadline;
	} else if ((r & 15) < 12) {
		must(hwtimer_touch_at(h, m->id, deadline) == expected, "touched, or not");
		m->deadline = deadline;
	} else {
		must(hwtimer_cancel(h, m->id) == expected, "cancelled, or not");
		m->live = false;
	}
}

/* What is due comes, to one that sleeps. */
static void model_drain(struct hwtimer *h, struct model *m)
{
	unsigned int i, due = 0;
	struct hwtimer_event e;

	for (i = 0; i < PLACES; i++)
		due += m[i].live && m[i].deadline < now() + FAR / 2;
	while (due-- && !native_failures) {
		if (hwtimer_wait(h, &e, PATIENCE * MS) == 1)
			model_event(m, &e);
		else
			native_fail("a timeout was forgotten");
	}
	must(native_failures || !hwtimer_wait(h, &e, 0), "more than were armed");
}

static __u64 alone(void)
{
	struct hwtimer *h = must_open(0, 0, 0);
	struct model m[PLACES] = { };
	__u64 random = seeded(1), n;
	struct hwtimer_event e;

	for (n = 0; go_on(n); n++) {
		__u64 r = draw64(&random);

		model_step(h, m, r);
		if (!(r >> 50 & 63) && hwtimer_wait(h, &e, r >> 56 & 1 ? 200 * US : 0) > 0)
			model_event(m, &e);
		if (!(r >> 50 & 1023))
			model_drain(h, m);
	}
	model_drain(h, m);
	hwtimer_close(h);
	return n;
}

/* Takes the events of one round after the other, and those that are not waited for. */
static unsigned long seen;

static void *relay_taker(void *arg)
{
	struct hwtimer_event e;

	while (hwtimer_wait(arg, &e, -1) == 1)
		if (e.user_data)
			__atomic_store_n(&seen, e.user_data, __ATOMIC_RELEASE);
	return NULL;
}

/* One of a few timeouts is armed, moved or cancelled; @soon: it is due within 0.2 ms. */
static void relay_step(struct hwtimer *h, hwtimer_id *id, __u64 r, bool soon)
{
	__u64 delay = soon && r >> 32 & 1 ? r % (200 * US) : FAR;

	if (r >> 33 & 1 || hwtimer_touch(h, *id, delay)) {
		hwtimer_cancel(h, *id);
		must(!hwtimer_schedule(h, delay, 0, id), "schedule failed");
	}
}

/*
 * A timeout is armed, or moved, while the kernel looks at others that turn out to be later, and
 * while who waits begins to sleep. It comes, though nothing else follows.
 */
static __u64 relay(void)
{
	struct hwtimer *h = must_open(HWTIMER_OPEN_THREADS, 0, 0);
	__u64 random = seeded(1), r, end;
	hwtimer_id id[4] = { }, this;
	unsigned long n, i;
	pthread_t thread;

	seen = 0;
	begin(&thread, 1, relay_taker, h);
	for (n = 1; go_on(n * 500); n++) {
		end = now() + draw(&random) % (200 * US);
		do
			relay_step(h, &id[draw(&random) % 4], draw64(&random), true);
		while (now() < end);
		for (i = 0; i < 4; i++)
			relay_step(h, &id[i], draw64(&random), false);
		r = draw64(&random);
		must(!hwtimer_schedule(h, r >> 32 & 1 ? FAR : r % (200 * US), n, &this),
		     "schedule failed");
		if (r >> 32 & 1)
			must(!hwtimer_touch(h, this, r % (200 * US)), "touch failed");
		for (i = 0; __atomic_load_n(&seen, __ATOMIC_ACQUIRE) != n && i < 20 * PATIENCE &&
		     !native_failures; i++)
			native_usleep(50);
		if (i == 20 * PATIENCE)
			native_fail("round %lu was forgotten", n);
	}
	must(!hwtimer_stop(h), "stop failed");
	join(&thread, 1);
	hwtimer_close(h);
	return n;
}

/* Does the kernel look at this slot in time? If not now, then not after all that is going on. */
static bool slot_held(struct hwtimer *h, __u32 index)
{
	struct hwtimer_slot *slot = &h->t.slot[index];
	unsigned int tries;

	for (tries = 0; tries < PATIENCE && !native_failures; tries++) {
		if (table_holds(slot, table_load(&slot->word)))
			return true;
		must(!ioctl(hwtimer_fd(h), HWTIMER_IOC_ENTER), "enter failed");
		/* Another thread may be about to push it. */
		native_usleep(tries > 10 ? 1000 : 0);
	}
	return false;
}

/* Timeouts are armed and moved while the kernel looks at them. It will look again, in time. */
static __u64 looks(void)
{
	struct hwtimer *h = must_open(HWTIMER_OPEN_THREADS, 0, 0);
	static hwtimer_id id[1024];
	__u64 random = seeded(1), n = 0;
	pthread_t thread;
	unsigned int i;

	memset(id, 0, sizeof(id));
	begin(&thread, 1, relay_taker, h);
	while (go_on(n)) {
		for (i = 0; i < 1024; i++, n++)
			relay_step(h, &id[draw(&random) % 1024], draw64(&random), true);
		/* None of these is looked at by who has armed it last, so nothing is repaired. */
		for (i = 0; i < 1024; i++, n++)
			relay_step(h, &id[i], draw64(&random), false);
		for (i = 0; i < 1024; i++)
			must(slot_held(h, id[i] & INDEX_MASK), "the kernel will not look again");
	}
	must(!hwtimer_stop(h), "stop failed");
	join(&thread, 1);
	hwtimer_close(h);
	return n;
}

/* To be woken for nothing does not prolong a wait. */
static __u64 woken_for_nothing(void)
{
	struct hwtimer *h = must_open(0, 0, 0);
	struct hwtimer_event e;

	/* The kernel takes this for a walk that is to come, the library for one that is over. */
	table_store(&h->t.head->walk, 1);
	table_store(&h->t.head->walked, 1);
	do {
		native_sleeps = 0;
		must(!hwtimer_wait(h, &e, MS), "an event");
	} while (native_sleeps < 2);
	must(native_last_sleep < MS, "it waits anew");
	hwtimer_close(h);
	return 1;
}

#if defined(HWTIMER_TORTURE) && !defined(IN_PROCESS)
/* Half of what a slice of the kernel looks at: what pushed slots get at first. */
#define SHARE		32
#define LONG_TICK	(1024 * TICK)

static struct table pushed_to;

static void push_due(void)
{
	table_put(&pushed_to.slot[SHARE], table_word(now() / LONG_TICK * LONG_TICK, 1));
	table_push(&pushed_to, SHARE);
}

/* What is pushed while a slice takes others, which are all of its share, is due at this tick. */
static __u64 pushed_meanwhile(void)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = HWTIMER_SETUP_TABLE, .slots = SHARE + 1,
		.tick_ns = LONG_TICK,
	};
	struct table *t = &pushed_to;
	__u32 i, g, head;
	__u64 tick;
	bool due;

	do {
		*t = (struct table){ .fd = open("/dev/hwtimer", O_RDWR), .page = 4096 };
		must(t->fd >= 0 && !ioctl(t->fd, HWTIMER_IOC_SETUP, &setup), "setup failed");
		must(!table_map(t), "not mapped");
		/* The tick of the setup was visited by that. */
		tick = now() / LONG_TICK + 1;
		while (now() / LONG_TICK < tick)
			native_usleep(1000);
		for (i = 0; i < SHARE; i++) {
			table_put(&t->slot[i], table_word(now() + FAR, 1));
			table_push(t, i);
		}
		native_meanwhile = push_due;
		must(!ioctl(t->fd, HWTIMER_IOC_ENTER), "enter failed");
		due = table_peek(t, &i, &g, &head) > 0;
		table_close(t);
		close(t->fd);
	} while (!due && now() / LONG_TICK != tick);
	must(due, "it is due at the next tick");
	return 1;
}
#endif

struct vandal {
	struct table	t;
	unsigned int	end;
};

/* Writes anything, and to the indexes of rings and the lists above all. */
static void *vandal(void *arg)
{
	struct vandal *v = arg;
	__u64 random = seeded(2);

	while (!table_load(&v->end)) {
		__u64 r = draw64(&random);
		struct hwtimer_slot *slot = &v->t.slot[r % v->t.slots];
		struct hwtimer_table *head = v->t.head;
		__u32 *const places[] = {
			&head->cq_tail[r >> 32 & 3], &head->cq_head[r >> 32 & 3], &head->walk,
			&table_ring(&v->t, 0)[r % 512], &slot->next, &slot->tag,
			(__u32 *)&head->wake_at + (r >> 32 & 3),
			(__u32 *)&slot->visit + (r >> 32 & 1),
		};

		switch (r >> 60) {
		case 0 ... 7:
			table_store(places[r >> 60], r >> 8);
			break;
		case 8:
			table_store(&head->ring, r >> 32 & 31);
			break;
		case 9:
			table_store(&head->flags, r >> 32 & 15 ? 0 : HWTIMER_TABLE_STOPPED);
			break;
		case 10:
			table_store(&head->pushed, r % (v->t.slots + 2));
			break;
		default:
			table_store(&slot->word, table_word(now() + r % (1 << 22), r >> 30));
		}
	}
	return NULL;
}

/* Each call ends, and nothing but timeouts is harmed. */
static __u64 vandalism(void)
{
	struct vandal v = { .t.page = 4096 };
	struct books b = { .h = must_open(HWTIMER_OPEN_THREADS, 0, 0) };
	hwtimer_id id[PLACES] = { };
	__u64 random = seeded(1), n, data;
	struct hwtimer_event e;
	pthread_t thread;

	must(!hwtimer_schedule(b.h, FAR, 0, id), "schedule failed");
	v.t.fd = hwtimer_fd(b.h);
	must(!table_map(&v.t), "not mapped");
	/* A call may have thousands of steps. */
	native_yields = false;
	begin(&thread, 1, vandal, &v);
	for (n = 0; go_on(20 * n); n++) {
		__u64 r = draw64(&random);
		hwtimer_id *at = &id[r >> 32 & (PLACES - 1)];

		if ((r >> 60) < 6)
			book_schedule(&b, r % (2 * MS), r >> 60 ? 0 : 2 * MS, 0, at);
		else if ((r >> 60) < 8)
			book_touch(&b, *at, r % (2 * MS));
		else if ((r >> 60) < 10)
			book_cancel(&b, *at, &data);
		else
			hwtimer_wait(b.h, &e, r >> 50 & 63 ? 0 : 100 * US);
	}
	table_store(&v.end, 1);
	join(&thread, 1);
	native_yields = true;
	table_close(&v.t);
	hwtimer_close(b.h);
	return n;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "alone", alone },
		{ "relay", relay },
		{ "race_of_one_taker", race_of_one_taker },
		{ "race_of_takers", race_of_takers },
		{ "scarce", scarce },
		{ "late_takers", late_takers },
		{ "stop", stop },
#ifndef IN_PROCESS
		{ "looks", looks },
		{ "grow", grow },
		{ "race_of_calls", race_of_calls },
		{ "grow_of_calls", grow_of_calls },
		{ "stop_of_calls", stop_of_calls },
		{ "woken_for_nothing", woken_for_nothing },
#ifdef HWTIMER_TORTURE
		{ "pushed_meanwhile", pushed_meanwhile },
#endif
		/* ThreadSanitizer would be right about its races. */
#ifndef __SANITIZE_THREAD__
		{ "vandalism", vandalism },
#endif
#endif
	};

	native_rough = 1;
	return native_main(argc, argv, tests, sizeof(tests) / sizeof(*tests));
}
