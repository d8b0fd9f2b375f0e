/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Code that the echo servers share: counting system calls of libhwtimer, opening the listening
 * socket, checking counters.
 */
#ifndef ECHO_COMMON_H
#define ECHO_COMMON_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "lib_common.h"

#define BACKLOG		4096

/* NULL until opened */
static struct hwtimer *timers;

/* System calls of the library on its descriptor. The Makefile links the wrappers below. */
static __u64 system_calls;

int __real_ioctl(int fd, unsigned long command, ...);
int __wrap_ioctl(int fd, unsigned long command, ...);
ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);

static inline void count_system_call(int fd)
{
	if (timers && fd == hwtimer_fd(timers))
		system_calls++;
}

int __wrap_ioctl(int fd, unsigned long command, ...)
{
	va_list list;
	void *arg;

	va_start(list, command);
	arg = va_arg(list, void *);
	va_end(list);
	count_system_call(fd);
	return __real_ioctl(fd, command, arg);
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
	count_system_call(fd);
	return __real_read(fd, to, size);
}

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
