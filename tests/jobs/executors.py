#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: executors.py JOBS SHIM BIN CLUSTER [TEST...]

Test executors of the program JOBS from outside, as root in a network namespace of its own: schedulers
and executors are processes, executors in namespaces of their own, so that they can be cut off from
PostgreSQL, whose programs are in BIN. Verdicts are about rows, and about what commands have logged.
Who is to lose its lease has a short one. Prints TAP.
"""
import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psycopg2
import psycopg2.extras

import common as run
from common import check, count, one, wait

LONG = "60s"        # no process loses its lease by being slow
SHORT = "2s"
LOG = ("echo b $JOBS_NAME $JOBS_DUE $JOBS_INDEX $JOBS_TOTAL $NAME >>log; {0}; "
       "echo e $JOBS_NAME $JOBS_DUE $JOBS_INDEX $JOBS_TOTAL $NAME >>log")
UNTIL_GO = "until [ -e go ]; do sleep 0.05; done"
NETS = ["e1", "e2", "e3"]
spaces, everyone = {}, []


def connect(host="127.0.0.1"):
    return f"host={host} user=nobody dbname=postgres"


def sql(text, *values):
    with psycopg2.connect(connect()) as db:
        cursor = db.cursor(cursor_factory=psycopg2.extras.DictCursor)
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.description else []


def jobs(*words, **options):
    return run.jobs(connect(), *words, **options)


def add(name, options="", command="true", every="1d --first 0s"):
    when = ["--every", *every.split()] if every else []
    jobs("add", name, *when, *options.split(), "--", "sh", "-c",
         LOG.format(command))


class Process:
    """A scheduler or executor. The latter are e1, e2 and so on, each in its network."""

    def __init__(self, name, *options, window=LONG, says="running", **more):
        self.name = name
        space = [] if name.startswith("s") else ["nsenter", f"--net=/proc/{spaces[name].pid}/ns/net"]
        host = "127.0.0.1" if name.startswith("s") else f"10.9.{NETS.index(name)}.1"
        words = ["run"] if name.startswith("s") else ["executor", "--name", name]
        with open(f"{name}.out", "wb") as out:
            self.process = subprocess.Popen(
                [*space, run.JOBS, connect(host), *words, "--window", window, *options], stdout=out,
                stderr=subprocess.STDOUT, env=os.environ | {"NAME": name.rstrip("12")
                                                   if name.startswith("s") else name} | more)
        everyone.append(self)
        wait(lambda: says in run.read(f"{name}.out"))

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGTERM, status=0):
        self.send(signal.SIGCONT)
        self.send(number)
        assert self.process.wait(run.PATIENCE_S) == status, run.read(f"{self.name}.out")

    def kill(self):
        self.end(signal.SIGKILL, -signal.SIGKILL)


def net(name, *words):
    subprocess.run(["ip", "link", "set", "dev", f"to-{name}", *words], check=True)


def logged(what="b"):
    """Number of beginnings or ends for each job, due time, index and total, and by whom."""
    lines = [line.split(" ") for line in run.read("log").splitlines()]
    return collections.Counter(tuple(line[1:]) for line in lines if line[0] == what)


def begun(name):
    return [key[4] for key in logged().elements() if key[0] == name]


def check_books():
    """What holds whenever nobody runs: each command has a row that says so, and each row its command,
    unless it was interrupted; the rows of a job form a chain."""
    starts, ends = (collections.Counter((key[0], int(key[1]), int(key[2]), key[4])
                                        for key in logged(what).elements()) for what in "be")
    rows, last = collections.Counter(), {}
    for row in sql("SELECT run.*, job.name, next FROM run JOIN job ON job.id = run.job ORDER BY run.id"):
        key = (row["name"], row["origin"] or row["due"], row["shard"],
               re.sub(".*:.*", "s", row["executor"] or ""))
        about = dict(row)
        assert row["state"] not in ("started",), about
        assert row["started"] is None or row["started"] >= row["due"], about
        if row["started"]:
            rows[key] += 1
        if row["state"] == "done" and row["status"] == 0:
            assert ends[key], about
        if row["until"] != row["due"]:
            assert last.get(row["name"], row["due"]) == row["due"], about
            last[row["name"]] = row["until"]
    for key, number in starts.items():
        assert number <= rows[key], (key, number, rows[key])
    for name, until in last.items():
        assert until == one(f"SELECT next FROM job WHERE name = '{name}'"), name


def finish(*processes):
    for process in processes:
        process.end()
    check_books()


def sequence(name, number):
    """Which executors had the first runs of the job."""
    return [row[0] for row in sql("SELECT executor FROM run JOIN job ON job.id = run.job WHERE name = %s"
                                  " AND executor IS NOT NULL ORDER BY run.id LIMIT %s", name, number)]


def routes():
    """A thousand runs."""
    ways = ["first", "last", "round-robin", "random", "hash", "lfu", "lru", "failover", "busyover"]
    number = 112
    executors = [Process(name) for name in reversed(NETS)]
    for way in ways:
        add(way, f"--misfire all --route {way}", every="1s --first -112s")
    scheduler = Process("s1")
    for done in range(number % 9, number + 1, 9):       # however long that takes
        wait(*(f">= {done}: name = '{way}' AND state = 'done'" for way in ways))
    finish(scheduler, *executors)
    for way in "first", "failover", "busyover":
        assert set(sequence(way, number)) == {"e1"}, (way, sequence(way, number))
    assert set(sequence("last", number)) == {"e3"}
    assert len(set(sequence("hash", number))) == 1
    turns = (NETS * number)[:number]
    for way in "round-robin", "lru":
        assert sequence(way, number) == turns, (way, sequence(way, number))
    assert max(collections.Counter(sequence("lfu", 99)).values()) == 33, sequence("lfu", 99)
    assert set(sequence("random", number)) == set(NETS)      # but once in 10^19 runs


def tags_and_busyover():
    e1, e2 = Process("e1", "--tags", "eu,gpu", "--fast", "1"), Process("e2", "--tags", "eu")
    add("gpu", "--tags gpu,eu")
    add("none", "--tags cpu")
    scheduler = Process("s1")
    wait("= 1: name = 'gpu' AND state = 'done'")
    assert begun("gpu") == ["e1"] and not begun("none")
    add("full", "--route first", UNTIL_GO)
    wait(lambda: begun("full") == ["e1"])
    add("over", "--route busyover")
    wait("= 1: name = 'over' AND state = 'done'")
    add("over2", "--route busyover --tags gpu")
    time.sleep(1)       # may only make it pass
    assert begun("over") == ["e2"] and not begun("over2")
    assert re.search(r"e1 +eu,gpu +1 +1 +ready\ne2 +eu +16 +0 +ready\n", jobs("executor", "list"))
    run_go()
    wait("= 1: name = 'over2' AND state = 'done'")
    assert begun("over2") == ["e1"]
    e3 = Process("e3", "--tags", "cpu")
    wait("= 1: name = 'none' AND state = 'done'")
    finish(scheduler, e1, e2, e3)


def run_go():
    with open("go", "w", encoding="ascii"):
        pass


def broadcast():
    executors = [Process(name) for name in NETS]
    add("all", "--broadcast", UNTIL_GO, every="200ms --first 0s")
    scheduler = Process("s1")
    wait("= 3: state = 'started'")
    shards = {(key[2], key[3], key[4]) for key in logged()}
    assert shards == {("0", "3", "e1"), ("1", "3", "e2"), ("2", "3", "e3")}, shards
    wait("> 2: state = 'planned' AND holder IS NULL AND due < now_ns()")
    assert len({key[1] for key in logged()}) == 1     # the next ones wait for all three
    run_go()
    wait("> 30: state = 'done'")
    finish(scheduler, *executors)
    for row in sql("SELECT due, count(*), count(DISTINCT executor) FROM run WHERE state = 'done' "
                   "GROUP BY due"):
        assert tuple(row[1:]) == (3, 3), row


def broadcast_is_paused():
    """A shard that waits is not due again, as others of its due time have begun."""
    e1, e2 = Process("e1", "--fast", "1"), Process("e2", "--fast", "1")
    add("hog", "--route first --at never", UNTIL_GO, every="")
    scheduler = Process("s1")
    jobs("start", "hog")
    wait(lambda: begun("hog") == ["e1"])
    add("all", "--broadcast")
    wait("= 1: name = 'all' AND state = 'done'")
    jobs("pause", "all")
    jobs("resume", "all")
    wait(lambda: one("SELECT next > now_ns() FROM job WHERE name = 'all'"))
    run_go()
    wait("= 0: state IN ('planned', 'started') AND due < now_ns()")
    assert begun("all") == ["e2"]
    finish(scheduler, e1, e2)


def shards_are_followed():
    """Once, when all of them have ended, and their retries: by success only if none failed."""
    executors = [Process(name) for name in NETS[:2]]
    fails = "[ $JOBS_INDEX = 1 ] || exit 1; "
    for name, options, command in (
            ("good", "", "true"), ("bad", "", fails + UNTIL_GO),
            ("tries", " --retries 1 --backoff 0s", "[ $JOBS_INDEX = 1$JOBS_ATTEMPT ] || "
             "[ $JOBS_INDEX = 0 -a -n \"$JOBS_ATTEMPT\" ] || exit 1")):
        add(name, "--broadcast" + options, command, every="1d --first 1s")
        for event in "success", "failure":
            add(f"{name}-{event}", f"--after {name}:{event}", every=None)
    scheduler = Process("s1")
    wait("= 1: name = 'bad' AND state = 'done' AND status = 1",
         "= 1: name = 'bad' AND state = 'started'")
    check("= 0: name ~ 'bad-'")
    run_go()
    wait("= 1: name = 'good-success' AND state = 'done'",
         "= 1: name = 'tries-success' AND state = 'done'",
         "= 1: name = 'bad-failure' AND state = 'done'")
    finish(scheduler, *executors)
    check("= 3: name ~ '-'", "= 3: name = 'tries'",
          "= 1: name = 'tries' AND cause = 'retry' AND shard = 0 AND shards = 2 AND status = 0")


def shard_of_the_dead():
    e1, e2 = Process("e1"), Process("e2", window=SHORT)
    e2.send(signal.SIGSTOP)
    add("all", "--broadcast")
    scheduler = Process("s1")
    wait("= 1: holder IS NOT NULL AND state = 'planned'", "= 1: state = 'done'")
    e2.kill()
    wait("= 2: state = 'done'")
    finish(scheduler, e1)
    assert sorted(key[2:] for key in logged()) == [("0", "2", "e1"), ("1", "2", "e1")]


def killed_before_it_starts():
    """Between claim and start: its transaction waits for a lock of the test."""
    e1, e2 = Process("e1", window=SHORT), Process("e2")
    e1.send(signal.SIGSTOP)
    add("a", "--route first")
    scheduler = Process("s1")
    wait("= 1: holder IS NOT NULL")
    with psycopg2.connect(connect()) as db:
        db.cursor().execute("SELECT FROM run FOR UPDATE")
        e1.send(signal.SIGCONT)
        wait(lambda: one("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0)
        e1.kill()
    wait("= 1: state = 'done'")
    finish(scheduler, e2)
    assert begun("a") == ["e2"]
    check("= 1: TRUE")


def killed_while_it_runs():
    e1, e2 = Process("e1", window=SHORT), Process("e2")
    for name, again in ("once", ""), ("again", "--again"), ("shard", "--again --broadcast"):
        add(name, f"{again} --route first" if name != "shard" else again, UNTIL_GO)
    scheduler = Process("s1")
    wait(lambda: len(logged()) == 4)
    e1.kill()
    # One of these waits until the executor has done its own shard.
    wait("= 3: state = 'interrupted'", "= 1: cause = 'again' AND state = 'started'",
         "= 2: cause = 'again'")
    run_go()
    wait("= 3: state = 'done'")
    finish(scheduler, e2)
    assert begun("once") == ["e1"] and begun("again") == ["e1", "e2"]
    assert sorted(begun("shard")) == ["e1", "e2", "e2"]
    check("= 1: name = 'once'", "= 2: name = 'again'", "= 3: name = 'shard'",
          "= 2: cause = 'again' AND until = due AND state = 'done'",
          "= 2: cause = 'again' AND name = 'shard' AND shard = 0 AND shards = 2 OR name = 'again' AND "
          "cause = 'again'")


def again_only_once():
    executors = [Process(name, window=SHORT) for name in NETS]
    add("a", "--again --route first", UNTIL_GO)
    scheduler = Process("s1")
    for number in 1, 2:
        wait(lambda: len(logged()) == number)       # pylint: disable=cell-var-from-loop
        executors[number - 1].kill()
        wait(f"= {number}: state = 'interrupted'")
    finish(scheduler, executors[2])
    check("= 2: TRUE")


def scheduler_is_killed():
    """What it runs itself is interrupted, and repeated; what executors run goes on, and nothing
    overlaps with that."""
    e1, e2, s1 = Process("e1"), Process("e2"), Process("s1", window=SHORT)
    add("here", "--again", UNTIL_GO)
    add("there", "--route round-robin", UNTIL_GO, every="300ms --first 0s")
    wait(lambda: len(logged()) == 2)
    s1.kill()
    s2 = Process("s2")
    wait("= 1: name = 'here' AND state = 'interrupted'",
         "= 1: name = 'here' AND cause = 'again' AND state = 'started'",
         lambda: one("SELECT count(*) FROM job JOIN executor ON executor.id = owner "
                     "WHERE job.name = 'there' AND lease > now_ns()") == 1,
         "> 2: name = 'there' AND state = 'planned' AND due < now_ns()")
    assert len(begun("there")) == 1 and len(begun("here")) == 2
    run_go()
    wait("> 3: name = 'there' AND state = 'done'")
    finish(s2, e1, e2)
    check("= 0: name = 'there' AND state = 'interrupted'")


def cut_off():
    e1, e2 = Process("e1", window=SHORT), Process("e2")
    add("once", "--route first", UNTIL_GO)
    add("again", "--again --route first", UNTIL_GO)
    scheduler = Process("s1")
    wait(lambda: len(logged()) == 2)
    net("e1", "down")
    wait("= 2: state = 'interrupted'", lambda: sorted(begun("again")) == ["e1", "e2"])
    assert begun("once") == ["e1"]
    net("e1", "up")
    wait(lambda: "took over" in run.read("e1.out"))
    run_go()
    wait("= 1: state = 'done'")
    add("back", "--route first")
    wait("= 1: name = 'back' AND state = 'done'")
    assert begun("back") == ["e1"]
    finish(scheduler, e1, e2)
    assert not [key for key in logged("e") if key[4] == "e1" and key[0] != "back"]


def silent():
    e1, e2 = Process("e1", window="20s"), Process("e2")
    e1.send(signal.SIGSTOP)
    wait(lambda: "silent" in jobs("executor", "list"))
    add("first", "--route first")
    add("failover", "--route failover")
    scheduler = Process("s1")
    wait("= 1: name = 'failover' AND state = 'done'")
    assert begun("failover") == ["e2"] and not begun("first")
    e1.kill()
    wait("= 1: name = 'first' AND state = 'done'")
    assert begun("first") == ["e2"]
    finish(scheduler, e2)


def executor_ends():
    """What it has not begun goes to others; what it runs ends first."""
    e1 = Process("e1", "--fast", "1")
    scheduler = Process("s1")
    add("runs", "--route first", UNTIL_GO)
    wait("= 1: state = 'started'")
    add("waits", "--route first")
    wait("= 1: name = 'waits' AND holder = (SELECT id FROM executor WHERE name = 'e1')")
    e2 = Process("e2")
    e1.send(signal.SIGTERM)
    wait("= 1: name = 'waits' AND state = 'done'")
    assert begun("waits") == ["e2"] and "ending" in jobs("executor", "list")
    run_go()
    assert e1.process.wait() == 0
    finish(scheduler, e2)
    check("= 2: state = 'done'")


def blocks_and_limits():
    e1, scheduler = Process("e1"), Process("s1")
    add("cover", "--route first --block cover", UNTIL_GO, every="700ms --first 0s")
    add("discard", "--route first --block discard", UNTIL_GO, every="700ms --first 0s")
    add("limit", "--route first --timeout 200ms --grace 1s", UNTIL_GO)
    add("stop", "--route first", UNTIL_GO)
    wait("= 1: name = 'stop' AND state = 'started'")
    jobs("stop", "stop")
    wait("= 1: name = 'stop' AND state = 'stopped'", "= 1: name = 'limit' AND state = 'timeout'",
         "> 1: name = 'cover' AND state = 'covered'", "> 1: name = 'discard' AND state = 'discarded'")
    run_go()
    wait("> 0: name = 'discard' AND state = 'done'", "> 0: name = 'cover' AND state = 'done'")
    finish(scheduler, e1)
    assert not [key for key in logged("e") if key[0] in ("stop", "limit")]


def named():
    token = jobs("executor", "add", "e1").strip()
    assert re.fullmatch("[0-9a-f]{32}", token) and not one(
        f"SELECT count(*) FROM known WHERE token = '{token}'")
    jobs("executor", "add", "e1", status=1, says="added before")
    assert re.search("e1 .*absent", jobs("executor", "list"))
    for name, secret in ("e2", token), ("e1", "0" * 32), ("e1", None):
        Process(name, says=f"no executor '{name}' with this token",
                **({"JOBS_TOKEN": secret} if secret else {}))
        everyone.pop().process.wait()
    scheduler, first = Process("s1"), Process("e1", JOBS_TOKEN=token)
    add("a", "--route first", f"{UNTIL_GO}; echo ${{JOBS_TOKEN-none}} >token")
    wait("= 1: state = 'started'")
    os.rename("e1.out", "old.out")
    scheduler.send(signal.SIGSTOP)      # so that the old one has the time to renew its lease
    second = Process("e1", JOBS_TOKEN=token)
    assert first.process.wait(run.PATIENCE_S) == 1 and "has the name e1 now" in run.read("old.out")
    scheduler.send(signal.SIGCONT)
    wait("= 1: state = 'interrupted'")
    run_go()
    jobs("change", "a", *"--every 1d --first 0s --route first -- sh -c".split(),
         "echo ${JOBS_TOKEN-none} >token")
    wait("= 1: state = 'done'")
    assert run.read("token") == "none\n"
    jobs("executor", "remove", "e2", status=1, says="no executor 'e2'")
    jobs("executor", "add", "e3")
    jobs("executor", "remove", "e1")
    assert second.process.wait() == 1 and "with this token" in run.read("e1.out")
    scheduler.end()
    run.jobs("db", "executor", status=1, says="No such file")
    run.jobs("db", "add", "a", "--every", "1s", "--", "true")
    run.jobs("db", "executor", status=1, says="PostgreSQL")
    run.jobs("db", "add", "b", "--every", "1s", "--broadcast", "--", "true", status=1, says="PostgreSQL")


def server_forgets():
    """A standby that lacks the last commits becomes the database: what had been started is planned,
    is started again, and says so. Without fsync any crash may do the same."""
    add("a", "--misfire once", every="1d --first 2s")
    first = Process("s1")
    wait("= 1: state = 'planned'")
    first.kill()
    Server.end()
    shutil.copytree(Server.cluster, "standby")
    Server()
    second = Process("s2", window=SHORT)
    wait("= 1: state = 'done'")
    Server.end()
    shutil.rmtree(Server.cluster)
    subprocess.run(["cp", "-a", "standby", Server.cluster], check=True)
    subprocess.run(["chown", "-R", "nobody", Server.cluster], check=True)
    with open(f"{Server.cluster}/standby.signal", "w", encoding="ascii"):
        pass
    Server()
    check("= 1: state = 'planned'")
    sql("SELECT pg_promote()")
    wait("= 1: state = 'done'")
    assert len(begun("a")) == 2 and "0, perhaps again" in jobs("log", "a")
    assert "another server has it than before" in run.read("s2.out")
    add("b", every="1d --first 1s")
    wait("= 1: name = 'b' AND state = 'done'")
    second.end()
    assert "again" not in jobs("log", "b")
    Server.end()
    Server("fsync=off")
    Process("s1", says="its server has fsync = off, and may forget what was started")
    Server.end()
    Server()


def set_read_only(value):
    with contextlib.closing(psycopg2.connect(
            connect(), options="-c default_transaction_read_only=off")) as db:
        db.autocommit = True
        cursor = db.cursor()
        cursor.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        cursor.execute("SELECT pg_reload_conf()")


def database_is_read_only():
    """Nothing is started, and what ended meanwhile is recorded later."""
    e1, scheduler = Process("e1"), Process("s1")
    add("a", "--route first", UNTIL_GO)
    wait(lambda: begun("a"))
    set_read_only("on")
    try:
        wait(*(lambda name=name: "trying again" in run.read(f"{name}.out") for name in ("e1", "s1")))
        run_go()
        wait(lambda: logged("e"))
        check("= 1: state = 'started'")
    finally:
        set_read_only("off")
    add("b", "--route first")
    wait("= 2: state = 'done'")
    finish(scheduler, e1)
    check("= 2: TRUE")


def own_program():
    """examples/jobs_executor.py, in a network that is not cut: it calls functions, and when it is
    killed, its runs are interrupted."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/jobs_executor.py")
    jobs("add", "greet", *"--every 1d --first 0s --tags python -- greet two words".split())
    jobs("add", "fails", *"--every 1d --first 0s --tags python -- nothing".split())
    scheduler = Process("s1")
    with open("own.out", "wb") as out:
        own = subprocess.Popen([sys.executable, program, connect(), "own"], stdout=out,
                               stderr=subprocess.STDOUT)
    try:
        wait("= 1: name = 'greet' AND state = 'done' AND status = 0 AND executor = 'own'",
             "= 1: name = 'fails' AND state = 'done' AND status = 1")
        assert "hello, two words" in run.read("own.out") and "KeyError" in run.read("own.out")
        assert re.search("own +python +4 +0 +ready", jobs("executor", "list"))
        sql("UPDATE executor SET lease = 0 WHERE name = 'own'")
        assert own.wait(run.PATIENCE_S) == 1
    finally:
        own.kill()
    scheduler.end()


