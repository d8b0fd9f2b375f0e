// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_wheel_random: random operations, compared with a model that is an
 * array of deadlines: the result of each call, which timeouts fire in each pass, their order, the
 * counts, how long the worker may sleep, and which operations must kick it.
 */
#include <kunit/test.h>
#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/prandom.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "hwtimer_kunit.h"
#include "wheel_rig.h"

/* of the current run */
static u64 seed;

#define ENTRIES		96
#define OPERATIONS	200000

struct chaos;

/* A timeout, and its state in the model. */
struct entry {
	struct hwtimer_timeout	t;
	struct chaos		*c;
	unsigned int		index;
	bool			armed;
	bool			dead;
	/* released, not yet reported */
	bool			leaving;
	/* the wheel drops it by the end of the next pass */
	bool			detached;
	/* the last deadline, or U64_MAX if none since it fired */
	u64			deadline;
	/* the pass in which it was last requested: the next one handles it */
	u64			asked;
	/* does not fire at an earlier tick */
	u64			from;
	/* rank in the order of arming, or 0 if unspecified: filed already, or moved since */
	u64			order;
};

struct chaos {
	struct rig		*rig;
	struct rnd_state	rnd;
	u64			seed;
	struct entry		*entries[ENTRIES];
	struct entry		*running;
	unsigned long		done;
	bool			failed;

	u64			tick_ns;
	unsigned int		slots;
	unsigned long		cap;
	unsigned long		pending;
	unsigned long		armed;
	unsigned long		touched;
	unsigned long		cancelled;
	unsigned long		expired;
	unsigned long		rejected;
	u64			order;
	/* sum of @pending over all passes */
	u64			sum;
	/* the first tick that is not over */
	u64			cur;

	/* requests were made since the last pass began; number of unreported releases */
	bool			requests;
	unsigned long		leaving;
	/*
	 * The budget may have ended with only releases left to report. Then the worker may have
	 * handled requests that were made since the pass began.
	 */
	bool			extra;
	/* as of the last sleep */
	unsigned long		armed_seen;
	unsigned long		drained_seen;
	/* its end, if arms for later deadlines did not end it, and how long it was to last */
	u64			planned;
	u64			length;
	bool			asleep;
	u64			until;
	u64			kick_below;
	unsigned int		kicks;

	/* the current pass, or the last one */
	bool			passing;
	bool			sliced;
	u64			pass;
	u64			from;
	u64			target;
	u64			last_tick;
	u64			last_order;
};

static const struct geometry {
	const char	*desc;
	u64		tick_ns;
	unsigned int	slots;
	unsigned long	cap;
	bool		old;
	unsigned int	levels;
} geometries[] = {
	{ "1 ms, 64 slots", NSEC_PER_MSEC, 64, 0, false, 1 },
	{ "1 ms, 64 slots, cap 20", NSEC_PER_MSEC, 64, 20, false, 1 },
	{ "1 ms, 1 slot", NSEC_PER_MSEC, 1, 0, false, 1 },
	{ "1 ms, 2 slots, cap 1", NSEC_PER_MSEC, 2, 1, false, 1 },
	{ "1 ns, 8 slots", 1, 8, 0, false, 1 },
	{ "3 ns, 256 slots", 3, 256, 0, false, 1 },
	{ "999983 ns, 16 slots, cap 60", 999983, 16, 60, false, 1 },
	{ "300 ms, 512 slots", 300 * NSEC_PER_MSEC, 512, 0, false, 1 },
	{ "1 h, 4 slots", HOUR, 4, 0, false, 1 },
	{ "1000 ns, 32 slots, near its end", 1000, 32, 70, true, 1 },
	{ "1 ms, 2 levels of 8", NSEC_PER_MSEC, 8, 0, false, 2 },
	{ "1 ms, 3 levels of 4, cap 20", NSEC_PER_MSEC, 4, 20, false, 3 },
	{ "1 ms, 4 levels of 64", NSEC_PER_MSEC, 64, 0, false, 4 },
	{ "1 ns, 16 levels of 4", 1, 4, 0, false, 16 },
	{ "3 ns, 7 levels of 256", 3, 256, 0, false, 7 },
	{ "1000 ns, 4 levels of 32, near its end", 1000, 32, 70, true, 4 },
	{ "1 h, 3 levels of 4", HOUR, 4, 0, false, 3 },
	{ "1 ms, all levels of 64", NSEC_PER_MSEC, 64, 0, false, 0 },
	{ "1 ms, all levels of 2, cap 30", NSEC_PER_MSEC, 2, 30, false, 0 },
	{ "1 ns, all levels of 8", 1, 8, 0, false, 0 },
	{ "1000 ns, all levels of 32, near its end", 1000, 32, 0, true, 0 },
};

