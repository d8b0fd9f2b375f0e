// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <err.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include "store_db.h"

/* How many rows are deleted in a transaction, for which schedulers wait. */
#define TRIM_MAX	((__s64)4096)

const char *const misfires[] = { "nothing", "once", "all" };
const char *const blocks[] = { "serial", "discard", "cover" };
const char *const dsts[] = { "once", "clock" };
const char *const events[] = { "success", "failure", "end" };

static const struct db *db = &db_sqlite;

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

/*
 * Prepare a query. @kinds has a letter for each parameter: n: a number; t: a time or NEVER, which
 * becomes NULL; s: a string or NULL.
 */
static enum query query(enum query q, const char *kinds, ...)
{
	struct value values[PARAMETERS_MAX] = { };
	va_list list;
	int n;

	va_start(list, kinds);
	for (n = 0; kinds[n]; n++) {
		values[n].number = NEVER;
		if (kinds[n] == 's')
			values[n].string = va_arg(list, const char *);
		else
			values[n].number = va_arg(list, __s64);
	}
	va_end(list);
	if (query_text(q))
		db->bind(q, values, n);
	return q;
}

static bool row(enum query q)
{
	return query_text(q) && db->row(q);
}

/* Execute a query that writes. Returns how many rows it changed. */
static int write_row(enum query q)
{
	while (row(q))
		;
	return query_text(q) ? db->changes(q) : 0;
}

/* Execute a query that returns one number. */
static __s64 one_number(enum query q)
{
	__s64 value = row(q) ? db->number(q, 0) : 0;

	db->reset(q);
	return value;
}

