/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tests share that need the module, other modules, wheels of modules, and processes of others.
 *
 * Helpers that return int return 0 or more, or -errno.
 */
#ifndef GUEST_H
#define GUEST_H

#include "common.h"

#include <stdarg.h>
#include <sys/socket.h>

#define HWT_DEBUGFS	"/sys/kernel/debug/hwtimer"
#define HWT_PARAMETERS	"/sys/module/hwtimer/parameters"

/* For child processes, which report by their exit status. */
#define expect(expected, seen)	expect_(__FILE__, __LINE__, expected, seen)

static inline void expect_(const char *file, int line, long expected, long seen)
{
	if (expected == seen)
		return;
	printf("# %s:%d: expected %ld, seen %ld\n", file, line, expected, seen);
	fflush(stdout);
	_exit(1);
}

/* The state of a thread: of /proc/TID/stat, "TID (name) S ...". */
static inline char task_state(pid_t tid)
{
	char path[64], *text, state;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	text = must_slurp(path);
	state = strrchr(text, ')')[2];
	free(text);
	return state;
}

/*
 * Does thread @tid sleep in system call @nr? User-Mode Linux does not say in which call a thread
 * sleeps; there any sleep counts, as the tests' threads sleep nowhere else.
 */
static inline bool sleeps_in(pid_t tid, long nr)
{
	char path[64], text[256] = "";
	int fd;

	if (access("/proc/self/syscall", F_OK))
		return task_state(tid) == 'S';
	/* "running", or the number and the arguments */
	snprintf(path, sizeof(path), "/proc/%d/syscall", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	if (read(fd, text, sizeof(text) - 1) <= 0)
		*text = '-';
	close(fd);
	return strchr("0123456789", *text) && strtol(text, NULL, 10) == nr;
}

/* A value of the wheel's stats in debugfs. */
static inline __u64 must_wheel_value(const char *wheel, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), HWT_DEBUGFS "/%s/stats", wheel);
	return must_number(path, name);
}

/* insmod and rmmod. The modules are in $MODULES, or /modules. */
static inline int load(const char *name, const char *parameters)
{
	const char *dir = getenv("MODULES") ?: "/modules";
	char path[PATH_MAX];
	int fd, ret;

	snprintf(path, sizeof(path), "%s/%s.ko", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;
	close(fd);
	return ret;
}

static inline int unload(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) ? -errno : 0;
}

/* A value of /proc/self/fdinfo/N. */
static inline __u64 must_fdinfo(int fd, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	return must_number(path, name);
}

/* The module's parameters. */
static inline __u64 must_get_parameter(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), HWT_PARAMETERS "/%s", name);
	return must_number(path, NULL);
}

static inline int set_parameter(const char *name, __u64 value)
{
	char path[PATH_MAX], text[32];

	snprintf(path, sizeof(path), HWT_PARAMETERS "/%s", name);
	snprintf(text, sizeof(text), "%llu", value);
	return write_file(path, text);
}

/* Send a descriptor. */
static inline void fd_send(int to, int fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec byte = { "", 1 };
	struct msghdr msg = {
		.msg_iov = &byte, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	if (sendmsg(to, &msg, 0) != 1)
		die("sendmsg: %s", strerror(errno));
}

/* The descriptor that comes with a message. */
static inline int fd_receive(int from)
{
	char text[64], control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(sizeof(long))));
	struct iovec iov = { text, sizeof(text) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	int fd;

	if (recvmsg(from, &msg, MSG_CMSG_CLOEXEC) <= 0 || !CMSG_FIRSTHDR(&msg))
		die("recvmsg: %s", strerror(errno));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* The module's references: open files, and modules that use it. */
static inline int module_references(void)
{
	return must_number("/sys/module/hwtimer/refcnt", NULL);
}

static inline void *must_alloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		die("no memory");
	return p;
}

/* Fault in all pages now, with some of the stack, so that later calls do not fault. */
static inline void must_have_pages(void)
{
	char deep[64 * 1024];

	memset(deep, 1, sizeof(deep));
	__asm__ volatile("" : : "r"(deep) : "memory");
	if (mlockall(MCL_CURRENT))
		die("mlockall: %s", strerror(errno));
}

static inline void become(uid_t uid)
{
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		die("setresuid: %s", strerror(errno));
}

/* Fork a child of another user. */
static inline pid_t fork_as(uid_t uid)
{
	pid_t pid = must_fork();

	if (!pid)
		become(uid);
	return pid;
}

/*
 * The block that follows is run by a child process, which @fork makes, and must come to its end
 * there: in_child(fork_as(uid)) { ... }
 */
#define in_child(fork)								\
	for (pid_t in_child_ = (fork);						\
	     !in_child_ || ({ EXPECT_EQ(0, reap(in_child_)); false; }); _exit(0))

static inline void must_kill(pid_t pid)
{
	if (kill(pid, SIGKILL) || reap(pid) != 128 + SIGKILL)
		die("the child exited before it was killed");
}

/* A module with a wheel that programs arm (tests/guest): its wheel has the same name. */
#define REMOTE		"hwtimer_remote"

/* Let it "arm", "touch" or "cancel" timeouts, or "stop" its wheel: see the module. */
static inline int tell_remote(const char *fmt, ...)
{
	char line[128];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	return write_file("/sys/module/" REMOTE "/parameters/command", line);
}

#endif /* GUEST_H */
