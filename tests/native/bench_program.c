// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the cases of the native benchmark that measure libhwtimer: the library, and the kernel's
 * part that takes what was pushed. System calls are function calls here. "program" compares it with
 * libevent, in a callback of its loop, where it knows the time, and one timerfd, with real system
 * calls; "netty" with HashedWheelTimer: the command in the environment variable NETTY starts a Java
 * program (Netty.java), which is stopped while others are measured.
 */
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bench.h"
#include "libhwtimer.h"

enum op { FILL, ARM, CANCEL, ARM_CANCEL, TOUCH_LATER, OPS };

static const char *const names[] = { "", "arm", "cancel", "arm_cancel", "touch_later" };

#define LATER_NS	4000000000ULL

static struct hwtimer *h;
static hwtimer_id *ids;
static struct event_base *base;
static char *events;
static int timerfd;

struct subject {
	const char	*name;
	void		(*begin)(void);
	void		(*run)(enum op op, unsigned long i, unsigned long end);
	void		(*end)(void);
};

static const struct subject *subject;

static void check(int ret)
{
	if (ret) {
		fprintf(stderr, "bench: %s\n", strerror(-ret));
		exit(1);
	}
}

static void library_begin(void)
{
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = HWTIMER_OPEN_DEVICE, .timeouts = pending + idle + 1,
	};

	check(hwtimer_open(&h, &o));
}

static void library_run(enum op op, unsigned long i, unsigned long end)
{
	__u64 now = hwtimer_now(h) + (op == TOUCH_LATER ? LATER_NS : 0);
	int ret = 0;
	__u32 n;

	for (; i < end; i++) {
		n = op == FILL ? i : order[i];
		if (op == FILL || op == ARM || op == ARM_CANCEL)
			ret |= hwtimer_schedule_at(h, now + delays_ns[n % DELAYS], n, &ids[n]);
		if (op == CANCEL || op == ARM_CANCEL)
			ret |= hwtimer_cancel(h, ids[n]);
		if (op == TOUCH_LATER)
			ret |= hwtimer_touch_at(h, ids[n], now + delays_ns[n % DELAYS]);
	}
	check(ret);
}

static void library_end(void)
{
	hwtimer_close(h);
}

static void libevent_begin(void)
{
	base = event_base_new();
	events = calloc(pending + idle, event_get_struct_event_size());
	check(base && events ? 0 : -ENOMEM);
}

static void nothing(evutil_socket_t fd, short what, void *arg)
{
}

static void libevent_run(enum op op, unsigned long i, unsigned long end)
{
	size_t size = event_get_struct_event_size();
	struct timeval delays[DELAYS];
	struct event *e;
	int ret = 0;
	__u64 ns;
	__u32 n;

	for (n = 0; n < DELAYS; n++) {
		ns = delays_ns[n] + (op == TOUCH_LATER ? LATER_NS : 0);
		delays[n] = (struct timeval){ ns / 1000000000, ns / 1000 % 1000000 };
	}
	for (; i < end; i++) {
		n = op == FILL ? i : order[i];
		/* Like libhwtimer, which takes the same slot each time. */
		e = (struct event *)(events + (op == ARM_CANCEL ? pending : n) * size);
		if (op == FILL)
			ret |= event_assign(e, base, -1, 0, nothing, NULL);
		if (op != CANCEL)
			ret |= event_add(e, &delays[n % DELAYS]);
		if (op == CANCEL || op == ARM_CANCEL)
			ret |= event_del(e);
	}
	check(ret ? -EINVAL : 0);
}

static void libevent_end(void)
{
	event_base_free(base);
	free(events);
}

static void timerfd_begin(void)
{
	timerfd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	check(timerfd < 0 ? -errno : 0);
}

static void timerfd_run(enum op op, unsigned long i, unsigned long end)
{
	struct itimerspec at = { 0 }, never = { 0 };
	int ret = 0;

	for (; op != FILL && i < end; i++) {
		at.it_value.tv_sec = 60 + order[i] % DELAYS;
		if (op != CANCEL)
			ret |= timerfd_settime(timerfd, 0, &at, NULL);
		if (op == CANCEL || op == ARM_CANCEL)
			ret |= timerfd_settime(timerfd, 0, &never, NULL);
	}
	check(ret ? -errno : 0);
}

static void timerfd_end(void)
{
	close(timerfd);
}

static const struct subject subjects[] = {
	{ "libhwtimer", library_begin, library_run, library_end },
	{ "libevent", libevent_begin, libevent_run, libevent_end },
	{ "timerfd", timerfd_begin, timerfd_run, timerfd_end },
};

#define SUBJECTS	(sizeof(subjects) / sizeof(*subjects))

