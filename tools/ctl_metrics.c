// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl metrics: all wheels in Prometheus' text format.
 *
 * A number that is not known here to be a counter is exported as a gauge, so later modules' numbers
 * appear, too. Lateness has the buckets of a histogram without its sum, which the module does not
 * count and histogram_quantile() does not need.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl.h"

#define PREFIX	"hwtimer_wheel_"

static bool is_counter(const char *name)
{
	static const char *const names[] = {
		"armed", "touched", "cancelled", "expired", "handed_back", "rejected", "drained",
		"coalesced", "kicks", "wakeups", "ticks", "visits", "cascaded", "refiled",
		"grow_failures", "long_callbacks",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return !strncmp(name, "work_", 5);
}

static bool is_name(const char *text)
{
	if (!islower((unsigned char)*text))
		return false;
	while (islower((unsigned char)*text) || isdigit((unsigned char)*text) || *text == '_')
		text++;
	return !*text;
}

/* Returns NULL if there is no such number. */
static const char *number_of(const struct ctl_wheel *wheel, const char *name)
{
	unsigned int i;

	/* The name is a label, even if it is a number. */
	if (!is_name(name) || !strcmp(name, "name"))
		return NULL;
	for (i = 0; i < wheel->n_lines; i++)
		if (!strcmp(wheel->lines[i].name, name) && ctl_is_number(wheel->lines[i].value))
			return wheel->lines[i].value;
	return NULL;
}

/* A label's value may be any text, with these characters escaped. */
static void print_label(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\' || *text == '\n')
			fputc('\\', to);
		fputc(*text == '\n' ? 'n' : *text, to);
	}
}

static void print_sample(FILE *to, const char *name, const char *suffix,
			 const struct ctl_wheel *wheel)
{
	fprintf(to, PREFIX "%s%s{wheel=\"", name, suffix);
	print_label(to, wheel->name);
	fputc('"', to);
}

/* All samples of a metric have to be together, those of all wheels. */
static void print_metric(FILE *to, const struct ctl_wheels *wheels, const char *name)
{
	const char *suffix = is_counter(name) ? "_total" : "", *value;
	unsigned int i;

	fprintf(to, "# TYPE " PREFIX "%s%s %s\n", name, suffix, *suffix ? "counter" : "gauge");
	for (i = 0; i < wheels->n; i++) {
		value = number_of(&wheels->wheels[i], name);
		if (!value)
			continue;
		print_sample(to, name, suffix, &wheels->wheels[i]);
		fprintf(to, "} %s\n", value);
	}
}

static void print_late(FILE *to, const struct ctl_wheels *wheels)
{
	const char *name = "late_seconds_bucket";
	unsigned int i, j;

	fprintf(to, "# HELP " PREFIX "%s expiries by how long after their deadlines\n", name);
	fprintf(to, "# TYPE " PREFIX "%s counter\n", name);
	for (i = 0; i < wheels->n; i++) {
		const struct ctl_wheel *wheel = &wheels->wheels[i];
		uint64_t sum = 0;

		for (j = 0; j < wheel->n_bins; j++) {
			sum += wheel->late[j];
			print_sample(to, name, "", wheel);
			if (wheel->bound_ns[j])
				fprintf(to, ",le=\"%.9g\"", wheel->bound_ns[j] / 1e9);
			else
				fputs(",le=\"+Inf\"", to);
			fprintf(to, "} %" PRIu64 "\n", sum);
		}
	}
}

static void print_metrics(FILE *to, const struct ctl_wheels *wheels)
{
	unsigned int i, j, k;

	for (i = 0; i < wheels->n; i++) {
		const struct ctl_wheel *wheel = &wheels->wheels[i];

		for (j = 0; j < wheel->n_lines; j++) {
			const char *name = wheel->lines[j].name;

			if (!number_of(wheel, name))
				continue;
			for (k = 0; k < i && !number_of(&wheels->wheels[k], name); k++)
				;
			if (k == i)
				print_metric(to, wheels, name);
		}
	}
	print_late(to, wheels);
}

/* Atomically: a reader of @path sees the old file or the new one, complete. */
static void replace_file(const char *path, const struct ctl_wheels *wheels)
{
	char *temporary;
	bool failed;
	FILE *to;
	int fd;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		ctl_die(CTL_FAILED, "out of memory");
	fd = mkstemp(temporary);
	to = fd < 0 ? NULL : fdopen(fd, "w");
	if (!to)
		ctl_die(CTL_FAILED, "--output: %s: %s", temporary, strerror(errno));
	print_metrics(to, wheels);
	failed = fflush(to) || ferror(to) || fchmod(fd, 0644);
	failed |= fclose(to);
	if (failed || rename(temporary, path)) {
		int error = errno;

		unlink(temporary);
		ctl_die(CTL_FAILED, "--output: %s: %s", path, strerror(error));
	}
	free(temporary);
}

static int run_metrics(struct ctl_args *args)
{
	const char *word, *debugfs = CTL_DEBUGFS, *output = NULL;
	const struct ctl_option options[] = {
		{ "output", 'o', CTL_TEXT, &output, 0, 0 },
		{ "debugfs", 0, CTL_TEXT, &debugfs, 0, 0 },
	};
	struct ctl_wheels wheels;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	word = ctl_next_word(args);
	if (word)
		ctl_misuse("unexpected argument: '%s'", word);
	ctl_wheels_read(&wheels, debugfs, NULL, 0);
	if (output)
		replace_file(output, &wheels);
	else
		print_metrics(stdout, &wheels);
	ctl_wheels_free(&wheels);
	return CTL_OK;
}

const struct ctl_command ctl_metrics = {
	.name = "metrics",
	.summary = "all wheels, for Prometheus",
	.help = "metrics [--output FILE] [--debugfs DIR]\n\n"
		"Print the state and the counters of all wheels in Prometheus' text format,\n"
		"for the textfile collector of node_exporter. Requires root and debugfs.\n\n"
		"  -o, --output FILE  replace FILE atomically, instead of printing\n"
		"  --debugfs DIR      where debugfs is mounted (default: " CTL_DEBUGFS ")\n"
		"  -h, --help         print this help\n",
	.run = run_metrics,
};
