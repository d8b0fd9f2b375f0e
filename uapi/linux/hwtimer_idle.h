/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * hwtimer_idle: idle connections of TCP servers are closed on time, by rules.
 *
 * The generic netlink family "hwtimer_idle", version 1. Each network namespace has its own rules:
 * those of the namespace of the socket that asks. docs/idle.rst says what a rule does.
 *
 *	ADD	make a rule of PORT, SPAN_MS, and optionally ADDRESS, ACTION, ANY_SILENCE and
 *		LIMIT. It holds for connections that exist, too. Needs CAP_NET_ADMIN in the initial
 *		user namespace, since a kernel thread does the work. -EEXIST: PORT and ADDRESS have
 *		a rule
 *	DEL	delete the rule of PORT and, if the rule has one, ADDRESS. Needs the same. -ENOENT:
 *		no such rule
 *	GET	dump all rules with their counters. Needs no privilege
 *	EVENT	sent to the multicast group "events", for which a listener needs CAP_NET_ADMIN: a
 *		connection was idle, and ACTION is done to it. With its local ADDRESS and PORT,
 *		PEER, PEER_PORT and ACTION. May be lost
 *
 * Errors, with an explanation (NETLINK_EXT_ACK): -ERANGE: PORT, SPAN_MS, ACTION, LIMIT or the
 * length of ADDRESS is out of its range; -EINVAL: an attribute is missing, malformed or unknown, or
 * ADDRESS is no address. -EPERM: no CAP_NET_ADMIN.
 */
#ifndef _UAPI_LINUX_HWTIMER_IDLE_H
#define _UAPI_LINUX_HWTIMER_IDLE_H

#define HWTIMER_IDLE_FAMILY		"hwtimer_idle"
#define HWTIMER_IDLE_VERSION		1
#define HWTIMER_IDLE_EVENTS		"events"

/* The spans that a rule can have: from a second to 30 days. */
#define HWTIMER_IDLE_MIN_MS		1000
#define HWTIMER_IDLE_MAX_MS		2592000000U
/* How many connections a rule watches at once if it does not say. */
#define HWTIMER_IDLE_LIMIT		262144

enum hwtimer_idle_command {
	HWTIMER_IDLE_CMD_UNSPEC,
	HWTIMER_IDLE_CMD_ADD,
	HWTIMER_IDLE_CMD_DEL,
	HWTIMER_IDLE_CMD_GET,
	HWTIMER_IDLE_CMD_EVENT,
};

/**
 * enum hwtimer_idle_action - what is done to an idle connection
 * @HWTIMER_IDLE_SHUTDOWN: as shutdown(2) of both directions: the server reads an end of file, and
 *	the client receives a FIN
 * @HWTIMER_IDLE_RESET: the client receives a RST; the server's next call fails with ETIMEDOUT, and
 *	one that sleeps with EPIPE. A connection with TLS in the kernel is shut down instead
 * @HWTIMER_IDLE_NOTIFY: nothing but the EVENT; again after each further span
 */
enum hwtimer_idle_action {
	HWTIMER_IDLE_SHUTDOWN,
	HWTIMER_IDLE_RESET,
	HWTIMER_IDLE_NOTIFY,
};

/**
 * enum hwtimer_idle_attr - the attributes of rules and events
 * @HWTIMER_IDLE_ATTR_UNSPEC: unused
 * @HWTIMER_IDLE_ATTR_PAD: for alignment
 * @HWTIMER_IDLE_ATTR_ADDRESS: the local address, 4 bytes for IPv4, 16 for IPv6. A rule without one
 *	holds for all addresses that have no rule of their own
 * @HWTIMER_IDLE_ATTR_PORT: u16, in host byte order: the local port
 * @HWTIMER_IDLE_ATTR_SPAN_MS: u32: for how long a connection may be idle
 * @HWTIMER_IDLE_ATTR_ACTION: u8: enum hwtimer_idle_action; HWTIMER_IDLE_SHUTDOWN if missing
 * @HWTIMER_IDLE_ATTR_ANY_SILENCE: flag: silence in both directions counts, whosever turn it is
 * @HWTIMER_IDLE_ATTR_LIMIT: u32: how many connections it watches at once, at least 1;
 *	HWTIMER_IDLE_LIMIT if missing
 * @HWTIMER_IDLE_ATTR_WATCHED: u64, in GET: connections that it watches now
 * @HWTIMER_IDLE_ATTR_CLOSED: u64, in GET: how often a connection was idle, and ACTION was done to
 *	it; with HWTIMER_IDLE_NOTIFY once in each span
 * @HWTIMER_IDLE_ATTR_LOOKS: u64, in GET: how often it has looked at a connection
 * @HWTIMER_IDLE_ATTR_REFUSED: u64, in GET: how often a connection was not watched because of LIMIT
 *	or for lack of memory; the same one may count again
 * @HWTIMER_IDLE_ATTR_SPARED: u64, in GET: looks that found a silence of SPAN_MS, and left the
 *	connection alone: it was the server's turn, not accepted yet, closed by the server, or in
 *	repair
 * @HWTIMER_IDLE_ATTR_PEER: in EVENT: the address of the client, as ADDRESS
 * @HWTIMER_IDLE_ATTR_PEER_PORT: u16, in EVENT: the port of the client, in host byte order
 */
enum hwtimer_idle_attr {
	HWTIMER_IDLE_ATTR_UNSPEC,
	HWTIMER_IDLE_ATTR_PAD,
	HWTIMER_IDLE_ATTR_ADDRESS,
	HWTIMER_IDLE_ATTR_PORT,
	HWTIMER_IDLE_ATTR_SPAN_MS,
	HWTIMER_IDLE_ATTR_ACTION,
	HWTIMER_IDLE_ATTR_ANY_SILENCE,
	HWTIMER_IDLE_ATTR_LIMIT,
	HWTIMER_IDLE_ATTR_WATCHED,
	HWTIMER_IDLE_ATTR_CLOSED,
	HWTIMER_IDLE_ATTR_LOOKS,
	HWTIMER_IDLE_ATTR_REFUSED,
	HWTIMER_IDLE_ATTR_SPARED,
	HWTIMER_IDLE_ATTR_PEER,
	HWTIMER_IDLE_ATTR_PEER_PORT,
	/* private: */
	__HWTIMER_IDLE_ATTR_END,
};

#define HWTIMER_IDLE_ATTR_MAX		(__HWTIMER_IDLE_ATTR_END - 1)

#endif /* _UAPI_LINUX_HWTIMER_IDLE_H */
