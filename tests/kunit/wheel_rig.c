// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: what the suites of the wheel share.
 */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "wheel_rig.h"

/* levels of the wheels of the current suite */
static unsigned int levels = 1;

int one_level(struct kunit_suite *suite)
{
	levels = 1;
	return 0;
}

int four_levels(struct kunit_suite *suite)
{
	levels = 4;
	return 0;
}

const struct rig_shape shapes[] = {
	{ 1, 8 }, { 3, 1 }, { 1000, 16 }, { 999983, 5 }, { NSEC_PER_MSEC, 512 },
	{ 7 * NSEC_PER_MSEC, 1 }, { HOUR, 4 },
};

static void rig_kick(struct hwtimer_wheel *w)
{
	struct rig *rig = container_of(w, struct rig, wheel);

	rig->kicks++;
	/* not within a step of the worker */
	while (rig->answers && (w->look || w->pass.look))
		queue_advance(w, rig->now, rig->answers);
}

static void rig_call(struct hwtimer_wheel *w, struct hwtimer_timeout *t,
		     hwtimer_fn_t fn, u64 deadline)
{
	struct rig *rig = container_of(w, struct rig, wheel);
	u64 end = rig_tick(rig) * w->tick_ns;

	if (deadline > end || end > rig->now)
		KUNIT_FAIL(rig->test, "early: deadline %llu, tick ends at %llu, now %llu",
			   deadline, end, rig->now);
	rig->in_row += w->pass.in_row;
	fn(t);
	w->pass.in_row = true;
}

const struct queue_ops rig_ops = {
	.kick	= rig_kick,
	.call	= rig_call,
};

void rig_set_up(struct rig *rig, const struct hwtimer_wheel_params *shape)
{
	KUNIT_ASSERT_EQ(rig->test, 0, queue_init(&rig->wheel, shape, &rig_ops));
	rig->made = true;
	rig->stopped = false;
	rig->now = 0;
	rig->fired = 0;
	rig->kicks = 0;
	rig->in_row = 0;
	rig->answers = 0;
}

/* How many levels make sense. */
static unsigned int rig_levels(u64 tick_ns, unsigned int slots)
{
	unsigned char bits[WHEEL_MAX_LEVELS];

	if (slots < 3)
		return 1;
	memset(bits, order_base_2(slots), sizeof(bits));
	return wheel_levels(bits, WHEEL_MAX_LEVELS, div64_u64(HWTIMER_HORIZON, tick_ns));
}

/* Make a wheel with the levels of the suite, or with as many as fit into the range. */
static void rig_make(struct rig *rig, u64 tick_ns, unsigned int slots,
		     unsigned long cap)
{
	struct hwtimer_wheel_params shape = {
		.tick_ns = tick_ns, .slots = slots, .cap = cap,
		.levels = slots > 1 ? levels : 1,
	};

	shape.levels = min(shape.levels, rig_levels(tick_ns, slots));
	rig_set_up(rig, &shape);
}

/* Returns how many timeouts were handed back. */
unsigned int rig_stop(struct rig *rig, struct list_head *pending)
{
	struct list_head *pos;
	unsigned int n = 0;

	INIT_LIST_HEAD(pending);
	KUNIT_EXPECT_TRUE(rig->test, queue_shutdown(&rig->wheel));
	queue_sweep(&rig->wheel, pending);
	rig->stopped = true;
	list_for_each(pos, pending)
		n++;
	return n;
}

/* Stop and free the wheel, which must hold nothing then. */
void rig_end(struct rig *rig)
{
	struct queue_counts c;
	struct list_head pending;

	if (!rig->made)
		return;
	rig->made = false;
	if (!rig->stopped)
		rig_stop(rig, &pending);
	queue_count(&rig->wheel, &c);
	KUNIT_EXPECT_EQ(rig->test, 0UL, c.pending);
	KUNIT_EXPECT_EQ(rig->test, 0UL, rig->wheel.wheel.filed);
	KUNIT_EXPECT_EQ(rig->test, 0UL, places_taken(rig->wheel.places));
	queue_free(&rig->wheel);
	kvfree(rig->bulk);
	rig->bulk = NULL;
}

