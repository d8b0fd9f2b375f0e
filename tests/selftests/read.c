// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading expiries and waiting for them: read, readv, io_uring, poll, select and epoll, blocking
 * and non-blocking, by one reader and by many.
 */
#include "hwt.h"
#include "uring.h"

#include <sys/select.h>
#include <sys/uio.h>

FIXTURE(context)
{
	int fd;
};

FIXTURE_SETUP(context)
{
	self->fd = must_open(0);
}

FIXTURE_TEARDOWN(context)
{
	close(self->fd);
}

/* Make @n records unread. */
static void ready(int fd, unsigned int n)
{
	__u64 before = must_stats(fd).unread;
	unsigned int i;

	for (i = 0; i < n; i++)
		must_schedule(fd, 0, i);
	eventually(must_stats(fd).unread == before + n);
}

static void set_nonblock(int fd)
{
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		die("fcntl");
}

static ssize_t read_bytes(int fd, void *buf, size_t size)
{
	ssize_t ret = read(fd, buf, size);

	return ret < 0 ? -errno : ret;
}

static short poll_now(int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };

	if (poll(&pfd, 1, 0) < 0)
		die("poll");
	return pfd.revents;
}

/* A thread that reads, blocking. */
struct reader {
	pthread_t thread;
	atomic_int tid;
	int fd;
	int ret;
	struct hwtimer_record rec[4];
};

static void *read_once(void *arg)
{
	struct reader *r = arg;

	atomic_store(&r->tid, my_tid());
	r->ret = hwt_read(r->fd, r->rec, ARRAY_SIZE(r->rec));
	return NULL;
}

/* Start a reader, and wait until it sleeps in read(). */
static void start_reader(struct reader *r, int fd)
{
	memset(r, 0, sizeof(*r));
	r->fd = fd;
	start(&r->thread, read_once, r);
	eventually(atomic_load(&r->tid));
	eventually(sleeps_in(atomic_load(&r->tid), SYS_read));
}

TEST_F(context, short_buffer)
{
	char buf[RECORD_SIZE];
	int size;

	/* Whether records are unread or not. */
	for (size = 0; size < RECORD_SIZE; size++) {
		ASSERT_EQ(-EINVAL, read_bytes(self->fd, buf, size));
	}
	ready(self->fd, 1);
	for (size = 0; size < RECORD_SIZE; size++) {
		ASSERT_EQ(-EINVAL, read_bytes(self->fd, buf, size));
	}
	EXPECT_EQ(1, must_stats(self->fd).unread);
	EXPECT_EQ(RECORD_SIZE, read_bytes(self->fd, buf, size));
}

/* Only whole records are returned, and nothing beyond them is written. */
TEST_F(context, whole_records)
{
	char buf[5 * RECORD_SIZE];
	int i;

	ready(self->fd, 3);
	memset(buf, 0x5a, sizeof(buf));
	ASSERT_EQ(2 * RECORD_SIZE, read_bytes(self->fd, buf, 3 * RECORD_SIZE - 1));
	for (i = 2 * RECORD_SIZE; i < (int)sizeof(buf); i++) {
		ASSERT_EQ(0x5a, buf[i]);
	}
	EXPECT_EQ(1, must_stats(self->fd).unread);
	memset(buf, 0x5a, sizeof(buf));
	ASSERT_EQ(RECORD_SIZE, read_bytes(self->fd, buf, sizeof(buf)));
	for (i = RECORD_SIZE; i < (int)sizeof(buf); i++) {
		ASSERT_EQ(0x5a, buf[i]);
	}
	EXPECT_EQ(0, must_stats(self->fd).unread);
}

/* A read returns as many records as fit, the oldest first. */
TEST_F(context, many_and_few)
{
	struct hwtimer_record rec[100];
	__u64 ids[1000];
	unsigned int n = 0, want;
	int i, got;

	stay_on(0);
	for (i = 0; i < 1000; i++)
		ids[i] = must_schedule(self->fd, 0, i);
	eventually(must_stats(self->fd).unread == 1000);
	for (want = 1; n < 1000; want = want % 100 + 1) {
		got = hwt_read(self->fd, rec, want);
		ASSERT_EQ(want < 1000 - n ? want : 1000 - n, got);
		for (i = 0; i < got; i++, n++) {
			ASSERT_TRUE(valid_record(&rec[i], HWTIMER_KIND_EXPIRED));
			ASSERT_EQ(n, rec[i].user_data);
			ASSERT_EQ(ids[n], rec[i].id);
		}
		ASSERT_EQ(1000 - n, must_stats(self->fd).unread);
	}
}

