/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * sched: read jobs that are due soon, schedule timeouts for them, and run them when due.
 */
#ifndef SCHED_H
#define SCHED_H

#include "lanes.h"

struct sched_options {
	__s64			window;	/* jobs are read so far ahead; what is later is a misfire */
	__s64			keep;	/* for how long outputs are kept */
	struct lane_options	lanes;
	/* Start what other processes plan and assign; plan nothing. */
	bool			executes;
};

/* Runs until SIGTERM or SIGINT, then waits for running commands. */
void sched_run(const struct sched_options *options);

#endif /* SCHED_H */
