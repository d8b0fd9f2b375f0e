/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cgroups, by their names below CGROUPS, and one that limits memory.
 */
#ifndef CGROUP_H
#define CGROUP_H

#include "common.h"

#define CGROUPS		"/sys/fs/cgroup"
/* The group of make_limited_group(). */
#define GROUP		"hwtimer-selftest"

static inline int set_group(const char *group, const char *file, const char *value)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), CGROUPS "/%s/%s", group, file);
	return write_file(path, value);
}

/* A number from a file of a cgroup: the value of @name, or the first number. */
static inline __u64 group_value(const char *group, const char *file, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), CGROUPS "/%s/%s", group, file);
	return must_number(path, name);
}

/* In bytes. */
static inline __u64 group_memory(const char *group)
{
	return group_value(group, "memory.current", NULL);
}

static inline void remove_group(const char *group)
{
	char path[PATH_MAX];

	/* Left by a case that has died. */
	set_group(group, "cgroup.kill", "1");
	snprintf(path, sizeof(path), CGROUPS "/%s", group);
	/* Busy until the processes that died in it are gone. */
	eventually(!rmdir(path) || errno == ENOENT);
}

static inline void make_group(const char *group)
{
	char path[PATH_MAX];

	remove_group(group);
	snprintf(path, sizeof(path), CGROUPS "/%s", group);
	if (mkdir(path, 0755))
		die("%s: %s", path, strerror(errno));
}

static inline void enter_group(const char *group)
{
	if (set_group(group, "cgroup.procs", "0"))
		die("cgroup %s: %s", group, strerror(errno));
}

/* Make GROUP; false if there is no memory controller. */
static inline bool make_limited_group(const char *memory)
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
	if (set_group(".", "cgroup.subtree_control", "+memory"))
		die("cgroup.subtree_control: %s", strerror(errno));
	make_group(GROUP);
	if (set_group(GROUP, "memory.max", memory))
		die("memory.max: %s", strerror(errno));
	return true;
}

/* Wait for the child's next SIGSTOP. */
static inline void must_stop(pid_t child)
{
	int status;

	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
		die("the child exited");
}

#endif /* CGROUP_H */
