// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * orders: a shop that cancels orders that are not paid within 15 minutes. Each order has a timeout:
 * it is scheduled when the order is placed, pushed back when the customer changes the order, and
 * cancelled when the order is paid. If the timeout expires, so does the order.
 *
 * The program also simulates the customers, by timeouts of their own: each customer places an
 * order at some time, changes it a few times, and pays it or leaves. Some pay too late.
 *
 * An order may expire at the moment at which it is paid. The return value of hwtimer_cancel()
 * decides: after 0 the order is paid, and there is no event; after -ENOENT it is too late, because
 * hwtimer_wait() has already returned the event. hwtimer_touch() works likewise. So each order is
 * either paid or expired.
 *
 * For demonstrations, --expiry-ms shortens the 15 minutes, and makes customers faster.
 * "scripts/tests/guest examples" runs this in User-Mode Linux with time-travel=inf-cpu instead,
 * whose clock skips idle time.
 */

#include "lib_common.h"
#include "options.h"

enum state { NOT_YET, OPEN, PAID, EXPIRED };

struct order {
	enum state	state;
	hwtimer_id	timeout;
	__u64		deadline;
	int		changes;	/* number of changes that the customer will still make */
	int		pays;		/* will the customer pay in the end? */
};

/* user_data: 2 * index of the order + one of these */
enum { SHOP, CUSTOMER };

static struct hwtimer *timers;
static struct order *orders;
static long nr_orders = 5000, max_late_us = -1, seed_option = 1;
static __s64 expiry = 15 * 60 * NS_PER_S;
static unsigned int seed;

static struct {
	long placed, changed, paid, expired;
	long too_late;		/* changes and payments of expired orders */
	long early, wrong;	/* wrong events */
	long customers;		/* customers who will still do something */
} counts;
static struct samples late;

/* The shop. */

static void place(struct order *o)
{
	o->deadline = hwtimer_now(timers) + expiry;
	must(hwtimer_schedule_at(timers, o->deadline, 2 * (o - orders) + SHOP, &o->timeout),
	     "hwtimer_schedule_at");
	o->state = OPEN;
	counts.placed++;
}

/* Returns 0, or -ENOENT: the order has expired. */
static int change(struct order *o)
{
	__u64 deadline = hwtimer_now(timers) + expiry;
	int ret = hwtimer_touch_at(timers, o->timeout, deadline);

	if (!ret) {
		o->deadline = deadline;
		counts.changed++;
	}
	return ret;
}

/* Returns 0, or -ENOENT: the order has expired. */
static int pay(struct order *o)
{
	int ret = hwtimer_cancel(timers, o->timeout);

	if (!ret) {
		o->state = PAID;
		counts.paid++;
	}
	return ret;
}

static void expire(struct order *o, const struct hwtimer_event *e)
{
	/* Wrong: the order was paid, expires twice, or has another deadline, even rounded up. */
	counts.wrong += o->state != OPEN || e->id != o->timeout ||
			e->deadline_ns - o->deadline >= 1 << HWTIMER_UNIT_SHIFT;
	counts.early += e->taken_ns < o->deadline || hwtimer_now(timers) < o->deadline;
	sample(&late, (__s64)(e->taken_ns - o->deadline));
	o->state = EXPIRED;
	counts.expired++;
}

/* The customers. */

/* Schedule the customer's next action at a random time within @time. */
static void think(struct order *o, __u64 time)
{
	__u64 delay = time * ((double)rand_r(&seed) / RAND_MAX);

	must(hwtimer_schedule(timers, delay, 2 * (o - orders) + CUSTOMER, NULL),
	     "hwtimer_schedule");
	counts.customers++;
}

static void act(struct order *o)
{
	int ret;

	counts.customers--;
	if (o->state == NOT_YET) {
		place(o);
	} else {
		ret = o->changes ? change(o) : pay(o);
		if (ret == -ENOENT) {
			counts.too_late++;
			return;
		}
		must(ret, "a customer");
		if (o->state == PAID)
			return;
		o->changes--;
	}
	/* Up to a quarter longer than the expiry, so that some customers are too late. */
	if (o->changes || o->pays)
		think(o, expiry + expiry / 4);
}

