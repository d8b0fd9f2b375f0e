// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libhwtimer: events.
 *
 * A record in a ring says that a slot has to be looked at. Whether its timeout has expired, and who
 * of several threads takes it, is decided there. So a record is counted as taken only after the
 * look: another thread may look, too, and finds nothing.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* epoll_pwait2() */
#endif
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>

#include "process.h"

/* How old the counts in the table may be. */
#define PUBLISH_NS	100000000

/* A look at a slot. */
struct look {
	struct hwtimer	*h;
	uint64_t	now_ns;
	bool		locked;		/* a periodic timeout was seen, so @repeat_lock is held */
	struct repeat	*repeat;	/* of it, as the next three */
	uint64_t	deadline_ns;
	uint64_t	missed;
	bool		fires;
};

/* What comes after a deadline of a periodic timeout; see hwtimer_schedule_repeat(). */
static uint64_t repeat_next(struct look *look, const struct repeat *r)
{
	uint64_t late = look->now_ns - look->deadline_ns;

	look->missed = 0;
	if (late > (r->misfire_ns ?: r->period_ns) && r->policy != HWTIMER_MISFIRE_MAKE_UP) {
		look->missed = late / r->period_ns;
		look->deadline_ns += look->missed * r->period_ns;
		if (r->policy == HWTIMER_MISFIRE_SKIP) {
			look->fires = false;
			look->missed++;
		}
	}
	return r->period_ns < HWTIMER_NEVER - look->deadline_ns ?
	       look->deadline_ns + r->period_ns : HWTIMER_NEVER;
}

static __u64 look_next(void *data, __u32 index, __u64 word)
{
	struct look *look = data;
	struct hwtimer *h = look->h;

	look->repeat = NULL;
	look->fires = true;
	if (!(word & PERIODIC))
		return 0;
	if (!look->locked)
		pthread_mutex_lock(&h->repeat_lock);
	look->locked = true;
	/* If it has ended meanwhile, this may be another one, or none. */
	look->repeat = hwtimer_slot_repeat(h, index);
	if (!look->repeat)
		return 0;
	look->deadline_ns = hwtimer_repeat_deadline(look->repeat, word);
	return table_word(repeat_next(look, look->repeat), word);
}

/* Look at a slot. Returns 1: it has given an event. */
static int slot_look(struct hwtimer *h, uint32_t index, struct hwtimer_event *event)
{
	struct look look = { .h = h, .now_ns = hwtimer_now(h), .fires = true };
	uint64_t word = table_look(&h->t, index, look.now_ns, look_next, &look);

	table_store(&h->now_ns, look.now_ns);
	if (word) {
		*event = (struct hwtimer_event) {
			.id = slot_id(h, index),
			.user_data = table_load(&h->t.slot[index].user_data),
			.deadline_ns = table_deadline(word),
			.taken_ns = look.now_ns,
		};
		if (word & PERIODIC && look.repeat) {
			event->deadline_ns = look.deadline_ns;
			look.repeat->skipped += look.missed;
			event->overruns = look.repeat->skipped;
			if (look.fires)
				look.repeat->skipped = 0;
		} else if (!hwtimer_slot_free(h, index)) {
			/* Somebody else has invented it. */
			word = 0;
		}
	}
	if (look.locked)
		pthread_mutex_unlock(&h->repeat_lock);
	return word && look.fires;
}

/* Map what somebody else has made, who shares the table. */
static int handle_map(struct hwtimer *h)
{
	int ret;

	pthread_mutex_lock(&h->lock);
	ret = hwtimer_map(h);
	pthread_mutex_unlock(&h->lock);
	return ret;
}

/*
 * Take the next event that a record leads to. Others who write to the table cannot keep us here:
 * all rings together have fewer than four records for each slot.
 */
static int records_take(struct hwtimer *h, struct hwtimer_event *event)
{
	uint64_t most = 4ULL * table_slots(&h->t) + h->t.page;
	uint32_t index, ring, head, maps = 0;
	int ret = 0;

	while (!ret && most--) {
		ret = table_peek(&h->t, &index, &ring, &head);
		if (!ret || (ret < 0 && maps == HWTIMER_MAX_RINGS))
			return 0;
		/* Others may have made the table larger, or write anything. */
		if (ret < 0 || (index >= table_slots(&h->t) && maps < HWTIMER_MAX_RINGS)) {
			maps++;
			ret = handle_map(h);
			continue;
		}
		ret = index < table_slots(&h->t) ? slot_look(h, index, event) : 0;
		table_took(&h->t, ring, head);
	}
	return ret;
}

