/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libhwtimer: timeouts for programs, on /dev/hwtimer or, without it, in the process.
 *
 *	struct hwtimer *h;
 *	struct hwtimer_event event;
 *	hwtimer_id id;
 *
 *	hwtimer_open(&h, NULL);
 *	hwtimer_schedule(h, 30000000000, 7, &id);  // in 30 s, with user_data 7
 *	hwtimer_touch(h, id, 30000000000);         // on every message
 *	hwtimer_cancel(h, id);                     // on close
 *	while (hwtimer_wait(h, &event, 0) > 0)     // hwtimer_fd(h) is readable
 *		...
 *
 * Schedule, touch and cancel are a few accesses to memory that is shared with the kernel. They make
 * a system call only if the kernel would look at the timeout too late otherwise, and when there
 * have to be more slots than ever before.
 *
 * - After a successful cancel, a timeout gives no event, even if it has expired already.
 * - After a successful touch, it gives no event before its new deadline.
 * - Otherwise each timeout gives one event (a periodic one any number): when it expires, or when
 *   hwtimer_stop() ends it.
 * - No event is early: it comes at the first tick at or after the deadline, or up to the slack
 *   later.
 *
 * The exception is a periodic timeout of several threads: another thread's hwtimer_wait() that has
 * begun before may still return an event of it after a cancel or touch.
 *
 * hwtimer_wait() returns one event at a time. So what the program does about an event, such as to
 * cancel other timeouts and to free what belongs to them, holds for the next one.
 *
 * Times are ns on the clock of the handle. Deadlines are rounded up to a multiple of 2^16 ns. Use a
 * handle only in the time namespace in which it was opened.
 *
 * Functions that return int, but for hwtimer_fd(), return 0 (or more, where noted) or -errno. One
 * thread at a time may use a handle, unless it was opened with HWTIMER_OPEN_THREADS: then any
 * thread may do anything with any timeout, several may wait, and schedule, touch and cancel take no
 * lock, unless the timeout is periodic or there have to be more slots. An event wakes one or two of
 * the threads that wait. Only hwtimer_wait() is a cancellation point (see pthread_cancel(3)), and
 * it loses no event then. A signal handler may call none of the functions.
 *
 * A child made by fork() can only close the handles of its parent, which does not affect the
 * parent's timeouts; the other functions that return int, but for hwtimer_fd(), return -EPERM. It
 * can open handles of its own. A child made by vfork() may call none of them.
 *
 * If there is no device, or the program may not open it, a handle is in the process: it has a wheel
 * of its own and one timerfd. All functions do the same. What the device alone gives: timeouts that
 * were pushed back do not wake the program, other processes that get the descriptor can use it,
 * hwtimerctl and debugfs show the handle, and after a stop hwtimer_fd() has POLLHUP (in the
 * process, POLLIN).
 *
 * Whoever else has got the descriptor of a handle on the device and writes to its memory can make
 * timeouts of this handle expire at any time, with any user_data, or never, end all of them, and
 * make calls fail or take longer; that is all. If there may be somebody like that, user_data must
 * not be a pointer.
 */
#ifndef LIBHWTIMER_H
#define LIBHWTIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/hwtimer.h>

#ifdef __cplusplus
/* -Wshadow warns of a function and a structure with the same name, like stat(). That is meant. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#endif

struct hwtimer;

/*
 * Identifies a timeout until its last event was returned or it was cancelled. Never 0. An id comes
 * back only after 2^38 others with the same index (its lower 24 bits). At a million uses of an
 * index per second, that takes 3 days.
 */
typedef uint64_t hwtimer_id;

/* hwtimer_options.flags */
#define HWTIMER_OPEN_THREADS	0x1U	/* several threads use the handle */
#define HWTIMER_OPEN_BOOTTIME	0x2U	/* on CLOCK_BOOTTIME, not CLOCK_MONOTONIC */
#define HWTIMER_OPEN_DEVICE	0x4U	/* fail if there is no device */
#define HWTIMER_OPEN_PROCESS	0x8U	/* in the process, even if there is a device */
#define HWTIMER_OPEN_VIRTUAL	0x10U	/* in the process, by hwtimer_advance(): for tests */

/**
 * struct hwtimer_options - options of hwtimer_open(); 0 selects the default
 * @size: sizeof(struct hwtimer_options). The structure may grow; members that a library does not
 *	know must be 0
 * @device: path of the device, which has to be there; NULL: /dev/hwtimer or, without it, in
 *	the process
 * @flags: HWTIMER_OPEN_*
 * @timeouts: the most timeouts that there may be at once, up to HWTIMER_MAX_SLOTS - 1; 0:
 *	HWTIMER_FREE_SLOTS - 1. Each takes some 110 bytes of address space, and memory once it is
 *	needed
 * @tick_ns: the tick; 0: 1 ms; see struct hwtimer_setup
 * @slack_ns: how much later than that an event may come, so that one wake-up serves many
 */
