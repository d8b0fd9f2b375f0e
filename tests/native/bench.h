/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the files of the native benchmark share. bench_program.c, which is a program's
 * side, includes it without native.h.
 */
#ifndef NATIVE_BENCH_H
#define NATIVE_BENCH_H

#include <linux/types.h>

#include "shim.h"

/* So many operations are measured together; then the worker runs. Less than QUEUE_DEPTH. */
#define PORTION		1000UL
/* The largest number of conns that are not pending, and of operations in a measurement. */
#define IDLE		100000UL
#define SAMPLES		4096
#define DELAYS		256

/* The values measured in a round. */
struct samples {
	double		values[SAMPLES];
	unsigned int	n;
};

extern unsigned long pending, idle;
extern __u32 *order;		/* in which conns are used */
extern __u64 delays_ns[DELAYS];

__u64 cpu_ns(void);
__u64 since(__u64 start);
void sample(struct samples *s, __u64 ns, unsigned long n);
double median(struct samples *s);
void result(const char *subject, const char *op, unsigned int round, double value);
unsigned int turn_of(unsigned int i, unsigned int n, unsigned int round);
void *large_pages(size_t size);
void unpin(void);

/* cases */
void steady(unsigned int round);
void life(unsigned int round);
void producers(unsigned int round);
void connections(unsigned int round);
void program(unsigned int round);
void netty(unsigned int round);

#ifdef NATIVE_H
#include "hwtimer.h"
#include "core/hwtimer_driver.h"
#include "timer_list.h"

#define SEC		((u64)NSEC_PER_SEC)
#define MSEC		((u64)NSEC_PER_MSEC)
#define THREADS		4

/**
 * struct conn - an object with a timeout; all subjects use the same memory
 * @timer: the timeout
 * @deadline: for those that only store it, in jiffies or ns
 */
struct conn {
	union {
		struct hwtimer_timeout	hwtimer;
		struct timer_list	list;
	} timer;
	unsigned long		deadline;
} __attribute__((aligned(256)));

struct when {
	u64		ns;
	unsigned long	jiffies;
};

enum op {
	ARM,
	ARM_AT,		/* all for the deadline of the range */
	CANCEL,		/* timeouts that the worker has filed */
	ARM_CANCEL,	/* arm each, and cancel it at once */
	TOUCH_LATER,	/* by seconds: timer_list uses another bucket */
	TOUCH_NEAR,	/* by ms: timer_list mostly uses the same bucket */
	RELEASE,	/* initialise, arm and release each; or delete it, with timer_list */
	OPS
};

/**
 * struct range - conns to operate on
 * @first: the first one, as an index of order[]
 * @n: number of operations
 * @shift: added to each delay
 * @deadline: for ARM_AT
 */
struct range {
	unsigned long	first, n;
	struct when	shift;
	struct when	deadline;
};

/**
 * struct subject - what is measured
 * @name: its name in the results
 * @begin: prepare
 * @init: prepare a conn
 * @run: operate
 * @settle: let the worker do all it can. NULL: there is no worker
 * @expire: let everything that is due expire
 * @end: undo @begin
 */
struct subject {
	const char	*name;
	void		(*begin)(void);
	void		(*init)(struct conn *c);
	void		(*run)(enum op op, const struct range *r);
	void		(*settle)(void);
	void		(*expire)(void);
	void		(*end)(void);
};

extern struct conn *conns;
extern unsigned long delays_jiffies[DELAYS], fired;
extern unsigned int cores;
extern struct hwtimer_wheel *wheel;
extern const struct subject hwtimer, hwtimer_at, timer_list;

u64 clock_ns(clockid_t clock);
void pin(unsigned int thread);
struct hwtimer_wheel *make_wheel(unsigned long cap);
/* The worker was kicked. */
extern bool kicked;

u64 run_worker(struct hwtimer_wheel *w);
void init_conns(const struct subject *s, unsigned long n);
void check_fired(const struct subject *s, unsigned long n);
void arm_all(const struct subject *s, enum op op, struct range *r);
#endif /* NATIVE_H */

#endif /* NATIVE_BENCH_H */
