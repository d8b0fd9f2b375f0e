// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the case of the native benchmark in which threads share one object: a handle of
 * libhwtimer; an event base of libevent, with its lock; or a mutex, around timerfds of which each
 * thread uses its own. System calls of libhwtimer are function calls here; those of timerfd are
 * real. Each thread arms and cancels, and touches, timeouts of its own.
 */
#include <event2/event.h>
#include <event2/thread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bench.h"
#include "libhwtimer.h"

#define SUBJECTS	3
#define MOST	4		/* threads */

enum op { ARM_CANCEL, TOUCH_LATER };

static const char *const names[] = { "arm_cancel", "touch_later" };

static struct hwtimer *h;
static struct event_base *base;
static char *events;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static unsigned long ops;	/* of each thread */

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "bench: %s\n", what);
	exit(1);
}

static void library_begin(void)
{
	struct hwtimer_options o = { .size = sizeof(o),
				     .flags = HWTIMER_OPEN_RINGS | HWTIMER_OPEN_THREADS };
	unsigned long i;

	must(!hwtimer_open(&h, &o), "libhwtimer");
	for (i = 0; i < pending; i++)
		must(!hwtimer_schedule(h, delays_ns[i % DELAYS], i, NULL), "libhwtimer");
	hwtimer_flush(h);
	settle_shared();
}

static void library_run(enum op op)
{
	__u64 now = hwtimer_now(h);
	unsigned long i;
	hwtimer_id id;
	int ret = 0;

	if (op == TOUCH_LATER)
		ret = hwtimer_schedule_at(h, now + delays_ns[0], 0, &id);
	for (i = 0; i < ops; i++) {
		if (op == TOUCH_LATER) {
			ret |= hwtimer_touch_at(h, id, now + delays_ns[0] + i);
			continue;
		}
		ret |= hwtimer_schedule_at(h, now + delays_ns[i % DELAYS], i, &id);
		ret |= hwtimer_cancel(h, id);
	}
	must(!ret, "libhwtimer");
}

static void library_end(void)
{
	hwtimer_close(h);
	settle_shared();
}

static void nothing(evutil_socket_t fd, short what, void *arg)
{
}

static struct timeval after(__u64 ns)
{
	return (struct timeval){ ns / 1000000000, ns / 1000 % 1000000 };
}

static void libevent_begin(void)
{
	struct timeval delay;
	unsigned long i;

	events = calloc(pending, event_get_struct_event_size());
	evthread_use_pthreads();
	base = event_base_new();
	must(base && events, "libevent");
	for (i = 0; i < pending; i++) {
		struct event *e = (void *)(events + i * event_get_struct_event_size());

		delay = after(delays_ns[i % DELAYS]);
		event_assign(e, base, -1, 0, nothing, NULL);
		event_add(e, &delay);
	}
}

static void libevent_run(enum op op)
{
	struct event *e = evtimer_new(base, nothing, NULL);
	struct timeval delay;
	unsigned long i;
	int ret = 0;

	for (i = 0; i < ops; i++) {
		delay = after(delays_ns[i % DELAYS] + (op == TOUCH_LATER ? i * 1000 : 0));
		ret |= event_add(e, &delay);
		if (op == ARM_CANCEL)
			ret |= event_del(e);
	}
	event_free(e);
	must(!ret, "libevent");
}

static void libevent_end(void)
{
	event_base_free(base);
	free(events);
}

static void timerfd_run(enum op op)
{
	struct itimerspec at = { 0 }, never = { 0 };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), ret = fd < 0;
	unsigned long i;

	for (i = 0; i < ops; i++) {
		at.it_value.tv_sec = 60 + i % DELAYS;
		pthread_mutex_lock(&mutex);
		ret |= timerfd_settime(fd, 0, &at, NULL);
		pthread_mutex_unlock(&mutex);
		if (op == TOUCH_LATER)
			continue;
		pthread_mutex_lock(&mutex);
		ret |= timerfd_settime(fd, 0, &never, NULL);
		pthread_mutex_unlock(&mutex);
	}
	close(fd);
	must(!ret, "timerfd");
}

static void none(void)
{
}

static const struct {
	const char	*name;
	void		(*begin)(void);
	void		(*run)(enum op op);
	void		(*end)(void);
	unsigned long	ops;
} subjects[SUBJECTS] = {
	{ "library_shared", library_begin, library_run, library_end, 200000 },
	{ "libevent_locked", libevent_begin, libevent_run, libevent_end, 100000 },
	{ "timerfd_locked", none, timerfd_run, none, 10000 },
};

static struct job {
	unsigned int	subject, number;
	enum op		op;
} jobs[MOST];

static unsigned int running;
/* when the first one began, and the last one was done; 0: not yet */
static __u64 began, ended;

static void *work(void *arg)
{
	struct job *job = arg;
	__u64 none = 0;

	native_enter();
	pin(job->number);
	pthread_barrier_wait(&barrier);
	__atomic_compare_exchange_n(&began, &none, now_ns(), false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	subjects[job->subject].run(job->op);
	if (!__atomic_sub_fetch(&running, 1, __ATOMIC_ACQ_REL))
		__atomic_store_n(&ended, now_ns(), __ATOMIC_RELEASE);
	native_leave();
	return NULL;
}

/* The time from the first operation of any thread to the last, for each operation of all. */
static double measure(unsigned int subject, enum op op, unsigned int threads)
{
	pthread_t ids[MOST];
	unsigned int i;

	running = threads;
	began = 0;
	ended = 0;
	pthread_barrier_init(&barrier, NULL, threads + 1);
	for (i = 0; i < threads; i++) {
		jobs[i] = (struct job){ subject, i, op };
		pthread_create(&ids[i], NULL, work, &jobs[i]);
	}
	pthread_barrier_wait(&barrier);
	/* The worker of the wheel, as often as it polls rings. */
	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
		usleep(1000);
		settle_shared();
	}
	for (i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&barrier);
	return (double)(ended - began) / threads / ops;
}

void shared(unsigned int round)
{
	unsigned int i, s, op, threads;

	for (i = 0; i < SUBJECTS; i++) {
		s = turn_of(i, SUBJECTS, round);
		ops = subjects[s].ops;
		subjects[s].begin();
		for (op = ARM_CANCEL; op <= TOUCH_LATER; op++)
			for (threads = 1; threads <= MOST; threads *= 2)
				result(subjects[s].name, names[op], threads, round,
				       measure(s, op, threads), "ns");
		subjects[s].end();
	}
}
