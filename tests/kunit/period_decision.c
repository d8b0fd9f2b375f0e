// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_period_decision: the arithmetic of periods against a naive model.
 */
#include <kunit/test.h>
#include <linux/prandom.h>

#include "../../hwtimer.h"
#include "../../core/hwtimer_period.h"
#include "hwtimer_kunit.h"

#define TICK	(10 * NSEC_PER_MSEC)
#define PERIOD	(10 * TICK)

static const enum hwtimer_policy policies[] = {
	HWTIMER_PERIOD_ONCE, HWTIMER_PERIOD_SKIP, HWTIMER_PERIOD_MAKE_UP,
};

/* The policies as documented: walks from one deadline to the next. */
static struct hwtimer_decision model(const struct hwtimer_period *p, u64 deadline, u64 now)
{
	bool misfire = now > deadline && now - deadline > (p->misfire_ns ?: p->period_ns);
	struct hwtimer_decision d = { .next_ns = deadline + p->period_ns };

	d.fire = !misfire || p->policy != HWTIMER_PERIOD_SKIP;
	if (!misfire || p->policy == HWTIMER_PERIOD_MAKE_UP)
		return d;
	if (!d.fire)
		d.overruns++;
	while (d.next_ns <= now) {
		d.overruns++;
		d.next_ns += p->period_ns;
	}
	return d;
}

static void decide_model(struct kunit *test)
{
	struct hwtimer_decision m, d;
	struct hwtimer_period p;
	u64 deadline, now;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		p.policy = policies[i];
		for (p.period_ns = 1; p.period_ns < 12; p.period_ns++) {
			for (p.misfire_ns = 0; p.misfire_ns < 26; p.misfire_ns++) {
				for (deadline = 0; deadline < 5; deadline++) {
					for (now = 0; now < 50; now++) {
						m = model(&p, deadline, now);
						d = hwtimer_period_decide(&p, deadline, now);
						KUNIT_ASSERT_EQ(test, m.fire, d.fire);
						KUNIT_ASSERT_EQ(test, m.overruns, d.overruns);
						KUNIT_ASSERT_EQ(test, m.next_ns, d.next_ns);
					}
				}
			}
		}
	}
}

/* At the end of the range, deadlines become U64_MAX and do not wrap. */
static void edges(struct kunit *test)
{
	static const struct {
		u64 deadline, now, period, missed, next;
	} cases[] = {
		{ 0, U64_MAX, 1, U64_MAX, U64_MAX },
		{ 0, U64_MAX - 1, 1, U64_MAX - 1, U64_MAX },
		{ 0, U64_MAX - 2, 1, U64_MAX - 2, U64_MAX - 1 },
		{ 1, U64_MAX - 1, 1, U64_MAX - 2, U64_MAX },
		{ U64_MAX, U64_MAX, 1, 0, U64_MAX },
		{ U64_MAX, 0, 1, 0, U64_MAX },
		{ U64_MAX - 1, 0, 1, 0, U64_MAX },
		{ U64_MAX - 2, 0, 1, 0, U64_MAX - 1 },
		{ 5, U64_MAX, U64_MAX, 0, U64_MAX },
		{ 0, U64_MAX, U64_MAX, 1, U64_MAX },
		{ 0, 1ULL << 63, 1ULL << 63, 1, U64_MAX },
		{ 0, (1ULL << 63) - 1, 1ULL << 63, 0, 1ULL << 63 },
		{ HWTIMER_HORIZON, HWTIMER_HORIZON + 9, 10, 0, HWTIMER_HORIZON + 10 },
		{ HWTIMER_HORIZON, HWTIMER_HORIZON + 10, 10, 1, HWTIMER_HORIZON + 20 },
		{ 10, 3, 7, 0, 17 },
	};
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (k = 0; k < ARRAY_SIZE(policies); k++) {
			struct hwtimer_period p = { cases[i].period, 1, policies[k] };
			struct hwtimer_decision d;

			d = hwtimer_period_decide(&p, cases[i].deadline, cases[i].now);
			KUNIT_EXPECT_GE(test, d.next_ns, cases[i].deadline);
			if (policies[k] == HWTIMER_PERIOD_ONCE) {
				KUNIT_EXPECT_EQ_MSG(test, cases[i].missed, d.overruns, "case %u",
						    i);
				KUNIT_EXPECT_EQ_MSG(test, cases[i].next, d.next_ns, "case %u", i);
			}
		}
	}
}

