// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: all operations at once. Threads, interrupts and callbacks operate on timeouts at random,
 * on a wheel that is often stopped while they run. Then the next wheel is created.
 *
 * Known timeouts are in a table, where all threads find them. The thread that takes one out of the
 * table ends it, and it is freed after a grace period. Private ones are known to one thread and are
 * freed, and poisoned, as soon as the wheel allows that.
 *
 * Each arming that returned 0 ends once: it expires, is cancelled or is handed back. The counts are
 * checked for each wheel, and for each known timeout.
 */
#include <native.h>

#include "hwtimer.h"
#include "core/hwtimer_driver.h"
#include "shim.h"

#define THREADS	16
#define MAGIC	0x1d1ed1ceU
#define POISON	0xa5
#define ENTRIES	4096
/* a wheel with fewer operations than this is always stopped while the threads run */
#define BRIEF	2000

struct thing {
	u32			magic;
	struct hwtimer_timeout	t;
	atomic_t		open;		/* armings that have not ended */
	u64			floor;		/* no deadline is earlier */
	int			gone;
	struct llist_node	deferred;	/* on the list of that name below */
};

/* of a CPU, interrupts included */
struct counts {
	local_t	armed, expired, cancelled, handed_back, freed, made;
} ____cacheline_aligned;

/**
 * struct bench - a wheel, and what is armed on it
 * @wheel: the wheel
 * @table: known timeouts
 * @entries: number of entries of @table in use
 * @near_ns: most deadlines are at most so far ahead
 * @cap: cap of the wheel, or 0
 * @lively: private timeouts are made all the time
 * @list: the stop hands back a list. Private timeouts then free themselves in their callback
 *	(see forget()); otherwise a thread ends and frees them (see live())
 * @stopping: arming may fail
 * @freeing: held while @deferred are freed, and while the stop and its list are handled
 * @deferred: known timeouts to be freed after a grace period
 * @counts: by CPU
 * @turn: number of the wheel
 * @operations: operations of each thread in this turn
 * @done: operations done so far, by thread
 */
static struct bench {
	struct hwtimer_wheel	*wheel;
	struct thing		*table[ENTRIES];
	u32			entries;
	u32			near_ns;
	u64			cap;
	bool			lively;
	bool			list;
	int			stopping;
	struct mutex		freeing;	/* see above */
	struct llist_head	deferred;
	struct counts		counts[NATIVE_CPUS];
	__u64			turn;
	__u64			operations;
	__u64			done[THREADS];
} b;

/* of all wheels */
static struct queue_counts total;

#define tally(what)	tally_many(what, 1)
#define tally_many(what, n)	local_add(n, &b.counts[current->cpu].what)

static void expired(struct hwtimer_timeout *t);

static struct thing *make(hwtimer_fn_t fn, u64 floor)
{
	struct thing *thing = native_alloc(sizeof(*thing));

	thing->magic = MAGIC;
	thing->floor = floor;
	hwtimer_init(&thing->t, b.wheel, fn);
	tally(made);
	return thing;
}

static void discard(struct thing *thing)
{
	if (thing->magic != MAGIC)
		native_fail("freed twice, or never made");
	memset(thing, POISON, sizeof(*thing));
	kfree(thing);
	tally(freed);
}

static void check(const struct thing *thing)
{
	if (unlikely(READ_ONCE(thing->magic) != MAGIC))
		native_fail("called back after its end");
}

/* The thing is no longer reachable, but other threads may still hold a pointer. */
static void defer_free(struct thing *thing)
{
	llist_add(&thing->deferred, &b.deferred);
}

static void free_deferred(void)
{
	struct llist_node *node = llist_del_all(&b.deferred);
	struct thing *thing;

	if (!node)
		return;
	synchronize_rcu();
	while (node) {
		thing = llist_entry(node, struct thing, deferred);
		node = node->next;
		/* without a list, stop does not report the timeouts that it swept */
		if (atomic_read(&thing->open) && (b.list || !READ_ONCE(b.stopping)))
			native_fail("%d armings of a timeout have not ended",
				    atomic_read(&thing->open));
		discard(thing);
	}
}

