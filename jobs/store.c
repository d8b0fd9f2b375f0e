// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <err.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include "store.h"

/* How many rows are deleted in a transaction, for which schedulers wait. */
#define TRIM_MAX	((__s64)4096)

const char *const misfires[] = { "nothing", "once", "all" };
const char *const blocks[] = { "serial", "discard", "cover" };
const char *const dsts[] = { "once", "clock" };
const char *const events[] = { "success", "failure", "end" };

const struct db *db = &db_sqlite;

/* The queries that are the same for both databases. */
static const char *const common[QUERIES] = {
	/* CHANGE says the rest. */
	[ADD] = "INSERT INTO job (name, misfire, block) VALUES ($1, 'nothing', 'serial')",
	[ADD_ARGUMENT] = "INSERT INTO argument VALUES ($1, $2, $3)",
	[CHANGE] = "UPDATE job SET cron = $1, every = $2, misfire = $3, block = $4, next = $5,"
		" zone = $6, dst = $7, first = $8, timeout = $9, grace = $10, route = $11,"
		" tags = $12, again = $13, retries = $14, backoff = $15, jitter = $16,"
		" from_end = $17, after_job = $18, after_state = $19, alarm = $20,"
		" version = version + 1, steps = (SELECT steps FROM clock) WHERE id = $21",
	[IS_CYCLE] = "WITH RECURSIVE edge(name, follower) AS (SELECT after_job, name FROM job"
		" WHERE after_job IS NOT NULL UNION ALL SELECT name, alarm FROM job"
		" WHERE alarm IS NOT NULL), reach(name) AS (SELECT follower FROM edge"
		" WHERE name = $1 UNION SELECT follower FROM edge JOIN reach"
		" ON edge.name = reach.name) SELECT count(*) FROM reach WHERE name = $1",
	[PAUSE] = "UPDATE job SET paused = $1, version = version + 1 WHERE id = $2",
	[ASK] = "INSERT INTO run (job, due, until, cause, state)"
		" VALUES ($1, $2, $2, 'start', 'planned') RETURNING id",
	[WITHDRAW] = "UPDATE job SET next = coalesce((SELECT min(due) FROM run WHERE job = $1"
		" AND state = 'planned' AND " CHAIN "), next) WHERE id = $1",
	[DISCARD_ASKED] = "UPDATE run SET state = 'discarded', ended = now_ns() WHERE job = $1"
		" AND state = 'planned' AND (NOT " CHAIN " OR EXISTS (SELECT 1 FROM run AS r"
		" WHERE r.job = run.job AND r.due = run.due AND r.until = r.due"
		" AND r.cause = run.cause AND r.state <> 'planned'))",
	[CONTEXT] = "SELECT r.cause, r.attempt, r.origin, r.event, name, u.due, u.state, u.status"
		" FROM run AS r LEFT JOIN run AS u ON u.id = r.follows"
		" LEFT JOIN job ON job.id = u.job WHERE r.id = $1",
	[FORGET_ARGUMENTS] = "DELETE FROM argument WHERE job = $1",
	[REMOVE] = "DELETE FROM job WHERE id = $1",
	/* By an index: reads no rows that stay, except the open ones. */
	[TRIM] = "DELETE FROM run WHERE id IN (SELECT id FROM run WHERE job = $1 AND due < $2"
		" AND state NOT IN ('planned', 'started') ORDER BY due LIMIT $3)",
	[HAS] = "SELECT id FROM job WHERE name = $1",
	[NEXT_ID] = "SELECT min(id) FROM job WHERE id > $1",
	[JOB] = "SELECT " JOB_COLUMNS " FROM job WHERE id = $1",
	[EACH_JOB] = "SELECT " JOB_COLUMNS " FROM job ORDER BY name",
	[ARGV] = "SELECT value, position FROM argument WHERE job = $1 ORDER BY position",
	[PLAN] = "INSERT INTO run (job, due, until, cause, state)"
		" VALUES ($1, $2, $3, $4, 'planned') RETURNING id",
	[MISSED] = "INSERT INTO run (job, due, until, cause, state)"
		" VALUES ($1, $2, $3, 'misfire', 'missed')",
	[SKIP] = "UPDATE run SET state = 'missed' WHERE id = $1",
	[EXTEND] = "UPDATE run SET until = (SELECT until FROM run WHERE id = $1)"
		" WHERE id = $2 AND until = (SELECT due FROM run WHERE id = $1)",
	[UNDO] = "DELETE FROM run WHERE id = $1",
	/* The row is interrupted if another scheduler took over the job while the command ran. */
	[ENDED] = "UPDATE run SET state = $1, ended = now_ns(), took = $2, status = $3"
		" WHERE id = $4 AND " OPEN,
	[STOP] = "UPDATE run SET stop = 1 WHERE state = 'started' AND job = $1",
	/* The first condition is that of an index. */
	[EACH_STOPPED] = "SELECT job, 0 FROM run WHERE state IN ('planned', 'started')"
		" AND state = 'started' AND stop = 1",
	[NEXT] = "UPDATE job SET next = $1 WHERE id = $2",
	[STEPS] = "SELECT steps FROM clock",
	[STEP] = "UPDATE clock SET steps = $1",
	[SHIFT] = "UPDATE run SET due = CASE state WHEN 'planned' THEN due + $1 ELSE due END,"
		" until = until + $1 WHERE job = $2 AND (state = 'planned' AND ($3 = 1 OR"
		" NOT " CHAIN ") OR $3 = 1 AND id = (SELECT max(id) FROM run WHERE job = $2 AND"
		" state <> 'planned' AND " CHAIN "))",
	[UNPLAN] = "DELETE FROM run WHERE job = $1 AND state = 'planned' AND due > $2 AND " CHAIN,
	[LAST_DUE] = "SELECT max(due) FROM run WHERE job = $1 AND due <= $2 AND " CHAIN,
	[RECALCULATED] = "UPDATE job SET next = $1, first = $2, steps = $3 WHERE id = $4",
	[LINK] = "UPDATE run SET until = $1 WHERE id = (SELECT max(id) FROM run WHERE job = $2 AND "
		CHAIN ")",
	/* The run may be gone. */
	[OUTPUT] = "INSERT INTO output (run, at, size, head, tail) SELECT id, CAST($1 AS bigint),"
		" CAST($2 AS bigint), CAST($3 AS text), CAST($4 AS text) FROM run WHERE id = $5"
		" ON CONFLICT (run) DO UPDATE SET at = excluded.at, size = excluded.size,"
		" head = excluded.head, tail = excluded.tail",
	[LAST_OUTPUT] = "SELECT size, head, tail FROM output JOIN run ON run.id = output.run"
		" JOIN job ON job.id = run.job WHERE name = $1 ORDER BY run.id DESC LIMIT 1",
	[FORGET_OUTPUT] = "DELETE FROM output WHERE run IN"
		" (SELECT run FROM output WHERE at < $1 ORDER BY at LIMIT $2)",
	[SLOW_RUNS] = "SELECT count(*) FROM run WHERE job = $1 AND ended > $2 AND took > $3",
};

