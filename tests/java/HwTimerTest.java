// SPDX-License-Identifier: GPL-2.0-only
import static org.junit.Assert.*;

import hwtimer.HwTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.junit.BeforeClass;
import org.junit.Test;

/*
 * What HwTimer promises beyond what Netty's own HashedWheelTimerTest tests. No test depends on how long
 * anything takes; one that hangs is ended from outside.
 */
public class HwTimerTest {
	private static final TimeUnit MS = TimeUnit.MILLISECONDS;

	private static HwTimer timer(long max) {
		return new HwTimer(Executors.defaultThreadFactory(), 1, MS, 512, true, max);
	}

	@BeforeClass
	public static void where() {
		HwTimer timer = timer(0);
		System.out.println("# " + (timer.inProcess() ? "in the process" : "on the device"));
		timer.stop();
	}

	private static long ms(long since) {
		return (System.nanoTime() - since) / 1000000;
	}

	@Test
	public void touchLater() throws Exception {
		HwTimer timer = timer(0);
		AtomicReference<CountDownLatch> ran = new AtomicReference<>();
		HwTimer.HwTimeout timeout;
		long start, touched;
		do {
			CountDownLatch latch = new CountDownLatch(1);
			ran.set(latch);
			start = System.nanoTime();
			timeout = timer.newTimeout(t -> latch.countDown(), 300, MS);
			touched = System.nanoTime();
			/* On a busy machine it may be too late. */
		} while (!timeout.touch(1500, MS) && ms(start) >= 300);
		ran.get().await();
		assertTrue(ms(touched) >= 1500);
		assertFalse(timeout.touch(1, MS));
		assertFalse(timeout.cancel());
		assertTrue(timeout.isExpired());
		assertEquals(0, timer.stop().size());
	}

	@Test
	public void touchEarlier() throws Exception {
		HwTimer timer = timer(0);
		CountDownLatch ran = new CountDownLatch(1);
		HwTimer.HwTimeout timeout = timer.newTimeout(t -> ran.countDown(), 1000, TimeUnit.DAYS);
		assertTrue(timeout.touchAt(Long.MAX_VALUE));
		assertTrue(timeout.touch(20, MS));
		ran.await();
		CountDownLatch now = new CountDownLatch(1);
		timeout = timer.newTimeout(t -> now.countDown(), 1000, TimeUnit.DAYS);
		assertTrue(timeout.touchAt(-1));
		now.await();
		timer.stop();
	}

	@Test
	public void touchAfterCancel() {
		HwTimer timer = timer(0);
		HwTimer.HwTimeout timeout = timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		assertTrue(timeout.cancel());
		assertFalse(timeout.cancel());
		assertFalse(timeout.touch(1, MS));
		assertTrue(timeout.isCancelled() && !timeout.isExpired());
		assertEquals(0, timer.stop().size());
	}

	/* At n - 1, n and n + 1; a cancel frees the place at once. */
	@Test
	public void maximum() {
		HwTimer timer = timer(2);
		timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		Timeout second = timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		assertThrows(RejectedExecutionException.class,
			     () -> timer.newTimeout(t -> { }, 1, TimeUnit.DAYS));
		assertEquals(2, timer.pendingTimeouts());
		assertTrue(second.cancel());
		timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		assertEquals(2, timer.stop().size());
		assertEquals(0, timer.pendingTimeouts());
	}

	private static Object field(Object object, String name) throws Exception {
		Field field = object.getClass().getDeclaredField(name);
		field.setAccessible(true);
		return field.get(object);
	}

	private static Object table(HwTimer timer) throws Exception {
		return field(timer, "table");
	}

	/* "slots" or "head": the memory that others may share. */
	private static ByteBuffer memory(HwTimer timer, String name) throws Exception {
		return ((ByteBuffer)field(table(timer), name)).order(ByteOrder.nativeOrder());
	}

	/* A timeout for which there is no memory takes no place. */
	@Test
	public void noMemory() throws Exception {
		HwTimer timer = timer(1);
		Field field = table(timer).getClass().getDeclaredField("timeouts");
		field.setAccessible(true);
		Object timeouts = field.get(table(timer));
		/* Instead of an OutOfMemoryError. */
		field.set(table(timer), null);
		assertThrows(NullPointerException.class, () -> timer.newTimeout(t -> { }, 1, MS));
		assertEquals(0, timer.pendingTimeouts());
		field.set(table(timer), timeouts);
		timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		assertEquals(1, timer.stop().size());
	}

