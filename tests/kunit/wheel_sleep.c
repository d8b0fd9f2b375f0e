// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_sleep and _sleep_4: when the worker sleeps, and
 * what wakes it.
 */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/prandom.h>
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

		/* the same by touching */
		p = probes(rig_remake(rig, TICK, SLOTS, 0), 4);
		arm_tick(&p[0], 8);
		arm_tick(&p[2], 9);
		to_tick(rig, 2);
		rig->kicks = 0;
		KUNIT_EXPECT_EQ(test, 8ULL * TICK, sleep_until(rig));
		queue_touch(&p[2].t, arms[i].deadline);
		KUNIT_EXPECT_EQ_MSG(test, arms[i].kicks, rig->kicks, "touch %llu",
				    arms[i].deadline);
	}
}

/* The CPU that makes the requests: there is one. */
static struct queue_cpu *the_cpu(struct rig *rig)
{
	return per_cpu_ptr(rig->wheel.cpus, cpumask_first(cpu_possible_mask));
}

/* @n requests, of which at most the last one kicks. Then the worker takes them, and sleeps. */
static void arm_deep(struct rig *rig, struct probe *p, unsigned int n, int kicks)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_EQ(rig->test, 0, rig->kicks);
		arm(&p[i], U64_MAX);
		/* a request that is queued already is not counted again */
		queue_cancel(&p[i].t);
		arm(&p[i], U64_MAX);
	}
	KUNIT_EXPECT_EQ(rig->test, kicks, rig->kicks);
	to_tick(rig, 1);
	rig->kicks = 0;
	KUNIT_EXPECT_NE(rig->test, 0ULL, sleep_until(rig));
}

/*
 * If QUEUE_DEPTH requests wait, the last one kicks, however late the timeouts are due. Those that
 * the worker has taken do not count.
 */
static void kick_deep(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3 * QUEUE_DEPTH + 1);

	/* the count wraps */
	local_set(&the_cpu(rig)->pushed, -QUEUE_DEPTH);
	the_cpu(rig)->taken = -QUEUE_DEPTH;
	arm_tick(p++, 50);
	to_tick(rig, 1);
	rig->kicks = 0;
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	arm_deep(rig, p, QUEUE_DEPTH / 2, 0);
	p += QUEUE_DEPTH / 2;
	arm_deep(rig, p, QUEUE_DEPTH, 1);
	p += QUEUE_DEPTH;
	arm_deep(rig, p, QUEUE_DEPTH, 1);
	p += QUEUE_DEPTH;
	/* as if many came after the worker had read the count, and before it took the queue */
	the_cpu(rig)->taken -= 7 * QUEUE_DEPTH / 2;
	arm_deep(rig, p, QUEUE_DEPTH / 2, 1);
	KUNIT_EXPECT_EQ(test, 3UL * QUEUE_DEPTH + 1, counts(rig).drained);
}

/*
 * Detaching kicks the worker; cancelling, killing and touching to a later time do not. A release
 * does if the worker would sleep for long.
 */
static void kick_otherwise(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 5);
	unsigned int i;

	for (i = 0; i < 5; i++)
		arm(&p[i], HOUR);
	to_tick(rig, 1);
	rig->kicks = 0;
	sleep_until(rig);
	queue_touch(&p[0].t, 2 * HOUR);
	queue_cancel(&p[1].t);
	arm(&p[1], HOUR);
	queue_cancel(&p[1].t);
	queue_timeout_shutdown(&p[2].t);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	queue_detach(&p[1].t);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	queue_awake(&rig->wheel);
	to_tick(rig, 1);
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	queue_release(&p[3].t, probe_released);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	queue_awake(&rig->wheel);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 1, p[3].released);
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	/* not held, so nothing to do */
	queue_detach(&p[1].t);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	queue_awake(&rig->wheel);
	to_tick(rig, 1);
	/* nothing new, so it sleeps for long */
	KUNIT_EXPECT_LT(test, TICK + QUEUE_DRAIN_NS, sleep_until(rig));
	queue_release(&p[4].t, probe_released);
	KUNIT_EXPECT_EQ(test, 2, rig->kicks);
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

