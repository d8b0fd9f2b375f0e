# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of jobs share: the database, processes, what has to agree at the end, and TAP."""
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
# What commands log: that they began (b), and ended (e). NODE: which executor it was.
LOG = "echo b $JOBS_NAME $JOBS_DUE $JOBS_INDEX $JOBS_TOTAL ${NODE-s} $$ >>log"
END = LOG.replace(" b ", " e ")
UNTIL_GO = "until [ -e go ]; do sleep 0.05; done"
Line = collections.namedtuple("Line", "name due index total who pid")
SEED = os.environ.get("SEED", str(time.time_ns()))
RANDOM = random.Random(SEED)
JOBS = os.path.abspath(sys.argv[1]) if sys.argv[1:] else ""


class Sqlite:
    """The database of a case, in its directory, or another one."""
    path = "db"

    def name(self):
        return self.path

    def connect(self):
        db = sqlite3.connect(self.path, isolation_level=None, timeout=PATIENCE_S)
        db.row_factory = sqlite3.Row
        return contextlib.closing(db)

    def query(self, text, values=()):
        with self.connect() as db:
            return db.execute(text.replace("%s", "?"), values).fetchall()

    def now(self):
        return time.time_ns()


here = {"db": Sqlite()}     # and the processes that run


def sql(text, *values):
    return here["db"].query(text, values)


def one(text):
    rows = sql(text)
    return rows[0][0] if rows else None


def count(where="TRUE"):
    return one(f"SELECT count(*) FROM run JOIN job ON job.id = run.job WHERE {where}")


def holds(condition):
    """"> 3 done tick: WHERE" is about the number of rows of the log that are in this state, if
    there is one, of this job, and to which this applies; "past" are those whose time has come."""
    compared, number, state, name, where = re.fullmatch(
        r"([<>=]+) (\d+)(?: (\w+))?(?: ([^ :]+))?(?:: (.*))?", condition, re.S).groups()
    where = f"({where})" if where else "TRUE"
    where = where.replace("past", f"run.due <= {here['db'].now()}")
    where += f" AND state = '{state}'" if state else ""
    where += f" AND name = '{name}'" if name else ""
    return OPERATORS[compared](count(where), int(number))


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


def write(name, text=""):
    with open(name, "w", encoding="ascii") as file:
        file.write(text)


def go():
    """What commands with UNTIL_GO wait for."""
    write("go")


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
    """A running scheduler, whose output is in files with its name. When a case leaves it, it has to
    end by SIGTERM, and the books to balance."""

    def __init__(self, options="", name="scheduler", database=None, before=(), verb=("run",),
                 says="running", **process):
        self.output = f"{name}.err"
        with open(f"{name}.out", "wb") as out, open(self.output, "ab") as err:
            self.process = subprocess.Popen(
                [*before, JOBS, database or here["db"].name(), *verb, *options.split()],
                **{"stdout": out, "stderr": err} | process)
        here["running"].append(self)
        if says:
            wait(lambda: says in read(out.name) or self.process.poll() is not None)

    def says(self, words):
        wait(lambda: words in read(self.output))

    def send(self, number):
        self.process.send_signal(number)

    def ended(self):
        return self.process.wait(PATIENCE_S)

    def end(self, number=signal.SIGTERM):
        self.send(number)
        return self.ended()

    def kill(self):
        assert self.end(signal.SIGKILL) == -signal.SIGKILL, read(self.output)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None and self.process.returncode is None:
            assert self.end() == 0, read(self.output)
        if kind is None and all(other.process.poll() is not None for other in here["running"]):
            check_books()


def logged(what="b"):
    """What commands have logged."""
    lines = [line.split(" ") for line in read("log").splitlines()]
    return [Line(name, int(due), int(index), *rest) for kind, name, due, index, *rest in lines
            if kind == what]


def check_books():
    """What holds whenever nobody runs: each command has a row that says so, and each row its
    command, unless it was interrupted; the rows of a job form a chain."""
    begun, ended = (collections.Counter((line.name, line.due, line.index, line.who)
                                        for line in logged(what)) for what in "be")
    started, again, last, over, seen = collections.Counter(), collections.Counter(), {}, {}, set()
    # If so, due times need not be as they were planned, or as the job says now.
    moved = os.path.exists("clock")
    rows = [dict(row) for row in sql("SELECT run.*, name, every, from_end FROM run JOIN job "
                                     "ON job.id = run.job ORDER BY run.id")]
    for about in rows:
        who, due, state, done = (about[column] for column in ("name", "due", "state", "ended"))
        key = (who, about["origin"] or due, about.get("shard", 0),
               re.sub(".*:.*", "s", about.get("executor") or "s"))
        span, began = (about["until"] or 0) - due, about["started"] is not None
        # The rows of a job are contiguous, up to its next due time, but for what was asked for.
        if span:
            assert last.get(who, due) == due, about
            last[who] = about["until"]
        if span and not moved:
            assert (who, due) not in seen, about
            seen.add((who, due))
            # A row is for one due time, except for missed ones.
            assert not about["every"] or span == about["every"] or about["from_end"] or \
                (state == "missed" and not span % about["every"]), about
            assert done is None or done >= max(about["started"] or 0, due), about
        # Nothing is early. Each state has the columns that belong to it, and no others.
        assert not began or about["started"] >= due, about
        assert began or state not in ("done", "started", "interrupted"), about
        assert not began or state not in ("planned", "discarded", "missed"), about
        assert state != "done" or None not in (about["status"], done), about
        if state == "done" and not about["status"]:
            assert (begun[key] or not begun) and (ended[key] or not ended), about
        started[key] += began
        again[key] += about["cause"] in ("again", "retry")
    for row in sql("SELECT name, next FROM job"):
        assert last.get(row["name"], row["next"]) == row["next"], tuple(row)
    for about in sorted(rows, key=lambda row: row["started"] or 0):
        # Runs of a job do not overlap, but for shards.
        if about["started"] is not None and not moved and (about.get("shards") or 1) == 1:
            assert (over.get(about["name"]) or 0) <= about["started"], about
            over[about["name"]] = about["ended"]
    for key, number in begun.items():
        assert number <= min(started[key], 1 + again[key]), (key, number, started[key], again[key])


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
        output = [line for process in here["running"] for line in
                  (f"{process.output}: {process.process.poll()}",
                   *read(process.output).splitlines()[-20:])]
        print("".join(f"# {line}\n" for line in
                      [*traceback.format_exc().splitlines(), *output]), end="")
        return False
    finally:
        for process in here["running"]:
            if process.process.poll() is None:
                process.send(signal.SIGCONT)
                process.end(signal.SIGKILL)
        os.chdir("..")


def use_control_groups():
    """Those of version 2 are where they should be. This needs a mount namespace."""
    if os.path.exists("/sys/fs/cgroup/unified/cgroup.procs"):
        subprocess.run(["mount", "--bind", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"], check=True)


def main(tests, wanted):
    """Run functions, or pairs of a name and a function, that are wanted, or all of them."""
    for name in "TZ", "PGPASSWORD":
        os.environ.pop(name, None)
    tests = [test if isinstance(test, tuple) else (test.__name__, test) for test in tests]
    tests = [(name, test) for name, test in tests if name in wanted or not wanted]
    print(f"# SEED={SEED}\n1..{len(tests)}", flush=True)
    for number, (name, test) in enumerate(tests, 1):
        print(f"{'ok' if run_test(test) else 'not ok'} {number} {name}", flush=True)
