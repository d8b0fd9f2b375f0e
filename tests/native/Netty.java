// SPDX-License-Identifier: GPL-2.0-only
import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * The part of the native benchmark that measures Netty's HashedWheelTimer, see bench_netty.c.
 *
 *	java Netty PENDING
 *
 * Reads the numbers of rounds from standard input. For each it measures a round, and prints rows of
 * CSV, none for round 0, and an empty line. Before that, two rounds warm up.
 */
final class Netty {
	static final TimerTask NOTHING = timeout -> { };
	static final int TICK_MS = 10, IDLE = 100_000, OPS = 1_000_000, PORTION = 1000,
		DELAYS = 256, PARTS = 3;

	// They live as long as the program: the CPU time of a thread that has ended would be lost.
	static final ExecutorService others = Executors.newFixedThreadPool(3);

	static HashedWheelTimer timer;
	static Timeout[] timeouts;
	static int[] order;
	static int pending, idle, round;
	static long rest;	// the CPU time of settle() by itself
	static final long[] delays = new long[DELAYS];

	interface Work {
		void run(int first, int end);
	}

	static void report(String operation, int threads, double ns) {
		if (round != 0)
			System.out.printf("native,6.12,%d,netty,%s,%d,%d,%.3f,ns%n", threads, operation, pending,
					round, ns);
	}

