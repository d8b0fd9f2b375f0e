// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl every: run a command for each expiry of a periodic timeout, one run at a time.
 *
 * Deadlines are whole periods apart, however long the runs take. The library counts them. What
 * happens to a deadline that comes during a run is decided here, when the next run can begin. So
 * the timeout's own policy is HWTIMER_MISFIRE_ONCE: one event, with the number of deadlines.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

static struct {
	uint64_t first_ns, period_ns, misfire_ns, count;
	unsigned int policy;
	char **command;		/* NULL: print a line */
	bool json;

	struct hwtimer *h;
	int signals;		/* signalfd */
	sigset_t old_mask;
	uint64_t came;		/* deadlines that have come */
	uint64_t next;		/* the first one not handled, counted from 0 */
	uint64_t skipped;	/* to be passed to the next run */
	int signal;		/* the one that ends us */

	/* the current or last run */
	pid_t child;		/* 0: none is running */
	uint64_t runs, failed, overruns, late_ns, began_ns;
	char time[64];
} every;

/* Is it time for a run? Sets its lateness and how many missed deadlines it stands for. */
static bool next_run(void)
{
	uint64_t late, missed;

	while (every.next < every.came) {
		late = hwtimer_now(every.h) - (every.first_ns + every.next * every.period_ns);
		missed = late / every.period_ns;
		every.next++;
		every.overruns = every.skipped;
		every.late_ns = late;
		if (late <= every.misfire_ns || every.policy == HWTIMER_MISFIRE_MAKE_UP) {
			every.skipped = 0;
			return true;
		}
		every.next += missed;
		if (every.policy == HWTIMER_MISFIRE_ONCE) {
			every.overruns = missed;
			return true;
		}
		every.skipped += missed + 1;
	}
	return false;
}

static void start_child(void)
{
	char number[32];
	pid_t pid;

	ctl_flush();
	pid = fork();
	if (pid < 0)
		ctl_die(CTL_FAILED, "%s: fork: %s", every.command[0],
			strerror(errno));
	if (!pid) {
		snprintf(number, sizeof(number), "%" PRIu64, every.overruns);
		setenv("HWTIMER_OVERRUNS", number, 1);
		sigprocmask(SIG_SETMASK, &every.old_mask, NULL);
		ctl_exec(every.command, every.json);
	}
	every.child = pid;
}

/* @status: from waitpid(); -1: there was no command. */
static void report_run(int status)
{
	int code = WIFSIGNALED(status) ? CTL_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);

	if (status > 0)
		every.failed++;
	if (every.json) {
		ctl_json_open(NULL, '{');
		ctl_json_number("run", every.runs);
		ctl_json_text("time", every.time);
		ctl_json_number("late_ns", every.late_ns);
		ctl_json_number("overruns", every.overruns);
		if (status < 0) {
			ctl_json_null("status");
			ctl_json_null("ran_ns");
		} else {
			ctl_json_signed("status", code);
			ctl_json_number("ran_ns", ctl_clock(CLOCK_MONOTONIC) - every.began_ns);
		}
		ctl_json_close('}');
		ctl_json_end();
	} else if (status < 0) {
		printf("%s: run %" PRIu64 ", %" PRIu64 " overruns, late by ", every.time,
		       every.runs, every.overruns);
		ctl_print_ns(stdout, every.late_ns);
		putchar('\n');
		ctl_flush();
	}
}

static void begin_run(void)
{
	every.runs++;
	every.began_ns = ctl_clock(CLOCK_MONOTONIC);
	ctl_wall_time(every.time, sizeof(every.time));
	if (every.command)
		start_child();
	else
		report_run(-1);
}

static bool more_runs(void)
{
	return !every.signal && (!every.count || every.runs < every.count);
}

/*
 * On the first signal pass it on to the running command, which the caller waits for; on the second
 * one kill the command. A signal from a key of the terminal has reached the command already.
 */
static void end_by(const struct signalfd_siginfo *info)
{
	int sig = info->ssi_signo;

	if (every.child && every.signal)
		kill(every.child, SIGKILL);
	else if (every.child && info->ssi_code != SI_KERNEL)
		kill(every.child, sig);
	if (!every.signal)
		every.signal = sig;
}

