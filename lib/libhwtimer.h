/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libhwtimer: timeouts on /dev/hwtimer, for programs.
 *
 *	struct hwtimer *h;
 *	struct hwtimer_event events[64];
 *	hwtimer_id id;
 *	int n;
 *
 *	hwtimer_open(&h, NULL);
 *	hwtimer_schedule(h, 30000000000, 7, &id);	// 30 s; the event has user_data 7
 *	hwtimer_touch(h, id, 30000000000);		// on every message
 *	hwtimer_cancel(h, id);				// on close
 *	n = hwtimer_wait(h, events, 64, -1);		// or when hwtimer_fd(h) is readable
 *
 * Where the kernel has rings (see linux/hwtimer.h), schedule, touch and cancel are a few writes to
 * memory that is shared with the kernel; a system call is needed only if the kernel would poll too
 * late, or a ring is full. Elsewhere, or on request, each is an ioctl. In both cases, a touch to a
 * later time writes only to the library's own memory: the kernel learns of it when the old deadline
 * has come. With and without rings, the promises are the same:
 *
 *	after a successful cancel, a timeout gives no event
 *	after a successful touch, it gives no event before its new deadline
 *	otherwise each timeout gives one event (a periodic one any number): when it expires, or
 *	when hwtimer_stop() or a setting of the clock (hwtimer_watch_clock()) ends it
 *	no event is early: it comes at the first tick at or after the deadline
 *
 * The exception is a periodic timeout: after a touch, it still gives the events of expiries from
 * before the touch.
 *
 * A handle begins small, and takes memory as timeouts are scheduled; a touch or cancel needs none.
 * hwtimer_wait() gives memory back if less than a quarter of it was used for some seconds.
 * Functions that return int return 0 (or more, where noted) or -errno; -EBADFD means that the
 * program has damaged the rings. One thread at a time may use a handle, unless it was opened with
 * HWTIMER_OPEN_THREADS. Only hwtimer_wait() is a cancellation point (see pthread_cancel(3)), and it
 * loses no event then. A signal handler may call none of these functions.
 *
 * A child made by fork() can only close the handles of its parent, which does not affect the
 * parent's timeouts; functions that schedule, touch, query, cancel, wait and so on return -EPERM.
 * (A child made by vfork(), or by clone(2) without the C library, is not noticed, and may call none
 * of these functions.)
 *
 * With HWTIMER_OPEN_THREADS any thread may do anything with any timeout, and several may wait; each
 * event is returned once. A handle then has several contexts (open files of the device), each with
 * rings of its own. There are at most as many as processors, rounded up to a power of two, and at
 * most 16. A context is opened when a thread that has none schedules; if that fails, threads share
 * the existing ones. Threads that mostly touch and cancel what they have scheduled do not disturb
 * each other. Events come in the order of their ticks only if their timeouts are in the same
 * context. A handle with an own wheel has one context, with a lock.
 *
 * Each context takes a descriptor. hwtimer_open() opens the first one, and takes one more
 * descriptor for hwtimer_fd() if there may be several contexts. The others are opened later, by the
 * path of the device, possibly in any call that schedules. So a program that gives up rights,
 * changes its root directory, or runs out of descriptors, gets no more contexts from then on.
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
 * back only after 2^40 others with the same index (its lower 24 bits), or 2^36 with
 * HWTIMER_OPEN_THREADS. At a million uses of an index per second, that takes 12 days, or 19 hours.
 */
typedef uint64_t hwtimer_id;

/* hwtimer_options.flags */
#define HWTIMER_OPEN_THREADS	0x01U	/* several threads use the handle */
#define HWTIMER_OPEN_RINGS	0x02U	/* fail (-EOPNOTSUPP) where there are no rings */
#define HWTIMER_OPEN_NO_RINGS	0x04U	/* use ioctls even where there are rings */
#define HWTIMER_OPEN_OWN_WHEEL	0x08U	/* the handle has its own wheel */
#define HWTIMER_OPEN_BOOTTIME	0x10U	/* own wheel: on CLOCK_BOOTTIME */
#define HWTIMER_OPEN_REALTIME	0x20U	/* own wheel: on CLOCK_REALTIME; hwtimer_watch_clock() */

/**
 * struct hwtimer_options - options of hwtimer_open(); 0 selects the default
 * @size: sizeof(struct hwtimer_options). The structure may grow; members that a library does not
 *	know must be 0
 * @device: path; NULL: /dev/hwtimer
 * @flags: HWTIMER_OPEN_*
 * @timeouts: the most timeouts that there may be at once, up to 2^24; 0: 2^24. If the kernel lacks
 *	HWTIMER_FEATURE_RESIZE, 0 means 65536, and each context allocates its share when it is
 *	opened
 * @sq_entries: entries of the submission ring, up to 65536, rounded up to a power of two; 0: 4096
 * @cq_entries: entries of the completion ring, likewise, but at least 2; 0: as many as @sq_entries
 * @tick_ns: own wheel: its tick, which has no default; otherwise 0
 * @slots: own wheel: its slots per level, likewise
 * @levels: own wheel: its levels; 0: as many as reach any deadline, up to 16
 */
