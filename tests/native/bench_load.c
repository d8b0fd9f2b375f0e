// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the cases of the native benchmark that resemble servers: many connections, requests,
 * timeouts that another core ends, how late timeouts are, and high rates of requests. And the size
 * of a wheel.
 *
 * In "conns" and "mix" the program moves the clock in ticks of 1 ms as fast as it can. At each tick
 * the worker runs if it was kicked or its sleep is over.
 */
#include <native.h>

#include <sys/timerfd.h>
#include <unistd.h>

#include "bench.h"

/**
 * struct load - what a load has cost
 * @ops: number of operations
 * @caller: their time, in ns
 * @worker: time of the worker, or of timer_list_run(), in ns
 * @wakeups: at how many ticks the worker ran, or timers of timer_list expired
 */
struct load {
	unsigned long	ops;
	u64		caller, worker;
	unsigned long	wakeups;
};

/* How a load uses a subject. */
struct way {
	const char	*name;
	const struct subject *subject;
	void		(*init)(struct conn *c);
	void		(*arm)(struct conn *c, unsigned long ms);	/* from now on */
	void		(*touch)(struct conn *c, unsigned long ms);
	void		(*cancel)(struct conn *c);
};

static void (*ended)(struct conn *c);	/* the load's callback */
static const struct way *way;
static u64 until;

static void hw_fired(struct hwtimer_timeout *t)
{
	fired++;
	ended(container_of(t, struct conn, timer.hwtimer));
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

static void hw_cancel(struct conn *c)
{
	hwtimer_cancel(&c->timer.hwtimer);
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
	ended(container_of(t, struct conn, timer.list));
}

static void list_init(struct conn *c)
{
	timer_setup(&c->timer.list, list_fired, 0);
}

static void list_arm(struct conn *c, unsigned long ms)
{
	mod_timer(&c->timer.list, jiffies_64 + ms);
}

static void list_cancel(struct conn *c)
{
	timer_delete(&c->timer.list);
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
	{ "hwtimer_at", &hwtimer_at, hw_init, hw_arm, hw_touch, hw_cancel },
	{ "timer_list", &timer_list, list_init, list_arm, list_arm, list_cancel },
	{ "hwtimer_lazy", &hwtimer_at, hw_lazy_init, hw_lazy_arm, hw_lazy_touch, hw_cancel },
	{ "timer_list_lazy", &timer_list, lazy_init, lazy_arm, lazy_touch, list_cancel },
};

static void begin(const struct way *w, unsigned long n)
{
	unsigned long i;

	native_frozen = now_ns();
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
static void tick(struct load *l)
{
	unsigned long before = fired;
	u64 start;

	native_frozen += MSEC;
	jiffies_64++;
	if (way->subject == &timer_list) {
		start = now_ns();
		timer_list_run();
		l->worker += now_ns() - start;
		l->wakeups += fired != before;
	} else if (to_driven(wheel)->kicked || hwtimer_driven_now(to_driven(wheel)) >= until) {
		to_driven(wheel)->kicked = 0;
		start = now_ns();
		until = run_worker(wheel);
		l->worker += now_ns() - start;
		l->wakeups++;
	}
}

static void report(const struct way *w, const char *name, unsigned int round, struct load *l,
		   unsigned int ms)
{
	char op[32];

	result(w->name, name, 1, round, (double)(l->caller + l->worker) / l->ops, "ns");
	snprintf(op, sizeof(op), "%s_worker", name);
	result(w->name, op, 1, round, (double)l->worker / l->ops, "ns");
	snprintf(op, sizeof(op), "%s_wakeups", name);
	result(w->name, op, 1, round, l->wakeups * 1000.0 / ms, "1/s");
}

/*
 * There are @pending connections with a timeout of a minute. Each gets a message once a second,
 * which pushes the timeout back. One connection in a hundred gets none, and is replaced when it
 * expires.
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

static void conns_turn(const struct way *w, struct load *l)
{
	unsigned long i, at = 0, each = max(pending / 1000, 1UL);
	unsigned int ms;
	u64 random = seeded(1), start;
	struct load setup = { };

	begin(w, pending);
	ended = take_place;
	/* As after a minute: timeouts are in all buckets, and most have been touched since. */
	for (i = 0; i < pending; i++) {
		way->arm(&conns[i], 1 + below(&random, TIMEOUT_MS));
		if (i % PORTION == PORTION - 1 && w->subject->settle)
			w->subject->settle();
	}
	tick(&setup);
	for (i = 0; i < pending; i++)
		if (!silent(i))
			way->touch(&conns[i], TIMEOUT_MS);
	for (ms = 0; ms < CONNS_MS; ms++) {
		start = now_ns();
		for (i = 0; i < each; i++) {
			if (!silent(order[at]))
				way->touch(&conns[order[at]], TIMEOUT_MS);
			at = at + 1 < pending ? at + 1 : 0;
		}
		l->caller += now_ns() - start;
		l->ops += each;
		tick(l);
	}
	end(pending);
}

void connections(unsigned int round)
{
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		struct load l = { };

		k = turn_of(i, ARRAY_SIZE(ways), round);
		conns_turn(&ways[k], &l);
		report(&ways[k], "conns", round, &l, CONNS_MS);
	}
}

