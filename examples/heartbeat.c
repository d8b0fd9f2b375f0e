// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * heartbeat: a monitor of peers that send heartbeats by UDP. Each peer has a timeout, which every
 * heartbeat pushes back by a write to memory, without a system call. A peer whose timeout expires
 * is silent; with its next heartbeat it is back.
 *
 * If the monitor itself was delayed, it must not report its peers as silent. So when it has the
 * event of a timeout, it reads all heartbeats that have arrived, and only then reports the peer as
 * silent. If a heartbeat of the peer was among them, touching the timeout has failed with -ENOENT,
 * the peer has a new timeout, and the event is ignored because its id is not that of the new one.
 * Timeouts of other peers, whose events were not returned yet, are just touched.
 *
 * The peers are child processes. The demonstration delays the monitor; it stops a peer, which must
 * be reported silent, and continues it, so that it must be reported back; and it kills another
 * peer, which must stay silent. Each step waits for the reports of the step before, not for a time.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_common.h"
#include "options.h"

#define DRILL_END	(~0ULL)		/* user_data; for peers it is their number */

enum { STOPPED, KILLED };		/* the peers that the demonstration stops and kills */

struct peer {
	pid_t		pid;
	hwtimer_id	timeout;	/* 0: not heard yet, or silent */
	__u64		heard;		/* time of the last heartbeat */
	__u64		beats;
	long		silent;		/* how often it was reported silent */
	long		back;
};

static struct hwtimer *timers;
static struct peer *peers;
static long nr_peers = 20, period_ms = 100, limit_ms = 500, max_late_us = -1;
static __u64 limit;
static int sock;
static long heard_of, early, too_late, overtaken;
static struct samples late;
static enum { START, WAIT, STOP, CONTINUE, KILL, END } drill;

static void beat(struct peer *p)
{
	__u64 now = hwtimer_now(timers);

	p->beats++;
	p->heard = now;
	if (!p->timeout || hwtimer_touch_at(timers, p->timeout, now + limit) == -ENOENT)
		must(hwtimer_schedule_at(timers, now + limit, p - peers, &p->timeout),
		     "hwtimer_schedule_at");
	heard_of += p->beats == 1;
	if (p->silent > p->back) {
		p->back++;
		printf("peer %td is back\n", p - peers);
	}
}

static void read_heartbeats(void)
{
	__u32 message;
	ssize_t len;

	for (;;) {
		len = recv(sock, &message, sizeof(message), MSG_DONTWAIT | MSG_TRUNC);
		if (len < 0 && errno != EINTR) {
			if (errno == EAGAIN)
				return;
			err(1, "recv");
		}
		/* Anybody may send anything to this port. */
		if (len == sizeof(message) && ntohl(message) < (__u32)nr_peers)
			beat(&peers[ntohl(message)]);
	}
}

static void expired(struct peer *p, const struct hwtimer_event *e)
{
	__u64 now = hwtimer_now(timers);

	if (p->timeout != e->id) {
		overtaken++;
		return;
	}
	p->timeout = 0;
	early += now < p->heard + limit || e->taken_ns < e->deadline_ns;
	too_late += max_late_us >= 0 && now > p->heard + limit + max_late_us * 1000;
	sample(&late, (__s64)(now - p->heard - limit));
	p->silent++;
	printf("peer %td is silent: its last heartbeat was %.3f ms ago\n", p - peers,
	       (now - p->heard) / 1e6);
}

static void sleep_ms(long ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS };

	nanosleep(&t, NULL);
}

static void tell(const struct peer *p, int signal, const char *what)
{
	if (kill(p->pid, signal))
		err(1, "kill");
	printf("peer %td: %s\n", p - peers, what);
}

/* The next step, if its condition holds. On a busy machine any peer may become silent. */
static void go_on(void)
{
	const struct peer *stopped = &peers[STOPPED], *killed = &peers[KILLED];
	static long before;

	if (drill == START && heard_of == nr_peers) {
		drill = WAIT;
		printf("the monitor sleeps for %ld ms\n", 2 * limit_ms);
		sleep_ms(2 * limit_ms);
	} else if (drill == WAIT && stopped->timeout) {
		drill = STOP;
		before = stopped->silent;
		tell(stopped, SIGSTOP, "stopped");
	} else if (drill == STOP && stopped->silent > before) {
		drill = CONTINUE;
		tell(stopped, SIGCONT, "continued");
	} else if (drill == CONTINUE && stopped->timeout && killed->timeout) {
		drill = KILL;
		before = killed->silent;
		tell(killed, SIGKILL, "killed");
	} else if (drill == KILL && killed->silent > before && !killed->timeout) {
		drill = END;
		/* Wait a while, to check that it does not come back. */
		must(hwtimer_schedule(timers, 2 * limit, DRILL_END, NULL), "hwtimer_schedule");
	}
}