TEST_F(context, nonblock)
{
	struct hwtimer_record rec;
	int fd = must_open(O_NONBLOCK);

	EXPECT_EQ(-EAGAIN, hwt_read(fd, &rec, 1));
	must_schedule(fd, FAR, 0);
	EXPECT_EQ(-EAGAIN, hwt_read(fd, &rec, 1));
	ready(fd, 1);
	EXPECT_EQ(1, hwt_read(fd, &rec, 1));
	EXPECT_EQ(-EAGAIN, hwt_read(fd, &rec, 1));
	close(fd);
	/* O_NONBLOCK set later works as well. */
	set_nonblock(self->fd);
	EXPECT_EQ(-EAGAIN, hwt_read(self->fd, &rec, 1));
}

TEST_F(context, blocks_and_wakes)
{
	struct reader r;
	__u64 id;

	start_reader(&r, self->fd);
	id = must_schedule(self->fd, 20 * NSEC_PER_MSEC, 5);
	pthread_join(r.thread, NULL);
	ASSERT_EQ(1, r.ret);
	EXPECT_EQ(id, r.rec[0].id);
	EXPECT_EQ(5, r.rec[0].user_data);
	EXPECT_TRUE(valid_record(&r.rec[0], HWTIMER_KIND_EXPIRED));
}

/* Neither a pending timeout nor a cancelled one wakes a reader. */
TEST_F(context, sleeps_until_there_is_one)
{
	struct reader r;
	int i;

	start_reader(&r, self->fd);
	for (i = 0; i < 100; i++)
		if (hwt_cancel(self->fd, must_schedule(self->fd, FAR, 0)))
			die("cancel");
	must_schedule(self->fd, FAR, 0);
	EXPECT_TRUE(sleeps_in(atomic_load(&r.tid), SYS_read));
	must_schedule(self->fd, 0, 1);
	pthread_join(r.thread, NULL);
	ASSERT_EQ(1, r.ret);
	EXPECT_EQ(1, r.rec[0].user_data);
}

TEST_F(context, stop_wakes_reader)
{
	struct reader r;

	start_reader(&r, self->fd);
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	pthread_join(r.thread, NULL);
	EXPECT_EQ(0, r.ret);
}

TEST_F(context, stop_wakes_reader_with_records)
{
	struct reader r;
	__u64 id = must_schedule(self->fd, FAR, 1);

	start_reader(&r, self->fd);
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	pthread_join(r.thread, NULL);
	EXPECT_EQ(1, r.ret);
	EXPECT_EQ(id, r.rec[0].id);
	EXPECT_TRUE(valid_record(&r.rec[0], HWTIMER_KIND_HANDED_BACK));
	EXPECT_EQ(0, hwt_read(self->fd, r.rec, 1));
}

static void *stop_it(void *fd)
{
	int ret = hwt_stop(*(int *)fd, NULL);

	if (ret)
		die("stop: %d", ret);
	return NULL;
}

/* End of file comes after the last record, even while a STOP adds records. */
TEST_F(context, end_is_last)
{
	struct hwtimer_record rec;
	pthread_t thread;
	int fd, i, n, ret;

	if (online_cpus() < 2)
		SKIP(return, "one CPU");
	for (i = 0; i < 2000; i++) {
		fd = must_open(O_NONBLOCK);
		must_schedule(fd, FAR, i);
		start(&thread, stop_it, &fd);
		for (n = 0; (ret = hwt_read(fd, &rec, 1)); n += ret > 0) {
			ASSERT_EQ(ret < 0 ? -EAGAIN : 1, ret);
		}
		pthread_join(thread, NULL);
		ASSERT_EQ(1, n)
			TH_LOG("round %d", i);
		close(fd);
	}
}

static atomic_int signals;

static void count_signal(int signal)
{
	(void)signal;
	atomic_fetch_add(&signals, 1);
}

