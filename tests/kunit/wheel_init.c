// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_wheel_init: parameters.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "wheel_rig.h"

static const struct init_param {
	const char	*desc;
	u64		tick_ns;
	unsigned int	slots;
	int		ret;
	unsigned int	rounded;
	unsigned int	levels;
	unsigned int	made;	/* with levels 0 */
} init_params[] = {
	{ "1 slot", TICK, 1, 0, 1, 1 },
	{ "3 slots", TICK, 3, 0, 4, 1 },
	{ "4 slots", TICK, 4, 0, 4, 1 },
	{ "1000 slots", TICK, 1000, 0, 1024, 1 },
	{ "tick 0", 0, 8, -EINVAL },
	{ "slots 0", TICK, 0, -EINVAL },
	{ "too many slots", TICK, HWTIMER_WHEEL_MAX_SLOTS + 1, -EINVAL },
	{ "most slots one can ask for", TICK, UINT_MAX, -EINVAL },
	{ "most slots", 1, HWTIMER_WHEEL_MAX_SLOTS, 0, 65536, 1 },
	/* a round is at most HWTIMER_HORIZON, which is odd */
	{ "round n, 1 slot", HWTIMER_HORIZON, 1, 0, 1, 1 },
	{ "round n+1, 1 slot", HWTIMER_HORIZON + 1, 1, -EINVAL },
	{ "round n, 8 slots", HWTIMER_HORIZON / 8, 8, 0, 8, 1 },
	{ "round n+1, 8 slots", HWTIMER_HORIZON / 8 + 1, 8, -EINVAL },
	{ "round n, 5 slots", HWTIMER_HORIZON / 8, 5, 0, 8, 1 },
	{ "round n+1, 5 slots are 8", HWTIMER_HORIZON / 8 + 1, 5, -EINVAL },
	{ "longest tick one can ask for", U64_MAX, 1, -EINVAL },
	{ "1 level", TICK, 8, 0, 8, 1 },
	{ "17 levels", TICK, 4, -EINVAL, 0, 17 },
	{ "most levels one can ask for", TICK, 4, -EINVAL, 0, UINT_MAX },
	{ "2 levels of 1 slot", TICK, 1, -EINVAL, 0, 2 },
	{ "all levels of 1 slot", TICK, 1, 0, 1, 0, 1 },
	{ "2 levels of 2", TICK, 2, -EINVAL, 0, 2 },
	{ "all levels of 2", TICK, 2, 0, 2, 0, 1 },
	{ "all levels of 4", TICK, 4, 0, 4, 0, 16 },
	/* 1 << 60 is beyond HWTIMER_HORIZON; level n reaches 1 << (5 + 4 * n) */
	{ "14 levels of 32 at 1 ns", 1, 32, 0, 32, 14 },
	{ "15 levels of 32 at 1 ns", 1, 32, 0, 32, 15 },
	{ "16 levels of 32 at 1 ns", 1, 32, -EINVAL, 0, 16 },
	{ "all levels of 32 at 1 ns", 1, 32, 0, 32, 0, 15 },
	{ "all levels of 16 at 1 ns", 1, 16, 0, 16, 0, 16 },
	/* 8 ticks are HWTIMER_HORIZON less 7 ns */
	{ "2 levels, where a slot is FOREVER", HWTIMER_HORIZON / 8, 8, 0, 8, 2 },
	{ "3 levels, where a slot is more", HWTIMER_HORIZON / 8, 8, -EINVAL, 0, 3 },
	{ "all levels, where a slot is FOREVER", HWTIMER_HORIZON / 8, 8, 0, 8, 0, 2 },
	/* the ninth level reaches 1 << 64 */
	{ "9 levels of 256 at 1 ns", 1, 256, 0, 256, 9 },
	{ "10 levels of 256 at 1 ns", 1, 256, -EINVAL, 0, 10 },
	{ "all levels of 256 at 1 ns", 1, 256, 0, 256, 0, 9 },
	{ "all levels of 65536 at 1 us", 1000, 65536, 0, 65536, 0, 4 },
	{ "16 levels of 65536 at 1 us", 1000, 65536, -EINVAL, 0, 16 },
};

KUNIT_ARRAY_PARAM_DESC(init, init_params, desc);

/* Promise 11. */
static void init(struct kunit *test)
{
	const struct init_param *param = test->param_value;
	struct hwtimer_wheel_params shape = {
		.tick_ns = param->tick_ns, .slots = param->slots, .levels = param->levels,
	};
	struct rig *rig = test->priv;
	struct probe *p;
	int ret;

	rig_end(rig);
	/* queue_init() must not rely on the previous contents. */
	memset(&rig->wheel, 0xa5, sizeof(rig->wheel));
	ret = queue_init(&rig->wheel, &shape, &rig_ops);
	KUNIT_EXPECT_EQ(test, param->ret, ret);
	if (ret)
		return;
	rig->made = true;
	rig->stopped = false;
	KUNIT_EXPECT_EQ(test, param->rounded, rig_slots(rig));
	KUNIT_EXPECT_EQ(test, param->levels ?: param->made, rig->wheel.wheel.levels);
	KUNIT_EXPECT_EQ(test, param->tick_ns, rig->wheel.tick_ns);
	/* the wheel works */
	p = probes(rig, 2);
	arm_tick(&p[0], 1);
	arm(&p[1], param->tick_ns + 1);
	to_tick(rig, 0);
	KUNIT_EXPECT_EQ(test, 0, rig->fired);
	if (param->tick_ns < HWTIMER_HORIZON) {
		to_tick(rig, 1);
		expect_fired(&p[0], 1, 1);
	}
}

WHEEL_SUITE(init, one_level, "init",
	KUNIT_CASE_PARAM(init, init_gen_params));
