/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * The tables in PostgreSQL. They are those of schema.h, and in addition:
 *
 *	jobs_database	one row: the version of these tables, and an id of this database
 *	executor	one row for each process that may start commands: schedulers, and the
 *			executors that only do that. Its lease, for period, is the time until which
 *			nobody else may take over its jobs and runs. To take over is to delete the
 *			row. Its id is random, so a process never takes another one's row for its
 *			own, even if the database was made again, or restored. places: how many
 *			runs it takes at a time, 0 for schedulers, and for one that is to end
 *	server		which servers had these tables, since when schedulers know. What was due
 *			before that and is started after that may have been started before, too, if
 *			the new one lacked the last commits
 *	known		names of executors, once there is one; others are refused. token: SHA-256
 *	job.owner	the scheduler that owns the job: it has planned or offered runs of it in its
 *			memory, and only it may plan them. NULL: no scheduler owns it
 *	run.holder	the process that may start this run, or has: see store.h
 *	run.executor	the name of that process, which stays
 *
 * Times are ns since 1970, by the clock of the database's machine, which now_ns() returns.
 */
#ifndef SCHEMA_PG_H
#define SCHEMA_PG_H

#include "schema.h"

/* A standby that is promoted has another timeline, a restored table another oid. */
#define SERVER										\
	"(SELECT system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)"	\
	"	|| '/' || CAST(CAST('server' AS regclass) AS oid) FROM pg_control_system())"
/* The first of two numbers: "jobs" in ASCII. */
#define FOLLOW_LOCK	"1785684595"

/* What schedulers should know at once is notified, whoever writes it. */
static const char triggers[] =
	"CREATE FUNCTION run_ended() RETURNS trigger LANGUAGE plpgsql AS $$"
	" DECLARE at_now bigint; BEGIN IF " FOLLOWED " THEN at_now := now_ns();"
	/*
	 * Of shards that end at the same time, one is the last. One lock for all jobs, as a
	 * transaction ends runs of several, in any order.
	 */
	" IF NEW.shards > 1 THEN"
	"	PERFORM pg_advisory_xact_lock(" FOLLOW_LOCK ", 0); END IF;"
	FOLLOW_UPS("at_now", ", shard, shards", ", NEW.shard, NEW.shards",
		   "EXISTS (SELECT FROM run AS r JOIN job ON job.id = r.job WHERE " SAME_DUE
		   " AND r.shards > 1 AND " FAILED("r") " AND r.attempt >= retries"
		   " AND NOT (r.state = 'interrupted' AND again = 1 AND r.cause <> 'again'))")
	" END IF; RETURN NULL; END $$;"
	"CREATE TRIGGER run_ended AFTER UPDATE OF state ON run FOR EACH ROW"
	"	WHEN (OLD." OPEN " AND NOT NEW." OPEN ")"
	"	EXECUTE FUNCTION run_ended();"
	"CREATE TRIGGER run_missed AFTER INSERT ON run FOR EACH ROW"
	"	WHEN (NEW.state = 'missed') EXECUTE FUNCTION run_ended();"
	"CREATE FUNCTION jobs_notify() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
	"	NOTIFY jobs; RETURN NULL; END $$;"
	"CREATE TRIGGER job_changed AFTER INSERT OR UPDATE OF version ON job"
	"	FOR EACH STATEMENT EXECUTE FUNCTION jobs_notify();"
	"CREATE TRIGGER run_asked AFTER INSERT ON run FOR EACH ROW"
	"	WHEN (NEW.until = NEW.due AND (NEW.holder IS NULL OR NEW.cause = 'again'))"
	"	EXECUTE FUNCTION jobs_notify();"
	"CREATE TRIGGER run_stop AFTER UPDATE OF stop ON run"
	"	FOR EACH STATEMENT EXECUTE FUNCTION jobs_notify();";

static const char schema[] =
	"CREATE OR REPLACE FUNCTION now_ns() RETURNS bigint LANGUAGE sql VOLATILE AS $$"
	"	SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) * 1000"
	"$$;"
	"CREATE TABLE executor ("
	"	id uuid PRIMARY KEY DEFAULT gen_random_uuid(),"
	"	name text NOT NULL,"
	"	lease bigint NOT NULL,"
	"	period bigint NOT NULL DEFAULT 0,"
	"	schedules boolean NOT NULL DEFAULT true,"
	"	places bigint NOT NULL DEFAULT 0,"
	"	tags text NOT NULL DEFAULT ''"
	");"
	"CREATE TABLE known ("
	"	name text PRIMARY KEY,"
	"	token text NOT NULL"
	");"
	"CREATE TABLE server ("
	"	since bigint NOT NULL,"
	"	name text NOT NULL"
	");"
	"INSERT INTO server SELECT 0, " SERVER ";"
	TABLES("bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "bigint",
	       ", owner uuid REFERENCES executor ON DELETE SET NULL",
	       ", executor text, shard bigint NOT NULL DEFAULT 0, shards bigint, holder uuid", "")
	"CREATE INDEX job_owner ON job (owner) WHERE owner IS NOT NULL;"
	/* Each process finds its runs, and those whose process is gone. */
	"CREATE INDEX run_holder ON run (holder) WHERE holder IS NOT NULL AND " OPEN ";";

static const char first_version[] =
	"CREATE TABLE jobs_database ("
	"	version int NOT NULL,"
	"	id uuid NOT NULL DEFAULT gen_random_uuid()"
	");"
	"INSERT INTO jobs_database VALUES (" SCHEMA_VERSION ");";

#endif /* SCHEMA_PG_H */
