// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: /dev/hwtimer, timeouts for programs. It uses hwtimer.h like any other module; the ABI
 * is in uapi/linux/hwtimer.h.
 *
 * Each open file description has a context (dev/ctx.c), with or without rings (dev/rings.c). This
 * file has the file operations except for ioctls, and the callbacks of the timeouts.
 *
 * Lock order: ctx->control, then ctx->read_lock, then ctx->lock. The holder of one of the first
 * two may fault in a page of the program, which another program may delay without limit
 * (userfaultfd, FUSE). So only take them killably. ctx->size_lock comes after ctx->control and
 * before ctx->lock, and is not held together with ctx->read_lock.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <linux/wait.h>

#include "../debug/trace.h"
#include "../hwtimer.h"
#include "../core/hwtimer_compat.h"
#include "../uapi/linux/hwtimer.h"
#include "clock.h"
#include "ctx.h"
#include "file.h"
#include "ioctl.h"
#include "resize.h"
#include "rings.h"
#include "shared.h"
#include "shm.h"
#include "user.h"

/* How many records are copied to a reader at a time, by way of the stack. */
#define READ_BATCH	8

static bool readable(struct hwtimer_ctx *ctx)
{
	const struct ctx_rings *r = hwtimer_rings_of(ctx);

	return hwtimer_ctx_has_records(ctx) || (r && hwtimer_rings_unread(r));
}

/* The callback of all timeouts. Runs in the wheel's worker. */
static void dev_expired(struct hwtimer_timeout *t)
{
	struct ctx_timeout *ct = container_of(t, struct ctx_timeout, timeout);
	struct hwtimer_ctx *ctx = hwtimer_page_of(ct)->ctx;
	struct ctx_rings *r = hwtimer_rings_of(ctx);
	u64 deadline;

	/*
	 * An operation that was submitted before the deadline may touch or cancel this timeout,
	 * so take submissions first. It may be touched or closed meanwhile, which changes the
	 * deadline; hwtimer_rings_await() below checks again under the lock. If CLOCK_REALTIME
	 * was set, the deadline on the wheel's clock can be any time in the past.
	 */
	if (r && (ctx->clock || hwtimer_rings_unseen(r, hwtimer_deadline(t))))
		hwtimer_rings_take_in_worker(ctx);

	hwtimer_ctx_lock(ctx);
	hwtimer_ctx_settle(ctx, ct);
	deadline = hwtimer_ctx_deadline_of(ct);
	if (ctx->stopped || ct->state != TIMEOUT_PENDING || hwtimer_is_pending(t)) {
		/*
		 * Touched, cancelled, closed or settled since it expired: nothing to report. If a
		 * STOP has begun, it hands back what it finds pending: others' records may be in
		 * the ring already, and those of expiries come first.
		 */
	} else if (r && hwtimer_rings_await(r, deadline) &&
		   !hwtimer_schedule_at(t, deadline)) {
		/*
		 * The budget of this tick was used up before all earlier submissions were taken:
		 * armed again, the callback runs again at the next tick.
		 */
	} else {
		hwtimer_ctx_expire(ctx, ct);
	}
	if (!ctx->closed)
		hwtimer_report(ctx);
	hwtimer_ctx_unlock(ctx);
}

/* Take records only after they have been copied, so that a fault loses none. */
static ssize_t read_records(struct hwtimer_ctx *ctx, struct iov_iter *to)
{
	struct hwtimer_record records[READ_BATCH];
	size_t size = sizeof(records[0]), copied;
	ssize_t done = 0;
	unsigned int n;

	/* So nobody else takes records between peek and take. */
	lockdep_assert_held(&ctx->read_lock);
	do {
		hwtimer_ctx_lock(ctx);
		/* Rings may have been made since our caller checked; then records go there. */
		n = ctx->rings ? 0 :
				 hwtimer_ctx_peek(ctx, records, min_t(size_t, READ_BATCH,
								      iov_iter_count(to) / size));
		hwtimer_ctx_unlock(ctx);
		if (!n)
			return done;
		copied = copy_to_iter(records, n * size, to);
		hwtimer_ctx_lock(ctx);
		hwtimer_ctx_take(ctx, records, copied / size);
		hwtimer_ctx_unlock(ctx);
		done += copied - copied % size;
		cond_resched();
	} while (copied == n * size);
	return done ?: -EFAULT;
}

