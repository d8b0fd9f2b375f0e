/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the timeout itself, as its owner embeds it.
 *
 * Apart from hwtimer.h so that the wheel (hwtimer_wheel.c) can know the
 * timeout without knowing the API that is built upon the wheel.
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
 * typedef hwtimer_fn_t - what a timeout calls
 * @timeout: the timeout that expired
 *
 * Runs in the wheel's worker: process context, or softirq if the wheel's driver is
 * HWTIMER_DRIVER_HRTIMER; interrupts on, no lock held. It may arm, touch and cancel
 * any timeout, its own included, and it may free the memory that holds @timeout: the
 * wheel does not look at it again. In process context it may sleep for a short while,
 * but every other timeout of the wheel waits until it returns.
 */
typedef void (*hwtimer_fn_t)(struct hwtimer_timeout *timeout);

/**
 * typedef hwtimer_released_fn_t - what hwtimer_release() calls
 * @timeout: the timeout that was released; the wheel does not know it any more
 *
 * As a rule it runs in the wheel's worker, as a hwtimer_fn_t does, or in
 * hwtimer_wheel_stop(). But if the wheel had been stopped before the release, it
 * runs inside hwtimer_release(), in the context of its caller. So one that may be
 * called by who must not sleep must not sleep either; kfree() is always right.
 */
typedef void (*hwtimer_released_fn_t)(struct hwtimer_timeout *timeout);

/**
 * struct hwtimer_timeout - one timeout, embedded in its owner's structure
 * @node: the wheel's while the timeout is armed, and after a cancel until the
 *	wheel has let go of it (see hwtimer_cancel_sync() and
 *	hwtimer_release()). The owner's from the start of the callback until
 *	it arms again, and while the timeout is on the list that
 *	hwtimer_wheel_stop() handed back.
 * @request: links the timeout into a CPU's request queue; the wheel's.
 * @word: deadline and state in one; only hwtimer_wheel.c looks inside.
 * @fn: called at expiry. Set by hwtimer_init(), constant until a release.
 * @wheel: the wheel that it is armed on. Set by hwtimer_init(), constant.
 *
 * Everything that producers and the worker contend for is in @word. That it
 * is one word is what makes arm, touch and cancel lock-free.
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