static void read_signals(void)
{
	struct signalfd_siginfo info;
	int status;

	while (read(every.signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			end_by(&info);
	if (every.child && waitpid(every.child, &status, WNOHANG) == every.child) {
		every.child = 0;
		report_run(status);
	}
}

static void read_events(void)
{
	struct hwtimer_event event;
	int ret;

	while ((ret = hwtimer_wait(every.h, &event, 0)) > 0)
		every.came += 1 + event.overruns;
	if (ret < 0 && ret != -EINTR)
		ctl_failed(-ret, "cannot wait for a timeout");
}

static void catch_signals(void)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction old;
	sigset_t set;
	size_t i;

	/* If it was ignored, the end of the child would not be reported. */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (i = 0; i < ARRAY_SIZE(ending); i++) {
		/* ignored by nohup(1) or a shell's "&" */
		sigaction(ending[i], NULL, &old);
		if (old.sa_handler != SIG_IGN)
			sigaddset(&set, ending[i]);
	}
	sigprocmask(SIG_BLOCK, &set, &every.old_mask);
	every.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (every.signals < 0)
		ctl_die(CTL_FAILED, "signalfd: %s", strerror(errno));
}

static void loop(void)
{
	struct pollfd fds[] = {
		{ .fd = every.signals, .events = POLLIN },
		{ .fd = hwtimer_fd(every.h), .events = POLLIN },
	};

	while (more_runs() || every.child) {
		/* During a run, expiries wait. */
		if (poll(fds, every.child ? 1 : 2, -1) < 0 && errno != EINTR)
			ctl_die(CTL_FAILED, "poll: %s", strerror(errno));
		read_signals();
		while (!every.child && more_runs()) {
			read_events();
			if (!next_run())
				break;
			begin_run();
		}
	}
}

static void set_policy(const char *text)
{
	static const char *const names[] = {
		[HWTIMER_MISFIRE_ONCE] = "once", [HWTIMER_MISFIRE_SKIP] = "skip",
		[HWTIMER_MISFIRE_MAKE_UP] = "make-up",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(text, names[i])) {
			every.policy = i;
			return;
		}
	}
	ctl_misuse("--misfire: must be once, skip or make-up, not '%s'", text);
}

static int run_every(struct ctl_args *args)
{
	const char *misfire = "once", *period;
	bool now = false;
	const struct ctl_option options[] = {
		{ "misfire", 0, CTL_TEXT, &misfire, 0, 0 },
		{ "misfire-after", 0, CTL_DURATION, &every.misfire_ns, 1, CTL_MAX_NS },
		{ "count", 0, CTL_NUMBER, &every.count, 1, UINT64_MAX },
		{ "now", 0, CTL_FLAG, &now, 0, 0 },
		{ "json", 0, CTL_FLAG, &every.json, 0, 0 },
	};
	struct hwtimer_repeat repeat = { .policy = HWTIMER_MISFIRE_ONCE };
	uint64_t tick_ns;
	int ret;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	period = ctl_next_word(args);
	if (!period)
		ctl_misuse("DURATION: missing");
	every.period_ns = ctl_parse_duration("DURATION", period);
	if (ctl_next_word(args))
		every.command = args->argv + optind - 1;
	else if (!strcmp(args->argv[optind - 1], "--"))
		ctl_misuse("COMMAND: missing after '--'");
	set_policy(misfire);
	if (!every.period_ns)
		ctl_misuse("DURATION: must not be 0: '%s'", period);
	if (!every.misfire_ns)
		every.misfire_ns = every.period_ns;
	if (every.command)
		ctl_check_command(every.command);

	every.h = ctl_open();
	tick_ns = hwtimer_tick_ns(every.h);
	if (every.period_ns < tick_ns)
		ctl_misuse("DURATION: shorter than the tick (%" PRIu64 " ns): '%s'",
			   tick_ns, period);
	if (every.misfire_ns < tick_ns)
		ctl_misuse("--misfire-after: shorter than the tick (%" PRIu64 " ns)",
			   tick_ns);
	catch_signals();
	every.first_ns = hwtimer_now(every.h) + (now ? 0 : every.period_ns);
	repeat.first_ns = every.first_ns;
	repeat.period_ns = every.period_ns;
	ret = hwtimer_schedule_repeat(every.h, &repeat, 0, NULL);
	if (ret)
		ctl_failed(-ret, "cannot schedule a timeout");
	loop();
	hwtimer_close(every.h);
	if (every.signal)
		return CTL_SIGNAL + every.signal;
	if (every.failed)
		ctl_die(CTL_FAILED, "%s: %" PRIu64 " of %" PRIu64 " runs failed", every.command[0],
			every.failed, every.runs);
	return CTL_OK;
}

const struct ctl_command ctl_every = {
	.name = "every",
	.summary = "run a command periodically, without drift",
	.help = "every [OPTION]... DURATION [OPTION]... [[--] COMMAND [ARGUMENT]...]\n\n"
		"Run COMMAND every DURATION, or print a line. Deadlines are DURATION apart,\n"
		"however long the runs take. One command runs at a time; a deadline that\n"
		"comes meanwhile waits. If a run would begin more than --misfire-after after\n"
		"its deadline, that is a misfire:\n\n"
		"  --misfire=once     run now, once for all missed deadlines (the default)\n"
		"  --misfire=skip     skip them, and wait for the next deadline\n"
		"  --misfire=make-up  run for each of them, one after the other\n"
		"  --misfire-after=DURATION\n"
		"                     a tick (1.05 ms) or more (default: one period)\n"
		"  --count=N          end after N runs\n"
		"  --now              the first deadline is now, not one period from now\n"
		"  --json             a JSON object for each run; COMMAND's output goes to stderr\n"
		"  -h, --help         print this help\n\n"
		"COMMAND has in HWTIMER_OVERRUNS the number of missed deadlines that its run\n"
		"stands for, beside its own. The first SIGINT, SIGTERM, SIGHUP or SIGQUIT is\n"
		"passed on to COMMAND, and the end is when COMMAND has ended; the second one\n"
		"kills it. Exit status 1: a run failed.\n",
	.run = run_every,
};
