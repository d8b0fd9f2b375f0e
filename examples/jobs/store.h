/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * store: the jobs, and the result of each of their due times, in a SQLite database.
 *
 * Writes are collected in a transaction, which begins with the first write and is on the disk when
 * store_commit() returns. An error of the database ends the program, because it must not do
 * anything that it cannot record.
 */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>

#include "times.h"

enum misfire { MISFIRE_NOTHING, MISFIRE_ONCE };
enum block { BLOCK_SERIAL, BLOCK_DISCARD, BLOCK_COVER };

/* Names in the table and on the command line. */
extern const char *const misfires[2], *const blocks[3];

struct job_row {
	__s64		id;
	const char	*name;
	const char	*cron;		/* NULL: use every */
	__s64		every;
	enum misfire	misfire;
	enum block	block;
	__s64		next;		/* next due time to be planned, or NEVER */
};

/* Open @path; with @create, create it if it does not exist. */
void store_open(const char *path, bool create);
void store_close(void);

/* Lock out other schedulers of this database until the process ends. */
void store_lock(const char *path);

void store_commit(void);

void store_add(const struct job_row *row, char *const *argv);
/* Returns false if there is no such job. */
bool store_remove(const char *name);
/* Delete the rows of due times before @before, unless they are planned or started. */
void store_trim(__s64 before);
bool store_has(const char *name);

/*
 * Read one job. The strings are valid until the next call, or store_commit().
 * store_first_due(): the job that is due first, if that is not after @until. store_job(): the job
 * with this id. store_each_job(): all jobs by name, one per call, until it returns false.
 */
bool store_first_due(__s64 until, struct job_row *row);
bool store_job(__s64 id, struct job_row *row);
bool store_each_job(struct job_row *row);
/* Returns the command, an array that ends with NULL. The caller frees it and its strings. */
char **store_argv(__s64 job);

/*
 * The states of a due time of a job:
 *
 *	planned -> started -> done		it ran, and this is its status
 *		|	   -> covered		killed for a later one
 *		|	   -> interrupted	the scheduler ended before the command
 *		-> discarded			another run was running or waiting
 *		-> covered			a later one took its place
 *		-> missed			it was later than the window
 *
 * There are no other transitions. A row that is created as missed stands for all due times from
 * due to until; any other row stands for one due time, and until is the job's next. So the rows of
 * a job form a chain without gaps, from its first due time to the next one to be planned.
 */
__s64 store_plan(__s64 job, __s64 due, __s64 until, const char *cause);
void store_missed(__s64 job, __s64 due, __s64 until);
void store_next(__s64 job, __s64 next);
/* Returns false if the row is gone because the job was removed. */
bool store_started(__s64 run, const char *lane);
/* @took and @status are NEVER if it did not run. */
void store_ended(__s64 run, const char *state, __s64 took, __s64 status);

/* Returns how many runs of the job that ended after @since took longer than @took. */
__s64 store_slow_runs(__s64 job, __s64 since, __s64 took);

/*
 * Update the rows that the previous scheduler left: started rows become interrupted, and planned
 * rows before @too_late become missed. If the job's misfire policy is once, its oldest planned row
 * stays planned, unless the job's next due time is before @too_late, too. Returns how many were
 * interrupted.
 */
int store_recover(__s64 too_late);
/* Reads the planned rows by due time, one per call, until it returns false. */
bool store_each_planned(__s64 *run, __s64 *job, __s64 *due);

struct run_row {
	const char	*job, *cause, *state, *lane;
	__s64		due, until, started, took, status;	/* or NEVER */
};

/* Reads all runs of @job; NULL: of all jobs. One per call, until it returns false. */
bool store_each_run(const char *job, struct run_row *row);

#endif /* STORE_H */
