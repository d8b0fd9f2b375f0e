// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the state of wheels in debugfs, /sys/kernel/debug/hwtimer/<wheel>/.
 *
 *	stats	configuration, state, counters and the histogram of lateness,
 *		one "name value" per line
 *	buckets	"bucket <level> <slot> <timeouts filed>" for each bucket that is not empty
 *	pending	"timeout <level> <slot> <deadline> <function> <timeout>" for each pending
 *		timeout; after SHOWN_AT_ONCE of them, "more <level> <first slot> <last slot>
 *		<timeouts>" with the number of the others
 *
 * Nothing here changes a wheel. Counters are read while they change. The worker reads the
 * buckets for us, some of them at a time (wheel_survey()). Errors of debugfs are ignored.
 */
#include <linux/debugfs.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#include "../core/hwtimer_driver.h"
#include "../uapi/linux/hwtimer.h"

/* How many buckets the worker surveys at a time. */
#define BUCKETS_AT_ONCE	64
/* How many timeouts of these buckets are shown. */
#define SHOWN_AT_ONCE	4096

static struct dentry *root;

static int stats_show(struct seq_file *m, void *unused)
{
	static const char *const states[] = { "", "INIT", "STARTED", "SHUTDOWN" };
	static const char *const scheds[] = { "", "normal", "fifo_low", "fifo" };
	struct hwtimer_driven *driven = m->private;
	struct hwtimer_monitor *monitor = &driven->monitor;
	struct hwtimer_wheel_stats s;
	struct wheel_counts c;
	unsigned int i;

	hwtimer_stats_collect(driven, &s, &c);
	seq_printf(m, "name %s\n", s.name);
	seq_printf(m, "clock %s\n", s.clockid == CLOCK_BOOTTIME ? "boottime" : "monotonic");
	seq_printf(m, "worker_pid %d\n", s.worker_pid);
	seq_printf(m, "worker_sched %s\n", scheds[s.sched]);
	seq_printf(m, "worker_nice %d\n", s.worker_nice);
	seq_printf(m, "tick_ns %llu\n", s.tick_ns);
	seq_printf(m, "slots %u\n", s.slots);
	seq_printf(m, "levels %u\n", s.levels);
	seq_printf(m, "cap %llu\n", s.cap);
	seq_printf(m, "state %s\n", states[s.state]);
	seq_printf(m, "start_ns %llu\n", driven->start_ns);
	seq_printf(m, "now_ns %llu\n", hwtimer_clock_ns(driven));
	seq_printf(m, "pending %llu\n", s.pending);
	seq_printf(m, "filed %lu\n", READ_ONCE(driven->wheel.filed));
	seq_printf(m, "armed %llu\n", s.armed);
	seq_printf(m, "touched %llu\n", s.touched);
	seq_printf(m, "cancelled %llu\n", s.cancelled);
	seq_printf(m, "expired %llu\n", s.expired);
	seq_printf(m, "handed_back %llu\n", s.handed_back);
	seq_printf(m, "rejected %llu\n", s.rejected);
	seq_printf(m, "drained %lu\n", c.drained);
	seq_printf(m, "coalesced %lu\n", c.coalesced);
	seq_printf(m, "kicks %lu\n", c.kicks);
	seq_printf(m, "wakeups %llu\n", s.wakeups);
	seq_printf(m, "ticks %lu\n", c.ticks);
	seq_printf(m, "visits %lu\n", c.visits);
	seq_printf(m, "cascaded %lu\n", c.cascaded);
	seq_printf(m, "refiled %lu\n", c.refiled);
	seq_printf(m, "long_callbacks %llu\n", s.long_callbacks);
	seq_printf(m, "longest_callback_ns %llu\n", s.longest_callback_ns);
	spin_lock(&monitor->lock);
	seq_printf(m, "long_callback %s\n", *monitor->long_fn ? monitor->long_fn : "-");
	seq_printf(m, "longest_callback %s\n", *monitor->longest_fn ? monitor->longest_fn : "-");
	spin_unlock(&monitor->lock);
	seq_printf(m, "lateness_sum_ns %llu\n", s.lateness_sum_ns);
	for (i = 0; i < s.late_bins - 1; i++)
		seq_printf(m, "late_below_%lluus %llu\n",
			   div_u64(s.late_first_ns << i, NSEC_PER_USEC), s.late[i]);
	seq_printf(m, "late_above %llu\n", s.late[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

/* A record of the seq_file is BUCKETS_AT_ONCE buckets of a level. */
static unsigned int records_per_level(const struct hwtimer_wheel *wheel)
{
	return DIV_ROUND_UP(wheel->slots, BUCKETS_AT_ONCE);
}

static void *buckets_at(struct seq_file *m, loff_t pos)
{
	struct hwtimer_driven *driven = m->private;
	const struct hwtimer_wheel *wheel = &driven->wheel;
	u64 records = (u64)records_per_level(wheel) * wheel->levels;

	return pos < records ? (void *)(uintptr_t)(pos + 1) : NULL;
}

static void *buckets_start(struct seq_file *m, loff_t *pos)
{
	return buckets_at(m, *pos);
}

static void *buckets_next(struct seq_file *m, void *v, loff_t *pos)
{
	return buckets_at(m, ++*pos);
}

static void buckets_stop(struct seq_file *m, void *v)
{
}

static void count_filed(void *arg, unsigned int i, struct hwtimer_timeout *t, bool armed,
			u64 deadline)
{
	unsigned int *filed = arg;

	filed[i]++;
}

/* The buckets of record @v: their level, the first one, and (returned) how many. */
static unsigned int buckets_of(const struct hwtimer_wheel *wheel, const void *v,
			       unsigned int *level, unsigned int *first)
{
	unsigned int record = (uintptr_t)v - 1;

	*level = record / records_per_level(wheel);
	*first = record % records_per_level(wheel) * BUCKETS_AT_ONCE;
	return min(wheel->slots - *first, BUCKETS_AT_ONCE);
}

static int buckets_show(struct seq_file *m, void *v)
{
	struct hwtimer_driven *driven = m->private;
	struct hwtimer_wheel *wheel = &driven->wheel;
	unsigned int level, first, n = buckets_of(wheel, v, &level, &first), i;
	unsigned int filed[BUCKETS_AT_ONCE] = { };
	int ret;

	ret = wheel_survey(wheel, level, first, n, count_filed, filed);
	if (ret)
		return ret;
	for (i = 0; i < n; i++)
		if (filed[i])
			seq_printf(m, "bucket %u %u %u\n", level, first + i, filed[i]);
	return 0;
}

static const struct seq_operations buckets_sops = {
	.start	= buckets_start,
	.next	= buckets_next,
	.stop	= buckets_stop,
	.show	= buckets_show,
};
DEFINE_SEQ_ATTRIBUTE(buckets);

/**
 * struct shown - pending timeouts of some buckets
 * @n: length of @each
 * @all: how many are pending, including those that do not fit into @each
 * @start_ns: when the wheel started
 * @each: the timeouts. A timeout may be freed by now, so its address is printed but not
 *	dereferenced. deadline U64_MAX: it was touched to never, but is still in its old bucket
 */
struct shown {
	unsigned int	n;
	unsigned int	all;
	u64		start_ns;
	struct {
		unsigned int	bucket;
		u64		deadline;
		const void	*fn;
		const void	*timeout;
	} each[SHOWN_AT_ONCE];
};

static void note_pending(void *arg, unsigned int i, struct hwtimer_timeout *t, bool armed,
			 u64 deadline)
{
	struct shown *s = arg;

	if (!armed)
		return;
	s->all++;
	if (s->n == SHOWN_AT_ONCE)
		return;
	s->each[s->n].bucket = i;
	s->each[s->n].deadline = deadline == WHEEL_HORIZON ? U64_MAX : deadline + s->start_ns;
	s->each[s->n].fn = hwtimer_owner_fn(t, READ_ONCE(t->fn));
	s->each[s->n++].timeout = t;
}

static int pending_show(struct seq_file *m, void *v)
{
	struct hwtimer_driven *driven = m->private;
	struct hwtimer_wheel *wheel = &driven->wheel;
	unsigned int level, first, n = buckets_of(wheel, v, &level, &first), i;
	struct shown *s;
	int ret;

	s = kvmalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return -ENOMEM;
	s->n = 0;
	s->all = 0;
	s->start_ns = driven->start_ns;
	ret = wheel_survey(wheel, level, first, n, note_pending, s);
	for (i = 0; !ret && i < s->n; i++)
		seq_printf(m, "timeout %u %u %llu %ps %p\n", level, first + s->each[i].bucket,
			   s->each[i].deadline, s->each[i].fn, s->each[i].timeout);
	if (!ret && s->all > s->n)
		seq_printf(m, "more %u %u %u %u\n", level, first, first + n - 1, s->all - s->n);
	kvfree(s);
	return ret;
}

static const struct seq_operations pending_sops = {
	.start	= buckets_start,
	.next	= buckets_next,
	.stop	= buckets_stop,
	.show	= pending_show,
};
DEFINE_SEQ_ATTRIBUTE(pending);

/**
 * hwtimer_debugfs_add - create the files of a wheel
 * @driven: the wheel and its worker
 */
void hwtimer_debugfs_add(struct hwtimer_driven *driven)
{
	driven->debugfs = debugfs_create_dir(driven->name, root);
	debugfs_create_file("stats", 0444, driven->debugfs, driven, &stats_fops);
	debugfs_create_file("buckets", 0444, driven->debugfs, driven, &buckets_fops);
	debugfs_create_file("pending", 0400, driven->debugfs, driven, &pending_fops);
}

/**
 * hwtimer_debugfs_remove - remove the files of a wheel, and wait for readers
 * @driven: the wheel and its worker
 */
void hwtimer_debugfs_remove(struct hwtimer_driven *driven)
{
	debugfs_remove(driven->debugfs);
}

/**
 * hwtimer_debugfs_init - create the directory of all wheels
 */
void __init hwtimer_debugfs_init(void)
{
	root = debugfs_create_dir("hwtimer", NULL);
}

/**
 * hwtimer_debugfs_exit - remove the directory of all wheels
 */
void hwtimer_debugfs_exit(void)
{
	debugfs_remove(root);
}
