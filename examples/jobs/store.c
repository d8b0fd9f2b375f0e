// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "store.h"

/* "jobs" in ASCII */
#define APPLICATION_ID	"1785684595"
/* No process locks the database for longer. */
#define BUSY_MS		60000

const char *const misfires[] = { "nothing", "once" };
const char *const blocks[] = { "serial", "discard", "cover" };

/*
 * Times are ns since 1970, by the wall clock. AUTOINCREMENT, so that ids are not used again: the
 * scheduler may still have a job that another process removed.
 */
static const char schema[] =
	"BEGIN EXCLUSIVE;"
	"CREATE TABLE job ("
	"	id INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	name TEXT NOT NULL UNIQUE,"
	"	cron TEXT,"
	"	every INTEGER,"
	"	misfire TEXT NOT NULL CHECK (misfire IN ('nothing', 'once')),"
	"	block TEXT NOT NULL CHECK (block IN ('serial', 'discard', 'cover')),"
	"	next INTEGER,"
	"	CHECK ((cron IS NULL) <> (every IS NULL)),"
	"	CHECK (every > 0)"
	") STRICT;"
	"CREATE INDEX job_next ON job (next);"
	"CREATE TABLE argument ("
	"	job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE,"
	"	position INTEGER NOT NULL,"
	"	value TEXT NOT NULL,"
	"	PRIMARY KEY (job, position)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE run ("
	"	id INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE,"
	"	due INTEGER NOT NULL,"
	"	until INTEGER,"
	"	cause TEXT NOT NULL CHECK (cause IN ('due', 'late', 'misfire')),"
	"	state TEXT NOT NULL CHECK (state IN ('planned', 'started', 'done', 'covered',"
	"		'discarded', 'missed', 'interrupted')),"
	"	lane TEXT CHECK (lane IN ('fast', 'slow')),"
	"	started INTEGER,"
	"	ended INTEGER,"
	"	took INTEGER,"
	"	status INTEGER,"
	"	UNIQUE (job, due)"
	") STRICT;"
	"CREATE INDEX run_ended ON run (job, ended);"
	"CREATE INDEX run_open ON run (due) WHERE state IN ('planned', 'started');"
	"PRAGMA application_id = " APPLICATION_ID ";"
	"COMMIT;";

#define JOB_COLUMNS	"id, name, cron, every, misfire, block, next"

enum query {
	ADD, ADD_ARGUMENT, REMOVE, TRIM, HAS, FIRST_DUE, JOB, EACH_JOB, ARGV,
	PLAN, MISSED, NEXT, STARTED, ENDED, SLOW_RUNS, INTERRUPT, TOO_LATE, EACH_PLANNED, EACH_RUN,
};