	// The CPU time of all threads. The kernel updates that of a thread when it sleeps. All have
	// begun to sleep just before, in settle() or when they had no work left.
	static long cpu() throws IOException {
		long ns = 0;

		try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
			for (Path task : tasks)
				ns += Long.parseLong(Files.readString(task.resolve("schedstat")).split(" ")[0]);
		}
		return ns;
	}

	// Wait until the worker has done its part: a timeout queued after it has expired.
	static void settle() throws InterruptedException {
		CountDownLatch settled = new CountDownLatch(1);

		timer.newTimeout(timeout -> settled.countDown(), TICK_MS, TimeUnit.MILLISECONDS);
		settled.await();
	}

	static Timeout schedule(int n) {
		return timer.newTimeout(NOTHING, delays[n % DELAYS], TimeUnit.NANOSECONDS);
	}

	static void arm(int first, int end) {
		for (int i = first; i < end; i++)
			timeouts[order[i]] = schedule(order[i]);
	}

	static void cancel(int first, int end) {
		for (int i = first; i < end; i++)
			timeouts[order[i]].cancel();
	}

	static void armCancel(int first, int end) {
		for (int i = first; i < end; i++)
			schedule(i).cancel();
	}

	// Netty's way to push a timeout back.
	static void rearm(int first, int end) {
		cancel(first, end);
		arm(first, end);
	}

	static double median(double[] values) {
		Arrays.sort(values);
		return values[values.length / 2];
	}

	static double portion(Work work, int first) {
		long began = System.nanoTime();

		work.run(first, first + PORTION);
		return (double) (System.nanoTime() - began) / PORTION;
	}

	/*
	 * Each thread does its share of the idle timeouts, or of the pending ones if first is 0.
	 * Returns ns per operation: the caller's part, and "+worker". The caller's part is the time
	 * from the first operation of any thread to the last, divided by all operations; with one
	 * thread that of the median portion, which no garbage collection or other program disturbs.
	 * "+worker" is the CPU time of the whole program: the callers, the timer's worker, and the
	 * garbage collector.
	 */
	static double[] measure(int threads, int ops, int first, Work work) throws Exception {
		long cpu = cpu();
		long[] began = new long[threads], ended = new long[threads];
		CyclicBarrier barrier = new CyclicBarrier(threads);
		CountDownLatch working = new CountDownLatch(threads);
		double[] portions = new double[threads > 1 ? 0 : ops / PORTION];
		int each = ops / threads;

		for (int i = threads - 1; i >= 0; i--) {
			int n = i;
			Runnable share = () -> {
				try {
					barrier.await();
					began[n] = System.nanoTime();
					if (threads > 1)
						work.run(first + n * each, first + (n + 1) * each);
					for (int k = 0; k < portions.length; k++)
						portions[k] = portion(work, first + k * PORTION);
					ended[n] = System.nanoTime();
					working.countDown();
				} catch (Exception e) {
					throw new AssertionError(e);
				}
			};

			if (n == 0)
				share.run();
			else
				others.execute(share);
		}
		working.await();
		settle();
		cpu = cpu() - cpu - rest;
		long ns = Arrays.stream(ended).max().getAsLong() - Arrays.stream(began).min().getAsLong();
		return new double[] { threads > 1 ? (double) ns / ops : median(portions), (double) cpu / ops };
	}

	// With few timeouts, one measurement would be too short.
	static final class Figures {
		final double[] own = new double[PARTS], all = new double[PARTS];

		void report(String operation, int threads, boolean total) {
			Netty.report(operation, threads, median(own));
			// With few timeouts, the total is below the noise.
			if (total)
				Netty.report(operation + "+worker", threads, median(all));
		}

		void add(int part, double[] figure) {
			own[part] = figure[0];
			all[part] = figure[1];
		}
	}

	static void oneRound() throws Exception {
		long[] rests = new long[PARTS];

		timer = new HashedWheelTimer(TICK_MS, TimeUnit.MILLISECONDS);
		arm(0, pending);
		settle();
		for (int i = 0; i < PARTS; i++) {
			long cpu = cpu();

			settle();
			rests[i] = cpu() - cpu;
		}
		rest = Arrays.stream(rests).min().getAsLong();
		for (int threads = 1; threads <= 4; threads *= 2) {
			Figures arm = new Figures(), cancel = new Figures(), touch = new Figures();
			double[] both = measure(threads, OPS, 0, Netty::armCancel);

			report("arm_cancel", threads, both[0]);
			report("arm_cancel+worker", threads, both[1]);
			// With so few timeouts, the threads would not run at the same time.
			if (idle < IDLE && threads > 1)
				continue;
			for (int i = 0; i < PARTS; i++) {
				arm.add(i, measure(threads, idle, pending, Netty::arm));
				cancel.add(i, measure(threads, idle, pending, Netty::cancel));
				touch.add(i, measure(threads, idle, 0, Netty::rearm));
			}
			arm.report("arm", threads, idle == IDLE);
			cancel.report("cancel", threads, idle == IDLE);
			touch.report("touch_later", threads, idle == IDLE);
		}
		timer.stop();
		Arrays.fill(timeouts, null);
	}

	static void shuffle(Random random, int first, int end) {
		for (int i = end - 1; i > first; i--) {
			int j = first + random.nextInt(i - first + 1), n = order[i];

			order[i] = order[j];
			order[j] = n;
		}
	}

	public static void main(String[] args) {
		try {
			serve(Integer.parseInt(args[0]));
			System.exit(0);
		} catch (Exception e) {
			e.printStackTrace();
			System.exit(1);
		}
	}

	static void serve(int n) throws Exception {
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
		Random random = new Random(1);

		pending = n;
		idle = Math.min(pending, IDLE);
		timeouts = new Timeout[pending + idle];
		order = new int[pending + idle];
		for (int i = 0; i < DELAYS; i++)
			delays[i] = TimeUnit.MILLISECONDS.toNanos(60_000 + random.nextInt(40_000));
		Arrays.setAll(order, i -> i);
		shuffle(random, 0, pending);
		shuffle(random, pending, pending + idle);
		for (int i = 0; i < 3; i++)
			others.submit(() -> { });
		oneRound();
		oneRound();
		for (String line = in.readLine(); line != null; line = in.readLine()) {
			round = Integer.parseInt(line);
			oneRound();
			System.out.println();
			System.out.flush();
		}
	}
}
