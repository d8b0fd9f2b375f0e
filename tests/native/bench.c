// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the native benchmark: several threads arm, push back and cancel timeouts of their own,
 * of one wheel, whose worker is another thread, or by timer_list, which is the kernel's timer.c in
 * this program. Used by scripts/bench.
 *
 *	bench ROUNDS
 *
 * prints a line "operation,threads,timeouts subject ns" for each figure of each round: CPU time for
 * each operation, that of the worker included. Every other round measures in reverse order.
 *
 * Each thread has so many timeouts, in structures of 256 bytes, and uses them in random order. No
 * timeout expires meanwhile. Atomic operations and spinlocks cost about what they do in the kernel,
 * but to disable interrupts is a store here. timer_list does that in each operation, hwtimer only
 * for a kick. As in the kernel, timer_list has a base for each CPU, so threads do not share one.
 */
#include <native.h>

#include "hwtimer.h"
#include "core/hwtimer_driver.h"
#include "shim.h"
/* The C library has a function of this name. */
#define timer_delete	kernel_timer_delete
#include <linux/timer.h>
#include <native_timer.h>

#include <kernel_timer.c>

/* of a thread: so few that they stay in its cache, or as many as it does operations */
#define FEW		1000U
#define MANY		100000U
#define MOST_THREADS	4
/* The range of the delays, in jiffies of 1 ms. The shortest one is longer than a round takes. */
#define SHORTEST	60000
#define SPREAD		40000

struct conn {
	union {
		struct hwtimer_timeout	hwtimer;
		struct timer_list	list;
	};
} __attribute__((aligned(256)));

struct producer {
	pthread_t		thread;
	struct conn		*conns;
	unsigned int		order[MANY];
	u64			ns;
};

typedef void (*op_fn)(struct conn *c, unsigned int delay);

struct options options = { .seed = 1 };

static struct hwtimer_wheel *wheel;
static u64 began;	/* the wheel's time, as who knows the time arms by deadline */
static struct producer producers[MOST_THREADS];
static pthread_barrier_t phase;
static unsigned int timeouts;	/* of each thread */
static const op_fn *ops;	/* of the subject, in the order of their names */

static void never(struct hwtimer_timeout *t)
{
	native_fail("a timeout has expired");
}

static void never_list(struct timer_list *t)
{
	native_fail("a timer has expired");
}

static u64 deadline(unsigned int delay)
{
	return began + delay * NSEC_PER_MSEC;
}

static void hw_arm(struct conn *c, unsigned int delay)
{
	hwtimer_schedule_at(&c->hwtimer, deadline(delay));
}

static void hw_touch(struct conn *c, unsigned int delay)
{
	hwtimer_touch_at(&c->hwtimer, deadline(delay) + 4 * NSEC_PER_SEC);
}

static void hw_cancel(struct conn *c, unsigned int delay)
{
	hwtimer_cancel(&c->hwtimer);
}

static void hw_arm_cancel(struct conn *c, unsigned int delay)
{
	hw_arm(c, delay);
	hw_cancel(c, delay);
}

static void list_arm(struct conn *c, unsigned int delay)
{
	mod_timer(&c->list, jiffies_64 + delay);
}

static void list_touch(struct conn *c, unsigned int delay)
{
	list_arm(c, delay + 4 * HZ);
}

static void list_cancel(struct conn *c, unsigned int delay)
{
	timer_delete(&c->list);
}

static void list_arm_cancel(struct conn *c, unsigned int delay)
{
	list_arm(c, delay);
	list_cancel(c, delay);
}

/* Of the first and the last one, nothing is printed. */
static const char *const names[] = { "begin", "touch", "cancel", "arm_cancel", "arm", "end" };
static const op_fn by_wheel[] = { hw_arm, hw_touch, hw_cancel, hw_arm_cancel, hw_arm, hw_cancel };
static const op_fn by_list[] = {
	list_arm, list_touch, list_cancel, list_arm_cancel, list_arm, list_cancel
};

