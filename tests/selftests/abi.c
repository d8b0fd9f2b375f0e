// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ABI of /dev/hwtimer: for each command the arguments that are refused. For each refusal
 * everything else is valid, and the context and the caller's structure stay as they were.
 * (dev/device.c has the sizes of structures, scripts/checks/abi the numbers.)
 */
#include "calls.h"

#define BOTH		(_IOC_READ | _IOC_WRITE)
#define MAX_SIZE	((1U << _IOC_SIZEBITS) - 1)
#define USER_DATA	0x0123456789abcdefULL

/* Kinds of contexts. */
#define CALLS	1
#define TABLE	2
#define EITHER	3

/**
 * struct command - a command
 * @name: its name
 * @cmd: its number
 * @kinds: of which contexts; 0: it needs no SETUP
 * @known: the flags that there are
 * @flags: where the flags are; 0: there are none
 * @pad: where the pad is; 0: there is none
 */
struct command {
	const char	*name;
	unsigned long	cmd;
	unsigned int	kinds;
	__u32		known;
	size_t		flags, pad;
};

static const struct command commands[] = {
	{ "SETUP", HWTIMER_IOC_SETUP, 0, HWTIMER_SETUP_TABLE,
	  offsetof(struct hwtimer_setup, flags), offsetof(struct hwtimer_setup, pad) },
	{ "SCHEDULE", HWTIMER_IOC_SCHEDULE, CALLS, HWTIMER_RELATIVE,
	  offsetof(struct hwtimer_schedule, flags), 0 },
	{ "TOUCH", HWTIMER_IOC_TOUCH, CALLS, HWTIMER_RELATIVE,
	  offsetof(struct hwtimer_touch, flags), offsetof(struct hwtimer_touch, pad) },
	{ "CANCEL", HWTIMER_IOC_CANCEL, CALLS, 0, 0, 0 },
	{ "QUERY", HWTIMER_IOC_QUERY, CALLS, 0, 0, 0 },
	{ "GROW", HWTIMER_IOC_GROW, TABLE, 0, 0, 0 },
	{ "INFO", HWTIMER_IOC_INFO, EITHER, 0, 0, 0 },
	{ "STATS", HWTIMER_IOC_STATS, EITHER, 0, 0, 0 },
	{ "ENTER", HWTIMER_IOC_ENTER, TABLE, 0, 0, 0 },
	{ "STOP", HWTIMER_IOC_STOP, EITHER, 0, 0, 0 },
	{ "LIST", HWTIMER_IOC_LIST, EITHER, 0, 0, 0 },
	{ "WHEELS", HWTIMER_IOC_WHEELS, 0, 0, 0, 0 },
};

#define for_each_command(c) \
	for (c = commands; c < commands + ARRAY_SIZE(commands); c++)

/* The command as a program with another version of the header would have compiled it. */
static unsigned long with_size(unsigned long cmd, unsigned int size)
{
	return _IOC(_IOC_DIR(cmd), _IOC_TYPE(cmd), _IOC_NR(cmd), size);
}

static int must_open_for(int flags)
{
	int fd = open(DEVICE, flags | O_CLOEXEC);

	if (fd < 0)
		die(DEVICE ": %s", strerror(errno));
	return fd;
}

/* A context and, by calls, a timeout that is pending in it. */
struct context {
	int fd;
	unsigned int kind;
	struct hwtimer_info info;
	struct hwtimer_query query;
};

static struct context must_set_up(unsigned int kind)
{
	struct hwtimer_setup setup = {
		.clockid = CLOCK_MONOTONIC, .flags = kind == TABLE ? HWTIMER_SETUP_TABLE : 0,
		.slots = 256,
	};
	struct hwtimer_schedule s = { .time = now_ns() + FAR, .user_data = USER_DATA };
	struct context ctx = { .fd = must_open(0), .kind = kind };

	if (!kind)
		return ctx;
	if (ioctl(ctx.fd, HWTIMER_IOC_SETUP, &setup) ||
	    ioctl(ctx.fd, HWTIMER_IOC_INFO, &ctx.info))
		die("SETUP: %s", strerror(errno));
	if (kind == TABLE)
		return ctx;
	if (ioctl(ctx.fd, HWTIMER_IOC_SCHEDULE, &s))
		die("SCHEDULE: %s", strerror(errno));
	ctx.query.id = s.id;
	if (ioctl(ctx.fd, HWTIMER_IOC_QUERY, &ctx.query))
		die("QUERY: %s", strerror(errno));
	return ctx;
}

