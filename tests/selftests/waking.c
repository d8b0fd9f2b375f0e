// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/hwtimer: who waits for a context is woken when, and only when, something may be taken,
 * whatever he waits with.
 *
 * Each way of waiting goes through the same cases, with contexts of both kinds. Nothing is waited
 * for with a limit: what never comes, the guest's own limit ends. That a thread sleeps is found out
 * from its state, as what comes later has to wake it.
 */
#include "context.h"
#include "uring.h"

#include <linux/aio_abi.h>
#include <sys/uio.h>

/* The descriptor that a program which is executed inherits. */
#define INHERITED	"WAKING_INHERITED"
/* Nothing to take. */
#define NONE		(-1)
/* The shortest tick. */
#define SHORT_TICK	131072
/* Which the headers of the build machine may lack. */
#define OP_READ_MULTISHOT	49

#define until(condition) do {							\
	while (!(condition))							\
		usleep(1000);							\
} while (0)

/* Which timeout a record is of; if it has expired, not too early. */
static int record_taken(const struct context *c, const struct hwtimer_record *r)
{
	if (r->kind == HWTIMER_KIND_EXPIRED &&
	    (r->deadline_ns > r->taken_ns || r->taken_ns > context_now(c)))
		die("early");
	return r->user_data;
}

/* Take one timeout without waiting: which one, or NONE. */
static int take(struct context *c)
{
	struct hwtimer_record r;
	struct iovec to = { &r, sizeof(r) };
	__u32 i, g, head;
	ssize_t size;
	__u64 word;

	if (!c->table) {
		size = preadv2(c->t.fd, &to, 1, -1, RWF_NOWAIT);
		if (size < 0 && errno != EAGAIN)
			die("read: %s", strerror(errno));
		return size > 0 ? record_taken(c, &r) : NONE;
	}
	while (table_peek(&c->t, &i, &g, &head) > 0) {
		word = table_look(&c->t, i, context_now(c), NULL, NULL);
		table_took(&c->t, g, head);
		if (!word)
			continue;
		if (table_deadline(word) > context_now(c))
			die("early");
		return i;
	}
	return NONE;
}

struct waiter;

/**
 * struct way - a way to wait for a context
 * @begin: prepare it, in the thread that waits
 * @wait: wait without a limit: 0, or -EINTR
 * @end: the contrary of @begin
 * @level: to wait again without taking anything does not block
 * @events: for epoll: for the descriptor
 * @sets: for epoll: how many sets there are, each in the next one
 */
struct way {
	void	(*begin)(struct waiter *w);
	int	(*wait)(struct waiter *w);
	void	(*end)(struct waiter *w);
	bool	level;
	__u32	events;
	int	sets;
};

#define MAX_SETS	3

/* Who waits for a context, in a thread of its own. */
struct waiter {
	struct context		*c;
	const struct way	*way;
	int			set[MAX_SETS];
	struct uring		ring;
	aio_context_t		aio;
	bool			pending;	/* a request is not complete */
	struct hwtimer_record	record;		/* where a request reads to */
	int			taken;		/* by the wait itself, or NONE */
	pthread_t		thread;
	atomic_int		tid;
	/* How often it has begun to wait and has come back, because of signals, too. */
	atomic_uint		begun, done, interrupts;
	/* How many timeouts it is to take, unless the context ends, and the last one. */
	atomic_int		left, last;
	/* For several waiters: how often each timeout was taken. */
	atomic_int		*seen;
};

static void nothing(struct waiter *w)
{
	(void)w;
}

static void epoll_begin(struct waiter *w)
{
	struct epoll_event event = { .events = w->way->events };
	int i, fd = w->c->t.fd;

	for (i = 0; i < w->way->sets; i++) {
		w->set[i] = epoll_create1(EPOLL_CLOEXEC);
		if (w->set[i] < 0 || epoll_ctl(w->set[i], EPOLL_CTL_ADD, fd, &event))
			die("epoll: %s", strerror(errno));
		fd = w->set[i];
	}
}

static int epoll_wait_in(struct waiter *w)
{
	struct epoll_event event = { .events = w->way->events };
	int i = w->way->sets - 1;

	/* The first time, it was not used up yet. */
	if (w->way->events & EPOLLONESHOT && w->pending &&
	    epoll_ctl(w->set[0], EPOLL_CTL_MOD, w->c->t.fd, &event))
		die("epoll: %s", strerror(errno));
	w->pending = true;
	if (epoll_wait(w->set[i], &event, 1, -1) < 0)
		return -errno;
	/* Others may have taken it meanwhile. */
	while (i-- > 0)
		if (epoll_wait(w->set[i], &event, 1, 0) < 0)
			return -errno;
	return 0;
}

static void epoll_end(struct waiter *w)
{
	int i;

	for (i = 0; i < w->way->sets; i++)
		close(w->set[i]);
}

