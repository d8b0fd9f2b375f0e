/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kick of a wheel that an hrtimer drives (hwtimer_hrtimer.c), for Spin: the timer, the slices
 * of the worker that it runs, and producers that make a request and kick while the worker sleeps.
 * Memory is sequentially consistent, as all barriers on these paths are full. scripts/model runs
 * this model.
 *
 *	-DPRODUCERS=n	number of producers; each makes two requests
 *
 * Broken variants, which must fail:
 *
 *	-DNOCHECK	a slice does not check for a kick after it has started the timer
 *	-DLATECLEAR	a slice clears the kick after it has read the requests, not before
 *
 * Checked: when no producer is busy, each request is handled by a slice that runs or will run at
 * once. No request is left to a timer that is set for later, or that is not started. Slices do
 * not overlap, and nobody waits for ever.
 */
#ifndef PRODUCERS
#define PRODUCERS 3
#endif

#define OFF	0	/* the timer is not started */
#define NOW	1
#define LATER	2

byte timer = OFF;
bit kicked;
bit sleeping = 1;	/* for kick_below: producers have to kick */
byte requests;		/* made, and not seen by a slice */
byte busy;		/* producers between request and the end of the kick */
byte finished;
bit in_slice;

proctype producer()
{
	bit kick;
	byte n;

	for (n : 1 .. 2) {
		atomic { requests++; busy++ }
		/* Only the producer that clears sleeping kicks; the others rely on it. */
		atomic { kick = sleeping; sleeping = 0 }
		if
		:: kick ->
			kicked = 1;		/* K1 */
			timer = NOW		/* K2 */
		:: else
		fi;
		busy--
	}
	finished++
}

active proctype worker()
{
	byte seen;
	bit again;

	do
	:: atomic { timer == NOW -> timer = OFF; assert(!in_slice); in_slice = 1 }
		goto slice
	/* A timer for later may expire at any time, but no request may depend on it. */
	:: atomic { timer == LATER && finished < PRODUCERS -> timer = OFF; in_slice = 1 }
		goto slice
	:: atomic { finished == PRODUCERS && timer != NOW -> break }
slice:
#ifndef LATECLEAR
		kicked = 0;			/* F1 */
#endif
		sleeping = 0;
		atomic { seen = requests; requests = 0 }	/* wheel_advance() */
		sleeping = 1;			/* wheel_prepare_sleep() */
		again = requests > 0;
#ifdef LATECLEAR
		kicked = 0;
#endif
		if
		:: again -> sleeping = 0; timer = NOW	/* in the driver, a little later */
		:: else ->
			if
			:: timer = LATER;	/* F2 */
#ifndef NOCHECK
				if
				:: kicked -> timer = NOW	/* F3 */
				:: else
				fi
#endif
			:: skip			/* nothing is pending: not started */
			fi
		fi;
		in_slice = 0
	od
}

/* Whenever neither a producer nor a slice is busy, the timer is set for now if requests wait. */
active proctype monitor()
{
end:	atomic {
		(requests > 0 && !busy && !in_slice && timer != NOW) -> assert(false)
	}
}

init
{
	byte n;

	atomic {
		for (n : 1 .. PRODUCERS) {
			run producer()
		}
	}
}
