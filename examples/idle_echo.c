// SPDX-License-Identifier: GPL-2.0-only
/*
 * idle_echo: a TCP echo server that closes connections on which nothing came for
 * a while. Each connection has a timeout on /dev/hwtimer, which is pushed back at
 * every message. All of them are on one descriptor, in the epoll set beside the
 * sockets.
 *
 * What happens at the same time, and how it ends:
 *
 *  - A message is there, but the timeout expired before it could be pushed
 *    back (HWTIMER_IOC_TOUCH says ENOENT). The message counts: the connection
 *    gets a new timeout. The record of the old one, to be read soon, carries an id
 *    that is not the connection's any more, and is stale.
 *  - A record says that a timeout expired, and a message came since. The socket
 *    is looked at once more before it is closed, so a connection is closed only
 *    if there was nothing to read.
 *  - The connection ends when its timeout has just expired (HWTIMER_IOC_CANCEL
 *    says ENOENT). The record is stale: the place of the connection is empty, or
 *    somebody else's who has another id. Ids are never used again.
 *  - An event of epoll's for a connection that was closed while the events before
 *    it were handled: it carries the connection's generation.
 *
 * Each record is either for a connection's present timeout, or stale and foreseen by
 * an ENOENT. The books of both are compared at the end, with those of the device,
 * so a timeout that expires twice, or never, is found.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/hwtimer.h>

#include "idle_common.h"

#define DEVICE		"/dev/hwtimer"
#define BACKLOG		4096
#define EVENTS		256
#define RECORDS		128
#define OWN_SLOTS	1024

/* epoll_data of what is not a connection; generations begin at 1 */
enum { KEY_LISTENER, KEY_TIMER, KEY_SIGNAL };

struct conn {
	int		fd;		/* -1: free */
	__u32	generation;	/* of this place; changes when it is closed */
	__u64	timeout;	/* its id; 0: it expired, and we know */
	__u64	deadline;	/* as the device said */
	__s64		heard;		/* when it was last pushed back */
	__u32	next_free;
	__u32	unsent_len;
	__u32	unsent_done;
	char		*unsent;	/* rest of an echo that the peer had no room for */
};

enum close_reason { BY_IDLE, BY_PEER, BY_TROUBLE };

static struct {
	__u64 opened, closed[3], refused, peak;
	__u64 messages, bytes;
	__u64 armed, touched, cancelled;	/* ioctls that succeeded */
	__u64 expired, handed_back;		/* records */
	__u64 foreseen, stale;		/* records of timeouts that are no more */
	__u64 overtaken;			/* a message was quicker than the record */
	__u64 early, wrong;			/* records, and what is wrong with them */
	__u64 open_at_end, wrong_books;
} counts;

static struct samples lateness;
static struct conn *conns;
static __u32 max_conns = 100000, free_conn, live_conns, used_conns;
static __s64 idle_ns = 30000 * NS_PER_MS;
static __u64 tick_ns;
static int epoll_fd, listener, timer_fd;
static int stopping;

static __u64 conn_key(const struct conn *c)
{
	return (__u64)c->generation << 32 | (__u32)(c - conns);
}

/* NULL if it was closed. */
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

/* Give it a new timeout. False, with errno, if there can be none. */
static int conn_arm(struct conn *c)
{
	struct hwtimer_schedule s = {
		.flags = HWTIMER_RELATIVE, .time = idle_ns, .user_data = conn_key(c),
	};

	c->heard = now_ns();
	if (ioctl(timer_fd, HWTIMER_IOC_SCHEDULE, &s))
		return 0;
	counts.armed++;
	c->timeout = s.id;
	c->deadline = s.deadline;
	return 1;
}

/* Push its timeout back, because a message came. */
static int conn_push_back(struct conn *c)
{
	struct hwtimer_touch t = {
		.flags = HWTIMER_RELATIVE, .time = idle_ns, .id = c->timeout,
	};
	__s64 now = now_ns();

	if (c->timeout) {
		if (!ioctl(timer_fd, HWTIMER_IOC_TOUCH, &t)) {
			counts.touched++;
			c->heard = now;
			c->deadline = t.deadline;
			return 1;
		}
		if (errno != ENOENT)
			err(1, "HWTIMER_IOC_TOUCH");
		counts.foreseen++;
	}
	/* It has expired, but the message was here before we closed. */
	counts.overtaken++;
	return conn_arm(c);
}

