// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the wheel.
 *
 * A hashed and hierarchical timing wheel, after schemes 6 and 7 of G. Varghese and A. Lauck,
 * "Hashed and hierarchical timing wheels" (1987). As in Netty's HashedWheelTimer, one worker
 * owns the buckets, and producers send requests to it through lock-free queues. (A producer is
 * any code that arms, touches, cancels or releases a timeout.) As with the timers of TCP, a
 * pending timeout can get a later deadline while it stays in its old bucket. As in Kafka, levels
 * are added when they are needed.
 *
 * Workload: many timeouts are pending, and all CPUs arm, push back and cancel them, but few
 * expire. So arm, touch and cancel have to be cheap: all cancels and most touches are a single
 * cmpxchg on the timeout's own word.
 *
 * Time: tick k begins at k * tick_ns. A timeout expires when tick DIV_ROUND_UP(deadline, tick_ns)
 * begins, which is the first one that begins at or after the deadline. So it expires less than a
 * tick late and never early. There is no other rounding, however far away the deadline is.
 *
 * One round of a level takes slots^(level + 1) ticks. A wheel spans one round of its top level:
 *
 *	tick      slots   one level     two levels    memory per level (64-bit)
 *	  1 ms      512      0.5 s        4.4 min      12 KiB
 *	  1 ms     4096      4.1 s        4.7 h        96 KiB
 *	 10 ms      512      5.1 s       44 min        12 KiB
 *	100 ms      512     51 s          7.3 h        12 KiB
 *	  1 s      4096     68 min      194 days       96 KiB
 *
 * Levels: a slot of level n is slots^n ticks wide, as wide as the whole level below it. If the
 * number of a tick is written in base @slots, digit n is the slot of the tick in level n. @cur is
 * the first tick that has not begun. A timeout is filed in the level of the highest digit in which
 * its tick differs from @cur. So a level below the top holds only the rest of its current round:
 * the slots after the slot of @cur, and in level 0 also the slot of @cur:
 *
 *	slots 10, three levels, cur 417
 *	tick 419: level 0, slot 9     tick 423: level 1, slot 2
 *	tick 500: level 2, slot 5     tick 417: level 0, slot 7
 *
 * When @cur enters a slot of a higher level, the timeouts in this slot cascade: they are filed
 * again, in lower levels, before any other timeout is filed. This keeps the timeouts of a tick in
 * the order in which they were armed, even if they were filed in different levels. The worker
 * visits a timeout that nobody touches at most once per level.
 *
 * The top level (with one level: the only one) has rounds. A timeout is filed in the slot of its
 * digit, however far away it is, so a bucket can hold timeouts of the current and of later rounds.
 * A visit of the bucket visits them all. With one level, a timeout of a later round costs a
 * comparison; with more levels it is filed again, in the same bucket.
 *
 * Each bucket stores a tick before which none of its timeouts is due. In a level below the top,
 * the first occupied slot is the nearest one, and everything in a level is due before everything
 * in the levels above it. So the first set bit in the first bitmap that is not empty leads to the
 * next event. The worker sleeps until then, without waking for the ticks and slots in between:
 * @cur moves only while the worker runs.
 *
 * Growing: in a wheel that grows, a timeout more than a round of the top level ahead waits on
 * @far, in order of arrival, until no bucket is being visited. Then the worker adds as many levels
 * as are needed, and all timeouts of the old top level cascade, followed by those on @far; this
 * keeps the order. If there is no memory, the timeouts on @far are filed in the top level, and the
 * next pass that finds such a timeout tries again.
 *
 * A timeout with the deadline WHEEL_FOREVER is on the list @never and in no bucket. If it is
 * cancelled, it stays there until it is armed again or detached, as its tick never comes.
 *
 *
 * The word of a timeout
 * ---------------------
 *
 * The word of a timeout holds its deadline and four flags:
 *
 *	ARMED	the timeout is pending: the callback will run at the deadline
 *	QUEUED	it is on a request queue, or a producer is about to push it
 *	FILED	it is in a bucket, or on one of the worker's lists
 *	DEAD	it cannot be armed again. A dead timeout needs no deadline; the lowest
 *		bit of the deadline is the flag RELEASE instead
 *
 * A request does not name an operation. It asks the worker to read the word again. The producer
 * that sets QUEUED pushes the timeout; the worker takes it from the queue and acts on the word as
 * it is then. So any number of operations between two drains cost one push, and one llist_node
 * per timeout is enough.
 *
 * These invariants hold whenever the worker is not in the middle of a step:
 *
 *  (a) ARMED implies QUEUED or FILED: the worker will visit the timeout.
 *  (b) FILED without QUEUED implies that the tick for which the timeout is filed is not after the
 *      tick of the word's deadline, ARMED or not: the worker visits the timeout in time. So a
 *      deadline can be made later without a request; making it earlier takes a request.
 *  (c) Only the worker clears QUEUED, sets or clears FILED, and accesses timeout->node and the
 *      buckets.
 *  (d) The worker runs the callback only if its cmpxchg clears ARMED and FILED together, from a
 *      word with ARMED and without QUEUED.
 *  (e) The worker does not access a timeout after the cmpxchg that leaves neither QUEUED nor
 *      FILED set. The owner may free the timeout when both flags are clear and @running is not
 *      this timeout.
 *
 * All races are decided by a cmpxchg on the word:
 *
 *  - cancel and expire: both clear ARMED, see (d). Only one of them succeeds.
 *  - touch and expire: the worker reads the word, decides, and acts by a cmpxchg from exactly
 *    the word that it read. If a touch came in between, the cmpxchg fails and the worker decides
 *    again.
 *  - arm and file: one cmpxchg clears QUEUED, sets FILED, and yields the deadline by which the
 *    worker files the timeout. If the deadline is made later after this cmpxchg, (b) holds. If
 *    it is made earlier, QUEUED is clear, so the producer pushes another request.
 *  - expire and a request that has not been drained: a timeout with QUEUED does not expire, see
 *    (d), so no callback can free it. The worker drops it from the bucket, and the next drain
 *    files it as if it were newly armed. The push came after the drain of this pass, and the
 *    worker had read the time of this pass before the drain. So the deadline was in the past at
 *    the time of the push, and the next tick is the right one.
 *  - a producer after its push: the worker may have run the callback already, and the callback
 *    may have freed the timeout. So a producer does not access a timeout that it has armed.
 *    (Before the push it may: by (e), a timeout with QUEUED is not freed.)
 *
 *
 * Sleeping
 * --------
 *
 * The worker stores in @kick_below which deadlines it has to be woken for, then checks the queues
 * once more. A producer pushes, then reads @kick_below. Both have a full barrier in between, so
 * that at least one of them sees what the other one wrote:
 *
 *	producer                           worker (wheel_prepare_sleep)
 *	  word: ARMED, QUEUED                kick_below = ...
 *	  push                               smp_mb()
 *	  (cmpxchg of the push: smp_mb())    queues empty?
 *	  deadline < kick_below?             sleep
 *
 * This is not enough if a deadline changes before the push. Producer A sets QUEUED for tick 7 and
 * is interrupted before its push. Producer B moves the timeout to tick 3, and does not push, as
 * QUEUED is set. The worker, whether B kicks it or not, finds no request and sleeps until tick 5.
 * A pushes, compares its 7 with 5, and does not kick the worker, so the timeout expires two ticks
 * late. A cannot read the word again, as the timeout may have been freed after the push. Therefore
 * each CPU counts its producers between setting QUEUED and having pushed, in @in_flight, and the
 * worker does not sleep while there is one:
 *
 *	A                    B                        worker
 *	  in_flight = 1
 *	  word: QUEUED, 7
 *	                       word: 3 (cmpxchg)
 *	                       3 < kick_below? ...
 *	                                                kick_below = 5
 *	                                                smp_mb()
 *	                                                in_flight? yes: do not sleep
 *	  push
 *	  in_flight = 0
 *
 * If B reads @kick_below after the worker has stored 5, B kicks the worker. If B reads it before,
 * the worker sees A's store to @in_flight: A's store is ordered before A's cmpxchg, which B's
 * cmpxchg sees, B's read of @kick_below is behind a full barrier, and so is the worker's read of
 * @in_flight. The worker reads @in_flight before the queue, so if it reads 0 it sees the push. The
 * section is a few instructions long and not preemptible.
 *
 * A producer that kicks the worker first sets @kick_below to 0 by xchg. So only one producer
 * kicks, and the others see that the worker is awake or has been kicked.
 *
 * Arming a timeout that was cancelled but is still FILED, for a later deadline, takes no request,
 * but kicks the worker by the same rule. Before the worker sleeps without an end because nothing
 * is pending, it sums up the counts of pending timeouts once more, behind the same smp_mb(). A
 * producer counts a timeout as armed before the cmpxchg that sets ARMED.
 *
 * How long the worker sleeps: if timeouts were armed since it last went to sleep, at most
 * WHEEL_DRAIN_NS, and only an arm for an earlier deadline than the end of this sleep kicks it.
 * Otherwise until something is due, or without an end if nothing is pending, and any arm kicks it.
 *
 * How many requests may wait: every WHEEL_DEPTH-th request of a CPU kicks the worker. Timeouts
 * that were armed a moment ago are still in the caches. After 100,000 others they are not, and the
 * worker would miss the cache twice per timeout, as the queue is a linked list. This also limits
 * how many requests the worker has to drain before it can expire what is due.
 *
 *
 * Releasing
 * ---------
 *
 * Released timeouts need not be handled in order, and there may be a million at once. So each CPU
 * has a separate queue for them, and the worker serves these queues in turn, with the budget that
 * is left after drain and expiry. If a timeout has QUEUED set when it is released, it comes by the
 * request queue instead, and the worker puts it aside until the release functions are called.
 * QUEUED stays set until then. So release functions never run inside a callback.
 *
 *
 * Waiting
 * -------
 *
 * wheel_end_sync() adds itself to a table of waiters, hashed by the address of the timeout, then
 * reads the word. After the worker has handled a request, and after each callback, it checks
 * whether there are waiters. Both have a full barrier in between, so that at least one of them
 * sees what the other one wrote.
 *
 * The worker also checks for waiters before it claims a timeout. If there is one for this timeout,
 * the worker cancels the timeout on behalf of the waiter. Otherwise a callback that arms its own
 * timeout for the past, and runs for longer than a tick, could keep the waiter waiting forever.
 * After a waiter has added itself, at most one more callback of the timeout begins: one that the
 * worker was just about to claim.
 *
 *
 * Stop
 * ----
 *
 * Arming checks @state and pushes within one non-preemptible section. wheel_shutdown() sets
 * SHUTDOWN and waits for a grace period (synchronize_rcu() waits for such sections, too); after
 * that, nothing is armed. Requests to detach or release a timeout are still pushed until
 * wheel_sweep() has emptied the wheel and set STOPPED. A second grace period and a last drain
 * follow.
 */
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/bottom_half.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/irqflags.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/prefetch.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <kunit/visibility.h>

