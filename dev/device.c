// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: /dev/hwtimer: file operations and ioctls. The ABI is in
 * uapi/linux/hwtimer.h, what a context is in dev/context.c.
 */
#include <linux/bits.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "../core/hwtimer_compat.h"
#include "../core/hwtimer_stats.h"
#include "area.h"
#include "calls.h"
#include "context.h"
#include "device.h"
#include "slots.h"

static_assert(sizeof(struct hwtimer_setup) == 32);
static_assert(sizeof(struct hwtimer_schedule) == 48);
static_assert(sizeof(struct hwtimer_touch) == 24);
static_assert(sizeof(struct hwtimer_cancel) == 8);
static_assert(sizeof(struct hwtimer_query) == 32);
static_assert(sizeof(struct hwtimer_record) == 48);
static_assert(sizeof(struct hwtimer_grow) == 8);
static_assert(sizeof(struct hwtimer_info) == 40);
static_assert(sizeof(struct hwtimer_stats) == 48);
static_assert(sizeof(struct hwtimer_list) == 24);
static_assert(sizeof(struct hwtimer_wheel_info) == 384);

/* How many entries LIST copies at a time, by way of the stack, and how long they may be. */
#define LIST_BATCH	16
#define LONGEST_ENTRY	4096

/* What an ioctl works on: the argument of any of them. */
union device_arg {
	struct hwtimer_setup	setup;
	struct hwtimer_schedule	schedule;
	struct hwtimer_touch	touch;
	struct hwtimer_cancel	cancel;
	struct hwtimer_query	query;
	struct hwtimer_grow	grow;
	struct hwtimer_info	info;
	struct hwtimer_stats	stats;
	struct hwtimer_list	list;
};

static int device_setup(struct context *c, union device_arg *arg)
{
	int ret = mutex_lock_killable(&c->control);

	if (ret)
		return ret;
	if (c->kind)
		ret = -EBUSY;
	else if (arg->setup.flags & HWTIMER_SETUP_TABLE)
		ret = hwtimer_slots_setup(c, &arg->setup);
	else
		ret = hwtimer_calls_setup(c, &arg->setup);
	mutex_unlock(&c->control);
	return ret;
}

static int device_schedule(struct context *c, union device_arg *arg)
{
	return hwtimer_calls_schedule(c, &arg->schedule);
}

static int device_touch(struct context *c, union device_arg *arg)
{
	return hwtimer_calls_touch(c, &arg->touch);
}

static int device_cancel(struct context *c, union device_arg *arg)
{
	return hwtimer_calls_cancel(c, &arg->cancel);
}

static int device_query(struct context *c, union device_arg *arg)
{
	return hwtimer_calls_query(c, &arg->query);
}

static int device_grow(struct context *c, union device_arg *arg)
{
	struct hwtimer_grow *grow = &arg->grow;
	int ret;

	ret = hwtimer_context_allows(grow->slots);
	if (ret)
		return ret;
	ret = mutex_lock_killable(&c->control);
	if (ret)
		return ret;
	ret = c->stopped ? -ESHUTDOWN : hwtimer_area_grow(c, grow->slots);
	*grow = (struct hwtimer_grow){ c->slots, ((struct area *)c->data)->last };
	mutex_unlock(&c->control);
	return ret;
}

static int device_info(struct context *c, union device_arg *arg)
{
	bool table = c->kind == &hwtimer_table_kind;

	/* The table may grow meanwhile. */
	spin_lock(&c->lock);
	arg->info = (struct hwtimer_info){
		.tick_ns = c->tick_ns,
		.slack_ns = context_slack_ns(c),
		.clockid = c->clockid,
		.flags = table ? HWTIMER_SETUP_TABLE : 0,
		.slots = c->slots,
		.rings = table ? hwtimer_area_rings(c->data) : 0,
		.offset_ns = c->offset_ns - hwtimer_context_offset(c->clockid),
	};
	spin_unlock(&c->lock);
	return 0;
}

static int device_stats(struct context *c, union device_arg *arg)
{
	int ret = mutex_lock_killable(&c->control);

	if (ret)
		return ret;
	spin_lock(&c->lock);
	arg->stats = c->stats;
	spin_unlock(&c->lock);
	arg->stats.timers = READ_ONCE(c->timers);
	arg->stats.pending = c->kind->pending(c);
	mutex_unlock(&c->control);
	return 0;
}

