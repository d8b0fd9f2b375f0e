/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what dev/file.c calls in dev/ioctl.c.
 */
#ifndef DEV_IOCTL_H
#define DEV_IOCTL_H

struct file;
struct hwtimer_ctx;
struct hwtimer_wheel;

long hwtimer_dev_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
void hwtimer_free_own_wheel(struct hwtimer_ctx *ctx, struct hwtimer_wheel *wheel);

#endif /* DEV_IOCTL_H */
