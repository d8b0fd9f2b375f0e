/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * route: which executor gets a run. This function depends on nothing but its parameters.
 */
#ifndef ROUTE_H
#define ROUTE_H

#include "times.h"

enum route {
	ROUTE_FIRST,		/* by name */
	ROUTE_LAST,
	ROUTE_ROUND_ROBIN,	/* the one after that of the job's last run */
	ROUTE_RANDOM,
	ROUTE_HASH,		/* the same for a job; few jobs move if one comes or goes */
	ROUTE_LFU,		/* had the fewest of the job's last runs */
	ROUTE_LRU,		/* had the job's last run longest ago, or never */
	ROUTE_FAILOVER,		/* the first that is not silent */
	ROUTE_BUSYOVER,		/* the first that has room, or none */
	ROUTE_BROADCAST,	/* each gets a run */
	ROUTES
};

/* Names in the table and on the command line. */
extern const char *const routes[ROUTES];

struct candidate {
	const char	*id;		/* for the caller */
	const char	*name, *tags;	/* tags: "gpu,eu", or "" */
	bool		silent;		/* half of its lease has passed without a word */
	__s64		room;		/* places, without those for runs that it has */
	__s64		used;		/* how many of the job's last runs it had */
	__s64		last;		/* number of the last of these, or 0 */
};

/* Does a candidate have all of these tags? */
bool has_tags(const struct candidate *c, const char *tags);

/*
 * Choose among @n candidates, in the order of their names, those with @tags. @last: the name of
 * the job's last executor, or "". For a shard, route is ROUTE_ROUND_ROBIN. Returns -1 if there is
 * none.
 */
int route_next(enum route route, const struct candidate *all, int n, const char *tags, __s64 job,
	       const char *last, __u64 random);

#endif /* ROUTE_H */
