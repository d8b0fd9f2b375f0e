// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cron.h"

#define FIELDS		6
#define DAY		86400
/* February 29 may be eight years away. */
#define TOO_FAR		(10 * 366L * DAY)

static const char months[][4] = {
	"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"
};

static const char weekdays[][4] = { "sun", "mon", "tue", "wed", "thu", "fri", "sat" };

static const struct field {
	const char	*name;
	int		first, last;
	int		end;		/* last value of * and N/STEP */
	const char	(*names)[4];	/* names of the values from first on */
	int		number;		/* number of names */
} fields[FIELDS] = {
	{ .name = "seconds", .last = 59, .end = 59 },
	{ .name = "minutes", .last = 59, .end = 59 },
	{ .name = "hours", .last = 23, .end = 23 },
	{ .name = "day of month", .first = 1, .last = 31, .end = 31 },
	{ .name = "month", .first = 1, .last = 12, .end = 12, .names = months, .number = 12 },
	{ .name = "day of week", .last = 7, .end = 6, .names = weekdays, .number = 7 },
};

enum { SECONDS, MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS };

/* Parse a number at *@p; -1: there is none. Numbers above 1000 become 1000, also too large. */
static int number(const char **p)
{
	int n = 0;

	if (!isdigit((unsigned char)**p))
		return -1;
	for (; isdigit((unsigned char)**p); ++*p)
		n = n < 1000 ? 10 * n + **p - '0' : 1000;
	return n;
}

/* Parse a number or a name. */
static int value(const struct field *f, const char **p)
{
	int i;

	for (i = 0; i < f->number; i++) {
		if (!strncasecmp(*p, f->names[i], 3)) {
			*p += 3;
			return f->first + i;
		}
	}
	return number(p);
}

static bool parse_term(const struct field *f, const char **p, __u64 *set, char *why, size_t size)
{
	bool any = **p == '*' || (**p == '?' && (f == &fields[DAYS] || f == &fields[WEEKDAYS]));
	int from, to, step = 1;

	if (any) {
		++*p;
		from = f->first;
		to = f->end;
	} else {
		from = value(f, p);
		to = from;
		if (**p == '-') {
			++*p;
			to = value(f, p);
			/* A range that ends at Sunday, such as fri-sun. */
			if (f == &fields[WEEKDAYS] && !to && from > 0)
				to = 7;
		} else if (**p == '/') {
			to = from < f->end ? f->end : from;
		}
	}
	if (**p == '/') {
		++*p;
		step = number(p);
	}
	if (from < 0 || to < 0 || step < 0 || (**p && **p != ',')) {
		snprintf(why, size, "%s: cannot read '%s'", f->name, *p);
		return false;
	}
	if (!step) {
		snprintf(why, size, "%s: a step of 0", f->name);
		return false;
	}
	if (from < f->first || from > f->last || to > f->last) {
		snprintf(why, size, "%s: they are from %d to %d", f->name, f->first, f->last);
		return false;
	}
	if (to < from) {
		snprintf(why, size, "%s: a range that goes backward", f->name);
		return false;
	}
	for (; from <= to; from += step)
		*set |= 1ULL << from;
	return true;
}

static bool parse_field(const struct field *f, const char *word, __u64 *set, char *why, size_t size)
{
	*set = 0;
	while (parse_term(f, &word, set, why, size)) {
		if (!*word)
			return true;
		word++;
	}
	return false;
}

static bool unrestricted(const char *word)
{
	return *word == '*' || *word == '?';
}

bool cron_parse(struct cron *c, const char *text, char *why, size_t size)
{
	char *copy = strdup(text), *words[FIELDS + 1], *rest, *word;
	__u64 sets[FIELDS] = { [SECONDS] = 1 };
	int count = 0, i, missing;
	bool good = false;

	if (!copy) {
		snprintf(why, size, "no memory");
		return false;
	}
	for (word = strtok_r(copy, " \t", &rest); word && count <= FIELDS;
	     word = strtok_r(NULL, " \t", &rest))
		words[count++] = word;
	missing = FIELDS - count;
	if (missing != 0 && missing != 1) {
		snprintf(why, size, "it takes 5 fields, or 6 with seconds");
		goto out;
	}
	for (i = 0; i < count; i++)
		if (!parse_field(&fields[missing + i], words[i], &sets[missing + i], why, size))
			goto out;
	*c = (struct cron){
		.seconds = sets[SECONDS], .minutes = sets[MINUTES], .hours = sets[HOURS],
		.days = sets[DAYS], .months = sets[MONTHS],
		.weekdays = (sets[WEEKDAYS] | sets[WEEKDAYS] >> 7) & 0x7f,
		.every_day = unrestricted(words[DAYS - missing]),
		.every_weekday = unrestricted(words[WEEKDAYS - missing]),
	};
	good = true;
out:
	free(copy);
	return good;
}

static bool in_set(__u64 set, int n)
{
	return set >> n & 1;
}

static bool day_matches(const struct cron *c, const struct tm *tm)
{
	bool day = in_set(c->days, tm->tm_mday), weekday = in_set(c->weekdays, tm->tm_wday);

	if (!in_set(c->months, tm->tm_mon + 1))
		return false;
	return c->every_day || c->every_weekday ? day && weekday : day || weekday;
}

/* Returns how many seconds from @tm on do not match, on a clock that is not set; 0: @tm matches. */
static long no_match(const struct cron *c, const struct tm *tm)
{
	if (!day_matches(c, tm))
		return DAY - (tm->tm_hour * 3600 + tm->tm_min * 60 + tm->tm_sec);
	if (!in_set(c->hours, tm->tm_hour))
		return 3600 - (tm->tm_min * 60 + tm->tm_sec);
	if (!in_set(c->minutes, tm->tm_min))
		return 60 - tm->tm_sec;
	return !in_set(c->seconds, tm->tm_sec);
}

time_t cron_next(const struct cron *c, time_t after)
{
	time_t t = after + 1;
	struct tm tm, then;
	long skip;

	while (t - after < TOO_FAR) {
		if (!localtime_r(&t, &tm))
			return -1;
		skip = no_match(c, &tm);
		if (!skip)
			return t;
		/* Daylight saving may begin or end before that: then skip less. */
		for (;;) {
			time_t there = t + skip;

			if (!localtime_r(&there, &then))
				return -1;
			if (then.tm_gmtoff == tm.tm_gmtoff || skip == 1)
				break;
			skip /= 2;
		}
		t += skip;
	}
	return -1;
}
