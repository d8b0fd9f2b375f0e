// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites of the wheel, on a clock of their own. Nothing sleeps
 * here (but for the grace periods of a stop), so all expectations are exact.
 *
 * hwtimer_wheel_random compares with a naive model. To repeat a run, load the
 * module with the seed that was printed.
 */
#include <kunit/test.h>
#include <linux/bitops.h>
#include <linux/completion.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "../hwtimer_compat.h"
#include "../hwtimer_wheel.h"
#include "hwtimer_kunit.h"

static ulong seed;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "of the randomised suites; 0: another one each time (default 0)");

u64 hwtimer_kunit_seed(void)
{
	u64 used = seed ?: get_random_u32();

	pr_info("hwtimer_kunit: seed=%llu\n", used);
	return used;
}

/* The one in use. */
static u64 chaos_seed;

#define HOUR		(3600ULL * NSEC_PER_SEC)

/* What a case gets to begin with. */
#define TICK		1000
#define SLOTS		16

/* A wheel, and a case in the place of its driver. */
struct rig {
	struct kunit		*test;
	struct hwtimer_wheel	wheel;
	bool			made;
	bool			stopped;
	u64			now;
	unsigned int		fired;
	unsigned int		kicks;
	unsigned int		allocs;
	bool			no_memory;
	/* a kick has the worker answer at once, without a budget */
	bool			answers;
	unsigned int		budget;	/* of the step that begins an answer */
	/* called when it has answered in part */
	void			(*meanwhile)(struct rig *rig);
	/* if not 0: of so many tries one finds memory */
	unsigned int		one_in;
	void			*bulk;
};

/* What wheels are made of; set for each suite. */
static unsigned int levels = 1;
static bool grows;

static int one_level(struct kunit_suite *suite)
{
	levels = 1;
	grows = false;
	return 0;
}

static int four_levels(struct kunit_suite *suite)
{
	levels = 4;
	grows = false;
	return 0;
}

static int growing(struct kunit_suite *suite)
{
	levels = 1;
	grows = true;
	return 0;
}

/* A suite of the same cases for each of these; KUnit writes into the cases. */
#define SUITE(suite, with, title, ...)					\
	static struct kunit_case suite##_cases[] = { __VA_ARGS__, {} };	\
	static struct kunit_suite suite##_suite = {			\
		.name		= "hwtimer_wheel_" title,		\
		.suite_init	= with,					\
		.init		= rig_init,				\
		.exit		= rig_exit,				\
		.test_cases	= suite##_cases,			\
	}
#define SUITES(suite, ...)						\
	SUITE(suite, one_level, #suite, __VA_ARGS__);			\
	SUITE(suite##_4, four_levels, #suite "_4", __VA_ARGS__);	\
	SUITE(suite##_grow, growing, #suite "_grow", __VA_ARGS__)

static int rig_init(struct kunit *test);
static void rig_exit(struct kunit *test);

/* A timeout that takes notes. */
struct probe {
	struct hwtimer_timeout	t;
	struct rig		*rig;
	unsigned int		fired;
	unsigned int		released;
	/* of the last time that it fired: the tick, and its rank among all */
	u64			tick;
	unsigned int		rank;
	/* what the callback does, and with what */
	void			(*then)(struct probe *p);
	struct probe		*other;
	u64			deadline;
	int			ret;
};

static void rig_kick(struct hwtimer_wheel *w)
{
	struct rig *rig = container_of(w, struct rig, wheel);
	unsigned int i;

	rig->kicks++;
	if (!rig->answers)
		return;
	for (i = 0; w->survey && i < 1000; i++)
		wheel_advance(w, rig->now, rig->budget);
	KUNIT_EXPECT_PTR_EQ(rig->test, NULL, w->survey);
	while (w->surveyed) {
		if (rig->meanwhile)
			rig->meanwhile(rig);
		wheel_advance(w, rig->now, 0);
	}
}

static void rig_expire(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		       hwtimer_fn_t fn, u64 deadline)
{
	struct rig *rig = container_of(w, struct rig, wheel);
	u64 end = w->now_tick * w->tick_ns;

	if (deadline > end || end > rig->now)
		KUNIT_FAIL(rig->test, "early: deadline %llu, tick ends at %llu, now %llu",
			   deadline, end, rig->now);
	fn(t);
}

static void *rig_alloc(struct hwtimer_wheel *w, size_t size)
{
	struct rig *rig = container_of(w, struct rig, wheel);
	void *memory;

	rig->allocs++;
	if (rig->no_memory || (rig->one_in && rig->allocs % rig->one_in))
		return NULL;
	memory = kvmalloc(size, GFP_KERNEL);
	return memory ? memset(memory, 0xa5, size) : NULL;
}

static const struct wheel_ops rig_ops = {
	.kick	= rig_kick,
	.expire	= rig_expire,
	.alloc	= rig_alloc,
};

static void rig_shape(struct rig *rig, const struct wheel_shape *shape)
{
	KUNIT_ASSERT_EQ(rig->test, 0, wheel_init(&rig->wheel, shape, &rig_ops, GFP_KERNEL));
	rig->made = true;
	rig->stopped = false;
	rig->now = 0;
	rig->fired = 0;
	rig->kicks = 0;
	rig->allocs = 0;
	rig->no_memory = false;
	rig->answers = false;
	rig->budget = 0;
	rig->meanwhile = NULL;
	rig->one_in = 0;
}

/* In the levels that the suite is about, as far as there can be so many. */
static void rig_make(struct rig *rig, u64 tick_ns, unsigned int slots,
		     unsigned long cap)
{
	struct wheel_shape shape = {
		.tick_ns = tick_ns, .slots = slots, .cap = cap,
		.levels = slots > 1 ? levels : 1, .grow = slots > 1 && grows,
	};
	u64 width = tick_ns;
	unsigned int n;

	for (n = 1; n < shape.levels; n++) {
		width *= roundup_pow_of_two(slots);
		if (width > div64_u64(WHEEL_FOREVER, roundup_pow_of_two(slots)))
			shape.levels = n;
	}
	rig_shape(rig, &shape);
}

/* Returns how many timeouts came back. */
static unsigned int rig_stop(struct rig *rig, struct list_head *pending)
{
	struct list_head *pos;
	unsigned int n = 0;

	INIT_LIST_HEAD(pending);
	KUNIT_EXPECT_TRUE(rig->test, wheel_shutdown(&rig->wheel));
	wheel_sweep(&rig->wheel, pending);
	rig->stopped = true;
	list_for_each(pos, pending)
		n++;
	return n;
}

/* Whatever a case did: in the end the wheel holds nothing. */
static void rig_end(struct rig *rig)
{
	struct wheel_counts c;
	struct list_head pending;

	if (!rig->made)
		return;
	rig->made = false;
	if (!rig->stopped)
		rig_stop(rig, &pending);
	wheel_count(&rig->wheel, &c);
	KUNIT_EXPECT_EQ(rig->test, 0UL, c.pending);
	KUNIT_EXPECT_EQ(rig->test, 0UL, rig->wheel.filed);
	KUNIT_EXPECT_EQ(rig->test, 0L, atomic_long_read(&rig->wheel.places));
	wheel_free(&rig->wheel);
	kvfree(rig->bulk);
	rig->bulk = NULL;
}

static void rig_remake(struct rig *rig, u64 tick_ns, unsigned int slots,
		       unsigned long cap)
{
	rig_end(rig);
	rig_make(rig, tick_ns, slots, cap);
}

static int rig_init(struct kunit *test)
{
	struct rig *rig = kunit_kzalloc(test, sizeof(*rig), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rig);
	test->priv = rig;
	rig->test = test;
	rig_make(rig, TICK, SLOTS, 0);
	return 0;
}

static void rig_exit(struct kunit *test)
{
	struct rig *rig = test->priv;

	if (rig)
		rig_end(rig);
}

static struct wheel_counts counts(struct rig *rig)
{
	struct wheel_counts c;

	wheel_count(&rig->wheel, &c);
	return c;
}

static void advance_to(struct rig *rig, u64 now)
{
	rig->now = now;
	while (wheel_advance(&rig->wheel, now, WHEEL_BUDGET))
		;
}

/* Later rounds share the buckets of the one level there is. */
static bool has_rounds(const struct rig *rig)
{
	return rig->wheel.max_levels == 1;
}

static void to_tick(struct rig *rig, u64 tick)
{
	advance_to(rig, tick * rig->wheel.tick_ns);
}

static void step_to_tick(struct rig *rig, u64 tick)
{
	u64 i;

	for (i = div64_u64(rig->now, rig->wheel.tick_ns) + 1; i <= tick; i++)
		to_tick(rig, i);
}

static u64 sleep_until(struct rig *rig)
{
	return wheel_prepare_sleep(&rig->wheel, rig->now);
}

/*
 * As the kthread does it, until @p has fired or @limit is reached. Returns how
 * often the worker woke.
 */
static unsigned int drive(struct rig *rig, struct probe *p, u64 limit)
{
	unsigned int wakes = 0, before = p ? p->fired : 0;
	u64 until;

	for (;;) {
		advance_to(rig, rig->now);
		if (p && p->fired != before)
			return wakes;
		until = sleep_until(rig);
		if (!until)
			continue;
		if (until > limit) {
			rig->now = limit;
			wheel_awake(&rig->wheel);
			return wakes;
		}
		wheel_awake(&rig->wheel);
		rig->now = until;
		wakes++;
	}
}

static void probe_fired(struct hwtimer_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);

	p->fired++;
	p->rank = ++p->rig->fired;
	p->tick = p->rig->wheel.now_tick;
	if (p->then)
		p->then(p);
}

static void no_fn(struct hwtimer_timeout *t)
{
}

static void probe_released(struct hwtimer_timeout *t)
{
	container_of(t, struct probe, t)->released++;
}

static void probe_setup(struct rig *rig, struct probe *p)
{
	memset(p, 0, sizeof(*p));
	p->rig = rig;
	wheel_timeout_init(&p->t, &rig->wheel, probe_fired);
}

/* They live as long as the wheel. */
static struct probe *probes(struct rig *rig, unsigned int n)
{
	struct probe *p = kvcalloc(n, sizeof(*p), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NULL(rig->test, rig->bulk);
	KUNIT_ASSERT_NOT_NULL(rig->test, p);
	rig->bulk = p;
	for (i = 0; i < n; i++)
		probe_setup(rig, &p[i]);
	return p;
}

/* Requests so far. */
static unsigned long pushed(const struct rig *rig)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += local_read(&per_cpu_ptr(rig->wheel.queues, cpu)->pushed);
	return sum;
}

static int arm(struct probe *p, u64 deadline)
{
	return wheel_arm(&p->t, deadline);
}

static int arm_tick(struct probe *p, u64 tick)
{
	return wheel_arm(&p->t, tick * p->rig->wheel.tick_ns);
}

static int touch_tick(struct probe *p, u64 tick)
{
	return wheel_touch(&p->t, tick * p->rig->wheel.tick_ns);
}

/* Fired @n times until now, the last time at tick @at. */
static void expect_fired(struct probe *p, unsigned int n, u64 at)
{
	KUNIT_EXPECT_EQ(p->rig->test, n, p->fired);
	KUNIT_EXPECT_EQ(p->rig->test, at, p->tick);
}

/* Nobody has fired but @n probes, and their order is the one of the array. */
static void expect_in_order(struct rig *rig, struct probe *p, unsigned int n)
{
	unsigned int i;

	KUNIT_EXPECT_EQ(rig->test, n, rig->fired);
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ_MSG(rig->test, i + 1, p[i].rank, "probe %u", i);
}

/*
 * Suite hwtimer_wheel_time: never early, by less than a tick late, whatever the
 * tick, the number of rounds and the age of the wheel.
 */

static const struct {
	u64		tick;
	unsigned int	slots;
} shapes[] = {
	{ 1, 8 }, { 3, 1 }, { 1000, 16 }, { 999983, 5 }, { NSEC_PER_MSEC, 512 },
	{ 7 * NSEC_PER_MSEC, 1 }, { HOUR, 4 },
};

/* Deadlines k ticks ahead, less or more a ns; the wheel gets older and older. */
static void expect_boundaries(struct rig *rig, u64 k, bool steps)
{
	struct probe *p = probes(rig, 1);
	u64 tick_ns = rig->wheel.tick_ns, begin, due;
	int off;

	for (off = -1; off <= 1; off++) {
		begin = div64_u64(rig->now, tick_ns);
		due = begin + k;
		if (off > 0)
			due++;
		if (off < 0 && tick_ns == 1 && k > 1)
			due--;
		KUNIT_ASSERT_EQ(rig->test, 0, arm(p, (begin + k) * tick_ns + off));
		p->fired = 0;
		if (steps)
			step_to_tick(rig, due - 1);
		advance_to(rig, due * tick_ns - 1);
		KUNIT_EXPECT_EQ_MSG(rig->test, 0, p->fired, "tick %llu, %llu%+d",
				    tick_ns, k, off);
		KUNIT_EXPECT_TRUE(rig->test, wheel_pending(&p->t));
		advance_to(rig, due * tick_ns);
		KUNIT_EXPECT_EQ_MSG(rig->test, 1, p->fired, "tick %llu, %llu%+d",
				    tick_ns, k, off);
		KUNIT_EXPECT_EQ(rig->test, due, p->tick);
		KUNIT_EXPECT_FALSE(rig->test, wheel_pending(&p->t));
	}
	kvfree(rig->bulk);
	rig->bulk = NULL;
}

/* Promise 1. */
static void boundaries(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int i, j, steps;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		u64 slots = shapes[i].slots;
		u64 k[] = { 1, 2, 3, slots - 1, slots, slots + 1, 2 * slots,
			    3 * slots + 1, 100 * slots - 1, 100 * slots,
			    100 * slots + 1 };

		rig_remake(rig, shapes[i].tick, slots, 0);
		for (j = 0; j < ARRAY_SIZE(k); j++)
			for (steps = 0; steps <= 1; steps++)
				if (k[j])
					expect_boundaries(rig, k[j], steps);
	}
}

/* Promise 1. */
static void past(struct kunit *test)
{
	static const u64 deadlines[] = { 10 * TICK, 0, 1, 9 * TICK, 10 * TICK - 1 };
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, ARRAY_SIZE(deadlines));
	unsigned int i;

	to_tick(rig, 10);
	for (i = 0; i < ARRAY_SIZE(deadlines); i++)
		KUNIT_EXPECT_EQ(test, 0, arm(&p[i], deadlines[i]));
	to_tick(rig, 10);
	advance_to(rig, 11 * TICK - 1);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	to_tick(rig, 11);
	expect_in_order(rig, p, ARRAY_SIZE(deadlines));
	for (i = 0; i < ARRAY_SIZE(deadlines); i++)
		expect_fired(&p[i], 1, 11);
}

/* A delay of nothing, at the wheel's birth and within a tick. */
static void at_once(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm(&p[0], 0);
	advance_to(rig, 0);
	advance_to(rig, TICK - 1);
	expect_fired(&p[0], 0, 0);
	to_tick(rig, 1);
	expect_fired(&p[0], 1, 1);

	advance_to(rig, 5 * TICK + 1);
	arm(&p[1], rig->now);
	advance_to(rig, 6 * TICK - 1);
	expect_fired(&p[1], 0, 0);
	advance_to(rig, 6 * TICK);
	expect_fired(&p[1], 1, 6);
}

/* Promise 1. */
static void forever(struct kunit *test)
{
	static const u64 deadlines[] = { WHEEL_FOREVER, WHEEL_FOREVER + 1, 1ULL << 63,
					 U64_MAX };
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		u64 nows[] = { 0, WHEEL_FOREVER >> 1, WHEEL_FOREVER - 2 * shapes[i].tick,
			       WHEEL_FOREVER - 2, WHEEL_FOREVER - 1, WHEEL_FOREVER,
			       WHEEL_FOREVER + 1, U64_MAX };

		rig_remake(rig, shapes[i].tick, shapes[i].slots, 0);
		p = probes(rig, ARRAY_SIZE(deadlines));
		for (j = 0; j < ARRAY_SIZE(deadlines); j++)
			KUNIT_EXPECT_EQ(test, 0, arm(&p[j], deadlines[j]));
		for (j = 0; j < ARRAY_SIZE(nows); j++)
			advance_to(rig, nows[j]);
		KUNIT_EXPECT_EQ(test, 0, rig->fired);
		/* They do not keep the worker awake, however old the wheel is. */
		rig->now = WHEEL_FOREVER + 10 * shapes[i].tick;
		for (j = 0; j < 3; j++) {
			KUNIT_EXPECT_GT(test, sleep_until(rig), rig->now);
			wheel_awake(&rig->wheel);
		}
		for (j = 0; j < ARRAY_SIZE(deadlines); j++) {
			KUNIT_EXPECT_EQ(test, WHEEL_FOREVER, wheel_deadline(&p[j].t));
			KUNIT_EXPECT_TRUE(test, wheel_cancel(&p[j].t));
		}
	}
}

/* From forever back to the present, and the other way round. */
static void forever_touched(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm(&p[0], U64_MAX);
	arm_tick(&p[1], 5);
	to_tick(rig, 2);
	KUNIT_EXPECT_EQ(test, 0, touch_tick(&p[0], 5));
	KUNIT_EXPECT_EQ(test, 0, wheel_touch(&p[1].t, U64_MAX));
	KUNIT_EXPECT_EQ(test, WHEEL_FOREVER, wheel_deadline(&p[1].t));
	step_to_tick(rig, 1000);
	expect_fired(&p[0], 1, 5);
	expect_fired(&p[1], 0, 0);
	KUNIT_EXPECT_TRUE(test, wheel_pending(&p[1].t));
}

/* The last ticks that there are. */
static void old_age(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i, j;
	u64 last, until;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		rig_remake(rig, shapes[i].tick, shapes[i].slots, 0);
		p = probes(rig, 22);
		last = div64_u64(WHEEL_FOREVER - 1, shapes[i].tick);
		to_tick(rig, last - 20);
		/* the last one is past the end */
		for (j = 0; j <= 21; j++)
			arm_tick(&p[j], last - 20 + j);
		for (j = 1; j <= 20; j++) {
			to_tick(rig, last - 20 + j);
			KUNIT_EXPECT_EQ(test, j + 1, rig->fired);
			expect_fired(&p[j], 1, last - 20 + j);
			until = sleep_until(rig);
			KUNIT_EXPECT_GT(test, until, rig->now);
			wheel_awake(&rig->wheel);
		}
		expect_fired(&p[0], 1, last - 19);
		KUNIT_EXPECT_TRUE(test, wheel_pending(&p[21].t));
		advance_to(rig, U64_MAX);
		expect_fired(&p[21], 0, 0);
	}
}

/* Never is later than the last tick of all, at which the wheel may look at what is due. */
static void end_touched(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	/* Of 3 ns, a tick ends at the end of time. */
	KUNIT_ASSERT_EQ(test, 0ULL, WHEEL_FOREVER % 3);
	rig_remake(rig, 3, SLOTS, 0);
	p = probes(rig, 1);
	advance_to(rig, WHEEL_FOREVER - 100);
	KUNIT_EXPECT_EQ(test, 0, arm(&p[0], WHEEL_FOREVER - 1));
	advance_to(rig, WHEEL_FOREVER - 90);
	KUNIT_EXPECT_EQ(test, 0, wheel_touch(&p[0].t, WHEEL_FOREVER));
	advance_to(rig, WHEEL_FOREVER);
	advance_to(rig, U64_MAX);
	expect_fired(&p[0], 0, 0);
	KUNIT_EXPECT_TRUE(test, wheel_pending(&p[0].t));
}

static void rounds(struct kunit *test)
{
	static const unsigned int turns[] = { 1, 2, 3, 100 };
	struct rig *rig = test->priv;
	unsigned int slots, i, j;
	struct probe *p;

	for (slots = 1; slots <= 16; slots *= 4) {
		rig_remake(rig, TICK, slots, 0);
		p = probes(rig, 3 * ARRAY_SIZE(turns));
		to_tick(rig, 3);
		for (i = 0; i < ARRAY_SIZE(turns); i++)
			for (j = 0; j < 3; j++)
				arm_tick(&p[3 * i + j], 3 + turns[i] * slots + j);
		step_to_tick(rig, 2000);
		for (i = 0; i < ARRAY_SIZE(turns); i++)
			for (j = 0; j < 3; j++)
				expect_fired(&p[3 * i + j], 1, 3 + turns[i] * slots + j);
	}
}

/* Several rounds in one bucket: at each tick the right ones, the others stay. */
static void crowded_bucket(struct kunit *test)
{
	static const u64 ticks[] = { 402, 6, 14, 2, 10, 6, 402, 22 };
	struct rig *rig = test->priv;
	struct wheel_counts c;
	unsigned int i, due;
	struct probe *p;
	u64 tick;

	rig_remake(rig, TICK, 4, 0);
	p = probes(rig, ARRAY_SIZE(ticks));
	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		arm_tick(&p[i], ticks[i]);
	for (tick = 1; tick <= 410; tick++) {
		to_tick(rig, tick);
		for (due = 0, i = 0; i < ARRAY_SIZE(ticks); i++)
			due += ticks[i] <= tick;
		KUNIT_EXPECT_EQ(test, due, rig->fired);
	}
	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		expect_fired(&p[i], 1, ticks[i]);
	/* Each visit was for something that was due. */
	c = counts(rig);
	KUNIT_EXPECT_EQ(test, 6UL, c.ticks);
	if (has_rounds(rig))
		KUNIT_EXPECT_EQ(test, 8UL + 7 + 5 + 4 + 3 + 2, c.visits);
	else
		KUNIT_EXPECT_LE(test, c.visits, 8UL * rig->wheel.levels);
	KUNIT_EXPECT_EQ(test, 0UL, c.refiled);
}

