// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * PostgreSQL: any number of schedulers, on any machines, share a database.
 *
 * Each scheduler has a row with a lease in the table "executor". It claims a job before it plans
 * runs of it (FIRST_DUE), or to take over the runs of a scheduler that has ended (EACH_ORPHAN). It
 * releases the job when all of these runs have ended. SKIP LOCKED makes it skip jobs that another
 * scheduler is claiming, instead of waiting.
 *
 * Each transaction of a scheduler begins with a renewal of its lease, in begin(). One statement
 * checks that the scheduler's row still exists, and locks the row until the transaction ends. To
 * take over its jobs, another scheduler locks the row, if the lease has ended, and deletes it. So
 * the jobs still belong to the scheduler when it commits what it wrote, and a scheduler whose row
 * is gone writes nothing any more. A scheduler that hangs in a transaction cannot lock the row
 * forever, because PostgreSQL ends its session (idle_in_transaction_session_timeout).
 *
 * A start is committed before the command is started, and only planned rows can be started. So
 * each due time is started at most once. Between the commit and the start the lease may end, so
 * owned() compares it with a clock of this machine that was read before the renewal was sent: by
 * that clock the lease ends no later than by PostgreSQL's. Only a process that is stopped between
 * owned() and execve(2) starts a command after its lease; another scheduler marks its row as
 * interrupted when it takes over, and nobody else starts that run.
 *
 * If the connection fails, or the answer takes too long, it is not known whether the transaction
 * was committed. resume() connects again. The old session may still be alive, but until its
 * transaction ends it holds the lock on the scheduler's row, and begin() waits for that. Then the
 * results of commands are written, again if necessary (struct result). Runs whose start was
 * committed, but whose commands were not started, become planned again.
 *
 * An executor is such a process, too. It claims no jobs; the schedulers that own jobs write into
 * planned runs which executor may start them (run.holder). What may race:
 *
 *	it starts a run, and is taken	only with the lock on its row it starts runs, so either
 *	over				the one or the other comes first. Then the run is
 *					interrupted, or it is planned, has a holder without a row
 *					(EACH_OFFERED), and is assigned again: it cannot be
 *					started by the one that is gone
 *	it starts a run that is		the row of the run decides: one of them finds that it is
 *	covered				not planned any more. COVER_HELD skips what is locked, and
 *					is repeated until the run is over
 *	it is killed after the claim,	the lease ends, and the run is assigned again: no command
 *	before "started" is committed	has run
 *	it is killed after that		interrupted, whether the command began or not; a repetition
 *					(AGAIN) is a row of its own, written with that
 *	it ends by SIGTERM when a run	HAND_BACK gives it back; if it was assigned later, its
 *	is assigned to it		holder has no row
 *	the scheduler is killed		the run goes on. Who claims the job next reads that
 *					(EACH_HELD) in the same transaction, before it starts or
 *					offers another
 *	it is cut off			as for a scheduler: it finds that it was taken over, and
 *					kills its commands; a repetition may run beside them
 *	another one has its name	the older one's lease is set to 0, which is never renewed
 *
 * Times are by PostgreSQL's clock, which each transaction reads. Since then that clock has advanced
 * at least as much as CLOCK_MONOTONIC has since the answer came, so now() is never ahead of it.
 *
 * Deadlocks: a scheduler waits for no lock of another scheduler or executor, nor does an executor:
 * they skip what is locked, or change only runs of a process that has no transaction any more,
 * because they have the lock on its row. Other processes lock the rows of
 * all schedulers first, and so exclude all their transactions.
 */
#include <err.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>
#include <postgresql/libpq-fe.h>

#include "schema_pg.h"
#include "store.h"