def chaos():
    """Kill, stop and cut off, at random."""
    alive = {name: Process(name, window="3s") for name in ["s1", "s2", *NETS]}
    for name, options, command in (("one", "--route random", "true"),
                                   ("two", "--route lru --again", "sleep 0.3"),
                                   ("three", "--broadcast --again", "sleep 0.1"),
                                   ("four", "--route hash --block cover", "sleep 0.5"),
                                   ("five", "--again", "sleep 0.2")):
        add(name, f"{options} --misfire once", command, every="400ms")
    for _ in range(12):
        name = run.RANDOM.choice(list(alive))
        what = run.RANDOM.choice(["kill", "stop", "end", "cut"])
        print(f"# {what} {name}", flush=True)
        process, pause = alive[name], run.RANDOM.uniform(0, 4)
        if what in ("kill", "end"):
            process.kill() if what == "kill" else process.end()
            alive[name] = Process(name, window="3s")
        elif what == "stop" or name not in NETS:
            process.send(signal.SIGSTOP)
            time.sleep(pause)
            process.send(signal.SIGCONT)
        else:
            net(name, "down")
            time.sleep(pause)
            net(name, "up")
        time.sleep(pause / 4)
    now = one("SELECT now_ns()")
    wait(f"= 0: due < {now} AND state IN ('planned', 'started')",
         *(f"> 2: name = '{name}' AND started > {now} AND state IN ('done', 'covered')"
           for name in ("one", "two", "three", "four", "five")))
    for process in alive.values():
        process.end()
    for row in sql("SELECT state, cause, count(*) FROM run GROUP BY 1, 2 ORDER BY 1, 2"):
        print("#", *row)
    check_books()
    # What was interrupted for the first time was repeated, if the job says so, and nothing else.
    check("= 0: cause = 'again' AND job.again = 0")
    assert one("SELECT count(*) FROM run JOIN job ON job.id = job WHERE again = 1 AND cause <> 'again' "
               "AND state = 'interrupted'") == count("cause = 'again'")


