// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_guest: the API for other modules on a real machine, with several CPUs and
 * with producers in process, softirq and hardirq context.
 *
 *	insmod hwtimer_guest.ko case=books [driver=hrtimer] [clock=boottime] [seed=N]
 *
 * runs a case and stays, or fails with -EBADE and says why in the log; or with -EAGAIN if
 * the machine was too slow for the case to tell anything. Time is a verdict only where
 * something is early, or where it is lost: not within PATIENCE.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/suspend.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>

#include <hwtimer.h>
#include <hwtimer_compat.h>

#define MS		((u64)NSEC_PER_MSEC)
#define SEC		((u64)NSEC_PER_SEC)
#define TICK		MS
/* How long to wait for what must happen; the machine may be an emulated one. */
#define PATIENCE	(60 * HZ)

static char *case_name = "";
module_param_named(case, case_name, charp, 0444);
MODULE_PARM_DESC(case, "what to test");

static char *driver = "kthread";
module_param(driver, charp, 0444);
MODULE_PARM_DESC(driver, "kthread (default) or hrtimer");

static char *clock = "monotonic";
module_param(clock, charp, 0444);
MODULE_PARM_DESC(clock, "monotonic (default) or boottime");

static unsigned int seed;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "of the random numbers; 0 (default): some seed, which is logged");

static unsigned int seconds = 3;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "suspend: for how long at least (default 3)");

/* One of the cases has found something wrong. */
static bool failed;
/* The machine was too slow for it to tell anything. */
static bool told_nothing;

static __printf(1, 2) void fail(const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	WRITE_ONCE(failed, true);
	va_start(args, fmt);
	vaf.va = &args;
	pr_err_ratelimited("%s, %s, %s: %pV\n", case_name, driver, clock, &vaf);
	va_end(args);
}

#define check(condition) do {						\
	if (!(condition))						\
		fail("line %d: not: %s", __LINE__, #condition);		\
} while (0)

/* Wait until it holds; true if it does. */
#define eventually(condition) ({					\
	unsigned long end_ = jiffies + PATIENCE;			\
	bool holds_;							\
									\
	while (!(holds_ = (condition)) && time_before(jiffies, end_))	\
		usleep_range(500, 1000);				\
	if (!holds_)							\
		fail("line %d: in vain waited for: %s", __LINE__, #condition); \
	holds_;								\
})

static struct hwtimer_wheel *make_wheel(unsigned int slots, const struct cpumask *cpus)
{
	bool hr = !strcmp(driver, "hrtimer");
	struct hwtimer_wheel_params params = {
		.name = KBUILD_MODNAME, .tick_ns = TICK, .slots = slots,
		.driver = hr ? HWTIMER_DRIVER_HRTIMER : HWTIMER_DRIVER_KTHREAD,
		.clock = strcmp(clock, "boottime") ? HWTIMER_CLOCK_MONOTONIC :
						     HWTIMER_CLOCK_BOOTTIME,
		.cpus = hr ? NULL : cpus,
	};

	return hwtimer_wheel_create(&params);
}

/**
 * struct bench - a wheel that is tried by many at once
 * @wheel: the wheel
 * @over: producers end
 * @busy: a callback runs
 * @armed: armings by callbacks; as @expired and @released written by callbacks only
 * @expired: callbacks
 * @released: callbacks of releases; some on a stopped wheel, by producers
 * @shared: things that everybody arms, touches and cancels
 */
struct bench {
	struct hwtimer_wheel	*wheel;
	bool			over;
	atomic_t		busy;
	unsigned long		armed;
	unsigned long		expired;
	atomic_long_t		released;
	struct thing		*shared;
};

/* What the owner of a thing knows about it. */
enum state {
	IDLE,		/* may be armed */
	LIVE,		/* has been armed; the callback, or who cancels, makes it IDLE */
	RELEASING,	/* the callback of the release makes it IDLE */
	SHARED,		/* has no owner */
};

/**
 * struct thing - a timeout
 * @t: the timeout
 * @bench: where it belongs
 * @floor: it must not fire before. The owner's
 * @state: an enum state
 */
struct thing {
	struct hwtimer_timeout	t;
	struct bench		*bench;
	u64			floor;
	int			state;
};

#define SHARED_THINGS	64
#define OWN_THINGS	64

enum context { PROCESS, SOFTIRQ, HARDIRQ, CONTEXTS };

/**
 * struct producer - somebody who uses the wheel, on one CPU and in one context
 * @bench: which wheel
 * @context: an enum context
 * @cpu: where it begins
 * @rnd: its random numbers
 * @left: operations to do
 * @armed: armings that succeeded
 * @cancelled: those that it ended
 * @released: releases
 * @done: it has ended
 * @timer: runs it in softirq
 * @hrtimer: runs it in hardirq
 * @task: runs it in process context
 * @own: its own things
 */
