// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer_open_fd(): a handle goes on with the context of one whose program is gone. Nothing is
 * lost, early or reported twice, wherever the program was killed.
 *
 * SEED=N repeats a run's random numbers.
 */
#include "library.h"

#include <sys/un.h>

#include "../../lib/table.h"

FIXTURE(restart)
{
	int ends[2];
	struct hwtimer *h;
};

ON_DEVICE(restart);

FIXTURE_SETUP(restart)
{
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, self->ends));
}

FIXTURE_TEARDOWN(restart)
{
	hwtimer_close(self->h);
}

static struct hwtimer *must_adopt(int fd, unsigned int flags)
{
	struct hwtimer_options o = { .size = sizeof(o), .flags = flags };
	struct hwtimer *h;
	int ret = hwtimer_open_fd(&h, fd, &o);

	if (ret)
		die("hwtimer_open_fd: %s", strerror(-ret));
	close(fd);
	return h;
}

/* The descriptor of a child that was killed after it had sent it, and @us later. */
static int fd_of_killed(int from, pid_t child, unsigned int us)
{
	int fd = fd_receive(from);

	usleep(us);
	kill(child, SIGKILL);
	if (waitpid(child, NULL, 0) != child)
		die("waitpid");
	return fd;
}

/* What is to come: the deadline for each user_data, 0: nothing. */
#define MANY	100000

static __u64 deadlines[MANY];

/* Note what is pending; nothing twice. Returns how many. */
static unsigned int pending_note(struct hwtimer *h)
{
	struct hwtimer_state s;
	hwtimer_id id = 0;
	unsigned int n = 0;

	memset(deadlines, 0, sizeof(deadlines));
	while (hwtimer_next(h, &id, &s) == 1) {
		if (s.user_data >= MANY || deadlines[s.user_data])
			die("user_data %llu", (unsigned long long)s.user_data);
		deadlines[s.user_data] = s.deadline_ns;
		n++;
	}
	return n;
}

/* All that was noted comes, once, when it was due, and nothing else. */
static void all_come(struct hwtimer *h, unsigned int n)
{
	struct hwtimer_event e;

	while (n--) {
		e = must_wait(h);
		if (e.user_data >= MANY || e.deadline_ns != deadlines[e.user_data])
			die("user_data %llu", (unsigned long long)e.user_data);
		deadlines[e.user_data] = 0;
	}
	if (hwtimer_wait(h, &e, 0))
		die("more");
}

TEST_F(restart, hundred_thousand)
{
	pid_t child = fork();
	unsigned int i;

	if (!child) {
		self->h = MUST_OPEN(variant->flags);
		for (i = 0; i < MANY; i++)
			if (hwtimer_schedule(self->h, NSEC_PER_SEC + i * 20000ULL, i, NULL))
				die("hwtimer_schedule");
		fd_send(self->ends[1], hwtimer_fd(self->h));
		pause();
	}
	self->h = must_adopt(fd_of_killed(self->ends[0], child, 0), variant->flags);
	EXPECT_EQ(MANY, pending_note(self->h));
	all_come(self->h, MANY);
}

/* What the program is doing when it is killed. */
static void work_for_ever(struct hwtimer *h, __u64 random)
{
	static hwtimer_id ids[1000];
	struct hwtimer_event e;
	unsigned int i;
	__u64 delay;

	for (;;) {
		i = rnd(&random) % ARRAY_SIZE(ids);
		delay = NSEC_PER_SEC / 2 + rnd(&random) % NSEC_PER_SEC;
		if (hwtimer_touch(h, ids[i], delay) && hwtimer_schedule(h, delay, i, &ids[i]))
			die("hwtimer_schedule");
		if (rnd(&random) % 2 && hwtimer_cancel(h, ids[i]))
			die("hwtimer_cancel");
		if (!(rnd(&random) % 100) && hwtimer_wait(h, &e, 0) < 0)
			die("hwtimer_wait");
	}
}

