/* SPDX-License-Identifier: GPL-2.0-only */
/* Macros and functions for cppcheck, which does not read the headers that define them. */
#define err(status, ...) exit(status)
#define errx(status, ...) exit(status)
#define for_each_possible_cpu(cpu) for (cpu = 0; cpu < 8; cpu++)
#define for_each_set_bit(bit, map, bits) for (bit = 0; bit < (bits); bit++)
#define list_for_each(at, head) for (at = (head)->next; at != (head); at = at->next)
#define list_for_each_entry(at, head, member) for (at = first(head); more(at); at = next(at))
#define list_for_each_entry_safe(at, n, head, member) \
	for (at = first(head), n = next(at); more(at); at = n)
#define hlist_for_each_entry list_for_each_entry
#define hlist_for_each_entry_safe list_for_each_entry_safe
#define hlist_for_each_entry_rcu(at, head, member, cond) list_for_each_entry(at, head, member)
#define sk_nulls_for_each(at, node, head) list_for_each_entry(at, head, node)
#define hash_for_each(table, i, at, member) list_for_each_entry(at, table, member)
#define hash_for_each_safe(table, i, n, at, member) list_for_each_entry_safe(at, n, table, member)
#define hash_for_each_possible_rcu(table, at, member, ...) list_for_each_entry(at, table, member)
#define hash_for_each_possible(table, at, member, key) list_for_each_entry(at, table, member)
#define xa_for_each(xa, index, at) for (index = 0; more(at); index++)
#define xa_for_each_start(xa, index, at, start) for (index = start; more(at); index++)
#define LIST_HEAD(...) struct list_head