	/* Many at once, more than in one row of the table, and all places are used again. */
	@Test
	public void many() {
		HwTimer timer = timer(10000);
		List<Timeout> all = new ArrayList<>();
		for (int round = 0; round < 3; round++) {
			for (int i = 0; i < 10000; i++) {
				all.add(timer.newTimeout(t -> { }, 1 + i % 7, TimeUnit.DAYS));
			}
			assertEquals(10000, timer.pendingTimeouts());
			assertThrows(RejectedExecutionException.class,
				     () -> timer.newTimeout(t -> { }, 1, MS));
			Collections.shuffle(all);
			all.forEach(timeout -> assertTrue(timeout.cancel()));
			assertEquals(0, timer.pendingTimeouts());
			all.clear();
		}
		timer.stop();
	}

	/* A thread gets the places that another one has freed. */
	@Test
	public void placesOfOtherThreads() throws Exception {
		HwTimer timer = timer(100);
		for (int i = 0; i < 20; i++) {
			Thread thread = new Thread(() -> {
				List<Timeout> all = new ArrayList<>();
				for (int k = 0; k < 100; k++) {
					all.add(timer.newTimeout(t -> { }, 1, TimeUnit.DAYS));
				}
				all.forEach(Timeout::cancel);
			});
			AtomicReference<Throwable> thrown = new AtomicReference<>();
			thread.setUncaughtExceptionHandler((t, e) -> thrown.set(e));
			thread.start();
			thread.join();
			assertNull(thrown.get());
		}
		timer.stop();
	}

	/* Two threads find no place at once, and another one makes all and frees two before they can. */
	@Test
	public void growAtOnce() throws Exception {
		HwTimer timer = timer(5002);
		List<FutureTask<Timeout>> calls = new ArrayList<>();
		Set<Timeout> made = new HashSet<>();
		timer.start();
		synchronized (table(timer)) {
			for (int i = 0; i < 2; i++) {
				FutureTask<Timeout> call = new FutureTask<>(
					() -> timer.newTimeout(t -> { }, 1, TimeUnit.DAYS));
				Thread thread = new Thread(call);
				thread.start();
				calls.add(call);
				while (thread.getState() != Thread.State.BLOCKED) {
					assertFalse(call.isDone());
					Thread.sleep(1);
				}
			}
			for (int i = 0; i < 5002; i++) {
				made.add(timer.newTimeout(t -> { }, 1, TimeUnit.DAYS));
			}
			for (Timeout timeout : new ArrayList<>(made).subList(0, 2)) {
				timeout.cancel();
				made.remove(timeout);
			}
		}
		for (FutureTask<Timeout> call : calls) {
			made.add(call.get());
		}
		assertEquals(5002, made.size());
		assertEquals(made, timer.stop());
	}

	/* All places were in use, but not any more when the maximum would be complained about. */
	@Test
	public void maximumWhileOthersMove() throws Exception {
		HwTimer timer = timer(1);
		Timeout first = timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		FutureTask<Timeout> call = new FutureTask<>(
			() -> timer.newTimeout(t -> { }, 1, TimeUnit.DAYS));
		Thread thread = new Thread(call);
		synchronized (table(timer)) {
			thread.start();
			while (thread.getState() != Thread.State.BLOCKED) {
				assertFalse(call.isDone());
				Thread.sleep(1);
			}
			first.cancel();
			timer.newTimeout(t -> { }, 1, TimeUnit.DAYS).cancel();
		}
		assertEquals(Set.of(call.get()), timer.stop());
	}

	/* A timeout that has ended is not taken for the one that has its slot since. */
	@Test
	public void slotUsedAgain() throws Exception {
		HwTimer timer = timer(1);
		HwTimer.HwTimeout ended = timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		ended.cancel();
		/* After 2^20 - 1 others, the arming comes back. */
		for (int i = 0; i < (1 << 20) + 2; i++) {
			HwTimer.HwTimeout other = timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
			assertFalse(ended.cancel() || ended.touch(1, MS));
			assertTrue(other.cancel());
		}
		assertEquals(0, timer.stop().size());
	}

	private static void growByOther(HwTimer timer, int slots) throws Exception {
		Method grow = table(timer).getClass()
			.getDeclaredMethod("grow", long.class, int.class);
		grow.setAccessible(true);
		assertTrue((int)grow.invoke(null, field(table(timer), "handle"), slots) >= slots);
	}