struct producer {
	struct bench		*bench;
	enum context		context;
	int			cpu;
	struct rnd_state	rnd;
	unsigned int		left;
	unsigned long		armed;
	unsigned long		cancelled;
	unsigned long		released;
	struct completion	done;
	struct timer_list	timer;
	struct hrtimer		hrtimer;
	struct task_struct	*task;
	struct thing		own[OWN_THINGS];
};

static void thing_fired(struct hwtimer_timeout *t)
{
	struct thing *thing = container_of(t, struct thing, t);
	struct bench *b = thing->bench;
	int state = READ_ONCE(thing->state);
	u64 now = hwtimer_wheel_now(b->wheel);

	if (atomic_xchg(&b->busy, 1))
		fail("two callbacks at a time");
	b->expired++;
	if (state == SHARED) {
		/* Now and then again, at once or not. */
		if (b->expired % 4 == 0)
			b->armed += !hwtimer_schedule(t, b->expired % 8 * MS / 2);
	} else {
		if (now < READ_ONCE(thing->floor))
			fail("early by %llu ns", READ_ONCE(thing->floor) - now);
		if (state == IDLE)
			fail("fired without having been armed");
		cmpxchg(&thing->state, LIVE, IDLE);
	}
	atomic_set(&b->busy, 0);
}

static void thing_released(struct hwtimer_timeout *t)
{
	struct thing *thing = container_of(t, struct thing, t);

	if (READ_ONCE(thing->state) != RELEASING)
		fail("released, state %d", thing->state);
	atomic_long_inc(&thing->bench->released);
	hwtimer_init(t, thing->bench->wheel, thing_fired);
	/* The owner's again. Pairs with use_own(). */
	smp_store_release(&thing->state, IDLE);
}

static void thing_init(struct thing *thing, struct bench *b, enum state state)
{
	thing->bench = b;
	thing->state = state;
	hwtimer_init(&thing->t, b->wheel, thing_fired);
}

/* Mostly within some ticks, some at once, some far away. */
static u64 some_delay(struct producer *p)
{
	u32 r = prandom_u32_state(&p->rnd);

	switch (r % 16) {
	case 0:
		return 0;
	case 1:
		return 10 * SEC;
	case 2 ... 4:
		return (r >> 8) % MS;
	default:
		return (r >> 8) % (20 * MS);
	}
}

static int use_shared(struct producer *p, struct thing *thing)
{
	u64 delay = some_delay(p);
	int ret = 0;

	switch (prandom_u32_state(&p->rnd) % 8) {
	case 0 ... 3:
		ret = hwtimer_schedule(&thing->t, delay);
		p->armed += !ret;
		break;
	case 4 ... 5:
		ret = hwtimer_touch(&thing->t, delay);
		break;
	default:
		p->cancelled += hwtimer_cancel(&thing->t);
		break;
	}
	return ret;
}

/* Nobody else arms it, so it is known when it may fire. */
static int use_own(struct producer *p, struct thing *thing)
{
	u64 deadline = hwtimer_wheel_now(p->bench->wheel) + some_delay(p);
	int ret;

	/* Pairs with thing_released(). */
	switch (smp_load_acquire(&thing->state)) {
	case IDLE:
		WRITE_ONCE(thing->floor, deadline);
		WRITE_ONCE(thing->state, LIVE);
		ret = hwtimer_schedule_at(&thing->t, deadline);
		p->armed += !ret;
		if (ret)
			WRITE_ONCE(thing->state, IDLE);
		if (ret > 0)
			fail("armed already");
		return ret;
	case LIVE:
		break;
	default:
		return 0;
	}

	switch (prandom_u32_state(&p->rnd) % 8) {
	case 0 ... 4:
		if (deadline < thing->floor)
			WRITE_ONCE(thing->floor, deadline);
		ret = hwtimer_touch_at(&thing->t, deadline);
		if (!ret)
			WRITE_ONCE(thing->floor, deadline);
		return ret;
	case 5 ... 6:
		if (hwtimer_cancel(&thing->t)) {
			p->cancelled++;
			WRITE_ONCE(thing->state, IDLE);
		}
		break;
	default:
		/* Not if the callback, which is over, has made it IDLE. */
		if (cmpxchg(&thing->state, LIVE, RELEASING) == LIVE) {
			p->released++;
			p->cancelled += hwtimer_release(&thing->t, thing_released);
		}
		break;
	}
	return 0;
}

