// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package hwtimer;

import io.netty.util.ResourceLeakDetector;
import io.netty.util.ResourceLeakDetectorFactory;
import io.netty.util.ResourceLeakTracker;
import io.netty.util.Timeout;
import io.netty.util.Timer;
import io.netty.util.TimerTask;
import io.netty.util.internal.logging.InternalLogger;
import io.netty.util.internal.logging.InternalLoggerFactory;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.Collections;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/**
 * A {@link Timer} on libhwtimer, with the constructors and methods of Netty's HashedWheelTimer,
 * and with {@link HwTimeout#touch}, which pushes a timeout back.
 *
 * <p>The kernel keeps the timeouts. The thread that runs the tasks sleeps until one expires. As
 * with HashedWheelTimer, tasks run in that thread, or the executor that was given, and a timeout
 * expires at the first tick at or after its deadline. Timers with the same tick have their ticks at
 * the same time. The wheel is one that programs share, so the number of ticks per wheel has no
 * effect.
 *
 * <p>Any thread may call any method at any time. The exception is {@link #stop}: not from a task
 * that runs in the timer's thread. A task runs exactly once, unless {@link Timeout#cancel} returned
 * true or {@link #stop} returned the timeout. Descriptors and memory of a stopped timer are freed
 * when the garbage collector finds that nobody refers to it.
 */
public class HwTimer implements Timer {
	private static final InternalLogger logger = InternalLoggerFactory.getInstance(HwTimer.class);
	private static final ResourceLeakDetector<HwTimer> leakDetector =
		ResourceLeakDetectorFactory.instance().newResourceLeakDetector(HwTimer.class, 1);
	private static final Cleaner cleaner = Cleaner.create();
	private static final AtomicInteger instances = new AtomicInteger();
	private static final int INSTANCES_MAX = 64;
	private static final long MIN_TICK_NS = 1000000;
	private static final int BATCH = 256;
	/* Bit of a cookie that wait() stores: the timeout did not expire, stop() ended it. */
	private static final long HANDED_BACK = 1L << 62;

	private static final int INIT = 0, STARTED = 1, SHUTDOWN = 2;

	private static final Throwable unavailable = load();

	private final long handle;
	/* Is System.nanoTime() the clock of the handle? It is with OpenJDK. */
	private final boolean nanoTime;
	private final long tickNs;
	private final long maxPending;
	/* With a maximum the count must be exact at each moment. */
	private final AtomicLong exact;
	private final LongAdder count;
	private final Executor executor;
	private final Slots<HwTimeout> slots = new Slots<>();
	private final Thread thread;
	private final ResourceLeakTracker<HwTimer> leak;
	private final Set<Timeout> unprocessed = new HashSet<>();
	/*
	 * It is changed under its own monitor, so that stop() finds the thread either started or never
	 * to be started.
	 */
	private final AtomicInteger state = new AtomicInteger(INIT);

	/**
	 * Can timers be created? The library loads, and a handle can be opened, on the device or in the
	 * process.
	 */
	public static boolean isAvailable() {
		return unavailabilityCause() == null;
	}

	/** Why not; null if they can. */
	public static Throwable unavailabilityCause() {
		if (unavailable != null) {
			return unavailable;
		}
		long handle = open();
		if (handle == 0) {
			return new IllegalStateException(cannotOpen());
		}
		close(handle);
		return null;
	}

	public HwTimer() {
		this(Executors.defaultThreadFactory());
	}

	public HwTimer(long tickDuration, TimeUnit unit) {
		this(Executors.defaultThreadFactory(), tickDuration, unit);
	}

	public HwTimer(long tickDuration, TimeUnit unit, int ticksPerWheel) {
		this(Executors.defaultThreadFactory(), tickDuration, unit, ticksPerWheel);
	}

	public HwTimer(ThreadFactory threadFactory) {
		this(threadFactory, 100, TimeUnit.MILLISECONDS);
	}

	public HwTimer(ThreadFactory threadFactory, long tickDuration, TimeUnit unit) {
		this(threadFactory, tickDuration, unit, 512);
	}

