#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: page.py WEB JOBS CONNINFO [TEST...]

Test the program WEB, hwtimer-jobs-web, from outside: on a SQLite database that the scheduler's
program JOBS makes in the current directory, and on the PostgreSQL database CONNINFO. Prints TAP.
"""
import base64
import concurrent.futures
import contextlib
import datetime
import html.parser
import http.client
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
import traceback
import urllib.parse

import psycopg2
import psycopg2.extensions

S = 10 ** 9
START = 1_780_000_000 * S       # 2026-05-28 20:26:40 UTC
MS = datetime.timedelta(milliseconds=1)     # pages show ms
PASSWORD = "correct horse"
EVIL = "<script>alert(1)</script>&\"'<b onclick=x>"
LONG = "x" * 300
JOBS = {    # name: schedule as the page has it, options of "jobs add"
    "tick": ("every 300 ms", ["--every", "300ms"]),
    "nightly": ("0 30 4 * * mon-fri", ["--cron", "0 30 4 * * mon-fri", "--misfire", "once",
                                       "--block", "cover"]),
    "backup of/the_customer_database": ("every 15 min", ["--every", "15m", "--block", "discard"]),
    EVIL: ("every 1 d", ["--every", "1d"]),
    "  ä \u202eoverride": ("every 1500 ms", ["--every", "1.5s"]),
    LONG: ("every 2 h", ["--every", "2h"]),
    "single": ("once", ["--at", "2099-01-01 00:00"]),
    **{f"many{i:02}": ("every 1 h", ["--every", "1h"]) for i in range(55)},
}
STATES = ["done", "done", "failed", "covered", "discarded", "missed", "interrupted"]


class Page(html.parser.HTMLParser):
    """What a page has: tables by caption (rows of texts), links by text, text, tags, times."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.links, self.tags, self.times, self.fields = {}, {}, [], [], {}
        self.text = ""
        self.cell = self.rows = self.href = self.area = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag == "table":
            self.rows = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td", "caption"):
            self.cell = ""
        elif tag == "a":
            self.href, self.label = attrs["href"], ""
        elif tag == "input" and (attrs.get("type") != "checkbox" or "checked" in attrs):
            self.fields[attrs["name"]] = attrs.get("value", "")
        elif tag == "select":
            self.select = attrs["name"]
        elif tag == "option" and "selected" in attrs:
            self.fields[self.select] = attrs["value"]
        elif tag == "textarea":
            self.area, self.fields[attrs["name"]] = attrs["name"], ""
        elif tag == "time":
            self.times.append(attrs["datetime"])

    def handle_endtag(self, tag):
        if tag == "textarea":
            self.area = None
        elif tag == "caption":
            self.tables[self.cell] = self.rows
        elif tag in ("th", "td"):
            self.rows[-1].append(self.cell)
        elif tag == "a":
            self.links[self.label] = self.href
            self.href = None

    def handle_data(self, data):
        self.text += data
        if self.cell is not None:
            self.cell += data
        if self.href is not None:
            self.label += data
        if self.area:
            self.fields[self.area] += data

    def rows_of(self, caption):
        """The rows of a table, as dictionaries by column."""
        rows = self.tables.get(caption, [[]])
        return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def add_user(database, name, *options, password=PASSWORD):
    subprocess.run([PROGRAM, database, "--add-user", name, *options], input=password + "\n",
                   check=True, text=True)


class Web:
    """A running hwtimer-jobs-web, and a browser's cookie. USER signs in, unless it is None."""

    def __init__(self, name, *options, user="boss", **environment):
        self.cookie = ""
        self.process = subprocess.Popen(
            [PROGRAM, name, "--listen", "127.0.0.1:0", *options], stdout=subprocess.PIPE,
            stderr=open("web.log", "a", encoding="utf-8"), text=True,
            env=os.environ | {"TZ": "UTC"} | environment)
        self.url = self.process.stdout.readline().strip()
        self.address = urllib.parse.urlsplit(self.url).netloc
        if user:
            assert self.sign_in(user)[0] == 303

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, path, method="GET", body=None, **headers):
        """The answer's status, headers and body."""
        connection = http.client.HTTPConnection(self.address)
        connection.request(method, path, body, {"Cookie": self.cookie} | headers)
        answer = connection.getresponse()
        self.cookie = (answer.headers["Set-Cookie"] or self.cookie).partition(";")[0]
        body = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, body

    def post(self, path, fields, page=None, **headers):
        """Send a form as the page has it, with its token."""
        form = dict(Page(self.ask(page or path)[2]).fields) | fields
        return self.ask(path, "POST", urllib.parse.urlencode(form, errors="surrogateescape"),
                        **{"Content-Type": "application/x-www-form-urlencoded"} | headers)

    def sign_in(self, user, password=PASSWORD):
        return self.post("/sign-in", {"name": user, "password": password})

    def page(self, path, status=200):
        found, _, body = self.ask(path)
        assert found == status, f"{path}: {found}: {body[-500:]}"
        return Page(body)

    def pages(self, path):
        """This page and all that "Next page" leads to."""
        while path:
            page = self.page(path)
            yield page
            path = page.links.get("Next page")


