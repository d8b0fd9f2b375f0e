// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_guest: tests that need a real machine with several CPUs: bursts, workers that are held
 * off, and suspend. The module under test is the one that is shipped, used by way of hwtimer.h.
 *
 *	insmod hwtimer_guest.ko case=held [clock=boottime]
 *
 * runs a case. It fails with -EBADE if the case found an error, which is in the log, and with
 * -EAGAIN if the machine was too slow for the case to prove anything. A timeout must not be early,
 * and it must fire within PATIENCE; otherwise no case depends on how long anything takes.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/suspend.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include <hwtimer.h>
#include <core/hwtimer_compat.h>

#define MS		((u64)NSEC_PER_MSEC)
#define SEC		((u64)NSEC_PER_SEC)
#define TICK		MS
/* how long to wait for what must happen; the machine may be emulated */
#define PATIENCE	(60 * HZ)

static char *case_name = "";
module_param_named(case, case_name, charp, 0444);
MODULE_PARM_DESC(case, "what to test: burst, held, irqs_off or suspend");

static char *clock = "monotonic";
module_param(clock, charp, 0444);
MODULE_PARM_DESC(clock, "clock of the wheel: monotonic (default) or boottime");

static unsigned int timeouts = 100000;
module_param(timeouts, uint, 0444);
MODULE_PARM_DESC(timeouts, "burst: number of timeouts due at the same tick (default 100000)");

static unsigned int seconds = 3;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "suspend: delay of the timeout, in seconds; the machine must sleep for longer (default 3)");

/* an error was found */
static bool failed;
/* the machine was too slow for the case to prove anything */
static bool too_slow;

static __printf(1, 2) void fail(const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	WRITE_ONCE(failed, true);
	va_start(args, fmt);
	vaf.va = &args;
	pr_err_ratelimited("%s, %s: %pV\n", case_name, clock, &vaf);
	va_end(args);
}

#define check(condition) do {						\
	if (!(condition))						\
		fail("line %d: not: %s", __LINE__, #condition);		\
} while (0)

/* Wait for @condition. Returns false if it is still false after PATIENCE. */
#define eventually(condition) ({					\
	unsigned long end_ = jiffies + PATIENCE;			\
	bool true_;							\
									\
	while (!(true_ = (condition)) && time_before(jiffies, end_))	\
		usleep_range(500, 1000);				\
	if (!true_)							\
		fail("line %d: still not: %s", __LINE__, #condition);	\
	true_;								\
})

static struct hwtimer_wheel *make_wheel(unsigned int slots)
{
	struct hwtimer_wheel_params params = {
		.name = KBUILD_MODNAME, .tick_ns = TICK, .slots = slots, .levels = 1,
		.clock = strcmp(clock, "boottime") ? HWTIMER_CLOCK_MONOTONIC :
						     HWTIMER_CLOCK_BOOTTIME,
	};
	struct hwtimer_wheel *wheel = hwtimer_wheel_create(&params);

	if (IS_ERR(wheel))
		fail("no wheel: %ld", PTR_ERR(wheel));
	return wheel;
}

/* one of many timeouts that are due at the same tick */
struct spark {
	struct hwtimer_timeout	t;
	u64			deadline;
	u64			at;
};

static struct spark *sparks;
static unsigned int fired;

/* A thread on each CPU counts its beats; @meanwhile: those while timeouts fired. */
static struct heart {
	struct task_struct	*task;
	unsigned long		beats, before, meanwhile;
} *hearts;

static bool beating;

static void spark_fired(struct hwtimer_timeout *t)
{
	struct spark *s = container_of(t, struct spark, t);
	int cpu;

	s->at = hwtimer_wheel_now(t->wheel);
	if (s != &sparks[fired])
		fail("number %zd fires as number %u", s - sparks, fired);
	if (s->at < s->deadline)
		fail("early by %llu ns", s->deadline - s->at);
	if (!fired) {
		for_each_online_cpu(cpu)
			hearts[cpu].before = READ_ONCE(hearts[cpu].beats);
	}
	if (fired == timeouts - 1) {
		for_each_online_cpu(cpu)
			hearts[cpu].meanwhile += READ_ONCE(hearts[cpu].beats) -
						 hearts[cpu].before;
	}
	/* pairs with run_burst(), which reads what was written here */
	smp_store_release(&fired, fired + 1);
}

