#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: several.py JOBS BIN CLUSTER [TEST...]

Test several schedulers of the program JOBS that share a database in PostgreSQL, with the server's
programs in BIN and its data in CLUSTER: as root, in namespaces of its own. They, executors, the
server and the network are killed, stopped and cut; what the rows say and what the commands did has
to agree. Prints TAP.
"""
import os
import signal
import subprocess
import time

from common import (JOBS, LOG, RANDOM, S, UNTIL_GO, check, check_books, count, go, here, jobs,
                    logged, one, read, sql, wait)
from postgres import MEDIUM, SERVER, Node, add, cut, finish, inside
import postgres

# The clock of the database is an hour ahead of the schedulers'.
NOW = ("CREATE OR REPLACE FUNCTION now_ns() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT "
       "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) * 1000 + 3600000000000 {} $$")
WAITING_FOR_ARGUMENT = ("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = "
                        "'argument'::regclass")


def node(name, options="", **more):
    return Node(name, options, **{"window": MEDIUM, "says": None} | more)


def gone(pid):
    return "State:\tZ" in (read(f"/proc/{pid}/status") or "State:\tZ")


def first_line():
    """Of the log."""
    wait(logged)
    return logged()[0]


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
    add("a", every="1s")
    old = node("r2")
    wait("> 1 done")
    old.send(signal.SIGSTOP)
    begin()
    os.truncate("log", 0)
    add("b", every="1s")
    new = node("r3", says="running")
    old.send(signal.SIGCONT)
    assert old.ended() == 1 and "another database" in read(old.output)
    wait("> 2 done")
    finish(new)


def old_rows_are_deleted_in_steps():
    """Because schedulers wait for each transaction."""
    for name in "ab":
        add(name)
    sql("CREATE FUNCTION few() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF (SELECT count(*) FROM old) > 4096 THEN RAISE 'too many rows'; END IF; RETURN NULL; "
        "END $$; CREATE TRIGGER few AFTER DELETE ON run REFERENCING OLD TABLE AS old "
        "FOR EACH STATEMENT EXECUTE FUNCTION few()")
    for words, left in ((["trim", "0s"], (2, 0)), (["remove", "a"], (1, 10000))):
        sql("INSERT INTO run (job, due, cause, state) SELECT id, n, 'due', 'done' "
            "FROM job, generate_series(1, 10000) AS n")
        jobs("db", *words)
        assert (one("SELECT count(*) FROM job"), count()) == left, words


def pooler_of_transactions():
    """The session has another scheduler's settings, as behind a pooler that has one for each."""
    add("a", every="1s")
    sql("INSERT INTO executor (name, lease) VALUES ('absent', now_ns() + 3600000000000);"
        "UPDATE job SET owner = (SELECT id FROM executor);"
        "CREATE FUNCTION share() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM set_config('jobs.scheduler', CAST(owner AS text), false) FROM job; RETURN NULL; "
        "END $$; CREATE TRIGGER share BEFORE UPDATE ON executor EXECUTE FUNCTION share()")
    process = node("s1")
    assert process.ended() and "must pool sessions" in read(process.output)
    check("= 0: TRUE")


def next_host():
    """The first of two hosts does not answer."""
    add("a", every="1s")
    subprocess.run([*inside(2), *"ip neigh add 10.9.2.3 lladdr 02:00:00:00:00:01 dev eth0".split()],
                   check=True)
    process = node("r2", database=SERVER.name(2).replace("host=", "host=10.9.2.3,"))
    wait("> 0 done")
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'jobs'")
    process.says("connected again")
    finish(process)


def clock_jumps():
    """Within a transaction the clock is set forward, by more than the lease."""
    add("a", "", UNTIL_GO, every="1s")
    process = node("s1")
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
    go()
    wait("> 2 done")
    finish(process)
    check("= 0 interrupted")


def without_output():
    """The connection could get the descriptor."""
    add("a", every="1s")
    process = node("s1", stdout=None, preexec_fn=lambda: os.close(1))
    wait("> 0 done")
    assert process.end() == 1, "its output was written"
    check_books()


def locked_rows_delay_no_other_job():
    """Another session has locked a job and marked a run of it as missed, as a scheduler does that
    hangs."""
    add("locked", every="1s")
    add("other", every="500ms")
    sql("INSERT INTO run (job, due, until, cause, state) SELECT id, next - 60000000000, next, "
        "'due', 'planned' FROM job WHERE name = 'locked'")
    here["first"]["locked"] -= 60 * S
    with SERVER.connect() as session:
        session.cursor().execute("UPDATE run SET state = 'missed'; "
                                 "SELECT FROM job WHERE name = 'locked' FOR UPDATE")
        process = node("s1")
        wait(">= 5 done")
        check("= 1: name = 'locked'")
    wait("> 0 done locked")
    finish(process)


