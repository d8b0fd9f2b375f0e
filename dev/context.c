// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: a context of /dev/hwtimer: a wheel that has no thread.
 *
 * Whoever calls does what is to be done: a slice in poll(2), as many as it takes in read(2) and
 * ENTER. So it is charged to the task that calls, and limited, prioritised and killed with it. A
 * slice looks at CONTEXT_SLICE timeouts at most, with the lock of the context held; poll(2) may be
 * called with a mutex of epoll held that many contexts share. If that was not all, the timer is
 * started for now, so that the waiters poll again. (To wake oneself in poll(2) would be a loop.)
 *
 * All that the kernel does by itself is this timer. Its function takes no lock; it sets @fired and
 * wakes all waiters without a key: with a key, io_uring and aio would complete without asking poll.
 *
 * Who sleeps does not miss a record:
 *
 *	a slice in another task			a waiter
 *	  makes a record			  adds itself to the queue
 *	  sets @next and the timer		  full barrier
 *	  clears @fired, was it set?		  runs a slice if @fired, or if @next has come
 *	  if not: wakes the waiters		  looks for a record
 *
 * If @fired was set, the timer has woken the waiters already, or is about to: it sets @fired first.
 * They poll, and each one looks for records itself. The slice clears @fired only after its records
 * can be seen. Did it clear it before, a waiter that polls in between would find neither. The timer
 * may go off before the slice that has set it clears @fired; so a waiter also looks at the clock.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/nsproxy.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/time_namespace.h>
#include <linux/xarray.h>

#include "../core/hwtimer_compat.h"
#include "../core/hwtimer_step.h"
#include "../debug/trace.h"
#include "context.h"
#include "memory.h"

/*
 * The lowest levels of the wheel have 64 slots, so that a timeout of a minute cascades twice if the
 * tick is 1 ms. With 16 slots for the others, a wheel of 12 levels takes 12 KiB.
 */
#define LOW_LEVELS	3
#define LOW_BITS	6
#define HIGH_BITS	4
/* How many buckets of later rounds a slice looks at to find out when there is more to do. */
#define PROBES		CONTEXT_SLICE

/* Who holds the lock keeps contexts from being freed. */
DEFINE_MUTEX(hwtimer_contexts_lock);
DEFINE_XARRAY_ALLOC1(hwtimer_contexts);

/**
 * hwtimer_context_offset - the time namespace of the calling task
 * @clockid: CLOCK_MONOTONIC or CLOCK_BOOTTIME
 *
 * Return: from the kernel's clock to the task's, in ns.
 */
s64 hwtimer_context_offset(clockid_t clockid)
{
	struct timespec64 offset = { };

	if (clockid == CLOCK_BOOTTIME)
		timens_add_boottime(&offset);
	else
		timens_add_monotonic(&offset);
	return timespec64_to_ns(&offset);
}

/**
 * hwtimer_context_now - the time on the clock of a context
 * @c: the context, after SETUP
 *
 * Return: ns.
 */
u64 hwtimer_context_now(const struct context *c)
{
	ktime_t now = c->clockid == CLOCK_BOOTTIME ? ktime_get_boottime() : ktime_get();

	return max_t(s64, ktime_to_ns(now) + c->offset_ns, 0);
}

static enum hrtimer_restart context_timer(struct hrtimer *timer)
{
	struct context *c = container_of(timer, struct context, timer);

	WRITE_ONCE(c->timers, c->timers + 1);
	trace_hwtimer_context_timer(c->id);
	WRITE_ONCE(c->fired, 1);
	/* An exclusive waiter may be one who does not poll then. */
	wake_up_all(&c->wait);
	return HRTIMER_NORESTART;
}

/* A tick on the kernel's clock. To an hrtimer, a negative time is one at the end of all times. */
static ktime_t context_ktime(const struct context *c, u64 tick)
{
	s64 ns = min_t(u64, tick * c->tick_ns, S64_MAX);

	if (check_sub_overflow(ns, c->offset_ns, &ns))
		return KTIME_MAX;
	return ns_to_ktime(max_t(s64, ns, 0));
}

