// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
#include <stdio.h>

#include "due.h"

bool schedule_parse(struct schedule *s, const char *cron, const char *zone, char *why, size_t size)
{
	if (!cron_parse(&s->cron, cron, why, size))
		return false;
	if (!zone)
		return true;
	s->zone = g_time_zone_new_identifier(zone);
	if (!s->zone)
		snprintf(why, size, "there is no time zone '%s'", zone);
	return s->zone;
}

void schedule_clear(struct schedule *s)
{
	if (s->zone)
		g_time_zone_unref(s->zone);
	s->zone = NULL;
}

__s64 schedule_next(const struct schedule *s, __s64 due, __s64 after)
{
	GTimeZone *zone;
	time_t next;

	if (s->once)
		return NEVER;
	if (s->every)
		return due + ((after - due) / s->every + 1) * s->every;
	/* Not the one of before: somebody may have changed it. */
	zone = s->zone ? g_time_zone_ref(s->zone) : g_time_zone_new_local();
	next = cron_next(&s->cron, zone, after / NS_PER_S);
	g_time_zone_unref(zone);
	return next < 0 ? NEVER : next * NS_PER_S;
}

/* The finalizer of SplitMix64 */
static __u64 mix(__u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

__s64 jitter_of(__s64 job, __s64 due, __s64 jitter)
{
	return mix(mix(job) + due) % (jitter + 1);
}

struct plan plan_due(const struct schedule *s, enum misfire misfire, __s64 due, __s64 now,
		     __s64 tolerance)
{
	bool misfired = now - due > tolerance;
	struct plan plan = {
		.cause = misfired ? "misfire" : due < now ? "late" : "due",
		.run = !misfired || misfire != MISFIRE_NOTHING,
		.missed = NEVER, .next = schedule_next(s, due, due),
	};

	if (s->from_end) {
		/* If it is not run, this is the end. */
		plan.missed = plan.run ? NEVER : due;
		plan.next = plan.run ? NEVER : now + s->every;
		return plan;
	}
	if (!plan.run)
		plan.missed = due;
	else if (misfire != MISFIRE_ALL && plan.next != NEVER && plan.next < now)
		plan.missed = plan.next;
	if (plan.missed != NEVER)
		plan.next = schedule_next(s, plan.missed, now);
	return plan;
}

__s64 plan_again(const struct schedule *s, __s64 next, __s64 now, __s64 ran, __s64 change)
{
	__s64 after = s->first > now ? s->first - 1 : now;

	if (next == NEVER || s->once)
		return next;
	if (s->every)
		next += change;
	if (next <= now)
		return next;
	if (ran > after && !change)
		after = ran;
	if (!s->every)
		return schedule_next(s, next, after);
	/* If it was calculated by a wrong clock, it stays on its grid. */
	return next > after ? next - (next - after - 1) / s->every * s->every : next;
}
