// SPDX-License-Identifier: GPL-2.0-only
/*
 * Storms: processes that open, map, fork, exec and are killed, all at once, with timeouts and
 * rings in use; users that take all they may, at once; a backlog that nobody reads; and unloading
 * against all of that. Meanwhile other contexts work as usual, and afterwards nothing is left.
 *
 * SEED=N repeats a run, as far as two CPUs allow. CYCLES=N unloads N times, however long that
 * takes.
 */
#include "cgroup.h"
#include "ring.h"
#include "users.h"

#define MODULE		"hwtimer"
#define SHARED_WHEEL	"dev"

/* Wait until nothing is left of contexts that have been closed. */
static void check_nothing_left(void)
{
	eventually(!must_wheel_value(SHARED_WHEEL, "pending"));
	eventually(!must_wheel_value(SHARED_WHEEL, "filed"));
	eventually(!module_references());
}

/*
 * A process of the storm makes all kinds of calls until it is killed. A call may find the module
 * not loaded, or a limit reached.
 */
struct stormer {
	__u64 random;
	int fd;
	struct ring *ring;
};

static void storm_close(struct stormer *s)
{
	if (s->ring && rnd(&s->random) % 2) {
		/* Only the mapping remains, which keeps the context. */
		close(s->fd);
		s->fd = -1;
		usleep(rnd(&s->random) % 500);
	}
	if (s->ring)
		ring_unmap(s->ring);
	if (s->fd >= 0)
		close(s->fd);
	s->ring = NULL;
	s->fd = -1;
}

static __u64 storm_delay(struct stormer *s)
{
	return rnd(&s->random) % 4 ? rnd(&s->random) % (5 * NSEC_PER_MSEC) : FAR;
}

static void storm_arm(struct stormer *s)
{
	struct hwtimer_schedule arg = {
		.flags = HWTIMER_RELATIVE, .time = storm_delay(s),
		.id = HWTIMER_ID(rnd(&s->random) % 32, 0),
	};

	if (!(rnd(&s->random) % 8)) {
		arg.period = NSEC_PER_MSEC + rnd(&s->random) % NSEC_PER_SEC;
		arg.policy = rnd(&s->random) % 3;
	}
	hwt_ioctl(s->fd, HWTIMER_IOC_SCHEDULE, &arg);
}

static void storm_ring(struct stormer *s)
{
	struct hwtimer_record rec[8];
	struct hwtimer_sqe sqe = {
		.op = 1 + rnd(&s->random) % 3, .flags = HWTIMER_SQE_QUIET,
		.id = HWTIMER_ID(rnd(&s->random) % 32, 1),
	};
	unsigned int n = rnd(&s->random) % 40;

	while (n--) {
		sqe.time = sqe.op == HWTIMER_OP_CANCEL ? 0 : now_ns() + storm_delay(s);
		if (!ring_put(s->ring, &sqe) || !(rnd(&s->random) % 8))
			ring_enter(s->ring, NULL);
	}
	ring_reap(s->ring, rec, ARRAY_SIZE(rec));
}

static void storm_open(struct stormer *s)
{
	struct hwtimer_setup setup = {
		.flags = HWTIMER_SETUP_OWN_WHEEL | HWTIMER_SETUP_GROW,
		.clockid = CLOCK_MONOTONIC, .tick_ns = NSEC_PER_MSEC, .slots = 16,
	};

	storm_close(s);
	s->fd = hwt_open(O_NONBLOCK);
	if (s->fd < 0) {
		/* The module is being loaded or unloaded. */
		if (s->fd != -ENOENT && s->fd != -ENODEV && s->fd != -ENXIO)
			die("open: %s", strerror(-s->fd));
		usleep(rnd(&s->random) % 3000);
		return;
	}
	if (!(rnd(&s->random) % 8) && hwt_setup(s->fd, &setup))
		die("setup");
	if (rnd(&s->random) % 2)
		s->ring = must_ring(s->fd, 16, 16, 32);
}

static void storm_fork(struct stormer *s)
{
	pid_t pid = must_fork();

	if (!pid) {
		if (rnd(&s->random) % 2) {
			/*
			 * The child has the context and our mapping until it executes another
			 * program.
			 */
			storm_arm(s);
			execl("/proc/self/exe", "storm", "--exit", NULL);
			_exit(1);
		}
		if (s->ring)
			storm_ring(s);
		kill(getpid(), SIGKILL);
	}
	reap(pid);
	/* Both processes may have changed the indexes. */
	if (s->ring) {
		s->ring->sq_tail = load_acquire(&s->ring->shared->sq_tail);
		s->ring->cq_head = load_acquire(&s->ring->shared->cq_head);
	}
}