/*
 * Requests have a timeout of a second. One in a hundred expires, the others are done after 1 to 50
 * ms. There are so many each ms that about @pending are in progress at a time.
 */
#define MIX_MS		500
#define MIX_WARM_MS	1200
#define LONGEST_MS	50

static u32 *resting;
static unsigned long nr_resting;

static void rest(struct conn *c)
{
	resting[nr_resting++] = c - conns;
}

static void mix_tick(u32 *head, u32 *next, unsigned long each, unsigned int ms, u64 *random)
{
	unsigned int end_ms;
	u32 n;

	for (; each && nr_resting; each--) {
		n = resting[--nr_resting];
		way->arm(&conns[n], 1000);
		if (!below(random, 100))
			continue;
		end_ms = (ms + 1 + below(random, LONGEST_MS)) % (LONGEST_MS + 1);
		next[n] = head[end_ms];
		head[end_ms] = n;
	}
	ms %= LONGEST_MS + 1;
	while (head[ms] != U32_MAX) {
		n = head[ms];
		head[ms] = next[n];
		way->cancel(&conns[n]);
		rest(&conns[n]);
	}
}

static void mix_turn(const struct way *w, struct load *l)
{
	static u32 *next;
	u32 head[LONGEST_MS + 1];
	unsigned long i, each = max(pending / 35, 1UL), all = pending + idle;
	u64 random = seeded(2), start;
	unsigned int ms;

	if (!resting) {
		resting = large_pages(all * sizeof(*resting));
		next = large_pages(all * sizeof(*next));
	}
	begin(w, all);
	ended = rest;
	nr_resting = 0;
	for (i = 0; i < all; i++)
		resting[nr_resting++] = order[i];
	memset(head, 0xff, sizeof(head));
	for (ms = 0; ms < MIX_WARM_MS + MIX_MS; ms++) {
		if (ms == MIX_WARM_MS)
			*l = (struct load){ };
		start = now_ns();
		mix_tick(head, next, each, ms, &random);
		l->caller += now_ns() - start;
		l->ops += each;
		tick(l);
	}
	end(all);
}

void mix(unsigned int round)
{
	unsigned int i, k;

	for (i = 0; i < 2; i++) {
		struct load l = { };

		k = turn_of(i, 2, round);
		mix_turn(&ways[k], &l);
		report(&ways[k], "mix", round, &l, MIX_MS);
	}
}

/*
 * This core arms timeouts, and the worker files them. Then another core touches and cancels them,
 * and cancels them while they expire.
 */
static struct {
	const struct subject	*subject;
	enum op			op;
	struct range		range;
} job;

static u64 do_job(void)
{
	u64 start = now_ns();

	job.subject->run(job.op, &job.range);
	return now_ns() - start;
}

static void cross_turn(const struct subject *s, struct samples *touch, struct samples *cancel)
{
	struct range r = { };
	u64 ns;

	s->begin();
	init_conns(s, pending);
	arm_all(s, ARM, &r, &ns, &ns);
	job.subject = s;
	job.range = (struct range){ .n = pending, .shift = { 4 * SEC, 4 * HZ } };
	job.op = TOUCH_LATER;
	begin_on_other_core(do_job);
	sample(touch, end_on_other_core(), pending);
	if (s->settle)
		s->settle();
	/* This core writes to all timeouts, so they are in its caches again. */
	r.shift = (struct when){ 8 * SEC, 8 * HZ };
	arm_all(s, ARM, &r, &ns, &ns);
	job.op = CANCEL;
	begin_on_other_core(do_job);
	sample(cancel, end_on_other_core(), pending);
	s->end();
}

