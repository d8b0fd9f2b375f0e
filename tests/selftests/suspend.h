/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the machine is suspended, and woken by its clock. For guests only.
 */
#ifndef SUSPEND_H
#define SUSPEND_H

#include "common.h"

#define STATE	"/sys/power/state"
#define ALARM	"/sys/class/rtc/rtc0/wakealarm"

static inline bool can_suspend(void)
{
	FILE *file = fopen(STATE, "r");
	char states[128] = "";
	bool can;

	if (!file)
		return false;
	can = fgets(states, sizeof(states), file) && strstr(states, "mem") && !access(ALARM, W_OK);
	fclose(file);
	return can;
}

static inline void alarm_after(unsigned int seconds)
{
	FILE *file = fopen(ALARM, "w");

	/* An alarm that is set has to be cleared first. */
	if (!file || fputs("0", file) < 0 || fflush(file) ||
	    fprintf(file, "+%u", seconds) < 0 || fclose(file))
		die("%s: %s", ALARM, strerror(errno));
}

#endif /* SUSPEND_H */
