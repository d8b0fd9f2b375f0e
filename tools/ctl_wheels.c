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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

/* How many wheels are read at a time. */
#define PAGE	32

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

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct hwtimer_wheel_info *)a)->name,
		      ((const struct hwtimer_wheel_info *)b)->name);
}

static _Noreturn void device_failed(int error, const char *needs)
{
	if (error == EACCES || error == EPERM)
		ctl_denied(CTL_DEVICE, needs);
	if (error != ENOENT && error != ENXIO && error != ENODEV)
		ctl_failed(error, CTL_DEVICE);
	if (access("/sys/module/hwtimer", F_OK))
		ctl_die(CTL_NO_DEVICE, CTL_DEVICE
			": no such device: the module is not loaded (sudo modprobe hwtimer)");
	ctl_die(CTL_NO_DEVICE, CTL_DEVICE ": no such device here, though the module is loaded "
		"(a container needs --device " CTL_DEVICE ")");
}

/* Read all wheels. Returns 0 or an error, with what @needs helps against. */
static int read_wheels(struct ctl_wheels *wheels, const char **needs)
{
	struct hwtimer_wheel_info *page = ctl_alloc(PAGE, sizeof(*page));
	struct hwtimer_list list = { .entries = (uintptr_t)page, .size = sizeof(*page) };
	int fd = open(CTL_DEVICE, O_RDONLY | O_CLOEXEC), error = 0;

	*wheels = (struct ctl_wheels){ 0 };
	*needs = fd < 0 ? "the device (a container: --device " CTL_DEVICE ")" :
		"CAP_PERFMON in the initial user namespace";
	do {
		list.count = PAGE;
		if (fd < 0 || ioctl(fd, HWTIMER_IOC_WHEELS, &list)) {
			error = errno;
			break;
		}
		wheels->wheels = realloc(wheels->wheels, (wheels->n + PAGE) * sizeof(*page));
		if (!wheels->wheels)
			ctl_die(CTL_FAILED, "out of memory");
		memcpy(wheels->wheels + wheels->n, page, list.count * sizeof(*page));
		wheels->n += list.count;
	} while (list.count == PAGE);
	if (fd >= 0)
		close(fd);
	free(page);
	if (wheels->n)
		qsort(wheels->wheels, wheels->n, sizeof(*page), by_name);
	return error;
}

/* Read all wheels, or exit. */
void ctl_wheels_read(struct ctl_wheels *wheels)
{
	const char *needs;
	int error = read_wheels(wheels, &needs);

	if (error)
		device_failed(error, needs);
}

void ctl_wheels_free(struct ctl_wheels *wheels)
{
	free(wheels->wheels);
	*wheels = (struct ctl_wheels){ 0 };
}

static bool is_among(const char *name, char *const names[], unsigned int n)
{
	while (n && strcmp(name, names[n - 1]))
		n--;
	return n;
}

/* Keep the wheels named, each of which has to be there. */
static void must_keep(struct ctl_wheels *wheels, char *const names[], unsigned int n_names)
{
	unsigned int i, n = 0;
	char *there = NULL;

	for (i = 0; i < wheels->n; i++) {
		ctl_add_name(&there, wheels->wheels[i].name);
		if (is_among(wheels->wheels[i].name, names, n_names))
			wheels->wheels[n++] = wheels->wheels[i];
	}
	wheels->n = n;
	for (i = 0; i < n_names; i++) {
		for (n = 0; n < wheels->n && strcmp(wheels->wheels[n].name, names[i]); n++)
			;
		if (n == wheels->n)
			ctl_die(CTL_FAILED, "no wheel '%s' (there are: %s)", names[i],
				there ?: "none");
	}
	free(there);
}

/* A name that a user chose, and spaces up to a width. */
static void print_word(const char *text, int width)
{
	for (width -= ctl_print_safe(stdout, text); width > 0; width--)
		putchar(' ');
}

/* Lateness: a bar for each bin from the first to the last that is not empty. */
static void print_late(const __u64 *late)
{
	unsigned int first = HWTIMER_LATE, last = 0, i;
	uint64_t most = 0, bound;
	int bar;

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
		printf("  %s %-8s %10" PRIu64 " ", bound ? "below" : "above", text,
		       (uint64_t)late[i]);
		bar = late[i] * 52.0 / most + 0.5;
		for (bar = late[i] && !bar ? 1 : bar; bar > 0; bar--)
			putchar('#');
		putchar('\n');
	}
}

static void json_late(const __u64 *late)
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