static void clock_backwards(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);

	to_tick(rig, 10);
	wheel_advance(&rig->wheel, 5 * TICK, WHEEL_BUDGET);
	arm_tick(p, 7);
	wheel_advance(&rig->wheel, 7 * TICK, WHEEL_BUDGET);
	to_tick(rig, 10);
	expect_fired(p, 0, 0);
	to_tick(rig, 11);
	expect_fired(p, 1, 11);
}

SUITES(time,
	KUNIT_CASE(boundaries),
	KUNIT_CASE(past),
	KUNIT_CASE(at_once),
	KUNIT_CASE(forever),
	KUNIT_CASE(forever_touched),
	KUNIT_CASE(end_touched),
	KUNIT_CASE(old_age),
	KUNIT_CASE(rounds),
	KUNIT_CASE(crowded_bucket),
	KUNIT_CASE(clock_backwards));

/* Suite hwtimer_wheel_arm: each arming ends once, and who ended it is told. */

static void arm_returns(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);

	KUNIT_EXPECT_FALSE(test, wheel_pending(&p->t));
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p->t));
	KUNIT_EXPECT_EQ(test, 0, arm(p, 4242));
	KUNIT_EXPECT_TRUE(test, wheel_pending(&p->t));
	KUNIT_EXPECT_TRUE(test, wheel_holds(&p->t));
	KUNIT_EXPECT_EQ(test, 4242ULL, wheel_deadline(&p->t));
	KUNIT_EXPECT_EQ(test, 1, arm(p, 4243));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 1, arm(p, 4000));
	KUNIT_EXPECT_EQ(test, 4000ULL, wheel_deadline(&p->t));
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).armed);
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).touched);
	to_tick(rig, 4);
	expect_fired(p, 1, 4);
	KUNIT_EXPECT_FALSE(test, wheel_pending(&p->t));
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p->t));
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).expired);
	/* once is once */
	step_to_tick(rig, 100);
	expect_fired(p, 1, 4);
	KUNIT_EXPECT_EQ(test, 0, arm_tick(p, 101));
	to_tick(rig, 101);
	expect_fired(p, 2, 101);
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).armed);
}

/* Promise 4. */
static void cancel_tells(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);

	KUNIT_EXPECT_FALSE(test, wheel_cancel(&p[0].t));
	arm_tick(&p[0], 3);
	arm_tick(&p[1], 3);
	arm_tick(&p[2], 3);
	/* before it is filed */
	KUNIT_EXPECT_TRUE(test, wheel_cancel(&p[0].t));
	KUNIT_EXPECT_FALSE(test, wheel_pending(&p[0].t));
	KUNIT_EXPECT_FALSE(test, wheel_cancel(&p[0].t));
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).pending);
	to_tick(rig, 2);
	/* it never touched a bucket */
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[0].t));
	KUNIT_EXPECT_EQ(test, 2UL, rig->wheel.filed);
	/* after */
	KUNIT_EXPECT_TRUE(test, wheel_cancel(&p[1].t));
	KUNIT_EXPECT_FALSE(test, wheel_cancel(&p[1].t));
	KUNIT_EXPECT_TRUE(test, wheel_holds(&p[1].t));
	to_tick(rig, 3);
	expect_fired(&p[0], 0, 0);
	expect_fired(&p[1], 0, 0);
	expect_fired(&p[2], 1, 3);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[1].t));
	/* after it has fired */
	KUNIT_EXPECT_FALSE(test, wheel_cancel(&p[2].t));
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).cancelled);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).expired);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(test, 0UL, rig->wheel.filed);
}

/* Cancelled, and armed again for an earlier, the same, a later tick. */
static void cancel_rearm(struct kunit *test)
{
	static const u64 again[] = { 1, 3, 4, 5, 6, 7, 8, SLOTS + 3, SLOTS + 5,
				     2 * SLOTS + 5, 3 * SLOTS + 4 };
	struct rig *rig = test->priv;
	unsigned int i, filed, twice;
	struct probe *p;

	for (i = 0; i < ARRAY_SIZE(again); i++) {
		for (filed = 0; filed <= 1; filed++) {
			for (twice = 0; twice <= 1; twice++) {
				rig_remake(rig, TICK, SLOTS, 0);
				p = probes(rig, 1);
				arm_tick(p, 5);
				if (filed)
					to_tick(rig, 2);
				KUNIT_EXPECT_TRUE(test, wheel_cancel(&p->t));
				if (twice) {
					KUNIT_EXPECT_EQ(test, 0, arm_tick(p, 12));
					KUNIT_EXPECT_TRUE(test, wheel_cancel(&p->t));
				}
				KUNIT_EXPECT_EQ(test, 0, arm_tick(p, again[i]));
				step_to_tick(rig, 100);
				expect_fired(p, 1, filed ? max(again[i], 3ULL) : again[i]);
				KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
			}
		}
	}
}

/* As above, but the worker passes by between the two. */
static void cancel_pass_rearm(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);

	arm_tick(p, 5);
	to_tick(rig, 1);
	wheel_cancel(&p->t);
	to_tick(rig, 7);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p->t));
	KUNIT_EXPECT_EQ(test, 0, arm_tick(p, 9));
	to_tick(rig, 8);
	expect_fired(p, 0, 0);
	to_tick(rig, 9);
	expect_fired(p, 1, 9);
}

static void touch(struct kunit *test)
{
	static const u64 to[] = { 0, 1, 3, 4, 5, 6, 7, SLOTS, SLOTS + 4, SLOTS + 5,
				  SLOTS + 6, 2 * SLOTS + 5, 5 * SLOTS + 2, 10 * SLOTS + 5 };
	struct rig *rig = test->priv;
	unsigned int i, filed, again;
	struct probe *p;
	u64 due;

	for (i = 0; i < ARRAY_SIZE(to); i++) {
		for (filed = 0; filed <= 1; filed++) {
			/* touched directly, or by way of tick 30, or of tick 2 */
			for (again = 0; again <= 2; again++) {
				rig_remake(rig, TICK, SLOTS, 0);
				p = probes(rig, 1);
				arm_tick(p, 5);
				if (filed)
					to_tick(rig, 3);
				if (again)
					KUNIT_EXPECT_EQ(test, 0,
							touch_tick(p, again == 1 ? 30 : 2));
				KUNIT_EXPECT_EQ(test, 0, touch_tick(p, to[i]));
				KUNIT_EXPECT_TRUE(test, wheel_pending(&p->t));
				KUNIT_EXPECT_EQ(test, to[i] * TICK, wheel_deadline(&p->t));
				KUNIT_EXPECT_EQ(test, 1UL, counts(rig).pending);
				due = max(to[i], filed ? 4ULL : 1ULL);
				step_to_tick(rig, due - 1);
				advance_to(rig, due * TICK - 1);
				expect_fired(p, 0, 0);
				step_to_tick(rig, 12 * SLOTS);
				expect_fired(p, 1, due);
			}
		}
	}
}

/* Within a tick nothing changes, to the ns before and behind a boundary it does. */
static void touch_boundary(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);
	unsigned int i;

	for (i = 0; i < 4; i++)
		arm(&p[i], 5 * TICK - 10);
	to_tick(rig, 1);
	wheel_touch(&p[0].t, 5 * TICK);
	wheel_touch(&p[1].t, 5 * TICK + 1);
	wheel_touch(&p[2].t, 4 * TICK + 1);
	wheel_touch(&p[3].t, 4 * TICK);
	step_to_tick(rig, 20);
	expect_fired(&p[0], 1, 5);
	expect_fired(&p[1], 1, 6);
	expect_fired(&p[2], 1, 5);
	expect_fired(&p[3], 1, 4);
}

/* Pushed back over and over, as a busy connection does. */
static void touch_on_and_on(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	u64 tick;

	arm_tick(p, 10);
	for (tick = 1; tick <= 500; tick++) {
		to_tick(rig, tick);
		KUNIT_EXPECT_EQ(test, 0, touch_tick(p, tick + 10));
	}
	expect_fired(p, 0, 0);
	step_to_tick(rig, 600);
	expect_fired(p, 1, 510);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).drained);
	KUNIT_EXPECT_EQ(test, 500UL, counts(rig).touched);
	/* at its tick 10, and then at each one that it had when passed there */
	KUNIT_EXPECT_LE(test, counts(rig).refiled, 56UL);
}

static void touch_not_pending(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);

	KUNIT_EXPECT_EQ(test, -ENOENT, touch_tick(p, 3));
	arm_tick(p, 3);
	wheel_cancel(&p->t);
	KUNIT_EXPECT_EQ(test, -ENOENT, touch_tick(p, 4));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, -ENOENT, touch_tick(p, 4));
	arm_tick(p, 3);
	to_tick(rig, 2);
	wheel_cancel(&p->t);
	KUNIT_EXPECT_EQ(test, -ENOENT, touch_tick(p, 4));
	arm_tick(p, 3);
	to_tick(rig, 3);
	expect_fired(p, 1, 3);
	KUNIT_EXPECT_EQ(test, -ENOENT, touch_tick(p, 4));
	step_to_tick(rig, 30);
	expect_fired(p, 1, 3);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).touched);
	KUNIT_EXPECT_EQ(test, 3UL, counts(rig).armed);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	wheel_kill(&p->t);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, touch_tick(p, 40));
}

/* What costs a request, and what does not. */
static void requests(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);
	unsigned int i;

	/* arm, cancel, arm, touch within a tick: one */
	arm_tick(&p[0], 5);
	for (i = 0; i < 10; i++) {
		wheel_cancel(&p[0].t);
		arm_tick(&p[0], 5);
	}
	touch_tick(&p[0], 4);
	touch_tick(&p[0], 6);
	KUNIT_EXPECT_EQ(test, 11UL, counts(rig).coalesced);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).drained);

	/* later, later, later: none, and filed anew once */
	for (i = 7; i < 12; i++)
		touch_tick(&p[0], i);
	/* cancelled and armed for the same or later: none */
	wheel_cancel(&p[0].t);
	arm_tick(&p[0], 11);
	wheel_cancel(&p[0].t);
	arm_tick(&p[0], 12);
	to_tick(rig, 6);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).drained);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).refiled);

	/* earlier, twice: one */
	touch_tick(&p[0], 11);
	touch_tick(&p[0], 10);
	KUNIT_EXPECT_EQ(test, 12UL, counts(rig).coalesced);
	to_tick(rig, 7);
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).drained);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).refiled);

	/* to a later round of its own bucket: stays where it is, with one level */
	touch_tick(&p[0], 10 + SLOTS);
	step_to_tick(rig, 9 + SLOTS);
	KUNIT_EXPECT_EQ(test, rig->wheel.levels == 1 ? 1UL : 2UL, counts(rig).refiled);
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).drained);
	expect_fired(&p[0], 0, 0);
	to_tick(rig, 10 + SLOTS);
	expect_fired(&p[0], 1, 10 + SLOTS);

	/* armed and cancelled: one, which finds nothing to do */
	arm_tick(&p[1], 40);
	wheel_cancel(&p[1].t);
	to_tick(rig, 30);
	KUNIT_EXPECT_EQ(test, 3UL, counts(rig).drained);
	KUNIT_EXPECT_EQ(test, 0UL, rig->wheel.filed);
}

static void detach(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);

	/* nothing to let go of */
	wheel_detach(&p[0].t);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[0].t));
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);

	arm_tick(&p[0], 50);
	arm_tick(&p[1], 50);
	to_tick(rig, 1);
	arm_tick(&p[2], 50);
	wheel_cancel(&p[0].t);
	wheel_cancel(&p[2].t);
	wheel_detach(&p[0].t);
	wheel_detach(&p[0].t);
	wheel_detach(&p[2].t);
	KUNIT_EXPECT_TRUE(test, wheel_holds(&p[0].t));
	KUNIT_EXPECT_TRUE(test, wheel_holds(&p[2].t));
	KUNIT_EXPECT_EQ(test, 2UL, rig->wheel.filed);
	/* no tick need pass */
	to_tick(rig, 1);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[0].t));
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[2].t));
	KUNIT_EXPECT_EQ(test, 1UL, rig->wheel.filed);
	KUNIT_EXPECT_EQ(test, 4UL, counts(rig).drained);

	/* armed again before the worker comes by: it stays */
	wheel_cancel(&p[1].t);
	wheel_detach(&p[1].t);
	KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[1], 60));
	to_tick(rig, 2);
	KUNIT_EXPECT_TRUE(test, wheel_holds(&p[1].t));
	step_to_tick(rig, 59);
	expect_fired(&p[1], 0, 0);
	to_tick(rig, 60);
	expect_fired(&p[1], 1, 60);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[1].t));
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

/* The last of a bucket leaves: the bucket counts as empty, and is used again. */
static void detach_last(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm_tick(&p[0], 5);
	to_tick(rig, 1);
	KUNIT_EXPECT_TRUE(test, test_bit(5, rig->wheel.level[0].occupied));
	wheel_cancel(&p[0].t);
	wheel_detach(&p[0].t);
	to_tick(rig, 2);
	KUNIT_EXPECT_FALSE(test, test_bit(5, rig->wheel.level[0].occupied));
	arm_tick(&p[1], 5 + 3 * SLOTS);
	step_to_tick(rig, 4 + 3 * SLOTS);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).ticks);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	to_tick(rig, 5 + 3 * SLOTS);
	expect_fired(&p[1], 1, 5 + 3 * SLOTS);
}

static void kill(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);
	struct wheel_counts before, after;

	to_tick(rig, 1);
	KUNIT_EXPECT_FALSE(test, wheel_kill(&p[0].t));
	arm_tick(&p[1], 5);
	KUNIT_EXPECT_TRUE(test, wheel_kill(&p[1].t));
	arm_tick(&p[2], 5);
	to_tick(rig, 2);
	KUNIT_EXPECT_TRUE(test, wheel_kill(&p[2].t));
	KUNIT_EXPECT_FALSE(test, wheel_kill(&p[2].t));
	KUNIT_EXPECT_FALSE(test, wheel_cancel(&p[2].t));
	before = counts(rig);
	KUNIT_EXPECT_EQ(test, 0UL, before.pending);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[0], 9));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[1], 9));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[2], 9));
	after = counts(rig);
	KUNIT_EXPECT_EQ(test, 0, memcmp(&before, &after, sizeof(before)));
	step_to_tick(rig, 20);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[2].t));
	/* a new life */
	wheel_timeout_init(&p[2].t, &rig->wheel, probe_fired);
	KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[2], 25));
	to_tick(rig, 25);
	expect_fired(&p[2], 1, 25);
}

enum before_release { IDLE, QUEUED, FILED, CANCELLED_QUEUED, CANCELLED_FILED,
		      TOUCHED_EARLIER, KILLED_FILED, DETACHED, EXPIRED, N_BEFORE };

static void release(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, N_BEFORE);
	unsigned int i;

	for (i = 0; i < N_BEFORE; i++)
		if (i != IDLE && i != QUEUED && i != CANCELLED_QUEUED)
			arm_tick(&p[i], i == EXPIRED ? 1 : 50 + i);
	to_tick(rig, 1);
	arm_tick(&p[QUEUED], 50);
	arm_tick(&p[CANCELLED_QUEUED], 50);
	wheel_cancel(&p[CANCELLED_QUEUED].t);
	wheel_cancel(&p[CANCELLED_FILED].t);
	touch_tick(&p[TOUCHED_EARLIER], 20);
	wheel_kill(&p[KILLED_FILED].t);
	wheel_cancel(&p[DETACHED].t);
	wheel_detach(&p[DETACHED].t);

	for (i = 0; i < N_BEFORE; i++) {
		bool pending = i == QUEUED || i == FILED || i == TOUCHED_EARLIER;

		KUNIT_EXPECT_EQ_MSG(test, pending, wheel_release(&p[i].t, probe_released),
				    "%u", i);
		KUNIT_EXPECT_FALSE(test, wheel_pending(&p[i].t));
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[i], 60));
		KUNIT_EXPECT_FALSE(test, wheel_cancel(&p[i].t));
		KUNIT_EXPECT_EQ(test, 0, p[i].released);
	}
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	to_tick(rig, 1);
	for (i = 0; i < N_BEFORE; i++) {
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
		KUNIT_EXPECT_FALSE(test, wheel_holds(&p[i].t));
	}
	KUNIT_EXPECT_EQ(test, 0UL, rig->wheel.filed);
	step_to_tick(rig, 100);
	for (i = 0; i < N_BEFORE; i++)
		KUNIT_EXPECT_EQ(test, 1, p[i].released);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

static void reuse(struct hwtimer_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);

	KUNIT_EXPECT_FALSE(p->rig->test, wheel_holds(t));
	wheel_timeout_init(t, t->wheel, probe_fired);
	p->released++;
	p->ret = arm_tick(p, 5);
}

/* Who is told may use the memory at once, for another timeout, too. */
static void release_reuse(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	/* filed, and on a queue */
	arm_tick(&p[0], 50);
	to_tick(rig, 1);
	arm_tick(&p[1], 50);
	wheel_release(&p[0].t, reuse);
	wheel_release(&p[1].t, reuse);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 1, p[0].released);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0, p[1].ret);
	step_to_tick(rig, 5);
	expect_fired(&p[0], 1, 5);
	expect_fired(&p[1], 1, 5);
}

static void release_stopped(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 5);
	struct list_head pending;

	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	to_tick(rig, 1);
	arm_tick(&p[2], 5);
	/* released before: called by the stop, not handed back */
	KUNIT_EXPECT_TRUE(test, wheel_release(&p[1].t, probe_released));
	KUNIT_EXPECT_TRUE(test, wheel_release(&p[2].t, probe_released));
	KUNIT_EXPECT_FALSE(test, wheel_release(&p[3].t, probe_released));
	KUNIT_EXPECT_EQ(test, 1, rig_stop(rig, &pending));
	KUNIT_EXPECT_PTR_EQ(test, pending.next, &p[0].t.node);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_EQ(test, 1, p[2].released);
	KUNIT_EXPECT_EQ(test, 1, p[3].released);
	/* released after: called right there */
	KUNIT_EXPECT_FALSE(test, wheel_release(&p[0].t, probe_released));
	KUNIT_EXPECT_EQ(test, 1, p[0].released);
	KUNIT_EXPECT_FALSE(test, wheel_release(&p[4].t, probe_released));
	KUNIT_EXPECT_EQ(test, 1, p[4].released);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
}

SUITES(arm,
	KUNIT_CASE(arm_returns),
	KUNIT_CASE(cancel_tells),
	KUNIT_CASE(cancel_rearm),
	KUNIT_CASE(cancel_pass_rearm),
	KUNIT_CASE(touch),
	KUNIT_CASE(touch_boundary),
	KUNIT_CASE(touch_on_and_on),
	KUNIT_CASE(touch_not_pending),
	KUNIT_CASE(requests),
	KUNIT_CASE(detach),
	KUNIT_CASE(detach_last),
	KUNIT_CASE(kill),
	KUNIT_CASE(release),
	KUNIT_CASE(release_reuse),
	KUNIT_CASE(release_stopped));

/* Suite hwtimer_wheel_callback: what callbacks may do. */

static void then_rearm(struct probe *p)
{
	KUNIT_EXPECT_FALSE(p->rig->test, wheel_pending(&p->t));
	/* its callback runs */
	KUNIT_EXPECT_TRUE(p->rig->test, wheel_holds(&p->t));
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm(p, p->deadline));
	KUNIT_EXPECT_TRUE(p->rig->test, wheel_pending(&p->t));
}

/* A delay of nothing: once per tick, even if the worker is late by many. */
static void rearm_at_once(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	u64 tick;

	p->then = then_rearm;
	arm(p, 0);
	for (tick = 1; tick <= 40; tick++) {
		to_tick(rig, tick);
		expect_fired(p, tick, tick);
		to_tick(rig, tick);
		advance_to(rig, tick * TICK + TICK / 2);
		expect_fired(p, tick, tick);
	}
	/* late, within a round and beyond: once for each time that it woke */
	to_tick(rig, 45);
	expect_fired(p, 41, 41);
	to_tick(rig, 46);
	expect_fired(p, 42, 46);
	p->then = NULL;
	to_tick(rig, 1000);
	KUNIT_EXPECT_EQ(test, 43, p->fired);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(test, 43UL, counts(rig).armed);
}

static void then_rearm_and_drain(struct probe *p)
{
	/* It ends, should the wheel not see to it. */
	if (p->fired < 100)
		arm(p, 0);
	wheel_drain_all(&p->rig->wheel);
}

/* Filed within the callback, it still is for the next tick and not for this one. */
static void rearm_and_drain(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);

	p->then = then_rearm_and_drain;
	arm(p, 0);
	to_tick(rig, 1);
	expect_fired(p, 1, 1);
	to_tick(rig, 2);
	expect_fired(p, 2, 2);
	/* late: it makes up for each */
	to_tick(rig, 10);
	expect_fired(p, 10, 10);
	to_tick(rig, 10);
	expect_fired(p, 10, 10);
}

static void then_rearm_later(struct probe *p)
{
	arm(p, wheel_deadline(&p->t) + p->deadline);
}

static void rearm_later(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	unsigned int tick;

	/* one and a half rounds apart, on no boundary */
	p->then = then_rearm_later;
	p->deadline = 24 * TICK;
	arm(p, 24 * TICK - 1);
	for (tick = 1; tick <= 240; tick++) {
		to_tick(rig, tick);
		expect_fired(p, tick / 24, tick / 24 * 24);
	}
}

