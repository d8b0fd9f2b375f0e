// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ABI: layouts, numbers, and for each command the arguments that are refused. For each refusal
 * everything else is valid, and the context and the caller's structure stay as they were.
 */
#include "hwt.h"

static_assert(sizeof(struct hwtimer_setup) == 32, "hwtimer_setup");
static_assert(sizeof(struct hwtimer_schedule) == 64, "hwtimer_schedule");
static_assert(sizeof(struct hwtimer_touch) == 32, "hwtimer_touch");
static_assert(sizeof(struct hwtimer_cancel) == 16, "hwtimer_cancel");
static_assert(sizeof(struct hwtimer_query) == 64, "hwtimer_query");
static_assert(sizeof(struct hwtimer_stop) == 16, "hwtimer_stop");
static_assert(sizeof(struct hwtimer_stats) == 88, "hwtimer_stats");
static_assert(sizeof(struct hwtimer_record) == 48, "hwtimer_record");
static_assert(sizeof(struct hwtimer_op) == 72, "hwtimer_op");
static_assert(sizeof(struct hwtimer_batch) == 24, "hwtimer_batch");
static_assert(sizeof(struct hwtimer_rings) == 40, "hwtimer_rings");
static_assert(sizeof(struct hwtimer_ring) == 192, "hwtimer_ring");
static_assert(sizeof(struct hwtimer_sqe) == 32, "hwtimer_sqe");
static_assert(sizeof(struct hwtimer_enter) == 16, "hwtimer_enter");
static_assert(sizeof(struct hwtimer_list) == 32, "hwtimer_list");

#define BOTH	(_IOC_READ | _IOC_WRITE)
#define NUMBERS	11	/* number of commands */
#define MAX_SIZE	((1U << _IOC_SIZEBITS) - 1)
#define USER_DATA	0x0123456789abcdefULL

struct command {
	const char *name;
	unsigned long cmd;
	unsigned int known_flags;
	bool has_pad;	/* the second word must be 0 */
	bool answers;	/* the kernel writes to the structure */
	unsigned int first_size;	/* size in the first version, if it has grown since */
};

/* For the cases below; BATCH, RINGS, ENTER and LIST have tests of their own. */
static const struct command commands[] = {
	{ "SETUP", HWTIMER_IOC_SETUP, HWTIMER_SETUP_OWN_WHEEL, false, true, 0 },
	{ "SCHEDULE", HWTIMER_IOC_SCHEDULE, HWTIMER_RELATIVE, true, true, 40 },
	{ "TOUCH", HWTIMER_IOC_TOUCH, HWTIMER_RELATIVE, true, true, 0 },
	{ "CANCEL", HWTIMER_IOC_CANCEL, 0, true, false, 0 },
	{ "QUERY", HWTIMER_IOC_QUERY, 0, true, true, 32 },
	{ "STOP", HWTIMER_IOC_STOP, 0, true, true, 0 },
	{ "STATS", HWTIMER_IOC_STATS, 0, true, true, 0 },
};

#define for_each_command(c) \
	for (c = commands; c < commands + ARRAY_SIZE(commands); c++)

/* A new context and, except for SETUP, a timeout that is pending in it. */
struct context {
	int fd;
	__u64 id, deadline;
	struct hwtimer_stats before;
};

static struct context fresh(const struct command *c)
{
	struct context ctx = { .fd = must_open(0) };

	if (c->cmd != HWTIMER_IOC_SETUP) {
		ctx.id = must_schedule(ctx.fd, FAR, USER_DATA);
		if (hwt_query(ctx.fd, ctx.id, NULL, &ctx.deadline))
			die("query");
	}
	ctx.before = must_stats(ctx.fd);
	return ctx;
}

