// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fuzzer for /dev/hwtimer: its ioctls, its records, and the memory of its rings.
 *
 *	hwtimer_fuzz [-s SEED] [-n STEPS] [-t SECONDS] [-j JOBS] [-r ROUND]
 *
 * It does random steps, most of them nearly valid, until it has done STEPS of them or
 * SECONDS have passed, in JOBS processes at a time. Each round of these is a process of its
 * own, which may be killed at any time. Meanwhile two witnesses use the device correctly.
 * The checks:
 *
 *	the witnesses' timeouts expire once, never early, and not very late
 *	a context's counters add up; where all that was done to it is known, they and
 *	the records match the fuzzer's books
 *	an ioctl fails only as documented, has no effect then, and does not succeed
 *	with an invalid argument
 *	when everything is closed nothing is left: timeouts, wheels, charges, references
 *
 * The kernel's log is checked elsewhere. SEED is printed; with it each thread of a round
 * does the same again, as far as that depends on the thread. -r repeats a single round.
 * The output is TAP.
 *
 * Without -n and -r every action must succeed at least once, as a run with nothing but
 * errors would prove nothing.
 */
#include "fuzz.h"

#include <getopt.h>
#include <stdarg.h>
#include <sys/prctl.h>

/* A round that takes longer counts as hung. */
#define ROUND_LIMIT	(3 * PATIENCE)

/* How often to stop everything and check that nothing is left. */
#define EPOCH		(5 * NSEC_PER_SEC)

/* Do at least so many steps, unless six times the duration has passed. */
#define FEWEST_STEPS	5000

/* Quotas so low that they are reached, and that the memory suffices. */
#define USER_TIMEOUTS	20000
#define USER_RATE	5000

struct shared *shared;
struct run run;

const char *const action_names[ACTIONS] = {
	[DO_SETUP] = "SETUP", [DO_SCHEDULE] = "SCHEDULE", [DO_TOUCH] = "TOUCH",
	[DO_CANCEL] = "CANCEL", [DO_QUERY] = "QUERY", [DO_STOP] = "STOP",
	[DO_STATS] = "STATS", [DO_RINGS] = "RINGS",
	[DO_ENTER] = "ENTER", [DO_LIST] = "LIST", [DO_WHEELS] = "WHEELS",
	[DO_RESIZE] = "RESIZE",
	[DO_PERIODIC] = "SCHEDULE, periodic",
	[IN_RING] = "in a ring: no op",
	[IN_RING + HWTIMER_OP_SCHEDULE] = "in a ring: SCHEDULE",
	[IN_RING + HWTIMER_OP_TOUCH] = "in a ring: TOUCH",
	[IN_RING + HWTIMER_OP_CANCEL] = "in a ring: CANCEL",
	[IN_RING + NO_OP] = "in a ring: op 4",
	[IN_RING + HWTIMER_OP_NOP] = "in a ring: NOP",
	[DO_GARBAGE] = "garbage", [DO_OPEN] = "open", [DO_CLOSE] = "close",
	[DO_DUP] = "dup", [DO_READ] = "read", [DO_READV] = "readv", [DO_POLL] = "poll",
	[DO_EPOLL] = "epoll", [DO_FDINFO] = "fdinfo", [DO_MMAP] = "mmap",
	[DO_MUNMAP] = "munmap", [DO_MPROTECT] = "mprotect", [DO_MREMAP] = "mremap",
	[DO_MADVISE] = "madvise", [DO_SCRIBBLE] = "scribble", [DO_SUBMIT] = "submit",
	[DO_RECORDS] = "read the ring", [DO_SPOIL] = "spoil", [DO_FORK] = "fork",
	[DO_EXEC] = "exec", [DO_KILL] = "kill",
};

/* Actions that cannot succeed, or hardly ever. */
static bool cannot(enum action action)
{
	return action == IN_RING || action == IN_RING + NO_OP || action == DO_GARBAGE ||
	       action == DO_MADVISE;	/* not in each kernel */
}

char who_i_am[32] = "the fuzzer";
static int my_job = -1;
static __u64 my_round;

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
	if (my_job >= 0)
		print_steps(my_job);
	_exit(1);
}

/**
 * print_steps - print the last steps of a job
 * @job: its number
 */