static void then_cancel_other(struct probe *p)
{
	p->ret = wheel_cancel(&p->other->t);
}

/* Two due at the same tick: the first ends the second; the other way it is late. */
static void cancel_other(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	p[0].then = then_cancel_other;
	p[0].other = &p[1];
	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	step_to_tick(rig, 40);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	expect_fired(&p[0], 1, 5);
	expect_fired(&p[1], 0, 0);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[1].t));

	arm_tick(&p[1], 45);
	arm_tick(&p[0], 45);
	step_to_tick(rig, 80);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);
	expect_fired(&p[0], 2, 45);
	expect_fired(&p[1], 1, 45);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).cancelled);
	KUNIT_EXPECT_EQ(test, 3UL, counts(rig).expired);
}

static void then_cancel_arm_other(struct probe *p)
{
	KUNIT_EXPECT_TRUE(p->rig->test, wheel_cancel(&p->other->t));
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm(p->other, p->deadline));
}

static void then_touch_other(struct probe *p)
{
	KUNIT_EXPECT_EQ(p->rig->test, 0, wheel_touch(&p->other->t, p->deadline));
}

/*
 * One due at the same tick is moved: later, it fires then; not later, it fires at
 * this tick if the wheel need not be asked, else at the next, which is the first
 * one after the call.
 */
static void move_other(struct kunit *test)
{
	static const struct {
		u64 deadline, due;
	} moves[] = {
		{ 5 * TICK - 20, 6 }, { 5 * TICK - 10, 5 }, { 5 * TICK, 5 },
		{ 5 * TICK + 1, 6 }, { 0, 6 }, { 9 * TICK, 9 }, { 21 * TICK, 21 },
		{ 100 * TICK, 100 },
	};
	struct rig *rig = test->priv;
	unsigned int i, how;
	struct probe *p;

	for (i = 0; i < ARRAY_SIZE(moves); i++) {
		for (how = 0; how <= 1; how++) {
			rig_remake(rig, TICK, SLOTS, 0);
			p = probes(rig, 3);
			p[0].then = how ? then_cancel_arm_other : then_touch_other;
			p[0].other = &p[1];
			p[0].deadline = moves[i].deadline;
			arm_tick(&p[0], 5);
			arm(&p[1], 5 * TICK - 10);
			arm_tick(&p[2], 5);
			step_to_tick(rig, 120);
			expect_fired(&p[0], 1, 5);
			expect_fired(&p[1], 1, moves[i].due);
			expect_fired(&p[2], 1, 5);
			KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
		}
	}
}

/* A callback arms others: for now (the next tick, not this one), and later. */
static void then_arm_others(struct probe *p)
{
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm(&p->other[0], 0));
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm_tick(&p->other[1], 5));
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm_tick(&p->other[2], 6));
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm_tick(&p->other[3], 5 + SLOTS));
}

static void arm_others(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 5);

	p[0].then = then_arm_others;
	p[0].other = &p[1];
	arm_tick(&p[0], 5);
	to_tick(rig, 5);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
	step_to_tick(rig, 50);
	expect_fired(&p[1], 1, 6);
	expect_fired(&p[2], 1, 6);
	expect_fired(&p[3], 1, 6);
	expect_fired(&p[4], 1, 5 + SLOTS);
	expect_in_order(rig, p, 5);
}

/* Memory of its own, which the callback frees. */
struct mortal {
	struct hwtimer_timeout	t;
	unsigned int		*freed;
};

static void mortal_fired(struct hwtimer_timeout *t)
{
	struct mortal *m = container_of(t, struct mortal, t);

	++*m->freed;
	/* what the wheel would read now leads nowhere */
	memset(m, 0x6b, sizeof(*m));
	kfree(m);
}

static struct mortal *mortal(struct rig *rig, unsigned int *freed)
{
	struct mortal *m = kzalloc(sizeof(*m), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(rig->test, m);
	m->freed = freed;
	wheel_timeout_init(&m->t, &rig->wheel, mortal_fired);
	return m;
}

static void frees_itself(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int freed = 0, i;

	for (i = 0; i < 50; i++) {
		struct mortal *m = mortal(rig, &freed);

		wheel_arm(&m->t, (5 + i % 3) * TICK);
		if (i % 2)
			wheel_touch(&m->t, 8 * TICK);
	}
	step_to_tick(rig, 10);
	KUNIT_EXPECT_EQ(test, 50, freed);
	for (i = 0; i < 50; i++)
		wheel_release(&mortal(rig, &freed)->t, mortal_fired);
	to_tick(rig, 10);
	KUNIT_EXPECT_EQ(test, 100, freed);
}

static void then_touch_mortals(struct probe *p)
{
	struct mortal **m = (struct mortal **)p->other;
	unsigned int i;

	/* The first and the last are left alone. */
	for (i = 1; i < 4; i++)
		KUNIT_EXPECT_EQ(p->rig->test, 0, wheel_touch(&m[i]->t, i));
}

/* Due, but a request is on its way: it is the drain's, and is freed once only. */
static void frees_itself_queued(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	struct mortal *m[5];
	unsigned int freed = 0, i;

	p->then = then_touch_mortals;
	p->other = (struct probe *)m;
	arm_tick(p, 5);
	for (i = 0; i < 5; i++) {
		m[i] = mortal(rig, &freed);
		wheel_arm(&m[i]->t, 5 * TICK);
	}
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 2, freed);
	KUNIT_EXPECT_EQ(test, 3UL, counts(rig).pending);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 2, freed);
	to_tick(rig, 6);
	KUNIT_EXPECT_EQ(test, 5, freed);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	to_tick(rig, 100);
	KUNIT_EXPECT_EQ(test, 5, freed);
}

static void then_release(struct probe *p)
{
	struct probe *whom = p->other ?: p;

	p->ret = wheel_release(&whom->t, probe_released);
	KUNIT_EXPECT_EQ(p->rig->test, 0, whom->released);
	KUNIT_EXPECT_EQ(p->rig->test, -ESHUTDOWN, arm(whom, 0));
}

static void release_self(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);

	p->then = then_release;
	arm_tick(p, 5);
	to_tick(rig, 5);
	expect_fired(p, 1, 5);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 1, p->released);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p->t));
	step_to_tick(rig, 50);
	KUNIT_EXPECT_EQ(test, 1, p->released);
	expect_fired(p, 1, 5);
}

/* One that is due at the same tick, and one that is not. */
static void release_other(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);

	p[0].then = then_release;
	p[0].other = &p[1];
	p[2].then = then_release;
	p[2].other = &p[3];
	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	arm_tick(&p[2], 5);
	arm_tick(&p[3], 50);
	to_tick(rig, 5);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 1, p[2].ret);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_EQ(test, 1, p[3].released);
	step_to_tick(rig, 100);
	KUNIT_EXPECT_EQ(test, 2, rig->fired);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_EQ(test, 1, p[3].released);
}

static void then_release_self_and_drain(struct probe *p)
{
	wheel_release(&p->t, probe_released);
	wheel_drain_all(&p->rig->wheel);
	/* A callback is not over because the wheel was drained within it. */
	p->ret = p->released;
}

static void release_self_and_drain(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);

	p->then = then_release_self_and_drain;
	arm_tick(p, 5);
	to_tick(rig, 5);
	expect_fired(p, 1, 5);
	KUNIT_EXPECT_EQ(test, 0, p->ret);
	to_tick(rig, 6);
	KUNIT_EXPECT_EQ(test, 1, p->released);
}

static void then_drop_others(struct probe *p)
{
	struct rig *rig = p->rig;
	unsigned int i;

	/* What hwtimer_cancel_sync() does when a callback calls it. */
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_TRUE(rig->test, wheel_cancel(&p->other[i].t));
		wheel_detach(&p->other[i].t);
		KUNIT_EXPECT_TRUE(rig->test, wheel_holds(&p->other[i].t));
		wheel_drain_all(&rig->wheel);
		KUNIT_EXPECT_FALSE(rig->test, wheel_holds(&p->other[i].t));
		probe_setup(rig, &p->other[i]);
	}
}

/*
 * Others are taken out from under the worker while it settles a tick: one due
 * next, one of the same bucket but a later round, one of the next tick, one that
 * is not filed yet.
 */
static void drop_others(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int budget;
	struct probe *p;

	for (budget = 1; budget <= 12; budget++) {
		rig_remake(rig, TICK, SLOTS, 0);
		p = probes(rig, 7);
		p[0].then = then_drop_others;
		p[0].other = &p[2];
		arm_tick(&p[0], 5);
		arm_tick(&p[2], 5);
		arm_tick(&p[3], 5 + SLOTS);
		arm_tick(&p[1], 5);
		arm_tick(&p[4], 6);
		arm_tick(&p[6], 5 + 2 * SLOTS);
		to_tick(rig, 1);
		arm_tick(&p[5], 6);
		rig->now = 5 * TICK;
		while (wheel_advance(&rig->wheel, rig->now, budget))
			;
		expect_in_order(rig, p, 2);
		KUNIT_EXPECT_EQ(test, 1UL, rig->wheel.filed);
		step_to_tick(rig, 100);
		KUNIT_EXPECT_EQ(test, 3, rig->fired);
		expect_fired(&p[6], 1, 5 + 2 * SLOTS);
		KUNIT_EXPECT_EQ(test, 4UL, counts(rig).cancelled);
	}
}

SUITES(callback,
	KUNIT_CASE(rearm_at_once),
	KUNIT_CASE(rearm_and_drain),
	KUNIT_CASE(rearm_later),
	KUNIT_CASE(cancel_other),
	KUNIT_CASE(move_other),
	KUNIT_CASE(arm_others),
	KUNIT_CASE(frees_itself),
	KUNIT_CASE(frees_itself_queued),
	KUNIT_CASE(release_self),
	KUNIT_CASE(release_other),
	KUNIT_CASE(release_self_and_drain),
	KUNIT_CASE(drop_others));

/* Suite hwtimer_wheel_order: for one tick, in the order of arming. */

/*
 * Five for one tick, later ns first, @span ticks ahead; between them others for
 * the same bucket and for its neighbours, and some that are cancelled. With
 * @filed the worker passes by after each.
 */
static void expect_order(struct rig *rig, u64 span, bool filed)
{
	struct probe *p = probes(rig, 30), *mine = p, *others = p + 5;
	u64 due = div64_u64(rig->now, TICK) + span, now = due - span;
	unsigned int i, rank = 0;

	for (i = 0; i < 5; i++) {
		arm_tick(&others[5 * i], due + SLOTS);
		arm_tick(&others[5 * i + 1], due + 1);
		arm_tick(&others[5 * i + 2], due > SLOTS ? due - SLOTS : due + 2 * SLOTS);
		arm_tick(&others[5 * i + 3], due);
		arm(&mine[i], due * TICK - 10 * i);
		arm_tick(&others[5 * i + 4], due - 1);
		wheel_cancel(&others[5 * i + 3].t);
		if (filed)
			advance_to(rig, now * TICK + i);
	}
	step_to_tick(rig, due);
	for (i = 0; i < 5; i++) {
		expect_fired(&mine[i], 1, due);
		KUNIT_EXPECT_GT_MSG(rig->test, mine[i].rank, rank, "span %llu, %u", span, i);
		rank = mine[i].rank;
	}
	to_tick(rig, due + 5 * SLOTS);
	for (i = 0; i < 25; i++)
		KUNIT_EXPECT_EQ(rig->test, i % 5 == 3 ? 0 : 1, others[i].fired);
	kvfree(rig->bulk);
	rig->bulk = NULL;
}

/* Promise 5. */
static void order_at_each_span(struct kunit *test)
{
	static const u64 spans[] = { 1, 2, 5, SLOTS - 1, SLOTS, SLOTS + 1, 3 * SLOTS + 5,
				     100 * SLOTS, 100 * SLOTS + 7 };
	struct rig *rig = test->priv;
	unsigned int i, filed;

	for (i = 0; i < ARRAY_SIZE(spans); i++)
		for (filed = 0; filed <= 1; filed++)
			expect_order(rig, spans[i], filed);
}

/* Armed in different rounds for one tick: the one that waited longest is first. */
static void order_across_rounds(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 6);
	unsigned int i;

	for (i = 0; i < 6; i++) {
		arm_tick(&p[i], 5 * SLOTS + 3);
		to_tick(rig, i * SLOTS + 2);
	}
	step_to_tick(rig, 6 * SLOTS);
	expect_in_order(rig, p, 6);
	for (i = 0; i < 6; i++)
		expect_fired(&p[i], 1, 5 * SLOTS + 3);
}

/* A touched one takes its place when it is filed anew. */
static void order_of_touched(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);

	arm_tick(&p[1], 5);
	to_tick(rig, 1);
	touch_tick(&p[1], 8);
	arm_tick(&p[0], 8);
	to_tick(rig, 5);
	arm_tick(&p[2], 8);
	to_tick(rig, 8);
	expect_in_order(rig, p, 3);
}

/* Armed again, it is a new one. Promise 5. */
static void order_of_rearmed(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);

	arm_tick(&p[2], 5);
	arm_tick(&p[0], 5);
	to_tick(rig, 1);
	wheel_cancel(&p[2].t);
	wheel_detach(&p[2].t);
	to_tick(rig, 1);
	arm_tick(&p[1], 5);
	arm_tick(&p[2], 5);
	to_tick(rig, 5);
	expect_in_order(rig, p, 3);
}

SUITES(order,
	KUNIT_CASE(order_at_each_span),
	KUNIT_CASE(order_across_rounds),
	KUNIT_CASE(order_of_touched),
	KUNIT_CASE(order_of_rearmed));

/* Suite hwtimer_wheel_sleep: when the worker sleeps, and who wakes it. */

/* Promise 6. */
static void first_arm_kicks(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);

	KUNIT_EXPECT_EQ(test, (int)WHEEL_INIT, rig->wheel.state);
	KUNIT_EXPECT_EQ(test, WHEEL_IDLE, sleep_until(rig));
	KUNIT_EXPECT_EQ(test, (int)WHEEL_INIT, rig->wheel.state);
	/* no arm is no start */
	KUNIT_EXPECT_EQ(test, -ENOENT, touch_tick(&p[0], 3));
	KUNIT_EXPECT_FALSE(test, wheel_cancel(&p[0].t));
	KUNIT_EXPECT_EQ(test, (int)WHEEL_INIT, rig->wheel.state);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	arm(&p[0], U64_MAX);
	KUNIT_EXPECT_EQ(test, (int)WHEEL_STARTED, rig->wheel.state);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	arm(&p[1], 0);
	arm(&p[2], 0);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).kicks);
}

/* Also when the worker never had a chance to say that it sleeps. */
static void first_arm_kicks_early(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm(&p[0], U64_MAX);
	arm(&p[1], 0);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
}

static void states(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);
	struct wheel_counts before, after;
	struct list_head pending;

	KUNIT_EXPECT_EQ(test, 0, wheel_start(&rig->wheel));
	KUNIT_EXPECT_EQ(test, (int)WHEEL_STARTED, rig->wheel.state);
	KUNIT_EXPECT_EQ(test, 0, wheel_start(&rig->wheel));
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	arm_tick(&p[0], 5);

	INIT_LIST_HEAD(&pending);
	KUNIT_EXPECT_TRUE(test, wheel_shutdown(&rig->wheel));
	KUNIT_EXPECT_EQ(test, (int)WHEEL_SHUTDOWN, rig->wheel.state);
	before = counts(rig);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[1], 5));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[0], 6));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, touch_tick(&p[0], 6));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, touch_tick(&p[1], 6));
	after = counts(rig);
	KUNIT_EXPECT_EQ(test, 0, memcmp(&before, &after, sizeof(before)));
	KUNIT_EXPECT_FALSE(test, wheel_pending(&p[1].t));
	KUNIT_EXPECT_EQ(test, 5ULL * TICK, wheel_deadline(&p[0].t));
	KUNIT_EXPECT_FALSE(test, wheel_shutdown(&rig->wheel));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, wheel_start(&rig->wheel));

	wheel_sweep(&rig->wheel, &pending);
	rig->stopped = true;
	KUNIT_EXPECT_EQ(test, (int)WHEEL_STOPPED, rig->wheel.state);
	before = counts(rig);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[0], 5));
	after = counts(rig);
	KUNIT_EXPECT_EQ(test, 0, memcmp(&before, &after, sizeof(before)));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, wheel_start(&rig->wheel));
	KUNIT_EXPECT_FALSE(test, wheel_shutdown(&rig->wheel));
}

/* Asleep until some tick: who is due before it rings, the others do not. */
static void ring(struct kunit *test)
{
	static const struct {
		u64		deadline;
		unsigned int	kicks;
	} arms[] = {
		{ 0, 1 }, { TICK, 1 }, { 7 * TICK - 1, 1 }, { 7 * TICK, 1 },
		{ 7 * TICK + 1, 0 }, { 8 * TICK, 0 }, { 9 * TICK, 0 }, { U64_MAX, 0 },
	};
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(arms); i++) {
		rig_remake(rig, TICK, SLOTS, 0);
		p = probes(rig, 4);
		arm_tick(&p[0], 8);
		arm_tick(&p[2], 9);
		to_tick(rig, 2);
		rig->kicks = 0;
		KUNIT_EXPECT_EQ(test, 8ULL * TICK, sleep_until(rig));
		arm(&p[1], arms[i].deadline);
		KUNIT_EXPECT_EQ_MSG(test, arms[i].kicks, rig->kicks, "arm %llu",
				    arms[i].deadline);
		/* the second one relies on the first */
		arm(&p[3], arms[i].deadline);
		KUNIT_EXPECT_EQ(test, arms[i].kicks, rig->kicks);
		wheel_awake(&rig->wheel);

		/* the same by touching */
		to_tick(rig, 2);
		rig->kicks = 0;
		wheel_cancel(&p[1].t);
		wheel_cancel(&p[3].t);
		wheel_detach(&p[1].t);
		wheel_detach(&p[3].t);
		to_tick(rig, 2);
		KUNIT_EXPECT_EQ(test, 8ULL * TICK, sleep_until(rig));
		wheel_touch(&p[2].t, arms[i].deadline);
		KUNIT_EXPECT_EQ_MSG(test, arms[i].kicks, rig->kicks, "touch %llu",
				    arms[i].deadline);
	}
}

/* Many requests ring, however far away they are due; but only many. */
static void ring_deep(struct kunit *test)
{
	const unsigned int n = 2 * WHEEL_DEPTH;
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, n + 1);
	unsigned int i;

	arm_tick(&p[n], 50);
	to_tick(rig, 1);
	rig->kicks = 0;
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	for (i = 0; i < n; i++) {
		arm(&p[i], U64_MAX);
		/* one on its way asks for nothing more */
		wheel_cancel(&p[i].t);
		arm(&p[i], U64_MAX);
		KUNIT_EXPECT_EQ(test, pushed(rig) % WHEEL_DEPTH == 0, rig->kicks);
		KUNIT_EXPECT_EQ(test, i + 2UL, pushed(rig));
		if (rig->kicks) {
			to_tick(rig, 1);
			rig->kicks = 0;
			KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
		}
	}
	KUNIT_EXPECT_EQ(test, 2UL * WHEEL_DEPTH, counts(rig).drained);
}

/* While the worker runs, nobody kicks it. */
static void no_ring_awake(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);

	arm_tick(&p[0], 50);
	to_tick(rig, 1);
	rig->kicks = 0;
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	wheel_awake(&rig->wheel);
	arm(&p[1], 0);
	touch_tick(&p[0], 3);
	wheel_cancel(&p[0].t);
	wheel_detach(&p[0].t);
	wheel_release(&p[2].t, probe_released);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	/* but then it must not sleep, nor be kicked for what it will see */
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	arm(&p[1], 0);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
}

/* What else wakes: letting go does; cancel, kill and touching later do not. */
static void ring_otherwise(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 5);
	unsigned int i;

	for (i = 0; i < 5; i++)
		arm_tick(&p[i], 50);
	to_tick(rig, 1);
	rig->kicks = 0;
	sleep_until(rig);
	touch_tick(&p[0], 60);
	wheel_cancel(&p[1].t);
	arm_tick(&p[1], 50);
	wheel_cancel(&p[1].t);
	wheel_kill(&p[2].t);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	wheel_detach(&p[1].t);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	wheel_awake(&rig->wheel);
	to_tick(rig, 1);
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	wheel_release(&p[3].t, probe_released);
	KUNIT_EXPECT_EQ(test, 2, rig->kicks);
	wheel_awake(&rig->wheel);
	to_tick(rig, 1);
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	/* not held: nothing to be done */
	wheel_detach(&p[1].t);
	KUNIT_EXPECT_EQ(test, 2, rig->kicks);
}

/* Promise 7. */
static void idle(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);
	u64 until;

	arm_tick(&p[0], 5);
	to_tick(rig, 0);
	KUNIT_EXPECT_EQ(test, 5ULL * TICK, sleep_until(rig));
	wheel_awake(&rig->wheel);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
	/* at the most one more look, and that not soon */
	until = sleep_until(rig);
	if (until != WHEEL_IDLE) {
		KUNIT_EXPECT_GE(test, until, rig->now + WHEEL_DRAIN_NS);
		wheel_awake(&rig->wheel);
		advance_to(rig, until);
		until = sleep_until(rig);
	}
	KUNIT_EXPECT_EQ(test, WHEEL_IDLE, until);

	/* however long it takes */
	wheel_awake(&rig->wheel);
	advance_to(rig, rig->now + HOUR);
	KUNIT_EXPECT_EQ(test, WHEEL_IDLE, sleep_until(rig));
	rig->kicks = 0;
	arm(&p[1], U64_MAX);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
}

