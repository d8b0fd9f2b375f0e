// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl: arguments: options, durations, times of day.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"

uint64_t ctl_clock(int clockid)
{
	struct timespec ts;

	clock_gettime(clockid, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* "1.5 s", in the largest unit that fits. */
void ctl_print_ns(FILE *to, uint64_t ns)
{
	static const struct { uint64_t ns; const char *name; } units[] = {
		{ NSEC_PER_SEC, "s" }, { NSEC_PER_MSEC, "ms" }, { NSEC_PER_USEC, "us" },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(units); i++) {
		if (ns >= units[i].ns) {
			fprintf(to, "%.4g %s", (double)ns / units[i].ns, units[i].name);
			return;
		}
	}
	fprintf(to, "%" PRIu64 " ns", ns);
}

/* The time of day: "2026-11-21 16:02:33.782+0000". @size is enough for that. */
const char *ctl_wall_time(char *text, size_t size)
{
	struct timespec ts;
	struct tm tm;
	size_t len;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (!localtime_r(&ts.tv_sec, &tm))
		return "?";
	len = strftime(text, size, "%Y-%m-%d %H:%M:%S", &tm);
	len += snprintf(text + len, size - len, ".%03ld", ts.tv_nsec / 1000000);
	strftime(text + len, size - len, "%z", &tm);
	return text;
}

static const struct { const char *name; uint64_t ns; } units[] = {
	{ "ns", 1 }, { "us", NSEC_PER_USEC }, { "ms", NSEC_PER_MSEC }, { "s", NSEC_PER_SEC },
	{ "m", 60 * NSEC_PER_SEC }, { "min", 60 * NSEC_PER_SEC },
	{ "h", 3600 * NSEC_PER_SEC }, { "d", 86400 * NSEC_PER_SEC },
};

/*
 * @digits times @unit in ns, such as "1.5" of seconds. Rounded up, so that nothing is early. The
 * result for anything longer than CTL_MAX_NS is CTL_MAX_NS + 1.
 */
static uint64_t scaled(const char *digits, size_t len, uint64_t unit)
{
	unsigned __int128 whole = 0, part = 0, scale = 1;
	bool rest = false;
	size_t i;

	for (i = 0; i < len && digits[i] != '.'; i++)
		if (whole <= CTL_MAX_NS)
			whole = whole * 10 + (digits[i] - '0');
	for (i++; i < len; i++) {
		if (scale < 1000000000000000000ULL) {
			scale *= 10;
			part = part * 10 + (digits[i] - '0');
		} else if (digits[i] != '0') {
			rest = true;
		}
	}
	whole = whole * unit + (part * unit + scale - 1 + rest) / scale;
	return whole > CTL_MAX_NS ? CTL_MAX_NS + 1 : whole;
}

/*
 * Returns "90", "1.5s", "200ms" or "1h30m" in ns. Messages call it @what.
 */
uint64_t ctl_parse_duration(const char *what, const char *text)
{
	uint64_t sum = 0, unit;
	const char *p = text;
	size_t digits, name, i;

	if (!*text)
		ctl_misuse("%s: empty", what);
	while (*p) {
		digits = strspn(p, "0123456789.");
		if (!digits || !strncmp(p, ".", digits) ||
		    memchr(p, '.', digits) != memrchr(p, '.', digits))
			ctl_misuse("%s: not a duration: '%s' (examples: 1.5s, 200ms, 2m, 1h30m)",
				   what, text);
		name = strcspn(p + digits, "0123456789.");
		unit = 0;
		for (i = 0; i < ARRAY_SIZE(units); i++)
			if (strlen(units[i].name) == name &&
			    !strncmp(p + digits, units[i].name, name))
				unit = units[i].ns;
		if (!name && p == text)
			unit = NSEC_PER_SEC;
		if (!unit && !name)
			ctl_misuse("%s: no unit at the end of '%s'", what, text);
		if (!unit)
			ctl_misuse("%s: no such unit: '%.*s' in '%s' (ns, us, ms, s, m, h, d)",
				   what, (int)name, p + digits, text);
		sum += scaled(p, digits, unit);
		if (sum > CTL_MAX_NS)
			ctl_misuse("%s: more than 36 years: '%s'", what, text);
		p += digits + name;
	}
	return sum;
}

static bool take_digits(const char **p, int n, int *value)
{
	*value = 0;
	while (n--) {
		if (**p < '0' || **p > '9')
			return false;
		*value = *value * 10 + *(*p)++ - '0';
	}
	return true;
}

static bool take(const char **p, char c)
{
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

/* Exactly "HH:MM" or "HH:MM:SS" */
static bool take_time_of_day(const char *p, struct tm *tm)
{
	tm->tm_sec = 0;
	return take_digits(&p, 2, &tm->tm_hour) && take(&p, ':') &&
	       take_digits(&p, 2, &tm->tm_min) &&
	       (!*p || (take(&p, ':') && take_digits(&p, 2, &tm->tm_sec))) && !*p;
}

static bool take_date(const char **p, struct tm *tm)
{
	if (!take_digits(p, 4, &tm->tm_year) || !take(p, '-') ||
	    !take_digits(p, 2, &tm->tm_mon) || !take(p, '-') ||
	    !take_digits(p, 2, &tm->tm_mday))
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon--;
	return true;
}

/*
 * The first time, not before @from, at which local time is @wanted; -1: never. When the clocks go
 * back a time comes twice, and when they go forward some do not come.
 */
static time_t first_time(const struct tm *wanted, time_t from)
{
	time_t found = -1, t;
	struct tm tm, shown;
	int isdst;

	for (isdst = 0; isdst < 2; isdst++) {
		tm = *wanted;
		tm.tm_isdst = isdst;
		t = mktime(&tm);
		if (t == -1 || !localtime_r(&t, &shown) || t < from ||
		    shown.tm_year != wanted->tm_year || shown.tm_mon != wanted->tm_mon ||
		    shown.tm_mday != wanted->tm_mday || shown.tm_hour != wanted->tm_hour ||
		    shown.tm_min != wanted->tm_min || shown.tm_sec != wanted->tm_sec)
			continue;
		if (found == -1 || t < found)
			found = t;
	}
	return found;
}

/* The next time at which it is HH:MM:SS, today or tomorrow. */
static time_t next_time_of_day(const char *text, const struct tm *wanted, time_t now)
{
	struct tm today;
	time_t t;
	int day;

	localtime_r(&now, &today);
	for (day = 0; day < 2; day++) {
		struct tm tm = {
			.tm_year = today.tm_year, .tm_mon = today.tm_mon,
			.tm_mday = today.tm_mday + day, .tm_hour = 12, .tm_isdst = -1,
		};

		mktime(&tm);	/* the 32nd is the 1st */
		tm.tm_hour = wanted->tm_hour;
		tm.tm_min = wanted->tm_min;
		tm.tm_sec = wanted->tm_sec;
		t = first_time(&tm, now);
		if (t != -1)
			return t;
	}
	ctl_misuse("TIME: no such local time today or tomorrow: '%s'", text);
}

/* Returns a TIME in ns of CLOCK_REALTIME. The caller handles "+DURATION". */
uint64_t ctl_parse_time(const char *text)
{
	uint64_t now_ns = ctl_clock(CLOCK_REALTIME), ns, part = 0;
	time_t now = now_ns / NSEC_PER_SEC;
	int64_t t;
	const char *p = text;
	struct tm tm = { 0 };

	if (*text == '@') {
		size_t len = strspn(text + 1, "0123456789.");

		if (!len || text[1 + len] || text[1] == '.' ||
		    memchr(text + 1, '.', len) != memrchr(text + 1, '.', len))
			ctl_misuse("TIME: not seconds since 1970: '%s'", text);
		/* The seconds and their fraction separately: in ns they may overflow. */
		len = strcspn(text + 1, ".");
		t = strtoll(text + 1, NULL, 10);	/* too large: INT64_MAX */
		if (text[1 + len])
			part = scaled(text + 1 + len, strlen(text + 1 + len), NSEC_PER_SEC);
	} else {
		if (take_time_of_day(text, &tm)) {
			if (tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 59)
				ctl_misuse("TIME: no such time of day: '%s'", text);
			t = next_time_of_day(text, &tm, now + 1);
		} else if (take_date(&p, &tm) && (take(&p, ' ') || take(&p, 'T')) &&
			   take_time_of_day(p, &tm)) {
			t = first_time(&tm, 0);
			if (t == -1)
				ctl_misuse("TIME: no such local time: '%s'", text);
		} else {
			ctl_misuse("TIME: not a time: '%s' (examples: 12:30, 12:30:15, +1h30m)",
				   text);
		}
	}
	/* In ns it could wrap, and look like a time near now. */
	if (t >= INT64_MAX / (int64_t)NSEC_PER_SEC)
		ctl_misuse("TIME: more than 36 years away: '%s'", text);
	ns = (uint64_t)t * NSEC_PER_SEC + part;
	if (ns < now_ns)
		ctl_misuse("TIME: in the past: '%s'", text);
	if (ns - now_ns > CTL_MAX_NS)
		ctl_misuse("TIME: more than 36 years away: '%s'", text);
	return ns;
}

static uint64_t parse_number(const struct ctl_option *option, const char *text)
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (!*text || *end || text[strspn(text, "0123456789")])
		ctl_misuse("--%s: not a number: '%s'", option->name, text);
	if (errno || value < option->min || value > option->max)
		ctl_misuse("--%s: must be from %" PRIu64 " to %" PRIu64 ", not '%s'", option->name,
			   option->min, option->max, text);
	return value;
}

static void set_option(const struct ctl_option *option, const char *text)
{
	char what[64];
	uint64_t ns;

	switch (option->kind) {
	case CTL_FLAG:
		*(bool *)option->value = true;
		break;
	case CTL_TEXT:
		if (!*text)
			ctl_misuse("--%s: empty", option->name);
		*(const char **)option->value = text;
		break;
	case CTL_NUMBER:
		*(uint64_t *)option->value = parse_number(option, text);
		break;
	case CTL_DURATION:
		snprintf(what, sizeof(what), "--%s", option->name);
		ns = ctl_parse_duration(what, text);
		if (ns < option->min)
			ctl_misuse("%s: too short: '%s'", what, text);
		if (ns > option->max)
			ctl_misuse("%s: too long: '%s'", what, text);
		*(uint64_t *)option->value = ns;
		break;
	}
}

static void print_help(void)
{
	printf("usage: hwtimerctl %s", ctl_command->help);
	ctl_flush();
	exit(CTL_OK);
}

/* The value of an option: the rest of the argument, or the next argument. */
static const char *option_value(struct ctl_args *args, const char *option, const char *behind)
{
	if (behind)
		return behind;
	if (args->next == args->argc)
		ctl_misuse("%s: needs a value", option);
	return args->argv[args->next++];
}

static void take_long(struct ctl_args *args, const char *text)
{
	const char *equals = strchr(text, '=');
	int len = equals ? equals - text : (int)strlen(text);
	const struct ctl_option *option;
	char name[80];
	size_t i;

	if (!strcmp(text, "--help"))
		print_help();
	for (i = 0; i < args->n_options; i++) {
		option = &args->options[i];
		if (strncmp(text + 2, option->name, len - 2) || option->name[len - 2])
			continue;
		snprintf(name, sizeof(name), "--%s", option->name);
		if (option->kind != CTL_FLAG)
			set_option(option, option_value(args, name, equals ? equals + 1 : NULL));
		else if (equals)
			ctl_misuse("%s: takes no value: '%s'", name, text);
		else
			set_option(option, NULL);
		return;
	}
	ctl_misuse("no such option: '%s'", text);
}

/* "-nd5" is "-n -d 5". */
static void take_short(struct ctl_args *args, const char *text)
{
	const struct ctl_option *option;
	char name[] = "-?";
	const char *p;
	size_t i;

	for (p = text + 1; *p; p++) {
		if (*p == 'h')
			print_help();
		option = NULL;
		for (i = 0; i < args->n_options; i++)
			if (args->options[i].letter == *p)
				option = &args->options[i];
		name[1] = *p;
		if (!option)
			ctl_misuse("no such option: '%s'", p == text + 1 ? text : name);
		if (option->kind != CTL_FLAG) {
			set_option(option, option_value(args, name, p[1] ? p + 1 : NULL));
			return;
		}
		set_option(option, NULL);
	}
}

/*
 * Sets the options before the next argument that is none, and returns that argument; NULL: there
 * is none. "--" ends the options.
 */
const char *ctl_next_word(struct ctl_args *args)
{
	const char *text;

	while (args->next < args->argc) {
		text = args->argv[args->next++];
		if (args->only_words || text[0] != '-' || !text[1])
			return text;
		if (!strcmp(text, "--"))
			args->only_words = true;
		else if (text[1] == '-')
			take_long(args, text);
		else
			take_short(args, text);
	}
	return NULL;
}