/* May the array of a program have entries of this size? */
static int list_check(const struct hwtimer_list *l, size_t size)
{
	if (l->size < size || l->size % 8 || !l->count)
		return -EINVAL;
	return l->size > LONGEST_ENTRY ? -E2BIG : 0;
}

/* Copy entry @n to the array. */
static int list_put(const struct hwtimer_list *l, u32 n, const void *entry, size_t size)
{
	char __user *to = u64_to_user_ptr(l->entries + (u64)n * l->size);

	if (copy_to_user(to, entry, size) || clear_user(to + size, l->size - size))
		return -EFAULT;
	return 0;
}

static int device_list(struct context *c, union device_arg *arg)
{
	struct hwtimer_list *l = &arg->list;
	u32 index = min_t(u64, l->cursor, U32_MAX), done = 0, n, i;
	struct hwtimer_query q[LIST_BATCH];
	bool end = false;
	int ret;

	ret = list_check(l, sizeof(q[0]));
	while (!ret && !end && done < l->count) {
		n = min_t(u32, l->count - done, LIST_BATCH);
		n = hwtimer_context_list(c, &index, q, n, &end);
		for (i = 0; i < n && !ret; i++)
			ret = list_put(l, done++, &q[i], sizeof(q[0]));
		cond_resched();
		if (fatal_signal_pending(current))
			ret = -EINTR;
	}
	l->cursor = index;
	l->count = done;
	return ret;
}

static int device_wheels(struct context *c, union device_arg *arg)
{
	struct hwtimer_list *l = &arg->list;
	struct hwtimer_wheel_info info;
	u32 done = 0;
	u64 id;
	int ret;

	if (!perfmon_capable())
		return -EPERM;
	ret = list_check(l, sizeof(info));
	while (!ret && done < l->count && (id = hwtimer_stats_next(l->cursor, &info))) {
		ret = list_put(l, done++, &info, sizeof(info));
		l->cursor = id + 1;
		cond_resched();
		if (fatal_signal_pending(current))
			ret = -EINTR;
	}
	l->count = done;
	return ret;
}

static int device_enter(struct context *c, union device_arg *arg)
{
	return hwtimer_context_enter(c);
}

static int device_stop(struct context *c, union device_arg *arg)
{
	return hwtimer_context_stop(c);
}

#define CALLS	BIT(0)	/* of a context by calls */
#define TABLE	BIT(1)	/* of a context by a table */
#define EITHER	(CALLS | TABLE)
#define READS	BIT(2)	/* does not need a file that is open for writing */

/**
 * struct device_call - an ioctl
 * @cmd: its command, with the size of this version
 * @flags: see above; neither CALLS nor TABLE: SETUP alone
 * @function: what does it
 */
struct device_call {
	unsigned int	cmd;
	unsigned int	flags;
	int		(*function)(struct context *c, union device_arg *arg);
};

static const struct device_call device_calls[] = {
	{ HWTIMER_IOC_SETUP,	0,		device_setup },
	{ HWTIMER_IOC_SCHEDULE,	CALLS,		device_schedule },
	{ HWTIMER_IOC_TOUCH,	CALLS,		device_touch },
	{ HWTIMER_IOC_CANCEL,	CALLS,		device_cancel },
	{ HWTIMER_IOC_QUERY,	CALLS,		device_query },
	{ HWTIMER_IOC_GROW,	TABLE,		device_grow },
	{ HWTIMER_IOC_INFO,	EITHER,		device_info },
	{ HWTIMER_IOC_STATS,	EITHER,		device_stats },
	{ HWTIMER_IOC_ENTER,	TABLE,		device_enter },
	{ HWTIMER_IOC_STOP,	EITHER,		device_stop },
	{ HWTIMER_IOC_LIST,	EITHER,		device_list },
	{ HWTIMER_IOC_WHEELS,	READS,		device_wheels },
};

/* The ioctl of a command, which may have another size; or NULL. */
static const struct device_call *device_call_find(unsigned int cmd)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(device_calls); i++)
		if (!((cmd ^ device_calls[i].cmd) & ~IOCSIZE_MASK))
			return &device_calls[i];
	return NULL;
}

