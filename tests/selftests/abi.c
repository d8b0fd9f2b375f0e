// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ABI: for each command the arguments that are refused. For each refusal everything else is
 * valid, and the context and the caller's structure stay as they were.
 */
#include "ring.h"

/* Members have the same size everywhere, so the layouts differ only if a total size does. */
static_assert(sizeof(struct hwtimer_setup) == 32, "hwtimer_setup");
static_assert(sizeof(struct hwtimer_schedule) == 64, "hwtimer_schedule");
static_assert(sizeof(struct hwtimer_touch) == 32, "hwtimer_touch");
static_assert(sizeof(struct hwtimer_cancel) == 16, "hwtimer_cancel");
static_assert(sizeof(struct hwtimer_query) == 64, "hwtimer_query");
static_assert(sizeof(struct hwtimer_stop) == 16, "hwtimer_stop");
static_assert(sizeof(struct hwtimer_stats) == 96, "hwtimer_stats");
static_assert(sizeof(struct hwtimer_record) == 64, "hwtimer_record");
static_assert(sizeof(struct hwtimer_rings) == 48, "hwtimer_rings");
static_assert(sizeof(struct hwtimer_ring) == 192, "hwtimer_ring");
static_assert(sizeof(struct hwtimer_sqe) == 32, "hwtimer_sqe");
static_assert(sizeof(struct hwtimer_enter) == 16, "hwtimer_enter");
static_assert(sizeof(struct hwtimer_list) == 32, "hwtimer_list");
static_assert(sizeof(struct hwtimer_info) == 72, "hwtimer_info");
static_assert(sizeof(struct hwtimer_wheels) == 32, "hwtimer_wheels");
static_assert(sizeof(struct hwtimer_wheel_stats) == 480, "hwtimer_wheel_stats");
static_assert(sizeof(struct hwtimer_resize) == 8, "hwtimer_resize");

#define BOTH	(_IOC_READ | _IOC_WRITE)
#define NUMBERS	14	/* numbers of commands are below this */
#define NO_NUMBER 7	/* but for this one */
#define MAX_SIZE	((1U << _IOC_SIZEBITS) - 1)
#define USER_DATA	0x0123456789abcdefULL

struct command {
	const char *name;
	unsigned long cmd;
	unsigned int known_flags;
	bool has_pad;	/* the second word must be 0 */
	bool answers;	/* the kernel writes to the structure */
	bool reads;	/* a file that is open for reading will do */
};

/* For the cases below; RINGS, ENTER, LIST and WHEELS have tests of their own. */
static const struct command commands[] = {
	{ "SETUP", HWTIMER_IOC_SETUP, HWTIMER_SETUP_OWN_WHEEL, false, true, false },
	{ "SCHEDULE", HWTIMER_IOC_SCHEDULE, HWTIMER_RELATIVE, true, true, false },
	{ "TOUCH", HWTIMER_IOC_TOUCH, HWTIMER_RELATIVE, true, true, false },
	{ "CANCEL", HWTIMER_IOC_CANCEL, 0, true, false, false },
	{ "QUERY", HWTIMER_IOC_QUERY, 0, true, true, true },
	{ "STOP", HWTIMER_IOC_STOP, 0, true, true, false },
	{ "STATS", HWTIMER_IOC_STATS, 0, true, true, true },
	{ "INFO", HWTIMER_IOC_INFO, 0, false, true, true },
	{ "RESIZE", HWTIMER_IOC_RESIZE, 0, false, true, false },
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
	case HWTIMER_IOC_INFO:
		memset(buf, 0xa5, sizeof(struct hwtimer_info));
		memset(buf, 0, offsetof(struct hwtimer_info, clocks));
		break;
	case HWTIMER_IOC_RESIZE:
		ASK(resize, .timeouts = 1 << 24);
		break;
	}
#undef ASK
}

