#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: page.py JOBS WEB CONNINFO [TEST...]

Test the program WEB, hwtimer-jobs-web, from outside: on a SQLite database that the scheduler's
program JOBS makes in the current directory, and on the PostgreSQL database CONNINFO. Prints TAP.
"""
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse

import lxml.html
import psycopg2
import psycopg2.extensions
from selenium import webdriver

import common
from common import JOBS, S, Scheduler, go, here, jobs, one, sql, wait, write
import postgres

START = 1_780_000_000 * S       # 2026-05-28 20:26:40 UTC
MS = datetime.timedelta(milliseconds=1)     # pages show ms
PASSWORD = "correct horse"
EVIL = "<script>alert(1)</script>&\"'<b onclick=x>"
LONG = "x" * 300
MADE = {    # name: schedule as the page has it, options of "jobs add"
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
RUNS = "Runs, the latest due time first"
CHANGES = "Changes, the latest first"


class Page:
    """What a page has: a tree, its text, links by text, and what is in the fields of forms."""

    def __init__(self, text):
        self.tree = lxml.html.fromstring(text)
        self.text = self.tree.text_content()
        self.links = {a.text_content(): a.get("href") for a in self.all("a")}
        self.fields = dict(pair for form in self.tree.forms for pair in form.form_values())

    def all(self, tag):
        return list(self.tree.iter(tag))

    def rows_of(self, caption):
        """The rows of a table, as dictionaries by column."""
        for table in self.all("table"):
            if re.fullmatch(caption, table.find("caption").text):
                first, *rows = [[cell.text_content() for cell in row] for row in table.iter("tr")]
                return [dict(zip(first, row, strict=True)) for row in rows]
        return []


def program(*words, status=0, **options):
    """Run WEB: returns what it prints."""
    done = subprocess.run([WEB, *words], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=common.PATIENCE_S, **options)
    assert done.returncode == status, (words, done.returncode, done.stdout)
    return done.stdout


def add_user(name, *options, password=PASSWORD):
    program(here["db"].name(), "--add-user", name, *options, input=password + "\n")


def new_token(name):
    return program(here["db"].name(), "--token", name).strip()


class Web:
    """A running hwtimer-jobs-web, and a browser's cookie. USER signs in, unless it is None."""

    def __init__(self, *options, name=None, user="boss", **environment):
        self.cookie = ""
        self.process = subprocess.Popen(
            [WEB, name or here["db"].name(), "--listen", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE, text=True, env=os.environ | {"TZ": "UTC"} | environment)
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

    def api(self, path, method="GET", sent=None, key="", kind="application/json"):
        sent = sent if isinstance(sent, bytes) else json.dumps(sent)
        status, headers, body = self.ask("/api/" + path, method, sent, **{
            "Content-Type": kind, "Authorization": f"Bearer {key}"})
        assert status == 204 or headers["Content-Type"] == "application/json", (path, body)
        return status, json.loads(body or "null")

    def post(self, path, fields=(), page=None, **headers):
        """Send a form as the page has it, with its token."""
        form = dict(Page(self.ask(page or path)[2]).fields) | dict(fields)
        return self.ask(path, "POST", urllib.parse.urlencode(form, errors="surrogateescape"),
                        **{"Content-Type": "application/x-www-form-urlencoded"} | headers)

    def sign_in(self, user, password=PASSWORD):
        return self.post("/sign-in", {"name": user, "password": password})

    def page(self, path, status=200, word=""):
        found, _, body = self.ask(path)
        page = Page(body)
        assert found == status and word in page.text, f"{path}: {found}: {page.text[-500:]}"
        # What screen readers need
        tags = [element.tag for element in page.tree.iter()]
        assert page.tree.get("lang") == "en" and tags.count("h1") == tags.count("main") == 1
        assert tags.count("table") == tags.count("caption") and "time" in tags
        assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
        hidden = sum(field.get("type") == "hidden" for field in page.all("input"))
        assert tags.count("label") + hidden == sum(map(tags.count, ("input", "select", "textarea")))
        return page

    def rows(self, path, caption):
        """Of this page and all that "Next page" leads to."""
        while path:
            page = self.page(path)
            yield from page.rows_of(caption)
            path = page.links.get("Next page")


def is_close(shown, ns):
    """Is that time of the page this one, which the server showed in UTC?"""
    when = datetime.datetime.fromtimestamp(ns // S, datetime.timezone.utc)
    return shown == f"{when:%Y-%m-%d %H:%M:%S}.{ns // 10 ** 6 % 1000:03}"


def id_of(name):
    return one(f"SELECT id FROM job WHERE name = '{name}'")


def job_of(name):
    """The row of a job and its command, or None."""
    job = sql("SELECT id, cron, every, zone, dst, misfire, block, timeout, grace, retries, "
              "backoff, jitter, alarm, next FROM job WHERE name = %s", name)
    return job and (*job[0], [row[0] for row in sql(
        "SELECT value FROM argument WHERE job = %s ORDER BY position", job[0][0])])


def last_change():
    return tuple(sql("SELECT who, job, verb, detail, error FROM web_change ORDER BY id DESC")[0])


def add_run(name, due, state, started=None, took=None, status=None):
    sql("INSERT INTO run (job, due, until, cause, state, lane, started, ended, took, status) "
        "SELECT id, %s, %s, %s, %s, %s, %s, %s, %s, %s FROM job WHERE name = %s",
        due, due + S, {"missed": "misfire", "covered": "late"}.get(state, "due"), state,
        started and "fast", started, took and started + took, took, status, name)


def fill():
    """Make jobs by "jobs add", and rows of runs whose times are known."""
    for name, (_, options) in MADE.items():
        jobs("db", "add", name, *options, "--", "true")
    for name, number in ("tick", 130), (EVIL, 7):
        for i in range(number):
            state, due = STATES[i % len(STATES)], START + i * S
            result = (due + 2_500_000, (i + 1) * 10 ** 8, 3 * (state == "failed"))
            if state in ("done", "failed"):
                add_run(name, due, "done", *result)
            else:
                add_run(name, due, state)
    add_run("nightly", START + 999 * S, "started", START + 999 * S)
    add_run("nightly", START + 1000 * S, "planned")
    add_run("nightly", START + 1001 * S, "planned")
    add_user("boss")
    add_user("reader", "--read-only")


class Sqlite(common.Sqlite):
    kind, path = "sqlite", os.path.abspath("db")

    def set_version(self, version):
        sql(f"PRAGMA user_version = {version}")

    @contextlib.contextmanager
    def locked(self):
        with self.connect() as db:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("BEGIN EXCLUSIVE")
            yield

    @contextlib.contextmanager
    def gone(self):
        os.rename(self.path, "elsewhere")
        yield
        os.rename("elsewhere", self.path)


class Postgres(postgres.Database):
    kind = "postgres"

    def set_version(self, version):
        sql("UPDATE jobs_database SET version = %s", version)

    @contextlib.contextmanager
    def locked(self):
        with self.connect() as db:
            db.cursor().execute("LOCK TABLE run IN ACCESS EXCLUSIVE MODE")
            yield

    @contextlib.contextmanager
    def gone(self):
        """Nobody can connect."""
        name = psycopg2.extensions.parse_dsn(self.path)["dbname"]
        with contextlib.closing(psycopg2.connect(self.path, dbname="postgres")) as db:
            db.autocommit = True
            db.cursor().execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            yield
            db.cursor().execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def jobs_are_shown():
    with Web() as web:
        rows = list(web.rows("/", "All jobs"))
        assert "Next page" in web.page("/").links
    names = [row[0] for row in sql("SELECT name FROM job ORDER BY name")]
    assert [row["Job"] for row in rows] == names, names
    of = {row["Job"]: row for row in rows}
    for name, (schedule, options) in MADE.items():
        options = dict(zip(options[::2], options[1::2]))
        wanted = {"Schedule": schedule, "Misfire": options.get("--misfire", "nothing"),
                  "Block": options.get("--block", "serial")}
        assert wanted.items() <= of[name].items(), of[name]
    assert is_close(of["many00"]["Next due"], one("SELECT next FROM job WHERE name = 'many00'"))
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


def due_next_is_shown():
    with Web() as web:
        before = datetime.datetime.utcnow()
        rows = web.page("/overview").rows_of("Due next")
        after = datetime.datetime.utcnow()
    due = dict(sql("SELECT name, next FROM job")) | {"nightly": START + 1000 * S}
    assert [row["Job"] for row in rows] == sorted(due, key=lambda name: due[name])[:10], rows
    for row in rows:
        assert is_close(row["Due"], due[row["Job"]]), row
        when = datetime.datetime.fromisoformat(row["Due"])
        assert when > before - MS or row["From now"].startswith("overdue by "), row
        assert when < after + MS or row["From now"].startswith("in "), row


def log_of(where="TRUE"):
    return sql("SELECT name, due, state, cause, status, took, until FROM run JOIN job ON job.id = run.job "
               f"WHERE {where} ORDER BY due DESC, run.id DESC")


def log_is_shown():
    """As a whole, and filtered."""
    conditions = {f"state={state}": f"state = '{state}'" for state in
                  ("planned", "started", "done", "covered", "discarded", "missed", "interrupted")}
    conditions |= {f"cause={cause}": f"cause = '{cause}'" for cause in ("due", "late", "misfire")}
    conditions |= {"state=failed": "state = 'done' AND status = 3", "job=tick": "name = 'tick'",
                   "job=tick&state=failed&cause=due": "name = 'tick' AND status = 3",
                   "job=&state=&cause=": "TRUE", "job=many00": "name = 'many00'", "": "TRUE"}
    with Web() as web:
        for query, where in conditions.items():
            rows, log = list(web.rows(f"/runs?{query}", RUNS)), log_of(where)
            assert len(rows) == len(log), query
            for row, (name, due, state, cause, status, took, until) in zip(rows, log):
                assert row["Job"] == name and is_close(row["Due"], due) and row["Cause"] == cause
                assert row["State"] == ("failed" if status else state), row
                if state == "done":
                    assert row["Status"] == str(status) and row["Started late by"] == "2.5 ms", row
                    assert row["Took"] == (f"{took / 10 ** 6:.1f} ms" if took < S else
                                           f"{took / S:.3f} s")
                elif state == "missed" and until != due:
                    assert row["Status"].startswith("all due times before 2026"), row
                else:
                    assert row["Took"] == row["Status"] == "–", row
        page = web.page("/runs?job=tick&state=failed")
        assert page.fields["state"] == "failed" and page.fields["job"] == "tick"
        assert web.page("/").links["Misfires"] == "/runs?cause=misfire"


def equal_due_times():
    """A page may end between runs that are due at the same time."""
    for name in MADE:
        add_run(name, START - S, "missed")
    # One after another job: it stands for no other due times.
    sql("UPDATE run SET until = due WHERE id = (SELECT max(id) FROM run)")
    log_is_shown()


def pages_are_stable():
    """What happens between two pages neither repeats nor hides a row that was there before."""
    before, path, seen, number = log_of("name = 'tick'"), "/runs?job=tick", [], 0
    with Web() as web:
        while path:
            page = web.page(path)
            path, number = page.links.get("Next page"), number + 1
            seen += [row["Due"] for row in page.rows_of(RUNS)]
            add_run("tick", START + (2000 + number) * S, "planned")
            sql("UPDATE run SET state = 'discarded' WHERE due = %s", START + 60 * S)
            if number == 1:
                sql("DELETE FROM run WHERE due = %s", START + 129 * S)
    assert len(seen) == len(before) and all(map(is_close, seen, (row[1] for row in before))), seen


def job_is_shown():
    with Web() as web:
        page = web.page("/runs?job=tick")
        assert re.search(r"Schedule\s*every 300 ms\s*Misfire\s*nothing\s*Block\s*serial\s*"
                         r"Next due\s*20", page.text)
        ran = [i for i in range(30, 130) if STATES[i % 7] in ("done", "failed")]
        bars = page.all("rect")
        bad = [STATES[i % 7] == "failed" for i in ran]
        assert [bar.get("class") == "bad" for bar in bars] == bad
        assert float(bars[-1].get("height")) == 100 and float(bars[0].get("height")) < 50
        assert f"the last {len(ran)} runs took, the oldest first; the high" in page.text
        web.page("/runs?job=many00", word="There are no such runs.")


def names_are_escaped():
    with Web() as web:
        quoted = urllib.parse.quote(EVIL)
        for path, status in (("/", 200), ("/runs?job=" + quoted, 200), ("/runs", 200),
                             (f"/runs?job={quoted}1", 404), (f"/runs?{quoted}=1", 400),
                             (f"/runs?state={quoted}", 400), (f"/?reload={quoted}", 400)):
            page = web.page(path, status, "" if path in ("/", "/runs") else EVIL)
            for element in page.tree.iter():
                assert element.tag != "b" or set(element.attrib) <= {"class", "title"}, path
                assert element.tag != "script" and "onclick" not in element.attrib, path
        link = next(page.links[EVIL] for page in map(web.page, ("/", "/?after=" + quoted[:3]))
                    if EVIL in page.links)
        assert web.page(link, word=EVIL).fields["job"] == EVIL


def bad_parameters():
    bad = {"/runs?state=ended": "state", "/runs?cause=x": "cause", "/runs?before=1": "before",
           "/runs?before=1,x": "before", "/runs?before=1,2,3": "before", "/?before=1,2": "before",
           "/runs?state=done&state=missed": "twice", "/runs?colour=red": "colour",
           "/runs?state": "cannot be understood", "/?reload=0": "reload", "/?reload=1e3": "reload",
           "/?reload=-1": "reload", "/?reload=٣": "reload", "/runs?before=٣,1": "before",
           "/?" + "&a=b" * 50: "cannot be understood",
           "/runs?before=" + "9" * 5000 + ",1": "before", "/runs?before=--1,1": "before"}
    with Web() as web:
        for path, word in bad.items():
            web.page(urllib.parse.quote(path, safe="/?=&,"), 400, word)
        for path in ("/run", "/runs/", "/static/../pages.py", "/runs?job=nobody",
                     "/runs?job=%FF%00", "/favicon.ico"):
            web.page(path, 404)
        for path in ("/runs?before=9223372036854775807,1", "/runs?before=-9223372036854775809,-1",
                     "/?after=%FF%00", "/?after="):
            web.page(path, 200)
        token = web.page("/").fields["csrf_token"]
        for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE"):
            status, headers, _ = web.ask("/runs", method, **{"X-CSRFToken": token})
            assert status == 405 and "GET" in headers["Allow"], method
        status, headers, body = web.ask("/runs?job=tick", "HEAD")
        assert status == 200 and not body
        assert headers["Content-Length"] == str(len(web.ask("/runs?job=tick")[2].encode()))


def headers_protect():
    with Web("--proxy", "jobs.example") as web:
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


def database_is_away():
    with Web() as web:
        for away in here["db"].gone, here["db"].locked:
            web.page("/")
            with away():
                for path, pause in ("/", "5"), ("/runs?job=tick&reload=7", "7"):
                    status, headers, body = web.ask(path)
                    assert status == 503 and headers["Retry-After"] == "5", (away, status)
                    assert {"http-equiv": "refresh", "content": pause} in [
                        dict(meta.attrib) for meta in Page(body).all("meta")]
                    assert "The database" in Page(body).text, body
            web.page("/")
        here["db"].set_version(99)
        web.page("/", 503, "Another version")
        here["db"].set_version(2)
        web.page("/")


def no_database_of_jobs():
    write("text", "This is no database.\n" * 100)
    other = common.Sqlite()
    other.path = "other"
    other.query("CREATE TABLE job (id INTEGER)")
    for name, word in (("text", "not a database"), ("other", "no database of jobs"),
                       (".", "cannot be read now"), ("missing", "is not there")):
        with Web(name=name, user=None) as web:
            web.page("/", 503, word)
    assert not os.path.exists("missing")


@contextlib.contextmanager
def slow_runs(source):
    """Reads of the table run join this source."""
    sql("ALTER TABLE run RENAME TO all_runs")
    sql(f"CREATE VIEW run AS SELECT all_runs.* FROM all_runs, {source}")
    yield
    sql("DROP VIEW run")
    sql("ALTER TABLE all_runs RENAME TO run")


def long_queries_end():
    with Web() as web:
        with slow_runs("(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                       "WHERE i < 1000000000) SELECT count(*) FROM n) AS long"):
            web.page("/runs", 503, "takes longer than 5 s")
        web.page("/runs")


def slow_pages_end():
    """Each of their queries may be quick."""
    with Web() as web, slow_runs("pg_sleep(0.3)"):
        web.page("/", 503, "takes longer than 5 s")


def zones():
    with Web(TZ="Europe/Berlin") as web:
        page = web.page("/runs?job=tick&state=interrupted&before=1780000007000000000,0")
        summer = "2026-05-28 22:26:46.000"
        assert summer + "+0200" in [moment.get("datetime") for moment in page.all("time")]
        offset, name = subprocess.run(["date", "+%:z %Z"], env={"TZ": "Europe/Berlin"}, check=True,
                                      capture_output=True, text=True).stdout.split()
        assert page.rows_of(RUNS)[0]["Due"] == summer + ("" if name == "CEST" else " UTC+02:00")
        assert f"in UTC{offset} ({name}) unless" in page.text, page.text
    with Web() as web:
        web.page("/", word="in UTC unless they say otherwise")


def few_sessions():
    """However many pages are read at a time, the database has sessions for others."""
    with Web() as web, here["db"].locked(), concurrent.futures.ThreadPoolExecutor(24) as pool:
        pages = [pool.submit(web.ask, "/runs") for _ in range(24)]
        peak = 0
        while not all(page.done() for page in pages):
            peak = max(peak, one("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type "
                                 "= 'Lock' AND application_name = 'hwtimer-jobs-web'"))
            time.sleep(0.02)
    assert {page.result()[0] for page in pages} == {503}
    assert 0 < peak <= 8, peak


def slow_clients():
    """Clients that send a byte now and then delay nobody."""
    with Web() as web, contextlib.ExitStack() as stack:
        for _ in range(50):
            client = stack.enter_context(socket.create_connection(web.address.split(":")))
            client.send(b"G")
        web.page("/")
        assert len(os.listdir(f"/proc/{web.process.pid}/task")) < 12


def bodies_are_small():
    """Of 100 MB the server reads almost nothing."""
    with Web() as web:
        for head in ("Content-Length: 100000000", "Transfer-Encoding: chunked"):
            with socket.create_connection(web.address.split(":")) as client:
                client.sendall(f"POST / HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
                if "chunked" in head:
                    client.sendall(b"200000\r\n" + b"x" * 0x100000)
                assert client.recv(100).startswith(b"HTTP/1.1 413 "), head
                with contextlib.suppress(ConnectionError):
                    for _ in range(100):
                        client.sendall(b"x" * 10 ** 6)
        peak = int(re.search(r"VmHWM:\s*(\d+)", common.read(f"/proc/{web.process.pid}/status"))[1])
        assert peak < 90_000, peak
        web.page("/")


def jobs_are_edited():
    """Added, copied, changed and removed, as the form says; what is wrong, as the program says."""
    name, command = "new <b>&'\"", "sh -c 'echo \"$HOME\" <b>&amp;\nexit' ''"
    with Web() as web:
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
        assert not job_of(name) and one("SELECT count(*) FROM job") == len(MADE)
        where = post("/add", name=name, cron="30 4 * * *", timezone="Europe/Berlin", misfire="once",
                     block="cover", dst="clock", timeout="90s", grace="2s", command=command,
                     retries="3", backoff="5s", jitter="1m", alarm="tick")
        assert where == "/runs?" + urllib.parse.urlencode({"job": name}), where
        ident, *job, _, argv = job_of(name)
        assert job == ["30 4 * * *", None, "Europe/Berlin", "clock", "once", "cover", 90 * S, 2 * S,
                       3, 5 * S, 60 * S, "tick"], job
        assert argv == ["sh", "-c", 'echo "$HOME" <b>&amp;\nexit', ""], argv
        assert last_change()[:3] == ("boss", name, "add") and "'echo \"$HOME\"" in last_change()[3]
        add_run(name, START, "done", START, 5, 0)
        # A form that is sent as it came changes nothing, but that every so often begins anew.
        for fields, shown in (
                ({}, "Europe/Berlin"),
                ({"cron": "", "timezone": "", "every": "1500ms", "command": "x"}, "every 1500 ms"),
                ({"every": "", "at": "2099-01-31 13:00", "timezone": "Asia/Tokyo"}, "once, Asia"),
                ({"after": "tick:end", "alarm": ""}, "after tick: end"),
                ({"at": "", "timezone": "", "script": "echo $1\r\n", "command": "-x"}, "after")):
            assert post(f"/change?id={ident}", **fields) == where, fields
            before = job_of(name)
            assert post(f"/change?id={ident}") == where, fields
            assert job_of(name) == before or shown[:5] == "every", (fields, before, job_of(name))
            page = web.page(where, word=shown)
            assert page.rows_of(RUNS), "its log is gone"
            if "Asia" in shown:
                assert before[13] == 4073515200 * S, before
        assert before[-1] == ["echo $1\n", "script", "-x"], before
        post(f"/add?id={ident}", name="a copy")
        assert job_of("a copy")[1:] == before[1:]
        changes = web.page(where).rows_of(CHANGES)
        assert [row["Change"].split()[0] for row in changes][:3] == ["change"] * 3
        assert all(row["Who"] == "boss" for row in changes) and name == changes[0]["Job"]
        for job in (name, "a copy"):
            assert post(f"/remove?id={job_of(job)[0]}") == "/"
            assert not job_of(job)
        assert last_change() == ("boss", "a copy", "remove", "", None)
        assert web.ask("/change?id=123456")[0] == web.ask("/remove?id=0")[0] == 404
        # All of them, also those that failed.
        changes = list(web.rows("/changes", CHANGES))
        assert len(changes) == one("SELECT count(*) FROM web_change")
        assert any("there is a job 'tick' already" in row["Error"] for row in changes)


def only_users():
    """Who has not signed in, whose cookie is forged, or who was removed sees nothing."""
    with Web(user=None) as web:
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
                       good.replace(".", "x.", 1), "hwtimer_jobs=" + "x" * 4000):
            web.cookie = forged
            assert web.ask("/")[0] == 303, forged
        # A session ends with its user, with its password, and when its cookie is deleted.
        for end in (lambda: add_user("guest", password="another horse"),
                    lambda: program(here["db"].name(), "--remove-user", "guest"),
                    lambda: web.post("/sign-out", page="/")):
            add_user("guest")
            assert web.sign_in("guest")[0] == 303 and web.ask("/")[0] == 200
            end()
            assert web.ask("/")[0] == 303


def read_only_users():
    """They see no commands, and change nothing."""
    ident = id_of("tick")
    with Web() as web:
        web.post("/add", {"name": "hidden", "every": "1h", "command": "cat secret"})
        web.post(f"/remove?id={id_of('hidden')}")
    with Web(user="reader") as web:
        assert "secret" not in web.page("/changes", word="hidden").text
        assert "/add" not in web.page("/").links.values()
        for path in ("/add", f"/add?id={ident}", f"/change?id={ident}", f"/remove?id={ident}"):
            web.page(path, 403)
            fields = {"name": "x", "every": "1h", "command": "true"}
            assert web.post(path, fields, "/")[0] == 403
    assert id_of("tick") == ident and not job_of("x")


def forged_forms():
    """Another site lets a browser send a form, with the user's cookie but without its token."""
    form = {"name": "forged", "every": "1h", "command": "true"}
    with Web() as web, Web() as other:
        foreign = other.page("/").fields["csrf_token"]
        for path in ("/add", "/sign-out", "/sign-in", f"/remove?id={id_of('tick')}"):
            for token in "", "x", foreign:
                status, _, body = web.post(path, form | {"csrf_token": token}, "/")
                assert status == 400 and "CSRF" in body, (path, token)
        assert web.post("/add", form, Host="evil.example")[0] == 403
        assert web.ask("/")[0] == 200, "signed out"
    assert not job_of("forged") and job_of("tick")


def api():
    """Jobs for programs; of forged tokens, readers and hostile bodies nothing remains."""
    boss, reader = new_token("boss"), new_token("reader")
    job = {"name": "by/<api>", "cron": "@daily", "timezone": "UTC", "command": ["echo", "<&>\n"]}
    with Web() as web:
        status, made = web.api("jobs", "POST", job, boss)
        assert status == 201 and made["timezone"] == "UTC" and made["command"] == job["command"]
        assert last_change()[:3] == ("boss", "by/<api>", "add")
        assert job_of("by/<api>")[1] == "@daily"
        path = "jobs/" + urllib.parse.quote(job["name"], safe="")
        add_run(job["name"], START, "done", START, 5, 3)
        change = {"every": "1500ms", "broadcast": False, "again": True, "command": ["true"]}
        status, now = web.api(path, "PUT", change, boss)
        assert status == 200 and now["every"] == 15 * 10 ** 8 and not now["cron"], now
        assert now["again"] and not now["route"], now
        status, shown = web.api(path, key=reader)
        assert status == 200 and "command" not in shown and shown["runs"][0]["status"] == 3, shown
        before, good = job_of(job["name"]), {"every": "1h", "command": ["x"]}
        for method, where, sent, want in (
                ("POST", "jobs", job, 400), ("PUT", "jobs/nobody", {"command": ["x"]}, 400),
                ("GET", "jobs/nobody", None, 404), ("PUT", path, {"every": "1h"}, 400),
                ("PUT", path, good | {"every": 5}, 400),
                ("PUT", path, good | {"again": "false"}, 400),
                ("PUT", path, good | {"command": "x"}, 400),
                ("PUT", path, good | {"command": ["x", 1]}, 400),
                ("PUT", path, good | {"command": ["\ud800"]}, 400),
                ("PUT", path, good | {"command": ["\0"]}, 400),
                ("PUT", path, good | {"colour": "red"}, 400),
                ("PUT", path, [job], 400), ("PUT", path, b"{", 400), ("PUT", path, b"\xff", 400),
                ("DELETE", "jobs/nobody", None, 400), ("POST", "jobs/nobody/start", None, 400),
                ("POST", path + "/end", None, 405), ("GET", f"runs/{2 ** 63}", None, 404)):
            status, answer = web.api(where, method, sent, boss)
            assert status == want and answer["error"], (where, sent, status, answer)
        for key, want in ((reader, 403), (boss[:-1], 401), ("x", 401), (boss + "\xe4", 401)):
            assert web.api(path, "PUT", good, key)[0] == want, key
        # The cookie of a browser is no token, and a token opens no page.
        assert web.ask("/api/" + path)[0] == 401
        web.cookie = ""
        assert web.ask("/", Authorization=f"Bearer {boss}")[0] == 303
        new_token("boss")
        assert web.api(path, key=boss)[0] == 401, "the last token is still valid"
        assert job_of(job["name"]) == before
    jobs("db", "remove", job["name"])


def acts():
    """A scheduler does what buttons and the API ask for; outputs are shown, but not to readers. The
    last test, because the scheduler finds runs of others."""
    jobs("db", "add", "acts", "--at", "never", "--", "sh", "-c",
         f"echo '<b>begun'; {common.UNTIL_GO}; echo finished")
    key, ident, log = new_token("boss"), id_of("acts"), "/runs?job=acts"

    def act(verb):
        status, answer = web.api(f"jobs/acts/{verb}", "POST", key=key)
        assert status == 200, answer
        return answer

    def run(number):
        return web.api(f"runs/{number}", key=key)[1]

    # Not the scheduler of other tests' jobs.
    sql("UPDATE job SET paused = 1 WHERE name <> 'acts'")
    with Web() as web, Web(user="reader") as other:
        scheduler = Scheduler()
        assert web.post(f"/start?id={ident}", page=log)[0] == 303
        wait("= 1 started acts")
        first = one(f"SELECT max(id) FROM run WHERE job = {ident}")
        wait(lambda: run(first)["output"])
        row = web.page(log).rows_of(RUNS)[0]
        assert (row["State"], row["Cause"], row["Output"]) == ("started", "start", "Show"), row
        assert "finished" not in web.page(web.page(log).links["Show"], word="<b>begun").text
        assert web.post(f"/stop?id={ident}", page=log)[0] == 303
        wait(lambda: run(first)["state"] == "stopped")
        assert web.post(f"/stop?id={ident}", page=log)[0] == 409
        second = act("start")["run"]
        go()
        wait(lambda: run(second)["state"] == "done")
        assert run(second)["output"] == {"size": 18, "head": "<b>begun\nfinished\n", "tail": ""}
        assert web.post(f"/pause?id={ident}", page=log)[0] == 303
        assert re.search(r"Next due\s*paused", web.page(log).text)
        assert act("resume")["paused"] == 0 and "never" in web.page(log).text
        assert last_change()[:3] == ("boss", "acts", "resume")
        assert other.post(f"/start?id={ident}", page="/")[0] == 403
        assert other.ask(f"/output?run={second}")[0] == 403
        assert "Output" not in other.page(log).rows_of(RUNS)[0]
        assert web.ask("/output?run=123456")[0] == 404 and web.ask("/start?id=7")[0] == 405
        assert web.api("jobs/acts", "DELETE", key=key)[0] == 204
        assert not job_of("acts")
        scheduler.end()
    sql("UPDATE job SET paused = 0")


def overview():
    """It counts the due times of the last 24 hours."""
    now = time.time_ns()
    for number, (age, state, status) in enumerate((
            (0, "done", 0), (2, "done", 0), (2, "done", 3), (2, "covered", None), (30, "done", 0),
            (-1, "planned", None))):
        add_run("many01", now - age * 3600 * S - number, state, status=status)
    with Web() as web:
        page = web.page("/overview")
    sql("DELETE FROM run WHERE job = %s", id_of("many01"))
    assert re.search(rf"Jobs\s*{len(MADE)}, of which 1 run now", page.text), page.text
    assert re.search("2 done, 1 (failed, 1 covered|covered, 1 failed)", page.text), page.text
    bars = [(bar.get("x"), bar.get("class"), bar.get("height")) for bar in page.all("rect")]
    assert bars == [("210", "", "33.3"), ("210", "bad", "33.3"), ("210", "busy", "33.3"),
                    ("230", "", "33.3")], bars


@contextlib.contextmanager
def chromium(width):
    """With a width, it is a telephone."""
    options = webdriver.ChromeOptions()
    for word in "headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1400,900":
        options.add_argument("--" + word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if width:
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": {
            "width": width, "height": 800, "pixelRatio": 1.0}})
    driver = webdriver.Chrome(options=options)
    yield driver
    driver.quit()


