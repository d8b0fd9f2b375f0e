// SPDX-License-Identifier: GPL-2.0-only
/*
 * A round: contexts, threads that do random things to them, and the checks.
 */
#include "round.h"

#include <linux/capability.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>

static struct context contexts[CONTEXTS];
static struct thread threads[MAX_THREADS];

/* Steps: what a thread does, recorded for reports. */

void begin_step(struct thread *t, const struct context *c, enum action action)
{
	unsigned int n = atomic_fetch_add(&t->job->next_step, 1);

	t->step = &t->job->steps[n % STEPS];
	*t->step = (struct step){
		.round = t->round, .number = n, .thread = t->number, .action = action,
		.context = c ? c->number : CONTEXTS,
	};
}

void end_step(struct thread *t, enum action action, int ret)
{
	t->step->ret = ret;
	t->step->done = true;
	count(action, ret);
	atomic_fetch_add(&shared->steps, 1);
}

/* Accesses to memory that may be inaccessible. */

static __thread sigjmp_buf way_out;
static __thread volatile bool in_guard;

/**
 * guarded - call a function that may access inaccessible memory
 * @fn: the function
 * @arg: its argument
 *
 * Return: false if it did.
 */
bool guarded(void (*fn)(void *arg), void *arg)
{
	bool whole = false;

	if (!sigsetjmp(way_out, 0)) {
		in_guard = true;
		fn(arg);
		whole = true;
	}
	in_guard = false;
	return whole;
}

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

/* Clocks and books. */