TEST_F(restart, killed_at_any_time)
{
	__u64 random = seed();
	unsigned int round, n, i;
	pid_t child;

	for (round = 0; round < 10; round++) {
		child = fork();
		if (!child) {
			self->h = MUST_OPEN(variant->flags);
			fd_send(self->ends[1], hwtimer_fd(self->h));
			work_for_ever(self->h, random);
		}
		self->h = must_adopt(fd_of_killed(self->ends[0], child, rnd(&random) % 100000),
				     variant->flags);
		n = pending_note(self->h);
		/* And what is scheduled then. */
		for (i = 1000; i < 2000; i++, n++) {
			deadlines[i] = hwtimer_now(self->h) + NSEC_PER_SEC / 2;
			ASSERT_EQ(0, hwtimer_schedule_at(self->h, deadlines[i], i, NULL));
			deadlines[i] = ROUND_UP(deadlines[i]);
		}
		all_come(self->h, n);
		hwtimer_close(self->h);
	}
	self->h = NULL;
}

/* What was pushed, and cancelled before the kernel took it, leaves nothing in its slot. */
TEST_F(restart, cancelled_while_pushed)
{
	struct hwtimer *old = MUST_OPEN(variant->flags);
	hwtimer_id id;

	ASSERT_EQ(0, hwtimer_schedule(old, NSEC_PER_SEC / 10, 1, NULL));
	ASSERT_EQ(0, hwtimer_schedule(old, FAR, 2, &id));
	ASSERT_EQ(0, hwtimer_cancel(old, id));
	self->h = must_adopt(dup(hwtimer_fd(old)), variant->flags);
	hwtimer_close(old);
	ASSERT_EQ(0, hwtimer_schedule(self->h, NSEC_PER_SEC / 5, 3, &id));
	EXPECT_EQ(1, must_wait(self->h).user_data);
	EXPECT_EQ(3, must_wait(self->h).user_data);
}

/*
 * The kernel is in the middle of a list of the program that is gone. That must not take a slot that
 * a thread is about to push: a second push of it would make the list end in a circle.
 */
TEST_F(restart, list_half_taken)
{
	struct hwtimer *old = MUST_OPEN(variant->flags);
	struct table t = { .fd = hwtimer_fd(old), .page = sysconf(_SC_PAGESIZE) };
	__u64 wake = hwtimer_now(old) + NSEC_PER_SEC / 20;
	hwtimer_id ids[101];
	unsigned int i, x, sum = 0;
	__u32 head;

	for (i = 0; i <= 100; i++)
		ASSERT_EQ(0, hwtimer_schedule_at(old, i ? wake + FAR : wake, i, &ids[i]));
	wait_until(wake + 2 * NSEC_PER_MSEC);
	/* A slice takes 32. */
	poll_in(hwtimer_fd(old), 0);
	ASSERT_EQ(0, table_map(&t));
	for (x = 100; x && !table_load(&t.slot[x].next); x--)
		;
	ASSERT_NE(0, x);
	for (i = 1; i <= 100; i++)
		ASSERT_EQ(0, hwtimer_cancel(old, ids[i]));
	t.fd = dup(hwtimer_fd(old));
	self->h = must_adopt(dup(hwtimer_fd(old)), variant->flags);
	hwtimer_close(old);
	/* One thread arms slot x, and is held up in the middle of the push. */
	table_put(&t.slot[x], table_word(wake + FAR, 5));
	table_store(&t.slot[x].visit, 0);
	ASSERT_TRUE(table_swap_link(&t.slot[x].next, HWTIMER_LINK_NONE, HWTIMER_LINK_END));
	/* Another one has the kernel go on. */
	ASSERT_EQ(0, table_enter(&t));
	for (i = 1; i < 50; i++)
		ASSERT_EQ(0, hwtimer_schedule(self->h, NSEC_PER_SEC / 2, i, NULL));
	/* A third one moves x to an earlier time. */
	table_touch(&t, x, table_word(wake + FAR / 2, 5));
	do {
		head = table_load(&t.head->pushed);
		table_store(&t.slot[x].next, head);
	} while (!table_swap_link(&t.head->pushed, head, HWTIMER_LINK(x)));
	EXPECT_EQ(0, must_wait(self->h).user_data);
	for (i = 1; i < 50; i++)
		sum += must_wait(self->h).user_data;
	EXPECT_EQ(49 * 50 / 2, sum);
	table_close(&t);
	close(t.fd);
}

/* What the program that is gone has written in the kernel's place does not count. */
TEST_F(restart, forged_kick_before)
{
	struct hwtimer *old = MUST_OPEN(variant->flags);
	struct table t = { .fd = hwtimer_fd(old), .page = sysconf(_SC_PAGESIZE) };

	ASSERT_EQ(0, table_map(&t));
	ASSERT_EQ(0, table_enter(&t));
	table_store(&t.head->kick_before, 0);
	table_close(&t);
	self->h = must_adopt(dup(hwtimer_fd(old)), variant->flags);
	hwtimer_close(old);
	ASSERT_EQ(0, hwtimer_schedule(self->h, 0, 1, NULL));
	EXPECT_EQ(1, must_wait(self->h).user_data);
}

