// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * idle_load: clients that check whether idle_echo closes idle connections at the right time. Some
 * connections send messages for a while, at random intervals below the server's idle time, then
 * are silent; some never send a message; some hang up. In the end each connection must be closed
 * by its timeout or by the client.
 *
 * This program does not use hwtimer, because it checks a user of it.
 *
 * The server cannot receive a message before it was sent. So a connection whose last message was
 * sent at time T must not be closed before T plus the idle time. This requires that the message
 * was sent in time; a message that was sent late (this program was delayed) counts only if it is
 * echoed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "idle_common.h"

#define MESSAGE_MIN	16
#define MESSAGE_MAX	256
#define NOOP_LEN	4	/* memcached's command that does nothing, and its answer */
#define MAX_CONNS	28000	/* about the default number of local ports */
#define EVENTS		256

enum state { NOT_YET, TALKING, SILENT, HANGING_UP, OVER };

struct conn {
	enum state	state;
	int		fd;
	bool		hangs_up;	/* instead of becoming silent */
	bool		waiting;	/* for an echo */
	unsigned int	len;		/* of the last message */
	unsigned int	got;		/* of its echo */
	__u32		number;		/* of the last message */
	__s64		talks_until;
	__s64		base;		/* earliest time at which the server heard from us */
	__s64		sent;		/* when the message was sent */
};

/* The next action of a connection, which has at most one plan. */
struct plan {
	__s64	when;
	__u32	conn;
};

static struct {
	unsigned int open, opened, closed_idle, hung_up, hung_up_late;
	unsigned int early, never, refused, wrong_echo, overslept;
	unsigned long messages;
} counts;

static struct samples lateness, sleeps;
static atomic_bool all_over;
static struct conn *conns;
static struct plan *heap;
static unsigned int heap_size, max_conns = 2000;
static __s64 idle_ns = 2000 * NS_PER_MS;
static __s64 talk_ns = 10000 * NS_PER_MS;
static __s64 ramp_ns = 3000 * NS_PER_MS;
static __s64 bound_ns = 5000 * NS_PER_MS;
static __s64 start;
static __u64 seed;
static long port = 7007;
static bool memcached;
static int epoll_fd;

/* splitmix64 */
static __u64 mix(__u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* From @min to @max, both included. */
static __s64 pick(__s64 min, __s64 max)
{
	static __u64 state;

	return min + (__s64)(mix(seed ^ mix(++state)) % (__u64)(max - min + 1));
}

static unsigned int conn_index(const struct conn *c)
{
	return c - conns;
}

static void heap_swap(unsigned int a, unsigned int b)
{
	struct plan p = heap[a];

	heap[a] = heap[b];
	heap[b] = p;
}

static void plan(const struct conn *c, __s64 when)
{
	unsigned int i = heap_size++;

	heap[i].when = when;
	heap[i].conn = conn_index(c);
	for (; i && heap[i].when < heap[(i - 1) / 2].when; i = (i - 1) / 2)
		heap_swap(i, (i - 1) / 2);
}

static struct conn *next_planned(void)
{
	struct conn *c = &conns[heap[0].conn];
	unsigned int i = 0, child;

	heap[0] = heap[--heap_size];
	while ((child = 2 * i + 1) < heap_size) {
		if (child + 1 < heap_size && heap[child + 1].when < heap[child].when)
			child++;
		if (heap[i].when <= heap[child].when)
			break;
		heap_swap(i, child);
		i = child;
	}
	return c;
}

/* Compute the current message of @c, to send it or, if @echo, to compare what came back. */
static void fill_message(const struct conn *c, char *data, bool echo)
{
	__u64 x = mix(seed + ((__u64)conn_index(c) << 32 | c->number));
	unsigned int i;

	if (memcached) {
		memcpy(data, echo ? "MN\r\n" : "mn\r\n", NOOP_LEN);
		return;
	}
	for (i = 0; i < c->len; i++) {
		if (i % 8 == 0)
			x = mix(x);
		data[i] = x >> (i % 8 * 8);
	}
}

static void conn_over(struct conn *c)
{
	close(c->fd);
	c->state = OVER;
	counts.open--;
}

/* The server closed it, or confirmed that we did. */
static void conn_closed(struct conn *c, __s64 now)
{
	__s64 late = now - (c->base + idle_ns);

	if (c->state == HANGING_UP) {
		counts.hung_up++;
	} else {
		counts.closed_idle++;
		sample(&lateness, late);
		if (late < 0) {
			counts.early++;
			if (counts.early <= 10)
				warnx("connection %u: closed %.3f ms early", conn_index(c),
				      -late / 1e6);
		}
	}
	conn_over(c);
}

static void conn_never_closed(struct conn *c, __s64 now)
{
	if (++counts.never <= 10)
		warnx("connection %u: still open %.1f s after its last message",
		      conn_index(c), (now - c->base) / 1e9);
	conn_over(c);
}

static void conn_wrong(struct conn *c, const char *what)
{
	if (++counts.wrong_echo <= 10)
		warnx("connection %u: %s", conn_index(c), what);
	conn_over(c);
}

static void conn_readable(struct conn *c)
{
	char data[MESSAGE_MAX + 1], expected[MESSAGE_MAX];
	ssize_t n = recv(c->fd, data, sizeof(data), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_closed(c, now_ns());
		return;
	}
	if (!c->waiting || c->got + n > c->len) {
		conn_wrong(c, "more came back than was sent");
		return;
	}
	fill_message(c, expected, true);
	if (memcmp(expected + c->got, data, n)) {
		conn_wrong(c, "something else came back than was sent");
		return;
	}
	c->got += n;
	if (c->got < c->len)
		return;
	c->waiting = false;
	c->base = c->sent;
	counts.messages++;
}

static void conn_open(struct conn *c)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = conn_index(c) };
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		err(1, "socket");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->base = now_ns();
	if (connect(c->fd, (struct sockaddr *)&address, sizeof(address))) {
		if (!counts.opened)
			err(1, "no server at port %ld", port);
		if (++counts.refused <= 10)
			warn("connection %u", conn_index(c));
		close(c->fd);
		c->state = OVER;
		return;
	}
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event))
		err(1, "epoll_ctl");
	counts.opened++;
	counts.open++;
}

