// SPDX-License-Identifier: GPL-2.0-only
import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * The costs of Netty's HashedWheelTimer in a program. bench.c does the same with libhwtimer,
 * function by function; see docs/performance for a description.
 *
 *	java Bench PENDING TICK_MS
 *
 * Reads numbers of rounds from standard input; for each it does a round, prints rows of CSV,
 * and an empty line. Round 0 warms up.
 */
final class Bench {
	static final long NSEC_PER_SEC = 1_000_000_000L;
	static final long NSEC_PER_MSEC = 1_000_000L;

	static final int OPS = 1_000_000;	// of arm_cancel
	static final int PRODUCERS = 2;
	static final int PORTIONS = 100;	// of an operation done many times, by each thread
	static final long FAR = 1800 * NSEC_PER_SEC;
	static final int NR_DELAYS = 4096;	// a power of two
	static final int NR_LATE = 5000;
	static final long LATE_FIRST = 200 * NSEC_PER_MSEC;
	static final long LATE_SPAN = 2 * NSEC_PER_SEC;

	static final TimerTask NOTHING = timeout -> { };

	static HashedWheelTimer timer;
	static Timeout[] timeouts;
	static int[] order;
	static int pending, round;
	static long tick;
	static final long[] delays = new long[NR_DELAYS];
	static long before;	// memory used before there were timeouts

	static long random = 88172645463325252L;

	static long rnd() {
		random ^= random << 13;
		random ^= random >>> 7;
		random ^= random << 17;
		return random >>> 1;
	}

	/*
	 * For how long all CPUs together have been busy: all time except the idle time of the
	 * kernel.
	 */
	static long busy() throws IOException {
		long busy = 0;

		for (String line : Files.readAllLines(Path.of("/proc/timer_list"))) {
			String[] words = line.trim().split("[ :]+");

			if (words[0].equals(".idle_sleeptime"))
				busy += System.nanoTime() - Long.parseLong(words[1]);
		}
		return busy;
	}

	static long memory() {
		System.gc();
		System.gc();
		return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
	}

	static void report(String operation, double value, String unit) {
		if (round != 0)
			System.out.printf("netty_%dms,%s,%d,%d,%.2f,%s%n", tick / NSEC_PER_MSEC, operation,
					pending, round, value, unit);
	}

	// Wait until the worker has done its deferred work: a timeout queued after it has expired.
	static void settle() throws InterruptedException {
		CountDownLatch settled = new CountDownLatch(1);

		timer.newTimeout(timeout -> settled.countDown(), 2 * tick, TimeUnit.NANOSECONDS);
		settled.await();
	}

	// Measures an operation that is done many times.
	static final class Meter {
		final long busy = busy();
		final int threads, each;
		final long[][] ns;	// the time of each portion, by thread

		Meter(int threads, int ops) throws IOException {
			this.threads = threads;
			each = ops / threads;
			ns = new long[threads][PORTIONS];
		}

		// Report the caller's part, from the median portion, and the total CPU time.
		void end(String operation) throws Exception {
			settle();
			report(operation + "+worker", (double) (busy() - busy) / (threads * each), "ns");
			long[] all = Arrays.stream(ns).flatMapToLong(Arrays::stream).sorted().toArray();
			report(operation, (double) all[all.length / 2] / (each / PORTIONS), "ns");
		}
	}

	// The part of one thread.
	static final class Stretch {
		final long[] ns;
		final int portion;
		int done, left;
		long began = System.nanoTime();

		Stretch(Meter m, int thread) {
			ns = m.ns[thread];
			portion = m.each / PORTIONS;
			left = portion;
		}

		// To be called after each operation.
		void one() {
			if (--left != 0)
				return;
			long now = System.nanoTime();
			ns[done++] = now - began;
			began = now;
			left = portion;
		}
	}

	static Timeout schedule(long delay) {
		return timer.newTimeout(NOTHING, delay, TimeUnit.NANOSECONDS);
	}

	static void arm() throws Exception {
		Meter m = new Meter(1, pending);
		Stretch s = new Stretch(m, 0);

		for (int i = 0; i < pending; i++) {
			timeouts[i] = schedule(FAR + delays[i % NR_DELAYS]);
			s.one();
		}
		m.end("arm");
	}

	static void cancel() throws Exception {
		Meter m = new Meter(1, pending);
		Stretch s = new Stretch(m, 0);

		for (int i = 0; i < pending; i++) {
			timeouts[order[i]].cancel();
			s.one();
		}
		m.end("cancel");
	}

	static void rearm() throws Exception {
		Meter m = new Meter(1, pending);
		Stretch s = new Stretch(m, 0);

		for (int i = 0; i < pending; i++) {
			int n = order[i];

			timeouts[n].cancel();
			timeouts[n] = schedule(2 * FAR + delays[i % NR_DELAYS]);
			s.one();
		}
		m.end("rearm");
	}

