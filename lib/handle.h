/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libhwtimer: a handle, private to the library.
 *
 * A handle is a context by a table of which it alone decides which slot is whose. An id is the
 * index of a slot in its lower 24 bits, and the generation of its use above, 40 bits that do not
 * come back for long. The lower 20 bits of a generation are the arming in the word, so that one
 * compare-and-swap decides between those who move, cancel and take. @link, which has the whole id,
 * keeps an old one from being taken for a new one. The upper 32 bits are the tag of the slot, for
 * a handle that takes over the table.
 *
 * Who gets a word to 0 has the slot for himself, and frees it. Free slots are in a list, or in one
 * for each of several threads, linked by @link; those that were never used are beyond @fresh. Slot
 * 0 is not used, so that 0 is no index. Nothing of this is in memory that is shared with the
 * kernel. So nobody else who writes there can make the library write to memory that is not the
 * table's, and if he invents a timeout in a free slot, it ends where that slot cannot be freed
 * again.
 *
 * The usual way is that of a handle of one thread, for a timeout that is not periodic, where
 * neither the kernel nor memory is needed. hwtimer_schedule_at(), hwtimer_touch_at() and
 * hwtimer_cancel() have it in themselves; all else is in functions that they call at their end.
 */
#ifndef HANDLE_H
#define HANDLE_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "libhwtimer.h"
#include "table.h"

#define INDEX_BITS	24
#define INDEX_MASK	((1U << INDEX_BITS) - 1)
/* In generations and armings: the timeout is periodic; and what is always set: none is 0. */
#define PERIODIC	1U
#define ALWAYS		2U
#ifndef SHARDS
#define SHARDS		16
#endif
/* The clock of HWTIMER_OPEN_VIRTUAL, which only hwtimer_advance() moves. */
#define CLOCK_VIRTUAL	(-1)
/* The largest pages. */
#define OWN_SIZE	65536

/* Not part of the usual way, which stays short by that. */
#define OTHER	__attribute__((__noinline__))

/* Probes for tracers, if the library is compiled with -DHWTIMER_USDT. */
#ifdef HWTIMER_USDT
#include <sys/sdt.h>
#define PROBE(name, h, id, ns)	DTRACE_PROBE3(hwtimer, name, h, id, ns)
#else
#define PROBE(name, h, id, ns)	((void)(id), (void)(ns))
#endif

/**
 * struct shard - what one of several threads keeps
 * @free: in the lower half, the index of the first free slot; 0: there is none. The upper half
 *	counts removals: who has read the link of a slot that was removed and came back meanwhile
 *	notices
 * @from: where its threads have found the last slot of another one
 * @armed: how many timeouts its threads have armed, ...
 * @touched: ... moved ...
 * @cancelled: ... cancelled ...
 * @expired: ... and taken
 */
struct shard {
	uint64_t	free;
	uint32_t	from;
	uint64_t	armed;
	uint64_t	touched;
	uint64_t	cancelled;
	uint64_t	expired;
} __attribute__((aligned(64)));

/**
 * struct own - memory that fork() does not copy: a child finds zeros
 * @alive: not 0
 * @slots: how many slots may be used; 0 also after a stop
 * @usual: the same for the usual way: 0 with HWTIMER_OPEN_THREADS
 * @free: the first free slot, without HWTIMER_OPEN_THREADS; 0: there is none
 * @latest_ns: TABLE_NEVER, with which the usual way compares deadlines
 * @shard: of each thread; the first one of all unless HWTIMER_OPEN_THREADS
 */
struct own {
	uint32_t	alive;
	uint32_t	slots;
	uint32_t	usual;
	uint32_t	free;
	uint64_t	latest_ns;
	struct shard	shard[SHARDS];
};

/**
 * struct repeat - a periodic timeout; protected by @repeat_lock
 * @first_ns: its deadlines are this, and all that are a whole number of periods later
 * @period_ns: as given to hwtimer_schedule_repeat(); 0: it has ended
 * @misfire_ns: as given
 * @skipped: how many deadlines were missed since the last event
 * @policy: as given
 */
struct repeat {
	uint64_t	first_ns;
	uint64_t	period_ns;
	uint64_t	misfire_ns;
	uint64_t	skipped;
	uint32_t	policy;
};