static void storm_step(struct stormer *s)
{
	struct hwtimer_record rec[16];

	if (s->fd < 0) {
		storm_open(s);
		return;
	}
	switch (rnd(&s->random) % 16) {
	case 0:
		storm_open(s);
		break;
	case 1:
		storm_close(s);
		break;
	case 2:
		storm_fork(s);
		break;
	case 3:
		hwt_stop(s->fd, NULL);
		break;
	case 4 ... 8:
		storm_arm(s);
		break;
	default:
		if (s->ring)
			storm_ring(s);
		else
			hwt_read(s->fd, rec, ARRAY_SIZE(rec));
	}
}

static struct stormer a_stormer(__u64 random)
{
	return (struct stormer){ .random = random | 1, .fd = -1 };
}

/* A context that must not notice anything: each one-shot is reported once, none early. */
#define WITNESSED	4096

struct witness {
	int fd;
	unsigned int scheduled, reported;
	bool seen[WITNESSED];
};

static void witness_read(struct witness *w)
{
	struct hwtimer_record rec[16];
	int n;

	while ((n = hwt_read(w->fd, rec, ARRAY_SIZE(rec))) > 0) {
		w->reported += n;
		while (n--) {
			if (!valid_record(&rec[n], HWTIMER_KIND_EXPIRED))
				die("record: deadline %llu fired %llu kind %u",
				    rec[n].deadline, rec[n].fired, rec[n].kind);
			if (rec[n].user_data >= w->scheduled || w->seen[rec[n].user_data])
				die("record %llu of %u", rec[n].user_data, w->scheduled);
			w->seen[rec[n].user_data] = true;
		}
	}
	if (n != -EAGAIN)
		die("read: %d", n);
}

static void witness_step(struct witness *w, __u64 *random)
{
	if (w->scheduled < WITNESSED) {
		must_schedule(w->fd, rnd(random) % (20 * NSEC_PER_MSEC), w->scheduled);
		w->scheduled++;
	}
	witness_read(w);
}

static void witness_end(struct witness *w)
{
	eventually(({
		witness_read(w);
		w->reported == w->scheduled;
	}));
	close(w->fd);
}

#define STORMERS	5

static pid_t start_stormer(__u64 random)
{
	pid_t pid = must_fork();

	if (!pid) {
		struct stormer s = a_stormer(random);

		for (;;)
			storm_step(&s);
	}
	return pid;
}

FIXTURE(storm)
{
};

FIXTURE_SETUP(storm)
{
	check_nothing_left();
}

FIXTURE_TEARDOWN(storm)
{
}

/* All processes at once, killed one after the other in the middle of what they do. */
TEST_F(storm, processes)
{
	unsigned int kills = quick_or(40, with_checkers() ? 60 : 300), i;
	struct witness w = { .fd = must_open(O_NONBLOCK) };
	__u64 random = seed(), began = now_ns();
	pid_t stormers[STORMERS];

	for (i = 0; i < STORMERS; i++)
		stormers[i] = start_stormer(rnd(&random));
	for (i = 0; i < kills; i++) {
		pid_t *victim = &stormers[rnd(&random) % STORMERS];

		witness_step(&w, &random);
		usleep(rnd(&random) % 50000);
		must_kill(*victim);
		*victim = start_stormer(rnd(&random));
	}
	for (i = 0; i < STORMERS; i++) {
		must_kill(stormers[i]);
	}
	witness_end(&w);
	check_nothing_left();
	printf("# %u killed in %llu ms, %u timeouts of another context\n", kills,
	       (now_ns() - began) / NSEC_PER_MSEC, w.reported);
}

/* Unloading. */
#define UNLOAD_SECONDS	quick_or(5, 50)	/* as many cycles as this allows, ... */
#define LEAST_CYCLES	quick_or(8, 20)	/* ... but at least so many */
#define OPENERS		3
#define PATIENT_TRIES	20	/* before the gate is closed */

/**
 * struct gate - where processes wait while they must not use the module
 * @turns: how often it was closed or opened; odd: it is closed
 * @resting: by number of the process: the turn since which it waits
 */
struct gate {
	atomic_uint turns;
	atomic_uint resting[OPENERS + 1];
};

static void close_gate(struct gate *gate)
{
	if (atomic_load(&gate->turns) % 2 == 0)
		atomic_fetch_add(&gate->turns, 1);
}

