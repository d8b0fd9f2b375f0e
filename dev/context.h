/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: a context of /dev/hwtimer: a wheel that is served by the calls of programs.
 */
#ifndef HWTIMER_DEV_CONTEXT_H
#define HWTIMER_DEV_CONTEXT_H

#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/wait.h>

#include "../core/hwtimer_wheel.h"
#include "../uapi/linux/hwtimer.h"

/* So many timeouts are looked at in a slice, half of them because they were pushed. */
#define CONTEXT_SLICE		64
/* Bins of the histogram of lateness, as those of struct hwtimer_wheel_info. */
#define CONTEXT_LATE_BINS	HWTIMER_LATE

struct context;
struct memory_user;
struct seq_file;

/**
 * struct context_kind - what differs between contexts by calls and contexts by a table. Unless said
 *	otherwise, functions are called under the lock of the context
 * @name: "calls" or "table"
 * @pushed: take pushed timeouts, and file them; decreases *@budget. NULL: nothing is ever pushed.
 *	Returns true if some are left
 * @due: look at what the wheel hands over up to tick @last; decreases *@budget
 * @unread: is there something to take? Called with or without the lock
 * @publish: the slice ends: tell the program that the timer goes off at tick @next; 0: now,
 *	WHEEL_NEVER: never. NULL: nobody has to know. Returns true if something was pushed meanwhile
 * @pending: how many timeouts are armed. Called without the lock
 * @describe: describe the timeout of a slot: returns 1; 0: it is not armed; -ENOENT: there is no
 *	such slot
 * @stop: after @stopped was set, called without the lock, but with @control: 0 or -EINTR
 * @free: free what @data refers to. Called without the lock
 */
struct context_kind {
	const char *name;
	bool	(*pushed)(struct context *c, unsigned int *budget);
	void	(*due)(struct context *c, u64 last, unsigned int *budget);
	bool	(*unread)(const struct context *c);
	bool	(*publish)(struct context *c, u64 next);
	u64	(*pending)(struct context *c);
	int	(*describe)(struct context *c, u32 index, struct hwtimer_query *q);
	int	(*stop)(struct context *c);
	void	(*free)(struct context *c);
};

/**
 * struct context - an open file description
 * @control: held by SETUP, GROW, STOP, STATS, and a SCHEDULE that needs memory; these may sleep.
 *	Only taken killably
 * @read_lock: held by read(2), which copies to a program's memory; only taken interruptibly
 * @lock: protects what follows, unless said otherwise. Never taken in an interrupt
 * @kind: NULL until SETUP; then constant, and so are @data to @late_units
 * @data: of that kind
 * @user: who is charged
 * @offset_ns: from the kernel's clock to that of the context: its time namespace
 * @clockid: CLOCK_MONOTONIC or CLOCK_BOOTTIME
 * @tick_ns: length of a tick, a multiple of 2^16 ns
 * @slack: in ticks, 2^n - 1: a timeout is filed for a tick in which these bits are 0
 * @range_ns: what is left of the slack: @timer may go off later by that, together with another one
 * @late_units: a look may be this and less than 2^16 ns later than a deadline, in units of 2^16 ns
 * @slots: how many timeouts there may be. Those of a table grow. Also read without the lock
 * @wheel: the timeouts, as far as the kernel has been told of them
 * @buckets: the memory of @wheel ...
 * @buckets_size: ... and how much it is; constant, as @buckets
 * @now_ns: the time of the slice in progress
 * @next: the tick at which a slice has to run; 0: at once; WHEEL_NEVER. Also read without the lock
 * @timer_tick: the tick for which @timer is set: @next, unless somebody is about to run a slice
 * @made: how many records the slice in progress has made
 * @stopped: nothing expires any more
 * @ended: STOP is complete: all that was pending can be taken. Written without the lock
 * @timer: wakes those who wait, and does nothing else
 * @fired: @timer has gone off since the last slice. Written by the timer without the lock
 * @wait: programs that wait in read(2), or in poll(2) for input
 * @end: those that wait in poll(2) for other events: the end
 * @stats: counts; those that are left 0 here are found out by STATS
 * @late: how many timeouts were found due late by less than 1, 2, 4, ... us; last: all others
 * @timers: how often @timer went off; written by the timer alone
 * @id: names the context for root; constant
 * @pid: the process that did SETUP, in the initial PID namespace; it may have ended. As the rest,
 *	constant as of SETUP
 * @comm: its name then; a program may have written anything
 * @uid: its user
 */
