/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what dev/file.c calls in dev/uring.c.
 */
#ifndef DEV_URING_H
#define DEV_URING_H

#include <linux/stddef.h>

#ifdef CONFIG_IO_URING
struct io_uring_cmd;

int hwtimer_dev_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);
#else
#define hwtimer_dev_uring_cmd	NULL
#endif

#endif /* DEV_URING_H */