/* GROW has made a ring for more slots than it had memory for. */
TEST_F(restart, ring_without_slots)
{
	struct hwtimer *old = MUST_OPEN(variant->flags);
	struct hwtimer_options o = { .size = sizeof(o), .flags = variant->flags, .timeouts = 100 };
	struct hwtimer_grow grow = { .slots = 1 << 20 };
	struct hwtimer_info info;

	ASSERT_EQ(0, hwtimer_schedule(old, 0, 1, NULL));
	/* In KiB: that of a ring, and a little. */
	ASSERT_EQ(0, set_parameter("max_memory", 4400));
	EXPECT_EQ(-1, ioctl(hwtimer_fd(old), HWTIMER_IOC_GROW, &grow));
	ASSERT_EQ(0, set_parameter("max_memory", 0));
	ASSERT_EQ(0, ioctl(hwtimer_fd(old), HWTIMER_IOC_INFO, &info));
	EXPECT_GT(1 << 20, info.slots);
	EXPECT_NE(0, info.rings >> 11);
	ASSERT_EQ(0, hwtimer_open_fd(&self->h, hwtimer_fd(old), &o));
	hwtimer_close(old);
	EXPECT_EQ(1, must_wait(self->h).user_data);
}

/* Killed between the steps of a push. */
TEST_F(restart, half_pushed)
{
	struct hwtimer *old = MUST_OPEN(variant->flags);
	struct table t = { .fd = hwtimer_fd(old) };
	hwtimer_id id;

	ASSERT_EQ(0, hwtimer_schedule(old, NSEC_PER_SEC / 10, 7, &id));
	t.page = sysconf(_SC_PAGESIZE);
	ASSERT_EQ(0, table_map(&t));
	ASSERT_EQ(0, table_enter(&t));
	table_store(&t.slot[id & 0xffffff].visit, 0);
	table_store(&t.slot[id & 0xffffff].next, HWTIMER_LINK_END);
	/* What it had pushed before is unknown, too. */
	ASSERT_EQ(0, hwtimer_schedule(old, NSEC_PER_SEC / 10, 8, &id));
	table_store(&t.head->pushed, HWTIMER_LINK(1 << 23));
	table_close(&t);
	self->h = must_adopt(dup(hwtimer_fd(old)), variant->flags);
	hwtimer_close(old);
	EXPECT_EQ(2, pending_note(self->h));
	all_come(self->h, 2);
}

TEST_F(restart, ids_go_on)
{
	struct hwtimer *old = MUST_OPEN(variant->flags);
	struct hwtimer_repeat repeat = {
		.first_ns = hwtimer_now(old) + NSEC_PER_SEC / 10, .period_ns = NSEC_PER_SEC / 10,
	};
	hwtimer_id ended, cancelled, touched, periodic, new;
	struct hwtimer_state s;
	struct hwtimer_event e;
	int i;

	ASSERT_EQ(0, hwtimer_schedule(old, 0, 1, &ended));
	ASSERT_EQ(0, hwtimer_schedule(old, FAR, 2, &cancelled));
	ASSERT_EQ(0, hwtimer_schedule(old, FAR, 3, &touched));
	ASSERT_EQ(0, hwtimer_schedule_repeat(old, &repeat, 4, &periodic));
	ASSERT_EQ(ended, must_wait(old).id);
	self->h = must_adopt(dup(hwtimer_fd(old)), variant->flags);
	hwtimer_close(old);

	EXPECT_EQ(-ENOENT, hwtimer_query(self->h, ended, &s));
	EXPECT_EQ(0, hwtimer_query(self->h, touched, &s));
	EXPECT_EQ(3, s.user_data);
	EXPECT_EQ(0, hwtimer_cancel(self->h, cancelled));
	EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, cancelled));
	EXPECT_EQ(0, hwtimer_touch(self->h, touched, NSEC_PER_SEC));
	e = must_wait(self->h);
	EXPECT_EQ(periodic, e.id);
	EXPECT_EQ(4, e.user_data);
	EXPECT_EQ(-ENOENT, hwtimer_cancel(self->h, periodic));
	EXPECT_EQ(touched, must_wait(self->h).id);
	/* No id of before comes back. */
	for (i = 0; i < 10000; i++) {
		ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 5, &new));
		ASSERT_FALSE(new == ended || new == cancelled || new == touched || new == periodic);
	}
}