/* A context that @c is for. */
static struct context fresh(const struct command *c)
{
	return must_set_up(c->kinds & CALLS ?: c->kinds);
}

/* Fill @buf, of MAX_SIZE bytes, with a valid argument. */
static void ask(const struct command *c, const struct context *ctx, void *buf)
{
	static struct hwtimer_wheel_info entry;
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
		ASK(schedule, .time = now_ns() + FAR, .user_data = 7, .id = POISON);
		break;
	case HWTIMER_IOC_TOUCH:
		ASK(touch, .id = ctx->query.id, .time = now_ns() + 2 * FAR);
		break;
	case HWTIMER_IOC_CANCEL:
		ASK(cancel, .id = ctx->query.id);
		break;
	case HWTIMER_IOC_QUERY:
		ASK(query, .id = ctx->query.id, .deadline_ns = POISON, .period_ns = POISON,
		    .user_data = POISON);
		break;
	case HWTIMER_IOC_GROW:
		ASK(grow, .slots = 10000, .ring = ~0U);
		break;
	case HWTIMER_IOC_LIST:
	case HWTIMER_IOC_WHEELS:
		ASK(list, .entries = (uintptr_t)&entry, .size = sizeof(entry), .count = 1);
		break;
	default:
		memset(buf, 0xa5, _IOC_SIZE(c->cmd));
	}
#undef ASK
}

/* Is the context as it was? */
static bool untouched(const struct context *ctx)
{
	struct hwtimer_schedule s = { .time = HWTIMER_NEVER };
	struct hwtimer_query q = { .id = ctx->query.id };
	struct hwtimer_info info;
	int ret = hwt_ioctl(ctx->fd, HWTIMER_IOC_INFO, &info);

	if (!ctx->kind)
		return ret == -ENXIO;
	if (ret || info.slots != ctx->info.slots ||
	    must_stats(ctx->fd).pending != (ctx->kind & CALLS))
		return false;
	if (ctx->kind == TABLE)
		return true;
	if (ioctl(ctx->fd, HWTIMER_IOC_QUERY, &q) || memcmp(&q, &ctx->query, sizeof(q)))
		return false;
	/* It has not been stopped either. */
	return !ioctl(ctx->fd, HWTIMER_IOC_SCHEDULE, &s) &&
	       !ioctl(ctx->fd, HWTIMER_IOC_CANCEL, &(struct hwtimer_cancel){ s.id });
}

/* What other cases regard as valid is accepted, right before an inaccessible page, too. */
TEST(valid)
{
	char *fence = must_fence(1), buf[MAX_SIZE], *at;
	const struct command *c;

	for_each_command(c) {
		struct context ctx = fresh(c);

		ask(c, &ctx, buf);
		at = fence - _IOC_SIZE(c->cmd);
		memcpy(at, buf, _IOC_SIZE(c->cmd));
		ASSERT_EQ(0, hwt_ioctl(ctx.fd, c->cmd, at))
			TH_LOG("%s", c->name);
		close(ctx.fd);
	}
}

/* Sizes that no header can have, requests of newer programs, and inaccessible memory. */
static void refuses_frame(struct __test_metadata *_metadata, int fd, const struct command *c,
			  const void *valid)
{
	static const unsigned int more[] = { 8, 104, 4096 };
	unsigned int size = _IOC_SIZE(c->cmd), i, k;
	char buf[8192] = { 0 }, copy[8192], *fence = must_fence(1);

	memcpy(buf, valid, size);
	for (i = 0; i < size + 16; i++) {
		if (i >= size && i % 8 == 0)
			continue;
		ASSERT_EQ(-EINVAL, hwt_ioctl(fd, with_size(c->cmd, i), buf))
			TH_LOG("%s, size %u", c->name, i);
	}
	ASSERT_EQ(0, memcmp(buf, valid, size));
	for (i = 0; _IOC_DIR(c->cmd) & _IOC_WRITE && i < ARRAY_SIZE(more); i++) {
		/* In the first and in the last byte. */
		for (k = 0; k < 2; k++) {
			memcpy(copy, buf, sizeof(copy));
			copy[size + k * (more[i] - 1)] = 1;
			ASSERT_EQ(-E2BIG, hwt_ioctl(fd, with_size(c->cmd, size + more[i]), copy))
				TH_LOG("%s, %u more", c->name, more[i]);
			copy[size + k * (more[i] - 1)] = 0;
			ASSERT_EQ(0, memcmp(buf, copy, sizeof(buf)));
		}
	}
	if (!size)
		return;
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, c->cmd, NULL));
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, c->cmd, (void *)-1L));
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, c->cmd, (void *)LONG_MIN));
	/* A part of it is accessible. */
	for (i = 0; i < size; i++) {
		memcpy(fence - i, valid, i);
		ASSERT_EQ(-EFAULT, hwt_ioctl(fd, c->cmd, fence - i))
			TH_LOG("%s, %u bytes accessible", c->name, i);
	}
	/* The known fields are accessible, but not the announced size. */
	memcpy(fence - size, valid, size);
	EXPECT_EQ(-EFAULT, hwt_ioctl(fd, with_size(c->cmd, size + 8), fence - size));
}

