// SPDX-License-Identifier: GPL-2.0-only
/*
 * hwtimer-jobs, as run by a shell, and through crashes. The results are read from its database,
 * and from what its commands wrote. The program is $JOBS, or /tools/hwtimer-jobs.
 */
#include "common.h"

#include <glob.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#define JOBS		(getenv("JOBS") ?: "/tools/hwtimer-jobs")
#define USER		1001
#define ROOM		8192
#define EPISODES	12
/* Stops at the beginning and at the end of each commit and each fork. */
#define STOPS		32

/* Commands. */
#define LOG		"echo $JOBS_NAME $JOBS_DUE >>log"
#define UNTIL_GO	"until [ -e go ]; do sleep 0.05; done"

/* Each case runs in a directory of its own, with the database "db". */
FIXTURE(jobs)
{
	char dir[32];
};

static sqlite3 *db;
static bool clock_set;		/* due times need not be as they were planned */
static pid_t scheduler;
static char err_text[ROOM];

/* The number that a query returns; 0 if there is none. */
static __s64 __attribute__((format(printf, 1, 2))) sql(const char *format, ...)
{
	sqlite3_stmt *s;
	__s64 value = 0;
	va_list list;
	char *text;
	int ret;

	if (!db && sqlite3_open_v2("db", &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
		die("db: %s", sqlite3_errmsg(db));
	sqlite3_busy_timeout(db, PATIENCE / NSEC_PER_MSEC);
	va_start(list, format);
	if (vasprintf(&text, format, list) < 0)
		die("no memory");
	va_end(list);
	if (sqlite3_prepare_v2(db, text, -1, &s, NULL) != SQLITE_OK)
		die("%s: %s", text, sqlite3_errmsg(db));
	ret = sqlite3_step(s);
	if (ret == SQLITE_ROW)
		value = sqlite3_column_int64(s, 0);
	else if (ret != SQLITE_DONE)
		die("%s: %s", text, sqlite3_errmsg(db));
	sqlite3_finalize(s);
	free(text);
	return value;
}

/* Number of rows of the log, with a condition for WHERE. */
#define COUNT(format, ...)							\
	sql("SELECT count(*) FROM run JOIN job ON job.id = job WHERE " format, ##__VA_ARGS__)

/* Only rows whose time has come. */
#define PAST(format)								\
	COUNT(format " AND due <= %lld", (long long)wall_now())

/* Like eventually(), for conditions that are expensive to check. */
#define await(condition) do {							\
	__u64 await_end = now_ns() + PATIENCE;					\
										\
	while (!(condition)) {							\
		if (now_ns() > await_end)					\
			die("timed out waiting for: %s; output: %s", #condition,	\
			    read_file("scheduler.err"));			\
		usleep(20000);							\
	}									\
} while (0)

static __s64 wall_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

/* Read a file into a static buffer. */
static const char *read_file(const char *name)
{
	static char text[65536];
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (len < 0)
		die("%s: %s", name, strerror(errno));
	if (fd >= 0)
		close(fd);
	text[len] = 0;
	return text;
}

static void touch_file(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		die("%s: %s", name, strerror(errno));
	close(fd);
}

#define ARGS(...)	((const char *const[]){ "jobs", __VA_ARGS__, NULL })

/* @out, @err: files for its output */
static pid_t start_jobs(void (*before)(void), const char *out, const char *err,
			const char *const args[])
{
	pid_t pid;

	fflush(stdout);
	if (strncmp(out, "/dev/", 5))
		unlink(out);
	unlink(err);
	pid = must_fork();
	if (!pid) {
		int fd = open(out, O_WRONLY | O_CREAT, 0644);
		int error = open(err, O_WRONLY | O_CREAT | O_APPEND, 0644);

		/* In case the test ends first. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fd < 0 || error < 0)
			_exit(98);
		dup2(fd, STDOUT_FILENO);
		dup2(error, STDERR_FILENO);
		if (before)
			before();
		execv(JOBS, (char **)args);
		_exit(99);
	}
	return pid;
}

/* Returns its exit status; its messages are in err_text. */
static int run_jobs(void (*before)(void), const char *out, const char *const args[])
{
	int status = reap(start_jobs(before, out, "err", args));

	snprintf(err_text, sizeof(err_text), "%s", read_file("err"));
	return status;
}

static bool ended_as(int wanted, int status)
{
	if (wanted != status)
		printf("# status %d, not %d: '%s'\n", status, wanted, err_text);
	return wanted == status;
}

static bool said(const char *part)
{
	if (!strstr(err_text, part))
		printf("# no '%s' in '%s'\n", part, err_text);
	return strstr(err_text, part);
}

#define RUN_(...)		run_jobs(NULL, "out", ARGS(__VA_ARGS__))
#define RUN(status, ...)	EXPECT_TRUE(ended_as(status, RUN_(__VA_ARGS__)))
#define MUST_RUN(...)		ASSERT_TRUE(ended_as(0, RUN_(__VA_ARGS__)))
#define FAIL(status, part, ...) do {						\
	RUN(status, __VA_ARGS__);						\
	EXPECT_TRUE(said(part));						\
} while (0)

/* Add a job. LOG in its command logs the due times. */
#define ADD(name, ...)		MUST_RUN("db", "add", name, __VA_ARGS__)
#define SHELL(command)		"--", "sh", "-c", command

/* Start a scheduler; returns once it has taken over the state of the last one. */
#define START(...) do {								\
	scheduler = start_jobs(NULL, "scheduler.out", "scheduler.err",		\
			       ARGS("db", "run", ##__VA_ARGS__));		\
	await(strstr(read_file("scheduler.out"), "running;"));			\
} while (0)

static int end_scheduler(int signal)
{
	pid_t pid = scheduler;

	scheduler = 0;
	kill(pid, signal);
	return reap(pid);
}

/* Load the log into a table, for comparison. */
static void load_log(void)
{
	char line[128], name[64];
	FILE *f = fopen("log", "r");
	long long due;

	sql("DROP TABLE IF EXISTS temp.logged");
	sql("CREATE TEMP TABLE logged (name TEXT, due INTEGER)");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %lld", name, &due) != 2)
			die("the log has '%s'", line);
		sql("INSERT INTO logged VALUES ('%s', %lld)", name, due);
	}
	if (f)
		fclose(f);
}

#define LOGGED	"(SELECT count(*) FROM logged WHERE logged.name = job.name AND" \
		" logged.due = run.due)"

/* What holds whenever no scheduler runs. */
static void check_books(struct __test_metadata *_metadata)
{
	load_log();
	/* The rows of a job are contiguous, up to its next due time. */
	EXPECT_EQ(0, sql("SELECT count(*) FROM (SELECT until, lead(due, 1, next) OVER"
			 " (PARTITION BY job ORDER BY run.id) AS follows"
			 " FROM run JOIN job ON job.id = job) WHERE until IS NOT follows"));
	if (!clock_set) {
		EXPECT_EQ(0, sql("SELECT count(*) FROM (SELECT 1 FROM run GROUP BY job, due"
				 " HAVING count(*) > 1)"));
		/* A row is for one due time, except for missed ones. */
		EXPECT_EQ(0, COUNT("state <> 'missed' AND until - due <> every"));
		EXPECT_EQ(0, COUNT("(until - due) %% every <> 0"));
		EXPECT_EQ(0, COUNT("ended < started OR ended < due"));
		/* Runs of the same job do not overlap. */
		EXPECT_EQ(0, sql("SELECT count(*) FROM (SELECT started, lag(ended) OVER"
				 " (PARTITION BY job ORDER BY due) AS before"
				 " FROM run WHERE started IS NOT NULL) WHERE started < before"));
	}
	/* Nothing is early. */
	EXPECT_EQ(0, COUNT("started < due"));
	/* Each state has the columns that belong to it, and no others. */
	EXPECT_EQ(0, COUNT("state IN ('done', 'started', 'interrupted') AND started IS NULL"));
	EXPECT_EQ(0, COUNT("state IN ('planned', 'discarded', 'missed') AND started IS NOT NULL"));
	EXPECT_EQ(0, COUNT("state = 'done' AND (status IS NULL OR ended IS NULL)"));
	/* What the commands have logged. */
	EXPECT_EQ(0, sql("SELECT count(*) FROM (SELECT 1 FROM logged GROUP BY name, due"
			 " HAVING count(*) > 1)"));
	EXPECT_EQ(0, sql("SELECT count(*) FROM logged WHERE NOT EXISTS (SELECT 1 FROM run"
			 " JOIN job ON job.id = job WHERE name = logged.name"
			 " AND run.due = logged.due)"));
	EXPECT_EQ(0, COUNT("started IS NULL AND " LOGGED));
	EXPECT_EQ(0, COUNT("state = 'done' AND status = 0 AND NOT " LOGGED));
}

#define STOP() do {								\
	EXPECT_EQ(0, end_scheduler(SIGTERM));					\
	check_books(_metadata);							\
	EXPECT_EQ(0, COUNT("state = 'started'"));				\
} while (0)

/* Set the clock so many seconds ahead of the right time. */
static void move_clock(__s64 seconds)
{
	static __s64 offset;
	struct timespec t;

	if (!offset)
		offset = wall_now() - now_ns();
	t.tv_sec = (now_ns() + offset) / NSEC_PER_SEC + seconds;
	t.tv_nsec = (now_ns() + offset) % NSEC_PER_SEC;
	clock_set = true;
	if (clock_settime(CLOCK_REALTIME, &t))
		die("clock_settime: %s", strerror(errno));
}

FIXTURE_SETUP(jobs)
{
	snprintf(self->dir, sizeof(self->dir), "/tmp/jobs.XXXXXX");
	if (!mkdtemp(self->dir) || chdir(self->dir))
		die("%s: %s", self->dir, strerror(errno));
}

FIXTURE_TEARDOWN(jobs)
{
	char command[64];

	if (scheduler)
		end_scheduler(SIGKILL);
	sqlite3_close(db);
	if (clock_set)
		move_clock(0);
	snprintf(command, sizeof(command), "rm -rf %s", self->dir);
	if (chdir("/") || system(command))
		die("%s: %s", self->dir, strerror(errno));
}

TEST_F(jobs, runs_at_a_fixed_rate)
{
	__s64 first;

	ADD("a", "--every", "100ms", SHELL(LOG));
	first = sql("SELECT next FROM job");
	START();
	await(COUNT("state = 'done'") >= 5);
	STOP();
	EXPECT_EQ(first, sql("SELECT min(due) FROM run"));
	EXPECT_EQ(0, COUNT("state = 'done' AND (status <> 0 OR lane <> 'fast')"));
	RUN(0, "db", "trim", "1d");
	EXPECT_LT(0, COUNT("state = 'done'"));
	RUN(0, "db", "list");
	EXPECT_NE(NULL, strstr(read_file("out"), "100ms"));
	RUN(0, "db", "log", "a");
	EXPECT_NE(NULL, strstr(read_file("out"), "done"));
	first = COUNT("state = 'planned'");
	/* More than are deleted at a time. */
	sql("WITH RECURSIVE old(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM old LIMIT 10000)"
	    " INSERT INTO run (job, due, cause, state) SELECT id, n, 'due', 'done' FROM job, old");
	RUN(0, "db", "trim", "0s");
	EXPECT_EQ(first, COUNT("1"));
	EXPECT_EQ(first, COUNT("state = 'planned'"));
	EXPECT_LT(0, first);
}

TEST_F(jobs, runs_by_cron)
{
	ADD("a", "--cron", "* * * * * *", SHELL(LOG));
	START();
	await(COUNT("state = 'done'") >= 2);
	STOP();
	/* The first run may be late. */
	EXPECT_EQ(0, COUNT("due %% 1000000000 <> 0 OR"
			   " state <> 'missed' AND until - due <> 1000000000"));
}

TEST_F(jobs, tells_how_commands_end)
{
	ADD("three", "--every", "1h", "--first", "0s", SHELL("exit 3"));
	ADD("killed", "--every", "1h", "--first", "0s", SHELL("kill -USR1 $$"));
	ADD("none", "--every", "1h", "--first", "0s", "--", "/no/such/command");
	ADD("secret", "--every", "1h", "--first", "0s", SHELL("exit ${PGPASSWORD:-4}"));
	ADD("words", "--every", "1h", "--first", "0s", "--", "sh", "-c",
	    "[ \"$1\" = \"two  words\" ] && [ -z \"$2\" ] && exit 7", "sh", "two  words", "");
	setenv("PGPASSWORD", "5", 1);
	START();
	await(COUNT("state = 'done'") == 5);
	EXPECT_EQ(3, sql("SELECT status FROM run JOIN job ON job.id = job WHERE name = 'three'"));
	EXPECT_EQ(128 + SIGUSR1,
		  sql("SELECT status FROM run JOIN job ON job.id = job WHERE name = 'killed'"));
	EXPECT_EQ(127, sql("SELECT status FROM run JOIN job ON job.id = job WHERE name = 'none'"));
	EXPECT_EQ(4, sql("SELECT status FROM run JOIN job ON job.id = job WHERE name = 'secret'"));
	EXPECT_EQ(7, sql("SELECT status FROM run JOIN job ON job.id = job WHERE name = 'words'"));
	EXPECT_NE(NULL, strstr(read_file("scheduler.err"), "/no/such/command"));
	STOP();
}

/* This user may not open the device. */
static void as_user(void)
{
	if (setresgid(USER, USER, USER) || setresuid(USER, USER, USER) ||
	    !access("/dev/hwtimer", R_OK))
		_exit(97);
}

TEST_F(jobs, runs_without_the_device)
{
	if (chown(".", USER, USER))
		die("chown: %s", strerror(errno));
	ASSERT_EQ(0, run_jobs(as_user, "out", ARGS("db", "add", "a", "--every", "100ms",
						   SHELL(LOG))));
	scheduler = start_jobs(as_user, "scheduler.out", "scheduler.err", ARGS("db", "run"));
	await(COUNT("state = 'done'") >= 5);
	STOP();
	EXPECT_EQ(0, COUNT("state = 'done' AND status <> 0"));
}

static void ignore_children(void)
{
	signal(SIGCHLD, SIG_IGN);
}

TEST_F(jobs, who_ignored_children)
{
	ADD("a", "--every", "100ms", SHELL(LOG));
	scheduler = start_jobs(ignore_children, "scheduler.out", "scheduler.err",
			       ARGS("db", "run"));
	await(COUNT("state = 'done'") >= 2);
	STOP();
}

static void lose_reader(void)
{
	int ends[2];

	if (pipe(ends) || dup2(ends[1], STDOUT_FILENO) < 0)
		_exit(97);
	close(ends[0]);
	close(ends[1]);
}

TEST_F(jobs, whose_output_nobody_reads)
{
	ADD("a", "--every", "100ms", SHELL("kill -PIPE $$"));
	scheduler = start_jobs(lose_reader, "scheduler.out", "scheduler.err",
			       ARGS("db", "run"));
	await(COUNT("state = 'done'") >= 2);
	EXPECT_EQ(1, end_scheduler(SIGTERM));
	EXPECT_NE(NULL, strstr(read_file("scheduler.err"), "standard output"));
	check_books(_metadata);
	/* Commands do not ignore the signal. */
	EXPECT_EQ(0, COUNT("state = 'done' AND status <> %d", 128 + SIGPIPE));
}

static void be_traced(void)
{
	if (ptrace(PTRACE_TRACEME))
		_exit(97);
}

/* Run until @nr, a system call of interest, begins or ends. */
static bool next_stop(pid_t pid, __u64 *nr)
{
	struct __ptrace_syscall_info info;
	int status, signal = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, signal) || waitpid(pid, &status, 0) != pid)
			die("ptrace: %s", strerror(errno));
		if (!WIFSTOPPED(status))
			return false;
		signal = WSTOPSIG(status);
		if (signal != (SIGTRAP | 0x80))
			continue;
		signal = 0;
		if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) < 0)
			die("ptrace: %s", strerror(errno));
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			*nr = info.entry.nr;
		if (*nr == SYS_fdatasync || *nr == SYS_fsync || *nr == SYS_clone)
			return true;
	}
}

