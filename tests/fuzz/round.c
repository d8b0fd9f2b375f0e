// SPDX-License-Identifier: GPL-2.0-only
/*
 * A round: contexts, threads that do random things to them, and the checks of what comes of it.
 */
#include "fuzz.h"

#include <setjmp.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#define CONTEXTS	4
/* The descriptors of contexts, which nothing else ever has. */
#define FDS		500
#define IDS		8
#define PAGE		4096UL
/* Pages of address space for the header and rings, and for slots, of a table. */
#define HEAD		64UL
#define SLOTS		64UL
#define RECORD		sizeof(struct hwtimer_record)

enum kind { NONE, CALLS, TABLE, UNKNOWN };

/**
 * struct context - a context, as far as this process knows it
 * @fd: its descriptor
 * @flags: of open(2)
 * @kind: enum kind
 * @stopped: STOP was called
 * @ids: some timeouts by calls
 * @area: where its table is mapped: header and rings, then slots
 */
struct context {
	int		fd, flags;
	atomic_int	kind;
	atomic_bool	stopped;
	atomic_ullong	ids[IDS];
	char		*area;
};

/**
 * struct thread - a thread
 * @seed: of the thread
 * @random: its state in this step
 * @here: two pages for arguments, followed by two that are not accessible
 * @timer: interrupts its calls
 * @fail_nth: lets allocations fail; -1: cannot
 * @action: what it does
 * @child: the process is a child
 * @step: where that is remembered
 */
struct thread {
	pthread_t	thread;
	__u64		seed, random;
	char		*here;
	timer_t		timer;
	int		fail_nth;
	enum action	action;
	bool		child;
	struct step	*step;
};

enum place { HERE, READ_ONLY, FENCE, NOWHERE, HOSTILE, PLACES };

union argument {
	struct hwtimer_setup	setup;
	struct hwtimer_schedule	schedule;
	struct hwtimer_touch	touch;
	struct hwtimer_cancel	cancel;
	struct hwtimer_query	query;
	struct hwtimer_grow	grow;
	struct hwtimer_info	info;
	struct hwtimer_stats	stats;
	struct hwtimer_list	list;
	__u32			words[128];
};

enum validity { INVALID, UNSURE, VALID };

static const struct plan *plan;
static struct job *job;
static struct context contexts[CONTEXTS];
static char *hostile;			/* a page that another thread changes */
static pthread_barrier_t all_prepared;

/* All that is random in a step is drawn here. */
static __u64 draw(struct thread *t, __u64 n)
{
	__u64 value = below(&t->random, n);

	if (plan->threads == 1)
		atomic_store(&shared->choices, mix(atomic_load(&shared->choices), value));
	return value;
}

#define ONE_OF(t, ...)	((const __u64[]){ __VA_ARGS__ }	\
			 [draw(t, sizeof((const __u64[]){ __VA_ARGS__ }) / sizeof(__u64))])

/* With one thread, it is known what has been done to a context. */
static bool known(void)
{
	return plan->threads == 1;
}

static void begin_step(struct thread *t, const struct context *c, enum action action)
{
	unsigned int n = atomic_fetch_add(&job->next_step, 1);

	if (atomic_load(&shared->failed))
		_exit(1);
	t->action = action;
	t->step = &job->steps[n % STEPS];
	*t->step = (struct step){
		.number = n, .tid = syscall(SYS_gettid), .action = action,
		.context = c - contexts,
	};
}

static int end_step(struct thread *t, int ret)
{
	ret = ret < 0 ? -errno : ret;
	t->step->ret = ret;
	t->step->done = true;
	count(t->action, ret);
	atomic_fetch_add(&shared->steps, 1);
	return ret;
}

/* Others must not get the address space of a mapping that is gone. Returns @ret, keeps errno. */
static int reserve(char *at, size_t size, int ret)
{
	int error = errno;

	mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	errno = error;
	return ret;
}

/* Accesses to memory that may be inaccessible. */

static __thread sigjmp_buf way_out;
static __thread volatile bool in_guard;

static void bad_memory(int signal)
{
	if (in_guard)
		siglongjmp(way_out, 1);
	fail("a fault of the fuzzer itself: signal %d", signal);
}

static void nothing(int signal)
{
	(void)signal;
}

/* Calls of @fn end when it comes to such memory. */
static void guarded(void (*fn)(struct thread *t, struct context *c), struct thread *t,
		    struct context *c)
{
	if (!sigsetjmp(way_out, 1)) {
		in_guard = true;
		fn(t, c);
	}
	in_guard = false;
}