static void agree(struct chaos *c, bool holds, const char *what)
{
	if (c->failed || holds)
		return;
	c->failed = true;
	KUNIT_FAIL(c->rig->test, "%s: operation %lu, pass %llu, now %llu", what, c->done,
		   c->pass, c->rig->now);
}

static u32 below(struct chaos *c, u32 n)
{
	return prandom_u32_state(&c->rnd) % n;
}

static u64 below64(struct chaos *c, u64 n)
{
	u64 r = (u64)prandom_u32_state(&c->rnd) << 32, rem;

	r |= prandom_u32_state(&c->rnd);
	div64_u64_rem(r, n, &rem);
	return rem;
}

static u64 tick_of(struct chaos *c, u64 deadline)
{
	u64 rem, tick = div64_u64_rem(deadline, c->tick_ns, &rem);

	return rem ? tick + 1 : tick;
}

/* Must the timeout fire in this pass, unless it is ended or moved? */
static bool due(struct chaos *c, const struct entry *e)
{
	return e->armed && c->target >= c->from && e->asked != c->pass &&
	       max(tick_of(c, e->deadline), e->from) <= c->target;
}

static struct entry *some_entry(struct chaos *c)
{
	return c->entries[below(c, ENTRIES)];
}

static u64 some_deadline(struct chaos *c)
{
	u64 now = c->rig->now, round = c->tick_ns * c->slots;

	switch (below(c, 16)) {
	case 0:
		return 0;
	case 1:
		return now - min(now, below64(c, 3 * c->tick_ns));
	case 2:
		return below(c, 2) ? U64_MAX : HWTIMER_HORIZON - below64(c, 2 * c->tick_ns);
	case 3:
	case 4:
		/* near a boundary */
		return (c->cur + below64(c, 2 * c->slots)) * c->tick_ns + below(c, 3) - 1;
	case 5 ... 9:
		return now + below64(c, 4 * c->tick_ns);
	case 10 ... 14:
		return now + below64(c, 2 * round);
	default:
		return now + below64(c, 50 * round);
	}
}

static void expect_kick(struct chaos *c, u64 deadline)
{
	if (c->asleep && deadline < c->kick_below) {
		c->kick_below = 0;
		c->kicks++;
	}
}

static void ask(struct chaos *c, struct entry *e)
{
	c->requests = true;
	if (c->passing)
		e->asked = c->pass;
}

static void chaos_arm(struct chaos *c, struct entry *e, u64 deadline, bool touch)
{
	bool held = e->deadline != U64_MAX && queue_holds(&e->t), asks;
	int want, ret;

	ret = touch ? queue_touch(&e->t, deadline) : queue_arm(&e->t, deadline);

	if (e->armed)
		want = touch ? 0 : 1;
	else if (e->dead)
		want = -ESHUTDOWN;
	else if (touch)
		want = -ENOENT;
	else if (c->cap && c->pending == c->cap)
		want = -EAGAIN;
	else
		want = 0;
	agree(c, ret == want, touch ? "touch returns" : "arm returns");
	if (want == -EAGAIN)
		c->rejected++;
	if (want < 0)
		return;

	deadline = min(deadline, HWTIMER_HORIZON);
	asks = deadline < e->deadline || (!e->armed && !held);
	if (asks)
		ask(c, e);
	if (asks || !e->armed)
		expect_kick(c, deadline);
	if (e->armed) {
		c->touched++;
		e->order = 0;
	} else {
		c->armed++;
		c->pending++;
		e->order = held ? 0 : ++c->order;
	}
	e->armed = true;
	e->detached = false;
	e->deadline = deadline;
	agree(c, queue_deadline(&e->t) == deadline, "deadline");
}

static void chaos_end(struct chaos *c, struct entry *e, bool kill)
{
	bool ret = kill ? queue_timeout_shutdown(&e->t) : queue_cancel(&e->t);

	agree(c, ret == e->armed, kill ? "kill returns" : "cancel returns");
	if (e->armed) {
		c->cancelled++;
		c->pending--;
	}
	e->armed = false;
	e->dead |= kill;
}

