/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * schema: the tables, and triggers, as far as they are the same in both databases. In the macros
 * @number is the type of numbers, @id that of ids, which are never used again, because a scheduler
 * may still have a job that somebody removed.
 */
#ifndef SCHEMA_H
#define SCHEMA_H

/* Names of the ways of enum route, and broadcast. */
#define ROUTE_WORDS	"'first', 'last', 'round-robin', 'random', 'hash', 'lfu', 'lru',"	\
			" 'failover', 'busyover', 'broadcast'"

/* Whoever changes the tables of either database changes this, and VERSION in web/store.py. */
#define SCHEMA_VERSION	"2"
#define OTHER_VERSION	"%s: these tables were made by another version of this program"
/* As store_read_job() reads them. */
#define JOB_COLUMNS	"job.*"
/* enum why. Further shards are for the schedule, too. */
#define WHY									\
	"CASE WHEN cause IN ('due', 'late', 'misfire') OR cause = 'again' AND event IS NULL"	\
	" AND origin IS NULL THEN 0"						\
	" WHEN cause = 'after' THEN 1 WHEN cause = 'retry' THEN 3 ELSE 2 END"

/* Of the chain of a job's rows: see store.h. */
#define CHAIN		"(until IS NULL OR until <> due)"
#define OPEN		"state IN ('planned', 'started')"

/* Of a job, @name, or of all: those that are due last. @perhaps: may it have been run before? */
#define LAST_RUNS(perhaps, name)						\
	"SELECT * FROM (SELECT job.name, run.due, run.until, run.cause, run.state, run.lane,"	\
	" run.started, run.took, run.status, " perhaps " AS perhaps, its.name AS followed,"	\
	" run.id FROM run JOIN job ON job.id = run.job"				\
	" LEFT JOIN run AS other ON other.id = run.follows"			\
	" LEFT JOIN job AS its ON its.id = other.job"				\
	" WHERE " name " IS NULL OR job.name = " name				\
	" ORDER BY run.due DESC, run.id DESC LIMIT $2) AS latest ORDER BY due, id"

/*
 * argument: position SCRIPT is the text of a script. clock: by how much it was set, and what it was
 * at a boot: see store_steps(). Times are ns since 1970. @job_more, @run_more: more columns.
 */