/* "name value", in two columns. */
static void print_lines(const struct ctl_line *lines, unsigned int n)
{
	unsigned int i, half = (n + 1) / 2, k;

	for (i = 0; i < half; i++) {
		for (k = i; k < n; k += half) {
			fputs("  ", stdout);
			print_word(lines[k].name, 20);
			putchar(' ');
			print_word(lines[k].value, k < half && k + half < n ? 16 : 0);
		}
		putchar('\n');
	}
}

static void show_wheel(const struct hwtimer_wheel_info *wheel)
{
	struct ctl_line lines[CTL_FIELDS + 1] = { { "module", wheel->module } };
	char texts[CTL_FIELDS][32];
	uint64_t all = 0;
	unsigned int i;

	fputs("wheel ", stdout);
	print_word(wheel->name, 0);
	putchar('\n');
	for (i = 0; i < CTL_FIELDS; i++) {
		snprintf(texts[i], sizeof(texts[i]), "%" PRIu64,
			 ctl_value(wheel, ctl_fields[i].offset));
		lines[i + 1] = (struct ctl_line){ ctl_fields[i].name, texts[i] };
	}
	print_lines(lines, ARRAY_SIZE(lines));
	for (i = 0; i < HWTIMER_LATE; i++)
		all += wheel->late[i];
	printf("late: %" PRIu64 " expiries%s\n", all, all ? ", after their deadlines" : "");
	print_late(wheel->late);
}

static void json_wheel(const struct hwtimer_wheel_info *wheel)
{
	unsigned int i;

	ctl_json_open(NULL, '{');
	ctl_json_text("name", wheel->name);
	ctl_json_text("module", wheel->module);
	for (i = 0; i < CTL_FIELDS; i++)
		ctl_json_number(ctl_fields[i].name, ctl_value(wheel, ctl_fields[i].offset));
	json_late(wheel->late);
	ctl_json_close('}');
}

static struct ctl_context *contexts;
static unsigned int n_contexts;

static char *must_copy(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		ctl_die(CTL_FAILED, "out of memory");
	return copy;
}

static void add_line(struct ctl_context *c, const char *name, const char *value)
{
	if (c->n_lines < CTL_MAX_LINES)
		c->lines[c->n_lines++] = (struct ctl_line){ must_copy(name), must_copy(value) };
}

static void add_name(struct ctl_context *c)
{
	char path[64], *comm = NULL;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", c->pid);
	f = fopen(path, "re");
	if (f && getline(&comm, &room, f) > 0) {
		comm[strcspn(comm, "\n")] = 0;
		add_line(c, "comm", comm);
	}
	free(comm);
	if (f)
		fclose(f);
}

/*
 * Add a descriptor if it is a context, which has the line "context: ID". Returns 0 or an error.
 * What is added is never freed.
 */
static int add_context(const char *path, int pid, int fd)
{
	struct ctl_context *c = NULL;
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
		if (!c && !strcmp(line, "context")) {
			contexts = realloc(contexts, (n_contexts + 1) * sizeof(*contexts));
			if (!contexts)
				ctl_die(CTL_FAILED, "out of memory");
			c = &contexts[n_contexts++];
			*c = (struct ctl_context){ .pid = pid, .fd = fd };
			add_name(c);
		}
		if (c)
			add_line(c, line, value);
	}
	error = feof(f) ? 0 : errno;
	free(line);
	fclose(f);
	return error;
}

static int by_pid(const void *a, const void *b)
{
	const struct ctl_context *x = a, *y = b;

	return x->pid != y->pid ? x->pid - y->pid : x->fd - y->fd;
}

/* Add the contexts of a process. Returns 0 or an error. */
static int add_process(int pid)
{
	char path[320], fd_path[320];
	struct dirent *entry;
	int error = 0;
	struct stat st;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo", pid);
	dir = opendir(path);
	if (!dir)
		return errno;
	while (!error && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", pid, entry->d_name);
		snprintf(fd_path, sizeof(fd_path), "/proc/%d/fd/%s", pid, entry->d_name);
		if (!isdigit((unsigned char)entry->d_name[0]) || stat(fd_path, &st) ||
		    !S_ISCHR(st.st_mode))
			continue;
		error = add_context(path, pid, atoi(entry->d_name));
		/* It was closed meanwhile. */
		if (error != EACCES && error != EPERM)
			error = 0;
	}
	closedir(dir);
	return error;
}

