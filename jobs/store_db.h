/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * store_db: the operations that store.c needs of a database. The queries of both databases have the
 * same parameters and columns. In each query $1, $2 and so on first appear in this order, because
 * SQLite numbers parameters by their first appearance.
 */
#ifndef STORE_DB_H
#define STORE_DB_H

#include "schema.h"
#include "store.h"

enum query {
	ADD, ADD_ARGUMENT, CHANGE, FORGET_ARGUMENTS, REMOVE, TRIM, HAS, NEXT_ID, FIRST_DUE, JOB,
	EACH_JOB, ARGV, PLAN, SKIP, EXTEND, UNDO, MISSED, NEXT, STARTED, ENDED, SLOW_RUNS,
	TAKE_OVER, AGAIN, INTERRUPT, TOO_LATE, BURY, STOP, EACH_STOPPED,
	RELEASE, EACH_PLANNED, EACH_ORPHAN, EACH_ASKED, EACH_RUN,
	STEPS, STEPS_LOCKED, STEP, SET_BOOT, BASE,
	EACH_STALE, SHIFT, UNPLAN, LAST_DUE, RECALCULATED, LINK, PAUSE, ASK, WITHDRAW,
	DISCARD_ASKED, CONTEXT, IS_CYCLE, OUTPUT, LAST_OUTPUT, FORGET_OUTPUT,
	OFFER, EACH_OFFERED, EACH_CANDIDATE, EACH_USED, ASSIGN, ADD_SHARD, EACH_HELD, COVER_HELD,
	EACH_ASSIGNED, NO_PLACES, HAND_BACK, EACH_EXECUTOR, KNOW, FORGET_KNOWN, EXPEL, QUERIES
};

/* A parameter: a string; or a number, if the string is NULL; or NULL, if that is NEVER, too. */
struct value {
	const char	*string;
	__s64		number;
};

/*
 * How long a program that writes again and again leaves the database to others: SQLite has no queue
 * for its lock, so they poll.
 */
#define LET_OTHERS_MS	20

#define PARAMETERS_MAX	22

/* Whoever changes the tables of either database changes this, and VERSION in web/store.py. */
#define SCHEMA_VERSION	"2"
#define OTHER_VERSION	"%s: these tables were made by another version of this program"
#define OLD_SCHEDULER	"%s: end all schedulers, so that these tables can be upgraded"
#define JOB_COLUMNS	"job.id, name, cron, every, misfire, block, next, zone, dst, first,"	\
			" steps, timeout, grace, route, tags, again, paused, retries, backoff,"	\
			" jitter, from_end, after_job, after_state, alarm, version"
/* enum why. Further shards are for the schedule, too. */
#define WHY									\
	"CASE WHEN cause IN ('due', 'late', 'misfire') OR cause = 'again' AND event IS NULL"	\
	" AND origin IS NULL THEN 0"						\
	" WHEN cause = 'retry' THEN 2 ELSE 1 END"

struct db {
	/* Those that are not the same for both databases. */
	const char	*const *queries;
	void		(*open)(const char *name, bool create);
	void		(*close)(void);
	/* @as: NULL: a scheduler. */
	void		(*lock)(const char *name, __s64 lease, const struct executor_row *as);
	__s64		(*now)(void);
	/* By how much now() may differ from what the clock shows. */
	__s64		(*error)(void);
	/* Called before a write, and before reads that decide about one. */
	void		(*begin)(void);
	bool		(*commit)(void);
	bool		(*owned)(void);
	enum resumed	(*resume)(const char *running);
	int		(*fd)(void);
	unsigned int	(*woken)(void);
	void		(*wake)(const char *whom);
	/* Begin a query. It is executed now, or by row(). */
	void		(*bind)(enum query q, const struct value *values, int n);
	/* Go to the next row. If there is none, return false: the query is over. */
	bool		(*row)(enum query q);
	/* Did row() return true when it was last called? */
	bool		(*going_on)(enum query q);
	/* End the query. */
	void		(*reset)(enum query q);
	/* Number of rows that the query, which is over, has changed. */
	int		(*changes)(enum query q);
	/* A column of the row. */
	const char	*(*text)(enum query q, int column);
	__s64		(*number)(enum query q, int column);
};

extern const struct db db_sqlite, db_pg;

/* Returns NULL if the database does not need this query: it has neither effect nor rows. */
const char *query_text(enum query q);

#endif /* STORE_DB_H */