__u64 context_now(const struct context *c)
{
	struct timespec ts;

	clock_gettime(c->clockid, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* Returns NULL if no book is left. */
struct book *new_book(struct context *c)
{
	unsigned int n = atomic_load(&c->n_books);

	do {
		if (n == BOOKS)
			return NULL;
	} while (!atomic_compare_exchange_weak(&c->n_books, &n, n + 1));
	return &c->books[n];
}

/* Mostly one of the latest books; NULL if there is none. */
struct book *any_book(struct thread *t, struct context *c)
{
	unsigned int n = atomic_load(&c->n_books), last = n < 12 ? n : 12;
	struct book *b;

	if (!n || !c->clean)
		return NULL;
	b = &c->books[one_in(&t->random, 3) ? below(&t->random, n) :
					      n - 1 - below(&t->random, last)];
	return atomic_load(&b->id) ? b : NULL;
}

void lower(_Atomic __u64 *earliest, __u64 deadline)
{
	__u64 old = atomic_load(earliest);

	while (deadline < old && !atomic_compare_exchange_weak(earliest, &old, deadline))
		;
}

bool is_over(const struct book *b)
{
	return atomic_load(&b->cancelled) || atomic_load(&b->handed_back) ||
	       (!b->periodic && atomic_load(&b->expired));
}

/**
 * check_record - check a record of a timeout that expired or was handed back
 * @c: its context, whose rings are clean, if any
 * @r: the record
 */
void check_record(struct context *c, const struct hwtimer_record *r)
{
	__u64 number = r->user_data;
	struct book *b;

	if (r->kind != HWTIMER_KIND_EXPIRED && r->kind != HWTIMER_KIND_HANDED_BACK)
		fail("a record of kind %u", r->kind);
	if (!r->id || r->error || !r->fired || (c->clean && r->fired > context_now(c)))
		fail("a record of %llx: error %d, fired %llu", r->id, r->error, r->fired);
	if (r->kind == HWTIMER_KIND_EXPIRED &&
	    (r->fired < r->deadline || r->deadline == HWTIMER_NEVER))
		fail("%llx expired early, at %llu and not %llu", r->id, r->fired, r->deadline);
	if (r->kind == HWTIMER_KIND_HANDED_BACK && !atomic_load(&c->stopped) &&
	    !atomic_load(&c->foreign))
		fail("%llx was handed back without a STOP", r->id);
	if (!c->clean)
		return;

	if (number & SUBMISSION) {
		number &= ~SUBMISSION;
		if (number >= atomic_load(&c->n_submissions) || !c->submissions[number].book)
			fail("a record of %llx, which was not submitted", r->user_data);
		number = c->submissions[number].book - c->books;
	}
	if (number >= atomic_load(&c->n_books))
		fail("a record of %llx, which was not scheduled", r->user_data);
	b = &c->books[number];
	/* The thread that schedules it may not know the id yet. */
	if (atomic_load(&b->id) && r->id != atomic_load(&b->id))
		fail("a record of %llx has the id %llx", atomic_load(&b->id), r->id);
	if (r->overruns && (!b->periodic || r->kind != HWTIMER_KIND_EXPIRED))
		fail("%llx has %llu overruns", r->id, r->overruns);
	if (b->periodic && r->kind == HWTIMER_KIND_EXPIRED ? r->last < r->deadline :
							r->last != r->deadline)
		fail("%llx: deadline %llu, last %llu", r->id, r->deadline, r->last);
	if (r->kind == HWTIMER_KIND_HANDED_BACK) {
		atomic_fetch_add(&c->handed_back, 1);
		if (atomic_fetch_add(&b->handed_back, 1))
			fail("%llx was handed back twice", r->id);
		return;
	}
	if (r->deadline < atomic_load(&b->earliest))
		fail("%llx expired by %llu, before %llu", r->id, r->deadline,
		     atomic_load(&b->earliest));
	if (atomic_fetch_add(&b->expired, 1) && !b->periodic)
		fail("%llx expired twice", r->id);
	atomic_fetch_add(&c->expired, 1 + r->overruns);
	if (b->periodic)
		atomic_fetch_add(&c->expired_again, 1 + r->overruns);
}

/* Contexts. */

/**
 * begin_context - open a context, and set it up at random
 * @t: the thread
 * @c: the context, zeroed
 */
void begin_context(struct thread *t, struct context *c)
{
	static const __u64 ticks[] = { 1, 1, 2, 7, 50 };
	static const __u32 slots[] = { 2, 3, 16, 256, 512 };
	static const __u64 caps[] = { 0, 0, 0, 1, 3, 20 };
	union argument arg = { 0 };
	int ret;

	c->blocking = one_in(&t->random, 3);
	begin_step(t, c, DO_OPEN);
	ret = hwt_open(c->blocking ? 0 : O_NONBLOCK);
	end_step(t, DO_OPEN, ret);
	if (ret < 0 && ret != -ENOMEM)
		die("%s: %s", HWT_DEVICE, strerror(-ret));
	atomic_store(&c->fd, ret);
	if (ret < 0)
		return;
	c->clockid = CLOCK_MONOTONIC;
	c->tick = run.tick_ns;
	c->rings = false;
	if (one_in(&t->random, 2)) {
		arg.setup.clockid = CLOCK_MONOTONIC;
		arg.setup.cap = ONE_OF(&t->random, caps);
		if (one_in(&t->random, 3)) {
			arg.setup.flags = HWTIMER_SETUP_OWN_WHEEL;
			arg.setup.tick_ns = ONE_OF(&t->random, ticks) * NSEC_PER_MSEC;
			arg.setup.slots = ONE_OF(&t->random, slots);
			arg.setup.levels = below(&t->random, 4);
			if (one_in(&t->random, 2))
				arg.setup.clockid = one_in(&t->random, 2) ? CLOCK_BOOTTIME :
									    CLOCK_REALTIME;
		}
		if (!call_valid(t, c, DO_SETUP, &arg)) {
			c->tick = arg.setup.tick_ns;
			c->clockid = arg.setup.clockid;
		}
	}
	if (one_in(&t->random, 2))
		make_rings(t, c);
}

/* Clean contexts are used at once, so that no other thread can set them up. */
static void make_context(struct thread *t, struct context *c, int number)
{
	union argument arg = { 0 };

	c->number = number;
	c->clean = !number || one_in(&t->random, 3);
	pthread_mutex_init(&c->submitting, NULL);
	pthread_mutex_init(&c->reading, NULL);
	begin_context(t, c);
	if (atomic_load(&c->fd) < 0 || !c->clean) {
		c->clean = false;
		return;
	}
	c->books = must_alloc(BOOKS, sizeof(*c->books));
	c->submissions = must_alloc(SUBMISSIONS, sizeof(*c->submissions));
	arg.schedule.time = HWTIMER_NEVER;
	arg.schedule.user_data = new_book(c) - c->books;
	arg.schedule.id = HWTIMER_ID(0, 1);
	c->books[0].earliest = HWTIMER_NEVER;
	if (call_valid(t, c, DO_SCHEDULE, &arg)) {
		c->clean = false;
		return;
	}
	atomic_store(&c->books[0].id, arg.schedule.id);
	atomic_store(&c->books[0].armed, 1);
}

/* Reading. */

static void check_records(struct context *c, const char *p, ssize_t len)
{
	struct hwtimer_record r;

	if (len % sizeof(r))
		fail("read() returned %zd", len);
	for (; len > 0; len -= sizeof(r), p += sizeof(r)) {
		memcpy(&r, p, sizeof(r));
		check_record(c, &r);
	}
}

/*
 * Choose where to read to, mostly a valid place; may change @size. *@room is the number of records
 * that fit there. Returns false if other threads may write there.
 */
static bool pick_buffer(struct thread *t, const struct context *c, char **p, size_t *size,
			unsigned int *room)
{
	size_t part;

	*p = t->here;
	*room = *size / sizeof(struct hwtimer_record);
	switch (below(&t->random, 12)) {
	case 0:
		/* Some are beyond the fence, or a part of one. */
		part = below(&t->random, *size);
		*p = t->fence - part;
		*room = part / sizeof(struct hwtimer_record);
		break;
	case 1:
		*p = t->read_only;
		*room = 0;
		break;
	case 2:
		*size = below(&t->random, sizeof(struct hwtimer_record));
		*room = 0;
		break;
	case 3:
		if (!c->clean && t->hostile) {
			*p = t->hostile;
			return false;
		}
		break;
	}
	return true;
}

/* Check an error of read(). */
static void check_read_error(const struct context *c, size_t size, ssize_t ret)
{
	if (!c->clean)
		return;
	if (ret < 0 && ret != -EAGAIN && ret != -EINVAL && ret != -EFAULT && ret != -EINTR &&
	    ret != -EOPNOTSUPP)
		fail("read(): %zd", ret);
	if (ret == -EOPNOTSUPP && !c->rings)
		fail("read(): not supported without rings");
	if (ret != -EOPNOTSUPP && ret != -EINVAL && size && c->rings)
		fail("read(): %zd with rings", ret);
}

static void do_read(struct thread *t, struct context *c, enum action action)
{
	size_t size = (1 + below(&t->random, 20)) * sizeof(struct hwtimer_record), part;
	bool known, blocking = c->blocking;
	int fd = atomic_load(&c->fd);
	struct iovec v[2];
	unsigned int room;
	ssize_t ret;
	char *p;

	begin_step(t, c, action);
	memset(t->here, 0xa5, size);
	known = pick_buffer(t, c, &p, &size, &room);
	/* The descriptor may be another context by now. */
	if (!t->can_block)
		fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	else if (blocking || !c->clean)
		interrupt(t, 300 * NSEC_PER_USEC);
	if (action == DO_READV) {
		part = below(&t->random, size + 1);
		v[0] = (struct iovec){ p, part };
		v[1] = (struct iovec){ p + part, size - part };
		ret = readv(fd, v, 2);
	} else {
		ret = read(fd, p, size);
	}
	if (ret < 0)
		ret = -errno;
	if (t->can_block && (blocking || !c->clean))
		interrupt(t, 0);
	end_step(t, action, ret);
	if (ret > 0 && known && ret > (ssize_t)(room * sizeof(struct hwtimer_record)))
		fail("read() returned %zd, with room for %u records", ret, room);
	if (ret > 0 && known)
		check_records(c, p, ret);
	check_read_error(c, size, ret);
}

static void do_poll(struct thread *t, struct context *c)
{
	struct pollfd p = { .fd = atomic_load(&c->fd), .events = POLLIN };
	bool alone = t->plan->threads == 1 && !atomic_load(&c->foreign) && !c->rings;
	struct hwtimer_stats before = { 0 }, after = { 0 };
	int ret;

	alone = alone && get_stats(c, &before);
	begin_step(t, c, DO_POLL);
	ret = poll(&p, 1, below(&t->random, 3));
	end_step(t, DO_POLL, ret < 0 ? -errno : 0);
	if (!c->clean || ret < 0)
		return;
	if (p.revents & ~(POLLIN | POLLHUP))
		fail("poll() says %x", p.revents);
	if (p.revents & POLLHUP && !atomic_load(&c->stopped))
		fail("poll() says %x without a STOP", p.revents);
	if (!alone || !get_stats(c, &after))
		return;
	if (before.unread && !(p.revents & POLLIN))
		fail("poll() says %x, and %llu are unread", p.revents, before.unread);
	if (!after.unread && p.revents & POLLIN)
		fail("poll() says %x, and nothing is unread", p.revents);
}

static void do_epoll(struct thread *t, struct context *c)
{
	struct epoll_event e = { .events = EPOLLIN };
	int fd = epoll_create1(EPOLL_CLOEXEC), ret;

	begin_step(t, c, DO_EPOLL);
	if (one_in(&t->random, 2))
		e.events |= EPOLLET;
	if (one_in(&t->random, 4))
		e.events |= EPOLLONESHOT | EPOLLPRI | EPOLLOUT;
	ret = epoll_ctl(fd, EPOLL_CTL_ADD, atomic_load(&c->fd), &e);
	if (!ret)
		ret = epoll_wait(fd, &e, 1, below(&t->random, 3));
	end_step(t, DO_EPOLL, ret < 0 ? -errno : 0);
	close(fd);
}

static void do_fdinfo(struct thread *t, struct context *c)
{
	char path[64], text[2048];
	ssize_t len;
	int fd;

	begin_step(t, c, DO_FDINFO);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", atomic_load(&c->fd));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = read(fd, text, sizeof(text));
	end_step(t, DO_FDINFO, fd < 0 || len < 0 ? -errno : 0);
	close(fd);
}

/* Processes. */

static void execute(struct context *c)
{
	char number[16];
	char *args[] = { "hwtimer_fuzz", "-x", number, NULL }, *none[] = { NULL };
	int fd = dup(atomic_load(&c->fd));	/* stays open in the program */

	if (fd < 0)
		_exit(0);	/* another thread has closed it */
	snprintf(number, sizeof(number), "%d", fd);
	execve(run.self, args, none);
}

/**
 * be_executed - use a context inherited through exec
 * @fd: the context
 */
void be_executed(int fd)
{
	struct hwtimer_schedule s = { .flags = HWTIMER_RELATIVE, .id = HWTIMER_ID(0, 1) };
	struct hwtimer_record r[4];
	char *p;

	fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);
	ioctl(fd, HWTIMER_IOC_ENTER, &(struct hwtimer_enter){ 0 });
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		*p = 1;
	if (read(fd, r, sizeof(r)) > 0)
		ioctl(fd, HWTIMER_IOC_CANCEL, &(struct hwtimer_cancel){ .id = s.id });
	_exit(0);
}

static void do_step(struct thread *t, unsigned int n);

/* The child inherits all contexts, and uses those that are not clean. */
static void do_fork(struct thread *t, struct context *c, enum action action)
{
	unsigned int steps = below(&t->random, 12), i;
	pid_t pid;

	begin_step(t, c, action);
	for (i = 0; i < CONTEXTS; i++)
		atomic_store(&contexts[i].foreign, true);
	pthread_mutex_lock(&t->job->forking);
	pid = fork();
	if (pid) {
		pthread_mutex_unlock(&t->job->forking);
		end_step(t, action, pid < 0 ? -errno : 0);
		if (pid > 0 && one_in(&t->random, 2))
			waitpid(pid, NULL, 0);
		return;
	}
	t->child = true;
	t->can_block = false;
	t->fail_nth = -1;
	if (action == DO_EXEC)
		execute(c);
	for (i = 0; i < steps; i++)
		do_step(t, 1000000 + below(&t->random, 1000000));
	_exit(0);
}

/* Close while other threads may use it, and open a new one. */
static void do_close(struct thread *t, struct context *c)
{
	int fd = atomic_exchange(&c->fd, -1), ret;

	if (fd < 0)
		return;	/* another thread does it */
	begin_step(t, c, DO_CLOSE);
	ret = close(fd) ? -errno : 0;
	end_step(t, DO_CLOSE, ret);
	if (c->region)
		mmap(c->region, 2 * REGION, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	begin_context(t, c);
}

static void do_dup(struct thread *t, struct context *c)
{
	int fd;

	begin_step(t, c, DO_DUP);
	fd = dup(atomic_load(&c->fd));
	end_step(t, DO_DUP, fd < 0 ? -errno : 0);
	if (fd >= 0)
		close(fd);
}

/* The weights of actions, in contexts without and with rings. */
static const struct {
	enum action action;
	unsigned char plain, ringed;
	bool dirty;	/* not in clean contexts */
} weights[] = {
	{ DO_SCHEDULE, 44, 20, false },
	{ DO_TOUCH, 24, 12, false },
	{ DO_CANCEL, 20, 10, false },
	{ DO_QUERY, 12, 8, false },
	{ DO_STATS, 8, 8, false },
	{ DO_STOP, 1, 1, false },
	{ DO_SETUP, 3, 2, false },
	{ DO_RINGS, 3, 2, false },
	{ DO_ENTER, 2, 12, false },
	{ DO_LIST, 6, 6, false },
	{ DO_WHEELS, 2, 2, false },
	{ DO_RESIZE, 4, 6, false },
	{ DO_READ, 20, 2, false },
	{ DO_READV, 4, 1, false },
	{ DO_POLL, 6, 6, false },
	{ DO_EPOLL, 3, 3, false },
	{ DO_FDINFO, 1, 1, false },
	{ DO_MMAP, 2, 4, false },
	{ DO_SUBMIT, 0, 70, false },
	{ DO_RECORDS, 0, 20, false },
	{ DO_SPOIL, 0, 4, false },
	{ DO_DUP, 1, 1, false },
	{ DO_FORK, 1, 1, false },
	{ DO_EXEC, 1, 1, true },
	{ DO_CLOSE, 2, 3, true },
	{ DO_GARBAGE, 10, 10, true },
	{ DO_SCRIBBLE, 0, 60, true },
	{ DO_MUNMAP, 0, 2, true },
	{ DO_MPROTECT, 0, 4, true },
	{ DO_MREMAP, 0, 2, true },
	{ DO_MADVISE, 0, 4, true },
};

static enum action pick_action(struct thread *t, const struct context *c)
{
	unsigned int sum = 0, i, n;

	for (i = 0; i < ARRAY_SIZE(weights); i++)
		sum += c->rings ? weights[i].ringed : weights[i].plain;
	n = below(&t->random, sum);
	for (i = 0; ; i++) {
		sum = c->rings ? weights[i].ringed : weights[i].plain;
		if (n < sum)
			break;
		n -= sum;
	}
	/* Whether an index is valid must be known in clean contexts with rings. */
	if (c->clean && (weights[i].dirty || (weights[i].action == DO_RESIZE && c->rings)))
		return DO_STATS;
	return weights[i].action;
}

/* Rings that are not clean are only written to at random. */
static void use_ring(struct thread *t, struct context *c, enum action action)
{
	if (!c->clean)
		scribble(t, c);
	else if (action == DO_SUBMIT)
		submit_one(t, c);
	else if (action == DO_RECORDS)
		read_ring(t, c);
	else if (t->plan->threads == 1)	/* other threads would ring the doorbell */
		spoil(t, c);
}

static void do_step(struct thread *t, unsigned int n)
{
	enum action action;
	struct context *c;

	t->random = mix(t->plan->seed, mix(t->number, n));
	c = &contexts[below(&t->random, CONTEXTS)];
	action = pick_action(t, c);
	if (t->child && (c->clean || action == DO_FORK || action == DO_EXEC))
		return;
	switch (action) {
	case DO_LIST:
		do_list(t, c);
		break;
	case DO_WHEELS:
		do_wheels(t, c);
		break;
	case DO_GARBAGE:
		do_garbage(t, c);
		break;
	case DO_READ:
	case DO_READV:
		do_read(t, c, action);
		break;
	case DO_POLL:
		do_poll(t, c);
		break;
	case DO_EPOLL:
		do_epoll(t, c);
		break;
	case DO_FDINFO:
		do_fdinfo(t, c);
		break;
	case DO_SUBMIT:
	case DO_RECORDS:
	case DO_SPOIL:
		use_ring(t, c, action);
		break;
	case DO_SCRIBBLE:
		scribble(t, c);
		break;
	case DO_MMAP:
	case DO_MUNMAP:
	case DO_MPROTECT:
	case DO_MREMAP:
	case DO_MADVISE:
		change_mapping(t, c, action);
		break;
	case DO_DUP:
		do_dup(t, c);
		break;
	case DO_FORK:
	case DO_EXEC:
		do_fork(t, c, action);
		break;
	case DO_CLOSE:
		do_close(t, c);
		break;
	default:
		do_ioctl(t, c, action);
	}
}

static void prepare_thread(struct thread *t)
{
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM,
	};
	long page = sysconf(_SC_PAGESIZE);
	char *p;

	/* An area for arguments, followed by a fence and a read-only part. */
	p = mmap(NULL, 4 * AREA + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0);
	if (p == MAP_FAILED || mprotect(p + 4 * AREA, page, PROT_NONE) ||
	    mprotect(p + 2 * AREA, AREA, PROT_READ))
		die("mmap: %s", strerror(errno));
	t->here = p;
	t->read_only = p + 2 * AREA;
	t->fence = p + 4 * AREA;
	t->fail_nth = run.fail_nth ? open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC) : -1;
	event._sigev_un._tid = my_tid();
	t->can_block = !timer_create(CLOCK_MONOTONIC, &event, &t->timer);
}

