// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package hwtimer;

import io.netty.channel.ChannelDuplexHandler;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelPromise;
import io.netty.handler.timeout.IdleStateEvent;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;

import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;

/**
 * Netty's IdleStateHandler on a {@link HwTimer}. It triggers the same {@link IdleStateEvent}s, at the
 * first tick of the timer at or after the time. A message touches a timeout, and no thread wakes up
 * for a channel that is not idle. A time of 0 or less is off; there is no observeOutput. If the timer
 * refuses a timeout, the pipeline gets the exception, and a channel is closed that is just being
 * initialised.
 */
public class HwIdleStateHandler extends ChannelDuplexHandler {
	private final HwTimer timer;
	private final Idle reader, writer, all;
	private final List<Idle> each;
	private final ChannelFutureListener written;
	private ChannelHandlerContext ctx;
	private boolean reading;

	public HwIdleStateHandler(HwTimer timer, long readerIdleTime, long writerIdleTime,
				  long allIdleTime, TimeUnit unit) {
		this.timer = Objects.requireNonNull(timer, "timer");
		reader = new Idle(unit.toNanos(readerIdleTime), IdleStateEvent.READER_IDLE_STATE_EVENT,
			IdleStateEvent.FIRST_READER_IDLE_STATE_EVENT);
		writer = new Idle(unit.toNanos(writerIdleTime), IdleStateEvent.WRITER_IDLE_STATE_EVENT,
			IdleStateEvent.FIRST_WRITER_IDLE_STATE_EVENT);
		all = new Idle(unit.toNanos(allIdleTime), IdleStateEvent.ALL_IDLE_STATE_EVENT,
			IdleStateEvent.FIRST_ALL_IDLE_STATE_EVENT);
		each = List.of(reader, writer, all);
		written = future -> writer.touch();
	}

	/* For one kind of event. All but run() is in the channel's event loop. */
	private final class Idle implements TimerTask {
		private final long ns;
		private final IdleStateEvent later, first;
		private IdleStateEvent event;
		private HwTimer.HwTimeout timeout;
		private long last;

		Idle(long ns, IdleStateEvent later, IdleStateEvent first) {
			/* Half, or the deadline might wrap. */
			this.ns = Math.min(ns, Long.MAX_VALUE / 2);
			this.later = later;
			this.first = first;
		}

		/* Is a message of interest? */
		boolean isOn() {
			return ns > 0 || all.ns > 0;
		}

		void touch() {
			long now = System.nanoTime();
			touchAt(now);
			all.touchAt(now);
		}

		void touchAt(long now) {
			event = first;
			last = now;
			if (timeout != null) {
				timeout.touchAt(now + ns);
			}
		}

		void begin() {
			touchAt(System.nanoTime());
			if (ns > 0) {
				arm(ns);
			}
		}

		void arm(long delayNs) {
			timeout = timer.newTimeout(this, delayNs, TimeUnit.NANOSECONDS);
		}

		void end() {
			if (timeout != null) {
				timeout.cancel();
				timeout = null;
			}
		}

		@Override
		public void run(Timeout expired) {
			ctx.executor().execute(() -> {
				/* Meanwhile the channel may have ended. */
				if (timeout == expired) {
					expire();
				}
			});
		}

		private void expire() {
			/* There may have been a message; one that is still being read is one. */
			boolean busy = reading && this != writer;
			long left = busy ? ns : last + ns - System.nanoTime();
			try {
				arm(left > 0 ? left : ns);
				if (left <= 0) {
					IdleStateEvent idle = event;
					event = later;
					channelIdle(ctx, idle);
				}
			} catch (Throwable e) {
				ctx.fireExceptionCaught(e);
			}
		}
	}

	/** Triggers the event. */
	protected void channelIdle(ChannelHandlerContext ctx, IdleStateEvent event) throws Exception {
		ctx.fireUserEventTriggered(event);
	}

	private void begin(ChannelHandlerContext ctx) {
		if (this.ctx == null) {
			this.ctx = ctx;
			each.forEach(Idle::begin);
		}
	}

	@Override
	public void handlerAdded(ChannelHandlerContext ctx) {
		if (ctx.channel().isActive()) {
			begin(ctx);
		}
	}

	@Override
	public void channelActive(ChannelHandlerContext ctx) {
		begin(ctx);
		ctx.fireChannelActive();
	}

	@Override
	public void channelInactive(ChannelHandlerContext ctx) {
		each.forEach(Idle::end);
		ctx.fireChannelInactive();
	}

	@Override
	public void handlerRemoved(ChannelHandlerContext ctx) {
		each.forEach(Idle::end);
	}

	@Override
	public void channelRead(ChannelHandlerContext ctx, Object message) {
		reading = reader.isOn();
		ctx.fireChannelRead(message);
	}

	@Override
	public void channelReadComplete(ChannelHandlerContext ctx) {
		if (reading) {
			reading = false;
			reader.touch();
		}
		ctx.fireChannelReadComplete();
	}

	@Override
	public void write(ChannelHandlerContext ctx, Object message, ChannelPromise promise) {
		ctx.write(message, writer.isOn() ? promise.unvoid().addListener(written) : promise);
	}
}
