# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""The database of jobs, in SQLite or PostgreSQL. Each page has a connection and a transaction of its
own, so a database that was missing or locked is used as soon as it is back."""
import contextlib
import importlib
import os
import re
import sqlite3
import time
import urllib.parse

import werkzeug.exceptions

QUERY_S = 5         # how long a page may use the database
BUSY_S = 1          # how long it waits for a lock
VERSION = 2         # SCHEMA_VERSION in schema.h
NO_USERS = "There are no users yet: hwtimer-jobs-web DB --add-user NAME adds one."
TOO_LONG = f"This takes longer than {QUERY_S} s. One job's runs may take less."


class Problem(werkzeug.exceptions.HTTPException):
    """The answer is an error: its status, and a text for the reader."""

    def __init__(self, status, text):
        super().__init__(text)
        self.code = status

    def __str__(self):
        return self.description


def check_version(row):
    if row[0] != VERSION:
        raise Problem(503, "Another version of jobs made these tables.")


class Sqlite:
    """Has one scheduler, so jobs have no owner."""
    owners = False

    serial = "INTEGER PRIMARY KEY AUTOINCREMENT"

    def __init__(self, path):
        self.name = self.path = path
        self.title = os.path.basename(path)

    @contextlib.contextmanager
    def open(self, write=False):
        """A connection in a transaction that ends after QUERY_S."""
        mode = "rw" if write else "ro"
        uri = f"file:{urllib.parse.quote(os.fsencode(self.path))}?mode={mode}"
        deadline = time.monotonic() + QUERY_S
        try:
            with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S,
                                                    isolation_level=None)) as db:
                db.row_factory = sqlite3.Row
                # Names are what bytes somebody gave.
                db.text_factory = lambda text: text.decode(errors="surrogateescape")
                db.set_progress_handler(lambda: time.monotonic() > deadline, 10000)
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                if tuple(db.execute("PRAGMA application_id").fetchone()) != (0x6a6f6273,):
                    raise Problem(503, "This is no database of jobs.")
                check_version(db.execute("PRAGMA user_version").fetchone())
                yield lambda sql, *values: db.execute(sql.replace("%s", "?"), values).fetchall()
                db.execute("COMMIT")
        except sqlite3.Error as error:
            raise Problem(503, self.explain(str(error))) from error

    def explain(self, error):
        if error == "interrupted":
            return TOO_LONG
        if "no such table: web_" in error:
            return NO_USERS
        if "unable to open" in error and not os.path.exists(self.path):
            return "The database is not there."
        if "readonly" in error or "unable to open" in error:
            # SQLite creates files beside the database unless a scheduler has them open.
            return (f"{error}. While no scheduler runs, only a user who may write to the "
                    "database's directory can read it.")
        return f"The database cannot be read now: {error}."

    @staticmethod
    def text(name):
        return name.encode(errors="surrogateescape")

    @staticmethod
    def now(_):
        return time.time_ns()


class Postgres:
    owners = True
    serial = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"

    def __init__(self, name):
        self.name = name
        self.psycopg2 = importlib.import_module("psycopg2.extras").psycopg2
        try:
            self.settings = self.psycopg2.extensions.parse_dsn(name)
        except self.psycopg2.Error as error:
            raise ValueError(str(error).strip()) from error     # the name may have a password
        self.title = self.settings.get("dbname", "PostgreSQL")
        self.settings["options"] = (
            f"{self.settings.get('options', os.environ.get('PGOPTIONS', ''))} "
            f"-c statement_timeout={QUERY_S}s -c lock_timeout={BUSY_S}s")
        self.settings |= {"connect_timeout": QUERY_S, "client_encoding": "UTF8",
                          "application_name": "hwtimer-jobs-web",
                          "tcp_user_timeout": QUERY_S * 1000, "keepalives_idle": QUERY_S,
                          "keepalives_interval": BUSY_S, "keepalives_count": 3}

    @contextlib.contextmanager
    def open(self, write=False):
        """A connection in a transaction. No query takes longer than QUERY_S, and none begins
        later."""
        def query(sql, *values):
            if time.monotonic() > deadline:
                raise Problem(503, TOO_LONG)
            cursor.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

        errors = self.psycopg2.errors
        try:
            with contextlib.closing(self.psycopg2.connect(**self.settings)) as db:
                db.set_session(isolation_level="REPEATABLE READ", readonly=not write)
                deadline = time.monotonic() + QUERY_S
                cursor = db.cursor(cursor_factory=self.psycopg2.extras.DictCursor)
                check_version(*query("SELECT version FROM jobs_database"))
                yield query
                db.commit()
        except (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction) as error:
            raise Problem(503, NO_USERS if '"web_' in str(error) else
                          "This is no database of jobs.") from error
        except errors.QueryCanceled as error:
            raise Problem(503, TOO_LONG) from error
        except self.psycopg2.Error as error:
            raise Problem(503, f"The database cannot be read now: {error}") from error

    @staticmethod
    def text(name):
        """A name that this changes is in no database."""
        return name.encode(errors="replace").decode().replace("\0", "?")

    @staticmethod
    def now(db):
        return db("SELECT now_ns()")[0][0]


def store_of(name):
    """The store of this name. The same names mean PostgreSQL as for hwtimer-jobs."""
    if re.match("postgres(ql)?://|[a-z_]*=", name):
        return Postgres(name)
    return Sqlite(name)