static void conn_close(struct conn *c, enum close_reason why)
{
	struct hwtimer_cancel cancel = { .id = c->timeout };

	if (c->timeout) {
		if (!ioctl(timer_fd, HWTIMER_IOC_CANCEL, &cancel))
			counts.cancelled++;
		else if (errno == ENOENT)
			counts.foreseen++;
		else
			err(1, "HWTIMER_IOC_CANCEL");
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

/* Send, and keep what there is no room for. False if the peer is gone. */
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
	/* Read no more until it is sent. */
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
 * Do what there is to do. 1: there was a message, 0: there was none, -1: the
 * connection is no more.
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
	counts.bytes += n;
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
	if (++live_conns > counts.peak)
		counts.peak = live_conns;
	if (live_conns == max_conns)
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

static void timeout_ended(const struct hwtimer_record *r)
{
	struct conn *c = conn_find(r->user_data);

	if (r->kind == HWTIMER_EXPIRED)
		counts.expired++;
	else
		counts.handed_back++;

	/* Of a connection, or of a timeout of its, that is no more. */
	if (!c || c->timeout != r->id) {
		counts.stale++;
		return;
	}
	c->timeout = 0;
	if (r->deadline != c->deadline || r->overruns || r->error)
		counts.wrong++;
	if (r->kind == HWTIMER_HANDED_BACK)
		return;

	sample(&lateness, (__s64)(r->fired - r->deadline));
	/* By the device's clock, and by our own. */
	if (r->fired < r->deadline || now_ns() < c->heard + idle_ns)
		counts.early++;
	if (!stopping && !conn_serve(c))
		conn_close(c, BY_IDLE);
}

/* Read records once. False if there are no more. */
static int read_records(void)
{
	struct hwtimer_record r[RECORDS];
	ssize_t n = read(timer_fd, r, sizeof(r)), i;

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		err(1, "%s", DEVICE);
	for (i = 0; i < n / (ssize_t)sizeof(*r); i++)
		timeout_ended(&r[i]);
	return n > 0;
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
		/* Last, since what came in before may push timeouts back. */
		if (expired)
			read_records();
	}
}

static void check(const char *what, __u64 ours, __u64 theirs)
{
	if (ours == theirs)
		return;
	warnx("%s: %llu by our books, %llu by the device's", what, ours, theirs);
	counts.wrong_books++;
}

/* End all timeouts and compare the books. */
static void end_timeouts(void)
{
	struct hwtimer_stop s = { 0 };
	struct hwtimer_stats stats = { 0 };
	__u32 i;

	if (ioctl(timer_fd, HWTIMER_IOC_STOP, &s))
		err(1, "HWTIMER_IOC_STOP");
	while (read_records())
		;
	if (ioctl(timer_fd, HWTIMER_IOC_STATS, &stats))
		err(1, "HWTIMER_IOC_STATS");
	for (i = 0; i < used_conns; i++) {
		if (conns[i].fd < 0)
			continue;
		counts.open_at_end++;
		if (conns[i].timeout) {
			warnx("a timeout neither expired nor was handed back");
			counts.wrong_books++;
		}
	}
	check("stale records", counts.foreseen, counts.stale);
	check("timeouts scheduled", counts.armed, stats.scheduled);
	check("timeouts touched", counts.touched, stats.touched);
	check("timeouts cancelled", counts.cancelled, stats.cancelled);
	check("timeouts expired", counts.expired, stats.expired);
	check("timeouts handed back", counts.handed_back, stats.handed_back);
	check("timeouts handed back by stop", counts.handed_back, s.handed_back);
	check("timeouts pending at the end", 0, stats.pending);
	check("records unread at the end", 0, stats.unread);
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
	write_count(f, "peak", counts.peak);
	write_count(f, "closed_idle", counts.closed[BY_IDLE]);
	write_count(f, "closed_peer", counts.closed[BY_PEER]);
	write_count(f, "closed_trouble", counts.closed[BY_TROUBLE]);
	write_count(f, "open_at_end", counts.open_at_end);
	write_count(f, "messages", counts.messages);
	write_count(f, "bytes", counts.bytes);
	write_count(f, "armed", counts.armed);
	write_count(f, "touched", counts.touched);
	write_count(f, "cancelled", counts.cancelled);
	write_count(f, "expired", counts.expired);
	write_count(f, "handed_back", counts.handed_back);
	write_count(f, "overtaken", counts.overtaken);
	write_count(f, "stale", counts.stale);
	write_count(f, "early", counts.early);
	/* Records that no ENOENT foresaw, and those that it foresaw in vain. */
	write_count(f, "twice", counts.stale > counts.foreseen ?
				counts.stale - counts.foreseen : 0);
	write_count(f, "lost", counts.foreseen > counts.stale ?
			       counts.foreseen - counts.stale : 0);
	write_count(f, "wrong", counts.wrong);
	write_count(f, "wrong_books", counts.wrong_books);
	write_count(f, "idle_ns", idle_ns);
	write_count(f, "tick_ns", tick_ns);
	sort_samples(&lateness);
	write_samples(f, "late", &lateness);
	close_stats(f, name);
}

static int open_timer(long own_tick_ms)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC };
	int fd = open(DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && (errno == ENOENT || errno == ENXIO || errno == ENODEV))
		errx(1, "there is no " DEVICE ": is the module loaded? (insmod hwtimer.ko)");
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		errx(1, "no right to use " DEVICE ", which is root's unless a udev rule says else");
	if (fd < 0)
		err(1, DEVICE);
	if (own_tick_ms) {
		setup.flags = HWTIMER_SETUP_OWN_WHEEL;
		setup.tick_ns = own_tick_ms * NS_PER_MS;
		setup.slots = OWN_SLOTS;
	}
	if (ioctl(fd, HWTIMER_IOC_SETUP, &setup))
		err(1, "cannot set up %s", own_tick_ms ? "a wheel of our own" : DEVICE);
	tick_ns = setup.tick_ns;
	return fd;
}

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