def fill_in(driver, button, **fields):
    """A form, as a person does."""
    before = driver.current_url
    for name, text in fields.items():
        driver.find_element("name", name).send_keys(text)
    driver.find_element("xpath", f"//main//button[text()='{button}']").click()
    wait(lambda: driver.current_url != before)     # all of our forms lead elsewhere


def in_a_browser():
    """Wide and narrow, nothing is cut off, the style is used, and no markup of names is obeyed."""
    add_run("many02", time.time_ns(), "done", time.time_ns(), 5, 0)
    for width, display in ((None, "table-cell"), (360, "grid")):
        with Web(user=None) as web, chromium(width) as driver:
            driver.get(web.url)
            fill_in(driver, "Sign in", name="boss", password=PASSWORD)
            for path in ("", "overview", "runs", "add", f"runs?job={urllib.parse.quote(EVIL)}",
                         f"runs?job={LONG}"):
                driver.get(web.url + path)
                size, inner, style = driver.execute_script("""
                    const cell = document.querySelector("td:not(.none)");
                    return [document.documentElement.scrollWidth, innerWidth,
                            cell && getComputedStyle(cell).display];""")
                assert size <= inner == (width or inner), (path, size)
                assert style in (display, path in ("add", f"runs?job={LONG}") and None), path
            driver.get(web.url + "add")
            fill_in(driver, "Add", name=display, every="15m", command="sh -c 'exit 1'")
            assert job_of(display)[14] == ["sh", "-c", "exit 1"]
            driver.get(f"{web.url}remove?id={id_of(display)}")
            fill_in(driver, "Remove")
            assert not job_of(display) and not driver.get_log("browser")
    sql("DELETE FROM run WHERE job = %s", id_of("many02"))


