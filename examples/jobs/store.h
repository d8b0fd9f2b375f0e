/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * store: the jobs, and what became of each of their due times, in a SQLite database.
 *
 * What is written goes into one transaction, which begins with the first write and is on
 * the disk when store_commit() returns. Whatever the database refuses ends the program: it
 * must do nothing that it cannot write down.
 */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>

#include "times.h"

enum misfire { MISFIRE_NOTHING, MISFIRE_ONCE };
enum block { BLOCK_SERIAL, BLOCK_DISCARD, BLOCK_COVER };

/* As they are in the table, and on the command line. */
extern const char *const misfires[2], *const blocks[3];

struct job_row {
	__s64		id;
	const char	*name;
	const char	*cron;		/* NULL: every */
	__s64		every;
	enum misfire	misfire;
	enum block	block;
	__s64		next;		/* due time that is planned next, or NEVER */
};

/* Open @path. With @create it is made if it is not there. */
void store_open(const char *path, bool create);
void store_close(void);

/* Be the only scheduler of this database, until the process ends. */
void store_lock(const char *path);

void store_commit(void);

void store_add(const struct job_row *row, char *const *argv);
/* False if there is no such job. */
bool store_remove(const char *name);
/* Forget what became of due times before @before, if that is settled. */
void store_trim(__s64 before);
bool store_has(const char *name);

/*
 * Jobs, one at a time; the strings are good until the next call, or store_commit().
 * store_first_due(): the one that is due first, if that is not after @until. store_job():
 * that with this id. store_each_job(): all, by name, one a call, until it says false.
 */
bool store_first_due(__s64 until, struct job_row *row);
bool store_job(__s64 id, struct job_row *row);
bool store_each_job(struct job_row *row);
/* The command; the array, which ends with NULL, and its strings are the caller's. */
char **store_argv(__s64 job);

/*
 * What becomes of a due time of a job:
 *
 *	planned -> started -> done		it ran, and this is its status
 *		|	   -> covered		killed for a later one
 *		|	   -> interrupted	the scheduler ended; how far did it get?
 *		-> discarded			the one before it was not done yet
 *		-> covered			a later one took its place
 *		-> missed			by more than the window
 *
 * No row has another way to go. One that is missed from the start stands for all due times
 * before until; all others for one, and until is the next of the job. So the rows of a job
 * are a chain without a gap, from its first due time to the one that is planned next.
 */
__s64 store_plan(__s64 job, __s64 due, __s64 until, const char *cause);
void store_missed(__s64 job, __s64 due, __s64 until);
void store_next(__s64 job, __s64 next);
/* False if it is no longer there: the job was removed. */
bool store_started(__s64 run, const char *lane);
/* @took, @status: NEVER: it did not run */
void store_ended(__s64 run, const char *state, __s64 took, __s64 status);

/* How many runs of the job that ended after @since took longer than @took. */
__s64 store_slow_runs(__s64 job, __s64 since, __s64 took);

/*
 * What the scheduler before this one left: what it had started is interrupted; what it
 * had planned for before @too_late is missed, but for the oldest of a job that is to run
 * once and that is not too late for its next due time. Returns how many were interrupted.
 */
int store_recover(__s64 too_late);
/* What is planned now, in order of due times, one a call, until it says false. */
bool store_each_planned(__s64 *run, __s64 *job, __s64 *due);

struct run_row {
	const char	*job, *cause, *state, *lane;
	__s64		due, until, started, took, status;	/* or NEVER */
};

/* All runs, of one job or, NULL, of all. */
bool store_each_run(const char *job, struct run_row *row);

#endif /* STORE_H */
