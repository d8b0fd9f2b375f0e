// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libhwtimer: the wheel of the module, for process.c.
 */
#define HWTIMER_WHEEL_SHIM	"hwtimer_wheel_shim.h"
#include "../hwtimer_wheel.c"
