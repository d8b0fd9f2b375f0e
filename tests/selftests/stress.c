// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that do random operations on shared contexts, with a book for each timeout. In the end
 * each has ended exactly once, and the kernel's counters agree with the books.
 *
 * SEED=N runs the same operations again, as far as two CPUs allow; OPS=N sets the operations of
 * each thread.
 */
#include "hwt.h"

#define THREADS		4
#define CONTEXTS	3
#define TABLE		512	/* timeouts that any thread can use */

/* One arming. */
struct book {
	__u64 id;
	atomic_ullong earliest;	/* of the deadlines granted */
	atomic_uchar cancelled;
	atomic_uchar records;
	bool armed;
};

struct shared {
	int fd;
	unsigned int first_book;
	pthread_t reader;
	atomic_uint table[TABLE];	/* a book's number + 1 */
	atomic_ulong touched, rejected;
	unsigned long expired, handed_back;
	atomic_int error;
};

struct worker {
	pthread_t thread;
	__u64 random;
	unsigned int number;
};

static struct book *books;
static struct shared contexts[CONTEXTS];
static unsigned int ops;
static atomic_int stopping;

static unsigned int books_each(void)
{
	return THREADS * ops;
}

static void complain(struct shared *c, int line, long value)
{
	printf("# stress.c:%d: context %d: %ld\n", line, (int)(c - contexts), value);
	fflush(stdout);
	atomic_store(&c->error, line);
}

static void lower(_Atomic __u64 *earliest, __u64 deadline)
{
	__u64 old = atomic_load(earliest);

	while (deadline < old &&
	       !atomic_compare_exchange_weak(earliest, &old, deadline))
		;
}

static __u64 random_delay(__u64 *random)
{
	switch (rnd(random) % 8) {
	case 0:
		return 0;
	case 1:
	case 2:
	case 3:
		return rnd(random) % (4 * NSEC_PER_MSEC);
	case 4:
		return rnd(random) % (100 * NSEC_PER_MSEC);
	case 5:
		return HWTIMER_NEVER;
	default:
		return FAR + rnd(random) % FAR;
	}
}

/* Arm the timeout of book @n, and publish it. */
static void do_arm(struct shared *c, unsigned int n, __u64 *random)
{
	struct hwtimer_schedule s = {
		.flags = HWTIMER_RELATIVE, .time = random_delay(random),
		.user_data = n,
	};
	struct book *b = &books[n];
	int ret;

	/* Before its record can be there. */
	atomic_store(&b->earliest, now_ns());
	ret = hwt_ioctl(c->fd, HWTIMER_IOC_SCHEDULE, &s);
	if (!ret) {
		b->id = s.id;
		b->armed = true;
		if (s.deadline < atomic_load(&b->earliest))
			complain(c, __LINE__, n);
		atomic_store(&c->table[rnd(random) % TABLE], n + 1);
	} else if (ret == -EAGAIN) {
		atomic_fetch_add(&c->rejected, 1);
	} else if (ret != -ESHUTDOWN || !atomic_load(&stopping)) {
		complain(c, __LINE__, ret);
	}
}

static void do_touch(struct shared *c, struct book *b, __u64 *random)
{
	__u64 deadline;
	int ret;

	lower(&b->earliest, now_ns());
	ret = hwt_touch(c->fd, HWTIMER_RELATIVE, b->id, random_delay(random), &deadline);
	if (!ret) {
		atomic_fetch_add(&c->touched, 1);
		lower(&b->earliest, deadline);
	} else if (ret != -ENOENT && (ret != -ESHUTDOWN || !atomic_load(&stopping))) {
		complain(c, __LINE__, ret);
	}
}

static void do_cancel(struct shared *c, struct book *b)
{
	int ret = hwt_cancel(c->fd, b->id);

	if (!ret)
		atomic_fetch_add(&b->cancelled, 1);
	else if (ret != -ENOENT)
		complain(c, __LINE__, ret);
}

static void do_query(struct shared *c, struct book *b)
{
	__u64 user_data = 0;
	int ret = hwt_query(c->fd, b->id, &user_data, NULL);

	if (ret && ret != -ENOENT)
		complain(c, __LINE__, ret);
	if (!ret && &books[user_data] != b)
		complain(c, __LINE__, user_data);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned int i, n;

	for (i = 0; i < ops; i++) {
		struct shared *c = &contexts[rnd(&w->random) % CONTEXTS];
		struct hwtimer_stats s;

		n = atomic_load(&c->table[rnd(&w->random) % TABLE]);
		switch (rnd(&w->random) % 16) {
		case 0 ... 5:
			do_arm(c, c->first_book + w->number * ops + i, &w->random);
			break;
		case 6 ... 9:
			if (n)
				do_touch(c, &books[n - 1], &w->random);
			break;
		case 10 ... 13:
			if (n)
				do_cancel(c, &books[n - 1]);
			break;
		case 14:
			if (n)
				do_query(c, &books[n - 1]);
			break;
		default:
			s = must_stats(c->fd);
			if (!balanced(&s)) {
				complain(c, __LINE__, s.scheduled);
				print_stats(&s);
			}
		}
	}
	return NULL;
}