void print_steps(int job)
{
	const struct job *j = &shared->jobs[job];
	unsigned int n = atomic_load(&j->next_step), i, k;
	static const char *const places[] = {
		"", " at the fence", " beyond the fence", " read only", " nowhere",
		" in the ring", " hostile",
	};
	char text[512];
	int len;

	for (i = n < STEPS ? 0 : n - STEPS; i < n; i++) {
		const struct step *s = &j->steps[i % STEPS];

		if (s->number != i || s->round != my_round)
			continue;
		len = snprintf(text, sizeof(text), "# %6u thread %u context %u: %s%s", i,
			       s->thread, s->context, action_names[s->action],
			       places[s->place]);
		if (s->size) {
			len += snprintf(text + len, sizeof(text) - len, " %u:", s->size);
			for (k = 0; k < 8; k++)
				len += snprintf(text + len, sizeof(text) - len, " %llx",
						s->words[k]);
		}
		if (s->done)
			len += snprintf(text + len, sizeof(text) - len, " = %d\n", s->ret);
		else
			len += snprintf(text + len, sizeof(text) - len, " ...\n");
		if (write(STDOUT_FILENO, text, len) < 0)
			return;
	}
}

/* Jobs run one round after the other. */

static void print_file(const char *path)
{
	char text[2048], *line, *next;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = read(fd, text, sizeof(text) - 1);

	close(fd);
	if (len <= 0)
		return;
	text[len] = 0;
	printf("# %s:\n", path);
	for (line = text; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (*line)
			printf("#   %s\n", line);
	}
}

/* Print where the threads of a process sleep. */
static void print_tasks(pid_t pid)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stack", pid, e->d_name);
		print_file(path);
	}
	if (dir)
		closedir(dir);
	fflush(stdout);
}

/* Wait for a process, or for any child; 0: none within @ns. */
static pid_t reap_within(pid_t pid, __u64 ns, int *status)
{
	__u64 end = now_ns() + ns;
	pid_t ret;

	for (;;) {
		ret = waitpid(pid, status, WNOHANG);
		if (ret || now_ns() > end)
			return ret;
		usleep(200);
	}
}

static void check_status(int status, bool killed)
{
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return;
	if (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return;
	/* The process has reported why. */
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		return;
	fail("round %llu ended with status %x", my_round, status);
}

/* Initialised for each round: a process that held it may have been killed. */
static void init_forking(struct job *job)
{
	pthread_mutexattr_t shared_by_processes;

	pthread_mutexattr_init(&shared_by_processes);
	pthread_mutexattr_setpshared(&shared_by_processes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&job->forking, &shared_by_processes);
	pthread_mutexattr_destroy(&shared_by_processes);
}

static void do_round(unsigned int job, __u64 round)
{
	struct plan plan = plan_round(round);
	int status = 0, killed = 0;
	pid_t pid;

	init_forking(&shared->jobs[job]);
	my_round = round;
	snprintf(who_i_am, sizeof(who_i_am), "round %llu", round);
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		run_round(&plan, job, round);
	}
	setpgid(pid, pid);
	if (plan.kill_after_us) {
		usleep(plan.kill_after_us);
		pthread_mutex_lock(&shared->jobs[job].forking);
		killed = !kill(-pid, SIGKILL);
		count(DO_KILL, killed ? 0 : -ESRCH);
	}
	if (!reap_within(pid, ROUND_LIMIT, &status)) {
		print_tasks(pid);
		kill(-pid, SIGKILL);
		fail("round %llu hangs", round);
	}
	/* Its children have become ours. */
	kill(-pid, SIGKILL);
	check_status(status, killed);
	while ((pid = reap_within(-1, ROUND_LIMIT, &status)) != -1)
		if (!pid)
			fail("round %llu: its children do not end", round);
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

/* On a slow machine, every action should have had its chance. */
static bool too_few(const struct options *o)
{
	return !o->steps && !o->one_round && atomic_load(&shared->steps) < FEWEST_STEPS;
}

/* One round after the other; @next is the number of the next one. */
static void be_job(const struct options *o, unsigned int job, atomic_ullong *next, __u64 end)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	my_job = job;
	do {
		do_round(job, o->one_round ? o->round : atomic_fetch_add(next, 1));
	} while (!enough(o) && now_ns() < end);
	_exit(0);
}

/* Objects in the kernel that belong to the run. */
struct inventory {
	__u64 timeouts, wheels, rate, pending;
	int references, directories;
};