static void *be_thread(void *arg)
{
	struct thread *t = arg;
	unsigned int i;

	prepare_thread(t);
	for (i = 0; i < t->plan->steps; i++)
		do_step(t, i);
	return NULL;
}

/* Changes arguments, and their protection, while the kernel reads them. */
struct hostile {
	pthread_t thread;
	char *area;
	__u64 random;
	int fd;
};

static void flip(void *arg)
{
	struct hostile *h = arg;
	volatile __u32 *p = (__u32 *)h->area;
	unsigned int i;

	for (i = 0; i < 200; i++)
		p[below(&h->random, 200)] = one_in(&h->random, 2) ? 0 : rnd(&h->random) >> 60;
}

static void *be_hostile(void *arg)
{
	struct hostile *h = arg;

	for (;;) {
		guarded(flip, h);
		if (one_in(&h->random, 8))
			mprotect(h->area, AREA, one_in(&h->random, 2) ? PROT_READ : PROT_NONE);
		if (one_in(&h->random, 8))
			mmap(h->area, AREA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			     -1, 0);
		if (mmap(h->area, AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, h->fd,
			 0) == MAP_FAILED)
			die("mmap: %s", strerror(errno));
	}
	return NULL;	/* until the process ends */
}

static void start_hostile(struct hostile *h, __u64 random)
{
	h->random = random;
	h->fd = memfd_create("hostile", MFD_CLOEXEC);
	if (h->fd < 0 || ftruncate(h->fd, AREA))
		die("memfd_create: %s", strerror(errno));
	h->area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, 0);
	if (h->area == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	start(&h->thread, be_hostile, h);
}

