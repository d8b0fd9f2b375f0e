// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl: arguments: options and durations.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"

/* The most of a command, and the value by which getopt_long() reports one with its long name. */
#define MAX_OPTIONS	8
#define OPTION(i)	(256 + (int)(i))

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
	if (option->kind == CTL_FLAG)
		*(bool *)option->value = true;
	else
		*(uint64_t *)option->value = parse_number(option, text);
}

static void print_help(void)
{
	printf("usage: hwtimerctl %s", ctl_command->help);
	ctl_flush();
	exit(CTL_OK);
}

/* Reports a word that getopt_long() refuses. */
static _Noreturn void refuse_option(const struct ctl_args *args, int why, const char *text)
{
	size_t i, len = strcspn(text, "=");
	char letter[] = { '-', optopt, 0 };

	if (why == ':')
		ctl_misuse("%s: needs a value", text[1] == '-' ? text : letter);
	for (i = 0; text[len] && i < args->n_options; i++)
		if (optopt == OPTION(i))
			ctl_misuse("--%s: takes no value: '%s'", args->options[i].name, text);
	ctl_misuse("no such option: '%s'", text[1] != '-' && text[2] ? letter : text);
}

/*
 * Sets the options before the next argument that is none, and returns that argument; NULL: there
 * is none. "--" ends the options.
 */
const char *ctl_next_word(struct ctl_args *args)
{
	struct option longs[MAX_OPTIONS + 2] = { { "help", no_argument, NULL, 'h' } };
	/* "-": in the order of the command line; ":": we report what is wrong */
	char shorts[2 * MAX_OPTIONS + 4] = "-:h", *end = shorts + strlen(shorts);
	const char *text;
	size_t i;
	int c;

	opterr = 0;
	for (i = 0; i < args->n_options; i++) {
		const struct ctl_option *option = &args->options[i];
		int value = option->kind == CTL_FLAG ? no_argument : required_argument;

		longs[i + 1] = (struct option){ option->name, value, NULL, OPTION(i) };
		if (option->letter)
			end += sprintf(end, value ? "%c:" : "%c", option->letter);
	}
	while (!args->only_words) {
		text = args->argv[optind];
		c = getopt_long(args->argc, args->argv, shorts, longs, NULL);
		if (c == 1)
			return optarg;
		if (c == 'h')
			print_help();
		if (c == '?' || c == ':')
			refuse_option(args, c, text);
		args->only_words = c == -1;
		for (i = 0; i < args->n_options; i++)
			if (c == OPTION(i) || (c > 0 && c == args->options[i].letter))
				set_option(&args->options[i], optarg);
	}
	return optind < args->argc ? args->argv[optind++] : NULL;
}

/* There must be no more arguments. */
void ctl_must_end(struct ctl_args *args)
{
	const char *word = ctl_next_word(args);

	if (word)
		ctl_misuse("unexpected argument: '%s'", word);
}
