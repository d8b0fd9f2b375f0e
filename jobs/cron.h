/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * cron: expressions as in crontab(5). If there are six or seven fields, the first one is seconds:
 *
 *	seconds		0-59; 0 if there are five fields
 *	minutes		0-59
 *	hours		0-23
 *	day of month	1-31, or L, the last one
 *	month		1-12, or jan-dec
 *	day of week	0-7, or sun-sat; 0 and 7 are Sunday, as in crontab(5), unlike Quartz;
 *			fri#2 is the second Friday of the month, friL the last one
 *	year		1970-2099, only if there are seven fields
 *
 * A field is a comma-separated list of *, N or N-M, each optionally with /STEP; N/STEP begins at
 * N. A range may wrap, as 22-2 or fri-mon, but not one of years. In the two fields of days, ? means
 * *. If both of these are restricted, a day matches if it matches either of them; a field that
 * begins with * or ? is not restricted. @yearly, @monthly, @weekly, @daily and @hourly are known.
 *
 * Times are those of a time zone. If its clock skips a time in spring, what is due then is due
 * right after that; a time that it shows twice in autumn is due once. This is for expressions with
 * certain hours and minutes. Others, where one of these fields begins with *, follow the clock.
 */
#ifndef CRON_H
#define CRON_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <glib.h>

#define CRON_FIRST_YEAR	1970
#define CRON_YEARS	130

enum { SECONDS, MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS, YEARS, FIELDS };

struct cron {
	bool	set[FIELDS][CRON_YEARS];	/* does it match? from the first value on */
	bool	nth[7][6];		/* of each weekday: the nth; 0: the last */
	bool	last_day;		/* of the month */
	bool	every_year, every_day, every_weekday;	/* not restricted */
	bool	by_clock;			/* due whenever the clock shows this time */
};

/* Returns false if @text is not an expression, with the reason in @why. */
bool cron_parse(struct cron *c, const char *text, char *why, size_t size);

/* Returns the first matching second after @after, not before 1970; -1: not within forty years. */
time_t cron_next(const struct cron *c, GTimeZone *zone, time_t after);

#endif /* CRON_H */