/* The end: all timeouts have expired or are handed back, and match the books. */

static void read_to_the_end(struct context *c)
{
	struct hwtimer_record records[16];
	struct pollfd p = { .fd = atomic_load(&c->fd), .events = POLLIN };
	__u64 end = now_ns() + PATIENCE;
	int ret;

	fcntl(p.fd, F_SETFL, O_RDWR | O_NONBLOCK);
	for (;;) {
		if (poll(&p, 1, 1000) < 0 && errno != EINTR)
			fail("poll: %s", strerror(errno));
		ret = hwt_read(p.fd, records, ARRAY_SIZE(records));
		if (!ret)
			return;
		if (ret < 0 && ret != -EAGAIN)
			fail("read() of context %d: %d", c->number, ret);
		if (ret > 0)
			check_records(c, (char *)records, ret * sizeof(records[0]));
		if (now_ns() > end)
			fail("context %d does not end", c->number);
	}
}

static void check_books(struct context *c, bool known)
{
	unsigned int n = atomic_load(&c->n_books), i;
	__u64 armed = 0, cancelled = 0, ids = 0;
	__u64 *id = must_alloc(n, sizeof(*id));
	struct hwtimer_stats s;

	if (!get_stats(c, &s))
		fail("no STATS");
	check_stats(c, &s);
	for (i = 0; i < n; i++) {
		struct book *b = &c->books[i];
		unsigned int ends = b->cancelled + b->handed_back +
				    (b->periodic ? 0 : b->expired);

		if (ends > 1 || (!b->unsure && ends != b->armed)) {
			print_stats(&s);
			printf("# armed %u cancelled %u expired %u handed_back %u\n", b->armed,
			       b->cancelled, b->expired, b->handed_back);
			fflush(stdout);
			fail("timeout %u of context %d, %llx%s, due at %llu", i, c->number, b->id,
			     b->periodic ? ", periodic" : "", b->earliest);
		}
		armed += b->armed;
		cancelled += b->cancelled;
		if (b->armed)
			id[ids++] = b->id;
	}
	if (!all_different(id, ids))
		fail("an id was used twice in context %d", c->number);
	free(id);
	if (s.pending || s.unread || s.expired != c->expired ||
	    s.handed_back != c->handed_back ||
	    (known && (s.scheduled != armed + c->expired_again || s.touched != c->touched ||
		       s.cancelled != cancelled)) ||
	    (!c->rings && s.rejected != c->rejected)) {
		print_stats(&s);
		printf("# armed %llu, again %lu, touched %lu cancelled %llu", armed,
		       c->expired_again, c->touched, cancelled);
		printf(" expired %lu handed_back %lu rejected %lu\n", c->expired,
		       c->handed_back, c->rejected);
		fflush(stdout);
		fail("the counters of context %d do not match the books", c->number);
	}
}

