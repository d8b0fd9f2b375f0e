// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_torture: all operations of hwtimer's API for modules, from all contexts, on all CPUs,
 * with CPU hotplug; and counts that must add up.
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

#include "../../core/hwtimer_compat.h"
#include "torture.h"

/* the default of @limit, as a multiple of @duration */
#define PATIENCE	5
/* wheels at the same time, each with so many timeouts that all producers share */
#define BENCHES		4
#define SHARED		128
/* longest time in ms that a CPU stays offline, and between two of them */
#define ONOFF		500
/* longest run of one interrupt, in ns */
#define SLICE		(200 * NSEC_PER_USEC)

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

static const char *const contexts[] = {
	"process", "softirq", "hardirq", "callback", "run",
};

const unsigned int torture_speed = 1, torture_burst_ns = 100 * NSEC_PER_MSEC;
const unsigned int torture_burst_ops = UINT_MAX / 2;

bool torture_lost(struct hwtimer_timeout *t, u64 late_ns)
{
	return late_ns > LOST;
}

/* Producers in interrupts. */

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

static const enum hrtimer_mode modes[] = {
	HRTIMER_MODE_ABS_PINNED_SOFT, HRTIMER_MODE_ABS_PINNED_HARD,
};

void torture_irqs_init(struct producer *p)
{
	struct irqs *irqs;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(p->irqs); i++) {
		irqs = &p->irqs[i];
		irqs->bench = p->bench;
		irqs->context = SOFTIRQ + i;
		irqs->random = torture_seed();
		init_completion(&irqs->done);
		hrtimer_setup(&irqs->timer, interrupt, CLOCK_MONOTONIC, modes[i]);
	}
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

void torture_irqs_start(struct producer *p)
{
	unsigned int i;

	go_home(p);
	for (i = 0; i < ARRAY_SIZE(p->irqs); i++) {
		p->irqs[i].left = 1 + p->bench->ops / 4;
		reinit_completion(&p->irqs[i].done);
		hrtimer_start(&p->irqs[i].timer, p->bench->start, modes[i]);
	}
}

void torture_irqs_end(struct producer *p)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(p->irqs); i++)
		wait_for_completion(&p->irqs[i].done);
}

/* Take a CPU offline and online again, then another one. */
static unsigned long offline;

static int onoff_fn(void *data)
{
	u64 *random = data;
	unsigned int cpu, tries;

	while (!kthread_should_stop()) {
		if (torture_failed()) {
			schedule_timeout_idle(1);
			continue;
		}
		cpu = cpumask_next(below(random, nr_cpu_ids), cpu_online_mask);
		if (cpu < nr_cpu_ids && !remove_cpu(cpu)) {
			WRITE_ONCE(offline, offline + 1);
			schedule_timeout_idle(msecs_to_jiffies(1 + below(random, ONOFF)));
			for (tries = 0; add_cpu(cpu); tries++) {
				if (tries == 1500) {
					torture_fail("CPU %u does not come back", cpu);
					break;
				}
				msleep(20);
			}
		}
		schedule_timeout_idle(msecs_to_jiffies(1 + below(random, ONOFF)));
	}
	return 0;
}

static struct bench *all;
/* over all CPUs, and over all benches */
static struct counts sum;
static u64 sum_ops;

#define summed(what)	((unsigned long)local_read(&sum.what))

static void add_counts(void)
{
	unsigned int i;

	memset(&sum, 0, sizeof(sum));
	for (i = 0, sum_ops = 0; i < BENCHES; i++)
		if (all[i].counts)
			sum_ops += torture_count(&all[i], &sum);
}

/* Something was never done, which is a failure at the end. */
#define missing(end, ...)	({ if (end) torture_fail(__VA_ARGS__); true; })

/* Returns true if something was never done. */
static bool incomplete(bool end)
{
	bool ret = false;
	unsigned int i, op;

	add_counts();
	for (op = 0; op < OPS; op++)
		for (i = 0; i < CONTEXTS; i++)
			if (torture_ops[op].contexts & BIT(i) && !summed(ops[i][op]))
				ret = missing(end, "%s was never done: %s", torture_ops[op].name,
					      contexts[i]);
	if (all[0].wheels < SHAPES)
		ret = missing(end, "there were wheels of %u shapes only", all[0].wheels);
	if (num_possible_cpus() > 1 && !READ_ONCE(offline))
		ret = missing(end, "no CPU went offline");
	if (!summed(rejected))
		ret = missing(end, "no arming was refused for a cap");
	if (sum_ops < operations)
		ret = missing(end, "%llu operations were done, of %lu", sum_ops, operations);
	return ret;
}