static void run(void)
{
	struct hwtimer_event e;
	struct order *o;
	long i;

	for (i = 0; i < nr_orders; i++) {
		orders[i].changes = rand_r(&seed) % 4;
		orders[i].pays = rand_r(&seed) % 3 != 0;
		think(&orders[i], expiry);
	}
	while (counts.customers || counts.paid + counts.expired < nr_orders) {
		must(hwtimer_wait(timers, &e, -1), "hwtimer_wait");
		o = &orders[e.user_data / 2];
		if (e.user_data % 2 == CUSTOMER)
			act(o);
		else
			expire(o, &e);
	}
}

static int report(__u64 began)
{
	long states[EXPIRED + 1] = { 0 }, too_late = 0, i;
	struct hwtimer_event event;
	struct hwtimer_stats stats;
	int bad;

	/* There must be no more events, and no pending timeouts. */
	bad = must(hwtimer_wait(timers, &event, 0), "hwtimer_wait");
	must(hwtimer_stop(timers), "hwtimer_stop");
	bad |= hwtimer_wait(timers, &event, 0) != -ESHUTDOWN;
	must(hwtimer_stats(timers, &stats, sizeof(stats)), "hwtimer_stats");
	bad |= stats.pending != 0;

	for (i = 0; i < nr_orders; i++)
		states[orders[i].state]++;
	bad |= states[PAID] != counts.paid || states[EXPIRED] != counts.expired ||
	       counts.paid + counts.expired != nr_orders || counts.placed != nr_orders;

	sort_samples(&late);
	if (max_late_us >= 0)
		for (i = late.number; i && late.values[i - 1] > max_late_us * 1000; i--)
			too_late++;
	printf("%ld orders, each open for %.3f s at most, within %.1f s\n", counts.placed,
	       expiry / 1e9, (hwtimer_now(timers) - began) / 1e9);
	printf("paid: %ld, expired: %ld, changed before that: %ld times\n",
	       counts.paid, counts.expired, counts.changed);
	printf("refused, because the order had expired: %ld\n", counts.too_late);
	printf("expired early: %ld, wrongly: %ld, later than allowed: %ld\n",
	       counts.early, counts.wrong, too_late);
	printf("how late they expired: the first %.3f ms, half of them %.3f ms, the last %.3f ms\n",
	       quantile(&late, 0) / 1e6, quantile(&late, 0.5) / 1e6, quantile(&late, 1) / 1e6);
	printf("the books %s\n", bad ? "are wrong" : "balance");
	return bad || counts.early || counts.wrong || too_late;
}

static const char usage[] =
	"usage: orders [OPTION]...\n"
	"A shop whose orders expire when they are not paid in time, and its customers.\n"
	"Fails if an order expired early or wrongly, or if the books do not balance.\n\n"
	"  --orders N         so many orders [5000]\n"
	"  --expiry-ms N      how long an order is open after its last change [900000];\n"
	"                     all takes two to five times as long\n"
	"  --max-late-us N    fail if one expired later than that\n"
	"  --seed N           other customers [1]\n"
	"  -h, --help         this text\n";

int main(int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "orders", .number = &nr_orders, .min = 1, .max = 1000000 },
		{ "expiry-ms", .ns = &expiry, .min = 1, .max = 1000000000 },
		{ "max-late-us", .number = &max_late_us, .max = 1000000 },
		{ "seed", .number = &seed_option, .max = 1000000 },
		{ }
	};
	struct hwtimer_options timer_options = { .size = sizeof(timer_options) };
	__u64 began;

	parse_options(argc, argv, options, usage);
	seed = seed_option;
	orders = calloc(nr_orders, sizeof(*orders));
	if (!orders)
		err(1, "no memory for %ld orders", nr_orders);
	/* Each order has one timeout of the shop and one of the customer. */
	timer_options.timeouts = 2 * nr_orders;
	timers = open_timers(&timer_options);
	began = hwtimer_now(timers);
	run();
	return report(began);
}
