/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * sched: read what is due soon, put it on the wheel, run it when it is due.
 */
#ifndef SCHED_H
#define SCHED_H

#include "lanes.h"

struct sched_options {
	__s64			window;	/* how far ahead jobs are read, and how late is a misfire */
	struct lane_options	lanes;
	const char		*device;
};

/* Until SIGTERM or SIGINT, and until what runs then has ended. */
void sched_run(const struct sched_options *options);

#endif /* SCHED_H */