static void *read_to_the_end(void *arg)
{
	struct hwtimer_record rec[50];
	struct shared *c = arg;
	int ret, i;

	while ((ret = hwt_read(c->fd, rec, ARRAY_SIZE(rec))) > 0) {
		for (i = 0; i < ret; i++) {
			__u64 n = rec[i].user_data;

			if (n < c->first_book || n >= c->first_book + books_each() ||
			    !valid_record(&rec[i], rec[i].kind)) {
				complain(c, __LINE__, n);
				continue;
			}
			if (rec[i].kind == HWTIMER_KIND_EXPIRED)
				c->expired++;
			else
				c->handed_back++;
			if (rec[i].deadline < atomic_load(&books[n].earliest))
				complain(c, __LINE__, n);
			atomic_fetch_add(&books[n].records, 1);
		}
	}
	if (ret)
		complain(c, __LINE__, ret);
	return NULL;
}

/* A thread that reads debugfs and fdinfo all the time. */
static atomic_bool reading;

static void *keep_reading(void *arg)
{
	(void)arg;
	while (atomic_load(&reading)) {
		char path[64];
		int i;

		free(must_slurp(HWT_DEBUGFS "/dev/stats"));
		free(must_slurp(HWT_DEBUGFS "/dev/buckets"));
		for (i = 0; i < CONTEXTS; i++) {
			snprintf(path, sizeof(path), "/proc/self/fdinfo/%d",
				 contexts[i].fd);
			free(must_slurp(path));
		}
		usleep(1000);
	}
	return NULL;
}

static void check(struct __test_metadata *_metadata, struct shared *c)
{
	unsigned long armed = 0, cancelled = 0;
	struct hwtimer_stats s = must_stats(c->fd);
	unsigned int n;

	for (n = c->first_book; n < c->first_book + books_each(); n++) {
		struct book *b = &books[n];

		ASSERT_EQ(b->armed, b->cancelled + b->records)
			TH_LOG("book %u: id %llx armed %d cancelled %u records %u", n,
			       b->id, b->armed, b->cancelled, b->records);
		armed += b->armed;
		cancelled += b->cancelled;
	}
	print_stats(&s);
	EXPECT_STATS(c->fd, .scheduled = armed, .touched = c->touched, .cancelled = cancelled,
		     .expired = c->expired, .handed_back = c->handed_back, .rejected = c->rejected);
	EXPECT_EQ(0, atomic_load(&c->error));
}

static void run(struct __test_metadata *_metadata, bool stop_early)
{
	struct worker workers[THREADS];
	const char *wanted = getenv("OPS");
	__u64 random = seed();
	pthread_t reader_of_files;
	int i;

	ops = wanted ? strtoul(wanted, NULL, 0) : 200000;
	printf("# OPS=%u\n", ops);
	books = must_alloc(CONTEXTS * books_each(), sizeof(*books));
	for (i = 0; i < CONTEXTS; i++) {
		contexts[i].fd = must_open(0);
		contexts[i].first_book = i * books_each();
	}
	/*
	 * One on the shared wheel, two on own wheels: with a fine tick, and with a coarse one and
	 * a cap.
	 */
	ASSERT_EQ(0, hwt_own_wheel(contexts[1].fd, 300 * NSEC_PER_USEC, 256, 0));
	ASSERT_EQ(0, hwt_own_wheel(contexts[2].fd, 7 * NSEC_PER_MSEC, 3, 300));
	for (i = 0; i < CONTEXTS; i++)
		start(&contexts[i].reader, read_to_the_end, &contexts[i]);
	atomic_store(&reading, true);
	start(&reader_of_files, keep_reading, NULL);

	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .random = rnd(&random) | 1, .number = i };
		start(&workers[i].thread, work, &workers[i]);
	}
	if (stop_early) {
		__u64 when = rnd(&random) % (ops / 4) + 1;

		while (must_stats(contexts[0].fd).scheduled < when)
			usleep(100);
		atomic_store(&stopping, 1);
		for (i = 0; i < CONTEXTS; i++) {
			EXPECT_EQ(0, hwt_stop(contexts[i].fd, NULL));
		}
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	atomic_store(&stopping, 1);
	for (i = 0; i < CONTEXTS; i++) {
		EXPECT_EQ(0, hwt_stop(contexts[i].fd, NULL));
		pthread_join(contexts[i].reader, NULL);
	}
	atomic_store(&reading, false);
	pthread_join(reader_of_files, NULL);
	for (i = 0; i < CONTEXTS; i++) {
		check(_metadata, &contexts[i]);
		close(contexts[i].fd);
	}
	free(books);
	eventually(!module_references());
}

TEST(to_the_end)
{
	run(_metadata, false);
}

TEST(stopped_early)
{
	run(_metadata, true);
}

TEST_HARNESS_MAIN