/* While timeouts are armed, the worker drains its queues soon, however long a tick is. */
static void busy_long_tick(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig_remake(rig, HOUR, SLOTS, 0), 2);

	advance_to(rig, HOUR / 2);
	arm_tick(&p[0], 7);
	advance_to(rig, HOUR / 2);
	KUNIT_EXPECT_EQ(test, HOUR / 2 + QUEUE_DRAIN_NS, sleep_until(rig));
	queue_awake(&rig->wheel);
	/* nor does the sleep become longer than that */
	arm_tick(&p[1], 8);
	advance_to(rig, HOUR / 2 + QUEUE_DRAIN_NS);
	KUNIT_EXPECT_EQ(test, HOUR / 2 + 2 * QUEUE_DRAIN_NS, sleep_until(rig));
	queue_awake(&rig->wheel);
	/* no request since the last drain */
	advance_to(rig, HOUR / 2 + 2 * QUEUE_DRAIN_NS);
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

/* A request that the pass did not drain makes the sleep shorter. */
static void request_in_time(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm_tick(&p[0], 50);
	to_tick(rig, 1);
	arm_tick(&p[1], 3);
	KUNIT_EXPECT_EQ(test, 3ULL * TICK, sleep_until(rig));
	KUNIT_EXPECT_EQ(test, 2 * TICK + 1LL, atomic64_read(&rig->wheel.kick_below));
	KUNIT_EXPECT_EQ(test, 2UL, counts(rig).drained);
}

/* So does one whose timeout was cancelled meanwhile: the next one of its kind need not kick. */
static void last_taken(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);

	arm_tick(&p[0], 100);
	to_tick(rig, 1);
	rig->kicks = 0;
	arm_tick(&p[1], 20);
	queue_cancel(&p[1].t);
	KUNIT_EXPECT_EQ(test, 20ULL * TICK, sleep_until(rig));
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[1].t));
	arm_tick(&p[2], 20);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	arm_tick(&p[3], 19);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
}

/* If that takes more than a share, the worker goes on instead of sleeping. */
static void last_taken_in_part(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, QUEUE_BUDGET);
	unsigned int i;

	to_tick(rig, 1);
	for (i = 0; i < QUEUE_BUDGET; i++)
		arm_tick(&p[i], 100);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 100ULL * TICK, sleep_until(rig));
}

/* So does a release, by the deadline that its timeout had. */
static void released_covers(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm_tick(&p[0], 100);
	arm_tick(&p[1], 30);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 30ULL * TICK, sleep_until(rig));
	queue_awake(&rig->wheel);
	KUNIT_EXPECT_TRUE(test, queue_release(&p[1].t, probe_released));
	to_tick(rig, 2);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_EQ(test, 30ULL * TICK, sleep_until(rig));
}

/* Releases wait until the worker wakes, QUEUE_DEPTH of them at most. */
static void release_deep(struct kunit *test)
{
	const unsigned int before = QUEUE_DEPTH / 2, n = before + QUEUE_DEPTH;
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, n + 1);
	unsigned int i;

	for (i = 0; i <= n; i++)
		arm(&p[i], HOUR);
	to_tick(rig, 1);
	rig->kicks = 0;
	KUNIT_EXPECT_EQ(test, TICK + QUEUE_DRAIN_NS, sleep_until(rig));
	for (i = 0; i < n; i++) {
		/* the worker wakes by itself, and gives these back */
		if (i == before) {
			queue_awake(&rig->wheel);
			to_tick(rig, 2);
			KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
		}
		KUNIT_EXPECT_EQ(test, 0, rig->kicks);
		queue_release(&p[i].t, probe_released);
	}
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	KUNIT_EXPECT_EQ(test, 1, p[before - 1].released);
	KUNIT_EXPECT_EQ(test, 0, p[before].released);
	queue_awake(&rig->wheel);
	to_tick(rig, 3);
	for (i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, 1, p[i].released);
}

