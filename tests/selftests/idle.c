// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_idle: which connections are closed by which rules, when, and what a server and its client
 * see of it.
 *
 * Nothing may be closed early. How late is a verdict only where the clock of the guest counts
 * instructions, so that PATIENCE is not set: see EXPECT_ON_TIME().
 */
#include "netlink.h"

#include <linux/filter.h>
#include <linux/userfaultfd.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#define fallthrough	__attribute__((__fallthrough__))

#define PORT		4242
/* A rule's span. Messages come each third of it, so the machine may be late by two thirds. */
#define SPAN		(getenv("PATIENCE") ? 4 * NSEC_PER_SEC : NSEC_PER_SEC)
#define MODULE		"hwtimer_idle"
/* Of Debian's kernels, HZ is 250. */
#define LAG		(7 * 4 * NSEC_PER_MSEC)
#define TICK		(4 * NSEC_PER_MSEC)
/* What it takes to run the worker and to close the connection, in instructions. */
#define WORKER		(NSEC_PER_MSEC / 4)

struct rule {
	int		command;	/* 0: ADD */
	__u16		port;		/* 0: PORT */
	__u32		span_ms;	/* 0: SPAN */
	__u8		action;
	bool		any;
	__u32		limit;		/* 0: none given */
	const void	*address;
	size_t		address_len;
};

static int change(const struct rule *rule)
{
	__u16 port = rule->port ?: PORT;
	__u32 span = rule->span_ms ?: SPAN / NSEC_PER_MSEC;
	int fd = netlink_open(), ret;
	struct message m;

	message_init(&m, netlink_family(fd, NULL), rule->command ?: HWTIMER_IDLE_CMD_ADD);
	message_put(&m, HWTIMER_IDLE_ATTR_PORT, &port, sizeof(port));
	if (rule->address)
		message_put(&m, HWTIMER_IDLE_ATTR_ADDRESS, rule->address, rule->address_len);
	if (!rule->command) {
		message_put(&m, HWTIMER_IDLE_ATTR_SPAN_MS, &span, sizeof(span));
		message_put(&m, HWTIMER_IDLE_ATTR_ACTION, &rule->action, sizeof(rule->action));
		if (rule->any)
			message_put(&m, HWTIMER_IDLE_ATTR_ANY_SILENCE, NULL, 0);
		if (rule->limit)
			message_put(&m, HWTIMER_IDLE_ATTR_LIMIT, &rule->limit, sizeof(rule->limit));
	}
	ret = netlink_call(fd, &m);
	close(fd);
	return ret;
}

#define add(...)	change(&(struct rule){ __VA_ARGS__ })
#define del(...)	change(&(struct rule){ .command = HWTIMER_IDLE_CMD_DEL, __VA_ARGS__ })

/* The number of rules, and into *@counter that of the (last) rule of @port. */
static int rules(__u16 port, int attr, __u64 *counter)
{
	int fd = netlink_open(), count = 0, type;
	struct message m;
	const __u16 *p;

	message_init(&m, netlink_family(fd, NULL), HWTIMER_IDLE_CMD_GET);
	m.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	if (send(fd, &m, m.head.nlmsg_len, 0) < 0)
		die("send");
	/* Several messages may come in one datagram. */
	for (;;) {
		static char data[32768];
		ssize_t len = recv(fd, data, sizeof(data), 0);
		struct nlmsghdr *head = (void *)data;

		for (; NLMSG_OK(head, len); head = NLMSG_NEXT(head, len)) {
			type = head->nlmsg_type;
			if (type == NLMSG_DONE || type == NLMSG_ERROR) {
				close(fd);
				return type == NLMSG_DONE ? count : -1;
			}
			count++;
			memcpy(&m, head, head->nlmsg_len);
			p = message_get(&m, HWTIMER_IDLE_ATTR_PORT);
			if (*p == port && counter)
				memcpy(counter, message_get(&m, attr), sizeof(*counter));
		}
	}
}

static __u64 counter(int attr)
{
	__u64 value = ~0ULL;

	rules(PORT, attr, &value);
	return value;
}

#define WATCHED		counter(HWTIMER_IDLE_ATTR_WATCHED)
#define CLOSED		counter(HWTIMER_IDLE_ATTR_CLOSED)
#define SPARED		counter(HWTIMER_IDLE_ATTR_SPARED)
#define REFUSED		counter(HWTIMER_IDLE_ATTR_REFUSED)
#define LOOKS		counter(HWTIMER_IDLE_ATTR_LOOKS)

static void set_sockopt(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		die("setsockopt %d: %s", name, strerror(errno));
}

/* A socket that receives the events. */
static int must_subscribe(void)
{
	int fd = netlink_open();
	__u32 group;

	if (netlink_family(fd, &group) <= 0)
		die("no family");
	set_sockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group);
	return fd;
}

static int must_listen(int protocol, __u16 port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	set_sockopt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, (void *)&any, sizeof(any)) || listen(fd, 4096))
		die("listen: %s", strerror(errno));
	return fd;
}

static struct sockaddr_in ipv4(__u32 address, __u16 port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(address) };
}

static int must_connect(int protocol, __u32 address, __u16 port)
{
	struct sockaddr_in to = ipv4(address, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, protocol);

	if (fd < 0 || connect(fd, (void *)&to, sizeof(to)))
		die("connect: %s", strerror(errno));
	return fd;
}

static int must_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		die("accept: %s", strerror(errno));
	set_sockopt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	return fd;
}

static void must_send(int fd)
{
	if (send(fd, "x", 1, MSG_NOSIGNAL) != 1)
		die("send: %s", strerror(errno));
}

