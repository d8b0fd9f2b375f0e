/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The protocol of core/hwtimer_queue.c, for Spin: one timeout and its word, two producers with a
 * request queue each, the worker, a clock that moves by ticks, and a stopper. Each access to a
 * shared variable is a step of its own; accesses to the worker's own variables are part of the
 * step before. Memory is sequentially consistent here; tests/litmus checks the memory ordering.
 * scripts/model runs this model.
 *
 *	-DOPS0=n	number of operations of producer 0: arm, touch or cancel (1)
 *	-DOPS=n		number of operations of producer 1 (1)
 *	-DARMS		the producers only arm
 *	-DMAXT=n	deadlines are tick 1 to n, at most 3 (1)
 *	-DEND=1		at its end producer 0 calls shutdown_sync and frees the timeout
 *	-DEND=2		at its end producer 0 releases the timeout
 *	-DEND=3		at its end, when nobody arms any more, producer 0 calls cancel_sync and
 *			frees the timeout
 *	-DCB=1		the callback may arm the timeout again
 *	-DCB=2		the callback frees the timeout, if that is allowed
 *	-DSTOP		there is a stopper
 *	-DOVERDUE	the worker may settle later ticks in the middle of a drain. It does so only
 *			if the drain takes more than a tick; here, whenever time has moved
 *	-DLIVE		for the search for starvation, which is not bounded: the callback may arm
 *			the timeout each time, always for the past. Time does not move, and
 *			the counts are modulo 4
 *
 * Properties that are checked:
 *
 *	once		an armed timeout ends once: it is cancelled, expires, or is handed back
 *	early		a timeout does not expire before its deadline
 *	in_time		the worker does not sleep beyond a deadline, nor without an end over a
 *			release
 *	one_queue	a timeout that is on a queue is not pushed
 *	counted_	the count of pending timeouts is never too low
 *	memory		nobody accesses a freed timeout, not even an arm() that is still in
 *			progress when the callback frees it; a timeout is not freed while the
 *			wheel holds it or its callback runs; a release is reported once
 *	bounded		after a cancel_sync has begun to wait, at most one callback begins
 *	attended	the worker does not sleep while a waiter that it has not woken sleeps
 *	over		in the end nobody waits, nothing is pending, the counts agree, and a
 *			stopped wheel holds nothing
 *
 * With weak fairness (ltl):
 *
 *	ends		a waiter returns, and a release is reported
 *
 * Broken variants, each of which must fail by the property that "checks" names:
 *
 *	-DNOFLIGHT	there is no in_flight
 *	-DFLIGHTLATE	the worker reads in_flight after the queue
 *	-DNOLAST	the worker sleeps without a timer, and does not count pending timeouts again
 *	-DNOCHECK	the worker does not take the queues again before it sleeps
 *	-DNOLOWER	it does not make the sleep shorter by what that brought
 *	-DNORELKICK	a release does not kick a worker that sleeps without an end
 *	-DNOREARMKICK	an arm that needs no request does not kick the worker
 *	-DTOUCHONLY	an earlier deadline is written without a request
 *	-DNORECHECK	the worker claims a timeout even if its word has changed since it was read
 *	-DCLAIMQUEUED	the worker claims a timeout with QUEUED set
 *	-DQUEUEDEARLY	the worker clears QUEUED before it takes the timeout from the queue
 *	-DFILEDLATE	the worker clears FILED after the callback
 *	-DREREAD	a producer reads the timeout after its push
 *	-DNORUNNING	a waiter does not read running
 *	-DNOAGAIN	a waiter does not check whether a callback ran between its reads
 *	-DRUNNINGLATE	the worker sets running after it has claimed the timeout
 *	-DNOWAKE	the worker does not wake waiters
 *	-DNOCANCEL	the worker does not cancel a timeout that was armed again despite a waiter
 *	-DNODETACH	a waiter does not ask the worker to drop the timeout
 *	-DNOSTATE	arm does not read the state
 *	-DNOGRACE	the stop does not wait for a grace period
 *	-DSTOPPEDEARLY	the state is STOPPED before the wheel has been emptied
 *	-DNOLASTDRAIN	the queues are not drained again when the state is STOPPED
 */
#ifndef OPS0
#define OPS0 1
#endif
#ifndef OPS
#define OPS 1
#endif
#ifndef MAXT
#define MAXT 1
#endif
#ifndef CB
#define CB 0
#endif
#ifndef END
#define END 0
#endif
#define NP 2

