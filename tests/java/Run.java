// SPDX-License-Identifier: GPL-2.0-only
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/*
 * Run NAME CLASS [WARM_UP]: run tests of JUnit, and print a line for each: "NAME CASE ok|failed MS
 * [WHY]". The case WARM_UP is run first, and not reported, so that the time limit of no other one
 * includes loading the classes, which takes seconds in an emulated guest.
 */
public class Run {
	public static void main(String[] args) throws Exception {
		Class<?> tests = Class.forName(args[1]);
		if (args.length > 2) {
			new JUnitCore().run(Request.method(tests, args[2]));
		}
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