static void try_free_deferred(void)
{
	if (!mutex_trylock(&b.freeing))
		return;
	free_deferred();
	mutex_unlock(&b.freeing);
}

static void released(struct hwtimer_timeout *t)
{
	struct thing *thing = container_of(t, struct thing, t);

	check(thing);
	if (hwtimer_is_pending(t))
		native_fail("pending after its release");
	defer_free(thing);
}

/* Callback of the release of a private timeout, which no other thread has. */
static void released_private(struct hwtimer_timeout *t)
{
	struct thing *thing = container_of(t, struct thing, t);

	check(thing);
	discard(thing);
}

/* Check and count the result of an arming. */
static void armed(struct thing *thing, int ret, bool touched)
{
	switch (ret) {
	case 0:
		if (!touched) {
			tally(armed);
			atomic_inc(&thing->open);
		}
		return;
	case 1:
		return;
	case -ENOENT:
		if (!touched)
			native_fail("arming returned -ENOENT");
		return;
	case -EAGAIN:
		if (!b.cap || touched)
			native_fail("refused for a cap, and there is none");
		return;
	case -ESHUTDOWN:
		barrier();
		if (!READ_ONCE(thing->gone) && !READ_ONCE(b.stopping))
			native_fail("arming failed, and the timeout is not being ended");
		return;
	default:
		native_fail("arming returned %d", ret);
	}
}

static void cancel(struct thing *thing)
{
	if (!hwtimer_cancel(&thing->t))
		return;
	tally(cancelled);
	atomic_dec(&thing->open);
}

static u64 choose(const struct thing *thing, __u64 *random, u64 now)
{
	u32 dice = below(random, 256);

	if (dice < 2)
		return U64_MAX;
	if (dice < 10)
		return now + (u64)draw(random) * 64;
	if (dice < 60)
		return max(now - NSEC_PER_MSEC, thing->floor);
	return max(now, thing->floor) + below(random, b.near_ns);
}

/*
 * Take the known timeout out of entry @i, under RCU. NULL if another thread has; the caller ends
 * it.
 */
static struct thing *take(u32 i)
{
	struct thing *thing = READ_ONCE(b.table[i]);

	if (!thing || cmpxchg(&b.table[i], thing, NULL) != thing)
		return NULL;
	WRITE_ONCE(thing->gone, 1);
	return thing;
}

static void release(struct thing *thing)
{
	if (!thing || !hwtimer_release(&thing->t, released))
		return;
	tally(cancelled);
	/* not freed yet, because of RCU */
	atomic_dec(&thing->open);
}

/* An operation that is allowed in any context. */
static void anything(__u64 *random, u64 now)
{
	u32 i = below(random, b.entries), dice = below(random, 128);
	struct thing *thing;

	rcu_read_lock();
	/* pairs with the cmpxchg() in fill() */
	thing = smp_load_acquire(&b.table[i]);
	if (!thing)
		goto out;
	if (dice < 64)
		armed(thing, hwtimer_schedule_at(&thing->t, choose(thing, random, now)), false);
	else if (dice < 94)
		armed(thing, hwtimer_touch_at(&thing->t, choose(thing, random, now)), true);
	else if (dice < 126)
		cancel(thing);
	else if (dice < 127)
		hwtimer_deadline(&thing->t);
	else if (!below(random, 8))
		release(take(i));
out:
	rcu_read_unlock();
}

static void expired(struct hwtimer_timeout *t)
{
	struct thing *thing = container_of(t, struct thing, t);
	u64 now = ktime_get_ns();

	check(thing);
	if (now < thing->floor)
		native_fail("early");
	tally(expired);
	atomic_dec(&thing->open);
	/* arm this timeout and others from the worker */
	if (!(now % 4))
		armed(thing, hwtimer_schedule_at(t, now + now % b.near_ns), false);
	if (!(now % 7))
		anything(&current->step_random, now);
}

