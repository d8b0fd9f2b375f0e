/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Code that idle_echo and idle_load share: time, limits, samples and their quantiles.
 */
#ifndef IDLE_COMMON_H
#define IDLE_COMMON_H

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <linux/types.h>

#define NS_PER_MS	1000000LL
#define NS_PER_S	1000000000LL

static inline __s64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Raise the limit of descriptors to @wanted, if possible. Returns the limit, at most @wanted. */
static inline long raise_nofile(long wanted)
{
	struct rlimit limit, old;

	if (getrlimit(RLIMIT_NOFILE, &old))
		err(1, "getrlimit");
	if (old.rlim_cur != RLIM_INFINITY && old.rlim_cur < (rlim_t)wanted) {
		/* Beyond the hard limit, if we have the right to raise that. */
		limit.rlim_cur = wanted;
		limit.rlim_max = old.rlim_max < (rlim_t)wanted ? (rlim_t)wanted : old.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit)) {
			limit = old;
			limit.rlim_cur = old.rlim_max;
			setrlimit(RLIMIT_NOFILE, &limit);
		}
		getrlimit(RLIMIT_NOFILE, &old);
	}
	if (old.rlim_cur == RLIM_INFINITY || old.rlim_cur > (rlim_t)wanted)
		return wanted;
	return old.rlim_cur;
}

/* Only the first MAX_SAMPLES are kept, which is enough for quantiles. */
#define MAX_SAMPLES	1000000

struct samples {
	__s64	*values;
	size_t	number;
	size_t	room;
};

static inline void sample(struct samples *s, __s64 value)
{
	if (s->number == MAX_SAMPLES)
		return;
	if (s->number == s->room) {
		s->room = s->room ? 2 * s->room : 1024;
		s->values = realloc(s->values, s->room * sizeof(*s->values));
		if (!s->values)
			err(1, "samples");
	}
	s->values[s->number++] = value;
}

static inline int compare_samples(const void *a, const void *b)
{
	__s64 x = *(const __s64 *)a, y = *(const __s64 *)b;

	return (x > y) - (x < y);
}

/* Returns the smallest sample that @share of the samples do not exceed. @s is sorted. */
static inline __s64 quantile(const struct samples *s, double share)
{
	size_t i = share * s->number;

	if (!s->number)
		return 0;
	if (i && i >= share * s->number)
		i--;
	return s->values[i < s->number ? i : s->number - 1];
}

static inline void sort_samples(struct samples *s)
{
	if (s->number)
		qsort(s->values, s->number, sizeof(*s->values), compare_samples);
}

/* Write "key value" lines: quantiles. @s is sorted. */
static inline void write_samples(FILE *f, const char *name, const struct samples *s)
{
	fprintf(f, "%s_samples %zu\n", name, s->number);
	fprintf(f, "%s_min_ns %lld\n", name, quantile(s, 0));
	fprintf(f, "%s_median_ns %lld\n", name, quantile(s, 0.5));
	fprintf(f, "%s_99_ns %lld\n", name, quantile(s, 0.99));
	fprintf(f, "%s_max_ns %lld\n", name, quantile(s, 1));
}

/* Opens standard output if @name is NULL. */
static inline FILE *open_stats(const char *name)
{
	FILE *f = name ? fopen(name, "w") : stdout;

	if (!f)
		err(1, "%s", name);
	return f;
}

static inline void close_stats(FILE *f, const char *name)
{
	if (fflush(f) || ferror(f) || (f != stdout && fclose(f)))
		err(1, "%s", name ? name : "standard output");
}

#endif /* IDLE_COMMON_H */
