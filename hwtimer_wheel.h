/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the wheel as a data structure. It has no clock and no thread: core/hwtimer_kthread.c
 * calls the worker's functions and passes the time. Times are in ns since the wheel was created.
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

#define WHEEL_MAX_SLOTS		BIT(16)
#define WHEEL_MAX_LEVELS	16
/* The latest deadline. It means "never". */
#define WHEEL_HORIZON		((1ULL << 60) - 1)
/* Returned by wheel_prepare_sleep(): sleep until the next kick. */
#define WHEEL_IDLE		U64_MAX
/*
 * How long the worker sleeps at most while timeouts are being armed. Very long in the torture
 * test, so that a lost wakeup is not hidden by the next drain.
 */
#ifndef WHEEL_DRAIN_NS
#define WHEEL_DRAIN_NS		(250 * 1000 * 1000ULL)
#endif
/*
 * Every so many requests, a CPU kicks the worker, whatever their deadlines are. So few requests
 * are still in the caches, and do not delay timeouts that are due.
 */
#define WHEEL_DEPTH		1024
/*
 * Minimum and maximum of @probes: how many buckets that hold only timeouts of later rounds, and how
 * many runs of empty buckets, the worker skips in the search before it sleeps.
 */
#define WHEEL_PROBES		256
#define WHEEL_LOOKAHEAD		65536
/*
 * How many of the requests that a CPU pushed last the worker can fetch from memory ahead of their
 * turn, see fetch_ahead(), and how far ahead it fetches them.
 */
#define WHEEL_RECENT		1024UL
#define WHEEL_AHEAD		8
/* From so many requests on, a list is walked alone, and its CPU gets hints for later lists. */
#define WHEEL_LONG		256
/* From how many CPUs the worker takes requests side by side. */
#define WHEEL_ABREAST		8
/* The budget of one wheel_advance(), in timeouts and requests handled and buckets skipped. */
#define WHEEL_BUDGET		1024
/* A drain of more than a tick is interrupted to settle ticks, each time after so many requests. */
#define WHEEL_DRAIN_SHARE	8192
/* How many timeouts one wheel_advance() surveys, in addition to its budget. */
#define WHEEL_SURVEY		128

/**
 * enum wheel_state - the states of a wheel, in the order in which it passes through them
 * @WHEEL_INIT: no timeout was armed yet
 * @WHEEL_STARTED: a timeout was armed, or wheel_start() was called
 * @WHEEL_SHUTDOWN: arming fails; the pending timeouts are being handed back
 * @WHEEL_STOPPED: no timeout is filed. A grace period later, no request is pushed any more
 */
enum wheel_state {
	WHEEL_INIT,
	WHEEL_STARTED,
	WHEEL_SHUTDOWN,
	WHEEL_STOPPED,
};

/**
 * struct wheel_ops - what who drives the wheel provides
 * @kick: make the worker call wheel_advance() soon. Any context. Also called while the worker
 *	runs
 * @call: run a callback: call @fn with @t, and do not access @t afterwards. Called by
 *	wheel_advance() for each expiry. @deadline is the deadline that was reached
 * @alloc: allocate memory for @recent of struct wheel_cpu without waiting, to be freed by kfree();
 *	NULL on failure. Called by the worker
 */
struct wheel_ops {
	void (*kick)(struct hwtimer_wheel *w);
	void (*call)(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		     hwtimer_fn_t fn, u64 deadline);
	void *(*alloc)(struct hwtimer_wheel *w, size_t size);
};

/**
 * struct wheel_shape - how a wheel is built; see struct hwtimer_wheel_params
 * @tick_ns: ns per tick
 * @slots: slots per level; rounded up to a power of two
 * @levels: how many levels; 0: as many as reach WHEEL_HORIZON
 * @cap: maximum number of pending timeouts; 0: no limit
 */
struct wheel_shape {
	u64		tick_ns;
	unsigned int	slots;
	unsigned int	levels;
	unsigned long	cap;
};

