/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The protocol of the table, timeouts in memory that programs and the kernel share, for Spin. Programs
 * write the words of slots, push slots and read records without a call; the kernel takes what was
 * pushed, looks at slots when it is time, and writes records. scripts/model runs it.
 *
 * Memory: each CPU has a buffer of stores, which become visible later, to all other CPUs at once:
 * stores to one place in order, stores to different places in any order. A full barrier, and an
 * atomic operation that writes, wait until the buffer is empty. A compare-and-exchange that fails
 * is only a load, as on arm64. A CPU sees its own stores. Not covered: loads that pass loads, and an
 * atomic operation's store that becomes visible after later loads; the litmus tests table-* have
 * these.
 *
 * Slots; threads that do the operations of a script; the kernel, which serves one call at a time, as
 * it has one lock; its timer; a clock. A tick is one unit, there is no
 * slack, so a look at tick t serves words from t on.
 *
 * Scenarios: see begin(). Also:
 *
 *	-DMAX=n		the clock's end (2)
 *	-DFREE=n	from then on a tick comes when nothing else moves (MAX - 1)
 *	-DOTHER=n	another timeout, for which the kernel looks at n (after the clock's end)
 *	-DBUDGET=n	how many slots a slice takes, and how many it advances (2)
 *	-DWALKS		a completion ring has one entry, not two
 *	-DASLEEP	a poller sleeps at first
 *	-DSTILL		thread 0 may stand still for ever between two of its steps
 *
 * Properties that are checked:
 *
 *	once		each arming ends exactly once: reported, cancelled, or handed back
 *	in_time		when nothing moves any more, nothing is armed that was due a tick ago
 *	attended	then no thread waits, and none sleeps beside an unread record
 *	over		then a table that was stopped holds nothing
 *	rests		at last nothing moves, under weak fairness (ltl)
 *
 * Broken variants, which must fail. Of programs:
 *
 *	-DNOBARRIER	no barrier after a word is stored by arm
 *	-DVISITLATE	visit = 0 is stored after the push
 *	-DNOFENCE	there is no barrier between visit = 0 and the claim of next
 *	-DNOCLAIM	next is not claimed
 *	-DOWNWORD	the word is not read again before it is compared with kick_before
 *	-DQUEUEDNOKICK	nor is it compared if visit was 0
 *	-DNOQUEUEDBARRIER	arm has its barrier only if visit is not 0, and then reads visit again
 *	-DWORDEARLY	the word is read again before the push, as if there were no barrier after it
 *	-DPLAIN		a cancel reads the word and then stores it
 *	-DREADNOCHECK	a reader does not check what is not due
 *	-DTRIESUP	nor what it could not exchange
 *	-DPERIODNOCHECK	nor the period that it has stored
 *	-DHEADADDED	readers increment cq_head
 *	-DRINGLATE	they read which ring is current after they have found their own empty
 *	-DWALKTAKEN	they say that they have walked before they do
 *	-DWALKBIT	instead of counting walks the kernel sets a flag, and readers exchange it with 0
 *			before they walk; wrong only if one of them may stand still
 *	-DWALKLATE	they read how many walks are due after a walk
 *	-DNOSTOPFLAG	arm does not read STOP's flag
 *	-DOWNSTOP	an arm that finds the flag takes back only the word that it has stored, not
 *			any word of its arming
 *
 * Of the kernel:
 *
 *	-DNOKBARRIER	no barrier between visit and the second read of the word
 *	-DNOAGAIN=n	no second read of the word if it was 0 (1), later (2)
 *	-DDROPS		what is no longer due at the second read is dropped
 *	-DNEXTLATE	next is cleared after the slot was settled
 *	-DRECORDEARLY	a record is published before visit = ~0
 *	-DKICKLATE	kick_before is stored after the last look at pushed
 *	-DNOENDBARRIER	there is no barrier between these
 *	-DNOENDLOOK	there is no last look at pushed
 *	-DNOBUDGETTIMER	it starts no timer if it finds something, and may not take it
 *	-DNOMORETIMER	nor if it had to leave something
 *	-DFIREDKEPT	fired is not cleared
 *	-DFIREDEARLY	it is cleared before records are published
 *	-DFIREDLAST	poll reads it after the others
 *	-DNOCLOCK	poll does not compare the clock with wake_at
 *	-DNOWAKE	nobody is woken for records
 *	-DNOSTOPVISIT	STOP does not store visit
 *	-DNODROP	the kernel goes on after STOP
 *	-DRESTART	its timer is started for now though nothing is left to do
 *
 * Variants that hold: -DKICKEARLY (kick_before is stored first of all, even before the timer is
 * started); -DANYORDER (tail, wake_at and kick_before become visible in any order); -DNOAGAIN=3 (no
 * second read of the word of what was due: the reader looks).
 */
#ifndef MAX
#define MAX 2
#endif
#ifndef FREE
#define FREE (MAX - 1)
#endif
#ifndef OTHER
#define OTHER (MAX + 1)
#endif
#ifndef BUDGET
#define BUDGET 2
#endif
#ifdef WALKS
#define CAP 1
#else
#define CAP 2
#endif
#ifndef NOAGAIN
#define NOAGAIN 0
#endif

#define SLOTS 2
#ifdef GROW
#define RINGS 2
#else
#define RINGS 1
#endif

/* Places in memory. */
#define WORD(s) (s)		/* deadline | arming << 4; 0: not armed */
#define VISIT(s) (2 + (s))
#define NEXT(s) (4 + (s))
#define PUSHED 6
#define TAIL(g) (7 + (g))
#define RING 9
#define WALK 10			/* how many walks the kernel has asked for */
#define WAKE_AT 11
#define KICK_BEFORE 12
#define STOPPED 13
#define PLACES 14
#define DEPTH 2

#define NEVER 15		/* also ~0 */
#define AT(deadline, arming) ((deadline) | (arming) << 4)
#define DEADLINE(word) ((word) & 15)
#define ARMING(word) ((word) >> 4)
#define END 1			/* of the list of pushed slots; else the index + 2 */

#define THREADS 3		/* CPUs */
#define KERNEL 3

typedef cpu {
	byte n;
	byte place[DEPTH];
	byte value[DEPTH]
}
cpu b[4];
byte mem[PLACES];
/* What only atomic operations write. */
byte head[RINGS], walked, entry[4];

bit once = 1, in_time = 1, attended = 1, over = 1;
#define CHECK(property, is) property = (is); assert(property)

byte now;
bit ended[4];			/* of an arming */
byte periods;			/* of arming 1, to come */
byte stuck;			/* thread 0 stands still, at this slot + 1 */

/* Scripts, which do not change. */
#define ARM 1
#define TOUCH 2
#define CANCEL 3
#define ENTER 4
#define READ 5			/* one record */
#define POLL 6			/* and all records, for ever */
#define STOP 7			/* stop, and hand back */
hidden byte script_what[12], script_slot[12], script_word[12], script_len[3];
byte scripts_over;

/* Of the kernel. */
#define ONE 1			/* slice; else ENTER */
byte call[THREADS];
bit waiting[THREADS], woken[THREADS];
byte filed[SLOTS], wheel, chain = END, timer = OTHER, other = OTHER;
byte tail[RINGS], ring, walks;
bit locked, fired, stopped;

#define HAS(c, k, p) (b[c].n > k && b[c].place[k] == (p))
#define BUFFERED(c, p) (HAS(c, 0, p) || HAS(c, 1, p))
#define OWN(c, k, p, or) (HAS(c, k, p) -> b[c].value[k] : or)
#define KERNEL_LOAD(p) OWN(KERNEL, 1, p, OWN(KERNEL, 0, p, mem[p]))
/* Programs that have all barriers leave nothing in the buffers. */
#if defined(NOBARRIER) || defined(NOQUEUEDBARRIER) || defined(NOFENCE) || defined(VISITLATE)
#define BUFFERS
#define LOAD(c, p) OWN(c, 1, p, OWN(c, 0, p, mem[p]))
#else
#define LOAD(c, p) mem[p]
#endif
#define BARRIER(c) b[c].n == 0

inline store(c, p, v)
{
	b[c].n < DEPTH;
	b[c].place[b[c].n] = p;
	b[c].value[b[c].n] = v;
	b[c].n++
}
#define STORE(c, p, v) atomic { store(c, p, v) }
/*
 * Stores and waits. Nothing comes between, so the order of becoming visible is all there is.
 */
#define STORE_BARRIER(c, p, v) atomic { BARRIER(c) -> mem[p] = v }

/* then is done with the store. */
#define CAS(c, p, from, to, then) \
	atomic { \
		if \
		:: !BUFFERED(c, p) && mem[p] != (from) -> ok = 0 \
		:: b[c].n == 0 && mem[p] == (from) -> mem[p] = to; ok = 1; then \
		fi \
	}

inline ends(word)
{
	CHECK(once, !ended[ARMING(word)]);
	ended[ARMING(word)] = 1
}

#ifdef STILL
#define MAY_STAND_STILL if :: skip :: t == 0 -> stuck = s + 1; goto end_still fi
#else
#define MAY_STAND_STILL skip
#endif

inline wake()
{
	woken[0] = woken[0] || waiting[0];
	woken[1] = woken[1] || waiting[1];
	woken[2] = woken[2] || waiting[2]
}

#define CALL(how) atomic { BARRIER(t) -> call[t] = how }; call[t] == 0

proctype thread(byte t)
{
	byte pc, what, s, w, old, v, first, h, g, d;
	bit ok, reading, walking, mine, f;

next:
	skip;
	d_step {
		reading = 0; mine = 0; ok = 0; old = 0; v = 0; h = 0; d = 0; f = 0;
		if
		:: pc < script_len[t] ->
			what = script_what[4 * t + pc];
			s = script_slot[4 * t + pc];
			w = script_word[4 * t + pc];
			pc++
		:: else -> what = 0; s = 0; w = 0; g = 0
		fi
	}
	if
	:: what == 0 -> scripts_over++; goto end_thread
	:: what == ARM ->
		mine = 1;
#if defined(NOBARRIER) || defined(NOQUEUEDBARRIER)
		atomic { !LOAD(t, WORD(s)) -> store(t, WORD(s), w) }
#else
		atomic { BARRIER(t) && !mem[WORD(s)] -> mem[WORD(s)] = w }
#endif
		goto check
	:: what == TOUCH || what == CANCEL ->
		do
		:: old = LOAD(t, WORD(s));
			if :: old == 0 || ARMING(old) != ARMING(w) -> goto next :: else fi;
			if
			:: what == CANCEL ->
#ifdef PLAIN
				STORE_BARRIER(t, WORD(s), 0);
				ends(old);
				goto next
#else
				CAS(t, WORD(s), old, 0, ends(old));
				if :: ok -> goto next :: else fi
#endif
			:: else ->
				CAS(t, WORD(s), old, w, skip);
				if
				:: ok && w < old -> goto check
				:: ok && w >= old -> goto next
				:: else
				fi
			fi
		od
	:: what == ENTER -> CALL(ENTER); goto next
#ifdef ASLEEP
	:: what == READ -> goto reap
	:: what == POLL -> goto asleep
#else
	:: what == READ || what == POLL -> goto reap
#endif
#ifdef STOPS
	:: what == STOP ->
#ifndef NODROP
		atomic { !locked -> stopped = 1 };
#endif
		STORE_BARRIER(t, STOPPED, 1);
#ifndef NOSTOPVISIT
		STORE_BARRIER(t, VISIT(0), NEVER);
#endif
		/* The program exchanges the word. */
		atomic {
			BARRIER(t);
			if :: mem[WORD(0)] -> ends(mem[WORD(0)]); mem[WORD(0)] = 0 :: else fi
		}
		goto next
#endif
	fi;

check:	/* Will the kernel look at w in time? */
#ifdef NOQUEUEDBARRIER
	if :: LOAD(t, VISIT(s)) -> BARRIER(t) :: else fi;
#endif
	atomic {
		v = LOAD(t, VISIT(s));
		if :: v && DEADLINE(w) >= v -> goto checked :: else fi
	}
	if
	:: v && DEADLINE(w) < v ->
#ifdef NOFENCE
		STORE(t, VISIT(s), 0);
#elif !defined(VISITLATE)
		STORE_BARRIER(t, VISIT(s), 0);
#endif
#ifdef WORDEARLY
		old = LOAD(t, WORD(s));
#endif
		/* push() */
#ifdef NOCLAIM
		ok = 1;
#else
		CAS(t, NEXT(s), 0, END, skip);
#endif
		MAY_STAND_STILL;
		do
		:: ok ->
			/* Nobody else accesses the claimed next. */
			atomic { BARRIER(t) -> first = mem[PUSHED]; mem[NEXT(s)] = first }
			MAY_STAND_STILL;
			CAS(t, PUSHED, first, s + 2, skip);
			ok = !ok
		:: else -> break
		od;
		first = 0;
#ifdef VISITLATE
		STORE(t, VISIT(s), 0);
#endif
		BARRIER(t)
	:: else ->
#ifdef QUEUEDNOKICK
		goto checked
#endif
	fi;
#if defined(STOPS) && !defined(NOSTOPFLAG)
	if
	:: LOAD(t, STOPPED) ->
		do
		:: mine ->
			old = LOAD(t, WORD(s));
			if
#ifdef OWNSTOP
			:: old != w -> break
			:: old == w ->
#else
			:: ARMING(old) != ARMING(w) -> break
			:: ARMING(old) == ARMING(w) ->
#endif
				CAS(t, WORD(s), old, 0, ends(old));
				if :: ok -> break :: else fi
			fi
		:: else -> break
		od;
		goto checked
	:: else
	fi;
#endif
#ifdef OWNWORD
	old = w;
#elif defined(WORDEARLY)
	if :: !v -> old = LOAD(t, WORD(s)) :: else fi;
#else
	old = LOAD(t, WORD(s));
#endif
	atomic {
		if
		:: old && DEADLINE(old) < LOAD(t, KICK_BEFORE) -> BARRIER(t); call[t] = ENTER
		:: else
		fi
	}
	call[t] == 0;
checked:
	if :: reading -> goto looked :: else -> goto next fi;

reap:
	atomic {
		reading = 1; mine = 0; ok = 0; old = 0; v = 0; s = 0; w = 0; h = 0;
#ifndef WALKS
	}
#else
		d = walked
	}
	h = LOAD(t, WALK);
	if
	:: h != d ->
#ifdef WALKBIT
		STORE_BARRIER(t, WALK, 0);
#elif defined(WALKTAKEN)
		walked = h;
#endif
		walking = 1;
		goto look
	:: else
	fi;
#endif
	/* Rings are drained in order. */
#ifndef GROW
#elif defined(RINGLATE)
	if
	:: g + 1 < RINGS && head[g] == LOAD(t, TAIL(g)) ->
		if :: g < LOAD(t, RING) -> CHECK(attended, head[g] == tail[g]); g++ :: else fi
	:: else
	fi;
#else
	d = LOAD(t, RING);
	atomic {
		if
		:: g < d && head[g] == LOAD(t, TAIL(g)) ->
			CHECK(attended, head[g] == tail[g]);
			g++
		:: else
		fi
	}
#endif
	h = head[g];	/* before the tail */
	atomic {
		if
		:: h == LOAD(t, TAIL(g)) -> goto drained
		:: else -> s = entry[2 * g + h % 2]
		fi
	}
look:
	w = LOAD(t, WORD(s));
	if
	:: w == 0 -> goto looked
	:: w && DEADLINE(w) <= now ->
		MAY_STAND_STILL;
		if
		:: periods && ARMING(w) == 1 ->
			CAS(t, WORD(s), w, AT(DEADLINE(w) + 1, 1), periods--);
			if
			:: ok ->
				MAY_STAND_STILL;
				w = w + 1;
#ifdef PERIODNOCHECK
				goto looked;
#endif
				BARRIER(t);
				goto check
			:: else
			fi
		:: else ->
			CAS(t, WORD(s), w, 0, ends(w));
			if :: ok -> goto looked :: else fi
		fi;
		if
		:: goto look
#ifdef LATER
		:: true ->	/* It has tried often enough. */
#ifdef TRIESUP
			goto looked
#endif
#endif
		fi
	:: w && DEADLINE(w) > now
	fi;
#ifdef READNOCHECK
	goto looked;
#else
	BARRIER(t);
	goto check;
#endif
looked:
	mine = 0;
	MAY_STAND_STILL;
	if
	:: walking && s + 1 < SLOTS -> s++; goto look
	:: walking && s + 1 == SLOTS ->
#ifdef WALKLATE
		h = LOAD(t, WALK);
#endif
		/* d was read before the number of walks. */
		atomic {
#ifndef WALKBIT
			if :: walked == d -> walked = h :: else fi;
#endif
			walking = 0
		}
		goto reap
	:: else ->
#ifdef HEADADDED
		head[g]++
#else
		atomic { if :: head[g] == h -> head[g]++ :: else fi }
#endif
	fi;
	if :: what == POLL -> goto reap :: else -> goto next fi;

drained:
	if :: what == READ -> goto next :: else fi;
poll:
	skip;
	atomic {
		BARRIER(t) ->
		reading = 0; s = 0; w = 0; v = 0; h = 0; old = 0; d = 0; ok = 0;
		waiting[t] = 1
	}
#ifdef FIREDLAST
	v = LOAD(t, TAIL(0));
#else
	f = fired;
#endif
#ifndef NOCLOCK
	f = f || now >= LOAD(t, WAKE_AT);
#endif
#ifdef FIREDLAST
	f = f || fired;
#endif
	if :: f -> CALL(ONE) :: else fi;
#ifdef FIREDLAST
	if :: f -> v = LOAD(t, TAIL(0)) :: else fi;
#endif
	f = 0;
	atomic {
#ifndef FIREDLAST
		v = LOAD(t, TAIL(0));
#endif
		ok = head[0] != v || walked != LOAD(t, WALK);
#ifdef GROW
		ok = ok || head[1] != LOAD(t, TAIL(1));
#endif
		v = 0;
		if :: ok -> ok = 0; waiting[t] = 0; woken[t] = 0; goto reap :: else fi
	}
asleep:
end_asleep:
	atomic { woken[t] -> woken[t] = 0 }
	goto poll;
#ifdef STILL
end_still:
	false;
#endif
end_thread:
	skip
}

