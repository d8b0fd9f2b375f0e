// SPDX-License-Identifier: GPL-2.0-only
import hwtimer.HwTimer;
import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.Timer;
import io.netty.util.TimerTask;
import java.io.IOException;
import java.lang.management.*;
import java.nio.file.*;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.*;
import java.util.stream.Stream;

/*
 * Measure HwTimer and other timers of Java. Times are medians of the rounds, without the first, with
 * the least and the most. "caller" is the CPU time of the threads that make the calls, "total" that
 * of all threads: the timer, the garbage collector and the compilers.
 *
 *	Measure calls TIMER PENDING ROUNDS
 *					CPU time of calls with so many timeouts pending, in ns; TIMER:
 *					hwtimer, touchAt (which pushes back by that), netty
 *					(HashedWheelTimer), util (java.util.Timer) or pool
 *					(ScheduledThreadPoolExecutor)
 *	Measure burst COUNT ROUNDS	schedule so many timeouts of 125 ms, with a tick of 200 ms, at
 *					once, as testExecutionOnTime does: until the last call has
 *					returned, until the last task has run, and the CPU time, in ns
 *					for each
 *	Measure idle TIMER PENDING S	in S seconds in which nothing expires, how often the thread of
 *					the timer woke up, per second; TIMER: hwtimer or netty
 */
public class Measure {
	private static final int OPERATIONS = 500000, PORTION = 50000;
	private static final TimerTask NOTHING = timeout -> { };
	/* The main thread, and that of the timer. */
	private static final String THREADS = "pool|java";
	private static final ThreadMXBean THREAD = ManagementFactory.getThreadMXBean();

	private interface Round {
		/* Returns results, in ns for each operation. */
		double[] run() throws Exception;
	}

	/* A timer whose timeouts are of type T. */
	private interface Subject<T> {
		T make(int seconds);
		void cancel(T timeout);

		default T pushBack(T timeout, int seconds) {
			cancel(timeout);
			return make(seconds);
		}

		/* After many were cancelled. */
		default void tidy() {
		}
	}

	/* at: to push back, the clock need not be read. */
	private static Subject<HwTimer.HwTimeout> hwtimer(boolean at) {
		HwTimer timer = new HwTimer();
		long now = System.nanoTime();
		return new Subject<>() {
			@Override
			public HwTimer.HwTimeout make(int seconds) {
				return timer.newTimeout(NOTHING, seconds, TimeUnit.SECONDS);
			}

			@Override
			public void cancel(HwTimer.HwTimeout timeout) {
				timeout.cancel();
			}

			@Override
			public HwTimer.HwTimeout pushBack(HwTimer.HwTimeout timeout, int seconds) {
				if (at) {
					timeout.touchAt(now + seconds * 1000000000L);
				} else {
					timeout.touch(seconds, TimeUnit.SECONDS);
				}
				return timeout;
			}
		};
	}

	private static Subject<Timeout> netty() {
		HashedWheelTimer timer = new HashedWheelTimer();
		return new Subject<>() {
			@Override
			public Timeout make(int seconds) {
				return timer.newTimeout(NOTHING, seconds, TimeUnit.SECONDS);
			}

			@Override
			public void cancel(Timeout timeout) {
				timeout.cancel();
			}
		};
	}

	/* A task that was cancelled stays until it is due, or purge(). */
	private static Subject<java.util.TimerTask> util() {
		java.util.Timer timer = new java.util.Timer(true);
		return new Subject<>() {
			@Override
			public java.util.TimerTask make(int seconds) {
				java.util.TimerTask task = new java.util.TimerTask() {
					@Override
					public void run() {
					}
				};
				timer.schedule(task, seconds * 1000L);
				return task;
			}

			@Override
			public void cancel(java.util.TimerTask task) {
				task.cancel();
			}

			@Override
			public void tidy() {
				timer.purge();
			}
		};
	}

	private static Subject<Future<?>> pool() {
		ScheduledThreadPoolExecutor pool = new ScheduledThreadPoolExecutor(1);
		Runnable nothing = () -> { };
		pool.setRemoveOnCancelPolicy(true);
		return new Subject<>() {
			@Override
			public Future<?> make(int seconds) {
				return pool.schedule(nothing, seconds, TimeUnit.SECONDS);
			}

			@Override
			public void cancel(Future<?> future) {
				future.cancel(false);
			}
		};
	}

	private static void measure(String timer, int size, int rounds, Round round, String... names)
			throws Exception {
		double[][] ns = new double[rounds][];
		round.run();
		for (int i = 0; i < rounds; i++) {
			ns[i] = round.run();
		}
		for (int k = 0; k < names.length; k++) {
			int which = k;
			double[] sorted = Stream.of(ns).mapToDouble(r -> r[which]).sorted().toArray();
			System.out.printf("%s %s %d %.0f (%.0f to %.0f)%n", names[k], timer, size,
				sorted[rounds / 2], sorted[0], sorted[rounds - 1]);
		}
	}

	/* The CPU time of this thread. */
	private static long callerNs() {
		return THREAD.getCurrentThreadCpuTime();
	}

	private static <T> void both(Subject<T> timer) {
		for (int i = 0; i < OPERATIONS; i++) {
			timer.cancel(timer.make(3600));
			if (i % PORTION == PORTION - 1) {
				timer.tidy();
			}
		}
	}

	/* Two threads schedule and cancel. */
	private static <T> double[] two(Subject<T> timer) throws Exception {
		FutureTask<Long> other = new FutureTask<>(() -> {
			long start = callerNs();
			both(timer);
			return callerNs() - start;
		});
		Thread thread = new Thread(other);
		thread.start();
		long caller = callerNs();
		both(timer);
		caller = callerNs() - caller + other.get();
		thread.join();
		return new double[] { caller / 2.0 / OPERATIONS };
	}

