// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: contexts by calls: timeouts that are armed by ioctls and taken by read(2).
 *
 * A timeout is an entry of a page; its id is the index of the entry and a tag that is never used
 * again. An armed entry is filed in the wheel for its tick. A slice that finds it due moves it to
 * the list @ready, where it stays pending, and can be moved or cancelled, until read(2) takes it.
 *
 * read(2) takes some entries under the lock, which decides that they have expired, and then copies
 * their records to the program, which may fault and take long. Meanwhile the entries are ENDING,
 * and for all others they have ended; or they are TAKEN, if they are periodic, and may be moved and
 * cancelled. Those that could not be copied are due again, under the same ids.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "../debug/trace.h"
#include "../core/hwtimer_period.h"
#include "calls.h"
#include "memory.h"

/* An id: a tag of 40 bits, which is not 0, and an index. */
#define INDEX_BITS	24
#define LAST_TAG	(U64_MAX >> INDEX_BITS)

#define DEFAULT_SLOTS	HWTIMER_FREE_SLOTS
#define PAGE_ENTRIES	(PAGE_SIZE / sizeof(struct entry))
#define MAX_PAGES	(HWTIMER_MAX_SLOTS / PAGE_ENTRIES)
/* How many records read(2) copies at a time, by way of the stack. */
#define BATCH		8

enum entry_state {
	ENTRY_FREE,	/* on @free */
	ENTRY_FILED,	/* in the wheel */
	ENTRY_READY,	/* on @ready */
	ENTRY_ENDING,	/* a read(2) copies its last record */
	ENTRY_TAKEN,	/* a read(2) copies a record, others will follow */
	ENTRY_MOVED,	/* as TAKEN, and it has a new deadline */
	ENTRY_DROPPED,	/* as TAKEN, and it was cancelled */
};

/**
 * struct entry - a timeout
 * @node: in the wheel, or on @ready or @free, as @state says
 * @deadline_ns: when it is due
 * @period_ns: its period; 0 if it is not periodic
 * @misfire_ns: as in struct hwtimer_period
 * @overruns: deadlines that were skipped since the last record
 * @user_data: the program's
 * @tag: of its current use, or of its next one
 * @policy: as in struct hwtimer_period
 * @state: see above
 */
struct entry {
	struct list_head	node;
	u64			deadline_ns;
	u64			period_ns;
	u64			misfire_ns;
	u64			overruns;
	u64			user_data;
	u64			tag : 40;
	u64			policy : 8;
	u64			state : 8;
};

/**
 * struct calls - the timeouts of a context
 * @pages: pages of entries
 * @nr_pages: how many there are
 * @max_pages: how many there may be
 * @free: free entries
 * @ready: entries that are due, oldest tick first
 */
struct calls {
	void			**pages;
	u32			nr_pages;
	u32			max_pages;
	struct list_head	free;
	struct list_head	ready;
};

static u32 entry_index(const struct entry *e)
{
	/* The number of the page is in its first entry's struct page. */
	return page_private(virt_to_page(e)) * PAGE_ENTRIES + offset_in_page(e) / sizeof(*e);
}

static u64 entry_id(const struct entry *e)
{
	return (u64)e->tag << INDEX_BITS | entry_index(e);
}

/* For others than a read(2) that takes it. */
static bool entry_pending(const struct entry *e)
{
	return e->state != ENTRY_FREE && e->state != ENTRY_ENDING && e->state != ENTRY_DROPPED;
}

static void entry_describe(const struct entry *e, struct hwtimer_query *q)
{
	*q = (struct hwtimer_query){ entry_id(e), e->deadline_ns, e->period_ns, e->user_data };
}

/* The entry of an index, or NULL. */
static struct entry *entry_at(const struct calls *t, u32 index)
{
	u32 page = index / PAGE_ENTRIES;

	if (page >= t->nr_pages)
		return NULL;
	page = array_index_nospec(page, t->nr_pages);
	return (struct entry *)t->pages[page] + index % PAGE_ENTRIES;
}

/* The entry of a pending timeout, or an error. */
static struct entry *entry_find(const struct calls *t, u64 id)
{
	struct entry *e = entry_at(t, id & ((1U << INDEX_BITS) - 1));

