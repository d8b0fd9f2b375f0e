// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_bench: the cases. A call of a case is one round, in which every subject has its turn;
 * the order of the subjects rotates from round to round.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>

#include "bench.h"

/* Number of operations that are measured together, between two points where others may run. */
#define PORTION		10000UL
#define MAX_SAMPLES	64

static const char *const op_names[BENCH_OPS] = {
	"arm", "arm_at", "cancel", "arm_cancel", "rearm", "touch_later", "touch_earlier",
	"read", "read_serial",
};

void bench_init_conns(const struct bench_subject *s, unsigned long n)
{
	struct bench_conn *c;
	unsigned long i;

	WRITE_ONCE(bench_fired, 0);
	for (i = 0; i < n; i++) {
		c = bench_conn(i);
		memset(&c->timer, 0, sizeof(c->timer));
		c->fired = 0;
		if (s->init)
			s->init(c);
		if (!(i % PORTION))
			cond_resched();
	}
}

void bench_forget_conns(const struct bench_subject *s, unsigned long n)
{
	unsigned long i;

	for (i = 0; s->forget && i < n; i++) {
		s->forget(bench_conn(i));
		if (!(i % PORTION))
			cond_resched();
	}
	if (s->end)
		s->end();
}

/* In order of memory: neighbours of a bucket are not neighbours in the random order. */
void bench_fill(const struct bench_subject *s, unsigned long n)
{
	struct bench_range r = { .size = n, .in_order = true };
	unsigned long left;

	if (!s->init)
		return;
	for (left = n; left; left -= r.n) {
		r.n = min(left, PORTION);
		s->run(BENCH_ARM, &r);
		cond_resched();
	}
}

/**
 * bench_set_up - begin a subject's turn
 * @s: the subject
 *
 * Arms bench_pending conns, leaves bench_idle more unarmed, and lets deferred work finish.
 *
 * Return: 0, or -errno with nothing to be undone.
 */
int bench_set_up(const struct bench_subject *s)
{
	int ret = s->begin ? s->begin() : 0;

	if (ret)
		return ret;
	bench_init_conns(s, bench_pending + bench_idle);
	bench_fill(s, bench_pending);
	if (s->settle)
		s->settle();
	return 0;
}

/**
 * bench_tear_down - end a subject's turn
 * @s: the subject
 *
 * Return: 0, or -ETIME if a timeout expired meanwhile, which makes the results invalid.
 */
int bench_tear_down(const struct bench_subject *s)
{
	int ret = READ_ONCE(bench_fired) ? -ETIME : 0;

	bench_forget_conns(s, bench_pending + bench_idle);
	return ret;
}

/**
 * struct samples - results of one subject and operation in a round
 * @op: in thousandths of a ns per operation
 * @all: as @op, with deferred work included
 * @n: number of samples
 *
 * A batch is measured in portions. The result of the round is their median, which ignores
 * portions during which a busy machine ran other tasks.
 */
struct samples {
	u64		op[MAX_SAMPLES];
	u64		all[MAX_SAMPLES];
	unsigned int	n;
};