	/* Somebody else says that there are records in a ring that there is not: no loop. */
	@Test
	public void forgedRing() throws Exception {
		final int ring = 16, tail = 256 + 4 * 23, tooLongNs = 1000000000;
		ThreadMXBean threads = ManagementFactory.getThreadMXBean();
		HwTimer timer = timer(0);
		CountDownLatch ran = new CountDownLatch(1);
		if (!timer.inProcess()) {
			/* Who looked as often as there are records took minutes. */
			growByOther(timer, 500000);
			memory(timer, "head").putInt(tail, 1).putInt(ring, 23);
		}
		timer.newTimeout(t -> ran.countDown(), 1, MS);
		long thread = ((Thread)field(timer, "thread")).getId();
		while (!ran.await(1, MS)) {
			assertTrue(threads.getThreadCpuTime(thread) < tooLongNs);
		}
		timer.stop();
	}

	/* Somebody else grows the table, and invents a timeout there. */
	@Test
	public void grownByOthers() throws Exception {
		HwTimer timer = timer(10000);
		Method look = table(timer).getClass().getDeclaredMethod("look", int.class);
		look.setAccessible(true);
		growByOther(timer, 5000);
		memory(timer, "slots").putLong(32 * 4500, 1);
		assertNull(look.invoke(table(timer), 4500));
		/* Nobody else has a handle in the process. */
		int most = timer.inProcess() ? 0 : 10000;
		for (int i = 0; i < most; i++) {
			timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		}
		assertEquals(most, timer.stop().size());
	}

	/* No arming is 0, with which the earliest deadline would be no timeout. */
	@Test
	public void armingAfterTheLast() throws Exception {
		HwTimer timer = timer(1);
		timer.newTimeout(t -> { }, 1, TimeUnit.DAYS).cancel();
		((long[][])field(table(timer), "links"))[0][0] = (1L << 20) - 1 << 32;
		CountDownLatch ran = new CountDownLatch(1);
		assertTrue(timer.newTimeout(t -> ran.countDown(), 1, TimeUnit.DAYS).touchAt(-1));
		ran.await();
		timer.stop();
	}

	/* What has ended is garbage, though its place was not used again. */
	@Test
	public void garbage() throws Exception {
		HwTimer timer = timer(10);
		Timeout timeout = timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		WeakReference<Timeout> ended = new WeakReference<>(timeout);
		timeout.cancel();
		timeout = null;
		for (int i = 0; i < 20 && ended.get() != null; i++) {
			System.gc();
		}
		assertNull(ended.get());
		timer.stop();
	}

	/* Each removal from a free list is counted, so that a place that came back is noticed. */
	@Test
	public void removals() throws Exception {
		HwTimer timer = timer(1);
		Object free = field(table(timer), "free");
		Set<String> heads = new HashSet<>();
		for (int i = 0; i < 10; i++) {
			timer.newTimeout(t -> { }, 1, TimeUnit.DAYS).cancel();
			heads.add(free.toString());
		}
		assertEquals(10, heads.size());
		timer.stop();
	}

	@Test
	public void arguments() {
		ThreadFactory threads = Executors.defaultThreadFactory();
		assertThrows(NullPointerException.class, () -> new HwTimer(null, 1, MS));
		assertThrows(NullPointerException.class, () -> new HwTimer(threads, 1, null));
		assertThrows(IllegalArgumentException.class, () -> new HwTimer(0, MS));
		assertThrows(IllegalArgumentException.class, () -> new HwTimer(1, MS, 0));
		assertThrows(IllegalArgumentException.class, () -> new HwTimer(1, MS, (1 << 30) + 1));
		assertThrows(IllegalArgumentException.class,
			     () -> new HwTimer(Long.MAX_VALUE / 512, TimeUnit.NANOSECONDS, 512));
		new HwTimer(1, MS, 1 << 30).stop();
		new HwTimer(Long.MAX_VALUE / 512 - 1, TimeUnit.NANOSECONDS, 512).stop();
	}

	/* A task runs at a tick: in a later one than that in which it was scheduled. */
	@Test
	public void ticks() throws Exception {
		long tick = (500000000L + 65535) / 65536 * 65536;
		HwTimer timer = new HwTimer(500, MS);
		for (long delay : new long[] { -1, 0, 1, 1000000 }) {
			CountDownLatch ran = new CountDownLatch(1);
			long before = System.nanoTime();
			timer.newTimeout(t -> ran.countDown(), delay, TimeUnit.NANOSECONDS);
			ran.await();
			assertTrue(System.nanoTime() / tick > before / tick);
		}
		timer.stop();
	}

