// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the state of wheels in debugfs, /sys/kernel/debug/hwtimer/<wheel>/.
 *
 *	stats	configuration, state, counters and the histogram of lateness,
 *		one "name value" per line
 *	pending	"timeout <level> <slot> <deadline> <function> <timeout>" for each pending
 *		timeout; "more <level> <slot>" if a bucket may hold more than QUEUE_SHOWN, which are
 *		not shown
 *
 * Level and slot of timeouts that never expire are "never" and 0. Nothing here changes a wheel.
 * Counters are read while they change. The worker looks at the timeouts for us, one bucket at a
 * time (queue_look()). Errors of debugfs are ignored.
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#include "../core/hwtimer_driver.h"
#include "contexts.h"

static struct dentry *root;

static int stats_show(struct seq_file *m, void *unused)
{
	static const char *const states[] = {
		[QUEUE_INIT] = "INIT", [QUEUE_STARTED] = "STARTED",
		[QUEUE_SHUTDOWN] = "SHUTDOWN", [QUEUE_STOPPED] = "SHUTDOWN",
	};
	static const char *const scheds[] = {
		[HWTIMER_SCHED_NORMAL] = "normal", [HWTIMER_SCHED_FIFO_LOW] = "fifo_low",
		[HWTIMER_SCHED_FIFO] = "fifo",
	};
	struct hwtimer_driven *driven = m->private;
	struct hwtimer_monitor *monitor = &driven->monitor;
	struct hwtimer_wheel *wheel = &driven->wheel;
	unsigned int i, slots = 0;
	struct queue_counts c;

	for (i = 0; i < wheel->wheel.levels; i++)
		slots = max_t(unsigned int, slots, BIT(wheel->wheel.level[i].bits));
	queue_count(wheel, &c);
	seq_printf(m, "name %s\n", driven->name);
	seq_printf(m, "module %s\n", driven->module);
	seq_printf(m, "clock %s\n",
		   driven->clock == HWTIMER_CLOCK_BOOTTIME ? "boottime" : "monotonic");
	seq_printf(m, "worker_pid %d\n", task_pid_vnr(driven->task));
	seq_printf(m, "worker_sched %s\n", scheds[driven->sched]);
	seq_printf(m, "worker_nice %d\n", driven->nice);
	seq_printf(m, "tick_ns %llu\n", wheel->tick_ns);
	seq_printf(m, "slots %u\n", slots);
	seq_printf(m, "levels %u\n", wheel->wheel.levels);
	seq_puts(m, "bits");
	for (i = 0; i < wheel->wheel.levels; i++)
		seq_printf(m, " %u", wheel->wheel.level[i].bits);
	seq_putc(m, '\n');
	seq_printf(m, "cap %lu\n", wheel->places ? wheel->places->number : 0UL);
	seq_printf(m, "state %s\n", states[READ_ONCE(wheel->state)]);
	seq_printf(m, "start_ns %llu\n", driven->start_ns);
	seq_printf(m, "now_ns %llu\n", hwtimer_clock_ns(driven));
	seq_printf(m, "pending %lu\n", c.pending);
	seq_printf(m, "filed %lu\n", READ_ONCE(wheel->wheel.filed));
	seq_printf(m, "armed %lu\n", c.armed);
	seq_printf(m, "touched %lu\n", c.touched);
	seq_printf(m, "cancelled %lu\n", c.cancelled);
	seq_printf(m, "expired %lu\n", c.expired);
	seq_printf(m, "handed_back %lu\n", c.handed_back);
	seq_printf(m, "rejected %lu\n", c.rejected);
	seq_printf(m, "drained %lu\n", c.drained);
	seq_printf(m, "kicks %lu\n", c.kicks);
	seq_printf(m, "wakeups %lu\n", READ_ONCE(monitor->wakeups));
	seq_printf(m, "ticks %lu\n", c.ticks);
	seq_printf(m, "visits %lu\n", c.visits);
	seq_printf(m, "cascaded %lu\n", c.cascaded);
	seq_printf(m, "refiled %lu\n", c.refiled);
	spin_lock(&monitor->lock);
	seq_printf(m, "long_callbacks %lu\n", monitor->long_callbacks);
	seq_printf(m, "longest_callback_ns %llu\n", monitor->longest_ns);
	seq_printf(m, "long_callback %s\n", *monitor->long_fn ? monitor->long_fn : "-");
	seq_printf(m, "longest_callback %s\n", *monitor->longest_fn ? monitor->longest_fn : "-");
	spin_unlock(&monitor->lock);
	seq_printf(m, "lateness_sum_ns %llu\n", (u64)local64_read(&monitor->lateness_ns));
	for (i = 0; i < HWTIMER_LATE_BINS - 1; i++)
		seq_printf(m, "late_below_%luus %lu\n", BIT(i), local_read(&monitor->late[i]));
	seq_printf(m, "late_above %lu\n", local_read(&monitor->late[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

/* The first bucket from @bucket on that holds timeouts, as a record of the seq_file. */
static void *record_from(const struct wheel *wheel, u32 bucket, loff_t *pos)
{
	unsigned int level = WHEEL_LEVEL_OF(bucket), slot = WHEEL_SLOT_OF(bucket);

	for (; level <= wheel->levels; level++, slot = 0) {
		for (; slot < BIT(wheel->level[level].bits); slot++) {
			*pos = WHEEL_BUCKET(level, slot);
			if (wheel_occupied(wheel, *pos))
				return pos;
		}
	}
	*pos = WHEEL_BUCKET(level, 0);
	return NULL;
}

static const struct wheel *wheel_shown(const struct seq_file *m)
{
	const struct hwtimer_driven *driven = m->private;

	return &driven->wheel.wheel;
}

/* "never" for the level of timeouts that never expire. */
static void show_bucket(struct seq_file *m, const char *what, u32 bucket)
{
	if (WHEEL_LEVEL_OF(bucket) == wheel_shown(m)->levels)
		seq_printf(m, "%s never 0", what);
	else
		seq_printf(m, "%s %u %u", what, WHEEL_LEVEL_OF(bucket), WHEEL_SLOT_OF(bucket));
}

/**
 * struct shown - pending timeouts of a bucket
 * @look: for the worker
 * @n: length of @each
 * @start_ns: when the wheel started
 * @each: the timeouts. A timeout may be freed by now, so its address is printed but not
 *	dereferenced. deadline U64_MAX: it never expires
 */
struct shown {
	struct queue_look	look;
	unsigned int		n;
	u64			start_ns;
	struct {
		u64		deadline;
		const void	*fn;
		const void	*timeout;
	} each[QUEUE_SHOWN];
};

static void note_pending(struct queue_look *look, struct hwtimer_timeout *t, u64 deadline)
{
	struct shown *s = container_of(look, struct shown, look);

	s->each[s->n].deadline = deadline == HWTIMER_HORIZON ? U64_MAX : deadline + s->start_ns;
	s->each[s->n].fn = hwtimer_owner_fn(t, READ_ONCE(t->fn));
	s->each[s->n++].timeout = t;
}

/* What is pending in a bucket, as of a look of the worker; to be freed. */
static struct shown *look_at(struct hwtimer_driven *driven, u32 bucket)
{
	struct shown *s = kvmalloc(sizeof(*s), GFP_KERNEL | __GFP_NOWARN);
	int ret;

	if (!s)
		return ERR_PTR(-ENOMEM);
	s->look.bucket = bucket;
	s->look.show = note_pending;
	s->n = 0;
	s->start_ns = driven->start_ns;
	ret = queue_look(&driven->wheel, &s->look);
	if (!ret)
		return s;
	kvfree(s);
	return ERR_PTR(ret);
}

/* At the beginning of the file, what was armed before is filed: any look does that. */
static void *pending_start(struct seq_file *m, loff_t *pos)
{
	struct shown *s = *pos ? NULL : look_at(m->private, 0);

	if (IS_ERR(s))
		return s;
	kvfree(s);
	return record_from(wheel_shown(m), *pos, pos);
}

static void *pending_next(struct seq_file *m, void *v, loff_t *pos)
{
	return record_from(wheel_shown(m), *pos + 1, pos);
}

static void pending_stop(struct seq_file *m, void *v)
{
}

static int pending_show(struct seq_file *m, void *v)
{
	u32 bucket = *(loff_t *)v;
	struct shown *s = look_at(m->private, bucket);
	unsigned int i;

	if (IS_ERR(s))
		return PTR_ERR(s);
	for (i = 0; i < s->n; i++) {
		show_bucket(m, "timeout", bucket);
		seq_printf(m, " %llu %ps %p\n", s->each[i].deadline, s->each[i].fn,
			   s->each[i].timeout);
	}
	if (s->look.more) {
		show_bucket(m, "more", bucket);
		seq_putc(m, '\n');
	}
	kvfree(s);
	return 0;
}

static const struct seq_operations pending_sops = {
	.start	= pending_start,
	.next	= pending_next,
	.stop	= pending_stop,
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
 * hwtimer_debugfs_init - create the directory of all wheels, with the file of all contexts
 */
void __init hwtimer_debugfs_init(void)
{
	root = debugfs_create_dir("hwtimer", NULL);
	hwtimer_contexts_add(root);
}

/**
 * hwtimer_debugfs_exit - remove the directory of all wheels
 */
void hwtimer_debugfs_exit(void)
{
	debugfs_remove(root);
}
