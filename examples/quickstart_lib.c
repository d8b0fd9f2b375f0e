// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <err.h>
#include <stdio.h>
#include <libhwtimer.h>

#define MS(n)	((n) * 1000000ULL)

int main(void)
{
	struct hwtimer_event e;
	struct hwtimer *h;
	hwtimer_id first;

	if (hwtimer_open(&h, NULL) ||
	    hwtimer_schedule(h, MS(100), 1, &first) ||
	    hwtimer_schedule(h, MS(200), 2, NULL))
		errx(1, "no timeouts");
	hwtimer_touch(h, first, MS(300));	/* no system call */
	for (int i = 0; i < 2; i++) {
		if (hwtimer_wait(h, &e, MS(60000)) != 1)
			errx(1, "nothing expired within a minute");
		printf("%d: %.3f ms late%s\n", (int)e.user_data,
		       (e.taken_ns - e.deadline_ns) / 1e6,
		       hwtimer_in_process(h) ? ", in the process" : "");
	}
	hwtimer_close(h);
	return 0;
}
