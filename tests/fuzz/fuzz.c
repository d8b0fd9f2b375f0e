// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fuzzer for /dev/hwtimer: its ioctls, its records, and the memory of its tables.
 *
 *	fuzz [-s SEED] [-n STEPS] [-t SECONDS] [-j JOBS] [-r ROUND]
 *
 * It does random steps, most of them nearly valid, until it has done STEPS of them or SECONDS have
 * passed, in JOBS processes at a time. Each round of these is a process of its own, which may be
 * killed at any time. Meanwhile two witnesses use the device correctly. The checks:
 *
 *	the witnesses' timeouts expire once, never early, none is forgotten, nor comes after its
 *	cancel
 *	a call fails only as documented, and does not succeed with an invalid argument
 *	a context by calls that is stopped hands back what is pending
 *	when everything is closed no memory is charged any more, and no context is left
 *
 * The kernel's log is checked elsewhere; here, that no stack is in it. SEED is printed. With it, a
 * round with one thread does exactly the same again, and other rounds do as far as that depends on
 * each thread. -r repeats a single round. The output is TAP.
 *
 * Without -n and -r every action must succeed at least once, as a run with nothing but errors would
 * prove nothing. Until then, it goes on for up to six times SECONDS.
 */
#include "fuzz.h"

#include <getopt.h>
#include <stdarg.h>
#include <sys/klog.h>
#include <sys/prctl.h>

/* A round that takes longer counts as hung. */
#define ROUND_LIMIT	(3 * PATIENCE)
/* How often to stop everything and check that nothing is left. */
#define EPOCH		(5 * NSEC_PER_SEC)
#define PARAMETER	"/sys/module/hwtimer/parameters/max_memory"
/* In KiB: so little that it is not enough at times. */
#define MEMORY		"16384"

struct shared *shared;
char who_i_am[32] = "the fuzzer";

static __u64 seed_of_run;
static bool can_fail;
static int status = EXIT_SUCCESS;

static const char *const action_names[ACTIONS] = {
	[DO_SETUP] = "SETUP", [DO_SCHEDULE] = "SCHEDULE", [DO_TOUCH] = "TOUCH",
	[DO_CANCEL] = "CANCEL", [DO_QUERY] = "QUERY", [DO_GROW] = "GROW", [DO_INFO] = "INFO",
	[DO_STATS] = "STATS", [DO_ENTER] = "ENTER", [DO_STOP] = "STOP", [DO_LIST] = "LIST",
	[DO_WHEELS] = "WHEELS", [DO_OPEN] = "open", [DO_CLOSE] = "close", [DO_READ] = "read",
	[DO_POLL] = "poll", [DO_EPOLL] = "epoll", [DO_FDINFO] = "fdinfo",
	[DO_CONTEXTS] = "contexts", [DO_MMAP] = "mmap", [DO_MUNMAP] = "munmap",
	[DO_MPROTECT] = "mprotect", [DO_MREMAP] = "mremap", [DO_MADVISE] = "madvise",
	[DO_SCRIBBLE] = "scribble", [DO_PUSH] = "push", [DO_FORK] = "fork", [DO_KILL] = "kill",
};

/* Without stdio: the process may be the child of a process with threads. */
void fail_(const char *fmt, ...)
{
	char text[1024];
	va_list args;
	size_t len;

	/* First, in case the process is about to be killed. */
	atomic_fetch_add(&shared->failed, 1);
	len = snprintf(text, sizeof(text), "# FAILED: %s: ", who_i_am);
	va_start(args, fmt);
	vsnprintf(text + len, sizeof(text) - len - 1, fmt, args);
	va_end(args);
	len = strlen(text);
	text[len++] = '\n';
	while (write(STDOUT_FILENO, text, len) < 0)
		if (errno != EINTR)
			_exit(errno);
	_exit(1);
}

/* Print what a job has done last. */
static void print_steps(unsigned int number)
{
	static const char *const places[] = { "", " read only", " fence", " nowhere", " hostile" };
	const struct job *job = &shared->jobs[number];
	unsigned int n = atomic_load(&job->next_step), i, k;

	printf("# job %u, the last of %u steps:\n", number, n);
	for (i = n < STEPS ? 0 : n - STEPS; i < n; i++) {
		const struct step *s = &job->steps[i % STEPS];

		printf("# %6u task %d context %u: %s%s", s->number, s->tid, s->context,
		       action_names[s->action], places[s->place]);
		for (k = 0; k < ARRAY_SIZE(s->words) && s->size; k++)
			printf("%s%llx", k ? " " : ": ", s->words[k]);
		if (s->done)
			printf(" = %d\n", s->ret);
		else
			printf(" ...\n");
	}
}

