// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl sleep: one timeout.
 */
#include <errno.h>

#include "ctl.h"

static void wait_delay(uint64_t delay_ns)
{
	struct hwtimer *h = ctl_open();
	struct hwtimer_event event;
	int ret;

	ret = hwtimer_schedule(h, delay_ns, 0, NULL);
	if (ret)
		ctl_failed(-ret, "cannot schedule a timeout");
	do
		ret = hwtimer_wait(h, &event, -1);
	while (ret == -EINTR);
	if (ret < 0)
		ctl_failed(-ret, "cannot wait for a timeout");
	hwtimer_close(h);
}

static int run_sleep(struct ctl_args *args)
{
	uint64_t sum = 0;
	const char *word;
	bool any = false;

	while ((word = ctl_next_word(args))) {
		sum += ctl_parse_duration("DURATION", word);
		if (sum > CTL_MAX_NS)
			ctl_misuse("DURATION: the sum exceeds 36 years at '%s'", word);
		any = true;
	}
	if (!any)
		ctl_misuse("DURATION: missing");
	wait_delay(sum);
	return CTL_OK;
}

const struct ctl_command ctl_sleep = {
	.name = "sleep",
	.summary = "wait for a while",
	.help = "sleep DURATION...\n\n"
		"Wait for the sum of the DURATIONs, such as 90 (seconds), 1.5s, 200ms, 2m,\n"
		"1h30m. Never wait shorter; longer by up to a tick (1 ms), and the time that\n"
		"the machine takes. While the machine is suspended the time does not count.\n\n"
		"  -h, --help  print this help\n",
	.run = run_sleep,
};
