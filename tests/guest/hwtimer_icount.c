// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_icount: how many instructions an operation of hwtimer takes, and of timer_list. This
 * needs a machine whose time-stamp counter counts instructions: QEMU with -icount shift=0
 * (scripts/guest/boot -i). Others are detected, and refused. docs/performance.rst describes the
 * operations; scripts/bench loads this, and reads its parameter "results", a line for each count:
 *
 *	operation subject instructions
 *
 * Calls are counted one by one, with interrupts disabled; the result is the median. The worker's
 * part is measured from its callbacks, one of which reads the counter before the work begins,
 * another one after it. There interrupts are enabled, so the result is the minimum of several
 * attempts.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/timer.h>
#include <linux/timex.h>

#include <hwtimer.h>

#define SEC		((u64)NSEC_PER_SEC)
#define PENDING		1000
#define SAMPLES		128
/* The last ones are not pending: SAMPLES to arm and cancel, and as many for the step "others". */
#define CONNS		(PENDING + 2 * SAMPLES)
#define DELAYS		256
#define ATTEMPTS	5
/* Numbers of requests; the difference between both measurements excludes the rest of the pass. */
#define FEW		64
#define MANY		(FEW + SAMPLES)

static char results[SZ_2K];
module_param_string(results, results, sizeof(results), 0444);
MODULE_PARM_DESC(results, "what was counted (read it, do not set it)");

/**
 * struct conn - an object with a timeout, such as a connection; all subjects use the same memory
 * @hwtimer: the timeout of hwtimer
 * @list: that of timer_list
 */
struct conn {
	union {
		struct hwtimer_timeout	hwtimer;
		struct timer_list	list;
	};
} __aligned(256);

struct when {
	u64		ns;
	unsigned long	jiffies;
};

typedef void (*arm_fn)(struct conn *c, const struct when *when);
typedef void (*cancel_fn)(struct conn *c);

static struct hwtimer_wheel *wheel;
static struct conn *conns;
static struct when delays[DELAYS];
static unsigned long fired;

static void wheel_fired(struct hwtimer_timeout *t)
{
	fired++;
}

static void wheel_init_conn(struct conn *c)
{
	hwtimer_init(&c->hwtimer, wheel, wheel_fired);
}

static void wheel_arm_after(struct conn *c, const struct when *when)
{
	hwtimer_schedule(&c->hwtimer, when->ns);
}

static void wheel_arm_at(struct conn *c, const struct when *when)
{
	hwtimer_schedule_at(&c->hwtimer, when->ns);
}

static void wheel_touch_after(struct conn *c, const struct when *when)
{
	hwtimer_touch(&c->hwtimer, when->ns);
}

static void wheel_touch_at(struct conn *c, const struct when *when)
{
	hwtimer_touch_at(&c->hwtimer, when->ns);
}

static void wheel_cancel(struct conn *c)
{
	hwtimer_cancel(&c->hwtimer);
}

static void list_fired(struct timer_list *t)
{
	fired++;
}

static void list_init_conn(struct conn *c)
{
	timer_setup(&c->list, list_fired, 0);
}

static void list_arm(struct conn *c, const struct when *when)
{
	mod_timer(&c->list, jiffies + when->jiffies);
}

static void list_cancel(struct conn *c)
{
	timer_delete(&c->list);
}

/* Interfaces for timeouts. @absolute: when->ns is absolute, not a delay. */
static const struct subject {
	const char	*name;
	bool		absolute;
	void		(*init)(struct conn *c);
	arm_fn		arm, touch;
	cancel_fn	cancel;
} subjects[] = {
	{ "hwtimer", false, wheel_init_conn, wheel_arm_after, wheel_touch_after, wheel_cancel },
	{ "hwtimer_at", true, wheel_init_conn, wheel_arm_at, wheel_touch_at, wheel_cancel },
	{ "timer_list", false, list_init_conn, list_arm, list_arm, list_cancel },
};

static const struct subject *const hwtimer = &subjects[0], *const timer_list = &subjects[2];

static void report(const char *op, const struct subject *s, u64 count)
{
	static size_t used;

	used += scnprintf(results + used, sizeof(results) - used, "%s %s %llu\n", op, s->name,
			  count);
}

static int begin(void)
{
	/* A tick is a jiffy, as with timer_list. */
	const struct hwtimer_wheel_params params = {
		.name = "icount", .tick_ns = TICK_NSEC, .slots = 512, .levels = 2,
		/* Softirqs, in which timer_list expires, precede tasks as well. */
		.sched = HWTIMER_SCHED_FIFO_LOW,
	};

	wheel = hwtimer_wheel_create(&params);
	return PTR_ERR_OR_ZERO(wheel);
}