#include "debug/odebug.h"
#include "debug/trace.h"
#include "hwtimer_step.h"
#include "hwtimer_wheel.h"

/*
 * A cmpxchg of a word has to be a full barrier. lib/atomic64.c, for processors without a 64-bit
 * one, takes a spinlock instead. That is no full barrier: a store before it and a load after it may
 * change places.
 */
#if defined(CONFIG_SMP) && defined(CONFIG_GENERIC_ATOMIC64)
#error "hwtimer needs a processor with a 64-bit cmpxchg"
#endif

#define WORD_ARMED	BIT_ULL(0)
#define WORD_QUEUED	BIT_ULL(1)
#define WORD_FILED	BIT_ULL(2)
#define WORD_DEAD	BIT_ULL(3)
#define WORD_SHIFT	4
#define WORD_RELEASE	BIT_ULL(WORD_SHIFT)	/* with WORD_DEAD */

#define WORD_HELD	(WORD_QUEUED | WORD_FILED)

static_assert(U64_MAX >> WORD_SHIFT == WHEEL_FOREVER);

/* wheel_advance() goes through these in turn. */
enum wheel_stage {
	STAGE_REST,	/* the pass is over */
	STAGE_DRAIN,	/* requests are being taken over */
	STAGE_SETTLE,	/* ticks up to the target are being settled */
};

/**
 * struct wheel_survey - somebody wants to know what is in the buckets
 * @level: of which level
 * @first: first bucket
 * @n: how many buckets
 * @at: how many of them the worker has finished
 * @left: at how many timeouts of this bucket it may look yet: as many as were filed in the whole
 *	wheel when it began with the bucket
 * @fn: called for each timeout in them
 * @arg: for @fn
 * @done: the survey is over
 */
struct wheel_survey {
	unsigned int		level;
	unsigned int		first;
	unsigned int		n;
	unsigned int		at;
	unsigned long		left;
	wheel_survey_fn		fn;
	void			*arg;
	struct completion	done;
};

/**
 * struct wheel_waiter - a task that waits until the worker has let go of a timeout
 * @node: in the table
 * @t: the timeout
 * @ended: the worker cancelled an arming of @t for this task
 * @woken: the worker has let go of @t or filed it anew, or its callback has returned
 */
struct wheel_waiter {
	struct hlist_node	node;
	struct hwtimer_timeout	*t;
	bool			ended;
	struct completion	woken;
};

#define WAITER_BITS	8

/*
 * The waiters of all wheels, by the address of their timeout: the worker finds those of one
 * timeout without a look at most others. After wait_bit.c's table. Raw locks, as they are held for
 * a few instructions: on PREEMPT_RT the worker would otherwise sleep for its turn.
 */
static struct wheel_waiters {
	raw_spinlock_t		lock;
	struct hlist_head	list;
} waiters_table[BIT(WAITER_BITS)];

/**
 * wheel_module_init - prepare what all wheels share
 */
void __init wheel_module_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(waiters_table); i++)
		raw_spin_lock_init(&waiters_table[i].lock);
}

static struct wheel_waiters *waiters_of(const struct hwtimer_timeout *t)
{
	return &waiters_table[hash_ptr(t, WAITER_BITS)];
}

static bool releasing(u64 word)
{
	return (word & (WORD_DEAD | WORD_RELEASE)) == (WORD_DEAD | WORD_RELEASE);
}

static u64 word_deadline(u64 word)
{
	return word >> WORD_SHIFT;
}

/* The tick at whose boundary @deadline has passed: rounds up, never early. */
static u64 deadline_tick(const struct hwtimer_wheel *w, u64 deadline)
{
	return div64_u64(deadline + w->tick_ns - 1, w->tick_ns);
}

/*
 * Counts of the worker's are written by it alone and read by wheel_count()
 * whenever somebody looks.
 */
static void count(unsigned long *counter)
{
	WRITE_ONCE(*counter, *counter + 1);
}

static void uncount(unsigned long *counter)
{
	WRITE_ONCE(*counter, *counter - 1);
}

static bool take_place(struct hwtimer_wheel *w)
{
	/* places never exceeds cap, so "unless equal" is "while below" */
	return !w->cap || atomic_long_add_unless(&w->places, 1, w->cap);
}

static void leave_place(struct hwtimer_wheel *w)
{
	if (w->cap)
		atomic_long_dec(&w->places);
}

/*
 * Wake the worker if it sleeps beyond @deadline. Called behind the full barrier
 * of the cmpxchg that made the request or armed the timeout: pairs with the
 * smp_mb() in wheel_prepare_sleep().
 */
static void kick_worker(struct hwtimer_wheel *w, struct wheel_queue *q, u64 deadline)
{
	unsigned long flags;

	hwtimer_step();
	if (deadline >= (u64)atomic64_read(&w->kick_below))
		return;
	/*
	 * From the exchange on others see 0 and rely on us, so interrupts are off until we have
	 * kicked. A hypervisor that takes the CPU away makes them late, as it does those who
	 * wait for a spinlock.
	 */
	local_irq_save(flags);
	if (atomic64_xchg(&w->kick_below, 0)) {
		hwtimer_step();
		local_inc(&q->kicks);
		w->ops->kick(w);
	}
	local_irq_restore(flags);
}

/*
 * Change @t's word from *@old to @new, and push @t if that turns QUEUED on.
 * False, with *@old updated, if the word is another one by now. Not preemptible.
 * If it succeeds, @t may be gone. @q: this CPU's.
 */
static __always_inline bool
change_and_push(struct hwtimer_wheel *w, struct wheel_queue *q, struct hwtimer_timeout *t,
		u64 *old, u64 new)
{
	bool push = new & ~*old & WORD_QUEUED;
	bool changed;

	if (!push)
		return atomic64_try_cmpxchg(&t->word, (s64 *)old, new);

	/* Before the cmpxchg, a full barrier: who sees QUEUED sees this. */
	local_inc(&q->in_flight);
	hwtimer_step();
	changed = atomic64_try_cmpxchg(&t->word, (s64 *)old, new);
	if (changed) {
		if (!(*old & WORD_HELD))
			hwtimer_odebug_activate(t);
		hwtimer_step_stall();
		llist_add(&t->request, releasing(new) ? &q->released : &q->requests);
		hwtimer_step();
	}
	/*
	 * After the push, whose cmpxchg is a full barrier: who sees the count
	 * down sees the request. Pairs with smp_rmb() in requested().
	 */
	local_dec(&q->in_flight);
	if (changed && !(local_inc_return(&q->pushed) % WHEEL_DEPTH))
		kick_worker(w, q, 0);
	return changed;
}

/* Take a place below the cap, and count the timeout as armed. */
static bool book(struct hwtimer_wheel *w, struct wheel_queue *q)
{
	hwtimer_step();
	if (!take_place(w))
		return false;
	local_inc(&q->armed);
	return true;
}

/* What arm() returns for a timeout whose word is @old. 0: a place is booked for it. */
static __always_inline int
may_arm(struct hwtimer_wheel *w, struct wheel_queue *q, u64 old, bool pending_only, bool *booked)
{
	if (old & WORD_ARMED)
		return 1;
	if (old & WORD_DEAD)
		return -ESHUTDOWN;
	if (pending_only)
		return -ENOENT;
	/* Counted before it is armed, so that pending is never too low. */
	if (!*booked && !book(w, q))
		return -EAGAIN;
	*booked = true;
	return 0;
}

