// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_torture: all operations of the API on things, which are timeouts, and the counts that
 * must add up.
 *
 * A keeper creates a wheel, has producers use it, stops it while they do, and checks the counts;
 * then it creates the next wheel. Producers work in bursts. All of a bench begin at the same time,
 * on all CPUs, with interrupts beside them. Some bursts are a few operations on one timeout, as in
 * a litmus test. Others are limited only by time, and blocking operations are rare in them. Between
 * bursts the bench is quiet: callbacks arm nothing, and all timeouts due soon have to expire
 * although no operation may wake a worker by chance. Then the pending timeouts can be counted.
 *
 * Most things are in the table of a bench, where producers and callbacks find them under RCU and
 * use them concurrently. Only the task that takes a thing out of the table may wait for it or
 * release it; the thing is freed after a grace period. Private things and those that free
 * themselves are known to their maker only and freed at once: if a wheel reads them again, it reads
 * poison, which KASAN and AddressSanitizer report.
 *
 * @open counts the armings of a plain timeout that have not ended, and is 0 when it is freed. It
 * may be negative meanwhile, as an arming is counted after it has succeeded. An arming of a work
 * item ends by a run or a stop. Armings of an item that are still open when it is freed must have
 * been cancelled: at least one for each call that reported a cancel, and none without such a call.
 *
 * No operation arms a thing for a deadline before its @floor, so no callback may run before. A
 * @once thing is armed and touched by its maker only, which moves @earliest with the deadline.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/poison.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "torture.h"

#define MAGIC		0x7431c4e5
#define BATCH		8			/* so many are released before a barrier */
#define RARE		16			/* in long bursts, one in so many waits is done */
#define LIFE		(2 * NSEC_PER_SEC)	/* a wheel is stopped after so many ns at most */
#define FAR		(10 * 60 * SEC)		/* deadlines beyond this are far, others near */

#define ANY	(BIT(CONTEXTS) - 1)
#define SLEEPS	(BIT(PROCESS) | BIT(CALLBACK) | BIT(RUN))
/* PREEMPT_RT allocates no memory in hard interrupts, which lockdep may check without it, too. */
#define HARDIRQ_ALLOCATES	(!IS_ENABLED(CONFIG_PREEMPT_RT) && \
				 !IS_ENABLED(CONFIG_PROVE_RAW_LOCK_NESTING))
#define ALLOCATES		(HARDIRQ_ALLOCATES ? ANY : ANY & ~BIT(HARDIRQ))
#define BOTH	(BIT(PLAIN) | BIT(WORK))

const struct torture_op_info torture_ops[OPS] = {
	[SCHEDULE]	= { "schedule", 50, ANY, BOTH },
	[SCHEDULE_AT]	= { "schedule_at", 50, ANY, BOTH },
	[TOUCH]		= { "touch", 40, ANY, BOTH },
	[TOUCH_AT]	= { "touch_at", 40, ANY, BOTH },
	[FORWARD]	= { "forward", 30, ANY, BIT(PLAIN) },
	[CANCEL]	= { "cancel", 50, ANY, BOTH },
	[QUERY]		= { "query", 15, ANY, BOTH },
	[RELEASE]	= { "release", 30, ANY, BOTH },
	[CANCEL_SYNC]	= { "cancel_sync", 20, SLEEPS, BOTH },
	[SHUTDOWN_SYNC]	= { "shutdown_sync", 15, SLEEPS, BIT(PLAIN) },
	[FORGET]	= { "forget", 30, ALLOCATES },
	[PRIVATE]	= { "private", 15, BIT(PROCESS), BOTH },
	[BARRIER]	= { "barrier", 1, BIT(PROCESS) },
};

#define WEIGHTS	386	/* of all operations together */

static const char *const kinds[KINDS] = { "timeout", "work" };

atomic_t torture_failures;
struct workqueue_struct *torture_wq;
/* The same seed gives the same numbers, if all generators are seeded in the same order. */
u64 torture_seeds;

/**
 * torture_seed - seed one more generator of random numbers
 *
 * Return: its seed.
 */
u64 torture_seed(void)
{
	return (u64)draw(&torture_seeds) << 32 | draw(&torture_seeds) | 1;
}

/**
 * torture_count - add up the counts of a bench
 * @b: the bench
 * @sum: to which those of all CPUs are added
 *
 * Return: how many operations that are.
 */
