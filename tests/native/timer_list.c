// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the kernel's timer.c, for the benchmark, from where the kernel's source is unpacked.
 */
#include "timer_list.h"

#include <native_timer.h>

#include <kernel_timer.c>

void timer_list_begin(void)
{
	size_t size = __stop_native_percpu - __start_native_percpu;
	unsigned int cpu;

	for (cpu = 1; cpu < nr_cpu_ids; cpu++)
		native_percpu_offset[cpu] = (char *)native_alloc(size) - __start_native_percpu;
	init_timers();
}

/* Let the timers of this CPU expire. */
void timer_list_run(void)
{
	native_timer_softirq();
}
