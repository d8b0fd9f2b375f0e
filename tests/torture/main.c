// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_torture: all operations of hwtimer's API for modules, from all contexts, on all
 * CPUs, with CPU hotplug; and counts that must add up.
 *
 *	insmod hwtimer_torture.ko [duration=60] [operations=N] [seed=N] ...
 *
 * runs for at least so many seconds and operations, then logs what was done and a verdict:
 *
 *	hwtimer_torture: SUCCESS seed=... armings=... expired=... cancelled=... ...
 *
 * The status of insmod does not tell whether the test passed.
 *
 * Each arming of a plain timeout ends exactly once: it expires, is cancelled, is replaced by
 * another arming, or is handed back by a stop. No timeout is early, lost, or used after its end. A
 * wheel runs one callback at a time, and none after a stop has returned. Timeouts released before a
 * barrier have been called back when the barrier returns.
 *
 * The test fails, too, if some operation was never done in one of its contexts, so on a slow
 * machine it runs longer, up to the limit. It ends at the first failure, with the wheels left in
 * place, and the module cannot be unloaded then.
 *
 * In a module that was built with HWTIMER_TORTURE=1 the steps of the lock-free protocol have
 * random delays between them. The same seed gives the same random numbers on any machine with the
 * same number of possible CPUs. How many operations are done, and how they interleave, depends on
 * timing.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "torture.h"

/* further failures are counted, not logged */
#define LOGGED		20
/* the default of @limit, as a multiple of @duration */
#define PATIENCE	5
/* after that the wheels must end within so many jiffies */
#define END		(120 * HZ)

static unsigned int duration = 60;
module_param(duration, uint, 0444);
MODULE_PARM_DESC(duration, "seconds to run at least (default 60)");

static unsigned int limit;
module_param(limit, uint, 0444);
MODULE_PARM_DESC(limit, "seconds after which it fails if something was never done; 0 (default): 5 times the duration");

static unsigned long operations;
module_param(operations, ulong, 0444);
MODULE_PARM_DESC(operations, "operations to do at least (default 0)");

static unsigned int seed;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "seed of all random numbers; 0 (default): a random one, which is logged");

unsigned int torture_threads = 1;
module_param_named(threads, torture_threads, uint, 0444);
MODULE_PARM_DESC(threads, "producers per CPU and wheel, each a thread, a soft and a hard hrtimer (default 1)");

static unsigned int benches = 4;
module_param(benches, uint, 0444);
MODULE_PARM_DESC(benches, "number of wheels at the same time (default 4)");

static unsigned int timeouts = 128;
module_param(timeouts, uint, 0444);
MODULE_PARM_DESC(timeouts, "timeouts per wheel that all producers share, up to 1024 (default 128)");

static unsigned int onoff = 500;
module_param(onoff, uint, 0444);
MODULE_PARM_DESC(onoff, "longest time in ms that a CPU stays offline, and between two of them; 0: no CPU hotplug (default 500)");

unsigned int torture_mix[DRAWN] = {
	[SCHEDULE] = 50, [SCHEDULE_AT] = 50, [TOUCH] = 40, [TOUCH_AT] = 40, [FORWARD] = 30,
	[CANCEL] = 50, [QUERY] = 15, [RELEASE] = 30, [CANCEL_SYNC] = 20, [SHUTDOWN_SYNC] = 15,
	[FORGET] = 30, [PRIVATE] = 15, [BARRIER] = 1,
};
module_param_array_named(mix, torture_mix, uint, NULL, 0444);
MODULE_PARM_DESC(mix, "weights (0 to 1000) of the operations schedule, schedule_at, touch, touch_at, forward, cancel, query, release, cancel_sync, shutdown_sync, forget, private, barrier; 0: never done");

unsigned int torture_mix_sum;
struct workqueue_struct *torture_wq;
/* keepers end when this is set */
bool torture_over;

static atomic_t failures;
static struct rnd_state seeds;

#define ANY	(BIT(CONTEXTS) - 1)
#define SLEEPS	(BIT(PROCESS) | BIT(CALLBACK) | BIT(RUN))
/* PREEMPT_RT allocates no memory in hard interrupts, which lockdep may check without it, too. */
#define HARDIRQ_ALLOCATES	(!IS_ENABLED(CONFIG_PREEMPT_RT) && \
				 !IS_ENABLED(CONFIG_PROVE_RAW_LOCK_NESTING))