def is_close(shown, ns):
    """Is that time of the page this one, which the server showed in UTC?"""
    when = datetime.datetime.fromtimestamp(ns // S, datetime.timezone.utc)
    return shown == f"{when:%Y-%m-%d %H:%M:%S}.{ns // 10 ** 6 % 1000:03}"


class Sqlite:
    """A database, filled by "jobs add", and by rows of runs whose times are known."""

    def __init__(self, name, jobs):
        self.name = name
        for job, (_, options) in jobs.items():
            self.add(job, *options)
        self.fill()
        add_user(name, "boss")
        add_user(name, "reader", "--read-only")

    def connect(self):
        return contextlib.closing(sqlite3.connect(self.name, isolation_level=None))

    def sql(self, text, *values):
        with self.connect() as db:
            return db.execute(text.replace("%s", "?"), values).fetchall()

    def fill(self):
        self.add_runs("tick", 130)
        self.add_runs(EVIL, 7)
        self.add_run("nightly", START + 999 * S, "started", START + 999 * S)
        self.add_run("nightly", START + 1000 * S, "planned")
        self.add_run("nightly", START + 1001 * S, "planned")

    def add(self, name, *options):
        subprocess.run([JOBS_PROGRAM, self.name, "add", name, *options, "--", "true"], check=True)

    def add_runs(self, name, number):
        for i in range(number):
            state = STATES[i % len(STATES)]
            due = START + i * S
            ran = state in ("done", "failed")
            self.add_run(name, due, "done" if ran else state, due + 2_500_000 if ran else None,
                         (i + 1) * 10 ** 8 if ran else None,
                         3 * (state == "failed") if ran else None)

    def add_run(self, name, due, state, started=None, took=None, status=None):
        self.sql("INSERT INTO run (job, due, until, cause, state, lane, started, ended, took, "
                 "status) SELECT id, %s, %s, %s, %s, %s, %s, %s, %s, %s FROM job WHERE name = %s",
                 due, due + S, {"missed": "misfire", "covered": "late"}.get(state, "due"), state,
                 started and "fast", started, took and started + took, took, status, name)

    def log(self, where="TRUE"):
        return self.sql("SELECT name, due, state, cause, status, took "
                        "FROM run JOIN job ON job.id = run.job "
                        f"WHERE {where} ORDER BY due DESC, run.id DESC")

    def set_version(self, version):
        self.sql(f"PRAGMA user_version = {version}")

    @contextlib.contextmanager
    def locked(self):
        with self.connect() as db:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("BEGIN EXCLUSIVE")
            yield

    @contextlib.contextmanager
    def gone(self):
        os.rename(self.name, "elsewhere")
        yield
        os.rename("elsewhere", self.name)


class Postgres(Sqlite):
    def connect(self):
        db = psycopg2.connect(self.name)
        db.autocommit = True
        return contextlib.closing(db)

    def sql(self, text, *values):
        with self.connect() as db:
            cursor = db.cursor()
            cursor.execute(text, values)
            return cursor.fetchall() if cursor.description else None

    def set_version(self, version):
        self.sql("UPDATE jobs_database SET version = %s", version)

    @contextlib.contextmanager
    def locked(self):
        with self.connect() as db:
            db.autocommit = False
            db.cursor().execute("LOCK TABLE run IN ACCESS EXCLUSIVE MODE")
            yield

    @contextlib.contextmanager
    def gone(self):
        """Nobody can connect."""
        with contextlib.closing(psycopg2.connect(self.name, dbname="postgres")) as db:
            db.autocommit = True
            database = psycopg2.extensions.parse_dsn(self.name)["dbname"]
            db.cursor().execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
            yield
            db.cursor().execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")


def jobs_are_shown(store):
    with Web(store.name) as web:
        pages = list(web.pages("/"))
    rows = [row for page in pages for row in page.rows_of("All jobs")]
    names = [name for name, in store.sql("SELECT name FROM job ORDER BY name")]
    assert [row["Job"] for row in rows] == names and len(pages) == 2, names
    of = {row["Job"]: row for row in rows}
    for name, (schedule, options) in JOBS.items():
        assert of[name]["Schedule"] == schedule, of[name]
        assert of[name]["Misfire"] == ("once" if "once" in options else "nothing")
        assert of[name]["Block"] == (options[options.index("--block") + 1]
                                     if "--block" in options else "serial")
    assert is_close(of["many00"]["Next due"],
                    store.sql("SELECT next FROM job WHERE name = 'many00'")[0][0])
    assert is_close(of["nightly"]["Next due"], START + 1000 * S), "a planned run is the next one"
    assert is_close(of["nightly"]["Running since"], START + 999 * S)
    assert of["many00"]["Running since"] == of["many00"]["Longest"] == "–"
    # The last 100 of its 130 due times are from number 30 on.
    counts = [STATES[i % 7] for i in range(30, 130)]
    shown = dict(part.split(" ")[::-1] for part in of["tick"]["Last 100 due times"].split(", "))
    assert shown == {state: str(counts.count(state)) for state in STATES}, shown
    took = sorted(i + 1 for i in range(30, 130) if STATES[i % 7] in ("done", "failed"))
    assert of["tick"]["Longest"] == f"{took[-1] / 10:.3f} s", of["tick"]
    assert of["tick"]["Median time"] == f"{took[(len(took) - 1) // 2] / 10:.3f} s", of["tick"]


def due_next_is_shown(store):
    with Web(store.name) as web:
        before = datetime.datetime.utcnow()
        rows = web.page("/overview").rows_of("Due next")
        after = datetime.datetime.utcnow()
    due = {name: next for name, next in store.sql("SELECT name, next FROM job")}
    due["nightly"] = START + 1000 * S
    first = sorted(due, key=lambda name: due[name])[:10]
    assert [row["Job"] for row in rows] == first, (rows, first)
    assert all(is_close(row["Due"], due[row["Job"]]) for row in rows)
    for row in rows:
        due = datetime.datetime.fromisoformat(row["Due"])
        assert due > before - MS or row["From now"].startswith("overdue by "), row
        assert due < after + MS or row["From now"].startswith("in "), row


def log_is_shown(store):
    with Web(store.name) as web:
        pages = list(web.pages("/runs"))
    rows = [row for page in pages for row in page.rows_of("Runs, the latest due time first")]
    log = store.log()
    assert len(rows) == len(log) and len(pages) == -(-len(log) // 50), len(rows)
    for row, (name, due, state, cause, status, took) in zip(rows, log):
        assert row["Job"] == name and is_close(row["Due"], due) and row["Cause"] == cause, row
        assert row["State"] == ("failed" if status else state), row
        if state == "done":
            assert row["Status"] == str(status) and row["Started late by"] == "2.5 ms", row
            assert row["Took"] == (f"{took / 10 ** 6:.1f} ms" if took < S else f"{took / S:.3f} s")
        elif state == "missed":
            assert row["Status"].startswith("all due times before 2026"), row
        else:
            assert row["Took"] == row["Status"] == "–", row


def filters(store):
    conditions = {f"state={state}": f"state = '{state}'" for state in
                  ("planned", "started", "done", "covered", "discarded", "missed", "interrupted")}
    conditions |= {f"cause={cause}": f"cause = '{cause}'" for cause in ("due", "late", "misfire")}
    conditions |= {"state=failed": "state = 'done' AND status = 3", "job=tick": "name = 'tick'",
                   "job=tick&state=failed&cause=due": "name = 'tick' AND status = 3",
                   "job=&state=&cause=": "TRUE", "job=many00": "FALSE"}
    with Web(store.name) as web:
        for query, where in conditions.items():
            rows = [row for page in web.pages("/runs?" + query)
                    for row in page.rows_of("Runs, the latest due time first")]
            log = store.log(where)
            assert [row["Job"] for row in rows] == [row[0] for row in log], query
            assert all(is_close(row["Due"], run[1]) for row, run in zip(rows, log)), query
        page = web.page("/runs?job=tick&state=failed")
        assert ("option", {"value": "failed", "selected": ""}) in page.tags
        assert any(tag == "input" and attrs.get("value") == "tick" for tag, attrs in page.tags)
        assert web.page("/").links["Misfires"] == "/runs?cause=misfire"


def pages_are_stable(store):
    """What happens between two pages neither repeats nor hides a row that was there before."""
    before = [(name, due) for name, due, *_ in store.log("name = 'tick'")]
    seen = []
    with Web(store.name) as web:
        for number, page in enumerate(web.pages("/runs?job=tick")):
            seen += [row["Due"] for row in page.rows_of("Runs, the latest due time first")]
            store.add_run("tick", START + (2000 + number) * S, "planned")
            store.sql("UPDATE run SET state = 'discarded' WHERE due = %s", START + 60 * S)
            if not number:
                store.sql("DELETE FROM run WHERE due = %s", START + 129 * S)
    assert len(seen) == len(before) and all(map(is_close, seen, (due for _, due in before))), seen


def equal_due_times(store):
    """A page may end between runs that are due at the same time."""
    for name in JOBS:
        store.add_run(name, START - S, "missed")
    log_is_shown(store)


def job_is_shown(store):
    with Web(store.name) as web:
        page = web.page("/runs?job=tick")
        assert re.search(r"Schedule\s*every 300 ms\s*Misfire\s*nothing\s*Block\s*serial\s*Next due\s*20", page.text)
        ran = [i for i in range(30, 130) if STATES[i % 7] in ("done", "failed")]
        bars = [attrs for tag, attrs in page.tags if tag == "rect"]
        assert [bar.get("class") == "bad" for bar in bars] == \
            [STATES[i % 7] == "failed" for i in ran]
        assert float(bars[-1]["height"]) == 100 and float(bars[0]["height"]) < 50
        assert f"the last {len(ran)} runs took, the oldest first; the high" in page.text
        assert "There are no such runs." in web.page("/runs?job=many00").text


def names_are_escaped(store):
    with Web(store.name) as web:
        quoted = urllib.parse.quote(EVIL)
        for path, status in (("/", 200), ("/runs?job=" + quoted, 200), ("/runs", 200),
                             (f"/runs?job={quoted}1", 404), (f"/runs?{quoted}=1", 400),
                             (f"/runs?state={quoted}", 400), (f"/?reload={quoted}", 400)):
            page = web.page(path, status)
            assert EVIL in page.text or path in ("/", "/runs"), path
            for tag, attrs in page.tags:
                assert tag not in ("script", "b") or set(attrs) <= {"class", "title"}, path
                assert tag != "script" and "onclick" not in attrs, path
        link = next(page.links[EVIL] for page in web.pages("/") if EVIL in page.links)
        assert EVIL in web.page(link).text
        page = web.page("/runs?job=" + quoted)
        assert any(tag == "input" and attrs.get("value") == EVIL for tag, attrs in page.tags)


def bad_parameters(store):
    bad = {"/runs?state=ended": "state", "/runs?cause=x": "cause", "/runs?before=1": "before",
           "/runs?before=1,x": "before", "/runs?before=1,2,3": "before", "/?before=1,2": "before",
           "/runs?state=done&state=missed": "twice", "/runs?colour=red": "colour",
           "/runs?state": "cannot be understood", "/?reload=0": "reload", "/?reload=1e3": "reload",
           "/?reload=-1": "reload", "/?reload=٣": "reload", "/runs?before=٣,1": "before",
           "/?" + "&a=b" * 50: "cannot be understood",
           "/runs?before=" + "9" * 5000 + ",1": "before", "/runs?before=--1,1": "before"}
    with Web(store.name) as web:
        for path, word in bad.items():
            page = web.page(urllib.parse.quote(path, safe="/?=&,"), 400)
            assert word in page.text, (path, page.text)
        for path in ("/run", "/runs/", "/static/../pages.py", "/runs?job=nobody", "/runs?job=%FF%00",
                     "/favicon.ico"):
            web.page(path, 404)
        for path in ("/runs?before=9223372036854775807,1", "/runs?before=-9223372036854775809,-1",
                     "/?after=%FF%00", "/?after="):
            web.page(path, 200)


def methods(store):
    with Web(store.name) as web:
        token = web.page("/").fields["csrf_token"]
        for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE"):
            status, headers, _ = web.ask("/runs", method, **{"X-CSRFToken": token})
            assert status == 405 and "GET" in headers["Allow"], method
        status, headers, body = web.ask("/runs?job=tick", "HEAD")
        assert status == 200 and not body
        assert headers["Content-Length"] == str(len(web.ask("/runs?job=tick")[2].encode()))
    assert store.log() and store.sql("SELECT count(*) FROM job")[0][0] == len(JOBS)


def headers_protect(store):
    with Web(store.name, "--proxy", "jobs.example") as web:
        for path in ("/", "/nothing", "/static/style.css"):
            headers = web.ask(path)[1]
            assert headers["Content-Security-Policy"] == (
                "default-src 'none'; img-src data:; style-src 'self'; form-action 'self'; "
                "base-uri 'none'; frame-ancestors 'none'")
            assert headers["Cache-Control"] == "no-store"
        for host, status in (("localhost", 200), ("localhost:80", 200), ("127.0.0.1:80", 200),
                             ("[::1]:80", 200), ("jobs.example", 200), ("JOBS.example:1", 200),
                             ("evil.example", 403), ("localhost.evil.example", 403), ("[", 403)):
            assert web.ask("/", Host=host)[0] == status, host


def structure(store):
    """What screen readers need."""
    with Web(store.name) as web:
        for path in ("/", "/runs", "/runs?job=tick"):
            page = web.page(path)
            tags = [tag for tag, _ in page.tags]
            assert ("html", {"lang": "en"}) in page.tags and tags.count("h1") == 1
            assert tags.count("table") == tags.count("caption") > 0
            assert all(attrs["scope"] in ("row", "col") for tag, attrs in page.tags if tag == "th")
            hidden = sum(attrs.get("type") == "hidden" for _, attrs in page.tags)
            assert tags.count("label") == tags.count("input") + tags.count("select") - hidden
            assert tags.count("main") == 1 and "time" in tags


def database_is_away(store):
    with Web(store.name) as web:
        for away in store.gone, store.locked:
            web.page("/")
            with away():
                for path in ("/", "/runs?job=tick&reload=7"):
                    status, headers, body = web.ask(path)
                    assert status == 503 and headers["Retry-After"] == "5", (away, status)
                    wait = "7" if "reload" in path else "5"
                    assert ("meta", {"http-equiv": "refresh", "content": wait}) in Page(body).tags
                    assert "The database" in Page(body).text, body
            web.page("/")


def no_database_of_jobs(_):
    with open("text", "w", encoding="utf-8") as text:
        text.write("This is no database.\n" * 100)
    with contextlib.closing(sqlite3.connect("other")) as db:
        db.execute("CREATE TABLE IF NOT EXISTS job (id INTEGER)")
    for name, word in (("text", "not a database"), ("other", "no database of jobs"),
                       (".", "cannot be read now"), ("missing", "is not there")):
        with Web(name, user=None) as web:
            text = web.page("/", 503).text
            assert word in text, (name, text)
    assert not os.path.exists("missing")


def other_version(store):
    with Web(store.name) as web:
        store.set_version(99)
        assert "Another version" in web.page("/", 503).text
        store.set_version(2)
        web.page("/")


@contextlib.contextmanager
def slow_runs(store, source):
    """Reads of the table run join this source."""
    store.sql("ALTER TABLE run RENAME TO all_runs")
    store.sql(f"CREATE VIEW run AS SELECT all_runs.* FROM all_runs, {source}")
    yield
    store.sql("DROP VIEW run")
    store.sql("ALTER TABLE all_runs RENAME TO run")


def long_queries_end(store):
    with Web(store.name) as web:
        with slow_runs(store, "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                       "WHERE i < 1000000000) SELECT count(*) FROM n) AS long"):
            assert "takes longer than 5 s" in web.page("/runs", 503).text
        web.page("/runs")


def zones(store):
    with Web(store.name, TZ="Europe/Berlin") as web:
        page = web.page("/runs?job=tick&state=interrupted&before=1780000007000000000,0")
        summer = "2026-05-28 22:26:46.000"
        assert "2026-05-28 22:26:46.000+0200" in page.times, page.times
        row = page.rows_of("Runs, the latest due time first")[0]
        offset = subprocess.run(["date", "+%:z %Z"], env={"TZ": "Europe/Berlin"}, check=True,
                                capture_output=True, text=True).stdout.split()
        assert row["Due"] == summer + ("" if offset[1] == "CEST" else " UTC+02:00"), row
        assert f"in UTC{offset[0]} ({offset[1]}) unless" in page.text, page.text
    with Web(store.name) as web:
        assert "in UTC unless they say otherwise" in web.page("/").text


def few_sessions(store):
    """However many pages are read at a time, the database has sessions for others."""
    sessions = ("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hwtimer-jobs-web' "
                "AND wait_event_type = 'Lock'")
    with Web(store.name) as web, store.locked():
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            pages = [pool.submit(web.ask, "/runs") for _ in range(24)]
            peak = 0
            while not all(page.done() for page in pages):
                peak = max(peak, store.sql(sessions)[0][0])
                time.sleep(0.02)
        assert {page.result()[0] for page in pages} == {503}
        assert 0 < peak <= 8, peak


def slow_pages_end(store):
    """Each of their queries may be quick."""
    with Web(store.name) as web, slow_runs(store, "pg_sleep(0.3)"):
        assert "takes longer than 5 s" in web.page("/", 503).text


def slow_clients(store):
    """Clients that send a byte now and then delay nobody."""
    with Web(store.name) as web, contextlib.ExitStack() as stack:
        for _ in range(50):
            client = stack.enter_context(socket.create_connection(web.address.split(":")))
            client.send(b"G")
        web.page("/")
        assert len(os.listdir(f"/proc/{web.process.pid}/task")) < 12


def bodies_are_small(store):
    """Of 100 MB the server reads almost nothing."""
    with Web(store.name) as web:
        for head in ("Content-Length: 100000000", "Transfer-Encoding: chunked"):
            with socket.create_connection(web.address.split(":")) as client:
                client.sendall(f"POST / HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
                if "chunked" in head:
                    client.sendall(b"200000\r\n" + b"x" * 0x100000)
                assert client.recv(100).startswith(b"HTTP/1.1 413 "), head
                with contextlib.suppress(ConnectionError):
                    for _ in range(100):
                        client.sendall(b"x" * 10 ** 6)
        with open(f"/proc/{web.process.pid}/status", encoding="ascii") as status:
            peak = int(re.search(r"VmHWM:\s*(\d+)", status.read())[1])
        assert peak < 90_000, peak
        web.page("/")


def job_of(store, name):
    """The row of a job and its command, or None."""
    columns = "id, cron, every, zone, dst, misfire, block, timeout, grace"
    job = store.sql(f"SELECT {columns} FROM job WHERE name = %s", name)
    return job and (*job[0], [value for value, in store.sql(
        "SELECT value FROM argument WHERE job = %s ORDER BY position", job[0][0])])


def last_change(store):
    return store.sql("SELECT who, job, verb, detail, error FROM web_change "
                     "ORDER BY id DESC LIMIT 1")[0]


def jobs_are_edited(store):
    """Added, copied, changed and removed, as the form says; what is wrong, as the program says."""
    name, command = "new <b>&'\"", "sh -c 'echo \"$HOME\" <b>&amp;\nexit' ''"
    argv = ["sh", "-c", 'echo "$HOME" <b>&amp;\nexit', ""]
    with Web(store.name) as web:
        def post(path, **fields):
            status, headers, body = web.post(path, fields)
            return Page(body).text if status == 400 else headers["Location"]

        for words, fields in (
                ("no COMMAND", {"cron": "@daily"}), ("'soon'", {"every": "soon"}),
                ("either --cron, --every or --at", {"command": "true"}),
                ("No closing quotation", {"every": "1h", "command": "echo '"}),
                ("there is a job 'tick' already", {"name": "tick", "every": "1h", "command": "x"}),
                ("Unknown option", {"name": "--help", "every": "1h", "command": "x"}),
                ("zero byte", {"every": "1h", "command": "a\0b"}),
                ("--block", {"block": EVIL, "every": "1h", "command": "x"})):
            text = post("/add", **{"name": name} | fields)
            assert words in text, (words, text)
        assert not job_of(store, name) and len(store.sql("SELECT 1 FROM job")) == len(JOBS)
        options = {"retries": "3", "backoff": "5s", "jitter": "1m", "alarm": "tick"}
        where = post("/add", name=name, cron="30 4 * * *", timezone="Europe/Berlin", misfire="once",
                     block="cover", dst="clock", timeout="90s", grace="2s", command=command, **options)
        assert where == "/runs?" + urllib.parse.urlencode({"job": name}), where
        job = job_of(store, name)
        assert job[1:] == ("30 4 * * *", None, "Europe/Berlin", "clock", "once", "cover",
                           90 * S, 2 * S, argv), job
        columns = f"SELECT retries, backoff, jitter, alarm FROM job WHERE id = {job[0]}"
        assert store.sql(columns) == [(3, 5 * S, 60 * S, "tick")]
        detail = last_change(store)[3]
        assert last_change(store)[:3] == ("boss", name, "add") and "'echo \"$HOME\"" in detail
        # A form that is sent as it came changes nothing.
        web.post(f"/change?id={job[0]}", {})
        assert job_of(store, name) == job, job_of(store, name)
        assert store.sql(columns) == [(3, 5 * S, 60 * S, "tick")]
        store.add_run(name, START, "done", START, 5, 0)
        post(f"/change?id={job[0]}", cron="", timezone="", every="1500ms", command="true")
        assert job_of(store, name)[1:4] == (None, 15 * 10 ** 8, None)
        assert web.page(where).rows_of("Runs, the latest due time first"), "its log is gone"
        post(f"/change?id={job[0]}", every="", at="2099-01-31 13:00", timezone="Asia/Tokyo")
        at = store.sql("SELECT next FROM job WHERE id = %s", job[0])
        due = datetime.datetime(2099, 1, 31, 4, tzinfo=datetime.timezone.utc)
        assert at == [(due.timestamp() * S,)], at
        web.post(f"/change?id={job[0]}", {})
        assert store.sql("SELECT next FROM job WHERE id = %s", job[0]) == at
        assert "once, Asia/Tokyo" in web.page(where).text
        post("/add", **{"name": "script", "after": "tick:end", "script": "echo $1\r\n",
                        "command": "-x"})
        script = job_of(store, "script")
        assert script[-1] == ["echo $1\n", "script", "-x"], script
        web.post(f"/change?id={script[0]}", {})
        assert job_of(store, "script") == script and "after tick: end" in web.page(
            "/runs?job=script").text
        post(f"/remove?id={script[0]}")
        post(f"/add?id={job[0]}", name="a copy")
        assert job_of(store, "a copy")[1:] == job_of(store, name)[1:]
        changes = web.page(where).rows_of("Changes, the latest first")
        assert [row["Change"].split()[0] for row in changes][:3] == ["change"] * 3
        assert all(row["Who"] == "boss" for row in changes) and name == changes[0]["Job"]
        for job in (name, "a copy"):
            assert post(f"/remove?id={job_of(store, job)[0]}") == "/"
            assert not job_of(store, job)
        assert last_change(store) == ("boss", "a copy", "remove", "", None)
        assert web.ask("/change?id=123456")[0] == web.ask("/remove?id=0")[0] == 404
        # All of them, also those that failed.
        changes = [row for page in web.pages("/changes")
                   for row in page.rows_of("Changes, the latest first")]
        assert len(changes) == store.sql("SELECT count(*) FROM web_change")[0][0]
        assert any("there is a job 'tick' already" in row["Error"] for row in changes)


def only_users(store):
    """Who has not signed in, whose cookie is forged, or who was removed sees nothing."""
    with Web(store.name, user=None) as web:
        for path in ("/", "/runs?job=tick", "/changes", "/add", "/nothing"):
            status, headers, body = web.ask(path)
            assert status == 303 and headers["Location"] == "/sign-in" and "many" not in body, path
        for user, password in (("boss", "wrong horse"), ("nobody", PASSWORD), ("", ""),
                               ("boss' OR '1'='1", PASSWORD), ("\udcff\0", PASSWORD)):
            assert web.sign_in(user, password)[0] == 403, user
        assert web.sign_in("boss")[0] == 303
        assert "boss" not in web.cookie
        web.page("/")
        good = web.cookie
        # Not the last letter: not all of its bits count.
        for forged in (good[:-2] + ("A" if good[-2] != "A" else "B") + good[-1],
                       good.replace(".", "x.", 1),
                       "hwtimer_jobs=" + "x" * 4000):
            web.cookie = forged
            assert web.ask("/")[0] == 303, forged
        # A session ends with its user, with its password, and when its cookie is deleted.
        for end in (lambda: add_user(store.name, "guest", password="another horse"),
                    lambda: subprocess.run([PROGRAM, store.name, "--remove-user", "guest"],
                                           check=True),
                    lambda: web.post("/sign-out", {}, "/")):
            add_user(store.name, "guest")
            assert web.sign_in("guest")[0] == 303 and web.ask("/")[0] == 200
            end()
            assert web.ask("/")[0] == 303


def read_only_users(store):
    """They see no commands, and change nothing."""
    ident = job_of(store, "tick")[0]
    with Web(store.name) as web:
        web.post("/add", {"name": "hidden", "every": "1h", "command": "cat secret"})
        web.post(f"/remove?id={job_of(store, 'hidden')[0]}", {})
    with Web(store.name, user="reader") as web:
        assert "secret" not in web.page("/changes").text and "hidden" in web.page("/changes").text
        assert "/add" not in web.page("/").links.values()
        for path in ("/add", f"/add?id={ident}", f"/change?id={ident}", f"/remove?id={ident}"):
            web.page(path, 403)
            fields = {"name": "x", "every": "1h", "command": "true"}
            assert web.post(path, fields, "/")[0] == 403
    assert job_of(store, "tick")[0] == ident and not job_of(store, "x")


def forged_forms(store):
    """Another site lets a browser send a form, with the user's cookie but without its token."""
    form = {"name": "forged", "every": "1h", "command": "true"}
    with Web(store.name) as web, Web(store.name) as other:
        foreign = other.page("/").fields["csrf_token"]
        for path in ("/add", "/sign-out", "/sign-in", f"/remove?id={job_of(store, 'tick')[0]}"):
            for token in ({"csrf_token": ""}, {"csrf_token": "x"}, {"csrf_token": foreign}):
                status, _, body = web.post(path, form | token, "/")
                assert status == 400 and "CSRF" in body, (path, token)
        status, _, _ = web.post("/add", form, Host="evil.example")
        assert status == 403
        assert web.ask("/")[0] == 200, "signed out"
    assert not job_of(store, "forged") and job_of(store, "tick")


def api(store):
    """Jobs for programs; of forged tokens, readers and hostile bodies nothing remains."""
    def token(user):
        return subprocess.run([PROGRAM, store.name, "--token", user], capture_output=True,
                              check=True, text=True).stdout.strip()

    def ask(method, path, sent=None, key="", kind="application/json"):
        sent = sent if isinstance(sent, bytes) else json.dumps(sent)
        status, headers, body = web.ask("/api/jobs" + path, method, sent, **{
            "Content-Type": kind, "Authorization": f"Bearer {key or boss}"})
        assert headers["Content-Type"] == "application/json", (path, body)
        return status, json.loads(body)

    boss, reader = token("boss"), token("reader")
    job = {"name": "by/<api>", "cron": "@daily", "timezone": "UTC", "command": ["echo", "<&>\n"]}
    with Web(store.name) as web:
        status, made = ask("POST", "", job)
        assert status == 201 and made["command"] == job["command"] and made["timezone"] == "UTC", made
        assert last_change(store)[:3] == ("boss", "by/<api>", "add")
        assert job_of(store, "by/<api>")[1] == "@daily" or "0 0" in job_of(store, "by/<api>")[1]
        path = "/" + urllib.parse.quote(job["name"], safe="")
        store.add_run(job["name"], START, "done", START, 5, 3)
        status, now = ask("PUT", path, {"every": "1500ms", "command": ["true"]})
        assert status == 200 and now["every"] == 15 * 10 ** 8 and not now["cron"], now
        status, shown = ask("GET", path, key=reader)
        assert status == 200 and "command" not in shown and shown["runs"][0]["status"] == 3, shown
        before = job_of(store, job["name"])
        for method, where, sent, want in (
                ("POST", "", job, 400), ("PUT", "/nobody", {"command": ["x"]}, 400),
                ("GET", "/nobody", None, 404), ("PUT", path, {"every": "1h"}, 400),
                ("PUT", path, {"every": 5, "command": ["x"]}, 400),
                ("PUT", path, {"every": "1h", "command": "x"}, 400),
                ("PUT", path, {"every": "1h", "command": ["x", 1]}, 400),
                ("PUT", path, {"every": "1h", "command": ["\ud800"]}, 400),
                ("PUT", path, {"every": "1h", "command": ["\0"]}, 400),
                ("PUT", path, {"every": "1h", "colour": "red", "command": ["x"]}, 400),
                ("PUT", path, [job], 400), ("PUT", path, b"{", 400), ("PUT", path, b"\xff", 400),
                ("DELETE", "/nobody", None, 400), ("POST", "/nobody/start", None, 400),
                ("POST", path + "/end", None, 405)):
            status, answer = ask(method, where, sent)
            assert status == want and answer["error"], (where, sent, status, answer)
        for key, want in ((reader, 403), (boss[:-1], 401), ("x", 401), (boss + "\xe4", 401)):
            assert ask("PUT", path, {"every": "1h", "command": ["x"]}, key)[0] == want, key
        # The cookie of a browser is no token, and a token opens no page.
        assert web.ask("/api/jobs" + path)[0] == 401
        web.cookie = ""
        assert web.ask("/", Authorization=f"Bearer {boss}")[0] == 303
        token("boss")
        assert ask("GET", path)[0] == 401, "the last token is still valid"
        assert job_of(store, job["name"]) == before
    subprocess.run([JOBS_PROGRAM, store.name, "remove", job["name"]], check=True)


def acts(store):
    """A scheduler does what buttons and the API ask for; outputs are shown, but not to readers. The
    last test, because the scheduler finds runs of others."""
    subprocess.run([JOBS_PROGRAM, store.name, "add", "acts", "--at", "never", "--", "sh", "-c",
                    "echo '<b>begun'; until [ -e go ]; do sleep 0.1; done; echo finished"], check=True)
    key = subprocess.run([PROGRAM, store.name, "--token", "boss"], capture_output=True, check=True,
                         text=True).stdout.strip()
    ident, runs = job_of(store, "acts")[0], []

    def act(verb):
        status, _, body = web.ask(f"/api/jobs/acts/{verb}", "POST", Authorization=f"Bearer {key}")
        assert status == 200, body
        return json.loads(body)

    def state(run):
        return json.loads(web.ask(f"/api/runs/{run}", Authorization=f"Bearer {key}")[2])

    def wait(condition):
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.05)

    # Not the scheduler of other tests' jobs.
    store.sql("UPDATE job SET paused = 1 WHERE name <> 'acts'")
    with contextlib.ExitStack() as stack:
        web = stack.enter_context(Web(store.name))
        other = stack.enter_context(Web(store.name, user="reader"))
        scheduler = subprocess.Popen([JOBS_PROGRAM, store.name, "run"], stdout=subprocess.DEVNULL)
        stack.callback(scheduler.wait)
        stack.callback(scheduler.terminate)
        assert web.post(f"/start?id={ident}", {}, "/runs?job=acts")[0] == 303
        wait(lambda: store.sql("SELECT 1 FROM run WHERE job = %s AND state = 'started'", ident))
        runs = [row[0] for row in store.sql("SELECT id FROM run WHERE job = %s", ident)]
        wait(lambda: state(runs[0])["output"])
        row = web.page("/runs?job=acts").rows_of("Runs, the latest due time first")[0]
        assert (row["State"], row["Cause"], row["Output"]) == ("started", "start", "Show"), row
        shown = web.page(web.page("/runs?job=acts").links["Show"])
        assert "<b>begun" in shown.text and "finished" not in shown.text, shown.text
        assert web.post(f"/stop?id={ident}", {}, "/runs?job=acts")[0] == 303
        wait(lambda: state(runs[0])["state"] == "stopped")
        assert web.post(f"/stop?id={ident}", {}, "/runs?job=acts")[0] == 409
        runs.append(act("start")["run"])
        open("go", "x").close()
        wait(lambda: state(runs[1])["state"] == "done")
        assert state(runs[1])["output"] == {"size": 18, "head": "<b>begun\nfinished\n", "tail": ""}
        assert web.post(f"/pause?id={ident}", {}, "/runs?job=acts")[0] == 303
        assert re.search(r"Next due\s*paused", web.page("/runs?job=acts").text)
        assert act("resume")["paused"] == 0 and "never" in web.page("/runs?job=acts").text
        assert last_change(store)[:3] == ("boss", "acts", "resume")
        assert other.post(f"/start?id={ident}", {}, "/")[0] == 403
        assert other.ask(f"/output?run={runs[1]}")[0] == 403
        assert "Output" not in other.page("/runs?job=acts").rows_of("Runs, the latest due time first")[0]
        assert web.ask("/output?run=123456")[0] == web.ask("/start?id=7", "GET")[0] - 1 == 404
        assert web.ask("/api/jobs/acts", "DELETE", Authorization=f"Bearer {key}")[0] == 204
        assert not job_of(store, "acts")
    os.remove("go")
    store.sql("UPDATE job SET paused = 0")


def overview(store):
    """It counts the due times of the last 24 hours."""
    now = time.time_ns()
    for number, (age, state) in enumerate(((0, "done"), (2, "done"), (2, "failed"), (2, "covered"),
                                           (30, "done"), (-1, "planned"))):
        store.add_run("many01", now - age * 3600 * S - number, "done" if state == "failed" else state,
                      status=3 if state == "failed" else 0 if state == "done" else None)
    with Web(store.name) as web:
        page = web.page("/overview")
    store.sql("DELETE FROM run WHERE job = %s", job_of(store, "many01")[0])
    assert re.search(rf"Jobs\s*{len(JOBS)}, of which 1 run now", page.text), page.text
    assert re.search("2 done, 1 (failed, 1 covered|covered, 1 failed)", page.text), page.text
    bars = [(attrs["x"], attrs["class"], attrs["height"]) for tag, attrs in page.tags
            if tag == "rect"]
    assert bars == [("210", "", "33.3"), ("210", "bad", "33.3"), ("210", "busy", "33.3"),
                    ("230", "", "33.3")], bars


class Browser:
    """Chromium, through chromedriver. With a width, it is a telephone."""

    def __init__(self, width=None):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                       text=True)
        self.path, self.port = "", next(int(found[1]) for line in self.driver.stdout if (
            found := re.search(r"started successfully on port (\d+)", line)))
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                            "--window-size=1400,900"]}
        if width:
            options["mobileEmulation"] = {"deviceMetrics": {"width": width, "height": 800,
                                                            "pixelRatio": 1.0}}
        self.path = "/session/" + self.ask("/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ask("", method="DELETE")
        self.driver.terminate()
        self.driver.wait()
        self.driver.stdout.close()

    def ask(self, path, sent=None, method="POST"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, self.path + path, json.dumps(sent or {}))
        answer = json.loads(connection.getresponse().read())["value"]
        connection.close()
        assert "error" not in (answer or ()), answer
        return answer

    def fill(self, button, **fields):
        """Fill in a form as a person does."""
        before = self.ask("/url", method="GET")
        for name, text in (*fields.items(), (None, None)):
            path = f"//*[@name='{name}']" if name else f"//main//button[text()='{button}']"
            element = self.ask("/element", {"using": "xpath", "value": path})
            element = "/element/" + next(iter(element.values()))
            self.ask(element + ("/value" if name else "/click"), {"text": text})
        while self.ask("/url", method="GET") == before:     # all of our forms lead elsewhere
            time.sleep(0.05)


def in_a_browser(store):
    """Wide and narrow, nothing is cut off, the style is used, and no markup of names is obeyed."""
    quoted = urllib.parse.quote(EVIL)
    store.add_run("many02", time.time_ns(), "done", time.time_ns(), 5, 0)
    for width, display in ((None, "table-cell"), (360, "grid")):
        name = f"browser-{display}"
        with Web(store.name, user=None) as web, Browser(width) as browser:
            browser.ask("/url", {"url": web.url})
            browser.fill("Sign in", name="boss", password=PASSWORD)
            for path in ("", "overview", "runs", f"runs?job={quoted}", "add",
                         f"runs?job={LONG}"):
                browser.ask("/url", {"url": web.url + path})
                size, style = browser.ask("/execute/sync", {"args": [], "script": """
                    const cell = document.querySelector("td:not(.none)");
                    return [[document.documentElement.scrollWidth, innerWidth],
                            cell && getComputedStyle(cell).display];"""})
                assert size[0] <= size[1] == (width or size[1]), (path, size)
                assert style in (display, path in ("add", f"runs?job={LONG}") and None), path
                with open(f"{display}-{path[:4] or 'jobs'}.png", "wb") as picture:
                    picture.write(base64.b64decode(browser.ask("/screenshot", method="GET")))
            browser.ask("/url", {"url": web.url + "add"})
            browser.fill("Add", name=name, every="15m", command="sh -c 'exit 1'")
            browser.ask("/url", {"url": f"{web.url}change?id={job_of(store, name)[0]}"})
            browser.fill("Change", misfire="once")
            assert job_of(store, name)[2:] == (900 * S, None, "once", "once", "serial",
                                               None, 10 * S, ["sh", "-c", "exit 1"])
            browser.ask("/url", {"url": f"{web.url}remove?id={job_of(store, name)[0]}"})
            browser.fill("Remove")
            assert not job_of(store, name)
            assert not browser.ask("/se/log", {"type": "browser"})
    store.sql("DELETE FROM run WHERE job = %s", job_of(store, "many02")[0])


def owners_are_shown(store):
    now = time.time_ns()
    for name, lease in (("here:1", now + 1000 * S), ("there:<2>", START)):
        store.sql("INSERT INTO executor (name, lease) VALUES (%s, %s)", name, lease)
    store.sql("UPDATE job SET owner = (SELECT id FROM executor WHERE name = 'here:1') "
              "WHERE name LIKE 'many0%%' AND id > %s", 0)
    store.sql("UPDATE job SET owner = (SELECT id FROM executor WHERE name = 'there:<2>') "
              "WHERE name = 'tick'")
    store.sql("INSERT INTO executor (name, lease, schedules, tags, places) VALUES ('far', %s, false, "
              "'eu,gpu', 7)", now + 1000 * S)
    store.sql("INSERT INTO known VALUES ('absent', 'x')")
    store.sql("UPDATE run SET holder = (SELECT id FROM executor WHERE name = 'far') "
              "WHERE due = %s", START + 1000 * S)
    store.sql("UPDATE run SET executor = 'there:<2>', shard = 1, shards = 3 WHERE due = %s",
              START + 3 * S)
    with Web(store.name) as web:
        pages = list(web.pages("/"))
        overview = web.page("/overview")
        caption = next(iter(overview.tables))
        assert re.fullmatch(r"Schedulers and executors, at 20[-\d]* [:\d]*\.\d* by the database's clock",
                            caption)
        rows = overview.rows_of(caption)
        assert [(row["Name"], row["Is"], row["Tags"], row["Owns jobs"], row["Has runs"])
                for row in rows] == [("here:1", "scheduler", "–", "10", "0"),
                                     ("there:<2>", "scheduler", "–", "1", "0"),
                                     ("absent", "executor", "–", "0", "0"),
                                     ("far", "executor", "eu,gpu", "0", "1")], rows
        assert rows[2]["Its lease"] == "absent" and rows[3]["Places"] == "7", rows
        assert rows[0]["Its lease"].startswith("until 2"), rows
        assert rows[1]["Its lease"] == "ended 2026-05-28 20:26:40.000", rows
        owner = {row["Job"]: row["Owner"] for page in pages for row in page.rows_of("All jobs")}
        assert owner["tick"] == "there:<2>, ended 2026-05-28 20:26:40.000", owner
        assert owner["many03"].startswith("here:1, until 2") and owner["many30"] == "–", owner
        page = web.page("/runs?job=tick&state=covered")
        assert re.search(r"Owner\s*there:<2>, ended 2026", page.text)
        rows = page.rows_of("Runs, the latest due time first")
        assert [row["Executor"] for row in rows if is_close(row["Due"], START + 3 * S)] == \
            ["there:<2> (2 of 3)"], rows
        assert "There is no job 'caf?\0'" in web.page("/runs?job=caf%FF%00", 404).text.replace(
            "\ufffd", "\0")


def no_postgres(store):
    """There is none at that address, or it has no such tables."""
    for change, words in (("port=1", "No such file"), ("dbname=none", "does not exist"),
                          ("dbname=postgres", "no database of jobs")):
        with Web(f"{store.name} {change}", user=None) as web:
            text = web.page("/", 503).text
            assert words in text, text
    with Web(store.name, user=None, PGOPTIONS="-c search_path=none") as web:
        assert "no database of jobs" in web.page("/", 503).text
    done = subprocess.run([PROGRAM, "host=x y=z"], capture_output=True, text=True)
    assert done.returncode == 1 and 'invalid connection option "y"' in done.stderr, done.stderr
    done = subprocess.run([PROGRAM, "postgresql://me:secret@host/jobs?x=y"], capture_output=True,
                          text=True)
    assert done.returncode == 1 and '"x"' in done.stderr, done.stderr
    assert "secret" not in done.stderr, done.stderr


def names_in_other_bytes(store):
    """A name that is not UTF-8 is shown, and leads to its job."""
    store.add(b"caf\xe9", "--every", "1h")
    with Web(store.name) as web:
        link = next(page.links["caf?"] for page in web.pages("/") if "caf?" in page.links)
        assert link == "/runs?job=caf%E9" and "Job caf?" in web.page(link).text


def starts(store):
    def run(*arguments):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    with Web(store.name) as web:
        status, text = run(store.name, "--listen", web.address)
        assert status == 1 and text == f"hwtimer-jobs-web: {web.address}: Address already in use\n", text
    for listen in ("0.0.0.0:0", "[::]:0", "jobs.example:0"):
        status, text = run(store.name, "--listen", listen)
        assert status == 2 and "without encryption, only loopback" in text, text
    with Web(store.name, "--listen", "0.0.0.0:0", "--proxy", "jobs.example", user=None) as web:
        web.address = web.address.replace("0.0.0.0", "127.0.0.1")
        cookie = web.ask("/sign-in", Host="jobs.example")[1]["Set-Cookie"]
        assert "Secure;" in cookie and "HttpOnly;" in cookie and "SameSite=Strict" in cookie, cookie
    assert run(store.name, "--remove-user", "nobody") == (
        1, "hwtimer-jobs-web: there is no user 'nobody'\n")
    for listen in ("8080", "localhost:http", "localhost:65536", "localhost:-1", "[]:1", ":1"):
        status, text = run(store.name, "--listen", listen)
        assert status == 2 and "ADDRESS:PORT, not" in text, text
    assert run()[0] == 2 and "[127.0.0.1:8080]" in run("--help")[1]
    with Web(store.name, "--listen", "[::1]:0") as web:
        assert web.url.startswith("http://[::1]:")
        web.page("/")


TESTS = [jobs_are_shown, due_next_is_shown, log_is_shown, filters, job_is_shown, names_are_escaped,
         bad_parameters, methods, headers_protect, structure, database_is_away, long_queries_end,
         zones, only_users, jobs_are_edited, read_only_users, forged_forms, api, overview, pages_are_stable, equal_due_times, other_version]
POSTGRES_TESTS = [owners_are_shown, no_postgres, few_sessions, slow_pages_end, acts]
SQLITE_TESTS = [no_database_of_jobs, starts, names_in_other_bytes, slow_clients, bodies_are_small,
                in_a_browser, acts]


def run(tests):
    """Run (name, function, store) of each test."""
    print(f"1..{len(tests)}", flush=True)
    for number, (name, test, store) in enumerate(tests, 1):
        try:
            test(store)
            print(f"ok {number} {name}", flush=True)
        except Exception:
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
            print(f"not ok {number} {name}", flush=True)


def main():
    tests = [(f"{kind}.{test.__name__}", test, kind) for kind, some in
             (("sqlite", TESTS + SQLITE_TESTS), ("postgres", TESTS + POSTGRES_TESTS)) for test in some]
    tests = [test for test in tests if test[0] in sys.argv[4:] or not sys.argv[4:]]
    made = {kind: Sqlite("db", JOBS) if kind == "sqlite" else Postgres(sys.argv[3], JOBS)
            for kind in {kind for *_, kind in tests}}
    run([(name, test, made[kind]) for name, test, kind in tests])


PROGRAM, JOBS_PROGRAM = map(os.path.abspath, sys.argv[1:3])
os.environ["PATH"] = f"{os.path.dirname(JOBS_PROGRAM)}:{os.environ['PATH']}"
if __name__ == "__main__":
    main()