/* Some operations. False when it was the last. */
static bool produce(struct producer *p, unsigned int n)
{
	while (n--) {
		u32 r = prandom_u32_state(&p->rnd);
		int ret;

		if (!p->left || READ_ONCE(p->bench->over))
			return false;
		p->left--;
		if (r & 1)
			ret = use_shared(p, &p->bench->shared[(r >> 1) % SHARED_THINGS]);
		else
			ret = use_own(p, &p->own[(r >> 1) % OWN_THINGS]);
		if (ret == -ESHUTDOWN)
			return false;
		if (ret < 0 && ret != -ENOENT)
			fail("error %d", ret);
	}
	return true;
}

static int producer_task(void *data)
{
	struct producer *p = data;

	while (produce(p, 50))
		usleep_range(100, 1000);
	complete(&p->done);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 50);
	return 0;
}

static void producer_softirq(struct timer_list *timer)
{
	struct producer *p = container_of(timer, struct producer, timer);

	if (produce(p, 30))
		mod_timer(timer, jiffies + 1);
	else
		complete(&p->done);
}

static enum hrtimer_restart producer_hardirq(struct hrtimer *timer)
{
	struct producer *p = container_of(timer, struct producer, hrtimer);

	if (!in_hardirq())
		fail("not in hardirq");
	if (!produce(p, 5)) {
		complete(&p->done);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(timer, ns_to_ktime(500 * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static void start_hardirq(void *data)
{
	struct producer *p = data;

	hrtimer_start(&p->hrtimer, ns_to_ktime(NSEC_PER_MSEC), HRTIMER_MODE_REL_PINNED_HARD);
}

static void producer_start(struct producer *p)
{
	switch (p->context) {
	case PROCESS:
		p->task = kthread_create(producer_task, p, "hwtimer_guest/%d", p->cpu);
		if (IS_ERR(p->task)) {
			fail("no thread");
			complete(&p->done);
			return;
		}
		set_cpus_allowed_ptr(p->task, cpumask_of(p->cpu));
		wake_up_process(p->task);
		break;
	case SOFTIRQ:
		p->timer.expires = jiffies + 1;
		add_timer_on(&p->timer, p->cpu);
		break;
	default:
		smp_call_function_single(p->cpu, start_hardirq, p, true);
		break;
	}
}

/* True if it ended by itself. */
static bool producer_end(struct producer *p)
{
	bool ended = wait_for_completion_timeout(&p->done, PATIENCE);

	if (!ended)
		fail("a producer does not end");
	WRITE_ONCE(p->bench->over, true);
	timer_delete_sync(&p->timer);
	hrtimer_cancel(&p->hrtimer);
	if (!IS_ERR_OR_NULL(p->task))
		kthread_stop(p->task);
	return ended;
}

static void producer_init(struct producer *p, struct bench *b, int cpu, enum context context,
			  unsigned int operations, u32 number)
{
	unsigned int i;

	p->bench = b;
	p->cpu = cpu;
	p->context = context;
	p->left = operations;
	prandom_seed_state(&p->rnd, seed + number);
	init_completion(&p->done);
	timer_setup(&p->timer, producer_softirq, TIMER_PINNED);
	hrtimer_setup(&p->hrtimer, producer_hardirq, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
	for (i = 0; i < OWN_THINGS; i++)
		thing_init(&p->own[i], b, IDLE);
}

/* What happens while producers are at work; may stop the wheel. */
typedef void (*meanwhile_t)(struct bench *b, struct list_head *pending);

/* Each arming has ended, once. Nothing goes on any more; @back came back from a stop. */
static void check_books(struct bench *b, const struct producer *producers, unsigned int n,
			unsigned long back, bool stopped)
{
	unsigned long armed = b->armed, expired = b->expired, cancelled = 0, released = 0;
	unsigned int i;

	for (i = 0; i < n; i++) {
		armed += producers[i].armed;
		cancelled += producers[i].cancelled;
		released += producers[i].released;
	}
	pr_info("%s, %s, %s: armed %lu = expired %lu + cancelled %lu + back %lu; let go %lu\n",
		case_name, driver, clock, armed, expired, cancelled, back, released);
	if (armed != expired + cancelled + back)
		fail("the books do not balance");
	if (released != atomic_long_read(&b->released))
		fail("released %lu, told %ld", released, atomic_long_read(&b->released));
	/* A stop may come before anything. */
	if (!stopped && (!expired || !cancelled))
		fail("nothing happened");
	/* All is as its last event left it. */
	for (i = 0; i < n * OWN_THINGS; i++) {
		const struct thing *thing = &producers[i / OWN_THINGS].own[i % OWN_THINGS];

		if (thing->state == RELEASING || hwtimer_is_pending(&thing->t))
			fail("thing %u, state %d", i, thing->state);
	}
}

/* Producers on all CPUs and in all contexts, and in the end the books. */
static void keep_books(unsigned int operations, const struct cpumask *cpus,
		       meanwhile_t meanwhile)
{
	struct bench b = { .busy = ATOMIC_INIT(0) };
	struct producer *producers;
	unsigned long back = 0;
	unsigned int n = 0, i;
	struct list_head *pos;
	LIST_HEAD(second);
	LIST_HEAD(pending);
	int cpu, context;

	b.wheel = make_wheel(64, cpus);
	if (IS_ERR(b.wheel)) {
		fail("no wheel: %ld", PTR_ERR(b.wheel));
		return;
	}
	b.shared = kcalloc(SHARED_THINGS, sizeof(*b.shared), GFP_KERNEL);
	producers = kvcalloc(nr_cpu_ids * CONTEXTS, sizeof(*producers), GFP_KERNEL);
	if (!b.shared || !producers) {
		fail("no memory");
		goto free;
	}
	for (i = 0; i < SHARED_THINGS; i++)
		thing_init(&b.shared[i], &b, SHARED);

	for_each_online_cpu(cpu) {
		for (context = 0; context < CONTEXTS; context++, n++)
			producer_init(&producers[n], &b, cpu, context, operations, n);
	}
	for (i = 0; i < n; i++)
		producer_start(&producers[i]);
	if (meanwhile)
		meanwhile(&b, &pending);
	for (i = 0; i < n; i++)
		producer_end(&producers[i]);

	/* Nobody arms but callbacks. If it has been stopped, nothing comes of this. */
	check(!hwtimer_wheel_stop(b.wheel, &second));
	list_for_each(pos, &second)
		back++;
	if (back && !list_empty(&pending))
		fail("two stops, and both got something");
	list_for_each(pos, &pending)
		back++;
	check(!hwtimer_wheel_pending(b.wheel));

	check_books(&b, producers, n, back, meanwhile);
free:
	hwtimer_wheel_destroy(b.wheel);
	kvfree(producers);
	kfree(b.shared);
}

static void run_books(void)
{
	keep_books(6000, NULL, NULL);
}

static int stop_too(void *data)
{
	struct bench *b = data;
	struct list_head pending;

	/* Ours may be the one that comes first, and then it takes nothing: NULL. */
	check(!hwtimer_wheel_stop(b->wheel, &pending));
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 50);
	/* Whoever got them: give them to who counts. */
	return list_empty(&pending) ? 0 : -EEXIST;
}

static void stop_soon(struct bench *b, struct list_head *pending)
{
	usleep_range(2000, 40000);
	check(!hwtimer_wheel_stop(b->wheel, pending));
}

static void run_stop(void)
{
	int i;

	for (i = 0; i < 15 && !failed; i++) {
		keep_books(UINT_MAX, NULL, stop_soon);
		seed += 1000;
	}
}

/* Two at a time: both return when all is over, and one has the list. */
static void run_stops(void)
{
	struct bench b = { .busy = ATOMIC_INIT(0) };
	struct list_head pending;
	struct task_struct *task;
	struct thing *things;
	unsigned int i, round;
	bool theirs;

	things = kcalloc(1000, sizeof(*things), GFP_KERNEL);
	if (!things) {
		fail("no memory");
		return;
	}
	for (round = 0; round < 10; round++) {
		b.wheel = make_wheel(64, NULL);
		if (IS_ERR(b.wheel)) {
			fail("no wheel");
			break;
		}
		for (i = 0; i < 1000; i++) {
			thing_init(&things[i], &b, LIVE);
			check(!hwtimer_schedule(&things[i].t, (100 + i) * SEC));
		}
		task = kthread_run(stop_too, &b, "hwtimer_guest");
		check(!IS_ERR(task));
		check(!hwtimer_wheel_stop(b.wheel, &pending));
		check(!hwtimer_wheel_pending(b.wheel));
		for (i = 0; i < 1000; i++)
			check(hwtimer_schedule(&things[i].t, 0) == -ESHUTDOWN);
		theirs = !IS_ERR(task) && kthread_stop(task) == -EEXIST;
		check(theirs == list_empty(&pending));
		hwtimer_wheel_destroy(b.wheel);
	}
	kfree(things);
}

/* A timeout that is ended and freed while its callback runs and arms it again. */
struct mortal {
	struct hwtimer_timeout	t;
	atomic_long_t		*freed;
	u32			magic;
	int			running;
	bool			dead;
	unsigned int		again;
};

#define MAGIC	0x600d600d

static void mortal_fired(struct hwtimer_timeout *t)
{
	struct mortal *m = container_of(t, struct mortal, t);

	if (m->magic != MAGIC || READ_ONCE(m->dead)) {
		fail("a callback of what is gone");
		return;
	}
	WRITE_ONCE(m->running, 1);
	if (m->again) {
		m->again--;
		hwtimer_schedule(t, m->again % 2 ? 0 : MS / 2);
	}
	udelay(5);
	WRITE_ONCE(m->running, 0);
}

static void mortal_free(struct hwtimer_timeout *t)
{
	struct mortal *m = container_of(t, struct mortal, t);

	if (m->magic != MAGIC || READ_ONCE(m->running) || hwtimer_is_pending(t))
		fail("told to free what is in use");
	atomic_long_inc(m->freed);
	memset(m, 0x6b, sizeof(*m));
	kfree(m);
}

struct ender {
	struct hwtimer_wheel	*wheel;
	struct task_struct	*task;
	struct completion	done;
	struct rnd_state	rnd;
	atomic_long_t		freed;
	int			cpu;
	bool			barriers;
};

static struct mortal *mortal_new(struct ender *e)
{
	struct mortal *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (!m) {
		fail("no memory");
		return NULL;
	}
	m->magic = MAGIC;
	m->freed = &e->freed;
	m->again = prandom_u32_state(&e->rnd) % 8;
	hwtimer_init(&m->t, e->wheel, mortal_fired);
	check(!hwtimer_schedule(&m->t, prandom_u32_state(&e->rnd) % (3 * MS)));
	return m;
}

static void end_them(struct ender *e)
{
	unsigned int i, released = 0;
	struct mortal *m;

	for (i = 0; i < 600 && !READ_ONCE(failed); i++) {
		u32 r = prandom_u32_state(&e->rnd);

		m = mortal_new(e);
		if (!m)
			return;
		if (r & 16)
			usleep_range(1, (r >> 8) % 3000 + 2);
		switch (r % 4) {
		case 0:
			hwtimer_release(&m->t, mortal_free);
			released++;
			continue;
		case 1:
			check(hwtimer_shutdown_sync(&m->t) >= 0);
			check(hwtimer_schedule(&m->t, 0) == -ESHUTDOWN);
			break;
		case 2:
			hwtimer_cancel(&m->t);
			fallthrough;
		default:
			check(hwtimer_cancel_sync(&m->t) >= 0);
			break;
		}
		if (READ_ONCE(m->running) || hwtimer_is_pending(&m->t))
			fail("it runs or is pending after %s", r % 4 == 1 ? "shutdown" : "cancel");
		WRITE_ONCE(m->dead, true);
		memset(m, 0x6b, sizeof(*m));
		kfree(m);
	}
	hwtimer_wheel_barrier(e->wheel);
	check(atomic_long_read(&e->freed) == released);
}

static void release_there(void *data)
{
	struct mortal **m = data;
	unsigned int i;

	for (i = 0; i < 100 && m[i]; i++)
		hwtimer_release(&m[i]->t, mortal_free);
}

/* Released here, and in hardirq elsewhere; told when the barrier is over. */
static void wait_for_them(struct ender *e)
{
	struct mortal **m = kcalloc(100, sizeof(*m), GFP_KERNEL);
	unsigned int i, round;
	int cpu;

	if (!m) {
		fail("no memory");
		return;
	}
	for (round = 0; round < 40 && !READ_ONCE(failed); round++) {
		for (i = 0; i < 100; i++)
			m[i] = mortal_new(e);
		if (round % 4 == 1)
			usleep_range(500, 3000);
		cpu = cpumask_next(round % 2 ? e->cpu : -1, cpu_online_mask);
		if (cpu >= nr_cpu_ids)
			release_there(m);
		else
			smp_call_function_single(cpu, release_there, m, true);
		hwtimer_wheel_barrier(e->wheel);
		if (atomic_long_read(&e->freed) != (round + 1) * 100)
			fail("%ld of %u are told after the barrier",
			     atomic_long_read(&e->freed), (round + 1) * 100);
	}
	kfree(m);
}

static int ender_task(void *data)
{
	struct ender *e = data;

	if (e->barriers)
		wait_for_them(e);
	else
		end_them(e);
	complete(&e->done);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 50);
	return 0;
}

/* On each CPU two threads that end timeouts. */
static void with_enders(bool barriers)
{
	struct hwtimer_wheel *wheel = make_wheel(64, NULL);
	unsigned int n = 0, i;
	struct ender *e;
	int cpu;

	if (IS_ERR(wheel)) {
		fail("no wheel");
		return;
	}
	e = kcalloc(2 * nr_cpu_ids, sizeof(*e), GFP_KERNEL);
	for_each_online_cpu(cpu) {
		for (i = 0; e && i < 2; i++, n++) {
			e[n].wheel = wheel;
			e[n].cpu = cpu;
			e[n].barriers = barriers;
			prandom_seed_state(&e[n].rnd, seed + n);
			init_completion(&e[n].done);
			e[n].task = kthread_create(ender_task, &e[n], "hwtimer_guest/%d", cpu);
			check(!IS_ERR(e[n].task));
			if (IS_ERR(e[n].task))
				break;
			set_cpus_allowed_ptr(e[n].task, cpumask_of(cpu));
			wake_up_process(e[n].task);
		}
	}
	for (i = 0; i < n; i++) {
		wait_for_completion(&e[i].done);
		kthread_stop(e[i].task);
	}
	check(n);
	check(!hwtimer_wheel_pending(wheel));
	hwtimer_wheel_destroy(wheel);
	kfree(e);
}

static void run_sync(void)
{
	with_enders(false);
}

static void run_barrier(void)
{
	with_enders(true);
}

/* Many at once. */
struct spark {
	struct hwtimer_timeout	t;
	u64			deadline;
	u64			at;
};

static struct spark *sparks;
static unsigned int burst;
static unsigned int fired;

/* An ordinary thread, on a CPU. */
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
		fail("number %zd comes as number %u", s - sparks, fired);
	if (s->at < s->deadline)
		fail("early by %llu ns", s->deadline - s->at);
	if (!fired) {
		for_each_online_cpu(cpu)
			hearts[cpu].before = READ_ONCE(hearts[cpu].beats);
	}
	if (fired == burst - 1) {
		for_each_online_cpu(cpu)
			hearts[cpu].meanwhile += READ_ONCE(hearts[cpu].beats) -
						 hearts[cpu].before;
	}
	/* Pairs with burst_of(), which reads what we wrote. */
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

/* An ordinary thread on each CPU. */
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

/* They got on meanwhile. */
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

/* While some burst went on, each of them. */
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
 * All at one tick: each one fires, in the order in which one CPU has armed them, and
 * on each CPU an ordinary thread gets on meanwhile.
 */
static void burst_of(unsigned int n, unsigned int rounds)
{
	struct hwtimer_wheel *wheel = make_wheel(64, NULL);
	unsigned int i, k;
	u64 deadline;

	if (IS_ERR(wheel)) {
		fail("no wheel");
		return;
	}
	burst = n;
	sparks = vzalloc(array_size(n, sizeof(*sparks)));
	hearts = kcalloc(nr_cpu_ids, sizeof(*hearts), GFP_KERNEL);
	if (!sparks || !hearts) {
		fail("no memory");
		goto free;
	}
	hearts_start();
	/* An emulated CPU may have to wait for a real one as long as a round takes. */
	for (k = 0; k < rounds || (k < MOST_ROUNDS && !all_beat()); k++) {
		WRITE_ONCE(fired, 0);
		deadline = hwtimer_wheel_now(wheel) + 2 * SEC;
		/* From one CPU. */
		migrate_disable();
		for (i = 0; i < n; i++) {
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
		/* Pairs with spark_fired(). */
		if (!eventually(smp_load_acquire(&fired) == n))
			break;
		WRITE_ONCE(beating, false);
		pr_info("burst: fired within %llu us\n",
			div_u64(sparks[n - 1].at - sparks[0].at, NSEC_PER_USEC));
	}
	hearts_stop();
	check(failed || !hwtimer_wheel_pending(wheel));
free:
	hwtimer_wheel_destroy(wheel);
	kfree(hearts);
	vfree(sparks);
}

static void run_burst(void)
{
	burst_of(100000, 1);
}

static void run_million(void)
{
	burst_of(1000000, 1);
}

/* A worker is held off while so many become due, one every so often. */
#define HELD		4000
#define HELD_EVERY	(600 * NSEC_PER_USEC)
#define HOLD		(2 * NSEC_PER_SEC)

/**
 * struct held - a wheel whose worker is held off
 * @wheel: the wheel
 * @holder: has the callback that holds the worker off
 * @from: what becomes due from then on ...
 * @until: ... until then cannot fire before then
 * @armed: all of it was, by then; U64_MAX: not yet
 * @latest: the latest deadline after that which has expired
 * @ordered: a round is longer than all of it takes
 * @fired: how many have
 * @sparks: what becomes due
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
	/* Within a tick there is no order of deadlines, nor of what was armed too late. */
	if (held->ordered && s->deadline > READ_ONCE(held->armed)) {
		if (s->deadline + TICK <= held->latest)
			fail("%llu ns behind a later one", held->latest - s->deadline);
		held->latest = max(held->latest, s->deadline);
	}
	s->at = now;
	/* Pairs with run_held(), which reads what we wrote. */
	smp_store_release(&held->fired, held->fired + 1);
}

/* Nobody else gets the worker's thread, or this CPU's softirqs. */
static void hold_worker(struct hwtimer_timeout *t)
{
	struct held *held = container_of(t, struct held, holder);

	held->from = hwtimer_wheel_now(t->wheel);
	if (!strcmp(driver, "kthread"))
		msleep(HOLD / NSEC_PER_MSEC);
	while (hwtimer_wheel_now(t->wheel) < held->from + HOLD)
		cpu_relax();
	held->until = hwtimer_wheel_now(t->wheel);
}

static atomic_t cpus_missing;

/* All CPUs at a time: no interrupt comes before all have been here for half of HOLD. */
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

/* @n that are held off at once; they begin at the same time. False: it was no test. */
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
			/* In an order of its own: 1237 is prime to HELD. */
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

		/* Pairs with held_fired(). */
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
		pr_info("%s, %s: %u of %u held off for up to %llu ms\n", case_name, driver, late,
			HELD, div_u64(h->until - h->from, MS));
		/* Few of them if it was all too late, as the machine was held off itself. */
		tested &= late > 100;
		check(!hwtimer_wheel_pending(h->wheel));
		check(h->fired == HELD);
	}
	return tested;
}

/* Less than a round, and many rounds, late: all comes, once, and not early. */
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
		held[i].wheel = make_wheel(slots[i], NULL);
		held[i].ordered = !i;
		if (IS_ERR(held[i].wheel)) {
			fail("no wheel");
			break;
		}
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
	told_nothing = true;
}