/* "jobs" in ASCII: excludes processes that create the tables at the same time. */
#define CREATE_LOCK	"1785684595"
/* The id of this scheduler, or an error if this is none. */
#define ME		"CAST(current_setting('jobs.scheduler') AS uuid)"
/* Each statement sees what others have committed, whatever the database's default is. */
#define BEGIN		"BEGIN ISOLATION LEVEL READ COMMITTED; "
/* What was committed outlives a crash of the server, whatever the database's default is. */
#define DURABLE		"SET synchronous_commit = on; "
#define LEASE_MIN	(600 * NS_PER_MS)
/* PostgreSQL's timeouts have 31 bits, for ms. */
#define LEASE_MAX	(18 * 86400 * NS_PER_S)
#define CONNECT_S	"5"
/* How long a program that is no scheduler may leave a transaction open. */
#define IDLE_MS		"5000"
/* A holder that has no row. */
#define NOBODY		"CAST('00000000-0000-0000-0000-000000000000' AS uuid)"
/* A run of this scheduler's: for each run one look, whatever the planner thinks of the tables. */
#define MINE		"(SELECT owner FROM job AS its WHERE its.id = run.job) = " ME
/* The condition of indices. */
#define OF_DEAD		"holder IN (SELECT id FROM executor WHERE lease = 0)"
#define HASHED(token)	"encode(sha256(convert_to(" token ", 'UTF8')), 'hex')"
/* Its runs; how much of its lease is left; is it silent? */
#define EXECUTOR_COLUMNS							\
	"id, name, tags, places,"						\
	" (SELECT count(*) FROM run WHERE holder = executor.id AND " OPEN "),"	\
	" lease - now_ns(), CAST(lease - now_ns() < period / 2 AS int)"
/* Those of struct planned. */
#define PLANNED_COLUMNS								\
	"run.id, run.job, due, shard, coalesce(shards, 1), " WHY ", CAST(holder IS NOT NULL AS int)"
#define PLANNED_RUNS	"(SELECT FROM run WHERE job = job.id AND state = 'planned')"

/*
 * Claim jobs with planned runs that meet a condition, and return the runs. They are few enough for
 * one lease. The scheduler's own jobs, whose commands run, come first; there are at most 800.
 */
#define CLAIM_PLANNED(condition, most)						\
	"WITH mine AS (UPDATE job SET owner = " ME " WHERE id IN"		\
	"	(SELECT id FROM job WHERE (" condition ") AND EXISTS " PLANNED_RUNS	\
	"		ORDER BY owner, id LIMIT " most						\
	"		FOR NO KEY UPDATE SKIP LOCKED) RETURNING id)"				\
	" SELECT " PLANNED_COLUMNS " FROM run JOIN mine ON mine.id = run.job"		\
	" WHERE state = 'planned' ORDER BY due"