const char *query_text(enum query q)
{
	return db->queries[q] ?: common[q];
}

/* The rows of a query. */
static struct answer {
	GPtrArray	*cells;		/* NULL: it is over */
	int		columns;
	unsigned int	at;		/* in cells: the row */
} answers[QUERIES];

static void reset(enum query q)
{
	g_clear_pointer(&answers[q].cells, g_ptr_array_unref);
}

/* Returns how many rows were changed. */
static int execute(enum query q, struct values values)
{
	struct answer *a = &answers[q];

	reset(q);
	if (!query_text(q))
		return 0;
	a->cells = g_ptr_array_new_with_free_func(g_free);
	a->at = 0;
	return db->execute(q, values, a->cells, &a->columns);
}

static bool row(enum query q)
{
	struct answer *a = &answers[q];

	if (a->cells && a->at < a->cells->len)
		return true;
	reset(q);
	return false;
}

int store_write_values(enum query q, struct values values)
{
	int changes;

	if (query_text(q))
		db->begin();
	changes = execute(q, values);
	reset(q);
	return changes;
}

__s64 store_number_of(enum query q, struct values values)
{
	__s64 value;

	execute(q, values);
	value = row(q) ? store_int(q, 0) : 0;
	reset(q);
	return value;
}

bool store_each_of(enum query q, struct values values)
{
	if (answers[q].cells)
		answers[q].at += answers[q].columns;
	else
		execute(q, values);
	return row(q);
}

const char *store_text(enum query q, int column)
{
	return g_ptr_array_index(answers[q].cells, answers[q].at + column);
}

__s64 store_int(enum query q, int column)
{
	const char *value = store_text(q, column);

	return value ? atoll(value) : NEVER;
}

bool store_commit(void)
{
	enum query q;

	for (q = 0; q < QUERIES; q++)
		reset(q);
	return db->commit();
}

void store_open(const char *name, bool create)
{
	/* A URI or "key=value ..." of libpq; a file of this name is "./a=b". */
	if (!strncmp(name, "postgresql://", 13) || !strncmp(name, "postgres://", 11) ||
	    name[strspn(name, "abcdefghijklmnopqrstuvwxyz_")] == '=')
#ifdef JOBS_POSTGRESQL
		db = &db_pg;
#else
		errx(1, "this program was built without PostgreSQL");
#endif
	db->open(name, create);
}