/* Fill @buf, of MAX_SIZE bytes, with a valid argument, its output fields poisoned. */
static void ask(const struct command *c, const struct context *ctx, void *buf)
{
#define ASK(type, ...) do {							\
	struct hwtimer_##type question = { __VA_ARGS__ };			\
										\
	memcpy(buf, &question, sizeof(question));				\
} while (0)
	switch (c->cmd) {
	case HWTIMER_IOC_SETUP:
		ASK(setup, .clockid = CLOCK_MONOTONIC);
		break;
	case HWTIMER_IOC_SCHEDULE:
		ASK(schedule, .time = now_ns() + FAR, .user_data = 7, .id = POISON,
		    .deadline = POISON);
		break;
	case HWTIMER_IOC_TOUCH:
		ASK(touch, .id = ctx->id, .time = now_ns() + 2 * FAR, .deadline = POISON);
		break;
	case HWTIMER_IOC_CANCEL:
		ASK(cancel, .id = ctx->id);
		break;
	case HWTIMER_IOC_QUERY:
		ASK(query, .id = ctx->id, .user_data = POISON, .deadline = POISON,
		    .period = POISON, .misfire = POISON, .unread = POISON, .policy = ~0U);
		break;
	case HWTIMER_IOC_STOP:
		ASK(stop, .handed_back = POISON);
		break;
	case HWTIMER_IOC_STATS:
		memset(buf, 0xa5, sizeof(struct hwtimer_stats));
		memset(buf, 0, offsetof(struct hwtimer_stats, now));
		break;
	}
#undef ASK
}

/* Is the context as it was? */
static bool untouched(const struct command *c, const struct context *ctx)
{
	struct hwtimer_stats after = must_stats(ctx->fd);
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 5 };
	__u64 user_data, deadline;

	if (!same_stats(&ctx->before, &after)) {
		printf("# %s: before and after:\n", c->name);
		print_stats(&ctx->before);
		print_stats(&after);
		return false;
	}
	if (c->cmd == HWTIMER_IOC_SETUP)
		return !hwt_setup(ctx->fd, &setup) && setup.cap == 5;
	if (hwt_query(ctx->fd, ctx->id, &user_data, &deadline) ||
	    user_data != USER_DATA || deadline != ctx->deadline) {
		printf("# %s: the timeout has changed\n", c->name);
		return false;
	}
	/* It has not been stopped either. */
	return !hwt_cancel(ctx->fd, must_schedule(ctx->fd, FAR, 0));
}

