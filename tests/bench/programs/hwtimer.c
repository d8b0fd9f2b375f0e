// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: an ioctl for each operation, and libhwtimer with rings.
 *
 * The deferred work of the wheel's worker counts as well. So settle() waits until the worker is
 * done, and returns the CPU time of that: with one CPU, what is missing in a loop that reads the
 * time; with several, what the scheduler counted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include <libhwtimer.h>

#include "bench.h"

#define DEVICE	"/dev/hwtimer"
#define DEBUGFS	"/sys/kernel/debug/hwtimer"
#define EVENTS	256

int __real_ioctl(int fd, unsigned long command, ...);
int __wrap_ioctl(int fd, unsigned long command, ...);
ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);
int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const void *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const void *mask);

int __wrap_ioctl(int fd, unsigned long command, ...)
{
	va_list list;
	void *arg;

	va_start(list, command);
	arg = va_arg(list, void *);
	va_end(list);
	system_calls++;
	return __real_ioctl(fd, command, arg);
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
	system_calls++;
	return __real_read(fd, to, size);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const void *mask)
{
	system_calls++;
	return __real_ppoll(fds, n, t, mask);
}

/*
 * A timeout in a context of its own, due at the next tick. When it has been reported, the worker
 * has run, and has done all that there was to do.
 */
static struct {
	struct hwtimer_ring	*ring;
	int			fd;
	__u64			tag;
	__u64			cycles;		/* per 2^20 ns */
	clockid_t		worker;		/* CPU time of the worker */
	__u64			worker_ns;
} probe;

/* With one CPU: a gap of so many cycles between two reads was another task's. */
#define GAP	1000

static bool one_cpu;

/* The CPU clock of the shared wheel's worker, by its pid from debugfs. */
static clockid_t worker_clock(void)
{
	char line[128];
	clockid_t clock;
	int pid = 0;
	FILE *f;

	f = fopen(DEBUGFS "/dev/stats", "r");
	if (!f)
		err(1, DEBUGFS "/dev/stats");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "worker_pid %d", &pid) == 1)
			break;
	fclose(f);
	if (!pid || clock_getcpuclockid(pid, &clock))
		errx(1, "the wheel has no worker");
	return clock;
}

