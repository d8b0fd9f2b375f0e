/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * /dev/hwtimer: many approximate timeouts on one file descriptor, without a thread.
 *
 * An open file description is a context: a timing wheel with timeouts of its own. All work for it
 * is done in the calls of the programs that use it; what the kernel does by itself is one timer,
 * which wakes those who wait for the context. There are two kinds of context:
 *
 *  - by calls: HWTIMER_IOC_SCHEDULE arms a timeout, HWTIMER_IOC_TOUCH moves it, HWTIMER_IOC_CANCEL
 *    ends it, and read(2) returns a struct hwtimer_record for each one that is due
 *  - by a table: the timeouts are slots in memory that is shared with the program. Arming, moving
 *    and cancelling are stores to a slot; see "The table" below
 *
 * HWTIMER_IOC_SETUP chooses. Without it, the first SCHEDULE sets up a context by calls, with the
 * defaults. An ioctl of the other kind is -EOPNOTSUPP. Below, SCHEDULE stands for
 * HWTIMER_IOC_SCHEDULE, and so on.
 *
 * Times are ns on the clock of the context, in the time namespace of the task that did the SETUP:
 * CLOCK_MONOTONIC, which stands still while the machine is suspended, or CLOCK_BOOTTIME. Neither
 * wakes the machine. A timeout is due at the first tick at or after its deadline: never early, and
 * late by at most a tick and the slack of the context, plus the time that the machine takes to run
 * the program. Timeouts come in the order of ticks, and in no particular order within one. But
 * those of a table that are due when the kernel first looks at them may come after others that were
 * due later, as it looks at 32 of them at a time.
 *
 * A timeout has expired when the program has taken it: by read(2), or by the steps of a table.
 * Until then it can be moved and cancelled, and is not reported then.
 *
 * poll(2) and epoll(7) report POLLIN | POLLRDNORM while something may be taken, and POLLHUP once
 * the context is stopped. A timeout that is moved or cancelled before it is due wakes no program,
 * except one that polls by IOCB_CMD_POLL.
 *
 * Versions: a structure may get new fields at its end; its size remains a multiple of 8 and is part
 * of the ioctl command. The kernel accepts each size that the structure has had, takes missing
 * fields as 0, and accepts larger sizes if the fields that it does not know are 0 (else -E2BIG).
 * Flags that it does not know and pads have to be 0 (-EINVAL).
 *
 * Any ioctl may return -EFAULT, -ENOTTY (no such command), -EBADF (the file is not open for
 * writing, which all but WHEELS need), -ENXIO (before SETUP; also read(2) and mmap(2)), -EINTR (it
 * is being killed), -EINVAL (a field out of its range), and -EINVAL and -E2BIG as above.
 */
#ifndef _UAPI_LINUX_HWTIMER_H
#define _UAPI_LINUX_HWTIMER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* A deadline that never comes. */
#define HWTIMER_NEVER		(~0ULL)
/* The most slots of a context, and how many it may have without CAP_SYS_RESOURCE. */
#define HWTIMER_MAX_SLOTS	(1U << 24)
#define HWTIMER_FREE_SLOTS	(1U << 20)

/* Flags of struct hwtimer_setup, and of struct hwtimer_info. */
#define HWTIMER_SETUP_TABLE	(1U << 0)	/* a context by a table */

/**
 * struct hwtimer_setup - HWTIMER_IOC_SETUP: make a context what it is to be
 * @tick_ns: in: the length of a tick, from 2^17 (131,072) ns to 10 s; 0: 1 ms. Out: the same,
 *	rounded up to a multiple of 2^16 ns: 1,048,576 for 1 ms
 * @slack_ns: in: how much later than that a timeout may be looked at, up to 2^40 ns; then one
 *	wake-up serves many ticks, or comes with another one. Out: rounded down to n * 2^16 ns
 * @clockid: CLOCK_MONOTONIC or CLOCK_BOOTTIME
 * @flags: HWTIMER_SETUP_*
 * @slots: how many timeouts there may be at a time, up to HWTIMER_MAX_SLOTS. In a table, so many
 *	slots are made, rounded up to what fills the pages (out); 0: none, until GROW. By calls,
 *	nothing is allocated in advance, and 0 is HWTIMER_FREE_SLOTS
 * @pad: 0
 *
 * Errors: -EBUSY: there was a SETUP or a SCHEDULE before; -ENOMEM: no memory, or that of the
 * parameter max_memory is used up; -EPERM: more than HWTIMER_FREE_SLOTS without CAP_SYS_RESOURCE;
 * -EOVERFLOW: a table on a clock that is past 2^59 ns, as it may be in a time namespace;
 * -EOPNOTSUPP: a table on a machine without 64-bit atomics, or whose caches have aliases.
 */
