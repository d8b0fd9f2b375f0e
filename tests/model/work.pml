/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The protocol of hwtimer_work.c, for Spin: one item and its word, its timeout, the wheel's
 * worker that dispatches, two workers of workqueues, and two owners. Each access to what
 * several of them share is a step of its own. Memory is sequentially consistent: that it is
 * not is what tests/litmus is about. scripts/model runs it.
 *
 * Left out: the wheel itself, which is wheel.pml's: a timeout is pending, or its callback runs,
 * or neither, and who waits for it is served. The lanes and minutes: the two workers share one
 * queue and do not keep an item to themselves, as workqueues do for one that stays; that is
 * more than the lanes can do. That drop() is called once more, which nothing needs (see
 * tests/mutants/equivalent/second-drop.patch). What cancel_sync returns. Counts of 2^24 and more.
 *
 *	-DPOLICY=n	0: SERIAL, 1: DISCARD, 2: REPLACE (0)
 *	-DMAXQ=n	the bound of runs due; 0: none (0)
 *	-DOPS0=n	operations of owner 0: arm or cancel (1)
 *	-DOPS=n		and of owner 1 (1)
 *	-DARMS		they only arm
 *	-DSYNC		they call cancel_sync, too
 *	-DEND=1		owner 0 ends with cancel_sync, and frees; 2: with release; 3: stops and destroys
 *			the wheel, and frees
 *	-DFN=1		the function may arm the item once; 2: it always does, and so does the
 *			refused callback; 3: it calls cancel_sync, for itself; 4: it releases the
 *			item, once nobody else uses it
 *	-DSTUCK		the workqueues begin nothing while somebody waits
 *	-DLIVE		for the search for starvation: no counts, which have no end there; and the
 *			cmpxchg by which an item is ended succeeds at once. (It is lock-free only:
 *			if a whole run came between each look and cmpxchg, it would never.)
 *
 * Checked:
 *
 *	states		the invariants (a) and (b) of hwtimer_work.c; by its policy an item has no
 *			more than one run due
 *	exclusive	one run goes on at a time
 *	lost		behind a dispatch a run is due
 *	told		a run that begins has not been told to stop
 *	bound		there is a place for each run due, and there are no more than the bound
 *	books		busy items are never counted below 0
 *	memory		nothing is touched that was freed, be it the item or the wheel; what is
 *			released is called once, when all is over
 *	over		in the end all have returned, what was released was called, the item is
 *			idle, and dispatched = runs + cancelled + replaced
 *
 * And, with weak fairness (ltl):
 *
 *	ends		who waits returns, and what is released is called
 *	begins		a run that is due begins, or ends otherwise
 *
 * The broken twins, which have to fail by the property that they should:
 *
 *	-DENDSTORE	the end of a run stores the word where it has to exchange it
 *	-DNOENDING	a dispatch does not look at ENDING
 *	-DENDINGBIT	ENDING is a flag, not a count
 *	-DNOLASTEND	cancel_sync does not end what the last run armed
 *	-DNOTSYNC	nor wait for callbacks
 *	-DNOQUEUE	nor is queued again with another one due
 *	-DNORETRY	who queues does not try again
 *	-DNOWAKE	who makes it idle wakes nobody
 *	-DNOWAKEQUEUED	nor does a run that ends with another one due
 *	-DNOTAKE	who waits does not take it from the queue
 *	-DNOTBUSY	the wheel that lets go does not look whether the item is busy
 *	-DNOLETGO	a release does not wait until the wheel has let go
 *	-DKEEPTOLD	CANCELLED stays after the end of a run
 *	-DSTALE		a dispatch judges the policy once
 *	-DKEEPPLACE	a run that is dropped because of ENDING keeps its place
 *	-DBUSYLATE	an item counts as busy after it was queued
 *	-DIDLEEARLY	and as idle before its owner was told
 */
#ifndef POLICY
#define POLICY 0
#endif
#ifndef MAXQ
#define MAXQ 0
#endif
#ifndef OPS0
#define OPS0 1
#endif
#ifndef OPS
#define OPS 1
#endif
#ifndef END
#define END 0
#endif
#ifndef FN
#define FN 0
#endif
#define NP 2

/* The word. */
#define Q 1
#define R 2
#define C 4
#define G 8
#define D 16
#define BUSY (Q | R)
#define E1 32
#define ENDING(w) (((w) >> 5) & 7)
#define DUE1 256
#define DUE(w) ((w) >> 8)
#define NODUE(w) ((w) & 255)