/* The word. */
#define A 1
#define Q 2
#define F 4
#define D 8
#define DL(w) ((w) >> 4)
#define REL 16			/* with D */
#define RELEASING(w) (((w) & D) && ((w) & REL))

/* Times. */
#define IDLE 15			/* until a kick */
#define NEVER 14

#ifdef LIVE
#define SUM(n) ((n) & 3)
#define MOVE(tick) skip
#define OVER(until) ((until) < NEVER)
byte now = 2, cur = 2;		/* no deadline is later */
#else
#define SUM(n) (n)
#define MOVE(tick) cur = (tick)
#define OVER(until) ((until) != IDLE && now >= (until))
byte now, cur = 1;
#endif

/* States of the wheel. */
#define SHUTDOWN 1
#define STOPPED 2

byte word;			/* of the timeout */
bit onq[3], onrel;		/* the timeout is on a queue; callbacks use queue 2 */
byte inflight[NP];
byte state;
bit insec[NP];			/* the producer has preemption disabled */
byte armedc, cancc, expc, handc;	/* counts: armed, cancelled, expired, handed back */
byte kick_below = IDLE;
bit kicked;
bit running;			/* w->running is the timeout */
bit waiting, woken;
bit sleeping;			/* the waiter sleeps */
byte begun;			/* callbacks that began while there was a waiter */
bit wstop, wgone;		/* the worker has to end, has ended */

/* Of the worker, and of the stopper once the worker has ended. */
bit inb;			/* the timeout is in the bucket of tick ftick */
byte ftick;
bit aside;			/* the timeout was released, and put aside */
byte until_;
bit asleep;
byte armed_seen;
byte soonest = NEVER;		/* the earliest deadline ahead that it has seen since its last sleep */
bit drained;			/* it has handled a request or a release since then */
byte rearmed;			/* by the callback */

/* For the properties. */
bit live;			/* the timeout is pending */
bit freed;
byte using;			/* producers that may still access the timeout */
byte busy;			/* producers in an operation */
byte pdone;			/* producers that have done all operations */
bit ended;			/* producer 0 has ended the timeout */
bit cancelled;			/* the timeout was cancelled, so the callback must not free it */
bit sdone;			/* the stopper is done */

bit once = 1, early = 1, in_time = 1, one_queue = 1, counted_ = 1, memory = 1, bounded = 1;
bit attended = 1, over = 1;
#define CHECK(property, is) property = (is); assert(property)

#define TOUCH CHECK(memory, !freed)
/* Nothing expires before the next tick. */
#define KICK(until) ((until) <= cur -> 1 : (until))

#define CHECK_SLEEP CHECK(in_time, !(busy == 0 && asleep && !kicked && !wstop && \
				     ((live && until_ > DL(word) && until_ > cur) || \
				      (until_ >= NEVER && (onrel || aside)))))
#define ARMED CHECK(once, !live); live = 1
#define ENDED CHECK(once, live); live = 0

/* Each process that uses this has the variables old, new and ok. */
#define CMPXCHG \
	TOUCH; \
	ok = word == old; \
	if :: ok -> word = new :: else -> old = word fi

inline kick_worker(d)
{
	if
	:: d < kick_below ->
		atomic { r = kick_below; kick_below = 0 }
		if :: r != 0 -> r = 0; kicked = 1 :: else fi
	:: else
	fi
}

/* After the push the producer must not access the timeout. */
inline push(c)
{
	atomic {
		TOUCH;
		CHECK(one_queue, !onq[0] && !onq[1] && !onq[2] && !onrel && !aside);
		if :: RELEASING(new) -> onrel = 1 :: else -> onq[c] = 1 fi
	}
}

/* The worker, with c = 2, needs no in_flight: it does not push while it prepares to sleep. */
inline change_and_push(c)
{
	if
	:: (new & Q) && !(old & Q) ->
#ifndef NOFLIGHT
		if :: c < NP -> inflight[c]++ :: else fi;
#endif
		atomic { CMPXCHG; if :: ok -> linear(c) :: else fi }
		if :: ok -> push(c) :: else fi;
#ifndef NOFLIGHT
		if :: c < NP -> inflight[c]-- :: else fi
#endif
	:: else ->
		atomic { CMPXCHG; if :: ok -> linear(c) :: else fi }
	fi
}

/* The linearization point of the operation, which does not access the timeout any more. */
inline linear(c)
{
	if :: (new & A) && !(old & A) -> ARMED :: else fi;
	if :: c < NP && using -> using-- :: else fi
}

