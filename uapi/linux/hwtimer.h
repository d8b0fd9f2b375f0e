/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * /dev/hwtimer: millions of approximate timeouts on one file descriptor.
 *
 * An open file description is a context with timeouts of its own. A program schedules timeouts with
 * HWTIMER_IOC_SCHEDULE, pushes them back with HWTIMER_IOC_TOUCH, and reads a struct hwtimer_record
 * for each one that expired. The last close ends all of them. Below, SCHEDULE stands for
 * HWTIMER_IOC_SCHEDULE, and so on.
 *
 * Times are ns on the context's clock, which is CLOCK_MONOTONIC unless SETUP says otherwise. A
 * context uses a timing wheel, whose thread expires timeouts at ticks, 1 ms apart by default. A
 * timeout expires at the first tick at or after its deadline: never early, and late by at most a
 * tick plus the time the machine takes to run the thread. While the machine is suspended,
 * CLOCK_MONOTONIC stands still, and so do its timeouts. CLOCK_BOOTTIME goes on, and timeouts that
 * become due meanwhile expire after the resume. Neither clock wakes the machine. On these two
 * clocks,
 *
 *  - absolute times, given or reported, are those of one time namespace: that of the task that
 *    called SETUP or, without SETUP, opened the file. Who uses the file later makes no difference
 *  - a deadline before the creation of the context's wheel is replaced by the time of the creation,
 *    also where it is reported; it has passed either way. Only the first deadline of a periodic
 *    timeout is kept, because all others depend on it, unless it is before the boot of the machine
 *
 * CLOCK_REALTIME is described below.
 *
 * Versions: each structure may get new fields at its end; its size remains a multiple of 8. The
 * size that a caller was compiled with is part of the ioctl command. The kernel accepts each size
 * that the structure has had in any version, and takes the missing fields as 0. It accepts larger
 * sizes if the fields that it does not know are 0, and otherwise returns -E2BIG. Any other size is
 * -EINVAL. Flags that this version does not know, and pads, must be 0 (-EINVAL). The same holds for
 * elements of arrays, and for entries and records of rings, whose size is a field of a structure.
 * Elements may have up to 4096 bytes, entries and records up to 256; more is -EINVAL. So -E2BIG
 * always means that the caller asks for something that this version does not know.
 *
 * Every ioctl may return -EFAULT (the structure is not readable or not writable), -ENOTTY (no such
 * command), -EBADF (the file is not open for writing, which all but QUERY, STATS, LIST, INFO and
 * WHEELS need), and -E2BIG and -EINVAL as above. Output fields are undefined after an error. A
 * signal with a handler interrupts no ioctl. (Some return -EINTR when the caller is being killed,
 * so no program sees that.) An ioctl that fails has changed nothing, except that
 *
 *  - STOP, ENTER and RESIZE that return -EFAULT, and ENTER that returns -EBADFD, have done their
 *    work
 *  - after a SCHEDULE with valid arguments, SETUP and RINGS may return -EBUSY, as after one that
 *    succeeds
 *  - ioctls that take submissions (see "Rings") have taken them
 *
 * read(2) returns as many whole records as fit, oldest first. It blocks until there is a record;
 * with O_NONBLOCK it returns -EAGAIN. A signal that comes while it blocks restarts it, or makes it
 * return -EINTR; see SA_RESTART in sigaction(2). It returns 0 once STOP was called and all records
 * were read, -EINVAL if the buffer is shorter than a record, and -EFAULT if the first record could
 * not be copied. A record that could not be copied stays unread. Below, a record is unread until
 * read(2) has returned it or, with rings, until it is in the completion ring.
 *
 * poll(2) and epoll(7) report POLLIN | POLLRDNORM while there are records to read, and POLLHUP once
 * the context is stopped. With EPOLLET, each expiry is an edge, whether earlier records have been
 * read or not, as with a pipe.
 *
 * Records come in the order of the ticks at which the timeouts expired, and in no particular order
 * within a tick. All unread records of one periodic timeout are read together, in order, at the
 * place of the oldest: so they may come before older records of other timeouts. Records of timeouts
 * that ended without expiring are not in this order.
 *
 * A periodic timeout expires at its first deadline and at those that are a whole number of periods
 * later. The deadlines do not depend on when it expired or when its records were read. It stays
 * pending, with the same id, until it is cancelled, handed back, or ended by HWTIMER_CANCEL_ON_SET.
 * A record can stand for several expiries and missed deadlines; all but one of them are its
 * overruns. None is lost or reported twice: once everything is read, the sum of 1 + overruns over
 * the records of kind HWTIMER_KIND_EXPIRED is what STATS counts in expired. A program that reads
 * late finds
 *
 *	HWTIMER_MISFIRE_ONCE, HWTIMER_MISFIRE_SKIP: one record. Its deadline and fired are those
 *	of the last expiry; its overruns count the other unread expiries and the missed
 *	deadlines
 *	HWTIMER_MISFIRE_MAKE_UP: one record per expiry, the oldest first, with deadlines that
 *	are one period apart. In all of them, fired is that of the last expiry. Once a timeout
 *	that was touched expires again, its unread expiries from before the touch are overruns
 *	of the first record from after it
 *
 * An expiry is a misfire if it is later than the field misfire of struct hwtimer_schedule allows:
 * because the machine was busy, or because the first deadline, or that of a touch, had already
 * passed. An expiry that is only read late is no misfire.
 *
 * Unless SETUP asks for an own wheel, a context shares a wheel with other contexts of its user. A
 * user has one such wheel for each set of cgroups; a context uses the one for the cgroups of the
 * task that schedules its first timeout or creates its rings. The wheel's thread is in these
 * cgroups and is charged to them. If it needs more CPU time than they allow, its expiries are late.
 * "late" in /proc/PID/fdinfo/FD counts expiries more than two ticks after their deadlines,
 * including deadlines that were past when they were scheduled.
 *
 * At the last close(2), pending timeouts end without a record, and operations left in a submission
 * ring have no effect. A mapping of the rings keeps the file open, as a descriptor does.
 *
 * CLOCK_REALTIME
 * --------------
 *
 * All absolute times of a context whose own wheel is on CLOCK_REALTIME are times of day. They
 * follow the clock when it is set (clock_settime(2), settimeofday(2), adjtimex(2) with
 * ADJ_SETOFFSET, a leap second):
 *
 *  - An absolute deadline remains the same time of day. It is reported as it was given, even if it
 *    is out of the range of the wheel. If the clock has passed it, the timeout expires at the next
 *    tick. No timeout expires before the clock shows its deadline.
 *  - A delay (HWTIMER_RELATIVE) keeps its length, so its deadline moves on the clock.
 *  - A timeout with HWTIMER_CANCEL_ON_SET ends with a record of kind HWTIMER_KIND_CLOCK_SET.
 *  - The deadlines of a periodic timeout remain a whole number of periods after the first one: on
 *    the clock if that was absolute, in elapsed time if it was a delay. If it was absolute, a clock
 *    that is set forward skips deadlines, which are missed, and the policy says what becomes of
 *    them; a clock that is set back leaves the next deadline as it was, so none comes twice. If it
 *    was a delay, all later deadlines move on the clock, as by a touch.
 *  - Records that were unread when the clock was set keep their times.
 *
 * A SCHEDULE, TOUCH, CANCEL, QUERY, LIST or STOP after the setting finds all this done. Records and
 * STATS show it once the wheel's thread, which begins at the next tick, has come to the timeout.
 * With rings, sleep_until is out of date until that tick: an operation that needs no kick according
 * to it may be a tick late.
 *
 * Slewing the clock (adjtime(3), NTP) is not setting it. Nor is a suspend: the clock goes on, and
 * what becomes due meanwhile expires after the resume. (With timerfd_create(2), a resume counts as
 * setting.) CLOCK_REALTIME is the same in all time namespaces.
 *
 * A program that computes deadlines from a calendar keeps one timeout with HWTIMER_CANCEL_ON_SET
 * at HWTIMER_NEVER. It schedules this timeout, then reads the clock and computes; at each record of
 * kind HWTIMER_KIND_CLOCK_SET it does all of this again. So it misses no setting, except one that
 * another setting undoes exactly within a tick.
 *
 * Rings
 * -----
 *
 * A context with rings (HWTIMER_IOC_RINGS, then mmap(2)) takes operations from memory that is
 * shared with the program, and puts records there; neither needs a system call. The program chooses
 * the ids, HWTIMER_ID(index, tag), so it need not wait for an answer. The index is below
 * hwtimer_rings.timeouts, or below the number that RESIZE has set since. It is free again when its
 * timeout has ended and all records of the timeout are in the completion ring. The tag is any
 * number below 2^40; it distinguishes the timeouts that use one index in turn. HWTIMER_ID_INDEX(id)
 * and HWTIMER_ID_TAG(id) are the parts of an id.
 *
 * The mapping begins with struct hwtimer_ring. At sq_offset is the submission ring, an array of
 * struct hwtimer_sqe; at cq_offset is the completion ring, an array of struct hwtimer_record. The
 * program gives the size of an entry and that of a record, by the rules above ("Versions"): an
 * entry with an unknown field that is not 0 fails with -E2BIG, and fields of a record that the
 * kernel does not know are 0.
 *
 * sq_head, sq_tail, cq_head and cq_tail start at 0 and wrap at 2^32; entry i is at i modulo the
 * number of entries. sq_tail - sq_head entries wait for the kernel to take them, and cq_tail -
 * cq_head records for the program to read them. Acquire and release are those of C11, and a full
 * barrier is atomic_thread_fence(memory_order_seq_cst). The program's other accesses to struct
 * hwtimer_ring, and the one by which it takes an entry back, are atomic as well, but relaxed.
 *
 *	the program					the kernel
 *
 *	submits entries:				takes entries:
 *	  while sq_tail - sq_head (acquire)		  t = sq_tail (acquire)
 *	    is sq_entries: kicks, reads records		  copies entries sq_head to t - 1,
 *	  writes entry sq_tail				    each once, and executes them
 *	  sq_tail += 1 (release)			  sq_head = t (release)
 *	  full barrier					  writes sleep_until, flags
 *	  kicks if a deadline is before			  full barrier
 *	    sleep_until (one 64-bit access)		  reads sq_tail once more
 *
 *	reads records:					puts a record:
 *	  t = cq_tail (acquire)				  if cq_tail - cq_head (acquire)
 *	  reads records cq_head to t - 1		    is below cq_entries:
 *	  cq_head = t (release)				    writes record cq_tail
 *	  full barrier					    cq_tail += 1 (release)
 *	  kicks if HWTIMER_RING_CQ_FULL			  otherwise:
 *	    is in flags					    sets HWTIMER_RING_CQ_FULL
 *							    full barrier
 *							    reads cq_head once more; may wait
 *
 * To kick is to call ENTER. (It does not wait for records: for that, use poll(2) or an eventfd(2).)
 * The kernel polls the submission ring by itself before sleep_until, and before any timeout of the
 * context expires: an operation that was submitted before a timeout's deadline takes effect before
 * the timeout expires. So CANCEL, and TOUCH to a later time, need no kick. SCHEDULE, and TOUCH to
 * an earlier time, need one if the new deadline is before sleep_until; without the kick the timeout
 * may be late. A full submission ring always needs a kick. At first, and if nothing is submitted
 * for some time, the kernel does not poll: sleep_until is then HWTIMER_RING_IDLE, which is after
 * any deadline but HWTIMER_NEVER.
 *
 * The program can take a submission back: if it arms and cancels a timeout between two polls, the
 * kernel sees neither.
 *
 *	the program					the kernel
 *
 *	op of entry i = HWTIMER_OP_NOP			sq_claimed = c
 *	full barrier					full barrier
 *	taken back if					copies entries below c
 *	(__s32)(i - sq_claimed) >= 0
 *
 * The program first makes sure, for example by the id, that the place still holds entry i and no
 * later one. Because of the barriers, at least one side sees what the other did. If the program
 * finds the entry claimed, it cannot know whether the kernel saw the operation or the NOP: after a
 * HWTIMER_OP_SCHEDULE it then submits HWTIMER_OP_CANCEL, which is right in both cases but fails in
 * one of them, so with HWTIMER_SQE_QUIET.
 *
 * With HWTIMER_RINGS_RELAXED, the program needs fewer full barriers, because the kernel waits
 * for RCU grace periods. These accesses then need only a compiler barrier, such as
 * atomic_signal_fence(memory_order_seq_cst), to stay in order:
 *
 *  - The program takes an entry back, then reads sq_claimed. The kernel may execute an operation
 *    that was taken back. It notices that a moment later, or when the program uses the index again,
 *    and cancels the timeout. Until then the timeout counts against the cap. If it expires or is
 *    handed back before that, the program ignores its record; a SCHEDULE that uses its index again
 *    may fail with -EEXIST or -EBUSY, as after a CANCEL that came too late. Only
 *    HWTIMER_OP_SCHEDULE can be taken back, and only op changes: the NOP keeps the id
 *  - The program submits, then reads relaxed_until. If the deadline is not before that, it needs no
 *    kick, but the entry may count as submitted a moment later. Otherwise the program goes on as
 *    above, with the full barrier and sleep_until
 *
 * In return, no thread, of whatever process, may call ENTER or another ioctl that takes
 * submissions, except STOP, while another one submits or takes back. Entries keep their places
 * until the kernel is sure that they were not taken back, so sq_head moves on some time after they
 * were taken, or with the next of these ioctls.
 *
 * An operation that fails becomes a record of kind HWTIMER_KIND_FAILED with the error, unless it
 * had HWTIMER_SQE_QUIET. While there is no room for that record, this entry and those behind it
 * wait. All other records wait in the kernel for room, in their order, and none is lost.
 *
 * While a failed entry waits, or sq_tail is out of range (HWTIMER_RING_BAD), the kernel takes no
 * entry, and timeouts expire as if nothing more had been submitted. On a shared wheel, unless the
 * program kicks, the kernel takes about 1024 entries of a context per tick; an expiry that has to
 * wait for the other entries is late.
 *
 * All ioctls work beside the rings, with the same ids; SCHEDULE takes the id from the structure.
 * SCHEDULE, TOUCH, CANCEL, QUERY, STOP and RESIZE first take what was submitted before them.
 * STATS, LIST, INFO and WHEELS do not, so a debugger disturbs nothing. read(2) returns -EOPNOTSUPP.
 * poll(2) reports POLLIN | POLLRDNORM while there are records in the ring, or waiting for room, and
 * POLLERR while HWTIMER_RING_BAD is set. The program has to ensure that only one thread at a time
 * submits or takes back, and only one reads records. A signal handler counts as a thread.
 *
 * mmap(2) returns -ENXIO if there are no rings, or if offset + length is beyond their size, -EINVAL
 * without MAP_SHARED, and -EACCES unless the file is open for reading and writing. A mapping is
 * inherited by fork(2), like any shared memory, and cannot be enlarged by mremap(2).
 *
 * Rings need atomic 64-bit stores: all 64-bit architectures have them and, of the 32-bit ones, x86
 * and ARMv7. They also need caches without aliases, which some MIPS, ARM, SPARC and PA-RISC
 * processors do not have. A 32-bit program that cannot read 64 bits by one access takes sleep_until
 * and relaxed_until for HWTIMER_RING_IDLE.
 *
 * Nothing that a program writes to this memory harms others. If sq_tail - sq_head exceeds the
 * number of entries, the kernel stops taking entries; if cq_tail - cq_head does, it stops putting
 * records. (It uses its own copies of sq_head and cq_tail.) Either way it sets HWTIMER_RING_BAD,
 * and goes on when it finds the index right again, at the latest at a kick. It reads sq_tail again
 * only when it has taken all entries that it saw before.
 *
 * io_uring
 * --------
 *
 * IORING_OP_READ and, from Linux 6.7 on, IORING_OP_READ_MULTISHOT read like read(2).
 * IORING_OP_POLL_ADD polls like poll(2); with IORING_POLL_ADD_MULTI each expiry is an edge. With
 * rings, only polls work: a read waits for an expiry, and then fails with -EOPNOTSUPP.
 */
