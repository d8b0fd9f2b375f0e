// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tracepoints: the events match what this program lets a module do with its wheel. (seen.c has
 * those of contexts.) No other program arms timeouts meanwhile.
 */
#include "guest.h"

#include <sys/mount.h>

#define TRACING	"/sys/kernel/tracing"
#define EVENTS	TRACING "/events/hwtimer"

/**
 * struct line - an event
 * @name: its name
 * @text: its fields
 */
struct line {
	char name[32];
	char text[256];
};

static struct line *lines;
static unsigned int n_lines;

/* Read all events. */
static void read_lines(void)
{
	FILE *f = fopen(TRACING "/trace", "re");
	char *text = NULL, *at;
	size_t size = 0;

	if (!f)
		die("trace: %s", strerror(errno));
	n_lines = 0;
	while (getline(&text, &size, f) > 0) {
		struct line *l;

		if (*text == '#')
			continue;
		if (strstr(text, "LOST"))
			die("events were lost: %s", text);
		at = strstr(text, ": hwtimer_");
		if (!at)
			die("not an event: %s", text);
		lines = realloc(lines, (n_lines + 1) * sizeof(*lines));
		if (!lines)
			die("no memory");
		l = &lines[n_lines++];
		if (sscanf(at, ": %31[a-z_]: %255[^\n]", l->name, l->text) != 2)
			die("not an event: %s", text);
	}
	free(text);
	fclose(f);
}

static unsigned int count(const char *name, const char *what)
{
	unsigned int i, n = 0;

	for (i = 0; i < n_lines; i++)
		n += !strcmp(lines[i].name, name) && strstr(lines[i].text, what);
	return n;
}

/* Wait for events: the worker may trace later than its actions become visible. */
#define until_traced(condition) eventually(({ read_lines(); condition; }))

/* The number after "@key=" in an event. */
static __u64 number(const struct line *l, const char *key)
{
	char with[32];
	const char *at;

	snprintf(with, sizeof(with), "%s=", key);
	at = strstr(l->text, with);
	if (!at)
		die("no %s in: %s", with, l->text);
	return strtoull(at + strlen(with), NULL, 0);
}

FIXTURE(trace)
{
	int unused;
};

FIXTURE_SETUP(trace)
{
	if (access(TRACING "/trace", F_OK) &&
	    mount("tracefs", TRACING, "tracefs", 0, NULL)) {
		SKIP(return, "this kernel has no tracefs");
	}
	if (access(EVENTS, F_OK)) {
		SKIP(return, "this kernel has no events of modules");
	}
	ASSERT_EQ(0, write_file(TRACING "/buffer_size_kb", "16384"));
	ASSERT_EQ(0, write_file(TRACING "/trace", ""));
}

FIXTURE_TEARDOWN(trace)
{
	ASSERT_EQ(0, write_file(EVENTS "/enable", "0"));
	ASSERT_EQ(0, write_file(TRACING "/trace", ""));
}

/* Find the prefix of the events of the wheel that was created. */
static bool find_wheel(char wheel[40])
{
	unsigned int i;

	for (i = 0; i < n_lines; i++)
		if (!strcmp(lines[i].name, "hwtimer_wheel_create"))
			return sscanf(lines[i].text, "%39s", wheel) == 1;
	return false;
}

/* A wheel, from its creation to its end: some expire, are touched, cancelled or handed back. */
TEST_F(trace, life)
{
	const unsigned int each = 50;
	unsigned int i, expired = 0, awake = 0;
	char wheel[40] = "";

	ASSERT_EQ(0, write_file(EVENTS "/enable", "1"));
	ASSERT_EQ(0, load(REMOTE, "slots=64 levels=1"));
	ASSERT_EQ(0, tell_remote("arm 0 %u 0 250000", 2 * each));
	ASSERT_EQ(0, tell_remote("arm 1000 %u %llu", 2 * each, FAR));
	ASSERT_EQ(0, tell_remote("arm 1000 %u %llu", each, FAR + 1));
	ASSERT_EQ(0, tell_remote("touch 1000 %u %llu", each, FAR + 2));
	ASSERT_EQ(0, tell_remote("cancel 1000 %u", each));
	until_traced(count("hwtimer_expire_exit", "") == 2 * each);
	until_traced(find_wheel(wheel) && count("hwtimer_worker_sleep", wheel) &&
		     count("hwtimer_worker_wake", wheel));
	ASSERT_EQ(0, tell_remote("stop"));
	ASSERT_EQ(0, write_file(EVENTS "/enable", "0"));
	/* As long as the module is there, its function has a name. */
	read_lines();
	ASSERT_EQ(0, unload(REMOTE));

	EXPECT_EQ(1, count("hwtimer_wheel_create",
			   "name=" REMOTE " tick_ns=1000000 slots=64 levels=1"));
	EXPECT_LE(4 * each, count("hwtimer_init", "function=remote_fired"));
	EXPECT_EQ(4 * each, count("hwtimer_arm", "ret=0"));
	EXPECT_EQ(each, count("hwtimer_arm", "ret=1"));
	EXPECT_EQ(each, count("hwtimer_touch", "ret=0"));
	EXPECT_EQ(each, count("hwtimer_cancel", "ret=1"));
	EXPECT_EQ(2 * each, count("hwtimer_expire_entry", "function=remote_fired"));
	EXPECT_EQ(2 * each, count("hwtimer_expire_exit", ""));
	EXPECT_EQ(1, count("hwtimer_wheel_stop", "handed_back=50"));
	EXPECT_LE(1, count("hwtimer_drain", ""));
	EXPECT_LE(1, count("hwtimer_file", ""));
	for (i = 0; i < n_lines; i++) {
		if (strcmp(lines[i].name, "hwtimer_expire_entry"))
			continue;
		ASSERT_LE(number(&lines[i], "deadline"), number(&lines[i], "now"))
			TH_LOG("%s", lines[i].text);
		expired++;
	}
	EXPECT_EQ(2 * each, expired);
	/* Its worker alternates between sleep and wake. */
	for (i = 0; i < n_lines; i++) {
		if (!strstr(lines[i].text, wheel))
			continue;
		if (!strcmp(lines[i].name, "hwtimer_worker_sleep"))
			awake = 0;
		else if (!strcmp(lines[i].name, "hwtimer_worker_wake"))
			awake++;
		ASSERT_GE(1, awake);
	}
}

TEST_HARNESS_MAIN
