// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the native benchmark: what the wheel costs, compared with the kernel's timer_list. Both
 * are built into one program, with locked instructions as on a machine with several processors.
 * Used by scripts/bench.
 *
 *	bench CASE PENDING ROUNDS
 *
 * prints a line for each figure, in ns:
 *
 *	operation,pending subject value
 *
 * Each round measures all subjects, every other round in reverse order. Round 0 warms up the caches
 * and is not printed; a million timeouts do not fit into them anyway.
 * docs/performance.rst describes
 * the operations: timeouts are embedded in structures of 256 bytes, and are used in a random order,
 * the same for all subjects. There are POSSIBLE possible CPUs.
 *
 * About as expensive as in the kernel are atomic operations and spinlocks; preempt_disable(), which
 * counts in a variable of the thread; per-CPU data, which take one more load here; and the clock,
 * which clock_gettime() reads in the vDSO. Cheaper than in the kernel are
 *
 *	interrupts	Disabling them is a store. Each operation of timer_list does it, hwtimer
 *			only when it kicks the worker. timer_list gains some ns.
 *	kicks		Where this program calls the worker, a kick stores a flag. There is one kick
 *			in QUEUE_DEPTH requests, so hwtimer gains the cost of a wake-up divided by
 *			QUEUE_DEPTH.
 *	the worker	Where this program calls it, there is no wake-up and no context switch.
 *			hwtimer gains.
 *	softirq		It is a function call. timer_list gains when timers expire.
 *	mitigations	Neither side calls functions through retpolines.
 */
#include <native.h>

#include <sys/mman.h>

#include "bench.h"

/* The range of the delays. The shortest one is longer than any measurement takes. */
#define SHORTEST_MS	60000
#define SPREAD_MS	40000
/* The number of CPUs. Each thread is one, including those that the shims create. */
#define POSSIBLE	16

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

/* The CPU time of this thread: what others do on the same core does not count. */
u64 cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static u64 no_time = U64_MAX;	/* what since() would return if nothing was done */

u64 since(u64 start)
{
	u64 ns = cpu_ns() - start;

	return ns - min(ns, no_time);
}

static void find_no_time(void)
{
	unsigned int i;
	u64 start;

	for (i = 0; i < PORTION; i++) {
		start = cpu_ns();
		no_time = min(no_time, cpu_ns() - start);
	}
}

void result(const char *subject, const char *op, unsigned int round, double value)
{
	if (round)
		printf("%s,%lu %s %.3f\n", op, pending, subject, value);
}

/* If there are more threads than cores, threads share a core. */
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

/* The kernel maps its memory by large pages, too. */
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

/* The subject, of @n, whose turn is the @i-th of @round. */
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
	{ "conns", connections },
	{ "program", program },
	{ "netty", netty },
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
	/* Shuffle the pending conns, the idle ones, and those of each producer separately. */
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
	find_no_time();
	nr_cpu_ids = POSSIBLE;
	native_begin();
	timer_list_begin();
	prepare(fn == producers);
	pin(0);
	for (round = pending > IDLE; round <= rounds; round++)
		fn(round);
	return 0;
}
