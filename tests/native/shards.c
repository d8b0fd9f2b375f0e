// SPDX-License-Identifier: GPL-2.0-only
/*
 * The library's handles for threads: which shard a thread gets, and what holds while shards are
 * locked, stopped, full, or cannot be opened. Each thread that is started here has no shard yet.
 */
#include <errno.h>
#include <linux/hwtimer.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libhwtimer.h"
#define PASS_NS	5000000000
#include "lock.h"
#include "shim.h"

#define THREADS	4
#define NEVER	(~0ULL)

static struct hwtimer *h;

static void must(bool good, const char *what)
{
	if (!good)
		native_fail("%s", what);
}

static unsigned int get(const unsigned int *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void set(unsigned int *p, unsigned int value)
{
	__atomic_store_n(p, value, __ATOMIC_RELEASE);
}

static void wait_for(const unsigned int *p, unsigned int value, const char *what)
{
	unsigned int ms;

	for (ms = 0; get(p) != value && ms < 20000; ms++)
		usleep(1000);
	must(get(p) == value, what);
}

static void must_open(__u32 timeouts)
{
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = HWTIMER_OPEN_THREADS | HWTIMER_OPEN_RINGS,
		.timeouts = timeouts, .sq_entries = 64,
	};

	must(!hwtimer_open(&h, &o), "open failed");
}

static void end(void)
{
	native_before = NULL;
	hwtimer_close(h);
}

struct request {
	__u64		deadline;
	hwtimer_id	id;
	int		ret;
	unsigned int	n;	/* so many; then @ret is how many succeeded */
	bool		periodic;
};

static void *schedule_some(void *arg)
{
	struct request *r = arg;
	struct hwtimer_repeat repeat = { .first_ns = r->deadline, .period_ns = 1000000000000000 };

	native_enter();
	if (r->periodic)
		r->ret = hwtimer_schedule_repeat(h, &repeat, 0, &r->id);
	else if (!r->n)
		r->ret = hwtimer_schedule_at(h, r->deadline, 0, &r->id);
	while (r->n && !hwtimer_schedule_at(h, r->deadline, r->ret, &r->id) && ++r->ret < (int)r->n)
		;
	native_leave();
	return NULL;
}

static int in_thread(struct request *r)
{
	pthread_t thread;

	pthread_create(&thread, NULL, schedule_some, r);
	pthread_join(thread, NULL);
	return r->ret;
}

/* A new thread schedules. Returns in which shard, or -errno. */
static int schedule_at(__u64 deadline)
{
	struct request r = { .deadline = deadline };
	int ret = in_thread(&r);

	return ret ? ret : (int)(r.id >> 60);
}

static void wait_expired(__u64 n)
{
	struct hwtimer_stats stats = { 0 };

	while (stats.expired < n && !native_failures)
		must(!hwtimer_stats(h, &stats, sizeof(stats)), "no stats");
}

static unsigned int opens, refused;

/* Only the open number @refused fails. */
static int refuse_open(int fd, unsigned long command, const void *arg)
{
	return !command && ++opens == refused ? EMFILE : 0;
}

/* A thread whose shard cannot be opened shares one; the next ones get shards again. */
static __u64 open_fails(void)
{
	static const int expected[] = { 0, 0, 1, 2, 3, 4, 5, 6 };
	unsigned int i;

	opens = 0;
	refused = 2;
	native_before = refuse_open;
	must_open(0);
	for (i = 0; i < 8; i++)
		must(schedule_at(NEVER) == expected[i], "another shard than expected");
	must(opens == 8, "opened too often");
	end();
	return i;
}

static unsigned int held, step;

/* A query keeps the lock of its shard until @step is 2, and a bit longer. */
static int hold(int fd, unsigned long command, const void *arg)
{
	if (command != HWTIMER_IOC_QUERY)
		return 0;
	set(&held, 1);
	wait_for(&step, 2, "waited for a shard that is locked");
	usleep(50000);
	return 0;
}

