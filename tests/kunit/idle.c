// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite hwtimer_idle: what hwtimer_idle decides without a socket.
 */
#include <kunit/test.h>

#include "../../modules/hwtimer_idle.h"
#include "hwtimer_kunit.h"

static const struct {
	const char *what;
	struct idle_facts facts;
	bool turn;
} turns[] = {
	{ "nothing was ever sent", { 9, 9 }, true },
	{ "a request", { 9, 5, .received = true }, false },
	{ "a request within the jiffy of the handshake", { 9, 9, .received = true }, false },
	{ "a request in the SYN", { 8, 9, .received = true, .acked_last = true }, false },
	{ "a greeting", { 5, 9, .sent = true, .acked_last = true }, true },
	{ "a request and its answer", { 4, 5, .received = true, .sent = true }, true },
	{ "an answer, then a request", { 5, 4, .received = true, .sent = true,
					 .acked_last = true }, false },
	{ "a request and its answer in one jiffy", { 5, 5, .received = true, .sent = true,
						     .acked_last = true }, true },
	{ "an answer, then a request in one jiffy", { 5, 5, .received = true, .sent = true },
	  false },
	{ "an answer that is not acknowledged", { 4, 5, .received = true, .sent = true,
						  .unacked = true }, false },
	{ "a request that was not read", { 4, 5, .received = true, .sent = true,
					   .unread = true }, false },
	{ "a request half of the range of jiffies ago", { 1, 1U << 31, .received = true,
							  .sent = true }, true },
};

static void turn(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(turns); i++)
		KUNIT_EXPECT_EQ_MSG(test, turns[i].turn, idle_clients_turn(&turns[i].facts),
				    "%s", turns[i].what);
}

/* Data at the end of a jiffy, six ticks too late, is no later than that; nor than a segment. */
static void since(struct kunit *test)
{
	s64 base;

	for (base = -NSEC_PER_SEC; base <= (s64)NSEC_PER_SEC; base += NSEC_PER_SEC / 3) {
		u64 stamp = 1000000, latest = base + (stamp + 1 + 6) * TICK_NSEC;
		u64 us = latest / NSEC_PER_USEC;

		KUNIT_EXPECT_EQ(test, idle_since_ns(base, stamp, us + 1), latest);
		KUNIT_EXPECT_EQ(test, idle_since_ns(base, stamp, us - 1), us * NSEC_PER_USEC);
	}
}

static const struct {
	const char *text;
	struct idle_config config;	/* @port 0: refused */
} rules[] = {
	{ "11211:60", { 11211, 60000, HWTIMER_IDLE_LIMIT, HWTIMER_IDLE_SHUTDOWN, false } },
	{ "1:1:reset", { 1, 1000, HWTIMER_IDLE_LIMIT, HWTIMER_IDLE_RESET, false } },
	{ "65535:2592000:notify:any", { 65535, HWTIMER_IDLE_MAX_MS, HWTIMER_IDLE_LIMIT,
					HWTIMER_IDLE_NOTIFY, true } },
	{ "" }, { "1" }, { "1:" }, { ":1" }, { "0:1" }, { "65536:1" }, { "1:0" }, { "1:2592001" },
	{ "1:4294968" }, { "1:1:" }, { "1:1:drop" }, { "1:1:reset:" }, { "1:1:reset:all" },
	{ "1:1:reset:any:" }, { "1:1 " }, { "-1:1" },
};

static void parse(struct kunit *test)
{
	struct idle_config config;
	char text[64];
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		strscpy(text, rules[i].text, sizeof(text));
		ret = idle_config_parse(text, &config);
		KUNIT_EXPECT_EQ_MSG(test, ret, rules[i].config.port ? 0 : -EINVAL, "%s",
				    rules[i].text);
		if (ret)
			continue;
		KUNIT_EXPECT_EQ(test, config.port, rules[i].config.port);
		KUNIT_EXPECT_EQ(test, config.span_ms, rules[i].config.span_ms);
		KUNIT_EXPECT_EQ(test, config.limit, rules[i].config.limit);
		KUNIT_EXPECT_EQ(test, config.action, rules[i].config.action);
		KUNIT_EXPECT_EQ(test, config.any_silence, rules[i].config.any_silence);
	}
}

static struct kunit_case idle_cases[] = {
	KUNIT_CASE(turn),
	KUNIT_CASE(since),
	KUNIT_CASE(parse),
	{}
};

SUITE(idle, "idle");
