// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimerctl, as run by a shell: its output, its exit status, and its messages for errors. The
 * program is $HWTIMERCTL, or /tools/hwtimerctl.
 */
#include "guest.h"

#include <linux/capability.h>
#include <linux/hwtimer.h>
#include <linux/hwtimer_idle.h>
#include <linux/securebits.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/mount.h>

#define CTL	(getenv("HWTIMERCTL") ?: "/tools/hwtimerctl")
#define DEVICE	"/dev/hwtimer"
#define ROOM	1048576
#define USER	1001

/* A program that is running or has ended. */
struct run {
	pid_t pid;
	int status;		/* exit status, as in a shell */
	int fds[2];		/* files: its stdout and stderr */
	char out[ROOM], err[ROOM];
	__u64 began, ended;	/* times on CLOCK_MONOTONIC */
};

/* Start hwtimerctl. @before runs in the child. @out is its stdout; -1: a file; -2: closed. */
static void start_run(struct run *r, void (*before)(void), int out, const char *const args[])
{
	int i;

	for (i = 0; i < 2; i++) {
		r->fds[i] = memfd_create("output", MFD_CLOEXEC);
		if (r->fds[i] < 0)
			die("memfd_create: %s", strerror(errno));
	}
	fflush(stdout);
	r->began = now_ns();
	r->pid = must_fork();
	if (!r->pid) {
		const char *argv[32] = { CTL };

		if (out == -2)
			close(STDOUT_FILENO);
		else
			dup2(out < 0 ? r->fds[0] : out, STDOUT_FILENO);
		dup2(r->fds[1], STDERR_FILENO);
		for (i = 0; i < 30 && args[i]; i++)
			argv[i + 1] = args[i];
		if (before)
			before();
		execv(CTL, (char **)argv);
		fprintf(stderr, "%s: %s", CTL, strerror(errno));
		_exit(99);
	}
}

static size_t must_pread(int fd, char *text)
{
	ssize_t len = pread(fd, text, ROOM - 1, 0);

	if (len < 0)
		die("pread: %s", strerror(errno));
	return len;
}

/* Its output until now. */
static void read_run(struct run *r)
{
	r->out[must_pread(r->fds[0], r->out)] = 0;
	r->err[must_pread(r->fds[1], r->err)] = 0;
}

static void end_run(struct run *r)
{
	r->status = reap(r->pid);
	r->ended = now_ns();
	read_run(r);
	close(r->fds[0]);
	close(r->fds[1]);
}

static struct run result;

/* Run to the end. */
static void run(void (*before)(void), int out, const char *const args[])
{
	start_run(&result, before, out, args);
	end_run(&result);
}

/* Send @signal, and wait for the end. */
static void kill_run(int signal)
{
	kill(result.pid, signal);
	end_run(&result);
}

#define ARGS(...)	((const char *const[]){ __VA_ARGS__, NULL })
#define RUN_AS(before, ...)	run(before, -1, ARGS(__VA_ARGS__))
#define RUN_TO(out, ...)	run(NULL, out, ARGS(__VA_ARGS__))
#define RUN(...)		RUN_AS(NULL, __VA_ARGS__)

/* Expect an exit status; EXPECT_FAILURE: also nothing on stdout, and @text on stderr. */
#define EXPECT_RUN(status, ...) do {						\
	RUN(__VA_ARGS__);							\
	EXPECT_STATUS(status);							\
} while (0)
#define EXPECT_FAILURE(status, text, ...) do {					\
	EXPECT_RUN(status, __VA_ARGS__);					\
	EXPECT_QUIET(result.out);						\
	EXPECT_IN(result.err, text);						\
} while (0)

#define EXPECT_IN(text, part)	EXPECT_TRUE(has(text, part))
#define EXPECT_STATUS(status)	EXPECT_TRUE(ended_as(status))
#define EXPECT_QUIET(stream)	EXPECT_STREQ("", stream)

static bool ended_as(int status)
{
	if (result.status != status)
		printf("# status %d, not %d: out '%s' err '%s'\n", result.status, status,
		       result.out, result.err);
	return result.status == status;
}

static bool has(const char *text, const char *part)
{
	if (!strstr(text, part))
		printf("# no '%s' in '%s'\n", part, text);
	return strstr(text, part);
}