static __u64 worker_ns(void)
{
	struct timespec t;

	if (clock_gettime(probe.worker, &t))
		err(1, "the worker's clock");
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Wait for the record, and return for how long another task had the CPU. */
static __u64 watch_cpu(__u32 tail)
{
	__u64 before = __rdtsc(), now, gaps = 0;

	while (__atomic_load_n(&probe.ring->cq_tail, __ATOMIC_ACQUIRE) == tail) {
		now = __rdtsc();
		if (now - before > GAP)
			gaps += now - before;
		before = now;
	}
	return (gaps << 20) / probe.cycles;
}

/* With one CPU, SCHED_IDLE lets the worker run before the ioctl returns. */
static __s64 probe_once(void)
{
	struct pollfd p = { .fd = probe.fd, .events = POLLIN };
	__u32 tail = probe.ring->cq_head;
	struct hwtimer_schedule arg = { .id = HWTIMER_ID(0, ++probe.tag), .time = 1 };
	__u64 start = now_ns(), before = probe.worker_ns;
	__s64 ns;

	if (__real_ioctl(probe.fd, HWTIMER_IOC_SCHEDULE, &arg))
		err(1, "the probe");
	if (one_cpu) {
		ns = now_ns() - start;
		ns += watch_cpu(tail);
	} else {
		if (poll(&p, 1, -1) != 1)
			err(1, "poll");
		probe.worker_ns = worker_ns();
		ns = probe.worker_ns - before;
	}
	__atomic_store_n(&probe.ring->cq_head, tail + 1, __ATOMIC_RELEASE);
	return ns;
}

/* A second probe finds no other work, so it costs what the probe itself does: subtract that. */
static __s64 kick_kernel(void)
{
	__s64 ns = probe_once();

	return ns - probe_once();
}

static void probe_open(void)
{
	struct hwtimer_rings rings = {
		.sq_entries = 1, .cq_entries = 2, .timeouts = 1,
		.sqe_size = sizeof(struct hwtimer_sqe),
		.record_size = sizeof(struct hwtimer_record),
	};
	__u64 start, cycles;

	one_cpu = sysconf(_SC_NPROCESSORS_ONLN) == 1;
	probe.fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (probe.fd < 0 || __real_ioctl(probe.fd, HWTIMER_IOC_RINGS, &rings))
		err(1, DEVICE);
	probe.ring = mmap(NULL, rings.size, PROT_READ | PROT_WRITE, MAP_SHARED, probe.fd, 0);
	if (probe.ring == MAP_FAILED)
		err(1, "mmap");
	if (!one_cpu) {
		probe.worker = worker_clock();
		probe.worker_ns = worker_ns();
	}
	start = now_ns();
	cycles = __rdtsc();
	while (now_ns() - start < 20 * NS_PER_MS)
		;
	probe.cycles = ((__rdtsc() - cycles) << 20) / (now_ns() - start);
}

/* By system calls. */

static int device_fd;

static void device_begin(unsigned long n)
{
	(void)n;
	device_fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (device_fd < 0)
		err(1, DEVICE);
	probe_open();
}

static inline void device(unsigned long command, void *arg)
{
	if (ioctl(device_fd, command, arg) < 0)
		err(1, "ioctl %lx", command);
}

static inline void device_schedule(struct conn *c, __u32 flags, __u64 time)
{
	struct hwtimer_schedule arg = {
		.flags = flags, .time = time, .user_data = (uintptr_t)c,
	};

	device(HWTIMER_IOC_SCHEDULE, &arg);
	*handle_of(__u64, c) = arg.id;
}

static inline void ioctl_arm(struct conn *c, __u64 delay)
{
	device_schedule(c, HWTIMER_RELATIVE, delay);
}

static inline void ioctl_arm_at(struct conn *c)
{
	device_schedule(c, 0, c->due);
}

static inline void ioctl_cancel(struct conn *c)
{
	struct hwtimer_cancel arg = { .id = *handle_of(__u64, c) };

	device(HWTIMER_IOC_CANCEL, &arg);
}

static inline void ioctl_touch(struct conn *c, __u64 delay)
{
	struct hwtimer_touch arg = {
		.flags = HWTIMER_RELATIVE, .id = *handle_of(__u64, c), .time = delay,
	};

	device(HWTIMER_IOC_TOUCH, &arg);
}

static __u64 ioctl_run(enum op op, struct range *r)
{
	return RUN_RANGE(op, r, 1, ioctl_arm, ioctl_arm_at, ioctl_cancel, ioctl_touch,
			 nothing_put_off);
}

static void device_wait(void)
{
	struct hwtimer_record records[EVENTS];
	ssize_t size = read(device_fd, records, sizeof(records));
	size_t i;

	if (size <= 0)
		err(1, "read");
	for (i = 0; i < size / sizeof(records[0]); i++)
		conn_fired((struct conn *)(uintptr_t)records[i].user_data);
}

const struct subject hwtimer_ioctl = {
	.name	= "hwtimer_ioctl",
	.handle	= sizeof(__u64),
	.dear	= true,
	.begin	= device_begin,
	.run	= ioctl_run,
	.settle	= kick_kernel,
	.wait	= device_wait,
};

/* libhwtimer. */

static struct hwtimer *timers;

static inline void must(int ret, const char *what)
{
	if (ret < 0) {
		errno = -ret;
		err(1, "%s", what);
	}
}

static void rings_begin(unsigned long n)
{
	struct hwtimer_options options = {
		.size = sizeof(options), .flags = HWTIMER_OPEN_RINGS, .timeouts = n,
	};

	must(hwtimer_open(&timers, &options), "hwtimer_open");
	probe_open();
}

static inline void rings_arm(struct conn *c, __u64 delay)
{
	must(hwtimer_schedule(timers, delay, (uintptr_t)c, handle_of(hwtimer_id, c)),
	     "hwtimer_schedule");
}

static inline void rings_arm_at(struct conn *c)
{
	must(hwtimer_schedule_at(timers, c->due, (uintptr_t)c, handle_of(hwtimer_id, c)),
	     "hwtimer_schedule_at");
}

static inline void rings_cancel(struct conn *c)
{
	must(hwtimer_cancel(timers, *handle_of(hwtimer_id, c)), "hwtimer_cancel");
}

static inline void rings_touch(struct conn *c, __u64 delay)
{
	must(hwtimer_touch(timers, *handle_of(hwtimer_id, c), delay), "hwtimer_touch");
}

static __u64 rings_run(enum op op, struct range *r)
{
	return RUN_RANGE(op, r, 1, rings_arm, rings_arm_at, rings_cancel, rings_touch,
			 nothing_put_off);
}

static __s64 rings_settle(void)
{
	__u64 start = now_ns(), ns;

	must(hwtimer_flush(timers), "hwtimer_flush");
	ns = now_ns() - start;
	return ns + kick_kernel();
}

static void rings_wait(void)
{
	struct hwtimer_event events[EVENTS];
	int n = hwtimer_wait(timers, events, EVENTS, -1), i;

	must(n, "hwtimer_wait");
	for (i = 0; i < n; i++)
		conn_fired((struct conn *)(uintptr_t)events[i].user_data);
}

const struct subject hwtimer_ring = {
	.name	= "hwtimer_ring",
	.handle	= sizeof(hwtimer_id),
	.dear	= true,
	.begin	= rings_begin,
	.run	= rings_run,
	.settle	= rings_settle,
	.wait	= rings_wait,
};

/* For programs that know the time, such as those with a library's event loop. */

static inline void rings_at_arm(struct conn *c, __u64 delay)
{
	must(hwtimer_schedule_at(timers, loop_now + delay, (uintptr_t)c,
				 handle_of(hwtimer_id, c)), "hwtimer_schedule_at");
}

static inline void rings_at_touch(struct conn *c, __u64 delay)
{
	must(hwtimer_touch_at(timers, *handle_of(hwtimer_id, c), loop_now + delay),
	     "hwtimer_touch_at");
}

static __u64 rings_at_run(enum op op, struct range *r)
{
	return RUN_RANGE(op, r, 1, rings_at_arm, rings_arm_at, rings_cancel, rings_at_touch,
			 nothing_put_off);
}

const struct subject hwtimer_ring_at = {
	.name	= "hwtimer_ring_at",
	.handle	= sizeof(hwtimer_id),
	.begin	= rings_begin,
	.run	= rings_at_run,
	.settle	= rings_settle,
	.wait	= rings_wait,
};
