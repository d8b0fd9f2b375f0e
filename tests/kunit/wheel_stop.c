// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suites hwtimer_wheel_stop and _stop_4: which timeouts a stop hands
 * back.
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/list.h>

#include "wheel_rig.h"

/* Stop, and expect exactly those of @p[0..@n) with @expected, each once. */
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
		KUNIT_EXPECT_FALSE(rig->test, queue_pending(&p[i].t));
		KUNIT_EXPECT_FALSE(rig->test, queue_holds(&p[i].t));
		KUNIT_EXPECT_FALSE(rig->test, queue_cancel(&p[i].t));
		KUNIT_EXPECT_EQ(rig->test, -ESHUTDOWN, arm(&p[i], 0));
	}
	KUNIT_EXPECT_EQ(rig->test, 0UL, counts(rig).pending);
	KUNIT_EXPECT_EQ(rig->test, 0UL, rig->wheel.wheel.filed);
}

/*
 * Stop after each possible number of steps of a pass: each timeout that has not fired is handed
 * back, wherever it was.
 */
static void hands_back_midway(struct kunit *test)
{
	struct rig *rig = test->priv;
	unsigned int steps, i, n;
	bool expected[20];
	struct probe *p;
	bool over = false;

	for (steps = 0; !over; steps++) {
		p = probes(rig_remake(rig, TICK, SLOTS, 20), 20);
		/* every other timeout is for the next round of its bucket */
		for (i = 0; i < 16; i++)
			arm_tick(&p[i], 3 + i / 8 + (i % 2) * SLOTS);
		to_tick(rig, 1);
		/* some have to be drained first */
		for (i = 16; i < 20; i++)
			arm_tick(&p[i], 4);
		rig->now = 5 * TICK;
		for (n = 0; n < steps && !over; n++)
			over = !queue_advance(&rig->wheel, rig->now, 1);
		for (i = 0; i < 20; i++)
			expected[i] = !p[i].fired;
		/* due timeouts fire in order, at most one per step */
		KUNIT_EXPECT_LE(test, rig->fired, steps);
		expect_back(rig, p, 20, expected);
		KUNIT_EXPECT_EQ(test, 20UL - rig->fired, counts(rig).handed_back);
	}
	KUNIT_EXPECT_EQ(test, 12, rig->fired);
	/* 4 are drained in two steps each, and 12 are due; on one level, 8 are in their buckets */
	KUNIT_EXPECT_GE(test, steps, 2 * 4 + 12 + (has_rounds(rig) ? 8 : 0));
}

/* Detach and touch between the two halves of a stop, and after it. */
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
	queue_shutdown(&rig->wheel);
	KUNIT_EXPECT_TRUE(test, queue_cancel(&p[0].t));
	queue_detach(&p[0].t);
	KUNIT_EXPECT_TRUE(test, queue_release(&p[1].t, probe_released));
	KUNIT_EXPECT_EQ(test, 0, p[1].released);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, queue_touch(&p[2].t, 9 * TICK));
	KUNIT_EXPECT_EQ(test, 5 * TICK, queue_deadline(&p[2].t));
	queue_sweep(&rig->wheel, &pending);
	rig->stopped = true;
	KUNIT_EXPECT_PTR_EQ(test, pending.next, &p[2].t.node);
	KUNIT_EXPECT_PTR_EQ(test, pending.prev, &p[2].t.node);
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[0].t));
	KUNIT_EXPECT_EQ(test, 1, p[1].released);
	rig->kicks = 0;
	queue_detach(&p[2].t);
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[2].t));
	KUNIT_EXPECT_EQ(test, 0, rig->kicks);
}

static void release_next(struct hwtimer_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);

	p->released++;
	if (p->other)
		p->ret = queue_release(&p->other->t, release_next);
}

/* Releases during a release cycle get another cycle before the worker sleeps. */
static void release_in_cycle(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);
	unsigned int i;

	to_tick(rig, 1);
	for (i = 0; i < 3; i++)
		queue_release(&p[i].t, probe_released);
	KUNIT_EXPECT_TRUE(test, queue_advance(&rig->wheel, rig->now, 2));
	KUNIT_EXPECT_EQ(test, 0, p[3].released);
	/* released by a request */
	arm_tick(&p[3], 5);
	queue_release(&p[3].t, probe_released);
	drive(rig, NULL, rig->now);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
}

