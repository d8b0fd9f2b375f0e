/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the wheel as a data structure. Time comes in as a parameter, and
 * a driver (hwtimer_kthread.c, hwtimer_hrtimer.c) moves it; nothing here has a
 * clock, a thread or a device. Times are ns since the wheel began.
 */
#ifndef HWTIMER_WHEEL_H
#define HWTIMER_WHEEL_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/completion.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/types.h>

#include <asm/local.h>

#include "hwtimer_types.h"

#define WHEEL_MAX_SLOTS		BIT(30)
#define WHEEL_MAX_LEVELS	16
/* The latest deadline; also the one that means "never". */
#define WHEEL_FOREVER		((1ULL << 60) - 1)
/* wheel_prepare_sleep(): sleep until somebody kicks. */
#define WHEEL_IDLE		U64_MAX
/*
 * How long requests may wait for the worker while timeouts are being armed. In the
 * torture test very long, so that no look of the worker's makes up for a lost wake-up.
 */
#ifndef WHEEL_DRAIN_NS
#define WHEEL_DRAIN_NS		(250 * 1000 * 1000ULL)
#endif
/*
 * The worker is woken after this many requests of a CPU, whenever they are due: they are still
 * in the caches, and too few to delay what is due.
 */
#define WHEEL_DEPTH		1024
/*
 * How many buckets of the top level it looks ahead at before it sleeps; also the longest run of
 * empty buckets that is passed over in one step.
 */
#define WHEEL_LOOKAHEAD		65536
/*
 * The least that @probes allows: how many buckets that hold only later rounds, and runs of empty
 * ones, are passed over before it sleeps.
 */
#define WHEEL_PROBES		256
/* How many timeouts or requests one wheel_advance() handles, or buckets it passes over. */
#define WHEEL_BUDGET		1024
/* How many timeouts one wheel_advance() looks at for wheel_survey(), beside those. */
#define WHEEL_SURVEY		128

/**
 * enum wheel_state - the life of a wheel, in this order
 * @WHEEL_INIT: never had a timeout
 * @WHEEL_STARTED: has had one, or was started
 * @WHEEL_SHUTDOWN: arming fails; what was pending is being handed back
 * @WHEEL_STOPPED: the wheel holds nothing. A grace period later nobody looks at its queues
 */
enum wheel_state {
	WHEEL_INIT,
	WHEEL_STARTED,
	WHEEL_SHUTDOWN,
	WHEEL_STOPPED,
};

/**
 * struct wheel_ops - what a wheel asks of its driver
 * @kick: make the worker call wheel_advance() soon. Any context. May be called
 *	when the worker runs already.
 * @expire: run the callback: call @fn on @t and look at @t no more. Called by
 *	wheel_advance(), for each expiry. @deadline is the one that was reached.
 * @alloc: memory for another level, for kvfree(), or NULL. Called by the worker, if
 *	the wheel grows.
 * @softirq: callbacks run in one. They must not sleep, and what wheel_sweep() calls in
 *	process context must be kept from softirqs as well
 */
struct wheel_ops {
	void (*kick)(struct hwtimer_wheel *w);
	void (*expire)(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		       hwtimer_fn_t fn, u64 deadline);
	void *(*alloc)(struct hwtimer_wheel *w, size_t size);
	bool softirq;
};

/**
 * struct wheel_shape - how a wheel is built; see struct hwtimer_wheel_params
 * @tick_ns: ns per tick
 * @slots: slots per level, to be rounded up
 * @levels: levels to begin with; 0: 1
 * @grow: add levels when a timeout needs them
 * @cap: most timeouts that may be pending; 0: any number
 */
struct wheel_shape {
	u64		tick_ns;
	unsigned int	slots;
	unsigned int	levels;
	bool		grow;
	unsigned long	cap;
};

/**
 * struct wheel_queue - the requests and counts of one CPU
 * @requests: pushed by producers on this CPU, emptied by the worker
 * @released: the same, for timeouts that are only to be let go of
 * @in_flight: producers on this CPU between setting QUEUED and having pushed;
 *	above 1 when an interrupt arms in between. Written by this CPU only
 * @pushed: requests pushed
 * @armed: timeouts that became pending
 * @touched: deadlines of pending timeouts that were changed
 * @cancelled: timeouts that stopped being pending by a cancel or release
 * @rejected: arms refused for the cap
 * @coalesced: requests that needed no push, because one was on its way
 * @kicks: times that the worker had to be woken
 *
 * Counts are of what this CPU did, so only their sums over all CPUs mean
 * something. They wrap on 32-bit machines. local_t: they count in interrupts, too, and an
 * address that is made once serves all that an operation counts.
 */
struct wheel_queue {
	struct llist_head	requests;
	struct llist_head	released;
	local_t			in_flight;
	local_t			pushed;
	local_t			armed;
	local_t			touched;
	local_t			cancelled;
	local_t			rejected;
	local_t			coalesced;
	local_t			kicks;
} ____cacheline_aligned;