static __always_inline int arm(struct hwtimer_timeout *t, u64 deadline, bool pending_only)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	bool booked = false, sooner;
	struct wheel_queue *q;
	u64 old, new;
	int ret = -ESHUTDOWN;

	deadline = min(deadline, WHEEL_FOREVER);
	/* One section from the look at the state to the push; see "Stop". */
	preempt_disable();
	if (unlikely(READ_ONCE(w->state) >= WHEEL_SHUTDOWN))
		goto out;

	q = this_cpu_ptr(w->queues);
	hwtimer_step_stall();
	old = atomic64_read(&t->word);
	for (;;) {
		ret = may_arm(w, q, old, pending_only, &booked);
		if (unlikely(ret == -EAGAIN)) {
			new = atomic64_read(&t->word);
			if (new == old) {
				local_inc(&q->rejected);
				goto out;
			}
			/* Somebody armed it with the last place? */
			old = new;
			continue;
		}
		if (unlikely(ret < 0))
			goto undo;
		sooner = (!ret && !(old & WORD_FILED)) || deadline < word_deadline(old);
		new = deadline << WORD_SHIFT | (old & WORD_HELD) | WORD_ARMED;
		if (sooner)
			new |= WORD_QUEUED;
		hwtimer_step();
		if (change_and_push(w, q, t, &old, new))
			break;
	}

	/* @t may have expired and be gone by now. */
	if (sooner && (old & WORD_QUEUED))
		local_inc(&q->coalesced);
	if (ret)
		local_inc(&q->touched);
	else if (unlikely(READ_ONCE(w->state) == WHEEL_INIT))
		cmpxchg(&w->state, WHEEL_INIT, WHEEL_STARTED);
	if (sooner || !ret)
		kick_worker(w, q, deadline);
	if (!ret)
		goto out;
undo:
	/* Somebody else armed it, or ended it, in between. */
	if (booked) {
		local_dec(&q->armed);
		leave_place(w);
	}
out:
	preempt_enable();
	return ret;
}

/* What @running is while the callback of @t runs, if @t was initialised meanwhile. */
static struct hwtimer_timeout *renewed(const struct hwtimer_timeout *t)
{
	return (void *)((uintptr_t)t | 1);
}

static struct hwtimer_timeout *whose(struct hwtimer_timeout *running)
{
	return (void *)((uintptr_t)running & ~1UL);
}

/*
 * Does @w hold what is in the place of @t? That may be anything, as nobody has to
 * clear memory before it becomes a timeout. But it has both the address of this
 * wheel and one of these flags only if the wheel holds it, it is a copy of a timeout
 * that the wheel holds, or it was freed while the wheel held it: all are mistakes. A
 * timeout that was ended as it should has no such flag any more, be it on the stack or
 * in a slab. Reads what may be uninitialised.
 */
static bool __no_kmsan_checks seems_held(const struct hwtimer_timeout *t,
					 const struct hwtimer_wheel *w)
{
	return READ_ONCE(t->wheel) == w && atomic64_read(&t->word) & WORD_HELD;
}

/**
 * wheel_timeout_init - prepare a timeout
 * @t: not armed, and not held by a wheel. If it is nevertheless: warns, and leaves it
 *	as it is
 * @w: the wheel it will be armed on
 * @fn: what it calls
 */
void wheel_timeout_init(struct hwtimer_timeout *t, struct hwtimer_wheel *w,
			hwtimer_fn_t fn)
{
	if (!hwtimer_odebug_init(t))
		return;
	if (seems_held(t, w)) {
		WARN_ONCE(1, "hwtimer: initialised while the wheel holds it: %ps\n", t->fn);
		return;
	}
	/*
	 * Either its own callback initialises it, or a callback has freed a timeout, still runs,
	 * and this is a new one at the same address. Others who wait for this address must
	 * wait for that callback; the callback itself must not.
	 */
	if (unlikely(READ_ONCE(w->running) == t))
		cmpxchg(&w->running, t, renewed(t));
	INIT_LIST_HEAD(&t->node);
	atomic64_set(&t->word, 0);
	t->fn = fn;
	t->wheel = w;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_timeout_init);

/**
 * wheel_arm - make a timeout pending, or give a pending one another deadline
 * @t: the timeout
 * @deadline: in ns since the wheel began; WHEEL_FOREVER and later: never
 *
 * Return: 0 if it was not pending, 1 if it was, -EAGAIN at the cap, -ESHUTDOWN
 * if the wheel was shut down or @t killed or released.
 */
int wheel_arm(struct hwtimer_timeout *t, u64 deadline)
{
	return arm(t, deadline, false);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_arm);

/**
 * wheel_touch - give a pending timeout another deadline
 * @t: the timeout
 * @deadline: as for wheel_arm()
 *
 * Return: 0, -ENOENT if it is not pending, -ESHUTDOWN as for wheel_arm().
 */
int wheel_touch(struct hwtimer_timeout *t, u64 deadline)
{
	int ret = arm(t, deadline, true);

	return min(ret, 0);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_touch);

/*
 * Clear ARMED and set @also. The timeout stays where it is; the worker drops it
 * when it comes by, or it is armed again before that.
 */
static bool disarm(struct hwtimer_timeout *t, u64 also)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	u64 old, new;

	/* One section: the wheel is not freed before we have counted. */
	preempt_disable();
	old = atomic64_read_acquire(&t->word);
	do {
		hwtimer_step();
		if (old & WORD_DEAD || !(old & WORD_ARMED || also))
			break;
		new = old & ~WORD_ARMED;
		if (also)
			new = (old & WORD_HELD) | also;
	} while (!atomic64_try_cmpxchg(&t->word, (s64 *)&old, new));
	if (old & WORD_ARMED) {
		hwtimer_step();
		local_inc(&this_cpu_ptr(w->queues)->cancelled);
		leave_place(w);
	}
	preempt_enable();
	return old & WORD_ARMED;
}

/**
 * wheel_cancel - end a pending timeout
 * @t: the timeout
 *
 * Return: true if the callback of this arming will never run.
 */
bool wheel_cancel(struct hwtimer_timeout *t)
{
	return disarm(t, 0);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_cancel);

/**
 * wheel_kill - end a pending timeout, and let nobody arm it again
 * @t: the timeout
 *
 * Return: as wheel_cancel().
 */
bool wheel_kill(struct hwtimer_timeout *t)
{
	return disarm(t, WORD_DEAD);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_kill);

/**
 * wheel_detach - ask the worker to let go of a timeout that is not armed
 * @t: the timeout
 *
 * When it has, wheel_holds() is false and who waits in wheel_end_sync() is woken.
 */
void wheel_detach(struct hwtimer_timeout *t)
{
	struct hwtimer_wheel *w = t->wheel;
	struct wheel_queue *q;
	u64 old;

	preempt_disable();
	if (READ_ONCE(w->state) < WHEEL_STOPPED) {
		q = this_cpu_ptr(w->queues);
		hwtimer_step_stall();
		old = atomic64_read(&t->word);
		/* QUEUED alone: the worker comes by. Neither: it has nothing. */
		while ((old & WORD_HELD) == WORD_FILED &&
		       !change_and_push(w, q, t, &old, old | WORD_QUEUED))
			;
		if (old & WORD_HELD)
			kick_worker(w, q, 0);
	}
	preempt_enable();
}
EXPORT_SYMBOL_IF_KUNIT(wheel_detach);

/**
 * wheel_release - end a timeout for good, and be told when it may be freed
 * @t: the timeout, not released before
 * @released: called once with @t, by the worker or, on a stopped wheel, right
 *	here; when the wheel does not hold @t and its callback does not run
 *
 * Return: as wheel_cancel().
 */
bool wheel_release(struct hwtimer_timeout *t, hwtimer_released_fn_t released)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	bool cancelled = wheel_kill(t);
	struct wheel_queue *q;
	bool stopped;
	u64 old;

	/*
	 * Nobody arms it from here on, so fn is ours: the worker reads it before
	 * the cmpxchg that claims an armed timeout, which fails now, and again
	 * when it has seen RELEASE.
	 */
	WRITE_ONCE(t->fn, released);

	preempt_disable();
	/* Pairs with wheel_sweep(): all that callbacks did is visible. */
	stopped = smp_load_acquire(&w->state) >= WHEEL_STOPPED;
	if (!stopped) {
		q = this_cpu_ptr(w->queues);
		hwtimer_step_stall();
		old = atomic64_read(&t->word);
		while (!change_and_push(w, q, t, &old,
					old | WORD_RELEASE | WORD_QUEUED))
			;
		kick_worker(w, q, 0);
		WARN_ONCE(old & WORD_RELEASE, "hwtimer: %ps released twice\n",
			  released);
	}
	preempt_enable();

	if (stopped)
		released(t);
	return cancelled;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_release);

/**
 * wheel_pending - is this timeout armed?
 * @t: the timeout
 *
 * Return: true if it is; it may have ended by the time the caller looks.
 */
bool wheel_pending(const struct hwtimer_timeout *t)
{
	return atomic64_read(&t->word) & WORD_ARMED;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_pending);

/**
 * wheel_deadline - when is this timeout due?
 * @t: a pending timeout
 *
 * Return: in ns since the wheel began.
 */
u64 wheel_deadline(const struct hwtimer_timeout *t)
{
	return word_deadline(atomic64_read(&t->word));
}
EXPORT_SYMBOL_IF_KUNIT(wheel_deadline);

/**
 * wheel_holds - may the worker still touch this timeout?
 * @t: a timeout that nobody arms meanwhile, but its callback
 *
 * Return: false if it is on no queue, in no bucket, and its callback, if it
 * ran, has returned and all it did is visible.
 */
bool wheel_holds(const struct hwtimer_timeout *t)
{
	const struct hwtimer_wheel *w = t->wheel;
	unsigned long expired;

	do {
		/*
		 * Counted after running is set and before the callback: one that began
		 * and ended while we looked, and may have armed it, has us look again.
		 */
		expired = smp_load_acquire(&w->expired);
		/*
		 * A callback that began before that read. Looked for before the word is read, or
		 * it could return in between, unseen.
		 */
		if (whose(smp_load_acquire(&w->running)) == t)
			return true;
		hwtimer_step();
		/*
		 * The worker sets running before the cmpxchg that clears the flags, so
		 * who sees them clear by the acquire sees running.
		 */
		if (atomic64_read_acquire(&t->word) & WORD_HELD)
			return true;
		hwtimer_step();
		/* Pairs with the worker's release after the callback. */
		if (whose(smp_load_acquire(&w->running)) == t)
			return true;
	} while (READ_ONCE(w->expired) != expired);
	return false;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_holds);

