// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel has without hwtimer: timerfd and epoll, POSIX timers, io_uring.
 */
#include <errno.h>
#include <liburing.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bench.h"

#define EVENTS	256

static void raise_limit(int resource, const char *name, unsigned long n)
{
	struct rlimit limit = { .rlim_cur = n, .rlim_max = n };

	if (setrlimit(resource, &limit))
		err(1, "%s", name);
}

/* timerfd: a descriptor for each connection, all of them in one epoll. */

static int epoll_fd;

static void timerfd_begin(unsigned long n)
{
	raise_limit(RLIMIT_NOFILE, "RLIMIT_NOFILE", n + 64);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		err(1, "epoll_create1");
}

static void timerfd_init(struct conn *c)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
	int *fd = handle_of(int, c);

	*fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (*fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, *fd, &event))
		err(1, "timerfd");
}

static inline void timerfd_set(struct conn *c, int flags, __u64 ns)
{
	struct itimerspec when = { .it_value = timespec_of(ns) };

	system_calls++;
	if (timerfd_settime(*handle_of(int, c), flags, &when, NULL))
		err(1, "timerfd_settime");
}

static inline void timerfd_arm(struct conn *c, __u64 delay)
{
	timerfd_set(c, 0, delay);
}

static inline void timerfd_arm_at(struct conn *c)
{
	timerfd_set(c, TFD_TIMER_ABSTIME, c->due);
}

static inline void timerfd_cancel(struct conn *c)
{
	timerfd_set(c, 0, 0);
}

static __u64 timerfd_run(enum op op, struct range *r)
{
	return RUN_RANGE(op, r, 1, timerfd_arm, timerfd_arm_at, timerfd_cancel, timerfd_arm,
			 nothing_put_off);
}

static void timerfd_wait(void)
{
	struct epoll_event events[EVENTS];
	struct conn *c;
	__u64 times;
	int n, i;

	n = epoll_wait(epoll_fd, events, EVENTS, -1);
	if (n < 0)
		err(1, "epoll_wait");
	for (i = 0; i < n; i++) {
		c = events[i].data.ptr;
		if (read(*handle_of(int, c), &times, sizeof(times)) == sizeof(times))
			conn_fired(c);
	}
}

const struct subject timerfd = {
	.name	= "timerfd",
	.handle	= sizeof(int),
	.dear	= true,
	.begin	= timerfd_begin,
	.init	= timerfd_init,
	.run	= timerfd_run,
	.wait	= timerfd_wait,
};

/* POSIX timers: each sends a real-time signal, which is read from a signalfd. */

static int signal_fd;

static void posix_begin(unsigned long n)
{
	sigset_t set;

	raise_limit(RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING", n + 64);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (signal_fd < 0)
		err(1, "signalfd");
}

static void posix_init(struct conn *c)
{
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_ptr = c,
	};

	if (timer_create(CLOCK_MONOTONIC, &event, handle_of(timer_t, c)))
		err(1, "timer_create");
}

static inline void posix_set(struct conn *c, int flags, __u64 ns)
{
	struct itimerspec when = { .it_value = timespec_of(ns) };

	system_calls++;
	if (timer_settime(*handle_of(timer_t, c), flags, &when, NULL))
		err(1, "timer_settime");
}

static inline void posix_arm(struct conn *c, __u64 delay)
{
	posix_set(c, 0, delay);
}

static inline void posix_arm_at(struct conn *c)
{
	posix_set(c, TIMER_ABSTIME, c->due);
}

static inline void posix_cancel(struct conn *c)
{
	posix_set(c, 0, 0);
}

static __u64 posix_run(enum op op, struct range *r)
{
	return RUN_RANGE(op, r, 1, posix_arm, posix_arm_at, posix_cancel, posix_arm,
			 nothing_put_off);
}

static void posix_wait(void)
{
	struct signalfd_siginfo infos[EVENTS];
	ssize_t size = read(signal_fd, infos, sizeof(infos));
	size_t i;

	if (size < 0)
		err(1, "signalfd");
	for (i = 0; i < size / sizeof(infos[0]); i++)
		conn_fired((struct conn *)(uintptr_t)infos[i].ssi_ptr);
}

const struct subject posix_timer = {
	.name	= "posix_timer",
	.handle	= sizeof(timer_t),
	.dear	= true,
	.begin	= posix_begin,
	.init	= posix_init,
	.run	= posix_run,
	.wait	= posix_wait,
};

/*
 * io_uring, submitted in groups. Cancelled timeouts have completions, which are reaped when there
 * are many.
 */

#define GROUP	64

static struct io_uring uring;
static struct __kernel_timespec uring_times[GROUP];
static unsigned int uring_put;

