// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer: KUnit suite: when does /dev/hwtimer read the submission ring? The polls of the worker,
 * the doorbell that makes the next poll earlier, and the promise of sleep_until. The suite plays
 * the program by the rules of linux/hwtimer.h, and reads the state of the module to check it.
 *
 * Made for User-Mode Linux with time-travel=inf-cpu, where the clock stands still while anything
 * runs, so lateness counts from the boundary of a tick.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "../../core/hwtimer_compat.h"
#include "../../core/hwtimer_driver.h"
#include "../../dev/rings.h"
#include "../../core/hwtimer_step.h"
#include "hwtimer_kunit.h"

#define MS	NSEC_PER_MSEC
#define SEC	NSEC_PER_SEC
#define SLOTS	64
/* the longest time between two polls, and by how many ticks sleep_until may be later */
#define POLL_NS	(250 * MS)
#define MARGIN	3

/* The program, and its context. */
static struct program {
	struct kunit		*test;
	struct file		*file;
	struct ctx_rings	*rings;
	struct hwtimer_ring	*shared;
	struct hwtimer_driven	*driven;
	u64			tick;
	u32			first;
	unsigned int		kicks;
	/* by slot: time of submission, or 0 if the slot is free */
	u64			since[SLOTS];
	u64			deadline[SLOTS];
	unsigned int		expired;
	u64			worst;
	/* step of a poll at which to submit; steps so far; submitted without the doorbell? */
	unsigned int		n;
	unsigned int		step;
	bool			silent;
} program;

struct wheel_param {
	const char		*desc;
	bool			own;
	u32			flags;
	u32			first;	/* the first index of the submission ring */
};

static const struct wheel_param wheel_params[] = {
	{ "shared wheel" },
	{ "own wheel", .own = true },
	{ "shared wheel, no barriers", .flags = HWTIMER_RINGS_RELAXED },
	{ "own wheel, no barriers", .own = true, .flags = HWTIMER_RINGS_RELAXED },
};

KUNIT_ARRAY_PARAM_DESC(wheel, wheel_params, desc);

static const struct wheel_param relaxed_params[] = {
	{ "shared wheel", .flags = HWTIMER_RINGS_RELAXED },
	{ "own wheel", .own = true, .flags = HWTIMER_RINGS_RELAXED },
	{ "indexes wrap", .flags = HWTIMER_RINGS_RELAXED, .first = -2U },
};

KUNIT_ARRAY_PARAM_DESC(relaxed, relaxed_params, desc);

/* Arguments of ioctls are in memory of the task that loads this module. */
static struct mm_struct *mm;
static void __user *memory;

static int rings_init(struct kunit_suite *suite)
{
	unsigned long address;

	if (!current->mm)	/* built in */
		return 0;
	address = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, 0);
	if (IS_ERR_VALUE(address))
		return address;
	memory = (void __user *)address;
	mm = current->mm;
	mmget(mm);
	/* Timers have the resolution of a jiffy for a moment after boot. */
	nap(SEC);
	return 0;
}

static int case_init(struct kunit *test)
{
	if (!mm)
		kunit_skip(test, "no task loads this module: it is built in");
	return 0;
}

static void rings_exit(struct kunit_suite *suite)
{
	if (mm)
		mmput(mm);
	mm = NULL;
}

static long command(struct program *p, unsigned int cmd, void *arg)
{
	size_t size = _IOC_SIZE(cmd);
	long ret = -EFAULT;

	kthread_use_mm(mm);
	if (!copy_to_user(memory, arg, size)) {
		ret = p->file->f_op->unlocked_ioctl(p->file, cmd, (unsigned long)memory);
		if (copy_from_user(arg, memory, size))
			ret = -EFAULT;
	}
	kthread_unuse_mm(mm);
	return ret;
}

static void doorbell(struct program *p)
{
	struct hwtimer_enter arg = { };

	KUNIT_EXPECT_EQ(p->test, 0L, command(p, HWTIMER_IOC_ENTER, &arg));
	p->kicks++;
}

static u64 now(const struct program *p)
{
	return hwtimer_wheel_now(&p->driven->wheel);
}

/* Let the indexes of the submission ring begin at p->first. Nobody uses them yet. */
static void set_first(struct program *p)
{
	struct ctx_rings *r = p->rings;

	r->mark = p->first;
	r->claimed = p->first;
	r->confirmed = p->first;
	r->grace_end = p->first;
	r->pair.sq_head = p->first;
	p->shared->sq_claimed = p->first;
	p->shared->sq_head = p->first;
	p->shared->sq_tail = p->first;
}

