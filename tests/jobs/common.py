# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of jobs share: the database, schedulers, what has to agree at the end, and TAP."""
import collections
import contextlib
import operator
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback

S = 10 ** 9
PATIENCE_S = 90     # far more than a busy machine needs
OPERATORS = {"=": operator.eq, "<": operator.lt, ">": operator.gt, "<=": operator.le,
             ">=": operator.ge}
# What commands log: that they began (b), and ended (e), for this due time of this job.
LOG = "echo b $JOBS_NAME $JOBS_DUE $$ >>log"
END = "echo e $JOBS_NAME $JOBS_DUE $$ >>log"
UNTIL_GO = "until [ -e go ]; do sleep 0.05; done"
SEED = os.environ.get("SEED", str(time.time_ns()))
RANDOM = random.Random(SEED)
JOBS = os.path.abspath(sys.argv[1]) if sys.argv[1:] else ""


class Sqlite:
    """The database of a case, in its directory."""
    def name(self, _=None):
        return "db"

    def query(self, text, values):
        with contextlib.closing(sqlite3.connect("db", isolation_level=None,
                                                timeout=PATIENCE_S)) as db:
            db.row_factory = sqlite3.Row
            return db.execute(text, values).fetchall()

    def now(self):
        return time.time_ns()


here = {"db": Sqlite()}     # and the schedulers that run


def sql(text, *values):
    return here["db"].query(text, values)


def one(text):
    rows = sql(text)
    return rows[0][0] if rows else None


def count(where="TRUE"):
    return one(f"SELECT count(*) FROM run JOIN job ON job.id = run.job WHERE {where}")


def holds(condition):
    """"> 3: WHERE" is about the number of such rows of the log; "past" are those whose time has
    come."""
    found = re.fullmatch(r"([<>=]+) (\d+): (.*)", condition, re.S)
    where = found[3].replace("past", f"run.due <= {here['db'].now()}")
    return OPERATORS[found[1]](count(where), int(found[2]))


def check(*conditions):
    for condition in conditions:
        assert holds(condition), (condition, [tuple(row) for row in sql("SELECT * FROM run")])


def wait(*conditions):
    for condition in conditions:
        end = time.monotonic() + PATIENCE_S
        while not (condition() if callable(condition) else holds(condition)):
            assert time.monotonic() < end, condition
            time.sleep(0.02)


def read(name):
    with contextlib.suppress(FileNotFoundError), open(name, encoding="utf-8") as file:
        return file.read()
    return ""


def jobs(*words, status=0, says="", **options):
    """Run the program on the database: returns what it prints."""
    words = [here["db"].name() if word == "db" else word for word in words]
    done = subprocess.run([JOBS, *words], check=False, encoding="utf-8", errors="surrogateescape",
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options)
    assert done.returncode == status and says in done.stderr, (words, done.returncode, done.stderr)
    return done.stdout


def add(name, options, *more, command=LOG, **process):
    """With a command for a shell, in which LOG logs the due time."""
    jobs("db", "add", name, *options.split(), *more, "--", "sh", "-c", command, **process)


class Scheduler:
    """A running scheduler, whose output is in files with its number. When a case leaves it, it has
    to end by SIGTERM, and the books to balance."""

    def __init__(self, options="", number="", wait_for="running;", database=None, **process):
        self.output = f"scheduler{number}.err"
        with open(f"scheduler{number}.out", "wb") as out, open(self.output, "ab") as err:
            self.process = subprocess.Popen(
                [JOBS, database or here["db"].name(number), "run", *options.split()],
                **{"stdout": out, "stderr": err} | process)
        here.setdefault("running", []).append(self)
        if wait_for:
            wait(lambda: wait_for in read(out.name) or self.process.poll() is not None)

    def says(self, words):
        wait(lambda: words in read(self.output))

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def kill(self):
        assert self.end(signal.SIGKILL) == -signal.SIGKILL, read(self.output)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None and self.process.returncode is None:
            assert self.end() == 0, read(self.output)
        if kind is None and all(other.process.poll() is not None for other in here["running"]):
            check_books()


def logged(what):
    """A number for each name and due time that commands have logged."""
    return collections.Counter((name, int(due)) for kind, name, due, _ in
                               (line.split(" ") for line in read("log").splitlines()) if kind == what)


def check_books():
    """What holds whenever no scheduler runs."""
    begun, last, ended, seen = logged("b"), {}, {}, set()
    # If so, due times need not be as they were planned, or as the job says now.
    moved = os.path.exists("clock")
    rows = sql("SELECT run.*, name, every, next, from_end FROM run JOIN job ON job.id = run.job "
               "ORDER BY run.id")
    for row in rows:
        who, key, state = row["name"], (row["name"], row["due"]), row["state"]
        about, span = tuple(row), (row["until"] or 0) - row["due"]
        # The rows of a job are contiguous, up to its next due time, but for what was asked for.
        chain = row["until"] != row["due"]
        if chain:
            assert last.get(who, row["due"]) == row["due"], about
            last[who] = row["until"]
        if not moved and chain:
            assert key not in seen, about
            # A row is for one due time, except for missed ones.
            assert not row["every"] or span == row["every"] or row["from_end"] or \
                (state == "missed" and not span % row["every"]), about
            assert row["ended"] is None or row["ended"] >= max(row["started"] or 0, row["due"]), about
        seen.add(key)
        # Nothing is early. Each state has the columns that belong to it, and no others.
        started = row["started"] is not None
        assert not started or row["started"] >= row["due"], about
        assert started or state not in ("done", "started", "interrupted"), about
        assert not started or state not in ("planned", "discarded", "missed"), about
        assert state != "done" or None not in (row["status"], row["ended"]), about
        assert started or not begun[key], about
        assert state != "done" or row["status"] or begun[key] or not begun, about
    for row in sql("SELECT name, next FROM job"):
        assert last.get(row["name"], row["next"]) == row["next"], tuple(row)
    for row in sorted(rows, key=lambda row: row["started"] or 0):
        if row["started"] is not None and not moved:    # runs of a job do not overlap
            assert (ended.get(row["name"]) or 0) <= row["started"], tuple(row)
            ended[row["name"]] = row["ended"]
    assert set(begun) <= seen and set(begun.values()) <= {1}, begun - collections.Counter(seen)


def run_test(test):
    """Returns whether it succeeds, in a directory of its own."""
    home = tempfile.mkdtemp(dir=".")
    os.chmod(home, 0o755)
    os.chdir(home)
    here["running"] = []
    try:
        test()
        return True
    except Exception:
        output = [line for scheduler in here["running"] for line in
                  (f"{scheduler.output}:", *read(scheduler.output).splitlines()[-20:])]
        print("".join(f"# {line}\n" for line in
                      [*traceback.format_exc().splitlines(), *output]), end="")
        return False
    finally:
        for scheduler in here["running"]:
            if scheduler.process.poll() is None:
                scheduler.process.send_signal(signal.SIGCONT)
                scheduler.end(signal.SIGKILL)
        os.chdir("..")


def use_control_groups():
    """Those of version 2 are where they should be. This needs a mount namespace."""
    if os.path.exists("/sys/fs/cgroup/unified/cgroup.procs"):
        subprocess.run(["mount", "--bind", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"], check=True)


def main(tests, wanted):
    for name in "TZ", "PGPASSWORD":
        os.environ.pop(name, None)
    tests = [test for test in tests if test.__name__ in wanted or not wanted]
    print(f"# SEED={SEED}\n1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        print(f"{'ok' if run_test(test) else 'not ok'} {number} {test.__name__}", flush=True)
