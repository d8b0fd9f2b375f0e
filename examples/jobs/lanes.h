/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * lanes: run what is due. Jobs whose runs are slow have a lane of their own, with places of
 * its own, so they do not keep others waiting. Of a job one run is going at a time; the
 * block strategy says what becomes of one that is due while another runs or waits.
 */
#ifndef LANES_H
#define LANES_H

#include <sys/types.h>

#include <libhwtimer.h>

#include "store.h"

struct run {
	struct run	*next;
	__s64		id;
	__s64		due;
};

/* Runs, in the order of their due times. */
struct runs {
	struct run	*first, *last;
};

struct lane;

/* A job of which there are runs. */
struct job {
	__s64		id;
	char		*name;
	char		**argv;
	struct schedule	schedule;
	enum misfire	misfire;
	enum block	block;

	/* of sched.c */
	struct runs	planned;
	hwtimer_id	timeout;	/* for the first of them; 0: none */

	/* of lanes.c */
	struct runs	waiting;	/* they are due */
	struct run	*running;
	struct lane	*lane;		/* where it waits for a place, or has one; or NULL */
	struct job	*next;		/* in the queue of the lane, or to be launched */
	bool		covered;	/* the running one was killed for a later one */
	pid_t		pid;
	int		pidfd;
	__s64		launched;	/* CLOCK_MONOTONIC */
};

struct lane_options {
	unsigned int	fast_places, slow_places;
	__s64		slow_time;	/* longer is slow */
	__s64		slow_runs;	/* with more of these */
	__s64		slow_within;	/* within this time its lane is the slow one */
};

void runs_append(struct runs *runs, struct run *run);
struct run *runs_take(struct runs *runs);

/* Children become readable in epoll set @epoll_fd, with their struct job as data. */
void lanes_setup(const struct lane_options *options, int epoll_fd);

/* The run is due: it is to be started, or discarded. */
void lanes_due(struct job *job, struct run *run);

/*
 * lanes_fill() chooses what there is room for and writes down that it is started; when
 * that is committed, lanes_launch() starts it. It returns how many could not be.
 */
void lanes_fill(void);
int lanes_launch(void);

/* The job's child ended. */
void lanes_reap(struct job *job);

/* How many children there are. */
unsigned int lanes_running(void);

/* Free the job, if there is nothing more to do for it. Of sched.c. */
void job_put(struct job *job);

#endif /* LANES_H */
