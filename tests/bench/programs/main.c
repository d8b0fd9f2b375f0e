// SPDX-License-Identifier: GPL-2.0-only
/*
 * programs: measures interfaces by which programs keep time.
 *
 *	programs GROUND CASE PENDING ROUNDS [SUBJECT]...
 *
 * Prints lines of CSV, like hwtimer_bench: ground, kernel, cpus, subject, operation, pending,
 * round, value, unit. In each round every subject has its turn, in a process of its own; round 0
 * warms up.
 */
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* Number of operations in a turn, and of those that are measured together. */
#define OPERATIONS	20000UL
#define PORTION		2000UL
/* Number of arm_cancel operations, on few connections. So many wrap around a ring twice. */
#define ROUND_ABOUT	100000UL
#define LONG_PORTION	10000UL
/* For subjects with a system call for each operation. */
#define DEAR		4000UL
/* For subjects that search, with many to search. */
#define SEARCHES	64UL
/*
 * With so many pending, subjects with a system call for each operation are measured in every fifth
 * round only.
 */
#define SELDOM		5
#define MANY		10000UL
#define MAX_SAMPLES	32

struct conn *conns;
unsigned long fired, system_calls;
__u64 loop_now, delays[DELAYS];

/*
 * Connections are used in random order, and end in another order than they began in, so that
 * neighbours in memory are not used one after the other.
 */
static unsigned int *order, *end_order, *round_order;

static struct utsname host;
static const char *ground;
static unsigned long pending, idle;	/* those armed all the time, and others */
static unsigned int round_nr;

/* The lateness of each expiry, if wanted. */
static __s64 *lateness;

void conn_fired(struct conn *c)
{
	c->fired++;
	if (lateness)
		lateness[fired] = now_ns() - c->due;
	fired++;
}

static void result(const struct subject *s, const char *operation, double value, const char *unit)
{
	if (round_nr)
		printf("%s,%s,1,%s,%s,%lu,%u,%.3f,%s\n", ground, host.release, s->name,
		       operation, pending, round_nr, value, unit);
}

/* xorshift64, with the same seed in each run. */
static __u64 pick(__u64 below)
{
	static __u64 x = 0x9e3779b97f4a7c15ULL;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x % below;
}

static void shuffle(unsigned int *order, unsigned long first, unsigned long n)
{
	unsigned long i, k;
	unsigned int swap;

	for (i = 0; i < n; i++)
		order[first + i] = first + i;
	for (i = n; i > 1; i--) {
		k = first + pick(i);
		swap = order[first + i - 1];
		order[first + i - 1] = order[k];
		order[k] = swap;
	}
}

/* Memory that is populated, so that there are no page faults later. */
static void *must_map(size_t size)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (map == MAP_FAILED)
		err(1, "%zu bytes", size);
	return map;
}

static int compare(const void *a, const void *b)
{
	__s64 x = *(const __s64 *)a, y = *(const __s64 *)b;

	return (x > y) - (x < y);
}

