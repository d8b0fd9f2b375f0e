// SPDX-License-Identifier: GPL-2.0-only
/*
 * route_check: tests jobs/route.c. For each way to route, 1,000 runs of a job go to executors of
 * which some have the tags, some are silent, and some are full; each choice has to be one that a
 * naive oracle allows, and the number of runs of each executor what the way promises.
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

static const char tags[] = "gpu,eu", fit[] = "abdef";

static int failed;

static void check(bool right, const char *route, const char *what)
{
	if (!right) {
		warnx("%s: %s", route, what);
		failed = 1;
	}
}

/* The only right executor; NULL if any that fits will do. */
static const char *oracle(enum route route, const struct candidate *all, int last)
{
	static char one[2];
	const char *c;
	int i, best = -1;
	bool less;

	switch (route) {
	case ROUTE_FIRST:
		return "a";
	case ROUTE_LAST:
		return "f";
	case ROUTE_FAILOVER:
		return "b";
	case ROUTE_BUSYOVER:
		return "a";
	case ROUTE_ROUND_ROBIN:
		c = last < 0 ? NULL : strchr(fit, *all[last].name);
		*one = c && c[1] ? c[1] : *fit;
		return one;
	case ROUTE_LFU:
	case ROUTE_LRU:
		for (i = 0; i < N; i++) {
			less = best < 0 || (route == ROUTE_LFU ? all[i].used < all[best].used :
					    all[i].last < all[best].last);
			if (strchr(fit, *all[i].name) && less)
				best = i;
		}
		return all[best].name;
	default:
		return NULL;
	}
}

/* Let 1,000 runs go to executors, as a scheduler does. */
static void count_runs(enum route route, int counts[N])
{
	struct candidate all[N];
	const char *right;
	int run, last = -1, to;

	memcpy(all, made, sizeof(all));
	memset(counts, 0, N * sizeof(*counts));
	for (run = 1; run <= RUNS; run++) {
		right = oracle(route, all, last);
		to = route_next(route, all, N, tags, route == ROUTE_HASH ? run : 7,
				last < 0 ? "" : all[last].name, random() + ((__u64)random() << 32));
		if (to < 0 || !strchr(fit, *all[to].name))
			errx(1, "%s: %d", routes[route], to);
		check(!right || !strcmp(right, all[to].name), routes[route], "not as the oracle");
		all[to].used = ++counts[to];
		all[to].last = run;
		last = to;
	}
}

/* Each of the five gets a fifth; chance: within five standard deviations. */
static void check_even(enum route route, int slack)
{
	int counts[N], i;

	count_runs(route, counts);
	for (i = 0; i < N; i++)
		check(i == 2 ? !counts[i] : abs(counts[i] - RUNS / 5) <= slack, routes[route],
		      "not even");
}

static void check_one(enum route route, int wanted)
{
	int counts[N];

	count_runs(route, counts);
	check(counts[wanted] == RUNS, routes[route], "not all to one");
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

int main(void)
{
	const char *seed = getenv("SEED") ?: "1";
	struct candidate one = { .name = "z", .tags = "" };

	srandom(atoi(seed));
	check_one(ROUTE_FIRST, 0);
	check_one(ROUTE_LAST, 5);
	check_one(ROUTE_FAILOVER, 1);
	check_one(ROUTE_BUSYOVER, 0);
	check_even(ROUTE_ROUND_ROBIN, 0);
	check_even(ROUTE_LFU, 0);
	check_even(ROUTE_LRU, 0);
	check_even(ROUTE_RANDOM, 64);
	check_even(ROUTE_HASH, 64);
	check_hash();
	check(route_next(ROUTE_FIRST, &one, 0, "", 1, "", 0) < 0, "none", "chosen");
	check(route_next(ROUTE_FIRST, &one, 1, "z", 1, "", 0) < 0, "a tag", "not needed");
	check(!route_next(ROUTE_ROUND_ROBIN, &one, 1, "", 1, "z", 0), "one", "not again");
	check(route_next(ROUTE_BUSYOVER, &one, 1, "", 1, "", 0) < 0, "busyover", "a full one");
	one.silent = true;
	check(!route_next(ROUTE_FAILOVER, &one, 1, "", 1, "", 0), "failover", "no silent one");
	if (failed)
		warnx("SEED=%s", seed);
	return failed;
}
