// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ioctls: nearly valid arguments, where they are placed, and the checks of the results.
 */
#include "round.h"

struct command {
	unsigned long cmd;
	__u32 flags;			/* known flags */
	bool padded;			/* the second word must be 0 */
	int errors[8];			/* documented, besides those of all commands */
};

static const struct command commands[IOCTLS] = {
	[DO_SETUP] = { HWTIMER_IOC_SETUP, HWTIMER_SETUP_OWN_WHEEL, false,
		{ EPERM, EDQUOT, EBUSY, ESHUTDOWN, ENOMEM } },
	[DO_SCHEDULE] = { HWTIMER_IOC_SCHEDULE, HWTIMER_RELATIVE | HWTIMER_CANCEL_ON_SET, true,
		{ EAGAIN, EDQUOT, ESHUTDOWN, ENOMEM, EEXIST, EBUSY } },
	[DO_TOUCH] = { HWTIMER_IOC_TOUCH, HWTIMER_RELATIVE, true, { ENOENT, ESHUTDOWN } },
	[DO_CANCEL] = { HWTIMER_IOC_CANCEL, 0, true, { ENOENT } },
	[DO_QUERY] = { HWTIMER_IOC_QUERY, 0, true, { ENOENT } },
	[DO_STOP] = { HWTIMER_IOC_STOP, 0, true, { 0 } },
	[DO_STATS] = { HWTIMER_IOC_STATS, 0, true, { 0 } },
	[DO_RINGS] = { HWTIMER_IOC_RINGS, HWTIMER_RINGS_EVENTFD | HWTIMER_RINGS_RELAXED,
		false, { EBADF, EBUSY, EDQUOT, ESHUTDOWN, ENOMEM } },
	[DO_ENTER] = { HWTIMER_IOC_ENTER, 0, true, { ENXIO, EBADFD } },
	[DO_LIST] = { HWTIMER_IOC_LIST, 0, false, { 0 } },
	[DO_WHEELS] = { HWTIMER_IOC_WHEELS, 0, false, { 0 } },
	[DO_RESIZE] = { HWTIMER_IOC_RESIZE, 0, false, { EDQUOT, ENOMEM, EINTR } },
};

static const enum action op_actions[] = {
	[HWTIMER_OP_SCHEDULE] = DO_SCHEDULE, [HWTIMER_OP_TOUCH] = DO_TOUCH,
	[HWTIMER_OP_CANCEL] = DO_CANCEL,
};

static bool documented(enum action action, int ret)
{
	const int *errors = commands[action].errors;
	unsigned int i;

	if (ret >= 0 || ret == -EFAULT || ret == -EINVAL || ret == -E2BIG)
		return true;
	for (i = 0; i < ARRAY_SIZE(commands[action].errors); i++)
		if (errors[i] && errors[i] == -ret)
			return true;
	return false;
}

/**
 * ring_error - is the error documented for an entry of the submission ring?
 * @op: its operation
 * @error: the negative errno
 *
 * Return: true if it is.
 */
bool ring_error(__u32 op, int error)
{
	return op >= HWTIMER_OP_SCHEDULE && op <= HWTIMER_OP_CANCEL && error < 0 &&
	       error != -EFAULT && error != -EINVAL && error != -E2BIG &&
	       documented(op_actions[op], error);
}

/* A time, often at a limit of the range. */
__u64 pick_time(struct thread *t, const struct context *c, __u32 *flags)
{
	static const __u64 odd[] = {
		0, 1, HWTIMER_NEVER, HWTIMER_NEVER - 1, 1ULL << 63, (1ULL << 63) - 1,
		1ULL << 60, (1ULL << 60) - 1, FAR, 86400 * NSEC_PER_SEC,
	};
	__u64 tick = c->tick, time;

	switch (below(&t->random, 8)) {
	case 0:
		time = ONE_OF(&t->random, odd);
		*flags = one_in(&t->random, 2) ? HWTIMER_RELATIVE : 0;
		return time;
	case 1:
		time = FAR + below(&t->random, FAR);
		break;
	case 2:
		time = below(&t->random, 6) * tick + below(&t->random, 3) - 1;
		break;
	case 3:
		time = below(&t->random, 100 * NSEC_PER_MSEC);
		break;
	default:
		time = below(&t->random, 4 * NSEC_PER_MSEC);
	}
	*flags = HWTIMER_RELATIVE;
	if (one_in(&t->random, 2)) {
		*flags = 0;
		time += context_now(c);
		if (one_in(&t->random, 4))
			time = time / tick * tick + below(&t->random, 3) - 1;
		if (one_in(&t->random, 8))
			time -= below(&t->random, NSEC_PER_SEC);
	}
	return time;
}

