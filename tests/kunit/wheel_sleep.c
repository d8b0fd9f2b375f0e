// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_sleep and _sleep_4: when the worker sleeps, and
 * what wakes it.
 */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/string.h>

#include "wheel_rig.h"

/* Promise 6. */
static void first_arm_kicks(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);

	KUNIT_EXPECT_EQ(test, (int)QUEUE_INIT, rig->wheel.state);
	KUNIT_EXPECT_EQ(test, QUEUE_IDLE, sleep_until(rig));
	KUNIT_EXPECT_EQ(test, (int)QUEUE_INIT, rig->wheel.state);
	/* only arming starts the wheel */
	KUNIT_EXPECT_EQ(test, -ENOENT, touch_tick(&p[0], 3));
	KUNIT_EXPECT_FALSE(test, queue_cancel(&p[0].t));
	KUNIT_EXPECT_EQ(test, (int)QUEUE_INIT, rig->wheel.state);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	arm(&p[0], U64_MAX);
	KUNIT_EXPECT_EQ(test, (int)QUEUE_STARTED, rig->wheel.state);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	arm(&p[1], 0);
	arm(&p[2], 0);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).kicks);
}

/* The first arm kicks the worker even before the worker has gone to sleep for the first time. */
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
	struct queue_counts before, after;
	struct list_head pending;

	KUNIT_EXPECT_EQ(test, 0, queue_start(&rig->wheel));
	KUNIT_EXPECT_EQ(test, (int)QUEUE_STARTED, rig->wheel.state);
	KUNIT_EXPECT_EQ(test, 0, queue_start(&rig->wheel));
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	arm_tick(&p[0], 5);

	INIT_LIST_HEAD(&pending);
	KUNIT_EXPECT_TRUE(test, queue_shutdown(&rig->wheel));
	KUNIT_EXPECT_EQ(test, (int)QUEUE_SHUTDOWN, rig->wheel.state);
	before = counts(rig);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[1], 5));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[0], 6));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, touch_tick(&p[0], 6));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, touch_tick(&p[1], 6));
	after = counts(rig);
	KUNIT_EXPECT_EQ(test, 0, memcmp(&before, &after, sizeof(before)));
	KUNIT_EXPECT_FALSE(test, queue_pending(&p[1].t));
	KUNIT_EXPECT_EQ(test, 5ULL * TICK, queue_deadline(&p[0].t));
	KUNIT_EXPECT_FALSE(test, queue_shutdown(&rig->wheel));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, queue_start(&rig->wheel));

	queue_sweep(&rig->wheel, &pending);
	rig->stopped = true;
	KUNIT_EXPECT_EQ(test, (int)QUEUE_STOPPED, rig->wheel.state);
	before = counts(rig);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, arm_tick(&p[0], 5));
	after = counts(rig);
	KUNIT_EXPECT_EQ(test, 0, memcmp(&before, &after, sizeof(before)));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, queue_start(&rig->wheel));
	KUNIT_EXPECT_FALSE(test, queue_shutdown(&rig->wheel));
}

/* A sleeping worker is kicked by armings due before it wakes, and only by those. */
static void kick(struct kunit *test)
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
		p = probes(rig_remake(rig, TICK, SLOTS, 0), 4);
		arm_tick(&p[0], 8);
		arm_tick(&p[2], 9);
		to_tick(rig, 2);
		rig->kicks = 0;
		KUNIT_EXPECT_EQ(test, 8ULL * TICK, sleep_until(rig));
		arm(&p[1], arms[i].deadline);
		KUNIT_EXPECT_EQ_MSG(test, arms[i].kicks, rig->kicks, "arm %llu",
				    arms[i].deadline);
		/* the second arming relies on the kick of the first */
		arm(&p[3], arms[i].deadline);
		KUNIT_EXPECT_EQ(test, arms[i].kicks, rig->kicks);
		queue_awake(&rig->wheel);

		/* the same by touching */
		to_tick(rig, 2);
		rig->kicks = 0;
		queue_cancel(&p[1].t);
		queue_cancel(&p[3].t);
		queue_detach(&p[1].t);
		queue_detach(&p[3].t);
		to_tick(rig, 2);
		KUNIT_EXPECT_EQ(test, 8ULL * TICK, sleep_until(rig));
		queue_touch(&p[2].t, arms[i].deadline);
		KUNIT_EXPECT_EQ_MSG(test, arms[i].kicks, rig->kicks, "touch %llu",
				    arms[i].deadline);
	}
}

