// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the wheel against an oracle: random operations on a clock that the test moves, made on
 * PLAYED CPUs, which the only thread plays in turn. After each step, the timeouts that expired and
 * their order are compared with a plain table.
 */
#include <native.h>

#include "core/hwtimer_queue.h"
#include "shim.h"

#define TIMEOUTS	512
#define PLAYED		16

/* the state of each timeout in the table */
static struct one {
	struct hwtimer_timeout	t;
	bool			pending;
	u64			deadline;
	u64			order;	/* of arming; 0: touched since, no order is promised */
	unsigned int		cpu;	/* on which it was armed */
} ones[TIMEOUTS];

static struct hwtimer_wheel w;
static u64 now, tick_ns, orders, last_tick;
static u64 last_order[PLAYED];	/* of each CPU, in last_tick */
static unsigned long pending;

static void kick(struct hwtimer_wheel *wheel) { }

static u64 tick_of(u64 deadline)
{
	return deadline / tick_ns + !!(deadline % tick_ns);
}

static void expire(struct hwtimer_wheel *wheel, struct hwtimer_timeout *t, hwtimer_fn_t fn,
		   u64 deadline)
{
	struct one *one = container_of(t, struct one, t);
	u64 tick = tick_of(one->deadline);

	if (!one->pending)
		native_fail("expired, and was not pending");
	if (deadline != one->deadline || deadline > now)
		native_fail("expired at %llu for %llu, due at %llu", now, deadline, one->deadline);
	if (tick != last_tick)
		memset(last_order, 0, sizeof(last_order));
	last_tick = tick;
	/* With more levels, timeouts for one tick may come down from several of them. */
	if (one->order && w.wheel.levels == 1) {
		if (one->order < last_order[one->cpu])
			native_fail("expired before what was armed before it");
		last_order[one->cpu] = one->order;
	}
	one->pending = false;
	pending--;
}

static void nothing(struct hwtimer_timeout *t) { }

static const struct queue_ops ops = { .kick = kick, .call = expire };

static u64 choose(__u64 *random)
{
	switch (below(random, 16)) {
	case 0:
		return HWTIMER_HORIZON + below(random, 2);
	case 1:
		return now - min(now, (u64)below(random, 10) * tick_ns);
	case 2:
		return now + ((u64)draw(random) << below(random, 20));
	case 3:
		/* a boundary, or 1 ns before or after it */
		return (tick_of(now) + below(random, 1000)) * tick_ns + below(random, 3) - 1;
	default:
		return now + below(random, 100) * tick_ns / 3;
	}
}

static void operate(struct one *one, __u64 *random)
{
	u64 deadline = choose(random);
	u32 dice = below(random, 8);
	int ret;

	if (dice < 4) {
		bool held = queue_holds(&one->t);

		ret = queue_arm(&one->t, deadline);
		if (ret != one->pending)
			native_fail("arming returned %d, pending %d", ret, one->pending);
		pending += !one->pending;
		one->pending = true;
		one->deadline = min(deadline, HWTIMER_HORIZON);
		/* a deadline in the past fires at the next tick, so no order is promised for it */
		one->order = held || deadline <= now ? 0 : ++orders;
		one->cpu = current->cpu;
	} else if (dice < 6) {
		ret = queue_touch(&one->t, deadline);
		if (ret != (one->pending ? 0 : -ENOENT))
			native_fail("touching returned %d, pending %d", ret, one->pending);
		if (one->pending) {
			one->deadline = min(deadline, HWTIMER_HORIZON);
			one->order = 0;
		}
	} else {
		if (queue_cancel(&one->t) != one->pending)
			native_fail("cancelling returned the wrong value");
		pending -= one->pending;
		one->pending = false;
	}
}

/*
 * Move the clock; all timeouts due by then must have expired. If it moves on during the pass by
 * more than a tick, a timeout that is then drained late expires later.
 */
static void advance(__u64 *random)
{
	u32 budget = 1 + below(random, QUEUE_BUDGET);
	u64 until, step, from, begun, nearest = U64_MAX;
	bool moves = !below(random, 4);
	unsigned int i;

	switch (below(random, 8)) {
	case 0:
		step = 0;
		break;
	case 1:
		step = (u64)draw(random) << below(random, 12);
		break;
	default:
		step = below(random, 40) * tick_ns / 4;
	}
	now = min(now + step, HWTIMER_HORIZON / 2);
	from = w.wheel.cur;
	begun = now / tick_ns;
	while (queue_advance(&w, now, budget))
		if (moves)
			now += below(random, 2 * tick_ns);
	for (i = 0; i < TIMEOUTS; i++) {
		const struct one *one = &ones[i];

		if (!one->pending)
			continue;
		/* due at a tick that this pass has handled */
		if (w.pass.target == begun && tick_of(one->deadline) <= begun &&
		    tick_of(one->deadline) >= from)
			native_fail("due at %llu, not expired at %llu", one->deadline, now);
		if (one->deadline < HWTIMER_HORIZON)
			nearest = min(nearest, max(tick_of(one->deadline), w.wheel.cur) * tick_ns);
	}
	until = queue_prepare_sleep(&w, now);
	if (until && until > nearest)
		native_fail("sleeps until %llu, the nearest is %llu", until, nearest);
	queue_awake(&w);
}

static void turn(__u64 *random)
{
	struct hwtimer_wheel_params shape = {
		.tick_ns = 1 + below(random, 2) * below(random, 1000000),
		.slots = 4 << below(random, 7),
		.levels = below(random, 4),
	};
	/* How many operations between two passes, and on one CPU, on average. */
	unsigned int calm = 2 << below(random, 11), stay = 8 << 2 * below(random, 5);
	unsigned int own = current->cpu, cpu = 0;
	LIST_HEAD(list);
	struct list_head *pos;
	struct queue_counts c;
	unsigned int i, handed_back = 0;

	now = 0;
	orders = 0;
	pending = 0;
	last_tick = 0;
	tick_ns = shape.tick_ns;
	memset(ones, 0, sizeof(ones));
	if (queue_init(&w, &shape, &ops)) {
		native_fail("no wheel");
		return;
	}
	if (below(random, 2))
		w.drain.share = 1 + below(random, 200);
	for (i = 0; i < TIMEOUTS; i++)
		queue_timeout_init(&ones[i].t, &w, nothing);
	for (i = 0; i < 20000 && go_on(0); i++) {
		if (!below(random, stay))
			cpu = below(random, PLAYED);
		current->cpu = cpu;
		operate(&ones[below(random, TIMEOUTS)], random);
		current->cpu = own;
		if (!below(random, calm))
			advance(random);
	}
	/* The stop may find a pass in progress, with requests taken from several queues. */
	queue_advance(&w, now, 1 + below(random, 2 * calm));
	queue_count(&w, &c);
	if (c.pending != pending)
		native_fail("%lu are pending, the wheel counts %lu", pending, c.pending);
	queue_shutdown(&w);
	queue_sweep(&w, &list);
	list_for_each(pos, &list)
		handed_back++;
	if (handed_back != pending)
		native_fail("%lu were pending, %u were handed back", pending, handed_back);
	queue_free(&w);
}

static __u64 oracle(void)
{
	__u64 random = seeded(0), n;

	for (n = 0; go_on(n / options.threads); n += 20000)
		turn(&random);
	return n;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "oracle", oracle },
	};

	return native_main(argc, argv, tests, ARRAY_SIZE(tests));
}
