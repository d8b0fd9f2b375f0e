/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * store: the jobs, and the result of each of their due times, in a database: SQLite, for one
 * scheduler, or PostgreSQL, for any number.
 *
 * Writes are collected in a transaction, which begins with the first write and is on the disk when
 * store_commit() returns true. An error of the database ends the program, because it must not do
 * anything that it cannot record. There is one exception: if a scheduler loses its connection to
 * PostgreSQL, all functions do nothing, find nothing and return 0, until db->resume() succeeds.
 */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>

#include <glib.h>

#include "route.h"
#include "schema.h"

enum block { BLOCK_SERIAL, BLOCK_DISCARD, BLOCK_COVER };

/* Names in the table and on the command line. */
extern const char *const misfires[3], *const blocks[3], *const dsts[2], *const events[3];

struct job_row {
	__s64		id;
	const char	*name;
	const char	*cron;		/* NULL: use every */
	__s64		every;		/* NEVER, and no cron: it is due once */
	const char	*zone;		/* for cron; NULL: the machine's */
	__s64		by_clock;	/* due as often as the clock shows the time, or never */
	__s64		first;		/* not due before this; 0: no limit */
	__s64		timeout;	/* how long a run may take, or NEVER */
	__s64		grace;		/* between SIGTERM and SIGKILL */
	const char	*route;		/* of routes; NULL: it runs at its scheduler */
	const char	*tags;		/* that the executor must have, "gpu,eu" */
	__s64		again;		/* a run that was interrupted is run again */
	__s64		steps;		/* store_steps() when next was calculated */
	__s64		paused;
	__s64		retries;	/* how often a run that failed is run again ... */
	__s64		backoff;	/* ... so much later; each time twice as much */
	__s64		jitter;		/* a run begins later by at most this */
	__s64		from_end;	/* due so long after the end of the last run */
	const char	*after;		/* due after runs of that job, or NULL ... */
	__s64		after_event;	/* ... that end like this: an index of events */
	const char	*alarm;		/* the job to be run if this one fails, or NULL */
	const char	*script;	/* run with the arguments; only for writing */
	__s64		version;	/* counts changes */
	__s64		misfire;	/* enum misfire */
	__s64		block;		/* enum block */
	__s64		next;		/* next due time to be planned, or NEVER */
};

/* Why a run is planned. Of runs that wait, only those of the first two give way to later ones. */
enum why { WHY_SCHEDULE, WHY_AFTER, WHY_ASKED, WHY_RETRY };

/* A run that is planned. */
struct run {
	__s64		id, job, due;
	__s64		shard, shards;	/* which part it does, of how many */
	enum why	why;
	bool		held;		/* it was offered before */

	/* used by sched.c and lanes.c */
	__s64		start;		/* when it is to start: due, and the jitter */
	__s64		queued;		/* CLOCK_MONOTONIC, since when it waits */
};

/* As what a process becomes an executor. */
struct executor {
	const char	*name, *tags;
	__s64		places;
	const char	*token;		/* that it knows, or NULL */
};

/*
 * The states of a due time of a job:
 *
 *	planned -> started -> done		it ran, and this is its status
 *		|	   -> covered		killed for a later one
 *		|	   -> timeout		ended, because it took too long
 *		|	   -> stopped		ended by somebody
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
 *
 * Queries. The texts are in store.c, or, if they are not the same for both databases, in
 * store_sqlite.c and store_pg.c. In each query $1, $2 and so on first appear in this order, because
 * SQLite numbers parameters by their first appearance. A query without a text has neither effect
 * nor rows.
 */
