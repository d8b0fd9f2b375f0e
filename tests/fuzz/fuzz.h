/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the parts of the fuzzer.
 *
 * A run consists of rounds. A round is a process with a few contexts and threads, which do random
 * things to them. What they do depends only on the seed of the run, and on the numbers of the
 * round, the thread and the step.
 *
 * The round keeps books of clean contexts: all that is done to them has a predictable outcome.
 * Anything may be done to other contexts.
 */
#ifndef FUZZ_H
#define FUZZ_H

#define HWT_NO_HARNESS
#include "hwt.h"

#define MAX_JOBS	16
#define MAX_THREADS	4

/* The actions, which are counted. The ioctls come first. */
enum action {
	DO_SETUP, DO_SCHEDULE, DO_TOUCH, DO_CANCEL, DO_QUERY, DO_STOP, DO_STATS,
	DO_RINGS, DO_ENTER, DO_LIST, DO_WHEELS, DO_RESIZE,
	IOCTLS,
	DO_PERIODIC = IOCTLS,	/* SCHEDULE with a period */
	IN_RING,		/* submissions to clean rings, by HWTIMER_OP_*; 0: unknown ones */
	DO_GARBAGE = IN_RING + 6,
	DO_OPEN, DO_CLOSE, DO_DUP, DO_READ, DO_READV, DO_POLL, DO_EPOLL, DO_FDINFO,
	DO_MMAP, DO_MUNMAP, DO_MPROTECT, DO_MREMAP, DO_MADVISE,
	DO_SCRIBBLE,		/* write to the rings at random */
	DO_SUBMIT, DO_RECORDS,	/* submit to a ring, read records */
	DO_SPOIL,		/* an invalid index, for a while */
	DO_FORK, DO_EXEC, DO_KILL,
	ACTIONS
};

/* Between the numbers of operations, but none itself. */
#define NO_OP	4

extern const char *const action_names[ACTIONS];

#define ERRNOS	134

/* The last steps of a job, to be printed after a failure. */
struct step {
	__u64 round;
	__u64 words[8];		/* the first words of its argument */
	unsigned int number, size;
	unsigned char thread, context, action, place;
	bool done;
	int ret;
};

#define STEPS	200

struct job {
	struct step steps[STEPS];
	atomic_uint next_step;
	/*
	 * Held by a task that forks, and taken for good by a task that ends a round's process:
	 * User-Mode Linux 6.12 crashes when a fork is aborted halfway. Its flush_tlb_mm() takes
	 * the XA_ZERO_ENTRY that a killed dup_mmap() leaves in the child's tree for a mapping.
	 */
	pthread_mutex_t forking;
};

enum witness_state { WITNESS_BEGINS, WITNESS_READY, WITNESS_SETTLE };

/* Memory that all processes of the run share. */
struct shared {
	struct job jobs[MAX_JOBS];
	atomic_uint counts[ACTIONS][ERRNOS];	/* by errno; 0: success */
	atomic_uint rounds, steps, failed;
	atomic_int witness[2];			/* enum witness_state */
	atomic_uint witnessed[2];		/* timeouts of a witness that ended */
	atomic_ullong witnessed_late[2];	/* the longest delay, in ns */
};

extern struct shared *shared;
extern char who_i_am[32];

/* The parameters of a run. */
struct run {
	__u64 seed;
	__u64 tick_ns;		/* of the shared wheel */
	bool fail_nth;		/* allocations can be made to fail */
	const char *self;	/* path of this program */
};

extern struct run run;

/* The properties of a round. */
struct plan {
	__u64 seed;
	unsigned int threads, steps;	/* steps of each thread */
	unsigned int kill_after_us;	/* 0: not killed */
	bool privileged;
	bool hostile;			/* another thread changes arguments meanwhile */
	enum { END_CHECKED, END_LEFT, END_EXEC } end;
};

/* Hash two numbers into one, which is never 0. */
static inline __u64 mix(__u64 a, __u64 b)
{
	__u64 x = a + (b + 1) * 0x9e3779b97f4a7c15ULL;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31 ?: 1;
}

static inline __u64 below(__u64 *random, __u64 n)
{
	return (rnd(random) >> 16) % n;
}

static inline bool one_in(__u64 *random, unsigned int n)
{
	return !below(random, n);
}

#define ONE_OF(random, array)	((array)[below(random, ARRAY_SIZE(array))])

static inline void count(enum action action, int ret)
{
	int error = ret < 0 ? -ret : 0;

	atomic_fetch_add(&shared->counts[action][error < ERRNOS ? error : ERRNOS - 1], 1);
}

/* Report a failure with the last steps of the job, and end the process. */
#define fail(fmt, ...)	fail_("%s:%d: " fmt, __FILE__, __LINE__, ##__VA_ARGS__)

__attribute__((format(printf, 1, 2), noreturn))
void fail_(const char *fmt, ...);
void print_steps(int job);

/* round.c */
struct plan plan_round(__u64 round);
__attribute__((noreturn))
void run_round(const struct plan *plan, unsigned int job, __u64 round);
__attribute__((noreturn))
void be_executed(int fd);

/* witness.c */
__attribute__((noreturn))
void be_witness(int number, __u64 random);

#endif /* FUZZ_H */
