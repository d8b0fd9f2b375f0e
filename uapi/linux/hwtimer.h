/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * /dev/hwtimer: millions of approximate timeouts on one file descriptor.
 *
 * An open file description is a context with timeouts of its own. A program
 * schedules timeouts with HWTIMER_IOC_SCHEDULE, pushes them back with
 * HWTIMER_IOC_TOUCH, and reads a struct hwtimer_record for each one that
 * expired. Nothing is global; the last close ends all of them.
 *
 * Times are ns on the context's clock, which is CLOCK_MONOTONIC unless SETUP says
 * otherwise. A timeout expires at the first tick of its wheel at or after its
 * deadline: never early, late by at most a tick plus the time the machine takes. While
 * the machine is suspended CLOCK_MONOTONIC stands still, and so do the timeouts;
 * CLOCK_BOOTTIME goes on, and what became due expires when the machine has been
 * resumed. Neither wakes it. Inside a time namespace, absolute times are those
 * of the initial namespace; take "now" from HWTIMER_IOC_STATS there, or use
 * relative times.
 *
 * Growing: each structure may get fields at its end. The size that a caller
 * was compiled with is part of the ioctl number. The kernel takes an older,
 * shorter structure as if the new fields were 0 (not shorter than the first
 * version, -EINVAL), and a newer, longer one if what it does not know is 0
 * (-E2BIG). Fields and flags that this version does not know must be 0
 * (-EINVAL). An ioctl that fails changes nothing, and what it returned in the
 * structure means nothing.
 *
 * Errors that every ioctl has in common: -EFAULT (the structure is not readable
 * or not writable), -ENOTTY (no such command), -E2BIG and -EINVAL as above.
 * After -EFAULT nothing was done, except by STOP, which is done even if its
 * answer cannot be written; but a SCHEDULE counts as the first one.
 *
 * read(2): as many whole records as fit, oldest first. Blocks until there is
 * one, or -EAGAIN with O_NONBLOCK. 0 once HWTIMER_IOC_STOP was called and all
 * was read. -EINVAL if the buffer is shorter than a record; -EFAULT if the first
 * record could not be copied; a record that could not be copied stays unread.
 *
 * poll(2), epoll(7): POLLIN | POLLRDNORM while there are records to read;
 * POLLHUP once stopped.
 *
 * Records come in the order in which the timeouts expired: by ticks, and within
 * one tick in no order to rely on. Those of a periodic timeout come in order, too,
 * but as long as one is unread the next take their place beside it, and so come
 * before those of timeouts that expired in between.
 *
 * Periodic timeouts expire at a first deadline and at all those a whole number of
 * periods later, which do not depend on when the timeout was met or read. They stay
 * pending, by the same id, until they are cancelled or handed back. None of their
 * expiries is lost or told twice: the sum of 1 + overruns over all records of kind
 * HWTIMER_EXPIRED is how often they expired (expired in HWTIMER_IOC_STATS, once all
 * is read). A program that reads late finds
 *
 *	HWTIMER_MISFIRE_ONCE, HWTIMER_MISFIRE_SKIP: one record, brought up to date at
 *	each expiry: deadline and fired are those of the last, overruns counts all
 *	the others since it was read last, as well as the deadlines that were missed
 *	HWTIMER_MISFIRE_MAKE_UP: as many records as it expired, the oldest first, with
 *	the deadlines one period apart; fired is that of the last in all of
 *	them. If it was touched meanwhile, those from before it expired by the
 *	new deadline are overruns of the first record behind that
 *
 * It is a misfire if the wheel comes by later than struct hwtimer_schedule's misfire
 * allows: the machine was busy, or the first deadline, or that of a touch, was past
 * already. That a program reads late is none.
 *
 * close(2): timeouts still pending end unseen.
 */
#ifndef _UAPI_LINUX_HWTIMER_H
#define _UAPI_LINUX_HWTIMER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* The deadline of a timeout that was scheduled too far out ever to expire. */
#define HWTIMER_NEVER		(~0ULL)

