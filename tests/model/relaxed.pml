/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The submission ring with HWTIMER_RINGS_RELAXED ("Rings" in uapi/linux/hwtimer.h) as
 * dev/rings.c keeps it, for Spin: the program takes back and submits without full barriers, and the
 * kernel waits for RCU grace periods. scripts/model runs it.
 *
 * Memory: the program's stores become visible later, in any order: loads pass them, and they pass
 * each other, as on arm64. Only a store to sq_tail, which is a release, becomes visible after all
 * earlier ones. A grace period is over at some time when the program's buffer is empty. The kernel
 * has full barriers where it needs them, so its stores are visible at once. There is no time: a
 * poll, an expiry, or the end of a grace period comes whenever it may.
 *
 * A ring of two entries; two indexes; a program; the worker. The program schedules a timeout with a
 * free index, or ends one: it takes the entry back or, if it finds that claimed, submits a CANCEL.
 * It kicks if the ring is full, or the kernel said that it does not poll.
 *
 *	-DOPS=n		number of the program's operations (4)
 *	-DEXPIRE	timeouts expire, and expiries take entries
 *	-DMORE		the program also schedules by ioctl; submits NOPs, with the id of any timeout;
 *			and schedules with the index of the former, which has to fail
 *
 * Properties that are checked:
 *
 *	whole		each entry is read as it was written, or as the NOP that took it back
 *	reuse		a SCHEDULE fails if and only if the program knows that the index is in use
 *	ghost		nothing expires if it was taken back and its entry is confirmed
 *	over		in the end everything was taken and confirmed, and exactly those timeouts are
 *			pending that the program has scheduled and not ended, but for expired ones
 *	rests		the kernel stops polling at last, under weak fairness (ltl)
 *
 * Broken variants, which must fail:
 *
 *	-DNOGRACE	entries are confirmed without a grace period
 *	-DENDLATE	entries that were taken after the beginning of the grace period count, too
 *	-DHEADEARLY	the kernel publishes sq_head when it has taken entries
 *	-DNOCONFIRM	entries are confirmed without being read again
 *	-DNOLOOK	a SCHEDULE does not look at the entry of a timeout with the same index
 *	-DANYNOP	it takes any NOP with this id at this place for one that took the entry back
 *	-DNOLAST	the kernel stops polling without a last poll
 *	-DLASTEARLY	the last poll does not wait for the grace period
 *	-DTAILEARLY	the last poll reads the tail before it asks for the grace period
 *	-DRESTEARLY	the grace period for the last poll begins before the kernel says that it does
 *			not poll
 *	-DUNCONFIRMED	the kernel stops polling although entries are not confirmed, as the grace
 *			period ended after it had looked for such entries
 *	-DRESTART	each poll begins another grace period for the last poll
 *	-DIDLEEARLY	the program reads whether the kernel polls before it submits
 *	-DCLAIMEDEARLY	it reads what the kernel has claimed before it takes an entry back
 *	-DNORELEASE	the store to sq_tail is no release
 *	-DOTHER		another thread kicks while the program submits and takes back
 */
#ifndef OPS
#define OPS 4
#endif
#define ENTRIES 2

/* Places in memory that the program writes. */
#define TAIL 0
#define SLOT(i) (1 + ((i) & 1))
#define DEPTH 4

/* An entry: what it does, and the number of the timeout, from 1 on. */
#define SCHEDULE 0
#define CANCEL 16
#define NOP 32
#define ENTRY(what, id) ((what) + (id))
#define WHAT(entry) ((entry) & 48)
#define ID(entry) ((entry) & 15)

bit whole = 1, reuse = 1, ghost = 1, over = 1;
#define CHECK(property, is) property = (is); assert(property)

byte mem[1 + ENTRIES];
byte buffered, place[DEPTH], value[DEPTH];	/* the program's stores */

/* Of the program. */
byte tail;			/* its own sq_tail */
byte written[OPS];		/* entries as they were written */
byte ids;			/* how many timeouts there were */
bit index[OPS + 1];		/* of each */
byte where[OPS + 1];		/* the place of its entry */
bit fails[OPS + 1];		/* its SCHEDULE has to fail */
bit taken_back[OPS + 1];
bit expired[OPS + 1];
byte in_use[2];			/* the timeout that an index is used for, or 0 */
bit program_over;

/* Of the kernel, written with the lock held: see struct ctx_rings. */
bit locked, waiting;		/* the program waits for the lock, which is fair */
byte head, confirmed, grace_end;
bit polling, resting, took;
byte armed;			/* a bit for each slot */
byte pending[2], entry[2];	/* of an index: the timeout, and the place of its entry */
/* Of the kernel, read by the program. */
byte sq_head, sq_claimed;
bit idle = 1;			/* sleep_until and relaxed_until are HWTIMER_RING_IDLE */

#define NONE 0
#define STARTED 1
#define OVER 2
byte grace;

#define LOCK atomic { !locked -> locked = 1 }
#define UNLOCK locked = 0