struct hwtimer_setup {
	__u64	tick_ns;
	__u64	slack_ns;
	__u32	clockid;
	__u32	flags;
	__u32	slots;
	__u32	pad;
};

/* Flags of struct hwtimer_schedule and struct hwtimer_touch. */
#define HWTIMER_RELATIVE	(1U << 0)	/* @time is a delay from now */

/* What happens if a periodic timeout is late by more than @misfire_ns; see hwtimer_schedule. */
#define HWTIMER_MISFIRE_ONCE	0	/* one record, whose overruns count the others */
#define HWTIMER_MISFIRE_SKIP	1	/* none; those that were missed are overruns of the next */
#define HWTIMER_MISFIRE_MAKE_UP	2	/* a record for each, one per tick */

/**
 * struct hwtimer_schedule - HWTIMER_IOC_SCHEDULE: arm a timeout
 * @id: out: names the timeout until it has ended; never 0, and no other timeout gets the same one
 * @time: the deadline, or the delay; 0 and deadlines that have passed are due at the next tick;
 *	HWTIMER_NEVER: never
 * @period_ns: 0, or the time from each deadline to the next; at least a tick
 * @misfire_ns: how late a periodic timeout may be before @policy applies; at least a tick, or 0:
 *	one period
 * @user_data: returned in the records
 * @flags: HWTIMER_RELATIVE
 * @policy: HWTIMER_MISFIRE_*
 *
 * Errors: -ENOSPC: as many timeouts as SETUP allows; -ENOMEM; -ESHUTDOWN: after STOP.
 */
struct hwtimer_schedule {
	__u64	id;
	__u64	time;
	__u64	period_ns;
	__u64	misfire_ns;
	__u64	user_data;
	__u32	flags;
	__u32	policy;
};

/**
 * struct hwtimer_touch - HWTIMER_IOC_TOUCH: give a timeout a new deadline
 * @id: the timeout
 * @time: as for SCHEDULE. The later deadlines of a periodic timeout count from this one
 * @flags: HWTIMER_RELATIVE
 * @pad: 0
 *
 * Errors: -ENOENT: the timeout has ended; -ESHUTDOWN.
 */
struct hwtimer_touch {
	__u64	id;
	__u64	time;
	__u32	flags;
	__u32	pad;
};

/**
 * struct hwtimer_cancel - HWTIMER_IOC_CANCEL: end a timeout
 * @id: the timeout. If the call succeeds, no read(2) returns it any more. (One that began before
 *	may return a record of a periodic timeout.)
 *
 * Errors: -ENOENT: it has ended.
 */
struct hwtimer_cancel {
	__u64	id;
};

/**
 * struct hwtimer_query - HWTIMER_IOC_QUERY: look at a timeout
 * @id: in: the timeout
 * @deadline_ns: out: its deadline; HWTIMER_NEVER
 * @period_ns: out: its period, or 0
 * @user_data: out: as given to SCHEDULE
 *
 * Errors: -ENOENT: it has ended.
 */
struct hwtimer_query {
	__u64	id;
	__u64	deadline_ns;
	__u64	period_ns;
	__u64	user_data;
};

#define HWTIMER_KIND_EXPIRED		0	/* the deadline has come */
#define HWTIMER_KIND_HANDED_BACK	1	/* STOP ended the timeout before */

