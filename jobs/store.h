/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * store: the jobs, and the result of each of their due times, in a database: SQLite, for one
 * scheduler, or PostgreSQL, for any number.
 *
 * Writes are collected in a transaction, which begins with the first write and is on the disk when
 * store_commit() returns true. An error of the database ends the program, because it must not do
 * anything that it cannot record. There is one exception: if a scheduler loses its connection to
 * PostgreSQL, all functions do nothing, find nothing and return 0, until store_resume() succeeds.
 */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>

#include "route.h"

enum block { BLOCK_SERIAL, BLOCK_DISCARD, BLOCK_COVER };

/* Names in the table and on the command line. */
extern const char *const misfires[3], *const blocks[3], *const dsts[2], *const events[3];

struct job_row {
	__s64		id;
	const char	*name;
	const char	*cron;		/* NULL: use every */
	__s64		every;		/* NEVER, and no cron: it is due once */
	const char	*zone;		/* for cron; NULL: the machine's */
	bool		by_clock;	/* due as often as the clock shows the time, or never */
	__s64		first;		/* not due before this; 0: no limit */
	__s64		timeout;	/* how long a run may take, or NEVER */
	__s64		grace;		/* between SIGTERM and SIGKILL */
	const char	*route;		/* of routes; NULL: it runs at its scheduler */
	const char	*tags;		/* that the executor must have, "gpu,eu" */
	bool		again;		/* a run that was interrupted is run again */
	__s64		steps;		/* store_steps() when next was calculated */
	bool		paused;
	__s64		retries;	/* how often a run that failed is run again ... */
	__s64		backoff;	/* ... so much later; each time twice as much */
	__s64		jitter;		/* a run begins later by at most this */
	bool		from_end;	/* due so long after the end of the last run */
	const char	*after;		/* due after runs of that job, or NULL ... */
	int		after_event;	/* ... that end like this: an index of events */
	const char	*alarm;		/* the job to be run if this one fails, or NULL */
	const char	*script;		/* run with the arguments; only for writing */
	__s64		version;	/* counts changes */
	enum misfire	misfire;
	enum block	block;
	__s64		next;		/* next due time to be planned, or NEVER */
};

/* Open the database; with @create, create it if it does not exist. */
void store_open(const char *name, bool create);
void store_close(void);

/*
 * Become a scheduler. SQLite: lock out others until the process ends. PostgreSQL: others take over
 * the jobs of this one if it begins no transaction for @lease.
 */
void store_lock(const char *name, __s64 lease);

/* An executor. In PostgreSQL only. */
struct executor_row {
	const char	*id, *name, *tags;
	__s64		places;		/* NEVER: it was added by name, and is not there */
	__s64		runs;		/* that it has */
	__s64		left;		/* of its lease */
	bool		silent;
	const char	*token;		/* that it knows, or NULL */
};

/*
 * Become an executor, with the name, tags, places and token of @as. A process that has this name is
 * replaced. Ends the program if other names were added, or the token is another one.
 */
void store_join(const struct executor_row *as, __s64 lease);
/* Allow only executors with names that were added, and this one. Returns false if it was. */
bool store_add_executor(const char *name, const char *token);
/* Returns false if there is none. */
bool store_remove_executor(const char *name);
/* Executors that are there or were added, one per call, until it returns false. */
bool store_each_executor(struct executor_row *row);

/*
 * A descriptor that is readable when another process may have called store_wake(), or -1; it
 * changes with store_resume(). store_woken(): why, since the last call? store_wake(): when the
 * transaction is committed, wake schedulers because the run of an executor has ended, or
 * the executor with this id because it has got one; NULL: all.
 */
#define WOKEN_BY_RUN	1
#define WOKEN_TO_LOOK	2
int store_fd(void);
unsigned int store_woken(void);
void store_wake(const char *whom);
#define SCHEDULERS	"schedulers"

/* The time, by the clock that decides about what is due: the wall clock, or PostgreSQL's. */
__s64 store_now(void);

/* Returns false if the transaction may not have been committed: see store_resume(). */
bool store_commit(void);

/*
 * May runs be started whose start is committed? False if this scheduler's lease may have ended, so
 * that others may have taken over its jobs.
 */