void store_need_executors(void)
{
	if (!query_text(EACH_EXECUTOR))
		errx(1, "executors need a database in PostgreSQL");
}

static __s64 id_of(const char *name)
{
	return store_number(HAS, S(name));
}

/* The script of a job, if it has one, is an argument, too. -1 would be NULL. */
#define SCRIPT		(-2)

static void write_command(__s64 job, const char *script, char *const *argv)
{
	int i;

	store_write(FORGET_ARGUMENTS, N(job));
	if (script)
		store_write(ADD_ARGUMENT, N(job), N(SCRIPT), S(script));
	for (i = 0; argv[i]; i++)
		store_write(ADD_ARGUMENT, N(job), N(i), S(argv[i]));
}

void store_add(const struct job_row *job, char *const *argv)
{
	db->begin();
	if (id_of(job->name))
		errx(1, "there is a job '%s' already", job->name);
	store_write(ADD, S(job->name));
	store_change(job, argv);
}

/* Forget what is planned. What was asked for is discarded. */
static void withdraw(__s64 job)
{
	store_write(DISCARD_ASKED, N(job));
	store_write(UNPLAN, N(job), N(0));
}

void store_change(const struct job_row *job, char *const *argv)
{
	__s64 id;

	if (job->route)
		store_need_executors();
	db->begin();
	id = id_of(job->name);
	if ((job->after && !id_of(job->after)) || (job->alarm && !id_of(job->alarm)))
		errx(1, "--after, --alarm: there is no such job");
	withdraw(id);
	store_write(CHANGE, S(job->cron), N(job->cron ? NEVER : job->every),
		    S(misfires[job->misfire]), S(blocks[job->block]), N(job->next), S(job->zone),
		    S(dsts[job->by_clock]), N(job->first), N(job->timeout), N(job->grace),
		    S(job->route), S(job->tags ?: ""), N(job->again), N(job->retries),
		    N(job->backoff), N(job->jitter), N(job->from_end), S(job->after),
		    S(job->after ? events[job->after_event] : NULL), S(job->alarm), N(id));
	store_write(LINK, N(job->next), N(id));
	if (store_number(IS_CYCLE, S(job->name)))
		errx(1, "job '%s' would run after itself", job->name);
	write_command(id, job->script, argv);
}

void store_pause(__s64 job, bool pause)
{
	store_write(PAUSE, N(pause), N(job));
	if (pause) {
		/* A shard whose due time others have begun is not due again. */
		store_write(DISCARD_ASKED, N(job));
		store_write(WITHDRAW, N(job));
		withdraw(job);
	}
}

static void trim_job(__s64 job, __s64 before)
{
	while (store_write(TRIM, N(job), N(before), N(TRIM_MAX)) == TRIM_MAX) {
		store_commit();
		usleep(LET_OTHERS_MS * 1000);
	}
	store_commit();
}

void store_remove(__s64 job)
{
	/* Few rows are left for the last transaction. */
	trim_job(job, INT64_MAX);
	store_write(REMOVE, N(job));
}

void store_trim(__s64 before)
{
	__s64 job = 0;

	while ((job = store_number(NEXT_ID, N(job))) != NEVER)
		trim_job(job, before);
}

bool store_forget_output(__s64 before)
{
	return store_write(FORGET_OUTPUT, N(before), N(TRIM_MAX)) < TRIM_MAX;
}

/* The table allows no other words. */
static int index_of(const char *word, const char *const *words, int number)
{
	while (number-- > 1)
		if (!strcmp(word, words[number]))
			return number;
	return 0;
}

void store_read_job(enum query q, struct job_row *job)
{
	*job = (struct job_row){
		.id = store_int(q, 0), .name = store_text(q, 1), .cron = store_text(q, 2),
		.every = store_int(q, 3), .misfire = index_of(store_text(q, 4), misfires, 3),
		.block = index_of(store_text(q, 5), blocks, 3), .next = store_int(q, 6),
		.zone = store_text(q, 7), .by_clock = index_of(store_text(q, 8), dsts, 2),
		.first = store_int(q, 9), .steps = store_int(q, 10),
		.timeout = store_int(q, 11), .grace = store_int(q, 12),
		.route = store_text(q, 13), .tags = store_text(q, 14), .again = store_int(q, 15),
		.paused = store_int(q, 16), .retries = store_int(q, 17),
		.backoff = store_int(q, 18), .jitter = store_int(q, 19),
		.from_end = store_int(q, 20), .after = store_text(q, 21),
		.after_event = index_of(store_text(q, 22) ?: "", events, 3),
		.alarm = store_text(q, 23), .version = store_int(q, 24),
	};
}