/* A release cycle whose budget ran out continues, and completes the barrier at its end. */
static void barrier_in_pieces(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 4);
	unsigned int i;

	to_tick(rig, 1);
	/* Three timeouts released by a request, and one put on the list of the CPU. */
	for (i = 0; i < 3; i++)
		arm_tick(&p[i], 5);
	for (i = 0; i < 4; i++)
		queue_release(&p[i].t, probe_released);
	/* like queue_barrier() */
	smp_store_release(&rig->wheel.barrier, &done);
	for (i = 0; i < 100 && !completion_done(&done); i++)
		queue_advance(&rig->wheel, rig->now, 1);
	KUNIT_EXPECT_TRUE(test, completion_done(&done));
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
}

static struct task_struct *waiting[2];
static unsigned int nr_waiting;

static int cancel_other(void *data)
{
	struct probe *p = data;

	KUNIT_EXPECT_EQ(p->rig->test, 1U, queue_end_sync(&p->other->t, queue_cancel,
							 MAX_SCHEDULE_TIMEOUT));
	return 0;
}

/* Have another task cancel the other one, and go on when it waits. */
static void begin_wait(struct probe *p)
{
	int before = atomic_read(&p->rig->wheel.awaited);
	struct task_struct *task = kthread_create(cancel_other, p, "hwtimer_kunit");

	if (IS_ERR(task)) {
		KUNIT_FAIL(p->rig->test, "no thread");
		return;
	}
	waiting[nr_waiting++] = get_task_struct(task);
	wake_up_process(task);
	while (atomic_read(&p->rig->wheel.awaited) == before)
		nap(NSEC_PER_MSEC);
}

/* All tasks that wait have to go on. */
static void end_waits(void)
{
	while (nr_waiting) {
		kthread_stop(waiting[--nr_waiting]);
		put_task_struct(waiting[nr_waiting]);
	}
}

static void arm_some(struct probe *p, unsigned int n)
{
	while (n--)
		arm_tick(p++, 1000);
}

static void release_each(struct probe *p, unsigned int n)
{
	for (; n--; p++)
		queue_release(&p->t, probe_released);
}

static unsigned int nr_released(const struct probe *p, unsigned int n)
{
	unsigned int sum = 0;

	while (n--)
		sum += p++->released;
	return sum;
}

/*
 * A barrier is completed once, by a release cycle that began after it was requested, while the
 * drain of another pass goes on.
 */
static void barrier_amid_drain(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 23);
	unsigned int i;

	to_tick(rig, 1);
	release_each(p, 10);
	queue_advance(&rig->wheel, rig->now, 1);
	KUNIT_EXPECT_EQ(test, 1, p[0].released + p[9].released);
	/* The cycle that has begun is past this CPU's list. The next one begins with requests. */
	arm_some(&p[10], 3);
	release_each(&p[10], 4);
	/* like queue_barrier() */
	smp_store_release(&rig->wheel.barrier, &done);
	for (i = 0; i < 30 && !completion_done(&done); i++) {
		if (i == 3)
			arm_some(&p[14], 9);
		queue_advance(&rig->wheel, rig->now, 1);
	}
	KUNIT_EXPECT_TRUE(test, completion_done(&done));
	for (i = 0; i < 14; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
	KUNIT_EXPECT_LT(test, counts(rig).drained, 14UL + 3UL + 9UL);
	reinit_completion(&done);
	drive(rig, NULL, rig->now);
	KUNIT_EXPECT_EQ(test, 14UL + 3UL + 9UL, counts(rig).drained);
	KUNIT_EXPECT_FALSE(test, completion_done(&done));
}

/* The caller of queue_barrier() may be gone once the barrier is complete. */
static void barrier_then_stop(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct rig *rig = test->priv;
	struct list_head pending;

	/* like queue_barrier() */
	smp_store_release(&rig->wheel.barrier, &done);
	to_tick(rig, 1);
	KUNIT_EXPECT_TRUE(test, completion_done(&done));
	reinit_completion(&done);
	rig_stop(rig, &pending);
	KUNIT_EXPECT_FALSE(test, completion_done(&done));
}