static const struct way by_epoll = {
	epoll_begin, epoll_wait_in, epoll_end, true, EPOLLIN, 1,
};

static const struct way by_edges = {
	epoll_begin, epoll_wait_in, epoll_end, false, EPOLLIN | EPOLLET, 1,
};

static const struct way by_three_sets_edges = {
	epoll_begin, epoll_wait_in, epoll_end, false, EPOLLIN | EPOLLET, 3,
};

static const struct way by_oneshot = {
	epoll_begin, epoll_wait_in, epoll_end, true, EPOLLIN | EPOLLONESHOT, 1,
};

static const struct way by_exclusive = {
	epoll_begin, epoll_wait_in, epoll_end, true, EPOLLIN | EPOLLEXCLUSIVE, 1,
};

static bool have_uring(void)
{
	struct uring ring;
	int ret = open_ring(&ring, 0);

	if (!ret)
		close_ring(&ring);
	return ret != -ENOSYS;
}

static void uring_begin(struct waiter *w)
{
	int ret = open_ring(&w->ring, 0);

	if (ret)
		die("io_uring: %s", strerror(-ret));
}

static void uring_end(struct waiter *w)
{
	close_ring(&w->ring);
}

/* The result of a request that is submitted unless there is one, or -EINTR. */
static int uring_result(struct waiter *w, const struct io_uring_sqe *sqe)
{
	struct io_uring_cqe cqe;

	if (!w->pending)
		submit(&w->ring, sqe);
	w->pending = true;
	while (!completed(&w->ring, &cqe))
		if (syscall(__NR_io_uring_enter, w->ring.fd, 0, 1, IORING_ENTER_GETEVENTS, NULL,
			    0) < 0)
			return -errno;
	w->pending = cqe.flags & IORING_CQE_F_MORE;
	return cqe.res;
}

static int uring_poll(struct waiter *w, __u32 flags)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_POLL_ADD, .fd = w->c->t.fd, .poll32_events = POLLIN,
		.len = flags,
	};
	int ret = uring_result(w, &sqe);

	if (ret > 0 && !(ret & (POLLIN | POLLHUP)))
		die("polled: 0x%x", ret);
	return ret < 0 ? ret : 0;
}

static int uring_poll_once(struct waiter *w)
{
	return uring_poll(w, 0);
}

static int uring_poll_multi(struct waiter *w)
{
	return uring_poll(w, IORING_POLL_ADD_MULTI);
}

static int uring_read(struct waiter *w)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_READ, .fd = w->c->t.fd, .addr = (uintptr_t)&w->record,
		.len = sizeof(w->record), .off = -1,
	};
	int ret = uring_result(w, &sqe);

	if (ret == sizeof(w->record))
		w->taken = record_taken(w->c, &w->record);
	return ret < 0 ? ret : 0;
}

static const struct way by_uring = { uring_begin, uring_poll_once, uring_end, true, 0, 0 };
static const struct way by_uring_multi = { uring_begin, uring_poll_multi, uring_end, false, 0, 0 };
static const struct way by_uring_read = { uring_begin, uring_read, uring_end, false, 0, 0 };

static bool have_aio(void)
{
	aio_context_t aio = 0;

	if (syscall(__NR_io_setup, 1, &aio))
		return errno != ENOSYS;
	syscall(__NR_io_destroy, aio);
	return true;
}

static void aio_begin(struct waiter *w)
{
	if (syscall(__NR_io_setup, 1, &w->aio))
		die("io_setup: %s", strerror(errno));
}

static int aio_wait(struct waiter *w)
{
	struct iocb request = {
		.aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = w->c->t.fd, .aio_buf = POLLIN,
	}, *requests = &request;
	struct io_event event;

	if (!w->pending && syscall(__NR_io_submit, w->aio, 1, &requests) != 1)
		die("io_submit: %s", strerror(errno));
	w->pending = true;
	if (syscall(__NR_io_getevents, w->aio, 1, 1, &event, NULL) < 0)
		return -errno;
	w->pending = false;
	if (!(event.res & (POLLIN | POLLHUP)))
		die("polled: 0x%llx", (unsigned long long)event.res);
	return 0;
}

static void aio_end(struct waiter *w)
{
	syscall(__NR_io_destroy, w->aio);
}

static const struct way by_aio = { aio_begin, aio_wait, aio_end, true, 0, 0 };

static int ppoll_wait(struct waiter *w)
{
	struct pollfd p = { .fd = w->c->t.fd, .events = POLLIN };

	return ppoll(&p, 1, NULL, NULL) < 0 ? -errno : 0;
}

static const struct way by_ppoll = { nothing, ppoll_wait, nothing, true, 0, 0 };

static int read_wait(struct waiter *w)
{
	ssize_t ret = read(w->c->t.fd, &w->record, sizeof(w->record));

	if (ret > 0)
		w->taken = record_taken(w->c, &w->record);
	return ret < 0 ? -errno : 0;
}