static struct program *begin(struct kunit *test)
{
	const struct wheel_param *param = test->param_value;
	struct hwtimer_setup setup = {
		.flags = HWTIMER_SETUP_OWN_WHEEL, .clockid = CLOCK_MONOTONIC,
		.tick_ns = 10 * MS, .slots = 64,
	};
	struct hwtimer_rings rings = {
		.flags = param->flags, .sq_entries = SLOTS, .timeouts = 2 * SLOTS,
		.sqe_size = sizeof(struct hwtimer_sqe),
		.record_size = sizeof(struct hwtimer_record),
	};
	struct program *p = &program;
	struct hwtimer_ctx *ctx;

	memset(p, 0, sizeof(*p));
	p->test = test;
	p->file = filp_open("/dev/hwtimer", O_RDWR | O_NONBLOCK, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, p->file);
	if (param->own)
		KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SETUP, &setup));
	KUNIT_ASSERT_EQ(test, 0L, command(p, HWTIMER_IOC_RINGS, &rings));
	ctx = p->file->private_data;
	p->rings = ctx->rings;
	p->shared = p->rings->pair.shared;
	p->driven = to_driven(ctx->wheel);
	p->tick = hwtimer_wheel_tick_ns(ctx->wheel);
	p->first = param->first;
	set_first(p);
	/* no poll is scheduled yet */
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, p->shared->sleep_until);
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, p->shared->relaxed_until);
	return p;
}

static void end(struct program *p)
{
	fput(p->file);
	flush_delayed_fput();
	nap(SEC);
}

/* Submit without ringing the doorbell. */
static void put_id(struct program *p, u32 op, u64 id, u64 time)
{
	u32 tail = p->shared->sq_tail, slot = HWTIMER_ID_INDEX(id);

	/* Pairs with hwtimer_shm_taken(). */
	KUNIT_EXPECT_LT(p->test, tail - smp_load_acquire(&p->shared->sq_head), SLOTS);
	*hwtimer_shm_sqe(&p->rings->pair, tail) = (struct hwtimer_sqe){
		.op = op, .id = id, .time = time,
	};
	if (op == HWTIMER_OP_SCHEDULE) {
		p->since[slot] = now(p);
		p->deadline[slot] = time;
	}
	/* Pairs with hwtimer_shm_submitted(). */
	smp_store_release(&p->shared->sq_tail, tail + 1);
}

static void put(struct program *p, u32 op, u32 slot, u64 time)
{
	put_id(p, op, HWTIMER_ID(slot, 1), time);
}

/* Does a submission with this time need the doorbell? */
static bool kick_due(const struct program *p, u64 time)
{
	if (p->rings->relaxed && time >= READ_ONCE(p->shared->relaxed_until))
		return false;
	/* Pairs with the barrier in poll_again_at(), between sq_tail and sleep_until. */
	smp_mb();
	return time < READ_ONCE(p->shared->sleep_until);
}

static void submit(struct program *p, u32 slot, u64 deadline)
{
	put(p, HWTIMER_OP_SCHEDULE, slot, deadline);
	if (kick_due(p, deadline))
		doorbell(p);
}

/* The first boundary at or after @deadline, and after @since. */
static u64 boundary(const struct program *p, u64 deadline, u64 since)
{
	u64 start = p->driven->start_ns;

	return start + p->tick * max(DIV64_U64_ROUND_UP(deadline - start, p->tick),
				     div64_u64(since - start, p->tick) + 1);
}

/* Each record must be of a submitted timeout, not early and not late. */
static void reap(struct program *p)
{
	u32 head = p->shared->cq_head, tail, slot;
	const struct hwtimer_record *rec;

	/* Pairs with hwtimer_shm_put(). */
	tail = smp_load_acquire(&p->shared->cq_tail);
	for (; head != tail; head++) {
		rec = hwtimer_shm_record(&p->rings->pair, head);
		slot = HWTIMER_ID_INDEX(rec->id);
		KUNIT_EXPECT_EQ(p->test, HWTIMER_KIND_EXPIRED, rec->kind);
		if (slot >= SLOTS || !p->since[slot]) {
			KUNIT_FAIL(p->test, "a record of nothing, slot %u", slot);
			continue;
		}
		KUNIT_EXPECT_EQ(p->test, p->deadline[slot], rec->deadline);
		KUNIT_EXPECT_GE(p->test, rec->fired, rec->deadline);
		/* in virtual time the machine adds next to nothing */
		KUNIT_EXPECT_LT(p->test, rec->fired,
				boundary(p, rec->deadline, p->since[slot]) + p->tick / 2);
		p->worst = max(p->worst, rec->fired - rec->deadline);
		p->since[slot] = 0;
		p->expired++;
	}
	/* Pairs with hwtimer_shm_room(). */
	smp_store_release(&p->shared->cq_head, head);
}

