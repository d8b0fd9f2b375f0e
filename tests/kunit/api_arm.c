// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: cases of KUnit suite hwtimer_api: arming, touching, and when timeouts expire.
 */
#include <kunit/test.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/timer.h>

#include "../../core/hwtimer_compat.h"
#include "hwtimer_kunit.h"
#include "api.h"

/* The worker of a wheel without timeouts stays asleep. Promise 6. */
void lazy_worker(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 1);

	nap(5 * SEC);
	KUNIT_EXPECT_EQ(test, 0UL, wakeups(wheel));
	KUNIT_EXPECT_EQ(test, (int)QUEUE_INIT, wheel->state);
	KUNIT_EXPECT_FALSE(test, hwtimer_cancel(&j->t));
	KUNIT_EXPECT_EQ(test, -ENOENT, hwtimer_touch(&j->t, SEC));
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 0UL, wakeups(wheel));

	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, SEC));
	KUNIT_EXPECT_EQ(test, (int)QUEUE_STARTED, wheel->state);
	nap(MS);
	KUNIT_EXPECT_EQ(test, 1UL, wakeups(wheel));
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 1, j->fired);

	/* idle again */
	nap(SEC);
	KUNIT_EXPECT_LE(test, wakeups(wheel), 10UL);
	KUNIT_EXPECT_EQ(test, 1UL, counts(wheel).kicks);
}

void start(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);

	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_start(wheel));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_start(wheel));
	KUNIT_EXPECT_EQ(test, (int)QUEUE_STARTED, wheel->state);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 0UL, wakeups(wheel));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_wheel_start(wheel));
}

static const s64 delays[] = {
	1, MS, TICK - 1, TICK, TICK + 1, 2 * TICK, 35 * MS, SLOTS * TICK - 1, SLOTS * TICK,
	SLOTS * TICK + 1, 3 * SLOTS * TICK + 17, 20 * SLOTS * TICK,
};

/* All delays at once, on wheels of different shapes: an odd tick, short rounds. Promise 1. */
void on_time(struct kunit *test)
{
	static const struct {
		u64		tick;
		unsigned int	slots;
	} shapes[] = {
		{ TICK, SLOTS }, { TICK, 1 }, { TICK, 4 }, { TICK, 4096 },
		{ 7 * MS + 1, 8 }, { 2 * MS, 16 }, { 300 * MS, 16 },
	};
	unsigned int i, k;

	for (k = 0; k < ARRAY_SIZE(shapes); k++) {
		struct hwtimer_wheel *wheel = make(test, shapes[k].tick, shapes[k].slots, 0);
		struct job *j = jobs(test, wheel, ARRAY_SIZE(delays));
		u64 now;

		/* not on a boundary */
		nap(123456);
		now = hwtimer_wheel_now(wheel);
		for (i = 0; i < ARRAY_SIZE(delays); i++) {
			KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[i].t, delays[i]));
			KUNIT_EXPECT_TRUE(test, hwtimer_is_pending(&j[i].t));
			KUNIT_EXPECT_GE(test, hwtimer_deadline(&j[i].t), now + delays[i]);
			KUNIT_EXPECT_LE(test, hwtimer_deadline(&j[i].t),
					now + delays[i] + SLACK);
		}
		KUNIT_EXPECT_EQ(test, ARRAY_SIZE(delays), hwtimer_wheel_pending(wheel));
		nap(15 * SEC);
		for (i = 0; i < ARRAY_SIZE(delays); i++) {
			expect_on_time(&j[i], 1, now + delays[i]);
			KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&j[i].t));
		}
		KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
	}
}

void forever(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct job *j = jobs(test, wheel, 5);
	unsigned int i;
	u64 now = hwtimer_wheel_now(wheel);

	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[0].t, S64_MAX));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[1].t, HWTIMER_HORIZON));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[2].t, U64_MAX));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j[3].t, now + HWTIMER_HORIZON));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j[4].t, SEC));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_touch(&j[4].t, S64_MAX));
	nap(100 * SEC);
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ(test, 0, j[i].fired);
		KUNIT_EXPECT_EQ(test, U64_MAX, hwtimer_deadline(&j[i].t));
		KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&j[i].t));
	}
}

struct soft {
	struct timer_list	timer;
	struct job		*jobs;
};

static void soft_fn(struct timer_list *timer)
{
	struct soft *s = container_of(timer, struct soft, timer);
	struct job *j = s->jobs;

	KUNIT_EXPECT_TRUE(j->test, in_softirq());
	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_schedule(&j[0].t, 0));
	KUNIT_EXPECT_EQ(j->test, 0, hwtimer_touch(&j[1].t, SEC));
	KUNIT_EXPECT_TRUE(j->test, hwtimer_cancel(&j[2].t));
	KUNIT_EXPECT_TRUE(j->test, hwtimer_release(&j[3].t, job_released));
}

/* All buckets are occupied by later rounds: the worker does not wake for each of them. */
void far_rounds_wakeups(struct kunit *test)
{
	const unsigned int n = 4096;
	struct hwtimer_wheel *wheel = make(test, MS / 10, n, 0);
	struct job *j = jobs(test, wheel, n + 60);
	u64 now = hwtimer_wheel_now(wheel);
	unsigned long before;
	unsigned int i;

	for (i = 0; i < n; i++)
		hwtimer_schedule_at(&j[i].t, now + 3600 * SEC + i * (MS / 10));
	/* After each of these, the others have to be searched for the next event. */
	for (i = 0; i < 60; i++)
		hwtimer_schedule_at(&j[n + i].t, now + (6 + i) * (u64)SEC);
	nap(5 * SEC);
	before = wakeups(wheel);
	nap(60 * SEC);
	KUNIT_EXPECT_LE(test, wakeups(wheel) - before, 60UL * NSEC_PER_SEC / QUEUE_DRAIN_NS);
	KUNIT_EXPECT_GE(test, counts(wheel).expired, 58UL);
}