/* From here on: the worker. */

/* How many ticks a slot of this level is wide, as a power of two. */
static unsigned int level_shift(const struct hwtimer_wheel *w, unsigned int level)
{
	return level * w->slot_bits;
}

/* The index, in its level, of slot @number, counted from tick 0. */
static unsigned int slot_of(const struct hwtimer_wheel *w, u64 number)
{
	return number & (w->slots - 1);
}

/* Is @tick, not before cur, more than a round of the top level away? */
static bool beyond(const struct hwtimer_wheel *w, u64 tick)
{
	unsigned int shift = level_shift(w, w->levels - 1);

	return (tick >> shift) - (w->cur >> shift) >= w->slots;
}

/* The highest digit in which @tick and cur differ, as far as there are levels. */
static unsigned int level_of(const struct hwtimer_wheel *w, u64 tick)
{
	u64 differ = tick ^ w->cur;

	if (w->levels == 1 || differ < w->slots)
		return 0;
	return min((fls64(differ) - 1) / w->slot_bits, w->levels - 1);
}

/* Out of line, so that place() saves no registers for it while nobody traces. */
static noinline void place_traced(struct hwtimer_wheel *w, struct hwtimer_timeout *t, u64 tick)
{
	trace_hwtimer_file(t, w, tick, level_of(w, tick));
}

/* Into the bucket of @tick, not before cur. */
static void place(struct hwtimer_wheel *w, struct hwtimer_timeout *t, u64 tick)
{
	unsigned int level = level_of(w, tick), i;
	struct wheel_bucket *b;

	if (trace_hwtimer_file_enabled())
		place_traced(w, t, tick);
	i = slot_of(w, tick >> level_shift(w, level));
	b = &w->level[level].buckets[i];
	if (__test_and_set_bit(i, w->level[level].occupied)) {
		b->next = min(b->next, tick);
	} else {
		INIT_LIST_HEAD(&b->timeouts);
		b->next = tick;
	}
	list_add_tail(&t->node, &b->timeouts);
}

static void file(struct hwtimer_wheel *w, struct hwtimer_timeout *t, u64 deadline)
{
	u64 tick;

	count(&w->filed);
	if (unlikely(deadline == WHEEL_FOREVER)) {
		list_add_tail(&t->node, &w->never);
		return;
	}
	/* Ticks before cur are over: what was due then is filed for cur. */
	tick = max(deadline_tick(w, deadline), w->cur);
	if (unlikely(w->may_grow && beyond(w, tick))) {
		w->far_tick = max(w->far_tick, tick);
		list_add_tail(&t->node, &w->far);
		return;
	}
	place(w, t, tick);
}

/* If @head is that of a bucket, the bucket is empty from now on. */
static void mark_empty(struct hwtimer_wheel *w, const struct list_head *head)
{
	const size_t size = w->slots * sizeof(struct wheel_bucket);
	struct wheel_level *l;
	uintptr_t offset;

	for (l = w->level; l < w->level + w->levels; l++) {
		offset = (uintptr_t)head - (uintptr_t)l->buckets;
		if (offset < size) {
			__clear_bit(offset / sizeof(struct wheel_bucket), l->occupied);
			return;
		}
	}
}

static void unfile(struct hwtimer_wheel *w, struct hwtimer_timeout *t)
{
	/* The same neighbour on both sides is the head: @t was the last one. */
	if (t->node.next == t->node.prev)
		mark_empty(w, t->node.next);
	list_del(&t->node);
	uncount(&w->filed);
}

static noinline void wake_each(const struct hwtimer_timeout *t)
{
	struct wheel_waiters *waiters = waiters_of(t);
	struct wheel_waiter *waiter;
	unsigned long flags;

	raw_spin_lock_irqsave(&waiters->lock, flags);
	hlist_for_each_entry(waiter, &waiters->list, node)
		if (waiter->t == t)
			complete(&waiter->woken);
	raw_spin_unlock_irqrestore(&waiters->lock, flags);
}

/*
 * Wake those who wait for @t, of which only the address is used. The caller has a full barrier
 * between the change that they wait for and this; it pairs with the one in wheel_end_sync().
 */
static __always_inline void wake_waiters(struct hwtimer_wheel *w, const struct hwtimer_timeout *t)
{
	hwtimer_step();
	if (unlikely(atomic_read(&w->waiters)))
		wake_each(t);
}

/*
 * The worker changes @t's word from *@old to @new. False, with *@old updated, if
 * the word is another one by now. If it succeeds and @new is not held, @t may be gone;
 * so debugobjects is told before.
 */
static bool change(struct hwtimer_timeout *t, u64 *old, u64 new)
{
	hwtimer_step();
	if (!(new & WORD_HELD))
		hwtimer_odebug_deactivate(t);
	if (atomic64_try_cmpxchg(&t->word, (s64 *)old, new))
		return true;
	if (!(new & WORD_HELD))
		hwtimer_odebug_activate(t);
	return false;
}

/*
 * @t, whose word was *@old, is due. If somebody waits for its end, cancel it in his name: else
 * its callback could arm it again and again, and he would wait for ever. True if *@old is
 * another one now.
 */
static noinline bool cancel_for_waiter(struct hwtimer_wheel *w, struct hwtimer_timeout *t, u64 *old)
{
	struct wheel_waiters *waiters = waiters_of(t);
	struct wheel_waiter *waiter;
	bool changed = false, found = false;
	unsigned long flags;

	raw_spin_lock_irqsave(&waiters->lock, flags);
	hlist_for_each_entry(waiter, &waiters->list, node) {
		if (waiter->t != t)
			continue;
		found = true;
		while (!changed && (*old & (WORD_ARMED | WORD_QUEUED)) == WORD_ARMED)
			changed = atomic64_try_cmpxchg(&t->word, (s64 *)old, *old & ~WORD_ARMED);
		/* Under the lock he does not return. */
		waiter->ended |= changed;
		break;
	}
	raw_spin_unlock_irqrestore(&waiters->lock, flags);
	if (changed) {
		*old &= ~WORD_ARMED;
		preempt_disable();
		local_inc(&this_cpu_ptr(w->queues)->cancelled);
		preempt_enable();
		leave_place(w);
	}
	return found;
}

/* Handle the request of @t: file it, let go of it, or put it aside. */
static void handle_request(struct hwtimer_wheel *w, struct hwtimer_timeout *t)
{
	u64 old = atomic64_read(&t->word), new;
	bool filed = old & WORD_FILED;

	do {
		if (old & WORD_ARMED) {
			new = (old & ~WORD_QUEUED) | WORD_FILED;
		} else {
			/* Off its list first: behind the cmpxchg it is not ours. */
			if (filed)
				unfile(w, t);
			filed = false;
			new = old & ~WORD_HELD;
			if (releasing(old))
				new |= WORD_QUEUED;
		}
	} while (!change(t, &old, new));

	hwtimer_step();
	count(&w->drained);
	if (new & WORD_FILED) {
		/* FILED is set, so it stays ours; see (b) for later deadlines. */
		if (filed)
			unfile(w, t);
		file(w, t, word_deadline(new));
	} else if (new & WORD_QUEUED) {
		/* Not now: its callback, or somebody else's, may be running. */
		t->request.next = w->aside;
		w->aside = &t->request;
		return;
	}
	/* Also if it was armed meanwhile: who waits for its end ends it again. */
	wake_waiters(w, t);
}

/* Let go of the released timeout @t, and call its release function. */
static void call_released(struct hwtimer_wheel *w, struct hwtimer_timeout *t)
{
	u64 old = atomic64_read(&t->word);
	hwtimer_released_fn_t released = READ_ONCE(t->fn);

	count(&w->drained);
	/* It is dead, and QUEUED: nobody changes the word but us. */
	if (old & WORD_FILED)
		unfile(w, t);
	hwtimer_odebug_deactivate(t);
	hwtimer_step();
	atomic64_andnot(WORD_HELD, &t->word);
	/* Before the look at the waiters. */
	smp_mb__after_atomic();
	wake_waiters(w, t);
	if (w->ops->softirq)
		local_bh_disable();
	lock_map_acquire(&w->callback_map);
	released(t);
	lock_map_release(&w->callback_map);
	if (w->ops->softirq)
		local_bh_enable();
}

/* A round is over. If the question came before the pass in which it began, answer. */
static void answer_barrier(struct hwtimer_wheel *w)
{
	struct completion *asked = w->answers;

	if (likely(!asked))
		return;
	w->answers = NULL;
	w->asked = NULL;
	WRITE_ONCE(w->barrier, NULL);
	complete(asked);
}

/*
 * Call what was released. That has time: after all else, and one after the other with the
 * budget that is left, so that somebody who ends a million timeouts does not hold up those of
 * others. Never inside a callback.
 *
 * In rounds: what was put aside, then all that the first CPU has released up to its turn, then
 * the next CPU. What a CPU releases after its turn waits for the next round, so each round ends.
 * It answers wheel_barrier() if that was asked before the pass in which the round began. False if
 * the budget ran out first; the next call goes on with the round.
 */
