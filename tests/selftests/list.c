// SPDX-License-Identifier: GPL-2.0-only
/*
 * HWTIMER_IOC_LIST: every pending timeout, page by page, each once; and invalid arguments.
 */
#include "ring.h"

#ifndef __NR_pidfd_open
#define __NR_pidfd_open		434
#endif
#ifndef __NR_pidfd_getfd
#define __NR_pidfd_getfd	438
#endif

#define TIMEOUTS	1000

static long hwt_list(int fd, struct hwtimer_query *queries, __u32 count, __u64 *next)
{
	struct hwtimer_list arg = {
		.size = sizeof(*queries), .queries = (uintptr_t)queries, .count = count,
		.next = *next,
	};
	int ret = ioctl(fd, HWTIMER_IOC_LIST, &arg);

	if (ret < 0)
		return -errno;
	if (arg.flags || arg.pad || arg.size != sizeof(*queries) || arg.count != count ||
	    arg.queries != (uintptr_t)queries || ret > (long)count)
		return DIRTY;
	*next = arg.next;
	return ret;
}

/*
 * Count how often each user_data below TIMEOUTS is listed, with pages of @page; and return the
 * end.
 */
static unsigned int list_to(int fd, __u32 page, unsigned char *listed, __u64 *end)
{
	struct hwtimer_query *queries = calloc(page, sizeof(*queries));
	unsigned int n = 0;
	long got, i;

	if (!queries)
		die("no memory");
	memset(listed, 0, TIMEOUTS);
	*end = 0;
	while ((got = hwt_list(fd, queries, page, end)) > 0) {
		for (i = 0; i < got; i++) {
			if (queries[i].user_data >= TIMEOUTS)
				die("user_data %llx", (unsigned long long)queries[i].user_data);
			listed[queries[i].user_data]++;
		}
		n += got;
	}
	if (got)
		die("list: %ld", got);
	free(queries);
	return n;
}

/* List a context that only this test uses: further calls list nothing. */
static unsigned int list_all(int fd, __u32 page, unsigned char *listed)
{
	struct hwtimer_query query;
	unsigned int n;
	__u64 end;

	n = list_to(fd, page, listed, &end);
	if (hwt_list(fd, &query, 1, &end))
		die("something was listed after the end");
	return n;
}

static const __u32 pages[] = { 1, 7, 64, TIMEOUTS, 4 * TIMEOUTS };

/* Every third timeout was cancelled, and every third has expired. */
static void check_listed(struct __test_metadata *_metadata, int fd)
{
	unsigned char listed[TIMEOUTS];
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		EXPECT_EQ((TIMEOUTS + 2) / 3, list_all(fd, pages[i], listed));
		for (j = 0; j < TIMEOUTS; j++)
			ASSERT_EQ(j % 3 == 0, listed[j])
				TH_LOG("number %u", j);
	}
}

TEST(by_ioctl)
{
	unsigned char listed[TIMEOUTS];
	int fd = must_open(0);
	unsigned int i;

	EXPECT_EQ(0, list_all(fd, 10, listed));
	for (i = 0; i < TIMEOUTS; i++) {
		__u64 id = must_schedule(fd, i % 3 == 1 ? 0 : FAR, i);

		if (i % 3 == 2) {
			ASSERT_EQ(0, hwt_cancel(fd, id));
		}
	}
	eventually(must_stats(fd).unread == (TIMEOUTS + 1) / 3);
	check_listed(_metadata, fd);
	ASSERT_EQ(0, hwt_stop(fd, NULL));
	EXPECT_EQ(0, list_all(fd, 10, listed));
	close(fd);
}

