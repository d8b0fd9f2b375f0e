// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the wheel.
 *
 * A hashed and hierarchical timing wheel, after schemes 6 and 7 of G. Varghese and A. Lauck,
 * "Hashed and hierarchical timing wheels" (1987). As in Netty's HashedWheelTimer, one worker
 * owns the buckets, and producers send requests to it through lock-free queues. (A producer is
 * any code that arms, touches, cancels or releases a timeout.) As with the timers of TCP, a
 * pending timeout can get a later deadline while it stays in its old bucket.
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
 * Only the top level holds timeouts of later rounds. A timeout is filed in the slot of its
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
 * A timeout with the deadline WHEEL_HORIZON is on the list @never and in no bucket. If it is
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
 *	DEAD	it was shut down or released, and cannot be armed again. A dead timeout needs no
 *		deadline; the lowest bit of the deadline is the flag RELEASE instead
 *
 * A request does not name an operation. It asks the worker to read the word again. The producer
 * that sets QUEUED pushes the timeout; the worker takes it from the queue and acts on the word as
 * it is then. So any number of operations between two drains cost one push, and one llist_node
 * per timeout is enough.
 *
 * These invariants hold whenever the worker is not in the middle of a step:
 *
 *  (a) ARMED implies QUEUED or FILED: the worker will visit the timeout.
 *  (b) FILED without QUEUED and without DEAD implies that the timeout is filed for the tick of the
 *      word's deadline or an earlier one, ARMED or not; a timeout that was overdue when it was
 *      filed, for the tick that was next then. So the worker visits the timeout in time, and a
 *      deadline can be made later without a request; making it earlier takes a request.
 *  (c) Only the worker clears QUEUED, sets or clears FILED, and accesses the buckets. While
 *      either flag is set, only the worker accesses timeout->node.
 *  (d) The worker runs the callback only if its cmpxchg clears ARMED and FILED together, from a
 *      word with ARMED and without QUEUED.
 *  (e) After the cmpxchg that leaves neither QUEUED nor FILED set, the worker uses a timeout only
 *      to begin its callback, and only while @running is that timeout. The owner may free the
 *      timeout when both flags are clear and @running is not this timeout.
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
 *    (d), so no callback can free it. The worker drops it from the bucket, and the drain files it
 *    as if it were newly armed. If the pass has drained everything pushed before it, the push came
 *    after the worker had read the time, so the deadline was in the past at the time of the push,
 *    and the next tick is the right one. If the worker cannot keep up, and so settles ticks before
 *    the drain is over, see wheel_advance(), the timeout is late by what is queued before it.
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
 * WHEEL_DRAIN_NS, and of the arms only one for an earlier deadline than the end of this sleep
 * kicks it. Otherwise until something may be due, see next_tick(), or without an end if nothing is
 * pending, and any arm kicks it. Releases, detaches, barriers and surveys always kick it.
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
 * sees what the other one wrote. After a callback, this barrier is the cmpxchg that claims or drops
 * the next timeout, so the worker checks before it calls the next callback. If no timeout follows,
 * it is an smp_mb().
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
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <kunit/visibility.h>

#include "debug/odebug.h"
#include "debug/trace.h"
#include "core/hwtimer_step.h"
#include "hwtimer_wheel.h"

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

static_assert(U64_MAX >> WORD_SHIFT == WHEEL_HORIZON);

/* The stages of a pass of wheel_advance(), see there. */
enum wheel_stage {
	STAGE_REST,	/* no pass is in progress */
	STAGE_DRAIN,	/* request queues are being drained */
	STAGE_OVERDUE,	/* the drain takes long: ticks up to @target are settled before the rest */
	STAGE_SETTLE,	/* ticks up to @target are being settled */
};

/**
 * struct wheel_survey - a survey of the timeouts in some buckets
 * @level: level of the buckets
 * @first: first bucket
 * @n: number of buckets; 0 ends the survey
 * @at: number of buckets that the worker has finished
 * @left: how many more timeouts of this bucket the worker surveys: initially as many as are filed
 *	in the whole wheel
 * @fn: called for each timeout in the buckets
 * @arg: for @fn
 * @done: completed when the survey is over
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
 * struct wheel_waiter - a task that waits until the wheel no longer holds a timeout
 * @node: links the waiter into waiters_table
 * @t: the timeout
 * @ended: the worker cancelled @t on behalf of this task
 * @woken: completed when the worker has dropped or filed @t, or the callback of @t has returned
 */
struct wheel_waiter {
	struct hlist_node	node;
	struct hwtimer_timeout	*t;
	bool			ended;
	struct completion	woken;
};

#define WAITER_BITS	8

/*
 * The waiters of all wheels, hashed by the address of the timeout like the table in wait_bit.c,
 * so that the worker need not check the waiters of all timeouts. A lock is held for a walk of one
 * hash chain. The locks are raw, so that the worker does not sleep on them on PREEMPT_RT.
 */
static struct wheel_waiters {
	raw_spinlock_t		lock;
	struct hlist_head	list;
} waiters_table[BIT(WAITER_BITS)];

/**
 * wheel_module_init - initialise the table of waiters, which all wheels share
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

/* The tick at which a timeout with this deadline expires. Rounds up: never early. */
static u64 deadline_tick(const struct hwtimer_wheel *w, u64 deadline)
{
	return div64_u64(deadline + w->tick_ns - 1, w->tick_ns);
}

/* The worker's counts: only the worker writes them; wheel_count() reads them at any time. */
static void count(unsigned long *counter)
{
	WRITE_ONCE(*counter, *counter + 1);
}

static void uncount(unsigned long *counter)
{
	WRITE_ONCE(*counter, *counter - 1);
}

static bool charge(struct hwtimer_wheel *w)
{
	/* charged never exceeds cap, so "unless equal" means "if below". */
	return !w->cap || atomic_long_add_unless(&w->charged, 1, w->cap);
}

static void uncharge(struct hwtimer_wheel *w)
{
	if (w->cap)
		atomic_long_dec(&w->charged);
}

/*
 * Kick the worker if it sleeps beyond @deadline. The caller has pushed a request or armed a timeout
 * by a cmpxchg, a full barrier, which pairs with the smp_mb() in wheel_prepare_sleep().
 */
static void kick_worker(struct hwtimer_wheel *w, struct wheel_cpu *pcpu, u64 deadline)
{
	unsigned long flags;

	hwtimer_step();
	if (deadline >= (u64)atomic64_read(&w->kick_below))
		return;
	/*
	 * After the xchg, other producers see 0 and rely on this kick, so interrupts are off until
	 * it is done. If a hypervisor preempts the CPU in between, expiries are late, as with a
	 * preempted holder of a spinlock.
	 */
	local_irq_save(flags);
	if (atomic64_xchg(&w->kick_below, 0)) {
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
	} while (!try_cmpxchg(&queue->first, &first, &t->request));
}

/*
 * Change the word of @t from *@old to @new, and push @t to a queue of @pcpu, this CPU, if this sets
 * QUEUED. If the word is no longer *@old, update *@old and return false. After success @t may have
 * been freed. The caller has disabled preemption.
 */