/* The doorbell starts the polls, and makes the next one earlier for an earlier deadline. */
static void doorbell_brings_poll(struct kunit *test)
{
	struct program *p = begin(test);
	u64 base;

	base = now(p);
	submit(p, 0, base + 100 * SEC);
	KUNIT_EXPECT_EQ(test, 1, p->kicks);
	KUNIT_EXPECT_LE(test, p->shared->sleep_until, now(p) + POLL_NS + MARGIN * p->tick);
	/* A deadline after sleep_until needs no doorbell. */
	base = now(p);
	submit(p, 1, base + POLL_NS + MARGIN * p->tick);
	KUNIT_EXPECT_EQ(test, 1, p->kicks);
	/* An earlier deadline needs the doorbell, and the worker polls twice before it. */
	submit(p, 2, base + 100 * MS);
	KUNIT_EXPECT_EQ(test, 2, p->kicks);
	KUNIT_EXPECT_LE(test, p->shared->sleep_until, now(p) + 50 * MS + MARGIN * p->tick);
	submit(p, 3, base + 90 * MS);
	KUNIT_EXPECT_EQ(test, 2, p->kicks);
	nap(SEC);
	reap(p);
	KUNIT_EXPECT_EQ(test, 3, p->expired);
	/* With nothing to do the polls stop, and the doorbell starts them again. */
	nap(10 * SEC);
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, p->shared->sleep_until);
	base = now(p);
	submit(p, 4, base + 10 * SEC);
	KUNIT_EXPECT_EQ(test, 3, p->kicks);
	KUNIT_EXPECT_LE(test, p->shared->sleep_until, now(p) + POLL_NS + MARGIN * p->tick);
	nap(20 * SEC);
	reap(p);
	KUNIT_EXPECT_EQ(test, 4, p->expired);
	end(p);
}

/* Random submissions, with the doorbell when the rules require it. */
static void on_time(struct kunit *test)
{
	unsigned int rounds = 3000, slot = 0, i;
	u64 seed = hwtimer_kunit_seed();
	struct rnd_state random;
	struct program *p;

	kunit_info(test, "seed %llu\n", seed);
	prandom_seed_state(&random, seed);
	p = begin(test);
	for (i = 0; i < rounds; i++) {
		/* Up to 600 ms ahead; rarely a pause so long that polls stop. */
		u64 ahead = prandom_u32_state(&random) % (600 * MS);
		u64 pause = prandom_u32_state(&random) % (i % 50 ? 40 * MS : 3 * SEC);

		reap(p);
		slot = (slot + 1) % SLOTS;
		if (!p->since[slot])
			submit(p, slot, now(p) + ahead);
		nap(pause);
	}
	nap(SEC);
	reap(p);
	kunit_info(test, "%u expiries, %u doorbells, at most %llu us late\n", p->expired, p->kicks,
		   div_u64(p->worst, NSEC_PER_USEC));
	for (i = 0; i < SLOTS; i++)
		KUNIT_EXPECT_EQ(test, 0ULL, p->since[i]);
	KUNIT_EXPECT_GT(test, p->kicks, rounds / 100);
	KUNIT_EXPECT_LT(test, p->kicks, p->expired);
	end(p);
}

#ifdef CONFIG_UML	/* where the module has a hook between its steps */
/* The step hook: submit during a poll, for a time that needs no doorbell. */
static void submit_in_poll(void)
{
	struct program *p = &program;
	u64 until;

	if (current != p->driven->task ||
	    READ_ONCE(p->driven->wheel.running) != &p->rings->poll || ++p->step != p->n)
		return;
	until = READ_ONCE(p->shared->sleep_until);
	if (until == HWTIMER_RING_IDLE)
		return;
	put(p, HWTIMER_OP_SCHEDULE, 1, until);
	p->silent = true;
}

/* A submission during a poll after which the worker will sleep is not lost. */
static void during_poll(struct kunit *test)
{
	unsigned int n = 0, silent = 0;
	struct program *p;

	do {
		p = begin(test);
		p->n = ++n;
		submit(p, 0, now(p) + SEC);
		/* Wait for the second poll; the first one published the current sleep_until. */
		nap(POLL_NS + 5 * p->tick);
		WRITE_ONCE(hwtimer_step_hook, submit_in_poll);
		nap(POLL_NS + 5 * p->tick);
		WRITE_ONCE(hwtimer_step_hook, NULL);
		nap(3 * SEC);
		reap(p);
		KUNIT_EXPECT_EQ_MSG(test, 1 + p->silent, p->expired, "step %u", n);
		silent += p->silent;
		end(p);
	} while (p->step >= n && n < 100);
	kunit_info(test, "%u steps, %u without a doorbell\n", n, silent);
	KUNIT_EXPECT_GT(test, silent, 3);
}