/* Is the context as it was? */
static bool untouched(const struct command *c, const struct context *ctx)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_MONOTONIC, .cap = 5 };
	__u64 user_data, deadline;

	if (!unchanged(ctx->fd, &ctx->before)) {
		printf("# %s\n", c->name);
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

TEST(ids)
{
	EXPECT_EQ(0xfedcba9876123456ULL, HWTIMER_ID(0x123456, 0xfedcba9876ULL));
	EXPECT_EQ(0x123456U, HWTIMER_ID_INDEX(0xfedcba9876123456ULL));
	EXPECT_EQ(0xfedcba9876ULL, HWTIMER_ID_TAG(0xfedcba9876123456ULL));
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
	/* 64 slots of 1 ms: as many levels as reach 2^60 ns. */
	EXPECT_EQ(8, setup.levels);
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
	EXPECT_STATS(fd, .scheduled = 4, .touched = 1, .cancelled = 1, .expired = 1, .pending = 2,
		     .unread = 1);
}

/* What INFO says is known is accepted, and nothing else is. */
TEST(info_answers)
{
	struct hwtimer_setup setup = { .flags = HWTIMER_SETUP_OWN_WHEEL, .slots = 64 };
	struct hwtimer_rings rings = { .sq_entries = 4, .timeouts = 4 };
	__u64 min_tick = must_get_parameter("min_tick_ns");
	__u64 max_slots = must_get_parameter("max_user_slots");
	struct hwtimer_info info;
	struct ring *r;
	int fd = must_open(0), ret;
	unsigned int i;

	memset(&info, 0xa5, sizeof(info));
	info.flags = 0;
	/* Other values than the default ones. */
	EXPECT_EQ(0, set_parameter("max_user_slots", max_slots / 2));
	EXPECT_EQ(0, set_parameter("min_tick_ns", 2 * min_tick));
	ret = hwt_ioctl(fd, HWTIMER_IOC_INFO, &info);
	EXPECT_EQ(0, set_parameter("max_user_slots", max_slots));
	EXPECT_EQ(0, set_parameter("min_tick_ns", min_tick));
	ASSERT_EQ(0, ret);
	EXPECT_EQ(0, info.flags);
	EXPECT_EQ(HWTIMER_SETUP_OWN_WHEEL, info.setup_flags);
	EXPECT_EQ(HWTIMER_RELATIVE | HWTIMER_CANCEL_ON_SET, info.schedule_flags);
	EXPECT_EQ(HWTIMER_RELATIVE, info.touch_flags);
	EXPECT_EQ(1U << HWTIMER_KIND_EXPIRED | 1U << HWTIMER_KIND_HANDED_BACK |
		  1U << HWTIMER_KIND_FAILED | 1U << HWTIMER_KIND_CLOCK_SET, info.kinds);
	EXPECT_EQ(HWTIMER_RINGS_EVENTFD | (nohz_full() ? 0 : HWTIMER_RINGS_RELAXED),
		  info.rings_flags);
	EXPECT_EQ(HWTIMER_SQE_QUIET, info.sqe_flags);
	EXPECT_EQ(1 << 24, info.max_timeouts);
	EXPECT_EQ(65536, info.max_entries);
	EXPECT_EQ(0, info.pad);
	EXPECT_EQ(max_slots / 2, info.max_slots);
	EXPECT_EQ(2 * min_tick, info.min_tick_ns);
	EXPECT_EQ(!(info.features & HWTIMER_FEATURE_RINGS), hwt_rings(fd, &rings) == -EOPNOTSUPP);
	EXPECT_EQ(HWTIMER_FEATURE_WHEELS | HWTIMER_FEATURE_RESIZE,
		  info.features & ~(__u64)HWTIMER_FEATURE_RINGS);
	close(fd);
	for (i = 0; i < 32; i++) {
		fd = must_open(0);
		setup.clockid = i;
		setup.tick_ns = NSEC_PER_MSEC;
		EXPECT_EQ(info.clocks & 1U << i ? 0 : -EINVAL, hwt_setup(fd, &setup))
			TH_LOG("clock %u", i);
		close(fd);
	}
	fd = must_open(0);
	for (i = 0; i < 32; i++) {
		struct hwtimer_schedule s = {
			.time = now_ns() + FAR, .period = FAR, .policy = i,
		};

		EXPECT_EQ(info.policies & 1U << i ? 0 : -EINVAL,
			  hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s))
			TH_LOG("policy %u", i);
	}
	close(fd);
	if (!(info.features & HWTIMER_FEATURE_RINGS))
		return;
	r = must_ring(must_open(0), 4, 4, 4);
	for (i = 0; i < 32; i++) {
		struct hwtimer_record rec = { .error = 0 };

		must_put(r, i, 0, HWTIMER_ID(1, i), i == HWTIMER_OP_CANCEL ? 0 : FAR, 0);
		must_enter(r);
		ring_reap(r, &rec, 1);
		EXPECT_EQ(!!(info.sqe_ops & 1U << i), rec.error != -EINVAL)
			TH_LOG("operation %u in a ring", i);
	}
	ring_close(r);
}

