// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * hwtimer-jobs: a scheduler of jobs in a database, with libhwtimer and SQLite or PostgreSQL. It is
 * modelled on XXL-JOB, which uses threads and a wheel of 60 seconds. Each due time of a job gets a
 * row with its result in the database. Even if the scheduler is killed, the next one continues from
 * there: each due time has a row, and none is started twice. Any number of schedulers, on any
 * machines, can share a database in PostgreSQL.
 *
 *	cron.[ch]	cron expressions
 *	due.[ch]	when a job is due next, and what becomes of that
 *	times.[ch]	durations, clocks
 *	store.[ch]	the database; store_db.h: what differs between store_sqlite.c, and
 *			store_pg.c with schema_pg.h; schema.h: tables, and what follows from a run
 *	route.[ch]	which executor gets a run; dispatch.[ch]: runs are assigned
 *	lanes.[ch]	running commands: lanes, and block strategies
 *	output.[ch]	what commands write
 *	sched.[ch]	the main loop: timeouts, misfires, the clock
 *	main.c		the command line
 */
#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "sched.h"

#define EXIT_USAGE	2
/* Each running command needs two descriptors. */
#define COUNT_MAX	240
#define RETRIES_MAX	10
#define SCRIPT_MAX	65536

static const char *database;
static char **arguments, **command;	/* what follows the command of this program, and "--" */

static const char summary[] =
	"  add NAME {--cron EXPRESSION | --every TIME | --at DATE} [OPTION]... -- COMMAND...\n"
	"  change NAME ...      as add, for a job that there is; its log stays, its due times begin\n"
	"                       anew\n"
	"  copy NAME NEW        add the same job by another name\n"
	"  remove NAME\n"
	"  pause NAME, resume NAME\n"
	"                       what is due meanwhile is not run; then it is late, or a misfire\n"
	"  start NAME           run it now; prints the id of the run\n"
	"  stop NAME            end its run, as after --timeout\n"
	"  list\n"
	"  log [NAME]\n"
	"  output NAME          the output of its last run\n"
	"  trim TIME            forget what became of due times longer ago than that\n"
	"  run [OPTION]...      until SIGTERM or SIGINT, and until what runs then has ended\n"
	"  executor [--name NAME] [--tags TAG[,TAG]...] [OPTION]...\n"
	"                       the same, but start only what schedulers assign to it, which it may do\n"
	"                       if it has the --tags of the job\n"
	"  executor list\n"
	"  executor add NAME    print a token for it; executors that are not named so are refused\n"
	"                       from now on. The token is given to it as JOBS_TOKEN\n"
	"  executor remove NAME\n"
	"\n"
	"DB is the file of a SQLite database, which add makes; or a database in PostgreSQL, which\n"
	"several schedulers can share, as postgresql://HOST/NAME or 'host=HOST dbname=NAME'; add\n"
	"makes the tables. A TIME is as 1.5s; ms, s, m, h, d. COMMAND has JOBS_NAME and, in ns since\n"
	"1970, JOBS_DUE in its environment, and JOBS_INDEX, from 0, of JOBS_TOTAL.";

/* What the options say, as they are written. */
static struct given {
	char	*cron, *zone, *dst, *every, *at, *first, *misfire, *block, *timeout, *grace;
	char	*route, *tags, *name;
	char	*retries, *backoff, *jitter, *after, *alarm, *script;
	gboolean broadcast, again, from_end;
	char	*keep, *window, *fast, *slow, *slow_time, *slow_runs, *slow_within;
} given;

/* A file name may have any bytes, whatever the locale is. */
#define OPTION(name, variable, value, what)						\
	{ name, 0, 0, G_OPTION_ARG_FILENAME, &given.variable, what, value }

#define FLAG(name, variable, what)							\
	{ name, 0, 0, G_OPTION_ARG_NONE, &given.variable, what, NULL }

