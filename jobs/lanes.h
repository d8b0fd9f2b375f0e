/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * lanes: start runs that are due. Each lane has a number of places for running jobs. Jobs whose
 * runs are slow have a lane of their own, so that they do not delay others. A job has at most one
 * run at a time; its block strategy decides about a run that is due while another runs or waits.
 */
#ifndef LANES_H
#define LANES_H

#include <sys/types.h>

#include <libhwtimer.h>

#include "due.h"
#include "output.h"
#include "store.h"

struct lane;

/* A job that has runs: planned, waiting or running. */
struct job {
	struct job_row	row;		/* of its texts only the name */
	char		**argv;
	char		*script;	/* what is run with the arguments; or NULL: argv[0] is */
	struct schedule	schedule;
	bool		routed;		/* its runs are offered to executors */

	/* used by sched.c */
	GQueue		planned;	/* runs, in the order in which they are to start */
	hwtimer_id	timeout;	/* for the first planned run; 0: none */
	unsigned int	seen;		/* number of the reading in which its run was held */

	/* used by lanes.c */
	GQueue		waiting;	/* due runs that wait for a place, in the same order */
	struct run	*running;
	struct lane	*lane;		/* lane in which it waits or runs; or NULL */
	__s64		missed;		/* the last row that drop_stale() wrote, or 0 */
	const char	*ending;	/* state of the run that is being ended; or NULL */
	__s64		deadline;	/* CLOCK_MONOTONIC, when to end or kill the run; or NEVER */
	hwtimer_id	limit;		/* timeout for that; 0: none */
	char		**environment;	/* of the run */
	struct output	output;		/* of the run */
	char		*cgroup;	/* control group of the run; NULL: it has none */
	pid_t		pid;
	int		pidfd;
	__s64		launched;	/* CLOCK_MONOTONIC */
};

struct options {
	__s64		window;		/* jobs are read so far ahead; later is a misfire */
	__s64		keep;		/* for how long outputs are kept */
	bool		executes;	/* start what others plan and assign; plan nothing */
	__s64		fast_places, slow_places;
	__s64		slow_time;	/* a run that takes longer is slow */
	__s64		slow_runs;	/* a job with more slow runs ... */
	__s64		slow_within;	/* ... within this time is on the slow lane */
};

void runs_insert(GQueue *runs, struct run *run);
bool runs_have(const GQueue *runs, __s64 id);

/*
 * Adds pidfds of children to the epoll set @epoll_fd, with their struct job as data. In events of
 * @timers that are for lanes_limit(), that is user_data | LANES_LIMIT.
 */
void lanes_setup(const struct options *options, int epoll_fd, struct hwtimer *timers);
#define LANES_LIMIT	1

/* The run is due: queue it, or discard it. */
void lanes_due(struct job *job, struct run *run);

/*
 * lanes_fill() chooses runs for free places and writes to the database that they are started, or
 * offered, if the job has a route; returns how many were offered, as others may wait for the next
 * call. When that is committed, lanes_launch() starts them. It returns how many could not be
 * started; -1: the scheduler's lease ended before all were started.
 */
int lanes_fill(void);
int lanes_launch(void);

/* Forget all runs except those whose commands were started. */
void lanes_forget(void);
/* End the command of @job, if it has one: another scheduler took over. */
void lanes_kill(struct job *job);

/* End the command of @job, if it has one, by SIGTERM, then SIGKILL. Its run becomes @state. */
void lanes_end(struct job *job, const char *state);
/* The timeout job->limit has expired. */
void lanes_limit(struct job *job);

/* End all runs of @job, in favour of a later one. */
void lanes_cover(struct job *job);

/*
 * Executors hold a run of this job, of which @run is one row: no other may begin.
 * lanes_is_held(): has that been said? lanes_let_go(): they do not any more.
 */
void lanes_hold(struct job *job, struct run *run);
bool lanes_is_held(const struct job *job);
void lanes_let_go(struct job *job);
/* Does the job wait or run for this row? */
bool lanes_have(const struct job *job, __s64 id);

/* The child of @job ended. */
void lanes_reap(struct job *job);
/* An event with (char *)job + LANES_OUTPUT, before that: its output is readable. */
#define LANES_OUTPUT	1
/* Write what has changed of the output of its running command. */
void lanes_write(struct job *job);

/* Returns the number of children. */
unsigned int lanes_running(void);

/* In sched.c. Free the job if it has no runs and no timeout. */
void job_put(struct job *job);
/*
 * Read jobs that are due soon, schedule timeouts for them, and run them when due. Runs until
 * SIGTERM or SIGINT, then waits for running commands.
 */
void sched_run(const struct options *options);
/* In dispatch.c. Assign each run that nobody holds, if there is an executor for it. */
void dispatch(void);

#endif /* LANES_H */
