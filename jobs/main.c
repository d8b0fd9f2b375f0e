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
 *	store.[ch]	the database; what differs is in store_sqlite.c, and in store_pg.c with
 *			schema_pg.h; schema.h: tables, and what follows from a run
 *	route.[ch]	which executor gets a run; dispatch.c: runs are assigned
 *	lanes.[ch]	running commands: lanes, and block strategies
 *	output.[ch]	what commands write
 *	sched.c		the main loop: timeouts, misfires, the clock
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
#include <unistd.h>

#include "lanes.h"

#define EXIT_USAGE	2
/* Each running command needs two descriptors. */
#define PLACES_MAX	240
#define SCRIPT_MAX	65536
/* Rows that "log" prints, which are in memory before. */
#define LOG_MAX		100000

static const char *database;
static const char *verb;		/* the command of this program */
static char **arguments, **command;	/* what follows that, and "--" */

/* What the options say. */
static struct job_row job = {
	.timeout = NEVER, .grace = 10 * NS_PER_S, .backoff = 10 * NS_PER_S,
};

static struct options sched = {
	.window = 5 * NS_PER_S, .keep = 30 * 86400 * NS_PER_S, .fast_places = 16, .slow_places = 4,
	.slow_time = 500 * NS_PER_MS, .slow_runs = 10, .slow_within = 60 * NS_PER_S,
};

static const char *at, *first, *after, *script, *name;
static __s64 broadcast, route = -1;

/* Which commands take an option, as bits. */
enum { DEFINE = 1, RUN = 2, EXECUTOR = 4 };

