// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_example: requests with deadlines, as a model for other modules.
 *
 * Some threads submit requests. Most requests are completed; some make progress, and get a later
 * deadline; some are lost, and time out. Three functions may try to end a request at the same time:
 *
 *	completion	removes it from its client's list, then releases it: the wheel calls
 *			request_free() when it no longer holds the timeout and the callback is
 *			not running
 *	timeout		removes it from the list, then frees it: the wheel does not access a
 *			timeout after it has called the callback
 *	module exit	stops the threads, then the wheel, and frees the requests that the
 *			wheel hands back
 *
 * The first two take the client's lock, and the one that finds the request on the list ends it. A
 * request on the list is not freed while the lock is held.
 *
 * No thread may complete requests while the wheel is stopped: a request that is handed back is
 * linked by its timeout and must not be freed.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include <hwtimer.h>

#define MAX_THREADS	64
#define MAX_TIMEOUT_MS	(24 * 60 * 60 * 1000)

static unsigned int threads = 2;
module_param(threads, uint, 0444);
MODULE_PARM_DESC(threads, "how many threads submit requests (default 2)");

static unsigned int requests = 2000;
module_param(requests, uint, 0444);
MODULE_PARM_DESC(requests, "how many requests may be open at once (default 2000)");

static unsigned int timeout_ms = 100;
module_param(timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "time that a request has, in ms (default 100)");

/**
 * struct client - a thread that submits requests, and its counters
 * @lock: protects @open, @lost and the nodes of their requests
 * @open: requests to be answered, oldest first
 * @lost: requests that will not be answered
 * @task: the thread
 * @submitted: requests submitted; written by the thread, like all counters up to @overtaken
 * @refused: requests not submitted, because the wheel has reached its cap
 * @pushed_back: deadlines moved
 * @completed: requests completed
 * @overtaken: requests completed when their timeout had expired
 * @timed_out: requests that timed out; written by the wheel's worker
 * @freed: requests completed and freed; written by the worker
 */
struct client {
	spinlock_t		lock;	/* see above */
	struct list_head	open;
	struct list_head	lost;
	struct task_struct	*task;
	unsigned long		submitted;
	unsigned long		refused;
	unsigned long		pushed_back;
	unsigned long		completed;
	unsigned long		overtaken;
	unsigned long		timed_out;
	unsigned long		freed;
};

/**
 * struct request - a request with a deadline
 * @deadline: its timeout
 * @node: on a list of @client until the request ends
 * @client: the client that submitted it
 */
struct request {
	struct hwtimer_timeout	deadline;
	struct list_head	node;
	struct client		*client;
};

static struct hwtimer_wheel *wheel;
static struct client *clients;

/* Called when the wheel has released the timeout. */
static void request_free(struct hwtimer_timeout *timeout)
{
	struct request *r = container_of(timeout, struct request, deadline);

	r->client->freed++;
	kfree(r);
}

/* The callback at the deadline. */
static void request_timeout(struct hwtimer_timeout *timeout)
{
	struct request *r = container_of(timeout, struct request, deadline);
	struct client *c = r->client;
	bool ours;

	spin_lock(&c->lock);
	ours = !list_empty(&r->node);
	list_del_init(&r->node);
	spin_unlock(&c->lock);

	/* Otherwise it is being completed; request_free() is called after this callback. */
	if (ours) {
		c->timed_out++;
		kfree(r);
	}
}

/* Submit a request. Returns false if there is no memory, or the wheel is at its cap. */
static bool request_submit(struct client *c)
{
	struct request *r = kmalloc(sizeof(*r), GFP_KERNEL);
	int ret;

	if (!r)
		return false;
	r->client = c;
	hwtimer_init(&r->deadline, wheel, request_timeout);

	/* Under the lock, so that the callback finds the request on the list. */
	spin_lock(&c->lock);
	ret = hwtimer_schedule(&r->deadline, (s64)timeout_ms * NSEC_PER_MSEC);
	if (!ret)
		list_add_tail(&r->node, &c->open);
	spin_unlock(&c->lock);

	if (ret) {
		/* -EAGAIN: the cap. The timeout was not armed, so the wheel does not hold it. */
		kfree(r);
		c->refused++;
		return false;
	}
	c->submitted++;
	return true;
}

