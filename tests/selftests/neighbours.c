// SPDX-License-Identifier: GPL-2.0-only
/*
 * What cgroups do to a program that uses timeouts, and what it can take from others: each attack is
 * made by a program on a context of /dev/hwtimer, and by the same program on timerfds, in the
 * same run. Nothing works for the program outside of its cgroup, so whatever ends or limits the
 * program ends or limits its timeouts. (attacks.c measures how late a victim is.)
 */
#include "cgroup.h"
#include "calls.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#include <libhwtimer.h>

#define VILLAIN		"hwtimer-villain"
#define USER		1001
#define MIB		(1024 * 1024ULL)
/* Smaller amounts cannot be measured, as each CPU charges some memory in advance. */
#define GRAIN		MIB
/* More than there is memory for, in any case here. */
#define MOST_FILES	60000

/**
 * struct shared - between the processes
 * @rounds: what the program has done, as the case says
 * @fd: a descriptor of the program
 */
struct shared {
	atomic_uint	rounds;
	int		fd;
};

static struct shared *shared;

FIXTURE(neighbours)
{
	int threads;
};

/**
 * struct _fixture_variant_neighbours - what the program uses
 * @timerfd: timerfds, one for each timeout: the control
 * @table: a handle of the library on the device; otherwise a context by calls
 */
FIXTURE_VARIANT(neighbours)
{
	bool timerfd;
	bool table;
};

FIXTURE_VARIANT_ADD(neighbours, timerfd) { .timerfd = true };
FIXTURE_VARIANT_ADD(neighbours, calls) { };
FIXTURE_VARIANT_ADD(neighbours, table) { .table = true };

static const struct _fixture_variant_neighbours *ground;

/* How many kernel threads there are that are called after us. */
static int own_threads(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char path[PATH_MAX], name[64];
	int n = 0, fd;

	if (!proc)
		die("/proc: %s", strerror(errno));
	while ((entry = readdir(proc))) {
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		fd = atoi(entry->d_name) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		n += read(fd, name, sizeof(name)) > 0 && !strncmp(name, "hwtimer/", 8);
		close(fd);
	}
	closedir(proc);
	return n;
}

FIXTURE_SETUP(neighbours)
{
	ASSERT_EQ(0, set_group(".", "cgroup.subtree_control", "+cpu +memory +pids"));
	make_group(VILLAIN);
	ASSERT_EQ(0, chmod(DEVICE, 0666));
	shared = must_share(sizeof(*shared));
	ground = variant;
	self->threads = own_threads();
}

/* Whatever was done, nothing is left: no context, no thread, no memory, and no cgroup. */
FIXTURE_TEARDOWN(neighbours)
{
	eventually(!contexts());
	EXPECT_EQ(self->threads, own_threads());
	EXPECT_EQ(0, chmod(DEVICE, 0600));
	remove_group(VILLAIN);
	munmap(shared, sizeof(*shared));
}

/**
 * struct timers - the timeouts of a program
 * @fd: to poll; of timerfds, that of the last one
 * @handle: of a table
 */
struct timers {
	int		fd;
	struct hwtimer	*handle;
};

static void timers_open(struct timers *t)
{
	const struct hwtimer_options options = {
		.size = sizeof(options), .flags = HWTIMER_OPEN_DEVICE,
	};

	*t = (struct timers){ .fd = -1 };
	if (ground->table && hwtimer_open(&t->handle, &options))
		die("hwtimer_open");
	else if (ground->table)
		t->fd = hwtimer_fd(t->handle);
	else if (!ground->timerfd)
		t->fd = must_open(0);
}

/* 0 or -errno. */
static int timers_arm(struct timers *t, __u64 delay)
{
	struct itimerspec at = { .it_value = { delay / NSEC_PER_SEC, delay % NSEC_PER_SEC ?: 1 } };
	struct hwtimer_schedule s = { .time = delay, .flags = HWTIMER_RELATIVE };

	if (ground->table)
		return hwtimer_schedule(t->handle, delay, 0, NULL);
	if (!ground->timerfd)
		return hwt_ioctl(t->fd, HWTIMER_IOC_SCHEDULE, &s);
	t->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	return t->fd < 0 || timerfd_settime(t->fd, 0, &at, NULL) ? -errno : 0;
}

static void timers_take(struct timers *t)
{
	struct hwtimer_event event;
	struct hwtimer_record r;
	__u64 times;

	if (ground->table ? hwtimer_wait(t->handle, &event, -1) != 1 :
	    ground->timerfd ? read(t->fd, &times, 8) != 8 : calls_read(t->fd, &r, 1) != 1)
		die("no timeout");
	if (ground->timerfd)
		close(t->fd);
}

/* Run @program in the cgroup, as another user than root. */
static pid_t start_villain(void (*program)(void))
{
	const struct rlimit limit = { MOST_FILES, MOST_FILES };
	pid_t pid = must_fork();

	if (pid)
		return pid;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		die("setrlimit: %s", strerror(errno));
	enter_group(VILLAIN);
	become(USER);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	program();
	_exit(0);
}

