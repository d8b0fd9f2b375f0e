// SPDX-License-Identifier: GPL-2.0-only
import java.io.*;
import java.lang.management.*;
import java.net.Socket;
import java.nio.file.*;
import java.sql.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.IntConsumer;
import java.util.stream.Stream;

/*
 * Measure timeouts that a server keeps; tests/java/elsewhere starts it.
 *
 *	Elsewhere KIND PENDING OPERATIONS BATCH WHERE SERVER
 *
 * KIND: set (a sorted set of redis), keys (of redis, which expire, and their events) or database. With
 * so many timeouts pending, schedule, push back and cancel so many. BATCH are sent, and are one
 * transaction if it is the database, before the first reply is waited for. WHERE: the port of redis,
 * or the URL of the database. SERVER: its process id; CPU times are those of it and its children.
 * Times are medians of 5 rounds, without the first. Then it prints how late 10,000 timeouts are, of 1
 * to 11 s, as far as they come within a minute after the last.
 */
public class Elsewhere {
	private static final int ROUNDS = 5, LATE = 10000, POLL_MS = 100, HOUR_MS = 3600000;

	private interface Operation {
		void run(int id, long ms) throws Exception;
	}

	private interface Listen {
		/* Never returns. */
		void run(IntConsumer fired) throws Exception;
	}

	/* flush waits until the server has done what was sent: schedule, push back, and cancel. */
	private record Timers(Callable<?> flush, Listen listen, Operation... operations) {
	}

	/* A connection to redis. */
	private static class Redis {
		private final Writer out;
		private final BufferedReader in;
		private int sent;

		Redis(String port) throws IOException {
			Socket socket = new Socket("127.0.0.1", Integer.parseInt(port));
			socket.setTcpNoDelay(true);
			out = new BufferedWriter(new OutputStreamWriter(socket.getOutputStream()));
			in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
		}

		void send(Object... words) throws IOException {
			out.write("*" + words.length + "\r\n");
			for (Object word : words) {
				String text = word.toString();
				out.write("$" + text.length() + "\r\n" + text + "\r\n");
			}
			sent++;
		}

		/* Of one command: a number, a text, or those of a list. */
		List<String> reply() throws IOException {
			List<String> all = new ArrayList<>();
			String line = in.readLine();
			if (line == null || line.charAt(0) == '-') {
				throw new IOException(line);
			} else if (line.charAt(0) == '*') {
				for (int n = Integer.parseInt(line.substring(1)); n > 0; n--) {
					all.addAll(reply());
				}
			} else {
				all.add(line.charAt(0) == '$' ? in.readLine() : line.substring(1));
			}
			return all;
		}

		/* Of all commands that were sent. */
		List<String> replies() throws IOException {
			List<String> all = new ArrayList<>();
			out.flush();
			for (; sent > 0; sent--) {
				all.addAll(reply());
			}
			return all;
		}
	}

	private static Timers keys(Redis redis, Redis other) {
		return new Timers(redis::replies, fired -> {
			other.send("CONFIG", "SET", "notify-keyspace-events", "Ex");
			other.send("SUBSCRIBE", "__keyevent@0__:expired");
			other.replies();
			for (;;) {
				fired.accept(Integer.parseInt(other.reply().get(2)));
			}
		}, (id, ms) -> redis.send("SET", id, "", "PX", ms),
		   (id, ms) -> redis.send("PEXPIRE", id, ms),
		   (id, ms) -> redis.send("DEL", id));
	}

	private static Timers set(Redis redis, Redis other) {
		return new Timers(redis::replies, fired -> {
			for (;; Thread.sleep(POLL_MS)) {
				other.send("ZRANGEBYSCORE", "timers", "-inf", System.currentTimeMillis());
				List<String> due = other.replies();
				for (String id : due) {
					other.send("ZREM", "timers", id);
				}
				/* Who removes it has got it. */
				Iterator<String> removed = other.replies().iterator();
				for (String id : due) {
					if (removed.next().equals("1")) {
						fired.accept(Integer.parseInt(id));
					}
				}
			}
		}, (id, ms) -> redis.send("ZADD", "timers", System.currentTimeMillis() + ms, id),
		   (id, ms) -> redis.send("ZADD", "timers", "XX", System.currentTimeMillis() + ms, id),
		   (id, ms) -> redis.send("ZREM", "timers", id));
	}

	private static Operation batched(PreparedStatement statement) {
		return (id, ms) -> {
			statement.setLong(1, System.currentTimeMillis() + ms);
			statement.setInt(2, id);
			statement.addBatch();
		};
	}

