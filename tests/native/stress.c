// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: all operations at once. The engine of the torture test (tests/torture/engine.c) with
 * threads for CPUs. Interrupts are signals, and calls from the steps of the protocol, in each other
 * burst. Times are shorter than in a guest, as the processors are real.
 */
#include "../torture/torture.h"
#include "shim.h"

static struct bench b = { .name = "stress", .things = MAX_THINGS };

/* By operations, so that a busy machine does as many in a burst. */
const unsigned int torture_speed = 64, torture_burst_ns = NSEC_PER_SEC, torture_burst_ops = 8000;

static void on_interrupt(void)
{
	torture_step(&b, HARDIRQ, &current->step_random, NULL);
}

void torture_irqs_init(struct producer *p) { }

/* A producer that ends ends the interrupts of all. They are read-side critical sections. */
void torture_irqs_start(struct producer *p)
{
	smp_store_release(&native_irq_handler, b.burst % 2 ? on_interrupt : NULL);
}

void torture_irqs_end(struct producer *p)
{
	WRITE_ONCE(native_irq_handler, NULL);
	synchronize_rcu();
}

bool torture_lost(struct hwtimer_timeout *t, u64 late_ns)
{
	/* runs that did not see that the bench is quiet end before */
	flush_workqueue(torture_wq);
	return native_lost(t);
}

static __u64 stress(void)
{
	pthread_t threads[16];
	struct counts sum = { };
	unsigned int i;
	__u64 ops = 0;

	torture_seeds = seeded(0);
	torture_wq = native_workqueue(2);
	b.nr_producers = options.threads;
	torture_bench_init(&b);
	for (i = 0; i < options.threads; i++)
		threads[i] = b.producers[i].task->thread;
	native_irqs_begin(threads, options.threads);
	while (go_on(ops / options.threads) && torture_wheel(&b)) {
		/* a negative lateness is unsigned, so it is in the last bin: 8 s and more */
		if (local_read(&to_driven(b.wheel)->monitor.late[HWTIMER_LATE_BINS - 1]))
			native_fail("early, or more than 8 s late");
		hwtimer_wheel_destroy(b.wheel);
		memset(&sum, 0, sizeof(sum));
		ops = torture_count(&b, &sum);
		WRITE_ONCE(native_rough, b.wheels % 4 ? b.wheels % 3 : 0);
	}
	native_irqs_end();
	native_log("%u wheels, %u bursts: %lu armed, %lu expired, %lu cancelled, %lu handed back",
		   b.wheels, b.burst, sum.armed[PLAIN].counter, sum.expired[PLAIN].counter,
		   sum.cancelled[PLAIN].counter, sum.handed_back[PLAIN].counter);
	if (torture_failed())
		native_fail("%d failures", atomic_read(&torture_failures));
	else
		torture_bench_end(&b);
	destroy_workqueue(torture_wq);
	return ops;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "stress", stress },
	};

	return native_main(argc, argv, tests, ARRAY_SIZE(tests));
}
