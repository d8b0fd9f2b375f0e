// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl bench: the cost of operations on this machine, by rings and by ioctl, and the lateness
 * of timeouts.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

#define LATE_TIMEOUTS	1000
/* So far that none expires while its cost is measured. */
#define FAR		(3600 * NSEC_PER_SEC)

enum { ARM, TOUCH_LATER, TOUCH_EARLIER, CANCEL, OPERATIONS };

static const struct { const char *title, *key; } operations[OPERATIONS] = {
	[ARM] = { "arm", "arm_ns" },
	[TOUCH_LATER] = { "touch, later", "touch_ns" },
	[TOUCH_EARLIER] = { "touch, earlier", "touch_earlier_ns" },
	[CANCEL] = { "cancel", "cancel_ns" },
};

static const struct { const char *title, *key; unsigned int permille; } ranks[] = {
	{ "half of them below", "late_p50_ns", 500 },
	{ "99 of 100 below", "late_p99_ns", 990 },
	{ "the most", "late_max_ns", 1000 },
};

/* One of the two interfaces. */
struct side {
	unsigned int flags;
	bool there;
	double ns[OPERATIONS];
	uint64_t late_ns[ARRAY_SIZE(ranks)];
};

static void check(int ret, const char *what)
{
	if (ret < 0)
		ctl_device_error(what, ret);
}

static int one(struct hwtimer *h, int operation, hwtimer_id *id, uint64_t i)
{
	switch (operation) {
	case ARM:
		return hwtimer_schedule(h, FAR + i * NSEC_PER_USEC, i, id);
	case TOUCH_LATER:
		return hwtimer_touch(h, *id, 2 * FAR + i * NSEC_PER_USEC);
	case TOUCH_EARLIER:
		return hwtimer_touch(h, *id, FAR / 2 + i * NSEC_PER_USEC);
	default:
		return hwtimer_cancel(h, *id);
	}
}

