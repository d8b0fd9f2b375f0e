// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * restart: timeouts that survive a restart of their service. It grants leases; what it keeps of
 * them is in the device, and the service manager keeps the descriptor. With systemd:
 *
 *	[Service]
 *	ExecStart=/usr/local/bin/restart 10 30
 *	FileDescriptorStoreMax=1
 *	Restart=always
 */
#include <err.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <libhwtimer.h>

static void must(const char *what, int ret)
{
	if (ret)
		errx(1, "%s: %s", what, strerror(-ret));
}

/* Have the service manager keep a descriptor, as sd_pid_notify_with_fds() does. */
static void fd_store(int fd)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	char control[CMSG_SPACE(sizeof(fd))] = "", text[] = "FDSTORE=1\nFDNAME=leases";
	struct iovec iov = { text, strlen(text) };
	struct msghdr message = {
		.msg_name = &to, .msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (!path || strlen(path) >= sizeof(to.sun_path))
		errx(1, "no service manager keeps descriptors for this program");
	memcpy(to.sun_path, path, strlen(path) + 1);
	message.msg_namelen = offsetof(struct sockaddr_un, sun_path) + strlen(path);
	if (*path == '@')
		to.sun_path[0] = 0;
	*c = (struct cmsghdr) {
		.cmsg_len = CMSG_LEN(sizeof(fd)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
	};
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (s < 0 || sendmsg(s, &message, MSG_NOSIGNAL) < 0)
		err(1, "%s", path);
	close(s);
}

int main(int argc, char **argv)
{
	struct hwtimer_options options = { .size = sizeof(options), .flags = HWTIMER_OPEN_DEVICE };
	const char *pid = getenv("LISTEN_PID");
	struct hwtimer_state state;
	struct hwtimer_event e;
	struct hwtimer *h;
	hwtimer_id id = 0;
	int i, leases, left = 0;
	double seconds;

	leases = argc == 3 ? atoi(argv[1]) : 0;
	seconds = argc == 3 ? atof(argv[2]) : 0;
	if (leases < 1 || !(seconds > 0 && seconds < 1e6))
		errx(2, "usage: restart LEASES SECONDS");
	if (pid && atoi(pid) == getpid()) {
		must("descriptor 3", hwtimer_open_fd(&h, 3, NULL));
		close(3);
	} else {
		must("/dev/hwtimer", hwtimer_open(&h, &options));
		fd_store(hwtimer_fd(h));
		for (i = 1; i <= leases; i++)
			must("schedule", hwtimer_schedule(h, seconds * 1e9, i, NULL));
	}
	for (; hwtimer_next(h, &id, &state) == 1; left++)
		printf("lease %d: %.3f s left\n", (int)state.user_data,
		       ((double)state.deadline_ns - hwtimer_now(h)) / 1e9);
	fflush(stdout);
	for (; left && hwtimer_wait(h, &e, -1) == 1; left--)
		printf("lease %d has ended, %.3f ms late\n", (int)e.user_data,
		       ((double)e.taken_ns - e.deadline_ns) / 1e6);
	hwtimer_close(h);
	return left > 0;
}
