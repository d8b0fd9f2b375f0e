// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The native methods of hwtimer/Table.java: what a program does with a table beside the accesses to
 * its memory. They use libhwtimer for a handle, on the device or in the process, but none of its
 * timeouts: which slot is whose is decided in Java.
 */
#include <jni.h>
#include <poll.h>
#include <string.h>

#include "hwtimer_Table.h"
#include "process.h"

#define SLOT_HAS(field, name)	_Static_assert(offsetof(struct hwtimer_slot, field) == \
					       hwtimer_Table_##name, #field)
#define TABLE_HAS(field, name)	_Static_assert(offsetof(struct hwtimer_table, field) == \
					       hwtimer_Table_##name, #field)

_Static_assert(sizeof(struct hwtimer_slot) == hwtimer_Table_SLOT, "slot");
SLOT_HAS(word, WORD);
SLOT_HAS(visit, VISIT);
SLOT_HAS(next, NEXT);
TABLE_HAS(kick_before, KICK_BEFORE);
TABLE_HAS(flags, FLAGS);
TABLE_HAS(pushed, PUSHED);
_Static_assert(hwtimer_Table_STOPPED == HWTIMER_TABLE_STOPPED, "flag");
_Static_assert(hwtimer_Table_LINK_NONE == HWTIMER_LINK_NONE &&
	       hwtimer_Table_LINK_END == HWTIMER_LINK_END &&
	       hwtimer_Table_LINK_INDEX == HWTIMER_LINK(0), "links");
_Static_assert(hwtimer_Table_UNIT_SHIFT == HWTIMER_UNIT_SHIFT &&
	       hwtimer_Table_ARMING_BITS == HWTIMER_ARMING_BITS, "words");
_Static_assert(hwtimer_Table_MAX == HWTIMER_MAX_SLOTS - 2, "slots");

static struct hwtimer *handle_of(jlong handle)
{
	return (struct hwtimer *)(intptr_t)handle;
}

JNIEXPORT jlong JNICALL Java_hwtimer_Table_open(JNIEnv *env, jclass class, jlong tick_ns,
						jint timeouts)
{
	struct hwtimer_options options = {
		.size = sizeof(options),
		.timeouts = (uint32_t)timeouts,
		.tick_ns = (uint64_t)tick_ns,
	};
	struct hwtimer *h;
	int ret;

	(void)env;
	(void)class;
	ret = hwtimer_open(&h, &options);
	return ret ?: (intptr_t)h;
}

JNIEXPORT void JNICALL Java_hwtimer_Table_close(JNIEnv *env, jclass class, jlong handle)
{
	(void)env;
	(void)class;
	hwtimer_close(handle_of(handle));
}

JNIEXPORT jboolean JNICALL Java_hwtimer_Table_inProcess(JNIEnv *env, jclass class, jlong handle)
{
	(void)env;
	(void)class;
	return hwtimer_in_process(handle_of(handle));
}

JNIEXPORT jlong JNICALL Java_hwtimer_Table_now(JNIEnv *env, jclass class)
{
	(void)env;
	(void)class;
	return (jlong)clock_ns(CLOCK_MONOTONIC);
}

JNIEXPORT jstring JNICALL Java_hwtimer_Table_text(JNIEnv *env, jclass class, jint error)
{
	(void)class;
	return (*env)->NewStringUTF(env, strerror(error));
}

/* Slots get mapped at their place when there are more. Java accesses only those that are. */
JNIEXPORT jobject JNICALL Java_hwtimer_Table_memory(JNIEnv *env, jclass class, jlong handle,
						    jboolean slots)
{
	struct table *t = &handle_of(handle)->t;
	jlong bytes = (jlong)(t->max * sizeof(*t->slot));

	(void)class;
	return slots ? (*env)->NewDirectByteBuffer(env, t->slot, bytes) :
		       (*env)->NewDirectByteBuffer(env, t->head, sizeof(*t->head));
}