/* Anything, into any field of a table, and above all to what the kernel reads. */
static void scribble(struct thread *t, struct context *c)
{
	volatile struct hwtimer_table *head = (void *)c->area;
	volatile struct hwtimer_slot *slot = (void *)(c->area + HEAD * PAGE), *s;
	volatile __u32 *ring = (void *)(c->area + PAGE / 2);
	unsigned int n = 1 + draw(t, 30);
	__u64 small, value;

	while (n--) {
		s = &slot[draw(t, draw(t, 2) ? 256 : SLOTS * PAGE / sizeof(*s))];
		small = ONE_OF(t, 0, 1, 2, 3, 255, 256, 257, 258, 511, 512, 513, ~0U, 1U << 31,
			       16, 17, 18);
		value = ONE_OF(t, 0, 0, 1, ~0ULL, ~0ULL - 1, 1ULL << 63, (1ULL << 63) - 1, 1 << 20);
		if (draw(t, 2))
			value = ((now_ns() >> HWTIMER_UNIT_SHIFT) + draw(t, 64)) <<
				HWTIMER_ARMING_BITS | 1;
		switch (draw(t, 16)) {
		case 0 ... 3:
			s->word = value;
			break;
		case 4:
			s->visit = value;
			break;
		case 5:
		case 6:
			s->next = small;
			break;
		case 7:
		case 8:
			head->pushed = small;
			break;
		case 9:
			head->walked = small;
			break;
		case 10:
			head->cq_head[draw(t, 32)] = small;
			break;
		case 11:
			head->cq_tail[draw(t, 32)] = small;
			break;
		case 12:
			ring[draw(t, 512)] = small;
			break;
		case 13:
			head->wake_at = value;
			head->kick_before = value;
			break;
		case 14:
			head->walk = small;
			head->flags = small;
			break;
		case 15:
			((volatile __u32 *)head)[draw(t, PAGE / 4)] = rnd(&t->random);
		}
	}
}

/* Arm and push many slots, which are due soon, in one list. */
static void push(struct thread *t, struct context *c)
{
	volatile struct hwtimer_table *head = (void *)c->area;
	volatile struct hwtimer_slot *slot = (void *)(c->area + HEAD * PAGE);
	__u32 n = 1 + draw(t, draw(t, 2) ? 64 : 2048), i = draw(t, 256);
	__u64 delay = draw(t, 4) * draw(t, 256), word;

	word = ((now_ns() >> HWTIMER_UNIT_SHIFT) + delay) << HWTIMER_ARMING_BITS | 1;
	while (n--) {
		slot[i].word = word + (i << HWTIMER_ARMING_BITS);
		slot[i].visit = 0;
		slot[i].next = head->pushed;
		head->pushed = HWTIMER_LINK(i++);
	}
}

/* The other thread: what it changes is looked at by the kernel. */
static void disturb(struct thread *t, struct context *c)
{
	unsigned int i;

	for (i = 0; i < 50; i++)
		((volatile __u32 *)hostile)[draw(t, 64)] = draw(t, 2) ? 0 : rnd(&t->random) >> 60;
	scribble(t, c);
}

