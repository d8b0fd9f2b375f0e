// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_torture: benches. A keeper creates a wheel, has producers use it, stops it while they do,
 * and checks that the counts add up; then it creates the next wheel.
 *
 * Producers work in bursts. All of a bench begin at the same time, on all CPUs: a thread, and a
 * hard and a soft hrtimer beside it. Some bursts are a few operations on one timeout, as in a
 * litmus test. Others are limited only by time, and blocking operations are rare in them. Between
 * bursts the bench is quiet: callbacks arm nothing, and all timeouts due soon have to expire
 * although no operation may wake a worker by chance. Then the pending timeouts can be counted.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../../core/hwtimer_compat.h"
#include "torture.h"

/**
 * struct irqs - a producer in interrupts, soft or hard
 * @bench: its bench
 * @context: SOFTIRQ or HARDIRQ
 * @timer: runs it
 * @random: its random numbers
 * @left: operations left in this burst
 * @done: completed at the end of the burst
 */
struct irqs {
	struct bench		*bench;
	enum torture_context	context;
	struct hrtimer		timer;
	struct rnd_state	random;
	unsigned int		left;
	struct completion	done;
};

/**
 * struct producer - a producer in process context, with two in interrupts
 * @bench: its bench
 * @cpu: its CPU while that is online
 * @task: the thread
 * @random: its random numbers
 * @irqs: its producers in softirq and in hardirq
 */
struct producer {
	struct bench		*bench;
	unsigned int		cpu;
	struct task_struct	*task;
	struct rnd_state	random;
	struct irqs		irqs[2];
};

#define LONG		(100 * NSEC_PER_MSEC)	/* a long burst takes 1/8 to 9/8 of this, in ns */
#define SLICE		(200 * NSEC_PER_USEC)	/* longest run of one interrupt, in ns */
#define RARE		16			/* in long bursts, one in so many waits is done */
#define LIFE		(2 * NSEC_PER_SEC)	/* a wheel is stopped after so many ns at most */

/* Wheels created, by levels (one, some, all), and by whether there is a cap. */
atomic_t torture_shapes[3][2];

static unsigned int producers_of(const struct bench *b)
{
	return nr_cpu_ids * torture_threads;
}

/* Producers. */

static enum hrtimer_restart interrupt(struct hrtimer *timer)
{
	struct irqs *irqs = container_of(timer, struct irqs, timer);
	const struct bench *b = irqs->bench;
	unsigned int n = 1 + below(&irqs->random, b->rare > 1 ? 64 : 4);
	u64 begun = ktime_get_ns(), t = begun, pause;

	if (irqs->context == HARDIRQ && !in_hardirq())
		torture_fail("an hrtimer that is not called in hardirq");
	for (; n && irqs->left && t < begun + SLICE; n--, irqs->left--) {
		torture_step(irqs->bench, irqs->context, &irqs->random, NULL);
		t = ktime_get_ns();
	}
	if (!irqs->left || t >= READ_ONCE(b->end_ns)) {
		complete(&irqs->done);
		return HRTIMER_NORESTART;
	}
	/* leave time for others, however slow the machine is */
	pause = min(4 * (t - begun), 2 * MS) + below(&irqs->random, 20000);
	hrtimer_set_expires(timer, ktime_add_ns(ktime_get(), pause));
	return HRTIMER_RESTART;
}

/*
 * Move to the producer's own CPU if it is online. During CPU hotplug, do not wait but try again at
 * the next burst. Without the lock, 6.12 completes the migration to a CPU that is going away
 * without moving the task, and its next migrate_enable() warns.
 */
static void go_home(const struct producer *p)
{
	if (raw_smp_processor_id() == p->cpu || !cpus_read_trylock())
		return;
	if (cpu_online(p->cpu))
		set_cpus_allowed_ptr(current, cpumask_of(p->cpu));
	cpus_read_unlock();
}

