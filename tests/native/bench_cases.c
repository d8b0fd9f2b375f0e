// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the cases of the native benchmark in which operations are measured one by one.
 */
#include <native.h>

#include "bench.h"

static const char *const op_names[] = {
	"arm", "arm_at", "cancel", "arm_cancel", "touch_later", "touch_near", "release",
};

/* For each operation, the time of the caller, and with that of the worker. */
struct figures {
	struct samples	caller[OPS], all[OPS];
};

static void measure(const struct subject *s, enum op op, unsigned long first, unsigned long n,
		    u64 shift_ms, struct figures *f)
{
	struct range r = { .shift = { shift_ms * MSEC, shift_ms } };
	unsigned long end = first + min(n, IDLE);
	u64 start;

	for (r.first = first; r.first < end; r.first += r.n) {
		r.n = min(end - r.first, PORTION);
		start = cpu_ns();
		s->run(op, &r);
		if (f)
			sample(&f->caller[op], since(start), r.n);
		if (s->settle)
			s->settle();
		if (f)
			sample(&f->all[op], since(start), r.n);
	}
}

static void steady_turn(const struct subject *s, struct figures *f)
{
	struct range all = { };

	s->begin();
	init_conns(s, pending + idle);
	arm_all(s, ARM, &all);
	/* The first of two passes warms up the caches, and is not recorded. */
	measure(s, ARM_CANCEL, pending, idle, 0, NULL);
	measure(s, ARM_CANCEL, pending, idle, 0, f);
	measure(s, ARM, pending, idle, 0, f);
	measure(s, CANCEL, pending, idle, 0, f);
	measure(s, TOUCH_NEAR, 0, pending, 10, f);
	measure(s, TOUCH_LATER, 0, pending, 4000, f);
	check_fired(s, 0);
	s->end();
}

static void release_turn(const struct subject *s, struct figures *f)
{
	s->begin();
	init_conns(s, pending + idle);
	measure(s, RELEASE, 0, pending, 0, NULL);
	measure(s, RELEASE, 0, pending, 0, f);
	check_fired(s, 0);
	s->end();
}

static void print_figures(const char *subject, struct figures *f, unsigned int round)
{
	enum op op;
	char name[32];

	for (op = 0; op < OPS; op++) {
		if (!f->all[op].n)
			continue;
		result(subject, op_names[op], round, median(&f->all[op]));
		if (op != ARM && op != ARM_CANCEL && op != RELEASE)
			continue;
		snprintf(name, sizeof(name), "%s_caller", op_names[op]);
		result(subject, name, round, median(&f->caller[op]));
	}
}

/* Single operations while many timeouts are pending; and lives that end by a release. */
void steady(unsigned int round)
{
	static const struct subject *const all[] = { &hwtimer_at, &timer_list, &hwtimer };
	static struct figures figures[ARRAY_SIZE(all)];
	unsigned int n = ARRAY_SIZE(all), turns = max(IDLE / pending / 5, 1UL);
	unsigned int i, j, k;

	memset(figures, 0, sizeof(figures));
	for (j = 0; j < turns; j++)
		for (i = 0; i < n; i++) {
			k = turn_of(i, n, round + j);
			steady_turn(all[k], &figures[k]);
			release_turn(all[k], &figures[k]);
		}
	for (i = 0; i < n; i++)
		print_figures(all[i]->name, &figures[i], round);
}

/* The clock stands still while all timeouts are armed, then moves beyond their deadline. */
static void life_turn(const struct subject *s, struct samples *all)
{
	/* In the lowest level of hwtimer's wheel. timer_list may add an eighth of the delay. */
	u64 ns, ms = 400;
	struct range r = { };

	native_frozen = ktime_get_ns();
	s->begin();
	init_conns(s, pending);
	r.deadline.ns = ktime_get_ns() + ms * MSEC;
	r.deadline.jiffies = jiffies_64 + ms;
	ns = cpu_ns();
	arm_all(s, ARM_AT, &r);
	jiffies_64 = r.deadline.jiffies + ms / 4 + 2;
	native_frozen = r.deadline.ns + 2 * MSEC;
	s->expire();
	sample(all, cpu_ns() - ns, pending);
	check_fired(s, pending);
	s->end();
	native_frozen = 0;
}

/* From arming to the callback, all due in the same tick. */
void life(unsigned int round)
{
	static const struct subject *const all[] = { &hwtimer_at, &timer_list };
	static struct samples samples[ARRAY_SIZE(all)];
	unsigned int turns = max(IDLE / pending / 5, 1UL), i, j, k;

	memset(samples, 0, sizeof(samples));
	for (j = 0; j < turns; j++)
		for (i = 0; i < ARRAY_SIZE(all); i++) {
			k = turn_of(i, ARRAY_SIZE(all), round + j);
			life_turn(all[k], &samples[k]);
		}
	for (i = 0; i < ARRAY_SIZE(all); i++)
		result(all[i]->name, "life", round, median(&samples[i]));
}

