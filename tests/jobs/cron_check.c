// SPDX-License-Identifier: GPL-2.0-only
/*
 * cron_check: tests jobs/cron.c with known answers, with expressions that it has to
 * refuse, and with random expressions against an oracle that checks every minute, in time zones
 * whose clocks change at unusual times. Needs no device.
 *
 * SEED=N in the environment repeats a run. The status is 0 if everything is correct.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cron.h"

#define SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define DAY		86400
/* How far the oracle searches. */
#define NEAR		(40L * DAY)
#define YEARS		(10 * 366L * DAY)

static const char cet[] = "CET-1CEST,M3.5.0,M10.5.0/3";

/* With offsets in whole minutes, as the oracle steps by minutes. */
static const char *const zones[] = {
	"UTC0", cet, "EST5EDT,M3.2.0,M11.1.0", "<+0545>-5:45",
	"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",	/* half an hour */
	"<-04>4<-03>,M9.1.6/24,M4.1.6/24",	/* days that begin at 1 o'clock */
	"IST-1GMT0,M10.5.0,M3.5.0/1",		/* standard time is that of summer */
};

/* In UTC: a time, and the first due time after it. */
static const struct known {
	const char *zone, *text, *after, *due;
} known[] = {
	{ "UTC0", "*/2 * * * * *", "2026-01-01 00:00:00", "2026-01-01 00:00:02" },
	{ "UTC0", "*/2 * * * * *", "2026-12-31 23:59:59", "2027-01-01 00:00:00" },
	{ "UTC0", "* * * * *", "2026-01-01 00:00:00", "2026-01-01 00:01:00" },
	{ "UTC0", "15 10 * * *", "2026-01-31 10:15:00", "2026-02-01 10:15:00" },
	{ "UTC0", "0 0 29 2 *", "1896-03-01 00:00:00", "1904-02-29 00:00:00" },
	{ "UTC0", "0 0 31 * *", "2026-04-01 00:00:00", "2026-05-31 00:00:00" },
	{ "UTC0", "0 12 * * MON-Fri", "2026-11-20 12:00:00", "2026-11-23 12:00:00" },
	{ "UTC0", "0 12 ? * fri-sun", "2026-11-22 12:00:00", "2026-11-27 12:00:00" },
	{ "UTC0", "0 12 * * 7", "2026-11-22 11:59:59", "2026-11-22 12:00:00" },
	/* If both days are restricted, either matches; otherwise both must. */
	{ "UTC0", "0 0 13 * 5", "2026-11-08 00:00:00", "2026-11-13 00:00:00" },
	{ "UTC0", "0 0 13 * 5", "2026-11-13 00:00:00", "2026-11-20 00:00:00" },
	{ "UTC0", "0 0 13 * 5", "2026-12-11 00:00:00", "2026-12-13 00:00:00" },
	{ "UTC0", "0 0 */2 * 5", "2026-11-13 00:00:00", "2026-11-27 00:00:00" },
	{ "UTC0", "5/20,7 1-5/4,22 * * dec *", "2026-11-13 00:00:00", "2026-12-01 00:01:05" },
	/* 2026-03-29, 02:00 is 03:00; 2026-10-25, 03:00 is 02:00 again */
	{ cet, "30 2 * * *", "2026-03-28 01:30:00", "2026-03-30 00:30:00" },
	{ cet, "30 2 * * *", "2026-10-24 00:30:00", "2026-10-25 00:30:00" },
	{ cet, "30 2 * * *", "2026-10-25 00:30:00", "2026-10-25 01:30:00" },
	{ cet, "0 3 * * *", "2026-03-28 02:00:00", "2026-03-29 01:00:00" },
};