	return e && e->tag == id >> INDEX_BITS && entry_pending(e) ? e : ERR_PTR(-ENOENT);
}

static void entry_file(struct context *c, struct entry *e)
{
	u64 tick = context_tick(c, e->deadline_ns);

	e->state = ENTRY_FILED;
	wheel_file(&c->wheel, &e->node, tick);
	/* One whose tick has passed was filed for the next one. */
	hwtimer_context_hurry(c, tick == WHEEL_NEVER ? tick : max(tick, c->wheel.cur));
}

/* Take an entry off the list that it is on. False: a read(2) has it. */
static bool entry_take_out(struct context *c, struct entry *e)
{
	if (e->state == ENTRY_FILED)
		wheel_unfile(&c->wheel, &e->node);
	else if (e->state == ENTRY_READY)
		list_del(&e->node);
	else
		return false;
	return true;
}

/* The timeout has ended. */
static void entry_end(struct context *c, struct entry *e)
{
	struct calls *t = c->data;

	c->stats.pending--;
	e->state = ENTRY_FREE;
	/* An entry that has used up its tags is not used again. */
	if (e->tag++ != LAST_TAG)
		list_add(&e->node, &t->free);
}

static void calls_look(struct context *c, struct list_head *node)
{
	struct entry *e = list_entry(node, struct entry, node);
	u64 tick = context_tick(c, e->deadline_ns);
	struct calls *t = c->data;

	c->stats.looks++;
	/* STOP is emptying the wheel, and nothing is to be filed. */
	if (c->stopped)
		goto ready;
	/* It cascades. It may be due by the clock, but those of earlier ticks come first. */
	if (tick >= c->wheel.cur) {
		wheel_file_again(&c->wheel, node, tick);
		trace_hwtimer_context_look(c->id, entry_id(e), e->deadline_ns, HWTIMER_LOOK_FILED);
		return;
	}
	context_note_late(c, e->deadline_ns);
	trace_hwtimer_context_look(c->id, entry_id(e), e->deadline_ns, HWTIMER_LOOK_DUE);
ready:
	e->state = ENTRY_READY;
	list_add_tail(node, &t->ready);
	c->made++;
}

static void calls_due(struct context *c, u64 last, unsigned int *budget)
{
	struct list_head *node;

	while ((node = wheel_take(&c->wheel, last, budget)))
		calls_look(c, node);
}

static bool calls_unread(const struct context *c)
{
	const struct calls *t = c->data;

	/* A waiter looks without the lock; who adds an entry wakes it afterwards. */
	return !list_empty(&t->ready);
}

static u64 calls_pending(struct context *c)
{
	u64 pending;

	spin_lock(&c->lock);
	pending = c->stats.pending;
	spin_unlock(&c->lock);
	return pending;
}

static int calls_describe(struct context *c, u32 index, struct hwtimer_query *q)
{
	const struct entry *e = entry_at(c->data, index);

	if (!e)
		return -ENOENT;
	entry_describe(e, q);
	return entry_pending(e);
}

/* Hand back all: move it to @ready. */
static int calls_stop(struct context *c)
{
	struct calls *t = c->data;
	unsigned int budget;

	do {
		struct list_head *node;

		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
		budget = CONTEXT_SLICE;
		spin_lock(&c->lock);
		while ((node = wheel_take(&c->wheel, WHEEL_NEVER, &budget))) {
			list_entry(node, struct entry, node)->state = ENTRY_READY;
			list_add_tail(node, &t->ready);
		}
		spin_unlock(&c->lock);
	} while (!budget);
	return 0;
}

static void calls_free(struct context *c)
{
	struct calls *t = c->data;

	hwtimer_memory_pages_free(t->pages, t->nr_pages, c->user);
	kfree(t);
}

const struct context_kind hwtimer_calls_kind = {
	.name		= "calls",
	.due		= calls_due,
	.unread		= calls_unread,
	.pending	= calls_pending,
	.describe	= calls_describe,
	.stop		= calls_stop,
	.free		= calls_free,
};

/**
 * hwtimer_calls_setup - make a context one by calls
 * @c: the context, before SETUP, with @control held
 * @s: what SETUP asks for; out: what it gets
 *
 * Return: 0, -EINVAL, -EPERM or -ENOMEM.
 */
