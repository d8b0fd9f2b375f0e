/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The protocol of the rings ("Rings" in uapi/linux/hwtimer.h) as dev/shm.c,
 * dev/rings.c and dev/file.c keep it, for Spin. A program and the kernel share
 * memory without a lock, so memory is weaker here than in the other models.
 * scripts/model runs it.
 *
 * Memory: each CPU has a buffer of stores, which become visible later, to all other CPUs at once:
 * stores to one place in order, stores to different places in any order, a release after all
 * stores before it. A full barrier waits until the buffer is empty. A CPU sees its own stores. A
 * spinlock is taken by an atomic operation, which does not wait for the buffer, and dropped by a
 * release. With -DTSO all stores become visible in order, and taking a lock is a full barrier, as
 * on x86. Variables that only the holder of the context's lock accesses bypass the buffer.
 *
 * Covered: stores that pass stores, and loads that pass stores. Not covered: loads that pass
 * loads, and stores that pass loads. The protocol forbids both by an acquire, or by a release
 * after loads; the broken variants without these have the accesses in the wrong order. Also not
 * covered: a third CPU that sees a store later than the second, more than DEPTH stores in a buffer
 * (the next store waits), sleep_until in two halves, the budget of the worker, eventfd, invalid
 * indexes, and programs that break the protocol.
 *
 * -DSUBMIT: submission, and the kernel's polls of the ring. A ring of two entries, with indexes
 * that wrap; a program; the worker (polls, and expiry, which reads the ring first unless it was
 * read since the deadline); a clock that moves by ticks. Timeout 0 is pending from the start,
 * entry n - 1 schedules timeout n.
 *
 *	-DOPS=n		number of submissions, 1 to 3 (2)
 *	-DONLY		all are SCHEDULE; else also CANCEL and TOUCH of timeout 0
 *	-DBELLS=n	another thread rings the doorbell n times, at any time
 *
 * A poll planned for a tick is done in that tick: the clock waits for the poll, and while the
 * lock's holder decides when the next poll comes. Properties that are checked:
 *
 *	whole		each entry is read as it was written, once, in order
 *	in_time		if the program did not ring because sleep_until was after the deadline, a
 *			SCHEDULE, or a TOUCH for an earlier time, is taken before the tick of its
 *			deadline
 *	kept		timeout 0 does not expire if a CANCEL, or a TOUCH for a later time, was
 *			visible before its deadline, without a doorbell; no timeout expires early
 *	over		in the end nobody waits, all pending timeouts have expired, and no SCHEDULE
 *			is left in the ring
 *
 * -DCOMPLETE: completion, a full ring, and poll. A ring of two records; the worker writes
 * records; a program reads them, spins or sleeps in poll if there are none, and rings the doorbell
 * if it sees HWTIMER_RING_CQ_FULL.
 *
 *	-DRECORDS=n	number of timeouts that expire; their records may wait in the kernel (4)
 *	-DFAILS=n	number of entries that fail, and wait in the submission ring
 *	-DBELLS=n	as above
 *
 * Properties that are checked:
 *
 *	whole		each record is read as it was written, once, in order
 *	over		in the end all records were read: nobody spins or sleeps for ever
 *
 * Broken variants, which must fail. Of both parts:
 *
 *	-DTAILEARLY	the entry, or record, is written after the tail
 *	-DNORELEASE	the tail is stored without a release
 *	-DNOACQUIRE	the entry, or record, is read before the tail
 *	-DHEADEARLY	the head is stored before the entry, or record, is copied
 *	-DNOBARRIER	the program has no barrier between tail and sleep_until, or head and flags
 *	-DNOKBARRIER	the kernel has no barrier before it checks the ring again
 *	-DNOCHECK	the kernel does not check the ring again
 *
 * Of submission:
 *
 *	-DNOEXPCHECK	expiry does not read the ring
 *	-DSEENLATE	the kernel reads the clock after the tail, not before
 *	-DMARGIN=1	sleep_until leaves no time for a poll that found entries
 *
 * Of completion:
 *
 *	-DNOFLAG	the program does not read the flags
 *	-DNOUNTOLD	the flag is cleared while an entry that failed waits
 *	-DNOENTERWAKE	the doorbell does not wake pollers
 *	-DNOPOLLLOCK	poll neither takes the lock between entering the wait queue and its check,
 *			nor has another barrier there
 */
