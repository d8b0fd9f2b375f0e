/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer_bench: subjects are the interfaces that are compared (subjects.c), cases are what
 * they are put to (cases.c, instructions.c,
 * interrupts.c), and main.c has memory, parameters and results.
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
 * struct bench_conn - what has a timeout, such as a connection
 * @timer: the timeout, of the subject whose turn it is
 * @fired: how often it has expired
 * @deadline: in jiffies, of who keeps it beside the timer
 * @next: always 0; which conn is next depends on it where it is to
 *
 * All subjects see the same memory. The rest of the 256 bytes is payload.
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

/* What is done to conns. */
enum bench_op {
	BENCH_ARM,		/* one that is not armed */
	BENCH_ARM_AT,		/* the same, for the deadline of the range */
	BENCH_CANCEL,
	BENCH_ARM_CANCEL,	/* one that is not armed is armed, and cancelled at once */
	BENCH_REARM,		/* an armed one is cancelled, and armed for later */
	BENCH_TOUCH_LATER,
	BENCH_TOUCH_EARLIER,
	BENCH_READ,		/* only the memory: a word of each */
	BENCH_READ_SERIAL,	/* and each one only when the one before has been read */
	BENCH_OPS
};

/**
 * struct bench_when - a time
 * @ns: in ns
 * @jiffies: the same in jiffies
 */
struct bench_when {
	u64		ns;
	unsigned long	jiffies;
};

/**
 * struct bench_range - which conns, and until when
 * @first: index of the first one
 * @size: how many
 * @at: of these, which is next; goes on from one operation to the next
 * @n: how many operations; more than @size: round and round
 * @in_order: by address; else at random, the same for each subject
 * @shift: what is added to the delay of each conn
 * @deadline: for BENCH_ARM_AT
 * @late: so many jiffies after @deadline each subject should have noticed
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
 * @name: for the results
 * @ops: what of enum bench_op it can do, a bit for each
 * @begin: prepare for conns; 0 or -errno. NULL: nothing to do, as all that follows
 * @init: prepare a conn; its @timer is zeroed
 * @run: do it to each of the range
 * @arm: the same to one, for whom a loop would be in the way; so do @touch and @cancel
 * @touch: see @arm
 * @cancel: see @arm
 * @absolute: its ns are absolute, not a delay
 * @settle: have all that was put off done, now; ns of CPU time that this took
 * @expire: @n conns are armed for the deadline of the range. Hold them back until it has passed,
 *	then let them expire; ns that this took, or 0 if some had expired before
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

/* So many seconds are enough for a turn: to arm them all, and for what is measured then. */
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