#ifndef _UAPI_LINUX_HWTIMER_H
#define _UAPI_LINUX_HWTIMER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* a deadline */
#define HWTIMER_NEVER		(~0ULL)		/* a time that never comes */

/* hwtimer_setup.flags */
#define HWTIMER_SETUP_OWN_WHEEL	0x00000001U	/* not a shared wheel */

/**
 * struct hwtimer_setup - choose the wheel and the cap of a context
 * @flags: HWTIMER_SETUP_OWN_WHEEL, or 0 for a shared wheel
 * @clockid: CLOCK_MONOTONIC (1), or for an own wheel CLOCK_BOOTTIME (7) or CLOCK_REALTIME (0), see
 *	above
 * @tick_ns: own wheel: ns per tick; shared wheel: 0. Out: the wheel's tick
 * @slots: own wheel: slots per level, rounded up to a power of two; shared wheel: 0. Out: the
 *	wheel's slots per level
 * @levels: own wheel: how many levels, up to 16; 0: as many as reach 2^60 - 1 ns, up to 16. A slot
 *	of a level is half as wide as the level below reaches. Shared wheel: 0. Out: the wheel's
 *	levels
 * @cap: how many timeouts may be live (pending, or with unread records) at once, up to 2^24;
 *	0 means 2^24. Out: the cap that applies
 *
 * The thread of an own wheel is in the cgroups of the caller, and has its nice value.
 *
 * This ioctl is optional. It can be called once, before the rings are created and before the first
 * HWTIMER_IOC_SCHEDULE. If records ever get new fields, a program that uses read(2) will have to
 * ask for them here.
 *
 * -EINVAL	unknown flag; unknown clockid; cap is above 2^24; shared wheel: tick_ns or slots is
 *		not 0, levels is not 0, or not CLOCK_MONOTONIC; own wheel: tick_ns is 0, slots is 0
 *		or above 65536, or tick_ns times the rounded slots is above 2^60 - 1; levels is
 *		above 16; a level is above one that reaches 2^60 - 1 ns, or above one of fewer
 *		than 4 slots
 * -EPERM	tick_ns is below, or slots is above, what struct hwtimer_info says is possible
 *		without CAP_SYS_RESOURCE
 * -EDQUOT	the user has reached the limit of own wheels
 * -EBUSY	the context was set up before, or has rings, or a valid SCHEDULE came first,
 *		even one that failed
 * -ESHUTDOWN	the context was stopped
 * -ENOMEM	no memory for the wheel
 * -EAGAIN	the machine has no room for the wheel's thread
 *
 * or the error with which the cgroups of the caller refuse the wheel's thread.
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
/* hwtimer_schedule.flags */
#define HWTIMER_CANCEL_ON_SET	0x00000002U	/* end if CLOCK_REALTIME is set */

