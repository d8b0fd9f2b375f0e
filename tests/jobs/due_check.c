// SPDX-License-Identifier: GPL-2.0-only
/*
 * due_check: tests jobs/due.c and jobs/cron.c with tables of known answers, with expressions that
 * they have to refuse, and with random expressions changest an oracle that checks every minute, in
 * time zones whose clocks change at unusual times. Needs no device, and reads no clock.
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

#define DAY		86400
/* How far the oracle searches. */
#define NEAR		(40L * DAY)

static const char cet[] = "CET-1CEST,M3.5.0,M10.5.0/3";

/* With offsets in whole minutes, as the oracle steps by minutes. */
static const char *const zones[] = {
	"UTC0", cet, "EST5EDT,M3.2.0,M11.1.0", "<+0545>-5:45",
	"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",	/* half an hour */
	"<-04>4<-03>,M9.1.6/24,M4.1.6/24",	/* days that begin at 1 o'clock */
};

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

static unsigned long long state;

/* xorshift64* */
static unsigned int below(unsigned int n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1dULL >> 33) % n;
}

/* A random field, as text and as the set of its values. */
struct field {
	char text[64];
	bool set[60], star;
};

static const char *const month_names[] = {
	"jan", "FEB", "Mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"
};

static const char *const day_names[] = { "Sun", "MON", "tue", "wed", "thu", "fri", "sat" };

static const struct limits {
	int first, last;
	const char *const *names;
} limits[] = {
	{ 0, 59, NULL }, { 0, 59, NULL }, { 0, 23, NULL }, { 1, 31, NULL },
	{ 1, 12, month_names }, { 0, 6, day_names },
};

static void put_value(char *to, const struct limits *l, int value)
{
	if (l->names && below(2))
		strcat(to, l->names[value - l->first]);
	else
		sprintf(to + strlen(to), "%d", value);
}

static void make_field(struct field *f, const struct limits *l)
{
	int terms = 1 + below(3), number = l->last - l->first + 1, from, to, step;

	memset(f, 0, sizeof(*f));
	if (!below(3)) {
		step = below(2) ? 1 : 1 + below(number);
		f->star = true;
		sprintf(f->text, step > 1 ? "*/%d" : "*", step);
		for (from = l->first; from <= l->last; from += step)
			f->set[from] = true;
		return;
	}
	while (terms--) {
		from = l->first + below(number);
		to = from;
		step = 1;
		put_value(f->text, l, from);
		switch (below(4)) {
		case 0:
			to = from + below(l->last - from + 1);
			strcat(f->text, "-");
			put_value(f->text, l, to);
			if (below(2)) {
				step = 1 + below(10);
				sprintf(f->text + strlen(f->text), "/%d", step);
			}
			break;
		case 1:
			step = 1 + below(number);
			to = l->last;
			sprintf(f->text + strlen(f->text), "/%d", step);
			break;
		}
		for (; from <= to; from += step)
			f->set[from] = true;
		if (terms)
			strcat(f->text, ",");
	}
}

static bool matches_minute(const struct field *f, const struct tm *tm)
{
	bool day = f[3].set[tm->tm_mday], weekday = f[5].set[tm->tm_wday];

	return f[1].set[tm->tm_min] && f[2].set[tm->tm_hour] && f[4].set[tm->tm_mon + 1] &&
		(f[3].star || f[5].star ? day && weekday : day || weekday);
}

static time_t shown_at(time_t t)
{
	struct tm tm;

	localtime_r(&t, &tm);
	return timegm(&tm);
}

/* Returns the first match of what a clock shows from @from on, before @to; -1: there is none. */
static time_t match_shown(const struct field *f, time_t from, time_t to)
{
	struct tm tm;

	for (; from < to; from++) {
		gmtime_r(&from, &tm);
		if (!matches_minute(f, &tm))
			from += 59 - from % 60;
		else if (f[0].set[tm.tm_sec])
			return from;
	}
	return -1;
}

/*
 * The first due time after @after, up to @until, or -1. It goes through all minutes, as a person
 * does who looks at a clock: what it skips is due at once, and what it shows again is not.
 */
