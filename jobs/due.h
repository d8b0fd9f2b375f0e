/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * due: when a job is due next, and what becomes of a due time. These functions read no clock; they
 * depend on nothing but their parameters, and on the machine's time zone.
 */
#ifndef DUE_H
#define DUE_H

#include "cron.h"
#include "times.h"

/* When a job is due: by @cron, every so many ns, or once. */
struct schedule {
	__s64		every;		/* 0: by cron, or once */
	bool		once;
	bool		from_end;	/* every so many ns after the last run has ended */
	__s64		first;		/* not before this; 0: no limit */
	struct cron	cron;
	GTimeZone	*zone;		/* for cron; NULL: the machine's */
};

/* Fill in the members for @cron, or say in @why what is wrong. @zone: NULL: the machine's. */
bool schedule_parse(struct schedule *s, const char *cron, const char *zone, char *why, size_t size);
void schedule_clear(struct schedule *s);

/* Returns the first due time after @after. @due is a due time that is not after @after. */
__s64 schedule_next(const struct schedule *s, __s64 due, __s64 after);

/* What to do about the due time of a job. */
struct plan {
	const char	*cause;		/* "due", "late" or "misfire" */
	bool		run;
	__s64		missed;		/* from here until @next all are missed; NEVER: none is */
	__s64		next;		/* the next one to be planned */
};

/* How much later than @due the job is to start, up to @jitter: always the same of a due time. */
__s64 jitter_of(__s64 job, __s64 due, __s64 jitter);

/*
 * The job is due at @due, which is close or past. It is a misfire if it is later than @tolerance:
 * the window, its jitter, and as long as the scheduler itself was held up.
 */
struct plan plan_due(const struct schedule *s, enum misfire misfire, __s64 due, __s64 now,
		     __s64 tolerance);

/*
 * Returns the next due time, instead of @next, now that the clock was set by @change, which may be
 * 0, or that the machine's time zone was changed, and nothing is planned after @now. What is due
 * every so often counts elapsed time. A due time that has passed stays. @ran: the last due time
 * that has a row, if not far ahead: the clock was set back by little, and nothing is due again.
 */
__s64 plan_again(const struct schedule *s, __s64 next, __s64 now, __s64 ran, __s64 change);

#endif /* DUE_H */
