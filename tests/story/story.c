// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what it costs to close idle connections of a TCP server, and how late they are closed,
 * whatever keeps the timeouts.
 *
 *	story CONNECTIONS SECONDS
 *
 * All connections are opened in this guest, from a network namespace "clients" to this one, and
 * serve one way after another: for each, a server process is forked, which echoes messages and
 * closes connections that were silent for the span, and a process of clients. Each connection gets
 * a message in each period (two thirds of the span), at its own place in it. But one in a hundred,
 * in the first half of places, is silent after the first message, and has to be closed; these are
 * opened anew for each way.
 *
 *	periods 0   all get a message   1   1.5   silent ones are closed   2   nobody is   2.5
 *
 * Ways that scan all connections begin after period 1, when each has had its message. They may
 * close the last silent one after period 2; the last part then begins when they have.
 *
 * Prints "used WAY", at the beginning and the end of the last part, with the time, the idle time,
 * the CPU times of server and clients, how often the CPU switched and the server waited, and how
 * many connections hwtimer_idle or a scan has looked at; "late WAY NS" for each connection that was
 * closed, by what its client saw, from the last message that it sent to the end of the connection,
 * less the span; how many others ended by mistake ("wrong"); the bytes of a timeout; and at the end
 * "over". Before all this there are lines "watches" (run_watches()). Then it stays, so that the
 * guest can leave without closing all connections.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <sched.h>
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

#define CLIENT_PORT	10000		/* the first one of ... */
#define PORTS		20000U		/* ... each address of clients */
#define SLOTS		65536U		/* of the wheel in the program, of 1 ms */
#define NONE		UINT32_MAX
#define STRIDE		7919U		/* a prime: the next place is not the next connection */
#define SILENT		100U		/* one in so many */
#define MOST		200000U
#define WATCHES		1000000U

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
	void		(*scan)(void);		/* in a process of its own ... */
	uint64_t	every;			/* ... at this interval */
};

/* What the processes share: lateness, in ns, of those that were closed. */
static struct {
	uint64_t	t0, closed, wrong, looks;
	int64_t		free_before, free_after, lates[MOST / SILENT];
} *shared;

static unsigned int conns, silent, active, opened;
static uint64_t span, period, now;
static int server_fd[MOST], client_fd[MOST], listener, server_netns, ready[2];
static const struct way *way;
static struct conn conn[MOST];
static struct event_base *base;

/* Which of all connections is at this place of those of a way? */
static unsigned int at_place(unsigned int place)
{
	unsigned int n = (place < conns / 2 ? place : conns / 2 - 1) * 2 / SILENT;

	if (place < conns / 2 && place % (SILENT / 2) == 0)
		return active + n;
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

static void load(const char *path, const char *parameters)
{
	int fd = open(path, O_RDONLY);

	if (fd < 0 || syscall(SYS_finit_module, fd, parameters, 0))
		err(1, "%s", path);
	close(fd);
}

/* hwtimer_idle, which closes the connections of a server that has no timeouts. */
static void idle_load(void)
{
	char rule[64];

	snprintf(rule, sizeof(rule), "rules=%d:%llu:shutdown", SERVER_PORT, span / SEC);
	load("/hwtimer_idle.ko", rule);
}

/* The number that @format finds in a file. */
static uint64_t scanned(const char *path, const char *format)
{
	FILE *file = fopen(path, "r");
	uint64_t n;

	if (!file || fscanf(file, format, &n) != 1)
		errx(1, "not as expected: %s", path);
	fclose(file);
	return n;
}

/* Each time that a timeout of the wheel of hwtimer_idle expires, it looks at a connection. */
static uint64_t idle_looks(void)
{
	return number_in("/sys/kernel/debug/hwtimer/hwtimer_idle/stats", "expired");
}

/* What cron may run: ss finds the connections, and resets them. */
static void ss_scan(void)
{
	char command[64];
	uint64_t looks;
	FILE *file;

	snprintf(command, sizeof(command), "/ss-idle %d %llu", SERVER_PORT, span / SEC);
	file = popen(command, "r");
	if (!file || fscanf(file, "%lu", &looks) != 1 || pclose(file))
		errx(1, "ss-idle");
	shared->looks += looks;
}

/* BPF: an iterator over TCP's sockets, idle.bpf.c. To read it is to run it. */
static void bpf_scan(void)
{
	static struct bpf_object *object;
	static struct bpf_link *link;
	struct bpf_program *program;
	unsigned int key = 0;
	char none;
	int fd;

	if (!object) {
		object = bpf_object__open_file("/idle.bpf.o", NULL);
		if (!object || bpf_object__load(object))
			errx(1, "idle.bpf.o");
		program = bpf_object__find_program_by_name(object, "close_idle");
		link = bpf_program__attach_iter(program, NULL);
	}
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0 || read(fd, &none, 1))
		err(1, "iterator");
	close(fd);
	if (bpf_map__lookup_elem(bpf_object__find_map_by_name(object, ".bss"), &key, sizeof(key),
				 &shared->looks, sizeof(shared->looks), 0))
		errx(1, "looks");
}

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

