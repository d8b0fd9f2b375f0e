// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl stat, and reading the statistics of wheels.
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

#define FIELD(_name, _kind, ...)							\
	{ .name = #_name, .kind = _kind,						\
	  .offset = offsetof(struct hwtimer_wheel_stats, _name), ##__VA_ARGS__ }
#define FIELD_AS(_name, _field, _kind, ...)						\
	{ .name = _name, .kind = _kind,							\
	  .offset = offsetof(struct hwtimer_wheel_stats, _field), ##__VA_ARGS__ }

/* All but the lateness, in the order in which they are shown. */
const struct ctl_field ctl_fields[] = {
	FIELD(name, CTL_NAME),
	FIELD_AS("clock", clockid, CTL_WORD, .words = {
		[CLOCK_MONOTONIC] = "monotonic", [CLOCK_BOOTTIME] = "boottime" }),
	FIELD(worker_pid, CTL_SIGNED_32),
	FIELD_AS("worker_sched", sched, CTL_WORD, .words = {
		[HWTIMER_WHEEL_SCHED_NORMAL] = "normal",
		[HWTIMER_WHEEL_SCHED_FIFO_LOW] = "fifo_low",
		[HWTIMER_WHEEL_SCHED_FIFO] = "fifo" }),
	FIELD(worker_nice, CTL_SIGNED_32),
	FIELD(tick_ns, CTL_GAUGE, .help = "Length of a tick, the usual lateness at most"),
	FIELD(slots, CTL_GAUGE_32, .help = "Slots per level"),
	FIELD(levels, CTL_GAUGE_32, .help = "How many levels there are"),
	FIELD(cap, CTL_GAUGE, .metric = "pending_limit",
	      .help = "How many timeouts may be pending at once, 0 for no limit"),
	FIELD(state, CTL_WORD, .words = {
		[HWTIMER_WHEEL_STATE_INIT] = "INIT", [HWTIMER_WHEEL_STATE_STARTED] = "STARTED",
		[HWTIMER_WHEEL_STATE_SHUTDOWN] = "SHUTDOWN" }),
	FIELD(pending, CTL_GAUGE, .help = "Timeouts that are pending now"),
	FIELD(armed, CTL_COUNTER, .help = "Timeouts that became pending"),
	FIELD(touched, CTL_COUNTER, .help = "Pending timeouts that got another deadline"),
	FIELD(cancelled, CTL_COUNTER, .help = "Pending timeouts that were cancelled or released"),
	FIELD(expired, CTL_COUNTER, .help = "Pending timeouts that expired"),
	FIELD(handed_back, CTL_COUNTER, .help = "Pending timeouts that a stop handed back"),
	FIELD(rejected, CTL_COUNTER, .help = "Attempts to arm that the limit refused"),
	FIELD(wakeups, CTL_COUNTER, .help = "How often the worker woke from sleep"),
	FIELD(long_callbacks, CTL_COUNTER,
	      .help = "Callbacks that took longer than the parameter callback_limit_us"),
	FIELD(longest_callback_ns, CTL_GAUGE, .help = "Duration of the longest callback so far"),
	FIELD(lateness_sum_ns, CTL_COUNTER),
};

const unsigned int ctl_n_fields = ARRAY_SIZE(ctl_fields);

/* Returns the contents of a file, to be freed, or NULL with errno. */
static char *slurp(int dir, const char *path)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC), error;
	size_t size = 0, room = 4096;
	char *text, *more;
	ssize_t len;

	if (fd < 0)
		return NULL;
	text = ctl_alloc(1, room);
	while ((len = read(fd, text + size, room - size - 1)) > 0) {
		size += len;
		if (room - size < 2) {
			more = realloc(text, room *= 2);
			if (!more)
				ctl_die(CTL_FAILED, "out of memory");
			text = more;
		}
	}
	error = errno;
	close(fd);
	if (len < 0) {
		free(text);
		errno = error;
		return NULL;
	}
	text[size] = 0;
	return text;
}

static bool is_number(const char *text)
{
	text += *text == '-';
	errno = 0;
	strtoull(text, NULL, 10);
	return *text && !text[strspn(text, "0123456789")] && !errno;
}