static void run_held(void)
{
	run_held_off(false);
}

static void run_irqs_off(void)
{
	run_held_off(true);
}

#define VICTIM	1	/* the CPU that goes and comes */
#define GUESTS	60

static bool cpu_switch(bool on)
{
	unsigned long end = jiffies + PATIENCE;
	int ret;

	/* Somebody else may be at it, or in the way. */
	do {
		ret = on ? add_cpu(VICTIM) : remove_cpu(VICTIM);
		if (ret)
			msleep(20);
	} while (ret && time_before(jiffies, end));
	if (ret)
		fail("CPU %d: %d", VICTIM, ret);
	return !ret;
}

/* In hardirq on the CPU that is about to go: on its queue, and not drained yet. */
static void arm_there(void *data)
{
	struct thing *things = data;
	unsigned int i;

	for (i = 0; i < GUESTS; i++) {
		struct thing *thing = &things[i];
		u64 now = hwtimer_wheel_now(thing->bench->wheel);

		thing->floor = now + i * 3 * MS;
		WRITE_ONCE(thing->state, LIVE);
		check(!hwtimer_schedule_at(&thing->t, thing->floor));
		if (i % 3 == 1) {
			check(!hwtimer_touch_at(&thing->t, thing->floor + 100 * MS));
			WRITE_ONCE(thing->floor, thing->floor + 100 * MS);
		}
		if (i % 3 == 2 && hwtimer_cancel(&thing->t))
			WRITE_ONCE(thing->state, IDLE);
	}
}

