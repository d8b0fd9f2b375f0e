// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the queue: how any context reaches a wheel.
 *
 * As in Netty's HashedWheelTimer, one worker owns the buckets (hwtimer_wheel.c), and producers send
 * requests to it through lock-free queues. (A producer is any code that arms, touches, cancels or
 * releases a timeout.) As with the timers of TCP, a pending timeout can get a later deadline while
 * it stays in its old bucket. All CPUs arm, push back and cancel many timeouts, and few expire, so
 * all cancels and most touches are a single cmpxchg on the timeout's own word.
 *
 * Time: tick k begins at k * tick_ns. A timeout expires when tick DIV_ROUND_UP(deadline, tick_ns)
 * begins: never early, and less than a tick late. If the wheel has slack, it is the first such tick
 * in which the bits of @slack are 0. A timeout with the deadline HWTIMER_HORIZON never expires; if
 * it is cancelled, it stays in its bucket until it is armed again or detached.
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
 *	DEAD	it was shut down or released, and cannot be armed again. The lowest bit of its
 *		deadline is the flag RELEASE then
 *
 * A request does not name an operation. It asks the worker to read the word again. The producer
 * that sets QUEUED pushes the timeout; the worker takes it from the queue and acts on the word as
 * it is then. So any number of operations between two drains cost one push, and one llist_node
 * per timeout is enough.
 *
 * These invariants hold whenever the worker is not in the middle of a step:
 *
 *  (a) ARMED implies QUEUED or FILED: the worker will visit the timeout.
 *  (b) If FILED is set, and neither QUEUED nor DEAD, the timeout is filed for the tick of the
 *      word's deadline or an earlier one, ARMED or not; one that was overdue when it was filed, for
 *      the tick that was next then. So a deadline can be made later without a request; making it
 *      earlier takes a request.
 *  (c) Only the worker clears QUEUED, sets or clears FILED, and accesses the buckets. While
 *      either flag is set, only the worker accesses timeout->node. From setting QUEUED to the
 *      push, only that producer accesses timeout->request; then only the worker, until it clears
 *      QUEUED.
 *  (d) The worker runs the callback only if its cmpxchg clears ARMED and FILED together, from a
 *      word with ARMED and without QUEUED.
 *  (e) After it has left neither QUEUED nor FILED set, the worker accesses a timeout only to begin
 *      its callback, while @running is that timeout, or to pass it to its release function. To
 *      wake waiters it uses the address alone. The owner may free the timeout when both flags are
 *      clear and @running is not this timeout.
 *
 * All races are decided by a cmpxchg on the word:
 *
 *  - cancel and expire: both clear ARMED, see (d). Only one of them succeeds.
 *  - touch and expire: the worker acts by a cmpxchg from exactly the word by which it has decided.
 *    If a touch came in between, the cmpxchg fails and the worker decides again.
 *  - arm and file: one cmpxchg clears QUEUED, sets FILED, and yields the deadline by which the
 *    worker files the timeout. If the deadline is made later after this cmpxchg, (b) holds. If
 *    it is made earlier, QUEUED is clear, so the producer pushes another request.
 *  - expire and a request that has not been drained: by (d), no callback can free a timeout that
 *    has QUEUED. The worker drops it from the bucket, and the drain files it as if it were newly
 *    armed. The bucket is visited because the deadline is not after @now. If the pass has drained
 *    everything pushed before it, the push came after the worker had read the time, so the deadline
 *    was in the past at the time of the push, and the next tick is the right one. If the worker
 *    cannot keep up, see queue_advance().
 *  - a producer after its push: the worker may have run the callback already, and the callback
 *    may have freed the timeout. So a producer does not access a timeout that it has armed.
 *    (Before the push it may: by (e), a timeout with QUEUED is not freed.)
 *
 *
 * Sleeping
 * --------
 *
 * The worker decides how long it will sleep, and stores in @kick_below which deadlines it has to be
 * woken for. A producer pushes, then compares its deadline with @kick_below. So what is pushed
 * after that store may stay in the queue for as long as the worker sleeps. What was pushed before,
 * while the worker was awake, was compared with nothing: the worker takes the queues once more, and
 * makes the sleep shorter if that brings an earlier deadline. Both have a full barrier in between,
 * so that at least one of them sees what the other one wrote:
 *
 *	producer                           worker (queue_prepare_sleep)
 *	  word: ARMED, QUEUED                kick_below = ...
 *	  push                               smp_mb()
 *	  (cmpxchg of the push: smp_mb())    take the queues
 *	  deadline < kick_below?             sleep
 *
 * This is not enough if a deadline changes before the push. Producer A sets QUEUED for tick 7 and
 * is interrupted before its push. Producer B moves the timeout to tick 3, and does not push, as
 * QUEUED is set. The worker, whether B kicks it or not, finds no request and sleeps until tick 5.
 * A pushes, compares its 7 with 5, and does not kick the worker, so the timeout expires two ticks
 * late. A cannot read the word again, as the timeout may have been freed after the push. Therefore
 * each CPU counts its producers between setting QUEUED and having pushed, in @in_flight, and the
 * worker waits until there is none, or does not sleep:
 *
 *	A                    B                        worker
 *	  in_flight = 1
 *	  word: QUEUED, 7
 *	                       word: 3 (cmpxchg)
 *	                       3 < kick_below? ...
 *	                                                kick_below = 5
 *	                                                smp_mb()
 *	                                                in_flight? yes: wait
 *	  push
 *	  in_flight = 0
 *	                                                in_flight? no: take the queues
 *
 * If B reads @kick_below after the worker has stored 5, B kicks the worker. If B reads it before,
 * the worker sees A's store to @in_flight: A's store is ordered before A's cmpxchg, which B's
 * cmpxchg sees, B's read of @kick_below is behind a full barrier, and so is the worker's read of
 * @in_flight. The worker reads @in_flight before the queue, so if it reads 0 it sees the push. The
 * section is a few instructions long and not preemptible.
 *
 * Arming a timeout that was cancelled but is still FILED, for a later deadline, takes no request,
 * but kicks the worker by the same rule. Before the worker sleeps without an end because nothing
 * is pending, it sums up the counts of pending timeouts once more, behind the same smp_mb(). A
 * producer counts a timeout as armed before the cmpxchg that sets ARMED.
 *
 * How long the worker sleeps: if it has handled no request or release since its last sleep, nothing
 * was armed, and nothing is filed for the near future, it sleeps until something may be due, or
 * without an end if nothing is pending, and any arm or release kicks it; so, too, if nothing is
 * pending after a long sleep, whatever it has handled, see slept_long(). Otherwise it sleeps for
 * QUEUE_DRAIN_NS at most, see sleep_limit(), and not beyond the soonest deadline that it has seen
 * since the last sleep, be that timeout cancelled or pushed back by now: who arms timeouts of one
 * kind arms the next one for a later deadline, and need not kick the worker; nor do releases.
 * Detaches, barriers and looks, for which somebody waits, always kick the worker.
 *
 * How many requests may wait: if QUEUE_DEPTH requests of a CPU wait, or QUEUE_DEPTH releases, it
 * kicks the worker. Timeouts that were armed a moment ago are still in the caches. After 100,000
 * others they are not, and the worker would miss the cache twice per timeout, as the queue is a
 * linked list. This also limits how many requests the worker has to drain before it can expire what
 * is due.
 *
 * A CPU counts what it has pushed, and the worker notes that count before it takes a queue; the
 * difference is what waits. It may be too high, by what was pushed between these two, but never too
 * low. While the worker sleeps, each push adds one to it: interrupt handlers push as well, but each
 * gets a number of its own. So one of QUEUE_DEPTH pushes in a row finds a multiple of QUEUE_DEPTH,
 * and kicks, wherever the difference began and whether the counts wrap. A producer that finds one
 * while the worker is awake does not kick. Its request is taken before the worker sleeps; releases
 * are only counted then, by released_many(), which may miss the last one.
 *
 *
 * Releasing
 * ---------
 *
 * Released timeouts need not be handled in order, nor at once, and there may be a million of them.
 * So each CPU has a separate queue for them, in which they wait for QUEUE_DRAIN_NS at most, or
 * until there are QUEUE_DEPTH of a CPU (twice as many, if the worker has missed the last of these
 * before it sleeps), or until somebody waits in queue_barrier(). If a timeout has QUEUED set when
 * it is released, it comes by the request queue instead, and the worker puts it aside. QUEUED stays
 * set until release_some() calls its release function. So none runs inside a callback of the wheel.
 *
 *
 * Waiting
 * -------
 *
 * queue_end_sync() adds itself to a table of waiters, hashed by the address of the timeout, then
 * reads the word. After the worker has handled a request or dropped a timeout, and after each
 * callback, it checks whether there are waiters. Both have a full barrier in between, so that at
 * least one of them sees what the other one wrote. After a callback, this barrier is the cmpxchg
 * that claims or drops the next timeout, so the worker checks before it calls the next callback. If
 * no timeout follows, it is an smp_mb().
 *
 * The request of a waiter must not wait for all callbacks that are due. So a waiter that has pushed
 * its request increments @awaited, and the worker drains the queues between two callbacks; see
 * look_around().
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
 * Arming checks @state and pushes within one non-preemptible section. queue_shutdown() sets
 * SHUTDOWN and waits for a grace period (synchronize_rcu() waits for such sections, too); after
 * that, nothing is armed. The worker begins at most one more callback. Requests to detach or
 * release a timeout are still pushed until queue_sweep() has emptied the wheel and set STOPPED. A
 * second grace period and a last drain follow.
 *
 *
 * Tags
 * ----
 *
 * A tag in a comment, such as "smp_mb: wait-broken-waker" in brackets, says what shows that this
 * barrier is needed: tests/litmus/wait.litmus, which fails without it, as the variant
 * wait-broken-waker in tests/litmus/broken. See scripts/checks/orderings -h.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/prefetch.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <kunit/visibility.h>

#include "../debug/odebug.h"
#include "../debug/trace.h"
#include "hwtimer_queue.h"
#include "hwtimer_step.h"

/*
 * The cmpxchg of a word has to be a full barrier. On processors without a 64-bit cmpxchg,
 * lib/atomic64.c takes a spinlock instead. This is not a full barrier: a store before it and a
 * load after it may be reordered.
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

static_assert(U64_MAX >> WORD_SHIFT == HWTIMER_HORIZON);

/* The stages of a pass of queue_advance(), see there. */
enum queue_stage {
	STAGE_REST,	/* no pass is in progress */
	STAGE_DRAIN,	/* request queues are being drained */
	STAGE_OVERDUE,	/* the drain takes long: ticks up to @target are settled before the rest */
	STAGE_SETTLE,	/* ticks up to @target are being settled */
};