__u64 earliest_of(const struct context *c, __u32 flags, __u64 time)
{
	__u64 now;

	if (!(flags & HWTIMER_RELATIVE))
		return time;
	now = context_now(c);
	return time > HWTIMER_NEVER - now ? HWTIMER_NEVER : now + time;
}

static void fill_setup(struct thread *t, struct hwtimer_setup *s)
{
	static const __u64 ticks[] = {
		NSEC_PER_MSEC, NSEC_PER_MSEC, 7 * NSEC_PER_MSEC, 100 * NSEC_PER_MSEC,
		100 * NSEC_PER_USEC, NSEC_PER_SEC, 1ULL << 40, 1,
	};
	static const __u32 slots[] = { 1, 2, 3, 16, 256, 256, 512, 4096, 65536, 65537 };
	static const __u64 caps[] = { 0, 0, 0, 1, 2, 10, 100, 1 << 24, (1 << 24) + 1 };

	*s = (struct hwtimer_setup){
		.clockid = CLOCK_MONOTONIC, .cap = ONE_OF(&t->random, caps),
	};
	if (one_in(&t->random, 3))
		return;
	s->flags = HWTIMER_SETUP_OWN_WHEEL;
	s->tick_ns = ONE_OF(&t->random, ticks);
	s->slots = ONE_OF(&t->random, slots);
	s->levels = one_in(&t->random, 2) ? 0 : below(&t->random, 6);
	if (one_in(&t->random, 2))
		s->clockid = one_in(&t->random, 2) ? CLOCK_BOOTTIME : CLOCK_REALTIME;
}

static void fill_rings(struct thread *t, struct hwtimer_rings *r)
{
	static const __u32 entries[] = { 1, 2, 3, 4, 8, 16, 64, 128, 1000, 65536 };

	*r = (struct hwtimer_rings){
		.sq_entries = ONE_OF(&t->random, entries),
		.cq_entries = one_in(&t->random, 3) ? 0 : ONE_OF(&t->random, entries),
		.timeouts = 1 + below(&t->random, one_in(&t->random, 4) ? 1000 : 40),
		ENTRY_SIZES,
	};
}

static void fill_schedule(struct thread *t, struct context *c, struct hwtimer_schedule *s)
{
	/* Only moderate rates for privileged users, who have no limits. */
	__u64 tick = c->tick, shortest = 10 * NSEC_PER_MSEC;

	s->time = pick_time(t, c, &s->flags);
	if (one_in(&t->random, c->clockid == CLOCK_REALTIME ? 3 : 100))
		s->flags |= HWTIMER_CANCEL_ON_SET;
	if (c->rings)
		s->id = HWTIMER_ID(below(&t->random, c->ring.timeouts), below(&t->random, 4));
	if (!one_in(&t->random, 6))
		return;
	if (!t->plan->privileged)
		shortest = tick - one_in(&t->random, 8);
	s->period = shortest + (one_in(&t->random, 4) ? below(&t->random, 2) :
				below(&t->random, 20 * NSEC_PER_MSEC));
	if (one_in(&t->random, 16))
		s->period = HWTIMER_NEVER - below(&t->random, 3);
	if (one_in(&t->random, 3))
		s->misfire = tick + below(&t->random, 3) - 1;
	s->policy = below(&t->random, 3);
	if (t->plan->privileged && s->policy == HWTIMER_MISFIRE_MAKE_UP)
		s->policy = HWTIMER_MISFIRE_ONCE;
}

/* The id of a timeout: pending, over, of another context, or invalid. */
static __u64 pick_id(struct thread *t, struct context *c)
{
	struct context *other = &t->contexts[below(&t->random, CONTEXTS)];
	struct book *b = any_book(t, c);
	__u64 id;

	if (one_in(&t->random, 16))
		b = any_book(t, other);
	if (b)
		id = atomic_load(&b->id);
	else if (c->rings)
		id = HWTIMER_ID(below(&t->random, c->ring.timeouts), below(&t->random, 4));
	else
		id = atomic_load(&c->ids[below(&t->random, ARRAY_SIZE(c->ids))]);
	if (one_in(&t->random, 16))
		id ^= 1ULL << below(&t->random, 64);
	return id;
}