static void *ask(void *arg)
{
	struct hwtimer_state state;

	native_enter();
	must(!hwtimer_query(h, *(hwtimer_id *)arg, &state), "no state");
	native_leave();
	return NULL;
}

/*
 * Open a handle with a timeout for @deadline in the first shard, and @periodic, which has expired,
 * in the second one. Returns the thread that keeps the second one locked.
 */
static pthread_t open_locked(__u64 deadline, struct request *periodic)
{
	pthread_t thread;

	set(&held, 0);
	set(&step, 0);
	must_open(0);
	must(schedule_at(deadline) == 0, "not in the first shard");
	periodic->deadline = hwtimer_now(h);
	must(!in_thread(periodic) && periodic->id >> 60 == 1, "not in the second shard");
	wait_expired(deadline == NEVER ? 1 : 2);
	native_before = hold;
	pthread_create(&thread, NULL, ask, &periodic->id);
	wait_for(&held, 1, "not locked");
	return thread;
}

/*
 * While one shard is locked, hwtimer_wait() returns events of another. But it does so only until
 * the turn of the locked one comes.
 */
static __u64 one_is_locked(void)
{
	struct request periodic = { .periodic = true };
	struct hwtimer_event e[4];
	pthread_t thread = open_locked(0, &periodic);

	must(hwtimer_wait(h, e, 4, -1) == 1 && e[0].id >> 60 == 0, "no event");
	must(schedule_at(0) == 2, "not in the third shard");
	wait_expired(3);
	set(&step, 2);
	must(hwtimer_wait(h, e, 1, -1) == 1 && e[0].id == periodic.id, "out of turn");
	pthread_join(thread, NULL);
	end();
	return 3;
}

/* hwtimer_wait() stores no more events than fit, of however many shards. */
static __u64 fits(void)
{
	struct request two = { .n = 2 };
	struct hwtimer_event e[4] = { [3].user_data = NEVER };
	int i;

	must_open(0);
	for (i = 0; i < 2; i++) {
		two.ret = 0;
		must(in_thread(&two) == 2, "not scheduled");
	}
	wait_expired(4);
	must(hwtimer_wait(h, e, 3, -1) == 3 && e[3].user_data == NEVER, "more than fit");
	must(hwtimer_wait(h, e, 3, 0) == 1, "not the last one");
	end();
	return 4;
}

/* If no other shard has events, hwtimer_wait() waits for the locked one, also with timeout 0. */
static __u64 only_locked(void)
{
	struct request periodic = { .periodic = true };
	struct hwtimer_event e;
	pthread_t thread = open_locked(NEVER, &periodic);

	set(&step, 2);
	must(hwtimer_wait(h, &e, 1, 0) == 1 && e.id == periodic.id, "no event");
	pthread_join(thread, NULL);
	end();
	return 2;
}

static pid_t asker;

/* When @held is 1, go to @step 1, then ask, which takes the lock, and go to @step 2. */
static void *ask_when_held(void *arg)
{
	wait_for(&held, 1, "not locked");
	asker = syscall(SYS_gettid);
	set(&step, 1);
	ask(arg);
	set(&step, 2);
	return NULL;
}

static unsigned int tries;

/* Refuse the place of a periodic timeout until another thread had the lock. */
static int refuse_place(int fd, unsigned long command, const void *arg)
{
	if (command != HWTIMER_IOC_SCHEDULE || get(&step) == 2)
		return 0;
	set(&held, 1);
	if (++tries == 2000)
		native_fail("others do not get the lock");
	return tries < 2000 ? EEXIST : 0;
}