#define ALLOCATES		(HARDIRQ_ALLOCATES ? ANY : ANY & ~BIT(HARDIRQ))

static const struct {
	const char	*name;
	unsigned int	contexts;
	unsigned int	kinds;
} ops[OPS] = {
	[SCHEDULE]	= { "schedule", ANY, BIT(PLAIN) | BIT(WORK) },
	[SCHEDULE_AT]	= { "schedule_at", ANY, BIT(PLAIN) | BIT(WORK) },
	[TOUCH]		= { "touch", ANY, BIT(PLAIN) | BIT(WORK) },
	[TOUCH_AT]	= { "touch_at", ANY, BIT(PLAIN) | BIT(WORK) },
	[FORWARD]	= { "forward", ANY, BIT(PLAIN) },
	[CANCEL]	= { "cancel", ANY, BIT(PLAIN) | BIT(WORK) },
	[QUERY]		= { "query", ANY, BIT(PLAIN) | BIT(WORK) },
	[RELEASE]	= { "release", ANY, BIT(PLAIN) | BIT(WORK) },
	[CANCEL_SYNC]	= { "cancel_sync", SLEEPS, BIT(PLAIN) | BIT(WORK) },
	[SHUTDOWN_SYNC]	= { "shutdown_sync", SLEEPS, BIT(PLAIN) },
	[FORGET]	= { "forget", ALLOCATES },
	[PRIVATE]	= { "private", BIT(PROCESS), BIT(PLAIN) | BIT(WORK) },
	[BARRIER]	= { "barrier", BIT(PROCESS) },
	[CREATE]	= { "create", BIT(PROCESS) },
	[STOP]		= { "stop", BIT(PROCESS) },
	[DESTROY]	= { "destroy", BIT(PROCESS) },
};

static const char *const contexts[] = {
	"process", "softirq", "hardirq", "callback", "run",
};

static const char *const kinds[] = { "timeout", "work" };

/**
 * torture_fail - report a failure
 * @fmt: the message, without a newline
 */
void torture_fail(const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	if (atomic_inc_return(&failures) > LOGGED)
		return;
	va_start(args, fmt);
	vaf.va = &args;
	pr_err("%pV\n", &vaf);
	va_end(args);
}

/**
 * torture_failed - has a failure been reported?
 *
 * Return: true if torture_fail() was called.
 */
bool torture_failed(void)
{
	return atomic_read(&failures);
}

/**
 * torture_seed - seed one more generator of random numbers
 * @random: filled in
 *
 * Called in the same order in each run, so that the same seed gives the same numbers.
 */
void torture_seed(struct rnd_state *random)
{
	prandom_seed_state(random, prandom_u32_state(&seeds));
}

/**
 * torture_allowed - is an operation allowed in a context?
 * @op: the operation
 * @context: the context
 *
 * Return: true if it is.
 */
bool torture_allowed(enum torture_op op, enum torture_context context)
{
	return ops[op].contexts & BIT(context);
}

/* Take a CPU offline and online again, then another one. */
static unsigned long offline;

static int onoff_fn(void *data)
{
	struct rnd_state *random = data;
	unsigned int cpu, tries;

	while (!kthread_should_stop()) {
		if (READ_ONCE(torture_over)) {
			schedule_timeout_idle(1);
			continue;
		}
		cpu = cpumask_next(below(random, nr_cpu_ids), cpu_online_mask);
		if (cpu < nr_cpu_ids && !remove_cpu(cpu)) {
			WRITE_ONCE(offline, offline + 1);
			schedule_timeout_idle(msecs_to_jiffies(1 + below(random, onoff)));
			for (tries = 0; add_cpu(cpu); tries++) {
				if (tries == 1500) {
					torture_fail("CPU %u does not come back", cpu);
					break;
				}
				msleep(20);
			}
		}
		schedule_timeout_idle(msecs_to_jiffies(1 + below(random, onoff)));
	}
	return 0;
}

/* over all CPUs, and over all benches */
static struct counts sum;
static unsigned long sum_ops;
static unsigned long bursts;