static void expired_private(struct hwtimer_timeout *t)
{
	struct thing *thing = container_of(t, struct thing, t);

	check(thing);
	if (ktime_get_ns() < READ_ONCE(thing->floor))
		native_fail("early: private");
	tally(expired);
	atomic_dec(&thing->open);
}

/* The callback of a timeout that frees itself. */
static void forgotten(struct hwtimer_timeout *t)
{
	struct thing *thing = container_of(t, struct thing, t);

	check(thing);
	if (ktime_get_ns() < thing->floor)
		native_fail("early, and not waited for");
	tally(expired);
	discard(thing);
}

static void on_interrupt(void)
{
	struct task_struct *task = current;

	if (READ_ONCE(b.turn))
		anything(&task->step_random, ktime_get_ns());
}

static void fill(u32 i, u64 now, __u64 *random)
{
	struct thing *thing;

	if (READ_ONCE(b.table[i]))
		return;
	thing = make(expired, now - 1000 + below(random, 2000));
	if (cmpxchg(&b.table[i], NULL, thing))
		discard(thing);
}

/* Take a timeout out of the table and wait until the wheel does not hold it. */
static void end_known(u32 i)
{
	struct thing *thing;
	int ret;

	rcu_read_lock();
	thing = take(i);
	rcu_read_unlock();
	if (!thing)
		return;
	ret = hwtimer_shutdown_sync(&thing->t);
	if (ret < 0)
		native_fail("shutdown_sync() returned %d", ret);
	if (ret > 0) {
		tally_many(cancelled, ret);
		atomic_sub(ret, &thing->open);
	}
	if (hwtimer_is_pending(&thing->t))
		native_fail("pending after its end");
	defer_free(thing);
}

static void forget(__u64 *random, u64 now)
{
	struct thing *thing = make(forgotten, now + below(random, b.near_ns));
	int ret = hwtimer_schedule_at(&thing->t, thing->floor);

	if (!ret) {
		tally(armed);
		return;
	}
	armed(thing, ret, false);
	discard(thing);
}

static void end_private(struct thing *thing, __u64 *random)
{
	u32 how = below(random, 3);
	int ret;

	if (how == 0) {
		WRITE_ONCE(thing->gone, 1);
		if (hwtimer_release(&thing->t, released_private))
			tally(cancelled);
		return;
	}
	ret = how == 1 ? hwtimer_cancel_sync(&thing->t) : hwtimer_shutdown_sync(&thing->t);
	if (ret < 0)
		native_fail("waiting for its end returned %d", ret);
	if (ret > 0) {
		tally_many(cancelled, ret);
		atomic_sub(ret, &thing->open);
	}
	if (hwtimer_is_pending(&thing->t))
		native_fail("pending after its end: private");
	/* Stop neither cancels nor reports what it swept; the wheel counts it as handed back. */
	if (atomic_read(&thing->open) && !READ_ONCE(b.stopping))
		native_fail("%d armings of a private timeout have not ended",
			    atomic_read(&thing->open));
	discard(thing);
}

/* The life of a private timeout. */
static void live(__u64 *random, u64 now)
{
	struct thing *thing = make(expired_private, now);
	u32 n = 1 + below(random, 4), armings = 0;
	u64 deadline, spins = 0;
	int ret;

	while (n--) {
		deadline = now + below(random, b.near_ns);
		/* the old deadline or the new one may fire, or both */
		if (!armings || deadline < thing->floor)
			WRITE_ONCE(thing->floor, deadline);
		ret = hwtimer_schedule_at(&thing->t, deadline);
		armed(thing, ret, false);
		armings += !ret;
		if (ret == 1 && armings == 1)
			WRITE_ONCE(thing->floor, deadline);
	}
	/* Waiting for the expiry is slow, so it is rare; less so if the expiry is near. */
	if (below(random, b.near_ns > 5000 ? 64 : 4)) {
		end_private(thing, random);
		return;
	}
	while (hwtimer_is_pending(&thing->t)) {
		cpu_relax();
		if (++spins % 256 || !native_lost(&thing->t))
			continue;
		native_fail("the worker sleeps, and was not woken");
		break;
	}
	end_private(thing, random);
}