/* hwtimer_setup.flags */
#define HWTIMER_SETUP_OWN_WHEEL	0x00000001U	/* not the shared wheel */
#define HWTIMER_SETUP_GROW	0x00000002U	/* own wheel: add levels when needed */

/**
 * struct hwtimer_setup - choose the wheel and the cap of a context
 * @flags: HWTIMER_SETUP_OWN_WHEEL, with or without HWTIMER_SETUP_GROW, or 0 for
 *	the shared wheel
 * @clockid: CLOCK_MONOTONIC (1), or CLOCK_BOOTTIME (7) for an own wheel
 * @tick_ns: own wheel: ns per tick; shared wheel: 0. Out: the wheel's
 * @slots: own wheel: slots per level; shared wheel: 0. Out: the wheel's
 * @levels: own wheel: how many levels, each slot as wide as the level below it, with
 *	HWTIMER_SETUP_GROW to begin with; up to 16; 0: 1. Shared wheel: 0 or 1,
 *	which mean nothing: it grows. Out: the wheel's, so far
 * @cap: how many timeouts may be live (pending, or expired and unread) at
 *	once; 0: as many as the system allows. Out: what holds
 *
 * Optional; before the first HWTIMER_IOC_SCHEDULE, and once. Should records ever
 * grow, a context will have to ask for longer ones here.
 *
 * -EINVAL	unknown flag; unknown clockid; shared wheel: tick_ns or slots is
 *		not 0, levels is above 1, HWTIMER_SETUP_GROW, or not
 *		CLOCK_MONOTONIC; own wheel: tick_ns is 0, slots is 0 or above
 *		2^30, or their product is above 2^60 - 1; so many levels that a
 *		slot of the topmost is above 2^60 - 1 ns; 1 slot with levels
 *		above 1 or HWTIMER_SETUP_GROW; cap is above what an id can
 *		number (2^24)
 * -EPERM	tick_ns is below, or slots above, what the module's parameters
 *		grant without CAP_SYS_RESOURCE
 * -EDQUOT	the user has as many wheels of its own as it may
 * -EBUSY	the context was set up before, or a SCHEDULE came first, be it one
 *		that failed
 * -ESHUTDOWN	the context was stopped
 * -ENOMEM	no memory for the wheel
 */
struct hwtimer_setup {
	__u32 flags;
	__u32 clockid;
	__aligned_u64 tick_ns;
	__u32 slots;
	__u32 levels;
	__aligned_u64 cap;
};

/* hwtimer_schedule.flags, hwtimer_touch.flags */
#define HWTIMER_RELATIVE	0x00000001U	/* time is a delay from now */

/* hwtimer_schedule.policy: what is done about a misfire */
#define HWTIMER_MISFIRE_ONCE	0	/* expire once for all that were missed */
#define HWTIMER_MISFIRE_SKIP	1	/* do not expire until the next deadline */
#define HWTIMER_MISFIRE_MAKE_UP	2	/* expire for each one, one a tick */

