/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a wheel that an hrtimer moves is kicked (hwtimer_hrtimer.c), for Spin: the
 * timer, the slices of the worker that it runs, and producers that make a request and
 * kick while the worker sleeps. Memory is sequentially consistent, as the barriers on
 * these paths are all full. scripts/model runs it.
 *
 *	-DPRODUCERS=n	how many; each makes two requests
 *
 * The broken twins, which have to fail:
 *
 *	-DNOLOOK	a slice does not look for a kick after it has started the timer
 *	-DLATECLEAR	it forgets kicks after it has looked at the requests, not before
 *
 * Checked: when nobody is at it any more, a request that was made is seen by a slice
 * that runs or will run at once; none waits for a timer that is set for later, or not
 * at all. Slices do not overlap, and nobody waits for ever.
 */
#ifndef PRODUCERS
#define PRODUCERS 3
#endif

#define OFF	0	/* the timer is not started */
#define NOW	1
#define LATER	2

byte timer = OFF;
bit kicked;
bit sleeping = 1;	/* what kick_below is about: producers have to kick */
byte requests;		/* made, and not seen by a slice */
byte busy;		/* producers between request and the end of the kick */
byte finished;
bit in_slice;

proctype producer()
{
	bit ring;
	byte n;

	for (n : 1 .. 2) {
		atomic { requests++; busy++ }
		/* Who finds it set clears it and kicks; the others rely on that one. */
		atomic { ring = sleeping; sleeping = 0 }
		if
		:: ring ->
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
	/* Later comes whenever it likes, but nobody may rely on it. */
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
		:: again -> sleeping = 0; timer = NOW	/* a little later, in fact */
		:: else ->
			if
			:: timer = LATER;	/* F2 */
#ifndef NOLOOK
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

/* Nobody is at it: the timer is on its way, or there is nothing to be seen. */
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