/* A periodic timeout whose place in the kernel is in use waits for it without the lock. */
static __u64 place_in_use(void)
{
	struct hwtimer_repeat repeat = { .first_ns = NEVER, .period_ns = 1000000000000000 };
	pthread_t thread;
	hwtimer_id id;

	set(&held, 0);
	set(&step, 0);
	tries = 0;
	must_open(0);
	must(!hwtimer_schedule_at(h, NEVER, 0, &id), "schedule failed");
	native_before = refuse_place;
	pthread_create(&thread, NULL, ask_when_held, &id);
	must(!hwtimer_schedule_repeat(h, &repeat, 0, NULL), "schedule failed");
	pthread_join(thread, NULL);
	end();
	return tries;
}

/* Refuse it once. */
static int refuse_once(int fd, unsigned long command, const void *arg)
{
	return command == HWTIMER_IOC_SCHEDULE && !tries++ ? EEXIST : 0;
}

/* That takes no longer if the ticks are long. */
static __u64 long_tick(void)
{
	struct hwtimer_options o = {
		.size = sizeof(o), .flags = HWTIMER_OPEN_RINGS | HWTIMER_OPEN_OWN_WHEEL,
		.tick_ns = 20000000000, .slots = 64,
	};
	struct hwtimer_repeat repeat = { .first_ns = NEVER, .period_ns = 1000000000000000 };

	tries = 0;
	native_longest_nap = 0;
	native_before = refuse_once;
	must(!hwtimer_open(&h, &o), "open failed");
	must(!hwtimer_schedule_repeat(h, &repeat, 0, NULL) && tries == 2, "schedule failed");
	must(native_longest_nap && native_longest_nap < o.tick_ns / 2, "it waits for a tick");
	end();
	return 2;
}

static bool answered;

/* Wait until the asker waits for the lock: it sleeps whenever we look. */
static void wait_asleep(void)
{
	unsigned int looks, asleep = 0;
	char path[64], state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", asker);
	for (looks = 0; asleep < 50 && looks < 20000; looks++) {
		file = fopen(path, "r");
		state = 0;
		if (file) {
			must(fscanf(file, "%*d (%*[^)]) %c", &state) == 1, "no state");
			fclose(file);
		}
		asleep = state == 'S' ? asleep + 1 : 0;
		usleep(1000);
	}
	must(asleep == 50, "nobody waits for the lock");
}

/* At the first step, another thread begins to wait for the lock. Has it had it at a later one? */
static int note_steps(int fd, unsigned long command, const void *arg)
{
	if (command != HWTIMER_IOC_RESIZE)
		return 0;
	if (!get(&held)) {
		set(&held, 1);
		wait_for(&step, 1, "nobody asks");
		wait_asleep();
	}
	answered |= get(&step) == 2;
	return 0;
}

/* A large handle shrinks in steps, between which another thread gets the lock. */
static __u64 shrinks_in_steps(void)
{
	enum { N = 40000 };
	static hwtimer_id many[N];
	pthread_t thread;
	unsigned int i;

	set(&held, 0);
	set(&step, 0);
	answered = false;
	must_open(0);
	for (i = 0; i < N; i++)
		must(!hwtimer_schedule_at(h, NEVER, 0, &many[i]), "schedule failed");
	for (i = 1; i < N; i++)
		must(!hwtimer_cancel(h, many[i]), "cancel failed");
	native_before = note_steps;
	pthread_create(&thread, NULL, ask_when_held, &many[0]);
	must(!hwtimer_shrink(h), "shrink failed");
	pthread_join(thread, NULL);
	must(answered, "others do not get the lock");
	end();
	return N;
}

static int first_stopped;
static unsigned int stop_fails;

/* While @stop_fails, only one shard can be stopped. */
static int refuse_stop(int fd, unsigned long command, const void *arg)
{
	if (command != HWTIMER_IOC_STOP || !stop_fails)
		return 0;
	if (!first_stopped)
		first_stopped = fd;
	return fd != first_stopped ? EIO : 0;
}