#define TABLES(id, number, job_more, run_more, end)				\
	"CREATE TABLE clock ("							\
	"	steps " number " NOT NULL,"					\
	"	boot text,"							\
	"	base " number							\
	")" end ";"								\
	"INSERT INTO clock VALUES (0, NULL, NULL);"				\
	"CREATE TABLE job ("							\
	"	id " id ","							\
	"	name text NOT NULL UNIQUE,"					\
	"	cron text,"							\
	"	every " number " CHECK (every > 0),"				\
	"	misfire text NOT NULL CHECK (misfire IN ('nothing', 'once', 'all')),"	\
	"	block text NOT NULL CHECK (block IN ('serial', 'discard', 'cover')),"	\
	"	next " number ","						\
	"	zone text,"							\
	"	dst text NOT NULL DEFAULT 'once' CHECK (dst IN ('once', 'clock')),"	\
	"	first " number " NOT NULL DEFAULT 0,"				\
	"	steps " number " NOT NULL DEFAULT 0,"				\
	"	timeout " number ","						\
	"	grace " number " NOT NULL DEFAULT 10000000000,"			\
	"	route text CHECK (route IN (" ROUTE_WORDS ")),"			\
	"	tags text NOT NULL DEFAULT '',"					\
	"	again " number " NOT NULL DEFAULT 0,"				\
	"	paused " number " NOT NULL DEFAULT 0,"				\
	"	retries " number " NOT NULL DEFAULT 0,"				\
	"	backoff " number " NOT NULL DEFAULT 0,"				\
	"	jitter " number " NOT NULL DEFAULT 0,"				\
	"	from_end " number " NOT NULL DEFAULT 0,"			\
	"	after_job text,"						\
	"	after_state text CHECK (after_state IN ('success', 'failure', 'end')),"	\
	"	alarm text,"							\
	"	version " number " NOT NULL DEFAULT 0"				\
	job_more ","								\
	"	CHECK (cron IS NULL OR every IS NULL)"				\
	")" end ";"								\
	"CREATE INDEX job_next ON job (next);"					\
	"CREATE INDEX job_after ON job (after_job);"				\
	"CREATE TABLE argument ("						\
	"	job " number " NOT NULL REFERENCES job ON DELETE CASCADE,"	\
	"	position " number " NOT NULL,"					\
	"	value text NOT NULL,"						\
	"	PRIMARY KEY (job, position)"					\
	")" end ";"								\
	"CREATE TABLE run ("							\
	"	id " id ","							\
	"	job " number " NOT NULL REFERENCES job ON DELETE CASCADE,"	\
	"	due " number " NOT NULL,"					\
	"	until " number ","						\
	"	cause text NOT NULL CHECK (cause IN ('due', 'late', 'misfire', 'again',"	\
	"		'start', 'after', 'alarm', 'retry')),"			\
	"	state text NOT NULL CHECK (state IN ('planned', 'started', 'done', 'covered',"	\
	"		'discarded', 'missed', 'interrupted', 'timeout', 'stopped')),"	\
	"	lane text CHECK (lane IN ('fast', 'slow')),"			\
	"	started " number ","						\
	"	ended " number ","						\
	"	took " number ","						\
	"	status " number ","						\
	"	stop " number " NOT NULL DEFAULT 0,"				\
	"	attempt " number " NOT NULL DEFAULT 0,"				\
	"	origin " number ","						\
	"	follows " number ","						\
	"	event text"							\
	run_more								\
	")" end ";"								\
	"CREATE INDEX run_due ON run (job, due);"				\
	"CREATE INDEX run_ended ON run (job, ended);"				\
	"CREATE INDEX run_open ON run (job, due) WHERE " OPEN ";"		\
	"CREATE TABLE output ("							\
	"	run " number " PRIMARY KEY REFERENCES run ON DELETE CASCADE,"	\
	"	at " number " NOT NULL,"					\
	"	size " number " NOT NULL,"					\
	"	head text NOT NULL,"						\
	"	tail text NOT NULL"						\
	")" end ";"								\
	"CREATE INDEX output_at ON output (at);"

/*
 * What follows from a row that has just got its last state; triggers of both databases do this, so
 * that it is in the same transaction, whoever writes the row. @now: the time; @columns, @values:
 * more of a retry; @others: has another shard failed?
 */
#define RETRIED									\
	"((NEW.state = 'timeout' OR NEW.state = 'done' AND NEW.status <> 0) AND NEW.attempt <"	\
	" (SELECT retries * (1 - paused) FROM job WHERE id = NEW.job))"
#define FAILED(row)								\
	"(" row ".state IN ('timeout', 'interrupted') OR " row ".state = 'done' AND "	\
	row ".status <> 0)"
#define SAME_DUE								\
	"r.job = NEW.job AND r.due >= coalesce(NEW.origin, NEW.due)"		\
	" AND coalesce(r.origin, r.due) = coalesce(NEW.origin, NEW.due)"
/* There is a retry, another shard or a repetition. */
#define GOES_ON		"EXISTS (SELECT 1 FROM run AS r WHERE " SAME_DUE " AND r." OPEN ")"
#define EVENT(others)								\
	"CASE WHEN NEW.state = 'missed' THEN 'misfire' WHEN NEW.state = 'timeout' THEN 'overrun'" \
	" WHEN " FAILED("NEW") " OR NEW.state = 'done' AND " others " THEN 'failure'"	\
	" WHEN NEW.state = 'done' THEN 'success' WHEN NEW.state = 'stopped' THEN 'stopped' END"