/**
 * struct hwtimer_record - what read(2) returns for a timeout
 * @id: the timeout
 * @user_data: as given to SCHEDULE
 * @deadline_ns: when it was due; of several deadlines, the last one
 * @taken_ns: when it was taken
 * @overruns: how many deadlines of a periodic timeout were missed before this record
 * @kind: HWTIMER_KIND_*
 * @pad: 0
 *
 * read(2) returns whole records, as many as fit but perhaps not all that are due, and blocks until
 * there is one; with O_NONBLOCK it returns -EAGAIN, also while another read(2) goes on. -EINVAL:
 * the buffer is shorter than a record. -EFAULT: the first record could not be copied; a timeout
 * whose record was not copied is due again. After STOP, the timeouts that it ended are handed back,
 * and then read(2) returns 0.
 */
struct hwtimer_record {
	__u64	id;
	__u64	user_data;
	__u64	deadline_ns;
	__u64	taken_ns;
	__u64	overruns;
	__u32	kind;
	__u32	pad;
};

/**
 * struct hwtimer_grow - HWTIMER_IOC_GROW: more slots for a table
 * @slots: in: how many there are to be, at least. Out: how many there are
 * @ring: out: the completion ring in use
 *
 * What there was stays where it was; mmap(2) what is new. If the call fails with -ENOMEM or is
 * killed, there may be more slots than before all the same; INFO tells.
 *
 * Errors: as SETUP; -ESHUTDOWN.
 */
struct hwtimer_grow {
	__u32	slots;
	__u32	ring;
};

/**
 * struct hwtimer_info - HWTIMER_IOC_INFO: what SETUP and GROW have made
 * @tick_ns: length of a tick
 * @slack_ns: the slack
 * @clockid: CLOCK_MONOTONIC or CLOCK_BOOTTIME
 * @flags: HWTIMER_SETUP_*
 * @slots: how many slots there are, or may be
 * @rings: of a table: a bit for each completion ring that there is
 * @offset_ns: what to add to the clock of the caller's time namespace to get the context's
 *
 * Errors: -ENXIO: there was no SETUP yet.
 */
struct hwtimer_info {
	__u64	tick_ns;
	__u64	slack_ns;
	__u32	clockid;
	__u32	flags;
	__u32	slots;
	__u32	rings;
	__s64	offset_ns;
};

/**
 * struct hwtimer_stats - HWTIMER_IOC_STATS: counts
 * @pending: how many timeouts are armed. In a table, found by looking at each slot
 * @looks: how often the kernel has looked at a timeout: filed it, or found it due
 * @records: by calls: records that were read; of a table: records put into rings
 * @runs: how many slices of work were done, in calls of programs
 * @timers: how often the timer went off, each of which is a wake-up
 * @late_ns: the largest lateness of a look at a timeout that was due
 */
struct hwtimer_stats {
	__u64	pending;
	__u64	looks;
	__u64	records;
	__u64	runs;
	__u64	timers;
	__u64	late_ns;
};

/**
 * struct hwtimer_list - HWTIMER_IOC_LIST: the armed timeouts; HWTIMER_IOC_WHEELS: the wheels of
 *	kernel modules
 * @cursor: in: 0, or where the last call has ended. Out: where this one has
 * @entries: address of an array: of struct hwtimer_query, as QUERY fills it, or of struct
 *	hwtimer_wheel_info
 * @size: the size of an entry, at most 4096; what a longer one has at its end is set to 0
 * @count: in: how many entries fit, at least 1. Out: how many were filled; if fewer: that was all
 *
 * LIST: in a table, the id is the index of the slot, and the period is 0. A timeout that is armed
 * from the first call to the last is listed once; one that is armed or ends meanwhile may be
 * listed or not. WHEELS needs no SETUP, and the same holds for wheels.
 *
 * After an error, nothing is known of the entries, and the call may be repeated. Errors: -EFAULT,
 * also for an entry; -EINTR: killed; -EPERM: WHEELS without CAP_PERFMON, as the figures may tell
 * what others do.
 */
struct hwtimer_list {
	__u64	cursor;
	__u64	entries;
	__u32	size;
	__u32	count;
};

/* How many elements @late of struct hwtimer_wheel_info has. */
#define HWTIMER_LATE		25

