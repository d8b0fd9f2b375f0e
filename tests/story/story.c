// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what it costs to close idle connections of a TCP server, and how late they are closed,
 * whatever keeps the timeouts.
 *
 *	story CONNECTIONS SECONDS
 *
 * All connections are opened once, in this guest, and serve one way after another: for each, a
 * server process is forked, which echoes messages and closes connections that were silent for the
 * span, and a process of clients. Each connection gets a message in each period (two thirds of the
 * span), at its own place in it. But one in a hundred, in the first half of places, is silent after
 * the first message, and has to be closed; these are other ones for each way.
 *
 *	periods 0   all get a message   1   1.5   silent ones are closed   2   nobody is   2.5
 *
 * Prints "used WAY", at the beginning and the end of the last part, with the time, the idle time,
 * the CPU times of server and clients, and how often the CPU switched and the server waited; "late
 * WAY NS" for each connection that was closed, by what its client saw, from the last message that
 * it sent to the end of the connection, less the span; how many others ended by mistake ("wrong");
 * the bytes of a timeout; and at the end "over". Then it stays, so that the guest can leave without
 * closing all connections.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../bench/counted.h"
#include "libhwtimer.h"

#define SERVER_PORT	11211
#define CLIENT_PORT	10000		/* the first one of ... */
#define PORTS		20000U		/* ... each address of clients */
#define SLOTS		65536U		/* of the wheel in the program, of 1 ms */
#define NONE		UINT32_MAX
#define STRIDE		7919U		/* a prime: the next place is not the next connection */
#define SILENT		100U		/* one in so many */
#define MOST		200000U

struct conn {
	struct event	event;
	uint64_t	deadline;	/* of the wheel */
	hwtimer_id	id;
	uint32_t	next;		/* in a slot of the wheel */
};

struct way {
	const char	*name;
	void		(*begin)(void);
	void		(*arm)(struct conn *c, uint64_t deadline);
	void		(*touch)(struct conn *c);
	void		(*look)(void);		/* after each turn of the loop */
	unsigned int	own;			/* what it has in struct conn: bytes */
	void		(*load)(void);		/* after the server has begun */
};

/* What the processes share: lateness, in ns, of those that were closed. */
static struct {
	uint64_t	t0, closed, wrong;
	int64_t		free_before, free_after, lates[MOST / SILENT];
} *shared;

static unsigned int conns, silent, active, opened;
static unsigned int first_silent;		/* which of the silent ones this way has */
static uint64_t span, period, now;
static int server_fd[2 * MOST], client_fd[2 * MOST];
static const struct way *way;
static struct conn conn[MOST];
static struct event_base *base;

/* Which of all connections is at this place of those of a way? */
static unsigned int at_place(unsigned int place)
{
	unsigned int n = (place < conns / 2 ? place : conns / 2 - 1) * 2 / SILENT;

	if (place < conns / 2 && place % (SILENT / 2) == 0)
		return first_silent + n;
	return (place - n - 1) * (uint64_t)STRIDE % active;
}

static uint64_t time_of_place(unsigned int place)
{
	return period * place / conns;
}

/* The time at the beginning of this turn of the loop. */
static uint64_t turn_ns(void)
{
	if (!now)
		now = clock_ns();
	return now;
}

static void cut(struct conn *c)
{
	event_del(&c->event);
	/* The process that has forked this one has the socket, too. */
	shutdown(event_get_fd(&c->event), SHUT_RDWR);
}

static void echo(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	char message[64];
	ssize_t n;

	n = what & EV_READ ? recv(fd, message, sizeof(message), MSG_DONTWAIT) : 0;
	if (n > 0 && way->touch)
		way->touch(c);
	if (n <= 0 || send(fd, message, n, MSG_DONTWAIT | MSG_NOSIGNAL) != n)
		cut(c);
}

/* A wheel of lists in the program: a message stores the deadline, which counts once it is due. */
static uint32_t slots[SLOTS];
static uint64_t wheel_at;

static void wheel_tick(evutil_socket_t fd, short what, void *arg)
{
}

/* Without messages, the loop turns each 10 ms. */
static void wheel_begin(void)
{
	struct timeval tick = { 0, 10000 };

	memset(slots, 0xff, sizeof(slots));
	wheel_at = turn_ns() / MS;
	event_add(event_new(base, -1, EV_PERSIST, wheel_tick, NULL), &tick);
}

static void wheel_arm(struct conn *c, uint64_t deadline)
{
	uint32_t *slot = &slots[(deadline + MS - 1) / MS % SLOTS];

	c->deadline = deadline;
	c->next = *slot;
	*slot = c - conn;
}

static void wheel_touch(struct conn *c)
{
	c->deadline = turn_ns() + span;
}

static void wheel_look(void)
{
	uint64_t until = turn_ns() / MS;
	uint32_t n, next;

	for (; wheel_at <= until; wheel_at++) {
		n = slots[wheel_at % SLOTS];
		slots[wheel_at % SLOTS] = NONE;
		for (; n != NONE; n = next) {
			next = conn[n].next;
			if (conn[n].deadline > now)
				wheel_arm(&conn[n], conn[n].deadline);
			else
				cut(&conn[n]);
		}
	}
}