/* One call after the other. */
#define SERVE(t) :: atomic { call[t] && !locked -> locked = 1; c = t } goto slice
#define AGAIN(s) (wheel + 1)	/* file as due: the first tick that was not visited */
#define DUE(s) (filed[s] <= t0)

inline publish(p, v)
{
#if defined(ANYORDER) || defined(NOENDBARRIER)
	atomic { if :: KERNEL_LOAD(p) != v -> store(KERNEL, p, v) :: else fi }
#else
	mem[p] = v
#endif
}

proctype kernel()
{
	byte c, s, w, v, t0, takes, advances, next_;
	bit made, advance, f, more, due;
#ifdef RECORDEARLY
	byte hidden_slot;
#endif

end_kernel:
	do
	SERVE(0)
	SERVE(1)
	SERVE(2)
	od;

slice:
	atomic {
		locked = 1;
		t0 = now; takes = BUDGET; advances = BUDGET
#ifdef FIREDEARLY
		; f = fired; fired = 0
#endif
	}
take:
	atomic {
		advance = 0;
		if
		:: chain == END && KERNEL_LOAD(PUSHED) != END ->
			BARRIER(KERNEL);
			chain = mem[PUSHED]; mem[PUSHED] = END
		:: else
		fi
	}
take_next:
	atomic {
		if
		:: chain != END && takes ->
			BARRIER(KERNEL);
			takes--;
			s = chain - 2;
			filed[s] = NEVER;
			chain = mem[NEXT(s)];
#ifndef NEXTLATE
			mem[NEXT(s)] = 0
#endif
		:: else -> goto advance_next
		fi
	}
	atomic {
		w = KERNEL_LOAD(WORD(s));
		if :: !chain -> chain = END :: else fi;
		if
		:: !stopped && w && DEADLINE(w) <= t0 ->
			filed[s] = (DEADLINE(w) > wheel -> DEADLINE(w) : AGAIN(s));
			store(KERNEL, VISIT(s), 0);
#ifdef NEXTLATE
			mem[NEXT(s)] = 0;
#endif
			goto take_next
		:: else -> goto settle
		fi
	}
advance_next:
	atomic {
		advance = 1;
		wheel = t0;
		if
		:: advances && DUE(0) -> s = 0
		:: advances && DUE(1) -> s = 1
		:: else -> goto end_slice
		fi;
		advances--;
		filed[s] = NEVER;
		w = KERNEL_LOAD(WORD(s))
	}
settle:
	atomic {
		due = 0; v = NEVER;
		if
		:: stopped || !w
		:: !stopped && w && DEADLINE(w) > t0 -> v = DEADLINE(w); filed[s] = v
		:: !stopped && w && DEADLINE(w) <= t0 -> due = 1
		fi;
	}
#ifdef NOKBARRIER
	STORE(KERNEL, VISIT(s), v);
#elif defined(RECORDEARLY)
	if :: due :: else -> STORE_BARRIER(KERNEL, VISIT(s), v) fi;
#else
	STORE_BARRIER(KERNEL, VISIT(s), v);
#endif
	atomic {
		if
		:: stopped || NOAGAIN == (due -> 3 : (w -> 2 : 1))
		:: else -> w = KERNEL_LOAD(WORD(s))
		fi;
		if
		:: stopped || !w
		:: !stopped && w && !due && DEADLINE(w) < v ||
		   !stopped && w && due && DEADLINE(w) > t0 ->
#ifdef DROPS
			if :: due :: else ->
#endif
			filed[s] = AGAIN(s);
			store(KERNEL, VISIT(s), 0)
#ifdef DROPS
			fi
#endif
		:: !stopped && w && !due && DEADLINE(w) >= v
		:: !stopped && w && due && DEADLINE(w) <= t0 ->
			made = 1;
#ifdef RECORDEARLY
			hidden_slot = s + 1;
#endif
			if
			:: tail[ring] - head[ring] < CAP ->
				entry[2 * ring + tail[ring] % 2] = s;
				tail[ring]++
#ifdef WALKBIT
			:: else -> BARRIER(KERNEL); mem[WALK] = 1
#else
			:: else -> walks++; store(KERNEL, WALK, walks)
#endif
			fi
		fi;
#ifdef NEXTLATE
		if :: !advance -> BARRIER(KERNEL); mem[NEXT(s)] = 0 :: else fi;
#endif
		w = 0; v = 0; s = 0; due = 0;
		if :: advance -> goto advance_next :: else -> goto take_next fi
	}

end_slice:
	atomic {
		if :: other <= t0 -> other = NEVER :: else fi;
		more = chain != END || DUE(0) || DUE(1);
		next_ = (filed[0] < other -> filed[0] : other);
		next_ = (filed[1] < next_ -> filed[1] : next_);
#ifndef NOMORETIMER
		next_ = (more -> t0 : next_)
#endif
	}
#ifdef KICKEARLY
	publish(KICK_BEFORE, (more -> 0 : next_));
#endif
#ifdef RESTART
	timer = t0;
#else
	timer = next_;
#endif
	publish(TAIL(ring), tail[ring]);
	publish(WAKE_AT, next_);
#ifdef RECORDEARLY
	if
	:: hidden_slot -> STORE(KERNEL, VISIT(hidden_slot - 1), NEVER); hidden_slot = 0
	:: else
	fi;
#endif
#if !defined(KICKEARLY) && !defined(KICKLATE)
	publish(KICK_BEFORE, (more -> 0 : next_));
#endif
#ifndef NOENDLOOK
#ifndef NOENDBARRIER
	BARRIER(KERNEL);
#endif
	if
	:: KERNEL_LOAD(PUSHED) == END
	:: KERNEL_LOAD(PUSHED) != END && takes -> goto take
	:: KERNEL_LOAD(PUSHED) != END && !takes ->
		more = 1;
#ifndef NOBUDGETTIMER
		timer = t0;
		publish(WAKE_AT, t0);
		publish(KICK_BEFORE, 0)
#endif
	fi;
#endif
#ifdef KICKLATE
	publish(KICK_BEFORE, (more -> 0 : next_));
#endif
	atomic {
		BARRIER(KERNEL);
#if !defined(FIREDEARLY)
		f = fired;
#ifndef FIREDKEPT
		fired = 0;
#endif
#endif
		locked = 0
	}
	atomic {
#ifndef NOWAKE
		if :: made && !f -> wake() :: else fi;
#endif
		made = 0; f = 0; t0 = 0; next_ = 0; advance = 0; takes = 0; advances = 0;
		if
		:: call[c] == ENTER && more -> more = 0; !locked -> goto slice
		:: else -> call[c] = 0; c = 0; more = 0; goto end_kernel
		fi
	}
}