	/* Deadlines beyond the end of time. */
	@Test
	public void never() {
		HwTimer timer = timer(0);
		for (long delay : new long[] { 1L << 59, 1L << 60, 1L << 62, Long.MAX_VALUE }) {
			HwTimer.HwTimeout timeout = timer.newTimeout(t -> { }, delay,
								     TimeUnit.NANOSECONDS);
			assertTrue(timeout.touch(Long.MAX_VALUE, TimeUnit.DAYS));
			assertTrue(timeout.touch(delay, TimeUnit.NANOSECONDS));
		}
		assertEquals(4, timer.stop().size());
	}

	@Test
	public void taskThatThrows() throws Exception {
		HwTimer timer = timer(0);
		CountDownLatch ran = new CountDownLatch(1);
		timer.newTimeout(t -> { throw new Exception("meant"); }, 1, MS);
		timer.newTimeout(t -> ran.countDown(), 20, MS);
		ran.await();
		timer.stop();
	}

	/* There is not even memory to log what a task has thrown: others run all the same. */
	@Test
	public void noMemoryInTask() throws Exception {
		HwTimer timer = timer(0);
		CountDownLatch ran = new CountDownLatch(1);
		timer.newTimeout(t -> {
			throw new OutOfMemoryError("meant") {
				@Override
				public String toString() {
					throw this;
				}
			};
		}, 1, MS);
		timer.newTimeout(t -> ran.countDown(), 20, MS);
		ran.await();
		timer.stop();
	}

	/* A task that interrupts its thread does not interrupt the next one. */
	@Test
	public void interruptFlag() throws Exception {
		HwTimer timer = timer(0);
		BlockingQueue<Boolean> flags = new LinkedBlockingQueue<>();
		for (int i = 0; i < 100; i++) {
			timer.newTimeout(t -> {
				flags.add(Thread.currentThread().isInterrupted());
				Thread.currentThread().interrupt();
			}, 1, MS);
		}
		for (int i = 0; i < 100; i++) {
			assertFalse(flags.take());
		}
		timer.stop();
	}

	/* A task of several that expire at once cancels, or moves, those that come after it. */
	@Test
	public void cancelFromTask() throws Exception {
		HwTimer timer = timer(0);
		List<HwTimer.HwTimeout> all = Collections.synchronizedList(new ArrayList<>());
		AtomicInteger ran = new AtomicInteger(), cancelled = new AtomicInteger();
		CountDownLatch begun = new CountDownLatch(1), armed = new CountDownLatch(1);
		CountDownLatch done = new CountDownLatch(1);
		timer.newTimeout(t -> {
			begun.countDown();
			armed.await();
		}, 1, MS);
		begun.await();
		for (int i = 0; i < 100; i++) {
			all.add(timer.newTimeout(t -> {
				if (ran.incrementAndGet() == 1) {
					all.forEach(other -> cancelled.addAndGet(
						other.cancel() ? 1 : 0));
					timer.newTimeout(last -> done.countDown(), 100, MS);
				}
			}, 1, MS));
		}
		armed.countDown();
		done.await();
		assertEquals(1, ran.get());
		assertEquals(99, cancelled.get());
		timer.stop();
	}

	/* Netty 4.2 tells a task that its timeout was cancelled: once, and not if it runs. */
	@Test
	public void cancelledIsCalled() throws Exception {
		HwTimer timer = timer(0);
		BlockingQueue<Timeout> told = new LinkedBlockingQueue<>();
		CountDownLatch ran = new CountDownLatch(1);
		TimerTask task = new TimerTask() {
			@Override
			public void run(Timeout timeout) {
				ran.countDown();
			}

			@Override
			public void cancelled(Timeout timeout) {
				assertTrue(timeout.isCancelled());
				told.add(timeout);
				throw new IllegalStateException("meant");
			}
		};
		timer.newTimeout(task, 1, MS);
		ran.await();
		Timeout first = timer.newTimeout(task, 1, TimeUnit.DAYS);
		assertTrue(first.cancel());
		assertFalse(first.cancel());
		assertSame(first, told.poll());
		Timeout second = timer.newTimeout(task, 1, TimeUnit.DAYS);
		timer.stop();
		assertSame(second, told.poll());
		assertNull(told.poll());
	}

