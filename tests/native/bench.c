// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what the wheel costs beside the kernel's timer_list, both as parts of one program, with
 * real lock prefixes and on real cores. Used by scripts/bench.
 *
 *	bench CASE PENDING ROUNDS
 *
 * prints a line per figure:
 *
 *	native,kernel,threads,subject,operation,pending,round,value,unit
 *
 * Each round measures all subjects, and every other round in reverse order; round 0 is for warming
 * up, and not told (a million are never warm). Operations are as in tests/bench, which
 * docs/performance describes: timeouts are parts of 256 bytes and are taken in random order, the
 * same for all subjects. There are as many possible CPUs as POSSIBLE.
 *
 * What costs as much as in the kernel: atomic operations and spinlocks; preempt_disable(), a
 * counter of the thread; per-CPU data, one load more than the kernel's; the clock, read by
 * clock_gettime() in the vDSO. What is cheaper, and whom that flatters:
 *
 *	interrupts	are disabled by a store. Each operation of timer_list does it, hwtimer only
 *			when it kicks the worker: flatters timer_list by some ns
 *	kicks		store a flag where the worker is called by this program (all but the
 *			producers), once in WHEEL_DEPTH requests: flatters hwtimer by the cost of
 *			a wake-up, divided by that
 *	call		to the worker: no context switch; flatters hwtimer
 *	softirq		is a call: flatters timer_list when timers expire
 *	mitigations	no function calls through thunks, on neither side
 */
#include <native.h>

#include <sys/mman.h>

#include "bench.h"
#include "dev/shared.h"
#include "hwtimer.h"
#include "hwtimer_driver.h"
#include "timer_list.h"

#define SEC		((u64)NSEC_PER_SEC)
#define MSEC		((u64)NSEC_PER_MSEC)
/* Delays spread over this range, beyond the duration of any turn. */
#define SHORTEST_MS	60000
#define SPREAD_MS	40000
#define THREADS		4
/* Each thread is a CPU, those of the shims as well. */
#define POSSIBLE	16
/* More than all caches have. */
#define FLUSH		(64UL << 20)

struct options options = { .seed = 1 };

/**
 * struct conn - an object with a timeout; all subjects use the same memory
 * @timer: the timeout
 * @deadline: for TOUCH_LAZY, in jiffies
 */
struct conn {
	union {
		struct hwtimer_timeout	hwtimer;
		struct timer_list	list;
	} timer;
	unsigned long		deadline;
} __attribute__((aligned(256)));

struct when {
	u64		ns;
	unsigned long	jiffies;
};

enum op {
	ARM,
	ARM_AT,		/* for the deadline of the range */
	CANCEL,		/* what the worker has filed */
	ARM_CANCEL,	/* at once */
	TOUCH_LATER,	/* by seconds: into another bucket of timer_list */
	TOUCH_NEAR,	/* by ms: mostly into the same */
	TOUCH_LAZY,	/* as TOUCH_LATER, by a store */
	OPS
};

static const char *const op_names[] = {
	"arm", "arm_at", "cancel", "arm_cancel", "touch_later", "touch_near", "touch_later",
};

/**
 * struct range - conns to operate on
 * @first: the first one, as an index of order[]
 * @n: number of operations
 * @shift: added to each delay
 * @deadline: for ARM_AT
 */
struct range {
	unsigned long	first, n;
	struct when	shift;
	struct when	deadline;
};

/**
 * struct subject - what is measured
 * @name: as in tests/bench
 * @begin: prepare
 * @init: prepare a conn
 * @run: operate
 * @settle: let the worker do all it can; returns the ns that this took. NULL: there is no worker
 * @expire: what @settle is once the deadline has come
 * @end: undo @begin
 */
struct subject {
	const char	*name;
	void		(*begin)(void);
	void		(*init)(struct conn *c);
	void		(*run)(enum op op, const struct range *r);
	u64		(*settle)(void);
	u64		(*expire)(void);
	void		(*end)(void);
};