/* A callback of a release by the stop releases another timeout, and so on: filed, idle, filed. */
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
	queue_release(&p[0].t, release_next);
	n = rig_stop(rig, &pending);
	KUNIT_EXPECT_EQ(test, 1, p[0].ret);
	KUNIT_EXPECT_EQ(test, 0, p[1].ret);
	/* the last one is handed back if it was found before it was released */
	KUNIT_EXPECT_EQ(test, (unsigned int)!p[2].ret, n);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, p[i].released, "%u", i);
}

/* Are @p[0..@n) released by so many calls, if @load timeouts are armed before each of them? */
static bool are_released(struct rig *rig, struct probe *p, unsigned int n, unsigned int calls,
			 struct probe *others, unsigned int load)
{
	unsigned int done = 0;

	while (done < n && calls--) {
		arm_some(others, load);
		others += load;
		queue_advance(&rig->wheel, rig->now, QUEUE_BUDGET);
		while (done < n && p[done].released)
			done++;
	}
	return done == n;
}

/*
 * However many timeouts are released at once, each call gives back half as many as its budget,
 * although others arm as many as it can file. Those that come by the request queue, which is
 * reversed first, take twice as many calls. Promise 13.
 */
static void release_has_a_share(struct kunit *test)
{
	static const unsigned int many[] = { 1, 341, 512, 513, 1024, 10 * QUEUE_BUDGET };
	const unsigned int share = QUEUE_BUDGET / 2;
	struct rig *rig = test->priv;
	unsigned int n, calls;
	struct probe *p, *others;

	for (n = 0; n < ARRAY_SIZE(many); n++) {
		calls = DIV_ROUND_UP(many[n], share);
		rig = rig_remake(rig, TICK, SLOTS, 0);
		p = probes(rig, 2 * many[n] + share * (calls + 1));
		others = &p[2 * many[n]];
		to_tick(rig, 1);
		release_each(p, many[n]);
		KUNIT_EXPECT_TRUE_MSG(test, are_released(rig, p, many[n], calls + 1, others, share),
				      "%u", many[n]);
		drive(rig, NULL, rig->now);
		p += many[n];
		arm_some(p, many[n]);
		release_each(p, many[n]);
		KUNIT_EXPECT_TRUE_MSG(test, are_released(rig, p, many[n], 2 * calls + 1, NULL, 0),
				      "%u", many[n]);
	}
}

/* Beside as many expiries as a call can handle, release functions have a smaller share. */
static void release_beside_expiries(struct kunit *test)
{
	const unsigned int calls = 4, due = (calls + 1) * QUEUE_BUDGET, share = QUEUE_BUDGET / 8;
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, due + 2 * calls * share), *others = &p[due];
	unsigned int i;

	for (i = 0; i < due; i++)
		arm_tick(&p[i], 2);
	to_tick(rig, 1);
	release_each(others, 2 * calls * share);
	rig->now = 2 * TICK;
	for (i = 0; i < calls; i++)
		KUNIT_EXPECT_TRUE(test, queue_advance(&rig->wheel, rig->now, QUEUE_BUDGET));
	KUNIT_EXPECT_EQ(test, calls * share, nr_released(others, 2 * calls * share));
	KUNIT_EXPECT_LE(test, (calls - 1) * QUEUE_BUDGET, rig->fired);
}

/* While requests are drained, too, if something is due that was filed before. */
static void release_before_due(struct kunit *test)
{
	const unsigned int share = QUEUE_BUDGET / 2;
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 1 + 2 * share + share), *others = &p[1 + 2 * share];

	arm_tick(&p[0], 2);
	to_tick(rig, 1);
	arm_some(&p[1], 2 * share);
	release_each(others, share);
	rig->now = 2 * TICK;
	KUNIT_EXPECT_TRUE(test, queue_advance(&rig->wheel, rig->now, QUEUE_BUDGET));
	KUNIT_EXPECT_EQ(test, QUEUE_BUDGET / 8, nr_released(others, share));
	drive(rig, NULL, rig->now);
	KUNIT_EXPECT_EQ(test, 1U, p[0].fired);
}

