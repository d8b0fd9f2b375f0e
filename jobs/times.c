// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include "times.h"

static const struct unit {
	const char	*name;
	__s64		ns;
} units[] = {
	{ "d", 86400 * NS_PER_S },
	{ "h", 3600 * NS_PER_S },
	{ "m", 60 * NS_PER_S },
	{ "s", NS_PER_S },
	{ "ms", NS_PER_MS },
};

bool parse_duration(const char *text, __s64 *ns)
{
	double value;
	size_t i;
	char *end;

	/* Unlike strtod(), accept no sign, "inf" or hexadecimal. */
	if (*text < '0' || *text > '9' || text[1] == 'x' || text[1] == 'X')
		return false;
	value = strtod(text, &end);
	for (i = 0; i < ARRAY_SIZE(units); i++) {
		if (!strcmp(end, units[i].name)) {
			value *= units[i].ns;
			if (value > EVERY_MAX)
				return false;
			*ns = llround(value);
			return true;
		}
	}
	return false;
}

const char *show_duration(__s64 ns, char text[DURATION_SIZE])
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(units) - 1; i++)
		if (ns && ns % units[i].ns == 0)
			break;
	snprintf(text, DURATION_SIZE, "%.15g%s", (double)ns / units[i].ns, units[i].name);
	return text;
}

const char *show_time(__s64 wall, const char *zone, char text[TIME_SIZE])
{
	GTimeZone *tz = zone ? g_time_zone_new_identifier(zone) : g_time_zone_new_local();
	GDateTime *utc = g_date_time_new_from_unix_utc(wall / NS_PER_S), *time = NULL;
	char *shown = NULL;

	if (wall != NEVER && utc && tz)
		time = g_date_time_to_timezone(utc, tz);
	if (time)
		shown = g_date_time_format(time, "%F %T");
	snprintf(text, TIME_SIZE, shown ? "%s.%03lld" : "never", shown,
		 wall % NS_PER_S / NS_PER_MS);
	g_free(shown);
	g_clear_pointer(&time, g_date_time_unref);
	g_clear_pointer(&utc, g_date_time_unref);
	g_clear_pointer(&tz, g_time_zone_unref);
	return text;
}