/* Wait for a process, or for any child; 0: none within @ns. */
static pid_t reap_within(pid_t pid, __u64 ns, int *result)
{
	__u64 end = now_ns() + ns;
	pid_t ret;

	for (;;) {
		ret = waitpid(pid, result, WNOHANG);
		if (ret || now_ns() > end)
			return ret;
		usleep(200);
	}
}

/* Jobs run one round after the other. */

static struct plan plan_round(__u64 round)
{
	struct plan plan = { .seed = mix(seed_of_run, round), .threads = 1 };
	__u64 random = plan.seed;

	plan.steps = 20 + below(&random, 400);
	if (!below(&random, 6))
		plan.kill_after_us = 1 + below(&random, below(&random, 2) ? 20000 : 200000);
	if (below(&random, 4))
		plan.uid = 1000 + below(&random, 3);
	plan.no_memory = can_fail && !below(&random, 3);
	if (below(&random, 2))
		return plan;
	plan.threads = 2 + below(&random, MAX_THREADS - 1);
	plan.steps /= plan.threads;
	plan.hostile = below(&random, 3);
	/* A killer needs the job's mutex, which who leaves keeps, see struct job. */
	plan.leave = !plan.kill_after_us && !below(&random, 6);
	return plan;
}

static void do_round(struct job *job, __u64 round, struct plan plan)
{
	int result = 0;
	bool killed = false;
	pid_t pid;

	/* A process that held it may have been killed. */
	atomic_flag_clear(&job->forking);
	snprintf(who_i_am, sizeof(who_i_am), "round %llu", round);
	pid = must_fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		run_round(&plan, job);
	}
	setpgid(pid, pid);
	if (plan.kill_after_us) {
		usleep(plan.kill_after_us);
		lock_forking(job);
		killed = !kill(-pid, SIGKILL);
		count(DO_KILL, killed ? 0 : -ESRCH);
	}
	if (!reap_within(pid, ROUND_LIMIT, &result)) {
		/* Where do all tasks sleep? */
		if (system("grep . /proc/[0-9]*/task/*/stack | sed 's/^/# /'"))
			fail("it hangs, and there is no grep");
		fail("it hangs");
	}
	/* Its children have become ours. */
	kill(-pid, SIGKILL);
	/* A process that ends with 1 has reported why. */
	if (WIFEXITED(result) ? WEXITSTATUS(result) > 1 : !killed || WTERMSIG(result) != SIGKILL)
		fail("it ended with status %x", result);
	while ((pid = reap_within(-1, ROUND_LIMIT, &result)) != -1)
		if (!pid)
			fail("its children do not end");
	atomic_fetch_add(&shared->rounds, 1);
}

struct options {
	__u64 steps, seconds, round;
	unsigned int jobs;
	bool one_round;
};

static bool enough(const struct options *o)
{
	return atomic_load(&shared->failed) ||
	       (o->steps && atomic_load(&shared->steps) >= o->steps);
}

/* Kernels may lack what madvise(2) does. */
static bool has_succeeded(unsigned int action)
{
	return shared->counts[action][0] || action == DO_MADVISE;
}

/* Every action must have had its chance, on a slow machine, too. */
static bool all_succeeded(void)
{
	unsigned int a;

	for (a = 0; a < ACTIONS; a++)
		if (!has_succeeded(a))
			return false;
	return true;
}

/* How many stacks are in the kernel's log? */
static unsigned int reports(void)
{
	static char text[1 << 18];
	char *at = text;
	unsigned int n = 0;
	int len = klogctl(3, text, sizeof(text) - 1);

	text[len > 0 ? len : 0] = 0;
	for (; (at = strstr(at, "Call Trace:")); at++)
		n++;
	return n;
}

/* One round after the other; @next is the number of the next one. */
static void be_job(const struct options *o, struct job *job, atomic_ullong *next, __u64 end)
{
	unsigned int before = reports();
	__u64 round;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	do {
		round = o->one_round ? o->round : atomic_fetch_add(next, 1);
		do_round(job, round, plan_round(round));
		if (reports() > before)
			fail("the kernel has reported something");
	} while (!enough(o) && now_ns() < end);
	_exit(0);
}

