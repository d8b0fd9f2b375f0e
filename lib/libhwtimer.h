/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libhwtimer: timeouts on /dev/hwtimer, for programs.
 *
 *	struct hwtimer *h;
 *	struct hwtimer_event events[64];
 *	hwtimer_id id;
 *
 *	hwtimer_open(&h, NULL);
 *	hwtimer_schedule(h, 30 * NSEC_PER_SEC, (uintptr_t)conn, &id);
 *	hwtimer_touch(h, id, 30 * NSEC_PER_SEC);	on every message
 *	hwtimer_cancel(h, id);				on close
 *	n = hwtimer_wait(h, events, 64, -1);		or when hwtimer_fd(h) is readable
 *
 * Where the kernel has rings (see linux/hwtimer.h), schedule, touch and cancel are a
 * few writes to memory that it shares, with a system call only if the kernel would come
 * by too late; elsewhere, or if asked, each is an ioctl. Pushing a timeout back is a
 * write to the library's own memory: the kernel hears of it when the old deadline is
 * there. The promises are the same:
 *
 *	what was cancelled, with success, gives no event any more
 *	what was touched, with success, gives none before its new deadline
 *	each timeout that was scheduled, with success, gives one event, a periodic one
 *	any number, or was cancelled; hwtimer_stop() ends what is left
 *	no event is early: it comes at the first tick at or after the deadline
 *
 * Touched, a periodic one still gives the events of what it expired for before.
 *
 * All memory is allocated by hwtimer_open(). Functions that return int return 0, or
 * more where it says so, or -errno. One thread at a time may use a handle, unless it
 * was opened with HWTIMER_OPEN_THREADS. After fork() the child must not use it, but for
 * hwtimer_close(), which leaves the parent's timeouts alone.
 */
#ifndef LIBHWTIMER_H
#define LIBHWTIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/hwtimer.h>

#ifdef __cplusplus
/* Functions and structures that share a name, as stat() does: meant, whatever -Wshadow says. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#endif

struct hwtimer;

/*
 * Names a timeout until its last event was returned, or it was cancelled. Never 0, and no
 * other timeout's for a long time after: the same place has been used 2^40 times by then.
 */
typedef uint64_t hwtimer_id;

/* hwtimer_options.flags */
#define HWTIMER_OPEN_THREADS	0x01U	/* several threads use the handle */
#define HWTIMER_OPEN_RINGS	0x02U	/* fail (-EOPNOTSUPP) where there are no rings */
#define HWTIMER_OPEN_NO_RINGS	0x04U	/* by ioctl even where there are */
#define HWTIMER_OPEN_OWN_WHEEL	0x08U	/* a wheel of its own */
#define HWTIMER_OPEN_GROW	0x10U	/* own wheel: that adds levels when needed */
#define HWTIMER_OPEN_BOOTTIME	0x20U	/* own wheel: on CLOCK_BOOTTIME */

/**
 * struct hwtimer_options - what hwtimer_open() may be told; 0 for what is usual
 * @size: sizeof(struct hwtimer_options)
 * @flags: HWTIMER_OPEN_*
 * @timeouts: how many there may be at once; 0: 65536; up to 2^24
 * @sq_entries: of the submission ring; 0: 4096
 * @cq_entries: of the completion ring; 0: as many. At least 2 are made
 * @tick_ns: own wheel: its tick
 * @slots: own wheel: slots per level
 * @levels: own wheel: levels
 * @device: path; NULL: /dev/hwtimer
 */
struct hwtimer_options {
	size_t		size;
	unsigned int	flags;
	uint32_t	timeouts;
	uint32_t	sq_entries;
	uint32_t	cq_entries;
	uint64_t	tick_ns;
	uint32_t	slots;
	uint32_t	levels;
	const char	*device;
};

/**
 * struct hwtimer_event - a timeout expired, or was ended by hwtimer_stop()
 * @id: which one; a periodic one goes on
 * @user_data: as scheduled
 * @deadline_ns: on the handle's clock
 * @fired_ns: when the kernel came by, or, if it was touched, maybe the library
 * @overruns: periodic: how many more expiries and missed deadlines this stands for. With
 *	rings, whatever the policy, several events are told as one if nobody waits for
 *	them and the completion ring is full
 * @kind: HWTIMER_EXPIRED or HWTIMER_HANDED_BACK
 */
struct hwtimer_event {
	hwtimer_id	id;
	uint64_t	user_data;
	uint64_t	deadline_ns;
	uint64_t	fired_ns;
	uint64_t	overruns;
	unsigned int	kind;
};