static int heart_task(void *data)
{
	struct heart *h = data;

	while (!kthread_should_stop()) {
		WRITE_ONCE(h->beats, h->beats + 1);
		if (READ_ONCE(beating))
			cond_resched();
		else
			usleep_range(500, 1000);
	}
	return 0;
}

static void hearts_start(void)
{
	struct task_struct *task;
	int cpu;

	for_each_online_cpu(cpu) {
		task = kthread_create(heart_task, &hearts[cpu], "hwtimer_guest/%d", cpu);
		check(!IS_ERR(task));
		if (IS_ERR(task))
			continue;
		set_cpus_allowed_ptr(task, cpumask_of(cpu));
		wake_up_process(task);
		hearts[cpu].task = task;
	}
}

static void hearts_stop(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		if (!hearts[cpu].task)
			continue;
		kthread_stop(hearts[cpu].task);
		pr_info("burst: CPU %d: %lu beats meanwhile\n", cpu, hearts[cpu].meanwhile);
		check(hearts[cpu].meanwhile);
	}
}

static bool all_beat(void)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (!hearts[cpu].meanwhile)
			return false;
	return true;
}

#define MOST_ROUNDS	6

/*
 * All timeouts are armed on one CPU, for the same tick. They fire in the order of arming, and the
 * threads of all CPUs make progress meanwhile.
 */
static void run_burst(void)
{
	struct hwtimer_wheel *wheel = make_wheel(64);
	unsigned int i, k;
	u64 deadline;

	if (IS_ERR(wheel))
		return;
	sparks = vzalloc(array_size(timeouts, sizeof(*sparks)));
	hearts = kcalloc(nr_cpu_ids, sizeof(*hearts), GFP_KERNEL);
	if (!sparks || !hearts) {
		fail("no memory");
		goto free;
	}
	hearts_start();
	/* An emulated CPU may wait for a real one for as long as a round takes. */
	for (k = 0; !k || (k < MOST_ROUNDS && !all_beat()); k++) {
		WRITE_ONCE(fired, 0);
		deadline = hwtimer_wheel_now(wheel) + 2 * SEC;
		migrate_disable();
		for (i = 0; i < timeouts; i++) {
			sparks[i].deadline = deadline;
			if (!k)
				hwtimer_init(&sparks[i].t, wheel, spark_fired);
			if (hwtimer_schedule_at(&sparks[i].t, deadline))
				fail("not armed");
			if (i % 1000 == 0)
				cond_resched();
		}
		migrate_enable();
		WRITE_ONCE(beating, true);
		/* pairs with spark_fired() */
		if (!eventually(smp_load_acquire(&fired) == timeouts))
			break;
		WRITE_ONCE(beating, false);
		pr_info("burst: fired within %llu us\n",
			div_u64(sparks[timeouts - 1].at - sparks[0].at, NSEC_PER_USEC));
	}
	hearts_stop();
	check(failed || !hwtimer_wheel_pending(wheel));
free:
	hwtimer_wheel_destroy(wheel);
	kfree(hearts);
	vfree(sparks);
}

/* The worker is held off for HOLD while HELD timeouts become due, one every HELD_EVERY. */
#define HELD		4000
#define HELD_EVERY	(600 * NSEC_PER_USEC)
#define HOLD		(2 * NSEC_PER_SEC)

/**
 * struct held - a wheel whose worker is held off
 * @wheel: the wheel
 * @holder: its callback holds the worker off
 * @from: no timeout with a deadline from @from ...
 * @until: ... to @until can fire before @until
 * @armed: when all were armed; U64_MAX before that
 * @latest: the latest deadline after @armed that has expired
 * @ordered: one round of the wheel is longer than the test
 * @fired: timeouts that have fired
 * @sparks: the timeouts
 */
struct held {
	struct hwtimer_wheel	*wheel;
	struct hwtimer_timeout	holder;
	u64			from;
	u64			until;
	u64			armed;
	u64			latest;
	bool			ordered;
	unsigned int		fired;
	struct held_spark {
		struct hwtimer_timeout	t;
		struct held		*held;
		u64			deadline;
		u64			at;
	} sparks[HELD];
};