/* The step hook: cancel timeout 1 during a poll, which then goes on until its deadline. */
static void cancel_in_poll(void)
{
	struct program *p = &program;

	if (current != p->driven->task ||
	    READ_ONCE(p->driven->wheel.running) != &p->rings->poll || ++p->step != p->n)
		return;
	put(p, HWTIMER_OP_CANCEL, 1, 0);
	p->silent = true;
	while (now(p) <= p->deadline[1])
		mdelay(1);
}

/* A cancel that is submitted before the deadline comes before the expiry, also during a poll. */
static void cancelled_during_poll(struct kunit *test)
{
	struct hwtimer_schedule arg = { .id = HWTIMER_ID(1, 1) };
	unsigned int n = 0;
	struct program *p;

	do {
		p = begin(test);
		p->n = ++n;
		submit(p, 0, now(p) + 1000 * SEC);
		arg.time = p->rings->poll_at + 2 * p->tick;
		p->deadline[1] = arg.time;
		KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SCHEDULE, &arg));
		WRITE_ONCE(hwtimer_step_locked_hook, cancel_in_poll);
		nap(POLL_NS + 2 * p->tick);
		WRITE_ONCE(hwtimer_step_locked_hook, NULL);
		nap(SEC);
		KUNIT_EXPECT_EQ_MSG(test, !p->silent, p->shared->cq_tail, "step %u", n);
		end(p);
	} while (p->step >= n && n < 100);
	kunit_info(test, "%u steps\n", n);
	KUNIT_EXPECT_GT(test, n, 3);
}

/* The step hook: submit whenever there is room, even while the worker takes entries. */
static void keep_submitting(void)
{
	struct program *p = &program;

	if (current == p->driven->task && p->shared->sq_tail - p->shared->sq_head < SLOTS)
		put(p, HWTIMER_OP_NOP, 0, 0);
}

/* A program that keeps submitting does not keep its timeouts from expiring. */
static void while_submitting(struct kunit *test)
{
	struct program *p = begin(test);

	submit(p, 1, now(p) + 100 * MS);
	WRITE_ONCE(hwtimer_step_locked_hook, keep_submitting);
	nap(SEC);
	WRITE_ONCE(hwtimer_step_locked_hook, NULL);
	KUNIT_EXPECT_LT(test, 2U * SLOTS, p->rings->pair.sq_head);
	KUNIT_EXPECT_EQ(test, 1U, p->shared->cq_tail);
	end(p);
}

/* The step hook: touch timeout 1 while its callback is about to run, or has just run. */
static void touch_in_expiry(void)
{
	struct program *p = &program;
	struct hwtimer_touch arg = { .id = HWTIMER_ID(1, 1), .time = p->deadline[1] };
	const struct hwtimer_timeout *running = READ_ONCE(p->driven->wheel.running);

	if (current == p->driven->task && running && running != &p->rings->poll &&
	    ++p->step == p->n)
		p->silent = !command(p, HWTIMER_IOC_TOUCH, &arg);
}

/*
 * Before the callback, a touch postpones the expiry, even if the worker has claimed the timeout.
 * After it, a touch fails and changes nothing. (The callback itself, with the context's lock held,
 * has no steps here, as the submission ring is empty.)
 */
static void before_callback(struct kunit *test)
{
	struct hwtimer_schedule arg = { .id = HWTIMER_ID(1, 1) };
	struct hwtimer_query query = { .id = arg.id };
	unsigned int n = 0, touched = 0;
	struct program *p;

	do {
		p = begin(test);
		p->n = ++n;
		p->deadline[1] = now(p) + 1000 * SEC;
		arg.time = now(p) + 100 * MS;
		KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SCHEDULE, &arg));
		WRITE_ONCE(hwtimer_step_hook, touch_in_expiry);
		nap(SEC);
		WRITE_ONCE(hwtimer_step_hook, NULL);
		KUNIT_EXPECT_EQ_MSG(test, !p->silent, p->shared->cq_tail, "step %u", n);
		if (p->silent) {
			KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_QUERY, &query));
			KUNIT_EXPECT_EQ(test, p->deadline[1], query.deadline);
		} else {
			KUNIT_EXPECT_EQ(test, arg.time,
					hwtimer_shm_record(&p->rings->pair, 0)->deadline);
		}
		touched += p->silent;
		end(p);
	} while (p->step >= n && n < 100);
	kunit_info(test, "%u steps, touched at %u\n", n, touched);
	/* One before the claim, one after it. */
	KUNIT_EXPECT_GE(test, touched, 2U);
}

