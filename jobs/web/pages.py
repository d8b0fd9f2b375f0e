# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""The pages. They need no script and load nothing but their style."""
import collections
import heapq
import ipaddress
import re
import statistics
import time
import urllib.parse

import flask
import werkzeug.exceptions

import api
import edit
import show
import users
from store import Problem

HOUR = 3600 * show.SECOND
HOURS = 24          # of the overview
PAGE = 50           # rows on a page
RECENT = 100        # due times of a job that are summed up
SOON = 10           # rows of "Due next"
KEPT = 2 ** 16      # bytes at each end of an output
RETRY_S = 5
STATES = {"planned": "will run", "started": "running", "done": "ended, with this status",
          "failed": "ended, with a status other than 0", "covered": "gave way to a later run",
          "discarded": "another run was in progress", "missed": "late by more than the window",
          "timeout": "took longer than its limit", "stopped": "ended by somebody",
          "interrupted": "the scheduler ended before the command"}
CAUSES = {"due": "in time", "late": "late, within the window", "misfire": "later than the window",
          "again": "interrupted before", "retry": "failed before", "start": "asked for",
          "after": "another job has ended", "alarm": "another job has failed or recovered"}
# Written like this, so that the databases use the index of open runs, which are few.
OPEN = "state IN ('planned', 'started')"
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
           "Referrer-Policy": "same-origin", "Content-Security-Policy":
           "default-src 'none'; img-src data:; style-src 'self'; form-action 'self'; "
           "base-uri 'none'; frame-ancestors 'none'"}

pages = flask.Blueprint("pages", __name__)


def store():
    return flask.current_app.config["STORE"]


def render(template, **values):
    """A page. Bytes of names that are no UTF-8 become question marks."""
    now = time.time_ns()
    return flask.render_template(
        template, store=store(), states=STATES, causes=CAUSES, recent=RECENT, now=now,
        zone=show.zone(), link=show.link, reload=flask.g.get("reload"), retry=RETRY_S,
        again=flask.g.get("again"), user=flask.g.get("user"), path=flask.request.path, **values).encode(errors="replace")


def jobs_of(condition):
    """A query for jobs, with their owner."""
    owner = "executor.name AS owner, lease" if store().owners else "NULL AS owner, NULL AS lease"
    join = "LEFT JOIN executor ON executor.id = job.owner" if store().owners else ""
    return ("SELECT job.id, job.name, cron, every, zone, misfire, block, next, from_end, after_job, "
            f"after_state, paused, {owner} FROM job {join} WHERE {condition}")


def summary(db, job, planned, running):
    """A job, and what became of its last due times: a row may be "missed" for a number of them."""
    runs = db("SELECT due, state, started, took, status FROM run WHERE job = %s "
              f"AND NOT {OPEN} ORDER BY due DESC LIMIT %s", job["id"], RECENT)
    took = [run["took"] for run in runs if run["took"] is not None]
    return {**dict(job), "due": planned.get(job["id"], job["next"]),
            "running": running.get(job["id"]), "runs": runs,
            "outcomes": collections.Counter(map(show.state, runs)).most_common(),
            "median": statistics.median_low(took) if took else None,
            "longest": max(took, default=None)}


def open_runs(db):
    """By job: the first due time for which it is planned, and since when it is running."""
    return [dict(map(tuple, db(f"SELECT job, min({column}) FROM run WHERE {OPEN} "
                               f"AND state = '{state}' GROUP BY job")))
            for state, column in (("planned", "due"), ("started", "started"))]


def due_next(db, planned):
    """The jobs that are due first. Those with planned runs may be due before others' next time."""
    first = [(due, job) for job, due in planned.items()]
    first += [(job["next"], job["id"]) for job in
              db("SELECT id, next FROM job WHERE next IS NOT NULL ORDER BY next LIMIT %s",
                 SOON + len(planned)) if job["id"] not in planned]
    return [(db("SELECT name FROM job WHERE id = %s", job)[0]["name"], due)
            for due, job in heapq.nsmallest(SOON, first)]


@pages.get("/")
def jobs_page():
    after = parameters(after=str)["after"]
    with store().open() as db:
        planned, running = open_runs(db)
        jobs = db(jobs_of("job.name > CAST(%s AS TEXT) ORDER BY job.name LIMIT %s"),
                  store().text(after), PAGE + 1)
        following = {"after": jobs[PAGE - 1]["name"]} if len(jobs) > PAGE else None
        return render("jobs.html", jobs=[summary(db, job, planned, running) for job in jobs[:PAGE]],
                      clock=store().now(db), following=following, turned=after)


