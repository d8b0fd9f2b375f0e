// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_api: the API for other modules, with both clocks.
 *
 * Made for User-Mode Linux with time-travel=inf-cpu, where the clock stands still while code runs,
 * and sleeping takes no real time.
 */
#include <kunit/test.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "hwtimer_kunit.h"
#include "api.h"

static const struct mode modes[] = {
	{ "monotonic" },
	{ "boottime", .clock = HWTIMER_CLOCK_BOOTTIME },
};

KUNIT_ARRAY_PARAM_DESC(mode, modes, desc);

struct hwtimer_wheel *make(struct kunit *test, u64 tick_ns, unsigned int slots,
			   unsigned long cap)
{
	const struct mode *mode = test->param_value;
	struct hwtimer_wheel_params params = {
		.name = "kunit", .tick_ns = tick_ns, .slots = slots, .levels = 1, .cap = cap,
		.clock = mode->clock,
	};

	return keep(test, hwtimer_wheel_create(&params));
}

static int bench_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct bench), GFP_KERNEL);
	return test->priv ? 0 : -ENOMEM;
}

static void bench_exit(struct kunit *test)
{
	struct bench *bench = test->priv;
	unsigned int i;

	for (i = 0; bench && i < MAX_WHEELS; i++) {
		if (!bench->wheels[i])
			continue;
		hwtimer_wheel_stop(bench->wheels[i], NULL);
		hwtimer_wheel_destroy(bench->wheels[i]);
	}
}

void job_fired(struct hwtimer_timeout *t)
{
	struct job *j = container_of(t, struct job, t);

	j->at = hwtimer_wheel_now(t->wheel);
	j->fired++;
	if (j->then)
		j->then(j);
}

struct job *jobs(struct kunit *test, struct hwtimer_wheel *wheel, unsigned int n)
{
	struct job *j = kunit_kzalloc(test, n * sizeof(*j), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, j);
	for (i = 0; i < n; i++) {
		j[i].test = test;
		hwtimer_init(&j[i].t, wheel, job_fired);
	}
	return j;
}

void then_nap(struct job *j)
{
	nap(j->delay);
	j->over = true;
}

void then_nap_rearm(struct job *j)
{
	then_nap(j);
	j->ret = hwtimer_schedule(&j->t, j->delay);
}

/* It has fired @n times, the last time at the first boundary at or after @deadline. */
void expect_on_time(struct job *j, unsigned int n, u64 deadline)
{
	KUNIT_EXPECT_EQ(j->test, n, j->fired);
	KUNIT_EXPECT_GE(j->test, j->at, deadline);
	KUNIT_EXPECT_LT(j->test, j->at, deadline + j->t.wheel->tick_ns + SLACK);
}

static int helper_fn(void *data)
{
	struct helper *h = data;

	h->run(h);
	/* The module may be unloaded as soon as the case is over. */
	kthread_complete_and_exit(&h->done, 0);
}

void help(struct kunit *test, struct helper *h, void (*run)(struct helper *h))
{
	h->run = run;
	init_completion(&h->done);
	h->task = kthread_run(helper_fn, h, "hwtimer_kunit");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, h->task);
}