static void finish(struct thread *t, struct context *c)
{
	union argument arg = { 0 };
	struct hwtimer_stats s;
	bool known = true;
	int ret;

	if (atomic_load(&c->fd) < 0)
		return;
	if (!c->clean) {
		if (get_stats(c, &s))
			check_stats(c, &s);
		return;
	}
	atomic_store(&c->stopped, true);
	ret = call_valid(t, c, DO_STOP, &arg);
	if (ret)
		fail("STOP: %d", ret);
	if (c->rings) {
		drain_ring(t, c);
		known = settle_submissions(c);
	} else {
		read_to_the_end(c);
	}
	check_books(c, known);
}

/* Drop the capability that exempts from limits. */
static void drop_privilege(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		die("capget: %s", strerror(errno));
	data[0].effective &= ~(1U << CAP_SYS_RESOURCE);
	data[0].permitted &= ~(1U << CAP_SYS_RESOURCE);
	if (syscall(SYS_capset, &head, data))
		die("capset: %s", strerror(errno));
}

/**
 * plan_round - the properties of a round
 * @round: its number
 *
 * Return: the plan.
 */
struct plan plan_round(__u64 round)
{
	struct plan plan = { .seed = mix(run.seed, round) };
	__u64 random = plan.seed;

	plan.threads = one_in(&random, 2) ? 1 : 2 + below(&random, MAX_THREADS - 1);
	plan.steps = 20 + below(&random, 400) / plan.threads;
	if (one_in(&random, 6))
		plan.kill_after_us = 1 + below(&random, one_in(&random, 2) ? 2000 : 40000);
	plan.privileged = one_in(&random, 4);
	plan.hostile = one_in(&random, 2);
	plan.end = one_in(&random, 6) ? END_LEFT : one_in(&random, 12) ? END_EXEC : END_CHECKED;
	/* A killer needs the job's mutex, which END_LEFT keeps, see struct job. */
	if (plan.kill_after_us && plan.end == END_LEFT)
		plan.end = END_CHECKED;
	return plan;
}

