// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl list: the pending timeouts of a process' contexts, or of a wheel of a module.
 *
 * Contexts are private, so their descriptors are copied by pidfd_getfd(2), which requires the
 * rights of a debugger. Timeouts of wheels are read from debugfs.
 */
#include <dirent.h>
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

static void show_timeout(const struct ctl_context *c, const struct hwtimer_query *q, uint64_t now)
{
	if (json) {
		ctl_json_open(NULL, '{');
		ctl_json_number("pid", c->pid);
		ctl_json_number("fd", c->fd);
		ctl_json_number("id", q->id);
		ctl_json_number("user_data", q->user_data);
		json_due(q->deadline_ns, now);
		ctl_json_number("period_ns", q->period_ns);
		ctl_json_close('}');
		ctl_json_end();
		return;
	}
	printf("%7d  %4d  %#-18" PRIx64 "  %#-18" PRIx64 "  ", c->pid, c->fd, (uint64_t)q->id,
	       (uint64_t)q->user_data);
	show_due(q->deadline_ns, now);
	if (q->period_ns) {
		fputs(", every ", stdout);
		ctl_print_ns(stdout, q->period_ns);
	}
	putchar('\n');
}

static void list_context(const struct ctl_context *c, int fd)
{
	struct hwtimer_query *queries = ctl_alloc(PAGE, sizeof(*queries));
	struct hwtimer_list list = { .entries = (uintptr_t)queries, .size = sizeof(*queries) };
	struct hwtimer_info info = { 0 };
	unsigned int i;
	uint64_t now;

	do {
		list.count = PAGE;
		if (ioctl(fd, HWTIMER_IOC_INFO, &info) || ioctl(fd, HWTIMER_IOC_LIST, &list))
			ctl_die(CTL_FAILED, "process %d, descriptor %d: %s", c->pid, c->fd,
				strerror(errno));
		now = ctl_clock(info.clockid) + info.offset_ns;
		for (i = 0; i < list.count; i++)
			show_timeout(c, &queries[i], now);
	} while (list.count == PAGE);
	free(queries);
}

/* A process that ends meanwhile has no timeouts. */
static void list_contexts(uint64_t pid)
{
	const struct ctl_context *contexts, *c;
	int pidfd = -1, fd;
	unsigned int n, i;
	char text[64];

	contexts = ctl_contexts(pid, &n);
	if (!n)
		ctl_die(CTL_FAILED, "no process of yours has a context "
			"(--pid PID, or WHEEL, for others: sudo hwtimerctl list)");
	if (!json)
		printf("%7s  %4s  %-18s  %-18s  %s\n", "PID", "FD", "ID", "USER_DATA", "DUE");
	for (i = 0; i < n; i++) {
		c = &contexts[i];
		if (!i || c->pid != c[-1].pid) {
			close(pidfd);
			pidfd = syscall(SYS_pidfd_open, c->pid, 0);
		}
		fd = pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd, pidfd, c->fd, 0);
		if (fd >= 0) {
			list_context(c, fd);
			close(fd);
		} else if (errno == EPERM) {
			snprintf(text, sizeof(text), "process %d", c->pid);
			ctl_denied(text, "CAP_SYS_PTRACE");
		}
	}
	close(pidfd);
}

/* The number of pending timeouts of a wheel, or -1. */
static int64_t pending_of(const char *debugfs, const char *wheel)
{
	char path[512], line[128];
	int64_t pending = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/hwtimer/%s/stats", debugfs, wheel);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "pending %" SCNd64, &pending);
	if (f)
		fclose(f);
	return pending;
}

