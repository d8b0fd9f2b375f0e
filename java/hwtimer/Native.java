// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
package hwtimer;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;

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
			File file = copy(in);
			try {
				System.load(file.getPath());
			} finally {
				/* What was loaded stays mapped. */
				file.delete();
			}
		}
	}

	/*
	 * To a new file in java.io.tmpdir, which nobody else can write. Not by a channel, which an
	 * interrupted thread closes.
	 */
	private static File copy(InputStream in) throws IOException {
		File file = Files.createTempFile(null, FILE).toFile().getAbsoluteFile();
		try (OutputStream out = new FileOutputStream(file)) {
			in.transferTo(out);
		} catch (IOException e) {
			file.delete();
			throw e;
		}
		return file;
	}
}