/**
 * run_round - run a round in this process
 * @plan: its plan
 * @job: its job, for reports
 * @round: its number
 */
void run_round(const struct plan *plan, unsigned int job, __u64 round)
{
	struct sigaction action = { .sa_handler = bad_memory, .sa_flags = SA_NODEFER };
	struct sigaction alarm = { .sa_handler = nothing };
	struct hostile hostile = { .area = NULL };
	struct thread *first = &threads[0];
	unsigned int i;

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGALRM, &alarm, NULL);
	if (!plan->privileged)
		drop_privilege();
	if (plan->hostile)
		start_hostile(&hostile, plan->seed);
	for (i = 0; i < plan->threads; i++)
		threads[i] = (struct thread){
			.plan = plan, .contexts = contexts, .job = &shared->jobs[job],
			.round = round, .number = i, .hostile = hostile.area,
		};
	prepare_thread(first);
	first->random = mix(plan->seed, ~0ULL);
	for (i = 0; i < CONTEXTS; i++)
		make_context(first, &contexts[i], i);
	for (i = 1; i < plan->threads; i++)
		start(&threads[i].thread, be_thread, &threads[i]);
	for (i = 0; i < plan->steps; i++)
		do_step(first, i);
	if (plan->end == END_LEFT) {
		pthread_mutex_lock(&first->job->forking);
		_exit(0);
	}
	for (i = 1; i < plan->threads; i++)
		pthread_join(threads[i].thread, NULL);
	if (plan->end == END_EXEC)
		execute(&contexts[0]);
	first->random = plan->seed;
	for (i = 0; i < CONTEXTS; i++)
		finish(first, &contexts[i]);
	_exit(0);
}