	public HwTimer(ThreadFactory threadFactory, long tickDuration, TimeUnit unit,
		       int ticksPerWheel) {
		this(threadFactory, tickDuration, unit, ticksPerWheel, true);
	}

	public HwTimer(ThreadFactory threadFactory, long tickDuration, TimeUnit unit,
		       int ticksPerWheel, boolean leakDetection) {
		this(threadFactory, tickDuration, unit, ticksPerWheel, leakDetection, -1);
	}

	public HwTimer(ThreadFactory threadFactory, long tickDuration, TimeUnit unit,
		       int ticksPerWheel, boolean leakDetection, long maxPendingTimeouts) {
		this(threadFactory, tickDuration, unit, ticksPerWheel, leakDetection,
		     maxPendingTimeouts, Runnable::run);
	}

	/**
	 * Creates a timer.
	 *
	 * @param threadFactory creates the thread that waits for timeouts
	 * @param tickDuration the tick; at least 1 ms
	 * @param unit its unit
	 * @param ticksPerWheel checked as by HashedWheelTimer, and without effect
	 * @param leakDetection report a timer that was not stopped, even if its thread is a daemon
	 * @param maxPendingTimeouts the most timeouts that may be pending; 0 or less: no maximum
	 * @param taskExecutor runs the tasks
	 * @throws IllegalStateException the library cannot be loaded, or no handle be opened
	 */
	public HwTimer(ThreadFactory threadFactory, long tickDuration, TimeUnit unit,
		       int ticksPerWheel, boolean leakDetection, long maxPendingTimeouts,
		       Executor taskExecutor) {
		Objects.requireNonNull(threadFactory, "threadFactory");
		Objects.requireNonNull(unit, "unit");
		executor = Objects.requireNonNull(taskExecutor, "taskExecutor");
		if (tickDuration <= 0) {
			throw new IllegalArgumentException("tickDuration: " + tickDuration +
				" (expected: > 0)");
		}
		if (ticksPerWheel <= 0 || ticksPerWheel > 1 << 30) {
			throw new IllegalArgumentException("ticksPerWheel: " + ticksPerWheel +
				" (expected: 1 to 2^30)");
		}
		int slotsOfWheel = ticksPerWheel == 1 ? 1 :
			Integer.highestOneBit(ticksPerWheel - 1) << 1;
		long ns = unit.toNanos(tickDuration);
		if (ns >= Long.MAX_VALUE / slotsOfWheel) {
			throw new IllegalArgumentException("tickDuration: " + tickDuration +
				" (expected: in ns < " + Long.MAX_VALUE / slotsOfWheel + ")");
		}
		if (ns < MIN_TICK_NS) {
			logger.warn("tickDuration {} is less than 1 ms, using 1 ms.", tickDuration);
			ns = MIN_TICK_NS;
		}
		tickNs = ns;
		maxPending = maxPendingTimeouts;
		exact = maxPending > 0 ? new AtomicLong() : null;
		count = maxPending > 0 ? null : new LongAdder();
		if (unavailable != null) {
			throw new IllegalStateException("cannot load the library", unavailable);
		}
		thread = threadFactory.newThread(this::work);
		long opened = open();
		if (opened == 0) {
			throw new IllegalStateException(cannotOpen());
		}
		handle = opened;
		cleaner.register(this, () -> close(opened));
		long before = System.nanoTime();
		long now = now(handle);
		nanoTime = before <= now && now <= System.nanoTime();
		leak = leakDetection || !thread.isDaemon() ? leakDetector.track(this) : null;
		if (instances.incrementAndGet() == INSTANCES_MAX + 1) {
			logger.error("There are more than {} HwTimer instances. Share one.",
				     INSTANCES_MAX);
		}
	}

	/**
	 * Starts the timer's thread. The first {@link #newTimeout} does so too.
	 *
	 * @throws IllegalStateException the timer was stopped
	 */
	public void start() {
		synchronized (state) {
			if (state.get() == INIT) {
				/* If there is no memory for a thread, another call may try again. */
				thread.start();
				state.set(STARTED);
			} else if (state.get() == SHUTDOWN) {
				throw new IllegalStateException("cannot be started once stopped");
			}
		}
	}