/* hwtimer_schedule.policy: what to do about a misfire */
#define HWTIMER_MISFIRE_ONCE	0	/* expire once for all missed deadlines */
#define HWTIMER_MISFIRE_SKIP	1	/* do not expire until the next deadline */
#define HWTIMER_MISFIRE_MAKE_UP	2	/* expire for each missed deadline, one per tick */

/**
 * struct hwtimer_schedule - arm a new timeout
 * @flags: HWTIMER_RELATIVE, or on CLOCK_REALTIME HWTIMER_CANCEL_ON_SET, or 0
 * @pad: 0
 * @time: deadline in ns, or with HWTIMER_RELATIVE the delay in ns. With a deadline in the past, or
 *	a delay of 0, it expires at the next tick; with one that is out of the range of the wheel,
 *	about 36 years from its creation, never
 * @user_data: is copied to the record
 * @id: identifies the timeout until it ends. Without rings: out: never 0, and never used again in
 *	this context. With rings: in: HWTIMER_ID() with a free index
 * @deadline: out: the deadline in ns, or HWTIMER_NEVER
 * @period: ns from each deadline to the next, at least a tick of the wheel; 0: it expires once
 * @misfire: with a period: an expiry that is later than this, in ns, is a misfire; at least a tick;
 *	0 means one period. Without a period: 0
 * @policy: with a period: HWTIMER_MISFIRE_ONCE, _SKIP or _MAKE_UP. Without a period: 0
 * @pad2: 0
 *
 * An expiry of a periodic timeout that is late by at most misfire adds no overruns, and the next
 * deadline is one period later, even if that is past, too. In a misfire:
 *
 *	HWTIMER_MISFIRE_ONCE: it expires, its overruns are the deadlines missed since, and
 *	the next deadline is the first in the future
 *	HWTIMER_MISFIRE_SKIP: it does not expire, the next deadline is the first in the future,
 *	and this deadline and those missed since are overruns of the next expiry. If it ends
 *	before that, they are not reported
 *	HWTIMER_MISFIRE_MAKE_UP: it expires without overruns, and the next deadline is one
 *	period later. If the period is as short as the tick, it never catches up
 *
 * -EINVAL	unknown flag; HWTIMER_CANCEL_ON_SET with HWTIMER_RELATIVE, or not on
 *		CLOCK_REALTIME; pad or pad2 is not 0; unknown policy; period or misfire is
 *		below the wheel's tick, and not 0; period is 0, but misfire or policy is not
 * -EAGAIN	the context has reached its cap
 * -EDQUOT	the user has reached the limit of timeouts, and this context has no free one.
 *		Timeouts that ended count until RESIZE gives their memory back, or the context is
 *		closed. Or the user would exceed the limit of periodic expiries per second; with
 *		HWTIMER_MISFIRE_MAKE_UP, or misfire above the period, a timeout counts as if it
 *		expired at each tick. Or, for the first timeout, the user has reached the limit of
 *		shared wheels; a wheel counts until 0.2 s after its last context was freed
 * -ESHUTDOWN	the context was stopped
 * -ENOMEM	no memory, or the cgroup has reached its limit; or, for the first timeout, the
 *		shared wheel cannot be created, for any reason
 *
 * With rings also
 *
 * -EINVAL	the index is not below the number of timeouts that HWTIMER_IOC_RINGS or
 *		HWTIMER_IOC_RESIZE has set
 * -EEXIST	a timeout with this index is pending, or its expiry is about to be reported
 * -EBUSY	the last record for this index is not in the completion ring yet, or
 *		another thread is scheduling a timeout with this index
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
 * @id: the timeout
 * @time: as in struct hwtimer_schedule; earlier or later than before
 * @deadline: out: the new deadline in ns, or HWTIMER_NEVER
 *
 * The later deadlines of a periodic timeout are counted from the new deadline. Its unread records
 * stay. HWTIMER_CANCEL_ON_SET stays in force.
 *
 * -EINVAL	unknown flag; pad is not 0
 * -ENOENT	no such timeout is pending: it expired or ended, or the id is not of this context
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
 * @id: the timeout
 *
 * Unread records of a periodic timeout can still be read; until then it counts against the cap.
 *
 * -EINVAL	unknown flag; pad is not 0
 * -ENOENT	no such timeout is pending. If it expired, there is, or was, a record to read
 */
