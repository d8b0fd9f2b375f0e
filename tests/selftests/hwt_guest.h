/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Run cases of the module hwtimer_guest (tests/guest), which is in $MODULES or /modules.
 */
#ifndef HWT_GUEST_H
#define HWT_GUEST_H

#include "hwt.h"

#define GUEST	"hwtimer_guest"

/* Print the module's messages since @kmsg was opened, as comments. */
static inline void show_guest(int kmsg)
{
	char record[8192], *text;
	ssize_t len;

	while ((len = read(kmsg, record, sizeof(record) - 1)) > 0 || errno == EPIPE) {
		if (len <= 0)
			continue;
		record[len] = 0;
		text = strchr(record, ';');
		if (!text || strncmp(text + 1, GUEST ":", strlen(GUEST ":")))
			continue;
		text[strcspn(text, "\n")] = 0;
		printf("# %s\n", text + 1);
	}
	fflush(stdout);
}

/* Returns 0, or the error of insmod. @more has parameters of the case. */
static inline int run_guest(const char *name, const char *clock, const char *more)
{
	int kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC), ret, left;
	char line[256];

	if (kmsg < 0 || lseek(kmsg, 0, SEEK_END) < 0)
		die("/dev/kmsg: %s", strerror(errno));
	snprintf(line, sizeof(line), "case=%s clock=%s %s", name, clock, more);
	ret = load(GUEST, line);
	show_guest(kmsg);
	close(kmsg);
	if (ret)
		return ret;
	left = unload(GUEST);
	if (left)
		die("cannot unload " GUEST ": %s", strerror(-left));
	return 0;
}

#endif /* HWT_GUEST_H */