static double median(double *values, unsigned int n)
{
	unsigned int i, k;
	double v;

	for (i = 1; i < n; i++) {
		v = values[i];
		for (k = i; k && values[k - 1] > v; k--)
			values[k] = values[k - 1];
		values[k] = v;
	}
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void settle(const struct subject *s)
{
	if (s->settle)
		s->settle();
}

/*
 * Create all connections and arm @n of them. All have been armed once, so that the subject's
 * memory for them is allocated and populated. Returns how long arming took, in ns.
 */
static __u64 fill(const struct subject *s, unsigned long n)
{
	struct range all = { .n = pending + idle };
	struct range rest = { .first = n, .n = pending + idle - n, .order = order };
	unsigned long i;
	__u64 ns;

	s->begin(pending + idle);
	for (i = 0; s->init && i < pending + idle; i++)
		s->init(&conns[i]);
	if (s->searches)
		all.n = n;	/* otherwise it would take minutes */
	ns = s->run(OP_ARM, &all);
	settle(s);
	if (!s->searches)
		s->run(OP_CANCEL, &rest);
	settle(s);
	return ns;
}

struct samples {
	double		op[MAX_SAMPLES];
	double		all[MAX_SAMPLES];
	unsigned int	n;
	unsigned long	ops;
	unsigned long	calls;
};

static void measure(const struct subject *s, enum op op, struct range *r, unsigned long n,
		    struct samples *samples)
{
	unsigned long most = op == OP_ARM_CANCEL ? LONG_PORTION : PORTION;
	unsigned long left, calls = system_calls;
	struct samples *p = &samples[op];
	__s64 ns;

	r->at = 0;
	for (left = n; left && p->n < MAX_SAMPLES; left -= r->n) {
		r->n = left < most ? left : most;
		ns = s->run(op, r);
		p->op[p->n] = (double)ns / r->n;
		if (s->settle)
			ns += s->settle();
		p->all[p->n++] = (double)ns / r->n;
		p->ops += r->n;
	}
	p->calls += system_calls - calls;
}

/* @pending are armed, @idle more are not. None expires. */
static void steady(const struct subject *s)
{
	static const char *const names[OPS] = {
		[OP_ARM] = "arm", [OP_CANCEL] = "cancel", [OP_ARM_CANCEL] = "arm_cancel",
		[OP_TOUCH_LATER] = "touch_later",
	};
	static struct samples samples[OPS];
	struct range armed = { .order = order };
	struct range others = { .first = pending, .order = order };
	struct range round_about = { .order = round_order };
	struct range ending = { .first = pending, .order = end_order };
	unsigned long n = s->dear ? DEAR : OPERATIONS, each, done;
	char name[64];
	unsigned int i;

	if (s->searches && pending > MANY)
		n = SEARCHES;
	/* Few connections are used several times. */
	each = n < idle ? n : idle;
	shuffle(end_order, pending, each);
	for (done = 0; done < each; done++)
		end_order[pending + done] = order[end_order[pending + done]];
	fill(s, pending);
	/* None is armed in between, so few connections are enough. */
	for (done = 0; done < ROUND_ABOUT; done++)
		round_order[done] = order[pending + done % each];
	measure(s, OP_ARM_CANCEL, &round_about, n < OPERATIONS ? n : ROUND_ABOUT, samples);
	for (done = 0; done < n; done += each) {
		measure(s, OP_ARM, &others, each, samples);
		measure(s, OP_CANCEL, &ending, each, samples);
		armed.shift += NS_PER_S;
		measure(s, OP_TOUCH_LATER, &armed, each, samples);
	}
	if (fired)
		errx(1, "%s: expired meanwhile: this machine is too slow", s->name);
	for (i = 0; i < OPS; i++) {
		struct samples *p = &samples[i];

		if (!p->n)
			continue;
		result(s, names[i], median(p->op, p->n), "ns");
		if (s->settle) {
			snprintf(name, sizeof(name), "%s+worker", names[i]);
			result(s, name, median(p->all, p->n), "ns");
		}
		snprintf(name, sizeof(name), "%s_calls", names[i]);
		result(s, name, 1000.0 * p->calls / p->ops, "1/1000");
	}
}

/* All are due at once; measured until all have been handled. */
static void expire(const struct subject *s)
{
	struct range all = { .n = pending, .order = order };
	__u64 allowed, due;
	unsigned long i;

	if (!s->wait)
		return;
	allowed = 2 * fill(s, 0) + 50 * NS_PER_MS + pending * 2000;
	do {
		due = now_ns() + allowed;
		for (i = 0; i < pending; i++)
			conns[i].due = due;
		fired = 0;
		all.at = 0;
		s->run(OP_ARM_AT, &all);
		settle(s);
		/* Arming took longer than expected: allow more time. */
		allowed *= 2;
		i = now_ns() + 5 * NS_PER_MS < due;
		while (fired < pending)
			s->wait();
	} while (!i);
	result(s, "expire", (double)(now_ns() - due) / pending, "ns");
}

#define DUE	4000UL		/* at random times */
#define SPREAD	NS_PER_S

/* Lateness of timeouts due one by one, with @pending more armed. */
static void late(const struct subject *s)
{
	struct range r = { .first = pending, .n = DUE, .order = order };
	__s64 *values = must_map(DUE * sizeof(*values));
	unsigned long i;
	__u64 now;

	if (!s->wait)
		return;
	fill(s, pending);
	now = now_ns() + 300 * NS_PER_MS;
	for (i = 0; i < DUE; i++)
		conns[pending + i].due = now + pick(SPREAD);
	fired = 0;
	lateness = values;
	s->run(OP_ARM_AT, &r);
	while (fired < DUE)
		s->wait();
	qsort(values, DUE, sizeof(*values), compare);
	result(s, "late_median", (double)values[DUE / 2] / NS_PER_US, "us");
	result(s, "late_99", (double)values[DUE * 99 / 100] / NS_PER_US, "us");
	result(s, "late_99.9", (double)values[DUE * 999 / 1000] / NS_PER_US, "us");
}

#define GROUP_DIR	"/sys/fs/cgroup/programs"
/* Bytes that CPUs keep charged to a group that is gone. */
#define LEFT		1048576

static void write_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd))
		err(1, "%s", name);
}

/* Memory charged to the group, in bytes. */
static __u64 charged(void)
{
	FILE *f = fopen(GROUP_DIR "/memory.current", "r");
	unsigned long long value;

	if (!f || fscanf(f, "%llu", &value) != 1)
		err(1, GROUP_DIR "/memory.current");
	fclose(f);
	return value;
}