/**
 * struct wheel_bucket - one slot
 * @timeouts: what is filed here, in the order of filing; may hold @cursor and @place, too
 * @next: number of a tick before which no timeout in here is due
 *
 * Not initialised while the bucket's bit in the bitmap is clear.
 */
struct wheel_bucket {
	struct list_head	timeouts;
	u64			next;
};

/**
 * struct wheel_level - one turn of buckets
 * @buckets: one per slot, and behind them, in the same memory, @occupied
 * @occupied: a bit per bucket: set if there may be something in it
 */
struct wheel_level {
	struct wheel_bucket	*buckets;
	unsigned long		*occupied;
};

/**
 * struct wheel_counts - sums for whoever looks; see wheel_count()
 * @armed: timeouts that became pending
 * @touched: deadlines of pending timeouts that were changed
 * @cancelled: pending timeouts cancelled or released
 * @expired: pending timeouts expired
 * @handed_back: pending timeouts that wheel_sweep() took
 * @rejected: arms refused for the cap
 * @coalesced: requests that needed no push
 * @kicks: times that the worker was woken by who made a request
 * @drained: requests that the worker handled; a release that came behind another request counts
 *	once more
 * @visits: times that the worker looked at a timeout in a bucket
 * @cascaded: timeouts filed anew because their slot came up, or the wheel grew
 * @refiled: timeouts filed anew at a tick, because they had been touched
 * @ticks: ticks at which it had a bucket to look at
 * @grow_failures: levels that could not be added for want of memory
 * @pending: armed - cancelled - expired - handed_back; exact when nothing is
 *	in flight, never less than what is pending
 */
struct wheel_counts {
	unsigned long armed, touched, cancelled, expired, handed_back;
	unsigned long rejected, coalesced, kicks;
	unsigned long drained, visits, cascaded, refiled, ticks, grow_failures;
	unsigned long pending;
};

struct wheel_survey;

/*
 * For wheel_survey(): timeout @t is in bucket @i, counted from the first of interest, and pending
 * for @deadline, if it is @armed. It stays where it is during the call.
 */
typedef void (*wheel_survey_fn)(void *arg, unsigned int i, struct hwtimer_timeout *t,
				bool armed, u64 deadline);

/**
 * struct hwtimer_wheel - the wheel
 * @tick_ns: constant
 * @cap: most timeouts that may be pending; 0: any number. Constant
 * @ops: the driver's. Constant
 * @queues: one per CPU
 * @slots: slots per level, a power of two. Constant
 * @slot_bits: ilog2(@slots). Constant
 * @max_levels: as many as @level may have in use. Constant; more than @levels
 *	only in a wheel that grows
 * @state: enum wheel_state; only grows
 * @places: timeouts pending, if there is a cap
 * @kick_below: an arm for an earlier deadline kicks the worker. 0 while it
 *	runs or has been kicked; else published by wheel_prepare_sleep()
 * @running: the timeout whose callback runs. Only the worker sets and clears it;
 *	wheel_timeout_init() may set bit 0: initialised meanwhile
 * @waiters: how many wait in wheel_end_sync()
 * @survey: what wheel_survey() asks of the worker
 * @barrier: what wheel_barrier() waits for
 * @worker_lock: held by who waits at a barrier, who asks for a survey, and who ends the
 *	worker
 * @survey_lock: held by who waits in wheel_survey(). Taken before @worker_lock
 * @callback_key: of @callback_map
 * @callback_map: tells lockdep who holds what while callbacks run, and who waits
 *	for callbacks holding what
 * @level: the worker's, as all that follows
 * @levels: how many are in use; others may read it
 * @never: filed timeouts whose deadline is WHEEL_FOREVER
 * @cascading: filed timeouts of a slot that came up, to be filed anew
 * @far: filed timeouts that wait for the wheel to grow
 * @far_tick: the latest tick of those
 * @may_grow: the wheel grows, is not full grown, and in this pass there was
 *	memory
 * @growing: levels were added, and what was the top level is being taken to @cascading
 * @old_top: that level
 * @old_slot: the first of its slots that has not been taken
 * @due: filed timeouts taken from the bucket of @now_tick to be settled
 * @cursor: while there is one level: where in the bucket of @now_tick the visit goes
 *	on; on no list while no visit is under way
 * @surveyed: the survey that the worker has begun for wheel_survey(), or NULL
 * @place: where in a bucket @surveyed has paused; else on no list
 * @pushed: requests taken from a queue, newest first
 * @taken: and turned round, oldest first
 * @to_release: released timeouts whose release functions are called next
 * @aside: released timeouts that came by way of a request, for the next round of
 *	@to_release
 * @release_cpu: the CPU whose released timeouts come next in this round; nr_cpu_ids: the
 *	round ends with @to_release
 * @asked: @barrier, as it was when this pass began
 * @answers: @asked, as it was when this round of @to_release began
 * @drain_cpu: the CPU whose queue comes next; nr_cpu_ids: drain is over
 * @probes: how many looks wheel_prepare_sleep() takes. Constant
 * @cur: the first tick that is not yet begun: nothing is filed before it
 * @now_tick: the tick that is being settled
 * @target: the last tick that this pass may settle
 * @visit_next: lower bound of what the visit leaves in the bucket
 * @stage: what wheel_advance() goes on with
 * @in_row: since the last callback the wheel has only claimed the next timeout. Set by
 *	@ops->expire, cleared by the wheel
 * @filed: timeouts that are FILED, in buckets and on the lists above
 * @armed_seen: sum of armed at the last wheel_prepare_sleep()
 * @expired: count, for wheel_count() and wheel_holds()
 * @handed_back: the same
 * @drained: the same
 * @visits: the same
 * @cascaded: the same
 * @refiled: the same
 * @ticks: the same
 * @grow_failures: the same
 */
