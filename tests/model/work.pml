/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The protocol of hwtimer_work.c, for Spin: one item and its word, its timeout, the worker of the
 * wheel, which dispatches, two workers of workqueues, and two owners. Each access to a shared
 * variable is a step of its own. Memory is sequentially consistent here; tests/litmus checks the
 * memory ordering. scripts/model runs this model.
 *
 * Not modelled: the wheel, for which there is wheel.pml (a timeout is pending, or its callback
 * runs, or neither, and waiters are woken); the lanes and minutes (the two workers share one queue
 * and may both take the item, unlike workers of a workqueue that an item stays on, so the lanes
 * are covered); the second call of drop(), which is not needed (see
 * second-drop in tests/mutants/equivalent); what cancel_sync returns; counts of 2^24 and more.
 *
 *	-DPOLICY=n	0: SERIAL, 1: DISCARD, 2: REPLACE (0)
 *	-DMAXQ=n	the limit of due runs; 0: none (0)
 *	-DOPS0=n	number of operations of owner 0: arm or cancel (1)
 *	-DOPS=n		number of operations of owner 1 (1)
 *	-DARMS		the owners only arm
 *	-DSYNC		the owners call cancel_sync, too
 *	-DEND=1		at its end owner 0 calls cancel_sync and frees the item
 *	-DEND=2		at its end owner 0 releases the item
 *	-DEND=3		at its end owner 0 stops and destroys the wheel, and frees the item
 *	-DFN=1		the function may arm the item once
 *	-DFN=2		the function and the refused callback always arm the item
 *	-DFN=3		the function calls cancel_sync for its own item
 *	-DFN=4		the function releases the item, once nobody else uses it
 *	-DSTUCK		the workqueues begin no run while there is a waiter
 *	-DLIVE		for the search for starvation: there are no counts, as they would not be
 *			bounded; and the cmpxchg that ends an item succeeds at once. (It is only
 *			lock-free: it fails for ever if a whole run comes between each read and
 *			its cmpxchg.)
 *
 * Properties that are checked:
 *
 *	states		the invariants (a) and (b) of hwtimer_work.c hold; with DISCARD and REPLACE
 *			at most one run of the item is due
 *	exclusive	at most one run is in progress
 *	lost		after a dispatch a run is due
 *	told		CANCELLED is not set when a run begins
 *	bound		each due run has a place, and the places do not exceed the limit
 *	books		the count of busy items does not go below 0
 *	memory		nobody accesses a freed item or wheel; the release of an item is reported
 *			once, after its last run
 *	over		in the end all calls have returned, a release was reported, the item is
 *			idle, and dispatched = runs + cancelled + replaced
 *
 * With weak fairness (ltl):
 *
 *	ends		a waiter returns, and a release is reported
 *	begins		a due run begins, or ends without having begun
 *
 * Broken variants, each of which must fail by the property that scripts/model names:
 *
 *	-DENDSTORE	the end of a run stores the word instead of using cmpxchg
 *	-DNOENDING	a dispatch does not check ENDING
 *	-DENDINGBIT	ENDING is a flag, not a count
 *	-DNOLASTEND	cancel_sync does not cancel the timeout if the last run armed it
 *	-DNOTSYNC	cancel_sync does not wait for callbacks
 *	-DNOQUEUE	a run that ends with another run due does not queue the item again
 *	-DNORETRY	queueing the item is not retried
 *	-DNOWAKE	waiters are not woken when the item becomes idle
 *	-DNOWAKEQUEUED	a run that ends with another run due does not wake waiters
 *	-DNOTAKE	a waiter does not take the item from the queue
 *	-DNOTBUSY	when the wheel drops a released item it does not check whether it is busy
 *	-DNOLETGO	a release does not wait until the wheel has dropped the timeout
 *	-DKEEPTOLD	CANCELLED stays set after the end of a run
 *	-DSTALE		a dispatch does not decide by the policy again when its cmpxchg fails
 *	-DKEEPPLACE	a run that is dropped because of ENDING keeps its place
 *	-DBUSYLATE	an item is counted as busy after it was queued
 *	-DIDLEEARLY	an item is counted as idle before its release was reported
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
/* The work_struct is on a workqueue; cancel_work() holds it. */
bit onq, grabbed;
/* The timeout: */
bit armed, dead;
bit callback;			/* its callback runs */
bit asked;			/* it was released, and the wheel still holds it */
bit down, wgone;		/* the wheel is stopped; its worker has ended */
byte queued, busy;		/* counts of the wheel */
bit waits[NP], woken[NP];	/* of owners that wait for the item */
bit bwaits, bwoken;		/* of the owner that waits for busy == 0 */