static const struct way by_read = { nothing, read_wait, nothing, false, 0, 0 };

/* Wait once. */
static int waiter_wait(struct waiter *w)
{
	int ret;

	atomic_fetch_add(&w->begun, 1);
	ret = w->way->wait(w);
	if (ret == -EINTR)
		atomic_fetch_add(&w->interrupts, 1);
	else if (ret)
		die("wait: %s", strerror(-ret));
	atomic_fetch_add(&w->done, 1);
	return ret;
}

static int waiter_take(struct waiter *w)
{
	int i = w->taken;

	w->taken = NONE;
	return i == NONE ? take(w->c) : i;
}

/* The next timeout, however long it takes; NONE after the end. */
static int waiter_next(struct waiter *w)
{
	int i;

	while ((i = waiter_take(w)) == NONE && !atomic_load(&w->c->ended))
		waiter_wait(w);
	return i;
}

static void waiter_begin(struct waiter *w, struct context *c, const struct way *way)
{
	*w = (struct waiter){ .c = c, .way = way, .taken = NONE };
	way->begin(w);
}

static void *waiter_thread(void *arg)
{
	struct waiter *w = arg;
	int i;

	atomic_store(&w->tid, syscall(SYS_gettid));
	w->way->begin(w);
	while (atomic_load(&w->left)) {
		i = waiter_next(w);
		if (i == NONE)
			break;
		if (w->seen)
			atomic_fetch_add(&w->seen[i], 1);
		atomic_store(&w->last, i);
		atomic_fetch_sub(&w->left, 1);
	}
	w->way->end(w);
	return NULL;
}

static void waiter_start(struct waiter *w, struct context *c, const struct way *way, int left)
{
	w->c = c;
	w->way = way;
	w->taken = NONE;
	atomic_store(&w->left, left);
	if (pthread_create(&w->thread, NULL, waiter_thread, w))
		die("pthread_create");
}

/* Does its thread sleep in the wait? It sleeps nowhere else between begin and end of a wait. */
static bool waiter_asleep(struct waiter *w)
{
	unsigned int begun = atomic_load(&w->begun);

	return begun != atomic_load(&w->done) && task_state(atomic_load(&w->tid)) == 'S' &&
	       begun != atomic_load(&w->done) && begun == atomic_load(&w->begun);
}

FIXTURE(waiting)
{
	struct context c;
	struct waiter w;
};

FIXTURE_VARIANT(waiting)
{
	bool			table;
	const struct way	*way;
};

FIXTURE_VARIANT_ADD(waiting, calls_epoll) { false, &by_epoll };
FIXTURE_VARIANT_ADD(waiting, table_epoll) { true, &by_epoll };
FIXTURE_VARIANT_ADD(waiting, calls_edges) { false, &by_edges };
FIXTURE_VARIANT_ADD(waiting, table_edges) { true, &by_edges };
FIXTURE_VARIANT_ADD(waiting, calls_three_sets_edges) { false, &by_three_sets_edges };
FIXTURE_VARIANT_ADD(waiting, table_three_sets_edges) { true, &by_three_sets_edges };
FIXTURE_VARIANT_ADD(waiting, calls_oneshot) { false, &by_oneshot };
FIXTURE_VARIANT_ADD(waiting, table_oneshot) { true, &by_oneshot };
FIXTURE_VARIANT_ADD(waiting, calls_exclusive) { false, &by_exclusive };
FIXTURE_VARIANT_ADD(waiting, table_exclusive) { true, &by_exclusive };
FIXTURE_VARIANT_ADD(waiting, calls_uring) { false, &by_uring };
FIXTURE_VARIANT_ADD(waiting, table_uring) { true, &by_uring };
FIXTURE_VARIANT_ADD(waiting, calls_uring_multi) { false, &by_uring_multi };
FIXTURE_VARIANT_ADD(waiting, table_uring_multi) { true, &by_uring_multi };
FIXTURE_VARIANT_ADD(waiting, calls_aio) { false, &by_aio };
FIXTURE_VARIANT_ADD(waiting, table_aio) { true, &by_aio };
FIXTURE_VARIANT_ADD(waiting, calls_ppoll) { false, &by_ppoll };
FIXTURE_VARIANT_ADD(waiting, table_ppoll) { true, &by_ppoll };
/* A table has no read(2). */
FIXTURE_VARIANT_ADD(waiting, calls_uring_read) { false, &by_uring_read };
FIXTURE_VARIANT_ADD(waiting, calls_read) { false, &by_read };

FIXTURE_SETUP(waiting)
{
	if (variant->way->end == uring_end && !have_uring())
		SKIP(return, "this kernel has no io_uring");
	if (variant->way->end == aio_end && !have_aio())
		SKIP(return, "this kernel has no aio");
	context_open(&self->c, variant->table, 256, 0);
}