/* What it takes is a text; or, for a number, a word, a number, or, if @value is TIME, a time. */
static const struct option {
	int			commands;
	const char		*name, *value, *help;	/* no value: it is a flag */
	const char		**text;
	__s64			*number, min, max;
	const char *const	*words;		/* max of them */
} options[] = {
#define TEXT(name, to, value, help)						\
	{ DEFINE, name, value, help, .text = &(to) }
#define WORD(name, to, words, value, help)					\
	{ DEFINE, name, value, help, NULL, &(to), 0, ARRAY_SIZE(words), words }
#define TIME(commands, name, to, min, help)					\
	{ commands, name, "TIME", help, NULL, &(to), min, EVERY_MAX, NULL }
#define COUNT(commands, name, to, min, max, help)				\
	{ commands, name, "N", help, NULL, &(to), min, max, NULL }
#define FLAG(name, to, help)							\
	{ DEFINE, name, NULL, help, .number = &(to) }
	TEXT("cron", job.cron, "EXPRESSION", "[seconds] minutes hours day month weekday [year]"),
	TEXT("timezone", job.zone, "ZONE", "of --cron and --at, as Europe/Berlin"),
	WORD("dst", job.by_clock, dsts, "once|clock", "what the clock shows twice is due [once]"),
	TIME(DEFINE, "every", job.every, EVERY_MIN, "at a fixed rate"),
	FLAG("from-end", job.from_end, "so long after the last run has ended"),
	TEXT("at", at, "DATE|never", "once, as '2027-01-31 13:00'; never: only when asked for"),
	TEXT("after", after, "JOB[:success|failure|end]", "when a run of that job has ended so"),
	TIME(DEFINE, "jitter", job.jitter, 0, "a run begins later by up to this"),
	TEXT("first", first, "TIME", "when its due times begin, from now; -TIME: before"),
	WORD("misfire", job.misfire, misfires, "nothing|once|all", "too late, it is run [nothing]"),
	WORD("block", job.block, blocks, "serial|discard|cover", "due while it runs [serial]"),
	TIME(DEFINE, "timeout", job.timeout, NS_PER_MS, "a run that takes longer gets SIGTERM"),
	TIME(DEFINE, "grace", job.grace, 0, "and SIGKILL so much later [10s]"),
	/* But for the last one, which is --broadcast. */
	{ DEFINE, "route", "WAY", "to which executor; without, it runs at its scheduler", NULL,
	  &route, 0, ROUTE_BROADCAST, routes },
	TEXT("tags", job.tags, "TAG[,TAG]...", "only to executors with these"),
	FLAG("broadcast", broadcast, "each executor gets a run"),
	FLAG("again", job.again, "a run that was interrupted is run again, once"),
	COUNT(DEFINE, "retries", job.retries, 0, 10, "how often a run that fails is retried [0]"),
	TIME(DEFINE, "backoff", job.backoff, 0, "so much later, and each time twice as much [10s]"),
	TEXT("alarm", job.alarm, "JOB", "to be run if a run fails, is missed, or recovers"),
	TEXT("script", script, "FILE", "kept with the job, and run with the arguments after --"),
	TIME(RUN | EXECUTOR, "window", sched.window, 100 * NS_PER_MS, "it reads ahead [5s]"),
	COUNT(RUN | EXECUTOR, "fast", sched.fast_places, 1, PLACES_MAX,
	      "how many may run at a time [16]"),
	COUNT(RUN | EXECUTOR, "slow", sched.slow_places, 1, PLACES_MAX,
	      "how many of the slow ones may, beside these [4]"),
	TIME(RUN | EXECUTOR, "slow-time", sched.slow_time, 0,
	     "a run that takes longer is slow [500ms]"),
	COUNT(RUN | EXECUTOR, "slow-runs", sched.slow_runs, 0, PLACES_MAX,
	      "with more slow runs a job is slow [10]"),
	TIME(RUN | EXECUTOR, "slow-within", sched.slow_within, 0,
	     "if these ended within this time [1m]"),
	TIME(RUN, "keep", sched.keep, 0, "for how long outputs of runs are kept [30d]"),
	{ EXECUTOR, "name", "NAME", "of the executor [HOST:PID]", .text = &name },
	{ EXECUTOR, "tags", "TAG[,TAG]...", "that it has", .text = &job.tags },
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

/* Returns the time that is @text. */
static __s64 duration(const char *option, const char *text, __s64 min)
{
	char shown[DURATION_SIZE];
	__s64 ns;

	if (!parse_duration(text, &ns) || ns < min)
		misuse("%s takes a time such as 500ms, from %s to 3650d, not '%s'", option,
		       show_duration(min, shown), text);
	return ns;
}

static __s64 count(const char *option, const char *text, __s64 min, __s64 max)
{
	guint64 n;

	if (!g_ascii_string_to_unsigned(text, 10, min, max, &n, NULL))
		misuse("%s takes a number from %lld to %lld, not '%s'", option, min, max, text);
	return n;
}

/* Returns which of the words @text is. */
static int word(const char *option, const char *text, const char *const *words, int number)
{
	int i;

	for (i = 0; i < number; i++)
		if (!strcmp(text, words[i]))
			return i;
	misuse("%s: there is no '%s'", option, text);
}

static gboolean take_option(const char *name, const char *value,
			    void *data __attribute__((unused)), GError **error)
{
	const struct option *o = options;

	(void)error;
	while (strcmp(name + strlen("--"), o->name))
		o++;
	if (o->text)
		*o->text = g_strdup(value);
	else if (!o->value)
		*o->number = true;
	else if (o->words)
		*o->number = word(name, value, o->words, o->max);
	else if (!strcmp(o->value, "TIME"))
		*o->number = duration(name, value, o->min);
	else
		*o->number = count(name, value, o->min, o->max);
	return true;
}

/* Let a group of the command line have the options of these commands. */
static void add_options(GOptionGroup *group, int commands)
{
	GOptionEntry entry[2] = { };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(options); i++) {
		if (!(options[i].commands & commands))
			continue;
		/* A file name may have any bytes, whatever the locale is. */
		entry->long_name = options[i].name;
		entry->flags = options[i].value ? G_OPTION_FLAG_FILENAME : G_OPTION_FLAG_NO_ARG;
		entry->arg = G_OPTION_ARG_CALLBACK;
		entry->arg_data = (void *)take_option;
		entry->description = options[i].help;
		entry->arg_description = options[i].value;
		g_option_group_add_entries(group, entry);
	}
}