/* For the properties. */
byte running;			/* functions that run */
byte due;			/* BIAS + dispatched - runs - cancelled - replaced */
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
#define TOUCHW CHECK(memory, !wfreed)	/* access to the wheel */

#ifdef LIVE
#define COUNT(n)
#else
#define COUNT(n) due = due + (n)
#endif

#define CHECK_WORD \
	CHECK(states, (word & BUSY) != BUSY && (DUE(word) == 0 || (word & BUSY)) && \
		      (POLICY == 0 || DUE(word) <= 1) && \
		      (POLICY != 1 || DUE(word) == 0 || !(word & R)))
/* Part of the caller's step. Each process that uses this has the variables old, new and ok. */
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

/* queue_work() is one step, as cancel_work() waits for a queue_work() in progress. */
inline enqueue()
{
#ifdef NORETRY
	atomic { TOUCH; if :: grabbed || onq :: else -> onq = 1 fi }
#else
	atomic { !grabbed && !onq -> TOUCH; onq = 1 }
#endif
}

inline report()
{
	atomic { CHECK(memory, !freed && !wfreed && !callback && running == 0 && !onq); freed = 1 }
}

inline became_idle()
{
#ifndef NOWAKE
	WAKE;
#endif
#ifndef IDLEEARLY
	if :: new & G -> report() :: else fi;
#endif
	/* From here on only the address of the item is used. */
	atomic {
		TOUCHW;
		CHECK(books, busy > 0);
		busy--;
		ok = busy == 0
	}
	if :: ok -> WAKEBUSY :: else fi
#ifdef IDLEEARLY
	;
	if :: new & G -> report() :: else fi
#endif
}

/* ret: set if the timeout was pending. */
inline timeout_cancel(ret)
{
	atomic { TOUCH; if :: armed -> armed = 0; ret = 1 :: else fi }
}

/* hwtimer_cancel_sync(); wheel.pml checks that the waiter is woken. */
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

/* ret: set if a run was due. */
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

/* cancel_work(); while it holds the work_struct nobody else can queue it. */
inline cancel_work(ret)
{
	atomic { !grabbed -> TOUCH; ret = onq; onq = 0; grabbed = 1 }
	grabbed = 0
}

/* held: whether the item is not idle. */
inline try_dequeue()
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

/* self: called by the item's function, which does not wait for itself. */
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
			try_dequeue();
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
	if :: old & BUSY :: else -> report() fi
}

inline release()
{
	drop(E1, r);
	/* hwtimer_release(); from here on the item may be gone. */
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

/* Called by the worker of the wheel, with callback set. */
inline dispatch()
{
	atomic { READ; placed = 0; judged = 0 }
	do
	:: atomic {
		new = old;
		if :: judged :: else -> replaces = 0; isbusy = (old & R) || DUE(old) fi;
		what = 0;	/* 0: cmpxchg, 1: ending, 2: refuse, 3: another run becomes due */
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
		/* reserve_run() */
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
		/* Only a dispatch makes the item busy, so one that has a place is not refused. */
		CHECK(bound, !placed);
		refuse()
	:: else ->
		/* The item is not freed before dispatch() returns. */
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

/* A worker of a workqueue. */
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
			/* Until here the function owned the item. */
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
		/* From here on only the function arms the item. */
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
		/* hwtimer_wheel_destroy(): no more dispatches. */
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
		/* An item that was not released belongs to the owner. */
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
	/* When no process can take a step. */
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
