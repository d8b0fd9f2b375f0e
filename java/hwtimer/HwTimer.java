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

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
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

/**
 * A {@link Timer} on /dev/hwtimer or, without it, in the process, with the constructors and
 * methods of Netty's HashedWheelTimer, and with {@link HwTimeout#touch}, which pushes a timeout
 * back.
 *
 * <p>The timeouts are in memory that is shared with the kernel. The thread that runs the tasks
 * sleeps until one expires. As with HashedWheelTimer, tasks run in that thread, or the executor
 * that was given, and a timeout expires at the first tick at or after its deadline. Timers with the
 * same tick have their ticks at the same time. The number of ticks per wheel has no effect.
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
	private static final long MIN_TICK_NS = 1000000, MAX_TICK_NS = 10000000000L;

	private static final int INIT = 0, STARTED = 1, SHUTDOWN = 2;

	private static final Throwable unavailable = Native.load();

	private final Table table;
	private final int[] found = new int[Table.BATCH];
	private final Executor executor;
	private final Thread thread;
	private final ResourceLeakTracker<HwTimer> leak;
	/*
	 * It is changed under its own monitor, so that stop() finds the thread either started or never
	 * to be started.
	 */
	private final AtomicInteger state = new AtomicInteger(INIT);

	/** Does the native library load? */
	public static boolean isAvailable() {
		return unavailable == null;
	}

	/** Why not; null if it does. */
	public static Throwable unavailabilityCause() {
		return unavailable;
	}

	/** Is the timer in the process, because the program cannot open /dev/hwtimer? */
	public boolean inProcess() {
		boolean inProcess = Table.inProcess(table.handle);
		Reference.reachabilityFence(this);
		return inProcess;
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
	 * @param tickDuration the tick; at least 1 ms, at most 10 s, rounded up to 65,536 ns
	 * @param unit its unit
	 * @param ticksPerWheel checked as by HashedWheelTimer, and without effect
	 * @param leakDetection report a timer that was not stopped, even if its thread is a daemon
	 * @param maxPendingTimeouts the most timeouts that may be pending; 0 or less: no maximum
	 * @param taskExecutor runs the tasks
	 * @throws IllegalStateException the library cannot be loaded, or there is no memory or
	 *	descriptor
	 */
	@SuppressWarnings("this-escape")	// to the cleaner, which keeps no reference
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
		} else if (ns > MAX_TICK_NS) {
			logger.warn("tickDuration {} is more than 10 s, using 10 s.", tickDuration);
			ns = MAX_TICK_NS;
		}
		if (unavailable != null) {
			throw new IllegalStateException("cannot load the library", unavailable);
		}
		thread = threadFactory.newThread(this::work);
		int limit = maxPendingTimeouts > 0 ? (int)Math.min(maxPendingTimeouts, Table.MAX) :
			Table.MAX;
		long handle = Table.open(ns, limit);
		if (handle < 0) {
			throw new IllegalStateException("cannot open a timer: " +
				Table.text((int)-handle));
		}
		cleaner.register(this, () -> Table.close(handle));
		table = new Table(handle, limit);
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
	 * @throws RejectedExecutionException too many timeouts are pending, or there is no memory
	 *	for more
	 */
	@Override
	public HwTimeout newTimeout(TimerTask task, long delay, TimeUnit unit) {
		Objects.requireNonNull(task, "task");
		Objects.requireNonNull(unit, "unit");
		if (state.get() != STARTED) {
			start();
		}
		long deadline = deadline(unit.toNanos(delay));
		HwTimeout timeout = new HwTimeout(this, task);
		boolean armed = table.arm(timeout, deadline);
		Reference.reachabilityFence(this);
		if (!armed) {
			throw new IllegalStateException("cannot be started once stopped");
		}
		return timeout;
	}

	/**
	 * Stops the timer, waits for the task that is running, and cancels all timeouts that are
	 * pending. The thread is interrupted, as by HashedWheelTimer.
	 *
	 * @return the timeouts that it cancelled; for a second caller none
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
		 * A concurrent newTimeout() either arms a slot before this, and it is found below,
		 * or is refused.
		 */
		Table.stop(table.handle);
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
		Set<Timeout> cancelled = new HashSet<>();
		for (int i = 0; i < table.size(); i++) {
			HwTimeout timeout = table.armed(i);
			if (timeout != null && timeout.cancel()) {
				cancelled.add(timeout);
			}
		}
		Reference.reachabilityFence(this);
		return cancelled;
	}

	/** How many timeouts are pending. It looks at each slot, 32 bytes, that was ever in use. */
	public long pendingTimeouts() {
		long pending = 0;
		for (int i = 0; i < table.size(); i++) {
			pending += table.armed(i) != null ? 1 : 0;
		}
		Reference.reachabilityFence(this);
		return pending;
	}

	private static long deadline(long delayNs) {
		long deadline = System.nanoTime() + Math.max(delayNs, 0);
		return deadline < 0 ? Long.MAX_VALUE : deadline;
	}

	private void work() {
		int n;

		while ((n = Table.await(table.handle, found)) > 0) {
			/* Those that are not looked at after a stop are pending. */
			for (int i = 0; i < n && state.get() != SHUTDOWN; i++) {
				HwTimeout timeout = table.look(found[i]);
				if (timeout != null) {
					/* What a task leaves does not reach the next one. */
					Thread.interrupted();
					timeout.expire();
				}
			}
		}
		if (n < 0) {
			logger.error("HwTimer ends: {}", Table.text(-n));
		}
	}

	/* The timer's thread does not end if there is no memory for the message. */
	private static void warn(String what, Throwable e) {
		try {
			logger.warn(what, e);
		} catch (Throwable another) {
			/* There is nobody to tell. */
		}
	}

	/**
	 * A timeout of a {@link HwTimer}.
	 *
	 * Who gets the word of its slot to 0 decides what becomes of it, sets the state, and frees
	 * the slot. So if the state is PENDING, the slot was not reused before it was read.
	 */
	public static final class HwTimeout implements Timeout, Runnable {
		private static final int PENDING = 1, EXPIRED = 2, CANCELLED = 3;
		private static final VarHandle STATE;
		/* TimerTask.cancelled(), which Netty 4.2 has; or null. */
		private static final MethodHandle TOLD;

		static {
			try {
				STATE = MethodHandles.lookup().findVarHandle(HwTimeout.class,
					"state", int.class);
			} catch (ReflectiveOperationException e) {
				throw new ExceptionInInitializerError(e);
			}
			MethodHandle told = null;
			try {
				told = MethodHandles.publicLookup().findVirtual(
					TimerTask.class, "cancelled",
					MethodType.methodType(void.class, Timeout.class));
			} catch (ReflectiveOperationException e) {
				/* It is Netty 4.1. */
			}
			TOLD = told;
		}

		private final HwTimer timer;
		private final TimerTask task;
		private int place;
		private int arming;
		/*
		 * Set with release, after the place and the arming, and before the slot is freed;
		 * read with acquire, before these and the word of the slot.
		 */
		private int state;

		HwTimeout(HwTimer timer, TimerTask task) {
			this.timer = timer;
			this.task = task;
		}

		/* What the table has for it. */
		void begin(int place, int arming) {
			this.place = place;
			this.arming = arming;
			STATE.setRelease(this, PENDING);
		}

		@Override
		public Timer timer() {
			return timer;
		}

		@Override
		public TimerTask task() {
			return task;
		}

		private boolean is(int what) {
			return (int)STATE.getAcquire(this) == what;
		}

		@Override
		public boolean isExpired() {
			return is(EXPIRED);
		}

		@Override
		public boolean isCancelled() {
			return is(CANCELLED);
		}

		@Override
		public boolean cancel() {
			boolean cancelled = is(PENDING) && timer.table.cancel(place, arming);
			if (cancelled) {
				end(CANCELLED);
				if (TOLD != null) {
					tell();
				}
			}
			Reference.reachabilityFence(this);
			return cancelled;
		}

		/**
		 * Gives the timeout a new deadline, this long from now, earlier or later.
		 *
		 * @return true: the task will not run before the new deadline; false: it has run,
		 *	is about to run, or will never run
		 */
		public boolean touch(long delay, TimeUnit unit) {
			return is(PENDING) && touchAt(deadline(unit.toNanos(delay)));
		}

		/**
		 * As {@link #touch}, to a time on the clock of {@link System#nanoTime}. To read
		 * that takes longer than the rest. A program that has read it anyway, once for
		 * several messages, passes it.
		 */
		public boolean touchAt(long deadlineNs) {
			boolean touched = is(PENDING) &&
				timer.table.touch(place, arming, Math.max(deadlineNs, 0));
			Reference.reachabilityFence(this);
			return touched;
		}

		private void end(int how) {
			STATE.setRelease(this, how);
			timer.table.free(place, arming);
		}

		private void tell() {
			try {
				TOLD.invokeExact(task, (Timeout)this);
			} catch (Throwable e) {
				warn("An exception was thrown by TimerTask.cancelled().", e);
			}
		}

		void expire() {
			end(EXPIRED);
			try {
				timer.executor.execute(this);
			} catch (Throwable e) {
				warn("The executor did not accept a TimerTask.", e);
			}
		}

		/** Runs the task. The timer calls this. */
		@Override
		public void run() {
			try {
				task.run(this);
			} catch (Throwable e) {
				warn("An exception was thrown by TimerTask.", e);
			}
		}

		@Override
		public String toString() {
			return "HwTimeout(" + (isCancelled() ? "cancelled, " : isExpired() ?
				"expired, " : "") + "task: " + task + ')';
		}
	}
}
