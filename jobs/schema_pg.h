/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * The tables in PostgreSQL. They are those of SQLite (store_sqlite.c), and in addition:
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

#include "store_db.h"

/* By how much the clock was set, so that each scheduler counts it once: see store_steps(). */
#define CLOCK_TABLE								\
	"CREATE TABLE clock ("							\
	"	steps bigint NOT NULL"						\
	");"									\
	"INSERT INTO clock VALUES (0);"

#define KNOWN_TABLE								\
	"CREATE TABLE known ("							\
	"	name text PRIMARY KEY,"						\
	"	token text NOT NULL"						\
	");"

/* A standby that is promoted has another timeline, a restored table another oid. */
#define SERVER										\
	"(SELECT system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)"	\
	"	|| '/' || CAST(CAST('server' AS regclass) AS oid) FROM pg_control_system())"
#define SERVER_TABLE								\
	"CREATE TABLE server ("							\
	"	since bigint NOT NULL,"						\
	"	name text NOT NULL"						\
	");"									\
	"INSERT INTO server SELECT 0, " SERVER ";"

/* Each process finds its runs, and those whose process is gone. */
#define HOLDER_INDEX								\
	"CREATE INDEX run_holder ON run (holder)"				\
	"	WHERE holder IS NOT NULL AND state IN ('planned', 'started');"

#define OUTPUT_TABLE								\
	"CREATE TABLE output ("							\
	"	run bigint PRIMARY KEY REFERENCES run ON DELETE CASCADE,"	\
	"	at bigint NOT NULL,"						\
	"	size bigint NOT NULL,"						\
	"	head text NOT NULL,"						\
	"	tail text NOT NULL"						\
	");"									\
	"CREATE INDEX output_at ON output (at);"

/* What schedulers should know at once is notified, whoever writes it. */
#define TRIGGERS								\
	"CREATE FUNCTION run_ended() RETURNS trigger LANGUAGE plpgsql AS $$"		\
	" DECLARE at_now bigint := now_ns(); BEGIN "				\
	FOLLOW_UPS("at_now", ", shard, shards", ", NEW.shard, NEW.shards")	\
	" RETURN NULL; END $$;"							\
	"CREATE TRIGGER run_ended AFTER UPDATE OF state ON run FOR EACH ROW"	\
	"	WHEN (OLD.state IN ('planned', 'started')"			\
	"		AND NEW.state NOT IN ('planned', 'started'))"		\
	"	EXECUTE FUNCTION run_ended();"					\
	"CREATE TRIGGER run_missed AFTER INSERT ON run FOR EACH ROW"		\
	"	WHEN (NEW.state = 'missed') EXECUTE FUNCTION run_ended();"	\
	"CREATE FUNCTION jobs_notify() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"	\
	"	NOTIFY jobs; RETURN NULL; END $$;"			\
	"CREATE TRIGGER job_changed AFTER INSERT OR UPDATE OF version ON job"	\
	"	FOR EACH STATEMENT EXECUTE FUNCTION jobs_notify();"		\
	"CREATE TRIGGER run_asked AFTER INSERT ON run FOR EACH ROW"		\
	"	WHEN (NEW.until = NEW.due AND (NEW.holder IS NULL OR NEW.cause = 'again'))"	\
	"	EXECUTE FUNCTION jobs_notify();"	\
	"CREATE TRIGGER run_stop AFTER UPDATE OF stop ON run"			\
	"	FOR EACH STATEMENT EXECUTE FUNCTION jobs_notify();"

static const char schema[] =
	"CREATE TABLE jobs_database ("
	"	version int NOT NULL,"
	"	id uuid NOT NULL DEFAULT gen_random_uuid()"
	");"
	"INSERT INTO jobs_database VALUES (" SCHEMA_VERSION ");"
	"CREATE FUNCTION now_ns() RETURNS bigint LANGUAGE sql VOLATILE AS $$"
	"	SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) * 1000"
	"$$;"
	CLOCK_TABLE
	"CREATE TABLE executor ("
	"	id uuid PRIMARY KEY DEFAULT gen_random_uuid(),"
	"	name text NOT NULL,"
	"	lease bigint NOT NULL,"
	"	period bigint NOT NULL DEFAULT 0,"
	"	schedules boolean NOT NULL DEFAULT true,"
	"	places bigint NOT NULL DEFAULT 0,"
	"	tags text NOT NULL DEFAULT ''"
	");"
	KNOWN_TABLE
	SERVER_TABLE
	"CREATE TABLE job ("
	"	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
	"	name text NOT NULL UNIQUE,"
	"	cron text,"
	"	every bigint,"
	"	misfire text NOT NULL CHECK (misfire IN ('nothing', 'once', 'all')),"
	"	block text NOT NULL CHECK (block IN ('serial', 'discard', 'cover')),"
	"	next bigint,"
	"	zone text,"
	"	dst text NOT NULL CHECK (dst IN ('once', 'clock')),"
	"	first bigint NOT NULL,"
	"	steps bigint NOT NULL,"
	"	timeout bigint,"
	"	grace bigint NOT NULL,"
	"	owner uuid REFERENCES executor ON DELETE SET NULL,"
	"	route text CHECK (route IN (" ROUTE_WORDS ")),"
	"	tags text NOT NULL DEFAULT '',"
	"	again bigint NOT NULL DEFAULT 0,"
	"	paused bigint NOT NULL DEFAULT 0,"
	"	retries bigint NOT NULL DEFAULT 0,"
	"	backoff bigint NOT NULL DEFAULT 0,"
	"	jitter bigint NOT NULL DEFAULT 0,"
	"	from_end bigint NOT NULL DEFAULT 0,"
	"	after_job text,"
	"	after_state text CHECK (after_state IN (" EVENTS ")),"
	"	alarm text,"
	"	version bigint NOT NULL DEFAULT 0,"
	"	CHECK (cron IS NULL OR every IS NULL),"
	"	CHECK (every > 0)"
	");"
	"CREATE INDEX job_next ON job (next);"
	"CREATE INDEX job_after ON job (after_job);"
	"CREATE INDEX job_owner ON job (owner) WHERE owner IS NOT NULL;"
	"CREATE TABLE argument ("
	"	job bigint NOT NULL REFERENCES job ON DELETE CASCADE,"
	"	position bigint NOT NULL,"
	"	value text NOT NULL,"
	"	PRIMARY KEY (job, position)"
	");"
	"CREATE TABLE run ("
	"	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
	"	job bigint NOT NULL REFERENCES job ON DELETE CASCADE,"
	"	due bigint NOT NULL,"
	"	until bigint,"
	"	cause text NOT NULL CHECK (cause IN (" CAUSES ")),"
	"	state text NOT NULL CHECK (state IN ('planned', 'started', 'done', 'covered',"
	"		'discarded', 'missed', 'interrupted', 'timeout', 'stopped')),"
	"	lane text CHECK (lane IN ('fast', 'slow')),"
	"	executor text,"
	"	started bigint,"
	"	ended bigint,"
	"	took bigint,"
	"	status bigint,"
	"	stop bigint NOT NULL DEFAULT 0,"
	"	shard bigint NOT NULL DEFAULT 0,"
	"	shards bigint,"
	"	holder uuid,"
	"	attempt int NOT NULL DEFAULT 0,"
	"	origin bigint,"
	"	follows bigint,"
	"	event text"
	");"
	HOLDER_INDEX
	"CREATE INDEX run_due ON run (job, due);"
	"CREATE INDEX run_ended ON run (job, ended);"
	"CREATE INDEX run_open ON run (job, due) WHERE state IN ('planned', 'started');"
	OUTPUT_TABLE
	TRIGGERS;

