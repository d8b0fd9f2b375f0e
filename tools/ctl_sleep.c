// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl sleep, after: one timeout.
 */
#include <errno.h>
#include <getopt.h>
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

/* What "after" shall do. */
struct once {
	const char *when;	/* the argument */
	uint64_t ns;
	const char *line;
	char **command;
	bool json;
};

static void parse_once(struct ctl_args *args, struct once *once)
{
	const struct ctl_option options[] = {
		{ "json", 0, CTL_FLAG, &once->json, 0, 0 },
	};
	const char *word;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	once->when = ctl_next_word(args);
	if (!once->when)
		ctl_misuse("DURATION: missing");
	once->ns = ctl_parse_duration("DURATION", once->when);
	once->line = ctl_next_word(args);
	if (args->only_words) {
		if (!once->line && !strcmp(args->argv[optind - 1], "--"))
			ctl_misuse("COMMAND: missing after '--'");
		once->command = once->line ? args->argv + optind - 1 : NULL;
		once->line = NULL;
	} else {
		word = ctl_next_word(args);
		if (word || !strcmp(args->argv[optind - 1], "--"))
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
		printf("%s: after %s, late by ", time, once->when);
		ctl_print_ns(stdout, late);
		putchar('\n');
	}
	ctl_flush();
}

static int run_after(struct ctl_args *args)
{
	struct once once = { 0 };

	parse_once(args, &once);
	if (once.command)
		ctl_check_command(once.command);
	report_once(&once, wait_delay(once.ns));
	if (once.command)
		ctl_exec(once.command, once.json);
	return CTL_OK;
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

const struct ctl_command ctl_after = {
	.name = "after",
	.summary = "after a while, print a line or run a command",
	.help = "after [--json] DURATION [LINE | -- COMMAND [ARGUMENT]...]\n\n"
		"Wait for DURATION, such as 90 (seconds), 1.5s, 200ms, 2m, 1h30m. Setting the\n"
		"time of day does not change the wait. While the machine is suspended the\n"
		"time does not count. Then print LINE, or run COMMAND and exit with its\n"
		"status; without either, print the time. Before the wait, check that COMMAND\n"
		"exists.\n\n"
		"  --json      report as JSON; COMMAND's output goes to stderr\n"
		"  -h, --help  print this help\n",
	.run = run_after,
};
