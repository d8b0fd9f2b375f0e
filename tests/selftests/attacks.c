// SPDX-License-Identifier: GPL-2.0-only
/*
 * What others can do to a program that uses /dev/hwtimer, beside what they can do to the same
 * program with a timerfd. A victim arms one timeout after the other, while an attacker makes one of
 * the attacks below: first both use timerfds, then both use tables. Each case prints, in us,
 *
 *	late	how late the victim had its timeout, at most
 *	kworkers	the CPU time of the kernel's workers
 *
 * With a table, the victim may be later by a tick, and by what the attacker has put into the same
 * table. The victim is a real-time task, so that nothing delays it but what the kernel does not let
 * it preempt, and locks. This is for a guest whose clock counts instructions: on a host that is
 * busy, any program looks as if it was attacked.
 */
#include "cgroup.h"

#include <linux/aio_abi.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#include <libhwtimer.h>
#include "../../lib/table.h"

#define ATTACKER	"hwtimer-attacker"

/* What a tick of 1 ms is rounded up to. All deadlines are multiples of it. */
#define TICK		(16 * 65536ULL)
/* How many timeouts the victim arms. */
#define ROUNDS		150
/* In ns: what kworkers may use more than in the control. */
#define KWORKERS	(500 * NSEC_PER_USEC)
#define THREADS		64
/* How many slots the victim has, and which of these its library does not come to. */
#define SLOTS		200000
#define FOREIGN		1024
#define FOREIGN_END	20000
#define FOREIGNERS	(FOREIGN_END - FOREIGN)

/**
 * struct shared - between the processes of a measurement
 * @ready: how many of them are ready
 * @go: the measurement begins
 * @stop: the measurement is over
 * @rounds: rounds of the attack
 * @wrong: what the attacker has found wrong
 * @victim: the victim, and ...
 * @fd: ... its descriptor
 * @late_ns: how late it was, at most
 * @longest_ns: the CPU time of the longest call of a program that shares its table
 */
struct shared {
	atomic_uint	ready;
	atomic_bool	go, stop;
	atomic_uint	rounds, wrong;
	pid_t		victim;
	int		fd;
	__u64		late_ns;
	__u64		longest_ns;
};

static struct shared *shared;
/* Do the processes use tables? */
static bool table;
/* The attacker's own one, or the victim's; or a timerfd, of which there is only the descriptor. */
static struct table own;

static void get_ready(void)
{
	atomic_fetch_add(&shared->ready, 1);
	while (!atomic_load(&shared->go))
		usleep(1000);
}

/* It ends a round of the attack, too. */
static bool goes_on(void)
{
	atomic_fetch_add(&shared->rounds, atomic_load(&shared->go));
	return !atomic_load(&shared->stop);
}

static void threads_do(void *(*fn)(void *), int n)
{
	pthread_t thread;

	while (n--)
		start(&thread, fn, NULL);
}

static void real_time(int priority)
{
	if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ priority }))
		die("SCHED_FIFO: %s", strerror(errno));
}

static void timers_open(struct table *t, __u32 slots)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = HWTIMER_SETUP_TABLE, .slots = slots,
	};

	*t = (struct table){ .page = sysconf(_SC_PAGESIZE) };
	t->fd = table ? open("/dev/hwtimer", O_RDWR | O_CLOEXEC) :
		timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (t->fd < 0 || (table && (ioctl(t->fd, HWTIMER_IOC_SETUP, &setup) || table_map(t))))
		die("cannot open: %s", strerror(errno));
}

/* As from a message with SCM_RIGHTS: the descriptor of the victim. */
static void timers_of_victim(void)
{
	int pidfd = syscall(SYS_pidfd_open, shared->victim, 0);

	own = (struct table){ .page = sysconf(_SC_PAGESIZE) };
	own.fd = syscall(SYS_pidfd_getfd, pidfd, shared->fd, 0);
	if (own.fd < 0 || (table && table_map(&own)))
		die("the victim's: %s", strerror(errno));
}