static bool all_idle(struct thing *things)
{
	unsigned int i;

	for (i = 0; i < GUESTS; i++)
		if (READ_ONCE(things[i].state) != IDLE)
			return false;
	return true;
}

/* What was queued on a CPU that goes then, with the worker pinned to it. */
static void go_and_come(struct bench *b, struct list_head *pending)
{
	struct thing *things = kcalloc(GUESTS, sizeof(*things), GFP_KERNEL);
	struct bench *own = kzalloc(sizeof(*own), GFP_KERNEL);
	unsigned int i, round;

	if (!things || !own) {
		fail("no memory");
		goto free;
	}
	/* A wheel beside the one that the producers use. */
	own->wheel = make_wheel(64, cpumask_of(VICTIM));
	if (IS_ERR(own->wheel)) {
		fail("no wheel");
		goto free;
	}
	for (i = 0; i < GUESTS; i++)
		thing_init(&things[i], own, IDLE);
	for (round = 0; round < 8 && !READ_ONCE(failed); round++) {
		smp_call_function_single(VICTIM, arm_there, things, true);
		if (round % 2)
			usleep_range(5000, 40000);
		if (!cpu_switch(false))
			break;
		eventually(all_idle(things));
		check(!hwtimer_wheel_pending(own->wheel));
		if (!cpu_switch(true))
			break;
	}
	hwtimer_wheel_destroy(own->wheel);
free:
	WRITE_ONCE(b->over, true);
	kfree(things);
	kfree(own);
}

