// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * from_timerfd: libhwtimer in place of timerfds in an epoll set: one descriptor for all timeouts.
 * One expires three times, as with it_interval, and one is disarmed.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <libhwtimer.h>

#define MS(n)	((n) * 1000000ULL)
#define TICKER	1	/* user_data identifies a timeout, in place of a descriptor */
#define OTHER	2

static void must(const char *what, int ret)
{
	if (ret)
		errx(1, "%s: %s", what, strerror(-ret));
}

int main(void)
{
	struct epoll_event watch = { .events = EPOLLIN }, ready;
	struct hwtimer_event event;
	struct hwtimer_repeat ticker = { 0 };
	uint64_t expirations = 0;
	hwtimer_id tick, other;
	struct hwtimer *h;
	int epoll, ret;

	/* timerfd_create(), but once for all timeouts */
	must("open", hwtimer_open(&h, NULL));
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, hwtimer_fd(h), &watch))
		err(1, "epoll");

	/* timerfd_settime() with it_value and it_interval; with TFD_TIMER_ABSTIME: _at() */
	ticker.first_ns = hwtimer_now(h) + MS(50);
	ticker.period_ns = MS(50);
	must("repeat", hwtimer_schedule_repeat(h, &ticker, TICKER, &tick));
	must("schedule", hwtimer_schedule(h, MS(100), OTHER, &other));
	/* timerfd_settime() again, with another time, and with 0, which disarms */
	must("touch", hwtimer_touch(h, other, MS(10000)));
	must("cancel", hwtimer_cancel(h, other));

	while (expirations < 3) {
		if (epoll_wait(epoll, &ready, 1, 60000) != 1)
			errx(1, "nothing expired within a minute");
		/* read(). There may be no event. */
		while ((ret = hwtimer_wait(h, &event, 0)) > 0) {
			if (event.user_data != TICKER)
				errx(1, "what was cancelled expired");
			expirations += 1 + event.overruns;	/* as read() gives */
		}
		must("wait", ret);
	}
	printf("%llu expirations\n", (unsigned long long)expirations);
	must("cancel", hwtimer_cancel(h, tick));
	hwtimer_close(h);	/* close() of all timerfds */
	return EXIT_SUCCESS;
}