/* Nothing pending, but something cancelled lies in a bucket. */
static void idle_cancelled(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	u64 later;

	/* beyond the next look */
	arm(p, HOUR);
	to_tick(rig, 1);
	wheel_cancel(&p->t);
	drive(rig, NULL, HOUR / 4);
	KUNIT_EXPECT_EQ(test, WHEEL_IDLE, sleep_until(rig));
	KUNIT_EXPECT_TRUE(test, wheel_holds(&p->t));
	/* armed without a request; the worker has to know nevertheless */
	rig->kicks = 0;
	later = 2 * HOUR + 1;
	KUNIT_EXPECT_EQ(test, 0, arm(p, later));
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).drained);
	wheel_awake(&rig->wheel);
	drive(rig, p, 3 * HOUR);
	expect_fired(p, 1, div_u64(later, TICK) + 1);
	KUNIT_EXPECT_EQ(test, 2 * HOUR + TICK, rig->now);
}

/* The worker wakes when something is due, to the tick, and fires it then. */
static void next_event(struct kunit *test)
{
	static const u64 ahead[] = { 1, 2, 3, 7, 8, 9, 60, 64, 65, 1000, 100000 };
	struct rig *rig = test->priv;
	unsigned int slots, i, j, wakes;
	struct probe *p;
	u64 due;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (slots = 1; slots <= 512; slots *= 8) {
			rig_remake(rig, shapes[i].tick, slots, 0);
			p = probes(rig, 3);
			/* something far always, so that it is not idle */
			arm(&p[1], U64_MAX);
			arm(&p[2], WHEEL_FOREVER - shapes[i].tick);
			for (j = 0; j < ARRAY_SIZE(ahead); j++) {
				due = div64_u64(rig->now, shapes[i].tick) + ahead[j];
				arm_tick(p, due);
				wakes = drive(rig, p, due * shapes[i].tick);
				KUNIT_EXPECT_EQ_MSG(test, j + 1, p->fired,
						    "tick %llu, slots %u, ahead %llu",
						    shapes[i].tick, slots, ahead[j]);
				KUNIT_EXPECT_EQ(test, due * shapes[i].tick, rig->now);
				/* not every now and then, either */
				KUNIT_EXPECT_LE(test, wakes,
						2 + div_u64(ahead[j] * shapes[i].tick,
							    WHEEL_DRAIN_NS));
				if (p->fired != j + 1)
					return;
			}
		}
	}
}

/* The nearest of many, in whichever order they were armed, filed or not. */
/* While somebody arms, the worker looks at its queues soon, however long a tick is. */
static void busy_long_tick(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	rig_remake(rig, HOUR, SLOTS, 0);
	p = probes(rig, 1);
	advance_to(rig, HOUR / 2);
	arm_tick(&p[0], 7);
	advance_to(rig, HOUR / 2);
	KUNIT_EXPECT_EQ(test, HOUR / 2 + WHEEL_DRAIN_NS, sleep_until(rig));
	wheel_awake(&rig->wheel);
	/* and nobody has since */
	advance_to(rig, HOUR / 2 + WHEEL_DRAIN_NS);
	KUNIT_EXPECT_EQ(test, 7 * HOUR, sleep_until(rig));
}

/* Who waits for a timeout wakes the worker, be it filed or its request on its way. */
static void detach_wakes(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm_tick(&p[0], 50);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 50ULL * TICK, sleep_until(rig));
	rig->kicks = 0;
	arm_tick(&p[1], 60);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	wheel_cancel(&p[1].t);
	wheel_detach(&p[1].t);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	KUNIT_EXPECT_TRUE(test, wheel_holds(&p[1].t));
	to_tick(rig, 1);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[1].t));

	sleep_until(rig);
	wheel_cancel(&p[0].t);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	wheel_detach(&p[0].t);
	KUNIT_EXPECT_EQ(test, 2, rig->kicks);
	to_tick(rig, 1);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[0].t));
}

static void next_of_many(struct kunit *test)
{
	static const u64 ticks[] = { 40, 7, 300, 23, 5, 2000, 21 };
	static const u64 sorted[] = { 5, 7, 21, 23, 40, 300, 2000 };
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, ARRAY_SIZE(ticks));
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		arm_tick(&p[i], ticks[i]);
	advance_to(rig, 0);
	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		KUNIT_EXPECT_EQ(test, sorted[i] * TICK, sleep_until(rig));
		wheel_awake(&rig->wheel);
		to_tick(rig, sorted[i]);
		KUNIT_EXPECT_EQ(test, i + 1, rig->fired);
	}
}

/* Ten seconds with nothing but far timeouts, for all sizes of ticks. Promise 7. */
static void far_wakes(struct kunit *test)
{
	static const u64 ticks[] = { 1000, NSEC_PER_MSEC, 7 * NSEC_PER_MSEC,
				     100 * NSEC_PER_MSEC, 200 * NSEC_PER_MSEC,
				     249 * NSEC_PER_MSEC, 250 * NSEC_PER_MSEC,
				     251 * NSEC_PER_MSEC, NSEC_PER_SEC };
	struct rig *rig = test->priv;
	unsigned int slots, i, wakes;
	struct probe *p;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		for (slots = 1; slots <= 4096; slots *= 64) {
			rig_remake(rig, ticks[i], slots, 0);
			p = probes(rig, 3);
			arm(&p[0], U64_MAX);
			arm(&p[1], 20 * HOUR);
			arm(&p[2], HOUR);
			wakes = drive(rig, NULL, 10 * NSEC_PER_SEC);
			KUNIT_EXPECT_LE_MSG(test, wakes, 50, "tick %llu, slots %u",
					    ticks[i], slots);
		}
	}
}

/* A request that the pass did not see keeps the worker awake. */
static void request_in_time(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm_tick(&p[0], 50);
	to_tick(rig, 1);
	arm_tick(&p[1], 3);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 3ULL * TICK, sleep_until(rig));
}

/*
 * A producer is held up between QUEUED and the push: see "Sleeping" in
 * hwtimer_wheel.c, and there A and B. The request is taken from the queue by
 * hand, and put back later.
 */
static void held_up_before_push(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);
	struct wheel_queue *q = NULL;
	struct llist_node *request;
	int cpu;

	arm_tick(&p[0], 5);
	to_tick(rig, 0);

	/* A */
	arm_tick(&p[1], 7);
	for_each_possible_cpu(cpu) {
		q = per_cpu_ptr(rig->wheel.queues, cpu);
		if (!llist_empty(&q->requests))
			break;
	}
	request = llist_del_all(&q->requests);
	KUNIT_ASSERT_PTR_EQ(test, request, &p[1].t.request);
	local_inc(&q->in_flight);
	/* B has nothing to push */
	KUNIT_EXPECT_EQ(test, 0, touch_tick(&p[1], 3));
	KUNIT_EXPECT_TRUE(test, llist_empty(&q->requests));
	/* the worker finds nothing, but may not sleep until 5 */
	to_tick(rig, 0);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	/* A goes on, and wakes nobody */
	llist_add(request, &q->requests);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	local_dec(&q->in_flight);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 3ULL * TICK, sleep_until(rig));
	to_tick(rig, 3);
	expect_fired(&p[1], 1, 3);
}

/* The same with nothing else pending: it must not sleep for ever. */
static void held_up_idle(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct wheel_queue *q = per_cpu_ptr(rig->wheel.queues,
					    cpumask_first(cpu_possible_mask));

	local_inc(&q->in_flight);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	KUNIT_EXPECT_EQ(test, 0ULL, (u64)atomic64_read(&rig->wheel.ring_below));
	local_inc(&q->in_flight);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	local_dec(&q->in_flight);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	local_dec(&q->in_flight);
	KUNIT_EXPECT_EQ(test, WHEEL_IDLE, sleep_until(rig));
}

SUITES(sleep,
	KUNIT_CASE(first_arm_kicks),
	KUNIT_CASE(first_arm_kicks_early),
	KUNIT_CASE(states),
	KUNIT_CASE(ring),
	KUNIT_CASE(ring_deep),
	KUNIT_CASE(no_ring_awake),
	KUNIT_CASE(ring_otherwise),
	KUNIT_CASE(idle),
	KUNIT_CASE(idle_cancelled),
	KUNIT_CASE(next_event),
	KUNIT_CASE(next_of_many),
	KUNIT_CASE(busy_long_tick),
	KUNIT_CASE(detach_wakes),
	KUNIT_CASE(far_wakes),
	KUNIT_CASE(request_in_time),
	KUNIT_CASE(held_up_before_push),
	KUNIT_CASE(held_up_idle));

/* Suite hwtimer_wheel_stop: what a stop hands back. */

/* Exactly those of @p[0..@n) with @expected come back, each once. */
static void expect_back(struct rig *rig, struct probe *p, unsigned int n,
			const bool *expected)
{
	unsigned int back[32] = {}, i;
	struct hwtimer_timeout *t;
	struct list_head pending;

	KUNIT_ASSERT_LE(rig->test, n, (unsigned int)ARRAY_SIZE(back));
	rig_stop(rig, &pending);
	list_for_each_entry(t, &pending, node) {
		i = container_of(t, struct probe, t) - p;
		KUNIT_ASSERT_LT(rig->test, i, n);
		back[i]++;
	}
	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_EQ_MSG(rig->test, (unsigned int)expected[i], back[i],
				    "probe %u", i);
		KUNIT_EXPECT_FALSE(rig->test, wheel_pending(&p[i].t));
		KUNIT_EXPECT_FALSE(rig->test, wheel_holds(&p[i].t));
		KUNIT_EXPECT_FALSE(rig->test, wheel_cancel(&p[i].t));
		KUNIT_EXPECT_EQ(rig->test, -ESHUTDOWN, arm(&p[i], 0));
	}
	KUNIT_EXPECT_EQ(rig->test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(rig->test, 0UL, rig->wheel.filed);
	KUNIT_EXPECT_EQ(rig->test, rig->wheel.slots,
			find_first_bit(rig->wheel.level[0].occupied, rig->wheel.slots));
}

/* Promise 8. */
static void hands_back(struct kunit *test)
{
	static const unsigned int due[] = { 0, 1, 2, 3, 6, 7, 8, 10, 12 };
	bool expected[16] = {};
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 16);
	unsigned int i;

	/* filed: near, the same bucket in later rounds, far, never */
	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5 + SLOTS);
	arm_tick(&p[2], 5 + 100 * SLOTS);
	arm(&p[3], U64_MAX);
	/* filed and cancelled, killed, touched, armed again, expired */
	for (i = 4; i <= 9; i++)
		arm_tick(&p[i], i == 9 ? 1 : 7);
	arm_tick(&p[14], 5);
	to_tick(rig, 2);
	wheel_cancel(&p[4].t);
	wheel_kill(&p[5].t);
	touch_tick(&p[6], 20);
	touch_tick(&p[7], 3);
	wheel_cancel(&p[8].t);
	arm_tick(&p[8], 4);
	/* queued: armed, cancelled, armed again, killed */
	arm_tick(&p[10], 5);
	arm_tick(&p[11], 5);
	wheel_cancel(&p[11].t);
	arm_tick(&p[12], 5);
	wheel_cancel(&p[12].t);
	arm_tick(&p[12], 6);
	arm_tick(&p[13], 5);
	wheel_kill(&p[13].t);
	/* cancelled, and to be let go of */
	wheel_cancel(&p[14].t);
	wheel_detach(&p[14].t);

	for (i = 0; i < ARRAY_SIZE(due); i++)
		expected[due[i]] = true;
	KUNIT_EXPECT_EQ(test, 9UL, counts(rig).pending);
	expect_back(rig, p, 16, expected);
	KUNIT_EXPECT_EQ(test, 9UL, counts(rig).handed_back);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

/*
 * Stopped after each possible number of steps of a pass: whoever did not fire
 * is handed back, wherever the worker had it.
 */
static void hands_back_midway(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int steps, i, n;
	bool expected[20];
	struct probe *p;
	bool over = false;

	for (steps = 0; !over; steps++) {
		rig_remake(rig, TICK, SLOTS, 20);
		p = probes(rig, 20);
		/* of each bucket the second is in the next round */
		for (i = 0; i < 16; i++)
			arm_tick(&p[i], 3 + i / 8 + (i % 2) * SLOTS);
		to_tick(rig, 1);
		/* and some to be drained first */
		for (i = 16; i < 20; i++)
			arm_tick(&p[i], 4);
		rig->now = 5 * TICK;
		for (n = 0; n < steps && !over; n++)
			over = !wheel_advance(&rig->wheel, rig->now, 1);
		for (i = 0; i < 20; i++)
			expected[i] = !p[i].fired;
		/* those that are due come in order, one at a step */
		KUNIT_EXPECT_LE(test, rig->fired, steps);
		expect_back(rig, p, 20, expected);
		KUNIT_EXPECT_EQ(test, 20UL - rig->fired, counts(rig).handed_back);
	}
	KUNIT_EXPECT_EQ(test, 12, rig->fired);
	KUNIT_EXPECT_GE(test, steps, 12 + 4 + (has_rounds(rig) ? 16 : 4));
}

static void hands_back_nothing(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	struct list_head pending;

	KUNIT_EXPECT_EQ(test, 0, rig_stop(rig, &pending));
	KUNIT_EXPECT_TRUE(test, list_empty(&pending));

	rig_remake(rig, TICK, SLOTS, 0);
	p = probes(rig, 1);
	arm_tick(p, 1);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 0, rig_stop(rig, &pending));

	/* or to nobody */
	rig_remake(rig, TICK, SLOTS, 0);
	p = probes(rig, 1);
	arm_tick(p, 1);
	wheel_shutdown(&rig->wheel);
	wheel_sweep(&rig->wheel, NULL);
	rig->stopped = true;
	KUNIT_EXPECT_FALSE(test, wheel_pending(&p->t));
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).handed_back);
}

/* Let go of between the two halves of a stop, and after it. */
static void detach_while_stopping(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);
	struct list_head pending;

	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	arm_tick(&p[2], 5);
	to_tick(rig, 1);
	INIT_LIST_HEAD(&pending);
	wheel_shutdown(&rig->wheel);
	KUNIT_EXPECT_TRUE(test, wheel_cancel(&p[0].t));
	wheel_detach(&p[0].t);
	KUNIT_EXPECT_TRUE(test, wheel_release(&p[1].t, probe_released));
	KUNIT_EXPECT_EQ(test, 0, p[1].released);
	wheel_sweep(&rig->wheel, &pending);
	rig->stopped = true;
	KUNIT_EXPECT_PTR_EQ(test, pending.next, &p[2].t.node);
	KUNIT_EXPECT_PTR_EQ(test, pending.prev, &p[2].t.node);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[0].t));
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	rig->kicks = 0;
	wheel_detach(&p[2].t);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[2].t));
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
}

static void release_next(struct hwtimer_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);

	p->released++;
	if (p->other)
		p->ret = wheel_release(&p->other->t, release_next);
}

/* Behind a round that has begun comes another one, before the worker sleeps. */
static void release_in_round(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);
	unsigned int i;

	to_tick(rig, 1);
	for (i = 0; i < 3; i++)
		wheel_release(&p[i].t, probe_released);
	KUNIT_EXPECT_TRUE(test, wheel_advance(&rig->wheel, rig->now, 2));
	KUNIT_EXPECT_EQ(test, 0, p[3].released);
	/* By way of a request. */
	arm_tick(&p[3], 5);
	wheel_release(&p[3].t, probe_released);
	drive(rig, NULL, rig->now);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
}

/* A round goes on where the budget ran out, and the barrier is answered at its end. */
static void barrier_in_pieces(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);
	unsigned int i;

	to_tick(rig, 1);
	/* Three that come by way of a request, and one that is on the CPU's list. */
	for (i = 0; i < 3; i++)
		arm_tick(&p[i], 5);
	for (i = 0; i < 4; i++)
		wheel_release(&p[i].t, probe_released);
	/* As wheel_barrier() does. */
	smp_store_release(&rig->wheel.barrier, &done);
	for (i = 0; i < 100 && !completion_done(&done); i++)
		wheel_advance(&rig->wheel, rig->now, 1);
	KUNIT_EXPECT_TRUE(test, completion_done(&done));
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
}

/* Who asked may be gone when he has been answered. */
static void barrier_then_stop(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct rig *rig = test->priv;
	struct list_head pending;

	/* As wheel_barrier() does. */
	smp_store_release(&rig->wheel.barrier, &done);
	to_tick(rig, 1);
	KUNIT_EXPECT_TRUE(test, completion_done(&done));
	reinit_completion(&done);
	rig_stop(rig, &pending);
	KUNIT_EXPECT_FALSE(test, completion_done(&done));
}

/* What is released by the stop releases another, and so on: filed, idle, filed. */
static void release_while_stopping(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);
	struct list_head pending;
	unsigned int i, n;

	for (i = 0; i < 3; i++)
		p[i].other = &p[i + 1];
	arm_tick(&p[1], 5);
	arm_tick(&p[3], 5);
	to_tick(rig, 1);
	wheel_release(&p[0].t, release_next);
	n = rig_stop(rig, &pending);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0, p[1].ret);
	/* the last one is handed back if that was first */
	KUNIT_EXPECT_EQ(test, (unsigned int)!p[2].ret, n);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
}

SUITES(stop,
	KUNIT_CASE(hands_back),
	KUNIT_CASE(hands_back_midway),
	KUNIT_CASE(hands_back_nothing),
	KUNIT_CASE(detach_while_stopping),
	KUNIT_CASE(release_in_round),
	KUNIT_CASE(barrier_in_pieces),
	KUNIT_CASE(barrier_then_stop),
	KUNIT_CASE(release_while_stopping));

/* Suite hwtimer_wheel_cap: the cap is exact. */

/* Promise 9. */
static void cap(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct wheel_counts before, after;
	unsigned int n, i;
	struct probe *p;

	for (n = 1; n <= 5; n++) {
		rig_remake(rig, TICK, SLOTS, n);
		p = probes(rig, n + 1);
		for (i = 0; i < n; i++)
			KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[i], 5));
		before = counts(rig);
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm_tick(&p[n], 5));
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm_tick(&p[n], 5));
		KUNIT_EXPECT_FALSE(test, wheel_pending(&p[n].t));
		KUNIT_EXPECT_FALSE(test, wheel_holds(&p[n].t));
		after = counts(rig);
		KUNIT_EXPECT_EQ(test, 2UL, after.rejected);
		after.rejected = 0;
		KUNIT_EXPECT_EQ(test, 0, memcmp(&before, &after, sizeof(before)));
		/* who is in may move */
		KUNIT_EXPECT_EQ(test, 0, touch_tick(&p[0], 6));
		KUNIT_EXPECT_EQ(test, 1, arm_tick(&p[0], 4));
		KUNIT_EXPECT_EQ(test, 1, arm_tick(&p[0], 5));
		/* a cancel frees the place, at once and once */
		KUNIT_EXPECT_TRUE(test, wheel_cancel(&p[0].t));
		KUNIT_EXPECT_FALSE(test, wheel_cancel(&p[0].t));
		KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[n], 5));
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm_tick(&p[0], 5));
		to_tick(rig, 1);
		/* after filing as well */
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm_tick(&p[0], 5));
		KUNIT_EXPECT_TRUE(test, wheel_cancel(&p[n].t));
		KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[0], 5));
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm_tick(&p[n], 5));
		KUNIT_EXPECT_TRUE(test, wheel_kill(&p[0].t));
		KUNIT_EXPECT_FALSE(test, wheel_kill(&p[0].t));
		KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[n], 5));
		KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[0], 5));
		KUNIT_EXPECT_EQ(test, 5UL, counts(rig).rejected);
		KUNIT_EXPECT_EQ(test, (unsigned long)n, counts(rig).pending);
		to_tick(rig, 5);
		KUNIT_EXPECT_EQ(test, n, rig->fired);
		KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
		KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&rig->wheel.places));
	}
}

static void cap_release(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	rig_remake(rig, TICK, SLOTS, 1);
	p = probes(rig, 2);
	arm_tick(&p[0], 5);
	KUNIT_EXPECT_TRUE(test, wheel_release(&p[0].t, probe_released));
	KUNIT_EXPECT_EQ(test, 0, arm_tick(&p[1], 5));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 1L, atomic_long_read(&rig->wheel.places));
}

static void then_arm_at_cap(struct probe *p)
{
	/* Its own place is free, and it is the only one. */
	KUNIT_EXPECT_EQ(p->rig->test, 2UL, counts(p->rig).pending);
	p->ret = arm(p->other, p->rig->now + TICK);
	KUNIT_EXPECT_EQ(p->rig->test, -EAGAIN, arm(&p->other[1], 0));
}

/* Promise 9. */
static void cap_in_callback(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i;

	rig_remake(rig, TICK, SLOTS, 3);
	p = probes(rig, 5);
	arm(&p[3], U64_MAX);
	arm(&p[4], U64_MAX);
	arm_tick(&p[0], 1);
	p[0].then = then_arm_at_cap;
	p[0].ret = -1;
	p[0].other = &p[1];
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 0, p[0].ret);

	/* itself, over and over */
	p[1].then = then_rearm;
	for (i = 2; i < 50; i++) {
		p[1].deadline = (i + 1) * TICK;
		KUNIT_EXPECT_EQ(test, -EAGAIN, arm(&p[2], 0));
		to_tick(rig, i);
		expect_fired(&p[1], i - 1, i);
		KUNIT_EXPECT_EQ(test, 3UL, counts(rig).pending);
	}
	KUNIT_EXPECT_EQ(test, 49UL, counts(rig).rejected);
}

