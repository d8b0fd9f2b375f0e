// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * idle_echo: a TCP echo server that closes idle connections. Each connection has a timeout of
 * libhwtimer, which every message pushes back. All timeouts are on one descriptor, in the epoll set
 * of the sockets.
 *
 * Races, and how they end:
 *
 *  - A message arrives, but the timeout has expired. Until hwtimer_wait() has returned the event,
 *    the timeout can still be pushed back.
 *  - hwtimer_wait() returns the event of a timeout, and a message has arrived since. The server
 *    reads from the socket before it closes it. If there is a message, the connection stays open
 *    and gets a new timeout.
 *  - The connection ends when its timeout has just expired. The timeout can still be cancelled,
 *    and then hwtimer_wait() does not return its event.
 *  - epoll has an event for a connection that was closed while earlier events were handled. It is
 *    ignored, because it contains the generation of the closed connection.
 *
 * So each event of hwtimer_wait() is for the current timeout of a connection. The server checks
 * this, and at the end it compares its counters, to find timeouts that expired twice or never.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <libhwtimer.h>

#include "options.h"

#define BACKLOG		4096
#define EVENTS		256

/* epoll_data of other descriptors than connections, whose generations begin at 1 */
enum { KEY_LISTENER, KEY_TIMER, KEY_SIGNAL };

struct conn {
	int		fd;		/* -1: free */
	__u32	generation;	/* incremented when the connection is closed */
	hwtimer_id	timeout;	/* 0: its event was returned */
	__u64		deadline;	/* of the timeout */
	__u32	next_free;
	__u32	unsent_len;
	__u32	unsent_done;
	char		*unsent;	/* rest of an echo that could not be sent yet */
};

enum close_reason { BY_IDLE, BY_PEER, BY_TROUBLE };

static struct {
	__u64 opened, closed[3], refused;
	__u64 messages;
	__u64 armed, touched, cancelled;	/* successfully */
	__u64 expired, handed_back;		/* events */
	__u64 overtaken;			/* a message came after the event */
	__u64 early, wrong, twice, lost;	/* wrong events, and missing ones */
	__u64 open_at_end;
	__u64 system_calls;			/* of the library */
} counts;

static struct hwtimer *timers;
static struct hwtimer_stats stats;
static struct samples lateness;
static __u64 wrong_books;
static struct conn *conns;
static __u32 max_conns = 100000, free_conn, live_conns, used_conns;
static __s64 idle_ns = 30000 * NS_PER_MS;
static int epoll_fd, listener;
static int stopping;

/* The Makefile links these in place of ioctl() and ppoll(), which only the library calls. */
int __real_ioctl(int fd, unsigned long command, ...);
int __wrap_ioctl(int fd, unsigned long command, ...);
int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *most, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *most, const sigset_t *mask);

int __wrap_ioctl(int fd, unsigned long command, ...)
{
	va_list list;
	void *arg;

	va_start(list, command);
	arg = va_arg(list, void *);
	va_end(list);
	counts.system_calls++;
	return __real_ioctl(fd, command, arg);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *most, const sigset_t *mask)
{
	counts.system_calls++;
	return __real_ppoll(fds, n, most, mask);
}

/* Exit if a call of the library failed that must not fail. */
static void must(int ret, const char *what)
{
	if (ret < 0) {
		errno = -ret;
		err(1, "%s", what);
	}
}

static __u64 conn_key(const struct conn *c)
{
	return (__u64)c->generation << 32 | (__u32)(c - conns);
}

/* Returns NULL if the connection was closed. */
static struct conn *conn_find(__u64 key)
{
	__u32 i = key;

	if (i >= used_conns || conns[i].fd < 0 || conns[i].generation != key >> 32)
		return NULL;
	return &conns[i];
}

static void watch(int op, int fd, __u32 events, __u64 key)
{
	struct epoll_event e = { .events = events, .data.u64 = key };

	if (epoll_ctl(epoll_fd, op, fd, &e))
		err(1, "epoll_ctl");
}

