// SPDX-License-Identifier: GPL-2.0-only
/*
 * route_check: tests jobs/route.c. For each way to route, 1,000 runs of a job go to executors of
 * which some have the tags, some are silent, and some are full; each choice has to be the one in a
 * table, the oracle, and the number of runs of each executor what the way promises.
 *
 * SEED=N in the environment repeats a run. The status is 0 if everything is correct.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route.h"

#define RUNS	1000
#define N	6

/* c lacks the tags, a is silent, b and e are full. */
static const struct candidate made[N] = {
	{ .name = "a", .tags = "eu,gpu", .silent = true, .room = 2 },
	{ .name = "b", .tags = "gpu,eu,x" }, { .name = "c", .tags = "gpu,eux", .room = 9 },
	{ .name = "d", .tags = "x,eu,gpu", .room = 1 }, { .name = "e", .tags = "gpu,eu" },
	{ .name = "f", .tags = "eu,y,gpu", .room = 5 },
};

static const char tags[] = "gpu,eu";

/* Which executors get the runs, in turn; random: any, as often. */
static const struct way {
	enum route route;
	const char *turns;
} ways[] = {
	{ ROUTE_FIRST, "a" }, { ROUTE_LAST, "f" }, { ROUTE_FAILOVER, "b" }, { ROUTE_BUSYOVER, "a" },
	{ ROUTE_ROUND_ROBIN, "abdef" }, { ROUTE_LFU, "abdef" }, { ROUTE_LRU, "abdef" },
	{ ROUTE_RANDOM, NULL }, { ROUTE_HASH, NULL },
};

static int failed;

static void check(bool right, const char *route, const char *what)
{
	if (!right) {
		warnx("%s: %s", route, what);
		failed = 1;
	}
}

/* Let runs go to executors, as a scheduler does: for the hash, runs of 1,000 jobs. */
static void check_way(const struct way *w)
{
	const char *name = routes[w->route], *last = "";
	struct candidate all[N];
	int run, to, i;

	memcpy(all, made, sizeof(all));
	for (run = 1; run <= RUNS; run++) {
		to = route_next(w->route, all, N, tags, w->route == ROUTE_HASH ? run : 7, last,
				random() + ((__u64)random() << 32));
		if (to < 0)
			errx(1, "%s: %d", name, to);
		last = all[to].name;
		check(!w->turns || *last == w->turns[(run - 1) % strlen(w->turns)], name,
		      "not as the oracle");
		all[to].used++;
		all[to].last = run;
	}
	/* Within five standard deviations */
	for (i = 0; i < N && !w->turns; i++)
		check(i == 2 ? !all[i].used : abs((int)all[i].used - RUNS / 5) <= 64, name,
		      "not even");
}

/* A job keeps its executor, and moves only if that goes: 1,000 jobs, each executor gone once. */
static void check_hash(void)
{
	struct candidate left[N - 1];
	int job, gone, before, after;

	for (job = 1; job <= RUNS; job++) {
		before = route_next(ROUTE_HASH, made, N, tags, job, "", random());
		for (gone = 0; gone < N; gone++) {
			memcpy(left, made, gone * sizeof(*left));
			memcpy(left + gone, made + gone + 1, (N - 1 - gone) * sizeof(*left));
			after = route_next(ROUTE_HASH, left, N - 1, tags, job, "a", random());
			check(gone == before || !strcmp(left[after].name, made[before].name),
			      "hash", "a job moved");
		}
	}
}

/* What the way of before gives no reason for: a was used least, but b longer ago. */
static void check_history(void)
{
	struct candidate two[] = { { .name = "a", .tags = "", .used = 1, .last = 9 },
				   { .name = "b", .tags = "", .used = 2, .last = 8 } };

	check(route_next(ROUTE_LFU, two, 2, "", 1, "a", 0) == 0, "lfu", "not the least used");
	check(route_next(ROUTE_LRU, two, 2, "", 1, "a", 0) == 1, "lru", "not the longest ago");
	check(!route_next(ROUTE_ROUND_ROBIN, two, 2, "", 1, "b", 0), "round-robin", "not again");
	check(route_next(ROUTE_FIRST, two, 0, "", 1, "", 0) < 0, "none", "chosen");
	check(route_next(ROUTE_FIRST, two, 2, "z", 1, "", 0) < 0, "a tag", "not needed");
	check(route_next(ROUTE_BUSYOVER, two, 2, "", 1, "", 0) < 0, "busyover", "a full one");
	two[0].silent = true;
	check(!route_next(ROUTE_FAILOVER, two, 1, "", 1, "", 0), "failover", "no silent one");
}

int main(void)
{
	const char *seed = getenv("SEED") ?: "1";
	size_t i;

	srandom(atoi(seed));
	for (i = 0; i < ARRAY_SIZE(ways); i++)
		check_way(&ways[i]);
	check_hash();
	check_history();
	if (failed)
		warnx("SEED=%s", seed);
	return failed;
}