static time_t oracle(const struct field *f, time_t after, time_t until, bool by_clock)
{
	time_t t = (after - 2 * DAY) / 60 * 60, seen = shown_at(t), shown, from, match;

	for (; t <= until; t += 60) {
		shown = shown_at(t);
		from = by_clock || shown < seen ? shown : seen;
		if (!by_clock && shown + 60 <= seen)
			continue;
		/* The minute that begins at t, after what was skipped. */
		for (; (match = match_shown(f, from, shown + 60)) >= 0; from = match + 1) {
			time_t due = match < shown ? t : t + match - shown;

			if (due > after)
				return due <= until ? due : -1;
		}
		seen = shown + 60;
	}
	return -1;
}

static void use_zone(const char *zone)
{
	setenv("TZ", zone, 1);
	tzset();
}

/* A time up to two days before the zone's clock changes, if it ever does. */
static time_t near_change(void)
{
	time_t t = (time_t)below(66 * 365) * DAY;
	struct tm tm, then;
	int i;

	localtime_r(&t, &tm);
	for (i = 0; i < 300 * 24; i++, t += 3600) {
		localtime_r(&t, &then);
		if (then.tm_gmtoff != tm.tm_gmtoff)
			break;
	}
	t -= below(2 * DAY);
	return t > 0 ? t : 0;
}

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

/* About five or six random words: whatever they are, they must not crash the parser. */
static void check_noise(void)
{
	static const char letters[] = "012345*,-/?nu\200L#", spaces[] = " \t";
	char text[64], why[128];
	int i, n, words, taken = 0;
	struct cron c;

	for (i = 0; i < 200000; i++) {
		n = 0;
		for (words = 4 + below(4); words; words--) {
			do
				text[n++] = letters[below(sizeof(letters) - 1)];
			while (below(2) && n < 50);
			text[n++] = spaces[below(2)];
		}
		text[n] = 0;
		if (!cron_parse(&c, text, why, sizeof(why)))
			continue;
		taken++;
		if (!c.seconds || !c.minutes || !c.hours || (!c.days && !c.last_day) || !c.months ||
		    (!c.weekdays && !memcmp(c.nth, "\0\0\0\0\0\0", 7)))
			errx(1, "'%s' is accepted, but never due", text);
	}
	printf("# %d of %d random texts were accepted\n", taken, i);
}

static void check_random(int cases)
{
	int i, j, far = 0;
	struct field f[6];
	GTimeZone *zone;
	struct cron c;
	char text[512], why[128];

	for (i = 0; i < cases; i++) {
		const char *name = zones[below(ARRAY_SIZE(zones))];
		time_t after, due, first;

		use_zone(name);
		after = below(2) ? near_change() : (time_t)below(66 * 365) * DAY + below(DAY);
		text[0] = 0;
		for (j = 0; j < 6; j++) {
			make_field(&f[j], &limits[j]);
			/* Without seconds. */
			if (!j && below(4) == 0) {
				memset(&f[0], 0, sizeof(f[0]));
				f[0].set[0] = true;
				continue;
			}
			sprintf(text + strlen(text), "%s%s", *text ? " " : "", f[j].text);
		}
		if (!cron_parse(&c, text, why, sizeof(why)))
			errx(1, "'%s': %s", text, why);
		if (c.by_clock != (f[1].star || f[2].star))
			errx(1, "'%s': by_clock %d", text, c.by_clock);
		zone = g_time_zone_new_identifier(name);
		due = cron_next(&c, zone, after);
		g_time_zone_unref(zone);
		first = oracle(f, after, after + NEAR, c.by_clock);
		if (first < 0 && (due < 0 || due > after + NEAR)) {
			/* Nothing within the oracle's range, nor just before the due time. */
			far++;
			first = due < 0 ? due : oracle(f, due - NEAR, due, c.by_clock);
		}
		if (first != due)
			errx(1, "'%s' after %lld in %s: %lld, not %lld", text, (long long)after,
			     name, (long long)due, (long long)first);
	}
	printf("# %d random expressions, %d of them due more than 40 days off\n", cases, far);
}

int main(void)
{
	const char *seed = getenv("SEED");

	state = seed ? strtoull(seed, NULL, 0) : (unsigned long long)clock() ^ time(NULL) << 20;
	state = state ?: 1;
	printf("# SEED=%llu\n", state);
	check_known();
	check_plans();
	check_again();
	check_jitter();
	check_bad();
	check_noise();
	check_random(300);
	return EXIT_SUCCESS;
}
