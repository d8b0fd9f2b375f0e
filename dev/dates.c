// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the deadlines of the timeouts of a context on CLOCK_REALTIME, on that clock.
 *
 * The wheel of such a context runs on CLOCK_BOOTTIME, which nobody can set. The two clocks run at
 * the same rate, also while somebody slews them, and both go on during suspend. So the offset
 * between them is constant until CLOCK_REALTIME is set, and each change of the offset means that it
 * was set.
 *
 * A deadline on the wheel's clock cannot always be converted back: the wheel has no times before
 * the start of the machine, and none beyond its horizon. If somebody set the clock to 1970 for a
 * moment, deadlines would be lost. So each timeout has a struct ctx_date. It is not in struct
 * ctx_timeout, because contexts on other clocks do not need it.
 */
#include <kunit/visibility.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/math.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "dates.h"
#include "table.h"

/* The dates of a page of timeouts are in one block. */
#define BLOCK	PAGE_TIMEOUTS

/**
 * hwtimer_dates_create - make the struct ctx_clock of a context, without dates
 * @ctx: the context
 * @gfp: how to allocate
 *
 * Return: the clock, or NULL.
 */
struct ctx_clock *hwtimer_dates_create(struct hwtimer_ctx *ctx, gfp_t gfp)
{
	struct ctx_clock *clock = kzalloc(sizeof(*clock), gfp);

	if (!clock)
		return NULL;
	clock->ctx = ctx;
	INIT_LIST_HEAD(&clock->list);
	xa_init_flags(&clock->blocks, XA_FLAGS_ACCOUNT);
	return clock;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_dates_create);

/**
 * hwtimer_dates_free - free a clock and its dates
 * @clock: the clock; NULL: do nothing
 */
void hwtimer_dates_free(struct ctx_clock *clock)
{
	unsigned long index;
	void *block;

	if (!clock)
		return;
	xa_for_each(&clock->blocks, index, block)
		kfree(block);
	xa_destroy(&clock->blocks);
	kfree(clock);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_dates_free);

/**
 * hwtimer_dates_reserve - allocate the date of a timeout, unless it exists
 * @clock: the clock
 * @index: index of the timeout
 * @gfp: how to allocate
 *
 * Context: May sleep. Callers may race.
 *
 * Return: 0 or -ENOMEM.
 */
int hwtimer_dates_reserve(struct ctx_clock *clock, u32 index, gfp_t gfp)
{
	struct ctx_date *block;
	int ret;

	if (xa_load(&clock->blocks, index / BLOCK))
		return 0;
	block = kcalloc(BLOCK, sizeof(*block), gfp);
	if (!block)
		return -ENOMEM;
	ret = xa_insert(&clock->blocks, index / BLOCK, block, gfp);
	if (ret)
		kfree(block);
	/* -EBUSY: somebody else has allocated it meanwhile. */
	return ret == -EBUSY ? 0 : ret;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_dates_reserve);

/**
 * hwtimer_dates_reserve_all - allocate the dates of the first timeouts, unless they exist
 * @clock: the clock
 * @timeouts: how many timeouts
 * @gfp: how to allocate
 *
 * Context: May sleep.
 *
 * Return: 0, -ENOMEM, or -EINTR: the caller was killed.
 */
int hwtimer_dates_reserve_all(struct ctx_clock *clock, u32 timeouts, gfp_t gfp)
{
	int ret = 0;
	u32 i;

	for (i = 0; i < timeouts && !ret; i += BLOCK) {
		ret = fatal_signal_pending(current) ? -EINTR :
						      hwtimer_dates_reserve(clock, i, gfp);
		cond_resched();
	}
	return ret;
}

/**
 * hwtimer_dates_drop - free the dates of a page of timeouts
 * @clock: the clock
 * @first: index of the first timeout of the page, which is out of the table
 *
 * Context: May sleep. Nobody reserves dates of this page.
 */
void hwtimer_dates_drop(struct ctx_clock *clock, u32 first)
{
	kfree(xa_erase(&clock->blocks, first / BLOCK));
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_dates_drop);

/**
 * hwtimer_dates_trim - free the dates that are not of the first timeouts
 * @clock: the clock
 * @timeouts: how many timeouts keep their dates
 *
 * Context: May sleep. Nobody reserves dates.
 */
void hwtimer_dates_trim(struct ctx_clock *clock, u32 timeouts)
{
	unsigned long index;
	void *block;

	xa_for_each_start(&clock->blocks, index, block, DIV_ROUND_UP(timeouts, BLOCK)) {
		hwtimer_dates_drop(clock, index * BLOCK);
		cond_resched();
	}
}

/**
 * hwtimer_dates_find - the date of a timeout
 * @clock: the clock
 * @index: index of the timeout, which was reserved
 *
 * Return: the date, protected by ctx->lock.
 */
struct ctx_date *hwtimer_dates_find(struct ctx_clock *clock, u32 index)
{
	struct ctx_date *block = xa_load(&clock->blocks, index / BLOCK);

	return &block[index % BLOCK];
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_dates_find);

static s64 read_offset(void)
{
	return ktime_to_ns(ktime_sub(ktime_mono_to_any(0, TK_OFFS_REAL),
				     ktime_mono_to_any(0, TK_OFFS_BOOT)));
}

/**
 * hwtimer_dates_offset - how far CLOCK_REALTIME is ahead of CLOCK_BOOTTIME
 *
 * Context: Any, except a pvclock_gtod notifier: the timekeeper is locked there.
 *
 * Return: the offset in ns.
 */
s64 hwtimer_dates_offset(void)
{
	s64 before, after;

	/*
	 * read_offset() reads two variables, both of which a resume changes. If it is doing so,
	 * ktime_get() waits until it has, and the second reading differs from the first one.
	 */
	do {
		before = read_offset();
		ktime_get();
		after = read_offset();
	} while (before != after);
	return after;
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_dates_offset);

/**
 * hwtimer_dates_notice - notice that CLOCK_REALTIME was set
 * @clock: the clock of a context, whose lock is held
 * @offset_ns: ctx->offset_ns, to be updated
 *
 * Takes a few instructions if the clock was not set. Otherwise arms @clock->follow, which arms all
 * timeouts again that were armed before.
 */
void hwtimer_dates_notice(struct ctx_clock *clock, s64 *offset_ns)
{
	s64 offset;

	if (likely(read_offset() == *offset_ns))
		return;
	offset = hwtimer_dates_offset();
	if (offset == *offset_ns)
		return;
	WRITE_ONCE(*offset_ns, offset);
	clock->set++;
	/* At the next tick. Fails only while the context is being closed. */
	hwtimer_schedule_at(&clock->follow, 0);
}
EXPORT_SYMBOL_IF_KUNIT(hwtimer_dates_notice);
