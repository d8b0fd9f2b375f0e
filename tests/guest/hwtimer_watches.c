// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_watches: timeouts as modules/hwtimer_idle.c has them, without sockets, since a guest has
 * no memory for so many connections. Each expires once in a period, and is armed for the next one,
 * as if its connection had a message in each. tests/story/story.c loads this, and measures.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include <hwtimer.h>

static unsigned int count;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "how many");

static unsigned int seconds;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "the period");

static unsigned long looks;
module_param(looks, ulong, 0444);
MODULE_PARM_DESC(looks, "how often one has expired (read it, do not set it)");

/* As struct idle_watch. */
struct watch {
	struct hwtimer_timeout	timeout;
	struct watch		*next;
	void			*unused[6];
};

static struct hwtimer_wheel *wheel;
static struct watch *watches;

static u64 period_ns(void)
{
	return seconds * (u64)NSEC_PER_SEC;
}

static void watch_expired(struct hwtimer_timeout *timeout)
{
	looks++;
	hwtimer_schedule_at(timeout, ktime_get_ns() + period_ns());
}

static void watches_free(void)
{
	struct watch *watch;

	hwtimer_wheel_stop(wheel, NULL);
	hwtimer_wheel_destroy(wheel);
	while ((watch = watches)) {
		watches = watch->next;
		kfree(watch);
	}
}

static int __init watches_init(void)
{
	u64 now = ktime_get_ns();
	struct watch *watch;
	unsigned int i;

	wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
			.name = "watches", .tick_ns = 4 * NSEC_PER_MSEC, .slots = 64 });
	if (IS_ERR(wheel))
		return PTR_ERR(wheel);
	for (i = 0; i < count; i++) {
		watch = kmalloc(sizeof(*watch), GFP_KERNEL);
		if (!watch) {
			watches_free();
			return -ENOMEM;
		}
		watch->next = watches;
		watches = watch;
		hwtimer_init(&watch->timeout, wheel, watch_expired);
		hwtimer_schedule_at(&watch->timeout,
				    now + period_ns() + div_u64(period_ns() * i, count));
		cond_resched();
	}
	return 0;
}
module_init(watches_init);

static void __exit watches_exit(void)
{
	watches_free();
}
module_exit(watches_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Watches of hwtimer_idle without sockets");
MODULE_AUTHOR("The hwtimer authors");
