/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the table of the timeouts of a context, by index; see dev/table.c.
 */
#ifndef DEV_TABLE_H
#define DEV_TABLE_H

#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/nospec.h>
#include <linux/refcount.h>
#include <linux/types.h>

#include "../hwtimer.h"

struct ctx_period;
struct ctx_timeout;
struct hwtimer_ctx;
struct hwtimer_user;

#define ID_INDEX_BITS	24
#define ID_INDEX_MASK	GENMASK_ULL(ID_INDEX_BITS - 1, 0)
#define ID_LAST_TAG	(U64_MAX >> ID_INDEX_BITS)
#define MAX_CAP		BIT_ULL(ID_INDEX_BITS)

/* A program at its cgroup's limit gets -ENOMEM, not the OOM killer. */
#define GFP_TABLE	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

#define TABLE_PAGE	4096
/* One of the cache lines of a page is its header. */
#define PAGE_TIMEOUTS	(TABLE_PAGE / 64 - 1)
/* Pages in the first segment. Each further segment has twice as many as the one before it. */
#define TABLE_FIRST	8
#define TABLE_SEGMENTS	16

/**
 * enum ctx_timeout_state - the states of a timeout; see dev/ctx.c
 * @TIMEOUT_NEW: not used so far, and not initialised
 * @TIMEOUT_FREE: not in use
 * @TIMEOUT_RESERVED: about to be armed
 * @TIMEOUT_PENDING: pending
 * @TIMEOUT_DONE: it ended, and its records are unread
 */
enum ctx_timeout_state {
	TIMEOUT_NEW,
	TIMEOUT_FREE,
	TIMEOUT_RESERVED,
	TIMEOUT_PENDING,
	TIMEOUT_DONE,
};

/**
 * struct ctx_done - an expired timeout that is not periodic
 * @next: the next timeout on ctx->done
 * @fired: when it expired, on the program's clock
 */
struct ctx_done {
	struct ctx_timeout	*next;
	u64			fired;
};

/**
 * struct ctx_timeout - one timeout of a context
 * @timeout: the timeout of the wheel. It has the deadline, unless the timeout is periodic
 * @done: valid while the timeout is on ctx->done, if it is not periodic. On 64 bits it overlays
 *	@timeout.node, which the wheel does not use from the start of the callback until the
 *	timeout is armed again
 * @user_data: from the program, copied to records; not periodic
 * @period: periodic: the rest of its state, which includes the user_data
 * @tag: the part of the current id above the index; while the timeout is free, that of the last one
 * @state: enum ctx_timeout_state
 * @kind: kind of the record; valid in TIMEOUT_DONE
 * @periodic: the timeout is periodic; false unless TIMEOUT_PENDING or TIMEOUT_DONE
 * @entry: with rings, valid in TIMEOUT_PENDING: the lowest bits of the index of the entry that
 *	armed it, unless an ioctl did
 *
 * All is protected by ctx->lock.
 */
struct ctx_timeout {
	union {
		struct hwtimer_timeout	timeout;
#ifdef CONFIG_64BIT
		struct ctx_done		done;
#endif
	};
#ifndef CONFIG_64BIT
	struct ctx_done			done;
#endif
	union {
		u64			user_data;
		struct ctx_period	*period;
	};
	u64				tag : 40;
	u8				state : 3;
	u8				kind : 4;
	u8				periodic : 1;
	u16				entry;
} __aligned(64);

static_assert(sizeof(struct ctx_timeout) == 64);
static_assert(ID_INDEX_BITS + 40 == 64);
#ifdef CONFIG_64BIT
static_assert(sizeof(struct ctx_done) <= sizeof(struct list_head) &&
	      !offsetof(struct hwtimer_timeout, node));
#endif

