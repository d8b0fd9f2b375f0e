// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_torture: timeouts, all operations on them, and the counts that are kept for each.
 *
 * Most things are in the table of a bench, where producers and callbacks find them under RCU and
 * use them concurrently. Only the task that takes a thing out of the table may wait for it or
 * release it; the thing is freed a grace period later. Private things and those that free
 * themselves are known to their maker only and freed at once: if a wheel reads them again, it reads
 * poison, which KASAN reports.
 *
 * @open counts the armings of a plain timeout that have not ended, and is 0 when it is freed. It
 * may be negative meanwhile, as an arming is counted after it has succeeded. An arming of a work
 * item ends by a run or a stop. Armings of an item that are still open when it is freed must have
 * been cancelled: at least one for each call that reported a cancel, and none without such a call.
 *
 * No operation arms a thing for a deadline before its @floor, so no callback may run before. A
 * @once thing is armed and touched by its maker only, which moves @earliest with the deadline.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/poison.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>

#include "torture.h"

#define MAGIC		0x7431c4e5
/* so many things are released before a barrier */
#define BATCH		8

DEFINE_PER_CPU(struct counts, torture_counts);

/**
 * struct thing - a timeout
 * @t: of any kind, as it is the first member of the others
 * @work: WORK
 * @bench: its bench
 * @magic: MAGIC until it is freed
 * @kind: its kind. Constant
 * @private: only its maker ends it. Constant
 * @once: only its maker arms it, once, and touches it. Constant
 * @kept: freed by its maker, not by the released callback. Constant
 * @i: index in the table, unless private. Constant
 * @floor: no deadline is earlier. Constant
 * @earliest: no callback may run earlier
 * @gone: being ended for good: arming may fail
 * @ended: its callback must not be called any more
 * @released: its released callback was called
 * @running: its callback runs
 * @open: armings that have not ended
 * @unsure: calls that reported ending one or more armings of an item
 * @lost: its lateness has been reported
 * @random: random numbers of its runs, if it is a work item
 * @grave: entry of the bench's @graves
 * @rcu: frees it
 */
struct thing {
	union {
		struct hwtimer_timeout	t;
		struct hwtimer_work	work;
	};
	struct bench		*bench;
	u32			magic;
	enum torture_kind		kind;
	bool			private;
	bool			once;
	bool			kept;
	unsigned int		i;
	u64			floor;
	atomic64_t		earliest;
	bool			gone;
	bool			ended;
	int			released;
	int			running;
	atomic_t		open;
	atomic_t		unsure;
	bool			lost;
	struct rnd_state	random;
	struct llist_node	grave;
	struct rcu_head		rcu;
};

static const char *const kinds[] = { "timeout", "work" };

static struct thing *thing_of(struct hwtimer_timeout *t)
{
	return container_of(t, struct thing, t);
}

static __printf(2, 3) void accuse(const struct thing *thing, const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	va_start(args, fmt);
	vaf.va = &args;
	torture_fail("%s, wheel %u: %s%s %p: %pV", thing->bench->name,
		     READ_ONCE(thing->bench->wheels), thing->private ? "private " : "",
		     kinds[thing->kind], thing, &vaf);
	va_end(args);
}

static u64 now(const struct bench *b)
{
	return hwtimer_wheel_now(b->wheel);
}

/* Delay, so that other operations come in between. */
static void dawdle(enum torture_context context, struct rnd_state *random)
{
	u32 us = below(random, 200);

	if (context == CALLBACK || context == RUN || context == PROCESS)
		usleep_range(us, us + 50);
	else
		udelay(us / 2);
}

/* Free a thing that no other task can reach any more. */
static void bury(struct thing *thing)
{
	struct bench *b = thing->bench;
	int left = atomic_read(&thing->open), unsure = atomic_read(&thing->unsure);

	if (thing->running)
		accuse(thing, "freed while its callback runs");
	/* Nobody has noted what the release of a private thing returned. */
	if (thing->private && thing->released) {
		if (thing->kind == PLAIN) {
			this_cpu_add(torture_counts.ended, left);
			this_cpu_add(torture_counts.cancelled, left);
			unsure = left == 1;
		} else {
			unsure = min(unsure + 1, left);
		}
	}
	if (left < unsure || (left && !unsure))
		accuse(thing, "%d armings have not ended, %d calls reported a cancel", left,
		       unsure);
	memset(thing, POISON_FREE, sizeof(*thing));
	kfree(thing);
	atomic_dec(&b->alive);
}