u64 torture_count(const struct bench *b, struct counts *sum)
{
	local_t *to = (local_t *)sum;
	const local_t *from;
	unsigned int cpu, i;
	u64 ops = 0;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		from = (const local_t *)&b->counts[cpu];
		for (i = 0; i < COUNTS; i++) {
			local_add(local_read(&from[i]), &to[i]);
			ops += i < CONTEXTS * OPS ? local_read(&from[i]) : 0;
		}
	}
	return ops;
}

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
 * @random: random numbers of its runs, if it is a work item
 * @grave: entry of the bench's @graves
 */
struct thing {
	union {
		struct hwtimer_timeout	t;
		struct hwtimer_work	work;
	};
	struct bench		*bench;
	u32			magic;
	enum torture_kind	kind;
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
	u64			random;
	struct llist_node	grave;
};

static struct thing *thing_of(struct hwtimer_timeout *t)
{
	return container_of(t, struct thing, t);
}

#define accuse(which, fmt, ...)							\
	do {									\
		const struct thing *it_ = (which);				\
										\
		torture_fail("%s, wheel %u: %s%s %p: " fmt, it_->bench->name,	\
			     READ_ONCE(it_->bench->wheels),			\
			     it_->private ? "private " : "", kinds[it_->kind],	\
			     it_, ##__VA_ARGS__);				\
	} while (0)

static bool allows(enum torture_kind kind, enum torture_op op)
{
	return torture_ops[op].kinds & BIT(kind);
}

static u64 now(const struct bench *b)
{
	return hwtimer_wheel_now(b->wheel);
}

/* Delay, so that other operations come in between. */
static void dawdle(enum torture_context context, u64 *random)
{
	u32 us = below(random, 200) / torture_speed;

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

	if (thing->running || hwtimer_is_pending(&thing->t))
		accuse(thing, "freed while its callback runs, or while it is pending");
	/* The thing could not note what the release of a private thing returned. */
	if (thing->private && thing->released)
		unsure = thing->kind == PLAIN ? left == 1 : min(unsure + 1, left);
	/* Without a list, a stop tells nobody what it ended. */
	if (!b->list && READ_ONCE(b->stopping))
		left = min(left, unsure);
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

static void in_callback(struct thing *self, enum torture_context context, u64 *random)
{
	struct bench *b = self->bench;
	/* There are fewer runs, which delay nothing. */
	unsigned int n = below(random, context == RUN ? 16 : 2);

	if (READ_ONCE(b->quiet))
		return;
	if (!below(random, context == RUN ? 8 : 8 * READ_ONCE(b->rare)))
		dawdle(context, random);
	while (n-- && !READ_ONCE(b->quiet))
		torture_step(b, context, random, self);
}

static void thing_expired(struct thing *thing, enum torture_context context, u64 *random)
{
	if (!enter(thing))
		return;
	tally(thing->bench, expired[thing->kind]);
	atomic_dec(&thing->open);
	in_callback(thing, context, random);
	leave(thing);
}

static void plain_expired(struct hwtimer_timeout *t)
{
	thing_expired(thing_of(t), CALLBACK, &thing_of(t)->bench->random);
}

static void work_runs(struct hwtimer_work *work)
{
	struct thing *thing = thing_of(&work->timeout);

	thing_expired(thing, RUN, &thing->random);
}

/* Callback of a thing that frees itself; its deadline is @floor. */
static void forgotten_expired(struct hwtimer_timeout *t)
{
	struct thing *thing = thing_of(t);
	struct bench *b = thing->bench;
	u64 late = now(b) - thing->floor;

	if (!enter(thing))
		return;
	tally(b, expired[PLAIN]);
	b->late_ns = max(b->late_ns, late);
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
	tally(thing->bench, released);
	if (thing->kept)
		return;
	if (thing->private)
		lay_down(thing);
	else
		llist_add(&thing->grave, &thing->bench->graves);
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
static struct thing *make(struct bench *b, u64 *random, enum torture_kind kind, gfp_t gfp)
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
		thing->random = draw(random) | 1ULL;
		hwtimer_work_init(&thing->work, b->wheel, torture_wq, work_runs);
	} else {
		hwtimer_init(&thing->t, b->wheel, plain_expired);
	}
	return thing;
}

static enum torture_kind choose_kind(const struct bench *b, u64 *random)
{
	return b->works && !below(random, 3) ? WORK : PLAIN;
}

static void fill_entry(struct bench *b, u64 *random, unsigned int i)
{
	struct thing *thing = make(b, random, choose_kind(b, random), GFP_KERNEL);

	if (!thing)
		return;
	thing->i = i;
	if (cmpxchg(&b->table[i], NULL, thing))
		bury(thing);
}

/* Take the thing out of the table. Returns false if another task has done so. */
static bool take(struct thing *thing)
{
	return cmpxchg(&thing->bench->table[thing->i], thing, NULL) == thing;
}

static u64 choose_deadline(const struct thing *thing, u64 *random)
{
	const struct bench *b = thing->bench;
	u64 t = now(b);
	u32 dice = below(random, 64);

	if (!dice)
		return U64_MAX;
	if (dice < READ_ONCE(b->far))
		return t + FAR + draw(random) * 128ULL;
	if (dice % 8 == 0)
		return max(t - MS, thing->floor);
	return max(t, thing->floor) + below(random, dice % 8 == 1 ? 1000 : b->near_ns);
}

/* A random deadline as a delay, which makes it a little later. */
static s64 choose_delay(const struct thing *thing, u64 *random)
{
	u64 deadline = choose_deadline(thing, random);

	return deadline == U64_MAX ? S64_MAX : deadline - now(thing->bench);
}

/* Count an arming, or check its error, after schedule, touch or forward returned @ret. */
static void armed(struct thing *thing, int ret, bool touched)
{
	struct bench *b = thing->bench;

	switch (ret) {
	case 0:
	case 1:
		if (ret || touched) {
			tally(b, rearmed);
			return;
		}
		tally(b, armed[thing->kind]);
		atomic_inc(&thing->open);
		return;
	case -EAGAIN:
		tally(b, rejected);
		if (!b->cap || touched)
			accuse(thing, "refused for a cap, and there is none");
		return;
	case -ENOENT:
		if (!touched)
			accuse(thing, "arming returned -ENOENT");
		return;
	case -ESHUTDOWN:
		/* read @gone and @stopping after the result of the arming */
		smp_rmb();
		if (!READ_ONCE(thing->gone) && !READ_ONCE(b->stopping))
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
	if (now(thing->bench) < t)
		accuse(thing, "the time of its wheel goes back");
	if (hwtimer_wheel_start(wheel) && !READ_ONCE(thing->bench->stopping))
		accuse(thing, "a wheel that cannot be started");
}

static void forward(struct thing *thing, u64 *random)
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
	tally_many(thing->bench, cancelled[thing->kind], n);
	if (thing->kind == PLAIN)
		atomic_sub(n, &thing->open);
	else if (n)
		atomic_inc(&thing->unsure);
}

/* An operation that is allowed in any context, and does not end the thing. */
static void operate(struct thing *thing, enum torture_op op, u64 *random)
{
	switch (op) {
	case SCHEDULE:
		armed(thing, hwtimer_schedule(&thing->t, choose_delay(thing, random)), false);
		return;
	case SCHEDULE_AT:
		armed(thing, hwtimer_schedule_at(&thing->t, choose_deadline(thing, random)), false);
		return;
	case TOUCH:
		armed(thing, hwtimer_touch(&thing->t, choose_delay(thing, random)), true);
		return;
	case TOUCH_AT:
		armed(thing, hwtimer_touch_at(&thing->t, choose_deadline(thing, random)), true);
		return;
	case FORWARD:
		forward(thing, random);
		return;
	case CANCEL:
		was_cancelled(thing, thing->kind == WORK ? hwtimer_work_cancel(&thing->work) :
							   hwtimer_cancel(&thing->t));
		return;
	default:
		query(thing);
	}
}

/* Called under RCU, or for a private thing, which may be freed when this returns. */
static void release(struct thing *thing)
{
	bool private = thing->private, plain = thing->kind == PLAIN, ended;
	struct bench *b = thing->bench;

	WRITE_ONCE(thing->gone, true);
	ended = plain ? hwtimer_release(&thing->t, timeout_released) :
			hwtimer_work_release(&thing->work, work_released);
	if (ended && private)
		tally(b, cancelled[plain ? PLAIN : WORK]);
	else if (ended)
		was_cancelled(thing, 1);
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
	if (op == SHUTDOWN_SYNC) {
		note_end(thing);
		llist_add(&thing->grave, &b->graves);
	} else if (cmpxchg(&b->table[thing->i], NULL, thing)) {
		/* Others may have armed it meanwhile, and another thing has its entry. */
		rcu_read_lock();
		release(thing);
		rcu_read_unlock();
	}
}

/* Arm a thing that frees itself. It must not be used afterwards. */
static bool forget(struct bench *b, u64 *random)
{
	struct thing *thing;
	int ret;

	/* a stop without a list would leak it */
	thing = b->list ? make(b, random, PLAIN, GFP_ATOMIC | __GFP_NOWARN) : NULL;
	if (!thing)
		return false;
	hwtimer_init(&thing->t, b->wheel, forgotten_expired);
	thing->private = true;
	atomic_inc(&b->forgotten);
	ret = hwtimer_schedule_at(&thing->t, thing->floor);
	if (!ret) {
		tally(b, armed[PLAIN]);
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
static void touch_along(struct thing *thing, u64 *random, unsigned int n)
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
static bool live(struct bench *b, u64 *random)
{
	enum torture_op end = RELEASE + below(random, SHUTDOWN_SYNC - RELEASE + 1), op;
	struct thing *thing = make(b, random, choose_kind(b, random), GFP_KERNEL);
	unsigned int n = 1 + below(random, 6), i;
	enum torture_kind kind;

	if (!thing)
		return false;
	kind = thing->kind;
	if (!allows(kind, end))
		end = CANCEL_SYNC;
	thing->private = true;
	thing->once = kind == PLAIN && below(random, 2);
	if (thing->once) {
		touch_along(thing, random, n);
		n = 0;
	}
	for (i = 0; i < n; i++) {
		op = below(random, QUERY);
		if (allows(kind, op))
			operate(thing, op, random);
		if (!below(random, 4))
			dawdle(PROCESS, random);
	}
	/* near the expiry, or right after an arming */
	i = below(random, 2 * div_u64(b->near_ns, NSEC_PER_USEC));
	if (below(random, 2))
		usleep_range(i, i + 20);

	tally(b, ops[PROCESS][end]);
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
static void release_and_wait(struct bench *b, u64 *random)
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

/*
 * Operate on a thing of the table, if its kind allows that. Work items must not wait for each other
 * in a cycle.
 */
static bool operate_entry(struct bench *b, enum torture_op op, enum torture_context context,
			  u64 *random, unsigned int i, const struct thing *self)
{
	bool waits = op == CANCEL_SYNC || op == SHUTDOWN_SYNC, done = false;
	struct thing *thing;

	rcu_read_lock();
	/* pairs with the cmpxchg() in fill_entry() */
	thing = smp_load_acquire(&b->table[i]);
	if (thing && allows(thing->kind, op)) {
		if (waits)
			done = thing != self && (context == PROCESS || thing->kind == PLAIN) &&
			       take(thing);
		else
			done = op != RELEASE || take(thing);
	}
	if (done) {
		if (op == RELEASE)
			release(thing);
		else if (!waits)
			operate(thing, op, random);
	}
	rcu_read_unlock();
	if (done && waits)
		wait_for_end(thing, op);
	if (!thing && context == PROCESS)
		fill_entry(b, random, i);
	return done;
}

/* Operations that wait take as long as a thousand others, so producers skip most of them. */
static bool too_rare(const struct bench *b, enum torture_op op, enum torture_context context,
		     u64 *random)
{
	const unsigned int waits = BIT(CANCEL_SYNC) | BIT(SHUTDOWN_SYNC) | BIT(PRIVATE) |
				   BIT(BARRIER);

	return BIT(op) & waits && context == PROCESS && below(random, READ_ONCE(b->rare));
}

static enum torture_op choose_op(const struct bench *b, enum torture_context context, u64 *random)
{
	unsigned int tries, dice, op;

	for (tries = 0; tries < 16; tries++) {
		dice = below(random, WEIGHTS);
		for (op = 0; dice >= torture_ops[op].weight; op++)
			dice -= torture_ops[op].weight;
		if (torture_ops[op].contexts & BIT(context) && !too_rare(b, op, context, random))
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
void torture_step(struct bench *b, enum torture_context context, u64 *random, struct thing *self)
{
	enum torture_op op = choose_op(b, context, random);
	unsigned int i = below(random, READ_ONCE(b->hot));
	bool own = self && below(random, 2), done = true;

	if (op >= QUERY && READ_ONCE(b->arming_only))
		op = below(random, QUERY);
	if (op == FORGET) {
		done = forget(b, random);
	} else if (op == PRIVATE) {
		done = live(b, random);
	} else if (op == BARRIER) {
		release_and_wait(b, random);
	} else if (own && self->private && op <= QUERY) {
		/* its maker ends it */
		done = !self->once && allows(self->kind, op);
		if (done)
			operate(self, op, random);
	} else {
		if (own && !self->private)
			i = self->i;
		done = operate_entry(b, op, context, random, i, self);
	}
	if (done)
		tally(b, ops[context][op]);
}

/* For keepers. */

/* Stop the wheel, and count the timeouts that it hands back. @stopping is set. */
static void stop_wheel(struct bench *b)
{
	struct thing *thing, *next;
	LIST_HEAD(pending);
	int ret;

	ret = hwtimer_wheel_stop(b->wheel, b->list ? &pending : NULL);
	if (ret)
		torture_fail("%s: stop returned %d", b->name, ret);
	WRITE_ONCE(b->stopped, true);
	list_for_each_entry_safe(thing, next, &pending, t.node) {
		list_del_init(&thing->t.node);
		if (thing->magic != MAGIC) {
			torture_fail("%s: handed back what was freed", b->name);
			continue;
		}
		if (hwtimer_is_pending(&thing->t))
			accuse(thing, "handed back, and pending");
		tally(b, handed_back[thing->kind]);
		/* other things may be released meanwhile */
		if (READ_ONCE(thing->t.fn) == forgotten_expired) {
			bury(thing);
			atomic_dec(&b->forgotten);
		} else {
			atomic_dec(&thing->open);
		}
	}
}

/*
 * Visit all things of the table, while no producer uses them. Returns true if some will expire, or
 * run, soon. @pending: number of those that are pending and far. Wakes no worker.
 */
static bool scan_table(struct bench *b, unsigned long *pending)
{
	u64 t = now(b), deadline;
	struct thing *thing;
	bool near = false;
	unsigned int i;

	*pending = 0;
	for (i = 0; i < b->things; i++) {
		thing = READ_ONCE(b->table[i]);
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
		if (t > deadline && torture_lost(&thing->t, t - deadline))
			accuse(thing, "lost: pending, and %llu us late",
			       div_u64(t - deadline, NSEC_PER_USEC));
	}
	return near;
}

/*
 * Release or cancel the things of the last burst, so that the next one finds new or idle ones. @op:
 * RELEASE or CANCEL.
 */
static void renew_things(struct bench *b, enum torture_op op)
{
	unsigned int i;

	for (i = 0; i < b->hot; i++)
		operate_entry(b, op, PROCESS, &b->keeper_random, i, NULL);
}

/* Fill the table for the next burst. */
static void fill_table(struct bench *b)
{
	unsigned int i;

	for (i = 0; i < b->hot; i++)
		if (!READ_ONCE(b->table[i]))
			fill_entry(b, &b->keeper_random, i);
}

/* Not llist_for_each_entry_safe(), which computes with NULL, as UBSan reports. */
static void bury_all(struct llist_node *node)
{
	struct thing *thing;

	while (node) {
		thing = llist_entry(node, struct thing, grave);
		node = node->next;
		bury(thing);
	}
}

/* Free the things that were ended, a grace period later. */
static void free_ended(struct bench *b)
{
	struct llist_node *graves = NULL;

	if (!mutex_trylock(&b->freeing))
		return;
	if (!READ_ONCE(b->stopping))
		graves = llist_del_all(&b->graves);
	mutex_unlock(&b->freeing);
	if (!graves)
		return;
	synchronize_rcu();
	bury_all(graves);
}

/* Free all things of a stopped wheel that is no longer used. */
static void clear_table(struct bench *b)
{
	struct thing *thing;
	unsigned int i;

	for (i = 0; i < b->things; i++) {
		thing = b->table[i];
		b->table[i] = NULL;
		if (thing)
			llist_add(&thing->grave, &b->graves);
	}
	synchronize_rcu();
	bury_all(llist_del_all(&b->graves));
	if (atomic_read(&b->alive))
		torture_fail("%s, wheel %u: lost: %d things, of which %d were to free themselves",
			     b->name, b->wheels, atomic_read(&b->alive),
			     atomic_read(&b->forgotten));
}

/* Producers. */

static void produce(struct producer *p)
{
	struct bench *b = p->bench;
	ktime_t start = b->start;
	unsigned int i, us;

	torture_irqs_start(p);
	set_current_state(TASK_IDLE);
	schedule_hrtimeout(&start, HRTIMER_MODE_ABS);

	for (i = 0; i < b->ops && ktime_get_ns() < READ_ONCE(b->end_ns); i++) {
		torture_step(b, PROCESS, &p->random, NULL);
		if (READ_ONCE(b->stopping) && !below(&p->random, 16))
			stop_wheel(b);
		us = below(&p->random, 256 * b->rare);
		if (us < 32)
			udelay(us / torture_speed);
		else if (us < 36)
			usleep_range(us / torture_speed, 2 * us);
		else if (us == 36)
			free_ended(b);
		cond_resched();
	}
	torture_irqs_end(p);
}

static int producer_fn(void *data)
{
	struct producer *p = data;
	struct bench *b = p->bench;
	unsigned int seen = 0;

	for (;;) {
		wait_event_idle(b->wait, READ_ONCE(b->burst) != seen || kthread_should_stop());
		if (kthread_should_stop())
			return 0;
		/* Pairs with begin_burst(). */
		seen = smp_load_acquire(&b->burst);
		produce(p);
		if (atomic_dec_and_test(&b->busy))
			wake_up_all(&b->wait);
	}
}

static void begin_burst(struct bench *b)
{
	fill_table(b);
	WRITE_ONCE(b->quiet, false);
	b->start = ktime_add_ns(ktime_get(), 300 * NSEC_PER_USEC / torture_speed);
	atomic_set(&b->busy, b->nr_producers);
	/* Pairs with producer_fn(). */
	smp_store_release(&b->burst, b->burst + 1);
	wake_up_all(&b->wait);
}

static void end_burst(struct bench *b)
{
	wait_event_idle(b->wait, !atomic_read_acquire(&b->busy));
}

/*
 * Few operations on few things; or some on a single thing, which do not end it. Then the worker
 * wakes for no other timeout: such a wake-up would hide that another one was lost.
 */
static void choose_brief(struct bench *b)
{
	u64 *random = &b->keeper_random;

	WRITE_ONCE(b->rare, 1);
	b->end_ns = U64_MAX;
	WRITE_ONCE(b->arming_only, below(random, 4));
	if (b->arming_only || below(random, 2))
		renew_things(b, b->arming_only ? RELEASE : CANCEL);
	b->ops = 1 + below(random, 4);
	WRITE_ONCE(b->hot, b->arming_only ? 1 : min(b->things, 1 + below(random, 4)));
	WRITE_ONCE(b->far, b->arming_only ? 32 : 12);
}

static void choose_long(struct bench *b)
{
	u64 *random = &b->keeper_random;

	WRITE_ONCE(b->rare, RARE);
	b->end_ns = ktime_get_ns() + torture_burst_ns / 8 + below(random, torture_burst_ns);
	b->ops = 1 + below(random, torture_burst_ops);
	WRITE_ONCE(b->hot, 1 + below(random, b->things >> 2 * below(random, 3)));
	WRITE_ONCE(b->arming_only, false);
	WRITE_ONCE(b->far, 12);
}

/* The keeper. */

/*
 * Wait until all timeouts due soon have expired, and those that free themselves are gone, while no
 * producer does anything.
 */
static bool settle(struct bench *b, unsigned long *pending)
{
	u64 end = ktime_get_ns() + 2 * LOST;

	WRITE_ONCE(b->quiet, true);
	while (scan_table(b, pending) || atomic_read(&b->forgotten)) {
		if (torture_failed())
			return false;
		if (ktime_get_ns() > end) {
			torture_fail("%s, wheel %u: no rest; %d are to free themselves", b->name,
				     b->wheels, atomic_read(&b->forgotten));
			return false;
		}
		usleep_range(100, 200);
	}
	return true;
}

static void compare(const struct bench *b, const char *what, unsigned long ours,
		    unsigned long wheels)
{
	if (ours != wheels)
		torture_fail("%s, wheel %u: %s: counted %lu, the wheel %lu", b->name, b->wheels,
			     what, ours, wheels);
}

/* Add up the counts of this wheel. */
static void add_up(struct bench *b)
{
	const local_t *begun = (const local_t *)&b->begun;
	local_t *sum = (local_t *)&b->sum;
	unsigned int i;

	memset(&b->sum, 0, sizeof(b->sum));
	torture_count(b, &b->sum);
	for (i = 0; i < COUNTS; i++)
		local_add(-local_read(&begun[i]), &sum[i]);
}

static unsigned long both(const local_t *counts)
{
	return local_read(&counts[PLAIN]) + local_read(&counts[WORK]);
}

/*
 * With nothing in flight, each callback counted must be an expiry of the wheel. Of items that were
 * cancelled before they ran, the wheel knows more.
 */
static void compare_calls(struct bench *b)
{
	unsigned long called;

	add_up(b);
	called = both(b->sum.expired);
	if (called > b->wheel->expired || !b->works)
		compare(b, "expired", called, b->wheel->expired);
}

/* Compare the wheel's counts with those of the test. */
static bool recount(struct bench *b)
{
	struct hwtimer_wheel *wheel = b->wheel;
	unsigned long pending;

	do {
		if (!settle(b, &pending))
			return false;
		/* After this, callbacks and runs that did not see @quiet have returned. */
		hwtimer_wheel_barrier(wheel);
		flush_workqueue(torture_wq);
	} while (scan_table(b, &pending) || atomic_read(&b->forgotten));

	compare(b, "pending", pending, hwtimer_wheel_pending(wheel));
	if (b->cap) {
		compare(b, "charged", pending, places_taken(wheel->places));
		compare(b, "at most the cap", min(pending, b->cap), pending);
	}
	compare_calls(b);
	return true;
}

/* Does scripts/torture read the buckets of the wheel? It does so for every fourth one. */
static bool watched(const struct bench *b)
{
	return b->wheels % 4 == 0;
}

static bool make_wheel(struct bench *b)
{
	static const unsigned int slots[] = { 1, 2, 8, 64, 256 };
	u64 *random = &b->keeper_random;
	unsigned int levels = b->wheels % 3;
	struct hwtimer_wheel_params params = {
		/* reading the buckets wakes the worker, so not all wheels are read */
		.name = watched(b) ? "watched" : b->name,
		.tick_ns = (64 << below(random, 6)) * NSEC_PER_USEC / torture_speed,
		.clock = below(random, 4) ? HWTIMER_CLOCK_MONOTONIC : HWTIMER_CLOCK_BOOTTIME,
	};

	/* in SHAPES wheels, there is one of each shape */
	params.slots = slots[below(random, ARRAY_SIZE(slots))];
	if (levels < 2)
		params.levels = levels ? 2 + below(random, 2) : 1;
	if (params.levels > 1)
		params.slots = max(params.slots, 4U);
	if (b->wheels / 3 % 2)
		params.cap = 1 + below(random, b->things);
	if (!below(random, 4))
		params.cpus = cpumask_of(below(random, nr_cpu_ids));
	if (!below(random, 8))
		params.sched = HWTIMER_SCHED_FIFO_LOW;
	b->cap = params.cap;
	b->near_ns = MS / torture_speed + 4 * params.tick_ns;
	b->works = below(random, 4);
	b->list = b->works || below(random, 4);
	b->stopping = false;
	b->stopped = false;
	memset(&b->begun, 0, sizeof(b->begun));
	torture_count(b, &b->begun);

	b->wheel = hwtimer_wheel_create(&params);
	if (b->wheel == ERR_PTR(-EINVAL)) {
		/* that CPU may be offline */
		params.cpus = NULL;
		b->wheel = hwtimer_wheel_create(&params);
	}
	if (IS_ERR(b->wheel)) {
		torture_fail("%s: no wheel: %ld", b->name, PTR_ERR(b->wheel));
		return false;
	}
	WRITE_ONCE(b->wheels, b->wheels + 1);
	return true;
}

/* Compare the counts of a stopped wheel that is no longer used. */
static void balance(struct bench *b)
{
	const struct hwtimer_wheel *wheel = b->wheel;
	const struct counts *c = &b->sum;
	unsigned long armed = 0;
	int cpu;

	if (!b->list)
		tally_many(b, handed_back[PLAIN], wheel->handed_back);
	compare_calls(b);
	for_each_possible_cpu(cpu)
		armed += local_read(&per_cpu_ptr(wheel->cpus, cpu)->armed);
	compare(b, "armed", both(c->armed), armed);
	compare(b, "handed back", both(c->handed_back), wheel->handed_back);
	compare(b, "pending at the end", 0, hwtimer_wheel_pending(wheel));
	compare(b, "charged at the end", 0, places_taken(wheel->places));
	if (local_read(&c->armed[PLAIN]) != local_read(&c->expired[PLAIN]) +
	    local_read(&c->cancelled[PLAIN]) + local_read(&c->handed_back[PLAIN]))
		torture_fail("%s, wheel %u: armed %ld, expired %ld, cancelled %ld, handed back %ld",
			     b->name, b->wheels, local_read(&c->armed[PLAIN]),
			     local_read(&c->expired[PLAIN]), local_read(&c->cancelled[PLAIN]),
			     local_read(&c->handed_back[PLAIN]));
}

/* A brief burst on few things, or a long one on all. Then all timeouts due soon expire. */
static bool rally(struct bench *b)
{
	bool brief = below(&b->keeper_random, 16);
	unsigned long pending;

	if (brief)
		choose_brief(b);
	else
		choose_long(b);
	begin_burst(b);
	end_burst(b);
	return brief ? settle(b, &pending) : recount(b);
}

/**
 * torture_wheel - create a wheel, have it used for a while, and stop it
 * @b: the bench
 *
 * Return: true if all is fine, and the caller has to destroy the wheel. Otherwise all is left in
 * place, because a broken wheel might crash when it is stopped.
 */
bool torture_wheel(struct bench *b)
{
	u64 *random = &b->keeper_random, end;
	unsigned long pending;
	unsigned int us;

	if (!make_wheel(b))
		return false;
	end = watched(b) ? LIFE : below(random, LIFE >> below(random, 8));
	end = ktime_get_ns() + div_u64(end, torture_speed);
	while (ktime_get_ns() < end)
		if (!rally(b) || torture_failed())
			return false;
	choose_long(b);
	begin_burst(b);
	us = below(random, 20000) / torture_speed;
	usleep_range(us, us + 50);
	mutex_lock(&b->freeing);
	WRITE_ONCE(b->stopping, true);
	mutex_unlock(&b->freeing);
	stop_wheel(b);
	WRITE_ONCE(b->end_ns, ktime_get_ns() + MS / torture_speed);
	end_burst(b);
	/* What was due when the wheel was stopped still runs. */
	settle(b, &pending);
	flush_workqueue(torture_wq);
	if (!torture_failed())
		clear_table(b);
	balance(b);
	return !torture_failed();
}

/**
 * torture_bench_init - start the producers of a bench
 * @b: zeroed, but for @name, @things and @nr_producers
 *
 * Return: 0, or an error, after which torture_bench_end() frees whatever was allocated.
 */
int torture_bench_init(struct bench *b)
{
	struct task_struct *task;
	struct producer *p;
	unsigned int i;

	init_waitqueue_head(&b->wait);
	init_llist_head(&b->graves);
	mutex_init(&b->freeing);
	b->random = torture_seed();
	b->keeper_random = torture_seed();
	b->counts = kvcalloc(nr_cpu_ids, sizeof(*b->counts), GFP_KERNEL);
	b->producers = kvcalloc(b->nr_producers, sizeof(*b->producers), GFP_KERNEL);
	if (!b->counts || !b->producers)
		return -ENOMEM;
	for (i = 0; i < b->nr_producers; i++) {
		p = &b->producers[i];
		p->bench = b;
		p->cpu = i % nr_cpu_ids;
		p->random = torture_seed();
		torture_irqs_init(p);
		task = kthread_run(producer_fn, p, "%s/%u", b->name, i);
		if (IS_ERR(task))
			return PTR_ERR(task);
		p->task = task;
	}
	return 0;
}

/**
 * torture_bench_end - end the producers of a bench
 * @b: the bench, whose keeper has ended
 */
void torture_bench_end(struct bench *b)
{
	unsigned int i;

	for (i = 0; b->producers && i < b->nr_producers; i++)
		if (b->producers[i].task)
			kthread_stop(b->producers[i].task);
	kvfree(b->producers);
	kvfree(b->counts);
}