static __always_inline bool
change_and_push(struct hwtimer_wheel *w, struct wheel_cpu *pcpu, struct hwtimer_timeout *t,
		u64 *old, u64 new)
{
	bool push = new & ~*old & WORD_QUEUED, release = releasing(new);
	struct llist_node **recent;
	unsigned long pushed;
	bool changed;

	if (!push)
		return atomic64_try_cmpxchg(&t->word, (s64 *)old, new);

	/* Before the cmpxchg, a full barrier: a CPU that sees QUEUED also sees in_flight. */
	local_inc(&pcpu->in_flight);
	hwtimer_step();
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
	 * count, it sees the request. Pairs with smp_rmb() in requested().
	 */
	local_dec(&pcpu->in_flight);
	if (!changed)
		return false;
	/* Each release kicks the worker anyway. */
	if (release)
		return true;
	pushed = local_inc_return(&pcpu->pushed);
	/* Pairs with wheel_add_recent(). */
	recent = smp_load_acquire(&pcpu->recent);
	if (recent)
		WRITE_ONCE(recent[pushed % WHEEL_RECENT], &t->request);
	if (!(pushed % WHEEL_DEPTH))
		kick_worker(w, pcpu, 0);
	return true;
}

/* Charge a timeout to the cap and count it as armed. False: the cap is reached. */
static bool book(struct hwtimer_wheel *w, struct wheel_cpu *pcpu)
{
	hwtimer_step();
	if (!charge(w))
		return false;
	local_inc(&pcpu->armed);
	return true;
}

/* The return value of arm() for a timeout whose word is @old. If it is 0, @t is booked. */
static __always_inline int
admit(struct hwtimer_wheel *w, struct wheel_cpu *pcpu, u64 old, bool pending_only, bool *booked)
{
	if (old & WORD_ARMED)
		return 1;
	if (old & WORD_DEAD)
		return -ESHUTDOWN;
	if (pending_only)
		return -ENOENT;
	/* Count the timeout before it is armed, so that pending is never too low. */
	if (!*booked && !book(w, pcpu))
		return -EAGAIN;
	*booked = true;
	return 0;
}

static __always_inline int arm(struct hwtimer_timeout *t, u64 deadline, bool pending_only)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	bool booked = false, need_request;
	struct wheel_cpu *pcpu;
	u64 old, new;
	int ret = -ESHUTDOWN;

	deadline = min(deadline, WHEEL_HORIZON);
	/* Not preemptible from reading the state to the push; see "Stop". */
	preempt_disable();
	if (unlikely(READ_ONCE(w->state) >= WHEEL_SHUTDOWN))
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
		if (change_and_push(w, pcpu, t, &old, new))
			break;
	}

	/* @t may have expired and been freed by now. */
	if (need_request && (old & WORD_QUEUED))
		local_inc(&pcpu->coalesced);
	if (ret)
		local_inc(&pcpu->touched);
	else if (unlikely(READ_ONCE(w->state) == WHEEL_INIT))
		cmpxchg(&w->state, WHEEL_INIT, WHEEL_STARTED);
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
 * Does @w hold a timeout in the memory at @t? This memory may be uninitialised. But it contains
 * the address of this wheel and QUEUED or FILED only if the wheel holds a timeout there, if a
 * timeout was copied while the wheel held it, or if a timeout was freed while the wheel held it.
 * All of these are bugs. A timeout that was ended correctly has neither flag set, so a stale one
 * on the stack or in a slab is no problem.
 */
static bool __no_kmsan_checks seems_held(const struct hwtimer_timeout *t,
					 const struct hwtimer_wheel *w)
{
	return READ_ONCE(t->wheel) == w && atomic64_read(&t->word) & WORD_HELD;
}

/**
 * wheel_timeout_init - prepare a timeout
 * @t: the timeout. If the wheel still holds it, this warns and leaves it unchanged
 * @w: the wheel on which it will be armed
 * @fn: its callback
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
	 * Either the timeout's own callback initialises it, or a callback that still runs has freed
	 * its timeout and @t is a new one at the same address. Other tasks that wait for @t have
	 * to wait for this callback; the callback itself must not.
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
 * @deadline: in ns since the wheel was created; WHEEL_HORIZON and later: never
 *
 * Return: 0 if @t was not pending, 1 if it was, -EAGAIN if the cap is reached, -ESHUTDOWN if the
 * wheel was shut down, or @t was shut down or released.
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
 * Return: 0, -ENOENT if @t is not pending, -ESHUTDOWN as for wheel_arm().
 */
int wheel_touch(struct hwtimer_timeout *t, u64 deadline)
{
	int ret = arm(t, deadline, true);

	return min(ret, 0);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_touch);

/*
 * Clear ARMED and set @also. The timeout stays in its bucket until the worker visits and drops it,
 * unless it is armed again before.
 */
static bool disarm(struct hwtimer_timeout *t, u64 also)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	u64 old, new;

	/* Not preemptible, so that the wheel is not freed before the cancel is counted. */
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
		local_inc(&this_cpu_ptr(w->cpus)->cancelled);
		uncharge(w);
	}
	preempt_enable();
	return old & WORD_ARMED;
}

/**
 * wheel_cancel - cancel a timeout
 * @t: the timeout
 *
 * Return: true if @t was pending; the callback of that arming will never run.
 */
bool wheel_cancel(struct hwtimer_timeout *t)
{
	return disarm(t, 0);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_cancel);

/**
 * wheel_timeout_shutdown - cancel a timeout, and make it impossible to arm it again
 * @t: the timeout
 *
 * Return: as wheel_cancel().
 */
bool wheel_timeout_shutdown(struct hwtimer_timeout *t)
{
	return disarm(t, WORD_DEAD);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_timeout_shutdown);

/**
 * wheel_detach - ask the worker to drop a timeout that is not armed
 * @t: the timeout
 *
 * When the worker has dropped @t, wheel_holds() is false and waiters in wheel_end_sync() are woken.
 */
void wheel_detach(struct hwtimer_timeout *t)
{
	struct hwtimer_wheel *w = t->wheel;
	struct wheel_cpu *pcpu;
	u64 old;

	preempt_disable();
	if (READ_ONCE(w->state) < WHEEL_STOPPED) {
		pcpu = this_cpu_ptr(w->cpus);
		hwtimer_step_stall();
		old = atomic64_read(&t->word);
		/* With QUEUED, the worker will read the word. With neither, it has dropped @t. */
		while ((old & WORD_HELD) == WORD_FILED &&
		       !change_and_push(w, pcpu, t, &old, old | WORD_QUEUED))
			;
		if (old & WORD_HELD)
			kick_worker(w, pcpu, 0);
	}
	preempt_enable();
}
EXPORT_SYMBOL_IF_KUNIT(wheel_detach);

/**
 * wheel_release - cancel a timeout for good, and have a function called when it may be freed
 * @t: the timeout, not released before
 * @released: release function, called once with @t when the wheel does not hold @t and the
 *	callback of @t does not run: by the worker or, if the wheel is stopped, by this function
 *
 * Return: as wheel_cancel().
 */
