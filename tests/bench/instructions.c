// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_bench: the number of instructions of an operation. This needs a machine whose time-stamp
 * counter counts instructions: QEMU with -icount shift=0 (scripts/guest/boot -i). Others are
 * detected, and refused.
 *
 * Calls are counted one by one, with interrupts disabled; the result is the median. The worker's
 * part is measured from its callbacks, one of which reads the counter before the work begins,
 * another one after it. There interrupts are enabled, so the result is the minimum of several
 * attempts.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/timex.h>

#include "../../hwtimer_compat.h"
#include "bench.h"

#define SAMPLES		128
#define ATTEMPTS	5
/* Numbers of requests; the difference between both measurements excludes the rest of the pass. */
#define FEW		64
#define MANY		(FEW + SAMPLES)

/* The CPU's counter over @what, with interrupts disabled. */
#define COUNTED(what) ({						\
	unsigned long flags_;						\
	u64 start_, end_;						\
									\
	local_irq_save(flags_);						\
	start_ = get_cycles();						\
	/* Complete here: the compiler computes no part of it later. */	\
	asm volatile("" : "+r" (start_) : : "memory");			\
	what;								\
	barrier();							\
	end_ = get_cycles();						\
	local_irq_restore(flags_);					\
	end_ - start_;							\
})

typedef void (*arm_fn)(struct bench_conn *c, const struct bench_when *when);
typedef void (*cancel_fn)(struct bench_conn *c);

/* In one function for all subjects, so that the compiler generates the same code. */
static noinline u64 count_arm(arm_fn arm, struct bench_conn *c, const struct bench_when *when)
{
	return COUNTED(arm(c, when));
}

static noinline u64 count_cancel(cancel_fn cancel, struct bench_conn *c)
{
	return COUNTED(cancel(c));
}

static void arm_nothing(struct bench_conn *c, const struct bench_when *when)
{
}

static void cancel_nothing(struct bench_conn *c)
{
}

/* What is counted for the call of an empty function. */
static u64 no_arm, no_cancel;

static void count_nothing(void)
{
	cancel_fn cancel = cancel_nothing;
	arm_fn arm = arm_nothing;

	OPTIMIZER_HIDE_VAR(arm);
	OPTIMIZER_HIDE_VAR(cancel);
	no_arm = count_arm(arm, NULL, NULL);
	no_cancel = count_cancel(cancel, NULL);
}

static void report(const struct bench_subject *s, const char *op, unsigned int round, u64 sum,
		   unsigned long n)
{
	bench_result(s->name, op, 1, round, sum, n, "instructions");
}

/**
 * bench_counter_is_exact - does the counter count instructions?
 *
 * Return: true if it does; otherwise the log says why not.
 */
bool bench_counter_is_exact(void)
{
	u64 none, few, many;

	none = COUNTED(barrier());
	few = COUNTED(asm volatile(".rept 1000\n\tnop\n\t.endr")) - none;
	many = COUNTED(asm volatile(".rept 5000\n\tnop\n\t.endr")) - none;
	bench_result("counter", "1000_nops", 1, 1, few, 1, "instructions");
	bench_result("counter", "5000_nops", 1, 1, many, 1, "instructions");
	if (few == 1000 && many == 5000)
		return true;
	pr_err("this machine counts 1000 nops as %llu, and 5000 as %llu\n", few, many);
	return false;
}

static u64 count_op(const struct bench_subject *s, enum bench_op op, struct bench_conn *c,
		    const struct bench_when *when)
{
	switch (op) {
	case BENCH_ARM:
		return count_arm(s->arm, c, when) - no_arm;
	case BENCH_CANCEL:
		return count_cancel(s->cancel, c) - no_cancel;
	case BENCH_ARM_CANCEL:
		return count_op(s, BENCH_ARM, c, when) + count_op(s, BENCH_CANCEL, c, when);
	default:
		return count_arm(s->touch, c, when) - no_arm;
	}
}

/* In this order, all on the same conns, except the last. */
static const struct {
	const char	*name;
	enum bench_op	op;
	int		shift_s;
	bool		others;
} steps[] = {
	{ "arm", BENCH_ARM },
	{ "touch_later", BENCH_TOUCH_LATER, 4 },
	{ "touch_earlier", BENCH_TOUCH_EARLIER, -10 },
	{ "cancel", BENCH_CANCEL },
	/* The wheel still holds them. */
	{ "arm_filed", BENCH_ARM, 4 },
	{ "arm_cancel", BENCH_ARM_CANCEL, .others = true },
};

