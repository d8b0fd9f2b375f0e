/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: init and exit of /dev/hwtimer.
 */
#ifndef DEV_FILE_H
#define DEV_FILE_H

int hwtimer_dev_init(void);
void hwtimer_dev_exit(void);

#endif /* DEV_FILE_H */