short word;
/* The work_struct: is on a workqueue; cancel_work() has it. */
bit onq, grabbed;
/* The timeout: */
bit armed, dead;
bit callback;			/* it runs */
bit asked;			/* it was released, and the wheel has not let go */
bit down, wgone;		/* the wheel is stopped; its worker is gone */
byte queued, busy;		/* the wheel's counts */
bit waits[NP], woken[NP];	/* for the item */
bit bwaits, bwoken;		/* for busy */

/* For what is checked. */
byte running;			/* functions that run */
byte due;			/* dispatched - runs - cancelled - replaced, and a bias */
#define BIAS 16
bit freed, wfreed;
byte waiting;
bit released;
byte rearmed;
byte pdone;
bit ended;

bit states = 1, exclusive = 1, lost = 1, told = 1, bound = 1, books = 1, memory = 1, over = 1;
#define CHECK(property, is) property = (is); assert(property)
#define TOUCH CHECK(memory, !freed)
#define TOUCHW CHECK(memory, !wfreed)	/* and the wheel */

#ifdef LIVE
#define COUNT(n)
#else
#define COUNT(n) due = due + (n)
#endif

#define CHECK_WORD \
	CHECK(states, (word & BUSY) != BUSY && (DUE(word) == 0 || (word & BUSY)) && \
		      (POLICY == 0 || DUE(word) <= 1) && \
		      (POLICY != 1 || DUE(word) == 0 || !(word & R)))
/* Everybody has these: old, new, ok. Within a step. */
#define CMPXCHG \
	TOUCH; \
	ok = word == old; \
	if \
	:: ok -> \
		word = new; CHECK_WORD; \
		CHECK(bound, MAXQ == 0 || (queued >= DUE(word) && queued <= MAXQ)) \
	:: else -> old = word \
	fi
#define READ TOUCH; old = word

#define WAKE atomic { woken[0] = 1; woken[1] = 1 }
#define WAKEBUSY bwoken = 1

inline leave(n)
{
	if :: MAXQ > 0 -> CHECK(bound, queued >= n); queued = queued - n :: else fi
}

/* queue_work() puts it there in one step: cancel_work() waits for what is in between. */
inline enqueue()
{
#ifdef NORETRY
	atomic { TOUCH; if :: grabbed || onq :: else -> onq = 1 fi }
#else
	atomic { !grabbed && !onq -> TOUCH; onq = 1 }
#endif
}

inline tell()
{
	atomic { CHECK(memory, !freed && !wfreed && !callback && running == 0 && !onq); freed = 1 }
}

inline became_idle()
{
#ifndef NOWAKE
	WAKE;
#endif
#ifndef IDLEEARLY
	if :: new & G -> tell() :: else fi;
#endif
	/* Behind it only the address is used. */
	atomic {
		TOUCHW;
		CHECK(books, busy > 0);
		busy--;
		ok = busy == 0
	}
	if :: ok -> WAKEBUSY :: else fi
#ifdef IDLEEARLY
	;
	if :: new & G -> tell() :: else fi
#endif
}

/* Into ret: it was pending. */
inline timeout_cancel(ret)
{
	atomic { TOUCH; if :: armed -> armed = 0; ret = 1 :: else fi }
}

/* hwtimer_cancel_sync(): that the wheel serves who waits is wheel.pml's. */
inline timeout_end(ret)
{
	timeout_cancel(ret);
#ifndef NOTSYNC
	atomic { !callback -> TOUCH; if :: armed -> armed = 0; ret = 1 :: else fi }
#endif
}

inline timeout_arm()
{
	atomic { TOUCH; if :: dead || down :: else -> armed = 1 fi }
}

/* Into ret: anything was due. */
inline drop(ending, ret)
{
	atomic { READ }
	do
	:: atomic {
#ifdef LIVE
		READ;
#endif
		new = NODUE(old) + ending;
		if :: old & R -> new = new | C :: else fi;
#ifdef ENDINGBIT
		if :: ending && ENDING(old) -> new = new - ending :: else fi;
#endif
		CMPXCHG
	   }
	   if :: ok -> break :: else fi
	od;
	if
	:: DUE(old) ->
		atomic { TOUCHW; COUNT(-DUE(old)); leave(DUE(old)); ret = 1 }
	:: else
	fi;
	atomic { old = 0; new = 0; ok = 0 }
}

/* cancel_work(); for a few instructions nobody else can queue it. */
inline cancel_work(ret)
{
	atomic { !grabbed -> TOUCH; ret = onq; onq = 0; grabbed = 1 }
	grabbed = 0
}

/* Into held: it is not idle. */
inline taken_off()
{
	atomic { READ; held = (old & BUSY) != 0 }
#ifndef NOTAKE
	if
	:: old & Q ->
		cancel_work(took);
		if
		:: took ->
			atomic { READ; new = old & ~Q; word = new; CHECK_WORD; took = 0; held = 0 }
			became_idle()
		:: else
		fi
	:: else
	fi;
#endif
	atomic { old = 0; new = 0; ok = 0 }
}

