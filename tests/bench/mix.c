// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what the timeouts of a server cost, whatever keeps them, and whoever does the work: the
 * program, the kernel's part of its system calls, interrupts, or the worker.
 *
 *	mix
 *
 * CONNS connections have an idle timeout of 30 to 60 s, which each message pushes back; RATE
 * messages come in a second, in portions of 1 ms. One connection in a hundred is silent; it
 * expires, and another one takes its place. Each subject serves this for SECONDS in a process of
 * its own, and stores the deadline of each connection. "none" does nothing else, so its cost is
 * subtracted from that of the others, and a line printed for each result:
 *
 *	quantity subject value
 *
 * Instructions are those that the only CPU was not idle for, so this needs a guest whose clock
 * counts instructions, 1 ns for each (scripts/guest/boot -i).
 */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lib/table.h"
#include "counted.h"
#include "libhwtimer.h"

#define CONNS		100000U
#define RATE		100000U
#define SECONDS		10
#define WARM_UP		2
#define SLOTS		65536U		/* of the wheel in the program, of 1 ms */
#define NONE		UINT32_MAX
#define LATES		4096

static struct conn {
	uint64_t	deadline, duration;
	__u64		*word, step;	/* of its slot, or NULL; the duration as a word */
	hwtimer_id	id;
	uint32_t	next;		/* in its slot */
	struct event	event;
} __attribute__((aligned(256))) conns[CONNS];

struct subject {
	const char	*name;
	void		(*begin)(void);
	void		(*arm)(struct conn *c);
	int		(*touch)(struct conn *c);	/* NULL: storing the deadline is enough */
	void		(*look)(void);			/* after each portion of messages */
	void		(*due)(void);			/* its descriptor is readable */
	unsigned int	slack_ms;
	unsigned int	flags;
};

static const struct subject *subject;
static uint64_t now, now_word, lates[LATES];
static unsigned int nr_lates;
static int epfd, net = -1, timer = -1;

static uint32_t random_below(uint32_t n)
{
	static uint64_t state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % n;
}

/* The subject has looked at a connection, and arms it again; it may have been pushed back. */
static void visit(struct conn *c)
{
	if (c->deadline <= now) {
		if (nr_lates < LATES)
			lates[nr_lates++] = now - c->deadline;
		c->deadline = now + c->duration;
	}
	subject->arm(c);
}

static void push_back(struct conn *c)
{
	c->deadline = now + c->duration;
	if (subject->touch && subject->touch(c))
		errx(1, "%s: cannot push back", subject->name);
	if (c->word)
		table_store(c->word, now_word + c->step);
}

static void nothing(void)
{
}

static void store(struct conn *c)
{
}

/* Look at all connections once a second. */
static void scan(void)
{
	static uint64_t next;
	unsigned int i;

	if (now < next)
		return;
	next = now + SEC;
	for (i = 0; i < CONNS; i++)
		if (conns[i].deadline <= now)
			visit(&conns[i]);
}

/* A wheel of lists in the program. Deadlines are rounded up to a tick, as hwtimer does. */
static uint32_t slots[SLOTS];
static uint64_t wheel_at;

static void wheel_begin(void)
{
	memset(slots, 0xff, sizeof(slots));
	wheel_at = now / MS;
}

static void wheel_arm(struct conn *c)
{
	uint32_t *slot = &slots[(c->deadline + MS - 1) / MS % SLOTS];

	c->next = *slot;
	*slot = c - conns;
}

static void wheel_look(void)
{
	uint32_t n, next;

	for (; wheel_at <= now / MS; wheel_at++) {
		n = slots[wheel_at % SLOTS];
		slots[wheel_at % SLOTS] = NONE;
		for (; n != NONE; n = next) {
			next = conns[n].next;
			visit(&conns[n]);
		}
	}
}

/* A heap of four children, by the deadline at the time of arming, and a timerfd for its top. */
static struct entry {
	uint64_t	at;
	uint32_t	conn;
} heap[CONNS];

static uint32_t heaped;
static bool replace;	/* the top, by what is armed next */

static void heap_down(struct entry e)
{
	uint32_t i = 0, child, least;

	while (4 * i + 1 < heaped) {
		least = 4 * i + 1;
		for (child = least + 1; child < 4 * i + 5 && child < heaped; child++)
			if (heap[child].at < heap[least].at)
				least = child;
		if (heap[least].at >= e.at)
			break;
		heap[i] = heap[least];
		i = least;
	}
	heap[i] = e;
}

static void heap_arm(struct conn *c)
{
	struct entry e = { (c->deadline + MS - 1) / MS * MS, c - conns };
	uint32_t i;

	if (replace) {
		heap_down(e);
		return;
	}
	for (i = heaped++; i && heap[(i - 1) / 4].at > e.at; i = (i - 1) / 4)
		heap[i] = heap[(i - 1) / 4];
	heap[i] = e;
}

