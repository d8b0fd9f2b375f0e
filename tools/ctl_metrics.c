// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl metrics: all wheels in Prometheus' text format.
 *
 * Lateness has the buckets of a histogram without its sum, which the module does not
 * count and histogram_quantile() does not need.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl.h"

#define PREFIX	"hwtimer_wheel_"

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
			 const struct hwtimer_wheel_stats *wheel)
{
	fprintf(to, PREFIX "%s%s{wheel=\"", name, suffix);
	print_label(to, wheel->name);
	fputc('"', to);
}

/* All samples of a metric have to be together, those of all wheels. */
static void print_metric(FILE *to, const struct ctl_wheels *wheels, const struct ctl_field *field)
{
	const char *suffix = field->kind == CTL_COUNTER ? "_total" : "";
	char value[32];
	unsigned int i;

	fprintf(to, "# TYPE " PREFIX "%s%s %s\n", field->name, suffix,
		*suffix ? "counter" : "gauge");
	for (i = 0; i < wheels->n; i++) {
		if (!ctl_has_field(&wheels->wheels[i], field))
			continue;
		ctl_format_field(&wheels->wheels[i], field, value, sizeof(value));
		print_sample(to, field->name, suffix, &wheels->wheels[i]);
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
		const struct hwtimer_wheel_stats *wheel = &wheels->wheels[i];
		uint64_t sum = 0, bound;

		for (j = 0; j < wheel->late_bins; j++) {
			sum += wheel->late[j];
			bound = ctl_late_bound(wheel, j);
			print_sample(to, name, "", wheel);
			if (bound)
				fprintf(to, ",le=\"%.9g\"", bound / 1e9);
			else
				fputs(",le=\"+Inf\"", to);
			fprintf(to, "} %" PRIu64 "\n", sum);
		}
	}
}

static void print_metrics(FILE *to, const struct ctl_wheels *wheels)
{
	unsigned int i;

	for (i = 0; wheels->n && i < ctl_n_fields; i++)
		if (ctl_fields[i].kind != CTL_NAME && ctl_fields[i].kind != CTL_WORD)
			print_metric(to, wheels, &ctl_fields[i]);
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
	const char *word, *device = CTL_DEVICE, *output = NULL;
	const struct ctl_option options[] = {
		{ "output", 'o', CTL_TEXT, &output, 0, 0 },
		{ "device", 0, CTL_TEXT, &device, 0, 0 },
	};
	struct ctl_wheels wheels;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	word = ctl_next_word(args);
	if (word)
		ctl_misuse("unexpected argument: '%s'", word);
	ctl_wheels_read(&wheels, device, NULL, 0);
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
	.help = "metrics [--output FILE] [--device PATH]\n\n"
		"Print the state and the counters of all wheels in Prometheus' text format,\n"
		"for the textfile collector of node_exporter. Without CAP_PERFMON it prints\n"
		"only the wheels that your programs use.\n\n"
		"  -o, --output FILE  replace FILE atomically, instead of printing\n"
		"  --device PATH      the device (default: " CTL_DEVICE ")\n"
		"  -h, --help         print this help\n",
	.run = run_metrics,
};