/* A round with one thread, twice: does it do the same? In a child, as its children become its. */
static void repeat(void)
{
	struct plan plan = { .seed = mix(seed_of_run, ~0ULL), .threads = 1, .steps = 300 };
	unsigned int i;
	__u64 choices[2];
	pid_t pid;

	for (i = 0; i < 2; i++) {
		atomic_store(&shared->choices, 0);
		pid = must_fork();
		if (!pid) {
			prctl(PR_SET_CHILD_SUBREAPER, 1);
			do_round(&shared->jobs[0], ~0ULL, plan);
			_exit(0);
		}
		reap(pid);
		choices[i] = atomic_load(&shared->choices);
	}
	if (choices[0] != choices[1] || !choices[0])
		fail("a seed is not repeated: %llx %llx", choices[0], choices[1]);
}

/* What the kernel has of the run. */
struct inventory {
	__s64 memory, contexts, references;
};

/* Could a context be made if all might take @kib? */
static bool fits(__u64 kib)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC };
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC), ret;
	char number[24];

	snprintf(number, sizeof(number), "%llu", kib);
	write_file(PARAMETER, number);
	ret = hwt_ioctl(fd, HWTIMER_IOC_SETUP, &setup);
	write_file(PARAMETER, MEMORY);
	close(fd);
	if (ret && ret != -ENOMEM)
		fail("SETUP: %d", ret);
	return !ret;
}

static struct inventory take_inventory(void)
{
	char *text = must_slurp("/sys/kernel/debug/hwtimer/contexts"), *at = text;
	struct inventory i = {
		.references = must_number("/sys/module/hwtimer/refcnt", NULL),
	};
	__u64 step;

	/* What is charged, up to a constant, is the least limit that suffices. */
	for (step = 1 << 20; step; step /= 2)
		if (!fits(i.memory + step))
			i.memory += step;
	for (; (at = strstr(at, "context: ")); at++)
		i.contexts++;
	free(text);
	return i;
}

static void check_inventory(const struct inventory *before)
{
	__u64 end = now_ns() + PATIENCE;
	struct inventory i;

	for (;;) {
		i = take_inventory();
		if (!memcmp(&i, before, sizeof(i)))
			return;
		if (now_ns() > end)
			fail("left: %lld KiB, %lld contexts, %lld references",
			     i.memory - before->memory, i.contexts - before->contexts,
			     i.references - before->references);
		usleep(10000);
	}
}

static void run_epoch(const struct options *o, atomic_ullong *next, __u64 end)
{
	pid_t pids[MAX_JOBS];
	unsigned int i;

	for (i = 0; i < o->jobs; i++) {
		pids[i] = must_fork();
		if (!pids[i])
			be_job(o, &shared->jobs[i], next, end);
	}
	for (i = 0; i < o->jobs; i++)
		if (reap(pids[i]) && !atomic_load(&shared->failed))
			fail("a job has ended");
}

/*
 * Run rounds until the time is over and, unless a number of steps is given, all actions have
 * succeeded; but for at most six times as long.
 */
static void fuzz(const struct options *o)
{
	__u64 began = now_ns(), end = began + o->seconds * NSEC_PER_SEC;
	__u64 late = began + 6 * o->seconds * NSEC_PER_SEC, epoch;
	atomic_ullong *next = must_share(sizeof(*next));
	struct inventory before = take_inventory();

	repeat();
	do {
		epoch = now_ns() + EPOCH;
		run_epoch(o, next, epoch < end || now_ns() > end ? epoch : end);
		if (atomic_load(&shared->failed))
			return;
		check_inventory(&before);
		printf("# %llu s: %u rounds, %u steps\n", (now_ns() - began) / NSEC_PER_SEC,
		       atomic_load(&shared->rounds), atomic_load(&shared->steps));
		fflush(stdout);
	} while (!enough(o) && !o->one_round &&
		 (now_ns() < end || (now_ns() < late && !o->steps && !all_succeeded())));
}

/* A part of the run in a process of its own, which fail() can end; false: it has failed. */
static bool apart(void (*fn)(const struct options *o), const struct options *o)
{
	pid_t pid;

	fflush(stdout);
	pid = must_fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(o);
		fflush(stdout);
		_exit(0);
	}
	return !reap(pid) && !atomic_load(&shared->failed);
}

