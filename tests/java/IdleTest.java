// SPDX-License-Identifier: GPL-2.0-only
import static io.netty.handler.timeout.IdleStateEvent.*;
import static org.junit.Assert.*;

import hwtimer.HwIdleStateHandler;
import hwtimer.HwTimer;
import io.netty.channel.*;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.timeout.IdleStateEvent;
import java.io.IOException;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Consumer;
import org.junit.After;
import org.junit.Test;

/*
 * HwIdleStateHandler in a channel without a network, whose event loop is the thread of the test. What
 * has expired waits in a queue until the test runs it. No test depends on how long anything takes.
 */
public class IdleTest {
	private static final TimeUnit MS = TimeUnit.MILLISECONDS;
	private static final long DAY = 86400000;

	private final BlockingQueue<Runnable> expired = new LinkedBlockingQueue<>();
	private final List<Object> events = new ArrayList<>();
	private HwTimer timer = timer(-1);
	private EmbeddedChannel channel;

	private HwTimer timer(long max) {
		return new HwTimer(Executors.defaultThreadFactory(), 1, MS, 512, true, max, expired::add);
	}

	/* A channel with a handler that is idle after so many ms. */
	private void open(ChannelHandler handler) {
		channel = new EmbeddedChannel(handler, new ChannelInboundHandlerAdapter() {
			@Override
			public void userEventTriggered(ChannelHandlerContext ctx, Object event) {
				events.add(event);
			}
		});
	}

	private void open(long reader, long writer, long all) {
		open(new HwIdleStateHandler(timer, reader, writer, all, MS));
	}

	/* Nothing comes any more from the channels before. */
	private void again(long max) {
		stop();
		expired.clear();
		events.clear();
		timer = timer(max);
	}

	@After
	public void stop() {
		timer.stop();
	}

	private void run(Runnable task) {
		task.run();
		channel.runPendingTasks();
	}

	private void untilEvents(int n) throws InterruptedException {
		while (events.size() < n) {
			run(expired.take());
		}
	}

	private static long ms(long since) {
		return (System.nanoTime() - since) / 1000000;
	}

	/* The first event, others, and the first one again after a message that counts. */
	private void kind(int which, IdleStateEvent first, IdleStateEvent later, boolean reads,
			  boolean writes) throws Exception {
		open(which == 0 ? 5 : 0, which == 1 ? 5 : 0, which == 2 ? 5 : 0);
		untilEvents(3);
		assertEquals(List.of(first, later, later), events.subList(0, 3));
		channel.writeInbound("message");
		events.clear();
		untilEvents(1);
		assertSame(reads ? first : later, events.get(0));
		untilEvents(2);
		channel.writeAndFlush("message", channel.voidPromise());
		channel.runPendingTasks();
		events.clear();
		untilEvents(1);
		assertSame(writes ? first : later, events.get(0));
		channel.close();
		channel.checkException();
		events.clear();
	}

	@Test
	public void kinds() throws Exception {
		kind(0, FIRST_READER_IDLE_STATE_EVENT, READER_IDLE_STATE_EVENT, true, false);
		kind(1, FIRST_WRITER_IDLE_STATE_EVENT, WRITER_IDLE_STATE_EVENT, false, true);
		kind(2, FIRST_ALL_IDLE_STATE_EVENT, ALL_IDLE_STATE_EVENT, true, true);
	}

	/* A message pushes the timeout back: it does not expire before the channel is idle. */
	@Test
	public void messageTouches() throws Exception {
		long start, touched;
		do {
			again(-1);
			start = System.nanoTime();
			open(0, 0, 300);
			while (ms(start) < 100) {
				Thread.sleep(1);
			}
			touched = System.nanoTime();
			channel.writeOutbound("message");
			/* On a busy machine it may be too late. */
		} while (ms(start) >= 300);
		run(expired.take());
		assertEquals(List.of(FIRST_ALL_IDLE_STATE_EVENT), events);
		assertTrue(ms(touched) >= 300);
	}