/* Killed before and after each commit and each fork, from the start on. */
TEST_F(jobs, survives_kills_at_commits)
{
	int step = quick_or(5, 1), status, stop, i;
	__u64 random = seed(), nr = 0;

	ADD("serial", "--every", "40ms", SHELL(LOG));
	ADD("cover", "--every", "60ms", "--block", "cover", SHELL(LOG));
	for (stop = 1 + rnd(&random) % step; stop <= STOPS; stop += step) {
		scheduler = start_jobs(be_traced, "scheduler.out", "scheduler.err",
				       ARGS("db", "run", "--window", "100ms"));
		if (waitpid(scheduler, &status, 0) != scheduler || !WIFSTOPPED(status) ||
		    ptrace(PTRACE_SETOPTIONS, scheduler, NULL, PTRACE_O_TRACESYSGOOD))
			die("ptrace: %s", strerror(errno));
		for (i = 0; i < stop; i++)
			if (!next_stop(scheduler, &nr))
				die("it ended: %s", read_file("scheduler.err"));
		EXPECT_EQ(128 + SIGKILL, end_scheduler(SIGKILL));
	}
	START();
	i = COUNT("state = 'done'");
	await(COUNT("state = 'done'") > i);
	STOP();
	EXPECT_LT(0, COUNT("state = 'interrupted'"));
}

