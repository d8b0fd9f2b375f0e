// SPDX-License-Identifier: GPL-2.0-only
/*
 * from_timer_list_module: hwtimer in place of timer_list. Comments name the calls that were
 * replaced. A connection that was silent for IDLE_NS is reported.
 */
#include <linux/err.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <hwtimer.h>

#define IDLE_NS		(100 * NSEC_PER_MSEC)

struct conn {
	struct hwtimer_timeout	idle;		/* struct timer_list */
};

static struct hwtimer_wheel *wheel;		/* timer_list: one wheel per CPU, in the kernel */
static struct conn *quiet, *closed;

/* Runs in process context, not in softirq. */
static void conn_idle(struct hwtimer_timeout *timeout)
{
	struct conn *c = container_of(timeout, struct conn, idle);	/* from_timer() */

	pr_info("from_timer_list: connection %s was silent\n", c == quiet ? "1" : "2");
}

static void conn_free(struct hwtimer_timeout *timeout)
{
	kfree(container_of(timeout, struct conn, idle));
}

static struct conn *conn_open(void)
{
	struct conn *c = kzalloc(sizeof(*c), GFP_KERNEL);
	int ret;

	if (!c)
		return NULL;
	hwtimer_init(&c->idle, wheel, conn_idle);		/* timer_setup() */
	ret = hwtimer_schedule(&c->idle, IDLE_NS);		/* mod_timer(), cannot fail */
	if (!ret)
		return c;
	kfree(c);
	return NULL;
}

/* On each message: mod_timer_pending(), which returns 1 where hwtimer_touch() returns 0. */
static void conn_heard(struct conn *c)
{
	if (hwtimer_touch(&c->idle, IDLE_NS))
		pr_info("from_timer_list: too late\n");
}

/* timer_delete_sync() and kfree(), but from any context: conn_free() is called later. */
static void conn_close(struct conn *c)
{
	hwtimer_release(&c->idle, conn_free);
}

static int __init from_timer_list_init(void)
{
	wheel = hwtimer_wheel_create(&(struct hwtimer_wheel_params){
			.name = "from_timer_list", .tick_ns = 10 * NSEC_PER_MSEC,
			.slots = 512 });
	if (IS_ERR(wheel))
		return PTR_ERR(wheel);
	quiet = conn_open();
	closed = conn_open();
	if (!quiet || !closed) {
		if (quiet)
			conn_close(quiet);
		if (closed)
			conn_close(closed);
		hwtimer_wheel_destroy(wheel);
		return -ENOMEM;
	}
	conn_heard(quiet);
	conn_close(closed);
	return 0;
}
module_init(from_timer_list_init);

static void __exit from_timer_list_exit(void)
{
	conn_close(quiet);
	hwtimer_wheel_destroy(wheel);	/* calls conn_free() for released timeouts */
}
module_exit(from_timer_list_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("An idle timeout that was a timer_list");