/* Returns the first due time. */
static __s64 first_time(const struct schedule *schedule, __s64 from)
{
	if (first && *first == '-')
		from -= duration("--first", first + 1, 0);
	else if (first)
		from += duration("--first", first, 0);
	else
		from += job.every;
	job.first = first ? from : 0;
	return job.cron ? schedule_next(schedule, from, from - 1) : from;
}

/* Split "TZ=ZONE EXPRESSION". */
static void split_zone(void)
{
	const char *zone, *rest;

	if (strncmp(job.cron, "TZ=", 3) && strncmp(job.cron, "CRON_TZ=", 8))
		return;
	if (job.zone)
		misuse("--timezone or TZ=, but not both");
	zone = strchr(job.cron, '=') + 1;
	rest = strpbrk(zone, " \t");
	if (!rest)
		misuse("--cron '%s': there is nothing after TZ=", job.cron);
	job.zone = g_strndup(zone, rest - zone);
	job.cron = rest + strspn(rest, " \t");
}

/* Returns the time of --at, to minutes or seconds. */
static __s64 date(void)
{
	GTimeZone *tz = job.zone ? g_time_zone_new_identifier(job.zone) : g_time_zone_new_local();
	GDateTime *time;
	char *full;
	__s64 ns;

	if (!tz)
		misuse("there is no time zone '%s'", job.zone);
	full = g_strconcat(at, strlen(at) == strlen("2027-01-31 13:00") ? ":00" : "", NULL);
	time = g_date_time_new_from_iso8601(full, tz);
	if (!time)
		misuse("--at takes a date such as '2027-01-31 13:00', not '%s'", at);
	ns = g_date_time_to_unix(time) * NS_PER_S;
	g_date_time_unref(time);
	g_time_zone_unref(tz);
	g_free(full);
	return ns;
}

static void read_schedule(struct schedule *schedule)
{
	int schedules = !!job.cron + !!job.every + !!at;
	char why[128];

	schedule->every = job.every;
	if (schedules != 1 && (schedules || !after))
		misuse("either --cron, --every or --at says when job '%s' is due", job.name);
	if (at && first)
		misuse("--first or --at, but not both");
	if (job.cron)
		split_zone();
	else if (job.zone && !at)
		misuse("--timezone is for --cron and --at");
	if (job.cron && !schedule_parse(schedule, job.cron, job.zone, why, sizeof(why)))
		misuse("--cron '%s': %s", job.cron, why);
	schedule->cron.by_clock |= job.by_clock;
	if (job.from_end && !job.every)
		misuse("--from-end is for --every");
	if (at || !schedules) {
		job.every = NEVER;
		job.next = schedules && strcmp(at, "never") ? date() : NEVER;
	} else if (first_time(schedule, wall_now()) == NEVER) {
		misuse("--cron '%s' is never due", job.cron);
	}
}

/* Split "JOB:EVENT". */
static void split_after(void)
{
	char *name = g_strdup(after), *event = strrchr(name, ':');

	job.after = name;
	if (event) {
		*event++ = 0;
		job.after_event = word("--after", event, events, ARRAY_SIZE(events));
	}
}

/* Returns the text of a script. */
static char *read_script(void)
{
	GError *error = NULL;
	char *text;
	size_t size;

	if (!g_file_get_contents(script, &text, &size, &error))
		misuse("--script: %s", error->message);
	if (size > SCRIPT_MAX || strlen(text) != size)
		misuse("--script: '%s' is no text of at most %d bytes", script, SCRIPT_MAX);
	return text;
}

/* Returns the id of the job. */
static __s64 must_have(const char *name)
{
	__s64 id = store_number(HAS, S(name));

	if (!id)
		errx(1, "there is no job '%s'", name);
	return id;
}

/* What nobody would have: tags are compared by each byte. */
static void check_tags(void)
{
	const char *t = job.tags;

	if (t && *t && (*t == ',' || t[strlen(t) - 1] == ',' || strstr(t, ",,") ||
			strpbrk(t, " \t\n")))
		misuse("--tags takes TAG[,TAG]..., not '%s'", t);
}