/*
 * Killed at any time, again and again, after very short and longer times: each due time has one
 * row, and no command runs twice for it.
 */
TEST_F(jobs, survives_kills)
{
	static const char *const windows[] = { "100ms", "400ms", "5s" };
	__u64 random = seed();
	__s64 first;
	int i;

	ADD("serial", "--every", "100ms", "--misfire", "once", SHELL(LOG));
	ADD("cover", "--every", "150ms", "--block", "cover", SHELL(LOG));
	ADD("discard", "--every", "70ms", "--block", "discard", SHELL(LOG));
	ADD("cron", "--cron", "* * * * * *", "--misfire", "once", SHELL(LOG));
	first = sql("SELECT sum(next) FROM job");
	for (i = 0; i < EPISODES; i++) {
		scheduler = start_jobs(NULL, "scheduler.out", "scheduler.err",
				       ARGS("db", "run", "--window", windows[rnd(&random) % 3]));
		usleep(rnd(&random) % 8 ? rnd(&random) % 300000 : 1000000);
		EXPECT_EQ(128 + SIGKILL, end_scheduler(SIGKILL));
		/* Sometimes no scheduler runs for a while. */
		if (!(rnd(&random) % 8))
			usleep(rnd(&random) % 600000);
		EXPECT_EQ(0, sql("SELECT count(*) FROM pragma_integrity_check"
				 " WHERE integrity_check <> 'ok'"));
	}
	START();
	i = COUNT("state = 'done'");
	await((int)COUNT("state = 'done'") > i + 10);
	STOP();
	EXPECT_EQ(first, sql("SELECT sum(due) FROM"
			     " (SELECT min(due) AS due FROM run GROUP BY job)"));
	EXPECT_LT(0, COUNT("state = 'done' AND cause = 'due'"));
	for (i = 0; i < 7; i++) {
		static const char *const states[] = { "planned", "started", "done", "covered",
			"discarded", "missed", "interrupted" };

		printf("# %s %lld\n", states[i], COUNT("state = '%s'", states[i]));
	}
}