def owners_are_shown():
    now = time.time_ns()
    for name, lease, schedules, tags, places in (
            ("here:1", now + 1000 * S, True, "", 0), ("there:<2>", START, True, "", 0),
            ("far", now + 1000 * S, False, "eu,gpu", 7)):
        sql("INSERT INTO executor (name, lease, schedules, tags, places) VALUES (%s, %s, %s, %s, "
            "%s)", name, lease, schedules, tags, places)
    ids = dict(sql("SELECT name, id FROM executor"))
    sql("INSERT INTO known VALUES ('absent', 'x')")
    sql("UPDATE job SET owner = %s WHERE name LIKE 'many0%%'", ids["here:1"])
    sql("UPDATE job SET owner = %s WHERE name = 'tick'", ids["there:<2>"])
    sql("UPDATE run SET holder = %s WHERE due = %s", ids["far"], START + 1000 * S)
    sql("UPDATE run SET executor = 'there:<2>', shard = 1, shards = 3 WHERE due = %s",
        START + 3 * S)
    ended = "ended 2026-05-28 20:26:40.000"
    with Web() as web:
        rows = web.page("/overview").rows_of(
            r"Schedulers and executors, at 20[-\d]* [:\d]*\.\d* by the database's clock")
        columns = "Name", "Is", "Tags", "Owns jobs", "Has runs", "Places"
        assert [[row[column] for column in columns] for row in rows] == [
            ["here:1", "scheduler", "–", "10", "0", "–"],
            ["there:<2>", "scheduler", "–", "1", "0", "–"],
            ["absent", "executor", "–", "0", "0", "–"],
            ["far", "executor", "eu,gpu", "0", "1", "7"]], rows
        assert [row["Its lease"] for row in rows][1:3] == [ended, "absent"], rows
        assert rows[0]["Its lease"].startswith("until 2"), rows
        owner = {row["Job"]: row["Owner"] for row in web.rows("/", "All jobs")}
        assert owner["tick"] == f"there:<2>, {ended}", owner
        assert owner["many03"].startswith("here:1, until 2") and owner["many30"] == "–", owner
        page = web.page("/runs?job=tick&state=covered")
        assert re.search(r"Owner\s*there:<2>, ended 2026", page.text)
        assert [row["Executor"] for row in page.rows_of(RUNS)
                if is_close(row["Due"], START + 3 * S)] == ["there:<2> (2 of 3)"]
        web.page("/runs?job=caf%FF%00", 404, "There is no job 'caf?")