/* Free the thing, or leave that to the keeper if the thing may be on the list of a stop. */
static void lay_down(struct thing *thing)
{
	struct bench *b = thing->bench;

	if (READ_ONCE(b->stopping))
		llist_add(&thing->grave, &b->graves);
	else
		bury(thing);
}

static void lay_down_rcu(struct rcu_head *rcu)
{
	lay_down(container_of(rcu, struct thing, rcu));
}

/* Callbacks. */

static bool enter(struct thing *thing)
{
	u64 t = now(thing->bench), earliest;

	if (READ_ONCE(thing->magic) != MAGIC) {
		torture_fail("a callback of what was freed: %p", thing);
		return false;
	}
	if (READ_ONCE(thing->ended))
		accuse(thing, "a callback after its end");
	if (xchg(&thing->running, 1))
		accuse(thing, "two callbacks at a time");
	if (thing->kind != WORK && xchg(&thing->bench->calling, 1))
		accuse(thing, "two callbacks of a wheel at a time");
	earliest = atomic64_read(&thing->earliest);
	if (t < earliest)
		accuse(thing, "early by %llu ns", earliest - t);
	return true;
}

static void leave(struct thing *thing)
{
	if (thing->kind != WORK) {
		if (READ_ONCE(thing->bench->stopped))
			accuse(thing, "its callback runs although its wheel was stopped");
		WRITE_ONCE(thing->bench->calling, 0);
	}
	WRITE_ONCE(thing->running, 0);
}

static void in_callback(struct thing *self, enum torture_context context, struct rnd_state *random)
{
	struct bench *b = self->bench;

	if (READ_ONCE(b->quiet))
		return;
	switch (below(random, 8)) {
	case 0:
		/* a run delays no other callbacks */
		if (context == RUN || !below(random, b->rare))
			dawdle(context, random);
		break;
	case 1 ... 4:
		torture_step(b, context, random, self);
		break;
	}
}

static void plain_expired(struct hwtimer_timeout *t)
{
	struct thing *thing = thing_of(t);

	if (!enter(thing))
		return;
	tally(expired);
	atomic_long_inc(&thing->bench->expired);
	atomic_dec(&thing->open);
	in_callback(thing, CALLBACK, &thing->bench->random);
	leave(thing);
}

static void work_runs(struct hwtimer_work *work)
{
	struct thing *thing = thing_of(&work->timeout);

	if (!enter(thing))
		return;
	tally(runs);
	atomic_long_inc(&thing->bench->runs);
	atomic_dec(&thing->open);
	in_callback(thing, RUN, &thing->random);
	leave(thing);
}

/* Callback of a thing that frees itself; its deadline is @floor. */
static void forgotten_expired(struct hwtimer_timeout *t)
{
	struct thing *thing = thing_of(t);
	struct bench *b = thing->bench;
	struct counts *counts;
	u64 late = now(b) - thing->floor;

	if (!enter(thing))
		return;
	tally(expired);
	atomic_long_inc(&b->expired);
	counts = get_cpu_ptr(&torture_counts);
	counts->late_ns = max(counts->late_ns, late);
	put_cpu_ptr(&torture_counts);
	leave(thing);
	bury(thing);
	atomic_dec(&b->forgotten);
}

static void thing_released(struct thing *thing)
{
	if (READ_ONCE(thing->magic) != MAGIC) {
		torture_fail("a release of what was freed: %p", thing);
		return;
	}
	if (xchg(&thing->released, 1))
		accuse(thing, "released twice");
	if (READ_ONCE(thing->running))
		accuse(thing, "released while its callback runs");
	WRITE_ONCE(thing->ended, true);
	tally(released);
	if (thing->kept)
		return;
	if (thing->private)
		lay_down(thing);
	else
		call_rcu(&thing->rcu, lay_down_rcu);
}

