// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: delays between the steps of the protocol, for the torture test only.
 */
#include <linux/compiler.h>
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>

#include "../../core/hwtimer_step.h"

/* A Weyl sequence for each CPU: a step is one instruction, in any context. */
static DEFINE_PER_CPU(u32, weyl);

static u32 draw(void)
{
	return hash_32(this_cpu_add_return(weyl, 0x9e3779b9), 32);
}

/* Long delays are rare, so that work gets done, but frequent for 50 ms in every 800 ms. */
static bool rough(void)
{
	return jiffies / (HZ / 20) % 16 == 0;
}

/**
 * hwtimer_step - wait for a random time, usually none
 *
 * Context: Any context.
 */
void hwtimer_step(void)
{
	u32 random = draw(), dice = random % 2048, n = random >> 16;

	if (dice < 1536)
		return;
	if (dice < 1900) {
		/* A few instructions. Not cpu_relax(): it makes QEMU leave its emulation loop. */
		for (n %= 512; n; n--)
			barrier();
	} else if (dice < (rough() ? 2000 : 2046)) {
		/* as long as an interrupt, or a whole operation */
		udelay(1 + n % 32);
	} else {
		/* as long as a worker takes to go to sleep, or to wake up */
		udelay(50 + n % 512);
	}
}

/**
 * hwtimer_step_stall - like hwtimer_step(), but sometimes wait for long
 *
 * For steps of a producer that other tasks wait for.
 *
 * Context: Any context.
 */
void hwtimer_step_stall(void)
{
	u32 random = draw();

	if (random % (rough() ? 16 : 2048))
		hwtimer_step();
	else
		mdelay(1 + (random >> 16) % 12);
}

/**
 * hwtimer_step_locked - the same as hwtimer_step()
 *
 * Context: Any context.
 */
void hwtimer_step_locked(void)
{
	hwtimer_step();
}
