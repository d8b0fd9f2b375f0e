// SPDX-License-Identifier: GPL-2.0-only
/*
 * due_check: tests jobs/due.c and jobs/cron.c with tables: of known answers, also in time zones
 * whose clocks change at unusual times, and of expressions that they have to refuse. Random ones
 * must not crash the parser. Needs no device, and reads no clock.
 *
 * SEED=N in the environment repeats a run. The status is 0 if everything is correct.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "due.h"

static const char cet[] = "CET-1CEST,M3.5.0,M10.5.0/3";

/* Half an hour; days that begin at 1 o'clock. */
static const char howe[] = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0";
static const char scl[] = "<-04>4<-03>,M9.1.6/24,M4.1.6/24";

/* In UTC: a time, and the first due time after it; with "clock", as often as the clock shows it. */
static const struct known {
	const char *zone, *text, *after, *due, *clock;
} known[] = {
	{ "UTC0", "*/2 * * * * *", "2026-01-01 00:00:00", "2026-01-01 00:00:02", NULL },
	{ "UTC0", "*/2 * * * * *", "2026-12-31 23:59:59", "2027-01-01 00:00:00", NULL },
	{ "UTC0", "15 10 * * *", "2026-01-31 10:15:00", "2026-02-01 10:15:00", NULL },
	{ "UTC0", "0 0 29 2 *", "2096-03-01 00:00:00", "2104-02-29 00:00:00", NULL },
	{ "UTC0", "0 0 31 * *", "2026-04-01 00:00:00", "2026-05-31 00:00:00", NULL },
	{ "UTC0", "0 12 * * MON-Fri", "2026-11-20 12:00:00", "2026-11-23 12:00:00", NULL },
	{ "UTC0", "0 12 ? * fri-sun", "2026-11-22 12:00:00", "2026-11-27 12:00:00", NULL },
	{ "UTC0", "0 12 * * 7", "2026-11-22 11:59:59", "2026-11-22 12:00:00", NULL },
	{ "UTC0", "0 12 * * 0", "2026-11-22 11:59:59", "2026-11-22 12:00:00", NULL },
	{ "UTC0", "0 12 * * 5-7", "2026-11-22 11:59:59", "2026-11-22 12:00:00", NULL },
	/* If both days are restricted, either matches; otherwise both must. */
	{ "UTC0", "0 0 13 * 5", "2026-11-08 00:00:00", "2026-11-13 00:00:00", NULL },
	{ "UTC0", "0 0 13 * 5", "2026-11-13 00:00:00", "2026-11-20 00:00:00", NULL },
	{ "UTC0", "0 0 13 * 5", "2026-12-11 00:00:00", "2026-12-13 00:00:00", NULL },
	{ "UTC0", "0 0 */2 * 5", "2026-11-13 00:00:00", "2026-11-27 00:00:00", NULL },
	{ "UTC0", "5/20,7 1-5/4,22 * * dec *", "2026-11-13 00:00:00", "2026-12-01 00:01:05", NULL },
	/* Ranges that wrap. */
	{ "UTC0", "0 8-2 * * *", "2026-11-13 01:00:00", "2026-11-13 02:00:00", NULL },
	{ "UTC0", "0 8-2 * * *", "2026-11-13 02:00:00", "2026-11-13 08:00:00", NULL },
	{ "UTC0", "0 9 * * FRI-MON", "2026-11-20 09:00:00", "2026-11-21 09:00:00", NULL },
	{ "UTC0", "0 9 * * FRI-MON", "2026-11-23 09:00:00", "2026-11-27 09:00:00", NULL },
	{ "UTC0", "0 9 * * 7-2", "2026-11-21 09:00:00", "2026-11-22 09:00:00", NULL },
	{ "UTC0", "50-10/15 * * * *", "2026-11-21 09:50:00", "2026-11-21 10:05:00", NULL },
	{ "UTC0", "0 0 1 nov-feb *", "2026-02-01 00:00:00", "2026-11-01 00:00:00", NULL },
	/* The last day, the nth day of the week, a year. */
	{ "UTC0", "0 0 L * *", "2028-02-01 00:00:00", "2028-02-29 00:00:00", NULL },
	{ "UTC0", "0 0 15,L * *", "2026-11-15 00:00:00", "2026-11-30 00:00:00", NULL },
	{ "UTC0", "0 9 * * FRI#2", "2026-11-01 00:00:00", "2026-11-13 09:00:00", NULL },
	{ "UTC0", "0 9 * * 1#5", "2026-12-01 00:00:00", "2027-03-29 09:00:00", NULL },
	{ "UTC0", "0 9 * * friL", "2026-11-01 00:00:00", "2026-11-27 09:00:00", NULL },
	{ "UTC0", "0 9 * * 7L", "2026-11-01 00:00:00", "2026-11-29 09:00:00", NULL },
	{ "UTC0", "0 0 0 1 1 * 2030", "2026-11-01 00:00:00", "2030-01-01 00:00:00", NULL },
	{ "UTC0", "0 0 0 1 1 * 2027/10", "2027-11-01 00:00:00", "2037-01-01 00:00:00", NULL },
	{ "UTC0", "0 0 0 1 1 * 2030", "2030-01-01 00:00:00", "never", NULL },
	{ "UTC0", "@daily", "2026-11-01 00:00:00", "2026-11-02 00:00:00", NULL },
	{ "UTC0", "@Weekly", "2026-11-02 00:00:00", "2026-11-08 00:00:00", NULL },
	{ "UTC0", "@hourly", "2026-11-01 00:00:00", "2026-11-01 01:00:00", NULL },
	{ "UTC0", "@monthly", "2026-11-01 00:00:00", "2026-12-01 00:00:00", NULL },
	{ "UTC0", "@yearly", "2026-11-01 00:00:00", "2027-01-01 00:00:00", NULL },
	/* Rare, and impossible. Both fields of days must match. */
	{ "UTC0", "0 0 29 2 */7", "2032-03-01 00:00:00", "2060-02-29 00:00:00", NULL },
	{ "UTC0", "0 0 29 2 */7", "2088-03-01 00:00:00", "2128-02-29 00:00:00", NULL },
	{ "UTC0", "0 0 30 2 *", "2026-11-01 00:00:00", "never", NULL },
	/* 2026-03-29, 02:00 is 03:00; 2026-10-25, 03:00 is 02:00 again */
	{ cet, "30 2 * * *", "2026-03-28 01:30:00", "2026-03-29 01:00:00", "2026-03-30 00:30:00" },
	{ cet, "30 2 * * *", "2026-03-29 01:00:00", "2026-03-30 00:30:00", "2026-03-30 00:30:00" },
	{ cet, "30 2 * * *", "2026-10-24 00:30:00", "2026-10-25 00:30:00", "2026-10-25 00:30:00" },
	{ cet, "30 2 * * *", "2026-10-25 00:30:00", "2026-10-26 01:30:00", "2026-10-25 01:30:00" },
	{ cet, "30 2 * * *", "2026-10-25 00:59:59", "2026-10-26 01:30:00", "2026-10-25 01:30:00" },
	{ cet, "0 3 * * *", "2026-03-28 02:00:00", "2026-03-29 01:00:00", "2026-03-29 01:00:00" },
	/* With * as the hour, these follow the clock. */
	{ cet, "30 * * * *", "2026-03-29 00:30:00", "2026-03-29 01:30:00", "2026-03-29 01:30:00" },
	{ cet, "30 * * * *", "2026-10-25 00:30:00", "2026-10-25 01:30:00", "2026-10-25 01:30:00" },
	{ "Europe/Berlin", "30 2 * * *", "2026-03-28 01:30:00", "2026-03-29 01:00:00", NULL },
	{ howe, "15 2 * * *", "2026-10-02 16:00:00", "2026-10-03 15:30:00", NULL },
	{ howe, "45 1 * * *", "2026-04-04 14:45:00", "2026-04-05 15:15:00", "2026-04-04 15:15:00" },
	{ scl, "30 0 * * *", "2026-09-05 04:30:00", "2026-09-06 04:00:00", NULL },
	{ scl, "30 23 * * *", "2026-04-05 02:30:00", "2026-04-06 03:30:00", "2026-04-05 03:30:00" },
	{ "America/New_York", "30 1 * * *", "2026-11-01 05:30:00", "2026-11-02 06:30:00", NULL },
};