static void must_read(int fd)
{
	char byte;

	if (recv(fd, &byte, 1, 0) != 1)
		die("recv: %s", strerror(errno));
}

static bool is_open(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 1 || (n < 0 && errno == EAGAIN);
}

/* Wait until a connection ends on which nothing else can arrive; when that was. */
static __u64 must_end(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, PATIENCE / NSEC_PER_MSEC) != 1)
		die("not closed");
	return now_ns();
}

FIXTURE(idle)
{
	int listener;
	int client;
	int server;
};

FIXTURE_SETUP(idle)
{
	unload(MODULE);		/* if a case that failed has left it */
	ASSERT_EQ(0, load(MODULE, ""));
	self->listener = must_listen(0, PORT);
	self->client = -1;
	self->server = -1;
}

FIXTURE_TEARDOWN(idle)
{
	close(self->listener);
	close(self->client);
	close(self->server);
	EXPECT_EQ(0, unload(MODULE));
}

#define pair(self) do {								\
	(self)->client = must_connect(0, INADDR_LOOPBACK, PORT);		\
	(self)->server = must_accept((self)->listener);				\
} while (0)

/*
 * It ended after @since, never early; and where the clock counts instructions, no later than a tick
 * after a timerfd of the same time.
 */
#define EXPECT_ON_TIME(end, since, timer) do {					\
	EXPECT_GE(end, (since) + SPAN);						\
	if (!getenv("PATIENCE")) {						\
		EXPECT_LE(end, (timer) + TICK + WORKER);			\
	}									\
} while (0)

/* When a timerfd for @ns ends. */
static __u64 control(__u64 ns)
{
	struct itimerspec when = { .it_value = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC } };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	__u64 ticks;

	if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) ||
	    read(fd, &ticks, sizeof(ticks)) != sizeof(ticks))
		die("timerfd: %s", strerror(errno));
	close(fd);
	return now_ns();
}

TEST_F(idle, never_used)
{
	__u64 since, timer, end;
	char byte;

	ASSERT_EQ(0, add());
	since = now_ns();
	pair(self);
	timer = control(now_ns() + SPAN);
	end = must_end(self->client);
	EXPECT_ON_TIME(end, since, timer);
	EXPECT_EQ(0, recv(self->client, &byte, 1, 0));
	EXPECT_EQ(0, recv(self->server, &byte, 1, 0));
	EXPECT_EQ(1, CLOSED);
	eventually(!WATCHED);
}

/* A request and its answer each third of a span keep it open; the last one counts. */
TEST_F(idle, messages)
{
	__u64 since, timer, end;
	int i;

	ASSERT_EQ(0, add());
	pair(self);
	for (i = 0; i < 10; i++) {
		wait_until(now_ns() + SPAN / 3);
		must_send(self->client);
		must_read(self->server);
		since = now_ns();
		must_send(self->server);
		must_read(self->client);
	}
	EXPECT_TRUE(getenv("PATIENCE") || LOOKS <= 6);
	timer = control(since + SPAN);
	end = must_end(self->client);
	EXPECT_ON_TIME(end, since, timer);
	EXPECT_EQ(0, SPARED);
}

static void must_keep_alive(int fd)
{
	set_sockopt(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_sockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
	set_sockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
}

/*
 * Keepalive of either side is no data. If the client had the last word, that is known by jiffies
 * alone, which is exact but for LAG where they do not stall; so with PATIENCE it has no verdict.
 */
TEST_F(idle, keepalive)
{
	__u64 since, end;
	bool any;

	for (any = false; ; any = true) {
		ASSERT_EQ(0, add(.any = any, .span_ms = 3 * SPAN / NSEC_PER_MSEC));
		pair(self);
		must_keep_alive(self->client);
		must_keep_alive(self->server);
		since = now_ns();
		must_send(any ? self->client : self->server);
		must_read(any ? self->server : self->client);
		end = must_end(self->client);
		if (any && getenv("PATIENCE"))
			break;
		EXPECT_GE(end, since + 3 * SPAN);
		if (!getenv("PATIENCE")) {
			EXPECT_LE(end, since + 3 * SPAN + (any ? LAG + TICK : 0) + TICK + WORKER);
		}
		if (any)
			break;
		ASSERT_EQ(0, del());
		close(self->client);
		close(self->server);
	}
}

/* A server that works at a request for three spans is not idle; once it has answered, it may be. */
TEST_F(idle, servers_turn)
{
	__u64 begin, since, end;
	int answered;

	for (answered = 0; answered < 2; answered++) {
		begin = now_ns();
		ASSERT_EQ(0, add());
		pair(self);
		if (answered) {		/* within one jiffy: an answer, and the next request */
			must_send(self->client);
			must_read(self->server);
			must_send(self->server);
			must_read(self->client);
		}
		must_send(self->client);
		must_read(self->server);
		wait_until(now_ns() + 3 * SPAN + SPAN / 2);
		EXPECT_TRUE(is_open(self->client));
		EXPECT_LE(2, SPARED);
		EXPECT_LE(SPARED, (now_ns() - begin) / SPAN);
		since = now_ns();
		must_send(self->server);
		must_read(self->client);
		end = must_end(self->client);
		EXPECT_ON_TIME(end, since, since + SPAN);
		ASSERT_EQ(0, del());
		close(self->client);
		close(self->server);
	}
	self->client = -1;
	self->server = -1;
}

/* A request that the server has not read, and an answer that its client does not take. */
TEST_F(idle, queued)
{
	static char data[1 << 20];
	bool any;

	for (any = false; ; any = true) {
		ASSERT_EQ(0, add(.any = any));
		pair(self);
		must_send(self->client);
		must_read(self->server);
		set_sockopt(self->server, SOL_SOCKET, SO_SNDBUF, 65536);
		while (send(self->server, data, sizeof(data), MSG_DONTWAIT) > 0)
			;
		wait_until(now_ns() + 3 * SPAN);
		EXPECT_EQ(!any, is_open(self->server));
		if (any)
			break;
		ASSERT_EQ(0, del());
		close(self->client);
		close(self->server);
		ASSERT_EQ(0, add());
		pair(self);
		must_send(self->client);
		wait_until(now_ns() + 3 * SPAN);
		EXPECT_TRUE(is_open(self->server));
		EXPECT_LE(2, SPARED);
		ASSERT_EQ(0, del());
		close(self->client);
		close(self->server);
	}
}

TEST_F(idle, reset)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	int fd = must_subscribe();
	struct message m;
	char byte;

	ASSERT_EQ(0, add(.action = HWTIMER_IDLE_RESET));
	pair(self);
	ASSERT_EQ(0, getsockname(self->client, (void *)&peer, &len));
	must_end(self->client);
	ASSERT_LT(0, netlink_receive(fd, &m));
	EXPECT_EQ(ntohs(peer.sin_port),
		  *(__u16 *)message_get(&m, HWTIMER_IDLE_ATTR_PEER_PORT));
	EXPECT_EQ(HWTIMER_IDLE_RESET, *(__u8 *)message_get(&m, HWTIMER_IDLE_ATTR_ACTION));
	close(fd);
	EXPECT_EQ(-1, recv(self->client, &byte, 1, 0));
	EXPECT_EQ(ECONNRESET, errno);
	EXPECT_EQ(-1, recv(self->server, &byte, 1, 0));
	EXPECT_EQ(ETIMEDOUT, errno);
	EXPECT_EQ(0, recv(self->server, &byte, 1, 0));
	EXPECT_EQ(-1, send(self->server, &byte, 1, MSG_NOSIGNAL));
	EXPECT_EQ(EPIPE, errno);
	eventually(!WATCHED);
}