static int count_wheels(void)
{
	DIR *dir = opendir(HWT_DEBUGFS);
	struct dirent *e;
	int n = 0;

	if (!dir)
		die("%s: %s", HWT_DEBUGFS, strerror(errno));
	while ((e = readdir(dir)))
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

static struct inventory take_inventory(int fd)
{
	return (struct inventory){
		.timeouts = must_fdinfo(fd, "user_timeouts"),
		.wheels = must_fdinfo(fd, "user_wheels"),
		.rate = must_fdinfo(fd, "user_rate"),
		.pending = must_wheel_value("dev", "pending"),
		.references = module_references(),
		.directories = count_wheels(),
	};
}

static void print_inventory(const char *when, const struct inventory *i)
{
	printf("# %s: timeouts %llu wheels %llu rate %llu", when, i->timeouts, i->wheels,
	       i->rate);
	printf(" pending %llu references %d directories %d\n", i->pending, i->references,
	       i->directories);
	fflush(stdout);
}

/* Check that all is as before, except for at most @pending timeouts of the witnesses. */
static void check_inventory(int fd, const struct inventory *before, unsigned int pending)
{
	__u64 end = now_ns() + PATIENCE;
	struct inventory i;

	for (;;) {
		i = take_inventory(fd);
		if (i.timeouts == before->timeouts && i.wheels == before->wheels &&
		    i.rate == before->rate && i.references == before->references &&
		    i.directories == before->directories &&
		    i.pending <= before->pending + pending)
			return;
		if (now_ns() > end)
			break;
		usleep(10000);
	}
	print_inventory("before", before);
	print_inventory("now", &i);
	fail("something was left behind");
}

static void run_epoch(const struct options *o, atomic_ullong *next, __u64 end)
{
	pid_t pids[MAX_JOBS];
	unsigned int i;
	int status;

	for (i = 0; i < o->jobs; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			die("fork: %s", strerror(errno));
		if (!pids[i])
			be_job(o, i, next, end);
	}
	for (i = 0; i < o->jobs; i++) {
		status = reap(pids[i]);
		if (status && !atomic_load(&shared->failed))
			fail("a job ended with status %d", status);
	}
}

static pid_t witnesses[2];

static void start_witnesses(void)
{
	int i, status;

	for (i = 0; i < 2; i++) {
		witnesses[i] = fork();
		if (witnesses[i] < 0)
			die("fork: %s", strerror(errno));
		if (!witnesses[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			be_witness(i, mix(run.seed, ~(__u64)i));
		}
		while (atomic_load(&shared->witness[i]) != WITNESS_READY)
			if (reap_within(witnesses[i], NSEC_PER_MSEC, &status))
				die("there is no witness");
	}
}

/* Returns false if a witness has failed, or has seen no expiry. */
static bool end_witnesses(void)
{
	bool well = true;
	int i, status;

	for (i = 0; i < 2; i++) {
		atomic_store(&shared->witness[i], WITNESS_SETTLE);
		if (!reap_within(witnesses[i], 3 * PATIENCE, &status)) {
			printf("# a witness does not end\n");
			kill(witnesses[i], SIGKILL);
			status = reap(witnesses[i]);
		}
		printf("# witness %s: %u expired, at most %.3f ms late\n",
		       i ? "by rings" : "by ioctl", atomic_load(&shared->witnessed[i]),
		       atomic_load(&shared->witnessed_late[i]) / 1e6);
		well = well && !status && atomic_load(&shared->witnessed[i]);
	}
	return well;
}

static const char *error_name(int error)
{
	const char *name = strerrorname_np(error);

	return name ? name : "?";
}

/* Print how often each action succeeded and failed; returns true if all succeeded. */
static bool print_counts(void)
{
	bool all = true;
	unsigned int a, e, n;

	printf("# %-22s %9s  %s\n", "", "success", "errors");
	for (a = 0; a < ACTIONS; a++) {
		printf("# %-22s %9u ", action_names[a], shared->counts[a][0]);
		for (e = 1; e < ERRNOS; e++) {
			n = shared->counts[a][e];
			if (n)
				printf(" %s %u", error_name(e), n);
		}
		printf("\n");
		if (!shared->counts[a][0] && !cannot(a)) {
			printf("# %s did not succeed once\n", action_names[a]);
			all = false;
		}
	}
	return all;
}

static void usage(void)
{
	fprintf(stderr,
		"usage: hwtimer_fuzz [-s SEED] [-n STEPS] [-t SECONDS] [-j JOBS] [-r ROUND]\n");
	exit(2);
}

static __u64 number_of(const char *text)
{
	char *end;
	__u64 value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end || *text == '-')
		usage();
	return value;
}

static struct options parse(int argc, char **argv)
{
	struct options o = { .seconds = 15, .jobs = online_cpus() };
	int option;

	o.jobs = o.jobs < MAX_JOBS ? o.jobs : MAX_JOBS;
	while ((option = getopt(argc, argv, "s:n:t:j:r:x:")) != -1) {
		switch (option) {
		case 's':
			run.seed = number_of(optarg);
			break;
		case 'n':
			o.steps = number_of(optarg);
			break;
		case 't':
			o.seconds = number_of(optarg);
			break;
		case 'j':
			o.jobs = number_of(optarg);
			break;
		case 'r':
			o.round = number_of(optarg);
			o.one_round = true;
			break;
		case 'x':	/* executed by a round */
			be_executed(number_of(optarg));
		default:
			usage();
		}
	}
	if (optind != argc || !o.jobs || o.jobs > MAX_JOBS || !o.seconds)
		usage();
	run.seed = run.seed ?: seed();
	return o;
}

static int status = EXIT_SUCCESS;

static void verdict(unsigned int number, bool well, const char *what)
{
	printf("%sok %u %s\n", well ? "" : "not ", number, what);
	fflush(stdout);
	if (!well)
		status = EXIT_FAILURE;
}

/* Run rounds until the time is over. */
static void fuzz(const struct options *o)
{
	__u64 began = now_ns(), end = began + o->seconds * NSEC_PER_SEC;
	__u64 late = began + 6 * o->seconds * NSEC_PER_SEC, epoch;
	atomic_ullong *next = must_share(sizeof(*next));
	struct inventory before;
	int fd = must_open(0);

	before = take_inventory(fd);
	do {
		epoch = now_ns() + EPOCH;
		run_epoch(o, next, epoch < end || now_ns() > end ? epoch : end);
		if (atomic_load(&shared->failed))
			break;
		check_inventory(fd, &before, 200);
		printf("# %llu s: %u rounds, %u steps\n",
		       (now_ns() - began) / NSEC_PER_SEC, atomic_load(&shared->rounds),
		       atomic_load(&shared->steps));
		fflush(stdout);
	} while (!enough(o) && (now_ns() < end || (now_ns() < late && too_few(o))));
	close(fd);
}

/* In a process of its own, which fail() can end. */
static void fuzz_apart(const struct options *o)
{
	pid_t pid = must_fork();
	int status;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fuzz(o);
		_exit(0);
	}
	status = reap(pid);
	if (status && !atomic_load(&shared->failed)) {
		printf("# the fuzzer ended with status %d\n", status);
		atomic_fetch_add(&shared->failed, 1);
	}
}