/* Returns @name, which has to be a wheel, or that of which the most timeouts are pending. */
const char *ctl_debugfs_wheel(const char *debugfs, const char *name)
{
	char *path, *there = NULL, *busiest = NULL;
	int64_t most = -1, pending;
	struct dirent *entry;
	DIR *dir;

	if (asprintf(&path, "%s/hwtimer", debugfs) < 0)
		ctl_die(CTL_FAILED, "out of memory");
	dir = opendir(path);
	if (!dir && (errno == EACCES || errno == EPERM))
		ctl_denied(path, "a kernel without lockdown, which Secure Boot turns on");
	if (!dir)
		ctl_die(CTL_FAILED, "%s: %s (modprobe hwtimer, mount -t debugfs debugfs %s)", path,
			strerror(errno), debugfs);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || entry->d_type == DT_REG)
			continue;
		if (name && !strcmp(name, entry->d_name))
			break;
		ctl_add_name(&there, entry->d_name);
		pending = pending_of(debugfs, entry->d_name);
		if (pending > most) {
			most = pending;
			free(busiest);
			busiest = strdup(entry->d_name);
		}
	}
	if (name && !entry)
		ctl_die(CTL_FAILED, "no wheel '%s' (there are: %s)", name, there ?: "none");
	if (!name && !busiest)
		ctl_die(CTL_FAILED, "there is no wheel of a kernel module");
	closedir(dir);
	free(path);
	return name ?: busiest;
}

/* Give @take each line of the file of a wheel in debugfs. */
void ctl_debugfs_read(const char *debugfs, const char *wheel, const char *file,
		      void (*take)(void *arg, const char *path, const char *line), void *arg)
{
	char *path, *line = NULL;
	size_t room = 0;
	FILE *f;

	if (asprintf(&path, "%s/hwtimer/%s/%s", debugfs, wheel, file) < 0)
		ctl_die(CTL_FAILED, "out of memory");
	f = fopen(path, "re");
	if (!f && (errno == EACCES || errno == EPERM))
		ctl_denied(path, "a kernel without lockdown, which Secure Boot turns on");
	if (!f)
		ctl_failed(errno, path);
	errno = 0;
	while (getline(&line, &room, f) > 0)
		take(arg, path, line);
	if (!feof(f))
		ctl_failed(errno, path);
	free(line);
	free(path);
	fclose(f);
}

static void take_now(void *arg, const char *path, const char *line)
{
	(void)path;
	if (!strncmp(line, "now_ns ", 7))
		*(uint64_t *)arg = strtoull(line + 7, NULL, 10);
}

/*
 * "timeout LEVEL SLOT DEADLINE FUNCTION TIMEOUT", or "more LEVEL SLOT": there are more in this
 * bucket. LEVEL is "never" for what never expires.
 */
static void show_line(void *arg, const char *path, const char *line)
{
	uint64_t deadline, now = *(uint64_t *)arg;
	char level[16], function[256];
	unsigned int slot;
	bool more = false;

	if (sscanf(line, "more %15s %u", level, &slot) == 2)
		more = true;
	else if (sscanf(line, "timeout %15s %u %" SCNu64 " %255s", level, &slot, &deadline,
			function) != 4)
		ctl_die(CTL_FAILED, "%s: not a pending timeout: '%.*s'", path,
			(int)strcspn(line, "\n"), line);
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
	uint64_t now = 0;

	ctl_debugfs_read(debugfs, name, "stats", take_now, &now);
	if (!json)
		printf("%5s  %5s  %-32s  %s\n", "LEVEL", "SLOT", "FUNCTION", "DUE");
	ctl_debugfs_read(debugfs, name, "pending", show_line, &now);
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
	if (wheel && pid)
		ctl_misuse("WHEEL excludes --pid");
	if (wheel)
		list_wheel(debugfs, ctl_debugfs_wheel(debugfs, wheel));
	else
		list_contexts(pid);
	return CTL_OK;
}

const struct ctl_command ctl_list = {
	.name = "list",
	.summary = "the pending timeouts of a process or of a wheel",
	.help = "list [--json] [--pid PID]\n"
		"       hwtimerctl list [--json] [--debugfs DIR] WHEEL\n\n"
		"List the pending timeouts of the contexts of your processes, or of one process,\n"
		"if you may debug it; or, as root, those in the buckets of a wheel of a kernel\n"
		"module. Those of handles in the process are not listed.\n\n"
		"  -p, --pid PID  this process\n"
		"  --json         a JSON object per line for each timeout\n"
		"  --debugfs DIR  where debugfs is mounted (default: " CTL_DEBUGFS ")\n"
		"  -h, --help     print this help\n",
	.run = run_list,
};
