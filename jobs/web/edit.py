# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Changes of jobs. hwtimer-jobs makes and checks them, and a log says who made them."""
import datetime
import os
import shlex
import subprocess
import tempfile
import time
from zoneinfo import ZoneInfo

import flask

import show
from store import Problem

# Of "add": what a text is, the words to choose from, or True: yes or no.
OPTIONS = {"cron": "[seconds] minutes hours day month weekday [year]", "every": "as 90s, 15m, 1h",
           "from-end": True, "at": "once, as 2027-01-31 13:00, or never",
           "after": "when that job has ended: JOB[:success|failure|end]",
           "timezone": "as Europe/Berlin, with cron or at", "first": "from now, as 10m",
           "jitter": "begins later by up to this", "timeout": "a run that takes longer is ended",
           "grace": "from SIGTERM to SIGKILL; 10s", "retries": "of runs that fail; 0",
           "backoff": "before the first retry; 10s", "alarm": "a job to be run if this one fails",
           "dst": ("once", "clock"), "misfire": ("nothing", "once", "all"),
           "block": ("serial", "discard", "cover"),
           "route": ("", "first", "last", "round-robin", "random", "hash", "lfu", "lru", "failover",
                     "busyover"),
           "tags": "of its executors, as gpu,eu", "broadcast": True, "again": True}
ACTIONS = ("start", "stop", "pause", "resume")     # need no more than a name
CHANGE_S = 60       # hwtimer-jobs waits as long for a lock


def time_of(ns):
    """As hwtimer-jobs takes it."""
    return show.every(ns).replace(" ", "").replace("min", "m") if ns is not None else None


def date(ns, zone):
    return f"{datetime.datetime.fromtimestamp(ns // show.SECOND, zone and ZoneInfo(zone)):%F %T}"


def command_of(db, job):
    """The script of a job, or None, and its command."""
    found = db("SELECT position, value FROM argument WHERE job = %s ORDER BY position", job)
    return (next((value for position, value in found if position < 0), None),
            [value for position, value in found if position >= 0])


def form_of(job, script, argv):
    """What a form shows of a job. Browsers would change other bytes than text."""
    if not job:
        return {}
    command = shlex.join(argv[1:] if script else argv)
    if any(c == "\r" or "\ud800" <= c <= "\udfff" for c in command + (script or "")):
        raise Problem(409, "This command has bytes that a form cannot show: use hwtimer-jobs.")
    due = "never" if not job["next"] else date(job["next"], job["zone"])
    broadcast = job["route"] == "broadcast"
    times = {option: time_of(job[option])
             for option in ("every", "timeout", "grace", "jitter", "backoff")}
    return {**dict(job), **times, "timezone": job["zone"], "from-end": job["from_end"],
            "at": None if job["cron"] or job["every"] or (job["after_job"] and not job["next"])
            else due,
            "after": job["after_job"] and f"{job['after_job']}:{job['after_state']}", "first": None,
            "route": "" if broadcast else job["route"], "broadcast": broadcast,
            "script": script, "command": command}


def change(verb, name, form):
    """Returns what is wrong, or None."""
    try:
        command = shlex.split(form.get("command", "").replace("\r\n", "\n"))
    except ValueError as error:
        return f"The command cannot be understood: {error}."
    return execute(verb, name, form, command)[0]


def execute(verb, name, options, command):
    """Returns what is wrong, or None, and what the program prints."""
    store = flask.current_app.config["STORE"]
    arguments = [f"--{option}" if kind is True else f"--{option}={options[option]}"
                 for option, kind in OPTIONS.items() if options.get(option)]
    arguments += ["--", *command] if verb in ("add", "change") else []
    script = (options.get("script") or "").replace("\r\n", "\n")
    shown = [f"--script={script}", *arguments] if script else arguments
    try:
        if b"\0" in os.fsencode("".join([name, *shown])):
            return "A zero byte is in no job.", ""
    except UnicodeEncodeError:
        return "This is no text.", ""
    printed = ""
    # Before the change, so that none is without a line in the log.
    with store.open(write=True) as db:
        line = db("INSERT INTO web_change (at, who, job, verb, detail, error) VALUES (%s, %s, "
                  "CAST(%s AS TEXT), %s, CAST(%s AS TEXT), 'not known') RETURNING id",
                  time.time_ns(), flask.g.user["name"], store.text(name), verb,
                  store.text(shlex.join(shown)))[0][0]
    try:
        with tempfile.TemporaryDirectory() as directory:
            if script:
                arguments.insert(0, f"--script={directory}/script")
                with open(f"{directory}/script", "w", errors="surrogateescape") as file:
                    file.write(script)
            done = subprocess.run(["hwtimer-jobs", store.name, verb, name, *arguments],
                                  timeout=CHANGE_S, stdin=subprocess.DEVNULL, capture_output=True,
                                  check=False)
        printed = done.stdout.decode(errors="replace")
        error = done.stderr.decode(errors="replace").partition("\n")[0] if done.returncode else None
    except subprocess.TimeoutExpired:
        error = f"This took longer than {CHANGE_S} s, and was given up."
    except OSError as problem:
        error = f"hwtimer-jobs cannot be run: {problem.strerror}"
    with store.open(write=True) as db:
        db("UPDATE web_change SET error = CAST(%s AS TEXT) WHERE id = %s",
           error and store.text(error), line)
    return error, printed
