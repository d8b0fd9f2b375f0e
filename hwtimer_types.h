/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the timeout itself, as its owner embeds it.
 *
 * Not in hwtimer.h, because the wheel (hwtimer_wheel.c) has to know timeouts but not the
 * API, which is built on the wheel.
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
 * Runs in the wheel's worker: process context, or softirq if the wheel's driver is
 * HWTIMER_DRIVER_HRTIMER; interrupts on, no lock held. It may arm, touch and cancel
 * any timeout, including its own, and it may free the memory that holds @timeout: the
 * wheel does not access it again. In process context it may sleep for a short time, but
 * all other timeouts of the wheel wait until it returns.
 */
typedef void (*hwtimer_fn_t)(struct hwtimer_timeout *timeout);

/**
 * typedef hwtimer_released_fn_t - the release function of a timeout
 * @timeout: the timeout that was released; the wheel does not know it any more
 *
 * Usually it runs in the wheel's worker, like a hwtimer_fn_t, or in hwtimer_wheel_stop().
 * If the wheel was stopped before the release, it runs inside hwtimer_release(), in the
 * context of its caller. So if that caller must not sleep, the release function must not,
 * either; kfree() is always allowed.
 */
typedef void (*hwtimer_released_fn_t)(struct hwtimer_timeout *timeout);

/**
 * struct hwtimer_timeout - one timeout, embedded in its owner's structure
 * @node: belongs to the wheel while the timeout is armed, and after a cancel until the wheel no
 *	longer holds it (see hwtimer_cancel_sync() and hwtimer_release()). Belongs to the
 *	owner from the start of the callback until it is armed again, and while the timeout is
 *	on a list that hwtimer_wheel_stop() handed back.
 * @request: links the timeout into a CPU's request queue; the wheel's.
 * @word: deadline and state in one; only hwtimer_wheel.c looks inside.
 * @fn: called at expiry. Set by hwtimer_init(), constant until a release.
 * @wheel: the wheel that it is armed on. Set by hwtimer_init(), constant.
 *
 * Everything that producers and the worker contend for is in @word. Because it is one word,
 * arm, touch and cancel are lock-free.
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
