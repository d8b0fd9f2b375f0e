// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl metrics: all wheels of kernel modules, and the rules of hwtimer_idle, in Prometheus'
 * text format.
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

/* A label's value: names as they are printed elsewhere, with these characters escaped. */
static void print_label(FILE *to, const char *text)
{
	char *safe = NULL, *at;
	FILE *mem = open_memstream(&safe, &(size_t){ 0 });

	if (!mem)
		ctl_die(CTL_FAILED, "out of memory");
	ctl_print_safe(mem, text);
	fclose(mem);
	for (at = safe; *at; at++) {
		if (*at == '"' || *at == '\\')
			fputc('\\', to);
		fputc(*at, to);
	}
	free(safe);
}

static void print_head(FILE *to, const char *name, const char *help, const char *type)
{
	fprintf(to, "# HELP " PREFIX "%s %s.\n# TYPE " PREFIX "%s %s\n", name, help, name, type);
}

/* Without what closes the labels, since more may follow. */
static void print_sample(FILE *to, const char *name, const char *suffix,
			 const struct hwtimer_wheel_info *wheel)
{
	fprintf(to, PREFIX "%s%s{wheel=\"", name, suffix);
	print_label(to, wheel->name);
	fputs("\",module=\"", to);
	print_label(to, wheel->module);
	fputc('"', to);
}

/* All samples of a metric have to be together, those of all wheels. */
static void print_metric(FILE *to, const struct ctl_wheels *wheels, const struct ctl_field *field)
{
	uint64_t value;
	unsigned int i;

	print_head(to, field->metric, field->help,
		   strstr(field->metric, "_total") ? "counter" : "gauge");
	for (i = 0; i < wheels->n; i++) {
		value = ctl_value(&wheels->wheels[i], field->offset);
		print_sample(to, field->metric, "", &wheels->wheels[i]);
		if (strstr(field->metric, "_seconds"))
			fprintf(to, "} %llu.%09llu\n", value / NSEC_PER_SEC, value % NSEC_PER_SEC);
		else
			fprintf(to, "} %" PRIu64 "\n", value);
	}
}

/*
 * A bucket counts what is late by at most its bound; the module, what is late by less. There is no
 * sum, which the module does not tell.
 */
static void print_lateness(FILE *to, const struct ctl_wheels *wheels)
{
	const char *name = "lateness_seconds";
	unsigned int i, j;

	print_head(to, name, "Expiries by how long after their deadlines", "histogram");
	for (i = 0; i < wheels->n; i++) {
		const struct hwtimer_wheel_info *wheel = &wheels->wheels[i];
		uint64_t count = 0, bound;

		for (j = 0; j < HWTIMER_LATE; j++) {
			count += wheel->late[j];
			bound = ctl_late_bound(j);
			print_sample(to, name, "_bucket", wheel);
			if (bound)
				fprintf(to, ",le=\"%.15g\"} %" PRIu64 "\n", bound / 1e9, count);
			else
				fprintf(to, ",le=\"+Inf\"} %" PRIu64 "\n", count);
		}
		print_sample(to, name, "_count", wheel);
		fprintf(to, "} %" PRIu64 "\n", count);
	}
}

static void read_all(struct ctl_wheels *wheels)
{
	ctl_wheels_read(wheels, NULL, 0);
	ctl_idle_read();
}

static void print_metrics(FILE *to, const struct ctl_wheels *wheels)
{
	unsigned int i;

	for (i = 0; i < CTL_FIELDS && wheels->n; i++)
		print_metric(to, wheels, &ctl_fields[i]);
	if (wheels->n)
		print_lateness(to, wheels);
	ctl_idle_metrics(to);
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

/*
 * Answer a request of HTTP that is on stdin, which is a connection: systemd accepts it and starts
 * this for each. If anything cannot be read, the answer is 503 and says why, and Prometheus sees
 * that this is down. If the request takes longer than TIMEOUT_S, or does not begin, there is none.
 */
#define TIMEOUT_S	10

static const char *read_request(void)
{
	char request[8192] = "", method[16], path[256], version[16];
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && !strstr(request, "\r\n\r\n")) {
		n = read(STDIN_FILENO, request + len, sizeof(request) - 1 - len);
		len += n > 0 ? n : 0;
		request[len] = 0;
	}
	if (!len)
		exit(CTL_OK);
	if (n <= 0 || sscanf(request, "%15s %255s %15s", method, path, version) != 3 ||
	    strncmp(version, "HTTP/1.", 7))
		return "400 Bad Request";
	if (strcmp(method, "GET"))
		return "405 Method Not Allowed\r\nAllow: GET";
	return strcmp(path, "/metrics") ? "404 Not Found" : "200 OK";
}

static void answer(void)
{
	struct ctl_wheels wheels;
	const char *status;

	alarm(TIMEOUT_S);
	status = read_request();
	ctl_http = true;
	if (*status == '2')
		read_all(&wheels);
	ctl_http = false;
	printf("HTTP/1.1 %s\r\nConnection: close\r\n"
	       "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n\r\n", status);
	if (*status == '2') {
		print_metrics(stdout, &wheels);
		ctl_wheels_free(&wheels);
	} else {
		printf("%.3s: GET /metrics\n", status);
	}
	ctl_flush();
}

static int run_metrics(struct ctl_args *args)
{
	const char *word, *output = NULL;
	bool http = false;
	const struct ctl_option options[] = {
		{ "http", 0, CTL_FLAG, &http, 0, 0 },
		{ "output", 'o', CTL_TEXT, &output, 0, 0 },
	};
	struct ctl_wheels wheels;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	word = ctl_next_word(args);
	if (word)
		ctl_misuse("unexpected argument: '%s'", word);
	if (http && output)
		ctl_misuse("--http excludes --output");
	if (http) {
		answer();
		return CTL_OK;
	}
	read_all(&wheels);
	if (output)
		replace_file(output, &wheels);
	else
		print_metrics(stdout, &wheels);
	ctl_wheels_free(&wheels);
	return CTL_OK;
}

const struct ctl_command ctl_metrics = {
	.name = "metrics",
	.summary = "all wheels of kernel modules, for Prometheus",
	.help = "metrics [--http | --output FILE]\n\n"
		"Print the counters and the lateness of all wheels of kernel modules, and the\n"
		"counters of the rules of \"idle\", in Prometheus' text format. Needs\n"
		"CAP_PERFMON.\n\n"
		"  --http             answer one HTTP request on stdin: hwtimer-metrics.socket\n"
		"  -o, --output FILE  replace FILE atomically, instead of printing\n"
		"  -h, --help         print this help\n",
	.run = run_metrics,
};
