// SPDX-License-Identifier: GPL-2.0-only
import hwtimer.HwTimer;
import io.netty.util.*;
import java.util.concurrent.TimeUnit;

/*
 * Calls PENDING ROUNDS: with so many timeouts pending, measure the calls of HwTimer and of Netty's
 * HashedWheelTimer. Prints the median of the rounds: "calls TIMER CASE PENDING NS".
 */
public class Calls {
	private static final int OPERATIONS = 200000;
	private static final TimerTask NOTHING = timeout -> { };

	private interface Case {
		void run(int n);
	}

	private static void measure(String timer, String name, int pending, int rounds, Case body) {
		double[] ns = new double[rounds];
		body.run(OPERATIONS);
		for (int i = 0; i < rounds; i++) {
			long start = System.nanoTime();
			body.run(OPERATIONS);
			ns[i] = (double)(System.nanoTime() - start) / OPERATIONS;
		}
		java.util.Arrays.sort(ns);
		System.out.printf("calls %s %s %d %.0f (%.0f to %.0f)%n", timer, name, pending,
			ns[rounds / 2], ns[0], ns[rounds - 1]);
	}

	private static void calls(String name, Timer timer, int pending, int rounds) {
		Timeout[] all = new Timeout[pending];
		for (int i = 0; i < pending; i++) {
			all[i] = timer.newTimeout(NOTHING, 3600 + i % 3600, TimeUnit.SECONDS);
		}
		measure(name, "new+cancel", pending, rounds, n -> {
			for (int i = 0; i < n; i++) {
				timer.newTimeout(NOTHING, 3600, TimeUnit.SECONDS).cancel();
			}
		});
		/* What a server does for each message: its connection's timeout is pushed back. */
		measure(name, "push_back", pending, rounds, n -> {
			int k = 0;
			for (int i = 0; i < n; i++) {
				k = (k + 7919) % pending;
				if (all[k] instanceof HwTimer.HwTimeout) {
					((HwTimer.HwTimeout)all[k]).touch(7200, TimeUnit.SECONDS);
				} else {
					all[k].cancel();
					all[k] = timer.newTimeout(NOTHING, 7200, TimeUnit.SECONDS);
				}
			}
		});
		timer.stop();
	}

	public static void main(String[] args) {
		int pending = Integer.parseInt(args[0]), rounds = Integer.parseInt(args[1]);
		calls("hwtimer", new HwTimer(), pending, rounds);
		calls("netty", new HashedWheelTimer(), pending, rounds);
		System.exit(0);
	}
}