static void arm(const struct table *t, __u32 slot, __u64 due)
{
	struct itimerspec at = { .it_value = { due / NSEC_PER_SEC, due % NSEC_PER_SEC } };

	if (t->slot ? table_arm((struct table *)t, slot, table_word(due, 1)) :
		      timerfd_settime(t->fd, TFD_TIMER_ABSTIME, &at, NULL))
		die("arm: %s", strerror(errno));
}

static void push(struct table *t, __u32 slot, __u64 due)
{
	table_store(&t->slot[slot].word, table_word(due, 1));
	table_push(t, slot);
}

/* Take all that can be taken, without looking. Returns whether a timerfd had expired. */
static bool take(struct table *t)
{
	__u64 times;
	int g;

	if (!t->slot)
		return read(t->fd, &times, sizeof(times)) == sizeof(times);
	for (g = 0; g < HWTIMER_MAX_RINGS; g++)
		table_store(&t->head->cq_head[g], table_load(&t->head->cq_tail[g]));
	return false;
}

static struct hwtimer_stats stats(const struct table *t)
{
	struct hwtimer_stats s;

	if (ioctl(t->fd, HWTIMER_IOC_STATS, &s))
		die("STATS: %s", strerror(errno));
	return s;
}

static int nest(int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int set = epoll_create1(EPOLL_CLOEXEC);

	if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
		die("epoll: %s", strerror(errno));
	return set;
}

/* The victims. */

enum victim {
	PLAIN,		/* it waits in ppoll(2), or read(2) */
	NESTED,		/* it waits in nested epoll sets, and makes new ones */
	TWO,		/* one thread waits, another one arms */
};

static struct hwtimer *handle;
/* The last deadline, and the last one that was taken. */
static _Atomic __u64 armed, taken;

static void victim_arm(__u64 due)
{
	atomic_store(&armed, due);
	if (!table)
		arm(&own, 0, due);
	else if (hwtimer_schedule_at(handle, due, due, NULL))
		die("schedule");
}

static void victim_wait(void)
{
	__u64 now, due;
	struct hwtimer_event event;

	if (table && hwtimer_wait(handle, &event, -1) != 1)
		die("wait");
	while (!table && !take(&own))
		poll_in(own.fd, -1);
	now = now_ns();
	due = table ? event.user_data : atomic_load(&armed);
	if (now < due || due != atomic_load(&armed))
		die("early");
	if (now - due > shared->late_ns)
		shared->late_ns = now - due;
	atomic_store(&taken, due);
}

static void *victim_thread(void *unused)
{
	real_time(3);
	for (;;)
		victim_wait();
	return unused;
}

static void victim(enum victim way)
{
	struct hwtimer_options options = {
		.size = sizeof(options), .flags = way == TWO ? HWTIMER_OPEN_THREADS : 0,
	};
	struct hwtimer_grow grow = { .slots = SLOTS };
	struct epoll_event event;
	int i, inner, outer;
	__u64 due;

	if (!table)
		timers_open(&own, 0);
	else if (hwtimer_open(&handle, &options) ||
		 hwt_ioctl(hwtimer_fd(handle), HWTIMER_IOC_GROW, &grow))
		die("cannot open");
	shared->victim = getpid();
	shared->fd = table ? hwtimer_fd(handle) : own.fd;
	/* After the first one, all is mapped. */
	victim_arm(now_ns());
	victim_wait();
	shared->late_ns = 0;
	real_time(2);
	threads_do(victim_thread, way == TWO);
	get_ready();
	for (i = 0; i < ROUNDS; i++) {
		due = (now_ns() / TICK + 3) * TICK;
		victim_arm(due);
		if (way == NESTED) {
			inner = nest(shared->fd);
			outer = nest(inner);
			if (epoll_wait(outer, &event, 1, -1) != 1)
				die("epoll_wait");
			close(outer);
			close(inner);
		}
		if (way != TWO)
			victim_wait();
		while (atomic_load(&taken) != due)
			usleep(200);
		if (way == TWO)
			usleep(7000);
	}
}