static const struct create_param {
	const char			*desc;
	struct hwtimer_wheel_params	params;
	int				ret;
} create_params[] = {
#define GOOD .name = "w", .tick_ns = TICK, .slots = SLOTS
	{ "good", { GOOD } },
	{ "name of 31", { .name = "1234567890123456789012345678901",
			  .tick_ns = TICK, .slots = 1 } },
	{ "name of 32", { .name = "12345678901234567890123456789012",
			  .tick_ns = TICK, .slots = 1 }, -EINVAL },
	{ "name of 1", { .name = ".x", .tick_ns = TICK, .slots = 1 } },
	{ "no name", { .tick_ns = TICK, .slots = SLOTS }, -EINVAL },
	{ "empty name", { .name = "", .tick_ns = TICK, .slots = SLOTS }, -EINVAL },
	{ "name with slash", { .name = "a/b", .tick_ns = TICK, .slots = 1 }, -EINVAL },
	{ "name .", { .name = ".", .tick_ns = TICK, .slots = 1 }, -EINVAL },
	{ "name ..", { .name = "..", .tick_ns = TICK, .slots = 1 }, -EINVAL },
	{ "slack too long", { GOOD, .slack_ns = HWTIMER_HORIZON + 1 }, -EINVAL },
	/* suite hwtimer_wheel_init has more of tick, slots and levels */
	{ "slots 0", { .name = "w", .tick_ns = TICK }, -EINVAL },
	{ "nice -20", { GOOD, .nice = -20 } },
	{ "nice 19", { GOOD, .nice = 19 } },
	{ "nice -21", { GOOD, .nice = -21 }, -EINVAL },
	{ "nice 20", { GOOD, .nice = 20 }, -EINVAL },
	{ "FIFO", { GOOD, .sched = HWTIMER_SCHED_FIFO } },
	{ "FIFO, low", { GOOD, .sched = HWTIMER_SCHED_FIFO_LOW } },
	{ "FIFO and nice", { GOOD, .sched = HWTIMER_SCHED_FIFO, .nice = 1 }, -EINVAL },
	{ "FIFO, low, and nice", { GOOD, .sched = HWTIMER_SCHED_FIFO_LOW, .nice = -1 },
	  -EINVAL },
	{ "unknown class", { GOOD, .sched = HWTIMER_SCHED_FIFO + 1 }, -EINVAL },
	{ "negative class", { GOOD, .sched = -1 }, -EINVAL },
	{ "boottime", { GOOD, .clock = HWTIMER_CLOCK_BOOTTIME } },
	{ "unknown clock", { GOOD, .clock = HWTIMER_CLOCK_BOOTTIME + 1 }, -EINVAL },
	{ "negative clock", { GOOD, .clock = -1 }, -EINVAL },
	{ "all CPUs", { GOOD, .cpus = cpu_possible_mask } },
	{ "no CPU", { GOOD, .cpus = cpu_none_mask }, -EINVAL },
#undef GOOD
};

KUNIT_ARRAY_PARAM_DESC(create, create_params, desc);

static unsigned int slots_of(const struct hwtimer_wheel *wheel)
{
	return BIT(wheel->wheel.level[0].bits);
}

/* Promise 11. */
static void create(struct kunit *test)
{
	const struct create_param *param = test->param_value;
	struct hwtimer_wheel *wheel = hwtimer_wheel_create(&param->params);
	struct job *j;

	if (param->ret) {
		KUNIT_EXPECT_PTR_EQ(test, wheel, ERR_PTR(param->ret));
		if (!IS_ERR(wheel))
			keep(test, wheel);
		return;
	}
	keep(test, wheel);
	KUNIT_EXPECT_EQ(test, param->params.tick_ns, wheel->tick_ns);
	KUNIT_EXPECT_EQ(test, param->params.slots, slots_of(wheel));
	KUNIT_EXPECT_STREQ(test, param->params.name, to_driven(wheel)->name);
	KUNIT_EXPECT_EQ(test, 0UL, hwtimer_wheel_pending(wheel));
	j = jobs(test, wheel, 1);
	KUNIT_EXPECT_EQ(test, 0, hwtimer_schedule(&j->t, 0));
	nap(2 * TICK);
	if (param->params.tick_ns == TICK)
		KUNIT_EXPECT_EQ(test, 1, j->fired);
}

static void same_name(struct kunit *test)
{
	static const char *const names[] = { "kunit", "kunit.2", "kunit.3", "kunit.4" };
	static const char *const others[] = { "kunit.7", "kunit.4294967295", "kunit.x", "kun" };
	struct hwtimer_wheel_params params = { .tick_ns = TICK, .slots = SLOTS };
	struct hwtimer_wheel *wheels[ARRAY_SIZE(names)];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		wheels[i] = a_wheel(test);
		KUNIT_EXPECT_STREQ(test, to_driven(wheels[i])->name, names[i]);
	}
	KUNIT_EXPECT_EQ(test, 0, strncmp(to_driven(wheels[0])->task->comm, "hwtimer/kunit", 13));
	/* a new wheel never gets a name that is in use */
	unmake(test, wheels[2]);
	KUNIT_EXPECT_STREQ(test, to_driven(a_wheel(test))->name, "kunit.5");
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		params.name = others[i];
		keep(test, hwtimer_wheel_create(&params));
	}
	KUNIT_EXPECT_STREQ(test, to_driven(a_wheel(test))->name, "kunit.8");
	/* a destroyed wheel's name is free again */
	unmake(test, wheels[0]);
	KUNIT_EXPECT_STREQ(test, to_driven(a_wheel(test))->name, "kunit");
}