static void end(void)
{
	hwtimer_wheel_stop(wheel, NULL);
	hwtimer_wheel_destroy(wheel);
}

static void init_conns(const struct subject *s, unsigned int n)
{
	unsigned int i;

	fired = 0;
	for (i = 0; i < n; i++) {
		memset(&conns[i], 0, sizeof(conns[i]));
		s->init(&conns[i]);
	}
}

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

/* In one function for all subjects, so that the compiler generates the same code. */
static noinline u64 count_arm(arm_fn arm, struct conn *c, const struct when *when)
{
	return COUNTED(arm(c, when));
}

static noinline u64 count_cancel(cancel_fn cancel, struct conn *c)
{
	return COUNTED(cancel(c));
}

static void arm_nothing(struct conn *c, const struct when *when)
{
}

static void cancel_nothing(struct conn *c)
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

/* Does the counter count instructions? Otherwise the log says why not. */
static bool counter_is_exact(void)
{
	u64 none, few, many;

	none = COUNTED(barrier());
	few = COUNTED(asm volatile(".rept 1000\n\tnop\n\t.endr")) - none;
	many = COUNTED(asm volatile(".rept 5000\n\tnop\n\t.endr")) - none;
	if (few == 1000 && many == 5000)
		return true;
	pr_err("this machine counts 1000 nops as %llu, and 5000 as %llu\n", few, many);
	return false;
}

