// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lanes.h"

/* Exit status if the command could not be run, as in a shell. */
#define NOT_RUN		127
/* Runs offered in one transaction, which executors wait for. */
#define OFFER_MAX	64
#define CGROUPS		"/sys/fs/cgroup"
#define CGROUP_NAME	"hwtimer-run-"

static struct lane {
	const char	*name;
	unsigned int	places, busy;
	GQueue		waiting;	/* jobs, for a place */
} lanes[] = { { .name = "fast" }, { .name = "slow" }, { .places = UINT_MAX } };

/* In the last one "run" means that executors hold the run. */
enum { FAST, SLOW, OFFERED };

static struct options options;
static GQueue to_launch;
static int epoll_fd;
static char *cgroup_pattern;	/* of the control groups of runs; NULL: they have none */
static GPtrArray *cgroups_left;	/* which are to be removed */
static struct hwtimer *timers;

void runs_insert(GQueue *runs, struct run *run)
{
	GList *before = runs->tail;

	/* Nearly always it is the last one. */
	while (before && ((struct run *)before->data)->start > run->start)
		before = before->prev;
	g_queue_insert_after(runs, before, run);
}

bool runs_have(const GQueue *runs, __s64 id)
{
	GList *at;

	for (at = runs->head; at && ((struct run *)at->data)->id != id; at = at->next)
		;
	return at;
}