/* hwtimer_wait() does not return -ESHUTDOWN before all shards were stopped. */
static __u64 half_stopped(void)
{
	struct hwtimer_event e;
	unsigned int i;

	first_stopped = 0;
	stop_fails = 1;
	native_before = refuse_stop;
	must_open(0);
	must(schedule_at(NEVER) == 0 && schedule_at(NEVER) == 1, "not in two shards");
	must(hwtimer_stop(h) == -EIO, "stop did not fail");
	must(hwtimer_wait(h, &e, 1, -1) == 1 && e.id >> 60 == 0, "not handed back");
	for (i = 0; i < 10; i++) {
		must(!hwtimer_wait(h, &e, 1, 0), "not all shards were stopped");
		usleep(5000);
	}
	stop_fails = 0;
	must(!hwtimer_stop(h), "stop failed");
	must(hwtimer_wait(h, &e, 1, -1) == 1 && e.id >> 60 == 1, "not handed back");
	must(hwtimer_wait(h, &e, 1, -1) == -ESHUTDOWN, "not stopped");
	end();
	return 2;
}

#define FIXED	20
#define SHARE	3	/* of 8 shards */

/* A kernel that cannot resize tables. */
static int cannot_resize(int fd, unsigned long command, const void *arg)
{
	if (command == HWTIMER_IOC_RINGS)
		must(((const struct hwtimer_rings *)arg)->timeouts == SHARE, "not its share");
	must(command != HWTIMER_IOC_RESIZE, "resized");
	opens += !command;
	return command == HWTIMER_IOC_INFO ? EINVAL : 0;
}

/* Each shard has its share. One thread can use all of them. */
static __u64 fixed(void)
{
	struct request all = { .deadline = NEVER, .n = FIXED + 1 };

	opens = 0;
	native_before = cannot_resize;
	must_open(FIXED);
	must(in_thread(&all) == FIXED, "not as many as there may be");
	must(opens == (FIXED + SHARE - 1) / SHARE, "not as many shards as it takes");
	must(!hwtimer_cancel(h, all.id) && schedule_at(NEVER) >= 0, "a free place is not found");
	must(schedule_at(NEVER) == -EAGAIN, "more than there may be");
	end();
	return FIXED;
}

/* Shards of one chunk each, all used. */
#define LIMIT	(THREADS * 256)

static hwtimer_id ids[LIMIT];
static unsigned int filled;

/* Fill a shard, and then replace any timeout by a new one. */
static void *replace(void *arg)
{
	unsigned int self = (__UINTPTR_TYPE__)arg, i;
	__u64 random = seeded(self), n = 0;
	hwtimer_id id, *place;
	int ret;

	native_enter();
	for (i = self * 256; i < self * 256 + 256; i++)
		must(!hwtimer_schedule_at(h, NEVER, 0, &ids[i]), "schedule failed");
	must(ids[i - 1] >> 60 == ids[i - 256] >> 60, "not all in one shard");
	__atomic_add_fetch(&filled, 1, __ATOMIC_RELEASE);
	wait_for(&filled, THREADS, "not filled");
	while (go_on(THREADS * n++)) {
		place = &ids[below(&random, LIMIT)];
		id = __atomic_exchange_n(place, 0, __ATOMIC_RELAXED);
		if (!id)
			continue;
		must(!hwtimer_cancel(h, id), "cancel failed");
		ret = hwtimer_schedule_at(h, NEVER, 0, &id);
		if (ret)
			native_fail("below the limit, but scheduling returned %d", ret);
		__atomic_store_n(place, id, __ATOMIC_RELAXED);
	}
	native_leave();
	return (void *)(__UINTPTR_TYPE__)n;
}

/* Threads cancel and schedule, and there are never more than there may be. */
static __u64 at_the_limit(void)
{
	pthread_t threads[THREADS];
	unsigned int i;
	__u64 sum = 0;
	void *n;

	set(&filled, 0);
	must_open(LIMIT);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, replace, (void *)(__UINTPTR_TYPE__)i);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &n);
		sum += (__UINTPTR_TYPE__)n;
	}
	must(schedule_at(NEVER) == -EAGAIN, "more than there may be");
	end();
	return sum;
}