static void handle_signal(int flags)
{
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = flags };

	if (sigaction(SIGUSR1, &action, NULL))
		die("sigaction");
}

TEST_F(context, interrupted)
{
	struct reader r;

	handle_signal(0);
	must_schedule(self->fd, FAR, 0);
	start_reader(&r, self->fd);
	pthread_kill(r.thread, SIGUSR1);
	pthread_join(r.thread, NULL);
	EXPECT_EQ(-EINTR, r.ret);
	EXPECT_EQ(1, atomic_load(&signals));
	EXPECT_EQ(1, must_stats(self->fd).pending);
}

TEST_F(context, restarted)
{
	struct reader r;
	__u64 id;

	handle_signal(SA_RESTART);
	start_reader(&r, self->fd);
	pthread_kill(r.thread, SIGUSR1);
	eventually(atomic_load(&signals));
	eventually(sleeps_in(atomic_load(&r.tid), SYS_read));
	id = must_schedule(self->fd, 0, 0);
	pthread_join(r.thread, NULL);
	EXPECT_EQ(1, r.ret);
	EXPECT_EQ(id, r.rec[0].id);
}

/* If nothing could be copied, no record is consumed. */
TEST_F(context, fault_in_the_first)
{
	char *fence = must_fence(1);
	struct hwtimer_record rec;
	int part;

	ready(self->fd, 2);
	EXPECT_EQ(-EFAULT, read_bytes(self->fd, fence, RECORD_SIZE));
	for (part = 0; part < RECORD_SIZE; part++) {
		ASSERT_EQ(-EFAULT, read_bytes(self->fd, fence - part,
					      2 * RECORD_SIZE));
	}
	EXPECT_EQ(2, must_stats(self->fd).unread);
	ASSERT_EQ(1, hwt_read(self->fd, &rec, 1));
	EXPECT_TRUE(valid_record(&rec, HWTIMER_KIND_EXPIRED));
}

TEST_F(context, fault_in_the_second)
{
	char *fence = must_fence(1);
	struct hwtimer_record rec[3];
	int part, k;

	stay_on(0);
	for (part = 0; part < RECORD_SIZE; part++) {
		char *buf = fence - RECORD_SIZE - part;

		ready(self->fd, 3);
		ASSERT_EQ(RECORD_SIZE, read_bytes(self->fd, buf, 3 * RECORD_SIZE));
		memcpy(&rec[0], buf, RECORD_SIZE);
		EXPECT_EQ(0, rec[0].user_data);
		EXPECT_TRUE(valid_record(&rec[0], HWTIMER_KIND_EXPIRED));
		ASSERT_EQ(2, must_stats(self->fd).unread);
		ASSERT_EQ(2, hwt_read(self->fd, rec + 1, 2));
		for (k = 1; k < 3; k++) {
			EXPECT_EQ(k, rec[k].user_data);
			EXPECT_TRUE(valid_record(&rec[k], HWTIMER_KIND_EXPIRED));
			EXPECT_NE(rec[0].id, rec[k].id);
		}
	}
}

/* A fault beyond the records that the kernel copies at a time. */
TEST_F(context, fault_after_many)
{
	char *fence = must_fence(1);
	struct hwtimer_record rec[100];
	int k;

	stay_on(0);
	ready(self->fd, 100);
	ASSERT_EQ(40 * RECORD_SIZE,
		  read_bytes(self->fd, fence - 40 * RECORD_SIZE - 11, 100 * RECORD_SIZE));
	ASSERT_EQ(60, must_stats(self->fd).unread);
	ASSERT_EQ(60, hwt_read(self->fd, rec, 100));
	for (k = 0; k < 60; k++) {
		ASSERT_EQ(40 + k, rec[k].user_data);
	}
}

