// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what operations on timeouts cost programs, the kernel's part included.
 *
 *	ops
 *
 * N timeouts are used in an order that jumps about. For each N a line for each operation and
 * subject:
 *
 *	operation/N subject instructions
 *
 *	arm_new		arm a timeout that the kernel has to take (hwtimer)
 *	touch		push it back
 *	cancel		cancel it
 *	arm		arm again what was cancelled; the kernel still holds the slot
 *	cancel_new	arm, let the kernel take it, cancel; it drops it in its time
 *	life		arm for one of some 100 ticks, and take the event
 *	at_once		likewise, all for one tick
 *	pushed_back	all for one tick, pushed back before it, and cancelled
 *
 * Instructions are all those for which the only CPU was not idle, divided by N, so this needs a
 * guest whose clock counts instructions, 1 ns for each (scripts/guest/boot -i). There are also
 * lines "bytes": of memory for each of a million timeouts, and (N is 0) for a context without any.
 */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counted.h"
#include "libhwtimer.h"

#define MOST		1000000U
#define CONTEXTS	1000U

struct subject {
	const char	*name;
	unsigned int	most;		/* so many timeouts at most */
	void		(*begin)(void);
	void		(*arm)(unsigned int i, uint64_t deadline);
	void		(*touch)(unsigned int i, uint64_t deadline);
	void		(*cancel)(unsigned int i);
	void		(*settle)(void);	/* the kernel takes what was armed */
	void		(*take)(void);		/* wait for events, and take them */
	unsigned int	flags;
};

static const struct subject *s;
static unsigned int n, step, taken;
static hwtimer_id *ids;
static struct event *events;
static struct event_base *base;
static struct hwtimer *h;
static int *fds, epfd;

static void nothing(void)
{
}

static void hwtimer_begin(void)
{
	struct hwtimer_options options = { .size = sizeof(options), .flags = s->flags };

	if (hwtimer_open(&h, &options))
		errx(1, "no /dev/hwtimer");
	ids = calloc(n, sizeof(*ids));
}

static void hwtimer_arm(unsigned int i, uint64_t deadline)
{
	if (hwtimer_schedule_at(h, deadline, i, &ids[i]))
		errx(1, "hwtimer_schedule_at");
}

static void hwtimer_push_back(unsigned int i, uint64_t deadline)
{
	if (hwtimer_touch_at(h, ids[i], deadline))
		errx(1, "hwtimer_touch_at");
}

static void hwtimer_end(unsigned int i)
{
	if (hwtimer_cancel(h, ids[i]))
		errx(1, "hwtimer_cancel");
}

static void hwtimer_settle(void)
{
	struct hwtimer_event event;
	hwtimer_id id;

	if (!hwtimer_in_process(h)) {
		if (ioctl(hwtimer_fd(h), HWTIMER_IOC_ENTER))
			err(1, "ENTER");
		return;
	}
	/* One that is due at once does the same. */
	if (hwtimer_schedule_at(h, 0, 0, &id))
		errx(1, "hwtimer_schedule_at");
	if (hwtimer_wait(h, &event, 0) == 0)
		hwtimer_cancel(h, id);
}

static void hwtimer_take(void)
{
	struct hwtimer_event event;

	if (hwtimer_wait(h, &event, -1) != 1)
		errx(1, "hwtimer_wait");
	do {
		taken++;
	} while (hwtimer_wait(h, &event, 0) > 0);
}

static void event_due(evutil_socket_t fd, short what, void *arg)
{
	taken++;
}

static void event_begin(void)
{
	unsigned int i;

	base = event_base_new();
	events = calloc(n, sizeof(*events));
	for (i = 0; i < n; i++)
		event_assign(&events[i], base, -1, 0, event_due, NULL);
}

static void event_arm(unsigned int i, uint64_t deadline)
{
	struct timeval delay = { deadline / SEC, deadline % SEC / 1000 };

	event_add(&events[i], &delay);
}

static void event_cancel(unsigned int i)
{
	event_del(&events[i]);
}

static void event_take(void)
{
	event_base_loop(base, EVLOOP_ONCE);
}

static void timerfd_begin(void)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	struct rlimit files = { 2 * n, 2 * n };
	unsigned int i;

	setrlimit(RLIMIT_NOFILE, &files);
	epfd = epoll_create1(0);
	fds = calloc(n, sizeof(*fds));
	for (i = 0; i < n; i++) {
		fds[i] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
		e.data.fd = fds[i];
		if (fds[i] < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fds[i], &e))
			err(1, "timerfd");
	}
}

static void timerfd_arm(unsigned int i, uint64_t deadline)
{
	struct itimerspec it = { .it_value = { deadline / SEC, deadline % SEC } };

	timerfd_settime(fds[i], TFD_TIMER_ABSTIME, &it, NULL);
}

static void timerfd_cancel(unsigned int i)
{
	struct itimerspec it = { };

	timerfd_settime(fds[i], 0, &it, NULL);
}

static void timerfd_take(void)
{
	struct epoll_event e[64];
	uint64_t count;
	int i, got;

	got = epoll_wait(epfd, e, 64, -1);
	for (i = 0; i < got; i++)
		taken += read(e[i].data.fd, &count, sizeof(count)) == sizeof(count);
}

static const struct subject subjects[] = {
	{ "hwtimer", MOST, hwtimer_begin, hwtimer_arm, hwtimer_push_back, hwtimer_end,
	  hwtimer_settle, hwtimer_take },
	{ "in_process", MOST, hwtimer_begin, hwtimer_arm, hwtimer_push_back, hwtimer_end,
	  hwtimer_settle, hwtimer_take, HWTIMER_OPEN_PROCESS },
	{ "libevent", MOST, event_begin, event_arm, event_arm, event_cancel, nothing, event_take },
	{ "timerfd", 1000, timerfd_begin, timerfd_arm, timerfd_arm, timerfd_cancel, nothing,
	  timerfd_take },
};

