// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl stat, and reading the figures of wheels and contexts.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

/* How many wheels are read at a time. */
#define PAGE	32
/* The kernel has 22 of a context. */
#define MAX_LINES	64

#define FIELD(_name, _metric, _help)						\
	{ #_name, _metric, _help, offsetof(struct hwtimer_wheel_info, _name) }

/* In the order in which they are shown. */
const struct ctl_field ctl_fields[CTL_FIELDS] = {
	FIELD(tick_ns, "tick_seconds", "Length of a tick, the usual lateness at most"),
	FIELD(pending, "pending", "Timeouts that are pending now"),
	FIELD(armed, "armed_total", "Timeouts that became pending"),
	FIELD(touched, "touched_total", "Pending timeouts that got another deadline"),
	FIELD(cancelled, "cancelled_total", "Pending timeouts that were cancelled or released"),
	FIELD(expired, "expired_total", "Pending timeouts that expired"),
	FIELD(handed_back, "handed_back_total", "Pending timeouts that a stop handed back"),
};

uint64_t ctl_value(const struct hwtimer_wheel_info *wheel, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const char *)wheel + offset, sizeof(value));
	return value;
}

/* The lateness that the expiries in a bin are below; 0: any, as it is the last one. */
uint64_t ctl_late_bound(unsigned int bin)
{
	return bin + 1 < HWTIMER_LATE ? NSEC_PER_USEC << bin : 0;
}

static bool wheel_wanted(const char *name, char *const names[], unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return true;
	return !n;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct hwtimer_wheel_info *)a)->name,
		      ((const struct hwtimer_wheel_info *)b)->name);
}

static _Noreturn void device_failed(int error)
{
	switch (error) {
	case ENOENT:
	case ENXIO:
	case ENODEV:
		ctl_die(CTL_NO_DEVICE, CTL_DEVICE
			": no such device; is the module loaded? (modprobe hwtimer)");
	case EACCES:
	case EPERM:
		ctl_die(CTL_NO_RIGHTS, CTL_DEVICE
			": permission denied: be root, or in the group of the device with CAP_PERFMON");
	default:
		ctl_failed(error, CTL_DEVICE);
	}
}

/* Read all wheels, or those named. */
void ctl_wheels_read(struct ctl_wheels *wheels, char *const names[], unsigned int n_names)
{
	struct hwtimer_wheel_info *page = ctl_alloc(PAGE, sizeof(*page));
	struct hwtimer_list list = { .entries = (uintptr_t)page, .size = sizeof(*page) };
	int fd = open(CTL_DEVICE, O_RDONLY | O_CLOEXEC);
	unsigned int i;

	if (fd < 0)
		device_failed(errno);
	*wheels = (struct ctl_wheels){ 0 };
	do {
		list.count = PAGE;
		if (ioctl(fd, HWTIMER_IOC_WHEELS, &list))
			device_failed(errno);
		wheels->wheels = realloc(wheels->wheels, (wheels->n + PAGE) * sizeof(*page));
		if (!wheels->wheels)
			ctl_die(CTL_FAILED, "out of memory");
		for (i = 0; i < list.count; i++)
			if (wheel_wanted(page[i].name, names, n_names))
				wheels->wheels[wheels->n++] = page[i];
	} while (list.count == PAGE);
	close(fd);
	free(page);
	wheels->taken_ns = ctl_clock(CLOCK_MONOTONIC);
	qsort(wheels->wheels, wheels->n, sizeof(*page), by_name);
}

void ctl_wheels_free(struct ctl_wheels *wheels)
{
	free(wheels->wheels);
	*wheels = (struct ctl_wheels){ 0 };
}

/* Returns NULL if it is not among them. */
const struct hwtimer_wheel_info *ctl_wheels_find(const struct ctl_wheels *wheels, const char *name)
{
	unsigned int i;

	for (i = 0; i < wheels->n; i++)
		if (!strcmp(wheels->wheels[i].name, name))
			return &wheels->wheels[i];
	return NULL;
}