/* For functions that return one row per call: go to the next row of @q, or else begin it. */
static bool each(enum query q)
{
	return row(db->going_on(q) ? q : query(q, ""));
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

void store_close(void)
{
	db->close();
}

void store_lock(const char *name, __s64 lease)
{
	db->lock(name, lease, NULL);
}

void store_join(const struct executor_row *as, __s64 lease)
{
	db->lock(NULL, lease, as);
}

static void need_executors(void)
{
	if (!query_text(EACH_EXECUTOR))
		errx(1, "executors need a database in PostgreSQL");
}

bool store_add_executor(const char *name, const char *token)
{
	need_executors();
	db->begin();
	return write_row(query(KNOW, "ss", name, token));
}

bool store_remove_executor(const char *name)
{
	need_executors();
	db->begin();
	write_row(query(EXPEL, "s", name));
	return write_row(query(FORGET_KNOWN, "s", name));
}

static bool executor_row(enum query q, bool found, struct executor_row *row)
{
	if (!found)
		return false;
	*row = (struct executor_row){
		.id = db->text(q, 0), .name = db->text(q, 1), .tags = db->text(q, 2),
		.places = db->number(q, 3), .runs = db->number(q, 4), .left = db->number(q, 5),
		.silent = db->number(q, 6),
	};
	return true;
}

bool store_each_executor(struct executor_row *row)
{
	need_executors();
	return executor_row(EACH_EXECUTOR, each(EACH_EXECUTOR), row);
}

int store_fd(void)
{
	return db->fd ? db->fd() : -1;
}

unsigned int store_woken(void)
{
	return db->woken ? db->woken() : 0;
}

void store_wake(const char *whom)
{
	if (db->wake)
		db->wake(whom);
}

bool store_commit(void)
{
	return db->commit();
}

bool store_owned(void)
{
	return db->owned();
}

enum resumed store_resume(const char *running)
{
	return db->resume(running);
}

void store_renew(void)
{
	db->begin();
}

__s64 store_now(void)
{
	return db->now();
}

static void check_route(const struct job_row *job)
{
	if (job->route)
		need_executors();
}

static __s64 id_of(const char *name)
{
	return one_number(query(HAS, "s", name));
}

/* The script of a job, if it has one, is an argument, too. -1 would be NULL. */
#define SCRIPT		(-2LL)

static void write_command(__s64 job, const char *script, char *const *argv)
{
	__s64 i;

	write_row(query(FORGET_ARGUMENTS, "n", job));
	if (script)
		write_row(query(ADD_ARGUMENT, "nns", job, SCRIPT, script));
	for (i = 0; argv[i]; i++)
		write_row(query(ADD_ARGUMENT, "nns", job, i, argv[i]));
}

void store_add(const struct job_row *job, char *const *argv)
{
	db->begin();
	if (id_of(job->name))
		errx(1, "there is a job '%s' already", job->name);
	write_row(query(ADD, "s", job->name));
	store_change(job, argv);
}

/* Forget what is planned, from @next on. What was asked for is discarded. */
static void withdraw(__s64 job)
{
	write_row(query(DISCARD_ASKED, "n", job));
	write_row(query(UNPLAN, "nn", job, 0LL));
}

bool store_change(const struct job_row *job, char *const *argv)
{
	__s64 id;

	check_route(job);
	db->begin();
	id = id_of(job->name);
	if (!id)
		return false;
	if ((job->after && !id_of(job->after)) || (job->alarm && !id_of(job->alarm)))
		errx(1, "--after, --alarm: there is no such job");
	withdraw(id);
	write_row(query(CHANGE, "stsstssntnssnnnnnsssn", job->cron,
			job->cron ? NEVER : job->every, misfires[job->misfire],
			blocks[job->block], job->next, job->zone, dsts[job->by_clock], job->first,
			job->timeout, job->grace, job->route, job->tags ?: "", (__s64)job->again,
			job->retries, job->backoff, job->jitter, (__s64)job->from_end, job->after,
			job->after ? events[job->after_event] : NULL, job->alarm, id));
	write_row(query(LINK, "tn", job->next, id));
	if (one_number(query(IS_CYCLE, "s", job->name)))
		errx(1, "job '%s' would run after itself", job->name);
	write_command(id, job->script, argv);
	return true;
}

bool store_pause(const char *name, bool pause)
{
	__s64 id;

	db->begin();
	id = id_of(name);
	write_row(query(PAUSE, "nn", (__s64)pause, id));
	if (pause) {
		/* A shard whose due time others have begun is not due again. */
		write_row(query(DISCARD_ASKED, "n", id));
		write_row(query(WITHDRAW, "n", id));
		withdraw(id);
	}
	return id;
}

__s64 store_ask(const char *name)
{
	__s64 id;

	db->begin();
	id = id_of(name);
	return id ? one_number(query(ASK, "nn", id, db->now())) : 0;
}

static void trim_job(__s64 job, __s64 before)
{
	for (;;) {
		db->begin();
		if (write_row(query(TRIM, "nnn", job, before, TRIM_MAX)) < TRIM_MAX)
			break;
		store_commit();
		usleep(LET_OTHERS_MS * 1000);
	}
	store_commit();
}

bool store_remove(const char *name)
{
	__s64 job = id_of(name);

	if (!job)
		return false;
	/* Few rows are left for the last transaction. */
	trim_job(job, INT64_MAX);
	db->begin();
	return write_row(query(REMOVE, "n", job));
}

void store_trim(__s64 before)
{
	__s64 job = 0;

	while ((job = one_number(query(NEXT_ID, "n", job))) != NEVER)
		trim_job(job, before);
}

bool store_has(const char *name)
{
	return id_of(name);
}

/* The table allows no other words. */
static int index_of(const char *word, const char *const *words, int number)
{
	while (number-- > 1)
		if (!strcmp(word, words[number]))
			return number;
	return 0;
}

static bool job_row(enum query q, bool found, struct job_row *job)
{
	if (!found)
		return false;
	*job = (struct job_row){
		.id = db->number(q, 0), .name = db->text(q, 1), .cron = db->text(q, 2),
		.every = db->number(q, 3), .misfire = index_of(db->text(q, 4), misfires, 3),
		.block = index_of(db->text(q, 5), blocks, 3), .next = db->number(q, 6),
		.zone = db->text(q, 7), .by_clock = index_of(db->text(q, 8), dsts, 2),
		.first = db->number(q, 9), .steps = db->number(q, 10),
		.timeout = db->number(q, 11), .grace = db->number(q, 12),
		.route = db->text(q, 13), .tags = db->text(q, 14), .again = db->number(q, 15),
		.paused = db->number(q, 16), .retries = db->number(q, 17),
		.backoff = db->number(q, 18), .jitter = db->number(q, 19),
		.from_end = db->number(q, 20), .after = db->text(q, 21),
		.after_event = index_of(db->text(q, 22) ?: "", events, 3),
		.alarm = db->text(q, 23), .version = db->number(q, 24),
	};
	return true;
}

bool store_first_due(__s64 until, struct job_row *job)
{
	db->begin();
	/* A query may return several jobs. When it has no more, there may be others. */
	return job_row(FIRST_DUE, (db->going_on(FIRST_DUE) && row(FIRST_DUE)) ||
		       row(query(FIRST_DUE, "n", until)), job);
}

bool store_job(__s64 id, struct job_row *job)
{
	return job_row(JOB, row(query(JOB, "n", id)), job);
}

bool store_each_job(struct job_row *job)
{
	return job_row(EACH_JOB, each(EACH_JOB), job);
}

char **store_argv(__s64 job, char **script)
{
	enum query q = query(ARGV, "n", job);
	GPtrArray *argv = g_ptr_array_new();

	*script = NULL;
	while (row(q))
		if (db->number(q, 1) < 0)
			*script = g_strdup(db->text(q, 0));
		else
			g_ptr_array_add(argv, g_strdup(db->text(q, 0)));
	g_ptr_array_add(argv, NULL);
	return (char **)g_ptr_array_free(argv, false);
}

char **store_context(__s64 run, char **environment)
{
	static const char *const names[] = {
		"JOBS_CAUSE", "JOBS_ATTEMPT", "JOBS_DUE", "JOBS_EVENT",
		"JOBS_OF", "JOBS_OF_DUE", "JOBS_OF_STATE", "JOBS_OF_STATUS",
	};
	enum query q = query(CONTEXT, "n", run);
	const char *value;
	size_t i;

	if (!row(q))
		return environment;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		value = db->text(q, i);
		if (value)
			environment = g_environ_setenv(environment, names[i], value, true);
	}
	db->reset(q);
	return environment;
}

