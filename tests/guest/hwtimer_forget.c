// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_forget: a module that goes away without destroying its wheel. Timeouts are pending then
 * whose callback is no longer there. tests/selftests/module.c loads and unloads it.
 *
 *	insmod hwtimer_forget.ko [fails=1]
 */
#include <linux/err.h>
#include <linux/module.h>

#include <hwtimer.h>

static bool fails;
module_param(fails, bool, 0444);
MODULE_PARM_DESC(fails, "fail to load, after creating the wheel");

/* one that expires each ms, and one that does not */
static struct hwtimer_timeout often, never;

static void timeout_fired(struct hwtimer_timeout *t)
{
	hwtimer_schedule(t, NSEC_PER_MSEC);
}

static int __init forget_init(void)
{
	struct hwtimer_wheel *wheel;

	wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
			.name = KBUILD_MODNAME, .tick_ns = NSEC_PER_MSEC, .slots = 64 });
	if (IS_ERR(wheel))
		return PTR_ERR(wheel);
	hwtimer_init(&often, wheel, timeout_fired);
	hwtimer_init(&never, wheel, timeout_fired);
	hwtimer_schedule(&often, 0);
	hwtimer_schedule(&never, S64_MAX);
	return fails ? -EINVAL : 0;
}
module_init(forget_init);

static void __exit forget_exit(void)
{
}
module_exit(forget_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("hwtimer: a module that forgets its wheel");
