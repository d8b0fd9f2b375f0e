/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: how any context reaches a wheel, see hwtimer_queue.c. There is no clock and no thread
 * here: hwtimer_worker.c calls the worker's functions and passes the time. Times are in ns since
 * the wheel was created.
 */
#ifndef HWTIMER_QUEUE_H
#define HWTIMER_QUEUE_H

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
#include "hwtimer_wheel.h"
#include "hwtimer_places.h"

/* Returned by queue_prepare_sleep(): sleep until the next kick. */
#define QUEUE_IDLE		U64_MAX
/*
 * How long the worker sleeps at most while timeouts are being armed or released. Very long in the
 * torture test, so that a lost wakeup is not hidden by the next drain.
 */
#ifndef QUEUE_DRAIN_NS
#define QUEUE_DRAIN_NS		(250 * 1000 * 1000ULL)
#endif
/* Kicks can make that as short as this, or a tick and the slack if that is longer. */
#define QUEUE_NAP_NS		(1000 * 1000ULL)
/* After a sleep of so long, an arm may kick the worker if nothing else is pending. */
#define QUEUE_SPELL_NS		(100 * 1000 * 1000ULL)
/* How often the worker looks whether a producer has pushed a request before it does not sleep. */
#define QUEUE_POLLS		1000
/* When so many requests of a CPU wait, it kicks the worker, whatever their deadlines are. */
#define QUEUE_DEPTH		1024
/* How many buckets of later rounds the worker skips in its search before it sleeps. */
#define QUEUE_PROBES		8192
/* From so many requests on, a list is walked alone. */
#define QUEUE_LONG		256
/* From how many CPUs the worker takes requests side by side. */
#define QUEUE_ABREAST		8
/* The budget of one queue_advance(), see there. */
#define QUEUE_BUDGET		1024
/* A drain of more than a tick is interrupted to settle ticks, each time after so many requests. */
#define QUEUE_DRAIN_SHARE	8192
/* How many timeouts of a bucket queue_look() shows. */
#define QUEUE_SHOWN		1024

/**
 * enum queue_state - the states of a wheel, in the order in which it passes through them
 * @QUEUE_INIT: no timeout was armed yet
 * @QUEUE_STARTED: a timeout was armed, or queue_start() was called
 * @QUEUE_SHUTDOWN: arming fails; the pending timeouts are being handed back
 * @QUEUE_STOPPED: no timeout is filed. A grace period later, no request is pushed any more
 */
enum queue_state {
	QUEUE_INIT,
	QUEUE_STARTED,
	QUEUE_SHUTDOWN,
	QUEUE_STOPPED,
};

/**
 * struct queue_ops - what who drives the wheel provides
 * @kick: make the worker call queue_advance() soon. Any context. Also called while the worker
 *	runs
 * @call: run a callback: call @fn with @t, and do not access @t afterwards. Called by
 *	queue_advance() for each expiry. @deadline is the deadline that was reached
 */
struct queue_ops {
	void (*kick)(struct hwtimer_wheel *w);
	void (*call)(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		     hwtimer_fn_t fn, u64 deadline);
};

/**
 * struct queue_cpu - the request queues and counts of one CPU
 * @requests: request queue: producers on this CPU push, the worker empties it
 * @released: request queue of released timeouts, pushed and emptied likewise
 * @in_flight: producers on this CPU, from before they set QUEUED until they have pushed; above 1 if
 *	an interrupt handler arms a timeout in between. Written by this CPU only
 * @pushed: number of pushes to @requests
 * @gone: number of pushes to @released
 * @taken: @pushed as of when the worker last emptied @requests. Written by the worker only
 * @given_back: @gone as of when it last emptied @released, likewise
 *
 * A count has what was done on this CPU, so a timeout armed here may be counted as cancelled on
 * another CPU; only the sums over all CPUs are meaningful. Counts wrap on 32-bit machines. They
 * are local_t because interrupt handlers count as well, and because one this_cpu_ptr() then
 * serves all counts of an operation.
 */
