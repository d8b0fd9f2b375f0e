// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: initialisation and exit of the module.
 */
#include <linux/module.h>

#include "debug/odebug.h"
#include "dev/file.h"
#include "core/hwtimer_driver.h"

static int __init hwtimer_module_init(void)
{
	int ret;

	wheel_module_init();
	hwtimer_worker_init(hwtimer_work_dispatch);
	hwtimer_fixup_init();
	ret = hwtimer_kthread_init();
	if (ret)
		return ret;
	hwtimer_debugfs_init();
	ret = hwtimer_dev_init();
	if (!ret)
		return 0;
	hwtimer_debugfs_exit();
	hwtimer_kthread_exit();
	return ret;
}
module_init(hwtimer_module_init);

static void __exit hwtimer_module_exit(void)
{
	hwtimer_dev_exit();
	hwtimer_debugfs_exit();
	hwtimer_kthread_exit();
}
module_exit(hwtimer_module_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(HWTIMER_VERSION);
MODULE_DESCRIPTION("Hashed timing wheel for approximate timeouts");
MODULE_AUTHOR("The hwtimer authors");