/* Fill in an argument that is valid, or nearly. */
static void fill(struct thread *t, struct context *c, enum action action,
		 union argument *arg)
{
	memset(arg, 0, sizeof(*arg));
	switch (action) {
	case DO_SETUP:
		fill_setup(t, &arg->setup);
		break;
	case DO_SCHEDULE:
		fill_schedule(t, c, &arg->schedule);
		break;
	case DO_TOUCH:
		arg->touch.id = pick_id(t, c);
		arg->touch.time = pick_time(t, c, &arg->touch.flags);
		break;
	case DO_CANCEL:
		arg->cancel.id = pick_id(t, c);
		break;
	case DO_QUERY:
		arg->query.id = pick_id(t, c);
		break;
	case DO_RINGS:
		fill_rings(t, &arg->rings);
		break;
	case DO_RESIZE:
		arg->resize.timeouts = below(&t->random, one_in(&t->random, 4) ? 10000 : 100);
		break;
	default:
		break;
	}
}

/* Change something in the first @size bytes. */
static void mutate(struct thread *t, void *arg, size_t size)
{
	static const __u64 odd[] = {
		0, 1, 2, 3, 4, ~0ULL, 0xffffffffULL, 1ULL << 31, 1ULL << 32, 1ULL << 24,
		(1ULL << 24) - 1, (1ULL << 24) + 1, 65536, 65537, 0x7fffffffULL, 1ULL << 63,
	};
	unsigned int n = one_in(&t->random, 4) ? 2 : 1;
	char *p = arg;

	while (n--) {
		__u64 value = ONE_OF(&t->random, odd);
		size_t at = 4 * below(&t->random, size / 4);

		switch (below(&t->random, 4)) {
		case 0:
			p[at + below(&t->random, 4)] ^= 1 << below(&t->random, 8);
			break;
		case 1:
			value = rnd(&t->random);
			memcpy(p + at, &value, 4);
			break;
		case 2:
			memcpy(p + at, &value, 4);
			break;
		default:
			at &= ~7UL;
			memcpy(p + at, &value, at + 8 <= size ? 8 : 4);
		}
	}
}

/* Privileged users could exhaust the machine's memory or CPU time: prevent that. */
static void restrain(const struct thread *t, enum action action, union argument *arg)
{
	if (!t->plan->privileged)
		return;
	if (action == DO_SETUP) {
		if (arg->setup.slots <= 1 << 16)
			arg->setup.slots &= 0x3fff;
		if (arg->setup.tick_ns && arg->setup.tick_ns < 50 * NSEC_PER_USEC)
			arg->setup.tick_ns += 50 * NSEC_PER_USEC;
	} else if (action == DO_RINGS && arg->rings.timeouts <= 1 << 24) {
		arg->rings.timeouts &= 0xfff;
	} else if (action == DO_RESIZE && arg->resize.timeouts <= 1 << 24) {
		arg->resize.timeouts &= 0xfff;
	} else if (action == DO_SCHEDULE && arg->schedule.period &&
		   arg->schedule.period < 10 * NSEC_PER_MSEC) {
		arg->schedule.period = 1;	/* shorter than any tick: refused */
	}
}

static_assert(offsetof(struct hwtimer_touch, id) == 8 &&
	      offsetof(struct hwtimer_cancel, id) == 8 &&
	      offsetof(struct hwtimer_query, id) == 8, "words[1] is the id");

static enum verdict judge_setup(const struct hwtimer_setup *s)
{
	if (s->cap > 1 << 24)
		return INVALID;
	if (s->flags & HWTIMER_SETUP_OWN_WHEEL) {
		if ((s->clockid != CLOCK_MONOTONIC && s->clockid != CLOCK_BOOTTIME &&
		     s->clockid != CLOCK_REALTIME) ||
		    !s->tick_ns || !s->slots || s->slots > 65536 ||
		    s->tick_ns > ((1ULL << 60) - 1) / s->slots || s->levels > 16)
			return INVALID;
		return UNSURE;
	}
	if (s->flags || s->clockid != CLOCK_MONOTONIC || s->tick_ns || s->slots || s->levels)
		return INVALID;
	return VALID;
}

static enum verdict judge_schedule(const struct context *c, const struct hwtimer_schedule *s)
{
	if (s->pad2 || s->policy > HWTIMER_MISFIRE_MAKE_UP)
		return INVALID;
	if (!s->period && (s->misfire || s->policy))
		return INVALID;
	if (s->flags & HWTIMER_CANCEL_ON_SET && s->flags & HWTIMER_RELATIVE)
		return INVALID;
	if (!c->clean)
		return UNSURE;	/* depends on the clock, the tick and the slots */
	if (s->flags & HWTIMER_CANCEL_ON_SET && c->clockid != CLOCK_REALTIME)
		return INVALID;
	if (s->period && (s->period < c->tick || (s->misfire && s->misfire < c->tick)))
		return INVALID;
	return !c->rings || HWTIMER_ID_INDEX(s->id) < c->ring.timeouts ? VALID : INVALID;
}