/* The attacks. */

/* Write to all of a table but the flag that says that it is stopped. */
static void vandalise(void)
{
	static const __u64 times[] = { 0, 1, FAR, ~0ULL };
	__u64 state = 1, at, value;
	__u32 *header;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	own = (struct table){ .page = own.page, .fd = own.fd };
	if (table && table_map(&own))
		die("table_map");
	for (header = (__u32 *)own.head;; goes_on()) {
		value = rnd(&state) % 2 ? rnd(&state) : times[rnd(&state) % ARRAY_SIZE(times)];
		at = rnd(&state);
		if (!table)
			arm(&own, 0, now_ns() + value % NSEC_PER_MSEC);
		else if (at % 8)
			table_store((__u64 *)own.slot + at % (4 * own.slots), value);
		else if (at % 512 == 8)
			table_store(header + (at / 512 % 512 ?: 1), value & ~HWTIMER_TABLE_STOPPED);
		else if (at % 512 == 16)
			table_enter(&own);
		else
			table_push(&own, at / 512 % own.slots);
	}
}

/* A program shares its table with the attacker, and with nobody else: whatever its calls return. */
static void share_map(int unused)
{
	hwtimer_id ids[64] = { }, *id;
	__u64 begin, state = 2, random;
	struct hwtimer_event event;

	if (!table)
		timers_open(&own, unused);
	else if (hwtimer_open(&handle, NULL) || hwtimer_schedule(handle, FAR, 0, ids))
		die("cannot open");
	else
		own = (struct table){ .page = sysconf(_SC_PAGESIZE), .fd = hwtimer_fd(handle) };
	if (!must_fork())
		vandalise();
	get_ready();
	while (goes_on()) {
		random = rnd(&state);
		id = &ids[random / 4 % ARRAY_SIZE(ids)];
		begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		if (!table)
			take(&own);
		else if (random % 4 == 0)
			hwtimer_schedule(handle, random / 256 % (4 * TICK), 0, id);
		else if (random % 4 == 1)
			hwtimer_touch(handle, *id, TICK);
		else if (random % 4 == 2)
			hwtimer_cancel(handle, *id);
		else
			hwtimer_wait(handle, &event, random / 256 % 2 * TICK);
		begin = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
		if (begin > shared->longest_ns)
			shared->longest_ns = begin;
	}
}

static void *poll_on(void *unused)
{
	int set = nest(nest(own.fd)), i;

	for (i = 0; goes_on(); i++)
		poll_in(i % 2 ? own.fd : set, 10);
	return unused;
}

/* All that can be called with the descriptor of the victim, short of ending its timeouts. */
static void *call_on(void *unused)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int set = epoll_create1(EPOLL_CLOEXEC);
	struct itimerspec left;
	char path[64];
	void *map;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", own.fd);
	while (goes_on()) {
		poll_in(own.fd, 0);
		epoll_ctl(set, EPOLL_CTL_ADD, own.fd, &event);
		epoll_wait(set, &event, 1, 0);
		epoll_ctl(set, EPOLL_CTL_DEL, own.fd, NULL);
		free(must_slurp(path));
		if (table) {
			stats(&own);
			table_enter(&own);
		} else {
			timerfd_gettime(own.fd, &left);
		}
		/* A timerfd cannot be mapped. */
		map = must_mmap(own.page, PROT_READ, table ? MAP_SHARED :
				MAP_PRIVATE | MAP_ANONYMOUS, table ? own.fd : -1);
		munmap(map, own.page);
	}
	return unused;
}

static void pass_descriptor(int callers)
{
	timers_of_victim();
	threads_do(call_on, callers);
	threads_do(poll_on, THREADS - callers);
	get_ready();
	while (goes_on())
		usleep(1000);
}