static const char *const queries[QUERIES] = {
	/* An array: with IN, the planner may choose to read the whole table. */
	[TRIM] = "DELETE FROM run WHERE id = ANY (ARRAY(SELECT id FROM run WHERE job = $1"
		" AND due < $2 AND state NOT IN ('planned', 'started') ORDER BY due LIMIT $3))",
	/* Jobs with planned runs that nobody has are left to EACH_ORPHAN. */
	[FIRST_DUE] = "WITH due AS MATERIALIZED (SELECT id FROM job"
		"	WHERE next <= $1 AND paused = 0 AND (owner = " ME
		"	OR owner IS NULL AND NOT EXISTS " PLANNED_RUNS ")"
		"	ORDER BY next LIMIT 64 FOR NO KEY UPDATE SKIP LOCKED)"
		" UPDATE job SET owner = " ME " FROM due WHERE job.id = due.id"
		" RETURNING " JOB_COLUMNS,
	[STARTED] = "UPDATE run SET state = 'started', lane = $1, started = now_ns(), executor ="
		" (SELECT name FROM executor WHERE id = " ME "), holder = " ME
		" WHERE id = $2 AND state = 'planned' AND (holder IS NULL OR holder = " ME ")",
	/*
	 * Mark those whose leases have ended, until BURY. The clock may have been set since this
	 * scheduler renewed its own.
	 */
	[TAKE_OVER] = "UPDATE executor SET lease = 0 WHERE id IN"
		" (SELECT id FROM executor WHERE lease <= now_ns() AND id <> " ME
		"	FOR UPDATE SKIP LOCKED)",
	/* The scheduler that has the job, if there is one, assigns what was another one's. */
	[AGAIN] = "INSERT INTO run (job, due, until, cause, state, attempt, origin, follows, event,"
		" shard, shards, holder)"
		" SELECT job, due, due, 'again', 'planned', attempt, origin, follows, event,"
		"	shard, shards,"
		"	CASE WHEN holder = owner THEN NULL ELSE " NOBODY " END"
		" FROM run JOIN job ON job.id = job WHERE state = 'started' AND " OF_DEAD
		" AND cause <> 'again' AND again = 1",
	[INTERRUPT] = "UPDATE run SET state = 'interrupted', ended = now_ns()"
		" WHERE state = 'started' AND " OF_DEAD,
	[BURY] = "DELETE FROM executor WHERE lease = 0",	/* sets owner to NULL */
	/* Locks the jobs: nobody claims a run and finds that it is missed. */
	[TOO_LATE] = "UPDATE run SET state = 'missed' WHERE id IN"
		" (SELECT run.id FROM run JOIN job ON job.id = run.job"
		"	WHERE state = 'planned' AND " CHAIN " AND due < $1 - jitter"
		"	AND owner IS NULL AND holder IS NULL AND NOT"
		"	(misfire = 'all' OR misfire = 'once' AND (next IS NULL OR next >= $1) AND due ="
		"		(SELECT min(due) FROM run AS r"
		"			WHERE r.job = job.id AND state = 'planned' AND " CHAIN
		"			AND holder IS NULL))"
		"	FOR NO KEY UPDATE SKIP LOCKED)",
	[RELEASE] = "UPDATE job SET owner = NULL WHERE id = $1 AND owner = " ME,
	[EACH_PLANNED] = CLAIM_PLANNED("owner IS NULL OR owner = " ME, "1024"),
	[EACH_ORPHAN] = CLAIM_PLANNED("owner IS NULL", "256"),
	/* All that is planned of these jobs, as another scheduler may have left more. */
	[EACH_ASKED] = "WITH asked AS MATERIALIZED (SELECT DISTINCT job FROM run"
		" WHERE " OPEN " AND state = 'planned' AND NOT " CHAIN " AND holder IS NULL),"
		" mine AS (UPDATE job SET owner = " ME " WHERE id IN (SELECT id FROM job"
		"	WHERE id IN (SELECT job FROM asked) AND owner IS NULL ORDER BY id LIMIT 256"
		"	FOR NO KEY UPDATE SKIP LOCKED) RETURNING id)"
		" SELECT " PLANNED_COLUMNS " FROM run"
		" JOIN job ON job.id = run.job WHERE state = 'planned' AND job IN"
		"	(SELECT job FROM asked) AND (owner = " ME " OR job IN"
		"	(SELECT id FROM mine)) ORDER BY due",
	[STEPS_LOCKED] = "SELECT steps FROM clock FOR UPDATE",
	[EACH_STALE] = "SELECT " JOB_COLUMNS " FROM job WHERE next IS NOT NULL"
		" AND ($1 = 1 OR steps <> $2) AND (owner IS NULL OR owner = " ME ")"
		" FOR NO KEY UPDATE SKIP LOCKED",
	[EACH_RUN] = LAST_RUNS("CAST(EXISTS (SELECT FROM server WHERE run.due <= since"
			       " AND run.started > since) AS int)", "CAST($1 AS text)"),
	[EACH_STOPPED] = "SELECT job, CAST(stop = 2 AS int) FROM run WHERE " OPEN
		" AND state = 'started' AND stop > 0 AND holder = " ME,

	[OFFER] = "UPDATE run SET holder = " NOBODY
		" WHERE id = $1 AND state = 'planned' AND holder IS NULL",
	/* A job may have lost its route since. */
	[EACH_OFFERED] = "SELECT run.id, run.job, shard, shards, coalesce(executor, ''),"
		" coalesce(route, 'first'), tags FROM run JOIN job ON job.id = job"
		" WHERE holder IS NOT NULL AND " OPEN " AND state = 'planned' AND " MINE
		" AND NOT EXISTS (SELECT FROM executor WHERE id = holder) ORDER BY due, run.id",
	[EACH_CANDIDATE] = "SELECT " EXECUTOR_COLUMNS " FROM executor"
		" WHERE NOT schedules AND places > 0 AND lease > now_ns() ORDER BY name, id",
	[EACH_USED] = "SELECT executor, count(*), max(id) FROM (SELECT executor, id FROM run"
		" WHERE job = $1 AND executor IS NOT NULL ORDER BY due DESC, id DESC LIMIT 100)"
		" AS latest GROUP BY executor",
	[ASSIGN] = "UPDATE run SET holder = CAST($1 AS uuid), executor = $2, shard = $3,"
		" shards = $4 WHERE id = $5 AND state = 'planned'",
	[ADD_SHARD] = "INSERT INTO run (job, due, until, cause, state, follows, event, holder,"
		" executor, shard, shards)"
		" SELECT job, due, due, cause, state, follows, event, CAST($1 AS uuid), CAST($2 AS text),"
		" CAST($3 AS bigint), CAST($4 AS bigint) FROM run"
		" WHERE id = $5",
	[EACH_HELD] = "SELECT " PLANNED_COLUMNS " FROM run"
		" WHERE holder IS NOT NULL AND holder <> " ME " AND " OPEN " AND " MINE,
	[COVER_HELD] = "UPDATE run SET stop = 2, state = CASE state WHEN 'planned' THEN 'covered'"
		" ELSE state END, ended = CASE state WHEN 'planned' THEN now_ns() ELSE ended END"
		" WHERE id IN (SELECT id FROM run WHERE job = $1 AND holder IS NOT NULL"
		"	AND holder <> " ME " AND " OPEN " AND stop <> 2 FOR UPDATE SKIP LOCKED)",
	[EACH_ASSIGNED] = "SELECT " PLANNED_COLUMNS " FROM run"
		" WHERE holder = " ME " AND " OPEN " AND state = 'planned' ORDER BY due, id",
	[NO_PLACES] = "UPDATE executor SET places = 0 WHERE id = " ME,
	[HAND_BACK] = "UPDATE run SET holder = " NOBODY " WHERE holder = " ME " AND " OPEN
		" AND state = 'planned'",
	[EACH_EXECUTOR] = "SELECT " EXECUTOR_COLUMNS " FROM executor WHERE NOT schedules"
		" UNION ALL SELECT NULL, name, '', NULL, NULL, NULL, 0 FROM known"
		"	WHERE name NOT IN (SELECT name FROM executor WHERE NOT schedules)"
		" ORDER BY name",
	/* The token has 122 random bits. */
	[KNOW] = "WITH new AS (SELECT replace(CAST(gen_random_uuid() AS text), '-', '') AS token)"
		" INSERT INTO known SELECT $1, " HASHED("token") " FROM new"
		" ON CONFLICT DO NOTHING RETURNING (SELECT token FROM new)",
	[FORGET_KNOWN] = "DELETE FROM known WHERE name = $1",
	[EXPEL] = "UPDATE executor SET lease = 0 WHERE name = $1 AND NOT schedules",
	[NAMESAKES] = "SELECT count(*) FROM executor WHERE NOT schedules AND lease > now_ns()"
		" AND name = $1 AND CAST(id AS text) <> $2",
	[ENROLL] = "INSERT INTO executor (name, lease, period, schedules, places, tags)"
		" SELECT CAST($1 AS text), now_ns() + CAST($2 AS bigint), CAST($2 AS bigint),"
		" CAST($3 AS int) = 1, CAST($4 AS bigint), CAST($5 AS text)"
		" WHERE CAST($3 AS int) = 1 OR NOT EXISTS (SELECT FROM known) OR EXISTS"
		" (SELECT FROM known WHERE name = $1 AND token = " HASHED("$6") ") RETURNING id",
	/* What was to be started by this process, but was not. An executor keeps it. */
	[UNSTART] = "UPDATE run SET state = 'planned', lane = NULL, started = NULL,"
		" executor = CASE CAST($1 AS int) WHEN 1 THEN executor END,"
		" holder = CASE CAST($1 AS int) WHEN 1 THEN holder END"
		" WHERE state = 'started' AND holder = " ME
		" AND job <> ALL (CAST($2 AS bigint[]))",
	[DISOWN] = "UPDATE job SET owner = NULL WHERE owner = " ME
		" AND id <> ALL (CAST($1 AS bigint[]))",
};