/* Add a job, or change it. */
static void define(void)
{
	bool add = !strcmp(verb, "add");
	struct schedule schedule = { };

	job.name = *arguments;
	if (!*job.name)
		misuse("a job needs a NAME");
	check_tags();
	if (broadcast && route >= 0)
		misuse("--route or --broadcast, but not both");
	if (route < 0 && job.tags)
		route = ROUTE_ROUND_ROBIN;
	if (broadcast)
		route = ROUTE_BROADCAST;
	if (route >= 0)
		job.route = routes[route];
	if (after)
		split_after();
	if (script) {
		job.script = read_script();
		*--command = g_path_get_basename(script);
	}
	read_schedule(&schedule);
	if (!*command)
		misuse("there is no COMMAND for job '%s'", job.name);
	store_open(database, add);
	if (!add)
		must_have(job.name);
	/* So that a scheduler does not add what the clock was set by before that. */
	store_steps();
	if (schedule.every || job.cron)
		job.next = first_time(&schedule, db->now());
	if (add)
		store_add(&job, command);
	else
		store_change(&job, command);
}

static void copy(void)
{
	struct job_row row;
	char **argv, *script;
	__s64 id;

	/* SQLite does not let one write who reads what is changed meanwhile. */
	db->begin();
	id = must_have(arguments[0]);
	argv = store_argv(id, &script);
	store_job(id, &row);
	row.name = arguments[1];
	row.script = script;
	/* It is not known yet. */
	if (row.from_end && row.next == NEVER)
		row.next = db->now();
	store_add(&row, argv);
	g_strfreev(argv);
	g_free(script);
}

static void remove_job(void)
{
	store_remove(must_have(*arguments));
}

static void pause_or_resume(void)
{
	store_pause(must_have(*arguments), !strcmp(verb, "pause"));
}

static void start(void)
{
	__s64 run, id;

	db->begin();
	id = must_have(*arguments);
	run = store_number(ASK, N(id), N(db->now()));
	store_commit();
	printf("%lld\n", run);
}

static void stop(void)
{
	if (!store_write(STOP, N(must_have(*arguments))))
		errx(1, "job '%s' does not run", *arguments);
}

static void show_output(void)
{
	__s64 size;

	must_have(*arguments);
	if (!store_each(LAST_OUTPUT, S(*arguments)))
		return;
	size = store_int(LAST_OUTPUT, 0);
	fputs(store_text(LAST_OUTPUT, 1), stdout);
	if (size > 2 * OUTPUT_KEPT)
		printf("\n[... %lld bytes ...]\n", size - 2 * OUTPUT_KEPT);
	fputs(store_text(LAST_OUTPUT, 2), stdout);
}

static void trim(void)
{
	store_trim(db->now() - duration("trim", *arguments, 0));
}

/*
 * Print @text from the database. Control characters, which terminals obey, become "?", as in ls;
 * those above 0x7f are known by their UTF-8.
 */