	@Test
	public void executor() throws Exception {
		ExecutorService pool = Executors.newSingleThreadExecutor(r -> new Thread(r, "pool"));
		HwTimer timer = new HwTimer(Executors.defaultThreadFactory(), 1, MS, 512, true, -1,
					    pool);
		BlockingQueue<String> names = new LinkedBlockingQueue<>();
		timer.newTimeout(t -> names.add(Thread.currentThread().getName()), 1, MS);
		assertEquals("pool", names.take());
		timer.stop();
		pool.shutdown();
	}

	@Test
	public void stopFromTask() throws Exception {
		HwTimer timer = timer(0);
		BlockingQueue<Boolean> thrown = new LinkedBlockingQueue<>();
		timer.newTimeout(t -> {
			try {
				timer.stop();
				thrown.add(false);
			} catch (IllegalStateException e) {
				thrown.add(true);
			}
		}, 1, MS);
		assertTrue(thrown.take());
		timer.stop();
		assertThrows(IllegalStateException.class, timer::start);
	}

	/* stop() does not wait for a thread that could not be started; start() may try again. */
	@Test
	public void threadThatDoesNotStart() throws Exception {
		AtomicInteger failures = new AtomicInteger(2);
		ThreadFactory threads = r -> new Thread(r) {
			@Override
			public void start() {
				if (failures.getAndDecrement() > 0) {
					throw new OutOfMemoryError("meant");
				}
				super.start();
			}
		};
		HwTimer timer = new HwTimer(threads, 1, MS);
		assertThrows(OutOfMemoryError.class, timer::start);
		assertThrows(OutOfMemoryError.class, () -> timer.newTimeout(t -> { }, 1, MS));
		CountDownLatch ran = new CountDownLatch(1);
		timer.newTimeout(t -> ran.countDown(), 1, MS);
		ran.await();
		assertEquals(0, timer.stop().size());
		failures.set(1);
		HwTimer other = new HwTimer(threads, 1, MS);
		assertThrows(OutOfMemoryError.class, other::start);
		assertEquals(0, other.stop().size());
	}

	/* stop() waits while another thread starts the timer: afterwards it is stopped. */
	@Test
	public void stopDuringStart() throws Exception {
		AtomicReference<Thread> stopper = new AtomicReference<>();
		HwTimer timer = new HwTimer(r -> new Thread(r) {
			@Override
			public void start() {
				stopper.get().start();
				while (stopper.get().getState() == State.NEW ||
				       stopper.get().getState() == State.RUNNABLE) {
					Thread.onSpinWait();
				}
				super.start();
			}
		}, 1, MS);
		stopper.set(new Thread(timer::stop));
		timer.start();
		stopper.get().join();
		assertThrows(IllegalStateException.class, timer::start);
	}

	/* What stop() returns is cancelled (netty 14081). */
	@Test
	public void stopCancels() {
		HwTimer timer = timer(10);
		HwTimer.HwTimeout timeout = timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		assertEquals(Collections.singleton(timeout), timer.stop());
		assertEquals(0, timer.stop().size());
		assertTrue(timeout.isCancelled());
		assertFalse(timeout.cancel() || timeout.touch(1, MS));
		assertEquals(0, timer.pendingTimeouts());
	}