/* Submissions are listed once they have been taken. */
TEST(by_rings)
{
	struct ring *r = must_ring(must_open(O_NONBLOCK), 4096, 4096, TIMEOUTS + 5);
	__u64 far = now_ns() + FAR;
	unsigned int i;

	for (i = 0; i < TIMEOUTS; i++) {
		must_submit(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(i, i), i % 3 == 1 ? 0 : far, i);
		if (i % 3 == 2)
			must_put(r, HWTIMER_OP_CANCEL, 0, HWTIMER_ID(i, i), 0, i);
	}
	must_enter(r);
	eventually(must_stats(r->fd).expired == (TIMEOUTS + 1) / 3);
	check_listed(_metadata, r->fd);
	ring_close(r);
}

/* LIST and QUERY return the same. */
TEST(as_query)
{
	struct hwtimer_schedule periodic = {
		.time = now_ns() + FAR, .user_data = 5, .period = NSEC_PER_SEC,
		.misfire = 3 * NSEC_PER_SEC, .policy = HWTIMER_MISFIRE_SKIP,
	};
	struct hwtimer_query listed[3], asked;
	int fd = must_open(0);
	__u64 next = 0;
	long n, i;

	must_schedule(fd, FAR, 1);
	must_schedule(fd, FAR, 2);
	ASSERT_EQ(0, hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &periodic));
	memset(listed, 0xa5, sizeof(listed));
	n = hwt_list(fd, listed, 3, &next);
	ASSERT_EQ(3, n);
	for (i = 0; i < n; i++) {
		asked = (struct hwtimer_query){ .id = listed[i].id };
		ASSERT_EQ(0, hwt_ioctl(fd, HWTIMER_IOC_QUERY, &asked));
		EXPECT_EQ(0, memcmp(&asked, &listed[i], sizeof(asked)));
	}
	close(fd);
}

/* Longer elements. */
TEST(sizes)
{
	static const unsigned int sizes[] = { 64, 72, 128, 4096 };
	struct hwtimer_list arg;
	unsigned char buf[3 * 4096];
	int fd = must_open(0);
	unsigned int i, j, k;
	__u64 id[2];

	id[0] = must_schedule(fd, FAR, 1);
	id[1] = must_schedule(fd, FAR, 2);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(buf, 0xa5, sizeof(buf));
		arg = (struct hwtimer_list){
			.size = sizes[i], .queries = (uintptr_t)buf, .count = 3,
		};
		ASSERT_EQ(2, ioctl(fd, HWTIMER_IOC_LIST, &arg));
		for (j = 0; j < 2; j++) {
			EXPECT_EQ(0, memcmp(buf + j * sizes[i] + 8, &id[j], 8));
			for (k = 64; k < sizes[i]; k++)
				ASSERT_EQ(0, buf[j * sizes[i] + k]);
		}
		for (j = 2 * sizes[i]; j < sizeof(buf); j++)
			ASSERT_EQ(0xa5, buf[j]);
	}
	close(fd);
}

TEST(refused)
{
	struct hwtimer_query queries[4];
	struct hwtimer_list good = {
		.size = sizeof(queries[0]), .queries = (uintptr_t)queries, .count = 4,
	}, bad;
	int fd = must_open(0);

	must_schedule(fd, FAR, 1);
	refuses_frame(_metadata, fd, HWTIMER_IOC_LIST, &good);
	refuses_bits(_metadata, fd, HWTIMER_IOC_LIST, &good,
		     offsetof(struct hwtimer_list, flags), 0);
	refuses_bits(_metadata, fd, HWTIMER_IOC_LIST, &good,
		     offsetof(struct hwtimer_list, pad), 0);
	bad = good;
	bad.count = 0;
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_LIST, &bad));
	bad = good;
	bad.size = sizeof(queries[0]) - 8;
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_LIST, &bad));
	bad.size = sizeof(queries[0]) + 4;
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_LIST, &bad));
	/* More than a page would have to be cleared at once, without checking for signals. */
	bad.size = 4104;
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_LIST, &bad));
	bad.size = ~7U;
	EXPECT_EQ(-EINVAL, hwt_ioctl(fd, HWTIMER_IOC_LIST, &bad));
	bad = good;
	bad.queries = 8;
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, HWTIMER_IOC_LIST, &bad));
	EXPECT_EQ(0, bad.next);
	/* Beyond the end there is nothing to list, which is not an error. */
	bad = good;
	bad.next = ~0ULL;
	EXPECT_EQ(0, ioctl(fd, HWTIMER_IOC_LIST, &bad));
	EXPECT_EQ(1, ioctl(fd, HWTIMER_IOC_LIST, &good));
	close(fd);
}

