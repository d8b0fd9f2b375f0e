// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libhwtimer: timeouts on /dev/hwtimer, for programs.
 *
 * Timeouts
 * --------
 *
 * A timeout has a struct timeout, of the table in timeouts.h, from when it is scheduled until its
 * last event is returned or it is cancelled. The id is HWTIMER_ID(index, tag). The tag is
 * incremented at each use (it repeats after 2^40 uses), so a record for an earlier use has another
 * id and is dropped. That alone ensures that a cancelled timeout gives no event. Without rings the
 * kernel chooses ids of its own, and gets our id as user_data.
 *
 * The table grows when all timeouts are used, and shrinks when asked, or if few were used for some
 * time. With rings the kernel's table has to be at least as large, so it grows before ours. A
 * record of a timeout whose chunk was unmapped is dropped, and a submission for it fails, as for
 * any timeout that has ended.
 *
 * A timeout has two deadlines: "wanted" is the program's, "known" is the one that the kernel was
 * given last. Known is never after wanted:
 *
 *	schedule		goes to the kernel: known = wanted
 *	touch, before known	goes to the kernel: known = wanted
 *	any other touch		changes wanted only
 *	record of an expiry	1. wanted is not after the record's fired: this is the event
 *				2. wanted has passed meanwhile: the event, fired now
 *				3. wanted is in the future: arm again, known = wanted
 *
 * Each time that a timeout is armed, it gets one record (expired, failed or handed back), unless it
 * is cancelled before. Until then it is ARMED. With the record it has something to report, and is
 * on a list until hwtimer_wait() comes to it. Only then is the record compared with wanted.
 *
 * Periodic timeouts are scheduled and touched by ioctl, which returns errors at once. The kernel
 * keeps their deadlines, and struct repeat adds up what their records report. A timeout that
 * watches the clock is like a periodic one that never expires.
 *
 * On CLOCK_REALTIME, known and wanted are times of day, and the kernel keeps to known however the
 * clock is set. So the table above still holds. In cases 2 and 3 wanted is compared with the clock
 * as it is now. Case 1 compares it with what the clock showed at the expiry, so it is not for
 * timeouts that were touched: the clock may have been set back before the touch.
 *
 * The rings
 * ---------
 *
 * All other operations are writes to the submission ring; linux/hwtimer.h has the protocol. The
 * library kicks the kernel for a deadline that is before the kernel's next poll (schedule, or touch
 * to before known), when the ring is full, and when there is room again for records that wait in
 * the kernel.
 *
 * If the kernel has not claimed the entry that scheduled a timeout, a cancel turns this entry
 * into a NOP and submits nothing: timeouts that are cancelled soon, like those of most requests,
 * cost the kernel almost nothing. If there is a TOUCH in between, it fails silently.
 *
 * What the kernel may find when it takes an entry, perhaps long after it was submitted:
 *
 *	TOUCH of a timeout that		fails silently with -ENOENT. The record of the expiry
 *	has expired			exists or will; see the table above
 *	CANCEL of a timeout that	fails silently with -ENOENT. The record is dropped
 *	has expired
 *	SCHEDULE, but the last record	fails with -EBUSY or -EEXIST, which becomes a record as
 *	for the index waits in the	soon as there is room. It is handled like an expiry at
 *	kernel or is being reported	an unknown time: if wanted has passed, that is the
 *					event, fired now; otherwise arm again
 *	SCHEDULE after a stop		fails with -ESHUTDOWN, which becomes a record: the
 *					timeout is handed back
 *	SCHEDULE of a timeout that	its CANCEL is behind it in the ring, so the rows above
 *	was cancelled			apply. If it fails, its record is dropped
 *
 * The kernel takes entries in order. So when a timeout is armed again, all entries of its
 * earlier arming have been, or will be, taken before.
 *
 * If the submission ring is full, a kick makes room, unless the entry at its head failed and there
 * is no room for its record in the completion ring. Then the library reads records from the
 * completion ring into their struct timeout. This needs no memory: there is room for the record of
 * one arming, and the records of a periodic timeout are added up. The newest record stays in the
 * ring, and hwtimer_wait() reads the ring only when the list is empty: so while the list is not
 * empty, hwtimer_fd() is readable. Thus schedule and cancel never wait for the program to call
 * hwtimer_wait().
 *
 * Ordering
 * --------
 *
 *	sq_tail, release	after writing an entry; pairs with the kernel's acquire before
 *				it reads entries
 *	sq_head, acquire	before writing an entry; pairs with the kernel's release after
 *				it has read entries
 *	cq_tail, acquire	before reading records; pairs with the kernel's release after it
 *				wrote them
 *	cq_head, release	after reading records; pairs with the kernel's acquire before it
 *				writes others
 *	full barrier between	pairs with the kernel's between sleep_until and its last read of
 *	sq_tail, sleep_until	sq_tail: the kernel sees the entry, or we see until when it
 *				sleeps. With HWTIMER_RINGS_RELAXED only if the deadline is
 *				before relaxed_until
 *	full barrier between	pairs with the kernel's between sq_claimed and entries: the
 *	op, sq_claimed		kernel sees the NOP, or we see that the entry is claimed. With
 *				HWTIMER_RINGS_RELAXED there is none: the kernel looks again
 *	full barrier between	pairs with the kernel's between flags and its last read of
 *	cq_head, flags		cq_head: the kernel sees the room, or we see CQ_FULL
 *
 * All other data belongs to the handle. If several threads use the handle, its lock protects the
 * data. The lock is not held while hwtimer_wait() sleeps.
 *
 * Threads
 * -------
 *
 * A handle that several threads use consists of shards. Each is a struct hwtimer with a context,
 * rings, table and lock of its own. The first is the handle itself; the others are opened when a
 * thread that has none schedules. A thread always schedules in the same shard, unless that is full.
 * The upper four bits of an id are the number of the shard, so any thread finds it, and takes its
 * lock. As long as threads touch and cancel mostly what they have scheduled, no two want the same
 * lock or cache line. An own wheel has one shard, because each would have a wheel of its own.
 *
 *	a new shard		is added to the epoll set, then published (release; pairs with the
 *				acquire in nr_shards() and own_shard()), then used. So whoever has
 *				an id finds the shard, and its first event wakes a thread that was
 *				already sleeping on the set. None is removed before the close
 *	hwtimer_wait()		looks at the shards, each under its lock, so no event is returned
 *				twice. Then it sleeps on the epoll set, which is level triggered: an
 *				event that came since the look is seen, whichever shard it is in
 *	hwtimer_stop()		and the opening of shards exclude each other. A thread schedules
 *				either before its shard is stopped, and the timeout is handed back,
 *				or after, and gets -ESHUTDOWN
 *	two locks		shards.lock is taken first. Only a thread that has it may hold the
 *				locks of several shards: schedule_in_any() takes all
 *	the limit		shards.left is what all tables together may still grow by. If a
 *				shard cannot grow, its threads use free timeouts of the others.
 *				A kernel that cannot resize tables gives each shard a fixed share;
 *				when all are full, another shard is opened
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* ppoll() */
#endif

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "libhwtimer.h"
#include "lock.h"
#include "timeouts.h"

#define NSEC_PER_SEC	1000000000ULL
#define DEVICE		"/dev/hwtimer"

#define MAX_ENTRIES	65536U
#define ONE_TAG		HWTIMER_ID(0, 1)
/* Timeouts of a kernel that cannot resize its table, unless the program wants another number. */
#define FIXED_TIMEOUTS	65536U
/* With shards: the number of the shard is above these bits of an id. */
#define SHARD_SHIFT	60
#define MAX_SHARDS	16U
#ifndef SHARDS
#define SHARDS		sysconf(_SC_NPROCESSORS_ONLN)
#endif

/* If few timeouts were used for so long, the table shrinks. */
#define IDLE_NS		(5 * NSEC_PER_SEC)

/* How often hwtimer_wait() looks for a stop by others if it does not sleep. */
#define LOOK_NS		(NSEC_PER_SEC / 100)

/* The longest single sleep, in s: a time_t may have 32 bits. */
#define LONGEST_SLEEP	1000000
/* How many records are read at a time. They are on the stack. */
#define READ_BATCH	64
/* How many records without an event hwtimer_wait() takes from a shard before it looks again. */
#define BARREN_MOST	1024

/* timeout.reports */
#define REPORTS_EXPIRY	0x01	/* an event, unless wanted is in the future */
#define REPORTS_END	0x02	/* it ended: it was handed back, unless REPORTS_SET */
#define REPORTS_SET	0x04	/* with REPORTS_END: it ended because the clock was set */