TEST_F(jobs, late_early_and_missed)
{
	ADD("nothing", "--every", "1000s", "--first", "-1h", SHELL(LOG));
	ADD("once", "--every", "1000s", "--first", "-1h", "--misfire", "once", SHELL(LOG));
	ADD("all", "--every", "1000s", "--first", "-1h", "--misfire", "all", SHELL(LOG));
	ADD("late", "--every", "1000s", "--first", "-10s", SHELL(LOG));
	ADD("often", "--every", "3s", "--first", "-10s", SHELL(LOG));
	ADD("soon", "--every", "1000s", "--first", "1s", SHELL(LOG));
	ADD("next", "--every", "1000s", "--first", "80s", SHELL(LOG));
	ADD("far", "--every", "1000s", "--first", "1d", SHELL(LOG));
	START("--window", "100s");
	/* Late runs are started when later ones are planned. */
	await(COUNT("name = 'late' AND state = 'done'"));
	EXPECT_LT(0, COUNT("name = 'soon' OR name = 'often' AND state = 'planned'"));
	await(COUNT("name = 'soon' AND state = 'done'"));
	await(COUNT("name = 'once' AND state = 'done'"));
	await(COUNT("name = 'often' AND state = 'done'") >= 2);
	await(COUNT("name = 'all' AND state = 'done'") == 4);
	STOP();
	EXPECT_EQ(4, COUNT("name = 'all' AND cause = 'misfire'"));
	/* One row for the four missed ones. */
	EXPECT_EQ(1, COUNT("name = 'nothing'"));
	EXPECT_EQ(1, COUNT("name = 'nothing' AND state = 'missed' AND until - due = 4 * every"));
	/* One is run, and one row is for the three missed ones. */
	EXPECT_EQ(2, COUNT("name = 'once'"));
	EXPECT_EQ(1, COUNT("name = 'once' AND state = 'done' AND cause = 'misfire'"));
	EXPECT_EQ(1, COUNT("name = 'once' AND state = 'missed' AND until - due = 3 * every"));
	EXPECT_EQ(1, COUNT("name = 'late'"));
	EXPECT_EQ(1, COUNT("name = 'late' AND cause = 'late'"));
	EXPECT_EQ(1, COUNT("name = 'often' AND cause = 'late'"));
	EXPECT_EQ(1, COUNT("name = 'often' AND state = 'missed'"));
	/* Late if the scheduler started later than that. */
	EXPECT_EQ(1, COUNT("name = 'soon' AND cause IN ('due', 'late')"));
	EXPECT_EQ(1, COUNT("name = 'next' AND cause = 'due'"));
	EXPECT_EQ(0, COUNT("name = 'far'"));
}

/* Planned, but no scheduler ran when they were due. */
TEST_F(jobs, planned_and_too_late)
{
	ADD("nothing", "--every", "100s", "--first", "50s", SHELL(LOG));
	ADD("once", "--every", "100s", "--first", "50s", "--misfire", "once", SHELL(LOG));
	ADD("both", "--every", "100s", "--first", "50s", "--misfire", "once", SHELL(LOG));
	START("--window", "200s");
	await(COUNT("state = 'planned'") == 6);
	EXPECT_EQ(128 + SIGKILL, end_scheduler(SIGKILL));
	/*
	 * Move time by 250 s or 450 s: due 200 s and 100 s ago, and now; or 400, 300 and 200 s
	 * ago.
	 */
	sql("UPDATE job SET next = next - (250 + 200 * (name = 'both')) * 1000000000");
	sql("UPDATE run SET due = due - shift, until = until - shift FROM (SELECT id,"
	    " (250 + 200 * (name = 'both')) * 1000000000 AS shift FROM job) AS j WHERE j.id = job");
	START("--window", "150s");
	await(COUNT("name = 'nothing' AND state = 'done'") == 2);
	await(COUNT("name = 'once' AND state = 'done'") == 3);
	await(COUNT("name = 'both' AND state = 'done'"));
	/* The scheduler notices what other processes write, and continues. */
	ADD("more", "--every", "1h", "--first", "0s", SHELL(LOG));
	await(COUNT("name = 'more' AND state = 'done'"));
	STOP();
	EXPECT_EQ(1, COUNT("name = 'nothing' AND state = 'missed'"));
	EXPECT_EQ(1, COUNT("name = 'nothing' AND state = 'missed' AND due ="
			   " (SELECT min(due) FROM run WHERE job = job.id)"));
	EXPECT_EQ(0, COUNT("name = 'once' AND state = 'missed'"));
	/* The next due time is late, too: that is the one that is run. */
	EXPECT_EQ(2, COUNT("name = 'both' AND state = 'missed' AND cause = 'due'"));
	EXPECT_EQ(1, COUNT("name = 'both' AND state = 'done' AND cause = 'misfire'"));
	EXPECT_EQ(1, COUNT("name = 'both' AND state = 'missed' AND cause = 'misfire'"));
}