/* Of the function's own (self): it does not wait for itself. */
inline end_sync(me, self)
{
	if :: self :: else -> waiting++ fi;
	drop(E1, r);
	timeout_end(r);
	if
	:: self
	:: else ->
		/* wait_var_event() */
		do
		:: atomic { waits[me] = 1; woken[me] = 0 }
			taken_off();
			if :: held -> woken[me] :: else -> break fi
		od;
		atomic { waits[me] = 0; woken[me] = 0; held = 0 }
#ifndef NOLASTEND
		timeout_end(r)
#endif
	fi;
	atomic { READ }
	do
	:: atomic {
		new = old & ~D;
#ifdef ENDINGBIT
		if :: ENDING(old) -> new = new - E1 :: else fi;
#else
		new = new - E1;
#endif
		CMPXCHG
	   }
	   if :: ok -> break :: else fi
	od;
	atomic { old = 0; new = 0; ok = 0; r = 0; if :: self :: else -> waiting-- fi }
}

inline release_some()
{
	atomic {
		TOUCH; old = word; word = old | G; CHECK(memory, !(old & G));
#ifdef NOTBUSY
		old = 0
#endif
	}
	if :: old & BUSY :: else -> tell() fi
}

inline release()
{
	drop(E1, r);
	/* hwtimer_release(): behind it nothing is ours. */
	atomic {
		TOUCH; armed = 0; dead = 1;
#ifndef NOLETGO
		asked = !(down && wgone);
#endif
		ok = asked
	}
	if :: ok :: else -> release_some() fi;
	atomic { old = 0; new = 0; ok = 0; r = 0 }
}

inline refuse()
{
#if FN == 2
	timeout_arm()
#else
	skip
#endif
}

/* By the wheel's worker, with callback set. */
inline dispatch()
{
	atomic { READ; placed = 0; judged = 0 }
	do
	:: atomic {
		new = old;
		if :: judged :: else -> replaces = 0; isbusy = (old & R) || DUE(old) fi;
		what = 0;	/* to be exchanged */
#ifndef NOENDING
		if :: ENDING(old) -> new = new | D; what = 1 :: else fi;
#endif
		if
		:: what
		:: !what && isbusy && POLICY == 1 -> what = 2
		:: !what && isbusy && POLICY == 2 ->
			if :: judged :: else -> replaces = DUE(old) > 0 fi;
			if :: old & R -> new = new | C :: else fi
		:: else
		fi;
		if :: !what && !replaces -> what = 3 :: else fi;
#ifdef STALE
		judged = 1
#endif
	   }
	   if
	   :: what == 2 -> refused = 1; break
	   :: what == 3 && !placed && MAXQ > 0 ->
		/* take_place() */
		atomic {
			TOUCHW;
			if :: queued < MAXQ -> queued++; placed = 1 :: else -> refused = 1 fi
		}
		if :: refused -> break :: else fi
	   :: else
	   fi;
	   atomic {
		if :: what == 3 -> new = new + DUE1; placed = 1 :: else fi;
		if :: what != 1 && !(old & BUSY) -> new = new | Q :: else fi;
		CMPXCHG;
		if :: ok && what != 1 -> CHECK(lost, DUE(new) > 0) :: else fi
	   }
	   if :: ok -> break :: else fi
	od;
	if
	:: refused ->
		/* Only we make it busy: once there is a place for it, neither comes up. */
		CHECK(bound, !placed);
		refuse()
	:: else ->
		/* The item does not go before we return. */
		if
		:: what == 1 ->
#ifndef KEEPPLACE
			if :: placed -> atomic { TOUCH; TOUCHW; leave(1) } :: else fi
#else
			skip
#endif
		:: else ->
			atomic {
				TOUCH; TOUCHW;
				if
				:: replaces -> CHECK(bound, !placed)
				:: !replaces -> COUNT(1)
				:: else
				fi
			}
			if
			:: old & BUSY
			:: else ->
#ifndef BUSYLATE
				atomic { TOUCHW; busy++ }
#endif
				enqueue()
#ifdef BUSYLATE
				;
				atomic { TOUCHW; busy++ }
#endif
			fi
		fi
	fi;
	atomic {
		old = 0; new = 0; ok = 0; placed = 0; replaces = 0; isbusy = 0; judged = 0; what = 0;
		refused = 0
	}
}

