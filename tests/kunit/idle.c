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

/* The latest time of the last data, by who sent what, by the clock and by jiffies. */
static void since(struct kunit *test)
{
	struct idle_times t = { .jiffy = 1000 * TICK_NSEC };
	struct idle_facts f = { .since_sent = 5, .since_received = 5 };

	/* The client's data came at the end of its jiffy, which was handled 6 ticks late. */
	t.segment = t.jiffy + (1 + 6) * TICK_NSEC + 1;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), 0);
	f.received = true;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.segment - 1);
	t.segment -= 2;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.segment);

	/* The server answered in the same jiffy, one that lasted a second; then in the next. */
	f.sent = true;
	t.sent = t.jiffy + NSEC_PER_SEC;
	t.segment = t.sent + NSEC_PER_SEC;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.sent + (1 + 6) * TICK_NSEC);
	t.segment = t.sent + 1;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.segment);
	f.since_sent--;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.sent);
	f.received = false;
	f.since_sent++;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.sent);

	/* It last answered 2^32 jiffies ago. */
	f.received = true;
	f.since_sent--;
	t.sent = t.jiffy - (1 + 6) * TICK_NSEC - 1;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.sent + 1);
	f.since_sent++;
	f.received = false;

	/* What is not acknowledged was sent after @sent. */
	f.unacked = true;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.jiffy + (1 + 6) * TICK_NSEC);
	f.unacked = false;
	f.received = true;
	f.sent_again = true;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.jiffy + (1 + 6) * TICK_NSEC);
	f.sent_again = false;
	f.gap = true;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.segment);
	f.gap = false;
	f.since_received -= 2;
	KUNIT_EXPECT_EQ(test, idle_since_ns(&f, &t), t.jiffy + (1 + 6) * TICK_NSEC);
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