#define BY_POLL	0x1000

/*
 * Ask for many timeouts in one call, by nested epoll sets or by poll(2): for 400 tables, or @how
 * times as many timerfds. There is work for each of them, and then nothing to take. To add a set to
 * another one, the kernel holds a mutex that is there only once.
 */
static void ask_many(int how)
{
	enum { TABLES = 400, SLOTS_EACH = 256, LOOKS = 64 };
	const int many = TABLES * (table ? 1 : how % BY_POLL);
	const struct rlimit limit = { many + 100, many + 100 };
	struct table *t = calloc(many, sizeof(*t));
	struct pollfd *all = calloc(many, sizeof(*all));
	struct epoll_event event = { .events = EPOLLIN };
	int i, k, set = epoll_create1(0), outer = epoll_create1(0);
	__u64 due, next;

	if (!t || !all || setrlimit(RLIMIT_NOFILE, &limit))
		die("no room");
	for (i = 0; i < many; i++) {
		timers_open(&t[i], SLOTS_EACH);
		if (epoll_ctl(set, EPOLL_CTL_ADD, t[i].fd, &event))
			die("epoll_ctl");
		all[i] = (struct pollfd){ .fd = t[i].fd, .events = POLLIN };
	}
	due = (now_ns() / TICK + 100) * TICK;
	for (i = 0; i < many; i++)
		for (k = 0; k < (table ? SLOTS_EACH : 1); k++)
			arm(&t[i], k, due);
	for (i = 0; table && i < many; i++)
		table_enter(&t[i]);
	set = nest(set);
	if (now_ns() > due)
		die("too late");
	get_ready();
	for (; goes_on(); due = next) {
		/* No multiple of the 3 ticks of the victim. */
		next = due + (many == TABLES ? 20 : 85) * TICK;
		/* What is moved makes no record. */
		for (i = 0; table && i < many; i++)
			for (k = 0; k < SLOTS_EACH; k++)
				table_store(&t[i].slot[k].word, table_word(next, 1));
		wait_until(due + TICK / 2);
		for (i = 0; !table && i < many; i++) {
			take(&t[i]);
			arm(&t[i], 0, next);
		}
		if (how & BY_POLL ? poll(all, many, 0) :
				    epoll_ctl(outer, EPOLL_CTL_ADD, set, &event) ||
				    epoll_ctl(outer, EPOLL_CTL_DEL, set, NULL))
			die("readable");
	}
	/* They were asked each time. */
	if (table && stats(t).looks < (atomic_load(&shared->rounds) - 1) * LOOKS)
		atomic_store(&shared->wrong, 1);
}

/* One timeout after the other, and 100 requests of aio that wait for something else. */
static void aio(int requests)
{
	struct iocb request = {
		.aio_lio_opcode = IOCB_CMD_POLL, .aio_buf = POLLPRI,
	}, *one = &request;
	aio_context_t context = 0;

	timers_open(&own, 1);
	request.aio_fildes = own.fd;
	if (syscall(SYS_io_setup, requests, &context))
		die("io_setup: %s", strerror(errno));
	while (requests--)
		if (syscall(SYS_io_submit, context, 1, &one) != 1)
			die("io_submit: %s", strerror(errno));
	get_ready();
	while (goes_on()) {
		arm(&own, 0, (now_ns() / TICK + 2) * TICK);
		poll_in(own.fd, -1);
		if (table)
			table_cancel(&own, 0, 1);
		take(&own);
	}
}

static void *enter_on(void *unused)
{
	static atomic_uint next;
	int i;

	while (goes_on()) {
		for (i = 0; table && i < 20000; i++)
			push(&own, atomic_fetch_add(&next, 1) % own.slots, i % 4 ? 1 : FAR);
		if (table)
			table_enter(&own);
		else
			arm(&own, 0, 1);
		poll_in(own.fd, 0);
		take(&own);
	}
	return unused;
}

