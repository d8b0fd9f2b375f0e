// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * libhwtimer without the kernel's module: handles in the process.
 *
 * Such a handle has a table like that of the device, in memory of its own, so all other files of
 * the library do what they do for the device. This one does the kernel's part, as dev/slots.c and
 * dev/context.c do: it files slots in a wheel, and sets a timerfd for the first tick at which
 * something has to be looked at. Whoever enters does so, under a mutex: a thread that arms what
 * the timerfd would be too late for, and one that waits for events.
 *
 * There is no ring. A slot that is found due goes to the list @due, and who takes events takes it
 * from there. Its link says that it was pushed, as long as it is there: nobody pushes it, since it
 * will be looked at. While there are such slots, the timerfd is set for a time that has passed, so
 * that it stays readable, and kick_before is 0, so that who arms does not enter: who is woken will.
 *
 * With HWTIMER_OPEN_VIRTUAL, the time is what hwtimer_advance() says, and in place of the timerfd
 * there is an eventfd, which is readable while there are slots in @due.
 *
 * The program can be trusted, so nothing is checked, and what was pushed is not bounded by a
 * budget.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#define HWTIMER_WHEEL_SHIM	"hwtimer_wheel_shim.h"
#include "../core/hwtimer_wheel.h"
#include "process.h"

/* As in dev/context.c. */
#define LOW_LEVELS	3
#define LOW_BITS	6
#define HIGH_BITS	4
/* So often what was pushed meanwhile is taken before somebody else has to. */
#define ROUNDS		8
#define LAST_UNIT	(UINT64_MAX >> HWTIMER_ARMING_BITS)

/**
 * struct process - what the kernel keeps for handles on the device
 * @lock: protects all of this, and is taken last
 * @wheel: the slots, as far as it has been told of them
 * @size: of all of this, with the buckets of @wheel behind it
 * @node: for each slot: filed in @wheel, in the list @due, or in none
 * @due: slots that have to be looked at, in the order of ticks
 * @tick_units: length of a tick, in units of words
 * @slack: in ticks, 2^n - 1
 * @next: the tick for which the timerfd is set; 0: now; WHEEL_NEVER
 * @now_ns: the time of the run in progress
 * @stats: as the device's, but @timers
 */
struct process {
	pthread_mutex_t		lock;
	struct wheel		wheel;
	size_t			size;
	struct list_head	*node;
	struct list_head	due;
	uint64_t		tick_units;
	uint64_t		slack;
	uint64_t		next;
	uint64_t		now_ns;
	struct hwtimer_stats	stats;
};

static uint64_t word_tick(const struct process *p, uint64_t word)
{
	uint64_t units = word >> HWTIMER_ARMING_BITS;

	return ((units + p->tick_units - 1) / p->tick_units + p->slack) & ~p->slack;
}

/* The first word that is in time if the slot is looked at at tick @tick. */
static uint64_t tick_serves(const struct process *p, uint64_t tick)
{
	uint64_t late = (p->slack + 1) * p->tick_units - 1, units;

	if (tick == WHEEL_NEVER)
		return ~0ULL;
	units = tick * p->tick_units;
	return (units > late ? units - late : 1) << HWTIMER_ARMING_BITS;
}

static bool slot_is_due(struct hwtimer *h, uint32_t index, uint64_t word)
{
	struct process *p = h->process;
	uint64_t due_ns;

	if (!word || word_tick(p, word) >= p->wheel.cur)
		return false;
	/* If it was pushed meanwhile, it will be taken from there. */
	if (!table_swap_link(&h->t.slot[index].next, HWTIMER_LINK_NONE, HWTIMER_LINK_END))
		return false;
	/* If its deadline had passed when it was filed, its tick counts, as in dev/context.c. */
	due_ns = max(table_deadline(word), (p->wheel.cur - 1) * h->tick_ns);
	p->stats.late_ns = max(p->stats.late_ns, p->now_ns - min(due_ns, p->now_ns));
	p->stats.records++;
	return true;
}