static void timeout_released(struct hwtimer_timeout *t)
{
	thing_released(thing_of(t));
}

static void work_released(struct hwtimer_work *work)
{
	thing_released(thing_of(&work->timeout));
}

/* Operations on a thing. */

/* Allocate a thing, with @gfp suitable for the context. */
static struct thing *make(struct bench *b, struct rnd_state *random, enum torture_kind kind,
			  gfp_t gfp)
{
	struct thing *thing = kzalloc(sizeof(*thing), gfp);

	if (!thing)
		return NULL;
	thing->bench = b;
	thing->magic = MAGIC;
	thing->kind = kind;
	thing->floor = now(b) + (below(random, 4) ? below(random, 2 * b->near_ns) : 0);
	atomic64_set(&thing->earliest, thing->floor);
	atomic_inc(&b->alive);
	if (kind == WORK) {
		prandom_seed_state(&thing->random, prandom_u32_state(random));
		hwtimer_work_init(&thing->work, b->wheel, torture_wq, work_runs);
	} else {
		hwtimer_init(&thing->t, b->wheel, plain_expired);
	}
	return thing;
}

static enum torture_kind choose_kind(struct rnd_state *random)
{
	return below(random, 4) ? PLAIN : WORK;
}

static void fill(struct bench *b, struct rnd_state *random, unsigned int i)
{
	struct thing *thing = make(b, random, choose_kind(random), GFP_KERNEL);

	if (!thing)
		return;
	thing->i = i;
	if (cmpxchg(&b->table[i], NULL, RCU_INITIALIZER(thing)))
		bury(thing);
}

/* Take the thing out of the table. Returns false if another task has done so. */
static bool take(struct thing *thing)
{
	return cmpxchg(&thing->bench->table[thing->i], RCU_INITIALIZER(thing), NULL) ==
	       RCU_INITIALIZER(thing);
}

static u64 choose_deadline(const struct thing *thing, struct rnd_state *random)
{
	const struct bench *b = thing->bench;
	u64 t = now(b);
	u32 dice = below(random, 64);

	if (!dice)
		return U64_MAX;
	if (dice < b->far)
		return t + FAR + prandom_u32_state(random) * 128ULL;
	if (dice % 8 == 0)
		return max(t - MS, thing->floor);
	return max(t, thing->floor) + below(random, dice % 8 == 1 ? 1000 : b->near_ns);
}

/* A random deadline as a delay, which makes it a little later. */
static s64 choose_delay(const struct thing *thing, struct rnd_state *random)
{
	u64 deadline = choose_deadline(thing, random);

	return deadline == U64_MAX ? S64_MAX : deadline - now(thing->bench);
}

/* Count an arming, or check its error, after schedule, touch or forward returned @ret. */
static void armed(struct thing *thing, int ret, bool touched)
{
	switch (ret) {
	case 0:
	case 1:
		if (ret || touched) {
			tally(rearmed);
			return;
		}
		if (thing->kind == PLAIN)
			tally(armed);
		atomic_inc(&thing->open);
		return;
	case -EAGAIN:
		tally(rejected);
		if (!thing->bench->cap || touched)
			accuse(thing, "refused for a cap, and there is none");
		return;
	case -ENOENT:
		if (!touched)
			accuse(thing, "arming returned -ENOENT");
		return;
	case -ESHUTDOWN:
		/* read @gone and @stopping after the result of the arming */
		smp_rmb();
		if (!READ_ONCE(thing->gone) && !READ_ONCE(thing->bench->stopping))
			accuse(thing, "arming failed, and it is not being ended");
		return;
	default:
		accuse(thing, "arming returned %d", ret);
	}
}

static void query(const struct thing *thing)
{
	struct hwtimer_wheel *wheel = thing->bench->wheel;
	u64 t = now(thing->bench);

	hwtimer_deadline(&thing->t);
	hwtimer_is_pending(&thing->t);
	hwtimer_wheel_pending(wheel);
	hwtimer_wheel_clock(wheel);
	if (!hwtimer_wheel_levels(wheel) || !hwtimer_wheel_slots(wheel) ||
	    hwtimer_wheel_horizon(wheel) < t || now(thing->bench) < t)
		accuse(thing, "its wheel reports wrong parameters");
	if (hwtimer_wheel_start(wheel) && !READ_ONCE(thing->bench->stopping))
		accuse(thing, "a wheel that cannot be started");
}

