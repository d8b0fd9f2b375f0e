// SPDX-License-Identifier: GPL-2.0-only
/*
 * Libraries with timers of their own: libevent's heap and common timeouts, libuv.
 *
 * Operations are done in a callback of the event loop, as in a program: there the library knows
 * the time, and need not read the clock.
 */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <uv.h>

#include "bench.h"

static struct {
	enum op		op;
	struct range	*range;
	__u64		ns;
} job;

/* libevent. */

static struct event_base *base;
static const struct timeval *common;

static_assert(sizeof(struct event) <= HANDLE_SIZE, "an event has room");

static void libevent_begin(unsigned long n)
{
	struct event_config *config = event_config_new();

	(void)n;
	/* Exact to better than a jiffy, as with the other subjects. */
	event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
	base = event_base_new_with_config(config);
	if (!base)
		errx(1, "libevent");
	event_config_free(config);
}

static void libevent_fired(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	conn_fired(arg);
}

static void libevent_init(struct conn *c)
{
	evtimer_assign(handle_of(struct event, c), base, libevent_fired, c);
}

static inline struct timeval timeval_of(__u64 ns)
{
	return (struct timeval){ .tv_sec = ns / NS_PER_S, .tv_usec = ns % NS_PER_S / NS_PER_US };
}

static inline void libevent_arm(struct conn *c, __u64 delay)
{
	struct timeval tv = timeval_of(delay);

	evtimer_add(handle_of(struct event, c), &tv);
}

static inline void libevent_arm_at(struct conn *c)
{
	struct timeval tv = timeval_of(c->due - loop_now);

	evtimer_add(handle_of(struct event, c), &tv);
}

static inline void libevent_cancel(struct conn *c)
{
	evtimer_del(handle_of(struct event, c));
}

static void heap_job(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	job.ns = RUN_RANGE(job.op, job.range, 1, libevent_arm, libevent_arm_at, libevent_cancel,
			   libevent_arm, nothing_put_off);
}

static __u64 in_loop(enum op op, struct range *r, event_callback_fn fn)
{
	struct timeval now = { 0 };

	job.op = op;
	job.range = r;
	if (event_base_once(base, -1, EV_TIMEOUT, fn, NULL, &now) ||
	    event_base_loop(base, EVLOOP_ONCE) < 0)
		errx(1, "libevent");
	return job.ns;
}

static __u64 heap_run(enum op op, struct range *r)
{
	return in_loop(op, r, heap_job);
}

static void libevent_wait(void)
{
	if (event_base_loop(base, EVLOOP_ONCE) < 0)
		errx(1, "libevent");
}

const struct subject libevent_heap = {
	.name	= "libevent",
	.handle	= sizeof(struct event),
	.begin	= libevent_begin,
	.init	= libevent_init,
	.run	= heap_run,
	.wait	= libevent_wait,
};

/* One delay for all: a list in the order of arming, whose first entry is in the heap. */

static void common_begin(unsigned long n)
{
	struct timeval delay = { .tv_sec = COMMON_DELAY_S };

	libevent_begin(n);
	common = event_base_init_common_timeout(base, &delay);
	if (!common)
		errx(1, "libevent: no common timeout");
}

static inline void common_arm(struct conn *c, __u64 delay)
{
	(void)delay;
	evtimer_add(handle_of(struct event, c), common);
}

static void common_job(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	job.ns = RUN_RANGE(job.op, job.range, 1, common_arm, libevent_arm_at, libevent_cancel,
			   common_arm, nothing_put_off);
}

static __u64 common_run(enum op op, struct range *r)
{
	return in_loop(op, r, common_job);
}

const struct subject libevent_common = {
	.name	= "libevent_common",
	.handle	= sizeof(struct event),
	.begin	= common_begin,
	.init	= libevent_init,
	.run	= common_run,
	.wait	= libevent_wait,
};

/* libuv. */

static uv_loop_t loop;

static_assert(sizeof(uv_timer_t) <= HANDLE_SIZE, "a timer has room");

static void libuv_begin(unsigned long n)
{
	(void)n;
	if (uv_loop_init(&loop))
		errx(1, "libuv");
}

static void libuv_fired(uv_timer_t *timer)
{
	conn_fired(timer->data);
}

static void libuv_init(struct conn *c)
{
	uv_timer_t *timer = handle_of(uv_timer_t, c);

	if (uv_timer_init(&loop, timer))
		errx(1, "libuv");
	timer->data = c;
}

static inline void libuv_arm(struct conn *c, __u64 delay)
{
	uv_timer_start(handle_of(uv_timer_t, c), libuv_fired, delay / NS_PER_MS, 0);
}

/* The loop's time is in whole ms: round up, so that nothing is early. */
static inline void libuv_arm_at(struct conn *c)
{
	uv_timer_start(handle_of(uv_timer_t, c), libuv_fired,
		       (c->due - 1) / NS_PER_MS + 1 - uv_now(&loop), 0);
}

static inline void libuv_cancel(struct conn *c)
{
	uv_timer_stop(handle_of(uv_timer_t, c));
}

static __u64 libuv_run(enum op op, struct range *r)
{
	/* As the loop does before it runs callbacks. */
	uv_update_time(&loop);
	return RUN_RANGE(op, r, 1, libuv_arm, libuv_arm_at, libuv_cancel, libuv_arm,
			 nothing_put_off);
}

static void libuv_wait(void)
{
	uv_run(&loop, UV_RUN_ONCE);
}

const struct subject libuv_timer = {
	.name	= "libuv",
	.handle	= sizeof(uv_timer_t),
	.begin	= libuv_begin,
	.init	= libuv_init,
	.run	= libuv_run,
	.wait	= libuv_wait,
};