static enum verdict judge_rings(const struct hwtimer_rings *r)
{
	if (r->pad || (!(r->flags & HWTIMER_RINGS_EVENTFD) && r->eventfd) ||
	    !r->sq_entries || r->sq_entries > 65536 || r->cq_entries > 65536 ||
	    !r->timeouts || r->timeouts > 1 << 24 ||
	    r->sqe_size < sizeof(struct hwtimer_sqe) || r->record_size < RECORD_SIZE ||
	    (r->sqe_size | r->record_size) % 8 || r->sqe_size > 256 || r->record_size > 256)
		return INVALID;
	return r->flags & HWTIMER_RINGS_EVENTFD ? UNSURE : VALID;
}

/* The argument as the kernel sees it when it reads @size bytes. */
static union argument as_seen(enum action action, const union argument *given, size_t size)
{
	size_t known = _IOC_SIZE(commands[action].cmd);
	union argument arg = { 0 };

	memcpy(&arg, given, size < known ? size : known);
	return arg;
}

/* Can a call with this argument succeed? */
static enum verdict judge(const struct context *c, enum action action,
			  const union argument *given, size_t size)
{
	const struct command *command = &commands[action];
	union argument arg = as_seen(action, given, size);

	if (size < _IOC_SIZE(command->cmd) || size % 8)
		return INVALID;
	if (((__u32 *)&arg)[0] & ~command->flags || (command->padded && ((__u32 *)&arg)[1]))
		return INVALID;
	switch (action) {
	case DO_SETUP:
		return judge_setup(&arg.setup);
	case DO_SCHEDULE:
		return judge_schedule(c, &arg.schedule);
	case DO_QUERY:
		return arg.query.pad2 ? INVALID : VALID;
	case DO_RINGS:
		return judge_rings(&arg.rings);
	case DO_RESIZE:
		return arg.resize.timeouts > 1 << 24 ? INVALID : VALID;
	case DO_ENTER:
		return arg.enter.pad2 ? INVALID : VALID;
	default:
		return VALID;
	}
}

/* The books, before an operation and with its result. */

static void open_op(struct thread *t, struct context *c, struct pending_op *op,
		    enum action action, union argument *arg, size_t size)
{
	struct book *b;
	unsigned int n, i;
	__u64 id;

	*op = (struct pending_op){
		.action = action,
		.verdict = judge(c, action, arg, size),
	};
	if (!c->clean)
		return;
	switch (action) {
	case DO_SCHEDULE:
		op->book = new_book(c);
		if (!op->book)
			return;
		arg->schedule.user_data = op->book - c->books;
		op->book->periodic = as_seen(action, arg, size).schedule.period;
		op->earliest = earliest_of(c, arg->schedule.flags, arg->schedule.time);
		atomic_store(&op->book->earliest, op->earliest);
		if (c->rings) {
			/* A tag of its own: ids are not reused. */
			arg->schedule.id = HWTIMER_ID(HWTIMER_ID_INDEX(arg->schedule.id),
						      op->book - c->books + 1);
			atomic_store(&op->book->id, arg->schedule.id);
		}
		return;
	case DO_TOUCH:
		id = arg->touch.id;
		op->earliest = earliest_of(c, arg->touch.flags, arg->touch.time);
		break;
	case DO_CANCEL:
		id = arg->cancel.id;
		break;
	case DO_QUERY:
		id = arg->query.id;
		break;
	default:
		return;
	}
	n = atomic_load(&c->n_books);
	for (i = 0; i < n && !op->book; i++) {
		b = &c->books[i];
		if (atomic_load(&b->id) == id)
			op->book = b;
	}
	op->over = !op->book || is_over(op->book);
	/* Make the id larger than any: another thread might create this one meanwhile. */
	if (!op->book && t->plan->threads > 1)
		arg->words[1] |= 1ULL << 63;
	if (op->book && action == DO_TOUCH)
		lower(&op->book->earliest, op->earliest);
}