/* The event says which connection it was; it stays, and is announced again. */
TEST_F(idle, notify)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	int fd = must_subscribe(), i;
	__u64 since = now_ns();
	struct message m;

	ASSERT_EQ(0, add(.action = HWTIMER_IDLE_NOTIFY));
	pair(self);
	ASSERT_EQ(0, getsockname(self->client, (void *)&peer, &len));
	for (i = 0; i < 2; i++) {
		ASSERT_LT(0, netlink_receive(fd, &m));
		EXPECT_EQ(HWTIMER_IDLE_CMD_EVENT, m.genl.cmd);
		EXPECT_EQ(PORT, *(__u16 *)message_get(&m, HWTIMER_IDLE_ATTR_PORT));
		EXPECT_EQ(ntohs(peer.sin_port),
			  *(__u16 *)message_get(&m, HWTIMER_IDLE_ATTR_PEER_PORT));
		EXPECT_EQ(htonl(INADDR_LOOPBACK),
			  *(__u32 *)message_get(&m, HWTIMER_IDLE_ATTR_ADDRESS));
		EXPECT_EQ(peer.sin_addr.s_addr, *(__u32 *)message_get(&m, HWTIMER_IDLE_ATTR_PEER));
	}
	EXPECT_LE(since + 2 * SPAN, now_ns());
	EXPECT_TRUE(is_open(self->client));
	EXPECT_EQ(2, CLOSED);
	close(fd);
}

/* The client's FIN makes it the server's turn; the server's FIN, the client's. */
TEST_F(idle, half_closed)
{
	char byte;

	ASSERT_EQ(0, add());
	pair(self);
	must_send(self->client);
	must_read(self->server);
	wait_until(now_ns() + 2 * TICK);
	must_send(self->server);
	must_read(self->client);
	shutdown(self->client, SHUT_WR);
	EXPECT_EQ(0, recv(self->server, &byte, 1, 0));	/* or it would be unread */
	wait_until(now_ns() + 3 * SPAN);
	EXPECT_LE(2, SPARED);
	EXPECT_EQ(1, send(self->server, "x", 1, MSG_NOSIGNAL));
	close(self->client);
	close(self->server);
	pair(self);
	shutdown(self->server, SHUT_WR);
	must_end(self->server);
	EXPECT_EQ(0, recv(self->server, &byte, 1, 0));
	EXPECT_EQ(1, CLOSED);
}