/* libevent's heap: each message pushes the timeout of its event back. */
static void heap_arm(struct conn *c, uint64_t deadline)
{
	struct timeval delay = { span / SEC, span % SEC / 1000 };

	event_add(&c->event, &delay);
}

/* libhwtimer, on the device */
static struct hwtimer *h;

static void hwtimer_due(evutil_socket_t fd, short what, void *arg)
{
	struct hwtimer_event event;

	while (hwtimer_wait(h, &event, 0) > 0)
		cut(&conn[event.user_data]);
}

static void hwtimer_begin(void)
{
	if (hwtimer_open(&h, NULL) || hwtimer_in_process(h))
		errx(1, "no /dev/hwtimer");
	event_add(event_new(base, hwtimer_fd(h), EV_READ | EV_PERSIST, hwtimer_due, NULL), NULL);
}

static void hwtimer_arm(struct conn *c, uint64_t deadline)
{
	if (hwtimer_schedule_at(h, deadline, c - conn, &c->id))
		errx(1, "hwtimer_schedule_at");
}

static void hwtimer_push_back(struct conn *c)
{
	if (hwtimer_touch_at(h, c->id, turn_ns() + span))
		errx(1, "hwtimer_touch_at");
}

/* hwtimer_idle, which closes the connections of a server that has no timeouts. */
static void idle_load(void)
{
	int fd = open("/hwtimer_idle.ko", O_RDONLY);
	char rule[64];

	snprintf(rule, sizeof(rule), "rules=%d:%llu:shutdown", SERVER_PORT, span / SEC);
	if (fd < 0 || syscall(SYS_finit_module, fd, rule, 0))
		err(1, "hwtimer_idle.ko");
	close(fd);
}

static const struct way ways[] = {
	{ "none" },		/* subtracted from all others */
	{ "libhwtimer", hwtimer_begin, hwtimer_arm, hwtimer_push_back, NULL, 8 },
	{ "heap", NULL, heap_arm, NULL, NULL },
	{ "wheel", wheel_begin, wheel_arm, wheel_touch, wheel_look, 12 },
	{ "hwtimer_idle", .load = idle_load },
};

#define WAYS	(sizeof(ways) / sizeof(*ways))

/* Free memory, with the pages that the CPU has at hand. */
static int64_t free_bytes(void)
{
	FILE *file = fopen("/proc/zoneinfo", "r");
	int64_t pages = 0, n;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " pages free %ld", &n) == 1 ||
		    sscanf(line, " count: %ld", &n) == 1)
			pages += n;
	if (file)
		fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

/* The server: nothing but its timeouts differs. */
static void serve(int ready)
{
	unsigned int i;

	base = event_base_new();
	for (i = 0; i < conns; i++) {
		event_assign(&conn[i].event, base, server_fd[at_place(i)], EV_READ | EV_PERSIST,
			     echo, &conn[i]);
		if (event_add(&conn[i].event, NULL))
			errx(1, "event_add");
	}
	shared->free_before = free_bytes();
	now = clock_ns();
	if (way->begin)
		way->begin();
	/* As if the first message had come when its time is. */
	for (i = 0; way->arm && i < conns; i++)
		way->arm(&conn[i], now + time_of_place(i) + span);
	shared->free_after = free_bytes();
	if (write(ready, "", 1) != 1)
		err(1, "write");
	for (;;) {
		now = 0;
		if (event_base_loop(base, EVLOOP_ONCE) < 0)
			errx(1, "event_base_loop");
		if (way->look)
			way->look();
	}
}

/* The clients: a portion of messages each ms, and the answers to those of the last one. */
static uint64_t sent_ns[MOST / SILENT];	/* of silent ones: when the last message was sent */
static uint64_t sent, answered;		/* how many places, since the beginning */

static void take_answers(void)
{
	unsigned int which;
	char message[64];
	ssize_t n;

	for (; answered < sent; answered++) {
		which = at_place(answered % conns);
		if (which >= active)
			continue;
		n = recv(client_fd[which], message, sizeof(message), MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			shared->wrong++;
	}
}

static void send_messages(uint64_t until)
{
	static const char message[16] = "get something";
	unsigned int which;

	for (; sent / conns * period + time_of_place(sent % conns) < until; sent++) {
		which = at_place(sent % conns);
		if (which >= active) {
			if (sent >= conns)
				continue;
			sent_ns[which - first_silent] = clock_ns();
		}
		if (send(client_fd[which], message, sizeof(message), MSG_NOSIGNAL) < 0)
			shared->wrong++;
	}
}

/* A silent connection has got an answer, or its end. */
static void silent_event(int epfd, unsigned int which)
{
	uint64_t *at = &sent_ns[which - first_silent];
	char message[64];

	if (recv(client_fd[which], message, sizeof(message), MSG_DONTWAIT) > 0)
		return;
	shared->lates[shared->closed++] = clock_ns() - *at - span;
	epoll_ctl(epfd, EPOLL_CTL_DEL, client_fd[which], NULL);
}

static void be_clients(void)
{
	struct itimerspec each = { { 0, MS } };
	struct epoll_event events[16], e = { .events = EPOLLIN };
	int epfd = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), n;
	unsigned int i;

	for (i = 0; i <= silent; i++) {
		int fd = i < silent ? client_fd[first_silent + i] : timer;

		e.data.u32 = i < silent ? first_silent + i : NONE;
		if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &e))
			err(1, "epoll_ctl");
	}
	each.it_value.tv_sec = shared->t0 / SEC;
	each.it_value.tv_nsec = shared->t0 % SEC;
	if (clock_ns() >= shared->t0)
		errx(1, "the clients were too slow to begin");
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &each, NULL);
	for (;;) {
		n = epoll_wait(epfd, events, 16, -1);
		while (n-- > 0) {
			uint64_t ticks;

			if (events[n].data.u32 != NONE) {
				silent_event(epfd, events[n].data.u32);
			} else if (read(timer, &ticks, sizeof(ticks)) == sizeof(ticks)) {
				take_answers();
				send_messages(clock_ns() - shared->t0);
			}
		}
	}
}