/*
 * After a short sleep, what was cancelled ends the next one even if nothing is pending, or short
 * timeouts would kick the worker once a tick.
 */
static void short_cover(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm_tick(&p[0], 5);
	queue_cancel(&p[0].t);
	to_tick(rig, 1);
	rig->kicks = 0;
	KUNIT_EXPECT_EQ(test, 5ULL * TICK, sleep_until(rig));
	arm_tick(&p[1], 9);
	queue_cancel(&p[1].t);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	queue_awake(&rig->wheel);
	to_tick(rig, 5);
	KUNIT_EXPECT_EQ(test, 9ULL * TICK, sleep_until(rig));
	queue_awake(&rig->wheel);
	to_tick(rig, 9);
	KUNIT_EXPECT_EQ(test, QUEUE_IDLE, sleep_until(rig));
}

/* The length of the next sleep if only something far away is armed. */
static u64 far_sleep(struct rig *rig, struct probe *p)
{
	queue_awake(&rig->wheel);
	queue_cancel(&p->t);
	arm(p, U64_MAX);
	advance_to(rig, rig->now);
	return sleep_until(rig) - rig->now;
}

/* Sleeps that kicks have made short become long again, step by step. */
static void limit_recovers(struct kunit *test)
{
	struct rig *rig = rig_remake(test->priv, NSEC_PER_MSEC, 64, 0);
	struct probe *p = probes(rig, 2);
	u64 length = far_sleep(rig, &p[0]), before;
	unsigned int n = 0;

	KUNIT_EXPECT_EQ(test, QUEUE_DRAIN_NS, length);
	while (length > 2 * NSEC_PER_MSEC) {
		rig->kicks = 0;
		arm(&p[1], rig->now + length - NSEC_PER_MSEC);
		KUNIT_ASSERT_EQ(test, 1, rig->kicks);
		queue_cancel(&p[1].t);
		before = length;
		length = far_sleep(rig, &p[0]);
		KUNIT_ASSERT_EQ(test, before / 2, length);
	}
	while (length < QUEUE_DRAIN_NS && n < 100) {
		rig->now += length;
		before = length;
		length = far_sleep(rig, &p[0]);
		KUNIT_EXPECT_EQ(test, min(before + before / 4, QUEUE_DRAIN_NS), length);
		n++;
	}
	KUNIT_EXPECT_LE(test, n, 30);
}

/* However short a tick is, kicks make no sleep much shorter than QUEUE_NAP_NS. */
static void naps(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);
	u64 length = far_sleep(rig, &p[0]);
	unsigned int n;

	for (n = 0; n < 30; n++) {
		arm(&p[1], rig->now + length - TICK);
		queue_cancel(&p[1].t);
		length = far_sleep(rig, &p[0]);
	}
	rig->now += length;
	KUNIT_EXPECT_LE(test, QUEUE_NAP_NS, far_sleep(rig, &p[0]));
}

/* A kick for somebody who waits makes no sleep shorter. */
static void detach_keeps_limit(struct kunit *test)
{
	struct rig *rig = rig_remake(test->priv, NSEC_PER_MSEC, 64, 0);
	struct probe *p = probes(rig, 2);

	KUNIT_EXPECT_EQ(test, QUEUE_DRAIN_NS, far_sleep(rig, &p[0]));
	rig->kicks = 0;
	arm(&p[1], HOUR);
	queue_cancel(&p[1].t);
	queue_detach(&p[1].t);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	KUNIT_EXPECT_EQ(test, QUEUE_DRAIN_NS, far_sleep(rig, &p[0]));
}