static unsigned int count_of(const char *text, const char *part)
{
	unsigned int n = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		n++;
	return n;
}

static unsigned int count_lines(const char *text)
{
	unsigned int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Line @n, in a static buffer. */
static const char *line_of(const char *text, unsigned int n)
{
	static char line[ROOM];

	for (; n; n--) {
		text = strchr(text, '\n');
		if (!text)
			die("too few lines");
		text++;
	}
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	return line;
}

static void hide_debugfs(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    umount2("/sys/kernel/debug", MNT_DETACH))
		die("a namespace without debugfs: %s", strerror(errno));
}

static void other_user(void)
{
	become(USER);
}

static void powerless(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT) || syscall(SYS_capset, &header, data))
		die("root without capabilities: %s", strerror(errno));
}

/* As systemd does: a user with AmbientCapabilities=CAP_PERFMON, and without debugfs. */
static void service(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	hide_debugfs();
	if (prctl(PR_SET_KEEPCAPS, 1))
		die("prctl: %s", strerror(errno));
	become(USER);
	data[CAP_PERFMON / 32].permitted = 1U << CAP_PERFMON % 32;
	data[CAP_PERFMON / 32].inheritable = 1U << CAP_PERFMON % 32;
	if (syscall(SYS_capset, &header, data) ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_PERFMON, 0, 0))
		die("no ambient capability: %s", strerror(errno));
}

/* "sleep" works without the device, and what shows wheels does not: see also tests/tools. */
static const char *const showing[][5] = {
	{ "stat", REMOTE }, { "metrics" },
};

/* The wheel of another module, with no timeouts yet. */
FIXTURE(wheel)
{
};

FIXTURE_SETUP(wheel)
{
	ASSERT_EQ(0, load(REMOTE, "levels=1"));
}

FIXTURE_TEARDOWN(wheel)
{
	ASSERT_EQ(0, unload(REMOTE));
}

/* Arm 20 timeouts that expire at once, and 5 that do not. */
static void fill(void)
{
	if (tell_remote("arm 0 20 0 0") || tell_remote("arm 20 5 %llu 0", FAR))
		die("cannot arm");
	eventually(must_wheel_value(REMOTE, "expired") == 20);
}

TEST_F(wheel, no_rights)
{
	unsigned int i;

	RUN_AS(other_user, "sleep", "1ms");
	EXPECT_STATUS(0);
	for (i = 0; i < ARRAY_SIZE(showing); i++) {
		run(other_user, -1, showing[i]);
		EXPECT_STATUS(4);
		EXPECT_QUIET(result.out);
		EXPECT_IN(result.err, DEVICE ": permission denied (try: sudo hwtimerctl ");
	}
	RUN_AS(other_user, "stat", "--pid=1");
	EXPECT_STATUS(4);
	EXPECT_IN(result.err, "process 1: permission denied (try: sudo hwtimerctl stat)");
	RUN_AS(other_user, "list");
	EXPECT_STATUS(1);
	EXPECT_IN(result.err, "no process of yours has a context");
	ASSERT_EQ(0, chmod(DEVICE, 0666));
	/* Without arguments, the contexts that it may see; root lacks a capability only. */
	RUN_AS(other_user, "stat", "--json");
	EXPECT_STATUS(0);
	EXPECT_STREQ("{\"wheels\": [], \"contexts\": []}\n", result.out);
	EXPECT_IN(result.err, "for root (sudo hwtimerctl stat)");
	RUN_AS(powerless, "stat");
	EXPECT_STATUS(4);
	EXPECT_IN(result.err, DEVICE ": permission denied, even for root: it needs CAP_PERFMON");
	RUN_AS(service, "metrics");
	ASSERT_EQ(0, chmod(DEVICE, 0600));
	EXPECT_STATUS(0);
	EXPECT_IN(result.out,
		  "hwtimer_wheel_pending{wheel=\"" REMOTE "\",module=\"" REMOTE "\"} 0\n");
}