static const char *database;
static PGconn *conn;		/* NULL: the connection was lost */
static bool writing;
static __s64 clock_offset;	/* PostgreSQL's clock minus CLOCK_MONOTONIC, or less */

static char me[40];		/* the id; "": this is no scheduler */
static char name[128];		/* of this process, for people */
static const struct executor *executor;	/* what it joined as; NULL: it is a scheduler */
static __s64 lease;
static __s64 lease_end;		/* CLOCK_BOOTTIME, which goes on while the machine is suspended */
static bool told;		/* that the connection was lost */
static GString *wakes;		/* statements that wake others, before COMMIT */
static bool taken_over;		/* begin() found that the row of this scheduler is gone */

static bool prepared[QUERIES];	/* in this session */

/*
 * What ENDED and OUTPUT have written in the current transaction, or since the connection was lost.
 * These are few: for each command at most what it has written until the connection was lost, what
 * it has written until its end, and its result; and how runs ended that were planned only. No
 * command begins meanwhile.
 */
struct result {
	enum query	q;
	int		n;
	struct value	values[VALUES_MAX];
};

static GArray *results;

static void forget_result(void *data)
{
	struct result *old = data;
	int i;

	for (i = 0; i < old->n; i++)
		g_free((char *)old->values[i].string);
}

