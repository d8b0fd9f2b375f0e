// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package hwtimer;

import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * A table that gives objects small numbers, without locks and without boxing. Free slots are a
 * stack: its head is the number of the first one, plus 1, and a count of changes in the upper half,
 * so that a slot that was taken and put back meanwhile is noticed. Tables grow, and do not shrink.
 *
 * A kernel's event brings the number from put() to remove(), as data that the JVM knows nothing of;
 * so put() releases and remove() acquires.
 */
final class Slots<T> {
	private static final int CHUNK_BITS = 12;
	private static final int CHUNK = 1 << CHUNK_BITS;
	/* As many as libhwtimer has timeouts. */
	private static final int CHUNKS = 1 << (24 - CHUNK_BITS);

	private static final class Chunk<T> {
		final AtomicReferenceArray<T> objects = new AtomicReferenceArray<>(CHUNK);
		final AtomicIntegerArray next = new AtomicIntegerArray(CHUNK);
	}

	private final AtomicReferenceArray<Chunk<T>> chunks = new AtomicReferenceArray<>(CHUNKS);
	private final AtomicLong head = new AtomicLong();
	private int grown;

	/** Stores an object. Returns its slot, or -1: all are in use. */
	int put(T object) {
		for (;;) {
			long old = head.get();
			int slot = (int)old - 1;
			if (slot < 0) {
				if (!grow()) {
					return -1;
				}
				continue;
			}
			Chunk<T> chunk = chunks.getPlain(slot >> CHUNK_BITS);
			int next = chunk.next.get(slot & (CHUNK - 1));
			if (head.compareAndSet(old, changed(old, next))) {
				chunk.objects.setRelease(slot & (CHUNK - 1), object);
				return slot;
			}
		}
	}

	/** Frees a slot. Returns the object. */
	T remove(int slot) {
		Chunk<T> chunk = chunks.getAcquire(slot >> CHUNK_BITS);
		int i = slot & (CHUNK - 1);
		T object = chunk.objects.getAcquire(i);
		chunk.objects.setPlain(i, null);
		push(chunk, i, slot, slot);
		return object;
	}

	/* Put a chain of free slots, first to last, onto the stack; last is number i of the chunk. */
	private void push(Chunk<T> chunk, int i, int first, int last) {
		long old;
		do {
			old = head.get();
			chunk.next.setPlain(i, (int)old);
		} while (!head.compareAndSet(old, changed(old, first + 1)));
	}

	private static long changed(long old, int first) {
		return ((old >>> 32) + 1) << 32 | first;
	}

	private synchronized boolean grow() {
		if ((int)head.get() != 0) {
			return true;
		}
		if (grown == CHUNKS) {
			return false;
		}
		Chunk<T> chunk = new Chunk<>();
		int first = grown << CHUNK_BITS;
		for (int i = 0; i < CHUNK - 1; i++) {
			chunk.next.setPlain(i, first + i + 2);
		}
		chunks.setRelease(grown++, chunk);
		push(chunk, CHUNK - 1, first, first + CHUNK - 1);
		return true;
	}
}