static void close_op(struct context *c, const struct pending_op *op,
		     const union argument *answer, int ret)
{
	struct book *b = op->book;

	if (!ret && op->verdict == INVALID)
		fail("%s accepted an invalid argument", action_names[op->action]);
	if (!ret && op->over)
		fail("%s found a timeout that is over, or never was", action_names[op->action]);
	if (op->action == DO_SCHEDULE && (ret == -EAGAIN || ret == -EDQUOT))
		atomic_fetch_add(&c->rejected, 1);
	if (ret || !c->clean) {
		if (!ret && op->action == DO_SCHEDULE)
			atomic_store(&c->ids[answer->schedule.deadline % ARRAY_SIZE(c->ids)],
				     answer->schedule.id);
		return;
	}
	switch (op->action) {
	case DO_SCHEDULE:
		if (!answer->schedule.id ||
		    (c->rings && answer->schedule.id != atomic_load(&b->id)))
			fail("SCHEDULE gave the id %llx", answer->schedule.id);
		if (answer->schedule.user_data != (__u64)(b - c->books))
			fail("SCHEDULE changed user_data");
		if (answer->schedule.deadline < op->earliest)
			fail("SCHEDULE gave %llu, before %llu", answer->schedule.deadline,
			     op->earliest);
		atomic_store(&b->id, answer->schedule.id);
		atomic_store(&b->armed, 1);
		break;
	case DO_TOUCH:
		if (answer->touch.deadline < op->earliest)
			fail("TOUCH gave %llu, before %llu", answer->touch.deadline,
			     op->earliest);
		atomic_fetch_add(&c->touched, 1);
		break;
	case DO_CANCEL:
		if (b && atomic_fetch_add(&b->cancelled, 1))
			fail("CANCEL of %llx a second time", answer->cancel.id);
		break;
	case DO_QUERY:
		if (b && !(answer->query.user_data & SUBMISSION) &&
		    answer->query.user_data != (__u64)(b - c->books))
			fail("QUERY of %llx: user_data is %llx", answer->query.id,
			     answer->query.user_data);
		if (b && !answer->query.period != !b->periodic)
			fail("QUERY of %llx: the period is %llu", answer->query.id,
			     answer->query.period);
		break;
	default:
		break;
	}
}

/* Where arguments are placed. */

static enum place pick_place(struct thread *t, const struct context *c)
{
	switch (below(&t->random, 24)) {
	case 0:
		return BEYOND_FENCE;
	case 1:
		return READ_ONLY;
	case 2:
		return NOWHERE;
	case 3 ... 4:
		return AT_FENCE;
	case 5 ... 6:
		return c->clean || !c->rings ? HERE : IN_THE_RING;
	case 7 ... 10:
		return c->clean || !t->hostile ? HERE : HOSTILE;
	default:
		return HERE;
	}
}

static void *nowhere(struct thread *t)
{
	static const long addresses[] = { 0, 1, -1, -8, -4096, LONG_MIN, LONG_MIN + 4096, 4088 };

	return (void *)ONE_OF(&t->random, addresses);
}

struct copy {
	void *to;
	const void *from;
	size_t size;
};

static void copy(void *arg)
{
	struct copy *c = arg;

	memcpy(c->to, c->from, c->size);
}

/* Copy @size bytes to a place where the kernel can read as many. */
static char *put_at(struct thread *t, const struct context *c, enum place place,
		    const void *from, size_t size)
{
	struct copy put = { .from = from, .size = size };
	size_t cut;

	switch (place) {
	case AT_FENCE:
		put.to = t->fence - size;
		break;
	case BEYOND_FENCE:
		cut = below(&t->random, size ?: 1);
		put.size = cut;
		put.to = t->fence - cut;
		break;
	case READ_ONLY:
		if (mprotect(t->read_only, AREA, PROT_READ | PROT_WRITE))
			die("mprotect: %s", strerror(errno));
		memcpy(t->read_only, from, size);
		if (mprotect(t->read_only, AREA, PROT_READ))
			die("mprotect: %s", strerror(errno));
		return t->read_only;
	case NOWHERE:
		return nowhere(t);
	case IN_THE_RING:
		put.to = c->region + 8 * below(&t->random, c->ring.size / 8);
		break;
	case HOSTILE:
		put.to = t->hostile + 8 * below(&t->random, 64);
		break;
	default:
		put.to = t->here;
	}
	guarded(copy, &put);
	return put.to;
}

/* Send signals every @ns to interrupt blocking calls; 0: stop that. */
void interrupt(struct thread *t, long ns)
{
	struct itimerspec when = { { 0, ns }, { 0, ns } };

	timer_settime(t->timer, 0, &when, NULL);
}

/*
 * With a single thread: the effect of a call on the counters, none if it failed. @answer is NULL
 * if other threads may have changed it.
 */
static void check_effect(const struct context *c, enum action action, int ret,
			 const union argument *answer, const struct hwtimer_stats *a,
			 const struct hwtimer_stats *b)
{
	__u64 touched = !ret && action == DO_TOUCH;
	__u64 cancelled = !ret && action == DO_CANCEL;
	__u64 rejected = action == DO_SCHEDULE && (ret == -EAGAIN || ret == -EDQUOT);
	__u64 scheduled = !ret && action == DO_SCHEDULE;
	__u64 handed_back = b->handed_back - a->handed_back;

	if (action != DO_STOP && handed_back)
		fail("%s: %d, and %llu were handed back", action_names[action], ret,
		     handed_back);
	if (action == DO_STOP && !ret && answer && answer->stop.handed_back != handed_back)
		fail("STOP handed back %llu, and returned %llu", handed_back,
		     answer->stop.handed_back);
	/* Each expiry of a periodic timeout counts as scheduled, too. */
	if (b->touched - a->touched != touched || b->cancelled - a->cancelled != cancelled ||
	    b->rejected - a->rejected != rejected ||
	    b->scheduled - a->scheduled < scheduled ||
	    b->scheduled - a->scheduled - scheduled > b->expired - a->expired ||
	    b->cap != a->cap) {
		print_stats(a);
		print_stats(b);
		fail("%s: %d, in context %d", action_names[action], ret, c->number);
	}
}

