// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the cap: no place is lost or taken twice, and none is refused as long as one is free.
 * Contexts fill their part of the places and empty it in turns. In most rounds there are few
 * places, and a CPU is opened when fewer are free than places_create() would have it, so that CPUs
 * are opened and closed all the time.
 */
#include <native.h>

#include "core/hwtimer_places.h"
#include "shim.h"

#define THREADS	16
#define CPUS	(THREADS + 8)	/* including those of the shims */
#define PLAYED	6		/* CPUs of the case that has one thread */
#define ROUND	100000

static struct places *cap;
static unsigned long opened;

/**
 * struct holder - who takes places and gives them back
 * @most: how many it may hold: together, the holders may hold all
 * @held: how many it holds
 * @emptying: it rather gives them back
 * @random: its stream of random numbers
 */
struct holder {
	unsigned long	most;
	unsigned long	held;
	bool		emptying;
	__u64		random;
};

/* False if a place was refused. */
static bool step(struct holder *h)
{
	bool give;

	if (h->held == (h->emptying ? 0 : h->most))
		h->emptying = !h->emptying;
	give = below(&h->random, 4) ? h->emptying : !h->emptying;
	if (!give && h->held < h->most) {
		if (!places_take(cap))
			return false;
		h->held++;
	} else if (give && h->held) {
		places_give(cap);
		h->held--;
	}
	return true;
}

static void empty(struct holder *h)
{
	while (h->held) {
		places_give(cap);
		h->held--;
	}
}

/* A cap of about @few places, or of so many that places_create() has CPUs opened. */
static void begin(unsigned int few, __u64 *random)
{
	bool large = !below(random, 4);

	cap = places_create(large ? 4 * 8 * CPUS + below(random, 1000) :
				    few + below(random, few));
	if (!cap) {
		native_fail("no cap");
		return;
	}
	if (!large) {
		cap->share = 1 + below(random, 4);
		cap->many = cap->share + 1 + below(random, 4);
	}
}

/* One of @n holders. */
static struct holder holder(unsigned int i, unsigned int n, __u64 *random)
{
	return (struct holder){ .most = (cap->number + i) / n, .random = seeded(draw(random)) };
}

static void end(void)
{
	if (places_taken(cap))
		native_fail("%lu places are taken by nobody", places_taken(cap));
	opened += cap->open / PLACES_OPENING;
	places_free(cap);
}

/* One thread, which is several CPUs in turn: each answer is known. */
static __u64 cpus(void)
{
	__u64 random = seeded(0), n = 0;
	unsigned int own = current->cpu, cpu, stay, i;
	struct holder h;
	bool taken;

	for (opened = 0; go_on(n / options.threads); n += ROUND) {
		begin(PLAYED, &random);
		h = holder(0, 1, &random);
		stay = 1 + below(&random, 300);
		cpu = own;
		for (i = 0; i < ROUND; i++) {
			if (!below(&random, stay))
				cpu = below(&random, PLAYED);
			current->cpu = cpu;
			taken = step(&h) && (h.held < h.most || !places_take(cap));
			current->cpu = own;
			if (!taken || places_taken(cap) != h.held) {
				native_fail("%lu places of %lu are taken, %lu are counted", h.held,
					    cap->number, places_taken(cap));
				break;
			}
		}
		empty(&h);
		end();
	}
	if (!opened)
		native_fail("no CPU was opened");
	native_log("opened %lu times", opened);
	return n;
}

static void *taker(void *arg)
{
	struct holder *h = arg;
	unsigned int i;

	native_enter();
	for (i = 0; i < ROUND; i++) {
		preempt_disable();
		if (!step(h))
			native_fail("a place was refused, and one was free");
		preempt_enable();
	}
	empty(h);
	native_leave();
	return NULL;
}

/* Together, the threads never hold more places than there are: none may be refused. */
static __u64 threads(void)
{
	__u64 random = seeded(2), n = 0;
	struct holder holders[THREADS];
	pthread_t ids[THREADS];
	unsigned int i;

	WRITE_ONCE(native_rough, 2);
	for (opened = 0; go_on(n / options.threads); n += ROUND * options.threads) {
		begin(4 * options.threads, &random);
		for (i = 0; i < options.threads; i++) {
			holders[i] = holder(i, options.threads, &random);
			pthread_create(&ids[i], NULL, taker, &holders[i]);
		}
		for (i = 0; i < options.threads; i++)
			pthread_join(ids[i], NULL);
		end();
	}
	WRITE_ONCE(native_rough, 0);
	if (!opened)
		native_fail("no CPU was opened");
	native_log("opened %lu times", opened);
	return n;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "cap_cpus", cpus },
		{ "cap_threads", threads },
	};

	nr_cpu_ids = CPUS;
	return native_main(argc, argv, tests, ARRAY_SIZE(tests));
}
