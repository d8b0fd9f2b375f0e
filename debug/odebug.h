/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: reports to debugobjects about timeouts. Without CONFIG_DEBUG_OBJECTS all of this is
 * empty and costs nothing.
 *
 * A timeout is active while the wheel holds it, that is while its word has QUEUED or FILED (ARMED
 * implies one of them); after a cancel, too, until the worker has released it. During this time
 * its memory must not be freed or initialised.
 *
 * debugobjects has one flag for each object, not a count, and several CPUs may arm a timeout at
 * once, without a lock. Still no lock is needed, because the word orders all changes of the flag:
 *
 *  - Activate: by the one producer whose cmpxchg changed the word from "not held" to QUEUED,
 *    between this cmpxchg and its push. The worker cannot release the timeout before the push.
 *    Other producers find it held, and an owner that wants to free it has to wait.
 *  - Deactivate: by the worker, before the cmpxchg that clears the last of QUEUED and FILED. After
 *    this cmpxchg the owner may free or arm the timeout at once. Before it the word says "held",
 *    so no producer activates. If the cmpxchg fails, an owner changed the word and the timeout is
 *    still held: the worker activates it again.
 *
 * So for each timeout the order is: activate, push, deactivate, cmpxchg; the next cmpxchg of a
 * producer, and the next activate, come after that.
 */
#ifndef DEBUG_ODEBUG_H
#define DEBUG_ODEBUG_H

#include "../core/hwtimer_types.h"

/**
 * struct hwtimer_odebug_ops - fixups that depend on the wheel
 * @end: cancel a timeout whose memory is being freed
 * @adopt: initialise a timeout that was never initialised, so that arming it fails
 */
struct hwtimer_odebug_ops {
	void (*end)(struct hwtimer_timeout *timeout);
	void (*adopt)(struct hwtimer_timeout *timeout);
};

#ifdef CONFIG_DEBUG_OBJECTS
void hwtimer_odebug_set_ops(const struct hwtimer_odebug_ops *how);
bool hwtimer_odebug_init(struct hwtimer_timeout *timeout);
void hwtimer_odebug_assert_init(struct hwtimer_timeout *timeout);
void hwtimer_odebug_activate(struct hwtimer_timeout *timeout);
void hwtimer_odebug_deactivate(struct hwtimer_timeout *timeout);
bool hwtimer_odebug_init_on_stack(struct hwtimer_timeout *timeout);
void hwtimer_odebug_free(struct hwtimer_timeout *timeout);
#else
static inline bool hwtimer_odebug_init(struct hwtimer_timeout *timeout) { return true; }
static inline void hwtimer_odebug_assert_init(struct hwtimer_timeout *timeout) { }
static inline void hwtimer_odebug_activate(struct hwtimer_timeout *timeout) { }
static inline void hwtimer_odebug_deactivate(struct hwtimer_timeout *timeout) { }
#endif

/* Returns the wheel of @timeout, after checking that it was initialised. */
static inline struct hwtimer_wheel *timeout_wheel(struct hwtimer_timeout *timeout)
{
	hwtimer_odebug_assert_init(timeout);
	return timeout->wheel;
}

#endif /* DEBUG_ODEBUG_H */