/**
 * struct wheel_cpu - the request queues and counts of one CPU
 * @requests: request queue: producers on this CPU push, the worker empties it
 * @released: request queue of released timeouts, pushed and emptied likewise
 * @recent: hints for fetch_ahead(): the requests pushed last, WHEEL_RECENT of them. NULL until a
 *	worker on another CPU has found many requests at once
 * @in_flight: producers on this CPU between setting QUEUED and having pushed; above 1 if an
 *	interrupt handler arms a timeout in between. Written by this CPU only
 * @pushed: number of pushes to @requests
 * @armed: timeouts that became pending
 * @touched: pending timeouts that got another deadline
 * @cancelled: pending timeouts that were cancelled or released
 * @rejected: arms that failed because of the cap
 * @coalesced: requests that needed no push, because QUEUED was set
 * @kicks: kicks of the worker
 * @taken: @pushed as of when the worker last emptied @requests. Used by the worker only
 *
 * A count has what was done on this CPU, so a timeout armed here may be counted as cancelled on
 * another CPU; only the sums over all CPUs are meaningful. Counts wrap on 32-bit machines. They
 * are local_t because interrupt handlers count as well, and because one this_cpu_ptr() then
 * serves all counts of an operation.
 */
struct wheel_cpu {
	struct llist_head	requests;
	struct llist_head	released;
	struct llist_node	**recent;
	local_t			in_flight;
	local_t			pushed;
	local_t			armed;
	local_t			touched;
	local_t			cancelled;
	local_t			rejected;
	local_t			coalesced;
	local_t			kicks;
	unsigned long		taken;
} ____cacheline_aligned;

/**
 * struct wheel_bucket - the timeouts of one slot
 * @timeouts: the timeouts, in the order of filing; the wheel's @cursor and @survey_cursor may be
 *	among them
 * @next: a tick before which none of the timeouts is due
 *
 * Uninitialised while the bit of the bucket in the bitmap @occupied is clear.
 */
struct wheel_bucket {
	struct list_head	timeouts;
	u64			next;
};

/**
 * struct wheel_level - one level
 * @buckets: one per slot. The same allocation continues with @occupied
 * @occupied: bitmap: a bit is clear if the bucket is empty
 */
struct wheel_level {
	struct wheel_bucket	*buckets;
	unsigned long		*occupied;
};

/**
 * struct wheel_counts - statistics of a wheel; see wheel_count()
 * @armed: timeouts that became pending
 * @touched: pending timeouts that got another deadline
 * @cancelled: pending timeouts that were cancelled or released
 * @expired: pending timeouts that expired
 * @handed_back: pending timeouts that wheel_sweep() removed
 * @rejected: arms that failed because of the cap
 * @coalesced: requests that needed no push
 * @kicks: kicks of the worker by producers
 * @drained: requests that the worker handled; a timeout that was QUEUED already when it was
 *	released counts twice
 * @visits: visits of timeouts in buckets by the worker
 * @cascaded: timeouts filed again because their slot came up
 * @refiled: timeouts filed again at a tick, because they had been touched
 * @ticks: ticks at which the worker visited a bucket
 * @pending: armed - cancelled - expired - handed_back. Exact if no operation is in progress,
 *	otherwise never too low
 */
struct wheel_counts {
	unsigned long armed, touched, cancelled, expired, handed_back;
	unsigned long rejected, coalesced, kicks;
	unsigned long drained, visits, cascaded, refiled, ticks;
	unsigned long pending;
};

struct wheel_survey;

/**
 * typedef wheel_survey_fn - called by wheel_survey() for a timeout
 * @arg: the argument of wheel_survey()
 * @i: the bucket that holds the timeout, relative to the first one of the survey
 * @t: the timeout; it stays in the bucket during the call
 * @armed: it is pending
 * @deadline: its deadline, if it is pending
 */
typedef void (*wheel_survey_fn)(void *arg, unsigned int i, struct hwtimer_timeout *t,
				bool armed, u64 deadline);

