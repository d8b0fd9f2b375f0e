/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * The command line of the programs here: options from a table, and nothing else.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>

#include "idle_common.h"

/* Exit status: 1 something went wrong, 2 wrong use. */
#define EXIT_USAGE	2

#define MAX_OPTIONS	8

/**
 * struct program_option - an option, and one of the variables that it sets
 * @name: its name, without the dashes; NULL ends the table
 * @number: to the number that it takes
 * @ns: to the number of ms that it takes, in ns
 * @text: to its value as it is
 * @flag: to true; it takes no value
 * @min: the number is not less
 * @max: nor more
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

static inline noreturn void usage_error(const char *usage)
{
	fputs(usage, stderr);
	exit(EXIT_USAGE);
}

static inline void set_option(const struct program_option *o, const char *value)
{
	char *end;
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
		errx(EXIT_USAGE, "--%s takes a number from %ld to %ld, not '%s'", o->name, o->min,
		     o->max, value);
	if (o->ns)
		*o->ns = n * NS_PER_MS;
	else
		*o->number = n;
}

/* Beside those of the table, -h and --help print @usage. */
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
	while ((option = getopt_long(argc, argv, "h", options, &index)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			exit(EXIT_SUCCESS);
		}
		if (option)
			usage_error(usage);
		set_option(&table[index], optarg);
	}
	if (optind < argc)
		usage_error(usage);
}

#endif /* OPTIONS_H */
