// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libhwtimer: schedule, touch, query and cancel.
 */
#include <errno.h>

#include "process.h"

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

/* Take a free slot; 0: there is none. */
static uint32_t shard_pop(struct hwtimer *h, struct shard *s)
{
	uint64_t head, new;
	uint32_t index;

	if (!h->threads) {
		index = h->own.free;
		if (index)
			h->own.free = h->link[index] & INDEX_MASK;
		return index;
	}
	do {
		/* [__atomic_load_n: as shard_swap() releases] */
		head = __atomic_load_n(&s->free, __ATOMIC_ACQUIRE);
		if (!(uint32_t)head)
			return 0;
		new = table_load(&h->link[(uint32_t)head]) & INDEX_MASK;
	} while (!shard_swap(s, head, new | ((head >> 32) + 1) << 32));
	return head;
}

/* Free a slot. False: it is not in use; somebody else has written to the table. */
bool hwtimer_slot_free(struct hwtimer *h, uint32_t index)
{
	uint64_t *link = &h->link[index], id = slot_id(h, index);
	uint64_t last = id & ~((uint64_t)PERIODIC << INDEX_BITS | INDEX_MASK);
	struct shard *s;
	uint64_t head;

	if (!id)
		return false;
	if (!h->threads) {
		slot_put(h, index, last | index);
		return true;
	}
	/* [__atomic_compare_exchange_n: as one of those who free it does so] */
	if (!__atomic_compare_exchange_n(link, &id, last, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return false;
	s = thread_shard(h);
	do {
		head = table_load(&s->free);
		table_store(link, last | (uint32_t)head);
	} while (!shard_swap(s, head, (head & ~0xffffffffULL) | index));
	return true;
}

/* Take a slot that was never used; 0: there is none. */
static uint32_t fresh_take(struct hwtimer *h)
{
	uint32_t n = table_load(&h->fresh), most = handle_slots(h);

	do {
		if (n >= most)
			return 0;
		/* [__atomic_compare_exchange_n: as it is just a number] */
	} while (!__atomic_compare_exchange_n(&h->fresh, &n, n + 1, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return n;
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
		__atomic_store_n(&h->own.slots, h->t.slots < h->max ? h->t.slots : h->max,
				 __ATOMIC_RELEASE);
	if (!h->threads)
		h->own.usual = h->own.slots;
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
static OTHER int slot_find(struct hwtimer *h, uint32_t *found)
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
			*found = shard_pop(h, &h->own.shard[at]);
			if (*found)
				table_store(&mine->from, at);
		}
		if (*found)
			return 0;
		ret = handle_grow(h);
	} while (!ret);
	return ret;
}

/* From one id of a slot to the next. */
#define ID_STEP		(4ULL << INDEX_BITS)

/* The id of the next timeout of a slot that is free. */
static hwtimer_id slot_next_id(struct hwtimer *h, uint32_t index, uint64_t periodic)
{
	hwtimer_id last = table_load(&h->link[index]) & ~(uint64_t)INDEX_MASK;

	return (last + ID_STEP) | (ALWAYS | periodic) << INDEX_BITS | index;
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

/* What was armed is due soon, or the handle is stopped. */
static OTHER int slot_asked(struct hwtimer *h, uint32_t index, uint64_t word, hwtimer_id *id,
			    int ret)
{
	if (ret > 0)
		ret = table_enter(&h->t);
	/* If another thread has taken it meanwhile, it was armed. */
	if (!ret || table_cancel(&h->t, index, word))
		return 0;
	slot_end(h, index, word & PERIODIC);
	return id_none(id, ret);
}

/* The arming of a slot cannot be left to the kernel as it is. */
static OTHER int slot_ask(struct hwtimer *h, uint32_t index, uint64_t word, hwtimer_id *id)
{
	int ret = table_ask(&h->t, index);

	return ret ? slot_asked(h, index, word, id, ret) : 0;
}

/* Arm a slot that nobody else uses. After an error it is free. */
static inline int slot_arm(struct hwtimer *h, uint32_t index, hwtimer_id id, uint64_t deadline_ns,
			   uint64_t user_data, hwtimer_id *to)
{
	uint64_t word = table_word(deadline_ns, id >> INDEX_BITS);
	struct hwtimer_slot *slot = &h->t.slot[index];

	table_store(&h->link[index], id);
	table_store(&slot->tag, id >> 32);
	/* [__atomic_store_n: as hwtimer_query() finds that the word was changed before] */
	__atomic_store_n(&slot->user_data, user_data, __ATOMIC_RELEASE);
	/* Before somebody else can take it. */
	if (to)
		*to = id;
	PROBE(arm, h, id, deadline_ns);
	table_put(slot, word);
	return table_holds(slot, word) ? 0 : slot_ask(h, index, word, to);
}

/* By one of several threads, or if no slot is at hand. */
static OTHER int schedule_other(struct hwtimer *h, uint64_t deadline_ns, uint64_t user_data,
				hwtimer_id *to)
{
	struct shard *s = thread_shard(h);
	uint32_t index = shard_pop(h, s);
	int ret;

	if (!index) {
		ret = slot_find(h, &index);
		if (ret)
			return id_none(to, ret);
	}
	shard_count(&s->armed);
	return slot_arm(h, index, slot_next_id(h, index, 0), deadline_ns, user_data, to);
}

int hwtimer_schedule_at(struct hwtimer *h, uint64_t deadline_ns, uint64_t user_data, hwtimer_id *to)
{
	struct own *own = &h->own;
	uint64_t link, index = own->free;
	uint32_t next;

	if (!index || deadline_ns > TABLE_NEVER)
		return schedule_other(h, deadline_ns, user_data, to);
	link = h->link[index];
	next = link & INDEX_MASK;
	own->free = next;
	own->shard->armed++;
	/* As slot_next_id(). */
	return slot_arm(h, index, link - next + index + ID_STEP, deadline_ns, user_data, to);
}

static uint64_t deadline_after(struct hwtimer *h, uint64_t delay_ns)
{
	uint64_t now = handle_now(h);

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
		h->repeat = memory_map(h->t.max * sizeof(*h->repeat));
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
			    uint64_t user_data, hwtimer_id *to)
{
	hwtimer_id id;
	uint32_t index;
	int ret;

	if (!handle_alive(h))
		return id_none(to, -EPERM);
	if (repeat->flags || repeat->policy > HWTIMER_MISFIRE_MAKE_UP ||
	    repeat->period_ns < h->tick_ns ||
	    (repeat->misfire_ns && repeat->misfire_ns < h->tick_ns))
		return id_none(to, -EINVAL);
	ret = slot_find(h, &index);
	if (ret)
		return id_none(to, ret);
	id = slot_next_id(h, index, PERIODIC);
	ret = repeat_put(h, index, repeat);
	if (ret) {
		table_store(&h->link[index], id);
		hwtimer_slot_free(h, index);
		return id_none(to, ret);
	}
	shard_count(&handle_shard(h)->armed);
	return slot_arm(h, index, id, repeat->first_ns, user_data, to);
}

static bool word_is(uint64_t word, hwtimer_id id)
{
	return word && !((word ^ id >> INDEX_BITS) & TABLE_ARMING);
}

/* Also after a stop; the handle is alive. */
static bool slot_armed(struct hwtimer *h, hwtimer_id id)
{
	uint32_t index = id & INDEX_MASK;

	return index < table_slots(&h->t) && table_load(&h->link[index]) == id &&
	       word_is(table_load(&h->t.slot[index].word), id);
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

/* A touch that fails, or brings a deadline forward; of a periodic timeout; by several threads. */
static OTHER int touch_other(struct hwtimer *h, hwtimer_id id, uint64_t deadline_ns)
{
	uint64_t word = table_word(deadline_ns, id >> INDEX_BITS);
	uint32_t index = id & INDEX_MASK;
	int ret;

	if (!handle_alive(h))
		return -EPERM;
	if (!slot_armed(h, id))
		return -ENOENT;
	if (handle_stopped(h))
		return -ESHUTDOWN;
	ret = word & PERIODIC ? periodic_touch(h, index, word, deadline_ns) :
				table_touch(&h->t, index, word);
	if (ret)
		return ret;
	shard_count(&handle_shard(h)->touched);
	PROBE(touch, h, id, deadline_ns);
	return 0;
}

int hwtimer_touch_at(struct hwtimer *h, hwtimer_id id, uint64_t deadline_ns)
{
	/* No index if it is periodic. */
	uint32_t index = id & (PERIODIC << INDEX_BITS | INDEX_MASK);
	struct own *own = &h->own;
	struct hwtimer_slot *slot;
	uint64_t word, old;

	if (index >= own->usual || h->link[index] != id || deadline_ns > own->latest_ns)
		return touch_other(h, id, deadline_ns);
	slot = &h->t.slot[index];
	/* Whatever the word is, it is that of this timeout. */
	old = table_load(&slot->word);
	word = table_later(old, deadline_ns);
	if (!word || !table_swap(&slot->word, old, word))
		return touch_other(h, id, deadline_ns);
	own->shard->touched++;
	PROBE(touch, h, id, deadline_ns);
	return 0;
}

int hwtimer_touch(struct hwtimer *h, hwtimer_id id, uint64_t delay_ns)
{
	return hwtimer_touch_at(h, id, deadline_after(h, delay_ns));
}

/* A cancel that fails, or of a periodic timeout; by several threads; after a stop. */
static OTHER int cancel_other(struct hwtimer *h, hwtimer_id id)
{
	uint32_t index = id & INDEX_MASK;

	if (!handle_alive(h))
		return -EPERM;
	if (!slot_armed(h, id) || table_cancel(&h->t, index, id >> INDEX_BITS))
		return -ENOENT;
	PROBE(cancel, h, id, 0);
	slot_end(h, index, id >> INDEX_BITS & PERIODIC);
	shard_count(&handle_shard(h)->cancelled);
	return 0;
}

int hwtimer_cancel(struct hwtimer *h, hwtimer_id id)
{
	/* No index if it is periodic. */
	uint32_t index = id & (PERIODIC << INDEX_BITS | INDEX_MASK);
	struct own *own = &h->own;

	/* Whatever the word is, it is that of this timeout. */
	if (index >= own->usual || h->link[index] != id || !table_steal(&h->t, index))
		return cancel_other(h, id);
	PROBE(cancel, h, id, 0);
	slot_put(h, index, id);
	own->shard->cancelled++;
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
	uint32_t i = (*id & INDEX_MASK) + 1;
	hwtimer_id next;

	if (!handle_alive(h))
		return -EPERM;
	for (; i < table_slots(&h->t); i++) {
		next = slot_id(h, i);
		if (next && !hwtimer_query(h, next, state)) {
			*id = next;
			return 1;
		}
	}
	return 0;
}