#ifndef BELLS
#define BELLS 0
#endif
#define ENTRIES 2
#define START 254		/* indexes wrap, as they do at 2^32 */
#define AHEAD(a, b) (((a) - (b)) & 255)

/* Places in memory. */
#define LOCK 0			/* of the context */
#define TAIL 1
#define HEAD 2
#define SLOT(i) (3 + 2 * ((i) & 1))	/* an entry, or record: two words */
#ifdef SUBMIT
#define SLEEP 7			/* sleep_until */
#define PLACES 8
#define DEPTH 4
#else
#define FLAGS 7
#define WAITER 8		/* a poller is on the wait queue */
/* Read by poll: */
#define KTAIL 9			/* the kernel's own cq_tail */
#define DONE 10			/* records wait */
#define UNREPORTED 11		/* an entry that failed waits */
#define PLACES 12
#define DEPTH 6
#endif

#define PROGRAM 0		/* CPUs */
#define WORKER 1
#define OTHER 2

typedef cpu {
	byte n;
	byte place[DEPTH];
	byte value[DEPTH];
	bit after[DEPTH]	/* a release: follows all stores before it */
}
cpu b[3];
byte mem[PLACES];

bit whole = 1, in_time = 1, kept = 1, over = 1;
#define CHECK(property, is) property = (is); assert(property)

bit program_over, other_over = !BELLS;

#define OWN(c, k, p, or) (b[c].n > k && b[c].place[k] == (p) -> b[c].value[k] : or)
#define LOAD4(c, p) OWN(c, 3, p, OWN(c, 2, p, OWN(c, 1, p, OWN(c, 0, p, mem[p]))))
#if DEPTH > 4
#define LOAD(c, p) OWN(c, 5, p, OWN(c, 4, p, LOAD4(c, p)))
#else
#define LOAD(c, p) LOAD4(c, p)
#endif

inline store(c, p, v, r)
{
	atomic {
		b[c].n < DEPTH;
		b[c].place[b[c].n] = p;
		b[c].value[b[c].n] = v;
		b[c].after[b[c].n] = r;
		b[c].n++
	}
}

#define STORE(c, p, v) store(c, p, v, 0)
#define RELEASE(c, p, v) store(c, p, v, 1)
#define BARRIER(c) b[c].n == 0

inline lock(c)
{
#ifdef TSO
	atomic { mem[LOCK] == 0 && b[c].n == 0 -> mem[LOCK] = 1 }
#else
	atomic { mem[LOCK] == 0 -> mem[LOCK] = 1 }
#endif
}

#define UNLOCK(c) RELEASE(c, LOCK, 0)

/* The program writes entry i, or the kernel record i. */
inline fill(c, i, word)
{
#ifdef TAILEARLY
	RELEASE(c, TAIL, i + 1);
#endif
	STORE(c, SLOT(i), word);
	STORE(c, SLOT(i) + 1, word);
#ifdef COMPLETE
	STORE(c, KTAIL, i + 1);
#endif
#ifdef NORELEASE
	STORE(c, TAIL, i + 1)
#elif !defined(TAILEARLY)
	RELEASE(c, TAIL, i + 1)
#endif
}

/* The kernel reads entry i, or the program record i. */
inline copy(c, i)
{
	word0 = LOAD(c, SLOT(i));
	word1 = LOAD(c, SLOT(i) + 1)
}

#ifdef SUBMIT
#ifndef OPS
#define OPS 2
#endif

/*
 * The kernel polls every PERIOD ticks, or BELL ticks after a doorbell, until POLLS polls have found
 * nothing. A poll comes in the tick for which it was planned, or in the next tick if it was planned
 * at the last moment. (In the kernel the planned time is not rounded to ticks, and may be up to a
 * tick earlier, so SLEEP_MARGIN is one tick more.)
 */
#define PERIOD 2
#define BELL 1
#define POLLS 2
#ifndef MARGIN
#define MARGIN 2
#endif

#define NEAR 3			/* deadlines */
#define PENDING 4		/* of timeout 0 */
#define FAR 6
#define LAST 6
#define IDLE 255
#define NEVER 255

#define SCHEDULE 1
#define CANCEL 2
#define TOUCH 3

