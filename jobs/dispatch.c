// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The executors are read once for all runs that are to be assigned, so a run that is assigned takes
 * a place in memory, too. An executor that goes meanwhile leaves its runs to the next call.
 */
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <glib.h>

#include "dispatch.h"
#include "store.h"

/* The same executors twice: for the store, and for route_next(). */
static struct executor_row *rows;
static struct candidate *all;
static int n;

static void forget_candidates(void)
{
	for (; n; n--) {
		g_free((char *)rows[n - 1].id);
		g_free((char *)rows[n - 1].name);
		g_free((char *)rows[n - 1].tags);
	}
}

static void read_candidates(void)
{
	struct executor_row row;

	forget_candidates();
	for (; store_each_candidate(&row); n++) {
		rows = g_realloc_n(rows, n + 1, sizeof(*rows));
		all = g_realloc_n(all, n + 1, sizeof(*all));
		rows[n] = (struct executor_row){
			.id = g_strdup(row.id), .name = g_strdup(row.name),
			.tags = g_strdup(row.tags),
		};
		all[n] = (struct candidate){
			.name = rows[n].name, .tags = rows[n].tags, .silent = row.silent,
			.room = row.places - row.runs,
		};
	}
}

/* Read which executors had the job's last runs; the last one to @latest. */
static void read_used(__s64 job, char **latest)
{
	__s64 used, last, greatest = 0;
	const char *name;
	int i;

	for (i = 0; i < n; i++) {
		all[i].used = 0;
		all[i].last = 0;
	}
	while (store_each_used(job, &name, &used, &last)) {
		if (last > greatest) {
			greatest = last;
			g_free(*latest);
			*latest = g_strdup(name);
		}
		for (i = 0; i < n; i++) {
			if (strcmp(all[i].name, name))
				continue;
			all[i].used = used;
			all[i].last = last;
		}
	}
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
	if (to < 0)
		return;
	all[to].room--;
	store_assign(offer->run, &rows[to], offer->shard, offer->shards);
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
		all[i].room--;
		if (shard)
			store_add_shard(offer->run, &rows[i], shard, shards);
		else
			store_assign(offer->run, &rows[i], shard, shards);
		shard++;
	}
}

void dispatch(void)
{
	bool first = true;
	struct offer offer;
	enum route route;

	while (store_each_offered(&offer)) {
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