/* Free memory in bytes, including pages that CPUs keep cached. */
static __u64 free_memory(void)
{
	FILE *f = fopen("/proc/zoneinfo", "r");
	unsigned long pages = 0, n;
	char line[256];

	if (!f)
		err(1, "/proc/zoneinfo");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, " nr_free_pages %lu", &n) == 1 ||
		    sscanf(line, " count: %lu", &n) == 1)
			pages += n;
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

/*
 * Bytes for each timeout, in the kernel and in the program. The kernel does not charge all of its
 * memory to the group, so both the charge and the decrease of free memory are reported.
 */
static void memory(const struct subject *s)
{
	__u64 charge, left;

	if (!s->wait)
		return;
	write_file(GROUP_DIR "/cgroup.procs", "0");
	charge = charged();
	left = free_memory();
	fill(s, pending);
	result(s, "bytes", (double)(__s64)(left - free_memory()) / pending + s->handle, "bytes");
	result(s, "bytes_charged", (double)(__s64)(charged() - charge) / pending + s->handle,
	       "bytes");
}

static const struct {
	const char	*name;
	void		(*turn)(const struct subject *s);
	unsigned int	first;	/* the first round: 1 has nothing to warm up */
	unsigned long	idle;
} cases[] = {
	{ "steady", steady, 0, OPERATIONS },
	{ "expire", expire, 0, 0 },
	{ "late", late, 1, DUE },
	{ "memory", memory, 1, 0 },
};

static const struct subject *const subjects[] = {
	&hwtimer_ring, &timerfd, &libevent_heap, &hwtimer_ring_at,
	&posix_timer, &hwtimer_ioctl, &libuv_timer, &io_uring_timeout, &libevent_common,
	&system_call, &clock_look,
};

static void turn(const struct subject *s, void (*fn)(const struct subject *s))
{
	pid_t child;
	int status;

	if (fn == memory) {
		/* What the last subject left is freed asynchronously. */
		while (!access(GROUP_DIR, F_OK) && (charged() > LEFT || rmdir(GROUP_DIR)))
			sched_yield();
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
		if (mkdir(GROUP_DIR, 0755))
			err(1, GROUP_DIR);
	}
	fflush(stdout);
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (!child) {
		fn(s);
		fflush(stdout);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		errx(1, "%s: status %x", s->name, status);
}

int main(int argc, char **argv)
{
	struct sched_param param = { 0 };
	unsigned int rounds, i, k, n = 0;
	const struct subject *chosen[ARRAY_SIZE(subjects)], *s;
	int a;

	if (argc < 5)
		errx(2, "usage: programs GROUND CASE PENDING ROUNDS [SUBJECT]...");
	ground = argv[1];
	for (k = 0; k < ARRAY_SIZE(cases) && strcmp(cases[k].name, argv[2]); k++)
		;
	if (k == ARRAY_SIZE(cases))
		errx(2, "no such case: %s", argv[2]);
	pending = strtoul(argv[3], NULL, 10);
	rounds = strtoul(argv[4], NULL, 10);
	for (i = 0; i < ARRAY_SIZE(subjects); i++) {
		for (a = 5; a < argc && strcmp(argv[a], subjects[i]->name); a++)
			;
		if (argc == 5 || a < argc)
			chosen[n++] = subjects[i];
	}
	if (!pending || !n || (argc > 5 && n != (unsigned int)argc - 5))
		errx(2, "PENDING is not a number above 0, or there is no such SUBJECT");

	idle = cases[k].idle;
	if (cases[k].turn == steady && pending < idle)
		idle = pending;
	uname(&host);
	conns = must_map((pending + idle) * sizeof(*conns));
	order = must_map((pending + idle) * sizeof(*order));
	end_order = must_map((pending + idle) * sizeof(*order));
	round_order = must_map(ROUND_ABOUT * sizeof(*order));
	shuffle(order, 0, pending);
	shuffle(order, pending, idle);
	/* Long enough for none to expire meanwhile. */
	for (i = 0; i < DELAYS; i++)
		delays[i] = (60000 + pick(40000)) * NS_PER_MS;
	if (cases[k].turn == memory)
		write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory");

	/*
	 * Threads of the kernel that work for this process precede it: with one CPU, its elapsed
	 * time includes theirs.
	 */
	if (!access("/dev/hwtimer", F_OK) && sched_setscheduler(0, SCHED_IDLE, &param))
		err(1, "SCHED_IDLE");
	for (round_nr = cases[k].first; round_nr <= rounds; round_nr++)
		for (i = 0; i < n; i++) {
			s = chosen[(i + round_nr) % n];
			if (!s->dear || pending <= MANY || round_nr % SELDOM == 1)
				turn(s, cases[k].turn);
		}
	return 0;
}