/* Two elements are writable: two timeouts are listed, and @next is that of the third. */
TEST(half_unwritable)
{
	struct hwtimer_query *queries = (void *)must_fence(1), rest[4];
	int fd = must_open(0), i;
	__u64 next = 0;

	queries -= 2;
	for (i = 0; i < 4; i++)
		must_schedule(fd, FAR, i);
	ASSERT_EQ(2, hwt_list(fd, queries, 4, &next));
	ASSERT_EQ(2, hwt_list(fd, rest, 4, &next));
	EXPECT_EQ(6, queries[0].user_data + queries[1].user_data + rest[0].user_data +
		     rest[1].user_data);
	close(fd);
}

static atomic_bool enough;

static void *churn(void *arg)
{
	int fd = *(int *)arg;
	unsigned int i;
	__u64 ids[50];

	while (!atomic_load(&enough)) {
		for (i = 0; i < ARRAY_SIZE(ids); i++)
			ids[i] = must_schedule(fd, FAR, i % 2 ? 1 : 2);
		for (i = 0; i < ARRAY_SIZE(ids); i++)
			if (hwt_cancel(fd, ids[i]))
				die("cancel");
	}
	return NULL;
}

/* Timeouts that stay are listed once, whatever others do. */
TEST(while_others_come_and_go)
{
	unsigned char listed[TIMEOUTS];
	int fd = must_open(0);
	unsigned int i, j;
	pthread_t thread;
	__u64 end;

	for (i = 3; i < 303; i++)
		must_schedule(fd, FAR, i);
	atomic_store(&enough, false);
	ASSERT_EQ(0, pthread_create(&thread, NULL, churn, &fd));
	for (j = 0; j < 100; j++) {
		list_to(fd, pages[j % 3], listed, &end);
		for (i = 3; i < 303; i++)
			ASSERT_EQ(1, listed[i]);
	}
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	close(fd);
}

/* A context of another process, by pidfd. */
TEST(by_pidfd)
{
	struct hwtimer_query query;
	int up[2], pidfd, fd;
	__u64 next = 0;
	pid_t pid;
	char c;

	ASSERT_EQ(0, pipe(up));
	pid = must_fork();
	if (!pid) {
		fd = must_open(0);
		must_schedule(fd, FAR, 77);
		if (dup2(fd, 50) != 50 || write(up[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	ASSERT_EQ(1, read(up[0], &c, 1));
	pidfd = syscall(__NR_pidfd_open, pid, 0);
	ASSERT_LE(0, pidfd);
	fd = syscall(__NR_pidfd_getfd, pidfd, 50, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(1, hwt_list(fd, &query, 1, &next));
	EXPECT_EQ(77, query.user_data);
	close(fd);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Many, to measure the time. */
TEST(many)
{
	const unsigned int n = 100000;
	struct hwtimer_query *queries = calloc(4096, sizeof(*queries));
	__u64 sum = 0, began, next = 0;
	int fd = must_open(0);
	unsigned int i;
	long got;

	ASSERT_NE(NULL, queries);
	for (i = 0; i < n; i++)
		must_schedule(fd, FAR, i);
	began = now_ns();
	while ((got = hwt_list(fd, queries, 4096, &next)) > 0)
		while (got--)
			sum += queries[got].user_data;
	ASSERT_EQ(0, got);
	printf("# %u listed in %llu us\n", n, (now_ns() - began) / NSEC_PER_USEC);
	EXPECT_EQ((__u64)n * (n - 1) / 2, sum);
	free(queries);
	close(fd);
}

TEST_HARNESS_MAIN
