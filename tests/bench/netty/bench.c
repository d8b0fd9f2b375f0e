// SPDX-License-Identifier: GPL-2.0-only
/*
 * The costs of libhwtimer's timeouts in a program. Bench.java does the same with Netty's
 * HashedWheelTimer, function by function; see docs/performance for a description.
 *
 *	bench PENDING
 *
 * Reads numbers of rounds from standard input; for each it does a round, prints rows of CSV, and
 * an empty line. Round 0 warms up.
 */
#include <dirent.h>
#include <err.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libhwtimer.h>

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL

#define OPS		1000000U	/* of arm_cancel */
#define PRODUCERS	2U
#define PORTIONS	100U		/* of an operation done many times, by each thread */
#define FAR		(1800 * NSEC_PER_SEC)
#define NR_DELAYS	4096U		/* a power of two */
#define NR_LATE		5000U
#define LATE_FIRST	(200 * NSEC_PER_MSEC)
#define LATE_SPAN	(2 * NSEC_PER_SEC)
#define BATCH		64U		/* operations for each read of the clock in hwtimer_at */
#define GROUP		"/sys/fs/cgroup/bench"

/* user_data of the timeout that settle() waits for */
#define SETTLED		(~0ULL)

static struct hwtimer *h;
static hwtimer_id *ids;
static unsigned int *order, pending, round_nr;
static uint64_t delays[NR_DELAYS];
/* Memory charged before there were timeouts. */
static uint64_t before;
/* The caller knows the time: subject hwtimer_at */
static bool at;

static uint64_t rnd(void)
{
	static uint64_t x = 88172645463325252ULL;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x >> 1;
}

static void must(int ret)
{
	if (ret < 0)
		errx(1, "%s", strerror(-ret));
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/*
 * For how long all CPUs together have been busy: all time except the idle time of the kernel. The
 * kernel's accounting of CPU time has a resolution of a jiffy in User-Mode Linux.
 */
static uint64_t busy_ns(void)
{
	FILE *file = fopen("/proc/timer_list", "r");
	unsigned long long idle;
	uint64_t busy = 0;
	char line[200];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " .idle_sleeptime : %llu", &idle) == 1)
			busy += now_ns() - idle;
	if (!busy)
		errx(1, "/proc/timer_list: no idle_sleeptime");
	fclose(file);
	return busy;
}

/* Memory charged to the cgroup, for the kernel and the program. */
static uint64_t charged(void)
{
	FILE *file = fopen(GROUP "/memory.current", "r");
	unsigned long long bytes;

	if (!file || fscanf(file, "%llu", &bytes) != 1)
		err(1, GROUP "/memory.current");
	fclose(file);
	return bytes;
}

static void enter_group(void)
{
	FILE *file = fopen(GROUP "/cgroup.procs", "w");

	if (!file || fputs("0", file) < 0 || fclose(file))
		err(1, GROUP "/cgroup.procs");
}

static void report(const char *operation, double value, const char *unit)
{
	if (round_nr)
		printf("hwtimer%s_%llums,%s,%u,%u,%.2f,%s\n", at ? "_at" : "",
		       (unsigned long long)(hwtimer_tick_ns(h) / NSEC_PER_MSEC), operation, pending,
		       round_nr, value, unit);
}

/*
 * Wait until the worker has done its deferred work: a timeout that was queued after it has
 * expired.
 */
static void settle(void)
{
	struct hwtimer_event event;

	must(hwtimer_flush(h));
	must(hwtimer_schedule(h, 2 * hwtimer_tick_ns(h), SETTLED, NULL));
	do {
		must(hwtimer_wait(h, &event, 1, -1));
	} while (event.user_data != SETTLED);
}

/**
 * struct meter - measures an operation that is done many times
 * @busy: busy_ns() at the beginning
 * @threads: number of threads
 * @each: number of operations of each thread
 * @ns: the time of each portion
 */
struct meter {
	uint64_t	busy;
	unsigned int	threads;
	unsigned int	each;
	uint64_t	ns[PRODUCERS * PORTIONS];
};

/**
 * struct stretch - the part of one thread
 * @ns: the times of its portions
 * @portion: number of operations of a portion
 * @left: number of operations left of the portion
 * @began: when the current one began
 */
struct stretch {
	uint64_t	*ns;
	unsigned int	portion;
	unsigned int	left;
	uint64_t	began;
};

static void meter_begin(struct meter *m, unsigned int threads, unsigned int ops)
{
	m->threads = threads;
	m->each = ops / threads;
	m->busy = busy_ns();
}

static struct stretch stretch_begin(struct meter *m, unsigned int thread)
{
	const unsigned int portion = m->each / PORTIONS;

	return (struct stretch){ m->ns + thread * PORTIONS, portion, portion, now_ns() };
}

