// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cron.h"

#define DAY		86400
/* February 29 is on a given day of the week every 28 years, but only after 40 years across 2100. */
#define TOO_FAR		(41 * 366L * DAY)

static const char months[][4] = {
	"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"
};

static const char weekdays[][4] = { "sun", "mon", "tue", "wed", "thu", "fri", "sat" };

static const struct field {
	const char	*name;
	int		first, last;
	int		number;		/* of different values; 7 is Sunday, as 0 is */
	const char	(*names)[4];	/* of these values */
} fields[FIELDS] = {
	{ "seconds", 0, 59, 60, NULL },
	{ "minutes", 0, 59, 60, NULL },
	{ "hours", 0, 23, 24, NULL },
	{ "day of month", 1, 31, 31, NULL },
	{ "month", 1, 12, 12, months },
	{ "day of week", 0, 7, 7, weekdays },
	{ "year", CRON_FIRST_YEAR, CRON_FIRST_YEAR + CRON_YEARS - 1,
	  CRON_YEARS, NULL },
};

static const char *const nicknames[][2] = {
	{ "@yearly", "0 0 1 1 *" }, { "@annually", "0 0 1 1 *" }, { "@monthly", "0 0 1 * *" },
	{ "@weekly", "0 0 * * 0" }, { "@daily", "0 0 * * *" }, { "@midnight", "0 0 * * *" },
	{ "@hourly", "0 * * * *" },
};

/* Parse a number at *@p; -1: there is none. Numbers above 9999 become 9999, also too large. */
static int number(const char **p)
{
	int n = 0;

	if (!isdigit((unsigned char)**p))
		return -1;
	for (; isdigit((unsigned char)**p); ++*p)
		n = n < 999 ? 10 * n + **p - '0' : 9999;
	return n;
}

/* Parse a number or a name. */
static int value(const struct field *f, const char **p)
{
	int i;

	for (i = 0; f->names && i < f->number; i++) {
		if (!strncasecmp(*p, f->names[i], 3)) {
			*p += 3;
			return f->first + i;
		}
	}
	return number(p);
}

/* Parse what follows the day of the week @day: #N or L. Returns false if there is neither. */
static bool parse_nth(const struct field *f, const char **p, int day, struct cron *c)
{
	int n = 0;

	if (f != &fields[WEEKDAYS] || day < 0 || day > f->last)
		return false;
	if (**p == '#' && (*p)[1] >= '1' && (*p)[1] <= '5')
		n = *++*p - '0';
	else if (**p != 'L' && **p != 'l')
		return false;
	++*p;
	c->nth[day % 7][n] = true;
	return true;
}