/* Expire one timeout after the other, for ever. */
static void expire_on(__u64 delay)
{
	struct timers t;

	timers_open(&t);
	for (;;) {
		if (timers_arm(&t, delay))
			die("arm");
		timers_take(&t);
		atomic_fetch_add(&shared->rounds, 1);
	}
}

static void tick(void)
{
	expire_on(NSEC_PER_MSEC);
}

/* Use all CPU time that there is, while a timeout of another context is due in each ms. */
static void rush(void)
{
	struct timers t;
	__u64 i;

	timers_open(&t);
	for (i = 1; i <= 5000; i++)
		if (timers_arm(&t, i * NSEC_PER_MSEC))
			die("arm");
	expire_on(0);
}

/* Arm @n timeouts, and stay. */
static void arm_some(unsigned int n, __u64 delay)
{
	struct timers t;

	timers_open(&t);
	while (n--)
		if (timers_arm(&t, delay))
			die("arm");
	shared->fd = t.fd;
	atomic_store(&shared->rounds, 1);
	pause();
}

static void arm_few(void)
{
	arm_some(100, FAR);
}

static void arm_soon(void)
{
	arm_some(100, 50 * NSEC_PER_MSEC);
}

static void more_rounds(unsigned int n)
{
	unsigned int until = atomic_load(&shared->rounds) + n;

	eventually((int)(atomic_load(&shared->rounds) - until) >= 0);
}

static __u64 cpu_used(void)
{
	return group_value(VILLAIN, "cpu.stat", "usage_usec");
}

static __u64 frozen(void)
{
	return group_value(VILLAIN, "cgroup.events", "frozen");
}

/*
 * A cgroup is frozen if nothing in it can run: so it is reported, uses no CPU time although
 * timeouts are due all the time, and goes on when it is thawed.
 */
TEST_F(neighbours, freeze)
{
	pid_t pid = start_villain(tick);
	unsigned int rounds;
	__u64 used;

	more_rounds(10);
	ASSERT_EQ(0, set_group(VILLAIN, "cgroup.freeze", "1"));
	eventually(frozen());
	rounds = atomic_load(&shared->rounds);
	used = cpu_used();
	wait_until(now_ns() + NSEC_PER_SEC / 2);
	EXPECT_EQ(1, frozen());
	EXPECT_EQ(rounds, atomic_load(&shared->rounds));
	EXPECT_EQ(used, cpu_used());
	ASSERT_EQ(0, set_group(VILLAIN, "cgroup.freeze", "0"));
	more_rounds(10);
	must_kill(pid);
}

/* How far this process comes in two seconds beside a villain that uses @what. */
static __u64 work_beside_rush(const struct _fixture_variant_neighbours *what)
{
	__u64 n, end;
	pid_t pid;

	ground = what;
	atomic_store(&shared->rounds, 0);
	pid = start_villain(rush);
	more_rounds(1);
	end = now_ns() + 2 * NSEC_PER_SEC;
	for (n = 0; now_ns() < end; n++)
		;
	must_kill(pid);
	return n;
}

/*
 * cpu.max: with a tenth of the CPU, timeouts take no more from others than timerfds do. For these,
 * the kernel works in interrupts, which nobody is charged for.
 */
TEST_F(neighbours, cpu)
{
	const struct _fixture_variant_neighbours control = { .timerfd = true };
	__u64 beside_timerfds, work;

	/* Set by scripts/guest/boot where the clock is the host's. */
	if (getenv("guest_stop"))
		SKIP(return, "the clock of this machine goes on while the host is busy");
	ASSERT_EQ(0, set_group(VILLAIN, "cpu.max", "10000 100000"));
	beside_timerfds = work_beside_rush(&control);
	work = work_beside_rush(variant);
	printf("# work of a neighbour: %llu beside timerfds, %llu\n", beside_timerfds, work);
	fflush(stdout);
	EXPECT_LT(20, group_value(VILLAIN, "cpu.stat", "nr_throttled"));
	EXPECT_LE(beside_timerfds - beside_timerfds / 50, work);
}

/* pids.max: timeouts are no tasks. With one task allowed, there can be as many as before. */
TEST_F(neighbours, pids)
{
	pid_t pid;

	ASSERT_EQ(0, set_group(VILLAIN, "pids.max", "1"));
	pid = start_villain(arm_few);
	eventually(atomic_load(&shared->rounds));
	EXPECT_EQ(1, group_value(VILLAIN, "pids.current", NULL));
	EXPECT_EQ(self->threads, own_threads());
	must_kill(pid);
	EXPECT_EQ(0, group_value(VILLAIN, "pids.current", NULL));
}

/* cgroup.kill ends all of it, although timeouts are due, and the cgroup is empty then. */
TEST_F(neighbours, kill)
{
	pid_t pids[] = { start_villain(tick), start_villain(arm_soon), start_villain(tick) };
	unsigned int i;

	more_rounds(100);
	ASSERT_EQ(0, set_group(VILLAIN, "cgroup.kill", "1"));
	for (i = 0; i < ARRAY_SIZE(pids); i++)
		EXPECT_EQ(128 + SIGKILL, reap(pids[i]));
	EXPECT_EQ(0, group_value(VILLAIN, "cgroup.events", "populated"));
	EXPECT_EQ(0, contexts());
	eventually(!rmdir(CGROUPS "/" VILLAIN));
}