/* Every QUEUE_DEPTH-th request kicks, however late the timeouts are due. */
static void kick_deep(struct kunit *test)
{
	const unsigned int n = 2 * QUEUE_DEPTH;
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, n + 1);
	unsigned int i;

	arm_tick(&p[n], 50);
	to_tick(rig, 1);
	rig->kicks = 0;
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	for (i = 0; i < n; i++) {
		arm(&p[i], U64_MAX);
		/* a request that is queued already is not counted again */
		queue_cancel(&p[i].t);
		arm(&p[i], U64_MAX);
		KUNIT_EXPECT_EQ(test, pushed(rig) % QUEUE_DEPTH == 0, rig->kicks);
		KUNIT_EXPECT_EQ(test, i + 2UL, pushed(rig));
		if (rig->kicks) {
			to_tick(rig, 1);
			rig->kicks = 0;
			KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
		}
	}
	KUNIT_EXPECT_EQ(test, 2UL * QUEUE_DEPTH, counts(rig).drained);
}

/* While the worker is awake, nothing kicks it. */
static void no_kick_awake(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);

	arm_tick(&p[0], 50);
	to_tick(rig, 1);
	rig->kicks = 0;
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	queue_awake(&rig->wheel);
	arm(&p[1], 0);
	touch_tick(&p[0], 3);
	queue_cancel(&p[0].t);
	queue_detach(&p[0].t);
	queue_release(&p[2].t, probe_released);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	/* It must not go to sleep then, nor be kicked for requests that it will see. */
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	arm(&p[1], 0);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
}

/* Detaching kicks the worker; cancelling, killing and touching to a later time do not. */
static void kick_otherwise(struct kunit *test)
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
	queue_cancel(&p[1].t);
	arm_tick(&p[1], 50);
	queue_cancel(&p[1].t);
	queue_timeout_shutdown(&p[2].t);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	queue_detach(&p[1].t);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	queue_awake(&rig->wheel);
	to_tick(rig, 1);
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	queue_release(&p[3].t, probe_released);
	KUNIT_EXPECT_EQ(test, 2, rig->kicks);
	queue_awake(&rig->wheel);
	to_tick(rig, 1);
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	/* not held, so nothing to do */
	queue_detach(&p[1].t);
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
	queue_awake(&rig->wheel);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 1, rig->fired);
	/* At most one more wakeup, and not before QUEUE_DRAIN_NS. */
	until = sleep_until(rig);
	if (until != QUEUE_IDLE) {
		KUNIT_EXPECT_GE(test, until, rig->now + QUEUE_DRAIN_NS);
		queue_awake(&rig->wheel);
		advance_to(rig, until);
		until = sleep_until(rig);
	}
	KUNIT_EXPECT_EQ(test, QUEUE_IDLE, until);

	/* idle for as long as nothing is armed */
	queue_awake(&rig->wheel);
	advance_to(rig, rig->now + HOUR);
	KUNIT_EXPECT_EQ(test, QUEUE_IDLE, sleep_until(rig));
	rig->kicks = 0;
	arm(&p[1], U64_MAX);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
}

/* Nothing is pending, but a bucket holds a cancelled timeout. */
static void idle_cancelled(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1);
	u64 later;

	/* beyond the next wakeup */
	arm(p, HOUR);
	to_tick(rig, 1);
	queue_cancel(&p->t);
	drive(rig, NULL, HOUR / 4);
	KUNIT_EXPECT_EQ(test, QUEUE_IDLE, sleep_until(rig));
	KUNIT_EXPECT_TRUE(test, queue_holds(&p->t));
	/* armed without a request: the worker must know the deadline nevertheless */
	rig->kicks = 0;
	later = 2 * HOUR + 1;
	KUNIT_EXPECT_EQ(test, 0, arm(p, later));
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	KUNIT_EXPECT_EQ(test, 1UL, counts(rig).drained);
	queue_awake(&rig->wheel);
	drive(rig, p, 3 * HOUR);
	expect_fired(p, 1, div_u64(later, TICK) + 1);
	KUNIT_EXPECT_EQ(test, 2 * HOUR + TICK, rig->now);
}

/* The worker wakes at the tick at which a timeout is due, and fires it then. */
static void next_event(struct kunit *test)
{
	static const u64 ahead[] = { 1, 2, 3, 7, 8, 9, 60, 64, 65, 1000, 100000 };
	struct rig *rig = test->priv;
	unsigned int slots, i, j, wakes;
	struct probe *p;
	u64 due;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (slots = 1; slots <= 512; slots *= 8) {
			p = probes(rig_remake(rig, shapes[i].tick, slots, 0), 3);
			/* distant timeouts, so that the wheel is not idle */
			arm(&p[1], U64_MAX);
			arm(&p[2], QUEUE_HORIZON - shapes[i].tick);
			for (j = 0; j < ARRAY_SIZE(ahead); j++) {
				due = div64_u64(rig->now, shapes[i].tick) + ahead[j];
				arm_tick(p, due);
				wakes = drive(rig, p, due * shapes[i].tick);
				KUNIT_EXPECT_EQ_MSG(test, j + 1, p->fired,
						    "tick %llu, slots %u, ahead %llu",
						    shapes[i].tick, slots, ahead[j]);
				KUNIT_EXPECT_EQ(test, due * shapes[i].tick, rig->now);
				/* with few wakeups before */
				KUNIT_EXPECT_LE(test, wakes,
						2 + div_u64(ahead[j] * shapes[i].tick,
							    QUEUE_DRAIN_NS));
				if (p->fired != j + 1)
					return;
			}
		}
	}
}

