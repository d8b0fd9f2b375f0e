/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hwtimer: shared by the tests on native threads: start and end, interrupts, options, random
 * numbers and verdicts. The tests of the library include it, too, without the kernel.
 */
#ifndef NATIVE_SHIM_H
#define NATIVE_SHIM_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <linux/types.h>
#include <sys/types.h>

#include "../torture/random.h"

extern int native_failures;
void native_begin(void);
void native_end(void);
void native_enter(void);
extern __u64 native_last_sleep;	/* in ns: the limit of the last ppoll() or epoll_pwait2() */
extern unsigned int native_sleeps;	/* calls of these */
/* Called before each ioctl, and before each open with command 0. Returns 0, or an error to give. */
extern int (*native_before)(int fd, unsigned long command, const void *arg);
void native_leave(void);
void native_usleep(unsigned int us);
void native_fail(const char *fmt, ...);
void native_log(const char *fmt, ...);
void native_irqs_begin(const pthread_t *threads, unsigned int n);
void native_irqs_end(void);
struct hwtimer_timeout;
bool native_lost(struct hwtimer_timeout *t);
struct file *native_file(int fd);
ssize_t native_read(int fd, void *to, size_t n);

/* how the steps of the protocol are delayed; see step.c */
extern int native_rough;
/* Whether other threads may come in between the steps of the library. */
extern bool native_yields;
/* Called once, at the next step with a lock held; not in the variant without steps. */
extern void (*native_meanwhile)(void);

/**
 * struct options - options of a test program
 * @seconds: duration, unless @operations is given
 * @operations: stop after about so many, if not 0
 * @threads: number of threads
 * @seed: random seed
 */
struct options {
	unsigned int	seconds;
	__u64	operations;
	unsigned int	threads;
	__u64	seed;
};

extern struct options options;

/* a case of a test program, reported as passed or failed */
struct test {
	const char	*name;
	__u64	(*run)(void);	/* returns the number of operations */
};

int native_main(int argc, char **argv, const struct test *tests, unsigned int n);

/* Should the test go on? Not after a failure. @done: operations by this thread. */
bool go_on(__u64 done);

/* A random seed for stream @number, derived from options.seed. */
static inline __u64 seeded(__u64 number)
{
	__u64 x = options.seed * 0x9e3779b97f4a7c15ULL + number * 0xbf58476d1ce4e5b9ULL;

	x ^= x >> 31;
	return x ? x : 1;
}

#endif /* NATIVE_SHIM_H */
