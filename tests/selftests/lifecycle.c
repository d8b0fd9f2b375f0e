// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context lives as long as its open file description: across fork, exec and dup, and when passed
 * to other processes. It ends with the last reference, whatever is pending and however the process
 * ended.
 */
#include "calls.h"

#include <sys/socket.h>

FIXTURE(quiet)
{
	int fd;
};

FIXTURE_SETUP(quiet)
{
	ASSERT_EQ(0, contexts());
	self->fd = must_open(0);
}

/* Nothing is left of any case. */
FIXTURE_TEARDOWN(quiet)
{
	if (self->fd >= 0)
		close(self->fd);
	EXPECT_EQ(0, contexts());
	EXPECT_EQ(0, module_references());
}

/* Close, and mark as closed for the teardown. */
static void close_now(int *fd)
{
	close(*fd);
	*fd = -1;
}

TEST_F(quiet, close_with_pending)
{
	arm_many(self->fd, 20000, FAR);
	EXPECT_EQ(20000, must_stats(self->fd).pending);
	EXPECT_EQ(1, module_references());
	EXPECT_EQ(1, contexts());
	close_now(&self->fd);
}

/* Close while timeouts expire, and while nobody has taken them. */
TEST_F(quiet, close_while_expiring)
{
	int i;

	for (i = 0; i < 100; i++) {
		arm_many(self->fd, 200, i % 3 * NSEC_PER_MSEC);
		poll_in(self->fd, i % 2);
		close(self->fd);
		self->fd = must_open(0);
	}
}

/* Parent and child share the context. */
TEST_F(quiet, fork)
{
	__u64 id = must_schedule(self->fd, FAR, 1);
	struct hwtimer_record rec;

	in_child(must_fork()) {
		/* The child can touch the parent's timeout ... */
		expect(0, calls_touch(self->fd, id, 0));
		/* ... and the parent will read this one. */
		must_schedule(self->fd, 50 * NSEC_PER_MSEC, 2);
	}
	/* The context outlives the child. */
	ASSERT_EQ(1, calls_read(self->fd, &rec, 1));
	EXPECT_EQ(id, rec.id);
	ASSERT_EQ(1, calls_read(self->fd, &rec, 1));
	EXPECT_EQ(2, rec.user_data);
	EXPECT_EQ(0, must_stats(self->fd).pending);
	EXPECT_EQ(2, must_stats(self->fd).records);
}

/* Each record goes to either the parent or the child. */
TEST_F(quiet, fork_and_read)
{
	const unsigned int total = 4000;
	atomic_uint *seen = must_share((total + 1) * sizeof(*seen)), *armed = &seen[total];
	struct hwtimer_record rec[8];
	unsigned int i;
	pid_t child;
	int ret;

	child = must_fork();
	if (!child) {
		arm_many(self->fd, total, NSEC_PER_MSEC);
		atomic_store(armed, 1);
	} else {
		/* STOP must not come before all are armed. */
		eventually(atomic_load(armed));
		ASSERT_EQ(0, ioctl(self->fd, HWTIMER_IOC_STOP));
	}
	while ((ret = calls_read(self->fd, rec, 8)) > 0)
		while (ret--)
			atomic_fetch_add(&seen[rec[ret].user_data], 1);
	if (!child)
		_exit(ret ? 1 : 0);
	EXPECT_EQ(0, ret);
	EXPECT_EQ(0, reap(child));
	for (i = 0; i < total; i++) {
		ASSERT_EQ(1, atomic_load(&seen[i]));
	}
}

/* The child keeps the context open after the parent's close. */
TEST_F(quiet, close_in_parent)
{
	int to_child[2];
	pid_t child;
	char c = 'x';

	ASSERT_EQ(0, pipe(to_child));
	must_schedule(self->fd, FAR, 1);
	child = must_fork();
	if (!child) {
		struct hwtimer_record rec;

		if (read(to_child[0], &c, 1) != 1)
			_exit(1);
		if (must_stats(self->fd).pending != 1)
			_exit(2);
		must_schedule(self->fd, 0, 2);
		if (calls_read(self->fd, &rec, 1) != 1 || rec.user_data != 2)
			_exit(3);
		_exit(0);
	}
	close_now(&self->fd);
	ASSERT_EQ(1, write(to_child[1], &c, 1));
	EXPECT_EQ(0, reap(child));
}

TEST_F(quiet, dup)
{
	int copy = dup(self->fd);
	struct hwtimer_record rec;
	__u64 id = must_schedule(self->fd, FAR, 1);

	ASSERT_LE(0, copy);
	EXPECT_EQ(1, must_stats(copy).pending);
	close(self->fd);
	self->fd = copy;
	ASSERT_EQ(0, calls_touch(copy, id, 0));
	ASSERT_EQ(1, calls_read(copy, &rec, 1));
	EXPECT_EQ(id, rec.id);
}