/* Many threads, all of which do work for a table in which most is due. */
static void enter_many(int threads)
{
	timers_open(&own, 1 << 16);
	threads_do(enter_on, threads);
	get_ready();
	while (goes_on())
		usleep(1000);
}

/* Words that move for ever: each 100 us, more slots are pushed than can be looked at until then. */
static void *move_on(void *unused)
{
	__u64 state = 3, when = now_ns();
	__u32 k;

	real_time(1);
	for (; !atomic_load(&shared->stop); when += 100 * NSEC_PER_USEC) {
		wait_until(when);
		if (!table)
			arm(&own, 0, when);
		for (k = 0; k < own.slots; k++)
			push(&own, k, when + (rnd(&state) >> 36));
	}
	return unused;
}

static void move_words(int threads)
{
	__u64 before = 0;

	timers_open(&own, 1000);
	threads_do(move_on, threads);
	get_ready();
	while (goes_on()) {
		poll_in(own.fd, 0);
		take(&own);
		if (!table)
			continue;
		before = stats(&own).runs;
		table_enter(&own);
		/* It does not go on for as long as there is something to do. */
		if (stats(&own).runs - before > 80 + own.slots / 8)
			atomic_store(&shared->wrong, 1);
	}
}

/*
 * The attacker has slots of its own in the table of the victim, and is throttled in ENTER. In many
 * ticks there is much to look at, and nothing to take.
 */
static void throttled_enter(int unused)
{
	__u32 k;

	(void)unused;
	timers_of_victim();
	get_ready();
	while (goes_on()) {
		for (k = FOREIGN; table && k < FOREIGN_END; k++)
			push(&own, k, now_ns() + FAR);
		if (table)
			table_enter(&own);
		else
			poll_in(own.fd, 0);
	}
}

/* The longest calls: what there is many of is made, counted, stopped and freed. */
static void churn(int slots)
{
	struct hwtimer_grow grow = { .slots = slots };

	get_ready();
	while (goes_on()) {
		timers_open(&own, 1000);
		if (table) {
			if (hwt_ioctl(own.fd, HWTIMER_IOC_GROW, &grow))
				die("GROW");
			stats(&own);
			ioctl(own.fd, HWTIMER_IOC_STOP);
			table_close(&own);
		}
		close(own.fd);
	}
}

FIXTURE(attack)
{
};

/**
 * struct _fixture_variant_attack - an attack
 * @attack: what the attacker does ...
 * @how: ... with this argument
 * @victim: how the victim waits
 * @cpu_max: cpu.max of the attacker's cgroup
 * @ahead: so many slots of the attacker are in the table of the victim, who may have to wait until
 *	they were looked at: 1 us for each
 */
FIXTURE_VARIANT(attack)
{
	void		(*attack)(int how);
	int		how;
	enum victim	victim;
	const char	*cpu_max;
	__u32		ahead;
};

#define ONE_PERCENT	"1000 100000"

FIXTURE_VARIANT_ADD(attack, shared_map) { share_map, 0, PLAIN, NULL };
FIXTURE_VARIANT_ADD(attack, passed_descriptor) { pass_descriptor, 8, PLAIN, NULL };
FIXTURE_VARIANT_ADD(attack, many_polled) { ask_many, BY_POLL | 1, PLAIN, NULL };
/*
 * The attacker is charged for as much memory: 0.7 KiB a timerfd, and here 46 KiB a table. With as
 * many tables as timerfds, nested sets delay others who nest sets for longer: 64 looks each.
 */
FIXTURE_VARIANT_ADD(attack, nested_sets_by_memory) { ask_many, 48, NESTED, NULL };
FIXTURE_VARIANT_ADD(attack, aio_other) { aio, 100, PLAIN, NULL };
FIXTURE_VARIANT_ADD(attack, threads_in_enter) { enter_many, THREADS, PLAIN, NULL };
FIXTURE_VARIANT_ADD(attack, moving_words) { move_words, 1, PLAIN, NULL };
FIXTURE_VARIANT_ADD(attack, throttled_enter) { throttled_enter, 0, TWO, ONE_PERCENT, FOREIGNERS };
FIXTURE_VARIANT_ADD(attack, churn) { churn, SLOTS, PLAIN, NULL };

