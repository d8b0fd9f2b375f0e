#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: run.py JOBS SHIM [TEST...]

Test the program JOBS, hwtimer-jobs, from outside, as root in a mount namespace of its own: each case
in a directory of its own, with a scheduler, a database in SQLite and commands that write a log. What
the rows say and what the commands did has to agree. SHIM is tests/jobs/shim.c. Prints TAP.
"""
import contextlib
import datetime
import mmap
import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import time

import common
from common import (JOBS, LOG, RANDOM, S, UNTIL_GO, Scheduler, add, check, count, go, here, holds,
                    jobs,
                    logged, one, read, sql, wait, write)

USER = {"user": 1001, "group": 1001, "extra_groups": []}    # may make no control groups
STOPS = 32          # at the beginning and at the end of each commit and each fork
SHIM = os.path.abspath(sys.argv[2])
MANUAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/hwtimer-jobs.1")


def fixed_rate():
    add("a", "--every 100ms")
    first = one("SELECT next FROM job")
    with Scheduler():
        wait(">= 5 done")
    assert first == one("SELECT min(due) FROM run")
    check("= 0: state = 'done' AND (status <> 0 OR lane <> 'fast')")
    jobs("db", "trim", "1d")
    check("> 0 done")
    assert "100ms" in jobs("db", "list") and "done" in jobs("db", "log", "a")
    planned = count("state = 'planned'")
    # More than are shown, or deleted at a time.
    sql("WITH RECURSIVE old(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM old LIMIT 100000)"
        " INSERT INTO run (job, due, cause, state) SELECT id, n, 'due', 'done' FROM job, old")
    log = jobs("db", "log", says="only the last 100000").splitlines()
    assert len(log) == 100001 and log[1:] == sorted(log[1:])
    jobs("db", "trim", "0s")
    assert 0 < planned == count() == count("state = 'planned'")


def how_commands_end():
    commands = {"three": (3, "sh", "-c", "exit 3"), "killed": (138, "sh", "-c", "kill -USR1 $$"),
                "secret": (4, "sh", "-c", "exit ${PGPASSWORD:-${JOBS_EVENT:-4}}"),
                "none": (127, "/no/such/command"),
                "words": (7, "sh", "-c", '[ "$1" = "two  words" ] && [ -z "$2" ] && exit 7', "sh",
                          "two  words", "")}
    for name, (_, *command) in commands.items():
        jobs("db", "add", name, "--every", "1h", "--first", "0s", "--", *command)
    with Scheduler(env=os.environ | {"PGPASSWORD": "5", "JOBS_EVENT": "6"}):
        wait("= 5 done")
    ended = sql("SELECT name, status FROM run JOIN job ON job.id = job WHERE state = 'done'")
    assert dict(map(tuple, ended)) == {name: status for name, (status, *_) in commands.items()}
    assert "/no/such/command" in jobs("db", "output", "none")


def signals_are_ignored():
    """SIGCHLD by who starts the scheduler; SIGPIPE, but not by commands, as nobody reads what it
    prints."""
    add("a", "--every 100ms", command="kill -PIPE $$")
    reader, writer = os.pipe()
    os.close(reader)
    with Scheduler(stdout=writer, says=None,
                   preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)) as scheduler:
        wait(">= 2 done")
        assert scheduler.end() == 1 and "standard output" in read("scheduler.err")
    check("= 0 done: status <> 141")


def kills():
    """Before and after each commit and each fork, from the start on, after which no scheduler runs
    for a while now and then."""
    add("serial", "--every 40ms --misfire once")
    add("cover", "--every 60ms --block cover")
    add("discard", "--every 70ms --block discard")
    add("cron", "--misfire once --cron", "* * * * * *")
    first = one("SELECT sum(next) FROM job")
    for stop in range(1 + RANDOM.randrange(3), STOPS, 3):
        scheduler = Scheduler("--window " + RANDOM.choice(("100ms", "400ms", "5s")), says=None,
                              env=os.environ | {"LD_PRELOAD": SHIM, "STOP": str(stop)})
        assert scheduler.ended() == -signal.SIGKILL, read("scheduler.err")
        time.sleep(RANDOM.choice((0, 0, 0, 0.6)))
        assert one("PRAGMA integrity_check") == "ok"
    with Scheduler():
        done = count("state = 'done'") + 10
        wait(f"> {done} done", "> 1 done cron")
    assert first == one("SELECT sum(due) FROM (SELECT min(due) AS due FROM run GROUP BY job)")
    check("> 0 interrupted", "> 0 done: cause = 'due'",
          "= 0: cron IS NOT NULL AND (due % 1000000000 <> 0 OR "
          "state <> 'missed' AND until - due <> 1000000000)")


def late_early_and_missed():
    for name, options in (
            ("nothing", "--every 1000s --first -1h"), ("late", "--every 1000s --first -10s"),
            ("once", "--every 1000s --first -1h --misfire once"),
            ("all", "--every 1000s --first -1h --misfire all"),
            ("often", "--every 3s --first -10s"), ("soon", "--every 1000s --first 1s"),
            ("next", "--every 1000s --first 80s"), ("far", "--every 1000s --first 1d")):
        add(name, options)
    with Scheduler("--window 100s"):
        # Late runs are started when later ones are planned.
        wait("> 0 done late")
        check("> 0: name = 'soon' OR name = 'often' AND state = 'planned'")
        wait("> 0 done soon", "> 0 done once", ">= 2 done often", "= 4 done all")
    check("= 4: name = 'all' AND cause = 'misfire'",
          # One row for the four missed ones.
          "= 1: name = 'nothing'",
          "= 1 missed nothing: until - due = 4 * every",
          # One is run, and one row is for the three missed ones.
          "= 2: name = 'once'", "= 1 done once: cause = 'misfire'",
          "= 1 missed once: until - due = 3 * every",
          "= 1: name = 'late'", "= 1: name = 'late' AND cause = 'late'",
          "= 1: name = 'often' AND cause = 'late'", "= 1 missed often",
          # Late if the scheduler started later than that.
          "= 1: name = 'soon' AND cause IN ('due', 'late')",
          "= 1: name = 'next' AND cause = 'due'", "= 0: name = 'far'")


def planned_and_too_late():
    """Planned, but no scheduler ran when they were due."""
    for name, options in (("nothing", ""), ("once", " --misfire once"), ("both", " --misfire once")):
        add(name, "--every 100s --first 50s" + options)
    with Scheduler("--window 200s") as scheduler:
        wait("= 6 planned")
        scheduler.kill()
    # Move time by 250 s or 450 s: due 200 s and 100 s ago, and now; or 400, 300 and 200 s ago.
    sql("UPDATE job SET next = next - (250 + 200 * (name = 'both')) * 1000000000")
    sql("UPDATE run SET due = due - shift, until = until - shift FROM (SELECT id,"
        " (250 + 200 * (name = 'both')) * 1000000000 AS shift FROM job) AS j WHERE j.id = job")
    with Scheduler("--window 150s"):
        wait("= 2 done nothing", "= 3 done once", "> 0 done both")
        # The scheduler notices what other processes write, and continues.
        add("more", "--every 1h --first 0s")
        wait("> 0 done more")
    check("= 1 missed nothing",
          "= 1 missed nothing: due ="
          " (SELECT min(due) FROM run WHERE job = job.id)",
          "= 0 missed once",
          # The next due time is late, too: that is the one that is run.
          "= 2 missed both: cause = 'due'",
          "= 1 done both: cause = 'misfire'",
          "= 1 missed both: cause = 'misfire'")


def due_once():
    soon = int(time.time()) + 3
    text = f"{datetime.datetime.utcfromtimestamp(soon):%F %T}"
    before = f"{datetime.datetime.utcfromtimestamp(soon - 86400):%F %R}"
    add("soon", "--timezone UTC --at", text)
    assert one("SELECT next FROM job") == soon * S
    add("before", "--timezone UTC --misfire once --at", before)
    add("gone", "--timezone UTC --at", before)
    # In the zone of the job.
    for name, options in (("zone", ["--timezone", "Asia/Tokyo", "--at", "2060-01-31 12:30"]),
                          ("cron", ["--cron", "TZ=Asia/Tokyo 0 30 12 31 1 ? 2060"])):
        add(name, *([""] + options))
        assert one(f"SELECT next FROM job WHERE name = '{name}'") == 2842745400 * S
    assert jobs("db", "list").count(" 2060-01-31 12:30:00.000 Asia/Tokyo") == 2
    with Scheduler() as scheduler:
        wait("> 0 done before", "> 0: name = 'soon' AND state IN ('planned', 'started', 'done')")
        scheduler.kill()
    with Scheduler():
        wait("> 0: name = 'soon' AND state IN ('done', 'interrupted')")
    with Scheduler():
        pass
    check("= 3: until IS NULL AND next IS NULL", "= 3: TRUE", "= 1 missed gone")


def serial_runs_wait():
    add("a", "--every 100ms", command=f"{LOG}; {UNTIL_GO}")
    with Scheduler():
        wait(">= 3 planned: past")
        # Due times before the start may have been missed.
        check("= 1: state NOT IN ('planned', 'missed')", "= 1 started")
        go()
        wait(">= 4 done")
    check("= 0: state NOT IN ('done', 'planned', 'missed')")
    assert logged() == sorted(logged(), key=lambda line: line.due)


def serial_runs_are_bounded():
    """One row stands for what was missed, however long it lasts."""
    add("a", "--every 50ms", command=f"{LOG}; {UNTIL_GO}")
    with Scheduler("--window 200ms"):
        wait(lambda: (one("SELECT max(due) - min(due) FROM run") or 0) > 3 * S)
        check("< 25: TRUE", "= 1 started", "> 0 missed: until - due > 10 * every")
        go()
        wait(">= 4 done")


def follow_ups_are_bounded():
    add("alarm", "--at never", command="true")
    add("quick", "--every 50ms", command="true")
    add("slow", "--after quick --alarm alarm", command=UNTIL_GO)
    with Scheduler("--window 200ms"):
        wait("> 20 missed slow")
        check("< 20 planned slow", "= 1 started slow")
        go()
        wait("> 1 done slow")
    # One a minute, however many are missed.
    told = [row[0] for row in sql("SELECT due FROM run WHERE event = 'misfire' ORDER BY due")]
    assert told and all(after - due >= 60 * S for due, after in zip(told, told[1:])), told
    assert re.search(r"slow +after +missed .* after quick ", jobs("db", "log", "slow"))


def later_runs_are_discarded():
    add("a", "--every 15ms --block discard", command=f"{LOG}; {UNTIL_GO}")
    with Scheduler():
        wait(">= 3 discarded")
        check("= 1 started", "= 0 done")
        go()
        wait(">= 2 done")
    check("= 0: state NOT IN ('done', 'planned', 'discarded', 'missed')",
          # The second run was discarded.
          "= 1 discarded: due = (SELECT due FROM run"
          " WHERE state <> 'missed' ORDER BY due LIMIT 1 OFFSET 1)")


def gone(name, number=None):
    """None of the processes that are listed in this file exists; of the first ones, with a number."""
    return not any(os.path.exists(f"/proc/{pid}") for pid in read(name).split()[:number])


def earlier_runs_are_covered():
    add("a", "--every 200ms --block cover",
        command=f"{LOG}; echo $$ >>commands; sleep 1000 & echo $! >>sleeps; wait")
    add("long", "--every 1h --first 0s", command=f"{LOG}; sleep 1000; exit 1")
    with Scheduler() as scheduler:
        wait(">= 3 covered: status = 128 + 9")
        # With the processes that they started.
        wait(lambda: gone("sleeps", 2))
        check("<= 1 started a", "= 1 started long")
        # The scheduler waits for the long run, unless it gets two signals. They differ, so that
        # they do not merge.
        scheduler.process.terminate()
        assert scheduler.end(signal.SIGINT) == 1
        # No command outlives the scheduler.
        wait(lambda: gone("commands"))
    check("= 0: state NOT IN ('started', 'planned', 'covered', 'missed')")
    with Scheduler() as scheduler:
        check("= 1 interrupted long")
        scheduler.kill()
        wait(lambda: gone("commands"))
    # Processes that commands started may outlive the scheduler.
    subprocess.run(["kill", *read("sleeps").split()], check=False, stderr=subprocess.DEVNULL)


def runs_have_a_limit():
    add("deaf", "--every 1h --first 0s --timeout 300ms --grace 400ms",
        command=LOG + "; trap '' TERM; sleep 1000 & echo $! >>sleeps; wait; sleep 1000")
    add("polite", "--every 1h --first 0s --timeout 300ms",
        command=LOG + "; trap 'exit 3' TERM; sleep 1000 & wait")
    add("quick", "--every 100ms --timeout 1h")
    subprocess.run(["chown", "-R", "1001:1001", "."], check=True)
    with Scheduler(**USER):
        wait("= 1 timeout deaf", "= 1 timeout polite", ">= 2 done quick")
        check("= 1: name = 'deaf' AND status = 128 + 9 AND took >= 700000000",
              "= 1: name = 'polite' AND status = 3 AND took >= 300000000", "= 0 timeout quick")
        # With the processes that it started.
        wait(lambda: gone("sleeps"))


def nothing_escapes_its_limit():
    """A process that left the group of its command."""
    escape = LOG + "; setsid sleep 1000 & echo $! >>escaped; "
    add("deaf", "--every 1h --first 0s --timeout 300ms --grace 100ms",
        command=escape + "trap '' TERM; wait; sleep 1000")
    add("polite", "--every 1h --first 0s --timeout 300ms", command=escape + "trap 'exit 3' TERM; wait")

    with Scheduler() as first:
        wait("= 2 timeout", lambda: gone("escaped"))
    # The first one removes the groups of processes that were just killed.
    with Scheduler():
        pass
    groups = f"hwtimer-run-{first.process.pid}-"
    assert not any(name.startswith(groups) for name in os.listdir("/sys/fs/cgroup"))


def runs_are_stopped():
    add("long", "--every 1h --first 0s", command=LOG + "; exec sleep 1000")
    jobs("db", "stop", "long", status=1, says="does not run")
    with Scheduler():
        wait("= 1 started")
        jobs("db", "stop", "long")
        wait("= 1 stopped: status = 128 + 15")
        jobs("db", "stop", "long", status=1, says="does not run")
        jobs("db", "stop", "b", status=1, says="there is no job 'b'")


def failed_runs_are_retried():
    note = "echo ${JOBS_ATTEMPT:-0} $JOBS_DUE >>tries; "
    options = "--every 1d --first 0s --misfire once --backoff 1h --retries "
    add("fails", options + "2", command=note + "exit 1")
    add("recovers", options + "5", command="[ $JOBS_ATTEMPT ]")
    with Scheduler() as scheduler:
        wait("= 2: attempt = 1")
        jobs("db", "resume", "fails")       # which is not paused
        scheduler.kill()
    add("late", options + "1 --timeout 100ms", command="exec sleep 1000")
    # They need not wait for so long.
    sql("UPDATE job SET backoff = 300000000")
    sql("UPDATE run SET due = due - 3599700000000, until = due - 3599700000000 WHERE attempt = 1")
    with Scheduler():
        wait("= 3 done fails: status = 1", "= 2 timeout late", "= 2 done recovers",
             "= 0: state IN ('planned', 'started') AND past")
    check("= 3: name = 'fails'", "= 2: name = 'late'", "= 2: name = 'recovers'",
          "= 1: name = 'recovers' AND status = 0 AND attempt = 1")
    # Each is for the same due time, and later than the one before by twice as much.
    rows = sql("SELECT due, ended FROM run JOIN job ON job.id = job WHERE name = 'fails' ORDER BY due")
    assert [after["due"] - row["ended"] for row, after in zip(rows, rows[1:])] == [3 * S // 10, 6 * S // 10]
    assert read("tries") == "".join(f"{n} {rows[0]['due']}\n" for n in range(3))


def repeated():
    """What was interrupted knows again which try and which event it is."""
    add("alarm", "--at never --again", command=f"echo $JOBS_EVENT $JOBS_OF >>tries; {UNTIL_GO}")
    add("fails", "--every 1h --first 0s --alarm alarm", command="exit 1")
    add("retried", "--every 1h --first 0s --again --retries 1 --backoff 0s",
        command=f"[ $JOBS_ATTEMPT ] || exit 1; echo $JOBS_ATTEMPT >>tries; {UNTIL_GO}")
    for number in 2, 4:
        with Scheduler() as scheduler:
            wait(lambda: read("tries").count("\n") == number)   # pylint: disable=cell-var-from-loop
            if number == 2:
                scheduler.kill()
            go()
    assert sorted(read("tries").split("\n")) == ["", "1", "1", "failure fails", "failure fails"]
    check("= 2: cause = 'again' AND state = 'done' AND status = 0", "= 6: TRUE")


def jobs_follow():
    """What follows from each way in which a run may end."""
    note = "echo $JOBS_NAME $JOBS_EVENT $JOBS_OF $JOBS_OF_STATE $JOBS_OF_STATUS >>notes"
    add("alarm", "--at never --misfire all", command=note)
    first = "--every 1h --first 0s --alarm alarm "
    for name, options, command in (
            ("good", first, "true"), ("bad", first + "--retries 1 --backoff 0s", "exit 3"),
            ("long", first + "--timeout 50ms", "exec sleep 1000"),
            ("stop", first, "exec sleep 1000"), ("gone", first.replace("0s", "-1h"), "true"),
            ("heals", "--every 300ms --alarm alarm", "[ -e go ] || exit 1")):
        add(name, options, command=command)
        for event in "success", "failure", "end":
            if name != "heals":
                add(f"{name}-{event}", f"--after {name}:{event}", command=note)
    # To add so many may take longer than the usual window.
    with Scheduler("--window 1m"):
        wait("= 1 started stop")
        jobs("db", "stop", "stop")
        wait("> 0 done heals: status = 1")
        go()
        wait(lambda: "recovery heals" in read("notes"), "= 1 done stop-end", "= 1 done long-end",
             "= 1 done bad-end", "= 1 done good-end", "> 2 done heals: status = 0",
             "= 0: name = 'alarm' AND state IN ('planned', 'started')")
    notes = read("notes").splitlines()
    heals = [line for line in notes if " heals " in line]
    assert heals == ["alarm failure heals done 1"] * (len(heals) - 1) + ["alarm recovery heals done 0"]
    assert sorted(set(notes) - set(heals)) == sorted((
        "good-success success good done 0", "good-end success good done 0",
        "bad-failure failure bad done 3", "bad-end failure bad done 3", "alarm failure bad done 3",
        "long-failure overrun long timeout 143", "long-end overrun long timeout 143",
        "alarm overrun long timeout 143", "stop-end stopped stop stopped 143",
        "alarm misfire gone missed")), notes
    assert len(notes) == len(set(notes)) + len(heals) - 2


def no_circles():
    for name, options in (("a", "--at never"), ("b", "--after a"), ("c", "--after b:end"),
                          ("d", "--at never --alarm a")):
        add(name, options)
    for name, options in (("a", "--after c"), ("a", "--after a"), ("a", "--at never --alarm a"),
                          ("c", "--after b --alarm d")):
        jobs("db", "change", name, *options.split(), "--", "true", status=1, says="after itself")
    jobs("db", "add", "e", "--after", "none", "--", "true", status=1, says="no such job")
    jobs("db", "change", "c", "--after", "a", "--alarm", "b", "--", "true")


def paused():
    add("often", "--every 100ms")
    add("once", "--every 100ms --misfire once")
    add("other", "--every 100ms")
    with Scheduler("--window 1s"):
        wait("> 2 done often", "> 2 done once")
        for name in "often", "once":
            jobs("db", "pause", name)
        check("= 0: name <> 'other' AND state = 'planned'")
        wait("= 0: name <> 'other' AND state = 'started'")
        ran = count("name <> 'other'")
        due = dict(map(tuple, sql("SELECT name, next FROM job WHERE paused = 1")))
        assert jobs("db", "list").count(" paused ") == 2
        # Meanwhile only what is asked for is run. It is a misfire afterwards if a reading, the one
        # before that which plans it, has begun a window after it was due.
        last = max(due.values()) + 2 * S
        for _ in range(2):
            wait(f"> 0: name = 'other' AND due > {last}")
            last = one("SELECT max(due) FROM run")
        number = int(jobs("db", "start", "often"))
        wait(f"= 1: run.id = {number} AND cause = 'start' AND state = 'done'")
        check(f"= {ran + 1}: name <> 'other'")
        for name in "often", "once":
            jobs("db", "resume", name)
        wait(*(f"> 0 done {name}: due > {last}" for name in due))
    check(f"= 1 missed often: due = {due['often']} AND until - due > 10 * every",
          f"= 1 missed once: due = {due['once']} + every AND until - due > 9 * every",
          f"= 1 done once: due = {due['once']} AND cause = 'misfire'")


def many_that_wait():
    """What was asked for and waits keeps nothing else from being planned."""
    add("slow", "--at never", command=f"{LOG}; {UNTIL_GO}")
    add("tick", "--every 100ms")
    with Scheduler("--window 1s"):
        for _ in range(300):
            jobs("db", "start", "slow")
        done = count("name = 'tick' AND state = 'done'")
        wait(f"> {done + 10} done tick")
        jobs("db", "pause", "slow")
        go()


def changed():
    """While runs are planned, and one waits."""
    write("clock")
    add("a", "--every 100ms", command=f"{LOG}; echo old >>old; {UNTIL_GO}")
    add("b", "--every 1h --first 3s", command="echo old >>old")
    with Scheduler("--window 100s --fast 1"):
        wait("= 1 started")
        add("c", "--every 100ms", command="echo old >>old")
        wait(">= 3 planned a: past", ">= 3 planned c: past", "= 1 planned b")
        jobs("db", "change", "b", "--every", "1h", "--first", "1s", "--", "sh", "-c", LOG)
        jobs("db", "change", "a", "--every", "200ms", "--block", "discard", "--", "sh", "-c", LOG)
        jobs("db", "change", "c", "--every", "1h", "--first", "0s", "--block", "discard", "--", "sh",
             "-c", LOG)
        assert read("old") == "old\n"
        wait("= 1: name = 'c' AND until - due > 1000000000", "> 2 discarded a")
        go()
        wait("> 2 done a: until - due = 200000000", "= 1 done b", "= 0 planned c: past")
    assert read("old") == "old\n"
    check("= 1 done b", "= 1 done c", "= 0 discarded c")


def copied():
    """With all that it has."""
    write("file", 'echo $JOBS_NAME "$1"')
    add("first", "--at never")
    add("other", "--at never")
    jobs("db", "add", "a", "--every", "1h", "--first", "2s", "--misfire", "once", "--block", "cover",
         "--timeout", "1h", "--grace", "1s", "--retries", "2", "--backoff", "3s", "--jitter", "1ms",
         "--after", "first:end", "--alarm", "other", "--script", "file", "--", "two  words")
    # Somebody else writes meanwhile.
    with here["db"].connect() as db:
        db.execute("BEGIN IMMEDIATE")
        copying = subprocess.Popen([JOBS, "db", "copy", "a", "b"])
        wait(lambda: "nanosleep" in read(f"/proc/{copying.pid}/wchan") or copying.poll())
        db.execute("UPDATE job SET every = every + 1")
        db.execute("COMMIT")
    assert copying.wait() == 0
    jobs("db", "copy", "a", "first", status=1, says="there is a job 'first' already")
    a, b = (dict(row) | {"id": 0, "name": ""} for row in sql("SELECT * FROM job WHERE id > 2"))
    assert a == b, (a, b)
    with Scheduler():
        wait("= 2 done")
    assert jobs("db", "output", "b") == "b two  words\n"


def from_end():
    add("a", "--every 300ms --from-end", command=f"{LOG}; sleep 0.2")
    add("fails", "--every 100ms --from-end --retries 1 --backoff 100ms", command="exit 1")
    with Scheduler() as scheduler:
        wait("> 2 done a", "= 1 started a")
        scheduler.kill()
    with Scheduler():
        wait("> 0 interrupted a")
        last = one("SELECT max(run.id) FROM run JOIN job ON job.id = job WHERE name = 'a'")
        wait(f"> 2 done a: run.id > {last}",
             "> 2: name = 'fails' AND attempt = 1 AND state = 'done'")
        jobs("db", "pause", "fails")
        wait("= 0 started fails")
        before = count("name = 'fails'")
        jobs("db", "resume", "fails")
        wait(f"> {before + 2} done fails")
    check("= 0: name = 'a' AND until <> ended + every")
    # The last attempt counts.
    check("= 0: name = 'fails' AND attempt = 0 AND state = 'done' AND until < ended + 2 * every")


def jitter():
    add("a", "--every 100ms --jitter 1s", command="true")
    add("planned", "--every 1d --first 0s --jitter 3650d", command="true")
    with Scheduler() as scheduler:
        wait("> 15 done", "= 1: name = 'planned'")
        scheduler.kill()
    # It is not too late, as long as it might not have been its turn.
    sql("UPDATE job SET next = next - 600000000000 WHERE name = 'planned'")
    sql("UPDATE run SET due = due - 600000000000, until = until - 600000000000 WHERE job = 2")
    add("late", "--every 1d --first -10m --jitter 3650d", command="true")
    with Scheduler():
        wait("> 30 done", "= 1: name = 'late'")
    started = [row["started"] for row in sql("SELECT started FROM run WHERE job = 1 AND "
                                             "started IS NOT NULL ORDER BY due")]
    assert started != sorted(started), "in the order of their due times"
    check("= 2: name <> 'a' AND state = 'planned'", "> 5: started - due > 400000000",
          "= 0: name <> 'a' AND state = 'missed'")


def script():
    """Also without a first line that names its interpreter."""
    write("file", "#!/usr/bin/python3\nimport sys\nprint(sys.argv[1:], __file__ == sys.argv[0])\n")
    jobs("db", "add", "python", "--script", "file", "--at", "never", "--", "-x", "two  words")
    write("file", 'echo "$#" "$2"')
    jobs("db", "add", "shell", "--script", "file", "--at", "never", "--", "-x", "two  words")
    os.remove("file")
    with Scheduler():
        for name in "python", "shell":
            jobs("db", "start", name)
        wait("= 2 done: status = 0")
    assert jobs("db", "output", "python") == "['-x', 'two  words'] True\n"
    assert jobs("db", "output", "shell") == "2 two  words\n"


def output():
    add("long", "--at never", command="echo one; echo \"$(head -c 200000 /dev/zero | tr '\\0' x)\"; "
        "printf 'a\\377\\000b\\n' >&2")
    add("slow", "--at never", command=f"echo begun; {UNTIL_GO}; echo over; sleep 1000 & true")
    add("closes", "--at never", command="exec >&- 2>&-; sleep 0.5")
    # Characters of two bytes, of which each border of what is kept splits one.
    add("utf8", "--at never", command="printf x; head -c 150000 /dev/zero | tr '\\0' y | sed s/y/é/g")
    with Scheduler():
        for name in "long", "slow", "closes", "utf8":
            jobs("db", "start", name)
        wait(lambda: jobs("db", "output", "slow") == "begun\n")
        check("= 1 started slow")
        go()
        wait("= 3 done")
    assert jobs("db", "output", "slow") == "begun\nover\n"
    head, left_out, tail = jobs("db", "output", "utf8").splitlines()
    assert (head, left_out) == ("x" + 32768 * "é", "[... 168929 bytes ...]"), (head[-9:], left_out)
    assert set(tail) == {"é"}, set(tail)
    assert jobs("db", "output", "closes") == ""
    kept = 65536
    whole = "one\n" + "x" * 200000 + "\na\ufffd\ufffdb\n"
    size = len(whole)
    assert jobs("db", "output", "long") == \
        f"{whole[:kept]}\n[... {size - 2 * kept} bytes ...]\n{whole[-kept:]}"
    with Scheduler("--keep 0s"):
        wait(lambda: jobs("db", "output", "long") == "")
    check("= 4: TRUE")


def slow_jobs_have_a_lane():
    add("slow", "--every 30ms", command=f"{LOG}; [ $(grep -c slow log) -le 12 ] || {UNTIL_GO}")
    with Scheduler("--fast 1 --slow 1 --slow-time 0s --slow-within 1h"):
        # The slow lane is full, the fast one is not.
        wait(lambda: holds("= 1 started: lane = 'slow'") and
             holds("= 12 done"))
        add("first", "--every 1h --first 0s", command=f"{LOG}; {UNTIL_GO}")
        wait("= 1 started first: lane = 'fast'")
        # Now the fast lane is full, too.
        add("second", "--every 1h --first 0s")
        wait("= 1 planned second: past", ">= 3 planned slow: past")
        check("= 2 started")
        go()
        wait("= 1 done second", ">= 14 done slow")
    # A job is slow after more than 10 slow runs: 11 runs are in the fast lane.
    lanes = [row["lane"] for row in sql("SELECT lane FROM run JOIN job ON job.id = job WHERE name ="
                                        " 'slow' AND lane IS NOT NULL ORDER BY due")]
    assert lanes == ["fast"] * 11 + ["slow"] * (len(lanes) - 11), lanes
    check("= 0: name <> 'slow' AND lane <> 'fast'")


def quick_jobs_stay_in_theirs():
    add("a", "--every 30ms")
    with Scheduler("--slow-time 1d --slow-runs 0"):
        wait(">= 13 done")
    check("= 0: lane <> 'fast'")


class Clock:
    """The time of day of the schedulers: ahead of the right one by so many seconds."""

    def __init__(self):
        with open("clock", "wb") as file:
            file.write(bytes(8))
        with open("clock", "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 8)
        os.mkfifo("clock.set")
        self.fifo = os.open("clock.set", os.O_RDWR | os.O_CLOEXEC)
        self.env = {"env": os.environ | {"LD_PRELOAD": SHIM, "CLOCK": os.path.abspath("clock")}}

    def set(self, seconds):
        self.memory[:] = struct.pack("q", int(seconds * S))
        os.write(self.fifo, bytes(8))

    def scheduler(self, options=""):
        return Scheduler(options, **self.env)

    def add(self, name, *options):
        add(name, *options, **self.env)


def elapsed_time_counts():
    clock = Clock()
    clock.add("a", "--every 100000s --first 4s")
    with clock.scheduler("--window 10000s"):
        wait("= 1 planned")
        due = one("SELECT due FROM run")
        clock.set(6000)
        wait(lambda: abs((one("SELECT due FROM run") or 0) - due - 6000 * S) < S, "= 1 done")
        check("= 0: cause <> 'due'")
        clock.add("b", "--every 100000s --first 4s")
        wait("= 1 planned b")
        clock.set(1000)
        wait("= 1 done b")
    # The clock is set while no scheduler runs.
    due = one("SELECT next FROM job WHERE name = 'a'")
    clock.set(5000)
    with clock.scheduler("--window 10000s"):
        wait(lambda: abs(one("SELECT next FROM job WHERE name = 'a'") - due - 4000 * S) < S)
    assert "clock was set" in read("scheduler.err")


def both_run(since):
    wait(f">= 2 done cron: run.id > {since}", f">= 2 done every: run.id > {since}")


def clock_is_set_back():
    clock = Clock()
    clock.add("cron", "--cron", "* * * * * *")
    clock.add("every", "--every 500ms")
    with clock.scheduler():
        both_run(0)
        last = one("SELECT max(id) FROM run")
        clock.set(-3600)
        both_run(last)


def clock_was_wrong():
    """The scheduler runs while the clock is wrong, and the machine may be started again."""
    clock = Clock()
    clock.add("cron", "--cron", "* * * * * *")
    clock.add("every", "--every 500ms")
    for boot in ("the same", "another"):
        for seconds in (72 * 365 * 86400, 0):
            last = one("SELECT coalesce(max(id), 0) FROM run")
            clock.set(seconds)
            if boot == "another" and not seconds:
                sql("UPDATE clock SET boot = ?", boot)
            with clock.scheduler():
                wait(f"> 0 done cron: run.id > {last}")
                if not seconds:
                    both_run(last)


def time_zone_is_changed():
    def link(zone):
        os.symlink(f"/usr/share/zoneinfo/Etc/{zone}", "/etc/localtime.new")
        os.rename("/etc/localtime.new", "/etc/localtime")

    def due():
        return one("SELECT next / 1000000000 % 86400 FROM job") // 3600
    link("UTC")
    add("a", "--cron", "0 12 * * *")
    assert due() == 12
    # Changed before the scheduler begins, and while it runs.
    link("GMT-1")
    with Scheduler():
        wait(lambda: due() == 11)
        link("GMT-3")
        wait(lambda: due() == 9)
    link("UTC")


def its_own_delay_is_no_misfire():
    """The scheduler is late, because the database was locked for longer than the window."""
    add("a", "--every 1d --first 2s")
    with Scheduler("--window 200ms"):
        with contextlib.closing(sqlite3.connect("db", isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            time.sleep(3)
        wait("= 1 done: cause IN ('due', 'late')")


def disk_is_full():
    """The scheduler ends, because it must start nothing that it cannot record."""
    outside = os.path.abspath("..")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "disk", "."], check=True)
    os.chdir(os.getcwd())
    for name in "log", "scheduler.err":
        os.symlink(f"{outside}/full.{name}", name)
    add("a", "--every 100ms")
    with Scheduler() as scheduler:
        wait("> 2 done")
        with open("rest", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        assert scheduler.ended() == 1
        assert "disk" in read("scheduler.err"), read("scheduler.err")
        os.remove("rest")
    before = count("state = 'done'")
    with Scheduler():
        wait(f"> {before + 2} done")


def jobs_come_and_go():
    add("a", "--every 100ms", command="true")
    with Scheduler("--window 1s"):
        wait("> 0 done")
        jobs("db", "remove", "a")
        check("= 0: TRUE")
        add("b", "--every 100ms")
        wait(">= 3 done")
        check("= 0: name <> 'b'")
        # Only one scheduler at a time.
        os.symlink("db", "link")
        for name in "db", "link":
            jobs(name, "run", status=1, says="another scheduler has it, process")
    jobs("db", "list")


def added_at_once():
    """All of them create the database."""
    for _ in range(10):
        adding = [subprocess.Popen([JOBS, "db", "add", f"job{i}", "--every", "1h", "--", "true"])
                  for i in range(12)]
        assert [process.wait() for process in adding] == [0] * 12
        assert one("SELECT count(*) FROM job") == 12
        os.remove("db")


SECOND = ["--every", "1s", "--", "true"]
WRONG = (   # status, a part of the message, arguments
    (2, "missing", ["db"]),
    (2, "'nosuch'", ["db", "nosuch"]),
    (2, "NAME", ["db", "add"]),
    (2, "either --cron, --every or --at", ["db", "add", "a", "--", "true"]),
    (2, "no COMMAND", ["db", "add", "a", "--every", "1s"]),
    (2, "--every takes a time", ["db", "add", "a", "--every", "9ms", "--", "true"]),
    (2, "--tags takes TAG[,TAG]...", ["db", "add", "a", "--every", "1s", "--tags", "x, y", "--", "true"]),
    (2, "--tags takes TAG[,TAG]...", ["db", "executor", "--tags", "x,,y"]),
    (2, "--every takes a time", ["db", "add", "a", "--every", "5", "--", "true"]),
    (2, "hours: they are", ["db", "add", "a", "--cron", "0 24 * * *", "--", "true"]),
    (2, "5 fields, 6", ["db", "add", "a", "--cron", "* * *", "--", "true"]),
    (2, "never due", ["db", "add", "a", "--cron", "0 0 30 feb *", "--", "true"]),
    (2, "no time zone 'X'", ["db", "add", "a", "--cron", "TZ=X @daily", "--", "true"]),
    (2, "not both", ["db", "add", "a", "--timezone", "UTC", "--cron", "TZ=UTC @daily", "--", "true"]),
    (2, "is for --cron", ["db", "add", "a", "--timezone", "UTC", *SECOND]),
    (2, "--at takes a date", ["db", "add", "a", "--at", "tomorrow", "--", "true"]),
    (2, "not both", ["db", "add", "a", "--at", "2099-01-01 00:00", "--first", "1s", "--", "true"]),
    (2, "--from-end is for", ["db", "add", "a", "--from-end", "--cron", "@daily", "--", "true"]),
    (2, "'maybe'", ["db", "add", "a", "--after", "b:maybe", "--", "true"]),
    (2, "--retries takes", ["db", "add", "a", "--retries", "11", *SECOND]),
    (2, "No such file", ["db", "add", "a", "--script", "none", *SECOND]),
    (2, "no text", ["db", "add", "a", "--script", "/bin/true", *SECOND]),
    (2, "'thrice'", ["db", "add", "a", "--misfire", "thrice", *SECOND]),
    (2, "--timeout takes", ["db", "add", "a", "--timeout", "0s", *SECOND]),
    (2, "'wall'", ["db", "add", "a", "--block", "wall", *SECOND]),
    (2, "--fast", ["db", "run", "--fast", "0"]),
    (2, "--window", ["db", "run", "--window", "soon"]),
    (1, "db: No such file", ["db", "list"]),
    (1, "db: No such file", ["db", "run"]),
    (1, "No such file", ["no/such/db", "add", "a", *SECOND]),
    (1, "'' is not the name of a file", ["", "add", "a", *SECOND]),
    (1, "not the name of a file", [":memory:", "add", "a", *SECOND]),
    (1, "not the name", ["file:a?mode=memory", "add", "a", *SECOND]),
    (1, "directory", [".", "add", "a", *SECOND]),
    (1, "not a database", ["text", "list"]),
    (1, "not a database", ["text", "add", "a", *SECOND]),
)


def says_what_is_wrong():
    write("text", "what\n")
    for status, part, words in WRONG:
        jobs(*words, status=status, says=part)
    assert not os.path.exists("db"), "one of these made a database"
    add("a", "--every 1h")
    jobs("db", "add", "a", *SECOND, status=1, says="there is a job 'a' already")
    for verb in "remove", "log", "pause", "resume", "start", "output":
        jobs("db", verb, "b", status=1, says="there is no job 'b'")
    # Control characters; the same as one character, and others that begin and end alike.
    for name, shown in (("c\33]0;", "c?]0; "), ("c\x9d0;\xa0\xdd", "c??0;\xa0\xdd ")):
        jobs("db", "add", name, *SECOND)
        assert "\n" + shown in jobs("db", "list"), shown
        jobs("db", "remove", name)
    version = one("PRAGMA user_version")
    sql("PRAGMA user_version = 99")
    jobs("db", "list", status=1, says="db: these tables were made by another version")
    jobs("db", "add", "c", *SECOND, status=1, says="another version")
    sql(f"PRAGMA user_version = {version}")
    # A database that another user may read, but not write.
    os.chmod(".", 0o755)
    for words in ["add", "b", *SECOND], ["run"]:
        jobs("db", *words, status=1, says="no right to write", **USER)
    with open("/dev/full", "w", encoding="ascii") as full:
        jobs("db", "list", status=1, says="standard output", stdout=full)
    assert one("SELECT count(*) FROM job") == 1


def manual_is_complete():
    with open(MANUAL, encoding="utf-8") as file:
        page = file.read().replace("\\", "")
    words = set(re.findall(r"--[a-z][a-z-]+|(?<=^  )[a-z]+(?= )", jobs("--help"), re.M))
    assert len(words) > 40 and not [word for word in words if not re.search(rf"{word}\b", page)], words


TESTS = [fixed_rate, how_commands_end, signals_are_ignored, kills, late_early_and_missed,
         planned_and_too_late, due_once, serial_runs_wait, serial_runs_are_bounded,
         follow_ups_are_bounded, later_runs_are_discarded, earlier_runs_are_covered, runs_have_a_limit,
         nothing_escapes_its_limit, runs_are_stopped, slow_jobs_have_a_lane,
         quick_jobs_stay_in_theirs, elapsed_time_counts, clock_is_set_back, clock_was_wrong,
         time_zone_is_changed, its_own_delay_is_no_misfire, failed_runs_are_retried, repeated,
         jobs_follow, no_circles, paused, many_that_wait, changed, copied, from_end, jitter, script,
         output, disk_is_full, jobs_come_and_go, added_at_once, manual_is_complete,
         says_what_is_wrong]


def main():
    shutil.copytree("/etc", "etc", symlinks=True)   # /etc/localtime is to be changed
    subprocess.run(["mount", "--bind", "etc", "/etc"], check=True)
    common.use_control_groups()
    common.main(TESTS, sys.argv[3:])


if __name__ == "__main__":
    main()
