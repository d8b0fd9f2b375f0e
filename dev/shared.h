/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the wheels that contexts of /dev/hwtimer share.
 */
#ifndef DEV_SHARED_H
#define DEV_SHARED_H

struct hwtimer_shared;
struct hwtimer_user;
struct hwtimer_wheel;

int hwtimer_shared_init(void);
void hwtimer_shared_exit(void);
struct hwtimer_shared *hwtimer_shared_get(struct hwtimer_user *user);
void hwtimer_shared_put(struct hwtimer_shared *shared);
struct hwtimer_wheel *hwtimer_shared_wheel(const struct hwtimer_shared *shared);

#endif /* DEV_SHARED_H */
