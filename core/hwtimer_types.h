/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: struct hwtimer_timeout, which owners embed in their structures, and the parameters of
 * wheels.
 *
 * Not in hwtimer.h, because hwtimer_queue.c needs the structures but not the API, which is a layer
 * above it.
 */
#ifndef HWTIMER_TYPES_H
#define HWTIMER_TYPES_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/cpumask.h>
#include <linux/llist.h>
#include <linux/types.h>

struct hwtimer_timeout;
struct hwtimer_wheel;

/**
 * typedef hwtimer_fn_t - the callback of a timeout
 * @timeout: the timeout that expired
 *
 * Runs in the wheel's worker, in process context. Interrupts are on, and no lock is held. It may
 * arm, touch and cancel any timeout, including its own, and it may free the memory of @timeout,
 * which the wheel does not access again. It may sleep for a short time, but all other timeouts of
 * the wheel wait until it returns.
 */
typedef void (*hwtimer_fn_t)(struct hwtimer_timeout *timeout);

/**
 * typedef hwtimer_released_fn_t - the release function of a timeout
 * @timeout: the timeout that was released; the wheel does not hold it any more
 *
 * Runs in the wheel's worker, like a hwtimer_fn_t, or in hwtimer_wheel_stop(). If the wheel was
 * stopped before the release, it runs inside hwtimer_release(), in the context of the caller. So if
 * the caller of hwtimer_release() must not sleep, the release function must not sleep, either.
 * kfree() is always allowed.
 */
typedef void (*hwtimer_released_fn_t)(struct hwtimer_timeout *timeout);

/**
 * struct hwtimer_timeout - one timeout, embedded in its owner's structure
 * @node: belongs to the wheel while the timeout is armed, and after a cancel until the wheel no
 *	longer holds the timeout (see hwtimer_cancel_sync() and hwtimer_release()). Belongs to
 *	the owner from the start of the callback until the timeout is armed again, even if it is
 *	cancelled or released meanwhile; the wheel does not access it then. On a list that
 *	hwtimer_wheel_stop() handed back, it belongs to the caller of the stop
 * @request: links the timeout into a CPU's request queue; private to hwtimer_queue.c
 * @word: the deadline and the state; private to hwtimer_queue.c
 * @fn: the callback. Set by hwtimer_init(), constant until a release
 * @wheel: the wheel on which the timeout is armed. Set by hwtimer_init(), constant
 *
 * Producers and the worker contend only for @word, which they change by cmpxchg. This makes arm,
 * touch and cancel lock-free.
 */
struct hwtimer_timeout {
	struct list_head	node;
	struct llist_node	request;
	atomic64_t		word;
	hwtimer_fn_t		fn;
	struct hwtimer_wheel	*wheel;
};

static_assert(sizeof(void *) != 8 || sizeof(struct hwtimer_timeout) == 48);

/** define HWTIMER_NAME_LEN - the size of a wheel's name, including its final 0 */
#define HWTIMER_NAME_LEN	32
/** define HWTIMER_WHEEL_MAX_SLOTS - the most slots that a wheel can have */
#define HWTIMER_WHEEL_MAX_SLOTS	BIT(16)
/**
 * define HWTIMER_HORIZON - the deadline that never comes
 *
 * In ns since the wheel was created: 36.5 years. A timeout with this deadline or a later one stays
 * pending until it is cancelled.
 */
#define HWTIMER_HORIZON		((1ULL << 60) - 1)

/**
 * enum hwtimer_sched - how a wheel's worker is scheduled
 * @HWTIMER_SCHED_NORMAL: SCHED_NORMAL with the nice value of the parameters
 * @HWTIMER_SCHED_FIFO_LOW: the priority of sched_set_fifo_low(): above all SCHED_NORMAL tasks
 * @HWTIMER_SCHED_FIFO: the priority of sched_set_fifo(): above HWTIMER_SCHED_FIFO_LOW, too
 */
