/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * cron: expressions as of crontab(5), with a field for seconds before the five if there
 * are six:
 *
 *	seconds		0-59; 0 if it is not there
 *	minutes		0-59
 *	hours		0-23
 *	day of month	1-31
 *	month		1-12, or jan-dec
 *	day of week	0-7, or sun-sat; 0 and 7 are Sunday, as in crontab(5), and not as in
 *			Quartz
 *
 * A field is a list, by commas, of *, N, N-M, each of them with /STEP if wanted; N/STEP
 * begins at N. ? is another word for * in the fields of days. If both of these are
 * restricted, a day that matches either of them does; a field that begins with * or ? is
 * not restricted.
 *
 * A time is due if it reads so on the local clock (TZ). So what the clock skips in spring
 * is not due on that day, and what it shows twice in autumn is due twice. With TZ=UTC
 * there is no such thing.
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

/* False if @text is no such expression, and then @why says why. */
bool cron_parse(struct cron *c, const char *text, char *why, size_t size);

/* The first second after @after that matches; -1: none does within ten years. */
time_t cron_next(const struct cron *c, time_t after);

#endif /* CRON_H */
