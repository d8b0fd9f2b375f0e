// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <err.h>
#include <errno.h>
#include <fcntl.h>
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
#define POLL_MS		(LET_OTHERS_MS / 4)

static const char schema[] =
	TABLES("INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER", "", "", "STRICT")
	"PRAGMA application_id = " APPLICATION_ID ";"
	"PRAGMA user_version = " SCHEMA_VERSION ";";

/* For programs that do not know now_ns(). */
#define SQL_NOW		"CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000000"

static const char triggers[] =
	"CREATE TRIGGER run_ended AFTER UPDATE OF state ON run"
	"	WHEN OLD." OPEN " AND NOT NEW." OPEN " AND " FOLLOWED
	"	BEGIN " FOLLOW_UPS(SQL_NOW, "", "", "FALSE") " END;"
	"CREATE TRIGGER run_missed AFTER INSERT ON run WHEN NEW.state = 'missed' AND " FOLLOWED
	"	BEGIN " FOLLOW_UPS(SQL_NOW, "", "", "FALSE") " END;";

static const char *const queries[QUERIES] = {
	[FIRST_DUE] = "SELECT " JOB_COLUMNS " FROM job WHERE next <= $1 AND paused = 0"
		" ORDER BY next LIMIT 1",
	[STARTED] = "UPDATE run SET state = 'started', lane = $1, started = now_ns()"
		" WHERE id = $2 AND state = 'planned'",
	[AGAIN] = "INSERT INTO run (job, due, until, cause, state, attempt, origin, follows, event)"
		" SELECT job, due, due, 'again', 'planned', attempt, origin, follows, event FROM run JOIN job ON job.id = job"
		" WHERE state = 'started' AND cause <> 'again' AND again = 1",
	[INTERRUPT] = "UPDATE run SET state = 'interrupted', ended = now_ns()"
		" WHERE state = 'started'",
	[TOO_LATE] = "UPDATE run SET state = 'missed' WHERE state = 'planned' AND " CHAIN
		" AND due < $1 - (SELECT jitter FROM job WHERE id = run.job) AND NOT"
		" EXISTS (SELECT 1 FROM job WHERE id = run.job AND (misfire = 'all' OR misfire = 'once'"
		"	AND (next IS NULL OR next >= $1)"
		"	AND run.due = (SELECT min(due) FROM run"
		"		WHERE job = job.id AND state = 'planned' AND " CHAIN ")))",
	[EACH_PLANNED] = "SELECT id, job, due, 0, 1, " WHY ", 0 FROM run WHERE state = 'planned'"
		" ORDER BY due",
	/* The first condition is that of an index. */
	[EACH_ASKED] = "SELECT id, job, due, 0, 1, " WHY ", 0 FROM run"
		" WHERE " OPEN " AND state = 'planned'"
		" AND NOT " CHAIN " ORDER BY due",
	[STEPS_LOCKED] = "SELECT steps FROM clock",
	[SET_BOOT] = "UPDATE clock SET boot = $1, base = $2 WHERE boot IS NOT $1",
	[BASE] = "SELECT base FROM clock",
	[EACH_STALE] = "SELECT " JOB_COLUMNS " FROM job WHERE next IS NOT NULL"
		" AND ($1 = 1 OR steps <> $2)",
	[EACH_RUN] = LAST_RUNS("0", "$1"),
};

static const char *database;
static sqlite3 *file;
static sqlite3_stmt *prepared[QUERIES];
static bool writing;
static int lock_fd;		/* stays open */

static void __attribute__((noreturn)) failed(void)
{
	errx(1, "%s: %s", database, sqlite3_errmsg(file));
}

static void execute(const char *sql)
{
	if (sqlite3_exec(file, sql, NULL, NULL, NULL) != SQLITE_OK)
		failed();
}

/* Returns the number that @sql selects. */
static __s64 ask(const char *sql)
{
	sqlite3_stmt *s;
	__s64 value;

	if (sqlite3_prepare_v2(file, sql, -1, &s, NULL) || sqlite3_step(s) != SQLITE_ROW)
		failed();
	value = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	return value;
}

static int execute_query(enum query q, struct values values, GPtrArray *cells, int *columns)
{
	sqlite3_stmt **s = &prepared[q];
	int i, ret = SQLITE_OK;

	if (!*s && sqlite3_prepare_v3(file, query_text(q), -1, SQLITE_PREPARE_PERSISTENT, s, NULL))
		failed();
	for (i = 0; i < values.n && ret == SQLITE_OK; i++) {
		if (values.at[i].string)
			ret = sqlite3_bind_text(*s, i + 1, values.at[i].string, -1, SQLITE_STATIC);
		else if (values.at[i].number == NEVER)
			ret = sqlite3_bind_null(*s, i + 1);
		else
			ret = sqlite3_bind_int64(*s, i + 1, values.at[i].number);
	}
	*columns = sqlite3_column_count(*s);
	while (ret == SQLITE_OK && (ret = sqlite3_step(*s)) == SQLITE_ROW) {
		for (i = 0; i < *columns; i++)
			g_ptr_array_add(cells, g_strdup((char *)sqlite3_column_text(*s, i)));
		ret = SQLITE_OK;
	}
	if (ret != SQLITE_DONE)
		failed();
	/* Otherwise the next transaction would see the old data. */
	sqlite3_reset(*s);
	return sqlite3_changes(file);
}

