/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cases for both kinds of wheel: the fixture "context" has a variant on the shared wheel, and one
 * on an own wheel with OWN_TICK_NS and OWN_SLOTS, which the including file defines.
 */
#ifndef WHEELS_H
#define WHEELS_H

#include "hwt.h"

static int open_context(bool own)
{
	int fd = must_open(0);

	if (own && hwt_own_wheel(fd, OWN_TICK_NS, OWN_SLOTS, 0))
		die("no wheel");
	return fd;
}

FIXTURE(context)
{
	int fd;
	__u64 tick_ns;
};

FIXTURE_VARIANT(context)
{
	bool own;
};

FIXTURE_VARIANT_ADD(context, shared)
{
};

FIXTURE_VARIANT_ADD(context, own)
{
	.own = true,
};

FIXTURE_SETUP(context)
{
	self->fd = open_context(variant->own);
	self->tick_ns = variant->own ? OWN_TICK_NS : must_get_parameter("tick_ns");
}

FIXTURE_TEARDOWN(context)
{
	struct hwtimer_stats s = must_stats(self->fd);

	EXPECT_TRUE(balanced(&s));
	close(self->fd);
}

#endif /* WHEELS_H */
