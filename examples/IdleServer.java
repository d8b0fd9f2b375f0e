// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
import hwtimer.HwIdleStateHandler;
import hwtimer.HwTimer;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.*;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.timeout.IdleState;
import io.netty.handler.timeout.IdleStateEvent;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/*
 * IdleServer PORT IDLE_MS: a server for Netty that sends back what it gets, sends "ping" when it has
 * sent nothing for a third of this time, and closes connections from which nothing has come for all
 * of it. It needs no build, with a classpath as in docs/java.rst:
 *
 *	java IdleServer.java 7777 30000
 */
public class IdleServer {
	private static class Echo extends ChannelInboundHandlerAdapter {
		@Override
		public void channelRead(ChannelHandlerContext ctx, Object message) {
			ctx.write(message);
		}

		@Override
		public void channelReadComplete(ChannelHandlerContext ctx) {
			ctx.flush();
		}

		@Override
		public void userEventTriggered(ChannelHandlerContext ctx, Object event) {
			if (!(event instanceof IdleStateEvent)) {
				ctx.fireUserEventTriggered(event);
			} else if (((IdleStateEvent)event).state() == IdleState.READER_IDLE) {
				ctx.close();
			} else {
				ctx.writeAndFlush(Unpooled.copiedBuffer("ping\n", StandardCharsets.US_ASCII));
			}
		}

		@Override
		public void exceptionCaught(ChannelHandlerContext ctx, Throwable cause) {
			ctx.close();
		}
	}

	/* One timer is enough for a program. */
	static Channel serve(HwTimer timer, EventLoopGroup group, int port, long idleMs)
			throws InterruptedException {
		return new ServerBootstrap().group(group).channel(NioServerSocketChannel.class)
			.childHandler(new ChannelInitializer<Channel>() {
				@Override
				protected void initChannel(Channel channel) {
					channel.pipeline().addLast(new HwIdleStateHandler(timer, idleMs,
						idleMs / 3, 0, TimeUnit.MILLISECONDS));
					channel.pipeline().addLast(new Echo());
				}
			}).bind(port).sync().channel();
	}

	public static void main(String[] args) throws InterruptedException {
		HwTimer timer = new HwTimer();
		Channel server = serve(timer, new NioEventLoopGroup(), Integer.parseInt(args[0]),
				       Long.parseLong(args[1]));
		System.out.println("timeouts are " + (timer.inProcess() ? "in the process" : "on the device"));
		server.closeFuture().sync();
	}
}