static void cap_stop(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct list_head pending;
	struct probe *p;

	rig_remake(rig, TICK, SLOTS, 2);
	p = probes(rig, 3);
	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	KUNIT_EXPECT_EQ(test, 2, rig_stop(rig, &pending));
	KUNIT_EXPECT_EQ(test, 0L, atomic_long_read(&rig->wheel.places));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[2], 5));
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).rejected);
}

SUITES(cap,
	KUNIT_CASE(cap),
	KUNIT_CASE(cap_release),
	KUNIT_CASE(cap_in_callback),
	KUNIT_CASE(cap_stop));

/* Suite hwtimer_wheel_late: the worker comes late, or has much to do at once. */

/* Within a round: in the order of ticks, none skipped. Promise 10. */
static void catch_up(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i;

	rig_remake(rig, TICK, 256, 0);
	p = probes(rig, 400);
	to_tick(rig, 77);
	/* 7 is prime to 200 */
	for (i = 0; i < 200; i++)
		arm_tick(&p[(i * 7) % 200], 78 + (i * 7) % 200);
	/* and not those of later rounds, nor those that are not due */
	for (i = 200; i < 400; i++)
		arm_tick(&p[i], 78 + 200 + i);
	to_tick(rig, 77 + 200);
	expect_in_order(rig, p, 200);
	for (i = 0; i < 200; i++)
		expect_fired(&p[i], 1, 78 + i);
	KUNIT_EXPECT_EQ(test, 200UL, counts(rig).pending);
}

/* As long as a round, a tick less, a tick more; from some tick to some other. */
static void catch_up_round(struct kunit *test)
{
	struct rig *rig = test->priv;
	u64 from, by, ticks;
	struct probe *p;
	unsigned int i;

	for (from = 0; from < SLOTS; from += 5) {
		for (by = SLOTS - 1; by <= SLOTS + 1; by++) {
			rig_remake(rig, TICK, SLOTS, 0);
			p = probes(rig, 3 * SLOTS);
			to_tick(rig, from);
			for (i = 0; i < 3 * SLOTS; i++)
				arm_tick(&p[i], from + 1 + i);
			to_tick(rig, from + by);
			KUNIT_EXPECT_EQ(test, (unsigned int)by, rig->fired);
			for (i = 0; i < by; i++)
				KUNIT_EXPECT_EQ(test, 1, p[i].fired);
			if (by <= SLOTS || !has_rounds(rig))
				expect_in_order(rig, p, by);
			/* each bucket once; with more levels, each tick */
			ticks = has_rounds(rig) ? min_t(u64, by, SLOTS) : by;
			KUNIT_EXPECT_EQ(test, ticks, (u64)counts(rig).ticks);
			step_to_tick(rig, from + 3 * SLOTS - 1);
			KUNIT_EXPECT_EQ(test, 3U * SLOTS - 1, rig->fired);
		}
	}
}

/*
 * Many rounds: each bucket once, what is due fires and nothing else does. With more
 * levels there are no rounds to jump over: each tick, in order.
 * Promise 10.
 */
static void jump(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 400);
	struct wheel_counts before, after;
	unsigned int i;
	u64 target;

	to_tick(rig, 3);
	for (i = 0; i < 400; i++)
		arm_tick(&p[i], 4 + 3 * i);
	to_tick(rig, 3);
	for (target = 100; target <= 1300; target += 300) {
		before = counts(rig);
		to_tick(rig, target);
		after = counts(rig);
		for (i = 0; i < 400; i++)
			KUNIT_EXPECT_EQ(test, 4 + 3 * i <= target, p[i].fired);
		if (has_rounds(rig)) {
			KUNIT_EXPECT_LE(test, after.ticks - before.ticks, (unsigned long)SLOTS);
			/* looked at once each */
			KUNIT_EXPECT_LE(test, after.visits - before.visits, before.pending);
		}
	}
	if (!has_rounds(rig)) {
		expect_in_order(rig, p, 400);
		/* once per level, and once more when the wheel grew */
		KUNIT_EXPECT_LE(test, counts(rig).visits,
				400UL * (rig->wheel.levels + 1));
	}
	KUNIT_EXPECT_EQ(test, 400, rig->fired);
	KUNIT_EXPECT_EQ(test, 0UL, rig->wheel.filed);
}

/* Touched ones and cancelled ones in a jump, and what is due at its very end. */
static void jump_touched(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 6);

	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5);
	arm_tick(&p[2], 5);
	arm_tick(&p[3], 1000);
	arm_tick(&p[4], 1001);
	arm_tick(&p[5], 6);
	to_tick(rig, 1);
	touch_tick(&p[0], 900);
	touch_tick(&p[1], 1000);
	touch_tick(&p[2], 1001);
	wheel_cancel(&p[5].t);
	to_tick(rig, 1000);
	KUNIT_EXPECT_EQ(test, 1, p[0].fired);
	KUNIT_EXPECT_EQ(test, 1, p[1].fired);
	KUNIT_EXPECT_EQ(test, 0, p[2].fired);
	KUNIT_EXPECT_EQ(test, 1, p[3].fired);
	KUNIT_EXPECT_EQ(test, 0, p[4].fired);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[5].t));
	to_tick(rig, 1001);
	KUNIT_EXPECT_EQ(test, 5, rig->fired);
}

#define BURST	120000

/* Many at one tick, in slices. Promise 10. */
static void burst(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, BURST);
	unsigned int i, fired, slices = 0, wrong = 0;

	for (i = 0; i < BURST; i++)
		arm_tick(&p[i], 2 * SLOTS + 5);
	/* the requests in slices, too */
	rig->now = TICK;
	while (wheel_advance(&rig->wheel, TICK, 64))
		slices++;
	KUNIT_EXPECT_GE(test, slices, BURST / 64 - 1);
	KUNIT_EXPECT_EQ(test, (unsigned long)BURST, rig->wheel.filed);
	to_tick(rig, 2 * SLOTS + 4);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);

	rig->now = (2 * SLOTS + 5) * TICK;
	for (;;) {
		bool more;

		fired = rig->fired;
		more = wheel_advance(&rig->wheel, rig->now, 64);
		if (rig->fired - fired > 64)
			wrong++;
		if (!more)
			break;
		slices++;
		/* time goes on meanwhile */
		rig->now += TICK / 10;
	}
	KUNIT_EXPECT_EQ(test, 0, wrong);
	KUNIT_EXPECT_GE(test, slices, 2 * (BURST / 64 - 1));
	KUNIT_EXPECT_EQ(test, BURST, rig->fired);
	for (i = 0; i < BURST; i++)
		wrong += p[i].fired != 1 || p[i].rank != i + 1 ||
			 p[i].tick != 2 * SLOTS + 5;
	KUNIT_EXPECT_EQ(test, 0, wrong);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
}

/* A step at a time, and between the steps some are cancelled, some pushed back. */
static void burst_changed(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 300);
	unsigned int i, n = 0, cancelled = 0, touched = 0, again = 0;

	for (i = 0; i < 300; i++)
		arm_tick(&p[i], 5);
	to_tick(rig, 1);
	rig->now = 5 * TICK;
	while (wheel_advance(&rig->wheel, rig->now, 1)) {
		i = (n++ * 37) % 300;
		if (p[i].fired)
			continue;
		switch (n % 4) {
		case 0:
			cancelled += wheel_cancel(&p[i].t);
			break;
		case 1:
			touched += !touch_tick(&p[i], 8);
			break;
		case 2:
			/* already pushed back to 8, or cancelled: stays */
			again += wheel_touch(&p[i].t, 5 * TICK) == 0;
			break;
		}
	}
	KUNIT_EXPECT_GT(test, cancelled, 10);
	KUNIT_EXPECT_GT(test, touched, 10);
	KUNIT_EXPECT_GT(test, again, 10);
	to_tick(rig, 20);
	KUNIT_EXPECT_EQ(test, 300 - cancelled, rig->fired);
	for (i = 0; i < 300; i++)
		KUNIT_EXPECT_LE(test, p[i].fired, 1);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(test, 300UL - cancelled, counts(rig).expired);
}

static struct looked {
	struct probe	*first, *last;
	unsigned int	n;
	/* the one before the last, in a bucket of its own */
	unsigned int	alone;
	unsigned int	strangers;
	/* when the worker paused last */
	unsigned int	then;
	unsigned int	pauses;
	unsigned int	at_once;
} looked;

static void looked_at(void *arg, unsigned int i, struct hwtimer_timeout *t, bool armed,
		      u64 deadline)
{
	struct looked *l = arg;

	l->n++;
	l->alone += t == &(l->last - 1)->t;
	if (t < &l->first->t || t > &l->last->t)
		l->strangers++;
}

/* Somebody looks at a bucket in the middle of a visit: he sees timeouts, and nothing else. */
static void look_midway(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 10);
	struct looked l = { .first = p, .last = &p[9] };
	unsigned int i, looks = 0;

	for (i = 0; i < 10; i++)
		arm_tick(&p[i], 3 + i * SLOTS);
	to_tick(rig, 1);
	rig->now = 3 * TICK;
	rig->answers = true;
	while (wheel_advance(&rig->wheel, rig->now, 1)) {
		if (list_empty(&rig->wheel.cursor))
			continue;
		l.n = 0;
		KUNIT_EXPECT_EQ(test, 0, wheel_look(&rig->wheel, 0, 0, SLOTS, looked_at, &l));
		KUNIT_EXPECT_EQ(test, 0, l.strangers);
		/* the first one is due, and is in no bucket once it was visited */
		KUNIT_EXPECT_GE(test, l.n, 9);
		KUNIT_EXPECT_LE(test, l.n, 10);
		looks++;
	}
	rig->answers = false;
	KUNIT_EXPECT_EQ(test, has_rounds(rig) ? 10 : 0, looks);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

#define LOOKED	(8 * WHEEL_SURVEY)

static void pause_noted(struct rig *rig)
{
	looked.pauses++;
	looked.at_once = max(looked.at_once, looked.n - looked.then);
	looked.then = looked.n;
}

static void pause_expire(struct rig *rig)
{
	pause_noted(rig);
	to_tick(rig, 5);
}

static void pause_cancel(struct rig *rig)
{
	unsigned int i;

	for (i = 0; looked.pauses == 0 && i < LOOKED; i++) {
		wheel_cancel(&looked.first[i].t);
		wheel_detach(&looked.first[i].t);
	}
	pause_noted(rig);
	wheel_drain_all(&rig->wheel);
}

/* What is beyond the top level makes it fall, in a wheel that grows. */
static void pause_grow(struct rig *rig)
{
	if (looked.pauses == 1)
		arm_tick(looked.last, HOUR / TICK);
	pause_noted(rig);
	to_tick(rig, 2);
}

/* All of them are filed anew, behind the place at which it goes on. */
static void pause_refile(struct rig *rig)
{
	unsigned int i;

	pause_noted(rig);
	for (i = 0; i < LOOKED; i++)
		wheel_arm(&looked.first[i].t, wheel_deadline(&looked.first[i].t) - 1);
	wheel_drain_all(&rig->wheel);
}

static void pause_stop(struct rig *rig)
{
	struct list_head pending;

	KUNIT_EXPECT_EQ(rig->test, LOOKED, rig_stop(rig, &pending));
}

/* The worker looks at a few, does its work, and goes on, whatever became of the bucket. */
static void look_in_parts(struct kunit *test)
{
	static void (*const meanwhile[])(struct rig *rig) = {
		pause_noted, pause_expire, pause_cancel, pause_grow, pause_refile, pause_stop,
	};
	struct rig *rig = test->priv;
	unsigned int i, k, slots_used;
	struct probe *p;

	for (k = 0; k < ARRAY_SIZE(meanwhile); k++) {
		rig_remake(rig, TICK, SLOTS, 0);
		p = probes(rig, LOOKED + 1);
		/* the last in a bucket of its own */
		for (i = 0; i < LOOKED; i++)
			arm_tick(&p[i], i < LOOKED - 1 ? 5 : 9);
		to_tick(rig, 1);
		looked = (struct looked) { .first = p, .last = &p[LOOKED] };
		rig->meanwhile = meanwhile[k];
		rig->answers = true;
		KUNIT_EXPECT_EQ(test, 0, wheel_look(&rig->wheel, 0, 0, SLOTS, looked_at, &looked));
		rig->answers = false;
		KUNIT_EXPECT_EQ(test, 0, looked.strangers);
		KUNIT_EXPECT_TRUE(test, list_empty(&rig->wheel.place));
		/* It ends, and finds what stayed where it was. */
		KUNIT_EXPECT_LE(test, looked.n, LOOKED + (meanwhile[k] == pause_refile));
		if (meanwhile[k] == pause_stop)
			continue;
		if (meanwhile[k] == pause_noted || meanwhile[k] == pause_refile)
			KUNIT_EXPECT_EQ(test, 1, looked.alone);
		if (meanwhile[k] == pause_noted) {
			KUNIT_EXPECT_EQ(test, LOOKED, looked.n);
			KUNIT_EXPECT_EQ(test, WHEEL_SURVEY, looked.at_once);
		}
		if (meanwhile[k] == pause_expire)
			KUNIT_EXPECT_EQ(test, WHEEL_SURVEY + 1, looked.n);
		if (meanwhile[k] == pause_cancel)
			KUNIT_EXPECT_EQ(test, WHEEL_SURVEY, looked.n);
		/* A bucket that was left empty is known to be. */
		slots_used = bitmap_weight(rig->wheel.level[0].occupied, SLOTS);
		if (meanwhile[k] != pause_grow && meanwhile[k] != pause_refile)
			KUNIT_EXPECT_EQ(test, looked.n == LOOKED ? 2 : looked.n % 2, slots_used);
		drive(rig, NULL, 20 * TICK);
		KUNIT_EXPECT_EQ(test, meanwhile[k] == pause_cancel ? 0 : LOOKED, rig->fired);
	}
}

/* What was armed before is looked at, though the worker has not taken all requests over. */
static void look_after_drain(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 21);
	unsigned int i;

	to_tick(rig, 1);
	for (i = 0; i < 20; i++)
		arm_tick(&p[i], 5);
	looked = (struct looked) { .first = p, .last = &p[20] };
	rig->answers = true;
	rig->budget = 1;
	KUNIT_EXPECT_EQ(test, 0, wheel_look(&rig->wheel, 0, 0, SLOTS, looked_at, &looked));
	KUNIT_EXPECT_EQ(test, 20, looked.n);
}

/* Any budget gives the same result as any other. Promise 13. */
static void budgets(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int budget, i;
	struct probe *p;

	for (budget = 1; budget <= 40; budget++) {
		rig_remake(rig, TICK, SLOTS, 0);
		p = probes(rig, 30);
		for (i = 0; i < 30; i++)
			arm_tick(&p[i], 2 + i / 3);
		rig->now = 9 * TICK;
		while (wheel_advance(&rig->wheel, rig->now, budget))
			;
		expect_in_order(rig, p, 24);
		for (i = 0; i < 24; i++)
			expect_fired(&p[i], 1, 2 + i / 3);
		KUNIT_EXPECT_EQ(test, 6UL, counts(rig).pending);
	}
}

/*
 * The time goes on during a pass that takes several calls, and what has become due
 * meanwhile is not for it. The worker does not sleep over that.
 */
static void due_meanwhile(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 10);
	unsigned int tick, i;

	for (i = 0; i < 8; i++)
		arm_tick(&p[i], i < 4 ? 1 : 5);
	arm_tick(&p[8], 2);
	arm_tick(&p[9], 6);
	/* Once it is busy, as there was armed, and once it is not. */
	for (tick = 1; tick <= 5; tick += 4) {
		rig->now = tick * TICK;
		KUNIT_EXPECT_TRUE(test, wheel_advance(&rig->wheel, rig->now, 1));
		rig->now += TICK;
		while (wheel_advance(&rig->wheel, rig->now, 1))
			;
		KUNIT_EXPECT_EQ(test, tick == 1 ? 4 : 9, rig->fired);
		KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
		to_tick(rig, tick + 1);
		KUNIT_EXPECT_EQ(test, tick == 1 ? 5 : 10, rig->fired);
		KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
		wheel_awake(&rig->wheel);
	}
}

SUITES(late,
	KUNIT_CASE(due_meanwhile),
	KUNIT_CASE(catch_up),
	KUNIT_CASE(catch_up_round),
	KUNIT_CASE(jump),
	KUNIT_CASE(jump_touched),
	KUNIT_CASE(burst),
	KUNIT_CASE(burst_changed),
	KUNIT_CASE(look_midway),
	KUNIT_CASE(look_in_parts),
	KUNIT_CASE(look_after_drain),
	KUNIT_CASE(budgets));

/*
 * Suite hwtimer_wheel_levels: how often a timeout is looked at, and how a wheel
 * grows. The other suites show that all else holds with any levels.
 */

#define DAY		(24 * HOUR)

static unsigned int filed(struct rig *rig, unsigned int level, unsigned int slot)
{
	struct wheel_level *l = &rig->wheel.level[level];

	return test_bit(slot, l->occupied) ? list_count_nodes(&l->buckets[slot].timeouts) : 0;
}

static void shape_of(struct rig *rig, u64 tick_ns, unsigned int slots,
		     unsigned int n, bool grow)
{
	const struct wheel_shape shape = {
		.tick_ns = tick_ns, .slots = slots, .levels = n, .grow = grow,
	};

	rig_end(rig);
	rig_shape(rig, &shape);
}

static void pause_due(struct rig *rig)
{
	pause_noted(rig);
	to_tick(rig, 3);
}

