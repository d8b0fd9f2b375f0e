// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl bench: the cost of operations on this machine, on the device, in the process and by
 * timerfd, and the lateness of timeouts.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

#define LATE_TIMEOUTS	1000
/* A process may have 1024 descriptors, unless somebody has raised that. */
#define TIMERFDS	500
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

/* What is measured. */
static struct side {
	const char *name;
	unsigned int flags;	/* of the handle; 0: timerfd */
	bool there;
	double ns[OPERATIONS];
	uint64_t late_ns[ARRAY_SIZE(ranks)];
} sides[] = {
	{ .name = "device", .flags = HWTIMER_OPEN_DEVICE },
	{ .name = "process", .flags = HWTIMER_OPEN_PROCESS },
	{ .name = "timerfd", .there = true },
};

static void check(int ret, const char *what)
{
	if (ret < 0)
		ctl_failed(-ret, what);
}

/* 0 or -errno. A time of 0 disarms it. */
static int timerfd_set(int fd, int flags, uint64_t ns)
{
	struct itimerspec its = { .it_value = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC } };

	return timerfd_settime(fd, flags, &its, NULL) ? -errno : 0;
}

static int must_timerfd(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (fd < 0)
		ctl_failed(errno, "timerfd_create");
	return fd;
}

/* A handle with timeouts, or timerfds. */
struct subject {
	struct hwtimer *h;
	hwtimer_id *ids;
	int fds[TIMERFDS];
};

static int operate(struct subject *s, int operation, uint64_t i)
{
	static const uint64_t delays[OPERATIONS] = {
		[ARM] = FAR, [TOUCH_LATER] = 2 * FAR, [TOUCH_EARLIER] = FAR / 2,
	};
	uint64_t delay_ns = delays[operation] + i * NSEC_PER_USEC;

	if (!s->h)
		return timerfd_set(s->fds[i], 0, operation == CANCEL ? 0 : delay_ns);
	if (operation == ARM)
		return hwtimer_schedule(s->h, delay_ns, i, &s->ids[i]);
	if (operation == CANCEL)
		return hwtimer_cancel(s->h, s->ids[i]);
	return hwtimer_touch(s->h, s->ids[i], delay_ns);
}