struct hwtimer_cancel {
	__u32 flags;
	__u32 pad;
	__aligned_u64 id;
};

/**
 * struct hwtimer_query - the state of a pending timeout
 * @flags: 0
 * @pad: 0
 * @id: the timeout
 * @user_data: out: as scheduled
 * @deadline: out: in ns, or HWTIMER_NEVER. Periodic: the next deadline
 * @period: out: as scheduled; 0: the timeout is not periodic
 * @misfire: out: as scheduled, or the period if 0 was given
 * @unread: out: periodic: expiries that were not read yet, including overruns. Otherwise 0
 * @policy: out: as scheduled
 * @pad2: 0
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
 * struct hwtimer_stop - stop the context and hand back its pending timeouts
 * @flags: 0
 * @pad: 0
 * @handed_back: out: how many timeouts were pending, and are handed back
 *
 * Each timeout that was pending becomes a record of kind HWTIMER_KIND_HANDED_BACK, after the
 * records of all expiries. No timeout can be armed any more. A second stop hands back 0.
 *
 * -EINVAL	unknown flag; pad is not 0
 */
struct hwtimer_stop {
	__u32 flags;
	__u32 pad;
	__aligned_u64 handed_back;
};

/**
 * struct hwtimer_stats - the counters of a context
 * @flags: 0
 * @pad: 0
 * @now: the time on the context's clock, in ns
 * @scheduled: timeouts scheduled; a periodic timeout counts again at each expiry
 * @touched: deadlines changed
 * @cancelled: timeouts cancelled
 * @expired: expiries, including overruns of periodic timeouts
 * @handed_back: timeouts handed back by HWTIMER_IOC_STOP
 * @rejected: attempts to schedule that were refused by the cap, by the user's limit of timeouts, or
 *	by the user's limit of expiries per second
 * @pending: timeouts pending now
 * @unread: unread records now
 * @cap: the context's cap on live timeouts (pending, or with unread records)
 * @clock_set: timeouts that ended because CLOCK_REALTIME was set
 *
 * At any time scheduled = pending + cancelled + expired + handed_back + clock_set.
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
	__aligned_u64 clock_set;
};

/**
 * struct hwtimer_list - the pending timeouts
 * @flags: 0
 * @size: sizeof(struct hwtimer_query), the size of an array element
 * @queries: address of an array of struct hwtimer_query, to be filled
 * @count: length of the array
 * @pad: 0
 * @next: 0 in the first call; each call sets it to where the next call continues
 *
 * Returns how many elements were filled, as by HWTIMER_IOC_QUERY; 0: there are no more timeouts.
 * The order is unspecified. A timeout that is pending from the first call to the last is listed
 * once; one that is scheduled or ends meanwhile may be listed or not. A debugger can use this ioctl
 * on a descriptor that it got by pidfd_getfd(2).
 *
 * -EINVAL	unknown flag; pad is not 0; size is not valid, see "Versions";
 *		count is 0
 * -EFAULT	the first element is not writable; next is unchanged
 */