/* The node is not filed: look at its slot. @handed: the wheel has just handed it over. */
static void slot_settle(struct hwtimer *h, uint32_t index, bool handed)
{
	struct process *p = h->process;
	struct hwtimer_slot *slot = &h->t.slot[index];
	struct list_head *node = &p->node[index];
	uint64_t word = table_load(&slot->word), visit, moved;
	uint64_t tick = word ? word_tick(p, word) : WHEEL_NEVER;
	bool due = tick < p->wheel.cur;

	p->stats.looks++;
	if (due)
		tick = handed ? WHEEL_NEVER : p->wheel.cur;
	visit = due && !handed ? 0 : tick_serves(p, tick);
	table_store(&slot->visit, visit);
	/* [__atomic_thread_fence: as smp_mb() in slot_settle() of dev/slots.c] */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	moved = table_load(&slot->word);
	if (due && handed && slot_is_due(h, index, moved)) {
		list_add_tail(node, &p->due);
		return;
	}
	if (moved && moved < visit) {
		table_store(&slot->visit, 0);
		tick = p->wheel.cur;
	} else if (tick == WHEEL_NEVER) {
		INIT_LIST_HEAD(node);
		return;
	}
	if (handed)
		wheel_file_again(&p->wheel, node, tick);
	else
		wheel_file(&p->wheel, node, tick);
}

static uint32_t link_exchange(uint32_t *link, uint32_t new)
{
	/*
	 * Before the word is read: either it is found as somebody wrote it meanwhile, or he finds
	 * the slot unlinked, and pushes it.
	 * [__atomic_exchange_n: as xchg() in slots_pushed() of dev/slots.c]
	 */
	return __atomic_exchange_n(link, new, __ATOMIC_SEQ_CST);
}

static void slots_pushed(struct hwtimer *h)
{
	struct process *p = h->process;
	uint32_t chain = link_exchange(&h->t.head->pushed, HWTIMER_LINK_END), index;

	while (chain != HWTIMER_LINK_END) {
		index = chain - HWTIMER_LINK(0);
		chain = link_exchange(&h->t.slot[index].next, HWTIMER_LINK_NONE);
		if (!list_empty(&p->node[index]))
			wheel_unfile(&p->wheel, &p->node[index]);
		slot_settle(h, index, false);
	}
}

static void event_set(struct hwtimer *h, bool readable)
{
	eventfd_t value;

	if (readable == !h->process->next)
		return;
	if (readable)
		eventfd_write(h->t.fd, 1);
	else
		eventfd_read(h->t.fd, &value);
}

static void timer_set(struct hwtimer *h, uint64_t next)
{
	uint64_t ns = next * h->tick_ns;
	struct itimerspec at = { .it_value = { ns / 1000000000, ns % 1000000000 } };

	if (next == WHEEL_NEVER)
		at = (struct itimerspec){ };
	else if (!next)
		at.it_value.tv_nsec = 1;
	if (h->clockid == CLOCK_VIRTUAL)
		event_set(h, !next);
	else if (next != h->process->next)
		timerfd_settime(h->t.fd, TFD_TIMER_ABSTIME, &at, NULL);
	h->process->next = next;
}

/* Set the timer and tell programs. Returns true if something was pushed that may not know. */
static bool next_publish(struct hwtimer *h, uint64_t next)
{
	struct process *p = h->process;
	uint64_t wake_at = next == WHEEL_NEVER ? ~0ULL :
			   next * p->tick_units << HWTIMER_ARMING_BITS;

	timer_set(h, next);
	table_store(&h->t.head->wake_at, wake_at);
	table_store(&h->t.head->kick_before, next ? tick_serves(p, next) : 0);
	/* [__atomic_thread_fence: as smp_mb() in slots_publish() of dev/slots.c] */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return next && table_load(&h->t.head->pushed) != HWTIMER_LINK_END;
}