static uint64_t cpu_ns(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		errx(1, "process %d has no CPU time", pid);
	return t.tv_sec * SEC + t.tv_nsec;
}

static void print_used(pid_t server, pid_t clients)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", server);
	printf("used %s %lu %lu %lu %lu %lu %lu\n", way->name, clock_ns(), idle_ns(),
	       cpu_ns(server), cpu_ns(clients), number_in("/proc/stat", "ctxt"),
	       number_in(path, "voluntary_ctxt_switches"));
}

static void run(void)
{
	pid_t server, clients;
	int ready[2], status;
	unsigned int i;
	uint64_t at;
	char byte;

	memset(shared, 0, sizeof(*shared));
	if (pipe(ready))
		err(1, "pipe");
	server = fork();
	if (!server)
		serve(ready[1]);
	close(ready[1]);
	if (server < 0 || read(ready[0], &byte, 1) != 1)
		errx(1, "%s: the server did not begin", way->name);
	close(ready[0]);
	if (way->load) {
		shared->free_before = free_bytes();
		way->load();
		shared->free_after = free_bytes();
	}
	shared->t0 = (clock_ns() / MS + 1000) * MS + 370000;	/* not at a tick of a wheel */
	clients = fork();
	if (!clients)
		be_clients();
	for (i = 1; i <= 2; i++) {
		at = shared->t0 + span + i * period / 2;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME,
				&(struct timespec){ at / SEC, at % SEC }, NULL);
		print_used(server, clients);
	}
	kill(clients, SIGKILL);
	kill(server, SIGKILL);
	while (wait(&status) > 0)
		if (status != SIGKILL)
			errx(1, "%s: a process ended with status 0x%x", way->name, status);
	printf("bytes %s %.1f\nwrong %s %lu\n", way->name,
	       (double)(shared->free_before - shared->free_after) / conns + way->own,
	       way->name, shared->wrong);
	for (i = 0; i < shared->closed; i++)
		printf("late %s %ld\n", way->name, shared->lates[i]);
	for (i = 0; way != ways && i < silent; i++, first_silent++) {
		close(server_fd[first_silent]);
		close(client_fd[first_silent]);
	}
}

static struct sockaddr_in address(uint32_t host, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + host),
	};
}

static void open_all(void)
{
	struct sockaddr_in to = address(0, SERVER_PORT), from;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	unsigned int i;

	if (bind(listener, (void *)&to, sizeof(to)) || listen(listener, 1024))
		err(1, "listen");
	for (i = 0; i < opened; i++) {
		from = address(1 + i / PORTS, CLIENT_PORT + i % PORTS);
		client_fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (client_fd[i] < 0 || bind(client_fd[i], (void *)&from, sizeof(from)) ||
		    connect(client_fd[i], (void *)&to, sizeof(to)))
			err(1, "connection %u", i);
		server_fd[i] = accept(listener, NULL, NULL);
		if (server_fd[i] < 0)
			err(1, "accept %u", i);
	}
}

int main(int argc, char **argv)
{
	struct rlimit files = { 1 << 20, 1 << 20 };
	uint64_t began = clock_ns();
	int64_t before = free_bytes();

	if (argc != 3)
		errx(2, "story CONNECTIONS SECONDS");
	conns = strtoul(argv[1], NULL, 10);
	span = strtoul(argv[2], NULL, 10) * SEC;
	period = span * 2 / 3;
	silent = conns / SILENT;
	active = conns - silent;
	first_silent = active;
	opened = active + (WAYS - 1) * silent;
	if (!silent || conns % SILENT || conns > MOST || !(active % STRIDE))
		errx(2, "connections: a multiple of %u, up to %u", SILENT, MOST);
	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED || setrlimit(RLIMIT_NOFILE, &files))
		err(1, "memory or files");
	open_all();
	printf("opened - %u\nsilent - %u\nopening_ns - %lu\nconnection_bytes - %ld\n", opened,
	       silent, clock_ns() - began, (before - free_bytes()) / opened);
	for (way = ways; way < ways + WAYS; way++)
		run();
	puts("over");
	pause();
	return 1;
}
