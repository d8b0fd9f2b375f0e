// SPDX-License-Identifier: GPL-2.0-only
/*
 * A clock_gettime() for programs in User-Mode Linux. Elsewhere the vDSO reads CLOCK_MONOTONIC
 * without a system call; there it makes one, which takes tens of us. This works like the vDSO: it
 * adds the processor's counter to the last reading of the kernel's clock, which each thread
 * repeats every 10 ms to stay accurate.
 *
 * To be linked to a program, or preloaded.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define NSEC_PER_SEC	1000000000ULL
#define LONGEST		(NSEC_PER_SEC / 100)	/* between two readings */
#define SHORTEST	(NSEC_PER_SEC / 10)	/* to compute the rate from */
#define SHIFT		32

/**
 * struct reading - a simultaneous reading of both clocks
 * @tsc: the processor's
 * @ns: the kernel's
 */
struct reading {
	uint64_t	tsc;
	uint64_t	ns;
};

/* Read before main(). */
static struct reading first;
/* ns per count of the processor, times 2^SHIFT; 0: not known yet. Shared by all threads. */
static uint64_t rate;

static __thread struct reading last;

/* As in the vDSO: not before earlier loads. */
static uint64_t count(void)
{
	_mm_lfence();
	return __rdtsc();
}

/* The processor's clock is that in the middle of the system call; the shortest of three calls. */
static void read_both(struct reading *l)
{
	uint64_t shortest = UINT64_MAX, before, after;
	struct timespec ts;
	int i;

	for (i = 0; i < 3; i++) {
		before = count();
		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
		after = count();
		if (after - before >= shortest)
			continue;
		shortest = after - before;
		l->tsc = before + shortest / 2;
		l->ns = ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
	}
}

static void __attribute__((constructor)) read_first(void)
{
	read_both(&first);
}

static uint64_t monotonic(void)
{
	uint64_t now = last.ns, known = __atomic_load_n(&rate, __ATOMIC_RELAXED);

	if (now && known) {
		now += (__uint128_t)(count() - last.tsc) * known >> SHIFT;
		if (now - last.ns < LONGEST)
			return now;
	}
	read_both(&last);
	if (last.ns - first.ns > SHORTEST) {
		known = ((__uint128_t)(last.ns - first.ns) << SHIFT) / (last.tsc - first.tsc);
		__atomic_store_n(&rate, known, __ATOMIC_RELAXED);
	}
	/* Never backwards. */
	if (last.ns < now)
		last.ns = now;
	return last.ns;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t ns;

	if (clock != CLOCK_MONOTONIC)
		return syscall(SYS_clock_gettime, clock, ts);
	ns = monotonic();
	ts->tv_sec = ns / NSEC_PER_SEC;
	ts->tv_nsec = ns % NSEC_PER_SEC;
	return 0;
}