/* The step hook: which flags does a program see that has just read all records? */
static void note_flags(void)
{
	struct program *p = &program;

	if (p->shared->cq_tail - p->shared->cq_head == SLOTS && !p->step++)
		p->n = READ_ONCE(p->shared->flags);
}

/*
 * Records wait while CQ_FULL is clear, as after a set clock, and more than are moved at once. The
 * flag is set before the last one of these is published.
 */
static void full_before_last_record(struct kunit *test)
{
	struct program *p = begin(test);
	struct hwtimer_schedule arg = { };
	unsigned int i;

	for (i = 0; i < 2 * SLOTS + 1; i++) {
		arg.id = i < SLOTS ? HWTIMER_ID(i, 1) : HWTIMER_ID(i - SLOTS, 2);
		arg.time = now(p);
		KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SCHEDULE, &arg));
		nap(3 * p->tick);
	}
	KUNIT_EXPECT_EQ(test, (u32)SLOTS, p->shared->cq_tail);
	KUNIT_EXPECT_EQ(test, (u32)HWTIMER_RING_CQ_FULL, p->shared->flags);
	/* Pairs with hwtimer_shm_room(). */
	smp_store_release(&p->shared->cq_head, SLOTS);
	spin_lock(&p->rings->ctx->lock);
	hwtimer_shm_set_flag(&p->rings->pair, HWTIMER_RING_CQ_FULL, false);
	spin_unlock(&p->rings->ctx->lock);

	put(p, HWTIMER_OP_CANCEL, 0, 0);
	WRITE_ONCE(hwtimer_step_locked_hook, note_flags);
	doorbell(p);
	WRITE_ONCE(hwtimer_step_locked_hook, NULL);
	KUNIT_EXPECT_EQ(test, 2U * SLOTS, p->shared->cq_tail);
	KUNIT_EXPECT_EQ(test, (u32)HWTIMER_RING_CQ_FULL, p->n);
	end(p);
}
#endif

/* Turn entry @index into a NOP, as if an earlier store had become visible only now. */
static void take_back(struct program *p, u32 index)
{
	WRITE_ONCE(hwtimer_shm_sqe(&p->rings->pair, index)->op, HWTIMER_OP_NOP);
}

static struct hwtimer_stats stats(struct program *p)
{
	struct hwtimer_stats arg = { };

	KUNIT_EXPECT_EQ(p->test, 0L, command(p, HWTIMER_IOC_STATS, &arg));
	return arg;
}

/* Wait until the worker has taken all entries. It has not confirmed the last one yet. */
static void await_taken(struct program *p)
{
	u32 tail = p->shared->sq_tail;
	unsigned int n = 0;

	while (READ_ONCE(p->rings->pair.sq_head) != tail && n++ < 100)
		nap(10 * MS);
	KUNIT_EXPECT_EQ(p->test, tail, p->rings->pair.sq_head);
	KUNIT_EXPECT_NE(p->test, tail, p->shared->sq_head);
}

/* Start the polls, with an entry in slot 0 that stays pending. */
static struct program *begin_polled(struct kunit *test)
{
	struct program *p = begin(test);

	submit(p, 0, now(p) + 1000 * SEC);
	KUNIT_EXPECT_EQ(test, 1, p->kicks);
	KUNIT_EXPECT_EQ(test, p->shared->sleep_until + SEC + 8 * p->tick, p->shared->relaxed_until);
	return p;
}

/* The worker executes an entry that was taken back, and undoes it after a grace period. */
static void executed_and_taken_back(struct kunit *test)
{
	struct program *p = begin_polled(test);
	u64 far = now(p) + 1000 * SEC;
	struct hwtimer_stats s;
	u32 i;

	for (i = 1; i <= 3; i++)
		submit(p, i, far);
	KUNIT_EXPECT_EQ(test, 1, p->kicks);
	await_taken(p);
	KUNIT_EXPECT_EQ(test, p->first + 1, p->shared->sq_head);
	KUNIT_EXPECT_EQ(test, 4ULL, stats(p).pending);
	take_back(p, p->first + 2);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, p->first + 4, p->shared->sq_head);
	s = stats(p);
	KUNIT_EXPECT_EQ(test, 3ULL, s.pending);
	KUNIT_EXPECT_EQ(test, 4ULL, s.scheduled);
	KUNIT_EXPECT_EQ(test, 1ULL, s.cancelled);
	end(p);
}

