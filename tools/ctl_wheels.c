// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl stat, and reading wheels from debugfs. Its lines are "name value"; lines with unknown
 * names are shown unchanged.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

#define BELOW	"late_below_"
#define ABOVE	"late_above"

static const char *const counter_names[CTL_COUNTERS] = {
	[CTL_PENDING] = "pending", [CTL_ARMED] = "armed", [CTL_TOUCHED] = "touched",
	[CTL_CANCELLED] = "cancelled", [CTL_EXPIRED] = "expired", [CTL_KICKS] = "kicks",
	[CTL_WAKEUPS] = "wakeups",
};

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

bool ctl_is_number(const char *text)
{
	text += *text == '-';
	errno = 0;
	strtoull(text, NULL, 10);
	return *text && !text[strspn(text, "0123456789")] && !errno;
}

/* One line of the statistics. */
static void take_line(struct ctl_wheel *wheel, const char *name, const char *value)
{
	uint64_t number = strtoull(value, NULL, 10);
	unsigned int i;

	if (!strncmp(name, BELOW, strlen(BELOW)) || !strcmp(name, ABOVE)) {
		if (wheel->n_bins == CTL_MAX_BINS)
			return;
		wheel->late[wheel->n_bins] = number;
		if (strcmp(name, ABOVE))
			wheel->bound_ns[wheel->n_bins] =
				strtoull(name + strlen(BELOW), NULL, 10) * NSEC_PER_USEC;
		wheel->n_bins++;
		return;
	}
	for (i = 0; i < CTL_COUNTERS; i++)
		if (!strcmp(name, counter_names[i]))
			wheel->counters[i] = number;
	if (wheel->n_lines < CTL_MAX_LINES)
		wheel->lines[wheel->n_lines++] = (struct ctl_line){ name, value };
}

static void parse(struct ctl_wheel *wheel)
{
	char *line, *value, *next = wheel->text;

	while ((line = strsep(&next, "\n"))) {
		value = strchr(line, ' ');
		if (!value)
			continue;
		*value++ = 0;
		take_line(wheel, line, value);
	}
}

static bool wanted(const char *name, char *const names[], unsigned int n)
{
	unsigned int i;

	if (name[0] == '.')
		return false;
	for (i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return true;
	return !n;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct ctl_wheel *)a)->name, ((const struct ctl_wheel *)b)->name);
}

static _Noreturn void no_directory(const char *debugfs, const char *path)
{
	struct statfs fs;

	switch (errno) {
	case EACCES:
	case EPERM:
		ctl_die(CTL_NO_RIGHTS, "%s: %s (debugfs is for root)", path, strerror(errno));
	case ENOENT:
		if (!strcmp(debugfs, CTL_DEBUGFS) &&
		    (statfs(debugfs, &fs) || fs.f_type != DEBUGFS_MAGIC))
			ctl_die(CTL_FAILED,
				"%s: not mounted; as root: mount -t debugfs none %s",
				debugfs, debugfs);
		ctl_die(CTL_NO_DEVICE,
			"%s: not found; is the module loaded? (modprobe hwtimer)",
			path);
	default:
		ctl_die(CTL_FAILED, "%s: %s", path, strerror(errno));
	}
}

/*
 * Read all wheels, or those named. A wheel that disappears meanwhile is left out.
 */
void ctl_wheels_read(struct ctl_wheels *wheels, const char *debugfs, char *const names[],
		     unsigned int n_names)
{
	char root[4096], path[300], *text;
	struct ctl_wheel *wheel;
	struct dirent *entry;
	unsigned int room = 0;
	DIR *dir;

	*wheels = (struct ctl_wheels){ 0 };
	if (snprintf(root, sizeof(root), "%s/hwtimer", debugfs) >= (int)sizeof(root))
		ctl_misuse("--debugfs: too long");
	dir = opendir(root);
	if (!dir)
		no_directory(debugfs, root);
	while ((entry = readdir(dir))) {
		if (!wanted(entry->d_name, names, n_names))
			continue;
		snprintf(path, sizeof(path), "%s/stats", entry->d_name);
		text = slurp(dirfd(dir), path);
		if (!text && (errno == EACCES || errno == EPERM))
			ctl_die(CTL_NO_RIGHTS,
				"%s/%s: %s (a locked-down kernel does not allow debugfs)",
				root, path, strerror(errno));
		if (!text && errno != ENOENT && errno != ENOTDIR && errno != EIO)
			ctl_die(CTL_FAILED, "%s/%s: %s", root, path, strerror(errno));
		if (!text)
			continue;
		if (wheels->n == room) {
			room = room ? 2 * room : 8;
			wheels->wheels = realloc(wheels->wheels, room * sizeof(*wheel));
			if (!wheels->wheels)
				ctl_die(CTL_FAILED, "out of memory");
		}
		wheel = &wheels->wheels[wheels->n++];
		*wheel = (struct ctl_wheel){ .name = strdup(entry->d_name), .text = text };
		if (!wheel->name)
			ctl_die(CTL_FAILED, "out of memory");
		parse(wheel);
	}
	closedir(dir);
	wheels->taken_ns = ctl_clock(CLOCK_MONOTONIC);
	if (wheels->n)
		qsort(wheels->wheels, wheels->n, sizeof(*wheel), by_name);
}

