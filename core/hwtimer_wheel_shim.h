/* SPDX-License-Identifier: GPL-2.0-only OR LGPL-2.1-or-later OR MIT */
/*
 * hwtimer: what hwtimer_wheel.c uses of the kernel, for programs. See hwtimer_wheel.h.
 */
#ifndef HWTIMER_WHEEL_SHIM_H
#define HWTIMER_WHEEL_SHIM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define U64_MAX				UINT64_MAX
#define BITS_PER_LONG			(8 * (unsigned int)sizeof(long))
#define BITS_TO_LONGS(n)		(((n) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define likely(x)			__builtin_expect(!!(x), 1)
#define unlikely(x)			__builtin_expect(!!(x), 0)
#ifndef __always_inline
#define __always_inline			inline __attribute__((__always_inline__))
#endif
#define min(a, b)			((a) < (b) ? (a) : (b))
#define max(a, b)			((a) > (b) ? (a) : (b))
#define noinline			__attribute__((__noinline__))
#define READ_ONCE(x)			(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value)		(*(volatile __typeof__(x) *)&(x) = (value))
#define EXPORT_SYMBOL_IF_KUNIT(symbol)	_Static_assert(1, #symbol)

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline void list_add_tail(struct list_head *node, struct list_head *head)
{
	node->next = head;
	node->prev = head->prev;
	head->prev->next = node;
	head->prev = node;
}

static inline void __list_del_entry(struct list_head *node)
{
	node->next->prev = node->prev;
	node->prev->next = node->next;
}

#define list_del	__list_del_entry

static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	list->prev->next = head->next;
	head->next->prev = list->prev;
	head->next = list->next;
	list->next->prev = head;
	INIT_LIST_HEAD(list);
}

static inline bool test_bit(unsigned int bit, const unsigned long *map)
{
	return map[bit / BITS_PER_LONG] >> bit % BITS_PER_LONG & 1;
}

static inline void __set_bit(unsigned int bit, unsigned long *map)
{
	map[bit / BITS_PER_LONG] |= 1UL << bit % BITS_PER_LONG;
}

static inline void __clear_bit(unsigned int bit, unsigned long *map)
{
	map[bit / BITS_PER_LONG] &= ~(1UL << bit % BITS_PER_LONG);
}

static inline unsigned int find_next_bit(const unsigned long *map, unsigned int size,
					 unsigned int bit)
{
	unsigned long word;

	for (; bit < size; bit = (bit / BITS_PER_LONG + 1) * BITS_PER_LONG) {
		word = map[bit / BITS_PER_LONG] >> bit % BITS_PER_LONG;
		if (word) {
			bit += __builtin_ctzl(word);
			return min(bit, size);
		}
	}
	return size;
}

#endif /* HWTIMER_WHEEL_SHIM_H */
