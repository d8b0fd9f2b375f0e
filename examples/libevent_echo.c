// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libevent_echo: an echo server on libevent that closes idle connections by libhwtimer. The
 * event loop needs one event for this, of hwtimer_fd().
 *
 * Calls of libevent, and their replacements:
 *
 *	event_assign(), event_add(timer, &tv)	hwtimer_schedule()
 *	event_add(timer, &tv), again		hwtimer_touch()
 *	event_del(timer)			hwtimer_cancel()
 *	the callback				an event of hwtimer_wait()
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <sys/queue.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "echo_common.h"
#include "options.h"

/* Do not read from a peer that leaves more bytes than this unsent. */
#define UNSENT_MAX	65536

struct conn {
	LIST_ENTRY(conn)	list;
	struct bufferevent	*io;
	__s64			heard;	/* time of the last message */
	hwtimer_id		timeout; /* 0: its event was returned */
};

enum close_reason { BY_IDLE, BY_PEER, BY_TROUBLE, BY_END };

static struct {
	__u64 opened, closed[4], refused, messages;
	__u64 armed, touched, cancelled, expired;	/* timeouts */
	__u64 overtaken;		/* a message came after the expiry */
	__u64 early, wrong, twice;
} counts;

static LIST_HEAD(, conn) conns = LIST_HEAD_INITIALIZER(conns);
static struct samples lateness;
static struct event_base *base;
static __s64 idle_ns = 30000 * NS_PER_MS;

/* Something was received: start or restart the timeout. Returns false on failure. */
static bool conn_heard(struct conn *c)
{
	c->heard = now_ns();
	if (c->timeout) {
		must(hwtimer_touch(timers, c->timeout, idle_ns), "hwtimer_touch");
		counts.touched++;
		return true;
	}
	if (hwtimer_schedule(timers, idle_ns, (uintptr_t)c, &c->timeout))
		return false;
	counts.armed++;
	return true;
}

static void conn_close(struct conn *c, enum close_reason why)
{
	if (c->timeout) {
		must(hwtimer_cancel(timers, c->timeout), "hwtimer_cancel");
		counts.cancelled++;
	}
	LIST_REMOVE(c, list);
	bufferevent_free(c->io);
	free(c);
	counts.closed[why]++;
}

/* Is there data to be read? */
static bool conn_readable(const struct conn *c)
{
	char byte;

	return bufferevent_get_enabled(c->io) & EV_READ &&
	       recv(bufferevent_getfd(c->io), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

/* The timeout of a connection has expired. */
static void conn_expired(struct conn *c)
{
	counts.expired++;
	sample(&lateness, now_ns() - (c->heard + idle_ns));
	/* Close only if there is nothing to read. Otherwise reading starts a new timeout. */
	if (conn_readable(c))
		counts.overtaken++;
	else
		conn_close(c, BY_IDLE);
}

/* hwtimer_fd() is readable. */
static void timers_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hwtimer_event event;
	struct conn *c;

	while (must(hwtimer_wait(timers, &event, 0), "hwtimer_wait")) {
		c = (struct conn *)(uintptr_t)event.user_data;
		if (c->timeout != event.id) {
			counts.twice++;
			continue;
		}
		c->timeout = 0;
		if (event.kind != HWTIMER_KIND_EXPIRED || event.overruns)
			counts.wrong++;
		if (event.taken_ns < event.deadline_ns || now_ns() < c->heard + idle_ns)
			counts.early++;
		conn_expired(c);
	}
}

static void conn_read(struct bufferevent *io, void *arg)
{
	struct conn *c = arg;

	counts.messages++;
	if (!conn_heard(c)) {
		warnx("no timeout for a connection, which is closed");
		conn_close(c, BY_TROUBLE);
		return;
	}
	bufferevent_write_buffer(io, bufferevent_get_input(io));
	if (evbuffer_get_length(bufferevent_get_output(io)) > UNSENT_MAX)
		bufferevent_disable(io, EV_READ);
}

/* All data was sent. */
static void conn_sent(struct bufferevent *io, void *arg)
{
	if (!(bufferevent_get_enabled(io) & EV_READ))
		bufferevent_enable(io, EV_READ);
}

static void conn_ended(struct bufferevent *io, short what, void *arg)
{
	conn_close(arg, BY_PEER);
}

static void conn_open(struct evconnlistener *listener, evutil_socket_t fd,
		      struct sockaddr *address, int len, void *arg)
{
	struct conn *c = calloc(1, sizeof(*c));
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!c)
		err(1, "a connection");
	c->io = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!c->io)
		err(1, "bufferevent_socket_new");
	if (!conn_heard(c)) {
		if (!counts.refused++)
			warnx("no timeout for a connection, which is refused");
		bufferevent_free(c->io);
		free(c);
		return;
	}
	LIST_INSERT_HEAD(&conns, c, list);
	bufferevent_setcb(c->io, conn_read, conn_sent, conn_ended, c);
	bufferevent_enable(c->io, EV_READ | EV_WRITE);
	counts.opened++;
}

