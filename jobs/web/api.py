# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""The API: jobs as JSON, for programs with a token."""
import flask

import edit
import users
from store import Problem

RUNS = 10           # of a job's status
HIDDEN = ("id", "zone", "first", "steps", "version", "owner")
api = flask.Blueprint("api", __name__)


def body(*more):
    """What was sent: options of "add" as strings, or as true or false, and the command as a list."""
    sent = flask.request.get_json()
    kinds = dict.fromkeys(("script", *more), str) | {
        option: bool if kind is True else str for option, kind in edit.OPTIONS.items()}
    command = sent.pop("command", None) if isinstance(sent, dict) else None
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise Problem(400, "This takes an object whose command is a list of strings.")
    for name, value in sent.items():
        if name not in kinds:
            raise Problem(400, f"There is no '{name}'.")
        if not isinstance(value, kinds[name]):
            raise Problem(400, f"'{name}' is not of type {kinds[name].__name__}.")
    return sent | {"command": command}


def execute(verb, name, sent=None):
    """Returns what the program prints."""
    error, printed = edit.execute(verb, name, sent or {}, sent["command"] if sent else [])
    if error:
        raise Problem(400, error)
    return printed


@api.post("/api/jobs")
def create():
    users.check_writer()
    sent = body("name")
    execute("add", sent.get("name", ""), sent)
    return status(sent["name"]), 201


@api.put("/api/jobs/<path:name>")
def change(name):
    users.check_writer()
    execute("change", name, body())
    return status(name)


@api.delete("/api/jobs/<path:name>")
def remove(name):
    users.check_writer()
    execute("remove", name)
    return "", 204


@api.post(f"/api/jobs/<path:name>/<any({', '.join(edit.ACTIONS)}):verb>")
def act(name, verb):
    """What is started gets an id, which its row has."""
    users.check_writer()
    printed = execute(verb, name)
    return {"run": int(printed)} if verb == "start" else status(name)


@api.get(f"/api/runs/<int(max={2 ** 63 - 1}):ident>")
def run_status(ident):
    with flask.current_app.config["STORE"].open() as db:
        found = db("SELECT run.id, name AS job, due, cause, state, lane, started, took, status "
                   "FROM run JOIN job ON job.id = run.job WHERE run.id = %s", ident)
        if not found:
            raise Problem(404, f"There is no run {ident}.")
        output = db("SELECT size, head, tail FROM output WHERE run = %s", ident)
    run = dict(found[0])
    if flask.g.user["writes"]:      # who may not see commands may not see what they print, either
        run["output"] = dict(output[0]) if output else None
    return run


@api.get("/api/jobs/<path:name>")
def status(name):
    """Times are in ns since 1970, periods in ns."""
    store = flask.current_app.config["STORE"]
    with store.open() as db:
        found = db("SELECT * FROM job WHERE name = CAST(%s AS TEXT)", store.text(name))
        if not found:
            raise Problem(404, f"There is no job '{name}'.")
        job = dict(found[0])
        ident, job["timezone"] = job["id"], job["zone"]
        for column in HIDDEN:
            job.pop(column, None)
        job["runs"] = [dict(run) for run in db(
            "SELECT id, due, cause, state, lane, started, took, status FROM run WHERE job = %s "
            "ORDER BY due DESC, id DESC LIMIT %s", ident, RUNS)]
        if flask.g.user["writes"]:
            job["script"], job["command"] = edit.command_of(db, ident)
    return job