static void forward(struct thing *thing, struct rnd_state *random)
{
	u64 t = max(now(thing->bench), thing->floor);
	/* With these, the next deadline is not before @t. */
	struct hwtimer_period period = {
		.period_ns = 1 + below(random, thing->bench->near_ns),
		.misfire_ns = 1, .policy = below(random, HWTIMER_PERIOD_MAKE_UP),
	};
	int ret = hwtimer_schedule_forward(&thing->t, t, &period, NULL);

	if (ret != -EBUSY)
		armed(thing, ret, false);
}

/* Count a call that ended @n armings of a plain timeout, or one or more of an item. */
static void was_cancelled(struct thing *thing, int n)
{
	if (thing->kind == PLAIN) {
		this_cpu_add(torture_counts.cancelled, n);
		atomic_sub(n, &thing->open);
	} else if (n) {
		atomic_inc(&thing->unsure);
	}
}

/* Returns false if @op does not apply to this kind. */
static bool operate(struct thing *thing, enum torture_op op, struct rnd_state *random)
{
	bool ended;

	switch (op) {
	case SCHEDULE:
		armed(thing, hwtimer_schedule(&thing->t, choose_delay(thing, random)), false);
		return true;
	case SCHEDULE_AT:
		armed(thing, hwtimer_schedule_at(&thing->t, choose_deadline(thing, random)), false);
		return true;
	case TOUCH:
		armed(thing, hwtimer_touch(&thing->t, choose_delay(thing, random)), true);
		return true;
	case TOUCH_AT:
		armed(thing, hwtimer_touch_at(&thing->t, choose_deadline(thing, random)), true);
		return true;
	case FORWARD:
		if (thing->kind != PLAIN)
			return false;
		forward(thing, random);
		return true;
	case CANCEL:
		ended = thing->kind == WORK ? hwtimer_work_cancel(&thing->work) :
					      hwtimer_cancel(&thing->t);
		was_cancelled(thing, ended);
		return true;
	default:
		query(thing);
		return true;
	}
}

/* Called under RCU, or for a private thing. The thing may be freed when this returns. */
static void release(struct thing *thing)
{
	bool private = thing->private, plain = thing->kind == PLAIN, ended;

	WRITE_ONCE(thing->gone, true);
	ended = plain ? hwtimer_release(&thing->t, timeout_released) :
			hwtimer_work_release(&thing->work, work_released);
	if (!ended)
		return;
	if (!private)
		was_cancelled(thing, 1);
	else if (plain)
		tally(reported);
}

static void end_sync(struct thing *thing, enum torture_op op)
{
	int ret;

	if (op == SHUTDOWN_SYNC)
		WRITE_ONCE(thing->gone, true);
	if (thing->kind == WORK)
		ret = hwtimer_work_cancel_sync(&thing->work);
	else if (op == SHUTDOWN_SYNC)
		ret = hwtimer_shutdown_sync(&thing->t);
	else
		ret = hwtimer_cancel_sync(&thing->t);
	if (ret < 0)
		accuse(thing, "waiting for its end returned %d", ret);
	else
		was_cancelled(thing, ret);
}

/* Check a thing that was waited for and cannot be armed. */
static void note_end(struct thing *thing)
{
	if (READ_ONCE(thing->running))
		accuse(thing, "its callback runs after a wait for it");
	if (hwtimer_is_pending(&thing->t))
		accuse(thing, "pending after its end");
	WRITE_ONCE(thing->ended, true);
}

/* Wait for the end of a thing that was taken out of the table. */
static void wait_for_end(struct thing *thing, enum torture_op op)
{
	struct bench *b = thing->bench;

	end_sync(thing, op);
	/* After CANCEL_SYNC, others may have armed the thing. */
	if (op == CANCEL_SYNC) {
		if (!cmpxchg(&b->table[thing->i], NULL, RCU_INITIALIZER(thing)))
			return;
		/* another thing has its entry */
		if (thing->kind == WORK) {
			rcu_read_lock();
			release(thing);
			rcu_read_unlock();
			return;
		}
		end_sync(thing, SHUTDOWN_SYNC);
	}
	note_end(thing);
	call_rcu(&thing->rcu, lay_down_rcu);
}