static void monitor(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct hwtimer_event event;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

	if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, sock, &e) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, hwtimer_fd(timers), &e))
		err(1, "epoll");
	for (;;) {
		if (epoll_wait(epoll_fd, &e, 1, -1) < 0 && errno != EINTR)
			err(1, "epoll_wait");
		while (must(hwtimer_wait(timers, &event, 0), "hwtimer_wait")) {
			if (event.user_data == DRILL_END)
				return;
			read_heartbeats();
			expired(&peers[event.user_data], &event);
		}
		read_heartbeats();
		go_on();
	}
}

/* Send a heartbeat each period, until the monitor exits. */
static void be_peer(__u32 number, const struct sockaddr_in *to, pid_t parent)
{
	number = htonl(number);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(1);
	for (;;) {
		sendto(sock, &number, sizeof(number), 0, (const struct sockaddr *)to, sizeof(*to));
		sleep_ms(period_ms);
	}
}

static void start_peers(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);
	pid_t parent = getpid();
	long i;

	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || bind(sock, (struct sockaddr *)&address, sizeof(address)) ||
	    getsockname(sock, (struct sockaddr *)&address, &len))
		err(1, "socket");
	for (i = 0; i < nr_peers; i++) {
		peers[i].pid = fork();
		if (peers[i].pid < 0)
			err(1, "fork");
		if (!peers[i].pid)
			be_peer(i, &address, parent);
	}
}

static int report(void)
{
	const struct peer *stopped = &peers[STOPPED], *killed = &peers[KILLED];
	long others = 0, bad, i;
	__u64 beats = 0;

	for (i = 0; i < nr_peers; i++) {
		beats += peers[i].beats;
		if (i != STOPPED && i != KILLED)
			others += peers[i].silent;
		kill(peers[i].pid, SIGKILL);
		waitpid(peers[i].pid, NULL, 0);
	}
	bad = !stopped->back || killed->silent != killed->back + 1 || early || too_late;
	sort_samples(&late);
	printf("%llu heartbeats of %ld peers, heard after their time: %ld\n",
	       beats, nr_peers, overtaken);
	printf("undisturbed peers found silent: %ld\n", others);
	printf("found early: %ld, later than allowed: %ld, the latest %.3f ms after %ld ms\n",
	       early, too_late, quantile(&late, 1) / 1e6, limit_ms);
	printf("%s\n", bad ? "that is wrong" : "the stopped one came back, the killed one did not");
	return bad != 0;
}

static const char usage[] =
	"usage: heartbeat [OPTION]...\n"
	"Peers send heartbeats; who is silent for too long is reported, and who comes back.\n"
	"One peer is stopped and continued, one killed. Fails if that is not found, or\n"
	"if a peer is reported early.\n\n"
	"  --peers N          so many peers, at least 2 [20]\n"
	"  --period-ms N      from one heartbeat to the next [100]\n"
	"  --limit-ms N       how long a peer may be silent [500]\n"
	"  --max-late-us N    fail if it is reported later than that after the limit\n"
	"  -h, --help         this text\n";

int main(int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "peers", .number = &nr_peers, .min = 2, .max = 10000 },
		{ "period-ms", .number = &period_ms, .min = 1, .max = 1000000 },
		{ "limit-ms", .number = &limit_ms, .min = 1, .max = 1000000 },
		{ "max-late-us", .number = &max_late_us, .max = 1000000 },
		{ }
	};

	parse_options(argc, argv, options, usage);
	setvbuf(stdout, NULL, _IOLBF, 0);
	limit = limit_ms * NS_PER_MS;
	peers = calloc(nr_peers, sizeof(*peers));
	if (!peers)
		err(1, "no memory for %ld peers", nr_peers);
	/* Fork first, so that the peers do not inherit the timers. */
	start_peers();
	timers = open_timers(NULL);
	monitor();
	return report();
}
