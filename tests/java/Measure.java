// SPDX-License-Identifier: GPL-2.0-only
import hwtimer.HwTimer;
import io.netty.util.*;
import java.io.IOException;
import java.nio.file.*;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/*
 * Measure HwTimer and Netty's HashedWheelTimer. Times are medians of the rounds, without the first,
 * with the least and the most. CPU time is that of all threads: those of the caller,
 * the timer, the wheel, the garbage collector and the compilers.
 *
 *	Measure calls PENDING ROUNDS	CPU time of calls with so many timeouts pending, in ns
 *	Measure burst COUNT ROUNDS	schedule so many timeouts of 125 ms, with a tick of 200 ms, at
 *					once, as testExecutionOnTime does: until the last call has
 *					returned, until the last task has run, and the CPU time, in ns
 *					for each
 *	Measure idle TIMER PENDING S	in S seconds in which nothing expires, how often the threads of
 *					the timer and of the wheel woke up, per second; TIMER: hwtimer or
 *					netty
 */
public class Measure {
	private static final int OPERATIONS = 500000;
	private static final TimerTask NOTHING = timeout -> { };
	/* The main thread, and those of the timers and of the wheel. */
	private static final String THREADS = "pool|java";

	private interface Round {
		/* Returns results, in ns for each operation. */
		double[] run() throws Exception;
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

	private static void calls(String name, Timer timer, int pending, int rounds) throws Exception {
		Timeout[] all = new Timeout[pending];
		for (int i = 0; i < pending; i++) {
			all[i] = timer.newTimeout(NOTHING, 3600 + i % 3600, TimeUnit.SECONDS);
		}
		Timeout[] made = new Timeout[OPERATIONS / 10];
		measure(name, pending, rounds, () -> {
			long create = 0, cancel = 0;
			for (int i = 0; i < OPERATIONS / made.length; i++) {
				long start = cpuNs();
				for (int k = 0; k < made.length; k++) {
					made[k] = timer.newTimeout(NOTHING, 3600, TimeUnit.SECONDS);
				}
				long between = cpuNs();
				for (Timeout timeout : made) {
					timeout.cancel();
				}
				create += between - start;
				cancel += cpuNs() - between;
			}
			return new double[] { (double)create / OPERATIONS, (double)cancel / OPERATIONS };
		}, "newTimeout", "cancel");
		measure(name, pending, rounds, () -> {
			long start = cpuNs();
			for (int i = 0; i < OPERATIONS; i++) {
				timer.newTimeout(NOTHING, 3600, TimeUnit.SECONDS).cancel();
			}
			return new double[] { (double)(cpuNs() - start) / OPERATIONS };
		}, "newTimeout+cancel");
		/* What a server does for each message: its connection's timeout is pushed back. */
		measure(name, pending, rounds, () -> {
			long start = cpuNs();
			int k = 0;
			for (int i = 0; i < OPERATIONS; i++) {
				k = (k + 7919) % pending;
				if (all[k] instanceof HwTimer.HwTimeout) {
					((HwTimer.HwTimeout)all[k]).touch(7200, TimeUnit.SECONDS);
				} else {
					all[k].cancel();
					all[k] = timer.newTimeout(NOTHING, 7200, TimeUnit.SECONDS);
				}
			}
			return new double[] { (double)(cpuNs() - start) / OPERATIONS };
		}, "push_back");
		timer.stop();
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
	static long cpuNs() throws IOException {
		return ofThreads("schedstat").stream()
			.mapToLong(text -> Long.parseLong(text.split(" ")[0])).sum();
	}

	/* How often the threads whose names match went to sleep. */
	static long sleeps(String names) throws IOException {
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

	public static void main(String[] args) throws Exception {
		if (args[0].equals("idle")) {
			idle(args[1], args[1].equals("hwtimer") ? new HwTimer() : new HashedWheelTimer(),
				Integer.parseInt(args[2]), Integer.parseInt(args[3]));
			System.exit(0);
		}
		int size = Integer.parseInt(args[1]), rounds = Integer.parseInt(args[2]);
		if (args[0].equals("calls")) {
			calls("hwtimer", new HwTimer(), size, rounds);
			calls("netty", new HashedWheelTimer(), size, rounds);
		} else {
			burst("hwtimer", new HwTimer(200, TimeUnit.MILLISECONDS), size, rounds);
			burst("netty", new HashedWheelTimer(200, TimeUnit.MILLISECONDS), size, rounds);
		}
		System.exit(0);
	}
}