proctype hrtimer()
{
end_timer:
	do
	:: atomic { timer <= now -> timer = NEVER };
		fired = 1;
		atomic { wake() }
	od
}

proctype clock()
{
end_clock:
	do
	:: now < FREE -> now++
	od
}

/* Store k of the buffer becomes visible. */
inline flush(c, k)
{
	mem[b[c].place[k]] = b[c].value[k];
	i = k;
	do
	:: i + 1 < b[c].n ->
		b[c].place[i] = b[c].place[i + 1];
		b[c].value[i] = b[c].value[i + 1];
		i++
	:: else -> break
	od;
	b[c].place[i] = 0; b[c].value[i] = 0;
	b[c].n--;
	i = 0
}

#define FLUSH(c) \
	:: d_step { b[c].n > 0 -> flush(c, 0) } \
	:: d_step { b[c].n > 1 && b[c].place[1] != b[c].place[0] -> flush(c, 1) }

proctype memory()
{
	byte i;

end_memory:
	do
#ifdef BUFFERS
	FLUSH(0)
	FLUSH(1)
	FLUSH(2)
#endif
	FLUSH(KERNEL)
	od
}

#ifdef GROW
/* A larger ring is published, under the lock. */
proctype grow()
{
	atomic { !locked -> ring = 1; store(KERNEL, RING, 1) }
}
#endif