static void uring_begin(unsigned long n)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER |
			 IORING_SETUP_DEFER_TASKRUN,
		.cq_entries = 16384,
	};
	int ret = io_uring_queue_init_params(4 * GROUP, &uring, &params);

	(void)n;
	if (ret < 0) {
		errno = -ret;
		err(1, "io_uring");
	}
}

static void uring_reap(void)
{
	struct io_uring_cqe *cqes[EVENTS];
	unsigned int n, i;
	struct conn *c;

	while ((n = io_uring_peek_batch_cqe(&uring, cqes, EVENTS))) {
		for (i = 0; i < n; i++) {
			c = io_uring_cqe_get_data(cqes[i]);
			if (c && cqes[i]->res == -ETIME)
				conn_fired(c);
			else if (!c || cqes[i]->res != -ECANCELED)
				errx(1, "io_uring: completion %d", cqes[i]->res);
		}
		io_uring_cq_advance(&uring, n);
	}
}

static void uring_flush(void)
{
	if (!uring_put)
		return;
	uring_put = 0;
	system_calls++;
	/* It also runs deferred work of completed timeouts. */
	if (io_uring_submit_and_get_events(&uring) < 0)
		errx(1, "io_uring_submit");
	uring_reap();
}

static inline struct io_uring_sqe *uring_sqe(__u64 ns, struct __kernel_timespec **when)
{
	*when = &uring_times[uring_put++];
	(*when)->tv_sec = ns / NS_PER_S;
	(*when)->tv_nsec = ns % NS_PER_S;
	return io_uring_get_sqe(&uring);
}

static inline void uring_set(struct conn *c, unsigned int flags, __u64 ns)
{
	struct __kernel_timespec *when;
	struct io_uring_sqe *sqe = uring_sqe(ns, &when);

	io_uring_prep_timeout(sqe, when, 0, flags);
	io_uring_sqe_set_data(sqe, c);
}

static inline void uring_arm(struct conn *c, __u64 delay)
{
	uring_set(c, 0, delay);
}

static inline void uring_arm_at(struct conn *c)
{
	uring_set(c, IORING_TIMEOUT_ABS, c->due);
}

static inline void uring_cancel(struct conn *c)
{
	struct __kernel_timespec *when;
	struct io_uring_sqe *sqe = uring_sqe(0, &when);

	io_uring_prep_timeout_remove(sqe, (uintptr_t)c, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	io_uring_sqe_set_data(sqe, NULL);
}

static inline void uring_touch(struct conn *c, __u64 delay)
{
	struct __kernel_timespec *when;
	struct io_uring_sqe *sqe = uring_sqe(delay, &when);

	io_uring_prep_timeout_update(sqe, when, (uintptr_t)c, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	io_uring_sqe_set_data(sqe, NULL);
}

static __u64 uring_run(enum op op, struct range *r)
{
	return RUN_RANGE(op, r, GROUP, uring_arm, uring_arm_at, uring_cancel, uring_touch,
			 uring_flush);
}

static void uring_wait(void)
{
	struct io_uring_cqe *cqe;
	int ret = io_uring_wait_cqe(&uring, &cqe);

	if (ret < 0 && ret != -EINTR)
		errx(1, "io_uring_wait_cqe: %d", ret);
	uring_reap();
}

const struct subject io_uring_timeout = {
	.name	= "io_uring",
	.searches = true,
	.begin	= uring_begin,
	.run	= uring_run,
	.wait	= uring_wait,
};

/* A system call without work, and a read of the clock: the overhead that others have. */

static void nothing_begin(unsigned long n)
{
	(void)n;
}

static inline void syscall_op(struct conn *c)
{
	(void)c;
	system_calls++;
	syscall(SYS_getppid);
}

static inline void syscall_delay(struct conn *c, __u64 delay)
{
	(void)delay;
	syscall_op(c);
}

static __u64 syscall_run(enum op op, struct range *r)
{
	return RUN_RANGE(op, r, 1, syscall_delay, syscall_op, syscall_op, syscall_delay,
			 nothing_put_off);
}

const struct subject system_call = {
	.name	= "system_call",
	.dear	= true,
	.begin	= nothing_begin,
	.run	= syscall_run,
};

static inline void clock_op(struct conn *c)
{
	c->due = now_ns();
}

static inline void clock_delay(struct conn *c, __u64 delay)
{
	c->due = now_ns() + delay;
}

static __u64 clock_run(enum op op, struct range *r)
{
	return RUN_RANGE(op, r, 1, clock_delay, clock_op, clock_op, clock_delay,
			 nothing_put_off);
}

const struct subject clock_look = {
	.name	= "clock",
	.dear	= true,
	.begin	= nothing_begin,
	.run	= clock_run,
};
