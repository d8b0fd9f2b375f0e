// SPDX-License-Identifier: GPL-2.0-only
/*
 * echo: the plainest server: it echoes what it receives on port 7007, and knows no timeouts.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void echo_add(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		exit(1);
}

static void echo_serve(int fd)
{
	char bytes[4096];
	ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

	if (n <= 0 || send(fd, bytes, n, MSG_NOSIGNAL) != n)
		close(fd);
}

int main(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(7007) };
	struct rlimit files = { 65536, 65536 };
	int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0), i, n;
	struct epoll_event events[64];

	if (setrlimit(RLIMIT_NOFILE, &files) || bind(listener, (void *)&any, sizeof(any)) ||
	    listen(listener, 4096))
		exit(1);
	echo_add(epoll, listener);
	while ((n = epoll_wait(epoll, events, 64, -1)) > 0) {
		for (i = 0; i < n; i++) {
			if (events[i].data.fd == listener)
				echo_add(epoll, accept(listener, NULL, NULL));
			else
				echo_serve(events[i].data.fd);
		}
	}
	exit(1);
}