/**
 * struct hwtimer_schedule - arm a new timeout
 * @flags: HWTIMER_RELATIVE, or 0
 * @pad: 0
 * @time: deadline in ns, or with HWTIMER_RELATIVE the delay in ns. A time in
 *	the past, or a delay of 0, expires at the next tick; a time too far
 *	out for the wheel never does
 * @user_data: comes back in the record
 * @id: out: names the timeout until it ends. Never 0, and never used again in
 *	this context
 * @deadline: out: the deadline in ns, or HWTIMER_NEVER
 * @period: ns from each deadline to the next, at least a tick of the wheel; 0: it
 *	expires once
 * @misfire: with a period: later than this after its deadline, in ns, it is a
 *	misfire; at least a tick; 0: one period. Otherwise 0
 * @policy: with a period: HWTIMER_MISFIRE_ONCE, _SKIP or _MAKE_UP. Otherwise 0
 * @pad2: 0
 *
 * The first version ended with deadline.
 *
 * Up to misfire late, a periodic timeout expires with no overruns of its own, and
 * its next deadline is one period later, even if that is past, too. After a misfire
 *
 *	HWTIMER_MISFIRE_ONCE: it expires, the deadlines missed since are its
 *	overruns, and the next is the first to come
 *	HWTIMER_MISFIRE_SKIP: it does not expire, the next deadline is the first to
 *	come, and this one and those missed since are overruns of the next
 *	expiry. If it is cancelled or handed back before, they are not told
 *	HWTIMER_MISFIRE_MAKE_UP: it expires, with no overruns, and the next deadline
 *	is one period later. With the period as short as the tick that never
 *	catches up
 *
 * -EINVAL	unknown flag; pad or pad2 is not 0; no such policy; period is below the
 *		wheel's tick, and not 0; misfire is; period is 0, and misfire or
 *		policy is not
 * -EAGAIN	the context has as many live timeouts as its cap allows
 * -EDQUOT	the user's contexts have room for as many timeouts as they may, and
 *		this one has none left: a context keeps the room of timeouts
 *		that ended, for use again, until it is closed. Or the user's
 *		periodic timeouts expire as often in a second as they may; with
 *		HWTIMER_MISFIRE_MAKE_UP, or misfire above the period, that is at
 *		each tick, as it may come to that
 * -ESHUTDOWN	the context was stopped
 * -ENOMEM	no memory, or the cgroup's limit is reached
 */
struct hwtimer_schedule {
	__u32 flags;
	__u32 pad;
	__aligned_u64 time;
	__aligned_u64 user_data;
	__aligned_u64 id;
	__aligned_u64 deadline;
	__aligned_u64 period;
	__aligned_u64 misfire;
	__u32 policy;
	__u32 pad2;
};

/**
 * struct hwtimer_touch - give a pending timeout another deadline
 * @flags: HWTIMER_RELATIVE, or 0
 * @pad: 0
 * @id: which one
 * @time: as in struct hwtimer_schedule; earlier or later than before
 * @deadline: out: the new deadline in ns, or HWTIMER_NEVER
 *
 * Those of a periodic timeout that come after it are counted from the new deadline.
 * What is unread of it stays.
 *
 * -EINVAL	unknown flag; pad is not 0
 * -ENOENT	no such timeout is pending: it expired or was cancelled, or the
 *		id is not one of this context
 * -ESHUTDOWN	the context was stopped
 */
struct hwtimer_touch {
	__u32 flags;
	__u32 pad;
	__aligned_u64 id;
	__aligned_u64 time;
	__aligned_u64 deadline;
};

/**
 * struct hwtimer_cancel - end a pending timeout; it will not expire
 * @flags: 0
 * @pad: 0
 * @id: which one
 *
 * What is unread of a periodic timeout can still be read, and until then counts as
 * live.
 *
 * -EINVAL	unknown flag; pad is not 0
 * -ENOENT	no such timeout is pending. If it expired, its record is there
 *		to be read, or was read
 */
struct hwtimer_cancel {
	__u32 flags;
	__u32 pad;
	__aligned_u64 id;
};

/**
 * struct hwtimer_query - look at a pending timeout
 * @flags: 0
 * @pad: 0
 * @id: which one
 * @user_data: out: as scheduled
 * @deadline: out: in ns, or HWTIMER_NEVER; of a periodic one the next
 * @period: out: as scheduled; 0: it is not periodic
 * @misfire: out: as scheduled, or the period if that was 0
 * @unread: out: how often it expired, overruns included, and nobody has read it
 * @policy: out: as scheduled
 * @pad2: 0
 *
 * The first version ended with deadline.
 *
 * -EINVAL	unknown flag; pad or pad2 is not 0
 * -ENOENT	no such timeout is pending
 */
struct hwtimer_query {
	__u32 flags;
	__u32 pad;
	__aligned_u64 id;
	__aligned_u64 user_data;
	__aligned_u64 deadline;
	__aligned_u64 period;
	__aligned_u64 misfire;
	__aligned_u64 unread;
	__u32 policy;
	__u32 pad2;
};