static void held_fired(struct hwtimer_timeout *t)
{
	struct held_spark *s = container_of(t, struct held_spark, t);
	struct held *held = s->held;
	u64 now = hwtimer_wheel_now(t->wheel);

	if (s->at)
		fail("number %td fires twice", s - held->sparks);
	if (now < s->deadline)
		fail("early by %llu ns", s->deadline - now);
	/* no order is promised within a tick, nor for timeouts armed after their deadline */
	if (held->ordered && s->deadline > READ_ONCE(held->armed)) {
		if (s->deadline + TICK <= held->latest)
			fail("fires after one due %llu ns later", held->latest - s->deadline);
		held->latest = max(held->latest, s->deadline);
	}
	s->at = now;
	/* pairs with hold_off(), which reads what was written here */
	smp_store_release(&held->fired, held->fired + 1);
}

/* A callback that sleeps in the worker's thread. */
static void hold_worker(struct hwtimer_timeout *t)
{
	struct held *held = container_of(t, struct held, holder);

	held->from = hwtimer_wheel_now(t->wheel);
	msleep(HOLD / NSEC_PER_MSEC);
	while (hwtimer_wheel_now(t->wheel) < held->from + HOLD)
		cpu_relax();
	held->until = hwtimer_wheel_now(t->wheel);
}

static atomic_t cpus_missing;

/* Called on all CPUs at the same time: disable interrupts for half of HOLD. */
static void hold_cpu(void *data)
{
	struct held *held = data;
	u64 now = hwtimer_wheel_now(held->wheel), end;

	if (atomic_dec_and_test(&cpus_missing))
		held->until = now + HOLD / 2;
	while (atomic_read(&cpus_missing))
		cpu_relax();
	now = hwtimer_wheel_now(held->wheel);
	WRITE_ONCE(held->from, now);
	end = now + HOLD / 2;
	while (hwtimer_wheel_now(held->wheel) < end)
		cpu_relax();
}

/* Hold off @n workers at the same time. Returns false if that has proved nothing. */
static bool hold_off(struct held *held, unsigned int n, bool irqs)
{
	u64 began = hwtimer_wheel_now(held->wheel) + 100 * MS;
	unsigned int i, k, late;
	bool tested = true;

	for (i = 0; i < n; i++) {
		struct held *h = &held[i];

		h->armed = U64_MAX;
		hwtimer_init(&h->holder, h->wheel, hold_worker);
		if (!irqs)
			check(!hwtimer_schedule_at(&h->holder, began));
		for (k = 0; k < HELD; k++) {
			/* not in the order of the deadlines: 1237 and HELD are coprime */
			struct held_spark *s = &h->sparks[k * 1237 % HELD];

			s->held = h;
			s->deadline = began + (s - h->sparks) * HELD_EVERY;
			hwtimer_init(&s->t, h->wheel, held_fired);
			check(!hwtimer_schedule_at(&s->t, s->deadline));
		}
		WRITE_ONCE(h->armed, hwtimer_wheel_now(h->wheel));
	}
	if (irqs) {
		while (hwtimer_wheel_now(held->wheel) < began)
			usleep_range(500, 1000);
		cpus_read_lock();
		atomic_set(&cpus_missing, num_online_cpus());
		on_each_cpu(hold_cpu, held, true);
		cpus_read_unlock();
		for (i = 1; i < n; i++) {
			held[i].from = held->from;
			held[i].until = held->until;
		}
	}
	for (i = 0; i < n; i++) {
		struct held *h = &held[i];

		/* pairs with held_fired() */
		if (!eventually(smp_load_acquire(&h->fired) == HELD))
			continue;
		for (late = 0, k = 0; k < HELD; k++) {
			struct held_spark *s = &h->sparks[k];

			if (s->deadline <= h->from || s->deadline >= h->until)
				continue;
			late++;
			if (s->at < h->until)
				fail("number %u was not held off", k);
		}
		pr_info("%s: %u of %u held off for up to %llu ms\n", case_name, late, HELD,
			div_u64(h->until - h->from, MS));
		/* few timeouts are late if the machine itself was held off */
		tested &= late > 100;
		check(!hwtimer_wheel_pending(h->wheel));
		check(h->fired == HELD);
	}
	return tested;
}