bool store_owned(void);

/*
 * After store_commit() or store_owned() returned false, forget all runs except those whose commands
 * were started, and call this now and then until it does not return NOT_YET. Then read what is
 * planned. @running has the ids of the jobs whose commands run, as "{1,2}". TAKEN_OVER: another
 * scheduler took over all jobs; the runs are interrupted, and their results are not recorded.
 */
enum resumed { NOT_YET, RESUMED, TAKEN_OVER };
enum resumed store_resume(const char *running);

/*
 * By how much the clock was set in total, since the database was made. This counts what was set
 * since the last call, in SQLite also a call of another process since the machine was started.
 * Returns NEVER if that is not known, in a program that is no scheduler of PostgreSQL.
 */
__s64 store_steps(void);

/* Begin a transaction, so that the lease is renewed and store_now() is exact. */
void store_renew(void);

void store_add(const struct job_row *row, char *const *argv);
/* Runs that are planned are forgotten. Returns false if there is no job of that name. */
bool store_change(const struct job_row *row, char *const *argv);
/*
 * A job that is paused is not due. What is planned becomes due again when it goes on, but is then
 * late, or a misfire. Returns false if there is no job of that name.
 */
bool store_pause(const char *name, bool pause);
/* Ask for a run now. Returns its id, or 0 if there is no job of that name. */
__s64 store_ask(const char *name);
/* Returns false if there is no such job. */
bool store_remove(const char *name);
/* Delete the rows of due times before @before, unless they are planned or started, and commit. */
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
/*
 * Returns the command, an array that ends with NULL, and the script, which may be NULL. The caller
 * frees both.
 */
char **store_argv(__s64 job, char **script);
/* Add to an environment why a run that was asked for is run. */
char **store_context(__s64 run, char **environment);

/*
 * The states of a due time of a job:
 *
 *	planned -> started -> done		it ran, and this is its status
 *		|	   -> covered		killed for a later one
 *		|	   -> timeout		ended, because it took too long
 *		|	   -> stopped		ended by store_stop()
 *		|	   -> interrupted	the scheduler ended before the command
 *		-> discarded			another run was running or waiting
 *		-> covered			a later one took its place
 *		-> missed			later than the window, or it waited for longer
 *
 * There are no other transitions. A row that is missed may stand for all due times from due to
 * until; any other row stands for one due time, and until is the job's next. So the rows of
 * a job form a chain without gaps, in the order of their ids, from its first due time to the next
 * one to be planned, which with from_end is not known until the run has ended. If the clock is set
 * back, a due time may come again. A row whose until is its
 * due is not in the chain: it is a further shard of a due time, or repeats an interrupted run.
 *
 * Nor are rows in it that were asked for: by somebody (cause "start"), by the end of another job
 * ("after", "alarm"), or by that of the same job ("retry"). When a row gets its last state,
 * triggers of the database write those that follow.
 *
 * A planned run of a job with a route is offered when its turn has come, instead of being started.
 * Then it has a holder: nobody, or the executor that is to start it. Whatever happens to that
 * executor, its row in the table of executors goes when its lease has ended. So a run that is
 * planned, and whose holder has no row, is the scheduler's to assign; only its holder starts it.
 */
__s64 store_plan(__s64 job, __s64 due, __s64 until, const char *cause);
void store_missed(__s64 job, __s64 due, __s64 until);
void store_next(__s64 job, __s64 next);
/*
 * Jobs that no other scheduler has, one per call, until it returns false: those whose next due time
 * was calculated when store_steps() was not @steps, or all.
 */
bool store_each_stale(bool all, __s64 steps, struct job_row *row);
/*
 * The clock was set by @change: move planned runs of a job. @all: it counts elapsed time, or else
 * only those that were asked for.
 * store_unplan(): forget planned runs after @now. store_last_due(): the last due time of the job
 * that has a row, up to @until, or NEVER.
 */