/* Two opens are two contexts, also in one process. */
TEST_F(quiet, open_twice)
{
	int other = must_open(0);
	struct hwtimer_record rec;

	must_schedule(self->fd, 0, 1);
	must_schedule(other, 2 * NSEC_PER_MSEC, 2);
	ASSERT_EQ(1, calls_read(other, &rec, 1));
	EXPECT_EQ(2, rec.user_data);
	close(other);
	EXPECT_EQ(1, must_stats(self->fd).pending);
}

/* In the executed program: is the descriptor open, and the timeout pending in its context? */
static int after_exec(const char *fd_text, const char *id_text)
{
	int fd = atoi(fd_text);
	struct hwtimer_query q = { .id = strtoull(id_text, NULL, 0) };
	struct hwtimer_record rec;

	if (fcntl(fd, F_GETFD) < 0)
		return 10;
	if (hwt_ioctl(fd, HWTIMER_IOC_QUERY, &q) || q.user_data != 77)
		return 11;
	if (calls_touch(fd, q.id, 0))
		return 12;
	if (calls_read(fd, &rec, 1) != 1 || rec.id != q.id)
		return 13;
	return 20;
}

static int exec_with(int fd, __u64 id)
{
	char fd_text[16], id_text[32];
	pid_t child;

	snprintf(fd_text, sizeof(fd_text), "%d", fd);
	snprintf(id_text, sizeof(id_text), "%llu", id);
	child = must_fork();
	if (!child) {
		execl("/proc/self/exe", "lifecycle", "--after-exec", fd_text, id_text,
		      NULL);
		_exit(99);
	}
	return reap(child);
}

TEST_F(quiet, exec)
{
	__u64 id = must_schedule(self->fd, FAR, 77);

	/* must_open() sets O_CLOEXEC. */
	EXPECT_EQ(10, exec_with(self->fd, id));
	EXPECT_EQ(1, must_stats(self->fd).pending);
	ASSERT_EQ(0, fcntl(self->fd, F_SETFD, 0));
	EXPECT_EQ(20, exec_with(self->fd, id));
	EXPECT_EQ(0, must_stats(self->fd).pending);
}

/* exec closes the last descriptor. */
TEST_F(quiet, exec_closes)
{
	pid_t child;

	close_now(&self->fd);
	child = must_fork();
	if (!child) {
		int fd = must_open(0);

		arm_many(fd, 1000, FAR);
		execl("/proc/self/exe", "lifecycle", "--sleep", NULL);
		_exit(99);
	}
	/* The new program sleeps without a descriptor. */
	eventually(sleeps_in(child, SYS_pause));
	EXPECT_EQ(0, contexts());
	EXPECT_EQ(0, module_references());
	must_kill(child);
}

/* SIGKILL of a process that sleeps in read(), with thousands of timeouts pending. */
TEST_F(quiet, killed_in_read)
{
	int i;

	close_now(&self->fd);
	for (i = 0; i < 5; i++) {
		pid_t child = must_fork();

		if (!child) {
			struct hwtimer_record rec;
			int fd = must_open(0);

			arm_many(fd, 10000, FAR);
			calls_read(fd, &rec, 1);
			_exit(2);
		}
		eventually(sleeps_in(child, SYS_read));
		must_kill(child);
		/* The exit closed the last descriptor. */
		ASSERT_EQ(0, contexts());
		ASSERT_EQ(0, module_references());
	}
}

/* SIGKILL at any time. */
TEST_F(quiet, killed_at_any_time)
{
	__u64 random = seed();
	int i;

	close_now(&self->fd);
	for (i = 0; i < 40; i++) {
		pid_t child = must_fork();

		if (!child) {
			int fd = must_open(0);
			__u64 ids[64] = { 0 }, mine = i + 1;

			for (;;) {
				unsigned int k = rnd(&mine) % 64;

				if (ids[k])
					calls_cancel(fd, ids[k]);
				ids[k] = must_schedule(fd, rnd(&mine) % (5 * NSEC_PER_MSEC), k);
			}
		}
		usleep(rnd(&random) % 20000);
		must_kill(child);
	}
}

static void send_fd(int socket, int fd)
{
	_Alignas(8) char room[CMSG_SPACE(sizeof(int))] = { 0 };
	char c = 'x';
	struct iovec iov = { &c, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof(room),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	if (sendmsg(socket, &msg, 0) != 1)
		die("sendmsg: %s", strerror(errno));
}

static int receive_fd(int socket)
{
	_Alignas(8) char room[CMSG_SPACE(sizeof(int))];
	char c;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof(room),
	};
	struct cmsghdr *cmsg;
	int fd;

	if (recvmsg(socket, &msg, 0) != 1)
		die("recvmsg: %s", strerror(errno));
	cmsg = CMSG_FIRSTHDR(&msg);
	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
		die("no descriptor in the message");
	memcpy(&fd, CMSG_DATA(cmsg), sizeof(int));
	return fd;
}