/* A step of @s: the median. */
static u64 count_step(const struct bench_subject *s, unsigned int step)
{
	u64 base = steps[step].shift_s * SEC + (s->absolute ? ktime_get_ns() : 0);
	unsigned long first = bench_pending + (steps[step].others ? SAMPLES : 0);
	static u64 counts[SAMPLES];
	struct bench_when when;
	unsigned int i;

	/*
	 * A thread that the first call wakes must not run before the last call, nor be marked for
	 * preemption, which would cost each call a few instructions.
	 */
	sched_set_fifo(current);
	for (i = 0; i < SAMPLES; i++) {
		when = bench_delay[i % BENCH_DELAYS];
		when.ns += base;
		when.jiffies += steps[step].shift_s * HZ;
		counts[i] = count_op(s, steps[step].op, bench_conn(*bench_order_at(first + i)),
				     &when);
	}
	sched_set_normal(current, 0);
	return bench_median(counts, SAMPLES);
}

static int calls_turn(const struct bench_subject *s, unsigned int round)
{
	int ret = bench_set_up(s);
	unsigned int i;

	if (ret)
		return ret;
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		report(s, steps[i].name, round, count_step(s, i), 1);
		if (s->settle)
			s->settle();
	}
	return bench_tear_down(s);
}

/* The counter at each call of mark(). */
static u64 marks[SAMPLES];
static unsigned int marked, awaited;
static DECLARE_COMPLETION(all_marked);

static void await(unsigned int n)
{
	marked = 0;
	awaited = n;
	reinit_completion(&all_marked);
}

static void mark(void)
{
	marks[marked++] = get_cycles();
	if (marked == awaited)
		complete(&all_marked);
}

static void mark_timeout(struct hwtimer_timeout *t)
{
	mark();
}

static void mark_list(struct timer_list *t)
{
	mark();
}

static enum hrtimer_restart mark_hrtimer(struct hrtimer *t)
{
	mark();
	return HRTIMER_NORESTART;
}

static void arm_timeout(struct bench_conn *c, const struct bench_when *deadline)
{
	hwtimer_init(&c->timer.hwtimer, bench_wheel, mark_timeout);
	hwtimer_schedule_at(&c->timer.hwtimer, deadline->ns);
}

static void arm_list(struct bench_conn *c, const struct bench_when *deadline)
{
	timer_setup(&c->timer.list, mark_list, 0);
	mod_timer(&c->timer.list, deadline->jiffies);
}