static void print_help(FILE *f)
{
	fprintf(f, "usage: idle_echo [OPTION]...\n"
		"A TCP echo server on 127.0.0.1 that closes idle connections by " DEVICE ".\n"
		"At SIGTERM and SIGINT it says what it did, and fails if a timeout was early,\n"
		"came twice or got lost.\n\n"
		"  --port N           port to listen on; 0: any that is free [7007]\n"
		"  --idle-ms N        close a connection after so many ms of silence [30000]\n"
		"  --own-wheel MS     a wheel of our own with such a tick, not the shared one\n"
		"  --max-conns N      serve no more than so many at once [100000, or what\n"
		"                     the limit of open files allows]\n"
		"  --stats-file FILE  write the statistics there, not to standard output\n"
		"  -h, --help         this text\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "idle-ms", required_argument, NULL, 'i' },
		{ "own-wheel", required_argument, NULL, 'o' },
		{ "max-conns", required_argument, NULL, 'm' },
		{ "stats-file", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	const char *stats_file = NULL;
	long own_tick_ms = 0, limit;
	int port = 7007, option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'p':
			port = option_number("port", optarg, 0, 65535);
			break;
		case 'i':
			idle_ns = option_number("idle-ms", optarg, 1, 1000000000) * NS_PER_MS;
			break;
		case 'o':
			own_tick_ms = option_number("own-wheel", optarg, 1, 1000000);
			break;
		case 'm':
			max_conns = option_number("max-conns", optarg, 1, 10000000);
			break;
		case 's':
			stats_file = optarg;
			break;
		case 'h':
			print_help(stdout);
			return 0;
		default:
			print_help(stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		print_help(stderr);
		return EXIT_USAGE;
	}

	setvbuf(stdout, NULL, _IOLBF, 0);
	limit = raise_nofile(max_conns + 16L) - 16;
	if (limit < 1)
		errx(1, "the limit of open files is too low");
	if ((long)max_conns > limit)
		max_conns = limit;
	conns = calloc(max_conns, sizeof(*conns));
	if (!conns)
		err(1, "no memory for %u connections", max_conns);

	timer_fd = open_timer(own_tick_ms);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		err(1, "epoll_create1");
	watch(EPOLL_CTL_ADD, timer_fd, EPOLLIN, KEY_TIMER);
	watch(EPOLL_CTL_ADD, open_signals(), EPOLLIN, KEY_SIGNAL);
	listener = open_listener(port);
	watch(EPOLL_CTL_ADD, listener, EPOLLIN, KEY_LISTENER);

	serve();
	end_timeouts();
	write_stats(stats_file);
	return counts.early || counts.wrong || counts.wrong_books;
}