/* Each operation for @n timeouts, until the kernel has taken the last submission. */
static void measure(struct hwtimer *h, hwtimer_id *ids, uint64_t n, uint64_t ns[OPERATIONS])
{
	uint64_t began, i;
	int operation;

	for (operation = 0; operation < OPERATIONS; operation++) {
		began = ctl_clock(CLOCK_MONOTONIC);
		for (i = 0; i < n; i++)
			check(one(h, operation, &ids[i], i), operations[operation].title);
		check(hwtimer_flush(h), "flush");
		ns[operation] += ctl_clock(CLOCK_MONOTONIC) - began;
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The lateness of LATE_TIMEOUTS timeouts within about a second. */
static void measure_late(struct hwtimer *h, struct side *side)
{
	static uint64_t late[LATE_TIMEOUTS];
	struct hwtimer_event event;
	unsigned int i, n = 0;
	hwtimer_id id;
	int ret;

	/* Steps that are no divisor of the tick, so that deadlines fall all over it. */
	for (i = 0; i < LATE_TIMEOUTS; i++)
		check(hwtimer_schedule(h, 10 * NSEC_PER_MSEC + i * 1000037ULL, i, &id),
		      "schedule");
	while (n < LATE_TIMEOUTS) {
		ret = hwtimer_wait(h, &event, 1, -1);
		if (ret == -EINTR || !ret)
			continue;
		check(ret, "wait");
		if (event.fired_ns < event.deadline_ns)
			ctl_die(CTL_FAILED, "a timeout expired early, which must never happen");
		late[n++] = event.fired_ns - event.deadline_ns;
	}
	qsort(late, n, sizeof(*late), by_size);
	for (i = 0; i < ARRAY_SIZE(ranks); i++)
		side->late_ns[i] = late[(n - 1) * ranks[i].permille / 1000];
}

/* Returns NULL if the kernel lacks this interface. */
static struct hwtimer *open_side(const struct side *side, const char *device, uint64_t timeouts)
{
	struct hwtimer_options options = {
		.size = sizeof(options), .flags = side->flags, .device = device,
		.timeouts = timeouts,
	};
	struct hwtimer *h;

	if (side->flags & HWTIMER_OPEN_RINGS) {
		/* ctl_open() below reports other errors. */
		if (hwtimer_open(&h, &options) == -EOPNOTSUPP)
			return NULL;
		hwtimer_close(h);
	}
	return ctl_open(&options);
}

/* Before run_operations(), whose contexts are cleaned up in the background. */
static void run_late(struct side *side, const char *device)
{
	struct hwtimer *h = open_side(side, device, LATE_TIMEOUTS);

	side->there = h;
	if (h)
		measure_late(h, side);
	hwtimer_close(h);
}

static void run_operations(struct side *side, const char *device, uint64_t timeouts,
			   uint64_t ops)
{
	uint64_t ns[OPERATIONS] = { 0 }, done, n;
	struct hwtimer *h;
	hwtimer_id *ids;
	int i;

	if (!side->there)
		return;
	h = open_side(side, device, timeouts);
	ids = ctl_alloc(timeouts, sizeof(*ids));
	for (done = 0; done < ops; done += n) {
		n = ops - done < timeouts ? ops - done : timeouts;
		measure(h, ids, n, ns);
	}
	for (i = 0; i < OPERATIONS; i++)
		side->ns[i] = (double)ns[i] / ops;
	hwtimer_close(h);
	free(ids);
}

/* The processor, and whether the machine is virtual. */
static const char *processor(char *text, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	bool guest = false, named = false;
	char line[4096], *value;

	snprintf(text, size, "unknown");
	while (file && fgets(line, sizeof(line), file)) {
		value = strchr(line, ':');
		if (!value)
			continue;
		value += strspn(value, ": \t");
		value[strcspn(value, "\n")] = 0;
		if (!named && !strncmp(line, "model name", 10)) {
			snprintf(text, size, "%s", value);
			named = true;
		}
		if (!strncmp(line, "flags", 5) && strstr(value, " hypervisor"))
			guest = true;
	}
	if (file)
		fclose(file);
	if (guest)
		snprintf(text + strlen(text), size - strlen(text), ", in a virtual machine");
	return text;
}

static void json_side(const char *key, const struct side *side)
{
	unsigned int i;

	if (!side->there) {
		ctl_json_null(key);
		return;
	}
	ctl_json_open(key, '{');
	for (i = 0; i < OPERATIONS; i++)
		ctl_json_real(operations[i].key, side->ns[i]);
	for (i = 0; i < ARRAY_SIZE(ranks); i++)
		ctl_json_number(ranks[i].key, side->late_ns[i]);
	ctl_json_close('}');
}

static void print_cell(bool there, double value)
{
	if (there)
		printf(" %12.1f", value);
	else
		printf(" %12s", "-");
}

static void print_sides(const struct side *rings, const struct side *ioctls)
{
	unsigned int i;

	printf("\n%-28s %12s %12s\n", "ns for each", "rings", "ioctl");
	for (i = 0; i < OPERATIONS; i++) {
		printf("%-28s", operations[i].title);
		print_cell(rings->there, rings->ns[i]);
		print_cell(ioctls->there, ioctls->ns[i]);
		putchar('\n');
	}
	printf("\n%-28s %12s %12s\n", "us late, of 1000 timeouts", "rings", "ioctl");
	for (i = 0; i < ARRAY_SIZE(ranks); i++) {
		printf("%-28s", ranks[i].title);
		print_cell(rings->there, rings->late_ns[i] / 1e3);
		print_cell(ioctls->there, ioctls->late_ns[i] / 1e3);
		putchar('\n');
	}
	if (!rings->there)
		puts("\nThis kernel has no rings.");
	puts("\nlibhwtimer submits a touch to a later time only at the old deadline.");
	puts("\nThis is a single run on this machine, beside its other work.");
}

static int run_bench(struct ctl_args *args)
{
	uint64_t timeouts = 10000, ops = 200000, tick_ns;
	struct side rings = { .flags = HWTIMER_OPEN_RINGS };
	struct side ioctls = { .flags = HWTIMER_OPEN_NO_RINGS };
	const char *word, *device = NULL;
	bool json = false;
	const struct ctl_option options[] = {
		{ "timeouts", 0, CTL_NUMBER, &timeouts, 1, 1 << 24 },
		{ "ops", 0, CTL_NUMBER, &ops, 1, 1000000000 },
		{ "json", 0, CTL_FLAG, &json, 0, 0 },
		{ "device", 0, CTL_TEXT, &device, 0, 0 },
	};
	struct utsname uts;
	struct hwtimer *h;
	char cpu[256];
	long cpus;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	word = ctl_next_word(args);
	if (word)
		ctl_misuse("unexpected argument: '%s'", word);
	h = ctl_open_one(device);
	tick_ns = hwtimer_tick_ns(h);
	hwtimer_close(h);
	uname(&uts);
	processor(cpu, sizeof(cpu));
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	run_late(&rings, device);
	run_late(&ioctls, device);
	run_operations(&rings, device, timeouts, ops);
	run_operations(&ioctls, device, timeouts, ops);

	if (json) {
		ctl_json_open(NULL, '{');
		ctl_json_text("machine", cpu);
		ctl_json_number("cpus", cpus);
		ctl_json_text("kernel", uts.release);
		ctl_json_number("tick_ns", tick_ns);
		ctl_json_number("timeouts", timeouts);
		ctl_json_number("ops", ops);
		ctl_json_number("late_timeouts", LATE_TIMEOUTS);
		json_side("rings", &rings);
		json_side("ioctl", &ioctls);
		ctl_json_close('}');
		ctl_json_end();
		return CTL_OK;
	}
	printf("machine:  %s, CPUs: %ld\n", cpu, cpus);
	printf("kernel:   %s %s\n", uts.sysname, uts.release);
	printf("timeouts: %" PRIu64 " at a time, %" PRIu64 " operations of each kind\n",
	       timeouts, ops);
	fputs("tick:     ", stdout);
	ctl_print_ns(stdout, tick_ns);
	putchar('\n');
	print_sides(&rings, &ioctls);
	return CTL_OK;
}

const struct ctl_command ctl_bench = {
	.name = "bench",
	.summary = "the cost of operations on this machine",
	.help = "bench [--timeouts=N] [--ops=N] [--json] [--device PATH]\n\n"
		"Measure the ns per arm, touch and cancel, by rings and by ioctl, on a shared\n"
		"wheel, and the lateness of 1000 timeouts. This is a single run, beside the\n"
		"machine's other work.\n\n"
		"  --timeouts=N   timeouts at a time (default: 10000)\n"
		"  --ops=N        operations of each kind (default: 200000)\n"
		"  --json         a JSON object; without rings: \"rings\": null\n"
		"  --device PATH  the device (default: " CTL_DEVICE ")\n"
		"  -h, --help     print this help\n",
	.run = run_bench,
};
