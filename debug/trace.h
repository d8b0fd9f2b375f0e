/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: tracepoints, /sys/kernel/tracing/events/hwtimer/. After trace/events/timer.h.
 *
 * The function of a timeout is its owner's, even if it is periodic or a work item. Times are in
 * ns on the wheel's clock; ticks are counted from the start of the wheel.
 *
 * An operation is traced when it is complete. The worker may run before that on another CPU, so
 * the trace may show an expiry before the arming.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hwtimer

#if !defined(HWTIMER_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define HWTIMER_TRACE_H

#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/types.h>

#include "../core/hwtimer_types.h"

#define HWTIMER_TRACE_NAME_LEN	48

/* What was found in a look at a timeout of /dev/hwtimer: not armed; for later; due. */
#define HWTIMER_LOOK_NOTHING	0
#define HWTIMER_LOOK_FILED	1
#define HWTIMER_LOOK_DUE	2

/**
 * hwtimer_wheel_create - a wheel was created
 * @wheel: the wheel, as in other events
 * @name: its name in debugfs
 * @tick_ns: its tick
 * @slots: slots of the lowest level
 * @levels: number of levels
 */
TRACE_EVENT(hwtimer_wheel_create,

	TP_PROTO(const void *wheel, const char *name, u64 tick_ns, unsigned int slots,
		 unsigned int levels),

	TP_ARGS(wheel, name, tick_ns, slots, levels),

	TP_STRUCT__entry(
		__field(const void *, wheel)
		__array(char, name, HWTIMER_TRACE_NAME_LEN)
		__field(u64, tick_ns)
		__field(unsigned int, slots)
		__field(unsigned int, levels)
	),

	TP_fast_assign(
		__entry->wheel = wheel;
		strscpy(__entry->name, name, HWTIMER_TRACE_NAME_LEN);
		__entry->tick_ns = tick_ns;
		__entry->slots = slots;
		__entry->levels = levels;
	),

	TP_printk("wheel=%p name=%s tick_ns=%llu slots=%u levels=%u", __entry->wheel,
		  __entry->name, __entry->tick_ns, __entry->slots, __entry->levels)
);

/**
 * hwtimer_init - a timeout was initialised
 * @timeout: the timeout
 * @wheel: its wheel
 * @function: its function; here, for periodic timeouts and work items, the one that calls the
 *	owner's
 */
TRACE_EVENT(hwtimer_init,

	TP_PROTO(const struct hwtimer_timeout *timeout, const void *wheel,
		 const void *function),

	TP_ARGS(timeout, wheel, function),

	TP_STRUCT__entry(
		__field(const void *, timeout)
		__field(const void *, wheel)
		__field(const void *, function)
	),

	TP_fast_assign(
		__entry->timeout = timeout;
		__entry->wheel = wheel;
		__entry->function = function;
	),

	TP_printk("timeout=%p wheel=%p function=%ps", __entry->timeout, __entry->wheel,
		  __entry->function)
);

DECLARE_EVENT_CLASS(hwtimer_deadline,

	TP_PROTO(const struct hwtimer_timeout *timeout, const void *wheel,
		 const void *function, u64 deadline, int ret),

	TP_ARGS(timeout, wheel, function, deadline, ret),

	TP_STRUCT__entry(
		__field(const void *, timeout)
		__field(const void *, wheel)
		__field(const void *, function)
		__field(u64, deadline)
		__field(int, ret)
	),

	TP_fast_assign(
		__entry->timeout = timeout;
		__entry->wheel = wheel;
		__entry->function = function;
		__entry->deadline = deadline;
		__entry->ret = ret;
	),

	TP_printk("timeout=%p wheel=%p function=%ps deadline=%llu ret=%d", __entry->timeout,
		  __entry->wheel, __entry->function, __entry->deadline, __entry->ret)
);

/**
 * hwtimer_arm - a timeout was armed, or arming failed
 * @timeout: the timeout; it may be freed
 * @wheel: its wheel
 * @function: its function
 * @deadline: its deadline
 * @ret: what hwtimer_schedule_at() returns
 */
DEFINE_EVENT(hwtimer_deadline, hwtimer_arm,
	TP_PROTO(const struct hwtimer_timeout *timeout, const void *wheel,
		 const void *function, u64 deadline, int ret),
	TP_ARGS(timeout, wheel, function, deadline, ret)
);

/**
 * hwtimer_touch - a timeout was touched, or the touch failed
 * @timeout: the timeout; it may be freed
 * @wheel: its wheel
 * @function: its function
 * @deadline: the new deadline
 * @ret: what hwtimer_touch_at() returns
 */
DEFINE_EVENT(hwtimer_deadline, hwtimer_touch,
	TP_PROTO(const struct hwtimer_timeout *timeout, const void *wheel,
		 const void *function, u64 deadline, int ret),
	TP_ARGS(timeout, wheel, function, deadline, ret)
);

/**
 * hwtimer_cancel - any of the functions that end a timeout was called
 * @timeout: the timeout; it may be freed
 * @wheel: its wheel
 * @function: its function
 * @ret: 1: it was pending; 0: it was not; or -errno
 */