static void many_wheels(struct kunit *test)
{
	struct hwtimer_wheel *wheels[MAX_WHEELS];
	unsigned int i, k;
	struct job *j;

	for (k = 0; k < 3; k++) {
		for (i = 0; i < MAX_WHEELS; i++)
			wheels[i] = a_wheel(test);
		j = jobs(test, wheels[0], MAX_WHEELS);
		for (i = 0; i < MAX_WHEELS; i++) {
			hwtimer_init(&j[i].t, wheels[i], job_fired);
			hwtimer_schedule(&j[i].t, (i % 3) * SEC);
		}
		nap(SEC + SEC / 2);
		for (i = 0; i < MAX_WHEELS; i++)
			KUNIT_EXPECT_EQ(test, i % 3 < 2, j[i].fired);
		/* some with a timeout pending */
		for (i = 0; i < MAX_WHEELS; i++) {
			hwtimer_wheel_stop(wheels[i], NULL);
			unmake(test, wheels[i]);
		}
		nap(SEC);
	}
}

static void destroy_nothing(struct kunit *test)
{
	hwtimer_wheel_destroy(NULL);
	hwtimer_wheel_destroy(ERR_PTR(-ENOMEM));
}

static struct kunit_case api_cases[] = {
	KUNIT_CASE_PARAM(lazy_worker, mode_gen_params),
	KUNIT_CASE_PARAM(start, mode_gen_params),
	KUNIT_CASE_PARAM(on_time, mode_gen_params),
	KUNIT_CASE_PARAM(forever, mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync, mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_waits, mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_in_row, mode_gen_params),
#ifdef CONFIG_UML
	KUNIT_CASE_PARAM(holds_rearming, mode_gen_params),
#endif
	KUNIT_CASE_PARAM(cancel_sync_self, mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_self_rearmed, mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_other, mode_gen_params),
	KUNIT_CASE_PARAM(shutdown_sync, mode_gen_params),
	KUNIT_CASE_PARAM(rearming_twice, mode_gen_params),
	KUNIT_CASE_PARAM(rearming_past, mode_gen_params),
	KUNIT_CASE_PARAM(waits_for_one, mode_gen_params),
	KUNIT_CASE_PARAM(waits_while_released, mode_gen_params),
	KUNIT_CASE_PARAM(waits_while_armed, mode_gen_params),
	KUNIT_CASE_PARAM(waits_release_self, mode_gen_params),
	KUNIT_CASE_PARAM(cancel_sync_released, mode_gen_params),
	KUNIT_CASE_PARAM(no_kick_in_callback, mode_gen_params),
	KUNIT_CASE_PARAM(init_self, mode_gen_params),
	KUNIT_CASE_PARAM(release, mode_gen_params),
	KUNIT_CASE_PARAM(release_running, mode_gen_params),
	KUNIT_CASE_PARAM(release_self, mode_gen_params),
	KUNIT_CASE_PARAM(stop, mode_gen_params),
	KUNIT_CASE_PARAM(stop_asleep, mode_gen_params),
	KUNIT_CASE_PARAM(stop_from_callback, mode_gen_params),
	KUNIT_CASE_PARAM(stop_other_from_callback, mode_gen_params),
	KUNIT_CASE_PARAM(stop_twice, mode_gen_params),
	KUNIT_CASE_PARAM(stop_releases, mode_gen_params),
	KUNIT_CASE_PARAM(create, create_gen_params),
	KUNIT_CASE_PARAM(same_name, mode_gen_params),
	KUNIT_CASE_PARAM(many_wheels, mode_gen_params),
	KUNIT_CASE(destroy_nothing),
	KUNIT_CASE_PARAM(scheduling, mode_gen_params),
	KUNIT_CASE_PARAM(slow_callback, mode_gen_params),
	KUNIT_CASE_PARAM(callbacks_in_row, mode_gen_params),
	KUNIT_CASE_PARAM(shows_counters, mode_gen_params),
	KUNIT_CASE_PARAM(far_rounds_wakeups, mode_gen_params),
	KUNIT_CASE_PARAM(contexts, mode_gen_params),
	KUNIT_CASE_PARAM(waits_for_released, mode_gen_params),
	KUNIT_CASE_PARAM(waits_for_callback, mode_gen_params),
	KUNIT_CASE_PARAM(barrier_from_callback, mode_gen_params),
	KUNIT_CASE_PARAM(barriers, mode_gen_params),
	KUNIT_CASE_PARAM(barrier_in_stream, mode_gen_params),
	KUNIT_CASE_PARAM(unless_due, mode_gen_params),
	KUNIT_CASE_PARAM(jump, mode_gen_params),
	{}
};

SUITE(api, "api", .init = bench_init, .exit = bench_exit);