/* Arm a thing that frees itself. It must not be used afterwards. */
static bool forget(struct bench *b, struct rnd_state *random)
{
	struct thing *thing;
	int ret;

	thing = make(b, random, PLAIN, GFP_ATOMIC | __GFP_NOWARN);
	if (!thing)
		return false;
	hwtimer_init(&thing->t, b->wheel, forgotten_expired);
	thing->private = true;
	atomic_inc(&b->forgotten);
	ret = hwtimer_schedule_at(&thing->t, thing->floor);
	if (!ret) {
		tally(armed);
		return true;
	}
	armed(thing, ret, false);
	atomic_dec(&b->forgotten);
	bury(thing);
	return true;
}

/*
 * The thing must not expire before the deadline of the last touch that found it pending. During a
 * touch it may still expire at the previous deadline.
 */
static void touch_along(struct thing *thing, struct rnd_state *random, unsigned int n)
{
	u64 deadline = choose_deadline(thing, random), next;
	int ret;

	atomic64_set(&thing->earliest, deadline);
	armed(thing, hwtimer_schedule_at(&thing->t, deadline), false);
	while (n--) {
		next = choose_deadline(thing, random);
		if (next < deadline)
			atomic64_set(&thing->earliest, next);
		ret = hwtimer_touch_at(&thing->t, next);
		armed(thing, ret, true);
		if (!ret) {
			deadline = next;
			atomic64_set(&thing->earliest, deadline);
		}
		if (below(random, 2))
			dawdle(PROCESS, random);
	}
}

/* The life of a private thing. Returns false without memory. */
static bool live(struct bench *b, struct rnd_state *random)
{
	static const enum torture_op ends[] = { CANCEL_SYNC, SHUTDOWN_SYNC, RELEASE };
	enum torture_op end = ends[below(random, ARRAY_SIZE(ends))];
	struct thing *thing = make(b, random, choose_kind(random), GFP_KERNEL);
	unsigned int n = 1 + below(random, 6), i;
	enum torture_kind kind;

	if (!thing)
		return false;
	kind = thing->kind;
	if (kind == WORK && end == SHUTDOWN_SYNC)
		end = CANCEL_SYNC;
	thing->private = true;
	thing->once = kind == PLAIN && below(random, 2);
	tally(kinds[kind][PRIVATE]);
	if (thing->once) {
		touch_along(thing, random, n);
		n = 0;
	}
	for (i = 0; i < n; i++) {
		operate(thing, below(random, QUERY), random);
		if (!below(random, 4))
			dawdle(PROCESS, random);
	}
	/* near the expiry, or right after an arming */
	i = below(random, 2 * div_u64(b->near_ns, NSEC_PER_USEC));
	if (below(random, 2))
		usleep_range(i, i + 20);

	tally(ops[PROCESS][end]);
	tally(kinds[kind][end]);
	if (end == RELEASE) {
		release(thing);
		return true;
	}
	end_sync(thing, end);
	note_end(thing);
	/* armings that a stop hands back are not counted yet */
	if (!READ_ONCE(b->stopping) && kind == PLAIN && atomic_read(&thing->open))
		accuse(thing, "after its end, %d armings have not ended",
		       atomic_read(&thing->open));
	lay_down(thing);
	return true;
}

static void release_batch(void *data)
{
	struct thing **things = data;
	unsigned int i;

	for (i = 0; i < BATCH && things[i]; i++)
		release(things[i]);
}

/* Releases made on any CPU before a barrier must be called back when the barrier returns. */
static void release_and_wait(struct bench *b, struct rnd_state *random)
{
	struct thing *things[BATCH] = {};
	unsigned int i;

	for (i = 0; i < BATCH; i++) {
		things[i] = make(b, random, PLAIN, GFP_KERNEL);
		if (!things[i])
			break;
		things[i]->private = true;
		things[i]->kept = true;
		operate(things[i], SCHEDULE, random);
	}
	if (below(random, 2))
		dawdle(PROCESS, random);
	/* in hardirq, or here if that CPU is offline */
	if (smp_call_function_single(below(random, nr_cpu_ids), release_batch, things, true))
		release_batch(things);
	hwtimer_wheel_barrier(b->wheel);
	for (i = 0; i < BATCH && things[i]; i++) {
		if (READ_ONCE(things[i]->released))
			lay_down(things[i]);
		else
			accuse(things[i], "released, and the barrier did not wait for it");
	}
}