JNIEXPORT jint JNICALL Java_hwtimer_Table_grow(JNIEnv *env, jclass class, jlong handle, jint slots)
{
	struct hwtimer_grow grow = { .slots = (uint32_t)slots };
	struct hwtimer *h = handle_of(handle);
	uint32_t old;
	int ret;

	(void)env;
	(void)class;
	pthread_mutex_lock(&h->lock);
	old = h->t.slots;
	if (h->process)
		ret = hwtimer_process_grow(h, grow.slots);
	else
		ret = ioctl(h->t.fd, HWTIMER_IOC_GROW, &grow) ? -errno : 0;
	/* Even so there may be more slots than before. */
	if (!ret || ret == -ENOMEM)
		ret = hwtimer_map(h) ?: h->t.slots > old ? 0 : ret;
	pthread_mutex_unlock(&h->lock);
	return ret ?: (jint)table_slots(&h->t);
}

JNIEXPORT void JNICALL Java_hwtimer_Table_enter(JNIEnv *env, jclass class, jlong handle)
{
	(void)env;
	(void)class;
	table_enter(&handle_of(handle)->t);
}

/*
 * Records are counted as taken before Java has looked at their slots: nobody else looks, and one
 * that the kernel puts into the ring meanwhile is another one.
 */
static int records_find(struct hwtimer *h, jint *found, int most)
{
	/* Others who write to the table cannot keep us here; see records_take() in lib/wait.c. */
	uint64_t left = 4ULL * table_slots(&h->t) + h->t.page;
	uint32_t index, ring, head, walked, walk, maps = 0;
	int n = 0, ret;

	while (n < most && left--) {
		ret = table_peek(&h->t, &index, &ring, &head);
		if (!ret || (ret < 0 && maps++ == HWTIMER_MAX_RINGS))
			break;
		if (ret < 0) {
			/* The call that has grown the table is about to map the ring. */
			pthread_mutex_lock(&h->lock);
			ret = hwtimer_map(h);
			pthread_mutex_unlock(&h->lock);
			if (ret)
				return ret;
			continue;
		}
		if (index < table_slots(&h->t))
			found[n++] = (jint)index;
		table_took(&h->t, ring, head);
	}
	/* A record had no room. */
	if (table_walk(&h->t, &walked, &walk)) {
		if (h->walk != walk) {
			h->walk = walk;
			h->walk_at = 0;
		}
		while (n < most && h->walk_at < table_slots(&h->t))
			found[n++] = (jint)h->walk_at++;
		if (n < most)
			table_walked(&h->t, walked, walk);
	}
	return n;
}

static int slots_find(struct hwtimer *h, jint *found, int most)
{
	uint32_t index;
	int n;

	if (!h->process)
		return records_find(h, found, most);
	for (n = 0; n < most && hwtimer_process_take(h, &index); n++)
		found[n] = (jint)index;
	return n;
}

JNIEXPORT jint JNICALL Java_hwtimer_Table_await(JNIEnv *env, jclass class, jlong handle,
						jintArray slots)
{
	struct hwtimer *h = handle_of(handle);
	struct pollfd p = { .fd = h->t.fd, .events = POLLIN };
	jint found[hwtimer_Table_BATCH];
	int n = 0;

	(void)class;
	while (!n && !handle_stopped(h)) {
		n = slots_find(h, found, hwtimer_Table_BATCH);
		/* The kernel does its part when it is polled. */
		if (!n && poll(&p, 1, -1) > 0 && h->process)
			table_enter(&h->t);
	}
	if (n > 0)
		(*env)->SetIntArrayRegion(env, slots, 0, n, found);
	return n;
}

JNIEXPORT void JNICALL Java_hwtimer_Table_stop(JNIEnv *env, jclass class, jlong handle)
{
	(void)env;
	(void)class;
	hwtimer_stop(handle_of(handle));
}