int hwtimer_calls_setup(struct context *c, struct hwtimer_setup *s)
{
	struct calls *t;
	int ret;

	ret = hwtimer_context_shape(c, s);
	if (ret)
		return ret;
	t = kzalloc(sizeof(*t), GFP_MEMORY);
	if (!t) {
		hwtimer_context_unshape(c);
		return -ENOMEM;
	}
	INIT_LIST_HEAD(&t->free);
	INIT_LIST_HEAD(&t->ready);
	s->slots = s->slots ?: DEFAULT_SLOTS;
	c->slots = s->slots;
	c->data = t;
	hwtimer_context_begin(c, &hwtimer_calls_kind);
	return 0;
}

/* Add a page of entries to @free, unless others have been faster: then the caller looks again. */
static int calls_grow(struct context *c)
{
	struct calls *t = c->data;
	u32 max_pages, i;
	struct entry *page;
	LIST_HEAD(entries);
	bool others;
	int ret;

	ret = mutex_lock_killable(&c->control);
	if (ret)
		return ret;
	spin_lock(&c->lock);
	others = !list_empty(&t->free);
	spin_unlock(&c->lock);
	if (others)
		goto unlock;
	ret = -ENOMEM;
	if (t->nr_pages == MAX_PAGES)
		goto unlock;
	if (t->nr_pages == t->max_pages) {
		max_pages = max(16U, 2 * t->max_pages);
		if (hwtimer_context_reserve(c, &t->pages, t->nr_pages, max_pages))
			goto unlock;
		t->max_pages = max_pages;
	}
	page = hwtimer_memory_page(c->user);
	if (!page)
		goto unlock;
	set_page_private(virt_to_page(page), t->nr_pages);
	for (i = 0; i < PAGE_ENTRIES; i++) {
		page[i].tag = 1;
		list_add_tail(&page[i].node, &entries);
	}
	spin_lock(&c->lock);
	t->pages[t->nr_pages++] = page;
	list_splice_tail(&entries, &t->free);
	spin_unlock(&c->lock);
	ret = 0;
unlock:
	mutex_unlock(&c->control);
	return ret;
}

/* @time as a program gives it, as a deadline in ns. */
static u64 calls_deadline(struct context *c, u64 time, u32 flags)
{
	u64 deadline;

	if (!(flags & HWTIMER_RELATIVE) || time == HWTIMER_NEVER)
		return time;
	/* A delay that is too long is never over. */
	if (check_add_overflow(hwtimer_context_now(c), time, &deadline))
		return HWTIMER_NEVER;
	return deadline;
}

/**
 * hwtimer_calls_schedule - SCHEDULE
 * @c: the context
 * @s: what to arm; out: its id
 *
 * Context: A task that may sleep.
 *
 * Return: 0, -EINVAL, -ENOSPC, -ENOMEM, -ESHUTDOWN, or -EINTR: killed.
 */
int hwtimer_calls_schedule(struct context *c, struct hwtimer_schedule *s)
{
	const struct hwtimer_period period = {
		.period_ns = s->period_ns,
		.misfire_ns = s->misfire_ns,
		.policy = s->policy,
	};
	struct calls *t = c->data;
	struct entry *e;
	int ret;

	if (s->flags & ~HWTIMER_RELATIVE || s->policy > HWTIMER_MISFIRE_MAKE_UP ||
	    (!s->period_ns && (s->misfire_ns || s->policy)))
		return -EINVAL;
	if (s->period_ns && hwtimer_period_check(&period, c->tick_ns))
		return -EINVAL;

	spin_lock(&c->lock);
	while (!c->stopped && c->stats.pending < c->slots && list_empty(&t->free)) {
		spin_unlock(&c->lock);
		ret = calls_grow(c);
		if (ret)
			return ret;
		spin_lock(&c->lock);
	}
	if (c->stopped) {
		ret = -ESHUTDOWN;
	} else if (c->stats.pending >= c->slots) {
		ret = -ENOSPC;
	} else {
		e = list_first_entry(&t->free, struct entry, node);
		list_del(&e->node);
		e->deadline_ns = calls_deadline(c, s->time, s->flags);
		e->period_ns = s->period_ns;
		e->misfire_ns = s->misfire_ns;
		e->policy = s->policy;
		e->overruns = 0;
		e->user_data = s->user_data;
		s->id = entry_id(e);
		c->stats.pending++;
		entry_file(c, e);
		ret = 0;
	}
	spin_unlock(&c->lock);
	return ret;
}

