/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The protocol of hwtimer_wheel.c, for Spin: one timeout and its word, two
 * producers with a request queue each, the worker, a clock that moves by ticks,
 * and a stopper. Each access to shared memory is a step of its own; memory is
 * sequentially consistent, as the barriers on these paths are all full.
 * scripts/model runs it.
 *
 *	-DOPS=n		operations of producer 1; -DOPS0=n of producer 0
 *	-DMAXT=n	deadlines are tick 1 to n, at most 3
 *	-DEND=1		producer 0 ends with shutdown_sync, and frees; 2: with release
 *	-DCB=1		the callback may arm the timeout again
 *	-DMON		look for a worker that sleeps over a deadline
 *	-DSTOP		there is a stopper
 *
 * The broken twins, which have to fail:
 *
 *	-DNOFLIGHT	without in_flight
 *	-DNOLAST	without the last look at the count before sleeping for ever
 *
 * Checked: each arming ends once, and callers are told how (the books); never early;
 * nothing is touched that was freed; nothing is on two queues; the count of pending is
 * never too low; what was released is called once, while nothing runs; and nobody
 * waits for ever (no invalid end state).
 */
#ifndef OPS0
#define OPS0 1
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef CB
#define CB 0
#endif
#ifndef END
#define END 0
#endif
#define NP 2
#define A 1
#define Q 2
#define F 4
#define D 8
#define RELEASING(w) (((w) & D) && ((w) & REL))
#define DL(w) ((w) >> 4)
#define REL 16
#ifndef MAXT
#define MAXT 3
#endif
#define IDLE 15
#define NEVER 14

int word;			/* the timeout's word */
bit freed;
bit onq[3]; bit onrel; bit letgo; byte inflight[3];	/* queue 2: the worker's own CPU (callback) */
byte state;			/* 0 started 1 shutdown 2 stopped */
bit insec[3];
byte armedc, cancc, expc, handc;	/* the wheel's counts */
byte okarm, okcanc, okexp, okhand;	/* what callers were told */
byte ring_below = IDLE; bit kicked, asleep; byte until_;
bit running; byte now; bit wstop, wgone;
bit inb; byte ftick; byte cur = 1;	/* in a bucket, of which tick */
bit waiting, woken;
byte busy;			/* producers in an operation */
byte pdone; bit sdone;
byte armed_seen;

inline touchmem() { assert(!freed) }

inline doring(d)
{
	if
	:: d < ring_below -> /* read, then xchg */
		atomic { r = ring_below; ring_below = 0 }
		if :: r != 0 -> kicked = 1 :: else fi
	:: else
	fi
}

/* cmpxchg old -> new; push if it turns QUEUED on; ok tells */
inline change(c)
{
	if
	:: (new & Q) && !(old & Q) ->
#ifndef NOFLIGHT
		inflight[c]++;
#endif
		atomic { touchmem(); if :: word == old -> word = new; ok = 1 :: else -> old = word; ok = 0 fi }
		if
		:: ok -> atomic {
			touchmem();
			assert(!onq[0] && !onq[1] && !onq[2] && !onrel && !letgo);
			if :: RELEASING(new) -> onrel = 1 :: else -> onq[c] = 1 fi }
		:: else
		fi
#ifndef NOFLIGHT
		inflight[c]--
#endif
	:: else ->
		atomic { touchmem(); if :: word == old -> word = new; ok = 1 :: else -> old = word; ok = 0 fi }
	fi
}

inline arm(c, d, touch)
{
	atomic { insec[c] = 1; counted = 0; ret = 9 }
	if
	:: state >= 1 -> ret = 9
	:: else ->
		atomic { touchmem(); old = word }
		do
		:: atomic {
			ok = 0;
			if
			:: old & A -> ret = 1; sooner = d < DL(old); new = (d << 4) | (old & 7)
			:: !(old & A) && (old & D) -> ret = 9
			:: !(old & A) && !(old & D) && touch -> ret = 8
			:: else -> ret = 0;
				sooner = !(old & F) || d < DL(old);
				new = (d << 4) | (old & 7) | A
			fi;
			if :: sooner && ret < 2 -> new = new | Q :: else fi }
		   if
		   :: ret >= 2 -> break
		   :: else
		   fi;
		   if
		   :: ret == 0 && !counted -> armedc++; counted = 1
		   :: else
		   fi;
		   change(c);
		   if :: ok -> break :: else fi
		od;
		if
		:: ret == 0 -> okarm++
		:: else -> if :: counted -> armedc-- :: else fi
		fi;
		if
		:: ret == 0 || (ret == 1 && sooner) -> doring(d)
		:: else
		fi
	fi;
	insec[c] = 0
}