/* Read those wheels, each of which has to be there; or all. */
void ctl_wheels_must_read(struct ctl_wheels *wheels, char *const names[], unsigned int n_names)
{
	unsigned int i;

	ctl_wheels_read(wheels, names, n_names);
	for (i = 0; i < n_names; i++)
		if (!ctl_wheels_find(wheels, names[i]))
			ctl_die(CTL_FAILED, "no wheel '%s'", names[i]);
}

/* A name that a user chose, without control characters. */
void ctl_print_word(FILE *to, const char *text, int width)
{
	for (; *text; text++, width--)
		fputc((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f ? '?' : *text,
		      to);
	for (; width > 0; width--)
		fputc(' ', to);
}

/* Lateness: a bar for each bin from the first to the last that is not empty. */
void ctl_print_late(FILE *to, const __u64 *late, int columns)
{
	unsigned int first = HWTIMER_LATE, last = 0, i;
	uint64_t most = 0, bound;
	int room, bar;

	for (i = 0; i < HWTIMER_LATE; i++) {
		if (!late[i])
			continue;
		first = first < i ? first : i;
		last = i;
		most = late[i] > most ? late[i] : most;
	}
	for (i = first; i <= last; i++) {
		char text[32];
		FILE *number = fmemopen(text, sizeof(text), "w");

		if (!number)
			ctl_die(CTL_FAILED, "out of memory");
		bound = ctl_late_bound(i);
		ctl_print_ns(number, bound ?: ctl_late_bound(i - 1));
		fclose(number);
		fprintf(to, "  %s %-8s %10" PRIu64 " ", bound ? "below" : "above", text,
			(uint64_t)late[i]);
		room = columns > 40 ? columns - 28 : 12;
		bar = late[i] * (double)room / most + 0.5;
		for (bar = late[i] && !bar ? 1 : bar; bar > 0; bar--)
			fputc('#', to);
		fputc('\n', to);
	}
}

void ctl_json_late(const __u64 *late)
{
	uint64_t bound;
	unsigned int i;

	ctl_json_open("late", '[');
	for (i = 0; i < HWTIMER_LATE; i++) {
		bound = ctl_late_bound(i);
		ctl_json_open(NULL, '{');
		if (bound)
			ctl_json_number("below_ns", bound);
		else
			ctl_json_null("below_ns");
		ctl_json_number("count", late[i]);
		ctl_json_close('}');
	}
	ctl_json_close(']');
}

struct line {
	const char *name, *value;
};

/* "name value", in two columns. */
static void print_lines(const struct line *lines, unsigned int n)
{
	unsigned int i, half = (n + 1) / 2, k;

	for (i = 0; i < half; i++) {
		for (k = i; k < n; k += half) {
			fputs("  ", stdout);
			ctl_print_word(stdout, lines[k].name, 20);
			putchar(' ');
			ctl_print_word(stdout, lines[k].value, k < half && k + half < n ? 16 : 0);
		}
		putchar('\n');
	}
}

static int stdout_columns(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return 80;
	return size.ws_col;
}

static void show_wheel(const struct hwtimer_wheel_info *wheel)
{
	const char *on = ctl_colours() ? "\033[1m" : "", *off = *on ? "\033[0m" : "";
	struct line lines[CTL_FIELDS + 1] = { { "module", wheel->module } };
	char texts[CTL_FIELDS][32];
	uint64_t all = 0;
	unsigned int i;

	printf("%swheel ", on);
	ctl_print_word(stdout, wheel->name, 0);
	printf("%s\n", off);
	for (i = 0; i < CTL_FIELDS; i++) {
		snprintf(texts[i], sizeof(texts[i]), "%" PRIu64,
			 ctl_value(wheel, ctl_fields[i].offset));
		lines[i + 1] = (struct line){ ctl_fields[i].name, texts[i] };
	}
	print_lines(lines, ARRAY_SIZE(lines));
	for (i = 0; i < HWTIMER_LATE; i++)
		all += wheel->late[i];
	printf("late: %" PRIu64 " expiries%s\n", all, all ? ", after their deadlines" : "");
	ctl_print_late(stdout, wheel->late, stdout_columns());
}

static void json_wheel(const struct hwtimer_wheel_info *wheel)
{
	unsigned int i;

	ctl_json_open(NULL, '{');
	ctl_json_text("name", wheel->name);
	ctl_json_text("module", wheel->module);
	for (i = 0; i < CTL_FIELDS; i++)
		ctl_json_number(ctl_fields[i].name, ctl_value(wheel, ctl_fields[i].offset));
	ctl_json_late(wheel->late);
	ctl_json_close('}');
}

/* A context, and what the kernel says of it. */
struct context {
	int fd;		/* -1: unknown, as debugfs does not say it */
	struct line lines[MAX_LINES];
	unsigned int n_lines;
};

static struct context *contexts;
static unsigned int n_contexts;

static char *must_copy(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		ctl_die(CTL_FAILED, "out of memory");
	return copy;
}

/*
 * Add the contexts of a file, which is fdinfo of descriptor @fd, or of debugfs. Each begins with
 * the line "context: ID". Returns 0 or an error. What is added is never freed.
 */
static int add_contexts(const char *path, int fd)
{
	struct context *c = NULL;
	char *line = NULL, *value;
	FILE *f = fopen(path, "re");
	size_t room = 0;
	int error;

	if (!f)
		return errno;
	errno = 0;
	while (getline(&line, &room, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		value = strchr(line, ':');
		if (!value)
			continue;
		*value++ = 0;
		value += strspn(value, " \t");
		if (!strcmp(line, "context")) {
			contexts = realloc(contexts, (n_contexts + 1) * sizeof(*contexts));
			if (!contexts)
				ctl_die(CTL_FAILED, "out of memory");
			c = &contexts[n_contexts++];
			*c = (struct context){ .fd = fd };
		}
		if (c && c->n_lines < MAX_LINES)
			c->lines[c->n_lines++] = (struct line){ must_copy(line), must_copy(value) };
	}
	error = feof(f) ? 0 : errno;
	free(line);
	fclose(f);
	return error;
}

static int by_fd(const void *a, const void *b)
{
	return ((const struct context *)a)->fd - ((const struct context *)b)->fd;
}

/* The contexts of a process. */
static void read_contexts(uint64_t pid)
{
	struct dirent *entry;
	char path[320];
	DIR *dir;
	int error;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fdinfo", pid);
	dir = opendir(path);
	if (!dir && errno == ENOENT)
		ctl_die(CTL_FAILED, "--pid: no process %" PRIu64, pid);
	if (!dir)
		ctl_failed(errno, path);
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fdinfo/%s", pid, entry->d_name);
		error = add_contexts(path, atoi(entry->d_name));
		/* Other errors: it was closed meanwhile. */
		if (error == EACCES || error == EPERM)
			ctl_failed(error, path);
	}
	closedir(dir);
	if (n_contexts)
		qsort(contexts, n_contexts, sizeof(*contexts), by_fd);
}

/* Returns the descriptors of a process that are contexts, to be freed. */
int *ctl_contexts(uint64_t pid, unsigned int *n)
{
	unsigned int i;
	int *fds;

	read_contexts(pid);
	*n = n_contexts;
	fds = ctl_alloc(*n, sizeof(*fds));
	for (i = 0; i < *n; i++)
		fds[i] = contexts[i].fd;
	return fds;
}

/* All contexts, from debugfs. */
static void read_all_contexts(const char *debugfs)
{
	char *path;
	int error;

	if (asprintf(&path, "%s/hwtimer/contexts", debugfs) < 0)
		ctl_die(CTL_FAILED, "out of memory");
	error = add_contexts(path, -1);
	if (error)
		ctl_failed(error, path);
	free(path);
}

static void json_line(const struct line *line)
{
	const char *value = line->value;
	char *next = (char *)value;

	/* The name of a process may be a number. */
	if (!strcmp(line->name, "comm") || value[strspn(value, "0123456789 ")]) {
		ctl_json_text(line->name, value);
	} else if (!strchr(value, ' ')) {
		ctl_json_number(line->name, strtoull(value, NULL, 10));
	} else {
		ctl_json_open(line->name, '[');
		while (*next)
			ctl_json_number(NULL, strtoull(next, &next, 10));
		ctl_json_close(']');
	}
}

static void json_contexts(uint64_t pid)
{
	unsigned int i, k;

	ctl_json_open("contexts", '[');
	for (i = 0; i < n_contexts; i++) {
		const struct context *c = &contexts[i];

		ctl_json_open(NULL, '{');
		if (c->fd >= 0) {
			ctl_json_number("pid", pid);
			ctl_json_number("fd", c->fd);
		}
		for (k = 0; k < c->n_lines; k++)
			json_line(&c->lines[k]);
		ctl_json_close('}');
	}
	ctl_json_close(']');
}

static void show_contexts(uint64_t pid)
{
	unsigned int i;

	if (pid && !n_contexts)
		printf("process %" PRIu64 " has no context\n", pid);
	for (i = 0; i < n_contexts; i++) {
		if (contexts[i].fd >= 0)
			printf("process %" PRIu64 ", descriptor %d\n", pid, contexts[i].fd);
		else if (i)
			putchar('\n');
		print_lines(contexts[i].lines, contexts[i].n_lines);
	}
}

static int run_stat(struct ctl_args *args)
{
	const char *word, *debugfs = CTL_DEBUGFS;
	struct ctl_wheels wheels = { 0 };
	unsigned int n_names = 0, i;
	uint64_t pid = 0;
	bool json = false, all = false;
	const struct ctl_option options[] = {
		{ "json", 0, CTL_FLAG, &json, 0, 0 },
		{ "pid", 'p', CTL_NUMBER, &pid, 1, INT32_MAX },
		{ "contexts", 'c', CTL_FLAG, &all, 0, 0 },
		{ "debugfs", 0, CTL_TEXT, &debugfs, 0, 0 },
	};
	char **names = ctl_alloc(args->argc, sizeof(*names));

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	while ((word = ctl_next_word(args)))
		names[n_names++] = (char *)word;
	if (pid && all)
		ctl_misuse("--pid excludes --contexts");
	if (n_names || !(pid || all))
		ctl_wheels_must_read(&wheels, names, n_names);
	if (pid)
		read_contexts(pid);
	if (all)
		read_all_contexts(debugfs);

	if (json) {
		ctl_json_open(NULL, '{');
		ctl_json_open("wheels", '[');
		for (i = 0; i < wheels.n; i++)
			json_wheel(&wheels.wheels[i]);
		ctl_json_close(']');
		json_contexts(pid);
		ctl_json_close('}');
		ctl_json_end();
	} else {
		for (i = 0; i < wheels.n; i++) {
			if (i)
				putchar('\n');
			show_wheel(&wheels.wheels[i]);
		}
		show_contexts(pid);
	}
	ctl_wheels_free(&wheels);
	free(names);
	return CTL_OK;
}

const struct ctl_command ctl_stat = {
	.name = "stat",
	.summary = "the counters of kernel modules' wheels, and the contexts of programs",
	.help = "stat [--json] [WHEEL]...\n"
		"       hwtimerctl stat [--json] --pid PID | --contexts [--debugfs DIR] [WHEEL]...\n\n"
		"Show the counters and the lateness of all wheels of kernel modules, or of\n"
		"those named, which needs CAP_PERFMON; or contexts of programs.\n\n"
		"  -p, --pid PID   the contexts of a process: its descriptors of the device\n"
		"  -c, --contexts  those of all processes, as root\n"
		"  --json          a JSON object, {\"wheels\": [...], \"contexts\": [...]}\n"
		"  --debugfs DIR   where debugfs is mounted (default: " CTL_DEBUGFS ")\n"
		"  -h, --help      print this help\n",
	.run = run_stat,
};