/* Late by less than a round and by many rounds: each timeout fires once, and not early. */
static bool try_held_off(bool irqs)
{
	static const unsigned int slots[] = { 8192, 64 };
	struct held *held = vzalloc(array_size(ARRAY_SIZE(slots), sizeof(*held)));
	unsigned int i, n = 0;
	bool tested = false;

	if (!held) {
		fail("no memory");
		return false;
	}
	for (i = 0; i < ARRAY_SIZE(slots); i++, n++) {
		held[i].wheel = make_wheel(slots[i]);
		held[i].ordered = !i;
		if (IS_ERR(held[i].wheel))
			break;
	}
	if (n == ARRAY_SIZE(slots))
		tested = hold_off(held, n, irqs);
	while (n--)
		hwtimer_wheel_destroy(held[n].wheel);
	vfree(held);
	return tested;
}

static void run_held_off(bool irqs)
{
	unsigned int i;

	for (i = 0; i < 5 && !failed; i++)
		if (try_held_off(irqs))
			return;
	too_slow = true;
}

static void run_held(void)
{
	run_held_off(false);
}

static void run_irqs_off(void)
{
	run_held_off(true);
}

static void sleeper_fired(struct hwtimer_timeout *t)
{
	if (hwtimer_wheel_now(t->wheel) < hwtimer_deadline(t))
		fail("early");
}

/* The caller has set an alarm that wakes the machine. */
static void run_suspend(void)
{
	struct hwtimer_wheel *wheel = make_wheel(64);
	bool boottime = !strcmp(clock, "boottime"), pending;
	u64 start, mono, boot, sleep = seconds * SEC;
	struct hwtimer_timeout *t;
	int i, ret;

	if (IS_ERR(wheel))
		return;
	t = kcalloc(2, sizeof(*t), GFP_KERNEL);
	if (!t) {
		fail("no memory");
		goto destroy;
	}
	start = ktime_get_ns();
	boot = ktime_get_boottime_ns();
	for (i = 0; i < 2; i++) {
		hwtimer_init(&t[i], wheel, sleeper_fired);
		check(!hwtimer_schedule(&t[i], (i ? 1000 : 1) * sleep));
	}
	ret = pm_suspend(PM_SUSPEND_MEM);
	if (ret)
		fail("not suspended: %d", ret);
	pending = hwtimer_is_pending(&t[0]);
	mono = ktime_get_ns() - start;
	boot = ktime_get_boottime_ns() - boot;
	pr_info("suspend, %s: awake for %llu ms, suspended for %llu ms\n", clock,
		div_u64(mono, MS), div_u64(boot - mono, MS));
	if (boot - mono < sleep || mono >= sleep)
		too_slow = true;
	else if (!boottime)
		check(pending);
	eventually(!hwtimer_is_pending(&t[0]));
	/* proves nothing if the machine was awake for the whole delay before the timeout fired */
	if (boottime && ktime_get_ns() - start >= sleep)
		too_slow = true;
	check(hwtimer_is_pending(&t[1]));
	check(hwtimer_cancel_sync(&t[0]) == 0);
	check(hwtimer_cancel_sync(&t[1]) == 1);
	kfree(t);
destroy:
	hwtimer_wheel_destroy(wheel);
}

static const struct {
	const char	*name;
	void		(*run)(void);
} cases[] = {
	{ "burst", run_burst },
	{ "held", run_held },
	{ "irqs_off", run_irqs_off },
	{ "suspend", run_suspend },
};

static int __init hwtimer_guest_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		if (strcmp(cases[i].name, case_name))
			continue;
		pr_info("case=%s clock=%s\n", case_name, clock);
		cases[i].run();
		if (too_slow)
			pr_info("%s, %s: too slow to decide\n", case_name, clock);
		return failed ? -EBADE : too_slow ? -EAGAIN : 0;
	}
	pr_err("no such case: %s\n", case_name);
	return -EINVAL;
}
module_init(hwtimer_guest_init);

static void __exit hwtimer_guest_exit(void)
{
}
module_exit(hwtimer_guest_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of hwtimer that need a real machine");