/* A FIN that waits behind data that its client does not take: the server has closed already. */
TEST_F(idle, fin_waits)
{
	static char data[1 << 20];

	ASSERT_EQ(0, add(.any = true));
	pair(self);
	while (send(self->server, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	shutdown(self->server, SHUT_WR);
	wait_until(now_ns() + 3 * SPAN);
	EXPECT_EQ(0, CLOSED);
	EXPECT_LE(2, SPARED);
}

/* With --any-silence a server that does not close after its client's FIN is helped, if late. */
TEST_F(idle, half_closed_any_silence)
{
	pair(self);
	shutdown(self->client, SHUT_WR);
	ASSERT_EQ(0, add(.any = true));
	eventually(CLOSED == 1);
}

TEST_F(idle, not_accepted)
{
	ASSERT_EQ(0, add());
	self->client = must_connect(0, INADDR_LOOPBACK, PORT);
	wait_until(now_ns() + 3 * SPAN);
	EXPECT_TRUE(is_open(self->client));
	EXPECT_LE(2, SPARED);
	self->server = must_accept(self->listener);
	must_end(self->client);
}

/* A rule that comes back does not close again what it has shut down. */
TEST_F(idle, closed_once)
{
	ASSERT_EQ(0, add());
	pair(self);
	must_end(self->client);
	ASSERT_EQ(0, del());
	ASSERT_EQ(0, add());
	EXPECT_EQ(0, WATCHED);
}

/* A connection that is closed is not held. */
TEST_F(idle, closed_by_others)
{
	ASSERT_EQ(0, add(.span_ms = 3600000));
	pair(self);
	EXPECT_EQ(1, WATCHED);
	close(self->client);
	close(self->server);
	eventually(!WATCHED);
	EXPECT_EQ(0, CLOSED);
}

/* A rule holds for connections that exist, until it is deleted. */
TEST_F(idle, rule_comes_and_goes)
{
	pair(self);
	ASSERT_EQ(0, add());
	EXPECT_EQ(1, WATCHED);
	ASSERT_EQ(0, del());
	wait_until(now_ns() + 2 * SPAN);
	EXPECT_TRUE(is_open(self->client));
	ASSERT_EQ(0, add());
	must_end(self->client);
}

/* A rule holds for what a server accepts on the port, not for what is connected from it. */
TEST_F(idle, outgoing)
{
	struct sockaddr_in from = ipv4(INADDR_LOOPBACK, PORT + 1), to = ipv4(INADDR_LOOPBACK, PORT);
	__u64 watched;

	ASSERT_EQ(0, add(.port = PORT + 1));
	self->client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	set_sockopt(self->client, SOL_SOCKET, SO_REUSEADDR, 1);
	ASSERT_EQ(0, bind(self->client, (void *)&from, sizeof(from)));
	ASSERT_EQ(0, connect(self->client, (void *)&to, sizeof(to)));
	ASSERT_EQ(1, rules(PORT + 1, HWTIMER_IDLE_ATTR_WATCHED, &watched));
	EXPECT_EQ(0, watched);
}

/* A connection whose state is being copied is left alone. */
TEST_F(idle, repair)
{
	ASSERT_EQ(0, add());
	pair(self);
	set_sockopt(self->server, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_ON);
	wait_until(now_ns() + 3 * SPAN);
	EXPECT_TRUE(is_open(self->client));
	EXPECT_LE(2, SPARED);
	set_sockopt(self->server, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	set_sockopt(self->server, SOL_SOCKET, SO_REUSEADDR, 1);	/* which that has switched off */
	must_end(self->client);
}

/* The rule of an address comes before that of all addresses; IPv4 is IPv4 on any socket. */
TEST_F(idle, addresses)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(PORT),
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const __u32 other = htonl(INADDR_LOOPBACK + 1);
	int ipv6 = socket(AF_INET6, SOCK_STREAM, 0), second;

	ASSERT_EQ(0, add(.span_ms = 3600000));
	ASSERT_EQ(0, add(.address = &other, .address_len = sizeof(other)));
	ASSERT_EQ(0, add(.address = &to.sin6_addr, .address_len = sizeof(to.sin6_addr)));
	ASSERT_EQ(3, rules(PORT, HWTIMER_IDLE_ATTR_WATCHED, NULL));
	pair(self);
	second = must_connect(0, INADDR_LOOPBACK + 1, PORT);
	must_accept(self->listener);
	ASSERT_EQ(0, connect(ipv6, (void *)&to, sizeof(to)));
	must_accept(self->listener);
	must_end(second);
	must_end(ipv6);
	EXPECT_TRUE(is_open(self->client));
	EXPECT_EQ(0, del(.address = &other, .address_len = sizeof(other)));
	EXPECT_EQ(-ENOENT, del(.address = &other, .address_len = sizeof(other)));
	close(second);
	close(ipv6);
}

/* The limit is on connections that are open: one that has been closed leaves its place at once. */
TEST_F(idle, limit)
{
	int fds[3], i;

	ASSERT_EQ(0, add(.limit = 2));
	for (i = 0; i < 20; i++) {
		pair(self);
		close(self->client);
		close(self->server);
	}
	self->client = -1;
	self->server = -1;
	EXPECT_EQ(0, REFUSED);
	for (i = 0; i < 3; i++)
		fds[i] = must_connect(0, INADDR_LOOPBACK, PORT);
	EXPECT_EQ(2, WATCHED);
	EXPECT_EQ(1, REFUSED);
	for (i = 0; i < 3; i++)
		close(fds[i]);
}

/*
 * More connections than the pool has watches, before anything can fill it (on one CPU, the kernel's
 * worker does not run while this thread does): none is missed.
 */
TEST_F(idle, burst)
{
	struct sockaddr_in to = ipv4(INADDR_LOOPBACK, PORT);
	struct rlimit limit = { 20000, 20000 };
	int *fds, i, n = 4000;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	fds = must_alloc(n, sizeof(*fds));
	for (i = 0; i < n; i++)
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	ASSERT_EQ(0, add(.span_ms = 3600000));
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 1 }));
	for (i = 0; i < n; i++) {
		ASSERT_TRUE(!connect(fds[i], (void *)&to, sizeof(to)) || errno == EINPROGRESS);
	}
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }));
	eventually(WATCHED == 4000);
	EXPECT_EQ(0, REFUSED);
	/* The module is unloaded with all of them. */
	ASSERT_EQ(0, unload(MODULE));
	ASSERT_EQ(0, load(MODULE, ""));
	free(fds);
}

/* Page faults of the thread that sends wait for this file descriptor's reader: for ever. */
static void *must_map_slow(int *fd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	area.range = (struct uffdio_range){ (uintptr_t)p, 4096 };
	if (*fd < 0 || ioctl(*fd, UFFDIO_API, &api) || ioctl(*fd, UFFDIO_REGISTER, &area))
		die("userfaultfd: %s", strerror(errno));
	return p;
}

