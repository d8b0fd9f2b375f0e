// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <stdint.h>
#include <string.h>

#include "route.h"

const char *const routes[] = {
	"first", "last", "round-robin", "random", "hash", "lfu", "lru", "failover", "busyover",
	"broadcast",
};

bool has_tags(const struct candidate *c, const char *tags)
{
	size_t len, have;
	const char *at;

	for (; *tags; tags += len + (tags[len] == ',')) {
		len = strcspn(tags, ",");
		for (at = c->tags; *at; at += have + (at[have] == ',')) {
			have = strcspn(at, ",");
			if (have == len && !memcmp(at, tags, len))
				break;
		}
		if (!*at)
			return false;
	}
	return true;
}

/*
 * Rendezvous hashing: each key ranks all names, and the first one gets it. Without that one, its
 * keys go to the others evenly, and no other key moves. FNV-1a, and the last steps of MurmurHash3.
 */
static __u64 rank(const char *name, __u64 key)
{
	__u64 hash = 0xcbf29ce484222325 ^ key * 0x9e3779b97f4a7c15;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
	hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
	hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53;
	return hash ^ hash >> 33;
}

/* The candidate with the least of this gets the run, and among equals the first one. */
static __u64 cost(enum route route, const struct candidate *c, int at, __s64 job, const char *last,
		  __u64 random)
{
	switch (route) {
	case ROUTE_LAST:
		return UINT64_MAX - at - 1;
	case ROUTE_ROUND_ROBIN:
		return strcmp(c->name, last) <= 0;
	case ROUTE_RANDOM:
		return rank(c->name, random) >> 1;
	case ROUTE_HASH:
		return rank(c->name, job) >> 1;
	case ROUTE_LFU:
		return c->used;
	case ROUTE_LRU:
		return c->last;
	case ROUTE_FAILOVER:
		return c->silent;
	case ROUTE_BUSYOVER:
		return c->room > 0 ? 0 : UINT64_MAX;
	default:
		return 0;
	}
}

int route_next(enum route route, const struct candidate *all, int n, const char *tags, __s64 job,
	       const char *last, __u64 random)
{
	__u64 least = UINT64_MAX, its;
	int i, best = -1;

	for (i = 0; i < n; i++) {
		if (!has_tags(&all[i], tags))
			continue;
		its = cost(route, &all[i], i, job, last, random);
		if (its < least) {
			least = its;
			best = i;
		}
	}
	return best;
}