/* Cancel and expire at once. @both: the ns that both take; @expired: how many expire, in %. */
static void race_turn(const struct subject *s, struct samples *both, struct samples *expired)
{
	struct range r = { };
	u64 ns;

	native_frozen = now_ns();
	s->begin();
	init_conns(s, pending);
	r.deadline.ns = ktime_get_ns() + 400 * MSEC;
	r.deadline.jiffies = jiffies_64 + 400;
	arm_all(s, ARM_AT, &r, &ns, &ns);
	jiffies_64 = r.deadline.jiffies + 200;
	native_frozen = r.deadline.ns + 2 * MSEC;
	job.subject = s;
	job.op = CANCEL;
	job.range = (struct range){ .n = pending };
	begin_on_other_core(do_job);
	ns = s->expire();
	sample(both, ns + end_on_other_core(), pending);
	sample(expired, fired * 100, pending);
	s->end();
	native_frozen = 0;
}

void cross(unsigned int round)
{
	static const struct subject *const all[] = { &hwtimer_at, &timer_list };
	static struct samples samples[ARRAY_SIZE(all)][4];
	unsigned int turns = max(IDLE / pending / 5, 1UL), i, j, k;
	struct samples *s;

	if (cores < 2)
		return;
	memset(samples, 0, sizeof(samples));
	for (j = 0; j < turns; j++)
		for (i = 0; i < ARRAY_SIZE(all); i++) {
			k = turn_of(i, ARRAY_SIZE(all), round + j);
			cross_turn(all[k], &samples[k][0], &samples[k][1]);
			race_turn(all[k], &samples[k][2], &samples[k][3]);
		}
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		s = samples[i];
		result(all[i]->name, "cross_touch", 2, round, median(&s[0]), "ns");
		result(all[i]->name, "cross_cancel", 2, round, median(&s[1]), "ns");
		result(all[i]->name, "race", 2, round, median(&s[2]), "ns");
		result(all[i]->name, "race_expired", 2, round, median(&s[3]), "%");
	}
}

/*
 * How late timeouts are with a worker that is a thread, compared with a thread that reads a
 * timerfd, that is, with an hrtimer and a wake-up. timer_list is not measured: here it has no
 * periodic interrupt that would run it.
 */
#define PROBES		1000
#define PROBES_NS	(400 * MSEC)

enum scene { IDLE_CORES, BUSY_CORES, DRAIN, MANY_CPUS, SCENES };

static const char *const scene_names[] = { "idle", "busy", "drain", "cpus" };
static u64 due[PROBES];
static struct samples late;
static bool over;

static void probe_fired(struct hwtimer_timeout *t)
{
	struct conn *c = container_of(t, struct conn, timer.hwtimer);

	sample(&late, now_ns() - due[c - conns - pending], 1);
}

static void probe_wheel(struct hwtimer_wheel *w)
{
	struct hwtimer_timeout *t;
	unsigned int i;

	for (i = 0; i < PROBES; i++) {
		t = &conns[pending + i].timer.hwtimer;
		memset(t, 0, sizeof(*t));
		hwtimer_init(t, w, probe_fired);
		hwtimer_schedule_at(t, due[i]);
	}
	while (READ_ONCE(late.n) < PROBES)
		native_usleep(1000);
}

static void probe_timerfd(void)
{
	struct itimerspec when = { };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	unsigned int i;
	u64 n;

	for (i = 0; i < PROBES; i++) {
		when.it_value.tv_sec = due[i] / SEC;
		when.it_value.tv_nsec = due[i] % SEC;
		timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);
		if (read(fd, &n, sizeof(n)) == sizeof(n))
			sample(&late, now_ns() - due[i], 1);
	}
	close(fd);
}

static void *busy(void *arg)
{
	while (!READ_ONCE(over))
		barrier();
	return NULL;
}

/* Arm and cancel @pending other timeouts. */
static void *drained(void *arg)
{
	struct range r = { };

	native_enter();
	for (; r.first < pending && !READ_ONCE(over); r.first += r.n) {
		r.n = min(pending - r.first, PORTION);
		hwtimer_at.run(ARM_CANCEL, &r);
	}
	native_leave();
	return NULL;
}