/* Each bit outside @known in the word at @offset is refused with -EINVAL. */
static void refuses_bits(struct __test_metadata *_metadata, int fd, const struct command *c,
			 const void *valid, size_t offset, __u32 known)
{
	unsigned int size = _IOC_SIZE(c->cmd), bit;
	char buf[64], copy[64];
	__u32 word;

	for (bit = 0; bit < 32; bit++) {
		if (known & (1U << bit))
			continue;
		memcpy(buf, valid, size);
		memcpy(&word, buf + offset, sizeof(word));
		word |= 1U << bit;
		memcpy(buf + offset, &word, sizeof(word));
		memcpy(copy, buf, size);
		ASSERT_EQ(-EINVAL, hwt_ioctl(fd, c->cmd, buf))
			TH_LOG("%s, bit %u of the word at %zu", c->name, bit, offset);
		ASSERT_EQ(0, memcmp(buf, copy, size));
	}
}

/* Unknown bits of flags or of pad, wrong sizes, and inaccessible memory. */
TEST(refused)
{
	const struct command *c;

	for_each_command(c) {
		struct context ctx = fresh(c);
		char buf[MAX_SIZE];

		ask(c, &ctx, buf);
		if (c->flags)
			refuses_bits(_metadata, ctx.fd, c, buf, c->flags, c->known);
		if (c->pad)
			refuses_bits(_metadata, ctx.fd, c, buf, c->pad, 0);
		refuses_frame(_metadata, ctx.fd, c, buf);
		EXPECT_TRUE(untouched(&ctx))
			TH_LOG("%s", c->name);
		close(ctx.fd);
	}
}

static bool is_command(unsigned int nr, unsigned int direction)
{
	const struct command *c;

	for_each_command(c)
		if (_IOC_NR(c->cmd) == nr && _IOC_DIR(c->cmd) == direction)
			return true;
	return false;
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
		EXPECT_TRUE(untouched(&ctx));
		close(ctx.fd);
	}
}

/* Who may only read cannot change the context. */
TEST(read_only)
{
	struct hwtimer_schedule s = { };
	struct hwtimer_record r;
	const struct command *c;
	char buf[MAX_SIZE];
	int fd = must_open_for(O_RDONLY);

	for_each_command(c) {
		struct context ctx = { .fd = fd };

		ask(c, &ctx, buf);
		EXPECT_EQ(c->cmd == HWTIMER_IOC_WHEELS ? 0 : -EBADF, hwt_ioctl(fd, c->cmd, buf))
			TH_LOG("%s", c->name);
	}
	EXPECT_EQ(-ENOTTY, hwt_ioctl(fd, _IO(HWTIMER_IOC_MAGIC, 0x7f), NULL));
	close(fd);
	/* To write is enough to schedule. */
	fd = must_open_for(O_WRONLY);
	EXPECT_EQ(0, hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s));
	EXPECT_EQ(-1, read(fd, &r, sizeof(r)));
	EXPECT_EQ(EBADF, errno);
	close(fd);
}