/**
 * struct queue_waiter - a task that waits until the wheel no longer holds a timeout
 * @node: links the waiter into waiters_table
 * @t: the timeout
 * @ended: how often the worker cancelled @t on behalf of this task
 * @woken: completed when the worker has dropped or filed @t, or the callback of @t has returned
 */
struct queue_waiter {
	struct hlist_node	node;
	struct hwtimer_timeout	*t;
	unsigned int		ended;
	struct completion	woken;
};

#define WAITER_BITS	8

/*
 * The waiters of all wheels, hashed by the address of the timeout, like the table in wait_bit.c.
 * The locks are raw, so that the worker does not sleep on them on PREEMPT_RT; no interrupt handler
 * takes them.
 */
static struct queue_waiters {
	raw_spinlock_t		lock;
	struct hlist_head	list;
} waiters_table[BIT(WAITER_BITS)] = {
	[0 ... BIT(WAITER_BITS) - 1] = { .lock = __RAW_SPIN_LOCK_UNLOCKED(waiters_table.lock) },
};

static struct queue_waiters *waiters_of(const struct hwtimer_timeout *t)
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

/* The tick at which a timeout with this deadline expires. Rounds up: never early. */
static u64 deadline_tick(const struct hwtimer_wheel *w, u64 deadline)
{
	u64 tick = div64_u64(deadline + w->tick_ns - 1, w->tick_ns);

	return (tick + w->slack) & ~w->slack;
}

/* The worker's counts: only the worker writes them; queue_count() reads them at any time. */
static void count(unsigned long *counter)
{
	WRITE_ONCE(*counter, *counter + 1);
}

static void uncharge(struct hwtimer_wheel *w)
{
	if (unlikely(w->places))
		places_give(w->places);
}

/*
 * Kick the worker if it sleeps beyond @deadline. The caller has pushed a request or armed a timeout
 * by a cmpxchg, a full barrier, which pairs with the smp_mb() in queue_prepare_sleep().
 */
static void kick_worker(struct hwtimer_wheel *w, struct queue_cpu *pcpu, u64 deadline)
{
	unsigned long flags;

	hwtimer_step();
	if (deadline >= (u64)atomic64_read(&w->kick_below))
		return;
	/*
	 * After the xchg, other producers see 0 and rely on this kick, so interrupts are off until
	 * it is done. [local_irq_save: as it only bounds how late the kick comes]
	 */
	local_irq_save(flags);
	/* [atomic64_xchg: as the cmpxchg before orders the request, and one kick is enough] */
	if (atomic64_xchg(&w->kick_below, 0)) {
		if (deadline)
			WRITE_ONCE(w->kicked_by, deadline);
		hwtimer_step();
		local_inc(&pcpu->kicks);
		w->ops->kick(w);
	}
	local_irq_restore(flags);
}

/*
 * llist_add() as an inline function, as in io_req_local_work_add() of io_uring: arm() then needs
 * fewer instructions and registers, and more of its cache misses overlap.
 */
static __always_inline void push_request(struct hwtimer_timeout *t, struct llist_head *queue)
{
	struct llist_node *first = READ_ONCE(queue->first);

	do {
		t->request.next = first;
		/* [try_cmpxchg: push-broken-add wakeup-broken-push wakeup-in-flight-broken-push] */
	} while (!try_cmpxchg(&queue->first, &first, &t->request));
}

/*
 * Change the word of @t from *@old to @new, and push @t to a queue of @pcpu, this CPU, if this sets
 * QUEUED. If the word is no longer *@old, update *@old and return false. After success @t may have
 * been freed. The caller has disabled preemption.
 */
static __always_inline bool
change_and_push(struct hwtimer_wheel *w, struct queue_cpu *pcpu, struct hwtimer_timeout *t,
		u64 *old, u64 new)
{
	bool push = new & ~*old & WORD_QUEUED, release = releasing(new);
	unsigned long waiting;
	bool changed;

	/* [atomic64_try_cmpxchg: wakeup-in-flight-broken-touch publish-broken-arm] */
	if (!push)
		return atomic64_try_cmpxchg(&t->word, (s64 *)old, new);

	/*
	 * Before the cmpxchg, a full barrier: a CPU that sees QUEUED also sees in_flight.
	 * [local_inc: wakeup-in-flight-broken-late wakeup-in-flight-broken-no-count]
	 */
	local_inc(&pcpu->in_flight);
	hwtimer_step();
	/* [atomic64_try_cmpxchg: wakeup-in-flight-broken-queued; after local_inc] */
	changed = atomic64_try_cmpxchg(&t->word, (s64 *)old, new);
	if (changed) {
		if (!(*old & WORD_HELD))
			hwtimer_odebug_activate(t);
		hwtimer_step_stall();
		push_request(t, release ? &pcpu->released : &pcpu->requests);
		hwtimer_step();
	}
	/*
	 * After the push, whose cmpxchg is a full barrier: if the worker reads the decremented
	 * count, it sees the request. Pairs with smp_rmb() in take_last().
	 * [local_dec: wakeup-in-flight-broken-count-down-early; after push_request]
	 */
	local_dec(&pcpu->in_flight);
	if (!changed)
		return false;
	if (release)
		waiting = local_inc_return(&pcpu->gone) - READ_ONCE(pcpu->given_back);
	else
		waiting = local_inc_return(&pcpu->pushed) - READ_ONCE(pcpu->taken);
	/* See "How many requests may wait" above. */
	if (!(waiting % QUEUE_DEPTH))
		kick_worker(w, pcpu, 0);
	return true;
}

/*
 * The return value of arm() for a timeout whose word is @old. If it is 0, the timeout is booked:
 * counted as armed, with a place under the cap.
 */
static __always_inline int
admit(struct hwtimer_wheel *w, struct queue_cpu *pcpu, u64 old, bool pending_only, bool *booked)
{
	if (old & WORD_ARMED)
		return 1;
	if (old & WORD_DEAD)
		return -ESHUTDOWN;
	if (pending_only)
		return -ENOENT;
	if (*booked)
		return 0;
	hwtimer_step();
	if (unlikely(w->places) && !places_take(w->places))
		return -EAGAIN;
	/* See queue_count(). [local_inc: count-broken-late wakeup-count-broken-late] */
	local_inc(&pcpu->armed);
	*booked = true;
	return 0;
}

static __always_inline int arm(struct hwtimer_timeout *t, u64 deadline, bool pending_only)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	bool booked = false, need_request;
	struct queue_cpu *pcpu;
	u64 old, new;
	int ret = -ESHUTDOWN;

	deadline = min(deadline, HWTIMER_HORIZON);
	/*
	 * Not preemptible from reading the state to the push; see "Stop".
	 * [preempt_disable: stop-broken-section]
	 */
	preempt_disable();
	/* [READ_ONCE: stop-broken-check; after preempt_disable] */
	if (unlikely(READ_ONCE(w->state) >= QUEUE_SHUTDOWN))
		goto out;

	pcpu = this_cpu_ptr(w->cpus);
	hwtimer_step_stall();
	old = atomic64_read(&t->word);
	for (;;) {
		ret = admit(w, pcpu, old, pending_only, &booked);
		if (unlikely(ret == -EAGAIN)) {
			new = atomic64_read(&t->word);
			if (new == old) {
				local_inc(&pcpu->rejected);
				goto out;
			}
			/* Another CPU may have reached the cap by arming this timeout. */
			old = new;
			continue;
		}
		if (unlikely(ret < 0))
			goto undo;
		need_request = (!ret && !(old & WORD_FILED)) || deadline < word_deadline(old);
		new = deadline << WORD_SHIFT | (old & WORD_HELD) | WORD_ARMED;
		if (need_request)
			new |= WORD_QUEUED;
		hwtimer_step();
		/*
		 * [change_and_push: publish-broken-arm count-broken-arm
		 * touch-file-broken-no-request wakeup-count-broken-arm; before kick_worker]
		 */
		if (change_and_push(w, pcpu, t, &old, new))
			break;
	}

	/* @t may have expired and been freed by now. */
	if (ret)
		local_inc(&pcpu->touched);
	else if (unlikely(READ_ONCE(w->state) == QUEUE_INIT))
		/* [cmpxchg: state-broken-arm] */
		cmpxchg(&w->state, QUEUE_INIT, QUEUE_STARTED);
	if (need_request || !ret)
		kick_worker(w, pcpu, deadline);
	if (!ret)
		goto out;
undo:
	/* Another CPU armed, shut down or released @t meanwhile. */
	if (booked) {
		local_dec(&pcpu->armed);
		uncharge(w);
	}
out:
	/* [preempt_enable: stop-broken-section; after change_and_push] */
	preempt_enable();
	return ret;
}

/* The value of @running if @t was initialised while its callback runs. */
static struct hwtimer_timeout *renewed(const struct hwtimer_timeout *t)
{
	return (void *)((uintptr_t)t | 1);
}

static struct hwtimer_timeout *whose(struct hwtimer_timeout *running)
{
	return (void *)((uintptr_t)running & ~1UL);
}

/*
 * Does @w hold a timeout in the memory at @t? This memory may be uninitialised, but a timeout that
 * was ended correctly has neither flag set. So a stale one on the stack or in a slab is no problem,
 * and one that seems to be held is, or was copied or freed while it was: bugs.
 */
static bool __no_kmsan_checks seems_held(const struct hwtimer_timeout *t,
					 const struct hwtimer_wheel *w)
{
	return READ_ONCE(t->wheel) == w && atomic64_read(&t->word) & WORD_HELD;
}

/**
 * queue_timeout_init - prepare a timeout
 * @t: the timeout. If the wheel still holds it, this warns and leaves it unchanged
 * @w: the wheel on which it will be armed
 * @fn: its callback
 */
void queue_timeout_init(struct hwtimer_timeout *t, struct hwtimer_wheel *w,
			hwtimer_fn_t fn)
{
	if (!hwtimer_odebug_init(t))
		return;
	if (seems_held(t, w)) {
		WARN_ONCE(1, "hwtimer: initialised while the wheel holds it: %ps\n", t->fn);
		return;
	}
	/*
	 * Either the timeout's own callback initialises it, or a callback that still runs has freed
	 * its timeout and @t is a new one at the same address. Other tasks that wait for @t have to
	 * wait for this callback; the callback itself must not. [cmpxchg: reinit-broken-store]
	 */
	if (unlikely(READ_ONCE(w->running) == t))
		cmpxchg(&w->running, t, renewed(t));
	INIT_LIST_HEAD(&t->node);
	atomic64_set(&t->word, 0);
	t->fn = fn;
	t->wheel = w;
}
EXPORT_SYMBOL_IF_KUNIT(queue_timeout_init);