static void chaos_detach(struct chaos *c, struct entry *e)
{
	if (e->armed || e == c->running)
		return;
	if (queue_holds(&e->t)) {
		if (!e->leaving)
			ask(c, e);
		expect_kick(c, 0);
		e->detached = true;
	}
	queue_detach(&e->t);
}

static void chaos_fired(struct hwtimer_timeout *t);
static void chaos_drain(struct chaos *c);

static struct entry *new_entry(struct chaos *c, unsigned int i)
{
	struct entry *e = kzalloc(sizeof(*e), GFP_KERNEL);

	if (!e) {
		agree(c, false, "memory");
		return NULL;
	}
	e->c = c;
	e->index = i;
	e->deadline = U64_MAX;
	queue_timeout_init(&e->t, &c->rig->wheel, chaos_fired);
	return e;
}

/* Put a new timeout in the place of this one and poison the old one. */
static void chaos_released(struct hwtimer_timeout *t)
{
	struct entry *e = container_of(t, struct entry, t), *fresh;
	struct chaos *c = e->c;

	agree(c, e->leaving && !e->armed, "released");
	agree(c, e != c->running, "released while running");
	c->leaving--;
	c->extra = c->sliced;
	fresh = new_entry(c, e->index);
	if (!fresh)
		return;
	c->entries[e->index] = fresh;
	memset(e, 0x6b, sizeof(*e));
	kfree(e);
	if (below(c, 4) == 0)
		chaos_drain(c);
}

static void chaos_release(struct chaos *c, struct entry *e)
{
	bool ret;

	if (e->leaving)
		return;
	ret = queue_release(&e->t, chaos_released);
	agree(c, ret == e->armed, "release returns");
	if (e->armed) {
		c->cancelled++;
		c->pending--;
	}
	e->armed = false;
	e->dead = true;
	e->leaving = true;
	c->leaving++;
	/* Reported in the next pass, or at the end of this one. */
	if (c->passing)
		e->asked = c->pass;
	expect_kick(c, HWTIMER_HORIZON);
}

static void chaos_reinit(struct chaos *c, struct entry *e)
{
	if (e->armed || e->leaving || e == c->running || queue_holds(&e->t))
		return;
	memset(&e->t, 0x6b, sizeof(e->t));
	queue_timeout_init(&e->t, &c->rig->wheel, chaos_fired);
	e->dead = false;
	e->deadline = U64_MAX;
}

/* One operation of a producer on @e, or if it is NULL on any timeout. */
static void chaos_produce(struct chaos *c, struct entry *e)
{
	unsigned long requests = backlog(c->rig, false), releases = backlog(c->rig, true);

	c->done++;
	e = e ?: some_entry(c);
	switch (below(c, 32)) {
	case 0 ... 12:
		chaos_arm(c, e, some_deadline(c), false);
		break;
	case 13 ... 21:
		chaos_arm(c, e, some_deadline(c), true);
		break;
	case 22 ... 26:
		chaos_end(c, e, false);
		break;
	case 27 ... 28:
		chaos_detach(c, e);
		break;
	case 29:
		chaos_reinit(c, e);
		break;
	case 30:
		if (below(c, 4) == 0)
			chaos_end(c, e, true);
		else
			chaos_reinit(c, e);
		break;
	case 31:
		if (below(c, 2))
			chaos_release(c, e);
		break;
	}
	if ((backlog(c->rig, false) != requests && !(backlog(c->rig, false) % QUEUE_DEPTH)) ||
	    (backlog(c->rig, true) != releases && !(backlog(c->rig, true) % QUEUE_DEPTH)))
		expect_kick(c, 0);
	agree(c, c->rig->kicks == c->kicks, "kicks");
}

/* Between slices, maybe of the drain: only operations that push no request. */
static void chaos_meddle(struct chaos *c)
{
	struct entry *e = some_entry(c);
	u64 deadline = some_deadline(c);

	c->done++;
	if (below(c, 2))
		chaos_end(c, e, false);
	else if (e->armed && deadline >= e->deadline)
		chaos_arm(c, e, deadline, true);
}

/* All requests so far have been handled. */
static void chaos_drained(struct chaos *c)
{
	struct entry *e;
	unsigned int i;

	c->requests = false;
	for (i = 0; i < ENTRIES; i++) {
		e = c->entries[i];
		if (e->asked != c->pass || e->leaving)
			continue;
		e->asked = 0;
		/* if due, it was filed for the next tick */
		e->from = c->rig->wheel.wheel.cur;
	}
}