/* Arm and cancel other timeouts all the time, as 60 CPUs in turn. The threads have the others. */
#define FIRST_PLAYED	4
#define PLAYED		64

static void *many(void *arg)
{
	struct range r = { .n = 128 };
	unsigned int own, cpu = FIRST_PLAYED;

	native_enter();
	own = current->cpu;
	while (!READ_ONCE(over)) {
		current->cpu = cpu;
		hwtimer_at.run(ARM_CANCEL, &r);
		r.first = r.first + 2 * r.n > pending ? 0 : r.first + r.n;
		cpu = cpu + 1 < PLAYED ? cpu + 1 : FIRST_PLAYED;
	}
	current->cpu = own;
	native_leave();
	return NULL;
}

static void late_turn(bool timerfd, enum scene scene, unsigned int round)
{
	static const struct { const char *name; double share; } points[] = {
		{ "50", 0.5 }, { "99", 0.99 }, { "99.9", 0.999 }, { "max", 1 },
	};
	static void *(*const threads_of[])(void *) = { NULL, busy, drained, many };
	unsigned int i, n = scene == BUSY_CORES ? cores : scene != IDLE_CORES;
	pthread_t threads[CPU_SETSIZE];
	u64 random = seeded(3);
	char op[32];

	/* Its tick is 1 ms. */
	wheel = make_wheel(HWTIMER_DRIVER_KTHREAD);
	init_conns(&hwtimer_at, pending);
	late.n = 0;
	over = false;
	for (i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, threads_of[scene], NULL);
	/* In ascending order, as the timerfd is set for one after the other. */
	due[0] = now_ns() + 20 * MSEC;
	for (i = 1; i < PROBES; i++)
		due[i] = due[i - 1] + below(&random, 2 * PROBES_NS / PROBES);
	if (timerfd)
		probe_timerfd();
	else
		probe_wheel(wheel);
	WRITE_ONCE(over, true);
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	hwtimer_wheel_stop(wheel, NULL);
	hwtimer_wheel_destroy(wheel);
	median(&late);	/* for its side effect: it sorts the values */
	for (i = 0; i < ARRAY_SIZE(points); i++) {
		snprintf(op, sizeof(op), "late_%s_%s", scene_names[scene], points[i].name);
		result(timerfd ? "timerfd" : "hwtimer_at", op, 1, round,
		       late.values[(unsigned int)((PROBES - 1) * points[i].share)] / 1000, "us");
	}
}

void lateness(unsigned int round)
{
	unsigned int possible = nr_cpu_ids;
	enum scene scene;

	if (pending < PROBES) {
		fprintf(stderr, "bench: late takes %d pending or more\n", PROBES);
		exit(2);
	}
	unpin();
	nr_cpu_ids = PLAYED;
	for (scene = 0; scene < SCENES; scene++) {
		late_turn(round % 2, scene, round);
		late_turn(!(round % 2), scene, round);
	}
	nr_cpu_ids = possible;
}

/* How much memory a wheel takes, for several numbers of CPUs. */
void wheel_memory(unsigned int round)
{
	static const unsigned int cpus[] = { 2, 16, 64, 512 };
	const size_t hints = WHEEL_RECENT * sizeof(struct llist_node *);
	size_t level, bytes;
	unsigned int i;

	wheel = make_wheel(HWTIMER_DRIVER_HRTIMER);
	level = wheel->slots * sizeof(struct wheel_bucket) + wheel->slots / 8;
	for (i = 0; i < ARRAY_SIZE(cpus); i++) {
		bytes = sizeof(struct hwtimer_driven) + wheel->levels * level +
			cpus[i] * sizeof(struct wheel_cpu);
		result("hwtimer_at", "wheel_bytes", cpus[i], round, bytes, "bytes");
		result("hwtimer_at", "wheel_bytes_hints", cpus[i], round, bytes + cpus[i] * hints,
		       "bytes");
	}
	hwtimer_wheel_destroy(wheel);
}

/*
 * This core makes requests at a given rate, for a worker on another core: how many the worker
 * handles, and how long they wait.
 */
#define RATE_MS		200
#define BURST		100UL

static long backlog(void)
{
	long n = -READ_ONCE(wheel->drained);
	int cpu;

	for_each_possible_cpu(cpu)
		n += local_read(&per_cpu_ptr(wheel->cpus, cpu)->pushed);
	return n;
}

