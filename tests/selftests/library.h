/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Handles of libhwtimer, for tests of the library.
 */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "guest.h"

#include <libhwtimer.h>

/* Deadlines are multiples of this. */
#define UNIT	65536ULL

#define ROUND_UP(ns)	(((ns) + UNIT - 1) / UNIT * UNIT)

static inline struct hwtimer *must_open(struct hwtimer_options o)
{
	struct hwtimer *h;
	int ret;

	o.size = sizeof(o);
	ret = hwtimer_open(&h, &o);
	if (ret)
		die("hwtimer_open: %s", strerror(-ret));
	return h;
}

#define MUST_OPEN(...)	must_open((struct hwtimer_options){ .flags = __VA_ARGS__ })

/* The next event, which has to come. */
static inline struct hwtimer_event must_wait(struct hwtimer *h)
{
	struct hwtimer_event e;
	int ret = hwtimer_wait(h, &e, -1);

	if (ret != 1)
		die("hwtimer_wait: %d", ret);
	if (e.pad || (e.kind == HWTIMER_KIND_EXPIRED && e.taken_ns < e.deadline_ns))
		die("early");
	return e;
}

/* The variants of a fixture for what only handles on the device have. */
#define ON_DEVICE(fixture)							\
FIXTURE_VARIANT(fixture)							\
{										\
	unsigned int flags;							\
};										\
FIXTURE_VARIANT_ADD(fixture, one) { .flags = HWTIMER_OPEN_DEVICE };		\
FIXTURE_VARIANT_ADD(fixture, threads)						\
{										\
	.flags = HWTIMER_OPEN_DEVICE | HWTIMER_OPEN_THREADS,			\
}

#endif /* LIBRARY_H */