/*
 * Several threads arm and cancel conns of their own at the same time, on one wheel, whose worker is
 * a thread: the CPU time of all.
 */

static unsigned int nr_threads;
static enum { WHEEL, CAPPED, LIST, WAYS } produce_for;
static atomic_t unready;

static void not_fired(struct hwtimer_timeout *t)
{
	fired++;
}

struct producer {
	pthread_t	thread;
	unsigned int	self;
	u64		ns;
};

static void *producer(void *arg)
{
	const struct subject *s = produce_for == LIST ? &timer_list : &hwtimer_at;
	struct producer *p = arg;
	struct range r = { .first = p->self * idle, .n = idle };
	unsigned long i;
	struct conn *c;

	native_enter();
	pin(p->self);
	for (i = r.first; i < r.first + r.n; i++) {
		c = &conns[order[i]];
		memset(&c->timer, 0, sizeof(c->timer));
		if (produce_for == LIST)
			s->init(c);
		else
			hwtimer_init(&c->timer.hwtimer, wheel, not_fired);
	}
	atomic_dec(&unready);
	while (atomic_read(&unready) > 0)
		cpu_relax();
	p->ns = cpu_ns();
	s->run(ARM_CANCEL, &r);
	s->run(ARM_CANCEL, &r);
	p->ns = cpu_ns() - p->ns;
	native_leave();
	return NULL;
}

static u64 worker_ns(void)
{
	clockid_t clock;

	pthread_getcpuclockid(to_driven(wheel)->task->thread, &clock);
	return clock_ns(clock);
}

static void producers_turn(struct samples *all)
{
	struct producer p[THREADS];
	unsigned int i;
	u64 ns;

	/* Its thread may use any core, like this one. */
	unpin();
	wheel = make_wheel(produce_for == CAPPED ? 1000000 : 0);
	ns = -worker_ns();
	atomic_set(&unready, nr_threads);
	for (i = 0; i < nr_threads; i++) {
		p[i].self = i;
		pthread_create(&p[i].thread, NULL, producer, &p[i]);
	}
	for (i = 0; i < nr_threads; i++) {
		pthread_join(p[i].thread, NULL);
		ns += p[i].ns;
	}
	hwtimer_wheel_barrier(wheel);
	ns += worker_ns();
	hwtimer_wheel_stop(wheel, NULL);
	hwtimer_wheel_destroy(wheel);
	sample(all, ns, 2 * nr_threads * idle);
}

void producers(unsigned int round)
{
	static const char *const names[] = { "hwtimer_at", "hwtimer_cap", "timer_list" };
	static struct samples all[WAYS];
	unsigned int i, j;
	char name[32];

	for (nr_threads = 1; nr_threads <= THREADS; nr_threads *= 2) {
		memset(all, 0, sizeof(all));
		for (j = 0; j < 3; j++)
			for (i = 0; i < WAYS; i++) {
				produce_for = turn_of(i, WAYS, round + j);
				producers_turn(&all[produce_for]);
			}
		snprintf(name, sizeof(name), "producers_%u", nr_threads);
		for (i = 0; i < WAYS; i++)
			result(names[i], name, round, median(&all[i]));
	}
}

/* How a load uses a subject. */
struct way {
	const struct subject *subject;
	void		(*init)(struct conn *c);
	void		(*arm)(struct conn *c, unsigned long ms);	/* from now on */
	void		(*touch)(struct conn *c, unsigned long ms);
};

static const struct way *way;
static void take_place(struct conn *c);
static u64 until;

static void hw_fired(struct hwtimer_timeout *t)
{
	fired++;
	take_place(container_of(t, struct conn, timer.hwtimer));
}

static void hw_init(struct conn *c)
{
	hwtimer_init(&c->timer.hwtimer, wheel, hw_fired);
}

static void hw_arm(struct conn *c, unsigned long ms)
{
	hwtimer_schedule_at(&c->timer.hwtimer, native_frozen + ms * MSEC);
}

static void hw_touch(struct conn *c, unsigned long ms)
{
	hwtimer_touch_at(&c->timer.hwtimer, native_frozen + ms * MSEC);
}

/* The owner only stores the deadline. */
static void hw_lazy_fired(struct hwtimer_timeout *t)
{
	struct conn *c = container_of(t, struct conn, timer.hwtimer);

	if (hwtimer_schedule_unless_due(t, READ_ONCE(c->deadline)) == -ETIME)
		hw_fired(t);
}

static void hw_lazy_init(struct conn *c)
{
	hwtimer_init(&c->timer.hwtimer, wheel, hw_lazy_fired);
}