inline disarm(also)
{
	atomic { touchmem(); old = word }
	do
	:: (old & D) || (!(old & A) && also == 0) -> ret = 0; break
	:: else ->
		if
		:: also -> new = (old & (Q | F)) | also
		:: else -> new = old & ~A
		fi;
		atomic { touchmem(); if :: word == old -> word = new; ok = 1 :: else -> old = word; ok = 0 fi }
		if :: ok -> ret = old & A; break :: else fi
	od;
	if
	:: ret == A -> cancc++; okcanc++
	:: else
	fi
}

inline detach(c)
{
	insec[c] = 1;
	if
	:: state < 2 ->
		atomic { touchmem(); old = word }
		do
		:: (old & 6) == F -> new = old | Q; change(c); if :: ok -> break :: else fi
		:: else -> break
		od;
		if :: old & 6 -> doring(0) :: else fi
	:: else
	fi;
	insec[c] = 0
}

inline let_go(c)
{
	disarm(D);
	detach(c);
	touchmem();
	if
	:: word & 6 -> held = 1
	:: else -> held = running
	fi
}

proctype producer(byte me)
{
	int old, new; byte r, ret, n, d; bit ok, counted, sooner, held;

	n = 0;
	do
	:: n >= (me == 0 -> OPS0 : OPS) -> break
	:: n < (me == 0 -> OPS0 : OPS) ->
		atomic { busy++; n++;
			if :: d = 1 :: d = 2 :: MAXT > 2 -> d = 3 fi }
		if
		:: arm(me, d, 0)
		:: arm(me, d, 1)
		:: disarm(0)
		fi;
		atomic { busy--; old = 0; new = 0; r = 0; ret = 0; d = 0; ok = 0; counted = 0; sooner = 0 }
	od;
	atomic { pdone++; n = 0 }
	if
	:: me == 0 && END != 0 ->
		/* the owner: ends it once nobody else uses it */
		pdone == NP;
#if END == 1
		let_go(me);
		do
		:: !held -> break
		:: else ->
			waiting = 1;	/* prepare_to_wait: full barrier */
			let_go(me);
			if
			:: held -> woken == 1; atomic { woken = 0; waiting = 0 }
			:: else -> skip
			fi
		od;
		atomic { assert(!(word & 6)); freed = 1 }
#else
		disarm(D);
		insec[me] = 1;
		if
		:: state >= 2 -> insec[me] = 0; atomic { assert(!freed && !running && !(word & 6)); freed = 1 }
		:: else ->
			atomic { touchmem(); old = word }
			do
			:: new = old | REL | Q; change(me); if :: ok -> break :: else fi
			od;
			doring(0);
			insec[me] = 0
		fi
#endif
	:: else
	fi
}

inline wake_waiters()
{
	if :: waiting -> woken = 1 :: else fi
}

inline file(d)
{
	atomic { assert(!inb); touchmem(); inb = 1; if :: d > cur -> ftick = d :: else -> ftick = cur fi }
}

/* old, new, ok, filed: the worker's */
inline look_at()
{
	atomic { touchmem(); old = word; filed = (old & F) != 0 }
	do
	:: true ->
		if
		:: old & A -> new = (old & ~Q) | F
		:: else -> atomic {
			if :: filed -> assert(inb); inb = 0 :: else fi;
			filed = 0; new = old & ~(Q | F);
			if :: RELEASING(old) -> new = new | Q :: else fi }
		fi;
		atomic { touchmem(); if :: word == old -> word = new; ok = 1 :: else -> old = word; ok = 0 fi }
		if :: ok -> break :: else fi
	od;
	if
	:: new & F ->
		atomic { touchmem(); if :: filed -> assert(inb); inb = 0 :: else fi }
		file(DL(new))
	:: !(new & F) && (new & Q) -> letgo = 1
	:: else
	fi
}

/* let_go() and tell_released() */
inline tell_released()
{
	if
	:: atomic { onrel -> onrel = 0; letgo = 1 }
	:: else
	fi;
	if
	:: letgo -> letgo = 0;
		atomic { touchmem(); assert((word & Q) && RELEASING(word)); old = word }
		if :: old & F -> atomic { assert(inb); inb = 0 } :: else fi;
		atomic { touchmem(); word = word & ~(Q | F) }
		atomic { assert(!freed && !running); freed = 1 }
	:: else
	fi
}

inline drain()
{
	i = 0;
	do
	:: i < 3 ->
		if
		:: atomic { onq[i] -> onq[i] = 0 }; look_at()
		:: else
		fi;
		i++
	:: else -> break
	od
}

inline settle()
{
	inb = 0;
	atomic { touchmem(); old = word }
	do
	:: true ->
		claim = 0;
		if
		:: (old & A) && DL(old) > cur - 1 -> file(DL(old)); break
		:: else ->
			new = old & ~F;
			if
			:: (old & (A | Q)) == A -> running = 1; claim = 1; new = new & ~A
			:: else
			fi;
			atomic { touchmem(); if :: word == old -> word = new; ok = 1 :: else -> old = word; ok = 0 fi }
			if :: ok -> break :: else fi
		fi
	od;
	if
	:: claim ->
		expc++;
		atomic { okexp++; assert(DL(old) <= now) }
		/* the callback; may arm again */
		if
		:: true
		:: CB && okexp < 2 -> if :: d = 1 :: d = MAXT fi; arm(2, d, 0)
		fi;
		running = 0;
		wake_waiters()
	:: else ->
		if :: running -> running = 0; wake_waiters() :: else fi
	fi
}