/* The kernel refuses larger tables. */
static int refuse_growth(int fd, unsigned long command, const void *arg)
{
	return command == HWTIMER_IOC_RESIZE &&
	       ((const struct hwtimer_resize *)arg)->timeouts > 300 ? EDQUOT : 0;
}

/* What one shard does not get from the kernel, or has given back, another can have. */
static __u64 given_back(void)
{
	struct request first = { .deadline = NEVER, .n = LIMIT + 1 }, second = first;
	unsigned int i;

	must_open(LIMIT);
	native_before = refuse_growth;
	in_thread(&first);
	must(first.ret > 256 && first.ret <= 300, "not as many as the kernel allows");
	native_before = NULL;
	must(in_thread(&second) == LIMIT - first.ret, "what the kernel refused is lost");
	end();

	must_open(LIMIT);
	for (i = 0; i < LIMIT; i++)
		must(!hwtimer_schedule_at(h, NEVER, 0, &ids[i]), "schedule failed");
	for (i = 0; i < LIMIT; i++)
		must(!hwtimer_cancel(h, ids[i]), "cancel failed");
	must(!hwtimer_shrink(h), "shrink failed");
	first.ret = 0;
	must(in_thread(&first) == LIMIT, "what was given back is lost");
	end();
	return 3 * LIMIT;
}

/* After a stop, a thread that has no shard yet cannot schedule, either. */
static __u64 stopped(void)
{
	struct hwtimer_event e;

	must_open(0);
	must(schedule_at(NEVER) == 0, "not in the first shard");
	must(!hwtimer_stop(h), "stop failed");
	must(schedule_at(NEVER) == -ESHUTDOWN, "scheduled after the stop");
	must(hwtimer_wait(h, &e, 1, -1) == 1 && e.id >> 60 == 0, "not handed back");
	must(hwtimer_wait(h, &e, 1, -1) == -ESHUTDOWN, "not the end");
	end();
	return 1;
}

#define PASSES	200

static __u32 word;
static unsigned int passed;

static void *take(void *arg)
{
	unsigned int i;

	for (i = 1; i <= PASSES; i++) {
		wait_for(&held, i, "not locked");
		lock_take(&word);
		set(&passed, i);
		/* Meanwhile lock_pass() finds that it is taken, or sleeps. */
		usleep(1000);
		lock_release(&word);
	}
	return arg;
}

/* A thread that waits for the lock gets it. */
static __u64 passes(void)
{
	pthread_t thread;
	unsigned int i;

	set(&held, 0);
	set(&passed, 0);
	pthread_create(&thread, NULL, take, NULL);
	lock_take(&word);
	for (i = 1; i <= PASSES; i++) {
		set(&held, i);
		wait_for(&word, WAITED_FOR, "nobody waits");
		lock_pass(&word);
		must(get(&passed) == i, "the lock is not passed");
		lock_release(&word);
		wait_for(&passed, i, "forgotten");
		lock_take(&word);
	}
	lock_release(&word);
	pthread_join(thread, NULL);
	return PASSES;
}

int main(int argc, char **argv)
{
	static const struct test tests[13] = {
		{ "open_fails", open_fails },
		{ "one_is_locked", one_is_locked },
		{ "half_stopped", half_stopped },
		{ "fixed", fixed },
		{ "at_the_limit", at_the_limit },
		{ "passes", passes },
		{ "only_locked", only_locked },
		{ "place_in_use", place_in_use },
		{ "shrinks_in_steps", shrinks_in_steps },
		{ "fits", fits },
		{ "given_back", given_back },
		{ "stopped", stopped },
		{ "long_tick", long_tick },
	};

	return native_main(argc, argv, tests, 13);
}