/* Who looks into a bucket does not mind that one of another level is emptied. */
static void look_at_level(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i;

	shape_of(rig, TICK, SLOTS, 2, false);
	p = probes(rig, LOOKED);
	for (i = 0; i < LOOKED; i++)
		arm_tick(&p[i], i ? 3 * SLOTS : 3);
	to_tick(rig, 1);
	looked = (struct looked) { .first = p, .last = &p[LOOKED - 1] };
	rig->meanwhile = pause_due;
	rig->answers = true;
	KUNIT_EXPECT_EQ(test, 0, wheel_look(&rig->wheel, 1, 0, SLOTS, looked_at, &looked));
	KUNIT_EXPECT_EQ(test, LOOKED - 1, looked.n);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

/* To pass over what is due in a later round is work, too. */
static void budget_of_looks(struct kunit *test)
{
	const unsigned int slots = 1024, budget = 16;
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i;
	u64 cur;

	shape_of(rig, TICK, slots, 1, false);
	p = probes(rig, slots + 1);
	for (i = 0; i < slots; i++)
		arm_tick(&p[i], 2 * slots + i);
	to_tick(rig, 1);
	arm_tick(&p[slots], slots - 1);
	while (wheel_advance(&rig->wheel, rig->now, budget))
		;
	/* As if a tick was as long as it is in earnest. */
	KUNIT_EXPECT_EQ(test, WHEEL_LOOKAHEAD, rig->wheel.looks);
	rig->wheel.looks = WHEEL_LOOKS;
	KUNIT_EXPECT_GE(test, sleep_until(rig), WHEEL_LOOKS * TICK);
	KUNIT_EXPECT_LE(test, sleep_until(rig), (WHEEL_LOOKS + 2) * TICK);
	rig->now = slots * TICK;
	do {
		cur = rig->wheel.cur;
		i = wheel_advance(&rig->wheel, rig->now, budget);
		KUNIT_EXPECT_LE(test, rig->wheel.cur, cur + budget + 1);
	} while (i);
	expect_fired(&p[slots], 1, slots - 1);
	KUNIT_EXPECT_EQ(test, 1U, rig->fired);
	to_tick(rig, 3 * slots);
	KUNIT_EXPECT_EQ(test, slots + 1, rig->fired);
}

/* So is to pass over what is empty, if that is a lot. */
static void budget_of_nothing(struct kunit *test)
{
	const unsigned int slots = 4 * WHEEL_LOOKAHEAD;
	struct rig *rig = test->priv;
	unsigned int n;
	struct probe *p;
	bool more;
	u64 cur;

	for (n = 1; n <= 2; n++) {
		shape_of(rig, TICK, slots, n, false);
		p = probes(rig, 2);
		/* with two levels: in the second slot of the upper one */
		arm_tick(p, n * slots - 1);
		to_tick(rig, 1);
		/* what is not due yet takes no time from what is to be done now */
		wheel_release(&p[1].t, probe_released);
		rig->now = 2 * TICK;
		wheel_advance(&rig->wheel, rig->now, 3);
		KUNIT_EXPECT_EQ(test, 1, p[1].released);
		rig->now = n * slots * (u64)TICK;
		do {
			cur = rig->wheel.cur;
			more = wheel_advance(&rig->wheel, rig->now, 1);
			/* what is left then is a single run */
			if (cur < 3 * WHEEL_LOOKAHEAD)
				KUNIT_EXPECT_LE(test, rig->wheel.cur, cur + WHEEL_LOOKAHEAD + 1);
		} while (more);
		expect_fired(p, 1, n * slots - 1);
	}
}

/* However small the budget, many levels of which all are empty are passed over in a few steps. */
static void budget_of_levels(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int steps = 0;
	struct probe *p;

	shape_of(rig, 1, 4, 16, false);
	p = probes(rig, 1);
	arm(p, DAY);
	rig->now = DAY - 1;
	while (wheel_advance(&rig->wheel, rig->now, 1))
		steps++;
	KUNIT_EXPECT_LE(test, steps, 64);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	drive(rig, NULL, DAY);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

/* To grow is done bucket by bucket, and may be stopped in between. */
static void budget_of_growing(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int i, weight, before, stop, steps;
	struct list_head pending;
	struct probe *p;
	bool more;

	for (stop = 0; stop <= 1; stop++) {
		shape_of(rig, TICK, 64, 1, true);
		p = probes(rig, 64);
		for (i = 0; i < 63; i++)
			arm_tick(&p[i], 2 + i);
		to_tick(rig, 1);
		arm_tick(&p[63], 200);
		steps = 0;
		do {
			before = bitmap_weight(rig->wheel.level[0].occupied, 64);
			more = wheel_advance(&rig->wheel, rig->now, 1);
			weight = bitmap_weight(rig->wheel.level[0].occupied, 64);
			KUNIT_EXPECT_LE(test, before, weight + 1);
			steps++;
		} while (more && !(stop && steps == 64));
		KUNIT_EXPECT_EQ(test, stop, rig->wheel.growing);
		KUNIT_EXPECT_EQ(test, 2, rig->wheel.levels);
		if (stop) {
			KUNIT_EXPECT_EQ(test, 64, rig_stop(rig, &pending));
			continue;
		}
		KUNIT_EXPECT_GT(test, steps, 2 * 63);
		drive(rig, NULL, 300 * TICK);
		expect_in_order(rig, p, 64);
	}
}

/* However often they are pushed back, while the wheel grows timeouts fall once. Promise 13. */
static void pushed_back_while_growing(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i;
	u64 tick = 2;

	shape_of(rig, TICK, 64, 1, true);
	p = probes(rig, 11);
	for (i = 0; i < 10; i++)
		arm_tick(&p[i], tick);
	to_tick(rig, 1);
	arm_tick(&p[10], 200);
	while (wheel_advance(&rig->wheel, rig->now, 1)) {
		tick = min(tick + 1, 60ULL);
		for (i = 0; i < 10; i++)
			touch_tick(&p[i], tick);
	}
	KUNIT_EXPECT_LT(test, 10ULL, tick);
	KUNIT_EXPECT_EQ(test, 11UL, counts(rig).cascaded);
	drive(rig, NULL, 300 * TICK);
	expect_in_order(rig, p, 11);
}

static const struct {
	const char	*name;
	u64		ns;
} spans[] = {
	{ "1 ms", NSEC_PER_MSEC }, { "10 ms", 10 * NSEC_PER_MSEC },
	{ "100 ms", 100 * NSEC_PER_MSEC }, { "1 s", NSEC_PER_SEC },
	{ "10 s", 10 * NSEC_PER_SEC }, { "1 min", 60 * NSEC_PER_SEC },
	{ "10 min", 600 * NSEC_PER_SEC }, { "1 h", HOUR }, { "1 day", DAY },
	{ "10 days", 10 * DAY }, { "30 days", 30 * DAY }, { "1 year", 365 * DAY },
};

static const struct {
	unsigned int	levels;
	bool		grow;
} kinds[] = { { 1, false }, { 4, false }, { 1, true } };

/* One that is due in each round, at the slot of another that is far away. */
static void next_round(struct probe *p)
{
	p->deadline += (u64)p->rig->wheel.slots * p->rig->wheel.tick_ns;
	if (p->deadline < p->other->deadline)
		arm(p, p->deadline);
}

/*
 * How often one timeout is looked at in its life. With rounds, another one makes its
 * bucket be looked through in each; with levels, all the slots come up one after
 * the other, as far as 100000 steps go.
 */
static unsigned long life(struct rig *rig, u64 span)
{
	u64 tick_ns = rig->wheel.tick_ns, round = tick_ns * rig->wheel.slots, rest;
	u64 step = max(div_u64(span, 100000), tick_ns);
	struct probe *p = probes(rig, 2);
	unsigned long n;

	p[0].deadline = span;
	arm(&p[0], span);
	if (has_rounds(rig)) {
		step = round;
		div64_u64_rem(span, round, &rest);
		rig->now = rest;
		p[1].then = next_round;
		p[1].other = &p[0];
		p[1].deadline = rest;
		if (rest && rest < span)
			arm(&p[1], rest);
		else
			next_round(&p[1]);
	}
	for (n = 0; rig->now < span; n++) {
		advance_to(rig, rig->now);
		KUNIT_EXPECT_EQ(rig->test, 0, p[0].fired);
		rig->now = min(rig->now + step, span);
		if (!(n % 65536))
			cond_resched();
	}
	advance_to(rig, span);
	expect_fired(&p[0], 1, div64_u64(span, tick_ns));
	return counts(rig).visits - p[1].fired;
}

/* The table of docs/modules. */
static void visits_per_life(struct kunit *test)
{
	struct rig *rig = test->priv;
	char n[ARRAY_SIZE(kinds)][16];
	unsigned int i, k;
	unsigned long v;

	kunit_info(test, "visits in the life of a timeout, tick 1 ms, 512 slots\n");
	kunit_info(test, "%-8s %10s %10s %10s\n", "span", "1 level", "4 levels", "growing");
	for (i = 0; i < ARRAY_SIZE(spans); i++) {
		for (k = 0; k < ARRAY_SIZE(kinds); k++) {
			strscpy(n[k], "-", sizeof(n[k]));
			/* so many rounds take too long where all is checked */
			if (!k && spans[i].ns >= DAY && IS_ENABLED(CONFIG_KASAN))
				continue;
			shape_of(rig, NSEC_PER_MSEC, 512, kinds[k].levels, kinds[k].grow);
			v = life(rig, spans[i].ns);
			snprintf(n[k], sizeof(n[k]), "%lu", v);
			if (k)
				KUNIT_EXPECT_LE(test, v, rig->wheel.levels + 2UL);
			else
				KUNIT_EXPECT_EQ(test, v, (unsigned long)
						DIV_ROUND_UP_ULL(spans[i].ns,
								 512 * NSEC_PER_MSEC));
		}
		kunit_info(test, "%-8s %10s %10s %10s\n", spans[i].name, n[0], n[1], n[2]);
	}
}

#define MANY		1000000U

/* A million far ones: nothing to do at a tick, and little in all of their lives. */
static void far_million(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct hwtimer_timeout *t;
	struct wheel_counts c;
	unsigned int i, k;
	u64 until;

	for (k = 1; k < ARRAY_SIZE(kinds); k++) {
		shape_of(rig, NSEC_PER_MSEC, 512, kinds[k].levels, kinds[k].grow);
		t = kvcalloc(MANY + 1, sizeof(*t), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, t);
		rig->bulk = t;
		for (i = 0; i < MANY; i++) {
			wheel_timeout_init(&t[i], &rig->wheel, no_fn);
			/* each 2592 ms from the second hour on; one is a ms off */
			wheel_arm(&t[i], HOUR + i * 2592ULL * NSEC_PER_MSEC + i % 2);
		}
		advance_to(rig, 0);
		c = counts(rig);
		KUNIT_EXPECT_EQ(test, (unsigned long)MANY, c.drained);
		KUNIT_EXPECT_LE(test, c.visits, (unsigned long)MANY);

		/* The worker sleeps over it all, or is woken at each tick. */
		KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
		wheel_awake(&rig->wheel);
		advance_to(rig, WHEEL_DRAIN_NS);
		until = sleep_until(rig);
		wheel_awake(&rig->wheel);
		KUNIT_EXPECT_EQ(test, HOUR, until);
		c = counts(rig);
		for (i = 251; i <= 60000; i++)
			to_tick(rig, i);
		/* a minute of ticks: what fell into the level below */
		kunit_info(test, "%s: %lu visits in 60000 ticks, a million pending\n",
			   kinds[k].grow ? "growing" : "4 levels",
			   counts(rig).visits - c.visits);
		KUNIT_EXPECT_LE(test, counts(rig).visits - c.visits, MANY / 1000UL);
		KUNIT_EXPECT_EQ(test, 0UL, counts(rig).ticks);

		drive(rig, NULL, 31 * DAY);
		c = counts(rig);
		KUNIT_EXPECT_EQ(test, (unsigned long)MANY, c.expired);
		KUNIT_EXPECT_LE(test, c.visits, MANY * (rig->wheel.levels + 1UL));
		kunit_info(test, "%s: %lu visits in all\n",
			   kinds[k].grow ? "growing" : "4 levels", c.visits);
	}
}

/* A level comes when the first timeout needs it, and not before. */
static void grow(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	shape_of(rig, TICK, SLOTS, 1, true);
	p = probes(rig, 6);
	to_tick(rig, 4);
	/* cur is 5: the last one within a round, over the end of the turn */
	arm_tick(&p[0], 5 + SLOTS - 1);
	to_tick(rig, 4);
	KUNIT_EXPECT_EQ(test, 1, rig->wheel.levels);
	KUNIT_EXPECT_EQ(test, 0, rig->allocs);
	arm_tick(&p[1], 5 + SLOTS);
	to_tick(rig, 4);
	KUNIT_EXPECT_EQ(test, 2, rig->wheel.levels);
	KUNIT_EXPECT_EQ(test, 1, rig->allocs);
	/* the last of the round of two levels: its slot is 16 wide */
	arm_tick(&p[2], SLOTS * SLOTS - 1);
	arm_tick(&p[3], SLOTS * SLOTS + 15);
	to_tick(rig, 4);
	KUNIT_EXPECT_EQ(test, 3, rig->wheel.levels);
	/* two at once */
	arm_tick(&p[4], 1ULL << 18);
	to_tick(rig, 4);
	KUNIT_EXPECT_EQ(test, 5, rig->wheel.levels);
	KUNIT_EXPECT_EQ(test, 4, rig->allocs);
	/* as touched as armed */
	touch_tick(&p[4], 1ULL << 24);
	drive(rig, NULL, (u64)TICK << 18);
	KUNIT_EXPECT_EQ(test, 7, rig->wheel.levels);
	expect_fired(&p[4], 0, 0);
	/* what never comes needs none */
	arm(&p[5], WHEEL_FOREVER);
	drive(rig, NULL, (u64)TICK << 25);
	KUNIT_EXPECT_EQ(test, 7, rig->wheel.levels);
	expect_fired(&p[0], 1, 5 + SLOTS - 1);
	expect_fired(&p[1], 1, 5 + SLOTS);
	expect_fired(&p[2], 1, SLOTS * SLOTS - 1);
	expect_fired(&p[3], 1, SLOTS * SLOTS + 15);
	expect_fired(&p[4], 1, 1ULL << 24);
	expect_fired(&p[5], 0, 0);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).grow_failures);
}

/* The search of a long level for what is to fall goes on where it stopped. */
static void grow_from_long(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	shape_of(rig, TICK, 2 * WHEEL_LOOKAHEAD, 1, true);
	p = probes(rig, 2);
	to_tick(rig, WHEEL_LOOKAHEAD);
	/* in the next turn, in the first slot of the second run */
	arm_tick(&p[0], 3 * WHEEL_LOOKAHEAD);
	to_tick(rig, WHEEL_LOOKAHEAD);
	KUNIT_EXPECT_EQ(test, 1, rig->wheel.levels);
	arm_tick(&p[1], 9 * WHEEL_LOOKAHEAD);
	to_tick(rig, WHEEL_LOOKAHEAD);
	KUNIT_EXPECT_EQ(test, 2, rig->wheel.levels);
	drive(rig, NULL, 10 * WHEEL_LOOKAHEAD * (u64)TICK);
	expect_fired(&p[0], 1, 3 * WHEEL_LOOKAHEAD);
	expect_fired(&p[1], 1, 9 * WHEEL_LOOKAHEAD);
}

/* What was in the next turn of the old top level is in time although nothing else is near. */
static void grow_over_turn(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	shape_of(rig, TICK, SLOTS, 1, true);
	p = probes(rig, 4);
	to_tick(rig, 4);
	arm_tick(&p[0], 5 + SLOTS - 1);
	to_tick(rig, 4);
	arm_tick(&p[1], 5 * SLOTS);
	drive(rig, NULL, 6 * SLOTS * TICK);
	KUNIT_EXPECT_EQ(test, 2, rig->wheel.levels);
	expect_fired(&p[0], 1, 5 + SLOTS - 1);
	expect_fired(&p[1], 1, 5 * SLOTS);
	/* and again, with the second level */
	arm_tick(&p[2], SLOTS * SLOTS + 4);
	to_tick(rig, 6 * SLOTS);
	arm_tick(&p[3], 20 * SLOTS * SLOTS);
	drive(rig, NULL, 21 * SLOTS * SLOTS * TICK);
	KUNIT_EXPECT_EQ(test, 4, rig->wheel.levels);
	expect_fired(&p[2], 1, SLOTS * SLOTS + 4);
	expect_fired(&p[3], 1, 20 * SLOTS * SLOTS);
}

/* How far a timeout was to reach that found no memory is nothing to the next one. */
static void grow_by_need(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	shape_of(rig, TICK, SLOTS, 1, true);
	p = probes(rig, 2);
	rig->no_memory = true;
	arm_tick(&p[0], 9000);
	to_tick(rig, 0);
	KUNIT_EXPECT_EQ(test, 1, rig->wheel.levels);
	KUNIT_EXPECT_TRUE(test, wheel_cancel(&p[0].t));
	rig->no_memory = false;
	arm_tick(&p[1], 40);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 2, rig->wheel.levels);
	drive(rig, &p[1], 100 * TICK);
	expect_fired(&p[1], 1, 40);
}

/* No memory: rounds have to do. There is some again: all go where they belong. */
static void grow_fails(struct kunit *test)
{
	static const u64 ticks[] = { 3, 40, 500, 40, 9000, 500, 16, 17, 18, 500 };
	struct rig *rig = test->priv;
	struct wheel_counts c;
	struct probe *p;
	unsigned int i;

	shape_of(rig, TICK, SLOTS, 1, true);
	p = probes(rig, 20);
	rig->no_memory = true;
	for (i = 0; i < 10; i++)
		arm_tick(&p[i], ticks[i]);
	to_tick(rig, 0);
	KUNIT_EXPECT_EQ(test, 1, rig->wheel.levels);
	/* tried, and counted, once in a pass */
	KUNIT_EXPECT_EQ(test, 1, rig->allocs);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).grow_failures);
	KUNIT_EXPECT_EQ(test, 10UL, counts(rig).pending);
	step_to_tick(rig, 20);
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_EQ(test, ticks[i] <= 20, p[i].fired);
	/* until here nobody needed another level */
	rig->no_memory = false;
	for (i = 10; i < 20; i++)
		arm_tick(&p[i], i % 2 ? 500 : 40);
	to_tick(rig, 20);
	KUNIT_EXPECT_GT(test, rig->wheel.levels, 1);
	c = counts(rig);
	drive(rig, NULL, 10000 * TICK);
	for (i = 0; i < 10; i++)
		expect_fired(&p[i], 1, ticks[i]);
	/* in the order of arming, before the level came and after */
	KUNIT_EXPECT_LT(test, p[1].rank, p[3].rank);
	KUNIT_EXPECT_LT(test, p[2].rank, p[5].rank);
	KUNIT_EXPECT_LT(test, p[5].rank, p[9].rank);
	KUNIT_EXPECT_LT(test, p[3].rank, p[10].rank);
	KUNIT_EXPECT_LT(test, p[9].rank, p[11].rank);
	for (i = 12; i < 20; i++)
		KUNIT_EXPECT_LT(test, p[i - 2].rank, p[i].rank);
	KUNIT_EXPECT_EQ(test, 20, rig->fired);
	KUNIT_EXPECT_LE(test, counts(rig).visits - c.visits, 20UL * 4);
}

static void arm_far_and_drain(struct probe *p)
{
	struct rig *rig = p->rig;

	/* as somebody does who waits inside a callback */
	arm_tick(p->other, 1000);
	wheel_drain_all(&rig->wheel);
	KUNIT_EXPECT_EQ(rig->test, 1, rig->wheel.levels);
	KUNIT_EXPECT_TRUE(rig->test, wheel_pending(&p->other->t));
}

/* The drain of a callback cannot grow the wheel; the pass does. */
static void grow_in_callback(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	shape_of(rig, TICK, SLOTS, 1, true);
	p = probes(rig, 3);
	p[0].then = arm_far_and_drain;
	p[0].other = &p[1];
	arm_tick(&p[0], 5);
	arm_tick(&p[2], 5);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 2, rig->fired);
	KUNIT_EXPECT_EQ(test, 3, rig->wheel.levels);
	KUNIT_EXPECT_TRUE(test, list_empty(&rig->wheel.far));
	drive(rig, &p[1], DAY);
	expect_fired(&p[1], 1, 1000);
}

/* As somebody does who waits inside the callback of a release. */
static void released_and_drain(struct hwtimer_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);
	struct rig *rig = p->rig;

	p->released++;
	arm_tick(p->other, 40);
	wheel_drain_all(&rig->wheel);
}

/* The pass is over when a release is told of. Still nothing waits for too long. */
static void grow_in_release(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i;

	/* one that was not pending, and one that would never have come */
	for (i = 0; i < 2; i++) {
		shape_of(rig, TICK, SLOTS, 1, true);
		p = probes(rig, 2);
		p[0].other = &p[1];
		arm_tick(&p[0], 5);
		if (i)
			arm(&p[1], WHEEL_FOREVER);
		to_tick(rig, 1);
		/* nobody arms any more */
		sleep_until(rig);
		sleep_until(rig);
		wheel_awake(&rig->wheel);
		wheel_release(&p[0].t, released_and_drain);
		drive(rig, &p[1], DAY);
		KUNIT_EXPECT_EQ(test, 1, p[0].released);
		expect_fired(&p[1], 1, 40);
		KUNIT_EXPECT_EQ(test, 40ULL * TICK, rig->now);
	}
}

static void arm_next_round_and_drain(struct probe *p)
{
	arm_tick(p->other, 5 + SLOTS);
	wheel_drain_all(&p->rig->wheel);
}

/* Without memory for levels, too, and if a callback takes over requests. */
static void order_without_memory(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	shape_of(rig, TICK, SLOTS, 1, true);
	rig->no_memory = true;
	p = probes(rig, 3);
	p[0].then = arm_next_round_and_drain;
	p[0].other = &p[2];
	arm_tick(&p[0], 5);
	arm_tick(&p[1], 5 + SLOTS);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
	to_tick(rig, 5 + SLOTS);
	expect_fired(&p[1], 1, 5 + SLOTS);
	expect_fired(&p[2], 1, 5 + SLOTS);
	KUNIT_EXPECT_LT(test, p[1].rank, p[2].rank);
}

/* What falls is counted, and costs the budget. */
static void falling_counts(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct wheel_counts c;
	unsigned int i, steps;
	struct probe *p;

	/* 0x3e8: two levels to fall, at 0x300 and at 0x3e0 */
	shape_of(rig, TICK, SLOTS, 4, false);
	p = probes(rig, 3);
	for (i = 0; i < 3; i++)
		arm_tick(&p[i], 1000);
	step_to_tick(rig, 766);
	KUNIT_EXPECT_EQ(test, 0UL, counts(rig).visits);
	KUNIT_EXPECT_EQ(test, 3U, filed(rig, 2, 3));
	/* when this tick is over the next one has begun */
	rig->now = 767 * TICK;
	for (steps = 1; wheel_advance(&rig->wheel, rig->now, 1); steps++)
		KUNIT_EXPECT_EQ(test, (unsigned long)steps, counts(rig).visits);
	KUNIT_EXPECT_EQ(test, 3, steps);
	KUNIT_EXPECT_EQ(test, 3U, filed(rig, 1, 14));
	c = counts(rig);
	KUNIT_EXPECT_EQ(test, 3UL, c.visits);
	KUNIT_EXPECT_EQ(test, 3UL, c.cascaded);
	step_to_tick(rig, 1000);
	c = counts(rig);
	KUNIT_EXPECT_EQ(test, 9UL, c.visits);
	KUNIT_EXPECT_EQ(test, 6UL, c.cascaded);
	KUNIT_EXPECT_EQ(test, 0UL, c.refiled);
	KUNIT_EXPECT_EQ(test, 1UL, c.ticks);
	KUNIT_EXPECT_EQ(test, 3, rig->fired);

	/* The first of those too far needs more levels than the last. */
	shape_of(rig, TICK, SLOTS, 1, true);
	p = probes(rig, 2);
	arm_tick(&p[0], 1ULL << 18);
	arm_tick(&p[1], 40);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 5, rig->wheel.levels);
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).visits);
}

/* Much too late for few: nobody looks at the ticks where there is nothing. */
static void late_and_alone(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int n, i;
	struct probe *p;

	for (n = 1; n <= 3; n++) {
		shape_of(rig, TICK, SLOTS, n, false);
		p = probes(rig, 3);
		for (i = 0; i < 3; i++)
			arm_tick(&p[i], 5000 + 3000 * i);
		to_tick(rig, 0);
		to_tick(rig, 1000000);
		KUNIT_EXPECT_EQ(test, 3, rig->fired);
		KUNIT_EXPECT_LE(test, counts(rig).ticks, 3UL);
		KUNIT_EXPECT_LE(test, counts(rig).visits, 3UL * n);
	}

	/* What is in the levels below comes first, and in its order. */
	shape_of(rig, TICK, SLOTS, 2, false);
	p = probes(rig, 4);
	for (i = 0; i < 4; i++)
		arm_tick(&p[i], 15 - 3 * i);
	to_tick(rig, 0);
	to_tick(rig, 1000000);
	for (i = 0; i < 4; i++) {
		expect_fired(&p[i], 1, 15 - 3 * i);
		KUNIT_EXPECT_EQ(test, 4 - i, p[i].rank);
	}
}