/**
 * queue_arm - make a timeout pending, or give a pending one another deadline
 * @t: the timeout
 * @deadline: in ns since the wheel was created; HWTIMER_HORIZON and later: never
 *
 * Return: 0 if @t was not pending, 1 if it was, -EAGAIN if the cap is reached, -ESHUTDOWN if the
 * wheel was shut down, or @t was shut down or released.
 */
int queue_arm(struct hwtimer_timeout *t, u64 deadline)
{
	return arm(t, deadline, false);
}
EXPORT_SYMBOL_IF_KUNIT(queue_arm);

/* queue_touch() in all other cases. Out of line, so that queue_touch() saves no registers. */
static noinline int touch_other(struct hwtimer_timeout *t, u64 deadline)
{
	int ret = arm(t, deadline, true);

	return min(ret, 0);
}

/**
 * queue_touch - give a pending timeout another deadline
 * @t: the timeout
 * @deadline: as for queue_arm()
 *
 * Return: 0, -ENOENT if @t is not pending, -ESHUTDOWN as for queue_arm().
 */
int queue_touch(struct hwtimer_timeout *t, u64 deadline)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	bool moved = false;
	u64 old;

	deadline = min(deadline, HWTIMER_HORIZON);
	old = atomic64_read(&t->word);
	if (unlikely(!(old & WORD_ARMED) || deadline < word_deadline(old)))
		return touch_other(t, deadline);
	/*
	 * The usual case: @t is pending, and gets a later deadline. By (a) and (b), the worker will
	 * take its request or visit it for the earlier deadline. It does not sleep too long for a
	 * later one, so nothing is ordered with its sleep, and nothing pushed or kicked.
	 *
	 * Not preemptible, as in disarm(). [preempt_disable: cancel-free-broken-section]
	 */
	preempt_disable();
	if (likely(READ_ONCE(w->state) < QUEUE_SHUTDOWN)) {
		hwtimer_step();
		/* [atomic64_try_cmpxchg: publish-broken-arm] */
		moved = atomic64_try_cmpxchg(&t->word, (s64 *)&old, deadline << WORD_SHIFT |
					     (old & WORD_HELD) | WORD_ARMED);
		if (likely(moved))
			local_inc(&this_cpu_ptr(w->cpus)->touched);
	}
	/* [preempt_enable: cancel-free-broken-section; after local_inc] */
	preempt_enable();
	return likely(moved) ? 0 : touch_other(t, deadline);
}
EXPORT_SYMBOL_IF_KUNIT(queue_touch);

/* The end of disarm() on a wheel with a cap. Out of line, so that disarm() saves no registers. */
static noinline bool disarm_capped(struct hwtimer_wheel *w)
{
	places_give(w->places);
	/* [preempt_enable: as it ends the section of disarm(); after places_give] */
	preempt_enable();
	return true;
}

/*
 * Clear ARMED and set @also. The timeout stays in its bucket until the worker visits and drops it,
 * unless it is armed again before.
 */
static bool disarm(struct hwtimer_timeout *t, u64 also)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	u64 old, new;

	/*
	 * Not preemptible, so that the wheel is not freed before the cancel is counted.
	 * [preempt_disable: cancel-free-broken-section]
	 */
	preempt_disable();
	/* [atomic64_read_acquire: release-dead-broken-acquire] */
	old = atomic64_read_acquire(&t->word);
	do {
		hwtimer_step();
		if (old & WORD_DEAD || !(old & WORD_ARMED || also))
			break;
		new = old & ~WORD_ARMED;
		/* The deadline stays, but for the bit that is RELEASE from now on. */
		if (also)
			new = (new & ~WORD_RELEASE) | also;
		/* [atomic64_try_cmpxchg: cancel-expire-broken-cmpxchg] */
	} while (!atomic64_try_cmpxchg(&t->word, (s64 *)&old, new));
	if (old & WORD_ARMED) {
		hwtimer_step();
		local_inc(&this_cpu_ptr(w->cpus)->cancelled);
		if (unlikely(w->places))
			return disarm_capped(w);
	}
	/* [preempt_enable: cancel-free-broken-section; after local_inc] */
	preempt_enable();
	return old & WORD_ARMED;
}

/**
 * queue_cancel - cancel a timeout
 * @t: the timeout
 *
 * Return: true if @t was pending; the callback of that arming will never run.
 */
bool queue_cancel(struct hwtimer_timeout *t)
{
	return disarm(t, 0);
}
EXPORT_SYMBOL_IF_KUNIT(queue_cancel);

/**
 * queue_timeout_shutdown - cancel a timeout, and make it impossible to arm it again
 * @t: the timeout
 *
 * Return: as queue_cancel().
 */
bool queue_timeout_shutdown(struct hwtimer_timeout *t)
{
	return disarm(t, WORD_DEAD);
}
EXPORT_SYMBOL_IF_KUNIT(queue_timeout_shutdown);

/**
 * queue_detach - ask the worker to drop a timeout that is not armed
 * @t: the timeout
 *
 * When the worker has dropped @t, queue_holds() is false and waiters in queue_end_sync() are woken.
 */
void queue_detach(struct hwtimer_timeout *t)
{
	struct hwtimer_wheel *w = t->wheel;
	struct queue_cpu *pcpu;
	u64 old;

	/* [preempt_disable: sweep-broken-section] */
	preempt_disable();
	/* [READ_ONCE: sweep-broken-section; after preempt_disable] */
	if (READ_ONCE(w->state) < QUEUE_STOPPED) {
		pcpu = this_cpu_ptr(w->cpus);
		hwtimer_step_stall();
		old = atomic64_read(&t->word);
		/*
		 * With QUEUED, the worker will read the word. With neither, it has dropped @t.
		 * [change_and_push: model cancel-sync-without-detach]
		 */
		while ((old & WORD_HELD) == WORD_FILED &&
		       !change_and_push(w, pcpu, t, &old, old | WORD_QUEUED))
			;
		if (old & WORD_HELD)
			kick_worker(w, pcpu, 0);
	}
	/* [preempt_enable: sweep-broken-section; after change_and_push] */
	preempt_enable();
}
EXPORT_SYMBOL_IF_KUNIT(queue_detach);

/**
 * queue_release - cancel a timeout for good, and have a function called when it may be freed
 * @t: the timeout, not released before
 * @released: release function, called once with @t when the wheel does not hold @t and the
 *	callback of @t does not run: by the worker or, if the wheel is stopped, by this function
 *
 * Return: as queue_cancel().
 */
bool queue_release(struct hwtimer_timeout *t, hwtimer_released_fn_t released)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	bool cancelled = queue_timeout_shutdown(t);
	struct queue_cpu *pcpu;
	bool stopped;
	u64 old;

	/*
	 * @t cannot be armed any more, so fn may be replaced. The worker reads it as a callback
	 * before its cmpxchg that claims an armed timeout, which fails from now on; and as a
	 * release function after it has seen RELEASE, which is set below. [WRITE_ONCE:
	 * release-fn-broken-early; after queue_timeout_shutdown]
	 */
	WRITE_ONCE(t->fn, released);

	/* [preempt_disable: sweep-broken-section] */
	preempt_disable();
	/*
	 * Pairs with queue_sweep(): all that callbacks have written is visible.
	 * [smp_load_acquire: stopped-broken-acquire]
	 */
	stopped = smp_load_acquire(&w->state) >= QUEUE_STOPPED;
	if (!stopped) {
		pcpu = this_cpu_ptr(w->cpus);
		hwtimer_step_stall();
		old = atomic64_read(&t->word);
		/* [change_and_push: as the order is that of arm()] */
		while (!change_and_push(w, pcpu, t, &old,
					old | WORD_RELEASE | WORD_QUEUED))
			;
		/* Only if any arm would kick it, too, as it may sleep for long. */
		kick_worker(w, pcpu, HWTIMER_HORIZON);
		WARN_ONCE(old & WORD_RELEASE, "hwtimer: %ps released twice\n",
			  released);
	}
	/* [preempt_enable: sweep-broken-section barrier-broken-section; after change_and_push] */
	preempt_enable();

	if (stopped)
		released(t);
	return cancelled;
}
EXPORT_SYMBOL_IF_KUNIT(queue_release);

/**
 * queue_pending - is this timeout pending?
 * @t: the timeout
 *
 * Return: true if it is. It may expire or be cancelled before the caller uses the result.
 */
bool queue_pending(const struct hwtimer_timeout *t)
{
	return atomic64_read(&t->word) & WORD_ARMED;
}
EXPORT_SYMBOL_IF_KUNIT(queue_pending);

/**
 * queue_deadline - the deadline of a timeout
 * @t: a pending timeout
 *
 * Return: the deadline in ns since the wheel was created.
 */
u64 queue_deadline(const struct hwtimer_timeout *t)
{
	return word_deadline(atomic64_read(&t->word));
}
EXPORT_SYMBOL_IF_KUNIT(queue_deadline);

/**
 * queue_holds - may the worker still access this timeout?
 * @t: the timeout; meanwhile only its callback may arm it
 *
 * Return: false if @t is on no queue and in no bucket, and its callback does not run; all that
 * the callback has written is visible then.
 */
bool queue_holds(const struct hwtimer_timeout *t)
{
	const struct hwtimer_wheel *w = t->wheel;
	unsigned long expired;

	do {
		/*
		 * The worker increments expired after it has set running and before it calls the
		 * callback. If a callback runs during these checks and returns, it may have armed
		 * @t. Then expired has changed, and the checks are repeated. [smp_load_acquire:
		 * cancel-sync-rearm-broken-acquire; before atomic64_read_acquire]
		 */
		expired = smp_load_acquire(&w->expired);
		/*
		 * Finds a callback that began before expired was read. This check has to be before
		 * the word is read, otherwise the callback could arm @t and return in between.
		 * [smp_load_acquire: cancel-sync-rearm-broken-first-check
		 * cancel-sync-rearm-broken-check; before atomic64_read_acquire]
		 */
		if (whose(smp_load_acquire(&w->running)) == t)
			return true;
		hwtimer_step();
		/*
		 * The worker sets running before the cmpxchg that clears the flags, so if this
		 * acquire reads them as clear, the next read sees running.
		 * [atomic64_read_acquire: cancel-sync-rearm-broken-word
		 * cancel-sync-broken-word-acquire let-go-broken-acquire; after smp_load_acquire]
		 */
		if (atomic64_read_acquire(&t->word) & WORD_HELD)
			return true;
		hwtimer_step();
		/*
		 * Pairs with smp_store_release() after the callback, in expire() or settle().
		 * [smp_load_acquire: cancel-sync-rearm-broken-last-check
		 * cancel-sync-broken-acquire cancel-sync-broken-check; after atomic64_read_acquire]
		 */
		if (whose(smp_load_acquire(&w->running)) == t)
			return true;
		/* [READ_ONCE: cancel-sync-rearm-broken-count] */
	} while (READ_ONCE(w->expired) != expired);
	return false;
}
EXPORT_SYMBOL_IF_KUNIT(queue_holds);