static bool parse_term(const struct field *f, const char **p, struct cron *c, char *why,
		       size_t size)
{
	bool any = **p == '*' || (**p == '?' && (f == &fields[DAYS] || f == &fields[WEEKDAYS]));
	int from = f->first, to = f->first + f->number - 1, step = 1;
	bool special = false;

	if (any) {
		++*p;
	} else if (f == &fields[DAYS] && (**p == 'L' || **p == 'l')) {
		++*p;
		c->last_day = true;
		special = true;
	} else {
		from = value(f, p);
		special = parse_nth(f, p, from, c);
		if (**p == '-' && !special) {
			++*p;
			to = value(f, p);
		} else if (**p != '/') {
			to = from;
		}
	}
	if (**p == '/' && !special) {
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
	if (to < from && f == &fields[YEARS]) {
		snprintf(why, size, "%s: a range that goes backward", f->name);
		return false;
	}
	if (to < from)
		to += f->number;
	for (; from <= to && !special; from += step)
		c->set[f - fields][(from - f->first) % f->number] = true;
	return true;
}

static bool parse_field(const struct field *f, const char *word, struct cron *c, char *why,
			size_t size)
{
	while (parse_term(f, &word, c, why, size)) {
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

/* Split @text into @words. Returns how many there are; FIELDS + 1: too many. */
static int split(char *text, char *words[FIELDS])
{
	char *rest, *word;
	int count = 0;

	for (word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
		if (count == FIELDS)
			return FIELDS + 1;
		words[count++] = word;
	}
	return count;
}

bool cron_parse(struct cron *c, const char *text, char *why, size_t size)
{
	char *words[FIELDS] = { }, *copy;
	int count, i, skipped;
	bool good = false;

	for (i = 0; i < (int)G_N_ELEMENTS(nicknames); i++)
		if (!strcasecmp(text, nicknames[i][0]))
			text = nicknames[i][1];
	copy = g_strdup(text);
	count = split(copy, words);
	if (count < 5 || count > FIELDS) {
		snprintf(why, size, "it takes 5 fields, 6 with seconds, or 7 with a year");
		goto out;
	}
	skipped = count == 5;
	*c = (struct cron){ .set[SECONDS][0] = skipped };
	for (i = 0; i < count; i++)
		if (!parse_field(&fields[skipped + i], words[i], c, why, size))
			goto out;
	c->every_year = count < FIELDS;
	c->every_day = unrestricted(words[DAYS - skipped]);
	c->every_weekday = unrestricted(words[WEEKDAYS - skipped]);
	c->by_clock = *words[MINUTES - skipped] == '*' || *words[HOURS - skipped] == '*';
	good = true;
out:
	g_free(copy);
	return good;
}

static int days_of_month(const struct tm *tm)
{
	return g_date_get_days_in_month(tm->tm_mon + 1, tm->tm_year + 1900);
}

static bool weekday_matches(const struct cron *c, const struct tm *tm)
{
	const bool *nth = c->nth[tm->tm_wday];

	return c->set[WEEKDAYS][tm->tm_wday] || nth[(tm->tm_mday + 6) / 7] ||
		(nth[0] && tm->tm_mday + 7 > days_of_month(tm));
}

static bool day_matches(const struct cron *c, const struct tm *tm)
{
	int year = tm->tm_year + 1900 - CRON_FIRST_YEAR;
	bool day, weekday;

	if (!c->every_year && (year < 0 || year >= CRON_YEARS || !c->set[YEARS][year]))
		return false;
	if (!c->set[MONTHS][tm->tm_mon])
		return false;
	day = c->set[DAYS][tm->tm_mday - 1] ||
		(c->last_day && tm->tm_mday == days_of_month(tm));
	weekday = weekday_matches(c, tm);
	return c->every_day || c->every_weekday ? day && weekday : day || weekday;
}

/* Returns how many seconds from @tm on do not match; 0: @tm matches. */
static long no_match(const struct cron *c, const struct tm *tm)
{
	if (!day_matches(c, tm))
		return DAY - (tm->tm_hour * 3600 + tm->tm_min * 60 + tm->tm_sec);
	if (!c->set[HOURS][tm->tm_hour])
		return 3600 - (tm->tm_min * 60 + tm->tm_sec);
	if (!c->set[MINUTES][tm->tm_min])
		return 60 - tm->tm_sec;
	return !c->set[SECONDS][tm->tm_sec];
}

/* Returns the first match from @t on, before @end; -1: there is none. They are as a clock shows. */
static time_t shown_next(const struct cron *c, time_t t, time_t end)
{
	struct tm tm;
	long skip;

	for (; t < end; t += skip) {
		if (!gmtime_r(&t, &tm))
			return -1;
		skip = no_match(c, &tm);
		if (!skip)
			return t;
	}
	return -1;
}

static int interval_at(GTimeZone *zone, time_t t)
{
	return g_time_zone_find_interval(zone, G_TIME_TYPE_UNIVERSAL, t);
}

static time_t offset_at(GTimeZone *zone, time_t t)
{
	return g_time_zone_get_offset(zone, interval_at(zone, t));
}

/* Returns when the zone's clock is changed after @from; @to + 1: not until @to. */
static time_t change_after(GTimeZone *zone, time_t from, time_t to)
{
	int interval = interval_at(zone, from);

	if (interval_at(zone, to) == interval)
		return to + 1;
	while (to - from > 1) {
		time_t middle = from + (to - from) / 2;

		if (interval_at(zone, middle) == interval)
			from = middle;
		else
			to = middle;
	}
	return to;
}

/* Returns when the clock first shows @shown, or else when it skips that. */
static time_t first_shown(GTimeZone *zone, time_t shown)
{
	time_t before = shown - DAY, after = shown + DAY;
	time_t change = change_after(zone, before, after);
	time_t early = shown - offset_at(zone, before), late = shown - offset_at(zone, after);

	if (change > after || early < change)
		return early;
	return late < change ? change : late;
}

time_t cron_next(const struct cron *c, GTimeZone *zone, time_t after)
{
	time_t end = after + TOO_FAR, t, change, offset, shown;

	if (!c->by_clock) {
		t = after;
		shown = after + offset_at(zone, after);
		while (t <= after) {
			shown = shown_next(c, shown + 1, end);
			if (shown < 0)
				return -1;
			t = first_shown(zone, shown);
		}
		return t;
	}
	for (t = after + 1; ; t = change) {
		offset = offset_at(zone, t);
		shown = shown_next(c, t + offset, end);
		if (shown < 0)
			return -1;
		change = change_after(zone, t, shown - offset);
		if (change > shown - offset)
			return shown - offset;
	}
}
