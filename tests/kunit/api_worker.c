// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: cases of KUnit suite hwtimer_api: statistics of the worker, and debugfs.
 */
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "hwtimer_kunit.h"
#include "api.h"

/* Is @line in the debugfs file "stats" of @wheel? */
static bool shown(struct kunit *test, struct hwtimer_wheel *wheel, const char *line)
{
	char *path = kunit_kzalloc(test, PATH_MAX, GFP_KERNEL);
	struct seq_file *m;
	struct file *f;
	bool found;

	need_files(test);
	KUNIT_ASSERT_NOT_NULL(test, path);
	snprintf(path, PATH_MAX, "/sys/kernel/debug/hwtimer/%s/stats", to_driven(wheel)->name);
	f = filp_open(path, O_RDONLY, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, f);
	/* Not by read(), which wants user memory. Closing the file frees the buffer. */
	m = f->private_data;
	m->size = SZ_64K;
	m->buf = kvzalloc(m->size, GFP_KERNEL);
	found = m->buf && !m->op->show(m, NULL) && strnstr(m->buf, line, m->count);
	filp_close(f, NULL);
	/* It may be the last one before the module is unloaded. */
	flush_delayed_fput();
	return found;
}

void scheduling(struct kunit *test)
{
	static const struct {
		enum hwtimer_sched sched;
		int nice, policy, prio;
		const char *shown;
	} as[] = {
		{ HWTIMER_SCHED_NORMAL, 0, SCHED_NORMAL, 0, "\nworker_sched normal\n" },
		{ HWTIMER_SCHED_NORMAL, -7, SCHED_NORMAL, 0, "\nworker_nice -7\n" },
		{ HWTIMER_SCHED_NORMAL, 19, SCHED_NORMAL, 0, "\nworker_nice 19\n" },
		{ HWTIMER_SCHED_FIFO_LOW, 0, SCHED_FIFO, 1, "\nworker_sched fifo_low\n" },
		{ HWTIMER_SCHED_FIFO, 0, SCHED_FIFO, MAX_RT_PRIO / 2,
		  "\nworker_sched fifo\n" },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(as); i++) {
		struct hwtimer_wheel_params params = {
			.name = "kunit", .tick_ns = TICK, .slots = SLOTS,
			.clock = ((const struct mode *)test->param_value)->clock,
			.sched = as[i].sched, .nice = as[i].nice, .cpus = cpumask_of(0),
		};
		struct hwtimer_wheel *wheel = keep(test, hwtimer_wheel_create(&params));
		struct task_struct *task = to_driven(wheel)->task;

		nap(10 * MS);
		KUNIT_EXPECT_EQ(test, as[i].policy, task->policy);
		KUNIT_EXPECT_EQ(test, as[i].prio, task->rt_priority);
		if (as[i].policy == SCHED_NORMAL)
			KUNIT_EXPECT_EQ(test, as[i].nice, task_nice(task));
		KUNIT_EXPECT_TRUE(test, cpumask_equal(task->cpus_ptr, cpumask_of(0)));
		KUNIT_EXPECT_TRUE(test, shown(test, wheel, as[i].shown));
	}
}

/* What happens to timeouts is shown on the line of its name: each so often as nothing else. */
void shows_counters(struct kunit *test)
{
	static const char *const lines[] = {
		"\npending 0\n", "\narmed 8\n", "\ntouched 2\n", "\ncancelled 3\n",
		"\nexpired 1\n", "\nhanded_back 4\n", "\nrejected 5\n",
	};
	struct hwtimer_wheel *wheel = make(test, TICK, SLOTS, 7);
	struct job *j = jobs(test, wheel, 8);
	unsigned int i;

	hwtimer_schedule(&j[0].t, 0);
	nap(SEC);
	for (i = 0; i < 7; i++)
		hwtimer_schedule(&j[i].t, 100 * SEC);
	for (i = 0; i < 5; i++)
		KUNIT_EXPECT_EQ(test, -EAGAIN, hwtimer_schedule(&j[7].t, 0));
	for (i = 0; i < 2; i++)
		hwtimer_touch(&j[i].t, 200 * SEC);
	for (i = 0; i < 3; i++)
		hwtimer_cancel(&j[i].t);
	KUNIT_EXPECT_TRUE(test, shown(test, wheel, "\npending 4\n"));
	KUNIT_EXPECT_EQ(test, 0, hwtimer_wheel_stop(wheel, NULL));
	for (i = 0; i < ARRAY_SIZE(lines); i++)
		KUNIT_EXPECT_TRUE_MSG(test, shown(test, wheel, lines[i]), "%s", lines[i]);
}

