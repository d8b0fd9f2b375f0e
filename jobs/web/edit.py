# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Changes of jobs. hwtimer-jobs makes and checks them, and a log says who made them."""
import datetime
import os
import shlex
import subprocess
import time
from zoneinfo import ZoneInfo

import flask

import show
from store import Problem

OPTIONS = {"cron": "[seconds] minutes hours day month weekday [year]", "every": "as 90s, 15m, 1h",
           "at": "once, as 2027-01-31 13:00", "timezone": "as Europe/Berlin, with cron or at",
           "first": "from now, as 10m", "timeout": "a run that takes longer is ended",
           "grace": "from SIGTERM to SIGKILL; 10s", "dst": ("once", "clock"),
           "misfire": ("nothing", "once", "all"), "block": ("serial", "discard", "cover")}
CHANGE_S = 60       # hwtimer-jobs waits as long for a lock


def time_of(ns):
    """As hwtimer-jobs takes it."""
    return show.every(ns).replace(" ", "").replace("min", "m") if ns is not None else None


def date(ns, zone):
    return f"{datetime.datetime.fromtimestamp(ns // show.SECOND, zone and ZoneInfo(zone)):%F %T}"


def form_of(job, argv):
    """What a form shows of a job. Browsers would change other bytes than text."""
    if not job:
        return {}
    command = shlex.join(argv)
    if "\r" in command or any("\ud800" <= c <= "\udfff" for c in command):
        raise Problem(409, "This command has bytes that a form cannot show: use hwtimer-jobs.")
    once = job["next"] if not job["cron"] and not job["every"] else None
    return {"cron": job["cron"], "every": time_of(job["every"]),
            "at": once and date(once, job["zone"]), "timezone": job["zone"],
            "timeout": time_of(job["timeout"]), "grace": time_of(job["grace"]), "dst": job["dst"],
            "misfire": job["misfire"], "block": job["block"], "command": command}


def change(verb, name, form):
    """Returns what is wrong, or None."""
    try:
        command = shlex.split(form.get("command", "").replace("\r\n", "\n"))
    except ValueError as error:
        return f"The command cannot be understood: {error}."
    return execute(verb, name, form, command)


def execute(verb, name, options, command):
    store = flask.current_app.config["STORE"]
    arguments = [f"--{option}={options[option]}" for option in OPTIONS if options.get(option)]
    arguments += ["--", *command] if verb != "remove" else []
    try:
        if b"\0" in os.fsencode("".join([name, *arguments])):
            return "A zero byte is in no job."
    except UnicodeEncodeError:
        return "This is no text."
    # Before the change, so that none is without a line in the log.
    with store.open(write=True) as db:
        line = db("INSERT INTO web_change (at, who, job, verb, detail, error) VALUES (%s, %s, "
                  "CAST(%s AS TEXT), %s, CAST(%s AS TEXT), 'not known') RETURNING id",
                  time.time_ns(), flask.g.user["name"], store.text(name), verb,
                  store.text(shlex.join(arguments)))[0][0]
    try:
        done = subprocess.run(["hwtimer-jobs", store.name, verb, name, *arguments], timeout=CHANGE_S,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        error = done.stderr.decode(errors="replace").partition("\n")[0] if done.returncode else None
    except subprocess.TimeoutExpired:
        error = f"This took longer than {CHANGE_S} s, and was given up."
    except OSError as problem:
        error = f"hwtimer-jobs cannot be run: {problem.strerror}"
    with store.open(write=True) as db:
        db("UPDATE web_change SET error = CAST(%s AS TEXT) WHERE id = %s",
           error and store.text(error), line)
    return error