/* From here on: functions of the worker, and functions that wait for it. */

/* Out of line, so that file() saves no registers for it while tracing is off. */
static noinline void trace_filed(struct hwtimer_wheel *w, struct hwtimer_timeout *t, u64 tick)
{
	trace_hwtimer_file(t, w, max(tick, w->wheel.cur),
			   WHEEL_LEVEL_OF(wheel_bucket(&w->wheel, tick)));
}

/* File @t for @deadline by wheel_file(), or, if it was taken last, wheel_file_again(). */
static __always_inline void file(struct hwtimer_wheel *w, struct hwtimer_timeout *t, u64 deadline,
				 void (*wheel_filing)(struct wheel *, struct list_head *, u64))
{
	u64 tick = unlikely(deadline == HWTIMER_HORIZON) ? WHEEL_NEVER : deadline_tick(w, deadline);

	wheel_filing(&w->wheel, &t->node, tick);
	if (trace_hwtimer_file_enabled())
		trace_filed(w, t, tick);
}

/*
 * Whatever has become of a timeout that the worker drains or releases, the next sleep ends at the
 * deadline of that timeout, or before; see "Sleeping".
 */
static __always_inline void note_deadline(struct hwtimer_wheel *w, u64 word)
{
	struct queue_sleep *s = &w->sleep;
	u64 deadline = word_deadline(word);

	if (likely(deadline >= s->soonest))
		return;
	if (word & WORD_DEAD)
		deadline = word_deadline(word & ~WORD_RELEASE);
	if (deadline > s->now)
		s->soonest = deadline;
	else
		s->over = true;
}

/* The same for the deadline for which a producer has kicked the worker. */
static void note_kick(struct hwtimer_wheel *w)
{
	u64 deadline = READ_ONCE(w->kicked_by);

	if (deadline)
		note_deadline(w, deadline << WORD_SHIFT);
	WRITE_ONCE(w->kicked_by, 0);
}

static noinline void wake_each(const struct hwtimer_timeout *t)
{
	struct queue_waiters *waiters = waiters_of(t);
	struct queue_waiter *waiter;

	raw_spin_lock(&waiters->lock);
	hlist_for_each_entry(waiter, &waiters->list, node)
		if (waiter->t == t)
			complete(&waiter->woken);
	raw_spin_unlock(&waiters->lock);
}

/*
 * Wake the waiters for @t. Uses only the address of @t, which may have been freed. The caller has a
 * full barrier between the change that the waiters wait for and this call; it pairs with the one
 * in queue_end_sync().
 */
static __always_inline void wake_waiters(struct hwtimer_wheel *w, const struct hwtimer_timeout *t)
{
	hwtimer_step();
	if (unlikely(atomic_read(&w->waiters)))
		wake_each(t);
}

/*
 * For the worker: change the word of @t from *@old to @new. If the word is no longer *@old, update
 * *@old and return false. If @new has neither QUEUED nor FILED, @t may have been freed after
 * success, so debugobjects is informed before.
 */
static bool change(struct hwtimer_timeout *t, u64 *old, u64 new)
{
	hwtimer_step();
	if (!(new & WORD_HELD))
		hwtimer_odebug_deactivate(t);
	/*
	 * [atomic64_try_cmpxchg: publish-broken-claim release-fn-broken-claim let-go-broken-change]
	 */
	if (atomic64_try_cmpxchg(&t->word, (s64 *)old, new))
		return true;
	if (!(new & WORD_HELD))
		hwtimer_odebug_activate(t);
	return false;
}

/*
 * @t, whose word was *@old, is due. If a task waits for its end, cancel it on behalf of the waiter;
 * see "Waiting". True if there is a waiter: *@old has been updated, and the caller has to decide
 * again.
 */
static noinline bool cancel_for_waiter(struct hwtimer_wheel *w, struct hwtimer_timeout *t, u64 *old)
{
	struct queue_waiters *waiters = waiters_of(t);
	struct queue_waiter *waiter;
	bool changed = false, found = false;

	raw_spin_lock(&waiters->lock);
	hlist_for_each_entry(waiter, &waiters->list, node) {
		if (waiter->t != t)
			continue;
		found = true;
		/* [atomic64_try_cmpxchg: cancel-expire-broken-cmpxchg] */
		while (!changed && (*old & (WORD_ARMED | WORD_QUEUED)) == WORD_ARMED)
			changed = atomic64_try_cmpxchg(&t->word, (s64 *)old, *old & ~WORD_ARMED);
		/* The waiter does not return, and this CPU stays, while the lock is held. */
		waiter->ended += changed;
		if (changed)
			local_inc(&this_cpu_ptr(w->cpus)->cancelled);
		break;
	}
	raw_spin_unlock(&waiters->lock);
	if (changed) {
		*old &= ~WORD_ARMED;
		uncharge(w);
	}
	return found;
}

/* Handle a request: file @t if it is armed, put it aside if it was released, else drop it. */
static void handle_request(struct hwtimer_wheel *w, struct hwtimer_timeout *t)
{
	u64 old = atomic64_read(&t->word), new;
	bool filed = old & WORD_FILED;

	do {
		if (old & WORD_ARMED) {
			new = (old & ~WORD_QUEUED) | WORD_FILED;
		} else {
			/* Unfile @t first: after the cmpxchg it belongs to its owner. */
			if (filed)
				wheel_unfile(&w->wheel, &t->node);
			filed = false;
			new = old & ~WORD_HELD;
			if (releasing(old))
				new |= WORD_QUEUED;
		}
		/* [change: touch-file-broken-store let-go-broken-change] */
	} while (!change(t, &old, new));

	hwtimer_step();
	count(&w->drained);
	note_deadline(w, new);
	if (new & WORD_FILED) {
		/* FILED is set, so @t belongs to the worker; see (b) for later deadlines. */
		if (filed)
			wheel_unfile(&w->wheel, &t->node);
		file(w, t, word_deadline(new), wheel_file);
	} else if (new & WORD_QUEUED) {
		/* Do not call the release function now: a callback may be running. */
		t->request.next = w->releases.aside;
		w->releases.aside = &t->request;
		return;
	}
	/* Also if @t was armed meanwhile: a waiter then cancels it again. */
	wake_waiters(w, t);
}

/* Drop the released timeout @t, and call its release function. */
static void call_released(struct hwtimer_wheel *w, struct hwtimer_timeout *t)
{
	u64 old = atomic64_read(&t->word);
	hwtimer_released_fn_t released = READ_ONCE(t->fn);

	count(&w->drained);
	/* A timeout that was never armed, or is over, says nothing about the next one. */
	if (word_deadline(old) > w->sleep.now)
		note_deadline(w, old);
	/* The timeout has DEAD and QUEUED set, so only the worker changes the word. */
	if (old & WORD_FILED)
		wheel_unfile(&w->wheel, &t->node);
	hwtimer_odebug_deactivate(t);
	hwtimer_step();
	/* [atomic64_andnot: as only the worker changes the word of a dead timeout] */
	atomic64_andnot(WORD_HELD, &t->word);
	/*
	 * Before reading waiters; see wake_waiters().
	 * [smp_mb__after_atomic: wait-broken-waker; after atomic64_andnot; before wake_waiters]
	 */
	smp_mb__after_atomic();
	wake_waiters(w, t);
	lock_map_acquire(&w->callback_map);
	released(t);
	lock_map_release(&w->callback_map);
}

/* A release cycle is over. Complete the barrier whose releases were in it, or in earlier ones. */
static void answer_barrier(struct hwtimer_wheel *w)
{
	struct completion *barrier = w->releases.cycle_barrier;

	if (likely(!barrier))
		return;
	w->releases.cycle_barrier = NULL;
	w->releases.drained_barrier = NULL;
	w->releases.pass_barrier = NULL;
	WRITE_ONCE(w->barrier, NULL);
	complete(barrier);
}

/*
 * Take all requests of a CPU at once, so that producers cannot prolong the drain forever, and
 * likewise those of up to QUEUE_ABREAST - 1 further CPUs. drain() walks these lists side by side,
 * and waits for the next request of all of them at once. (Each has to come from memory, or from the
 * cache of the CPU that pushed it, before the one after it is known. Timeouts of different CPUs
 * have no order.) A long list is walked alone, so that most of its requests are still in the
 * worker's cache when it handles them.
 */
static void take_requests(struct hwtimer_wheel *w)
{
	struct queue_cpu *pcpu;
	unsigned long pushed, n;
	bool alone = false;

	for (; w->drain.cpu < nr_cpu_ids && w->drain.nr_pushed < QUEUE_ABREAST && !alone;
	     w->drain.cpu = cpumask_next(w->drain.cpu, cpu_possible_mask)) {
		pcpu = per_cpu_ptr(w->cpus, w->drain.cpu);
		if (llist_empty(&pcpu->requests))
			continue;
		pushed = local_read(&pcpu->pushed);
		n = pushed - pcpu->taken;
		alone = n >= QUEUE_LONG;
		if (alone && w->drain.nr_pushed)
			break;
		/* [llist_del_all: push-broken-take] */
		w->drain.pushed[w->drain.nr_pushed++] = llist_del_all(&pcpu->requests);
		WRITE_ONCE(pcpu->taken, pushed);
	}
}

/*
 * Move all requests from @pushed, whose lists have the newest request first, to @taken: one of each
 * list in turn. False if the budget ran out.
 */
static __always_inline bool reverse_requests(struct hwtimer_wheel *w, unsigned int *budget)
{
	struct llist_node *node;
	unsigned int i = 0;

	while (w->drain.nr_pushed) {
		if (!*budget)
			return false;
		--*budget;
		i = (i ?: w->drain.nr_pushed) - 1;
		node = w->drain.pushed[i];
		w->drain.pushed[i] = node->next;
		if (node->next)
			prefetchw(node->next);
		else
			w->drain.pushed[i] = w->drain.pushed[--w->drain.nr_pushed];
		node->next = w->drain.taken;
		w->drain.taken = node;
	}
	return true;
}