/* Expressions to be refused, and a word of the message. */
static const struct bad {
	const char *text, *why;
} bad[] = {
	{ "", "5 fields" }, { "* * * *", "5 fields" }, { "* * * * * * *", "5 fields" },
	{ "60 * * * *", "minutes" }, { "* 24 * * *", "hours" }, { "* * 0 * *", "month: " },
	{ "* * 32 * *", "day of month" }, { "* * * 13 *", "month" }, { "* * * 0 *", "month" },
	{ "* * * * 8", "day of week" }, { "60 * * * * *", "seconds" },
	{ "*/0 * * * *", "step" }, { "5-4 * * * *", "backward" }, { "a * * * *", "minutes" },
	{ "1, * * * *", "minutes" }, { ",1 * * * *", "minutes" }, { "1-2-3 * * * *", "minutes" },
	{ "1/2/3 * * * *", "minutes" }, { "-1 * * * *", "minutes" }, { "1- * * * *", "minutes" },
	{ "*5 * * * *", "minutes" }, { "? * * * *", "minutes" }, { "* * * foo *", "month" },
	{ "* * L * *", "day of month" }, { "* * * * monday", "day of week" },
	{ "99999999999999999999 * * * *", "minutes" },
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

/* The first due time after @after, up to @until, or -1. */
static time_t oracle(const struct field *f, time_t after, time_t until)
{
	time_t t = after + 1, second;
	struct tm tm;

	for (; t <= until; t += 60 - t % 60) {
		localtime_r(&t, &tm);
		if (!matches_minute(f, &tm))
			continue;
		for (second = t; second <= until && second / 60 == t / 60; second++)
			if (f[0].set[second % 60])
				return second;
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
	time_t t = (time_t)below(130 * 365) * DAY;
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

static void check_known(void)
{
	struct cron c;
	char why[128];
	size_t i;

	for (i = 0; i < SIZE(known); i++) {
		const struct known *k = &known[i];
		struct tm after = { }, due = { };
		time_t t;

		if (!strptime(k->after, "%F %T", &after) || !strptime(k->due, "%F %T", &due))
			errx(1, "%s: cannot parse the time", k->after);
		if (!cron_parse(&c, k->text, why, sizeof(why)))
			errx(1, "'%s': %s", k->text, why);
		use_zone(k->zone);
		t = cron_next(&c, timegm(&after));
		if (t != timegm(&due))
			errx(1, "'%s' after %s in %s: %lld, not %s", k->text, k->after, k->zone,
			     (long long)t, k->due);
	}
	use_zone("UTC0");
	if (!cron_parse(&c, "0 0 30 2 *", why, sizeof(why)) || cron_next(&c, 0) != -1)
		errx(1, "there is a February 30");
}

static void check_bad(void)
{
	struct cron c;
	char why[128];
	size_t i;

	for (i = 0; i < SIZE(bad); i++) {
		if (cron_parse(&c, bad[i].text, why, sizeof(why)))
			errx(1, "'%s' is accepted", bad[i].text);
		if (!strstr(why, bad[i].why))
			errx(1, "'%s': '%s' does not mention %s", bad[i].text, why, bad[i].why);
	}
}

/* About five or six random words: whatever they are, they must not crash the parser. */
static void check_noise(void)
{
	static const char letters[] = "012345*,-/?nu\200", spaces[] = " \t";
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
		if (!c.seconds || !c.minutes || !c.hours || !c.days || !c.months || !c.weekdays)
			errx(1, "'%s' is accepted, but never due", text);
	}
	printf("# %d of %d random texts were accepted\n", taken, i);
}

static void check_random(int cases)
{
	int i, j, far = 0;
	struct field f[6];
	struct cron c;
	char text[512], why[128];

	for (i = 0; i < cases; i++) {
		const char *zone = zones[below(SIZE(zones))];
		time_t after, due, first;

		use_zone(zone);
		after = below(2) ? near_change() : (time_t)below(130 * 365) * DAY + below(DAY);
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
		due = cron_next(&c, after);
		first = oracle(f, after, after + NEAR);
		if (first < 0 && due > after + NEAR) {
			/* Nothing within the oracle's range, nor before the alleged due time. */
			far++;
			first = oracle(f, due - NEAR, due);
		} else if (first < 0 && due < 0) {
			first = oracle(f, after, after + YEARS);
		}
		if (first != due)
			errx(1, "'%s' after %lld in %s: %lld, not %lld", text, (long long)after,
			     zone, (long long)due, (long long)first);
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
	check_bad();
	check_noise();
	check_random(1000);
	return EXIT_SUCCESS;
}
