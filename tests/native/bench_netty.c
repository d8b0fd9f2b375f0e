// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: the native benchmark's rounds of Netty's HashedWheelTimer. The command in the
 * environment variable NETTY starts a Java program (Netty.java), which measures them. If the
 * variable is empty, there are no such rounds. The program is stopped while others are measured.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

static pid_t java;
static int to;
static FILE *from;

static void start(const char *command)
{
	int ends[2];

	java = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ? -1 : fork();
	if (java < 0) {
		perror("bench: Netty's program");
		exit(1);
	}
	if (!java) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		unpin();
		if (dup2(ends[1], 0) == 0 && dup2(ends[1], 1) == 1)
			execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	close(ends[1]);
	to = ends[0];
	from = fdopen(to, "r");
}

/* Have the Java program measure one round, and print its lines up to an empty one. */
void netty(unsigned int round)
{
	const char *command = getenv("NETTY");
	char line[128];

	if (!command || !*command)
		return;
	if (!from)
		start(command);
	kill(java, SIGCONT);
	dprintf(to, "%u\n", round);
	while (fgets(line, sizeof(line), from)) {
		if (*line == '\n') {
			kill(java, SIGSTOP);
			return;
		}
		fputs(line, stdout);
	}
	fprintf(stderr, "bench: Netty's program has ended\n");
	exit(1);
}
