/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: struct hwtimer_timeout, which owners embed in their structures.
 *
 * Not in hwtimer.h, because hwtimer_queue.c needs the structure but not the API, which is a layer
 * above it.
 */
#ifndef HWTIMER_TYPES_H
#define HWTIMER_TYPES_H

#include <linux/atomic.h>
#include <linux/build_bug.h>
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

#endif /* HWTIMER_TYPES_H */