/*
 * The cgroup is removed while the context lives on in a process elsewhere: it expires there, and
 * can be used.
 */
TEST_F(neighbours, remove)
{
	struct hwtimer_record r;
	pid_t pid = start_villain(arm_soon);
	int pidfd, fd;
	__u64 times;

	eventually(atomic_load(&shared->rounds));
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	fd = syscall(SYS_pidfd_getfd, pidfd, shared->fd, 0);
	ASSERT_LE(0, fd);
	must_kill(pid);
	eventually(!rmdir(CGROUPS "/" VILLAIN));
	ASSERT_EQ(POLLIN, poll_in(fd, -1));
	if (ground->timerfd) {
		EXPECT_EQ(8, read(fd, &times, 8));
	} else if (ground->table) {
		EXPECT_EQ(100, must_stats(fd).pending);
		EXPECT_EQ(0, hwt_ioctl(fd, HWTIMER_IOC_ENTER, NULL));
	} else {
		EXPECT_EQ(1, calls_read(fd, &r, 1));
		must_schedule(fd, 0, 0);
		EXPECT_EQ(100, must_stats(fd).pending);
	}
	close(fd);
	close(pidfd);
}

/* As many timeouts as there can be, and then memory of its own. */
static void eat(void)
{
	struct timers t;

	timers_open(&t);
	while (!timers_arm(&t, FAR))
		atomic_fetch_add(&shared->rounds, 1);
	for (;;)
		memset(must_mmap(MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1),
		       1, MIB);
}

/*
 * memory.max: what timeouts take is charged to the cgroup, so a program that then takes more is
 * killed, and all of it is free again.
 */
TEST_F(neighbours, oom)
{
	pid_t pid;

	/* For who reads the kernel's log (scripts/judge/klog-scan). */
	ASSERT_EQ(0, write_file("/dev/kmsg", "klog-expect: neighbours invoked oom-killer"));
	ASSERT_EQ(0, write_file("/dev/kmsg", "klog-expect: oom-kill:.*oom_memcg=/" VILLAIN));
	ASSERT_EQ(0, write_file("/dev/kmsg", "klog-may: neighbours invoked oom-killer"));
	ASSERT_EQ(0, set_group(VILLAIN, "memory.max", "8M"));
	pid = start_villain(eat);
	EXPECT_EQ(128 + SIGKILL, reap(pid));
	ASSERT_EQ(0, write_file("/dev/kmsg", "klog-may-end"));
	EXPECT_LE(1, group_value(VILLAIN, "memory.events", "oom_kill"));
	EXPECT_LT(1000, atomic_load(&shared->rounds));
	/* Each takes at least so much: all of it was charged. */
	EXPECT_GE(8 * MIB / 32, atomic_load(&shared->rounds));
	eventually(group_memory(VILLAIN) <= GRAIN);
	printf("# %u timeouts in 8 MiB\n", atomic_load(&shared->rounds));
}

/* As eat(), but until there can be no more, in contexts that are as large as they can be. */
static void hoard(void)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = ground->table ? HWTIMER_SETUP_TABLE : 0,
	};
	struct hwtimer_grow grow = { .slots = HWTIMER_FREE_SLOTS };
	struct hwtimer_schedule s = { .time = HWTIMER_NEVER };
	struct timers t = { };
	int fd;

	while (ground->timerfd && !timers_arm(&t, FAR))
		;
	while (!ground->timerfd) {
		fd = must_open(0);
		if (ioctl(fd, HWTIMER_IOC_SETUP, &setup))
			break;
		while (!ioctl(fd, ground->table ? HWTIMER_IOC_GROW : HWTIMER_IOC_SCHEDULE,
			      ground->table ? (void *)&grow : &s))
			;
	}
	if (!ground->timerfd && errno != ENOMEM)
		die("SETUP: %s", strerror(errno));
	atomic_store(&shared->rounds, 1);
	pause();
}

/* Without memory.max, a user gets half of the module's max_memory, whatever he opens. */
TEST_F(neighbours, memory)
{
	const __u64 share = 8 * MIB;
	__u64 kernel;
	pid_t pid;

	ASSERT_EQ(0, set_parameter("max_memory", 2 * share / 1024));
	pid = start_villain(hoard);
	eventually(atomic_load(&shared->rounds) || has_ended(pid));
	kernel = group_value(VILLAIN, "memory.stat", "kernel");
	printf("# %llu KiB of the kernel's memory\n", kernel / 1024);
	fflush(stdout);
	if (!variant->timerfd) {
		EXPECT_GE(share + GRAIN, kernel);
		EXPECT_LE(share - GRAIN, kernel);
	}
	must_kill(pid);
	ASSERT_EQ(0, set_parameter("max_memory", 0));
}

TEST_HARNESS_MAIN