inline count_pending()
{
	ended_ = cancc + expc + handc;
	seen = armedc;
	assert(seen >= ended_ || state > 0);
	pend = seen - ended_
}

inline requested()
{
	req = 0; i = 0;
	do
	:: i < 3 ->
		if :: inflight[i] -> req = 1 :: else fi;
		if :: onq[i] -> req = 1 :: else fi;
		i++
	:: else -> break
	od;
	if :: onrel -> req = 1 :: else fi
}

proctype worker()
{
	int old, new; byte r, ret, d, i, target, seen, ended_, pend; bit ok, counted, sooner, filed, claim, req;

	do
	:: wstop -> break
	:: else ->
		target = now;
		drain();
		/* settle_ticks: the only bucket of interest */
		do
		:: inb && ftick <= target -> cur = ftick + 1; settle()
		:: else -> break
		od;
		if :: target + 1 > cur -> cur = target + 1 :: else fi;
		tell_released();
		wake_waiters();

		atomic { old = 0; new = 0; r = 0; ret = 0; d = 0; ok = 0; counted = 0; sooner = 0; filed = 0; claim = 0; i = 0 }
		kicked = 0;	/* set_current_state(TASK_IDLE) */
		count_pending();
		if
		:: pend == 0 && seen == armed_seen -> until_ = IDLE; ring_below = IDLE
		:: pend != 0 && seen == armed_seen ->
			if :: inb -> until_ = ftick :: else -> until_ = NEVER fi;
			ring_below = IDLE
		:: else ->
			if
			:: inb && ftick < target + 2 -> until_ = ftick
			:: else -> until_ = target + 2
			fi;
			ring_below = until_
		fi;
		armed_seen = seen;
		requested();
		if :: req -> until_ = 0 :: else fi;
#ifndef NOLAST
		if
		:: until_ == IDLE -> count_pending(); if :: pend -> until_ = 0 :: else fi
		:: else
		fi;
#endif
		if
		:: until_ == 0 || wstop -> atomic { ring_below = 0; target = 0; ended_ = 0; seen = 0; pend = 0; req = 0; i = 0 }
		:: else ->
			atomic { asleep = !kicked; target = 0; ended_ = 0; seen = 0; pend = 0; req = 0; i = 0 }
			/* schedule() */
end_sleep:
			if
			:: kicked
			:: wstop
			:: until_ != IDLE && now >= until_
			fi;
			asleep = 0;
			ring_below = 0
		fi
	od;
	wgone = 1
}

/*
 * With nobody in an operation, a sleeping worker will wake in time: at the deadline,
 * or at the next tick if it is past.
 */
proctype monitor()
{
end_monitor:
	atomic { busy == 0 && asleep && !kicked && (word & A) && !freed && !wstop && until_ > DL(word) && until_ > cur -> assert(false) }
}

proctype clock()
{
end_clock:
	do
	:: atomic { now < MAXT + 1 && (!asleep || kicked || until_ > now) -> now++ }
	od
}

#ifdef STOP
proctype stopper()
{
	int old, new; byte r, ret, d, i; bit ok, filed;

	state = 1;
	insec[0] == 0; insec[1] == 0; insec[2] == 0;	/* synchronize_rcu() */
	wstop = 1; kicked = 1;
	wgone;
	drain();
	tell_released();
	wake_waiters();
	if
	:: inb ->
		inb = 0;
		atomic { touchmem(); old = word }
		do
		:: true ->
			new = old & ~(A | F);
			atomic { touchmem(); if :: word == old -> word = new; ok = 1 :: else -> old = word; ok = 0 fi }
			if :: ok -> break :: else fi
		od;
		if :: old & A -> handc++; okhand++ :: else fi
	:: else
	fi;
	state = 2;
	insec[0] == 0; insec[1] == 0; insec[2] == 0;
	drain();
	tell_released();
	wake_waiters();
	sdone = 1
}
#endif

#ifdef STOP
#define OVER (pdone == NP && busy == 0 && state == 2 && sdone && (END == 0 || freed))
#else
#define OVER 0
#endif

init
{
	atomic {
		run producer(0); run producer(1); run worker(); run clock();
#ifdef MON
		run monitor();
#endif
#ifdef STOP
		run stopper()
#endif
	}
	/* the books, when all is over */
end_wait:
	OVER;
	assert(okarm == okcanc + okexp + okhand);
	assert(armedc == cancc + expc + handc);
	assert(freed || !(word & (A | Q | F)))
}
