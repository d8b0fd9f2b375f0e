// SPDX-License-Identifier: GPL-2.0-only
/*
 * probe: send packets through the NAT64 of examples/jool/guest, and print how long they take, how
 * long the CPU is busy, and what a session takes of memory.
 *
 * usage: probe SESSIONS CHURN SECONDS
 *
 * It opens SESSIONS sessions as fast as it can. Then, for SECONDS, it sends 5,000 packets a second
 * on one session, and CHURN a second that open a session each. Each packet has its time, and counts
 * as delayed from then on: a stall delays all packets whose times it covers, as in a network.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#define NS_PER_S	1000000000ULL
#define PROBES_PER_S	5000
#define CLIENT		"2001:db8:6::1"
#define SERVER_V4	"10.8.0.2"
#define SERVER_V6	"64:ff9b::10.8.0.2"
#define PORT_PROBE	9000
#define PORT_DISCARD	9001
#define PORTS		60000	/* used of each source address */

struct opener {
	struct ip6_hdr	ip;
	struct udphdr	udp;
};

static int client, server, raw;
static uint32_t opened, sent, received;
static uint64_t *delays;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* The number after NAME in a file */
static uint64_t number_of(const char *path, const char *name)
{
	char line[256], *found;
	unsigned long long n;
	FILE *file = fopen(path, "r");

	while (file && fgets(line, sizeof(line), file)) {
		found = strstr(line, name);
		if (found && sscanf(found + strlen(name), "%*[ :]%llu", &n) == 1) {
			fclose(file);
			return n;
		}
	}
	errx(1, "no %s in %s", name, path);
}

/* How long the CPU has been idle, without interrupts */
static uint64_t idle_ns(void)
{
	return number_of("/proc/timer_list", ".idle_sleeptime");
}

static void enter(const char *netns)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		err(1, "%s", netns);
}

static struct sockaddr_in6 address(const char *text, int port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	inet_pton(AF_INET6, text, &a.sin6_addr);
	return a;
}

static int socket_v4(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, SERVER_V4, &a.sin_addr);
	if (fd < 0 || bind(fd, (void *)&a, sizeof(a)))
		err(1, "server's socket");
	return fd;
}

static void sockets_open(void)
{
	struct sockaddr_in6 from = address(CLIENT, PORT_PROBE), to = address(SERVER_V6, PORT_PROBE);
	int one = 1;

	enter("/run/netns/server");
	server = socket_v4(PORT_PROBE);
	socket_v4(PORT_DISCARD);	/* nobody reads it: packets are dropped once it is full */
	if (setsockopt(server, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one)))
		err(1, "SO_TIMESTAMPNS");
	enter("/run/netns/client");
	client = socket(AF_INET6, SOCK_DGRAM, 0);
	raw = socket(AF_INET6, SOCK_RAW, IPPROTO_RAW);
	if (bind(client, (void *)&from, sizeof(from)) ||
	    connect(client, (void *)&to, sizeof(to)) || raw < 0)
		err(1, "client's sockets");
}

static uint16_t checksum(const struct opener *p)
{
	const uint16_t *words = (const void *)&p->ip.ip6_src;
	uint32_t sum = htons(IPPROTO_UDP) + htons(sizeof(p->udp));

	for (size_t i = 0; i < (sizeof(*p) - offsetof(struct opener, ip.ip6_src)) / 2; i++)
		sum += words[i];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff ? sum : ~sum;
}

/* The first packet from an address and a port that were not used before */
static void session_open(void)
{
	struct sockaddr_in6 from = address(CLIENT, 0), to = address(SERVER_V6, 0);
	struct opener p = {
		.ip = { .ip6_flow = htonl(6 << 28), .ip6_plen = htons(sizeof(p.udp)),
			.ip6_nxt = IPPROTO_UDP, .ip6_hlim = 64, .ip6_dst = to.sin6_addr },
		.udp = { .source = htons(1024 + opened % PORTS), .dest = htons(PORT_DISCARD),
			 .len = htons(sizeof(p.udp)) },
	};

	p.ip.ip6_src = from.sin6_addr;
	p.ip.ip6_src.s6_addr16[7] = htons(2 + opened / PORTS);
	p.udp.check = checksum(&p);
	if (sendto(raw, &p, sizeof(p), 0, (void *)&to, sizeof(to)) != sizeof(p))
		err(1, "sendto");
	opened++;
}