/* The result before this one was a failure. */
#define RECOVERED								\
	"EXISTS (SELECT 1 FROM run AS r WHERE r.id = (SELECT id FROM run WHERE job = NEW.job"	\
	" AND ended < NEW.ended AND state IN ('done', 'timeout', 'interrupted')"	\
	" ORDER BY ended DESC LIMIT 1) AND " FAILED("r") " AND r.attempt >= job.retries)"
/* Runs that were missed, as follow-ups of a quicker job are, are told of once a minute. */
#define TOLD(now)								\
	"EXISTS (SELECT 1 FROM run AS r JOIN run AS u ON u.id = r.follows WHERE r.job = a.id"	\
	" AND r.due > " now " - 60000000000 AND r.due <= " now " AND r.cause = 'alarm'"	\
	" AND r.event = 'misfire'"						\
	" AND u.job = NEW.job)"
#define FROM_END								\
	"from_end = 1 AND next IS NULL AND NEW.cause NOT IN ('start', 'after', 'alarm')"	\
	" AND NOT " GOES_ON
#define NEXT_FROM_END								\
	"coalesce(NEW.ended, NEW.due) + (SELECT every FROM job WHERE id = NEW.job)"
/* Does anything? For most jobs nothing does. */
#define FOLLOWED								\
	"EXISTS (SELECT 1 FROM job WHERE id = NEW.job AND (retries > 0 OR from_end = 1"	\
	" OR alarm IS NOT NULL OR EXISTS (SELECT 1 FROM job AS f WHERE f.after_job = job.name)))"
#define FOLLOW_UPS(now, columns, values, others)				\
	"INSERT INTO run (job, due, until, origin, cause, attempt, follows, event, state"	\
	columns ") SELECT id, NEW.ended + (backoff << CAST(NEW.attempt AS int)),"	\
	" NEW.ended + (backoff << CAST(NEW.attempt AS int)), coalesce(NEW.origin, NEW.due),"	\
	" 'retry', NEW.attempt + 1, NEW.follows, NEW.event, 'planned'" values	\
	" FROM job WHERE id = NEW.job AND " RETRIED ";"				\
	"INSERT INTO run (job, due, until, cause, follows, event, state)"	\
	" SELECT id, NEW.ended, NEW.ended, 'after', NEW.id, e.event,"		\
	" CASE paused WHEN 1 THEN 'discarded' ELSE 'planned' END"		\
	" FROM job, (SELECT " EVENT(others) " AS event) AS e WHERE after_job ="	\
	" (SELECT name FROM job WHERE id = NEW.job) AND NOT " GOES_ON		\
	" AND e.event <> 'misfire' AND after_state IN ('end',"			\
	" CASE e.event WHEN 'overrun' THEN 'failure' ELSE e.event END);"	\
	"INSERT INTO run (job, due, until, cause, follows, event, state)"	\
	" SELECT a.id, " now ", " now ", 'alarm', NEW.id,"			\
	" CASE e.event WHEN 'success' THEN 'recovery' ELSE e.event END, 'planned'"	\
	" FROM job JOIN job AS a ON a.name = job.alarm,"			\
	" (SELECT " EVENT(others) " AS event) AS e WHERE job.id = NEW.job AND a.paused = 0"	\
	" AND NOT " GOES_ON " AND (e.event IN ('overrun', 'failure') OR"	\
	" e.event = 'misfire' AND NOT " TOLD(now) " OR"				\
	" e.event = 'success' AND " RECOVERED ");"				\
	"UPDATE run SET until = " NEXT_FROM_END " WHERE id = (SELECT max(id) FROM run"	\
	" WHERE job = NEW.job AND " CHAIN ") AND until IS NULL AND EXISTS"	\
	" (SELECT 1 FROM job WHERE id = NEW.job AND " FROM_END ");"		\
	"UPDATE job SET next = " NEXT_FROM_END ", steps = (SELECT steps FROM clock)"	\
	" WHERE id = NEW.job AND " FROM_END ";"

#endif /* SCHEMA_H */
