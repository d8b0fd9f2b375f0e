/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: what the two files of KUnit suite hwtimer_interleave share.
 */
#ifndef INTERLEAVE_H
#define INTERLEAVE_H

#include <kunit/test.h>
#include <linux/compiler.h>
#include <linux/time64.h>
#include <linux/types.h>

#include "../../hwtimer_step.h"

#define TICK	((u64)NSEC_PER_MSEC)

/* Deadlines, in ticks from the beginning of the scene. */
enum { NOW = 0, SOON = 2, NEXT = 4, LATER = 8, HELD_UP = 12, LATEST = 20, NEVER = -1 };

static inline void unstage(void)
{
	WRITE_ONCE(hwtimer_step_hook, NULL);
}

/* interleave_work.c */
struct work_rig;
typedef void (*work_op_t)(struct work_rig *rig);

struct work_play {
	const char	*name;
	work_op_t	acts[3];
};

extern const struct work_play work_victims[5];
void work_item(struct kunit *test);

#endif /* INTERLEAVE_H */
