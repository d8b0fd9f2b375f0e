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
 *  - epoll has an event for a connection that was closed while earlier events were handled. If its
 *    descriptor has been given to a new one, that has nothing to read yet.
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

#include "idle_common.h"

#define BACKLOG		4096
#define MAX_FDS		100000
#define EVENTS		256

/* By its descriptor. */
struct conn {
	bool		open;
	hwtimer_id	timeout;	/* 0: its event was returned */
	__u64		deadline;	/* of the timeout */
};

static struct {
	__u64 opened, closed_idle, closed_peer, closed_trouble, refused;
	__u64 messages;
	__u64 armed, touched, cancelled;	/* successfully */
	__u64 expired, handed_back;		/* events */
	__u64 overtaken;			/* a message came after the event */
	__u64 early, wrong, twice, lost;	/* wrong events, and missing ones */
	__u64 open_at_end, wrong_books;
	__u64 system_calls;			/* of the library */
} counts;

static struct hwtimer *timers;
static struct hwtimer_stats stats;
static struct samples lateness;
static struct conn *conns;
static int max_fds, epoll_fd, listener, signals;
static __s64 idle_ns = 30000 * NS_PER_MS;
static bool stopping;

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

static void watch(int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e))
		err(1, "epoll_ctl");
}

/* Schedule a new timeout for a connection. Returns false on failure. */
static bool conn_arm(struct conn *c)
{
	c->deadline = hwtimer_now(timers) + idle_ns;
	if (hwtimer_schedule_at(timers, c->deadline, c - conns, &c->timeout))
		return false;
	counts.armed++;
	return true;
}

/* A message came: push the timeout back. */
static bool conn_push_back(struct conn *c)
{
	/* The timeout has expired, but the message came before the connection was closed. */
	if (!c->timeout) {
		counts.overtaken++;
		return conn_arm(c);
	}
	c->deadline = hwtimer_now(timers) + idle_ns;
	must(hwtimer_touch_at(timers, c->timeout, c->deadline), "hwtimer_touch_at");
	counts.touched++;
	return true;
}

static void conn_close(struct conn *c, __u64 *count)
{
	int fd = c - conns;

	if (c->timeout) {
		must(hwtimer_cancel(timers, c->timeout), "hwtimer_cancel");
		counts.cancelled++;
	}
	*c = (struct conn){ .open = false };
	close(fd);
	++*count;
}

/* Read and echo a message. Returns whether there was any, or the end. */
static bool conn_serve(struct conn *c)
{
	static char buffer[16384];
	ssize_t n = recv(c - conns, buffer, sizeof(buffer), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	counts.messages += n > 0;
	if (n > 0 && !conn_push_back(c)) {
		warn("no timeout for a connection, which is closed");
		conn_close(c, &counts.closed_trouble);
	} else if (n <= 0 || send(c - conns, buffer, n, MSG_NOSIGNAL) != n) {
		/* It is gone, or does not take its echoes. */
		conn_close(c, &counts.closed_peer);
	}
	return true;
}

static void conn_refuse(int fd, const char *why)
{
	if (!counts.refused++)
		warnx("%s", why);
	close(fd);
}

static void conn_open(int fd)
{
	struct conn *c = &conns[fd];
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!conn_arm(c)) {
		conn_refuse(fd, "no timeout for a connection, which is refused");
		return;
	}
	c->open = true;
	watch(fd);
	counts.opened++;
}

static void accept_some(void)
{
	int fd, i;

	for (i = 0; i < EVENTS; i++) {
		fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		if (fd < max_fds)
			conn_open(fd);
		else
			conn_refuse(fd, "too many connections");
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
		conn_close(c, &counts.closed_idle);
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
	int n, i, fd;
	bool expired;

	while (!stopping) {
		n = epoll_wait(epoll_fd, events, EVENTS, -1);
		if (n < 0 && errno != EINTR)
			err(1, "epoll_wait");
		expired = false;
		for (i = 0; i < n; i++) {
			fd = events[i].data.fd;
			if (fd == listener)
				accept_some();
			else if (fd == hwtimer_fd(timers))
				expired = true;
			else if (fd == signals)
				stopping = true;
			else if (conns[fd].open)
				conn_serve(&conns[fd]);
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
	counts.wrong_books++;
}

/* End all timeouts, and compare the counters. */
static void end_timeouts(void)
{
	int i, ret;

	must(hwtimer_stats(timers, &stats, sizeof(stats)), "hwtimer_stats");
	check("timeouts scheduled, and ended or pending", counts.armed,
	      counts.cancelled + counts.expired + stats.pending);
	must(hwtimer_stop(timers), "hwtimer_stop");
	ret = take_events();
	if (ret != -ESHUTDOWN) {
		warnx("after hwtimer_stop(), hwtimer_wait() returns %d", ret);
		counts.wrong_books++;
	}
	for (i = 0; i < max_fds; i++) {
		counts.open_at_end += conns[i].open;
		counts.lost += conns[i].timeout != 0;
	}
	check("timeouts scheduled, and ended one way or another", counts.armed,
	      counts.cancelled + counts.expired + counts.handed_back + counts.lost);
}

#define PRINT(name)	printf(#name " %llu\n", counts.name)

static void print_stats(const char *file)
{
	print_to(file);
	PRINT(opened);
	PRINT(refused);
	PRINT(closed_idle);
	PRINT(closed_peer);
	PRINT(closed_trouble);
	PRINT(open_at_end);
	PRINT(messages);
	PRINT(armed);
	PRINT(touched);
	PRINT(cancelled);
	PRINT(expired);
	PRINT(handed_back);
	PRINT(overtaken);
	PRINT(early);
	PRINT(twice);
	PRINT(lost);
	PRINT(wrong);
	PRINT(wrong_books);
	PRINT(system_calls);
	printf("in_process %d\n", hwtimer_in_process(timers));
	printf("looks %llu\n", stats.looks);
	printf("timer_interrupts %llu\n", stats.timers);
	print_samples("late", &lateness);
	end_print();
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
	"  --stats-file FILE  write the statistics there, not to standard output\n"
	"  -h, --help         this text\n";

int main(int argc, char **argv)
{
	struct hwtimer_options timer_options = { .size = sizeof(timer_options) };
	long port = 7007;
	const char *stats_file = NULL;
	const struct program_option options[] = {
		{ "port", .number = &port, .max = 65535 },
		{ "idle-ms", .ns = &idle_ns, .min = 1, .max = 1000000000 },
		{ "stats-file", .text = &stats_file },
		{ }
	};

	parse_options(argc, argv, options, usage);
	setvbuf(stdout, NULL, _IOLBF, 0);
	max_fds = raise_nofile(MAX_FDS) - 1;	/* one to refuse more */
	conns = calloc(max_fds, sizeof(*conns));
	if (!conns)
		err(1, "no memory for %d connections", max_fds);
	timer_options.timeouts = max_fds;
	must(hwtimer_open(&timers, &timer_options), "hwtimer_open");
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		err(1, "epoll_create1");
	signals = open_signals();
	listener = open_listener(port);
	watch(hwtimer_fd(timers));
	watch(signals);
	watch(listener);

	serve();
	end_timeouts();
	print_stats(stats_file);
	hwtimer_close(timers);
	return counts.early || counts.wrong || counts.twice || counts.lost ||
	       counts.wrong_books;
}