struct hwtimer_options {
	size_t		size;
	const char	*device;
	unsigned int	flags;
	uint32_t	timeouts;
	uint32_t	sq_entries;
	uint32_t	cq_entries;
	uint64_t	tick_ns;
	uint32_t	slots;
	uint32_t	levels;
};

/**
 * struct hwtimer_event - a timeout expired, or hwtimer_stop() or a setting of the clock ended it
 * @id: the timeout; a periodic one goes on
 * @user_data: as scheduled
 * @deadline_ns: its deadline, on the handle's clock; periodic: that of the last expiry
 * @fired_ns: when it expired or ended. A timeout that was touched may expire in the library, when
 *	hwtimer_wait() finds that its new deadline has passed, too
 * @overruns: periodic: how many more expiries and missed deadlines this event stands for. With
 *	rings, if the completion ring is full because nobody waits for events, one event stands for
 *	several expiries, whatever the policy
 * @last_ns: periodic: the last of these 1 + overruns deadlines. Otherwise as @deadline_ns
 * @kind: HWTIMER_KIND_EXPIRED, HWTIMER_KIND_HANDED_BACK or HWTIMER_KIND_CLOCK_SET
 * @pad: 0
 */
struct hwtimer_event {
	hwtimer_id	id;
	uint64_t	user_data;
	uint64_t	deadline_ns;
	uint64_t	fired_ns;
	uint64_t	overruns;
	uint64_t	last_ns;
	uint32_t	kind;
	uint32_t	pad;
};

/**
 * struct hwtimer_repeat - a periodic timeout; see struct hwtimer_schedule
 * @first_ns: first deadline, on the handle's clock
 * @period_ns: from one deadline to the next
 * @misfire_ns: an expiry that is later than this is a misfire; 0: one period
 * @policy: HWTIMER_MISFIRE_ONCE, HWTIMER_MISFIRE_SKIP or HWTIMER_MISFIRE_MAKE_UP
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
 * @deadline_ns: its deadline, on the handle's clock, or HWTIMER_NEVER. Periodic: the next one
 * @remaining_ns: the time from now to the deadline; 0 if that is past; HWTIMER_NEVER: never
 * @period_ns: 0: not periodic
 * @misfire_ns: periodic: as scheduled, or the period if 0 was given
 * @policy: periodic: as scheduled
 * @pad: 0
 */
struct hwtimer_state {
	uint64_t	user_data;
	uint64_t	deadline_ns;
	uint64_t	remaining_ns;
	uint64_t	period_ns;
	uint64_t	misfire_ns;
	uint32_t	policy;
	uint32_t	pad;
};

/*
 * Open the device and create a handle. Errors are those of open(2), HWTIMER_IOC_SETUP and
 * HWTIMER_IOC_RINGS; also -EINVAL for invalid options, -E2BIG for members of @options that this
 * library does not know and that are not 0, and -ENOMEM. *h is NULL after an error. @options, and
 * the string device in it, are not used after the call.
 */
int hwtimer_open(struct hwtimer **h, const struct hwtimer_options *options);

/*
 * Close a handle. Pending timeouts end without events. No other thread may use @h any more. @h may
 * be NULL.
 */
void hwtimer_close(struct hwtimer *h);

/*
 * A descriptor for poll(2), epoll(7) and the like. It is readable when hwtimer_wait() may have
 * events. There may be none, because some records are for the library only. Do not use it with
 * EPOLLET: while hwtimer_wait() leaves something to do, the descriptor just stays readable. With
 * HWTIMER_OPEN_THREADS it may be an epoll descriptor for all contexts. It belongs to the handle:
 * only hwtimer_close() may close it. exec(2) closes it.
 */
int hwtimer_fd(const struct hwtimer *h);

/* Does the handle use rings? */
bool hwtimer_has_rings(const struct hwtimer *h);

/* The tick of the handle's wheel, in ns. */
uint64_t hwtimer_tick_ns(const struct hwtimer *h);

/*
 * The current time on the handle's clock, in ns, as clock_gettime(2) tells it. Use a handle only in
 * the time namespace in which it was opened.
 */
uint64_t hwtimer_now(const struct hwtimer *h);

/*
 * Schedule a timeout: @delay_ns from now, or for @deadline_ns on the handle's clock. If that is now
 * or past, it expires at the next tick; with HWTIMER_NEVER, never. @id may be NULL; an error leaves
 * *id as it was. -EAGAIN: there are as many timeouts as hwtimer_options.timeouts, or fewer if the
 * kernel lacks HWTIMER_FEATURE_RESIZE and a context cannot be opened; -ENOMEM, -EDQUOT: it would
 * take more memory than there is, or than the system allows the user; -ESHUTDOWN: the handle was
 * stopped. Without rings also the errors of HWTIMER_IOC_SCHEDULE.
 */