/* Add those of all processes that the caller may look at. */
static void add_processes(void)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc");

	if (!dir)
		ctl_failed(errno, "/proc");
	while ((entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			add_process(atoi(entry->d_name));
	closedir(dir);
}

/*
 * The contexts of a process, which must have some; or, with 0, those of all processes that the
 * caller may look at.
 */
struct ctl_context *ctl_contexts(uint64_t pid, unsigned int *n)
{
	char *there = NULL, text[64];
	unsigned int i;
	int error = 0;

	if (pid)
		error = add_process(pid);
	else
		add_processes();
	if (error == EACCES || error == EPERM) {
		snprintf(text, sizeof(text), "process %" PRIu64, pid);
		ctl_denied(text, "CAP_SYS_PTRACE");
	}
	if (pid && !n_contexts) {
		add_processes();
		for (i = 0; i < n_contexts; i++) {
			snprintf(text, sizeof(text), "%d", contexts[i].pid);
			if (!i || contexts[i].pid != contexts[i - 1].pid)
				ctl_add_name(&there, text);
		}
		ctl_die(CTL_FAILED, "%s %" PRIu64 "%s (processes with contexts: %s)",
			error ? "no process" : "process", pid, error ? "" : " has no context",
			there ?: "none that you may look at");
	}
	if (n_contexts)
		qsort(contexts, n_contexts, sizeof(*contexts), by_pid);
	*n = n_contexts;
	return contexts;
}

static void json_line(const struct ctl_line *line)
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

static void json_contexts(void)
{
	unsigned int i, k;

	ctl_json_open("contexts", '[');
	for (i = 0; i < n_contexts; i++) {
		const struct ctl_context *c = &contexts[i];

		ctl_json_open(NULL, '{');
		ctl_json_number("pid", c->pid);
		ctl_json_number("fd", c->fd);
		for (k = 0; k < c->n_lines; k++)
			json_line(&c->lines[k]);
		ctl_json_close('}');
	}
	ctl_json_close(']');
}

static void show_contexts(void)
{
	unsigned int i;

	for (i = 0; i < n_contexts; i++) {
		printf("process %d, descriptor %d\n", contexts[i].pid, contexts[i].fd);
		print_lines(contexts[i].lines, contexts[i].n_lines);
	}
}

static void print_stat(const struct ctl_wheels *wheels)
{
	unsigned int i;

	for (i = 0; i < wheels->n; i++) {
		if (i)
			putchar('\n');
		show_wheel(&wheels->wheels[i]);
	}
	if (wheels->n && n_contexts)
		putchar('\n');
	show_contexts();
}

static void json_stat(const struct ctl_wheels *wheels)
{
	unsigned int i;

	ctl_json_open(NULL, '{');
	ctl_json_open("wheels", '[');
	for (i = 0; i < wheels->n; i++)
		json_wheel(&wheels->wheels[i]);
	ctl_json_close(']');
	json_contexts();
	ctl_json_close('}');
	ctl_json_end();
}

static int run_stat(struct ctl_args *args)
{
	struct ctl_wheels wheels = { 0 };
	unsigned int n_names = 0, n;
	int error;
	bool json = false, hidden = false;
	const char *word, *needs;
	uint64_t pid = 0;
	const struct ctl_option options[] = {
		{ "json", 0, CTL_FLAG, &json, 0, 0 },
		{ "pid", 'p', CTL_NUMBER, &pid, 1, INT32_MAX },
	};
	char **names = ctl_alloc(args->argc, sizeof(*names));

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	while ((word = ctl_next_word(args)))
		names[n_names++] = (char *)word;
	if (n_names || !pid) {
		error = read_wheels(&wheels, &needs);
		/* Who sees no wheels may have contexts. */
		hidden = !n_names && (error == EACCES || error == EPERM) && geteuid();
		if (error && !hidden)
			device_failed(error, needs);
	}
	if (n_names)
		must_keep(&wheels, names, n_names);
	if (pid || !n_names)
		ctl_contexts(pid, &n);
	(json ? json_stat : print_stat)(&wheels);
	if (hidden)
		fputs("hwtimerctl stat: wheels of kernel modules are for root "
		      "(sudo hwtimerctl stat)\n", stderr);
	ctl_wheels_free(&wheels);
	free(names);
	return CTL_OK;
}

const struct ctl_command ctl_stat = {
	.name = "stat",
	.summary = "the counters of kernel modules' wheels, and the contexts of programs",
	.help = "stat [--json] [--pid PID] [WHEEL]...\n\n"
		"Show the counters and the lateness of wheels of kernel modules, which needs\n"
		"CAP_PERFMON, and the contexts of a process: its descriptors of the device.\n"
		"Without WHEEL or PID: all wheels, and all contexts, that you may look at.\n\n"
		"  -p, --pid PID  the contexts of this process\n"
		"  --json         a JSON object, {\"wheels\": [...], \"contexts\": [...]}\n"
		"  -h, --help     print this help\n",
	.run = run_stat,
};