static u64 cpu_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static void *produce(void *arg)
{
	struct producer *p = arg;
	unsigned int k, i, n;

	native_enter();
	for (k = 0; k < ARRAY_SIZE(names) * (MANY / timeouts); k++) {
		pthread_barrier_wait(&phase);
		p->ns = -cpu_ns(CLOCK_THREAD_CPUTIME_ID);
		for (i = 0; i < timeouts; i++) {
			n = p->order[i];
			ops[k % ARRAY_SIZE(names)](&p->conns[n], SHORTEST + n % SPREAD);
		}
		p->ns += cpu_ns(CLOCK_THREAD_CPUTIME_ID);
		pthread_barrier_wait(&phase);
	}
	native_leave();
	return NULL;
}

/* Fresh timeouts, in the same random order for all. */
static void prepare(bool list)
{
	u64 random = seeded(0);
	unsigned int k, other;
	struct producer *p;

	for (p = producers; p < producers + MOST_THREADS; p++) {
		if (!p->conns)
			p->conns = aligned_alloc(sizeof(*p->conns), MANY * sizeof(*p->conns));
		for (k = 0; k < timeouts; k++) {
			memset(&p->conns[k], 0, sizeof(p->conns[k]));
			if (list)
				timer_setup(&p->conns[k].list, never_list, 0);
			else
				hwtimer_init(&p->conns[k].hwtimer, wheel, never);
			other = below(&random, k + 1);
			p->order[k] = k;
			swap(p->order[k], p->order[other]);
		}
	}
}

static void measure(bool list, unsigned int threads)
{
	const struct hwtimer_wheel_params params = {
		.name = "bench", .tick_ns = NSEC_PER_MSEC, .slots = 4096, .levels = 2,
	};
	u64 ns[ARRAY_SIZE(names)] = { };
	clockid_t worker;
	unsigned int i, k;

	wheel = hwtimer_wheel_create(&params);
	if (IS_ERR(wheel))
		abort();
	pthread_getcpuclockid(to_driven(wheel)->task->thread, &worker);
	began = hwtimer_wheel_now(wheel);
	ops = list ? by_list : by_wheel;
	prepare(list);
	pthread_barrier_init(&phase, NULL, threads + 1);
	for (i = 0; i < threads; i++)
		pthread_create(&producers[i].thread, NULL, produce, &producers[i]);
	for (k = 0; k < ARRAY_SIZE(names) * (MANY / timeouts); k++) {
		ns[k % ARRAY_SIZE(names)] -= cpu_ns(worker);
		pthread_barrier_wait(&phase);
		pthread_barrier_wait(&phase);
		hwtimer_wheel_barrier(wheel);
		ns[k % ARRAY_SIZE(names)] += cpu_ns(worker);
		for (i = 0; i < threads; i++)
			ns[k % ARRAY_SIZE(names)] += producers[i].ns;
	}
	for (k = 1; k + 1 < ARRAY_SIZE(names); k++)
		printf("%s,%u,%u %s %.1f\n", names[k], threads, timeouts,
		       list ? "timer_list" : "hwtimer_at", (double)ns[k] / threads / MANY);
	for (i = 0; i < threads; i++)
		pthread_join(producers[i].thread, NULL);
	pthread_barrier_destroy(&phase);
	hwtimer_wheel_stop(wheel, NULL);
	hwtimer_wheel_destroy(wheel);
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? atoi(argv[1]) : 1, round, threads, i;
	size_t size = __stop_native_percpu - __start_native_percpu;

	nr_cpu_ids = 16;
	native_begin();
	for (i = 1; i < nr_cpu_ids; i++)
		native_percpu_offset[i] = (char *)native_alloc(size) - __start_native_percpu;
	init_timers();
	for (round = 0; round < rounds; round++)
		for (i = 0; i < 4; i++)
			for (threads = 1; threads <= MOST_THREADS; threads *= 2) {
				timeouts = i < 2 ? FEW : MANY;
				measure((i + round) % 2, threads);
			}
	return !!native_failures;
}