bool store_first_due(__s64 until, struct job_row *job)
{
	bool went_on = answers[FIRST_DUE].cells;

	/* A query may return several jobs. When it has no more, there may be others. */
	if (!store_each(FIRST_DUE, N(until)) && !(went_on && store_each(FIRST_DUE, N(until))))
		return false;
	store_read_job(FIRST_DUE, job);
	return true;
}

bool store_job(__s64 id, struct job_row *job)
{
	reset(JOB);
	if (!store_each(JOB, N(id)))
		return false;
	store_read_job(JOB, job);
	return true;
}

char **store_argv(__s64 job, char **script)
{
	GPtrArray *argv = g_ptr_array_new();

	*script = NULL;
	while (store_each(ARGV, N(job)))
		if (store_int(ARGV, 1) < 0)
			*script = g_strdup(store_text(ARGV, 0));
		else
			g_ptr_array_add(argv, g_strdup(store_text(ARGV, 0)));
	g_ptr_array_add(argv, NULL);
	return (char **)g_ptr_array_free(argv, false);
}

char **store_context(__s64 run, char **environment)
{
	static const char *const names[] = {
		"JOBS_CAUSE", "JOBS_ATTEMPT", "JOBS_DUE", "JOBS_EVENT",
		"JOBS_OF", "JOBS_OF_DUE", "JOBS_OF_STATE", "JOBS_OF_STATUS",
	};
	const char *value;
	size_t i;

	if (!store_each(CONTEXT, N(run)))
		return environment;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		value = store_text(CONTEXT, i);
		if (value)
			environment = g_environ_setenv(environment, names[i], value, true);
	}
	reset(CONTEXT);
	return environment;
}

/* An id that changes when the machine is started: clocks since then cannot be compared. */
static const char *boot_id(void)
{
	static char id[40];
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file || !fgets(id, sizeof(id), file))
		*id = 0;
	if (file)
		fclose(file);
	return id;
}

__s64 store_steps(void)
{
	/* The clock minus CLOCK_BOOTTIME, but for when it was set. */
	static __s64 base;
	static bool known;
	__s64 offset, steps, step;

	db->begin();
	offset = db->now() - clock_ns(CLOCK_BOOTTIME);
	steps = store_number(STEPS);
	if (!db->owned())
		return NEVER;
	if (!known) {
		base = offset - steps;
		if (query_text(SET_BOOT)) {
			store_write(SET_BOOT, S(boot_id()), N(base));
			base = store_number(BASE);
		}
		known = true;
	}
	step = offset - base - steps;
	if (llabs(step) > db->error()) {
		/* Another scheduler may have counted it. */
		steps = store_number(STEPS_LOCKED);
		if (!db->owned())
			return NEVER;
		step = offset - base - steps;
	}
	if (llabs(step) > db->error()) {
		warnx("the clock was set, by %+.3f s", (double)step / NS_PER_S);
		steps += step;
		store_write(STEP, N(steps));
	}
	/* PostgreSQL's machine has other crystals than this one. */
	base = offset - steps;
	return steps;
}

__s64 store_skipped(__s64 run, __s64 missed)
{
	if (missed && store_write(EXTEND, N(run), N(missed))) {
		store_write(UNDO, N(run));
		return missed;
	}
	store_write(SKIP, N(run));
	return run;
}

void store_ended(__s64 run, const char *state, __s64 took, __s64 status)
{
	store_write(ENDED, S(state), N(took), N(status), N(run));
}

int store_take_over(bool first, __s64 too_late)
{
	int interrupted = 0;

	/* Nobody has a scheduler's jobs in SQLite until it ends. */
	if (!query_text(TAKE_OVER) && !first)
		return 0;
	/* These are several queries: each sees what was committed while the one before waited. */
	if (!query_text(TAKE_OVER) || store_write(TAKE_OVER)) {
		store_write(AGAIN);
		interrupted = store_write(INTERRUPT);
		store_write(BURY);
	}
	store_write(TOO_LATE, N(too_late));
	return interrupted;
}

struct run *store_each_planned(enum query q)
{
	struct run *run;

	if (!store_each(q))
		return NULL;
	run = g_new0(struct run, 1);
	*run = (struct run){
		.id = store_int(q, 0), .job = store_int(q, 1), .due = store_int(q, 2),
		.shard = store_int(q, 3), .shards = store_int(q, 4), .why = store_int(q, 5),
		.held = store_int(q, 6), .start = store_int(q, 2),
	};
	return run;
}