/* A stdout that cannot be written is an error, unless nothing is to be written. */
TEST_F(wheel, stdout_fails)
{
	static const char *const writing[][6] = {
		{ "--help" }, { "--version" }, { "list", "--help" }, { "stat" },
		{ "stat", "--json" },
	};
	int outs[3], ends[2];
	unsigned int i, k;

	outs[0] = open("/dev/full", O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, outs[0]);
	ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
	close(ends[0]);
	outs[1] = ends[1];
	outs[2] = -2;
	for (k = 0; k < ARRAY_SIZE(outs); k++) {
		for (i = 0; i < ARRAY_SIZE(writing); i++) {
			run(NULL, outs[k], writing[i]);
			EXPECT_EQ(1, result.status) {
				TH_LOG("%s %s, stdout %u: err '%s'", writing[i][0],
				       writing[i][1] ?: "", k, result.err);
			}
			EXPECT_IN(result.err, "cannot write to stdout: ");
		}
		RUN_TO(outs[k], "sleep", "1ms");
		EXPECT_STATUS(0);
		EXPECT_QUIET(result.err);
	}
	close(outs[0]);
	close(ends[1]);
}

/* The longest duration, on the device. tests/tools has others. */
TEST(sleeps)
{
	static struct run other;
	char pid[32];

	start_run(&result, NULL, -1, ARGS("sleep", "1152921504.606846975"));
	eventually(sleeps_in(result.pid, SYS_ppoll));
	snprintf(pid, sizeof(pid), "%d", result.pid);
	start_run(&other, NULL, -1, ARGS("stat", "--json", "--pid", pid));
	end_run(&other);
	EXPECT_IN(other.out, "\"kind\": \"table\"");
	kill_run(SIGINT);
	EXPECT_STATUS(128 + SIGINT);
}

/* The time of day is set while "sleep" waits. */
TEST(set_back)
{
	struct timespec ts;

	start_run(&result, NULL, -1, ARGS("sleep", "2s"));
	eventually(sleeps_in(result.pid, SYS_ppoll) || has_ended(result.pid));
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec -= FAR / NSEC_PER_SEC;
	ASSERT_EQ(0, clock_settime(CLOCK_REALTIME, &ts));
	end_run(&result);
	EXPECT_STATUS(0);
	EXPECT_LE(2 * NSEC_PER_SEC, result.ended - result.began);
	EXPECT_GT(FAR, result.ended - result.began);
}

static void must_schedule_two(int fd)
{
	struct hwtimer_schedule s = { .time = FAR, .flags = HWTIMER_RELATIVE };

	for (s.user_data = 0xabc; s.user_data <= 0xdef; s.user_data += 0xdef - 0xabc)
		if (ioctl(fd, HWTIMER_IOC_SCHEDULE, &s))
			die(DEVICE ": %s", strerror(errno));
}

/* A context by calls, with two timeouts. */
static int must_context(void)
{
	int fd = open(DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	must_schedule_two(fd);
	return fd;
}

/* More wheels than one WHEELS returns; exactly as many; and by name one that comes late. */
TEST(wheels)
{
	static const unsigned int others[] = { 31, 32, 64 };
	char text[64];
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(others); i++) {
		snprintf(text, sizeof(text), "others=%u", others[i]);
		ASSERT_EQ(0, load(REMOTE, text));
		EXPECT_RUN(0, "stat", "--json");
		EXPECT_EQ(others[i] + 1, count_of(result.out, "\"module\": \"" REMOTE "\""));
		for (k = 0; k < others[i]; k++) {
			snprintf(text, sizeof(text), "\"" REMOTE ".%u\"", k);
			EXPECT_EQ(1, count_of(result.out, text));
		}
		snprintf(text, sizeof(text), REMOTE ".%u", others[i] - 1);
		EXPECT_RUN(0, "stat", text);
		EXPECT_EQ(1, count_of(result.out, "wheel "));
		ASSERT_EQ(0, unload(REMOTE));
	}
}

