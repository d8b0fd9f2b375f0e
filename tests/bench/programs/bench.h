/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures interfaces by which programs keep time: the subjects and the cases.
 */
#ifndef BENCH_H
#define BENCH_H

#include <assert.h>
#include <err.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <linux/types.h>

#define NS_PER_US	1000ULL
#define NS_PER_MS	1000000ULL
#define NS_PER_S	1000000000ULL

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* The most that a subject has in each connection. */
#define HANDLE_SIZE	232

/**
 * struct conn - an object with a timeout, such as a connection
 * @handle: the subject's data
 * @due: when it is due, if that is measured
 * @fired: number of expiries
 */
struct conn {
	union {
		char	bytes[HANDLE_SIZE];
		__u64	align;
	} handle;
	__u64	due;
	__u64	fired;
	__u64	pad;
};

static_assert(sizeof(struct conn) == 256, "as in the benchmark of the kernel's timers");

/* The subject's data of a connection. */
#define handle_of(type, c) ((type *)(c)->handle.bytes)

enum op { OP_ARM, OP_ARM_AT, OP_CANCEL, OP_ARM_CANCEL, OP_TOUCH_LATER, OPS };

/**
 * struct range - connections to operate on, one after the other
 * @first: the first one
 * @at: the next one, relative to @first; advanced by each run
 * @n: number of connections
 * @shift: OP_TOUCH_LATER: the delay is longer by this, in ns
 * @order: their order; NULL: in order of memory
 */
struct range {
	unsigned long	first;
	unsigned long	at;
	unsigned long	n;
	__u64		shift;
	const unsigned int *order;
};

/**
 * struct subject - an interface to keep time with
 * @name: its name
 * @handle: bytes that it has in each connection
 * @dear: each operation makes a system call, or reads the clock, which is as expensive with
 *	User-Mode Linux
 * @searches: cancel and touch search all pending timeouts
 * @begin: prepare for so many timeouts
 * @init: prepare a connection before it is armed; or NULL
 * @run: do the operations, in a callback of its event loop if it has one. Returns ns
 * @settle: finish deferred work; returns the CPU time of that in ns. Or NULL
 * @wait: handle expiries; wait for one if there is none. NULL: it has no timeouts
 */
struct subject {
	const char	*name;
	size_t		handle;
	bool		dear;
	bool		searches;
	void		(*begin)(unsigned long n);
	void		(*init)(struct conn *c);
	__u64		(*run)(enum op op, struct range *r);
	__s64		(*settle)(void);
	void		(*wait)(void);
};

extern const struct subject hwtimer_ioctl, hwtimer_ring, hwtimer_ring_at;
extern const struct subject timerfd, posix_timer, io_uring_timeout;
extern const struct subject system_call, clock_look;
extern const struct subject libevent_heap, libevent_common, libuv_timer;

extern struct conn *conns;
extern unsigned long fired;		/* since it was set to 0 */
extern __u64 loop_now;			/* the time at the beginning of @run */
extern unsigned long system_calls;

#define DELAYS	65536
extern __u64 delays[DELAYS];		/* in ns, random, whole ms */
#define COMMON_DELAY_S	30		/* where one delay is used for all */

void conn_fired(struct conn *c);

static inline __u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static inline struct timespec timespec_of(__u64 ns)
{
	return (struct timespec){ .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };
}

static inline struct conn *conn_at(const struct range *r, unsigned long i)
{
	i += r->first + r->at;
	return &conns[r->order ? r->order[i] : i];
}

static inline __u64 delay_of(const struct conn *c)
{
	return delays[(c - conns) % DELAYS];
}

/**
 * run_range - the loops around the calls, the same for all subjects
 * @group: number of connections that go through one step before the next step
 * @arm: arm a connection, with a delay
 * @arm_at: arm a connection for conn->due
 * @cancel: cancel it
 * @touch: set another delay while it is armed
 * @flush: do what was deferred to be done in groups
 *
 * All of it is inline, so that there are no calls through pointers.
 */
static inline __attribute__((always_inline))
__u64 run_range(enum op op, struct range *r, unsigned long group,
		void (*arm)(struct conn *c, __u64 delay), void (*arm_at)(struct conn *c),
		void (*cancel)(struct conn *c), void (*touch)(struct conn *c, __u64 delay),
		void (*flush)(void))
{
	unsigned long i, k, n;
	struct conn *c;
	__u64 start;

	loop_now = now_ns();
	start = loop_now;
	for (i = 0; i < r->n; i += n) {
		n = r->n - i < group ? r->n - i : group;
		for (k = i; k < i + n; k++) {
			c = conn_at(r, k);
			switch (op) {
			case OP_ARM:
			case OP_ARM_CANCEL:
				arm(c, delay_of(c));
				break;
			case OP_ARM_AT:
				arm_at(c);
				break;
			case OP_CANCEL:
				cancel(c);
				break;
			case OP_TOUCH_LATER:
				touch(c, delay_of(c) + r->shift);
				break;
			case OPS:
				break;
			}
			if (op == OP_ARM_CANCEL && group == 1)
				cancel(c);
		}
		flush();
		if (op == OP_ARM_CANCEL && group > 1) {
			for (k = i; k < i + n; k++)
				cancel(conn_at(r, k));
			flush();
		}
	}
	r->at += r->n;
	return now_ns() - start;
}

/* A function for each operation, so that the switch is outside of the loop. */
#define RUN_RANGE(op, r, ...)							\
	((op) == OP_ARM ? run_range(OP_ARM, r, __VA_ARGS__) :			\
	 (op) == OP_ARM_AT ? run_range(OP_ARM_AT, r, __VA_ARGS__) :		\
	 (op) == OP_CANCEL ? run_range(OP_CANCEL, r, __VA_ARGS__) :		\
	 (op) == OP_ARM_CANCEL ? run_range(OP_ARM_CANCEL, r, __VA_ARGS__) :	\
	 run_range(OP_TOUCH_LATER, r, __VA_ARGS__))

static inline void nothing_put_off(void)
{
}

#endif /* BENCH_H */