def leases_are_respected():
    """Until its lease ends, nobody takes over the jobs of a scheduler, even if it is silent."""
    add("busy", every="500ms")
    add("leased", "--misfire once", every="1d --first 1s")
    columns = ", ".join(row[0] for row in sql(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'job' AND "
        "column_name NOT IN ('id', 'name', 'next', 'owner')"))
    sql("INSERT INTO executor (name, lease) VALUES ('absent', now_ns() + 3600000000000);"
        f"INSERT INTO job (name, next, {columns}) SELECT 'far' || n, next + every, {columns} "
        "FROM job, generate_series(1, 600) AS n WHERE name = 'leased';"
        "INSERT INTO run (job, due, until, cause, state) SELECT id, next, next + every, 'due', "
        "'planned' FROM job WHERE name LIKE 'far%';"
        "UPDATE job SET next = next + every WHERE name LIKE 'far%';"
        "UPDATE job SET owner = (SELECT id FROM executor) WHERE name <> 'busy'")
    both = node("s1"), node("s2")
    wait(">= 12 done")
    check("= 0: name = 'leased'")
    sql("UPDATE executor SET lease = now_ns() WHERE name = 'absent'")
    wait("= 1 done leased")
    # More than are claimed at once.
    wait(lambda: one("SELECT count(owner) FROM job WHERE name LIKE 'far%'") == 600)
    finish(*both)


def stopped_and_continued():
    """A scheduler is stopped while its command runs, and while it discards a run that the other one
    then starts. It finds that this one took over, and records and starts nothing that is not its
    own."""
    add("a", "--misfire all --block discard",
        f"setsid sh -c '{UNTIL_GO}' & echo $! >>left; {UNTIL_GO}", every="1s")
    old = node("s1")
    line = first_line()
    wait("> 1 planned")
    with SERVER.connect() as session:
        session.cursor().execute("SELECT FROM run WHERE state = 'planned' FOR UPDATE")
        wait(lambda: one("SELECT count(*) FROM pg_locks WHERE NOT granted"))
        old.send(signal.SIGSTOP)
    new = node("s2")
    wait(f"= 1 interrupted: due = {line.due}")
    # The other scheduler has started the next run.
    wait(lambda: len(logged()) == 2, f"= 1 started: executor = '{new.named()}'")
    old.send(signal.SIGCONT)
    old.says("took over")
    # With what left its process group.
    wait(lambda: gone(line.pid), lambda: gone(read("left").split()[0]))
    # It does not release a job that is not its own any more, either.
    assert old.end() == 0
    assert one("SELECT executor.name FROM job JOIN executor ON executor.id = owner") == new.named()
    old = node("s1", says="running")
    go()
    wait("> 2 done")
    finish(old, new)
    check(f"= 1 interrupted: due = {line.due}")


def results_outlive_the_database():
    """The server ends while a command runs, and comes back when it has ended."""
    add("a", "", f"{UNTIL_GO}; echo last words", every="1s")
    process = node("s1")
    due = first_line().due
    SERVER.kill()
    go()
    wait(lambda: logged("e"))
    process.says("trying again")
    assert len(logged()) == 1, "run without the database"
    SERVER.start()
    wait(f"= 1 done: status = 0 AND due = {due}", "> 2 done")
    assert one(f"SELECT head FROM output JOIN run ON run.id = run WHERE due = {due}") == "last words\n"
    finish(process)


def doubt():
    """The answer to a commit does not come in time: it is committed, but nothing is started."""
    add("a", "--misfire once", every="1s")
    sql("CREATE SEQUENCE starts;"
        "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF nextval('starts') = 1 THEN PERFORM pg_sleep(4); END IF; RETURN NULL; END $$;"
        "CREATE CONSTRAINT TRIGGER hold AFTER UPDATE ON run DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW WHEN (NEW.state = 'started') EXECUTE FUNCTION hold()")
    process = node("s1")
    process.says("trying again")
    wait("> 2 done")
    finish(process)
    check("= 0 interrupted")


def commands_are_read_again():
    """The database stops answering after a scheduler has read a job, and before its command."""
    add("a", every="1d")
    process = node("s1", says="running")
    with SERVER.connect() as session:
        session.cursor().execute("LOCK TABLE argument")
        # It finds the database again before the timeout for this due time expires.
        sql("UPDATE job SET next = now_ns() + 9000000000")
        here["first"]["a"] = one("SELECT next FROM job")
        process.says("trying again")
    wait("= 1 done")
    finish(process)


def adding(number):
    """A program in that network that waits for a lock of the test."""
    process = subprocess.Popen([*inside(number), JOBS, SERVER.name(number), "add", "b", "--every",
                                "1s", "--", "true"], stderr=subprocess.DEVNULL)
    wait(lambda: one(WAITING_FOR_ARGUMENT))
    return process


def add_is_stopped():
    """In its transaction, for which all schedulers wait."""
    add("a", "--misfire once", every="1s")
    process = node("s1", says="running")
    with SERVER.connect() as session:
        session.cursor().execute("LOCK TABLE argument IN EXCLUSIVE MODE")
        stopped = adding(1)
        stopped.send_signal(signal.SIGSTOP)
        now = SERVER.now()
    wait(f"> 0 done: due > {now}")
    stopped.send_signal(signal.SIGCONT)
    assert stopped.wait(90), "it did not notice that its transaction was ended"
    assert one("SELECT count(*) FROM job") == 1, "half a job was added"
    finish(process)


