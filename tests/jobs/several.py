#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: several.py JOBS BIN CLUSTER [TEST...]

Test several schedulers of the program JOBS that share a database in PostgreSQL, with the server's
programs in BIN and its data in CLUSTER: as root, in namespaces of its own. Scheduler N
connects to 127.0.0.N, so that the network can be cut for each of them. They, the server and the
network are killed, stopped and cut; what the rows say and what the commands did has to agree. Prints
TAP.
"""
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import psycopg2
import psycopg2.extras

import common
from common import (END, JOBS, LOG, PATIENCE_S, RANDOM, S, UNTIL_GO, Scheduler, check, check_books,
                    count, here, jobs, logged, one, read, sql, wait)

BIN, CLUSTER = map(os.path.abspath, sys.argv[2:4])
WINDOW = "--window 10s"     # the lease is 6 s, which a busy machine does not exceed
WORK = f"{LOG}; {END}"
WAITING = f"{LOG}; {UNTIL_GO}; {END}"
# The clock of the database is an hour ahead of the schedulers'.
NOW = ("CREATE OR REPLACE FUNCTION now_ns() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT "
       "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) * 1000 + 3600000000000 {} $$")


class Postgres:
    """The server, with defaults that let it forget its last transactions when it is killed."""

    def name(self, number=1):
        return f"host=127.0.0.{number or 1} user=nobody dbname=postgres"

    def connect(self):
        return contextlib.closing(psycopg2.connect(f"host={CLUSTER} user=nobody dbname=postgres"))

    def query(self, text, values=()):
        with self.connect() as db:
            db.autocommit = True
            cursor = db.cursor(cursor_factory=psycopg2.extras.DictCursor)
            cursor.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def now(self):
        return one("SELECT now_ns()")

    def start(self):
        self.process = subprocess.Popen(
            [f"{BIN}/postgres", "-D", CLUSTER, "-k", CLUSTER, "-c", "listen_addresses=*", "-c",
             "synchronous_commit=off", "-c", "wal_writer_delay=10s", "-c", "jit=off"],
            user="nobody", extra_groups=[], stderr=open("/proc/self/fd/2", "wb"))

        def answers():
            with contextlib.suppress(psycopg2.OperationalError):
                return self.query("SELECT TRUE")
        wait(answers)

    def signal(self, number):
        """To all of its processes; while the first is stopped, it starts no further ones."""
        pid = self.process.pid
        self.process.send_signal(signal.SIGSTOP if number == signal.SIGKILL else number)
        for child in read(f"/proc/{pid}/task/{pid}/children").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), number)
        self.process.send_signal(number)

    def kill(self):
        """Without warning."""
        children = read(f"/proc/{self.process.pid}/task/{self.process.pid}/children").split()
        self.signal(signal.SIGKILL)
        self.process.wait()
        wait(lambda: not any(os.path.exists(f"/proc/{child}") for child in children))
        os.remove(f"{CLUSTER}/postmaster.pid")


SERVER = Postgres()


def begin():
    """Begin with nothing."""
    sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    jobs("db", "add", "first", "--every", "1d", "--", "true")
    jobs("db", "remove", "first")
    sql(NOW.format(""))
    here["first"] = {}


def add(name, options, command=WORK):
    common.add(name, options, command=command)
    here["first"][name] = one(f"SELECT next FROM job WHERE name = '{name}'")


def scheduler(number, options=WINDOW, **more):
    return Scheduler(options, number, **{"wait_for": None} | more)


def named(process):
    """Its name in the database."""
    return f"{socket.gethostname()}:{process.process.pid}"


def finish(*schedulers):
    """They end, and the books balance."""
    for process in schedulers:
        process.process.terminate()
    # Not by end(): whom a second signal reaches ends before what is running.
    for process in schedulers:
        assert process.process.wait(PATIENCE_S) == 0, read(process.output)
    check_books()
    check("= 0: state = 'started'", "= 0: owner IS NOT NULL", "= 0: next < now_ns()",
          "= 0: state = 'done' AND status <> 0")
    ended, first = logged("e"), dict(sql("SELECT name, min(due) FROM run JOIN job ON job.id = job "
                                         "GROUP BY name"))
    for row in sql("SELECT name, due FROM run JOIN job ON job.id = job WHERE state = 'done'"):
        assert ended[tuple(row)] == 1, row
    assert first.items() >= here["first"].items(), (first, here["first"])


def network(verb, number, silent=False):
    """Cut ("add") or heal ("del") the network between a scheduler and the server. If it is silent,
    packets vanish without an error: they leave by lo, and come back as those of another machine."""
    words = [f"127.0.0.{number}/32", "dev", "lo"] if silent else ["blackhole", f"127.0.0.{number}/32"]
    subprocess.run(["ip", "route", verb, *words, "table", "local"], check=True)


def gone(pid):
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/status", encoding="ascii") as file:
        return "State:\tZ" in file.read()
    return True


def first_line():
    """Of the log: the due time and the process of the command."""
    wait(lambda: read("log").count("\n"))
    return read("log").split()[2:4]


def are_refused():
    """What is wrong is said before anything is written."""
    for bad in "900ms", "60d":
        jobs("db", "run", "--window", bad, status=1, says="from 1s to 30d")
    assert one("SELECT count(*) FROM executor") == 0
    sql("UPDATE jobs_database SET version = version + 1")
    for words in (["list"], ["add", "b", "--every", "1s", "--", "true"]):
        jobs("db", *words, status=1, says="another version")


def tables_are_made_again():
    """A scheduler that used the old ones does not take the new scheduler and job for those that had
    the same numbers."""
    add("a", "--every 1s")
    old = scheduler(2)
    wait("> 1: state = 'done'")
    old.process.send_signal(signal.SIGSTOP)
    begin()
    os.truncate("log", 0)
    add("b", "--every 1s")
    new = scheduler(3, wait_for="running")
    old.process.send_signal(signal.SIGCONT)
    assert old.process.wait(PATIENCE_S) == 1 and "another database" in read(old.output)
    wait("> 2: state = 'done'")
    finish(new)


def old_rows_are_deleted_in_steps():
    """Because schedulers wait for each transaction."""
    for name in "ab":
        jobs("db", "add", name, "--every", "1d", "--", "true")
    fill = ("INSERT INTO run (job, due, cause, state) SELECT id, n, 'due', 'done' "
            "FROM job, generate_series(1, 10000) AS n")
    sql("CREATE FUNCTION few() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF (SELECT count(*) FROM old) > 4096 THEN RAISE 'too many rows'; END IF; RETURN NULL; END $$;"
        "CREATE TRIGGER few AFTER DELETE ON run REFERENCING OLD TABLE AS old "
        "FOR EACH STATEMENT EXECUTE FUNCTION few()")
    for words, left in ((["trim", "0s"], (2, 0)), (["remove", "a"], (1, 10000))):
        sql(fill)
        jobs("db", *words)
        assert (one("SELECT count(*) FROM job"), count()) == left, words


def pooler_of_transactions():
    """The session has another scheduler's settings, as behind a pooler that has one for each."""
    add("a", "--every 1s")
    sql("INSERT INTO executor (name, lease) VALUES ('absent', now_ns() + 3600000000000);"
        "UPDATE job SET owner = (SELECT id FROM executor);"
        "CREATE FUNCTION share() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM set_config('jobs.scheduler', CAST(owner AS text), false) FROM job; RETURN NULL; END $$;"
        "CREATE TRIGGER share BEFORE UPDATE ON executor EXECUTE FUNCTION share()")
    process = scheduler(2)
    assert process.process.wait(PATIENCE_S) and "must pool sessions" in read(process.output)
    check("= 0: TRUE")