/* Set the timer for a tick; 0: now. */
static void context_timer_set(struct context *c, u64 next)
{
	WRITE_ONCE(c->next, next);
	if (next == c->timer_tick && (next == WHEEL_NEVER || hrtimer_is_queued(&c->timer)))
		return;
	c->timer_tick = next;
	if (next == WHEEL_NEVER)
		hrtimer_try_to_cancel(&c->timer);
	else	/* Not for what is due, as it has had the slack already. */
		hrtimer_start_range_ns(&c->timer, context_ktime(c, next),
				       next > c->wheel.cur ? c->range_ns : 0, HRTIMER_MODE_ABS);
}

/**
 * hwtimer_context_hurry - a timeout was filed for a tick
 * @c: the context, whose lock is held
 * @tick: the tick; WHEEL_NEVER
 */
void hwtimer_context_hurry(struct context *c, u64 tick)
{
	if (tick < c->next)
		context_timer_set(c, tick);
}

/*
 * Take what was pushed, and what is due, as far as the budget goes. True if that was all. Pushed
 * slots get at most half of the budget if something is due, so they do not starve it. But they may
 * be for the tick that it is now, so this one is not visited before all of them are taken.
 */
static bool slice_work(struct context *c, unsigned int *budget)
{
	unsigned int takes = (*budget + 1) / 2;
	bool all = true;
	u64 last;

	c->now_ns = hwtimer_context_now(c);
	last = div64_u64(c->now_ns, c->tick_ns);
	if (c->kind->pushed) {
		*budget -= takes;
		all = !c->kind->pushed(c, &takes);
		*budget += takes;
	}
	c->kind->due(c, all ? last : max(last, 1ULL) - 1, budget);
	if (!all) {
		all = !c->kind->pushed(c, budget);
		if (all)
			c->kind->due(c, last, budget);
	}
	return all && wheel_took_all(&c->wheel, last);
}

/*
 * The end of a slice: when is the next one? 0: now. If the caller goes on, it may all the same be
 * preempted or throttled before, and nobody who arms or waits would do its work. So the timer is
 * set for the next tick.
 */
static void slice_plan(struct context *c, u64 next, bool goes_on)
{
	if (!next && goes_on) {
		context_timer_set(c, div64_u64(c->now_ns, c->tick_ns) + 1);
		WRITE_ONCE(c->next, 0);
	} else {
		context_timer_set(c, next);
	}
}

/**
 * hwtimer_context_run - do a slice of what is to be done
 * @c: the context, after SETUP
 * @goes_on: if more is left, the caller runs the next slice, or calls hwtimer_context_leave();
 *	otherwise the timer is set for it
 *
 * Context: Any task; takes the lock, and wakes those who wait.
 *
 * Return: true if more is left.
 */
bool hwtimer_context_run(struct context *c, bool goes_on)
{
	unsigned int budget = CONTEXT_SLICE;
	bool all, pushed, wake;
	u64 next, before;

	spin_lock(&c->lock);
	before = c->stats.looks;
	c->stats.runs++;
	c->made = 0;
	do {
		all = slice_work(c, &budget);
		next = all ? wheel_next(&c->wheel, WHEEL_NEVER, PROBES) : 0;
		slice_plan(c, next, goes_on);
		/* What is pushed from here on is compared with @next by who pushes it. */
		pushed = c->kind->publish && c->kind->publish(c, next);
		/* A program may only say that something was pushed: that counts, too. */
	} while (all && pushed && budget && --budget);
	if (all && pushed) {
		all = false;
		slice_plan(c, 0, goes_on);
		c->kind->publish(c, 0);
	}
	/*
	 * After the records are published; see above.
	 * [xchg: table-fired-broken-xchg table-fired-broken-early table-poll-broken-run; after
	 * publish]
	 */
	wake = !xchg(&c->fired, 0) && c->made;
	trace_hwtimer_context_slice(c->id, c->stats.looks - before, c->made, c->next);
	spin_unlock(&c->lock);
	if (wake)
		wake_up_poll(&c->wait, EPOLLIN | EPOLLRDNORM);
	return !all;
}

/**
 * hwtimer_context_leave - leave it to others to run the next slice
 * @c: the context, of which hwtimer_context_run() has left something
 */
void hwtimer_context_leave(struct context *c)
{
	spin_lock(&c->lock);
	if (!c->next)
		context_timer_set(c, 0);
	spin_unlock(&c->lock);
}

