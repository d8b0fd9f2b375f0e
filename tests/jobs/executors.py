#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: executors.py JOBS BIN CLUSTER [TEST...]

Test executors of the program JOBS from outside, as root in namespaces of its own: schedulers and
executors are processes, executors in networks of their own, so that they can be cut off from
PostgreSQL, whose programs are in BIN. Verdicts are about rows, and about what commands have logged.
Prints TAP.
"""
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

from common import UNTIL_GO, check, count, go, jobs, logged, one, read, sql, wait
from postgres import MEDIUM, SERVER, Node, add, begun, cut, finish
import postgres

NAMES = ["e1", "e2", "e3"]
EXAMPLE = f"{os.path.dirname(os.path.abspath(__file__))}/../../examples/jobs_executor.py"


def routes():
    """A thousand runs."""
    ways = ["first", "last", "round-robin", "random", "hash", "lfu", "lru", "failover", "busyover"]
    number = 112
    executors = [Node(name) for name in reversed(NAMES)]
    for way in ways:
        add(way, f"--misfire all --route {way}", every="1s --first -112s")
    scheduler = Node("s1")
    for done in range(number % 9, number + 1, 9):       # however long that takes
        wait(*(f">= {done} done {way}" for way in ways))
    finish(scheduler, *executors)
    turns = {way: [row[0] for row in sql(
        "SELECT executor FROM run JOIN job ON job.id = run.job WHERE name = %s AND executor IS NOT "
        "NULL ORDER BY run.id LIMIT %s", way, number)] for way in ways}
    for way, at in (("first", ["e1"]), ("failover", ["e1"]), ("busyover", ["e1"]), ("last", ["e3"]),
                    ("round-robin", NAMES), ("lru", NAMES)):
        assert turns[way] == (at * number)[:number], (way, turns[way])
    assert len(set(turns["hash"])) == 1
    assert set(collections.Counter(turns["lfu"][:99]).values()) == {33}, turns["lfu"]
    assert set(turns["random"]) == set(NAMES)      # but once in 10^19 runs


def tags_and_busyover():
    e1, e2 = Node("e1", "--tags eu,gpu --fast 1"), Node("e2", "--tags eu")
    add("gpu", "--tags gpu,eu")
    add("none", "--tags cpu")
    scheduler = Node("s1")
    wait("= 1 done gpu")
    assert begun("gpu") == ["e1"] and not begun("none")
    add("full", "--route first", UNTIL_GO)
    wait(lambda: begun("full") == ["e1"])
    add("over2", "--route busyover --tags gpu")
    add("over", "--route busyover")
    wait("= 1 done over")
    assert begun("over") == ["e2"] and not begun("over2")
    assert re.search(r"e1 +eu,gpu +1 +1 +ready\ne2 +eu +16 +0 +ready\n",
                     jobs("db", "executor", "list"))
    go()
    wait("= 1 done over2")
    assert begun("over2") == ["e1"]
    e3 = Node("e3", "--tags cpu")
    wait("= 1 done none")
    finish(scheduler, e1, e2, e3)


def broadcast():
    executors = [Node(name) for name in NAMES]
    add("all", "--broadcast", UNTIL_GO, every="200ms --first 0s")
    scheduler = Node("s1")
    wait("= 3 started", lambda: len(logged()) == 3)
    shards = {(line.index, line.total, line.who) for line in logged()}
    assert shards == {(0, "3", "e1"), (1, "3", "e2"), (2, "3", "e3")}, shards
    wait("> 2 planned: holder IS NULL AND past")
    assert len({line.due for line in logged()}) == 1     # the next ones wait for all three
    go()
    wait("> 30 done")
    finish(scheduler, *executors)
    for row in sql("SELECT due, count(*), count(DISTINCT executor) FROM run WHERE state = 'done' "
                   "GROUP BY due"):
        assert tuple(row[1:]) == (3, 3), row


def broadcast_is_paused():
    """A shard that waits is not due again, as others of its due time have begun."""
    e1, e2 = Node("e1", "--fast 1"), Node("e2", "--fast 1")
    add("hog", "--route first --at never", UNTIL_GO, every="")
    scheduler = Node("s1")
    jobs("db", "start", "hog")
    wait(lambda: begun("hog") == ["e1"])
    add("all", "--broadcast")
    wait("= 1 done all")
    jobs("db", "pause", "all")
    jobs("db", "resume", "all")
    wait(lambda: one("SELECT next > now_ns() FROM job WHERE name = 'all'"))
    go()
    wait("= 0: state IN ('planned', 'started') AND past")
    assert begun("all") == ["e2"]
    finish(scheduler, e1, e2)


def shards_are_followed():
    """Once, when all of them have ended, and their retries: by success only if none failed."""
    executors = [Node(name) for name in NAMES[:2]]
    fails = "[ $JOBS_INDEX = 1 ] || exit 1; "
    for name, options, command in (
            ("good", "", "true"), ("bad", "", fails + UNTIL_GO),
            ("tries", " --retries 1 --backoff 0s", "[ $JOBS_INDEX = 1$JOBS_ATTEMPT ] || "
             "[ $JOBS_INDEX = 0 -a -n \"$JOBS_ATTEMPT\" ] || exit 1")):
        add(name, "--broadcast" + options, command, every="1d --first 1s")
        for event in "success", "failure":
            add(f"{name}-{event}", f"--after {name}:{event}", every=None)
    scheduler = Node("s1")
    wait("= 1 done bad: status = 1", "= 1 started bad")
    check("= 0: name ~ 'bad-'")
    go()
    wait("= 1 done good-success", "= 1 done tries-success", "= 1 done bad-failure")
    finish(scheduler, *executors)
    check("= 3: name ~ '-'", "= 3: name = 'tries'",
          "= 1: name = 'tries' AND cause = 'retry' AND shard = 0 AND shards = 2 AND status = 0")


def shards_of_an_alarm():
    """Each of them knows why."""
    executors = [Node(name) for name in NAMES[:2]]
    add("alarm", "--at never --broadcast", "echo $JOBS_EVENT $JOBS_OF >>why", every=None)
    add("bad", "--route first --alarm alarm", "exit 1")
    scheduler = Node("s1")
    wait("= 2 done alarm")
    finish(scheduler, *executors)
    assert read("why") == "failure bad\n" * 2


def shards_end_at_once():
    """Two transactions end shards of the same jobs, in different orders: neither fails."""
    for name in "a", "b":
        add(name, "--broadcast --retries 1")
    sql("INSERT INTO run (job, due, until, cause, state, started, shard, shards) SELECT job.id, 1, "
        "1, 'due', 'started', 1, n, 2 FROM job, generate_series(0, 1) AS n")
    ends = ("UPDATE run SET state = 'done', status = 0, ended = now_ns() WHERE shard = %s AND "
            "job = (SELECT id FROM job WHERE name = %s)")

    def other(db):
        with db.cursor() as cursor:
            cursor.execute(ends, (1, "b"))
            first.set()
            cursor.execute(ends, (1, "a"))
        db.commit()
    first = threading.Event()
    with SERVER.connect() as one_db, SERVER.connect() as other_db:
        cursor = one_db.cursor()
        cursor.execute(ends, (0, "a"))
        thread = threading.Thread(target=other, args=(other_db,))
        thread.start()
        wait(lambda: first.is_set() or one("SELECT count(*) FROM pg_locks WHERE NOT granted"))
        cursor.execute(ends, (0, "b"))
        one_db.commit()
        thread.join()
    check("= 4 done")


def killed_before_it_starts():
    """Between claim and start: its transaction waits for a lock of the test."""
    e1, e2 = Node("e1"), Node("e2")
    e1.send(signal.SIGSTOP)
    add("a", "--route first")
    add("all", "--broadcast")
    scheduler = Node("s1")
    wait("= 2 planned: holder IS NOT NULL", "= 1 done all")
    with SERVER.connect() as db:
        db.cursor().execute("SELECT FROM run FOR UPDATE")
        e1.send(signal.SIGCONT)
        wait(lambda: one("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0)
        e1.kill()
    sql("UPDATE executor SET lease = now_ns() WHERE name = 'e1'")
    wait("= 3 done")
    finish(scheduler, e2)
    assert begun("a") == ["e2"] and count() == 3
    assert sorted(line[2:5] for line in logged() if line.name == "all") == [
        (0, "2", "e2"), (1, "2", "e2")]


def killed_while_it_runs():
    e1, e2 = Node("e1"), Node("e2")
    for name, options in (("once", "--route first"), ("again", "--again --route first"),
                          ("shard", "--again --broadcast")):
        add(name, options, UNTIL_GO)
    # Of its repetition, it is the same try.
    add("try", "--again --route first --retries 1 --backoff 0s",
        f"[ $JOBS_ATTEMPT ] || exit 1; echo $JOBS_ATTEMPT >>tries; {UNTIL_GO}")
    scheduler = Node("s1")
    wait(lambda: len(logged()) == 6)
    e1.die()
    # One of these waits until the executor has done its own shard.
    wait("= 4 interrupted", "= 2: cause = 'again' AND state = 'started'", "= 3: cause = 'again'")
    go()
    wait("= 4 done: status = 0")
    finish(scheduler, e2)
    assert begun("once") == ["e1"] and begun("again") == ["e1", "e2"]
    assert sorted(begun("shard")) == ["e1", "e2", "e2"] and read("tries") == "1\n1\n"
    check("= 1: name = 'once'", "= 2: name = 'again'", "= 3: name = 'shard'", "= 3: name = 'try'",
          "= 3: cause = 'again' AND until = due AND state = 'done'",
          "= 1: cause = 'again' AND name = 'shard' AND shard = 0 AND shards = 2")


def again_only_once():
    executors = [Node(name) for name in NAMES]
    add("a", "--again --route first", UNTIL_GO)
    scheduler = Node("s1")
    for number in 1, 2:
        wait(lambda: len(logged()) == number)       # pylint: disable=cell-var-from-loop
        executors[number - 1].die()
        wait(f"= {number} interrupted")
    finish(scheduler, executors[2])
    check("= 2: TRUE")


def scheduler_is_killed():
    """What it runs itself is interrupted, and repeated; what executors run goes on, and nothing
    overlaps with that."""
    e1, e2, s1 = Node("e1"), Node("e2"), Node("s1")
    add("here", "--again", UNTIL_GO)
    add("there", "--route round-robin", UNTIL_GO, every="300ms --first 0s")
    wait(lambda: len(logged()) == 2)
    s1.die()
    s2 = Node("s2")
    wait("= 1 interrupted here",
         "= 1: name = 'here' AND cause = 'again' AND state = 'started'",
         lambda: one("SELECT count(*) FROM job JOIN executor ON executor.id = owner "
                     "WHERE job.name = 'there' AND lease > now_ns()") == 1,
         "> 2 planned there: past")
    assert len(begun("there")) == 1 and len(begun("here")) == 2
    go()
    wait("> 3 done there")
    finish(s2, e1, e2)
    check("= 0 interrupted there")


def cut_off():
    e1, e2 = Node("e1", window=MEDIUM), Node("e2")
    add("once", "--route first", UNTIL_GO)
    add("again", "--again --route first", UNTIL_GO)
    scheduler = Node("s1")
    wait(lambda: len(logged()) == 2)
    cut(1)
    wait("= 2 interrupted", lambda: sorted(begun("again")) == ["e1", "e2"])
    assert begun("once") == ["e1"]
    cut(1, heal=True)
    e1.says("took over")
    go()
    wait("= 1 done")
    add("back", "--route first")
    wait("= 1 done back")
    assert begun("back") == ["e1"]
    finish(scheduler, e1, e2)
    assert not [line for line in logged("e") if line.who == "e1" and line.name != "back"]


def its_own_row():
    """An executor that was taken over does not learn that it was enrolled again: when it is
    connected the next time, it is not another one that has its name."""
    e1 = Node("e1", window="20s")
    sql("CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "LOCK TABLE known; RETURN NULL; END $$;"
        "CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON executor DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION hold()")
    with SERVER.connect() as db:
        db.cursor().execute("LOCK TABLE known IN SHARE MODE")
        sql("UPDATE executor SET lease = 0")
        wait(lambda: one("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0)
        cut(1)
    wait(lambda: one("SELECT count(*) FROM executor WHERE lease > now_ns()") == 1)
    # No connection to port 5432 is established.
    wait(lambda: ":1538 01 " not in read(f"/proc/{e1.process.pid}/net/tcp"))
    cut(1, heal=True)
    add("a", "--route first")
    scheduler = Node("s1")
    wait("= 1 done")
    finish(scheduler, e1)


def lost_while_reading():
    """The connection is lost while executors are read for a run that is to be assigned: what was
    read of that is still used. (The program is built to end if it uses what was freed.)"""
    e1, scheduler = Node("e1"), Node("s1", window=MEDIUM)
    sql("CREATE OR REPLACE FUNCTION now_ns() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN "
        "IF current_query() LIKE '%places > 0%' THEN PERFORM pg_advisory_xact_lock_shared(1); END "
        "IF; RETURN CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) * 1000; END $$")
    with SERVER.connect() as db:
        db.cursor().execute("SELECT pg_advisory_lock(1)")
        add("a", "--route first")
        scheduler.says("trying again")
    wait("= 1 done")
    finish(scheduler, e1)


def silent():
    e1, e2 = Node("e1", window="20s"), Node("e2")
    e1.send(signal.SIGSTOP)
    wait(lambda: "silent" in jobs("db", "executor", "list"))
    add("first", "--route first")
    add("failover", "--route failover")
    scheduler = Node("s1")
    wait("= 1 done failover")
    assert begun("failover") == ["e2"] and not begun("first")
    e1.die()
    wait("= 1 done first")
    assert begun("first") == ["e2"]
    finish(scheduler, e2)


def executor_ends():
    """What it has not begun goes to others; what it runs ends first."""
    e1 = Node("e1", "--fast 1")
    scheduler = Node("s1")
    add("runs", "--route first", UNTIL_GO)
    wait("= 1 started")
    add("waits", "--route first")
    wait("= 1: name = 'waits' AND holder = (SELECT id FROM executor WHERE name = 'e1')")
    e2 = Node("e2")
    e1.send(signal.SIGTERM)
    wait("= 1 done waits")
    assert begun("waits") == ["e2"] and "ending" in jobs("db", "executor", "list")
    go()
    assert e1.ended() == 0
    finish(scheduler, e2)
    check("= 2 done")


def blocks_and_limits():
    e1, scheduler = Node("e1"), Node("s1")
    for name, options, every in (
            ("cover", "--block cover", "700ms"), ("discard", "--block discard", "700ms"),
            ("limit", "--timeout 200ms --grace 1s", "1d"), ("stop", "", "1d")):
        add(name, f"--route first {options}", UNTIL_GO, every=f"{every} --first 0s")
    wait("= 1 started stop")
    jobs("db", "stop", "stop")
    wait("= 1 stopped stop", "= 1 timeout limit", "> 1 covered cover", "> 1 discarded discard")
    go()
    wait("> 0 done discard", "> 0 done cover")
    finish(scheduler, e1)
    check("= 0 stopped cover")
    assert not [line for line in logged("e") if line.name in ("stop", "limit")]


def named():
    token = jobs("db", "executor", "add", "e1").strip()
    assert re.fullmatch("[0-9a-f]{32}", token) and not one(
        f"SELECT count(*) FROM known WHERE token = '{token}'")
    jobs("db", "executor", "add", "e1", status=1, says="added before")
    assert re.search("e1 .*absent", jobs("db", "executor", "list"))
    for name, secret in ("e2", token), ("e1", "0" * 32), ("e1", None):
        refused = Node(name, **({"JOBS_TOKEN": secret} if secret else {}))
        assert refused.ended() == 1, read(refused.output)
        assert f"no executor '{name}' with this token" in read(refused.output)
    scheduler, first = Node("s1"), Node("e1", JOBS_TOKEN=token)
    add("a", "--route first", f"{UNTIL_GO}; echo ${{JOBS_TOKEN-none}} >token")
    wait("= 1 started")
    scheduler.send(signal.SIGSTOP)      # so that the old one has the time to renew its lease
    second = Node("e1", JOBS_TOKEN=token)
    assert first.ended() == 1 and "has the name e1 now" in read(first.output)
    scheduler.send(signal.SIGCONT)
    wait("= 1 interrupted")
    go()
    jobs("db", "change", "a", *"--every 1d --first 0s --route first -- sh -c".split(),
         "echo ${JOBS_TOKEN-none} >token")
    wait("= 1 done")
    assert read("token") == "none\n"
    jobs("db", "executor", "remove", "e2", status=1, says="no executor 'e2'")
    jobs("db", "executor", "add", "e3")
    os.remove(second.output)
    jobs("db", "executor", "remove", "e1")
    assert second.ended() == 1
    scheduler.end()
    jobs("file", "executor", status=1, says="No such file")
    jobs("file", "add", "a", "--every", "1s", "--", "true")
    jobs("file", "executor", status=1, says="PostgreSQL")
    jobs("file", *"add b --every 1s --broadcast -- true".split(), status=1, says="PostgreSQL")


def no_time_zones():
    """An executor has none of them, and needs none."""
    e1 = Node("e1", TZDIR="/nowhere")
    add("a", "--route first --timezone Asia/Tokyo --cron @yearly", every=None)
    scheduler = Node("s1")
    jobs("db", "start", "a")
    wait("= 1 done")
    finish(scheduler, e1)


def server_forgets():
    """A standby that lacks the last commits becomes the database: what had been started is planned,
    is started again, and says so. Without fsync any crash may do the same."""
    add("a", "--misfire once", every="1d --first 2s")
    first = Node("s1")
    wait("= 1 planned")
    first.kill()
    SERVER.end()
    shutil.copytree(SERVER.cluster, "standby")
    SERVER.start()
    second = Node("s2")
    wait("= 1 done")
    SERVER.end()
    shutil.rmtree(SERVER.cluster)
    subprocess.run(["cp", "-a", "standby", SERVER.cluster], check=True)
    subprocess.run(["chown", "-R", "nobody", SERVER.cluster], check=True)
    with open(f"{SERVER.cluster}/standby.signal", "w", encoding="ascii"):
        pass
    SERVER.start()
    check("= 1 planned")
    sql("SELECT pg_promote()")
    wait("= 1 done")
    assert len(begun("a")) == 2 and "0, perhaps again" in jobs("db", "log", "a")
    second.says("another server has it than before")
    add("b", every="1d --first 1s")
    wait("= 1 done b")
    second.end()
    assert "again" not in jobs("db", "log", "b")
    SERVER.end()
    SERVER.start("fsync=off")
    Node("s1").says("its server has fsync = off, and may forget what was started")
    SERVER.end()
    SERVER.start()


def database_is_read_only():
    """Nothing is started, and what ended meanwhile is recorded later."""
    def read_only(value):
        sql(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        sql("SELECT pg_reload_conf()")
    e1, scheduler = Node("e1"), Node("s1")
    add("a", "--route first", UNTIL_GO)
    wait(lambda: begun("a"))
    read_only("on")
    try:
        for process in e1, scheduler:
            process.says("trying again")
        go()
        wait(lambda: logged("e"))
        check("= 1 started")
    finally:
        read_only("off")
    add("b", "--route first")
    wait("= 2 done")
    finish(scheduler, e1)
    check("= 2: TRUE")


def own_program():
    """examples/jobs_executor.py, in a network that is not cut: it calls functions, and when it is
    killed, its runs are interrupted."""
    for name, words in ("greet", "greet two words"), ("fails", "nothing"):
        jobs("db", "add", name, *f"--every 1d --first 0s --tags python -- {words}".split())
    scheduler = Node("s1")
    with open("own.out", "wb") as out:
        own = subprocess.Popen([sys.executable, EXAMPLE, SERVER.name(), "own"], stdout=out,
                               stderr=subprocess.STDOUT)
    try:
        wait("= 1 done greet: status = 0 AND executor = 'own'", "= 1 done fails: status = 1")
        assert "hello, two words" in read("own.out") and "KeyError" in read("own.out")
        assert re.search("own +python +4 +0 +ready", jobs("db", "executor", "list"))
        sql("UPDATE executor SET lease = 0 WHERE name = 'own'")
        assert own.wait(90) == 1
    finally:
        own.kill()
    scheduler.end()


if __name__ == "__main__":
    postgres.main([
        routes, tags_and_busyover, broadcast, broadcast_is_paused, shards_are_followed,
        shards_of_an_alarm, shards_end_at_once, killed_before_it_starts,
        killed_while_it_runs, again_only_once, scheduler_is_killed, cut_off, its_own_row,
        lost_while_reading, silent,
        executor_ends, blocks_and_limits, named, no_time_zones, own_program, server_forgets,
        database_is_read_only])
