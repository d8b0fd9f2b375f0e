// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl top: the rates of wheels.
 *
 * It reads the counters periodically, and waits on the system's clock, not on a wheel, so that it
 * does not change what it shows.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

#define MIN_DELAY	(10 * NSEC_PER_MSEC)
#define MAX_DELAY	(86400 * NSEC_PER_SEC)

/* Counters whose rates are shown, in this order. */
static const struct {
	size_t offset;		/* in struct hwtimer_wheel_info */
	const char *title, *key;
} rates[] = {
	{ offsetof(struct hwtimer_wheel_info, armed), "ARM/s", "armed_per_s" },
	{ offsetof(struct hwtimer_wheel_info, touched), "TOUCH/s", "touched_per_s" },
	{ offsetof(struct hwtimer_wheel_info, cancelled), "CANCEL/s", "cancelled_per_s" },
	{ offsetof(struct hwtimer_wheel_info, expired), "EXPIRE/s", "expired_per_s" },
};

static struct {
	char **names;
	unsigned int n_names;
	uint64_t delay_ns, iterations;
	bool json, screen;
	struct ctl_wheels before, now;
	bool compared;		/* @before is valid */

	/* the terminal */
	int signals;
	int keys;		/* -1: stdin is no terminal */
	bool taken;		/* the terminal is in our mode */
	struct termios old;
} top;

/* The increase. A new wheel, or another one with the same name, began at 0. */
static uint64_t grown(uint64_t before, uint64_t now)
{
	return now >= before ? now - before : now;
}

static double per_second(const struct hwtimer_wheel_info *before,
			 const struct hwtimer_wheel_info *now, size_t offset)
{
	double seconds = (top.now.taken_ns - top.before.taken_ns) / 1e9;

	return grown(before ? ctl_value(before, offset) : 0, ctl_value(now, offset)) / seconds;
}

static void add_late(__u64 *late, const struct hwtimer_wheel_info *before,
		     const struct hwtimer_wheel_info *now)
{
	unsigned int i;

	for (i = 0; i < HWTIMER_LATE; i++)
		late[i] += grown(before ? before->late[i] : 0, now->late[i]);
}

static void take_sample(void)
{
	ctl_wheels_free(&top.before);
	top.before = top.now;
	ctl_wheels_read(&top.now, top.names, top.n_names);
}

static void print_rates(FILE *to, const struct hwtimer_wheel_info *before,
			const struct hwtimer_wheel_info *now)
{
	unsigned int i;
	double rate;

	fprintf(to, " %9" PRIu64, (uint64_t)now->pending);
	for (i = 0; i < ARRAY_SIZE(rates); i++) {
		if (!top.compared) {
			fprintf(to, " %8s", "-");
			continue;
		}
		rate = per_second(before, now, rates[i].offset);
		fprintf(to, rate > 0 && rate < 99.95 ? " %8.1f" : " %8.0f", rate);
	}
}

static void json_rates(const struct hwtimer_wheel_info *before,
		       const struct hwtimer_wheel_info *now)
{
	__u64 late[HWTIMER_LATE] = { 0 };
	unsigned int i;

	ctl_json_text("name", now->name);
	ctl_json_number("pending", now->pending);
	for (i = 0; i < ARRAY_SIZE(rates); i++)
		ctl_json_real(rates[i].key, per_second(before, now, rates[i].offset));
	add_late(late, before, now);
	ctl_json_late(late);
}

static void show_json(void)
{
	unsigned int i;
	char time[64];

	ctl_json_open(NULL, '{');
	ctl_json_text("time", ctl_wall_time(time, sizeof(time)));
	ctl_json_real("interval_s", (top.now.taken_ns - top.before.taken_ns) / 1e9);
	ctl_json_open("wheels", '[');
	for (i = 0; i < top.now.n; i++) {
		const struct hwtimer_wheel_info *now = &top.now.wheels[i];

		ctl_json_open(NULL, '{');
		json_rates(ctl_wheels_find(&top.before, now->name), now);
		ctl_json_close('}');
	}
	ctl_json_close(']');
	ctl_json_close('}');
	ctl_json_end();
}

