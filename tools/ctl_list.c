// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl list: the pending timeouts of a process' contexts, or of a wheel.
 *
 * Contexts are private, so their descriptors are copied by pidfd_getfd(2), which requires the
 * rights of a debugger. Timeouts of wheels, including those of kernel modules, are read from
 * debugfs.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open	434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd	438
#endif

#define PAGE	1024

static bool json;

/* Prints how long until @deadline, or that it never comes. */
static void show_due(uint64_t deadline, uint64_t now)
{
	if (deadline == HWTIMER_NEVER) {
		fputs("never", stdout);
		return;
	}
	fputs(deadline < now ? "overdue by " : "in ", stdout);
	ctl_print_ns(stdout, deadline < now ? now - deadline : deadline - now);
}

static void json_due(uint64_t deadline, uint64_t now)
{
	if (deadline == HWTIMER_NEVER)
		ctl_json_null("due_ns");
	else
		ctl_json_signed("due_ns", deadline - now);
}

static void show_timeout(int fd, const struct hwtimer_query *q, uint64_t now)
{
	if (json) {
		ctl_json_open(NULL, '{');
		ctl_json_number("fd", fd);
		ctl_json_number("id", q->id);
		ctl_json_number("user_data", q->user_data);
		json_due(q->deadline, now);
		ctl_json_number("period_ns", q->period);
		ctl_json_number("unread", q->unread);
		ctl_json_close('}');
		ctl_json_end();
		return;
	}
	printf("%4d  %#-18" PRIx64 "  %#-18" PRIx64 "  ", fd, (uint64_t)q->id,
	       (uint64_t)q->user_data);
	show_due(q->deadline, now);
	if (q->period) {
		fputs(", every ", stdout);
		ctl_print_ns(stdout, q->period);
	}
	putchar('\n');
}

static void list_context(int number, int fd)
{
	struct hwtimer_query *queries = ctl_alloc(PAGE, sizeof(*queries));
	struct hwtimer_list arg = {
		.size = sizeof(*queries), .queries = (uintptr_t)queries, .count = PAGE,
	};
	struct hwtimer_stats stats = { 0 };
	int n, i;

	do {
		if (ioctl(fd, HWTIMER_IOC_STATS, &stats))
			ctl_die(CTL_FAILED, "descriptor %d: %s", number, strerror(errno));
		n = ioctl(fd, HWTIMER_IOC_LIST, &arg);
		if (n < 0)
			ctl_die(CTL_FAILED, "descriptor %d: %s", number, strerror(errno));
		for (i = 0; i < n; i++)
			show_timeout(number, &queries[i], stats.now);
	} while (n);
	free(queries);
}

static void list_process(uint64_t pid)
{
	/* First, so that a process that reuses the pid later is not mistaken for this one. */
	int pidfd = syscall(SYS_pidfd_open, (pid_t)pid, 0), *numbers, fd;
	unsigned int n, i;

	if (pidfd < 0)
		ctl_die(CTL_FAILED, "process %" PRIu64 ": %s", pid, strerror(errno));
	numbers = ctl_contexts(pid, &n);
	if (!json)
		printf("%4s  %-18s  %-18s  %s\n", "FD", "ID", "USER_DATA", "DUE");
	for (i = 0; i < n; i++) {
		fd = syscall(SYS_pidfd_getfd, pidfd, numbers[i], 0);
		if (fd >= 0) {
			list_context(numbers[i], fd);
			close(fd);
		} else if (errno != EBADF) {	/* closed meanwhile */
			ctl_die(errno == EPERM ? CTL_NO_RIGHTS : CTL_FAILED,
				"descriptor %d of process %" PRIu64 ": %s", numbers[i], pid,
				strerror(errno));
		}
	}
	close(pidfd);
	free(numbers);
}

/*
 * "timeout LEVEL SLOT DEADLINE FUNCTION TIMEOUT", or "more LEVEL SLOT": there are more in this
 * bucket. LEVEL is "never" for what never expires.
 */