/* The first SCHEDULE sets up a context by calls, with the defaults; all else needs a SETUP. */
TEST(before_setup)
{
	struct hwtimer_setup setup = { .clockid = CLOCK_BOOTTIME };
	struct context ctx = must_set_up(0);
	struct hwtimer_schedule s = { };
	struct hwtimer_info info;
	const struct command *c;
	char buf[MAX_SIZE];

	for_each_command(c) {
		if (!c->kinds || c->cmd == HWTIMER_IOC_SCHEDULE)
			continue;
		ask(c, &ctx, buf);
		EXPECT_EQ(-ENXIO, hwt_ioctl(ctx.fd, c->cmd, buf))
			TH_LOG("%s", c->name);
	}
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, ctx.fd, 0));
	EXPECT_EQ(ENXIO, errno);
	ASSERT_EQ(0, hwt_ioctl(ctx.fd, HWTIMER_IOC_SCHEDULE, &s));
	ASSERT_EQ(0, hwt_ioctl(ctx.fd, HWTIMER_IOC_INFO, &info));
	EXPECT_EQ(1 << 20, info.tick_ns);
	EXPECT_EQ(0, info.slack_ns);
	EXPECT_EQ(CLOCK_MONOTONIC, info.clockid);
	EXPECT_EQ(0, info.flags);
	EXPECT_EQ(HWTIMER_FREE_SLOTS, info.slots);
	EXPECT_EQ(-EBUSY, hwt_ioctl(ctx.fd, HWTIMER_IOC_SETUP, &setup));
	close(ctx.fd);
}

TEST(other_kind)
{
	const struct command *c;
	char buf[MAX_SIZE];

	for_each_command(c) {
		struct context ctx = must_set_up(c->kinds == CALLS ? TABLE : CALLS);

		ask(c, &ctx, buf);
		if (c->kinds == CALLS || c->kinds == TABLE) {
			EXPECT_EQ(-EOPNOTSUPP, hwt_ioctl(ctx.fd, c->cmd, buf))
				TH_LOG("%s", c->name);
			EXPECT_TRUE(untouched(&ctx));
		}
		close(ctx.fd);
	}
}

/* The larger structure of a newer program that requests nothing new. */
TEST(longer_with_zeros)
{
	static const unsigned int more[] = { 8, 104, 4096, MAX_SIZE };
	const struct command *c;
	char buf[MAX_SIZE + 1];
	unsigned int i, k, size;

	for_each_command(c) {
		for (i = 0; i < ARRAY_SIZE(more); i++) {
			struct context ctx = fresh(c);

			size = _IOC_SIZE(c->cmd) + more[i];
			if (size >= MAX_SIZE)
				size = MAX_SIZE & ~7;
			/* What is only written need not be 0 before. */
			memset(buf, _IOC_DIR(c->cmd) == _IOC_READ ? 0xa5 : 0, size);
			memset(buf + size, 0x5a, sizeof(buf) - size);
			ask(c, &ctx, buf);
			ASSERT_EQ(0, hwt_ioctl(ctx.fd, with_size(c->cmd, size), buf))
				TH_LOG("%s: size %u", c->name, size);
			for (k = _IOC_SIZE(c->cmd); k < sizeof(buf); k++)
				ASSERT_EQ(k < size ? 0 : 0x5a, buf[k]);
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

/* SETUP and GROW take effect although nobody learns of it; a SCHEDULE does not. */
TEST(unwritable)
{
	struct hwtimer_info info;
	const struct command *c;
	char buf[MAX_SIZE];

	for_each_command(c) {
		struct context ctx = fresh(c);
		bool answers = _IOC_DIR(c->cmd) & _IOC_READ;

		ask(c, &ctx, buf);
		ASSERT_EQ(answers ? -EFAULT : 0,
			  hwt_ioctl(ctx.fd, c->cmd, must_read_only(buf, _IOC_SIZE(c->cmd))))
			TH_LOG("%s", c->name);
		if (c->cmd == HWTIMER_IOC_SETUP) {
			EXPECT_EQ(-EBUSY, hwt_ioctl(ctx.fd, HWTIMER_IOC_SETUP, buf));
		} else if (c->cmd == HWTIMER_IOC_GROW) {
			ASSERT_EQ(0, hwt_ioctl(ctx.fd, HWTIMER_IOC_INFO, &info));
			EXPECT_LE(10000, info.slots);
		} else if (answers) {
			EXPECT_TRUE(untouched(&ctx))
				TH_LOG("%s", c->name);
		}
		close(ctx.fd);
	}
}

/* For root alone, unless udev says otherwise. */
TEST(device_node)
{
	struct stat st;

	ASSERT_EQ(0, stat(DEVICE, &st));
	EXPECT_TRUE(S_ISCHR(st.st_mode));
	EXPECT_EQ(0600, st.st_mode & 07777);
	EXPECT_EQ(0, st.st_uid);
}

TEST_HARNESS_MAIN