bool wheel_release(struct hwtimer_timeout *t, hwtimer_released_fn_t released)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	bool cancelled = wheel_timeout_shutdown(t);
	struct wheel_cpu *pcpu;
	bool stopped;
	u64 old;

	/*
	 * @t cannot be armed any more, so fn may be replaced. The worker reads fn before its
	 * cmpxchg that claims an armed timeout, which fails from now on, and after it has seen
	 * RELEASE.
	 */
	WRITE_ONCE(t->fn, released);

	preempt_disable();
	/* Pairs with wheel_sweep(): all that callbacks have written is visible. */
	stopped = smp_load_acquire(&w->state) >= WHEEL_STOPPED;
	if (!stopped) {
		pcpu = this_cpu_ptr(w->cpus);
		hwtimer_step_stall();
		old = atomic64_read(&t->word);
		while (!change_and_push(w, pcpu, t, &old,
					old | WORD_RELEASE | WORD_QUEUED))
			;
		kick_worker(w, pcpu, 0);
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
 * wheel_pending - is this timeout pending?
 * @t: the timeout
 *
 * Return: true if it is. It may expire or be cancelled before the caller uses the result.
 */
bool wheel_pending(const struct hwtimer_timeout *t)
{
	return atomic64_read(&t->word) & WORD_ARMED;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_pending);

/**
 * wheel_deadline - the deadline of a timeout
 * @t: a pending timeout
 *
 * Return: the deadline in ns since the wheel was created.
 */
u64 wheel_deadline(const struct hwtimer_timeout *t)
{
	return word_deadline(atomic64_read(&t->word));
}
EXPORT_SYMBOL_IF_KUNIT(wheel_deadline);

/**
 * wheel_holds - may the worker still access this timeout?
 * @t: the timeout; meanwhile only its callback may arm it
 *
 * Return: false if @t is on no queue and in no bucket, and its callback does not run; all that
 * the callback has written is visible then.
 */
bool wheel_holds(const struct hwtimer_timeout *t)
{
	const struct hwtimer_wheel *w = t->wheel;
	unsigned long expired;

	do {
		/*
		 * The worker increments expired after it has set running and before it calls the
		 * callback. If a callback runs during these checks and returns, it may have armed
		 * @t. Then expired has changed, and the checks are repeated.
		 */
		expired = smp_load_acquire(&w->expired);
		/*
		 * Finds a callback that began before expired was read. This check has to be before
		 * the word is read, otherwise the callback could arm @t and return in between.
		 */
		if (whose(smp_load_acquire(&w->running)) == t)
			return true;
		hwtimer_step();
		/*
		 * The worker sets running before the cmpxchg that clears the flags, so if this
		 * acquire reads them as clear, the next read sees running.
		 */
		if (atomic64_read_acquire(&t->word) & WORD_HELD)
			return true;
		hwtimer_step();
		/* Pairs with smp_store_release() after the callback, in expire() or settle(). */
		if (whose(smp_load_acquire(&w->running)) == t)
			return true;
	} while (READ_ONCE(w->expired) != expired);
	return false;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_holds);

/* From here on: functions of the worker, and functions that wait for it. */

/* The base-2 logarithm of the width in ticks of a slot of this level. */
static unsigned int level_shift(const struct hwtimer_wheel *w, unsigned int level)
{
	return level * w->slot_bits;
}

/* The index in its level of slot @number, which is counted from tick 0. */
static unsigned int slot_of(const struct hwtimer_wheel *w, u64 number)
{
	return number & (w->slots - 1);
}

/* The highest digit in which @tick and cur differ; the top level, if the digit has no level. */
static unsigned int level_of(const struct hwtimer_wheel *w, u64 tick)
{
	u64 differ = tick ^ w->cur;

	if (w->levels == 1 || differ < w->slots)
		return 0;
	return min((fls64(differ) - 1) / w->slot_bits, w->levels - 1);
}

/* Out of line, so that add_to_bucket() saves no registers for it while tracing is off. */
static noinline void trace_filed(struct hwtimer_wheel *w, struct hwtimer_timeout *t, u64 tick)
{
	trace_hwtimer_file(t, w, tick, level_of(w, tick));
}

/* Put @t into the bucket of @tick, which is not before cur. */
static void add_to_bucket(struct hwtimer_wheel *w, struct hwtimer_timeout *t, u64 tick)
{
	unsigned int level = level_of(w, tick), i;
	struct wheel_bucket *b;

	if (trace_hwtimer_file_enabled())
		trace_filed(w, t, tick);
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
	if (unlikely(deadline == WHEEL_HORIZON)) {
		list_add_tail(&t->node, &w->never);
		return;
	}
	/* A timeout that was due before cur is filed for cur. */
	tick = max(deadline_tick(w, deadline), w->cur);
	add_to_bucket(w, t, tick);
}

/* If @head is the list head of a bucket, mark the bucket as empty. */
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
	/* If both neighbours are the same, they are the list head, and @t is the last timeout. */
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
 * Wake the waiters for @t. Uses only the address of @t, which may have been freed. The caller has a
 * full barrier between the change that the waiters wait for and this call; it pairs with the one
 * in wheel_end_sync().
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
	if (atomic64_try_cmpxchg(&t->word, (s64 *)old, new))
		return true;
	if (!(new & WORD_HELD))
		hwtimer_odebug_activate(t);
	return false;
}

/*
 * @t, whose word was *@old, is due. If a task waits for its end, cancel it on behalf of the waiter.
 * Otherwise the callback could arm @t again and again, and the task would wait forever. True if
 * there is a waiter: *@old has been updated, and the caller has to decide again.
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
		/* The waiter does not return while the lock is held. */
		waiter->ended |= changed;
		break;
	}
	raw_spin_unlock_irqrestore(&waiters->lock, flags);
	if (changed) {
		*old &= ~WORD_ARMED;
		preempt_disable();
		local_inc(&this_cpu_ptr(w->cpus)->cancelled);
		preempt_enable();
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
		/* FILED is set, so @t belongs to the worker; see (b) for later deadlines. */
		if (filed)
			unfile(w, t);
		file(w, t, word_deadline(new));
	} else if (new & WORD_QUEUED) {
		/* Do not call the release function now: a callback may be running. */
		t->request.next = w->aside;
		w->aside = &t->request;
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
	/* The timeout has DEAD and QUEUED set, so only the worker changes the word. */
	if (old & WORD_FILED)
		unfile(w, t);
	hwtimer_odebug_deactivate(t);
	hwtimer_step();
	atomic64_andnot(WORD_HELD, &t->word);
	/* Before reading waiters; see wake_waiters(). */
	smp_mb__after_atomic();
	wake_waiters(w, t);
	lock_map_acquire(&w->callback_map);
	released(t);
	lock_map_release(&w->callback_map);
}

/* A release cycle is over. Complete a barrier requested before the pass in which it began. */
static void answer_barrier(struct hwtimer_wheel *w)
{
	struct completion *barrier = w->cycle_barrier;

	if (likely(!barrier))
		return;
	w->cycle_barrier = NULL;
	w->pass_barrier = NULL;
	WRITE_ONCE(w->barrier, NULL);
	complete(barrier);
}