#define AT(type, member, offset) \
	EXPECT_EQ((size_t)(offset), offsetof(struct hwtimer_##type, member))

TEST(layout)
{
	AT(setup, flags, 0);
	AT(setup, clockid, 4);
	AT(setup, tick_ns, 8);
	AT(setup, slots, 16);
	AT(setup, levels, 20);
	AT(setup, cap, 24);

	AT(schedule, flags, 0);
	AT(schedule, pad, 4);
	AT(schedule, time, 8);
	AT(schedule, user_data, 16);
	AT(schedule, id, 24);
	AT(schedule, deadline, 32);
	AT(schedule, period, 40);
	AT(schedule, misfire, 48);
	AT(schedule, policy, 56);
	AT(schedule, pad2, 60);

	AT(touch, flags, 0);
	AT(touch, pad, 4);
	AT(touch, id, 8);
	AT(touch, time, 16);
	AT(touch, deadline, 24);

	AT(cancel, flags, 0);
	AT(cancel, pad, 4);
	AT(cancel, id, 8);

	AT(query, flags, 0);
	AT(query, pad, 4);
	AT(query, id, 8);
	AT(query, user_data, 16);
	AT(query, deadline, 24);
	AT(query, period, 32);
	AT(query, misfire, 40);
	AT(query, unread, 48);
	AT(query, policy, 56);
	AT(query, pad2, 60);

	AT(stop, flags, 0);
	AT(stop, pad, 4);
	AT(stop, handed_back, 8);

	AT(stats, flags, 0);
	AT(stats, pad, 4);
	AT(stats, now, 8);
	AT(stats, scheduled, 16);
	AT(stats, touched, 24);
	AT(stats, cancelled, 32);
	AT(stats, expired, 40);
	AT(stats, handed_back, 48);
	AT(stats, rejected, 56);
	AT(stats, pending, 64);
	AT(stats, unread, 72);
	AT(stats, cap, 80);
}

TEST(layout_of_arrays)
{
	AT(record, id, 0);
	AT(record, user_data, 8);
	AT(record, deadline, 16);
	AT(record, fired, 24);
	AT(record, overruns, 32);
	AT(record, kind, 40);
	AT(record, error, 44);

	AT(op, op, 0);
	AT(op, result, 4);
	AT(op, schedule, 8);
	AT(op, touch, 8);
	AT(op, cancel, 8);
	AT(op, query, 8);

	AT(batch, flags, 0);
	AT(batch, size, 4);
	AT(batch, ops, 8);
	AT(batch, count, 16);
	AT(batch, pad, 20);

	AT(list, flags, 0);
	AT(list, size, 4);
	AT(list, queries, 8);
	AT(list, count, 16);
	AT(list, pad, 20);
	AT(list, next, 24);
}

TEST(layout_of_rings)
{
	AT(rings, flags, 0);
	AT(rings, eventfd, 4);
	AT(rings, sq_entries, 8);
	AT(rings, cq_entries, 12);
	AT(rings, timeouts, 16);
	AT(rings, sq_offset, 20);
	AT(rings, cq_offset, 24);
	AT(rings, pad, 28);
	AT(rings, size, 32);

	AT(ring, sq_tail, 0);
	AT(ring, cq_head, 64);
	AT(ring, sq_head, 128);
	AT(ring, cq_tail, 132);
	AT(ring, flags, 136);
	AT(ring, pad2, 140);
	AT(ring, sleep_until, 144);
	AT(ring, sq_claimed, 152);
	AT(ring, pad4, 156);

	AT(sqe, op, 0);
	AT(sqe, flags, 4);
	AT(sqe, id, 8);
	AT(sqe, time, 16);
	AT(sqe, user_data, 24);

	AT(enter, flags, 0);
	AT(enter, pad, 4);
	AT(enter, taken, 8);
	AT(enter, pad2, 12);
}

TEST(numbers)
{
	EXPECT_EQ(0xc020be00U, HWTIMER_IOC_SETUP);
	EXPECT_EQ(0xc040be01U, HWTIMER_IOC_SCHEDULE);
	EXPECT_EQ(0xc020be02U, HWTIMER_IOC_TOUCH);
	EXPECT_EQ(0xc010be03U, HWTIMER_IOC_CANCEL);
	EXPECT_EQ(0xc040be04U, HWTIMER_IOC_QUERY);
	EXPECT_EQ(0xc010be05U, HWTIMER_IOC_STOP);
	EXPECT_EQ(0xc058be06U, HWTIMER_IOC_STATS);
	EXPECT_EQ(0xc018be07U, HWTIMER_IOC_BATCH);
	EXPECT_EQ(0xc028be08U, HWTIMER_IOC_RINGS);
	EXPECT_EQ(0xc010be09U, HWTIMER_IOC_ENTER);
	EXPECT_EQ(0xc020be0aU, HWTIMER_IOC_LIST);
	EXPECT_EQ(1, HWTIMER_OP_SCHEDULE);
	EXPECT_EQ(2, HWTIMER_OP_TOUCH);
	EXPECT_EQ(3, HWTIMER_OP_CANCEL);
	EXPECT_EQ(4, HWTIMER_OP_QUERY);
	EXPECT_EQ(5, HWTIMER_OP_NOP);
	EXPECT_EQ(1U, HWTIMER_RINGS_EVENTFD);
	EXPECT_EQ(2U, HWTIMER_RINGS_CLAIMS);
	EXPECT_EQ(1U, HWTIMER_SQE_QUIET);
	EXPECT_EQ(1U, HWTIMER_RING_CQ_FULL);
	EXPECT_EQ(2U, HWTIMER_RING_BAD);
	EXPECT_EQ(0xfedcba9876123456ULL, HWTIMER_ID(0x123456, 0xfedcba9876ULL));
	EXPECT_EQ(0x123456U, HWTIMER_ID_INDEX(0xfedcba9876123456ULL));
	EXPECT_EQ(0xfedcba9876ULL, HWTIMER_ID_TAG(0xfedcba9876123456ULL));
	EXPECT_EQ(1U, HWTIMER_SETUP_OWN_WHEEL);
	EXPECT_EQ(1U, HWTIMER_RELATIVE);
	EXPECT_EQ(1, HWTIMER_EXPIRED);
	EXPECT_EQ(2, HWTIMER_HANDED_BACK);
	EXPECT_EQ(3, HWTIMER_FAILED);
	EXPECT_EQ(~0ULL, HWTIMER_NEVER);
}

/* The arguments that other cases regard as valid are accepted. */
TEST(valid)
{
	const struct command *c;
	char buf[MAX_SIZE];

	for_each_command(c) {
		struct context ctx = fresh(c);

		ask(c, &ctx, buf);
		ASSERT_EQ(0, hwt_ioctl(ctx.fd, c->cmd, buf))
			TH_LOG("%s", c->name);
		close(ctx.fd);
	}
}

TEST(setup_answers)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC };
	int fd = must_open(0);

	ASSERT_EQ(0, hwt_setup(fd, &setup));
	EXPECT_EQ(0, setup.flags);
	EXPECT_EQ(CLOCK_MONOTONIC, setup.clockid);
	EXPECT_EQ(must_get_parameter("tick_ns"), setup.tick_ns);
	EXPECT_EQ(must_get_parameter("slots"), setup.slots);
	/* A growing wheel: the current number of levels. */
	EXPECT_LE(1, setup.levels);
	EXPECT_EQ(1ULL << 24, setup.cap);
	EXPECT_EQ(1ULL << 24, must_stats(fd).cap);
}

