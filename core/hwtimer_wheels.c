// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: HWTIMER_IOC_WHEELS of /dev/hwtimer-table: the wheels of modules. As hwtimer_stats.c, for
 * the other of two headers that cannot be included together.
 */
#include <linux/string.h>

#include "hwtimer_driver.h"
#include "hwtimer_stats.h"
/* What programs know by this name is the limit of a context. */
#undef HWTIMER_MAX_SLOTS
#include "../uapi/linux/hwtimer_table.h"

static_assert(sizeof_field(struct hwtimer_driven, name) <=
	      sizeof_field(struct hwtimer_wheel_info, name));
static_assert(sizeof_field(struct hwtimer_wheel_info, module) >= MODULE_NAME_LEN);
static_assert(HWTIMER_LATE_BINS == HWTIMER_LATE);

/**
 * hwtimer_wheels_get - read the figures of the wheel of a module
 * @id: its id
 * @info: filled in
 *
 * Context: Process context, may sleep.
 *
 * Return: true; false: there is no such wheel, or it is one that /dev/hwtimer has made.
 */
bool hwtimer_wheels_get(u64 id, struct hwtimer_wheel_info *info)
{
	struct hwtimer_driven *driven = hwtimer_stats_find(id);
	bool of_module = driven && !driven->kind;
	struct queue_counts counts;
	int i;

	if (of_module) {
		queue_count(&driven->wheel, &counts);
		*info = (struct hwtimer_wheel_info){
			.tick_ns = driven->wheel.tick_ns,
			.pending = counts.pending,
			.armed = counts.armed,
			.touched = counts.touched,
			.cancelled = counts.cancelled,
			.expired = counts.expired,
			.handed_back = counts.handed_back,
		};
		for (i = 0; i < HWTIMER_LATE; i++)
			info->late[i] = local_read(&driven->monitor.late[i]);
		strscpy(info->name, driven->name, sizeof(info->name));
		strscpy(info->module, driven->module, sizeof(info->module));
	}
	if (driven)
		hwtimer_stats_put(driven);
	return of_module;
}
