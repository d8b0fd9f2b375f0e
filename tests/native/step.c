// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: delays and interrupts between the steps of the protocol in a test on native threads,
 * modelled on tests/torture/delays.c. Also the options and the main program of all tests.
 */
#include <unistd.h>

#include <native.h>

#include "core/hwtimer_step.h"
#include "shim.h"

/* 0: none; 1: delays of up to 2 us, and interrupts; 2: also delays of up to 640 us, and yields */
int native_rough;
bool native_yields = true;
void (*native_meanwhile)(void);

#ifdef HWTIMER_TORTURE
static void delay(u64 ns)
{
	u64 end = ktime_get_ns() + ns;

	while (ktime_get_ns() < end)
		cpu_relax();
}

void hwtimer_step(void)
{
	int rough = READ_ONCE(native_rough);
	u32 random, dice, n;

	if (likely(!rough))
		return;
	random = draw(&current->step_random);
	dice = random % 4096;
	n = random >> 16;
	if (dice < 3072)
		return;
	if (dice < 3900) {
		for (n %= 64; n; n--)
			barrier();
	} else if (dice < 3990) {
		native_irq();
	} else if (dice < 4070 || rough < 2) {
		delay(n % 2048);
	} else if (dice < 4094) {
		delay(1000 + n % 30000);
	} else {
		/* let another thread run on this processor */
		sched_yield();
	}
}

/* Before each compare-and-swap of the library: let other threads get in between. */
void native_step(void)
{
	if (native_current && native_yields && !(draw(&current->step_random) % 32))
		sched_yield();
}

void hwtimer_step_stall(void)
{
	if (READ_ONCE(native_rough) == 2 && !(draw(&current->step_random) % 256))
		delay(20000ULL << draw(&current->step_random) % 6);
	else
		hwtimer_step();
}

void hwtimer_step_locked(void)
{
	void (*meanwhile)(void) = native_meanwhile;

	if (unlikely(meanwhile)) {
		native_meanwhile = NULL;
		meanwhile();
	}
	hwtimer_step();
}
#endif

struct options options = { .seconds = 2, .threads = 2 };
static __u64 ends;
static int failures_before;

bool go_on(__u64 done)
{
	if (READ_ONCE(native_failures) != failures_before)
		return false;
	if (options.operations)
		return done < DIV_ROUND_UP(options.operations, options.threads);
	return ktime_get_ns() < READ_ONCE(ends);
}

int native_main(int argc, char **argv, const struct test *tests, unsigned int n)
{
	unsigned int i, failed = 0;
	u64 began, operations;
	int option;

	options.seed = ktime_get_ns() % 1000000 + 1;
	while ((option = getopt(argc, argv, "s:n:t:S:")) != -1) {
		switch (option) {
		case 's':
			options.seconds = atoi(optarg);
			break;
		case 'n':
			options.operations = atof(optarg);
			break;
		case 't':
			options.threads = atoi(optarg);
			break;
		case 'S':
			options.seed = strtoull(optarg, NULL, 0);
			break;
		default:
			return 2;
		}
	}
	if (!options.threads || options.threads > 16) {
		fprintf(stderr, "%s: -t: 1 to 16 threads\n", argv[0]);
		return 2;
	}
	printf("TAP version 13\n1..%u\n# seed %llu, %u threads\n", n,
	       (unsigned long long)options.seed, options.threads);
	/* A worker visits the queue of each possible CPU, so have no more CPUs than needed. */
	nr_cpu_ids = 16 + 2 * max(options.threads, 4U);
	native_begin();
	for (i = 0; i < n; i++) {
		failures_before = native_failures;
		began = ktime_get_ns();
		ends = began + options.seconds * 1000000000ULL / n;
		operations = tests[i].run();
		began = ktime_get_ns() - began;
		printf("# %s: %llu operations in %.2f s, %.0f in a second\n", tests[i].name,
		       operations, began / 1e9, operations * 1e9 / began);
		failed += native_failures != failures_before;
		printf("%sok %u %s\n", native_failures != failures_before ? "not " : "", i + 1,
		       tests[i].name);
		fflush(stdout);
	}
	native_end();
	return !!failed;
}