struct slow_sender {
	int	socket;
	void	*page;
};

static void *slow_send(void *arg)
{
	const struct slow_sender *s = arg;

	send(s->socket, s->page, 4096, MSG_NOSIGNAL);
	return NULL;
}

/* A task that keeps a socket locked delays no other connection, and its own only while it does. */
TEST_F(idle, locked_socket)
{
	int uffd, client, server;
	struct uffd_msg fault;
	struct uffdio_zeropage zero;
	struct slow_sender sender;
	pthread_t thread;
	__u64 since, timer, end;

	ASSERT_EQ(0, add(.any = true));
	pair(self);
	sender = (struct slow_sender){ self->server, must_map_slow(&uffd) };
	start(&thread, slow_send, &sender);
	ASSERT_EQ(sizeof(fault), read(uffd, &fault, sizeof(fault)));
	since = now_ns();
	client = must_connect(0, INADDR_LOOPBACK, PORT);
	server = must_accept(self->listener);
	timer = control(now_ns() + SPAN);
	end = must_end(client);
	EXPECT_ON_TIME(end, since, timer);
	wait_until(now_ns() + SPAN);
	EXPECT_TRUE(is_open(self->client));
	EXPECT_TRUE(getenv("PATIENCE") || LOOKS <= 14);
	zero = (struct uffdio_zeropage){ .range = { (uintptr_t)sender.page, 4096 } };
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
	pthread_join(thread, NULL);
	close(server);
	close(client);
	close(uffd);
	must_end(self->server);
}

/* Enter a new network namespace, once there may be one; set up loopback, and listen there. */
static int must_move(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	eventually(!unshare(CLONE_NEWNET));
	fd = must_listen(0, PORT);
	if (ioctl(fd, SIOCSIFFLAGS, &lo))
		die("SIOCSIFFLAGS: %s", strerror(errno));
	return fd;
}

/* The rules of a namespace and their events are its own; they end with it. */
TEST_F(idle, namespaces)
{
	static const char limit[] = "/proc/sys/user/max_net_namespaces";
	int fd = must_subscribe(), i;
	struct message m;

	ASSERT_EQ(0, add(.span_ms = 3600000));
	/* Each waits until the one before is gone, and may get its memory. */
	ASSERT_EQ(0, write_file(limit, "1"));
	for (i = 0; i < 4; i++) {
		in_child(must_fork()) {
			int listener = must_move(), client;

			expect(0, rules(PORT, HWTIMER_IDLE_ATTR_WATCHED, NULL));
			expect(0, add());
			expect(1, rules(PORT, HWTIMER_IDLE_ATTR_WATCHED, NULL));
			client = must_connect(0, INADDR_LOOPBACK, PORT);
			must_accept(listener);
			must_end(client);
		}
	}
	ASSERT_EQ(0, write_file(limit, "1000"));
	EXPECT_EQ(-1, recv(fd, &m, sizeof(m), MSG_DONTWAIT));
	EXPECT_EQ(1, rules(PORT, HWTIMER_IDLE_ATTR_WATCHED, NULL));
	close(fd);
}

/* A client that is deaf, while this program speaks for it. */
struct deaf {
	int		socket;
	__u32		seq;		/* of what it sends next */
	__u32		ack;		/* of what it has received */
};

static __u32 must_get_seq(int fd, int queue)
{
	__u32 seq;
	socklen_t len = sizeof(seq);

	set_sockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, queue);
	if (getsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &seq, &len))
		die("TCP_QUEUE_SEQ: %s", strerror(errno));
	return seq;
}

static struct deaf must_connect_deaf(void)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog filter = { 1, &drop };
	struct deaf d = { .socket = must_connect(0, INADDR_LOOPBACK, PORT) };

	set_sockopt(d.socket, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_ON);
	d.seq = must_get_seq(d.socket, TCP_SEND_QUEUE);
	d.ack = must_get_seq(d.socket, TCP_RECV_QUEUE);
	set_sockopt(d.socket, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	if (setsockopt(d.socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)))
		die("SO_ATTACH_FILTER: %s", strerror(errno));
	return d;
}

/*
 * Send a segment with a byte, or without; it acknowledges all before @ack, and, unless it is 0, the
 * byte @sack. Time stamps have to be off.
 */
static void must_say(const struct deaf *d, __u32 seq, bool byte, __u32 ack, __u32 sack)
{
	struct sockaddr_in from, to = ipv4(INADDR_LOOPBACK, 0);
	socklen_t len = sizeof(from);
	struct {
		__u32		addresses[2];	/* what the checksum is about, from here */
		__u16		protocol, len;
		struct tcphdr	head;
		__u8		nop[2], kind, size;
		__u32		sack[2];
		__u8		data[4];
	} segment = {
		.addresses = { to.sin_addr.s_addr, to.sin_addr.s_addr },
		.protocol = htons(IPPROTO_TCP), .len = htons(sizeof(struct tcphdr) + 12 + byte),
		.head = { .dest = htons(PORT), .seq = htonl(seq), .ack_seq = htonl(ack),
			  .doff = sizeof(struct tcphdr) / 4 + 3, .ack = 1, .window = htons(512) },
		.nop = { 1, 1 }, .kind = sack ? 5 : 1, .size = sack ? 10 : 1,
		.sack = { htonl(sack), htonl(sack + 1) },
		.data = { byte },
	};
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_TCP);
	__u16 words[sizeof(segment) / 2];
	__u32 sum = 0;
	size_t i;

	if (!sack)
		memset(segment.sack, 1, sizeof(segment.sack));	/* NOP */
	getsockname(d->socket, (void *)&from, &len);
	segment.head.source = from.sin_port;
	memcpy(words, &segment, sizeof(words));
	for (i = 0; i < sizeof(words) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	segment.head.check = ~(sum + (sum >> 16));
	if (sendto(raw, &segment.head, ntohs(segment.len), 0, (void *)&to, sizeof(to)) < 0)
		die("raw: %s", strerror(errno));
	close(raw);
}