/*
 * Call release functions, after all other work and within the budget that is left, so that an owner
 * who releases a million timeouts does not delay the expiries of others. Never inside a callback.
 *
 * A release cycle handles the timeouts that were put aside, then the queue of released timeouts of
 * each CPU in turn. Timeouts that a CPU releases after its turn wait for the next cycle, so each
 * cycle ends. The end of a cycle completes wheel_barrier() if the barrier was requested before the
 * pass in which the cycle began. False if the budget ran out; the next call continues the cycle.
 */
static bool release_some(struct hwtimer_wheel *w, unsigned int *budget)
{
	unsigned int cpu = w->release_cpu;
	struct llist_node *node;
	struct wheel_cpu *pcpu;

	if (cpu >= nr_cpu_ids && !w->to_release) {
		cpu = cpumask_first(cpu_possible_mask);
		w->to_release = w->aside;
		w->aside = NULL;
		w->cycle_barrier = w->pass_barrier;
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
		pcpu = per_cpu_ptr(w->cpus, cpu);
		cpu = cpumask_next(cpu, cpu_possible_mask);
		if (!llist_empty(&pcpu->released))
			w->to_release = llist_del_all(&pcpu->released);
	}
	w->release_cpu = cpu;
	answer_barrier(w);
	return true;
}

/**
 * wheel_add_recent - from the next batch on, have hints for a CPU
 * @w: the wheel
 * @pcpu: the part of the wheel of that CPU, which has none yet
 *
 * For the worker only. Timeouts that are due must not wait for this memory. Without it this does
 * nothing, and a later batch tries again.
 */
noinline void wheel_add_recent(struct hwtimer_wheel *w, struct wheel_cpu *pcpu)
{
	const size_t size = WHEEL_RECENT * sizeof(*pcpu->recent);
	struct llist_node **recent = w->ops->alloc(w, size);

	if (recent)
		/* Producers write to it once they see it. */
		smp_store_release(&pcpu->recent, memset(recent, 0, size));
}
EXPORT_SYMBOL_IF_KUNIT(wheel_add_recent);

/*
 * Take all requests of a CPU at once, so that producers cannot prolong the drain forever, and
 * likewise those of up to WHEEL_ABREAST - 1 further CPUs.
 *
 * The queue is a linked list, so the worker would wait for each request to come from memory, or
 * from the cache of the CPU that pushed it, before it knows the next one. With the lists of several
 * CPUs it waits for the next request of all of them at once: drain() walks the lists side by side.
 * A timeout has at most one request, and timeouts of different CPUs have no order, so that of their
 * requests has no meaning.
 *
 * For a CPU that has pushed many, producers also note the addresses of their last requests in an
 * array, see change_and_push(), by which fetch_ahead() fetches several at a time. These addresses
 * are hints: requests that are pushed in the meantime shift or overwrite them, and a timeout may
 * have been freed since. The worker never uses the memory behind them otherwise.
 *
 * A long list is walked alone, so that most of its requests are still in the worker's cache when it
 * handles them. Hints are for a list that is walked alone.
 *
 * The hints cost the producers a few ns per request. They gain nothing if the worker runs on the
 * same CPU and so has the requests in its caches, or if it finds few requests at a time.
 */
static void take_requests(struct hwtimer_wheel *w)
{
	struct wheel_cpu *pcpu;
	unsigned long pushed, n;
	bool alone = false;

	w->recent_left = 0;
	for (; w->drain_cpu < nr_cpu_ids && w->nr_pushed < WHEEL_ABREAST && !alone;
	     w->drain_cpu = cpumask_next(w->drain_cpu, cpu_possible_mask)) {
		pcpu = per_cpu_ptr(w->cpus, w->drain_cpu);
		if (llist_empty(&pcpu->requests))
			continue;
		pushed = local_read(&pcpu->pushed);
		n = pushed - pcpu->taken;
		alone = n >= WHEEL_LONG;
		if (alone && w->nr_pushed)
			break;
		w->pushed[w->nr_pushed++] = llist_del_all(&pcpu->requests);
		pcpu->taken = pushed;
		if (pcpu->recent && n > WHEEL_AHEAD) {
			w->recent = pcpu->recent;
			w->recent_next = pushed - WHEEL_AHEAD;
			w->recent_left = min(n, WHEEL_RECENT) - WHEEL_AHEAD;
		} else if (unlikely(!pcpu->recent && n >= WHEEL_LONG &&
				    w->drain_cpu != raw_smp_processor_id())) {
			wheel_add_recent(w, pcpu);
		}
	}
	if (w->nr_pushed > 1)
		w->recent_left = 0;
}