static void keep_result(enum query q, struct values values)
{
	struct result result = { .q = q, .n = values.n };
	int i;

	for (i = 0; i < values.n; i++) {
		result.values[i] = values.at[i];
		result.values[i].string = g_strdup(values.at[i].string);
	}
	g_array_append_val(results, result);
}

/* The connection cannot be used any more. This ends the program unless it is a scheduler. */
static void lost(const char *why)
{
	if (!*me)
		errx(1, "PostgreSQL: %.*s", (int)strcspn(why, "\n"), why);
	if (!told)
		warnx("PostgreSQL: %.*s; trying again", (int)strcspn(why, "\n"), why);
	told = true;
	memset(prepared, 0, sizeof(prepared));
	PQfinish(conn);
	conn = NULL;
	writing = false;
	g_string_truncate(wakes, 0);
}

/* When to give up waiting: another scheduler should not take over because this one waited. */
static __s64 patience_end(void)
{
	return *me ? clock_ns(CLOCK_BOOTTIME) + lease / 2 : INT64_MAX;
}

/* Wait for the socket. Returns false after @end, by CLOCK_BOOTTIME. */
static bool await(short events, __s64 end)
{
	struct pollfd fd = { .fd = PQsocket(conn), .events = events };
	__s64 left;

	/* In steps: while the machine is suspended, the time of poll(2) stands still. */
	do {
		left = (end - clock_ns(CLOCK_BOOTTIME)) / NS_PER_MS;
		if (left < 0)
			return false;
	} while (!poll(&fd, 1, left < 1000 ? left + 1 : 1000));
	return true;
}

/* Returns the last result of what was sent, or the first error; NULL: the connection was lost. */
static PGresult *receive(void)
{
	PGresult *last = NULL, *result;
	__s64 end = patience_end();
	int flush;

	do {
		while ((flush = PQflush(conn)) || PQisBusy(conn)) {
			if (!await(POLLIN | (flush ? POLLOUT : 0), end)) {
				PQclear(last);
				lost("no answer");
				return NULL;
			}
			if (flush < 0 || !PQconsumeInput(conn))
				break;	/* PQgetResult() returns the error */
		}
		result = PQgetResult(conn);
		if (result && (!last || PQresultStatus(last) != PGRES_FATAL_ERROR)) {
			PQclear(last);
			last = result;
		} else {
			PQclear(result);
		}
	} while (result && PQstatus(conn) == CONNECTION_OK);
	return last;
}

/* May a retry succeed? Otherwise the program is wrong, or the database is not as it should be. */
static bool is_temporary(const char *code)
{
	static const char classes[] = "08 25 40 53 55 57 58";
	char class[3] = "";

	if (!code || PQstatus(conn) != CONNECTION_OK)
		return true;
	memcpy(class, code, 2);
	return strstr(classes, class);
}

/* Receive an answer. Returns NULL if it was an error. */
static PGresult *check(int sent)
{
	PGresult *result = sent ? receive() : NULL;

	if (!conn)
		return NULL;
	switch (PQresultStatus(result)) {
	case PGRES_COMMAND_OK:
	case PGRES_TUPLES_OK:
		return result;
	default:
		if (!is_temporary(PQresultErrorField(result, PG_DIAG_SQLSTATE)))
			errx(1, "PostgreSQL: %s", PQerrorMessage(conn));
		PQclear(result);
		lost(PQerrorMessage(conn));
		return NULL;
	}
}