static void *be_hostile(void *arg)
{
	struct thread t = { .seed = *(__u64 *)arg, .random = *(__u64 *)arg };
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

	for (;;) {
		guarded(disturb, &t, &contexts[draw(&t, CONTEXTS)]);
		if (!draw(&t, 8))
			mprotect(hostile, PAGE, draw(&t, 2) ? PROT_READ : PROT_NONE);
		if (!draw(&t, 8))
			mmap(hostile, PAGE, PROT_NONE, flags, -1, 0);
		usleep(draw(&t, 100));
		mmap(hostile, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	}
	return NULL;	/* until the process ends */
}

/* The ioctls. */

static const struct {
	unsigned long cmd;
	int errors[5];			/* documented, besides those of all */
} ioctls[IOCTLS] = {
	[DO_SETUP] = { HWTIMER_IOC_SETUP, { EBUSY, ENOMEM, EPERM } },
	[DO_SCHEDULE] = { HWTIMER_IOC_SCHEDULE, { ENOSPC, ENOMEM, ESHUTDOWN, EOPNOTSUPP } },
	[DO_TOUCH] = { HWTIMER_IOC_TOUCH, { ENOENT, ESHUTDOWN, EOPNOTSUPP, ENXIO } },
	[DO_CANCEL] = { HWTIMER_IOC_CANCEL, { ENOENT, EOPNOTSUPP, ENXIO } },
	[DO_QUERY] = { HWTIMER_IOC_QUERY, { ENOENT, EOPNOTSUPP, ENXIO } },
	[DO_GROW] = { HWTIMER_IOC_GROW, { ENOMEM, EPERM, ESHUTDOWN, EOPNOTSUPP, ENXIO } },
	[DO_INFO] = { HWTIMER_IOC_INFO, { ENXIO } },
	[DO_STATS] = { HWTIMER_IOC_STATS, { ENXIO } },
	[DO_ENTER] = { HWTIMER_IOC_ENTER, { EOPNOTSUPP, ENXIO } },
	[DO_STOP] = { HWTIMER_IOC_STOP, { ENXIO } },
	[DO_LIST] = { HWTIMER_IOC_LIST, { ENXIO } },
	[DO_WHEELS] = { HWTIMER_IOC_WHEELS, { EPERM } },
};

static __u64 draw_time(struct thread *t, __u32 *flags)
{
	__u64 delay = draw(t, 3 * NSEC_PER_MSEC), far;

	far = ONE_OF(t, 0, 1, HWTIMER_NEVER, HWTIMER_NEVER - 1, 1ULL << 63, (1ULL << 63) - 1, FAR);
	*flags = draw(t, 2) ? HWTIMER_RELATIVE : 0;
	if (!draw(t, 3))
		return far;
	return *flags ? delay : now_ns() + delay;
}

/* Nearly valid; entries of LIST and WHEELS go behind the argument. */
static void fill(struct thread *t, struct context *c, enum action action, union argument *arg)
{
	bool table = draw(t, 2);

	switch (action) {
	case DO_SETUP:
		arg->setup = (struct hwtimer_setup){
			.tick_ns = ONE_OF(t, 0, 0, 1 << 17, 1 << 17, 1000000, 10 * NSEC_PER_SEC,
					  10 * NSEC_PER_SEC + 1, (1 << 17) - 1),
			.slack_ns = ONE_OF(t, 0, 0, 0, 5000000, 1ULL << 40, (1ULL << 40) + 1),
			.clockid = ONE_OF(t, CLOCK_MONOTONIC, CLOCK_MONOTONIC, CLOCK_MONOTONIC,
					  CLOCK_BOOTTIME, CLOCK_BOOTTIME, CLOCK_REALTIME),
			.flags = table ? HWTIMER_SETUP_TABLE : 0,
			.slots = ONE_OF(t, 0, 1, 256, 257, 1000, 1000, 3000, 3000, 20000,
					HWTIMER_FREE_SLOTS + 1, HWTIMER_MAX_SLOTS + 1),
		};
		break;
	case DO_SCHEDULE:
		arg->schedule.time = draw_time(t, &arg->schedule.flags);
		arg->schedule.user_data = rnd(&t->random);
		if (draw(t, 4))
			break;
		arg->schedule.period_ns = ONE_OF(t, 1 << 17, 1048576, 5000000, 20 * NSEC_PER_SEC,
						 ~0ULL, 1);
		arg->schedule.misfire_ns = ONE_OF(t, 0, 0, 1048576, 20 * NSEC_PER_SEC, 1);
		arg->schedule.policy = draw(t, 4);
		break;
	case DO_TOUCH:
		arg->touch.time = draw_time(t, &arg->touch.flags);
		break;
	case DO_GROW:
		arg->grow.slots = ONE_OF(t, 0, 1, 256, 513, 2000, 2000, 5000, 5000, 30000,
					 HWTIMER_FREE_SLOTS + 1, HWTIMER_MAX_SLOTS + 1);
		break;
	case DO_LIST:
	case DO_WHEELS:
		arg->list = (struct hwtimer_list){
			.cursor = ONE_OF(t, 0, 0, 0, 1, 64, 255, 1U << 31, ~0ULL),
			.entries = (uintptr_t)t->here + ONE_OF(t, 1024, 1024, 2 * PAGE, 3 * PAGE),
			.size = ONE_OF(t, 32, 32, 384, 384, 40, 392, 24, 4096, 4104, 33),
			.count = ONE_OF(t, 1, 1, 3, 7, 0),
		};
		break;
	default:
		break;
	}
	if (action == DO_TOUCH || action == DO_CANCEL || action == DO_QUERY)
		arg->query.id = atomic_load(&c->ids[draw(t, IDS)]) ^
				(draw(t, 8) ? 0 : 1ULL << draw(t, 64));
	if (!draw(t, 10))
		arg->words[draw(t, 12)] = ONE_OF(t, 1, 2, 1U << 31, ~0U, 0);
}

/* What the comments of the header say. Ticks of contexts, which bound periods, are not known. */
static enum validity judge(enum action action, const union argument *arg)
{
	const __u64 shortest = 1 << 17, longest = 10 * NSEC_PER_SEC;
	const struct hwtimer_schedule *a = &arg->schedule;
	const struct hwtimer_setup *s = &arg->setup;

	switch (action) {
	case DO_SETUP:
		return (!s->tick_ns || (s->tick_ns >= shortest && s->tick_ns <= longest)) &&
		       s->slack_ns <= 1ULL << 40 && s->flags <= HWTIMER_SETUP_TABLE && !s->pad &&
		       (s->clockid == CLOCK_MONOTONIC || s->clockid == CLOCK_BOOTTIME) &&
		       s->slots <= HWTIMER_MAX_SLOTS ? VALID : INVALID;
	case DO_SCHEDULE:
		if (a->flags & ~HWTIMER_RELATIVE || a->policy > HWTIMER_MISFIRE_MAKE_UP ||
		    (!a->period_ns && (a->misfire_ns || a->policy)) ||
		    (a->period_ns && a->period_ns < shortest) ||
		    (a->misfire_ns && a->misfire_ns < shortest))
			return INVALID;
		return (a->period_ns && a->period_ns < longest + shortest) ||
		       (a->misfire_ns && a->misfire_ns < longest + shortest) ? UNSURE : VALID;
	case DO_TOUCH:
		return arg->touch.flags & ~HWTIMER_RELATIVE || arg->touch.pad ? INVALID : VALID;
	case DO_GROW:
		return arg->grow.slots > HWTIMER_MAX_SLOTS ? INVALID : VALID;
	case DO_LIST:
	case DO_WHEELS:
		return arg->list.size % 8 || !arg->list.count ||
		       arg->list.size < (action == DO_LIST ? 32 : 384) ? INVALID : VALID;
	default:
		return VALID;
	}
}

/**
 * struct call - how an ioctl was called
 * @action: which one
 * @arg: the argument
 * @size: its size, as the command has it, ...
 * @size_good: ... which is one that may be
 * @tail: something behind what the kernel knows is not 0
 * @place: where the argument was
 * @failing: an allocation may have failed
 */
struct call {
	enum action	action;
	union argument	arg;
	unsigned int	size;
	bool		size_good, tail, failing;
	enum place	place;
};

/* Is 0 a right result? Not if the argument is wrong. */
static bool may_succeed(const struct call *k, const struct context *c)
{
	unsigned long cmd = ioctls[k->action].cmd;
	enum kind kind = atomic_load(&c->kind);

	if (_IOC_DIR(cmd) && k->place != HOSTILE &&
	    (!k->size_good || k->tail || judge(k->action, &k->arg) == INVALID ||
	     (k->action >= DO_LIST && k->arg.list.size > PAGE) ||
	     k->place == NOWHERE || k->place == FENCE ||
	     (k->place == READ_ONLY && cmd & IOC_OUT)))
		return false;
	if (!known())
		return true;
	if ((c->flags & O_ACCMODE) == O_RDONLY && k->action != DO_WHEELS)
		return false;
	if (kind == CALLS)
		return k->action != DO_GROW && k->action != DO_ENTER;
	return kind != TABLE || k->action < DO_SCHEDULE || k->action > DO_QUERY;
}

/* Is this error a right one? */
static bool may_fail(const struct call *k, const struct context *c, int error)
{
	bool setup = k->action == DO_SETUP, grow = k->action == DO_GROW;
	enum kind kind = known() ? atomic_load(&c->kind) : UNKNOWN;
	bool loose = k->place == HOSTILE;
	unsigned int i;

	switch (error) {
	case EFAULT:
		return k->place != HERE || k->failing || k->action >= DO_LIST;
	case EINVAL:
		return loose || !k->size_good || judge(k->action, &k->arg) != VALID;
	case E2BIG:
		return loose || k->tail || (k->action >= DO_LIST && k->arg.list.size > PAGE);
	case EBADF:
		return !known() || (c->flags & O_ACCMODE) == O_RDONLY;
	}
	for (i = 0; i < ARRAY_SIZE(ioctls[0].errors) && error != ioctls[k->action].errors[i]; i++)
		;
	if (i == ARRAY_SIZE(ioctls[0].errors))
		return false;
	switch (error) {
	case EPERM:
		return loose || k->action == DO_WHEELS ? plan->uid :
		       plan->uid && (setup || grow) &&
		       (setup ? k->arg.setup.slots : k->arg.grow.slots) > HWTIMER_FREE_SLOTS;
	case ESHUTDOWN:
		return !known() || atomic_load(&c->stopped);
	case ENXIO:
		return kind == NONE || kind == UNKNOWN;
	case EBUSY:
		return kind != NONE;
	case EOPNOTSUPP:
		return kind == UNKNOWN || kind == (grow || k->action == DO_ENTER ? CALLS : TABLE);
	}
	return true;
}

/* Put the argument where it is to be; returns its address. */
static char *place_argument(struct thread *t, struct context *c, struct call *k)
{
	char *at = t->here;

	switch (k->place) {
	case READ_ONLY:
		mprotect(at, PAGE, PROT_READ | PROT_WRITE);
		break;
	case FENCE:
		at += 2 * PAGE - k->size / 8 * 4;
		memcpy(at, &k->arg, k->size / 8 * 4);
		return at;
	case NOWHERE:
		return (char *)ONE_OF(t, 0, 8, 3 * PAGE, 1ULL << 47, ~0ULL << 20, ~0ULL - 16);
	case HOSTILE:
		return draw(t, 2) && hostile ? hostile : c->area + draw(t, PAGE);
	default:
		break;
	}
	memcpy(at, &k->arg, sizeof(k->arg));
	return at;
}

/* Is what a call that has succeeded says within bounds? */
static bool check_result(const struct context *c, const struct call *k, const union argument *out)
{
	enum kind kind = known() ? atomic_load(&c->kind) : UNKNOWN;

	switch (k->action) {
	case DO_SETUP:
		return !(out->setup.tick_ns % 65536) &&
		       out->setup.tick_ns >= k->arg.setup.tick_ns &&
		       out->setup.slots >= k->arg.setup.slots;
	case DO_SCHEDULE:
		return out->schedule.id;
	case DO_GROW:
		return out->grow.slots >= k->arg.grow.slots && out->grow.ring < HWTIMER_MAX_RINGS;
	case DO_INFO:
		return out->info.slots <= HWTIMER_MAX_SLOTS && !out->info.offset_ns &&
		       !(out->info.rings >> HWTIMER_MAX_RINGS) &&
		       (kind == UNKNOWN || !out->info.flags == (kind == CALLS));
	case DO_LIST:
	case DO_WHEELS:
		return out->list.count <= k->arg.list.count;
	default:
		return true;
	}
}

static void note_result(struct thread *t, struct context *c, const struct call *k, int ret,
			const union argument *out)
{
	atomic_ullong *id = &c->ids[draw(t, IDS)];
	bool setup = k->action == DO_SETUP;

	if (!(setup || k->action == DO_SCHEDULE) || atomic_load(&c->kind) == UNKNOWN)
		return;
	if (ret || k->place != HERE) {
		/* It may have been set up before that. */
		if (atomic_load(&c->kind) == NONE && ret != -EBADF)
			atomic_store(&c->kind, UNKNOWN);
		return;
	}
	atomic_store(&c->kind, setup && k->arg.setup.flags ? TABLE : CALLS);
	if (!setup)
		atomic_store(id, out->schedule.id);
}

static void do_ioctl(struct thread *t, struct context *c, enum action action)
{
	unsigned long cmd = ioctls[action].cmd;
	struct call k = { .action = action, .size = _IOC_SIZE(cmd), .place = HERE };
	unsigned int i, known_size = k.size;
	char *at, nth;
	int ret;

	fill(t, c, action, &k.arg);
	if (!draw(t, 12))
		k.size = ONE_OF(t, k.size + 8, k.size + 64, k.size + 4, k.size - 8, 0, 504);
	k.size_good = k.size >= known_size && !(k.size % 8) && k.size < 1 << _IOC_SIZEBITS;
	if (!known_size)
		k.size = 0;
	if (k.size > known_size && !draw(t, 3))
		k.arg.words[known_size / 4 + draw(t, 2)] = 1;
	for (i = known_size / 4; i < k.size / 4 && i < ARRAY_SIZE(k.arg.words); i++)
		k.tail |= cmd & IOC_IN && k.arg.words[i];
	if (!draw(t, 6))
		k.place = draw(t, PLACES);
	begin_step(t, c, action);
	t->step->size = k.size;
	t->step->place = k.place;
	memcpy(t->step->words, &k.arg, sizeof(t->step->words));
	at = place_argument(t, c, &k);
	if (k.place == READ_ONLY)
		mprotect(at, PAGE, PROT_READ);
	/* Before, as another thread may find it stopped. */
	if (action == DO_STOP)
		atomic_store(&c->stopped, true);
	nth = '1' + draw(t, 5);
	k.failing = !draw(t, 8) && t->fail_nth >= 0 && pwrite(t->fail_nth, &nth, 1, 0) == 1;
	ret = ioctl(c->fd, _IOC(_IOC_DIR(cmd), _IOC_TYPE(cmd), _IOC_NR(cmd), k.size), at);
	if (k.failing) {
		i = errno;
		pwrite(t->fail_nth, "0", 1, 0);
		errno = i;
	}
	if (k.place == READ_ONLY)
		mprotect(at, PAGE, PROT_READ | PROT_WRITE);
	ret = end_step(t, ret);
	if (ret > 0 || (!ret && !may_succeed(&k, c)) || (ret < 0 && !may_fail(&k, c, -ret)))
		fail("%d from an ioctl, kind %d%s", ret, atomic_load(&c->kind),
		     known() ? "" : " or another");
	if (!ret && k.place == HERE && !check_result(c, &k, (void *)at))
		fail("the result is out of range");
	note_result(t, c, &k, ret, (void *)at);
}

/* read(2). */

static void check_records(struct context *c, const char *at, ssize_t len)
{
	bool handed = !known() || atomic_load(&c->stopped);
	struct hwtimer_record r;

	if (len % RECORD)
		fail("read() returned %zd", len);
	for (; len; len -= RECORD, at += RECORD) {
		memcpy(&r, at, RECORD);
		if (!r.id || r.pad || r.kind > HWTIMER_KIND_HANDED_BACK || !r.taken_ns ||
		    (r.kind ? !handed : r.deadline_ns > r.taken_ns))
			fail("a record of %llx: kind %u, deadline %llu, taken %llu", r.id, r.kind,
			     r.deadline_ns, r.taken_ns);
	}
}

static void do_read(struct thread *t, struct context *c, bool vector)
{
	size_t size = draw(t, 8) ? RECORD * (1 + draw(t, 20)) : draw(t, 3 * RECORD), part;
	enum place place = draw(t, 6) ? HERE : draw(t, PLACES);
	struct itimerspec soon = { .it_value.tv_nsec = 300000, .it_interval.tv_nsec = 300000 };
	struct itimerspec never = { };
	char *at = t->here;
	struct iovec v[2];
	int ret;

	part = draw(t, size + 1);
	if (place == READ_ONLY)
		mprotect(at, PAGE, PROT_READ);
	else if (place == FENCE)
		at += 2 * PAGE - part;
	else if (place == HOSTILE)
		at = hostile ?: c->area;
	else if (place == NOWHERE)
		at = NULL;
	v[0] = (struct iovec){ at, part };
	v[1] = (struct iovec){ at + part, size - part };
	t->step->size = size;
	t->step->place = place;
	timer_settime(t->timer, 0, &soon, NULL);
	if (vector)
		ret = preadv2(c->fd, v, 2, -1, draw(t, 2) ? RWF_NOWAIT : 0);
	else
		ret = read(c->fd, at, size);
	part = errno;
	timer_settime(t->timer, 0, &never, NULL);
	if (place == READ_ONLY)
		mprotect(at, PAGE, PROT_READ | PROT_WRITE);
	errno = part;
	ret = end_step(t, ret);
	if (ret > (int)size)
		fail("read() of %zu returned %d", size, ret);
	if (ret > 0 && place == HERE)
		check_records(c, at, ret);
	if (ret < 0 && !(ret == -EAGAIN || ret == -EINTR || ret == -EBADF || ret == -ENXIO ||
			 ret == -EOPNOTSUPP || (ret == -EINVAL && size < RECORD) ||
			 (ret == -EFAULT && place != HERE)))
		fail("read() of %zu returned %d", size, ret);
}

/* Waiting. */

static int do_poll(struct thread *t, struct context *c)
{
	struct pollfd p = { .fd = c->fd, .events = draw(t, 4) ? POLLIN : draw(t, 64) };
	int ret = poll(&p, 1, draw(t, 3));

	if (ret > 0 && p.revents & ~(POLLIN | POLLRDNORM | POLLHUP | POLLNVAL))
		fail("poll() says %x", p.revents);
	if (p.revents & POLLHUP && known() && !atomic_load(&c->stopped))
		fail("poll() says %x without a STOP", p.revents);
	return ret;
}

/* In an epoll in an epoll; the descriptor may be closed before these. */
static int do_epoll(struct thread *t, struct context *c)
{
	struct epoll_event e = {
		.events = EPOLLIN | ONE_OF(t, 0, EPOLLET, EPOLLONESHOT, EPOLLOUT, EPOLLEXCLUSIVE),
	};
	int outer = epoll_create1(EPOLL_CLOEXEC), inner = epoll_create1(EPOLL_CLOEXEC), ret, error;

	ret = epoll_ctl(inner, EPOLL_CTL_ADD, c->fd, &e);
	error = errno;
	e.events = EPOLLIN;
	epoll_ctl(outer, EPOLL_CTL_ADD, inner, &e);
	epoll_wait(outer, &e, 1, draw(t, 3));
	epoll_wait(inner, &e, 1, 0);
	close(inner);
	close(outer);
	errno = error;
	return ret;
}

static int slurp(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret, error;

	ret = read(fd, text, sizeof(text));
	error = errno;
	close(fd);
	errno = error;
	return ret < 0 ? ret : 0;
}

/* Mappings. */

static int map(struct thread *t, struct context *c)
{
	unsigned int part = draw(t, 8), pages = 1 << draw(t, 6);
	int protection = draw(t, 6) ? PROT_READ | PROT_WRITE : draw(t, 8);
	int flags = draw(t, 12) ? MAP_SHARED : MAP_PRIVATE, ret, error;
	off_t at = 0, slots = HWTIMER_OFFSET_SLOTS;
	size_t size = PAGE;
	char *to = c->area, *p;

	if (part >= 6) {	/* anywhere, and anything */
		at = ONE_OF(t, 0, 1, 2, 63, 64, 0x3ffff, 0x40000, 0x40001, 0x7ffff, 1ULL << 40) *
		     PAGE;
		p = mmap(NULL, draw(t, 80 * PAGE), protection, flags, c->fd, at);
		error = errno;
		ret = p == MAP_FAILED ? -1 : 0;
		if (!ret)
			munmap(p, PAGE);
		errno = error;
		return ret;
	}
	if (part >= 2) {
		to += HEAD * PAGE;
		at = slots;
		size = pages * PAGE;
	} else if (part) {
		size = pages / 2 * PAGE ?: PAGE;
		at = size;
		to += at;
	}
	if (mmap(to, size, protection, flags | MAP_FIXED, c->fd, at) == MAP_FAILED)
		return reserve(to, size, -1);
	return 0;
}

static int change_mapping(struct thread *t, struct context *c, enum action action)
{
	char *at = c->area + draw(t, 2) * HEAD * PAGE + draw(t, 4) * PAGE;
	char *to = c->area + draw(t, HEAD) * PAGE;
	size_t size = (1 + draw(t, 4)) * PAGE, old_size = draw(t, 2) * size;

	switch (action) {
	case DO_MUNMAP:
		return reserve(at, size, munmap(at, size));
	case DO_MPROTECT:
		return mprotect(at, size, draw(t, 8));
	case DO_MREMAP:
		if (mremap(at, old_size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED)
			return reserve(to, size, -1);
		return reserve(at, old_size ?: PAGE, 0);
	default:
		return madvise(at, size, ONE_OF(t, MADV_DONTNEED, MADV_REMOVE, MADV_DOFORK,
						MADV_HUGEPAGE, MADV_PAGEOUT, MADV_WILLNEED));
	}
}

/* Processes. */

/* Most of them are set up and mapped at once, so that there is something to do. */
static int open_context(struct thread *t, struct context *c)
{
	int flags = draw(t, 8) ? O_RDWR : draw(t, 2), kind = draw(t, 4), fd;
	struct hwtimer_setup s = {
		.clockid = CLOCK_MONOTONIC, .slots = 1 + draw(t, 1000),
		.flags = kind > 1 ? HWTIMER_SETUP_TABLE : 0,
	};
	const int shared_fixed = MAP_SHARED | MAP_FIXED, both = PROT_READ | PROT_WRITE;
	char *slots = c->area + HEAD * PAGE;

	flags |= O_CLOEXEC | (draw(t, 3) ? O_NONBLOCK : 0);
	fd = open(DEVICE, flags);
	if (fd < 0)
		return fd;
	atomic_store(&c->kind, NONE);
	atomic_store(&c->stopped, false);
	c->flags = flags;
	dup3(fd, c->fd, O_CLOEXEC);
	close(fd);
	if (!kind || (flags & O_ACCMODE) != O_RDWR || ioctl(c->fd, HWTIMER_IOC_SETUP, &s))
		return 0;
	atomic_store(&c->kind, s.flags ? TABLE : CALLS);
	if (s.flags && (mmap(c->area, PAGE, both, shared_fixed, c->fd, 0) == MAP_FAILED ||
			mmap(slots, 2 * PAGE, both, shared_fixed, c->fd,
			     HWTIMER_OFFSET_SLOTS) == MAP_FAILED))
		reserve(c->area, (HEAD + SLOTS) * PAGE, 0);
	return 0;
}

static void do_step(struct thread *t, unsigned int n);

static void prepare_thread(struct thread *t)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	t->here = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (t->here == MAP_FAILED || mprotect(t->here + 2 * PAGE, 2 * PAGE, PROT_NONE))
		die("mmap: %s", strerror(errno));
	event._sigev_un._tid = syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &t->timer))
		die("timer_create: %s", strerror(errno));
	t->fail_nth = plan->no_memory ? open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC) : -1;
}