enum query {
	ADD, ADD_ARGUMENT, CHANGE, FORGET_ARGUMENTS, REMOVE, TRIM, HAS, NEXT_ID, FIRST_DUE, JOB,
	EACH_JOB, ARGV, PLAN, SKIP, EXTEND, UNDO, MISSED, NEXT, STARTED, ENDED, SLOW_RUNS,
	TAKE_OVER, AGAIN, INTERRUPT, TOO_LATE, BURY, STOP, EACH_STOPPED,
	RELEASE, EACH_PLANNED, EACH_ORPHAN, EACH_ASKED, EACH_RUN,
	STEPS, STEPS_LOCKED, STEP, SET_BOOT, BASE,
	EACH_STALE, SHIFT, UNPLAN, LAST_DUE, RECALCULATED, LINK, PAUSE, ASK, WITHDRAW,
	DISCARD_ASKED, CONTEXT, IS_CYCLE, OUTPUT, LAST_OUTPUT, FORGET_OUTPUT,
	OFFER, EACH_OFFERED, EACH_CANDIDATE, EACH_USED, ASSIGN, ADD_SHARD, EACH_HELD, COVER_HELD,
	EACH_ASSIGNED, NO_PLACES, HAND_BACK, EACH_EXECUTOR, KNOW, FORGET_KNOWN, EXPEL,
	NAMESAKES, ENROLL, UNSTART, DISOWN, QUERIES
};

/* A parameter: a string; or a number, if the string is NULL; or NULL, if that is NEVER, too. */
struct value {
	const char	*string;
	__s64		number;
};

#define N(n)		((struct value){ .number = (n) })
#define S(s)		((struct value){ .string = (s), .number = NEVER })
#define VALUES_MAX	22
#define VALUES(...)								\
	((struct values){ (const struct value[]){ __VA_ARGS__ },		\
			  sizeof((const struct value[]){ __VA_ARGS__ }) / sizeof(struct value) })

struct values {
	const struct value	*at;
	int			n;
};

/* Execute a query that writes, with these values. Returns how many rows it changed. */
#define store_write(q, ...)	store_write_values(q, VALUES(__VA_ARGS__))
/* Execute a query for one number. Returns NEVER for NULL, and 0 if there is no row. */
#define store_number(q, ...)	store_number_of(q, VALUES(__VA_ARGS__))
/*
 * Go to the first row of a query with these values, or, if it has one already, to the next. Returns
 * false if there is no more. store_text(), store_int(): a column of the row, valid until the next
 * one, or store_commit(). NULL is NULL, or NEVER.
 */
#define store_each(q, ...)	store_each_of(q, VALUES(__VA_ARGS__))
int store_write_values(enum query q, struct values values);
__s64 store_number_of(enum query q, struct values values);
bool store_each_of(enum query q, struct values values);
const char *store_text(enum query q, int column);
__s64 store_int(enum query q, int column);
/* Commit, and forget all rows: see db->commit(). */
bool store_commit(void);
/* Returns NULL if the database does not need this query. */
const char *query_text(enum query q);

enum resumed { NOT_YET, RESUMED, TAKEN_OVER };

/* Why a process was woken, as bits; and who: see wake(). */
#define WOKEN_BY_RUN	1
#define WOKEN_TO_LOOK	2
#define SCHEDULERS	"schedulers"

/*
 * How long a program that writes again and again leaves the database to others: SQLite has no queue
 * for its lock, so they poll.
 */
#define LET_OTHERS_MS	20

