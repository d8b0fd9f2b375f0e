/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what debugobjects is told about timeouts. Without CONFIG_DEBUG_OBJECTS
 * nothing, and it costs nothing.
 *
 * A timeout is active while its word says that the wheel holds it: QUEUED or FILED
 * (ARMED implies one of them), so after a cancel, too, until the worker has let go.
 * That is when its memory must not be freed or initialised.
 *
 * debugobjects has one flag for each object and does not count, while timeouts are
 * armed by several CPUs at once, without a lock. No lock is needed for this
 * either, as the word puts all that changes the flag in order:
 *
 *  - On: by the producer whose cmpxchg turned the word from "not held" to QUEUED.
 *    That is one, and it calls activate between this cmpxchg and its push. The worker
 *    cannot have the timeout before the push, so nobody lets go of it in between;
 *    whoever else arms it finds it held; and who wants to free it has to wait.
 *  - Off: by the worker, before the cmpxchg that clears what was left of QUEUED and
 *    FILED. Behind it the memory is the owner's, who may free or arm it at once. Until
 *    then the word says "held", and nobody activates. If the cmpxchg fails, somebody
 *    touched the timeout, which is still held: the worker takes it back.
 *
 * So for each timeout: activate, push, deactivate, cmpxchg, and only after this one
 * can the next cmpxchg of a producer be, and the next activate.
 */
#ifndef DEBUG_ODEBUG_H
#define DEBUG_ODEBUG_H

#include "../hwtimer_types.h"

/**
 * struct hwtimer_odebug_ops - how mistakes are mended
 * @end: end a timeout whose memory is being freed
 * @adopt: initialise what was never initialised, so that arming it fails
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

/* The wheel of @timeout, which had better been initialised. For what is called first. */
static inline struct hwtimer_wheel *timeout_wheel(struct hwtimer_timeout *timeout)
{
	hwtimer_odebug_assert_init(timeout);
	return timeout->wheel;
}

#endif /* DEBUG_ODEBUG_H */