void store_shift(__s64 job, __s64 change, bool all);
void store_unplan(__s64 job, __s64 now);
__s64 store_last_due(__s64 job, __s64 until);
/* Store these next and first due times, and link the last row of the job to the next one. */
void store_recalculated(const struct job_row *row, __s64 next, __s64 first, __s64 steps);
/* This scheduler has no runs of the job any more, so that others may have it. */
void store_release(__s64 job);
/* Returns false if the row is gone because the job was removed. */
bool store_started(__s64 run, const char *lane);
/*
 * A planned run is missed. If @missed is the row before it, that becomes the row for both; 0: none
 * is. Returns the row for it.
 */
__s64 store_skipped(__s64 run, __s64 missed);
/* @took and @status are NEVER if it did not run. */
void store_ended(__s64 run, const char *state, __s64 took, __s64 status);

/* Returns how many runs of the job that ended after @since took longer than @took. */
__s64 store_slow_runs(__s64 job, __s64 since, __s64 took);

/* Let the scheduler of the job end its run. Returns false if none is started. */
bool store_stop(const char *name);
/* The jobs whose runs are to be ended, or @covered: one per call, until it returns 0. */
__s64 store_each_stopped(bool *covered);

/*
 * Update the rows of schedulers that have ended: started rows become interrupted, and planned rows
 * before @too_late become missed. If the job's misfire policy is once, its oldest planned row stays
 * planned, unless the job's next due time is before @too_late, too. What was interrupted is planned
 * again, once, if the job says so. @first: this scheduler has not planned anything. Returns how
 * many were interrupted.
 */
int store_take_over(bool first, __s64 too_late);
/*
 * Reads planned rows by due time, one per call, until it returns false: those of jobs that no
 * scheduler has, which are this scheduler's from now on; with @all, also those of its other jobs.
 * store_each_asked(): those that were asked for, of such jobs and this scheduler's, and of these
 * jobs perhaps others. The scheduler may know them already.
 */
enum why { WHY_SCHEDULE, WHY_ASKED, WHY_RETRY };

struct planned {
	__s64		run, job, due;
	__s64		shard, shards;	/* which part it does, of how many */
	enum why	why;
	bool		held;		/* it was offered before */
};

bool store_each_planned(bool all, struct planned *planned);
bool store_each_asked(struct planned *planned);

/* Offer a planned run to executors. Returns false if the row is gone. */
bool store_offer(__s64 run);

struct offer {
	__s64		run, job;
	__s64		shard, shards;	/* shards: NEVER: it was not assigned yet */
	const char	*executor;	/* that had it, or "" */
	const char	*route, *tags;
};

/* Runs of this scheduler's jobs that are to be assigned, one per call, until it returns false. */
bool store_each_offered(struct offer *offer);
/* Executors that take runs, by name, one per call, until it returns false. */
bool store_each_candidate(struct executor_row *row);
/* Which executors had the job's last runs: one per call, until it returns false. */
bool store_each_used(__s64 job, const char **name, __s64 *used, __s64 *last);
void store_assign(__s64 run, const struct executor_row *to, __s64 shard, __s64 shards);
/* Plan one more run for the due time of @run. */
void store_add_shard(__s64 run, const struct executor_row *to, __s64 shard, __s64 shards);
/* Offered and started runs of this scheduler's jobs that others hold. */
bool store_each_held(struct planned *held);
/* Cover these runs of the job, except those that are being written to. */
void store_cover_held(__s64 job);

/* The runs that this executor is to start, one per call, until it returns false. */
bool store_each_assigned(struct planned *planned);
/* Take no more runs, and give back those that are not started. */
void store_hand_back(void);

/* Write the beginning and the end of the output of a run, of so many bytes. */
void store_output(__s64 run, __s64 size, const char *head, const char *tail);
/* Read that of the last run of the job that has any. Returns false if none has. */
bool store_last_output(const char *name, __s64 *size, const char **head, const char **tail);
/* Forget some of what is older. Returns false if there is more. */
bool store_forget_output(__s64 before);

struct run_row {
	const char	*job, *cause, *state, *lane;
	__s64		due, until, started, took, status;	/* or NEVER */
	bool		doubtful;	/* may have been started before: schema_pg.h, server */
};

/* Reads all runs of @job; NULL: of all jobs. One per call, until it returns false. */
bool store_each_run(const char *job, struct run_row *row);

#endif /* STORE_H */
