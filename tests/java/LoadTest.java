// SPDX-License-Identifier: GPL-2.0-only
import static org.junit.Assert.*;

import hwtimer.HwTimer;
import java.io.*;
import java.lang.reflect.Method;
import java.nio.file.*;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.*;
import java.util.stream.*;
import org.junit.*;
import org.junit.rules.TemporaryFolder;

/*
 * Where HwTimer finds its native library. Each case is a JVM of its own, which runs main() below. The
 * property "classes" is a directory without a native library, "jar" has one, and "library" is one.
 */
public class LoadTest {
	@Rule
	public TemporaryFolder folder = new TemporaryFolder();

	private static final String JAR = System.getProperty("jar"), CLASSES = System.getProperty("classes");

	/* LoadTest: print why there is no library or which one it is, and what java.io.tmpdir has then. */
	public static void main(String[] args) throws Exception {
		if (args.length > 0) {
			Method create = Class.forName("hwtimer.Native").getDeclaredMethod("create");
			create.setAccessible(true);
			System.out.println(PosixFilePermissions.toString(
				Files.getPosixFilePermissions((Path)create.invoke(null))));
			return;
		}
		Thread.currentThread().interrupt();
		boolean available = HwTimer.isAvailable();
		Thread.interrupted();
		if (available) {
			new HwTimer().stop();
			try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
				System.out.println(maps.filter(line -> line.contains("hwtimer_jni"))
					.map(line -> line.replaceFirst("^[^/]*", "")).findFirst().get());
			}
		} else {
			assertThrows(IllegalStateException.class, HwTimer::new);
			System.out.println(HwTimer.unavailabilityCause());
		}
		System.out.println(Arrays.toString(new File(System.getProperty("java.io.tmpdir")).list()));
	}

	/* Runs it with these classes, paths, and arguments. Returns the lines that it prints. */
	private List<String> load(String classes, Object path, Object temp, String... arguments)
			throws IOException {
		String classpath = Stream.of(System.getProperty("java.class.path").split(":"))
			.filter(part -> !part.equals(JAR)).collect(Collectors.joining(":"));
		List<String> command = new ArrayList<>(List.of("sh", "-c", "umask 0; exec \"$0\" \"$@\"",
			System.getProperty("java.home") + "/bin/java", "-Djava.library.path=" + path,
			"-Djava.io.tmpdir=" + temp, "-cp", classes + ":" + classpath, "LoadTest"));
		command.addAll(List.of(arguments));
		Process process = new ProcessBuilder(command)
			.redirectError(ProcessBuilder.Redirect.DISCARD).start();
		List<String> lines = process.inputReader().lines().collect(Collectors.toList());
		lines.forEach(line -> System.out.println("# " + line));
		return lines;
	}

	private File empty() throws IOException {
		return folder.newFolder();
	}

	private File withLibrary(boolean whole) throws IOException {
		File path = folder.newFolder();
		Path library = path.toPath().resolve("libhwtimer_jni.so");
		if (whole) {
			Files.copy(Path.of(System.getProperty("library")), library);
		} else {
			Files.createFile(library);
		}
		return path;
	}

	/* It is deleted, but stays mapped. */
	private void assertFromJar(List<String> lines, File temp) {
		assertEquals(2, lines.size());
		assertTrue(lines.get(0).startsWith(temp + "/") && lines.get(0).endsWith(" (deleted)"));
		assertEquals("[]", lines.get(1));
	}

	@Test
	public void fromJar() throws Exception {
		File temp = empty();
		assertFromJar(load(JAR, empty(), temp), temp);
	}

	/* One that does not load is none. */
	@Test
	public void brokenInPath() throws Exception {
		File temp = empty();
		assertFromJar(load(JAR, withLibrary(false), temp), temp);
	}

	/* The path comes first, and is enough. */
	@Test
	public void fromPath() throws Exception {
		File path = withLibrary(true);
		for (String classes : new String[] { JAR, CLASSES }) {
			assertEquals(List.of(path + "/libhwtimer_jni.so", "[]"), load(classes, path, empty()));
		}
	}

	/* The cause has both reasons. */
	@Test
	public void nowhere() throws Exception {
		File path = empty();
		String line = load(CLASSES, path, empty()).get(0);
		assertTrue(line.contains(path.toString()));
		assertTrue(line.contains("from the jar: java.io.FileNotFoundException: there is no "));
	}

	@Test
	public void brokenEverywhere() throws Exception {
		File classes = empty(), temp = empty();
		Path dir = classes.toPath().resolve("META-INF/native/linux-" + System.getProperty("os.arch"));
		Files.createDirectories(dir);
		Files.createFile(dir.resolve("libhwtimer_jni.so"));
		List<String> lines = load(classes + ":" + CLASSES, empty(), temp);
		assertTrue(lines.get(0).contains("from the jar: java.lang.UnsatisfiedLinkError: " + temp));
		assertEquals("[]", lines.get(1));
	}

	@Test
	public void noPlaceForAFile() throws Exception {
		String line = load(JAR, empty(), "/nonexistent").get(0);
		assertTrue(line.contains("from the jar: ") && line.contains("/nonexistent/"));
	}

	/* Nobody else can write it, whatever the umask is. */
	@Test
	public void fileIsPrivate() throws Exception {
		assertEquals(List.of("rw-------"), load(JAR, empty(), empty(), "create"));
	}
}