byte now;

/* The submissions; both words of an entry hold its number, from 1 on. */
byte op[OPS], time_[OPS];
bit waits[OPS];			/* not rung for: must be taken before time_ */
bit taken[OPS];
byte touched;			/* the last op on timeout 0 that is visible */
byte allowed = PENDING;		/* timeout 0 may expire from then on */

/* Of the kernel, protected by the lock: see struct ctx_rings. */
byte head = START, mark = START;
byte mark_ns, seen;
bit took;
byte idle_polls;
byte poll_at = IDLE;		/* deadline of the timeout that polls */
bit armed, polling;		/* this timeout is pending; its callback runs */
bit rescheduling;			/* enter() is planning the next poll */

#define OFF 0
#define ON 1
#define DUE 2			/* its callback is about to run, or runs */
byte state[OPS + 1], deadline[OPS + 1];

/* A store became visible. */
inline visible()
{
	if
	:: place == TAIL ->
		i = AHEAD(value, START) - 1;
		if
		:: op[i] != SCHEDULE ->
			touched = i + 1;
			if
			:: now < allowed && allowed != NEVER -> allowed = time_[i]
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

/* do_entry() for number n. */
inline act(n)
{
	d_step {
		CHECK(whole, word0 == n + 1 && word1 == n + 1 && n < OPS && !taken[n]);
		taken[n] = 1;
		if
		:: op[n] == SCHEDULE -> state[n + 1] = ON; deadline[n + 1] = time_[n]
		:: op[n] != SCHEDULE && state[0] != OFF ->
			if
			:: op[n] == CANCEL -> state[0] = OFF
			:: else -> state[0] = ON; deadline[0] = time_[n]
			fi;
			if :: touched == n + 1 -> allowed = time_[n] :: else fi
		:: else
		fi;
		word0 = 0; word1 = 0;
		took = 1
	}
}

/* hwtimer_rings_take_all() */
inline take_all(c)
{
	lock(c);
	n_taken = 0;
	do
	:: n_taken <= ENTRIES ->
#ifdef NOACQUIRE
		copy(c, head);
#endif
		/* submitted() */
		if
		:: head == mark ->
#ifdef SEENLATE
			mark = LOAD(c, TAIL);
			atomic { seen = mark_ns; mark_ns = now };
#else
			atomic { seen = mark_ns; mark_ns = now };
			mark = LOAD(c, TAIL);
#endif
			atomic {
				CHECK(whole, AHEAD(mark, head) <= ENTRIES);
				if :: head == mark -> seen = mark_ns; break :: else fi
			}
		:: else
		fi;
#ifdef HEADEARLY
		RELEASE(c, HEAD, mark);
#endif
#ifndef NOACQUIRE
		copy(c, head);
#endif
		atomic { act(AHEAD(head, START)); head++; n_taken++ }
	:: else -> break
	od;
#ifndef HEADEARLY
	if :: n_taken -> RELEASE(c, HEAD, head) :: else fi;
#endif
	atomic { n_taken = 0; word0 = 0; word1 = 0 }
	UNLOCK(c)
}

/* poll_again_at(), called with the lock held; when is the time of the next poll. */
inline poll_again_at(c)
{
	atomic {
		armed = when != IDLE;
		poll_at = when;
		if :: armed -> when = when + MARGIN :: else fi
	}
	STORE(c, SLEEP, when);
#ifndef NOKBARRIER
	BARRIER(c);
#endif
#ifndef NOCHECK
	if
	:: LOAD(c, TAIL) != head ->
		atomic { armed = 1; poll_at = now + 1; when = poll_at + MARGIN }
		STORE(c, SLEEP, when)
	:: else
	fi
#endif
}

/* hwtimer_rings_enter() */
inline enter(c)
{
	take_all(c);
	lock(c);
	atomic { idle_polls = 0; when = now + BELL; rescheduling = poll_at > when }
	if :: rescheduling -> poll_again_at(c); rescheduling = 0 :: else fi;
	when = 0;
	UNLOCK(c)
}

#define KERNEL byte word0, word1, n_taken, when

proctype program()
{
	KERNEL;
	byte n, tail, last;
	bit kick;

	atomic { tail = START; last = PENDING }
	do
	:: n < OPS ->
		atomic {
			if
			:: op[n] = SCHEDULE
#ifndef ONLY
			:: op[n] = TOUCH
			:: op[n] = CANCEL
#endif
			fi;
			if
			:: op[n] == CANCEL -> time_[n] = NEVER
			:: op[n] != CANCEL -> time_[n] = NEAR
			:: op[n] != CANCEL -> time_[n] = FAR
			fi
		}
		do
		:: AHEAD(tail, LOAD(PROGRAM, HEAD)) < ENTRIES -> break
		:: else -> enter(PROGRAM)
		od;
		fill(PROGRAM, tail, n + 1);
		tail++;
		/* Other submissions need no doorbell, and so no barrier. */
		if
		:: op[n] == SCHEDULE || time_[n] < last ->
#ifndef NOBARRIER
			BARRIER(PROGRAM);
#endif
			atomic {
				if
				:: time_[n] < LOAD(PROGRAM, SLEEP) -> kick = 1
				:: else -> waits[n] = 1
				fi
			}
			if :: kick -> kick = 0; enter(PROGRAM) :: else fi
		:: else
		fi;
		atomic {
			if :: op[n] != SCHEDULE -> last = time_[n] :: else fi;
			n++
		}
	:: else -> break
	od;
	atomic { n = 0; tail = 0; last = 0; program_over = 1 }
}

/* poll() */
inline poll()
{
	take_all(WORKER);
	lock(WORKER);
	if
	:: armed
	:: else ->
		atomic {
			if :: took -> idle_polls = 0 :: else -> idle_polls++ fi;
			took = 0;
			if
			:: idle_polls >= POLLS -> when = IDLE; idle_polls = 0
			:: else -> when = now + PERIOD
			fi
		}
		poll_again_at(WORKER)
	fi;
	when = 0;
	UNLOCK(WORKER);
	polling = 0
}

/* dev_expired() */
inline expire(n)
{
#ifndef NOEXPCHECK
	if :: deadline[n] > seen -> take_all(WORKER) :: else fi;
#endif
	lock(WORKER);
	atomic {
		if
#ifndef NOEXPCHECK
		:: state[n] == DUE && deadline[n] > seen -> state[n] = ON
		:: state[n] == DUE && deadline[n] <= seen ->
#else
		:: state[n] == DUE ->
#endif
			CHECK(kept, now >= (n == 0 -> allowed : time_[n - 1]));
			state[n] = OFF; deadline[n] = 0
		:: else
		fi
	}
	UNLOCK(WORKER)
}

/* The worker claims the timeout: it is no longer pending in the wheel. */
#define EXPIRE(n) \
	:: atomic { state[n] == ON && now >= deadline[n] -> state[n] = DUE; id = n } \
		expire(id)

proctype worker()
{
	KERNEL;
	byte id;

end_worker:
	do
	:: atomic { armed && now >= poll_at -> armed = 0; polling = 1 }
		poll()
	EXPIRE(0)
	EXPIRE(1)
#if OPS > 1
	EXPIRE(2)
#endif
#if OPS > 2
	EXPIRE(3)
#endif
	od
}

proctype clock()
{
	byte n;

end_clock:
	do
	:: atomic {
		now < LAST && !polling && !rescheduling && !(armed && now >= poll_at) ->
		now++;
		n = 0;
		do
		:: n < OPS ->
			CHECK(in_time, !(waits[n] && !taken[n] && now >= time_[n]));
			n++
		:: else -> break
		od;
		n = 0
	}
	od
}

inline begin()
{
	state[0] = ON;
	deadline[0] = PENDING;
	if
	:: mem[SLEEP] = IDLE
	:: armed = 1; poll_at = BELL; mem[SLEEP] = BELL + MARGIN
	fi;
	run clock()
}

inline end()
{
	CHECK(over, now == LAST && state[0] == OFF);
	n = 0;
	do
	:: n < OPS ->
		CHECK(over, state[n + 1] == OFF && (taken[n] || op[n] != SCHEDULE));
		n++
	:: else -> break
	od
}
#endif /* SUBMIT */

#ifdef COMPLETE
#ifndef RECORDS
#define RECORDS 4
#endif
#ifndef FAILS
#define FAILS 0
#endif
#define CHUNK 1			/* how many records are put at a time */

/* Of the kernel, protected by the lock. */
byte expired;			/* timeouts so far */
byte done;			/* of these, timeouts whose records wait */
byte entries = FAILS;		/* in the submission ring; all of them will fail */
bit unreported;			/* the first entry has failed, and waits */
byte put;			/* records written so far */
bit cq_full;			/* the flag in the shared memory */

bit woken;			/* the program that sleeps in poll */

inline visible() { skip }

inline room_or_full(c)
{
	room = AHEAD(START + put, LOAD(c, HEAD)) < ENTRIES;
	if
	:: room
	:: else ->
		if :: !cq_full -> cq_full = 1; STORE(c, FLAGS, 1) :: else fi;
#ifndef NOKBARRIER
		BARRIER(c);
#endif
#ifndef NOCHECK
		room = AHEAD(START + put, LOAD(c, HEAD)) < ENTRIES
#endif
	fi
}

inline put_record(c)
{
	fill(c, START + put, put + 1);
	put++
}

inline hwtimer_ctx_wake(c)
{
#ifdef NOENTERWAKE
	if
	:: c != WORKER
	:: else ->
#else
	if
	:: true ->
#endif
		BARRIER(c);	/* wq_has_sleeper() */
		atomic { if :: LOAD(c, WAITER) -> woken = 1 :: else fi }
	fi
}

/* hwtimer_rings_report() */
inline report(c)
{
	reported = 0;
	do
	:: done && reported < CHUNK ->
		room_or_full(c);
		if :: room :: else -> break fi;
		put_record(c);
		done--;
		if :: !done -> STORE(c, DONE, 0) :: else fi;
		reported++
	:: else -> break
	od;
	if
#ifdef NOUNTOLD
	:: !done && cq_full ->
#else
	:: !done && cq_full && !unreported ->
#endif
		cq_full = 0;
		STORE(c, FLAGS, 0)
	:: else
	fi;
	if :: reported -> hwtimer_ctx_wake(c) :: else fi;
	room = 0
}

inline take_all(c)
{
	lock(c);
	do
	:: entries ->
		if :: unreported -> unreported = 0; STORE(c, UNREPORTED, 0) :: else fi;
		/* report_failure() */
		report(c);
		reported = 0;
		if :: !done -> room_or_full(c) :: else fi;
		if
		:: room -> put_record(c); hwtimer_ctx_wake(c); entries--; room = 0
		:: else -> unreported = 1; STORE(c, UNREPORTED, 1); break
		fi
	:: else -> break
	od;
	UNLOCK(c)
}

/* hwtimer_rings_enter() */
inline enter(c)
{
	take_all(c);
	do
	:: true ->
		lock(c);
		report(c);
		UNLOCK(c);
		if :: reported < CHUNK -> break :: else fi
	od;
	reported = 0
}

#define KERNEL bit room; byte reported

proctype worker()
{
	KERNEL;

	do
	/* poll() */
	:: entries && !unreported ->
		take_all(WORKER);
		lock(WORKER);
		report(WORKER);
		UNLOCK(WORKER);
		reported = 0
	/* dev_expired() */
	:: expired < RECORDS ->
		/* Skipped if the submission ring was read since the deadline. */
		if
		:: entries -> take_all(WORKER)
		:: skip
		fi;
		lock(WORKER);
		expired++;
		done++;
		if :: done == 1 -> STORE(WORKER, DONE, 1) :: else fi;
		report(WORKER);
		UNLOCK(WORKER);
		reported = 0
	:: else -> break
	od
}

/* dev_poll(), and sleeping if it returns 0. */
inline poll()
{
	STORE(PROGRAM, WAITER, 1);
#ifndef NOPOLLLOCK
	lock(PROGRAM);
	UNLOCK(PROGRAM);
#endif
	sleep = !LOAD(PROGRAM, DONE);
	if :: sleep -> sleep = !LOAD(PROGRAM, UNREPORTED) :: else fi;
	if :: sleep -> sleep = LOAD(PROGRAM, HEAD) == LOAD(PROGRAM, KTAIL) :: else fi;
	if :: sleep -> woken :: else fi;
	BARRIER(PROGRAM);
	atomic { sleep = 0; woken = 0; mem[WAITER] = 0 }
}

proctype program()
{
	KERNEL;
	byte head, t, got, word0, word1;
	bit sleep;

	head = START;
	do
	:: got < RECORDS + FAILS ->
#ifdef NOACQUIRE
		copy(PROGRAM, head);
#endif
		t = LOAD(PROGRAM, TAIL);
		if
		:: t == head ->
			if
			:: true -> LOAD(PROGRAM, TAIL) != head
			:: poll()
			fi
		:: t != head ->
			/* Read one record, or all. */
			if
			:: t = head + 1
			:: skip
			fi;
#ifdef HEADEARLY
			RELEASE(PROGRAM, HEAD, t);
#endif
			do
			:: head != t ->
#ifndef NOACQUIRE
				copy(PROGRAM, head);
#endif
				atomic {
					CHECK(whole, word0 == got + 1 && word1 == got + 1);
					got++; head++; word0 = 0; word1 = 0
				}
#ifdef NOACQUIRE
				copy(PROGRAM, head)
#endif
			:: else -> break
			od;
#ifndef HEADEARLY
			RELEASE(PROGRAM, HEAD, t);
#endif
#ifndef NOBARRIER
			BARRIER(PROGRAM);
#endif
#ifndef NOFLAG
			if :: LOAD(PROGRAM, FLAGS) -> enter(PROGRAM) :: else fi
#endif
		fi
	:: else -> break
	od;
	program_over = 1
}

inline begin() { mem[KTAIL] = START }

inline end() { CHECK(over, expired == RECORDS && !entries && !done) }
#endif /* COMPLETE */

proctype other()
{
	KERNEL;
	byte n;

	do
	:: n < BELLS -> enter(OTHER); n++
	:: else -> break
	od;
	atomic { n = 0; other_over = 1 }
}

/* Store k of the buffer becomes visible. */
inline flush(c, k)
{
	place = b[c].place[k];
	value = b[c].value[k];
	mem[place] = value;
	visible();
	i = k;
	do
	:: i + 1 < b[c].n ->
		b[c].place[i] = b[c].place[i + 1];
		b[c].value[i] = b[c].value[i + 1];
		b[c].after[i] = b[c].after[i + 1];
		i++
	:: else -> break
	od;
	b[c].place[i] = 0; b[c].value[i] = 0; b[c].after[i] = 0;
	b[c].n--;
	place = 0; value = 0; i = 0
}

#define MAY(c, k) b[c].n > k && !b[c].after[k]
#define NOT(c, k, l) && b[c].place[k] != b[c].place[l]
#define FLUSH1(c) \
	:: d_step { b[c].n > 0 -> flush(c, 0) }
#define FLUSH4(c) FLUSH1(c) \
	:: d_step { MAY(c, 1) NOT(c, 1, 0) -> flush(c, 1) } \
	:: d_step { MAY(c, 2) NOT(c, 2, 0) NOT(c, 2, 1) -> flush(c, 2) } \
	:: d_step { MAY(c, 3) NOT(c, 3, 0) NOT(c, 3, 1) NOT(c, 3, 2) -> flush(c, 3) }
#define FLUSH6(c) FLUSH4(c) \
	:: d_step { MAY(c, 4) NOT(c, 4, 0) NOT(c, 4, 1) NOT(c, 4, 2) NOT(c, 4, 3) -> \
		flush(c, 4) } \
	:: d_step { MAY(c, 5) NOT(c, 5, 0) NOT(c, 5, 1) NOT(c, 5, 2) NOT(c, 5, 3) \
		NOT(c, 5, 4) -> flush(c, 5) }
#ifdef TSO
#define FLUSH(c) FLUSH1(c)
#elif DEPTH > 4
#define FLUSH(c) FLUSH6(c)
#else
#define FLUSH(c) FLUSH4(c)
#endif

proctype memory()
{
	byte place, value, i;

end_memory:
	do
	FLUSH(PROGRAM)
	FLUSH(WORKER)
#if BELLS
	FLUSH(OTHER)
#endif
	od
}

init
{
	byte n;

	atomic {
		mem[TAIL] = START;
		mem[HEAD] = START;
		begin();
		run memory(); run worker(); run program();
#if BELLS
		run other()
#endif
	}
	/* When no process can take a step. */
	atomic {
		timeout ->
		CHECK(over, program_over && other_over);
		end()
	}
}