TRACE_EVENT(hwtimer_cancel,

	TP_PROTO(const struct hwtimer_timeout *timeout, const void *wheel,
		 const void *function, int ret),

	TP_ARGS(timeout, wheel, function, ret),

	TP_STRUCT__entry(
		__field(const void *, timeout)
		__field(const void *, wheel)
		__field(const void *, function)
		__field(int, ret)
	),

	TP_fast_assign(
		__entry->timeout = timeout;
		__entry->wheel = wheel;
		__entry->function = function;
		__entry->ret = ret;
	),

	TP_printk("timeout=%p wheel=%p function=%ps ret=%d", __entry->timeout, __entry->wheel,
		  __entry->function, __entry->ret)
);

/**
 * hwtimer_worker_wake - the worker woke up
 * @wheel: its wheel
 */
TRACE_EVENT(hwtimer_worker_wake,

	TP_PROTO(const void *wheel),

	TP_ARGS(wheel),

	TP_STRUCT__entry(
		__field(const void *, wheel)
	),

	TP_fast_assign(
		__entry->wheel = wheel;
	),

	TP_printk("wheel=%p", __entry->wheel)
);

/**
 * hwtimer_drain - the worker took requests from the queues
 * @wheel: the wheel
 * @requests: how many, in this call of queue_advance()
 */
TRACE_EVENT(hwtimer_drain,

	TP_PROTO(const void *wheel, unsigned long requests),

	TP_ARGS(wheel, requests),

	TP_STRUCT__entry(
		__field(const void *, wheel)
		__field(unsigned long, requests)
	),

	TP_fast_assign(
		__entry->wheel = wheel;
		__entry->requests = requests;
	),

	TP_printk("wheel=%p requests=%lu", __entry->wheel, __entry->requests)
);

/**
 * hwtimer_file - the worker put a timeout into a bucket
 * @timeout: the timeout
 * @wheel: its wheel
 * @tick: the tick for which it was filed
 * @level: the level of the bucket
 */
TRACE_EVENT(hwtimer_file,

	TP_PROTO(const struct hwtimer_timeout *timeout, const void *wheel, u64 tick,
		 unsigned int level),

	TP_ARGS(timeout, wheel, tick, level),

	TP_STRUCT__entry(
		__field(const void *, timeout)
		__field(const void *, wheel)
		__field(u64, tick)
		__field(unsigned int, level)
	),

	TP_fast_assign(
		__entry->timeout = timeout;
		__entry->wheel = wheel;
		__entry->tick = tick;
		__entry->level = level;
	),

	TP_printk("timeout=%p wheel=%p tick=%llu level=%u", __entry->timeout, __entry->wheel,
		  __entry->tick, __entry->level)
);

/**
 * hwtimer_expire_entry - the worker is about to run a callback
 * @timeout: the timeout
 * @wheel: its wheel
 * @function: its function
 * @deadline: the deadline that was reached
 * @now: the current time
 */
TRACE_EVENT(hwtimer_expire_entry,

	TP_PROTO(const struct hwtimer_timeout *timeout, const void *wheel,
		 const void *function, u64 deadline, u64 now),

	TP_ARGS(timeout, wheel, function, deadline, now),

	TP_STRUCT__entry(
		__field(const void *, timeout)
		__field(const void *, wheel)
		__field(const void *, function)
		__field(u64, deadline)
		__field(u64, now)
	),

	TP_fast_assign(
		__entry->timeout = timeout;
		__entry->wheel = wheel;
		__entry->function = function;
		__entry->deadline = deadline;
		__entry->now = now;
	),

	TP_printk("timeout=%p wheel=%p function=%ps deadline=%llu now=%llu", __entry->timeout,
		  __entry->wheel, __entry->function, __entry->deadline, __entry->now)
);

/**
 * hwtimer_expire_exit - a callback has returned
 * @timeout: the timeout; it may be freed
 * @wheel: its wheel
 */
TRACE_EVENT(hwtimer_expire_exit,

	TP_PROTO(const struct hwtimer_timeout *timeout, const void *wheel),

	TP_ARGS(timeout, wheel),

	TP_STRUCT__entry(
		__field(const void *, timeout)
		__field(const void *, wheel)
	),

	TP_fast_assign(
		__entry->timeout = timeout;
		__entry->wheel = wheel;
	),

	TP_printk("timeout=%p wheel=%p", __entry->timeout, __entry->wheel)
);

/**
 * hwtimer_worker_sleep - the worker is about to sleep
 * @wheel: its wheel
 * @until: when it wakes up; U64_MAX: only when it is kicked
 */
TRACE_EVENT(hwtimer_worker_sleep,

	TP_PROTO(const void *wheel, u64 until),

	TP_ARGS(wheel, until),

	TP_STRUCT__entry(
		__field(const void *, wheel)
		__field(u64, until)
	),

	TP_fast_assign(
		__entry->wheel = wheel;
		__entry->until = until;
	),

	TP_printk("wheel=%p until=%llu", __entry->wheel, __entry->until)
);