static const GOptionEntry define_options[] = {
	OPTION("cron", cron, "EXPRESSION", "[seconds] minutes hours day-of-month month day-of-week "
	       "[year], or @daily and so on, after TZ=ZONE if not in the machine's time zone"),
	OPTION("timezone", zone, "ZONE", "the same, as Europe/Berlin"),
	OPTION("dst", dst, "once|clock", "what the clock shows twice is due once, and what it "
	       "skips after that [default]; or as often as the clock shows it"),
	OPTION("every", every, "TIME", "at least 10ms"),
	FLAG("from-end", from_end, "so long after the last run has ended"),
	OPTION("at", at, "DATE|never", "once, as '2027-01-31 13:00'; or only when asked for, by "
	       "start, --after or --alarm"),
	OPTION("after", after, "JOB[:success|failure|end]", "when a run of that job has ended, and "
	       "will not be retried, by success [default], by failure, or anyhow"),
	OPTION("jitter", jitter, "TIME", "a run begins later by up to TIME, by chance, but always "
	       "the same for a due time"),
	OPTION("first", first, "TIME", "when its due times begin, from now; -TIME: they began "
	       "before. Default: one period from now; with --cron, now"),
	OPTION("misfire", misfire, "nothing|once|all", "late by more than the window: do nothing "
	       "[default], run once now, or run once for each due time that has passed"),
	OPTION("block", block, "serial|discard|cover", "due while it runs: wait for that "
	       "[default], but of those that wait for longer than the window only the last one is run; discard "
	       "this run; or kill the running one"),
	OPTION("timeout", timeout, "TIME", "a run that takes longer is ended: SIGTERM to its "
	       "process group"),
	OPTION("grace", grace, "TIME", "and SIGKILL so much later [10s]"),
	OPTION("route", route, "WAY", "to which executor: first, last, round-robin [default with "
	       "--tags], random, hash, lfu, lru, failover, busyover. Otherwise it runs at its "
	       "scheduler"),
	OPTION("tags", tags, "TAG[,TAG]...", "only to executors with these"),
	FLAG("broadcast", broadcast, "each executor gets a run"),
	FLAG("again", again, "a run that was interrupted, because its machine failed, is run "
	     "again, once"),
	OPTION("retries", retries, "N", "how often a run is retried that failed or took too long "
	       "[0]"),
	OPTION("backoff", backoff, "TIME", "how much later [10s]; each time it is twice as much"),
	OPTION("alarm", alarm, "JOB", "to be run if a run fails (JOBS_EVENT=failure), takes longer "
	       "than its limit (overrun), is missed (misfire), or succeeds after that (recovery)"),
	OPTION("script", script, "FILE", "kept with the job, and run with the arguments after --"),
	{ }
};

static const GOptionEntry lane_options[] = {
	OPTION("window", window, "TIME", "how far ahead jobs are read from the database [5s]. In "
	       "PostgreSQL, the lease is three fifths of it: then others take over"),
	OPTION("fast", fast, "N", "how many may run at a time [16]"),
	OPTION("slow", slow, "N", "how many of the slow ones may, beside these [4]"),
	OPTION("slow-time", slow_time, "TIME", "a run that takes longer is slow [500ms]"),
	OPTION("slow-runs", slow_runs, "N", "with more slow runs a job is slow [10]"),
	OPTION("slow-within", slow_within, "TIME", "if these ended within this time [1m]"),
	{ }
};

static const GOptionEntry run_options[] = {
	OPTION("keep", keep, "TIME", "for how long outputs of runs are kept [30d]"),
	{ }
};

static const GOptionEntry executor_options[] = {
	OPTION("name", name, "NAME", "[HOST:PID]"),
	OPTION("tags", tags, "TAG[,TAG]...", "what it has, for jobs with --tags"),
	{ }
};

static void __attribute__((noreturn, format(printf, 1, 2))) misuse(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vwarnx(format, list);
	va_end(list);
	fprintf(stderr, "\"hwtimer-jobs --help\" says more.\n");
	exit(EXIT_USAGE);
}

/* Returns the time that is @text, or @otherwise if that is NULL. */
static __s64 duration(const char *option, const char *text, __s64 min, __s64 otherwise)
{
	char shown[DURATION_SIZE];
	__s64 ns = otherwise;

	if (text && (!parse_duration(text, &ns) || ns < min))
		misuse("%s takes a time such as 500ms, from %s to 3650d, not '%s'", option,
		       show_duration(min, shown), text);
	return ns;
}

static unsigned int count(const char *option, const char *text, unsigned int otherwise,
			  unsigned int min, unsigned int max)
{
	unsigned long n;
	char *end;

	if (!text)
		return otherwise;
	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text < '0' || *text > '9' || n < min || n > max)
		misuse("%s takes a number from %u to %d, not '%s'", option, min, max,
		       text);
	return n;
}

/* Returns which of the words @text is; NULL: the first. */
static int word(const char *option, const char *text, const char *const *words, int number)
{
	int i;

	for (i = 0; i < number; i++)
		if (!text || !strcmp(text, words[i]))
			return i;
	misuse("%s: there is no '%s'", option, text);
}