/* From so many timeouts on, one that is taken soon is fetched from memory. */
#define PREFETCH_FROM	8192
#define PREFETCH_AHEAD	4

/**
 * struct backend - how requests reach the kernel: by the rings or by ioctls
 * @arm: arm a timeout for timeout->wanted, for the first time or again
 * @arm_repeat: arm a periodic timeout
 * @sooner: move an armed timeout to timeout->wanted, which is before timeout->known
 * @cancel: cancel an armed timeout. May come too late: then the record of the expiry is dropped
 * @take: read and note up to @max records; returns how many
 * @flush: have the kernel take all submissions
 */
struct backend {
	int	(*arm)(struct hwtimer *h, struct timeout *timeout);
	int	(*arm_repeat)(struct hwtimer *h, struct timeout *timeout,
			      struct hwtimer_schedule *arg);
	int	(*sooner)(struct hwtimer *h, const struct timeout *timeout);
	void	(*cancel)(struct hwtimer *h, const struct timeout *timeout);
	int	(*take)(struct hwtimer *h, int max);
	int	(*flush)(struct hwtimer *h);
};

/**
 * struct shards - the shards of a handle
 * @nr: how many there are; only grows
 * @all: these, by number; all[0] is the handle
 * @of_thread: by the lower bits of a thread's number: its shard, or NULL: not chosen yet
 * @most: how many there may be, a power of two. Constant, like @epoll and @options
 * @epoll: the epoll descriptor of all shards
 * @options: of hwtimer_open(), with a copy of the device's name
 * @next: hwtimer_wait() begins with this one, modulo @nr
 * @left: by how much all tables together may grow
 * @lock: protects @stopped, and the opening of a shard
 * @stopped: no shards are opened any more
 */
struct shards {
	uint32_t		nr;
	struct hwtimer		*all[MAX_SHARDS];
	struct hwtimer		*of_thread[MAX_SHARDS];
	uint32_t		most;
	int			epoll;
	struct hwtimer_options	options;
	uint32_t		next;
	uint32_t		left;
	uint32_t		lock;
	bool			stopped;
};

/* The number of this thread, from 1 on; 0: none yet. */
static __thread uint32_t thread_number;
static uint32_t nr_threads;

/**
 * struct hwtimer - a handle, or one of its shards
 * @backend: rings or ioctls. Constant, like all fields before @lock
 * @fd: the open device
 * @clock: the clock of all times
 * @threads: several threads use the handle: take @lock
 * @forks: the value of forks when it was opened
 * @tick_ns: the wheel's tick
 * @shards: all shards of the handle; NULL: it is the only one
 * @looked_in: when look_now() was last true, in units of LOOK_NS on CLOCK_MONOTONIC_COARSE
 * @id_base: the part that all ids have in common: the number of the shard
 * @id_mask: the bits of an id that are left for the tag and the index
 * @resizable: the kernel knows HWTIMER_IOC_RESIZE
 * @relaxed: HWTIMER_RINGS_RELAXED
 * @ring: the mapping, or NULL: no rings
 * @map_size: size of the mapping
 * @sqes: the submission ring
 * @cqes: the completion ring
 * @sq_entries: entries of the submission ring
 * @cq_mask: entries of the completion ring, less 1
 * @lock: protects the fields below
 * @table: the timeouts
 * @in_kernel: with rings: the size of the kernel's table
 * @looked: when @table.peak was last set, on CLOCK_MONOTONIC_COARSE
 * @shrinking: shrink_if_idle() has more to do
 * @first: first timeout on the list of those that report something, or NO_TIMEOUT
 * @last: last timeout on this list
 * @stopped: timeouts can no longer be armed
 * @sq_tail: index of the next entry to be written
 * @sq_head: entries before this index were taken
 * @cq_head: index of the next record to be read
 * @soonest: earliest deadline that was submitted since kick_kernel(); HWTIMER_NEVER: none
 */
struct hwtimer {
	const struct backend		*backend;
	int				fd;
	clockid_t			clock;
	bool				threads;
	unsigned int			forks;
	uint64_t			tick_ns;
	struct shards			*shards;
	uint32_t			looked_in;
	uint64_t			id_base;
	uint64_t			id_mask;
	bool				resizable;
	bool				relaxed;
	struct hwtimer_ring		*ring;
	size_t				map_size;
	struct hwtimer_sqe		*sqes;
	const struct hwtimer_record	*cqes;
	uint32_t			sq_entries;
	uint32_t			cq_mask;

	uint32_t			lock;
	struct table			table;
	uint32_t			in_kernel;
	uint64_t			looked;
	bool				shrinking;
	uint32_t			first;
	uint32_t			last;
	bool				stopped;
	uint32_t			sq_tail;
	uint32_t			sq_head;
	uint32_t			cq_head;
	uint64_t			soonest;
};

/* How many times fork() has made this process or an ancestor. */
static unsigned int forks;

static void count_fork(void)
{
	forks++;
}

__attribute__((constructor)) static void count_forks(void)
{
	/* Without memory for it, children can damage the timeouts of their parents. */
	pthread_atfork(NULL, NULL, count_fork);
}

/* Was the handle opened before this process was forked? Its timeouts are the parent's. */
static bool inherited(const struct hwtimer *h)
{
	return __builtin_expect(h->forks != forks, false);
}

static int device(const struct hwtimer *h, unsigned long command, void *arg)
{
	return ioctl(h->fd, command, arg) < 0 ? -errno : 0;
}

static void lock(struct hwtimer *h)
{
	if (h->threads)
		lock_take(&h->lock);
}

static void unlock(struct hwtimer *h)
{
	if (h->threads)
		lock_release(&h->lock);
}