static void begin(void)
{
	if (!writing)
		execute("BEGIN IMMEDIATE");
	writing = true;
}

static bool commit(void)
{
	if (writing)
		execute("COMMIT");
	writing = false;
	return true;
}

static __s64 clock_error(void)
{
	return NS_PER_S;
}

/* Nobody else can have the jobs while this process has the lock. */
static bool owned(void)
{
	return true;
}

static enum resumed resume(const char *running __attribute__((unused)))
{
	return RESUMED;
}

static void sql_now(sqlite3_context *context, int n __attribute__((unused)),
		    struct sqlite3_value **values __attribute__((unused)))
{
	sqlite3_result_int64(context, wall_now());
}

/* More often than SQLite does by itself: see LET_OTHERS_MS. */
static int poll_lock(void *none __attribute__((unused)), int polls)
{
	sqlite3_sleep(POLL_MS);
	return polls < BUSY_MS / POLL_MS;
}

/* Wait here, because SQLite does not wait if another process does the same. */
static void go_to_wal(void)
{
	int ret, waited = 0;

	do
		ret = sqlite3_exec(file, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
	while (ret == SQLITE_BUSY && waited++ < BUSY_MS && sqlite3_sleep(1));
	if (ret != SQLITE_OK)
		failed();
}

/* The lock belongs to the process: children do not inherit it, and it ends with the process. */
static void lock_file(const char *path, __s64 lease __attribute__((unused)),
		      const struct executor *as)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char *name;

	if (as)
		store_need_executors();
	/* The real path, in case the database was opened through a link. */
	if (asprintf(&name, "%s-lock", sqlite3_db_filename(file, "main")) < 0)
		err(1, "lock");
	lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (lock_fd < 0)
		err(1, "%s", name);
	if (fcntl(lock_fd, F_SETLK, &lock)) {
		if (errno != EACCES && errno != EAGAIN)
			err(1, "%s", name);
		if (fcntl(lock_fd, F_GETLK, &lock) || lock.l_type == F_UNLCK)
			errx(1, "%s: another scheduler has it", path);
		errx(1, "%s: another scheduler has it, process %d", path, lock.l_pid);
	}
	free(name);
}

static int version(void)
{
	return ask("PRAGMA user_version");
}

/* Unless another process has made them. */
static void make_tables(void)
{
	execute("BEGIN EXCLUSIVE");
	if (!version()) {
		execute(schema);
		execute(triggers);
	}
	execute("COMMIT");
}

static void open_file(const char *path, bool create)
{
	int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
	struct stat st;

	database = path;
	/* For a better error message than SQLite's. */
	if (!create && stat(path, &st))
		err(1, "%s", path);
	if (sqlite3_open_v2(path, &file, flags, NULL) != SQLITE_OK) {
		if (file && sqlite3_system_errno(file))
			errx(1, "%s: %s: %s", path, sqlite3_errmsg(file),
			     strerror(sqlite3_system_errno(file)));
		failed();
	}
	/* Such a database, as by "" or ":memory:", would be gone when this process ends. */
	if (!*(sqlite3_db_filename(file, "main") ?: ""))
		errx(1, "'%s' is not the name of a file", path);
	if (sqlite3_db_readonly(file, "main"))
		errx(1, "%s: no right to write to it", path);
	sqlite3_busy_handler(file, poll_lock, NULL);
	if (sqlite3_create_function(file, "now_ns", 0, SQLITE_UTF8, NULL, sql_now, NULL, NULL))
		failed();
	if (ask("PRAGMA application_id") != atoi(APPLICATION_ID)) {
		/* Another process may be creating the same database: check the id again. */
		if (!create || (ask("SELECT count(*) FROM sqlite_schema") &&
				ask("PRAGMA application_id") != atoi(APPLICATION_ID)))
			errx(1, "%s: this is no database of jobs", path);
		go_to_wal();
		make_tables();
	}
	if (version() != atoi(SCHEMA_VERSION))
		errx(1, OTHER_VERSION, path);
	execute("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
}

static void close_file(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(prepared); i++)
		sqlite3_finalize(prepared[i]);
	if (sqlite3_close(file) != SQLITE_OK)
		failed();
}

const struct db db_sqlite = {
	.queries = queries, .open = open_file, .close = close_file, .lock = lock_file,
	.now = wall_now, .error = clock_error, .begin = begin, .commit = commit, .owned = owned,
	.resume = resume, .execute = execute_query,
};