/* @rate: in millions per second; 0: as fast as this core can. */
static void rate_turn(unsigned int rate, unsigned int round)
{
	static struct samples waiting;
	struct range r = { };
	u64 start, now, ops = 0;
	char name[16], op[32];
	double done;

	pin(1);
	wheel = make_wheel(HWTIMER_DRIVER_KTHREAD);
	pin(0);
	init_conns(&hwtimer_at, pending);
	waiting.n = 0;
	start = now_ns();
	do {
		r.n = min(pending - r.first, BURST);
		hwtimer_at.run(ARM_CANCEL, &r);
		r.first = r.first + r.n < pending ? r.first + r.n : 0;
		ops += r.n;
		if (!(ops % (10 * BURST)))
			sample(&waiting, backlog(), 1);
		do {
			now = now_ns();
		} while (rate && ops * 1000 > (now - start) * rate);
	} while (now - start < RATE_MS * MSEC || !waiting.n);
	done = READ_ONCE(wheel->drained) * 1000.0 / (now - start);
	hwtimer_wheel_stop(wheel, NULL);
	hwtimer_wheel_destroy(wheel);

	snprintf(name, sizeof(name), rate ? "rate_%u" : "rate_all", rate);
	result("hwtimer_at", name, 2, round, ops * 1000.0 / (now - start), "M/s");
	snprintf(op, sizeof(op), "%s_handled", name);
	result("hwtimer_at", op, 2, round, done, "M/s");
	snprintf(op, sizeof(op), "%s_wait", name);
	result("hwtimer_at", op, 2, round, median(&waiting) / done, "us");
	snprintf(op, sizeof(op), "%s_wait_max", name);
	result("hwtimer_at", op, 2, round, waiting.values[waiting.n - 1] / done, "us");
}

void saturation(unsigned int round)
{
	static const unsigned int rates[] = { 1, 2, 5, 10, 20, 0 };
	unsigned int i;

	if (cores < 2)
		return;
	for (i = 0; i < ARRAY_SIZE(rates); i++)
		rate_turn(rates[i], round);
}

/*
 * This core plays 64 CPUs, one after the other, some or all of which make requests. Then the worker
 * handles all requests in one pass, on another core. "hwtimer_hints": after a burst, since which
 * the CPUs have hints.
 */
static void cpus_turn(unsigned int active, unsigned long each, struct samples *s)
{
	/* The first pass is not recorded: it may be the one that makes hints. */
	unsigned long passes = max(IDLE / max(active * each, 100UL), 4UL) + 1, i;
	struct range r = { .n = each };
	unsigned int cpu, own = current->cpu;
	u64 ns;

	for (i = 0; i < passes; i++) {
		for (cpu = 0; cpu < PLAYED && each; cpu += PLAYED / active) {
			if (r.first + each > pending)
				r.first = 0;
			current->cpu = cpu;
			hwtimer_remote.run(ARM_CANCEL, &r);
			r.first += each;
		}
		current->cpu = own;
		ns = hwtimer_remote.settle();
		if (i)
			sample(s, ns, max(active * each, 1UL));
	}
}

void many_cpus(unsigned int round)
{
	static const unsigned int active[] = { 1, 8, 64 };
	static const unsigned long each[] = { 0, 1, 16, 128, 1024 };
	unsigned int i, j, hints, possible = nr_cpu_ids;
	static struct samples s;
	char name[16];

	if (cores < 2)
		return;
	if (pending < each[ARRAY_SIZE(each) - 1]) {
		fprintf(stderr, "bench: cpus takes %lu pending or more\n",
			each[ARRAY_SIZE(each) - 1]);
		exit(2);
	}
	nr_cpu_ids = PLAYED;
	hwtimer_remote.begin();
	init_conns(&hwtimer_remote, pending);
	/* The last size is that of a burst, after which all CPUs have hints. */
	for (hints = 0; hints < 2; hints++)
		for (j = 0; j < ARRAY_SIZE(each) - hints; j++)
			for (i = 0; i < ARRAY_SIZE(active); i++) {
				s.n = 0;
				cpus_turn(active[i], each[j], &s);
				snprintf(name, sizeof(name), "cpus_%lu", each[j]);
				result(hints ? "hwtimer_hints" : "hwtimer_at", name, active[i],
				       round, median(&s), "ns");
			}
	hwtimer_remote.end();
	nr_cpu_ids = possible;
}