static void show_line(char *line, uint64_t now)
{
	char level[16], function[256];
	uint64_t deadline;
	unsigned int slot;
	bool more = false;

	if (sscanf(line, "more %15s %u", level, &slot) == 2)
		more = true;
	else if (sscanf(line, "timeout %15s %u %" SCNu64 " %255s", level, &slot, &deadline,
			function) != 4)
		ctl_die(CTL_FAILED, "debugfs: unexpected line: '%s'", line);
	if (json) {
		ctl_json_open(NULL, '{');
		if (strcmp(level, "never")) {
			ctl_json_number("level", strtoul(level, NULL, 10));
			ctl_json_number("slot", slot);
		}
		if (more) {
			ctl_json_number("more", 1);
		} else {
			json_due(deadline, now);
			ctl_json_text("function", function);
		}
		ctl_json_close('}');
		ctl_json_end();
		return;
	}
	printf("%5s  %5u  ", level, slot);
	if (more) {
		puts("and more");
		return;
	}
	ctl_print_word(stdout, function, 32);
	fputs("  ", stdout);
	show_due(deadline, now);
	putchar('\n');
}

static void list_wheel(const char *debugfs, const char *name)
{
	struct ctl_wheels wheels;
	char *path, *line = NULL;
	size_t room = 0;
	uint64_t now;
	ssize_t len;
	FILE *f;

	ctl_wheels_read(&wheels, CTL_DEVICE, (char *[]){ (char *)name }, 1);
	if (!wheels.n)
		ctl_no_wheel(name);
	now = ctl_clock(wheels.wheels[0].clockid);
	if (asprintf(&path, "%s/hwtimer/%s/pending", debugfs, name) < 0)
		ctl_die(CTL_FAILED, "out of memory");
	f = fopen(path, "re");
	if (!f)
		ctl_die(errno == EACCES || errno == EPERM ? CTL_NO_RIGHTS : CTL_FAILED, "%s: %s",
			path, strerror(errno));
	if (!json)
		printf("%5s  %5s  %-32s  %s\n", "LEVEL", "SLOT", "FUNCTION", "DUE");
	while ((len = getline(&line, &room, f)) > 0) {
		line[len - (line[len - 1] == '\n')] = 0;
		show_line(line, now);
	}
	if (ferror(f))
		ctl_die(CTL_FAILED, "%s: %s", path, strerror(errno));
	fclose(f);
	free(line);
	free(path);
	ctl_wheels_free(&wheels);
}

static int run_list(struct ctl_args *args)
{
	const char *wheel, *debugfs = CTL_DEBUGFS, *word;
	uint64_t pid = 0;
	const struct ctl_option options[] = {
		{ "json", 0, CTL_FLAG, &json, 0, 0 },
		{ "pid", 'p', CTL_NUMBER, &pid, 1, INT32_MAX },
		{ "debugfs", 0, CTL_TEXT, &debugfs, 0, 0 },
	};

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	wheel = ctl_next_word(args);
	word = wheel ? ctl_next_word(args) : NULL;
	if (word)
		ctl_misuse("unexpected argument: '%s'", word);
	if (!wheel == !pid)
		ctl_misuse("needs either a WHEEL or --pid PID");
	if (wheel)
		list_wheel(debugfs, wheel);
	else
		list_process(pid);
	return CTL_OK;
}

const struct ctl_command ctl_list = {
	.name = "list",
	.summary = "the pending timeouts of a process or of a wheel",
	.help = "list [--json] --pid PID\n"
		"       hwtimerctl list [--json] [--debugfs DIR] WHEEL\n\n"
		"List the pending timeouts of a process' contexts, if you may debug the\n"
		"process; or, as root, those in the buckets of a wheel, including those of\n"
		"kernel modules. A timeout that was just armed may not be in a bucket yet.\n\n"
		"  -p, --pid PID  the process\n"
		"  --json         a JSON object per line for each timeout\n"
		"  --debugfs DIR  where debugfs is mounted (default: " CTL_DEBUGFS ")\n"
		"  -h, --help     print this help\n",
	.run = run_list,
};
