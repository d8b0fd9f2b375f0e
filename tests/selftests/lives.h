/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads that race on one context: what happened to each timeout, and that it ended once.
 */
#ifndef LIVES_H
#define LIVES_H

#include "hwt.h"

/* The history of a timeout, whose user_data is its index. */
struct life {
	__aligned_u64 id;
	atomic_uchar armed, cancelled, records;
};

/* A thread that reads to the end of file. */
struct reader {
	pthread_t thread;
	int fd;
	struct life *lives;
	unsigned int max, kinds[3];
};

static void *read_to_the_end(void *arg)
{
	struct reader *r = arg;
	struct hwtimer_record rec[64];
	int ret, i;

	while ((ret = hwt_read(r->fd, rec, ARRAY_SIZE(rec))) > 0) {
		for (i = 0; i < ret; i++) {
			if (rec[i].user_data >= r->max || rec[i].kind > 2 ||
			    !valid_record(&rec[i], rec[i].kind))
				die("record: user_data %llu kind %u", rec[i].user_data,
				    rec[i].kind);
			r->kinds[rec[i].kind]++;
			atomic_fetch_add(&r->lives[rec[i].user_data].records, 1);
		}
	}
	if (ret)
		die("read: %d", ret);
	return NULL;
}

/* Each arming has ended once, and STATS agrees; @back were handed back. */
static void check_lives(struct __test_metadata *_metadata, const struct reader *readers,
			unsigned int n, __u64 back)
{
	struct hwtimer_stats s = must_stats(readers->fd);
	unsigned int i, armed = 0, cancelled = 0, expired = 0, handed_back = 0;

	for (i = 0; i < readers->max; i++) {
		struct life *l = &readers->lives[i];

		ASSERT_EQ(l->armed, l->cancelled + l->records)
			TH_LOG("timeout %u: armed %u cancelled %u records %u", i, l->armed,
			       l->cancelled, l->records);
		armed += l->armed;
		cancelled += l->cancelled;
	}
	for (i = 0; i < n; i++) {
		expired += readers[i].kinds[HWTIMER_KIND_EXPIRED];
		handed_back += readers[i].kinds[HWTIMER_KIND_HANDED_BACK];
	}
	EXPECT_EQ(armed, s.scheduled);
	EXPECT_EQ(cancelled, s.cancelled);
	EXPECT_EQ(expired, s.expired);
	EXPECT_EQ(handed_back, s.handed_back);
	EXPECT_EQ(back, s.handed_back);
	EXPECT_EQ(0, s.pending);
	EXPECT_EQ(0, s.unread);
	EXPECT_TRUE(balanced(&s));
}

#endif /* LIVES_H */