static bool may_observe(const struct thread *t, const struct context *c, enum action action)
{
	return t->plan->threads == 1 && !t->child && !c->rings && !atomic_load(&c->foreign) &&
	       action != DO_SETUP && action != DO_RINGS;
}

/* Read the stats, without a step; false: the descriptor is not of our device. */
bool get_stats(const struct context *c, struct hwtimer_stats *s)
{
	memset(s, 0, sizeof(*s));
	return !hwt_ioctl(atomic_load(&c->fd), HWTIMER_IOC_STATS, s);
}

/* Make an ioctl with its argument at @place; *@answer is the argument afterwards, if known. */
static int call_at(struct thread *t, struct context *c, enum action action,
		   enum place place, unsigned int size, const union argument *given,
		   union argument *answer)
{
	static const char nth[] = "12345678";
	const struct command *command = &commands[action];
	unsigned int known = _IOC_SIZE(command->cmd);
	bool failing = t->fail_nth >= 0 && one_in(&t->random, 6);
	bool observe = may_observe(t, c, action) && one_in(&t->random, 3);
	struct hwtimer_stats before, after;
	unsigned long cmd;
	char *p;
	int ret;

	memset(t->here, 0, size > known ? size : known);
	memcpy(t->here, given, known);
	if (size > known && one_in(&t->random, 2))
		t->here[known + below(&t->random, size - known)] = 1;
	p = put_at(t, c, place, t->here, size);
	cmd = _IOC(_IOC_DIR(command->cmd), HWTIMER_IOC_MAGIC, _IOC_NR(command->cmd), size);

	memcpy(t->step->words, given, sizeof(t->step->words));
	t->step->size = size;
	t->step->place = place;
	observe = observe && get_stats(c, &before);
	t->interrupted = t->can_block && one_in(&t->random, 16);
	if (t->interrupted)
		interrupt(t, 100 * NSEC_PER_USEC);
	/* Not while signals come: a signal whose frame cannot be copied to the stack is fatal. */
	t->failing = failing && !t->interrupted &&
		     write(t->fail_nth, &nth[below(&t->random, 8)], 1) == 1;
	ret = hwt_ioctl(atomic_load(&c->fd), cmd, p);
	/* The copy of this write may be the one that fails. */
	if (t->failing && write(t->fail_nth, "0", 1) != 1 && write(t->fail_nth, "0", 1) != 1)
		die("fail-nth: %s", strerror(errno));
	if (t->interrupted)
		interrupt(t, 0);
	memcpy(answer, given, sizeof(*answer));
	if (place == HERE || place == AT_FENCE)
		memcpy(answer, p, size < known ? size : known);
	end_step(t, action, ret);

	if (!documented(action, ret) &&
	    !(!c->clean && (ret == -EBADF || ret == -ENOTTY)))
		fail("%s: %d (%s)", action_names[action], ret, strerror(-ret));
	if (size > known && !ret && (place == HERE || place == AT_FENCE)) {
		for (p += known, size -= known; size; size--)
			if (*p++)
				fail("%s: a longer argument with unknown fields was accepted",
				     action_names[action]);
	}
	if (observe && get_stats(c, &after))
		check_effect(c, action, ret, place <= AT_FENCE ? answer : NULL, &before,
			     &after);
	return ret;
}

/* A refusal must be justified by what is known to be wrong. */
static void check_refusal(const struct context *c, enum action action, enum place place,
			  unsigned int size, enum verdict verdict, int ret)
{
	bool known = size <= _IOC_SIZE(commands[action].cmd);

	if (!c->clean || verdict != VALID || !known)
		return;
	if (ret == -EINVAL || ret == -E2BIG ||
	    (ret == -EFAULT && (place == HERE || place == AT_FENCE)))
		fail("%s: %d, for a valid argument", action_names[action], ret);
}

void check_stats(const struct context *c, const struct hwtimer_stats *s)
{
	if (!balanced(s)) {
		print_stats(s);
		fail("the counters of context %d do not add up", c->number);
	}
	if (s->pending > s->cap) {
		print_stats(s);
		fail("more is pending in context %d than its cap", c->number);
	}
}