/* The contents of the screen, or a block, with at most @most wheels. */
static void print_block(FILE *to, unsigned int most, int columns)
{
	__u64 late[HWTIMER_LATE] = { 0 };
	uint64_t all = 0;
	unsigned int i;
	char time[64];

	fprintf(to, "hwtimer %s, wheels: %u, interval: ", ctl_wall_time(time, sizeof(time)),
		top.now.n);
	ctl_print_ns(to, top.compared ? top.now.taken_ns - top.before.taken_ns : top.delay_ns);
	fprintf(to, "\n%-15s %9s", "WHEEL", "PENDING");
	for (i = 0; i < ARRAY_SIZE(rates); i++)
		fprintf(to, " %8s", rates[i].title);
	fputc('\n', to);
	for (i = 0; i < top.now.n; i++) {
		const struct hwtimer_wheel_info *now = &top.now.wheels[i];
		const struct hwtimer_wheel_info *before = ctl_wheels_find(&top.before, now->name);

		if (top.compared)
			add_late(late, before, now);
		if (i >= most)
			continue;
		ctl_print_word(to, now->name, 15);
		print_rates(to, before, now);
		fputc('\n', to);
	}
	if (top.now.n > most)
		fprintf(to, "and %u more\n", top.now.n - most);
	for (i = 0; i < HWTIMER_LATE; i++)
		all += late[i];
	fprintf(to, "late, in this interval: %" PRIu64 " expiries\n", all);
	ctl_print_late(to, late, columns);
}

static void put(const char *text)
{
	fputs(text, stdout);
}

static void window(int *rows, int *columns)
{
	struct winsize size = { 0 };

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*rows = size.ws_row ?: 24;
	*columns = size.ws_col ?: 80;
}

/* Write the frame; exit if the terminal is gone, which may show before SIGHUP comes. */
static void flush_screen(void)
{
	struct pollfd fd = { .fd = STDOUT_FILENO };

	if ((fflush(stdout) || ferror(stdout)) && poll(&fd, 1, 0) == 1 && fd.revents & POLLHUP)
		exit(CTL_SIGNAL + SIGHUP);
	ctl_flush();
}

/* Cut each line to the window, and clear the rest of it, and the lines below the last one. */
static void draw(void)
{
	char *text = NULL, *line, *next;
	int rows, columns, most, row = 0;
	size_t size;
	FILE *frame;

	window(&rows, &columns);
	/* Leave room for the time, the titles, the line of those left out, and some bars. */
	most = rows > 16 ? rows - 12 : rows - 4;
	frame = open_memstream(&text, &size);
	if (!frame)
		ctl_die(CTL_FAILED, "out of memory");
	print_block(frame, most > 1 ? most : 1, columns);
	if (fclose(frame))
		ctl_die(CTL_FAILED, "out of memory");
	put("\033[H");
	next = text;
	while (row < rows && (line = strsep(&next, "\n")) && next) {
		if (row)
			put("\r\n");
		if (row == 1 && ctl_colours())
			printf("\033[7m%-*.*s\033[0m", columns, columns, line);
		else
			printf("%.*s", columns, line);
		/* In the last column this would erase the last character. */
		if ((int)strlen(line) < columns)
			put("\033[K");
		row++;
	}
	if (row < rows)
		put("\r\n\033[J");
	flush_screen();
	free(text);
}

/* The alternate screen, no cursor, keys without waiting for a line. ^C stays a signal. */
static void take_terminal(void)
{
	struct termios raw;

	if (top.keys >= 0 && !tcgetattr(top.keys, &top.old)) {
		raw = top.old;
		raw.c_lflag &= ~(ICANON | ECHO);
		raw.c_cc[VMIN] = 1;
		raw.c_cc[VTIME] = 0;
		tcsetattr(top.keys, TCSADRAIN, &raw);
	} else {
		top.keys = -1;
	}
	top.taken = true;
	put("\033[?1049h\033[?25l\033[H\033[2J");
	flush_screen();
}

/* Undo take_terminal(). Also at exit, where writing to stdout may be what failed. */
static void give_terminal_back(void)
{
	if (!top.taken)
		return;
	top.taken = false;
	put("\033[?25h\033[?1049l");
	fflush(stdout);
	if (top.keys >= 0)
		tcsetattr(top.keys, TCSADRAIN, &top.old);
}

static void catch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	top.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (top.signals < 0)
		ctl_die(CTL_FAILED, "signalfd: %s", strerror(errno));
}

/* Returns the signal to end by, or 0. */
static int read_signals(void)
{
	struct signalfd_siginfo info;

	while (read(top.signals, &info, sizeof(info)) == sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGWINCH:
			put("\033[2J");
			draw();
			break;
		case SIGTSTP:
			give_terminal_back();
			raise(SIGSTOP);
			take_terminal();
			draw();
			break;
		default:
			return info.ssi_signo;
		}
	}
	return 0;
}

