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
 *			store_pg.c with schema_pg.h
 *	lanes.[ch]	running commands: lanes, and block strategies
 *	sched.[ch]	the main loop: timeouts, misfires, the clock
 *	main.c		the command line
 */
#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched.h"

#define EXIT_USAGE	2
/* Each running command needs a descriptor. */
#define COUNT_MAX	400

static const char usage[] =
	"usage: hwtimer-jobs DB add NAME {--cron EXPRESSION | --every TIME | --at DATE} [OPTION]...\n"
	"                    -- COMMAND...\n"
	"       hwtimer-jobs DB change NAME ...\n"
	"       hwtimer-jobs DB remove NAME\n"
	"       hwtimer-jobs DB stop NAME\n"
	"       hwtimer-jobs DB list\n"
	"       hwtimer-jobs DB log [NAME]\n"
	"       hwtimer-jobs DB trim TIME\n"
	"       hwtimer-jobs DB run [OPTION]...\n"
	"\n"
	"DB is the file of a SQLite database, which add makes; or a database in PostgreSQL, which\n"
	"several schedulers can share, as postgresql://HOST/NAME or 'host=HOST dbname=NAME'; add\n"
	"makes the tables. A TIME is as 1.5s; ms, s, m, h, d.\n"
	"\n"
	"add:\n"
	"  --cron EXPRESSION  [seconds] minutes hours day-of-month month day-of-week [year], or\n"
	"                     @daily and so on, after TZ=ZONE if not in the machine's time zone\n"
	"  --timezone ZONE    the same, as Europe/Berlin\n"
	"  --dst once|clock   what the clock shows twice is due once, and what it skips after that\n"
	"                     [default]; or as often as the clock shows it\n"
	"  --every TIME       at least 10ms\n"
	"  --at DATE          once, as '2027-01-31 13:00'\n"
	"  --first TIME       when its due times begin, from now; -TIME: they began before.\n"
	"                     Default: one period from now; with --cron, now\n"
	"  --misfire nothing|once|all\n"
	"                     late by more than the window: do nothing [default], run once now, or\n"
	"                     run once for each due time that has passed\n"
	"  --block serial|discard|cover\n"
	"                     due while it runs: wait for that [default], but of those that\n"
	"                     wait for longer than the window only the last one is run; discard\n"
	"                     this run; or kill the running one\n"
	"  --timeout TIME     a run that takes longer is ended: SIGTERM to its process group, and\n"
	"  --grace TIME       SIGKILL so much later [10s]\n"
	"COMMAND has JOBS_NAME and, in ns since 1970, JOBS_DUE in its environment.\n"
	"\n"
	"stop: end the run of a job, as after --timeout\n"
	"change: as add, for a job that there is; its log stays, its due times begin anew\n"
	"\n"
	"trim: forget what became of due times longer ago than TIME\n"
	"\n"
	"run: until SIGTERM or SIGINT, and until what runs then has ended\n"
	"  --window TIME      how far ahead jobs are read from the database [5s]. In PostgreSQL,\n"
	"                     the lease is three fifths of it: then others take over\n"
	"  --fast N           how many may run at a time [16]\n"
	"  --slow N           how many of the slow ones may, beside these [4]\n"
	"  --slow-time TIME, --slow-runs N, --slow-within TIME\n"
	"                     a job is slow if more than N [10] of its runs that ended within\n"
	"                     TIME [1m] took longer than TIME [500ms]\n";

static void __attribute__((noreturn, format(printf, 1, 2))) misuse(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vwarnx(format, list);
	va_end(list);
	fprintf(stderr, "\"hwtimer-jobs --help\" says more.\n");
	exit(EXIT_USAGE);
}

static __s64 duration(const char *option, const char *text, __s64 min)
{
	char shown[DURATION_SIZE];
	__s64 ns;

	if (!parse_duration(text, &ns) || ns < min)
		misuse("%s takes a time such as 500ms, from %s to 3650d, not '%s'", option,
		       show_duration(min, shown), text);
	return ns;
}

static unsigned int count(const char *option, const char *text, unsigned int min)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text < '0' || *text > '9' || n < min || n > COUNT_MAX)
		misuse("--%s takes a number from %u to %d, not '%s'", option, min, COUNT_MAX,
		       text);
	return n;
}