static void hw_lazy_touch(struct conn *c, unsigned long ms)
{
	WRITE_ONCE(c->deadline, native_frozen + ms * MSEC);
}

static void hw_lazy_arm(struct conn *c, unsigned long ms)
{
	hw_lazy_touch(c, ms);
	hw_arm(c, ms);
}

static void list_fired(struct timer_list *t)
{
	fired++;
	take_place(container_of(t, struct conn, timer.list));
}

static void list_init(struct conn *c)
{
	timer_setup(&c->timer.list, list_fired, 0);
}

static void list_arm(struct conn *c, unsigned long ms)
{
	mod_timer(&c->timer.list, jiffies_64 + ms);
}

/* As TCP does: if the deadline has moved meanwhile, start the timer again. */
static void lazy_fired(struct timer_list *t)
{
	struct conn *c = container_of(t, struct conn, timer.list);

	if ((long)(READ_ONCE(c->deadline) - jiffies_64) > 0)
		mod_timer(t, c->deadline);
	else
		list_fired(t);
}

static void lazy_init(struct conn *c)
{
	timer_setup(&c->timer.list, lazy_fired, 0);
}

static void lazy_arm(struct conn *c, unsigned long ms)
{
	WRITE_ONCE(c->deadline, jiffies_64 + ms);
	mod_timer(&c->timer.list, jiffies_64 + ms);
}

static void lazy_touch(struct conn *c, unsigned long ms)
{
	WRITE_ONCE(c->deadline, jiffies_64 + ms);
}

static const struct way ways[] = {
	{ &hwtimer_at, hw_init, hw_arm, hw_touch },
	{ &timer_list, list_init, list_arm, list_arm },
	{ &hwtimer_at, hw_lazy_init, hw_lazy_arm, hw_lazy_touch },
	{ &timer_list, lazy_init, lazy_arm, lazy_touch },
};

static void begin(const struct way *w, unsigned long n)
{
	unsigned long i;

	native_frozen = ktime_get_ns();
	fired = 0;
	way = w;
	w->subject->begin();
	for (i = 0; i < n; i++) {
		memset(&conns[i].timer, 0, sizeof(conns[i].timer));
		w->init(&conns[i]);
	}
	until = 0;
}

static void end(unsigned long n)
{
	unsigned long i;

	if (way->subject == &timer_list)
		for (i = 0; i < n; i++)
			timer_delete(&conns[i].timer.list);
	else
		way->subject->end();
	native_frozen = 0;
}

/* Move the clock to the next tick, and let the worker, or the timers, run. */
static void tick(void)
{
	native_frozen += MSEC;
	jiffies_64++;
	if (way->subject == &timer_list) {
		timer_list_run();
	} else if (READ_ONCE(kicked) || hwtimer_driven_now(to_driven(wheel)) >= until) {
		WRITE_ONCE(kicked, false);
		until = run_worker(wheel);
	}
}

/*
 * Connections, as on a server. The clock moves in ticks of 1 ms, as fast as the program can move
 * it; at each tick the worker runs if it was kicked or its sleep is over. There are @pending with a
 * timeout of a minute. Each gets a message once a second, which pushes the timeout back. One in a
 * hundred gets none, and is replaced when it expires.
 */
#define CONNS_MS	5000
#define TIMEOUT_MS	60000

static bool silent(u32 n)
{
	return !(n % 100);
}

static void take_place(struct conn *c)
{
	way->arm(c, TIMEOUT_MS);
}

static double conns_turn(const struct way *w)
{
	unsigned long i, at = 0, each = pending / 1000;
	u64 random = seeded(1), ns;
	unsigned int ms;

	begin(w, pending);
	/* As after a minute: timeouts are in all buckets, and most have been touched since. */
	for (i = 0; i < pending; i++) {
		way->arm(&conns[i], 1 + below(&random, TIMEOUT_MS));
		if (i % PORTION == PORTION - 1 && w->subject->settle)
			w->subject->settle();
	}
	tick();
	for (i = 0; i < pending; i++)
		if (!silent(i))
			way->touch(&conns[i], TIMEOUT_MS);
	ns = cpu_ns();
	for (ms = 0; ms < CONNS_MS; ms++) {
		for (i = 0; i < each; i++) {
			if (!silent(order[at]))
				way->touch(&conns[order[at]], TIMEOUT_MS);
			at = at + 1 < pending ? at + 1 : 0;
		}
		tick();
	}
	ns = cpu_ns() - ns;
	end(pending);
	return (double)ns / (CONNS_MS * each);
}

void connections(unsigned int round)
{
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		k = turn_of(i, ARRAY_SIZE(ways), round);
		result(ways[k].subject->name, k < 2 ? "conns" : "conns_lazy", round,
		       conns_turn(&ways[k]));
	}
}
