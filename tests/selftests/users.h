/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Users without privileges, and a node of the device that they may open.
 */
#ifndef USERS_H
#define USERS_H

#include <sys/sysmacros.h>

#include "hwt.h"

#define USER_A		1001
#define USER_B		1002

#define NODE_DIR	"/tmp"
#define NODE		"hwtimer-for-all"

/* Kept open, as other users may not even search the root directory. */
static int node_dir;

static inline void remove_node(void)
{
	unlinkat(node_dir, NODE, 0);
	close(node_dir);
}

static inline void make_node(void)
{
	struct stat st;

	node_dir = open(NODE_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
	unlinkat(node_dir, NODE, 0);
	if (stat(HWT_DEVICE, &st) || mknodat(node_dir, NODE, S_IFCHR, st.st_rdev) ||
	    fchmodat(node_dir, NODE, 0666, 0))
		die(NODE ": %s", strerror(errno));
}

static inline int open_node(void)
{
	int fd = openat(node_dir, NODE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		die(NODE ": %s", strerror(errno));
	return fd;
}

#endif /* USERS_H */