static int cmp_u64(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

u64 bench_median(u64 *values, unsigned int n)
{
	sort(values, n, sizeof(*values), cmp_u64, NULL);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void measure(const struct bench_subject *s, enum bench_op op, struct bench_range *r,
		    s64 shift_s, struct samples *samples)
{
	unsigned long left = bench_batch;
	u64 start, ns;

	if (!(s->ops & BIT(op)))
		return;
	r->shift.ns = shift_s * SEC;
	r->shift.jiffies = shift_s * HZ;
	for (samples += op; left && samples->n < MAX_SAMPLES; left -= r->n) {
		r->n = min(left, PORTION);
		cond_resched();
		start = ktime_get_ns();
		s->run(op, r);
		ns = ktime_get_ns() - start;
		samples->op[samples->n] = div64_ul(ns * 1000, r->n);
		if (s->settle)
			ns += s->settle();
		samples->all[samples->n++] = div64_ul(ns * 1000, r->n);
	}
}

/*
 * @bench_pending conns are armed, @bench_idle more are not. Operations that need an idle conn that
 * the wheel does not hold come first.
 */
static int steady_turn(const struct bench_subject *s, struct samples *samples)
{
	struct bench_range pending = { .size = bench_pending };
	struct bench_range idle = { .first = bench_pending, .size = bench_idle };
	int ret = bench_set_up(s);

	if (ret)
		return ret;
	measure(s, BENCH_READ, &pending, 0, samples);
	measure(s, BENCH_READ_SERIAL, &pending, 0, samples);
	measure(s, BENCH_ARM_CANCEL, &idle, 0, samples);
	if (bench_pending > 1) {	/* a single one cannot be armed twice */
		idle.at = 0;
		measure(s, BENCH_ARM, &idle, 0, samples);
		idle.at = 0;
		measure(s, BENCH_CANCEL, &idle, 0, samples);
	}
	measure(s, BENCH_REARM, &pending, 2, samples);
	measure(s, BENCH_TOUCH_LATER, &pending, 4, samples);
	/* Earlier than its deadline, but not due now. */
	if (bench_pending > 1)
		measure(s, BENCH_TOUCH_EARLIER, &pending, 5 - (s64)bench_turn_s(), samples);
	return bench_tear_down(s);
}

/**
 * bench_steady - operations while many timeouts are pending
 * @round: 0 warms up
 *
 * None expires.
 *
 * Return: 0 or -errno.
 */
int bench_steady(unsigned int round)
{
	static const struct bench_subject *const subjects[] = {
		&bench_memory, &bench_hwtimer, &bench_timer_list, &bench_hwtimer_at,
		&bench_hrtimer, &bench_delayed_work, &bench_timer_lazy,
	};
	/* Few conns take several turns in a round, so that there is enough to measure. */
	unsigned int turns = bench_pending < PORTION ? 20 : bench_pending < 10 * PORTION ? 5 :
			     bench_pending < 100 * PORTION ? 2 : 1;
	struct samples (*all)[BENCH_OPS], *samples;
	const struct bench_subject *s;
	unsigned int i, j, k;
	char name[32];
	int ret = 0;

	all = kvcalloc(ARRAY_SIZE(subjects), sizeof(*all), GFP_KERNEL);
	if (!all)
		return -ENOMEM;
	/* Turns alternate, so that disturbances affect all subjects. */
	for (j = 0; j < turns && !ret; j++)
		for (i = 0; i < ARRAY_SIZE(subjects) && !ret; i++) {
			k = (i + j + round) % ARRAY_SIZE(subjects);
			ret = steady_turn(subjects[k], all[k]);
			if (ret)
				pr_err("%s: %s\n", subjects[k]->name, ret == -ETIME ?
				       "expired meanwhile: this machine is too slow" : "no memory");
		}
	for (i = 0; i < ARRAY_SIZE(subjects) && !ret; i++)
		for (j = 0; j < BENCH_OPS; j++) {
			s = subjects[i];
			samples = &all[i][j];
			if (!samples->n)
				continue;
			bench_result(s->name, op_names[j], 1, round,
				     bench_median(samples->op, samples->n), 1000, "ns");
			if (!s->settle)
				continue;
			snprintf(name, sizeof(name), "%s+worker", op_names[j]);
			bench_result(s->name, name, 1, round,
				     bench_median(samples->all, samples->n), 1000, "ns");
		}
	kvfree(all);
	return ret;
}

/*
 * All are due in @ns. A distant timer_list may expire late by an eighth of its delay, so all
 * subjects get that much time.
 */
static void set_deadline(struct bench_range *r, u64 ns)
{
	unsigned long ticks = nsecs_to_jiffies(ns) + 2;

	r->deadline.jiffies = jiffies + ticks;
	r->deadline.ns = ktime_get_ns() + ticks * TICK_NSEC;
	r->late = ticks / 8 + 2;
}

/**
 * struct life - times of a life, for all conns
 * @arm: arming
 * @file: the worker's filing
 * @expire: from the deadline on, with callbacks
 */
struct life {
	u64	arm;
	u64	file;
	u64	expire;
};

/* More at once are too many for slices in softirq, in the time allowed. */
#define SOFTIRQ_MOST	100000

static int life_turn(const struct bench_subject *s, u64 *allowed, struct life *life)
{
	struct bench_range r = { .size = bench_pending, .n = bench_pending };
	int ret = s->begin ? s->begin() : 0, tries;
	u64 start, end;

	for (tries = 0; !ret && tries < 8; tries++) {
		bench_init_conns(s, bench_pending);
		set_deadline(&r, *allowed);
		start = ktime_get_ns();
		s->run(BENCH_ARM_AT, &r);
		life->arm = ktime_get_ns() - start;
		life->file = s->settle ? s->settle() : 0;
		life->expire = 0;
		if (ktime_get_ns() + 100 * MSEC < r.deadline.ns)
			life->expire = s->expire(&r, bench_pending);
		if (life->expire)
			break;
		/* Some expired too early to be measured: allow more time. */
		*allowed *= 2;
		end = ktime_get_ns() + *allowed + 60 * SEC;
		while (READ_ONCE(bench_fired) < bench_pending && ktime_get_ns() < end)
			msleep(20);
	}
	if (!ret && (!life->expire || READ_ONCE(bench_fired) != bench_pending)) {
		pr_err("%s: %lu of %lu expired\n", s->name, bench_fired, bench_pending);
		ret = -ETIME;
	}
	bench_forget_conns(s, bench_pending);
	return ret;
}

/*
 * The worker's part of a touch: at the old deadline it files the timeout again, once, however many
 * touches there were.
 */
static int refile_turn(const struct bench_subject *s, u64 allowed, unsigned int round)
{
	struct bench_range r = { .size = bench_pending, .n = bench_pending };
	int ret = s->begin();
	u64 ns;

	if (ret)
		return ret;
	bench_init_conns(s, bench_pending);
	set_deadline(&r, allowed);
	s->run(BENCH_ARM_AT, &r);
	s->settle();
	r.shift.ns = 60 * SEC;
	s->run(BENCH_TOUCH_LATER, &r);
	ns = s->expire(&r, bench_pending);
	if (READ_ONCE(bench_fired))
		pr_err("%s: touched too late\n", s->name);
	else
		bench_result(s->name, "touch_refile", 1, round, ns, bench_pending, "ns");
	bench_forget_conns(s, bench_pending);
	return 0;
}

/**
 * bench_life - from arming to the end of the callback, all due at once
 * @round: 0 warms up
 *
 * All are due in the same tick, and are armed in random order.
 *
 * Return: 0 or -errno.
 */
int bench_life(unsigned int round)
{
	static const struct bench_subject *const subjects[] = {
		&bench_hwtimer, &bench_timer_list, &bench_hrtimer, &bench_hwtimer_softirq,
		&bench_delayed_work,
	};
	static u64 allowed[ARRAY_SIZE(subjects)];
	const struct bench_subject *s;
	struct life life;
	unsigned int i, k;
	int ret = 0;

	for (i = 0; i < ARRAY_SIZE(subjects) && !ret; i++) {
		k = (i + round) % ARRAY_SIZE(subjects);
		s = subjects[k];
		if (s == &bench_hwtimer_softirq && bench_pending > SOFTIRQ_MOST)
			continue;
		if (!allowed[k])
			allowed[k] = 200 * MSEC + 1000 * bench_pending;
		ret = life_turn(s, &allowed[k], &life);
		if (ret)
			break;
		bench_result(s->name, "life_arm", 1, round, life.arm, bench_pending, "ns");
		if (s->settle)
			bench_result(s->name, "life_file", 1, round, life.file, bench_pending,
				     "ns");
		bench_result(s->name, "life_expire", 1, round, life.expire, bench_pending, "ns");
		bench_result(s->name, "life", 1, round, life.arm + life.file + life.expire,
			     bench_pending, "ns");
		if (s == &bench_hwtimer)
			ret = refile_turn(s, 2 * allowed[k], round);
	}
	return ret;
}

/* How long wake-ups are counted, and how many passes of the worker are timed. */
#define QUIET_MS	4000
#define PASSES		2000

static unsigned long wakeups(void)
{
	return READ_ONCE(to_driven(bench_wheel)->monitor.wakeups);
}

/*
 * The worker's activity in QUIET_MS, while a timeout is armed and cancelled every @busy_ms, unless
 * that is 0. The cost of a wake-up is measured by barriers: for each the worker wakes, checks
 * everything, and sleeps again.
 */
static void quiet_turn(const struct bench_subject *s, const char *name, unsigned int busy_ms,
		       unsigned int round)
{
	struct bench_range r = { .first = bench_pending, .size = bench_idle, .n = 1 };
	unsigned long before, woken;
	unsigned int i;
	char op[40];
	u64 start, ns;

	before = wakeups();
	start = ktime_get_ns();
	if (busy_ms) {
		while (ktime_get_ns() - start < QUIET_MS * MSEC) {
			s->run(BENCH_ARM_CANCEL, &r);
			msleep(busy_ms);
		}
	} else {
		msleep(QUIET_MS);
	}
	ns = ktime_get_ns() - start;
	woken = wakeups() - before;
	snprintf(op, sizeof(op), "%s_wakeups", name);
	bench_result(s->name, op, 1, round, div64_u64(woken * SEC * 1000, ns), 1000, "1/s");

	start = ktime_get_ns();
	for (i = 0; i < PASSES; i++)
		hwtimer_wheel_barrier(bench_wheel);
	ns = div_u64(ktime_get_ns() - start, PASSES);
	snprintf(op, sizeof(op), "%s_pass", name);
	bench_result(s->name, op, 1, round, ns, 1, "ns");
	snprintf(op, sizeof(op), "%s_cpu", name);
	bench_result(s->name, op, 1, round, woken * ns * 1000000, QUIET_MS * MSEC, "ppm");
}

/**
 * bench_quiet - a wheel with little or nothing to do
 * @round: 0 warms up
 *
 * Return: 0 or -errno.
 */
int bench_quiet(unsigned int round)
{
	const struct bench_subject *s = &bench_hwtimer;
	/* 15 minutes from now, and later. */
	struct bench_range r = { .size = bench_pending, .n = bench_pending, .in_order = true,
		.shift = { .ns = 900 * SEC, .jiffies = 900 * HZ } };
	int ret = s->begin();

	if (ret)
		return ret;
	bench_init_conns(s, bench_pending + bench_idle);
	/* The worker has had something to do, and is done. */
	r.n = 1;
	s->run(BENCH_ARM, &r);
	r.at = 0;
	s->run(BENCH_CANCEL, &r);
	msleep(MSEC_PER_SEC);
	quiet_turn(s, "idle", 0, round);

	r.at = 0;
	r.n = bench_pending;
	s->run(BENCH_ARM, &r);
	s->settle();
	msleep(MSEC_PER_SEC);
	quiet_turn(s, "far", 0, round);
	quiet_turn(s, "far_busy", 10, round);
	bench_forget_conns(s, bench_pending + bench_idle);
	return 0;
}

/**
 * struct hand - a thread that does its part on a CPU of its own
 * @s: the subject
 * @op: the operation
 * @r: the conns
 * @ready: number of threads that are not ready yet
 * @done: the thread is done
 * @ns: how long it took
 */
struct hand {
	const struct bench_subject *s;
	enum bench_op		op;
	struct bench_range	r;
	atomic_t		*ready;
	struct completion	done;
	u64			ns;
};

static int hand_fn(void *data)
{
	struct hand *h = data;
	u64 start;

	/* Start together, not as one wakes the other. */
	atomic_dec(h->ready);
	while (atomic_read(h->ready) > 0)
		cpu_relax();
	start = ktime_get_ns();
	h->s->run(h->op, &h->r);
	h->ns = ktime_get_ns() - start;
	/* Then @h may be gone, and the module. */
	kthread_complete_and_exit(&h->done, 0);
}

/* Do @op on several CPUs, each with its own conns; @ns is the sum of their times. */
static int on_cpus(const struct bench_subject *s, enum bench_op op, unsigned int cpus,
		   unsigned int first_cpu, u64 *ns)
{
	unsigned long each = bench_idle / cpus;
	struct task_struct *task;
	atomic_t ready = ATOMIC_INIT(cpus);
	struct hand *hands;
	unsigned int i;
	int ret = 0;

	hands = kcalloc(cpus, sizeof(*hands), GFP_KERNEL);
	if (!hands)
		return -ENOMEM;
	*ns = 0;
	for (i = 0; i < cpus; i++) {
		struct hand *h = &hands[i];

		h->s = s;
		h->op = op;
		h->r.first = bench_pending + i * each;
		h->r.size = each;
		h->r.n = each;
		h->ready = &ready;
		init_completion(&h->done);
		task = kthread_create_on_cpu(hand_fn, h, (first_cpu + i) % num_online_cpus(),
					     "bench/%u");
		if (IS_ERR(task)) {
			/* The threads that wait continue without it. */
			ret = PTR_ERR(task);
			complete(&h->done);
			atomic_dec(&ready);
			continue;
		}
		wake_up_process(task);
	}
	for (i = 0; i < cpus; i++) {
		wait_for_completion(&hands[i].done);
		*ns += hands[i].ns;
	}
	kfree(hands);
	return ret;
}

static int smp_turn(const struct bench_subject *s, unsigned int cpus, unsigned int round)
{
	unsigned long n = bench_idle / cpus * cpus;
	int ret = bench_set_up(s);
	u64 ns, before = 0;

	if (ret)
		return ret;
	if (s->settle)
		before = bench_worker_ns();
	ret = on_cpus(s, BENCH_ARM_CANCEL, cpus, 0, &ns);
	if (ret)
		goto out;
	bench_result(s->name, "arm_cancel", cpus, round, ns, n, "ns");
	if (s->settle) {
		s->settle();
		bench_result(s->name, "arm_cancel+worker", cpus, round,
			     ns + bench_worker_ns() - before, n, "ns");
		before = bench_worker_ns();
	}
	ret = on_cpus(s, BENCH_ARM, cpus, 0, &ns);
	if (ret)
		goto out;
	bench_result(s->name, "arm", cpus, round, ns, n, "ns");
	if (s->settle) {
		s->settle();
		bench_result(s->name, "arm+worker", cpus, round,
			     ns + bench_worker_ns() - before, n, "ns");
	}
	ret = on_cpus(s, BENCH_TOUCH_LATER, cpus, 0, &ns);
	if (ret)
		goto out;
	bench_result(s->name, "touch_later", cpus, round, ns, n, "ns");
	/* Each CPU cancels what its neighbour armed. */
	ret = on_cpus(s, BENCH_CANCEL, cpus, 1, &ns);
	if (!ret)
		bench_result(s->name, "cancel_remote", cpus, round, ns, n, "ns");
out:
	bench_forget_conns(s, bench_pending + bench_idle);
	return ret;
}

/**
 * bench_smp - several CPUs at once
 * @round: 0 warms up
 *
 * Return: 0 or -errno.
 */
int bench_smp(unsigned int round)
{
	static const struct bench_subject *const subjects[] = {
		&bench_hwtimer, &bench_timer_list, &bench_hrtimer, &bench_delayed_work,
	};
	unsigned int cpus, i;
	int ret = 0;

	for (cpus = 1; cpus <= num_online_cpus() && !ret; cpus *= 2)
		for (i = 0; i < ARRAY_SIZE(subjects) && !ret; i++)
			ret = smp_turn(subjects[(i + round) % ARRAY_SIZE(subjects)], cpus, round);
	return ret;
}