static const char *const queries[] = {
	[ADD] = "INSERT INTO job (name, cron, every, misfire, block, next)"
		" VALUES (?, ?, ?, ?, ?, ?)",
	[ADD_ARGUMENT] = "INSERT INTO argument VALUES (?, ?, ?)",
	[REMOVE] = "DELETE FROM job WHERE name = ?",
	[TRIM] = "DELETE FROM run WHERE due < ? AND state NOT IN ('planned', 'started')",
	[HAS] = "SELECT 1 FROM job WHERE name = ?",
	[FIRST_DUE] = "SELECT " JOB_COLUMNS " FROM job WHERE next <= ? ORDER BY next LIMIT 1",
	[JOB] = "SELECT " JOB_COLUMNS " FROM job WHERE id = ?",
	[EACH_JOB] = "SELECT " JOB_COLUMNS " FROM job ORDER BY name",
	[ARGV] = "SELECT value FROM argument WHERE job = ? ORDER BY position",
	[PLAN] = "INSERT INTO run (job, due, until, cause, state) VALUES (?, ?, ?, ?, 'planned')",
	[MISSED] = "INSERT INTO run (job, due, until, cause, state)"
		" VALUES (?, ?, ?, 'misfire', 'missed')",
	[NEXT] = "UPDATE job SET next = ? WHERE id = ?",
	[STARTED] = "UPDATE run SET state = 'started', lane = ?, started = ?"
		" WHERE id = ? AND state = 'planned'",
	[ENDED] = "UPDATE run SET state = ?, ended = ?, took = ?, status = ? WHERE id = ?",
	[SLOW_RUNS] = "SELECT count(*) FROM run WHERE job = ? AND ended > ? AND took > ?",
	[INTERRUPT] = "UPDATE run SET state = 'interrupted', ended = ? WHERE state = 'started'",
	[TOO_LATE] = "UPDATE run SET state = 'missed' WHERE state = 'planned' AND due < ?1 AND NOT"
		" EXISTS (SELECT 1 FROM job WHERE id = run.job AND misfire = 'once'"
		"	AND (next IS NULL OR next >= ?1)"
		"	AND run.due = (SELECT min(due) FROM run"
		"		WHERE job = job.id AND state = 'planned'))",
	[EACH_PLANNED] = "SELECT id, job, due FROM run WHERE state = 'planned' ORDER BY due",
	[EACH_RUN] = "SELECT name, due, until, cause, state, lane, started, took, status"
		" FROM run JOIN job ON job.id = run.job WHERE ?1 IS NULL OR name = ?1"
		" ORDER BY due, run.id",
};

static const char *database;
static sqlite3 *db;
static sqlite3_stmt *prepared[ARRAY_SIZE(queries)];
static bool writing;

static void __attribute__((noreturn)) failed(void)
{
	errx(1, "%s: %s", database, sqlite3_errmsg(db));
}

static void execute(const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		failed();
}

/* Returns the number that @sql selects. */
static __s64 ask(const char *sql)
{
	sqlite3_stmt *s;
	__s64 value;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK || sqlite3_step(s) != SQLITE_ROW)
		failed();
	value = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	return value;
}

/*
 * Returns a query, ready to be stepped. @kinds has a letter for each parameter: n: a number; t: a
 * time or NEVER, which becomes NULL; s: a string or NULL.
 */
static sqlite3_stmt *query(enum query q, const char *kinds, ...)
{
	int i = 0, ret = SQLITE_OK;
	const char *string;
	va_list list;
	__s64 n;

	if (!prepared[q] && sqlite3_prepare_v3(db, queries[q], -1, SQLITE_PREPARE_PERSISTENT,
					       &prepared[q], NULL) != SQLITE_OK)
		failed();
	sqlite3_reset(prepared[q]);
	va_start(list, kinds);
	while (kinds[i] && ret == SQLITE_OK) {
		if (kinds[i] == 's') {
			string = va_arg(list, const char *);
			ret = sqlite3_bind_text(prepared[q], ++i, string, -1, SQLITE_TRANSIENT);
			continue;
		}
		n = va_arg(list, __s64);
		if (kinds[i] == 't' && n == NEVER)
			ret = sqlite3_bind_null(prepared[q], ++i);
		else
			ret = sqlite3_bind_int64(prepared[q], ++i, n);
	}
	va_end(list);
	if (ret != SQLITE_OK)
		failed();
	return prepared[q];
}

/* Step @s to its next row. If there is none, reset @s and return false. */
static bool row(sqlite3_stmt *s)
{
	switch (sqlite3_step(s)) {
	case SQLITE_ROW:
		return true;
	case SQLITE_DONE:
		sqlite3_reset(s);
		return false;
	default:
		failed();
	}
}

/* Begin a transaction: before a write, and before reads that decide about a write. */
static void begin(void)
{
	if (!writing)
		execute("BEGIN IMMEDIATE");
	writing = true;
}

/* Execute a query that writes. Returns how many rows it changed. */
static int write_row(sqlite3_stmt *s)
{
	while (row(s))
		;
	return sqlite3_changes(db);
}