/* Unknown bits of flags or of pad, wrong sizes, and inaccessible memory. */
TEST(refused)
{
	const struct command *c;

	for_each_command(c) {
		unsigned int size = _IOC_SIZE(c->cmd);
		struct context ctx = fresh(c);
		char buf[MAX_SIZE], *fence = must_fence(size);

		ask(c, &ctx, buf);
		refuses_bits(_metadata, ctx.fd, c->cmd, buf, 0, c->known_flags);
		if (c->has_pad)
			refuses_bits(_metadata, ctx.fd, c->cmd, buf, 4, 0);
		refuses_frame(_metadata, ctx.fd, c->cmd, buf);
		EXPECT_TRUE(untouched(c, &ctx));
		/* A structure that ends at the inaccessible page is fine. */
		memcpy(fence - size, buf, size);
		EXPECT_EQ(c->cmd == HWTIMER_IOC_SETUP ? -EBUSY : 0,
			  hwt_ioctl(ctx.fd, c->cmd, fence - size));
		close(ctx.fd);
	}
}

/* CANCEL has no output in its structure. */
static bool is_command(unsigned int nr, unsigned int direction)
{
	return nr < NUMBERS && nr != NO_NUMBER &&
	       direction == (nr == _IOC_NR(HWTIMER_IOC_CANCEL) ? _IOC_WRITE : BOTH);
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
				if (is_command(nr, dirs[i]))
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

/* Who may only read cannot change the context. */
TEST(read_only)
{
	static const unsigned long others[] = {
		HWTIMER_IOC_RINGS, HWTIMER_IOC_ENTER,
	};
	int fd = open(HWT_DEVICE, O_RDONLY);
	struct hwtimer_list list = { .size = sizeof(struct hwtimer_query), .count = 1 };
	struct hwtimer_wheel_stats stats;
	struct hwtimer_wheels wheels = {
		.size = sizeof(stats), .wheels = (uintptr_t)&stats, .count = 1,
	};
	const struct command *c;
	unsigned int i;

	ASSERT_LE(0, fd);
	for_each_command(c) {
		struct context ctx = { .fd = fd };
		char buf[MAX_SIZE];

		ask(c, &ctx, buf);
		EXPECT_EQ(!c->reads ? -EBADF : c->cmd == HWTIMER_IOC_QUERY ? -ENOENT : 0,
			  hwt_ioctl(fd, c->cmd, buf))
			TH_LOG("%s", c->name);
	}
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		EXPECT_EQ(-EBADF, hwt_ioctl(fd, others[i], NULL));
	}
	EXPECT_EQ(0, hwt_ioctl(fd, HWTIMER_IOC_LIST, &list));
	EXPECT_EQ(1, hwt_ioctl(fd, HWTIMER_IOC_WHEELS, &wheels));
	EXPECT_EQ(-ENOTTY, hwt_ioctl(fd, with_size(HWTIMER_IOC_LIST, 0) + NUMBERS, NULL));
	close(fd);
	/* To write is enough to schedule. */
	fd = open(HWT_DEVICE, O_WRONLY);
	ASSERT_LE(0, fd);
	must_schedule(fd, FAR, 1);
	EXPECT_EQ(-EBADF, hwt_read(fd, &(struct hwtimer_record){ }, 1));
	close(fd);
}

/* The larger structure of a newer program that requests nothing new. */
TEST(longer_with_zeros)
{
	static const unsigned int more[] = { 8, 104, 4096 };
	const struct command *c;
	unsigned int i, size;

	for_each_command(c) {
		for (i = 0; i < ARRAY_SIZE(more) + 1; i++) {
			struct context ctx = fresh(c);
			char buf[MAX_SIZE + 1] = { 0 };

			size = i < ARRAY_SIZE(more) ? _IOC_SIZE(c->cmd) + more[i] :
						      MAX_SIZE & ~7;
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
	__u64 id;

	for (i = 0; i < 2000; i++) {
		ASSERT_EQ(-EFAULT, hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, s));
	}
	/* When this timeout expires, all that were due before have expired. */
	id = must_schedule(fd, 10 * NSEC_PER_MSEC, 1);
	ASSERT_EQ(1, hwt_collect(fd, rec, 1));
	EXPECT_EQ(id, rec[0].id);
	EXPECT_STATS(fd, .scheduled = 1, .expired = 1);
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
	EXPECT_STATS(h.fd, .scheduled = ok, .pending = ok);
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