struct hwtimer_wheel {
	/* read by producers */
	u64			tick_ns;
	unsigned long		cap;
	const struct wheel_ops	*ops;
	struct wheel_queue __percpu *queues;
	unsigned int		slots;
	unsigned int		slot_bits;
	unsigned int		max_levels;
	int			state;

	/* written by producers and by the worker */
	atomic_long_t		places ____cacheline_aligned;

	/* written by the worker and, rarely, by others; read by producers */
	atomic64_t		kick_below ____cacheline_aligned;
	struct hwtimer_timeout	*running;
	atomic_t		waiters;
	struct wheel_survey	*survey;
	struct completion	*barrier;
	struct mutex		worker_lock;	/* see above */
	struct mutex		survey_lock;	/* see above */
	struct lock_class_key	callback_key;
	struct lockdep_map	callback_map;

	/* the worker's own */
	struct wheel_level	level[WHEEL_MAX_LEVELS] ____cacheline_aligned;
	unsigned int		levels;
	struct list_head	never;
	struct list_head	cascading;
	struct list_head	far;
	u64			far_tick;
	bool			may_grow;
	bool			growing;
	unsigned int		old_top;
	unsigned int		old_slot;
	struct list_head	due;
	struct list_head	cursor;
	struct wheel_survey	*surveyed;
	struct list_head	place;
	struct llist_node	*pushed;
	struct llist_node	*taken;
	struct llist_node	*to_release;
	struct llist_node	*aside;
	unsigned int		release_cpu;
	struct completion	*asked;
	struct completion	*answers;
	unsigned int		drain_cpu;
	unsigned int		probes;
	u64			cur;
	u64			now_tick;
	u64			target;
	u64			visit_next;
	int			stage;
	bool			in_row;
	unsigned long		filed;
	unsigned long		armed_seen;
	unsigned long		expired;
	unsigned long		handed_back;
	unsigned long		drained;
	unsigned long		visits;
	unsigned long		cascaded;
	unsigned long		refiled;
	unsigned long		ticks;
	unsigned long		grow_failures;
};

/* Making and ending; process context. */
void wheel_module_init(void);
int wheel_init(struct hwtimer_wheel *w, const struct wheel_shape *shape,
	       const struct wheel_ops *ops, gfp_t gfp);
void wheel_free(struct hwtimer_wheel *w);
int wheel_start(struct hwtimer_wheel *w);
bool wheel_shutdown(struct hwtimer_wheel *w);
void wheel_sweep(struct hwtimer_wheel *w, struct list_head *pending);

/* wheel_cancel() or wheel_kill() */
typedef bool (*wheel_end_fn)(struct hwtimer_timeout *t);

/* Producers; any context. */
void wheel_timeout_init(struct hwtimer_timeout *t, struct hwtimer_wheel *w,
			hwtimer_fn_t fn);
int wheel_arm(struct hwtimer_timeout *t, u64 deadline);
int wheel_touch(struct hwtimer_timeout *t, u64 deadline);
bool wheel_cancel(struct hwtimer_timeout *t);
bool wheel_kill(struct hwtimer_timeout *t);
void wheel_detach(struct hwtimer_timeout *t);
bool wheel_release(struct hwtimer_timeout *t, hwtimer_released_fn_t released);
bool wheel_pending(const struct hwtimer_timeout *t);
bool wheel_holds(const struct hwtimer_timeout *t);
u64 wheel_deadline(const struct hwtimer_timeout *t);

/* Who waits for the worker; process context. */
bool wheel_end_sync(struct hwtimer_timeout *t, wheel_end_fn end, unsigned long patience);
bool wheel_end_here(struct hwtimer_timeout *t, wheel_end_fn end);

/* The worker. */
bool wheel_advance(struct hwtimer_wheel *w, u64 now, unsigned int budget);
u64 wheel_prepare_sleep(struct hwtimer_wheel *w, u64 now);
void wheel_awake(struct hwtimer_wheel *w);
void wheel_drain_all(struct hwtimer_wheel *w);

/* Whoever looks; process context. */
void wheel_count(const struct hwtimer_wheel *w, struct wheel_counts *c);
int wheel_survey(struct hwtimer_wheel *w, unsigned int level, unsigned int first,
		 unsigned int n, wheel_survey_fn fn, void *arg);
void wheel_barrier(struct hwtimer_wheel *w);

#endif /* HWTIMER_WHEEL_H */
