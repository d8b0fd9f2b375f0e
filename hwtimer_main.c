// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: initialisation and exit of the module.
 */
#include <linux/module.h>
#include <linux/notifier.h>

#include "debug/odebug.h"
#include "dev/device.h"
#include "core/hwtimer_driver.h"

static int module_changed(struct notifier_block *nb, unsigned long state, void *module)
{
	/* After its exit function, or after its init function has failed. */
	if (state == MODULE_STATE_GOING)
		hwtimer_wheels_forgotten(module);
	return NOTIFY_OK;
}

static struct notifier_block module_notifier = { .notifier_call = module_changed };

static int __init hwtimer_module_init(void)
{
	int ret;

	hwtimer_worker_init(hwtimer_work_dispatch);
	if (IS_ENABLED(CONFIG_DEBUG_OBJECTS))
		hwtimer_fixup_init();
	hwtimer_debugfs_init();
	ret = register_module_notifier(&module_notifier);
	if (ret)
		goto exit;
	ret = hwtimer_device_init();
	if (!ret)
		return 0;
	unregister_module_notifier(&module_notifier);
exit:
	hwtimer_debugfs_exit();
	return ret;
}
module_init(hwtimer_module_init);

static void __exit hwtimer_module_exit(void)
{
	hwtimer_device_exit();
	unregister_module_notifier(&module_notifier);
	hwtimer_debugfs_exit();
}
module_exit(hwtimer_module_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(HWTIMER_VERSION);
MODULE_DESCRIPTION("Hashed timing wheel for approximate timeouts");
MODULE_AUTHOR("The hwtimer authors");
