// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_remote: a wheel whose timeouts a program arms, touches and cancels, so that it can look
 * at the wheel from outside.
 *
 *	insmod hwtimer_remote.ko [PARAMETER=VALUE]...
 *	echo "arm FIRST COUNT DELAY STEP" >/sys/module/hwtimer_remote/parameters/command
 *
 * arms COUNT timeouts from number FIRST on: the first one for DELAY ns from now, and each of the
 * others STEP ns later than the one before. "touch" has the same arguments, "cancel FIRST COUNT"
 * and "stop" have not. DELAY -1 never comes.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>

#include <hwtimer.h>

#define TIMEOUTS	8192
#define OTHERS		64

static unsigned long long tick_ns = NSEC_PER_MSEC;
module_param(tick_ns, ullong, 0444);
MODULE_PARM_DESC(tick_ns, "length of a tick (default 1 ms)");

static unsigned int slots = 64;
module_param(slots, uint, 0444);
MODULE_PARM_DESC(slots, "slots of a level (default 64)");

static unsigned int levels;
module_param(levels, uint, 0444);
MODULE_PARM_DESC(levels, "how many levels (default: as many as are needed)");

static bool boottime;
module_param(boottime, bool, 0444);
MODULE_PARM_DESC(boottime, "on CLOCK_BOOTTIME (default: CLOCK_MONOTONIC)");

static unsigned int others;
module_param(others, uint, 0444);
MODULE_PARM_DESC(others, "how many wheels there are besides, without timeouts (default 0)");

static unsigned int call_ms;
module_param(call_ms, uint, 0444);
MODULE_PARM_DESC(call_ms, "how long a callback takes, in ms (default 0)");

static struct hwtimer_wheel *wheel, *other[OTHERS];
static struct hwtimer_timeout timeouts[TIMEOUTS];

static void remote_fired(struct hwtimer_timeout *t)
{
	mdelay(call_ms);
}

static int remote_one(const char *what, struct hwtimer_timeout *t, u64 deadline)
{
	if (!strcmp(what, "arm"))
		return min(hwtimer_schedule_at(t, deadline), 0);
	if (!strcmp(what, "touch"))
		return hwtimer_touch_at(t, deadline);
	if (!strcmp(what, "cancel"))
		return hwtimer_cancel(t) ? 0 : -ENOENT;
	return -EINVAL;
}

static int remote_command(const char *text, const struct kernel_param *kp)
{
	unsigned int first = 0, count = 0, i;
	struct list_head pending;
	u64 deadline, step = 0;
	s64 delay = 0;
	char what[8];
	int ret = 0;

	/* Among the arguments of insmod, it comes too early. */
	if (!wheel ||
	    sscanf(text, "%7s %u %u %lld %llu", what, &first, &count, &delay, &step) < 1 ||
	    count > TIMEOUTS || first > TIMEOUTS - count)
		return -EINVAL;
	if (!strcmp(what, "stop"))
		return hwtimer_wheel_stop(wheel, &pending);
	deadline = delay < 0 ? U64_MAX : hwtimer_wheel_now(wheel) + delay;
	for (i = first; !ret && i < first + count; i++, deadline += step) {
		ret = remote_one(what, &timeouts[i], deadline);
		cond_resched();
	}
	return ret;
}

static const struct kernel_param_ops remote_ops = { .set = remote_command };
module_param_cb(command, &remote_ops, NULL, 0200);
MODULE_PARM_DESC(command, "what to do");

static struct hwtimer_wheel *remote_create(const char *name)
{
	return hwtimer_wheel_create(&(struct hwtimer_wheel_params){
			.name = name, .tick_ns = tick_ns, .slots = slots, .levels = levels,
			.clock = boottime ? HWTIMER_CLOCK_BOOTTIME : HWTIMER_CLOCK_MONOTONIC });
}

static void remote_destroy(struct hwtimer_wheel *w)
{
	struct list_head pending;

	hwtimer_wheel_stop(w, &pending);
	hwtimer_wheel_destroy(w);
}

static void remote_end(void)
{
	unsigned int i;

	for (i = 0; i < OTHERS && other[i]; i++)
		remote_destroy(other[i]);
	remote_destroy(wheel);
}

static int __init remote_init(void)
{
	struct hwtimer_wheel *new;
	char name[32];
	unsigned int i;

	new = remote_create(KBUILD_MODNAME);
	if (IS_ERR(new))
		return PTR_ERR(new);
	for (i = 0; i < TIMEOUTS; i++)
		hwtimer_init(&timeouts[i], new, remote_fired);
	wheel = new;
	for (i = 0; i < min(others, OTHERS); i++) {
		snprintf(name, sizeof(name), KBUILD_MODNAME ".%u", i);
		new = remote_create(name);
		if (IS_ERR(new)) {
			remote_end();
			return PTR_ERR(new);
		}
		other[i] = new;
	}
	return 0;
}
module_init(remote_init);

static void __exit remote_exit(void)
{
	remote_end();
}
module_exit(remote_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("hwtimer: a wheel that programs arm");
