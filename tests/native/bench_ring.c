// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the case of the native benchmark that measures libhwtimer with rings: the library, the
 * kernel's part that takes submissions, and the wheel's worker, all on one core. System calls are
 * function calls here.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "libhwtimer.h"

enum op { FILL, ARM, CANCEL, ARM_CANCEL, TOUCH_LATER, OPS };

static const char *const names[] = { "", "arm", "cancel", "arm_cancel", "touch_later" };

static struct hwtimer *h;
static hwtimer_id *ids;

static void check(int ret)
{
	if (ret) {
		fprintf(stderr, "bench: libhwtimer: %s\n", strerror(-ret));
		exit(1);
	}
}

static void run(enum op op, unsigned long i, unsigned long end)
{
	__u64 now = hwtimer_now(h) + (op == TOUCH_LATER ? 4000000000ULL : 0);
	int ret = 0;
	__u32 n;

	for (; i < end; i++) {
		n = op == FILL ? i : order[i];
		if (op == FILL || op == ARM || op == ARM_CANCEL)
			ret |= hwtimer_schedule_at(h, now + delays_ns[n % DELAYS], n, &ids[n]);
		if (op == CANCEL || op == ARM_CANCEL)
			ret |= hwtimer_cancel(h, ids[n]);
		if (op == TOUCH_LATER)
			ret |= hwtimer_touch_at(h, ids[n], now + delays_ns[n % DELAYS]);
	}
	check(ret);
}

/* For each operation, the time of the library, and of everything. */
struct figures {
	struct samples	lib[OPS], all[OPS];
};

static void measure(enum op op, unsigned long first, unsigned long n, struct figures *f)
{
	unsigned long i, end = first + n, portion;
	__u64 start, ns;

	for (i = first; i < end; i += portion) {
		portion = end - i < PORTION ? end - i : PORTION;
		start = now_ns();
		run(op, i, i + portion);
		ns = now_ns() - start;
		if (f)
			sample(&f->lib[op], ns, portion);
		/* The kernel takes what was submitted. */
		start = now_ns();
		check(hwtimer_flush(h));
		ns += now_ns() - start + settle_shared();
		if (f)
			sample(&f->all[op], ns, portion);
	}
}

static long resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (!file || fscanf(file, "%*u %ld", &pages) != 1)
		check(-EIO);
	fclose(file);
	/* Each page of the kernel's has one of malloc() in front of it that stays free. */
	return pages * sysconf(_SC_PAGESIZE) - (long)mallinfo2().fordblks;
}

/*
 * Like steady_turn(). ARM_CANCEL takes the same slot each time. Returns how many bytes a timeout
 * takes in the library and the kernel together; it is right in the first turn of the program.
 */
static double turn(struct figures *f)
{
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = HWTIMER_OPEN_RINGS, .timeouts = pending + idle + 1,
	};
	long before = resident();
	double bytes;

	check(hwtimer_open(&h, &o));
	measure(FILL, 0, pending + idle, NULL);
	bytes = (double)(resident() - before) / (pending + idle);
	measure(CANCEL, pending, idle, f);
	measure(ARM, pending, idle, f);
	measure(TOUCH_LATER, 0, idle, f);
	measure(CANCEL, pending, idle, NULL);
	measure(ARM_CANCEL, pending, idle, f);
	hwtimer_close(h);
	settle_shared();
	return bytes;
}

void ring(unsigned int round)
{
	static struct figures f;
	static double bytes;
	char name[32];
	unsigned int i;

	if (!ids)
		ids = large_pages((pending + idle) * sizeof(*ids));
	memset(&f, 0, sizeof(f));
	if (!bytes)
		bytes = turn(&f);
	result("library", "size", 1, round, bytes, "bytes");
	memset(&f, 0, sizeof(f));
	for (i = 0; i < (IDLE / pending / 5 ?: 1); i++)
		turn(&f);
	for (i = ARM; i < OPS; i++) {
		result("library", names[i], 1, round, median(&f.lib[i]), "ns");
		snprintf(name, sizeof(name), "%s+worker", names[i]);
		result("library", name, 1, round, median(&f.all[i]), "ns");
	}
}