void store_commit(void)
{
	size_t i;

	/* An unfinished query would make the next transaction see the old data. */
	for (i = 0; i < ARRAY_SIZE(prepared); i++)
		sqlite3_reset(prepared[i]);
	if (writing)
		execute("COMMIT");
	writing = false;
}

/* Wait here, because SQLite does not wait if another process does the same. */
static void go_to_wal(void)
{
	int ret, waited = 0;

	do
		ret = sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
	while (ret == SQLITE_BUSY && waited++ < BUSY_MS && sqlite3_sleep(1));
	if (ret != SQLITE_OK)
		failed();
}

void store_open(const char *path, bool create)
{
	int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
	struct stat st;

	database = path;
	/* For a better error message than SQLite's. */
	if (!create && stat(path, &st))
		err(1, "%s", path);
	if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK) {
		if (db && sqlite3_system_errno(db))
			errx(1, "%s: %s: %s", path, sqlite3_errmsg(db),
			     strerror(sqlite3_system_errno(db)));
		failed();
	}
	if (sqlite3_db_readonly(db, "main"))
		errx(1, "%s: no right to write to it", path);
	sqlite3_busy_timeout(db, BUSY_MS);
	if (ask("PRAGMA application_id") != atoi(APPLICATION_ID)) {
		/* Another process may be creating the same database: check the id again. */
		if (!create || (ask("SELECT count(*) FROM sqlite_schema") &&
				ask("PRAGMA application_id") != atoi(APPLICATION_ID)))
			errx(1, "%s: this is no database of jobs", path);
		go_to_wal();
		/* Another process may have created the tables. */
		if (sqlite3_exec(db, schema, NULL, NULL, NULL) != SQLITE_OK) {
			if (ask("PRAGMA application_id") != atoi(APPLICATION_ID))
				failed();
			execute("ROLLBACK");
		}
	}
	execute("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
}

void store_close(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(prepared); i++)
		sqlite3_finalize(prepared[i]);
	if (sqlite3_close(db) != SQLITE_OK)
		failed();
}

/* The lock belongs to the process: children do not inherit it, and it ends with the process. */
void store_lock(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	static int fd;		/* stays open */
	char *name;

	/* The real path, in case the database was opened through a link. */
	if (asprintf(&name, "%s-lock", sqlite3_db_filename(db, "main")) < 0)
		err(1, "store_lock");
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		err(1, "%s", name);
	if (fcntl(fd, F_SETLK, &lock)) {
		if (errno != EACCES && errno != EAGAIN)
			err(1, "%s", name);
		if (fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK)
			errx(1, "%s: another scheduler has it", path);
		errx(1, "%s: another scheduler has it, process %d", path, lock.l_pid);
	}
	free(name);
}

void store_add(const struct job_row *job, char *const *argv)
{
	__s64 id, i;

	begin();
	if (store_has(job->name))
		errx(1, "there is a job '%s' already", job->name);
	write_row(query(ADD, "sstsst", job->name, job->cron, job->cron ? NEVER : job->every,
			misfires[job->misfire], blocks[job->block], job->next));
	id = sqlite3_last_insert_rowid(db);
	for (i = 0; argv[i]; i++)
		write_row(query(ADD_ARGUMENT, "nns", id, i, argv[i]));
}

bool store_remove(const char *name)
{
	begin();
	return write_row(query(REMOVE, "s", name));
}

void store_trim(__s64 before)
{
	begin();
	write_row(query(TRIM, "n", before));
}

bool store_has(const char *name)
{
	sqlite3_stmt *s = query(HAS, "s", name);
	bool has = row(s);

	sqlite3_reset(s);
	return has;
}

static const char *text(sqlite3_stmt *s, int column)
{
	return (const char *)sqlite3_column_text(s, column);
}

static __s64 number(sqlite3_stmt *s, int column)
{
	return sqlite3_column_type(s, column) == SQLITE_NULL ? NEVER :
		sqlite3_column_int64(s, column);
}