/* Execute statements without parameters. Returns the result of the last one. */
static PGresult *execute(const char *sql)
{
	return conn ? check(PQsendQuery(conn, sql)) : NULL;
}

/* The same, for those that return one number. Returns @otherwise if there is none. */
static __s64 ask(const char *sql, __s64 otherwise)
{
	PGresult *result = execute(sql);
	__s64 value = PQntuples(result) ? atoll(PQgetvalue(result, 0, 0)) : otherwise;

	PQclear(result);
	return value;
}

static void wake(const char *whom)
{
	char sql[64];

	snprintf(sql, sizeof(sql), "NOTIFY jobs, '%s';", whom);
	if (!strstr(wakes->str, sql))
		g_string_append(wakes, sql);
}

static int send_query(enum query q, struct values values, GPtrArray *cells, int *columns)
{
	const char *texts[VALUES_MAX];
	char numbers[VALUES_MAX][24], id[16];
	PGresult *rows;
	int i, changes;

	snprintf(id, sizeof(id), "q%d", q);
	for (i = 0; i < values.n; i++) {
		snprintf(numbers[i], sizeof(numbers[i]), "%lld", values.at[i].number);
		texts[i] = values.at[i].string ?: values.at[i].number == NEVER ? NULL : numbers[i];
	}
	if (conn && !prepared[q]) {
		PQclear(check(PQsendPrepare(conn, id, query_text(q), values.n, NULL)));
		prepared[q] = conn;
	}
	if (!conn)
		return 0;
	rows = check(PQsendQueryPrepared(conn, id, values.n, texts, NULL, NULL, 0));
	*columns = PQnfields(rows);
	for (i = 0; i < PQntuples(rows) * *columns; i++)
		g_ptr_array_add(cells, PQgetisnull(rows, i / *columns, i % *columns) ? NULL :
				g_strdup(PQgetvalue(rows, i / *columns, i % *columns)));
	changes = rows ? atoi(PQcmdTuples(rows)) : 0;
	PQclear(rows);
	return changes;
}

static int execute_query(enum query q, struct values values, GPtrArray *cells, int *columns)
{
	if ((q == ENDED || q == OUTPUT) && *me)
		keep_result(q, values);
	/* The job's scheduler waits for this. */
	if (q == ENDED && executor)
		wake(SCHEDULERS);
	return send_query(q, values, cells, columns);
}

static __s64 now(void)
{
	return clock_offset + clock_ns(CLOCK_MONOTONIC);
}

/* The time that an answer took, which varies. */
static __s64 clock_error(void)
{
	return NS_PER_S + lease / 2;
}

/* Begin a transaction: see the top. */
static void begin(void)
{
	__s64 sent = clock_ns(CLOCK_BOOTTIME), time;
	char sql[320];

	if (writing || !conn)
		return;
	snprintf(sql, sizeof(sql), BEGIN "UPDATE executor SET lease = now_ns() + %lld"
		 " WHERE id = '%s' AND lease > 0 RETURNING CASE current_setting('jobs.scheduler', true)"
		 " WHEN '%s' THEN now_ns() ELSE 0 END", lease, me, me);
	time = ask(*me ? sql : BEGIN "SELECT now_ns() FROM executor ORDER BY id FOR UPDATE",
		   NEVER);
	writing = conn;
	if (!conn || !*me)
		return;
	if (time == NEVER) {
		taken_over = true;
		lost("another scheduler took over");
		return;
	}
	/* Its queries would take another scheduler's jobs for its own. */
	if (!time)
		errx(1, "PostgreSQL: another session's settings: a pooler must pool sessions");
	clock_offset = time - clock_ns(CLOCK_MONOTONIC);
	lease_end = sent + lease;
}

static bool commit(void)
{
	PGresult *result;

	if (writing && conn) {
		g_string_append(wakes, "COMMIT");
		result = execute(wakes->str);
		g_string_truncate(wakes, 0);
		/* A transaction that cannot be committed is rolled back without an error. */
		if (result && strcmp(PQcmdStatus(result), "COMMIT"))
			lost("the transaction was rolled back");
		PQclear(result);
	}
	writing = false;
	if (conn)
		g_array_set_size(results, 0);
	return conn;
}