struct hwtimer_options {
	size_t		size;
	const char	*device;
	unsigned int	flags;
	uint32_t	timeouts;
	uint64_t	tick_ns;
	uint64_t	slack_ns;
};

/**
 * struct hwtimer_event - a timeout expired, or hwtimer_stop() ended it
 * @id: the timeout; a periodic one goes on
 * @user_data: as scheduled
 * @deadline_ns: its deadline; of a periodic one the one that was reached, exactly, otherwise
 *	rounded up
 * @taken_ns: when it was found due. The clock is read once for those that were due then, and are
 *	taken before hwtimer_wait() finds none
 * @overruns: periodic: how many deadlines were missed besides
 * @kind: HWTIMER_KIND_EXPIRED or HWTIMER_KIND_HANDED_BACK
 * @pad: 0
 */
struct hwtimer_event {
	hwtimer_id	id;
	uint64_t	user_data;
	uint64_t	deadline_ns;
	uint64_t	taken_ns;
	uint64_t	overruns;
	uint32_t	kind;
	uint32_t	pad;
};

/**
 * struct hwtimer_repeat - a periodic timeout
 * @first_ns: the first deadline
 * @period_ns: from one deadline to the next; at least hwtimer_tick_ns(), which is 1,048,576 unless
 *	another tick was asked for
 * @misfire_ns: an event that is later than this is a misfire; at least the tick; 0: one period
 * @policy: what becomes of misfires: HWTIMER_MISFIRE_ONCE, HWTIMER_MISFIRE_SKIP or
 *	HWTIMER_MISFIRE_MAKE_UP
 * @flags: 0
 */
struct hwtimer_repeat {
	uint64_t	first_ns;
	uint64_t	period_ns;
	uint64_t	misfire_ns;
	uint32_t	policy;
	uint32_t	flags;
};

/**
 * struct hwtimer_state - what hwtimer_query() tells about a timeout
 * @user_data: as scheduled
 * @deadline_ns: its deadline as in the event, or HWTIMER_NEVER
 * @period_ns: 0: not periodic
 * @misfire_ns: periodic: as scheduled
 * @policy: periodic: as scheduled
 * @pad: 0
 */
struct hwtimer_state {
	uint64_t	user_data;
	uint64_t	deadline_ns;
	uint64_t	period_ns;
	uint64_t	misfire_ns;
	uint32_t	policy;
	uint32_t	pad;
};

/*
 * Create a handle: on the device or, if the program cannot open it, in the process.
 * @options may be NULL; it, and the string device in it, are not used after the call. *h is NULL
 * after an error. Other errors than these are those of open(2), timerfd_create(2) and
 * HWTIMER_IOC_SETUP.
 *
 * -EINVAL	the options are not valid
 * -E2BIG	members of @options that this library does not know are not 0
 * -ENOMEM	there is no memory
 */
int hwtimer_open(struct hwtimer **h, const struct hwtimer_options *options);

/*
 * Create a handle on the device from the descriptor of another one, whose program has ended, or
 * will only call hwtimer_close(): what hwtimer_fd() returned there, and was passed on by
 * SCM_RIGHTS, kept by the service manager (systemd's FDSTORE), or inherited. Its timeouts go on
 * with their ids and user_data, and what was due and not taken is due here; hwtimer_next() finds
 * them. Periodic ones are periodic no more: they give one more event. The handle has a descriptor
 * of its own: @fd remains the caller's. Only the flags HWTIMER_OPEN_THREADS and
 * HWTIMER_OPEN_DEVICE, and more timeouts, can be asked for. Other errors
 * are those of HWTIMER_IOC_INFO and hwtimer_open().
 *
 * -ENOTTY	a handle in the process, or no handle
 * -EOPNOTSUPP	a context by calls
 * -EXDEV	its clock is that of another time namespace
 */
int hwtimer_open_fd(struct hwtimer **h, int fd, const struct hwtimer_options *options);

/*
 * Close a handle. Pending timeouts end without events, unless there is another descriptor for the
 * context of a handle on the device; then hwtimer_fd() has to leave all epoll sets before, too. No
 * other thread may use @h any more. @h may be NULL.
 */
void hwtimer_close(struct hwtimer *h);

/*
 * A descriptor for poll(2), epoll(7) and the like. It is readable while hwtimer_wait() may have an
 * event. With EPOLLET, call hwtimer_wait() until it returns 0. It belongs to the handle: only
 * hwtimer_close() may close it. exec(2) closes it.
 */
int hwtimer_fd(const struct hwtimer *h);

/* Is the handle in the process? */
bool hwtimer_in_process(const struct hwtimer *h);

/* The tick of the handle, in ns. */
uint64_t hwtimer_tick_ns(const struct hwtimer *h);

/* The current time on the handle's clock, in ns. */
uint64_t hwtimer_now(const struct hwtimer *h);