struct hwtimer_list {
	__u32 flags;
	__u32 size;
	__aligned_u64 queries;
	__u32 count;
	__u32 pad;
	__aligned_u64 next;
};

/* hwtimer_info.features */
#define HWTIMER_FEATURE_RINGS	0x00000001U	/* HWTIMER_IOC_RINGS works; see rings_flags */
#define HWTIMER_FEATURE_WHEELS	0x00000004U	/* HWTIMER_IOC_WHEELS exists */
#define HWTIMER_FEATURE_RESIZE	0x00000008U	/* HWTIMER_IOC_RESIZE exists */

/**
 * struct hwtimer_info - what this version of the module can do
 * @flags: 0
 * @clocks: out: bit n: an own wheel can have clock n
 * @features: out: HWTIMER_FEATURE_*
 * @setup_flags: out: the HWTIMER_SETUP_* that it knows
 * @schedule_flags: out: the flags of SCHEDULE that it knows
 * @touch_flags: out: the flags of TOUCH that it knows
 * @rings_flags: out: the HWTIMER_RINGS_* that it knows
 * @sqe_flags: out: the HWTIMER_SQE_* that it knows
 * @sqe_ops: out: bit n: a submission ring can have operation n, of HWTIMER_OP_*
 * @policies: out: bit n: it knows policy n, of HWTIMER_MISFIRE_*
 * @kinds: out: bit n: it has records of kind n, HWTIMER_KIND_EXPIRED and so on
 * @max_timeouts: out: the most timeouts of a context
 * @max_entries: out: the most entries of a ring
 * @max_slots: out: the most slots per level of an own wheel, without CAP_SYS_RESOURCE
 * @pad: out: 0
 * @min_tick_ns: out: the shortest tick of an own wheel, without CAP_SYS_RESOURCE
 *
 * An ioctl whose flags are not here has none; if it gets one, this structure gets a field.
 * The limits of users are in /proc/PID/fdinfo/FD.
 *
 * -EINVAL	unknown flag
 */
struct hwtimer_info {
	__u32 flags;
	__u32 clocks;
	__aligned_u64 features;
	__u32 setup_flags;
	__u32 schedule_flags;
	__u32 touch_flags;
	__u32 rings_flags;
	__u32 sqe_flags;
	__u32 sqe_ops;
	__u32 policies;
	__u32 kinds;
	__u32 max_timeouts;
	__u32 max_entries;
	__u32 max_slots;
	__u32 pad;
	__aligned_u64 min_tick_ns;
};

/* hwtimer_wheel_stats.flags; 0: the wheel belongs to another kernel module */
#define HWTIMER_WHEEL_F_SHARED		0x00000001U	/* contexts share it */
#define HWTIMER_WHEEL_F_OWN		0x00000002U	/* the own wheel of a context */

/* hwtimer_wheel_stats.state */
#define HWTIMER_WHEEL_STATE_INIT	1	/* no timeout was armed yet */
#define HWTIMER_WHEEL_STATE_STARTED	2	/* a timeout was armed */
#define HWTIMER_WHEEL_STATE_SHUTDOWN	3	/* no timeout can be armed any more */

/* hwtimer_wheel_stats.sched */
#define HWTIMER_WHEEL_SCHED_NORMAL	1	/* SCHED_NORMAL */
#define HWTIMER_WHEEL_SCHED_FIFO_LOW	2	/* SCHED_FIFO, the lowest priority */
#define HWTIMER_WHEEL_SCHED_FIFO	3	/* SCHED_FIFO */

