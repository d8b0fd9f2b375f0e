// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * at: wait for a time of day, as cron does, beside timeouts of libhwtimer, whose clocks nobody can
 * set: a timerfd on CLOCK_REALTIME is in the same poll loop. It becomes readable, with ECANCELED,
 * when somebody has set the clock. The program computes anew in each round for when it waits.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <libhwtimer.h>

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);	/* time() may still return the second before */
	return t.tv_sec;
}

/* The first time after @t at which it is the hour and minute of @day. */
static time_t next(time_t t, const struct tm *day)
{
	struct tm tm;

	localtime_r(&t, &tm);
	tm.tm_mday += day->tm_hour * 60 + day->tm_min <= tm.tm_hour * 60 + tm.tm_min;
	tm.tm_hour = day->tm_hour;
	tm.tm_min = day->tm_min;
	tm.tm_sec = 0;
	tm.tm_isdst = -1;
	return mktime(&tm);
}

int main(int argc, char **argv)
{
	const int flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
	struct pollfd fds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	struct itimerspec at = { 0 };
	struct hwtimer_event event;
	struct tm day = { 0 };
	const char *end;
	struct hwtimer *h;
	uint64_t times;
	time_t t;

	end = argc == 2 ? strptime(argv[1], "%H:%M", &day) : NULL;
	if (!end || *end)
		errx(2, "usage: at HH:MM");
	fds[0].fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC);
	if (fds[0].fd < 0 || hwtimer_open(&h, NULL) || hwtimer_schedule(h, 1000000, 0, NULL))
		errx(1, "no timers");
	fds[1].fd = hwtimer_fd(h);

	t = now();
	for (at.it_value.tv_sec = next(t, &day); t < at.it_value.tv_sec; t = now()) {
		at.it_value.tv_sec = next(t, &day);
		if (timerfd_settime(fds[0].fd, flags, &at, NULL) || poll(fds, 2, -1) < 0 ||
		    (fds[0].revents && read(fds[0].fd, &times, sizeof(times)) < 0)) {
			if (errno != ECANCELED)
				err(1, "timerfd");
			printf("the clock was set\n");
		}
		while (hwtimer_wait(h, &event, 0) > 0)
			printf("a timeout expired, before %s\n", argv[1]);
		fflush(stdout);
	}
	printf("it is %s", ctime(&t));
	hwtimer_close(h);
	return EXIT_SUCCESS;
}
