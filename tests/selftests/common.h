/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all tests for guests share.
 *
 * Only two properties of time are asserted: nothing fires early, and what must happen happens
 * within PATIENCE, which is far more than the slowest emulated machine needs. No test sleeps and
 * hopes that something has happened.
 *
 * ASSERT_EQ() and the like are two statements each, and need braces as the body of an if or a
 * loop.
 */
#ifndef HWT_COMMON_H
#define HWT_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef HWT_NO_HARNESS
/* For programs that are not tests themselves. */
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#else
#include "kselftest_harness.h"

/* For each case; far more than PATIENCE, and no verdict on how fast the machine is. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	3600
#endif

#define NSEC_PER_USEC	1000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_SEC	1000000000ULL

/* How long to wait for an event that must happen: $PATIENCE seconds, or 60. */
#define PATIENCE	(patience() * NSEC_PER_SEC)
/* After the end of any test. */
#define FAR		(3600 * NSEC_PER_SEC)

/* Content of output fields before a call. */
#define POISON		0xa5a5a5a5a5a5a5a5ULL
/* A call changed its input fields, or succeeded without filling in an output field. */
#define DIRTY		(-9999)

/* Fail if a test cannot continue; works in threads, too. */
#define die(fmt, ...) do {							\
	fprintf(stderr, "# %s:%d: " fmt "\n", __FILE__, __LINE__, ##__VA_ARGS__); \
	abort();								\
} while (0)

static inline __u64 patience(void)
{
	const char *given = getenv("PATIENCE");

	return given ? strtoull(given, NULL, 0) : 60;
}

static inline __u64 clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static inline __u64 now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Wait until @condition holds, and die if it does not. */
#define eventually(condition) do {						\
	__u64 eventually_end = now_ns() + PATIENCE;				\
										\
	while (!(condition)) {							\
		if (now_ns() > eventually_end)					\
			die("timed out waiting for: %s", #condition);		\
		usleep(1000);							\
	}									\
} while (0)

static inline void wait_until(__u64 ns)
{
	struct timespec ts = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };

	while (now_ns() < ns)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

/* Random numbers from a seed: xorshift64*. */
static inline __u64 rnd(__u64 *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

/* The seed: $SEED, or one from the clock. Printed, so that a run can be repeated. */
static inline __u64 seed(void)
{
	const char *given = getenv("SEED");
	__u64 value = given ? strtoull(given, NULL, 0) : now_ns() ^ getpid();

	value = value ?: 1;
	printf("# SEED=%llu\n", (unsigned long long)value);
	fflush(stdout);
	return value;
}

/*
 * A number of rounds, or a duration: @quick; a quarter of it with $BRIEF, as in scripts/test on
 * other kernels; or @thorough with $THOROUGH, which only people set (scripts/selftest -e).
 */
static inline unsigned int quick_or(unsigned int quick, unsigned int thorough)
{
	if (getenv("THOROUGH"))
		return thorough;
	return getenv("BRIEF") ? (quick + 3) / 4 : quick;
}

static inline int hwt_ioctl(int fd, unsigned long cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

/* 0 or -errno. */
static inline int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		ret = errno ? -errno : -EIO;
	close(fd);
	return ret;
}

/*
 * Children get a time namespace with these offsets, as time_namespaces(7) has them; false: this
 * kernel has none.
 */
static inline bool unshare_time(const char *offsets)
{
	/* CLONE_NEWTIME, which older C libraries do not have */
	if (unshare(0x80))
		return false;
	if (write_file("/proc/self/timens_offsets", offsets))
		die("timens_offsets");
	return true;
}

/* What poll(2) says of POLLIN within @ms; -1: without a limit. */
static inline short poll_in(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, ms) < 0)
		die("poll");
	return p.revents;
}

static inline void start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	int ret = pthread_create(thread, NULL, fn, arg);

	if (ret)
		die("pthread_create: %s", strerror(ret));
}

/* Read a small file. Returns its content with a trailing 0, to be freed. */
static inline char *must_slurp(const char *path)
{
	size_t size = 0, room = 4096;
	char *text = malloc(room);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0 || !text)
		die("%s: %s", path, strerror(errno));
	while ((len = read(fd, text + size, room - size - 1)) > 0) {
		size += len;
		if (room - size < 2) {
			room *= 2;
			text = realloc(text, room);
			if (!text)
				die("no memory");
		}
	}
	if (len < 0)
		die("%s: %s", path, strerror(errno));
	close(fd);
	text[size] = 0;
	return text;
}

/* Find the value of @name in lines of "name value" or "name: value". */
static inline bool find_value(const char *text, const char *name, __u64 *value)
{
	size_t len = strlen(name);
	const char *line = text;
	char *end;

	while (line) {
		if (!strncmp(line, name, len) && strchr(" :\t", line[len]) && line[len]) {
			line += len;
			line += strspn(line, " :\t");
			*value = strtoull(line, &end, 10);
			return end != line;
		}
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return false;
}

/* Read a number from a file: the value of @name, or the first number if @name is NULL. */
static inline __u64 must_number(const char *path, const char *name)
{
	char *text = must_slurp(path);
	__u64 value = strtoull(text, NULL, 10);

	if (name && !find_value(text, name, &value))
		die("%s: no '%s':\n%s", path, name, text);
	free(text);
	return value;
}

static inline void *must_mmap(size_t size, int protection, int flags, int fd)
{
	void *p = mmap(NULL, size, protection, flags, fd, 0);

	if (p == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	return p;
}

/* A read-only page that begins with @content. */
static inline void *must_read_only(const void *content, size_t size)
{
	long page = sysconf(_SC_PAGESIZE);
	void *p = must_mmap(page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	memcpy(p, content, size);
	if (mprotect(p, page, PROT_READ))
		die("mprotect: %s", strerror(errno));
	return p;
}

/* Returns the end of @size bytes of memory; the page after it is inaccessible. */
static inline char *must_fence(size_t size)
{
	long page = sysconf(_SC_PAGESIZE);
	char *p;

	size = (size + page - 1) / page * page;
	p = must_mmap(size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (mprotect(p + size, page, PROT_NONE))
		die("mprotect: %s", strerror(errno));
	return p + size;
}

/* Memory shared with child processes. */
static inline void *must_share(size_t size)
{
	return must_mmap(size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
}

static inline pid_t must_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	return pid;
}

/* Has the child exited? It is not reaped. */
static inline bool has_ended(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT))
		die("waitid: %s", strerror(errno));
	return info.si_pid == pid;
}

/* Reap a child; returns its exit status, or 128 plus the signal. */
static inline int reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif /* HWT_COMMON_H */
