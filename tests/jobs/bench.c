// SPDX-License-Identifier: GPL-2.0-only
/*
 * usage: bench CONNINFO lease|lock SCHEDULERS SECONDS
 *
 * How many due times of jobs SCHEDULERS processes plan, start and end per second, without running
 * any commands; see docs/jobs.
 *
 *	lease	as hwtimer-jobs does it, with its store: jobs are claimed with SKIP LOCKED
 *	lock	the same statements, but each scheduler locks one row, the same for all, while it
 *		reads jobs and starts them, as XXL-JOB 2 does (schedule_lock)
 *
 * Makes the tables in an empty database, with more due times than can be run.
 */
#include "../../jobs/store_pg.c"

#include <sys/mman.h>
#include <sys/wait.h>

#define JOBS	2000
#define BATCH	64	/* as in FIRST_DUE */
#define WINDOW	(5 * NS_PER_S)

static bool global_lock;

/* Plan, start and end a batch of runs. Returns how many. */
static int round_of_jobs(void)
{
	__s64 runs[BATCH], ids[BATCH];
	struct job_row job;
	int i, n = 0;

	store_renew();
	if (global_lock)
		PQclear(execute("SELECT name FROM bench_lock WHERE name = 'schedule_lock'"
				" FOR UPDATE"));
	while (n < BATCH && store_first_due(now() + WINDOW, &job)) {
		ids[n] = job.id;
		runs[n++] = store_plan(job.id, job.next, job.next + NS_PER_S, "due");
		store_next(job.id, job.next + NS_PER_S);
	}
	for (i = 0; i < n; i++)
		if (!store_started(runs[i], "fast"))
			errx(1, "a run was not planned");
	if (!store_commit())
		errx(1, "not committed");
	for (i = 0; i < n; i++) {
		store_ended(runs[i], "done", 0, 0);
		store_release(ids[i]);
	}
	if (!store_commit())
		errx(1, "not committed");
	return n;
}

static void schedule(const char *conninfo, __s64 end, __s64 *count)
{
	store_open(conninfo, false);
	store_lock(conninfo, 60 * NS_PER_S);
	while (clock_ns(CLOCK_MONOTONIC) < end)
		*count += round_of_jobs();
	store_close();
}

int main(int argc, char **argv)
{
	static char *const command[] = { "true", NULL };
	struct job_row row = { .every = NS_PER_S };
	int schedulers, seconds, status, i;
	__s64 *counts, begin, total = 0;
	char job[16];

	if (argc != 5 || (strcmp(argv[2], "lease") && strcmp(argv[2], "lock")))
		errx(2, "usage: bench CONNINFO lease|lock SCHEDULERS SECONDS");
	global_lock = !strcmp(argv[2], "lock");
	schedulers = atoi(argv[3]);
	seconds = atoi(argv[4]);

	store_open(argv[1], true);
	for (i = 0; i < JOBS; i++) {
		snprintf(job, sizeof(job), "job%d", i);
		row.name = job;
		row.next = now() - 86400 * NS_PER_S + i * NS_PER_MS;
		store_add(&row, command);
	}
	store_commit();
	PQclear(execute("CREATE TABLE bench_lock (name text PRIMARY KEY);"
			"INSERT INTO bench_lock VALUES ('schedule_lock'); ANALYZE"));
	store_close();

	counts = mmap(NULL, schedulers * sizeof(*counts), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		err(1, "mmap");
	memset(answers, 0, sizeof(answers));
	begin = clock_ns(CLOCK_MONOTONIC);
	for (i = 0; i < schedulers; i++) {
		if (!fork()) {
			schedule(argv[1], begin + seconds * NS_PER_S, &counts[i]);
			exit(0);
		}
	}
	for (i = 0; i < schedulers; i++) {
		if (wait(&status) < 0 || status)
			errx(1, "a scheduler failed");
	}
	for (i = 0; i < schedulers; i++)
		total += counts[i];
	printf("%.0f\n", total * 1e9 / (clock_ns(CLOCK_MONOTONIC) - begin));
	return 0;
}