FIXTURE_TEARDOWN(waiting)
{
	context_close(&self->c);
}

/* It was due before the wait began. */
TEST_F(waiting, due_before)
{
	struct waiter *w = &self->w;
	struct context *c = &self->c;
	int i;

	arm(c, 0, 0);
	until(poll_in(c->t.fd, 0));
	waiter_begin(w, c, variant->way);
	/* A one-shot is armed again while the timeout is due. */
	for (i = 0; i < (variant->way->level ? 3 : 1); i++)
		ASSERT_EQ(0, waiter_wait(w));
	ASSERT_EQ(0, waiter_take(w));
	ASSERT_EQ(NONE, take(c));
	/* What is due later is an edge, and not more than that. */
	arm(c, 1, 0);
	ASSERT_EQ(1, waiter_next(w));
	variant->way->end(w);
}

/* Many in one tick, each of which is taken once. */
TEST_F(waiting, crowd)
{
	const __u32 n = quick_or(10000, 200000);
	struct context *c = &self->c;
	char *seen = calloc(n, 1);
	__u64 due;
	__u32 i;
	int got;

	context_close(c);
	context_open(c, variant->table, n, 0);
	waiter_begin(&self->w, c, variant->way);
	due = context_now(c) + 30 * NSEC_PER_MSEC;
	for (i = 0; i < n; i++)
		arm_at(c, i, due);
	for (i = 0; i < n; i++) {
		got = waiter_next(&self->w);
		ASSERT_EQ(0, seen[got]);
		seen[got] = 1;
	}
	ASSERT_EQ(0, must_stats(c->t.fd).pending);
	ASSERT_EQ(NONE, take(c));
	variant->way->end(&self->w);
	free(seen);
}

/* A typical loop: what is due while others are taken is not lost. */
TEST_F(waiting, loses_nothing)
{
	const int total = quick_or(2000, 20000);
	struct context *c = &self->c;
	char *seen = calloc(total, 1);
	int armed = 0, taken, i;
	__u64 random = seed();

	context_close(c);
	context_open(c, variant->table, total, 0);
	waiter_begin(&self->w, c, variant->way);
	for (taken = 0; taken < total; taken++) {
		for (; armed < total && armed - taken < 100; armed++)
			arm(c, armed, rnd(&random) % (3 * NSEC_PER_MSEC));
		i = waiter_next(&self->w);
		ASSERT_EQ(0, seen[i]);
		seen[i] = 1;
	}
	ASSERT_EQ(NONE, take(c));
	variant->way->end(&self->w);
	free(seen);
}

/* What is moved or cancelled before it is due wakes no program. */
TEST_F(waiting, moved_and_cancelled)
{
	struct context *c = &self->c;
	struct waiter *w = &self->w;
	struct hwtimer_stats before, after;
	/*
	 * The kernel's thread that polls for aio looks at nothing, and so reports them, too. Where
	 * edges are reported, the timer makes one more while a record is unread.
	 */
	const bool reports = variant->way->end == aio_end || variant->way->events & EPOLLET ||
			     variant->way->wait == uring_poll_multi;
	unsigned int done, wakes, tries = 0;
	bool late;
	__u64 delay;
	int i;

	arm(c, 101, FAR);
	waiter_start(w, c, variant->way, INT_MAX);
	/*
	 * The timer goes off for timeouts that are not there any more. If the program is held up
	 * for so long that one of them is due before it is moved, which makes a record, or until
	 * all is due, it has proved nothing, and gets more time.
	 */
	do {
		ASSERT_GT(10, tries);
		delay = 20 * NSEC_PER_MSEC << tries++;
		until(waiter_asleep(w));
		before = must_stats(c->t.fd);
		done = atomic_load(&w->done);
		atomic_store(&w->last, NONE);
		late = false;
		for (i = 0; i < 100; i++)
			arm(c, i, delay + i * NSEC_PER_MSEC / 4);
		for (i = 0; i < 100; i += 2)
			late |= !touch(c, i, FAR);
		for (i = 1; i < 100; i += 2)
			late |= !cancel(c, i);
		arm(c, 100, 4 * delay + 25 * NSEC_PER_MSEC);
		until(atomic_load(&w->last) == 100 && waiter_asleep(w));
		wakes = atomic_load(&w->done) - done;
		after = must_stats(c->t.fd);
		if (!late && !reports) {
			ASSERT_LE(wakes, after.records - before.records);
		}
		for (i = 0; i < 100; i += 2)
			cancel(c, i);
	} while (late || after.records > before.records + 1 || after.timers < before.timers + 2);
	if (!reports) {
		ASSERT_EQ(1, wakes);
	}
	atomic_store(&c->ended, true);
	ASSERT_EQ(0, ioctl(c->t.fd, HWTIMER_IOC_STOP));
	pthread_join(w->thread, NULL);
}