/**
 * struct hwtimer_stop - end the context and hand back what was pending
 * @flags: 0
 * @pad: 0
 * @handed_back: out: how many timeouts were pending
 *
 * Each timeout that was pending becomes a record of kind HWTIMER_HANDED_BACK,
 * to be read after the expiries that came before, its own, too. Nothing can be armed from then
 * on. A second stop hands back 0.
 *
 * -EINVAL	unknown flag; pad is not 0
 */
struct hwtimer_stop {
	__u32 flags;
	__u32 pad;
	__aligned_u64 handed_back;
};

/**
 * struct hwtimer_stats - what a context did so far
 * @flags: 0
 * @pad: 0
 * @now: the context's clock, in ns
 * @scheduled: timeouts scheduled, a periodic one again each time that it expires
 * @touched: deadlines changed
 * @cancelled: timeouts cancelled
 * @expired: timeouts expired, overruns of periodic ones included
 * @handed_back: timeouts that stop handed back
 * @rejected: HWTIMER_IOC_SCHEDULE at a cap
 * @pending: timeouts pending now
 * @unread: records to be read now
 * @cap: the context's cap on live timeouts: those that are pending or have records
 *	to be read
 *
 * At any time scheduled = pending + cancelled + expired + handed_back.
 *
 * -EINVAL	unknown flag; pad is not 0
 */
struct hwtimer_stats {
	__u32 flags;
	__u32 pad;
	__aligned_u64 now;
	__aligned_u64 scheduled;
	__aligned_u64 touched;
	__aligned_u64 cancelled;
	__aligned_u64 expired;
	__aligned_u64 handed_back;
	__aligned_u64 rejected;
	__aligned_u64 pending;
	__aligned_u64 unread;
	__aligned_u64 cap;
};

/* hwtimer_record.kind */
#define HWTIMER_EXPIRED		1
#define HWTIMER_HANDED_BACK	2	/* pending when the context was stopped */

/**
 * struct hwtimer_record - what read(2) returns for a timeout that expired or ended
 * @id: which one; no longer valid unless it is periodic and pending still
 * @user_data: as scheduled
 * @deadline: in ns, or HWTIMER_NEVER
 * @fired: when it expired or was handed back, in ns; not before the deadline if
 *	it expired
 * @overruns: periodic, HWTIMER_EXPIRED: how many expiries and missed deadlines, beside
 *	this one, this record stands for; else 0
 * @kind: HWTIMER_EXPIRED or HWTIMER_HANDED_BACK
 * @pad: 0
 */
struct hwtimer_record {
	__aligned_u64 id;
	__aligned_u64 user_data;
	__aligned_u64 deadline;
	__aligned_u64 fired;
	__aligned_u64 overruns;
	__u32 kind;
	__u32 pad;
};

#define HWTIMER_IOC_MAGIC	0xBE
#define HWTIMER_IOC_SETUP	_IOWR(HWTIMER_IOC_MAGIC, 0x00, struct hwtimer_setup)
#define HWTIMER_IOC_SCHEDULE	_IOWR(HWTIMER_IOC_MAGIC, 0x01, struct hwtimer_schedule)
#define HWTIMER_IOC_TOUCH	_IOWR(HWTIMER_IOC_MAGIC, 0x02, struct hwtimer_touch)
#define HWTIMER_IOC_CANCEL	_IOWR(HWTIMER_IOC_MAGIC, 0x03, struct hwtimer_cancel)
#define HWTIMER_IOC_QUERY	_IOWR(HWTIMER_IOC_MAGIC, 0x04, struct hwtimer_query)
#define HWTIMER_IOC_STOP	_IOWR(HWTIMER_IOC_MAGIC, 0x05, struct hwtimer_stop)
#define HWTIMER_IOC_STATS	_IOWR(HWTIMER_IOC_MAGIC, 0x06, struct hwtimer_stats)

#endif /* _UAPI_LINUX_HWTIMER_H */