/* Like waiting inside a callback does. */
static void chaos_drain(struct chaos *c)
{
	c->done++;
	queue_drain_all(&c->rig->wheel);
	chaos_drained(c);
}

static void chaos_fired(struct hwtimer_timeout *t)
{
	struct entry *e = container_of(t, struct entry, t);
	struct chaos *c = e->c;
	u64 tick = max3(tick_of(c, e->deadline), c->from, e->from);
	unsigned int n;

	agree(c, c->passing && due(c, e), "fired");
	agree(c, !queue_pending(t), "pending in its callback");
	agree(c, queue_deadline(t) == e->deadline, "deadline in its callback");
	agree(c, tick >= c->last_tick, "order of ticks");
	if (tick != c->last_tick)
		c->last_order = 0;
	c->last_tick = tick;
	/* With more levels, timeouts for one tick may come down from several of them. */
	if (e->order && c->rig->wheel.wheel.levels == 1) {
		agree(c, e->order > c->last_order, "order of arming");
		c->last_order = e->order;
	}

	e->armed = false;
	c->pending--;
	c->expired++;
	/* The timeout is no longer pending when its callback begins. */
	agree(c, counts(c->rig).pending == c->pending, "count of pending in a callback");
	e->deadline = U64_MAX;
	c->running = e;
	if (below(c, 4) == 0)
		chaos_produce(c, e);
	for (n = below(c, 4); n; n--)
		chaos_produce(c, NULL);
	/* With one slot, the next tick would be in the bucket that is being visited. */
	if (c->slots > 1 && below(c, 8) == 0)
		chaos_drain(c);
	c->running = NULL;
}

static u64 some_step(struct chaos *c)
{
	u64 round = c->tick_ns * c->slots;

	switch (below(c, 16)) {
	case 0:
		return 0;
	case 1 ... 3:
		return below64(c, c->tick_ns);
	case 4 ... 12:
		return below64(c, 3 * c->tick_ns);
	case 13:
		return below64(c, round);
	case 14:
		return below64(c, 3 * round);
	default:
		if (c->rig->now > HWTIMER_HORIZON / 2 || below(c, 8))
			return c->tick_ns;
		return below64(c, 40 * round);
	}
}

static void chaos_check(struct chaos *c)
{
	struct queue_counts now = counts(c->rig);
	struct entry *e;
	unsigned int i;

	agree(c, now.pending == c->pending, "count of pending");
	agree(c, now.armed == c->armed, "count of armed");
	agree(c, now.touched == c->touched, "count of touched");
	agree(c, now.cancelled == c->cancelled, "count of cancelled");
	agree(c, now.expired == c->expired, "count of expired");
	agree(c, now.rejected == c->rejected, "count of rejected");
	agree(c, !c->cap || places_taken(c->rig->wheel.places) == c->pending, "places");
	for (i = 0; i < ENTRIES; i++) {
		e = c->entries[i];
		agree(c, !due(c, e), "lost: has not fired");
		agree(c, queue_pending(&e->t) == e->armed, "pending");
		if (e->asked == c->pass)
			continue;
		agree(c, !e->leaving, "its release was not reported");
		agree(c, !e->detached || !queue_holds(&e->t), "is held after detach");
		e->detached = false;
	}
}

/* Check the data of a bucket, and that its timeouts belong there. */
static unsigned int chaos_check_bucket(struct chaos *c, unsigned int level, unsigned int i)
{
	struct wheel *w = &c->rig->wheel.wheel;
	struct wheel_level *l = &w->level[level];
	u64 now = c->cur >> l->shift, slot = now + ((i - now) & ((1ULL << l->bits) - 1));
	struct wheel_bucket *b = &l->buckets[i];
	struct hwtimer_timeout *t;
	unsigned int n = 0;
	u64 tick, first;

	agree(c, test_bit(i, l->occupied) == !list_empty(&b->nodes), "bitmap");
	list_for_each_entry(t, &b->nodes, node) {
		n++;
		if (!queue_pending(t))
			continue;
		tick = max(tick_of(c, queue_deadline(t)), c->cur);
		/* It may have been pushed back since, or be for a later round of the top level. */
		agree(c, tick >> l->shift >= slot || level == w->levels - 1, "slot of a tick");
		agree(c, b->next <= tick && b->next >= c->cur, "first tick of a bucket");
	}
	agree(c, n <= b->count && !n == !b->count, "count of a bucket");
	/* A full bucket cascades in steps. */
	first = b->next - (n ? min_t(u64, (b->count - 1) / w->step, l->lead) : 0);
	agree(c, !n || first >= l->next || (w->scanning && level == w->levels - 1),
	      "first tick of a level");
	if (!l->lead || level != w->levels - 1)
		return n;
	agree(c, n || list_empty(&w->later[i].nodes), "later rounds of an empty bucket");
	list_for_each_entry(t, &w->later[i].nodes, node) {
		n++;
		if (!queue_pending(t))
			continue;
		tick = tick_of(c, queue_deadline(t));
		agree(c, w->later[i].next <= tick, "first tick of later rounds");
		agree(c, tick >> l->shift > b->next >> l->shift, "later rounds");
	}
	return n;
}

