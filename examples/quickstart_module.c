// SPDX-License-Identifier: GPL-2.0-only
/*
 * quickstart_module: timeouts in a kernel module. Of two sessions, one is pushed back and expires,
 * and the other is cancelled.
 */
#include <linux/err.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <hwtimer.h>

struct session {
	struct hwtimer_timeout	idle;
	int			id;
};

static struct hwtimer_wheel *wheel;
static struct session *first, *second;

/* Runs in process context. It may free the session, or arm the timeout again. */
static void session_idle(struct hwtimer_timeout *timeout)
{
	struct session *s = container_of(timeout, struct session, idle);

	pr_info("quickstart: session %d was idle\n", s->id);
}

/* Called when the wheel has released the timeout. */
static void session_free(struct hwtimer_timeout *timeout)
{
	kfree(container_of(timeout, struct session, idle));
}

static int __init quickstart_init(void)
{
	wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
			.name = "quickstart", .tick_ns = 10 * NSEC_PER_MSEC,
			.slots = 512 });
	if (IS_ERR(wheel))
		return PTR_ERR(wheel);

	first = kzalloc(sizeof(*first), GFP_KERNEL);
	second = kzalloc(sizeof(*second), GFP_KERNEL);
	if (!first || !second) {
		kfree(first);
		kfree(second);
		hwtimer_wheel_destroy(wheel);
		return -ENOMEM;
	}
	first->id = 1;
	second->id = 2;
	hwtimer_init(&first->idle, wheel, session_idle);
	hwtimer_init(&second->idle, wheel, session_idle);

	/* A real module checks for -EAGAIN and -ESHUTDOWN. */
	hwtimer_schedule(&first->idle, 100 * NSEC_PER_MSEC);
	hwtimer_schedule(&second->idle, 200 * NSEC_PER_MSEC);
	if (!hwtimer_touch(&first->idle, 300 * NSEC_PER_MSEC))
		pr_info("quickstart: session 1 has been pushed back\n");
	if (hwtimer_cancel(&second->idle))
		pr_info("quickstart: session 2 will not expire\n");
	return 0;
}
module_init(quickstart_init);

static void __exit quickstart_exit(void)
{
	/* Pending or not, a session is freed when the wheel has released its timeout. */
	hwtimer_release(&first->idle, session_free);
	hwtimer_release(&second->idle, session_free);
	hwtimer_wheel_destroy(wheel);
}
module_exit(quickstart_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Timeouts in a kernel module, the shortest example");
