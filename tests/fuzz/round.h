/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The inside of a round: its contexts, the books of clean ones, and its threads.
 */
#ifndef ROUND_H
#define ROUND_H

#include "fuzz.h"
#include "rings.h"

#define CONTEXTS	3
#define BOOKS		4096	/* timeouts of a context in a round */
#define SUBMISSIONS	4096

/* Arguments have any size that an ioctl's number can express, or slightly more. */
#define AREA		(5 * 4096)
#define MAX_SIZE	((1U << _IOC_SIZEBITS) - 1)

/* The region where a context's rings are mapped and moved: nothing else is mapped there. */
#define REGION		(16U << 20)

/* One timeout of a clean context. */
struct book {
	_Atomic __u64 id;	/* 0: not known yet */
	_Atomic __u64 earliest;	/* of the deadlines requested */
	bool periodic;
	bool unsure;		/* a quiet submission may have changed it */
	atomic_uchar armed, cancelled, handed_back;
	atomic_uint expired;	/* number of its records of expiry */
};

/* Submissions to the ring of a clean context; their user_data has this bit and an index. */
#define SUBMISSION	0x8000000000000000ULL

struct submission {
	struct hwtimer_sqe sqe;
	struct book *book;	/* NULL: it names no known timeout */
	bool quiet, invalid;
	atomic_int error;
};

struct context {
	int number;
	atomic_int fd;
	bool clean;		/* books are kept */
	bool blocking;
	atomic_bool foreign;	/* other processes use it, too */
	atomic_bool stopped;
	clockid_t clockid;
	__u64 tick, cap;
	struct ring ring;
	bool rings;		/* it has rings, which are mapped */
	char *region;
	pthread_mutex_t submitting, reading;

	struct book *books;
	atomic_uint n_books;
	struct submission *submissions;
	atomic_uint n_submissions;
	_Atomic __u64 ids[64];	/* not clean: some ids */
	atomic_ulong touched, rejected, expired, expired_again, handed_back;
};

/* Where an argument is placed. */
enum place { HERE, AT_FENCE, BEYOND_FENCE, READ_ONLY, NOWHERE, IN_THE_RING, HOSTILE };

struct thread {
	pthread_t thread;
	const struct plan *plan;
	struct context *contexts;
	struct job *job;
	__u64 round;
	unsigned int number;
	__u64 random;		/* random numbers of this step */
	struct step *step;
	char *here, *fence, *read_only, *hostile;
	int fail_nth;		/* -1: not available */
	timer_t timer;
	bool can_block;		/* a timer can interrupt it */
	bool interrupted;	/* signals come in this step */
	bool failing;		/* an allocation or a copy may have failed in this step */
	bool child;		/* in a child of the round */
};

union argument {
	struct hwtimer_setup setup;
	struct hwtimer_schedule schedule;
	struct hwtimer_touch touch;
	struct hwtimer_cancel cancel;
	struct hwtimer_query query;
	struct hwtimer_stop stop;
	struct hwtimer_stats stats;
	struct hwtimer_rings rings;
	struct hwtimer_enter enter;
	struct hwtimer_list list;
	struct hwtimer_wheels wheels;
	struct hwtimer_resize resize;
	__u64 words[11];
};

enum verdict { INVALID, UNSURE, VALID };

/* An operation on a timeout: what its result is checked against. */
struct pending_op {
	enum action action;
	enum verdict verdict;
	struct book *book;	/* clean: its book */
	bool over;		/* it must fail: the timeout has ended */
	__u64 earliest;		/* SCHEDULE, TOUCH: of the requested deadline */
};

/* round.c */
__u64 context_now(const struct context *c);
struct book *new_book(struct context *c);
struct book *any_book(struct thread *t, struct context *c);
void lower(_Atomic __u64 *earliest, __u64 deadline);
bool is_over(const struct book *b);
void begin_step(struct thread *t, const struct context *c, enum action action);
void end_step(struct thread *t, enum action action, int ret);
bool guarded(void (*fn)(void *arg), void *arg);
void begin_context(struct thread *t, struct context *c);
void check_record(struct context *c, const struct hwtimer_record *r);

/* calls.c */
void interrupt(struct thread *t, long ns);
bool get_stats(const struct context *c, struct hwtimer_stats *s);
void check_stats(const struct context *c, const struct hwtimer_stats *s);
bool ring_error(__u32 op, int error);
__u64 pick_time(struct thread *t, const struct context *c, __u32 *flags);
__u64 earliest_of(const struct context *c, __u32 flags, __u64 time);
int call(struct thread *t, struct context *c, enum action action,
	 const union argument *given, union argument *answer);
int call_valid(struct thread *t, struct context *c, enum action action,
	       union argument *arg);
void do_ioctl(struct thread *t, struct context *c, enum action action);
void do_list(struct thread *t, struct context *c);
void do_wheels(struct thread *t, struct context *c);
void do_garbage(struct thread *t, struct context *c);

/* rings.c */
void make_rings(struct thread *t, struct context *c);
void submit_one(struct thread *t, struct context *c);
void read_ring(struct thread *t, struct context *c);
void drain_ring(struct thread *t, struct context *c);
bool settle_submissions(struct context *c);
void spoil(struct thread *t, struct context *c);
void scribble(struct thread *t, struct context *c);
void change_mapping(struct thread *t, struct context *c, enum action action);

#endif /* ROUND_H */