__s64 store_plan(__s64 job, __s64 due, __s64 until, const char *cause)
{
	db->begin();
	return one_number(query(PLAN, "nnts", job, due, until, cause));
}

void store_missed(__s64 job, __s64 due, __s64 until)
{
	db->begin();
	write_row(query(MISSED, "nnt", job, due, until));
}

void store_next(__s64 job, __s64 next)
{
	db->begin();
	write_row(query(NEXT, "tn", next, job));
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
	steps = one_number(query(STEPS, ""));
	if (!db->owned())
		return NEVER;
	if (!known) {
		base = offset - steps;
		if (query_text(SET_BOOT)) {
			write_row(query(SET_BOOT, "sn", boot_id(), base));
			base = one_number(query(BASE, ""));
		}
		known = true;
	}
	step = offset - base - steps;
	if (llabs(step) > db->error()) {
		/* Another scheduler may have counted it. */
		steps = one_number(query(STEPS_LOCKED, ""));
		if (!db->owned())
			return NEVER;
		step = offset - base - steps;
	}
	if (llabs(step) > db->error()) {
		warnx("the clock was set, by %+.3f s", (double)step / NS_PER_S);
		steps += step;
		write_row(query(STEP, "n", steps));
	}
	/* PostgreSQL's machine has other crystals than this one. */
	base = offset - steps;
	return steps;
}

bool store_each_stale(bool all, __s64 steps, struct job_row *job)
{
	enum query q = EACH_STALE;

	return job_row(q, row(db->going_on(q) ? q : query(q, "nn", (__s64)all, steps)), job);
}

void store_shift(__s64 job, __s64 change, bool all)
{
	write_row(query(SHIFT, "nnn", change, job, (__s64)all));
}

void store_unplan(__s64 job, __s64 now)
{
	write_row(query(UNPLAN, "nn", job, now));
}

__s64 store_last_due(__s64 job, __s64 until)
{
	return one_number(query(LAST_DUE, "nn", job, until));
}

void store_recalculated(const struct job_row *job, __s64 next, __s64 first, __s64 steps)
{
	write_row(query(RECALCULATED, "tnnn", next, first, steps, job->id));
	if (next != job->next)
		write_row(query(LINK, "tn", next, job->id));
}

void store_release(__s64 job)
{
	if (!query_text(RELEASE))
		return;
	db->begin();
	write_row(query(RELEASE, "n", job));
}

bool store_started(__s64 run, const char *lane)
{
	db->begin();
	return write_row(query(STARTED, "sn", lane, run));
}

bool store_stop(const char *name)
{
	__s64 job = id_of(name);

	db->begin();
	return write_row(query(STOP, "n", job));
}

__s64 store_each_stopped(bool *covered)
{
	if (!each(EACH_STOPPED))
		return 0;
	*covered = db->number(EACH_STOPPED, 1);
	return db->number(EACH_STOPPED, 0);
}

__s64 store_skipped(__s64 run, __s64 missed)
{
	db->begin();
	if (missed && write_row(query(EXTEND, "nn", run, missed))) {
		write_row(query(UNDO, "n", run));
		return missed;
	}
	write_row(query(SKIP, "n", run));
	return run;
}

void store_ended(__s64 run, const char *state, __s64 took, __s64 status)
{
	db->begin();
	write_row(query(ENDED, "sttn", state, took, status, run));
}

__s64 store_slow_runs(__s64 job, __s64 since, __s64 took)
{
	return one_number(query(SLOW_RUNS, "nnn", job, since, took));
}

