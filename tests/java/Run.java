// SPDX-License-Identifier: GPL-2.0-only
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/* Run NAME CLASS: run tests of JUnit, and print a line for each: "NAME CASE ok|failed MS [WHY]". */
public class Run {
	public static void main(String[] args) throws Exception {
		Class<?> tests = Class.forName(args[1]);
		JUnitCore core = new JUnitCore();
		core.addListener(new RunListener() {
			private String why;
			private long start;

			@Override
			public void testStarted(Description test) {
				why = null;
				start = System.nanoTime();
			}

			@Override
			public void testFailure(Failure failure) {
				why = failure.getException().toString().replaceAll("\\s+", " ");
			}

			@Override
			public void testFinished(Description test) {
				System.out.printf("%s %s %s %d%s%n", args[0], test.getMethodName(),
					why == null ? "ok" : "failed",
					(System.nanoTime() - start) / 1000000,
					why == null ? "" : " " + why);
			}
		});
		core.run(tests);
		System.exit(0);
	}
}
