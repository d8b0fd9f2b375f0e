/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calling the release functions of timeouts (release_some() in hwtimer_queue.c) and waiting for
 * them (queue_barrier()), for Spin: two CPUs with a queue of releases each, the worker, programs
 * that release timeouts for ever, and a releaser that releases one timeout, waits with a barrier,
 * and checks that its release function was called. scripts/model runs this model.
 *
 * Not modelled: all other work of the worker; sleeping (the worker loops; wheel.pml checks that
 * kicks arrive); more than MANY releases of other timeouts on a queue; their order, on which
 * nobody relies; passes of more than three calls.
 *
 *	-DBUSY=n	number of programs that release for ever: on CPU 0, and on CPU 1 (2)
 *	-DCHAIN		each release function releases another timeout, on CPU 0
 *	-DQUEUED	another producer has set QUEUED and is about to push the timeout, so the
 *			worker finds it on the queue of requests
 *
 * Property that is checked:
 *
 *	before		when the barrier returns, the release function of each timeout released
 *			before it has been called
 *
 * With weak fairness (ltl):
 *
 *	ends		the barrier returns, and the release function is called, whatever others
 *			release
 *
 * Broken variants, each of which must fail by the property that "checks" names:
 *
 *	-DRESTART	the worker returns to the first CPU whenever its list is empty
 *	-DEMPTY		the worker completes a barrier only when nothing is released
 *	-DASKEDLATE	the worker reads barrier when a release cycle begins, not when the pass does
 *	-DUNDRAINED	a release cycle that begins before the drain of the pass is over completes
 *			the barrier that the pass has read
 *	-DANSWERNEXT	the worker completes a barrier at the end of a release cycle that began
 *			before it
 *	-DNOGRACE	the barrier does not wait for a grace period
 */
#ifndef BUSY
#define BUSY 2
#endif
#define NC 2
#define MANY 2

byte others[NC];		/* timeouts of busy() on the CPU's queue of releases */
/* Where the releaser's timeout is: */
bit own[NC];			/* on the CPU's queue of releases */
bit requests;			/* on the queue of requests */
bit aside;			/* taken from there, and put aside for the next release cycle */
bit section;			/* a producer is about to push it */
bit barrier;			/* wheel->barrier */

bit called, waiting, done;
bit before = 1;
#define CHECK(property, is) property = (is); assert(property)

proctype busy(byte cpu)
{
	do
	:: atomic { others[cpu] < MANY -> others[cpu]++ }
	od
}

proctype pusher()
{
	requests = 1;
	section = 0
}

proctype releaser()
{
#ifdef QUEUED
	section = 1;
	run pusher();		/* the release only sets RELEASE */
#else
	own[1] = 1;
#endif
	waiting = 1;
#ifndef NOGRACE
	section == 0;
#endif
	barrier = 1;
	done;
	CHECK(before, called);
	waiting = 0
}

inline call(mine)
{
	if
	:: mine -> called = 1; mine = 0
	:: list -> list--;
#ifdef CHAIN
		if :: others[0] < MANY -> others[0]++ :: else fi
#endif
	fi
}

proctype worker()
{
	byte cpu = NC, list, budget, drains, settles;
	bit mine, asked, drained, answers, over, rest = 1;

	do
	:: if
		:: rest -> rest = 0;
			asked = barrier;
			/* For how many more calls the drain, and then what is due, use up the budget. */
			if :: drains = 0 :: drains = 1 fi;
			if :: settles = 0 :: settles = 1 fi
		:: !rest && drains -> drains--
		:: !rest && !drains && settles -> settles--
		:: else
		fi;
		if
		:: !drains -> atomic { if :: requests -> requests = 0; aside = 1 :: else fi };
			drained = asked
		:: else
		fi;
		/* release_some() */
		if
		:: atomic {
			cpu >= NC && !list && !mine ->
			cpu = 0; mine = aside; aside = 0
		   }
			answers = drained;
#ifdef ASKEDLATE
			answers = barrier;
#endif
#ifdef UNDRAINED
			answers = asked;
#endif
		:: else
		fi;
		if :: budget = 1 :: budget = 2 fi;
		do
		:: (list || mine) && !budget -> break
		:: (list || mine) && budget ->
			atomic { call(mine); budget-- }
#ifdef RESTART
			if :: !list && !mine -> cpu = 0 :: else fi
#endif
		:: !list && !mine && cpu < NC ->
			atomic { list = others[cpu]; mine = own[cpu]; others[cpu] = 0; own[cpu] = 0 }
			cpu++
		:: else -> over = 1; break
		od;
#ifdef ANSWERNEXT
		answers = drained;
#endif
#ifdef EMPTY
		over = over && !others[0] && !others[1];
#endif
		if
		:: over && answers ->
			atomic { answers = 0; asked = 0; drained = 0; barrier = 0; done = 1 }
		:: else
		fi;
		rest = !drains && !settles;
		atomic { over = 0; budget = 0 }
	od
}

init
{
	atomic {
		run worker(); run releaser();
#if BUSY > 0
		run busy(0);
#endif
#if BUSY > 1
		run busy(1)
#endif
	}
}

#ifdef LIVE
ltl ends { []<> !waiting }
#endif