/* Handle the requests on the queues of all CPUs. False if the budget ran out. */
static bool drain(struct hwtimer_wheel *w, unsigned int *budget)
{
	struct llist_node *node;

	for (;;) {
		if (!reverse_requests(w, budget))
			return false;
		while (w->drain.taken) {
			if (!*budget)
				return false;
			--*budget;
			node = w->drain.taken;
			w->drain.taken = node->next;
			handle_request(w, llist_entry(node, struct hwtimer_timeout,
						      request));
		}
		if (w->drain.cpu >= nr_cpu_ids)
			return true;
		take_requests(w);
	}
}

/* Are there requests that were taken from the queues, and not handled? */
static bool drain_left(const struct hwtimer_wheel *w)
{
	return w->drain.nr_pushed || w->drain.taken;
}

static void drain_restart(struct hwtimer_wheel *w)
{
	w->drain.cpu = cpumask_first(cpu_possible_mask);
}

/**
 * queue_drain_all - handle all requests
 * @w: the wheel
 *
 * For the worker only, also inside a callback. May sleep.
 */
void queue_drain_all(struct hwtimer_wheel *w)
{
	unsigned int budget;

	drain_restart(w);
	do {
		budget = QUEUE_BUDGET;
		cond_resched();
	} while (!drain(w, &budget));
}
EXPORT_SYMBOL_IF_KUNIT(queue_drain_all);

/* End @t, and ask the worker to drop it. */
static bool end_and_detach(struct hwtimer_timeout *t, queue_end_fn end)
{
	bool ended = end(t);

	hwtimer_step();
	queue_detach(t);
	return ended;
}

/**
 * queue_end_sync - end a timeout and wait until the wheel no longer holds it
 * @t: the timeout
 * @end: queue_cancel() or queue_timeout_shutdown()
 * @patience: timeout of the wait in jiffies, or MAX_SCHEDULE_TIMEOUT
 *
 * If the callback arms @t again meanwhile, this function or the worker cancels @t again. If other
 * tasks arm @t meanwhile, it may be cancelled or not. After the wait has begun, at most one more
 * callback of @t begins: one that the worker was just about to claim. If @patience ends, the wheel
 * may still hold @t. Process context, may sleep; callbacks of the wheel use queue_end_in_callback()
 * instead.
 *
 * Return: how many armings of @t this has cancelled.
 */
unsigned int queue_end_sync(struct hwtimer_timeout *t, queue_end_fn end, unsigned long patience)
{
	struct queue_waiters *waiters = waiters_of(t);
	struct hwtimer_wheel *w = timeout_wheel(t);
	struct queue_waiter self = { .t = t };
	unsigned int ended = 0;

	init_completion(&self.woken);
	raw_spin_lock(&waiters->lock);
	hlist_add_head(&self.node, &waiters->list);
	raw_spin_unlock(&waiters->lock);
	atomic_inc(&w->waiters);
	/*
	 * Pairs with wake_waiters(), see "Waiting".
	 * [smp_mb__after_atomic: wait-broken-waiter; after atomic_inc; before end_and_detach]
	 */
	smp_mb__after_atomic();

	for (;;) {
		ended += end_and_detach(t, end);
		if (!queue_holds(t))
			break;
		/*
		 * Pairs with look_around(): after the request. [atomic_inc_return: as a miss only
		 * makes the wait longer; after end_and_detach]
		 */
		atomic_inc_return(&w->awaited);
		patience = wait_for_completion_timeout(&self.woken, patience);
		if (!patience)
			break;
	}

	atomic_dec(&w->waiters);
	raw_spin_lock(&waiters->lock);
	hlist_del(&self.node);
	raw_spin_unlock(&waiters->lock);
	return ended + self.ended;
}
EXPORT_SYMBOL_IF_KUNIT(queue_end_sync);

/**
 * queue_end_in_callback - queue_end_sync() for callbacks of the same wheel
 * @t: another timeout, or the callback's own one if it was initialised again
 * @end: queue_cancel() or queue_timeout_shutdown()
 *
 * A callback runs in the worker, so it cannot wait for the worker: it drains the queues itself.
 * If @t was released, this returns at once, and the release function is called after the callback
 * has returned. Process context, may sleep.
 *
 * Return: as queue_end_sync().
 */
unsigned int queue_end_in_callback(struct hwtimer_timeout *t, queue_end_fn end)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	unsigned int ended = end_and_detach(t, end);
	u64 word;

	/* This is the worker, so only this loop can drop @t. */
	while ((word = atomic64_read(&t->word)) & WORD_HELD && !releasing(word)) {
		/* A producer on another CPU may be about to push @t; it is not preemptible. */
		cpu_relax();
		queue_drain_all(w);
		ended += end_and_detach(t, end);
	}
	return ended;
}

/* Wake the waiters for the timeout whose callback ended last. A full barrier precedes this. */
static __always_inline void wake_after_barrier(struct hwtimer_wheel *w)
{
	if (w->pass.ended) {
		wake_waiters(w, w->pass.ended);
		w->pass.ended = NULL;
	}
}

/*
 * Around callbacks, and before a release function, if somebody waits or has stopped the wheel. If
 * it is stopped, no more callbacks are to be called: the budget is used up. Else, if somebody has
 * begun to wait since the last time, drain the queues. Each call of queue_advance() has a share for
 * this, or nothing would expire as long as tasks wait again and again. Not before the pass has
 * drained what it has to: to begin anew with the first CPU would keep that from its end.
 */
static noinline void look_around(struct hwtimer_wheel *w, unsigned int *budget)
{
	/*
	 * Before the queues. Pairs with queue_end_sync().
	 * [atomic_read_acquire: as a miss only makes the wait longer; before drain]
	 */
	int awaited = atomic_read_acquire(&w->awaited);
	unsigned int slice;
	bool over = false;

	if (READ_ONCE(w->state) >= QUEUE_SHUTDOWN) {
		*budget = 0;
		return;
	}
	if (w->pass.awaited == awaited ||
	    (w->pass.stage != STAGE_SETTLE && w->pass.stage != STAGE_REST))
		return;
	w->pass.in_row = false;
	/* If the share ran out before, go on with the CPUs that were not reached. */
	if (w->drain.cpu >= nr_cpu_ids && !drain_left(w)) {
		drain_restart(w);
		w->pass.looking = awaited;
	}
	while (!over && w->pass.spare) {
		slice = min_t(unsigned int, w->pass.spare, QUEUE_BUDGET);
		w->pass.spare -= slice;
		over = drain(w, &slice);
		w->pass.spare += slice;
		cond_resched();
	}
	/* To look at the queues of many CPUs takes time, too. */
	w->pass.spare -= min(w->pass.spare, DIV_ROUND_UP(nr_cpu_ids, 8));
	if (over)
		w->pass.awaited = w->pass.looking;
}

/* Others have a share of the worker's time, however long callbacks or release functions take. */
static __always_inline void end_if_long(const struct hwtimer_wheel *w, unsigned int *budget)
{
	if (unlikely(time_after(jiffies, w->pass.ends)))
		*budget = 0;
}

static void expire(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		   hwtimer_fn_t fn, u64 deadline, unsigned int *budget)
{
	hwtimer_step();
	/*
	 * Before the callback, so that it can arm another timeout under the cap.
	 * [count: cancel-sync-rearm-broken-count; before call]
	 */
	count(&w->expired);
	uncharge(w);
	lock_map_acquire(&w->callback_map);
	w->ops->call(w, t, fn, deadline);
	lock_map_release(&w->callback_map);
	hwtimer_step();
	/* Pairs with queue_holds(). [smp_store_release: cancel-sync-broken-release; after call] */
	smp_store_release(&w->running, NULL);
	w->pass.ended = t;
	if (unlikely(atomic_read(&w->waiters)))
		look_around(w, budget);
	end_if_long(w, budget);
}

/* Note what is due, and count the visit, and the tick if a bucket of level 0 is visited. */
static void begin_settling(struct hwtimer_wheel *w)
{
	count(&w->visits);
	if (w->pass.cur == w->wheel.cur)
		return;
	w->pass.cur = w->wheel.cur;
	/* The search for this tick belongs to no callback. */
	w->pass.in_row = false;
	/* Of level 0 this tick has begun; other levels cascade before @cur begins. */
	w->pass.due_by = (w->wheel.cur - 1) * w->tick_ns;
	if (!WHEEL_LEVEL_OF(w->wheel.visited))
		count(&w->ticks);
}

/* Expire, drop or file again a timeout that was taken from the wheel. */
static void settle(struct hwtimer_wheel *w, struct hwtimer_timeout *t, unsigned int *budget)
{
	u64 old = atomic64_read(&t->word), new;
	hwtimer_fn_t fn;

	/* Fetch the next timeout while the callback runs and the clock is read. */
	prefetchw(w->wheel.visit.nodes.next);
	begin_settling(w);
	for (;;) {
		fn = NULL;
		if (old & WORD_ARMED && word_deadline(old) > w->pass.due_by) {
			/* FILED stays set, so it still belongs to the worker. */
			count(WHEEL_LEVEL_OF(w->wheel.visited) ? &w->cascaded : &w->refiled);
			file(w, t, word_deadline(old), wheel_file_again);
			break;
		}
		/* If it is not armed, drop it. If it is armed and queued, the drain files it. */
		new = old & ~WORD_FILED;
		if ((old & (WORD_ARMED | WORD_QUEUED)) == WORD_ARMED) {
			/*
			 * No barrier: if its callback armed it, the cmpxchg of handle_request()
			 * came in between.
			 */
			if (unlikely(atomic_read(&w->waiters)) && cancel_for_waiter(w, t, &old))
				continue;
			/* [READ_ONCE: release-fn-broken-late] */
			fn = READ_ONCE(t->fn);
			/*
			 * Both before the cmpxchg, for queue_release() and queue_holds(). Release:
			 * whoever sees @t here, and not the NULL of expire(), sees what the last
			 * callback has written. [smp_store_release: cancel-sync-row-broken-next
			 * cancel-sync-broken-running-late; after READ_ONCE]
			 */
			smp_store_release(&w->running, t);
			new &= ~WORD_ARMED;
		}
		/*
		 * [change: publish-broken-claim cancel-expire-broken-expire
		 * cancel-sync-broken-claim release-fn-broken-claim wait-row-broken-claim
		 * release-dead-broken-claim; after smp_store_release; before wake_after_barrier]
		 */
		if (change(t, &old, new)) {
			wake_after_barrier(w);
			break;
		}
	}

	if (fn) {
		expire(w, t, fn, word_deadline(old), budget);
		return;
	}
	w->pass.in_row = false;
	if (READ_ONCE(w->running)) {
		/*
		 * The claim failed. Release: a waiter for the callback before this may read this
		 * NULL, and not that of expire(). Pairs with queue_holds().
		 * [smp_store_release: cancel-sync-row-broken-back]
		 */
		smp_store_release(&w->running, NULL);
		/*
		 * Before reading waiters; see wake_waiters().
		 * [smp_mb: wait-broken-waker; after smp_store_release; before wake_waiters]
		 */
		smp_mb();
	} else if (old & WORD_ARMED) {
		/* It was filed again, or the drain will file it. */
		return;
	}
	wake_waiters(w, t);
}