static void released_while_waiting(struct hwtimer_timeout *t)
{
	probe_released(t);
	begin_wait(container_of(t, struct probe, t));
}

/* A pass ends, although somebody waits, and more is armed than the worker drains. */
static void pass_ends(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct rig *rig = test->priv;
	const unsigned int calls = 100;
	struct probe *p = probes(rig, 12 + 5 * calls), *next = &p[12];
	unsigned int i;

	rig->wheel.drain.share = 1;
	p[0].other = &p[1];
	arm_tick(&p[1], 1000);
	to_tick(rig, 1);
	arm_some(&p[2], 10);
	queue_release(&p[0].t, released_while_waiting);
	/* like queue_barrier() */
	smp_store_release(&rig->wheel.barrier, &done);
	for (i = 0; i < calls && !completion_done(&done); i++, next += 5) {
		queue_advance(&rig->wheel, rig->now, 2);
		arm_some(next, 4);
		queue_release(&next[4].t, probe_released);
	}
	KUNIT_EXPECT_TRUE(test, completion_done(&done));
	drive(rig, NULL, rig->now);
	end_waits();
}

static void shut_down(struct probe *p)
{
	KUNIT_EXPECT_TRUE(p->rig->test, queue_shutdown(&p->rig->wheel));
}

/* A stop waits for the callback that runs, and not for those that are due. Promise 13. */
static void stop_in_row(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 5);
	struct list_head pending;
	unsigned int i;

	for (i = 0; i < 5; i++)
		arm_tick(&p[i], 3);
	p[0].then = shut_down;
	to_tick(rig, 1);
	rig->now = 3 * TICK;
	/* The worker may sleep: a thread that waits to end it may have a lower priority. */
	KUNIT_EXPECT_FALSE(test, queue_advance(&rig->wheel, rig->now, 100));
	KUNIT_EXPECT_EQ(test, 1U, rig->fired);
	KUNIT_EXPECT_EQ(test, QUEUE_IDLE, sleep_until(rig));
	/* Somebody who waits wakes it. */
	rig->kicks = 0;
	queue_cancel(&p[4].t);
	queue_detach(&p[4].t);
	KUNIT_EXPECT_EQ(test, 1U, rig->kicks);
	KUNIT_EXPECT_EQ(test, 0ULL, sleep_until(rig));
	KUNIT_EXPECT_FALSE(test, queue_advance(&rig->wheel, rig->now, 100));
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[4].t));
	INIT_LIST_HEAD(&pending);
	queue_sweep(&rig->wheel, &pending);
	rig->stopped = true;
	KUNIT_EXPECT_EQ(test, 3UL, counts(rig).handed_back);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&rig->wheel.waiters));
}

static void wait_is_over(struct probe *p)
{
	KUNIT_EXPECT_FALSE(p->rig->test, queue_holds(&p->other->t));
}

/* To look at the CPUs takes more of the share than the request, unless another call has begun. */
static void wait_has_cost(struct probe *p)
{
	struct hwtimer_wheel *w = &p->rig->wheel;

	wait_is_over(p);
	KUNIT_EXPECT_TRUE(p->rig->test, w->pass.spare == w->drain.share ||
			  w->pass.spare < w->drain.share - 2);
}

/*
 * Somebody who waits for the end of a timeout waits for the callback that runs, and not for those
 * that are due. Promise 13.
 */
static void wait_in_row(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 8);
	unsigned int i;

	for (i = 0; i < 4; i++) {
		arm_tick(&p[i], 3);
		p[i].other = &p[4 + i / 2];
		p[i].then = i % 2 ? wait_has_cost : begin_wait;
	}
	/* One has been filed, the other one will be by the same pass. */
	arm_tick(&p[4], 1000);
	to_tick(rig, 1);
	arm_tick(&p[5], 1000);
	/* Jiffies may move while a callback waits, and end a call. */
	to_tick(rig, 3);
	KUNIT_EXPECT_EQ(test, 4U, rig->fired);
	KUNIT_EXPECT_FALSE(test, queue_holds(&p[5].t));
	end_waits();
}