unsigned long pending, idle;
static struct conn *conns;
u32 *order;
u64 delays_ns[DELAYS];
static unsigned long delays_jiffies[DELAYS], fired;
static unsigned int cores, core[CPU_SETSIZE];
static struct hwtimer_wheel *wheel;

static u64 clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

/* The time of this program, which does not skip ahead. */
u64 now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

void result(const char *subject, const char *op, unsigned int threads, unsigned int round,
	    double value, const char *unit)
{
	if (round)
		printf("native,6.12,%u,%s,%s,%lu,%u,%.3f,%s\n", threads, subject, op, pending,
		       round, value, unit);
}

/* Threads beyond the cores share them. */
static void pin(unsigned int thread)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core[thread % cores], &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void unpin(void)
{
	cpu_set_t set;
	unsigned int i;

	CPU_ZERO(&set);
	for (i = 0; i < cores; i++)
		CPU_SET(core[i], &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void find_cores(void)
{
	cpu_set_t set;
	unsigned int i;

	sched_getaffinity(0, sizeof(set), &set);
	for (i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			core[cores++] = i;
}

/* Memory in large pages, as the kernel's is mapped. */
void *large_pages(size_t size)
{
	size_t huge = 2UL << 20;
	void *p = aligned_alloc(huge, (size + huge - 1) / huge * huge);

	if (!p) {
		fprintf(stderr, "bench: no memory\n");
		exit(1);
	}
	madvise(p, size, MADV_HUGEPAGE);
	return memset(p, 0, size);
}

static void flush_caches(void)
{
	static char *p;
	unsigned long i;

	if (!p)
		p = large_pages(FLUSH);
	for (i = 0; i < FLUSH; i += 64)
		WRITE_ONCE(p[i], p[i] + 1);
}

/* The loop is the same for all subjects; the functions are constants, and inlined. */
typedef void (*op_fn)(struct conn *c, const struct when *when);

static __always_inline void each(const struct range *r, op_fn fn)
{
	unsigned long i;
	struct when when;
	u32 n;

	for (i = r->first; i < r->first + r->n; i++) {
		n = order[i];
		when.ns = delays_ns[n % DELAYS] + r->shift.ns;
		when.jiffies = delays_jiffies[n % DELAYS] + r->shift.jiffies;
		fn(&conns[n], &when);
	}
}

static __always_inline void run_ops(enum op op, const struct range *r, op_fn arm, op_fn cancel,
				    op_fn arm_cancel, op_fn touch)
{
	switch (op) {
	case ARM:
		each(r, arm);
		break;
	case CANCEL:
		each(r, cancel);
		break;
	case ARM_CANCEL:
		each(r, arm_cancel);
		break;
	case TOUCH_LATER:
	case TOUCH_NEAR:
		each(r, touch);
		break;
	default:
		break;
	}
}

/* hwtimer. The worker runs when the program calls it. */

static void kicked(struct hwtimer_wheel *w)
{
	WRITE_ONCE(to_driven(w)->kicked, 1);
}

static void expire(struct hwtimer_wheel *w, struct hwtimer_timeout *t, hwtimer_fn_t fn,
		   u64 deadline)
{
	hwtimer_worker_call(to_driven(w), t, fn, deadline);
}

static void *alloc(struct hwtimer_wheel *w, size_t size)
{
	return hwtimer_worker_alloc(to_driven(w), size, GFP_KERNEL);
}

static bool valid(const struct hwtimer_wheel_params *params) { return true; }
static int create(struct hwtimer_driven *d, const struct hwtimer_wheel_params *p) { return 0; }
static void nothing(struct hwtimer_driven *driven) { }

/* In the place of the hrtimer driver, which is not built here. */
const struct hwtimer_driver_ops hwtimer_driver_hrtimer = {
	.name = "called", .ops = { .kick = kicked, .expire = expire, .alloc = alloc },
	.valid = valid, .create = create, .end = nothing, .destroy = nothing,
};

/* As one pass of worker_fn() in hwtimer_kthread.c. */
static void run_worker(struct hwtimer_wheel *w)
{
	struct hwtimer_driven *driven = to_driven(w);
	u64 now;

	wheel_awake(w);
	do {
		do {
			now = hwtimer_driven_now(driven);
		} while (wheel_advance(w, now, WHEEL_BUDGET));
	} while (!wheel_prepare_sleep(w, now));
}

static struct hwtimer_wheel *make_wheel(enum hwtimer_driver driver)
{
	const struct hwtimer_wheel_params params = {
		.name = "bench", .tick_ns = NSEC_PER_SEC / HZ, .slots = 4096, .levels = 2,
		.driver = driver,
	};
	struct hwtimer_wheel *w = hwtimer_wheel_create(&params);

	if (IS_ERR(w)) {
		fprintf(stderr, "bench: no wheel\n");
		exit(1);
	}
	return w;
}

static void wheel_begin(void)
{
	wheel = make_wheel(HWTIMER_DRIVER_HRTIMER);
}

static void wheel_end(void)
{
	hwtimer_wheel_stop(wheel, NULL);
	hwtimer_wheel_destroy(wheel);
}

static void wheel_fired(struct hwtimer_timeout *t)
{
	fired++;
}

static void wheel_init_conn(struct conn *c)
{
	hwtimer_init(&c->timer.hwtimer, wheel, wheel_fired);
}

static void wheel_arm_after(struct conn *c, const struct when *when)
{
	hwtimer_schedule(&c->timer.hwtimer, when->ns);
}

static void wheel_arm_at(struct conn *c, const struct when *when)
{
	hwtimer_schedule_at(&c->timer.hwtimer, when->ns);
}

static void wheel_touch_after(struct conn *c, const struct when *when)
{
	hwtimer_touch(&c->timer.hwtimer, when->ns);
}

static void wheel_touch_at(struct conn *c, const struct when *when)
{
	hwtimer_touch_at(&c->timer.hwtimer, when->ns);
}

static void wheel_cancel_conn(struct conn *c, const struct when *when)
{
	hwtimer_cancel(&c->timer.hwtimer);
}

static void wheel_arm_cancel_after(struct conn *c, const struct when *when)
{
	hwtimer_schedule(&c->timer.hwtimer, when->ns);
	hwtimer_cancel(&c->timer.hwtimer);
}

static void wheel_arm_cancel_at(struct conn *c, const struct when *when)
{
	hwtimer_schedule_at(&c->timer.hwtimer, when->ns);
	hwtimer_cancel(&c->timer.hwtimer);
}

static void wheel_run(enum op op, const struct range *r)
{
	run_ops(op, r, wheel_arm_after, wheel_cancel_conn, wheel_arm_cancel_after,
		wheel_touch_after);
}

/* The time is read once for all. */
static void wheel_run_at(enum op op, const struct range *range)
{
	struct range r = *range;
	unsigned long i;

	if (op == ARM_AT) {
		for (i = r.first; i < r.first + r.n; i++)
			wheel_arm_at(&conns[order[i]], &r.deadline);
		return;
	}
	r.shift.ns += hwtimer_wheel_now(wheel);
	run_ops(op, &r, wheel_arm_at, wheel_cancel_conn, wheel_arm_cancel_at, wheel_touch_at);
}

static u64 settle_here(void)
{
	u64 start = now_ns();

	run_worker(wheel);
	return now_ns() - start;
}

/* The wheel of the device, for the library. */
u64 settle_shared(void)
{
	u64 start = now_ns();

	run_worker(hwtimer_shared_wheel(NULL));
	return now_ns() - start;
}

/* Another thread, on the second core, that runs a function when it is told to. */
static u64 (*errand)(void);
static u64 errand_ns;

static void *other_thread(void *arg)
{
	u64 (*fn)(void);

	native_enter();
	pin(1);
	for (;;) {
		while (!(fn = smp_load_acquire(&errand)))
			__builtin_ia32_pause();
		errand_ns = fn();
		smp_store_release(&errand, NULL);
	}
	return NULL;
}

static u64 on_other_core(u64 (*fn)(void))
{
	static bool started;
	pthread_t thread;

	if (!started) {
		pthread_create(&thread, NULL, other_thread, NULL);
		started = true;
	}
	smp_store_release(&errand, fn);
	while (smp_load_acquire(&errand))
		__builtin_ia32_pause();
	return errand_ns;
}

static u64 settle_there(void)
{
	return on_other_core(settle_here);
}

static const struct subject hwtimer = {
	"hwtimer", wheel_begin, wheel_init_conn, wheel_run, settle_here, settle_here,
	wheel_end,
};

static const struct subject hwtimer_at = {
	"hwtimer_at", wheel_begin, wheel_init_conn, wheel_run_at, settle_here,
	settle_here, wheel_end,
};

/* The worker is on another core. */
static const struct subject hwtimer_remote = {
	"hwtimer_remote", wheel_begin, wheel_init_conn, wheel_run_at, settle_there,
	settle_there, wheel_end,
};

/* timer_list. TOUCH_LAZY is as TCP does it: the timer runs on, and looks at the deadline later. */

static void list_begin(void)
{
	jiffies_64 += 1000;
	timer_list_run();
}

static void list_fired(struct timer_list *t)
{
	fired++;
}

static void list_init_conn(struct conn *c)
{
	timer_setup(&c->timer.list, list_fired, 0);
}

static void list_arm(struct conn *c, const struct when *when)
{
	mod_timer(&c->timer.list, when->jiffies);
}

static void list_cancel(struct conn *c, const struct when *when)
{
	timer_delete(&c->timer.list);
}

static void list_arm_cancel(struct conn *c, const struct when *when)
{
	mod_timer(&c->timer.list, when->jiffies);
	timer_delete(&c->timer.list);
}

static void list_touch_lazy(struct conn *c, const struct when *when)
{
	WRITE_ONCE(c->deadline, when->jiffies);
}

static void list_run(enum op op, const struct range *range)
{
	struct range r = *range;
	unsigned long i;

	if (op == ARM_AT) {
		for (i = r.first; i < r.first + r.n; i++)
			list_arm(&conns[order[i]], &r.deadline);
		return;
	}
	r.shift.jiffies += READ_ONCE(jiffies_64);
	if (op == TOUCH_LAZY)
		each(&r, list_touch_lazy);
	else
		run_ops(op, &r, list_arm, list_cancel, list_arm_cancel, list_arm);
}

static u64 list_expire(void)
{
	u64 start = now_ns();

	timer_list_run();
	return now_ns() - start;
}

static void list_end(void)
{
	unsigned long i;

	for (i = 0; i < pending + idle; i++)
		timer_delete(&conns[i].timer.list);
}

static const struct subject timer_list = {
	"timer_list", list_begin, list_init_conn, list_run, NULL, list_expire, list_end,
};

/* Cases. */

static void init_conns(const struct subject *s, unsigned long n)
{
	unsigned long i;

	fired = 0;
	for (i = 0; i < n; i++) {
		memset(&conns[i].timer, 0, sizeof(conns[i].timer));
		s->init(&conns[i]);
	}
}

static void check_fired(const struct subject *s, unsigned long n)
{
	if (fired == n)
		return;
	fprintf(stderr, "bench: %s: %lu expired instead of %lu: is this machine too slow?\n",
		s->name, fired, n);
	exit(1);
}

void sample(struct samples *s, u64 ns, unsigned long n)
{
	if (s->n < SAMPLES)
		s->values[s->n++] = (double)ns / n;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double median(struct samples *s)
{
	qsort(s->values, s->n, sizeof(*s->values), compare);
	return s->n % 2 ? s->values[s->n / 2] :
			  (s->values[s->n / 2 - 1] + s->values[s->n / 2]) / 2;
}

/* By operation: the caller's part, the worker's, and both. */
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

/* Arm all that are to be pending. The worker runs after each portion, as after WHEEL_DEPTH. */
static void arm_all(const struct subject *s, enum op op, struct range *r, u64 *arm, u64 *file)
{
	u64 start;

	for (*arm = *file = r->first = 0; r->first < pending; r->first += r->n) {
		r->n = min(pending - r->first, PORTION);
		start = now_ns();
		s->run(op, r);
		*arm += now_ns() - start;
		if (s->settle)
			*file += s->settle();
	}
}

static void steady_turn(const struct subject *s, struct figures *f)
{
	struct range all = { };
	u64 ns;

	s->begin();
	init_conns(s, pending + idle);
	arm_all(s, ARM, &all, &ns, &ns);
	/* Twice: the first pass brings as many into the caches as fit. */
	measure(s, ARM_CANCEL, pending, idle, 0, NULL);
	measure(s, ARM_CANCEL, pending, idle, 0, f);
	measure(s, ARM, pending, idle, 0, f);
	measure(s, CANCEL, pending, idle, 0, f);
	measure(s, TOUCH_NEAR, 0, pending, 10, f);
	measure(s, TOUCH_LATER, 0, pending, 4000, f);
	if (s == &timer_list)
		measure(s, TOUCH_LAZY, 0, pending, 8000, f);
	check_fired(s, 0);
	s->end();
}

/* The i-th of @n in a round. */
unsigned int turn_of(unsigned int i, unsigned int n, unsigned int round)
{
	return round % 2 ? n - 1 - i : i;
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

/* Operations while many are pending, and none expires. */
static void steady(unsigned int round)
{
	static const struct subject *const all[] = {
		&hwtimer_at, &timer_list, &hwtimer, &hwtimer_remote,
	};
	static struct figures figures[ARRAY_SIZE(all)];
	unsigned int n = ARRAY_SIZE(all) - (cores < 2), turns = max(IDLE / pending / 5, 1UL);
	unsigned int i, j;
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
			result(j == TOUCH_LAZY ? "timer_list_lazy" : all[i]->name, op_names[j], 1,
			       round, median(&f->op[j]), "ns");
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

/* Returns false if the deadline came before all were armed. */
static bool life_turn(const struct subject *s, u64 ms, bool cold, struct life *life)
{
	struct range r = { };
	u64 arm, file, expire = 0;

	s->begin();
	init_conns(s, pending);
	r.deadline.ns = ktime_get_ns() + ms * MSEC;
	r.deadline.jiffies = jiffies_64 + ms;
	if (cold)
		flush_caches();
	arm_all(s, ARM_AT, &r, &arm, &file);
	if (ktime_get_ns() < r.deadline.ns) {
		if (cold)
			flush_caches();
		/* timer_list rounds up by an eighth */
		jiffies_64 = r.deadline.jiffies + ms / 4 + 2;
		native_ahead += ms * MSEC + 2 * MSEC;
		expire = s->expire();
		check_fired(s, pending);
		sample(&life->arm, arm, pending);
		sample(&life->file, file, pending);
		sample(&life->expire, expire, pending);
		sample(&life->all, arm + file + expire, pending);
	}
	s->end();
	return expire;
}

/* From arming to the callback, all due in the same tick. */
static void lives(unsigned int round, bool cold)
{
	static const struct subject *const all[] = { &hwtimer_at, &timer_list };
	static u64 ms;
	struct life life[ARRAY_SIZE(all)] = { };
	unsigned int turns = max(IDLE / pending / (cold ? 20 : 5), 1UL), i, j, k;
	char name[32];

	/* In the lowest level of either, if it is not a million. */
	if (!ms)
		ms = pending > IDLE ? 2000 : 400;
	for (j = 0; j < turns; j++)
		for (i = 0; i < ARRAY_SIZE(all); i++) {
			k = turn_of(i, ARRAY_SIZE(all), round + j);
			while (!life_turn(all[k], ms, cold, &life[k]))
				ms *= 2;
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

static void life(unsigned int round)
{
	lives(round, false);
	/* More are cold anyway. */
	if (pending <= IDLE)
		lives(round, true);
}

/* Several threads arm and cancel at once, each its own conns, and the wheels have real workers. */

enum way { ONE_WHEEL, OWN_WHEELS, TIMER_LIST };

static struct hwtimer_wheel *wheels[THREADS];
static unsigned int nr_threads;
static enum way way;
static atomic_t unready;

static u64 produce(unsigned int self)
{
	struct range r = { .first = self * idle, .n = idle };
	unsigned int i, passes = max(2 * IDLE / idle, 1UL);
	u64 start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (i = 0; i < passes; i++) {
		if (way == TIMER_LIST)
			list_run(ARM_CANCEL, &r);
		else
			wheel_run_at(ARM_CANCEL, &r);
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
			list_init_conn(c);
		else
			hwtimer_init(&c->timer.hwtimer, wheels[p->self], wheel_fired);
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
		/* A worker may run where the thread may that creates it. */
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

static void producers(unsigned int round)
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

static const struct {
	const char	*name;
	void		(*round)(unsigned int round);
} cases[] = {
	{ "steady", steady },
	{ "life", life },
	{ "producers", producers },
	{ "ring", ring },
};

static void prepare(bool in_order)
{
	u64 random = seeded(0);
	unsigned long n, i, j;
	unsigned int ms;

	idle = min(pending, IDLE);
	n = max(pending + idle, THREADS * idle);
	conns = large_pages(n * sizeof(*conns));
	order = large_pages(n * sizeof(*order));
	/* The idle ones, and those of each thread, are shuffled among themselves. */
	for (i = 0; i < n; i++) {
		j = i < pending && pending > idle ? 0 : i / idle * idle;
		if (pending > idle && i >= pending)
			j = pending + (i - pending) / idle * idle;
		order[i] = i;
		if (in_order)
			continue;
		j += below(&random, i - j + 1);
		swap(order[i], order[j]);
	}
	for (i = 0; i < DELAYS; i++) {
		ms = SHORTEST_MS + below(&random, SPREAD_MS);
		delays_ns[i] = ms * MSEC;
		delays_jiffies[i] = ms;
	}
}

static unsigned long parse(const char *text, unsigned long most)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || *text < '0' || *text > '9' || !n || n > most) {
		fprintf(stderr, "bench: a number from 1 to %lu, not '%s'\n", most, text);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	unsigned int i, round, rounds;
	void (*fn)(unsigned int round);

	if (argc != 4) {
		fprintf(stderr, "usage: bench CASE PENDING ROUNDS\n");
		return 2;
	}
	for (i = 0; strcmp(cases[i].name, argv[1]); i++)
		if (i + 1 == ARRAY_SIZE(cases)) {
			fprintf(stderr, "bench: no such case: '%s'\n", argv[1]);
			return 2;
		}
	fn = cases[i].round;
	pending = parse(argv[2], 10000000);
	rounds = parse(argv[3], 99);
	setvbuf(stdout, NULL, _IOLBF, 0);
	find_cores();
	nr_cpu_ids = POSSIBLE;
	native_shared_driver = HWTIMER_DRIVER_HRTIMER;
	native_begin();
	timer_list_begin();
	prepare(fn == producers);
	pin(0);
	result("machine", "cores", cores, 1, cores, "");
	for (round = pending > IDLE; round <= rounds; round++)
		fn(round);
	return 0;
}