/**
 * struct hwtimer_wheel_info - a wheel of a kernel module
 * @tick_ns: length of a tick
 * @pending: how many timeouts are pending
 * @armed: how many were armed, ...
 * @touched: ... moved, ...
 * @cancelled: ... cancelled, ...
 * @expired: ... have expired, ...
 * @handed_back: ... or were pending when the wheel was stopped
 * @late: how many have expired late by less than 1 us, of the others by less than 2 us, 4 us, ...;
 *	last: all others
 * @name: of the wheel; ends with a 0
 * @module: of the module; ends with a 0
 *
 * Figures are read while they change. On 32-bit kernels, they wrap at 2^32.
 */
struct hwtimer_wheel_info {
	__u64	tick_ns;
	__u64	pending;
	__u64	armed;
	__u64	touched;
	__u64	cancelled;
	__u64	expired;
	__u64	handed_back;
	__u64	late[HWTIMER_LATE];
	char	name[64];
	char	module[64];
};

#define HWTIMER_IOC_MAGIC	0xBE
#define HWTIMER_IOC_SETUP	_IOWR(HWTIMER_IOC_MAGIC, 0x10, struct hwtimer_setup)
#define HWTIMER_IOC_SCHEDULE	_IOWR(HWTIMER_IOC_MAGIC, 0x11, struct hwtimer_schedule)
#define HWTIMER_IOC_TOUCH	_IOW(HWTIMER_IOC_MAGIC, 0x12, struct hwtimer_touch)
#define HWTIMER_IOC_CANCEL	_IOW(HWTIMER_IOC_MAGIC, 0x13, struct hwtimer_cancel)
#define HWTIMER_IOC_QUERY	_IOWR(HWTIMER_IOC_MAGIC, 0x14, struct hwtimer_query)
#define HWTIMER_IOC_GROW	_IOWR(HWTIMER_IOC_MAGIC, 0x15, struct hwtimer_grow)
#define HWTIMER_IOC_INFO	_IOR(HWTIMER_IOC_MAGIC, 0x16, struct hwtimer_info)
#define HWTIMER_IOC_STATS	_IOR(HWTIMER_IOC_MAGIC, 0x17, struct hwtimer_stats)
/* A table: do now what is due and what was pushed. -EINTR: killed. */
#define HWTIMER_IOC_ENTER	_IO(HWTIMER_IOC_MAGIC, 0x18)
/*
 * Nothing expires any more. By calls, read(2) then hands back all timeouts; of a table, each
 * program that wants to have them exchanges their words with 0. A second STOP does nothing.
 */
#define HWTIMER_IOC_STOP	_IO(HWTIMER_IOC_MAGIC, 0x19)
#define HWTIMER_IOC_LIST	_IOWR(HWTIMER_IOC_MAGIC, 0x1a, struct hwtimer_list)
#define HWTIMER_IOC_WHEELS	_IOWR(HWTIMER_IOC_MAGIC, 0x1b, struct hwtimer_list)

/*
 * The table
 * ---------
 *
 * mmap(2), shared, at these offsets. Errors: -EINVAL: not shared; -ENXIO: beyond the table, or a
 * context by calls; -ENOMEM; -EINTR: killed. A child of fork(2) does not get the mapping.
 *
 *	0			struct hwtimer_table; ring 0 half a page later
 *	page / 2 << g		ring g: page / 8 << g indexes of slots (__u32)
 *	HWTIMER_OFFSET_SLOTS	the slots
 *
 * A word is a deadline in units of 2^16 ns, rounded up, and an arming, a number of 20 bits that
 * tells one use of the slot from another. 0 is a slot that is not armed. Words, @visit, @wake_at
 * and @kick_before have the same form and are compared as numbers. Each is read and written by one
 * 64-bit access.
 *
 * Only programs write words. The kernel looks at a slot when it was pushed, and when a deadline
 * that it found there comes. A record in a completion ring says "look at this slot", not "this has
 * expired": who takes the record and who cancels decide that by one compare-and-swap of the word.
 * So what was cancelled is never reported, and nothing is reported twice.
 *
 * MB is a full barrier, atomic_thread_fence(memory_order_seq_cst) in C11. A compare-and-swap (CAS)
 * is a release if it succeeds, and need order nothing if it fails.
 *
 *  - arm (the slot is free: its word is 0): word = w; MB; check w. If it is stopped: while the word
 *    has this arming: CAS(word, it, 0): won: the arming was refused. (If the word has it no more,
 *    somebody has handed it back.)
 *  - touch: CAS(word, old, w), or it has ended; if w is before old: MB; check w
 *  - cancel: CAS(word, old, 0), or it has ended
 *  - check w: v = visit; if v is not 0 and w >= v: done. If v is not 0: visit = 0; MB; push the
 *    slot; MB. If STOPPED is in flags: it is stopped, done. Otherwise read the word again: if it is
 *    armed and before kick_before: ENTER
 *  - push: if CAS(next, 0, 1) fails: done, it is pushed already. Otherwise do h = pushed, next = h;
 *    until CAS(pushed, h, index + 2) succeeds
 *  - take: d = walked, then t = walk (acquire); if they differ: read slots (acquire), look at all
 *    of them, CAS(walked, d, t). g = ring (acquire). In the first ring, from the oldest one up to
 *    g, in which h = cq_head is not cq_tail (acquire): look at slot entry[h modulo entries], then
 *    CAS(cq_head, h, h + 1)
 *  - look: w = word; 0: nothing. Due: CAS(word, w, 0) or, if the timeout is periodic, CAS(word, w,
 *    next). Lost: read it again. Won: report it and, if it is armed again, MB, check it. Not due,
 *    or lost too often: MB; check w
 *
 * A ring with an entry for each slot fills up only if slots are armed and cancelled again and again
 * while no record is taken; then walk is incremented instead.
 *
 * A program that takes without waiting compares the clock with wake_at: has it come, ENTER does
 * what is due. What one program writes to a table may harm those who share it, and nobody else.
 */