static void conn_send(struct conn *c)
{
	char data[MESSAGE_MAX];
	__s64 sent;

	c->len = memcached ? NOOP_LEN : pick(MESSAGE_MIN, MESSAGE_MAX);
	c->number++;
	c->got = 0;
	fill_message(c, data, false);
	sent = now_ns();
	if (send(c->fd, data, c->len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)c->len) {
		/* If the connection is closed, the next read shows it. */
		if (errno != EPIPE && errno != ECONNRESET)
			conn_wrong(c, "cannot send");
		return;
	}
	c->waiting = true;
	c->sent = sent;
	/* In time, with a margin for the way to the server? */
	if (now_ns() < c->base + idle_ns - idle_ns / 10)
		c->base = sent;
	else
		counts.overslept++;
}

static void conn_hang_up(struct conn *c, __s64 now)
{
	/* Has the server closed it already? */
	conn_readable(c);
	if (c->state == OVER)
		return;
	c->state = HANGING_UP;
	shutdown(c->fd, SHUT_WR);
	/* The server may have closed it before the shutdown(). */
	if (now_ns() >= c->base + idle_ns - idle_ns / 10)
		counts.hung_up_late++;
	plan(c, now + bound_ns);
}

/* Do what was planned for now. */
static void conn_act(struct conn *c)
{
	__s64 now = now_ns();

	switch (c->state) {
	case NOT_YET:
		conn_open(c);
		if (c->state == OVER)
			return;
		if (c->talks_until || c->hangs_up) {
			c->state = TALKING;
			c->talks_until += now;
			plan(c, now + pick(0, idle_ns / 2));
		} else {
			c->state = SILENT;
			plan(c, now + idle_ns + bound_ns);
		}
		break;
	case TALKING:
		if (c->waiting && now > c->sent + idle_ns + bound_ns) {
			conn_never_closed(c, now);
		} else if (c->waiting) {
			plan(c, now + idle_ns / 50);
		} else if (now < c->talks_until) {
			conn_send(c);
			if (c->state != OVER)
				plan(c, now + pick(idle_ns / 4, idle_ns * 6 / 10));
		} else if (c->hangs_up) {
			conn_hang_up(c, now);
		} else {
			c->state = SILENT;
			plan(c, c->base + idle_ns + bound_ns);
		}
		break;
	case SILENT:
	case HANGING_UP:
		/* It may be closed, but not read by us yet. */
		conn_readable(c);
		if (c->state == OVER)
			return;
		conn_never_closed(c, now);
		break;
	case OVER:
		break;
	}
}

static void show_progress(__s64 now)
{
	static unsigned long messages;
	static __s64 shown;

	if (now - shown < 1000 * NS_PER_MS)
		return;
	if (shown)
		printf("%5.0f s: %5u open, %5lu messages/s, closed by timeout %5u, by us %4u\n",
		       (now - start) / 1e9, counts.open,
		       (unsigned long)((counts.messages - messages) * 1e9 / (now - shown)),
		       counts.closed_idle, counts.hung_up);
	shown = now;
	messages = counts.messages;
}

