/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the ioctls as the device's file operations know them.
 */
#ifndef DEV_IOCTL_H
#define DEV_IOCTL_H

struct file;
struct hwtimer_ctx;
struct hwtimer_wheel;

long hwtimer_dev_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
void hwtimer_free_own_wheel(struct hwtimer_ctx *ctx, struct hwtimer_wheel *wheel);

#endif /* DEV_IOCTL_H */