static void accept_failed(struct evconnlistener *listener, void *arg)
{
	err(1, "accept");
}

static void stop(evutil_socket_t fd, short what, void *arg)
{
	event_base_loopexit(base, NULL);
}

/* Close all connections, and compare the counters. */
static void end_all(void)
{
	struct hwtimer_event event;
	struct hwtimer_stats stats;
	struct conn *c, *next;

	for (c = LIST_FIRST(&conns); c; c = next) {
		next = LIST_NEXT(c, list);
		conn_close(c, BY_END);
	}
	check("timeouts scheduled, and ended", counts.armed, counts.cancelled + counts.expired);
	check("events of timeouts that were cancelled, and should be",
	      must(hwtimer_wait(timers, &event, 0), "hwtimer_wait"), 0);
	must(hwtimer_stats(timers, &stats, sizeof(stats)), "hwtimer_stats");
	check("timeouts that are pending at the end, and should be", stats.pending, 0);
}

static void write_stats(const char *name)
{
	FILE *f = open_stats(name);

	write_count(f, "opened", counts.opened);
	write_count(f, "refused", counts.refused);
	write_count(f, "closed_idle", counts.closed[BY_IDLE]);
	write_count(f, "closed_peer", counts.closed[BY_PEER]);
	write_count(f, "closed_trouble", counts.closed[BY_TROUBLE]);
	write_count(f, "open_at_end", counts.closed[BY_END]);
	write_count(f, "messages", counts.messages);
	write_count(f, "armed", counts.armed);
	write_count(f, "touched", counts.touched);
	write_count(f, "cancelled", counts.cancelled);
	write_count(f, "expired", counts.expired);
	write_count(f, "overtaken", counts.overtaken);
	write_count(f, "early", counts.early);
	write_count(f, "twice", counts.twice);
	write_count(f, "wrong", counts.wrong);
	write_count(f, "wrong_books", wrong_books);
	write_count(f, "idle_ns", idle_ns);
	sort_samples(&lateness);
	write_samples(f, "late", &lateness);
	close_stats(f, name);
}

static void watch(struct event *event)
{
	if (!event || event_add(event, NULL))
		err(1, "libevent");
}

static const char usage[] =
	"usage: libevent_echo [OPTION]...\n"
	"An echo server on 127.0.0.1, on libevent, that closes idle connections.\n"
	"At SIGTERM and SIGINT it says what it did, and fails if a timeout of\n"
	"libhwtimer's was early, came twice or got lost.\n\n"
	"  --port N           port to listen on; 0: any that is free [7007]\n"
	"  --idle-ms N        close a connection after so many ms of silence [30000]\n"
	"  --max-conns N      serve no more than so many at once [100000, or what\n"
	"                     the limit of open files allows]\n"
	"  --stats-file FILE  write the statistics there, not to standard output\n"
	"  -h, --help         this text\n";

int main(int argc, char **argv)
{
	long port = 7007, max_conns = 100000, limit;
	const char *stats_file = NULL;
	const struct program_option options[] = {
		{ "port", .number = &port, .max = 65535 },
		{ "idle-ms", .ns = &idle_ns, .min = 1, .max = 1000000000 },
		{ "max-conns", .number = &max_conns, .min = 1, .max = 10000000 },
		{ "stats-file", .text = &stats_file },
		{ }
	};
	struct hwtimer_options timer_options = { .size = sizeof(timer_options) };
	struct evconnlistener *listener;

	parse_options(argc, argv, options, usage);
	setvbuf(stdout, NULL, _IOLBF, 0);
	limit = raise_nofile(max_conns + 16) - 16;
	if (limit < 1)
		errx(1, "the limit of open files is too low");

	base = event_base_new();
	if (!base)
		errx(1, "no event loop");
	timer_options.timeouts = max_conns < limit ? max_conns : limit;
	timers = open_timers(&timer_options);
	watch(event_new(base, hwtimer_fd(timers), EV_READ | EV_PERSIST, timers_readable, NULL));
	watch(evsignal_new(base, SIGTERM, stop, NULL));
	watch(evsignal_new(base, SIGINT, stop, NULL));
	listener = evconnlistener_new(base, conn_open, NULL, LEV_OPT_CLOSE_ON_EXEC, 0,
				      open_listener(port));
	if (!listener)
		err(1, "evconnlistener_new");
	evconnlistener_set_error_cb(listener, accept_failed);

	if (event_base_dispatch(base) < 0)
		errx(1, "the event loop failed");
	end_all();
	write_stats(stats_file);
	hwtimer_close(timers);
	return counts.early || counts.wrong || counts.twice || wrong_books;
}
