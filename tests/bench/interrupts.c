// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_bench: how long interrupts are disabled, in instructions. This needs a machine as for
 * instructions.c, and a kernel with tracepoints for that (scripts/config/x86-irqsoff.config).
 *
 * Everything that the one CPU does is seen: the operation, tasks that it wakes, and the kernel's
 * tick, which takes some thousand instructions. The tick comes once in a million instructions, so
 * seldom in a call, and always in expiries. Hence there is also a subject that does nothing.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/kconfig.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/timex.h>
#include <linux/tracepoint.h>

#include "bench.h"

#define SAMPLES		128
#define ATTEMPTS	5

/**
 * struct watch - sections with interrupts disabled
 * @open: the watch is on
 * @since: the counter when they were disabled; 0: they were not, since the watch began
 * @longest: the longest section
 * @total: the sum of all sections
 * @sections: number of sections
 *
 * There is one CPU, and it is written with interrupts disabled.
 */
static struct watch {
	bool		open;
	u64		since;
	u64		longest;
	u64		total;
	unsigned long	sections;
} watch;

/* The count of an empty section. */
static u64 empty;

static void went_off(void *data, unsigned long ip, unsigned long parent_ip)
{
	watch.since = get_cycles();
}

static void went_on(void *data, unsigned long ip, unsigned long parent_ip)
{
	u64 took = get_cycles() - watch.since;

	if (!watch.open || !watch.since)
		return;
	took -= min(took, empty);
	watch.since = 0;
	watch.longest = max(watch.longest, took);
	watch.total += took;
	watch.sections++;
}

static void watch_open(void)
{
	memset(&watch, 0, sizeof(watch));
	barrier();
	WRITE_ONCE(watch.open, true);
}

static void watch_close(void)
{
	WRITE_ONCE(watch.open, false);
	barrier();
}

/* The kernel's tracepoints for this. */
static struct tracepoint *tp_off, *tp_on;

static void find(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "irq_disable"))
		tp_off = tp;
	else if (!strcmp(tp->name, "irq_enable"))
		tp_on = tp;
}

static int watch_begin(void)
{
	unsigned long flags;
	int ret;

	for_each_kernel_tracepoint(find, NULL);
	if (!tp_off || !tp_on)
		return -EOPNOTSUPP;
	ret = tracepoint_probe_register(tp_off, went_off, NULL);
	if (ret)
		return ret;
	ret = tracepoint_probe_register(tp_on, went_on, NULL);
	if (ret) {
		tracepoint_probe_unregister(tp_off, went_off, NULL);
		tracepoint_synchronize_unregister();
		return ret;
	}
	empty = 0;
	watch_open();
	local_irq_save(flags);
	local_irq_restore(flags);
	watch_close();
	empty = watch.longest;
	return 0;
}

static void watch_end(void)
{
	tracepoint_probe_unregister(tp_on, went_on, NULL);
	tracepoint_probe_unregister(tp_off, went_off, NULL);
	tracepoint_synchronize_unregister();
}

static void report(const char *subject, const char *what, const char *op, unsigned int round,
		   u64 value, unsigned long n)
{
	char name[40];

	snprintf(name, sizeof(name), "off_%s_%s", what, op);
	bench_result(subject, name, 1, round, value, n, "instructions");
}

/* Operations on one conn. */
static void op_arm_cancel(const struct bench_subject *s, struct bench_conn *c)
{
	struct bench_when when = { .ns = 60 * SEC, .jiffies = 60 * HZ };

	s->arm(c, &when);
	s->cancel(c);
}

static void op_touch(const struct bench_subject *s, struct bench_conn *c)
{
	struct bench_when when = { .ns = 90 * SEC, .jiffies = 90 * HZ };

	s->touch(c, &when);
}