	static void doArmCancel(Meter m, int thread) {
		Stretch s = new Stretch(m, thread);

		for (int i = 0; i < m.each; i++) {
			schedule(FAR + delays[i % NR_DELAYS]).cancel();
			s.one();
		}
	}

	static void armCancel() throws Exception {
		Meter m = new Meter(1, OPS);

		doArmCancel(m, 0);
		m.end("arm_cancel");
	}

	static void producers() throws Exception {
		Meter m = new Meter(PRODUCERS, OPS);
		Thread[] threads = new Thread[PRODUCERS];

		for (int i = 0; i < PRODUCERS; i++) {
			int thread = i;

			threads[i] = new Thread(() -> doArmCancel(m, thread));
			threads[i].start();
		}
		for (Thread thread : threads)
			thread.join();
		m.end("producers");
	}

	// How often the worker, a thread with the default name, has gone to sleep.
	static long wakeups() throws IOException {
		long sleeps = 0;

		try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
			for (Path task : tasks) {
				if (!Files.readString(task.resolve("comm")).startsWith("pool-"))
					continue;
				for (String line : Files.readAllLines(task.resolve("status"))) {
					if (line.startsWith("voluntary_ctxt_switches:"))
						sleeps += Long.parseLong(line.split("\\s+")[1]);
				}
			}
		}
		return sleeps;
	}

	// CPU time while nothing is done, and how often the worker wakes.
	static void quiet(String what) throws Exception {
		int rest = 2, span = 3;

		Thread.sleep(rest * 1000);
		long woken = wakeups();
		long busy = busy();
		Thread.sleep(span * 1000);
		busy = busy() - busy;
		woken = wakeups() - woken;
		report(what + "_cpu", (double) busy / span / 1000, "ppm");
		report(what + "_wakeups", (double) woken / span, "per_s");
	}

	static void lateness() throws InterruptedException {
		CountDownLatch all = new CountDownLatch(NR_LATE);
		long[] late = new long[NR_LATE];
		int[] n = new int[1];	// the worker's

		for (int i = 0; i < NR_LATE; i++) {
			long delay = LATE_FIRST + rnd() % LATE_SPAN;
			long deadline = System.nanoTime() + delay;

			timer.newTimeout(timeout -> {
				late[n[0]++] = System.nanoTime() - deadline;
				all.countDown();
			}, delay, TimeUnit.NANOSECONDS);
		}
		all.await();
		Arrays.sort(late);
		report("late_first", late[0] / 1e3, "us");
		report("late_median", late[NR_LATE / 2] / 1e3, "us");
		report("late_99", late[NR_LATE / 100 * 99] / 1e3, "us");
		report("late_last", late[NR_LATE - 1] / 1e3, "us");
	}

	static void readClock() {
		long began = System.nanoTime(), sum = 0;

		for (int i = 0; i < OPS; i++)
			sum += System.nanoTime();
		if (sum == 0)
			throw new AssertionError("a clock that stands");
		report("clock", (double) (System.nanoTime() - began) / OPS, "ns");
	}

	static void begin() throws Exception {
		before = memory();
		round = 1;
		quiet("none");
	}

	// Use the memory again after the other program had its turn.
	static void warmUp() throws Exception {
		int nr = round;

		round = 0;
		arm();
		cancel();
		round = nr;
	}

	static void oneRound() throws Exception {
		// Not in each round, as it takes long.
		boolean resting = round % 3 == 1;

		// Stopped at the end of the round, as its worker never rests.
		timer = new HashedWheelTimer(tick, TimeUnit.NANOSECONDS);
		settle();
		if (resting)
			quiet("idle");
		warmUp();
		arm();
		if (before != 0) {
			round = 1;
			report("bytes", (double) (memory() - before) / pending, "bytes");
			round = 0;
			before = 0;
		}
		if (resting)
			quiet("far");
		armCancel();
		producers();
		rearm();
		cancel();
		readClock();
		lateness();
		timer.stop();
		Arrays.fill(timeouts, null);
	}

	public static void main(String[] args) throws Exception {
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in));

		pending = Integer.parseInt(args[0]);
		tick = Integer.parseInt(args[1]) * NSEC_PER_MSEC;
		timeouts = new Timeout[pending];
		order = new int[pending];
		for (int i = 0; i < NR_DELAYS; i++)
			delays[i] = rnd() % FAR;
		for (int i = 0; i < pending; i++)
			order[i] = i;
		for (int i = pending; i > 1; i--) {
			int j = (int) (rnd() % i), n = order[i - 1];

			order[i - 1] = order[j];
			order[j] = n;
		}
		for (String line = in.readLine(); line != null; line = in.readLine()) {
			if (timer == null)
				begin();
			round = Integer.parseInt(line);
			oneRound();
			System.out.println();
			System.out.flush();
		}
	}
}