/* For each operation, the time that the caller takes, and the time that everything takes. */
struct figures {
	struct samples	own[OPS], all[OPS];
};

static void measure(enum op op, unsigned long first, unsigned long n, struct figures *f)
{
	unsigned long i, end = first + n, portion;
	__u64 start;

	for (i = first; i < end; i += portion) {
		portion = end - i < PORTION ? end - i : PORTION;
		start = cpu_ns();
		subject->run(op, i, i + portion);
		if (f)
			sample(&f->own[op], since(start), portion);
		/* The kernel takes what was pushed. */
		if (subject->run == library_run)
			check(ioctl(hwtimer_fd(h), HWTIMER_IOC_ENTER) ? -errno : 0);
		if (f)
			sample(&f->all[op], since(start), portion);
	}
}

static struct figures figures;

/* Like steady_turn(). ARM_CANCEL takes the same slot each time. */
static void operate(evutil_socket_t fd, short what, void *arg)
{
	struct figures *f = &figures;

	measure(FILL, 0, pending + idle, NULL);
	measure(CANCEL, pending, idle, f);
	measure(ARM, pending, idle, f);
	measure(TOUCH_LATER, 0, idle, f);
	measure(CANCEL, pending, idle, NULL);
	measure(ARM_CANCEL, pending, idle, f);
}

static void turn(const struct subject *s)
{
	struct event *loop;

	subject = s;
	s->begin();
	if (s->run == libevent_run) {
		loop = event_new(base, -1, 0, operate, NULL);
		check(loop ? 0 : -ENOMEM);
		event_active(loop, 0, 0);
		event_base_loop(base, EVLOOP_NONBLOCK);
		event_free(loop);
	} else {
		operate(-1, 0, NULL);
	}
	s->end();
}

/*
 * The old deadlines of timeouts that were touched come: the kernel looks at them, and files them
 * again.
 */
static double due_again(void)
{
	struct hwtimer_event event;
	__u64 start, due, ns;
	unsigned long i;

	library_begin();
	due = hwtimer_now(h) + 2000000;
	for (i = 0; i < PORTION; i++)
		check(hwtimer_schedule_at(h, due, i, &ids[i]));
	for (i = 0; i < PORTION; i++)
		check(hwtimer_touch_at(h, ids[i], due + LATER_NS));
	check(ioctl(hwtimer_fd(h), HWTIMER_IOC_ENTER) ? -errno : 0);
	while (hwtimer_now(h) < due + 2000000)
		;
	start = cpu_ns();
	check(hwtimer_wait(h, &event, 0));
	check(ioctl(hwtimer_fd(h), HWTIMER_IOC_ENTER) ? -errno : 0);
	ns = since(start);
	library_end();
	return (double)ns / PORTION;
}

/* A round of a subject. */
static void round_of(const struct subject *s, unsigned int round)
{
	unsigned int i;

	memset(&figures, 0, sizeof(figures));
	for (i = 0; i < (IDLE / pending / 5 ?: 1); i++)
		turn(s);
	for (i = ARM; i < OPS; i++)
		result(s->name, names[i], round, median(&figures.all[i]));
	result(s->name, "arm_cancel_caller", round, median(&figures.own[ARM_CANCEL]));
}

static void begin(void)
{
	if (!ids)
		ids = large_pages((pending + idle) * sizeof(*ids));
}

void program(unsigned int round)
{
	unsigned int i;

	begin();
	for (i = 0; i < SUBJECTS; i++)
		round_of(&subjects[turn_of(i, SUBJECTS, round)], round);
	result("libhwtimer", "due_again", round, due_again());
}

static pid_t java;
static int to;
static FILE *from;

static void start_java(void)
{
	const char *command = getenv("NETTY");
	int ends[2];

	check(command ? 0 : -EINVAL);
	java = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ? -1 : fork();
	check(java < 0 ? -errno : 0);
	if (!java) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		unpin();
		if (dup2(ends[1], 0) == 0 && dup2(ends[1], 1) == 1)
			execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	close(ends[1]);
	to = ends[0];
	from = fdopen(to, "r");
	dprintf(to, "%lu\n", pending);
}

/* Have the Java program measure one round, and print its lines up to an empty one. */
void netty(unsigned int round)
{
	char line[128];

	begin();
	round_of(&subjects[0], round);
	if (!from)
		start_java();
	kill(java, SIGCONT);
	dprintf(to, "%u\n", round);
	while (fgets(line, sizeof(line), from)) {
		if (*line == '\n') {
			kill(java, SIGSTOP);
			return;
		}
		fputs(line, stdout);
	}
	fprintf(stderr, "bench: Netty's program has ended\n");
	exit(1);
}