/* What was due at once ends one sleep at the next tick, not all that follow. */
static void over_once(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm_tick(&p[1], 50);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 50ULL * TICK, sleep_until(rig));
	queue_awake(&rig->wheel);
	arm(&p[0], 0);
	queue_cancel(&p[0].t);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 2ULL * TICK, sleep_until(rig));
	queue_awake(&rig->wheel);
	to_tick(rig, 2);
	KUNIT_EXPECT_EQ(test, 50ULL * TICK, sleep_until(rig));
}

/* What is due at once, but rarely, wakes the worker for itself only. */
static void at_once_now_and_then(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);
	unsigned int i;

	for (i = 1; i < 20; i += 2) {
		to_tick(rig, i);
		arm(&p[0], 0);
		queue_cancel(&p[0].t);
		arm_tick(&p[1], i + 50);
		queue_cancel(&p[1].t);
		to_tick(rig, i);
		KUNIT_EXPECT_EQ(test, (i + 50) * TICK, sleep_until(rig));
		queue_awake(&rig->wheel);
	}
}

/* Timeouts that are cancelled where they are filed do not wake the worker at their ticks. */
static void cancelled_where_filed(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 10);
	unsigned int i;

	for (i = 0; i < 10; i++)
		arm_tick(&p[i], 2 + i);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 2ULL * TICK, sleep_until(rig));
	for (i = 0; i < 10; i++)
		queue_cancel(&p[i].t);
	queue_awake(&rig->wheel);
	to_tick(rig, 2);
	KUNIT_EXPECT_EQ(test, QUEUE_IDLE, sleep_until(rig));
}

/* A look that is requested while the worker is about to sleep keeps it awake. */
static void look_meanwhile(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct queue_look *look = kunit_kzalloc(test, sizeof(*look), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, look);
	to_tick(rig, 1);
	/* as in queue_look() */
	rig->wheel.look = look;
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	rig->wheel.look = NULL;
	KUNIT_EXPECT_EQ(test, QUEUE_IDLE, sleep_until(rig));
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
	KUNIT_EXPECT_EQ(test, 3ULL * TICK, sleep_until(rig));
	queue_awake(&rig->wheel);
	to_tick(rig, 3);
	expect_fired(&p[1], 1, 3);
}

/* As above with nothing else pending: the worker must not sleep for ever. */
static void held_up_idle(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct queue_cpu *pcpu = the_cpu(rig);

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

/* Those that came while the worker was awake count, too. */
static void release_deep_awake(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, QUEUE_DEPTH + 1);
	unsigned int i;

	for (i = 0; i < QUEUE_DEPTH; i++)
		arm(&p[i], HOUR);
	to_tick(rig, 1);
	arm(&p[QUEUE_DEPTH], HOUR);
	for (i = 0; i < QUEUE_DEPTH; i++)
		queue_release(&p[i].t, probe_released);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 1, p[0].released);
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
}

/* Timeouts that were never armed do not wake the worker at each tick when they are released. */
static void release_unarmed(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 2);

	arm(&p[0], HOUR);
	advance_to(rig, 100 * TICK);
	KUNIT_EXPECT_NE(test, 0ULL, sleep_until(rig));
	queue_release(&p[1].t, probe_released);
	queue_awake(&rig->wheel);
	advance_to(rig, 100 * TICK);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	KUNIT_EXPECT_EQ(test, 100 * TICK + QUEUE_DRAIN_NS, sleep_until(rig));
}

/* So has who waits for the end of a timeout that another task releases. */
static void waits_for_release(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);

	arm(&p[0], HOUR);
	to_tick(rig, 1);
	/* as in queue_end_sync() */
	atomic_inc(&rig->wheel.waiters);
	/* one by each queue */
	arm(&p[1], HOUR);
	queue_release(&p[1].t, probe_released);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	queue_release(&p[0].t, probe_released);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 1, p[0].released);
	atomic_dec(&rig->wheel.waiters);
}