	private static Timers database(Connection connection, Connection other) throws SQLException {
		connection.createStatement().execute("DROP TABLE IF EXISTS timers; " +
			"CREATE TABLE timers (id int PRIMARY KEY, due bigint NOT NULL); " +
			"CREATE INDEX ON timers (due)");
		connection.setAutoCommit(false);
		PreparedStatement insert = connection.prepareStatement(
			"INSERT INTO timers (due, id) VALUES (?, ?)");
		PreparedStatement update = connection.prepareStatement(
			"UPDATE timers SET due = ? WHERE id = ?");
		PreparedStatement delete = connection.prepareStatement("DELETE FROM timers WHERE id = ?");
		PreparedStatement take = other.prepareStatement(
			"DELETE FROM timers WHERE due <= ? RETURNING id");
		return new Timers(() -> {
			insert.executeBatch();
			update.executeBatch();
			delete.executeBatch();
			connection.commit();
			return null;
		}, fired -> {
			for (;; Thread.sleep(POLL_MS)) {
				take.setLong(1, System.currentTimeMillis());
				for (ResultSet due = take.executeQuery(); due.next();) {
					fired.accept(due.getInt(1));
				}
			}
		}, batched(insert), batched(update), (id, ms) -> {
			delete.setInt(1, id);
			delete.addBatch();
		});
	}

	private static Timers timers(String kind, String where) throws Exception {
		if (kind.equals("database")) {
			return database(DriverManager.getConnection(where),
				DriverManager.getConnection(where));
		}
		Redis redis = new Redis(where), other = new Redis(where);
		return kind.equals("set") ? set(redis, other) : keys(redis, other);
	}

	/* The CPU time of a process and its children. */
	private static long cpuNs(long pid) throws IOException {
		ProcessHandle server = ProcessHandle.of(pid).orElseThrow();
		long ns = 0;
		for (ProcessHandle p : (Iterable<ProcessHandle>)Stream.concat(Stream.of(server),
				server.descendants())::iterator) {
			try (Stream<Path> tasks = Files.list(Path.of("/proc/" + p.pid() + "/task"))) {
				for (Path task : (Iterable<Path>)tasks::iterator) {
					ns += Long.parseLong(Files.readString(task.resolve("schedstat"))
						.split(" ")[0]);
				}
			}
		}
		return ns;
	}

	/* Returns the time, the caller's CPU time, and the server's, in us for each. */
	private static double[] measure(Timers timers, Operation operation, int first, int n, int batch,
					long pid) throws Exception {
		ThreadMXBean thread = ManagementFactory.getThreadMXBean();
		long server = cpuNs(pid), caller = thread.getCurrentThreadCpuTime();
		long start = System.nanoTime();
		for (int i = 0; i < n; i++) {
			operation.run(first + i, HOUR_MS + i);
			if ((i + 1) % batch == 0) {
				timers.flush.call();
			}
		}
		double ns = System.nanoTime() - start;
		return new double[] { ns / n / 1000,
			(thread.getCurrentThreadCpuTime() - caller) / 1000.0 / n,
			(cpuNs(pid) - server) / 1000.0 / n };
	}

	private static void late(Timers timers, int first) throws Exception {
		long[] due = new long[LATE];
		List<Long> late = Collections.synchronizedList(new ArrayList<>());
		CountDownLatch left = new CountDownLatch(LATE);
		new Thread(() -> {
			try {
				timers.listen.run(id -> {
					late.add(System.nanoTime() - due[id - first]);
					left.countDown();
				});
			} catch (Exception e) {
				e.printStackTrace();
				System.exit(1);
			}
		}).start();
		for (int i = 0; i < LATE; i++) {
			int ms = 1000 + i * 7919 % LATE;
			due[i] = System.nanoTime() + ms * 1000000L;
			timers.operations[0].run(first + i, ms);
			if (i % 100 == 99) {
				timers.flush.call();
			}
		}
		left.await(71, TimeUnit.SECONDS);
		/* What has not come is later than all others. */
		Object[] sorted = late.toArray();
		Arrays.sort(sorted);
		System.out.printf("  %d came; late, ms:", sorted.length);
		for (int i : new int[] { LATE / 2, LATE / 100 * 99, LATE - 1 }) {
			System.out.print(i < sorted.length ? " " + (long)sorted[i] / 1000000 : " never");
		}
		System.out.println(" (median, 99 %, most)");
	}

	public static void main(String[] args) throws Exception {
		int pending = Integer.parseInt(args[1]), n = Integer.parseInt(args[2]);
		int batch = Integer.parseInt(args[3]);
		long pid = Long.parseLong(args[5]);
		Timers timers = timers(args[0], args[4]);
		String[] names = { "schedule", "push back", "cancel" };
		double[][][] us = new double[names.length][3][ROUNDS];
		measure(timers, timers.operations[0], 0, pending, 1000, pid);
		for (int round = -1; round < ROUNDS; round++) {
			for (int k = 0; k < names.length; k++) {
				double[] seen = measure(timers, timers.operations[k], pending, n, batch, pid);
				for (int i = 0; i < seen.length && round >= 0; i++) {
					us[k][i][round] = seen[i];
				}
			}
		}
		System.out.printf("%s, %d pending, %d at a time%n", args[0], pending, batch);
		for (int k = 0; k < names.length; k++) {
			for (double[] rounds : us[k]) {
				Arrays.sort(rounds);
			}
			System.out.printf("  %s: %.1f us; caller's CPU %.1f, server's %.1f%n", names[k],
				us[k][0][ROUNDS / 2], us[k][1][ROUNDS / 2], us[k][2][ROUNDS / 2]);
		}
		late(timers, pending);
		System.exit(0);
	}
}
