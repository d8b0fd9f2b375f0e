// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rings: used by the protocol, with books; and abused.
 */
#include "round.h"

#include <sys/eventfd.h>

/* Reserve addresses where nothing else is mapped, so that random writes hit no other memory. */
static char *make_region(void)
{
	char *p = mmap(NULL, 2 * REGION, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	return p;
}

/*
 * Map into a region, by moving. Mapping directly would unmap the region if it failed; another
 * thread might then map something there, which would be overwritten.
 */
static int map_into(char *region, void *p, size_t size)
{
	if (mremap(p, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, region) != MAP_FAILED)
		return 0;
	munmap(p, size);
	return -ENOMEM;
}

/**
 * make_rings - create and map the rings of a context, if possible
 * @t: the thread
 * @c: the context, in which nothing was scheduled yet
 */
void make_rings(struct thread *t, struct context *c)
{
	static const __u32 entries[] = { 1, 2, 4, 8, 16, 64, 100, 256 };
	union argument arg = { 0 };
	struct hwtimer_rings *r = &arg.rings;
	struct ring mapped = { .shared = NULL };
	int ret;

	if (!c->region)
		c->region = make_region();
	r->sqe_size = sizeof(struct hwtimer_sqe);
	r->record_size = RECORD_SIZE;
	r->sq_entries = ONE_OF(&t->random, entries);
	r->cq_entries = one_in(&t->random, 2) ? 0 : ONE_OF(&t->random, entries);
	r->timeouts = 1 + below(&t->random, one_in(&t->random, 3) ? 300 : 30);
	if (one_in(&t->random, 2))
		r->flags = HWTIMER_RINGS_RELAXED;
	if (one_in(&t->random, 3)) {
		ret = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (ret >= 0) {
			r->flags |= HWTIMER_RINGS_EVENTFD;
			r->eventfd = ret;
		}
	}
	ret = call_valid(t, c, DO_RINGS, &arg);
	if (r->flags & HWTIMER_RINGS_EVENTFD && (ret || one_in(&t->random, 2)))
		close(r->eventfd);
	else if (r->flags & HWTIMER_RINGS_EVENTFD)
		c->ring.eventfd = r->eventfd;
	if (ret)
		return;
	begin_step(t, c, DO_MMAP);
	ret = ring_map(&mapped, atomic_load(&c->fd), r);
	if (!ret)
		ret = map_into(c->region, mapped.shared, r->size);
	if (!ret)
		ring_use(&c->ring, c->region, r);
	end_step(t, DO_MMAP, ret);
	c->rings = !ret;
}

/* Rings of clean contexts. */

static enum verdict judge_sqe(const struct context *c, const struct hwtimer_sqe *sqe)
{
	switch (sqe->op) {
	case HWTIMER_OP_SCHEDULE:
		if (HWTIMER_ID_INDEX(sqe->id) >= c->ring.timeouts)
			return INVALID;
		break;
	case HWTIMER_OP_TOUCH:
		break;
	case HWTIMER_OP_CANCEL:
		if (sqe->time)
			return INVALID;
		break;
	case HWTIMER_OP_NOP:
		return VALID;
	default:
		return INVALID;
	}
	return sqe->flags & ~HWTIMER_SQE_QUIET ? INVALID : VALID;
}

/* Now and then change a submission, to make it invalid. */
static void spoil_sqe(struct thread *t, struct submission *s)
{
	struct hwtimer_sqe *sqe = &s->sqe;

	switch (below(&t->random, 20)) {
	case 0:
		sqe->op = rnd(&t->random);
		break;
	case 1:
		sqe->flags |= 1U << below(&t->random, 32);
		break;
	case 2:
		if (sqe->op == HWTIMER_OP_CANCEL)
			sqe->time = rnd(&t->random);
		break;
	case 3:
		/* An unknown id: tags in use are smaller. */
		if (sqe->op != HWTIMER_OP_SCHEDULE) {
			sqe->id ^= 1ULL << (40 + below(&t->random, 24));
			s->book = NULL;
		} else {
			sqe->id |= HWTIMER_ID_INDEX(rnd(&t->random));
		}
		break;
	}
}

static void fill_sqe(struct thread *t, struct context *c, struct submission *s)
{
	static const __u32 ops[] = {
		HWTIMER_OP_SCHEDULE, HWTIMER_OP_SCHEDULE, HWTIMER_OP_SCHEDULE,
		HWTIMER_OP_TOUCH, HWTIMER_OP_TOUCH, HWTIMER_OP_CANCEL, HWTIMER_OP_CANCEL,
		HWTIMER_OP_NOP,
	};
	struct hwtimer_sqe *sqe = &s->sqe;
	__u32 relative;

	memset(s, 0, sizeof(*s));
	sqe->op = ONE_OF(&t->random, ops);
	sqe->flags = one_in(&t->random, 10) ? HWTIMER_SQE_QUIET : 0;
	sqe->user_data = SUBMISSION | (s - c->submissions);
	if (sqe->op != HWTIMER_OP_CANCEL) {
		sqe->time = pick_time(t, c, &relative);
		if (relative)
			sqe->time = earliest_of(c, relative, sqe->time);
	}
	if (sqe->op == HWTIMER_OP_SCHEDULE) {
		s->book = new_book(c);
		if (!s->book) {
			sqe->op = NO_OP;
		} else {
			sqe->id = HWTIMER_ID(below(&t->random, c->ring.timeouts),
					     s->book - c->books + 1);
		}
	} else {
		s->book = any_book(t, c);
		sqe->id = s->book ? atomic_load(&s->book->id) : HWTIMER_ID(0, 0);
	}
	spoil_sqe(t, s);
	if (!s->book && sqe->op == HWTIMER_OP_SCHEDULE)
		sqe->op = 0;
	s->quiet = sqe->flags & HWTIMER_SQE_QUIET;
	s->invalid = judge_sqe(c, sqe) == INVALID;
	if (!s->book || s->invalid)
		return;
	if (sqe->op == HWTIMER_OP_SCHEDULE)
		atomic_store(&s->book->id, sqe->id);
	if (sqe->op == HWTIMER_OP_SCHEDULE)
		atomic_store(&s->book->earliest, sqe->time);
	else if (sqe->op == HWTIMER_OP_TOUCH)
		lower(&s->book->earliest, sqe->time);
}

static void kick_kernel(struct thread *t, struct context *c)
{
	union argument arg = { 0 };
	int ret = call_valid(t, c, DO_ENTER, &arg);

	if (ret && ret != -ENXIO && c->clean)
		fail("ENTER: %d", ret);
}

static void check_header(const struct context *c)
{
	const struct hwtimer_ring *h = c->ring.shared;

	if (h->flags & ~(HWTIMER_RING_CQ_FULL | HWTIMER_RING_BAD) || h->pad2)
		fail("the flags of the ring are %x, pad2 is %x", h->flags, h->pad2);
	if (h->flags & HWTIMER_RING_BAD)
		fail("a clean ring is bad");
}

/**
 * submit_one - submit an entry to a clean ring
 * @t: the thread
 * @c: the context
 */
void submit_one(struct thread *t, struct context *c)
{
	struct hwtimer_ring *h = c->ring.shared;
	struct submission *s;
	bool full, kick;

	pthread_mutex_lock(&c->submitting);
	if (atomic_load(&c->n_submissions) == SUBMISSIONS) {
		pthread_mutex_unlock(&c->submitting);
		return;
	}
	begin_step(t, c, DO_SUBMIT);
	if (h->sq_tail - ring_load(&h->sq_head) > c->ring.sq_entries)
		fail("sq_head is %u, and sq_tail %u", h->sq_head, h->sq_tail);
	s = &c->submissions[atomic_load(&c->n_submissions)];
	fill_sqe(t, c, s);
	memcpy(t->step->words, &s->sqe, sizeof(s->sqe));
	/* Counted before its record can be there. */
	atomic_fetch_add(&c->n_submissions, 1);
	full = !ring_submit(&c->ring, &s->sqe);
	if (full)
		atomic_fetch_sub(&c->n_submissions, 1);
	if (full && s->book && s->sqe.op == HWTIMER_OP_SCHEDULE)
		atomic_store(&s->book->id, 0);
	pthread_mutex_unlock(&c->submitting);
	check_header(c);
	end_step(t, DO_SUBMIT, full ? -EAGAIN : 0);
	/* Being late is not an error, so the doorbell is sometimes omitted. */
	kick = s->sqe.time < __atomic_load_n(&h->sleep_until, __ATOMIC_SEQ_CST);
	if (full || (kick && !one_in(&t->random, 8)))
		kick_kernel(t, c);
}

static void check_failure(struct context *c, const struct hwtimer_record *r)
{
	struct submission *s = &c->submissions[r->user_data & ~SUBMISSION];

	if (!(r->user_data & SUBMISSION) || s >= &c->submissions[atomic_load(&c->n_submissions)])
		fail("a failure of %llx, which was not submitted", r->user_data);
	if (s->quiet)
		fail("a failure of %llx, which was to be quiet", r->user_data);
	if (r->op != s->sqe.op || r->id != s->sqe.id || r->deadline != s->sqe.time)
		fail("a failure of %llx: op %u id %llx time %llu", r->user_data,
		     r->op, r->id, r->deadline);
	/* Which of several errors is reported is not specified. */
	if (!(s->invalid && r->error == -EINVAL) && !ring_error(s->sqe.op, r->error))
		fail("a failure of %llx: %d", r->user_data, r->error);
	if (atomic_exchange(&s->error, r->error))
		fail("a second failure of %llx: %d, at %llu, cq_head %u cq_tail %u", r->user_data,
		     r->error, r->fired, c->ring.shared->cq_head, c->ring.shared->cq_tail);
}

/**
 * read_ring - read the records that are there
 * @t: the thread
 * @c: the context, with clean rings
 */
void read_ring(struct thread *t, struct context *c)
{
	struct hwtimer_record r;
	__u32 head, n, some;
	bool kick;

	pthread_mutex_lock(&c->reading);
	begin_step(t, c, DO_RECORDS);
	n = ring_records(&c->ring, &head);
	if (n > c->ring.cq_entries)
		fail("%u records in a ring of %u", n, c->ring.cq_entries);
	some = one_in(&t->random, 4) ? below(&t->random, n + 1) : n;
	for (; some; some--, head++) {
		r = c->ring.cq[head & (c->ring.cq_entries - 1)];
		if (r.kind == HWTIMER_KIND_FAILED)
			check_failure(c, &r);
		else
			check_record(c, &r);
	}
	kick = ring_read(&c->ring, head);
	check_header(c);
	pthread_mutex_unlock(&c->reading);
	end_step(t, DO_RECORDS, n ? 0 : -EAGAIN);
	if (kick)
		kick_kernel(t, c);
}

static void expect_bad(struct thread *t, struct context *c, bool bad)
{
	struct pollfd p = { .fd = atomic_load(&c->fd), .events = POLLIN };
	const struct hwtimer_ring *h = c->ring.shared;
	union argument arg = { 0 };
	int ret = call_valid(t, c, DO_ENTER, &arg);

	if (ret != (bad ? -EBADFD : 0))
		fail("ENTER: %d, while the ring is %s", ret, bad ? "bad" : "good");
	if (!(h->flags & HWTIMER_RING_BAD) != !bad)
		fail("the flags of the ring are %x, and it is %s", h->flags,
		     bad ? "bad" : "good");
	poll(&p, 1, 0);
	if (!(p.revents & POLLERR) != !bad)
		fail("poll() says %x, and the ring is %s", p.revents, bad ? "bad" : "good");
}

/**
 * spoil - set an index to an invalid value for a while: nothing is taken or reported, or lost
 * @t: the thread, the only one
 * @c: the context, clean, with rings
 */
void spoil(struct thread *t, struct context *c)
{
	struct hwtimer_ring *h = c->ring.shared;
	bool sq = one_in(&t->random, 2);
	__u32 entries = sq ? c->ring.sq_entries : c->ring.cq_entries;
	__u32 *index = sq ? &h->sq_tail : &h->cq_head, good = *index, other;
	/* The kernel's index may move by at most a ring before it checks the program's. */
	__u32 distance = 2 * entries + 1 + below(&t->random, ~0U - 4 * entries);

	kick_kernel(t, c);
	/* Entries that the kernel knows of are taken later, when there is room. */
	if (sq && ring_load(&h->sq_head) != good)
		return;
	ring_store(index, sq ? h->sq_head + distance : h->cq_tail - distance);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	expect_bad(t, c, true);
	other = sq ? h->sq_head : h->cq_tail;
	expect_bad(t, c, true);
	if (other != (sq ? h->sq_head : h->cq_tail))
		fail("the ring is bad, and still in use");
	ring_store(index, good);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	expect_bad(t, c, false);
	begin_step(t, c, DO_SPOIL);
	end_step(t, DO_SPOIL, 0);
}

/**
 * drain_ring - wait until all submissions were taken, and all records were read
 * @t: the thread
 * @c: the context, clean, with rings, and stopped
 */
void drain_ring(struct thread *t, struct context *c)
{
	const struct hwtimer_ring *h = c->ring.shared;
	__u64 end = now_ns() + PATIENCE;
	struct hwtimer_stats s;

	do {
		if (now_ns() > end)
			fail("the ring of context %d does not drain: sq %u %u, cq %u %u",
			     c->number, h->sq_head, h->sq_tail, h->cq_head, h->cq_tail);
		kick_kernel(t, c);
		read_ring(t, c);
		if (!get_stats(c, &s))
			fail("no STATS");
	} while (s.pending || s.unread || ring_load(&h->sq_head) != h->sq_tail ||
		 ring_load(&h->cq_tail) != h->cq_head);
}

/**
 * settle_submissions - apply the results of all submissions to the books
 * @c: the context; all submissions were taken, and all records were read
 *
 * Return: true if none was quiet, so that all results are known.
 */
bool settle_submissions(struct context *c)
{
	bool known = true;
	unsigned int i;

	for (i = 0; i < atomic_load(&c->n_submissions); i++) {
		struct submission *s = &c->submissions[i];
		int error = atomic_load(&s->error);

		if (s->quiet) {
			known = false;
			if (s->book)
				s->book->unsure = true;
			continue;
		}
		if (s->invalid && !error)
			fail("what was submitted as %u is invalid, and did not fail", i);
		count(s->sqe.op <= HWTIMER_OP_NOP ? IN_RING + s->sqe.op : IN_RING, error);
		if (error)
			continue;
		if (s->sqe.op == HWTIMER_OP_NOP)
			continue;
		if (!s->book)
			fail("what was submitted as %u names nothing, and did not fail", i);
		if (s->sqe.op == HWTIMER_OP_SCHEDULE)
			atomic_store(&s->book->armed, 1);
		else if (s->sqe.op == HWTIMER_OP_TOUCH)
			atomic_fetch_add(&c->touched, 1);
		else if (atomic_fetch_add(&s->book->cancelled, 1))
			fail("%llx was cancelled twice", s->sqe.id);
	}
	return known;
}

/* Rings of other contexts. */

struct blow {
	struct thread *t;
	struct context *c;
	__u64 random;
};

static void scribble_index(struct blow *b)
{
	struct hwtimer_ring *h = b->c->ring.shared;
	__u32 *index = one_in(&b->random, 2) ? &h->sq_tail : &h->cq_head;
	__u32 other = one_in(&b->random, 2) ? h->sq_head : h->cq_tail;

	switch (below(&b->random, 8)) {
	case 0:
		*index = rnd(&b->random);
		break;
	case 1:
		*index -= 1 + below(&b->random, 3);
		break;
	case 2:
		*index += 1 + below(&b->random, 3);
		break;
	case 3:
		*index = other + b->c->ring.sq_entries + below(&b->random, 3) - 1;
		break;
	case 4:
		*index = other + b->c->ring.cq_entries + below(&b->random, 3) - 1;
		break;
	case 5:
		*index += 1U << 31;
		break;
	default:
		*index = other;
	}
}

/* Write an entry and the index, without ordering. */
static void scribble_entry(struct blow *b)
{
	struct hwtimer_ring *h = b->c->ring.shared;
	__u32 mask = b->c->ring.sq_entries - 1, tail = h->sq_tail, flags;
	struct hwtimer_sqe *sqe = &b->c->ring.sq[tail & mask];
	bool torn = one_in(&b->random, 3);

	if (torn)
		ring_store(&h->sq_tail, tail + 1);
	sqe->op = one_in(&b->random, 8) ? rnd(&b->random) : 1 + below(&b->random, 3);
	sqe->flags = one_in(&b->random, 8) ? rnd(&b->random) : below(&b->random, 2);
	sqe->id = HWTIMER_ID(below(&b->random, b->c->ring.timeouts + 1), below(&b->random, 3));
	sqe->time = pick_time(b->t, b->c, &flags);
	if (sqe->op == HWTIMER_OP_CANCEL)
		sqe->time = 0;
	sqe->user_data = rnd(&b->random);
	if (!torn)
		ring_store(&h->sq_tail, tail + 1);
}

static void blow(void *arg)
{
	struct blow *b = arg;
	volatile char *p = (char *)b->c->ring.shared;
	__u64 at = below(&b->random, b->c->ring.size / 4) * 4, n;

	switch (below(&b->random, 12)) {
	case 0 ... 1:
		scribble_index(b);
		break;
	case 2:
		*(volatile __u32 *)(p + at) = rnd(&b->random);
		break;
	case 3:
		/* Most damage can be done in the header. */
		*(volatile __u32 *)(p + at % sizeof(struct hwtimer_ring)) = rnd(&b->random);
		break;
	case 4:
		for (n = below(&b->random, 200); n && at + n < b->c->ring.size; n--)
			p[at + n] = rnd(&b->random);
		break;
	case 5:
		memset((char *)p + at, one_in(&b->random, 2) ? 0xff : 0,
		       below(&b->random, b->c->ring.size - at));
		break;
	case 6:
		/* Empty both rings, so that there is room again. */
		b->c->ring.shared->cq_head = b->c->ring.shared->cq_tail;
		b->c->ring.shared->sq_tail = b->c->ring.shared->sq_head;
		break;
	case 7:
		for (n = below(&b->random, 64); n; n--)
			scribble_entry(b);
		break;
	default:
		scribble_entry(b);
	}
}

/**
 * scribble - write random values to rings
 * @t: the thread
 * @c: the context; not clean
 */
void scribble(struct thread *t, struct context *c)
{
	struct blow b = { .t = t, .c = c, .random = rnd(&t->random) | 1 };

	begin_step(t, c, DO_SCRIBBLE);
	end_step(t, DO_SCRIBBLE, guarded(blow, &b) ? 0 : -EFAULT);
	if (one_in(&t->random, 3))
		kick_kernel(t, c);
}

static int map_somehow(struct thread *t, struct context *c)
{
	static const int prots[] = {
		PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ, PROT_WRITE,
		PROT_NONE, PROT_READ | PROT_WRITE | PROT_EXEC,
	};
	int flags = one_in(&t->random, 8) ? MAP_PRIVATE : MAP_SHARED;
	long page = sysconf(_SC_PAGESIZE);
	size_t size = c->ring.size ?: 8192;
	off_t offset = 0;
	char *p;

	switch (below(&t->random, 6)) {
	case 0:
		size = below(&t->random, 2 * size);
		break;
	case 1:
		size += page;
		break;
	case 2:
		offset = page * below(&t->random, 4);
		break;
	case 3:
		size = page;
		break;
	}
	if (one_in(&t->random, 16))
		offset = (off_t)(rnd(&t->random) & ~(__u64)(page - 1)) & LONG_MAX;
	if (one_in(&t->random, 8))
		flags |= MAP_POPULATE;
	p = mmap(NULL, size, ONE_OF(&t->random, prots), flags, atomic_load(&c->fd), offset);
	if (p == MAP_FAILED)
		return -errno;
	/* Mappings of clean contexts are never replaced. */
	if (!c->clean && c->region && size <= REGION)
		return map_into(c->region, p, size);
	munmap(p, size);
	return 0;
}

/* Move the mapping, or a part, or enlarge it. */
static int move_mapping(struct thread *t, struct context *c, size_t size, size_t part)
{
	int flags = MREMAP_MAYMOVE | MREMAP_FIXED, ret;
	void *p;

	/* Another thread might map something into the hole, which would be overwritten. */
	if (t->plan->threads > 1 || one_in(&t->random, 4)) {
		p = mremap(c->region, size, size + sysconf(_SC_PAGESIZE), 0);
		return p == MAP_FAILED ? -errno : 0;
	}
	if (one_in(&t->random, 4))
		flags |= MREMAP_DONTUNMAP;
	p = mremap(c->region, size, one_in(&t->random, 2) ? size : part, flags,
		   c->region + REGION);
	ret = p == MAP_FAILED ? -errno : 0;
	/* Move it back, so that it is at the expected address. */
	p = mremap(c->region + REGION, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, c->region);
	if (p == MAP_FAILED)
		mmap(c->region, size, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return ret;
}

/**
 * change_mapping - change a mapping
 * @t: the thread
 * @c: the context; of a clean one only other mappings are changed
 * @action: DO_MMAP, DO_MUNMAP, DO_MPROTECT, DO_MREMAP or DO_MADVISE
 */
void change_mapping(struct thread *t, struct context *c, enum action action)
{
	static const int advices[] = {
		MADV_DONTNEED, MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK, MADV_WIPEONFORK,
		MADV_PAGEOUT, MADV_COLD, MADV_FREE, MADV_WILLNEED, MADV_MERGEABLE,
		MADV_HUGEPAGE, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
	};
	size_t page = sysconf(_SC_PAGESIZE), size = c->ring.size ?: page, part;
	void *p;
	int ret;

	begin_step(t, c, action);
	if (action != DO_MMAP && (c->clean || !c->region)) {
		end_step(t, action, -EBUSY);
		return;
	}
	part = page * below(&t->random, size / page);
	switch (action) {
	case DO_MUNMAP:
		/* Replaced by an inaccessible mapping. */
		p = mmap(c->region + part, size - part, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		ret = p == MAP_FAILED ? -errno : 0;
		break;
	case DO_MPROTECT:
		ret = mprotect(c->region + part, size - part, below(&t->random, 8)) ? -errno : 0;
		break;
	case DO_MREMAP:
		ret = move_mapping(t, c, size, size - part);
		break;
	case DO_MADVISE:
		ret = madvise(c->region + part, size - part, ONE_OF(&t->random, advices));
		ret = ret ? -errno : 0;
		break;
	default:
		ret = map_somehow(t, c);
	}
	end_step(t, action, ret);
}