/**
 * struct hwtimer_wheel_stats - the state and the counters of a wheel
 * @id: identifies the wheel; above 0, and never used again while the module is loaded
 * @name: ends with a 0. No two wheels have the same name at a time, but names are used again. Empty
 *	if the caller sees only its user's wheels and is not in the initial PID namespace
 * @flags: HWTIMER_WHEEL_F_SHARED, HWTIMER_WHEEL_F_OWN, or 0
 * @clockid: CLOCK_MONOTONIC (1) or CLOCK_BOOTTIME (7); the latter also if the context's clock is
 *	CLOCK_REALTIME
 * @state: HWTIMER_WHEEL_STATE_INIT, _STARTED or _SHUTDOWN
 * @slots: slots per level
 * @levels: how many levels there are
 * @sched: how the wheel's thread is scheduled: HWTIMER_WHEEL_SCHED_NORMAL, _FIFO_LOW or _FIFO
 * @worker_pid: the wheel's thread, in the PID namespace of the caller; 0: none is visible there
 * @worker_nice: the nice value of the thread, with HWTIMER_WHEEL_SCHED_NORMAL
 * @late_bins: how many elements of @late are used
 * @pad: 0
 * @late_first_ns: the bound of the first element of @late
 * @tick_ns: ns per tick
 * @cap: how many timeouts may be pending at once; 0: no limit
 * @pending: timeouts pending now
 * @armed: timeouts that became pending. This and the following are counters
 * @touched: pending timeouts that got another deadline
 * @cancelled: pending timeouts that were cancelled or released
 * @expired: pending timeouts that expired
 * @handed_back: pending timeouts that were handed back
 * @rejected: attempts to arm that the cap refused
 * @wakeups: how often the worker woke from sleep, for any reason
 * @long_callbacks: callbacks that took longer than the module's parameter callback_limit_us
 * @longest_callback_ns: how long the longest callback took. Not a counter: a maximum
 * @lateness_sum_ns: the lateness of all expiries together
 * @late: expiries by their lateness: element i counts those that were late by less than its bound,
 *	late_first_ns << i ns, and not less than that of the element before. The last of the
 *	@late_bins elements has no bound. Elements that are not used are 0
 *
 * The counters begin at 0 with the wheel. On 32-bit kernels all but lateness_sum_ns wrap at 2^32.
 * They are read one after the other while the wheel runs: armed = pending + cancelled + expired +
 * handed_back holds only while nothing changes. The inner workings of a wheel, and names
 * of functions, are in debugfs only.
 *
 * What may change: later versions add fields at the end, which older kernels set to 0. Flags, and
 * values of state and sched, may be added. late_bins (at most 32) and late_first_ns may
 * differ: compute the bounds from them.
 */
struct hwtimer_wheel_stats {
	__aligned_u64 id;
	char name[64];
	__u32 flags;
	__u32 clockid;
	__u32 state;
	__u32 slots;
	__u32 levels;
	__u32 sched;
	__s32 worker_pid;
	__s32 worker_nice;
	__u32 late_bins;
	__u32 pad;
	__aligned_u64 late_first_ns;
	__aligned_u64 tick_ns;
	__aligned_u64 cap;
	__aligned_u64 pending;
	__aligned_u64 armed;
	__aligned_u64 touched;
	__aligned_u64 cancelled;
	__aligned_u64 expired;
	__aligned_u64 handed_back;
	__aligned_u64 rejected;
	__aligned_u64 wakeups;
	__aligned_u64 long_callbacks;
	__aligned_u64 longest_callback_ns;
	__aligned_u64 lateness_sum_ns;
	__aligned_u64 late[32];
};

/**
 * struct hwtimer_wheels - the statistics of wheels
 * @flags: 0
 * @size: sizeof(struct hwtimer_wheel_stats), the size of an array element
 * @wheels: address of an array of struct hwtimer_wheel_stats, to be filled
 * @count: length of the array
 * @pad: 0
 * @next: the lowest id to be returned: 0 in the first call; each call sets it to where the next one
 *	continues
 *
 * Returns how many elements were filled, in the order of their ids; 0: there are no more wheels. A
 * wheel that exists from the first call to the last is returned once; one that is created or ends
 * meanwhile may be returned or not. With count 1 and the id of a wheel as next, the call returns
 * that wheel, or the next one if it has ended.
 *
 * A descriptor shows the wheels of the user who opened it: the own wheels of this user's contexts,
 * and the shared wheels that these contexts use. (A uid in two user namespaces is two users.) To a
 * caller with CAP_PERFMON or CAP_SYS_ADMIN in the initial user namespace it shows all wheels,
 * including those of other kernel modules.
 *
 * -EINVAL	unknown flag; pad is not 0; size is not valid, see "Versions"; count is 0
 * -EFAULT	the first element is not writable; next is unchanged
 */
struct hwtimer_wheels {
	__u32 flags;
	__u32 size;
	__aligned_u64 wheels;
	__u32 count;
	__u32 pad;
	__aligned_u64 next;
};

/* hwtimer_record.kind */
#define HWTIMER_KIND_EXPIRED		1	/* the timeout expired */
#define HWTIMER_KIND_HANDED_BACK	2	/* it was pending when the context was stopped */
#define HWTIMER_KIND_FAILED		3	/* an entry of the submission ring failed */
#define HWTIMER_KIND_CLOCK_SET		4	/* HWTIMER_CANCEL_ON_SET; CLOCK_REALTIME was set */

