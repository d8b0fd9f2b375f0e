// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: no wakeup is lost. Threads arm timeouts just as the worker goes to sleep, and check that
 * it does not sleep past them. The check reads the worker's state and measures no time, so a busy
 * machine causes no failure, and a lost wakeup is found at once.
 */
#include <native.h>

#include "hwtimer.h"
#include "core/hwtimer_driver.h"
#include "shim.h"

#define THREADS	16

struct timeout {
	struct hwtimer_timeout	t;
	bool			shared;		/* by two threads */
	atomic_long_t		armed;
	unsigned long		expired;	/* by the worker */
} ____cacheline_aligned;

static struct hwtimer_wheel *wheel;
static struct timeout own[THREADS], shared[THREADS], resting[THREADS];
static unsigned int nr_threads;
static __u64 done[THREADS];

static void expired(struct hwtimer_timeout *t)
{
	struct timeout *timeout = container_of(t, struct timeout, t);

	if (ktime_get_ns() < hwtimer_deadline(t) && !hwtimer_is_pending(t) && !timeout->shared)
		native_fail("early");
	WRITE_ONCE(timeout->expired, timeout->expired + 1);
}

static void arm(struct timeout *timeout, u64 deadline)
{
	int ret = hwtimer_schedule_at(&timeout->t, deadline);

	if (ret < 0)
		native_fail("arming returned %d", ret);
	else if (!ret)
		atomic_long_inc(&timeout->armed);
}

/*
 * A cancelled timeout stays filed, so arming it again for later makes no request. A worker that
 * finds nothing pending must count again before it sleeps for ever.
 */
static void rearm(unsigned int self, __u64 *random)
{
	struct hwtimer_timeout *t = &resting[self].t;
	unsigned int n = below(random, 512);

	if (!below(random, 16))
		hwtimer_wheel_barrier(wheel);
	while (n--)
		barrier();
	hwtimer_schedule_at(t, to_driven(wheel)->start_ns + 3600 * NSEC_PER_SEC);
	for (n = 0; n < 16; n++)
		cpu_relax();
	if (native_lost(t))
		native_fail("the worker sleeps for ever, and something is pending");
	hwtimer_cancel(t);
}

/* Arm a timeout as the worker goes to sleep, and wait until it expires. */
static void arm_and_wait(unsigned int self, __u64 *random)
{
	bool mine = below(random, 8);
	struct timeout *timeout = mine ? &own[self] : &shared[self / 2];
	/*
	 * For a shared timeout: one thread is about to queue it, another one changes its deadline,
	 * and the worker goes to sleep.
	 */
	u64 delay = below(random, mine ? 64 : 2) ? 0 : below(random, mine ? 30000 : 300000);
	u64 now = ktime_get_ns(), spins = 0;
	unsigned int n = below(random, 2) ? below(random, 4096) : below(random, 512);

	if (!mine)
		arm(&own[self], now + below(random, 200000));
	/* to arm at any moment of the worker's way to sleep */
	while (n--)
		barrier();
	arm(timeout, ktime_get_ns() + delay);
	while (hwtimer_is_pending(&timeout->t)) {
		cpu_relax();
		if (!(++spins % 128) && native_lost(&timeout->t)) {
			native_fail("the worker sleeps, and was not woken: lost after %llu",
				    (unsigned long long)done[self]);
			return;
		}
	}
}

static void *thread(void *arg)
{
	unsigned int self = (uintptr_t)arg;
	__u64 random = seeded(self);

	native_enter();
	/* One that waits takes as long as 32 of other programs. */
	while (go_on(32 * done[self])) {
		if (below(&random, 4))
			arm_and_wait(self, &random);
		else
			rearm(self, &random);
		done[self]++;
	}
	while (hwtimer_is_pending(&own[self].t) && !READ_ONCE(native_failures))
		cpu_relax();
	native_leave();
	return NULL;
}

static __u64 run(void)
{
	struct hwtimer_wheel_params params = {
		.name = "wake", .tick_ns = 1000, .slots = 4096, .levels = 3,
	};
	struct timeout *all[] = { own, shared }, *timeout;
	pthread_t threads[THREADS];
	__u64 sum = 0;
	unsigned int i;

	wheel = hwtimer_wheel_create(&params);
	for (i = 0; i < THREADS; i++)
		hwtimer_init(&resting[i].t, wheel, expired);
	for (i = 0; i < 2 * THREADS; i++) {
		timeout = &all[i % 2][i / 2];
		memset(timeout, 0, sizeof(*timeout));
		timeout->shared = i % 2;
		hwtimer_init(&timeout->t, wheel, expired);
	}
	memset(done, 0, sizeof(done));
	for (i = 0; i < nr_threads; i++)
		pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)i);
	for (i = 0; i < nr_threads; i++) {
		pthread_join(threads[i], NULL);
		sum += done[i];
	}
	hwtimer_wheel_stop(wheel, NULL);
	for (i = 0; i < 2 * THREADS; i++) {
		timeout = &all[i % 2][i / 2];
		if (timeout->expired != (unsigned long)atomic_long_read(&timeout->armed))
			native_fail("armed %ld times, expired %lu times",
				    atomic_long_read(&timeout->armed), timeout->expired);
	}
	hwtimer_wheel_destroy(wheel);
	return sum;
}

static __u64 plain(void)
{
	nr_threads = options.threads;
	return run();
}

/* Some races need three threads and a fourth one at the right moment. */
static __u64 delays(void)
{
	__u64 n;

	nr_threads = max(options.threads, 4U);
	WRITE_ONCE(native_rough, 2);
	n = run();
	WRITE_ONCE(native_rough, 0);
	return n;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "wake", plain },
		{ "wake_delays", delays },
	};

	return native_main(argc, argv, tests, ARRAY_SIZE(tests));
}
