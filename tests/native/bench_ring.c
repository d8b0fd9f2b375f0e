// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the case of the native benchmark that measures libhwtimer with rings: the library, the
 * kernel's part that takes submissions, and the wheel's worker, all on one core. System calls are
 * function calls here. It is compared with libevent, in a callback of its loop, where it knows the
 * time; one timerfd, with real system calls; and Netty (bench_netty.c).
 */
#include <errno.h>
#include <event2/event.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	bool		in_order;	/* in the order of memory, not at random */
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
		.size = sizeof(o), .flags = HWTIMER_OPEN_RINGS, .timeouts = pending + idle + 1,
	};

	check(hwtimer_open(&h, &o));
}

static void library_run(enum op op, unsigned long i, unsigned long end)
{
	__u64 now = hwtimer_now(h) + (op == TOUCH_LATER ? LATER_NS : 0);
	int ret = 0;
	__u32 n;

	for (; i < end; i++) {
		n = op == FILL || subject->in_order ? i : order[i];
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
	settle_shared();
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
		n = op == FILL || subject->in_order ? i : order[i];
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
	{ "library", library_begin, library_run, library_end },
	{ "library_in_order", library_begin, library_run, library_end, true },
	{ "libevent", libevent_begin, libevent_run, libevent_end },
	{ "libevent_in_order", libevent_begin, libevent_run, libevent_end, true },
	{ "timerfd", timerfd_begin, timerfd_run, timerfd_end },
	{ "netty" },
};

#define SUBJECTS	(sizeof(subjects) / sizeof(*subjects))

/* For each operation, the time that the caller takes, and the time that everything takes. */
struct figures {
	struct samples	own[OPS], all[OPS];
};

static void measure(enum op op, unsigned long first, unsigned long n, struct figures *f)
{
	unsigned long i, end = first + n, portion;
	__u64 start, ns;

	for (i = first; i < end; i += portion) {
		portion = end - i < PORTION ? end - i : PORTION;
		start = now_ns();
		subject->run(op, i, i + portion);
		ns = now_ns() - start;
		if (f)
			sample(&f->own[op], ns, portion);
		if (subject->run != library_run)
			continue;
		/* The kernel takes what was submitted. */
		start = now_ns();
		check(hwtimer_flush(h));
		ns += now_ns() - start + settle_shared();
		if (f)
			sample(&f->all[op], ns, portion);
	}
}

static long resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (!file || fscanf(file, "%*u %ld", &pages) != 1)
		check(-EIO);
	fclose(file);
	/* Each page of the kernel's has one of malloc() in front of it that stays free. */
	return pages * sysconf(_SC_PAGESIZE) - (long)mallinfo2().fordblks;
}

static struct figures figures;
static double bytes;	/* of a timeout, in the library and the kernel together */

/* Like steady_turn(). ARM_CANCEL takes the same slot each time. */
static void operate(evutil_socket_t fd, short what, void *arg)
{
	struct figures *f = &figures;
	long before = resident();

	measure(FILL, 0, pending + idle, NULL);
	if (!bytes)
		bytes = (double)(resident() - before) / (pending + idle);
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
 * Timeouts that were touched come due in the kernel at their old deadlines: the library arms them
 * again. "due_again" is the library's part. "due_again+worker" includes those of the worker, which
 * expires them, and of the kernel, which takes the submissions.
 */
static void due_again(unsigned int round)
{
	__u64 start, due, ns, all;
	struct hwtimer_event event;
	unsigned long i;

	library_begin();
	due = hwtimer_now(h) + 2000000;
	for (i = 0; i < PORTION; i++)
		check(hwtimer_schedule_at(h, due, i, &ids[i]));
	for (i = 0; i < PORTION; i++)
		check(hwtimer_touch_at(h, ids[i], due + LATER_NS));
	check(hwtimer_flush(h));
	settle_shared();
	while (hwtimer_now(h) < due + 2000000)
		;
	all = settle_shared();
	start = now_ns();
	check(hwtimer_wait(h, &event, 1, 0));
	ns = now_ns() - start;
	start = now_ns();
	check(hwtimer_flush(h));
	all += ns + now_ns() - start + settle_shared();
	library_end();
	result("library", "due_again", 1, round, (double)ns / PORTION, "ns");
	result("library", "due_again+worker", 1, round, (double)all / PORTION, "ns");
}

void ring(unsigned int round)
{
	const struct subject *s;
	unsigned int i, k;
	char name[32];

	if (!ids) {
		ids = large_pages((pending + idle) * sizeof(*ids));
		/* Only the first turn of the program can measure the memory. */
		turn(&subjects[0]);
	}
	result("library", "size", 1, round, bytes, "bytes");
	due_again(round);
	for (k = 0; k < SUBJECTS; k++) {
		s = &subjects[turn_of(k, SUBJECTS, round)];
		if (!s->run) {
			netty(round);
			continue;
		}
		memset(&figures, 0, sizeof(figures));
		for (i = 0; i < (IDLE / pending / 5 ?: 1); i++)
			turn(s);
		for (i = ARM; i < OPS; i++) {
			result(s->name, names[i], 1, round, median(&figures.own[i]), "ns");
			snprintf(name, sizeof(name), "%s+worker", names[i]);
			if (s->run == library_run)
				result(s->name, name, 1, round, median(&figures.all[i]), "ns");
		}
	}
}