/* Pass the descriptor to a process that has not opened the device. */
TEST_F(quiet, passed_on)
{
	int sockets[2];
	pid_t child;
	__u64 id;

	close_now(&self->fd);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	child = must_fork();
	if (!child) {
		struct hwtimer_record rec;
		int fd = receive_fd(sockets[1]);

		/* One of the two may be due. */
		if (must_stats(fd).pending != 2)
			_exit(1);
		if (calls_read(fd, &rec, 1) != 1 || rec.user_data != 1)
			_exit(2);
		if (read(sockets[1], &id, sizeof(id)) != sizeof(id))
			_exit(4);
		if (calls_cancel(fd, id))
			_exit(5);
		if (must_stats(fd).pending)
			_exit(6);
		_exit(0);
	}
	self->fd = must_open(0);
	must_schedule(self->fd, 30 * NSEC_PER_MSEC, 1);
	id = must_schedule(self->fd, FAR, 2);
	send_fd(sockets[0], self->fd);
	/* Now only the message holds the context, and later the child. */
	close_now(&self->fd);
	ASSERT_EQ(sizeof(id), write(sockets[0], &id, sizeof(id)));
	EXPECT_EQ(0, reap(child));
}

/* Pass it in a message that is never received. */
TEST_F(quiet, passed_on_to_nobody)
{
	int sockets[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	arm_many(self->fd, 1000, FAR);
	send_fd(sockets[0], self->fd);
	close_now(&self->fd);
	EXPECT_EQ(1, contexts());
	close(sockets[0]);
	close(sockets[1]);
	eventually(!contexts());
}

/* One thread closes the descriptor that another is reading: the read continues. */
struct late_reader {
	pthread_t thread;
	atomic_int tid;
	int fd, ret;
	struct hwtimer_record rec;
};

static void *read_late(void *arg)
{
	struct late_reader *r = arg;

	atomic_store(&r->tid, my_tid());
	r->ret = calls_read(r->fd, &r->rec, 1);
	return NULL;
}

TEST_F(quiet, close_during_read)
{
	struct late_reader r = { .fd = self->fd };
	__u64 id;

	id = must_schedule(self->fd, FAR, 1);
	start(&r.thread, read_late, &r);
	eventually(atomic_load(&r.tid));
	eventually(sleeps_in(atomic_load(&r.tid), SYS_read));
	ASSERT_EQ(0, calls_touch(self->fd, id, NSEC_PER_SEC / 2));
	close_now(&self->fd);
	pthread_join(r.thread, NULL);
	EXPECT_EQ(1, r.ret);
	EXPECT_EQ(id, r.rec.id);
}

#define STORMERS	4

struct stormer {
	pthread_t thread;
	__u64 random;
	unsigned int rounds;
	int error;
};

static void *storm(void *arg)
{
	struct hwtimer_setup table = {
		.clockid = CLOCK_MONOTONIC, .flags = HWTIMER_SETUP_TABLE, .slots = 300,
	};
	struct stormer *s = arg;
	unsigned int i, k;
	int fd;

	for (i = 0; i < s->rounds; i++) {
		fd = calls_open(0);
		if (fd < 0) {
			s->error = fd;
			break;
		}
		if (rnd(&s->random) % 4)
			for (k = rnd(&s->random) % 20 + 1; k; k--)
				must_schedule(fd, rnd(&s->random) % 2 ? FAR : NSEC_PER_MSEC, k);
		else if (ioctl(fd, HWTIMER_IOC_SETUP, &table))
			s->error = -errno;
		if (!(rnd(&s->random) % 4) && ioctl(fd, HWTIMER_IOC_STOP))
			s->error = -errno;
		close(fd);
	}
	return NULL;
}

TEST_F(quiet, open_close_storm)
{
	struct stormer stormers[STORMERS];
	__u64 random = seed();
	int i;

	for (i = 0; i < STORMERS; i++) {
		stormers[i] = (struct stormer){ .random = rnd(&random) | 1, .rounds = 1500 };
		start(&stormers[i].thread, storm, &stormers[i]);
	}
	for (i = 0; i < STORMERS; i++) {
		pthread_join(stormers[i].thread, NULL);
		EXPECT_EQ(0, stormers[i].error);
	}
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "--after-exec"))
		return after_exec(argv[2], argv[3]);
	if (argc == 2 && !strcmp(argv[1], "--sleep")) {
		pause();
		return 1;
	}
	return test_harness_run(argc, argv);
}