static void run_hotplug(void)
{
	keep_books(UINT_MAX, cpumask_of(VICTIM), go_and_come);
	if (!cpu_online(VICTIM))
		cpu_switch(true);
}

/* With something that wakes the machine when it has slept for long enough. */
static void run_suspend(void)
{
	struct hwtimer_wheel *wheel = make_wheel(64, NULL);
	struct bench b = { .wheel = wheel, .busy = ATOMIC_INIT(0) };
	bool boottime = !strcmp(clock, "boottime"), pending;
	u64 start, mono, boot, sleep = seconds * SEC;
	struct thing things[2];
	int i, ret;

	if (IS_ERR(wheel)) {
		fail("no wheel");
		return;
	}
	start = ktime_get_ns();
	boot = ktime_get_boottime_ns();
	for (i = 0; i < 2; i++) {
		thing_init(&things[i], &b, LIVE);
		things[i].floor = hwtimer_wheel_now(wheel) + (i ? 1000 : 1) * sleep;
		check(!hwtimer_schedule_at(&things[i].t, things[i].floor));
	}
	ret = pm_suspend(PM_SUSPEND_MEM);
	if (ret)
		fail("not suspended: %d", ret);
	pending = hwtimer_is_pending(&things[0].t);
	mono = ktime_get_ns() - start;
	boot = ktime_get_boottime_ns() - boot;
	pr_info("suspend, %s, %s: awake for %llu ms, suspended for %llu ms\n", driver, clock,
		div_u64(mono, MS), div_u64(boot - mono, MS));
	if (boot - mono < sleep || mono >= sleep)
		told_nothing = true;
	else if (!boottime)
		check(pending);
	eventually(READ_ONCE(things[0].state) == IDLE);
	/* Awake for less than the delay when it fired: it has counted the sleep. */
	if (boottime && ktime_get_ns() - start >= sleep)
		told_nothing = true;
	check(hwtimer_is_pending(&things[1].t));
	check(hwtimer_cancel_sync(&things[0].t) == 0);
	check(hwtimer_cancel_sync(&things[1].t) == 1);
	hwtimer_wheel_destroy(wheel);
}