/* The table allows no other words. */
static int index_of(const char *word, const char *const *words, int number)
{
	while (number-- > 1)
		if (!strcmp(word, words[number]))
			return number;
	return 0;
}

static bool job_row(sqlite3_stmt *s, struct job_row *job)
{
	if (!row(s))
		return false;
	*job = (struct job_row){
		.id = number(s, 0), .name = text(s, 1), .cron = text(s, 2), .every = number(s, 3),
		.misfire = index_of(text(s, 4), misfires, 2),
		.block = index_of(text(s, 5), blocks, 3), .next = number(s, 6),
	};
	return true;
}

bool store_first_due(__s64 until, struct job_row *job)
{
	begin();
	return job_row(query(FIRST_DUE, "n", until), job);
}

bool store_job(__s64 id, struct job_row *job)
{
	return job_row(query(JOB, "n", id), job);
}

/* For functions that return one row per call: has the query more rows? */
static bool going_on(enum query q)
{
	return prepared[q] && sqlite3_stmt_busy(prepared[q]);
}

bool store_each_job(struct job_row *job)
{
	return job_row(going_on(EACH_JOB) ? prepared[EACH_JOB] : query(EACH_JOB, ""), job);
}

char **store_argv(__s64 job)
{
	sqlite3_stmt *s = query(ARGV, "n", job);
	char **argv = NULL, **more;
	size_t n = 0;

	do {
		more = realloc(argv, (n + 1) * sizeof(*argv));
		if (!more)
			err(1, "argv");
		argv = more;
		argv[n] = NULL;
		if (!row(s))
			return argv;
		argv[n] = strdup(text(s, 0));
	} while (argv[n++]);
	err(1, "argv");
}

__s64 store_plan(__s64 job, __s64 due, __s64 until, const char *cause)
{
	begin();
	write_row(query(PLAN, "nnts", job, due, until, cause));
	return sqlite3_last_insert_rowid(db);
}

void store_missed(__s64 job, __s64 due, __s64 until)
{
	begin();
	write_row(query(MISSED, "nnt", job, due, until));
}

void store_next(__s64 job, __s64 next)
{
	begin();
	write_row(query(NEXT, "tn", next, job));
}

bool store_started(__s64 run, const char *lane)
{
	begin();
	return write_row(query(STARTED, "snn", lane, wall_now(), run));
}

void store_ended(__s64 run, const char *state, __s64 took, __s64 status)
{
	begin();
	write_row(query(ENDED, "snttn", state, wall_now(), took, status, run));
}

__s64 store_slow_runs(__s64 job, __s64 since, __s64 took)
{
	sqlite3_stmt *s = query(SLOW_RUNS, "nnn", job, since, took);
	__s64 count = row(s) ? number(s, 0) : 0;

	sqlite3_reset(s);
	return count;
}

int store_recover(__s64 too_late)
{
	int interrupted;

	begin();
	interrupted = write_row(query(INTERRUPT, "n", wall_now()));
	write_row(query(TOO_LATE, "n", too_late));
	return interrupted;
}

bool store_each_planned(__s64 *run, __s64 *job, __s64 *due)
{
	sqlite3_stmt *s = going_on(EACH_PLANNED) ? prepared[EACH_PLANNED] :
		query(EACH_PLANNED, "");

	if (!row(s))
		return false;
	*run = number(s, 0);
	*job = number(s, 1);
	*due = number(s, 2);
	return true;
}

bool store_each_run(const char *job, struct run_row *run)
{
	sqlite3_stmt *s = going_on(EACH_RUN) ? prepared[EACH_RUN] : query(EACH_RUN, "s", job);

	if (!row(s))
		return false;
	*run = (struct run_row){
		.job = text(s, 0), .due = number(s, 1), .until = number(s, 2), .cause = text(s, 3),
		.state = text(s, 4), .lane = text(s, 5), .started = number(s, 6),
		.took = number(s, 7), .status = number(s, 8),
	};
	return true;
}