/* With one level it stayed in its bucket for a later round. Not when it grows. */
static void touched_then_grow(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	shape_of(rig, TICK, SLOTS, 1, true);
	p = probes(rig, 3);
	arm_tick(&p[0], 5);
	to_tick(rig, 1);
	touch_tick(&p[0], 5 + 2 * SLOTS);
	to_tick(rig, SLOTS);
	KUNIT_EXPECT_EQ(test, 1, rig->wheel.levels);
	arm_tick(&p[1], 2 * SLOTS - 1);
	arm_tick(&p[2], 1000);
	to_tick(rig, SLOTS);
	KUNIT_EXPECT_EQ(test, 3, rig->wheel.levels);
	drive(rig, &p[1], DAY);
	KUNIT_EXPECT_EQ(test, (2ULL * SLOTS - 1) * TICK, rig->now);
	expect_fired(&p[1], 1, 2 * SLOTS - 1);
	drive(rig, &p[2], DAY);
	expect_fired(&p[0], 1, 5 + 2 * SLOTS);
	expect_fired(&p[2], 1, 1000);
}

/* A stop finds them wherever they are. */
static void falling_stop(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct list_head pending;
	struct probe *p;
	unsigned int i;

	shape_of(rig, TICK, SLOTS, 4, false);
	p = probes(rig, 4);
	for (i = 0; i < 4; i++)
		arm_tick(&p[i], 1000);
	to_tick(rig, 766);
	KUNIT_EXPECT_TRUE(test, wheel_advance(&rig->wheel, 767 * TICK, 2));
	KUNIT_EXPECT_FALSE(test, list_empty(&rig->wheel.falling));
	KUNIT_EXPECT_EQ(test, 4, rig_stop(rig, &pending));

	shape_of(rig, TICK, SLOTS, 1, true);
	p = probes(rig, 2);
	to_tick(rig, 1);
	arm_tick(&p[0], 1000);
	arm(&p[1], WHEEL_FOREVER);
	wheel_drain_all(&rig->wheel);
	KUNIT_EXPECT_FALSE(test, list_empty(&rig->wheel.far));
	KUNIT_EXPECT_EQ(test, 2, rig_stop(rig, &pending));
}

/* A large level on top of another: far ones let the worker sleep there, too. */
static void far_wakes_large(struct kunit *test)
{
	const unsigned int slots = 2 * WHEEL_LOOKAHEAD;
	struct rig *rig = test->priv;
	struct probe *p;
	u64 tick;

	shape_of(rig, TICK, slots, 2, false);
	p = probes(rig, 1);
	tick = (WHEEL_LOOKAHEAD + 1000ULL) * slots + 5;
	arm_tick(&p[0], tick);
	/* once to drain, once at the end of what it looks ahead at */
	KUNIT_EXPECT_LE(test, drive(rig, &p[0], 365 * DAY), 4U);
	expect_fired(&p[0], 1, tick);
	KUNIT_EXPECT_EQ(test, tick * TICK, rig->now);
}

/* Pushed back by a round, into the bucket that they come from: not in circles. */
static void touched_by_a_round(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int i, k, steps;
	struct probe *p;

	for (k = 0; k < ARRAY_SIZE(kinds); k++) {
		shape_of(rig, TICK, SLOTS, kinds[k].levels, kinds[k].grow);
		p = probes(rig, 8);
		for (i = 0; i < 8; i++)
			arm_tick(&p[i], 5);
		to_tick(rig, 4);
		for (i = 0; i < 8; i++)
			touch_tick(&p[i], 5 + SLOTS);
		rig->now = 5 * TICK;
		for (steps = 1; wheel_advance(&rig->wheel, rig->now, 1); steps++)
			if (steps == 100)
				break;
		KUNIT_ASSERT_LE(test, steps, 3U * 8);
		KUNIT_EXPECT_EQ(test, 8UL, counts(rig).visits);
		drive(rig, NULL, DAY);
		for (i = 0; i < 8; i++)
			expect_fired(&p[i], 1, 5 + SLOTS);
	}
}

/* A cancelled one falls no further, and one that was released is told of at once. */
static void falling_ends(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p;

	shape_of(rig, TICK, SLOTS, 4, false);
	p = probes(rig, 3);
	arm_tick(&p[0], 1000);
	arm_tick(&p[1], 1000);
	arm_tick(&p[2], 1001);
	to_tick(rig, 1);
	wheel_cancel(&p[0].t);
	wheel_release(&p[1].t, probe_released);
	to_tick(rig, 2);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_TRUE(test, wheel_holds(&p[0].t));
	to_tick(rig, 768);
	KUNIT_EXPECT_FALSE(test, wheel_holds(&p[0].t));
	KUNIT_EXPECT_EQ(test, 1UL, rig->wheel.filed);
	to_tick(rig, 1001);
	expect_fired(&p[2], 1, 1001);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
}

#define SOAK_PROBES	256
#define SOAK_YEARS	12

/* One of the soak's, and what it has to do. */
static void soak_fired(struct probe *p)
{
	struct rig *rig = p->rig;
	u64 due = div64_u64(p->deadline + rig->wheel.tick_ns - 1, rig->wheel.tick_ns);
	u64 now = div64_u64(rig->now, rig->wheel.tick_ns);

	/* The clock moves from event to event: never early, and never late. */
	if (p->tick != due || now != due)
		KUNIT_FAIL(rig->test, "due at tick %llu, fired for %llu at %llu", due,
			   p->tick, now);
	p->ret = 0;
}

/* From a tick to a year, each order of magnitude alike. */
static u64 soak_delay(struct rnd_state *rnd)
{
	u64 delay = 1 + prandom_u32_state(rnd);

	delay = delay << 23 | prandom_u32_state(rnd) >> 9;
	return NSEC_PER_MSEC + (delay >> prandom_u32_state(rnd) % 36);
}

/* What the soak did, to be compared with what the wheel says. */
struct soak {
	struct rig		*rig;
	struct probe		*p;
	struct rnd_state	rnd;
	unsigned long		armed;
	unsigned long		touched;
	unsigned long		cancelled;
	unsigned long		operations;
};

static void soak_operate(struct soak *s)
{
	struct probe *p = &s->p[prandom_u32_state(&s->rnd) % SOAK_PROBES];
	u64 deadline = s->rig->now + soak_delay(&s->rnd);
	bool was = wheel_pending(&p->t);
	int ret, want;

	s->operations++;
	p->then = soak_fired;
	switch (prandom_u32_state(&s->rnd) % 8) {
	case 0 ... 3:
		ret = arm(p, deadline);
		want = was;
		s->armed += !was;
		s->touched += was;
		p->deadline = deadline;
		break;
	case 4 ... 6:
		ret = wheel_touch(&p->t, deadline);
		want = was ? 0 : -ENOENT;
		s->touched += was;
		if (was)
			p->deadline = deadline;
		break;
	default:
		ret = wheel_cancel(&p->t);
		want = was;
		s->cancelled += was;
	}
	KUNIT_EXPECT_EQ(s->rig->test, want, ret);
}

/*
 * Years of a wheel, driven as the kthread does it. The books: every arming that the
 * test made ended as the wheel says, and in one way.
 */
static void soak(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct list_head pending;
	struct wheel_counts c;
	struct soak s;
	unsigned int k, i;
	u64 until, next;

	for (k = 0; k < ARRAY_SIZE(kinds); k++) {
		shape_of(rig, NSEC_PER_MSEC, 512, kinds[k].levels, kinds[k].grow);
		memset(&s, 0, sizeof(s));
		s.rig = rig;
		s.p = probes(rig, SOAK_PROBES);
		prandom_seed_state(&s.rnd, chaos_seed + k);
		next = 0;
		while (rig->now < SOAK_YEARS * 365 * DAY) {
			/* Some at a time, then none for up to some days. */
			if (rig->now >= next) {
				for (i = prandom_u32_state(&s.rnd) % 16; i; i--)
					soak_operate(&s);
				next = rig->now + (soak_delay(&s.rnd) >> 6);
				cond_resched();
			}
			advance_to(rig, rig->now);
			until = sleep_until(rig);
			wheel_awake(&rig->wheel);
			rig->now = min(max(until, rig->now), next);
		}
		c = counts(rig);
		kunit_info(test, "%s: %d years, %lu operations, seed %llu: %lu armed, %lu touched, %lu cancelled, %lu expired, %lu pending; %lu ticks, %lu visits\n",
			   kinds[k].grow ? "growing" : k ? "4 levels" : "1 level",
			   SOAK_YEARS, s.operations, chaos_seed, c.armed, c.touched,
			   c.cancelled, c.expired, c.pending, c.ticks, c.visits);
		KUNIT_EXPECT_EQ(test, s.armed, c.armed);
		KUNIT_EXPECT_EQ(test, s.touched, c.touched);
		KUNIT_EXPECT_EQ(test, s.cancelled, c.cancelled);
		KUNIT_EXPECT_EQ(test, (unsigned long)rig->fired, c.expired);
		KUNIT_EXPECT_GT(test, c.expired, 1000UL);
		KUNIT_EXPECT_EQ(test, (unsigned long)rig_stop(rig, &pending),
				s.armed - s.cancelled - rig->fired);
	}
}

static int levels_suite_init(struct kunit_suite *suite)
{
	chaos_seed = hwtimer_kunit_seed();
	return one_level(suite);
}

SUITE(levels, levels_suite_init, "levels",
	KUNIT_CASE(visits_per_life),
	KUNIT_CASE(far_million),
	KUNIT_CASE(grow),
	KUNIT_CASE(grow_over_turn),
	KUNIT_CASE(grow_from_long),
	KUNIT_CASE(grow_fails),
	KUNIT_CASE(grow_by_need),
	KUNIT_CASE(grow_in_callback),
	KUNIT_CASE(grow_in_release),
	KUNIT_CASE(order_without_memory),
	KUNIT_CASE(touched_by_a_round),
	KUNIT_CASE(late_and_alone),
	KUNIT_CASE(look_at_level),
	KUNIT_CASE(budget_of_looks),
	KUNIT_CASE(budget_of_nothing),
	KUNIT_CASE(budget_of_levels),
	KUNIT_CASE(budget_of_growing),
	KUNIT_CASE(pushed_back_while_growing),
	KUNIT_CASE(touched_then_grow),
	KUNIT_CASE(falling_stop),
	KUNIT_CASE(far_wakes_large),
	KUNIT_CASE(falling_counts),
	KUNIT_CASE(falling_ends),
	KUNIT_CASE(soak));

/* Suite hwtimer_wheel_init: parameters. */

static const struct init_param {
	const char	*desc;
	u64		tick_ns;
	unsigned int	slots;
	int		ret;
	unsigned int	rounded;
	unsigned int	levels;
	bool		grow;
	unsigned int	most;
} init_params[] = {
	{ "1 slot", TICK, 1, 0, 1 },
	{ "2 slots", TICK, 2, 0, 2 },
	{ "3 slots", TICK, 3, 0, 4 },
	{ "4 slots", TICK, 4, 0, 4 },
	{ "5 slots", TICK, 5, 0, 8 },
	{ "1000 slots", TICK, 1000, 0, 1024 },
	{ "65537 slots", TICK, 65537, 0, 131072 },
	{ "tick 1 ns", 1, 8, 0, 8 },
	{ "tick 1 h", HOUR, 8, 0, 8 },
	{ "tick 0", 0, 8, -EINVAL },
	{ "slots 0", TICK, 0, -EINVAL },
	{ "tick 0, slots 0", 0, 0, -EINVAL },
	{ "too many slots", TICK, WHEEL_MAX_SLOTS + 1, -EINVAL },
	{ "most slots one can ask for", TICK, UINT_MAX, -EINVAL },
	/* 24 GiB: kvcalloc() says no without trying */
	{ "most slots", 1, WHEEL_MAX_SLOTS, -ENOMEM },
	{ "most slots, rounded up", 1, WHEEL_MAX_SLOTS - 1, -ENOMEM },
	/* one round is FOREVER at the most, and FOREVER is odd */
	{ "round n-1, 1 slot", WHEEL_FOREVER - 1, 1, 0, 1 },
	{ "round n, 1 slot", WHEEL_FOREVER, 1, 0, 1 },
	{ "round n+1, 1 slot", WHEEL_FOREVER + 1, 1, -EINVAL },
	{ "round n-1, 8 slots", WHEEL_FOREVER / 8 - 1, 8, 0, 8 },
	{ "round n, 8 slots", WHEEL_FOREVER / 8, 8, 0, 8 },
	{ "round n+1, 8 slots", WHEEL_FOREVER / 8 + 1, 8, -EINVAL },
	{ "round n, 5 slots", WHEEL_FOREVER / 8, 5, 0, 8 },
	{ "round n+1, 5 slots are 8", WHEEL_FOREVER / 8 + 1, 5, -EINVAL },
	{ "tick 2^60, 16 slots", 1ULL << 60, 16, -EINVAL },
	{ "longest tick one can ask for", U64_MAX, 1, -EINVAL },
	{ "all too much", U64_MAX, UINT_MAX, -EINVAL },
	{ "levels 0 are 1", TICK, 8, 0, 8, 0, false, 1 },
	{ "1 level", TICK, 8, 0, 8, 1, false, 1 },
	{ "2 levels", TICK, 8, 0, 8, 2, false, 2 },
	{ "16 levels", TICK, 2, 0, 2, 16, false, 16 },
	{ "17 levels", TICK, 2, -EINVAL, 0, 17 },
	{ "most levels one can ask for", TICK, 2, -EINVAL, 0, UINT_MAX },
	{ "2 levels of 1 slot", TICK, 1, -EINVAL, 0, 2 },
	{ "growing, 1 slot", TICK, 1, -EINVAL, 0, 1, true },
	{ "growing, 2 slots", TICK, 2, 0, 2, 1, true, 16 },
	{ "growing, 3 slots are 4", 1, 3, 0, 4, 1, true, 16 },
	/* 1 << 60 is more than there is; a slot of the 15th level is 1 << 56 */
	{ "15 levels of 16 at 1 ns", 1, 16, 0, 16, 15, false, 15 },
	{ "16 levels of 16 at 1 ns", 1, 16, -EINVAL, 0, 16 },
	{ "growing, 16 slots at 1 ns", 1, 16, 0, 16, 0, true, 15 },
	{ "growing from 15 levels", 1, 16, 0, 16, 15, true, 15 },
	{ "growing, no room to grow", WHEEL_FOREVER, 2, -EINVAL, 0, 0, true },
	{ "growing, little room", WHEEL_FOREVER / 8, 8, 0, 8, 0, true, 2 },
	/* 8 ticks are FOREVER less 7 ns */
	{ "2 levels, where a slot is FOREVER", WHEEL_FOREVER / 8, 8, 0, 8, 2, false, 2 },
	{ "3 levels, where a slot is more", WHEEL_FOREVER / 8, 8, -EINVAL, 0, 3 },
	/* where the slot of one level more is 1 << 64 ticks, and beyond */
	{ "8 levels of 256 at 1 ns", 1, 256, 0, 256, 8, false, 8 },
	{ "9 levels of 256 at 1 ns", 1, 256, -EINVAL, 0, 9 },
	{ "growing, 256 slots at 1 ns", 1, 256, 0, 256, 0, true, 8 },
	{ "growing, 65536 slots at 1 us", 1000, 65536, 0, 65536, 0, true, 4 },
	{ "16 levels of 65536 at 1 us", 1000, 65536, -EINVAL, 0, 16 },
};

