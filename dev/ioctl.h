/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what dev/file.c and dev/uring.c call in dev/ioctl.c.
 */
#ifndef DEV_IOCTL_H
#define DEV_IOCTL_H

#include <linux/compiler.h>
#include <linux/types.h>

struct file;
struct hwtimer_ctx;
struct hwtimer_wheel;

long hwtimer_dev_command(struct file *file, unsigned int cmd, void __user *uarg, bool uring);
long hwtimer_dev_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
void hwtimer_free_own_wheel(struct hwtimer_ctx *ctx, struct hwtimer_wheel *wheel);

#endif /* DEV_IOCTL_H */
