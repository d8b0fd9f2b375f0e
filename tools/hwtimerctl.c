// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl: timeouts for the shell, and the state of wheels and contexts.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

static const struct ctl_command *const commands[] = {
	&ctl_sleep, &ctl_stat, &ctl_list, &ctl_metrics, &ctl_idle,
};

const struct ctl_command *ctl_command;
bool ctl_http;

/* The arguments and names in a message are any text. */
static void complain(const char *format, va_list ap)
{
	FILE *to = ctl_http ? stdout : stderr;
	char *text;

	if (vasprintf(&text, format, ap) < 0)
		abort();
	if (ctl_http)
		fputs("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
		      "Content-Type: text/plain; charset=utf-8\r\n\r\n", to);
	fprintf(to, "hwtimerctl%s%s: ", ctl_command ? " " : "",
		ctl_command ? ctl_command->name : "");
	ctl_print_safe(to, text);
	fputc('\n', to);
	free(text);
}

/* Exit with a message. */
void ctl_die(int status, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	complain(format, ap);
	va_end(ap);
	exit(status);
}

/* Exit because the arguments are wrong. */
void ctl_misuse(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	complain(format, ap);
	va_end(ap);
	fprintf(stderr, "Try 'hwtimerctl%s%s --help'.\n", ctl_command ? " " : "",
		ctl_command ? ctl_command->name : "");
	exit(CTL_USAGE);
}

/* Allocate zeroed memory, or exit. */
void *ctl_alloc(size_t n, size_t size)
{
	void *p = calloc(n ?: 1, size);

	if (!p)
		ctl_die(CTL_FAILED, "out of memory");
	return p;
}

/* Write what was printed, or exit. */
void ctl_flush(void)
{
	bool failed;

	errno = 0;
	failed = fflush(stdout);
	if (failed || ferror(stdout))
		ctl_die(CTL_FAILED, "cannot write to stdout: %s", strerror(errno ?: EIO));
}

/* Exit because the rights are missing, and say what helps: root's or, if it is root, these. */
void ctl_denied(const char *what, const char *needs)
{
	if (geteuid())
		ctl_die(CTL_NO_RIGHTS, "%s: permission denied (try: sudo hwtimerctl %s)", what,
			ctl_command->name);
	ctl_die(CTL_NO_RIGHTS, "%s: permission denied, even for root: it needs %s", what, needs);
}

/* Exit because @what failed. */
void ctl_failed(int error, const char *what)
{
	ctl_die(error == EACCES || error == EPERM ? CTL_NO_RIGHTS : CTL_FAILED, "%s: %s", what,
		strerror(error));
}

/* Add to a list of what there is, for a message. A long list is cut. */
void ctl_add_name(char **names, const char *name)
{
	bool full = *names && strlen(*names) > 400;
	char *longer;

	if (full && !strcmp(strchr(*names, 0) - 3, "..."))
		return;
	if (asprintf(&longer, "%s%s%s", *names ?: "", *names ? ", " : "", full ? "..." : name) < 0)
		abort();
	free(*names);
	*names = longer;
}

/* Open a handle for one timeout: on the device or, without it, in the process. */
struct hwtimer *ctl_open(void)
{
	struct hwtimer_options options = { .size = sizeof(options), .timeouts = 1 };
	struct hwtimer *h;
	int ret = hwtimer_open(&h, &options);

	if (ret)
		ctl_failed(-ret, "cannot open a handle");
	return h;
}

static void print_usage(void)
{
	size_t i;

	printf("usage: hwtimerctl COMMAND [ARGUMENT]...\n"
	       "       hwtimerctl --help | --version\n\n"
	       "Timeouts for the shell, and the state of wheels and contexts.\n\n");
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-7s %s\n", commands[i]->name, commands[i]->summary);
	printf("\n\"hwtimerctl COMMAND --help\" describes a command.\n"
	       "Durations: 90 (seconds), 1.5s, 200ms, 2m, 1h30m.\n"
	       "Timeouts are on " CTL_DEVICE " or, without it, in the process.\n"
	       "Exit status: 0: success, 1: failure, 2: wrong arguments, 3: no device,\n"
	       "4: no permission.\n");
}

/*
 * If stdout is closed, the next file that is opened would become stdout, and be written to. Take
 * its place with a file that refuses writes.
 */
static void keep_places(void)
{
	int fd;

	do
		fd = open("/", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

int main(int argc, char *argv[])
{
	struct ctl_args args = { .argv = argv, .argc = argc };
	char *names = NULL;
	const char *name;
	size_t i;
	int status;

	keep_places();
	/* A closed pipe is an error like others. */
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2)
		ctl_misuse("COMMAND: missing");
	name = argv[1];
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
		print_usage();
		ctl_flush();
		return CTL_OK;
	}
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		puts("hwtimerctl " CTL_VERSION);
		ctl_flush();
		return CTL_OK;
	}
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(name, commands[i]->name))
			ctl_command = commands[i];
	for (i = 0; !ctl_command && i < ARRAY_SIZE(commands); i++)
		ctl_add_name(&names, commands[i]->name);
	if (!ctl_command)
		ctl_misuse("no such %s: '%s' (there are: %s)",
			   name[0] == '-' ? "option" : "command", name,
			   name[0] == '-' ? "--help, --version" : names);
	optind = 2;
	status = ctl_command->run(&args);
	ctl_flush();
	return status;
}