@pages.get("/overview")
def overview_page():
    """How the runs of the last hours ended, and what is next."""
    parameters()
    with store().open() as db:
        clock = store().now(db)
        begin = (clock // HOUR - HOURS + 1) * HOUR
        # In this order, SQLite reads these runs only, by the index of each job.
        counts = db("SELECT (due - %s) / %s AS hour, CASE WHEN state = 'done' AND status <> 0 "
                    "THEN 'failed' ELSE state END AS state, count(*) AS number FROM job CROSS JOIN "
                    "run WHERE run.job = job.id AND due >= %s AND due <= %s GROUP BY 1, 2", begin,
                    HOUR, begin, clock)
        planned, running = open_runs(db)
        states, hours = collections.Counter(), [collections.Counter() for _ in range(HOURS)]
        for hour, state, number in counts:
            states[state] += number
            hours[hour][{"done": "", "failed": "bad", "missed": "bad", "interrupted": "bad"}
                        .get(state, "busy")] += number
        executors = db("SELECT name, lease, schedules, tags, places, (SELECT count(*) FROM run WHERE "
                       f"holder = executor.id AND {OPEN}) AS runs, (SELECT count(*) FROM job WHERE "
                       "owner = executor.id) AS jobs FROM executor UNION ALL SELECT name, 0, false, "
                       "'', 0, 0, 0 FROM known WHERE name NOT IN (SELECT name FROM executor) "
                       "ORDER BY schedules DESC, name") if store().owners else []
        return render("overview.html", jobs=db("SELECT count(*) FROM job")[0][0], begin=begin,
                      running=len(running), counts=states.most_common(), hours=hours, clock=clock,
                      most=max(sum(hour.values()) for hour in hours), executors=executors,
                      soon=due_next(db, planned))


@pages.get("/runs")
def runs_page():
    asked = parameters(job=str, state=word_of(STATES), cause=word_of(CAUSES), before=position)
    state, where, values, job = asked["state"], ["TRUE"], [], None
    with store().open() as db:
        if asked["job"]:
            found = db(jobs_of("job.name = CAST(%s AS TEXT)"), store().text(asked["job"]))
            if not found:
                raise Problem(404, f"There is no job '{asked['job']}'.")
            job = summary(db, found[0], *open_runs(db))
            # With "+", SQLite does not read all runs of the job to find those that are open.
            where.append("+run.job = %s" if state in ("planned", "started") else "run.job = %s")
            values.append(job["id"])
        if state == "failed":
            where.append("state = 'done' AND status <> 0")
        elif state:
            where.append("state = %s")
            values.append(state)
        if state in ("planned", "started"):
            where.append(OPEN)
        if asked["cause"]:
            where.append("cause = %s")
            values.append(asked["cause"])
        if asked["before"]:
            where.append("(due, run.id) < (%s, %s)")
            values += asked["before"]
        changes = db("SELECT at, who, job, verb, detail, error FROM web_change WHERE job = "
                     "CAST(%s AS TEXT) ORDER BY id DESC LIMIT %s", store().text(job["name"]),
                     SOON) if job else []
        # Rows keep their place in this order, whatever happens to them.
        executor = "executor, shard, shards" if store().owners else "NULL AS executor"
        runs = db("SELECT run.id, name, due, until, cause, state, lane, started, took, status, "
                  f"{executor} FROM run JOIN job ON job.id = run.job WHERE {' AND '.join(where)} "
                  "ORDER BY due DESC, run.id DESC LIMIT %s", *values, PAGE + 1)
        last = runs[PAGE - 1] if len(runs) > PAGE else None
        return render("runs.html", job=job, runs=runs[:PAGE], changes=changes, asked=asked, clock=store().now(db),
                      turned=asked["before"], filters={k: asked[k] for k in
                                                       ("job", "state", "cause")},
                      following=last and {"before": f"{last['due']},{last['id']}"})


@pages.get("/changes")
def changes_page():
    before = parameters(before=number)["before"] or 2 ** 63 - 1
    with store().open() as db:
        changes = db("SELECT id, at, who, job, verb, detail, error FROM web_change WHERE id < %s "
                     "ORDER BY id DESC LIMIT %s", before, PAGE + 1)
    following = {"before": changes[PAGE - 1]["id"]} if len(changes) > PAGE else None
    return render("changes.html", changes=changes[:PAGE], following=following,
                  turned=before < 2 ** 63 - 1)


@pages.route("/<any(add, change, remove):verb>", methods=["GET", "POST"])
def edit_page(verb):
    """With an id, "add" begins with a copy of that job."""
    asked, job, command, error = parameters(id=number), None, (None, []), None
    flask.g.again = flask.g.reload = None   # it would lose what is filled in
    users.check_writer()
    if verb != "add" or asked["id"]:
        with store().open() as db:
            job = next(iter(db("SELECT * FROM job WHERE id = %s", asked["id"] or 0)), None)
            command = edit.command_of(db, asked["id"] or 0)
        if not job:
            raise Problem(404, "There is no such job.")
    form = flask.request.form or edit.form_of(job, *command)
    if flask.request.method == "POST":
        name = form.get("name", "") if verb == "add" else job["name"]
        error = edit.change(verb, name, form if verb != "remove" else {})
        if not error:
            return flask.redirect(show.link("/runs", job=name) if verb != "remove" else "/", 303)
    return render("edit.html", verb=verb, job=job, form=form, error=error,
                  options=edit.OPTIONS), 400 if error else 200


@pages.post(f"/<any({', '.join(edit.ACTIONS)}):verb>")
def act(verb):
    """Start a job, or stop, pause or resume it."""
    asked = parameters(id=number)
    users.check_writer()
    with store().open() as db:
        job = db("SELECT name FROM job WHERE id = %s", asked["id"] or 0)
    if not job:
        raise Problem(404, "There is no such job.")
    error, _ = edit.execute(verb, job[0]["name"], {}, [])
    if error:
        raise Problem(409, error)
    return flask.redirect(show.link("/runs", job=job[0]["name"]), 303)


@pages.get("/output")
def output_page():
    """What a run has written until now. Who may not see commands may not see this, either."""
    asked = parameters(run=number)
    users.check_writer()
    with store().open() as db:
        runs = db("SELECT name, due, state, status, size, head, tail FROM run "
                  "JOIN job ON job.id = run.job LEFT JOIN output ON output.run = run.id "
                  "WHERE run.id = %s", asked["run"] or 0)
    if not runs:
        raise Problem(404, "There is no such run.")
    return render("output.html", run=runs[0], kept=KEPT)


@pages.route("/sign-in", methods=["GET", "POST"])
def sign_in_page():
    form, failed = flask.request.form, False
    if flask.request.method == "POST":
        if users.sign_in(form.get("name", ""), form.get("password", "")):
            return flask.redirect("/", 303)
        failed = True
    return render("sign-in.html", failed=failed), 403 if failed else 200


@pages.post("/sign-out")
def sign_out():
    flask.session.clear()
    return flask.redirect("/sign-in", 303)


def number(text):
    if not re.fullmatch("[0-9]{1,18}", text):
        raise ValueError("a number")
    return int(text)


def word_of(words):
    def check(text):
        if text and text not in words:
            raise ValueError(f"one of: {', '.join(words)}")
        return text
    return check


def position(text):
    """A row's due time and id, after which a page begins."""
    if not re.fullmatch("-?[0-9]{1,19},-?[0-9]{1,19}", text):
        raise ValueError("the due time and the id of a row, as in the link to the next page")
    return [min(max(int(n), -2 ** 63), 2 ** 63 - 1) for n in text.split(",")]


def seconds(text):
    if not re.fullmatch("[0-9]{1,4}", text) or not int(text):
        raise ValueError("a number of seconds, from 1 to 9999")
    return int(text)


def parameters(**known):
    """The values of parameters; those that are missing are "". All may be followed by "reload"."""
    known = known | {"reload": seconds}
    values = dict.fromkeys(known, "")
    query = flask.request.query_string.decode("latin-1")
    try:
        pairs = urllib.parse.parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query),
                                       errors="surrogateescape", max_num_fields=20)
    except ValueError as error:
        raise Problem(400, f"The address cannot be understood: {error}.") from error
    for name, value in pairs:
        if name not in known:
            raise Problem(400, f"There is no parameter '{name}'. There are: {', '.join(known)}.")
        if values[name]:
            raise Problem(400, f"The parameter '{name}' is there twice.")
        try:
            values[name] = value and known[name](value)
        except ValueError as error:
            raise Problem(400, f"The parameter '{name}' takes {error}; not '{value}'.") from error
    flask.g.reload = values.pop("reload")
    kept = {name: value for name, value in pairs if name != "reload"}
    flask.g.again = show.link(flask.request.path, **kept,
                              reload=None if flask.g.reload else RETRY_S)
    return values


