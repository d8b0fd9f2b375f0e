/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer_torture: a bench is a wheel with its producers and a keeper. engine.c is compiled twice:
 * with main.c as the module hwtimer_torture, and with tests/native/stress.c as a program whose
 * threads stand for CPUs.
 */
#ifndef HWTIMER_TORTURE_TEST_H
#define HWTIMER_TORTURE_TEST_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/smp.h>
#include <linux/wait.h>
#include <asm/local.h>

#include "../../core/hwtimer_driver.h"
#include "../../hwtimer_work.h"
#include "random.h"

#define MS		((u64)NSEC_PER_MSEC)
#define SEC		((u64)NSEC_PER_SEC)
/* a timeout that is later than this is lost */
#define LOST		(30 * SEC)
#define MAX_THINGS	1024
/* so many wheels have all numbers of levels, with and without a cap */
#define SHAPES		6
#define LOGGED		20	/* further failures are counted, not logged */

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
	OPS
};

struct torture_op_info {
	const char	*name;
	unsigned int	weight;		/* how often producers choose it */
	unsigned int	contexts;	/* where it is allowed, a bit for each */
	unsigned int	kinds;		/* likewise, of which kinds of timeouts */
};

extern const struct torture_op_info torture_ops[OPS];

/**
 * struct counts - events on one CPU; only the sums over all CPUs are meaningful
 * @ops: operations by context
 * @armed: timeouts that became pending, by kind. Each plain one ended in one of the next three ways
 * @expired: their callbacks; runs of work items
 * @cancelled: armings ended by a call that reported it; calls that reported that of work items
 * @handed_back: armings that a stop handed back
 * @rearmed: armings that replaced a pending one
 * @rejected: armings rejected because of the cap
 * @released: released callbacks
 *
 * All are local_t: interrupts count, too, and a locked instruction would order what it must not.
 */
struct counts {
	local_t ops[CONTEXTS][OPS];
	local_t armed[KINDS], expired[KINDS], cancelled[KINDS], handed_back[KINDS];
	local_t rearmed, rejected, released;
} ____cacheline_aligned;

#define COUNTS	(offsetofend(struct counts, released) / sizeof(local_t))

#define tally_many(b, what, n)					\
	do {							\
		local_add(n, &(b)->counts[get_cpu()].what);	\
		put_cpu();					\
	} while (0)
#define tally(b, what)	tally_many(b, what, 1)

#define torture_fail(fmt, ...)							\
	do {									\
		if (atomic_inc_return(&torture_failures) <= LOGGED)		\
			pr_err(fmt "\n", ##__VA_ARGS__);			\
	} while (0)

struct thing;

/* A producer in interrupts, soft or hard, if these are hrtimers. */
struct irqs {
	struct bench		*bench;
	enum torture_context	context;	/* SOFTIRQ or HARDIRQ */
	struct hrtimer		timer;
	u64			random;
	unsigned int		left;		/* operations in this burst */
	struct completion	done;		/* with the burst */
};

/* A producer in process context, with those in interrupts. */
struct producer {
	struct bench		*bench;
	unsigned int		cpu;		/* while that is online */
	struct task_struct	*task;
	u64			random;
	struct irqs		irqs[2];	/* in softirq and in hardirq */
};

/**
 * struct bench - a wheel, its producers and its keeper
 * @name: name of the wheel
 * @things: number of entries of @table in use
 * @nr_producers: number of @producers
 * @wheel: the current wheel
 * @wheels: number of wheels created
 * @cap: cap of the current wheel
 * @near_ns: near deadlines are at most so far ahead
 * @works: some of its timeouts are work items
 * @list: its stop hands back a list
 * @table: the timeouts that all producers share. Only the task that takes one out may end it
 * @quiet: callbacks only count
 * @stopping: the wheel is being stopped. From then on only the keeper frees things, as they may
 *	be on the list of the stop
 * @stopped: a stop has returned
 * @calling: a callback runs
 * @graves: things that no longer are in the table, to be freed
 * @freeing: held while @stopping is set, and while @graves is emptied
 * @alive: number of things
 * @forgotten: number of things that will free themselves
 * @counts: by CPU
 * @begun: their sums when this wheel was created
 * @sum: their sums, when they were compared
 * @late_ns: the largest lateness
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
 * @producers: the producers
 */
struct bench {
	char			name[24];
	unsigned int		things;
	unsigned int		nr_producers;

	struct hwtimer_wheel	*wheel;
	unsigned int		wheels;
	unsigned long		cap;
	u64			near_ns;
	bool			works;
	bool			list;
	struct thing		*table[MAX_THINGS];
	bool			quiet;
	bool			stopping;
	bool			stopped;
	int			calling;
	struct llist_head	graves;
	struct mutex		freeing;	/* see above */
	atomic_t		alive;
	atomic_t		forgotten;
	struct counts		*counts;
	struct counts		begun;
	struct counts		sum;
	u64			late_ns;
	u64			random;

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

	u64			keeper_random;
	struct task_struct	*keeper;
	struct producer		*producers;
};

/* What main.c and tests/native/stress.c do in different ways. */

/* All times are shorter by the first of these; long bursts end after so many ns or operations. */
extern const unsigned int torture_speed, torture_burst_ns, torture_burst_ops;
/* Called by @p at the begin and at the end of a burst. It also moves to its CPU. */
void torture_irqs_start(struct producer *p);
void torture_irqs_end(struct producer *p);
void torture_irqs_init(struct producer *p);
/* Is a timeout lost that is pending, and should have expired @late_ns ago? */
bool torture_lost(struct hwtimer_timeout *t, u64 late_ns);

/* engine.c */
extern atomic_t torture_failures;
extern struct workqueue_struct *torture_wq;
extern u64 torture_seeds;
u64 torture_seed(void);
u64 torture_count(const struct bench *b, struct counts *sum);
int torture_bench_init(struct bench *b);
void torture_bench_end(struct bench *b);
bool torture_wheel(struct bench *b);
void torture_step(struct bench *b, enum torture_context context, u64 *random, struct thing *self);

static inline bool torture_failed(void)
{
	return atomic_read(&torture_failures);
}

#endif /* HWTIMER_TORTURE_TEST_H */
