/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * cron: expressions as in crontab(5). If there are six fields, the first one is seconds:
 *
 *	seconds		0-59; 0 if there are five fields
 *	minutes		0-59
 *	hours		0-23
 *	day of month	1-31
 *	month		1-12, or jan-dec
 *	day of week	0-7, or sun-sat; 0 and 7 are Sunday, as in crontab(5), unlike Quartz
 *
 * A field is a comma-separated list of *, N or N-M, each optionally with /STEP; N/STEP begins at
 * N. In the two fields of days, ? means *. If both of these are restricted, a day matches if it
 * matches either of them; a field that begins with * or ? is not restricted.
 *
 * Times are those of the local clock (TZ). So a time that the clock skips in spring is not due on
 * that day, and a time that it shows twice in autumn is due twice. With TZ=UTC neither happens.
 */
#ifndef CRON_H
#define CRON_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <linux/types.h>

struct cron {
	__u64	seconds, minutes, hours, days, months, weekdays;	/* bit n: n matches */
	bool	every_day, every_weekday;	/* not restricted */
};

/* Returns false if @text is not an expression, with the reason in @why. */
bool cron_parse(struct cron *c, const char *text, char *why, size_t size);

/* Returns the first matching second after @after; -1: there is none within ten years. */
time_t cron_next(const struct cron *c, time_t after);

#endif /* CRON_H */