/* Valid only when there are no requests. */
static void chaos_check_buckets(struct chaos *c)
{
	struct hwtimer_wheel *w = &c->rig->wheel;
	unsigned long filed = 0;
	unsigned int level, i;
	struct list_head *pos;

	agree(c, w->wheel.visited == WHEEL_NO_BUCKET && !w->drain.taken && !w->drain.nr_pushed,
	      "at rest");
	for (level = 0; level < w->wheel.levels; level++)
		for (i = 0; i < c->slots; i++)
			filed += chaos_check_bucket(c, level, i);
	list_for_each(pos, &w->wheel.level[level].buckets->nodes)
		filed++;
	agree(c, w->wheel.filed == filed, "count of filed");
}

static void chaos_advance(struct chaos *c, u64 now)
{
	struct rig *rig = c->rig;
	unsigned int budget = below(c, 4) ? QUEUE_BUDGET : 1 + below(c, 8), n;

	c->done++;
	c->sum += c->pending;
	if (c->asleep)
		queue_awake(&rig->wheel);
	c->asleep = false;
	/* The wheel's range ends after the last tick. */
	now = min(now, HWTIMER_HORIZON - 1);
	rig->now = now;
	c->pass++;
	c->passing = true;
	c->requests = false;
	c->extra = false;
	c->sliced = false;
	c->from = c->cur;
	c->target = div64_u64(min(now, HWTIMER_HORIZON - 1), c->tick_ns);
	c->last_tick = 0;
	c->last_order = 0;
	while (!c->failed && queue_advance(&rig->wheel, now, budget)) {
		c->sliced = true;
		for (n = below(c, 3); n; n--)
			chaos_meddle(c);
	}
	c->cur = max(c->cur, c->target + 1);
	chaos_check(c);
	c->passing = false;
	if (!c->requests && !c->leaving && below(c, 16) == 0)
		chaos_check_buckets(c);
}

static void chaos_sleep(struct chaos *c)
{
	u64 now = c->rig->now, until, boundary;
	bool busy = c->armed != c->armed_seen || counts(c->rig).drained != c->drained_seen;
	unsigned int i;

	if (!c->pending && c->planned && now >= c->planned && c->length >= QUEUE_SPELL_NS)
		busy = false;
	c->done++;
	until = sleep_until(c->rig);
	if (!until) {
		agree(c, !busy && (c->requests || c->leaving), "does not sleep");
		return;
	}
	/* Also if something filed is due soon. */
	busy |= atomic64_read(&c->rig->wheel.kick_below) != U64_MAX;
	agree(c, busy || ((!c->requests || c->extra) && !c->leaving), "sleeps over requests");
	if (busy)
		chaos_drained(c);
	c->armed_seen = c->armed;
	c->drained_seen = counts(c->rig).drained;
	c->kick_below = atomic64_read(&c->rig->wheel.kick_below);
	agree(c, (until == QUEUE_IDLE) == (!busy && !c->pending), "idle");
	c->asleep = true;
	c->until = until;
	c->planned = busy ? until : 0;
	c->length = until - now;
	/* The limit of the sleep, unless each arming kicks the worker. */
	agree(c, c->kick_below == U64_MAX ||
	      until <= min(now, HWTIMER_HORIZON) + QUEUE_DRAIN_NS + c->tick_ns, "sleeps too long");
	if (until == QUEUE_IDLE)
		return;
	agree(c, until > now, "sleeps into the past");
	/* An arming due at a boundary before the worker wakes must kick the worker. */
	boundary = div64_u64(until - 1, c->tick_ns);
	agree(c, c->kick_below > boundary * c->tick_ns || boundary < c->cur,
	      "is not to be kicked in time");
	for (i = 0; i < ENTRIES; i++) {
		struct entry *e = c->entries[i];

		if (!e->armed)
			continue;
		boundary = max(tick_of(c, e->deadline), c->cur) * c->tick_ns;
		if (e->deadline == HWTIMER_HORIZON)
			continue;
		agree(c, boundary >= until, "sleeps too late");
	}
}