/* Somebody sleeps until a far deadline, and another thread arms an earlier one, or a past one. */
TEST_F(waiting, armed_earlier)
{
	struct context *c = &self->c;
	struct waiter *w = &self->w;
	__u32 i;

	arm(c, 0, FAR);
	waiter_start(w, c, variant->way, 4);
	for (i = 1; i < 5; i++) {
		until(waiter_asleep(w));
		arm_at(c, i, i % 2 ? context_now(c) + 10 * NSEC_PER_MSEC : 0);
		until(atomic_load(&w->left) == (int)(4 - i));
		ASSERT_EQ(i, atomic_load(&w->last));
	}
	pthread_join(w->thread, NULL);
	ASSERT_EQ(1, must_stats(c->t.fd).pending);
}

/* As above, by moving what was far away. */
TEST_F(waiting, moved_earlier)
{
	struct context *c = &self->c;
	struct waiter *w = &self->w;
	__u32 i;

	for (i = 0; i < 4; i++)
		arm(c, i, FAR + i * NSEC_PER_SEC);
	waiter_start(w, c, variant->way, 4);
	for (i = 0; i < 4; i++) {
		until(waiter_asleep(w));
		touch(c, i, i % 2 * 10 * NSEC_PER_MSEC);
		until(atomic_load(&w->left) == (int)(3 - i));
		ASSERT_EQ(i, atomic_load(&w->last));
	}
	pthread_join(w->thread, NULL);
	ASSERT_EQ(0, must_stats(c->t.fd).pending);
}

/* Write the word of a slot and push the slot, but make no call. */
static void push(struct context *c, __u32 i, __u64 deadline_ns)
{
	table_store(&c->t.slot[i].visit, 0);
	c->name[i] = 1;
	__atomic_store_n(&c->t.slot[i].word, table_word(deadline_ns, 1), __ATOMIC_SEQ_CST);
	table_push(&c->t, i);
}

/*
 * Somebody sleeps, and ENTER by another thread makes the record: of the slot that it looks at
 * first, for the next tick. With all the others, which are not due for years, that tick passes, and
 * no timer is set.
 */
TEST_F(waiting, enter_of_another)
{
	struct context *c = &self->c;
	struct waiter *w = &self->w;
	const __u32 n = 20000;
	__u32 i;

	if (!variant->table)
		return;
	context_close(c);
	context_open(c, true, n, SHORT_TICK);
	waiter_start(w, c, variant->way, 2);
	/* That the timer has gone off once does not count. */
	arm(c, 0, 0);
	until(atomic_load(&w->left) == 1 && waiter_asleep(w));
	for (i = 0; i < n; i++)
		push(c, i, i < n - 1 ? HWTIMER_NEVER : 0);
	ASSERT_EQ(0, table_enter(&c->t));
	pthread_join(w->thread, NULL);
	ASSERT_EQ(n - 1, atomic_load(&w->last));
	ASSERT_EQ(n - 1, must_stats(c->t.fd).pending);
}

/* The end of a context wakes, too. */
TEST_F(waiting, stop)
{
	struct context *c = &self->c;
	struct waiter *w = &self->w;

	waiter_start(w, c, variant->way, 1);
	until(waiter_asleep(w));
	atomic_store(&c->ended, true);
	ASSERT_EQ(0, ioctl(c->t.fd, HWTIMER_IOC_STOP));
	pthread_join(w->thread, NULL);
	ASSERT_EQ(1, atomic_load(&w->left));
}

static void handled(int sig)
{
	(void)sig;
}

static void handle(int flags)
{
	struct sigaction action = { .sa_handler = handled, .sa_flags = flags };

	if (sigaction(SIGUSR1, &action, NULL))
		die("sigaction");
}

/* A signal ends the wait, and nothing is lost. */
TEST_F(waiting, signal)
{
	const int n = quick_or(40, 1000);
	struct context *c = &self->c;
	struct waiter *w = &self->w;
	int i;

	handle(0);
	arm(c, 0, FAR);
	waiter_start(w, c, variant->way, n);
	for (i = 0; i < 3; i++) {
		until(waiter_asleep(w));
		ASSERT_EQ(0, pthread_kill(w->thread, SIGUSR1));
		until(atomic_load(&w->interrupts) == (unsigned int)i + 1);
	}
	until(waiter_asleep(w));
	touch(c, 0, 0);
	until(atomic_load(&w->left) == n - 1);
	/* Signals come while timeouts become due. */
	for (i = 1; i < n; i++) {
		arm(c, i % 256, NSEC_PER_MSEC);
		while (atomic_load(&w->left) == n - i)
			ASSERT_EQ(0, pthread_kill(w->thread, SIGUSR1));
		ASSERT_EQ(i % 256, atomic_load(&w->last));
	}
	pthread_join(w->thread, NULL);
	ASSERT_EQ(0, must_stats(c->t.fd).pending);
}