/* ret: 0: arm it, 1: it is pending, 8: it cannot be touched, 9: it cannot be armed. */
inline judge(d, touch)
{
	if
	:: old & A -> ret = 1; sooner = d < DL(old); new = (d << 4) | (old & 7)
	:: !(old & A) && (old & D) -> ret = 9
	:: !(old & A) && !(old & D) && touch -> ret = 8
	:: else ->
		ret = 0;
		sooner = !(old & F) || d < DL(old);
		new = (d << 4) | (old & 7) | A
	fi;
	if
#ifdef TOUCHONLY
	:: sooner && ret == 0 -> new = new | Q
#else
	:: sooner && ret < 2 -> new = new | Q
#endif
	:: else
	fi
}

/* The caller has disabled preemption, and down says whether it saw the wheel shut down. */
inline arm(c, d, touch)
{
	if
	:: down -> ret = 9
	:: else ->
		atomic { TOUCH; old = word }
		do
		:: atomic {
			judge(d, touch);
			if :: ret == 0 && !counted -> armedc = SUM(armedc + 1); counted = 1 :: else fi
		   }
		   if :: ret >= 2 -> break :: else fi;
		   change_and_push(c);
		   if :: ok -> break :: else fi
		od;
#ifdef REREAD
		if :: ret < 2 -> atomic { TOUCH } :: else fi;
#endif
		if
#ifdef NOREARMKICK
		:: ret < 2 && sooner ->
#else
		:: ret == 0 || (ret == 1 && sooner) ->
#endif
			kick_worker(d)
		:: else
		fi;
		/* Meanwhile another producer armed the timeout or ended it. */
		if :: ret != 0 && counted -> armedc = SUM(armedc - 1) :: else fi
	fi
}

inline disarm(also)
{
	atomic { TOUCH; old = word; ret = 0 }
	do
	:: (old & D) || (!(old & A) && also == 0) -> break
	:: else ->
		atomic {
			new = (also -> (old & ~(A | REL)) | also : old & ~A);
			CMPXCHG;
			if :: ok && (old & A) -> ENDED; cancelled = 1; ret = 1 :: else fi
		}
		if :: ok -> break :: else fi
	od;
	if :: ret -> cancc = SUM(cancc + 1) :: else fi
}

inline detach(c)
{
	atomic { insec[c] = 1; down = state >= STOPPED }
	if
	:: down
	:: else ->
		atomic { TOUCH; old = word }
		do
		:: (old & (Q | F)) == F ->
			new = old | Q;
			change_and_push(c);
			if :: ok -> break :: else fi
		:: else -> break
		od;
		if :: old & (Q | F) -> kick_worker(0) :: else fi
	fi;
	insec[c] = 0
}

/* One iteration of the loop in queue_end_sync(). */
inline end_and_check(c)
{
	disarm((END == 1 -> D : 0));
#ifndef NODETACH
	detach(c);
#endif
	/* queue_holds() */
	do
	:: true ->
#ifndef NOAGAIN
		n = expc;
#endif
#if !defined(NORUNNING) && !defined(NOAGAIN)
		held = running;
		if :: held -> break :: else fi;
#endif
		atomic { TOUCH; held = (word & (Q | F)) != 0 }
#ifndef NORUNNING
		if :: held :: else -> held = running fi;
#endif
#ifdef NOAGAIN
		break
#else
		if :: held || n == expc -> break :: else fi
#endif
	od;
	n = 0
}

