// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the cases of the native benchmark in which operations are measured one by one.
 */
#include <native.h>

#include "bench.h"

static const char *const op_names[] = {
	"arm", "arm_at", "cancel", "arm_cancel", "touch_later", "touch_near", "touch_later",
};

/* For each operation, the time of the caller, of the worker, and of both together. */
struct figures {
	struct samples	op[OPS], worker[OPS], both[OPS];
};

static void measure(const struct subject *s, enum op op, unsigned long first, unsigned long n,
		    u64 shift_ms, struct figures *f)
{
	struct range r = { .shift = { shift_ms * MSEC, shift_ms } };
	unsigned long end = first + min(n, IDLE);
	u64 start, ns, worker;

	for (r.first = first; r.first < end; r.first += r.n) {
		r.n = min(end - r.first, PORTION);
		start = now_ns();
		s->run(op, &r);
		ns = now_ns() - start;
		if (f)
			sample(&f->op[op], ns, r.n);
		if (!s->settle)
			continue;
		worker = s->settle();
		if (!f)
			continue;
		sample(&f->worker[op], worker, r.n);
		sample(&f->both[op], ns + worker, r.n);
	}
}

static void steady_turn(const struct subject *s, struct figures *f)
{
	struct range all = { };
	u64 ns;

	s->begin();
	init_conns(s, pending + idle);
	arm_all(s, ARM, &all, &ns, &ns);
	/* The first of two passes warms up the caches, and is not recorded. */
	measure(s, ARM_CANCEL, pending, idle, 0, NULL);
	measure(s, ARM_CANCEL, pending, idle, 0, f);
	measure(s, ARM, pending, idle, 0, f);
	measure(s, CANCEL, pending, idle, 0, f);
	measure(s, TOUCH_NEAR, 0, pending, 10, f);
	measure(s, TOUCH_LATER, 0, pending, 4000, f);
	if (s == &timer_list || s == &hwtimer_at)
		measure(s, TOUCH_LAZY, 0, pending, 8000, f);
	check_fired(s, 0);
	s->end();
}

static void clock_turn(unsigned int round)
{
	static struct samples s;
	unsigned int i, j;
	u64 start;

	for (s.n = j = 0; j < 100; j++) {
		start = now_ns();
		for (i = 0; i < PORTION; i++)
			ktime_get_ns();
		sample(&s, now_ns() - start, PORTION);
	}
	result("clock", "ktime_get_ns", 1, round, median(&s), "ns");
}

/* Single operations while many timeouts are pending, and none expires. */
void steady(unsigned int round)
{
	static const struct subject *const all[] = {
		&hwtimer_at, &timer_list, &hwtimer, &hwtimer_remote,
	};
	static struct figures figures[ARRAY_SIZE(all)];
	unsigned int n = ARRAY_SIZE(all) - (cores < 2), turns = max(IDLE / pending / 5, 1UL);
	unsigned int i, j;
	const char *subject;
	struct figures *f;
	char name[32];

	clock_turn(round);
	memset(figures, 0, sizeof(figures));
	for (j = 0; j < turns; j++)
		for (i = 0; i < n; i++)
			steady_turn(all[turn_of(i, n, round + j)],
				    &figures[turn_of(i, n, round + j)]);
	for (i = 0; i < n; i++)
		for (j = 0; j < OPS; j++) {
			f = &figures[i];
			if (!f->op[j].n)
				continue;
			subject = all[i]->name;
			if (j == TOUCH_LAZY)
				subject = all[i] == &timer_list ? "timer_list_lazy" :
								  "hwtimer_lazy";
			result(subject, op_names[j], 1, round, median(&f->op[j]), "ns");
			if (!f->worker[j].n || (j != ARM && j != ARM_CANCEL))
				continue;
			snprintf(name, sizeof(name), "%s+worker", op_names[j]);
			result(all[i]->name, name, 1, round, median(&f->both[j]), "ns");
			snprintf(name, sizeof(name), "worker_%s", op_names[j]);
			result(all[i]->name, name, 1, round, median(&f->worker[j]), "ns");
		}
}

struct life {
	struct samples	arm, file, expire, all;
};

/* The clock stands still while all timeouts are armed, then moves beyond their deadline. */
static void life_turn(const struct subject *s, bool cold, struct life *life)
{
	/* In the lowest level of hwtimer's wheel. timer_list may add an eighth of the delay. */
	u64 arm, file, expire, ms = pending > IDLE ? 2000 : 400;
	struct range r = { };

	native_frozen = now_ns();
	s->begin();
	init_conns(s, pending);
	r.deadline.ns = ktime_get_ns() + ms * MSEC;
	r.deadline.jiffies = jiffies_64 + ms;
	if (cold)
		flush_caches();
	arm_all(s, ARM_AT, &r, &arm, &file);
	if (cold)
		flush_caches();
	jiffies_64 = r.deadline.jiffies + ms / 4 + 2;
	native_frozen = r.deadline.ns + 2 * MSEC;
	expire = s->expire();
	check_fired(s, pending);
	sample(&life->arm, arm, pending);
	sample(&life->file, file, pending);
	sample(&life->expire, expire, pending);
	sample(&life->all, arm + file + expire, pending);
	s->end();
	native_frozen = 0;
}

