/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: counting instructions in a guest of one CPU, whose clock is derived from them: 1 ns for
 * each (scripts/guest/boot -i).
 */
#ifndef COUNTED_H
#define COUNTED_H

#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MS	1000000ULL
#define SEC	1000000000ULL

static inline uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

/* The number after @what in @path. */
static inline uint64_t number_in(const char *path, const char *what)
{
	unsigned long long n;
	char line[512];
	FILE *file = fopen(path, "r");

	while (file && fgets(line, sizeof(line), file)) {
		char *at = strstr(line, what);

		if (!at || sscanf(at + strlen(what), "%*[ :]%llu", &n) != 1)
			continue;
		fclose(file);
		return n;
	}
	errx(1, "no '%s' in %s", what, path);
}

/* For how long the CPU has been idle, in ns. */
static inline uint64_t idle_ns(void)
{
	return number_in("/proc/timer_list", ".idle_sleeptime");
}

#endif /* COUNTED_H */