static const struct way ways[] = {
	{ "none" },		/* subtracted from all others */
	{ "libhwtimer", hwtimer_begin, hwtimer_arm, hwtimer_push_back, NULL, 8 },
	{ "heap", NULL, heap_arm, NULL, NULL },
	{ "wheel", wheel_begin, wheel_arm, wheel_touch, wheel_look, 12 },
	{ "ss", .scan = ss_scan, .every = 10 * SEC },
	{ "bpf_10s", .scan = bpf_scan, .every = 10 * SEC },
	{ "bpf_1s", .scan = bpf_scan, .every = SEC },
	{ "hwtimer_idle", .load = idle_load },	/* stays, so it is the last one */
};

/* The server: nothing but its timeouts differs. */
static void serve(void)
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
	if (write(ready[1], "", 1) != 1)
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
			sent_ns[which - active] = clock_ns();
		}
		if (send(client_fd[which], message, sizeof(message), MSG_NOSIGNAL) < 0)
			shared->wrong++;
	}
}

/* A silent connection has got an answer, or its end. */
static void silent_event(int epfd, unsigned int which)
{
	uint64_t *at = &sent_ns[which - active];
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
		int fd = i < silent ? client_fd[active + i] : timer;

		e.data.u32 = i < silent ? active + i : NONE;
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

static void sleep_until(uint64_t at)
{
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME,
			&(struct timespec){ at / SEC, at % SEC }, NULL);
}

/* In a process group of its own, for the commands of ss_scan(). */
static void be_scanner(void)
{
	uint64_t at = shared->t0 + period + period / 6;

	if (setpgid(0, 0) || setns(server_netns, CLONE_NEWNET))
		err(1, "scanner");
	for (;;) {
		sleep_until(at);
		way->scan();
		do {
			at += way->every;
		} while (at < clock_ns());
	}
}

/*
 * An upper figure: as many timeouts as these, without sockets. "watches COUNT", with the bytes of
 * all, and over a period the time, the idle time, context switches, and how many were looked at.
 */
static void run_watches(unsigned int count)
{
	static const char looks[] = "/sys/module/hwtimer_watches/parameters/looks";
	uint64_t time, idle, switches, before;
	int64_t bytes = free_bytes();
	char parameters[64];

	snprintf(parameters, sizeof(parameters), "count=%u seconds=%llu", count, period / SEC);
	load("/hwtimer_watches.ko", parameters);
	bytes -= free_bytes();
	sleep_until(clock_ns() + period + period / 2);
	before = scanned(looks, "%lu");
	switches = number_in("/proc/stat", "ctxt");
	idle = idle_ns();
	time = clock_ns();
	sleep_until(time + period);
	printf("watches %u %ld %lu %lu %lu %lu\n", count, bytes, clock_ns() - time,
	       idle_ns() - idle, number_in("/proc/stat", "ctxt") - switches,
	       scanned(looks, "%lu") - before);
	syscall(SYS_delete_module, "hwtimer_watches", 0);
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
	printf("used %s %lu %lu %lu %lu %lu %lu %lu\n", way->name, clock_ns(), idle_ns(),
	       cpu_ns(server), cpu_ns(clients), number_in("/proc/stat", "ctxt"),
	       number_in(path, "voluntary_ctxt_switches"),
	       way->load ? idle_looks() : shared->looks);
}

static struct sockaddr_in address(uint32_t host, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a000001 + host),
	};
}

