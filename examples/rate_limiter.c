// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * rate_limiter: let at most N calls of each client through in any interval. Further calls wait, in
 * order. No call is refused; bursts are spread over time.
 *
 * A limiter remembers when its last N calls were let through. The next call may pass one interval
 * after the oldest of these; while a call waits for that, the limiter has a timeout. Thousands of
 * limiters need one descriptor, no threads, and no CPU time while no call waits.
 *
 * Timeouts are never early, but they may be late, and the program may be preempted after it has
 * read the clock. So it reads the clock twice: before it lets a call through, to check whether the
 * call may pass, and afterwards, to remember the time. Whatever the delays, two calls are at least
 * as far apart as the second reading of the first call and the first reading of the second.
 *
 * At the end this is checked from a log.
 */

#include "lib_common.h"
#include "options.h"

struct call {
	__u64	came;
	__u64	before;		/* the time before it was let through */
	__u64	after;
	long	place;		/* its number in the order of all calls let through */
};

struct client {
	struct call	*calls;		/* all calls that it will make */
	long		made;
	long		passed;
	hwtimer_id	turn;		/* expires when the next call may pass; 0: no call waits */
	__u64		deadline;
};

/* user_data: 2 * index of the client + one of these */
enum { BURST, TURN };

static struct hwtimer *timers;
static struct client *clients;
static long nr_clients = 100, nr_calls = 20, limit = 4, interval_ms = 250, seed_option = 1;
static __u64 interval;
static unsigned int seed;
static long passed, at_once, early;
static struct samples late;

/* The limited action; here it only writes to the log. */
static void let_through(struct client *c, __u64 before)
{
	struct call *call = &c->calls[c->passed++];

	call->before = before;
	call->place = passed++;
	call->after = hwtimer_now(timers);
}

/* Returns when the next call of @c may pass. */
static __u64 turn(const struct client *c)
{
	return c->passed < limit ? 0 : c->calls[c->passed - limit].after + interval;
}

/* Let through the calls that may pass, and schedule a timeout if others wait. */
static void serve(struct client *c)
{
	while (!c->turn && c->passed < c->made) {
		__u64 now = hwtimer_now(timers);

		if (turn(c) <= now) {
			let_through(c, now);
			continue;
		}
		c->deadline = turn(c);
		must(hwtimer_schedule_at(timers, c->deadline, 2 * (c - clients) + TURN, &c->turn),
		     "hwtimer_schedule_at");
	}
}

/* Make a burst of calls, which may exceed the limit, then pause. */
static void burst(struct client *c)
{
	long calls = 1 + rand_r(&seed) % (3 * limit), before = c->passed;

	for (; calls && c->made < nr_calls; calls--)
		c->calls[c->made++].came = hwtimer_now(timers);
	serve(c);
	at_once += c->passed - before;
	if (c->made < nr_calls)
		must(hwtimer_schedule(timers, rand_r(&seed) % (2 * interval_ms) * NS_PER_MS,
				      2 * (c - clients) + BURST, NULL), "hwtimer_schedule");
}

static void run(void)
{
	struct hwtimer_event e;
	struct client *c;
	long i;

	for (i = 0; i < nr_clients; i++)
		burst(&clients[i]);
	while (passed < nr_clients * nr_calls) {
		must(hwtimer_wait(timers, &e, -1), "hwtimer_wait");
		c = &clients[e.user_data / 2];
		if (e.user_data % 2 == BURST) {
			burst(c);
			continue;
		}
		early += hwtimer_now(timers) < c->deadline;
		sample(&late, e.taken_ns - c->deadline);
		c->turn = 0;
		serve(c);
	}
}

/* Returns the largest number of calls of @c in any interval. */
static long fullest(const struct client *c)
{
	long first = 0, last, most = 0;

	for (last = 0; last < c->passed; last++) {
		while (c->calls[first].after + interval <= c->calls[last].before)
			first++;
		if (last - first + 1 > most)
			most = last - first + 1;
	}
	return most;
}

static int report(void)
{
	struct samples waits = { 0 };
	__u64 last = 0;
	long most = 0, disorder = 0, i, k;

	for (i = 0; i < nr_clients; i++) {
		const struct client *c = &clients[i];

		if (fullest(c) > most)
			most = fullest(c);
		for (k = 0; k < c->passed; k++) {
			const struct call *call = &c->calls[k];

			disorder += k && call->place < call[-1].place;
			sample(&waits, call->before - call->came);
			if (call->place == passed - 1)
				last = call->before - call->came;
		}
	}
	sort_samples(&waits);
	sort_samples(&late);
	printf("%ld calls of %ld clients, let through: %ld, at once: %ld\n",
	       nr_clients * nr_calls, nr_clients, passed, at_once);
	printf("calls of a client in any %ld ms: at most %ld, allowed: %ld\n",
	       interval_ms, most, limit);
	printf("out of order: %ld, timeouts that came early: %ld\n", disorder, early);
	printf("waited: half of them %.1f ms, the longest %.1f ms, the last one %.1f ms\n",
	       quantile(&waits, 0.5) / 1e6, quantile(&waits, 1) / 1e6, last / 1e6);
	printf("timeouts: %zu, late: half of them %.3f ms, the latest %.3f ms\n",
	       late.number, quantile(&late, 0.5) / 1e6, quantile(&late, 1) / 1e6);
	return most > limit || disorder || early;
}

static const char usage[] =
	"usage: rate_limiter [OPTION]...\n"
	"Clients make calls in bursts; no more than the limit of a client's calls are let\n"
	"through in any interval, the rest waits on the wheel. Fails if it was otherwise.\n\n"
	"  --clients N        so many clients [100]\n"
	"  --calls N          so many calls of each [20]\n"
	"  --limit N          calls in an interval [4]\n"
	"  --interval-ms N    the interval [250]\n"
	"  --seed N           other bursts [1]\n"
	"  -h, --help         this text\n";

int main(int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "clients", .number = &nr_clients, .min = 1, .max = 1000000 },
		{ "calls", .number = &nr_calls, .min = 1, .max = 1000 },
		{ "limit", .number = &limit, .min = 1, .max = 1000 },
		{ "interval-ms", .number = &interval_ms, .min = 1, .max = 1000000 },
		{ "seed", .number = &seed_option, .max = 1000000 },
		{ }
	};
	struct hwtimer_options timer_options = { .size = sizeof(timer_options) };
	struct call *calls;
	long i;

	parse_options(argc, argv, options, usage);
	seed = seed_option;
	interval = interval_ms * NS_PER_MS;
	clients = calloc(nr_clients, sizeof(*clients));
	calls = calloc(nr_clients * nr_calls, sizeof(*calls));
	if (!clients || !calls)
		err(1, "no memory for %ld calls", nr_clients * nr_calls);
	for (i = 0; i < nr_clients; i++)
		clients[i].calls = &calls[i * nr_calls];

	timer_options.timeouts = 2 * nr_clients;
	timers = open_timers(&timer_options);
	run();
	hwtimer_close(timers);
	return report();
}