def next_host():
    """The first of two hosts does not answer."""
    add("a", "--every 1s")
    network("add", 3, silent=True)
    process = scheduler(2, "", database="host=127.0.0.3,127.0.0.2 user=nobody dbname=postgres")
    wait("> 0: state = 'done'")
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'jobs'")
    process.says("connected again")
    network("del", 3, silent=True)
    finish(process)


def clock_jumps():
    """Within a transaction the clock is set forward, by more than the lease."""
    add("a", "--every 1s", WAITING)
    process = scheduler(2)
    first_line()
    owner = one("SELECT owner FROM job")
    sql("CREATE FUNCTION jump() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM set_config('test.jump', '7000000000', true); RETURN NULL; END $$;" +
        NOW.format("+ CAST('0' || coalesce(current_setting('test.jump', true), '') AS bigint)") +
        ";CREATE TRIGGER jump AFTER UPDATE ON executor FOR EACH ROW EXECUTE FUNCTION jump()")
    due = one("SELECT max(due) FROM run")
    wait(f"> 0: due > {due}")
    sql("DROP TRIGGER jump ON executor")
    assert one("SELECT owner FROM job") == owner, "it took over its own job"
    open("go", "x")
    wait("> 2: state = 'done'")
    finish(process)
    check("= 0: state = 'interrupted'")