/* Schedule a new timeout for a connection. Returns false on failure. */
static int conn_arm(struct conn *c)
{
	c->deadline = hwtimer_now(timers) + idle_ns;
	if (hwtimer_schedule_at(timers, c->deadline, c - conns, &c->timeout))
		return 0;
	counts.armed++;
	return 1;
}

/* A message came: push the timeout back. */
static int conn_push_back(struct conn *c)
{
	/* The timeout has expired, but the message came before the connection was closed. */
	if (!c->timeout) {
		counts.overtaken++;
		return conn_arm(c);
	}
	c->deadline = hwtimer_now(timers) + idle_ns;
	must(hwtimer_touch_at(timers, c->timeout, c->deadline), "hwtimer_touch_at");
	counts.touched++;
	return 1;
}

static void conn_close(struct conn *c, enum close_reason why)
{
	if (c->timeout) {
		must(hwtimer_cancel(timers, c->timeout), "hwtimer_cancel");
		counts.cancelled++;
	}
	close(c->fd);
	free(c->unsent);
	c->unsent = NULL;
	c->fd = -1;
	c->timeout = 0;
	if (!++c->generation)
		c->generation = 1;
	c->next_free = free_conn;
	free_conn = c - conns;
	counts.closed[why]++;
	if (live_conns-- == max_conns)
		watch(EPOLL_CTL_MOD, listener, EPOLLIN, KEY_LISTENER);
}

/* Send, and keep the part that cannot be sent yet. Returns false if the peer is gone. */
static int conn_send(struct conn *c, const char *data, size_t len)
{
	ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return 0;
	if (n < 0)
		n = 0;
	if ((size_t)n == len)
		return 1;
	c->unsent = malloc(len - n);
	if (!c->unsent)
		return 0;
	memcpy(c->unsent, data + n, len - n);
	c->unsent_len = len - n;
	c->unsent_done = 0;
	/* Do not read until the rest is sent. */
	watch(EPOLL_CTL_MOD, c->fd, EPOLLOUT, conn_key(c));
	return 1;
}

static int conn_send_rest(struct conn *c)
{
	ssize_t n = send(c->fd, c->unsent + c->unsent_done, c->unsent_len - c->unsent_done,
			 MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->unsent_done += n;
	if (c->unsent_done == c->unsent_len) {
		free(c->unsent);
		c->unsent = NULL;
		watch(EPOLL_CTL_MOD, c->fd, EPOLLIN, conn_key(c));
	}
	return 1;
}

/*
 * Send unsent data, or read and echo a message. Returns 1: there was a message; 0: there was none;
 * -1: the connection was closed.
 */
static int conn_serve(struct conn *c)
{
	static char buffer[16384];
	ssize_t n;

	if (c->unsent) {
		if (conn_send_rest(c))
			return 0;
		conn_close(c, BY_PEER);
		return -1;
	}
	n = recv(c->fd, buffer, sizeof(buffer), 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		conn_close(c, BY_PEER);
		return -1;
	}
	counts.messages++;
	if (!conn_push_back(c)) {
		warn("no timeout for a connection, which is closed");
		conn_close(c, BY_TROUBLE);
		return -1;
	}
	if (!conn_send(c, buffer, n)) {
		conn_close(c, BY_PEER);
		return -1;
	}
	return 1;
}

static void conn_open(int fd)
{
	struct conn *c;
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c = &conns[free_conn];
	if (free_conn == used_conns) {
		c->generation = 1;
		c->next_free = ++used_conns;
	}
	c->fd = fd;
	if (!conn_arm(c)) {
		if (!counts.refused++)
			warn("no timeout for a connection, which is refused");
		c->fd = -1;
		close(fd);
		return;
	}
	free_conn = c->next_free;
	watch(EPOLL_CTL_ADD, fd, EPOLLIN, conn_key(c));
	counts.opened++;
	if (++live_conns == max_conns)
		watch(EPOLL_CTL_MOD, listener, 0, KEY_LISTENER);
}

static void accept_some(void)
{
	int fd, i;

	for (i = 0; i < EVENTS && live_conns < max_conns; i++) {
		fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
				err(1, "accept");
			return;
		}
		conn_open(fd);
	}
}