/**
 * hwtimer_calls_touch - TOUCH
 * @c: the context
 * @arg: which timeout, and when it is to be due
 *
 * Return: 0, -EINVAL, -ENOENT or -ESHUTDOWN.
 */
int hwtimer_calls_touch(struct context *c, const struct hwtimer_touch *arg)
{
	struct entry *e;
	int ret = 0;

	if (arg->flags & ~HWTIMER_RELATIVE || arg->pad)
		return -EINVAL;
	spin_lock(&c->lock);
	e = entry_find(c->data, arg->id);
	if (IS_ERR(e)) {
		ret = PTR_ERR(e);
	} else if (c->stopped) {
		ret = -ESHUTDOWN;
	} else {
		e->deadline_ns = calls_deadline(c, arg->time, arg->flags);
		if (entry_take_out(c, e))
			entry_file(c, e);
		else
			e->state = ENTRY_MOVED;
	}
	spin_unlock(&c->lock);
	return ret;
}

/**
 * hwtimer_calls_cancel - CANCEL
 * @c: the context
 * @arg: which timeout
 *
 * Return: 0 or -ENOENT.
 */
int hwtimer_calls_cancel(struct context *c, const struct hwtimer_cancel *arg)
{
	struct entry *e;
	int ret = 0;

	spin_lock(&c->lock);
	e = entry_find(c->data, arg->id);
	if (IS_ERR(e)) {
		ret = PTR_ERR(e);
	} else {
		if (entry_take_out(c, e))
			entry_end(c, e);
		else
			e->state = ENTRY_DROPPED;
	}
	spin_unlock(&c->lock);
	return ret;
}

/**
 * hwtimer_calls_query - QUERY
 * @c: the context
 * @q: which timeout; out: what it is like
 *
 * Return: 0 or -ENOENT.
 */
int hwtimer_calls_query(struct context *c, struct hwtimer_query *q)
{
	struct entry *e;
	int ret = 0;

	spin_lock(&c->lock);
	e = entry_find(c->data, q->id);
	if (IS_ERR(e))
		ret = PTR_ERR(e);
	else
		entry_describe(e, q);
	spin_unlock(&c->lock);
	return ret;
}

/**
 * struct taken - an entry whose record is being copied
 * @entry: the entry
 * @ends: the timeout ends with this record
 * @next_ns: otherwise its next deadline
 */
struct taken {
	struct entry	*entry;
	bool		ends;
	u64		next_ns;
};

/* Fill in a record. False: it is a misfire to be skipped. */
static bool record_make(const struct context *c, struct entry *e, struct hwtimer_record *r,
			struct taken *taken)
{
	const struct hwtimer_period period = { e->period_ns, e->misfire_ns, e->policy };
	struct hwtimer_decision d = { .fire = true };

	taken->entry = e;
	taken->ends = !e->period_ns || c->stopped;
	if (!taken->ends)
		d = hwtimer_period_decide(&period, e->deadline_ns, c->now_ns);
	taken->next_ns = d.next_ns;
	*r = (struct hwtimer_record){
		.id = entry_id(e),
		.user_data = e->user_data,
		/* Of several that were missed, the last one. */
		.deadline_ns = e->deadline_ns + d.overruns * e->period_ns,
		.taken_ns = c->now_ns,
		.overruns = e->overruns + d.overruns,
		.kind = c->stopped ? HWTIMER_KIND_HANDED_BACK : HWTIMER_KIND_EXPIRED,
	};
	return d.fire;
}

/* Take up to @n of what is due. *@more: some are left, and perhaps those taken were all skipped. */
static unsigned int records_take(struct context *c, struct hwtimer_record *records,
				 struct taken *taken, unsigned int n, bool *more)
{
	unsigned int i = 0, budget = CONTEXT_SLICE;
	struct calls *t = c->data;