static int word(const char *option, const char *text, const char *const *words, int number)
{
	int i;

	for (i = 0; i < number; i++)
		if (!strcmp(text, words[i]))
			return i;
	misuse("--%s: there is no '%s'", option, text);
}

/* Returns the first due time; @first is the argument of --first, or NULL. */
static __s64 first_time(struct job_row *row, const struct schedule *schedule,
			const char *first, __s64 from)
{
	if (first && *first == '-')
		from -= duration("--first", first + 1, 0);
	else if (first)
		from += duration("--first", first, 0);
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

/* "add", or "change" */
static void define(const char *path, int argc, char **argv)
{
	static const struct option options[] = {
		{ "cron", required_argument, NULL, 'c' },
		{ "every", required_argument, NULL, 'e' },
		{ "timezone", required_argument, NULL, 'z' },
		{ "dst", required_argument, NULL, 'd' },
		{ "at", required_argument, NULL, 'a' },
		{ "first", required_argument, NULL, 'f' },
		{ "timeout", required_argument, NULL, 't' },
		{ "grace", required_argument, NULL, 'g' },
		{ "misfire", required_argument, NULL, 'm' },
		{ "block", required_argument, NULL, 'b' },
		{ }
	};
	const char *command = argv[0];
	struct job_row row = { .name = argv[1], .timeout = NEVER, .grace = 10 * NS_PER_S };
	struct schedule schedule = { };
	const char *first = NULL, *at = NULL;
	char why[128];
	int option;

	if (argc < 2 || *argv[1] == '-' || !*argv[1])
		misuse("%s takes a NAME", command);
	argc--;
	argv++;
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			row.cron = optarg;
			break;
		case 'z':
			row.zone = optarg;
			break;
		case 'd':
			row.by_clock = word("dst", optarg, dsts, 2);
			break;
		case 'e':
			row.every = duration("--every", optarg, EVERY_MIN);
			schedule.every = row.every;
			break;
		case 'a':
			at = optarg;
			break;
		case 'f':
			first = optarg;
			break;
		case 't':
			row.timeout = duration("--timeout", optarg, NS_PER_MS);
			break;
		case 'g':
			row.grace = duration("--grace", optarg, 0);
			break;
		case 'm':
			row.misfire = word("misfire", optarg, misfires, 3);
			break;
		case 'b':
			row.block = word("block", optarg, blocks, 3);
			break;
		default:
			misuse("%s NAME {--cron ... | --every TIME | --at DATE} -- COMMAND...",
			       command);
		}
	}
	if (!!row.cron + !!row.every + !!at != 1)
		misuse("either --cron, --every or --at says when job '%s' is due", row.name);
	if (at && first)
		misuse("--first or --at, but not both");
	if (row.cron)
		split_zone(&row);
	else if (row.zone && !at)
		misuse("--timezone is for --cron and --at");
	if (row.cron && !schedule_parse(&schedule, row.cron, row.zone, why, sizeof(why)))
		misuse("--cron '%s': %s", row.cron, why);
	schedule.cron.by_clock |= row.by_clock;
	if (optind == argc)
		misuse("there is no COMMAND for job '%s'", row.name);

	if (at) {
		row.every = NEVER;
		row.next = date(at, row.zone);
	} else if (first_time(&row, &schedule, first, wall_now()) == NEVER) {
		misuse("--cron '%s' is never due", row.cron);
	}
	store_open(path, !strcmp(command, "add"));
	/* So that a scheduler does not add what the clock was set by before that. */
	store_steps();
	if (!at)
		row.next = first_time(&row, &schedule, first, store_now());
	if (!strcmp(command, "add"))
		store_add(&row, argv + optind);
	else if (!store_change(&row, argv + optind))
		errx(1, "there is no job '%s'", row.name);
	store_commit();
}

static void remove_job(const char *path, const char *name)
{
	store_open(path, false);
	if (!store_remove(name))
		errx(1, "there is no job '%s'", name);
	store_commit();
}

static void stop(const char *path, const char *name)
{
	store_open(path, false);
	if (!store_has(name))
		errx(1, "there is no job '%s'", name);
	if (!store_stop(name))
		errx(1, "job '%s' does not run", name);
	store_commit();
}