static void timeout_ended(const struct hwtimer_event *e)
{
	struct conn *c = &conns[e->user_data];

	/* The timeout has ended before. */
	if (c->timeout != e->id) {
		counts.twice++;
		return;
	}
	c->timeout = 0;
	/* The deadline was rounded up. */
	if (e->deadline_ns - c->deadline >= 1 << HWTIMER_UNIT_SHIFT || e->overruns)
		counts.wrong++;
	if (e->kind == HWTIMER_KIND_HANDED_BACK) {
		counts.handed_back++;
		return;
	}
	counts.expired++;
	sample(&lateness, (__s64)(e->taken_ns - e->deadline_ns));
	/* According to the library, and to the clock. */
	if (e->taken_ns < e->deadline_ns || hwtimer_now(timers) < c->deadline)
		counts.early++;
	if (!stopping && !conn_serve(c))
		conn_close(c, BY_IDLE);
}

/* Handle the events that there are. Returns what hwtimer_wait() returned in the end. */
static int take_events(void)
{
	struct hwtimer_event event;
	int ret;

	while ((ret = hwtimer_wait(timers, &event, 0)) > 0)
		timeout_ended(&event);
	return ret;
}

static void serve(void)
{
	struct epoll_event events[EVENTS];
	struct conn *c;
	int n, i, expired;

	while (!stopping) {
		n = epoll_wait(epoll_fd, events, EVENTS, -1);
		if (n < 0 && errno != EINTR)
			err(1, "epoll_wait");
		expired = 0;
		for (i = 0; i < n; i++) {
			switch (events[i].data.u64) {
			case KEY_LISTENER:
				accept_some();
				break;
			case KEY_TIMER:
				expired = 1;
				break;
			case KEY_SIGNAL:
				stopping = 1;
				break;
			default:
				c = conn_find(events[i].data.u64);
				if (c)
					conn_serve(c);
			}
		}
		/* After the messages, which may push timeouts back. */
		if (expired)
			must(take_events(), "hwtimer_wait");
	}
}

/* Count an error unless the counters @one and @other, described by @what, are equal. */
static void check(const char *what, __u64 one, __u64 other)
{
	if (one == other)
		return;
	warnx("%s: %llu and %llu", what, one, other);
	wrong_books++;
}

/* End all timeouts, and compare the counters. */
static void end_timeouts(void)
{
	__u32 i;
	int ret;

	must(hwtimer_stats(timers, &stats, sizeof(stats)), "hwtimer_stats");
	check("timeouts scheduled, and ended or pending", counts.armed,
	      counts.cancelled + counts.expired + stats.pending);
	must(hwtimer_stop(timers), "hwtimer_stop");
	ret = take_events();
	if (ret != -ESHUTDOWN) {
		warnx("after hwtimer_stop(), hwtimer_wait() returns %d", ret);
		wrong_books++;
	}
	for (i = 0; i < used_conns; i++) {
		counts.open_at_end += conns[i].fd >= 0;
		counts.lost += conns[i].timeout != 0;
	}
	check("timeouts scheduled, and ended one way or another", counts.armed,
	      counts.cancelled + counts.expired + counts.handed_back + counts.lost);
}

static void write_count(FILE *f, const char *key, __u64 value)
{
	fprintf(f, "%s %llu\n", key, value);
}

