// SPDX-License-Identifier: GPL-2.0-only
import static org.junit.Assert.*;

import hwtimer.HwTimer;
import io.netty.util.Timeout;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
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
		assertTrue(timeout.touch(20, MS));
		ran.await();
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

	/* A timeout for which there is no memory takes no place. */
	@Test
	public void noMemory() throws Exception {
		HwTimer timer = timer(1);
		Field slots = HwTimer.class.getDeclaredField("slots");
		slots.setAccessible(true);
		Field chunks = slots.getType().getDeclaredField("chunks");
		chunks.setAccessible(true);
		/* Instead of an OutOfMemoryError. */
		chunks.set(slots.get(timer), null);
		assertThrows(NullPointerException.class, () -> timer.newTimeout(t -> { }, 1, MS));
		assertEquals(0, timer.pendingTimeouts());
		chunks.set(slots.get(timer), new AtomicReferenceArray<>(2));
		timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		assertEquals(1, timer.stop().size());
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

	/* Deadlines are rounded up to the tick, and those beyond the end of time are at its end. */
	@Test
	public void ticks() throws Exception {
		HwTimer timer = new HwTimer(100, MS);
		Method deadline = HwTimer.class.getDeclaredMethod("deadline", long.class);
		deadline.setAccessible(true);
		for (long delay : new long[] { 1, 99999999, 100000000, 100000001, 1L << 50 }) {
			long before = System.nanoTime();
			long at = (Long)deadline.invoke(timer, delay);
			assertEquals(0, at % 100000000);
			assertTrue(at >= before + delay);
			assertTrue(at < System.nanoTime() + delay + 100000000);
		}
		assertEquals(Long.MAX_VALUE, deadline.invoke(timer, Long.MAX_VALUE));
		timer.stop();
		timer = new HwTimer(Long.MAX_VALUE - 1, TimeUnit.NANOSECONDS, 1);
		for (long delay : new long[] { 1, 1L << 62, Long.MAX_VALUE - 1, Long.MAX_VALUE }) {
			assertEquals(Long.MAX_VALUE, deadline.invoke(timer, delay));
		}
		timer.stop();
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

	/* A timeout that stop() handed back can be cancelled, once, and is not counted twice. */
	@Test
	public void cancelAfterStop() {
		HwTimer timer = timer(10);
		Timeout timeout = timer.newTimeout(t -> { }, 1, TimeUnit.DAYS);
		assertEquals(Collections.singleton(timeout), timer.stop());
		assertEquals(0, timer.stop().size());
		assertTrue(timeout.cancel());
		assertFalse(timeout.cancel());
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
		/* Some that were handed back have been cancelled since. */
		long both = left.stream().filter(Timeout::isCancelled).count();
		assertEquals(made.sum(), ran.sum() + cancelled.sum() + left.size() - both);
		assertEquals(0, early.sum());
		assertEquals(0, twice.sum());
		assertEquals(0, timer.pendingTimeouts());
	}
}
