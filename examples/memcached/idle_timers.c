// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * memcached's timeouts of idle connections, by libhwtimer. The script "edit" inserts the calls.
 *
 * Each worker thread has a handle of its own, and does everything with its connections itself, so
 * there is no lock. Nobody else can get the handle, and write to it, so the user data of a timeout
 * may be the address of its connection.
 */
#include "memcached.h"

#include <libhwtimer.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Then the worker's connections have their turn. */
#define EVENTS		256
#define NS_PER_S	1000000000ULL

static __thread struct hwtimer *timers;	/* NULL in threads that are no workers */
static __thread struct event readable;

static void idle_schedule(conn *c, uint64_t delay_ns)
{
	int ret = hwtimer_schedule(timers, delay_ns, (uintptr_t)c, &c->idle_id);

	if (!ret)
		return;
	/* Without a timeout it might stay for ever. The worker will find that it has ended. */
	fprintf(stderr, "No idle timeout for fd %d: %s\n", c->sfd, strerror(-ret));
	shutdown(c->sfd, SHUT_RDWR);
}

void idle_heard(conn *c)
{
	if (!timers || !IS_TCP(c->transport))
		return;
	if (!c->idle_id)
		idle_schedule(c, settings.idle_timeout * NS_PER_S);
	else
		hwtimer_touch(timers, c->idle_id, settings.idle_timeout * NS_PER_S);
}

void idle_forget(conn *c)
{
	if (!timers || !c->idle_id)
		return;
	hwtimer_cancel(timers, c->idle_id);
	c->idle_id = 0;
}

/* Is a command being handled, or is there something to read? */
static bool idle_busy(const conn *c)
{
	char byte;

	return (c->state != conn_new_cmd && c->state != conn_read) ||
	       recv(c->sfd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

static void idle_expired(evutil_socket_t fd, short what, void *arg)
{
	struct hwtimer_event event;
	conn *c;

	for (int i = 0; i < EVENTS && hwtimer_wait(timers, &event, 0) > 0; i++) {
		c = (conn *)(uintptr_t)event.user_data;
		c->idle_id = 0;
		/* As the thread did that memcached had for this, look again after a second. */
		if (idle_busy(c))
			idle_schedule(c, NS_PER_S);
		else
			conn_close_idle(c);
	}
}

void idle_begin(struct event_base *base)
{
	int ret;

	if (!settings.idle_timeout)
		return;
	ret = hwtimer_open(&timers, NULL);
	if (ret) {
		fprintf(stderr, "Can't set up idle timeouts: %s\n", strerror(-ret));
		exit(EXIT_FAILURE);
	}
	event_assign(&readable, base, hwtimer_fd(timers), EV_READ | EV_PERSIST, idle_expired, NULL);
	if (event_add(&readable, NULL)) {
		fprintf(stderr, "Can't wait for idle timeouts\n");
		exit(EXIT_FAILURE);
	}
}

void idle_end(void)
{
	if (!timers)
		return;
	event_del(&readable);
	hwtimer_close(timers);
	timers = NULL;
}