/* Work items must not wait for each other in a cycle, and cannot be shut down. */
static bool may_wait(const struct thing *thing, enum torture_op op, enum torture_context context)
{
	if (thing->kind == WORK && op == SHUTDOWN_SYNC)
		return false;
	return context == PROCESS || thing->kind == PLAIN;
}

static bool wait_for_entry(struct bench *b, enum torture_op op, enum torture_context context,
			   unsigned int i, struct thing *self)
{
	struct thing *thing;
	bool taken;

	rcu_read_lock();
	thing = rcu_dereference(b->table[i]);
	taken = thing && thing != self && may_wait(thing, op, context) && take(thing);
	if (taken)
		tally(kinds[thing->kind][op]);
	rcu_read_unlock();
	if (taken)
		wait_for_end(thing, op);
	return taken;
}

static bool operate_entry(struct bench *b, enum torture_op op, enum torture_context context,
			  struct rnd_state *random, unsigned int i)
{
	struct thing *thing;
	bool done = false;

	rcu_read_lock();
	thing = rcu_dereference(b->table[i]);
	if (thing && op != RELEASE) {
		done = operate(thing, op, random);
	} else if (thing && take(thing)) {
		release(thing);
		done = true;
	}
	if (done)
		tally(kinds[thing->kind][op]);
	rcu_read_unlock();
	if (!thing && context == PROCESS)
		fill(b, random, i);
	return done;
}

/*
 * Operations that wait take as long as a thousand others, so most are skipped; fewer in callbacks,
 * which are few.
 */
static bool too_rare(const struct bench *b, enum torture_op op, enum torture_context context,
		     struct rnd_state *random)
{
	const unsigned int waits = BIT(CANCEL_SYNC) | BIT(SHUTDOWN_SYNC) | BIT(PRIVATE) |
				   BIT(BARRIER);

	return BIT(op) & waits && below(random, context == PROCESS ? b->rare : 1 + b->rare / 8);
}

static enum torture_op draw(const struct bench *b, enum torture_context context,
			    struct rnd_state *random)
{
	unsigned int tries, dice, op;

	for (tries = 0; tries < 16; tries++) {
		dice = below(random, torture_mix_sum);
		for (op = 0; dice >= torture_mix[op]; op++)
			dice -= torture_mix[op];
		if (torture_allowed(op, context) && !too_rare(b, op, context, random))
			return op;
	}
	return QUERY;
}

/**
 * torture_step - do one operation
 * @b: the bench
 * @context: the calling context
 * @random: random numbers that choose the operation
 * @self: in a callback, its thing, which may be operated on, too; else NULL
 */
void torture_step(struct bench *b, enum torture_context context, struct rnd_state *random,
		  struct thing *self)
{
	enum torture_op op = draw(b, context, random);
	unsigned int i = below(random, b->hot);
	bool own = self && below(random, 2), done;

	if (op >= QUERY && b->arming_only)
		op = below(random, QUERY);
	switch (op) {
	case FORGET:
		done = forget(b, random);
		break;
	case PRIVATE:
		done = live(b, random);
		break;
	case BARRIER:
		release_and_wait(b, random);
		done = true;
		break;
	case CANCEL_SYNC:
	case SHUTDOWN_SYNC:
		done = wait_for_entry(b, op, context, i, self);
		break;
	default:
		if (own && self->private)
			/* its maker ends it */
			done = !self->once && op != RELEASE && operate(self, op, random);
		else
			done = operate_entry(b, op, context, random, own ? self->i : i);
	}
	if (done)
		tally(ops[context][op]);
}

/* For keepers. */

/**
 * torture_take_back - stop the wheel, and count the timeouts that it hands back
 * @b: the bench; @stopping is set
 */