/* It has all descriptors, and none of the mappings of tables. */
static void become_child(struct thread *t)
{
	unsigned int i;

	t->child = true;
	for (i = 0; i < CONTEXTS; i++)
		reserve(contexts[i].area, (HEAD + SLOTS) * PAGE, 0);
	prepare_thread(t);
}

static int fork_child(struct thread *t)
{
	unsigned int steps = draw(t, 12), i;
	bool wait = draw(t, 2);
	int pid;

	lock_forking(job);
	pid = fork();
	if (pid) {
		atomic_flag_clear(&job->forking);
		if (pid > 0 && wait)
			waitpid(pid, NULL, 0);
		return pid;
	}
	become_child(t);
	for (i = 0; i < steps; i++)
		do_step(t, 1000000 + i);
	_exit(0);
}

/* How often each action is chosen in contexts by calls and by a table. */
static const unsigned char weights[ACTIONS][2] = {
	[DO_SETUP] = { 2, 2 }, [DO_SCHEDULE] = { 40, 1 }, [DO_TOUCH] = { 16, 1 },
	[DO_CANCEL] = { 12, 1 }, [DO_QUERY] = { 8, 1 }, [DO_GROW] = { 1, 6 },
	[DO_INFO] = { 3, 3 }, [DO_STATS] = { 3, 3 }, [DO_ENTER] = { 1, 30 }, [DO_STOP] = { 1, 1 },
	[DO_LIST] = { 4, 4 }, [DO_WHEELS] = { 1, 1 }, [DO_OPEN] = { 4, 4 }, [DO_CLOSE] = { 1, 1 },
	[DO_READ] = { 26, 2 }, [DO_POLL] = { 8, 12 }, [DO_EPOLL] = { 4, 6 },
	[DO_FDINFO] = { 1, 1 }, [DO_CONTEXTS] = { 1, 1 },
	[DO_MMAP] = { 1, 16 }, [DO_MUNMAP] = { 0, 2 }, [DO_MPROTECT] = { 0, 2 },
	[DO_MREMAP] = { 0, 2 }, [DO_MADVISE] = { 0, 2 }, [DO_SCRIBBLE] = { 1, 40 },
	[DO_PUSH] = { 0, 30 }, [DO_FORK] = { 2, 2 },
};