/* Returns true for "q", and if the input has ended. */
static bool read_keys(void)
{
	char key;

	switch (read(top.keys, &key, 1)) {
	case 1:
		return key == 'q' || key == 'Q';
	case 0:
		return true;
	default:
		return errno != EINTR && errno != EAGAIN;
	}
}

/* With a screen, wait until @end. Returns -1, or the status to exit with before that. */
static int wait_on_screen(uint64_t end)
{
	struct pollfd fds[] = {
		{ .fd = top.signals, .events = POLLIN },
		{ .fd = top.keys, .events = POLLIN },
	};
	struct timespec left;
	uint64_t now;
	int sig;

	while ((now = ctl_clock(CLOCK_MONOTONIC)) < end) {
		left.tv_sec = (end - now) / NSEC_PER_SEC;
		left.tv_nsec = (end - now) % NSEC_PER_SEC;
		if (ppoll(fds, ARRAY_SIZE(fds), &left, NULL) < 0 && errno != EINTR)
			ctl_die(CTL_FAILED, "poll: %s", strerror(errno));
		sig = read_signals();
		if (sig)
			return CTL_SIGNAL + sig;
		/* The terminal is gone, which may show before SIGHUP comes. */
		if (fds[1].revents & POLLHUP)
			return CTL_SIGNAL + SIGHUP;
		if (fds[1].revents && read_keys())
			return CTL_OK;
	}
	return -1;
}

static void wait_until(uint64_t end)
{
	struct timespec ts = { .tv_sec = end / NSEC_PER_SEC, .tv_nsec = end % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* The time of the next sample, without drift. Missed ones are skipped. */
static uint64_t next_look(uint64_t last)
{
	uint64_t now = ctl_clock(CLOCK_MONOTONIC);

	return last + top.delay_ns > now ? last + top.delay_ns : now + top.delay_ns;
}

/* With a screen: rates are shown from the second sample on. */
static int top_on_screen(void)
{
	uint64_t look = ctl_clock(CLOCK_MONOTONIC), i;
	int status;

	top.keys = isatty(STDIN_FILENO) ? STDIN_FILENO : -1;
	catch_signals();
	atexit(give_terminal_back);
	ctl_leave_screen = give_terminal_back;
	take_terminal();
	for (i = 0; !top.iterations || i < top.iterations; i++) {
		draw();
		look = next_look(look);
		status = wait_on_screen(look);
		if (status >= 0)
			return status;
		take_sample();
		top.compared = true;
	}
	draw();
	return CTL_OK;
}

static void parse_args(struct ctl_args *args)
{
	static const struct ctl_option options[] = {
		{ "delay", 'd', CTL_DURATION, &top.delay_ns, MIN_DELAY, MAX_DELAY },
		{ "iterations", 'n', CTL_NUMBER, &top.iterations, 1, UINT64_MAX },
		{ "json", 0, CTL_FLAG, &top.json, 0, 0 },
	};
	const char *word;

	top.names = ctl_alloc(args->argc, sizeof(*top.names));
	top.delay_ns = NSEC_PER_SEC;
	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	while ((word = ctl_next_word(args)))
		top.names[top.n_names++] = (char *)word;
}

static int run_top(struct ctl_args *args)
{
	uint64_t look = ctl_clock(CLOCK_MONOTONIC), i;

	parse_args(args);
	ctl_wheels_must_read(&top.now, top.names, top.n_names);
	if (!top.json && ctl_on_terminal())
		return top_on_screen();

	top.compared = true;
	for (i = 0; !top.iterations || i < top.iterations; i++) {
		look = next_look(look);
		wait_until(look);
		take_sample();
		if (top.json) {
			show_json();
			continue;
		}
		if (i)
			putchar('\n');
		print_block(stdout, top.now.n, 80);
		ctl_flush();
	}
	return CTL_OK;
}

const struct ctl_command ctl_top = {
	.name = "top",
	.summary = "the rates of wheels, on the whole screen",
	.help = "top [-d SECONDS] [-n N] [--json] [WHEEL]...\n\n"
		"Show the rates per second of all wheels of kernel modules, or of those\n"
		"named, and a histogram of the lateness of their expiries in the last\n"
		"interval. \"q\" or ^C ends it. Without a terminal, print a block for each\n"
		"interval. Needs CAP_PERFMON.\n\n"
		"  -d, --delay SECONDS   the interval: from 0.01 (default: 1), or as 250ms\n"
		"  -n, --iterations N    end after N intervals\n"
		"  --json                a JSON object for each interval\n"
		"  -h, --help            print this help\n",
	.run = run_top,
};