/**
 * struct hwtimer_wheel - the wheel
 * @tick_ns: length of a tick. Constant
 * @cap: maximum number of pending timeouts; 0: no limit. Constant
 * @ops: what who drives the wheel provides. Constant
 * @cpus: request queues and counts of each CPU
 * @slots: slots per level, a power of two. Constant
 * @slot_bits: ilog2(@slots). Constant
 * @state: enum wheel_state; never decreases
 * @charged: number of pending timeouts, if there is a cap
 * @kick_below: arming a timeout for a deadline below this kicks the worker. Set by
 *	wheel_prepare_sleep(); 0 while the worker runs or has been kicked
 * @running: the timeout whose callback runs, or that is being claimed; else NULL. Set and cleared
 *	by the worker; wheel_timeout_init() sets bit 0 if the timeout is initialised meanwhile
 * @waiters: number of waiters in wheel_end_sync()
 * @survey: survey that wheel_survey() requests and the worker has not begun, or NULL
 * @barrier: completion on which wheel_barrier() waits, or NULL
 * @worker_lock: held while waiting in wheel_barrier(), while requesting a survey, and while ending
 *	the worker
 * @survey_lock: held during wheel_survey(). Taken before @worker_lock
 * @callback_key: lockdep key of @callback_map
 * @callback_map: tells lockdep which locks callbacks take, and which locks are held while waiting
 *	for callbacks
 * @level: the levels. This and all following fields belong to the worker
 * @levels: number of levels. Constant
 * @never: filed timeouts whose deadline is WHEEL_HORIZON
 * @cascading: filed timeouts of a slot that came up, to be filed again
 * @due: filed timeouts from the bucket of @now_tick that wait for settle()
 * @cursor: with one level: where visit() continues in the bucket of @now_tick; on no list while
 *	no visit is in progress
 * @surveying: the survey that the worker has begun, or NULL
 * @survey_cursor: where @surveying continues in a bucket; on no list unless it has paused there
 * @pushed: requests taken from several CPUs' queues, each a list, newest first
 * @nr_pushed: number of lists in @pushed, none of which is empty
 * @taken: requests from @pushed, those of each CPU in reverse order, oldest first
 * @recent: @recent of the CPU whose requests are in @pushed, if @recent_left is not 0
 * @recent_next: counter value of the next hint to use of @recent
 * @recent_left: number of hints left
 * @to_release: released timeouts whose release functions are called next
 * @aside: released timeouts that came by a request queue, for the next release cycle
 * @release_cpu: the CPU whose released timeouts follow @to_release in this release cycle;
 *	nr_cpu_ids: the cycle ends with @to_release
 * @pass_barrier: @barrier as of the start of this pass
 * @cycle_barrier: @pass_barrier as of the start of this release cycle
 * @drain_cpu: the CPU whose request queue is taken next; nr_cpu_ids: all have been taken
 * @drain_budget: how much of its budgets this pass has used for its drain since that was last
 *	interrupted
 * @drain_share: the least @drain_budget at which the drain may be interrupted. Constant
 * @probes: budget of a search by wheel_prepare_sleep(), see next_tick(). Constant
 * @cur: the first tick that has not begun; nothing is filed before it
 * @now_tick: the tick that is being settled
 * @target: the last tick that this pass may settle
 * @visit_next: a tick before which nothing is due that this visit leaves in the bucket
 * @stage: enum wheel_stage: where wheel_advance() continues
 * @ended: the timeout whose callback ended last, if its waiters have not been woken since. It may
 *	have been freed
 * @in_row: since the last callback the wheel has done nothing but claim the next timeout. Set by
 *	@ops->call, cleared by the wheel
 * @filed: number of timeouts with FILED, in buckets and on the lists above
 * @armed_seen: the sum of armed timeouts as of the last wheel_prepare_sleep()
 * @expired: count for wheel_count(); wheel_holds() reads it, too
 * @handed_back: count for wheel_count()
 * @drained: count for wheel_count()
 * @visits: count for wheel_count()
 * @cascaded: count for wheel_count()
 * @refiled: count for wheel_count()
 * @ticks: count for wheel_count()
 */
struct hwtimer_wheel {
	/* read by producers */
	u64			tick_ns;
	unsigned long		cap;
	const struct wheel_ops	*ops;
	struct wheel_cpu __percpu *cpus;
	unsigned int		slots;
	unsigned int		slot_bits;
	int			state;

	/* written by producers and by the worker */
	atomic_long_t		charged ____cacheline_aligned;

