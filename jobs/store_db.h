/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * store_db: the operations that store.c needs of a database. The queries of both databases have the
 * same parameters and columns. In each query $1, $2 and so on first appear in this order, because
 * SQLite numbers parameters by their first appearance.
 */
#ifndef STORE_DB_H
#define STORE_DB_H

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
#define SCHEMA_VERSION	"5"
#define OTHER_VERSION	"%s: these tables were made by another version of this program"
#define OLD_SCHEDULER	"%s: end all schedulers, so that these tables can be upgraded"
#define JOB_COLUMNS	"job.id, name, cron, every, misfire, block, next, zone, dst, first,"	\
			" steps, timeout, grace, route, tags, again, paused, retries, backoff,"	\
			" jitter, from_end, after_job, after_state, alarm, version"
/* Names of the ways of enum route, and broadcast. */
#define ROUTE_WORDS	"'first', 'last', 'round-robin', 'random', 'hash', 'lfu', 'lru',"	\
			" 'failover', 'busyover', 'broadcast'"

/* Of the chain of a job's rows: see store.h. */
#define CHAIN		"(until IS NULL OR until <> due)"
/* enum why. Further shards are for the schedule, too. */
#define WHY									\
	"CASE WHEN cause IN ('due', 'late', 'misfire', 'again') THEN 0"		\
	" WHEN cause = 'retry' THEN 2 ELSE 1 END"
#define CAUSES		"'due', 'late', 'misfire', 'again', 'start', 'after', 'alarm', 'retry'"
#define EVENTS		"'success', 'failure', 'end'"

/*
 * What follows from a row that has just got its last state; triggers of both databases do this, so
 * that it is in the same transaction, whoever writes the row. @now: the time; @columns, @values:
 * more of a retry.
 */
#define RETRIED									\
	"((NEW.state = 'timeout' OR NEW.state = 'done' AND NEW.status <> 0) AND NEW.attempt <"	\
	" (SELECT retries * (1 - paused) FROM job WHERE id = NEW.job))"
#define FAILED(row)								\
	"(" row ".state IN ('timeout', 'interrupted') OR " row ".state = 'done' AND "	\
	row ".status <> 0)"
#define EVENT									\
	"CASE WHEN NEW.state = 'missed' THEN 'misfire' WHEN NEW.state = 'timeout' THEN 'overrun'" \
	" WHEN " FAILED("NEW") " THEN 'failure' WHEN NEW.state = 'done' THEN 'success'"	\
	" WHEN NEW.state = 'stopped' THEN 'stopped' END"
/* The result before this one was a failure. */
#define RECOVERED								\
	"EXISTS (SELECT 1 FROM run AS r WHERE r.id = (SELECT id FROM run WHERE job = NEW.job"	\
	" AND ended < NEW.ended AND state IN ('done', 'timeout', 'interrupted')"	\
	" ORDER BY ended DESC LIMIT 1) AND " FAILED("r") " AND r.attempt >= job.retries)"
#define FROM_END								\
	"from_end = 1 AND next IS NULL AND NEW.cause NOT IN ('start', 'after', 'alarm')"	\
	" AND NOT " RETRIED
#define NEXT_FROM_END								\
	"coalesce(NEW.ended, NEW.due) + (SELECT every FROM job WHERE id = NEW.job)"
#define FOLLOW_UPS(now, columns, values)						\
	"INSERT INTO run (job, due, until, origin, cause, attempt, follows, event, state"	\
	columns ") SELECT id, NEW.ended + (backoff << NEW.attempt),"		\
	" NEW.ended + (backoff << NEW.attempt), coalesce(NEW.origin, NEW.due),"	\
	" 'retry', NEW.attempt + 1, NEW.follows, NEW.event, 'planned'" values		\
	" FROM job WHERE id = NEW.job AND " RETRIED ";"				\
	"INSERT INTO run (job, due, until, cause, follows, event, state)"	\
	" SELECT id, NEW.ended, NEW.ended, 'after', NEW.id, " EVENT ","			\
	" CASE paused WHEN 1 THEN 'discarded' ELSE 'planned' END FROM job WHERE after_job ="	\
	" (SELECT name FROM job WHERE id = NEW.job) AND NOT " RETRIED " AND " EVENT	\
	" <> 'misfire' AND after_state IN ('end', CASE " EVENT " WHEN 'overrun' THEN 'failure'" \
	" ELSE " EVENT " END);"							\
	"INSERT INTO run (job, due, until, cause, follows, event, state)"	\
	" SELECT a.id, " now ", " now ", 'alarm', NEW.id,"		\
	" CASE " EVENT " WHEN 'success' THEN 'recovery' ELSE " EVENT " END, 'planned'"	\
	" FROM job JOIN job AS a ON a.name = job.alarm WHERE job.id = NEW.job AND a.paused = 0"	\
	" AND NOT " RETRIED " AND (" EVENT " IN ('misfire', 'overrun', 'failure') OR"	\
	" NEW.state = 'done' AND " RECOVERED ");"				\
	"UPDATE run SET until = " NEXT_FROM_END " WHERE id = (SELECT max(id) FROM run"	\
	" WHERE job = NEW.job AND " CHAIN ") AND until IS NULL AND EXISTS"	\
	" (SELECT 1 FROM job WHERE id = NEW.job AND " FROM_END ");"		\
	"UPDATE job SET next = " NEXT_FROM_END ", steps = (SELECT steps FROM clock)"	\
	" WHERE id = NEW.job AND " FROM_END ";"

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
