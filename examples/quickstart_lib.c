// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * quickstart_lib: timeouts in a program, by libhwtimer. Three are scheduled, one of them is pushed
 * back and one cancelled; two expire.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libhwtimer.h>

#define MS(n)	((n) * 1000000ULL)

static void must(const char *what, int ret)
{
	if (ret)
		errx(1, "%s: %s", what, strerror(-ret));
}

int main(void)
{
	uint64_t deadlines[4] = { 0 };
	struct hwtimer_event e;
	hwtimer_id first, third;
	struct hwtimer *h;
	int i;

	must("open", hwtimer_open(&h, NULL));
	must("schedule", hwtimer_schedule(h, MS(100), 1, &first));
	must("schedule", hwtimer_schedule(h, MS(200), 2, NULL));
	must("schedule", hwtimer_schedule(h, MS(300), 3, &third));
	must("touch", hwtimer_touch(h, first, MS(400)));	/* no system call */
	must("cancel", hwtimer_cancel(h, third));		/* no system call */

	for (i = 0; i < 2; i++) {
		if (hwtimer_wait(h, &e, MS(60000)) != 1)
			errx(1, "nothing expired within a minute");
		printf("timeout %llu expired %.3f ms after its deadline\n",
		       (unsigned long long)e.user_data,
		       (e.taken_ns - e.deadline_ns) / 1e6);
		if (e.taken_ns < e.deadline_ns)
			errx(1, "that is early");
		deadlines[e.user_data] = e.deadline_ns;
	}
	/* 1 is due after 2, and 3 never. The events themselves may be late. */
	if (!deadlines[2] || deadlines[1] <= deadlines[2] || deadlines[3])
		errx(1, "that is wrong");
	hwtimer_close(h);
	return EXIT_SUCCESS;
}