/* Take the next event of those that had no room in the ring. */
static int walk_take(struct hwtimer *h, struct hwtimer_event *event)
{
	uint32_t walked, walk;
	int ret = 0;

	if (!table_walk(&h->t, &walked, &walk))
		return 0;
	pthread_mutex_lock(&h->lock);
	if (table_walk(&h->t, &walked, &walk)) {
		if (h->walk != walk) {
			h->walk = walk;
			h->walk_at = 0;
		}
		while (!ret && h->walk_at < h->t.slots)
			ret = slot_look(h, h->walk_at++, event);
		if (!ret)
			table_walked(&h->t, walked, walk);
	}
	pthread_mutex_unlock(&h->lock);
	return ret;
}

/* The handle was stopped: hand back the next timeout. */
static int slot_hand_back(struct hwtimer *h, uint32_t index, struct hwtimer_event *event)
{
	uint64_t word = table_steal(&h->t, index);
	struct repeat *r;

	if (!word)
		return 0;
	*event = (struct hwtimer_event) {
		.id = slot_id(h, index),
		.user_data = table_load(&h->t.slot[index].user_data),
		.deadline_ns = hwtimer_repeat_deadline(NULL, word),
		.taken_ns = hwtimer_now(h),
		.kind = HWTIMER_KIND_HANDED_BACK,
	};
	if (word & PERIODIC) {
		pthread_mutex_lock(&h->repeat_lock);
		r = hwtimer_slot_repeat(h, index);
		if (r) {
			event->deadline_ns = hwtimer_repeat_deadline(r, word);
			event->overruns = r->skipped;
			hwtimer_repeat_end(h, index);
		}
		pthread_mutex_unlock(&h->repeat_lock);
	}
	return hwtimer_slot_free(h, index);
}

static int back_take(struct hwtimer *h, struct hwtimer_event *event)
{
	int ret;

	pthread_mutex_lock(&h->lock);
	/* Whoever stops it may not have come to the end. Until then, a slot may still be armed. */
	ret = hwtimer_ended(h);
	while (!ret && h->back_at < h->t.slots)
		ret = slot_hand_back(h, h->back_at++, event);
	pthread_mutex_unlock(&h->lock);
	return ret ?: -ESHUTDOWN;
}

static int due_take(struct hwtimer *h, struct hwtimer_event *event)
{
	uint32_t index;
	int ret = 0;

	while (!ret && hwtimer_process_take(h, &index))
		ret = slot_look(h, index, event);
	return ret;
}

static int event_take(struct hwtimer *h, struct hwtimer_event *event)
{
	int ret;

	if (handle_stopped(h))
		return back_take(h, event);
	if (h->process)
		ret = due_take(h, event);
	else
		ret = records_take(h, event) ?: walk_take(h, event);
	if (ret > 0) {
		shard_count(&handle_shard(h)->expired);
		PROBE(event, h, event->id, event->deadline_ns);
	}
	return ret;
}

/*
 * The usual way: the first record is of a timeout that is not periodic, and due by the time that
 * was read for an event before it. False: event_take() has to find out.
 */
static inline bool event_usual(struct hwtimer *h, struct hwtimer_event *event)
{
	uint32_t slots = h->own.usual, index, ring, head;
	struct hwtimer_slot *slot;
	uint64_t word, deadline;
	hwtimer_id id;

	/* A child does not even have the table. */
	if (!slots || !table_first(&h->t, &index, &ring, &head) || index >= slots ||
	    handle_stopped(h))
		return false;
	slot = &h->t.slot[index];
	word = table_load(&slot->word);
	deadline = table_deadline(word);
	id = h->link[index];
	if (!word || deadline >= h->now_ns ||
	    (id & ((uint64_t)PERIODIC << INDEX_BITS | INDEX_MASK)) != index ||
	    !table_swap(&slot->word, word, 0))
		return false;
	*event = (struct hwtimer_event) {
		.id = id,
		.user_data = table_load(&slot->user_data),
		.deadline_ns = deadline,
		.taken_ns = h->now_ns,
	};
	slot_put(h, index, id);
	table_took(&h->t, ring, head);
	h->own.shard->expired++;
	PROBE(event, h, id, deadline);
	return true;
}

