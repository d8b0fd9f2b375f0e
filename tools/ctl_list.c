// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl list: the pending timeouts of the contexts of processes.
 *
 * Contexts are private, so their descriptors are copied by pidfd_getfd(2), which requires the
 * rights of a debugger.
 */
#include <errno.h>
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
			"(--pid PID, for others: sudo hwtimerctl list)");
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

static int run_list(struct ctl_args *args)
{
	uint64_t pid = 0;
	const struct ctl_option options[] = {
		{ "json", 0, CTL_FLAG, &json, 0, 0 },
		{ "pid", 'p', CTL_NUMBER, &pid, 1, INT32_MAX },
	};

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	ctl_must_end(args);
	list_contexts(pid);
	return CTL_OK;
}

const struct ctl_command ctl_list = {
	.name = "list",
	.summary = "the pending timeouts of processes",
	.help = "list [--json] [--pid PID]\n\n"
		"List the pending timeouts of the contexts of your processes, or of one process,\n"
		"if you may debug it. Those of handles in the process are not listed.\n\n"
		"  -p, --pid PID  this process\n"
		"  --json         a JSON object per line for each timeout\n"
		"  -h, --help     print this help\n",
	.run = run_list,
};