TEST_F(context, readv)
{
	struct hwtimer_record rec[4];
	char *bytes = (char *)rec;
	struct iovec whole[] = {
		{ rec, RECORD_SIZE }, { rec + 1, 2 * RECORD_SIZE },
	}, torn[] = {
		{ bytes, 1 }, { bytes + 1, 0 }, { bytes + 1, 60 },
		{ bytes + 61, 2 * RECORD_SIZE - 61 }, { bytes + 2 * RECORD_SIZE, 47 },
	}, tiny[] = {
		{ bytes, 20 }, { bytes + 20, 27 },
	};
	int i;

	stay_on(0);
	ready(self->fd, 3);
	ASSERT_EQ(3 * RECORD_SIZE, readv(self->fd, whole, ARRAY_SIZE(whole)));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(i, rec[i].user_data);
		EXPECT_TRUE(valid_record(&rec[i], HWTIMER_KIND_EXPIRED));
	}
	ready(self->fd, 3);
	memset(rec, 0xa5, sizeof(rec));
	ASSERT_EQ(2 * RECORD_SIZE, readv(self->fd, torn, ARRAY_SIZE(torn)));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(i, rec[i].user_data);
		EXPECT_TRUE(valid_record(&rec[i], HWTIMER_KIND_EXPIRED));
	}
	EXPECT_EQ(0xa5a5a5a5a5a5a5a5, rec[2].id);
	EXPECT_EQ(1, must_stats(self->fd).unread);
	EXPECT_EQ(-1, readv(self->fd, tiny, ARRAY_SIZE(tiny)));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(1, must_stats(self->fd).unread);
}

TEST_F(context, no_seek_no_write)
{
	char buf[RECORD_SIZE] = { 0 };
	struct iovec iov = { buf, sizeof(buf) };

	ready(self->fd, 1);
	EXPECT_EQ(-1, lseek(self->fd, 0, SEEK_SET));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, pread(self->fd, buf, sizeof(buf), 0));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, preadv(self->fd, &iov, 1, 0));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, pwrite(self->fd, buf, sizeof(buf), 0));
	EXPECT_EQ(-1, write(self->fd, buf, sizeof(buf)));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ((void *)-1, mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
				   self->fd, 0));
	EXPECT_EQ(ENXIO, errno);	/* no rings */
	EXPECT_EQ(-1, ftruncate(self->fd, 0));
	EXPECT_EQ(1, must_stats(self->fd).unread);
}