#ifdef CONFIG_FAULT_INJECTION
/* No wheel has so many allocations. */
#define MOST_FAILURES	5000

/* It moves time, and it ends. */
static void try_wheel(struct hwtimer_wheel *wheel)
{
	struct thing *thing = kzalloc(sizeof(*thing), GFP_KERNEL);
	struct bench b = { .wheel = wheel };

	check(thing);
	if (thing) {
		thing_init(thing, &b, LIVE);
		check(!hwtimer_schedule(&thing->t, 0));
		eventually(READ_ONCE(thing->state) == IDLE);
		hwtimer_cancel_sync(&thing->t);
	}
	hwtimer_wheel_destroy(wheel);
	kfree(thing);
}

/*
 * Each allocation fails once while a wheel is made, one with several levels and with lanes
 * for work items: it is -ENOMEM, or it can be done without, as what is in debugfs.
 */
static void run_create(void)
{
	bool hr = !strcmp(driver, "hrtimer");
	struct hwtimer_wheel_params params = {
		.name = KBUILD_MODNAME, .tick_ns = TICK, .slots = 64, .levels = 4,
		.flags = HWTIMER_WHEEL_GROW | HWTIMER_WHEEL_WORK,
		.driver = hr ? HWTIMER_DRIVER_HRTIMER : HWTIMER_DRIVER_KTHREAD,
	};
	unsigned int n = 0, refused = 0, left;
	struct hwtimer_wheel *wheel;

	do {
		current->fail_nth = ++n;
		wheel = hwtimer_wheel_create(&params);
		left = current->fail_nth;
		current->fail_nth = 0;
		if (!IS_ERR(wheel)) {
			try_wheel(wheel);
			continue;
		}
		refused++;
		check(PTR_ERR(wheel) == -ENOMEM && !left);
	} while (!left && n < MOST_FAILURES);
	pr_info("create, %s: %u failures, %u of them told\n", driver, n - 1, refused);
	/* The wheel, its counters, four levels, two workqueues. */
	check(left && refused >= 8);
}
#endif