TESTS = [routes, tags_and_busyover, broadcast, broadcast_is_paused, shards_are_followed, shard_of_the_dead,
         killed_before_it_starts, killed_while_it_runs, again_only_once, scheduler_is_killed, cut_off,
         silent, executor_ends, blocks_and_limits, named, own_program, server_forgets, database_is_read_only, chaos]


class Server:
    """PostgreSQL."""
    running = cluster = binaries = None

    def __init__(self, setting="port=5432"):
        assert Server.running is None
        log = os.path.abspath("server.log")
        with open(log, "wb") as file:
            Server.running = subprocess.Popen(
                ["setpriv", "--reuid=nobody", "--clear-groups", f"{Server.binaries}/postgres", "-D",
                 Server.cluster, "-k", Server.cluster, "-c", "listen_addresses=*", "-c", setting],
                stderr=file)
        wait(lambda: "ready to accept" in run.read(log))

    @staticmethod
    def end():
        if Server.running:
            Server.running.send_signal(signal.SIGINT)
            Server.running.wait()
        Server.running = None


def make_networks():
    subprocess.run(["ip", "link", "set", "dev", "lo", "up"], check=True)
    for number, name in enumerate(NETS):
        spaces[name] = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        pid = str(spaces[name].pid)
        wait(lambda: os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        inside = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip"]
        for words in (["ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0",
                       "netns", pid],
                      ["ip", "address", "add", f"10.9.{number}.1/30", "dev", f"to-{name}"],
                      ["ip", "link", "set", "dev", f"to-{name}", "up"],
                      [*inside, "address", "add", f"10.9.{number}.2/30", "dev", "eth0"],
                      [*inside, "link", "set", "dev", "eth0", "up"],
                      [*inside, "link", "set", "dev", "lo", "up"]):
            subprocess.run(words, check=True)


def begin(test):
    sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    jobs("add", "first", "--every", "1d", "--", "true")
    jobs("remove", "first")
    test()


def main():
    Server.binaries, Server.cluster = sys.argv[3:5]
    make_networks()
    Server()
    tests = [test for test in TESTS if test.__name__ in sys.argv[5:] or not sys.argv[5:]]
    print(f"# SEED={run.SEED}\n1..{len(tests)}", flush=True)
    try:
        for number, test in enumerate(tests, 1):
            verdict = "ok" if run.run_test(lambda test=test: begin(test)) else "not ok"
            while everyone:
                process = everyone.pop()
                if process.process.poll() is None:
                    process.kill()
                if verdict != "ok":
                    print(f"# {process.name}: {process.process.returncode}")
            print(f"{verdict} {number} {test.__name__}", flush=True)
    finally:
        Server.end()
        for space in spaces.values():
            space.kill()


class Database:
    """For what is shared."""
    name, query, now = lambda *_: "db", lambda _, text, values: sql(text, *values), lambda _: one("SELECT now_ns()")


run.here["db"] = Database()
if __name__ == "__main__":
    main()
