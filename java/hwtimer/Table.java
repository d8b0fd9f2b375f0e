// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package hwtimer;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * A table of linux/hwtimer.h, and which of its slots are free.
 *
 * The slots and the header are direct buffers: memory that is shared with the kernel or, without
 * the module, with the part of libhwtimer that stands for it. This class does what that file says
 * of arm, touch, cancel, check, push and look, by the names there, whose MB is a full fence here.
 * All else is done by the native methods. The comments say what each access orders; one that orders
 * nothing is opaque.
 *
 * Any thread may call any method at any time, but one thread only may wait, and look.
 *
 * A place is the index of a slot and, above, the list of free slots to which it goes back: that of
 * the thread that took it, which others may have, too. A list is a stack. Its head is the index of
 * the first slot, plus 1, and in the upper half a count of removals, so that one that was removed
 * and came back meanwhile is noticed. The link of a free slot is the next one, plus 1, and in the
 * upper half its last arming. Links are not in the table, where others could write them.
 */
final class Table {
	private static final VarHandle
		LINK = MethodHandles.arrayElementVarHandle(long[].class),
		LONG = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder()),
		INT = MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());

	/* What hwtimer_jni.c compares with the header: a slot, and the header of the table. */
	static final int SLOT = 32, WORD = 0, VISIT = 8, NEXT = 28;
	static final int KICK_BEFORE = 8, FLAGS = 24, PUSHED = 64;
	static final int STOPPED = 1, LINK_NONE = 0, LINK_END = 1, LINK_INDEX = 2;
	static final int UNIT_SHIFT = 16, ARMING_BITS = 20;
	/* As many timeouts as a handle can have, and how many slots await() finds at most. */
	static final int MAX = (1 << 24) - 2, BATCH = 256;

	private static final int ARMING = (1 << ARMING_BITS) - 1;
	private static final long LAST_UNIT = (1L << 64 - ARMING_BITS) - 2;
	/* So often a word that others keep changing is read again. */
	private static final int TRIES = 8;
	private static final int INDEX_BITS = 24, INDEX = (1 << INDEX_BITS) - 1, LISTS = 16;
	/* A list's head has two lines of the cache for itself. */
	private static final int PAD = 16;
	private static final int ROW_BITS = 12, ROW = 1 << ROW_BITS;

	final long handle;
	private final int limit;
	private final ByteBuffer slots, head;
	private final HwTimer.HwTimeout[][] timeouts =
		new HwTimer.HwTimeout[1 << INDEX_BITS - ROW_BITS][];
	private final long[][] links = new long[timeouts.length][];
	private final AtomicLongArray free = new AtomicLongArray(LISTS * PAD);
	/* Slots before this may be used; those before the next have been. */
	private volatile int size;
	private final AtomicInteger fresh = new AtomicInteger();

	Table(long handle, int limit) {
		this.handle = handle;
		this.limit = limit;
		slots = memory(handle, true);
		head = memory(handle, false);
	}

	/** How many slots there may be in use. */
	int size() {
		return size;
	}

	/* Takes a free slot. Returns its place. */
	private int take() {
		int list = (int)Thread.currentThread().getId() & LISTS - 1;
		int index = pop(list);

		return (index < 0 ? find(list) : index) | list << INDEX_BITS;
	}

	/* The rare part of take(). */
	private int find(int list) {
		for (;;) {
			int old = size;
			for (int n = fresh.get(); n < old; n = fresh.get()) {
				if (fresh.compareAndSet(n, n + 1)) {
					return n;
				}
			}
			long before = removals();
			for (int i = 0; i < LISTS; i++) {
				int index = pop(list ^ i);
				if (index >= 0) {
					return index;
				}
			}
			grow(old, before);
		}
	}

	/* How often a slot was taken from a list. */
	private long removals() {
		long sum = 0;

		for (int i = 0; i < LISTS; i++) {
			sum += free.get(i * PAD) >>> 32;
		}
		return sum;
	}

	private synchronized void grow(int old, long before) {
		int row = 0;

		/* Another thread may have done it. */
		if (size != old) {
			return;
		}
		if (old == limit) {
			/*
			 * One may have been freed to a list that was looked at already, and one taken
			 * from a list that was not yet. Otherwise all lists were empty at once.
			 */
			if (removals() != before) {
				return;
			}
			throw new RejectedExecutionException(limit + " timeouts are pending");
		}
		int wanted = Math.min(limit, Math.max(1, 2 * old));
		for (; row << ROW_BITS < wanted; row++) {
			/* The links come last: there may be no memory for them. */
			if (links[row] == null) {
				timeouts[row] = new HwTimer.HwTimeout[ROW];
				links[row] = new long[ROW];
			}
		}
		int got = grow(handle, wanted);
		if (got < 0 && isStopped()) {
			throw new IllegalStateException("cannot be started once stopped");
		}
		if (got < 0) {
			throw new RejectedExecutionException(text(-got));
		}
		/* There may be more than wanted. Volatile: who takes a slot finds its row. */
		size = Math.min(limit, Math.min(got, row << ROW_BITS));
	}

	private int pop(int list) {
		for (;;) {
			/* Acquire: the slot is as who freed it has left it. */
			long first = free.getAcquire(list * PAD);
			int index = (int)first - 1;
			if (index < 0) {
				return -1;
			}
			long removals = (first >>> 32) + 1;
			if (free.compareAndSet(list * PAD, first, removals << 32 | (int)link(index))) {
				return index;
			}
		}
	}

	private long link(int index) {
		return (long)LINK.getOpaque(links[index >> ROW_BITS], index & ROW - 1);
	}

	/** Frees a slot, by who has got its word to 0. */
	void free(int place, int arming) {
		int list = place >>> INDEX_BITS, index = place & INDEX;
		long[] row = links[index >> ROW_BITS];
		long first;

		timeouts[index >> ROW_BITS][index & ROW - 1] = null;
		do {
			first = free.get(list * PAD);
			LINK.setOpaque(row, index & ROW - 1, (long)arming << 32 | (int)first);
		} while (!free.compareAndSet(list * PAD, first, first >>> 32 << 32 | index + 1L));
	}

	/* The word of a deadline, which is rounded up, and never comes if it is too late. */
	private static long word(long deadlineNs, int arming) {
		/* Beyond Long.MAX_VALUE it is positive again after the shift. */
		long units = deadlineNs + (1 << UNIT_SHIFT) - 1 >>> UNIT_SHIFT;

		return Math.min(units, LAST_UNIT) << ARMING_BITS | arming;
	}

	private static boolean before(long word, long other) {
		return Long.compareUnsigned(word, other) < 0;
	}

	/**
	 * Arms a free slot. Returns false: the table is stopped.
	 *
	 * @throws RejectedExecutionException there is no slot, or no memory for more
	 * @throws IllegalStateException the table is stopped
	 */
	boolean arm(HwTimer.HwTimeout timeout, long deadlineNs) {
		int place = take(), index = place & INDEX, last = (int)(link(index) >>> 32);
		/* No arming is 0. */
		int arming = last == ARMING ? 1 : last + 1;
		long word = word(deadlineNs, arming);
		timeout.begin(place, arming);
		timeouts[index >> ROW_BITS][index & ROW - 1] = timeout;
		/* "word = w; MB; check w". Release: who takes the timeout finds it in its row. */
		LONG.setRelease(slots, index * SLOT + WORD, word);
		VarHandle.fullFence();
		/* "If it is stopped: ... CAS(word, it, 0): won: the arming was refused." */
		if (check(index, word) || !cancel(place, arming)) {
			return true;
		}
		free(place, arming);
		return false;
	}

	/** Ends a timeout. Returns false: it has ended already. */
	boolean cancel(int place, int arming) {
		int at = (place & INDEX) * SLOT + WORD;
		long old = (long)LONG.getOpaque(slots, at);

		/* "CAS(word, old, 0), or it has ended". */
		while (old != 0 && (old & ARMING) == arming) {
			if (LONG.compareAndSet(slots, at, old, 0L)) {
				return true;
			}
			old = (long)LONG.getOpaque(slots, at);
		}
		return false;
	}

	/** Gives a timeout another deadline. Returns false: it has ended. */
	boolean touch(int place, int arming, long deadlineNs) {
		int index = place & INDEX, at = index * SLOT + WORD;
		long old = (long)LONG.getOpaque(slots, at), word = word(deadlineNs, arming);

		/* "CAS(word, old, w), or it has ended; if w is before old: MB; check w". */
		while (old != 0 && (old & ARMING) == arming) {
			if (LONG.compareAndSet(slots, at, old, word)) {
				if (before(word, old)) {
					VarHandle.fullFence();
					check(index, word);
				}
				return true;
			}
			old = (long)LONG.getOpaque(slots, at);
		}
		return false;
	}

	/* See that the kernel looks in time. Returns false: the table is stopped. */
	private boolean check(int index, long word) {
		/* "v = visit; if v is not 0 and w >= v: done". After the fence of the caller. */
		long visit = (long)LONG.getOpaque(slots, index * SLOT + VISIT);

		return visit != 0 && !before(word, visit) || ask(index, visit);
	}

	/* The rare part of check(). */
	private boolean ask(int index, long visit) {
		if (visit != 0) {
			/* "If v is not 0: visit = 0; MB; push the slot". */
			LONG.setOpaque(slots, index * SLOT + VISIT, 0L);
			VarHandle.fullFence();
			push(index);
		}
		/* "Then MB; if STOPPED is in flags: it is stopped, done". */
		VarHandle.fullFence();
		if (isStopped()) {
			return false;
		}
		/* "Otherwise read the word again: if it is armed and before kick_before: ENTER". */
		long word = (long)LONG.getOpaque(slots, index * SLOT + WORD);
		if (word != 0 && before(word, (long)LONG.getOpaque(head, KICK_BEFORE))) {
			enter(handle);
		}
		return true;
	}

	private boolean isStopped() {
		return ((int)INT.getOpaque(head, FLAGS) & STOPPED) != 0;
	}

	private void push(int index) {
		int at = index * SLOT + NEXT, first;

		/* "if CAS(next, 0, 1) fails: done, it is pushed already". Both CAS release. */
		if (!INT.compareAndSet(slots, at, LINK_NONE, LINK_END)) {
			return;
		}
		/* "do h = pushed, next = h; until CAS(pushed, h, index + 2) succeeds" */
		do {
			first = (int)INT.getOpaque(head, PUSHED);
			INT.setOpaque(slots, at, first);
		} while (!INT.compareAndSet(head, PUSHED, first, index + LINK_INDEX));
	}

	/**
	 * Looks at a slot that await() has found. Returns the timeout that was taken, whose slot is
	 * to be freed, or null: it is not due.
	 */
	HwTimer.HwTimeout look(int index) {
		int at = index * SLOT + WORD;
		long now = System.nanoTime() >>> UNIT_SHIFT, word = (long)LONG.getOpaque(slots, at);

		for (int i = 0; word != 0 && word >>> ARMING_BITS <= now && i < TRIES; i++) {
			/* "Due: CAS(word, w, 0)". It acquires what arm() released. */
			if (LONG.compareAndSet(slots, at, word, 0L)) {
				return timeout(index);
			}
			word = (long)LONG.getOpaque(slots, at);
		}
		/* "Not due, or lost too often: MB; check w". */
		VarHandle.fullFence();
		if (word != 0) {
			check(index, word);
		}
		return null;
	}

	/** The timeout of a slot if it is armed, or null. It may end at any time. */
	HwTimer.HwTimeout armed(int index) {
		/* Acquire: as arm() releases. */
		return (long)LONG.getAcquire(slots, index * SLOT + WORD) == 0 ? null : timeout(index);
	}

	/* There is no row if somebody else has grown the table, and invented a timeout. */
	private HwTimer.HwTimeout timeout(int index) {
		HwTimer.HwTimeout[] row = timeouts[index >> ROW_BITS];

		return row == null ? null : row[index & ROW - 1];
	}

	/* Those that return a number return a negative error number after an error. */
	static native long open(long tickNs, int timeouts);
	static native void close(long handle);
	static native boolean inProcess(long handle);
	static native long now();
	static native String text(int error);
	/* The slots, or the header. */
	private static native ByteBuffer memory(long handle, boolean slots);
	/* Have so many slots, at least. Returns how many there are. */
	private static native int grow(long handle, int slots);
	/* It fails only if the program is being killed. */
	private static native void enter(long handle);
	/* Wait for slots to look at. Returns how many were found; 0: the table is stopped. */
	static native int await(long handle, int[] found);
	static native void stop(long handle);
}