static ssize_t dev_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct hwtimer_ctx *ctx = iocb->ki_filp->private_data;
	bool nowait = iocb->ki_flags & IOCB_NOWAIT;
	bool block = !nowait && !(iocb->ki_filp->f_flags & O_NONBLOCK);
	ssize_t ret;

	if (iov_iter_count(to) < sizeof(struct hwtimer_record))
		return -EINVAL;

	for (;;) {
		bool ended;

		if (hwtimer_rings_of(ctx))
			return -EOPNOTSUPP;
		if (nowait) {
			if (!mutex_trylock(&ctx->read_lock))
				return -EAGAIN;
		} else if (mutex_lock_interruptible(&ctx->read_lock)) {
			return -ERESTARTSYS;
		}
		/* Check before reading: no records are added after the end. */
		ended = hwtimer_ctx_ended(ctx);
		ret = read_records(ctx, to);
		mutex_unlock(&ctx->read_lock);
		if (ret || ended)
			return ret;
		if (!block)
			return -EAGAIN;
		ret = wait_event_interruptible(ctx->wait,
					       readable(ctx) || hwtimer_ctx_ended(ctx) ||
					       hwtimer_rings_of(ctx));
		if (ret)
			return ret;
	}
}

static __poll_t dev_poll(struct file *file, poll_table *wait)
{
	struct hwtimer_ctx *ctx = file->private_data;
	__poll_t events = 0;

	poll_wait(file, &ctx->wait, wait);
	/*
	 * Pairs with hwtimer_ctx_wake(): either it sees us wait, or we see the events.
	 * [smp_mb: wait-broken-waiter; after poll_wait]
	 */
	smp_mb();
	if (hwtimer_rings_of(ctx)) {
		hwtimer_ctx_lock(ctx);
		if (hwtimer_rings_check(ctx))
			events |= EPOLLERR;
		hwtimer_ctx_unlock(ctx);
	}
	if (readable(ctx))
		events |= EPOLLIN | EPOLLRDNORM;
	if (hwtimer_ctx_ended(ctx))
		events |= EPOLLHUP;
	return events;
}

static int dev_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct hwtimer_ctx *ctx = file->private_data;
	struct ctx_rings *r = hwtimer_rings_of(ctx);

	if (!r)
		return -ENXIO;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vm_flags_set(vma, VM_DONTEXPAND);
	return hwtimer_shm_map(&r->pair, vma);
}

static void dev_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct hwtimer_ctx *ctx = file->private_data;
	const struct ctx_rings *r = hwtimer_rings_of(ctx);
	const struct hwtimer_wheel *wheel;
	u64 pending, unread, late, cap;
	u32 timeouts, pages;
	clockid_t clockid = CLOCK_MONOTONIC;
	bool own, stopped, realtime;

	hwtimer_ctx_lock(ctx);
	wheel = ctx->wheel;
	realtime = ctx->clock;
	own = ctx->own_wheel;
	stopped = ctx->stopped;
	pending = ctx->stats.pending;
	unread = ctx->stats.unread;
	late = ctx->late;
	cap = ctx->cap;
	timeouts = ctx->charged;
	/* Those in the table, and those that the wheel may still hold. */
	pages = DIV_ROUND_UP(timeouts, PAGE_TIMEOUTS) + refcount_read(&ctx->held) - 1;
	hwtimer_ctx_unlock(ctx);

	if (realtime)
		clockid = CLOCK_REALTIME;
	else if (hwtimer_wheel_clock(wheel) == HWTIMER_CLOCK_BOOTTIME)
		clockid = CLOCK_BOOTTIME;
	seq_printf(m, "clockid: %d\n", clockid);
	seq_printf(m, "own_wheel: %d\n", own);
	seq_printf(m, "tick_ns: %llu\n", hwtimer_wheel_tick_ns(wheel));
	seq_printf(m, "slots: %u\n", hwtimer_wheel_slots(wheel));
	seq_printf(m, "levels: %u\n", hwtimer_wheel_levels(wheel));
	seq_printf(m, "stopped: %d\n", stopped);
	seq_printf(m, "pending: %llu\n", pending);
	seq_printf(m, "unread: %llu\n", unread);
	seq_printf(m, "late: %llu\n", late);
	seq_printf(m, "cap: %llu\n", cap);
	seq_printf(m, "timeouts: %u\n", timeouts);
	seq_printf(m, "timeouts_kib: %u\n", pages * (TABLE_PAGE / 1024));
	if (r) {
		seq_printf(m, "sq_entries: %u\n", r->pair.sq_mask + 1);
		seq_printf(m, "cq_entries: %u\n", r->pair.cq_mask + 1);
	}
	hwtimer_user_show(m, ctx->user);
}

/*
 * Called by close(2), and by the worker for each page that it frees: both are charged to the user.
 */
static void put_ctx(struct hwtimer_ctx *ctx)
{
	/* [refcount_dec_and_test: as a decrement releases, the last one acquires] */
	if (!refcount_dec_and_test(&ctx->held))
		return;
	hwtimer_table_trim(&ctx->table);
	hwtimer_dates_free(ctx->clock);
	if (ctx->rings)
		hwtimer_rings_free(ctx->rings);
	if (ctx->shared)
		hwtimer_shared_put(ctx->shared);
	hwtimer_user_closed(ctx->user);
	hwtimer_user_put(ctx->user);
	kfree(ctx);
}