static void trim(const char *path, const char *age)
{
	__s64 ns = duration("trim", age, 0);

	store_open(path, false);
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

static void list(const char *path)
{
	char next[TIME_SIZE], every[DURATION_SIZE];
	struct job_row row;

	store_open(path, false);
	printf("%-16s %-20s %-8s %-8s %-23s %s\n", "JOB", "SCHEDULE", "MISFIRE", "BLOCK", "NEXT",
	       "ZONE");
	while (store_each_job(&row)) {
		show_text(16, row.name);
		show_text(20, row.cron ?: row.every == NEVER ? "once" :
			  show_duration(row.every, every));
		printf("%-8s %-8s %-23s ", misfires[row.misfire], blocks[row.block],
		       show_time(row.next, next));
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

static void show_log(const char *path, const char *name)
{
	char due[TIME_SIZE], until[TIME_SIZE];
	struct run_row row;

	store_open(path, false);
	if (name && !store_has(name))
		errx(1, "there is no job '%s'", name);
	printf("%-23s %-12s %-7s %-11s %-4s %10s %10s  %s\n", "DUE", "JOB", "CAUSE", "STATE",
	       "LANE", "LATE/ms", "TOOK/ms", "STATUS");
	while (store_each_run(name, &row)) {
		printf("%-23s ", show_time(row.due, due));
		show_text(12, row.job);
		printf("%-7s %-11s %-4s", row.cause, row.state, row.lane ?: "-");
		show_ms(row.started == NEVER ? NEVER : row.started - row.due);
		show_ms(row.took);
		if (row.status != NEVER)
			printf("  %lld\n", row.status);
		else if (!strcmp(row.state, "missed"))
			printf("  until %s\n", show_time(row.until, until));
		else
			printf("  -\n");
	}
}

static void run(const char *path, int argc, char **argv)
{
	static const struct option options[] = {
		{ "window", required_argument, NULL, 'w' },
		{ "fast", required_argument, NULL, 'f' },
		{ "slow", required_argument, NULL, 's' },
		{ "slow-time", required_argument, NULL, 't' },
		{ "slow-runs", required_argument, NULL, 'r' },
		{ "slow-within", required_argument, NULL, 'i' },
		{ }
	};
	struct sched_options sched = {
		.window = 5 * NS_PER_S,
		.lanes = {
			.fast_places = 16, .slow_places = 4, .slow_time = 500 * NS_PER_MS,
			.slow_runs = 10, .slow_within = 60 * NS_PER_S,
		},
	};
	int option;

	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (option) {
		case 'w':
			sched.window = duration("--window", optarg, 100 * NS_PER_MS);
			break;
		case 'f':
			sched.lanes.fast_places = count("fast", optarg, 1);
			break;
		case 's':
			sched.lanes.slow_places = count("slow", optarg, 1);
			break;
		case 't':
			sched.lanes.slow_time = duration("--slow-time", optarg, 0);
			break;
		case 'r':
			sched.lanes.slow_runs = count("slow-runs", optarg, 0);
			break;
		case 'i':
			sched.lanes.slow_within = duration("--slow-within", optarg, 0);
			break;
		default:
			misuse("run takes options only");
		}
	}
	if (optind < argc)
		misuse("run takes no '%s'", argv[optind]);
	sched.lanes.window = sched.window;
	store_open(path, false);
	store_lock(path, sched.window / 5 * 3);
	sched_run(&sched);
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
	const char *path, *command;

	occupy_standard();
	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	}
	if (argc < 3)
		misuse("a DB and a command are missing");
	path = argv[1];
	command = argv[2];
	argc -= 2;
	argv += 2;
	if (!strcmp(command, "add") || !strcmp(command, "change"))
		define(path, argc, argv);
	else if (!strcmp(command, "run"))
		run(path, argc, argv);
	else if (!strcmp(command, "remove") && argc == 2)
		remove_job(path, argv[1]);
	else if (!strcmp(command, "stop") && argc == 2)
		stop(path, argv[1]);
	else if (!strcmp(command, "trim") && argc == 2)
		trim(path, argv[1]);
	else if (!strcmp(command, "list") && argc == 1)
		list(path);
	else if (!strcmp(command, "log") && argc <= 2)
		show_log(path, argv[1]);
	else
		misuse("no such command, or not like that: '%s'", command);
	store_close();
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
	return EXIT_SUCCESS;
}