static struct {
	uint64_t	time, idle;
} began;
static double idle_cost;	/* of a ns of idleness: the kernel's own ticks */
static double spent_before;	/* the mark, since the one before it */

static void mark(void)
{
	spent_before = 0;
	began.idle = idle_ns();
	began.time = clock_ns();
}

/* Instructions since the mark, without those of an idle machine. */
static double spent(void)
{
	double time = clock_ns() - began.time, idle = idle_ns() - began.idle;

	return spent_before + time - idle - idle * idle_cost;
}

static void print(const char *what)
{
	double all = spent(), own;

	mark();
	own = spent();
	printf("%s/%u %s %.1f\n", what, n, s->name, (all - own) / n);
	fflush(stdout);
}

#define for_each(i)	for (unsigned int k = 0, i = 0; k < n; k++, i = (i + step) % n)

/* A deadline; for libevent, a delay. */
static uint64_t from_now(uint64_t ns)
{
	return base ? ns : clock_ns() + ns;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec t = { ns / SEC, ns % SEC };

	nanosleep(&t, NULL);
}

/*
 * Without what is done meanwhile: that is the kernel's own, and a little more in one minute than in
 * another, which is much if it is divided by 1,000.
 */
static void sleep_aside(uint64_t ns)
{
	double before = spent();

	sleep_ns(ns);
	mark();
	spent_before = before;
}

static void calibrate(void)
{
	idle_cost = 0;
	mark();
	sleep_ns(20 * SEC);
	idle_cost = spent() / (20.0 * SEC);
}

static void far_ones(void)
{
	uint64_t far = from_now(60 * SEC);

	mark();
	for_each(i)
		s->arm(i, far + i % 1000 * 10 * MS);
	s->settle();
	print("arm_new");
	mark();
	for_each(i)
		s->touch(i, far + (i % 1000 + 7) * 10 * MS);
	print("touch");
	mark();
	for_each(i)
		s->cancel(i);
	print("cancel");
	mark();
	for_each(i)
		s->arm(i, far + (i % 1000 + 1000) * 10 * MS);
	print("arm");
	for_each(i)
		s->cancel(i);
}

static void take_all(void)
{
	for (taken = 0; taken < n;)
		s->take();
}

static void short_ones(void)
{
	uint64_t soon;

	/* What was cancelled before is due by then, so that the kernel drops it. */
	sleep_ns(80 * SEC);
	s->settle();
	mark();
	soon = from_now(20 * SEC);
	for_each(i)
		s->arm(i, soon + i % 100 * MS);
	s->settle();
	for_each(i)
		s->cancel(i);
	sleep_aside(22 * SEC);
	s->settle();
	print("cancel_new");
	mark();
	soon = from_now(20 * SEC);
	for_each(i)
		s->arm(i, soon + i % 100 * MS);
	sleep_aside(18 * SEC);
	take_all();
	print("life");
	mark();
	soon = from_now(20 * SEC);
	for_each(i)
		s->arm(i, soon);
	sleep_aside(18 * SEC);
	take_all();
	print("at_once");
	mark();
	soon = from_now(20 * SEC);
	for_each(i)
		s->arm(i, soon);
	for_each(i)
		s->touch(i, soon + 100 * SEC);
	sleep_aside(22 * SEC);
	s->settle();
	for_each(i)
		s->cancel(i);
	print("pushed_back");
}

/* With what the program has to keep. */
static void bytes(void)
{
	uint64_t before = number_in("/proc/meminfo", "MemFree");

	s->begin();
	for_each(i)
		s->arm(i, from_now(60 * SEC));
	printf("bytes/%u %s %.1f\n", n, s->name,
	       (before - number_in("/proc/meminfo", "MemFree")) * 1024.0 / n);
	for_each(i)
		s->cancel(i);
}

/* What the kernel keeps for a context without timeouts. */
static void bytes_of_none(const char *name, unsigned int flags)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .flags = flags };
	struct rlimit files = { 2 * CONTEXTS, 2 * CONTEXTS };
	uint64_t before = number_in("/proc/meminfo", "MemFree");
	static int contexts[CONTEXTS];
	unsigned int i;

	setrlimit(RLIMIT_NOFILE, &files);
	for (i = 0; i < CONTEXTS; i++) {
		contexts[i] = open("/dev/hwtimer", O_RDWR);
		if (contexts[i] < 0 || ioctl(contexts[i], HWTIMER_IOC_SETUP, &setup))
			err(1, "/dev/hwtimer");
	}
	printf("bytes/0 %s %.1f\n", name,
	       (before - number_in("/proc/meminfo", "MemFree")) * 1024.0 / CONTEXTS);
	for (i = 0; i < CONTEXTS; i++)
		close(contexts[i]);
}

int main(void)
{
	static const unsigned int sizes[] = { 1000, 100000, MOST };
	unsigned int i, k;
	int status;

	bytes_of_none("hwtimer_calls", 0);
	bytes_of_none("hwtimer_table", HWTIMER_SETUP_TABLE);
	for (i = 0; i < 3; i++) {
		for (k = 0; k < sizeof(subjects) / sizeof(*subjects); k++) {
			n = sizes[i];
			/* Prime, so that each one comes. */
			step = 7919;
			s = &subjects[k];
			if (n > s->most)
				continue;
			if (!fork()) {
				if (n == MOST)
					bytes();
				else
					s->begin();
				calibrate();
				far_ones();
				short_ones();
				exit(0);
			}
			if (wait(&status) < 0 || status)
				errx(1, "%s: failed", s->name);
		}
	}
	return 0;
}