static void arm_hrtimer(struct bench_conn *c, const struct bench_when *deadline)
{
	hrtimer_setup(&c->timer.hrtimer, mark_hrtimer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	hrtimer_start(&c->timer.hrtimer, ns_to_ktime(deadline->ns), HRTIMER_MODE_ABS);
}

/* A deadline soon, but after all have been armed. */
static struct bench_when soon(void)
{
	return (struct bench_when){
		.ns = ktime_get_ns() + 8 * TICK_NSEC,
		.jiffies = jiffies + 8,
	};
}

/* All are due at once: from one callback to the next. */
static int expire_turn(const struct bench_subject *s, arm_fn arm, unsigned int round)
{
	int ret = s->begin ? s->begin() : 0;
	struct bench_when deadline;
	unsigned int i;

	if (ret)
		return ret;
	bench_init_conns(s, SAMPLES);
	await(SAMPLES);
	deadline = soon();
	for (i = 0; i < SAMPLES; i++)
		arm(bench_conn(i), &deadline);
	wait_for_completion(&all_marked);
	for (i = 0; i < SAMPLES - 1; i++)
		marks[i] = marks[i + 1] - marks[i];
	report(s, "expire", round, bench_median(marks, SAMPLES - 1), 1);
	bench_forget_conns(s, SAMPLES);
	return 0;
}

/*
 * Touched timeouts are filed again at their old deadline. Here this happens between two others
 * that expire then, in the order of arming.
 */
static u64 refile(unsigned int n)
{
	struct bench_when deadline;
	unsigned int i;

	bench_init_conns(&bench_hwtimer, n + 2);
	await(2);
	deadline = soon();
	for (i = 0; i < n + 2; i++)
		arm_timeout(bench_conn(i), &deadline);
	hwtimer_wheel_barrier(bench_wheel);
	for (i = 1; i <= n; i++)
		hwtimer_touch(&bench_conn(i)->timer.hwtimer, 60 * SEC);
	wait_for_completion(&all_marked);
	return marks[1] - marks[0];
}

/* Requests that the callback of @asking makes, for the pass that follows. */
static struct {
	struct hwtimer_timeout	asking;
	struct hwtimer_timeout	last;
	unsigned int		n;
	bool			cancel;
} request;

/*
 * Makes @n requests, and one to release a timeout. That one was armed before, so it is not on the
 * queue of released timeouts, which this pass has drained already.
 */
static void ask(struct hwtimer_timeout *t)
{
	u64 deadline = hwtimer_wheel_now(bench_wheel) + 60 * SEC;
	struct hwtimer_timeout *each;
	unsigned int i;

	for (i = 0; i < request.n; i++) {
		each = &bench_conn(i)->timer.hwtimer;
		hwtimer_schedule_at(each, deadline);
		if (request.cancel)
			hwtimer_cancel(each);
	}
	hwtimer_schedule_at(&request.last, deadline);
	hwtimer_release(&request.last, mark_timeout);
	mark();
}

/* From the end of the callback that makes the requests to the call that reports the release. */
static u64 pass(unsigned int n, bool cancel)
{
	bench_init_conns(&bench_hwtimer, n);
	request.n = n;
	request.cancel = cancel;
	await(2);
	hwtimer_init(&request.asking, bench_wheel, ask);
	hwtimer_init(&request.last, bench_wheel, mark_timeout);
	hwtimer_schedule(&request.asking, TICK_NSEC);
	wait_for_completion(&all_marked);
	return marks[1] - marks[0];
}

static u64 file(unsigned int n)
{
	return pass(n, false);
}

static u64 drop(unsigned int n)
{
	return pass(n, true);
}

/*
 * The count of @work for @n timeouts, on a new wheel for each attempt, as the wheel holds the
 * timeouts afterwards.
 */
static int least(u64 (*work)(unsigned int n), unsigned int n, u64 *counted)
{
	unsigned int i;
	int ret;

	*counted = U64_MAX;
	for (i = 0; i < ATTEMPTS; i++) {
		/* Each at another offset to the kernel's tick. */
		usleep_range(1 + 300 * i, 2 + 300 * i);
		ret = bench_hwtimer.begin();
		if (ret)
			return ret;
		/* A new longest callback costs extra instructions: have a longer one before. */
		drop(MANY + 1);
		*counted = min(*counted, work(n));
		bench_hwtimer.end();
	}
	return 0;
}

static int each_turn(const char *name, u64 (*work)(unsigned int n), unsigned int round)
{
	u64 few, many;
	int ret = least(work, FEW, &few) ?: least(work, MANY, &many);

	if (!ret)
		report(&bench_hwtimer, name, round, many - few, MANY - FEW);
	return ret;
}

static int worker_turn(unsigned int round)
{
	u64 alone;
	int ret = least(file, 0, &alone);

	if (ret)
		return ret;
	report(&bench_hwtimer, "worker_pass", round, alone, 1);
	return each_turn("worker_file", file, round) ?:
	       each_turn("worker_drop", drop, round) ?:
	       each_turn("worker_refile", refile, round);
}

/**
 * bench_instructions - the number of instructions of operations
 * @round: one is enough
 *
 * Return: 0 or -errno; -EOPNOTSUPP: this machine does not count them.
 */
int bench_instructions(unsigned int round)
{
	static const struct bench_subject *const subjects[] = {
		&bench_hwtimer, &bench_hwtimer_at, &bench_timer_list, &bench_hrtimer,
		&bench_delayed_work,
	};
	unsigned int i;
	int ret = 0;

	if (bench_idle < 2 * SAMPLES)
		return -EINVAL;
	if (!bench_counter_is_exact())
		return -EOPNOTSUPP;
	count_nothing();
	for (i = 0; i < ARRAY_SIZE(subjects) && !ret; i++)
		ret = calls_turn(subjects[i], round);
	return ret ?: expire_turn(&bench_hwtimer, arm_timeout, round) ?:
	       expire_turn(&bench_timer_list, arm_list, round) ?:
	       expire_turn(&bench_hrtimer, arm_hrtimer, round) ?:
	       worker_turn(round);
}