/* The unconfirmed entries go beyond the end of the ring. */
static void beyond_the_end(struct kunit *test)
{
	struct program *p = begin_polled(test);
	u64 far = now(p) + 1000 * SEC;
	u32 tail, i;

	while ((tail = p->shared->sq_tail) % SLOTS != SLOTS - 2)
		put(p, HWTIMER_OP_NOP, 0, 0);
	doorbell(p);
	for (i = 1; i <= 4; i++)
		submit(p, i, far);
	await_taken(p);
	take_back(p, tail + 3);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, tail + 4, p->shared->sq_head);
	KUNIT_EXPECT_EQ(test, 4ULL, stats(p).pending);
	KUNIT_EXPECT_EQ(test, 1ULL, stats(p).cancelled);
	end(p);
}

/* Entries that are confirmed or were NOPs from the beginning, and those of ioctls, end nothing. */
static void not_taken_back(struct kunit *test)
{
	struct program *p = begin_polled(test);
	u64 far = now(p) + 1000 * SEC;
	struct hwtimer_schedule arg = { .time = far, .id = HWTIMER_ID(3, 1) };

	take_back(p, p->first);
	KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SCHEDULE, &arg));
	submit(p, 1, far);
	put(p, HWTIMER_OP_NOP, 0, 0);
	put(p, HWTIMER_OP_NOP, 1, 0);
	put(p, HWTIMER_OP_NOP, 3, 0);
	put_id(p, HWTIMER_OP_SCHEDULE, HWTIMER_ID(0, 2), far);
	await_taken(p);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, p->first + 6, p->shared->sq_head);
	KUNIT_EXPECT_EQ(test, 3ULL, stats(p).pending);
	KUNIT_EXPECT_EQ(test, 0ULL, stats(p).cancelled);
	KUNIT_EXPECT_EQ(test, -EEXIST, hwtimer_shm_record(&p->rings->pair, 0)->error);
	end(p);
}

/* A NOP that was one from the beginning ends nothing, even at the place that a timeout notes. */
static void nop_with_an_id(struct kunit *test)
{
	struct program *p = begin(test);
	struct hwtimer_schedule arg = { .time = now(p) + 1000 * SEC, .id = HWTIMER_ID(3, 1) };
	struct hwtimer_schedule soon = { .time = now(p) + 100 * MS, .id = HWTIMER_ID(4, 1) };

	KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SCHEDULE, &arg));
	KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SCHEDULE, &soon));
	put(p, HWTIMER_OP_NOP, 3, 0);
	put_id(p, HWTIMER_OP_SCHEDULE, HWTIMER_ID(3, 2), arg.time);
	/* The expiry takes both entries. */
	nap(SEC);
	KUNIT_EXPECT_EQ(test, p->first + 2, p->rings->pair.sq_head);
	KUNIT_EXPECT_EQ(test, -EEXIST, hwtimer_shm_record(&p->rings->pair, 0)->error);
	KUNIT_EXPECT_EQ(test, 1ULL, stats(p).pending);
	KUNIT_EXPECT_EQ(test, 0ULL, stats(p).cancelled);
	end(p);
}

/* An entry that failed is turned into a NOP. It ends nothing, either. */
static void failed_and_taken_back(struct kunit *test)
{
	struct program *p = begin(test);
	struct hwtimer_schedule arg = { .time = now(p) + 1000 * SEC, .id = HWTIMER_ID(3, 1) };
	struct hwtimer_schedule soon = { .time = now(p) + 100 * MS, .id = HWTIMER_ID(4, 1) };

	KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SCHEDULE, &arg));
	KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SCHEDULE, &soon));
	put_id(p, HWTIMER_OP_SCHEDULE, arg.id, arg.time);
	await_taken(p);
	take_back(p, p->first);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, -EEXIST, hwtimer_shm_record(&p->rings->pair, 0)->error);
	KUNIT_EXPECT_EQ(test, p->first + 1, p->shared->sq_head);
	KUNIT_EXPECT_EQ(test, 1ULL, stats(p).pending);
	end(p);
}

/*
 * An entry is taken back, and its id used again. The timeout of an ioctl notes the same place: 0,
 * as no entry has armed it. To use its index fails, and ends nothing.
 */
