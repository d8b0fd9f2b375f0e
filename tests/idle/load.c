// SPDX-License-Identifier: GPL-2.0-only
/*
 * load: clients of a server that hwtimer_idle watches, which check when it closes them.
 *
 *	load NAME PORT CONNECTIONS SPAN_MS GREETING END REQUEST END [SLOW]
 *
 * Each connection sends GREETING, if any, and REQUEST several times, and reads until END each time;
 * then it is silent, and has to be closed. "\n" and the like and "\xHH" stand for bytes. With SLOW,
 * the first connection sends this request instead, which takes the server three spans.
 *
 * Prints TAP, and how late the connections were closed, and a timerfd alone. The clock has to count
 * instructions.
 */
#define HWT_NO_HARNESS
#include "../selftests/guest.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#define ROUNDS	3
/* Of the wheel; and what two jiffies of a kernel with HZ=250 take. */
#define TICK	(4 * NSEC_PER_MSEC)
#define JIFFIES	(8 * NSEC_PER_MSEC)

struct text {
	char	bytes[512];
	size_t	len;
};

struct conn {
	int	fd;
	__u64	sent;		/* just before the last data that it sent */
	__u64	answered;	/* when it had read the answer */
	__u64	closed;
};

static struct conn *conns;
static int nr;

static struct text must_parse(const char *from)
{
	static const char letters[] = "n\nr\r0\0t\t\\\\";
	struct text text = { .len = 0 };
	const char *letter;
	unsigned int byte;

	for (; *from; from++) {
		byte = (unsigned char)*from;
		if (*from == '\\' && from[1] == 'x' && sscanf(from + 2, "%2x", &byte) == 1) {
			from += 3;
		} else if (*from == '\\') {
			letter = memchr(letters, *++from, sizeof(letters));
			if (!letter)
				die("'\\%c'", *from);
			byte = (unsigned char)letter[1];
		}
		text.bytes[text.len++] = byte;
		if (text.len == sizeof(text.bytes))
			die("too long");
	}
	return text;
}

static void must_send(struct conn *conn, const struct text *request)
{
	conn->sent = now_ns();
	if (send(conn->fd, request->bytes, request->len, MSG_NOSIGNAL) != (ssize_t)request->len)
		die("send: %s", strerror(errno));
}

static void must_read(struct conn *conn, const struct text *end)
{
	static char answer[65536];
	size_t len = 0;
	ssize_t n;

	do {
		n = recv(conn->fd, answer + len, sizeof(answer) - len, 0);
		if (n <= 0)
			die("recv: %s", n ? strerror(errno) : "closed");
		len += n;
	} while (!memmem(answer, len, end->bytes, end->len));
	conn->answered = now_ns();
}

static void must_ask(struct conn *conn, const struct text *request, const struct text *end)
{
	must_send(conn, request);
	must_read(conn, end);
}

static void must_connect(struct conn *conn, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1;

	conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (conn->fd < 0 || connect(conn->fd, (void *)&to, sizeof(to)))
		die("connect: %s", strerror(errno));
	setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Wait until all but the first @slow connections are closed. */
static void must_end(int slow)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), open = nr - slow, i, n;
	struct epoll_event events[64];

	for (i = slow; i < nr; i++) {
		events[0] = (struct epoll_event){ .events = EPOLLIN, .data.u32 = i };
		epoll_ctl(epoll, EPOLL_CTL_ADD, conns[i].fd, &events[0]);
	}
	while (open) {
		n = epoll_wait(epoll, events, ARRAY_SIZE(events), PATIENCE / NSEC_PER_MSEC);
		if (n <= 0)
			die("%d connections are not closed", open);
		for (i = 0; i < n; i++) {
			struct conn *conn = &conns[events[i].data.u32];

			conn->closed = now_ns();
			close(conn->fd);
			open--;
		}
	}
	close(epoll);
}

static int compare(const void *a, const void *b)
{
	__s64 x = *(const __s64 *)a, y = *(const __s64 *)b;

	return x < y ? -1 : x > y;
}

/* How much later than due is a program woken by a timerfd, alone? */
static __s64 timer_lateness(void)
{
	__u64 due = now_ns() + 10 * NSEC_PER_MSEC, ticks;
	struct itimerspec when = { .it_value = { due / NSEC_PER_SEC, due % NSEC_PER_SEC } };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) ||
	    read(fd, &ticks, sizeof(ticks)) != sizeof(ticks))
		die("timerfd: %s", strerror(errno));
	close(fd);
	return now_ns() - due;
}

static bool judge(const char *name, __u64 span, int slow, __u64 opening)
{
	__s64 *late = must_alloc(nr, sizeof(*late)), timer = timer_lateness();
	int early = 0, i, n = nr - slow;

	for (i = slow; i < nr; i++) {
		early += conns[i].closed < conns[i].sent + span;
		late[i - slow] = conns[i].closed - conns[i].answered - span;
	}
	qsort(late, n, sizeof(*late), compare);
	printf("# figures %s: %d connections, opened in %llu ms, early %d, late by us: ", name, n,
	       opening / NSEC_PER_MSEC, early);
	printf("least %lld, median %lld, 99%% %lld, most %lld; a timerfd: %lld\n",
	       late[0] / 1000, late[n / 2] / 1000, late[n * 99 / 100] / 1000, late[n - 1] / 1000,
	       timer / 1000);
	return !early && late[n * 99 / 100] <= timer + (__s64)(TICK + JIFFIES);
}

int main(int argc, char **argv)
{
	struct rlimit files = { 65536, 65536 };
	struct text greeting, greeted, request, end, slow_text;
	int slow = argc == 10, i, round;
	__u64 span, begin, took, opening = now_ns();
	bool ok;

	if (argc != 9 && argc != 10)
		die("see the source");
	nr = atoi(argv[3]);
	span = atoi(argv[4]) * NSEC_PER_MSEC;
	greeting = must_parse(argv[5]);
	greeted = must_parse(argv[6]);
	request = must_parse(argv[7]);
	end = must_parse(argv[8]);
	if (setrlimit(RLIMIT_NOFILE, &files))
		die("setrlimit");
	conns = must_alloc(nr, sizeof(*conns));
	for (i = 0; i < nr; i++) {
		must_connect(&conns[i], atoi(argv[2]));
		if (greeting.len)
			must_ask(&conns[i], &greeting, &greeted);
		must_ask(&conns[i], &request, &end);
	}
	opening = now_ns() - opening;
	if (slow) {
		slow_text = must_parse(argv[9]);
		must_send(&conns[0], &slow_text);
	}
	for (round = 0; round < ROUNDS; round++) {
		/* Each at its own place, so that they are not due at once. */
		begin = now_ns() + (round ? span / 4 : 0);
		for (i = slow; i < nr; i++) {
			wait_until(begin + i * span / 2 / nr);
			must_ask(&conns[i], &request, &end);
		}
	}
	must_end(slow);
	ok = judge(argv[1], span, slow, opening);
	if (slow) {
		must_read(&conns[0], &end);
		took = conns[0].answered - conns[0].sent;
		printf("# a request took %llu ms\n", took / NSEC_PER_MSEC);
		ok &= took >= 3 * span;
	}
	printf("1..1\n%sok 1 %s\n", ok ? "" : "not ", argv[1]);
	return 0;
}