/* Checks the properties of decisions for numbers of all sizes. */
static void all_sizes(struct kunit *test)
{
	struct rnd_state rnd;
	unsigned int i, k;

	prandom_seed_state(&rnd, 4711);
	for (i = 0; i < 200000; i++) {
		struct hwtimer_period p = { .misfire_ns = 1, .policy = HWTIMER_PERIOD_ONCE };
		struct hwtimer_decision d;
		u64 v[3], next, missed;

		for (k = 0; k < 3; k++) {
			v[k] = (u64)prandom_u32_state(&rnd) << 32 | prandom_u32_state(&rnd);
			v[k] >>= prandom_u32_state(&rnd) % 64;
		}
		v[2] = v[2] ?: 1;
		/* on time, or a misfire */
		if (v[1] < v[0] || v[1] - v[0] == 1)
			v[1] = v[0];
		p.period_ns = v[2];
		d = hwtimer_period_decide(&p, v[0], v[1]);
		next = d.next_ns;
		missed = d.overruns;
		KUNIT_ASSERT_TRUE(test, next > v[1] || next == U64_MAX);
		/* the last missed deadline is not after now, and the next one is */
		KUNIT_ASSERT_LE(test, missed, (v[1] - v[0]) / v[2]);
		KUNIT_ASSERT_LT(test, v[1] - v[0] - missed * v[2], v[2]);
		if (next != U64_MAX)
			KUNIT_ASSERT_EQ(test, next, v[0] + missed * v[2] + v[2]);
		else
			KUNIT_ASSERT_GE(test, v[2], U64_MAX - (v[0] + missed * v[2]));
	}
}

static void check(struct kunit *test)
{
	static const u64 around[] = { TICK - 1, TICK, TICK + 1, U64_MAX };
	struct hwtimer_period p;
	unsigned int i, k;
	int policy;

	for (policy = -1; policy < 5; policy++) {
		p = (struct hwtimer_period){ PERIOD, TICK, policy };
		KUNIT_EXPECT_EQ(test, policy < 0 || policy > 2 ? -EINVAL : 0,
				hwtimer_period_check(&p, TICK));
	}
	for (i = 0; i < ARRAY_SIZE(around); i++) {
		for (k = 0; k < ARRAY_SIZE(policies); k++) {
			p = (struct hwtimer_period){ around[i], 0, policies[k] };
			KUNIT_EXPECT_EQ(test, i ? 0 : -EINVAL, hwtimer_period_check(&p, TICK));
			p = (struct hwtimer_period){ PERIOD, around[i], policies[k] };
			KUNIT_EXPECT_EQ(test, i ? 0 : -EINVAL, hwtimer_period_check(&p, TICK));
		}
	}
	p = (struct hwtimer_period){ 0, 0, HWTIMER_PERIOD_ONCE };
	KUNIT_EXPECT_EQ(test, -EINVAL, hwtimer_period_check(&p, TICK));
	p = (struct hwtimer_period){ PERIOD, 1, HWTIMER_PERIOD_ONCE };
	KUNIT_EXPECT_EQ(test, -EINVAL, hwtimer_period_check(&p, TICK));
}

static struct kunit_case decision_cases[] = {
	KUNIT_CASE(decide_model),
	KUNIT_CASE(edges),
	KUNIT_CASE(all_sizes),
	KUNIT_CASE(check),
	{}
};

SUITE(decision, "period_decision");