TEST_F(context, poll_level)
{
	const short in = POLLIN | POLLRDNORM;
	struct hwtimer_record rec;

	EXPECT_EQ(0, poll_now(self->fd, in));
	must_schedule(self->fd, FAR, 0);
	EXPECT_EQ(0, poll_now(self->fd, in | POLLOUT | POLLPRI));
	ready(self->fd, 2);
	EXPECT_EQ(in, poll_now(self->fd, in | POLLOUT | POLLPRI));
	EXPECT_EQ(in, poll_now(self->fd, in));
	EXPECT_EQ(POLLIN, poll_now(self->fd, POLLIN));
	EXPECT_EQ(1, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(in, poll_now(self->fd, in));
	EXPECT_EQ(1, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(0, poll_now(self->fd, in));
	/* Stopped with a record left, and without. */
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	EXPECT_EQ(in | POLLHUP, poll_now(self->fd, in));
	EXPECT_EQ(POLLHUP, poll_now(self->fd, 0));
	EXPECT_EQ(1, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(POLLHUP, poll_now(self->fd, in));
	EXPECT_EQ(0, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(POLLHUP, poll_now(self->fd, in));
}

struct poller {
	pthread_t thread;
	atomic_int tid;
	struct pollfd pfd;
	int ret;
};

static void *poll_once(void *arg)
{
	struct poller *p = arg;

	atomic_store(&p->tid, my_tid());
	p->ret = poll(&p->pfd, 1, -1);
	return NULL;
}

static void start_poller(struct poller *p, int fd, short events)
{
	memset(p, 0, sizeof(*p));
	p->pfd.fd = fd;
	p->pfd.events = events;
	start(&p->thread, poll_once, p);
	eventually(atomic_load(&p->tid));
	/* glibc uses either system call for poll(), depending on the architecture */
	eventually(sleeps_in(atomic_load(&p->tid), SYS_poll) ||
		   sleeps_in(atomic_load(&p->tid), SYS_ppoll));
}

TEST_F(context, poll_wakes)
{
	struct poller p;

	start_poller(&p, self->fd, POLLIN);
	must_schedule(self->fd, 10 * NSEC_PER_MSEC, 0);
	pthread_join(p.thread, NULL);
	EXPECT_EQ(1, p.ret);
	EXPECT_EQ(POLLIN, p.pfd.revents);
}

TEST_F(context, poll_wakes_at_stop)
{
	struct poller p;

	start_poller(&p, self->fd, POLLIN);
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	pthread_join(p.thread, NULL);
	EXPECT_EQ(1, p.ret);
	EXPECT_EQ(POLLHUP, p.pfd.revents);

	/* The same with no events requested: POLLHUP is always reported. */
	close(self->fd);
	self->fd = must_open(0);
	must_schedule(self->fd, FAR, 0);
	start_poller(&p, self->fd, 0);
	ready(self->fd, 1);
	EXPECT_TRUE(sleeps_in(atomic_load(&p.tid), SYS_poll) ||
		    sleeps_in(atomic_load(&p.tid), SYS_ppoll));
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	pthread_join(p.thread, NULL);
	EXPECT_EQ(1, p.ret);
	EXPECT_EQ(POLLHUP, p.pfd.revents);
}

TEST_F(context, select_wakes)
{
	struct timeval timeout = { 60, 0 };
	fd_set in;

	must_schedule(self->fd, 20 * NSEC_PER_MSEC, 0);
	FD_ZERO(&in);
	FD_SET(self->fd, &in);
	EXPECT_EQ(1, select(self->fd + 1, &in, NULL, NULL, &timeout));
	EXPECT_TRUE(FD_ISSET(self->fd, &in));
}

TEST_F(context, epoll_level)
{
	int ep = must_epoll(self->fd, EPOLLIN);
	struct hwtimer_record rec;

	EXPECT_EQ(0, epoll_events(ep, 0));
	must_schedule(self->fd, 10 * NSEC_PER_MSEC, 0);
	EXPECT_EQ(EPOLLIN, epoll_events(ep, 60000));
	EXPECT_EQ(EPOLLIN, epoll_events(ep, 0));
	ready(self->fd, 1);
	EXPECT_EQ(1, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(EPOLLIN, epoll_events(ep, 0));
	EXPECT_EQ(1, hwt_read(self->fd, &rec, 1));
	EXPECT_EQ(0, epoll_events(ep, 0));
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	EXPECT_EQ(EPOLLHUP, epoll_events(ep, 60000));
	EXPECT_EQ(EPOLLHUP, epoll_events(ep, 0));
	close(ep);
}

TEST_F(context, epoll_edge)
{
	int ep = must_epoll(self->fd, EPOLLIN | EPOLLET), i;
	struct hwtimer_record rec[10];

	set_nonblock(self->fd);
	EXPECT_EQ(0, epoll_events(ep, 0));
	/* When all has been read, each new record is reported once. */
	for (i = 0; i < 50; i++) {
		must_schedule(self->fd, i % 3 * NSEC_PER_MSEC, 0);
		ASSERT_EQ(EPOLLIN, epoll_events(ep, 60000));
		ASSERT_EQ(0, epoll_events(ep, 0));
		ASSERT_EQ(1, hwt_read(self->fd, rec, 10));
		ASSERT_EQ(-EAGAIN, hwt_read(self->fd, rec, 10));
		ASSERT_EQ(0, epoll_events(ep, 0));
	}
	/* Also if those before have not been read. */
	for (i = 0; i < 5; i++) {
		must_schedule(self->fd, 0, 0);
		ASSERT_EQ(EPOLLIN, epoll_events(ep, 60000));
		ASSERT_EQ(0, epoll_events(ep, 0));
	}
	ASSERT_EQ(5, hwt_read(self->fd, rec, 10));
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	EXPECT_EQ(EPOLLHUP, epoll_events(ep, 60000));
	EXPECT_EQ(0, epoll_events(ep, 0));
	close(ep);
}

/* A typical edge-triggered loop: no wake-up may be lost. */
TEST_F(context, epoll_edge_loses_nothing)
{
	const unsigned int total = 5000;
	int ep = must_epoll(self->fd, EPOLLIN | EPOLLET), ret;
	unsigned char *seen = must_alloc(total, 1);
	unsigned int armed = 0, got = 0;
	__u64 random = seed();
	struct hwtimer_record rec[7];

	set_nonblock(self->fd);
	while (got < total) {
		while (armed < total && armed - got < 100)
			must_schedule(self->fd, rnd(&random) % (3 * NSEC_PER_MSEC),
				      armed++);
		ASSERT_EQ(EPOLLIN, epoll_events(ep, 60000))
			TH_LOG("armed %u got %u unread %llu", armed, got,
			       must_stats(self->fd).unread);
		while ((ret = hwt_read(self->fd, rec, ARRAY_SIZE(rec))) > 0) {
			while (ret--) {
				ASSERT_GT(total, rec[ret].user_data);
				ASSERT_EQ(0, seen[rec[ret].user_data]++);
				got++;
			}
		}
		ASSERT_EQ(-EAGAIN, ret);
	}
	EXPECT_EQ(0, must_stats(self->fd).unread);
	close(ep);
	free(seen);
}

TEST_F(context, epoll_oneshot)
{
	int ep = must_epoll(self->fd, EPOLLIN | EPOLLONESHOT);
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };

	ready(self->fd, 2);
	EXPECT_EQ(EPOLLIN, epoll_events(ep, 60000));
	EXPECT_EQ(0, epoll_events(ep, 0));
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_MOD, self->fd, &event));
	EXPECT_EQ(EPOLLIN, epoll_events(ep, 60000));
	close(ep);
}

/* Close the descriptor while epoll watches it. */
TEST_F(context, epoll_and_close)
{
	int ep = must_epoll(self->fd, EPOLLIN), i;

	for (i = 0; i < 1000; i++)
		must_schedule(self->fd, i % 10 * NSEC_PER_MSEC, 0);
	close(self->fd);
	EXPECT_EQ(0, epoll_events(ep, 100));
	close(ep);
	self->fd = must_open(0);
}

#define READERS	4
#define SHARED	20000

struct share {
	int fd;
	unsigned int at_once;
	unsigned int got;
	unsigned int bad;
	atomic_uchar *seen;
	int end;
};

static void *read_share(void *arg)
{
	struct hwtimer_record rec[64];
	struct share *s = arg;
	int ret, i;

	while ((ret = hwt_read(s->fd, rec, s->at_once)) > 0) {
		for (i = 0; i < ret; i++) {
			if (rec[i].user_data >= SHARED ||
			    atomic_fetch_add(&s->seen[rec[i].user_data], 1) ||
			    !valid_record(&rec[i], rec[i].kind))
				s->bad++;
			else
				s->got++;
		}
	}
	s->end = ret;
	return NULL;
}

/* Several readers of one context: each record goes to exactly one of them. */
static void share_out(struct __test_metadata *_metadata, int fd, bool backlog)
{
	static const unsigned int at_once[READERS] = { 1, 3, 16, 64 };
	struct share share[READERS] = { 0 };
	unsigned int i, got = 0, armed = 0;
	pthread_t threads[READERS];
	__u64 random = seed();
	atomic_uchar *seen = must_alloc(SHARED, 1);

	if (backlog)
		ready(fd, SHARED);
	for (i = 0; i < READERS; i++) {
		share[i] = (struct share){ fd, at_once[i], 0, 0, seen, 1 };
		start(&threads[i], read_share, &share[i]);
	}
	for (armed = 0; !backlog && armed < SHARED; armed++)
		must_schedule(fd, rnd(&random) % (5 * NSEC_PER_MSEC), armed);
	/* STOP hands back what is pending, so that all readers come to an end. */
	ASSERT_EQ(0, hwt_stop(fd, NULL));
	for (i = 0; i < READERS; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, share[i].end);
		EXPECT_EQ(0, share[i].bad);
		got += share[i].got;
		printf("# reader %u read %u records\n", i, share[i].got);
	}
	EXPECT_EQ(SHARED, got);
	for (i = 0; i < SHARED; i++) {
		ASSERT_EQ(1, atomic_load(&seen[i]))
			TH_LOG("record %u", i);
	}
	EXPECT_EQ(0, must_stats(fd).unread);
	free(seen);
}

TEST_F(context, many_readers)
{
	share_out(_metadata, self->fd, false);
}

/* All records are there before the readers begin, so that they run at the same time. */
TEST_F(context, many_readers_of_a_backlog)
{
	share_out(_metadata, self->fd, true);
}

TEST_F(context, io_uring)
{
	struct hwtimer_record rec[4];
	struct io_uring_sqe read_sqe = {
		.opcode = IORING_OP_READ, .fd = self->fd,
		.addr = (uintptr_t)rec, .len = sizeof(rec),
		.off = -1, .user_data = 11,
	}, poll_sqe = {
		.opcode = IORING_OP_POLL_ADD, .fd = self->fd,
		.poll32_events = POLLIN, .user_data = 12,
	};
	struct io_uring_cqe cqe;
	struct uring ring;
	int ret = open_ring(&ring, 0), i;
	__u64 id;

	if (ret == -ENOSYS)
		SKIP(return, "this kernel has no io_uring");
	ASSERT_EQ(0, ret);

	/* With records unread, a read completes at once. */
	ready(self->fd, 2);
	submit(&ring, &read_sqe);
	eventually(completed(&ring, &cqe));
	EXPECT_EQ(11, cqe.user_data);
	EXPECT_EQ(2 * RECORD_SIZE, cqe.res);
	EXPECT_EQ(0, must_stats(self->fd).unread);

	/* Otherwise it completes when there is a record. */
	for (i = 0; i < 20; i++) {
		memset(rec, 0xa5, sizeof(rec));
		submit(&ring, &read_sqe);
		ASSERT_FALSE(completed(&ring, &cqe));
		id = must_schedule(self->fd, i % 4 * NSEC_PER_MSEC, i);
		eventually(completed(&ring, &cqe));
		ASSERT_EQ(RECORD_SIZE, cqe.res);
		ASSERT_EQ(id, rec[0].id);
		ASSERT_EQ(i, rec[0].user_data);
		ASSERT_TRUE(valid_record(&rec[0], HWTIMER_KIND_EXPIRED));
	}

	submit(&ring, &poll_sqe);
	ASSERT_FALSE(completed(&ring, &cqe));
	must_schedule(self->fd, 5 * NSEC_PER_MSEC, 0);
	eventually(completed(&ring, &cqe));
	EXPECT_EQ(12, cqe.user_data);
	EXPECT_EQ(POLLIN, cqe.res);
	EXPECT_EQ(1, hwt_read(self->fd, rec, 4));

	/* A short buffer is refused as in read(). */
	read_sqe.len = RECORD_SIZE - 1;
	submit(&ring, &read_sqe);
	eventually(completed(&ring, &cqe));
	EXPECT_EQ(-EINVAL, cqe.res);

	/* A stop completes a pending read. */
	read_sqe.len = sizeof(rec);
	submit(&ring, &read_sqe);
	ASSERT_FALSE(completed(&ring, &cqe));
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	eventually(completed(&ring, &cqe));
	EXPECT_EQ(0, cqe.res);
	close_ring(&ring);
}

/* An io_uring is closed while a read in it is pending. */
TEST_F(context, io_uring_abandoned)
{
	struct hwtimer_record *theirs = must_alloc(1, sizeof(*theirs)), ours;
	struct io_uring_sqe read_sqe = {
		.opcode = IORING_OP_READ, .fd = self->fd,
		.addr = (uintptr_t)theirs, .len = sizeof(*theirs), .off = -1,
	};
	struct uring ring;
	int ret = open_ring(&ring, 0);

	if (ret == -ENOSYS)
		SKIP(return, "this kernel has no io_uring");
	ASSERT_EQ(0, ret);
	submit(&ring, &read_sqe);
	close_ring(&ring);
	/* The kernel cancels the request asynchronously: either it or we get the record. */
	must_schedule(self->fd, FAR, 0);
	ASSERT_EQ(0, hwt_stop(self->fd, NULL));
	if (hwt_collect(self->fd, &ours, 1) == 1) {
		EXPECT_TRUE(valid_record(&ours, HWTIMER_KIND_HANDED_BACK));
		EXPECT_EQ(0, theirs->kind);
	} else {
		eventually(__atomic_load_n(&theirs->kind, __ATOMIC_ACQUIRE));
		EXPECT_TRUE(valid_record(theirs, HWTIMER_KIND_HANDED_BACK));
	}
}

TEST_HARNESS_MAIN