TEST_F(wheel, statistics)
{
	const char *at;
	int late = 0;

	fill();
	EXPECT_RUN(0, "stat");
	EXPECT_QUIET(result.err);
	EXPECT_IN(result.out, "wheel " REMOTE "\n");
	EXPECT_EQ(NULL, strchr(result.out, '\033'));
	EXPECT_RUN(0, "stat", REMOTE);
	EXPECT_IN(result.out, "late: 20 expiries");
	EXPECT_IN(result.out, " ###");

	EXPECT_RUN(0, "stat", "--json", REMOTE);
	EXPECT_EQ(1, count_lines(result.out));
	EXPECT_IN(result.out, "{\"wheels\": [{\"name\": \"" REMOTE "\", "
		  "\"module\": \"" REMOTE "\", \"tick_ns\": 1000000, \"pending\": 5, "
		  "\"armed\": 25, \"touched\": 0, \"cancelled\": 0, \"expired\": 20, "
		  "\"handed_back\": 0, \"late\": [{\"below_ns\": 1000, \"count\": ");
	EXPECT_IN(result.out, "}]}], \"contexts\": []}\n");
	EXPECT_EQ(HWTIMER_LATE, count_of(result.out, "\"below_ns\": "));
	EXPECT_EQ(1, count_of(result.out, "\"below_ns\": null"));
	for (at = result.out; (at = strstr(at, "\"count\": ")); at++)
		late += atoi(at + strlen("\"count\": "));
	EXPECT_EQ(20, late);
}

TEST_F(wheel, contexts)
{
	int fd = must_context();
	char pid[32], begin[96];

	prctl(PR_SET_NAME, "c\033tl");
	snprintf(pid, sizeof(pid), "%d", getpid());
	EXPECT_RUN(0, "stat", "--json", "--pid", pid);
	snprintf(begin, sizeof(begin), "{\"wheels\": [], \"contexts\": [{\"pid\": %s, \"fd\": %d, ",
		 pid, fd);
	EXPECT_IN(result.out, begin);
	EXPECT_IN(result.out, "\"pending\": 2");
	EXPECT_IN(result.out, "\"kind\": \"calls\"");
	EXPECT_IN(result.out, "\"comm\": \"c\\u001btl\"");
	EXPECT_IN(result.out, "}]}\n");
	EXPECT_EQ(1, count_of(result.out, "\"pid\": "));
	EXPECT_EQ(NULL, strstr(result.out, "\"pos\""));
	EXPECT_RUN(0, "stat", "-p", pid, REMOTE);
	EXPECT_IN(result.out, "wheel " REMOTE "\n");
	EXPECT_IN(result.out, ", descriptor ");
	/* Without arguments: whatever there is. */
	EXPECT_RUN(0, "stat");
	EXPECT_IN(result.out, "wheel " REMOTE "\n");
	EXPECT_IN(result.out, "  comm                 c\\x1btl ");
	EXPECT_FAILURE(1, pid, "stat", "--pid=1");
	EXPECT_IN(result.err, "process 1 has no context (processes with contexts: ");
	EXPECT_FAILURE(1, pid, "list", "--pid=2147483647");
	EXPECT_IN(result.err, "no process 2147483647 (");
	close(fd);
	EXPECT_FAILURE(1, "has no context (processes with contexts: none", "stat", "-p", pid);
}

/* The pending timeouts of a process: periodic, overdue, never; and more than one LIST returns. */
TEST_F(wheel, list_more)
{
	struct hwtimer_schedule s = { .time = HWTIMER_NEVER };
	int fd = must_context();
	unsigned int i;
	char pid[32];

	snprintf(pid, sizeof(pid), "%d", getpid());
	ASSERT_EQ(0, ioctl(fd, HWTIMER_IOC_SCHEDULE, &s));
	s = (struct hwtimer_schedule){ .time = 3600 * NSEC_PER_SEC, .flags = HWTIMER_RELATIVE,
				       .period_ns = 1800 * NSEC_PER_SEC };
	ASSERT_EQ(0, ioctl(fd, HWTIMER_IOC_SCHEDULE, &s));
	s = (struct hwtimer_schedule){ .time = now_ns() };
	ASSERT_EQ(0, ioctl(fd, HWTIMER_IOC_SCHEDULE, &s));
	EXPECT_RUN(0, "list", "-p", pid);
	EXPECT_QUIET(result.err);
	EXPECT_EQ(6, count_lines(result.out));
	EXPECT_IN(result.out, "0xabc ");
	EXPECT_IN(result.out, "0xdef ");
	EXPECT_IN(result.out, "  in 3600 s, every 1800 s\n");
	EXPECT_IN(result.out, "  never\n");
	EXPECT_IN(result.out, "  overdue by ");
	EXPECT_EQ(NULL, strstr(result.out, "overdue by 1.8"));
	EXPECT_RUN(0, "list", "--json", "--pid", pid);
	EXPECT_IN(result.out, "\"period_ns\": 1800000000000");
	EXPECT_IN(result.out, "\"due_ns\": null");
	EXPECT_IN(result.out, "\"due_ns\": -");
	EXPECT_IN(result.out, "\"user_data\": 2748,");
	EXPECT_RUN(0, "list");
	EXPECT_EQ(6, count_lines(result.out));
	s = (struct hwtimer_schedule){ .time = FAR, .flags = HWTIMER_RELATIVE };
	for (i = 0; i < 1100; i++)
		ASSERT_EQ(0, ioctl(fd, HWTIMER_IOC_SCHEDULE, &s));
	EXPECT_RUN(0, "list", "-p", pid);
	EXPECT_EQ(1106, count_lines(result.out));
	close(fd);
	EXPECT_FAILURE(1, "has no context", "list", "--pid", pid);
	EXPECT_FAILURE(1, "no process of yours has a context", "list");
}

