/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The protocol of hwtimer_wheel.c, for Spin: one timeout and its word, two
 * producers with a request queue each, the worker, a clock that moves by ticks, and a
 * stopper. Each access to what several of them share is a step of its own; what only
 * the worker has goes with the step before. Memory is sequentially consistent: that it
 * is not is what tests/litmus is about. scripts/model runs it.
 *
 *	-DOPS0=n	operations of producer 0: arm, touch or cancel (1)
 *	-DOPS=n		and of producer 1 (1)
 *	-DARMS		they only arm
 *	-DMAXT=n	deadlines are tick 1 to n, at most 3 (1)
 *	-DEND=1		producer 0 ends with shutdown_sync, and frees; 2: with release; 3: with
 *			cancel_sync, and frees, once nobody arms any more
 *	-DCB=1		the callback may arm the timeout again; 2: it frees it, if it may
 *	-DSTOP		there is a stopper
 *	-DLIVE		for the search for starvation, which has no end: the callback may arm
 *			the timeout each time, and that is for the past whenever it does. Time
 *			does not move any more, and the counts are modulo 4
 *
 * Checked:
 *
 *	once		an arming ends once: it is cancelled, expires, or is handed back
 *	early		it does not expire before its deadline
 *	in_time		a worker sleeps over no deadline
 *	one_queue	nothing is pushed that is on a queue
 *	counted_	the count of those pending is never too low
 *	memory		nothing is touched that was freed: by a callback while somebody who
 *			armed is still in there, too; nothing is freed while the wheel
 *			holds it or its callback runs; what is released is called once
 *	bounded		after somebody has begun to wait with cancel_sync, one callback begins at
 *			the most
 *	attended	the worker does not sleep while somebody waits for it, and is not woken
 *	over		in the end nobody waits, no arming is left, the counts agree, and a
 *			stopped wheel holds nothing
 *
 * And, with weak fairness (ltl):
 *
 *	ends		who waits returns, and what is released is called
 *
 * The broken twins, which have to fail by the property that they should:
 *
 *	-DNOFLIGHT	without in_flight
 *	-DFLIGHTLATE	the worker looks at in_flight after the queue
 *	-DNOLAST	without the last look at the count before sleeping for ever
 *	-DNOLOOK	without the last look at the queues
 *	-DNOREARMRING	who needs no request to arm does not ring
 *	-DTOUCHONLY	an earlier deadline is written without a request
 *	-DNORECHECK	the worker claims what it has looked at, whatever it is by then
 *	-DCLAIMQUEUED	it claims a timeout with QUEUED set
 *	-DQUEUEDEARLY	it clears QUEUED before it takes the timeout from the queue
 *	-DFILEDLATE	it clears FILED after the callback
 *	-DREREAD	a producer looks at the timeout after its push
 *	-DNORUNNING	who waits does not look at running
 *	-DNOAGAIN	nor whether a callback came in between
 *	-DRUNNINGLATE	the worker sets running after it has claimed the timeout
 *	-DNOWAKE	the worker wakes nobody who waits
 *	-DNOCANCEL	it does not cancel for who waits what the callback arms
 *	-DNODETACH	who waits does not ask the worker to let go
 *	-DNOSTATE	arm does not look at the state
 *	-DNOGRACE	stop does not wait for a grace period
 *	-DSTOPPEDEARLY	it is STOPPED before it has been emptied
 *	-DNOLASTDRAIN	the queues are not drained once more after that
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

#define IDLE 15			/* of times: until somebody rings */
#define NEVER 14

#ifdef LIVE
#define SUM(n) ((n) & 3)
#define MOVE(tick) skip
#define OVER(until) ((until) < NEVER)
byte now = 2, cur = 2;		/* nothing is ever due later */
#else
#define SUM(n) (n)
#define MOVE(tick) cur = (tick)
#define OVER(until) ((until) != IDLE && now >= (until))
byte now, cur = 1;
#endif

#define SHUTDOWN 1		/* of states */
#define STOPPED 2

byte word;			/* the timeout's */
bit onq[3], onrel;		/* it is on a queue; queue 2: the worker's CPU, for callbacks */
byte inflight[NP];
byte state;
bit insec[NP];			/* a producer is in a section that is not preemptible */
byte armedc, cancc, expc, handc;	/* the wheel's counts */
byte kick_below = IDLE;
bit kicked;
bit running;			/* @running is the timeout */
bit waiting, woken;
bit sleeping;			/* somebody waits, and sleeps */
byte begun;			/* callbacks that began while somebody waits */
bit wstop, wgone;

/* The worker's own, and then the stopper's. */
bit inb;			/* it is in the bucket of tick: */
byte ftick;
bit letgo;			/* it was released, and put aside */
byte until_;
bit asleep;
byte armed_seen;
byte rearmed;			/* by the callback */

/* For what is checked. */
bit live;			/* it is pending */
bit freed;
byte using;			/* producers that may still touch the timeout */
byte busy;			/* producers in an operation */
byte pdone;
bit ended;			/* producer 0 has ended it */
bit cancelled;			/* it was, once: the callback does not free any more */
bit sdone;

bit once = 1, early = 1, in_time = 1, one_queue = 1, counted_ = 1, memory = 1, bounded = 1, attended = 1, over = 1;
#define CHECK(property, is) property = (is); assert(property)

#define TOUCH CHECK(memory, !freed)
#define CHECK_SLEEP CHECK(in_time, !(busy == 0 && asleep && !kicked && live && !wstop && \
				     until_ > DL(word) && until_ > cur))
#define ARMED CHECK(once, !live); live = 1
#define ENDED CHECK(once, live); live = 0

/* Everybody has these: old, new, ok. */
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