proctype worker()
{
	short old, new;
	bit ok, placed, replaces, isbusy, judged, refused;
	byte what;

end_sleep:
	do
	:: atomic { down -> break }
	:: atomic { armed && !down -> TOUCH; armed = 0; callback = 1 }
		dispatch();
		callback = 0
	:: atomic { asked && !armed && !down -> asked = 0 }
		release_some();
		atomic { old = 0; ok = 0 }
	od;
	wgone = 1
}

inline function(me)
{
#if FN == 1
	if
	:: skip
	:: rearmed == 0 -> rearmed = 1; timeout_arm()
	fi
#elif FN == 2
	timeout_arm()
#elif FN == 3
	end_sync(me, 1)
#elif FN == 4
	if
	:: atomic { pdone == NP && !released -> released = 1 }
		release()
	:: else
	fi
#else
	skip
#endif
}

/* One of a workqueue's. */
proctype runner(byte me)
{
	short old, new;
	bit ok, r, held, took;

end_idle:
	do
#ifdef STUCK
	:: atomic { onq && !waiting -> onq = 0; READ }
#else
	:: atomic { onq -> onq = 0; READ }
#endif
		/* work_run() */
		do
		:: atomic {
			new = old & ~Q;
			if :: DUE(old) -> new = (new | R) - DUE1 :: else fi;
			CMPXCHG;
			if :: ok && (new & R) -> CHECK(told, !(old & C)) :: else fi
		   }
		   if :: ok -> break :: else fi
		od;
		if
		:: !(new & R) -> became_idle()
		:: else ->
			atomic { TOUCH; TOUCHW; leave(1); COUNT(-1) }
			atomic { running++; CHECK(exclusive, running == 1); old = 0; new = 0; ok = 0 }
			function(me);
			/* fn(work) was ours until here. */
			atomic { running--; READ }
			do
			:: atomic {
				new = old & ~(R | C);
#ifdef KEEPTOLD
				new = old & ~R;
#endif
				if :: DUE(old) -> new = new | Q :: else fi
			   }
			   atomic {
#ifdef ENDSTORE
				TOUCH; word = new; ok = 1; CHECK_WORD
#else
				CMPXCHG
#endif
			   }
			   if :: ok -> break :: else fi
			od;
			if
			:: new & Q ->
#ifndef NOQUEUE
				enqueue();
#endif
#ifndef NOWAKEQUEUED
				WAKE
#endif
			:: else -> became_idle()
			fi
		fi;
		atomic { old = 0; new = 0; ok = 0 }
	od
}

proctype owner(byte me)
{
	short old, new;
	bit ok, r, held, took;
	byte n;

	do
	:: n >= (me == 0 -> OPS0 : OPS) || released -> break
	:: else ->
		n++;
		if
		:: timeout_arm()
#ifndef ARMS
		:: timeout_cancel(r);
			drop(0, r)
#endif
#ifdef SYNC
		:: true -> end_sync(me, 0)
#endif
		fi;
		r = 0
	od;
	n = 0;
	pdone++;
#if END
	if
	:: me == 0 ->
#if END == 1
		/* Nobody but the function arms any more. */
		pdone == NP;
		end_sync(me, 0);
		atomic {
			CHECK(memory, !freed && !armed && !callback && running == 0 && !onq &&
				      !(word & BUSY));
			freed = 1
		}
#elif END == 2
		pdone == NP;
		if
		:: atomic { !released -> released = 1 }
			release()
		:: else
		fi;
#else
		/* hwtimer_wheel_destroy(): nobody dispatches any more. */
		down = 1;
		wgone;
		pdone == NP;
		atomic { armed = 0 }
		if :: atomic { asked -> asked = 0 } release_some() :: else fi;
		waiting = 1;
		do
		:: bwaits = 1;
			atomic { bwoken = 0; held = busy != 0 }
			if :: held -> bwoken :: else -> break fi
		od;
		atomic { CHECK(memory, !onq && running == 0); wfreed = 1; waiting = 0 }
		/* What was not released is his. */
		atomic { if :: released :: else -> TOUCH; freed = 1 fi }
#endif
		ended = 1
	:: else
	fi
#endif
}

init
{
	atomic {
		due = BIAS;
		run worker(); run runner(0); run runner(1); run owner(0); run owner(1)
	}
#ifndef LIVE
	/* When nobody can do anything any more. */
	atomic {
		timeout ->
		CHECK(over, pdone == NP && (END == 0 || ended) && !armed && !onq && busy == 0 &&
			    queued == 0 && due == BIAS && (!released || freed) &&
			    !(word & BUSY) && DUE(word) == 0 && (released || !(word & ~C)))
	}
#endif
}

#ifdef LIVE
ltl ends { []<> (!waiting && (!released || freed)) }
ltl begins { []<> (DUE(word) == 0 || running) }
#endif
