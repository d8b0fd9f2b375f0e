// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: work items used by several threads at once: an item has one run at a time, and each
 * dispatched expiry is run, cancelled or replaced.
 */
#include <native.h>

#include "hwtimer_driver.h"
#include "hwtimer_work.h"
#include "shim.h"

#define THREADS	16
#define ITEMS	64
#define MAGIC	0x1d1ed1ceU

struct item {
	u32			magic;
	struct hwtimer_work	work;
	atomic_t		running;
	int			gone;
	struct llist_node	deferred;	/* on the list of that name */
};

static struct hwtimer_wheel *wheel;
static struct workqueue_struct *own_wq;
static struct item *items[ITEMS];
static unsigned int nr_items;
static struct llist_head deferred;	/* items to be freed after a grace period */
static struct mutex freeing;	/* held while they are */
static bool stopping;
static __u64 operations, turns;
static unsigned long all_runs;
static atomic_long_t runs, refused, freed, made;

static void answered(int ret, const struct item *item)
{
	if (ret < 0 && ret != -ENOENT &&
	    (ret != -ESHUTDOWN || !(READ_ONCE(item->gone) || READ_ONCE(stopping))))
		native_fail("arming returned %d", ret);
}

static void work_runs(struct hwtimer_work *work)
{
	struct item *item = container_of(work, struct item, work);
	unsigned int n = ktime_get_ns() % 64;
	__u64 *random = &current->step_random;

	if (item->magic != MAGIC)
		native_fail("runs after its end");
	if (atomic_inc_return(&item->running) != 1)
		native_fail("runs twice at a time");
	atomic_long_inc(&runs);
	while (n-- && !hwtimer_work_cancelled(work))
		barrier();
	/* ending the item ends this arming, too */
	if (!below(random, 4))
		answered(hwtimer_work_schedule(work, below(random, 5000)), item);
	atomic_dec(&item->running);
}

static void work_refused(struct hwtimer_work *work, enum hwtimer_refused reason)
{
	struct item *item = container_of(work, struct item, work);

	if (item->magic != MAGIC)
		native_fail("refused after its end");
	atomic_long_inc(&refused);
}

static void make(unsigned int i, __u64 *random)
{
	struct item *item = native_alloc(sizeof(*item));
	struct hwtimer_work_params params = {
		.wq = below(random, 2) ? own_wq : NULL,
		.policy = below(random, HWTIMER_WORK_REPLACE + 1),
		.refused = work_refused,
	};

	item->magic = MAGIC;
	if (hwtimer_work_init(&item->work, wheel, work_runs, &params))
		native_fail("not initialised");
	if (cmpxchg(&items[i], NULL, item)) {
		kfree(item);
		return;
	}
	atomic_long_inc(&made);
}

/* Free an item and count it. */
static void discard(struct item *item)
{
	if (atomic_read(&item->running))
		native_fail("its end was reported, and it runs");
	memset(item, 0xa5, sizeof(*item));
	kfree(item);
	atomic_long_inc(&freed);
}

static void work_released(struct hwtimer_work *work)
{
	struct item *item = container_of(work, struct item, work);

	if (item->magic != MAGIC)
		native_fail("released twice");
	if (atomic_read(&item->running))
		native_fail("released, and it runs");
	llist_add(&item->deferred, &deferred);
}

static void free_deferred(void)
{
	struct llist_node *node = llist_del_all(&deferred);
	struct item *item;

	if (!node)
		return;
	synchronize_rcu();
	while (node) {
		item = llist_entry(node, struct item, deferred);
		node = node->next;
		discard(item);
	}
}

static struct item *take(unsigned int i)
{
	struct item *item = READ_ONCE(items[i]);

	if (!item || cmpxchg(&items[i], item, NULL) != item)
		return NULL;
	WRITE_ONCE(item->gone, 1);
	return item;
}

static void release(struct item *item)
{
	if (item)
		hwtimer_work_release(&item->work, work_released);
}

static void end_sync(unsigned int i, __u64 *random)
{
	struct item *item;

	rcu_read_lock();
	item = take(i);
	rcu_read_unlock();
	if (!item)
		return;
	/* other threads may still arm it, until it is shut down */
	if (below(random, 2))
		hwtimer_work_cancel_sync(&item->work);
	hwtimer_work_shutdown_sync(&item->work);
	if (atomic_read(&item->running) || hwtimer_work_is_pending(&item->work))
		native_fail("waited for, and not at its end");
	llist_add(&item->deferred, &deferred);
}