int store_take_over(bool first, __s64 too_late)
{
	int interrupted = 0;

	/* Nobody has a scheduler's jobs in SQLite until it ends. */
	if (!query_text(TAKE_OVER) && !first)
		return 0;
	db->begin();
	/* These are several queries: each sees what was committed while the one before waited. */
	if (!query_text(TAKE_OVER) || write_row(query(TAKE_OVER, ""))) {
		write_row(query(AGAIN, ""));
		interrupted = write_row(query(INTERRUPT, ""));
		write_row(query(BURY, ""));
	}
	write_row(query(TOO_LATE, "n", too_late));
	return interrupted;
}

/* The queries of runs have these columns. */
static bool each_planned(enum query q, struct planned *planned)
{
	if (!query_text(q) || !each(q))
		return false;
	*planned = (struct planned){
		.run = db->number(q, 0), .job = db->number(q, 1), .due = db->number(q, 2),
		.shard = db->number(q, 3), .shards = db->number(q, 4), .why = db->number(q, 5),
		.held = db->number(q, 6),
	};
	return true;
}

bool store_each_planned(bool all, struct planned *planned)
{
	db->begin();
	return each_planned(all ? EACH_PLANNED : EACH_ORPHAN, planned);
}

bool store_each_asked(struct planned *planned)
{
	db->begin();
	return each_planned(EACH_ASKED, planned);
}

bool store_offer(__s64 run)
{
	db->begin();
	return write_row(query(OFFER, "n", run));
}

bool store_each_offered(struct offer *offer)
{
	const enum query q = EACH_OFFERED;

	if (!query_text(q) || !each(q))
		return false;
	*offer = (struct offer){
		.run = db->number(q, 0), .job = db->number(q, 1), .shard = db->number(q, 2),
		.shards = db->number(q, 3), .executor = db->text(q, 4), .route = db->text(q, 5),
		.tags = db->text(q, 6),
	};
	return true;
}

bool store_each_candidate(struct executor_row *row)
{
	return executor_row(EACH_CANDIDATE, each(EACH_CANDIDATE), row);
}

bool store_each_used(__s64 job, const char **name, __s64 *used, __s64 *last)
{
	const enum query q = EACH_USED;

	if (!row(db->going_on(q) ? q : query(q, "n", job)))
		return false;
	*name = db->text(q, 0);
	*used = db->number(q, 1);
	*last = db->number(q, 2);
	return true;
}

void store_assign(__s64 run, const struct executor_row *to, __s64 shard, __s64 shards)
{
	db->begin();
	write_row(query(ASSIGN, "ssnnn", to->id, to->name, shard, shards, run));
	store_wake(to->id);
}

void store_add_shard(__s64 run, const struct executor_row *to, __s64 shard, __s64 shards)
{
	write_row(query(ADD_SHARD, "ssnnn", to->id, to->name, shard, shards, run));
	store_wake(to->id);
}

bool store_each_held(struct planned *held)
{
	return each_planned(EACH_HELD, held);
}

void store_cover_held(__s64 job)
{
	db->begin();
	write_row(query(COVER_HELD, "n", job));
}

bool store_each_assigned(struct planned *planned)
{
	return each_planned(EACH_ASSIGNED, planned);
}

void store_hand_back(void)
{
	db->begin();
	write_row(query(NO_PLACES, ""));
	if (write_row(query(HAND_BACK, "")))
		store_wake(SCHEDULERS);
}

void store_output(__s64 run, __s64 size, const char *head, const char *tail)
{
	db->begin();
	write_row(query(OUTPUT, "nnssn", db->now(), size, head, tail, run));
}

bool store_last_output(const char *name, __s64 *size, const char **head, const char **tail)
{
	const enum query q = LAST_OUTPUT;

	if (!row(query(q, "s", name)))
		return false;
	*size = db->number(q, 0);
	*head = db->text(q, 1);
	*tail = db->text(q, 2);
	return true;
}

bool store_forget_output(__s64 before)
{
	db->begin();
	return write_row(query(FORGET_OUTPUT, "nn", before, TRIM_MAX)) < TRIM_MAX;
}

bool store_each_run(const char *job, struct run_row *run)
{
	enum query q = EACH_RUN;

	if (!row(db->going_on(q) ? q : query(q, "s", job)))
		return false;
	*run = (struct run_row){
		.job = db->text(q, 0), .due = db->number(q, 1), .until = db->number(q, 2),
		.cause = db->text(q, 3), .state = db->text(q, 4), .lane = db->text(q, 5),
		.started = db->number(q, 6), .took = db->number(q, 7), .status = db->number(q, 8),
		.doubtful = db->number(q, 9),
	};
	return true;
}