/* Each call by itself: the median of their totals, and the longest section of all. */
static void calls(const struct bench_subject *s, const char *op, unsigned long first,
		  unsigned int round, void (*call)(const struct bench_subject *s,
						   struct bench_conn *c))
{
	static u64 totals[SAMPLES];
	u64 longest = 0;
	unsigned int i;

	for (i = 0; i < SAMPLES; i++) {
		watch_open();
		call(s, bench_conn(first + i));
		watch_close();
		totals[i] = watch.total;
		longest = max(longest, watch.longest);
	}
	report(s->name, "median", op, round, bench_median(totals, SAMPLES), 1);
	report(s->name, "longest", op, round, longest, 1);
}

static int calls_turn(const struct bench_subject *s, unsigned int round)
{
	int ret = bench_set_up(s);

	if (ret)
		return ret;
	calls(s, "touch_later", 0, round, op_touch);
	calls(s, "arm_cancel", bench_pending, round, op_arm_cancel);
	return bench_tear_down(s);
}

/*
 * From before they are due until all have expired, and equally many jiffies for each subject. This
 * task is busy all the time, as an idle CPU disables interrupts as well. NULL: nothing is due.
 */
static int expire_turn(const struct bench_subject *s, unsigned int round)
{
	unsigned long n = s ? bench_pending : 0, until, late;
	struct bench_range r = { .size = n, .n = n };
	int ret = s && s->begin ? s->begin() : 0;
	unsigned int i;
	u64 longest = U64_MAX, total = U64_MAX;

	for (i = 0; i < ATTEMPTS && !ret; i++) {
		WRITE_ONCE(bench_fired, 0);
		r.deadline.jiffies = jiffies + 20;
		r.deadline.ns = ktime_get_ns() + 20 * TICK_NSEC;
		if (s) {
			bench_init_conns(s, n);
			s->run(BENCH_ARM_AT, &r);
		}
		until = r.deadline.jiffies + 20;
		late = r.deadline.jiffies + 60 * HZ;
		if (READ_ONCE(bench_fired))
			ret = -ETIME;
		watch_open();
		while (time_before(jiffies, until) || READ_ONCE(bench_fired) < n) {
			cond_resched();
			if (time_after(jiffies, late)) {
				ret = -ETIME;
				break;
			}
		}
		watch_close();
		longest = min(longest, watch.longest);
		total = min(total, watch.total);
	}
	if (s)
		bench_forget_conns(s, n);
	if (!ret) {
		report(s ? s->name : "none", "longest", "expire", round, longest, 1);
		report(s ? s->name : "none", "total", "expire", round, total, 1);
	}
	return ret;
}

/**
 * bench_interrupts - how long are interrupts disabled?
 * @round: one is enough
 *
 * Return: 0 or -errno; -EOPNOTSUPP: this machine or kernel cannot report.
 */
int bench_interrupts(unsigned int round)
{
	static const struct bench_subject *const callers[] = {
		&bench_hwtimer, &bench_timer_list, &bench_hrtimer, &bench_delayed_work,
	};
	static const struct bench_subject *const expiring[] = {
		NULL, &bench_hwtimer, &bench_hwtimer_softirq, &bench_timer_list, &bench_hrtimer,
		&bench_delayed_work,
	};
	unsigned int i;
	int ret;

	/* Without the option, the compiler must not see references to its functions. */
	if (!IS_ENABLED(CONFIG_PREEMPTIRQ_TRACEPOINTS))
		return -EOPNOTSUPP;
	if (bench_pending < SAMPLES || bench_idle < SAMPLES)
		return -EINVAL;
	if (!bench_counter_is_exact())
		return -EOPNOTSUPP;
	ret = watch_begin();
	if (ret)
		return ret;
	for (i = 0; i < ARRAY_SIZE(callers) && !ret; i++)
		ret = calls_turn(callers[i], round);
	for (i = 0; i < ARRAY_SIZE(expiring) && !ret; i++)
		ret = expire_turn(expiring[i], round);
	watch_end();
	return ret;
}