static void open_gate(struct gate *gate)
{
	if (atomic_load(&gate->turns) % 2)
		atomic_fetch_add(&gate->turns, 1);
}

static void pass_gate(struct gate *gate, unsigned int number)
{
	unsigned int turn = atomic_load(&gate->turns);

	if (turn % 2 == 0)
		return;
	atomic_store(&gate->resting[number], turn);
	while (atomic_load(&gate->turns) == turn)
		usleep(200);
}

static bool all_rest(struct gate *gate)
{
	unsigned int i;

	for (i = 0; i <= OPENERS; i++)
		if (atomic_load(&gate->resting[i]) != atomic_load(&gate->turns))
			return false;
	return true;
}

static void open_and_close(struct gate *gate, unsigned int number, __u64 random)
{
	struct stormer s = a_stormer(random);
	unsigned int steps;

	for (;;) {
		for (steps = rnd(&s.random) % 12; steps; steps--)
			storm_step(&s);
		storm_close(&s);
		usleep(rnd(&s.random) % 4000);
		pass_gate(gate, number);
	}
}

/* Read the module's files while it is unloaded. */
static void read_files(struct gate *gate)
{
	static const char *const files[] = {
		HWT_DEBUGFS "/dev/stats", HWT_DEBUGFS "/dev/buckets",
		"/sys/module/hwtimer/refcnt", HWT_PARAMETERS "/tick_ns",
	};
	char buf[1024];
	unsigned int i;

	for (i = 0;; i++) {
		int fd = open(files[i % ARRAY_SIZE(files)], O_RDONLY | O_CLOEXEC);

		if (fd >= 0) {
			while (read(fd, buf, sizeof(buf)) > 0)
				;
			close(fd);
		}
		usleep(1000);
		pass_gate(gate, 0);
	}
}

static pid_t start_opener(struct gate *gate, unsigned int number, __u64 random)
{
	pid_t pid = must_fork();

	if (!pid) {
		if (number)
			open_and_close(gate, number, random);
		read_files(gate);
	}
	return pid;
}

/*
 * While a process has the device open, unloading fails; as soon as none has, it succeeds, and an
 * open() meanwhile succeeds completely or fails.
 */
TEST_F_TIMEOUT(storm, unload, 3600)
{
	const char *given = getenv("CYCLES");
	unsigned int cycles = given ? (unsigned int)atoi(given) : UINT_MAX;
	unsigned int in_use = 0, by_chance = 0, killed = 0, tries, number, i;
	struct gate *gate = must_share(sizeof(*gate));
	__u64 random = seed(), began = now_ns();
	__u64 end = began + (given ? 3600 : UNLOAD_SECONDS) * NSEC_PER_SEC;
	pid_t openers[OPENERS + 1];
	int ret;

	for (i = 0; i <= OPENERS; i++)
		openers[i] = start_opener(gate, i, rnd(&random));
	for (i = 0; i < cycles && (now_ns() < end || i < LEAST_CYCLES); i++) {
		__u64 tried = now_ns();

		if (i % 4) {
			/* When nobody has it open by chance, or when the gate has closed. */
			for (tries = 1; (ret = unload(MODULE)) == -EWOULDBLOCK; tries++) {
				if (tries > PATIENT_TRIES)
					close_gate(gate);
				ASSERT_GT(tried + PATIENCE, now_ns());
				usleep(rnd(&random) % 300);
			}
			in_use += tries - 1;
			by_chance += tries <= PATIENT_TRIES;
		} else {
			/*
			 * With the gate closed; what killed processes used must have been
			 * released.
			 */
			close_gate(gate);
			eventually(all_rest(gate));
			eventually(!module_references());
			ret = unload(MODULE);
			EXPECT_EQ(-ENOENT, hwt_open(0));
		}
		ASSERT_EQ(0, ret);
		/* Processes find the module gone, or being loaded. */
		open_gate(gate);
		ASSERT_EQ(0, load(MODULE, ""));
		if (i % 8 == 7) {
			number = rnd(&random) % OPENERS + 1;
			must_kill(openers[number]);
			openers[number] = start_opener(gate, number, rnd(&random));
			killed++;
		}
	}
	for (number = 0; number <= OPENERS; number++) {
		must_kill(openers[number]);
	}
	check_nothing_left();
	printf("# unloaded %u times in %llu s, %u of them by chance; ", i,
	       (now_ns() - began) / NSEC_PER_SEC, by_chance);
	printf("in use %u times, %u processes killed\n", in_use, killed);
	EXPECT_LT(0, in_use);
	EXPECT_LE(given ? cycles : LEAST_CYCLES, i);
	munmap(gate, sizeof(*gate));
}