struct queue_cpu {
	struct llist_head	requests;
	struct llist_head	released;
	local_t			in_flight;
	local_t			pushed;
	local_t			gone;
	/* private: see struct queue_counts */
	local_t			armed;
	local_t			touched;
	local_t			cancelled;
	local_t			rejected;
	local_t			kicks;
	/* public: */
	unsigned long		taken;
	unsigned long		given_back;
} ____cacheline_aligned;

/**
 * struct queue_counts - statistics of a wheel; see queue_count()
 * @armed: timeouts that became pending
 * @touched: pending timeouts that got another deadline
 * @cancelled: pending timeouts that were cancelled or released
 * @expired: pending timeouts that expired
 * @handed_back: pending timeouts that queue_sweep() removed
 * @rejected: arms that failed because of the cap
 * @kicks: kicks of the worker by producers
 * @drained: requests and releases that the worker handled; a timeout that was QUEUED already when
 *	it was released counts twice
 * @visits: visits of timeouts in buckets by the worker
 * @cascaded: timeouts filed again when a bucket of a higher level was visited
 * @refiled: timeouts filed again at a tick, because they had been touched or are for a later round
 * @ticks: ticks at which the worker visited a bucket of level 0
 * @pending: armed - cancelled - expired - handed_back. Exact if no operation is in progress,
 *	otherwise never too low
 */
struct queue_counts {
	unsigned long armed, touched, cancelled, expired, handed_back;
	unsigned long rejected, kicks;
	unsigned long drained, visits, cascaded, refiled, ticks;
	unsigned long pending;
};

/**
 * struct queue_look - a look at the timeouts of a bucket
 * @bucket: the bucket, see WHEEL_BUCKET()
 * @show: called by the worker for each timeout of the bucket that is pending, QUEUE_SHOWN at most;
 *	the timeout stays in the bucket during the call
 * @n: how many timeouts of the bucket the worker has looked at, pending or not
 * @more: there may be more in the bucket
 * @nodes: for the worker
 * @done: completed when the look is over
 */
struct queue_look {
	u32			bucket;
	void			(*show)(struct queue_look *look, struct hwtimer_timeout *t,
					u64 deadline);
	unsigned int		n;
	bool			more;
	struct list_head	*nodes[QUEUE_SHOWN];
	struct completion	done;
};

/**
 * struct queue_drain - how far the worker has come with the requests of this pass
 * @cpu: the CPU whose request queue is taken next; nr_cpu_ids: all have been taken
 * @used: how much of its budgets this pass has used for its drain since that was last interrupted
 * @share: the least @used at which the drain may be interrupted. Constant
 * @pushed: requests taken from several CPUs' queues, each a list, newest first
 * @nr_pushed: number of lists in @pushed, none of which is empty
 * @taken: requests from @pushed; those of each CPU are oldest first
 */
struct queue_drain {
	unsigned int		cpu;
	unsigned long		used;
	unsigned long		share;
	struct llist_node	*pushed[QUEUE_ABREAST];
	unsigned int		nr_pushed;
	struct llist_node	*taken;
};

/**
 * struct queue_releases - how far the worker has come with what was released
 * @cpu: the CPU whose released timeouts follow @next in this release cycle; nr_cpu_ids: the cycle
 *	ends with @next
 * @next: released timeouts whose release functions are called next
 * @aside: released timeouts that came by a request queue, for the next release cycle
 * @pass_barrier: @barrier of the wheel as of the start of this pass
 * @drained_barrier: @pass_barrier of the last pass whose drain is over
 * @cycle_barrier: @drained_barrier as of the start of this release cycle
 */
struct queue_releases {
	unsigned int		cpu;
	struct llist_node	*next;
	struct llist_node	*aside;
	struct completion	*pass_barrier;
	struct completion	*drained_barrier;
	struct completion	*cycle_barrier;
};