static void heap_due(void)
{
	struct itimerspec first = { 0 };

	replace = true;
	while (heap[0].at <= now)
		visit(&conns[heap[0].conn]);
	first.it_value.tv_sec = heap[0].at / SEC;
	first.it_value.tv_nsec = heap[0].at % SEC;
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &first, NULL);
}

static void heap_begin(void)
{
	struct itimerspec first = { .it_value.tv_nsec = MS };

	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	timerfd_settime(timer, 0, &first, NULL);
}

/* libevent: a timer event for each connection, in its own loop. */
static struct event_base *base;

/* By its default clock, which is coarse, so what it reports is up to 4 ms early. */
static void event_due(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	now = clock_ns();
	if (c->deadline > now && c->deadline < now + 4 * MS)
		c->deadline = now;
	visit(c);
}

static void event_begin(void)
{
	unsigned int i;

	base = event_base_new();
	for (i = 0; i < CONNS; i++)
		event_assign(&conns[i].event, base, -1, 0, event_due, &conns[i]);
}

static void event_arm(struct conn *c)
{
	uint64_t us = (c->deadline - now + 999) / 1000;
	struct timeval delay = { us / 1000000, us % 1000000 };

	event_add(&c->event, &delay);
}

/* libhwtimer */
static struct hwtimer *h;

static void hwtimer_begin(void)
{
	struct hwtimer_options options = {
		.size = sizeof(options), .slack_ns = subject->slack_ms * MS,
		.flags = subject->flags,
	};

	if (hwtimer_open(&h, &options))
		errx(1, "no /dev/hwtimer");
	timer = hwtimer_fd(h);
}

static void hwtimer_arm(struct conn *c)
{
	if (hwtimer_schedule_at(h, c->deadline, c - conns, &c->id))
		errx(1, "hwtimer_schedule_at");
}

static int hwtimer_push_back(struct conn *c)
{
	return hwtimer_touch_at(h, c->id, c->deadline);
}

static int hwtimer_arm_again(struct conn *c)
{
	return hwtimer_cancel(h, c->id) ?:
	       hwtimer_schedule_at(h, c->deadline, c - conns, &c->id);
}

static void hwtimer_due(void)
{
	struct hwtimer_event event;

	while (hwtimer_wait(h, &event, 0) > 0)
		visit(&conns[event.user_data]);
}

/*
 * The protocol of the table without libhwtimer: the slot of each connection is its own, and
 * push_back() stores its word: always to later, and no other thread.
 */
static struct table table;

static void slot_begin(void)
{
	struct hwtimer_setup setup = {
		.slack_ns = subject->slack_ms * MS, .clockid = CLOCK_MONOTONIC,
		.flags = HWTIMER_SETUP_TABLE, .slots = CONNS,
	};

	table.page = sysconf(_SC_PAGESIZE);
	timer = open("/dev/hwtimer", O_RDWR);
	table.fd = timer;
	if (timer < 0 || ioctl(timer, HWTIMER_IOC_SETUP, &setup) || table_map(&table))
		errx(1, "no /dev/hwtimer");
}

static void slot_arm(struct conn *c)
{
	c->word = &table.slot[c - conns].word;
	c->step = table_word(c->duration, 0);
	if (table_arm(&table, c - conns, table_word(c->deadline, 1)))
		errx(1, "table_arm");
}

static void slot_due(void)
{
	uint32_t index, ring, head;

	while (table_peek(&table, &index, &ring, &head) > 0) {
		if (table_look(&table, index, now, NULL, NULL))
			visit(&conns[index]);
		table_took(&table, ring, head);
	}
}

static const struct subject subjects[] = {
	{ "none", nothing, store, NULL, nothing },	/* subtracted from all others */
	{ "hwtimer", hwtimer_begin, hwtimer_arm, hwtimer_push_back, nothing, hwtimer_due },
	{ "hwtimer_8ms", hwtimer_begin, hwtimer_arm, hwtimer_push_back, nothing, hwtimer_due, 8 },
	{ "hwtimer_100ms", hwtimer_begin, hwtimer_arm, hwtimer_push_back, nothing, hwtimer_due,
	  100 },
	{ "hwtimer_again", hwtimer_begin, hwtimer_arm, hwtimer_arm_again, nothing, hwtimer_due },
	{ "in_process", hwtimer_begin, hwtimer_arm, hwtimer_push_back, nothing, hwtimer_due, 0,
	  HWTIMER_OPEN_PROCESS },
	{ "hwtimer_lazy", hwtimer_begin, hwtimer_arm, NULL, nothing, hwtimer_due },
	{ "slots_8ms", slot_begin, slot_arm, NULL, nothing, slot_due, 8 },
	{ "wheel_in_program", wheel_begin, wheel_arm, NULL, wheel_look },
	{ "scan", nothing, store, NULL, scan },
	{ "timerfd_and_heap", heap_begin, heap_arm, NULL, nothing, heap_due },
	{ "libevent_lazy", event_begin, event_arm, NULL, nothing },
};