inline does(t, what, s, word)
{
	script_what[4 * t + script_len[t]] = what;
	script_slot[4 * t + script_len[t]] = s;
	script_word[4 * t + script_len[t]] = word;
	script_len[t]++
}

/* Armed, and filed by the kernel. */
inline filed_at(s, word)
{
	mem[WORD(s)] = word;
	mem[VISIT(s)] = DEADLINE(word);
	filed[s] = DEADLINE(word);
	if :: filed[s] < timer -> timer = filed[s] :: else fi
}

inline begin()
{
#if defined(ARMS)		/* ENTER beside it */
	does(0, ARM, 0, AT(1, 1));
	does(1, ENTER, 0, 0);
#elif defined(EARLIER)		/* touched before the kernel has looked, or later */
	does(0, ARM, 0, AT(3, 1));
	does(0, TOUCH, 0, AT(1, 1));
#elif defined(LATER)		/* the reader finds it not due */
	does(0, ARM, 0, AT(1, 1));
	does(0, TOUCH, 0, AT(2, 1));
#elif defined(REARM)		/* cancelled, and armed again */
	does(0, ARM, 0, AT(1, 1));
	does(0, CANCEL, 0, AT(1, 1));
	does(0, ARM, 0, AT(1, 2));
#elif defined(CANCELS)		/* by another thread */
	does(0, ARM, 0, AT(1, 1));
	does(1, CANCEL, 0, AT(1, 1));
#elif defined(SAME)		/* two threads push one slot */
	does(0, ARM, 0, AT(4, 1));
	does(1, TOUCH, 0, AT(3, 1));
	does(1, TOUCH, 0, AT(1, 1));
#elif defined(QUEUED)		/* a touch before the push, while another slot is due */
	filed_at(1, AT(1, 2));
	does(0, ARM, 0, AT(4, 1));
	does(1, TOUCH, 0, AT(1, 1));
#elif defined(TWO)		/* two slots */
	does(0, ARM, 0, AT(3, 1));
	does(1, ARM, 1, AT(1, 2));
#ifdef TOUCHES
	does(1, TOUCH, 0, AT(1, 1));
#endif
#elif defined(READERS)		/* two records, two readers or three */
	filed_at(0, AT(1, 1));
	filed_at(1, AT(1, 2));
	does(0, READ, 0, 0);
	does(1, READ, 0, 0);
#elif defined(FULL)		/* the ring; a slot is used again after it was walked */
	filed_at(0, AT(1, 1));
	filed_at(1, AT(1, 2));
	does(0, ARM, 1, AT(1, 3));
	does(0, ENTER, 0, 0);
#elif defined(GROW)		/* records before and after it */
	filed_at(0, AT(1, 1));
	filed_at(1, AT(1, 2));
	does(1, ENTER, 0, 0);
	run grow();
#elif defined(WAKES)		/* a slot is used again; a poller beside another thread's ENTER */
	does(0, ARM, 0, AT(1, 1));
	does(0, ARM, 0, AT(1, 2));
	does(1, ENTER, 0, 0);
#elif defined(STOPS)
	if
	:: skip
	:: mem[VISIT(0)] = 1; filed[0] = 1	/* of an arming that was cancelled */
	fi;
#if STOPS == 1			/* two stoppers */
	does(0, ARM, 0, AT(1, 1));
	does(0, ARM, 0, AT(1, 2));
	does(1, STOP, 0, 0);
#else				/* beside a reader, or who touches, which has an old record to read */
	tail[0] = 1;
	mem[TAIL(0)] = 1;
	does(0, ARM, 0, AT(1, 1));
#if STOPS == 2
	does(1, READ, 0, 0);
#else
	does(1, TOUCH, 0, AT(2, 1));
#endif
#endif
	does(2, STOP, 0, 0);
#endif
#ifdef READER
	does(1, READ, 0, 0);
#endif
#ifdef ENTERS
	does(1, ENTER, 0, 0);
#endif
#ifdef POLLER
	does(1, POLL, 0, 0);
#endif
#ifdef PERIOD
	periods = PERIOD;
#endif
#ifndef STOPS
	does(2, POLL, 0, 0);
#endif
#ifdef ASLEEP
	waiting[2] = 1;
#endif
	mem[WAKE_AT] = timer;
	mem[KICK_BEFORE] = timer
}

