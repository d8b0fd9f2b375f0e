// SPDX-License-Identifier: GPL-2.0-only
package io.netty.util;

/* As in Netty 4.2: HwTimerTest runs with it, Netty's own test with the one of 4.1. */
public interface TimerTask {
	void run(Timeout timeout) throws Exception;

	default void cancelled(Timeout timeout) {
	}
}