static void another_taken_back(struct kunit *test)
{
	struct program *p = begin(test);
	struct hwtimer_schedule arg = { .time = now(p) + 1000 * SEC, .id = HWTIMER_ID(3, 1) };
	struct hwtimer_schedule soon = { .time = now(p) + 100 * MS, .id = HWTIMER_ID(4, 1) };

	KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SCHEDULE, &arg));
	KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_SCHEDULE, &soon));
	put_id(p, HWTIMER_OP_SCHEDULE, HWTIMER_ID(5, 1), arg.time);
	await_taken(p);
	take_back(p, p->first);
	put_id(p, HWTIMER_OP_SCHEDULE, HWTIMER_ID(5, 1), arg.time);
	put_id(p, HWTIMER_OP_SCHEDULE, HWTIMER_ID(3, 2), arg.time);
	await_taken(p);
	KUNIT_EXPECT_EQ(test, -EEXIST, hwtimer_shm_record(&p->rings->pair, 1)->error);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 2ULL, stats(p).pending);
	KUNIT_EXPECT_EQ(test, 1ULL, stats(p).cancelled);
	end(p);
}

/* The program uses the index again before the worker has undone the entry that was taken back. */
static void index_used_again(struct kunit *test)
{
	struct program *p = begin_polled(test);
	struct hwtimer_query arg = { .id = HWTIMER_ID(1, 2) };
	u64 far = now(p) + 1000 * SEC;
	u32 head;

	submit(p, 1, far);
	await_taken(p);
	head = p->rings->pair.sq_head;
	take_back(p, head - 1);
	put_id(p, HWTIMER_OP_SCHEDULE, HWTIMER_ID(1, 2), far + SEC);
	/* Not by an ioctl, which would undo it first: the next poll takes the entry. */
	nap(POLL_NS + MARGIN * p->tick);
	KUNIT_EXPECT_EQ(test, head + 1, p->rings->pair.sq_head);
	/* The last one was taken after the beginning of the grace period. */
	KUNIT_EXPECT_EQ(test, head, p->shared->sq_head);
	KUNIT_EXPECT_EQ(test, 0U, p->shared->cq_tail);
	KUNIT_EXPECT_EQ(test, 0L, command(p, HWTIMER_IOC_QUERY, &arg));
	KUNIT_EXPECT_EQ(test, far + SEC, arg.deadline);
	KUNIT_EXPECT_EQ(test, 2ULL, stats(p).pending);
	/* An index whose timeout was not taken back is in use. */
	put_id(p, HWTIMER_OP_SCHEDULE, HWTIMER_ID(1, 3), far);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, 1U, p->shared->cq_tail);
	KUNIT_EXPECT_EQ(test, -EEXIST, hwtimer_shm_record(&p->rings->pair, 0)->error);
	KUNIT_EXPECT_EQ(test, 2ULL, stats(p).pending);
	end(p);
}

/* The program reuses a place before it may: its entry waits until the place is confirmed. */
static void place_used_again(struct kunit *test)
{
	struct program *p = begin_polled(test);
	u64 far = now(p) + 1000 * SEC;
	u32 head, tail;

	submit(p, 1, far);
	await_taken(p);
	head = p->shared->sq_head;
	while (p->shared->sq_tail - head < SLOTS)
		put(p, HWTIMER_OP_NOP, 0, 0);
	*hwtimer_shm_sqe(&p->rings->pair, head) = (struct hwtimer_sqe){
		.op = HWTIMER_OP_SCHEDULE, .id = HWTIMER_ID(2, 1), .time = far,
	};
	tail = head + SLOTS + 1;
	/* Pairs with hwtimer_shm_submitted(). */
	smp_store_release(&p->shared->sq_tail, tail);
	nap(POLL_NS + MARGIN * p->tick);
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_BAD, p->shared->flags);
	KUNIT_EXPECT_EQ(test, head + 1, p->rings->pair.sq_head);
	doorbell(p);
	KUNIT_EXPECT_EQ(test, 0U, p->shared->flags);
	KUNIT_EXPECT_EQ(test, tail, p->shared->sq_head);
	KUNIT_EXPECT_EQ(test, 3ULL, stats(p).pending);
	end(p);
}

/* The doorbell confirms all entries at once. */
static void doorbell_confirms(struct kunit *test)
{
	struct program *p = begin_polled(test);
	u64 far = now(p) + 1000 * SEC;

	submit(p, 1, far);
	submit(p, 2, far);
	await_taken(p);
	submit(p, 3, far);
	take_back(p, p->first + 1);
	doorbell(p);
	KUNIT_EXPECT_EQ(test, p->first + 4, p->shared->sq_head);
	KUNIT_EXPECT_EQ(test, 3ULL, stats(p).pending);
	KUNIT_EXPECT_EQ(test, 1ULL, stats(p).cancelled);
	end(p);
}

/*
 * A submission that needed no kick becomes visible when the worker has stopped polling, as far as
 * the program can tell. The last poll finds it.
 */
