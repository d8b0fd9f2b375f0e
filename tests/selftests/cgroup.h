/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A memory cgroup, one at a time, and what is charged to it.
 */
#ifndef CGROUP_H
#define CGROUP_H

#include "hwt.h"

#define CGROUPS		"/sys/fs/cgroup"
#define GROUP		CGROUPS "/hwtimer-selftest"

static inline __u64 group_value(const char *file)
{
	char path[PATH_MAX], *text;
	__u64 value;

	snprintf(path, sizeof(path), GROUP "/%s", file);
	text = must_slurp(path);
	value = strtoull(text, NULL, 10);
	free(text);
	return value;
}

static inline __u64 group_event(const char *name)
{
	char *text = must_slurp(GROUP "/memory.events");
	__u64 value;

	if (!find_value(text, name, &value))
		die("memory.events: no %s", name);
	free(text);
	return value;
}

static inline void remove_group(void)
{
	/* Busy until what has died in it is gone. */
	eventually(!rmdir(GROUP) || errno == ENOENT);
}

/* False if there is no memory controller. */
static inline bool make_group(const char *limit)
{
	char *controllers;
	bool there;

	if (access(CGROUPS "/cgroup.controllers", F_OK))
		return false;
	controllers = must_slurp(CGROUPS "/cgroup.controllers");
	there = strstr(controllers, "memory");
	free(controllers);
	if (!there)
		return false;
	remove_group();
	if (write_file(CGROUPS "/cgroup.subtree_control", "+memory") ||
	    mkdir(GROUP, 0755) || write_file(GROUP "/memory.max", limit))
		die(GROUP ": %s", strerror(errno));
	return true;
}

static inline void enter_group(void)
{
	if (write_file(GROUP "/cgroup.procs", "0"))
		die("cgroup.procs");
}

/* Until the child has come to its next SIGSTOP. */
static inline void must_stop(pid_t child)
{
	int status;

	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
		die("the child died");
}

#endif /* CGROUP_H */