inline store(p, v)
{
	atomic {
		buffered < DEPTH;
		place[buffered] = p;
		value[buffered] = v;
		buffered++
	}
}

/* Store k of the buffer becomes visible. */
inline flush(k)
{
	mem[place[k]] = value[k];
	i = k;
	buffered--;
	do
	:: i < buffered -> place[i] = place[i + 1]; value[i] = value[i + 1]; i++
	:: else -> break
	od;
	place[buffered] = 0; value[buffered] = 0; i = 0
}

#ifdef NORELEASE
#define MAY(k) buffered > k
#else
#define MAY(k) buffered > k && place[k] != TAIL
#endif
#define NOT(k, l) && place[k] != place[l]

proctype memory()
{
	byte i;

end_memory:
	do
	:: d_step { buffered -> flush(0) }
	:: d_step { MAY(1) NOT(1, 0) -> flush(1) }
	:: d_step { MAY(2) NOT(2, 0) NOT(2, 1) -> flush(2) }
	:: d_step { MAY(3) NOT(3, 0) NOT(3, 1) NOT(3, 2) -> flush(3) }
	:: atomic { grace == STARTED && !buffered -> grace = OVER }
	od
}

inline begin_grace()
{
	grace = STARTED;
	grace_end = head
}

#define IN_WINDOW(place) ((place) >= confirmed && (place) < head)
#ifdef ANYNOP
#define ARMED(place) 1
#else
#define ARMED(place) ((armed >> ((place) & 1)) & 1)
#endif

/* cancel_taken_back() for the index x */
#define TAKEN_BACK(x) (pending[x] && IN_WINDOW(entry[x]) && ARMED(entry[x]) && \
			mem[SLOT(entry[x])] == ENTRY(NOP, pending[x]))

/* do_entry() for the entry e, which was read at the place head. */
inline execute(e)
{
	d_step {
		CHECK(whole, e == written[head] || WHAT(written[head]) == SCHEDULE &&
			     e == ENTRY(NOP, ID(written[head])));
		armed = armed & ~(1 << (head & 1));
		x = index[ID(e)];
		if
		:: WHAT(e) == SCHEDULE ->
#ifndef NOLOOK
			if :: TAKEN_BACK(x) -> pending[x] = 0 :: else fi;
#endif
			CHECK(reuse, (pending[x] != 0) == fails[ID(e)]);
			if
			:: !pending[x] ->
				pending[x] = ID(e);
				entry[x] = head;
				armed = armed | (1 << (head & 1))
			:: else
			fi
		:: WHAT(e) == CANCEL && pending[x] == ID(e) -> pending[x] = 0
		:: else
		fi;
		head++;
		e = 0; x = 0
	}
}

/* Read the entry at the place confirmed again, and confirm it. */
inline confirm_one()
{
	d_step {
#ifndef NOCONFIRM
		if
		:: (armed >> (confirmed & 1)) & 1 ->
			e = mem[SLOT(confirmed)];
			x = index[ID(e)];
			if :: WHAT(e) == NOP && TAKEN_BACK(x) -> pending[x] = 0 :: else fi
		:: else
		fi;
		e = 0; x = 0;
#endif
		confirmed++;
		sq_head = confirmed
	}
}

/*
 * What an ioctl does first: hwtimer_rings_take_all(). To take the lock is a full barrier of the
 * program (mine), but not if another thread calls the ioctl.
 */
inline take_all(mine)
{
	waiting = 1;
	atomic {
		(!mine || !buffered) && !locked;
		waiting = 0;
		do
		:: confirmed < head -> confirm_one()
		:: else -> break
		od;
		do
		:: head < mem[TAIL] -> e = mem[SLOT(head)]; execute(e); took = 1
		:: else -> break
		od;
		confirmed = head; sq_head = head; sq_claimed = head
	}
}

/* hwtimer_rings_enter() */
inline enter()
{
	take_all(1);
	waiting = 1;
	atomic { !locked; waiting = 0; idle = 0; resting = 0; polling = 1 }
}

/* The program submits an entry. */
inline submit(what)
{
	do
	:: tail - sq_head < ENTRIES -> break
	:: else -> enter()
	od;
#ifdef IDLEEARLY
	kick = idle;
#endif
	atomic { written[tail] = what; store(SLOT(tail), what) }
	atomic { tail++; store(TAIL, tail) }
#ifndef IDLEEARLY
	kick = idle;
#endif
	if :: kick -> kick = 0; enter() :: else fi
}

inline new_timeout(which)
{
	ids++;
	index[ids] = which;
	where[ids] = tail
}