/* Expressions to be refused, and a word of the message. */
static const struct bad {
	const char *text, *why;
} bad[] = {
	{ "", "5 fields" }, { "* * * *", "5 fields" }, { "* * * * * * * *", "5 fields" },
	{ "60 * * * *", "minutes" }, { "* 24 * * *", "hours" }, { "* * 0 * *", "month: " },
	{ "* * 32 * *", "day of month" }, { "* * * 13 *", "month" }, { "* * * 0 *", "month" },
	{ "* * * * 8", "day of week" }, { "60 * * * * *", "seconds" },
	{ "*/0 * * * *", "step" }, { "a * * * *", "minutes" },
	{ "1, * * * *", "minutes" }, { ",1 * * * *", "minutes" }, { "1-2-3 * * * *", "minutes" },
	{ "1/2/3 * * * *", "minutes" }, { "-1 * * * *", "minutes" }, { "1- * * * *", "minutes" },
	{ "*5 * * * *", "minutes" }, { "? * * * *", "minutes" }, { "* * * foo *", "month" },
	{ "* L * * *", "hours" }, { "* * * * monday", "day of week" },
	{ "* * L5 * *", "day of month" },
	{ "* * * * fri#6", "day of week" }, { "* * * * fri#2-3", "day of week" },
	{ "* * * * 8L", "day of week" }, { "* * * * friL/2", "day of week" },
	{ "0 * * * * * 1969", "year" }, { "0 * * * * * 2030-2027", "backward" },
	{ "@never", "5 fields" }, { "99999999999999999999 * * * *", "minutes" },
};