/* Lose, push back or complete the oldest open request. Returns false if there is none. */
static bool request_answer(struct client *c)
{
	unsigned int dice = get_random_u32() % 100;
	struct request *r;

	spin_lock(&c->lock);
	r = list_first_entry_or_null(&c->open, struct request, node);
	if (!r) {
		spin_unlock(&c->lock);
		return false;
	}
	if (dice < 5) {
		list_move_tail(&r->node, &c->lost);
	} else if (dice < 20) {
		/* -ENOENT: the callback waits for our lock, and will end the request. */
		if (!hwtimer_touch(&r->deadline, (s64)timeout_ms * NSEC_PER_MSEC))
			c->pushed_back++;
		list_move_tail(&r->node, &c->open);
	} else {
		list_del_init(&r->node);
	}
	spin_unlock(&c->lock);

	if (dice >= 20) {
		c->completed++;
		if (!hwtimer_release(&r->deadline, request_free))
			c->overtaken++;
	}
	return true;
}

static int client_thread(void *data)
{
	struct client *c = data;
	unsigned int i;

	while (!kthread_should_stop()) {
		for (i = 0; i < 128 && request_submit(c); i++)
			;
		for (i = 0; i < 128 && request_answer(c); i++)
			;
		usleep_range(500, 1000);
	}
	return 0;
}

/* Free the requests that were pending when the wheel was stopped. Returns how many. */
static unsigned long free_handed_back(struct list_head *pending)
{
	struct request *r, *next;
	unsigned long n = 0;

	list_for_each_entry_safe(r, next, pending, deadline.node) {
		/* The threads and the worker have ended, so no lock is needed. */
		list_del(&r->node);
		kfree(r);
		n++;
	}
	return n;
}

/* Check that each submitted request ended once and was freed. */
static void check_books(unsigned long handed_back)
{
	struct client sum = { };
	bool left = false;
	unsigned int i;

	for (i = 0; i < threads; i++) {
		sum.submitted += clients[i].submitted;
		sum.refused += clients[i].refused;
		sum.pushed_back += clients[i].pushed_back;
		sum.completed += clients[i].completed;
		sum.overtaken += clients[i].overtaken;
		sum.timed_out += clients[i].timed_out;
		sum.freed += clients[i].freed;
		left |= !list_empty(&clients[i].open) || !list_empty(&clients[i].lost);
	}
	pr_info("%lu requests: %lu completed (%lu as the timeout fired), %lu timed out, %lu handed back; %lu pushed back, %lu refused\n",
		sum.submitted, sum.completed, sum.overtaken, sum.timed_out, handed_back,
		sum.pushed_back, sum.refused);
	WARN_ON_ONCE(sum.submitted != sum.completed + sum.timed_out + handed_back);
	WARN_ON_ONCE(sum.freed != sum.completed);
	WARN_ON_ONCE(left || hwtimer_wheel_pending(wheel));
}

/* Stop the threads that arm timeouts, then the wheel; then free what it hands back. */
static void example_end(void)
{
	struct list_head pending;
	unsigned int i;

	for (i = 0; i < threads; i++)
		if (clients[i].task)
			kthread_stop(clients[i].task);
	hwtimer_wheel_stop(wheel, &pending);
	check_books(free_handed_back(&pending));
	hwtimer_wheel_destroy(wheel);
	kfree(clients);
}

static int __init example_init(void)
{
	struct hwtimer_wheel_params params = {
		.name = "example",
		.tick_ns = NSEC_PER_MSEC,
		.slots = 1024,
		.cap = requests,
	};
	struct task_struct *task;
	unsigned int i;

	if (!threads || threads > MAX_THREADS || !requests || timeout_ms > MAX_TIMEOUT_MS)
		return -EINVAL;

	clients = kcalloc(threads, sizeof(*clients), GFP_KERNEL);
	if (!clients)
		return -ENOMEM;
	for (i = 0; i < threads; i++) {
		spin_lock_init(&clients[i].lock);
		INIT_LIST_HEAD(&clients[i].open);
		INIT_LIST_HEAD(&clients[i].lost);
	}

	wheel = hwtimer_wheel_create(&params);
	if (IS_ERR(wheel)) {
		kfree(clients);
		return PTR_ERR(wheel);
	}

	for (i = 0; i < threads; i++) {
		task = kthread_run(client_thread, &clients[i], "hwtimer_example/%u", i);
		if (IS_ERR(task)) {
			example_end();
			return PTR_ERR(task);
		}
		clients[i].task = task;
	}
	return 0;
}
module_init(example_init);

static void __exit example_exit(void)
{
	example_end();
}
module_exit(example_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Requests with deadlines, an example of the use of hwtimer");