/* As text; "-" if there is none. */
void ctl_format_field(const struct hwtimer_wheel_stats *wheel, const struct ctl_field *field,
		      char *text, size_t size)
{
	const char *value = (const char *)wheel + field->offset;
	uint64_t number;
	uint32_t word;

	memcpy(&number, value, sizeof(number));
	memcpy(&word, value, sizeof(word));
	switch (field->kind) {
	case CTL_NAME:
		snprintf(text, size, "%s", *value ? value : "-");
		break;
	case CTL_WORD:
		/* The kernel may be newer. */
		if (word < ARRAY_SIZE(field->words) && field->words[word])
			snprintf(text, size, "%s", field->words[word]);
		else
			snprintf(text, size, "unknown-%" PRIu32, word);
		break;
	case CTL_SIGNED_32:
		snprintf(text, size, "%" PRId32, (int32_t)word);
		break;
	case CTL_GAUGE_32:
		snprintf(text, size, "%" PRIu32, word);
		break;
	default:
		snprintf(text, size, "%" PRIu64, number);
	}
}

/* The lateness that the expiries in a bin are below; 0: any, as it is the last one. */
uint64_t ctl_late_bound(const struct hwtimer_wheel_stats *wheel, unsigned int bin)
{
	return bin + 1 < wheel->late_bins ? wheel->late_first_ns << bin : 0;
}

static bool wanted(const char *name, char *const names[], unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return true;
	return !n;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct hwtimer_wheel_stats *)a)->name,
		      ((const struct hwtimer_wheel_stats *)b)->name);
}

/* Read all wheels that we may see, or those named. */
void ctl_wheels_read(struct ctl_wheels *wheels, const char *device, char *const names[],
		     unsigned int n_names)
{
	struct hwtimer_wheel_stats *page = ctl_alloc(PAGE, sizeof(*page));
	struct hwtimer_wheels arg = {
		.size = sizeof(*page), .wheels = (uintptr_t)page, .count = PAGE,
	};
	int fd = ctl_open_to_read(device), n, i;

	*wheels = (struct ctl_wheels){ 0 };
	while ((n = ioctl(fd, HWTIMER_IOC_WHEELS, &arg)) > 0) {
		wheels->wheels = realloc(wheels->wheels, (wheels->n + n) * sizeof(*page));
		if (!wheels->wheels)
			ctl_die(CTL_FAILED, "out of memory");
		for (i = 0; i < n; i++) {
			if (page[i].late_bins > CTL_MAX_BINS)
				page[i].late_bins = CTL_MAX_BINS;
			if (wanted(page[i].name, names, n_names))
				wheels->wheels[wheels->n++] = page[i];
		}
	}
	if (n)
		ctl_device_error(device, -errno);
	close(fd);
	free(page);
	wheels->taken_ns = ctl_clock(CLOCK_MONOTONIC);
	if (wheels->n)
		qsort(wheels->wheels, wheels->n, sizeof(*page), by_name);
}

void ctl_wheels_free(struct ctl_wheels *wheels)
{
	free(wheels->wheels);
	*wheels = (struct ctl_wheels){ 0 };
}

/* Returns NULL if it is not among them. */
const struct hwtimer_wheel_stats *ctl_wheels_find(const struct ctl_wheels *wheels,
						  const char *name)
{
	unsigned int i;

	for (i = 0; i < wheels->n; i++)
		if (!strcmp(wheels->wheels[i].name, name))
			return &wheels->wheels[i];
	return NULL;
}

