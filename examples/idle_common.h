/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Code that idle_echo and idle_load share: options, time, limits, samples and their quantiles.
 */
#ifndef IDLE_COMMON_H
#define IDLE_COMMON_H

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <linux/types.h>

#define NS_PER_MS	1000000LL
#define NS_PER_S	1000000000LL
#define MAX_OPTIONS	9

/**
 * struct program_option - an option, and the one variable that it sets
 * @name: name without the dashes; NULL ends the table
 * @number: variable for the value, a number
 * @ns: variable for the value, a number of ms, converted to ns
 * @text: variable for the value as text
 * @flag: variable that is set to true; the option takes no value
 * @min: smallest number
 * @max: largest number
 */
struct program_option {
	const char	*name;
	long		*number;
	__s64		*ns;
	const char	**text;
	bool		*flag;
	long		min;
	long		max;
};

static inline void set_option(const struct program_option *o, char *value)
{
	char *end = value;
	long n;

	if (o->flag) {
		*o->flag = true;
		return;
	}
	if (o->text) {
		*o->text = value;
		return;
	}
	errno = 0;
	n = strtol(value, &end, 10);
	if (errno || end == value || *end || n < o->min || n > o->max)
		errx(2, "--%s takes a number from %ld to %ld, not '%s'", o->name, o->min, o->max,
		     value);
	if (o->ns)
		*o->ns = n * NS_PER_MS;
	else
		*o->number = n;
}

/* Parse the options of the table, and -h and --help, which print @usage; there is nothing else. */
static inline void parse_options(int argc, char **argv, const struct program_option *table,
				 const char *usage)
{
	struct option options[MAX_OPTIONS + 2] = { };
	int n, option, index;

	for (n = 0; table[n].name; n++) {
		options[n].name = table[n].name;
		options[n].has_arg = table[n].flag ? no_argument : required_argument;
	}
	options[n] = (struct option){ "help", no_argument, NULL, 'h' };
	while (!(option = getopt_long(argc, argv, "h", options, &index)))
		set_option(&table[index], optarg);
	if (option != -1 || optind < argc) {
		fputs(usage, option == 'h' ? stdout : stderr);
		exit(option == 'h' ? 0 : 2);
	}
}

static inline __s64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Raise the limit of descriptors to @wanted, if possible. Returns the limit, at most @wanted. */
static inline rlim_t raise_nofile(rlim_t wanted)
{
	struct rlimit limit, raised = { wanted, wanted };

	if (getrlimit(RLIMIT_NOFILE, &limit))
		err(1, "getrlimit");
	if (limit.rlim_cur < wanted && setrlimit(RLIMIT_NOFILE, &raised)) {
		/* Without the right to raise the hard limit. */
		raised = (struct rlimit){ limit.rlim_max, limit.rlim_max };
		setrlimit(RLIMIT_NOFILE, &raised);
	}
	return raised.rlim_cur < wanted ? raised.rlim_cur : wanted;
}

/* Only the first MAX_SAMPLES are kept, which is enough for quantiles. */
#define MAX_SAMPLES	1000000

struct samples {
	__s64	*values;
	size_t	number;
};

static inline void sample(struct samples *s, __s64 value)
{
	if (!s->values)
		s->values = malloc(MAX_SAMPLES * sizeof(*s->values));
	if (!s->values)
		err(1, "samples");
	if (s->number < MAX_SAMPLES)
		s->values[s->number++] = value;
}

static inline int compare_samples(const void *a, const void *b)
{
	__s64 x = *(const __s64 *)a, y = *(const __s64 *)b;

	return (x > y) - (x < y);
}

/* Print "key value" lines: the smallest samples that these shares of all do not exceed. */
static inline void print_samples(const char *name, struct samples *s)
{
	static const struct {
		const char	*name;
		unsigned int	percent;
	} quantiles[] = { { "min", 0 }, { "median", 50 }, { "99", 99 }, { "max", 100 } };
	unsigned int i;
	size_t at;

	if (s->number)
		qsort(s->values, s->number, sizeof(*s->values), compare_samples);
	printf("%s_samples %zu\n", name, s->number);
	for (i = 0; i < 4; i++) {
		at = (s->number * quantiles[i].percent + 99) / 100;
		printf("%s_%s_ns %lld\n", name, quantiles[i].name,
		       s->number ? s->values[at ? at - 1 : 0] : 0);
	}
}

/* From now on what is printed goes to the file @name, unless that is NULL. */
static inline void print_to(const char *name)
{
	if (name && !freopen(name, "w", stdout))
		err(1, "%s", name);
}

static inline void end_print(void)
{
	if (fflush(stdout) || ferror(stdout))
		err(1, "the statistics");
}

#endif /* IDLE_COMMON_H */
