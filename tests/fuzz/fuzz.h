/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the parts of the fuzzer.
 *
 * A run consists of rounds. A round is a process with a few contexts and threads, which do random
 * things to them, and children, which have the same descriptors. What a thread does depends only on
 * the seed of the run, and on the numbers of the round, the thread and the step.
 */
#ifndef FUZZ_H
#define FUZZ_H

#define HWT_NO_HARNESS
#include "common.h"

#include <linux/hwtimer.h>

#define DEVICE		"/dev/hwtimer"
#define MAX_JOBS	8
#define MAX_THREADS	3
/* Remembered of a job, to be printed after a failure. */
#define STEPS		100
#define ERRNOS		134

/* What is done, and counted. The ioctls come first, in the order of their numbers. */
enum action {
	DO_SETUP, DO_SCHEDULE, DO_TOUCH, DO_CANCEL, DO_QUERY, DO_GROW, DO_INFO, DO_STATS,
	DO_ENTER, DO_STOP, DO_LIST, DO_WHEELS,
	IOCTLS,
	DO_OPEN = IOCTLS, DO_CLOSE, DO_READ, DO_POLL, DO_EPOLL, DO_FDINFO, DO_CONTEXTS,
	DO_MMAP, DO_MUNMAP, DO_MPROTECT, DO_MREMAP, DO_MADVISE,
	DO_SCRIBBLE,		/* write anything to a table */
	DO_PUSH,		/* arm and push many slots of a table, as programs do */
	DO_FORK, DO_KILL,
	ACTIONS
};

struct step {
	__u64 words[6];		/* the begin of its argument */
	pid_t tid;
	unsigned int number, size;
	unsigned char context, action, place;
	bool done;
	int ret;
};

struct job {
	struct step steps[STEPS];
	atomic_uint next_step;
	/*
	 * Held by a task that forks, and by who kills a round, or ends it while it has threads:
	 * User-Mode Linux 6.12 crashes when a fork is aborted halfway. Its flush_tlb_mm() takes the
	 * XA_ZERO_ENTRY that a killed dup_mmap() leaves in the child's tree for a mapping.
	 */
	atomic_flag forking;
};

enum witness_state { WITNESS_BEGINS, WITNESS_READY, WITNESS_SETTLE };

/**
 * struct shared - memory of all processes of the run
 * @jobs: of each process that runs rounds
 * @counts: what was done, by the errno; 0: success
 * @rounds: rounds that were run
 * @steps: steps in them
 * @failed: something is wrong: the run ends
 * @witness: enum witness_state of each witness
 * @expired: how many timeouts of a witness have expired
 * @late_ns: the largest delay of these
 * @choices: a hash of all that the first thread of a round has chosen
 */
struct shared {
	struct job	jobs[MAX_JOBS];
	atomic_uint	counts[ACTIONS][ERRNOS];
	atomic_uint	rounds, steps, failed;
	atomic_int	witness[2];
	atomic_uint	expired[2];
	atomic_ullong	late_ns[2];
	atomic_ullong	choices;
};

extern struct shared *shared;
extern char who_i_am[32];

/**
 * struct plan - what is done in a round
 * @seed: of all that is random in it
 * @threads: how many threads
 * @steps: how many steps each of them does
 * @kill_after_us: 0: it is not killed
 * @uid: whose it is; 0: root, with all capabilities
 * @hostile: another thread changes arguments, their pages, and tables meanwhile
 * @leave: the first thread ends the process, whatever the others do
 * @no_memory: allocations fail now and then
 */
struct plan {
	__u64		seed;
	unsigned int	threads, steps;
	unsigned int	kill_after_us;
	uid_t		uid;
	bool		hostile, leave, no_memory;
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

static inline void lock_forking(struct job *job)
{
	while (atomic_flag_test_and_set(&job->forking))
		usleep(100);
}

static inline void count(enum action action, int ret)
{
	int error = ret < 0 ? -ret : 0;

	atomic_fetch_add(&shared->counts[action][error < ERRNOS ? error : ERRNOS - 1], 1);
}

/* Report a failure, and end the process. */
#define fail(fmt, ...)	fail_("%s:%d: " fmt, __FILE__, __LINE__, ##__VA_ARGS__)

__attribute__((format(printf, 1, 2), noreturn))
void fail_(const char *fmt, ...);

__attribute__((noreturn))
void run_round(const struct plan *plan, struct job *job);
__attribute__((noreturn))
void be_witness(int number, __u64 random);

#endif /* FUZZ_H */
