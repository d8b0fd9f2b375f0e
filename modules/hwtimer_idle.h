/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer_idle: what can be decided without a socket, for hwtimer_idle.c and its KUnit suite.
 */
#ifndef HWTIMER_IDLE_H
#define HWTIMER_IDLE_H

#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>

#include "../uapi/linux/hwtimer_idle.h"

/**
 * struct idle_config - what a rule is asked to do
 * @port: the local port, in host byte order
 * @span_ms: for how long a connection may be idle
 * @limit: how many connections it watches at once
 * @action: enum hwtimer_idle_action
 * @any_silence: silence counts whosever turn it is
 */
struct idle_config {
	u16	port;
	u32	span_ms;
	u32	limit;
	u8	action;
	bool	any_silence;
};

/**
 * struct idle_facts - what TCP knows of the last exchange on a connection
 * @since_sent: jiffies since the server last sent data, or since the connection was established
 * @since_received: jiffies since data of the client last arrived, or since then
 * @received: the client has sent data
 * @sent: the server has sent data
 * @sent_again: it has sent some of it more than once
 * @gap: data of the client is queued behind some that is missing
 * @unread: data of the client is queued, in order or not; the server has not read it
 * @unacked: data of the server is queued, or not acknowledged
 * @acked_last: the acknowledgment of the server's last data came after all data of the client
 */
struct idle_facts {
	u32	since_sent;
	u32	since_received;
	bool	received;
	bool	sent;
	bool	sent_again;
	bool	gap;
	bool	unread;
	bool	unacked;
	bool	acked_last;
};

/*
 * Is it the client's turn: has the server had the last word? Jiffies tell it unless both sent
 * within the same one. Then the order of sequence numbers does: an answer that was acknowledged by
 * a segment behind all of the client's data came after that data.
 */
static inline bool idle_clients_turn(const struct idle_facts *f)
{
	if (f->unread || f->unacked)
		return false;
	if (!f->sent)
		return !f->received;
	if (f->since_sent != f->since_received)
		return f->since_sent < f->since_received;
	return f->acked_last;
}

/**
 * struct idle_times - when data last passed on a connection, by CLOCK_MONOTONIC in ns
 * @sent: when the server sent its last data, if all of it is acknowledged and was sent once
 * @segment: when the last segment passed, with data or without
 * @jiffy: when the jiffy began in which data last passed, or up to a jiffy later
 */
struct idle_times {
	u64	sent;
	u64	segment;
	u64	jiffy;
};

/*
 * How many jiffies after its time stamp data may have passed: 1, since a stamp is rounded down, and
 * 6 by which jiffies may lag: a CPU that takes ticks corrects them when it has seen them stall for
 * 5 ticks (MAX_STALLED_JIFFIES in tick-sched.c), counted from its next tick. They lag by more
 * after the whole machine stood still, and in a virtual one whose ticks come late.
 */
#define IDLE_LAG_NS	(7 * TICK_NSEC)

/*
 * The latest time at which the last data of a connection can have passed, so that nothing is closed
 * early. If the server had the last word it is exact, and needs no jiffies, unless the server's
 * last data is so old that its time stamp has wrapped, and seems to be younger than the client's.
 * If the client had, it is no later than the last segment, nor than its jiffy and the lag. The
 * jiffy does not change with acknowledgments that come later, or with keepalive. The same holds if
 * the server has sent some data again: TCP may not know which of both was acknowledged. If both had
 * the last word within one jiffy, the client's data came no more than that after the server's. Data
 * behind a gap changes no time stamp of data. 0: no data has passed yet. A watch is as old as its
 * rule's span when it is first looked at, so its connection is idle.
 */
static inline u64 idle_since_ns(const struct idle_facts *f, const struct idle_times *t)
{
	if (!f->sent && !f->received)
		return 0;
	if (f->gap)
		return t->segment;
	if (f->sent && !f->unacked && !f->sent_again) {
		u64 sent = max(t->sent, t->jiffy - IDLE_LAG_NS);

		if (!f->received || f->since_sent < f->since_received)
			return sent;
		if (f->since_sent == f->since_received)
			return min(t->segment, sent + IDLE_LAG_NS);
	}
	return min(t->segment, t->jiffy + IDLE_LAG_NS);
}

/* Is @ms a span that a rule can have? */
static inline bool idle_span_valid(u32 ms)
{
	return ms >= HWTIMER_IDLE_MIN_MS && ms <= HWTIMER_IDLE_MAX_MS;
}

static inline int idle_action_parse(const char *word, u8 *action)
{
	static const char *const words[] = {
		[HWTIMER_IDLE_SHUTDOWN] = "shutdown",
		[HWTIMER_IDLE_RESET] = "reset",
		[HWTIMER_IDLE_NOTIFY] = "notify",
	};
	int n = match_string(words, ARRAY_SIZE(words), word);

	if (n < 0)
		return -EINVAL;
	*action = n;
	return 0;
}

/*
 * Parse PORT:SECONDS[:ACTION[:any]], a rule of the module parameter; @text is taken apart. Return 0
 * or -EINVAL.
 */
static inline int idle_config_parse(char *text, struct idle_config *config)
{
	char *port = strsep(&text, ":"), *seconds = strsep(&text, ":");
	char *action = strsep(&text, ":"), *any = strsep(&text, ":");
	u32 span;

	*config = (struct idle_config){ .limit = HWTIMER_IDLE_LIMIT };
	if (kstrtou16(port, 10, &config->port) || !config->port ||
	    !seconds || kstrtou32(seconds, 10, &span) || span > HWTIMER_IDLE_MAX_MS / 1000)
		return -EINVAL;
	config->span_ms = span * 1000;
	if (!idle_span_valid(config->span_ms) ||
	    (action && idle_action_parse(action, &config->action)) ||
	    (any && strcmp(any, "any")) || text)
		return -EINVAL;
	config->any_silence = any;
	return 0;
}

#endif /* HWTIMER_IDLE_H */