/* With slack, timeouts expire at each 8th tick, and those for one that is to come kick nobody. */
static void slack(struct kunit *test)
{
	static const struct {
		u64	slack;
		u64	tick;
	} slacks[] = {
		{ 0, 3 }, { TICK - 1, 3 }, { TICK, 4 }, { 3 * TICK - 1, 4 }, { 3 * TICK, 4 },
		{ 7 * TICK - 1, 4 }, { 7 * TICK, 8 }, { 14 * TICK, 8 }, { 15 * TICK, 16 },
	};
	struct hwtimer_wheel_params shape = { .tick_ns = TICK, .slots = SLOTS, .levels = 2 };
	struct rig *rig = test->priv;
	struct probe *p;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(slacks); i++) {
		rig_end(rig);
		shape.slack_ns = slacks[i].slack;
		rig_set_up(rig, &shape);
		p = probes(rig, 4);
		arm(&p[0], 2 * TICK + 1);
		arm(&p[1], 17 * TICK);
		to_tick(rig, 1);
		rig->kicks = 0;
		KUNIT_EXPECT_EQ(test, slacks[i].tick * TICK, sleep_until(rig));
		arm_tick(&p[2], slacks[i].tick);
		arm(&p[3], 2 * TICK + 2);
		KUNIT_EXPECT_EQ(test, 0, rig->kicks);
		drive(rig, &p[0], HOUR);
		expect_fired(&p[0], 1, slacks[i].tick);
		expect_fired(&p[2], 1, slacks[i].tick);
		expect_fired(&p[3], 1, slacks[i].tick);
	}
	/* One for a tick before that does. */
	rig_end(rig);
	shape.slack_ns = 7 * TICK;
	rig_set_up(rig, &shape);
	p = probes(rig, 2);
	arm_tick(&p[0], 16);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 16ULL * TICK, sleep_until(rig));
	rig->kicks = 0;
	arm(&p[1], 8 * TICK + 1);
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
	arm_tick(&p[1], 8);
	KUNIT_EXPECT_EQ(test, 1, rig->kicks);
	shape.slack_ns = HWTIMER_HORIZON + 1;
	rig_end(rig);
	KUNIT_EXPECT_EQ(test, -EINVAL, queue_init(&rig->wheel, &shape, &rig_ops));
}

/*
 * A pattern of operations: in each step one of a few timeouts is armed, and maybe ended again.
 * @deadline: of step @i at time @now, when the worker will wake at @until
 */
struct pattern {
	const char	*name;
	u64		(*deadline)(struct rnd_state *rnd, unsigned int i, u64 now, u64 until);
	bool		(*end)(struct hwtimer_timeout *t);
	bool		release;
	/* so many timeouts in turn, pending already; 0: another one in each step */
	unsigned int	pending;
};

#define MS		((u64)NSEC_PER_MSEC)
#define STEPS		20000

static u64 after_100_ms(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return now + 100 * MS;
}

static u64 after_10_s(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return now + 10000 * MS;
}

static u64 at_once(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return now;
}

/* ever earlier, the sooner the faster, and again from the start */
static u64 falling(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return now + max(2 * MS, 250 * MS - i % 250 * MS);
}

static u64 falling_slowly(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return max(now + 2 * MS, 2000 * MS - i * (u64)NSEC_PER_USEC);
}

/* far away, but always earlier than before */
static u64 falling_far(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return HOUR - i * (u64)NSEC_PER_USEC;
}

static u64 alternating(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return now + (i % 2 ? 240 * MS : 5 * MS);
}

static u64 rarely_soon(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return now + (i % 100 ? 240 * MS : 5 * MS);
}

static u64 at_once_or_far(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return now + (i % 3 ? 240 * MS : 0);
}

static u64 after_5_ms(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return now + 5 * MS;
}

/* The worker does not see the deadline that it had. */
static bool push_back(struct hwtimer_timeout *t)
{
	return !queue_touch(t, HOUR);
}

static u64 anywhere(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return now + MS + prandom_u32_state(rnd) % (250 * NSEC_PER_MSEC);
}

static u64 any_magnitude(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	u32 r = prandom_u32_state(rnd);

	return now + MS + (r >> 8) % (NSEC_PER_MSEC << r % 9);
}