static bool release_some(struct hwtimer_wheel *w, unsigned int *budget)
{
	unsigned int cpu = w->release_cpu;
	struct llist_node *node;
	struct wheel_queue *q;

	if (cpu >= nr_cpu_ids && !w->to_release) {
		cpu = cpumask_first(cpu_possible_mask);
		w->to_release = w->aside;
		w->aside = NULL;
		w->answers = w->asked;
	}
	for (;;) {
		while (w->to_release) {
			if (!*budget) {
				w->release_cpu = cpu;
				return false;
			}
			--*budget;
			node = w->to_release;
			w->to_release = node->next;
			call_released(w, llist_entry(node, struct hwtimer_timeout, request));
		}
		if (cpu >= nr_cpu_ids)
			break;
		q = per_cpu_ptr(w->queues, cpu);
		cpu = cpumask_next(cpu, cpu_possible_mask);
		if (!llist_empty(&q->released))
			w->to_release = llist_del_all(&q->released);
	}
	w->release_cpu = cpu;
	answer_barrier(w);
	return true;
}

/* False if the budget ran out. */
static bool drain(struct hwtimer_wheel *w, unsigned int *budget)
{
	struct wheel_queue *q;
	struct llist_node *node;

	for (;;) {
		/* The last push comes first; turn them round. */
		while (w->pushed) {
			if (!*budget)
				return false;
			--*budget;
			node = w->pushed;
			w->pushed = node->next;
			node->next = w->taken;
			w->taken = node;
		}
		while (w->taken) {
			if (!*budget)
				return false;
			--*budget;
			node = w->taken;
			w->taken = node->next;
			handle_request(w, llist_entry(node, struct hwtimer_timeout,
						      request));
		}
		if (w->drain_cpu >= nr_cpu_ids)
			return true;
		q = per_cpu_ptr(w->queues, w->drain_cpu);
		w->drain_cpu = cpumask_next(w->drain_cpu, cpu_possible_mask);
		/* All at once: producers cannot keep us here for ever. */
		if (!llist_empty(&q->requests))
			w->pushed = llist_del_all(&q->requests);
	}
}

static void drain_restart(struct hwtimer_wheel *w)
{
	w->drain_cpu = cpumask_first(cpu_possible_mask);
}

/**
 * wheel_drain_all - take over every request there is
 * @w: the wheel
 *
 * For the worker only; also from inside a callback. May sleep.
 */
void wheel_drain_all(struct hwtimer_wheel *w)
{
	unsigned int budget;

	drain_restart(w);
	do {
		budget = WHEEL_BUDGET;
		cond_resched();
	} while (!drain(w, &budget));
}
EXPORT_SYMBOL_IF_KUNIT(wheel_drain_all);

/* End @t and have the worker let go of it. */
static bool end_and_detach(struct hwtimer_timeout *t, wheel_end_fn end)
{
	bool ended = end(t);

	hwtimer_step();
	wheel_detach(t);
	return ended;
}

/**
 * wheel_end_sync - end a timeout and wait until the worker has let go of it
 * @t: the timeout
 * @end: wheel_cancel() or wheel_kill()
 * @patience: how long to wait at the most, in jiffies; MAX_SCHEDULE_TIMEOUT
 *
 * If the callback arms @t again meanwhile, that is cancelled, by the caller or by the worker;
 * what others arm meanwhile may be. After the caller has begun to wait one more callback begins at
 * the most, one that the worker was just about to claim. Process context, may sleep; not for
 * callbacks of the wheel, see wheel_end_here().
 *
 * Return: true if @t was pending, once at least.
 */
bool wheel_end_sync(struct hwtimer_timeout *t, wheel_end_fn end, unsigned long patience)
{
	struct wheel_waiters *waiters = waiters_of(t);
	struct hwtimer_wheel *w = timeout_wheel(t);
	struct wheel_waiter self = { .t = t };
	unsigned long flags;
	bool ended = false;

	init_completion(&self.woken);
	raw_spin_lock_irqsave(&waiters->lock, flags);
	hlist_add_head(&self.node, &waiters->list);
	raw_spin_unlock_irqrestore(&waiters->lock, flags);
	atomic_inc(&w->waiters);
	/*
	 * The worker looks at @waiters after it has handled a request, after each callback, and
	 * before each claim, with a full barrier in between. Either it sees us, or
	 * we see what it did.
	 */
	smp_mb__after_atomic();

	do {
		ended |= end_and_detach(t, end);
	} while (wheel_holds(t) &&
		 (patience = wait_for_completion_timeout(&self.woken, patience)));

	atomic_dec(&w->waiters);
	raw_spin_lock_irqsave(&waiters->lock, flags);
	hlist_del(&self.node);
	raw_spin_unlock_irqrestore(&waiters->lock, flags);
	return ended || self.ended;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_end_sync);

/**
 * wheel_end_here - end a timeout and let go of it, by a callback of its wheel
 * @t: another timeout, or the callback's own if it was initialised anew
 * @end: wheel_cancel() or wheel_kill()
 *
 * Does not wait for a timeout that was released: its release function is called when this callback
 * has returned. Process context, may sleep.
 *
 * Return: as wheel_end_sync().
 */
bool wheel_end_here(struct hwtimer_timeout *t, wheel_end_fn end)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	bool ended = end_and_detach(t, end);
	u64 word;

	/* Nobody but us lets go of it. */
	while ((word = atomic64_read(&t->word)) & WORD_HELD && !releasing(word)) {
		/* Somebody else may be about to push it, and is not preemptible. */
		cpu_relax();
		wheel_drain_all(w);
		ended |= end_and_detach(t, end);
	}
	return ended;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_end_here);

static void expire(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		   hwtimer_fn_t fn, u64 deadline)
{
	hwtimer_step();
	/* Before the callback: it finds its own place free. */
	count(&w->expired);
	leave_place(w);
	lock_map_acquire(&w->callback_map);
	w->ops->expire(w, t, fn, deadline);
	lock_map_release(&w->callback_map);
	hwtimer_step();
	/* Pairs with wheel_holds(). */
	smp_store_release(&w->running, NULL);
	/* Before the look at the waiters. */
	smp_mb();
	wake_waiters(w, t);
}

/* Decide about a timeout that was taken from the bucket of now_tick. */
static void settle(struct hwtimer_wheel *w, struct hwtimer_timeout *t)
{
	u64 end = w->now_tick * w->tick_ns;
	u64 old = atomic64_read(&t->word), new;
	hwtimer_fn_t fn;

	/* The next one comes while the callback runs and the clock is read. */
	prefetchw(t->node.next);
	list_del(&t->node);
	uncount(&w->filed);
	/* With one level, visit() has. */
	if (w->levels > 1)
		count(&w->visits);
	for (;;) {
		fn = NULL;
		if (old & WORD_ARMED && word_deadline(old) > end) {
			/* It was touched. FILED stays set, so it is still ours. */
			count(&w->refiled);
			file(w, t, word_deadline(old));
			break;
		}
		/* Not armed: dropped. Armed and queued: the drain files it anew. */
		new = old & ~WORD_FILED;
		if ((old & (WORD_ARMED | WORD_QUEUED)) == WORD_ARMED) {
			/* After a callback that armed it, expire() had a full barrier. */
			if (unlikely(atomic_read(&w->waiters)) && cancel_for_waiter(w, t, &old))
				continue;
			/* Both before the cmpxchg; see wheel_holds(), wheel_release(). */
			fn = READ_ONCE(t->fn);
			WRITE_ONCE(w->running, t);
			new &= ~WORD_ARMED;
		}
		if (change(t, &old, new))
			break;
	}

	if (fn) {
		expire(w, t, fn, word_deadline(old));
		return;
	}
	w->in_row = false;
	if (READ_ONCE(w->running)) {
		/* Was about to claim it. Pairs with wheel_holds(). */
		smp_store_release(&w->running, NULL);
		/* Before the look at the waiters. */
		smp_mb();
	} else if (old & WORD_ARMED) {
		/* It was filed anew, or will be. */
		return;
	}
	wake_waiters(w, t);
}

/* Move all that is in a bucket to @list. */
static void empty_bucket(struct hwtimer_wheel *w, struct wheel_level *l, unsigned int i,
			 struct list_head *list)
{
	struct wheel_survey *s = w->surveyed;

	if (unlikely(s) && l == &w->level[s->level] && i == s->first + s->at) {
		/* The survey goes on with the next bucket. */
		list_del_init(&w->place);
		s->at++;
	}
	if (__test_and_clear_bit(i, l->occupied))
		list_splice_tail(&l->buckets[i].timeouts, list);
}

/*
 * Time moves on. What is in the slot that @tick enters falls, and has fallen before
 * anything else is filed. All levels below that of the slot are empty. So are the slots that
 * are passed over, except for overdue ones in the top level.
 */
static void move_to(struct hwtimer_wheel *w, u64 tick)
{
	unsigned int level = level_of(w, tick);

	w->cur = tick;
	if (level)
		empty_bucket(w, &w->level[level], slot_of(w, tick >> level_shift(w, level)),
			     &w->cascading);
}

/* File anew what falls, but for what was cancelled. False if the budget ran out. */
static bool cascade(struct hwtimer_wheel *w, unsigned int *budget)
{
	struct hwtimer_timeout *t;
	u64 old;

	while (!list_empty(&w->cascading)) {
		if (!*budget)
			return false;
		--*budget;
		w->in_row = false;
		t = list_first_entry(&w->cascading, struct hwtimer_timeout, node);
		list_del(&t->node);
		uncount(&w->filed);
		count(&w->visits);
		old = atomic64_read(&t->word);
		/* As in settle(): armed, it is still ours; see (b). */
		while (!(old & WORD_ARMED) && !change(t, &old, old & ~WORD_FILED))
			;
		if (old & WORD_ARMED) {
			count(&w->cascaded);
			file(w, t, word_deadline(old));
		} else {
			wake_waiters(w, t);
		}
	}
	return true;
}