static void step(__u64 *random, u64 now)
{
	u32 dice = below(random, 4096), i = below(random, b.entries);

	if (b.lively && dice < 2000)
		dice = 4070;
	if (dice < 4000) {
		anything(random, now);
	} else if (dice < 4060) {
		fill(i, now, random);
	} else if (dice < 4064) {
		end_known(i);
	} else if (dice < 4084) {
		if (b.list)
			forget(random, now);
		else
			live(random, now);
	} else if (dice < 4095) {
		try_free_deferred();
	} else if (!below(random, 16)) {
		hwtimer_wheel_barrier(b.wheel);
	}
}

/* Operations after the stop prove little, so each thread does few of them. */
static void *producer(void *arg)
{
	unsigned int self = (uintptr_t)arg;
	__u64 random = seeded(b.turn << 8 | self), n, end = b.operations;
	u64 now = 0;

	native_enter();
	for (n = 0; n < end; n++) {
		if (n % 8 == 0) {
			now = ktime_get_ns();
			WRITE_ONCE(b.done[self], n);
			if (READ_ONCE(b.stopping))
				end = min(end, n + 100);
		}
		step(&random, now);
	}
	WRITE_ONCE(b.done[self], n);
	native_leave();
	return NULL;
}

/* Called when all other threads have ended. */
static void settle(struct list_head *pending)
{
	struct thing *thing, *next;
	struct queue_counts c;
	struct counts sum = { };
	long handed_back = 0;
	unsigned int i;

	list_for_each_entry_safe(thing, next, pending, t.node) {
		check(thing);
		list_del(&thing->t.node);
		tally(handed_back);
		atomic_dec(&thing->open);
		if (thing->t.fn == forgotten)
			discard(thing);
	}
	for (i = 0; i < b.entries; i++) {
		thing = b.table[i];
		if (!thing)
			continue;
		b.table[i] = NULL;
		defer_free(thing);
	}
	free_deferred();
	queue_count(b.wheel, &c);
	for (i = 0; i < NATIVE_CPUS; i++) {
		const struct counts *one = &b.counts[i];

		sum.armed.counter += one->armed.counter;
		sum.expired.counter += one->expired.counter;
		sum.cancelled.counter += one->cancelled.counter;
		handed_back += one->handed_back.counter;
		sum.made.counter += one->made.counter;
		sum.freed.counter += one->freed.counter;
	}
	if (!b.list)
		handed_back = c.handed_back;
	if (sum.armed.counter != sum.expired.counter + sum.cancelled.counter + handed_back)
		native_fail("armed %ld, expired %ld, cancelled %ld, handed back %ld",
			    sum.armed.counter, sum.expired.counter, sum.cancelled.counter,
			    handed_back);
	if ((long)c.armed != sum.armed.counter || (long)c.expired != sum.expired.counter ||
	    (long)c.cancelled != sum.cancelled.counter || (long)c.handed_back != handed_back ||
	    c.pending)
		native_fail("the wheel counts %lu armed, %lu expired, %lu cancelled, %lu pending",
			    c.armed, c.expired, c.cancelled, c.pending);
	total.armed += sum.armed.counter;
	total.expired += sum.expired.counter;
	total.cancelled += sum.cancelled.counter;
	total.handed_back += handed_back;
	if (sum.made.counter != sum.freed.counter)
		native_fail("%ld made, %ld freed", sum.made.counter, sum.freed.counter);
	if (places_taken(b.wheel->places))
		native_fail("%lu are charged to the cap of %llu, none is pending",
			    places_taken(b.wheel->places), b.cap);
	/* a negative lateness is unsigned, so it is in the last bin: 8 s and more */
	if (local_read(&to_driven(b.wheel)->monitor.late[HWTIMER_LATE_BINS - 1]))
		native_fail("early, or more than 8 s late");
}