static noinline void slow_fired(struct hwtimer_timeout *t)
{
	nap(container_of(t, struct job, t)->delay);
}

void slow_callback(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct hwtimer_monitor *m = &to_driven(wheel)->monitor;
	struct job *j = jobs(test, wheel, 3);
	unsigned long late = 0;
	unsigned int i;

	/* the limit is 10 ms */
	hwtimer_schedule(&j[0].t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 0UL, m->long_callbacks);
	hwtimer_init(&j[1].t, wheel, slow_fired);
	j[1].delay = 9 * MS;
	hwtimer_schedule(&j[1].t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 0UL, m->long_callbacks);
	j[1].delay = 12 * MS;
	hwtimer_schedule(&j[1].t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1UL, m->long_callbacks);
	KUNIT_EXPECT_GE(test, m->longest_ns, 12ULL * MS);
	KUNIT_EXPECT_LT(test, m->longest_ns, 13ULL * MS);
	KUNIT_EXPECT_EQ(test, 0, strncmp(m->longest_fn, "slow_fired", 10));
	/* above the limit, but not the longest */
	j[2].then = then_nap;
	j[2].delay = 11 * MS;
	hwtimer_schedule(&j[2].t, 0);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 2UL, m->long_callbacks);
	KUNIT_EXPECT_EQ(test, 0, strncmp(m->longest_fn, "slow_fired", 10));
	for (i = 0; i < HWTIMER_LATE_BINS; i++)
		late += local_read(&m->late[i]);
	KUNIT_EXPECT_EQ(test, 4UL, late);
	KUNIT_EXPECT_EQ(test, 4UL, counts(wheel).expired);
}

/* Callbacks of one tick: lateness and duration are measured for each. */
void callbacks_in_row(struct kunit *test)
{
	struct hwtimer_wheel *wheel = a_wheel(test);
	struct hwtimer_monitor *m = &to_driven(wheel)->monitor;
	struct job *j = jobs(test, wheel, 6);
	u64 now = hwtimer_wheel_now(wheel);
	unsigned long late = 0;
	unsigned int i;

	hwtimer_init(&j[0].t, wheel, slow_fired);
	j[0].delay = 200 * MS;
	j[2].then = then_nap;
	j[2].delay = 5 * MS;
	for (i = 0; i < 6; i++)
		hwtimer_schedule_at(&j[i].t, now + 100 * MS);
	/* in the middle one that is filed again, and one that is dropped */
	nap(50 * MS);
	hwtimer_touch_at(&j[3].t, now + 2 * SEC);
	hwtimer_cancel(&j[4].t);
	nap(600 * MS);
	KUNIT_EXPECT_EQ(test, 1UL, m->long_callbacks);
	KUNIT_EXPECT_GE(test, m->longest_ns, 200ULL * MS);
	KUNIT_EXPECT_LT(test, m->longest_ns, 201ULL * MS);
	KUNIT_EXPECT_EQ(test, 0, strncmp(m->longest_fn, "slow_fired", 10));
	/* j[0] delayed 1, 2 and 5 by 200 ms, and j[2] delayed 5 as well: a bin of 131 to 262 ms */
	KUNIT_EXPECT_EQ(test, 3L, local_read(&m->late[18]));
	for (i = 0; i < HWTIMER_LATE_BINS; i++)
		late += local_read(&m->late[i]);
	KUNIT_EXPECT_EQ(test, 4UL, late);
	KUNIT_EXPECT_EQ(test, 4UL, counts(wheel).expired);
	/* together 3 * 200 ms and 5 ms, and up to a tick each */
	KUNIT_EXPECT_GE(test, local64_read(&m->lateness_ns), 605LL * MS);
	KUNIT_EXPECT_LT(test, local64_read(&m->lateness_ns), 606LL * MS + 4 * TICK);
	/* a later tick is on time */
	nap(2 * SEC);
	KUNIT_EXPECT_EQ(test, 3L, local_read(&m->late[18]));
	KUNIT_EXPECT_EQ(test, 1UL, j[3].fired);
}