/* A read(2) that may be restarted goes on after a signal. */
TEST(restarted)
{
	struct waiter w = { };
	struct context c;

	context_open(&c, false, 256, 0);
	handle(SA_RESTART);
	waiter_start(&w, &c, &by_read, 1);
	until(waiter_asleep(&w));
	ASSERT_EQ(0, pthread_kill(w.thread, SIGUSR1));
	until(waiter_asleep(&w));
	arm(&c, 3, NSEC_PER_MSEC);
	pthread_join(w.thread, NULL);
	ASSERT_EQ(3, atomic_load(&w.last));
	ASSERT_EQ(1, atomic_load(&w.done));
	ASSERT_EQ(0, atomic_load(&w.interrupts));
	context_close(&c);
}

FIXTURE(context)
{
	struct context c;
};

FIXTURE_VARIANT(context)
{
	bool table;
};

FIXTURE_VARIANT_ADD(context, calls) { false };
FIXTURE_VARIANT_ADD(context, table) { true };

FIXTURE_SETUP(context)
{
	context_open(&self->c, variant->table, 256, 0);
}

FIXTURE_TEARDOWN(context)
{
	context_close(&self->c);
}

/* What becomes due in one tick, and fits in a slice, is one edge, whether or not it is taken. */
TEST_F(context, one_edge)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC), round, n;
	struct context *c = &self->c;
	__u64 due;
	__u32 i;

	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, c->t.fd, &event));
	for (round = 0; round < 5; round++) {
		due = context_now(c) + 50 * NSEC_PER_MSEC;
		for (i = 0; i < 10; i++)
			arm_at(c, i, due);
		/* A program that is held up for so long proves nothing. */
		if (context_now(c) >= due) {
			round--;
		} else {
			ASSERT_EQ(1, epoll_wait(ep, &event, 1, -1));
			ASSERT_EQ(0, epoll_wait(ep, &event, 1, 0));
		}
		for (n = 0; n < 10; n += take(c) != NONE)
			until(poll_in(c->t.fd, 0));
		ASSERT_EQ(NONE, take(c));
		/* Those of a round that was held up may have been edges. */
		epoll_wait(ep, &event, 1, 0);
		ASSERT_EQ(0, epoll_wait(ep, &event, 1, 0));
	}
	close(ep);
}

/* All ways, each in a thread of its own; those that only calls have come last. */
static const struct way *const ways[] = {
	&by_epoll, &by_edges, &by_three_sets_edges, &by_oneshot, &by_exclusive,
	&by_ppoll, &by_uring, &by_uring_multi, &by_aio, &by_read, &by_uring_read,
};

/* Whoever of them comes first takes a timeout, and the others sleep on. */
TEST_F(context, several_pollers)
{
	const int n = quick_or(100, 5000);
	static struct waiter w[ARRAY_SIZE(ways)];
	struct context *c = &self->c;
	static atomic_int seen[256];
	unsigned int i, threads;
	bool there;
	int k;

	for (i = 0, threads = 0; i < ARRAY_SIZE(ways) - (c->table ? 2 : 0); i++) {
		there = ways[i]->end == uring_end ? have_uring() :
			ways[i]->end == aio_end ? have_aio() : true;
		if (!there)
			continue;
		w[threads].seen = seen;
		waiter_start(&w[threads++], c, ways[i], n);
	}
	for (k = 0; k < n; k++) {
		/* In half of the rounds all sleep; in the others some come from the last one. */
		for (i = 0; k % 2 && i < threads; i++)
			until(waiter_asleep(&w[i]));
		arm(c, k % 256, 2 * NSEC_PER_MSEC);
		until(atomic_load(&seen[k % 256]) == k / 256 + 1);
	}
	for (i = 0; i < threads; i++)
		until(waiter_asleep(&w[i]));
	atomic_store(&c->ended, true);
	ASSERT_EQ(0, ioctl(c->t.fd, HWTIMER_IOC_STOP));
	for (i = 0, k = 0; i < threads; i++) {
		pthread_join(w[i].thread, NULL);
		k += n - atomic_load(&w[i].left);
	}
	ASSERT_EQ(n, k);
}

/* Exclusive as well, and first in the queue, but it waits for other things: it does not count. */
TEST_F(context, exclusive_stranger)
{
	static const struct way by_stranger = {
		epoll_begin, epoll_wait_in, epoll_end, true, EPOLLERR | EPOLLEXCLUSIVE, 1,
	};
	static struct waiter stranger, w;
	struct context *c = &self->c;
	int i;

	waiter_start(&stranger, c, &by_stranger, 1);
	until(waiter_asleep(&stranger));
	waiter_start(&w, c, &by_exclusive, 10);
	for (i = 0; i < 10; i++) {
		until(waiter_asleep(&w));
		arm(c, i, 2 * NSEC_PER_MSEC);
		until(atomic_load(&w.left) == 9 - i);
	}
	pthread_join(w.thread, NULL);
	ASSERT_EQ(0, atomic_load(&stranger.done));
	atomic_store(&c->ended, true);
	ASSERT_EQ(0, ioctl(c->t.fd, HWTIMER_IOC_STOP));
	pthread_join(stranger.thread, NULL);
}