static void probes_receive(void)
{
	char control[CMSG_SPACE(sizeof(struct timespec))];
	struct timespec at;
	struct sockaddr_in from;
	uint64_t planned;
	struct iovec iov = { &planned, sizeof(planned) };
	struct msghdr msg = { .msg_name = &from, .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = control };

	while (msg.msg_namelen = sizeof(from), msg.msg_controllen = sizeof(control),
	       recvmsg(server, &msg, MSG_DONTWAIT) == sizeof(planned)) {
		memcpy(&at, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(at));
		delays[received++] = at.tv_sec * NS_PER_S + at.tv_nsec - planned;
		if (received == 1)
			sendto(server, "reply", 5, 0, (void *)&from, sizeof(from));
	}
}

static void packets_send(uint64_t begin, uint64_t churn, uint64_t seconds)
{
	uint64_t probe_at, open_at, opens = 0;

	while (sent < PROBES_PER_S * seconds) {
		probe_at = begin + sent * NS_PER_S / PROBES_PER_S;
		/* Not at the same time as a probe */
		open_at = churn ? begin + 37000 + opens * NS_PER_S / churn : UINT64_MAX;
		if (open_at < probe_at) {
			sleep_until(open_at);
			session_open();
			opens++;
			continue;
		}
		sleep_until(probe_at);
		if (send(client, &probe_at, sizeof(probe_at), 0) != sizeof(probe_at))
			err(1, "send");
		sent++;
		probes_receive();
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double delay_us(double share)
{
	return delays[(size_t)((received - 1) * share)] / 1e3;
}

int main(int argc, char *argv[])
{
	uint32_t sessions, churn, seconds;
	uint64_t begin, idle, slab;
	struct sched_param param = { .sched_priority = 50 };
	char reply[8];

	if (argc != 4)
		errx(2, "usage: probe SESSIONS CHURN SECONDS");
	sessions = atoi(argv[1]), churn = atoi(argv[2]), seconds = atoi(argv[3]);
	delays = calloc(PROBES_PER_S, sizeof(*delays) * seconds);
	sockets_open();
	/* It is to measure the NAT64, and not how tasks share the CPU. */
	if (!delays || mlockall(MCL_CURRENT | MCL_FUTURE) ||
	    sched_setscheduler(0, SCHED_FIFO, &param))
		err(1, "setting up");
	slab = number_of("/proc/meminfo", "Slab");
	begin = now_ns();
	while (opened < sessions)
		session_open();
	if (sessions)
		printf("opened %u in_ms %.0f bytes_a_session %.0f\n", opened,
		       (now_ns() - begin) / 1e6,
		       (number_of("/proc/meminfo", "Slab") - slab) * 1024.0 / opened);
	idle = idle_ns();
	begin = now_ns();
	packets_send(begin, churn, seconds);
	idle = now_ns() - begin - (idle_ns() - idle);
	param.sched_priority = 0;
	if (sched_setscheduler(0, SCHED_OTHER, &param))	/* sorting takes a while */
		err(1, "sched_setscheduler");
	if (received != sent || recv(client, reply, sizeof(reply), MSG_DONTWAIT) != 5)
		errx(1, "%u of %u packets arrived, or no reply did", received, sent);
	qsort(delays, received, sizeof(*delays), compare);
	printf("packets %u p50_us %.1f p99_us %.1f p99.9_us %.1f worst_us %.1f busy_us %.0f\n",
	       received, delay_us(0.5), delay_us(0.99), delay_us(0.999), delay_us(1), idle / 1e3);
	return 0;
}