def without_output():
    """The connection could get the descriptor."""
    add("a", "--every 1s")
    process = scheduler(2, stdout=None, preexec_fn=lambda: os.close(1))
    wait("> 0: state = 'done'")
    assert process.end() == 1, "its output was written"
    check_books()


def locked_rows_delay_no_other_job():
    """Another session has locked a job and marked a run of it as missed, as a scheduler does that
    hangs."""
    add("locked", "--every 1s")
    add("other", "--every 500ms")
    sql("INSERT INTO run (job, due, until, cause, state) SELECT id, next - 60000000000, next, 'due', "
        "'planned' FROM job WHERE name = 'locked'")
    here["first"]["locked"] -= 60 * S
    with SERVER.connect() as session:
        session.cursor().execute("UPDATE run SET state = 'missed'; "
                                 "SELECT FROM job WHERE name = 'locked' FOR UPDATE")
        process = scheduler(2)
        wait(">= 5: state = 'done'")
        check("= 1: name = 'locked'")
    wait("> 0: name = 'locked' AND state = 'done'")
    finish(process)


def leases_are_respected():
    """Until its lease ends, nobody takes over the jobs of a scheduler, even if it is silent."""
    add("busy", "--every 500ms")
    add("leased", "--every 1d --first 1s --misfire once")
    columns = [row[0] for row in sql("SELECT column_name FROM information_schema.columns WHERE "
                                     "table_name = 'job' AND column_name NOT IN ('id', 'name', 'next', "
                                     "'owner')")]
    columns = ", ".join(columns)
    sql("INSERT INTO executor (name, lease) VALUES ('absent', now_ns() + 3600000000000);"
        f"INSERT INTO job (name, next, {columns}) SELECT 'far' || n, next + every, {columns} "
        "FROM job, generate_series(1, 600) AS n WHERE name = 'leased';"
        "INSERT INTO run (job, due, until, cause, state) SELECT id, next, next + every, 'due', "
        "'planned' FROM job WHERE name LIKE 'far%';"
        "UPDATE job SET next = next + every WHERE name LIKE 'far%';"
        "UPDATE job SET owner = (SELECT id FROM executor) WHERE name <> 'busy'")
    both = scheduler(2), scheduler(3)
    wait(">= 12: state = 'done'")
    check("= 0: name = 'leased'")
    sql("UPDATE executor SET lease = now_ns() WHERE name = 'absent'")
    wait("= 1: name = 'leased' AND state = 'done'")
    # More than are claimed at once.
    wait(lambda: one("SELECT count(owner) FROM job WHERE name LIKE 'far%'") == 600)
    finish(*both)