/*
 * Settle the ticks up to @target. False if the budget ran out. Once the wheel is shut down, nothing
 * more is settled: a stop hands back what has not expired.
 */
static bool settle_ticks(struct hwtimer_wheel *w, unsigned int *budget)
{
	struct list_head *node;

	if (unlikely(atomic_read(&w->waiters)))
		look_around(w, budget);
	w->pass.ends = jiffies + 1;
	while ((node = wheel_take(&w->wheel, w->pass.target, budget)))
		settle(w, list_entry(node, struct hwtimer_timeout, node), budget);
	w->pass.in_row = false;
	if (w->pass.ended) {
		/*
		 * No other timeout follows. Before reading waiters; see wake_waiters().
		 * [smp_mb: wait-broken-waker; before wake_after_barrier]
		 */
		smp_mb();
		wake_after_barrier(w);
	}
	return wheel_took_all(&w->wheel, w->pass.target) ||
	       READ_ONCE(w->state) >= QUEUE_SHUTDOWN;
}

/*
 * Call release functions, up to the budget.
 *
 * A release cycle handles the timeouts that were put aside, then the queue of released timeouts of
 * each CPU in turn. Timeouts that a CPU releases after its turn wait for the next cycle, so each
 * cycle ends. The end of a cycle completes queue_barrier() if the barrier was requested before a
 * pass whose drain was over when the cycle began: what that pass put aside is in the cycle, or was
 * in one before it. False if the budget ran out; the next call continues the cycle.
 */
static bool release_some(struct hwtimer_wheel *w, unsigned int *budget)
{
	unsigned int cpu = w->releases.cpu, ignored;
	struct llist_node *node;
	struct queue_cpu *pcpu;

	w->pass.ends = jiffies + 1;
	if (cpu >= nr_cpu_ids && !w->releases.next) {
		cpu = cpumask_first(cpu_possible_mask);
		w->releases.next = w->releases.aside;
		w->releases.aside = NULL;
		w->releases.cycle_barrier = w->releases.drained_barrier;
	}
	for (;;) {
		while (w->releases.next) {
			if (!*budget) {
				w->releases.cpu = cpu;
				return false;
			}
			--*budget;
			if (unlikely(atomic_read(&w->waiters)))
				look_around(w, &ignored);
			node = w->releases.next;
			w->releases.next = node->next;
			call_released(w, llist_entry(node, struct hwtimer_timeout, request));
			end_if_long(w, budget);
		}
		if (cpu >= nr_cpu_ids)
			break;
		pcpu = per_cpu_ptr(w->cpus, cpu);
		cpu = cpumask_next(cpu, cpu_possible_mask);
		if (llist_empty(&pcpu->released))
			continue;
		WRITE_ONCE(pcpu->given_back, local_read(&pcpu->gone));
		/* [llist_del_all: push-broken-take] */
		w->releases.next = llist_del_all(&pcpu->released);
	}
	w->releases.cpu = cpu;
	answer_barrier(w);
	return true;
}

/* Before a pass drains: take the look that it will answer. */
static void take_look(struct hwtimer_wheel *w)
{
	/* Pairs with queue_look(). [xchg: look-broken-take look-back-broken-xchg] */
	if (unlikely(READ_ONCE(w->look)))
		w->pass.look = xchg(&w->look, NULL);
}

/* Answer a look once the buckets have all requests that came before it. */
static void answer_look(struct hwtimer_wheel *w)
{
	struct queue_look *look = w->pass.look;
	struct hwtimer_timeout *t;
	unsigned int n, i;
	u64 word;

	if (likely(!look) || w->pass.stage == STAGE_DRAIN || w->pass.stage == STAGE_OVERDUE)
		return;
	w->pass.look = NULL;
	n = wheel_list(&w->wheel, look->bucket, look->nodes, QUEUE_SHOWN);
	for (i = 0; i < n; i++) {
		t = list_entry(look->nodes[i], struct hwtimer_timeout, node);
		word = atomic64_read(&t->word);
		if (word & WORD_ARMED)
			look->show(look, t, word_deadline(word));
	}
	look->more = n == QUEUE_SHOWN;
	look->n = n;
	complete(&look->done);
}

/**
 * queue_advance - advance the wheel to @now
 * @w: the wheel
 * @now: ns since the wheel was created; if it is earlier than before, time stands still
 * @budget: maximum number of timeouts to handle and of buckets to skip; a request counts twice, as
 *	it is reversed, too. What somebody waits for, and release functions, may come on top
 *
 * A pass drains all requests pushed before it, then settles the ticks up to @now in order: it calls
 * the callbacks of all timeouts that are due. It may take several calls. For the worker only.
 *
 * At the end of each call, release functions are called: as many as the budget has left, and at
 * least half of @budget, or an eighth while something is due. So neither those who release nor
 * those who arm timeouts without a pause keep the others waiting. Nor do callbacks and release
 * functions that take long: they use up the budget after two jiffies.
 *
 * If producers push faster than the worker drains, each pass takes longer than the one before. So
 * that this delays only the timeouts whose requests wait, a drain that takes more than a tick, and
 * has drained QUEUE_DRAIN_SHARE requests, is interrupted: the worker settles the ticks that are
 * over, then drains the rest. A timeout of such a tick whose request still waits is late by the
 * time that it waits and less than a tick, and expires behind timeouts due later.
 *
 * Return: true if there is more to do. Then call again, with the time as of that call, and let
 * other tasks run in between.
 */
bool queue_advance(struct hwtimer_wheel *w, u64 now, unsigned int budget)
{
	u64 tick = div64_u64(min(now, HWTIMER_HORIZON - 1), w->tick_ns);
	unsigned int before, whole = budget;
	unsigned long drained;
	bool over = false, late;

	w->pass.in_row = false;
	w->pass.spare = w->drain.share;
	w->sleep.now = now;
	/* What is over bounds no sleep. */
	if (w->sleep.soonest <= now)
		w->sleep.soonest = HWTIMER_HORIZON;
	if (w->pass.stage == STAGE_OVERDUE) {
		if (settle_ticks(w, &budget)) {
			w->pass.stage = STAGE_DRAIN;
			/* The drain gets its share, too, before it is interrupted again. */
			w->drain.used = 0;
		}
	}
	if (w->pass.stage == STAGE_REST) {
		/*
		 * The caller read the time before the drain: a request that this pass does not see
		 * was pushed after @now.
		 */
		w->pass.target = tick;
		/*
		 * Before the drain. Pairs with smp_store_release() in queue_barrier().
		 * [smp_load_acquire: barrier-broken-acquire; before drain_restart]
		 */
		w->releases.pass_barrier = smp_load_acquire(&w->barrier);
		take_look(w);
		hwtimer_step();
		drain_restart(w);
		w->drain.used = 0;
		w->pass.stage = STAGE_DRAIN;
	}
	if (w->pass.stage == STAGE_DRAIN) {
		drained = w->drained;
		before = budget;
		if (drain(w, &budget)) {
			w->releases.drained_barrier = w->releases.pass_barrier;
			w->pass.stage = STAGE_SETTLE;
		}
		w->drain.used += before - budget;
		if (w->pass.stage == STAGE_DRAIN && tick > w->pass.target + 1 &&
		    w->drain.used >= w->drain.share) {
			w->pass.target = tick - 1;
			w->pass.stage = STAGE_OVERDUE;
		}
		if (w->drained != drained)
			trace_hwtimer_drain(w, w->drained - drained);
	}
	if (w->pass.stage == STAGE_SETTLE)
		over = settle_ticks(w, &budget);
	if (over)
		w->pass.stage = STAGE_REST;
	/* Release functions must not make what is due much later. */
	late = !over && (w->pass.stage != STAGE_DRAIN || wheel_next(&w->wheel, tick, 0) <= tick);
	budget = max(budget, DIV_ROUND_UP(whole, late ? 8 : 2));
	/* What was put aside since the release cycle began is left for the next one. */
	if (!release_some(w, &budget) || w->releases.aside || drain_left(w))
		over = false;
	answer_look(w);
	return !over;
}
EXPORT_SYMBOL_IF_KUNIT(queue_advance);

/* Is a request on a queue? */
static bool requested(const struct hwtimer_wheel *w)
{
	const struct queue_cpu *pcpu;
	int cpu;

	for_each_possible_cpu(cpu) {
		pcpu = per_cpu_ptr(w->cpus, cpu);
		if (!llist_empty(&pcpu->requests) || !llist_empty(&pcpu->released))
			return true;
	}
	return false;
}

/*
 * Has a CPU released many timeouts since the worker took its released ones last? It may have done
 * so while the worker was awake, which was not kicked then.
 */
static bool released_many(const struct hwtimer_wheel *w)
{
	const struct queue_cpu *pcpu;
	int cpu;

	for_each_possible_cpu(cpu) {
		pcpu = per_cpu_ptr(w->cpus, cpu);
		if (local_read(&pcpu->gone) - pcpu->given_back >= QUEUE_DEPTH &&
		    !llist_empty(&pcpu->released))
			return true;
	}
	return false;
}

/*
 * Has each producer that has set QUEUED pushed its request? That takes it a few instructions,
 * unless an interrupt came, or a hypervisor has preempted its CPU. Then this may give up.
 */
static bool all_pushed(const struct hwtimer_wheel *w)
{
	unsigned int polls = QUEUE_POLLS;
	const struct queue_cpu *pcpu;
	int cpu;

	for_each_possible_cpu(cpu) {
		pcpu = per_cpu_ptr(w->cpus, cpu);
		/* [local_read: wakeup-in-flight-broken-order] */
		while (local_read(&pcpu->in_flight)) {
			if (!polls--)
				return false;
			cpu_relax();
		}
	}
	return true;
}