/**
 * hwtimer_wheel_stop - a wheel was stopped
 * @wheel: the wheel
 * @handed_back: how many timeouts were pending
 */
TRACE_EVENT(hwtimer_wheel_stop,

	TP_PROTO(const void *wheel, unsigned long handed_back),

	TP_ARGS(wheel, handed_back),

	TP_STRUCT__entry(
		__field(const void *, wheel)
		__field(unsigned long, handed_back)
	),

	TP_fast_assign(
		__entry->wheel = wheel;
		__entry->handed_back = handed_back;
	),

	TP_printk("wheel=%p handed_back=%lu", __entry->wheel, __entry->handed_back)
);

/**
 * hwtimer_context_setup - a program did SETUP on /dev/hwtimer
 * @ctx: the context, as in debugfs and fdinfo
 * @kind: "calls" or "table"
 * @tick_ns: its tick
 * @slots: how many timeouts there may be
 */
TRACE_EVENT(hwtimer_context_setup,

	TP_PROTO(u64 ctx, const char *kind, u64 tick_ns, u32 slots),

	TP_ARGS(ctx, kind, tick_ns, slots),

	TP_STRUCT__entry(
		__field(u64, ctx)
		__array(char, kind, 8)
		__field(u64, tick_ns)
		__field(u32, slots)
	),

	TP_fast_assign(
		__entry->ctx = ctx;
		strscpy(__entry->kind, kind, 8);
		__entry->tick_ns = tick_ns;
		__entry->slots = slots;
	),

	TP_printk("ctx=%llu kind=%s tick_ns=%llu slots=%u", __entry->ctx, __entry->kind,
		  __entry->tick_ns, __entry->slots)
);

/**
 * hwtimer_context_look - the kernel looked at a timeout of a context
 * @ctx: the context
 * @id: its id; in a table, the index of its slot
 * @deadline: its deadline on the clock of the context
 * @found: HWTIMER_LOOK_*
 */
TRACE_EVENT(hwtimer_context_look,

	TP_PROTO(u64 ctx, u64 id, u64 deadline, int found),

	TP_ARGS(ctx, id, deadline, found),

	TP_STRUCT__entry(
		__field(u64, ctx)
		__field(u64, id)
		__field(u64, deadline)
		__field(int, found)
	),

	TP_fast_assign(
		__entry->ctx = ctx;
		__entry->id = id;
		__entry->deadline = deadline;
		__entry->found = found;
	),

	TP_printk("ctx=%llu id=%#llx deadline=%llu found=%s", __entry->ctx, __entry->id,
		  __entry->deadline,
		  __print_symbolic(__entry->found, { HWTIMER_LOOK_NOTHING, "nothing" },
				   { HWTIMER_LOOK_FILED, "filed" }, { HWTIMER_LOOK_DUE, "due" }))
);

/**
 * hwtimer_context_slice - a slice of the work for a context is done
 * @ctx: the context
 * @looks: at how many timeouts it looked
 * @records: how many of them were due
 * @next: the tick at which the next slice has to run; 0: at once; U64_MAX: none
 */
TRACE_EVENT(hwtimer_context_slice,

	TP_PROTO(u64 ctx, unsigned int looks, unsigned int records, u64 next),

	TP_ARGS(ctx, looks, records, next),

	TP_STRUCT__entry(
		__field(u64, ctx)
		__field(unsigned int, looks)
		__field(unsigned int, records)
		__field(u64, next)
	),

	TP_fast_assign(
		__entry->ctx = ctx;
		__entry->looks = looks;
		__entry->records = records;
		__entry->next = next;
	),

	TP_printk("ctx=%llu looks=%u records=%u next=%llu", __entry->ctx, __entry->looks,
		  __entry->records, __entry->next)
);

DECLARE_EVENT_CLASS(hwtimer_context,

	TP_PROTO(u64 ctx),

	TP_ARGS(ctx),

	TP_STRUCT__entry(
		__field(u64, ctx)
	),

	TP_fast_assign(
		__entry->ctx = ctx;
	),

	TP_printk("ctx=%llu", __entry->ctx)
);

/**
 * hwtimer_context_timer - the timer of a context went off, and wakes those who wait for it
 * @ctx: the context
 */
DEFINE_EVENT(hwtimer_context, hwtimer_context_timer,
	TP_PROTO(u64 ctx),
	TP_ARGS(ctx)
);

/**
 * hwtimer_context_stop - a program stopped a context
 * @ctx: the context
 */
DEFINE_EVENT(hwtimer_context, hwtimer_context_stop,
	TP_PROTO(u64 ctx),
	TP_ARGS(ctx)
);

/**
 * hwtimer_context_close - the last descriptor of a context was closed
 * @ctx: the context
 */
DEFINE_EVENT(hwtimer_context, hwtimer_context_close,
	TP_PROTO(u64 ctx),
	TP_ARGS(ctx)
);

#endif /* HWTIMER_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
