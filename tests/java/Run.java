// SPDX-License-Identifier: GPL-2.0-only
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/* Run CLASS...: run tests of JUnit, and print TAP. */
public class Run {
	public static void main(String[] args) throws Exception {
		Class<?>[] tests = new Class<?>[args.length];
		for (int i = 0; i < args.length; i++) {
			tests[i] = Class.forName(args[i]);
		}
		JUnitCore core = new JUnitCore();
		core.addListener(new RunListener() {
			private String why;
			private int number;

			@Override
			public void testStarted(Description test) {
				why = null;
				System.out.println("# " + test.getMethodName());
			}

			@Override
			public void testFailure(Failure failure) {
				why = failure.getException().toString().replaceAll("\\s+", " ");
			}

			@Override
			public void testFinished(Description test) {
				if (why != null) {
					System.out.println("# " + why);
				}
				System.out.printf("%sok %d %s%n", why == null ? "" : "not ", ++number,
					test.getMethodName());
			}
		});
		System.out.println("1.." + Request.classes(tests).getRunner().testCount());
		core.run(tests);
		System.exit(0);
	}
}