	spin_lock(&c->lock);
	c->now_ns = hwtimer_context_now(c);
	while (i < n && budget && !list_empty(&t->ready)) {
		struct entry *e = list_first_entry(&t->ready, struct entry, node);

		budget--;
		list_del(&e->node);
		if (record_make(c, e, &records[i], &taken[i])) {
			e->state = taken[i].ends ? ENTRY_ENDING : ENTRY_TAKEN;
			i++;
			continue;
		}
		e->overruns = records[i].overruns;
		e->deadline_ns = taken[i].next_ns;
		entry_file(c, e);
	}
	*more = !list_empty(&t->ready);
	spin_unlock(&c->lock);
	return i;
}

/* The first @copied of @n records were copied. */
static void records_settle(struct context *c, const struct taken *taken, unsigned int copied,
			   unsigned int n)
{
	struct calls *t = c->data;
	bool back = false;

	spin_lock(&c->lock);
	c->stats.records += copied;
	/* Backwards, so that those that are due again keep their order. */
	while (n--) {
		struct entry *e = taken[n].entry;

		if (e->state == ENTRY_DROPPED || (n < copied && taken[n].ends)) {
			entry_end(c, e);
			continue;
		}
		if (n < copied) {
			e->overruns = 0;
			if (e->state != ENTRY_MOVED)
				e->deadline_ns = taken[n].next_ns;
		}
		if (!c->stopped && (n < copied || e->state == ENTRY_MOVED)) {
			entry_file(c, e);
			continue;
		}
		e->state = ENTRY_READY;
		list_add(&e->node, &t->ready);
		back = true;
	}
	spin_unlock(&c->lock);
	/* Others may have found nothing meanwhile. */
	if (back)
		wake_up_poll(&c->wait, EPOLLIN | EPOLLRDNORM);
}

/* Copy what is due. Returns the number of bytes, or -EFAULT. */
static ssize_t records_read(struct context *c, struct iov_iter *to)
{
	struct hwtimer_record records[BATCH];
	const size_t size = sizeof(records[0]);
	struct taken taken[BATCH];
	ssize_t done = 0;
	unsigned int n;
	size_t copied;
	bool more;

	while (iov_iter_count(to) >= size) {
		cond_resched();
		n = min_t(size_t, BATCH, iov_iter_count(to) / size);
		n = records_take(c, records, taken, n, &more);
		if (!n && more && !signal_pending(current))
			continue;
		if (!n)
			break;
		copied = copy_to_iter(records, n * size, to);
		records_settle(c, taken, copied / size, n);
		done += copied - copied % size;
		if (copied != n * size)
			return done ?: -EFAULT;
		if (signal_pending(current))
			break;
	}
	return done;
}

/* Nothing will come any more but what is on @ready. */
static bool calls_ended(struct context *c)
{
	/* [smp_load_acquire: as who sees the end finds all that was pending] */
	return smp_load_acquire(&c->ended);
}

/**
 * hwtimer_calls_read - read(2)
 * @c: the context
 * @to: where the records go
 * @block: wait for the first one
 *
 * Return: the number of bytes; 0: the context is stopped, and all is read; -EINVAL, -EFAULT,
 * -EAGAIN or -ERESTARTSYS.
 */
ssize_t hwtimer_calls_read(struct context *c, struct iov_iter *to, bool block)
{
	ssize_t ret;

	if (iov_iter_count(to) < sizeof(struct hwtimer_record))
		return -EINVAL;
	for (;;) {
		bool ended, more;

		/* Who reads may wait for memory of a program, for as long as that likes. */
		if (!block) {
			if (!mutex_trylock(&c->read_lock))
				return -EAGAIN;
		} else if (mutex_lock_interruptible(&c->read_lock)) {
			return -ERESTARTSYS;
		}
		/* Look before reading: after the end nothing comes any more. */
		ended = calls_ended(c);
		do {
			more = hwtimer_context_run(c, true);
			ret = records_read(c, to);
		} while (!ret && more && !signal_pending(current));
		if (more)
			hwtimer_context_leave(c);
		mutex_unlock(&c->read_lock);
		if (ret || ended)
			return ret;
		if (!block)
			return -EAGAIN;
		ret = wait_event_interruptible(c->wait,
					       hwtimer_context_readable(c) || calls_ended(c));
		if (ret)
			return ret;
	}
}