TEST_F(jobs, due_once)
{
	time_t soon = time(NULL) + 3, before = soon - 86400;
	char text[32], past[32];

	strftime(text, sizeof(text), "%F %T", gmtime(&soon));
	strftime(past, sizeof(past), "%F %R", gmtime(&before));
	ADD("soon", "--at", text, "--timezone", "UTC", SHELL(LOG));
	EXPECT_EQ((__s64)(soon * NSEC_PER_SEC), sql("SELECT next FROM job"));
	ADD("past", "--at", past, "--timezone", "UTC", "--misfire", "once", SHELL(LOG));
	ADD("gone", "--at", past, "--timezone", "UTC", SHELL(LOG));
	START();
	await(COUNT("name = 'past' AND state = 'done'"));
	await(COUNT("name = 'soon' AND state = 'planned'") ||
	      COUNT("name = 'soon' AND state = 'done'"));
	EXPECT_EQ(128 + SIGKILL, end_scheduler(SIGKILL));
	START();
	await(COUNT("name = 'soon' AND state = 'done'"));
	STOP();
	START();
	STOP();
	EXPECT_EQ(3, COUNT("until IS NULL AND next IS NULL"));
	EXPECT_EQ(1, COUNT("name = 'gone' AND state = 'missed'"));
	EXPECT_EQ(3, COUNT("1"));
	FAIL(2, "--at takes a date", "db", "add", "a", "--at", "tomorrow", "--", "true");
	FAIL(2, "not both", "db", "add", "a", "--at", text, "--first", "1s", "--", "true");
}

TEST_F(jobs, serial_runs_wait)
{
	ADD("a", "--every", "100ms", SHELL(LOG "; " UNTIL_GO));
	START();
	await(PAST("state = 'planned'") >= 3);
	/* Due times before the start may have been missed. */
	EXPECT_EQ(1, COUNT("state NOT IN ('planned', 'missed')"));
	EXPECT_EQ(1, COUNT("state = 'started'"));
	touch_file("go");
	await(COUNT("state = 'done'") >= 4);
	STOP();
	EXPECT_EQ(0, COUNT("state NOT IN ('done', 'planned', 'missed')"));
	EXPECT_EQ(0, sql("SELECT count(*) FROM (SELECT due, lag(due) OVER (ORDER BY rowid) AS last"
			 " FROM logged) WHERE last >= due"));
}

/* One row stands for what was missed, however long it lasts. */
TEST_F(jobs, serial_runs_are_bounded)
{
	ADD("a", "--every", "50ms", SHELL(LOG "; " UNTIL_GO));
	START("--window", "200ms");
	await(sql("SELECT max(due) - min(due) FROM run") > (__s64)(3 * NSEC_PER_SEC));
	EXPECT_GT(25, COUNT("1"));
	EXPECT_EQ(1, COUNT("state = 'started'"));
	EXPECT_LT(0, COUNT("state = 'missed' AND until - due > 10 * every"));
	touch_file("go");
	await(COUNT("state = 'done'") >= 4);
	STOP();
}

TEST_F(jobs, later_runs_are_discarded)
{
	ADD("a", "--every", "15ms", "--block", "discard", SHELL(LOG "; " UNTIL_GO));
	START();
	await(COUNT("state = 'discarded'") >= 3);
	EXPECT_EQ(1, COUNT("state = 'started'"));
	EXPECT_EQ(0, COUNT("state = 'done'"));
	touch_file("go");
	await(COUNT("state = 'done'") >= 2);
	STOP();
	EXPECT_EQ(0, COUNT("state NOT IN ('done', 'planned', 'discarded', 'missed')"));
	/* The second run was discarded. */
	EXPECT_EQ(1, COUNT("state = 'discarded' AND due = (SELECT due FROM run"
			   " WHERE state <> 'missed' ORDER BY due LIMIT 1 OFFSET 1)"));
}

/* How many of the first @max processes listed in a file exist; send each @signal. */
static int still_there(const char *name, int max, int signal)
{
	char text[4096], *p, *rest;
	int number = 0;

	snprintf(text, sizeof(text), "%s", read_file(name));
	for (p = strtok_r(text, "\n", &rest); p && max--; p = strtok_r(NULL, "\n", &rest))
		number += !kill(atoi(p), signal);
	return number;
}

TEST_F(jobs, earlier_runs_are_covered)
{
	ADD("a", "--every", "200ms", "--block", "cover",
	    SHELL(LOG "; echo $$ >>commands; sleep 1000 & echo $! >>sleeps; wait"));
	ADD("long", "--every", "1h", "--first", "0s", SHELL(LOG "; sleep 1000; exit 1"));
	START();
	await(COUNT("state = 'covered' AND status = 128 + 9") >= 3);
	/* With the processes that they started. */
	await(!still_there("sleeps", 2, 0));
	EXPECT_GE(1, COUNT("name = 'a' AND state = 'started'"));
	EXPECT_EQ(1, COUNT("name = 'long' AND state = 'started'"));
	/*
	 * The scheduler waits for the long run, unless it gets two signals. They differ, so that
	 * they do not merge.
	 */
	kill(scheduler, SIGTERM);
	EXPECT_EQ(1, end_scheduler(SIGINT));
	/* No command outlives the scheduler. */
	await(!still_there("commands", INT_MAX, 0));
	check_books(_metadata);
	EXPECT_EQ(0, COUNT("state NOT IN ('started', 'planned', 'covered', 'missed')"));
	START();
	EXPECT_EQ(1, COUNT("name = 'long' AND state = 'interrupted'"));
	EXPECT_EQ(128 + SIGKILL, end_scheduler(SIGKILL));
	await(!still_there("commands", INT_MAX, 0));
	/* Processes that commands started may outlive the scheduler. */
	still_there("sleeps", INT_MAX, SIGKILL);
}

/* This user may make no control groups. */
TEST_F(jobs, runs_have_a_limit)
{
	ADD("deaf", "--every", "1h", "--first", "0s", "--timeout", "300ms", "--grace", "400ms",
	    SHELL(LOG "; trap '' TERM; sleep 1000 & echo $! >>sleeps; wait; sleep 1000"));
	ADD("polite", "--every", "1h", "--first", "0s", "--timeout", "300ms",
	    SHELL(LOG "; trap 'exit 3' TERM; sleep 1000 & wait"));
	ADD("quick", "--every", "100ms", "--timeout", "1h", SHELL(LOG));
	if (system("chown -R 1001:1001 ."))
		die("chown: %s", strerror(errno));
	scheduler = start_jobs(as_user, "scheduler.out", "scheduler.err", ARGS("db", "run"));
	await(COUNT("name = 'deaf' AND state = 'timeout'") == 1);
	await(COUNT("name = 'polite' AND state = 'timeout'") == 1);
	await(COUNT("name = 'quick' AND state = 'done'") >= 2);
	EXPECT_EQ(1, COUNT("name = 'deaf' AND status = 128 + 9 AND took >= 700000000"));
	/* With the processes that it started. */
	await(!still_there("sleeps", 1, 0));
	EXPECT_EQ(1, COUNT("name = 'polite' AND status = 3 AND took >= 300000000"));
	EXPECT_EQ(0, COUNT("name = 'quick' AND state = 'timeout'"));
	STOP();
}

