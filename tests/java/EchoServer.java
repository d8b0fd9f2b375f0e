// SPDX-License-Identifier: GPL-2.0-only
import hwtimer.HwTimer;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.channel.*;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.timeout.*;
import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.Timer;
import java.io.*;
import java.net.InetSocketAddress;
import java.util.*;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/*
 * EchoServer TIMER IDLE_MS: a Netty server that closes connections which send nothing for this long.
 * TIMER is hwtimer (a timeout of HwTimer, touched by each message), wheel (one of HashedWheelTimer,
 * cancelled and made anew) or idle (Netty's ReadTimeoutHandler, an IdleStateHandler, on the event
 * loop). Prints "port N", and for each line of its input what it used since the last one:
 * "cpu_ms N wakeups N", and at the end the lateness of closing.
 */
public class EchoServer {
	private static final List<Long> late = Collections.synchronizedList(new ArrayList<>());
	private static long idleNs;

	private static class Idle extends ChannelInboundHandlerAdapter {
		private final Timer timer;
		private Timeout timeout;
		private volatile long last;

		Idle(Timer timer) {
			this.timer = timer;
		}

		@Override
		public void channelActive(ChannelHandlerContext ctx) {
			last = System.nanoTime();
			if (timer != null) {
				arm(ctx);
			}
			ctx.fireChannelActive();
		}

		private void arm(ChannelHandlerContext ctx) {
			timeout = timer.newTimeout(t -> expired(ctx), idleNs, TimeUnit.NANOSECONDS);
		}

		private void expired(ChannelHandlerContext ctx) {
			late.add(System.nanoTime() - last - idleNs);
			ctx.close();
		}

		@Override
		public void channelRead(ChannelHandlerContext ctx, Object message) {
			last = System.nanoTime();
			if (timeout instanceof HwTimer.HwTimeout) {
				((HwTimer.HwTimeout)timeout).touchAt(last + idleNs);
			} else if (timeout != null && timeout.cancel()) {
				arm(ctx);
			}
			ctx.write(message);
		}

		@Override
		public void channelReadComplete(ChannelHandlerContext ctx) {
			ctx.flush();
		}

		@Override
		public void channelInactive(ChannelHandlerContext ctx) {
			if (timeout != null) {
				timeout.cancel();
			}
		}

		@Override
		public void exceptionCaught(ChannelHandlerContext ctx, Throwable cause) {
			if (cause instanceof ReadTimeoutException) {
				expired(ctx);
			} else {
				ctx.close();
			}
		}
	}

	/* How often the threads of Netty and of the timer, and those of the wheel, went to sleep. */
	private static long wakeups() throws IOException {
		return Measure.sleeps("timer|nioEvent|multithreadEve|java");
	}

	private static long cpuMs() throws IOException {
		return Measure.cpuNs() / 1000000;
	}

	public static void main(String[] args) throws Exception {
		idleNs = Long.parseLong(args[1]) * 1000000;
		Timer timer = args[0].equals("hwtimer") ? new HwTimer(r -> new Thread(r, "timer")) :
			args[0].equals("wheel") ? new HashedWheelTimer(r -> new Thread(r, "timer")) : null;
		NioEventLoopGroup group = new NioEventLoopGroup(1);
		Channel server = new ServerBootstrap().group(group)
			.channel(NioServerSocketChannel.class)
			.option(ChannelOption.SO_BACKLOG, 4096)
			.childOption(ChannelOption.ALLOCATOR, PooledByteBufAllocator.DEFAULT)
			.childHandler(new ChannelInitializer<Channel>() {
				@Override
				protected void initChannel(Channel channel) {
					if (timer == null) {
						channel.pipeline().addLast(new ReadTimeoutHandler(idleNs,
							TimeUnit.NANOSECONDS));
					}
					channel.pipeline().addLast(new Idle(timer));
				}
			}).bind("127.0.0.1", 0).sync().channel();
		System.out.println("port " + ((InetSocketAddress)server.localAddress()).getPort());
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
		long cpu = cpuMs(), wakeups = wakeups();
		while (in.readLine() != null) {
			long cpuNow = cpuMs(), wakeupsNow = wakeups();
			System.out.printf("cpu_ms %d wakeups %d%n", cpuNow - cpu, wakeupsNow - wakeups);
			cpu = cpuNow;
			wakeups = wakeupsNow;
		}
		Long[] sorted = late.toArray(new Long[0]);
		Arrays.sort(sorted);
		if (sorted.length > 0) {
			System.out.printf("closed %d late_median_ms %.1f late_99_ms %.1f early %d%n",
				sorted.length, sorted[sorted.length / 2] / 1e6,
				sorted[sorted.length * 99 / 100] / 1e6,
				Stream.of(sorted).filter(ns -> ns < 0).count());
		}
		System.exit(0);
	}
}