/* Users at their limits. */
#define TAKERS		3	/* processes of each user */
#define MAX_RATE	40
#define MAX_WHEELS	5
#define MAX_TIMEOUTS	200

static const char *const limits[] = {
	"max_user_timeouts", "max_user_wheels", "max_user_rate",
};

/**
 * struct account - what a user has taken, over all its processes
 * @at: the sum over its processes of the phases that each has completed
 * @rate: periodic timeouts, each once a second
 * @wheels: own wheels
 * @timeouts: timeouts, including slots of rings and periodic timeouts
 */
struct account {
	atomic_uint at;
	atomic_uint rate;
	atomic_uint wheels;
	atomic_uint timeouts;
};

/* The processes of one user wait for each other at the end of a phase. */
static void meet(struct account *a, unsigned int phase)
{
	atomic_fetch_add(&a->at, 1);
	eventually(atomic_load(&a->at) >= phase * TAKERS);
}

/* Take all that is allowed, until each kind is refused. */
static void take_all(struct account *a, __u64 random)
{
	struct hwtimer_setup own = {
		.flags = HWTIMER_SETUP_OWN_WHEEL, .clockid = CLOCK_MONOTONIC,
		.tick_ns = NSEC_PER_MSEC, .slots = 16,
	};
	int fd = open_node(), ret;

	meet(a, 1);
	for (;;) {
		struct hwtimer_schedule s = {
			.flags = HWTIMER_RELATIVE, .time = FAR, .period = NSEC_PER_SEC,
		};

		ret = hwt_ioctl(fd, HWTIMER_IOC_SCHEDULE, &s);
		if (ret)
			break;
		atomic_fetch_add(&a->rate, 1);
		atomic_fetch_add(&a->timeouts, 1);
	}
	expect(-EDQUOT, ret);
	meet(a, 2);
	do {
		struct hwtimer_setup setup = own;

		ret = hwt_setup(open_node(), &setup);
		if (!ret)
			atomic_fetch_add(&a->wheels, 1);
	} while (!ret);
	expect(-EDQUOT, ret);
	meet(a, 3);
	do {
		struct hwtimer_rings rings = {
			.sq_entries = 1, .timeouts = 1 + rnd(&random) % 7,
		};

		if (rnd(&random) % 8) {
			ret = hwt_schedule(fd, HWTIMER_RELATIVE, FAR, 0, NULL, NULL);
			if (!ret)
				atomic_fetch_add(&a->timeouts, 1);
			continue;
		}
		ret = hwt_rings(open_node(), &rings);
		if (!ret)
			atomic_fetch_add(&a->timeouts, rings.timeouts);
		else if (ret == -EDQUOT && rings.timeouts > 1)
			ret = 0;	/* try with fewer */
	} while (!ret);
	expect(-EDQUOT, ret);
	meet(a, 4);
}

FIXTURE(users)
{
	__u64 values[ARRAY_SIZE(limits)];
};

FIXTURE_SETUP(users)
{
	static const __u64 values[] = { MAX_TIMEOUTS, MAX_WHEELS, MAX_RATE };
	unsigned int i;

	make_node();
	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		self->values[i] = must_get_parameter(limits[i]);
		ASSERT_EQ(0, set_parameter(limits[i], values[i]));
	}
}

FIXTURE_TEARDOWN(users)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		EXPECT_EQ(0, set_parameter(limits[i], self->values[i]));
	}
	remove_node();
}

static pid_t start_taker(uid_t uid, struct account *a, __u64 random, bool killed)
{
	pid_t pid = fork_as(uid);

	if (pid)
		return pid;
	take_all(a, random);
	/* Wait until the others have been checked. */
	if (killed)
		pause();
	meet(a, 5);
	_exit(0);
}

/*
 * Two users take all they may, from several processes at once: each gets exactly its quota,
 * whatever the other has; and again after their processes have exited or were killed.
 */