	/**
	 * Schedules a task.
	 *
	 * @throws IllegalStateException the timer was stopped
	 * @throws RejectedExecutionException too many timeouts are pending, or the kernel refuses
	 *	more memory
	 */
	@Override
	public HwTimeout newTimeout(TimerTask task, long delay, TimeUnit unit) {
		Objects.requireNonNull(task, "task");
		Objects.requireNonNull(unit, "unit");
		if (state.get() != STARTED) {
			start();
		}
		add(1);
		HwTimeout timeout;
		int slot;
		try {
			timeout = new HwTimeout(this, task);
			slot = slots.put(timeout);
		} catch (Throwable e) {
			/* There is no memory for it, so it does not count. */
			add(-1);
			throw e;
		}
		timeout.slot = slot;
		long id = slot < 0 ? 0 : schedule(handle, deadline(unit.toNanos(delay)), slot);
		Reference.reachabilityFence(this);
		if (id == 0) {
			int error = slot < 0 ? 0 : lastError();
			if (slot >= 0) {
				slots.remove(slot);
			}
			add(-1);
			if (error != 0 && isShutdown(error)) {
				throw new IllegalStateException("cannot be started once stopped");
			}
			throw new RejectedExecutionException(error == 0 ? "too many timeouts" :
				text(error));
		}
		HwTimeout.ID.setRelease(timeout, id);
		return timeout;
	}

	/**
	 * Stops the timer, and waits for the task that is running. The thread is interrupted, as by
	 * HashedWheelTimer.
	 *
	 * @return the timeouts that neither expired nor were cancelled; for a second caller none
	 * @throws IllegalStateException called from a task in the timer's thread
	 */
	@Override
	public Set<Timeout> stop() {
		if (Thread.currentThread() == thread) {
			throw new IllegalStateException("HwTimer.stop() cannot be called from TimerTask");
		}
		int before;
		synchronized (state) {
			before = state.getAndSet(SHUTDOWN);
		}
		if (before == SHUTDOWN) {
			return Collections.emptySet();
		}
		/*
		 * A concurrent newTimeout() either schedules before this, and the thread gets the
		 * timeout back, or is refused. The thread ends when it has got all of them back.
		 */
		shutdown(handle);
		boolean interrupted = false;
		while (before == STARTED && thread.isAlive()) {
			thread.interrupt();
			try {
				thread.join(100);
			} catch (InterruptedException e) {
				interrupted = true;
			}
		}
		if (interrupted) {
			Thread.currentThread().interrupt();
		}
		instances.decrementAndGet();
		if (leak != null) {
			leak.close(this);
		}
		Reference.reachabilityFence(this);
		return unprocessed;
	}

	/** How many timeouts are pending. */
	public long pendingTimeouts() {
		return exact != null ? exact.get() : count.sum();
	}

	private void add(int n) {
		if (exact == null) {
			count.add(n);
			return;
		}
		long pending = exact.addAndGet(n);
		if (n > 0 && pending > maxPending) {
			exact.decrementAndGet();
			throw new RejectedExecutionException("Number of pending timeouts (" + pending +
				") is greater than or equal to maximum allowed pending timeouts (" +
				maxPending + ")");
		}
	}

	/* The end of the tick in which a timeout of this delay is due. */
	private long deadline(long delayNs) {
		long now = nanoTime ? System.nanoTime() : now(handle);
		if (delayNs <= 0) {
			return now;
		}
		if (delayNs > Long.MAX_VALUE - tickNs - now) {
			return Long.MAX_VALUE;
		}
		long end = now + delayNs + tickNs - 1;
		return end - end % tickNs;
	}

	private void work() {
		long[] cookies = new long[BATCH];
		int n;

		while ((n = await(handle, cookies)) >= 0) {
			for (int i = 0; i < n; i++) {
				int slot = (int)cookies[i];
				HwTimeout timeout = slots.remove(slot);
				if ((cookies[i] & HANDED_BACK) == 0) {
					timeout.expire();
				} else if (timeout.handBack()) {
					unprocessed.add(timeout);
					add(-1);
				}
			}
		}
		if (!isShutdown(-n)) {
			logger.error("HwTimer ends: {}", text(-n));
		}
	}