static bool nothing_left(int fd, const struct inventory *before)
{
	pid_t pid = fork();

	if (!pid) {
		check_inventory(fd, before, 0);
		_exit(0);
	}
	return !reap(pid);
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct inventory before;
	__u64 timeouts, rate;
	bool well, all;
	int fd;

	/* Fault injection: silent, and for all kinds of allocations. */
	run.fail_nth = !access("/proc/self/fail-nth", W_OK);
	if (run.fail_nth) {
		write_file("/sys/kernel/debug/failslab/verbose", "0");
		write_file("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
		/* Kernels may lack these. */
		write_file("/sys/kernel/debug/fail_page_alloc/verbose", "0");
		write_file("/sys/kernel/debug/fail_usercopy/verbose", "0");
	}
	run.tick_ns = must_get_parameter("tick_ns");
	run.self = "/proc/self/exe";
	shared = must_share(sizeof(*shared));
	timeouts = must_get_parameter("max_user_timeouts");
	rate = must_get_parameter("max_user_rate");
	set_parameter("max_user_timeouts", USER_TIMEOUTS);
	set_parameter("max_user_rate", USER_RATE);
	printf("# SEED=%llu, %llu s, %u jobs%s\n", run.seed, o.seconds, o.jobs,
	       run.fail_nth ? ", and allocations fail" : "");
	printf("1..4\n");
	fflush(stdout);

	fd = must_open(0);
	before = take_inventory(fd);
	start_witnesses();
	fuzz_apart(&o);
	well = !atomic_load(&shared->failed);
	verdict(1, well, "everything had the expected effect");
	if (!well)
		printf("# again: hwtimer_fuzz -s %llu (-r with the number of the round)\n",
		       run.seed);
	verdict(2, end_witnesses(), "the witnesses' timeouts expired as expected");
	verdict(3, nothing_left(fd, &before), "nothing was left behind");
	close(fd);
	set_parameter("max_user_timeouts", timeouts);
	set_parameter("max_user_rate", rate);
	all = print_counts();
	verdict(4, all || o.one_round || o.steps, "everything succeeded at least once");
	return status;
}
