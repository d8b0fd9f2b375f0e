/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Command lines of the examples: options from a table, no other arguments.
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

/* Exit status: 1 for failures, 2 for wrong arguments. */
#define EXIT_USAGE	2

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

/* Parse the options of the table, and -h and --help, which print @usage. */
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