	/*
	 * Threads schedule while another one stops the timer, often before it has started: each
	 * newTimeout() either throws, or its task runs once, or stop() returns it. Afterwards all throw.
	 */
	@Test
	public void stopRaces() throws Exception {
		int rounds = Integer.getInteger("rounds", 20), left = 0, ran = 0, none = 0;
		for (int round = 0; round < rounds; round++) {
			HwTimer timer = timer(round % 2 == 0 ? 0 : 1000000);
			CyclicBarrier begin = new CyclicBarrier(3);
			Map<Timeout, AtomicInteger> made = new ConcurrentHashMap<>();
			AtomicReference<Throwable> unexpected = new AtomicReference<>();
			CountDownLatch first = new CountDownLatch(1);
			List<Thread> threads = new ArrayList<>();
			for (int i = 0; i < 2; i++) {
				Thread thread = new Thread(() -> {
					try {
						begin.await();
						for (int n = 0;; n++) {
							AtomicInteger runs = new AtomicInteger();
							made.put(timer.newTimeout(t -> {
								runs.incrementAndGet();
								first.countDown();
							}, n % 3 == 0 ? 1000000 : n % 3, MS), runs);
						}
					} catch (IllegalStateException e) {
						/* It was stopped. */
					} catch (Throwable e) {
						unexpected.set(e);
					}
				});
				thread.start();
				threads.add(thread);
			}
			begin.await();
			if (round % 4 > 0) {
				Thread.sleep(round % 4 * 2);
			}
			if (round % 4 == 3) {
				first.await();
			}
			Set<Timeout> unprocessed = timer.stop();
			for (Thread thread : threads) {
				thread.join();
			}
			assertNull(unexpected.get());
			for (Map.Entry<Timeout, AtomicInteger> entry : made.entrySet()) {
				int ends = unprocessed.contains(entry.getKey()) ? 1 : 0;
				left += ends;
				ran += entry.getValue().get();
				assertEquals(1, ends + entry.getValue().get());
			}
			none += made.isEmpty() ? 1 : 0;
			assertTrue(made.keySet().containsAll(unprocessed));
			assertEquals(0, timer.pendingTimeouts());
			assertThrows(IllegalStateException.class,
				     () -> timer.newTimeout(t -> { }, 1, MS));
			/* Descriptors are freed with the objects. */
			if (round % 8 == 7) {
				System.gc();
			}
		}
		System.out.printf("# %d stops: %d ran, %d handed back; %d before any was scheduled%n",
			rounds, ran, left, none);
		assertTrue(ran > 0 && left > 0);
	}

	/*
	 * Threads schedule, touch and cancel at random until another one stops the timer: each
	 * timeout ends in exactly one way, and none is early.
	 */
	@Test
	public void eachEndsOnce() throws Exception {
		long seed = Long.getLong("seed", System.nanoTime());
		System.out.println("# seed " + seed);
		HwTimer timer = timer(0);
		LongAdder made = new LongAdder(), ran = new LongAdder(), cancelled = new LongAdder();
		LongAdder early = new LongAdder(), twice = new LongAdder(), touched = new LongAdder();
		List<Thread> threads = new ArrayList<>();
		for (int i = 0; i < 3; i++) {
			Random random = new Random(seed + i);
			Thread thread = new Thread(() -> {
				HwTimer.HwTimeout[] held = new HwTimer.HwTimeout[200];
				AtomicLong[] due = new AtomicLong[held.length];
				try {
					for (;;) {
						int k = random.nextInt(held.length);
						/* Some are pending when it stops. */
						long delay = random.nextInt(20) == 0 ? Long.MAX_VALUE / 4 :
							random.nextInt(30) * 1000000L;
						if (held[k] != null && random.nextInt(3) > 0) {
							long at = System.nanoTime() + delay;
							/* Until touch() is done, either deadline may count. */
							due[k].accumulateAndGet(at, Math::min);
							if (held[k].touch(delay, TimeUnit.NANOSECONDS)) {
								touched.increment();
								due[k].set(at);
							}
							continue;
						}
						if (held[k] != null && held[k].cancel()) {
							cancelled.increment();
						}
						AtomicLong at = new AtomicLong(System.nanoTime() + delay);
						AtomicInteger runs = new AtomicInteger();
						held[k] = timer.newTimeout(t -> {
							ran.increment();
							if (runs.incrementAndGet() > 1) {
								twice.increment();
							}
							if (System.nanoTime() < at.get()) {
								early.increment();
							}
						}, delay, TimeUnit.NANOSECONDS);
						due[k] = at;
						made.increment();
					}
				} catch (IllegalStateException e) {
					/* It was stopped. */
				}
			});
			thread.start();
			threads.add(thread);
		}
		do {
			Thread.sleep(5000);
		} while (made.sum() <= 1000 || ran.sum() <= 100 || cancelled.sum() <= 100);
		Set<Timeout> left = timer.stop();
		for (Thread thread : threads) {
			thread.join();
		}
		System.out.printf("# %d made, %d touched, %d ran, %d cancelled, %d handed back%n",
			made.sum(), touched.sum(), ran.sum(), cancelled.sum(), left.size());
		assertTrue(left.size() > 0);
		assertEquals(made.sum(), ran.sum() + cancelled.sum() + left.size());
		assertEquals(0, early.sum());
		assertEquals(0, twice.sum());
		assertEquals(0, timer.pendingTimeouts());
	}
}