TEST_F(users, at_their_limits)
{
	static const uid_t uids[] = { USER_A, USER_B };
	struct account *accounts = must_share(sizeof(*accounts) * ARRAY_SIZE(uids));
	unsigned int rounds = with_checkers() ? 4 : 12, round, i;
	pid_t takers[ARRAY_SIZE(uids) * TAKERS];
	bool killed[ARRAY_SIZE(takers)];
	__u64 random = seed();

	for (round = 0; round < rounds; round++) {
		memset(accounts, 0, sizeof(*accounts) * ARRAY_SIZE(uids));
		for (i = 0; i < ARRAY_SIZE(takers); i++) {
			unsigned int user = i % ARRAY_SIZE(uids);

			killed[i] = rnd(&random) % 2;
			takers[i] = start_taker(uids[user], &accounts[user],
						rnd(&random) | 1, killed[i]);
		}
		for (i = 0; i < ARRAY_SIZE(uids); i++) {
			struct account *a = &accounts[i];

			eventually(atomic_load(&a->at) >= 4 * TAKERS);
			EXPECT_EQ(MAX_RATE, atomic_load(&a->rate));
			EXPECT_EQ(MAX_WHEELS, atomic_load(&a->wheels));
			EXPECT_EQ(MAX_TIMEOUTS, atomic_load(&a->timeouts));
		}
		for (i = 0; i < ARRAY_SIZE(takers); i++) {
			if (!killed[i])
				continue;
			kill(takers[i], SIGKILL);
			/* On behalf of the killed process. */
			atomic_fetch_add(&accounts[i % ARRAY_SIZE(uids)].at, 1);
		}
		for (i = 0; i < ARRAY_SIZE(takers); i++) {
			EXPECT_EQ(killed[i] ? 128 + SIGKILL : 0, reap(takers[i]));
		}
	}
	munmap(accounts, sizeof(*accounts) * ARRAY_SIZE(uids));
	check_nothing_left();
}

/* A backlog that nobody reads. */
#define BACKLOG		(with_checkers() ? 20000U : 100000U)
#define BATCH		1000U
/* docs/promises: 65 bytes for each timeout, everything included. */
#define BYTES_AT_MOST	68
/* Smaller amounts cannot be measured, as each CPU charges some memory in advance. */
#define GRAIN		(1024 * 1024)

/**
 * struct hoard - a context with a backlog
 * @fd: the context
 * @ring: its rings, or NULL
 * @size: number of timeouts
 * @seen: by timeout: it was reported
 */
struct hoard {
	int fd;
	struct ring *ring;
	unsigned int size;
	bool *seen;
};

/* Arm all of them, due soon. */
static void pile_up(struct hoard *h, __u64 deadline, __u32 tag)
{
	static struct hwtimer_op ops[BATCH];
	unsigned int i, k;

	for (i = 0; i < h->size; i += BATCH) {
		for (k = 0; k < BATCH; k++) {
			if (h->ring)
				must_put(h->ring, HWTIMER_OP_SCHEDULE, 0,
					 HWTIMER_ID(i + k, tag), deadline, i + k);
			else
				ops[k] = op_schedule(0, deadline, i + k);
		}
		if (h->ring)
			must_enter(h->ring);
		else
			must_batch(h->fd, ops, BATCH);
	}
}

/* Read each of them once. */
static void read_all(struct hoard *h)
{
	struct hwtimer_record rec[64];
	unsigned int reported = 0;
	int n;

	memset(h->seen, 0, h->size);
	while (reported < h->size) {
		n = h->ring ? (int)ring_collect(h->ring, rec, 1) : hwt_read(h->fd, rec, 64);
		expect(1, n > 0);
		if (h->ring)
			n += ring_reap(h->ring, rec + 1, 63);
		reported += n;
		while (n--) {
			expect(1, valid_record(&rec[n], HWTIMER_KIND_EXPIRED));
			expect(1, rec[n].user_data < h->size && !h->seen[rec[n].user_data]);
			h->seen[rec[n].user_data] = true;
		}
	}
	expect(0, must_stats(h->fd).unread);
	expect(-EAGAIN, h->ring ? ring_unread(h->ring) ? 0 : -EAGAIN :
				  hwt_read(h->fd, rec, 1));
}

/* A child, which stops itself after each step so that the parent can measure its memory. */
static void hoarder(unsigned int size, bool rings)
{
	struct hoard h = { .size = size };
	__u32 tag;

	enter_group(GROUP);
	h.fd = must_open(O_NONBLOCK);
	h.seen = must_alloc(size, sizeof(*h.seen));
	memset(h.seen, 1, size);
	if (rings)
		h.ring = must_ring(h.fd, 1024, 64, size);
	/* First, the memory of the context itself. */
	must_schedule(must_open(0), FAR, 0);
	raise(SIGSTOP);
	/* The parent kills it in the end. */
	for (tag = 1;; tag++) {
		pile_up(&h, now_ns() + 20 * NSEC_PER_MSEC, tag);
		eventually(must_stats(h.fd).expired == (__u64)tag * size);
		raise(SIGSTOP);
		read_all(&h);
	}
}

