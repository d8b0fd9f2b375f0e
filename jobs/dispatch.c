// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The executors are read once for all runs that are to be assigned, so a run that is assigned takes
 * a place in memory, too. An executor that goes meanwhile leaves its runs to the next call.
 */
#include <err.h>
#include <string.h>
#include <sys/random.h>

#include <glib.h>

#include "lanes.h"

/* A run that is to be assigned. */
struct offer {
	__s64		run, job;
	__s64		shard, shards;	/* shards: NEVER: it was not assigned yet */
	const char	*executor;	/* that had it, or "" */
	const char	*route, *tags;
};

static struct candidate *all;
static int n;

static void read_candidates(void)
{
	for (; n; n--) {
		g_free((char *)all[n - 1].id);
		g_free((char *)all[n - 1].name);
		g_free((char *)all[n - 1].tags);
	}
	for (; store_each(EACH_CANDIDATE); n++) {
		all = g_renew(struct candidate, all, n + 1);
		all[n] = (struct candidate){
			.id = g_strdup(store_text(EACH_CANDIDATE, 0)),
			.name = g_strdup(store_text(EACH_CANDIDATE, 1)),
			.tags = g_strdup(store_text(EACH_CANDIDATE, 2)),
			.room = store_int(EACH_CANDIDATE, 3) - store_int(EACH_CANDIDATE, 4),
			.silent = store_int(EACH_CANDIDATE, 6),
		};
	}
}

/* Read which executors had the job's last runs; the last one to @latest. */
static void read_used(__s64 job, char **latest)
{
	__s64 last, greatest = 0;
	const char *name;
	int i;

	for (i = 0; i < n; i++) {
		all[i].used = 0;
		all[i].last = 0;
	}
	while (store_each(EACH_USED, N(job))) {
		name = store_text(EACH_USED, 0);
		last = store_int(EACH_USED, 2);
		if (last > greatest) {
			greatest = last;
			g_free(*latest);
			*latest = g_strdup(name);
		}
		for (i = 0; i < n; i++) {
			if (strcmp(all[i].name, name))
				continue;
			all[i].used = store_int(EACH_USED, 1);
			all[i].last = last;
		}
	}
}

/* Let this executor have the run; or, as @q says, one more for its due time. */
static void give(enum query q, __s64 run, struct candidate *to, __s64 shard, __s64 shards)
{
	to->room--;
	store_write(q, S(to->id), S(to->name), N(shard), N(shards), N(run));
	db->wake(to->id);
}

static void assign(const struct offer *offer, enum route route)
{
	char *latest = g_strdup(offer->executor);
	__u64 random = 0;
	int to;

	if (route == ROUTE_RANDOM && getrandom(&random, sizeof(random), 0) != sizeof(random))
		err(1, "getrandom");
	if (offer->shards == NEVER &&
	    (route == ROUTE_ROUND_ROBIN || route == ROUTE_LFU || route == ROUTE_LRU))
		read_used(offer->job, &latest);
	to = route_next(route, all, n, offer->tags, offer->job, latest, random);
	g_free(latest);
	if (to >= 0)
		give(ASSIGN, offer->run, &all[to], offer->shard, offer->shards);
}

/* Each executor gets a run. */
static void broadcast(const struct offer *offer)
{
	__s64 shards = 0, shard = 0;
	int i;

	for (i = 0; i < n; i++)
		shards += has_tags(&all[i], offer->tags);
	for (i = 0; i < n; i++) {
		if (!has_tags(&all[i], offer->tags))
			continue;
		give(shard ? ADD_SHARD : ASSIGN, offer->run, &all[i], shard, shards);
		shard++;
	}
}

void dispatch(void)
{
	const enum query q = EACH_OFFERED;
	bool first = true;
	struct offer offer;
	enum route route;

	while (store_each(q)) {
		offer = (struct offer){
			.run = store_int(q, 0), .job = store_int(q, 1),
			.shard = store_int(q, 2), .shards = store_int(q, 3),
			.executor = store_text(q, 4), .route = store_text(q, 5),
			.tags = store_text(q, 6),
		};
		if (first)
			read_candidates();
		first = false;
		for (route = 0; route < ROUTES - 1 && strcmp(routes[route], offer.route);)
			route++;
		/* A shard whose executor went is the work of the next one. */
		if (route != ROUTE_BROADCAST)
			assign(&offer, route);
		else if (offer.shards == NEVER)
			broadcast(&offer);
		else
			assign(&offer, ROUTE_ROUND_ROBIN);
	}
}