/* Data behind a gap is data; the server waits for the rest, with --any-silence for a span. */
TEST_F(idle, gap)
{
	in_child(must_fork()) {
		int listener = must_move(), server;
		struct deaf d;
		__u64 since;

		expect(0, write_file("/proc/sys/net/ipv4/tcp_timestamps", "0"));
		expect(0, add());
		d = must_connect_deaf();
		server = must_accept(listener);
		wait_until(now_ns() + SPAN / 2);
		must_say(&d, d.seq + 1, true, d.ack, 0);
		wait_until(now_ns() + 3 * SPAN);
		expect(1, WATCHED);
		expect(0, CLOSED);
		expect(0, del());
		expect(0, add(.any = true));
		close(server);
		d = must_connect_deaf();
		server = must_accept(listener);
		wait_until(now_ns() + SPAN / 2);
		since = now_ns();
		must_say(&d, d.seq + 1, true, d.ack, 0);
		expect(1, must_end(server) >= since + SPAN);
	}
}

/*
 * If a later segment overtakes an earlier one, the later one counts. It is sent at the end of a
 * jiffy, and one of the spans ends shortly before a tick of the wheel, since a tick is a jiffy.
 */
TEST_F(idle, overtaken)
{
	in_child(must_fork()) {
		int listener = must_move(), server, i;
		struct timespec jiffy;
		struct deaf d;
		__u64 since;

		expect(0, write_file("/proc/sys/net/ipv4/tcp_timestamps", "0"));
		/* Or TCP would send the earlier one again at once. */
		expect(0, write_file("/proc/sys/net/ipv4/tcp_recovery", "0"));
		for (i = 0; i < 4; i++) {
			expect(0, add(.span_ms = SPAN / NSEC_PER_MSEC + i));
			d = must_connect_deaf();
			server = must_accept(listener);
			must_send(server);
			clock_gettime(CLOCK_MONOTONIC_COARSE, &jiffy);
			wait_until(jiffy.tv_sec * NSEC_PER_SEC + jiffy.tv_nsec + 25 * TICK +
				   TICK * 7 / 8);
			since = now_ns();
			must_send(server);
			must_say(&d, d.seq, false, d.ack, d.ack + 1);
			must_say(&d, d.seq, false, d.ack + 2, 0);
			expect(1, must_end(server) >= since + SPAN + i * NSEC_PER_MSEC);
			expect(0, del());
		}
	}
}

/* Wait until a segment arrives, anywhere here, that begins with @seq; a time before that. */
static __u64 must_see(int raw, __u32 seq)
{
	struct {
		struct iphdr	ip;
		struct tcphdr	head;
		char		rest[64];
	} packet;
	__u64 before = now_ns(), now;

	for (;; before = now) {
		now = now_ns();
		if (recv(raw, &packet, sizeof(packet), MSG_DONTWAIT) > 0 &&
		    packet.head.seq == htonl(seq))
			return before;
	}
}

/*
 * If a segment is sent again because its acknowledgment is late, and that comes sooner after the
 * second time than any other did, TCP takes it for one of the first time. It was not the last.
 */
TEST_F(idle, sent_again)
{
	in_child(must_fork()) {
		int listener = must_move(), raw = socket(AF_INET, SOCK_RAW, IPPROTO_TCP), server;
		struct deaf d;
		__u64 since;

		expect(0, write_file("/proc/sys/net/ipv4/tcp_timestamps", "0"));
		expect(0, write_file("/proc/sys/net/ipv4/tcp_recovery", "0"));
		expect(0, write_file("/proc/sys/net/ipv4/tcp_min_rtt_wlen", "0"));
		expect(0, write_file("/proc/sys/net/ipv4/tcp_early_retrans", "0"));
		expect(0, add());
		d = must_connect_deaf();
		server = must_accept(listener);
		must_send(server);
		must_send(server);
		wait_until(now_ns() + 12 * TICK);	/* a long round trip */
		must_say(&d, d.seq, false, d.ack + 2, 0);
		expect(0, write_file("/proc/sys/net/ipv4/tcp_early_retrans", "3"));	/* probes */
		must_send(server);
		must_send(server);
		must_see(raw, d.ack + 3);
		since = must_see(raw, d.ack + 3) - NSEC_PER_MSEC;
		must_say(&d, d.seq, false, d.ack + 2, d.ack + 3);
		must_say(&d, d.seq, false, d.ack + 4, 0);
		expect(1, must_end(server) >= since + SPAN);
	}
}

/* Who reads the rules while they change is told so. */
TEST_F(idle, changed_during_dump)
{
	int fd = netlink_open(), i, flags = 0, type = 0;
	static char data[32768];
	struct nlmsghdr *head;
	struct message m;
	ssize_t len;

	for (i = 1; i <= 256; i++)
		ASSERT_EQ(0, add(.port = i));
	message_init(&m, netlink_family(fd, NULL), HWTIMER_IDLE_CMD_GET);
	m.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	ASSERT_LT(0, send(fd, &m, m.head.nlmsg_len, 0));
	ASSERT_EQ(0, del(.port = 1));	/* the first part is made already */
	while (type != NLMSG_DONE) {
		len = recv(fd, data, sizeof(data), 0);
		ASSERT_LT(0, len);
		for (head = (void *)data; NLMSG_OK(head, len); head = NLMSG_NEXT(head, len)) {
			flags |= head->nlmsg_flags;
			type = head->nlmsg_type;
		}
	}
	EXPECT_TRUE(flags & NLM_F_DUMP_INTR);
	close(fd);
}