/**
 * struct queue_pass - where the worker is in its pass
 * @stage: enum queue_stage: where queue_advance() continues
 * @target: the last tick that this pass may settle
 * @cur: @cur of the wheel at the last visit
 * @due_by: the deadlines up to which timeouts are due at that visit, ns
 * @look: the look that this pass answers, or NULL
 * @ended: the timeout whose callback ended last, if its waiters have not been woken since. It may
 *	have been freed
 * @awaited: @awaited of the wheel as of the last drain that look_around() has begun and completed
 * @looking: the same, as of the last one that it has begun
 * @spare: how much more this call may drain there, in units of its budget; at first @share of the
 *	drain
 * @ends: after these jiffies, this call settles no more, or calls no more release functions
 * @in_row: since the last callback the worker has done nothing but claim the next timeout. For
 *	@ops->call, which sets or clears it after each callback; cleared by the queue
 */
struct queue_pass {
	int			stage;
	u64			target;
	u64			cur;
	u64			due_by;
	struct queue_look	*look;
	const struct hwtimer_timeout *ended;
	int			awaited;
	int			looking;
	unsigned int		spare;
	unsigned long		ends;
	bool			in_row;
};

/**
 * struct queue_sleep - how long the worker may sleep
 * @now: the time of the last call of queue_advance(), ns
 * @soonest: the earliest deadline after @now that the worker has seen since its last sleep; else
 *	HWTIMER_HORIZON
 * @over: it has seen one that was due at once
 * @over_at: when it last began to sleep after it had seen one, ns; 0: never
 * @since: when the last sleep began, ns
 * @until: its end, if an arm for a later deadline could not end it; else 0
 * @limit: how long that sleep could last at most, ns
 * @armed: the sum of armed timeouts as of the last sleep
 * @drained: @drained of the wheel as of the last sleep
 */
struct queue_sleep {
	u64			now;
	u64			soonest;
	bool			over;
	u64			over_at;
	u64			since;
	u64			until;
	u64			limit;
	unsigned long		armed;
	unsigned long		drained;
};

/**
 * struct hwtimer_wheel - a wheel, and how it is reached
 * @tick_ns: length of a tick. Constant
 * @slack: timeouts are filed for ticks in which these bits are 0. Constant
 * @places: one of which each pending timeout takes; NULL: there is no cap. Constant
 * @ops: what who drives the wheel provides. Constant
 * @cpus: request queues and counts of each CPU
 * @buckets: memory of @wheel. Constant
 * @state: enum queue_state; never decreases. Set by the first arm, queue_start(), queue_shutdown()
 *	and queue_sweep()
 * @kick_below: arming a timeout for a deadline below this kicks the worker. Set by
 *	queue_prepare_sleep(); 0 while the worker runs or has been kicked; at first U64_MAX
 * @kicked_by: the deadline for which a producer has kicked the worker since its last sleep, or 0
 * @running: the timeout whose callback runs, or that is being claimed; else NULL. Set and cleared
 *	by the worker; queue_timeout_init() sets bit 0 if the timeout is initialised meanwhile
 * @waiters: number of waiters in queue_end_sync(); one more from queue_shutdown() to queue_sweep()
 * @awaited: how often one of them has begun to wait
 * @look: the look that queue_look() requests and the worker has not begun, or NULL
 * @barrier: completion on which queue_barrier() waits, or NULL
 * @worker_lock: held while waiting in queue_barrier(), while requesting a look, and while ending
 *	the worker
 * @look_lock: held during queue_look(). Taken before @worker_lock
 * @callback_key: lockdep key of @callback_map
 * @callback_map: tells lockdep which locks callbacks take, and which locks are held while waiting
 *	for callbacks
 * @wheel: the buckets. This and all following fields belong to the worker. Others read the counts,
 *	and what hwtimer_wheel.h permits
 * @pass: where the worker is in its pass
 * @sleep: how long it may sleep
 * @drain: how far it has come with the requests
 * @releases: how far it has come with what was released
 */