FIXTURE_SETUP(attack)
{
	/* Set where the clock is the host's. */
	if (getenv("PATIENCE"))
		SKIP(return, "the clock of this machine goes on while the host is busy");
	ASSERT_EQ(0, set_group(".", "cgroup.subtree_control", "+cpu"));
	make_group(ATTACKER);
	shared = must_share(sizeof(*shared));
}

FIXTURE_TEARDOWN(attack)
{
	remove_group(ATTACKER);
	munmap(shared, sizeof(*shared));
}

/* The CPU time of all kworkers, in ns. */
static __u64 kworkers_ns(void)
{
	DIR *proc = opendir("/proc");
	char path[PATH_MAX], *text;
	struct dirent *entry;
	__u64 sum = 0;

	if (!proc)
		die("/proc: %s", strerror(errno));
	while ((entry = readdir(proc))) {
		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		if (!atoi(entry->d_name) || access(path, F_OK))
			continue;
		text = must_slurp(path);
		if (strstr(text, " (kworker/")) {
			snprintf(path, sizeof(path), "/proc/%s/schedstat", entry->d_name);
			sum += must_number(path, NULL);
		}
		free(text);
	}
	closedir(proc);
	return sum;
}

/* Returns the CPU time of kworkers meanwhile, in ns. */
static __s64 measure(struct __test_metadata *_metadata,
		     const struct _fixture_variant_attack *variant)
{
	pid_t attacker, victim_pid;
	__s64 before, after;

	memset(shared, 0, sizeof(*shared));
	victim_pid = must_fork();
	if (!victim_pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		victim(variant->victim);
		_exit(0);
	}
	eventually(atomic_load(&shared->ready) == 1 || has_ended(victim_pid));
	attacker = must_fork();
	if (!attacker) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		enter_group(ATTACKER);
		variant->attack(variant->how);
		_exit(0);
	}
	eventually(atomic_load(&shared->ready) == 2 || has_ended(attacker));
	EXPECT_EQ(0, set_group(ATTACKER, "cpu.max", variant->cpu_max ?: "max"));
	before = kworkers_ns();
	atomic_store(&shared->go, true);
	EXPECT_EQ(0, reap(victim_pid));
	after = kworkers_ns();
	atomic_store(&shared->stop, true);
	EXPECT_EQ(0, set_group(ATTACKER, "cpu.max", "max"));
	eventually(has_ended(attacker));
	EXPECT_EQ(0, reap(attacker));
	EXPECT_LT(0, atomic_load(&shared->rounds));
	EXPECT_EQ(0, atomic_load(&shared->wrong));
	return after - before;
}

TEST_F(attack, no_later_than_timerfd)
{
	const __s64 us = NSEC_PER_USEC;
	__u64 late_timerfd;
	__s64 kworkers_timerfd, kworkers;

	table = false;
	kworkers_timerfd = measure(_metadata, variant);
	late_timerfd = shared->late_ns;
	table = true;
	kworkers = measure(_metadata, variant);
	printf("# timerfd: late %llu, kworkers %lld; table: late %llu, kworkers %lld",
	       late_timerfd / us, kworkers_timerfd / us, shared->late_ns / us, kworkers / us);
	if (shared->longest_ns)
		printf("; longest call %llu", shared->longest_ns / us);
	printf("\n");
	fflush(stdout);
	EXPECT_GE(late_timerfd + TICK + variant->ahead * us, shared->late_ns);
	EXPECT_GE(kworkers_timerfd + (__s64)KWORKERS, kworkers);
}

TEST_HARNESS_MAIN