#define H	(3600 * NS_PER_S)
/* 2026-11-20, 12:00, in UTC */
#define NOON	(1795176000 * NS_PER_S)

#define FROM_END	"from the end"

/* What becomes of a due time, in seconds from noon. The window is 5 s. */
static const struct planned {
	const char *cron;	/* NULL: every hour; FROM_END: an hour after the last run */
	enum misfire misfire;
	int due, now, held;	/* for so long the scheduler was held up */
	const char *cause;
	bool run;
	int missed, next;	/* 1: nothing is */
} plans[] = {
	{ NULL, MISFIRE_NOTHING, 0, -5, 0, "due", true, 1, 3600 },
	{ NULL, MISFIRE_NOTHING, 0, 0, 0, "due", true, 1, 3600 },
	{ NULL, MISFIRE_NOTHING, 0, 5, 0, "late", true, 1, 3600 },
	{ NULL, MISFIRE_NOTHING, 0, 6, 0, "misfire", false, 0, 3600 },
	{ NULL, MISFIRE_ONCE, 0, 6, 0, "misfire", true, 1, 3600 },
	{ NULL, MISFIRE_NOTHING, 0, 7200, 0, "misfire", false, 0, 10800 },
	{ NULL, MISFIRE_ONCE, 0, 7201, 0, "misfire", true, 3600, 10800 },
	{ NULL, MISFIRE_ALL, 0, 7201, 0, "misfire", true, 1, 3600 },
	/* The database was locked for 16 s: the scheduler is to blame, and runs it. */
	{ NULL, MISFIRE_NOTHING, 0, 16, 16, "late", true, 1, 3600 },
	{ "0 12 * * *", MISFIRE_NOTHING, 0, 16, 16, "late", true, 1, 86400 },
	{ "0 12 * * *", MISFIRE_NOTHING, 0, 30, 16, "misfire", false, 0, 86400 },
	{ "0 12 * * *", MISFIRE_ONCE, 0, 86401, 0, "misfire", true, 86400, 172800 },
	{ FROM_END, MISFIRE_NOTHING, 0, 0, 0, "due", true, 1, 1 },
	{ FROM_END, MISFIRE_ONCE, 0, 9000, 0, "misfire", true, 1, 1 },
	{ FROM_END, MISFIRE_NOTHING, 0, 9000, 0, "misfire", false, 0, 12600 },
};

/* The next due time after the clock was set, in seconds from noon, which it is now. */
static const struct again {
	const char *cron;	/* NULL: every hour */
	int first;		/* 0: no limit */
	__s64 next;
	int ran, change;
	__s64 then;
} changes[] = {
	/* Elapsed time counts: 600 s are left. */
	{ NULL, 0, 600 + 3600, 30, -3600, 600 },
	{ NULL, 0, 600 - 3600, 0, 3600, 600 },
	{ NULL, 0, 600, 0, 0, 600 },
	/* It was calculated in 2098, and nobody knows what happened then. */
	{ NULL, 0, 600 + 72 * 365 * 86400LL, 0, 0, 600 },
	{ NULL, 7200, 7200, 0, 0, 7200 },
	{ NULL, 7200, 600 + 72 * 365 * 86400LL, 0, 0, 7200 + 600 },
	/* By cron, the new time counts. */
	{ "*/10 * * * *", 0, 600 + 3600, 0, -3600, 600 },
	{ "*/10 * * * *", 0, 72 * 365 * 86400LL, 0, 0, 600 },
	{ "*/10 * * * *", 0, 300, 0, 0, 600 },
	{ "*/10 * * * *", 5000, 300, 0, 0, 5400 },
	/* Set back by little: it has run already. */
	{ "*/10 * * * *", 0, 1200, 600, 0, 1200 },
	{ NULL, 0, 3630, 30, 0, 3630 },
	/* What has passed stays: it is late, or a misfire. */
	{ "*/10 * * * *", 0, -3000, 0, 3600, -3000 },
	{ "*/10 * * * *", 0, 0, 0, 0, 0 },
};

static time_t time_of(const char *text)
{
	struct tm tm = { };

	if (!strcmp(text, "never"))
		return -1;
	if (!strptime(text, "%F %T", &tm))
		errx(1, "%s: cannot parse the time", text);
	return timegm(&tm);
}