/*
 * Let @ns pass on the clock of a handle with HWTIMER_OPEN_VIRTUAL, so that a test of a program with
 * long timeouts takes no time, and has the same result each time. Such a clock begins at 0 and
 * stands still between two calls. What expires meanwhile makes hwtimer_fd() readable before the
 * call returns, and is as late as if nobody had called hwtimer_wait() for so long: take smaller
 * steps if that matters. Nothing else moves the clock: hwtimer_wait() waits in real time, for
 * another thread to call this.
 *
 * -EINVAL	the handle has another clock
 * -EOVERFLOW	after some 18 years
 */
int hwtimer_advance(struct hwtimer *h, uint64_t ns);

/*
 * Schedule a timeout: @delay_ns from now, or for @deadline_ns. If that is now or past, it expires
 * at the next tick; with HWTIMER_NEVER, never. @id may be NULL; after an error, *id is 0.
 * Another thread may get the event before the function returns; *id is set before that.
 *
 * -ENOSPC	there are as many timeouts as hwtimer_options.timeouts, or another thread is just
 *		ending one
 * -EPERM	more than HWTIMER_FREE_SLOTS without CAP_SYS_RESOURCE
 * -ENOMEM	there is no memory for another one
 * -ESHUTDOWN	the handle was stopped
 */
int hwtimer_schedule(struct hwtimer *h, uint64_t delay_ns, uint64_t user_data, hwtimer_id *id);
int hwtimer_schedule_at(struct hwtimer *h, uint64_t deadline_ns, uint64_t user_data,
			hwtimer_id *id);

/*
 * Schedule a periodic timeout. If hwtimer_wait() is called too late:
 *
 *	HWTIMER_MISFIRE_ONCE	one event for all missed deadlines, with the last
 *	HWTIMER_MISFIRE_SKIP	no event; the next one counts them as overruns
 *	HWTIMER_MISFIRE_MAKE_UP	one event for each missed deadline
 *
 * Other errors are those of hwtimer_schedule().
 *
 * -EINVAL	@repeat is not valid
 */
int hwtimer_schedule_repeat(struct hwtimer *h, const struct hwtimer_repeat *repeat,
			    uint64_t user_data, hwtimer_id *id);

/*
 * Give a timeout another deadline, earlier or later, even if it has expired already but the event
 * was not returned yet. The later deadlines of a periodic timeout count from it.
 *
 * -ENOENT	its last event was returned, it was cancelled, or it never existed
 * -ESHUTDOWN	the handle was stopped
 */
int hwtimer_touch(struct hwtimer *h, hwtimer_id id, uint64_t delay_ns);
int hwtimer_touch_at(struct hwtimer *h, hwtimer_id id, uint64_t deadline_ns);

/*
 * The state of a timeout.
 *
 * -ENOENT	as for hwtimer_touch()
 */
int hwtimer_query(struct hwtimer *h, hwtimer_id id, struct hwtimer_state *state);

/*
 * Find a timeout that is pending: the first one if *id is 0, or else the one after *id, which may
 * have ended. Returns 1: *id and *state are those of the timeout; 0: there are no more. One that is
 * pending from the first call to the last is found once.
 */
int hwtimer_next(struct hwtimer *h, hwtimer_id *id, struct hwtimer_state *state);

/*
 * Cancel a timeout: it gives no event any more.
 *
 * -ENOENT	as for hwtimer_touch()
 */
int hwtimer_cancel(struct hwtimer *h, hwtimer_id id);

/*
 * Wait for an event, at most @timeout_ns on CLOCK_MONOTONIC, whatever the handle's clock is;
 * negative: for ever, 0: do not wait. A handle in the process with HWTIMER_OPEN_THREADS rounds that
 * up to ms. Returns 1: here is one; 0: none came in time.
 *
 * -EINTR	a signal came first
 * -ESHUTDOWN	the handle was stopped, and all events were returned
 * -ENOMEM	somebody else has grown the table, and what is new cannot be mapped
 * -E2BIG	likewise
 */
int hwtimer_wait(struct hwtimer *h, struct hwtimer_event *event, int64_t timeout_ns);

/*
 * End all timeouts. Each one that did not expire before gives an event of kind
 * HWTIMER_KIND_HANDED_BACK, which hwtimer_wait() returns; threads that wait there wake up. A second
 * call does nothing. To end threads: hwtimer_stop(), join them, hwtimer_close().
 *
 * -EINTR	the program is being killed
 */
int hwtimer_stop(struct hwtimer *h);

/*
 * The kernel's counts; see HWTIMER_IOC_STATS. In the process, timers is 0. @size is
 * sizeof(struct hwtimer_stats). The structure may grow; members that are not known become 0.
 *
 * -EINVAL	@size is too small
 * -E2BIG	@size is too large
 */
int hwtimer_stats(struct hwtimer *h, struct hwtimer_stats *stats, size_t size);

#ifdef __cplusplus
}

#pragma GCC diagnostic pop
#endif

#endif /* LIBHWTIMER_H */
