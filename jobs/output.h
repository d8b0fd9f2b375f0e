/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * output: what a command writes, of which the first and the last bytes are kept.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>

#include <glib.h>
#include <linux/types.h>

#define OUTPUT_KEPT	65536	/* bytes, at the beginning and at the end */

struct output {
	int	fd;		/* -1: nothing more can be read */
	int	epoll_fd;
	bool	changed;	/* since output_write() */
	__s64	size;		/* of all that was written */
	GString	*head, *tail;	/* NULL: nothing was */
};

/*
 * Returns the descriptor that the command is to write to, or -1. As long as it can be read, the
 * epoll set @epoll_fd has what to read from, with @data.
 */
int output_open(struct output *o, int epoll_fd, void *data);
/* Read what there is, but not for ever. */
void output_read(struct output *o);
/* Write what has changed to the row of @run. */
void output_write(struct output *o, __s64 run);
void output_close(struct output *o);

#endif /* OUTPUT_H */