static void write_stats(const char *name)
{
	FILE *f = open_stats(name);

	write_count(f, "opened", counts.opened);
	write_count(f, "refused", counts.refused);
	write_count(f, "closed_idle", counts.closed[BY_IDLE]);
	write_count(f, "closed_peer", counts.closed[BY_PEER]);
	write_count(f, "closed_trouble", counts.closed[BY_TROUBLE]);
	write_count(f, "open_at_end", counts.open_at_end);
	write_count(f, "messages", counts.messages);
	write_count(f, "armed", counts.armed);
	write_count(f, "touched", counts.touched);
	write_count(f, "cancelled", counts.cancelled);
	write_count(f, "expired", counts.expired);
	write_count(f, "handed_back", counts.handed_back);
	write_count(f, "overtaken", counts.overtaken);
	write_count(f, "early", counts.early);
	write_count(f, "twice", counts.twice);
	write_count(f, "lost", counts.lost);
	write_count(f, "wrong", counts.wrong);
	write_count(f, "wrong_books", wrong_books);
	write_count(f, "in_process", hwtimer_in_process(timers));
	write_count(f, "system_calls", counts.system_calls);
	write_count(f, "looks", stats.looks);
	write_count(f, "timer_interrupts", stats.timers);
	sort_samples(&lateness);
	write_samples(f, "late", &lateness);
	close_stats(f, name);
}

/* Listen on the loopback interface, and print the port; @port 0: any free port. */
static int open_listener(int port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);
	int one = 1, fd;

	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		err(1, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, BACKLOG))
		err(1, "port %d", port);
	if (getsockname(fd, (struct sockaddr *)&address, &len))
		err(1, "getsockname");
	printf("port %d\n", ntohs(address.sin_port));
	return fd;
}

static int open_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		err(1, "signalfd");
	return fd;
}

static const char usage[] =
	"usage: idle_echo [OPTION]...\n"
	"A TCP echo server on 127.0.0.1 that closes idle connections by libhwtimer.\n"
	"At SIGTERM and SIGINT it says what it did, and fails if a timeout was early,\n"
	"came twice or got lost.\n\n"
	"  --port N           port to listen on; 0: any that is free [7007]\n"
	"  --idle-ms N        close a connection after so many ms of silence [30000]\n"
	"  --max-conns N      serve no more than so many at once [100000, or what\n"
	"                     the limit of open files allows]\n"
	"  --stats-file FILE  write the statistics there, not to standard output\n"
	"  -h, --help         this text\n";

int main(int argc, char **argv)
{
	struct hwtimer_options timer_options = { .size = sizeof(timer_options) };
	long port = 7007, conns_at_most = max_conns, limit;
	const char *stats_file = NULL;
	const struct program_option options[] = {
		{ "port", .number = &port, .max = 65535 },
		{ "idle-ms", .ns = &idle_ns, .min = 1, .max = 1000000000 },
		{ "max-conns", .number = &conns_at_most, .min = 1, .max = 10000000 },
		{ "stats-file", .text = &stats_file },
		{ }
	};

	parse_options(argc, argv, options, usage);
	setvbuf(stdout, NULL, _IOLBF, 0);
	limit = raise_nofile(conns_at_most + 16) - 16;
	if (limit < 1)
		errx(1, "the limit of open files is too low");
	max_conns = conns_at_most < limit ? conns_at_most : limit;
	conns = calloc(max_conns, sizeof(*conns));
	if (!conns)
		err(1, "no memory for %u connections", max_conns);

	timer_options.timeouts = max_conns;
	must(hwtimer_open(&timers, &timer_options), "hwtimer_open");
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		err(1, "epoll_create1");
	watch(EPOLL_CTL_ADD, hwtimer_fd(timers), EPOLLIN, KEY_TIMER);
	watch(EPOLL_CTL_ADD, open_signals(), EPOLLIN, KEY_SIGNAL);
	listener = open_listener(port);
	watch(EPOLL_CTL_ADD, listener, EPOLLIN, KEY_LISTENER);

	serve();
	end_timeouts();
	write_stats(stats_file);
	hwtimer_close(timers);
	return counts.early || counts.wrong || counts.twice || counts.lost || wrong_books;
}