/* To be called after each operation. */
static void stretch_one(struct stretch *s)
{
	uint64_t now;

	if (--s->left)
		return;
	now = now_ns();
	*s->ns++ = now - s->began;
	s->began = now;
	s->left = s->portion;
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Report the caller's part, from the median portion, and the total CPU time. */
static void meter_end(struct meter *m, const char *operation)
{
	const unsigned int n = m->threads * PORTIONS;
	char name[32];

	settle();
	snprintf(name, sizeof(name), "%s+worker", operation);
	report(name, (double)(busy_ns() - m->busy) / (m->threads * m->each), "ns");
	qsort(m->ns, n, sizeof(m->ns[0]), compare);
	report(operation, (double)m->ns[n / 2] / (m->each / PORTIONS), "ns");
}

/* All operations schedule by this function. */
static void schedule(unsigned int i, uint64_t *now, uint64_t delay, uint64_t data,
		     hwtimer_id *id)
{
	if (!at) {
		must(hwtimer_schedule(h, delay, data, id));
		return;
	}
	if (!(i % BATCH))
		*now = hwtimer_now(h);
	must(hwtimer_schedule_at(h, *now + delay, data, id));
}

static void arm(void)
{
	struct meter m;
	struct stretch s;
	uint64_t now = 0;
	unsigned int i;

	meter_begin(&m, 1, pending);
	s = stretch_begin(&m, 0);
	for (i = 0; i < pending; i++) {
		schedule(i, &now, FAR + delays[i % NR_DELAYS], i, &ids[i]);
		stretch_one(&s);
	}
	meter_end(&m, "arm");
}

static void cancel(void)
{
	struct meter m;
	struct stretch s;
	unsigned int i;

	meter_begin(&m, 1, pending);
	s = stretch_begin(&m, 0);
	for (i = 0; i < pending; i++) {
		must(hwtimer_cancel(h, ids[order[i]]));
		stretch_one(&s);
	}
	meter_end(&m, "cancel");
}

static void rearm(void)
{
	struct meter m;
	struct stretch s;
	uint64_t now = 0;
	unsigned int i, n;

	meter_begin(&m, 1, pending);
	s = stretch_begin(&m, 0);
	for (i = 0; i < pending; i++) {
		n = order[i];
		must(hwtimer_cancel(h, ids[n]));
		schedule(i, &now, 2 * FAR + delays[i % NR_DELAYS], n, &ids[n]);
		stretch_one(&s);
	}
	meter_end(&m, "rearm");
}

/* Netty has no touch; its users cancel and schedule, as in rearm(). */
static void touch(void)
{
	struct meter m;
	struct stretch s;
	uint64_t now = 0, delay;
	unsigned int i, n;

	meter_begin(&m, 1, pending);
	s = stretch_begin(&m, 0);
	for (i = 0; i < pending; i++) {
		n = order[i];
		delay = 4 * FAR + delays[i % NR_DELAYS];
		if (at) {
			if (!(i % BATCH))
				now = hwtimer_now(h);
			must(hwtimer_touch_at(h, ids[n], now + delay));
		} else {
			must(hwtimer_touch(h, ids[n], delay));
		}
		stretch_one(&s);
	}
	meter_end(&m, "touch");
}

static void do_arm_cancel(struct meter *m, unsigned int thread)
{
	struct stretch s = stretch_begin(m, thread);
	uint64_t now = 0;
	hwtimer_id id;
	unsigned int i;

	for (i = 0; i < m->each; i++) {
		schedule(i, &now, FAR + delays[i % NR_DELAYS], i, &id);
		must(hwtimer_cancel(h, id));
		stretch_one(&s);
	}
}

static void arm_cancel(void)
{
	struct meter m;

	meter_begin(&m, 1, OPS);
	do_arm_cancel(&m, 0);
	meter_end(&m, "arm_cancel");
}

/* Both threads use the same handle. */
static struct meter producers_meter;

static void *producer(void *thread)
{
	do_arm_cancel(&producers_meter, (uintptr_t)thread);
	return NULL;
}

static void producers(void)
{
	pthread_t threads[PRODUCERS];
	uintptr_t i;

	meter_begin(&producers_meter, PRODUCERS, OPS);
	for (i = 0; i < PRODUCERS; i++)
		if (pthread_create(&threads[i], NULL, producer, (void *)i))
			errx(1, "no thread");
	for (i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	meter_end(&producers_meter, "producers");
}

/* Find what follows @key on a line of a file in /proc. */
static bool proc_value(const char *pid, const char *file, const char *key, char *value, size_t size)
{
	char path[300], line[200];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, file);
	f = fopen(path, "r");
	while (f && !found && fgets(line, sizeof(line), f)) {
		found = !strncmp(line, key, strlen(key));
		snprintf(value, size, "%s", line + strlen(key));
	}
	if (f)
		fclose(f);
	return found;
}

/* How often the shared wheel's worker, a kernel thread, has gone to sleep. */
static unsigned long wakeups(void)
{
	DIR *proc = opendir("/proc");
	unsigned long sleeps = 0;
	struct dirent *entry;
	char value[200];

	while (proc && (entry = readdir(proc)))
		if (proc_value(entry->d_name, "comm", "hwtimer/", value, sizeof(value)) &&
		    proc_value(entry->d_name, "status", "voluntary_ctxt_switches:", value,
			       sizeof(value)))
			sleeps += strtoul(value, NULL, 10);
	if (!sleeps)
		errx(1, "no worker");
	closedir(proc);
	return sleeps;
}

/* CPU time while nothing is done, and how often the worker wakes. */
static void quiet(const char *what)
{
	const unsigned int rest = 2, span = 3;
	unsigned long woken;
	uint64_t busy;
	char name[32];

	sleep(rest);
	woken = wakeups();
	busy = busy_ns();
	sleep(span);
	busy = busy_ns() - busy;
	woken = wakeups() - woken;
	snprintf(name, sizeof(name), "%s_cpu", what);
	report(name, (double)busy / span / 1000, "ppm");
	snprintf(name, sizeof(name), "%s_wakeups", what);
	report(name, (double)woken / span, "per_s");
}

static void lateness(void)
{
	struct hwtimer_event events[BATCH];
	static int64_t late[NR_LATE];
	unsigned int n = 0;
	uint64_t now;
	int i, ret;

	for (n = 0; n < NR_LATE; n++)
		must(hwtimer_schedule(h, LATE_FIRST + rnd() % LATE_SPAN, n, NULL));
	for (n = 0; n < NR_LATE; n += ret) {
		ret = hwtimer_wait(h, events, BATCH, -1);
		must(ret);
		now = hwtimer_now(h);
		for (i = 0; i < ret; i++)
			late[n + i] = now - events[i].deadline_ns;
	}
	qsort(late, NR_LATE, sizeof(late[0]), compare);
	report("late_first", late[0] / 1e3, "us");
	report("late_median", late[NR_LATE / 2] / 1e3, "us");
	report("late_99", late[NR_LATE / 100 * 99] / 1e3, "us");
	report("late_last", late[NR_LATE - 1] / 1e3, "us");
}

static void read_clock(void)
{
	uint64_t began = now_ns();
	unsigned int i;

	for (i = 0; i < OPS; i++)
		hwtimer_now(h);
	report("clock", (double)(now_ns() - began) / OPS, "ns");
}

/* A system call. The library makes one for 4096 entries; in User-Mode Linux it is slow. */
static void make_call(void)
{
	const unsigned int calls = 1000;
	struct hwtimer_stats stats;
	uint64_t began = now_ns();
	unsigned int i;

	for (i = 0; i < calls; i++)
		must(hwtimer_stats(h, &stats, sizeof(stats)));
	report("system_call", (double)(now_ns() - began) / calls, "ns");
}

/* One handle for all rounds, so that its memory has been used before. */
static void begin(void)
{
	const struct hwtimer_options options = {
		.size = sizeof(options),
		.flags = HWTIMER_OPEN_RINGS | HWTIMER_OPEN_THREADS,
		.timeouts = pending + NR_LATE,
	};

	before = charged();
	must(hwtimer_open(&h, &options));
	round_nr = 1;
	quiet("none");
}

/* Use the memory again after the other program had its turn. */
static void warm_up(void)
{
	unsigned int nr = round_nr;

	round_nr = 0;
	arm();
	cancel();
	round_nr = nr;
}

static void one_round(void)
{
	/* Not in each round, as it takes long. */
	bool resting = round_nr % 3 == 1 && !at;

	settle();
	if (resting)
		quiet("idle");
	warm_up();
	arm();
	if (before) {
		round_nr = 1;
		report("bytes", (double)(charged() - before) / pending, "bytes");
		round_nr = 0;
		before = 0;
	}
	if (resting)
		quiet("far");
	arm_cancel();
	producers();
	rearm();
	touch();
	cancel();
	if (!at) {
		read_clock();
		make_call();
		lateness();
	}
}

int main(int argc, char **argv)
{
	unsigned int i, j, n;
	char line[32];

	pending = argc == 2 ? atoi(argv[1]) : 0;
	if (!pending)
		errx(2, "usage: bench PENDING <ROUNDS");
	enter_group();
	ids = calloc(pending, sizeof(*ids));
	order = calloc(pending, sizeof(*order));
	if (!ids || !order)
		errx(1, "no memory");
	/* Memory of arrays must not count as the timeouts'. */
	memset(ids, 1, pending * sizeof(*ids));
	for (i = 0; i < NR_DELAYS; i++)
		delays[i] = rnd() % FAR;
	for (i = 0; i < pending; i++)
		order[i] = i;
	for (i = pending; i > 1; i--) {
		j = rnd() % i;
		n = order[i - 1];
		order[i - 1] = order[j];
		order[j] = n;
	}
	while (fgets(line, sizeof(line), stdin)) {
		if (!h)
			begin();
		round_nr = atoi(line);
		at = false;
		one_round();
		at = true;
		one_round();
		puts("");
		fflush(stdout);
	}
	return 0;
}