static bool owned(void)
{
	return conn && clock_ns(CLOCK_BOOTTIME) < lease_end;
}

/*
 * Connect, without reading anything. Returns false if that failed, except at the first time. Each
 * host and each of its addresses has CONNECT_S, and so has a peer that vanishes later.
 */
static bool dial(void)
{
	/* What the conninfo says comes later, and wins. */
	const char *const keywords[] = {
		"connect_timeout", "tcp_user_timeout", "keepalives_idle", "keepalives_interval",
		"keepalives_count", "dbname", "fallback_application_name", NULL
	};
	const char *const values[] = {
		getenv("PGCONNECT_TIMEOUT") ?: CONNECT_S, CONNECT_S "000", CONNECT_S, "1",
		CONNECT_S, database, "jobs", NULL
	};

	conn = PQconnectdbParams(keywords, values, true);
	if (!conn)
		err(1, "PQconnectdb");
	if (PQstatus(conn) != CONNECTION_OK) {
		lost(PQerrorMessage(conn));
		return false;
	}
	PQsetnonblocking(conn, true);
	return true;
}

/*
 * Set up the session of a scheduler: its id, and when PostgreSQL gives it up. Statements are
 * planned when they are prepared, perhaps while the tables are empty: they are to use indexes
 * nevertheless.
 */
static void set_session(void)
{
	char sql[272];

	snprintf(sql, sizeof(sql), DURABLE "LISTEN jobs; SET jobs.scheduler = '%s';"
		 "SET enable_seqscan = off; SET jit = off;"
		 "SET idle_in_transaction_session_timeout = %lld; SET statement_timeout = %lld",
		 me, lease / 3 / NS_PER_MS, lease / NS_PER_MS);
	PQclear(execute(sql));
}

/*
 * A server that crashes without fsync, or is replaced by a standby that is not synchronous, forgets
 * what was started. The former is refused, the latter is noted.
 */
static void check_server(void)
{
	if (ask("SELECT 1 WHERE NOT CAST(current_setting('fsync') AS boolean)", 0))
		errx(1, "%s: its server has fsync = off, and may forget what was started",
		     PQdb(conn));
	if (!executor && ask("INSERT INTO server SELECT now_ns(), " SERVER " WHERE " SERVER
			     " <> (SELECT name FROM server ORDER BY since DESC LIMIT 1)"
			     " RETURNING 1", 0))
		warnx("%s: another server has it than before: what was due until now may be run"
		      " again", PQdb(conn));
}

/* Become a new scheduler or executor. */
static void enroll(void)
{
	const struct executor as = executor ? *executor : (struct executor){ .tags = "" };
	bool enrolled = false;

	PQclear(execute("BEGIN"));
	/* What this process has enrolled as before, the last time, is no other one. */
	if (executor && taken_over && store_number(NAMESAKES, S(name), S(me)))
		errx(1, "another executor has the name %s now", name);
	/* Let the process go that has the name of this one: see begin(). */
	if (executor)
		store_number(EXPEL, S(name));
	while (store_each(ENROLL, S(name), N(lease), N(!executor), N(as.places), S(as.tags),
			  S(as.token))) {
		snprintf(me, sizeof(me), "%s", store_text(ENROLL, 0));
		enrolled = true;
	}
	if (conn && !enrolled)
		errx(1, "no executor '%s' with this token was added", name);
	PQclear(execute("COMMIT"));
	set_session();
}

static void lock(const char *path __attribute__((unused)), __s64 wanted,
		 const struct executor *as)
{
	char host[100] = "";

	if (wanted < LEASE_MIN || wanted > LEASE_MAX)
		errx(1, "with PostgreSQL, --window must be from 1s to 30d");
	gethostname(host, sizeof(host) - 1);
	snprintf(name, sizeof(name), "%s:%d", host, getpid());
	if (as && as->name)
		snprintf(name, sizeof(name), "%s", as->name);
	executor = as;
	lease = wanted;
	check_server();
	enroll();
}

static int notified_fd(void)
{
	return conn ? PQsocket(conn) : -1;
}