/* just before the worker wakes, as if the owner knew when */
static u64 spiteful(struct rnd_state *rnd, unsigned int i, u64 now, u64 until)
{
	return until < now + 2 * MS || until > now + 250 * MS ? now + 250 * MS : until - MS - 1;
}

static const struct pattern patterns[] = {
	{ "arm and cancel, 100 ms", after_100_ms, queue_cancel },
	{ "arm and cancel, 10 s", after_10_s, queue_cancel },
	{ "arm and release, 100 ms", after_100_ms, NULL, true },
	{ "arm and release, 10 s", after_10_s, NULL, true },
	{ "re-arm earlier", falling_far, NULL, false, 100 },
	{ "arm earlier", falling_slowly },
	{ "arm earlier and cancel", falling_slowly, queue_cancel },
	{ "falling", falling, queue_cancel },
	{ "falling, released", falling, NULL, true },
	{ "arm and cancel, due at once", at_once, queue_cancel },
	{ "alternating", alternating, queue_cancel },
	{ "alternating, shut down", alternating, queue_timeout_shutdown },
	{ "rarely soon", rarely_soon, queue_cancel },
	{ "at once or far", at_once_or_far, queue_cancel },
	{ "at once or far, released", at_once_or_far, NULL, true },
	{ "pushed back at once", after_5_ms, push_back, false, 100 },
	{ "anywhere", anywhere, queue_cancel },
	{ "anywhere, kept", anywhere },
	{ "any magnitude", any_magnitude, queue_cancel },
	{ "any magnitude, released", any_magnitude, NULL, true },
	{ "spiteful", spiteful, queue_cancel },
	{ "spiteful, released", spiteful, NULL, true },
};