/* Each operation for @n timeouts. */
static void measure(struct subject *s, uint64_t n, uint64_t ns[OPERATIONS])
{
	uint64_t began, i;
	int operation;

	for (operation = 0; operation < OPERATIONS; operation++) {
		began = ctl_clock(CLOCK_MONOTONIC);
		for (i = 0; i < n; i++)
			check(operate(s, operation, i), operations[operation].title);
		ns[operation] += ctl_clock(CLOCK_MONOTONIC) - began;
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Steps that are no divisor of the tick, so that deadlines fall all over it. */
static uint64_t late_delay(unsigned int i)
{
	return 10 * NSEC_PER_MSEC + i * 1000037ULL;
}

static void late_of_handle(struct hwtimer *h, uint64_t *late)
{
	struct hwtimer_event event;
	unsigned int i, n = 0;
	int ret;

	for (i = 0; i < LATE_TIMEOUTS; i++)
		check(hwtimer_schedule(h, late_delay(i), i, NULL), "schedule");
	while (n < LATE_TIMEOUTS) {
		ret = hwtimer_wait(h, &event, -1);
		if (ret == -EINTR)
			continue;
		check(ret, "wait");
		late[n++] = event.taken_ns - event.deadline_ns;
	}
}

static void late_of_timerfd(uint64_t *late)
{
	uint64_t began = ctl_clock(CLOCK_MONOTONIC), deadline, count;
	int fd = must_timerfd();
	unsigned int i;

	for (i = 0; i < LATE_TIMEOUTS; i++) {
		deadline = began + late_delay(i);
		check(timerfd_set(fd, TFD_TIMER_ABSTIME, deadline), "timerfd");
		while (read(fd, &count, sizeof(count)) < 0)
			check(errno == EINTR ? 0 : -errno, "timerfd");
		late[i] = ctl_clock(CLOCK_MONOTONIC) - deadline;
	}
	close(fd);
}

static struct hwtimer *open_side(struct side *side, uint64_t timeouts)
{
	struct hwtimer_options options = {
		.size = sizeof(options), .flags = side->flags, .timeouts = timeouts,
	};
	struct hwtimer *h;
	int ret = hwtimer_open(&h, &options);

	side->there = !ret;
	if (ret && side->flags & HWTIMER_OPEN_PROCESS)
		check(ret, "cannot open a handle");
	return h;
}

/* The lateness of LATE_TIMEOUTS timeouts within about a second. */
static void run_late(struct side *side)
{
	static uint64_t late[LATE_TIMEOUTS];
	struct hwtimer *h = side->flags ? open_side(side, LATE_TIMEOUTS) : NULL;
	unsigned int i;

	if (!side->there)
		return;
	if (h)
		late_of_handle(h, late);
	else
		late_of_timerfd(late);
	hwtimer_close(h);
	qsort(late, LATE_TIMEOUTS, sizeof(*late), by_size);
	for (i = 0; i < ARRAY_SIZE(ranks); i++)
		side->late_ns[i] = late[(LATE_TIMEOUTS - 1) * ranks[i].permille / 1000];
}

static void run_operations(struct side *side, uint64_t timeouts, uint64_t ops)
{
	struct subject s = { .h = side->flags ? open_side(side, timeouts) : NULL };
	uint64_t ns[OPERATIONS] = { 0 }, done, n;
	unsigned int i;

	if (!side->there)
		return;
	s.ids = ctl_alloc(timeouts, sizeof(*s.ids));
	if (!s.h && timeouts > TIMERFDS)
		timeouts = TIMERFDS;
	for (i = 0; !s.h && i < timeouts; i++)
		s.fds[i] = must_timerfd();
	for (done = 0; done < ops; done += n) {
		n = ops - done < timeouts ? ops - done : timeouts;
		measure(&s, n, ns);
	}
	for (i = 0; i < OPERATIONS; i++)
		side->ns[i] = (double)ns[i] / ops;
	for (i = 0; !s.h && i < timeouts; i++)
		close(s.fds[i]);
	hwtimer_close(s.h);
	free(s.ids);
}

static void json_side(const struct side *side)
{
	unsigned int i;

	if (!side->there) {
		ctl_json_null(side->name);
		return;
	}
	ctl_json_open(side->name, '{');
	for (i = 0; i < OPERATIONS; i++)
		ctl_json_real(operations[i].key, side->ns[i]);
	for (i = 0; i < ARRAY_SIZE(ranks); i++)
		ctl_json_number(ranks[i].key, side->late_ns[i]);
	ctl_json_close('}');
}

static void print_titles(const char *what)
{
	unsigned int i;

	printf("\n%-28s", what);
	for (i = 0; i < ARRAY_SIZE(sides); i++)
		printf(" %12s", sides[i].name);
	putchar('\n');
}

static void print_cell(bool there, double value)
{
	if (there)
		printf(" %12.1f", value);
	else
		printf(" %12s", "-");
}

static void print_sides(void)
{
	unsigned int i, k;

	print_titles("ns for each");
	for (i = 0; i < OPERATIONS; i++) {
		printf("%-28s", operations[i].title);
		for (k = 0; k < ARRAY_SIZE(sides); k++)
			print_cell(sides[k].there, sides[k].ns[i]);
		putchar('\n');
	}
	print_titles("us late, of 1000 timeouts");
	for (i = 0; i < ARRAY_SIZE(ranks); i++) {
		printf("%-28s", ranks[i].title);
		for (k = 0; k < ARRAY_SIZE(sides); k++)
			print_cell(sides[k].there, sides[k].late_ns[i] / 1e3);
		putchar('\n');
	}
	if (!sides[0].there)
		puts("\nThere is no device, or not for this user.");
	puts("\nThis is a single run on this machine, beside its other work.");
}

static int run_bench(struct ctl_args *args)
{
	uint64_t timeouts = 10000, ops = 200000, tick_ns;
	bool json = false;
	const struct ctl_option options[] = {
		{ "timeouts", 0, CTL_NUMBER, &timeouts, 1, HWTIMER_FREE_SLOTS },
		{ "ops", 0, CTL_NUMBER, &ops, 1, 1000000000 },
		{ "json", 0, CTL_FLAG, &json, 0, 0 },
	};
	struct hwtimer *h;
	const char *word;
	unsigned int i;

	args->options = options;
	args->n_options = ARRAY_SIZE(options);
	word = ctl_next_word(args);
	if (word)
		ctl_misuse("unexpected argument: '%s'", word);
	h = ctl_open();
	tick_ns = hwtimer_tick_ns(h);
	hwtimer_close(h);
	for (i = 0; i < ARRAY_SIZE(sides); i++)
		run_late(&sides[i]);
	for (i = 0; i < ARRAY_SIZE(sides); i++)
		run_operations(&sides[i], timeouts, ops);

	if (json) {
		ctl_json_open(NULL, '{');
		ctl_json_number("tick_ns", tick_ns);
		ctl_json_number("timeouts", timeouts);
		ctl_json_number("ops", ops);
		ctl_json_number("late_timeouts", LATE_TIMEOUTS);
		for (i = 0; i < ARRAY_SIZE(sides); i++)
			json_side(&sides[i]);
		ctl_json_close('}');
		ctl_json_end();
		return CTL_OK;
	}
	printf("timeouts: %" PRIu64 " at a time, %" PRIu64 " operations of each kind\n",
	       timeouts, ops);
	fputs("tick:     ", stdout);
	ctl_print_ns(stdout, tick_ns);
	putchar('\n');
	print_sides();
	return CTL_OK;
}

const struct ctl_command ctl_bench = {
	.name = "bench",
	.summary = "the cost of operations on this machine",
	.help = "bench [--timeouts=N] [--ops=N] [--json]\n\n"
		"Measure the ns per arm, touch and cancel, and the lateness of 1000 timeouts,\n"
		"on the device, in the process and by timerfds, of which there are up to 500.\n"
		"This is a single run, beside the machine's other work.\n\n"
		"  --timeouts=N  timeouts at a time (default: 10000)\n"
		"  --ops=N       operations of each kind (default: 200000)\n"
		"  --json        a JSON object; without the device: \"device\": null\n"
		"  -h, --help    print this help\n",
	.run = run_bench,
};