/* Is a call of this kind possible now? Without SETUP, the first SCHEDULE does it. */
static int device_ready(struct context *c, const struct device_call *call)
{
	union device_arg defaults = { .setup.clockid = CLOCK_MONOTONIC };
	unsigned int kind;
	int ret;

	if (!(call->flags & EITHER))
		return 0;
	if (!context_kind(c)) {
		if (call->cmd != HWTIMER_IOC_SCHEDULE)
			return -ENXIO;
		ret = device_setup(c, &defaults);
		/* -EBUSY: somebody else was faster. */
		if (ret && ret != -EBUSY)
			return ret;
	}
	kind = context_kind(c) == &hwtimer_table_kind ? TABLE : CALLS;
	return call->flags & kind ? 0 : -EOPNOTSUPP;
}

static long device_ioctl(struct file *file, unsigned int cmd, unsigned long argument)
{
	const struct device_call *call = device_call_find(cmd);
	struct context *c = file->private_data;
	void __user *user = (void __user *)argument;
	size_t size, user_size = _IOC_SIZE(cmd);
	union device_arg arg = { };
	int ret;

	if (!call)
		return -ENOTTY;
	size = _IOC_SIZE(call->cmd);
	if (user_size < size || user_size % 8)
		return -EINVAL;
	if (!(call->flags & READS) && !(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (cmd & IOC_IN) {
		ret = copy_struct_from_user(&arg, size, user, user_size);
		if (ret)
			return ret;
	}
	ret = device_ready(c, call);
	if (!ret)
		ret = call->function(c, &arg);
	if (!ret && cmd & IOC_OUT &&
	    (copy_to_user(user, &arg, size) || clear_user(user + size, user_size - size))) {
		/* Nobody would know its id. */
		if (call->function == device_schedule)
			hwtimer_calls_cancel(c, &(struct hwtimer_cancel){ .id = arg.schedule.id });
		ret = -EFAULT;
	}
	return ret;
}

static ssize_t device_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct context *c = iocb->ki_filp->private_data;
	bool block = !(iocb->ki_flags & IOCB_NOWAIT) && !(iocb->ki_filp->f_flags & O_NONBLOCK);

	if (!context_kind(c))
		return -ENXIO;
	if (context_kind(c) != &hwtimer_calls_kind)
		return -EOPNOTSUPP;
	return hwtimer_calls_read(c, to, block);
}

static __poll_t device_poll(struct file *file, poll_table *wait)
{
	return hwtimer_context_poll(file->private_data, file, wait);
}

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct context *c = file->private_data;

	if (context_kind(c) != &hwtimer_table_kind)
		return -ENXIO;
	return hwtimer_area_map(c, vma);
}

static void device_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct context *c = file->private_data;
	const struct context_kind *kind = context_kind(c);

	if (!kind)
		return;
	hwtimer_context_show(m, c);
	/* Those of a table are not counted by the kernel, only looked at by STATS. */
	if (kind == &hwtimer_calls_kind)
		seq_printf(m, "pending: %llu\n", kind->pending(c));
}

static int device_open(struct inode *inode, struct file *file)
{
	struct context *c = hwtimer_context_create();

	if (!c)
		return -ENOMEM;
	file->private_data = c;
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

static int device_release(struct inode *inode, struct file *file)
{
	hwtimer_context_free(file->private_data);
	return 0;
}

static const struct file_operations device_fops = {
	.owner		= THIS_MODULE,
	.open		= device_open,
	.release	= device_release,
	.read_iter	= device_read,
	.poll		= device_poll,
	.mmap		= device_mmap,
	.unlocked_ioctl	= device_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= device_show_fdinfo,
};

static struct miscdevice device_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "hwtimer",
	.fops	= &device_fops,
	.mode	= 0600,
};

/**
 * hwtimer_device_init - register the device
 *
 * Return: 0 or a negative error.
 */
int __init hwtimer_device_init(void)
{
	return misc_register(&device_misc);
}

/**
 * hwtimer_device_exit - unregister the device; no file is open
 */
void hwtimer_device_exit(void)
{
	misc_deregister(&device_misc);
}
