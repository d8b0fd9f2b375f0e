// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl sleep, at, after: one timeout.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

/* Wait for @delay_ns. Returns by how much it was late. */
static uint64_t wait_delay(uint64_t delay_ns)
{
	struct hwtimer *h = ctl_open();
	struct hwtimer_event event;
	int ret;

	ret = hwtimer_schedule(h, delay_ns, 0, NULL);
	if (ret)
		ctl_failed(-ret, "cannot schedule a timeout");
	do
		ret = hwtimer_wait(h, &event, -1);
	while (ret == -EINTR);
	if (ret < 0)
		ctl_failed(-ret, "cannot wait for a timeout");
	hwtimer_close(h);
	return event.taken_ns - event.deadline_ns;
}

/* Wait until the time of day is @wall_ns. The kernel follows the clock if somebody sets it. */
static uint64_t wait_wall(uint64_t wall_ns)
{
	struct timespec ts = { wall_ns / NSEC_PER_SEC, wall_ns % NSEC_PER_SEC };
	uint64_t now;

	/* It may be set back between the end of the sleep and the look at it. */
	while ((now = ctl_clock(CLOCK_REALTIME)) < wall_ns)
		clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL);
	return now - wall_ns;
}

static int run_sleep(struct ctl_args *args)
{
	uint64_t sum = 0;
	const char *word;
	bool any = false;

	while ((word = ctl_next_word(args))) {
		sum += ctl_parse_duration("DURATION", word);
		if (sum > CTL_MAX_NS)
			ctl_misuse("DURATION: the sum exceeds 36 years at '%s'", word);
		any = true;
	}
	if (!any)
		ctl_misuse("DURATION: missing");
	wait_delay(sum);
	return CTL_OK;
}

/* What "at" and "after" shall do. */
struct once {
	const char *when;	/* the argument */
	bool wall;		/* a time of day */
	uint64_t ns;
	const char *line;
	char **command;
	bool json;
};

static void parse_once(struct ctl_args *args, const char *what, struct once *once)
{
	const struct ctl_option options[] = {
		{ "json", 0, CTL_FLAG, &once->json, 0, 0 },
	};
	const char *word;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	once->when = ctl_next_word(args);
	if (!once->when)
		ctl_misuse("%s: missing", what);
	args->only_words = false;
	once->line = ctl_next_word(args);
	if (args->only_words) {
		if (!once->line)
			ctl_misuse("COMMAND: missing after '--'");
		once->command = args->argv + args->next - 1;
		once->line = NULL;
	} else if (once->line) {
		word = ctl_next_word(args);
		if (word || args->only_words)
			ctl_misuse("unexpected argument: '%s' (one LINE, or '--' and a COMMAND)",
				   word ?: "--");
	}
}

static void report_once(const struct once *once, uint64_t late)
{
	char time[64];

	ctl_wall_time(time, sizeof(time));
	if (once->json) {
		ctl_json_open(NULL, '{');
		ctl_json_text("when", once->when);
		ctl_json_text("time", time);
		ctl_json_number("late_ns", late);
		if (once->line)
			ctl_json_text("line", once->line);
		else
			ctl_json_null("line");
		if (once->command)
			ctl_json_text("command", once->command[0]);
		else
			ctl_json_null("command");
		ctl_json_close('}');
		ctl_json_end();
	} else if (once->line) {
		puts(once->line);
	} else if (!once->command) {
		printf("%s: %s %s, late by ", time, ctl_command->name, once->when);
		ctl_print_ns(stdout, late);
		putchar('\n');
	}
	ctl_flush();
}

static int run_once(const struct once *once)
{
	if (once->command)
		ctl_check_command(once->command);
	report_once(once, once->wall ? wait_wall(once->ns) : wait_delay(once->ns));
	if (once->command)
		ctl_exec(once->command, once->json);
	return CTL_OK;
}

static int run_at(struct ctl_args *args)
{
	struct once once = { .wall = true };

	parse_once(args, "TIME", &once);
	if (once.when[0] == '+') {
		once.wall = false;
		once.ns = ctl_parse_duration("TIME", once.when + 1);
	} else {
		once.ns = ctl_parse_time(once.when);
	}
	return run_once(&once);
}

static int run_after(struct ctl_args *args)
{
	struct once once = { 0 };

	parse_once(args, "DURATION", &once);
	once.ns = ctl_parse_duration("DURATION", once.when);
	return run_once(&once);
}

const struct ctl_command ctl_sleep = {
	.name = "sleep",
	.summary = "wait for a while",
	.help = "sleep DURATION...\n\n"
		"Wait for the sum of the DURATIONs, such as 90 (seconds), 1.5s, 200ms, 2m,\n"
		"1h30m. Never wait shorter; longer by up to a tick (1 ms), and the time that\n"
		"the machine takes. While the machine is suspended the time does not count.\n\n"
		"  -h, --help  print this help\n",
	.run = run_sleep,
};

#define ONCE_HELP								\
	"Then print LINE, or run COMMAND and exit with its status; without either,\n"	\
	"print the time. Before the wait, check that COMMAND exists.\n\n"		\
	"  --json      report as JSON; COMMAND's output goes to stderr\n"		\
	"  -h, --help  print this help\n"

const struct ctl_command ctl_at = {
	.name = "at",
	.summary = "at a time of day, print a line or run a command",
	.help = "at [--json] TIME [LINE | -- COMMAND [ARGUMENT]...]\n\n"
		"Wait until TIME: HH:MM[:SS], today or tomorrow, \"YYYY-MM-DD HH:MM[:SS]\",\n"
		"@SECONDS since 1970, or +DURATION, which waits like \"after\". A time that\n"
		"the clocks show twice, because they go back, means the first one. If the\n"
		"time of day is set meanwhile, or the machine was suspended, the wait follows\n"
		"the clock: it gets shorter or longer, and ends at once if TIME has passed.\n\n"
		ONCE_HELP,
	.run = run_at,
};

const struct ctl_command ctl_after = {
	.name = "after",
	.summary = "after a while, print a line or run a command",
	.help = "after [--json] DURATION [LINE | -- COMMAND [ARGUMENT]...]\n\n"
		"Wait for DURATION, such as 90 (seconds), 1.5s, 200ms, 2m, 1h30m. Setting the\n"
		"time of day does not change the wait. While the machine is suspended the\n"
		"time does not count.\n\n"
		ONCE_HELP,
	.run = run_after,
};
