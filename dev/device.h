/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HWTIMER_DEV_DEVICE_H
#define HWTIMER_DEV_DEVICE_H

int hwtimer_device_init(void);
void hwtimer_device_exit(void);

#endif /* HWTIMER_DEV_DEVICE_H */