def stopped_and_continued():
    """A scheduler is stopped while its command runs. It finds that another one took over, and records
    and starts nothing that is not its own."""
    add("a", "--every 1s --misfire once", f"setsid sh -c '{UNTIL_GO}' & echo $! >>left; {WAITING}")
    old = scheduler(2)
    due, pid = first_line()
    # So that the other scheduler has a planned run to take over.
    wait("> 1: state = 'planned'")
    old.process.send_signal(signal.SIGSTOP)
    new = scheduler(3)
    wait(f"= 1: state = 'interrupted' AND due = {due}")
    # The other scheduler has started the next run.
    wait(lambda: read("log").count("b a ") == 2)
    wait(f"= 1: state = 'started' AND executor = '{named(new)}'")
    old.process.send_signal(signal.SIGCONT)
    old.says("took over")
    # With what left its process group.
    wait(lambda: gone(pid), lambda: gone(read("left").split()[0]))
    # It does not release a job that is not its own any more, either.
    assert old.end() == 0
    assert one("SELECT executor.name FROM job JOIN executor ON executor.id = owner") == named(new)
    old = scheduler(2, wait_for="running")
    open("go", "x")
    wait("> 2: state = 'done'")
    finish(old, new)
    check(f"= 1: state = 'interrupted' AND due = {due}")


def results_outlive_the_database():
    """The server ends while a command runs, and comes back when it has ended."""
    add("a", "--every 1s", WAITING)
    process = scheduler(2)
    due, _ = first_line()
    SERVER.kill()
    open("go", "x")
    wait(lambda: "e a " in read("log"))
    process.says("trying again")
    assert read("log").count("b a ") == 1, "run without the database"
    SERVER.start()
    wait(f"= 1: state = 'done' AND status = 0 AND due = {due}", "> 2: state = 'done'")
    finish(process)


def doubt():
    """The answer to a commit does not come in time: a start is committed, but nothing is started."""
    add("a", "--every 1s --misfire once")
    sql("CREATE SEQUENCE starts;"
        "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF nextval('starts') = 1 THEN PERFORM pg_sleep(4); END IF; RETURN NULL; END $$;"
        "CREATE CONSTRAINT TRIGGER hold AFTER UPDATE ON run DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW WHEN (NEW.state = 'started') EXECUTE FUNCTION hold()")
    process = scheduler(2)
    process.says("trying again")
    wait("> 2: state = 'done'")
    finish(process)
    check("= 0: state = 'interrupted'")


def commands_are_read_again():
    """The database stops answering after a scheduler has read a job, and before its command."""
    add("a", "--every 1d")
    process = scheduler(2, wait_for="running")
    with SERVER.connect() as session:
        session.cursor().execute("LOCK TABLE argument")
        # It finds the database again before the timeout for this due time expires.
        sql("UPDATE job SET next = now_ns() + 9000000000")
        here["first"]["a"] = one("SELECT next FROM job")
        process.says("trying again")
    wait("= 1: state = 'done'")
    finish(process)


def adding(number):
    return subprocess.Popen([JOBS, SERVER.name(number), "add", "b", "--every", "1s", "--", "true"],
                            stderr=subprocess.DEVNULL)


def add_is_stopped():
    """In its transaction, for which all schedulers wait."""
    add("a", "--every 1s --misfire once")
    process = scheduler(2, wait_for="running")
    with SERVER.connect() as session:
        session.cursor().execute("LOCK TABLE argument IN EXCLUSIVE MODE")
        stopped = adding(1)
        wait(lambda: one("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = "
                         "'argument'::regclass"))
        stopped.send_signal(signal.SIGSTOP)
        now = SERVER.now()
    wait(f"> 0: state = 'done' AND due > {now}")
    stopped.send_signal(signal.SIGCONT)
    assert stopped.wait(PATIENCE_S), "it did not notice that its transaction was ended"
    assert one("SELECT count(*) FROM job") == 1, "half a job was added"
    finish(process)


def server_vanishes():
    """Nobody answers when a scheduler connects: it can be ended. Nor while a program waits."""
    process = scheduler(2, wait_for="running")
    network("add", 2, silent=True)
    process.says("trying again")
    time.sleep(3)       # the first attempt to connect has begun
    process.process.terminate()
    process.end(signal.SIGINT)      # two signals of one kind may become one
    assert "ended before" in read(process.output)
    network("del", 2, silent=True)
    with SERVER.connect() as session:
        session.cursor().execute("LOCK TABLE argument")
        waiting = adding(3)
        wait(lambda: one("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = "
                         "'argument'::regclass"))
        network("add", 3, silent=True)
        assert waiting.wait(PATIENCE_S), "it was answered"
        network("del", 3, silent=True)