/**
 * struct ctx_page - timeouts with consecutive indexes, and what they have in common
 * @ctx: the context; constant
 * @spare: without rings, if @free is not 0: links the page into ctx->spare
 * @ended_node: if @ended is not 0: links the page into ctx->ended_pages
 * @free: without rings: bitmap of the timeouts that may be used
 * @held: once the page is out of the table: released timeouts that the wheel may still hold, plus
 *	one until all have been released
 * @ended: bitmap of the timeouts in TIMEOUT_DONE that are not periodic and did not expire. The
 *	wheel may still hold them, so they cannot be on ctx->done
 * @first: index of the first timeout; constant while the page is in the table
 * @nr: without rings, and once the page is out of the table: how many timeouts are charged. With
 *	rings, those with an index below ctx->table.nr are
 * @timeouts: the timeouts
 *
 * Protected by ctx->lock while the page is in the table.
 */
struct ctx_page {
	struct hwtimer_ctx	*ctx;
	struct list_head	spare;
	struct list_head	ended_node;
	union {
		u64		free;
		refcount_t	held;
	};
	u64			ended;
	u32			first;
	u32			nr;
	struct ctx_timeout	timeouts[PAGE_TIMEOUTS];
};

static_assert(sizeof(struct ctx_page) == TABLE_PAGE);

/**
 * struct ctx_table - the timeouts of a context
 * @segments: arrays of pages, by page number. Without rings, a page that was given back has left a
 *	hole, see hwtimer_table_hole()
 * @nr: indexes below this may be used. Changed under ctx->lock
 * @numbers: page numbers below this are in use or holes
 * @hole: number of the hole that was made last, plus 1; 0: there is none
 */
struct ctx_table {
	struct ctx_page		**segments[TABLE_SEGMENTS];
	u32			nr;
	u32			numbers;
	u32			hole;
};

/* The page of a timeout: kmalloc() aligns it to its size. */
static inline struct ctx_page *hwtimer_page_of(const struct ctx_timeout *ct)
{
	return (struct ctx_page *)((unsigned long)ct & ~(TABLE_PAGE - 1UL));
}

static inline u64 hwtimer_page_bit(const struct ctx_timeout *ct)
{
	return BIT_ULL(ct - hwtimer_page_of(ct)->timeouts);
}

/* The current id of a timeout. */
static inline u64 hwtimer_id_of(const struct ctx_timeout *ct)
{
	const struct ctx_page *page = hwtimer_page_of(ct);

	return (u64)ct->tag << ID_INDEX_BITS | (page->first + (ct - page->timeouts));
}

/* Where the table has the page with this number. */
static inline struct ctx_page **hwtimer_table_slot(const struct ctx_table *table, u32 number)
{
	u32 at = number + TABLE_FIRST;
	unsigned int segment = fls(at) - fls(TABLE_FIRST);

	return &table->segments[segment][at - (TABLE_FIRST << segment)];
}

/* The page with this number, which is below @table->numbers; NULL if there is a hole. */
static inline struct ctx_page *hwtimer_table_page(const struct ctx_table *table, u32 number)
{
	struct ctx_page *page = *hwtimer_table_slot(table, number);

	return (unsigned long)page & 1 ? NULL : page;
}

/* The timeout with this index, which a program chose; or NULL. */
static inline struct ctx_timeout *hwtimer_table_find(const struct ctx_table *table, u32 index)
{
	struct ctx_page *page;

	if (index >= table->nr)
		return NULL;
	index = array_index_nospec(index, table->nr);
	page = hwtimer_table_page(table, index / PAGE_TIMEOUTS);
	return page ? &page->timeouts[index % PAGE_TIMEOUTS] : NULL;
}

/* May sleep. */
int hwtimer_table_extend(struct ctx_table *table, struct hwtimer_ctx *ctx, u32 nr);
void hwtimer_table_trim(struct ctx_table *table);
struct ctx_page *hwtimer_page_alloc(struct hwtimer_ctx *ctx);
int hwtimer_table_prepare(struct ctx_table *table);

/* Called under ctx->lock. */
void hwtimer_table_insert(struct ctx_table *table, struct ctx_page *page);
bool hwtimer_table_hole(struct ctx_table *table, const struct ctx_page *page);

/* For pages that are not in the table. */
void hwtimer_page_release(struct ctx_page *page, hwtimer_released_fn_t released);
bool hwtimer_page_put(struct ctx_page *page, struct hwtimer_user *user);

#endif /* DEV_TABLE_H */