static void arm_and_wait(struct probe *p)
{
	unsigned int i;

	for (i = 2; i < 12; i++)
		arm_tick(&p[i], 4);
	begin_wait(p);
}

/*
 * What is drained for somebody who waits, and does not fit into its share, is not left behind. That
 * nothing has been armed or drained since the last sleep is no reason to sleep.
 */
static void nothing_is_left(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 12);
	unsigned int i;

	rig->wheel.drain.share = 4;
	arm_tick(&p[0], 3);
	p[0].other = &p[1];
	p[0].then = arm_and_wait;
	for (i = 1; i < 12; i++)
		arm(&p[i], U64_MAX);
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 3ULL * TICK, sleep_until(rig));
	queue_awake(&rig->wheel);
	rig->now = 3 * TICK;
	while (queue_advance(&rig->wheel, rig->now, 8))
		;
	KUNIT_EXPECT_EQ(test, 1U, rig->fired);
	KUNIT_EXPECT_EQ(test, 4ULL * TICK, sleep_until(rig));
	queue_awake(&rig->wheel);
	drive(rig, NULL, 4 * TICK);
	KUNIT_EXPECT_EQ(test, 11U, rig->fired);
	end_waits();
}

static void wait_or_expect_end(struct hwtimer_timeout *t)
{
	struct probe *p = container_of(t, struct probe, t);

	probe_released(t);
	if (nr_waiting)
		wait_is_over(p);
	else
		begin_wait(p);
}

/* Nor for the release functions that follow. */
static void wait_among_releases(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 3);
	unsigned int i;

	arm_tick(&p[2], 1000);
	to_tick(rig, 1);
	for (i = 0; i < 2; i++) {
		p[i].other = &p[2];
		queue_release(&p[i].t, wait_or_expect_end);
	}
	to_tick(rig, 1);
	KUNIT_EXPECT_EQ(test, 2U, p[0].released + p[1].released);
	end_waits();
}

/*
 * If it takes more than one share to reach its request, the next calls go on with that. A task that
 * began to wait meanwhile has a turn of its own.
 */
static void wait_for_shares(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct probe *p = probes(rig, 12 + 100 + 1);
	unsigned int i, calls = 0;

	rig->wheel.drain.share = 8;
	p[0].other = &p[1];
	p[0].then = arm_and_wait;
	arm_tick(&p[1], 1000);
	arm_tick(&p[112], 1000);
	arm_tick(&p[0], 3);
	for (i = 12; i < 112; i++)
		arm_tick(&p[i], 3);
	p[12].other = &p[112];
	p[12].then = begin_wait;
	p[110].other = &p[112];
	p[110].then = wait_is_over;
	p[111].other = &p[1];
	p[111].then = wait_is_over;
	to_tick(rig, 1);
	rig->now = 3 * TICK;
	while (queue_advance(&rig->wheel, rig->now, 10))
		calls += queue_holds(&p[1].t);
	KUNIT_EXPECT_EQ(test, 101U, rig->fired);
	/* Eleven requests are reversed and handled, by three shares. */
	KUNIT_EXPECT_LE(test, 2, calls);
	drive(rig, NULL, rig->now);
	end_waits();
}

WHEEL_SUITES(stop,
	KUNIT_CASE(wait_in_row),
	KUNIT_CASE(nothing_is_left),
	KUNIT_CASE(wait_among_releases),
	KUNIT_CASE(wait_for_shares),
	KUNIT_CASE(release_has_a_share),
	KUNIT_CASE(release_beside_expiries),
	KUNIT_CASE(release_before_due),
	KUNIT_CASE(pass_ends),
	KUNIT_CASE(stop_in_row),
	KUNIT_CASE(hands_back_midway),
	KUNIT_CASE(detach_while_stopping),
	KUNIT_CASE(release_in_cycle),
	KUNIT_CASE(barrier_in_pieces),
	KUNIT_CASE(barrier_amid_drain),
	KUNIT_CASE(barrier_then_stop),
	KUNIT_CASE(release_while_stopping));