def check_host():
    """Another site could make its name point here, and use the pages through a browser."""
    try:
        host = urllib.parse.urlsplit("//" + flask.request.headers.get("Host", "localhost")).hostname
        if host not in flask.current_app.config["NAMES"]:
            ipaddress.ip_address(host)
    except ValueError as error:
        raise Problem(403, "This server does not go by that name; see --proxy.") from error


def show_error(error):
    """Also for what Flask refuses by itself."""
    if flask.request.path.startswith("/api/"):
        return {"error": error.description}, error.code
    headers = dict(error.get_headers())
    if error.code == 503:
        flask.g.reload = flask.request.args.get("reload", RETRY_S, type=seconds)
        headers["Retry-After"] = RETRY_S
    return render("error.html", text=error.description, status=error.code), error.code, headers


def make_app(database, proxy):
    app = flask.Flask(__name__)
    app.config.update(STORE=database, NAMES={"localhost", *([proxy.lower()] if proxy else [])},
                      SESSION_COOKIE_SECURE=bool(proxy))
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update({function.__name__: function for function in show.FILTERS})
    app.register_blueprint(pages)
    app.register_blueprint(api.api)
    app.before_request(check_host)
    users.protect(app).exempt(api.api)
    app.register_error_handler(werkzeug.exceptions.HTTPException, show_error)
    app.after_request(lambda answer: answer.headers.update(HEADERS) or answer)
    return app
