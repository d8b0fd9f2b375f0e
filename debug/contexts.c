// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the contexts of /dev/hwtimer in debugfs, /sys/kernel/debug/hwtimer/contexts.
 *
 * One "name: value" per line, first those of /proc/PID/fdinfo, of which "context" begins a context:
 *
 *	pid, uid, comm		who did the SETUP; the process may have ended
 *	pending			timeouts that are armed; "N+": N in the first slots of a table,
 *				which has more
 *	late			how many timeouts were found due late by less than 1, 2, 4, ... us;
 *				last: all others
 *	program_armed, ...	of a table: what its programs say; the kernel does not see these
 *
 * A context that is closed waits until a reader has what fits into its buffer, and no longer.
 */
#include <linux/cred.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string_helpers.h>
#include <linux/xarray.h>

#include "../dev/area.h"
#include "contexts.h"

/* How many slots of a table are looked at. */
#define SLOTS_SHOWN	4096

static void show_pending(struct seq_file *m, struct context *c)
{
	u32 index = 0, slots = READ_ONCE(c->slots);
	struct hwtimer_query q[16];
	u64 pending = 0;
	bool end = false;

	if (c->kind == &hwtimer_calls_kind) {
		seq_printf(m, "pending: %llu\n", c->kind->pending(c));
		return;
	}
	while (!end && index < min_t(u32, slots, SLOTS_SHOWN)) {
		pending += hwtimer_context_list(c, &index, q, ARRAY_SIZE(q), &end);
		cond_resched();
	}
	seq_printf(m, "pending: %llu%s\n", pending, index < slots ? "+" : "");
}

static int contexts_show(struct seq_file *m, void *v)
{
	const struct hwtimer_table *table;
	struct context *c = v;
	unsigned int i;

	hwtimer_context_show(m, c);
	seq_printf(m, "pid: %d\n", c->pid);
	seq_printf(m, "uid: %u\n", from_kuid_munged(seq_user_ns(m), c->uid));
	seq_puts(m, "comm: ");
	seq_escape_str(m, c->comm, ESCAPE_SPACE | ESCAPE_SPECIAL, "\n\\");
	seq_putc(m, '\n');
	show_pending(m, c);
	seq_puts(m, "late:");
	for (i = 0; i < CONTEXT_LATE_BINS; i++)
		seq_printf(m, " %llu", READ_ONCE(c->late[i]));
	seq_putc(m, '\n');
	if (c->kind != &hwtimer_table_kind)
		return 0;
	table = ((struct area *)c->data)->table;
	seq_printf(m, "program_armed: %llu\n", READ_ONCE(table->armed));
	seq_printf(m, "program_touched: %llu\n", READ_ONCE(table->touched));
	seq_printf(m, "program_cancelled: %llu\n", READ_ONCE(table->cancelled));
	seq_printf(m, "program_expired: %llu\n", READ_ONCE(table->expired));
	return 0;
}

/* The next context with a SETUP. The position is its id, whichever are closed meanwhile. */
static struct context *context_from(loff_t *pos)
{
	unsigned long id = *pos;
	struct context *c = xa_find(&hwtimer_contexts, &id, ULONG_MAX, XA_PRESENT);

	while (c && !context_kind(c))
		c = xa_find_after(&hwtimer_contexts, &id, ULONG_MAX, XA_PRESENT);
	*pos = id;
	return c;
}

static void *contexts_start(struct seq_file *m, loff_t *pos)
{
	mutex_lock(&hwtimer_contexts_lock);
	return context_from(pos);
}

static void *contexts_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return context_from(pos);
}

static void contexts_stop(struct seq_file *m, void *v)
{
	mutex_unlock(&hwtimer_contexts_lock);
}

static const struct seq_operations contexts_sops = {
	.start	= contexts_start,
	.next	= contexts_next,
	.stop	= contexts_stop,
	.show	= contexts_show,
};
DEFINE_SEQ_ATTRIBUTE(contexts);

/**
 * hwtimer_contexts_add - create the file of all contexts
 * @dir: where, in debugfs
 */
void __init hwtimer_contexts_add(struct dentry *dir)
{
	debugfs_create_file("contexts", 0400, dir, NULL, &contexts_fops);
}
