// SPDX-License-Identifier: GPL-2.0-only
/*
 * For LD_PRELOAD: the time of day is off by as many ns as the file $CLOCK has, and whoever reads
 * the FIFO $CLOCK.set learns that it was set; the $STOP-th beginning or end of a commit or a fork
 * kills the process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define REAL(function)	((typeof(function) *)dlsym(RTLD_NEXT, #function))

static const long long *offset;
static int stop, set_fd = -1;

static void __attribute__((constructor)) begin(void)
{
	char *clock = getenv("CLOCK");

	if (clock)
		offset = mmap(NULL, 8, PROT_READ, MAP_SHARED, open(clock, O_RDONLY | O_CLOEXEC), 0);
	stop = atoi(getenv("STOP") ?: "0");
	/* Commands are not to be affected. */
	unsetenv("LD_PRELOAD");
}

static void step(void)
{
	if (stop && !--stop)
		kill(getpid(), SIGKILL);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	int ret = REAL(clock_gettime)(id, t);
	long long ns = t->tv_nsec;

	/* Another process writes it. */
	if (offset && id == CLOCK_REALTIME)
		ns += __atomic_load_n(offset, __ATOMIC_RELAXED);
	t->tv_sec += ns / 1000000000 - (ns % 1000000000 < 0);
	t->tv_nsec = ns % 1000000000 + (ns % 1000000000 < 0 ? 1000000000 : 0);
	return ret;
}

int timerfd_create(int id, int flags)
{
	char name[256];

	if (!offset || id != CLOCK_REALTIME)
		return REAL(timerfd_create)(id, flags);
	snprintf(name, sizeof(name), "%s.set", getenv("CLOCK"));
	set_fd = open(name, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return set_fd;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	return fd == set_fd ? 0 : REAL(timerfd_settime)(fd, flags, new, old);
}

#define STEPS(type, name, parameters, arguments)	\
type name parameters					\
{							\
	type ret;					\
							\
	step();						\
	ret = REAL(name) arguments;			\
	step();						\
	return ret;					\
}

STEPS(int, fsync, (int fd), (fd))
STEPS(int, fdatasync, (int fd), (fd))
STEPS(pid_t, fork, (void), ())