static size_t level_size(const struct hwtimer_wheel *w)
{
	return size_add(array_size(w->slots, sizeof(struct wheel_bucket)),
			array_size(BITS_TO_LONGS(w->slots), sizeof(long)));
}

/* @memory: of level_size(); or NULL. place() initialises a bucket when it sets the bit. */
static bool add_level(struct hwtimer_wheel *w, void *memory)
{
	struct wheel_level *l = &w->level[w->levels];

	if (!memory)
		return false;
	l->buckets = memory;
	l->occupied = memory + w->slots * sizeof(struct wheel_bucket);
	bitmap_zero(l->occupied, w->slots);
	hwtimer_step();
	WRITE_ONCE(w->levels, w->levels + 1);
	return true;
}

/*
 * One step of growing. Each adds a level, as long as one of those on @far needs it. Then each moves
 * a bucket of the old top level to @cascading, or passes over empty ones, and the last moves @far
 * there. Nothing is filed until then: a timeout that is pushed back all the time would otherwise
 * fall from each bucket in turn. The old top level may hold timeouts of its next turn, or of later
 * ones that no level was high enough for: they go to the new levels. The others return to their
 * buckets.
 */
static void grow(struct hwtimer_wheel *w)
{
	unsigned int i, stop;
	struct wheel_level *l;

	if (w->may_grow && beyond(w, w->far_tick)) {
		if (!add_level(w, w->ops->alloc(w, level_size(w)))) {
			count(&w->grow_failures);
			w->may_grow = false;
			return;
		}
		w->may_grow = w->levels < w->max_levels;
		if (!w->growing) {
			w->growing = true;
			w->old_top = w->levels - 2;
			w->old_slot = 0;
		}
		return;
	}
	if (w->growing) {
		l = &w->level[w->old_top];
		stop = min(w->slots, w->old_slot + WHEEL_LOOKAHEAD);
		i = find_next_bit(l->occupied, stop, w->old_slot);
		w->old_slot = stop;
		if (i < stop) {
			empty_bucket(w, l, i, &w->cascading);
			w->old_slot = i + 1;
		}
		if (w->old_slot < w->slots)
			return;
		w->growing = false;
	}
	w->far_tick = 0;
	list_splice_tail_init(&w->far, &w->cascading);
}

/*
 * If @tick is more than a round of the top level ahead, and nothing is left below it, go on to
 * the last round: one visit of each bucket is enough. True if time was moved on.
 */
static bool leap(struct hwtimer_wheel *w, u64 tick)
{
	unsigned int shift = level_shift(w, w->levels - 1);
	u64 now = w->cur >> shift, target = w->target >> shift;

	if (target - now < w->slots || (w->levels > 1 && tick >> shift == now))
		return false;
	move_to(w, (target - w->slots + 1) << shift);
	return true;
}

/* Begin to look through the bucket of tick @tick, which is cur. */
static void visit_begin(struct hwtimer_wheel *w, u64 tick)
{
	unsigned int i = slot_of(w, tick);

	w->now_tick = tick;
	count(&w->ticks);
	if (w->levels == 1) {
		w->visit_next = U64_MAX;
		list_add(&w->cursor, &w->level[0].buckets[i].timeouts);
	} else {
		/* There are no later rounds: take all. What falls may be filed here again. */
		empty_bucket(w, &w->level[0], i, &w->due);
	}
	/* From here on nothing is filed for this tick: it would loop for ever. */
	if (!leap(w, tick + 1))
		move_to(w, tick + 1);
}

/*
 * While there is one level, take from the bucket what is due, was cancelled, or
 * belongs elsewhere by now; leave what is due in a later round. Callbacks change the
 * bucket, so they are not run here, and the cursor marks where to go on when the
 * budget runs out.
 */
static void visit(struct hwtimer_wheel *w, unsigned int *budget)
{
	unsigned int i = slot_of(w, w->now_tick);
	struct wheel_bucket *b = &w->level[0].buckets[i];
	u64 end = w->now_tick * w->tick_ns;
	struct list_head *pos, *next;
	struct hwtimer_timeout *t;
	u64 word, tick;

	for (pos = w->cursor.next; pos != &b->timeouts && *budget; pos = next) {
		next = pos->next;
		if (pos == &w->place)
			continue;
		--*budget;
		count(&w->visits);
		t = list_entry(pos, struct hwtimer_timeout, node);
		word = atomic64_read(&t->word);
		if (word & WORD_ARMED && word_deadline(word) > end &&
		    word_deadline(word) < WHEEL_FOREVER) {
			tick = deadline_tick(w, word_deadline(word));
			if (slot_of(w, tick) == i) {
				w->visit_next = min(w->visit_next, tick);
				continue;
			}
		}
		list_move_tail(pos, &w->due);
	}

	list_del_init(&w->cursor);
	if (pos != &b->timeouts) {
		list_add_tail(&w->cursor, pos);
		return;
	}
	b->next = w->visit_next;
	if (list_empty(&b->timeouts))
		__clear_bit(i, w->level[0].occupied);
}

/*
 * The number of the first tick, from cur on, with something due according to the buckets; more than
 * @last if there is none up to @last. It looks at the rest of the present turn in each level below
 * the top, in the top level at each bucket at most once, and not far beyond @last.
 *
 * Each occupied bucket that it passes, and each run of up to WHEEL_LOOKAHEAD empty ones, costs one
 * of @probes. When they are used up, it returns the first tick at which it has not looked. The last
 * run in a lower level is free: otherwise a budget smaller than the number of levels would never
 * reach the top level.
 */
static u64 next_tick(const struct hwtimer_wheel *w, u64 last, unsigned int *probes)
{
	unsigned int level, shift, bit, i, stop;
	const struct wheel_level *l;
	u64 number, end, next, first = last + 1;

	for (level = 0; level < w->levels - 1; level++) {
		l = &w->level[level];
		shift = level_shift(w, level);
		number = w->cur >> shift;
		i = slot_of(w, number);
		for (number -= i; i < w->slots; i = stop) {
			if (number + i > last >> shift)
				return first;
			stop = min(w->slots, i + WHEEL_LOOKAHEAD);
			bit = find_next_bit(l->occupied, stop, i);
			if (bit < stop)
				return l->buckets[bit].next;
			if (stop < w->slots && !--*probes)
				return (number + stop) << shift;
		}
	}

	l = &w->level[level];
	shift = level_shift(w, level);
	number = w->cur >> shift;
	end = min((last >> shift) + 1, number + w->slots);
	while (number < end) {
		i = slot_of(w, number);
		stop = min_t(u64, w->slots, i + min_t(u64, end - number, WHEEL_LOOKAHEAD));
		bit = find_next_bit(l->occupied, stop, i);
		number += bit - i;
		if (bit < stop) {
			next = l->buckets[bit].next;
			if (next >> shift <= number)
				return max(next, number << shift);
			/* Of a later round, which may be before last, too. */
			first = min(first, next);
			number++;
		}
		if (!--*probes)
			return min(first, number << shift);
	}
	return first;
}

/* False if the budget ran out. */
static bool settle_ticks(struct hwtimer_wheel *w, unsigned int *budget)
{
	u64 tick;

	for (;;) {
		if (!w->growing && !cascade(w, budget))
			return false;
		if (!list_empty(&w->due)) {
			if (!*budget)
				return false;
			--*budget;
			settle(w, list_first_entry(&w->due, struct hwtimer_timeout,
						   node));
			continue;
		}
		w->in_row = false;
		if (!list_empty(&w->cursor)) {
			if (!*budget)
				return false;
			visit(w, budget);
			continue;
		}
		if (!list_empty(&w->far)) {
			if (!*budget)
				return false;
			--*budget;
			grow(w);
			continue;
		}
		if (w->target < w->cur)
			return true;
		if (!*budget)
			return false;
		tick = min(next_tick(w, w->target, budget), w->target + 1);
		if (leap(w, tick))
			continue;
		if (tick > w->cur)
			move_to(w, tick);
		else
			visit_begin(w, tick);
	}
}

static void survey_timeout(const struct wheel_survey *s, unsigned int i, struct hwtimer_timeout *t)
{
	u64 word = atomic64_read(&t->word);

	s->fn(s->arg, i, t, word & WORD_ARMED, word_deadline(word));
}

static void end_survey(struct hwtimer_wheel *w)
{
	struct wheel_survey *s = w->surveyed;

	/* It is in a bucket if the caller or a stop ends the survey early. */
	list_del_init(&w->place);
	w->surveyed = NULL;
	complete(&s->done);
}

/* Survey WHEEL_SURVEY timeouts at a time. @place marks where to go on in a bucket. */
static void answer_survey(struct hwtimer_wheel *w)
{
	unsigned int left = WHEEL_SURVEY, i;
	struct list_head *pos, *head;
	struct wheel_survey *s;
	struct wheel_level *l;

	if (likely(!w->surveyed)) {
		/* Not before all requests of a pass are in the buckets. */
		if (likely(!READ_ONCE(w->survey)) || w->stage == STAGE_DRAIN)
			return;
		/* Pairs with wheel_survey(). */
		w->surveyed = xchg(&w->survey, NULL);
		if (!w->surveyed)
			return;
	}
	s = w->surveyed;
	l = &w->level[s->level];
	for (; s->level < w->levels && s->at < READ_ONCE(s->n); s->at++) {
		i = s->first + s->at;
		if (!test_bit(i, l->occupied))
			continue;
		head = &l->buckets[i].timeouts;
		pos = w->place.next;
		if (list_empty(&w->place)) {
			pos = head->next;
			/* Timeouts may come behind @place for ever, but not ahead of these. */
			s->left = w->filed;
		}
		list_del_init(&w->place);
		for (; pos != head && s->left; pos = pos->next) {
			if (pos == &w->cursor)
				continue;
			if (!left--) {
				list_add_tail(&w->place, pos);
				return;
			}
			s->left--;
			survey_timeout(s, s->at, list_entry(pos, struct hwtimer_timeout, node));
		}
		/* All that was in it has left meanwhile. */
		if (list_empty(head))
			__clear_bit(i, l->occupied);
	}
	end_survey(w);
}

