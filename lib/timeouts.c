// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libhwtimer: schedule, touch, query and cancel.
 */
#include <errno.h>
#include <stdlib.h>

#include "process.h"

/* What keeps the usual way short by being out of it. */
#define COLD	__attribute__((__noinline__, cold))

__thread uint32_t hwtimer_thread;

static int id_none(hwtimer_id *id, int error)
{
	if (id)
		*id = 0;
	return error;
}

/* The shard of this thread, which gets a number first. */
static struct shard *thread_shard(struct hwtimer *h)
{
	static uint32_t threads;

	if (h->threads && !hwtimer_thread)
		/* [__atomic_add_fetch: as it is just a number] */
		hwtimer_thread = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
	return handle_shard(h);
}

static bool shard_swap(struct shard *s, uint64_t old, uint64_t new)
{
	/* [__atomic_compare_exchange_n: as who takes a slot is after who has freed it] */
	return __atomic_compare_exchange_n(&s->free, &old, new, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

/* Take a free slot: its index plus 1; 0: there is none. */
static inline uint32_t shard_pop(struct hwtimer *h, struct shard *s)
{
	uint64_t head, new;

	do {
		/* [__atomic_load_n: as shard_swap() releases] */
		head = __atomic_load_n(&s->free, __ATOMIC_ACQUIRE);
		if (!(uint32_t)head)
			return 0;
		new = table_load(&h->link[(uint32_t)head - 1]) & INDEX_MASK;
		if (!h->threads) {
			table_store(&s->free, new);
			break;
		}
	} while (!shard_swap(s, head, new | ((head >> 32) + 1) << 32));
	return head;
}

/* Free a slot in a handle of one thread. False: it is not in use. */
static inline bool slot_put(struct hwtimer *h, struct shard *s, uint32_t index)
{
	uint32_t *link = &h->link[index], old = table_load(link);

	if ((old & INDEX_MASK) != IN_USE)
		return false;
	table_store(link, (old & ~INDEX_MASK) | (uint32_t)table_load(&s->free));
	table_store(&s->free, index + 1);
	return true;
}

/* Free a slot. False: it is not in use; somebody else has written to the table. */
bool hwtimer_slot_free(struct hwtimer *h, uint32_t index)
{
	uint32_t *link = &h->link[index], old = table_load(link);
	struct shard *s = thread_shard(h);
	uint64_t head;

	if (!h->threads)
		return slot_put(h, s, index);
	/* [__atomic_compare_exchange_n: as one of those who free it does so] */
	if ((old & INDEX_MASK) != IN_USE ||
	    !__atomic_compare_exchange_n(link, &old, old & ~INDEX_MASK, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return false;
	do {
		head = table_load(&s->free);
		table_store(link, (old & ~INDEX_MASK) | (uint32_t)head);
	} while (!shard_swap(s, head, (head & ~0xffffffffULL) | (index + 1)));
	return true;
}

/* Take a slot that was never used: its index plus 1; 0: there is none. */
static uint32_t fresh_take(struct hwtimer *h)
{
	uint32_t n = table_load(&h->fresh), most = handle_slots(h);

	do {
		if (n >= most)
			return 0;
		/* [__atomic_compare_exchange_n: as it is just a number] */
	} while (!__atomic_compare_exchange_n(&h->fresh, &n, n + 1, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return n + 1;
}

/* Map what there is, with @lock held. */
int hwtimer_map(struct hwtimer *h)
{
	int ret = h->process ? 0 : table_map(&h->t);

	/*
	 * GROW may have made more than asked for.
	 * [__atomic_store_n: as handle_slots() acquires]
	 */
	if (!h->ended)
		__atomic_store_n(&h->own->slots, h->t.slots < h->max ? h->t.slots : h->max,
				 __ATOMIC_RELEASE);
	return ret;
}

static int handle_grow(struct hwtimer *h)
{
	struct hwtimer_grow grow = { };
	uint32_t slots;
	int ret = 0;

	pthread_mutex_lock(&h->lock);
	slots = handle_slots(h);
	/* Somebody else may have done it. */
	if (table_load(&h->fresh) >= slots) {
		if (slots == h->max)
			ret = -ENOSPC;
		grow.slots = slots < h->max / 2 ? 2 * slots : h->max;
		grow.slots = slots ? grow.slots : 1;
		if (!ret && h->process)
			ret = hwtimer_process_grow(h, grow.slots);
		else if (!ret && ioctl(h->t.fd, HWTIMER_IOC_GROW, &grow))
			ret = -errno;
		/* Even so there may be more slots than before. */
		if (!ret || ret == -ENOMEM)
			ret = hwtimer_map(h) ?: table_load(&h->fresh) < handle_slots(h) ? 0 : ret;
	}
	pthread_mutex_unlock(&h->lock);
	return ret;
}

/* There is no free slot at hand: one that was never used, or of another thread, or a new one. */
static COLD int slot_find(struct hwtimer *h, uint32_t *found)
{
	struct shard *mine = thread_shard(h);
	uint32_t i, at;
	int ret;

	if (!handle_alive(h))
		return -EPERM;
	do {
		*found = shard_pop(h, mine) ?: fresh_take(h);
		/* A thread that only schedules begins with the one whose slots it got last. */
		for (i = 0; !*found && i <= h->shard_mask; i++) {
			at = (table_load(&mine->from) + i) & h->shard_mask;
			*found = shard_pop(h, &h->own->shard[at]);
			if (*found)
				table_store(&mine->from, at);
		}
		if (*found)
			return 0;
		ret = handle_grow(h);
	} while (!ret);
	return ret;
}

/* The next generation of a slot, whose arming is not 0. */
static uint64_t generation_next(uint64_t generation, uint32_t periodic)
{
	generation = ((generation | PERIODIC) + 1) & GENERATION_MASK;
	if (!(generation & TABLE_ARMING))
		generation += 2;
	return generation | periodic;
}

/* Free a slot, and what belongs to it. */
static void slot_end(struct hwtimer *h, uint32_t index, bool periodic)
{
	if (periodic) {
		pthread_mutex_lock(&h->repeat_lock);
		hwtimer_repeat_end(h, index);
		pthread_mutex_unlock(&h->repeat_lock);
	}
	hwtimer_slot_free(h, index);
}

/* The arming of a slot cannot be left to the kernel as it is. */
static COLD int slot_ask(struct hwtimer *h, uint32_t index, uint64_t word, hwtimer_id *id)
{
	int ret = table_check(&h->t, index, word);

	/* If another thread has taken it meanwhile, it was armed. */
	if (!ret || table_cancel(&h->t, index, word))
		return 0;
	slot_end(h, index, word & PERIODIC);
	return id_none(id, ret);
}

/* Arm a slot that nobody else uses. @periodic: PERIODIC, or 0. After an error the slot is free. */
static inline __attribute__((always_inline))
int slot_arm(struct hwtimer *h, struct shard *s, uint32_t index, uint64_t deadline_ns,
	     uint64_t user_data, uint32_t periodic, hwtimer_id *id)
{
	uint64_t generation = generation_next(slot_generation(h, index), periodic);
	uint64_t word = table_word(deadline_ns, generation);
	struct hwtimer_slot *slot = &h->t.slot[index];

	table_store(&h->link[index], (uint32_t)generation << INDEX_BITS | IN_USE);
	table_store(&slot->tag, generation >> 8);
	/* [__atomic_store_n: as hwtimer_query() finds that the word was changed before] */
	__atomic_store_n(&slot->user_data, user_data, __ATOMIC_RELEASE);
	/* Before somebody else can take it. */
	if (id)
		*id = generation << INDEX_BITS | index;
	shard_count(&s->armed);
	PROBE(arm, h, generation << INDEX_BITS | index, deadline_ns);
	table_put(&h->t, index, word);
	return table_holds(&h->t, index, word) ? 0 : slot_ask(h, index, word, id);
}

/* By one of several threads, or if no slot is at hand. */
static COLD int schedule_other(struct hwtimer *h, uint64_t deadline_ns, uint64_t user_data,
			       hwtimer_id *id)
{
	struct shard *s = thread_shard(h);
	uint32_t found = shard_pop(h, s);
	int ret;

	if (!found) {
		ret = slot_find(h, &found);
		if (ret)
			return id_none(id, ret);
	}
	return slot_arm(h, s, found - 1, deadline_ns, user_data, 0, id);
}

int hwtimer_schedule_at(struct hwtimer *h, uint64_t deadline_ns, uint64_t user_data, hwtimer_id *id)
{
	struct shard *s = &h->own->shard[0];
	uint32_t found = table_load(&s->free);

	if (!found || h->threads)
		return schedule_other(h, deadline_ns, user_data, id);
	table_store(&s->free, table_load(&h->link[found - 1]) & INDEX_MASK);
	return slot_arm(h, s, found - 1, deadline_ns, user_data, 0, id);
}

static uint64_t deadline_after(struct hwtimer *h, uint64_t delay_ns)
{
	uint64_t now = hwtimer_now(h);

	return delay_ns < HWTIMER_NEVER - now ? now + delay_ns : HWTIMER_NEVER;
}

int hwtimer_schedule(struct hwtimer *h, uint64_t delay_ns, uint64_t user_data, hwtimer_id *id)
{
	return hwtimer_schedule_at(h, deadline_after(h, delay_ns), user_data, id);
}

static int repeat_put(struct hwtimer *h, uint32_t index, const struct hwtimer_repeat *from)
{
	int ret = 0;

	pthread_mutex_lock(&h->repeat_lock);
	if (!h->repeat)
		h->repeat = hwtimer_memory_map(h->t.max * sizeof(*h->repeat));
	if (h->repeat)
		h->repeat[index] = (struct repeat) {
			.first_ns = from->first_ns,
			.period_ns = from->period_ns,
			.misfire_ns = from->misfire_ns,
			.policy = from->policy,
		};
	else
		ret = -ENOMEM;
	pthread_mutex_unlock(&h->repeat_lock);
	return ret;
}

/* With @repeat_lock held. NULL: the slot is not, or no more, in use by a periodic timeout. */
struct repeat *hwtimer_slot_repeat(struct hwtimer *h, uint32_t index)
{
	return h->repeat && h->repeat[index].period_ns ? &h->repeat[index] : NULL;
}

/* With @repeat_lock held, by who has taken the last of a periodic timeout. */
void hwtimer_repeat_end(struct hwtimer *h, uint32_t index)
{
	if (h->repeat)
		h->repeat[index].period_ns = 0;
}

/*
 * The deadline of a word: if it is periodic, exactly what the word was made of, as a period is
 * longer than the unit of words. @r: NULL: it is not periodic.
 */
uint64_t hwtimer_repeat_deadline(const struct repeat *r, uint64_t word)
{
	uint64_t deadline = table_deadline(word);

	if (word >= table_word(HWTIMER_NEVER, 0))
		return HWTIMER_NEVER;
	if (!r || deadline < r->first_ns)
		return deadline;
	return deadline - (deadline - r->first_ns) % r->period_ns;
}

int hwtimer_schedule_repeat(struct hwtimer *h, const struct hwtimer_repeat *repeat,
			    uint64_t user_data, hwtimer_id *id)
{
	uint32_t found;
	int ret;

	if (!handle_alive(h))
		return id_none(id, -EPERM);
	if (repeat->flags || repeat->policy > HWTIMER_MISFIRE_MAKE_UP ||
	    repeat->period_ns < h->tick_ns ||
	    (repeat->misfire_ns && repeat->misfire_ns < h->tick_ns))
		return id_none(id, -EINVAL);
	ret = slot_find(h, &found);
	if (ret)
		return id_none(id, ret);
	ret = repeat_put(h, found - 1, repeat);
	if (ret) {
		table_store(&h->link[found - 1], table_load(&h->link[found - 1]) | IN_USE);
		hwtimer_slot_free(h, found - 1);
		return id_none(id, ret);
	}
	return slot_arm(h, handle_shard(h), found - 1, repeat->first_ns, user_data, PERIODIC, id);
}

/* Is there a slot with the tag of this id among so many? Its timeout may have ended. */
static inline bool id_among(struct hwtimer *h, hwtimer_id id, uint32_t slots)
{
	uint32_t index = id & INDEX_MASK;

	return index < slots && table_load(&h->t.slot[index].tag) == id >> (INDEX_BITS + 8);
}

/* In a handle that is alive, and not stopped. */
static inline bool id_known(struct hwtimer *h, hwtimer_id id)
{
	return id_among(h, id, handle_slots(h));
}

static bool word_is(uint64_t word, hwtimer_id id)
{
	return word && !((word ^ id >> INDEX_BITS) & TABLE_ARMING);
}

/* Also after a stop; the handle is alive. */
static bool slot_armed(struct hwtimer *h, hwtimer_id id)
{
	return id_among(h, id, table_slots(&h->t)) &&
	       word_is(table_load(&h->t.slot[id & INDEX_MASK].word), id);
}

static int periodic_touch(struct hwtimer *h, uint32_t index, uint64_t word, uint64_t deadline_ns)
{
	struct repeat *r;
	int ret;

	pthread_mutex_lock(&h->repeat_lock);
	ret = table_touch(&h->t, index, word);
	if (ret != -ENOENT) {
		r = hwtimer_slot_repeat(h, index);
		if (r)
			r->first_ns = deadline_ns;
	}
	pthread_mutex_unlock(&h->repeat_lock);
	return ret;
}

/* A touch that fails, or is to be seen by the kernel, or of a periodic timeout. */
static COLD int touch_other(struct hwtimer *h, hwtimer_id id, uint64_t word, uint64_t deadline_ns,
			    int moved)
{
	uint32_t index = id & INDEX_MASK;
	int ret;

	if (!handle_alive(h))
		return -EPERM;
	if (moved > 0)
		ret = table_moved(&h->t, index, word);
	else if (!slot_armed(h, id))
		ret = -ENOENT;
	else if (handle_stopped(h))
		ret = -ESHUTDOWN;
	else
		ret = periodic_touch(h, index, word, deadline_ns);
	if (ret)
		return ret;
	shard_count(&handle_shard(h)->touched);
	PROBE(touch, h, id, deadline_ns);
	return 0;
}

int hwtimer_touch_at(struct hwtimer *h, hwtimer_id id, uint64_t deadline_ns)
{
	uint64_t word = table_word(deadline_ns, id >> INDEX_BITS);
	int moved = -ENOENT;

	if (id_known(h, id) && !(word & PERIODIC))
		moved = table_move(&h->t, id & INDEX_MASK, word);
	if (moved)
		return touch_other(h, id, word, deadline_ns, moved);
	shard_count(h->threads ? &handle_shard(h)->touched : &h->own->shard[0].touched);
	PROBE(touch, h, id, deadline_ns);
	return 0;
}

int hwtimer_touch(struct hwtimer *h, hwtimer_id id, uint64_t delay_ns)
{
	return hwtimer_touch_at(h, id, deadline_after(h, delay_ns));
}

static COLD int cancel_end(struct hwtimer *h, uint32_t index, uint64_t generation)
{
	slot_end(h, index, generation & PERIODIC);
	shard_count(&handle_shard(h)->cancelled);
	return 0;
}

/* There is no such timeout, or the handle was stopped. */
static COLD int cancel_other(struct hwtimer *h, hwtimer_id id)
{
	uint32_t index = id & INDEX_MASK;

	if (!handle_alive(h))
		return -EPERM;
	if (!slot_armed(h, id) || table_cancel(&h->t, index, id >> INDEX_BITS))
		return -ENOENT;
	return cancel_end(h, index, id >> INDEX_BITS);
}

int hwtimer_cancel(struct hwtimer *h, hwtimer_id id)
{
	uint64_t generation = id >> INDEX_BITS;
	uint32_t index = id & INDEX_MASK;
	struct shard *s;

	if (!id_known(h, id) || table_cancel(&h->t, index, generation))
		return cancel_other(h, id);
	PROBE(cancel, h, id, 0);
	if (generation & PERIODIC || h->threads)
		return cancel_end(h, index, generation);
	s = &h->own->shard[0];
	slot_put(h, s, index);
	shard_count(&s->cancelled);
	return 0;
}

int hwtimer_query(struct hwtimer *h, hwtimer_id id, struct hwtimer_state *state)
{
	struct hwtimer_state s = { };
	uint32_t index = id & INDEX_MASK;
	struct hwtimer_slot *slot;
	struct repeat *r;
	uint64_t word;

	if (!handle_alive(h))
		return -EPERM;
	if (!slot_armed(h, id))
		return -ENOENT;
	slot = &h->t.slot[index];
	pthread_mutex_lock(&h->repeat_lock);
	word = table_load(&slot->word);
	/* [__atomic_load_n: as slot_arm() releases] */
	s.user_data = __atomic_load_n(&slot->user_data, __ATOMIC_ACQUIRE);
	r = word & PERIODIC ? hwtimer_slot_repeat(h, index) : NULL;
	if (r) {
		s.period_ns = r->period_ns;
		s.misfire_ns = r->misfire_ns;
		s.policy = r->policy;
	}
	s.deadline_ns = hwtimer_repeat_deadline(r, word);
	pthread_mutex_unlock(&h->repeat_lock);
	/* All of this belongs to the timeout if it has not ended since. */
	if (!word_is(word, id) || !word_is(table_load(&slot->word), id))
		return -ENOENT;
	*state = s;
	return 0;
}

int hwtimer_next(struct hwtimer *h, hwtimer_id *id, struct hwtimer_state *state)
{
	uint32_t i = *id ? (*id & INDEX_MASK) + 1 : 0;
	hwtimer_id next;

	if (!handle_alive(h))
		return -EPERM;
	for (; i < table_slots(&h->t); i++) {
		next = slot_id(h, i);
		if (!hwtimer_query(h, next, state)) {
			*id = next;
			return 1;
		}
	}
	return 0;
}