/*
 * Take the requests that were pushed before @kick_below was published; unless @busy, there must be
 * none. False if the worker has to go on instead of sleeping.
 */
static bool take_last(struct hwtimer_wheel *w, bool busy)
{
	unsigned int budget = QUEUE_BUDGET;
	unsigned long drained = w->drained;
	bool over;

	if (!all_pushed(w))
		return false;
	/*
	 * Before the queues are read; pairs with change_and_push().
	 * [smp_rmb: wakeup-in-flight-broken-rmb; after all_pushed; before requested; before drain]
	 */
	smp_rmb();
	hwtimer_step();
	if (!busy)
		return !requested(w);
	drain_restart(w);
	over = drain(w, &budget);
	if (w->drained != drained)
		trace_hwtimer_drain(w, w->drained - drained);
	return over && !released_many(w);
}

/* When the tick begins at which a timeout with this deadline expires, ns. */
static u64 expiry(const struct hwtimer_wheel *w, u64 deadline)
{
	return deadline_tick(w, deadline) * w->tick_ns;
}

/*
 * By when the next timeouts may expire if they are like those that the worker has seen. If these
 * are all over, or if some are for the second time within a tick, the next ones may be due at once,
 * too.
 */
static u64 expiry_of_seen(const struct hwtimer_wheel *w)
{
	const struct queue_sleep *s = &w->sleep;
	u64 since = min(s->now, s->until) - s->over_at;
	bool again = s->over_at && since <= (w->slack + 1) * w->tick_ns;

	return expiry(w, s->over && (again || s->soonest == HWTIMER_HORIZON) ? s->now + 1 :
									      s->soonest);
}

/*
 * Timeouts with deadlines below this have to expire before @until. If @until is the next tick for
 * which anything can be filed, none has to: 1, which kicks for no deadline but 0, while 0 says that
 * the worker is awake.
 */
static u64 expiring_before(const struct hwtimer_wheel *w, u64 until)
{
	u64 tick = div64_u64(until - 1, w->tick_ns) & ~w->slack;

	return tick < w->wheel.cur ? 1 : tick * w->tick_ns + 1;
}

/*
 * How long may the worker sleep while timeouts are being armed, ns? If the last sleep was ended by
 * a kick for a timeout that is not due at once, half of what was left of it, or of what its limit
 * was, if that is less; if it lasted until its end, a quarter longer than its limit.
 */
static u64 sleep_limit(const struct hwtimer_wheel *w, u64 now)
{
	const struct queue_sleep *s = &w->sleep;
	u64 limit = s->limit, least;

	if (!s->until)
		return QUEUE_DRAIN_NS;
	if (now >= s->until)
		limit += limit / 4;
	else if (expiry(w, s->soonest) < s->until)
		limit = min(limit, s->until - now) / 2;
	least = max_t(u64, (w->slack + 1) * w->tick_ns, QUEUE_NAP_NS);
	return min(max(limit, least), QUEUE_DRAIN_NS);
}

/*
 * Has the worker slept for long, until the end that it had planned? If nothing is pending then, the
 * next arm may kick it: that costs a kick per QUEUE_SPELL_NS, and saves a wake-up for nothing.
 */
static bool slept_long(const struct hwtimer_wheel *w, u64 now)
{
	const struct queue_sleep *s = &w->sleep;

	return s->until && now >= s->until && s->until - s->since >= QUEUE_SPELL_NS;
}

/* The time until which nothing filed is due, or an earlier one, up to @until. */
static u64 nothing_until(struct hwtimer_wheel *w, u64 until)
{
	u64 last = div64_u64(min(until, HWTIMER_HORIZON), w->tick_ns), next;

	/* The product must not overflow. */
	next = min(wheel_next(&w->wheel, last, QUEUE_PROBES), last + 1);
	return min(next * w->tick_ns, until);
}

/**
 * queue_prepare_sleep - until when may the worker sleep?
 * @w: the wheel, after queue_advance() has returned false
 * @now: the time passed to queue_advance()
 *
 * For the worker only; does not sleep, but may handle requests. From before this call on, a kick
 * must keep the worker from sleeping, as after set_current_state(). When the worker runs again, it
 * calls queue_awake().
 *
 * Return: when to call queue_advance() again, in ns since the wheel was created; 0: at once;
 * QUEUE_IDLE: nothing is pending, so not before the next kick.
 */