static void produce(struct producer *p)
{
	static const enum hrtimer_mode modes[] = {
		HRTIMER_MODE_ABS_PINNED_SOFT, HRTIMER_MODE_ABS_PINNED_HARD,
	};
	struct bench *b = p->bench;
	ktime_t start = b->start;
	unsigned int i, us;

	go_home(p);
	for (i = 0; i < ARRAY_SIZE(p->irqs); i++) {
		p->irqs[i].left = 1 + b->ops / 4;
		reinit_completion(&p->irqs[i].done);
		hrtimer_start(&p->irqs[i].timer, start, modes[i]);
	}
	set_current_state(TASK_IDLE);
	schedule_hrtimeout(&start, HRTIMER_MODE_ABS);

	for (i = 0; i < b->ops && ktime_get_ns() < READ_ONCE(b->end_ns); i++) {
		torture_step(b, PROCESS, &p->random, NULL);
		if (READ_ONCE(b->stopping) && !below(&p->random, 16))
			torture_take_back(b);
		us = below(&p->random, 256 * b->rare);
		if (us < 32)
			udelay(us);
		else if (us < 36)
			usleep_range(us, 2 * us);
		cond_resched();
	}
	for (i = 0; i < ARRAY_SIZE(p->irqs); i++)
		wait_for_completion(&p->irqs[i].done);
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
	torture_fill(b);
	WRITE_ONCE(b->quiet, false);
	b->start = ktime_add_ns(ktime_get(), 300 * NSEC_PER_USEC);
	atomic_set(&b->busy, producers_of(b));
	/* Pairs with producer_fn(). */
	smp_store_release(&b->burst, b->burst + 1);
	wake_up_all(&b->wait);
}

static void end_burst(struct bench *b)
{
	wait_event_idle(b->wait, !atomic_read(&b->busy));
}

/*
 * Few operations on few things; or some on a single thing, which do not end it. Then the worker
 * wakes for no other timeout: such a wake-up would hide that another one was lost.
 */
static void choose_brief(struct bench *b)
{
	struct rnd_state *random = &b->keeper_random;

	b->rare = 1;
	b->end_ns = U64_MAX;
	b->arming_only = below(random, 4);
	if (b->arming_only || below(random, 2))
		torture_renew(b, b->arming_only ? RELEASE : CANCEL);
	b->ops = 1 + below(random, 4);
	b->hot = b->arming_only ? 1 : min(b->things, 1 + below(random, 4));
	b->far = b->arming_only ? 32 : 12;
}

static void choose_long(struct bench *b)
{
	b->rare = RARE;
	b->end_ns = ktime_get_ns() + LONG / 8 + below(&b->keeper_random, LONG);
	b->ops = UINT_MAX / 2;
	b->hot = b->things;
	b->arming_only = false;
	b->far = 12;
}

/* The keeper. */

/* Wait for things that free themselves. Returns false if they do not end. */
static bool until_idle(struct bench *b)
{
	u64 end = ktime_get_ns() + LOST;

	while (atomic_read(&b->forgotten)) {
		if (torture_failed())
			return false;
		if (ktime_get_ns() > end) {
			torture_fail("%s, wheel %u: lost: %d that free themselves", b->name,
				     b->wheels, atomic_read(&b->forgotten));
			return false;
		}
		usleep_range(100, 200);
	}
	return true;
}