static pid_t witnesses[2];

static void start_witnesses(void)
{
	int i, result;

	for (i = 0; i < 2; i++) {
		witnesses[i] = must_fork();
		if (!witnesses[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			be_witness(i, mix(seed_of_run, ~(__u64)i));
		}
		while (atomic_load(&shared->witness[i]) != WITNESS_READY)
			if (reap_within(witnesses[i], NSEC_PER_MSEC, &result))
				die("there is no witness");
	}
}

/* Returns false if a witness has failed, or has seen no expiry. */
static bool end_witnesses(void)
{
	bool well = true;
	int i, result;

	for (i = 0; i < 2; i++) {
		atomic_store(&shared->witness[i], WITNESS_SETTLE);
		if (!reap_within(witnesses[i], 3 * PATIENCE, &result)) {
			printf("# a witness does not end\n");
			kill(witnesses[i], SIGKILL);
			result = reap(witnesses[i]);
		}
		printf("# witness by %s: %u expired, at most %.3f ms late\n",
		       i ? "a table" : "calls", atomic_load(&shared->expired[i]),
		       atomic_load(&shared->late_ns[i]) / 1e6);
		well = well && !result && atomic_load(&shared->expired[i]);
	}
	return well;
}

/* Print how often each action succeeded and failed. */
static void print_counts(void)
{
	unsigned int a, e;

	printf("# %-12s %9s  %s\n", "", "success", "errors");
	for (a = 0; a < ACTIONS; a++) {
		printf("# %-12s %9u ", action_names[a], shared->counts[a][0]);
		for (e = 1; e < ERRNOS; e++)
			if (shared->counts[a][e])
				printf(" %s %u", strerrorname_np(e) ?: "?", shared->counts[a][e]);
		printf("\n");
		if (!has_succeeded(a))
			printf("# %s did not succeed once\n", action_names[a]);
	}
}

static struct options parse(int argc, char **argv)
{
	struct options o = { .seconds = 15, .jobs = 2 };
	int option;

	while ((option = getopt(argc, argv, "s:n:t:j:r:")) != -1) {
		__u64 number = option == '?' ? 0 : strtoull(optarg, NULL, 0);

		switch (option) {
		case 's':
			seed_of_run = number;
			break;
		case 'n':
			o.steps = number;
			break;
		case 't':
			o.seconds = number;
			break;
		case 'j':
			o.jobs = number;
			break;
		case 'r':
			o.round = number;
			o.one_round = true;
		}
	}
	if (optind != argc || !o.jobs || o.jobs > MAX_JOBS || !o.seconds)
		die("usage: fuzz [-s SEED] [-n STEPS] [-t SECONDS] [-j JOBS] [-r ROUND]");
	o.jobs = o.one_round ? 1 : o.jobs;
	return o;
}

static void verdict(unsigned int number, bool well, const char *what)
{
	printf("%sok %u %s\n", well ? "" : "not ", number, what);
	fflush(stdout);
	if (!well)
		status = EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	unsigned int i;

	seed_of_run = seed_of_run ?: now_ns() ^ getpid();
	/* Fault injection: silent, and for all kinds of allocations. */
	can_fail = !access("/proc/self/fail-nth", W_OK);
	write_file("/sys/kernel/debug/failslab/verbose", "0");
	write_file("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	write_file("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	shared = must_share(sizeof(*shared));
	write_file(PARAMETER, MEMORY);
	if (chmod(DEVICE, 0666))
		die("%s: %s", DEVICE, strerror(errno));
	printf("# SEED=%llu, %llu s, %u jobs%s\n", seed_of_run, o.seconds, o.jobs,
	       can_fail ? ", and allocations fail" : "");
	printf("1..3\n");
	fflush(stdout);

	start_witnesses();
	verdict(1, apart(fuzz, &o), "everything was as documented, and nothing was left behind");
	verdict(2, end_witnesses(), "the witnesses' timeouts expired as expected");
	if (status) {
		for (i = 0; i < o.jobs; i++)
			print_steps(i);
		printf("# again: fuzz -s %llu (-r with the number of the round)\n", seed_of_run);
	}
	write_file(PARAMETER, "0");
	print_counts();
	verdict(3, all_succeeded() || o.one_round || o.steps, "everything succeeded at least once");
	return status;
}