/* What a database does, either SQLite or PostgreSQL. */
extern const struct db {
	/* Those that are not the same for both databases. */
	const char	*const *queries;
	/* With @create, create it if it does not exist. */
	void		(*open)(const char *name, bool create);
	void		(*close)(void);
	/*
	 * Become a scheduler. SQLite: lock out others until the process ends. PostgreSQL: others
	 * take over the jobs of this one if it begins no transaction for @lease. Or, if @as is not
	 * NULL, become an executor. A process that has its name is replaced. Ends the program if
	 * other names were added, or the token is another one.
	 */
	void		(*lock)(const char *name, __s64 lease, const struct executor *as);
	/* The time, by the clock that decides what is due: the wall clock, or PostgreSQL's. */
	__s64		(*now)(void);
	/* By how much now() may differ from what the clock shows. */
	__s64		(*error)(void);
	/*
	 * Begin a transaction, unless there is one: before a write, and before reads that decide
	 * about one. The lease is renewed, and now() is exact.
	 */
	void		(*begin)(void);
	/* Returns false if the transaction may not have been committed: see resume(). */
	bool		(*commit)(void);
	/*
	 * May runs be started whose start is committed? False if this scheduler's lease may have
	 * ended, so that others may have taken over its jobs.
	 */
	bool		(*owned)(void);
	/*
	 * After commit() or owned() returned false, forget all runs except those whose commands
	 * were started, and call this now and then until it does not return NOT_YET. Then read what
	 * is planned. @running has the ids of the jobs whose commands run, as "{1,2}". TAKEN_OVER:
	 * another scheduler took over all jobs; the runs are interrupted, and their results are not
	 * recorded.
	 */
	enum resumed	(*resume)(const char *running);
	/*
	 * Only of PostgreSQL, otherwise NULL. A descriptor that is readable when another process
	 * may have called wake(), or -1; it changes with resume(). woken(): why, since the last
	 * call? wake(): when the transaction is committed, wake SCHEDULERS because the run of an
	 * executor has ended, or the executor with this id because it has got one.
	 */
	int		(*fd)(void);
	unsigned int	(*woken)(void);
	void		(*wake)(const char *whom);
	/*
	 * Execute a query. Appends what its rows have to @cells, as text, row by row; sets how many
	 * columns they have. Returns how many rows it changed.
	 */
	int		(*execute)(enum query q, struct values values, GPtrArray *cells,
				   int *columns);
} *db, db_sqlite, db_pg;

/* Open the database; with @create, create it if it does not exist. */
void store_open(const char *name, bool create);
/* End the program if the database cannot have executors. */
void store_need_executors(void);

/*
 * By how much the clock was set in total, since the database was made. This counts what was set
 * since the last call, in SQLite also a call of another process since the machine was started.
 * Returns NEVER if that is not known, in a program that is no scheduler of PostgreSQL.
 */
__s64 store_steps(void);

/* Add a job, or change it: then runs that are planned are forgotten. */
void store_add(const struct job_row *row, char *const *argv);
void store_change(const struct job_row *row, char *const *argv);
/*
 * A job that is paused is not due. What is planned becomes due again when it goes on, but is then
 * late, or a misfire.
 */
void store_pause(__s64 job, bool pause);
void store_remove(__s64 job);
/* Delete the rows of due times before @before, unless they are planned or started, and commit. */
void store_trim(__s64 before);
/* Forget some of the outputs that are older. Returns false if there is more. */
bool store_forget_output(__s64 before);

/* Read the row to which @q, whose columns are JOB_COLUMNS, has gone. */
void store_read_job(enum query q, struct job_row *row);
/* The job that is due first, if that is not after @until. */
bool store_first_due(__s64 until, struct job_row *row);
/* The job with this id. */
bool store_job(__s64 id, struct job_row *row);
/*
 * Returns the command, an array that ends with NULL, and the script, which may be NULL. The caller
 * frees both.
 */
char **store_argv(__s64 job, char **script);
/* Add to an environment why a run that was asked for is run. */
char **store_context(__s64 run, char **environment);

/*
 * A planned run is missed. If @missed is the row before it, that becomes the row for both; 0: none
 * is. Returns the row for it.
 */
__s64 store_skipped(__s64 run, __s64 missed);
/* @took and @status are NEVER if it did not run. */
void store_ended(__s64 run, const char *state, __s64 took, __s64 status);

/*
 * Update the rows of schedulers that have ended: started rows become interrupted, and planned rows
 * before @too_late become missed. If the job's misfire policy is once, its oldest planned row stays
 * planned, unless the job's next due time is before @too_late, too. What was interrupted is planned
 * again, once, if the job says so. @first: this scheduler has not planned anything. Returns how
 * many were interrupted.
 */
int store_take_over(bool first, __s64 too_late);

/*
 * As store_each(), of runs: EACH_PLANNED, EACH_ORPHAN, EACH_ASKED, EACH_HELD, EACH_ASSIGNED.
 * Returns NULL if there is no more. The caller frees it.
 */
struct run *store_each_planned(enum query q);

#endif /* STORE_H */
