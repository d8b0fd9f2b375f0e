/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the suites of the wheel share: a wheel on a clock that the case moves. Nothing
 * sleeps here (but for the grace periods of a stop), so all expectations are exact.
 */
#ifndef WHEEL_RIG_H
#define WHEEL_RIG_H

#include <kunit/test.h>
#include <linux/time64.h>

#include "../../core/hwtimer_queue.h"
#include "hwtimer_kunit.h"

#define HOUR		(3600ULL * NSEC_PER_SEC)

/* the wheel that each case begins with */
#define TICK		1000
#define SLOTS		16

/* A wheel, and the clock and worker that the case provides. */
struct rig {
	struct kunit		*test;
	struct hwtimer_wheel	wheel;
	bool			made;
	bool			stopped;
	u64			now;
	unsigned int		fired;
	unsigned int		kicks;
	/* callbacks that were early, or late by more than a tick */
	unsigned int		late;
	u64			slack;
	/* callbacks right behind another one */
	unsigned int		in_row;
	/* a kick makes the worker answer a look, with this budget for each step */
	unsigned int		answers;
	void			*bulk;
};

/* A timeout that records what happens to it. */
struct probe {
	struct hwtimer_timeout	t;
	struct rig		*rig;
	unsigned int		fired;
	unsigned int		released;
	/* of its last expiry: the tick, and the rank among all expiries */
	u64			tick;
	unsigned int		rank;
	/* the tick at which it must fire */
	u64			due;
	/* an action for the callback, and its arguments */
	void			(*then)(struct probe *p);
	struct probe		*other;
	u64			deadline;
	int			ret;
};

int one_level(struct kunit_suite *suite);
int four_levels(struct kunit_suite *suite);
int rig_init(struct kunit *test);
void rig_exit(struct kunit *test);

/* Each suite has an array of its own, as KUnit writes to the cases. */
#define WHEEL_SUITE(suite, with, title, ...)				\
	static struct kunit_case suite##_cases[] = { __VA_ARGS__, {} };	\
	SUITE(suite, "wheel_" title, .suite_init = with, .init = rig_init, .exit = rig_exit)

/* Two suites of the same cases. */
#define WHEEL_SUITES(suite, ...)						\
	WHEEL_SUITE(suite, one_level, #suite, __VA_ARGS__);			\
	WHEEL_SUITE(suite##_4, four_levels, #suite "_4", __VA_ARGS__)

/* Extreme ticks and numbers of slots. */
struct rig_shape {
	u64		tick;
	unsigned int	slots;
};

#define SHAPES		7
extern const struct rig_shape shapes[SHAPES];

extern const struct queue_ops rig_ops;
void rig_set_up(struct rig *rig, const struct hwtimer_wheel_params *shape);
struct rig *rig_remake(struct rig *rig, u64 tick_ns, unsigned int slots, unsigned long cap);
struct rig *shape_of(struct rig *rig, u64 tick_ns, unsigned int slots, unsigned int n);
unsigned int rig_stop(struct rig *rig, struct list_head *pending);
void rig_end(struct rig *rig);

void advance_to(struct rig *rig, u64 now);
void step_to_tick(struct rig *rig, u64 tick);
unsigned int drive(struct rig *rig, struct probe *p, u64 limit);
unsigned long backlog(const struct rig *rig, bool released);

void probe_rearm(struct probe *p);
void probe_fired(struct hwtimer_timeout *t);
void probe_released(struct hwtimer_timeout *t);
void probe_setup(struct rig *rig, struct probe *p);
struct probe *probes(struct rig *rig, unsigned int n);
void expect_fired(struct probe *p, unsigned int n, u64 at);
void expect_in_order(struct rig *rig, struct probe *p, unsigned int n);

static inline struct queue_counts counts(struct rig *rig)
{
	struct queue_counts c;

	queue_count(&rig->wheel, &c);
	return c;
}

/* the slots of the lowest level */
static inline unsigned int rig_slots(const struct rig *rig)
{
	return 1U << rig->wheel.wheel.level[0].bits;
}

/* the tick that is being settled */
static inline u64 rig_tick(const struct rig *rig)
{
	return rig->wheel.wheel.cur - 1;
}

/* With one level, timeouts of later rounds share the buckets. */
static inline bool has_rounds(const struct rig *rig)
{
	return rig->wheel.wheel.levels == 1;
}

static inline void to_tick(struct rig *rig, u64 tick)
{
	advance_to(rig, tick * rig->wheel.tick_ns);
}

static inline u64 sleep_until(struct rig *rig)
{
	return queue_prepare_sleep(&rig->wheel, rig->now);
}

static inline int arm(struct probe *p, u64 deadline)
{
	return queue_arm(&p->t, deadline);
}

static inline int arm_tick(struct probe *p, u64 tick)
{
	return queue_arm(&p->t, tick * p->rig->wheel.tick_ns);
}

static inline int touch_tick(struct probe *p, u64 tick)
{
	return queue_touch(&p->t, tick * p->rig->wheel.tick_ns);
}

#endif /* WHEEL_RIG_H */