/* What the program that is gone has stopped is handed back by the next one. */
TEST_F(restart, stopped)
{
	struct hwtimer *old = MUST_OPEN(variant->flags);
	struct hwtimer_event e;

	ASSERT_EQ(0, hwtimer_schedule(old, FAR, 1, NULL));
	ASSERT_EQ(0, hwtimer_stop(old));
	self->h = must_adopt(dup(hwtimer_fd(old)), variant->flags);
	hwtimer_close(old);
	e = must_wait(self->h);
	EXPECT_EQ(HWTIMER_KIND_HANDED_BACK, e.kind);
	EXPECT_EQ(1, e.user_data);
	EXPECT_EQ(-ESHUTDOWN, hwtimer_wait(self->h, &e, 0));
	EXPECT_EQ(-ESHUTDOWN, hwtimer_schedule(self->h, 0, 1, NULL));
}

/* What the new handle says of the context is what the old one said. */
TEST_F(restart, what_it_says)
{
	const struct hwtimer_options o = {
		.flags = variant->flags | HWTIMER_OPEN_BOOTTIME, .tick_ns = 10 * NSEC_PER_MSEC,
	};
	struct table t = { .page = sysconf(_SC_PAGESIZE) };
	struct hwtimer_event e;
	struct hwtimer *old, *h;
	hwtimer_id id;

	if (!unshare_time("boottime 1000000 0"))
		SKIP(return, "no time namespaces");
	in_child(must_fork()) {
		old = must_open(o);
		expect(0, hwtimer_schedule(old, 0, 1, NULL));
		expect(0, hwtimer_schedule(old, FAR, 2, &id));
		expect(0, hwtimer_touch(old, id, 2 * FAR));
		expect(0, hwtimer_schedule(old, FAR, 3, &id));
		expect(0, hwtimer_cancel(old, id));
		must_wait(old);
		t.fd = hwtimer_fd(old);
		expect(0, table_map(&t));
		while (table_load(&t.head->cancelled) != 1 || table_load(&t.head->expired) != 1)
			hwtimer_wait(old, &e, NSEC_PER_MSEC);

		h = must_adopt(dup(hwtimer_fd(old)), variant->flags);
		expect(hwtimer_tick_ns(old), hwtimer_tick_ns(h));
		hwtimer_close(old);
		expect(true, hwtimer_now(h) > now_ns() + 900000 * NSEC_PER_SEC);
		expect(FD_CLOEXEC, fcntl(hwtimer_fd(h), F_GETFD));
		expect(0, hwtimer_schedule(h, 0, 4, NULL));
		must_wait(h);
		while (table_load(&t.head->expired) == 1)
			hwtimer_wait(h, &e, NSEC_PER_MSEC);
		expect(4, table_load(&t.head->armed));
		expect(1, table_load(&t.head->touched));
		expect(1, table_load(&t.head->cancelled));
		expect(2, table_load(&t.head->expired));
	}
}

/* The clock of another time namespace is refused. */
TEST_F(restart, other_time_namespace)
{
	struct hwtimer *old = MUST_OPEN(variant->flags), *h;

	if (!unshare_time("monotonic 1000000 0"))
		SKIP(return, "no time namespaces");
	in_child(must_fork())
		expect(-EXDEV, hwtimer_open_fd(&h, hwtimer_fd(old), NULL));
	hwtimer_close(old);
}

/* Who asks for fewer timeouts than there are slots gets all that is pending. */
TEST_F(restart, more_than_asked_for)
{
	struct hwtimer *old = MUST_OPEN(variant->flags);
	struct hwtimer_options o = { .size = sizeof(o), .flags = variant->flags, .timeouts = 1 };
	struct hwtimer_state s;
	hwtimer_id id = 0;
	unsigned int i;

	for (i = 0; i < 3000; i++)
		ASSERT_EQ(0, hwtimer_schedule(old, NSEC_PER_SEC / 10, i, NULL));
	ASSERT_EQ(0, hwtimer_open_fd(&self->h, hwtimer_fd(old), &o));
	hwtimer_close(old);
	EXPECT_EQ(3000, pending_note(self->h));
	in_child(must_fork())
		expect(-EPERM, hwtimer_next(self->h, &id, &s));
	all_come(self->h, 3000);
	ASSERT_EQ(0, hwtimer_schedule(self->h, FAR, 5, NULL));
	/* Until it is handed back it is pending. */
	ASSERT_EQ(0, hwtimer_stop(self->h));
	EXPECT_EQ(1, hwtimer_next(self->h, &id, &s));
	EXPECT_EQ(5, s.user_data);
}

