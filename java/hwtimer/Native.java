// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package hwtimer;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** Finds the native library: in java.library.path or, if none there loads, in the jar. */
final class Native {
	private static final String NAME = "hwtimer_jni", FILE = System.mapLibraryName(NAME);

	private Native() {
	}

	/** Returns why there is none that can be used; null if one was loaded. */
	static Throwable load() {
		try {
			find();
			long before = System.nanoTime(), now = Table.now();
			/* OpenJDK's is. */
			return before <= now && now <= System.nanoTime() ? null :
				new IllegalStateException("nanoTime() is not CLOCK_MONOTONIC");
		} catch (Throwable e) {
			return e;
		}
	}

	private static void find() {
		try {
			System.loadLibrary(NAME);
		} catch (UnsatisfiedLinkError e) {
			try {
				loadFromJar();
			} catch (IOException | UnsatisfiedLinkError another) {
				e.addSuppressed(another);
				throw (Error)new UnsatisfiedLinkError(e.getMessage() +
					"; and from the jar: " + another).initCause(e);
			}
		}
	}

	private static void loadFromJar() throws IOException {
		String name = "/META-INF/native/linux-" + System.getProperty("os.arch") + "/" + FILE;
		try (InputStream in = Native.class.getResourceAsStream(name)) {
			if (in == null) {
				throw new FileNotFoundException("there is no " + name);
			}
			Path file = create();
			try {
				/* It keeps its mode. */
				Files.write(file, in.readAllBytes());
				System.load(file.toString());
			} finally {
				/* What was loaded stays mapped. */
				Files.delete(file);
			}
		}
	}

	/* A file in java.io.tmpdir that nobody else can write, whatever the umask is. */
	private static Path create() throws IOException {
		return Files.createTempFile(null, FILE).toAbsolutePath();
	}
}
