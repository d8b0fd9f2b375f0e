# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""The API: jobs as JSON, for programs with a token."""
import flask

import edit
import users
from store import Problem

RUNS = 10           # of a job's status
api = flask.Blueprint("api", __name__)


def body(*more):
    """What was sent: options of "add" as strings, and the command as a list of them."""
    sent = flask.request.get_json()
    command = sent.get("command") if isinstance(sent, dict) else None
    if not isinstance(command, list) or not all(isinstance(word, str) for word in
                                                [*command, *sent.values()] if word is not command):
        raise Problem(400, "This takes an object of strings, whose command is a list of strings.")
    unknown = set(sent) - {"command", *edit.OPTIONS, *more}
    if unknown:
        raise Problem(400, f"There is no '{sorted(unknown)[0]}'.")
    return sent


def execute(verb, name, sent):
    error = edit.execute(verb, name, sent, sent["command"])
    if error:
        raise Problem(400, error)


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


@api.get("/api/jobs/<path:name>")
def status(name):
    """Times are in ns since 1970, periods in ns."""
    store = flask.current_app.config["STORE"]
    with store.open() as db:
        found = db("SELECT id, name, cron, every, zone AS timezone, dst, misfire, block, next, "
                   "timeout, grace "
                   "FROM job WHERE name = CAST(%s AS TEXT)", store.text(name))
        if not found:
            raise Problem(404, f"There is no job '{name}'.")
        job = dict(found[0])
        ident = job.pop("id")
        job["runs"] = [dict(run) for run in db(
            "SELECT due, cause, state, lane, started, took, status FROM run WHERE job = %s "
            "ORDER BY due DESC, id DESC LIMIT %s", ident, RUNS)]
        if flask.g.user["writes"]:
            job["command"] = [value for value, in db(
                "SELECT value FROM argument WHERE job = %s ORDER BY position", ident)]
    return job