static void check_next(const struct known *k, bool by_clock, const char *wanted)
{
	struct schedule s = { };
	char why[128];
	__s64 due, next;

	if (!schedule_parse(&s, k->text, k->zone, why, sizeof(why)))
		errx(1, "'%s': %s", k->text, why);
	s.cron.by_clock |= by_clock;
	next = time_of(wanted) == -1 ? NEVER : time_of(wanted) * NS_PER_S;
	due = schedule_next(&s, 0, time_of(k->after) * NS_PER_S);
	if (due != next)
		errx(1, "'%s' after %s in %s: %lld, not %s", k->text, k->after, k->zone,
		     due / NS_PER_S, wanted);
	schedule_clear(&s);
}

static void check_known(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		check_next(&known[i], false, known[i].due);
		if (known[i].clock)
			check_next(&known[i], true, known[i].clock);
	}
}

static struct schedule schedule_of(const char *cron, __s64 first)
{
	struct schedule s = { .every = cron ? 0 : H, .first = first };
	char why[128];

	if (cron && !schedule_parse(&s, cron, "UTC", why, sizeof(why)))
		errx(1, "'%s': %s", cron, why);
	return s;
}

static void check_plans(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(plans); i++) {
		const struct planned *p = &plans[i];
		bool from_end = p->cron && !strcmp(p->cron, FROM_END);
		struct schedule s = schedule_of(from_end ? NULL : p->cron, 0);
		struct plan plan;

		s.from_end = from_end;
		plan = plan_due(&s, p->misfire, NOON + p->due * NS_PER_S,
				NOON + p->now * NS_PER_S, (5 + p->held) * NS_PER_S);
		if (strcmp(plan.cause, p->cause) || plan.run != p->run ||
		    plan.missed != (p->missed == 1 ? NEVER : NOON + p->missed * NS_PER_S) ||
		    plan.next != (p->next == 1 ? NEVER : NOON + p->next * NS_PER_S))
			errx(1, "plan %zu: %s, run %d, missed %lld, next %lld", i, plan.cause,
			     plan.run, (plan.missed - NOON) / NS_PER_S,
			     (plan.next - NOON) / NS_PER_S);
		schedule_clear(&s);
	}
}

static void check_again(void)
{
	__s64 then;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(changes); i++) {
		const struct again *a = &changes[i];
		struct schedule s = schedule_of(a->cron, a->first ? NOON + a->first * NS_PER_S : 0);

		then = plan_again(&s, NOON + a->next * NS_PER_S, NOON,
				  NOON + a->ran * NS_PER_S, a->change * NS_PER_S);
		if (then != NOON + a->then * NS_PER_S)
			errx(1, "again %zu: %lld", i, (then - NOON) / NS_PER_S);
		schedule_clear(&s);
	}
}

/* All values are as likely, and always the same. */
static void check_jitter(void)
{
	__s64 n, jitter, counts[10] = { };

	for (n = 0; n < 10000; n++) {
		jitter = jitter_of(1, NOON + n * NS_PER_S, 9);
		if (jitter < 0 || jitter > 9 || jitter != jitter_of(1, NOON + n * NS_PER_S, 9))
			errx(1, "jitter %lld", jitter);
		counts[jitter]++;
	}
	for (n = 0; n < 10; n++)
		if (counts[n] < 850 || counts[n] > 1150 || jitter_of(2, n, 0))
			errx(1, "jitter %lld: %lld times", n, counts[n]);
}

static void check_bad(void)
{
	struct cron c;
	char why[128];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (cron_parse(&c, bad[i].text, why, sizeof(why)))
			errx(1, "'%s' is accepted", bad[i].text);
		if (!strstr(why, bad[i].why))
			errx(1, "'%s': '%s' does not mention %s", bad[i].text, why, bad[i].why);
	}
}

/* Random words: whatever they are, they must not crash the parser. */
static void check_noise(void)
{
	static const char letters[] = "012345*,-/?nu\200L#  \t";
	char text[32] = "", why[128];
	struct cron c;
	int i, n;

	for (i = 0; i < 200000; i++) {
		for (n = 0; n < (int)sizeof(text) - 1; n++)
			text[n] = letters[random() % (sizeof(letters) - 1)];
		cron_parse(&c, text, why, sizeof(why));
	}
}

int main(void)
{
	const char *seed = getenv("SEED");
	unsigned int value = seed ? atoi(seed) : time(NULL);

	printf("# SEED=%u\n", value);
	srandom(value);
	check_known();
	check_plans();
	check_again();
	check_jitter();
	check_bad();
	check_noise();
	return EXIT_SUCCESS;
}