/* Wait until all timeouts due soon have expired, while no producer does anything. */
static bool settle(struct bench *b, unsigned long *pending)
{
	u64 end = ktime_get_ns() + 2 * LOST;

	WRITE_ONCE(b->quiet, true);
	while (torture_scan(b, pending)) {
		if (torture_failed())
			return false;
		if (ktime_get_ns() > end) {
			torture_fail("%s, wheel %u: does not come to rest", b->name, b->wheels);
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

/*
 * With nothing in flight, each callback counted must be an expiry of the wheel. Of items that were
 * cancelled before they ran, the wheel knows more.
 */
static void compare_calls(const struct bench *b)
{
	unsigned long called = atomic_long_read(&b->expired) + atomic_long_read(&b->runs);

	if (called > b->wheel->expired)
		compare(b, "expired", called, b->wheel->expired);
}

/* Compare the wheel's counts with those of the test. */
static bool recount(struct bench *b)
{
	struct hwtimer_wheel *wheel = b->wheel;
	unsigned long pending, says, charged;

	do {
		if (!settle(b, &pending) || !until_idle(b))
			return false;
		/* After this, callbacks and runs that did not see @quiet have returned. */
		hwtimer_wheel_barrier(wheel);
		flush_workqueue(torture_wq);
	} while (torture_scan(b, &pending) || atomic_read(&b->forgotten));

	says = hwtimer_wheel_pending(wheel);
	charged = wheel->places ? places_taken(wheel->places) : says;
	if (says != pending || charged != pending)
		torture_fail("%s, wheel %u: %lu are pending, it counts %lu, charged to the cap %lu",
			     b->name, b->wheels, pending, says, charged);
	if (b->cap && pending > b->cap)
		torture_fail("%s, wheel %u: the cap is %lu, %lu are pending", b->name, b->wheels,
			     b->cap, pending);
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
	struct rnd_state *random = &b->keeper_random;
	unsigned int levels = b->wheels % 3, i;
	struct hwtimer_wheel_params params = {
		/* reading the buckets wakes the worker, so not all wheels are read */
		.name = watched(b) ? "watched" : b->name,
		.tick_ns = (64 << below(random, 6)) * NSEC_PER_USEC,
		.clock = below(random, 4) ? HWTIMER_CLOCK_MONOTONIC : HWTIMER_CLOCK_BOOTTIME,
	};
	bool capped = b->wheels / 3 % 2;

	params.slots = slots[below(random, ARRAY_SIZE(slots))];
	if (levels < 2)
		params.levels = levels ? 2 + below(random, 2) : 1;
	if (params.levels > 1)
		params.slots = max(params.slots, 4U);
	if (capped)
		params.cap = 1 + below(random, b->things);
	if (!below(random, 4))
		params.cpus = cpumask_of(below(random, nr_cpu_ids));
	if (!below(random, 8))
		params.sched = HWTIMER_SCHED_FIFO_LOW;
	b->cap = params.cap;
	b->near_ns = MS + 4 * params.tick_ns;
	b->stopping = false;
	b->stopped = false;
	atomic_long_set(&b->expired, 0);
	atomic_long_set(&b->runs, 0);
	atomic_long_set(&b->handed_back, 0);

	for (i = 0; i < 2; i++) {
		b->wheel = hwtimer_wheel_create(&params);
		/* that CPU may be offline */
		if (b->wheel != ERR_PTR(-EINVAL) || !params.cpus)
			break;
		params.cpus = NULL;
	}
	if (IS_ERR(b->wheel)) {
		torture_fail("%s: no wheel: %ld", b->name, PTR_ERR(b->wheel));
		return false;
	}
	this_cpu_inc(torture_counts.ops[PROCESS][CREATE]);
	atomic_inc(&torture_shapes[levels][capped]);
	WRITE_ONCE(b->wheels, b->wheels + 1);
	return true;
}

/* Compare the counts of a stopped wheel that is no longer used. */
static void balance(struct bench *b)
{
	compare(b, "pending at the end", 0, hwtimer_wheel_pending(b->wheel));
	compare(b, "charged at the end", 0, places_taken(b->wheel->places));
	compare(b, "handed back", atomic_long_read(&b->handed_back), b->wheel->handed_back);
	compare_calls(b);
}

static void end_wheel(struct bench *b)
{
	unsigned long pending;

	/* What was due when the wheel was stopped still runs. */
	settle(b, &pending);
	until_idle(b);
	flush_workqueue(torture_wq);
	/* for things that were released or shut down */
	rcu_barrier();
	balance(b);
	/* leave everything in place for inspection */
	if (torture_failed())
		return;
	torture_clear(b);
	hwtimer_wheel_destroy(b->wheel);
	this_cpu_inc(torture_counts.ops[PROCESS][DESTROY]);
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

static int keeper_fn(void *data)
{
	struct bench *b = data;
	struct rnd_state *random = &b->keeper_random;
	bool fine = true, long_life;
	unsigned int us;
	u64 end;

	while (!READ_ONCE(torture_over) && fine) {
		long_life = watched(b);
		if (!make_wheel(b))
			break;
		end = ktime_get_ns() + (long_life ? LIFE : below(random, LIFE));
		while (ktime_get_ns() < end && fine && !torture_failed())
			fine = rally(b);
		/* a broken wheel might crash when it is stopped */
		if (torture_failed())
			break;
		choose_long(b);
		begin_burst(b);
		us = below(random, 3000);
		usleep_range(us, us + 50);
		WRITE_ONCE(b->stopping, true);
		torture_take_back(b);
		WRITE_ONCE(b->end_ns, ktime_get_ns() + MS);
		end_burst(b);
		end_wheel(b);
	}
	complete(&b->ended);
	/* for kthread_stop() */
	while (!kthread_should_stop())
		schedule_timeout_idle(1);
	return 0;
}

static void irqs_init(struct irqs *irqs, struct bench *b, enum torture_context context)
{
	irqs->bench = b;
	irqs->context = context;
	torture_seed(&irqs->random);
	init_completion(&irqs->done);
	hrtimer_setup(&irqs->timer, interrupt, CLOCK_MONOTONIC,
		      context == HARDIRQ ? HRTIMER_MODE_ABS_PINNED_HARD :
					   HRTIMER_MODE_ABS_PINNED_SOFT);
}

/**
 * torture_bench_start - start a bench
 * @b: zeroed, but for @things and @name
 *
 * Return: 0, or an error, after which torture_bench_end() frees whatever was allocated.
 */
int torture_bench_start(struct bench *b)
{
	struct task_struct *task;
	struct producer *p;
	unsigned int i;

	init_waitqueue_head(&b->wait);
	init_completion(&b->ended);
	init_llist_head(&b->graves);
	torture_seed(&b->random);
	torture_seed(&b->keeper_random);
	b->producers = kcalloc(producers_of(b), sizeof(*b->producers), GFP_KERNEL);
	if (!b->producers)
		return -ENOMEM;
	for (i = 0; i < producers_of(b); i++) {
		p = &b->producers[i];
		p->bench = b;
		p->cpu = i % nr_cpu_ids;
		torture_seed(&p->random);
		irqs_init(&p->irqs[0], b, SOFTIRQ);
		irqs_init(&p->irqs[1], b, HARDIRQ);
		task = kthread_run(producer_fn, p, "%s/%u", b->name, i);
		if (IS_ERR(task))
			return PTR_ERR(task);
		p->task = task;
	}
	task = kthread_run(keeper_fn, b, "%s", b->name);
	if (IS_ERR(task))
		return PTR_ERR(task);
	b->keeper = task;
	return 0;
}

/**
 * torture_bench_end - end a bench
 * @b: the bench; @torture_over is set
 * @patience: how long to wait for the keeper, in jiffies
 *
 * Return: true if it has ended, false if its threads still run.
 */
bool torture_bench_end(struct bench *b, unsigned long patience)
{
	unsigned int i;

	if (b->keeper) {
		if (!wait_for_completion_timeout(&b->ended, patience))
			return false;
		kthread_stop(b->keeper);
	}
	for (i = 0; b->producers && i < producers_of(b); i++)
		if (b->producers[i].task)
			kthread_stop(b->producers[i].task);
	kfree(b->producers);
	return true;
}