/* Returns the number of operations. */
static __u64 turn(__u64 *random)
{
	static const u32 near[] = { 5000, 100000, 2000000 };
	/* With the last one, CPUs have credits. */
	static const unsigned long caps[] = { 0, 0, 0, 8, 40, 4 * 8 * NATIVE_CPUS };
	struct hwtimer_wheel_params params = {
		.name = "stress",
		.tick_ns = 1000 << below(random, 8),
		.slots = 4 << below(random, 9),
		.levels = below(random, 4),
		.cap = caps[below(random, ARRAY_SIZE(caps))],
	};
	pthread_t threads[THREADS];
	LIST_HEAD(pending);
	__u64 sum = 0;
	bool brief = b.operations < BRIEF, interrupts = below(random, 2);
	bool midst = brief || below(random, 2);
	u32 when = below(random, b.operations);
	unsigned int i;

	memset(b.counts, 0, sizeof(b.counts));
	memset(b.done, 0, sizeof(b.done));
	b.entries = brief || below(random, 2) ? 16 : below(random, 2) ? 128 : ENTRIES;
	b.near_ns = near[brief ? 0 : below(random, ARRAY_SIZE(near))];
	b.lively = brief && below(random, 2);
	b.cap = params.cap;
	b.list = below(random, 2);
	b.stopping = 0;
	b.wheel = hwtimer_wheel_create(&params);
	if (IS_ERR(b.wheel)) {
		native_fail("no wheel: %ld", PTR_ERR(b.wheel));
		return 0;
	}
	for (i = 0; i < b.entries; i++)
		fill(i, ktime_get_ns(), random);
	WRITE_ONCE(native_rough, brief ? 2 : below(random, 4) ? below(random, 3) : 0);
	WRITE_ONCE(b.turn, b.turn + 1);
	for (i = 0; i < options.threads; i++)
		pthread_create(&threads[i], NULL, producer, (void *)(uintptr_t)i);
	if (interrupts)
		native_irqs_begin(threads, options.threads);
	while ((midst || interrupts) && READ_ONCE(b.done[0]) < when)
		native_usleep(100);
	if (midst) {
		mutex_lock(&b.freeing);
		WRITE_ONCE(b.stopping, 1);
		/* a thread whose arming fails must see @stopping */
		smp_mb();
		if (hwtimer_wheel_stop(b.wheel, b.list ? &pending : NULL))
			native_fail("stop failed");
	}
	/* after the stop, so that some interrupts occur during it */
	if (interrupts)
		native_irqs_end();
	for (i = 0; i < options.threads; i++) {
		pthread_join(threads[i], NULL);
		sum += b.done[i];
	}
	WRITE_ONCE(native_rough, 0);
	WRITE_ONCE(b.stopping, 1);
	if (!midst) {
		mutex_lock(&b.freeing);
		hwtimer_wheel_stop(b.wheel, b.list ? &pending : NULL);
	}
	settle(&pending);
	mutex_unlock(&b.freeing);
	hwtimer_wheel_destroy(b.wheel);
	return sum;
}

static __u64 stress(void)
{
	__u64 random = seeded(~0ULL), sum = 0, per_turn = 50000;

	mutex_init(&b.freeing);
	native_irq_handler = on_interrupt;
	while (go_on(sum / options.threads)) {
		/* most wheels live briefly, so that there are many stops */
		b.operations = below(&random, 16) ? 100 + below(&random, BRIEF - 100) :
						    BRIEF + below(&random, per_turn);
		sum += turn(&random);
		/* long runs need not create a wheel every few ms */
		if (sum > 20 * per_turn && per_turn < 2000000)
			per_turn *= 2;
	}
	native_irq_handler = NULL;
	native_log("%llu wheels: %lu armed, %lu expired, %lu cancelled, %lu handed back",
		   b.turn, total.armed, total.expired, total.cancelled, total.handed_back);
	return sum;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "stress", stress },
	};

	return native_main(argc, argv, tests, ARRAY_SIZE(tests));
}