/* Returns the first due time; @first is the argument of --first, or NULL. */
static __s64 first_time(struct job_row *row, const struct schedule *schedule,
			const char *first, __s64 from)
{
	if (first && *first == '-')
		from -= duration("--first", first + 1, 0, 0);
	else if (first)
		from += duration("--first", first, 0, 0);
	else
		from += row->every;
	row->first = first ? from : 0;
	return row->cron ? schedule_next(schedule, from, from - 1) : from;
}

/* Split "TZ=ZONE EXPRESSION". */
static void split_zone(struct job_row *row)
{
	char *rest;

	if (strncmp(row->cron, "TZ=", 3) && strncmp(row->cron, "CRON_TZ=", 8))
		return;
	if (row->zone)
		misuse("--timezone or TZ=, but not both");
	row->zone = strdup(strchr(row->cron, '=') + 1);
	if (!row->zone)
		err(1, "strdup");
	rest = strpbrk(row->zone, " \t");
	if (!rest)
		misuse("--cron '%s': there is nothing after TZ=", row->cron);
	*rest++ = 0;
	row->cron = rest + strspn(rest, " \t");
}

/* Returns the time that is @text, to minutes or seconds. */
static __s64 date(const char *text, const char *zone)
{
	GTimeZone *tz = zone ? g_time_zone_new_identifier(zone) : g_time_zone_new_local();
	GDateTime *time;
	char *full;
	__s64 ns;

	if (!tz)
		misuse("there is no time zone '%s'", zone);
	full = g_strconcat(text, strlen(text) == strlen("2027-01-31 13:00") ? ":00" : "", NULL);
	time = g_date_time_new_from_iso8601(full, tz);
	if (!time)
		misuse("--at takes a date such as '2027-01-31 13:00', not '%s'", text);
	ns = g_date_time_to_unix(time) * NS_PER_S;
	g_date_time_unref(time);
	g_time_zone_unref(tz);
	g_free(full);
	return ns;
}

static void read_schedule(struct job_row *row, struct schedule *schedule)
{
	int schedules = !!given.cron + !!given.every + !!given.at;
	char why[128];

	row->cron = given.cron;
	row->zone = given.zone;
	row->by_clock = word("--dst", given.dst, dsts, 2);
	row->every = duration("--every", given.every, EVERY_MIN, 0);
	schedule->every = row->every;
	if (schedules != 1 && (schedules || !given.after))
		misuse("either --cron, --every or --at says when job '%s' is due", row->name);
	if (given.at && given.first)
		misuse("--first or --at, but not both");
	if (row->cron)
		split_zone(row);
	else if (row->zone && !given.at)
		misuse("--timezone is for --cron and --at");
	if (row->cron && !schedule_parse(schedule, row->cron, row->zone, why, sizeof(why)))
		misuse("--cron '%s': %s", row->cron, why);
	schedule->cron.by_clock |= row->by_clock;
	if (given.from_end && !given.every)
		misuse("--from-end is for --every");
	row->from_end = given.from_end;
	if (given.at || !schedules) {
		row->every = NEVER;
		row->next = schedules && strcmp(given.at, "never") ? date(given.at, row->zone) :
			NEVER;
	} else if (first_time(row, schedule, given.first, wall_now()) == NEVER) {
		misuse("--cron '%s' is never due", row->cron);
	}
}

/* "JOB", or "JOB:EVENT" */
static void read_after(struct job_row *row)
{
	char *event = strrchr(given.after, ':');

	if (event) {
		*event++ = 0;
		row->after_event = word("--after", event, events, 3);
	}
	row->after = given.after;
}

/* Returns the text of a script. */
static char *read_script(const char *file)
{
	GError *error = NULL;
	char *text;
	size_t size;

	if (!g_file_get_contents(file, &text, &size, &error))
		misuse("--script: %s", error->message);
	if (size > SCRIPT_MAX || strlen(text) != size)
		misuse("--script: '%s' is no text of at most %d bytes", file, SCRIPT_MAX);
	return text;
}

static void must_have(const char *name)
{
	if (!store_has(name))
		errx(1, "there is no job '%s'", name);
}

