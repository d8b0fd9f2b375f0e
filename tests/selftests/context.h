/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Contexts of /dev/hwtimer of either kind, by calls or by a table.
 */
#ifndef CONTEXT_H
#define CONTEXT_H

#include "calls.h"

#include "../../lib/table.h"

/**
 * struct context - a context, whose timeouts have numbers from 0 on
 * @table: by a table
 * @t: its table; by calls, only its descriptor
 * @name: of each timeout: its arming, or by calls its id
 * @offset_ns: from the clock of this process to that of the context
 * @ended: STOP is near: who finds nothing does not wait again
 */
struct context {
	bool		table;
	struct table	t;
	__u64		*name;
	__s64		offset_ns;
	atomic_bool	ended;
};

/* Use a context that somebody else may have set up. */
static inline void context_adopt(struct context *c, int fd, __u32 timeouts)
{
	struct hwtimer_info info;
	int ret;

	if (ioctl(fd, HWTIMER_IOC_INFO, &info))
		die("INFO: %s", strerror(errno));
	*c = (struct context){
		.table = info.flags & HWTIMER_SETUP_TABLE,
		.t = { .fd = fd, .page = sysconf(_SC_PAGESIZE) },
		.name = calloc(timeouts, sizeof(*c->name)),
		.offset_ns = info.offset_ns,
	};
	ret = c->table ? table_map(&c->t) : 0;
	if (ret || !c->name)
		die("table: %s", strerror(-ret));
}

static inline void context_open(struct context *c, bool table, __u32 timeouts, __u64 tick_ns)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC,
		.flags = table ? HWTIMER_SETUP_TABLE : 0,
		.slots = timeouts,
		.tick_ns = tick_ns,
	};
	int fd = must_open(0);

	if (ioctl(fd, HWTIMER_IOC_SETUP, &setup))
		die("SETUP: %s", strerror(errno));
	context_adopt(c, fd, timeouts);
}

static inline void context_close(struct context *c)
{
	if (c->table)
		table_close(&c->t);
	close(c->t.fd);
	free(c->name);
}

static inline __u64 context_now(const struct context *c)
{
	return now_ns() + c->offset_ns;
}

static inline void arm_at(struct context *c, __u32 i, __u64 deadline_ns)
{
	struct hwtimer_schedule s = { .time = deadline_ns, .user_data = i };
	int ret;

	if (c->table) {
		table_store(&c->t.slot[i].user_data, i);
		c->name[i] = c->name[i] % TABLE_ARMING + 1;
		ret = table_arm(&c->t, i, table_word(deadline_ns, c->name[i]));
	} else {
		ret = hwt_ioctl(c->t.fd, HWTIMER_IOC_SCHEDULE, &s);
		c->name[i] = s.id;
	}
	if (ret)
		die("arm: %s", strerror(-ret));
}

static inline void arm(struct context *c, __u32 i, __u64 delay)
{
	arm_at(c, i, context_now(c) + delay);
}

/* False: somebody has taken it already. */
static inline bool touch(struct context *c, __u32 i, __u64 delay)
{
	struct hwtimer_touch touch = { .id = c->name[i], .time = context_now(c) + delay };
	int ret;

	if (c->table)
		ret = table_touch(&c->t, i, table_word(touch.time, c->name[i]));
	else
		ret = hwt_ioctl(c->t.fd, HWTIMER_IOC_TOUCH, &touch);
	if (ret && ret != -ENOENT)
		die("touch: %s", strerror(-ret));
	return !ret;
}

static inline bool cancel(struct context *c, __u32 i)
{
	struct hwtimer_cancel cancel = { .id = c->name[i] };
	int ret;

	if (c->table)
		ret = table_cancel(&c->t, i, c->name[i]);
	else
		ret = hwt_ioctl(c->t.fd, HWTIMER_IOC_CANCEL, &cancel);
	if (ret && ret != -ENOENT)
		die("cancel: %s", strerror(-ret));
	return !ret;
}

#endif /* CONTEXT_H */