static void chaos_stop(struct chaos *c)
{
	struct hwtimer_timeout *t, *next;
	struct list_head pending;
	struct entry *e;
	unsigned int n;

	c->pass++;
	n = rig_stop(c->rig, &pending);
	agree(c, n == c->pending, "number handed back");
	list_for_each_entry_safe(t, next, &pending, node) {
		e = container_of(t, struct entry, t);
		agree(c, e->armed, "handed back what is not pending, or twice");
		e->armed = false;
	}
	for (n = 0; n < ENTRIES; n++) {
		e = c->entries[n];
		agree(c, !e->armed && !queue_holds(&e->t) && !e->leaving, "left behind");
		kfree(e);
	}
}

KUNIT_ARRAY_PARAM_DESC(geometry, geometries, desc);

/* A step of the worker or of a producer. */
static void chaos_step(struct chaos *c)
{
	u64 now = c->rig->now;

	switch (below(c, 16)) {
	case 0 ... 1:
		chaos_advance(c, now + some_step(c));
		break;
	case 2:
		/* sleep like the kthread, but not to the end of time */
		if (c->asleep && c->until - now < (HWTIMER_HORIZON - now) / 4)
			chaos_advance(c, max(c->until, now));
		else
			chaos_advance(c, now);
		if (below(c, 2))
			chaos_sleep(c);
		break;
	case 3:
		if (!c->asleep)
			chaos_sleep(c);
		break;
	default:
		chaos_produce(c, NULL);
	}
}

/* Promises 1, 2, 4, 5, 7 and 9. */
static void chaos(struct kunit *test)
{
	const struct geometry *g = test->param_value;
	struct rig *rig = test->priv;
	struct chaos *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	const struct hwtimer_wheel_params shape = {
		.tick_ns = g->tick_ns, .slots = g->slots, .levels = g->levels,
		.cap = g->cap,
	};
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, c);
	rig_end(rig);
	rig_set_up(rig, &shape);
	/* The larger wheels cascade in steps, too. */
	rig->wheel.wheel.step = 1 << (g - geometries) % 3;
	c->rig = rig;
	c->tick_ns = g->tick_ns;
	c->slots = g->slots;
	c->cap = g->cap;
	c->cur = 1;
	/* The worker of a new wheel sleeps, and the first arming kicks it. */
	c->asleep = true;
	c->kick_below = U64_MAX;
	c->until = QUEUE_IDLE;
	/* A seed gives the same run for each geometry, whichever are run. */
	prandom_seed_state(&c->rnd, seed + (g - geometries));
	for (i = 0; i < ENTRIES; i++) {
		c->entries[i] = new_entry(c, i);
		KUNIT_ASSERT_NOT_NULL(test, c->entries[i]);
	}
	if (g->old)
		chaos_advance(c, HWTIMER_HORIZON - 3000 * g->tick_ns * g->slots);

	while (c->done < OPERATIONS && !c->failed) {
		chaos_step(c);
		if (!(c->done % 64))
			cond_resched();
	}
	kunit_info(test, "seed %llu, %lu operations, %llu passes: %lu armed, %lu touched, %lu cancelled, %lu expired, %lu rejected, %llu pending on average\n",
		   seed, c->done, c->pass, c->armed, c->touched, c->cancelled,
		   c->expired, c->rejected, div64_u64(c->sum, c->pass));
	chaos_stop(c);
	KUNIT_EXPECT_GT(test, c->armed, 100);
	KUNIT_EXPECT_GT(test, c->expired, 100);
	KUNIT_EXPECT_GT(test, c->touched, 100);
	KUNIT_EXPECT_GT(test, c->cancelled, 100);
}

static int chaos_suite_init(struct kunit_suite *suite)
{
	seed = hwtimer_kunit_seed();
	return 0;
}

WHEEL_SUITE(random, chaos_suite_init, "random",
	KUNIT_CASE_PARAM(chaos, geometry_gen_params));