/* How many control groups of runs there are. */
static size_t count_groups(void)
{
	glob_t found = { };

	glob("/sys/fs/cgroup/hwtimer-run-*", 0, NULL, &found);
	return found.gl_pathc;
}

/* A process that left the group of its command; a guest has control groups of version 2. */
TEST_F(jobs, nothing_escapes_its_limit)
{
	static const char escape[] = LOG "; setsid sleep 1000 & echo $! >>escaped; ";
	char wait[128], exit[128];
	size_t before;

	if (access("/sys/fs/cgroup/cgroup.procs", F_OK))
		SKIP(return, "no control groups of version 2");
	snprintf(wait, sizeof(wait), "%strap '' TERM; wait; sleep 1000", escape);
	snprintf(exit, sizeof(exit), "%strap 'exit 3' TERM; wait", escape);
	ADD("deaf", "--every", "1h", "--first", "0s", "--timeout", "300ms", "--grace", "100ms",
	    SHELL(wait));
	ADD("polite", "--every", "1h", "--first", "0s", "--timeout", "300ms", SHELL(exit));
	before = count_groups();
	START();
	await(COUNT("state = 'timeout'") == 2);
	await(!still_there("escaped", 2, 0));
	STOP();
	/* The first one removes the groups of processes that were just killed. */
	START();
	STOP();
	EXPECT_GE(before, count_groups());
}

TEST_F(jobs, runs_are_stopped)
{
	ADD("long", "--every", "1h", "--first", "0s", SHELL(LOG "; exec sleep 1000"));
	FAIL(1, "does not run", "db", "stop", "long");
	START();
	await(COUNT("state = 'started'") == 1);
	MUST_RUN("db", "stop", "long");
	await(COUNT("state = 'stopped' AND status = 128 + 15") == 1);
	FAIL(1, "does not run", "db", "stop", "long");
	FAIL(1, "there is no job 'b'", "db", "stop", "b");
	STOP();
}

TEST_F(jobs, slow_jobs_have_a_lane)
{
	ADD("slow", "--every", "30ms",
	    SHELL(LOG "; [ $(grep -c slow log) -le 12 ] || " UNTIL_GO));
	START("--fast", "1", "--slow", "1", "--slow-time", "0s", "--slow-within", "1h");
	/* The slow lane is full, the fast one is not. */
	await(COUNT("state = 'started' AND lane = 'slow'") == 1 &&
	      COUNT("state = 'done'") == 12);
	ADD("first", "--every", "1h", "--first", "0s", SHELL(LOG "; " UNTIL_GO));
	await(COUNT("name = 'first' AND state = 'started' AND lane = 'fast'") == 1);
	/* Now the fast lane is full, too. */
	ADD("second", "--every", "1h", "--first", "0s", SHELL(LOG));
	await(PAST("name = 'second' AND state = 'planned'") == 1);
	await(PAST("name = 'slow' AND state = 'planned'") >= 3);
	EXPECT_EQ(2, COUNT("state = 'started'"));
	touch_file("go");
	await(COUNT("name = 'second' AND state = 'done'") == 1);
	await(COUNT("name = 'slow' AND state = 'done'") >= 14);
	STOP();
	/* A job is slow after more than 10 slow runs: 11 runs are in the fast lane. */
	EXPECT_EQ(11, COUNT("name = 'slow' AND lane = 'fast'"));
	EXPECT_EQ(11, sql("SELECT count(*) FROM (SELECT lane FROM run JOIN job ON job.id = job"
			  " WHERE name = 'slow' AND lane IS NOT NULL ORDER BY due LIMIT 11)"
			  " WHERE lane = 'fast'"));
	EXPECT_EQ(0, COUNT("name <> 'slow' AND lane <> 'fast'"));
}

TEST_F(jobs, quick_jobs_stay_in_theirs)
{
	ADD("a", "--every", "30ms", SHELL(LOG));
	START("--slow-time", "1d", "--slow-runs", "0");
	await(COUNT("state = 'done'") >= 13);
	STOP();
	EXPECT_EQ(0, COUNT("lane <> 'fast'"));
}

static bool is_about(__s64 time, __s64 wanted)
{
	return llabs(time - wanted) < NSEC_PER_SEC;
}

/* The clock is that of a guest. */
TEST_F(jobs, elapsed_time_counts)
{
	__s64 due;

	ADD("a", "--every", "100000s", "--first", "4s", SHELL(LOG));
	START("--window", "10000s");
	await(COUNT("state = 'planned'") == 1);
	due = sql("SELECT due FROM run");
	move_clock(6000);
	await(is_about(sql("SELECT due FROM run"), due + 6000 * NSEC_PER_SEC));
	await(COUNT("state = 'done'") == 1);
	EXPECT_EQ(0, COUNT("cause <> 'due'"));
	ADD("b", "--every", "100000s", "--first", "4s", SHELL(LOG));
	await(COUNT("name = 'b' AND state = 'planned'") == 1);
	move_clock(1000);
	await(COUNT("name = 'b' AND state = 'done'") == 1);
	STOP();
	/* The clock is set while no scheduler runs. */
	due = sql("SELECT next FROM job WHERE name = 'a'");
	move_clock(5000);
	START("--window", "10000s");
	await(is_about(sql("SELECT next FROM job WHERE name = 'a'"), due + 4000 * NSEC_PER_SEC));
	STOP();
	EXPECT_NE(NULL, strstr(read_file("scheduler.err"), "clock was set"));
}

TEST_F(jobs, the_clock_is_set_back)
{
	__s64 last;

	ADD("cron", "--cron", "* * * * * *", SHELL(LOG));
	ADD("every", "--every", "500ms", SHELL(LOG));
	START();
	await(COUNT("name = 'cron' AND state = 'done'") >= 2);
	last = sql("SELECT max(id) FROM run");
	move_clock(-3600);
	await(COUNT("name = 'cron' AND state = 'done' AND run.id > %lld", last) >= 2);
	await(COUNT("name = 'every' AND state = 'done' AND run.id > %lld", last) >= 2);
	STOP();
}