/**
 * struct hwtimer_repeat - a periodic timeout; see struct hwtimer_schedule
 * @first_ns: first deadline, on the handle's clock
 * @period_ns: from one deadline to the next
 * @misfire_ns: it is a misfire if it is later than this; 0: one period
 * @policy: HWTIMER_MISFIRE_ONCE, HWTIMER_MISFIRE_SKIP or HWTIMER_MISFIRE_MAKE_UP
 */
struct hwtimer_repeat {
	uint64_t	first_ns;
	uint64_t	period_ns;
	uint64_t	misfire_ns;
	uint32_t	policy;
};

/*
 * Open the device and make all that is needed. Errors are those of open(2),
 * HWTIMER_IOC_SETUP and HWTIMER_IOC_RINGS; -EINVAL, too, for options that are not as
 * they should be, and -ENOMEM. *h is NULL after an error.
 */
int hwtimer_open(struct hwtimer **h, const struct hwtimer_options *options);

/*
 * All that is pending ends, without events. No other thread is in a call with @h, or begins one.
 * NULL is all right.
 */
void hwtimer_close(struct hwtimer *h);

/*
 * A descriptor for poll(2), epoll(7) and the like: readable when hwtimer_wait() may
 * have events. There need not be any: the kernel may have had something to say to the
 * library only.
 */
int hwtimer_fd(const struct hwtimer *h);

/* Does it use rings? */
bool hwtimer_has_rings(const struct hwtimer *h);

/* How long is a tick of its wheel, in ns? */
uint64_t hwtimer_tick_ns(const struct hwtimer *h);

/*
 * The present time, in ns, on the handle's clock: that of clock_gettime(2), but within a
 * time namespace that of the initial one, for which the kernel has to be asked each time.
 */
uint64_t hwtimer_now(const struct hwtimer *h);

/*
 * Schedule a timeout: @delay_ns from now, or for @deadline_ns. @id may be NULL. -EAGAIN:
 * there are as many as hwtimer_options.timeouts; -ESHUTDOWN: stopped. By ioctl also
 * what HWTIMER_IOC_SCHEDULE may say.
 */
int hwtimer_schedule(struct hwtimer *h, uint64_t delay_ns, uint64_t user_data,
		     hwtimer_id *id);
int hwtimer_schedule_at(struct hwtimer *h, uint64_t deadline_ns, uint64_t user_data,
			hwtimer_id *id);

/*
 * A periodic one. By ioctl; errors as above, and as HWTIMER_IOC_SCHEDULE has them.
 * -EINVAL also if the period is 0.
 */
int hwtimer_schedule_repeat(struct hwtimer *h, const struct hwtimer_repeat *repeat,
			    uint64_t user_data, hwtimer_id *id);

/*
 * Give a timeout another deadline, earlier or later. -ENOENT: it is over: its event was
 * returned, it was cancelled, or never was; -ESHUTDOWN: stopped, and its event is to be
 * returned. A periodic one is touched by ioctl.
 */
int hwtimer_touch(struct hwtimer *h, hwtimer_id id, uint64_t delay_ns);
int hwtimer_touch_at(struct hwtimer *h, hwtimer_id id, uint64_t deadline_ns);

/* End a timeout. -ENOENT as above. */
int hwtimer_cancel(struct hwtimer *h, hwtimer_id id);

/*
 * Wait for events: at most @timeout_ns, negative: for ever, 0: not at all. Returns how
 * many were stored, up to @max; 0: none came in time. -EINTR: a signal came first.
 * -ESHUTDOWN: stopped, and all events were returned. -EINVAL: @max is below 1. -EBADFD:
 * the program damaged the rings, or closed the descriptor.
 */
int hwtimer_wait(struct hwtimer *h, struct hwtimer_event *events, int max,
		 int64_t timeout_ns);

/*
 * Have the kernel take all that was asked of it, now. Not needed for anything above. Of
 * timeouts that were touched to be later it is not told before it has to be.
 */
int hwtimer_flush(struct hwtimer *h);

/*
 * End all timeouts; each gives an event of kind HWTIMER_HANDED_BACK, if it did not expire
 * before, to be returned by hwtimer_wait(). A second time it does nothing.
 */
int hwtimer_stop(struct hwtimer *h);

/* What the kernel counts. The library's own part of the work does not show. */
int hwtimer_stats(struct hwtimer *h, struct hwtimer_stats *stats);

#ifdef __cplusplus
}

#pragma GCC diagnostic pop
#endif

#endif /* LIBHWTIMER_H */