static void anything(__u64 *random)
{
	unsigned int i = below(random, nr_items), dice = below(random, 64);
	struct item *item;

	rcu_read_lock();
	/* pairs with the cmpxchg() in make() */
	item = smp_load_acquire(&items[i]);
	if (!item)
		goto out;
	if (dice < 32)
		answered(hwtimer_work_schedule(&item->work, below(random, 5000)), item);
	else if (dice < 40)
		answered(hwtimer_work_touch(&item->work, below(random, 5000)), item);
	else if (dice < 60)
		hwtimer_work_cancel(&item->work);
	else if (dice < 63)
		hwtimer_work_is_pending(&item->work);
	else
		release(take(i));
out:
	rcu_read_unlock();
}

static void *producer(void *arg)
{
	__u64 random = seeded(turns << 8 | (uintptr_t)arg), n;

	native_enter();
	for (n = 0; n < operations; n++) {
		unsigned int dice = below(&random, 256);

		if (dice < 250) {
			anything(&random);
		} else if (dice < 254) {
			make(below(&random, nr_items), &random);
		} else if (dice < 255) {
			end_sync(below(&random, nr_items), &random);
		} else if (mutex_trylock(&freeing)) {
			free_deferred();
			mutex_unlock(&freeing);
		}
	}
	native_leave();
	return NULL;
}

static void check_books(const struct hwtimer_lanes *lanes)
{
	long ran = atomic_long_read(&lanes->runs), cancelled = atomic_long_read(&lanes->cancelled);

	if ((long)lanes->dispatched != ran + cancelled + (long)lanes->replaced)
		native_fail("dispatched %lu, run %ld, cancelled %ld, replaced %lu",
			    lanes->dispatched, ran, cancelled, lanes->replaced);
	if (ran != atomic_long_read(&runs))
		native_fail("run %ld times, the wheel counts %ld", atomic_long_read(&runs), ran);
	if ((long)lanes->refused != atomic_long_read(&refused))
		native_fail("refused %ld times, the wheel counts %lu", atomic_long_read(&refused),
			    lanes->refused);
	if (atomic_long_read(&lanes->queued) || atomic_long_read(&lanes->active))
		native_fail("%ld queued and %ld busy at the end",
			    atomic_long_read(&lanes->queued), atomic_long_read(&lanes->active));
}

static void turn(__u64 *random)
{
	struct hwtimer_wheel_params params = {
		.name = "work", .tick_ns = 1000 << below(random, 5), .slots = 256,
		.flags = HWTIMER_WHEEL_WORK, .driver = below(random, 2),
		.max_queued = below(random, 2) ? 0 : 1 + below(random, 4),
		.slow_ms = 1, .slow_runs = 1,
	};
	bool midst = below(random, 2);
	struct hwtimer_lanes *lanes;
	pthread_t threads[THREADS];
	struct item *item;
	unsigned int i;

	nr_items = 4 << below(random, 5);
	WRITE_ONCE(stopping, false);
	atomic_set(&runs, 0);
	atomic_set(&refused, 0);
	wheel = hwtimer_wheel_create(&params);
	lanes = &to_driven(wheel)->lanes;
	WRITE_ONCE(native_rough, below(random, 3));
	turns++;
	for (i = 0; i < options.threads; i++)
		pthread_create(&threads[i], NULL, producer, (void *)(uintptr_t)i);
	if (midst) {
		native_usleep(500 + below(random, 5000));
		WRITE_ONCE(stopping, true);
		/* a thread whose arming fails must see @stopping */
		smp_mb();
		hwtimer_wheel_stop(wheel, NULL);
	}
	for (i = 0; i < options.threads; i++)
		pthread_join(threads[i], NULL);
	WRITE_ONCE(native_rough, 0);
	WRITE_ONCE(stopping, true);
	for (i = 0; i < ITEMS; i++) {
		item = take(i);
		if (item && below(random, 2)) {
			hwtimer_work_release(&item->work, work_released);
		} else if (item) {
			hwtimer_work_shutdown_sync(&item->work);
			llist_add(&item->deferred, &deferred);
		}
	}
	hwtimer_wheel_stop(wheel, NULL);
	wait_var_event(&lanes->active, !atomic_long_read(&lanes->active));
	check_books(lanes);
	all_runs += atomic_long_read(&runs);
	hwtimer_wheel_destroy(wheel);
	free_deferred();
	if (atomic_long_read(&made) != atomic_long_read(&freed))
		native_fail("%ld made, %ld freed", atomic_long_read(&made),
			    atomic_long_read(&freed));
}

static __u64 work(void)
{
	__u64 random = seeded(~0ULL), sum = 0;

	mutex_init(&freeing);
	own_wq = alloc_workqueue("own", 0, 0);
	while (go_on(sum / options.threads)) {
		operations = 1000 + below(&random, 20000);
		turn(&random);
		sum += operations * options.threads;
	}
	destroy_workqueue(own_wq);
	native_log("%llu wheels, %ld items, %lu runs", turns, atomic_long_read(&made), all_runs);
	return sum;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "work", work },
	};

	return native_main(argc, argv, tests, ARRAY_SIZE(tests));
}