TEST(schedule_answers)
{
	int fd = must_open(0);
	__u64 time = now_ns() + FAR, id = 0, deadline = 0, user_data = 0;

	ASSERT_EQ(0, hwt_schedule(fd, 0, time, USER_DATA, &id, &deadline));
	EXPECT_NE(0, id);
	EXPECT_EQ(time, deadline);
	ASSERT_EQ(0, hwt_query(fd, id, &user_data, &deadline));
	EXPECT_EQ(USER_DATA, user_data);
	EXPECT_EQ(time, deadline);
}

TEST(touch_answers)
{
	int fd = must_open(0);
	__u64 id = must_schedule(fd, FAR, USER_DATA), time = now_ns() + 2 * FAR;
	__u64 deadline = 0, user_data = 0;

	ASSERT_EQ(0, hwt_touch(fd, 0, id, time, &deadline));
	EXPECT_EQ(time, deadline);
	ASSERT_EQ(0, hwt_query(fd, id, &user_data, &deadline));
	EXPECT_EQ(time, deadline);
	EXPECT_EQ(USER_DATA, user_data);
}

TEST(stop_answers)
{
	int fd = must_open(0);
	__u64 handed_back = 0;

	must_schedule(fd, FAR, 1);
	must_schedule(fd, FAR, 2);
	ASSERT_EQ(0, hwt_stop(fd, &handed_back));
	EXPECT_EQ(2, handed_back);
}

TEST(stats_answers)
{
	int fd = must_open(0);
	struct hwtimer_stats s = must_stats(fd), none = { 0 };
	__u64 before, id;

	none.now = s.now;
	none.cap = s.cap;
	EXPECT_EQ(0, memcmp(&s, &none, sizeof(s)));

	id = must_schedule(fd, FAR, 0);
	must_schedule(fd, FAR, 0);
	must_schedule(fd, FAR, 0);
	ASSERT_EQ(0, hwt_touch(fd, 0, id, now_ns() + FAR, NULL));
	ASSERT_EQ(0, hwt_cancel(fd, id));
	must_schedule(fd, 0, 0);
	eventually(must_stats(fd).expired == 1);
	before = now_ns();
	s = must_stats(fd);
	EXPECT_LE(before, s.now);
	EXPECT_GE(now_ns(), s.now);
	EXPECT_EQ(4, s.scheduled);
	EXPECT_EQ(1, s.touched);
	EXPECT_EQ(1, s.cancelled);
	EXPECT_EQ(1, s.expired);
	EXPECT_EQ(0, s.handed_back);
	EXPECT_EQ(0, s.rejected);
	EXPECT_EQ(2, s.pending);
	EXPECT_EQ(1, s.unread);
	EXPECT_TRUE(balanced(&s));
}