	private static <T> void calls(String name, Subject<T> timer, int pending, int rounds)
			throws Exception {
		List<T> all = new ArrayList<>();
		for (int i = 0; i < pending; i++) {
			all.add(timer.make(3600 + i % 3600));
		}
		List<T> made = new ArrayList<>(PORTION);
		measure(name, pending, rounds, () -> {
			long create = 0, cancel = 0;
			for (int i = 0; i < OPERATIONS / PORTION; i++) {
				long start = callerNs();
				for (int k = 0; k < PORTION; k++) {
					made.add(timer.make(3600));
				}
				long between = callerNs();
				for (T timeout : made) {
					timer.cancel(timeout);
				}
				timer.tidy();
				create += between - start;
				cancel += callerNs() - between;
				made.clear();
			}
			return new double[] { (double)create / OPERATIONS, (double)cancel / OPERATIONS };
		}, "newTimeout_caller", "cancel_caller");
		measure(name, pending, rounds, () -> {
			long caller = callerNs(), total = cpuNs();
			both(timer);
			return new double[] { (double)(callerNs() - caller) / OPERATIONS,
				(double)(cpuNs() - total) / OPERATIONS };
		}, "both_caller", "both_total");
		/* What a server does for each message: its connection's timeout is pushed back. */
		measure(name, pending, rounds, () -> {
			long caller = callerNs(), total = cpuNs();
			int k = 0;
			for (int i = 0; i < OPERATIONS; i++) {
				k = (k + 7919) % pending;
				all.set(k, timer.pushBack(all.get(k), 7200));
			}
			timer.tidy();
			return new double[] { (double)(callerNs() - caller) / OPERATIONS,
				(double)(cpuNs() - total) / OPERATIONS };
		}, "push_back_caller", "push_back_total");
		measure(name, pending, rounds, () -> two(timer), "two_threads_caller");
	}

	private static void burst(String name, Timer timer, int count, int rounds) throws Exception {
		measure(name, count, rounds, () -> {
			CountDownLatch left = new CountDownLatch(count);
			TimerTask task = timeout -> left.countDown();
			long cpu = cpuNs(), start = System.nanoTime();
			for (int i = 0; i < count; i++) {
				timer.newTimeout(task, 125, TimeUnit.MILLISECONDS);
			}
			long called = System.nanoTime() - start;
			left.await();
			return new double[] { (double)called / count,
				(double)(System.nanoTime() - start) / count,
				(double)(cpuNs() - cpu) / count };
		}, "burst_calls", "burst_all", "burst_cpu");
		timer.stop();
	}

	/* The contents of a file of each thread of the process. */
	private static List<String> ofThreads(String file) throws IOException {
		List<String> all = new ArrayList<>();
		try (Stream<Path> tasks = Files.list(Path.of("/proc/self/task"))) {
			for (Path task : (Iterable<Path>)tasks::iterator) {
				try {
					all.add(Files.readString(task.resolve(file)));
				} catch (IOException e) {
					/* It has ended. */
				}
			}
		}
		return all;
	}

	/* The CPU time of the process, without threads that have ended. */
	private static long cpuNs() throws IOException {
		return ofThreads("schedstat").stream()
			.mapToLong(text -> Long.parseLong(text.split(" ")[0])).sum();
	}

	/* How often the threads whose names match went to sleep. */
	private static long sleeps(String names) throws IOException {
		return ofThreads("status").stream()
			.filter(text -> text.matches("(?s)Name:\\s+(" + names + ").*"))
			.mapToLong(text -> Long.parseLong(text.replaceAll(
				"(?s).*\nvoluntary_ctxt_switches:\\s+(\\d+).*", "$1"))).sum();
	}

	private static void idle(String name, Timer timer, int pending, int seconds) throws Exception {
		for (int i = 0; i < pending; i++) {
			timer.newTimeout(NOTHING, 3600 + i % 3600, TimeUnit.SECONDS);
		}
		if (timer instanceof HwTimer) {
			((HwTimer)timer).start();
		} else {
			((HashedWheelTimer)timer).start();
		}
		/* The wheel has taken all by then, and the compilers have come to rest. */
		Thread.sleep(5000);
		long before = sleeps(THREADS), cpu = cpuNs();
		Thread.sleep(seconds * 1000L);
		System.out.printf("idle %s %d wakeups %.1f cpu_ms %d java_threads %d%n", name, pending,
			(double)(sleeps(THREADS) - before) / seconds, (cpuNs() - cpu) / 1000000,
			Thread.activeCount());
	}

	private static Subject<?> subject(String name) {
		switch (name) {
		case "hwtimer": return hwtimer(false);
		case "touchAt": return hwtimer(true);
		case "netty": return netty();
		case "util": return util();
		case "pool": return pool();
		default: throw new IllegalArgumentException(name);
		}
	}

	public static void main(String[] args) throws Exception {
		if (args[0].equals("idle")) {
			idle(args[1], args[1].equals("hwtimer") ? new HwTimer() : new HashedWheelTimer(),
				Integer.parseInt(args[2]), Integer.parseInt(args[3]));
		} else if (args[0].equals("calls")) {
			calls(args[1], subject(args[1]), Integer.parseInt(args[2]),
				Integer.parseInt(args[3]));
		} else {
			int size = Integer.parseInt(args[1]), rounds = Integer.parseInt(args[2]);
			burst("hwtimer", new HwTimer(200, TimeUnit.MILLISECONDS), size, rounds);
			burst("netty", new HashedWheelTimer(200, TimeUnit.MILLISECONDS), size, rounds);
		}
		System.exit(0);
	}
}