proctype producer(byte me)
{
	byte old, new, r, ret, n, d, op;
	bit ok, counted, sooner, down, held;

	do
	:: n >= (me == 0 -> OPS0 : OPS) || freed -> break
	:: else ->
		atomic {
			if
			:: freed -> break
			:: else
			fi;
			busy++; using++; n++;
			if
			:: op = 0
#ifndef ARMS
			:: op = 1
			:: op = 2
#endif
			fi;
			if
			:: op == 2
			:: op != 2 -> d = 1
			:: op != 2 && MAXT > 1 -> d = 2
			:: op != 2 && MAXT > 2 -> d = 3
			fi;
			insec[me] = 1;
#ifndef NOSTATE
			down = state >= SHUTDOWN
#endif
		}
		if
		:: op < 2 -> arm(me, d, op)
		:: else -> disarm(0)
		fi;
		atomic {
			busy--;
			insec[me] = 0;
			/* A cancel, or an arm that was refused, has not passed linear(). */
			if :: op == 2 || ret >= 2 -> using-- :: else fi;
			CHECK_SLEEP;
			old = 0; new = 0; ret = 0; d = 0; op = 0;
			ok = 0; counted = 0; sooner = 0; down = 0
		}
	od;
	atomic { pdone++; n = 0 }
#if END
	if
	:: me == 0 ->
		/* The owner ends the timeout once nobody else uses it. */
		pdone == NP;
#if END == 1 || END == 3
		waiting = 1;	/* followed by a full barrier */
		do
		:: true ->
			busy++;
			end_and_check(me);
			busy--;
			if
			:: held -> sleeping = 1; atomic { woken -> woken = 0; sleeping = 0 }
			:: else -> break
			fi
		od;
		waiting = 0;
		atomic { CHECK(memory, !(word & (A | Q | F)) && !freed); freed = 1; ended = 1 }
#else
		busy++;
		disarm(D);
		atomic { insec[me] = 1; down = state >= STOPPED }
		if
		:: down ->
			atomic {
				insec[me] = 0;
				busy--;
				CHECK(memory, !freed && !running && !(word & (Q | F)));
				freed = 1
			}
		:: else ->
			atomic { TOUCH; old = word }
			do
			:: new = old | REL | Q;
				change_and_push(me);
				if :: ok -> break :: else fi
			od;
#ifndef NORELKICK
			kick_worker(NEVER);
#endif
			atomic { insec[me] = 0; busy--; CHECK_SLEEP }
		fi;
		ended = 1
#endif
	:: else
	fi
#endif
}

inline wake_waiters()
{
#if (END == 1 || END == 3) && !defined(NOWAKE)
	atomic { if :: waiting -> woken = 1 :: else fi }
#else
	skip
#endif
}

/* Part of the caller's step. */
inline file(d)
{
	CHECK(one_queue, !inb);
	inb = 1;
	ftick = (d > cur -> d : cur)
}

inline unfile()
{
	CHECK(one_queue, inb);
	inb = 0
}

/* Part of the caller's step. The worker has handled a request, whose word is w. */
inline note(w)
{
	drained = 1;
	if
	:: DL(w) > now && DL(w) < soonest -> soonest = DL(w)
	:: else
	fi
}

/* The request has been taken from its queue, and old is the word. */
inline handle_request()
{
	filed = (old & F) != 0;
	do
	:: atomic {
		if
		:: old & A -> new = (old & ~Q) | F
		:: else ->
			if :: filed -> unfile(); filed = 0 :: else fi;
			new = old & ~(Q | F);
			if :: RELEASING(old) -> new = new | Q :: else fi
		fi;
		CMPXCHG;
		if :: ok -> note(new) :: else fi;
		if
		:: ok && (new & F) ->
			if :: filed -> unfile() :: else fi;
			file(DL(new))
		:: ok && !(new & F) && (new & Q) -> aside = 1
		:: else
		fi
	   }
	   if :: ok -> break :: else fi
	od;
	if :: !(new & Q) -> wake_waiters() :: else fi;
	atomic { old = 0; new = 0; ok = 0; filed = 0 }
}

#if END == 2
/* release_some() and call_released() of the wheel. */
inline call_released()
{
	if
	:: atomic { onrel || aside -> onrel = 0; aside = 0; TOUCH; old = word }
		atomic { note(old & ~REL); if :: old & F -> unfile() :: else fi }
		atomic { TOUCH; word = word & ~(Q | F) }
		atomic { CHECK(memory, !freed && !running && !inb); freed = 1; old = 0 }
	:: else
	fi
}
#else
inline call_released() { skip }
#endif

inline take(i)
{
	if
#ifdef QUEUEDEARLY
	:: onq[i] ->
		atomic { TOUCH; word = word & ~Q }
		atomic { onq[i] = 0; old = word }
		handle_request()
#else
	:: atomic { onq[i] -> onq[i] = 0; TOUCH; old = word }
		handle_request()
#endif
	:: else
	fi
}

inline drain()
{
	take(0);
	overdue();
	take(1);
#if CB == 1
	take(2)
#endif
}