/**
 * hwtimer_context_enter - do all that is to be done
 * @c: the context, after SETUP
 *
 * The number of slices is limited: a program can push for ever.
 *
 * Context: A task that may sleep.
 *
 * Return: 0, or -EINTR: it is being killed.
 */
int hwtimer_context_enter(struct context *c)
{
	/* A slot may be pushed and due, and a slice looks at 32 of each. */
	u32 slices = 64 + READ_ONCE(c->slots) / 8;

	while (hwtimer_context_run(c, true)) {
		if (!slices-- || fatal_signal_pending(current)) {
			hwtimer_context_leave(c);
			return fatal_signal_pending(current) ? -EINTR : 0;
		}
		cond_resched();
	}
	return 0;
}

/* Is there anything to do before one can say whether there is something to take? */
static bool context_overdue(const struct context *c)
{
	/*
	 * Before @next: who clears @fired has set @next before.
	 * [smp_load_acquire: table-fired-broken-acquire]
	 */
	return smp_load_acquire(&c->fired) ||
	       div64_u64(hwtimer_context_now(c), c->tick_ns) >= READ_ONCE(c->next);
}

/**
 * hwtimer_context_readable - is there something to take, after a slice if one is due?
 * @c: the context, after SETUP
 *
 * Return: true if there is. It may be gone by now.
 */
bool hwtimer_context_readable(struct context *c)
{
	if (context_overdue(c))
		hwtimer_context_run(c, false);
	return c->kind->unread(c);
}

/**
 * hwtimer_context_poll - the poll file operation
 * @c: the context
 * @file: for poll_wait()
 * @wait: likewise
 *
 * A kernel thread that polls for aio runs nothing: it is not charged to the program. Neither does
 * one who does not ask for EPOLLIN, such as a stranger who waits for the end; the timer does not
 * even wake him.
 *
 * Return: EPOLLIN | EPOLLRDNORM and EPOLLHUP, as they apply.
 */
__poll_t hwtimer_context_poll(struct context *c, struct file *file, poll_table *wait)
{
	const struct context_kind *kind;
	__poll_t events = 0;
	bool readable, asks;

	asks = poll_requested_events(wait) & (EPOLLIN | EPOLLRDNORM);
	poll_wait(file, asks ? &c->wait : &c->end, wait);
	/*
	 * Either who makes a record sees us wait, or we see the record.
	 * [smp_mb: table-poll-broken-poll; after poll_wait]
	 */
	smp_mb();
	kind = context_kind(c);
	if (!kind)
		return 0;
	if (asks) {
		if (current->flags & PF_KTHREAD)
			readable = context_overdue(c) || kind->unread(c);
		else
			readable = hwtimer_context_readable(c);
		if (readable)
			events |= EPOLLIN | EPOLLRDNORM;
		/* The caller may ask many contexts, one after the other. */
		cond_resched();
	}
	/* [smp_load_acquire: as who sees the end finds all that was pending] */
	if (smp_load_acquire(&c->ended))
		events |= EPOLLHUP;
	return events;
}

/**
 * hwtimer_context_stop - let nothing expire any more
 * @c: the context, after SETUP
 *
 * Context: A task that may sleep.
 *
 * Return: 0, also if it was stopped before; -EINTR: the task is being killed.
 */
int hwtimer_context_stop(struct context *c)
{
	int ret = mutex_lock_killable(&c->control);

	if (ret)
		return ret;
	spin_lock(&c->lock);
	c->stopped = true;
	spin_unlock(&c->lock);
	ret = c->kind->stop(c);
	if (!ret)
		/* [smp_store_release: as hwtimer_context_poll() acquires] */
		smp_store_release(&c->ended, true);
	trace_hwtimer_context_stop(c->id);
	wake_up_all(&c->wait);
	wake_up_all(&c->end);
	mutex_unlock(&c->control);
	return ret;
}

/**
 * hwtimer_context_list - look for armed timeouts in up to CONTEXT_SLICE slots
 * @c: the context, after SETUP
 * @index: the first slot; out: where to go on
 * @q: the timeouts
 * @max: how many @q has room for
 * @end: out: there are no slots from *@index on
 *
 * Return: how many were found.
 */
