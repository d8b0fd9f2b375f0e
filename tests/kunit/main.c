// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the module of the KUnit suites.
 */
#include <linux/module.h>
#include <linux/random.h>

#include "hwtimer_kunit.h"

static ulong seed;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "seed of the randomised suites; 0: a new one each time (default 0)");

u64 hwtimer_kunit_seed(void)
{
	u64 used = seed ?: get_random_u32();

	pr_info("hwtimer_kunit: seed=%llu\n", used);
	return used;
}

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit suites of hwtimer");
MODULE_AUTHOR("The hwtimer authors");
/* MODULE_IMPORT_NS() takes a string since 6.13, before that a bare word. */
MODULE_INFO(import_ns, "EXPORTED_FOR_KUNIT_TESTING");