/* Holds the lock that waiters take to add and to remove themselves. */
inline cancel_for_waiter()
{
#if (END == 1 || END == 3) && !defined(NOCANCEL)
	if
	:: (old & (A | Q)) == A && waiting ->
		atomic {
			new = old & ~A;
			if
			:: waiting -> CMPXCHG
			:: else -> ok = 0
			fi;
			if :: ok -> ENDED; cancelled = 1; old = new :: else fi
		}
		if :: ok -> cancc = SUM(cancc + 1); ok = 0 :: else fi
	:: else
	fi
#else
	skip
#endif
}

/* The timeout has been taken from its bucket, and old is the word. */
inline settle()
{
	do
	:: cancel_for_waiter();
	   if
	   :: atomic { (old & A) && DL(old) > cur - 1 -> claim = 0; file(DL(old)) } break
	   :: else ->
		atomic {
			new = old & ~F;
			claim = (old & A) && !(old & Q);
#ifdef CLAIMQUEUED
			claim = (old & A) != 0;
#endif
			if :: claim -> new = new & ~A :: else fi;
#ifdef FILEDLATE
			if :: claim -> new = new | F :: else fi;
#endif
#ifndef RUNNINGLATE
			if :: claim -> running = 1 :: else fi
#endif
		}
		atomic {
#ifdef NORECHECK
			old = (claim -> word | A : word);
			if :: claim -> new = word & ~(A | F) :: else fi;
#endif
			CMPXCHG;
#ifdef NORECHECK
			if :: claim -> word = new; ok = 1 :: else fi;
#endif
			if
			:: ok && claim ->
				ENDED;
				CHECK(early, DL(old) <= now);
#ifndef LIVE
				if :: waiting -> begun++; CHECK(bounded, begun <= 1) :: else fi
#endif
			:: else
			fi
		}
		if :: ok -> break :: else fi
	   fi
	od;
	if
	:: claim ->
#ifdef RUNNINGLATE
		running = 1;
#endif
		atomic { expc = SUM(expc + 1); old = 0; new = 0; ok = 0; claim = 0 }
		callback();
#ifdef FILEDLATE
		atomic { TOUCH; word = word & ~F }
#endif
		running = 0;
		wake_waiters()
	:: else ->
		atomic { old = 0; new = 0; ok = 0; claim = 0 }
		if :: running -> running = 0 :: else fi;
		wake_waiters()
	fi
}

inline settle_ticks()
{
	do
	:: atomic { inb && ftick <= target -> MOVE(ftick + 1); inb = 0; TOUCH; old = word }
		settle()
	:: atomic { else -> if :: target + 1 > cur -> MOVE(target + 1) :: else fi }
		break
	od
}

inline overdue()
{
#ifdef OVERDUE
	if
	:: skip
	:: atomic { now > target -> target = now }
		settle_ticks()
	fi
#else
	skip
#endif
}

inline callback()
{
#if CB == 1
	if
	:: skip
	:: !rearmed ->
		atomic {
#ifndef LIVE
			rearmed = 1;
#endif
			if :: d = 1 :: MAXT > 1 -> d = MAXT fi;
			down = state >= SHUTDOWN
		}
		arm(2, d, 0);
		atomic { d = 0; ret = 0; old = 0; new = 0; ok = 0; counted = 0; sooner = 0; down = 0 }
	fi;
#endif
#if CB == 2
	/* Free the timeout if nobody uses it any more. */
	atomic {
		if
		:: using == 0 && !live && !cancelled && !freed ->
			CHECK(memory, !(word & (Q | F)));
			freed = 1
		:: else
		fi
	}
#else
	atomic { TOUCH }
#endif
}

inline count_ended()
{
	ended_ = SUM(cancc + expc + handc)
}

inline count_armed()
{
	atomic {
		seen = armedc;
#ifndef LIVE
		CHECK(counted_, seen >= ended_ + live)
#endif
	}
}

/* The worker waits for a short time, then gives up. It may have waited before this step. */
inline all_pushed()
{
	if :: inflight[0] -> req = 1 :: else fi;
	if :: inflight[1] -> req = 1 :: else fi
}

inline take_queues()
{
	if
	:: until_ != IDLE ->
		take(0);
		take(1);
#if CB == 1
		take(2)
#endif
	:: else ->
		if :: onq[0] -> req = 1 :: else fi;
		if :: onq[1] -> req = 1 :: else fi;
		if :: onq[2] || onrel -> req = 1 :: else fi
	fi
}

inline take_last()
{
#ifdef NOCHECK
	skip
#else
#ifdef FLIGHTLATE
	take_queues();
	all_pushed()
#else
	all_pushed();
	if :: !req -> take_queues() :: else fi
#endif
#endif
}

