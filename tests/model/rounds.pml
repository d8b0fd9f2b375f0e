/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How what was released is called (release_some() in hwtimer_wheel.c) and who waits for that
 * (wheel_barrier()), for Spin: two CPUs with a queue of releases each, the worker, programs that
 * release for ever, and one who releases a timeout of his own, waits with a barrier, and looks
 * whether it was called. scripts/model runs it.
 *
 * Left out: all else that the worker does; sleeping (it goes round and round; that a kick comes
 * is wheel.pml's); more than MANY releases of others on a queue; their order, on which nobody
 * relies; passes in which the timeouts leave nothing of the budget.
 *
 *	-DBUSY=n	programs that release for ever, on CPU 0 and on CPU 1 (2)
 *	-DCHAIN		what is called releases another one, on CPU 0
 *	-DQUEUED	somebody else has turned QUEUED on and is about to push the timeout, so that
 *			it comes by the other queue
 *
 * Checked:
 *
 *	before		when the barrier returns, what was released before it has been called
 *
 * And, with weak fairness (ltl):
 *
 *	ends		the barrier returns, and what was released is called, whatever
 *			others release
 *
 * The broken twins, which have to fail by the property that they should:
 *
 *	-DRESTART	the worker begins at the first CPU again whenever its list is empty
 *	-DEMPTY		it answers when nothing is released
 *	-DASKEDLATE	it looks for who asks when a round begins, not when the pass does
 *	-DANSWERNEXT	it answers at the end of a round that had begun before
 *	-DNOGRACE	the barrier does not wait for a grace period
 */
#ifndef BUSY
#define BUSY 2
#endif
#define NC 2
#define MANY 2

byte others[NC];		/* on the CPU's queue of releases */
bit own[NC];			/* and the one that is waited for */
bit requests;			/* it is on the other queue, */
bit aside;			/* and was put aside */
bit section;			/* somebody is about to push it */
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
	run pusher();		/* all that remains to be done is RELEASE */
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
	byte cpu = NC, list, budget;
	bit mine, asked, answers, over;

	do
	:: asked = barrier;
		atomic { if :: requests -> requests = 0; aside = 1 :: else fi }
		/* release_some() */
		if
		:: atomic {
			cpu >= NC && !list && !mine ->
			cpu = 0; mine = aside; aside = 0
		   }
#ifdef ASKEDLATE
			asked = barrier;
#endif
			answers = asked
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
		answers = asked;
#endif
#ifdef EMPTY
		over = over && !others[0] && !others[1];
#endif
		if
		:: over && answers -> atomic { answers = 0; asked = 0; barrier = 0; done = 1 }
		:: else
		fi;
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