void ctl_wheels_free(struct ctl_wheels *wheels)
{
	unsigned int i;

	for (i = 0; i < wheels->n; i++) {
		free(wheels->wheels[i].name);
		free(wheels->wheels[i].text);
	}
	free(wheels->wheels);
	*wheels = (struct ctl_wheels){ 0 };
}

/* Returns NULL if it is not among them. */
const struct ctl_wheel *ctl_wheels_find(const struct ctl_wheels *wheels, const char *name)
{
	unsigned int i;

	for (i = 0; i < wheels->n; i++)
		if (!strcmp(wheels->wheels[i].name, name))
			return &wheels->wheels[i];
	return NULL;
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
void ctl_print_late(FILE *to, const uint64_t *late, const uint64_t *bound_ns, unsigned int n,
		    int columns)
{
	unsigned int first = n, last = 0, i;
	uint64_t most = 0;
	int room, bar;

	for (i = 0; i < n; i++) {
		if (!late[i])
			continue;
		first = first < i ? first : i;
		last = i;
		most = late[i] > most ? late[i] : most;
	}
	for (i = first; i <= last && first < n; i++) {
		fputs(bound_ns[i] ? "  below " : "  above ", to);
		if (bound_ns[i] || i) {
			char text[32];
			FILE *bound = fmemopen(text, sizeof(text), "w");

			if (!bound)
				ctl_die(CTL_FAILED, "out of memory");
			ctl_print_ns(bound, bound_ns[i] ?: bound_ns[i - 1]);
			fclose(bound);
			fprintf(to, "%-8s", text);
		}
		fprintf(to, " %10" PRIu64 " ", late[i]);
		room = columns > 40 ? columns - 28 : 12;
		bar = late[i] * (double)room / most + 0.5;
		for (bar = late[i] && !bar ? 1 : bar; bar > 0; bar--)
			fputc('#', to);
		fputc('\n', to);
	}
}

void ctl_json_late(const uint64_t *late, const uint64_t *bound_ns, unsigned int n)
{
	unsigned int i;

	ctl_json_open("late", '[');
	for (i = 0; i < n; i++) {
		ctl_json_open(NULL, '{');
		if (bound_ns[i])
			ctl_json_number("below_ns", bound_ns[i]);
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
		if (!strcmp(lines[i].name, "name") || !ctl_is_number(lines[i].value))
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

static void show_wheel(const struct ctl_wheel *wheel)
{
	const char *on = ctl_colours() ? "\033[1m" : "", *off = *on ? "\033[0m" : "";
	uint64_t all = 0;
	unsigned int i;

	printf("%swheel ", on);
	ctl_print_word(stdout, wheel->name, 0);
	printf("%s\n", off);
	/* The first line is the name, which was printed. */
	i = wheel->n_lines && !strcmp(wheel->lines[0].name, "name");
	print_lines(wheel->lines + i, wheel->n_lines - i);
	for (i = 0; i < wheel->n_bins; i++)
		all += wheel->late[i];
	printf("late: %" PRIu64 " expiries%s\n", all, all ? ", after their deadlines" : "");
	ctl_print_late(stdout, wheel->late, wheel->bound_ns, wheel->n_bins, stdout_columns());
}

static void json_wheels(const struct ctl_wheels *wheels)
{
	unsigned int i;

	ctl_json_open("wheels", '[');
	for (i = 0; i < wheels->n; i++) {
		const struct ctl_wheel *wheel = &wheels->wheels[i];

		ctl_json_open(NULL, '{');
		json_lines(wheel->lines, wheel->n_lines);
		ctl_json_late(wheel->late, wheel->bound_ns, wheel->n_bins);
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
	const char *word, *debugfs = CTL_DEBUGFS;
	unsigned int n_contexts = 0, n_names = 0, i;
	uint64_t pid = 0;
	bool json = false;
	const struct ctl_option options[] = {
		{ "json", 0, CTL_FLAG, &json, 0, 0 },
		{ "pid", 'p', CTL_NUMBER, &pid, 1, INT32_MAX },
		{ "debugfs", 0, CTL_TEXT, &debugfs, 0, 0 },
	};
	char **names = ctl_alloc(args->argc, sizeof(*names));

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	while ((word = ctl_next_word(args)))
		names[n_names++] = (char *)word;
	if (n_names || !pid)
		ctl_wheels_read(&wheels, debugfs, names, n_names);
	for (i = 0; i < n_names; i++)
		if (!ctl_wheels_find(&wheels, names[i]))
			ctl_die(CTL_FAILED, "no wheel '%s' in %s/hwtimer", names[i],
				debugfs);
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
	.help = "stat [--json] [--debugfs DIR] [WHEEL]...\n"
		"       hwtimerctl stat [--json] --pid PID [WHEEL]...\n\n"
		"Show the configuration, counters and lateness of all wheels, or of those\n"
		"named. \"uid-1000\" is the first wheel that contexts of uid 1000 share, \"dev\"\n"
		"that of root in the root cgroup. Requires root and debugfs.\n\n"
		"  -p, --pid PID  the contexts of a process: its descriptors of the device\n"
		"  --json         a JSON object, {\"wheels\": [...], \"contexts\": [...]}\n"
		"  --debugfs DIR  where debugfs is mounted (default: " CTL_DEBUGFS ")\n"
		"  -h, --help     print this help\n",
	.run = run_stat,
};