enum hwtimer_sched {
	HWTIMER_SCHED_NORMAL,
	HWTIMER_SCHED_FIFO_LOW,
	HWTIMER_SCHED_FIFO,
};

/**
 * enum hwtimer_clock - the clock of a wheel
 * @HWTIMER_CLOCK_MONOTONIC: CLOCK_MONOTONIC: stands still while the machine is suspended, so
 *	timeouts do not become due meanwhile
 * @HWTIMER_CLOCK_BOOTTIME: CLOCK_BOOTTIME: goes on during suspend. A timeout that becomes
 *	due while the machine is suspended expires after the resume, and the time since its
 *	deadline counts as lateness. It does not wake the machine
 *
 * Workers are not frozen with tasks: like timers, timeouts expire until the clocks stop, and again
 * as soon as the clocks run. A callback that must not do its work while the machine suspends or
 * resumes queues the work on a freezable workqueue (system_freezable_wq).
 */
enum hwtimer_clock {
	HWTIMER_CLOCK_MONOTONIC,
	HWTIMER_CLOCK_BOOTTIME,
};

/** define HWTIMER_MAX_LEVELS - the most levels that a wheel can have */
#define HWTIMER_MAX_LEVELS	16

/**
 * struct hwtimer_wheel_params - the parameters of a wheel
 * @name: the name of the wheel in debugfs, of its thread and in messages; 1 to HWTIMER_NAME_LEN - 1
 *	characters, no '/', not "." or "..". If another wheel has that name, ".2" is appended, or
 *	a number above those in use
 * @tick_ns: the length of a tick, above 0, and so how late a timeout may normally expire
 * @slack_ns: by how much later it may expire, so that one wake-up of the worker serves many
 *	timeouts: they expire only at each nth tick, where n is the largest power of two for which
 *	this makes none later. Up to HWTIMER_HORIZON; 0: at each tick. As the precision of
 *	FreeBSD's callout_reset_sbt()
 * @slots: slots per level, 1 to HWTIMER_WHEEL_MAX_SLOTS, rounded up to a power of two; with more
 *	than one level, at least 4
 * @levels: how many levels, 1 to HWTIMER_MAX_LEVELS; 0: as many as reach HWTIMER_HORIZON, at most
 *	HWTIMER_MAX_LEVELS, but one if there are 1 or 2 slots. A slot of a level is half as wide as
 *	the level below reaches. The worker visits a timeout that nobody touches at most once per
 *	level. While a timeout is further ahead than the top level reaches, the worker may also
 *	visit it once per round of that level
 * @bits: instead of @slots and @levels, which are 0 then: the base-2 logarithm of the slots of each
 *	level, up to the first 0; each from 1 to 16, and at least 2 with another level above. { 9 }:
 *	one level of 512 slots, as in Netty; { 6, 6, 5 }: as the hands of a clock
 * @clock: the clock of the wheel
 * @cap: how many timeouts may be pending at once; 0: any number. While two CPUs arm the same
 *	timeout, it counts twice. With a cap, arming takes a spinlock once in many calls, and may
 *	take a step per possible CPU when few places are left
 * @cpus: CPUs that the thread may run on; NULL: any. If all of them go offline, the thread runs
 *	elsewhere, and stays there
 * @sched: the thread's scheduling class
 * @nice: nice value with HWTIMER_SCHED_NORMAL, -20 to 19; else 0
 */
struct hwtimer_wheel_params {
	const char		*name;
	u64			tick_ns;
	u64			slack_ns;
	unsigned int		slots;
	unsigned int		levels;
	unsigned char		bits[HWTIMER_MAX_LEVELS];
	enum hwtimer_clock	clock;
	unsigned long		cap;
	const struct cpumask	*cpus;
	enum hwtimer_sched	sched;
	int			nice;
};

#endif /* HWTIMER_TYPES_H */