/**
 * struct hwtimer_record - what read(2) returns for a timeout that expired or ended
 * @id: the timeout; no longer valid, unless it is periodic and still pending
 * @user_data: as scheduled
 * @deadline: in ns, or HWTIMER_NEVER
 * @fired: when it expired (not before the deadline) or ended, in ns. HWTIMER_KIND_CLOCK_SET: by the
 *	clock after it was set
 * @overruns: HWTIMER_KIND_EXPIRED, periodic: how many more expiries and missed deadlines this
 *	record stands for. Otherwise 0
 * @last: HWTIMER_KIND_EXPIRED, periodic: the last of these 1 + overruns deadlines. They are one
 *	period apart, unless the timeout was touched in between. Otherwise as deadline
 * @kind: HWTIMER_KIND_EXPIRED, _HANDED_BACK, _FAILED or _CLOCK_SET
 * @op: HWTIMER_KIND_FAILED: the entry's op. Otherwise 0
 * @error: HWTIMER_KIND_FAILED: -errno, the error of the ioctl for this operation. Otherwise 0
 * @pad: 0
 *
 * HWTIMER_KIND_FAILED: id, user_data and deadline are the entry's id, user_data and time; fired is
 * when the kernel took the entry.
 */
struct hwtimer_record {
	__aligned_u64 id;
	__aligned_u64 user_data;
	__aligned_u64 deadline;
	__aligned_u64 fired;
	__aligned_u64 overruns;
	__aligned_u64 last;
	__u32 kind;
	__u32 op;
	__s32 error;
	__u32 pad;
};

/* hwtimer_sqe.op */
#define HWTIMER_OP_SCHEDULE	1	/* as HWTIMER_IOC_SCHEDULE */
#define HWTIMER_OP_TOUCH	2	/* as HWTIMER_IOC_TOUCH */
#define HWTIMER_OP_CANCEL	3	/* as HWTIMER_IOC_CANCEL */
#define HWTIMER_OP_NOP		5	/* does nothing */

/*
 * The id of a timeout in a context with rings: @index below 2^24, @tag below 2^40. 2^24 timeouts
 * take 1 GB; a program that needs more opens another context. An index that is used a million
 * times per second, each time with the next tag, repeats a tag after 12 days; only an id that was
 * kept for as long could be taken for the new one.
 */
#define HWTIMER_ID(index, tag)	((__u64)(tag) << 24 | ((__u64)(index) & 0xffffffU))
#define HWTIMER_ID_INDEX(id)	((__u32)(id) & 0xffffffU)
#define HWTIMER_ID_TAG(id)	((__u64)(id) >> 24)

/* hwtimer_rings.flags */
#define HWTIMER_RINGS_EVENTFD	0x00000001U	/* signal an eventfd when records come */
#define HWTIMER_RINGS_RELAXED	0x00000002U	/* the program needs fewer barriers */

/**
 * struct hwtimer_rings - create the rings of a context
 * @flags: HWTIMER_RINGS_EVENTFD, HWTIMER_RINGS_RELAXED, both, or 0
 * @eventfd: with HWTIMER_RINGS_EVENTFD: an eventfd(2), to which the kernel adds 1 whenever it has
 *	put records into the completion ring. Otherwise 0
 * @sq_entries: entries of the submission ring, 1 to 65536, rounded up to a power of two.
 *	Out: the rounded number
 * @cq_entries: entries of the completion ring, likewise; 0: as many as sq_entries
 * @timeouts: how many timeouts there may be at a time, 1 to 2^24. Their memory, about 65
 *	bytes each (97 on CLOCK_REALTIME), is allocated now. HWTIMER_IOC_RESIZE changes the number
 * @sqe_size: sizeof(struct hwtimer_sqe), the size of an entry
 * @record_size: sizeof(struct hwtimer_record), the size of a record
 * @sq_offset: out: offset of the submission ring in the mapping
 * @cq_offset: out: offset of the completion ring in the mapping
 * @pad: 0
 * @size: out: how many bytes to map, at offset 0, with MAP_SHARED
 *
 * This ioctl can be called once, before the first SCHEDULE, and after HWTIMER_IOC_SETUP if that is
 * used.
 *
 * -EINVAL	unknown flag; pad is not 0; eventfd is not 0 without its flag, or is not an
 *		eventfd(2); sq_entries, cq_entries or timeouts is out of range; sqe_size or
 *		record_size is not valid, see "Versions"
 * -EBADF	eventfd is not a descriptor
 * -EBUSY	the context has rings, or a valid SCHEDULE came first, even one that failed
 * -EDQUOT	the user would exceed the limit of timeouts or of ring memory; or, as with the
 *		first SCHEDULE, the limit of shared wheels
 * -ESHUTDOWN	the context was stopped
 * -ENOMEM	no memory, or the cgroup has reached its limit; or the shared wheel cannot be
 *		created, for any reason
 * -EOPNOTSUPP	the processor lacks atomic 64-bit stores, or its caches have aliases; or
 *		HWTIMER_RINGS_RELAXED, and the machine runs programs without ticks (nohz_full)
 */
struct hwtimer_rings {
	__u32 flags;
	__s32 eventfd;
	__u32 sq_entries;
	__u32 cq_entries;
	__u32 timeouts;
	__u32 sqe_size;
	__u32 record_size;
	__u32 sq_offset;
	__u32 cq_offset;
	__u32 pad;
	__aligned_u64 size;
};

/* hwtimer_ring.flags */
#define HWTIMER_RING_CQ_FULL	0x00000001U	/* records wait for room: read all, then kick */
#define HWTIMER_RING_BAD	0x00000002U	/* sq_tail or cq_head is out of range */

/* hwtimer_ring.sleep_until */
#define HWTIMER_RING_IDLE	(~0ULL)		/* no polls until a kick or an expiry */

/**
 * struct hwtimer_ring - the beginning of a mapping of the rings
 * @sq_tail: written by the program: index of the next entry that it submits
 * @pad0: fills a cache line of 64 bytes, so that @sq_tail shares it with nothing
 * @cq_head: written by the program: index of the next record that it reads
 * @pad1: likewise for @cq_head
 * @sq_head: written by the kernel, like all that follow: the program may reuse the places of the
 *	entries before this index. The kernel has taken them, and they cannot be taken back any more
 * @cq_tail: index of the next record that the kernel puts
 * @flags: HWTIMER_RING_*
 * @pad2: 0
 * @sleep_until: the kernel polls before this time, in ns on the context's clock; see above. To be
 *	read by one 64-bit access
 * @sq_claimed: the kernel has not read entries from this index on
 * @pad3: 0
 * @relaxed_until: with HWTIMER_RINGS_RELAXED: a time, like @sleep_until. Deadlines not before
 *	it need neither a kick nor a full barrier; see above
 * @pad4: fills the cache line; later versions may use it for new fields
 */