static void dev_released(struct hwtimer_timeout *t)
{
	struct ctx_page *page = hwtimer_page_of(container_of(t, struct ctx_timeout, timeout));
	struct hwtimer_ctx *ctx = page->ctx;

	if (hwtimer_page_put(page, ctx->user))
		put_ctx(ctx);
}

static void poll_released(struct hwtimer_timeout *t)
{
	put_ctx(container_of(t, struct ctx_rings, poll)->ctx);
}

static void follow_released(struct hwtimer_timeout *t)
{
	put_ctx(container_of(t, struct ctx_clock, follow)->ctx);
}

static int dev_open(struct inode *inode, struct file *file)
{
	struct hwtimer_ctx *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);

	if (!ctx)
		return -ENOMEM;
	ctx->user = hwtimer_user_get();
	if (!ctx->user) {
		kfree(ctx);
		return -ENOMEM;
	}
	mutex_init(&ctx->control);
	mutex_init(&ctx->size_lock);
	mutex_init(&ctx->read_lock);
	spin_lock_init(&ctx->lock);
	init_waitqueue_head(&ctx->wait);
	refcount_set(&ctx->held, 1);
	ctx->expired = dev_expired;
	ctx->released = dev_released;
	ctx->wheel = hwtimer_shared_wheel(NULL);
	INIT_LIST_HEAD(&ctx->spare);
	ctx->done_tail = &ctx->done;
	INIT_LIST_HEAD(&ctx->ended_pages);
	ctx->cap = MAX_CAP;
	ctx->offset_ns = hwtimer_ctx_time_offset(CLOCK_MONOTONIC);
	file->private_data = ctx;
	file->f_mode |= FMODE_NOWAIT;
	trace_hwtimer_dev_open(ctx, 0);
	return stream_open(inode, file);
}

/*
 * The last close. Release the timeouts without waiting for the worker of a shared wheel. If the
 * worker releases the last timeout after this returned, it frees the context.
 */
static int dev_release(struct inode *inode, struct file *file)
{
	struct hwtimer_ctx *ctx = file->private_data;

	/* Even if entries are left in the submission ring, no operation takes effect any more. */
	hwtimer_ctx_lock(ctx);
	ctx->stopped = true;
	ctx->closed = true;
	/* The poll of the rings may go on. Records have no place any more, so it must find none. */
	ctx->done = NULL;
	ctx->done_tail = &ctx->done;
	INIT_LIST_HEAD(&ctx->ended_pages);
	trace_hwtimer_dev_close(ctx, ctx->stats.pending);
	hwtimer_ctx_unlock(ctx);

	hwtimer_user_uses(ctx->user, &ctx->use, 0);
	hwtimer_user_closing(ctx->user);
	if (ctx->clock)
		hwtimer_clock_remove(ctx);
	/* Once its wheel is stopped, a timeout is released within hwtimer_release(). */
	if (ctx->own_wheel)
		hwtimer_wheel_stop(ctx->wheel, NULL);
	if (ctx->rings) {
		refcount_inc(&ctx->held);
		hwtimer_release(&ctx->rings->poll, poll_released);
	}
	if (ctx->clock) {
		refcount_inc(&ctx->held);
		hwtimer_release(&ctx->clock->follow, follow_released);
	}
	hwtimer_ctx_give_back_all(ctx);
	/* The user's next context may wait for what this one was charged for. */
	if (ctx->own_wheel)
		hwtimer_free_own_wheel(ctx, ctx->wheel);
	else if (ctx->shared)
		hwtimer_wheel_hurry(ctx->wheel);
	put_ctx(ctx);
	return 0;
}

static const struct file_operations dev_fops = {
	.owner		= THIS_MODULE,
	.open		= dev_open,
	.release	= dev_release,
	.read_iter	= dev_read_iter,
	.poll		= dev_poll,
	.mmap		= dev_mmap,
	.unlocked_ioctl	= hwtimer_dev_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= dev_show_fdinfo,
};

static struct miscdevice dev_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "hwtimer",
	.fops	= &dev_fops,
	.mode	= 0600,
};

/**
 * hwtimer_dev_init - register the device, and make wheel "dev"
 *
 * Return: 0 or a negative error.
 */
int __init hwtimer_dev_init(void)
{
	int ret;

	ret = hwtimer_shared_init();
	if (ret)
		return ret;
	ret = misc_register(&dev_misc);
	if (ret)
		hwtimer_shared_exit();
	return ret;
}

/**
 * hwtimer_dev_exit - unregister the device, and destroy its wheels; no file is open
 */
void hwtimer_dev_exit(void)
{
	misc_deregister(&dev_misc);
	hwtimer_clock_exit();
	/* This frees all closed contexts that are left. */
	hwtimer_shared_exit();
	hwtimer_user_exit();
}