/* Take what was pushed, and what is due. */
static void process_run(struct hwtimer *h)
{
	struct process *p = h->process;
	unsigned int rounds = ROUNDS, most;
	struct list_head *node;
	uint64_t last, next;

	p->now_ns = handle_now(h);
	last = p->now_ns / h->tick_ns;
	p->stats.runs++;
	do {
		slots_pushed(h);
		most = UINT_MAX;
		while ((node = wheel_take(&p->wheel, last, &most)))
			slot_settle(h, node - p->node, true);
		if (!list_empty(&p->due) || !rounds--)
			next = 0;
		else
			next = wheel_next(&p->wheel, WHEEL_NEVER, UINT_MAX);
	} while (next_publish(h, next));
}

static int process_enter(struct table *t)
{
	struct hwtimer *h = (struct hwtimer *)((char *)t - offsetof(struct hwtimer, t));

	pthread_mutex_lock(&h->process->lock);
	if (!handle_stopped(h))
		process_run(h);
	pthread_mutex_unlock(&h->process->lock);
	return 0;
}

int hwtimer_process_advance(struct hwtimer *h, uint64_t ns)
{
	int ret = -EOVERFLOW;

	pthread_mutex_lock(&h->process->lock);
	if (ns <= TABLE_NEVER / 2 - h->virtual_ns) {
		table_store(&h->virtual_ns, h->virtual_ns + ns);
		if (!handle_stopped(h))
			process_run(h);
		ret = 0;
	}
	pthread_mutex_unlock(&h->process->lock);
	return ret;
}

/*
 * The slot leaves @due. From here on, whoever arms it either is seen by the caller, or pushes it.
 */
