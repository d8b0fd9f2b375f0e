// SPDX-License-Identifier: GPL-2.0-only
import static org.junit.Assert.*;

import hwtimer.HwTimer;
import io.netty.channel.Channel;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.nio.NioEventLoopGroup;
import java.io.*;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.Test;

/* A server that closes idle connections by HwIdleStateHandler. For a machine with a network. */
public class ServerTest {
	private static final TimeUnit MS = TimeUnit.MILLISECONDS;

	/*
	 * What examples/IdleServer.java says to a client that speaks, is silent for so long, and speaks
	 * again. So long is until the server's timer has gone on: what was due before has been done.
	 */
	private static List<String> talk(int idleMs, int silentMs) throws Exception {
		NioEventLoopGroup group = new NioEventLoopGroup(1);
		HwTimer timer = new HwTimer(1, MS);
		Channel server = IdleServer.serve(timer, group, 0, idleMs);
		List<String> lines = null;
		while (lines == null) {
			lines = talk(((InetSocketAddress)server.localAddress()).getPort(), timer, group, silentMs);
		}
		timer.stop();
		group.shutdownGracefully(0, 0, MS);
		System.out.println("# idle " + idleMs + " ms, silent " + silentMs + " ms: " + lines);
		return lines;
	}

	/* Returns null if a busy machine was silent before. */
	private static List<String> talk(int port, HwTimer timer, EventLoopGroup group, int silentMs)
			throws Exception {
		List<String> lines = null;
		try (Socket socket = new Socket("127.0.0.1", port)) {
			BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
			OutputStream out = socket.getOutputStream();
			out.write("first\n".getBytes());
			String line = in.readLine();
			while ("ping".equals(line)) {
				line = in.readLine();
			}
			if (line == null) {
				return null;
			}
			lines = new ArrayList<>();
			/* Of those that are due at the same time, any is the first. */
			for (int delay : new int[] { silentMs, 2 }) {
				CountDownLatch later = new CountDownLatch(1);
				timer.newTimeout(t -> later.countDown(), delay, MS);
				later.await();
			}
			group.submit(() -> { }).sync();
			out.write("last\n".getBytes());
			while (line != null && !line.equals("last")) {
				line = in.readLine();
				lines.add(String.valueOf(line));
			}
		} catch (IOException e) {
			/* The server has closed it. */
			if (lines != null) {
				lines.add("closed");
			}
		}
		return lines;
	}

	/* The server closes who says nothing, and answers nothing any more. */
	@Test
	public void serverCloses() throws Exception {
		assertFalse(talk(60, 120).contains("last"));
	}

	/* It says "ping" before that; on a busy machine the connection may have been closed. */
	@Test
	public void serverPings() throws Exception {
		assertNotEquals("last", talk(1500, 1000).get(0));
	}
}