def server_vanishes():
    """Nobody answers when a scheduler connects: it can be ended. Nor while a program waits."""
    process = node("r2", says="running")
    cut(2, silent=True)
    process.says("trying again")
    time.sleep(3)       # the first attempt to connect has begun
    process.send(signal.SIGTERM)
    process.end(signal.SIGINT)      # two signals of one kind may become one
    assert "ended before" in read(process.output)
    cut(2, silent=True, heal=True)
    with SERVER.connect() as session:
        session.cursor().execute("LOCK TABLE argument")
        waiting = adding(3)
        cut(3, silent=True)
        assert waiting.wait(90), "it was answered"
        cut(3, silent=True, heal=True)


def leaving():
    """While the command of a scheduler that is to end still runs, others have its other jobs."""
    add("a", "--misfire once", every="1s")
    add("long", "", UNTIL_GO, every="1d --first 1s")
    old = node("s1")
    wait(lambda: any(line.name == "long" for line in logged()),
         lambda: one("SELECT count(owner) FROM job") == 2)
    old.send(signal.SIGTERM)
    new = node("s2")
    wait(f"> 2 done: executor = '{new.named()}'")
    go()
    assert old.ended() == 0
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
                      ["resume", "a"], ["change", "a", "--every", "2d", "--", "true"],
                      ["stop", "a"]):
            if words == ["stop", "a"]:
                sql("UPDATE run SET state = 'started'")
                told()
                db.notifies.clear()
            jobs("db", *words)
            wait(told)
            db.notifies.clear()


def chaos():
    """kill -9, partitions, pauses, ends and restarts, each at least once, of schedulers, executors
    and the server."""
    for name, options, seconds, every in (
            ("one", "", 0.1, "700ms"), ("two", "--route lru --again", 0.3, "400ms"),
            ("three", "--broadcast --again", 0.1, "400ms"),
            ("four", "--route hash --block cover", 0.5, "400ms"), ("five", "--again", 0.2, "600ms"),
            ("six", "--block discard", 1, "600ms"), ("seven", "--block cover", 1, "1300ms")):
        add(name, f"{options} --misfire once", f"sleep {seconds}", every=every)
    alive = {name: Node(name, window="5s") for name in ("r1", "s2", "e1", "e2", "e3")}
    wait("> 9 done")
    faults = ["kill", "stop", "end", "cut", "vanish"] * 2 + ["restart", "halt"]
    for what in RANDOM.sample(faults, len(faults)):
        cuts = what in ("cut", "vanish")
        name, seconds = RANDOM.choice([name for name in alive if name[0] == "e" or not cuts]), \
            4 * RANDOM.random()
        print(f"# {what} {name}, for {seconds:.1f} s", flush=True)
        process, network = alive[name], int(name[1])
        if what in ("kill", "end"):
            process.kill() if what == "kill" else process.end()
            time.sleep(seconds)
            alive[name] = Node(name, window="5s")
        elif what == "stop":
            process.send(signal.SIGSTOP)
            time.sleep(seconds)
            process.send(signal.SIGCONT)
        elif cuts:
            cut(network, silent=what == "vanish")
            time.sleep(seconds)
            cut(network, silent=what == "vanish", heal=True)
        elif what == "restart":
            SERVER.kill()
            time.sleep(seconds / 5)
            SERVER.start()
        else:
            SERVER.signal(signal.SIGSTOP)
            time.sleep(seconds)
            SERVER.signal(signal.SIGCONT)
        time.sleep(seconds / 4)
    # After the last failure, everything that is due is run, and each of them takes part.
    now = SERVER.now()
    leased = f"SELECT count(*) FROM executor WHERE lease > {now} + 2000000000"
    wait(lambda: one(leased) == len(alive),
         f"= 0: due < {now} AND state IN ('planned', 'started')",
         *(f"> 2: name = '{name}' AND started > {now} AND state IN ('done', 'covered')"
           for name in here["first"]))
    finish(*alive.values())
    # What was interrupted for the first time was repeated, if the job says so, and nothing else.
    check("= 0: cause = 'again' AND job.again = 0")
    first = count("again = 1 AND cause <> 'again' AND state = 'interrupted'")
    assert first == count("cause = 'again'")


def begin():
    postgres.begin()
    sql(NOW.format(""))


if __name__ == "__main__":
    postgres.main([
        are_refused, old_rows_are_deleted_in_steps, pooler_of_transactions, next_host, clock_jumps,
        without_output, tables_are_made_again, locked_rows_delay_no_other_job, leases_are_respected,
        stopped_and_continued, results_outlive_the_database, doubt, commands_are_read_again,
        add_is_stopped, server_vanishes, leaving, schedulers_are_told, chaos], begin)