proctype program()
{
	byte n, e, x, c, id;
	bit kick, i;

	do
	:: n < OPS ->
		if :: i = 0 :: i = 1 fi;
		id = in_use[i];
		if
		:: !id ->
			atomic { new_timeout(i); in_use[i] = ids }
			submit(ENTRY(SCHEDULE, ids))
		:: id && !expired[id] && where[id] < tail ->
			if
			/* Its place was not reused. */
			:: tail - where[id] <= ENTRIES ->
#ifdef CLAIMEDEARLY
				c = sq_claimed;
#endif
				store(SLOT(where[id]), ENTRY(NOP, id));
#ifndef CLAIMEDEARLY
				c = sq_claimed
#endif
			:: else -> c = 255
			fi;
			if
			:: where[id] >= c -> taken_back[id] = 1
			:: else -> submit(ENTRY(CANCEL, id))
			fi;
			atomic { in_use[i] = 0; c = 0 }
#ifdef EXPIRE
		:: expired[id] -> in_use[i] = 0
#endif
#ifdef MORE
		:: !id ->
			take_all(1);
			atomic {
				new_timeout(i);
				where[ids] = 255;
				in_use[i] = ids;
				assert(!pending[i]);
				pending[i] = ids	/* the old entry[i] remains */
			}
		:: id && where[id] == 255 -> submit(ENTRY(CANCEL, id)); in_use[i] = 0
		:: id -> submit(ENTRY(NOP, id))
		:: id && where[id] == 255 && !expired[id] ->
			atomic { new_timeout(i); fails[ids] = 1 }
			submit(ENTRY(SCHEDULE, ids))
#endif
		fi;
		atomic { n++; id = 0; i = 0 }
	:: else -> break
	od;
	atomic { n = 0; program_over = 1 }
}

#ifdef OTHER
proctype other()
{
	byte e, x;

	take_all(0)
}
#endif

/* poll_again_at(): say when the next poll comes, and read the tail once more. */
inline stop_polling()
{
	atomic { idle = 1; resting = 0; polling = 0 }
	if
	:: mem[TAIL] != head -> atomic { idle = 0; polling = 1 }
	:: else
	fi
}

inline rest()
{
	atomic {
		was_resting = resting;
#ifdef RESTEARLY
		if :: !was_resting -> begin_grace() :: else fi;
#endif
#ifdef LASTEARLY
		was_over = resting
#else
		was_over = resting && grace == OVER
#endif
	}
	stop_polling();
#ifdef TAILEARLY
	was_over = was_resting && grace == OVER;
#endif
#ifdef NOLAST
	was_over = 1;
#endif
	atomic {
		if
		:: polling
		:: else ->
			if
#ifdef UNCONFIRMED
			:: was_over
#else
			:: was_over && confirmed == head
#endif
			:: else ->
#ifndef RESTEARLY
				if
#ifdef RESTART
				:: true -> begin_grace()
#else
				:: !was_resting -> begin_grace()
#endif
				:: else
				fi;
#endif
				resting = 1; polling = 1
			fi
		fi;
		was_resting = 0; was_over = 0
	}
}

/* hwtimer_rings_take_in_worker() */
inline take_in_worker()
{
	LOCK;
	do
	:: head < mem[TAIL] ->
		sq_claimed = head + 1;
		e = mem[SLOT(head)];
		atomic { execute(e); took = 1 }
#ifdef HEADEARLY
		sq_head = head
#endif
	:: else -> break
	od;
	UNLOCK;
	/* confirm_in_worker() */
	LOCK;
	if
#ifdef NOGRACE
	:: confirmed < head -> grace_end = head;
#else
	:: grace_end > confirmed && grace == OVER ->
#endif
#ifdef ENDLATE
		grace_end = head;
#endif
		do
		:: confirmed < grace_end -> confirm_one()
		:: else -> break
		od
	:: else
	fi;
	atomic {
		if
		:: confirmed != head && grace_end <= confirmed -> begin_grace()
		:: else
		fi
	}
	if
	:: confirmed != head && !polling -> rest()
	:: else
	fi;
	UNLOCK
}

proctype worker()
{
	byte e, x;
	bit was_resting, was_over, i;

end_worker:
	do
	:: polling && !waiting ->
		take_in_worker();
		LOCK;
		if
		:: took -> atomic { took = 0; idle = 0; resting = 0; polling = 1 }
		:: else -> rest()
		fi;
		UNLOCK
#ifdef EXPIRE
	:: atomic { (pending[0] || pending[1]) && !waiting ->
		if :: pending[0] -> i = 0 :: pending[1] -> i = 1 fi
	}
		take_in_worker();
		LOCK;
		d_step {
			if
			:: pending[i] ->
				CHECK(ghost, !(taken_back[pending[i]] &&
					       where[pending[i]] < confirmed));
				expired[pending[i]] = 1;
				pending[i] = 0
			:: else
			fi
		}
		UNLOCK;
		i = 0
#endif
	od
}

init
{
	atomic {
		if
		:: skip
		:: idle = 0; polling = 1
		fi;
#ifdef OTHER
		run other();
#endif
		run memory(); run worker(); run program()
	}
	/* When no process can take a step. */
	atomic {
		timeout ->
		CHECK(over, program_over && mem[TAIL] == tail && head == tail && confirmed == head);
		CHECK(over, pending[0] == (expired[in_use[0]] -> 0 : in_use[0]));
		CHECK(over, pending[1] == (expired[in_use[1]] -> 0 : in_use[1]))
	}
}

#ifdef LIVE
ltl rests { <> (program_over && !polling && confirmed == tail) }
#endif