proctype worker()
{
	byte old, new, r, ret, d, target, seen, ended_, arms;
	bit ok, counted, sooner, down, filed, claim, req, pending;

	do
	:: wstop -> break
	:: atomic { else -> target = now; if :: soonest <= now -> soonest = NEVER :: else fi }
		/* queue_advance() */
		drain();
		settle_ticks();
		call_released();

		/* queue_prepare_sleep() */
		kicked = 0;	/* set_current_state(TASK_IDLE) */
		count_ended();
		count_armed();
		atomic {
			pending = seen != ended_;
			if
			:: seen != armed_seen || drained ->
				until_ = (soonest < target + 2 -> soonest : target + 2)
			:: (seen == armed_seen && !drained) || !pending -> until_ = IDLE
			fi;
			kick_below = KICK(until_);
			arms = seen; target = 0; seen = 0; ended_ = 0
		}
		take_last();
		if
		:: until_ != IDLE && !req ->
			atomic {
				d = until_;
#ifndef NOLOWER
				if :: soonest < until_ -> until_ = soonest :: else fi;
				if :: inb && ftick < until_ -> until_ = ftick :: else fi;
#endif
				/* The cmpxchg */
				if
				:: kick_below == KICK(d) -> kick_below = KICK(until_)
				:: else -> req = 1
				fi;
				d = 0
			}
		:: until_ == IDLE && pending && !req -> until_ = (inb -> ftick : NEVER)
#ifndef NOLAST
		:: until_ == IDLE && !pending && !req ->
			count_ended();
			count_armed();
			atomic { req = seen != ended_; seen = 0; ended_ = 0 }
#endif
		:: else
		fi;
		if
		:: req || wstop ->
			atomic { req = 0; until_ = 0; kick_below = 0; arms = 0; pending = 0 }
		:: else ->
			atomic {
				armed_seen = arms; arms = 0; pending = 0;
				soonest = NEVER; drained = 0;
				asleep = !kicked;
				CHECK_SLEEP;
				CHECK(attended, !(asleep && sleeping && !woken && busy == 0 &&
						  !wstop))
			}
			/* schedule() */
end_sleep:
			atomic {
				kicked || wstop || OVER(until_) ->
				asleep = 0; until_ = 0
			}
			kick_below = 0
		fi
	od;
	wgone = 1
}

/* The clock may stop, but while all sleep it goes on until the worker has something to do. */
proctype clock()
{
end_clock:
	do
	:: atomic {
		(now < MAXT + 1 && (!asleep || kicked || until_ > now)) ||
		(pdone == NP && (live || onrel || aside) && asleep && until_ > now &&
		 until_ < NEVER) -> now++
	   }
	od
}

#ifdef STOP
#ifdef NOGRACE
#define GRACE_PERIOD skip
#else
#define GRACE_PERIOD insec[0] == 0; insec[1] == 0
#endif
proctype stopper()
{
	byte old, new;
	bit ok, filed;

	/* queue_shutdown() */
	state = SHUTDOWN;
	GRACE_PERIOD;
	wstop = 1;
	wgone;
	/* queue_sweep() */
#ifdef STOPPEDEARLY
	state = STOPPED;
#endif
	drain();
	call_released();
	if
	:: atomic { inb -> inb = 0; TOUCH; old = word }
		do
		:: atomic {
			new = old & ~(A | F);
			CMPXCHG;
			if :: ok && (old & A) -> ENDED; handc++ :: else fi
		   }
		   if :: ok -> break :: else fi
		od;
		wake_waiters();
		atomic { old = 0; new = 0; ok = 0 }
	:: else
	fi;
	state = STOPPED;
	GRACE_PERIOD;
#ifndef NOLASTDRAIN
	drain();
	call_released();
#endif
	sdone = 1
}
#define STOPPING sdone && (freed || !(word & (A | Q | F)))
#else
#define STOPPING true
#endif

init
{
	atomic {
		run producer(0); run producer(1); run worker();
#ifndef LIVE
		run clock();
#endif
#ifdef STOP
		run stopper()
#endif
	}
#ifndef LIVE
	/* When no process can take a step. */
	atomic {
		timeout ->
		CHECK(over, pdone == NP && (END == 0 || (ended && freed)) && !live &&
			    armedc == cancc + expc + handc && (STOPPING))
	}
#endif
}

#ifdef LIVE
ltl ends { []<> (!waiting && (!ended || freed)) }
#endif