/*
 * Anybody may read; to change takes CAP_NET_ADMIN in the first user namespace, to hear of events in
 * that of the network namespace: many listeners would hold up the worker.
 */
TEST_F(idle, privileges)
{
	ASSERT_EQ(0, add());
	in_child(fork_as(1000)) {
		int fd = netlink_open();
		__u32 group;

		expect(1, netlink_family(fd, &group) > 0);
		expect(-1, setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group,
				      sizeof(group)));
		expect(EPERM, errno);
		expect(1, rules(PORT, HWTIMER_IDLE_ATTR_WATCHED, NULL));
		expect(-EPERM, add(.port = 1));
		expect(-EPERM, del());
		if (!unshare(CLONE_NEWUSER | CLONE_NEWNET))
			expect(-EPERM, add(.port = 1));
	}
}

TEST_F(idle, bad_input)
{
	const __u32 none = 0, mapped[] = { 0, 0, htonl(0xffff), 0 }, six[4] = { };
	char text[17] = "0123456789abcdef";
	int fd = netlink_open(), family = netlink_family(fd, NULL), i;
	struct message m;

	EXPECT_EQ(-ERANGE, add(.span_ms = 999));
	EXPECT_EQ(-ERANGE, add(.span_ms = HWTIMER_IDLE_MAX_MS + 1));
	EXPECT_EQ(-ERANGE, add(.action = HWTIMER_IDLE_NOTIFY + 1));
	EXPECT_EQ(-EINVAL, add(.address = &none, .address_len = 4));
	EXPECT_EQ(-EINVAL, add(.address = mapped, .address_len = 16));
	EXPECT_EQ(-EINVAL, add(.address = six, .address_len = 16));
	EXPECT_EQ(-EINVAL, add(.address = text, .address_len = 5));
	EXPECT_EQ(-ERANGE, add(.address = text, .address_len = 3));
	EXPECT_EQ(-ERANGE, add(.address = text, .address_len = 17));
	EXPECT_EQ(-ENOENT, del());
	for (i = HWTIMER_IDLE_CMD_UNSPEC; i <= HWTIMER_IDLE_CMD_EVENT + 1; i++) {
		message_init(&m, family, i);
		EXPECT_GT(0, netlink_call(fd, &m));
	}
	EXPECT_EQ(0, rules(PORT, HWTIMER_IDLE_ATTR_WATCHED, NULL));
	EXPECT_EQ(0, add(.span_ms = HWTIMER_IDLE_MAX_MS));
	EXPECT_EQ(-EEXIST, add());
	close(fd);
}

/* Subflows of MPTCP are not watched. */
TEST_F(idle, mptcp)
{
	__u64 watched;
	int listener;

	if (write_file("/proc/sys/net/mptcp/enabled", "1"))
		SKIP(return, "this kernel has no MPTCP");
	ASSERT_EQ(0, add(.port = PORT + 1));
	listener = must_listen(IPPROTO_MPTCP, PORT + 1);
	self->client = must_connect(IPPROTO_MPTCP, INADDR_LOOPBACK, PORT + 1);
	self->server = must_accept(listener);
	ASSERT_EQ(1, rules(PORT + 1, HWTIMER_IDLE_ATTR_WATCHED, &watched));
	EXPECT_EQ(0, watched);
	ASSERT_EQ(0, del(.port = PORT + 1));
	ASSERT_EQ(0, add(.port = PORT + 1));	/* nor are those that exist */
	ASSERT_EQ(1, rules(PORT + 1, HWTIMER_IDLE_ATTR_WATCHED, &watched));
	EXPECT_EQ(0, watched);
	close(listener);
}

/* A request in the SYN is a request. */
TEST_F(idle, fast_open)
{
	struct sockaddr_in to = ipv4(INADDR_LOOPBACK, PORT);
	int i;

	if (write_file("/proc/sys/net/ipv4/tcp_fastopen", "519"))	/* also without a cookie */
		die("tcp_fastopen");
	set_sockopt(self->listener, IPPROTO_TCP, TCP_FASTOPEN, 5);
	ASSERT_EQ(0, add());
	self->client = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(1, sendto(self->client, "x", 1, MSG_FASTOPEN, (void *)&to, sizeof(to)));
	self->server = must_accept(self->listener);
	must_read(self->server);
	for (i = 0; i < 3; i++)
		wait_until(now_ns() + SPAN);
	EXPECT_TRUE(is_open(self->client));
	EXPECT_LE(2, SPARED);
	must_send(self->server);
	must_read(self->client);
	must_end(self->client);
}

/* A message as nobody should send it, mostly: attributes of any type, length and content. */
static void random_message(struct message *m, int family, __u64 *state)
{
	__u64 bytes[4];
	int i;

	message_init(m, family, rnd(state) % (HWTIMER_IDLE_CMD_EVENT + 2));
	if (rnd(state) % 4 == 0)
		m->head.nlmsg_flags |= NLM_F_DUMP;
	for (i = rnd(state) % 8; i > 0; i--) {
		int type = rnd(state) % (HWTIMER_IDLE_ATTR_MAX + 2), len = rnd(state) % 20;

		bytes[0] = rnd(state) % 3000;
		bytes[1] = rnd(state) % 2 ? 0 : rnd(state);
		bytes[2] = bytes[1];
		if (type == HWTIMER_IDLE_ATTR_PORT && rnd(state) % 4) {
			bytes[0] = PORT;
			len = 2;
		} else if (type == HWTIMER_IDLE_ATTR_SPAN_MS && rnd(state) % 4) {
			len = 4;
		} else if (rnd(state) % 16 == 0) {
			type |= NLA_F_NESTED;
		}
		message_put(m, type, bytes, len);
	}
	if (rnd(state) % 8 == 0)
		m->head.nlmsg_len -= rnd(state) % 16;
}