static const struct {
	const char	*name;
	void		(*run)(void);
	unsigned int	cpus;
} cases[] = {
	{ "books", run_books },
	{ "stop", run_stop },
	{ "stops", run_stops },
	{ "sync", run_sync },
	{ "barrier", run_barrier },
	{ "burst", run_burst },
	{ "million", run_million },
	{ "held", run_held },
	{ "irqs_off", run_irqs_off },
	{ "hotplug", run_hotplug, VICTIM + 1 },
	{ "suspend", run_suspend },
#ifdef CONFIG_FAULT_INJECTION
	{ "create", run_create },
#endif
};

static int __init hwtimer_guest_init(void)
{
	unsigned int i;

	if (!seed)
		seed = get_random_u32() % 1000000;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		if (strcmp(cases[i].name, case_name))
			continue;
		if (num_online_cpus() < cases[i].cpus)
			return -EOPNOTSUPP;
		pr_info("case=%s driver=%s clock=%s seed=%u\n", case_name, driver, clock, seed);
		cases[i].run();
		if (told_nothing)
			pr_info("%s, %s, %s: too slow to tell\n", case_name, driver, clock);
		return failed ? -EBADE : told_nothing ? -EAGAIN : 0;
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
MODULE_DESCRIPTION("Tests of hwtimer on a real machine");