/* The two contexts of a process: four timeouts, due in an hour. */
static void list_two(pid_t pid)
{
	char text[32];

	snprintf(text, sizeof(text), "%d", pid);
	RUN("list", "-p", text);
	expect(0, result.status);
	expect(4, count_of(result.out, "  in 3"));
	RUN("list", "--json", "-p", text);
	expect(4, count_of(result.out, "\"due_ns\": 3"));
}

/* hwtimerctl shows when timeouts are due, whatever its clock is, and theirs. */
TEST(list_in_time_namespace)
{
	int here = must_context(), ahead = open(DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	pid_t test = getpid(), pid = must_fork();

	if (!pid) {
		/* From now on, children have this clock, and so does what they set up. */
		if (!unshare_time("monotonic 100000 0"))
			die("no time namespaces");
		pid = must_fork();
		if (!pid) {
			must_schedule_two(ahead);
			_exit(0);
		}
		expect(0, reap(pid));
		list_two(test);
		_exit(0);
	}
	ASSERT_EQ(0, reap(pid));
	list_two(test);
	close(here);
	close(ahead);
}

/* The module of "idle". tests/tools has its wrong arguments. */
#define IDLE	"hwtimer_idle"

FIXTURE(idle)
{
};

FIXTURE_SETUP(idle)
{
	ASSERT_EQ(0, load(IDLE, ""));
}

FIXTURE_TEARDOWN(idle)
{
	EXPECT_EQ(0, unload(IDLE));
}

TEST_F(idle, rules)
{
	EXPECT_RUN(0, "idle", "add", "8080", "60s");
	EXPECT_QUIET(result.out);
	EXPECT_RUN(0, "idle", "add", "127.0.0.1:8080", "1500500us", "--reset", "--limit", "7");
	EXPECT_RUN(0, "idle", "add", "[2001:db8::1]:443", "--any-silence", "30d", "--notify");
	EXPECT_RUN(0, "idle", "list");
	EXPECT_EQ(4, count_lines(result.out));
	EXPECT_EQ(0, strncmp(result.out, "RULE ", 5));
	EXPECT_STREQ("[2001:db8::1]:443      2592000s  notify    any        262144"
		     "         0         0         0         0         0", line_of(result.out, 1));
	EXPECT_STREQ("8080                        60s  shutdown  client     262144"
		     "         0         0         0         0         0", line_of(result.out, 2));
	EXPECT_STREQ("127.0.0.1:8080           1.501s  reset     client          7"
		     "         0         0         0         0         0", line_of(result.out, 3));
	EXPECT_RUN(0, "idle", "list", "--json");
	EXPECT_IN(line_of(result.out, 1), "{\"address\": null, \"port\": 8080, ");
	EXPECT_IN(line_of(result.out, 2),
		  "{\"address\": \"127.0.0.1\", \"port\": 8080, \"span_ms\": 1501, ");

	EXPECT_RUN(0, "idle", "del", "[2001:DB8:0::1]:443");
	EXPECT_RUN(0, "idle", "del", "[::ffff:127.0.0.1]:8080");
	EXPECT_RUN(0, "metrics");
	EXPECT_IN(result.out, "\nhwtimer_idle_watched{rule=\"8080\"} 0\n");
	EXPECT_EQ(NULL, strstr(result.out, "127.0.0.1"));
	EXPECT_RUN(0, "idle", "del", "8080");
	EXPECT_RUN(0, "idle", "list", "--json");
	EXPECT_QUIET(result.out);
}

/* What only the kernel can refuse. */
TEST_F(idle, refused)
{
	EXPECT_FAILURE(1, "8080: no such rule (there are: none)", "idle", "del", "8080");
	EXPECT_RUN(0, "idle", "add", "1", "60");
	EXPECT_FAILURE(1, "idle: 1: there is a rule already", "idle", "add", "1", "5m", "--reset");
	EXPECT_FAILURE(1, "127.0.0.1:1: no such rule (there are: 1)", "idle", "del", "127.0.0.1:1");
	/* With the kernel's own words. */
	EXPECT_FAILURE(1, "0.0.0.0:1: no address; a rule for", "idle", "add", "0.0.0.0:1", "5m");
}

/* Root of a user namespace, with a network namespace of its own. */
static void other_root(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) || write_file("/proc/self/uid_map", "0 0 1"))
		die("a user namespace: %s", strerror(errno));
}