static void add_counts(void)
{
	const struct counts *c;
	unsigned int i, j, cpu;

	memset(&sum, 0, sizeof(sum));
	sum_ops = 0;
	for_each_possible_cpu(cpu) {
		c = per_cpu_ptr(&torture_counts, cpu);
		for (i = 0; i < OPS; i++) {
			for (j = 0; j < CONTEXTS; j++) {
				sum.ops[j][i] += READ_ONCE(c->ops[j][i]);
				sum_ops += READ_ONCE(c->ops[j][i]);
			}
			for (j = 0; j < KINDS; j++)
				sum.kinds[j][i] += READ_ONCE(c->kinds[j][i]);
		}
		sum.armed += c->armed;
		sum.expired += c->expired;
		sum.cancelled += c->cancelled;
		sum.handed_back += c->handed_back;
		sum.reported += c->reported;
		sum.ended += c->ended;
		sum.rearmed += c->rearmed;
		sum.rejected += READ_ONCE(c->rejected);
		sum.released += c->released;
		sum.runs += c->runs;
		sum.late_ns = max(sum.late_ns, c->late_ns);
	}
}

/* Report something that was never done, which is a failure at the end. */
static __printf(2, 3) bool missing(bool end, const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	if (end) {
		va_start(args, fmt);
		vaf.va = &args;
		torture_fail("%pV", &vaf);
		va_end(args);
	}
	return true;
}

static bool op_missing(enum torture_op op, bool end)
{
	bool ret = false;
	unsigned int i;

	if (op < DRAWN && !torture_mix[op])
		return false;
	for (i = 0; i < CONTEXTS; i++)
		if (torture_allowed(op, i) && !sum.ops[i][op])
			ret = missing(end, "%s was never done: %s", ops[op].name, contexts[i]);
	for (i = 0; i < KINDS; i++)
		if (ops[op].kinds & BIT(i) && !sum.kinds[i][op])
			ret = missing(end, "%s was never done: %s", ops[op].name, kinds[i]);
	return ret;
}

static bool shape_missing(bool end)
{
	static const char *const levels[] = { "one level", "some levels", "all levels" };
	static const char *const caps[] = { "no cap", "a cap" };
	bool ret = false;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(levels); i++)
		for (j = 0; j < ARRAY_SIZE(caps); j++)
			if (!atomic_read(&torture_shapes[i][j]))
				ret = missing(end, "there was no wheel with %s, %s", levels[i],
					      caps[j]);
	return ret;
}

/* Returns true if something was never done. */
static bool incomplete(bool end)
{
	bool ret = false;
	unsigned int i;

	add_counts();
	for (i = 0; i < OPS; i++)
		ret |= op_missing(i, end);
	ret |= shape_missing(end);
	if (onoff && num_possible_cpus() > 1 && !READ_ONCE(offline))
		ret = missing(end, "no CPU went offline");
	if (!sum.rejected)
		ret = missing(end, "no arming was refused for a cap");
	if (sum_ops < operations)
		ret = missing(end, "%lu operations were done, of %lu", sum_ops, operations);
	return ret;
}

static void report_op(enum torture_op op)
{
	unsigned int i;
	char line[200];
	int len = 0;

	for (i = 0; i < CONTEXTS; i++)
		if (torture_allowed(op, i))
			len += scnprintf(line + len, sizeof(line) - len, " %s %lu", contexts[i],
					 sum.ops[i][op]);
	for (i = 0; i < KINDS; i++)
		if (ops[op].kinds & BIT(i))
			len += scnprintf(line + len, sizeof(line) - len, "%s %s %lu",
					 i ? "" : ";", kinds[i], sum.kinds[i][op]);
	pr_info("%-13s%s\n", ops[op].name, line);
}

static unsigned long rate(unsigned long n, u64 ns)
{
	return mul_u64_u64_div_u64(n, NSEC_PER_SEC, ns);
}