/* After its push a producer owns nothing of the timeout. */
inline push(c)
{
	atomic {
		TOUCH;
		CHECK(one_queue, !onq[0] && !onq[1] && !onq[2] && !onrel && !letgo);
		if :: RELEASING(new) -> onrel = 1 :: else -> onq[c] = 1 fi
	}
}

/* For the worker, c is 2: nobody else looks at its in_flight. */
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

/* The operation has happened. It has no further business with the timeout. */
inline linear(c)
{
	if :: (new & A) && !(old & A) -> ARMED :: else fi;
	if :: c < NP && using -> using-- :: else fi
}

/* Into ret: 1: it is pending already, 0: not, 9: it cannot be armed, 8: nor touched. */
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

/* Its section has begun, and down says what it saw of the state. */
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
#ifdef NOREARMRING
		:: ret < 2 && sooner ->
#else
		:: ret == 0 || (ret == 1 && sooner) ->
#endif
			kick_worker(d)
		:: else
		fi;
		/* Somebody else armed it, or ended it, in between. */
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
			new = (also -> (old & (Q | F)) | also : old & ~A);
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

/* One turn of wheel_end_sync() */
inline end_and_look(c)
{
	disarm((END == 1 -> D : 0));
#ifndef NODETACH
	detach(c);
#endif
	/* wheel_holds() */
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
			/* It may have gone while nobody looked. */
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
			/* It was refused, or a cancel. */
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
		/* The owner ends it once nobody else uses it. */
		pdone == NP;
#if END == 1 || END == 3
		waiting = 1;	/* and a full barrier */
		do
		:: true ->
			busy++;
			end_and_look(me);
			busy--;
			if
			:: held -> sleeping = 1; atomic { woken -> woken = 0; sleeping = 0 }
			:: else -> break
			fi
		od;
		waiting = 0;
		atomic { CHECK(memory, !(word & (A | Q | F)) && !freed); freed = 1; ended = 1 }
#else
		disarm(D);
		atomic { insec[me] = 1; down = state >= STOPPED }
		if
		:: down ->
			atomic {
				insec[me] = 0;
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
			kick_worker(0);
			insec[me] = 0
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

/* Within a step. */
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

/* The request is taken, and old is the word. */
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
		if
		:: ok && (new & F) ->
			if :: filed -> unfile() :: else fi;
			file(DL(new))
		:: ok && !(new & F) && (new & Q) -> letgo = 1
		:: else
		fi
	   }
	   if :: ok -> break :: else fi
	od;
	if :: !(new & Q) -> wake_waiters() :: else fi;
	atomic { old = 0; new = 0; ok = 0; filed = 0 }
}

#if END == 2
/* release_some(), the wheel's, and call_released() */
inline call_released()
{
	if
	:: atomic { onrel || letgo -> onrel = 0; letgo = 0; TOUCH; old = word }
		atomic { if :: old & F -> unfile() :: else fi }
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
	take(1);
#if CB == 1
	take(2)
#endif
}

/* Under the lock under which who waits begins and ends to. */
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

/* It is not in the bucket any more, and old is the word. */
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
	/* It is the last that anybody wants of it. */
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

#ifdef FLIGHTLATE
#define REQUESTED(i) \
	if :: onq[i] -> req = 1 :: else fi; \
	if :: inflight[i] -> req = 1 :: else fi
#else
#define REQUESTED(i) \
	if :: inflight[i] -> req = 1 :: else fi; \
	if :: onq[i] -> req = 1 :: else fi
#endif

inline requested()
{
#ifdef NOLOOK
	skip
#else
	REQUESTED(0);
	REQUESTED(1);
	if :: onq[2] || onrel -> req = 1 :: else fi
#endif
}

proctype worker()
{
	byte old, new, r, ret, d, target, seen, ended_;
	bit ok, counted, sooner, down, filed, claim, req;

	do
	:: wstop -> break
	:: atomic { else -> target = now }
		/* wheel_advance() */
		drain();
		do
		:: atomic { inb && ftick <= target -> MOVE(ftick + 1); inb = 0; TOUCH; old = word }
			settle()
		:: atomic { else -> if :: target + 1 > cur -> MOVE(target + 1) :: else fi }
			break
		od;
		call_released();

		/* wheel_prepare_sleep() */
		kicked = 0;	/* set_current_state(TASK_IDLE) */
		count_ended();
		count_armed();
		atomic {
			if
			:: seen == ended_ && seen == armed_seen -> until_ = IDLE; kick_below = IDLE
			:: seen != ended_ && seen == armed_seen ->
				until_ = (inb -> ftick : NEVER);
				kick_below = IDLE
			:: else ->
				until_ = (inb && ftick < target + 2 -> ftick : target + 2);
				kick_below = until_
			fi;
			armed_seen = seen; target = 0; seen = 0; ended_ = 0
		}
		requested();
#ifndef NOLAST
		if
		:: until_ == IDLE && !req ->
			count_ended();
			count_armed();
			atomic { req = seen != ended_; seen = 0; ended_ = 0 }
		:: else
		fi;
#endif
		if
		:: req || wstop -> atomic { req = 0; until_ = 0; kick_below = 0 }
		:: else ->
			atomic {
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

/* It may stop at any time, but in the end goes on to where the worker has something to do. */
proctype clock()
{
end_clock:
	do
	:: atomic {
		(now < MAXT + 1 && (!asleep || kicked || until_ > now)) ||
		(pdone == NP && live && asleep && until_ > now && until_ < NEVER) -> now++
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

	/* wheel_shutdown() */
	state = SHUTDOWN;
	GRACE_PERIOD;
	wstop = 1;
	wgone;
	/* wheel_sweep() */
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
	/* When nobody can do anything any more. */
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