/* What nobody would have: tags are compared by each byte. */
static void check_tags(void)
{
	const char *t = given.tags;

	if (t && *t && (*t == ',' || t[strlen(t) - 1] == ',' || strstr(t, ",,") ||
			strpbrk(t, " \t\n")))
		misuse("--tags takes TAG[,TAG]..., not '%s'", t);
}

static void define(bool add)
{
	const char *name = *arguments;
	struct job_row row = { .name = name };
	struct schedule schedule = { };

	if (!*name)
		misuse("a job needs a NAME");
	row.misfire = word("--misfire", given.misfire, misfires, 3);
	row.block = word("--block", given.block, blocks, 3);
	row.timeout = duration("--timeout", given.timeout, NS_PER_MS, NEVER);
	row.grace = duration("--grace", given.grace, 0, 10 * NS_PER_S);
	row.tags = given.tags;
	check_tags();
	row.again = given.again;
	if (given.route)
		row.route = routes[word("--route", given.route, routes, ROUTE_BROADCAST)];
	else if (given.tags && !given.broadcast)
		row.route = routes[ROUTE_ROUND_ROBIN];
	if (given.broadcast && given.route)
		misuse("--route or --broadcast, but not both");
	if (given.broadcast)
		row.route = routes[ROUTE_BROADCAST];
	row.retries = count("--retries", given.retries, 0, 0, RETRIES_MAX);
	row.backoff = duration("--backoff", given.backoff, 0, 10 * NS_PER_S);
	row.jitter = duration("--jitter", given.jitter, 0, 0);
	row.alarm = given.alarm;
	if (given.after)
		read_after(&row);
	if (given.script) {
		row.script = read_script(given.script);
		*--command = g_path_get_basename(given.script);
	}
	read_schedule(&row, &schedule);
	if (!*command)
		misuse("there is no COMMAND for job '%s'", name);
	store_open(database, add);
	if (!add)
		must_have(name);
	/* So that a scheduler does not add what the clock was set by before that. */
	store_steps();
	if (schedule.every || row.cron)
		row.next = first_time(&row, &schedule, given.first, store_now());
	if (add)
		store_add(&row, command);
	else
		store_change(&row, command);
	store_commit();
}

static void add(void)
{
	define(true);
}

static void change(void)
{
	define(false);
}

static void copy(void)
{
	struct job_row row;
	char **argv, *script;

	store_open(database, false);
	must_have(arguments[0]);
	/* SQLite does not let one write who reads what is changed meanwhile. */
	store_renew();
	while (store_each_job(&row) && strcmp(row.name, arguments[0]))
		;
	argv = store_argv(row.id, &script);
	row.name = arguments[1];
	row.script = script;
	/* It is not known yet. */
	if (row.from_end && row.next == NEVER)
		row.next = store_now();
	store_add(&row, argv);
	store_commit();
	g_strfreev(argv);
	g_free(script);
}

static void remove_job(void)
{
	store_open(database, false);
	must_have(*arguments);
	store_remove(*arguments);
	store_commit();
}

static void set_paused(bool paused)
{
	store_open(database, false);
	must_have(*arguments);
	store_pause(*arguments, paused);
	store_commit();
}

static void pause_job(void)
{
	set_paused(true);
}

static void resume_job(void)
{
	set_paused(false);
}

static void start(void)
{
	__s64 run;

	store_open(database, false);
	must_have(*arguments);
	run = store_ask(*arguments);
	store_commit();
	printf("%lld\n", run);
}

static void stop(void)
{
	store_open(database, false);
	must_have(*arguments);
	if (!store_stop(*arguments))
		errx(1, "job '%s' does not run", *arguments);
	store_commit();
}

static void show_output(void)
{
	const char *head, *tail;
	__s64 size;

	store_open(database, false);
	must_have(*arguments);
	if (!store_last_output(*arguments, &size, &head, &tail))
		return;
	fputs(head, stdout);
	if (size > 2 * OUTPUT_KEPT)
		printf("\n[... %lld bytes ...]\n", size - 2 * OUTPUT_KEPT);
	fputs(tail, stdout);
}

static void trim(void)
{
	__s64 ns = duration("trim", *arguments, 0, 0);

	store_open(database, false);
	store_trim(store_now() - ns);
}

/*
 * Print @text from the database. Control characters, which terminals obey, become "?", as in ls;
 * those above 0x7f are known by their UTF-8.
 */