/* Where the slots are mapped. */
#define HWTIMER_OFFSET_SLOTS	0x40000000UL
#define HWTIMER_MAX_RINGS	24

/* A word: HWTIMER_UNIT_SHIFT: ns to units; HWTIMER_ARMING_BITS: the lower part. */
#define HWTIMER_UNIT_SHIFT	16
#define HWTIMER_ARMING_BITS	20

/* Links of pushed slots: 0: not pushed; 1: the last one; else the index of a slot, plus 2. */
#define HWTIMER_LINK_NONE	0
#define HWTIMER_LINK_END	1
#define HWTIMER_LINK(index)	((index) + 2)

/**
 * struct hwtimer_slot - a timeout of a table
 * @word: its deadline and arming; written by programs only
 * @visit: the kernel will look at the slot in time for each word from here on. ~0: it holds
 *	nothing. 0: it will look, but see kick_before
 * @user_data: the program's
 * @tag: the program's
 * @next: link of the list of pushed slots
 */
struct hwtimer_slot {
	__u64	word;
	__u64	visit;
	__u64	user_data;
	__u32	tag;
	__u32	next;
};

#define HWTIMER_TABLE_STOPPED	(1U << 0)	/* after STOP; arms end with -ESHUTDOWN */

/**
 * struct hwtimer_table - what the first page begins with
 * @wake_at: written by the kernel: when its timer may go off; 0: now; ~0: never
 * @kick_before: likewise: what is due before this needs an ENTER
 * @ring: likewise: the completion ring in use; those below it get no more records
 * @slots: likewise: how many slots there are
 * @flags: likewise: HWTIMER_TABLE_*
 * @pad0: unused
 * @pushed: the head of the list of pushed slots
 * @walked: the value of @walk up to which programs have looked at all slots
 * @walk: written by the kernel: moved on if a record has no room, so all slots have to be looked at
 * @pad1: unused
 * @cq_head: for each ring: the next record to take; wraps at 2^32
 * @cq_tail: for each ring: the record after the last one. Written by the kernel
 * @armed: the program's own counts, which debugfs shows: how many it has armed, ...
 * @touched: ... moved ...
 * @cancelled: ... cancelled ...
 * @expired: ... and taken
 */
struct hwtimer_table {
	__u64	wake_at;
	__u64	kick_before;
	__u32	ring;
	__u32	slots;
	__u32	flags;
	__u32	walk;
	__u32	pad0[8];
	__u32	pushed;
	__u32	walked;
	__u32	pad1[14];
	__u32	cq_head[32];
	__u32	cq_tail[32];
	__u64	armed;
	__u64	touched;
	__u64	cancelled;
	__u64	expired;
};

#endif /* _UAPI_LINUX_HWTIMER_H */
