/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: the wheels that a KUnit case makes, for its exit function to destroy.
 */
#ifndef KUNIT_WHEELS_H
#define KUNIT_WHEELS_H

#include <kunit/test.h>

#include "../../hwtimer.h"

#define MAX_WHEELS	60

/* The data of a case (test->priv). */
struct bench {
	struct hwtimer_wheel	*wheels[MAX_WHEELS];
	/* of suite hwtimer_work: a workqueue that runs one item at a time */
	struct workqueue_struct	*single;
};

static inline struct hwtimer_wheel *keep(struct kunit *test, struct hwtimer_wheel *wheel)
{
	struct bench *bench = test->priv;
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, wheel);
	for (i = 0; i < MAX_WHEELS; i++) {
		if (!bench->wheels[i]) {
			bench->wheels[i] = wheel;
			return wheel;
		}
	}
	KUNIT_FAIL(test, "too many wheels");
	return wheel;
}

static inline void unmake(struct kunit *test, struct hwtimer_wheel *wheel)
{
	struct bench *bench = test->priv;
	unsigned int i;

	for (i = 0; i < MAX_WHEELS; i++)
		if (bench->wheels[i] == wheel)
			bench->wheels[i] = NULL;
	hwtimer_wheel_destroy(wheel);
}

#endif /* KUNIT_WHEELS_H */