	/* written by the worker and, rarely, by others; read by producers */
	atomic64_t		kick_below ____cacheline_aligned;

	/* written by the worker for each callback; read by waiters */
	struct hwtimer_timeout	*running ____cacheline_aligned;
	atomic_t		waiters;
	struct wheel_survey	*survey;
	struct completion	*barrier;
	struct mutex		worker_lock;	/* see above */
	struct mutex		survey_lock;	/* see above */
	struct lock_class_key	callback_key;
	struct lockdep_map	callback_map;

	/* belongs to the worker */
	struct wheel_level	level[WHEEL_MAX_LEVELS] ____cacheline_aligned;
	unsigned int		levels;
	struct list_head	never;
	struct list_head	cascading;
	struct list_head	due;
	struct list_head	cursor;
	struct wheel_survey	*surveying;
	struct list_head	survey_cursor;
	struct llist_node	*pushed[WHEEL_ABREAST];
	unsigned int		nr_pushed;
	struct llist_node	*taken;
	struct llist_node	**recent;
	unsigned long		recent_next;
	unsigned long		recent_left;
	struct llist_node	*to_release;
	struct llist_node	*aside;
	unsigned int		release_cpu;
	struct completion	*pass_barrier;
	struct completion	*cycle_barrier;
	unsigned int		drain_cpu;
	unsigned long		drain_budget;
	unsigned long		drain_share;
	unsigned int		probes;
	u64			cur;
	u64			now_tick;
	u64			target;
	u64			visit_next;
	int			stage;
	const struct hwtimer_timeout *ended;
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
};

/* Creating and stopping wheels; process context. */
void wheel_module_init(void);
int wheel_init(struct hwtimer_wheel *w, const struct wheel_shape *shape,
	       const struct wheel_ops *ops, gfp_t gfp);
void wheel_free(struct hwtimer_wheel *w);
int wheel_start(struct hwtimer_wheel *w);
bool wheel_shutdown(struct hwtimer_wheel *w);
void wheel_sweep(struct hwtimer_wheel *w, struct list_head *pending);

/* How to end a timeout: wheel_cancel() or wheel_timeout_shutdown(). */
typedef bool (*wheel_end_fn)(struct hwtimer_timeout *t);

/* Producers; any context. */
void wheel_timeout_init(struct hwtimer_timeout *t, struct hwtimer_wheel *w,
			hwtimer_fn_t fn);
int wheel_arm(struct hwtimer_timeout *t, u64 deadline);
int wheel_touch(struct hwtimer_timeout *t, u64 deadline);
bool wheel_cancel(struct hwtimer_timeout *t);
bool wheel_timeout_shutdown(struct hwtimer_timeout *t);
void wheel_detach(struct hwtimer_timeout *t);
bool wheel_release(struct hwtimer_timeout *t, hwtimer_released_fn_t released);
bool wheel_pending(const struct hwtimer_timeout *t);
bool wheel_holds(const struct hwtimer_timeout *t);
u64 wheel_deadline(const struct hwtimer_timeout *t);

/* End a timeout for good: wait for the worker; or in one of its callbacks, without waiting. */
bool wheel_end_sync(struct hwtimer_timeout *t, wheel_end_fn end, unsigned long drain_share);
bool wheel_end_in_callback(struct hwtimer_timeout *t, wheel_end_fn end);

/* Called by the worker. */
bool wheel_advance(struct hwtimer_wheel *w, u64 now, unsigned int budget);
u64 wheel_prepare_sleep(struct hwtimer_wheel *w, u64 now);
void wheel_awake(struct hwtimer_wheel *w);
void wheel_add_recent(struct hwtimer_wheel *w, struct wheel_cpu *pcpu);
void wheel_drain_all(struct hwtimer_wheel *w);

/* Statistics, surveys and barriers; process context, wheel_count() in any context. */
void wheel_count(const struct hwtimer_wheel *w, struct wheel_counts *c);
int wheel_survey(struct hwtimer_wheel *w, unsigned int level, unsigned int first,
		 unsigned int n, wheel_survey_fn fn, void *arg);
void wheel_barrier(struct hwtimer_wheel *w);

#endif /* HWTIMER_WHEEL_H */