static void slot_leave(struct hwtimer_slot *slot)
{
	link_exchange(&slot->next, HWTIMER_LINK_NONE);
	/* Who has armed it meanwhile may have stored 0. */
	table_store(&slot->visit, ~0ULL);
	/* [__atomic_thread_fence: as smp_mb() in slot_settle() of dev/slots.c] */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Take the next slot that has to be looked at. */
bool hwtimer_process_take(struct hwtimer *h, uint32_t *index)
{
	struct process *p = h->process;
	struct list_head *node;
	bool found;

	pthread_mutex_lock(&p->lock);
	node = p->due.next;
	found = node != &p->due;
	if (found) {
		list_del(node);
		INIT_LIST_HEAD(node);
		*index = node - p->node;
		slot_leave(&h->t.slot[*index]);
		/* That was the last one, so the timerfd must not be readable any more. */
		if (list_empty(&p->due) && !handle_stopped(h))
			process_run(h);
	}
	pthread_mutex_unlock(&p->lock);
	return found;
}

/* With the lock of the handle held: have at least @slots. */
int hwtimer_process_grow(struct hwtimer *h, uint32_t slots)
{
	const uint32_t step = h->t.page / sizeof(*h->t.slot);
	struct table *t = &h->t;
	uint32_t i, old = t->slots;

	if (h->ended)
		return -ESHUTDOWN;
	slots = (slots + step - 1) / step * step;
	if (slots <= old)
		return 0;
	if (mprotect(t->slot + old, (slots - old) * sizeof(*t->slot), PROT_READ | PROT_WRITE))
		return -errno;
	for (i = old; i < slots; i++) {
		t->slot[i].visit = ~0ULL;
		INIT_LIST_HEAD(&h->process->node[i]);
	}
	/* [__atomic_store_n: as table_slots() acquires] */
	__atomic_store_n(&t->slots, slots, __ATOMIC_RELEASE);
	return 0;
}

/* With the lock of the handle held: whoever exchanges words from now on gets all that are armed. */
void hwtimer_process_stop(struct hwtimer *h)
{
	struct process *p = h->process;
	uint32_t i;

	pthread_mutex_lock(&p->lock);
	table_store(&h->t.head->flags, HWTIMER_TABLE_STOPPED);
	for (i = 0; i < h->t.slots; i++)
		table_store(&h->t.slot[i].visit, ~0ULL);
	/* [__atomic_thread_fence: as smp_mb() in slots_stop() of dev/slots.c] */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/* All who wait find out. */
	timer_set(h, 0);
	pthread_mutex_unlock(&p->lock);
}

void hwtimer_process_stats(struct hwtimer *h, struct hwtimer_stats *stats)
{
	struct process *p = h->process;
	uint32_t i, slots = table_slots(&h->t);

	pthread_mutex_lock(&p->lock);
	*stats = p->stats;
	pthread_mutex_unlock(&p->lock);
	for (i = 0; i < slots; i++)
		stats->pending += !!table_load(&h->t.slot[i].word);
}

/* The wheel, with all that it needs, so that hwtimer_process_free() can free it. */
static int process_shape(struct hwtimer *h, const struct hwtimer_options *o)
{
	const uint64_t unit = 1ULL << HWTIMER_UNIT_SHIFT, ms = 1000000;
	uint64_t tick_ns = o->tick_ns ?: ms, tick_units, now = handle_now(h);
	unsigned char bits[WHEEL_MAX_LEVELS];
	unsigned int levels, none = 1;
	struct process *p;
	size_t size;

	/* As SETUP. */
	if (tick_ns < 2 * unit || tick_ns > 10000 * ms || o->slack_ns > 1ULL << 40)
		return -EINVAL;
	if (now >> HWTIMER_UNIT_SHIFT > LAST_UNIT / 2)
		return -EOVERFLOW;
	tick_units = (tick_ns + unit - 1) / unit;
	memset(bits, HIGH_BITS, sizeof(bits));
	memset(bits, LOW_BITS, LOW_LEVELS);
	levels = wheel_levels(bits, WHEEL_MAX_LEVELS, LAST_UNIT / tick_units);
	size = sizeof(*p) + wheel_size(bits, levels);
	p = memory_map(size);
	if (!p)
		return -ENOMEM;
	h->process = p;
	h->t.enter = process_enter;
	h->tick_ns = tick_units * unit;
	p->size = size;
	p->tick_units = tick_units;
	while (2 * p->slack + 1 <= o->slack_ns / h->tick_ns)
		p->slack = 2 * p->slack + 1;
	p->next = WHEEL_NEVER;
	pthread_mutex_init(&p->lock, NULL);
	INIT_LIST_HEAD(&p->due);
	wheel_init(&p->wheel, bits, levels, p + 1);
	p->wheel.align = p->slack;
	/* The wheel begins now: nothing is filed in the past. */
	wheel_take(&p->wheel, now / h->tick_ns, &none);
	return 0;
}

static int process_map(struct hwtimer *h)
{
	const size_t head = table_head_size(&h->t), slots = h->t.max * sizeof(*h->t.slot);
	struct process *p = h->process;

	h->t.head = memory_map(head);
	h->t.slot = table_reserve(slots);
	p->node = memory_map(h->t.max * sizeof(*p->node));
	if (h->t.slot == MAP_FAILED)
		h->t.slot = NULL;
	if (!h->t.head || !h->t.slot || !p->node)
		return -ENOMEM;
	h->t.head->pushed = HWTIMER_LINK_END;
	h->t.head->wake_at = ~0ULL;
	h->t.head->kick_before = ~0ULL;
	return 0;
}

/* Make the table of a handle, instead of SETUP. After an error, hwtimer_close() frees the rest. */
int hwtimer_process_open(struct hwtimer *h, const struct hwtimer_options *o)
{
	int ret = process_shape(h, o);

	if (ret)
		return ret;
	if (h->clockid == CLOCK_VIRTUAL)
		h->t.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	else
		h->t.fd = timerfd_create(h->clockid, TFD_NONBLOCK | TFD_CLOEXEC);
	return h->t.fd < 0 ? -errno : process_map(h);
}

/* The end of hwtimer_close(), also in a child. */
void hwtimer_process_free(struct hwtimer *h)
{
	struct process *p = h->process;

	if (!p)
		return;
	if (p->node)
		munmap(p->node, h->t.max * sizeof(*p->node));
	pthread_mutex_destroy(&p->lock);
	munmap(p, p->size);
}