/* Operations in softirq context, and with interrupts off. Promise 3. */
void contexts(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct soft *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	struct job *j = jobs(test, wheel, 4);
	unsigned long flags;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->jobs = j;
	for (i = 1; i < 4; i++)
		hwtimer_schedule(&j[i].t, 50 * SEC);
	timer_setup(&s->timer, soft_fn, 0);
	mod_timer(&s->timer, jiffies + HZ);
	nap(2 * SEC);
	timer_delete_sync(&s->timer);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1, j[0].fired);
	KUNIT_EXPECT_EQ(test, 1, j[1].fired);
	KUNIT_EXPECT_EQ(test, 0, j[2].fired + j[3].fired);
	KUNIT_EXPECT_EQ(test, 1, j[3].released);

	local_irq_save(flags);
	hwtimer_schedule(&j[0].t, 0);
	hwtimer_schedule(&j[1].t, 50 * SEC);
	hwtimer_touch(&j[1].t, 0);
	hwtimer_schedule(&j[2].t, 0);
	hwtimer_cancel(&j[2].t);
	KUNIT_EXPECT_TRUE(test, irqs_disabled());
	local_irq_restore(flags);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 2, j[0].fired);
	KUNIT_EXPECT_EQ(test, 2, j[1].fired);
	KUNIT_EXPECT_EQ(test, 0, j[2].fired);
}

static void then_unless_due(struct job *j)
{
	j->ret = hwtimer_schedule_unless_due(&j->t, READ_ONCE(j->delay));
}

/* The owner pushes a timeout back by a store. */
void unless_due(struct kunit *test)
{
	struct hwtimer_wheel *wheel = make(test, TICK, SLOTS, 1);
	struct job *j = jobs(test, wheel, 2);
	u64 now = hwtimer_wheel_now(wheel), later = now + 2 * SEC + 1;

	j->then = then_unless_due;
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_at(&j->t, now + SEC));
	WRITE_ONCE(j->delay, later);
	nap(SEC + 2 * TICK);
	expect_on_time(j, 1, now + SEC);
	KUNIT_EXPECT_EQ(test, 0, j->ret);
	KUNIT_EXPECT_TRUE(test, hwtimer_is_pending(&j->t));
	KUNIT_EXPECT_EQ(test, later, hwtimer_deadline(&j->t));
	nap(SEC);
	expect_on_time(j, 2, later);
	KUNIT_EXPECT_EQ(test, -ETIME, j->ret);
	KUNIT_EXPECT_FALSE(test, hwtimer_is_pending(&j->t));

	/* already pending; with the cap reached; and on a stopped wheel */
	now = hwtimer_wheel_now(wheel);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule_unless_due(&j->t, now + SEC));
	KUNIT_EXPECT_EQ(test, -ETIME, hwtimer_schedule_unless_due(&j->t, now));
	KUNIT_EXPECT_EQ(test, 1, hwtimer_schedule_unless_due(&j->t, now + 2 * SEC));
	KUNIT_EXPECT_EQ(test, now + 2 * SEC, hwtimer_deadline(&j->t));
	KUNIT_EXPECT_EQ(test, -EAGAIN, hwtimer_schedule_unless_due(&j[1].t, now + SEC));
	KUNIT_EXPECT_TRUE(test, hwtimer_cancel(&j->t));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, hwtimer_schedule_unless_due(&j->t, now + SEC));
}

/*
 * The clock jumps, as CLOCK_BOOTTIME does in suspend, and the worker wakes up: what became
 * due meanwhile expires at once, the rest on time. A case cannot set the machine's clock, so it
 * moves the time at which the wheel began.
 */
void jump(struct kunit *test)
{
	u64 leap = 100ULL * SEC, now;
	struct hwtimer_driven *driven;
	struct hwtimer_wheel *wheel;
	struct job *j;
	unsigned int i;

	/* The wheel must not begin before the clock did. */
	nap(leap);
	wheel = a_wheel(test);
	driven = to_driven(wheel);
	j = jobs(test, wheel, 6);
	for (i = 0; i < 6; i++)
		hwtimer_schedule(&j[i].t, i < 5 ? (i + 1) * 19LL * SEC : leap + 5 * SEC);
	nap(SEC);
	/* The worker does not read this now: it sleeps, with nothing due for long. */
	driven->start_ns -= leap;
	now = hwtimer_wheel_now(wheel);
	wheel->ops->kick(wheel);
	nap(MS);
	for (i = 0; i < 5; i++)
		expect_on_time(&j[i], 1, now);
	KUNIT_EXPECT_EQ(test, 0, j[5].fired);
	nap(10 * SEC);
	expect_on_time(&j[5], 1, now + 4 * SEC);
	/* and the wheel goes on */
	now = hwtimer_wheel_now(wheel);
	hwtimer_schedule(&j[0].t, SEC);
	nap(2 * SEC);
	expect_on_time(&j[0], 2, now + SEC);
}
