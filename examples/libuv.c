// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libuv: timeouts of libhwtimer in a loop of libuv, which needs one uv_poll_t for all of them. Of
 * three timeouts, one is pushed back, one is cancelled, and two expire.
 *
 * Calls of libuv, and their replacements:
 *
 *	uv_timer_init(), uv_timer_start()	hwtimer_schedule()
 *	uv_timer_again(), uv_timer_start()	hwtimer_touch()
 *	uv_timer_stop(), uv_close()		hwtimer_cancel()
 *	the callback				an event of hwtimer_wait()
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libhwtimer.h>
#include <uv.h>

#define MS(n)	((n) * 1000000ULL)

static unsigned int seen;

static int must(const char *what, int ret)
{
	if (ret < 0)
		errx(1, "%s: %s", what, strerror(-ret));	/* of libuv, too, on Linux */
	return ret;
}

/* hwtimer_fd() is readable. */
static void timers_readable(uv_poll_t *poll, int status, int what)
{
	static const uint64_t expected[] = { 2, 1 };
	struct hwtimer_event e;

	(void)what;
	must("poll", status);
	while (must("wait", hwtimer_wait(poll->data, &e, 0))) {
		printf("timeout %llu expired %.3f ms after its deadline\n",
		       (unsigned long long)e.user_data, (e.taken_ns - e.deadline_ns) / 1e6);
		if (seen >= 2 || e.user_data != expected[seen] || e.taken_ns < e.deadline_ns)
			errx(1, "that is wrong");
		seen++;
	}
	if (seen == 2)
		uv_close((uv_handle_t *)poll, NULL);	/* so the loop ends */
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	hwtimer_id first, third;
	struct hwtimer *h;
	uv_poll_t poll;

	must("open", hwtimer_open(&h, NULL));
	must("poll", uv_poll_init(loop, &poll, hwtimer_fd(h)));
	poll.data = h;
	must("poll", uv_poll_start(&poll, UV_READABLE, timers_readable));
	must("schedule", hwtimer_schedule(h, MS(10000), 1, &first));
	must("schedule", hwtimer_schedule(h, MS(200), 2, NULL));
	must("schedule", hwtimer_schedule(h, MS(10000), 3, &third));
	must("touch", hwtimer_touch(h, first, MS(400)));
	must("cancel", hwtimer_cancel(h, third));
	must("run", uv_run(loop, UV_RUN_DEFAULT));
	hwtimer_close(h);
	return seen == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