/* Exit because there is no such wheel, or because it belongs to somebody else. */
void ctl_no_wheel(const char *name)
{
	ctl_die(CTL_FAILED, "no wheel '%s' (those of others need CAP_PERFMON)", name);
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
void ctl_print_late(FILE *to, const __u64 *late, const struct hwtimer_wheel_stats *bounds,
		    int columns)
{
	unsigned int n = bounds->late_bins;
	unsigned int first = n, last = 0, i;
	uint64_t most = 0, bound;
	int room, bar;

	for (i = 0; i < n; i++) {
		if (!late[i])
			continue;
		first = first < i ? first : i;
		last = i;
		most = late[i] > most ? late[i] : most;
	}
	for (i = first; i <= last && first < n; i++) {
		bound = ctl_late_bound(bounds, i);
		fputs(bound ? "  below " : "  above ", to);
		if (bound || i) {
			char text[32];
			FILE *number = fmemopen(text, sizeof(text), "w");

			if (!number)
				ctl_die(CTL_FAILED, "out of memory");
			ctl_print_ns(number, bound ?: ctl_late_bound(bounds, i - 1));
			fclose(number);
			fprintf(to, "%-8s", text);
		}
		fprintf(to, " %10" PRIu64 " ", (uint64_t)late[i]);
		room = columns > 40 ? columns - 28 : 12;
		bar = late[i] * (double)room / most + 0.5;
		for (bar = late[i] && !bar ? 1 : bar; bar > 0; bar--)
			fputc('#', to);
		fputc('\n', to);
	}
}

void ctl_json_late(const __u64 *late, const struct hwtimer_wheel_stats *bounds)
{
	uint64_t bound;
	unsigned int i;

	ctl_json_open("late", '[');
	for (i = 0; i < bounds->late_bins; i++) {
		bound = ctl_late_bound(bounds, i);
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

static void json_lines(const struct ctl_line *lines, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		/* A wheel's name may be a number. */
		if (!strcmp(lines[i].name, "name") || !is_number(lines[i].value))
			ctl_json_text(lines[i].name, lines[i].value);
		else if (lines[i].value[0] == '-')
			ctl_json_signed(lines[i].name, strtoll(lines[i].value, NULL, 10));
		else
			ctl_json_number(lines[i].name, strtoull(lines[i].value, NULL, 10));
	}
}

/* "name value", in two columns. */
static void print_lines(const struct ctl_line *lines, unsigned int n)
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

/* The fields of a wheel as lines, whose values are in @texts. */
static unsigned int make_lines(const struct hwtimer_wheel_stats *wheel, struct ctl_line *lines,
			       char (*texts)[128])
{
	unsigned int i, n = 0;

	for (i = 0; i < ctl_n_fields; i++) {
		ctl_format_field(wheel, &ctl_fields[i], texts[n], sizeof(texts[n]));
		lines[n] = (struct ctl_line){ ctl_fields[i].name, texts[n] };
		n++;
	}
	return n;
}

static void show_wheel(const struct hwtimer_wheel_stats *wheel)
{
	const char *on = ctl_colours() ? "\033[1m" : "", *off = *on ? "\033[0m" : "";
	struct ctl_line lines[ARRAY_SIZE(ctl_fields)];
	char texts[ARRAY_SIZE(ctl_fields)][128];
	unsigned int n = make_lines(wheel, lines, texts), i;
	uint64_t all = 0;

	printf("%swheel ", on);
	ctl_print_word(stdout, wheel->name, 0);
	printf("%s\n", off);
	/* The first line is the name, which was printed. */
	print_lines(lines + 1, n - 1);
	for (i = 0; i < wheel->late_bins; i++)
		all += wheel->late[i];
	printf("late: %" PRIu64 " expiries%s\n", all, all ? ", after their deadlines" : "");
	ctl_print_late(stdout, wheel->late, wheel, stdout_columns());
}

static void json_wheels(const struct ctl_wheels *wheels)
{
	struct ctl_line lines[ARRAY_SIZE(ctl_fields)];
	char texts[ARRAY_SIZE(ctl_fields)][128];
	unsigned int i;

	ctl_json_open("wheels", '[');
	for (i = 0; i < wheels->n; i++) {
		const struct hwtimer_wheel_stats *wheel = &wheels->wheels[i];

		ctl_json_open(NULL, '{');
		json_lines(lines, make_lines(wheel, lines, texts));
		ctl_json_late(wheel->late, wheel);
		ctl_json_close('}');
	}
	ctl_json_close(']');
}

/* A context: a descriptor of a process, and the lines of its fdinfo. */
struct context {
	int fd;
	char *text;
	struct ctl_line lines[CTL_MAX_LINES];
	unsigned int n_lines;
};

/* Is this a line that the fdinfo of every file has? */
static bool of_any_file(const char *name)
{
	static const char *const names[] = { "pos", "flags", "mnt_id", "ino" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Returns false if it is not a context. */
static bool parse_context(struct context *c)
{
	char *line, *value, *next = c->text;
	bool is_one = false;

	c->n_lines = 0;
	while ((line = strsep(&next, "\n"))) {
		value = strchr(line, ':');
		if (!value || c->n_lines == CTL_MAX_LINES)
			continue;
		*value++ = 0;
		value += strspn(value, " \t");
		is_one |= !strcmp(line, "own_wheel");
		if (!of_any_file(line))
			c->lines[c->n_lines++] = (struct ctl_line){ line, value };
	}
	return is_one;
}

static int by_fd(const void *a, const void *b)
{
	return ((const struct context *)a)->fd - ((const struct context *)b)->fd;
}

/* Returns the contexts of a process, to be freed by the caller. */
static struct context *read_contexts(uint64_t pid, unsigned int *n)
{
	struct context *contexts = NULL;
	struct dirent *entry;
	unsigned int room = 0;
	char path[64], *text;
	DIR *dir;

	*n = 0;
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fdinfo", pid);
	dir = opendir(path);
	if (!dir && errno == ENOENT)
		ctl_die(CTL_FAILED, "--pid: no process %" PRIu64, pid);
	while (dir && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		text = slurp(dirfd(dir), entry->d_name);
		if (!text && (errno == EACCES || errno == EPERM))
			break;
		if (!text)
			continue;
		if (*n == room) {
			room = room ? 2 * room : 8;
			contexts = realloc(contexts, room * sizeof(*contexts));
			if (!contexts)
				ctl_die(CTL_FAILED, "out of memory");
		}
		contexts[*n] = (struct context){ .fd = atoi(entry->d_name), .text = text };
		if (parse_context(&contexts[*n]))
			(*n)++;
		else
			free(text);
	}
	if (!dir || entry)
		ctl_die(errno == EACCES || errno == EPERM ? CTL_NO_RIGHTS : CTL_FAILED,
			"--pid: %s: %s", path, strerror(errno));
	closedir(dir);
	if (*n)
		qsort(contexts, *n, sizeof(*contexts), by_fd);
	return contexts;
}

/* Returns the descriptors of a process that are contexts, to be freed. */
int *ctl_contexts(uint64_t pid, unsigned int *n)
{
	struct context *contexts = read_contexts(pid, n);
	int *fds = ctl_alloc(*n, sizeof(*fds));
	unsigned int i;

	for (i = 0; i < *n; i++) {
		fds[i] = contexts[i].fd;
		free(contexts[i].text);
	}
	free(contexts);
	return fds;
}

static void json_contexts(uint64_t pid, const struct context *contexts, unsigned int n)
{
	unsigned int i;

	ctl_json_open("contexts", '[');
	for (i = 0; i < n; i++) {
		ctl_json_open(NULL, '{');
		ctl_json_number("pid", pid);
		ctl_json_number("fd", contexts[i].fd);
		json_lines(contexts[i].lines, contexts[i].n_lines);
		ctl_json_close('}');
	}
	ctl_json_close(']');
}

static void show_contexts(uint64_t pid, const struct context *contexts, unsigned int n)
{
	unsigned int i;

	if (!n)
		printf("process %" PRIu64 " has no context\n", pid);
	for (i = 0; i < n; i++) {
		printf("process %" PRIu64 ", descriptor %d\n", pid, contexts[i].fd);
		print_lines(contexts[i].lines, contexts[i].n_lines);
	}
}

static int run_stat(struct ctl_args *args)
{
	struct context *contexts = NULL;
	struct ctl_wheels wheels = { 0 };
	const char *word, *device = CTL_DEVICE;
	unsigned int n_contexts = 0, n_names = 0, i;
	uint64_t pid = 0;
	bool json = false;
	const struct ctl_option options[] = {
		{ "json", 0, CTL_FLAG, &json, 0, 0 },
		{ "pid", 'p', CTL_NUMBER, &pid, 1, INT32_MAX },
		{ "device", 0, CTL_TEXT, &device, 0, 0 },
	};
	char **names = ctl_alloc(args->argc, sizeof(*names));

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	while ((word = ctl_next_word(args)))
		names[n_names++] = (char *)word;
	if (n_names || !pid)
		ctl_wheels_read(&wheels, device, names, n_names);
	for (i = 0; i < n_names; i++)
		if (!ctl_wheels_find(&wheels, names[i]))
			ctl_no_wheel(names[i]);
	if (pid)
		contexts = read_contexts(pid, &n_contexts);

	if (json) {
		ctl_json_open(NULL, '{');
		json_wheels(&wheels);
		json_contexts(pid, contexts, n_contexts);
		ctl_json_close('}');
		ctl_json_end();
	} else {
		for (i = 0; i < wheels.n; i++) {
			if (i)
				putchar('\n');
			show_wheel(&wheels.wheels[i]);
		}
		if (pid)
			show_contexts(pid, contexts, n_contexts);
	}
	for (i = 0; i < n_contexts; i++)
		free(contexts[i].text);
	free(contexts);
	ctl_wheels_free(&wheels);
	free(names);
	return CTL_OK;
}

const struct ctl_command ctl_stat = {
	.name = "stat",
	.summary = "the state and counters of wheels, and the contexts of a process",
	.help = "stat [--json] [--device PATH] [WHEEL]...\n"
		"       hwtimerctl stat [--json] --pid PID [WHEEL]...\n\n"
		"Show the configuration, counters and lateness of all wheels, or of those\n"
		"named. \"uid-1000\" is the first wheel that contexts of uid 1000 share, \"dev\"\n"
		"that of root in the root cgroup. Without CAP_PERFMON it shows only the wheels\n"
		"that your programs use.\n\n"
		"  -p, --pid PID  the contexts of a process: its descriptors of the device\n"
		"  --json         a JSON object, {\"wheels\": [...], \"contexts\": [...]}\n"
		"  --device PATH  the device (default: " CTL_DEVICE ")\n"
		"  -h, --help     print this help\n",
	.run = run_stat,
};
