// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl metrics: all wheels of kernel modules, and the rules of hwtimer_idle, in Prometheus'
 * text format.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#define PREFIX	"hwtimer_wheel_"

/* A label's value: names as they are printed elsewhere, with these characters escaped. */
static void print_label(const char *text)
{
	char *safe = NULL, *at;
	FILE *mem = open_memstream(&safe, &(size_t){ 0 });

	if (!mem)
		ctl_die(CTL_FAILED, "out of memory");
	ctl_print_safe(mem, text);
	fclose(mem);
	for (at = safe; *at; at++) {
		if (*at == '"' || *at == '\\')
			putchar('\\');
		putchar(*at);
	}
	free(safe);
}

static void print_head(const char *name, const char *help, const char *type)
{
	printf("# HELP " PREFIX "%s %s.\n# TYPE " PREFIX "%s %s\n", name, help, name, type);
}

/* Without what closes the labels, since more may follow. */
static void print_sample(const char *name, const char *suffix,
			 const struct hwtimer_wheel_info *wheel)
{
	printf(PREFIX "%s%s{wheel=\"", name, suffix);
	print_label(wheel->name);
	fputs("\",module=\"", stdout);
	print_label(wheel->module);
	putchar('"');
}

/* All samples of a metric have to be together, those of all wheels. */
static void print_metric(const struct ctl_wheels *wheels, const struct ctl_field *field)
{
	uint64_t value;
	unsigned int i;

	print_head(field->metric, field->help,
		   strstr(field->metric, "_total") ? "counter" : "gauge");
	for (i = 0; i < wheels->n; i++) {
		value = ctl_value(&wheels->wheels[i], field->offset);
		print_sample(field->metric, "", &wheels->wheels[i]);
		if (strstr(field->metric, "_seconds"))
			printf("} %llu.%09llu\n", value / NSEC_PER_SEC, value % NSEC_PER_SEC);
		else
			printf("} %" PRIu64 "\n", value);
	}
}

/*
 * A bucket counts what is late by at most its bound; the module, what is late by less. There is no
 * sum, which the module does not tell.
 */
static void print_lateness(const struct ctl_wheels *wheels)
{
	const char *name = "lateness_seconds";
	unsigned int i, j;

	print_head(name, "Expiries by how long after their deadlines", "histogram");
	for (i = 0; i < wheels->n; i++) {
		const struct hwtimer_wheel_info *wheel = &wheels->wheels[i];
		uint64_t count = 0, bound;

		for (j = 0; j < HWTIMER_LATE; j++) {
			count += wheel->late[j];
			bound = ctl_late_bound(j);
			print_sample(name, "_bucket", wheel);
			if (bound)
				printf(",le=\"%.15g\"} %" PRIu64 "\n", bound / 1e9, count);
			else
				printf(",le=\"+Inf\"} %" PRIu64 "\n", count);
		}
		print_sample(name, "_count", wheel);
		printf("} %" PRIu64 "\n", count);
	}
}

static void read_all(struct ctl_wheels *wheels)
{
	ctl_wheels_read(wheels);
	ctl_idle_read();
}

static void print_metrics(const struct ctl_wheels *wheels)
{
	unsigned int i;

	for (i = 0; i < CTL_FIELDS && wheels->n; i++)
		print_metric(wheels, &ctl_fields[i]);
	if (wheels->n)
		print_lateness(wheels);
	ctl_idle_metrics();
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
		print_metrics(&wheels);
		ctl_wheels_free(&wheels);
	} else {
		printf("%.3s: GET /metrics\n", status);
	}
	ctl_flush();
}

static int run_metrics(struct ctl_args *args)
{
	bool http = false;
	const struct ctl_option options[] = {
		{ "http", 0, CTL_FLAG, &http, 0, 0 },
	};
	struct ctl_wheels wheels;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	ctl_must_end(args);
	if (http) {
		answer();
		return CTL_OK;
	}
	read_all(&wheels);
	print_metrics(&wheels);
	ctl_wheels_free(&wheels);
	return CTL_OK;
}

const struct ctl_command ctl_metrics = {
	.name = "metrics",
	.summary = "all wheels of kernel modules, for Prometheus",
	.help = "metrics [--http]\n\n"
		"Print the counters and the lateness of all wheels of kernel modules, and the\n"
		"counters of the rules of \"idle\", in Prometheus' text format. Needs\n"
		"CAP_PERFMON.\n\n"
		"  --http      answer one HTTP request on stdin: hwtimer-metrics.socket\n"
		"  -h, --help  print this help\n",
	.run = run_metrics,
};
