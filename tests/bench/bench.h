/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer_bench: subjects are the interfaces that are compared (subjects.c), cases are the
 * measurements (cases.c, instructions.c, interrupts.c), and main.c has memory, parameters and
 * results.
 */
#ifndef HWTIMER_BENCH_H
#define HWTIMER_BENCH_H

#include <linux/bits.h>
#include <linux/cache.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/timer.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "../../hwtimer_driver.h"

#define SEC		((u64)NSEC_PER_SEC)
#define MSEC		((u64)NSEC_PER_MSEC)

/**
 * struct bench_conn - an object with a timeout, such as a connection
 * @timer: the timeout, of the subject whose turn it is
 * @fired: number of expiries
 * @deadline: in jiffies, for subjects that keep it apart from the timer
 * @next: always 0; added to the index of the next conn to make accesses depend on each other
 *
 * All subjects use the same memory. The rest of the 256 bytes is payload.
 */
struct bench_conn {
	union {
		struct hwtimer_timeout	hwtimer;
		struct timer_list	list;
		struct hrtimer		hrtimer;
		struct delayed_work	dwork;
		unsigned long		next;
	} timer;
	unsigned int		fired;
	unsigned long		deadline;
} __aligned(256);

/* Operations on conns. */
enum bench_op {
	BENCH_ARM,		/* one that is not armed */
	BENCH_ARM_AT,		/* as BENCH_ARM, with the deadline of the range */
	BENCH_CANCEL,
	BENCH_ARM_CANCEL,	/* one that is not armed is armed, and cancelled at once */
	BENCH_REARM,		/* a pending one is cancelled, and armed with a later deadline */
	BENCH_TOUCH_LATER,
	BENCH_TOUCH_EARLIER,
	BENCH_READ,		/* the memory only: a word of each conn */
	BENCH_READ_SERIAL,	/* likewise, each after the one before has been read */
	BENCH_OPS
};

/**
 * struct bench_when - a time
 * @ns: in ns
 * @jiffies: in jiffies
 */
struct bench_when {
	u64		ns;
	unsigned long	jiffies;
};

/**
 * struct bench_range - conns to operate on, and their deadlines
 * @first: index of the first one
 * @size: number of conns
 * @at: the next one, relative to @first; kept from one run to the next
 * @n: number of operations; more than @size: in several passes
 * @in_order: by address; otherwise in random order, the same for each subject
 * @shift: added to the delay of each conn
 * @deadline: for BENCH_ARM_AT
 * @late: jiffies after @deadline by which each subject should have noticed
 */
struct bench_range {
	unsigned long		first;
	unsigned long		size;
	unsigned long		at;
	unsigned long		n;
	bool			in_order;
	struct bench_when	shift;
	struct bench_when	deadline;
	unsigned long		late;
};

/**
 * struct bench_subject - an interface for timeouts
 * @name: its name in the results
 * @ops: supported operations, a bit for each enum bench_op
 * @begin: prepare; returns 0 or -errno. This and the following may be NULL: nothing to do
 * @init: prepare a conn; its @timer is zeroed
 * @run: operate on each conn of the range
 * @arm: arm a single conn, where a loop would disturb; @touch and @cancel likewise
 * @touch: see @arm
 * @cancel: see @arm
 * @absolute: its ns are absolute, not a delay
 * @settle: finish deferred work; returns the CPU time of that, in ns
 * @expire: @n conns are armed for the deadline of the range. Delay them until it has passed, then
 *	let them expire; returns the ns of that, or 0 if some had expired before
 * @forget: a conn will not fire any more: its memory goes to another subject
 * @end: undo @begin, after @forget of all
 */
struct bench_subject {
	const char	*name;
	unsigned long	ops;
	int		(*begin)(void);
	void		(*init)(struct bench_conn *c);
	void		(*run)(enum bench_op op, struct bench_range *r);
	void		(*arm)(struct bench_conn *c, const struct bench_when *when);
	void		(*touch)(struct bench_conn *c, const struct bench_when *when);
	void		(*cancel)(struct bench_conn *c);
	bool		absolute;
	u64		(*settle)(void);
	u64		(*expire)(const struct bench_range *r, unsigned long n);
	void		(*forget)(struct bench_conn *c);
	void		(*end)(void);
};

/* subjects.c */
extern const struct bench_subject bench_hwtimer, bench_hwtimer_at, bench_hwtimer_softirq;
extern const struct bench_subject bench_timer_list, bench_timer_lazy, bench_hrtimer;
extern const struct bench_subject bench_delayed_work, bench_memory;
extern struct hwtimer_wheel *bench_wheel;
extern unsigned long bench_fired;
u64 bench_worker_ns(void);

/* cases.c */
void bench_init_conns(const struct bench_subject *s, unsigned long n);
void bench_forget_conns(const struct bench_subject *s, unsigned long n);
void bench_fill(const struct bench_subject *s, unsigned long n);
int bench_set_up(const struct bench_subject *s);
int bench_tear_down(const struct bench_subject *s);
u64 bench_median(u64 *values, unsigned int n);
int bench_steady(unsigned int round);
int bench_life(unsigned int round);
int bench_quiet(unsigned int round);
int bench_smp(unsigned int round);

/* instructions.c */
bool bench_counter_is_exact(void);
int bench_instructions(unsigned int round);

/* interrupts.c */
int bench_interrupts(unsigned int round);

/* main.c */
#define BENCH_CHUNK_SHIFT	14	/* conns: 4 MiB */
#define BENCH_ORDER_SHIFT	20	/* of their indices */
#define BENCH_DELAYS		256

extern unsigned long bench_pending, bench_idle, bench_batch;
extern struct bench_conn **bench_conns;
extern u32 **bench_order;
extern struct bench_when bench_delay[BENCH_DELAYS];
void bench_result(const char *subject, const char *op, unsigned int cpus, unsigned int round,
		  u64 sum, unsigned long n, const char *unit);

/* A turn takes at most so many seconds: to arm all conns, and to measure. */
static inline unsigned int bench_turn_s(void)
{
	return 20 + bench_pending / 100000;
}

static inline struct bench_conn *bench_conn(unsigned long i)
{
	return &bench_conns[i >> BENCH_CHUNK_SHIFT][i & (BIT(BENCH_CHUNK_SHIFT) - 1)];
}

static inline u32 *bench_order_at(unsigned long i)
{
	return &bench_order[i >> BENCH_ORDER_SHIFT][i & (BIT(BENCH_ORDER_SHIFT) - 1)];
}

#endif /* HWTIMER_BENCH_H */