struct context {
	struct mutex			control;	/* see above */
	struct mutex			read_lock;	/* see above */
	spinlock_t			lock;		/* see above */
	const struct context_kind	*kind;
	void				*data;
	struct memory_user		*user;
	s64				offset_ns;
	clockid_t			clockid;
	u64				tick_ns;
	u64				slack;
	u64				range_ns;
	u64				late_units;
	u32				slots;
	struct wheel			wheel;
	void				*buckets;
	size_t				buckets_size;
	u64				now_ns;
	u64				next;
	u64				timer_tick;
	unsigned int			made;
	bool				stopped;
	bool				ended;
	struct hrtimer			timer;
	int				fired;
	wait_queue_head_t		wait;
	wait_queue_head_t		end;
	struct hwtimer_stats		stats;
	u64				late[CONTEXT_LATE_BINS];
	u64				timers;
	u32				id;
	pid_t				pid;
	char				comm[TASK_COMM_LEN];
	kuid_t				uid;
};

/* All contexts, by their ids. */
extern struct mutex hwtimer_contexts_lock;
extern struct xarray hwtimer_contexts;

extern const struct context_kind hwtimer_calls_kind;
extern const struct context_kind hwtimer_table_kind;

struct context *hwtimer_context_create(void);
void hwtimer_context_free(struct context *c);
int hwtimer_context_allows(u32 slots);
int hwtimer_context_reserve(struct context *c, void ***pages, u32 nr, u32 max);
int hwtimer_context_shape(struct context *c, struct hwtimer_setup *s);
void hwtimer_context_unshape(struct context *c);
void hwtimer_context_begin(struct context *c, const struct context_kind *kind);

s64 hwtimer_context_offset(clockid_t clockid);
u64 hwtimer_context_now(const struct context *c);
void hwtimer_context_hurry(struct context *c, u64 tick);
bool hwtimer_context_run(struct context *c, bool goes_on);
void hwtimer_context_leave(struct context *c);
int hwtimer_context_enter(struct context *c);
int hwtimer_context_stop(struct context *c);
unsigned int hwtimer_context_list(struct context *c, u32 *index, struct hwtimer_query *q,
				  unsigned int max, bool *end);
void hwtimer_context_show(struct seq_file *m, struct context *c);
__poll_t hwtimer_context_poll(struct context *c, struct file *file, poll_table *wait);
bool hwtimer_context_readable(struct context *c);

/**
 * context_tick - for which tick is a timeout filed?
 * @c: the context, after SETUP
 * @deadline_ns: its deadline; from 2^63 on it never comes
 *
 * Return: the first tick at or after the deadline that the slack allows, or WHEEL_NEVER.
 */
static inline u64 context_tick(const struct context *c, u64 deadline_ns)
{
	if (deadline_ns > S64_MAX)
		return WHEEL_NEVER;
	return (div64_u64(deadline_ns + c->tick_ns - 1, c->tick_ns) + c->slack) & ~c->slack;
}

/* The slack that a program has asked for, as far as it is kept. */
static inline u64 context_slack_ns(const struct context *c)
{
	return c->slack * c->tick_ns + c->range_ns;
}

/**
 * context_note_late - note how late a timeout is that is found due
 * @c: the context, in a slice
 * @deadline_ns: its deadline. If that had passed when it was filed, its tick counts
 */
static inline void context_note_late(struct context *c, u64 deadline_ns)
{
	u64 due = max(deadline_ns, (c->wheel.cur - 1) * c->tick_ns);
	u64 late = c->now_ns - min(due, c->now_ns);

	c->stats.late_ns = max(c->stats.late_ns, late);
	c->late[min(fls64(div_u64(late, NSEC_PER_USEC)), CONTEXT_LATE_BINS - 1)]++;
}

/* The kind of a context, or NULL before SETUP. */
static inline const struct context_kind *context_kind(const struct context *c)
{
	/* [smp_load_acquire: as hwtimer_context_begin() releases] */
	return smp_load_acquire(&c->kind);
}

#endif /* HWTIMER_DEV_CONTEXT_H */