/* While timeouts are armed, the worker drains its queues soon, however long a tick is. */
static void busy_long_tick(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig_remake(rig, HOUR, SLOTS, 0), 1);

	advance_to(rig, HOUR / 2);
	arm_tick(&p[0], 7);
	advance_to(rig, HOUR / 2);
	KUNIT_EXPECT_EQ(test, HOUR / 2 + QUEUE_DRAIN_NS, sleep_until(rig));
	queue_awake(&rig->wheel);
	/* no request since the last drain */
	advance_to(rig, HOUR / 2 + QUEUE_DRAIN_NS);
	KUNIT_EXPECT_EQ(test, 7 * HOUR, sleep_until(rig));
}

/* Detaching wakes the worker, whether the timeout is filed or its request queued. */
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
	queue_cancel(&p[1].t);
	queue_detach(&p[1].t);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	KUNIT_EXPECT_TRUE(test, queue_holds(&p[1].t));
	to_tick(rig, 1);
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[1].t));

	sleep_until(rig);
	queue_cancel(&p[0].t);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	queue_detach(&p[0].t);
	KUNIT_EXPECT_EQ(test, 2, rig->kicks);
	to_tick(rig, 1);
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[0].t));
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
		queue_awake(&rig->wheel);
		to_tick(rig, sorted[i]);
		KUNIT_EXPECT_EQ(test, i + 1, rig->fired);
	}
}

/* Ten seconds with distant timeouts only, for ticks of all sizes. Promise 7. */
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
			p = probes(rig_remake(rig, ticks[i], slots, 0), 3);
			arm(&p[0], U64_MAX);
			arm(&p[1], 20 * HOUR);
			arm(&p[2], HOUR);
			wakes = drive(rig, NULL, 10 * NSEC_PER_SEC);
			KUNIT_EXPECT_LE_MSG(test, wakes, 50, "tick %llu, slots %u",
					    ticks[i], slots);
		}
	}
}

/* A request that the pass did not drain keeps the worker awake. */
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
 * A producer is delayed between setting QUEUED and the push: see "Sleeping" in hwtimer_queue.c, and
 * A and B there. The case removes the request from the queue and puts it back later.
 */
static void held_up_before_push(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);
	struct queue_cpu *pcpu = NULL;
	struct llist_node *request;
	int cpu;

	arm_tick(&p[0], 5);
	to_tick(rig, 0);

	/* A */
	arm_tick(&p[1], 7);
	for_each_possible_cpu(cpu) {
		pcpu = per_cpu_ptr(rig->wheel.cpus, cpu);
		if (!llist_empty(&pcpu->requests))
			break;
	}
	request = llist_del_all(&pcpu->requests);
	KUNIT_ASSERT_PTR_EQ(test, request, &p[1].t.request);
	local_inc(&pcpu->in_flight);
	/* B has nothing to push */
	KUNIT_EXPECT_EQ(test, 0, touch_tick(&p[1], 3));
	KUNIT_EXPECT_TRUE(test, llist_empty(&pcpu->requests));
	/* the queue is empty, but the worker may not sleep until tick 5 */
	to_tick(rig, 0);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	/* A proceeds, without a kick */
	llist_add(request, &pcpu->requests);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	local_dec(&pcpu->in_flight);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 3ULL * TICK, sleep_until(rig));
	to_tick(rig, 3);
	expect_fired(&p[1], 1, 3);
}

/* As above with nothing else pending: the worker must not sleep for ever. */
static void held_up_idle(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct queue_cpu *pcpu = per_cpu_ptr(rig->wheel.cpus,
					    cpumask_first(cpu_possible_mask));

	local_inc(&pcpu->in_flight);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	KUNIT_EXPECT_EQ(test, 0ULL, (u64)atomic64_read(&rig->wheel.kick_below));
	local_inc(&pcpu->in_flight);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	local_dec(&pcpu->in_flight);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	local_dec(&pcpu->in_flight);
	KUNIT_EXPECT_EQ(test, QUEUE_IDLE, sleep_until(rig));
}

WHEEL_SUITES(sleep,
	KUNIT_CASE(first_arm_kicks),
	KUNIT_CASE(first_arm_kicks_early),
	KUNIT_CASE(states),
	KUNIT_CASE(kick),
	KUNIT_CASE(kick_deep),
	KUNIT_CASE(no_kick_awake),
	KUNIT_CASE(kick_otherwise),
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