void torture_take_back(struct bench *b)
{
	struct hwtimer_timeout *t, *next;
	struct thing *thing;
	LIST_HEAD(pending);
	int ret;

	ret = hwtimer_wheel_stop(b->wheel, &pending);
	if (ret)
		torture_fail("%s: stop returned %d", b->name, ret);
	WRITE_ONCE(b->stopped, true);
	tally(ops[PROCESS][STOP]);
	list_for_each_entry_safe(t, next, &pending, node) {
		thing = thing_of(t);
		list_del_init(&t->node);
		if (thing->magic != MAGIC) {
			torture_fail("%s: handed back what was freed", b->name);
			continue;
		}
		if (hwtimer_is_pending(t))
			accuse(thing, "handed back, and pending");
		atomic_long_inc(&b->handed_back);
		if (thing->kind == PLAIN)
			tally(handed_back);
		/* other things may be released meanwhile */
		if (READ_ONCE(t->fn) == forgotten_expired) {
			bury(thing);
			atomic_dec(&b->forgotten);
		} else {
			atomic_dec(&thing->open);
		}
	}
}

/**
 * torture_scan - visit all things of the table, while no producer uses them
 * @b: the bench
 * @pending: out: number of timeouts that are pending and far
 *
 * Wakes no worker.
 *
 * Return: true if some will expire, or run, soon.
 */
bool torture_scan(struct bench *b, unsigned long *pending)
{
	u64 t = now(b), deadline;
	struct thing *thing;
	bool near = false;
	unsigned int i;

	*pending = 0;
	rcu_read_lock();
	for (i = 0; i < b->things; i++) {
		thing = rcu_dereference(b->table[i]);
		if (!thing)
			continue;
		if (thing->kind == WORK && atomic64_read(&thing->work.state))
			near = true;
		if (!hwtimer_is_pending(&thing->t))
			continue;
		deadline = hwtimer_deadline(&thing->t);
		if (deadline > t + FAR / 2) {
			++*pending;
			continue;
		}
		near = true;
		if (t > deadline + LOST && !thing->lost) {
			thing->lost = true;
			accuse(thing, "lost: pending, and %llu ms late",
			       div_u64(t - deadline, NSEC_PER_MSEC));
		}
	}
	rcu_read_unlock();
	return near;
}

/**
 * torture_renew - release or cancel things, so that the next burst finds new or idle ones
 * @b: the bench
 * @op: RELEASE or CANCEL, done to the things of the last burst
 */
void torture_renew(struct bench *b, enum torture_op op)
{
	unsigned int i;

	for (i = 0; i < b->hot; i++)
		operate_entry(b, op, PROCESS, &b->keeper_random, i);
}

/**
 * torture_fill - fill the table for the next burst
 * @b: the bench
 */
void torture_fill(struct bench *b)
{
	unsigned int i;

	for (i = 0; i < b->hot; i++)
		if (!rcu_access_pointer(b->table[i]))
			fill(b, &b->keeper_random, i);
}

/**
 * torture_clear - free all things of a stopped wheel
 * @b: the bench, no longer in use
 */
void torture_clear(struct bench *b)
{
	struct thing *thing, *next;
	unsigned int i;

	for (i = 0; i < b->things; i++) {
		thing = rcu_dereference_protected(b->table[i], true);
		RCU_INIT_POINTER(b->table[i], NULL);
		if (!thing)
			continue;
		if (hwtimer_is_pending(&thing->t))
			accuse(thing, "pending, and its wheel was stopped");
		bury(thing);
	}
	llist_for_each_entry_safe(thing, next, llist_del_all(&b->graves), grave) {
		if (!thing->released && hwtimer_is_pending(&thing->t))
			accuse(thing, "pending, and its wheel was stopped");
		bury(thing);
	}
	if (atomic_read(&b->alive))
		torture_fail("%s, wheel %u: lost: %d things, of which %d were to free themselves",
			     b->name, b->wheels, atomic_read(&b->alive),
			     atomic_read(&b->forgotten));
	/* whatever is still allocated has leaked */
	atomic_set(&b->alive, 0);
	atomic_set(&b->forgotten, 0);
}