/**
 * struct hwtimer - a handle
 * @own: see above
 * @apart: fills the last page of @own, however large pages are
 * @process: what does the kernel's part; NULL: the kernel
 * @t: the table
 * @fresh: slots from here on were never used
 * @shard_mask: how many struct shard are in use, 2^n, minus 1
 * @threads: HWTIMER_OPEN_THREADS
 * @epfd: what several threads wait for, so that an event wakes one or two of them, not all; or -1
 * @clockid: CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_VIRTUAL
 * @virtual_ns: the time by CLOCK_VIRTUAL; written with the lock of @process held
 * @tick_ns: the tick
 * @max: the most slots
 * @now_ns: a time that was read for an event, since there was none to take; 0: there was none yet
 * @published_ns: when the counts of the shards were last written to the table
 * @lock: held to change what is mapped, and protects what follows up to @repeat_lock
 * @walk: the last @walk of the table of which slots were looked at ...
 * @walk_at: ... up to here
 * @ended: the stop is complete ...
 * @back_at: ... and slots up to here were handed back
 * @repeat_lock: protects what follows; may be taken with @lock held
 * @repeat: for each slot, or NULL: there was no periodic timeout yet
 * @link: for each slot: the id of its timeout; or, if it is free, that of its last one, but with
 *	the next free slot, or 0, in place of the index. Not protected
 */
struct hwtimer {
	struct own	own;
	char		apart[OWN_SIZE - sizeof(struct own)];
	struct process	*process;
	struct table	t;
	uint32_t	fresh;
	uint32_t	shard_mask;
	bool		threads;
	int		epfd;
	clockid_t	clockid;
	/* Read while it is written; a processor of 32 bits may align it to 4 bytes only. */
	uint64_t	virtual_ns __attribute__((aligned(8)));
	uint64_t	tick_ns;
	uint32_t	max;
	uint64_t	now_ns;
	uint64_t	published_ns;
	pthread_mutex_t	lock;
	uint32_t	walk;
	uint32_t	walk_at;
	bool		ended;
	uint32_t	back_at;
	pthread_mutex_t	repeat_lock;
	struct repeat	*repeat;
	uint64_t	link[] __attribute__((aligned(64)));
};

/* As a handle begins a page: no access of 64 bits lies across a cache line, which is not atomic. */
_Static_assert(!(offsetof(struct hwtimer, virtual_ns) % 8), "the virtual clock is aligned");
_Static_assert(!(offsetof(struct hwtimer, link) % 8), "links are aligned");

static inline uint64_t clock_ns(clockid_t clockid)
{
	struct timespec ts;

	clock_gettime(clockid, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* The time of a handle. */
static inline uint64_t handle_now(const struct hwtimer *h)
{
	return h->clockid == CLOCK_VIRTUAL ? table_load(&h->virtual_ns) : clock_ns(h->clockid);
}

/* Address space for many slots, of which few may be used: in huge pages, each took 2 MiB. */
static inline void *memory_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* Fails if the kernel has none. */
	madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

/* Is this the process that has opened the handle? */
static inline bool handle_alive(const struct hwtimer *h)
{
	return table_load(&h->own.alive);
}

static inline bool handle_stopped(struct hwtimer *h)
{
	return table_load(&h->t.head->flags) & HWTIMER_TABLE_STOPPED;
}

/* How many slots may be used; 0 in a child. */
static inline uint32_t handle_slots(const struct hwtimer *h)
{
	/* [__atomic_load_n: as hwtimer_map() releases] */
	return __atomic_load_n(&h->own.slots, __ATOMIC_ACQUIRE);
}

/* A number of the calling thread, or 0. It is read without a call, in a shared library, too. */
extern __thread uint32_t hwtimer_thread
	__attribute__((visibility("hidden"), tls_model("initial-exec")));

static inline struct shard *handle_shard(struct hwtimer *h)
{
	return &h->own.shard[hwtimer_thread & h->shard_mask];
}

/* Threads may share a shard; then a count may be a little too low. */
static inline void shard_count(uint64_t *counter)
{
	table_store(counter, table_load(counter) + 1);
}

/* The id of the timeout of a slot; 0: it is not in use. */
static inline hwtimer_id slot_id(const struct hwtimer *h, uint32_t index)
{
	uint64_t link = table_load(&h->link[index]);

	return (link & INDEX_MASK) == index ? link : 0;
}

int hwtimer_map(struct hwtimer *h);
int hwtimer_ended(struct hwtimer *h);
bool hwtimer_slot_free(struct hwtimer *h, uint32_t index);
struct repeat *hwtimer_slot_repeat(struct hwtimer *h, uint32_t index);
uint64_t hwtimer_repeat_deadline(const struct repeat *r, uint64_t word);
void hwtimer_repeat_end(struct hwtimer *h, uint32_t index);

/* Free the slot of a timeout that is not periodic, of a handle of one thread. */
static inline void slot_put(struct hwtimer *h, uint32_t index, hwtimer_id id)
{
	h->link[index] = id - index + h->own.free;
	h->own.free = index;
}

#endif /* HANDLE_H */