static void init_desc(const struct init_param *param, char *desc)
{
	strscpy(desc, param->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(init, init_params, init_desc);

/* Promise 11. */
static void init(struct kunit *test)
{
	const struct init_param *param = test->param_value;
	struct wheel_shape shape = {
		.tick_ns = param->tick_ns, .slots = param->slots,
		.levels = param->levels, .grow = param->grow,
	};
	struct rig *rig = test->priv;
	struct probe *p;
	int ret;

	rig_end(rig);
	/* It does not rely on what was there. */
	memset(&rig->wheel, 0xa5, sizeof(rig->wheel));
	ret = wheel_init(&rig->wheel, &shape, &rig_ops, GFP_KERNEL);
	KUNIT_EXPECT_EQ(test, param->ret, ret);
	if (ret)
		return;
	rig->made = true;
	rig->stopped = false;
	KUNIT_EXPECT_EQ(test, param->rounded, rig->wheel.slots);
	KUNIT_EXPECT_EQ(test, max(param->levels, 1U), rig->wheel.levels);
	KUNIT_EXPECT_EQ(test, max(param->most, 1U), rig->wheel.max_levels);
	KUNIT_EXPECT_EQ(test, param->tick_ns, rig->wheel.tick_ns);
	/* and it works */
	p = probes(rig, 2);
	arm_tick(&p[0], 1);
	arm(&p[1], param->tick_ns + 1);
	to_tick(rig, 0);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	if (param->tick_ns < WHEEL_FOREVER) {
		to_tick(rig, 1);
		expect_fired(&p[0], 1, 1);
	}
}

static struct kunit_case init_cases[] = {
	KUNIT_CASE_PARAM(init, init_gen_params),
	{}
};

static struct kunit_suite init_suite = {
	.name		= "hwtimer_wheel_init",
	.suite_init	= one_level,
	.init		= rig_init,
	.exit		= rig_exit,
	.test_cases	= init_cases,
};

/*
 * Suite hwtimer_wheel_random: everything at random, compared with a model that
 * is an array of deadlines. Each call's result, who fires in which pass and in
 * which order, the counts, when the worker may sleep and who has to kick it.
 */

#define ENTRIES		96
#define OPERATIONS	200000

struct chaos;

/* One timeout, and what the model says of it. */
struct entry {
	struct hwtimer_timeout	t;
	struct chaos		*c;
	unsigned int		index;
	bool			armed;
	bool			dead;
	/* released, and not told yet */
	bool			leaving;
	/* to be let go of by the end of the next pass */
	bool			detached;
	/* the last one it was given; U64_MAX: none since it fired */
	u64			deadline;
	/* in which pass the worker was asked to look: it will in the next one */
	u64			asked;
	/* not for an earlier tick than this */
	u64			from;
	/* of arming; 0: the wheel held it then, or it was moved since */
	u64			order;
};

struct chaos {
	struct rig		*rig;
	struct rnd_state	rnd;
	u64			seed;
	struct entry		*entries[ENTRIES];
	struct entry		*running;
	unsigned long		done;
	bool			failed;

	u64			tick_ns;
	unsigned int		slots;
	/* of the top level, in ticks, when the pass began */
	u64			round;
	unsigned long		cap;
	unsigned long		pending;
	unsigned long		armed;
	unsigned long		touched;
	unsigned long		cancelled;
	unsigned long		expired;
	unsigned long		rejected;
	u64			order;
	/* of pending, over all passes */
	u64			sum;
	/* the first tick that is not over */
	u64			cur;

	/* somebody asked since the last pass began; so many were not told yet */
	bool			requests;
	unsigned long		leaving;
	/*
	 * The budget may have run out when all was done but to tell of releases:
	 * then the worker may have seen to requests made since the pass began.
	 */
	bool			extra;
	unsigned long		armed_seen;
	bool			asleep;
	u64			until;
	u64			ring_below;
	unsigned int		kicks;

	/* the pass that is under way, or was the last */
	bool			passing;
	bool			sliced;
	u64			pass;
	u64			from;
	u64			target;
	u64			last_tick;
	u64			last_order;
};

static const struct geometry {
	const char	*desc;
	u64		tick_ns;
	unsigned int	slots;
	unsigned long	cap;
	bool		old;
	unsigned int	levels;
	bool		grow;
	/* if not 0: of so many tries to add a level one finds memory */
	unsigned int	no_memory;
} geometries[] = {
	{ "1 ms, 64 slots", NSEC_PER_MSEC, 64, 0, false },
	{ "1 ms, 64 slots, cap 20", NSEC_PER_MSEC, 64, 20, false },
	{ "1 ms, 1 slot", NSEC_PER_MSEC, 1, 0, false },
	{ "1 ms, 2 slots, cap 1", NSEC_PER_MSEC, 2, 1, false },
	{ "1 ns, 8 slots", 1, 8, 0, false },
	{ "3 ns, 256 slots", 3, 256, 0, false },
	{ "999983 ns, 16 slots, cap 60", 999983, 16, 60, false },
	{ "300 ms, 512 slots", 300 * NSEC_PER_MSEC, 512, 0, false },
	{ "1 h, 4 slots", HOUR, 4, 0, false },
	{ "1000 ns, 32 slots, near its end", 1000, 32, 70, true },
	{ "1 ms, 2 levels of 8", NSEC_PER_MSEC, 8, 0, false, 2 },
	{ "1 ms, 3 levels of 4, cap 20", NSEC_PER_MSEC, 4, 20, false, 3 },
	{ "1 ms, 4 levels of 64", NSEC_PER_MSEC, 64, 0, false, 4 },
	{ "1 ns, 16 levels of 2", 1, 2, 0, false, 16 },
	{ "3 ns, 7 levels of 256", 3, 256, 0, false, 7 },
	{ "1000 ns, 4 levels of 32, near its end", 1000, 32, 70, true, 4 },
	{ "1 h, 3 levels of 4", HOUR, 4, 0, false, 3 },
	{ "1 ms, growing, 64 slots", NSEC_PER_MSEC, 64, 0, false, 1, true },
	{ "1 ms, growing, 2 slots", NSEC_PER_MSEC, 2, 30, false, 1, true },
	{ "1 ns, growing, 8 slots", 1, 8, 0, false, 1, true },
	{ "999983 ns, growing from 3, 16 slots", 999983, 16, 60, false, 3, true },
	{ "1 ms, growing if there is memory, 4 slots", NSEC_PER_MSEC, 4, 0, false, 1, true, 50 },
	{ "1 ns, growing if there is memory, 64 slots", 1, 64, 0, false, 1, true, 30 },
	{ "1000 ns, growing near its end", 1000, 32, 0, true, 1, true },
};

static void agree(struct chaos *c, bool holds, const char *what)
{
	if (c->failed || holds)
		return;
	c->failed = true;
	KUNIT_FAIL(c->rig->test, "%s: operation %lu, pass %llu, now %llu", what, c->done,
		   c->pass, c->rig->now);
}

static u32 below(struct chaos *c, u32 n)
{
	return prandom_u32_state(&c->rnd) % n;
}

static u64 below64(struct chaos *c, u64 n)
{
	u64 r = (u64)prandom_u32_state(&c->rnd) << 32, rem;

	r |= prandom_u32_state(&c->rnd);
	div64_u64_rem(r, n, &rem);
	return rem;
}

static u64 tick_of(struct chaos *c, u64 deadline)
{
	u64 rem, tick = div64_u64_rem(deadline, c->tick_ns, &rem);

	return rem ? tick + 1 : tick;
}

/* Has to fire in this pass, unless somebody ends or moves it. */
static bool due(struct chaos *c, const struct entry *e)
{
	return e->armed && c->target >= c->from && e->asked != c->pass &&
	       max(tick_of(c, e->deadline), e->from) <= c->target;
}

static struct entry *some_entry(struct chaos *c)
{
	return c->entries[below(c, ENTRIES)];
}

static u64 some_deadline(struct chaos *c)
{
	u64 now = c->rig->now, round = c->tick_ns * c->slots;

	switch (below(c, 16)) {
	case 0:
		return 0;
	case 1:
		return now - min(now, below64(c, 3 * c->tick_ns));
	case 2:
		return below(c, 2) ? U64_MAX : WHEEL_FOREVER - below64(c, 2 * c->tick_ns);
	case 3:
	case 4:
		/* about a boundary */
		return (c->cur + below64(c, 2 * c->slots)) * c->tick_ns + below(c, 3) - 1;
	case 5 ... 9:
		return now + below64(c, 4 * c->tick_ns);
	case 10 ... 14:
		return now + below64(c, 2 * round);
	default:
		return now + below64(c, 50 * round);
	}
}

static void expect_kick(struct chaos *c, u64 deadline)
{
	if (c->asleep && deadline < c->ring_below) {
		c->ring_below = 0;
		c->kicks++;
	}
}

static void ask(struct chaos *c, struct entry *e)
{
	c->requests = true;
	if (c->passing)
		e->asked = c->pass;
}

static void chaos_arm(struct chaos *c, struct entry *e, u64 deadline, bool touch)
{
	bool held = e->deadline != U64_MAX && wheel_holds(&e->t), asks;
	int want, ret;

	ret = touch ? wheel_touch(&e->t, deadline) : wheel_arm(&e->t, deadline);

	if (e->armed)
		want = touch ? 0 : 1;
	else if (e->dead)
		want = -ESHUTDOWN;
	else if (touch)
		want = -ENOENT;
	else if (c->cap && c->pending == c->cap)
		want = -EAGAIN;
	else
		want = 0;
	agree(c, ret == want, touch ? "touch returns" : "arm returns");
	if (want == -EAGAIN)
		c->rejected++;
	if (want < 0)
		return;

	deadline = min(deadline, WHEEL_FOREVER);
	asks = deadline < e->deadline || (!e->armed && !held);
	if (asks)
		ask(c, e);
	if (asks || !e->armed)
		expect_kick(c, deadline);
	if (e->armed) {
		c->touched++;
		e->order = 0;
	} else {
		c->armed++;
		c->pending++;
		e->order = held ? 0 : ++c->order;
	}
	e->armed = true;
	e->detached = false;
	e->deadline = deadline;
	agree(c, wheel_deadline(&e->t) == deadline, "deadline");
}

static void chaos_end(struct chaos *c, struct entry *e, bool kill)
{
	bool ret = kill ? wheel_kill(&e->t) : wheel_cancel(&e->t);

	agree(c, ret == e->armed, kill ? "kill returns" : "cancel returns");
	if (e->armed) {
		c->cancelled++;
		c->pending--;
	}
	e->armed = false;
	e->dead |= kill;
}

static void chaos_detach(struct chaos *c, struct entry *e)
{
	if (e->armed || e == c->running)
		return;
	if (wheel_holds(&e->t)) {
		if (!e->leaving)
			ask(c, e);
		expect_kick(c, 0);
		e->detached = true;
	}
	wheel_detach(&e->t);
}

static void chaos_fired(struct hwtimer_timeout *t);
static void chaos_drain(struct chaos *c);

static struct entry *new_entry(struct chaos *c, unsigned int i)
{
	struct entry *e = kzalloc(sizeof(*e), GFP_KERNEL);

	if (!e) {
		agree(c, false, "memory");
		return NULL;
	}
	e->c = c;
	e->index = i;
	e->deadline = U64_MAX;
	wheel_timeout_init(&e->t, &c->rig->wheel, chaos_fired);
	return e;
}

/* A new one in its place, and the old memory is no timeout any more. */
static void chaos_released(struct hwtimer_timeout *t)
{
	struct entry *e = container_of(t, struct entry, t), *fresh;
	struct chaos *c = e->c;

	agree(c, e->leaving && !e->armed, "released");
	agree(c, e != c->running, "released while running");
	c->leaving--;
	c->extra = c->sliced;
	fresh = new_entry(c, e->index);
	if (!fresh)
		return;
	c->entries[e->index] = fresh;
	memset(e, 0x6b, sizeof(*e));
	kfree(e);
	if (below(c, 4) == 0)
		chaos_drain(c);
}

static void chaos_release(struct chaos *c, struct entry *e)
{
	bool ret;

	if (e->leaving)
		return;
	ret = wheel_release(&e->t, chaos_released);
	agree(c, ret == e->armed, "release returns");
	if (e->armed) {
		c->cancelled++;
		c->pending--;
	}
	e->armed = false;
	e->dead = true;
	e->leaving = true;
	c->leaving++;
	/* Told in the next pass, or at the end of this one. */
	if (c->passing)
		e->asked = c->pass;
	expect_kick(c, 0);
}

static void chaos_reinit(struct chaos *c, struct entry *e)
{
	if (e->armed || e->leaving || e == c->running || wheel_holds(&e->t))
		return;
	memset(&e->t, 0x6b, sizeof(e->t));
	wheel_timeout_init(&e->t, &c->rig->wheel, chaos_fired);
	e->dead = false;
	e->deadline = U64_MAX;
}

/* What producers do; @e == NULL: with any timeout. */
static void chaos_produce(struct chaos *c, struct entry *e)
{
	unsigned long batches = pushed(c->rig) / WHEEL_DEPTH;

	c->done++;
	e = e ?: some_entry(c);
	switch (below(c, 32)) {
	case 0 ... 12:
		chaos_arm(c, e, some_deadline(c), false);
		break;
	case 13 ... 21:
		chaos_arm(c, e, some_deadline(c), true);
		break;
	case 22 ... 26:
		chaos_end(c, e, false);
		break;
	case 27 ... 28:
		chaos_detach(c, e);
		break;
	case 29:
		chaos_reinit(c, e);
		break;
	case 30:
		if (below(c, 4) == 0)
			chaos_end(c, e, true);
		else
			chaos_reinit(c, e);
		break;
	case 31:
		if (below(c, 2))
			chaos_release(c, e);
		break;
	}
	if (pushed(c->rig) / WHEEL_DEPTH != batches)
		expect_kick(c, 0);
	agree(c, c->rig->kicks == c->kicks, "kicks");
}

/* Between slices, which may be in the middle of the drain: nothing that asks. */
static void chaos_meddle(struct chaos *c)
{
	struct entry *e = some_entry(c);
	u64 deadline = some_deadline(c);

	c->done++;
	if (below(c, 2))
		chaos_end(c, e, false);
	else if (e->armed && deadline >= e->deadline)
		chaos_arm(c, e, deadline, true);
}

/* As somebody does who waits in a callback: what was asked for until here is done. */
static void chaos_drain(struct chaos *c)
{
	struct entry *e;
	unsigned int i;

	c->done++;
	wheel_drain_all(&c->rig->wheel);
	c->requests = false;
	for (i = 0; i < ENTRIES; i++) {
		e = c->entries[i];
		if (e->asked != c->pass || e->leaving)
			continue;
		e->asked = 0;
		/* filed anew: for the next tick, if it is due */
		e->from = c->rig->wheel.cur;
	}
}

static void chaos_fired(struct hwtimer_timeout *t)
{
	struct entry *e = container_of(t, struct entry, t);
	struct chaos *c = e->c;
	u64 tick = max3(tick_of(c, e->deadline), c->from, e->from);
	unsigned int n;

	agree(c, c->passing && due(c, e), "fired");
	agree(c, !wheel_pending(t), "pending in its callback");
	agree(c, wheel_deadline(t) == e->deadline, "deadline in its callback");
	/* In the order of ticks, unless it jumps over more than a round. */
	if (c->target - c->from < c->round)
		agree(c, tick >= c->last_tick, "order of ticks");
	if (tick != c->last_tick)
		c->last_order = 0;
	c->last_tick = tick;
	if (e->order) {
		agree(c, e->order > c->last_order, "order of arming");
		c->last_order = e->order;
	}

	e->armed = false;
	c->pending--;
	c->expired++;
	/* It is over before the callback begins. */
	agree(c, counts(c->rig).pending == c->pending, "count of pending in a callback");
	e->deadline = U64_MAX;
	c->running = e;
	if (below(c, 4) == 0)
		chaos_produce(c, e);
	for (n = below(c, 4); n; n--)
		chaos_produce(c, NULL);
	/* With one slot the next tick is in the bucket that is being looked through. */
	if (c->slots > 1 && below(c, 8) == 0)
		chaos_drain(c);
	c->running = NULL;
}

static u64 some_step(struct chaos *c)
{
	u64 round = c->tick_ns * c->slots;

	switch (below(c, 16)) {
	case 0:
		return 0;
	case 1 ... 3:
		return below64(c, c->tick_ns);
	case 4 ... 12:
		return below64(c, 3 * c->tick_ns);
	case 13:
		return below64(c, round);
	case 14:
		return below64(c, 3 * round);
	default:
		if (c->rig->now > WHEEL_FOREVER / 2 || below(c, 8))
			return c->tick_ns;
		return below64(c, 40 * round);
	}
}

static void chaos_check(struct chaos *c)
{
	struct wheel_counts now = counts(c->rig);
	struct entry *e;
	unsigned int i;

	agree(c, now.pending == c->pending, "count of pending");
	agree(c, now.armed == c->armed, "count of armed");
	agree(c, now.touched == c->touched, "count of touched");
	agree(c, now.cancelled == c->cancelled, "count of cancelled");
	agree(c, now.expired == c->expired, "count of expired");
	agree(c, now.rejected == c->rejected, "count of rejected");
	agree(c, !c->cap || atomic_long_read(&c->rig->wheel.places) == c->pending, "places");
	for (i = 0; i < ENTRIES; i++) {
		e = c->entries[i];
		agree(c, !due(c, e), "lost: has not fired");
		agree(c, wheel_pending(&e->t) == e->armed, "pending");
		if (e->asked == c->pass)
			continue;
		agree(c, !e->leaving, "was not told of its release");
		agree(c, !e->detached || !wheel_holds(&e->t), "is held after detach");
		e->detached = false;
	}
}

/* What a bucket knows of what is in it, and whether it is in the right one. */
static unsigned int chaos_check_bucket(struct chaos *c, unsigned int level, unsigned int i)
{
	struct hwtimer_wheel *w = &c->rig->wheel;
	struct wheel_bucket *b = &w->level[level].buckets[i];
	unsigned int shift = level * ilog2(w->slots), n = 0;
	bool top = level == w->levels - 1;
	u64 slot = (c->cur >> shift) - (c->cur >> shift) % c->slots + i;
	struct hwtimer_timeout *t;
	u64 tick;

	if (!test_bit(i, w->level[level].occupied))
		return 0;
	agree(c, !list_empty(&b->timeouts), "bitmap");
	list_for_each_entry(t, &b->timeouts, node) {
		n++;
		/* Below the top: of this turn; above the ground: not of this slot. */
		agree(c, top || slot >= c->cur >> shift, "turn of a slot");
		agree(c, top || !level || slot > c->cur >> shift, "slot of cur");
		tick = max(tick_of(c, wheel_deadline(t)), c->cur);
		agree(c, top || tick >> shift >= slot || !wheel_pending(t), "slot of a tick");
		agree(c, b->next <= tick || !wheel_pending(t), "first tick of a bucket");
	}
	return n;
}

/* Only when all requests are done. */
static void chaos_check_buckets(struct chaos *c)
{
	struct hwtimer_wheel *w = &c->rig->wheel;
	unsigned int level, i;
	unsigned long filed = 0;
	struct list_head *pos;

	agree(c, list_empty(&w->due) && list_empty(&w->cursor) && !w->taken &&
	      list_empty(&w->falling) && list_empty(&w->far), "at rest");
	for (level = 0; level < w->levels; level++)
		for (i = 0; i < c->slots; i++)
			filed += chaos_check_bucket(c, level, i);
	list_for_each(pos, &w->never)
		filed++;
	agree(c, w->filed == filed, "count of filed");
}

/* A round of the top level, in ticks. The wheel may grow in the pass, which is no harm. */
static u64 round_of(const struct rig *rig)
{
	unsigned int i;
	u64 round = 1;

	for (i = 0; i < rig->wheel.levels && round < WHEEL_FOREVER; i++)
		round *= rig->wheel.slots;
	return round;
}

static void chaos_advance(struct chaos *c, u64 now)
{
	struct rig *rig = c->rig;
	unsigned int budget = below(c, 4) ? WHEEL_BUDGET : 1 + below(c, 8), n;

	c->done++;
	c->sum += c->pending;
	if (c->asleep)
		wheel_awake(&rig->wheel);
	c->asleep = false;
	/* What comes after the last tick is past the wheel's range. */
	now = min(now, WHEEL_FOREVER - 1);
	rig->now = now;
	c->pass++;
	c->passing = true;
	c->requests = false;
	c->extra = false;
	c->sliced = false;
	c->from = c->cur;
	c->round = round_of(rig);
	c->target = div64_u64(min(now, WHEEL_FOREVER - 1), c->tick_ns);
	c->last_tick = 0;
	c->last_order = 0;
	while (!c->failed && wheel_advance(&rig->wheel, now, budget)) {
		c->sliced = true;
		for (n = below(c, 3); n; n--)
			chaos_meddle(c);
	}
	c->cur = max(c->cur, c->target + 1);
	chaos_check(c);
	c->passing = false;
	if (!c->requests && !c->leaving && list_empty(&rig->wheel.far) && below(c, 16) == 0)
		chaos_check_buckets(c);
}

static void chaos_sleep(struct chaos *c)
{
	u64 now = c->rig->now, until, boundary;
	bool was_idle = !c->pending && c->armed == c->armed_seen;
	unsigned int i;

	c->done++;
	until = sleep_until(c->rig);
	c->armed_seen = c->armed;
	if (!until) {
		agree(c, c->requests || c->leaving || !list_empty(&c->rig->wheel.far),
		      "does not sleep");
		return;
	}
	agree(c, (!c->requests || c->extra) && !c->leaving, "sleeps over requests");
	c->ring_below = atomic64_read(&c->rig->wheel.ring_below);
	agree(c, (until == WHEEL_IDLE) == was_idle, "idle");
	c->asleep = true;
	c->until = until;
	/* Beyond this nobody may wait for it, unless everybody kicks it. */
	agree(c, c->ring_below == U64_MAX ||
	      until <= min(now, WHEEL_FOREVER) + WHEEL_DRAIN_NS + c->tick_ns, "sleeps too long");
	if (until == WHEEL_IDLE)
		return;
	agree(c, until > now, "sleeps into the past");
	/* Who is due at a boundary before it has to kick. */
	agree(c, c->ring_below > div64_u64(until - 1, c->tick_ns) * c->tick_ns,
	      "is not to be kicked in time");
	for (i = 0; i < ENTRIES; i++) {
		struct entry *e = c->entries[i];

		if (!e->armed)
			continue;
		boundary = max(tick_of(c, e->deadline), c->cur) * c->tick_ns;
		if (e->deadline == WHEEL_FOREVER)
			continue;
		agree(c, boundary >= until, "sleeps too late");
	}
}

static void chaos_stop(struct chaos *c)
{
	struct hwtimer_timeout *t, *next;
	struct list_head pending;
	struct entry *e;
	unsigned int n;

	c->pass++;
	n = rig_stop(c->rig, &pending);
	agree(c, n == c->pending, "number handed back");
	list_for_each_entry_safe(t, next, &pending, node) {
		e = container_of(t, struct entry, t);
		agree(c, e->armed, "handed back what is not pending, or twice");
		e->armed = false;
	}
	for (n = 0; n < ENTRIES; n++) {
		e = c->entries[n];
		agree(c, !e->armed && !wheel_holds(&e->t) && !e->leaving, "left behind");
		kfree(e);
	}
}

static void geometry_desc(const struct geometry *g, char *desc)
{
	strscpy(desc, g->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(geometry, geometries, geometry_desc);

/* The worker's part, or a producer's. */
static void chaos_step(struct chaos *c)
{
	u64 now = c->rig->now;

	switch (below(c, 16)) {
	case 0 ... 1:
		chaos_advance(c, now + some_step(c));
		break;
	case 2:
		/* as the kthread would, but not until the end of time */
		if (c->asleep && c->until - now < (WHEEL_FOREVER - now) / 4)
			chaos_advance(c, max(c->until, now));
		else
			chaos_advance(c, now);
		if (below(c, 2))
			chaos_sleep(c);
		break;
	case 3:
		if (!c->asleep)
			chaos_sleep(c);
		break;
	default:
		chaos_produce(c, NULL);
	}
}

static void chaos(struct kunit *test)
{
	const struct geometry *g = test->param_value;
	struct rig *rig = test->priv;
	struct chaos *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	const struct wheel_shape shape = {
		.tick_ns = g->tick_ns, .slots = g->slots, .levels = g->levels,
		.grow = g->grow, .cap = g->cap,
	};
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, c);
	rig_end(rig);
	rig_shape(rig, &shape);
	rig->one_in = g->no_memory;
	c->rig = rig;
	c->tick_ns = g->tick_ns;
	c->slots = g->slots;
	c->cap = g->cap;
	c->cur = 1;
	/* The first one kicks. */
	c->asleep = true;
	c->ring_below = U64_MAX;
	c->until = WHEEL_IDLE;
	/* The same seed gives the same run for each geometry, whichever are run. */
	prandom_seed_state(&c->rnd, chaos_seed + (g - geometries));
	for (i = 0; i < ENTRIES; i++) {
		c->entries[i] = new_entry(c, i);
		KUNIT_ASSERT_NOT_NULL(test, c->entries[i]);
	}
	if (g->old)
		chaos_advance(c, WHEEL_FOREVER - 3000 * g->tick_ns * g->slots);

	while (c->done < OPERATIONS && !c->failed) {
		chaos_step(c);
		if (!(c->done % 64))
			cond_resched();
	}
	kunit_info(test, "seed %llu, %lu operations, %llu passes: %lu armed, %lu touched, %lu cancelled, %lu expired, %lu rejected, %llu pending on average\n",
		   chaos_seed, c->done, c->pass, c->armed, c->touched, c->cancelled,
		   c->expired, c->rejected, div64_u64(c->sum, c->pass));
	chaos_stop(c);
	KUNIT_EXPECT_GT(test, c->armed, 100);
	KUNIT_EXPECT_GT(test, c->expired, 100);
	KUNIT_EXPECT_GT(test, c->touched, 100);
	KUNIT_EXPECT_GT(test, c->cancelled, 100);
}

static int chaos_suite_init(struct kunit_suite *suite)
{
	chaos_seed = hwtimer_kunit_seed();
	return 0;
}

static struct kunit_case random_cases[] = {
	KUNIT_CASE_PARAM(chaos, geometry_gen_params),
	{}
};

static struct kunit_suite random_suite = {
	.name		= "hwtimer_wheel_random",
	.suite_init	= chaos_suite_init,
	.init		= rig_init,
	.exit		= rig_exit,
	.test_cases	= random_cases,
};

kunit_test_suites(&time_suite, &time_4_suite, &time_grow_suite,
		  &arm_suite, &arm_4_suite, &arm_grow_suite,
		  &callback_suite, &callback_4_suite, &callback_grow_suite,
		  &order_suite, &order_4_suite, &order_grow_suite,
		  &sleep_suite, &sleep_4_suite, &sleep_grow_suite,
		  &stop_suite, &stop_4_suite, &stop_grow_suite,
		  &cap_suite, &cap_4_suite, &cap_grow_suite,
		  &late_suite, &late_4_suite, &late_grow_suite,
		  &levels_suite, &init_suite, &random_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit suites of hwtimer");
MODULE_AUTHOR("The hwtimer authors");
HWTIMER_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