def leaving():
    """While the command of a scheduler that is to end still runs, others have its other jobs."""
    add("a", "--every 1s --misfire once")
    add("long", "--every 1d --first 1s", WAITING)
    old = scheduler(2)
    wait(lambda: "b long" in read("log"))
    wait(lambda: one("SELECT count(owner) FROM job") == 2)
    old.process.terminate()
    new = scheduler(3)
    wait(f"> 2: state = 'done' AND executor = '{named(new)}'")
    open("go", "x")
    assert old.process.wait(PATIENCE_S) == 0
    finish(new)


def schedulers_are_told():
    """At once, what they should know, whoever writes it."""
    with SERVER.connect() as db:
        db.autocommit = True
        db.cursor().execute("LISTEN jobs")

        def told():
            db.poll()
            return db.notifies
        for words in (["add", "a", "--every", "1d", "--", "true"], ["start", "a"], ["pause", "a"],
                      ["resume", "a"], ["change", "a", "--every", "2d", "--", "true"]):
            jobs("db", *words)
            wait(told)
            db.notifies.clear()
        sql("UPDATE run SET state = 'started'")
        db.notifies.clear()
        jobs("db", "stop", "a")
        wait(told)


def chaos():
    """kill -9, partitions, pauses and restarts, each at least once."""
    for name, options, seconds in (
            ("one", "--every 700ms", 0.1), ("two", "--every 1100ms", 0.5),
            ("three", "--every 900ms --misfire once", 0.3),
            ("discard", "--every 600ms --block discard", 1),
            ("cover", "--every 1300ms --block cover", 1)):
        add(name, options, f"{LOG}; sleep {seconds}; {END}")
    all_of = {number: scheduler(number) for number in (2, 3, 4)}
    wait("> 5: state = 'done'")
    for what in RANDOM.sample(["kill", "pause", "cut", "restart", "halt", "kill"], 6):
        number, seconds = RANDOM.choice((2, 3, 4)), 2 + 10 * RANDOM.random()
        print(f"# {what} scheduler {number}, for {seconds:.1f} s", flush=True)
        process = all_of[number].process
        if what == "kill":
            all_of[number].kill()
            time.sleep(seconds)
            all_of[number] = scheduler(number)
        elif what == "pause":
            process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            process.send_signal(signal.SIGCONT)
        elif what == "cut":
            network("add", number)
            time.sleep(seconds)
            network("del", number)
        elif what == "restart":
            SERVER.kill()
            time.sleep(seconds / 5)
            SERVER.start()
        else:
            SERVER.signal(signal.SIGSTOP)
            time.sleep(seconds)
            SERVER.signal(signal.SIGCONT)
        time.sleep(1)
    # After the last failure, everything that is due is run, and each scheduler takes part.
    now = SERVER.now()
    for process in all_of.values():
        wait(lambda process=process: one("SELECT count(*) FROM executor WHERE name = "
                                         f"'{named(process)}' AND lease > {now} + 3000000000"))
    wait(f"= 0: due < {now} AND state IN ('planned', 'started')")
    wait(lambda: one(f"SELECT count(DISTINCT job) FROM run WHERE started > {now} AND "
                     "state = 'done'") == 5)
    finish(*all_of.values())


TESTS = [are_refused, old_rows_are_deleted_in_steps, pooler_of_transactions, next_host, clock_jumps,
         without_output, tables_are_made_again, locked_rows_delay_no_other_job, leases_are_respected,
         stopped_and_continued, results_outlive_the_database, doubt, commands_are_read_again,
         add_is_stopped, server_vanishes, leaving, schedulers_are_told, chaos]


def case(test):
    def begun():
        begin()
        test()
    begun.__name__ = test.__name__
    return begun


def main():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    common.use_control_groups()
    here["db"] = SERVER
    SERVER.start()
    common.main([case(test) for test in TESTS], sys.argv[4:])
    SERVER.process.send_signal(signal.SIGINT)
    SERVER.process.wait()


if __name__ == "__main__":
    main()