/* Reads by an io_uring, in whatever way they are submitted. */
FIXTURE(uring)
{
	struct context c;
	struct uring ring;
};

FIXTURE_VARIANT(uring)
{
	__u32 setup;
	__u8 flags;
};

FIXTURE_VARIANT_ADD(uring, inline) { };
FIXTURE_VARIANT_ADD(uring, io_wq) { .flags = IOSQE_ASYNC };
FIXTURE_VARIANT_ADD(uring, sqpoll) { .setup = IORING_SETUP_SQPOLL };

FIXTURE_SETUP(uring)
{
	int ret = open_ring(&self->ring, variant->setup);

	if (ret == -ENOSYS)
		SKIP(return, "this kernel has no io_uring");
	ASSERT_EQ(0, ret);
	context_open(&self->c, false, 256, 0);
}

FIXTURE_TEARDOWN(uring)
{
	context_close(&self->c);
	close_ring(&self->ring);
}

static struct io_uring_sqe sqe_read(struct context *c, __u8 flags, struct hwtimer_record *to)
{
	return (struct io_uring_sqe){
		.opcode = IORING_OP_READ, .flags = flags, .fd = c->t.fd,
		.addr = (uintptr_t)to, .len = sizeof(*to), .off = -1, .user_data = 1,
	};
}

static int result(struct uring *ring)
{
	struct io_uring_cqe cqe;

	until(completed(ring, &cqe));
	return cqe.res;
}

/* A multishot read takes each record into a buffer of its own. */
TEST_F(uring, read_multishot)
{
	struct hwtimer_record *r = calloc(4, sizeof(*r));
	struct io_uring_sqe provide = {
		.opcode = IORING_OP_PROVIDE_BUFFERS, .fd = 4,
		.addr = (uintptr_t)r, .len = sizeof(*r),
	}, sqe = {
		.opcode = OP_READ_MULTISHOT, .fd = self->c.t.fd,
		.flags = IOSQE_BUFFER_SELECT, .off = -1,
	};
	struct io_uring_cqe cqe;
	__u32 i;

	submit(&self->ring, &provide);
	ASSERT_LE(0, result(&self->ring));
	submit(&self->ring, &sqe);
	for (i = 0; i < 3; i++) {
		arm(&self->c, i, NSEC_PER_MSEC);
		until(completed(&self->ring, &cqe));
		if (!i && cqe.res == -EINVAL)
			SKIP(goto out, "this kernel has no multishot read");
		ASSERT_EQ(sizeof(*r), cqe.res);
		EXPECT_TRUE(cqe.flags & IORING_CQE_F_MORE);
		EXPECT_EQ(i, record_taken(&self->c, &r[cqe.flags >> IORING_CQE_BUFFER_SHIFT]));
	}
	ASSERT_EQ(0, ioctl(self->c.t.fd, HWTIMER_IOC_STOP));
	EXPECT_EQ(0, result(&self->ring));
out:
	free(r);
}

/* Does a worker of io_uring sleep? It has begun its work then. */
static bool worker_sleeps(void)
{
	char command[80];

	snprintf(command, sizeof(command), "grep -qs '(iou-wrk-[0-9]*) S' /proc/%d/task/*/stat",
		 getpid());
	return !system(command);
}

/* A read that is cancelled takes nothing. */
TEST_F(uring, cancel_read)
{
	struct hwtimer_record r;
	struct io_uring_sqe sqe = sqe_read(&self->c, variant->flags, &r), cancel = {
		.opcode = IORING_OP_ASYNC_CANCEL, .addr = 1, .user_data = 2,
	};
	bool reading = true, cancelling = false;
	struct io_uring_cqe cqe;

	submit(&self->ring, &sqe);
	if (variant->flags & IOSQE_ASYNC)
		until(worker_sleeps());
	/* A worker that is just executing the read may miss the first cancel. */
	while (reading || cancelling) {
		if (!cancelling)
			submit(&self->ring, &cancel);
		cancelling = true;
		until(completed(&self->ring, &cqe));
		if (cqe.user_data == 2) {
			cancelling = false;
			continue;
		}
		EXPECT_EQ(-ECANCELED, cqe.res);
		reading = false;
	}
	arm(&self->c, 5, 0);
	ASSERT_EQ(sizeof(r), read(self->c.t.fd, &r, sizeof(r)));
	EXPECT_EQ(5, record_taken(&self->c, &r));
}