static void after_last_poll_but_one(struct kunit *test)
{
	struct program *p = begin_polled(test);
	u64 until = 0, next;
	unsigned int n = 0;

	while ((next = READ_ONCE(p->shared->relaxed_until)) != HWTIMER_RING_IDLE && n++ < 1000) {
		until = next;
		nap(10 * MS);
	}
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, next);
	put(p, HWTIMER_OP_SCHEDULE, 1, until);
	nap(until - now(p) + 2 * p->tick);
	reap(p);
	KUNIT_EXPECT_EQ(test, 1, p->expired);
	/* Then polls end. */
	nap(10 * SEC);
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, p->rings->poll_at);
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, p->shared->relaxed_until);
	end(p);
}

/* Entries that an expiry takes while there are no polls are confirmed, too. */
static void confirmed_when_idle(struct kunit *test)
{
	struct program *p = begin_polled(test);
	u64 at = now(p) + 20 * SEC;

	submit(p, 1, at);
	submit(p, 2, at + 100 * SEC);
	nap(10 * SEC);
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, p->rings->poll_at);
	put(p, HWTIMER_OP_CANCEL, 2, 0);
	nap(at - now(p) + 2 * p->tick);
	reap(p);
	KUNIT_EXPECT_EQ(test, 1, p->expired);
	KUNIT_EXPECT_EQ(test, 1ULL, stats(p).pending);
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, p->shared->sleep_until);
	nap(SEC);
	KUNIT_EXPECT_EQ(test, p->rings->pair.sq_head, p->shared->sq_head);
	nap(10 * SEC);
	KUNIT_EXPECT_EQ(test, HWTIMER_RING_IDLE, p->rings->poll_at);
	end(p);
}

/* As if @n entries had come and gone. */
static void skip_entries(struct program *p, u32 n)
{
	struct ctx_rings *r = p->rings;

	r->pair.sq_head += n;
	r->mark += n;
	r->claimed += n;
	r->confirmed += n;
	p->shared->sq_tail += n;
	p->shared->sq_head += n;
}

/* When indexes wrap, the end of an old grace period does not seem to be ahead. */
static void grace_before_wrap(struct kunit *test)
{
	struct program *p = begin_polled(test);
	u64 far = now(p) + 1000 * SEC;
	u32 i;

	/* The polls end with a grace period. */
	nap(10 * SEC);
	for (i = 1; i <= 4; i++) {
		skip_entries(p, (1U << 30) - SLOTS);
		put(p, HWTIMER_OP_SCHEDULE, i, far);
		doorbell(p);
	}
	nap(SEC);
	KUNIT_EXPECT_EQ(test, p->shared->sq_tail, p->shared->sq_head);
	KUNIT_EXPECT_EQ(test, 5ULL, stats(p).pending);
	end(p);
}

static struct kunit_case rings_cases[] = {
	KUNIT_CASE_PARAM(doorbell_brings_poll, wheel_gen_params),
	KUNIT_CASE_PARAM(on_time, wheel_gen_params),
#ifdef CONFIG_UML
	KUNIT_CASE_PARAM(during_poll, wheel_gen_params),
	KUNIT_CASE_PARAM(while_submitting, wheel_gen_params),
	KUNIT_CASE_PARAM(before_callback, wheel_gen_params),
	KUNIT_CASE_PARAM(full_before_last_record, wheel_gen_params),
	KUNIT_CASE_PARAM(cancelled_during_poll, wheel_gen_params),
#endif
	KUNIT_CASE_PARAM(executed_and_taken_back, relaxed_gen_params),
	KUNIT_CASE_PARAM(beyond_the_end, relaxed_gen_params),
	KUNIT_CASE_PARAM(not_taken_back, relaxed_gen_params),
	KUNIT_CASE_PARAM(nop_with_an_id, relaxed_gen_params),
	KUNIT_CASE_PARAM(failed_and_taken_back, relaxed_gen_params),
	KUNIT_CASE_PARAM(another_taken_back, relaxed_gen_params),
	KUNIT_CASE_PARAM(index_used_again, relaxed_gen_params),
	KUNIT_CASE_PARAM(place_used_again, relaxed_gen_params),
	KUNIT_CASE_PARAM(doorbell_confirms, relaxed_gen_params),
	KUNIT_CASE_PARAM(after_last_poll_but_one, relaxed_gen_params),
	KUNIT_CASE_PARAM(confirmed_when_idle, relaxed_gen_params),
	KUNIT_CASE_PARAM(grace_before_wrap, relaxed_gen_params),
	{}
};

SUITE(rings, "rings", .suite_init = rings_init, .suite_exit = rings_exit, .init = case_init);