int hwtimer_schedule(struct hwtimer *h, uint64_t delay_ns, uint64_t user_data,
		     hwtimer_id *id);
int hwtimer_schedule_at(struct hwtimer *h, uint64_t deadline_ns, uint64_t user_data,
			hwtimer_id *id);

/*
 * Schedule a periodic timeout, by ioctl. Errors are those of hwtimer_schedule() and of
 * HWTIMER_IOC_SCHEDULE; also -EINVAL if the period is 0, or flags are not.
 */
int hwtimer_schedule_repeat(struct hwtimer *h, const struct hwtimer_repeat *repeat,
			    uint64_t user_data, hwtimer_id *id);

/*
 * Schedule a timeout that gives one event, of kind HWTIMER_KIND_CLOCK_SET, when somebody sets
 * CLOCK_REALTIME. The handle needs HWTIMER_OPEN_REALTIME, otherwise -EINVAL; other errors are those
 * of hwtimer_schedule_repeat(). All deadlines of such a handle are times of day, and follow the
 * clock. Those of hwtimer_schedule() and hwtimer_touch() do, too: they are the time of the call
 * plus the delay. To miss no setting, a program first calls this, then reads the clock and computes
 * its deadlines, and does all of this again after the event. hwtimer_touch() returns -EINVAL for
 * this timeout. Once the clock was set, it and hwtimer_query() may return -ENOENT before the event
 * was returned.
 */
int hwtimer_watch_clock(struct hwtimer *h, uint64_t user_data, hwtimer_id *id);

/*
 * Give a timeout another deadline, earlier or later, even if it has expired already but the event
 * was not returned yet. -ENOENT: its event was returned, it was cancelled, or it never existed;
 * -ESHUTDOWN: the handle was stopped, and the event is still to be returned. For a periodic timeout
 * this is an ioctl.
 */
int hwtimer_touch(struct hwtimer *h, hwtimer_id id, uint64_t delay_ns);
int hwtimer_touch_at(struct hwtimer *h, hwtimer_id id, uint64_t deadline_ns);

/*
 * The state of a timeout. Errors as for hwtimer_touch(). For a periodic timeout this is an ioctl.
 * The timeout may have expired already, if hwtimer_wait() has not returned the event yet.
 */
int hwtimer_query(struct hwtimer *h, hwtimer_id id, struct hwtimer_state *state);

/*
 * Cancel a timeout: it gives no event any more, even if it has expired already. -ENOENT: its event
 * was returned, it was cancelled, or it never existed.
 */
int hwtimer_cancel(struct hwtimer *h, hwtimer_id id);

/*
 * Wait for events, at most @timeout_ns on CLOCK_MONOTONIC, whatever the handle's clock is;
 * negative: for ever, 0: do not wait. Returns how many events were stored, up to @max; 0: none came
 * in time. -EINTR: a signal came first. -ESHUTDOWN: the handle was stopped, and all events were
 * returned. -EINVAL: @max is below 1. -EBADFD: the program damaged the rings, or closed the
 * descriptor (without rings -EBADF).
 */
int hwtimer_wait(struct hwtimer *h, struct hwtimer_event *events, int max,
		 int64_t timeout_ns);

/*
 * Make the kernel take all submissions now. None of the functions above needs this. A touch to a
 * later time is no submission: it stays in the library until the old deadline.
 */
int hwtimer_flush(struct hwtimer *h);

/*
 * Give back memory that is not in use, the library's and the kernel's. Timeouts are not moved, so
 * what remains depends on the highest index in use; low indexes are used first. Errors are those of
 * HWTIMER_IOC_ENTER and HWTIMER_IOC_RESIZE; the library's own memory was given back even then.
 */
int hwtimer_shrink(struct hwtimer *h);

/*
 * End all timeouts. Each one that did not expire before gives an event of kind
 * HWTIMER_KIND_HANDED_BACK, which hwtimer_wait() returns. A second call does nothing.
 */
int hwtimer_stop(struct hwtimer *h);

/*
 * The kernel's counters, summed over all contexts of the handle. They include neither what the
 * library does by itself nor submissions that the kernel has not taken; see hwtimer_flush(). A
 * timeout that was touched may expire in the kernel several times before its event. @size is
 * sizeof(struct hwtimer_stats). The structure may grow; members that the library or the kernel does
 * not know become 0. -EINVAL: @size is not valid.
 */
int hwtimer_stats(struct hwtimer *h, struct hwtimer_stats *stats, size_t size);

#ifdef __cplusplus
}

#pragma GCC diagnostic pop
#endif

#endif /* LIBHWTIMER_H */