static unsigned long rate(unsigned long n, u64 ns)
{
	return mul_u64_u64_div_u64(n, NSEC_PER_SEC, ns);
}

/* Log the results and the verdict. @ns: duration of the run. */
static void report(u64 ns)
{
	bool broken = torture_failed();
	unsigned int bursts = 0, wheels = 0, i;
	u64 late_ns = 0;

	/* If the run was cut short by a failure, missing operations are not reported. */
	incomplete(!broken);
	for (i = 0; i < BENCHES; i++) {
		bursts += all[i].burst;
		wheels += all[i].wheels;
		late_ns = max(late_ns, all[i].late_ns);
	}
	pr_info("bursts=%u runs=%lu rejected=%lu late_max=%llu us\n", bursts,
		summed(expired[WORK]), summed(rejected), div_u64(late_ns, NSEC_PER_USEC));
	pr_info("%s seed=%u armings=%lu expired=%lu cancelled=%lu rearmed=%lu handed_back=%lu released=%lu wheels=%u offline=%lu failures=%d operations=%llu seconds=%llu operations/s=%lu armings/s=%lu\n",
		torture_failed() ? "FAILURE" : "SUCCESS", seed, summed(armed[PLAIN]),
		summed(expired[PLAIN]), summed(cancelled[PLAIN]), summed(rearmed),
		summed(handed_back[PLAIN]), summed(released), wheels, offline,
		atomic_read(&torture_failures), sum_ops, div_u64(ns, NSEC_PER_SEC),
		rate(sum_ops, ns), rate(summed(armed[PLAIN]), ns));
}

static int keeper_fn(void *data)
{
	struct bench *b = data;

	while (!kthread_should_stop() && torture_wheel(b))
		hwtimer_wheel_destroy(b->wheel);
	/* for kthread_stop() */
	while (!kthread_should_stop())
		schedule_timeout_idle(1);
	return 0;
}

static int start_bench(struct bench *b, unsigned int i)
{
	int ret;

	snprintf(b->name, sizeof(b->name), "bench%u", i);
	b->things = SHARED;
	b->nr_producers = nr_cpu_ids;
	ret = torture_bench_init(b);
	if (ret)
		return ret;
	b->keeper = kthread_run(keeper_fn, b, "%s", b->name);
	return PTR_ERR_OR_ZERO(b->keeper);
}

static int torture(void)
{
	struct task_struct *onoff_task = NULL;
	static u64 onoff_random;
	unsigned int i;
	int ret = 0;

	onoff_random = torture_seed();
	for (i = 0; i < BENCHES && !ret; i++)
		ret = start_bench(&all[i], i);
	if (!ret) {
		onoff_task = kthread_run(onoff_fn, &onoff_random, "torture_onoff");
		ret = PTR_ERR_OR_ZERO(onoff_task);
	}
	for (i = 0; !ret && !torture_failed() && i < limit; i++) {
		if (i >= duration && !incomplete(false))
			break;
		if (i && i % 60 == 0)
			pr_info("%llu operations in %u s\n", sum_ops, i);
		if (msleep_interruptible(MSEC_PER_SEC))
			ret = -EINTR;
	}
	if (torture_failed())
		return ret;
	if (!IS_ERR_OR_NULL(onoff_task))
		kthread_stop(onoff_task);
	for (i = 0; i < BENCHES && !IS_ERR_OR_NULL(all[i].keeper); i++)
		kthread_stop(all[i].keeper);
	return ret;
}

static int __init torture_init(void)
{
	unsigned int i;
	u64 begun;
	int ret;

	if (!duration)
		return -EINVAL;
	if (!seed)
		seed = get_random_u32() ?: 1;
	limit = limit ?: duration * PATIENCE;
	torture_seeds = seed;
	pr_info("%u seconds, %lu operations, seed=%u\n", duration, operations, seed);

	all = kvcalloc(BENCHES, sizeof(*all), GFP_KERNEL);
	torture_wq = alloc_workqueue("torture", WQ_UNBOUND, 0);
	begun = ktime_get_ns();
	ret = all && torture_wq ? torture() : -ENOMEM;
	if (!ret || torture_failed())
		report(ktime_get_ns() - begun);
	if (torture_failed()) {
		/* A broken wheel might crash when it is stopped: leave everything in place. */
		__module_get(THIS_MODULE);
		return 0;
	}
	for (i = 0; all && i < BENCHES; i++)
		torture_bench_end(&all[i]);
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
