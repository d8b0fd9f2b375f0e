// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * from_netty: libhwtimer in place of Netty's HashedWheelTimer. A thread of the program runs the
 * tasks; a timeout's user_data is the address of its task. Of three tasks one runs, one is
 * cancelled, and one is handed back by the stop.
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libhwtimer.h>

#define MS(n)	((n) * 1000000ULL)

struct task {
	void (*run)(struct task *task);
	const char *name;
};

static unsigned int ran, handed_back;
static sem_t one_ran;

static void must(const char *what, int ret)
{
	if (ret)
		errx(1, "%s: %s", what, strerror(-ret));
}

/* The worker thread; hwtimer_stop() ends it. */
static void *work(void *arg)
{
	struct hwtimer *timer = arg;
	struct hwtimer_event event;
	int ret;

	while ((ret = hwtimer_wait(timer, &event, -1)) > 0) {
		struct task *task = (struct task *)(uintptr_t)event.user_data;

		if (event.kind == HWTIMER_KIND_EXPIRED)
			task->run(task);
		else
			handed_back++;	/* what Netty's stop() returns */
	}
	must("wait", ret == -ESHUTDOWN ? 0 : ret);
	return NULL;
}

static void say(struct task *task)
{
	printf("%s ran\n", task->name);
	ran++;
	sem_post(&one_ran);
}

/* newTimeout(task, delay, unit) */
static hwtimer_id new_timeout(struct hwtimer *timer, struct task *task, uint64_t delay_ns)
{
	hwtimer_id id;

	must("schedule", hwtimer_schedule(timer, delay_ns, (uintptr_t)task, &id));
	return id;
}

int main(void)
{
	struct hwtimer_options options = {
		.size = sizeof(options),
		.flags = HWTIMER_OPEN_THREADS,	/* the main thread and the worker */
		.timeouts = 1000,		/* maxPendingTimeouts */
	};
	struct task tasks[] = { { say, "first" }, { say, "second" }, { say, "third" } };
	struct hwtimer *timer;
	hwtimer_id second;
	pthread_t worker;

	sem_init(&one_ran, 0, 0);
	must("open", hwtimer_open(&timer, &options));
	must("a thread", -pthread_create(&worker, NULL, work, timer));

	new_timeout(timer, &tasks[0], MS(100));
	second = new_timeout(timer, &tasks[1], MS(10000));
	new_timeout(timer, &tasks[2], MS(10000));
	must("touch", hwtimer_touch(timer, second, MS(20000)));	/* Netty has no equivalent */
	must("cancel", hwtimer_cancel(timer, second));
	sem_wait(&one_ran);

	must("stop", hwtimer_stop(timer));
	must("a thread", -pthread_join(worker, NULL));
	hwtimer_close(timer);
	if (ran != 1 || handed_back != 1)
		errx(1, "%u ran, %u handed back", ran, handed_back);
	return EXIT_SUCCESS;
}
