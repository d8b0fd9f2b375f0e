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
 *	call		of the worker: no wake-up and no context switch; flatters hwtimer, also in
 *			"conns" and "mix", which count the wake-ups
 *	softirq		is a call: flatters timer_list when timers expire
 *	mitigations	no function calls through thunks, on neither side
 */
#include <native.h>

#include <sys/mman.h>

#include "bench.h"

/* Delays spread over this range, beyond the duration of any turn. */
#define SHORTEST_MS	60000
#define SPREAD_MS	40000
/* Each thread is a CPU, those of the shims as well. */
#define POSSIBLE	16
/* More than all caches have. */
#define FLUSH		(64UL << 20)

struct options options = { .seed = 1 };

unsigned long pending, idle;
struct conn *conns;
u32 *order;
u64 delays_ns[DELAYS];
unsigned long delays_jiffies[DELAYS], fired;
unsigned int cores;
struct hwtimer_wheel *wheel;
static unsigned int core[CPU_SETSIZE];

u64 clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

/* The time of this machine, also while the clock of the wheels stands. */
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
void pin(unsigned int thread)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core[thread % cores], &set);
	sched_setaffinity(0, sizeof(set), &set);
}

void unpin(void)
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

void flush_caches(void)
{
	static char *p;
	unsigned long i;

	if (!p)
		p = large_pages(FLUSH);
	for (i = 0; i < FLUSH; i += 64)
		WRITE_ONCE(p[i], p[i] + 1);
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

/* The i-th of @n in a round. */
unsigned int turn_of(unsigned int i, unsigned int n, unsigned int round)
{
	return round % 2 ? n - 1 - i : i;
}

static const struct {
	const char	*name;
	void		(*round)(unsigned int round);
} cases[] = {
	{ "steady", steady },
	{ "life", life },
	{ "producers", producers },
	{ "ring", ring },
	{ "conns", connections },
	{ "mix", mix },
	{ "cross", cross },
	{ "late", lateness },
	{ "rate", saturation },
	{ "memory", wheel_memory },
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
	pending = parse(argv[2], 1000000);
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