static void open_more(unsigned int from, unsigned int until)
{
	struct sockaddr_in to = address(0, SERVER_PORT), client;
	unsigned int i;

	for (i = from; i < until; i++, opened++) {
		client = address(1 + opened / PORTS, CLIENT_PORT + opened % PORTS);
		client_fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (client_fd[i] < 0 || bind(client_fd[i], (void *)&client, sizeof(client)) ||
		    connect(client_fd[i], (void *)&to, sizeof(to)))
			err(1, "connection %u", i);
		server_fd[i] = accept(listener, NULL, NULL);
		if (server_fd[i] < 0)
			err(1, "accept %u", i);
	}
}

/* Measure half a period in which nobody is closed any more. */
static void measure(pid_t server, pid_t clients)
{
	uint64_t at = shared->t0 + span + period / 2;
	int tries = way->scan ? 20 : 1;

	do {
		sleep_until(at);
		at += period / 2;
	} while (--tries && shared->closed < silent);
	print_used(server, clients);
	sleep_until(at);
	print_used(server, clients);
}

static pid_t child(void (*run)(void))
{
	pid_t pid = fork();

	if (!pid)
		run();
	if (pid < 0)
		err(1, "fork");
	return pid;
}

static void run(void)
{
	pid_t server, clients, scanner, pid;
	struct rusage usage;
	unsigned int i;
	double bytes;
	int status;
	char byte;

	memset(shared, 0, sizeof(*shared));
	open_more(active, conns);
	if (pipe(ready))
		err(1, "pipe");
	server = child(serve);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		errx(1, "%s: the server did not begin", way->name);
	close(ready[0]);
	if (way->load) {
		shared->free_before = free_bytes();
		way->load();
		shared->free_after = free_bytes();
	}
	bytes = (double)(shared->free_before - shared->free_after) / conns + way->own;
	shared->t0 = (clock_ns() / MS + 1000) * MS + 370000;	/* not at a tick of a wheel */
	clients = child(be_clients);
	scanner = way->scan ? child(be_scanner) : 0;
	measure(server, clients);
	if (scanner)
		kill(-scanner, SIGKILL);
	kill(clients, SIGKILL);
	kill(server, SIGKILL);
	while ((pid = wait4(-1, &status, 0, &usage)) > 0) {
		if (status != SIGKILL)
			errx(1, "%s: a process ended with status 0x%x", way->name, status);
		if (pid == scanner)
			bytes = usage.ru_maxrss * 1024.0 / conns;
	}
	printf("bytes %s %.1f\nwrong %s %lu\n", way->name, bytes, way->name, shared->wrong);
	for (i = 0; i < shared->closed; i++)
		printf("late %s %ld\n", way->name, shared->lates[i]);
	for (i = active; i < conns; i++) {
		close(server_fd[i]);
		close(client_fd[i]);
	}
}

/* Connections begin in the network namespace "clients"; the server and all else are in this one. */
static void open_active(void)
{
	struct sockaddr_in here = address(0, SERVER_PORT);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (void *)&here, sizeof(here)) || listen(listener, 1024))
		err(1, "listen");
	server_netns = open("/proc/self/ns/net", O_RDONLY);
	if (setns(open("/run/netns/clients", O_RDONLY), CLONE_NEWNET))
		err(1, "clients' namespace");
	open_more(0, active);
}

int main(int argc, char **argv)
{
	struct rlimit files = { 1 << 20, 1 << 20 };
	uint64_t began;
	int64_t before;

	if (argc != 3)
		errx(2, "story CONNECTIONS SECONDS");
	conns = strtoul(argv[1], NULL, 10);
	span = strtoul(argv[2], NULL, 10) * SEC;
	period = span * 2 / 3;
	silent = conns / SILENT;
	active = conns - silent;
	if (!silent || conns % SILENT || conns > MOST || !(active % STRIDE))
		errx(2, "connections: a multiple of %u, up to %u", SILENT, MOST);
	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED || setrlimit(RLIMIT_NOFILE, &files))
		err(1, "memory or files");
	run_watches(0);
	run_watches(WATCHES);
	began = clock_ns();
	before = free_bytes();
	open_active();
	printf("opened - %u\nsilent - %u\nopening_ns - %lu\nconnection_bytes - %ld\n", opened,
	       silent, clock_ns() - began, (before - free_bytes()) / opened);
	for (way = ways; way < ways + sizeof(ways) / sizeof(*ways); way++)
		run();
	puts("over");
	pause();
	return 1;
}