/* It succeeded, with an argument that no other thread can have changed. */
static void check_answer(struct context *c, enum action action, const union argument *a)
{
	switch (action) {
	case DO_SETUP:
		if (c->clean)
			fail("SETUP of a context in use");
		break;
	case DO_RINGS:
		if (c->clean)
			fail("RINGS of a context in use");
		break;
	case DO_STATS:
		check_stats(c, &a->stats);
		break;
	case DO_ENTER:
		if (c->clean && a->enter.taken > c->ring.sq_entries)
			fail("ENTER took %u", a->enter.taken);
		break;
	default:
		break;
	}
}

/**
 * do_ioctl - an ioctl that is valid or nearly so
 * @t: the thread
 * @c: the context
 * @action: the ioctl
 */
void do_ioctl(struct thread *t, struct context *c, enum action action)
{
	unsigned int size = _IOC_SIZE(commands[action].cmd);
	bool mutated = one_in(&t->random, 3);
	enum place place = pick_place(t, c);
	union argument arg, answer;
	struct pending_op op;
	int ret;

	fill(t, c, action, &arg);
	if (mutated)
		mutate(t, &arg, size);
	restrain(t, action, &arg);
	if (t->plan->privileged &&
	    (action == DO_SETUP || action == DO_RINGS || action == DO_RESIZE) &&
	    place > NOWHERE)
		place = HERE;
	if (one_in(&t->random, 10))
		size = (one_in(&t->random, 2) ? below(&t->random, 100) :
						below(&t->random, MAX_SIZE + 1)) &
		       (one_in(&t->random, 2) ? ~7U : ~0U);
	begin_step(t, c, action);
	open_op(t, c, &op, action, &arg, size);
	if (action == DO_SCHEDULE && c->clean && !op.book)
		return;	/* no book is left */
	if (action == DO_STOP)
		atomic_store(&c->stopped, true);
	/* At a shared place, other threads may have changed it. */
	if (place > NOWHERE)
		op.verdict = UNSURE;
	ret = call_at(t, c, action, place, size, &arg, &answer);
	if (ret > 0)
		fail("%s: %d", action_names[action], ret);
	close_op(c, &op, &answer, ret);
	if (ret != -EFAULT || !t->failing)
		check_refusal(c, action, place, size, op.verdict, ret);
	if (!ret && place <= AT_FENCE && size >= _IOC_SIZE(commands[action].cmd))
		check_answer(c, action, &answer);
	if (action == DO_SCHEDULE && arg.schedule.period && !ret)
		count(DO_PERIODIC, 0);
}

/**
 * call_valid - a valid ioctl that the round itself needs
 * @t: the thread
 * @c: the context
 * @action: the ioctl
 * @arg: its argument, and its result
 *
 * Return: what the ioctl returned.
 */
int call_valid(struct thread *t, struct context *c, enum action action, union argument *arg)
{
	int fail_nth = t->fail_nth, ret;

	/* These need no memory, and their copies must not fail. */
	if (action == DO_ENTER || action == DO_STOP)
		t->fail_nth = -1;
	begin_step(t, c, action);
	ret = call_at(t, c, action, HERE, _IOC_SIZE(commands[action].cmd), arg, arg);
	t->fail_nth = fail_nth;
	return ret;
}

/* Check a listed timeout of a clean context. */
static void check_listed(const struct context *c, const struct hwtimer_query *q)
{
	unsigned int i, n = atomic_load(&c->n_books);
	const struct book *b = NULL;

	for (i = 0; i < n && !b; i++)
		if (atomic_load(&c->books[i].id) == q->id)
			b = &c->books[i];
	/* The book of another thread's timeout may have no id yet. */
	if (b && !(q->user_data & SUBMISSION) && q->user_data != (__u64)(b - c->books))
		fail("LIST: user_data of %llx is %llx", q->id, q->user_data);
	if (q->flags || q->pad || q->pad2)
		fail("LIST: %llx has flags %x, pad %x, pad2 %x", q->id, q->flags, q->pad, q->pad2);
}

/**
 * do_list - list what is pending, page by page
 * @t: the thread
 * @c: the context
 */