TEST(errors)
{
	const struct hwtimer_options wrong[] = {
		{ .size = sizeof(wrong[0]), .flags = HWTIMER_OPEN_PROCESS },
		{ .size = sizeof(wrong[0]), .flags = HWTIMER_OPEN_VIRTUAL },
		{ .size = sizeof(wrong[0]), .flags = HWTIMER_OPEN_BOOTTIME },
		{ .size = sizeof(wrong[0]), .device = "/dev/hwtimer" },
		{ .size = sizeof(wrong[0]), .tick_ns = NSEC_PER_MSEC },
		{ .size = sizeof(wrong[0]), .slack_ns = 1 },
	};
	struct hwtimer_setup calls = { .clockid = CLOCK_MONOTONIC };
	struct hwtimer *h = MUST_OPEN(HWTIMER_OPEN_DEVICE), *other;
	int fd = open("/dev/hwtimer", O_RDWR | O_CLOEXEC);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		other = h;
		EXPECT_EQ(-EINVAL, hwtimer_open_fd(&other, hwtimer_fd(h), &wrong[i]));
		EXPECT_EQ(NULL, other);
	}
	EXPECT_EQ(-EBADF, hwtimer_open_fd(&other, -1, NULL));
	EXPECT_EQ(-ENOTTY, hwtimer_open_fd(&other, 0, NULL));
	ASSERT_LE(0, fd);
	EXPECT_EQ(-ENXIO, hwtimer_open_fd(&other, fd, NULL));
	ASSERT_EQ(0, ioctl(fd, HWTIMER_IOC_SETUP, &calls));
	EXPECT_EQ(-EOPNOTSUPP, hwtimer_open_fd(&other, fd, NULL));
	hwtimer_close(h);
	h = MUST_OPEN(HWTIMER_OPEN_PROCESS);
	EXPECT_EQ(-ENOTTY, hwtimer_open_fd(&other, hwtimer_fd(h), NULL));
	hwtimer_close(h);
	close(fd);
}

/* Run examples/restart as a service manager does. Returns what it prints. */
static FILE *service_start(char *const env[], int fd, pid_t *child)
{
	char pid[32], *const with_fd[] = { "LISTEN_FDS=1", pid, NULL };
	int ends[2];

	if (pipe(ends))
		die("pipe");
	*child = fork();
	if (!*child) {
		snprintf(pid, sizeof(pid), "LISTEN_PID=%d", getpid());
		dup2(ends[1], 1);
		if (fd >= 0)
			dup2(fd, 3);
		execle("/examples/restart", "restart", "3", "1", NULL, fd < 0 ? env : with_fd);
		die("execle");
	}
	close(ends[1]);
	return fdopen(ends[0], "r");
}

TEST(example)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "/tmp/restart.notify" };
	char *const env[] = { "NOTIFY_SOCKET=/tmp/restart.notify", NULL };
	int s = socket(AF_UNIX, SOCK_DGRAM, 0), fd, lease, status, seen = 0;
	char line[100];
	double late;
	pid_t child;
	FILE *from;

	unlink(at.sun_path);
	ASSERT_EQ(0, bind(s, (struct sockaddr *)&at, sizeof(at)));
	from = service_start(env, -1, &child);
	fd = fd_receive(s);
	for (lease = 1; lease <= 3; lease++) {
		ASSERT_NE(NULL, fgets(line, sizeof(line), from));
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	fclose(from);

	from = service_start(NULL, fd, &child);
	close(fd);
	while (fgets(line, sizeof(line), from)) {
		if (sscanf(line, "lease %d has ended, %lf ms late", &lease, &late) == 2 &&
		    late >= 0)
			seen |= 1 << lease;
	}
	EXPECT_EQ(2 | 4 | 8, seen);
	waitpid(child, &status, 0);
	EXPECT_EQ(0, status);
	fclose(from);
	close(s);
}

TEST_HARNESS_MAIN