/* For whoever looks at contexts. The lines of other threads are not read more often than needed. */
static void counts_publish(struct hwtimer *h)
{
	struct shard sum = { };
	uint64_t now;
	uint32_t i;

	if (h->threads) {
		now = hwtimer_now(h);
		if (now - table_load(&h->published_ns) < PUBLISH_NS)
			return;
		table_store(&h->published_ns, now);
	}
	for (i = 0; i <= h->shard_mask; i++) {
		const struct shard *s = &h->own.shard[i];

		sum.armed += table_load(&s->armed);
		sum.touched += table_load(&s->touched);
		sum.cancelled += table_load(&s->cancelled);
		sum.expired += table_load(&s->expired);
	}
	table_store(&h->t.head->armed, sum.armed);
	table_store(&h->t.head->touched, sum.touched);
	table_store(&h->t.head->cancelled, sum.cancelled);
	table_store(&h->t.head->expired, sum.expired);
}

/* Has the time come at which the kernel has something to do? */
static bool handle_overdue(struct hwtimer *h, uint64_t now_ns)
{
	uint64_t wake_at = table_load(&h->t.head->wake_at);

	return wake_at != ~0ULL && table_deadline(wake_at) <= now_ns;
}

/* For epoll_wait(): rounded up, and not longer than what an int holds. */
static int sleep_ms(const struct timespec *most)
{
	if (!most)
		return -1;
	return most->tv_sec < 1 << 20 ? most->tv_sec * 1000 + (most->tv_nsec + 999999) / 1000000 :
					INT_MAX;
}

/* Sleep until there may be something to take. Returns 1; 0: the time is over; -errno. */
static int handle_sleep(struct hwtimer *h, int64_t left_ns)
{
	int64_t seconds = left_ns / 1000000000;
	/* Not longer than what any time_t holds; the caller goes on. */
	struct timespec ts = {
		.tv_sec = seconds < 1 << 30 ? seconds : 1 << 30,
		.tv_nsec = left_ns % 1000000000,
	};
	struct timespec *most = left_ns < 0 ? NULL : &ts;
	struct pollfd p = { .fd = h->t.fd, .events = POLLIN };
	struct epoll_event event;
	int ret;

	/* In the process, the kernel may be older than 5.11, which has epoll_pwait2() first. */
	if (h->threads && h->process)
		ret = epoll_wait(h->epfd, &event, 1, sleep_ms(most));
	else if (h->threads)
		ret = epoll_pwait2(h->epfd, &event, 1, most, NULL);
	else
		ret = ppoll(&p, 1, most, NULL);
	if (ret > 0 && !h->threads && p.revents & POLLNVAL)
		return -EBADF;
	return ret < 0 ? -errno : ret;
}

/* There is nothing to take: do what is due, and try again. */
static int event_make(struct hwtimer *h, struct hwtimer_event *event)
{
	int ret;

	if (!handle_overdue(h, hwtimer_now(h)))
		return 0;
	/*
	 * The kernel does a slice of it when it is polled, so this takes no longer if much is due.
	 */
	ret = h->process ? table_enter(&h->t) : handle_sleep(h, 0);
	return ret < 0 && ret != -EINTR ? ret : event_take(h, event);
}

/* There is nothing to take. */
static int event_wait(struct hwtimer *h, struct hwtimer_event *event, int64_t timeout_ns)
{
	int64_t left = timeout_ns;
	uint64_t end = 0, now;
	int ret;

	table_store(&h->now_ns, 0);
	counts_publish(h);
	if (!timeout_ns)
		return event_make(h, event);
	if (timeout_ns > 0)
		end = clock_ns(CLOCK_MONOTONIC) + timeout_ns;
	do {
		/* This, too, does a slice of what is due. */
		ret = handle_sleep(h, left);
		if (ret > 0)
			ret = event_take(h, event) ?: event_make(h, event);
		if (ret)
			return ret;
		if (timeout_ns > 0) {
			now = clock_ns(CLOCK_MONOTONIC);
			left = now < end ? end - now : 0;
		}
	} while (left);
	return 0;
}

static OTHER int wait_other(struct hwtimer *h, struct hwtimer_event *event, int64_t timeout_ns)
{
	int ret;

	if (!handle_alive(h))
		return -EPERM;
	ret = event_take(h, event);
	return ret ? ret : event_wait(h, event, timeout_ns);
}

int hwtimer_wait(struct hwtimer *h, struct hwtimer_event *event, int64_t timeout_ns)
{
	return event_usual(h, event) ? 1 : wait_other(h, event, timeout_ns);
}