struct hwtimer_wheel {
	/* read by producers */
	u64			tick_ns;
	u64			slack;
	struct places		*places;
	const struct queue_ops	*ops;
	struct queue_cpu __percpu *cpus;
	void			*buckets;
	int			state;

	/* written by the worker and, rarely, by others; read by producers */
	atomic64_t		kick_below ____cacheline_aligned;
	u64			kicked_by;

	/* @running is written for each callback; the others rarely, by those who wait */
	struct hwtimer_timeout	*running ____cacheline_aligned;
	atomic_t		waiters;
	atomic_t		awaited;
	struct queue_look	*look;
	struct completion	*barrier;
	struct mutex		worker_lock;	/* see above */
	struct mutex		look_lock;	/* see above */
	struct lock_class_key	callback_key;
	struct lockdep_map	callback_map;

	/* belongs to the worker */
	struct wheel		wheel ____cacheline_aligned;
	struct queue_pass	pass;
	struct queue_sleep	sleep;
	struct queue_drain	drain;
	struct queue_releases	releases;
	/* private: see struct queue_counts. queue_holds() reads @expired, too */
	unsigned long		expired;
	unsigned long		handed_back;
	unsigned long		drained;
	unsigned long		visits;
	unsigned long		cascaded;
	unsigned long		refiled;
	unsigned long		ticks;
};

/* Creating and stopping wheels; process context. */
int queue_init(struct hwtimer_wheel *w, const struct hwtimer_wheel_params *params,
	       const struct queue_ops *ops);
void queue_free(struct hwtimer_wheel *w);
int queue_start(struct hwtimer_wheel *w);
bool queue_shutdown(struct hwtimer_wheel *w);
void queue_sweep(struct hwtimer_wheel *w, struct list_head *pending);

/* How to end a timeout: queue_cancel() or queue_timeout_shutdown(). */
typedef bool (*queue_end_fn)(struct hwtimer_timeout *t);

/* Producers; any context. */
void queue_timeout_init(struct hwtimer_timeout *t, struct hwtimer_wheel *w,
			hwtimer_fn_t fn);
int queue_arm(struct hwtimer_timeout *t, u64 deadline);
int queue_touch(struct hwtimer_timeout *t, u64 deadline);
bool queue_cancel(struct hwtimer_timeout *t);
bool queue_timeout_shutdown(struct hwtimer_timeout *t);
void queue_detach(struct hwtimer_timeout *t);
bool queue_release(struct hwtimer_timeout *t, hwtimer_released_fn_t released);
bool queue_pending(const struct hwtimer_timeout *t);
bool queue_holds(const struct hwtimer_timeout *t);
u64 queue_deadline(const struct hwtimer_timeout *t);

/* End a timeout for good: wait for the worker; or in one of its callbacks, without waiting. */
unsigned int queue_end_sync(struct hwtimer_timeout *t, queue_end_fn end, unsigned long patience);
unsigned int queue_end_in_callback(struct hwtimer_timeout *t, queue_end_fn end);

/* Called by the worker. */
bool queue_advance(struct hwtimer_wheel *w, u64 now, unsigned int budget);
u64 queue_prepare_sleep(struct hwtimer_wheel *w, u64 now);
void queue_drain_all(struct hwtimer_wheel *w);

/* The worker runs, so producers need not kick it. */
static inline void queue_awake(struct hwtimer_wheel *w)
{
	atomic64_set(&w->kick_below, 0);
}

/* Statistics, looks and barriers; process context, queue_count() in any context. */
void queue_count(const struct hwtimer_wheel *w, struct queue_counts *c);
int queue_look(struct hwtimer_wheel *w, struct queue_look *look);
void queue_barrier(struct hwtimer_wheel *w);

#endif /* HWTIMER_QUEUE_H */