/**
 * wheel_advance - move the wheel on to @now
 * @w: the wheel
 * @now: ns since the wheel began; earlier than before is as if the same
 * @budget: how many timeouts and requests to handle, and buckets to pass over, at the most
 *
 * A pass takes over all requests made before it, then settles the ticks up
 * to @now in order, running the callbacks of what is due. For the worker only.
 *
 * Return: true if the budget ran out first; call again, with the time as it is
 * then, and let others run in between.
 */
bool wheel_advance(struct hwtimer_wheel *w, u64 now, unsigned int budget)
{
	unsigned long drained;
	bool over = false;

	w->in_row = false;
	if (w->stage == STAGE_REST) {
		/*
		 * The caller read the time before we drain: a request that this
		 * pass does not see was made after @now.
		 */
		w->target = div64_u64(min(now, WHEEL_FOREVER - 1), w->tick_ns);
		w->may_grow = w->levels < w->max_levels;
		/* wheel_barrier() asked before this pass takes over requests. Pairs with it. */
		w->asked = smp_load_acquire(&w->barrier);
		hwtimer_step();
		drain_restart(w);
		w->stage = STAGE_DRAIN;
	}
	if (w->stage == STAGE_DRAIN) {
		drained = w->drained;
		if (drain(w, &budget))
			w->stage = STAGE_SETTLE;
		if (w->drained != drained)
			trace_hwtimer_drain(w, w->drained - drained);
	}
	if (w->stage == STAGE_SETTLE && settle_ticks(w, &budget)) {
		w->stage = STAGE_REST;
		over = release_some(w, &budget);
	}
	answer_survey(w);
	return !over;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_advance);

/* Is there a request that the worker has not taken over, or one on its way? */
static bool requested(const struct hwtimer_wheel *w)
{
	const struct wheel_queue *q;
	int cpu;

	for_each_possible_cpu(cpu) {
		q = per_cpu_ptr(w->queues, cpu);
		if (local_read(&q->in_flight))
			return true;
		/* In this order; pairs with change_and_push(). */
		smp_rmb();
		if (!llist_empty(&q->requests) || !llist_empty(&q->released))
			return true;
	}
	return false;
}

/* The last tick of interest to a worker that may sleep for long. */
static u64 lookahead(const struct hwtimer_wheel *w)
{
	unsigned int shift = level_shift(w, w->levels - 1);
	/* So that the product with tick_ns does not overflow. */
	u64 last = div64_u64(WHEEL_FOREVER, w->tick_ns);
	u64 number = (w->cur >> shift) + WHEEL_LOOKAHEAD;

	if (w->slots <= WHEEL_LOOKAHEAD || number >= last >> shift)
		return last;
	return number << shift;
}

/* Until when nothing is due, as far as the worker knows. @busy: timeouts are being armed. */
static u64 nothing_until(const struct hwtimer_wheel *w, u64 now, bool busy, bool pending)
{
	unsigned int probes = w->probes;
	u64 until, drain_at;

	if (busy) {
		/*
		 * A wake-up for each arm would be too dear. Producers kick only for what is due
		 * before we wake; the rest waits in the queue, not for long.
		 */
		drain_at = min(now, WHEEL_FOREVER) + WHEEL_DRAIN_NS;
		until = next_tick(w, div64_u64(drain_at, w->tick_ns), &probes) * w->tick_ns;
		return min(until, drain_at);
	}
	if (!pending)
		return WHEEL_IDLE;
	/* Quiet: sleep until something is due. The next arm rings. */
	return next_tick(w, lookahead(w), &probes) * w->tick_ns;
}

/**
 * wheel_prepare_sleep - until when may the worker sleep?
 * @w: the wheel, after wheel_advance() returned false
 * @now: the time of that call
 *
 * For the worker only, which must already be in the state in which a kick keeps
 * it from sleeping. When it runs again, it calls wheel_awake().
 *
 * Return: when to call wheel_advance() again, in ns since the wheel began;
 * WHEEL_IDLE if nothing is pending: when kicked; 0 at once.
 */
u64 wheel_prepare_sleep(struct hwtimer_wheel *w, u64 now)
{
	u64 until, kick_below = U64_MAX;
	struct wheel_counts c;
	bool busy;

	if (w->surveyed)
		return 0;
	wheel_count(w, &c);
	hwtimer_step();
	busy = c.armed != w->armed_seen;
	until = nothing_until(w, now, busy, c.pending);
	if (until <= now) {
		/* The pass had begun before @now, and this is due since. */
		if (now < WHEEL_FOREVER)
			return 0;
		/* Past the end of time only what never comes is left. */
		until = now + WHEEL_DRAIN_NS;
	}
	/* Ring if DIV_ROUND_UP(deadline, tick_ns) * tick_ns < until. */
	if (busy)
		kick_below = div64_u64(until - 1, w->tick_ns) * w->tick_ns + 1;
	hwtimer_step();
	atomic64_set(&w->kick_below, kick_below);
	w->armed_seen = c.armed;

	/*
	 * Pairs with the full barriers between a producer's request and its look
	 * at kick_below: see "Sleeping" above.
	 */
	smp_mb();
	hwtimer_step();

	/*
	 * A release function may have had us take over requests, so @far and @aside may not be
	 * empty. @aside may also have what came while an older round went on.
	 */
	if (requested(w) || READ_ONCE(w->survey) || READ_ONCE(w->barrier) ||
	    !list_empty(&w->far) || w->aside)
		until = 0;
	if (until == WHEEL_IDLE) {
		hwtimer_step();
		/* What is filed already needs no request to be armed again. */
		wheel_count(w, &c);
		if (c.pending)
			until = 0;
	}
	if (!until)
		wheel_awake(w);
	return until;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_prepare_sleep);

/**
 * wheel_awake - the worker runs: nobody needs to kick it
 * @w: the wheel
 */
void wheel_awake(struct hwtimer_wheel *w)
{
	atomic64_set(&w->kick_below, 0);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_awake);

/**
 * wheel_count - sum up what happened so far
 * @w: the wheel
 * @c: filled in
 *
 * Any context. See struct wheel_counts.
 */
void wheel_count(const struct hwtimer_wheel *w, struct wheel_counts *c)
{
	const struct wheel_queue *q;
	int cpu;

	memset(c, 0, sizeof(*c));
	c->expired = READ_ONCE(w->expired);
	c->handed_back = READ_ONCE(w->handed_back);
	c->drained = READ_ONCE(w->drained);
	c->visits = READ_ONCE(w->visits);
	c->cascaded = READ_ONCE(w->cascaded);
	c->grow_failures = READ_ONCE(w->grow_failures);
	c->refiled = READ_ONCE(w->refiled);
	c->ticks = READ_ONCE(w->ticks);
	for_each_possible_cpu(cpu) {
		q = per_cpu_ptr(w->queues, cpu);
		c->cancelled += local_read(&q->cancelled);
		c->touched += local_read(&q->touched);
		c->rejected += local_read(&q->rejected);
		c->coalesced += local_read(&q->coalesced);
		c->kicks += local_read(&q->kicks);
	}
	/*
	 * Endings are counted before armings: of each that ended above, the
	 * arming is counted below, so pending is never too low. A timeout is
	 * counted as armed before it is, and as ended after it has (full barriers
	 * on the word in between).
	 */
	smp_rmb();
	hwtimer_step();
	for_each_possible_cpu(cpu)
		c->armed += local_read(&per_cpu_ptr(w->queues, cpu)->armed);
	c->pending = c->armed - c->cancelled - c->expired - c->handed_back;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_count);

/**
 * wheel_survey - look at the timeouts in some buckets
 * @w: the wheel
 * @level: the level of interest; one that is not in use holds nothing
 * @first: the first bucket of interest
 * @n: how many buckets
 * @fn: called by the worker for each timeout in them
 * @arg: for @fn
 *
 * The worker looks at WHEEL_SURVEY timeouts at a time, and does its other work in between. If there
 * are more, it may miss a timeout that is filed anew meanwhile, or see it twice. It does not see
 * timeouts on the wheel's other lists, such as those filed for WHEEL_FOREVER. It does see cancelled
 * ones that it has not removed yet. A stop ends the survey early, and this returns 0. Process
 * context, may sleep; waits for a callback that runs.
 *
 * Return: 0, -EINTR if a fatal signal came; @fn may have been called then, or not. If the worker
 * had begun with the survey, this returns at its next step.
 */