	private static String cannotOpen() {
		return "cannot open a handle: " + text(lastError());
	}

	private static Throwable load() {
		try {
			System.loadLibrary("hwtimer_jni");
			return null;
		} catch (Throwable e) {
			return e;
		}
	}

	/* Those that return a handle or an id return 0 after an error, and lastError() tells it. */
	private static native long open();
	private static native void close(long handle);
	private static native long now(long handle);
	private static native long schedule(long handle, long deadlineNs, long cookie);
	private static native int touch(long handle, long id, long deadlineNs);
	private static native int cancel(long handle, long id);
	private static native int await(long handle, long[] cookies);
	private static native int shutdown(long handle);
	private static native int lastError();
	private static native boolean isShutdown(int error);
	private static native String text(int error);

	/**
	 * A timeout of a {@link HwTimer}.
	 *
	 * Who turns the state from PENDING to something else decides what becomes of it. The slot is
	 * freed by who makes sure that no event will use it: who has cancelled successfully in the
	 * kernel, or the timer's thread when it has the event.
	 */
	public static final class HwTimeout implements Timeout, Runnable {
		static final int PENDING = 0, EXPIRED = 1, CANCELLED = 2, HANDED_BACK = 3;
		private static final VarHandle STATE, ID;

		static {
			try {
				MethodHandles.Lookup lookup = MethodHandles.lookup();
				STATE = lookup.findVarHandle(HwTimeout.class, "state", int.class);
				ID = lookup.findVarHandle(HwTimeout.class, "id", long.class);
			} catch (ReflectiveOperationException e) {
				throw new ExceptionInInitializerError(e);
			}
		}

		private final HwTimer timer;
		private final TimerTask task;
		/*
		 * Set before newTimeout() returns; the timer's thread does not need them. The id is
		 * set with release after the slot, and read with acquire before it. So a thread
		 * that got the timeout by a data race may see no id yet, which the kernel rejects,
		 * but never another timeout's slot.
		 */
		private int slot;
		private long id;
		private volatile int state;

		HwTimeout(HwTimer timer, TimerTask task) {
			this.timer = timer;
			this.task = task;
		}

		@Override
		public Timer timer() {
			return timer;
		}

		@Override
		public TimerTask task() {
			return task;
		}

		@Override
		public boolean isExpired() {
			return state == EXPIRED;
		}

		@Override
		public boolean isCancelled() {
			return state == CANCELLED;
		}

		@Override
		public boolean cancel() {
			if (!STATE.compareAndSet(this, PENDING, CANCELLED)) {
				return STATE.compareAndSet(this, HANDED_BACK, CANCELLED);
			}
			if (HwTimer.cancel(timer.handle, (long)ID.getAcquire(this)) == 0) {
				timer.slots.remove(slot);
			}
			timer.add(-1);
			Reference.reachabilityFence(timer);
			return true;
		}

		/**
		 * Gives the timeout a new deadline, this long from now, earlier or later.
		 *
		 * @return true: the task will not run before the new deadline; false: it has run,
		 *	is about to run, or will never run
		 */
		public boolean touch(long delay, TimeUnit unit) {
			boolean touched = state == PENDING &&
				HwTimer.touch(timer.handle, (long)ID.getAcquire(this),
					      timer.deadline(unit.toNanos(delay))) == 0;
			Reference.reachabilityFence(timer);
			return touched;
		}

		boolean handBack() {
			return STATE.compareAndSet(this, PENDING, HANDED_BACK);
		}

		void expire() {
			if (!STATE.compareAndSet(this, PENDING, EXPIRED)) {
				return;
			}
			timer.add(-1);
			try {
				timer.executor.execute(this);
			} catch (Throwable e) {
				logger.warn("The executor did not accept a TimerTask.", e);
			}
		}

		/** Runs the task. The timer calls this. */
		@Override
		public void run() {
			try {
				task.run(this);
			} catch (Throwable e) {
				logger.warn("An exception was thrown by TimerTask.", e);
			}
		}

		@Override
		public String toString() {
			return "HwTimeout(" + (isCancelled() ? "cancelled, " : isExpired() ?
				"expired, " : "") + "task: " + task + ')';
		}
	}
}
