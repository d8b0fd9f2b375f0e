/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer_torture: a thing is a timeout (things.c); a bench is a wheel with its producers and a
 * keeper (wheels.c); main.c starts and ends the benches, and gives the verdict.
 */
#ifndef HWTIMER_TORTURE_TEST_H
#define HWTIMER_TORTURE_TEST_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/llist.h>
#include <linux/percpu.h>
#include <linux/prandom.h>
#include <linux/rcupdate.h>
#include <linux/wait.h>

#include "../../core/hwtimer_driver.h"
#include "../../hwtimer_work.h"

#define MS		((u64)NSEC_PER_MSEC)
#define SEC		((u64)NSEC_PER_SEC)
/* a timeout that is later than this is lost */
#define LOST		(30 * SEC)
/* deadlines beyond this are far, all others are near */
#define FAR		(10 * 60 * SEC)
#define MAX_THINGS	1024

/* The context of an operation. */
enum torture_context {
	PROCESS,
	SOFTIRQ,
	HARDIRQ,
	CALLBACK,
	RUN,		/* the function of a struct hwtimer_work */
	CONTEXTS
};

enum torture_kind { PLAIN, WORK, KINDS };

enum torture_op {
	SCHEDULE,
	SCHEDULE_AT,
	TOUCH,
	TOUCH_AT,
	FORWARD,
	CANCEL,
	QUERY,
	RELEASE,
	CANCEL_SYNC,
	SHUTDOWN_SYNC,
	FORGET,		/* a timeout that frees itself */
	PRIVATE,	/* the life of a private timeout */
	BARRIER,	/* after a batch of releases */
	/* done by keepers only */
	CREATE,
	STOP,
	DESTROY,
	OPS,
	DRAWN = CREATE	/* producers choose among those before it */
};

/**
 * struct counts - events on one CPU; only the sums over all CPUs are meaningful
 * @ops: operations by context
 * @kinds: operations by kind of timeout
 * @armed: plain timeouts that became pending; each ended in one of the next three ways
 * @expired: their callbacks
 * @cancelled: armings ended by a call that reported it
 * @handed_back: armings that a stop handed back
 * @rearmed: armings of any kind that replaced a pending one
 * @rejected: armings rejected because of the cap
 * @reported: armings of private timeouts that their releases reported to have ended
 * @ended: armings of private timeouts that their releases ended, computed from @open
 * @released: released callbacks
 * @runs: runs of work items
 * @late_ns: the largest lateness
 */
struct counts {
	unsigned long ops[CONTEXTS][OPS];
	unsigned long kinds[KINDS][OPS];
	unsigned long armed, expired, cancelled, handed_back;
	unsigned long reported, ended;
	unsigned long rearmed, rejected, released, runs;
	u64 late_ns;
};

DECLARE_PER_CPU(struct counts, torture_counts);
#define tally(what)	this_cpu_inc(torture_counts.what)

struct thing;

/**
 * struct bench - a wheel, its producers and its keeper
 * @name: name of the wheel
 * @wheel: the current wheel
 * @cap: cap of the current wheel
 * @near_ns: near deadlines are at most so far ahead
 * @things: number of entries of @table in use
 * @table: the timeouts that all producers share. Only the task that takes one out may end it
 * @quiet: callbacks only count
 * @stopping: the wheel is being stopped. From then on only the keeper frees things, as they may
 *	be on the list of the stop
 * @stopped: a stop has returned
 * @calling: a callback runs
 * @graves: things that the keeper will free
 * @alive: number of things
 * @forgotten: number of things that will free themselves
 * @expired: callbacks of plain timeouts of this wheel
 * @runs: runs of work items of this wheel
 * @handed_back: timeouts that the stop handed back
 * @random: random numbers of the callbacks, which run one at a time
 * @burst: number of the burst; producers begin when it changes
 * @start: when the burst starts
 * @ops: maximum number of operations per producer
 * @end_ns: when the burst ends, even if @ops is not reached
 * @rare: one in @rare of the chosen waits and delays is done
 * @hot: producers use the first @hot things only
 * @far: of 64 deadlines, so many are far
 * @arming_only: producers only arm, touch and cancel
 * @busy: producers that have not finished the burst
 * @wait: the keeper and the producers wait for each other
 * @keeper_random: random numbers of the keeper
 * @keeper: the thread that creates and destroys wheels
 * @ended: the keeper has ended the last wheel
 * @wheels: number of wheels created
 * @producers: the producers
 */
struct bench {
	char			name[24];
	struct hwtimer_wheel	*wheel;
	unsigned long		cap;
	u64			near_ns;
	unsigned int		things;
	struct thing __rcu	*table[MAX_THINGS];
	bool			quiet;
	bool			stopping;
	bool			stopped;
	int			calling;
	struct llist_head	graves;
	atomic_t		alive;
	atomic_t		forgotten;
	atomic_long_t		expired;
	atomic_long_t		runs;
	atomic_long_t		handed_back;
	struct rnd_state	random;

	unsigned int		burst;
	ktime_t			start;
	unsigned int		ops;
	u64			end_ns;
	unsigned int		rare;
	unsigned int		hot;
	unsigned int		far;
	bool			arming_only;
	atomic_t		busy;
	wait_queue_head_t	wait;

	struct rnd_state	keeper_random;
	struct task_struct	*keeper;
	struct completion	ended;
	unsigned int		wheels;
	struct producer		*producers;
};

/* main.c */
extern unsigned int torture_mix[DRAWN];
extern unsigned int torture_mix_sum;
extern unsigned int torture_threads;
extern struct workqueue_struct *torture_wq;
extern bool torture_over;
bool torture_failed(void);
__printf(1, 2) void torture_fail(const char *fmt, ...);
void torture_seed(struct rnd_state *random);
bool torture_allowed(enum torture_op op, enum torture_context context);

static inline u32 below(struct rnd_state *random, u32 n)
{
	return prandom_u32_state(random) % n;
}

/* wheels.c */
extern atomic_t torture_shapes[3][2];
int torture_bench_start(struct bench *b);
bool torture_bench_end(struct bench *b, unsigned long patience);

/* things.c */
void torture_step(struct bench *b, enum torture_context context, struct rnd_state *random,
		  struct thing *self);
void torture_take_back(struct bench *b);
bool torture_scan(struct bench *b, unsigned long *pending);
void torture_renew(struct bench *b, enum torture_op op);
void torture_fill(struct bench *b);
void torture_clear(struct bench *b);

#endif /* HWTIMER_TORTURE_TEST_H */