static void show_text(int width, const char *text)
{
	char *copy = g_strdup(text), *c;

	for (c = copy; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
		else if (*c == '\302' && (c[1] & 0xe0) == 0x80)
			*c = c[1] = '?';
	printf("%-*s ", width, copy);
	g_free(copy);
}

static void list(void)
{
	char next[TIME_SIZE], every[DURATION_SIZE];
	struct job_row row;

	printf("%-16s %-20s %-8s %-8s %-23s %s\n", "JOB", "SCHEDULE", "MISFIRE", "BLOCK", "NEXT",
	       "ZONE");
	while (store_each(EACH_JOB)) {
		store_read_job(EACH_JOB, &row);
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

static void show_followed(const char *job)
{
	printf("  after ");
	show_text(0, job);
	putchar('\n');
}

static void show_log(void)
{
	static const enum query q = EACH_RUN;
	__s64 due, until, started, status;
	char shown[TIME_SIZE];
	int rows = 0;

	if (*arguments)
		must_have(*arguments);
	printf("%-23s %-12s %-7s %-11s %-4s %10s %10s  %s\n", "DUE", "JOB", "CAUSE", "STATE",
	       "LANE", "LATE/ms", "TOOK/ms", "STATUS");
	for (; store_each(q, S(*arguments), N(LOG_MAX)); rows++) {
		due = store_int(q, 1);
		until = store_int(q, 2);
		started = store_int(q, 6);
		status = store_int(q, 8);
		printf("%-23s ", show_time(due, NULL, shown));
		show_text(12, store_text(q, 0));
		printf("%-7s %-11s %-4s", store_text(q, 3), store_text(q, 4),
		       store_text(q, 5) ?: "-");
		show_ms(started == NEVER ? NEVER : started - due);
		show_ms(store_int(q, 7));
		if (status != NEVER)
			printf("  %lld%s\n", status, store_int(q, 9) ? ", perhaps again" : "");
		else if (!strcmp(store_text(q, 4), "missed") && until != due)
			printf("  until %s\n", show_time(until, NULL, shown));
		else if (!store_text(q, 10))
			printf("  -\n");
		else
			show_followed(store_text(q, 10));
	}
	if (rows == LOG_MAX)
		warnx("only the last %d are shown", LOG_MAX);
}

/* Start commands: as a scheduler, or as an executor. */
static void serve(const struct executor *as)
{
	sched.executes = as;
	store_open(database, false);
	db->lock(database, sched.window / 5 * 3, as);
	sched_run(&sched);
}

static void run(void)
{
	serve(NULL);
}

static void add_executor(const char *name)
{
	char *token;

	db->begin();
	if (!store_each(KNOW, S(name)))
		errx(1, "executor '%s' was added before", name);
	token = g_strdup(store_text(KNOW, 0));
	if (store_commit())
		puts(token);
	g_free(token);
}

static void list_executors(void)
{
	const enum query q = EACH_EXECUTOR;
	__s64 places;

	printf("%-24s %-16s %6s %6s  %s\n", "EXECUTOR", "TAGS", "PLACES", "RUNS", "STATE");
	while (store_each(q)) {
		places = store_int(q, 3);
		show_text(24, store_text(q, 1));
		show_text(16, store_text(q, 2));
		if (places == NEVER)
			printf("%6s %6s  absent\n", "-", "-");
		else
			printf("%6lld %6lld  %s\n", places, store_int(q, 4),
			       store_int(q, 5) < 0 ? "gone" : !places ? "ending" :
			       store_int(q, 6) ? "silent" : "ready");
	}
}

static void executor(void)
{
	const char *what = arguments[0], *whom = what ? arguments[1] : NULL;

	if (!what) {
		check_tags();
		serve(&(struct executor){
			.name = name, .tags = job.tags ?: "", .token = getenv("JOBS_TOKEN"),
			.places = sched.fast_places,
		});
		return;
	}
	store_open(database, false);
	store_need_executors();
	if (!strcmp(what, "list") && !whom) {
		list_executors();
	} else if (!strcmp(what, "add") && whom && *whom) {
		add_executor(whom);
	} else if (strcmp(what, "remove") || !whom) {
		misuse("executor takes list, add NAME, or remove NAME");
	} else {
		store_write(EXPEL, S(whom));
		if (!store_write(FORGET_KNOWN, S(whom)))
			errx(1, "no executor '%s' was added", whom);
	}
}

static const struct command {
	const char	*name;
	void		(*run)(void);
	unsigned int	min, max;	/* how many arguments it takes */
	int		options;	/* bits of struct option; 0: open the database first */
	const char	*takes, *help;
} commands[] = {
	{ "add", define, 1, 1, DEFINE, "NAME OPTION... -- COMMAND...", "add a job" },
	{ "change", define, 1, 1, DEFINE, "NAME ...", "the same, for a job that there is" },
	{ "copy", copy, 2, 2, 0, "NAME NEW", "add the same job by another name" },
	{ "remove", remove_job, 1, 1, 0, "NAME", "remove a job, with its log" },
	{ "pause", pause_or_resume, 1, 1, 0, "NAME", "what is due now is not run" },
	{ "resume", pause_or_resume, 1, 1, 0, "NAME", "what was due meanwhile is late" },
	{ "start", start, 1, 1, 0, "NAME", "run it now; prints the id of the run" },
	{ "stop", stop, 1, 1, 0, "NAME", "end its run, as after --timeout" },
	{ "list", list, 0, 0, 0, "", "all jobs" },
	{ "log", show_log, 0, 1, 0, "[NAME]", "what became of due times" },
	{ "output", show_output, 1, 1, 0, "NAME", "what its last run wrote" },
	{ "trim", trim, 1, 1, 0, "TIME", "forget what became of due times longer ago than that" },
	{ "run", run, 0, 0, RUN, "OPTION...", "schedule them, until SIGTERM or SIGINT" },
	{ "executor", executor, 0, 2, EXECUTOR, "OPTION...",
	  "start what schedulers assign to it; by a --name, with --tags" },
	/* Only for help: executor and main() obey them. */
	{ "executor", executor, 0, 2, EXECUTOR, "list", "executors" },
	{ "executor", executor, 0, 2, EXECUTOR, "add NAME",
	  "print its JOBS_TOKEN; others are refused from now on" },
	{ "executor", executor, 0, 2, EXECUTOR, "remove NAME", "end it, and forget its token" },
};

static void add_group(GOptionContext *context, const char *name, const char *title, int commands)
{
	GOptionGroup *group = g_option_group_new(name, title, name, NULL, NULL);

	add_options(group, commands);
	g_option_context_add_group(context, group);
}

static void help(void)
{
	GOptionContext *context = g_option_context_new("DB COMMAND");
	GString *summary = g_string_new(NULL);
	char *text;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		g_string_append_printf(summary, "  %-8s %-29s %s\n", commands[i].name,
				       commands[i].takes, commands[i].help);
	g_string_append(summary, "\nDB is the file of a SQLite database, or one in PostgreSQL, as "
			"postgresql://HOST/NAME\nor 'host=HOST dbname=NAME'. add makes it. A TIME is "
			"as 1.5s; ms, s, m, h, d. See hwtimer-jobs(1).");
	g_set_prgname("hwtimer-jobs");
	g_option_context_set_help_enabled(context, false);
	g_option_context_set_summary(context, summary->str);
	add_group(context, "add", "add and change:", DEFINE);
	add_group(context, "run", "run, and without --keep executor:", RUN);
	text = g_option_context_get_help(context, false, NULL);
	fputs(text, stdout);
	g_free(text);
	g_string_free(summary, true);
	g_option_context_free(context);
}

/* Do what the arguments after the database say. They may end with "--" and a command. */
static void obey(char **words)
{
	const struct command *c = commands;
	GOptionContext *context = g_option_context_new(NULL);
	GOptionGroup *group = g_option_group_new(NULL, NULL, NULL, NULL, NULL);
	GError *error = NULL;
	unsigned int n;
	int argc;

	verb = words[0];
	while (strcmp(verb, c->name))
		if (++c == commands + ARRAY_SIZE(commands))
			misuse("there is no command '%s'", verb);
	for (command = words; *command && strcmp(*command, "--");)
		command++;
	argc = command - words;
	if (*command)
		*command++ = NULL;
	g_option_context_set_help_enabled(context, false);
	g_option_context_set_main_group(context, group);
	add_options(group, c->options);
	if (!g_option_context_parse(context, &argc, &words, &error))
		misuse("%s: %s", c->name, error->message);
	n = argc - 1;
	if (n < c->min)
		misuse("%s takes %s", c->name, c->takes);
	if (n > c->max)
		misuse("%s does not take '%s'", c->name, words[c->max + 1]);
	arguments = words + 1;
	if (!c->options)
		store_open(database, false);
	c->run();
	store_commit();
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
	db->close();
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
	return EXIT_SUCCESS;
}