u64 queue_prepare_sleep(struct hwtimer_wheel *w, u64 now)
{
	/* What is left then is handed back or dropped, so the worker sleeps until it is ended. */
	bool busy, stops = READ_ONCE(w->state) >= QUEUE_SHUTDOWN;
	u64 until = QUEUE_IDLE, limit;
	s64 published = U64_MAX;
	struct queue_counts c;

	queue_count(w, &c);
	hwtimer_step();
	busy = !stops && (c.armed != w->sleep.armed || w->drained != w->sleep.drained) &&
	       (c.pending || !slept_long(w, now));
	note_kick(w);
	limit = sleep_limit(w, now);
	/* If the worker wakes soon anyway, arms for later deadlines need not kick it. */
	if (!busy && !stops && c.pending)
		busy = nothing_until(w, QUEUE_IDLE) <= min(now, HWTIMER_HORIZON) + limit;
	if (busy) {
		until = min(min(now, HWTIMER_HORIZON) + limit, expiry_of_seen(w));
		published = expiring_before(w, until);
	}
	hwtimer_step();
	/* [atomic64_set: wakeup-broken-check] */
	atomic64_set(&w->kick_below, published);
	/*
	 * Pairs with the full barrier between a producer's push and its read of kick_below; see
	 * "Sleeping" above. [smp_mb: wakeup-broken-worker wakeup-count-broken-worker
	 * wakeup-in-flight-broken-worker; after atomic64_set; before take_last; before queue_count]
	 */
	smp_mb();
	hwtimer_step();
	/* [take_last: model without-last-take; after smp_mb] */
	if (!take_last(w, busy) || READ_ONCE(w->look) || READ_ONCE(w->barrier))
		goto awake;
	/* Somebody may wait for the end of a timeout that was released. */
	if (unlikely(atomic_read(&w->waiters)) && (w->releases.aside || requested(w)))
		goto awake;

	/* [expiry_of_seen: model end-not-lowered; after take_last] */
	if (busy)
		until = min(until, expiry_of_seen(w));
	if (busy || (!stops && c.pending)) {
		until = nothing_until(w, until);
		/* The pass began before @now, and something became due since. */
		if (until <= now && now < HWTIMER_HORIZON)
			goto awake;
		/* From HWTIMER_HORIZON on, only timeouts that never expire are left. */
		if (until <= now)
			until = now + QUEUE_DRAIN_NS;
	} else if (!stops) {
		hwtimer_step();
		/*
		 * A cancelled timeout that is still filed can be armed without a request.
		 * [queue_count: wakeup-count-broken-last-check; after smp_mb]
		 */
		queue_count(w, &c);
		if (c.pending)
			goto awake;
	}
	/* Fails after a kick. [atomic64_try_cmpxchg: as a kick ends the sleep at once] */
	if (busy && !atomic64_try_cmpxchg(&w->kick_below, &published, expiring_before(w, until)))
		goto awake;

	w->sleep.armed = c.armed;
	w->sleep.drained = w->drained;
	w->sleep.soonest = HWTIMER_HORIZON;
	if (w->sleep.over)
		w->sleep.over_at = now;
	w->sleep.over = false;
	w->sleep.since = now;
	w->sleep.until = busy ? until : 0;
	w->sleep.limit = limit;
	return until;
awake:
	queue_awake(w);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(queue_prepare_sleep);

/**
 * queue_count - sum up the counts of a wheel
 * @w: the wheel
 * @c: filled in
 *
 * Any context. See struct queue_counts.
 */
void queue_count(const struct hwtimer_wheel *w, struct queue_counts *c)
{
	const struct queue_cpu *pcpu;
	int cpu;

	memset(c, 0, sizeof(*c));
	c->expired = READ_ONCE(w->expired);
	c->handed_back = READ_ONCE(w->handed_back);
	c->drained = READ_ONCE(w->drained);
	c->visits = READ_ONCE(w->visits);
	c->cascaded = READ_ONCE(w->cascaded);
	c->refiled = READ_ONCE(w->refiled);
	c->ticks = READ_ONCE(w->ticks);
	for_each_possible_cpu(cpu) {
		pcpu = per_cpu_ptr(w->cpus, cpu);
		c->cancelled += local_read(&pcpu->cancelled);
		c->touched += local_read(&pcpu->touched);
		c->rejected += local_read(&pcpu->rejected);
		c->kicks += local_read(&pcpu->kicks);
	}
	/*
	 * A timeout is counted as armed before it is armed, and as expired, cancelled or handed
	 * back afterwards, with full barriers (cmpxchg of the word) in between. The counts of arms
	 * are read last: they include the arming of each timeout whose end was read above, so
	 * pending is never too low. [smp_rmb: count-broken-rmb count-broken-order; after
	 * for_each_possible_cpu; before for_each_possible_cpu]
	 */
	smp_rmb();
	hwtimer_step();
	for_each_possible_cpu(cpu)
		c->armed += local_read(&per_cpu_ptr(w->cpus, cpu)->armed);
	c->pending = c->armed - c->cancelled - c->expired - c->handed_back;
}
EXPORT_SYMBOL_IF_KUNIT(queue_count);

/**
 * queue_look - have the worker look at the timeouts of a bucket
 * @w: the wheel
 * @look: which bucket, and what to do with its timeouts. Filled in
 *
 * The worker does this in one step, after it has filed what was armed before. It looks at
 * QUEUE_SHOWN timeouts at most, pending or not. On a wheel that is not started, or is being
 * stopped, there is nothing to see. Process context, may sleep; waits for the pass in progress and
 * for the drain of the next one.
 *
 * Return: 0, or -EINTR after a fatal signal, which does not end the wait for that drain.
 */
int queue_look(struct hwtimer_wheel *w, struct queue_look *look)
{
	bool started;
	int ret;

	look->n = 0;
	look->more = false;
	init_completion(&look->done);
	ret = mutex_lock_killable(&w->look_lock);
	if (ret)
		return ret;
	/* Do not wait for worker_lock during a stop, which holds it until its end. */
	if (READ_ONCE(w->state) >= QUEUE_SHUTDOWN)
		goto out;
	/* Either a stop has begun before, or it comes later and ends this look. */
	ret = mutex_lock_killable(&w->worker_lock);
	if (ret)
		goto out;
	started = READ_ONCE(w->state) == QUEUE_STARTED;
	if (started) {
		/*
		 * Release: a worker that is awake sees *look filled in; pairs with take_look(). If
		 * the worker is about to sleep, the kick orders this store before its last check.
		 * [smp_store_release: look-broken-release; before kick]
		 */
		smp_store_release(&w->look, look);
		w->ops->kick(w);
	}
	mutex_unlock(&w->worker_lock);
	if (started) {
		ret = wait_for_completion_killable(&look->done);
		/*
		 * Withdraw the look. If a pass has taken it, wait for the end of its drain.
		 * [cmpxchg: look-back-broken-cmpxchg]
		 */
		if (ret && cmpxchg(&w->look, look, NULL) != look)
			wait_for_completion(&look->done);
	}
out:
	mutex_unlock(&w->look_lock);
	return ret ? -EINTR : 0;
}
EXPORT_SYMBOL_IF_KUNIT(queue_look);

/**
 * queue_barrier - wait for release functions and running callbacks
 * @w: the wheel
 *
 * Waits until the release functions of all timeouts that were released before this call have
 * returned, and all callbacks that had begun before it. Process context, may sleep.
 */
void queue_barrier(struct hwtimer_wheel *w)
{
	DECLARE_COMPLETION_ONSTACK(done);

	/*
	 * A released timeout has QUEUED set, but another producer may still be about to push it, in
	 * a section that is not preemptible. After the grace period it has been pushed.
	 * [synchronize_rcu: barrier-broken-grace]
	 */
	synchronize_rcu();

	mutex_lock(&w->worker_lock);
	/* The lock excludes a stop; queue_sweep() calls the release functions. */
	if (READ_ONCE(w->state) < QUEUE_STOPPED) {
		/*
		 * The next pass that begins reads this; see release_some(). [smp_store_release: as
		 * the grace period is enough; after synchronize_rcu; before kick]
		 */
		smp_store_release(&w->barrier, &done);
		w->ops->kick(w);
		wait_for_completion(&done);
	}
	mutex_unlock(&w->worker_lock);
}
EXPORT_SYMBOL_IF_KUNIT(queue_barrier);

/*
 * The levels of a wheel, as the base-2 logarithm of the slots of each. Returns their number, or 0
 * if @params is invalid. A level above one that reaches HWTIMER_HORIZON is of no use.
 */
static unsigned int shape_levels(const struct hwtimer_wheel_params *params, unsigned char *bits)
{
	unsigned int levels = params->levels, most = WHEEL_MAX_LEVELS, reach;
	u64 last;

	if (!params->tick_ns)
		return 0;
	memcpy(bits, params->bits, WHEEL_MAX_LEVELS);
	if (!bits[0]) {
		if (!params->slots || params->slots > BIT(WHEEL_MAX_BITS) || levels > most)
			return 0;
		memset(bits, ilog2(roundup_pow_of_two(params->slots)), most);
		/* A level above one of 1 or 2 slots would reach no further. */
		if (bits[0] < 2)
			most = 1;
	} else {
		if (params->slots || levels)
			return 0;
		for (most = 1; most < WHEEL_MAX_LEVELS && bits[most]; most++)
			;
		levels = most;
	}
	if (bits[0] > WHEEL_MAX_BITS || params->tick_ns > HWTIMER_HORIZON >> bits[0])
		return 0;
	last = div64_u64(HWTIMER_HORIZON, params->tick_ns);
	reach = wheel_levels(bits, most, last);
	return levels > reach ? 0 : levels ?: reach;
}

/**
 * queue_init - initialise a wheel
 * @w: the wheel
 * @params: its ticks, slack, slots, levels and cap
 * @ops: what who drives the wheel provides
 *
 * Return: 0, -EINVAL, -ENOMEM. On error nothing has to be freed.
 */
int queue_init(struct hwtimer_wheel *w, const struct hwtimer_wheel_params *params,
	       const struct queue_ops *ops)
{
	unsigned char bits[WHEEL_MAX_LEVELS];
	unsigned int levels = shape_levels(params, bits);

	memset(w, 0, sizeof(*w));
	if (!levels || params->slack_ns > HWTIMER_HORIZON)
		return -EINVAL;
	w->tick_ns = params->tick_ns;
	w->slack = (1ULL << ilog2(div64_u64(params->slack_ns, w->tick_ns) + 1)) - 1;
	w->ops = ops;
	/* Each request is reversed, and handled. */
	w->drain.share = 2 * QUEUE_DRAIN_SHARE;
	w->releases.cpu = nr_cpu_ids;
	/* The first arm kicks the worker, whatever its deadline is. */
	atomic64_set(&w->kick_below, U64_MAX);
	w->sleep.soonest = HWTIMER_HORIZON;
	lockdep_register_key(&w->callback_key);
	lockdep_init_map(&w->callback_map, "hwtimer_callback", &w->callback_key, 0);
	mutex_init(&w->worker_lock);
	mutex_init(&w->look_lock);

	w->cpus = alloc_percpu(struct queue_cpu);
	w->buckets = kvmalloc(wheel_size(bits, levels), GFP_KERNEL | __GFP_NOWARN);
	if (params->cap)
		w->places = places_create(params->cap);
	if (!w->cpus || !w->buckets || (params->cap && !w->places)) {
		queue_free(w);
		return -ENOMEM;
	}
	wheel_init(&w->wheel, bits, levels, w->buckets);
	/* One wake-up serves the steps of many ticks. */
	w->wheel.align = w->slack;
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(queue_init);

/**
 * queue_free - free the memory of a wheel
 * @w: a wheel that holds nothing
 */
void queue_free(struct hwtimer_wheel *w)
{
	lockdep_unregister_key(&w->callback_key);
	places_free(w->places);
	kvfree(w->buckets);
	free_percpu(w->cpus);
}
EXPORT_SYMBOL_IF_KUNIT(queue_free);

/**
 * queue_start - set the state of a wheel to QUEUE_STARTED
 * @w: the wheel
 *
 * Return: 0, -ESHUTDOWN if the wheel was shut down.
 */
int queue_start(struct hwtimer_wheel *w)
{
	/* [cmpxchg: state-broken-arm] */
	int old = cmpxchg(&w->state, QUEUE_INIT, QUEUE_STARTED);

	return old >= QUEUE_SHUTDOWN ? -ESHUTDOWN : 0;
}
EXPORT_SYMBOL_IF_KUNIT(queue_start);

/**
 * queue_shutdown - make arming fail; after this returns, no timeout is armed any more
 * @w: the wheel
 *
 * May sleep. The caller then ends the worker and calls queue_sweep().
 *
 * Return: false if the wheel was already shut down, or another caller is about to.
 */
bool queue_shutdown(struct hwtimer_wheel *w)
{
	int old = READ_ONCE(w->state);

	do {
		if (old >= QUEUE_SHUTDOWN)
			return false;
		/* [try_cmpxchg: state-broken-shutdown stop-broken-shutdown] */
	} while (!try_cmpxchg(&w->state, &old, QUEUE_SHUTDOWN));
	/* From now on, the worker looks at the state after each callback. */
	atomic_inc(&w->waiters);
	hwtimer_step();
	/*
	 * Producers that read an earlier state have pushed when this returns.
	 * [synchronize_rcu: stop-broken-grace cancel-free-broken-grace; after try_cmpxchg]
	 */
	synchronize_rcu();
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(queue_shutdown);

/* Hand back, or drop, a timeout that was taken from the wheel. */
static void sweep_one(struct hwtimer_wheel *w, struct hwtimer_timeout *t, struct list_head *pending)
{
	u64 old = atomic64_read(&t->word);
	bool linked = pending && old & WORD_ARMED;

	/* Before the cmpxchg: after it @t belongs to our caller or to its owner. */
	if (linked)
		list_add_tail(&t->node, pending);
	/* [change: let-go-broken-change] */
	while (!change(t, &old, old & ~(WORD_ARMED | WORD_FILED))) {
		/* Arming fails, so ARMED may be cleared meanwhile, but not set again. */
		if (linked && !(old & WORD_ARMED)) {
			list_del(&t->node);
			linked = false;
		}
	}
	wake_waiters(w, t);
	if (old & WORD_ARMED) {
		count(&w->handed_back);
		uncharge(w);
	}
}

static void empty_wheel(struct hwtimer_wheel *w, struct list_head *pending)
{
	struct list_head *node;
	unsigned int budget;

	do {
		budget = QUEUE_BUDGET;
		while ((node = wheel_take(&w->wheel, WHEEL_NEVER, &budget)))
			sweep_one(w, list_entry(node, struct hwtimer_timeout, node), pending);
		cond_resched();
	} while (!budget);
}

static void empty_queues(struct hwtimer_wheel *w)
{
	unsigned int budget, rounds = 0;

	queue_drain_all(w);
	/* The rest of a release cycle that has begun, and another cycle. */
	while (rounds < 2) {
		budget = QUEUE_BUDGET;
		cond_resched();
		rounds += release_some(w, &budget);
	}
}

/**
 * queue_sweep - empty a wheel after queue_shutdown()
 * @w: the wheel. Its worker has ended; the caller acts as the worker
 * @pending: list that gets the pending timeouts, linked by node, in no particular order; or NULL
 *
 * May sleep. Calls release functions.
 */
void queue_sweep(struct hwtimer_wheel *w, struct list_head *pending)
{
	might_sleep();
	/* That of queue_shutdown(), for the worker, which has ended. */
	atomic_dec(&w->waiters);
	take_look(w);
	if (w->pass.look)
		complete(&w->pass.look->done);
	w->pass.look = NULL;
	/* Files armed timeouts, drops the others, and calls release functions. */
	empty_queues(w);
	empty_wheel(w, pending);
	w->pass.stage = STAGE_REST;
	hwtimer_step();

	/*
	 * Since the sweep, only releases have been pushed, of timeouts that are not filed. A
	 * producer that sees STOPPED does not push. [smp_store_release: stopped-broken-release;
	 * after empty_wheel]
	 */
	smp_store_release(&w->state, QUEUE_STOPPED);	/* pairs with queue_release() */
	/* [synchronize_rcu: sweep-broken-grace; after smp_store_release; before empty_queues] */
	synchronize_rcu();
	hwtimer_step();
	empty_queues(w);
}
EXPORT_SYMBOL_IF_KUNIT(queue_sweep);