TEST_F(idle, rights)
{
	void (*const users[])(void) = { other_user, other_root };
	unsigned int i;

	EXPECT_RUN(0, "idle", "add", "80", "60");
	for (i = 0; i < ARRAY_SIZE(users); i++) {
		RUN_AS(users[i], "idle", "add", "81", "60");
		EXPECT_STATUS(4);
		EXPECT_IN(result.err, "81: permission denied");
		EXPECT_IN(result.err, i ? "even for root: it needs CAP_NET" : "(try: sudo ");
		RUN_AS(users[i], "idle", "del", "80");
		EXPECT_STATUS(4);
		RUN_AS(users[i], "idle", "list");
		EXPECT_STATUS(0);
		/* The other root has rules of its own, of which there are none. */
		EXPECT_EQ(2 - i, count_lines(result.out));
	}
	EXPECT_RUN(0, "idle", "list");
	EXPECT_EQ(2, count_lines(result.out));
	RUN_AS(other_user, "idle", "events");
	EXPECT_STATUS(4);
	ASSERT_EQ(0, chmod(DEVICE, 0666));
	RUN_AS(service, "metrics");
	ASSERT_EQ(0, chmod(DEVICE, 0600));
	EXPECT_STATUS(0);
	EXPECT_IN(result.out, "hwtimer_idle_closed_total{rule=\"80\"} 0\n");
}

/* A connection to port 8080 of 127.0.0.1 that says nothing; @port is that of the client. */
static int must_be_silent(int *server, unsigned int *port)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(8080),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(name);

	if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(listener, (void *)&name, len) || listen(listener, 1) ||
	    connect(client, (void *)&name, len) ||
	    getsockname(client, (void *)&name, &len))
		die("no connection: %s", strerror(errno));
	*server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	*port = ntohs(name.sin_port);
	close(listener);
	return client;
}

TEST_F(idle, events)
{
	int server, client;
	unsigned int port;
	char line[100];

	EXPECT_RUN(0, "idle", "add", "8080", "1s", "--reset");
	start_run(&result, NULL, -1, ARGS("idle", "events"));
	eventually(sleeps_in(result.pid, SYS_recvmsg));
	client = must_be_silent(&server, &port);
	eventually((read_run(&result), strchr(result.out, '\n')));
	kill_run(SIGTERM);
	EXPECT_STATUS(128 + SIGTERM);
	snprintf(line, sizeof(line), "  127.0.0.1:8080  127.0.0.1:%u  reset\n", port);
	EXPECT_IN(result.out, line);
	EXPECT_EQ(1, count_lines(result.out));
	EXPECT_RUN(0, "idle", "list", "--json");
	EXPECT_IN(result.out, "\"closed\": 1, ");
	close(client);
	close(server);
}

TEST(idle_is_not_loaded)
{
	EXPECT_FAILURE(3, "modprobe hwtimer_idle", "idle", "list");
	EXPECT_FAILURE(3, "modprobe hwtimer_idle", "idle", "add", "80", "60");
	EXPECT_RUN(0, "metrics");
	EXPECT_EQ(NULL, strstr(result.out, "hwtimer_idle"));
}

TEST_HARNESS_MAIN
