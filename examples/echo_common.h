/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Code that the echo servers share: opening the listening socket, checking counters.
 */
#ifndef ECHO_COMMON_H
#define ECHO_COMMON_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "lib_common.h"

#define BACKLOG		4096

/* NULL until opened */
static struct hwtimer *timers;

/* Listen on the loopback interface, and print the port; @port 0: any free port. */
static inline int open_listener(int port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);
	int one = 1, fd;

	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		err(1, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, BACKLOG))
		err(1, "port %d", port);
	if (getsockname(fd, (struct sockaddr *)&address, &len))
		err(1, "getsockname");
	printf("port %d\n", ntohs(address.sin_port));
	return fd;
}

static __u64 wrong_books;

/* Count an error unless the counters @one and @other, described by @what, are equal. */
static inline void check(const char *what, __u64 one, __u64 other)
{
	if (one == other)
		return;
	warnx("%s: %llu and %llu", what, one, other);
	wrong_books++;
}

static inline void write_count(FILE *f, const char *key, __u64 value)
{
	fprintf(f, "%s %llu\n", key, value);
}

#endif /* ECHO_COMMON_H */
