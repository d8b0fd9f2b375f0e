/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libhwtimer: a lock of one word, which costs one locked instruction each to take and to release
 * when nobody waits. Private to libhwtimer.c.
 *
 * The word is FREE, TAKEN, or WAITED_FOR: taken, and a thread may sleep. A thread that has slept
 * takes it as WAITED_FOR, because others may still sleep. So the release that finds WAITED_FOR
 * wakes one of them, and none is forgotten.
 */
#ifndef LOCK_H
#define LOCK_H

#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex
#define SYS_futex	SYS_futex_time64
#endif

enum { FREE, TAKEN, WAITED_FOR };

/* How often to look at a taken lock before sleeping. Most are held for tens of ns only. */
#define LOOKS		100

/* How long lock_pass() waits at most. A test defines it. */
#ifndef PASS_NS
#define PASS_NS		1000000
#endif

static bool lock_try(uint32_t *word)
{
	uint32_t free = FREE;

	/* [__atomic_compare_exchange_n: as this is a lock, and futex(2) compares the word again] */
	return __atomic_compare_exchange_n(word, &free, TAKEN, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* Take the lock after having slept. */
static void lock_sleep(uint32_t *word)
{
	/* [__atomic_exchange_n: as this is a lock, and futex(2) compares the word again] */
	while (__atomic_exchange_n(word, WAITED_FOR, __ATOMIC_ACQUIRE) != FREE)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, WAITED_FOR, NULL);
}

static void lock_wait(uint32_t *word)
{
	unsigned int i;

	for (i = 0; i < LOOKS; i++)
		if (__atomic_load_n(word, __ATOMIC_RELAXED) == FREE && lock_try(word))
			return;
	lock_sleep(word);
}

static inline void lock_take(uint32_t *word)
{
	if (!lock_try(word))
		lock_wait(word);
}

static inline void lock_release(uint32_t *word)
{
	/* [__atomic_exchange_n: claim-doorbell-broken-release] */
	if (__atomic_exchange_n(word, FREE, __ATOMIC_RELEASE) == WAITED_FOR)
		syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}

/*
 * If a thread waits, let it have the lock, and take it again afterwards. Without the sleep it would
 * be taken again before that thread has woken up. If that thread takes it first, there is no sleep;
 * if it even releases it first, nobody wakes us, hence the timeout.
 */
static inline void lock_pass(uint32_t *word)
{
	const struct timespec most = {
		.tv_sec = PASS_NS / 1000000000,
		.tv_nsec = PASS_NS % 1000000000,
	};

	if (__atomic_load_n(word, __ATOMIC_RELAXED) != WAITED_FOR)
		return;
	lock_release(word);
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, FREE, &most);
	lock_sleep(word);
}

#endif /* LOCK_H */
