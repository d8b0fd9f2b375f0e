/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the device as the module's init and exit know it.
 */
#ifndef HWTIMER_DEV_H
#define HWTIMER_DEV_H

int hwtimer_dev_init(void);
void hwtimer_dev_exit(void);

#endif /* HWTIMER_DEV_H */