def no_postgres():
    """There is none at that address, or it has no such tables."""
    name = here["db"].name()
    for change, environment, word in (
            ("port=1", "", "No such file"), ("dbname=none", "", "does not exist"),
            ("dbname=postgres", "", "no database of jobs"),
            ("", "-c search_path=none", "no database of jobs")):
        with Web(name=f"{name} {change}", user=None, PGOPTIONS=environment) as web:
            web.page("/", 503, word)
    assert 'invalid connection option "y"' in program("host=x y=z", status=1)
    said = program("postgresql://me:secret@host/jobs?x=y", status=1)
    assert '"x"' in said and "secret" not in said, said


def names_in_other_bytes():
    """A name that is not UTF-8 is shown, and leads to its job."""
    jobs("db", "add", b"caf\xe9", "--every", "1h", "--", "true")
    with Web() as web:
        web.page("/runs?job=caf%E9", word="Job caf?")
        assert web.page("/?after=cae").links["caf?"] == "/runs?job=caf%E9"
    jobs("db", "remove", b"caf\xe9")


def starts():
    name = here["db"].name()
    with Web() as web:
        assert program(name, "--listen", web.address, status=1) == \
            f"hwtimer-jobs-web: {web.address}: Address already in use\n"
    for listen, word in (
            *((listen, "without encryption, only loopback")
              for listen in ("0.0.0.0:0", "[::]:0", "jobs.example:0")),
            *((listen, "ADDRESS:PORT, not") for listen in
              ("8080", "localhost:http", "localhost:65536", "localhost:-1", "[]:1", ":1"))):
        assert word in program(name, "--listen", listen, status=2), listen
    with Web("--listen", "0.0.0.0:0", "--proxy", "jobs.example", user=None) as web:
        web.address = web.address.replace("0.0.0.0", "127.0.0.1")
        cookie = web.ask("/sign-in", Host="jobs.example")[1]["Set-Cookie"]
        assert "Secure;" in cookie and "HttpOnly;" in cookie and "SameSite=Strict" in cookie, cookie
    assert program(name, "--remove-user", "nobody", status=1) == \
        "hwtimer-jobs-web: there is no user 'nobody'\n"
    program(status=2)
    assert "[127.0.0.1:8080]" in program("--help")
    with Web("--listen", "[::1]:0") as web:
        assert web.url.startswith("http://[::1]:")
        web.page("/")


TESTS = [jobs_are_shown, due_next_is_shown, log_is_shown, job_is_shown, names_are_escaped,
         bad_parameters, headers_protect, database_is_away, long_queries_end, zones,
         only_users, jobs_are_edited, read_only_users, forged_forms, api, overview,
         pages_are_stable, equal_due_times]
POSTGRES_TESTS = [owners_are_shown, no_postgres, few_sessions, slow_pages_end, acts]
SQLITE_TESTS = [no_database_of_jobs, starts, names_in_other_bytes, slow_clients, bodies_are_small,
                in_a_browser, acts]
WEB = os.path.abspath(sys.argv[2])


def main():
    def case(database, test):
        def run():
            here["db"] = database
            if database not in filled:
                fill()
            filled.append(database)
            test()
        return f"{database.kind}.{test.__name__}", run
    filled, sqlite, postgresql = [], Sqlite(), Postgres(sys.argv[3])
    os.environ["PATH"] = f"{os.path.dirname(JOBS)}:{os.environ['PATH']}"
    common.main([case(sqlite, test) for test in TESTS + SQLITE_TESTS] +
                [case(postgresql, test) for test in TESTS + POSTGRES_TESTS], sys.argv[4:])


if __name__ == "__main__":
    main()