/* One of the things that servers and clients do. */
static void random_step(int listener, int *fds, int nr, __u64 *state)
{
	struct linger linger = { 1, 0 };
	int *fd = &fds[rnd(state) % nr];
	char byte[2];

	if (*fd < 0) {
		*fd = rnd(state) % 2 ? must_connect(0, INADDR_LOOPBACK, PORT) :
				       accept4(listener, NULL, NULL, SOCK_NONBLOCK);
		return;
	}
	switch (rnd(state) % 8) {
	case 0:
		setsockopt(*fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		fallthrough;
	case 1:
		close(*fd);
		*fd = -1;
		break;
	case 2:
		shutdown(*fd, rnd(state) % 3);
		break;
	case 3:
		recv(*fd, byte, 2, MSG_DONTWAIT);
		break;
	default:
		send(*fd, byte, 1 + rnd(state) % 2, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
}

/*
 * Rules and connections at random, and the end of the module in between; for $DURATION seconds, if
 * that is set.
 */
TEST_F(idle, random)
{
	const char *duration = getenv("DURATION");
	__u64 end = now_ns() + strtoull(duration ?: "0", NULL, 10) * NSEC_PER_SEC;
	unsigned int round, rounds = quick_or(20000, 20000);
	int fds[64], fd = netlink_open(), family = netlink_family(fd, NULL), i;
	__u64 state = seed();
	struct message m;
	long answers = 0, changes = 0;

	memset(fds, -1, sizeof(fds));
	set_sockopt(fd, SOL_SOCKET, SO_RCVBUF, 1 << 20);
	fcntl(self->listener, F_SETFL, O_NONBLOCK);
	for (round = 0; duration ? now_ns() < end : round < rounds; round++) {
		random_step(self->listener, fds, ARRAY_SIZE(fds), &state);
		if (rnd(&state) % 4 == 0) {
			random_message(&m, family, &state);
			send(fd, &m, m.head.nlmsg_len, 0);
			while (recv(fd, &m, sizeof(m), MSG_DONTWAIT) > 0)
				answers++;
		}
		if (rnd(&state) % 64 == 0)
			changes += !(rnd(&state) % 2 ? del() : add(.any = rnd(&state) % 2,
								    .action = rnd(&state) % 3));
		if (rnd(&state) % 256 == 0)
			usleep(rnd(&state) % 500000);
		if (rnd(&state) % 4096 == 0) {
			printf("# step %u\n", round);
			fflush(stdout);
			ASSERT_EQ(0, unload(MODULE));
			ASSERT_EQ(0, load(MODULE, "rules=4242:1:reset:any"));
			family = netlink_family(fd, NULL);
		}
	}
	for (i = 0; i < (int)ARRAY_SIZE(fds); i++)
		close(fds[i]);
	printf("# steps: %u, answers: %ld, changes: %ld\n", round, answers, changes);
	EXPECT_LT(0, answers);
	EXPECT_LT(0, changes);
	close(fd);
}

static int compare_times(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

struct cost {
	__u64	mean, median;
};

/* What it takes to open and to close a connection in a new namespace, in ns. */
static struct cost must_measure(bool rule)
{
	const int n = quick_or(500, 10000);
	__u64 *took = mmap(NULL, n * sizeof(*took), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0), sum = 0;
	int listener, client, server, i;
	pid_t pid = must_fork();

	if (!pid) {
		listener = must_move();
		if (rule)
			expect(0, add());
		for (i = 0; i < n; i++) {
			took[i] = now_ns();
			client = must_connect(0, INADDR_LOOPBACK, PORT);
			server = must_accept(listener);
			close(client);
			close(server);
			took[i] = now_ns() - took[i];
		}
		_exit(0);
	}
	if (reap(pid))
		die("no connections");
	for (i = 0; i < n; i++)
		sum += took[i];
	qsort(took, n, sizeof(*took), compare_times);
	return (struct cost){ sum / n, took[n / 2] };
}

/*
 * What connections pay for the module: each of those without a rule, to its hook; and all together
 * of those with one, with what is done behind them. The host's clock would not tell.
 */
TEST(cost)
{
	struct cost none, hook, rule;

	if (getenv("PATIENCE"))
		return;
	wait_until(now_ns() + 5 * SPAN);	/* until what began with the guest is done */
	none = must_measure(false);
	ASSERT_EQ(0, load(MODULE, ""));
	hook = must_measure(false);
	rule = must_measure(true);
	printf("# a connection: %llu; with the hook: %lld more; with a rule: another %lld more\n",
	       none.median, hook.median - none.median, rule.mean - hook.mean);
	EXPECT_LE(hook.median, none.median + 1000);
	EXPECT_EQ(0, unload(MODULE));
}

TEST(parameter)
{
	static const char *const bad[] = { "rules=1", "rules=1:1,1:2", "rules=1:1," };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_GT(0, load(MODULE, bad[i]));
	}
	ASSERT_EQ(0, load(MODULE, "rules=4242:2592000:notify:any,1:1:reset,2:60"));
	EXPECT_EQ(3, rules(0, HWTIMER_IDLE_ATTR_WATCHED, NULL));
	EXPECT_EQ(0, unload(MODULE));
}

TEST_HARNESS_MAIN
