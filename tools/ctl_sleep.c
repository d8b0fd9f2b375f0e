// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl sleep, at, after: one timeout.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

/*
 * Readable when the time of day was set: by somebody, or as the machine was resumed. It
 * is armed for a time that does not come.
 */
static int clock_set_fd(void)
{
	const struct itimerspec never = { .it_value = { .tv_sec = INT64_MAX / NSEC_PER_SEC } };
	int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET,
				      &never, NULL))
		ctl_die(CTL_FAILED, "timerfd: %s", strerror(errno));
	return fd;
}

static uint64_t until(uint64_t wall_ns)
{
	uint64_t now = ctl_clock(CLOCK_REALTIME);

	return wall_ns > now ? wall_ns - now : 0;
}

static void wait_event(struct hwtimer *h, struct hwtimer_event *event)
{
	int ret;

	do
		ret = hwtimer_wait(h, event, 1, -1);
	while (!ret || ret == -EINTR);
	if (ret < 0)
		ctl_device_error("cannot wait for a timeout", ret);
}

static void must_schedule(struct hwtimer *h, uint64_t delay_ns, hwtimer_id *id)
{
	int ret = hwtimer_schedule(h, delay_ns, 0, id);

	if (ret)
		ctl_device_error("cannot schedule a timeout", ret);
}

/*
 * Wait until the time of day is @wall_ns. The timeout is on a clock that does not know
 * of it, so it is moved whenever the time of day is set.
 */
static void wait_wall(struct hwtimer *h, uint64_t wall_ns, struct hwtimer_event *event)
{
	int set_fd = clock_set_fd(), ret;
	struct pollfd fds[] = {
		{ .fd = set_fd, .events = POLLIN },
		{ .fd = hwtimer_fd(h), .events = POLLIN },
	};
	uint64_t times;
	hwtimer_id id;

	must_schedule(h, until(wall_ns), &id);
	for (;;) {
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			ctl_die(CTL_FAILED, "poll: %s", strerror(errno));
		if (read(set_fd, &times, sizeof(times)) < 0 && errno == ECANCELED) {
			ret = hwtimer_touch(h, id, until(wall_ns));
			if (ret && ret != -ENOENT)
				ctl_device_error("cannot move a timeout", ret);
		}
		ret = hwtimer_wait(h, event, 1, 0);
		if (ret < 0 && ret != -EINTR)
			ctl_device_error("cannot wait for a timeout", ret);
		if (ret <= 0)
			continue;
		if (!until(wall_ns))
			break;
		must_schedule(h, until(wall_ns), &id);
	}
	close(set_fd);
}

static int run_sleep(struct ctl_args *args)
{
	struct hwtimer_event event;
	const char *word, *device = NULL;
	const struct ctl_option options[] = {
		{ "device", 0, CTL_TEXT, &device, 0, 0 },
	};
	struct hwtimer *h;
	uint64_t sum = 0;
	bool any = false;
	hwtimer_id id;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	while ((word = ctl_next_word(args))) {
		sum += ctl_parse_duration("DURATION", word);
		if (sum > CTL_MAX_NS)
			ctl_misuse("DURATION: all together more than 36 years, with '%s'", word);
		any = true;
	}
	if (!any)
		ctl_misuse("DURATION is missing");
	h = ctl_open_one(device);
	must_schedule(h, sum, &id);
	wait_event(h, &event);
	hwtimer_close(h);
	return CTL_OK;
}

/* What "at" and "after" are asked to do. */
struct once {
	const char *when;	/* as it was given */
	bool wall;		/* it is a time of day */
	uint64_t ns;
	const char *line;
	char **command;
	const char *device;
	bool json;
};

static void parse_once(struct ctl_args *args, const char *what, struct once *once)
{
	const struct ctl_option options[] = {
		{ "device", 0, CTL_TEXT, &once->device, 0, 0 },
		{ "json", 0, CTL_FLAG, &once->json, 0, 0 },
	};
	const char *word;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	once->when = ctl_next_word(args);
	if (!once->when)
		ctl_misuse("%s is missing", what);
	args->only_words = false;
	once->line = ctl_next_word(args);
	if (args->only_words) {
		if (!once->line)
			ctl_misuse("COMMAND is missing behind '--'");
		once->command = args->argv + args->next - 1;
		once->line = NULL;
	} else if (once->line) {
		word = ctl_next_word(args);
		if (word || args->only_words)
			ctl_misuse("a LINE, or '--' and a COMMAND: what is '%s'?", word ?: "--");
	}
}