struct hwtimer_ring {
	__u32 sq_tail;
	__u32 pad0[15];
	__u32 cq_head;
	__u32 pad1[15];
	__u32 sq_head;
	__u32 cq_tail;
	__u32 flags;
	__u32 pad2;
	__aligned_u64 sleep_until;
	__u32 sq_claimed;
	__u32 pad3;
	__aligned_u64 relaxed_until;
	__aligned_u64 pad4[3];
};

/* hwtimer_sqe.flags */
#define HWTIMER_SQE_QUIET	0x00000001U	/* no record if it fails */

/**
 * struct hwtimer_sqe - an entry of the submission ring
 * @op: HWTIMER_OP_SCHEDULE (not periodic), HWTIMER_OP_TOUCH or HWTIMER_OP_CANCEL.
 *	HWTIMER_OP_NOP: nothing is done, and the other fields are ignored
 * @flags: HWTIMER_SQE_QUIET, or 0
 * @id: the timeout, HWTIMER_ID()
 * @time: deadline in ns on the context's clock; HWTIMER_OP_CANCEL: 0
 * @user_data: is copied to the record of a failure; HWTIMER_OP_SCHEDULE: to all records of the
 *	timeout
 *
 * Errors are those of the ioctls; also -EINVAL: unknown op; unknown flag; time of a
 * HWTIMER_OP_CANCEL is not 0; -E2BIG: a field that this version does not know is not 0.
 */
struct hwtimer_sqe {
	__u32 op;
	__u32 flags;
	__aligned_u64 id;
	__aligned_u64 time;
	__aligned_u64 user_data;
};

/**
 * struct hwtimer_enter - kick: have the kernel take all submissions now
 * @flags: 0
 * @pad: 0
 * @taken: out: how many entries of the submission ring were taken. Entries may be left over
 *	if HWTIMER_RING_CQ_FULL is set
 * @pad2: 0
 *
 * The kernel takes the submitted entries, then puts waiting records into the completion ring.
 *
 * -EINVAL	unknown flag; pad or pad2 is not 0
 * -ENXIO	the context has no rings
 * -EBADFD	HWTIMER_RING_BAD is set; everything that was possible is done
 * -EFAULT	taken could not be written; everything that was possible is done
 */
struct hwtimer_enter {
	__u32 flags;
	__u32 pad;
	__u32 taken;
	__u32 pad2;
};

/**
 * struct hwtimer_resize - change how many timeouts a context has
 * @flags: 0
 * @timeouts: the wanted number, up to 2^24. Out: how many it has now
 *
 * A context with rings grows to this number, or shrinks: indexes from this number on cannot be
 * used any more. If timeouts with such indexes are in use (pending, or with an unread record), it
 * shrinks only to just above the last of these.
 *
 * A context without rings gets timeouts as it needs them, so this only gives back memory that is
 * not in use, and keeps at least this many timeouts. Memory is given back in pages of 63 timeouts.
 * A timeout in use keeps its page, so more may remain. 32-bit kernels give back nothing of such a
 * context.
 *
 * The memory is freed, and the user uncharged, a moment later, because the wheel may still hold
 * cancelled timeouts in it. A call that would exceed the user's limit waits for that.
 *
 * -EINVAL	unknown flag; timeouts is above 2^24
 * -EDQUOT	the user would exceed the limit of timeouts
 * -ENOMEM	no memory, or the cgroup has reached its limit
 */
struct hwtimer_resize {
	__u32 flags;
	__u32 timeouts;
};

#define HWTIMER_IOC_MAGIC	0xBE
#define HWTIMER_IOC_SETUP	_IOWR(HWTIMER_IOC_MAGIC, 0x00, struct hwtimer_setup)
#define HWTIMER_IOC_SCHEDULE	_IOWR(HWTIMER_IOC_MAGIC, 0x01, struct hwtimer_schedule)
#define HWTIMER_IOC_TOUCH	_IOWR(HWTIMER_IOC_MAGIC, 0x02, struct hwtimer_touch)
#define HWTIMER_IOC_CANCEL	_IOW(HWTIMER_IOC_MAGIC, 0x03, struct hwtimer_cancel)
#define HWTIMER_IOC_QUERY	_IOWR(HWTIMER_IOC_MAGIC, 0x04, struct hwtimer_query)
#define HWTIMER_IOC_STOP	_IOWR(HWTIMER_IOC_MAGIC, 0x05, struct hwtimer_stop)
#define HWTIMER_IOC_STATS	_IOWR(HWTIMER_IOC_MAGIC, 0x06, struct hwtimer_stats)
#define HWTIMER_IOC_RINGS	_IOWR(HWTIMER_IOC_MAGIC, 0x08, struct hwtimer_rings)
#define HWTIMER_IOC_ENTER	_IOWR(HWTIMER_IOC_MAGIC, 0x09, struct hwtimer_enter)
#define HWTIMER_IOC_LIST	_IOWR(HWTIMER_IOC_MAGIC, 0x0a, struct hwtimer_list)
#define HWTIMER_IOC_INFO	_IOWR(HWTIMER_IOC_MAGIC, 0x0b, struct hwtimer_info)
#define HWTIMER_IOC_WHEELS	_IOWR(HWTIMER_IOC_MAGIC, 0x0c, struct hwtimer_wheels)
#define HWTIMER_IOC_RESIZE	_IOWR(HWTIMER_IOC_MAGIC, 0x0d, struct hwtimer_resize)

#endif /* _UAPI_LINUX_HWTIMER_H */