	/* A message that comes after the timeout has expired, but before the event loop knows. */
	@Test
	public void messageAfterExpiry() throws Exception {
		open(200, 0, 0);
		Runnable task = expired.take();
		long read = System.nanoTime();
		channel.writeInbound("message");
		run(task);
		assertTrue(events.isEmpty() || ms(read) >= 200);
		untilEvents(1);
		assertTrue(ms(read) >= 200);
		assertSame(FIRST_READER_IDLE_STATE_EVENT, events.get(0));
	}

	/* Who is reading does not idle, however long it takes; but who writes nothing does. */
	@Test
	public void whileReading() throws Exception {
		open(5, DAY, 0);
		channel.pipeline().fireChannelRead("message");
		for (int i = 0; i < 3; i++) {
			run(expired.take());
		}
		assertEquals(0, events.size());
		long read = System.nanoTime();
		channel.pipeline().fireChannelReadComplete();
		untilEvents(1);
		assertTrue(ms(read) >= 5);
		again(-1);
		open(DAY, 5, 0);
		channel.pipeline().fireChannelRead("message");
		run(expired.take());
		assertEquals(List.of(FIRST_WRITER_IDLE_STATE_EVENT), events);
	}

	/* Nothing is left of a channel that has ended or is inactive, or of a handler that was removed. */
	@Test
	public void ends() throws Exception {
		List<Consumer<ChannelPipeline>> ways = List.of(ChannelPipeline::close,
			ChannelPipeline::fireChannelInactive,
			pipeline -> pipeline.remove(HwIdleStateHandler.class));
		for (Consumer<ChannelPipeline> end : ways) {
			open(5, DAY, DAY);
			Runnable task = expired.take();
			end.accept(channel.pipeline());
			run(task);
			assertEquals(0, events.size());
			assertEquals(0, timer.pendingTimeouts());
		}
		channel.checkException();
	}

	/* It begins once: when the channel becomes active or, if it is active, at once. */
	@Test
	public void begins() {
		open(0, 0, 0);
		assertEquals(0, timer.pendingTimeouts());
		channel.pipeline().addFirst(new HwIdleStateHandler(timer, DAY, DAY, DAY, MS));
		assertEquals(3, timer.pendingTimeouts());
		channel = new EmbeddedChannel(new HwIdleStateHandler(timer, DAY, 0, 0, MS)) {
			@Override
			public boolean isActive() {
				return false;
			}
		};
		assertEquals(3, timer.pendingTimeouts());
		for (int i = 0; i < 2; i++) {
			channel.pipeline().fireChannelActive();
			assertEquals(4, timer.pendingTimeouts());
		}
	}

	/* An endless time does not wrap. */
	@Test
	public void never() throws Exception {
		open(Long.MAX_VALUE, Long.MAX_VALUE, Long.MAX_VALUE);
		channel.writeInbound("message");
		channel.writeOutbound("message");
		timer.newTimeout(t -> events.add("last"), 10, MS);
		run(expired.take());
		assertEquals(List.of("last"), events);
		assertEquals(3, timer.pendingTimeouts());
	}

	/* A channel for which the timer has no place is closed. Later the pipeline gets the exception. */
	@Test
	public void refused() throws Exception {
		again(1);
		open(DAY, DAY, 0);
		assertFalse(channel.isOpen());
		assertEquals(0, timer.pendingTimeouts());
		open(5, 0, 0);
		Runnable task = expired.take();
		timer.stop();
		run(task);
		assertThrows(IllegalStateException.class, channel::checkException);
	}

	@Test
	public void channelIdleThrows() throws Exception {
		open(new HwIdleStateHandler(timer, 5, 0, 0, MS) {
			@Override
			protected void channelIdle(ChannelHandlerContext ctx, IdleStateEvent event)
					throws IOException {
				throw new IOException("meant");
			}
		});
		for (int i = 0; i < 2; i++) {
			run(expired.take());
			assertThrows(IOException.class, channel::checkException);
		}
	}
}