/* What was not taken before the table has grown is there all the same. */
TEST(grown)
{
	struct hwtimer_grow grow = { .slots = 20000 };
	struct context c;
	struct waiter w;

	context_open(&c, true, 256, 0);
	arm(&c, 5, 0);
	ASSERT_EQ(POLLIN, poll_in(c.t.fd, -1));
	ASSERT_EQ(0, hwt_ioctl(c.t.fd, HWTIMER_IOC_GROW, &grow));
	ASSERT_LT(0, grow.ring);
	ASSERT_EQ(POLLIN, poll_in(c.t.fd, 0));
	waiter_begin(&w, &c, &by_edges);
	ASSERT_EQ(0, waiter_wait(&w));
	ASSERT_EQ(5, take(&c));
	ASSERT_EQ(0, poll_in(c.t.fd, 0));
	epoll_end(&w);
	context_close(&c);
}

/* Wait for a timeout of a descriptor from elsewhere, and take it; returns which one. */
static int take_from(int fd)
{
	struct context c;
	struct waiter w;
	int i;

	context_adopt(&c, fd, 256);
	waiter_begin(&w, &c, &by_ppoll);
	i = waiter_next(&w);
	context_close(&c);
	return i;
}

/* In a program that one of the cases below has executed. */
__attribute__((constructor)) static void inherited(void)
{
	const char *fd = getenv(INHERITED);

	if (fd)
		_exit(take_from(atoi(fd)));
}

/* A program that inherits the descriptor knows all about it. */
TEST_F(context, exec)
{
	char fd[16];
	int status;
	pid_t pid;

	snprintf(fd, sizeof(fd), "%d", self->c.t.fd);
	pid = fork();
	if (!pid) {
		if (fcntl(self->c.t.fd, F_SETFD, 0) || setenv(INHERITED, fd, 1))
			die("F_SETFD");
		execl("/proc/self/exe", "waking", NULL);
		die("exec: %s", strerror(errno));
	}
	arm(&self->c, 7, 30 * NSEC_PER_MSEC);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(7 << 8, status);
	ASSERT_EQ(NONE, take(&self->c));
	ASSERT_EQ(0, must_stats(self->c.t.fd).pending);
}

/*
 * Since 6.13 or so, the kernel refuses to let children have such a map. Before, a child that gets
 * it is one more process that shares the table, and keeps it when its parent has gone.
 */
TEST(dofork)
{
	struct context c;
	int pipes[2];
	struct waiter w;
	pid_t pid;
	char byte;

	context_open(&c, true, 256, 0);
	waiter_begin(&w, &c, &by_ppoll);
	ASSERT_EQ(0, pipe(pipes));
	if (madvise(c.t.slot, c.t.slots * sizeof(*c.t.slot), MADV_DOFORK)) {
		ASSERT_EQ(EINVAL, errno);
		context_close(&c);
		return;
	}
	ASSERT_EQ(0, madvise(c.t.head, c.t.page, MADV_DOFORK));
	pid = fork();
	if (!pid) {
		close(pipes[1]);
		arm(&c, 9, 20 * NSEC_PER_MSEC);
		/* The parent has taken that and closed all: only this map is left. */
		if (read(pipes[0], &byte, 1))
			_exit(1);
		close(c.t.fd);
		c.t.slot[255].word = ~0ULL;
		table_push(&c.t, 255);
		_exit(c.t.slot[9].word || c.t.head->slots != c.t.slots);
	}
	ASSERT_EQ(9, waiter_next(&w));
	ASSERT_EQ(0, must_stats(c.t.fd).pending);
	context_close(&c);
	close(pipes[0]);
	close(pipes[1]);
	ASSERT_EQ(0, reap(pid));
}

/* In a process whose clock is another one: it arms by the clock of the context, and takes all. */
static int other_clock(int from)
{
	struct context c;
	struct waiter w;
	int i, k;

	context_adopt(&c, fd_receive(from), 256);
	if (c.offset_ns != -1000000LL * (__s64)NSEC_PER_SEC)
		return 1;
	waiter_begin(&w, &c, &by_ppoll);
	i = waiter_next(&w);
	if (i != 3)
		return 2;
	arm(&c, 4, 20 * NSEC_PER_MSEC);
	arm(&c, 5, FAR);
	k = waiter_next(&w);
	return k == 4 ? 0 : 3;
}

TEST_F(context, other_time_namespace)
{
	int sockets[2];
	struct context c;
	pid_t pid;

	if (!unshare_time("monotonic 1000000 0"))
		SKIP(return, "no time namespaces");
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pid = fork();
	if (!pid)
		_exit(other_clock(sockets[0]));
	context_open(&c, variant->table, 256, 0);
	arm(&c, 3, 30 * NSEC_PER_MSEC);
	fd_send(sockets[1], c.t.fd);
	ASSERT_EQ(0, reap(pid));
	ASSERT_EQ(NONE, take(&c));
	ASSERT_EQ(1, must_stats(c.t.fd).pending);
	context_close(&c);
}

TEST_HARNESS_MAIN