#define POLLS(t) (script_len[t] && script_what[4 * t + script_len[t] - 1] == POLL)
#define LATE(s) (mem[WORD(s)] && DEADLINE(mem[WORD(s)]) < MAX && stuck != s + 1)

init
{
	atomic {
		mem[VISIT(0)] = NEVER; mem[VISIT(1)] = NEVER;
		filed[0] = NEVER; filed[1] = NEVER;
		mem[PUSHED] = END;
		begin();
		run memory(); run kernel(); run hrtimer(); run clock();
		run thread(0); run thread(1); run thread(2)
	}
	/* When no process can take a step. */
	do
	:: now < MAX -> timeout -> now++
	:: else -> break
	od;
	atomic {
		timeout ->
#ifdef STOPS
		CHECK(over, !mem[WORD(0)]);
#endif
		CHECK(attended, scripts_over + (stuck != 0) + POLLS(1) + POLLS(2) == THREADS);
#ifndef STOPS
		CHECK(attended, waiting[2] && waiting[1] == POLLS(1));
		CHECK(attended, head[0] == tail[0] && walked == mem[WALK]);
#ifdef GROW
		CHECK(attended, head[1] == tail[1]);
#endif
		CHECK(in_time, !LATE(0) && !LATE(1))
#endif
	}
}

#ifdef LIVE
#define REST (scripts_over == 2 && waiting[2] && !woken[2] && !call[2] && !locked && !fired)
ltl rests { <>[] REST }
#endif