/* Each unknown bit of flags or of pad is refused. */
static void refuse_bits(struct __test_metadata *_metadata, const struct command *c,
			unsigned int word, __u32 known)
{
	int bit;

	for (bit = 0; bit < 32; bit++) {
		char buf[MAX_SIZE], copy[MAX_SIZE];
		struct context ctx;
		__u32 value;

		if (known & (1U << bit))
			continue;
		ctx = fresh(c);
		ask(c, &ctx, buf);
		memcpy(&value, buf + 4 * word, 4);
		value |= 1U << bit;
		memcpy(buf + 4 * word, &value, 4);
		memcpy(copy, buf, _IOC_SIZE(c->cmd));
		ASSERT_EQ(-EINVAL, hwt_ioctl(ctx.fd, c->cmd, buf))
			TH_LOG("%s: word %u bit %d", c->name, word, bit);
		EXPECT_EQ(0, memcmp(buf, copy, _IOC_SIZE(c->cmd)));
		EXPECT_TRUE(untouched(c, &ctx));
		close(ctx.fd);
	}
}

TEST(unknown_flags)
{
	const struct command *c;

	for_each_command(c)
		refuse_bits(_metadata, c, 0, c->known_flags);
}

TEST(pad)
{
	const struct command *c;

	for_each_command(c)
		if (c->has_pad)
			refuse_bits(_metadata, c, 1, 0);
}

/* Numbers, directions and magics of other commands. */
TEST(unknown_commands)
{
	static const unsigned int dirs[] = { _IOC_NONE, _IOC_READ, _IOC_WRITE, BOTH };
	const struct command *c;
	unsigned int i, nr;

	for_each_command(c) {
		struct context ctx = fresh(c);
		unsigned int size = _IOC_SIZE(c->cmd);
		char buf[MAX_SIZE];

		ask(c, &ctx, buf);
		for (i = 0; i < ARRAY_SIZE(dirs); i++) {
			for (nr = 0; nr < 256; nr++) {
				if (nr < NUMBERS && dirs[i] == BOTH)
					continue;
				EXPECT_EQ(-ENOTTY, hwt_ioctl(ctx.fd,
					_IOC(dirs[i], HWTIMER_IOC_MAGIC, nr, size),
					buf))
					TH_LOG("number %u, direction %u, size of %s",
					       nr, dirs[i], c->name);
			}
		}
		EXPECT_EQ(-ENOTTY, hwt_ioctl(ctx.fd, _IOC(_IOC_DIR(c->cmd),
			HWTIMER_IOC_MAGIC ^ 1, _IOC_NR(c->cmd), size), buf));
		EXPECT_EQ(-ENOTTY, hwt_ioctl(ctx.fd, _IOC(_IOC_DIR(c->cmd),
			HWTIMER_IOC_MAGIC ^ 0x80, _IOC_NR(c->cmd), size), buf));
		EXPECT_TRUE(untouched(c, &ctx));
		close(ctx.fd);
	}
}

/* The larger structure of a newer program that requests nothing new. */
TEST(longer_with_zeros)
{
	static const unsigned int more[] = { 1, 4, 8, 100, 4096 };
	const struct command *c;
	unsigned int i, size;

	for_each_command(c) {
		for (i = 0; i < ARRAY_SIZE(more) + 1; i++) {
			struct context ctx = fresh(c);
			char buf[MAX_SIZE + 1] = { 0 };

			size = i < ARRAY_SIZE(more) ? _IOC_SIZE(c->cmd) + more[i] :
						      MAX_SIZE;
			ask(c, &ctx, buf);
			ASSERT_EQ(0, hwt_ioctl(ctx.fd, with_size(c->cmd, size), buf))
				TH_LOG("%s: size %u", c->name, size);
			/* The unknown fields are still 0. */
			for (size = _IOC_SIZE(c->cmd); size < sizeof(buf); size++) {
				ASSERT_EQ(0, buf[size]);
			}
			if (c->cmd == HWTIMER_IOC_SCHEDULE) {
				EXPECT_EQ(2, must_stats(ctx.fd).pending);
			}
			if (c->cmd == HWTIMER_IOC_CANCEL) {
				EXPECT_EQ(0, must_stats(ctx.fd).pending);
			}
			close(ctx.fd);
		}
	}
}