static enum action draw_action(struct thread *t, bool table)
{
	unsigned int sum = 0, i;
	int n;

	for (i = 0; i < ACTIONS; i++)
		sum += weights[i][table];
	n = draw(t, sum);
	for (i = 0; n >= weights[i][table]; i++)
		n -= weights[i][table];
	/* What others do cannot be repeated. */
	if (i == DO_FORK && (t->child || plan->threads == 1))
		return DO_POLL;
	return i;
}

static int do_other(struct thread *t, struct context *c, enum action action)
{
	char path[64];

	switch (action) {
	case DO_OPEN:
		return open_context(t, c);
	case DO_CLOSE:
		/* As of a file that is not open for writing, all that may come is -EBADF. */
		c->flags = O_RDONLY;
		return close(c->fd);
	case DO_POLL:
		return do_poll(t, c);
	case DO_EPOLL:
		return do_epoll(t, c);
	case DO_FDINFO:
		snprintf(path, sizeof(path), "/proc/thread-self/fdinfo/%d", c->fd);
		return slurp(path);
	case DO_CONTEXTS:
		return slurp("/sys/kernel/debug/hwtimer/contexts");
	case DO_MMAP:
		return map(t, c);
	case DO_SCRIBBLE:
		guarded(scribble, t, c);
		return 0;
	case DO_PUSH:
		guarded(push, t, c);
		return 0;
	case DO_FORK:
		return fork_child(t);
	default:
		return change_mapping(t, c, action);
	}
}