/* A thread must not be cancelled while it has a lock, or has opened half of a handle. */
static int no_cancel(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

/* Time. */

static uint64_t read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static uint64_t deadline_in(const struct hwtimer *h, uint64_t delay_ns)
{
	uint64_t now = hwtimer_now(h);

	return delay_ns < HWTIMER_NEVER - now ? now + delay_ns : HWTIMER_NEVER;
}

/* Timeouts. */

static struct timeout *find(struct hwtimer *h, hwtimer_id id)
{
	struct timeout *timeout;

	if (HWTIMER_ID_INDEX(id) >= h->table.size)
		return NULL;
	timeout = timeout_at(&h->table, HWTIMER_ID_INDEX(id));
	return timeout->used && timeout->id == id ? timeout : NULL;
}

/* Have the kernel's table resized to @size. Returns 0 or -errno; see @in_kernel for the result. */
static int resize_kernel(struct hwtimer *h, uint32_t size)
{
	struct hwtimer_resize arg = { .timeouts = size };
	int ret;

	if (!h->resizable)
		return 0;
	ret = device(h, HWTIMER_IOC_RESIZE, &arg);
	if (!ret)
		h->in_kernel = arg.timeouts;
	return ret;
}

/* Take up to @n from what all shards may still grow by. Returns how much. */
static uint32_t reserve(struct hwtimer *h, uint32_t n)
{
	uint32_t left, take;

	if (!h->shards)
		return n;
	left = __atomic_load_n(&h->shards->left, __ATOMIC_RELAXED);
	do {
		take = n < left ? n : left;
	} while (!__atomic_compare_exchange_n(&h->shards->left, &left, left - take, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return take;
}

static void unreserve(struct hwtimer *h, uint32_t n)
{
	if (h->shards)
		__atomic_fetch_add(&h->shards->left, n, __ATOMIC_RELAXED);
}

/* The table is full: let it grow. Near the limits of the system, grow by less. */
static int grow(struct hwtimer *h)
{
	uint32_t reserved = reserve(h, table_wish(&h->table) - h->table.size), more = reserved;
	int ret = 0;

	if (!reserved)
		return -EAGAIN;
	/* The kernel may have more already, if it could not shrink. */
	if (h->ring && h->in_kernel > h->table.size && more > h->in_kernel - h->table.size)
		more = h->in_kernel - h->table.size;
	while (h->ring && h->table.size + more > h->in_kernel) {
		ret = resize_kernel(h, h->table.size + more);
		if ((ret != -EDQUOT && ret != -ENOMEM) || more / 2 < CHUNK / 16)
			break;
		more /= 2;
	}
	if (!ret && !table_grow(&h->table, h->table.size + more))
		ret = -ENOMEM;
	unreserve(h, ret ? reserved : reserved - more);
	return ret;
}

/*
 * Do a step of shrinking to about @size timeouts, or to as many as are in use. First have the
 * kernel take all submissions: a timeout may be pending there whose CANCEL it has not taken. Sets
 * *@more if more steps are needed. Returns 0 or -errno.
 */
static int shrink(struct hwtimer *h, uint32_t size, bool *more)
{
	int ret = h->backend->flush(h);
	uint32_t before = h->table.size;

	*more = table_shrink(&h->table, size);
	unreserve(h, before - h->table.size);
	if (ret)
		return ret;
	/* The kernel may have more than that, if it could not shrink before. */
	size = h->table.size;
	if (h->in_kernel > size + 2 * GROW_MOST) {
		before = h->in_kernel;
		ret = resize_kernel(h, before - GROW_MOST);
		*more |= h->in_kernel < before;
		return ret;
	}
	return resize_kernel(h, size);
}

/*
 * Called when there are no events. If less than a quarter of the table was used for some time,
 * shrink it to twice what was used. So it does not grow again until twice as many are used, nor
 * shrink until half as many are. Returns true if this takes more steps.
 */
static bool shrink_if_idle(struct hwtimer *h)
{
	uint64_t now;

	if (h->table.size <= CHUNK && !h->shrinking)
		return false;
	now = read_clock(CLOCK_MONOTONIC_COARSE);
	if (now - h->looked < IDLE_NS)
		return false;
	if (h->shrinking || h->table.peak < h->table.size / 4)
		shrink(h, 2 * h->table.peak, &h->shrinking);
	if (h->shrinking)
		return true;
	h->looked = now;
	h->table.peak = nr_live(&h->table);
	return false;
}

static int take_timeout(struct hwtimer *h, uint64_t user_data, struct timeout **taken)
{
	struct table *t = &h->table;
	struct timeout *timeout;
	uint32_t index;
	int ret;

	if (h->stopped)
		return -ESHUTDOWN;
	if (!t->nr_free) {
		if (!t->in_bitmap) {
			ret = grow(h);
			if (ret)
				return ret;
		}
		fill_stack(t);
	}
	index = t->free[--t->nr_free];
	timeout = timeout_at(t, index);
	/* Fetch a timeout that is taken soon, if they do not all stay in the caches. */
	if (t->size >= PREFETCH_FROM && t->nr_free >= PREFETCH_AHEAD)
		__builtin_prefetch(timeout_at(t, t->free[t->nr_free - PREFETCH_AHEAD]), 1);
	timeout->id = ((timeout->id + ONE_TAG) & h->id_mask) | index;
	/* It repeats, and 0 is no id. */
	if (!HWTIMER_ID_TAG(timeout->id))
		timeout->id += ONE_TAG;
	timeout->id |= h->id_base;
	timeout->user_data = user_data;
	timeout->used = true;
	timeout->periodic = false;
	timeout->touched = false;
	timeout->watch = false;
	timeout->reports = 0;
	*taken = timeout;
	return 0;
}

static void free_timeout(struct hwtimer *h, struct timeout *timeout)
{
	struct table *t = &h->table;
	struct repeat *repeat = timeout->periodic ? timeout->repeat : NULL;

	t->periodic -= timeout->periodic;
	timeout->used = false;
	timeout->periodic = false;
	timeout->reports = 0;
	/*
	 * Another thread may be calling fork(), and the child frees what is periodic.
	 * [__atomic_signal_fence: as a child of fork() has the memory of one moment]
	 */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	free(repeat);
	put_free(t, index_of(timeout));
}

/* Remove the first timeout from the list. */
static void unlist_first(struct hwtimer *h)
{
	struct timeout *timeout = timeout_at(&h->table, h->first);

	timeout->listed = false;
	h->first = timeout->next;
}

static void enlist(struct hwtimer *h, struct timeout *timeout)
{
	uint32_t index = index_of(timeout);

	if (timeout->listed)
		return;
	timeout->listed = true;
	timeout->next = NO_TIMEOUT;
	if (h->first == NO_TIMEOUT)
		h->first = index;
	else
		timeout_at(&h->table, h->last)->next = index;
	h->last = index;
}

static void note_expiry(struct timeout *timeout, const struct hwtimer_record *record)
{
	struct repeat *r = timeout->repeat;

	if (timeout->periodic) {
		timeout->wanted = record->deadline;
		r->overruns = record->overruns +
			      (timeout->reports & REPORTS_EXPIRY ? r->overruns + 1 : 0);
		r->last = record->last;
		r->fired = record->fired;
	} else {
		timeout->fired = record->fired;
	}
	timeout->reports |= REPORTS_EXPIRY;
}

static void note_end(struct timeout *timeout, const struct hwtimer_record *record)
{
	if (timeout->periodic) {
		timeout->repeat->deadline = record->deadline;
		timeout->repeat->ended = record->fired;
	} else {
		timeout->ended = record->fired;
	}
	timeout->reports |= REPORTS_END;
}

/*
 * Only SCHEDULE entries fail with a record, as all others have HWTIMER_SQE_QUIET. Periodic timeouts
 * are not scheduled by an entry.
 */
static void note_failure(struct timeout *timeout, const struct hwtimer_record *record)
{
	if (timeout->periodic)
		return;
	if (record->error == -EBUSY || record->error == -EEXIST) {
		timeout->fired = 0;
		timeout->reports |= REPORTS_EXPIRY;
	} else {
		note_end(timeout, record);
	}
}

/* Store @record in the timeout @id, unless that has ended. */
static void note(struct hwtimer *h, hwtimer_id id, const struct hwtimer_record *record)
{
	struct timeout *timeout = find(h, id);

	if (!timeout)
		return;
	switch (record->kind) {
	case HWTIMER_KIND_EXPIRED:
		note_expiry(timeout, record);
		break;
	case HWTIMER_KIND_CLOCK_SET:
	case HWTIMER_KIND_HANDED_BACK:
		if (record->kind == HWTIMER_KIND_CLOCK_SET)
			timeout->reports |= REPORTS_SET;
		note_end(timeout, record);
		break;
	case HWTIMER_KIND_FAILED:
		note_failure(timeout, record);
		break;
	}
	enlist(h, timeout);
}

/*
 * Turn the first thing that @timeout reports into an event. Returns 1: @event is filled; 0: the
 * timeout was armed again; -errno: arming failed, and @timeout still reports the same.
 */
static int report_one(struct hwtimer *h, struct timeout *timeout, struct hwtimer_event *event)
{
	const struct repeat *r = timeout->periodic ? timeout->repeat : NULL;
	int ret;

	*event = (struct hwtimer_event){
		.id = timeout->id,
		.user_data = timeout->user_data,
		.deadline_ns = timeout->wanted,
		.last_ns = timeout->wanted,
		.fired_ns = timeout->fired,
		.kind = HWTIMER_KIND_EXPIRED,
	};
	if (!(timeout->reports & REPORTS_EXPIRY)) {
		event->deadline_ns = r ? r->deadline : timeout->wanted;
		event->last_ns = event->deadline_ns;
		event->fired_ns = r ? r->ended : timeout->ended;
		event->kind = timeout->reports & REPORTS_SET ? HWTIMER_KIND_CLOCK_SET :
							       HWTIMER_KIND_HANDED_BACK;
	} else if (r) {
		event->fired_ns = r->fired;
		event->overruns = r->overruns;
		event->last_ns = r->last;
		timeout->reports &= ~REPORTS_EXPIRY;
		return 1;
	} else if (!timeout->fired || timeout->wanted > timeout->fired ||
		   (timeout->touched && h->clock == CLOCK_REALTIME)) {
		event->fired_ns = hwtimer_now(h);
		if (timeout->wanted > event->fired_ns) {
			ret = h->stopped ? -ESHUTDOWN : h->backend->arm(h, timeout);
			if (!ret) {
				timeout->touched = false;
				timeout->reports = 0;
			}
			if (ret != -ESHUTDOWN)
				return ret;
			event->kind = HWTIMER_KIND_HANDED_BACK;
		}
	}
	free_timeout(h, timeout);
	return 1;
}

/* Turn what the timeouts on the list report into events. Returns how many. */
static int report_all(struct hwtimer *h, struct hwtimer_event *events, int max)
{
	struct timeout *timeout;
	int n = 0, ret;

	while (n < max && h->first != NO_TIMEOUT) {
		timeout = timeout_at(&h->table, h->first);
		if (timeout->reports) {
			ret = report_one(h, timeout, &events[n]);
			if (ret < 0)
				return n ? n : ret;
			n += ret;
		}
		if (!timeout->reports)
			unlist_first(h);
	}
	return n;
}

/* The rings. */

static int enter(struct hwtimer *h)
{
	struct hwtimer_enter arg = { 0 };

	return device(h, HWTIMER_IOC_ENTER, &arg);
}

static bool records_wait(const struct hwtimer *h)
{
	return __atomic_load_n(&h->ring->flags, __ATOMIC_RELAXED) & HWTIMER_RING_CQ_FULL;
}

/* Returns how many records are in the ring. */
static uint32_t nr_records(const struct hwtimer *h)
{
	/*
	 * Pairs with the kernel's release after it wrote records.
	 * [__atomic_load_n: ring-fill-broken-acquire]
	 */
	return __atomic_load_n(&h->ring->cq_tail, __ATOMIC_ACQUIRE) - h->cq_head;
}

/* Note the next @n records, and make their room in the ring free. */
static void note_records(struct hwtimer *h, uint32_t n)
{
	while (n--) {
		const struct hwtimer_record *record = &h->cqes[h->cq_head++ & h->cq_mask];

		note(h, record->id, record);
	}
	/*
	 * Pairs with the kernel's acquire before it writes records.
	 * [__atomic_store_n: ring-place-broken-release]
	 */
	__atomic_store_n(&h->ring->cq_head, h->cq_head, __ATOMIC_RELEASE);
}

/* Make room in the completion ring. The newest record keeps the descriptor readable. */
static void note_all_but_one(struct hwtimer *h)
{
	uint32_t n = nr_records(h);

	/* CQ_FULL may still be set although the ring has room again. */
	if (n > 1)
		note_records(h, n - 1);
}

/* Returns how many entries were not taken when sq_head was last read. */
static uint32_t nr_submitted(const struct hwtimer *h)
{
	return h->sq_tail - h->sq_head;
}

/* Kick the kernel until at most @left entries are not taken. */
static int drain(struct hwtimer *h, uint32_t left)
{
	bool full = false;
	int ret;

	for (;;) {
		/*
		 * Pairs with the kernel's release after it has read entries.
		 * [__atomic_load_n: ring-place-broken-acquire]
		 */
		h->sq_head = __atomic_load_n(&h->ring->sq_head, __ATOMIC_ACQUIRE);
		if (nr_submitted(h) <= left)
			return 0;
		if (full)
			note_all_but_one(h);
		ret = enter(h);
		if (ret)
			return ret;
		full = records_wait(h);
	}
}

static int submit(struct hwtimer *h, uint32_t op, uint32_t flags, const struct timeout *timeout)
{
	struct hwtimer_sqe *sqe;
	int ret;

	if (nr_submitted(h) == h->sq_entries) {
		ret = drain(h, h->sq_entries - 1);
		if (ret)
			return ret;
	}
	sqe = &h->sqes[h->sq_tail & (h->sq_entries - 1)];
	*sqe = (struct hwtimer_sqe){
		.op = op,
		.flags = flags,
		.id = timeout->id,
		.time = op == HWTIMER_OP_CANCEL ? 0 : timeout->wanted,
		.user_data = timeout->user_data,
	};
	/*
	 * Pairs with the kernel's acquire before it reads the entry.
	 * [__atomic_store_n: ring-fill-broken-release claim-reuse-broken-release]
	 */
	__atomic_store_n(&h->ring->sq_tail, ++h->sq_tail, __ATOMIC_RELEASE);
	if (op != HWTIMER_OP_CANCEL && timeout->wanted < h->soonest)
		h->soonest = timeout->wanted;
	return 0;
}

/*
 * Read one of the kernel's times by a single access: half of a new value, and half of an old one,
 * may be too early. A 32-bit program whose processor has no such access kicks for any deadline.
 */
static uint64_t load_time(const __u64 *time)
{
#if __GCC_ATOMIC_LLONG_LOCK_FREE == 2
	return __atomic_load_n(time, __ATOMIC_RELAXED);
#else
	(void)time;
	return HWTIMER_RING_IDLE;
#endif
}

/*
 * Kick the kernel if its next poll is too late for an entry that was submitted. Errors are not
 * returned: the entries are in the ring, and the kernel will take them later.
 */
static void kick_kernel(struct hwtimer *h)
{
	uint64_t soonest = h->soonest;

	if (soonest == HWTIMER_NEVER)
		return;
	h->soonest = HWTIMER_NEVER;
	/*
	 * The first access comes after the store to sq_tail.
	 * [__atomic_signal_fence: as it keeps the order of the program, and the grace period of
	 * claim-grace does the rest]
	 */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (h->relaxed && soonest >= load_time(&h->ring->relaxed_until))
		return;
	/*
	 * Pairs with the kernel's between sleep_until and its last read of sq_tail.
	 * [__atomic_thread_fence: ring-bell-broken-program]
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (soonest < load_time(&h->ring->sleep_until))
		drain(h, 0);
}

static int rings_arm(struct hwtimer *h, struct timeout *timeout)
{
	int ret = submit(h, HWTIMER_OP_SCHEDULE, 0, timeout);

	if (!ret) {
		timeout->known = timeout->wanted;
		timeout->entry = h->sq_tail - 1;
	}
	return ret;
}

/*
 * Turn the entry that scheduled this timeout into a NOP. Returns false if the kernel may have
 * read the entry. The place in the ring may hold another entry by now, with another id or op.
 */
static bool take_back(struct hwtimer *h, const struct timeout *timeout)
{
	struct hwtimer_sqe *sqe = &h->sqes[timeout->entry & (h->sq_entries - 1)];
	uint32_t claimed;

	if (sqe->op != HWTIMER_OP_SCHEDULE || sqe->id != timeout->id)
		return false;
	/* Check before the barrier, to save its cost. */
	claimed = __atomic_load_n(&h->ring->sq_claimed, __ATOMIC_RELAXED);
	if ((int32_t)(timeout->entry - claimed) < 0)
		return false;
	/* [__atomic_store_n: claim-grace-broken-order] */
	__atomic_store_n(&sqe->op, HWTIMER_OP_NOP, __ATOMIC_RELAXED);
	/*
	 * Pairs with the kernel's between sq_claimed and entries, or with a grace period.
	 * [__atomic_signal_fence: as it keeps the order of the program, and the grace period of
	 * claim-grace does the rest]
	 */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	/* [__atomic_thread_fence: claim-broken-program; after __atomic_store_n] */
	if (!h->relaxed)
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	claimed = __atomic_load_n(&h->ring->sq_claimed, __ATOMIC_RELAXED);
	return (int32_t)(timeout->entry - claimed) >= 0;
}

/*
 * The ioctl fails while the last record for this index waits for room in the ring (-EBUSY) or is
 * about to be reported (-EEXIST). Get this record first, and try again.
 */
static int rings_arm_repeat(struct hwtimer *h, struct timeout *timeout,
			    struct hwtimer_schedule *arg)
{
	/* Not a tick: that of an own wheel may be hours. */
	const struct timespec nap = { .tv_nsec = 1000000 };
	int ret, state;

	for (;;) {
		arg->id = timeout->id;
		arg->user_data = timeout->user_data;
		ret = device(h, HWTIMER_IOC_SCHEDULE, arg);
		if (ret == -EEXIST) {
			/* Nobody else knows the id, so the timeout remains. */
			unlock(h);
			state = no_cancel();
			nanosleep(&nap, NULL);
			pthread_setcancelstate(state, NULL);
			lock(h);
		} else if (ret != -EBUSY) {
			return ret;
		}
		if (records_wait(h))
			note_all_but_one(h);
		ret = enter(h);
		if (ret)
			return ret;
	}
}

static int rings_sooner(struct hwtimer *h, const struct timeout *timeout)
{
	return submit(h, HWTIMER_OP_TOUCH, HWTIMER_SQE_QUIET, timeout);
}

static void rings_cancel(struct hwtimer *h, const struct timeout *timeout)
{
	if (timeout->periodic || !take_back(h, timeout))
		submit(h, HWTIMER_OP_CANCEL, HWTIMER_SQE_QUIET, timeout);
}

static int rings_take(struct hwtimer *h, int max)
{
	uint32_t n = nr_records(h);

	if (n > (uint32_t)max)
		n = max;
	if (n) {
		note_records(h, n);
		/*
		 * Pairs with the kernel's between flags and its last read of cq_head.
		 * [__atomic_thread_fence: ring-full-broken-program; after note_records]
		 */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		/*
		 * Kick only when all records in the ring have been read: those that wait come
		 * after them. Otherwise, a program that reads one event at a time would kick
		 * for each, as each kick fills the ring again.
		 */
		if (records_wait(h) && !nr_records(h))
			enter(h);
	}
	return n;
}

static int rings_flush(struct hwtimer *h)
{
	return drain(h, 0);
}

static const struct backend rings = {
	.arm		= rings_arm,
	.arm_repeat	= rings_arm_repeat,
	.sooner		= rings_sooner,
	.cancel		= rings_cancel,
	.take		= rings_take,
	.flush		= rings_flush,
};

/* System calls. */

static int ioctl_arm_repeat(struct hwtimer *h, struct timeout *timeout,
			    struct hwtimer_schedule *arg)
{
	int ret;

	arg->user_data = timeout->id;
	ret = device(h, HWTIMER_IOC_SCHEDULE, arg);
	if (!ret)
		timeout->kernel_id = arg->id;
	return ret;
}

/*
 * Arming again cannot fail for lack of memory: reading the record freed the timeout's place in
 * the kernel, and nobody took that place since, because we hold the lock.
 */
static int ioctl_arm(struct hwtimer *h, struct timeout *timeout)
{
	struct hwtimer_schedule arg = { .time = timeout->wanted };
	int ret = ioctl_arm_repeat(h, timeout, &arg);

	if (!ret)
		timeout->known = timeout->wanted;
	return ret;
}

static int ioctl_touch(struct hwtimer *h, uint64_t id, uint64_t deadline)
{
	struct hwtimer_touch arg = { .id = id, .time = deadline };

	return device(h, HWTIMER_IOC_TOUCH, &arg);
}

static int ioctl_sooner(struct hwtimer *h, const struct timeout *timeout)
{
	int ret = ioctl_touch(h, timeout->kernel_id, timeout->wanted);

	/* The timeout has expired, and its record can be read. */
	return ret == -ENOENT ? 0 : ret;
}

static void ioctl_cancel(struct hwtimer *h, const struct timeout *timeout)
{
	struct hwtimer_cancel arg = { .id = timeout->kernel_id };

	device(h, HWTIMER_IOC_CANCEL, &arg);
}

static int ioctl_take(struct hwtimer *h, int max)
{
	struct hwtimer_record records[READ_BATCH];
	int n, i, state = no_cancel();
	ssize_t size;

	if (max > READ_BATCH)
		max = READ_BATCH;
	size = read(h->fd, records, max * sizeof(records[0]));
	pthread_setcancelstate(state, NULL);
	if (size < 0)
		return errno == EAGAIN ? 0 : -errno;
	/* End of file: the context was stopped, and all records were read. */
	if (!size)
		h->stopped = true;
	n = size / sizeof(records[0]);
	for (i = 0; i < n; i++)
		note(h, records[i].user_data, &records[i]);
	return n;
}

/* Ioctls take effect at once. */
static int ioctl_flush(struct hwtimer *h)
{
	(void)h;
	return 0;
}

static const struct backend ioctls = {
	.arm		= ioctl_arm,
	.arm_repeat	= ioctl_arm_repeat,
	.sooner		= ioctl_sooner,
	.cancel		= ioctl_cancel,
	.take		= ioctl_take,
	.flush		= ioctl_flush,
};

/* Open and close. */

/* A newer program may have options that this library does not know. They have to be 0. */
static int copy_options(struct hwtimer_options *to, const struct hwtimer_options *from)
{
	const char *bytes = (const char *)from;
	size_t i;

	if (from->size < sizeof(*to) || from->size % 8)
		return -EINVAL;
	for (i = sizeof(*to); i < from->size; i++)
		if (bytes[i])
			return -E2BIG;
	*to = *from;
	return 0;
}

static int get_options(struct hwtimer_options *to, const struct hwtimer_options *from)
{
	int ret;

	const unsigned int known = HWTIMER_OPEN_THREADS | HWTIMER_OPEN_RINGS |
				   HWTIMER_OPEN_NO_RINGS | HWTIMER_OPEN_OWN_WHEEL |
				   HWTIMER_OPEN_BOOTTIME | HWTIMER_OPEN_REALTIME;
	const unsigned int either = HWTIMER_OPEN_RINGS | HWTIMER_OPEN_NO_RINGS;
	const unsigned int clock = HWTIMER_OPEN_BOOTTIME | HWTIMER_OPEN_REALTIME;

	*to = (struct hwtimer_options){ 0 };
	if (from) {
		ret = copy_options(to, from);
		if (ret)
			return ret;
	}
	if (!to->sq_entries)
		to->sq_entries = 4096;
	if (!to->cq_entries)
		to->cq_entries = to->sq_entries;
	/* note_all_but_one() leaves one in the ring. */
	if (to->cq_entries < 2)
		to->cq_entries = 2;
	if (!to->device)
		to->device = DEVICE;
	if (to->flags & ~known || (to->flags & either) == either || (to->flags & clock) == clock ||
	    to->timeouts > MAX_TIMEOUTS || to->sq_entries > MAX_ENTRIES ||
	    to->cq_entries > MAX_ENTRIES)
		return -EINVAL;
	return 0;
}

static int set_up(struct hwtimer *h, const struct hwtimer_options *options)
{
	struct hwtimer_setup arg = {
		.clockid = CLOCK_MONOTONIC,
		.tick_ns = options->tick_ns,
		.slots = options->slots,
		.levels = options->levels,
	};
	struct hwtimer_info info = { 0 };
	int ret;

	if (options->flags & HWTIMER_OPEN_OWN_WHEEL)
		arg.flags |= HWTIMER_SETUP_OWN_WHEEL;
	if (options->flags & HWTIMER_OPEN_BOOTTIME)
		arg.clockid = CLOCK_BOOTTIME;
	if (options->flags & HWTIMER_OPEN_REALTIME)
		arg.clockid = CLOCK_REALTIME;
	ret = device(h, HWTIMER_IOC_SETUP, &arg);
	if (ret)
		return ret;
	/* Old kernels do not have INFO. */
	device(h, HWTIMER_IOC_INFO, &info);
	h->resizable = info.features & HWTIMER_FEATURE_RESIZE;
	h->relaxed = info.rings_flags & HWTIMER_RINGS_RELAXED;
	h->clock = arg.clockid;
	h->tick_ns = arg.tick_ns;
	return 0;
}

/* The size of a kernel's table that cannot be resized: the shard's share of all timeouts. */
static uint32_t fixed_timeouts(const struct hwtimer *h, uint32_t most)
{
	uint32_t shards = h->shards ? h->shards->most : 1;

	return ((most ? most : FIXED_TIMEOUTS) + shards - 1) / shards;
}

/* How many timeouts the kernel's table gets first, if the program wants up to @most. */
static uint32_t first_timeouts(const struct hwtimer *h, uint32_t most)
{
	if (!h->resizable)
		return fixed_timeouts(h, most);
	return most && most < CHUNK ? most : CHUNK;
}

static int map_rings(struct hwtimer *h, const struct hwtimer_options *options)
{
	struct hwtimer_rings arg = {
		.flags = h->relaxed ? HWTIMER_RINGS_RELAXED : 0,
		.sq_entries = options->sq_entries,
		.cq_entries = options->cq_entries,
		.timeouts = first_timeouts(h, options->timeouts),
		.sqe_size = sizeof(struct hwtimer_sqe),
		.record_size = sizeof(struct hwtimer_record),
	};
	char *map;
	int ret;

	if (options->flags & HWTIMER_OPEN_NO_RINGS)
		return 0;
	ret = device(h, HWTIMER_IOC_RINGS, &arg);
	if (ret == -EOPNOTSUPP && !(options->flags & HWTIMER_OPEN_RINGS))
		return 0;
	if (ret)
		return ret;

	map = mmap(NULL, arg.size, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	h->ring = (struct hwtimer_ring *)map;
	h->map_size = arg.size;
	h->sqes = (struct hwtimer_sqe *)(map + arg.sq_offset);
	h->cqes = (const struct hwtimer_record *)(map + arg.cq_offset);
	h->sq_entries = arg.sq_entries;
	h->cq_mask = arg.cq_entries - 1;
	h->in_kernel = arg.timeouts;
	h->backend = &rings;
	return 0;
}

static int allocate(struct hwtimer *h, uint32_t most)
{
	if (h->ring && !h->resizable)
		most = fixed_timeouts(h, most);
	else if (!most)
		most = MAX_TIMEOUTS;
	h->looked = read_clock(CLOCK_MONOTONIC_COARSE);
	return table_init(&h->table, most);
}

static void close_shard(struct hwtimer *h)
{
	if (h->ring)
		munmap(h->ring, h->map_size);
	if (h->fd >= 0)
		close(h->fd);
	table_destroy(&h->table);
	free(h);
}

static int open_shard(struct hwtimer **to, const struct hwtimer_options *options,
		      struct shards *shards)
{
	struct hwtimer *h = calloc(1, sizeof(*h));
	int ret;

	if (!h)
		return -ENOMEM;
	h->backend = &ioctls;
	h->threads = options->flags & HWTIMER_OPEN_THREADS;
	h->forks = forks;
	h->shards = shards;
	h->id_mask = ~0ULL;
	if (shards) {
		h->id_mask = (1ULL << SHARD_SHIFT) - 1;
		h->id_base = (uint64_t)shards->nr << SHARD_SHIFT;
	}
	h->first = NO_TIMEOUT;
	h->soonest = HWTIMER_NEVER;
	h->fd = open(options->device, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	ret = h->fd < 0 ? -errno : 0;
	if (!ret)
		ret = set_up(h, options);
	if (!ret)
		ret = map_rings(h, options);
	if (!ret)
		ret = allocate(h, options->timeouts);
	if (ret)
		close_shard(h);
	else
		*to = h;
	return ret;
}

/* Open another shard, and publish it. Called with the lock, except by hwtimer_open(). */
static int add_shard(struct shards *s)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = s->nr };
	struct hwtimer *h;
	int ret = open_shard(&h, &s->options, s);

	if (ret)
		return ret;
	if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, h->fd, &event)) {
		ret = -errno;
		close_shard(h);
		return ret;
	}
	s->all[s->nr] = h;
	/*
	 * Pairs with the acquire in nr_shards().
	 * [__atomic_store_n: as a shard is complete before, and constant but for what its lock
	 * protects]
	 */
	__atomic_store_n(&s->nr, s->nr + 1, __ATOMIC_RELEASE);
	return 0;
}

static uint32_t nr_shards(const struct shards *s)
{
	/*
	 * Pairs with the release in add_shard().
	 * [__atomic_load_n: as a shard is complete before, and constant but for what its lock
	 * protects]
	 */
	return __atomic_load_n(&s->nr, __ATOMIC_ACQUIRE);
}

/* Choose a shard for threads with these lower bits: a new one, or else one that there is. */
static struct hwtimer *choose_shard(struct shards *s, uint32_t bits)
{
	struct hwtimer *h;
	unsigned int i, chosen = 0;
	int state = no_cancel();

	lock_take(&s->lock);
	h = s->of_thread[bits];
	if (!h) {
		for (i = 0; i < s->most; i++)
			chosen += !!s->of_thread[i];
		if (chosen && chosen >= s->nr && !s->stopped && !add_shard(s))
			h = s->all[s->nr - 1];
		else
			h = s->all[chosen % s->nr];
		/*
		 * Pairs with the acquire in own_shard(). [__atomic_store_n: as a shard is complete
		 * before, and constant but for what its lock protects]
		 */
		__atomic_store_n(&s->of_thread[bits], h, __ATOMIC_RELEASE);
	}
	lock_release(&s->lock);
	pthread_setcancelstate(state, NULL);
	return h;
}

/* The shard in which this thread schedules. */
static struct hwtimer *own_shard(struct hwtimer *h)
{
	struct shards *s = h->shards;
	uint32_t bits;

	if (!s)
		return h;
	if (!thread_number)
		thread_number = __atomic_add_fetch(&nr_threads, 1, __ATOMIC_RELAXED);
	bits = thread_number & (s->most - 1);
	/*
	 * Pairs with the release in choose_shard().
	 * [__atomic_load_n: as a shard is complete before, and constant but for what its lock
	 * protects]
	 */
	h = __atomic_load_n(&s->of_thread[bits], __ATOMIC_ACQUIRE);
	return h ? h : choose_shard(s, bits);
}

/* The shard number @i of handle @h, or NULL. */
static struct hwtimer *shard(struct hwtimer *h, uint32_t i)
{
	if (!h->shards)
		return i ? NULL : h;
	return i < nr_shards(h->shards) ? h->shards->all[i] : NULL;
}

/* The shard that timeout @id would be in, or NULL. */
static struct hwtimer *shard_of(struct hwtimer *h, hwtimer_id id)
{
	return h->shards ? shard(h, id >> SHARD_SHIFT) : h;
}

static int open_shards(struct hwtimer **to, const struct hwtimer_options *options, uint32_t most)
{
	struct shards *s = calloc(1, sizeof(*s));
	int ret = -ENOMEM;

	if (!s)
		return ret;
	s->most = most;
	s->options = *options;
	s->left = options->timeouts ? options->timeouts : MAX_TIMEOUTS;
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->options.device = strdup(options->device);
	if (s->epoll < 0)
		ret = -errno;
	else if (s->options.device)
		ret = add_shard(s);
	if (!ret) {
		*to = s->all[0];
		return 0;
	}
	if (s->epoll >= 0)
		close(s->epoll);
	free((char *)s->options.device);
	free(s);
	return ret;
}

int hwtimer_open(struct hwtimer **to, const struct hwtimer_options *from)
{
	struct hwtimer_options options;
	const long processors = SHARDS;
	uint32_t most = 1;
	int ret, state;

	*to = NULL;
	ret = get_options(&options, from);
	if (ret)
		return ret;
	/* One for each processor, rounded up; but only one if each would have an own wheel. */
	if (options.flags & HWTIMER_OPEN_THREADS && !(options.flags & HWTIMER_OPEN_OWN_WHEEL))
		while ((long)most < processors && most < MAX_SHARDS)
			most *= 2;
	state = no_cancel();
	ret = most > 1 ? open_shards(to, &options, most) : open_shard(to, &options, NULL);
	pthread_setcancelstate(state, NULL);
	return ret;
}

/* Does not take the locks, which may be locked in the child of a fork(). */
void hwtimer_close(struct hwtimer *h)
{
	struct shards *s = h ? h->shards : NULL;
	uint32_t i;
	int state;

	if (!h)
		return;
	state = no_cancel();
	for (i = s ? nr_shards(s) : 0; i--;)
		close_shard(s->all[i]);
	if (s) {
		close(s->epoll);
		free((char *)s->options.device);
		free(s);
	} else {
		close_shard(h);
	}
	pthread_setcancelstate(state, NULL);
}

/* Queries. */

int hwtimer_fd(const struct hwtimer *h)
{
	return h->shards ? h->shards->epoll : h->fd;
}

bool hwtimer_has_rings(const struct hwtimer *h)
{
	return h->ring;
}

uint64_t hwtimer_tick_ns(const struct hwtimer *h)
{
	return h->tick_ns;
}

uint64_t hwtimer_now(const struct hwtimer *h)
{
	return read_clock(h->clock);
}

/* The size of struct hwtimer_stats in its first version. */
#define FIRST_STATS	96

int hwtimer_stats(struct hwtimer *h, struct hwtimer_stats *stats, size_t size)
{
	struct hwtimer_stats sum = { 0 }, one;
	struct hwtimer *each;
	uint32_t i;
	int ret;

	if (inherited(h))
		return -EPERM;
	if (size < FIRST_STATS || size % 8)
		return -EINVAL;
	for (i = 0; (each = shard(h, i)); i++) {
		one = (struct hwtimer_stats){ 0 };
		ret = device(each, HWTIMER_IOC_STATS, &one);
		if (ret)
			return ret;
		sum.now = one.now;
		sum.scheduled += one.scheduled;
		sum.touched += one.touched;
		sum.cancelled += one.cancelled;
		sum.expired += one.expired;
		sum.handed_back += one.handed_back;
		sum.rejected += one.rejected;
		sum.pending += one.pending;
		sum.unread += one.unread;
		sum.cap += one.cap;
		sum.clock_set += one.clock_set;
	}
	memset(stats, 0, size);
	memcpy(stats, &sum, size < sizeof(sum) ? size : sizeof(sum));
	return 0;
}

/* Schedule, touch and cancel. */

/* Called with the lock. @arg: NULL unless the timeout is periodic */
static int schedule_locked(struct hwtimer *h, uint64_t deadline_ns, struct hwtimer_schedule *arg,
			   uint64_t user_data, hwtimer_id *id)
{
	struct timeout *timeout;
	int ret = take_timeout(h, user_data, &timeout);

	if (ret)
		return ret;
	timeout->wanted = deadline_ns;
	if (arg) {
		timeout->repeat = calloc(1, sizeof(*timeout->repeat));
		if (!timeout->repeat) {
			ret = -ENOMEM;
			goto no;
		}
		timeout->periodic = true;
		timeout->watch = !arg->period;
		h->table.periodic++;
	}
	ret = arg ? h->backend->arm_repeat(h, timeout, arg) : h->backend->arm(h, timeout);
	if (ret)
		goto no;
	kick_kernel(h);
	/* Before another thread can return its event, and after the barrier of the kick. */
	if (id)
		*id = timeout->id;
	return 0;
no:
	free_timeout(h, timeout);
	return ret;
}

static int schedule_in(struct hwtimer *h, uint64_t deadline_ns, struct hwtimer_schedule *arg,
		       uint64_t user_data, hwtimer_id *id)
{
	int ret;

	lock(h);
	ret = schedule_locked(h, deadline_ns, arg, user_data, id);
	unlock(h);
	return ret;
}

static bool is_full(int ret)
{
	return ret == -EAGAIN || ret == -EDQUOT || ret == -ENOMEM;
}

/* Can there be more timeouts in another shard? Only if the tables are fixed shares. */
static bool may_add_shard(const struct shards *s)
{
	return s->all[0]->ring && !s->all[0]->resizable && !s->stopped && s->nr < s->most &&
	       __atomic_load_n(&s->left, __ATOMIC_RELAXED);
}

/*
 * Each shard was full when we came to it. But others may have freed a timeout in one that we had
 * left, and taken one in the next. So look at all shards as they are at one moment.
 */
static int schedule_in_any(struct shards *s, uint64_t deadline_ns, struct hwtimer_schedule *arg,
			   uint64_t user_data, hwtimer_id *id)
{
	int ret, state = no_cancel();
	uint32_t i;

	lock_take(&s->lock);
	do {
		for (i = 0; i < s->nr; i++)
			lock(s->all[i]);
		for (i = 0, ret = -EAGAIN; i < s->nr && is_full(ret); i++)
			ret = schedule_locked(s->all[i], deadline_ns, arg, user_data, id);
		for (i = 0; i < s->nr; i++)
			unlock(s->all[i]);
	} while (is_full(ret) && may_add_shard(s) && !add_shard(s));
	lock_release(&s->lock);
	pthread_setcancelstate(state, NULL);
	return ret;
}

/* In this thread's shard, or if that is full and cannot grow, in any other. */
static int schedule(struct hwtimer *h, uint64_t deadline_ns, struct hwtimer_schedule *arg,
		    uint64_t user_data, hwtimer_id *id)
{
	struct hwtimer *own, *other;
	uint32_t i;
	int ret;

	if (inherited(h))
		return -EPERM;
	own = own_shard(h);
	/* *id is written last; without this, the next barrier would wait for a cache miss. */
	__builtin_prefetch(id, 1);
	ret = schedule_in(own, deadline_ns, arg, user_data, id);
	if (!h->shards || !is_full(ret))
		return ret;
	for (i = 0; is_full(ret) && (other = shard(h, i)); i++)
		if (other != own)
			ret = schedule_in(other, deadline_ns, arg, user_data, id);
	return ret == -EAGAIN ? schedule_in_any(h->shards, deadline_ns, arg, user_data, id) : ret;
}

int hwtimer_schedule_at(struct hwtimer *h, uint64_t deadline_ns, uint64_t user_data,
			hwtimer_id *id)
{
	return schedule(h, deadline_ns, NULL, user_data, id);
}

int hwtimer_schedule(struct hwtimer *h, uint64_t delay_ns, uint64_t user_data,
		     hwtimer_id *id)
{
	return schedule(h, deadline_in(h, delay_ns), NULL, user_data, id);
}

int hwtimer_schedule_repeat(struct hwtimer *h, const struct hwtimer_repeat *repeat,
			    uint64_t user_data, hwtimer_id *id)
{
	struct hwtimer_schedule arg = {
		.time = repeat->first_ns,
		.period = repeat->period_ns,
		.misfire = repeat->misfire_ns,
		.policy = repeat->policy,
	};

	/* With a period of 0 the kernel would schedule it to expire once. */
	if (!repeat->period_ns || repeat->flags)
		return -EINVAL;
	return schedule(h, repeat->first_ns, &arg, user_data, id);
}

int hwtimer_watch_clock(struct hwtimer *h, uint64_t user_data, hwtimer_id *id)
{
	struct hwtimer_schedule arg = { .flags = HWTIMER_CANCEL_ON_SET, .time = HWTIMER_NEVER };

	return schedule(h, HWTIMER_NEVER, &arg, user_data, id);
}

static int touch(struct hwtimer *h, struct timeout *timeout, uint64_t deadline_ns)
{
	uint64_t before = timeout->wanted;
	int ret;

	if (timeout->reports & REPORTS_SET)
		return -ENOENT;
	if (h->stopped || timeout->reports & REPORTS_END)
		return -ESHUTDOWN;
	if (timeout->watch)
		return -EINVAL;
	if (timeout->periodic)
		return ioctl_touch(h, h->ring ? timeout->id : timeout->kernel_id, deadline_ns);
	timeout->wanted = deadline_ns;
	timeout->touched = true;
	if (timeout->reports || deadline_ns >= timeout->known)
		return 0;
	ret = h->backend->sooner(h, timeout);
	if (ret)
		timeout->wanted = before;
	else
		timeout->known = deadline_ns;
	return ret;
}

int hwtimer_touch_at(struct hwtimer *h, hwtimer_id id, uint64_t deadline_ns)
{
	struct timeout *timeout;
	int ret = -ENOENT;

	if (inherited(h))
		return -EPERM;
	h = shard_of(h, id);
	if (!h)
		return ret;
	lock(h);
	timeout = find(h, id);
	if (timeout)
		ret = touch(h, timeout, deadline_ns);
	kick_kernel(h);
	unlock(h);
	return ret;
}

int hwtimer_touch(struct hwtimer *h, hwtimer_id id, uint64_t delay_ns)
{
	return hwtimer_touch_at(h, id, deadline_in(h, delay_ns));
}

/* The kernel knows the deadline, and how the timeout repeats. */
static int query_periodic(struct hwtimer *h, const struct timeout *timeout,
			  struct hwtimer_state *state)
{
	struct hwtimer_query arg = { .id = h->ring ? timeout->id : timeout->kernel_id };
	int ret = device(h, HWTIMER_IOC_QUERY, &arg);

	state->deadline_ns = arg.deadline;
	state->period_ns = arg.period;
	state->misfire_ns = arg.misfire;
	state->policy = arg.policy;
	return ret;
}

int hwtimer_query(struct hwtimer *h, hwtimer_id id, struct hwtimer_state *state)
{
	struct timeout *timeout;
	uint64_t now;
	int ret = 0;

	*state = (struct hwtimer_state){ 0 };
	if (inherited(h))
		return -EPERM;
	h = shard_of(h, id);
	if (!h)
		return -ENOENT;
	lock(h);
	timeout = find(h, id);
	if (!timeout || timeout->reports & REPORTS_SET) {
		ret = -ENOENT;
	} else if (h->stopped || timeout->reports & REPORTS_END) {
		ret = -ESHUTDOWN;
	} else {
		state->user_data = timeout->user_data;
		state->deadline_ns = timeout->wanted;
		if (timeout->periodic)
			ret = query_periodic(h, timeout, state);
	}
	unlock(h);
	now = hwtimer_now(h);
	if (state->deadline_ns == HWTIMER_NEVER)
		state->remaining_ns = HWTIMER_NEVER;
	else if (state->deadline_ns > now)
		state->remaining_ns = state->deadline_ns - now;
	return ret;
}

/* Can the timeout be pending in the kernel? */
static bool armed(const struct hwtimer *h, const struct timeout *timeout)
{
	if (h->stopped || timeout->reports & REPORTS_END)
		return false;
	return timeout->periodic || !timeout->reports;
}

int hwtimer_cancel(struct hwtimer *h, hwtimer_id id)
{
	struct timeout *timeout;

	if (inherited(h))
		return -EPERM;
	h = shard_of(h, id);
	if (!h)
		return -ENOENT;
	lock(h);
	timeout = find(h, id);
	if (timeout) {
		if (armed(h, timeout))
			h->backend->cancel(h, timeout);
		free_timeout(h, timeout);
	}
	unlock(h);
	return timeout ? 0 : -ENOENT;
}

/* Call @fn for each shard, with its lock. Returns the first error. */
static int in_all_shards(struct hwtimer *h, int (*fn)(struct hwtimer *h))
{
	struct hwtimer *each;
	int ret = 0, failed;
	uint32_t i;

	if (inherited(h))
		return -EPERM;
	for (i = 0; (each = shard(h, i)); i++) {
		lock(each);
		failed = fn(each);
		unlock(each);
		if (!ret)
			ret = failed;
	}
	return ret;
}

static int shrink_shard(struct hwtimer *h)
{
	bool more;
	int ret;

	for (;;) {
		ret = shrink(h, nr_live(&h->table), &more);
		if (ret || !more)
			break;
		if (h->threads)
			lock_pass(&h->lock);
	}
	h->table.peak = nr_live(&h->table);
	return ret;
}

int hwtimer_shrink(struct hwtimer *h)
{
	return in_all_shards(h, shrink_shard);
}

static int flush_shard(struct hwtimer *h)
{
	return h->backend->flush(h);
}

int hwtimer_flush(struct hwtimer *h)
{
	return in_all_shards(h, flush_shard);
}

/* Entries that fail because of the stop become events of kind HWTIMER_KIND_HANDED_BACK. */
static int stop_shard(struct hwtimer *h)
{
	struct hwtimer_stop arg = { 0 };
	int ret = device(h, HWTIMER_IOC_STOP, &arg);

	if (!ret)
		h->stopped = true;
	return ret;
}

int hwtimer_stop(struct hwtimer *h)
{
	struct shards *s = h->shards;
	int ret;

	if (inherited(h))
		return -EPERM;
	if (!s)
		return in_all_shards(h, stop_shard);
	lock_take(&s->lock);
	/*
	 * Pairs with the acquire in all_stopped().
	 * [__atomic_store_n: as a shard is complete before, and constant but for what its lock
	 * protects]
	 */
	__atomic_store_n(&s->stopped, true, __ATOMIC_RELEASE);
	ret = in_all_shards(h, stop_shard);
	lock_release(&s->lock);
	return ret;
}

/* Wait. */

/* Collect events without waiting. Sets *@more if there is more to do, which is not urgent. */
static int collect(struct hwtimer *h, struct hwtimer_event *events, int max, bool *more)
{
	int n = 0, taken = 0, room, ret;

	do {
		ret = report_all(h, events + n, max - n);
		if (ret < 0)
			break;
		n += ret;
		room = n + BARREN_MOST - taken;
		if (room > max - n)
			room = max - n;
		/*
		 * Records that only arm timeouts again may come for ever. Those that are not taken
		 * keep the descriptor readable.
		 */
		if (!room) {
			ret = 0;
			*more = true;
			break;
		}
		/* Only now that the list is empty; see "The rings" at the top. */
		ret = h->backend->take(h, room);
		taken += ret > 0 ? ret : 0;
	} while (ret > 0);
	/* For timeouts that were armed again. */
	kick_kernel(h);
	if (!n && !ret && h->stopped && !nr_live(&h->table))
		return -ESHUTDOWN;
	if (!n && !ret && !*more && shrink_if_idle(h))
		*more = true;
	return n ? n : ret;
}

/*
 * The first @nr shards were stopped. Are these all, and will they remain all? If not, another
 * thread has just opened one; then the descriptor is readable, and hwtimer_wait() looks again.
 */
static bool all_stopped(const struct hwtimer *h, uint32_t nr)
{
	/*
	 * Pairs with the release in hwtimer_stop(), before which all shards were published.
	 * [__atomic_load_n: as a shard is complete before, and constant but for what its lock
	 * protects]
	 */
	return !h->shards || (__atomic_load_n(&h->shards->stopped, __ATOMIC_ACQUIRE) &&
			      nr == nr_shards(h->shards));
}

/* What collect_all() has found so far. */
struct harvest {
	struct hwtimer_event	*events;
	int			max, n;
	bool			*more;
	uint32_t		stopped;	/* how many shards */
	int			error;
};

/* Collect events of one shard, and unlock it. */
static void collect_from(struct hwtimer *each, struct harvest *all)
{
	int got = collect(each, all->events + all->n, all->max - all->n, all->more);

	unlock(each);
	if (got > 0)
		all->n += got;
	else if (got == -ESHUTDOWN)
		all->stopped++;
	else if (got)
		all->error = got;
}

/* Collect events of all shards, beginning with another one each time. */
static int collect_all(struct hwtimer *h, struct hwtimer_event *events, int max, bool *more)
{
	struct harvest all = { .events = events, .max = max, .more = more };
	uint32_t nr = 1, first = 0, busy = 0, i;
	struct hwtimer *each;

	if (h->shards) {
		nr = nr_shards(h->shards);
		first = __atomic_fetch_add(&h->shards->next, 1, __ATOMIC_RELAXED) % nr;
	}
	/* Wait for the lock of the first, so that even one that is always locked gets its turn. */
	each = shard(h, first);
	lock(each);
	collect_from(each, &all);
	for (i = 1; i < nr && all.n < max; i++) {
		each = shard(h, (first + i) % nr);
		if (lock_try(&each->lock))
			collect_from(each, &all);
		else
			busy |= 1U << i;
	}
	/* Wait for the locks of the others only if there are no events. */
	for (i = 1; i < nr && !all.n; i++) {
		if (!(busy & 1U << i))
			continue;
		each = shard(h, (first + i) % nr);
		lock(each);
		collect_from(each, &all);
	}
	if (all.n || all.error)
		return all.n ? all.n : all.error;
	return all.stopped == nr && all_stopped(h, nr) ? -ESHUTDOWN : 0;
}

static void note_stopped(struct hwtimer *h)
{
	lock(h);
	/* Submissions since the stop fail now. Until then, POLLHUP would keep us from sleeping. */
	if (!h->stopped)
		h->backend->flush(h);
	h->stopped = true;
	unlock(h);
}

/* @revents of a context's descriptor: was the context stopped or damaged? Returns 0 or -EBADFD. */
static int look_at(struct hwtimer *h, short revents)
{
	/* The program closed the descriptor, or damaged the rings. */
	if (revents & (POLLERR | POLLNVAL))
		return -EBADFD;
	if (revents & POLLHUP)
		note_stopped(h);
	return 0;
}

/* The same for all shards. If one was stopped by somebody else, stop all. */
static int look_at_shards(struct hwtimer *h)
{
	struct epoll_event events[MAX_SHARDS];
	int n = epoll_wait(h->shards->epoll, events, MAX_SHARDS, 0), ret = 0, i;
	struct hwtimer *each;

	if (n < 0)
		return -errno;
	for (i = 0; i < n && !ret; i++) {
		each = shard(h, events[i].data.u32);
		/* It is in the set, and about to be published. */
		if (!each)
			continue;
		ret = look_at(each, events[i].events);
		if (events[i].events & EPOLLHUP)
			hwtimer_stop(h);
	}
	return ret;
}

/*
 * Sleep until the descriptor is readable, at most until @end_ns on CLOCK_MONOTONIC. @more: there is
 * something to do, so only look.
 */
static int sleep_until(struct hwtimer *h, uint64_t end_ns, bool more)
{
	struct pollfd p = { .fd = hwtimer_fd(h), .events = POLLIN };
	struct timespec ts = { .tv_sec = LONGEST_SLEEP };
	uint64_t now = 0;

	if (end_ns != HWTIMER_NEVER)
		now = read_clock(CLOCK_MONOTONIC);
	if (now >= end_ns)
		return -ETIME;
	if (more) {
		ts.tv_sec = 0;
	} else if (end_ns - now < LONGEST_SLEEP * NSEC_PER_SEC) {
		ts.tv_sec = (end_ns - now) / NSEC_PER_SEC;
		ts.tv_nsec = (end_ns - now) % NSEC_PER_SEC;
	}
	if (ppoll(&p, 1, &ts, NULL) < 0)
		return -errno;
	if (!h->shards)
		return look_at(h, p.revents);
	return p.revents & POLLNVAL ? -EBADFD : look_at_shards(h);
}

/* Is it time to look whether somebody else has stopped the handle? The rings do not show it. */
static bool look_now(struct hwtimer *h)
{
	uint32_t now = read_clock(CLOCK_MONOTONIC_COARSE) / LOOK_NS;

	return __atomic_exchange_n(&h->looked_in, now, __ATOMIC_RELAXED) != now;
}

/* Look for a stop, without sleeping; not a cancellation point. Returns 0 or -errno. */
static int look_for_stop(struct hwtimer *h)
{
	int state = no_cancel(), ret = sleep_until(h, HWTIMER_NEVER, true);

	pthread_setcancelstate(state, NULL);
	return ret == -EINTR ? 0 : ret;
}

int hwtimer_wait(struct hwtimer *h, struct hwtimer_event *events, int max,
		 int64_t timeout_ns)
{
	uint64_t end_ns = HWTIMER_NEVER;
	bool more;
	int ret;

	if (inherited(h))
		return -EPERM;
	if (max < 1)
		return -EINVAL;
	if (timeout_ns > 0)
		end_ns = read_clock(CLOCK_MONOTONIC) + timeout_ns;
	for (;;) {
		more = false;
		ret = collect_all(h, events, max, &more);
		if (ret)
			return ret;
		if (!timeout_ns) {
			/* The next call returns what the stop has handed back, or -ESHUTDOWN. */
			return look_now(h) ? look_for_stop(h) : 0;
		}
		ret = sleep_until(h, end_ns, more);
		if (ret)
			return ret == -ETIME ? 0 : ret;
	}
}