static int cmp_u64(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static u64 median(u64 *values, unsigned int n)
{
	sort(values, n, sizeof(*values), cmp_u64, NULL);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

enum call { ARM, TOUCH, CANCEL, ARM_CANCEL };

/* In this order, all on the same conns, except the last. */
static const struct {
	const char	*name;
	enum call	op;
	int		shift_s;
	bool		others;
} steps[] = {
	{ "arm", ARM },
	{ "touch_later", TOUCH, 4 },
	{ "touch_earlier", TOUCH, -10 },
	{ "cancel", CANCEL },
	/* The wheel still holds them. */
	{ "arm_filed", ARM, 4 },
	{ "arm_cancel", ARM_CANCEL, .others = true },
};

static u64 count_op(const struct subject *s, enum call op, struct conn *c, const struct when *when)
{
	switch (op) {
	case ARM:
		return count_arm(s->arm, c, when) - no_arm;
	case TOUCH:
		return count_arm(s->touch, c, when) - no_arm;
	case CANCEL:
		return count_cancel(s->cancel, c) - no_cancel;
	default:
		return count_op(s, ARM, c, when) + count_op(s, CANCEL, c, when);
	}
}

static struct when when_of(const struct subject *s, unsigned int i, int shift_s)
{
	struct when when = delays[i % DELAYS];

	when.ns += shift_s * SEC + (s->absolute ? ktime_get_ns() : 0);
	when.jiffies += shift_s * HZ;
	return when;
}

/* A step of @s: the median. */
static u64 count_step(const struct subject *s, unsigned int step)
{
	unsigned int first = PENDING + (steps[step].others ? SAMPLES : 0), i;
	static u64 counts[SAMPLES];
	struct when when;

	/*
	 * A thread that the first call wakes must not run before the last call, nor be marked for
	 * preemption, which would cost each call a few instructions.
	 */
	sched_set_fifo(current);
	for (i = 0; i < SAMPLES; i++) {
		when = when_of(s, i, steps[step].shift_s);
		counts[i] = count_op(s, steps[step].op, &conns[first + i], &when);
	}
	sched_set_normal(current, 0);
	return median(counts, SAMPLES);
}

static int calls_turn(const struct subject *s)
{
	int ret = begin();
	struct when when;
	unsigned int i;

	if (ret)
		return ret;
	init_conns(s, CONNS);
	for (i = 0; i < PENDING; i++) {
		when = when_of(s, i, 0);
		s->arm(&conns[i], &when);
	}
	hwtimer_wheel_barrier(wheel);
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		report(steps[i].name, s, count_step(s, i));
		hwtimer_wheel_barrier(wheel);
	}
	for (i = 0; i < CONNS && s == timer_list; i++)
		timer_delete_sync(&conns[i].list);
	end();
	return fired ? -ETIME : 0;
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

static void arm_timeout(struct conn *c, const struct when *deadline)
{
	hwtimer_init(&c->hwtimer, wheel, mark_timeout);
	hwtimer_schedule_at(&c->hwtimer, deadline->ns);
}

static void arm_list(struct conn *c, const struct when *deadline)
{
	timer_setup(&c->list, mark_list, 0);
	mod_timer(&c->list, deadline->jiffies);
}

/* A deadline soon, but after all have been armed. */
static struct when soon(void)
{
	return (struct when){ .ns = ktime_get_ns() + 8 * TICK_NSEC, .jiffies = jiffies + 8 };
}

/* All are due at once: from one callback to the next. */
static int expire_turn(const struct subject *s, arm_fn arm)
{
	struct when deadline;
	int ret = begin();
	unsigned int i;

	if (ret)
		return ret;
	init_conns(s, SAMPLES);
	await(SAMPLES);
	deadline = soon();
	for (i = 0; i < SAMPLES; i++)
		arm(&conns[i], &deadline);
	wait_for_completion(&all_marked);
	for (i = 0; i < SAMPLES && s == timer_list; i++)
		timer_delete_sync(&conns[i].list);
	end();
	for (i = 0; i < SAMPLES - 1; i++)
		marks[i] = marks[i + 1] - marks[i];
	report("expire", s, median(marks, SAMPLES - 1));
	return 0;
}

/*
 * Touched timeouts are filed again at their old deadline. Here this happens between two others
 * that expire then, in the order of arming.
 */
static u64 refile(unsigned int n)
{
	struct when deadline;
	unsigned int i;

	init_conns(hwtimer, n + 2);
	await(2);
	deadline = soon();
	for (i = 0; i < n + 2; i++)
		arm_timeout(&conns[i], &deadline);
	hwtimer_wheel_barrier(wheel);
	for (i = 1; i <= n; i++)
		hwtimer_touch(&conns[i].hwtimer, 60 * SEC);
	wait_for_completion(&all_marked);
	return marks[1] - marks[0];
}

/*
 * A wake-up of the worker, which has a real-time priority, for @n requests and two more: from the
 * kick until it sleeps again. Only the last one, which is due at once, is to kick it.
 */
static u64 wake(unsigned int n, bool cancel)
{
	u64 deadline = hwtimer_wheel_now(wheel) + 60 * SEC, count;
	unsigned int i;

	init_conns(hwtimer, n + 2);
	hwtimer_schedule_at(&conns[n].hwtimer, deadline);
	for (i = 0; i < n; i++) {
		hwtimer_schedule_at(&conns[i].hwtimer, deadline);
		if (cancel)
			hwtimer_cancel(&conns[i].hwtimer);
	}
	count = get_cycles();
	hwtimer_schedule_at(&conns[n + 1].hwtimer, 0);
	cond_resched();
	count = get_cycles() - count;
	hwtimer_cancel_sync(&conns[n].hwtimer);
	hwtimer_cancel_sync(&conns[n + 1].hwtimer);
	return count;
}

static u64 file(unsigned int n)
{
	return wake(n, false);
}

static u64 drop(unsigned int n)
{
	return wake(n, true);
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
		ret = begin();
		if (ret)
			return ret;
		/* A new longest callback costs extra instructions: have a longer one before. */
		drop(MANY + 1);
		*counted = min(*counted, work(n));
		end();
	}
	return 0;
}

static int each_turn(const char *name, u64 (*work)(unsigned int n))
{
	u64 few, many;
	int ret = least(work, FEW, &few) ?: least(work, MANY, &many);

	if (!ret)
		report(name, hwtimer, (unsigned long)(many - few) / (MANY - FEW));
	return ret;
}

static int worker_turn(void)
{
	u64 alone;
	int ret = least(file, 0, &alone);

	if (ret)
		return ret;
	report("worker_wake", hwtimer, alone);
	return each_turn("worker_file", file) ?: each_turn("worker_drop", drop) ?:
	       each_turn("worker_refile", refile);
}

static int __init icount_init(void)
{
	struct rnd_state random;
	unsigned int i, ms;
	int ret = 0;

	if (!counter_is_exact())
		return -EOPNOTSUPP;
	conns = kvcalloc(CONNS, sizeof(*conns), GFP_KERNEL);
	if (!conns)
		return -ENOMEM;
	prandom_seed_state(&random, 1);
	for (i = 0; i < DELAYS; i++) {
		ms = 20000 + prandom_u32_state(&random) % 40000;
		delays[i].ns = ms * (u64)NSEC_PER_MSEC;
		delays[i].jiffies = msecs_to_jiffies(ms);
	}
	count_nothing();
	for (i = 0; i < ARRAY_SIZE(subjects) && !ret; i++)
		ret = calls_turn(&subjects[i]);
	ret = ret ?: expire_turn(hwtimer, arm_timeout) ?: expire_turn(timer_list, arm_list) ?:
	      worker_turn();
	kvfree(conns);
	return ret;
}
module_init(icount_init);

static void __exit icount_exit(void)
{
}
module_exit(icount_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Counts the instructions of hwtimer's operations");
MODULE_AUTHOR("The hwtimer authors");