/* From each version to the next one. */
static const char *const upgrades[] = {
	NULL,
	CLOCK_TABLE
	"ALTER TABLE job ADD zone text,"
	"	ADD dst text NOT NULL DEFAULT 'once' CHECK (dst IN ('once', 'clock')),"
	"	ADD first bigint NOT NULL DEFAULT 0, ADD steps bigint NOT NULL DEFAULT 0;"
	"ALTER TABLE job DROP CONSTRAINT job_misfire_check, DROP CONSTRAINT job_check,"
	"	ADD CHECK (misfire IN ('nothing', 'once', 'all')),"
	"	ADD CHECK (cron IS NULL OR every IS NULL);"
	"ALTER TABLE job ADD timeout bigint, ADD grace bigint NOT NULL DEFAULT 10000000000;"
	"ALTER TABLE job ALTER dst DROP DEFAULT, ALTER first DROP DEFAULT, ALTER steps DROP DEFAULT,"
	"	ALTER grace DROP DEFAULT;"
	"ALTER TABLE run DROP CONSTRAINT run_job_due_key, DROP CONSTRAINT run_state_check,"
	"	ADD CHECK (state IN ('planned', 'started', 'done', 'covered', 'discarded', 'missed',"
	"		'interrupted', 'timeout', 'stopped')), ADD stop bigint NOT NULL DEFAULT 0;"
	"CREATE INDEX run_due ON run (job, due);",

	"ALTER TABLE scheduler RENAME TO executor;"
	"ALTER TABLE executor ADD period bigint NOT NULL DEFAULT 0,"
	"	ADD schedules boolean NOT NULL DEFAULT true, ADD places bigint NOT NULL DEFAULT 0,"
	"	ADD tags text NOT NULL DEFAULT '';"
	KNOWN_TABLE
	"ALTER TABLE job ADD route text CHECK (route IN (" ROUTE_WORDS ")),"
	"	ADD tags text NOT NULL DEFAULT '', ADD again bigint NOT NULL DEFAULT 0;"
	"ALTER TABLE run RENAME scheduler TO executor;"
	"ALTER TABLE run DROP CONSTRAINT run_cause_check, ADD CONSTRAINT run_cause_check"
	"	CHECK (cause IN ('due', 'late', 'misfire', 'again')),"
	"	ADD shard bigint NOT NULL DEFAULT 0, ADD shards bigint, ADD holder uuid;"
	HOLDER_INDEX
	"UPDATE run SET holder = owner FROM job WHERE job.id = job AND state = 'started';",

	"ALTER TABLE job ADD paused bigint NOT NULL DEFAULT 0,"
	"	ADD retries bigint NOT NULL DEFAULT 0, ADD backoff bigint NOT NULL DEFAULT 0,"
	"	ADD jitter bigint NOT NULL DEFAULT 0, ADD from_end bigint NOT NULL DEFAULT 0,"
	"	ADD after_job text, ADD after_state text CHECK (after_state IN (" EVENTS ")),"
	"	ADD alarm text, ADD version bigint NOT NULL DEFAULT 0;"
	"ALTER TABLE run DROP CONSTRAINT run_cause_check, ADD CONSTRAINT run_cause_check"
	"	CHECK (cause IN (" CAUSES ")), ADD attempt int NOT NULL DEFAULT 0,"
	"	ADD origin bigint, ADD follows bigint, ADD event text;"
	"CREATE INDEX job_after ON job (after_job);"
	OUTPUT_TABLE
	TRIGGERS,

	SERVER_TABLE,
};

#endif /* SCHEMA_PG_H */