/* The scheduler runs while the clock is wrong, and the machine may be started again. */
TEST_F(jobs, a_clock_that_was_wrong)
{
	__s64 last, i;

	ADD("cron", "--cron", "* * * * * *", SHELL(LOG));
	ADD("every", "--every", "500ms", SHELL(LOG));
	for (i = 0; i < 2; i++) {
		move_clock(72LL * 365 * 86400);
		last = sql("SELECT max(id) FROM run");
		START();
		await(COUNT("name = 'cron' AND state = 'done' AND run.id > %lld", last) >= 1);
		STOP();
		last = sql("SELECT max(id) FROM run");
		move_clock(0);
		if (i)
			sql("UPDATE clock SET boot = 'another'");
		START();
		await(COUNT("name = 'cron' AND state = 'done' AND run.id > %lld", last) >= 1);
		await(COUNT("name = 'every' AND state = 'done' AND run.id > %lld", last) >= 1);
		STOP();
	}
}

/* Write a file for a zone whose clock is always as many hours ahead of UTC. */
static void write_zone(const char *name, int hours)
{
	unsigned char zone[44 + 6 + 4] = "TZif";
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	zone[39] = 1;		/* one type of time */
	zone[43] = 4;		/* with a name of four characters */
	zone[46] = hours * 3600 >> 8;
	zone[47] = hours * 3600 & 0xff;
	memcpy(zone + 50, "ABC", 4);
	if (fd < 0 || write(fd, zone, sizeof(zone)) != sizeof(zone))
		die("%s: %s", name, strerror(errno));
	close(fd);
}

TEST_F(jobs, the_time_zone_is_changed)
{
	char file[48];

	if (!access("/etc/localtime", F_OK))
		SKIP(return, "this is no guest");
	write_zone("one", 1);
	write_zone("three", 3);
	ADD("a", "--cron", "0 12 * * *", SHELL(LOG));
	EXPECT_EQ(12 * 3600, sql("SELECT next / 1000000000 %% 86400 FROM job"));
	snprintf(file, sizeof(file), "%s/one", self->dir);
	if (mkdir("/etc", 0755) && errno != EEXIST)
		die("/etc: %s", strerror(errno));
	/* Changed before the scheduler begins, and while it runs. */
	symlink(file, "/etc/localtime");
	START();
	await(sql("SELECT next / 1000000000 %% 86400 FROM job") == 11 * 3600);
	unlink("/etc/localtime");
	snprintf(file, sizeof(file), "%s/three", self->dir);
	symlink(file, "/etc/localtime");
	await(sql("SELECT next / 1000000000 %% 86400 FROM job") == 9 * 3600);
	unlink("/etc/localtime");
	STOP();
}

/* The scheduler is late, because the database was locked for longer than the window. */
TEST_F(jobs, its_own_delay_is_no_misfire)
{
	ADD("a", "--every", "1d", "--first", "2s", SHELL(LOG));
	START("--window", "200ms");
	sql("BEGIN IMMEDIATE");
	sleep(3);
	sql("COMMIT");
	await(COUNT("state = 'done' AND cause IN ('due', 'late')") == 1);
	STOP();
}

TEST_F(jobs, upgrades_version_1)
{
	static const char *const tables[] = {
		"CREATE TABLE job (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
		" cron TEXT, every INTEGER, misfire TEXT NOT NULL, block TEXT NOT NULL,"
		" next INTEGER) STRICT", "CREATE INDEX job_next ON job (next)",
		"CREATE TABLE argument (job INTEGER NOT NULL REFERENCES job ON DELETE CASCADE,"
		" position INTEGER NOT NULL, value TEXT NOT NULL, PRIMARY KEY (job, position))"
		" STRICT, WITHOUT ROWID",
		"CREATE TABLE run (id INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL"
		" REFERENCES job ON DELETE CASCADE, due INTEGER NOT NULL, until INTEGER,"
		" cause TEXT NOT NULL, state TEXT NOT NULL, lane TEXT, started INTEGER,"
		" ended INTEGER, took INTEGER, status INTEGER, UNIQUE (job, due)) STRICT",
		"CREATE INDEX run_ended ON run (job, ended)",
		"CREATE INDEX run_open ON run (due) WHERE state IN ('planned', 'started')",
		"INSERT INTO job VALUES (9, 'gone', NULL, 1000, 'once', 'serial', 1)",
		"DELETE FROM job",
		"INSERT INTO job VALUES (3, 'a', NULL, 3600000000000, 'once', 'cover', 7200000000000)",
		"INSERT INTO argument VALUES (3, 0, 'sh'), (3, 1, '-c'), (3, 2, '" LOG "')",
		"INSERT INTO run (id, job, due, until, cause, state) VALUES"
		" (7, 3, 3600000000000, 7200000000000, 'misfire', 'missed')",
		"PRAGMA application_id = 1785684595", "PRAGMA user_version = 1",
	};
	pid_t old;
	size_t i;

	touch_file("db");
	for (i = 0; i < ARRAY_SIZE(tables); i++)
		sql("%s", tables[i]);
	/* The old scheduler may still run. */
	old = must_fork();
	if (!old) {
		struct flock lock = { .l_type = F_WRLCK };

		fcntl(open("db-lock", O_RDWR | O_CREAT, 0644), F_SETLK, &lock);
		touch_file("locked");
		pause();
	}
	await(!access("locked", F_OK));
	FAIL(1, "another scheduler has it, process", "db", "list");
	EXPECT_EQ(1, sql("PRAGMA user_version"));
	kill(old, SIGKILL);
	reap(old);
	RUN(0, "db", "list");
	EXPECT_TRUE(said("upgraded to version "));
	ADD("b", "--every", "1h", "--", "true");
	EXPECT_LT(9, sql("SELECT id FROM job WHERE name = 'b'"));
	START();
	await(COUNT("name = 'a' AND state = 'done' AND cause = 'misfire'") == 1);
	STOP();
	EXPECT_EQ(1, COUNT("name = 'a' AND run.id = 7"));
	EXPECT_EQ(0, COUNT("run.id < 7"));
}