unsigned int hwtimer_context_list(struct context *c, u32 *index, struct hwtimer_query *q,
				  unsigned int max, bool *end)
{
	unsigned int looks = CONTEXT_SLICE, n = 0;
	int armed = 0;

	spin_lock(&c->lock);
	while (n < max && looks-- && (armed = c->kind->describe(c, *index, &q[n])) >= 0) {
		n += armed;
		++*index;
	}
	spin_unlock(&c->lock);
	*end = armed < 0;
	return n;
}

/**
 * hwtimer_context_show - print what the kernel knows of a context without counting
 * @m: where to
 * @c: the context, after SETUP
 */
void hwtimer_context_show(struct seq_file *m, struct context *c)
{
	struct hwtimer_stats stats;
	bool stopped;
	u32 slots;

	spin_lock(&c->lock);
	stats = c->stats;
	slots = c->slots;
	stopped = c->stopped;
	spin_unlock(&c->lock);
	seq_printf(m, "context: %u\n", c->id);
	seq_printf(m, "kind: %s\n", c->kind->name);
	seq_printf(m, "clockid: %d\n", c->clockid);
	seq_printf(m, "tick_ns: %llu\n", c->tick_ns);
	seq_printf(m, "slack_ns: %llu\n", context_slack_ns(c));
	seq_printf(m, "slots: %u\n", slots);
	seq_printf(m, "stopped: %d\n", stopped);
	seq_printf(m, "looks: %llu\n", stats.looks);
	seq_printf(m, "records: %llu\n", stats.records);
	seq_printf(m, "runs: %llu\n", stats.runs);
	seq_printf(m, "timers: %llu\n", READ_ONCE(c->timers));
	seq_printf(m, "late_ns: %llu\n", stats.late_ns);
}

/**
 * hwtimer_context_create - a context before SETUP
 *
 * Return: the context; NULL: no memory.
 */
struct context *hwtimer_context_create(void)
{
	struct context *c = kzalloc(sizeof(*c), GFP_MEMORY);
	static u32 next_id;

	if (!c)
		return NULL;
	c->user = hwtimer_memory_user_get();
	if (!c->user)
		goto err;
	if (xa_alloc_cyclic(&hwtimer_contexts, &c->id, c, xa_limit_31b, &next_id,
			    GFP_MEMORY) < 0)
		goto err_user;
	mutex_init(&c->control);
	mutex_init(&c->read_lock);
	spin_lock_init(&c->lock);
	init_waitqueue_head(&c->wait);
	init_waitqueue_head(&c->end);
	return c;

err_user:
	hwtimer_memory_user_put(c->user);
err:
	kfree(c);
	return NULL;
}

/**
 * hwtimer_context_allows - may the calling task have so many slots?
 * @slots: how many
 *
 * Return: 0; -EINVAL: nobody may; -EPERM.
 */
int hwtimer_context_allows(u32 slots)
{
	if (slots > HWTIMER_MAX_SLOTS)
		return -EINVAL;
	return slots > HWTIMER_FREE_SLOTS && !capable(CAP_SYS_RESOURCE) ? -EPERM : 0;
}

/**
 * hwtimer_context_reserve - make room for more pages
 * @c: the context, with @control held, or before it is used
 * @pages: an array that only the caller changes, and others read with the lock of the context held
 * @nr: how many pages it has
 * @max: how many it is to have room for
 *
 * Return: 0 or -ENOMEM.
 */
int hwtimer_context_reserve(struct context *c, void ***pages, u32 nr, u32 max)
{
	void **more = kvcalloc(max, sizeof(*more), GFP_MEMORY);

	if (!more)
		return -ENOMEM;
	if (nr)
		memcpy(more, *pages, nr * sizeof(*more));
	spin_lock(&c->lock);
	swap(*pages, more);
	spin_unlock(&c->lock);
	kvfree(more);
	return 0;
}

/**
 * hwtimer_context_shape - prepare a SETUP: check and round what it asks for
 * @c: a context before SETUP, whose @control is held
 * @s: what SETUP asks for; out: what it gets
 *
 * Sets all that the functions of a kind need to prepare @data. hwtimer_context_begin() or
 * hwtimer_context_unshape() has to follow.
 *
 * Return: 0, -EINVAL, -EPERM or -ENOMEM.
 */