/* The larger structure of a newer program that requests something new. */
TEST(longer_with_more)
{
	static const unsigned int more[] = { 1, 4, 8, 100, 4096 };
	const struct command *c;
	unsigned int i, where;

	for_each_command(c) {
		unsigned int first = _IOC_SIZE(c->cmd);

		for (i = 0; i < ARRAY_SIZE(more); i++) {
			for (where = 0; where < more[i];
			     where += more[i] > 1 ? more[i] - 1 : 1) {
				char buf[MAX_SIZE] = { 0 }, copy[MAX_SIZE];
				struct context ctx = fresh(c);

				ask(c, &ctx, buf);
				buf[first + where] = 1;
				memcpy(copy, buf, sizeof(copy));
				ASSERT_EQ(-E2BIG, hwt_ioctl(ctx.fd,
					  with_size(c->cmd, first + more[i]), buf))
					TH_LOG("%s: %u more, the one at %u", c->name,
					       more[i], where);
				EXPECT_EQ(0, memcmp(buf, copy, sizeof(buf)));
				EXPECT_TRUE(untouched(c, &ctx));
				close(ctx.fd);
			}
		}
	}
}

/* Shorter than the structure of any version. */
TEST(shorter)
{
	const struct command *c;
	unsigned int size;

	for_each_command(c) {
		struct context ctx = fresh(c);
		char buf[MAX_SIZE], copy[MAX_SIZE];

		ask(c, &ctx, buf);
		memcpy(copy, buf, _IOC_SIZE(c->cmd));
		for (size = 0; size < (c->first_size ?: _IOC_SIZE(c->cmd)); size++) {
			ASSERT_EQ(-EINVAL, hwt_ioctl(ctx.fd,
						     with_size(c->cmd, size), buf))
				TH_LOG("%s: size %u", c->name, size);
		}
		EXPECT_EQ(0, memcmp(buf, copy, _IOC_SIZE(c->cmd)));
		EXPECT_TRUE(untouched(c, &ctx));
		close(ctx.fd);
	}
}

TEST(unreadable)
{
	char *fence = must_fence(1);
	const struct command *c;
	unsigned int part;

	for_each_command(c) {
		struct context ctx = fresh(c);
		unsigned int size = _IOC_SIZE(c->cmd);
		char buf[MAX_SIZE];

		ask(c, &ctx, buf);
		EXPECT_EQ(-EFAULT, hwt_ioctl(ctx.fd, c->cmd, NULL));
		EXPECT_EQ(-EFAULT, hwt_ioctl(ctx.fd, c->cmd, (void *)-1L));
		EXPECT_EQ(-EFAULT, hwt_ioctl(ctx.fd, c->cmd, (void *)(LONG_MIN)));
		/* A part of it is accessible. */
		for (part = 0; part < size; part++) {
			memcpy(fence - part, buf, part);
			ASSERT_EQ(-EFAULT, hwt_ioctl(ctx.fd, c->cmd, fence - part))
				TH_LOG("%s: %u bytes accessible", c->name, part);
		}
		/* The known fields are accessible, but not the announced size. */
		memcpy(fence - size, buf, size);
		EXPECT_EQ(-EFAULT, hwt_ioctl(ctx.fd, with_size(c->cmd, size + 8),
					     fence - size));
		EXPECT_TRUE(untouched(c, &ctx));
		/* A structure that ends at the inaccessible page is fine. */
		EXPECT_EQ(c->cmd == HWTIMER_IOC_SETUP ? -EBUSY : 0,
			  hwt_ioctl(ctx.fd, c->cmd, fence - size));
		close(ctx.fd);
	}
}

/* Call with a valid argument in read-only memory. */
static int ask_read_only(const struct command *c, const struct context *ctx)
{
	char question[128];

	ask(c, ctx, question);
	return hwt_ioctl(ctx->fd, c->cmd, must_read_only(question, _IOC_SIZE(c->cmd)));
}

TEST(unwritable)
{
	const struct command *c;

	for_each_command(c) {
		struct context ctx = fresh(c);

		ASSERT_EQ(c->answers ? -EFAULT : 0, ask_read_only(c, &ctx))
			TH_LOG("%s", c->name);
		switch (c->cmd) {
		default:
			EXPECT_TRUE(untouched(c, &ctx));
			break;
		case HWTIMER_IOC_CANCEL:
			/* has no output fields */
			EXPECT_EQ(1, must_stats(ctx.fd).cancelled);
			break;
		case HWTIMER_IOC_STOP:
			/* takes effect nevertheless */
			EXPECT_EQ(1, must_stats(ctx.fd).handed_back);
			EXPECT_EQ(-ESHUTDOWN, hwt_schedule(ctx.fd, HWTIMER_RELATIVE,
							   FAR, 0, NULL, NULL));
			break;
		}
		close(ctx.fd);
	}
}