static void pattern_desc(const struct pattern *pattern, char *desc)
{
	strscpy(desc, pattern->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(pattern, patterns, pattern_desc);

/* The callback of a probe that was armed for @due. */
static void in_time(struct probe *p)
{
	struct rig *rig = p->rig;

	if (rig->now < p->due || rig->now - p->due > MS + rig->slack)
		rig->late++;
}

/* Let the worker run until @now, as a kthread would: when it was kicked, and when it wakes. */
static u64 run_until(struct rig *rig, u64 until, u64 now, unsigned int *kicks, unsigned int *wakes)
{
	bool kicked = rig->kicks != *kicks;

	*kicks = rig->kicks;
	while (kicked || until <= now) {
		queue_awake(&rig->wheel);
		++*wakes;
		if (!kicked)
			rig->now = until;
		kicked = false;
		do {
			advance_to(rig, rig->now);
			until = sleep_until(rig);
		} while (!until);
	}
	rig->now = now;
	return until;
}

/*
 * No pattern kicks the worker for each operation, nothing is later than a tick and the slack. After
 * the last operation, one wake-up may come for what was cancelled, or two within QUEUE_SPELL_NS.
 */
static void run_pattern(struct kunit *test, const struct pattern *pattern, u64 slack)
{
	const struct hwtimer_wheel_params shape = { .tick_ns = MS, .slots = 64, .slack_ns = slack };
	struct rig *rig = test->priv;
	unsigned int i, kicks = 0, wakes = 0;
	struct probe *all, *p;
	struct rnd_state rnd;
	u64 until = QUEUE_IDLE;
	bool soon;

	rig_end(rig);
	rig_set_up(rig, &shape);
	rig->slack = slack;
	all = probes(rig, STEPS);
	prandom_seed_state(&rnd, hwtimer_kunit_seed());
	for (i = 0; i < pattern->pending; i++)
		arm(&all[i], HOUR);
	for (i = 0; i < STEPS; i++) {
		until = run_until(rig, until, rig->now + NSEC_PER_SEC / 10000, &kicks, &wakes);
		p = &all[i % (pattern->pending ?: STEPS)];
		p->then = in_time;
		p->due = pattern->deadline(&rnd, i, rig->now, until);
		arm(p, p->due);
		if (pattern->end)
			pattern->end(&p->t);
		if (pattern->release)
			queue_release(&p->t, probe_released);
	}
	kunit_info(test, "slack %llu: %u kicks, %u wake-ups\n", slack, kicks, wakes);
	KUNIT_EXPECT_LE(test, kicks, STEPS / 50 + 50 * (STEPS / 10000));
	if (slack)
		KUNIT_EXPECT_LE(test, wakes, 50 * (STEPS / 10000));
	KUNIT_EXPECT_EQ(test, 0, rig->late);
	if (!pattern->end && !pattern->release)
		return;
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	if (pattern->pending)
		return;
	run_until(rig, until, rig->now, &kicks, &wakes);
	wakes = 0;
	soon = until < rig->now + QUEUE_SPELL_NS;
	until = run_until(rig, until, rig->now + HOUR, &kicks, &wakes);
	KUNIT_EXPECT_EQ(test, QUEUE_IDLE, until);
	KUNIT_EXPECT_LE(test, wakes, soon ? 2 : 1);
	for (i = 0; pattern->release && i < STEPS; i++)
		KUNIT_EXPECT_EQ(test, 1, all[i].released);
}

/* With slack, few wake-ups serve all. */
static void kicks_of_patterns(struct kunit *test)
{
	const struct pattern *pattern = test->param_value;

	run_pattern(test, pattern, 0);
	run_pattern(test, pattern, 64 * MS);
}

/* A worker that wakes at each tick need not be kicked for what is far away. */
static void kicks_beside_others(struct kunit *test)
{
	struct rig *rig = rig_remake(test->priv, MS, 64, 0);
	struct probe *p = probes(rig, 4000);
	unsigned int i, kicks = 0, wakes = 0;
	u64 until = QUEUE_IDLE;

	for (i = 0; i < 2000; i++)
		arm(&p[i], (i + 1) * MS);
	for (i = 2000; i < 4000; i += 2) {
		until = run_until(rig, until, rig->now + 2 * MS, &kicks, &wakes);
		arm(&p[i], HOUR);
		queue_cancel(&p[i].t);
		arm(&p[i + 1], HOUR);
		queue_release(&p[i + 1].t, probe_released);
	}
	KUNIT_EXPECT_LE(test, kicks, 2000U / 50 + 2 * 50);
	KUNIT_EXPECT_GE(test, rig->fired, 1990);
}

WHEEL_SUITES(sleep,
	KUNIT_CASE(first_arm_kicks),
	KUNIT_CASE(states),
	KUNIT_CASE(kick),
	KUNIT_CASE(kick_deep),
	KUNIT_CASE(kick_otherwise),
	KUNIT_CASE(idle_cancelled),
	KUNIT_CASE(busy_long_tick),
	KUNIT_CASE(detach_wakes),
	KUNIT_CASE(far_wakes),
	KUNIT_CASE(request_in_time),
	KUNIT_CASE(last_taken),
	KUNIT_CASE(last_taken_in_part),
	KUNIT_CASE(released_covers),
	KUNIT_CASE(release_deep),
	KUNIT_CASE(short_cover),
	KUNIT_CASE(limit_recovers),
	KUNIT_CASE(naps),
	KUNIT_CASE(detach_keeps_limit),
	KUNIT_CASE(over_once),
	KUNIT_CASE(at_once_now_and_then),
	KUNIT_CASE(cancelled_where_filed),
	KUNIT_CASE(look_meanwhile),
	KUNIT_CASE(held_up_before_push),
	KUNIT_CASE(held_up_idle),
	KUNIT_CASE(release_deep_awake),
	KUNIT_CASE(release_unarmed),
	KUNIT_CASE(waits_for_release),
	KUNIT_CASE(kicks_beside_others),
	KUNIT_CASE(slack),
	KUNIT_CASE_PARAM(kicks_of_patterns, pattern_gen_params));