int hwtimer_context_shape(struct context *c, struct hwtimer_setup *s)
{
	const u64 unit = 1ULL << HWTIMER_UNIT_SHIFT;
	unsigned char bits[WHEEL_MAX_LEVELS];
	unsigned int levels;
	u64 tick_ns = s->tick_ns ?: NSEC_PER_MSEC;
	int ret;

	if ((s->clockid != CLOCK_MONOTONIC && s->clockid != CLOCK_BOOTTIME) || s->pad ||
	    s->flags & ~HWTIMER_SETUP_TABLE || tick_ns < 2 * unit ||
	    tick_ns > 10ULL * NSEC_PER_SEC || s->slack_ns > 1ULL << 40)
		return -EINVAL;
	ret = hwtimer_context_allows(s->slots);
	if (ret)
		return ret;

	tick_ns = round_up(tick_ns, unit);
	memset(bits, HIGH_BITS, WHEEL_MAX_LEVELS);
	memset(bits, LOW_BITS, LOW_LEVELS);
	levels = wheel_levels(bits, WHEEL_MAX_LEVELS, div64_u64(S64_MAX, tick_ns));
	c->buckets_size = wheel_size(bits, levels);
	if (hwtimer_memory_charge(c->user, c->buckets_size))
		return -ENOMEM;
	/* Less than three pages; kvmalloc() would take four. */
	c->buckets = alloc_pages_exact(c->buckets_size, GFP_MEMORY);
	if (!c->buckets) {
		hwtimer_memory_uncharge(c->user, c->buckets_size);
		return -ENOMEM;
	}
	wheel_init(&c->wheel, bits, levels, c->buckets);
	c->tick_ns = tick_ns;
	c->slack = (1ULL << ilog2(div64_u64(s->slack_ns, tick_ns) + 1)) - 1;
	c->wheel.align = c->slack;
	c->late_units = ((c->slack + 1) * tick_ns >> HWTIMER_UNIT_SHIFT) - 1;
	c->range_ns = round_down(s->slack_ns, unit) - c->slack * tick_ns;
	c->clockid = s->clockid;
	c->offset_ns = hwtimer_context_offset(s->clockid);
	c->next = WHEEL_NEVER;
	c->timer_tick = WHEEL_NEVER;
	hrtimer_setup(&c->timer, context_timer, c->clockid, HRTIMER_MODE_ABS);
	s->tick_ns = tick_ns;
	s->slack_ns = context_slack_ns(c);
	return 0;
}

/**
 * hwtimer_context_unshape - undo hwtimer_context_shape()
 * @c: the context
 */
void hwtimer_context_unshape(struct context *c)
{
	free_pages_exact(c->buckets, c->buckets_size);
	hwtimer_memory_uncharge(c->user, c->buckets_size);
}

/**
 * hwtimer_context_begin - the end of a SETUP: from now on the context is used
 * @c: the context
 * @kind: its kind, whose @data is complete
 */
void hwtimer_context_begin(struct context *c, const struct context_kind *kind)
{
	unsigned int none = 1;

	/* The wheel begins now: nothing is filed in the past. */
	wheel_take(&c->wheel, div64_u64(hwtimer_context_now(c), c->tick_ns), &none);
	c->pid = task_tgid_nr(current);
	get_task_comm(c->comm, current);
	c->uid = current_euid();
	/* [smp_store_release: as context_kind() acquires] */
	smp_store_release(&c->kind, kind);
	trace_hwtimer_context_setup(c->id, kind->name, c->tick_ns, c->slots);
}

/**
 * hwtimer_context_free - the last close
 * @c: the context, which nobody else uses any more
 *
 * Context: A task that may sleep.
 */
void hwtimer_context_free(struct context *c)
{
	mutex_lock(&hwtimer_contexts_lock);
	xa_erase(&hwtimer_contexts, c->id);
	mutex_unlock(&hwtimer_contexts_lock);
	if (c->kind) {
		hrtimer_cancel(&c->timer);
		trace_hwtimer_context_close(c->id);
		c->kind->free(c);
		hwtimer_context_unshape(c);
	}
	hwtimer_memory_user_put(c->user);
	kfree(c);
}