static void show_text(int width, const char *text)
{
	char *copy = strdup(text), *c;

	if (!copy)
		err(1, "strdup");
	for (c = copy; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
		else if (*c == '\302' && (c[1] & 0xe0) == 0x80)
			*c = c[1] = '?';
	printf("%-*s ", width, copy);
	free(copy);
}

static void list(void)
{
	char next[TIME_SIZE], every[DURATION_SIZE];
	struct job_row row;

	store_open(database, false);
	printf("%-16s %-20s %-8s %-8s %-23s %s\n", "JOB", "SCHEDULE", "MISFIRE", "BLOCK", "NEXT",
	       "ZONE");
	while (store_each_job(&row)) {
		show_text(16, row.name);
		show_text(20, row.cron ?: row.every != NEVER ? show_duration(row.every, every) :
			  row.next == NEVER ? "-" : "once");
		printf("%-8s %-8s %-23s ", misfires[row.misfire], blocks[row.block],
		       row.paused ? "paused" : show_time(row.next, row.zone, next));
		show_text(0, row.zone ?: "");
		putchar('\n');
	}
}

static void show_ms(__s64 ns)
{
	if (ns == NEVER)
		printf(" %10s", "-");
	else
		printf(" %10.1f", (double)ns / NS_PER_MS);
}

static void show_log(void)
{
	char due[TIME_SIZE], until[TIME_SIZE];
	const char *name = *arguments;
	struct run_row row;

	store_open(database, false);
	if (name)
		must_have(name);
	printf("%-23s %-12s %-7s %-11s %-4s %10s %10s  %s\n", "DUE", "JOB", "CAUSE", "STATE",
	       "LANE", "LATE/ms", "TOOK/ms", "STATUS");
	while (store_each_run(name, &row)) {
		printf("%-23s ", show_time(row.due, NULL, due));
		show_text(12, row.job);
		printf("%-7s %-11s %-4s", row.cause, row.state, row.lane ?: "-");
		show_ms(row.started == NEVER ? NEVER : row.started - row.due);
		show_ms(row.took);
		if (row.status != NEVER)
			printf("  %lld%s\n", row.status, row.doubtful ? ", perhaps again" : "");
		else if (!strcmp(row.state, "missed"))
			printf("  until %s\n", show_time(row.until, NULL, until));
		else
			printf("  -\n");
	}
}

static struct sched_options sched_options(bool executes)
{
	__s64 window = duration("--window", given.window, 100 * NS_PER_MS, 5 * NS_PER_S);

	return (struct sched_options){
		.window = window,
		.keep = duration("--keep", given.keep, 0, 30 * 86400 * NS_PER_S),
		.executes = executes,
		.lanes = {
			.window = window,
			.fast_places = count("--fast", given.fast, 16, 1, COUNT_MAX),
			.slow_places = count("--slow", given.slow, 4, 1, COUNT_MAX),
			.slow_time = duration("--slow-time", given.slow_time, 0, 500 * NS_PER_MS),
			.slow_runs = count("--slow-runs", given.slow_runs, 10, 0, COUNT_MAX),
			.slow_within = duration("--slow-within", given.slow_within, 0,
						60 * NS_PER_S),
		},
	};
}

static void run(void)
{
	const struct sched_options sched = sched_options(false);

	store_open(database, false);
	store_lock(database, sched.window / 5 * 3);
	sched_run(&sched);
}

static void execute(void)
{
	const struct sched_options sched = sched_options(true);
	const struct executor_row as = {
		.name = given.name, .tags = given.tags ?: "", .token = getenv("JOBS_TOKEN"),
		.places = sched.lanes.fast_places,
	};

	check_tags();
	store_open(database, false);
	store_join(&as, sched.window / 5 * 3);
	sched_run(&sched);
}

static void add_executor(const char *name)
{
	unsigned char random[16];
	char token[2 * sizeof(random) + 1];
	size_t i;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		err(1, "getrandom");
	for (i = 0; i < sizeof(random); i++)
		sprintf(token + 2 * i, "%02x", random[i]);
	if (!store_add_executor(name, token))
		errx(1, "executor '%s' was added before", name);
	if (store_commit())
		puts(token);
}

static void list_executors(void)
{
	struct executor_row row;

	printf("%-24s %-16s %6s %6s  %s\n", "EXECUTOR", "TAGS", "PLACES", "RUNS", "STATE");
	while (store_each_executor(&row)) {
		show_text(24, row.name);
		show_text(16, row.tags);
		if (row.places == NEVER)
			printf("%6s %6s  absent\n", "-", "-");
		else
			printf("%6lld %6lld  %s\n", row.places, row.runs, row.left < 0 ? "gone" :
			       !row.places ? "ending" : row.silent ? "silent" : "ready");
	}
}

static void executor(void)
{
	const char *what = arguments[0], *name = what ? arguments[1] : NULL;

	if (!what) {
		execute();
		return;
	}
	store_open(database, false);
	if (!strcmp(what, "list") && !name)
		list_executors();
	else if (!strcmp(what, "add") && name && *name)
		add_executor(name);
	else if (strcmp(what, "remove") || !name)
		misuse("executor takes list, add NAME, or remove NAME");
	else if (!store_remove_executor(name))
		errx(1, "no executor '%s' was added", name);
	store_commit();
}

static const struct command {
	const char		*name;
	void			(*run)(void);
	const char		*takes;
	unsigned int		min, max;	/* how many of these */
	const GOptionEntry	*options, *more;
} commands[] = {
	{ "add", add, "NAME", 1, 1, define_options, NULL },
	{ "change", change, "NAME", 1, 1, define_options, NULL },
	{ "copy", copy, "NAME, and that of the copy", 2, 2, NULL, NULL },
	{ "remove", remove_job, "NAME", 1, 1, NULL, NULL },
	{ "pause", pause_job, "NAME", 1, 1, NULL, NULL },
	{ "resume", resume_job, "NAME", 1, 1, NULL, NULL },
	{ "start", start, "NAME", 1, 1, NULL, NULL },
	{ "stop", stop, "NAME", 1, 1, NULL, NULL },
	{ "list", list, NULL, 0, 0, NULL, NULL },
	{ "log", show_log, "NAME", 0, 1, NULL, NULL },
	{ "output", show_output, "NAME", 1, 1, NULL, NULL },
	{ "trim", trim, "TIME", 1, 1, NULL, NULL },
	{ "run", run, NULL, 0, 0, lane_options, run_options },
	{ "executor", executor, NULL, 0, 2, lane_options, executor_options },
};

static void add_group(GOptionContext *context, const char *name, const char *title,
		      const GOptionEntry *options)
{
	GOptionGroup *group = g_option_group_new(name, title, name, NULL, NULL);

	g_option_group_add_entries(group, options);
	g_option_context_add_group(context, group);
}

static void help(void)
{
	GOptionContext *context = g_option_context_new("DB COMMAND");
	char *text;

	g_set_prgname("hwtimer-jobs");
	g_option_context_set_help_enabled(context, false);
	g_option_context_set_summary(context, summary);
	add_group(context, "add", "add and change:", define_options);
	add_group(context, "lanes", "run and executor:", lane_options);
	add_group(context, "run", "run:", run_options);
	text = g_option_context_get_help(context, false, NULL);
	fputs(text, stdout);
	g_free(text);
	g_option_context_free(context);
}

/* Do what the arguments after the database say. They may end with "--" and a command. */
static void obey(char **words)
{
	const struct command *c = commands;
	GOptionContext *context = g_option_context_new(NULL);
	GError *error = NULL;
	unsigned int n;
	int argc;

	while (strcmp(words[0], c->name))
		if (++c == commands + ARRAY_SIZE(commands))
			misuse("there is no command '%s'", words[0]);
	for (command = words; *command && strcmp(*command, "--");)
		command++;
	argc = command - words;
	if (*command)
		*command++ = NULL;
	g_option_context_set_help_enabled(context, false);
	if (c->options)
		g_option_context_add_main_entries(context, c->options, NULL);
	if (c->more)
		g_option_context_add_main_entries(context, c->more, NULL);
	if (!g_option_context_parse(context, &argc, &words, &error))
		misuse("%s: %s", c->name, error->message);
	n = argc - 1;
	if (n < c->min)
		misuse("%s takes a %s", c->name, c->takes);
	if (n > c->max)
		misuse("%s does not take '%s'", c->name, words[c->max + 1]);
	arguments = words + 1;
	c->run();
	g_option_context_free(context);
}

/*
 * If the standard descriptors are closed, no file or socket may get their numbers, and our output.
 * Writes to them still fail.
 */
static void occupy_standard(void)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
			err(1, "/dev/null");
}

int main(int argc, char **argv)
{
	occupy_standard();
	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		help();
		return EXIT_SUCCESS;
	}
	if (argc < 3)
		misuse("a DB and a command are missing");
	database = argv[1];
	obey(argv + 2);
	store_close();
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
	return EXIT_SUCCESS;
}
