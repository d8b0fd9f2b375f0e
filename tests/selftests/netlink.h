/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The generic netlink family hwtimer_idle by hand, so that tests can send what libmnl would not.
 *
 * Functions that return int return 0 or more, or -errno.
 */
#ifndef NETLINK_H
#define NETLINK_H

#include "guest.h"

#include <linux/genetlink.h>
#include <linux/hwtimer_idle.h>
#include <linux/netlink.h>
#include <sys/socket.h>

struct message {
	struct nlmsghdr		head;
	struct genlmsghdr	genl;
	char			attrs[1024];
};

static inline void message_init(struct message *m, int family, int command)
{
	*m = (struct message){
		.head = { .nlmsg_len = offsetof(struct message, attrs), .nlmsg_type = family,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		.genl = { .cmd = command, .version = 1 },
	};
}

static inline void message_put(struct message *m, int type, const void *data, size_t len)
{
	struct nlattr *attr = (void *)m + NLMSG_ALIGN(m->head.nlmsg_len);

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	if (len)
		memcpy((char *)attr + NLA_HDRLEN, data, len);
	m->head.nlmsg_len = NLMSG_ALIGN(m->head.nlmsg_len) + NLA_ALIGN(attr->nla_len);
}

/* The payload of an attribute, or NULL. */
static inline const void *message_get(const struct message *m, int type)
{
	const char *p = m->attrs, *end = (const char *)m + m->head.nlmsg_len;

	while (p + NLA_HDRLEN <= end) {
		const struct nlattr *attr = (const void *)p;

		if ((attr->nla_type & NLA_TYPE_MASK) == type)
			return p + NLA_HDRLEN;
		p += NLA_ALIGN(attr->nla_len);
	}
	return NULL;
}

static inline int netlink_open(void)
{
	struct sockaddr_nl any = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);

	if (fd < 0 || bind(fd, (void *)&any, sizeof(any)))
		die("netlink: %s", strerror(errno));
	return fd;
}

/* Receive a message: its type, or what an acknowledgment says. */
static inline int netlink_receive(int fd, struct message *m)
{
	ssize_t len = recv(fd, m, sizeof(*m), 0);

	if (len < 0)
		return -errno;
	if (m->head.nlmsg_type == NLMSG_ERROR)
		return *(int *)((char *)m + NLMSG_HDRLEN);
	return m->head.nlmsg_type;
}

static inline int netlink_call(int fd, struct message *m)
{
	if (send(fd, m, m->head.nlmsg_len, 0) < 0)
		return -errno;
	return netlink_receive(fd, m);
}

/* The number of the family, or -ENOENT; and of its multicast group, if asked for. */
static inline int netlink_family(int fd, __u32 *group)
{
	const struct nlattr *groups;
	struct message m;
	int id;

	message_init(&m, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	m.head.nlmsg_flags = NLM_F_REQUEST;
	message_put(&m, CTRL_ATTR_FAMILY_NAME, HWTIMER_IDLE_FAMILY, sizeof(HWTIMER_IDLE_FAMILY));
	id = netlink_call(fd, &m);
	if (id < 0)
		return id;
	id = *(const __u16 *)message_get(&m, CTRL_ATTR_FAMILY_ID);
	if (group) {
		/* The only group: a nest of one nest, with its name and number in any order. */
		groups = message_get(&m, CTRL_ATTR_MCAST_GROUPS);
		groups++;
		if ((groups->nla_type & NLA_TYPE_MASK) != CTRL_ATTR_MCAST_GRP_ID)
			groups = (void *)groups + NLA_ALIGN(groups->nla_len);
		*group = *(const __u32 *)(groups + 1);
	}
	return id;
}

#endif /* NETLINK_H */