void do_list(struct thread *t, struct context *c)
{
	unsigned int room = 1 + below(&t->random, 40), size = sizeof(struct hwtimer_query), i;
	struct hwtimer_query *queries = (void *)(t->here + AREA);
	bool invalid = one_in(&t->random, 8);
	union argument arg = { 0 }, answer;
	int ret, pages;

	if (one_in(&t->random, 4))
		size = 32 + 8 * below(&t->random, 8);
	arg.list = (struct hwtimer_list){
		.size = size, .queries = (uintptr_t)queries, .count = room,
		.next = one_in(&t->random, 4) ? rnd(&t->random) >> below(&t->random, 64) : 0,
	};
	if (invalid)
		arg.list.pad = 1U << below(&t->random, 32);
	for (pages = 0; pages < 20; pages++) {
		begin_step(t, c, DO_LIST);
		ret = call_at(t, c, DO_LIST, HERE, sizeof(arg.list), &arg, &answer);
		if (ret > (int)room || (ret >= 0 && invalid))
			fail("LIST of %u: %d", room, ret);
		if (ret > 0 && answer.list.next <= arg.list.next)
			fail("LIST goes on at %llu, after %llu", answer.list.next, arg.list.next);
		if (ret <= 0)
			return;
		for (i = 0; c->clean && i < (unsigned int)ret; i++) {
			struct hwtimer_query q = { 0 };

			memcpy(&q, (char *)queries + (size_t)i * size,
			       size < sizeof(q) ? size : sizeof(q));
			check_listed(c, &q);
		}
		arg.list.next = answer.list.next;
	}
}

/**
 * do_wheels - read the statistics of some wheels
 * @t: the thread
 * @c: the context
 */
void do_wheels(struct thread *t, struct context *c)
{
	unsigned int room = 1 + below(&t->random, 3), size = sizeof(struct hwtimer_wheel_stats);
	bool invalid = one_in(&t->random, 8);
	union argument arg = { 0 }, answer;
	struct hwtimer_wheel_stats s;
	__u64 last = 0;
	int ret, i;

	if (one_in(&t->random, 4))
		size += 8 * below(&t->random, 8) - 32;
	arg.wheels = (struct hwtimer_wheels){
		.size = size, .wheels = (uintptr_t)(t->here + AREA), .count = room,
		.next = one_in(&t->random, 2) ? rnd(&t->random) >> below(&t->random, 64) : 0,
	};
	if (invalid)
		arg.wheels.pad = 1U << below(&t->random, 32);
	begin_step(t, c, DO_WHEELS);
	ret = call_at(t, c, DO_WHEELS, HERE, sizeof(arg.wheels), &arg, &answer);
	if (ret > (int)room || (ret >= 0 && (invalid || size < sizeof(s))))
		fail("WHEELS of %u: %d", room, ret);
	for (i = 0; i < ret; i++) {
		memcpy(&s, t->here + AREA + (size_t)i * size, sizeof(s));
		if (s.id <= last || s.id < arg.wheels.next || s.id >= answer.wheels.next)
			fail("WHEELS: %llu after %llu", s.id, last);
		last = s.id;
	}
}

/**
 * do_garbage - an ioctl with random command and argument
 * @t: the thread
 * @c: the context; not clean
 */
void do_garbage(struct thread *t, struct context *c)
{
	unsigned int size = below(&t->random, 200), i;
	unsigned int nr = below(&t->random, 20);
	unsigned long cmd;
	char *p;
	int ret;

	begin_step(t, c, DO_GARBAGE);
	/* Not those that could exhaust the machine, see restrain(). */
	if (t->plan->privileged && (nr == _IOC_NR(HWTIMER_IOC_SETUP) ||
				    nr == _IOC_NR(HWTIMER_IOC_RINGS) ||
				    nr == _IOC_NR(HWTIMER_IOC_RESIZE) ||
				    nr == _IOC_NR(HWTIMER_IOC_SCHEDULE)))
		nr += 20;
	cmd = _IOC(below(&t->random, 4), HWTIMER_IOC_MAGIC, nr, size);
	if (one_in(&t->random, 4))
		cmd = _IOC(below(&t->random, 4), below(&t->random, 256), nr,
			   below(&t->random, MAX_SIZE + 1));
	for (i = 0; i < size; i++)
		t->here[i] = one_in(&t->random, 2) ? 0 : rnd(&t->random) >> 40;
	/* These could write anywhere, also to our own memory. */
	if (nr == _IOC_NR(HWTIMER_IOC_LIST))
		memset(t->here + offsetof(struct hwtimer_list, queries), 0xff, 8);
	if (nr == _IOC_NR(HWTIMER_IOC_WHEELS))
		memset(t->here + offsetof(struct hwtimer_wheels, wheels), 0xff, 8);
	p = one_in(&t->random, 3) ? nowhere(t) : t->here;
	memcpy(t->step->words, t->here, sizeof(t->step->words));
	t->step->size = cmd;
	ret = hwt_ioctl(atomic_load(&c->fd), cmd, p);
	end_step(t, DO_GARBAGE, ret);
}