static void do_step(struct thread *t, unsigned int n)
{
	struct context *c;
	enum action action;
	bool table;

	t->random = mix(t->seed, n);
	c = &contexts[draw(t, CONTEXTS)];
	table = atomic_load(&c->kind) == UNKNOWN ? draw(t, 2) : atomic_load(&c->kind) == TABLE;
	action = draw_action(t, table);
	if (action < IOCTLS) {
		do_ioctl(t, c, action);
		return;
	}
	begin_step(t, c, action);
	if (action == DO_READ)
		do_read(t, c, draw(t, 4) == 0);
	else
		end_step(t, do_other(t, c, action));
}

/* A context of a kind that is most useful. */
static void begin_context(struct thread *t, struct context *c)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

	c->fd = FDS + (c - contexts);
	c->area = mmap(NULL, (HEAD + SLOTS) * PAGE, PROT_NONE, flags, -1, 0);
	if (c->area == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	begin_step(t, c, DO_OPEN);
	end_step(t, open_context(t, c));
}

static void *be_thread(void *arg)
{
	struct thread *t = arg;
	unsigned int i;

	/* What is mapped for threads must not come to where a step has just unmapped something. */
	pthread_barrier_wait(&all_prepared);
	for (i = 0; i < plan->steps; i++)
		do_step(t, i);
	return NULL;
}