/* Replace the wheel. */
struct rig *rig_remake(struct rig *rig, u64 tick_ns, unsigned int slots, unsigned long cap)
{
	rig_end(rig);
	rig_make(rig, tick_ns, slots, cap);
	return rig;
}

/* Replace the wheel by one with the given levels. */
struct rig *shape_of(struct rig *rig, u64 tick_ns, unsigned int slots, unsigned int n)
{
	const struct hwtimer_wheel_params shape = {
		.tick_ns = tick_ns, .slots = slots, .levels = n,
	};

	rig_end(rig);
	rig_set_up(rig, &shape);
	return rig;
}

int rig_init(struct kunit *test)
{
	struct rig *rig = kunit_kzalloc(test, sizeof(*rig), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rig);
	test->priv = rig;
	rig->test = test;
	rig_make(rig, TICK, SLOTS, 0);
	return 0;
}

void rig_exit(struct kunit *test)
{
	struct rig *rig = test->priv;

	if (rig)
		rig_end(rig);
}

void advance_to(struct rig *rig, u64 now)
{
	rig->now = now;
	while (queue_advance(&rig->wheel, now, QUEUE_BUDGET))
		;
}

void step_to_tick(struct rig *rig, u64 tick)
{
	u64 i;

	for (i = div64_u64(rig->now, rig->wheel.tick_ns) + 1; i <= tick; i++)
		to_tick(rig, i);
}

/*
 * Run the worker like the kthread until @p has fired or @limit is reached. Returns the number of
 * wakeups.
 */
unsigned int drive(struct rig *rig, struct probe *p, u64 limit)
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
			queue_awake(&rig->wheel);
			return wakes;
		}
		queue_awake(&rig->wheel);
		rig->now = until;
		wakes++;
	}
}

void probe_fired(struct hwtimer_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);

	p->fired++;
	p->rank = ++p->rig->fired;
	p->tick = rig_tick(p->rig);
	if (p->then)
		p->then(p);
}

/* a callback for @then of a probe */
void probe_rearm(struct probe *p)
{
	KUNIT_EXPECT_FALSE(p->rig->test, queue_pending(&p->t));
	/* held, as its callback runs */
	KUNIT_EXPECT_TRUE(p->rig->test, queue_holds(&p->t));
	KUNIT_EXPECT_EQ(p->rig->test, 0, arm(p, p->deadline));
	KUNIT_EXPECT_TRUE(p->rig->test, queue_pending(&p->t));
}

void probe_released(struct hwtimer_timeout *t)
{
	container_of(t, struct probe, t)->released++;
}

void probe_setup(struct rig *rig, struct probe *p)
{
	memset(p, 0, sizeof(*p));
	p->rig = rig;
	queue_timeout_init(&p->t, &rig->wheel, probe_fired);
}

/* Probes that live as long as the wheel. */
struct probe *probes(struct rig *rig, unsigned int n)
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

/* How many requests count as waiting, or with @released, how many releases. */
unsigned long backlog(const struct rig *rig, bool released)
{
	const struct queue_cpu *pcpu;
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		pcpu = per_cpu_ptr(rig->wheel.cpus, cpu);
		sum += released ? local_read(&pcpu->gone) - pcpu->given_back :
				  local_read(&pcpu->pushed) - pcpu->taken;
	}
	return sum;
}

/* Expect that @p has fired @n times, the last time at tick @at. */
void expect_fired(struct probe *p, unsigned int n, u64 at)
{
	KUNIT_EXPECT_EQ(p->rig->test, n, p->fired);
	KUNIT_EXPECT_EQ(p->rig->test, at, p->tick);
}

/* Expect that only these probes fired, in the order of the array. */
void expect_in_order(struct rig *rig, struct probe *p, unsigned int n)
{
	unsigned int i;

	KUNIT_EXPECT_EQ(rig->test, n, rig->fired);
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ_MSG(rig->test, i + 1, p[i].rank, "probe %u", i);
}
