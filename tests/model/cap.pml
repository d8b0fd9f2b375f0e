/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cap of a wheel, core/hwtimer_places.c, for Spin: contexts on two CPUs, each of which takes and
 * gives back places at random; the third one runs on the first CPU. Memory is sequentially
 * consistent; tests/litmus/cap-*.litmus check weaker orders. scripts/model runs it.
 *
 *	-DCONTEXTS=n	number of contexts (3)
 *	-DOPS=n		number of operations of each context (2)
 *	-DPLACES=n	number of places (3). A CPU's share is SHARE (1) of them
 *
 * Properties that are checked:
 *
 *	limit		no more places are taken than there are
 *	exact		a take fails only if all places were taken at some moment since it began
 *	kept		in the end all places are taken, free or in a credit
 *	ends		all operations end, under weak fairness (ltl)
 *
 * Broken variants, which must fail:
 *
 *	-DOPENLATE	a CPU counts as open when the places have left @free
 *	-DCLOSEEARLY	a CPU counts as closed before its places are in @free
 *	-DNOAGAIN	a refusal does not look again whether a CPU has been opened
 *	-DNOCLOSE	a refusal does not close the CPUs
 *	-DNOLOCK	opening and closing take no lock
 *	-DTAKENBYSTORE	@free is read, then stored without one place
 *	-DBYSTORE	a credit is read, then closed by a store
 *	-DBLIND		a place is given to a credit though it was closed meanwhile
 */
#ifndef OPS
#define OPS 2
#endif
#ifndef PLACES
#define PLACES 3
#endif
#ifndef SHARE
#define SHARE 1
#endif
#define MANY (SHARE + 1)
#ifndef CONTEXTS
#define CONTEXTS 3
#endif
#define CPU(me) (me % 2)
#define CLOSED 15

bit limit = 1, exact = 1, kept = 1;
#define CHECK(property, is) property = (is); assert(property)

byte free = PLACES, credit[2] = CLOSED;
byte open;			/* how many CPUs are open */
byte openings;			/* how often one was opened: the other part of @open */
bit locked;
byte taken, ended;
bit all_taken[CONTEXTS];		/* all places were taken at some moment since its take began */

#ifdef NOLOCK
#define LOCK skip
#define UNLOCK skip
#else
#define LOCK atomic { !locked -> locked = 1 }
#define UNLOCK locked = 0
#endif

inline note_taken()
{
	taken++;
	CHECK(limit, taken <= PLACES);
	if
	:: taken == PLACES -> all_taken[0] = 1; all_taken[1] = 1; all_taken[CONTEXTS - 1] = 1
	:: else
	fi
}

/* places_open(). Sets @done. */
inline open_cpu()
{
	LOCK;
	closed = credit[CPU(me)] == CLOSED;
#ifndef OPENLATE
	if :: closed -> atomic { open++; openings++ } :: else fi;
#endif
	atomic {
		done = free >= MANY;
		if
		:: done -> free = free - SHARE - 1; note_taken()
		:: else
		fi
	}
#ifdef OPENLATE
	if :: done && closed -> atomic { open++; openings++ } :: else fi;
#endif
	if
	:: done && closed -> credit[CPU(me)] = SHARE
	:: done && !closed -> credit[CPU(me)] = credit[CPU(me)] + SHARE
#ifndef OPENLATE
	:: !done && closed -> open--
#endif
	:: else
	fi;
	UNLOCK
}

/* places_close() */
inline close_cpus()
{
	i = 0;
	do
	:: i < 2 && credit[i] == CLOSED -> i++
	:: i < 2 && credit[i] != CLOSED ->
		LOCK;
#ifdef BYSTORE
		had = credit[i];
		credit[i] = CLOSED;
#else
		atomic { had = credit[i]; credit[i] = CLOSED }
#endif
#ifdef CLOSEEARLY
		if :: had != CLOSED -> open-- :: else fi;
		if :: had != CLOSED -> free = free + had :: else fi;
#else
		if :: had != CLOSED -> free = free + had :: else fi;
		if :: had != CLOSED -> open-- :: else fi;
#endif
		UNLOCK;
		had = 0;
		i++
	:: i == 2 -> break
	od;
	i = 0
}

/* places_take(). Sets @done if it got a place. */
inline take()
{
	atomic { all_taken[me] = taken == PLACES; done = 0; over = 0 };
	atomic {
		if
		:: credit[CPU(me)] != CLOSED && credit[CPU(me)] > 0 ->
			credit[CPU(me)]--;
			note_taken();
			done = 1;
			over = 1
		:: else
		fi
	}
	do
	:: over -> break
	:: !over ->
		atomic { was_open = open; was = openings };
		seen = free;
		if
		:: seen >= MANY -> open_cpu(); over = done
		:: else
		fi;
		if
		:: over
		:: !over && seen > 0 ->
			atomic {
				if
#ifdef TAKENBYSTORE
				:: free != seen -> free = seen - 1; note_taken(); done = 1; over = 1
#endif
				:: free == seen -> free--; note_taken(); done = 1; over = 1
				:: else
				fi
			}
#ifndef NOCLOSE
		:: !over && !seen && was_open -> close_cpus()
		:: !over && !seen && !was_open ->
#else
		:: !over && !seen ->
#endif
			atomic {
				over = open == was_open && openings == was;
#ifdef NOAGAIN
				over = 1;
#endif
				if :: over -> CHECK(exact, all_taken[me]) :: else fi
			}
		fi
	od;
	atomic { over = 0; seen = 0; was = 0; was_open = 0; closed = 0 }
}

/* places_give() */
inline give()
{
	seen = credit[CPU(me)];
	do
	:: over -> break
	:: !over && seen != CLOSED && seen < SHARE ->
		atomic {
			if
#ifdef BLIND
			:: credit[CPU(me)] == CLOSED -> credit[CPU(me)] = 0; taken--; over = 1
#endif
			:: credit[CPU(me)] == seen -> credit[CPU(me)]++; taken--; over = 1
			:: else -> seen = credit[CPU(me)]
			fi
		}
	:: !over && (seen == CLOSED || seen >= SHARE) ->
		atomic { free++; taken--; over = 1 }
	od;
	atomic { over = 0; seen = 0 }
}

proctype context(byte me)
{
	byte n, mine, i, seen, was, was_open, had;
	bit done, over, closed;

	do
	:: n < OPS ->
		if
		:: take(); mine = mine + done; done = 0
		:: mine -> give(); mine--
		fi;
		n++
	:: n == OPS -> break
	od;
	ended++
}

init
{
	atomic { run context(0); run context(1);
#if CONTEXTS > 2
		run context(2)
#endif
	};
	ended == CONTEXTS;
	if :: credit[0] != CLOSED -> free = free + credit[0] :: else fi;
	if :: credit[1] != CLOSED -> free = free + credit[1] :: else fi;
	CHECK(kept, free + taken == PLACES)
}

#ifdef LIVE
ltl ends { <> (ended == CONTEXTS) }
#endif