static void *prepare_and_be_thread(void *arg)
{
	prepare_thread(arg);
	return be_thread(arg);
}

/* After STOP, a context by calls hands back all that is pending, once, and then nothing. */
static void expect_all_handed_back(struct context *c)
{
	static struct hwtimer_record r[64];
	struct hwtimer_stats s = { };
	__u64 n = 0;
	ssize_t ret;

	if (!known() || (c->flags & O_ACCMODE) != O_RDWR || atomic_load(&c->kind) != CALLS)
		return;
	atomic_store(&c->stopped, true);
	if (ioctl(c->fd, HWTIMER_IOC_STOP) || ioctl(c->fd, HWTIMER_IOC_STATS, &s))
		fail("STOP: %s", strerror(errno));
	while ((ret = read(c->fd, r, sizeof(r))) > 0) {
		check_records(c, (char *)r, ret);
		n += ret / RECORD;
	}
	if (ret || n != s.pending)
		fail("%llu of %llu handed back, then %zd", n, s.pending, ret);
	if (ioctl(c->fd, HWTIMER_IOC_STATS, &s) || s.pending)
		fail("%llu pending in the end", s.pending);
}

/**
 * run_round - run a round in this process
 * @p: its plan
 * @j: the job, for reports
 */
void run_round(const struct plan *p, struct job *j)
{
	static struct thread threads[MAX_THREADS];
	struct sigaction action = { .sa_handler = bad_memory, .sa_flags = SA_NODEFER };
	struct sigaction alarm = { .sa_handler = nothing };
	__u64 seed_of_hostile = mix(p->seed, ~0ULL);
	unsigned int i;
	pthread_t other;

	plan = p;
	job = j;
	atomic_store(&job->next_step, 0);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGALRM, &alarm, NULL);
	if (plan->uid && setresuid(plan->uid, plan->uid, plan->uid))
		die("setresuid: %s", strerror(errno));
	/* Or else files in /proc would be root's now. */
	prctl(PR_SET_DUMPABLE, 1);
	for (i = 0; i < plan->threads; i++)
		threads[i].seed = mix(plan->seed, i);
	threads[0].random = plan->seed;
	prepare_thread(&threads[0]);
	for (i = 0; i < CONTEXTS; i++)
		begin_context(&threads[0], &contexts[i]);
	if (plan->hostile) {
		hostile = must_mmap(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		start(&other, be_hostile, &seed_of_hostile);
	}
	pthread_barrier_init(&all_prepared, NULL, plan->threads);
	for (i = 1; i < plan->threads; i++)
		start(&threads[i].thread, prepare_and_be_thread, &threads[i]);
	be_thread(&threads[0]);
	if (!plan->leave)
		for (i = 1; i < plan->threads; i++)
			pthread_join(threads[i].thread, NULL);
	for (i = 0; i < CONTEXTS; i++)
		expect_all_handed_back(&contexts[i]);
	if (plan->leave)
		lock_forking(job);
	_exit(0);
}