int wheel_survey(struct hwtimer_wheel *w, unsigned int level, unsigned int first,
		 unsigned int n, wheel_survey_fn fn, void *arg)
{
	struct wheel_survey s = {
		.level = level, .first = first, .n = n, .fn = fn, .arg = arg,
	};
	bool started;
	int ret;

	ret = mutex_lock_killable(&w->survey_lock);
	if (ret)
		return ret;
	/* A stop holds the other lock for as long as it takes. */
	if (READ_ONCE(w->state) >= WHEEL_SHUTDOWN)
		goto out;
	init_completion(&s.done);
	/* So that a stop ends this survey, or has begun before. */
	ret = mutex_lock_killable(&w->worker_lock);
	if (ret)
		goto out;
	started = READ_ONCE(w->state) == WHEEL_STARTED;
	if (started) {
		/*
		 * Release: a worker that is awake sees s filled in; pairs with answer_survey(). For
		 * one that goes to sleep, the kick orders this store before its last look.
		 */
		smp_store_release(&w->survey, &s);
		w->ops->kick(w);
	}
	mutex_unlock(&w->worker_lock);
	if (started) {
		ret = wait_for_completion_killable(&s.done);
		/* Take it back. If the worker has begun, it does not go on. */
		if (ret && cmpxchg(&w->survey, &s, NULL) != &s) {
			WRITE_ONCE(s.n, 0);
			wait_for_completion(&s.done);
		}
	}
out:
	mutex_unlock(&w->survey_lock);
	return ret ? -EINTR : 0;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_survey);

/* How many levels there can be before the topmost holds no tick at all. */
static unsigned int most_levels(const struct hwtimer_wheel *w)
{
	u64 ticks = div64_u64(WHEEL_FOREVER, w->tick_ns);
	unsigned int n = 1;

	if (w->slots == 1)
		return 1;
	while (n < WHEEL_MAX_LEVELS && (ticks >>= w->slot_bits))
		n++;
	return n;
}

/**
 * wheel_barrier - wait for what was released, and for callbacks that run
 * @w: the wheel
 *
 * When it returns, each callback of a wheel_release() that had returned before
 * has returned, too, and so has each callback that had begun. Process context,
 * may sleep.
 */
void wheel_barrier(struct hwtimer_wheel *w)
{
	DECLARE_COMPLETION_ONSTACK(done);

	/*
	 * What is released has QUEUED set, but it may be somebody else who is
	 * about to push it. Such sections are not preemptible: when this returns
	 * it is on a queue, or further on.
	 */
	synchronize_rcu();

	mutex_lock(&w->worker_lock);
	/* The lock excludes a stop, which calls the release functions itself. */
	if (READ_ONCE(w->state) < WHEEL_STOPPED) {
		/*
		 * Before the next pass begins, which then takes over all that is
		 * on the queues. The round of release_some() that begins after that
		 * calls what was released, and answers.
		 */
		smp_store_release(&w->barrier, &done);
		w->ops->kick(w);
		wait_for_completion(&done);
	}
	mutex_unlock(&w->worker_lock);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_barrier);

/**
 * wheel_init - make a wheel
 * @w: filled in
 * @shape: how it is built
 * @ops: the driver's
 * @gfp: GFP_KERNEL or GFP_KERNEL_ACCOUNT
 *
 * Return: 0, -EINVAL, -ENOMEM. On error there is nothing to be freed.
 */
int wheel_init(struct hwtimer_wheel *w, const struct wheel_shape *shape,
	       const struct wheel_ops *ops, gfp_t gfp)
{
	unsigned int levels = shape->levels ?: 1;

	memset(w, 0, sizeof(*w));
	if (!shape->tick_ns || !shape->slots || shape->slots > WHEEL_MAX_SLOTS)
		return -EINVAL;
	w->slots = roundup_pow_of_two(shape->slots);
	w->slot_bits = ilog2(w->slots);
	w->tick_ns = shape->tick_ns;
	if (w->tick_ns > div_u64(WHEEL_FOREVER, w->slots))
		return -EINVAL;
	w->max_levels = most_levels(w);
	if (levels > w->max_levels || (shape->grow && w->slots < 2))
		return -EINVAL;
	if (!shape->grow)
		w->max_levels = levels;

	w->cap = shape->cap;
	w->ops = ops;
	w->cur = 1;
	/* So that it is not woken often for nothing, if all buckets are of later rounds. */
	w->probes = clamp_t(u64, div64_u64(WHEEL_DRAIN_NS, w->tick_ns), WHEEL_PROBES,
			    WHEEL_LOOKAHEAD);
	w->release_cpu = nr_cpu_ids;
	/* The first arm rings, whatever its deadline. */
	atomic64_set(&w->kick_below, U64_MAX);
	lockdep_register_key(&w->callback_key);
	lockdep_init_map(&w->callback_map, "hwtimer_callback", &w->callback_key, 0);
	mutex_init(&w->worker_lock);
	mutex_init(&w->survey_lock);
	INIT_LIST_HEAD(&w->never);
	INIT_LIST_HEAD(&w->cascading);
	INIT_LIST_HEAD(&w->far);
	INIT_LIST_HEAD(&w->due);
	INIT_LIST_HEAD(&w->cursor);
	INIT_LIST_HEAD(&w->place);

	w->queues = alloc_percpu_gfp(struct wheel_queue, gfp);
	if (!w->queues)
		goto no_memory;
	while (w->levels < levels)
		if (!add_level(w, kvmalloc(level_size(w), gfp | __GFP_NOWARN)))
			goto no_memory;
	return 0;

no_memory:
	wheel_free(w);
	return -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_init);

/**
 * wheel_free - free what wheel_init() allocated
 * @w: a wheel that holds nothing
 */
void wheel_free(struct hwtimer_wheel *w)
{
	lockdep_unregister_key(&w->callback_key);
	while (w->levels)
		kvfree(w->level[--w->levels].buckets);
	free_percpu(w->queues);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_free);

/**
 * wheel_start - take a wheel to STARTED
 * @w: the wheel
 *
 * Return: 0, -ESHUTDOWN.
 */
int wheel_start(struct hwtimer_wheel *w)
{
	int old = cmpxchg(&w->state, WHEEL_INIT, WHEEL_STARTED);

	return old >= WHEEL_SHUTDOWN ? -ESHUTDOWN : 0;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_start);

/**
 * wheel_shutdown - from when this returns on, nothing is armed
 * @w: the wheel
 *
 * May sleep. The driver then ends its worker and calls wheel_sweep().
 *
 * Return: false if somebody else has, or had, shut it down.
 */
bool wheel_shutdown(struct hwtimer_wheel *w)
{
	int old = READ_ONCE(w->state);

	do {
		if (old >= WHEEL_SHUTDOWN)
			return false;
	} while (!try_cmpxchg(&w->state, &old, WHEEL_SHUTDOWN));
	hwtimer_step();
	/* Whoever saw an earlier state has pushed when this returns. */
	synchronize_rcu();
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_shutdown);

/* Take all of @list out of the wheel; what was armed goes to @pending. */
static void sweep_list(struct hwtimer_wheel *w, struct list_head *list,
		       struct list_head *pending)
{
	struct hwtimer_timeout *t, *next;
	bool linked;
	u64 old;

	list_for_each_entry_safe(t, next, list, node) {
		list_del(&t->node);
		uncount(&w->filed);
		old = atomic64_read(&t->word);
		linked = pending && old & WORD_ARMED;
		/* Before the cmpxchg: behind it @t is our caller's, or its owner's. */
		if (linked)
			list_add_tail(&t->node, pending);
		while (!change(t, &old, old & ~(WORD_ARMED | WORD_FILED))) {
			/* Nobody arms any more: ARMED may go, once, and does not come back. */
			if (linked && !(old & WORD_ARMED)) {
				list_del(&t->node);
				linked = false;
			}
		}
		wake_waiters(w, t);
		if (old & WORD_ARMED) {
			count(&w->handed_back);
			leave_place(w);
		}
		cond_resched();
	}
}

static void empty_queues(struct hwtimer_wheel *w)
{
	unsigned int budget, rounds = 0;

	wheel_drain_all(w);
	/* The rest of a round that has begun, and another one. */
	while (rounds < 2) {
		budget = WHEEL_BUDGET;
		cond_resched();
		rounds += release_some(w, &budget);
	}
}

/**
 * wheel_sweep - empty a wheel after wheel_shutdown()
 * @w: the wheel; its worker is gone, and the caller takes its part
 * @pending: gets what was pending, linked by node, about in order of ticks; may be NULL
 *
 * May sleep. Calls what was released.
 */
void wheel_sweep(struct hwtimer_wheel *w, struct list_head *pending)
{
	struct wheel_level *l;
	unsigned int i, slot;

	might_sleep();
	/* First, for who waits. Also, sweep_list() would take @place for a timeout. */
	if (!w->surveyed)
		w->surveyed = xchg(&w->survey, NULL);
	if (w->surveyed)
		end_survey(w);
	/* Files what is armed, lets go of the others, and calls the release functions. */
	empty_queues(w);
	list_del_init(&w->cursor);
	sweep_list(w, &w->due, pending);
	for (l = w->level; l < w->level + w->levels; l++) {
		for (i = 0; i < w->slots; i++) {
			slot = slot_of(w, (w->cur >> level_shift(w, l - w->level)) + i);
			if (test_bit(slot, l->occupied))
				sweep_list(w, &l->buckets[slot].timeouts, pending);
			cond_resched();
		}
		bitmap_zero(l->occupied, w->slots);
	}
	sweep_list(w, &w->cascading, pending);
	sweep_list(w, &w->far, pending);
	sweep_list(w, &w->never, pending);
	w->stage = STAGE_REST;
	hwtimer_step();

	/*
	 * What is pushed now, after the sweep, are requests to let go of
	 * timeouts that are not filed any more. Whoever sees STOPPED does not push.
	 */
	smp_store_release(&w->state, WHEEL_STOPPED);	/* see wheel_release() */
	synchronize_rcu();
	hwtimer_step();
	empty_queues(w);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_sweep);