/* Log the results and the verdict. @ns: duration of the run. */
static void report(u64 ns)
{
	bool broken = torture_failed();
	unsigned int op;

	/* If the run was cut short by a failure, missing operations are not reported. */
	incomplete(!broken);
	if (!broken && sum.reported != sum.ended)
		torture_fail("releases ended %lu private armings, and reported %lu", sum.ended,
			     sum.reported);
	if (!broken && sum.armed != sum.expired + sum.cancelled + sum.handed_back)
		torture_fail("the books do not balance");
	for (op = 0; op < OPS; op++)
		report_op(op);
	pr_info("bursts=%lu runs=%lu rejected=%lu late_max=%llu us\n", bursts, sum.runs,
		sum.rejected, div_u64(sum.late_ns, NSEC_PER_USEC));
	pr_info("%s seed=%u armings=%lu expired=%lu cancelled=%lu rearmed=%lu handed_back=%lu released=%lu wheels=%lu offline=%lu failures=%d operations=%lu seconds=%llu operations/s=%lu armings/s=%lu\n",
		torture_failed() ? "FAILURE" : "SUCCESS", seed, sum.armed, sum.expired,
		sum.cancelled, sum.rearmed, sum.handed_back, sum.released,
		sum.ops[PROCESS][DESTROY], offline, atomic_read(&failures), sum_ops,
		div_u64(ns, NSEC_PER_SEC), rate(sum_ops, ns), rate(sum.armed, ns));
}

static bool parameters_valid(void)
{
	unsigned int i;

	for (i = 0; i < DRAWN; i++) {
		if (torture_mix[i] > 1000)
			return false;
		torture_mix_sum += torture_mix[i];
	}
	return duration && torture_threads && benches && timeouts && timeouts <= MAX_THINGS &&
	       torture_mix_sum;
}

static int torture(struct bench *all)
{
	struct task_struct *onoff_task = NULL;
	static struct rnd_state onoff_random;
	unsigned int i;
	int ret = 0;

	torture_seed(&onoff_random);
	for (i = 0; i < benches && !ret; i++) {
		snprintf(all[i].name, sizeof(all[i].name), "bench%u", i);
		all[i].things = timeouts;
		ret = torture_bench_start(&all[i]);
	}
	if (!ret && onoff) {
		onoff_task = kthread_run(onoff_fn, &onoff_random, "torture_onoff");
		ret = PTR_ERR_OR_ZERO(onoff_task);
	}
	for (i = 0; !ret && !torture_failed() && i < limit; i++) {
		if (i >= duration && !incomplete(false))
			break;
		if (i && i % 60 == 0)
			pr_info("%lu operations in %u s\n", sum_ops, i);
		if (msleep_interruptible(MSEC_PER_SEC))
			ret = -EINTR;
	}
	WRITE_ONCE(torture_over, true);
	if (torture_failed())
		return ret;
	if (!IS_ERR_OR_NULL(onoff_task))
		kthread_stop(onoff_task);
	for (i = 0; i < benches; i++) {
		if (!torture_bench_end(&all[i], END)) {
			torture_fail("%s, wheel %u: does not end", all[i].name, all[i].wheels);
			return ret;
		}
		bursts += all[i].burst;
	}
	rcu_barrier();
	return ret;
}

static int __init torture_init(void)
{
	struct bench *all;
	u64 begun;
	int ret;

	if (!parameters_valid())
		return -EINVAL;
	if (!seed)
		seed = get_random_u32() ?: 1;
	limit = limit ?: duration * PATIENCE;
	prandom_seed_state(&seeds, seed);
	pr_info("%u seconds, %lu operations, seed=%u\n", duration, operations, seed);

	all = kvcalloc(benches, sizeof(*all), GFP_KERNEL);
	torture_wq = alloc_workqueue("torture", WQ_UNBOUND, 0);
	begun = ktime_get_ns();
	ret = all && torture_wq ? torture(all) : -ENOMEM;
	if (torture_failed()) {
		/* A broken wheel might crash when it is stopped: leave everything in place. */
		__module_get(THIS_MODULE);
		report(ktime_get_ns() - begun);
		return 0;
	}
	if (!ret)
		report(ktime_get_ns() - begun);
	if (torture_wq)
		destroy_workqueue(torture_wq);
	kvfree(all);
	return ret;
}
module_init(torture_init);

static void __exit torture_exit(void)
{
}
module_exit(torture_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Torture test of hwtimer");
MODULE_AUTHOR("The hwtimer authors");
