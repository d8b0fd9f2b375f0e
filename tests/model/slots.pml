/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The free slots of a handle of several threads, lib/timeouts.c, for Spin. Each thread takes a
 * slot, arms it, and ends a timeout of any thread, again and again. Threads 0 and 1 share a list,
 * the others have one each. Memory is sequentially consistent; all of the lists' accesses that
 * others rely on are compare-and-swaps. scripts/model runs it.
 *
 *	-DTHREADS=n	number of threads (3)
 *	-DOPS=n		number of rounds of each thread (2)
 *	-DSLOTS=n	number of slots (2)
 *	-DVANDAL=n	somebody who shares the table invents n timeouts in any slots, and ends some
 *
 * Properties that are checked:
 *
 *	single		no slot is in two places: twice in lists, or in a list and in somebody's hands
 *	kept		in the end, all slots that were used are in a list or armed
 *	ends		all threads end, under weak fairness (ltl)
 *
 * Broken variants, which must fail:
 *
 *	-DNOCOUNT	removals are not counted
 *	-DNOCLAIM	a slot is freed whether it is in use or not; wrong only with a VANDAL
 *	-DREADCLAIM	whether it is in use is read, then stored; likewise
 *	-DLINKLATE	a slot is linked after it was put into the list
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef VANDAL
#define VANDAL 0
#endif
#define LISTS (THREADS - 1)
#define LIST(me) (me == 0 -> 0 : (me - 1))
#define IN_USE 15

bit single = 1, kept = 1;
#define CHECK(property, is) property = (is); assert(property)

byte head[LISTS], removals[LISTS];	/* a slot, plus 1; 0: none */
byte link[SLOTS];
byte fresh;
bit word[SLOTS];			/* armed */
bit listed[SLOTS], held[SLOTS];		/* where it is, for the checks */
byte ended;

#ifdef NOCOUNT
#define UNCHANGED(list) (head[list] == h)
#else
#define UNCHANGED(list) (head[list] == h && removals[list] == r)
#endif

/* shard_pop(): @got is a slot, plus 1, or 0 */
inline pop(list)
{
	got = 0;
	do
	:: atomic { h = head[list]; r = removals[list] };
		if
		:: h == 0 -> break
		:: else
		fi;
		next = link[h - 1];
		atomic {
			if
			:: UNCHANGED(list) ->
				head[list] = (next == IN_USE -> 0 : next);
				removals[list]++;
				got = h;
				CHECK(single, listed[got - 1] && !held[got - 1]);
				listed[got - 1] = 0;
				held[got - 1] = 1
			:: else
			fi
		}
		if
		:: got -> break
		:: else
		fi
	od;
	h = 0; r = 0; next = 0
}

/* hwtimer_slot_free() */
inline put(slot)
{
#if defined(NOCLAIM)
	mine = 1;
#elif defined(READCLAIM)
	mine = link[slot] == IN_USE;
	if :: mine -> link[slot] = 0 :: else fi;
#else
	atomic { mine = link[slot] == IN_USE; if :: mine -> link[slot] = 0 :: else fi };
#endif
	do
	:: !mine -> break
	:: mine ->
		atomic { h = head[LIST(me)]; r = removals[LIST(me)] };
#ifndef LINKLATE
		link[slot] = h;
#endif
		atomic {
			if
			:: UNCHANGED(LIST(me)) ->
				head[LIST(me)] = slot + 1;
				CHECK(single, !listed[slot]);
				listed[slot] = 1;
				mine = 0
			:: else
			fi
		}
#ifdef LINKLATE
		if :: !mine -> link[slot] = h :: else fi;
#endif
	od;
	h = 0; r = 0
}

/* slot_find() */
inline find()
{
	pop(LIST(me));
	if
	:: got
	:: else ->
		atomic {
			if
			:: fresh < SLOTS ->
				fresh++;
				got = fresh;
				CHECK(single, !held[got - 1] && !listed[got - 1]);
				held[got - 1] = 1
			:: else
			fi
		}
	fi;
	i = 0;
	do
	:: got || i == LISTS -> break
	:: else ->
		pop(i);
		i++
	od;
	i = 0
}

proctype thread(byte me)
{
	byte got, h, r, next, i, n, slot;
	bit mine;

	do
	:: n == OPS -> break
	:: else ->
		n++;
		find();
		if
		:: got ->
			atomic { link[got - 1] = IN_USE; held[got - 1] = 0 };
			word[got - 1] = 1
		:: else
		fi;
		got = 0;
		/* End one, or none. */
		slot = 0;
		do
		:: slot < SLOTS - 1 -> slot++
		:: break
		od;
		atomic { mine = word[slot]; word[slot] = 0 };
		if
		:: mine -> put(slot)
		:: else
		fi;
		mine = 0; slot = 0
	od;
	ended++
}

proctype vandal()
{
	byte n, slot;

	do
	:: n == VANDAL -> break
	:: else ->
		n++;
		slot = 0;
		do
		:: slot < SLOTS - 1 -> slot++
		:: break
		od;
		atomic { word[slot] = !word[slot]; slot = 0 }
	od
}

init
{
	byte i;

	atomic {
		do
		:: i < THREADS -> run thread(i); i++
		:: else -> break
		od;
		run vandal();
		i = 0
	};
	ended == THREADS;
#if !VANDAL
	do
	:: i < fresh ->
		CHECK(kept, listed[i] != word[i]);
		i++
	:: else -> break
	od
#endif
}

#ifdef LIVE
ltl ends { <> (ended == THREADS) }
#endif