static void tell_once(const struct once *once, const struct hwtimer_event *event)
{
	uint64_t late = once->wall ? ctl_clock(CLOCK_REALTIME) - once->ns :
				     event->fired_ns - event->deadline_ns;
	char time[64];

	ctl_wall_time(time, sizeof(time));
	if (once->json) {
		ctl_json_open(NULL, '{');
		ctl_json_text("when", once->when);
		ctl_json_text("time", time);
		ctl_json_number("late_ns", late);
		if (once->line)
			ctl_json_text("line", once->line);
		else
			ctl_json_null("line");
		if (once->command)
			ctl_json_text("command", once->command[0]);
		else
			ctl_json_null("command");
		ctl_json_close('}');
		ctl_json_end();
	} else if (once->line) {
		puts(once->line);
	} else if (!once->command) {
		printf("%s: %s %s, late by ", time, ctl_command->name, once->when);
		ctl_print_ns(stdout, late);
		putchar('\n');
	}
	ctl_flush();
}

static int run_once(const struct once *once)
{
	struct hwtimer_event event;
	struct hwtimer *h;
	hwtimer_id id;

	if (once->command)
		ctl_check_command(once->command);
	h = ctl_open_one(once->device);
	if (once->wall) {
		wait_wall(h, once->ns, &event);
	} else {
		must_schedule(h, once->ns, &id);
		wait_event(h, &event);
	}
	hwtimer_close(h);
	tell_once(once, &event);
	if (once->command)
		ctl_exec(once->command, once->json);
	return CTL_OK;
}

static int run_at(struct ctl_args *args)
{
	struct once once = { .wall = true };

	parse_once(args, "TIME", &once);
	if (once.when[0] == '+') {
		once.wall = false;
		once.ns = ctl_parse_duration("TIME", once.when + 1);
	} else {
		once.ns = ctl_parse_time(once.when);
	}
	return run_once(&once);
}

static int run_after(struct ctl_args *args)
{
	struct once once = { 0 };

	parse_once(args, "DURATION", &once);
	once.ns = ctl_parse_duration("DURATION", once.when);
	return run_once(&once);
}

const struct ctl_command ctl_sleep = {
	.name = "sleep",
	.summary = "wait for a while",
	.help = "sleep [--device PATH] DURATION...\n\n"
		"Wait for the sum of the DURATIONs: 90 (seconds), 1.5s, 200ms, 2m, 1h30m. Never less,\n"
		"and a tick of the wheel more at the most, but for the time that the machine takes.\n"
		"The time that the machine is suspended does not count.\n\n"
		"  --device PATH  instead of " CTL_DEVICE "\n"
		"  -h, --help     this text\n",
	.run = run_sleep,
};

#define ONCE_HELP								\
	"Print LINE, or run COMMAND and end with its status; with neither, say what the time\n" \
	"is. That there is such a COMMAND is checked before.\n\n"			\
	"  --json         tell of it as JSON; then COMMAND has stderr for its stdout\n"	\
	"  --device PATH  instead of " CTL_DEVICE "\n"				\
	"  -h, --help     this text\n"

const struct ctl_command ctl_at = {
	.name = "at",
	.summary = "at a time of day, print a line or run a command",
	.help = "at [--json] [--device PATH] TIME [LINE | -- COMMAND [ARGUMENT]...]\n\n"
		"Wait for TIME: HH:MM[:SS], today or tomorrow, \"YYYY-MM-DD HH:MM[:SS]\",\n"
		"@SECONDS since 1970, or +DURATION, which is what \"after\" does. Where clocks are put\n"
		"back and show it twice, it is the first. If the time of day is set meanwhile, or the\n"
		"machine was suspended, it is what the clock shows then that counts: TIME may come\n"
		"sooner or later, and at once if it is past.\n\n" ONCE_HELP,
	.run = run_at,
};

const struct ctl_command ctl_after = {
	.name = "after",
	.summary = "after a while, print a line or run a command",
	.help = "after [--json] [--device PATH] DURATION [LINE | -- COMMAND [ARGUMENT]...]\n\n"
		"Wait for DURATION: 90 (seconds), 1.5s, 200ms, 2m, 1h30m. It does not matter if the\n"
		"time of day is set meanwhile; the time that the machine is suspended does not\n"
		"count.\n\n" ONCE_HELP,
	.run = run_after,
};