/* From arming to the callback, all due in the same tick. */
static void lives(unsigned int round, bool cold)
{
	static const struct subject *const all[] = { &hwtimer_at, &timer_list };
	struct life life[ARRAY_SIZE(all)] = { };
	unsigned int turns = max(IDLE / pending / (cold ? 20 : 5), 1UL), i, j, k;
	char name[32];

	for (j = 0; j < turns; j++)
		for (i = 0; i < ARRAY_SIZE(all); i++) {
			k = turn_of(i, ARRAY_SIZE(all), round + j);
			life_turn(all[k], cold, &life[k]);
		}
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		struct { const char *name; struct samples *s; } parts[] = {
			{ "_arm", &life[i].arm }, { "_file", &life[i].file },
			{ "_expire", &life[i].expire }, { "", &life[i].all },
		};

		for (j = 0; j < ARRAY_SIZE(parts); j++) {
			snprintf(name, sizeof(name), "life%s%s", cold ? "_cold" : "",
				 parts[j].name);
			result(all[i]->name, name, 1, round, median(parts[j].s), "ns");
		}
	}
}

void life(unsigned int round)
{
	lives(round, false);
	/* More do not fit into the caches, so they are always cold. */
	if (pending <= IDLE)
		lives(round, true);
}

/* Several threads arm and cancel conns of their own at the same time. Workers are threads. */

enum way { ONE_WHEEL, OWN_WHEELS, TIMER_LIST };

static struct hwtimer_wheel *wheels[THREADS];
static unsigned int nr_threads;
static enum way way;
static atomic_t unready;

static void not_fired(struct hwtimer_timeout *t)
{
	fired++;
}

static u64 produce(unsigned int self)
{
	struct range r = { .first = self * idle, .n = idle };
	unsigned int i, passes = max(2 * IDLE / idle, 1UL);
	u64 start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (i = 0; i < passes; i++) {
		if (way == TIMER_LIST)
			timer_list.run(ARM_CANCEL, &r);
		else
			hwtimer_at.run(ARM_CANCEL, &r);
	}
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

struct producer {
	pthread_t	thread;
	unsigned int	self;
	u64		ns;
};

static void *producer(void *arg)
{
	struct producer *p = arg;
	unsigned long i;
	struct conn *c;

	native_enter();
	pin(p->self);
	for (i = p->self * idle; i < (p->self + 1) * idle; i++) {
		c = &conns[order[i]];
		memset(&c->timer, 0, sizeof(c->timer));
		if (way == TIMER_LIST)
			timer_list.init(c);
		else
			hwtimer_init(&c->timer.hwtimer, wheels[p->self], not_fired);
	}
	atomic_dec(&unready);
	while (atomic_read(&unready) > 0)
		cpu_relax();
	p->ns = produce(p->self);
	native_leave();
	return NULL;
}

static u64 workers_ns(unsigned int n)
{
	clockid_t clock;
	u64 sum = 0;

	while (n--) {
		pthread_getcpuclockid(to_driven(wheels[n])->task->thread, &clock);
		sum += clock_ns(clock);
	}
	return sum;
}

static void producers_turn(struct samples *all, struct samples *worker)
{
	unsigned int i, n = way == TIMER_LIST ? 0 : way == OWN_WHEELS ? nr_threads : 1;
	unsigned long ops = nr_threads * idle * max(2 * IDLE / idle, 1UL);
	struct producer p[THREADS];
	u64 ns = 0, before;

	for (i = 0; i < nr_threads; i++) {
		/* A worker inherits the CPUs of the thread that creates it. */
		if (way == OWN_WHEELS)
			pin(i);
		else
			unpin();
		wheels[i] = i < n ? make_wheel(HWTIMER_DRIVER_KTHREAD) : wheels[0];
	}
	wheel = wheels[0];
	unpin();
	before = workers_ns(n);
	atomic_set(&unready, nr_threads);
	for (i = 0; i < nr_threads; i++) {
		p[i].self = i;
		pthread_create(&p[i].thread, NULL, producer, &p[i]);
	}
	for (i = 0; i < nr_threads; i++) {
		pthread_join(p[i].thread, NULL);
		ns += p[i].ns;
	}
	for (i = 0; i < n; i++)
		hwtimer_wheel_barrier(wheels[i]);
	before = workers_ns(n) - before;
	for (i = 0; i < n; i++) {
		hwtimer_wheel_stop(wheels[i], NULL);
		hwtimer_wheel_destroy(wheels[i]);
	}
	sample(all, ns + before, ops);
	sample(worker, before, ops);
}

void producers(unsigned int round)
{
	static const char *const names[] = { "hwtimer_at", "hwtimer_own", "timer_list" };
	struct samples all[3], worker[3];
	unsigned int i, j;

	for (nr_threads = 1; nr_threads <= THREADS; nr_threads *= 2) {
		memset(all, 0, sizeof(all));
		memset(worker, 0, sizeof(worker));
		for (j = 0; j < 3; j++)
			for (i = 0; i < 3; i++) {
				way = turn_of(i, 3, round + j);
				producers_turn(&all[way], &worker[way]);
			}
		for (i = 0; i < 3; i++) {
			result(names[i], "producers", nr_threads, round, median(&all[i]), "ns");
			if (i < TIMER_LIST)
				result(names[i], "producers_worker", nr_threads, round,
				       median(&worker[i]), "ns");
		}
	}
}