static unsigned int woken(void)
{
	PGnotify *notify;
	unsigned int why = 0;

	if (!conn)
		return 0;
	if (!PQconsumeInput(conn)) {
		lost(PQerrorMessage(conn));
		return 0;
	}
	while ((notify = PQnotifies(conn))) {
		if (notify->be_pid != PQbackendPID(conn) && !*notify->extra)
			why |= WOKEN_TO_LOOK;
		if (!strcmp(notify->extra, executor ? me : SCHEDULERS))
			why |= WOKEN_BY_RUN;
		PQfreemem(notify);
	}
	return why;
}

/* Are these the tables of this program, and those that it has used since it was started? */
static void check_tables(void)
{
	static char used[40];
	PGresult *row = execute("SELECT version, id FROM jobs_database");

	if (!row)
		return;
	if (!PQntuples(row) || strcmp(PQgetvalue(row, 0, 0), SCHEMA_VERSION))
		errx(1, OTHER_VERSION, PQdb(conn));
	/* The ids of jobs and runs mean others there. */
	if (*used && strcmp(PQgetvalue(row, 0, 1), used))
		errx(1, "%s: this is another database than before", PQdb(conn));
	snprintf(used, sizeof(used), "%s", PQgetvalue(row, 0, 1));
	PQclear(row);
}

static enum resumed resume(const char *running)
{
	struct result *kept;
	unsigned int i;
	int columns;

	if (conn)
		lost("the lease has ended");
	if (!dial())
		return NOT_YET;
	check_tables();
	check_server();
	if (taken_over)
		enroll();
	else
		set_session();
	begin();
	/* Runs that were taken over are another's by now: only outputs are written. */
	for (i = 0; i < results->len; i++) {
		kept = &g_array_index(results, struct result, i);
		if (taken_over && kept->q != OUTPUT)
			continue;
		send_query(kept->q, (struct values){ kept->values, kept->n }, NULL, &columns);
	}
	if (taken_over) {
		if (!conn)
			return NOT_YET;
		warnx("PostgreSQL: connected again, but another scheduler took over");
		taken_over = false;
		told = false;
		return TAKEN_OVER;
	}
	/* A job has one command at a time. If it runs, then none waits to be started. */
	store_number(UNSTART, N(!!executor), S(running));
	store_number(DISOWN, S(running));
	if (!conn)
		return NOT_YET;
	warnx("PostgreSQL: connected again");
	told = false;
	return RESUMED;
}

static bool has_table(const char *table)
{
	char sql[80];

	snprintf(sql, sizeof(sql), "SELECT CAST(to_regclass('%s') IS NOT NULL AS int)", table);
	return ask(sql, 0);
}

static void open_database(const char *conninfo, bool create)
{
	database = conninfo;
	wakes = g_string_new(NULL);
	results = g_array_new(false, false, sizeof(struct result));
	g_array_set_clear_func(results, forget_result);
	dial();
	/* All schedulers wait for the locks of a program that was stopped, or cut off. */
	PQclear(execute(DURABLE "SET idle_in_transaction_session_timeout = " IDLE_MS));
	if (!has_table("run")) {
		if (!create)
			errx(1, "%s: this is no database of jobs", PQdb(conn));
		PQclear(execute("BEGIN; SELECT pg_advisory_xact_lock(" CREATE_LOCK ")"));
		if (!has_table("run")) {
			PQclear(execute(first_version));
			PQclear(execute(schema));
			PQclear(execute(triggers));
		}
		PQclear(execute("COMMIT"));
	}
	if (!has_table("jobs_database"))
		errx(1, OTHER_VERSION, PQdb(conn));
	check_tables();
	clock_offset = ask("SELECT now_ns()", 0) - clock_ns(CLOCK_MONOTONIC);
}

static void close_database(void)
{
	/* Leave the jobs to others at once. */
	if (*me && conn) {
		begin();
		PQclear(execute("DELETE FROM executor WHERE id = " ME));
		commit();
	}
	PQfinish(conn);
}

const struct db db_pg = {
	.queries = queries, .open = open_database, .close = close_database, .lock = lock,
	.now = now, .error = clock_error, .begin = begin, .commit = commit, .owned = owned,
	.resume = resume, .fd = notified_fd, .woken = woken, .wake = wake, .execute = execute_query,
};