/* Write @text to a file of a control group. */
static void cgroup_write(const char *cgroup, const char *file, const char *text)
{
	char *name = g_build_filename(cgroup, file, NULL);
	int fd = open(name, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		warn("%s", name);
	if (fd >= 0)
		close(fd);
	g_free(name);
}

/* Remove the control groups of runs that are over, unless a process is still about to end. */
static void cgroups_sweep(void)
{
	guint i;

	for (i = cgroups_left->len; i-- > 0;)
		if (!rmdir(cgroups_left->pdata[i]) || errno == ENOENT)
			g_ptr_array_remove_index_fast(cgroups_left, i);
}

/* Find those of schedulers that have ended. */
static void cgroups_find_left(void)
{
	glob_t found;
	size_t i;

	cgroups_left = g_ptr_array_new_with_free_func(g_free);
	if (cgroup_pattern && !glob(cgroup_pattern, 0, NULL, &found)) {
		for (i = 0; i < found.gl_pathc; i++)
			if (kill(atoi(found.gl_pathv[i] + strlen(cgroup_pattern) - 1), 0))
				g_ptr_array_add(cgroups_left, g_strdup(found.gl_pathv[i]));
		globfree(&found);
	}
	cgroups_sweep();
}

/* Each run has a control group in that of the scheduler, if that is of version 2 and is allowed. */
static void cgroups_find(void)
{
	char *text, *at, *mine;

	if (!g_file_get_contents("/proc/self/cgroup", &text, NULL, NULL))
		return;
	at = g_str_has_prefix(text, "0::") ? text : strstr(text, "\n0::");
	if (at) {
		at = strstr(at, "0::") + 3;
		at[strcspn(at, "\n")] = 0;
		mine = g_build_filename(CGROUPS, at, "cgroup.procs", NULL);
		if (!access(mine, W_OK))
			cgroup_pattern = g_build_filename(CGROUPS, at, CGROUP_NAME "*", NULL);
		g_free(mine);
	}
	g_free(text);
}

static void cgroup_make(struct job *job)
{
	if (!cgroup_pattern)
		return;
	job->cgroup = g_strdup_printf("%.*s%d-%lld", (int)strlen(cgroup_pattern) - 1,
				      cgroup_pattern, getpid(), job->running->id);
	if (mkdir(job->cgroup, 0755)) {
		g_free(job->cgroup);
		job->cgroup = NULL;
	}
}

static void cgroup_forget(struct job *job)
{
	if (job->cgroup)
		g_ptr_array_add(cgroups_left, job->cgroup);
	job->cgroup = NULL;
	cgroups_sweep();
}

/* Kill the command of the job, and what it has started. The child was not reaped. */
static void kill_run(const struct job *job)
{
	kill(-job->pid, SIGKILL);
	if (job->cgroup)
		cgroup_write(job->cgroup, "cgroup.kill", "1");
}

void lanes_setup(const struct options *wanted, int epoll, struct hwtimer *handle)
{
	options = *wanted;
	lanes[FAST].places = options.fast_places;
	lanes[SLOW].places = options.slow_places;
	epoll_fd = epoll;
	timers = handle;
	cgroups_find();
	cgroups_find_left();
}

/* Queue the job on a lane if one of its runs waits and none is running. */
static void queue(struct job *job)
{
	bool slow;

	if (job->lane || !job->waiting.length)
		return;
	slow = !job->routed && store_number(SLOW_RUNS, N(job->row.id),
					    N(db->now() - options.slow_within),
					    N(options.slow_time)) > options.slow_runs;
	job->lane = &lanes[job->routed ? OFFERED : slow ? SLOW : FAST];
	g_queue_push_tail(&job->lane->waiting, job);
}

bool lanes_is_held(const struct job *job)
{
	return job->running && job->lane == &lanes[OFFERED];
}

void lanes_cover(struct job *job)
{
	struct run *run;

	while ((run = g_queue_pop_head(&job->waiting))) {
		store_ended(run->id, "covered", NEVER, NEVER);
		g_free(run);
	}
	if (!job->running || job->ending)
		return;
	job->ending = "covered";
	if (lanes_is_held(job))
		store_write(COVER_HELD, N(job->row.id));
	else
		kill_run(job);
}

/* Let lanes_limit() be called at job->deadline, or now if that is NEVER. */
static void set_limit(struct job *job)
{
	__s64 left = job->deadline - clock_ns(CLOCK_MONOTONIC);
	int ret;

	if (left < 0)
		left = 0;
	if (job->limit)
		ret = hwtimer_touch(timers, job->limit, left);
	else
		ret = hwtimer_schedule(timers, left, (uintptr_t)job | LANES_LIMIT, &job->limit);
	if (ret < 0)
		errx(1, "job '%s': its limit: %s", job->row.name, strerror(-ret));
}

static bool has_ended(const struct job *job)
{
	siginfo_t info = { };

	return !waitid(P_PIDFD, job->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

void lanes_end(struct job *job, const char *state)
{
	if (!job->running || job->ending || lanes_is_held(job) || has_ended(job))
		return;
	job->ending = state;
	kill(-job->pid, SIGTERM);
	job->deadline = clock_ns(CLOCK_MONOTONIC) + job->row.grace;
	set_limit(job);
}

void lanes_limit(struct job *job)
{
	job->limit = 0;
	if (!job->running || job->deadline == NEVER)
		return;
	if (clock_ns(CLOCK_MONOTONIC) < job->deadline) {
		set_limit(job);
	} else if (!job->ending) {
		lanes_end(job, "timeout");
	} else {
		job->deadline = NEVER;
		kill_run(job);
	}
}

/*
 * Of the runs that have waited for longer than the window, only the last one is run. So a job whose
 * runs take longer than its period, or than those that it follows, does not queue ever more.
 */
static void drop_stale(struct job *job)
{
	__s64 stale = clock_ns(CLOCK_MONOTONIC) - options.window;
	struct run *run;

	if (job->row.misfire == MISFIRE_ALL)
		return;
	while (job->waiting.length > 1 && (run = job->waiting.head->data)->queued < stale &&
	       run->why <= WHY_AFTER) {
		g_queue_pop_head(&job->waiting);
		if (run->why == WHY_SCHEDULE)
			job->missed = store_skipped(run->id, job->missed);
		else
			store_skipped(run->id, 0);
		g_free(run);
	}
}

void lanes_due(struct job *job, struct run *run)
{
	if (job->running || job->waiting.length) {
		/* A retry is of an earlier run than what covers that. */
		if (job->row.block == BLOCK_DISCARD ||
		    (job->row.block == BLOCK_COVER && run->why == WHY_RETRY)) {
			store_ended(run->id, "discarded", NEVER, NEVER);
			g_free(run);
			return;
		}
		if (job->row.block == BLOCK_COVER)
			lanes_cover(job);
	}
	run->queued = clock_ns(CLOCK_MONOTONIC);
	runs_insert(&job->waiting, run);
	drop_stale(job);
	queue(job);
}

static char **environment_of(const struct job *job)
{
	const struct run *run = job->running;
	/* The scheduler's, not the command's. */
	static const char *const ours[] = {
		"PGPASSWORD", "JOBS_TOKEN", "JOBS_CAUSE", "JOBS_ATTEMPT", "JOBS_EVENT", "JOBS_OF",
		"JOBS_OF_DUE", "JOBS_OF_STATE", "JOBS_OF_STATUS",
	};
	char **environment = g_get_environ(), due[24], index[24], total[24];
	size_t i;

	snprintf(due, sizeof(due), "%lld", run->due);
	snprintf(index, sizeof(index), "%lld", run->shard);
	snprintf(total, sizeof(total), "%lld", run->shards);
	for (i = 0; i < ARRAY_SIZE(ours); i++)
		environment = g_environ_unsetenv(environment, ours[i]);
	environment = g_environ_setenv(environment, "JOBS_NAME", job->row.name, true);
	environment = g_environ_setenv(environment, "JOBS_DUE", due, true);
	environment = g_environ_setenv(environment, "JOBS_INDEX", index, true);
	environment = g_environ_setenv(environment, "JOBS_TOTAL", total, true);
	return run->why == WHY_SCHEDULE ? environment : store_context(run->id, environment);
}

/* Returns how many runs were offered. */
static int fill(struct lane *lane)
{
	struct job *job;
	int offered = 0;
	bool ok;

	while (lane->busy < lane->places && lane->waiting.length && offered < OFFER_MAX) {
		job = g_queue_pop_head(&lane->waiting);
		drop_stale(job);
		job->missed = 0;
		job->running = g_queue_pop_head(&job->waiting);
		/* Its runs may have been forgotten, as somebody changed it. */
		if (!job->running)
			ok = false;
		else if (lane == &lanes[OFFERED])
			ok = store_write(OFFER, N(job->running->id));
		else
			ok = store_write(STARTED, S(lane->name), N(job->running->id));
		if (!ok) {
			g_free(job->running);
			job->running = NULL;
			job->lane = NULL;
			queue(job);
			job_put(job);
			continue;
		}
		lane->busy++;
		job->ending = NULL;
		job->deadline = NEVER;
		if (lane == &lanes[OFFERED]) {
			offered++;
			continue;
		}
		job->environment = environment_of(job);
		g_queue_push_tail(&to_launch, job);
	}
	return offered;
}

int lanes_fill(void)
{
	fill(&lanes[FAST]);
	fill(&lanes[SLOW]);
	return fill(&lanes[OFFERED]);
}

/* Free the place of a run that is over, or is forgotten. */
static void free_running(struct job *job)
{
	g_strfreev(job->environment);
	job->environment = NULL;
	g_free(job->running);
	job->running = NULL;
	job->lane->busy--;
	job->lane = NULL;
}

void lanes_let_go(struct job *job)
{
	free_running(job);
	queue(job);
}

/* Returns the name of a file that is the script. Its interpreter opens it by this name. */
static const char *script_file(const char *script)
{
	static char name[32];
	size_t len = strlen(script);
	int fd = memfd_create("script", 0);

	if (fd < 0 || write(fd, script, len) != (ssize_t)len)
		warn("script");
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return name;
}

/* The same, after its result was written. */
static void finish(struct job *job, const char *state, __s64 took, int status)
{
	output_write(&job->output, job->running->id);
	output_close(&job->output);
	store_ended(job->running->id, state, took, status);
	lanes_let_go(job);
}

void lanes_hold(struct job *job, struct run *run)
{
	if (job->running) {
		if (lanes_is_held(job) && job->ending)
			store_write(COVER_HELD, N(job->row.id));
		g_free(run);
		return;
	}
	if (job->lane)
		g_queue_remove(&job->lane->waiting, job);
	job->running = run;
	job->ending = NULL;
	job->lane = &lanes[OFFERED];
	job->lane->busy++;
}

bool lanes_have(const struct job *job, __s64 id)
{
	return runs_have(&job->waiting, id) || (job->running && job->running->id == id);
}

static void __attribute__((noreturn)) be_child(const struct job *job, pid_t scheduler, int out)
{
	const char *file = job->argv[0];
	sigset_t none;

	/* If the scheduler dies, its runs must not continue beside those of the next scheduler. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != scheduler)
		_exit(NOT_RUN);
	setpgid(0, 0);
	if (job->cgroup)
		cgroup_write(job->cgroup, "cgroup.procs", "0");
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	close(STDIN_FILENO);
	open("/dev/null", O_RDONLY);
	if (out >= 0) {
		dup2(out, STDOUT_FILENO);
		dup2(out, STDERR_FILENO);
	}
	if (job->script)
		file = script_file(job->script);
	execvpe(file, job->argv, job->environment);
	warn("job '%s': %s", job->row.name, job->argv[0]);
	_exit(NOT_RUN);
}

static bool launch(struct job *job)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = job };
	pid_t scheduler = getpid();
	int out = output_open(&job->output, epoll_fd, (char *)job + LANES_OUTPUT);

	cgroup_make(job);
	job->launched = clock_ns(CLOCK_MONOTONIC);
	job->pid = fork();
	if (!job->pid)
		be_child(job, scheduler, out);
	if (out >= 0)
		close(out);
	if (job->pid < 0) {
		warn("job '%s': fork", job->row.name);
		return false;
	}
	setpgid(job->pid, job->pid);	/* here and in the child, whichever runs first */
	job->pidfd = pidfd_open(job->pid, 0);
	if (job->pidfd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, job->pidfd, &event))
		err(1, "pidfd_open");
	if (job->row.timeout != NEVER) {
		job->deadline = job->launched + job->row.timeout;
		set_limit(job);
	}
	return true;
}

int lanes_launch(void)
{
	struct job *job;
	int failed = 0;

	while (to_launch.length) {
		if (!db->owned())
			return -1;
		job = g_queue_pop_head(&to_launch);
		if (launch(job))
			continue;
		cgroup_forget(job);
		finish(job, "done", NEVER, NOT_RUN);
		job_put(job);
		failed++;
	}
	return failed;
}

void lanes_forget(void)
{
	struct job *job;
	int i;

	for (i = FAST; i <= OFFERED; i++)
		while ((job = g_queue_pop_head(&lanes[i].waiting)))
			job->lane = NULL;
	while ((job = g_queue_pop_head(&to_launch)))
		free_running(job);
}

void lanes_kill(struct job *job)
{
	if (job->running && !lanes_is_held(job))
		kill_run(job);
}

void lanes_write(struct job *job)
{
	if (job->running)
		output_write(&job->output, job->running->id);
}

void lanes_reap(struct job *job)
{
	__s64 took = clock_ns(CLOCK_MONOTONIC) - job->launched;
	const char *state = "done";
	siginfo_t info;
	bool killed;

	if (waitid(P_PIDFD, job->pidfd, &info, WEXITED))
		err(1, "waitid");
	/* close() does not suffice: a child that was just forked may have the pidfd, too. */
	if (epoll_ctl(epoll_fd, EPOLL_CTL_DEL, job->pidfd, NULL))
		err(1, "epoll_ctl");
	close(job->pidfd);
	output_read(&job->output);
	killed = info.si_code != CLD_EXITED;
	/* The run may have ended by itself before it was covered. */
	if (job->ending && (strcmp(job->ending, "covered") ||
			    (killed && info.si_status == SIGKILL)))
		state = job->ending;
	job->deadline = NEVER;
	if (job->limit)
		set_limit(job);
	/* What the command has started, if it ended by SIGTERM. */
	if (job->cgroup && job->ending)
		cgroup_write(job->cgroup, "cgroup.kill", "1");
	cgroup_forget(job);
	finish(job, state, took, info.si_status + (killed ? 128 : 0));
	job_put(job);
}

unsigned int lanes_running(void)
{
	return lanes[FAST].busy + lanes[SLOW].busy;
}