#define SUBJECTS	(sizeof(subjects) / sizeof(*subjects))

struct result {
	double	instructions, switches, late;	/* million per s; per s; ms, the 99th percentile */
};

static struct {
	uint64_t	time, idle, switches;
} mark;

static void set_mark(void)
{
	mark.idle = idle_ns();
	mark.switches = number_in("/proc/stat", "ctxt");
	mark.time = clock_ns();
	nr_lates = 0;
}

/* A portion of messages. Returns whether it was the last one. */
static bool messages(void)
{
	static uint64_t began;
	unsigned int i;
	struct conn *c;
	uint64_t n;

	if (read(net, &n, sizeof(n)) != sizeof(n))
		return false;
	now = clock_ns();
	now_word = table_word(now, 1);
	for (i = 0; i < RATE / 1000; i++) {
		c = &conns[random_below(CONNS)];
		if ((c - conns) % 100)
			push_back(c);
	}
	subject->look();
	if (!began)
		began = now;
	if (!mark.time && now - began >= WARM_UP * SEC)
		set_mark();
	return mark.time && now >= mark.time + SECONDS * SEC;
}

static void event_messages(evutil_socket_t fd, short what, void *arg)
{
	if (messages())
		event_base_loopbreak(base);
}

static void watch(int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	if (fd >= 0 && epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &e))
		err(1, "epoll_ctl");
}

static void loop(void)
{
	struct epoll_event events[8];
	bool over = false;
	int i, n;

	if (base) {
		event_add(event_new(base, net, EV_READ | EV_PERSIST, event_messages, NULL), NULL);
		event_base_dispatch(base);
		return;
	}
	epfd = epoll_create1(0);
	watch(net);
	watch(timer);
	while (!over) {
		n = epoll_wait(epfd, events, 8, -1);
		for (i = 0; i < n; i++) {
			if (events[i].data.fd == net) {
				over = messages();
				continue;
			}
			now = clock_ns();
			subject->due();
		}
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static struct result serve(void)
{
	/* Not at the ticks of a wheel. */
	struct itimerspec each = { { 0, MS }, { 0, MS } };
	struct result r;
	double seconds;
	unsigned int i;

	each.it_value.tv_nsec = 370000;
	now = clock_ns();
	subject->begin();
	/* As after a while: armed at some time, and pushed back since. */
	for (i = 0; i < CONNS; i++) {
		now = clock_ns();
		now_word = table_word(now, 1);
		conns[i].duration = 30 * SEC + random_below(30000) * MS;
		conns[i].deadline = now + SEC + random_below(conns[i].duration / MS) * MS;
		subject->arm(&conns[i]);
	}
	for (i = 0; i < CONNS; i++)
		if (i % 100)
			push_back(&conns[i]);
	each.it_value.tv_sec = now / SEC + 1;
	net = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	timerfd_settime(net, TFD_TIMER_ABSTIME, &each, NULL);
	loop();
	seconds = (double)(clock_ns() - mark.time) / SEC;
	r.instructions = seconds * 1000 - (double)(idle_ns() - mark.idle) / 1e6;
	r.instructions /= seconds;
	r.switches = (number_in("/proc/stat", "ctxt") - mark.switches) / seconds;
	qsort(lates, nr_lates, sizeof(*lates), compare);
	r.late = nr_lates ? lates[nr_lates * 99 / 100] / 1e6 : 0;
	/* About 22 connections expire in a second. */
	if (subject != subjects && (nr_lates < 11 * SECONDS || nr_lates > 44 * SECONDS))
		errx(1, "%s: %u connections expired", subject->name, nr_lates);
	return r;
}

int main(void)
{
	struct result none = { 0 }, r;
	int ends[2], status;
	unsigned int i;

	for (i = 0; i < SUBJECTS; i++) {
		subject = &subjects[i];
		if (pipe(ends))
			err(1, "pipe");
		if (!fork()) {
			r = serve();
			_exit(write(ends[1], &r, sizeof(r)) == sizeof(r) ? 0 : 1);
		}
		if (wait(&status) < 0 || status || read(ends[0], &r, sizeof(r)) != sizeof(r))
			errx(1, "%s: failed", subject->name);
		close(ends[0]);
		close(ends[1]);
		if (!i)
			none = r;
		printf("%sinstructions_M/s %s %.2f\n", i ? "" : "bare_", subject->name,
		       r.instructions - (i ? none.instructions : 0));
		printf("%sswitches/s %s %ld\n", i ? "" : "bare_", subject->name,
		       (long)(r.switches - (i ? none.switches : 0)));
		if (i)
			printf("late_99%%_ms %s %.2f\n", subject->name, r.late);
		fflush(stdout);
	}
	return 0;
}