static void run(void)
{
	struct epoll_event events[EVENTS];
	int n, i, wait;
	__s64 now;

	while (heap_size) {
		now = now_ns();
		show_progress(now);
		if (heap[0].when <= now) {
			conn_act(next_planned());
			wait = 0;
		} else {
			wait = (heap[0].when - now) / NS_PER_MS + 1;
		}
		/* Read even if actions are overdue. */
		n = epoll_wait(epoll_fd, events, EVENTS, wait < 200 ? wait : 200);
		if (n < 0 && errno != EINTR)
			err(1, "epoll_wait");
		for (i = 0; i < n; i++)
			if (conns[events[i].data.u32].state != OVER)
				conn_readable(&conns[events[i].data.u32]);
		if (!counts.open && counts.opened + counts.refused == max_conns)
			break;
	}
}

/*
 * For comparison, measure how late a thread is that only sleeps: this part of the lateness is
 * caused by the machine.
 */
static void *sleep_often(void *unused)
{
	struct timespec t;
	__s64 until;

	while (!all_over) {
		until = now_ns() + 10 * NS_PER_MS;
		t.tv_sec = until / 1000000000;
		t.tv_nsec = until % 1000000000;
		if (!clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
			sample(&sleeps, now_ns() - until);
	}
	return unused;
}

/* Of twenty connections, two never send a message and one hangs up. */
static void make_plans(void)
{
	struct conn *c;
	__s64 kind;

	start = now_ns();
	for (c = conns; c < conns + max_conns; c++) {
		kind = pick(0, 19);
		c->hangs_up = kind == 0;
		if (kind > 2)
			c->talks_until = pick(0, talk_ns);
		else if (c->hangs_up)
			c->talks_until = pick(0, talk_ns / 2);
		plan(c, start + pick(0, ramp_ns));
	}
}

#define PRINT(name)	printf(#name " %lu\n", (unsigned long)counts.name)

static void print_stats(const char *file)
{
	print_to(file);
	printf("wanted %u\n", max_conns);
	PRINT(opened);
	PRINT(refused);
	PRINT(closed_idle);
	PRINT(hung_up);
	PRINT(hung_up_late);
	PRINT(early);
	PRINT(never);
	PRINT(wrong_echo);
	PRINT(messages);
	PRINT(overslept);
	print_samples("late", &lateness);
	print_samples("sleep", &sleeps);
	end_print();
}

static const char usage[] =
	"usage: idle_load [OPTION]...\n"
	"Clients of idle_echo on this machine: do idle connections get closed when they\n"
	"should? Fails if one is closed early or never, or echoed wrongly.\n\n"
	"  --port N           the server's port [7007]\n"
	"  --idle-ms N        the server's idle time [2000]\n"
	"  --conns N          how many connections [2000]\n"
	"  --talk-ms N        talk at most so long [10000]\n"
	"  --ramp-ms N        open the connections within so many ms [3000]\n"
	"  --bound-ms N       not closed by then: never [5000]\n"
	"  --seed N           of what is random [the time]\n"
	"  --memcached        the server is memcached\n"
	"  --stats-file FILE  write the statistics there, not to standard output\n"
	"  -h, --help         this text\n";

int main(int argc, char **argv)
{
	long conns_wanted = max_conns, seed_option = now_ns() % 1000000;
	const char *stats_file = NULL;
	const struct program_option options[] = {
		{ "port", .number = &port, .min = 1, .max = 65535 },
		{ "idle-ms", .ns = &idle_ns, .min = 100, .max = 1000000000 },
		{ "conns", .number = &conns_wanted, .min = 1, .max = MAX_CONNS },
		{ "talk-ms", .ns = &talk_ns, .max = 1000000000 },
		{ "ramp-ms", .ns = &ramp_ns, .max = 1000000000 },
		{ "bound-ms", .ns = &bound_ns, .min = 1, .max = 1000000000 },
		{ "seed", .number = &seed_option, .max = 1000000000 },
		{ "memcached", .flag = &memcached },
		{ "stats-file", .text = &stats_file },
		{ }
	};
	pthread_t sleeper;

	parse_options(argc, argv, options, usage);
	max_conns = conns_wanted;
	seed = seed_option;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (raise_nofile(max_conns + 16) < max_conns + 16)
		errx(1, "the limit of open files does not allow %u connections", max_conns);
	conns = calloc(max_conns, sizeof(*conns));
	heap = calloc(max_conns, sizeof(*heap));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!conns || !heap || epoll_fd < 0)
		err(1, "no memory for %u connections", max_conns);

	printf("%u connections to port %ld, seed %llu\n", max_conns, port, seed);
	if (pthread_create(&sleeper, NULL, sleep_often, NULL))
		errx(1, "no thread");
	make_plans();
	run();
	all_over = true;
	pthread_join(sleeper, NULL);
	print_stats(stats_file);
	return counts.early || counts.never || counts.wrong_echo || counts.refused;
}