/* A SCHEDULE whose result cannot be written adds no record, however soon it is due. */
TEST(unwritable_schedule_never_expires)
{
	const struct hwtimer_schedule soon = { .flags = HWTIMER_RELATIVE, .user_data = 666 };
	struct hwtimer_schedule *s = must_read_only(&soon, sizeof(soon));
	struct hwtimer_record rec[2];
	int fd = must_open(0), i;
	struct hwtimer_stats stats;
	__u64 id;

	for (i = 0; i < 2000; i++) {
		ASSERT_EQ(-EFAULT, hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, s));
	}
	/* When this timeout expires, all that were due before have expired. */
	id = must_schedule(fd, 10 * NSEC_PER_MSEC, 1);
	ASSERT_EQ(1, hwt_collect(fd, rec, 1));
	EXPECT_EQ(id, rec[0].id);
	stats = must_stats(fd);
	EXPECT_EQ(1, stats.scheduled);
	EXPECT_EQ(1, stats.expired);
	EXPECT_EQ(0, stats.pending);
	EXPECT_EQ(0, stats.unread);
}

/* A SETUP whose result cannot be written leaves no wheel behind. */
TEST(unwritable_setup_leaves_no_wheel)
{
	const struct hwtimer_setup own = {
		.flags = HWTIMER_SETUP_OWN_WHEEL, .clockid = CLOCK_MONOTONIC,
		.tick_ns = NSEC_PER_MSEC, .slots = 64,
	};
	struct hwtimer_setup *s = must_read_only(&own, sizeof(own));
	int fd = must_open(0), i;
	char path[64];

	for (i = 0; i < 100; i++) {
		ASSERT_EQ(-EFAULT, hwt_ioctl(fd, HWTIMER_IOC_SETUP, s));
	}
	snprintf(path, sizeof(path), HWT_DEBUGFS "/pid-%d", getpid());
	EXPECT_EQ(-1, access(path, F_OK));
	ASSERT_EQ(0, hwt_own_wheel(fd, 2 * NSEC_PER_MSEC, 64, 0));
	EXPECT_EQ(0, access(path, F_OK));
	must_schedule(fd, FAR, 0);
}

/* Another thread changes the argument meanwhile: it is copied once, and the copy is checked. */
struct hostile {
	int fd;
	struct hwtimer_schedule s;
	atomic_bool done;
};

static void *flip_flags(void *arg)
{
	struct hostile *h = arg;
	volatile __u32 *flags = &h->s.flags, *pad = &h->s.pad;

	while (!atomic_load(&h->done)) {
		*flags = HWTIMER_RELATIVE;
		*pad = 0;
		*flags = ~0U;
		*pad = 1;
	}
	return NULL;
}

TEST(changed_meanwhile)
{
	struct hostile h = { .fd = must_open(0) };
	struct hwtimer_stats stats;
	unsigned int ok = 0, i;
	pthread_t thread;
	int ret;

	start(&thread, flip_flags, &h);
	for (i = 0; i < 20000; i++) {
		h.s.time = FAR;
		ret = hwt_ioctl(h.fd, HWTIMER_IOC_SCHEDULE, &h.s);
		if (!ret)
			ok++;
		else if (ret != -EINVAL)
			break;
	}
	atomic_store(&h.done, true);
	pthread_join(thread, NULL);
	ASSERT_EQ(20000, i);
	stats = must_stats(h.fd);
	EXPECT_EQ(ok, stats.scheduled);
	EXPECT_EQ(ok, stats.pending);
}

TEST(device_node)
{
	struct stat st;
	int fd;

	ASSERT_EQ(0, stat(HWT_DEVICE, &st));
	EXPECT_TRUE(S_ISCHR(st.st_mode));
	EXPECT_EQ(0600, st.st_mode & 07777);
	EXPECT_EQ(0, st.st_uid);
	fd = open(HWT_DEVICE, O_RDONLY | O_CLOEXEC);
	EXPECT_LE(0, fd);
	close(fd);
}

TEST_HARNESS_MAIN