/* Before a request is taken from @pushed: fetch the one that is WHEEL_AHEAD behind it. */
static void fetch_ahead(struct hwtimer_wheel *w)
{
	if (w->recent_left) {
		w->recent_left--;
		prefetchw(READ_ONCE(w->recent[w->recent_next-- % WHEEL_RECENT]));
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

	while (w->nr_pushed) {
		if (!*budget)
			return false;
		--*budget;
		fetch_ahead(w);
		i = (i ?: w->nr_pushed) - 1;
		node = w->pushed[i];
		w->pushed[i] = node->next;
		if (node->next)
			prefetchw(node->next);
		else
			w->pushed[i] = w->pushed[--w->nr_pushed];
		node->next = w->taken;
		w->taken = node;
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
		take_requests(w);
	}
}

static void drain_restart(struct hwtimer_wheel *w)
{
	w->drain_cpu = cpumask_first(cpu_possible_mask);
}

/**
 * wheel_drain_all - handle all requests
 * @w: the wheel
 *
 * For the worker only, also inside a callback. May sleep.
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

/* End @t, and ask the worker to drop it. */
static bool end_and_detach(struct hwtimer_timeout *t, wheel_end_fn end)
{
	bool ended = end(t);

	hwtimer_step();
	wheel_detach(t);
	return ended;
}

/**
 * wheel_end_sync - end a timeout and wait until the wheel no longer holds it
 * @t: the timeout
 * @end: wheel_cancel() or wheel_timeout_shutdown()
 * @patience: timeout of the wait in jiffies, or MAX_SCHEDULE_TIMEOUT
 *
 * If the callback arms @t again meanwhile, this function or the worker cancels @t again. If other
 * tasks arm @t meanwhile, it may be cancelled or not. After the wait has begun, at most one more
 * callback of @t begins: one that the worker was just about to claim. Process context, may sleep;
 * callbacks of the wheel use wheel_end_in_callback() instead.
 *
 * Return: true if @t was pending at least once.
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
	 * The worker reads @waiters after it has handled a request, before each claim, and between
	 * the end of a callback and the next callback, with a full barrier in between. Either it
	 * sees this waiter, or this waiter sees what it did.
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
 * wheel_end_in_callback - wheel_end_sync() for callbacks of the same wheel
 * @t: another timeout, or the callback's own one if it was initialised again
 * @end: wheel_cancel() or wheel_timeout_shutdown()
 *
 * A callback runs in the worker, so it cannot wait for the worker: it drains the queues itself.
 * If @t was released, this returns at once, and the release function is called after the callback
 * has returned. Process context, may sleep.
 *
 * Return: as wheel_end_sync().
 */
bool wheel_end_in_callback(struct hwtimer_timeout *t, wheel_end_fn end)
{
	struct hwtimer_wheel *w = timeout_wheel(t);
	bool ended = end_and_detach(t, end);
	u64 word;

	/* This is the worker, so only this loop can drop @t. */
	while ((word = atomic64_read(&t->word)) & WORD_HELD && !releasing(word)) {
		/* A producer on another CPU may be about to push @t; it is not preemptible. */
		cpu_relax();
		wheel_drain_all(w);
		ended |= end_and_detach(t, end);
	}
	return ended;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_end_in_callback);

static void expire(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		   hwtimer_fn_t fn, u64 deadline)
{
	hwtimer_step();
	/* Before the callback, so that it can arm another timeout under the cap. */
	count(&w->expired);
	uncharge(w);
	lock_map_acquire(&w->callback_map);
	w->ops->call(w, t, fn, deadline);
	lock_map_release(&w->callback_map);
	hwtimer_step();
	/* Pairs with wheel_holds(). */
	smp_store_release(&w->running, NULL);
	w->ended = t;
}

/*
 * Wake the waiters for the timeout whose callback ended last. A full barrier precedes this: the
 * cmpxchg that claims or drops the next timeout, so that not every expiry needs one of its own.
 */
static __always_inline void wake_after_barrier(struct hwtimer_wheel *w)
{
	if (w->ended) {
		wake_waiters(w, w->ended);
		w->ended = NULL;
	}
}

/* As wake_after_barrier(), if no other timeout follows. */
static void wake_after_row(struct hwtimer_wheel *w)
{
	if (w->ended) {
		/* Before reading waiters; see wake_waiters(). */
		smp_mb();
		wake_after_barrier(w);
	}
}

/* Expire, drop or file again a timeout that was taken from the bucket of now_tick. */
static void settle(struct hwtimer_wheel *w, struct hwtimer_timeout *t)
{
	u64 due_by = w->now_tick * w->tick_ns;
	u64 old = atomic64_read(&t->word), new;
	hwtimer_fn_t fn;

	/* Fetch the next timeout while the callback runs and the clock is read. */
	prefetchw(t->node.next);
	list_del(&t->node);
	uncount(&w->filed);
	/* With one level, visit() has counted it. */
	if (w->levels > 1)
		count(&w->visits);
	for (;;) {
		fn = NULL;
		if (old & WORD_ARMED && word_deadline(old) > due_by) {
			/* It was touched. FILED stays set, so it still belongs to the worker. */
			count(&w->refiled);
			file(w, t, word_deadline(old));
			break;
		}
		/* If it is not armed, drop it. If it is armed and queued, the drain files it. */
		new = old & ~WORD_FILED;
		if ((old & (WORD_ARMED | WORD_QUEUED)) == WORD_ARMED) {
			/* If its callback armed it, the barrier was that of handle_request(). */
			if (unlikely(atomic_read(&w->waiters)) && cancel_for_waiter(w, t, &old))
				continue;
			fn = READ_ONCE(t->fn);
			/*
			 * Both before the cmpxchg, for wheel_release() and wheel_holds(). Release:
			 * whoever sees @t here, and not the NULL of expire(), sees what the last
			 * callback has written.
			 */
			smp_store_release(&w->running, t);
			new &= ~WORD_ARMED;
		}
		if (change(t, &old, new)) {
			wake_after_barrier(w);
			break;
		}
	}

	if (fn) {
		expire(w, t, fn, word_deadline(old));
		return;
	}
	w->in_row = false;
	if (READ_ONCE(w->running)) {
		/* The word changed before the claim. Pairs with wheel_holds(). */
		smp_store_release(&w->running, NULL);
		/* Before reading waiters; see wake_waiters(). */
		smp_mb();
	} else if (old & WORD_ARMED) {
		/* It was filed again, or the drain will file it. */
		return;
	}
	wake_waiters(w, t);
}

/* Move the timeouts of a bucket to @list. */
static void splice_bucket(struct hwtimer_wheel *w, struct wheel_level *l, unsigned int i,
			  struct list_head *list)
{
	struct wheel_survey *s = w->surveying;

	if (unlikely(s) && l == &w->level[s->level] && i == s->first + s->at) {
		/* The survey was in this bucket; it continues with the next one. */
		list_del_init(&w->survey_cursor);
		s->at++;
	}
	if (__test_and_clear_bit(i, l->occupied))
		list_splice_tail(&l->buckets[i].timeouts, list);
}

/*
 * Move cur to @tick. The timeouts of the slot that cur enters cascade before any other timeout is
 * filed. All levels below the level of this slot are empty. The slots that are skipped are empty,
 * too, except that slots of the top level may hold overdue timeouts or those of later rounds.
 */
static void move_to(struct hwtimer_wheel *w, u64 tick)
{
	unsigned int level = level_of(w, tick);

	w->cur = tick;
	if (level)
		splice_bucket(w, &w->level[level], slot_of(w, tick >> level_shift(w, level)),
			      &w->cascading);
}

/* File the timeouts on @cascading again; drop cancelled ones. False if the budget ran out. */
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
		/* If it is armed, FILED stays set, and it still belongs to the worker; see (b). */
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

/* @memory: level_size() bytes, or NULL. add_to_bucket() initialises a bucket as it sets its bit. */
static bool add_level(struct hwtimer_wheel *w, void *memory)
{
	struct wheel_level *l = &w->level[w->levels];

	if (!memory)
		return false;
	l->buckets = memory;
	l->occupied = memory + w->slots * sizeof(struct wheel_bucket);
	bitmap_zero(l->occupied, w->slots);
	w->levels++;
	return true;
}

/*
 * If @target is at least a round of the top level ahead, and nothing is due before @tick in the
 * levels below, move cur to the last round before @target: one visit of each bucket is enough. True
 * if cur was moved.
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

/* Begin to visit the bucket of @tick, which is cur. */
static void visit_begin(struct hwtimer_wheel *w, u64 tick)
{
	unsigned int i = slot_of(w, tick);

	w->now_tick = tick;
	count(&w->ticks);
	if (w->levels == 1) {
		w->visit_next = U64_MAX;
		list_add(&w->cursor, &w->level[0].buckets[i].timeouts);
	} else {
		/* Level 0 has no later rounds. Cascading timeouts may be filed here again. */
		splice_bucket(w, &w->level[0], i, &w->due);
	}
	/* From here on, nothing is filed for this tick; otherwise it might never end. */
	if (!leap(w, tick + 1))
		move_to(w, tick + 1);
}

/*
 * With one level: move timeouts from the bucket to @due if they are due, were cancelled, or belong
 * to another bucket by now; leave those of later rounds. Callbacks may change the bucket, so they
 * are not called here. @cursor marks where to continue when the budget has run out.
 */
static void visit(struct hwtimer_wheel *w, unsigned int *budget)
{
	unsigned int i = slot_of(w, w->now_tick);
	struct wheel_bucket *b = &w->level[0].buckets[i];
	u64 due_by = w->now_tick * w->tick_ns;
	struct list_head *pos, *next;
	struct hwtimer_timeout *t;
	u64 word, tick;

	for (pos = w->cursor.next; pos != &b->timeouts && *budget; pos = next) {
		next = pos->next;
		if (pos == &w->survey_cursor)
			continue;
		--*budget;
		count(&w->visits);
		t = list_entry(pos, struct hwtimer_timeout, node);
		word = atomic64_read(&t->word);
		if (word & WORD_ARMED && word_deadline(word) > due_by &&
		    word_deadline(word) < WHEEL_HORIZON) {
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
 * The first tick from cur on at which a timeout may be due according to the buckets; later than
 * @last if there is none up to @last. Searches the rest of the current round of each level below
 * the top, and each bucket of the top level at most once, up to about @last.
 *
 * In the top level, each occupied bucket that is skipped, and each run of empty ones, costs one of
 * @probes. When they are used up, this returns the first tick that was not searched. The lower
 * levels are free: otherwise a budget smaller than the number of levels would never reach the top.
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
		if (number > last >> shift)
			return first;
		bit = find_next_bit(l->occupied, w->slots, slot_of(w, number));
		if (bit < w->slots)
			return l->buckets[bit].next;
	}

	l = &w->level[level];
	shift = level_shift(w, level);
	number = w->cur >> shift;
	end = min((last >> shift) + 1, number + w->slots);
	while (number < end) {
		i = slot_of(w, number);
		stop = min_t(u64, w->slots, i + end - number);
		bit = find_next_bit(l->occupied, stop, i);
		number += bit - i;
		if (bit < stop) {
			next = l->buckets[bit].next;
			if (next >> shift <= number)
				return max(next, number << shift);
			/* The bucket is due in a later round, which may also be before last. */
			first = min(first, next);
			number++;
		}
		if (!--*probes)
			return min(first, number << shift);
	}
	return first;
}

/* Settle the ticks from cur to @target. False if the budget ran out. */
static bool settle_ticks(struct hwtimer_wheel *w, unsigned int *budget)
{
	u64 tick;

	for (;;) {
		if (!cascade(w, budget))
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
		wake_after_row(w);
		if (!list_empty(&w->cursor)) {
			if (!*budget)
				return false;
			visit(w, budget);
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
	struct wheel_survey *s = w->surveying;

	/* survey_cursor is still in a bucket if the caller or a stop ends the survey early. */
	list_del_init(&w->survey_cursor);
	w->surveying = NULL;
	complete(&s->done);
}

/* Survey up to WHEEL_SURVEY timeouts. @survey_cursor marks where to continue in a bucket. */
static void answer_survey(struct hwtimer_wheel *w)
{
	unsigned int left = WHEEL_SURVEY, i;
	struct list_head *pos, *head;
	struct wheel_survey *s;
	struct wheel_level *l;

	if (likely(!w->surveying)) {
		/* Do not begin before the drain is over and the buckets have all requests. */
		if (likely(!READ_ONCE(w->survey)) || w->stage == STAGE_DRAIN ||
		    w->stage == STAGE_OVERDUE)
			return;
		/* Pairs with wheel_survey(). */
		w->surveying = xchg(&w->survey, NULL);
		if (!w->surveying)
			return;
	}
	s = w->surveying;
	l = &w->level[s->level];
	for (; s->level < w->levels && s->at < READ_ONCE(s->n); s->at++) {
		i = s->first + s->at;
		if (!test_bit(i, l->occupied))
			continue;
		head = &l->buckets[i].timeouts;
		pos = w->survey_cursor.next;
		if (list_empty(&w->survey_cursor)) {
			pos = head->next;
			/* New timeouts come last, so this many include all that are here now. */
			s->left = w->filed;
		}
		list_del_init(&w->survey_cursor);
		for (; pos != head && s->left; pos = pos->next) {
			if (pos == &w->cursor)
				continue;
			if (!left--) {
				list_add_tail(&w->survey_cursor, pos);
				return;
			}
			s->left--;
			survey_timeout(s, s->at, list_entry(pos, struct hwtimer_timeout, node));
		}
		/* The bucket became empty but for survey_cursor. */
		if (list_empty(head))
			__clear_bit(i, l->occupied);
	}
	end_survey(w);
}

/**
 * wheel_advance - advance the wheel to @now
 * @w: the wheel
 * @now: ns since the wheel was created; if it is earlier than before, time stands still
 * @budget: maximum number of timeouts and requests to handle and of buckets to skip
 *
 * A pass drains all requests pushed before it, then settles the ticks up to @now in order: it calls
 * the callbacks of all timeouts that are due, then release functions. For the worker only.
 *
 * If producers push faster than the worker drains, each pass takes longer than the one before. So
 * that this delays only the timeouts whose requests wait, a drain that takes more than a tick, and
 * has drained WHEEL_DRAIN_SHARE requests, is interrupted: the worker settles the ticks that are
 * over, then drains the rest. A timeout of such a tick whose request still waits expires at the
 * next tick after it is drained, behind timeouts due later. So it is late by the time that it
 * waits, which is more than a tick already, and by less than another tick. A worker that was held
 * off, but has fewer requests to drain, catches up in the order of ticks.
 *
 * Return: true if the budget ran out before the end of the pass. Then call again, with the time as
 * of that call, and let other tasks run in between.
 */
bool wheel_advance(struct hwtimer_wheel *w, u64 now, unsigned int budget)
{
	u64 tick = div64_u64(min(now, WHEEL_HORIZON - 1), w->tick_ns);
	unsigned long drained;
	unsigned int before;
	bool over = false;

	w->in_row = false;
	if (w->stage == STAGE_OVERDUE) {
		if (settle_ticks(w, &budget)) {
			w->stage = STAGE_DRAIN;
			/* The drain gets its share, too, before it is interrupted again. */
			w->drain_budget = 0;
		}
		wake_after_row(w);
	}
	if (w->stage == STAGE_REST) {
		/*
		 * The caller read the time before the drain: a request that this pass does not see
		 * was pushed after @now.
		 */
		w->target = tick;
		/* Before the drain. Pairs with smp_store_release() in wheel_barrier(). */
		w->pass_barrier = smp_load_acquire(&w->barrier);
		hwtimer_step();
		drain_restart(w);
		w->drain_budget = 0;
		w->stage = STAGE_DRAIN;
	}
	if (w->stage == STAGE_DRAIN) {
		drained = w->drained;
		before = budget;
		if (drain(w, &budget))
			w->stage = STAGE_SETTLE;
		w->drain_budget += before - budget;
		if (w->stage == STAGE_DRAIN && before && tick > w->target + 1 &&
		    w->drain_budget >= w->drain_share) {
			w->target = tick - 1;
			w->stage = STAGE_OVERDUE;
		}
		if (w->drained != drained)
			trace_hwtimer_drain(w, w->drained - drained);
	}
	if (w->stage == STAGE_SETTLE) {
		over = settle_ticks(w, &budget);
		wake_after_row(w);
	}
	if (over) {
		w->stage = STAGE_REST;
		over = release_some(w, &budget);
	}
	answer_survey(w);
	return !over;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_advance);

/* Is there a request on a queue, or a producer that is about to push one? */
static bool requested(const struct hwtimer_wheel *w)
{
	const struct wheel_cpu *pcpu;
	int cpu;

	for_each_possible_cpu(cpu) {
		pcpu = per_cpu_ptr(w->cpus, cpu);
		if (local_read(&pcpu->in_flight))
			return true;
		/* In this order; pairs with change_and_push(). */
		smp_rmb();
		if (!llist_empty(&pcpu->requests) || !llist_empty(&pcpu->released))
			return true;
	}
	return false;
}

/* The time until which nothing is due, or an earlier one. @busy: timeouts are being armed. */
static u64 nothing_until(const struct hwtimer_wheel *w, u64 now, bool busy, bool pending)
{
	unsigned int probes = w->probes;
	u64 until, drain_at;

	if (busy) {
		/*
		 * A kick for each arm would be too expensive. Producers kick only if a deadline is
		 * before the end of this sleep. Other requests wait in the queue, WHEEL_DRAIN_NS at
		 * most.
		 */
		drain_at = min(now, WHEEL_HORIZON) + WHEEL_DRAIN_NS;
		until = next_tick(w, div64_u64(drain_at, w->tick_ns), &probes) * w->tick_ns;
		return min(until, drain_at);
	}
	if (!pending)
		return WHEEL_IDLE;
	/* Sleep until something is due. The next arm kicks the worker. */
	return next_tick(w, div64_u64(WHEEL_HORIZON, w->tick_ns), &probes) * w->tick_ns;
}

/**
 * wheel_prepare_sleep - until when may the worker sleep?
 * @w: the wheel, after wheel_advance() has returned false
 * @now: the time passed to wheel_advance()
 *
 * For the worker only. From before this call on, a kick must keep the worker from sleeping, as
 * after set_current_state(). When the worker runs again, it calls wheel_awake().
 *
 * Return: when to call wheel_advance() again, in ns since the wheel was created; 0: at once;
 * WHEEL_IDLE: nothing is pending, so not before the next kick.
 */
u64 wheel_prepare_sleep(struct hwtimer_wheel *w, u64 now)
{
	u64 until, kick_below = U64_MAX;
	struct wheel_counts c;
	bool busy;

	if (w->surveying)
		return 0;
	wheel_count(w, &c);
	hwtimer_step();
	busy = c.armed != w->armed_seen;
	until = nothing_until(w, now, busy, c.pending);
	if (until <= now) {
		/* The pass began before @now, and something became due since. */
		if (now < WHEEL_HORIZON)
			return 0;
		/* From WHEEL_HORIZON on, only timeouts that never expire are left. */
		until = now + WHEEL_DRAIN_NS;
	}
	/* Kick if DIV_ROUND_UP(deadline, tick_ns) * tick_ns < until. */
	if (busy)
		kick_below = div64_u64(until - 1, w->tick_ns) * w->tick_ns + 1;
	hwtimer_step();
	atomic64_set(&w->kick_below, kick_below);
	w->armed_seen = c.armed;

	/*
	 * Pairs with the full barrier between a producer's push and its read of kick_below; see
	 * "Sleeping" above.
	 */
	smp_mb();
	hwtimer_step();

	/*
	 * A release function may have called wheel_drain_all(), which may have added timeouts to
	 * @aside. It may also have timeouts that came during an older release cycle.
	 */
	if (requested(w) || READ_ONCE(w->survey) || READ_ONCE(w->barrier) || w->aside)
		until = 0;
	if (until == WHEEL_IDLE) {
		hwtimer_step();
		/* A cancelled timeout that is still filed can be armed without a request. */
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
 * wheel_awake - note that the worker runs, so that producers do not kick it
 * @w: the wheel
 */
void wheel_awake(struct hwtimer_wheel *w)
{
	atomic64_set(&w->kick_below, 0);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_awake);

/**
 * wheel_count - sum up the counts of a wheel
 * @w: the wheel
 * @c: filled in
 *
 * Any context. See struct wheel_counts.
 */
void wheel_count(const struct hwtimer_wheel *w, struct wheel_counts *c)
{
	const struct wheel_cpu *pcpu;
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
		c->coalesced += local_read(&pcpu->coalesced);
		c->kicks += local_read(&pcpu->kicks);
	}
	/*
	 * A timeout is counted as armed before it is armed, and as expired, cancelled or handed
	 * back afterwards, with full barriers (cmpxchg of the word) in between. The counts of arms
	 * are read last: they include the arming of each timeout whose end was read above, so
	 * pending is never too low.
	 */
	smp_rmb();
	hwtimer_step();
	for_each_possible_cpu(cpu)
		c->armed += local_read(&per_cpu_ptr(w->cpus, cpu)->armed);
	c->pending = c->armed - c->cancelled - c->expired - c->handed_back;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_count);

/**
 * wheel_survey - call a function for the timeouts in some buckets
 * @w: the wheel
 * @level: level of the buckets; if it is not in use, there are no timeouts
 * @first: first bucket
 * @n: number of buckets
 * @fn: called by the worker for each timeout in the buckets
 * @arg: for @fn
 *
 * The worker surveys WHEEL_SURVEY timeouts at a time and does its other work in between. If there
 * are more, a timeout that is filed again meanwhile may be missed or seen twice. The survey does
 * not include timeouts on the wheel's other lists, such as those with the deadline WHEEL_HORIZON.
 * It includes cancelled timeouts that the worker has not dropped yet. A stop ends the survey early,
 * and this returns 0. Process context, may sleep; waits for a callback that runs.
 *
 * Return: 0, or -EINTR after a fatal signal; @fn may have been called then. If the worker had begun
 * with the survey, this waits for the worker's next step.
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
	/* Do not wait for worker_lock during a stop, which holds it until its end. */
	if (READ_ONCE(w->state) >= WHEEL_SHUTDOWN)
		goto out;
	init_completion(&s.done);
	/* Either a stop has begun before, or it comes later and ends this survey. */
	ret = mutex_lock_killable(&w->worker_lock);
	if (ret)
		goto out;
	started = READ_ONCE(w->state) == WHEEL_STARTED;
	if (started) {
		/*
		 * Release: a worker that is awake sees s filled in; pairs with answer_survey(). If
		 * the worker is about to sleep, the kick orders this store before its last check.
		 */
		smp_store_release(&w->survey, &s);
		w->ops->kick(w);
	}
	mutex_unlock(&w->worker_lock);
	if (started) {
		ret = wait_for_completion_killable(&s.done);
		/* Withdraw the survey. If the worker has begun, make it end early. */
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

/* The number of levels after which one more level could hold no tick. */
static unsigned int most_levels(const struct hwtimer_wheel *w)
{
	u64 ticks = div64_u64(WHEEL_HORIZON, w->tick_ns);
	unsigned int n = 1;

	if (w->slots == 1)
		return 1;
	while (n < WHEEL_MAX_LEVELS && (ticks >>= w->slot_bits))
		n++;
	return n;
}

/**
 * wheel_barrier - wait for release functions and running callbacks
 * @w: the wheel
 *
 * Waits until the release functions of all timeouts that were released before this call have
 * returned, and all callbacks that had begun before it. Process context, may sleep.
 */
void wheel_barrier(struct hwtimer_wheel *w)
{
	DECLARE_COMPLETION_ONSTACK(done);

	/*
	 * A released timeout has QUEUED set, but another producer may still be about to push it, in
	 * a section that is not preemptible. After the grace period it has been pushed.
	 */
	synchronize_rcu();

	mutex_lock(&w->worker_lock);
	/* The lock excludes a stop; wheel_sweep() calls the release functions. */
	if (READ_ONCE(w->state) < WHEEL_STOPPED) {
		/*
		 * The next pass that begins reads this, then drains all requests. The release cycle
		 * that begins after that calls the release functions and completes done.
		 */
		smp_store_release(&w->barrier, &done);
		w->ops->kick(w);
		wait_for_completion(&done);
	}
	mutex_unlock(&w->worker_lock);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_barrier);

/**
 * wheel_init - initialise a wheel
 * @w: the wheel
 * @shape: its ticks, slots, levels and cap
 * @ops: what who drives the wheel provides
 * @gfp: GFP_KERNEL or GFP_KERNEL_ACCOUNT
 *
 * Return: 0, -EINVAL, -ENOMEM. On error nothing has to be freed.
 */
int wheel_init(struct hwtimer_wheel *w, const struct wheel_shape *shape,
	       const struct wheel_ops *ops, gfp_t gfp)
{
	unsigned int levels, most;

	memset(w, 0, sizeof(*w));
	if (!shape->tick_ns || !shape->slots || shape->slots > WHEEL_MAX_SLOTS)
		return -EINVAL;
	w->slots = roundup_pow_of_two(shape->slots);
	w->slot_bits = ilog2(w->slots);
	w->tick_ns = shape->tick_ns;
	if (w->tick_ns > div_u64(WHEEL_HORIZON, w->slots))
		return -EINVAL;
	most = most_levels(w);
	levels = shape->levels ?: most;
	if (levels > most)
		return -EINVAL;

	w->cap = shape->cap;
	w->ops = ops;
	w->cur = 1;
	/* Each request is reversed, and handled. */
	w->drain_share = 2 * WHEEL_DRAIN_SHARE;
	/* Not fewer, or the worker would wake often for nothing if all timeouts are far away. */
	w->probes = clamp_t(u64, div64_u64(WHEEL_DRAIN_NS, w->tick_ns), WHEEL_PROBES,
			    WHEEL_LOOKAHEAD);
	w->release_cpu = nr_cpu_ids;
	/* The first arm kicks the worker, whatever its deadline is. */
	atomic64_set(&w->kick_below, U64_MAX);
	lockdep_register_key(&w->callback_key);
	lockdep_init_map(&w->callback_map, "hwtimer_callback", &w->callback_key, 0);
	mutex_init(&w->worker_lock);
	mutex_init(&w->survey_lock);
	INIT_LIST_HEAD(&w->never);
	INIT_LIST_HEAD(&w->cascading);
	INIT_LIST_HEAD(&w->due);
	INIT_LIST_HEAD(&w->cursor);
	INIT_LIST_HEAD(&w->survey_cursor);

	w->cpus = alloc_percpu_gfp(struct wheel_cpu, gfp);
	if (!w->cpus)
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
 * wheel_free - free the memory of a wheel
 * @w: a wheel that holds nothing
 */
void wheel_free(struct hwtimer_wheel *w)
{
	int cpu;

	lockdep_unregister_key(&w->callback_key);
	if (w->cpus)
		for_each_possible_cpu(cpu)
			kfree(per_cpu_ptr(w->cpus, cpu)->recent);
	while (w->levels)
		kvfree(w->level[--w->levels].buckets);
	free_percpu(w->cpus);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_free);

/**
 * wheel_start - set the state of a wheel to WHEEL_STARTED
 * @w: the wheel
 *
 * Return: 0, -ESHUTDOWN if the wheel was shut down.
 */
int wheel_start(struct hwtimer_wheel *w)
{
	int old = cmpxchg(&w->state, WHEEL_INIT, WHEEL_STARTED);

	return old >= WHEEL_SHUTDOWN ? -ESHUTDOWN : 0;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_start);

/**
 * wheel_shutdown - make arming fail; after this returns, no timeout is armed any more
 * @w: the wheel
 *
 * May sleep. The caller then ends the worker and calls wheel_sweep().
 *
 * Return: false if the wheel was already shut down, or another caller is about to.
 */
bool wheel_shutdown(struct hwtimer_wheel *w)
{
	int old = READ_ONCE(w->state);

	do {
		if (old >= WHEEL_SHUTDOWN)
			return false;
	} while (!try_cmpxchg(&w->state, &old, WHEEL_SHUTDOWN));
	hwtimer_step();
	/* Producers that read an earlier state have pushed when this returns. */
	synchronize_rcu();
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(wheel_shutdown);

/* Remove all timeouts on @list from the wheel. Those that are armed go to @pending. */
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
		/* Before the cmpxchg: after it @t belongs to our caller or to its owner. */
		if (linked)
			list_add_tail(&t->node, pending);
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
		cond_resched();
	}
}

static void empty_queues(struct hwtimer_wheel *w)
{
	unsigned int budget, rounds = 0;

	wheel_drain_all(w);
	/* The rest of a release cycle that has begun, and another cycle. */
	while (rounds < 2) {
		budget = WHEEL_BUDGET;
		cond_resched();
		rounds += release_some(w, &budget);
	}
}

/**
 * wheel_sweep - empty a wheel after wheel_shutdown()
 * @w: the wheel. Its worker has ended; the caller acts as the worker
 * @pending: list that gets the pending timeouts, linked by node, roughly in the order of ticks; or
 *	NULL
 *
 * May sleep. Calls release functions.
 */
void wheel_sweep(struct hwtimer_wheel *w, struct list_head *pending)
{
	struct wheel_level *l;
	unsigned int i, slot;

	might_sleep();
	/* End a survey first: sweep_list() would take @survey_cursor for a timeout. */
	if (!w->surveying)
		w->surveying = xchg(&w->survey, NULL);
	if (w->surveying)
		end_survey(w);
	/* Files armed timeouts, drops the others, and calls release functions. */
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
	sweep_list(w, &w->never, pending);
	w->stage = STAGE_REST;
	hwtimer_step();

	/*
	 * Since the sweep, only releases have been pushed, of timeouts that are not filed. A
	 * producer that sees STOPPED does not push.
	 */
	smp_store_release(&w->state, WHEEL_STOPPED);	/* pairs with wheel_release() */
	synchronize_rcu();
	hwtimer_step();
	empty_queues(w);
}
EXPORT_SYMBOL_IF_KUNIT(wheel_sweep);