/* @w works as usual until the child stops. */
static void witness_until_stop(pid_t child, struct witness *w, __u64 *random)
{
	int status;
	pid_t pid;

	while (!(pid = waitpid(child, &status, WUNTRACED | WNOHANG))) {
		witness_step(w, random);
		usleep(1000);
	}
	if (pid != child || !WIFSTOPPED(status))
		die("the child exited");
}

/*
 * A backlog takes no more memory than documented, is reported completely when it is read, can pile
 * up again in the same memory, and all of it is freed.
 */
static void unread(struct __test_metadata *_metadata, bool rings)
{
	struct witness w = { .fd = must_open(O_NONBLOCK) };
	__u64 random = seed(), made, first, second, most;
	unsigned int size = BACKLOG;
	pid_t child;

	if (!make_limited_group("max"))
		SKIP(return, "no memory controller in " CGROUPS);
	child = must_fork();
	if (!child)
		hoarder(size, rings);
	witness_until_stop(child, &w, &random);
	made = group_memory(GROUP);
	kill(child, SIGCONT);
	witness_until_stop(child, &w, &random);
	first = group_memory(GROUP);
	kill(child, SIGCONT);
	witness_until_stop(child, &w, &random);
	second = group_memory(GROUP);
	printf("# %u unread: %llu kB, then %llu kB, and after reading again %llu kB\n", size,
	       made / 1024, first / 1024, second / 1024);
	/* The slots of rings are allocated in the beginning. */
	most = rings ? 0 : size * BYTES_AT_MOST;
	if (!with_checkers()) {
		EXPECT_GE(made + most + GRAIN, first);
	}
	EXPECT_GE(first + GRAIN, second);
	must_kill(child);
	eventually(group_memory(GROUP) < made + GRAIN);
	remove_group(GROUP);
	witness_end(&w);
	check_nothing_left();
}

TEST(backlog)
{
	unread(_metadata, false);
}

TEST(backlog_of_rings)
{
	unread(_metadata, true);
}

/*
 * A batch at the memory limit of a cgroup: operations that need memory fail with ENOMEM, others
 * and submissions to rings are done, and no process is killed.
 */
TEST(limited_batch)
{

	if (!make_limited_group("8M"))
		SKIP(return, "no memory controller in " CGROUPS);
	in_child(must_fork()) {
		static struct hwtimer_op ops[32];
		unsigned int armed = 1, refused = 0, i;
		struct hwtimer_stats s;
		struct ring *r;
		int fd;
		__u64 kept;

		enter_group(GROUP);
		fd = must_open(0);
		kept = must_schedule(fd, FAR, 0);
		r = must_ring(must_open(0), 256, 256, 1000);
		must_have_pages();
		while (!refused) {
			for (i = 0; i < ARRAY_SIZE(ops); i++)
				ops[i] = op_schedule(HWTIMER_RELATIVE, FAR, 0);
			ops[5].schedule.period = FAR;
			ops[ARRAY_SIZE(ops) - 2] = op_touch(HWTIMER_RELATIVE, kept, FAR);
			ops[ARRAY_SIZE(ops) - 1] = op_query(kept);
			must_batch(fd, ops, ARRAY_SIZE(ops));
			for (i = 0; i < ARRAY_SIZE(ops) - 2; i++) {
				armed += !ops[i].result;
				refused += ops[i].result == -ENOMEM;
			}
			expect(0, ops[i].result);
			expect(0, ops[i + 1].result);
		}
		for (i = 0; i < 1000; i++)
			must_put(r, HWTIMER_OP_SCHEDULE, 0, HWTIMER_ID(i, 1),
				 now_ns() + FAR, i);
		must_enter(r);
		expect(1000, must_stats(r->fd).pending);
		s = must_stats(fd);
		expect(armed, s.pending);
		expect(1, balanced(&s));
		expect(1, s.touched > 1);
		expect(0, hwt_stop(fd, &kept));
		expect(armed, kept);
		printf("# %u armed, then %u of %zu refused\n", armed, refused, ARRAY_SIZE(ops));
		fflush(stdout);
	}
	EXPECT_EQ(0, group_value(GROUP, "memory.events", "oom_kill"));
	remove_group(GROUP);
	check_nothing_left();
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--exit"))
		return 0;
	return test_harness_run(argc, argv);
}