TEST_F(jobs, jobs_come_and_go)
{
	ADD("a", "--every", "100ms", SHELL(LOG));
	START("--window", "1s");
	await(COUNT("state = 'done'") >= 1);
	MUST_RUN("db", "remove", "a");
	EXPECT_EQ(0, COUNT("1"));
	ADD("b", "--every", "100ms", SHELL(LOG));
	await(COUNT("state = 'done'") >= 3);
	EXPECT_EQ(0, COUNT("name <> 'b'"));
	/* Only one scheduler at a time. */
	FAIL(1, "another scheduler has it, process", "db", "run");
	if (symlink("db", "link"))
		die("symlink: %s", strerror(errno));
	FAIL(1, "another scheduler has it, process", "link", "run");
	EXPECT_EQ(0, end_scheduler(SIGTERM));
	RUN(0, "db", "list");
}

/* All of them create the database. */
TEST_F(jobs, added_at_once)
{
	char name[16], err[16];
	pid_t pids[12];
	int round, i;

	for (round = 0; round < 10; round++) {
		for (i = 0; i < 12; i++) {
			snprintf(name, sizeof(name), "job%d", i);
			snprintf(err, sizeof(err), "err%d", i);
			pids[i] = start_jobs(NULL, "/dev/null", err,
					     ARGS("db", "add", name, "--every", "1h", "--",
						  "true"));
		}
		for (i = 0; i < 12; i++) {
			snprintf(err, sizeof(err), "err%d", i);
			EXPECT_EQ(0, reap(pids[i])) TH_LOG("%s", read_file(err));
		}
		EXPECT_EQ(12, sql("SELECT count(*) FROM job"));
		sqlite3_close(db);
		db = NULL;
		if (unlink("db"))
			die("unlink: %s", strerror(errno));
	}
}

TEST_F(jobs, says_what_is_wrong)
{
	FAIL(2, "missing", "db");
	FAIL(2, "'nosuch'", "db", "nosuch");
	FAIL(2, "NAME", "db", "add");
	FAIL(2, "either --cron, --every or --at", "db", "add", "a", "--", "true");
	FAIL(2, "no COMMAND", "db", "add", "a", "--every", "1s");
	FAIL(2, "--every takes a time", "db", "add", "a", "--every", "9ms", "--", "true");
	FAIL(2, "--every takes a time", "db", "add", "a", "--every", "5", "--", "true");
	FAIL(2, "hours: they are", "db", "add", "a", "--cron", "0 24 * * *", "--", "true");
	FAIL(2, "5 fields, 6", "db", "add", "a", "--cron", "* * *", "--", "true");
	FAIL(2, "never due", "db", "add", "a", "--cron", "0 0 30 feb *", "--", "true");
	FAIL(2, "no time zone 'X'", "db", "add", "a", "--cron", "TZ=X @daily", "--", "true");
	FAIL(2, "not both", "db", "add", "a", "--timezone", "UTC", "--cron", "TZ=UTC @daily", "--",
	     "true");
	FAIL(2, "is for --cron", "db", "add", "a", "--every", "1s", "--timezone", "UTC", "--",
	     "true");
	FAIL(2, "'thrice'", "db", "add", "a", "--every", "1s", "--misfire", "thrice", "--", "true");
	FAIL(2, "--timeout takes", "db", "add", "a", "--every", "1s", "--timeout", "0s", "--",
	     "true");
	FAIL(2, "'wall'", "db", "add", "a", "--every", "1s", "--block", "wall", "--", "true");
	FAIL(2, "--fast", "db", "run", "--fast", "0");
	FAIL(2, "--window", "db", "run", "--window", "soon");
	/* None of these created a database. */
	EXPECT_EQ(-1, access("db", F_OK));
	FAIL(1, "db: No such file", "db", "list");
	FAIL(1, "db: No such file", "db", "run");
	FAIL(1, "No such file", "no/such/db", "add", "a", "--every", "1s", "--", "true");
	FAIL(1, "'' is not the name of a file", "", "add", "a", "--every", "1s", "--", "true");
	FAIL(1, "not the name of a file", ":memory:", "add", "a", "--every", "1s", "--", "true");
	FAIL(1, "not the name", "file:a?mode=memory", "add", "a", "--every", "1s", "--", "true");
	FAIL(1, "directory", ".", "add", "a", "--every", "1s", "--", "true");
	if (system("echo what >text"))
		die("echo: %s", strerror(errno));
	FAIL(1, "not a database", "text", "list");
	FAIL(1, "not a database", "text", "add", "a", "--every", "1s", "--", "true");
	ADD("a", "--every", "1h", "--", "true");
	FAIL(1, "there is a job 'a' already", "db", "add", "a", "--every", "1s", "--", "true");
	FAIL(1, "there is no job 'b'", "db", "remove", "b");
	FAIL(1, "there is no job 'b'", "db", "log", "b");
	ADD("c\33]0;", "--every", "1s", "--", "true");
	RUN(0, "db", "list");
	EXPECT_NE(NULL, strstr(read_file("out"), "\nc?]0; "));
	RUN(0, "db", "remove", "c\33]0;");
	/* The same as one character, and others that begin and end alike. */
	ADD("c\302\2350;\302\240\303\235", "--every", "1s", "--", "true");
	RUN(0, "db", "list");
	EXPECT_NE(NULL, strstr(read_file("out"), "\nc??0;\302\240\303\235 "));
	RUN(0, "db", "remove", "c\302\2350;\302\240\303\235");
	sql("PRAGMA user_version = 3");
	FAIL(1, "db: these tables were made by another version", "db", "list");
	FAIL(1, "another version", "db", "add", "c", "--every", "1s", "--", "true");
	sql("PRAGMA user_version = 2");
	/* A database that another user may read, but not write. */
	if (chmod(".", 0755))
		die("chmod: %s", strerror(errno));
	EXPECT_EQ(1, run_jobs(as_user, "out",
			      ARGS("db", "add", "b", "--every", "1s", "--", "true")));
	EXPECT_TRUE(said("no right to write"));
	EXPECT_EQ(1, run_jobs(as_user, "out", ARGS("db", "run")));
	EXPECT_TRUE(said("no right to write"));
	EXPECT_EQ(1, run_jobs(NULL, "/dev/full", ARGS("db", "list")));
	EXPECT_TRUE(said("standard output"));
	sqlite3_close(db);
	db = NULL;
	EXPECT_EQ(1, sql("SELECT count(*) FROM job"));
}

TEST_HARNESS_MAIN
