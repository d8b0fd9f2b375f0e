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
import java.util.concurrent.TimeUnit;

/**
 * The part of the native benchmark that measures Netty's HashedWheelTimer, see bench_program.c.
 *
 * Reads from standard input how many timeouts are to be pending, then the numbers of rounds. For each
 * it measures a round, and prints lines of figures, none for round 0, and an empty line. Before that,
 * two rounds warm up.
 */
final class Netty {
	static final TimerTask NOTHING = timeout -> { };
	static final int TICK_MS = 10, IDLE = 100_000, OPS = 1_000_000, PORTION = 1000,
		DELAYS = 256, PARTS = 3;

	static HashedWheelTimer timer;
	static Timeout[] timeouts;
	static int[] order;
	static int pending, idle, round;
	static final long[] delays = new long[DELAYS];

	interface Work {
		void run(int first, int end);
	}

	static void report(String operation, String subject, double ns) {
		if (round != 0)
			System.out.printf("%s,%d %s %.3f%n", operation, pending, subject, ns);
	}

	// The CPU time of all threads. The kernel updates that of a thread when it sleeps. All have
	// begun to sleep just before, in settle().
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
	 * Returns ns per operation: of the caller, the median portion, which no garbage collection or
	 * other program disturbs; and the CPU time of the whole program, with the timer's worker and
	 * the garbage collector.
	 */
	static double[] measure(int ops, int first, Work work) throws Exception {
		double[] portions = new double[ops / PORTION];
		long cpu = cpu();

		for (int i = 0; i < portions.length; i++)
			portions[i] = portion(work, first + i * PORTION);
		settle();
		return new double[] { median(portions), (double) (cpu() - cpu) / ops };
	}

	// With few timeouts, one measurement would be too short, and the total is below the noise.
	static final class Figures {
		final double[] caller = new double[PARTS], total = new double[PARTS];

		void add(int part, double[] figure) {
			caller[part] = figure[0];
			total[part] = figure[1];
		}

		void report(String operation) {
			Netty.report(operation, "netty_caller", median(caller));
			if (idle == IDLE)
				Netty.report(operation, "netty_total", median(total));
		}
	}

	static void oneRound() throws Exception {
		Figures arm = new Figures(), cancel = new Figures(), touch = new Figures();

		timer = new HashedWheelTimer(TICK_MS, TimeUnit.MILLISECONDS);
		arm(0, pending);
		settle();
		double[] both = measure(OPS, 0, Netty::armCancel);

		report("arm_cancel", "netty_caller", both[0]);
		report("arm_cancel", "netty_total", both[1]);
		report("arm_cancel_caller", "netty_caller", both[0]);
		for (int i = 0; i < PARTS; i++) {
			arm.add(i, measure(idle, pending, Netty::arm));
			cancel.add(i, measure(idle, pending, Netty::cancel));
			touch.add(i, measure(idle, 0, Netty::rearm));
		}
		arm.report("arm");
		cancel.report("cancel");
		touch.report("touch_later");
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
			serve();
			System.exit(0);
		} catch (Exception e) {
			e.printStackTrace();
			System.exit(1);
		}
	}

	static void serve() throws Exception {
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
		Random random = new Random(1);

		pending = Integer.parseInt(in.readLine());
		idle = Math.min(pending, IDLE);
		timeouts = new Timeout[pending + idle];
		order = new int[pending + idle];
		for (int i = 0; i < DELAYS; i++)
			delays[i] = TimeUnit.MILLISECONDS.toNanos(60_000 + random.nextInt(40_000));
		Arrays.setAll(order, i -> i);
		shuffle(random, 0, pending);
		shuffle(random, pending, pending + idle);
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
